//! Locks by address, and the program's own lock structures. A thread that waits lets others run, or is suspended.

use crate::codes::{BADARGS, OPFAIL, SUCCESS};
use crate::exports;
use crate::fork::here;
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use vicus::team;
use vicus::threads::full_empty;

/// Words whose owner may lock them again: who has locked each, and how often.
static RECURSIVE: LazyLock<Mutex<HashMap<usize, (u64, u64)>>> = LazyLock::new(Mutex::default);
/// Whether there has been one.
static ANY_RECURSIVE: AtomicBool = AtomicBool::new(false);

/// The calling thread, as a number that no other has at the same time.
fn own_number() -> u64 {
    match here() {
        Some(thread) => ptr::from_ref(thread).addr() as u64,
        None => {
            thread_local!(static ADDRESS: u8 = const { 0 });
            ADDRESS.with(|address| ptr::from_ref(address).addr() as u64)
        }
    }
}

/// What a recursive lock's count becomes by `change`; `None` if the word is no recursive lock.
fn recursive(word: *const u64, change: impl FnOnce(&mut (u64, u64)) -> i32) -> Option<i32> {
    if !ANY_RECURSIVE.load(Ordering::Acquire) {
        return None;
    }
    let mut all = RECURSIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    all.get_mut(&word.addr()).map(change)
}

/// Waits until it is done, and lets others run meanwhile.
fn until_success(mut attempt: impl FnMut() -> i32) -> i32 {
    loop {
        match attempt() {
            OPFAIL => team::help(),
            code => return code,
        }
    }
}

fn try_lock_recursive(owner: &mut (u64, u64)) -> i32 {
    let own = own_number();
    match owner.0 {
        0 => *owner = (own, 1),
        other if other == own => owner.1 += 1,
        _ => return OPFAIL,
    }
    SUCCESS
}

/// A lock of the program's: a word that is 0 while it is open, the number of its owner, and how often that has locked it.
#[repr(C)]
pub(crate) struct Spinlock {
    owner: AtomicU64,
    kind: AtomicI64,
    count: AtomicI64,
}

const IS_RECURSIVE: i64 = -1;
const IS_NOT_RECURSIVE: i64 = -2;

unsafe fn try_spinlock(lock: *const Spinlock) -> i32 {
    let Some(lock) = (unsafe { lock.as_ref() }) else { return BADARGS };
    let own = own_number();
    match lock.owner.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => SUCCESS,
        Err(owner) if owner == own && lock.kind.load(Ordering::Relaxed) == IS_RECURSIVE => {
            lock.count.fetch_add(1, Ordering::Relaxed);
            SUCCESS
        }
        Err(_) => OPFAIL,
    }
}

exports! {
    fn qthread_lock_init(word: *const u64, is_recursive: bool) -> i32 {
        if word.is_null() || !word.is_aligned() {
            return BADARGS;
        }
        if is_recursive {
            RECURSIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(word.addr(), (0, 0));
            ANY_RECURSIVE.store(true, Ordering::Release);
        }
        SUCCESS
    }

    fn qthread_lock_destroy(word: *mut u64) -> i32 {
        if ANY_RECURSIVE.load(Ordering::Acquire) {
            RECURSIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&word.addr());
        }
        SUCCESS
    }

    fn qthread_lock(word: *const u64) -> i32 {
        if recursive(word, |_| SUCCESS).is_some() {
            return until_success(|| recursive(word, try_lock_recursive).unwrap_or(BADARGS));
        }
        let Ok(word) = (unsafe { full_empty::word_at(word.cast_mut()) }) else { return BADARGS };
        full_empty::lock(word);
        SUCCESS
    }

    fn qthread_trylock(word: *const u64) -> i32 {
        if let Some(code) = recursive(word, try_lock_recursive) {
            return code;
        }
        let Ok(word) = (unsafe { full_empty::word_at(word.cast_mut()) }) else { return BADARGS };
        if full_empty::try_lock(word) { SUCCESS } else { OPFAIL }
    }

    fn qthread_unlock(word: *const u64) -> i32 {
        let unlock = |owner: &mut (u64, u64)| {
            if owner.0 != own_number() {
                return OPFAIL;
            }
            owner.1 -= 1;
            if owner.1 == 0 {
                owner.0 = 0;
            }
            SUCCESS
        };
        if let Some(code) = recursive(word, unlock) {
            return code;
        }
        let Ok(word) = (unsafe { full_empty::word_at(word.cast_mut()) }) else { return BADARGS };
        // That no thread had locked it is no error of Qthreads.
        full_empty::fill(word);
        SUCCESS
    }

    fn qthread_spinlock_init(lock: *mut Spinlock, is_recursive: bool) -> i32 {
        if lock.is_null() {
            return BADARGS;
        }
        let kind = if is_recursive { IS_RECURSIVE } else { IS_NOT_RECURSIVE };
        unsafe {
            lock.write(Spinlock { owner: AtomicU64::new(0), kind: AtomicI64::new(kind), count: AtomicI64::new(0) });
        }
        SUCCESS
    }

    fn qthread_spinlock_destroy(lock: *mut Spinlock) -> i32 {
        if lock.is_null() { BADARGS } else { SUCCESS }
    }

    fn qthread_spinlock_lock(lock: *mut Spinlock) -> i32 {
        until_success(|| unsafe { try_spinlock(lock) })
    }

    fn qthread_spinlock_trylock(lock: *mut Spinlock) -> i32 {
        unsafe { try_spinlock(lock) }
    }

    fn qthread_spinlock_unlock(lock: *mut Spinlock) -> i32 {
        let Some(lock) = (unsafe { lock.as_ref() }) else { return BADARGS };
        if lock.owner.load(Ordering::Relaxed) != own_number() {
            return OPFAIL;
        }
        if lock.count.load(Ordering::Relaxed) > 0 {
            lock.count.fetch_sub(1, Ordering::Relaxed);
        } else {
            lock.owner.store(0, Ordering::Release);
        }
        SUCCESS
    }
}
