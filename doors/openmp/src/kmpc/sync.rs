//! Barriers, `single`, `critical`, `ordered`, reductions, cancellation, variables for each thread.

use super::Location;
use crate::exports::exports;
use crate::settings;
use crate::tasks;
use crate::team;
use crate::thread::here;
use crate::wait::Lock;
use crate::work;
use std::ptr;
use std::sync::atomic::Ordering;

/// The lock of a name, in the first of clang's eight words for it.
fn named<'a>(words: *mut [i32; 8]) -> &'a Lock {
    // SAFETY: rule "Interface": the words of a critical section's name are a static variable, zero at first and used by
    // these functions alone.
    unsafe { &*words.cast::<Lock>() }
}

type Combine = unsafe extern "C-unwind" fn(*mut u8, *mut u8);

/// Cancels a construct, by `kind`: 1 the region, 2 a loop, 3 sections, 4 the taskgroup.
fn cancel(kind: i32) -> bool {
    if !settings::get().cancels {
        return false;
    }
    let thread = here();
    let team = thread.team();
    match kind {
        1 => team.meetings.cancel(),
        2 | 3 => team.cancelled_loop.store(thread.sharing.gathers + 1, Ordering::Relaxed),
        _ => {
            if thread.task().group.is_null() {
                return false;
            }
            tasks::cancel_group();
        }
    }
    true
}

fn is_cancelled(kind: i32) -> bool {
    if !settings::get().cancels {
        return false;
    }
    let thread = here();
    let team = thread.team();
    match kind {
        1 => team.meetings.is_cancelled(),
        2 | 3 => team.cancelled_loop.load(Ordering::Relaxed) == thread.sharing.gathers + 1,
        _ => tasks::is_group_cancelled() || team.meetings.is_cancelled(),
    }
}

/// The calling thread's own copy of a variable.
fn private(variable: *mut u8, bytes: usize) -> *mut u8 {
    let thread = here();
    if let Some((_, own)) = thread.private.iter().find(|(of, _)| *of == variable) {
        return *own;
    }
    let own: *mut u8 = if thread.team().nesting.level.get() == 0 && thread.id == 0 {
        variable
    } else {
        // SAFETY: rule "System": no condition.
        let own = unsafe { libc::malloc(bytes.max(1)) }.cast::<u8>();
        if own.is_null() {
            settings::fail(&format!("{bytes} bytes for a thread's variable can't be had"));
        }
        // SAFETY: rule "Interface": the variable has this number of bytes, and the new memory as many.
        unsafe { ptr::copy_nonoverlapping(variable, own, bytes) };
        own
    };
    thread.private.push((variable, own));
    own
}

