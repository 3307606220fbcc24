//! Loops.

use super::Location;
use crate::exports::{exports, exports_from};
use crate::settings::{self, Kind};
use crate::thread::{Thread, here};
use crate::work::{self, LoopStart};
use std::sync::atomic::Ordering;

/// A schedule as clang says it for a loop of so many iterations, and whether the loop is ordered.
fn schedule(number: i32, chunk: i64, count: u64) -> (Kind, i64, bool) {
    const MONOTONIC: i32 = 1 << 29;
    const NONMONOTONIC: i32 = 1 << 30;
    let modifier = number & (MONOTONIC | NONMONOTONIC);
    let number = number & !(MONOTONIC | NONMONOTONIC);
    let number = if number >= 160 { number - 128 } else { number };
    let (number, is_ordered) = if (65..=72).contains(&number) { (number - 32, true) } else { (number, false) };
    let (kind, chunk) = match number {
        33 => (Kind::Static, chunk.max(1)),
        35 | 44 => (Kind::Returning, chunk.max(1)),
        36 | 39 | 42 | 43 | 46 => (Kind::Guided, chunk.max(1)),
        37 => here().task().icv.schedule.of_loop(),
        // As many chunks, each of so many iterations; without a number, each thread has one part of so many or a multiple.
        47 => match here().task().icv.schedule.of_loop() {
            (Kind::Static, 0) => {
                let each = count.div_ceil(u64::from(here().team().size)).max(1);
                (Kind::Static, each.next_multiple_of(chunk.max(1) as u64) as i64)
            }
            (kind, chunks) => (kind, chunks.max(1) * chunk.max(1)),
        },
        _ => (Kind::Static, 0),
    };
    // Compilers for OpenMP before 5.0 say neither, and their loops go in order. `runtime` has its own modifier.
    let is_returning = modifier == NONMONOTONIC || (modifier == 0 && matches!(number, 37 | 44 | 47));
    (if is_returning { kind } else { kind.monotonic() }, chunk, is_ordered)
}

/// How many iterations a loop has whose last one is `upper` or before.
fn count(lower: i64, upper: i64, step: i64, is_signed: bool) -> u64 {
    let is_before =
        |low: i64, high: i64| if is_signed { low <= high } else { low.cast_unsigned() <= high.cast_unsigned() };
    let (low, high) = if step >= 0 { (lower, upper) } else { (upper, lower) };
    if is_before(low, high) { (high.wrapping_sub(low) as u64 / step.unsigned_abs().max(1)).wrapping_add(1) } else { 0 }
}

/// What a thread has of a loop: its first part from `lower` to `upper`, and how far the next one is.
struct Part {
    is_last: bool,
    lower: i64,
    upper: i64,
    stride: i64,
}

/// The part of thread `number` of `size`.
fn part(
    sched: i32,
    (lower, upper, step): (i64, i64, i64),
    chunk: i64,
    is_signed: bool,
    number: u64,
    size: u64,
) -> Part {
    let count = count(lower, upper, step, is_signed);
    let sched = sched & !(3 << 29);
    let value = |iteration: u64| lower.wrapping_add((iteration as i64).wrapping_mul(step));
    let stride = |iterations: u64| (iterations as i64).wrapping_mul(step);
    if count == 0 {
        return Part { is_last: false, lower, upper, stride: step };
    }
    match sched {
        // Parts of a given length, in turn.
        33 | 65 | 91 | 161 => {
            let chunk = chunk.max(1) as u64;
            let first = number.wrapping_mul(chunk);
            Part {
                is_last: (count - 1) / chunk % size == number,
                lower: value(first),
                upper: value(first).wrapping_add(stride(chunk)).wrapping_sub(step),
                stride: stride(chunk.wrapping_mul(size)),
            }
        }
        _ => {
            let (mut each, mut more) = (count / size, count % size);
            if sched == 45 {
                let chunk = chunk.max(1) as u64;
                (each, more) = (count.div_ceil(size).next_multiple_of(chunk), 0);
            }
            let low = each * number + number.min(more);
            let high = (low + each + u64::from(number < more)).min(count);
            let stride = stride(count);
            if low >= high {
                // None: it begins behind its end.
                return Part { is_last: false, lower: value(count), upper: value(count - 1), stride };
            }
            Part { is_last: high == count, lower: value(low), upper: value(high - 1), stride }
        }
    }
}

