//! Stop watches.

use crate::exports;
use crate::hash;
use crate::object::Object;
use std::sync::atomic::{AtomicU64, Ordering};

/// The moments of the last start and stop, in seconds.
pub(crate) struct Timer {
    start: f64,
    stop: f64,
}

fn clock(read: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> i32) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: rule "System": the time is a value of this function.
    unsafe { read(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

exports! {
    fn qtimer_wtime() -> f64 {
        clock(libc::clock_gettime)
    }

    fn qtimer_res() -> f64 {
        clock(libc::clock_getres)
    }

    fn qtimer_fastrand() -> u64 {
        static STATE: AtomicU64 = AtomicU64::new(0);
        let step = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        hash::mix(step ^ clock(libc::clock_gettime).to_bits())
    }

    fn qtimer_create() -> *mut Timer {
        Box::into_raw(Box::new(Timer { start: 0.0, stop: 0.0 }))
    }

    fn qtimer_destroy(timer: Object<Timer>) {
        drop(timer.end());
    }

    fn qtimer_start(timer: Object<Timer>) {
        if let Some(timer) = timer.alone() {
            timer.start = clock(libc::clock_gettime);
        }
    }

    fn qtimer_stop(timer: Object<Timer>) {
        if let Some(timer) = timer.alone() {
            timer.stop = clock(libc::clock_gettime);
        }
    }

    fn qtimer_secs(timer: Object<Timer>) -> f64 {
        timer.get().map_or(0.0, |timer| timer.stop - timer.start)
    }
}
