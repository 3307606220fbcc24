//! Loops over `long`, and sections.

use crate::exports::{exports, exports_from};
use crate::settings::Kind;
use crate::tasks;
use crate::team;
use crate::thread::{Thread, here};
use crate::work::{self, LoopStart};
use std::ptr;
use std::sync::atomic::Ordering;

type RegionFn = unsafe extern "C-unwind" fn(*mut u8);

/// The running task's schedule for `schedule(runtime)` loops.
pub(super) fn runtime() -> (Kind, i64) {
    here().task().icv.schedule.of_loop()
}

/// The schedule for one of gcc's functions for such loops: its name says whether iterations need an order.
pub(super) fn runtime_of(name: &str) -> (Kind, i64) {
    let (kind, chunk) = runtime();
    (if name.contains("nonmonotonic") { kind } else { kind.monotonic() }, chunk)
}

/// A schedule as gcc says it: 0 runtime, 1 static, 2 dynamic, 3 guided, 4 auto, with a bit for monotonic.
pub(super) fn schedule(number: i64, chunk: i64) -> (Kind, i64) {
    let (kind, chunk) = any_schedule(number, chunk);
    (if number & 0x8000_0000 == 0 { kind } else { kind.monotonic() }, chunk)
}

fn any_schedule(number: i64, chunk: i64) -> (Kind, i64) {
    match number & 0x7fff_ffff {
        0 => runtime(),
        1 => (Kind::Static, chunk),
        2 => (Kind::Returning, chunk),
        3 => (Kind::Guided, chunk),
        _ => (Kind::Static, 0),
    }
}

/// Begins a loop with reductions over tasks, and with memory shared by its threads. `memory` holds the size, and gets
/// the address.
pub(super) fn begin_with(thread: &mut Thread, start: LoopStart, reductions: *mut usize, memory: *mut *mut u8) {
    let threads = thread.team().size as usize;
    if !reductions.is_null() {
        let group = tasks::begin_group();
        // SAFETY: rule "Group": the running task has just opened it.
        unsafe { (*group).is_implicit.set(true) };
    }
    let group = thread.task().group;
    let mut is_first = false;
    // SAFETY: rule "Interface": gcc's chain of descriptions, and a word with the size of the memory. Rule "Loop": the
    // thread prepares the slot.
    thread.sharing.work = work::join(thread, start, |slot| unsafe {
        is_first = true;
        if !reductions.is_null() {
            let outer = outer_reductions(thread_group(group));
            crate::reductions::register(reductions, outer, ptr::null_mut(), threads);
            slot.reductions.set(reductions);
        }
        if !memory.is_null() {
            slot.memory.set(libc::calloc(1, (*memory).addr().max(1)).cast());
        }
    });
    let slot = thread.sharing.work.slot();
    // SAFETY: rule "Interface": as above; rule "Loop": the first thread has written the slot's cells before. Rule
    // "Group": the running task's open group.
    unsafe {
        if !reductions.is_null() {
            if !is_first {
                let outer = outer_reductions(thread_group(group));
                crate::reductions::register(reductions, outer, slot.reductions.get(), threads);
            }
            (*group).reductions.set(reductions);
        }
        if !memory.is_null() {
            *memory = slot.memory.get();
        }
    }
}

fn thread_group(group: *mut crate::thread::Group) -> *mut crate::thread::Group {
    // SAFETY: rule "Group": null, or a group that is still open around the running task.
    unsafe { group.as_ref() }.map_or(ptr::null_mut(), |group| group.outer)
}

/// The reductions around.
pub(super) fn outer_reductions(mut group: *mut crate::thread::Group) -> *mut usize {
    // SAFETY: rule "Group": null, or a group that is still open around the running task.
    while let Some(one) = unsafe { group.as_ref() } {
        if !one.reductions.get().is_null() {
            return one.reductions.get();
        }
        group = one.outer;
    }
    ptr::null_mut()
}

/// Begins a loop, and takes its first part.
pub(super) fn start(start: LoopStart, low: *mut i64, high: *mut i64) -> bool {
    work::begin(here(), start);
    next(low, high)
}

