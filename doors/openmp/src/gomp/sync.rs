//! Regions, barriers, `single`, `critical`, `ordered`, cancellation.

use crate::exports::exports;
use crate::settings;
use crate::tasks;
use crate::team::{self, Function, Region};
use crate::thread::{Group, here};
use crate::wait::Lock;
use crate::work;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

type RegionFn = unsafe extern "C-unwind" fn(*mut u8);

static CRITICAL: Lock = Lock::new();
static ATOMIC: Lock = Lock::new();

/// A region of gcc's.
pub(super) fn parallel(function: RegionFn, data: *mut u8, threads: u32, flags: u32, begins: Option<work::LoopStart>) {
    let size = team::resolve(here(), threads);
    let group = ptr::null_mut();
    team::run(Region { function: Function::Gomp(function, data), size, bind: (flags & 7) as u8, begins, group });
}

/// The lock of a name, in a word of the program.
fn named<'a>(word: *mut *mut u8) -> &'a Lock {
    // SAFETY: rule "Interface": the word of a critical section's name is a static variable, zero at first and used by
    // these functions alone.
    unsafe { &*word.cast::<Lock>() }
}

/// Cancels a construct, by `which`: 1 the region, 2 a loop, 4 sections, 8 the taskgroup.
fn cancel(which: i32, is_wanted: bool) -> bool {
    if !settings::get().cancels {
        return false;
    }
    if !is_wanted {
        return is_cancelled(which);
    }
    let thread = here();
    let team = thread.team();
    match which {
        1 => team.meetings.cancel(),
        2 | 4 => team.cancelled_loop.store(thread.sharing.gathers + 1, Ordering::Relaxed),
        _ => tasks::cancel_group(),
    }
    true
}

fn is_cancelled(which: i32) -> bool {
    if !settings::get().cancels {
        return false;
    }
    let thread = here();
    let team = thread.team();
    let is_region_cancelled = team.meetings.is_cancelled();
    match which {
        1 => is_region_cancelled,
        2 | 4 => is_region_cancelled || team.cancelled_loop.load(Ordering::Relaxed) == thread.sharing.gathers + 1,
        _ => is_region_cancelled || tasks::is_group_cancelled(),
    }
}

exports! {
    "GOMP_4.0", "VERSION":
    fn GOMP_parallel(function: RegionFn, data: *mut u8, threads: u32, flags: u32) {
        parallel(function, data, threads, flags, None);
    }

    "GOMP_5.0", "VERSION":
    fn GOMP_parallel_reductions(function: RegionFn, data: *mut u8, threads: u32, flags: u32) -> u32 {
        let size = team::resolve(here(), threads);
        // SAFETY: rule "Interface": the data begin with the address of a chain of descriptions. The group lasts until
        // the region is over, and so are its tasks then.
        unsafe {
            let first = *data.cast::<*mut usize>();
            crate::reductions::register(first, ptr::null_mut(), ptr::null_mut(), size as usize);
            let mut group = Group {
                outer: ptr::null_mut(),
                is_cancelled: AtomicBool::new(false),
                reductions: Cell::new(first),
                kmp: Cell::new(ptr::null_mut()),
                is_open: false,
                is_implicit: Cell::new(true),
            };
            let function = Function::Gomp(function, data);
            team::run(Region { function, size, bind: (flags & 7) as u8, begins: None, group: &raw mut group });
        }
        size
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_barrier() {
        team::barrier();
    }

    "GOMP_6.0.2":
    fn GOMP_barrier_ext(_kind: i32) {
        team::barrier();
    }

    "GOMP_4.0", "VERSION":
    fn GOMP_barrier_cancel() -> bool {
        team::barrier()
    }

    "GOMP_6.0.2":
    fn GOMP_barrier_cancel_ext(_kind: i32) -> bool {
        team::barrier()
    }

    "GOMP_4.0", "VERSION":
    fn GOMP_cancel(which: i32, is_wanted: bool) -> bool {
        cancel(which, is_wanted)
    }

    "GOMP_4.0", "VERSION":
    fn GOMP_cancellation_point(which: i32) -> bool {
        is_cancelled(which)
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_single_start() -> bool {
        work::claim_single()
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_single_copy_start() -> *mut u8 {
        if work::claim_single() {
            return ptr::null_mut();
        }
        team::barrier();
        here().team().work.copy.load(Ordering::Acquire)
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_single_copy_end(data: *mut u8) {
        here().team().work.copy.store(data, Ordering::Release);
        team::barrier();
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_critical_start() {
        CRITICAL.lock();
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_critical_end() {
        CRITICAL.unlock();
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_critical_name_start(word: *mut *mut u8) {
        named(word).lock();
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_critical_name_end(word: *mut *mut u8) {
        named(word).unlock();
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_atomic_start() {
        ATOMIC.lock();
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_atomic_end() {
        ATOMIC.unlock();
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_ordered_start() {
        work::await_turn();
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_ordered_end() {}

    "GOMP_5.1":
    fn GOMP_scope_start(reductions: *mut usize) {
        if !reductions.is_null() {
            let thread = here();
            super::loops::begin_with(thread, work::LoopStart::EMPTY, reductions, ptr::null_mut());
            work::leave(thread);
        }
    }

    "GOMP_6.0.2":
    fn GOMP_has_masked_thread_num(number: i32) -> bool {
        here().number as i32 == number
    }

    "GOMP_5.1":
    fn GOMP_error(text: *const u8, length: usize) {
        settings::fail(&format!("error: {}", said(text, length)));
    }

    "GOMP_5.1":
    fn GOMP_warning(text: *const u8, length: usize) {
        settings::complain(&format!("warning: {}", said(text, length)));
    }

    "GOMP_4.0.1", "VERSION":
    fn GOMP_teams_nop(_teams: u32, _threads: u32) {}

    "GOMP_5.0", "VERSION":
    fn GOMP_teams_reg(function: RegionFn, data: *mut u8, teams: u32, threads: u32, _flags: u32) {
        let teams = if teams == 0 { crate::api::default_teams() } else { teams };
        crate::teams::run(Function::Gomp(function, data), teams, threads);
    }
}

/// The text of an `error` directive; no length: up to the 0 behind it.
fn said(text: *const u8, length: usize) -> String {
    if text.is_null() {
        return "error directive reached".to_owned();
    }
    // SAFETY: rule "Interface": the text ends with a zero byte.
    let length = if length == usize::MAX { unsafe { libc::strlen(text.cast()) } } else { length };
    // SAFETY: rule "Interface": the text has this length.
    String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(text, length) }).into_owned()
}

exports! {
    "GOMP_1.0", "VERSION":
    /// gcc before 4.9 calls this before a region, then runs the first thread's part of it, and calls the next function.
    /// It gets a region of its one thread.
    fn GOMP_parallel_start(_function: RegionFn, _data: *mut u8, _threads: u32) {
        crate::kmpc::fork::begin_serialized();
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_parallel_end() {
        crate::kmpc::fork::end_serialized();
    }
}