/// Who is counted for a schedule: the teams of a league (`distribute`), or the threads of a team.
fn shares(sched: i32) -> (u64, u64) {
    let thread = here();
    if matches!(sched & !(3 << 29), 91 | 92) {
        return (u64::from(thread.league.0), u64::from(thread.league.1));
    }
    (u64::from(thread.number), u64::from(thread.team().size))
}

/// Takes the next part of a loop that is dealt out as it goes. The thread leaves the loop if there is none.
fn next(thread: &mut Thread) -> Option<(bool, u64, u64)> {
    let is_cancelled = settings::get().cancels
        && (thread.team().cancelled_loop.load(Ordering::Relaxed) == thread.gathers + 1
            || thread.team().meetings.is_cancelled());
    if is_cancelled || !work::next(thread) {
        work::leave(thread);
        return None;
    }
    let work = &thread.work;
    let is_last = work.high == work.start.count;
    Some((is_last, work.start.value(work.low), work.start.value(work.high - 1)))
}

macro_rules! loops {
    ($($type:ty, $step:ty, $is_signed:literal, $static:ident $team:ident $dist:ident $init:ident $dist_init:ident
        $next:ident $fini:ident;)*) => {
        exports_from! {$(
            "VERSION":
            fn $init(
                _location: Location, _thread: i32, sched: i32, lower: $type, upper: $type, step: $step, chunk: $step,
            ) {
                let (lower, upper, step) = (lower as i64, upper as i64, i64::from(step));
                let count = count(lower, upper, step, $is_signed);
                let (kind, chunk, is_ordered) = schedule(sched, i64::from(chunk), count);
                let (first, step, chunk) = (lower as u64, step as u64, chunk as u64);
                work::begin(here(), LoopStart::counted(kind, chunk, count, first, step).ordered(is_ordered));
            }
        )*}
        exports! {$(
            "VERSION":
            fn $static(
                _location: Location, _thread: i32, sched: i32, last: *mut i32, lower: *mut $type, upper: *mut $type,
                stride: *mut $step, step: $step, chunk: $step,
            ) {
                let (number, size) = shares(sched);
                unsafe {
                    let bounds = (*lower as i64, *upper as i64, i64::from(step));
                    let part = part(sched, bounds, i64::from(chunk), $is_signed, number, size);
                    *lower = part.lower as $type;
                    *upper = part.upper as $type;
                    *stride = part.stride as $step;
                    if !last.is_null() {
                        *last = i32::from(part.is_last);
                    }
                }
            }

            "VERSION":
            fn $team(
                _location: Location, _thread: i32, last: *mut i32, lower: *mut $type, upper: *mut $type,
                stride: *mut $step, step: $step, chunk: $step,
            ) {
                let (number, size) = shares(91);
                unsafe {
                    let bounds = (*lower as i64, *upper as i64, i64::from(step));
                    let part = part(91, bounds, i64::from(chunk), $is_signed, number, size);
                    *lower = part.lower as $type;
                    *upper = part.upper as $type;
                    *stride = part.stride as $step;
                    if !last.is_null() {
                        *last = i32::from(part.is_last);
                    }
                }
            }

            "VERSION":
            fn $dist(
                _location: Location, _thread: i32, sched: i32, last: *mut i32, lower: *mut $type, upper: *mut $type,
                team_upper: *mut $type, stride: *mut $step, step: $step, chunk: $step,
            ) {
                let (team, teams) = shares(92);
                unsafe {
                    let bounds = (*lower as i64, *upper as i64, i64::from(step));
                    let own = part(92, bounds, 0, $is_signed, team, teams);
                    *team_upper = own.upper as $type;
                    let (number, size) = shares(sched);
                    let bounds = (own.lower, own.upper, i64::from(step));
                    let part = part(sched, bounds, i64::from(chunk), $is_signed, number, size);
                    *lower = part.lower as $type;
                    *upper = part.upper as $type;
                    *stride = part.stride as $step;
                    if !last.is_null() {
                        *last = i32::from(part.is_last && own.is_last);
                    }
                }
            }

            "VERSION":
            fn $dist_init(
                _location: Location, _thread: i32, sched: i32, _last: *mut i32, lower: $type, upper: $type,
                step: $step, chunk: $step,
            ) {
                let (team, teams) = shares(92);
                let bounds = (lower as i64, upper as i64, i64::from(step));
                let own = part(92, bounds, 0, $is_signed, team, teams);
                let count = count(own.lower, own.upper, bounds.2, $is_signed);
                let (kind, chunk, is_ordered) = schedule(sched, i64::from(chunk), count);
                let (first, step, chunk) = (own.lower as u64, bounds.2 as u64, chunk as u64);
                work::begin(here(), LoopStart::counted(kind, chunk, count, first, step).ordered(is_ordered));
            }

            "VERSION":
            fn $next(
                _location: Location, _thread: i32, last: *mut i32, lower: *mut $type, upper: *mut $type,
                stride: *mut $step,
            ) -> i32 {
                let thread = here();
                let step = thread.work.start.step;
                let Some((is_last, low, high)) = next(thread) else { return 0 };
                unsafe {
                    *lower = low as $type;
                    *upper = high as $type;
                    if !stride.is_null() {
                        *stride = step as $step;
                    }
                    if !last.is_null() {
                        *last = i32::from(is_last);
                    }
                }
                1
            }

            "VERSION":
            /// An iteration of an ordered loop is over; those of a part have their turn together.
            fn $fini(_location: Location, _thread: i32) {}
        )*}
    };
}