/// Takes the next part.
pub(super) fn next(low: *mut i64, high: *mut i64) -> bool {
    let thread = here();
    if crate::settings::get().cancels
        && thread.team().cancelled_loop.load(Ordering::Relaxed) == thread.sharing.gathers + 1
    {
        return false;
    }
    let is_one = work::next(thread);
    if is_one {
        let work = &thread.sharing.work;
        // SAFETY: rule "Interface": both can be written.
        unsafe {
            *low = work.start.value(work.low) as i64;
            *high = work.start.bound(work.high) as i64;
        }
    }
    is_one
}

/// The dimensions of a doacross loop.
pub(super) fn dimensions(count: u32, counts: *const i64) -> Vec<(i64, i64, u64)> {
    // SAFETY: rule "Interface": there are `count` of them.
    (0..count as usize).map(|at| (0, 1, unsafe { *counts.add(at) } as u64)).collect()
}

fn across(count: u32, counts: *const i64, kind: Kind, chunk: i64, low: *mut i64, high: *mut i64) -> bool {
    work::begin_across(here(), || dimensions(count, counts));
    // SAFETY: rule "Interface": the loop has at least one dimension, and a count for each.
    start(LoopStart::signed(kind, 0, unsafe { *counts }, 1, chunk), low, high)
}

/// The thread leaves its loop.
pub(super) fn leave() {
    let thread = here();
    work::leave(thread);
    work::leave_across(thread);
}

macro_rules! loops {
    ($($node:literal $kind:expr, $is_ordered:literal, $start:ident $next:ident;)*) => {
        exports_from! {$(
            $node, "VERSION":
            fn $start(first: i64, end: i64, step: i64, chunk: i64, low: *mut i64, high: *mut i64) -> bool {
                start(LoopStart::signed($kind, first, end, step, chunk).ordered($is_ordered), low, high)
            }
        )*}
        exports! {$(
            $node, "VERSION":
            fn $next(low: *mut i64, high: *mut i64) -> bool {
                next(low, high)
            }
        )*}
    };
}

loops! {
    "GOMP_1.0" Kind::Static, false, GOMP_loop_static_start GOMP_loop_static_next;
    "GOMP_1.0" Kind::Dynamic, false, GOMP_loop_dynamic_start GOMP_loop_dynamic_next;
    "GOMP_1.0" Kind::Guided, false, GOMP_loop_guided_start GOMP_loop_guided_next;
    "GOMP_4.5" Kind::Returning, false, GOMP_loop_nonmonotonic_dynamic_start GOMP_loop_nonmonotonic_dynamic_next;
    "GOMP_4.5" Kind::Guided, false, GOMP_loop_nonmonotonic_guided_start GOMP_loop_nonmonotonic_guided_next;
    "GOMP_1.0" Kind::Static, true, GOMP_loop_ordered_static_start GOMP_loop_ordered_static_next;
    "GOMP_1.0" Kind::Dynamic, true, GOMP_loop_ordered_dynamic_start GOMP_loop_ordered_dynamic_next;
    "GOMP_1.0" Kind::Guided, true, GOMP_loop_ordered_guided_start GOMP_loop_ordered_guided_next;
}

macro_rules! runtime_loops {
    ($($node:literal $is_ordered:literal, $start:ident $next:ident;)*) => {
        exports_from! {$(
            $node, "VERSION":
            fn $start(first: i64, end: i64, step: i64, low: *mut i64, high: *mut i64) -> bool {
                let (kind, chunk) = runtime_of(stringify!($start));
                start(LoopStart::signed(kind, first, end, step, chunk).ordered($is_ordered), low, high)
            }
        )*}
        exports! {$(
            $node, "VERSION":
            fn $next(low: *mut i64, high: *mut i64) -> bool {
                next(low, high)
            }
        )*}
    };
}

runtime_loops! {
    "GOMP_1.0" false, GOMP_loop_runtime_start GOMP_loop_runtime_next;
    "GOMP_5.0" false, GOMP_loop_nonmonotonic_runtime_start GOMP_loop_nonmonotonic_runtime_next;
    "GOMP_5.0" false, GOMP_loop_maybe_nonmonotonic_runtime_start GOMP_loop_maybe_nonmonotonic_runtime_next;
    "GOMP_1.0" true, GOMP_loop_ordered_runtime_start GOMP_loop_ordered_runtime_next;
}

