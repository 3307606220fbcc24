//! Loops.

use super::Location;
use crate::exports::{exports, exports_from};
use crate::settings::{self, Kind};
use crate::thread::{Thread, here};
use crate::work::{self, LoopStart};
use std::sync::atomic::Ordering;

/// clang's schedule of a loop with `count` iterations, and whether the loop is ordered.
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
        // The `runtime` schedule's number of chunks at a time; without a number, each thread has one part, rounded up
        // to a multiple of the chunk.
        47 => match here().task().icv.schedule.of_loop() {
            (Kind::Static, 0) => {
                let each = count.div_ceil(u64::from(here().team().size)).max(1);
                let each = each.checked_next_multiple_of(chunk.max(1) as u64);
                // More than there is counts for all of it.
                (Kind::Static, each.and_then(|each| i64::try_from(each).ok()).unwrap_or(i64::MAX))
            }
            (kind, chunks) => (kind, chunks.max(1).saturating_mul(chunk.max(1))),
        },
        _ => (Kind::Static, 0),
    };
    // Compilers for OpenMP before 5.0 say neither, and their loops go in order. `runtime` has its own modifier.
    let is_returning = modifier == NONMONOTONIC || (modifier == 0 && matches!(number, 37 | 44 | 47));
    (if is_returning { kind } else { kind.monotonic() }, chunk, is_ordered)
}

/// A thread's part of a loop: its first piece from `lower` to `upper`, and the distance to the next one.
#[derive(Debug)]
struct Part {
    is_last: bool,
    is_empty: bool,
    lower: u64,
    upper: u64,
    stride: u64,
}

/// A loop in a compiler's terms: its bounds and its step, and the least and the greatest number of its type. All are
/// numbers modulo 2^64: unsigned ones as they are, signed ones with their sign in all upper bits. So the value of an
/// iteration is exact if the iteration exists.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    lower: u64,
    upper: u64,
    step: i64,
    /// The loop has no iteration, by the type's order.
    is_empty: bool,
    least: u64,
    most: u64,
}

impl Bounds {
    /// A count one above the range wraps to none: no loop of C has as many.
    fn count(&self) -> u64 {
        let distance =
            if self.step >= 0 { self.upper.wrapping_sub(self.lower) } else { self.lower.wrapping_sub(self.upper) };
        if self.is_empty { 0 } else { (distance / self.step.unsigned_abs().max(1)).wrapping_add(1) }
    }

    /// The value of an iteration.
    fn value(&self, iteration: u64) -> u64 {
        self.lower.wrapping_add(iteration.wrapping_mul(self.step as u64))
    }

    /// Whether the numbers of the type go on for `steps` steps behind the last iteration.
    fn has_room(&self, count: u64, steps: Option<u64>) -> bool {
        let last = self.value(count - 1);
        let room = if self.step >= 0 { self.most.wrapping_sub(last) } else { last.wrapping_sub(self.least) };
        steps.and_then(|steps| steps.checked_mul(self.step.unsigned_abs())).is_some_and(|distance| distance <= room)
    }

    /// The iterations from `low` to before `high`, in one part.
    fn whole(&self, low: u64, high: u64, count: u64) -> Part {
        let stride = count.wrapping_mul(self.step as u64);
        if low < high {
            let (lower, upper) = (self.value(low), self.value(high - 1));
            return Part { is_last: high == count, is_empty: false, lower, upper, stride };
        }
        // None: it begins behind its end.
        let (lower, upper) = match (self.has_room(count, Some(1)), self.step >= 0) {
            (true, _) => (self.value(count), self.value(count - 1)),
            (false, true) => (self.most, self.least),
            (false, false) => (self.least, self.most),
        };
        Part { is_last: false, is_empty: true, lower, upper, stride }
    }

    /// The variant for compiler code that goes on by the stride: the stride leads beyond the end, and no further than
    /// the type's numbers go.
    fn only(&self, low: u64, high: u64, count: u64) -> Part {
        let part = self.whole(low, high, count);
        let furthest = if self.step >= 0 { self.most } else { self.least };
        let stride = match (part.is_empty, self.has_room(count, Some(1))) {
            (true, _) => self.step as u64,
            (false, true) => self.value(count).wrapping_sub(part.lower),
            (false, false) => furthest.wrapping_sub(part.lower),
        };
        Part { stride, ..part }
    }
}