loops! {
    i32, i32, true, __kmpc_for_static_init_4 __kmpc_team_static_init_4 __kmpc_dist_for_static_init_4
        __kmpc_dispatch_init_4 __kmpc_dist_dispatch_init_4 __kmpc_dispatch_next_4 __kmpc_dispatch_fini_4;
    u32, i32, false, __kmpc_for_static_init_4u __kmpc_team_static_init_4u __kmpc_dist_for_static_init_4u
        __kmpc_dispatch_init_4u __kmpc_dist_dispatch_init_4u __kmpc_dispatch_next_4u __kmpc_dispatch_fini_4u;
    i64, i64, true, __kmpc_for_static_init_8 __kmpc_team_static_init_8 __kmpc_dist_for_static_init_8
        __kmpc_dispatch_init_8 __kmpc_dist_dispatch_init_8 __kmpc_dispatch_next_8 __kmpc_dispatch_fini_8;
    u64, i64, false, __kmpc_for_static_init_8u __kmpc_team_static_init_8u __kmpc_dist_for_static_init_8u
        __kmpc_dispatch_init_8u __kmpc_dist_dispatch_init_8u __kmpc_dispatch_next_8u __kmpc_dispatch_fini_8u;
}

/// A dimension of a loop whose iterations wait for each other.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Dimension {
    lower: i64,
    upper: i64,
    step: i64,
}

/// The values of the variables of an iteration.
unsafe fn values(at: *const i64) -> impl Iterator<Item = i64> {
    let dimensions = work::across().map_or(0, work::Across::dimensions);
    (0..dimensions).map(move |dimension| unsafe { *at.add(dimension) })
}

exports! {
    "VERSION":
    fn __kmpc_for_static_fini(_location: Location, _thread: i32) {}

    "VERSION":
    fn __kmpc_dispatch_deinit(_location: Location, _thread: i32) {
        let thread = here();
        if !thread.work.is_none() {
            work::leave(thread);
        }
    }

    "VERSION":
    fn __kmpc_doacross_init(_location: Location, _thread: i32, count_of: i32, dimensions: *const Dimension) {
        work::begin_across(here(), || {
            let dimensions = (0..count_of.max(0) as usize).map(|at| unsafe { *dimensions.add(at) });
            dimensions.map(|one| (one.lower, one.step, count(one.lower, one.upper, one.step, true))).collect()
        });
    }

    "VERSION":
    fn __kmpc_doacross_post(_location: Location, _thread: i32, at: *const i64) {
        work::post(unsafe { values(at) });
    }

    "VERSION":
    fn __kmpc_doacross_wait(_location: Location, _thread: i32, at: *const i64) {
        work::await_iteration(unsafe { values(at) });
    }

    "VERSION":
    fn __kmpc_doacross_fini(_location: Location, _thread: i32) {
        work::leave_across(here());
    }
}