macro_rules! parallel_loops {
    ($($node:literal $kind:expr, $name:ident;)*) => {
        exports! {$(
            $node, "VERSION":
            fn $name(
                function: RegionFn, data: *mut u8, threads: u32, first: i64, end: i64, step: i64, chunk: i64,
                flags: u32,
            ) {
                let start = LoopStart::signed($kind, first, end, step, chunk);
                super::sync::parallel(function, data, threads, flags, Some(start));
            }
        )*}
    };
}

parallel_loops! {
    "GOMP_4.0" Kind::Static, GOMP_parallel_loop_static;
    "GOMP_4.0" Kind::Dynamic, GOMP_parallel_loop_dynamic;
    "GOMP_4.0" Kind::Guided, GOMP_parallel_loop_guided;
    "GOMP_4.5" Kind::Returning, GOMP_parallel_loop_nonmonotonic_dynamic;
    "GOMP_4.5" Kind::Guided, GOMP_parallel_loop_nonmonotonic_guided;
}

macro_rules! parallel_runtime_loops {
    ($($node:literal $name:ident;)*) => {
        exports! {$(
            $node, "VERSION":
            fn $name(function: RegionFn, data: *mut u8, threads: u32, first: i64, end: i64, step: i64, flags: u32) {
                let (kind, chunk) = runtime_of(stringify!($name));
                let start = LoopStart::signed(kind, first, end, step, chunk);
                super::sync::parallel(function, data, threads, flags, Some(start));
            }
        )*}
    };
}

parallel_runtime_loops! {
    "GOMP_4.0" GOMP_parallel_loop_runtime;
    "GOMP_5.0" GOMP_parallel_loop_nonmonotonic_runtime;
    "GOMP_5.0" GOMP_parallel_loop_maybe_nonmonotonic_runtime;
}

/// The number of a section, from 1; 0 if there is none left.
fn next_section() -> u32 {
    let (mut low, mut high) = (0, 0);
    if next(&raw mut low, &raw mut high) { low as u32 } else { 0 }
}

fn sections(count: u32) -> LoopStart {
    LoopStart::signed(Kind::Dynamic, 1, i64::from(count) + 1, 1, 1)
}

