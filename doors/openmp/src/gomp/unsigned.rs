//! Loops over `unsigned long long`.

use super::loops::{self, begin_with, next, runtime_of, schedule};
use crate::exports::{exports, exports_from};
use crate::settings::Kind;
use crate::thread::here;
use crate::work::{self, LoopStart};

/// Takes the next part.
fn next_part(low: *mut u64, high: *mut u64) -> bool {
    next(low.cast(), high.cast())
}

/// Begins a loop, and takes its first part.
fn start(start: LoopStart, low: *mut u64, high: *mut u64) -> bool {
    loops::start(start, low.cast(), high.cast())
}

fn dimensions(count: u32, counts: *const u64) -> Vec<(i64, i64, u64)> {
    loops::dimensions(count, counts.cast())
}

fn across(count: u32, counts: *const u64, kind: Kind, chunk: i64, low: *mut u64, high: *mut u64) -> bool {
    work::begin_across(here(), || dimensions(count, counts));
    // SAFETY: rule "Interface": the loop has at least one dimension, and a count for each.
    start(LoopStart::unsigned(kind, true, 0, unsafe { *counts }, 1, chunk as u64), low, high)
}

macro_rules! loops {
    ($($node:literal $kind:expr, $is_ordered:literal, $start:ident $next:ident;)*) => {
        exports_from! {$(
            $node, "VERSION":
            fn $start(
                is_up: bool, first: u64, end: u64, step: u64, chunk: u64, low: *mut u64, high: *mut u64,
            ) -> bool {
                start(LoopStart::unsigned($kind, is_up, first, end, step, chunk).ordered($is_ordered), low, high)
            }
        )*}
        exports! {$(
            $node, "VERSION":
            fn $next(low: *mut u64, high: *mut u64) -> bool {
                next_part(low, high)
            }
        )*}
    };
}

loops! {
    "GOMP_2.0" Kind::Static, false, GOMP_loop_ull_static_start GOMP_loop_ull_static_next;
    "GOMP_2.0" Kind::Dynamic, false, GOMP_loop_ull_dynamic_start GOMP_loop_ull_dynamic_next;
    "GOMP_2.0" Kind::Guided, false, GOMP_loop_ull_guided_start GOMP_loop_ull_guided_next;
    "GOMP_4.5" Kind::Returning, false, GOMP_loop_ull_nonmonotonic_dynamic_start GOMP_loop_ull_nonmonotonic_dynamic_next;
    "GOMP_4.5" Kind::Guided, false, GOMP_loop_ull_nonmonotonic_guided_start GOMP_loop_ull_nonmonotonic_guided_next;
    "GOMP_2.0" Kind::Static, true, GOMP_loop_ull_ordered_static_start GOMP_loop_ull_ordered_static_next;
    "GOMP_2.0" Kind::Dynamic, true, GOMP_loop_ull_ordered_dynamic_start GOMP_loop_ull_ordered_dynamic_next;
    "GOMP_2.0" Kind::Guided, true, GOMP_loop_ull_ordered_guided_start GOMP_loop_ull_ordered_guided_next;
}

macro_rules! runtime_loops {
    ($($node:literal $is_ordered:literal, $start:ident $next:ident;)*) => {
        exports_from! {$(
            $node, "VERSION":
            fn $start(is_up: bool, first: u64, end: u64, step: u64, low: *mut u64, high: *mut u64) -> bool {
                let (kind, chunk) = runtime_of(stringify!($start));
                start(LoopStart::unsigned(kind, is_up, first, end, step, chunk as u64).ordered($is_ordered), low, high)
            }
        )*}
        exports! {$(
            $node, "VERSION":
            fn $next(low: *mut u64, high: *mut u64) -> bool {
                next_part(low, high)
            }
        )*}
    };
}

runtime_loops! {
    "GOMP_2.0" false, GOMP_loop_ull_runtime_start GOMP_loop_ull_runtime_next;
    "GOMP_5.0" false, GOMP_loop_ull_nonmonotonic_runtime_start GOMP_loop_ull_nonmonotonic_runtime_next;
    "GOMP_5.0" false, GOMP_loop_ull_maybe_nonmonotonic_runtime_start GOMP_loop_ull_maybe_nonmonotonic_runtime_next;
    "GOMP_2.0" true, GOMP_loop_ull_ordered_runtime_start GOMP_loop_ull_ordered_runtime_next;
}

exports! {
    "GOMP_5.0", "VERSION":
    fn GOMP_loop_ull_start(
        is_up: bool, first: u64, end: u64, step: u64, sched: i64, chunk: u64, low: *mut u64, high: *mut u64,
        reductions: *mut usize, memory: *mut *mut u8,
    ) -> bool {
        let (kind, chunk) = schedule(sched, chunk as i64);
        begin_with(here(), LoopStart::unsigned(kind, is_up, first, end, step, chunk as u64), reductions, memory);
        if low.is_null() { true } else { next_part(low, high) }
    }

    "GOMP_5.0", "VERSION":
    fn GOMP_loop_ull_ordered_start(
        is_up: bool, first: u64, end: u64, step: u64, sched: i64, chunk: u64, low: *mut u64, high: *mut u64,
        reductions: *mut usize, memory: *mut *mut u8,
    ) -> bool {
        let (kind, chunk) = schedule(sched, chunk as i64);
        let start = LoopStart::unsigned(kind, is_up, first, end, step, chunk as u64).ordered(true);
        begin_with(here(), start, reductions, memory);
        if low.is_null() { true } else { next_part(low, high) }
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_loop_ull_doacross_static_start(
        count: u32, counts: *const u64, chunk: u64, low: *mut u64, high: *mut u64,
    ) -> bool {
        across(count, counts, Kind::Static, chunk as i64, low, high)
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_loop_ull_doacross_dynamic_start(
        count: u32, counts: *const u64, chunk: u64, low: *mut u64, high: *mut u64,
    ) -> bool {
        across(count, counts, Kind::Dynamic, chunk as i64, low, high)
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_loop_ull_doacross_guided_start(
        count: u32, counts: *const u64, chunk: u64, low: *mut u64, high: *mut u64,
    ) -> bool {
        across(count, counts, Kind::Guided, chunk as i64, low, high)
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_loop_ull_doacross_runtime_start(count: u32, counts: *const u64, low: *mut u64, high: *mut u64) -> bool {
        let (kind, chunk) = runtime_of("");
        across(count, counts, kind, chunk, low, high)
    }

    "GOMP_5.0", "VERSION":
    fn GOMP_loop_ull_doacross_start(
        count: u32, counts: *const u64, sched: i64, chunk: u64, low: *mut u64, high: *mut u64, reductions: *mut usize,
        memory: *mut *mut u8,
    ) -> bool {
        let (kind, chunk) = schedule(sched, chunk as i64);
        let kind = kind.monotonic();
        work::begin_across(here(), || dimensions(count, counts));
        // SAFETY: rule "Interface": the loop has at least one dimension, and a count for each.
        let start = LoopStart::unsigned(kind, true, 0, unsafe { *counts }, 1, chunk as u64);
        begin_with(here(), start, reductions, memory);
        if low.is_null() { true } else { next_part(low, high) }
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_doacross_ull_post(at: *const u64) {
        let dimensions = work::across().map_or(0, work::Across::dimensions);
        // SAFETY: rule "Interface": the iteration has a number for each dimension of the loop.
        work::post((0..dimensions).map(|dimension| unsafe { *at.add(dimension) } as i64));
    }
}