/// The part of thread `number` of `size`.
fn part(sched: i32, bounds: Bounds, chunk: i64, number: u64, size: u64) -> Part {
    let count = bounds.count();
    let sched = sched & !(3 << 29);
    if count == 0 {
        let Bounds { lower, upper, .. } = bounds;
        return Part { is_last: false, is_empty: true, lower, upper, stride: bounds.step as u64 };
    }
    let each = match sched {
        // Parts of a given length, in turn. The compiler's code adds the stride to both bounds until the lower one is
        // beyond the loop's end, so the type must have room for such a number. If it has not, all of a thread's parts
        // are one.
        33 | 65 | 91 | 161 => {
            // More than there is counts for all of it.
            let chunk = (chunk.max(1) as u64).min(count);
            let parts = count.div_ceil(chunk);
            if parts > size && bounds.has_room(count, chunk.checked_mul(size).and_then(|turn| turn.checked_add(1))) {
                let lower = bounds.value(number * chunk);
                let span = chunk.wrapping_mul(bounds.step as u64);
                let upper = lower.wrapping_add(span).wrapping_sub(bounds.step as u64);
                let is_last = (parts - 1) % size == number;
                return Part { is_last, is_empty: false, lower, upper, stride: span.wrapping_mul(size) };
            }
            let each = parts.div_ceil(size).saturating_mul(chunk);
            let low = number.saturating_mul(each).min(count);
            return bounds.only(low, low.saturating_add(each).min(count), count);
        }
        45 => {
            let chunk = (chunk.max(1) as u64).min(count);
            count.div_ceil(size).checked_next_multiple_of(chunk).unwrap_or(count)
        }
        _ => {
            let (each, more) = (count / size, count % size);
            let low = each * number + number.min(more);
            return bounds.whole(low, low + each + u64::from(number < more), count);
        }
    };
    let low = each.saturating_mul(number).min(count);
    bounds.whole(low, low.saturating_add(each).min(count), count)
}

/// The shares of a schedule, and the caller's number: teams of a league (`distribute`), or threads of a team.
fn shares(sched: i32) -> (u64, u64) {
    let thread = here();
    if matches!(sched & !(3 << 29), 91 | 92) {
        return (u64::from(thread.league.0), u64::from(thread.league.1));
    }
    (u64::from(thread.number), u64::from(thread.team().size))
}

/// Takes the next part of a dynamic loop. The thread leaves the loop if there is none.
fn next(thread: &mut Thread) -> Option<(bool, u64, u64)> {
    let is_cancelled = settings::get().cancels
        && (thread.team().cancelled_loop.load(Ordering::Relaxed) == thread.sharing.gathers + 1
            || thread.team().meetings.is_cancelled());
    if is_cancelled || !work::next(thread) {
        work::leave(thread);
        return None;
    }
    let work = &thread.sharing.work;
    let is_last = work.high == work.start.count;
    Some((is_last, work.start.value(work.low), work.start.value(work.high - 1)))
}

/// The bounds of a loop over this type.
macro_rules! bounds {
    ($type:ty, $lower:expr, $upper:expr, $step:expr) => {
        Bounds {
            lower: $lower as u64,
            upper: $upper as u64,
            step: i64::from($step),
            is_empty: if $step >= 0 { $lower > $upper } else { $lower < $upper },
            least: <$type>::MIN as u64,
            most: <$type>::MAX as u64,
        }
    };
}