exports! {
    "GOMP_5.0", "VERSION":
    fn GOMP_loop_start(
        first: i64, end: i64, step: i64, sched: i64, chunk: i64, low: *mut i64, high: *mut i64, reductions: *mut usize,
        memory: *mut *mut u8,
    ) -> bool {
        let (kind, chunk) = schedule(sched, chunk);
        begin_with(here(), LoopStart::signed(kind, first, end, step, chunk), reductions, memory);
        if low.is_null() { true } else { next(low, high) }
    }

    "GOMP_5.0", "VERSION":
    fn GOMP_loop_ordered_start(
        first: i64, end: i64, step: i64, sched: i64, chunk: i64, low: *mut i64, high: *mut i64, reductions: *mut usize,
        memory: *mut *mut u8,
    ) -> bool {
        let (kind, chunk) = schedule(sched, chunk);
        begin_with(here(), LoopStart::signed(kind, first, end, step, chunk).ordered(true), reductions, memory);
        if low.is_null() { true } else { next(low, high) }
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_loop_doacross_static_start(
        count: u32, counts: *const i64, chunk: i64, low: *mut i64, high: *mut i64,
    ) -> bool {
        across(count, counts, Kind::Static, chunk, low, high)
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_loop_doacross_dynamic_start(
        count: u32, counts: *const i64, chunk: i64, low: *mut i64, high: *mut i64,
    ) -> bool {
        across(count, counts, Kind::Dynamic, chunk, low, high)
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_loop_doacross_guided_start(
        count: u32, counts: *const i64, chunk: i64, low: *mut i64, high: *mut i64,
    ) -> bool {
        across(count, counts, Kind::Guided, chunk, low, high)
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_loop_doacross_runtime_start(count: u32, counts: *const i64, low: *mut i64, high: *mut i64) -> bool {
        let (kind, chunk) = runtime_of("");
        across(count, counts, kind, chunk, low, high)
    }

    "GOMP_5.0", "VERSION":
    fn GOMP_loop_doacross_start(
        count: u32, counts: *const i64, sched: i64, chunk: i64, low: *mut i64, high: *mut i64, reductions: *mut usize,
        memory: *mut *mut u8,
    ) -> bool {
        let (kind, chunk) = schedule(sched, chunk);
        let kind = kind.monotonic();
        work::begin_across(here(), || dimensions(count, counts));
        // SAFETY: rule "Interface": the loop has at least one dimension, and a count for each.
        let start = LoopStart::signed(kind, 0, unsafe { *counts }, 1, chunk);
        begin_with(here(), start, reductions, memory);
        if low.is_null() { true } else { next(low, high) }
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_doacross_post(at: *const i64) {
        let dimensions = work::across().map_or(0, work::Across::dimensions);
        // SAFETY: rule "Interface": the iteration has a number for each dimension of the loop.
        work::post((0..dimensions).map(|dimension| unsafe { *at.add(dimension) }));
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_loop_end() {
        leave();
        team::barrier();
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_loop_end_nowait() {
        leave();
    }

    "GOMP_4.0", "VERSION":
    fn GOMP_loop_end_cancel() -> bool {
        leave();
        team::barrier()
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_sections_start(count: u32) -> u32 {
        work::begin(here(), sections(count));
        next_section()
    }

    "GOMP_5.0", "VERSION":
    fn GOMP_sections2_start(count: u32, reductions: *mut usize, memory: *mut *mut u8) -> u32 {
        begin_with(here(), sections(count), reductions, memory);
        next_section()
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_sections_next() -> u32 {
        next_section()
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_sections_end() {
        leave();
        team::barrier();
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_sections_end_nowait() {
        leave();
    }

    "GOMP_4.0", "VERSION":
    fn GOMP_sections_end_cancel() -> bool {
        leave();
        team::barrier()
    }

    "GOMP_4.0", "VERSION":
    fn GOMP_parallel_sections(function: RegionFn, data: *mut u8, threads: u32, count: u32, flags: u32) {
        super::sync::parallel(function, data, threads, flags, Some(sections(count)));
    }
}

/// Waits for the iteration with these numbers.
extern "C-unwind" fn doacross_wait(at: *const i64, rest: *const i64) {
    let dimensions = work::across().map_or(0, work::Across::dimensions);
    let value = |dimension: usize| match dimension.checked_sub(IN_REGISTERS) {
        // SAFETY: the entry below has put the words of registers into one array.
        None => unsafe { *at.add(dimension) },
        // SAFETY: the others lie where the entry found them on its caller's stack.
        Some(behind) => unsafe { *rest.add(behind) },
    };
    work::await_iteration((0..dimensions).map(value));
}

/// How many words of a call come in registers.
const IN_REGISTERS: usize = if cfg!(target_arch = "x86_64") { 6 } else { 8 };

/// `void GOMP_doacross_wait(long, ...)`: as many arguments as the loop has dimensions. Some come in registers, the rest
/// on the stack.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(export_name = "vicus_GOMP_doacross_wait")]
pub(crate) unsafe extern "C-unwind" fn wait_across() {
    core::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, 48",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "mov rdi, rsp",
        "lea rsi, [rbp + 16]",
        "call {wait}",
        "leave",
        "ret",
        wait = sym doacross_wait,
    )
}

/// The variant for AArch64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(export_name = "vicus_GOMP_doacross_wait")]
pub(crate) unsafe extern "C-unwind" fn wait_across() {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "sub sp, sp, #64",
        "stp x0, x1, [sp]",
        "stp x2, x3, [sp, #16]",
        "stp x4, x5, [sp, #32]",
        "stp x6, x7, [sp, #48]",
        "mov x0, sp",
        "add x1, x29, #16",
        "bl {wait}",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        "ret",
        wait = sym doacross_wait,
    )
}

core::arch::global_asm!(
    ".symver vicus_GOMP_doacross_wait, GOMP_doacross_wait@@GOMP_4.5",
    ".symver vicus_GOMP_doacross_wait, GOMP_doacross_wait@VERSION",
    ".symver vicus_GOMP_doacross_wait, GOMP_doacross_ull_wait@@GOMP_4.5",
    ".symver vicus_GOMP_doacross_wait, GOMP_doacross_ull_wait@VERSION",
);