exports! {
    "VERSION":
    fn __kmpc_barrier(_location: Location, _thread: i32) {
        team::barrier();
    }

    "VERSION":
    fn __kmpc_barrier_master(_location: Location, _thread: i32) -> i32 {
        team::barrier();
        i32::from(here().number == 0)
    }

    "VERSION":
    fn __kmpc_end_barrier_master(_location: Location, _thread: i32) {
        team::barrier();
    }

    "VERSION":
    fn __kmpc_barrier_master_nowait(_location: Location, _thread: i32) -> i32 {
        team::barrier();
        i32::from(here().number == 0)
    }

    "VERSION":
    fn __kmpc_cancel_barrier(_location: Location, _thread: i32) -> i32 {
        i32::from(team::barrier())
    }

    "VERSION":
    fn __kmpc_cancel(_location: Location, _thread: i32, kind: i32) -> i32 {
        i32::from(cancel(kind))
    }

    "VERSION":
    fn __kmpc_cancellationpoint(_location: Location, _thread: i32, kind: i32) -> i32 {
        i32::from(is_cancelled(kind))
    }

    "VERSION":
    fn __kmpc_flush(_location: Location) {
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    "VERSION":
    fn __kmpc_single(_location: Location, _thread: i32) -> i32 {
        i32::from(work::claim_single())
    }

    "VERSION":
    fn __kmpc_end_single(_location: Location, _thread: i32) {}

    "VERSION":
    fn __kmpc_master(_location: Location, _thread: i32) -> i32 {
        i32::from(here().number == 0)
    }

    "VERSION":
    fn __kmpc_end_master(_location: Location, _thread: i32) {}

    "VERSION":
    fn __kmpc_masked(_location: Location, _thread: i32, filter: i32) -> i32 {
        i32::from(here().number as i32 == filter)
    }

    "VERSION":
    fn __kmpc_end_masked(_location: Location, _thread: i32) {}

    "VERSION":
    fn __kmpc_ordered(_location: Location, _thread: i32) {
        work::await_turn();
    }

    "VERSION":
    fn __kmpc_end_ordered(_location: Location, _thread: i32) {}

    "VERSION":
    fn __kmpc_critical(_location: Location, _thread: i32, words: *mut [i32; 8]) {
        named(words).lock();
    }

    "VERSION":
    fn __kmpc_critical_with_hint(_location: Location, _thread: i32, words: *mut [i32; 8], _hint: u32) {
        named(words).lock();
    }

    "VERSION":
    fn __kmpc_end_critical(_location: Location, _thread: i32, words: *mut [i32; 8]) {
        named(words).unlock();
    }

    "VERSION":
    fn __kmpc_copyprivate(
        _location: Location, _thread: i32, _bytes: usize, data: *mut u8, copy: Combine, is_source: i32,
    ) {
        if is_source != 0 {
            here().team().work.copy.store(data, Ordering::Release);
        }
        team::barrier();
        if is_source == 0 {
            // SAFETY: rule "Interface": the function copies from the source's data, which stay until the second
            // barrier.
            unsafe { copy(data, here().team().work.copy.load(Ordering::Acquire)) };
        }
        // The data are on the source's stack.
        team::barrier();
    }

    "VERSION":
    fn __kmpc_copyprivate_light(_location: Location, _thread: i32, data: *mut u8) -> *mut u8 {
        if !data.is_null() {
            here().team().work.copy.store(data, Ordering::Release);
        }
        team::barrier();
        here().team().work.copy.load(Ordering::Acquire)
    }

    "VERSION":
    fn __kmpc_reduce_nowait(
        _location: Location, _thread: i32, _count: i32, _bytes: usize, _data: *mut u8, _combine: Combine,
        words: *mut [i32; 8],
    ) -> i32 {
        named(words).lock();
        1
    }

    "VERSION":
    fn __kmpc_end_reduce_nowait(_location: Location, _thread: i32, words: *mut [i32; 8]) {
        named(words).unlock();
    }

    "VERSION":
    fn __kmpc_reduce(
        _location: Location, _thread: i32, _count: i32, _bytes: usize, _data: *mut u8, _combine: Combine,
        words: *mut [i32; 8],
    ) -> i32 {
        named(words).lock();
        1
    }

    "VERSION":
    fn __kmpc_end_reduce(_location: Location, _thread: i32, words: *mut [i32; 8]) {
        named(words).unlock();
        team::barrier();
    }

    "VERSION":
    fn __kmpc_threadprivate(_location: Location, _thread: i32, variable: *mut u8, bytes: usize) -> *mut u8 {
        private(variable, bytes)
    }

    "VERSION":
    fn __kmpc_threadprivate_cached(
        _location: Location, _thread: i32, variable: *mut u8, bytes: usize, _cache: *mut *mut *mut u8,
    ) -> *mut u8 {
        private(variable, bytes)
    }

    "VERSION":
    fn __kmpc_threadprivate_register(
        _location: Location, _variable: *mut u8, _constructor: *const u8, _copy: *const u8, _destructor: *const u8,
    ) {
    }

    "VERSION":
    fn __kmpc_threadprivate_register_vec(
        _location: Location, _variable: *mut u8, _constructor: *const u8, _copy: *const u8, _destructor: *const u8,
        _length: usize,
    ) {
    }

    "VERSION":
    fn kmp_get_cancellation_status(kind: i32) -> i32 {
        i32::from(kind != 0 && is_cancelled(kind))
    }

    "VERSION":
    /// The variant for Fortran.
    fn kmp_get_cancellation_status_(kind: *const i32) -> i32 {
        // SAFETY: rule "Interface": Fortran passes the address of a number.
        let kind = unsafe { *kind };
        i32::from(kind != 0 && is_cancelled(kind))
    }

    "VERSION":
    fn __kmpc_error(_location: Location, severity: i32, text: *const libc::c_char) {
        // SAFETY: rule "Interface": the text ends with a zero byte.
        let text = if text.is_null() { c"error directive reached" } else { unsafe { std::ffi::CStr::from_ptr(text) } };
        let text = text.to_string_lossy();
        if severity == 2 {
            settings::fail(&format!("error: {text}"));
        }
        settings::complain(&format!("warning: {text}"));
    }

    "VERSION":
    fn __kmpc_scope(_location: Location, _thread: i32, _reserved: *mut u8) {}

    "VERSION":
    fn __kmpc_end_scope(_location: Location, _thread: i32, _reserved: *mut u8) {}

    "VERSION":
    fn __kmpc_get_target_offload() -> i32 {
        settings::target_offload()
    }
}