macro_rules! loops {
    ($($type:ty, $step:ty, $static:ident $team:ident $dist:ident $init:ident $dist_init:ident
        $next:ident $fini:ident;)*) => {
        exports_from! {$(
            "VERSION":
            fn $init(
                _location: Location, _thread: i32, sched: i32, lower: $type, upper: $type, step: $step, chunk: $step,
            ) {
                let count = bounds!($type, lower, upper, step).count();
                let (kind, chunk, is_ordered) = schedule(sched, i64::from(chunk), count);
                let (first, step, chunk) = (lower as u64, i64::from(step) as u64, chunk as u64);
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
                // SAFETY: rule "Interface": the addresses can be read and written; `last` may be null, and `stride` in
                // the last of the functions.
                unsafe {
                    let bounds = bounds!($type, *lower, *upper, step);
                    let part = part(sched, bounds, i64::from(chunk), number, size);
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
                // SAFETY: rule "Interface": the addresses can be read and written; `last` may be null, and `stride` in
                // the last of the functions.
                unsafe {
                    let bounds = bounds!($type, *lower, *upper, step);
                    let part = part(91, bounds, i64::from(chunk), number, size);
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
                // SAFETY: rule "Interface": the addresses can be read and written; `last` may be null, and `stride` in
                // the last of the functions.
                unsafe {
                    let bounds = bounds!($type, *lower, *upper, step);
                    let own = part(92, bounds, 0, team, teams);
                    *team_upper = own.upper as $type;
                    let (number, size) = shares(sched);
                    let bounds = Bounds { lower: own.lower, upper: own.upper, is_empty: own.is_empty, ..bounds };
                    let part = part(sched, bounds, i64::from(chunk), number, size);
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
                let bounds = bounds!($type, lower, upper, step);
                let own = part(92, bounds, 0, team, teams);
                let Part { lower, upper, is_empty, .. } = own;
                let count = Bounds { lower, upper, is_empty, ..bounds }.count();
                let (kind, chunk, is_ordered) = schedule(sched, i64::from(chunk), count);
                let (first, step, chunk) = (own.lower, bounds.step as u64, chunk as u64);
                work::begin(here(), LoopStart::counted(kind, chunk, count, first, step).ordered(is_ordered));
            }

            "VERSION":
            fn $next(
                _location: Location, _thread: i32, last: *mut i32, lower: *mut $type, upper: *mut $type,
                stride: *mut $step,
            ) -> i32 {
                let thread = here();
                let step = thread.sharing.work.start.step;
                let Some((is_last, low, high)) = next(thread) else { return 0 };
                // SAFETY: rule "Interface": the addresses can be read and written; `last` may be null, and `stride` in
                // the last of the functions.
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
    i32, i32, __kmpc_for_static_init_4 __kmpc_team_static_init_4 __kmpc_dist_for_static_init_4
        __kmpc_dispatch_init_4 __kmpc_dist_dispatch_init_4 __kmpc_dispatch_next_4 __kmpc_dispatch_fini_4;
    u32, i32, __kmpc_for_static_init_4u __kmpc_team_static_init_4u __kmpc_dist_for_static_init_4u
        __kmpc_dispatch_init_4u __kmpc_dist_dispatch_init_4u __kmpc_dispatch_next_4u __kmpc_dispatch_fini_4u;
    i64, i64, __kmpc_for_static_init_8 __kmpc_team_static_init_8 __kmpc_dist_for_static_init_8
        __kmpc_dispatch_init_8 __kmpc_dist_dispatch_init_8 __kmpc_dispatch_next_8 __kmpc_dispatch_fini_8;
    u64, i64, __kmpc_for_static_init_8u __kmpc_team_static_init_8u __kmpc_dist_for_static_init_8u
        __kmpc_dispatch_init_8u __kmpc_dist_dispatch_init_8u __kmpc_dispatch_next_8u __kmpc_dispatch_fini_8u;
}

/// A dimension of a loop with dependences between iterations.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Dimension {
    lower: i64,
    upper: i64,
    step: i64,
}

impl Dimension {
    /// How many iterations it has. clang counts them from 0 by 1, and says as the upper bound how many there are: one
    /// more than the last one's number. Other callers say the last one's value.
    fn count(&self) -> u64 {
        if self.lower == 0 && self.step == 1 {
            return self.upper.max(0).cast_unsigned();
        }
        bounds!(i64, self.lower, self.upper, self.step).count()
    }
}

/// The values of the variables of an iteration.
///
/// # Safety
/// There is a number for each dimension of the thread's loop.
unsafe fn values(at: *const i64) -> impl Iterator<Item = i64> {
    let dimensions = work::across().map_or(0, work::Across::dimensions);
    // SAFETY: the caller's promise: there is a number for each dimension of the loop.
    (0..dimensions).map(move |dimension| unsafe { *at.add(dimension) })
}

exports! {
    "VERSION":
    fn __kmpc_for_static_fini(_location: Location, _thread: i32) {}

    "VERSION":
    fn __kmpc_dispatch_deinit(_location: Location, _thread: i32) {
        let thread = here();
        if !thread.sharing.work.is_none() {
            work::leave(thread);
        }
    }

    // Sections fetched one by one, instead of a loop over them: their number is known with the first fetch.
    "VERSION":
    fn __kmpc_sections_init(_location: Location, _thread: i32) -> i32 {
        work::begin(here(), LoopStart::counted(Kind::Dynamic, 1, u64::from(u32::MAX), 0, 1));
        0
    }

    "VERSION":
    /// The number of a section, from 0; the number of all sections if none is left.
    fn __kmpc_next_section(_location: Location, _thread: i32, count: i32) -> i32 {
        let thread = here();
        let is_cancelled = settings::get().cancels
            && (thread.team().cancelled_loop.load(Ordering::Relaxed) == thread.sharing.gathers + 1
                || thread.team().meetings.is_cancelled());
        if is_cancelled || thread.sharing.work.is_none() || !work::next(thread) {
            return count;
        }
        i32::try_from(thread.sharing.work.low).unwrap_or(count).min(count)
    }

    "VERSION":
    fn __kmpc_end_sections(_location: Location, _thread: i32) {
        work::leave(here());
    }

    "VERSION":
    fn __kmpc_doacross_init(_location: Location, _thread: i32, count_of: i32, dimensions: *const Dimension) {
        work::begin_across(here(), || {
            // SAFETY: rule "Interface": there are `count_of` dimensions.
            let dimensions = (0..count_of.max(0) as usize).map(|at| unsafe { *dimensions.add(at) });
            dimensions.map(|one| (one.lower, one.step, one.count())).collect()
        });
    }

    "VERSION":
    fn __kmpc_doacross_post(_location: Location, _thread: i32, at: *const i64) {
        // SAFETY: rule "Interface": there is a number for each dimension of the loop.
        work::post(unsafe { values(at) });
    }

    "VERSION":
    fn __kmpc_doacross_wait(_location: Location, _thread: i32, at: *const i64) {
        // SAFETY: rule "Interface": there is a number for each dimension of the loop.
        work::await_iteration(unsafe { values(at) });
    }

    "VERSION":
    fn __kmpc_doacross_fini(_location: Location, _thread: i32) {
        work::leave_across(here());
    }
}
