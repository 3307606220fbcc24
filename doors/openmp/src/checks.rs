//! Checks on request (`VICUS_CHECK`): mistakes of a program that OpenMP leaves undefined. Each is one line on standard
//! error, and the program goes on as it would without.

use crate::settings::complain;
use crate::thread::{Task, here};
use crate::wait::Guarded;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_ON: AtomicBool = AtomicBool::new(false);

/// Whether a program is checked.
#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// The settings are known.
pub(crate) fn begin(is_wanted: bool) {
    IS_ON.store(is_wanted, Ordering::Relaxed);
}

/// Resets the lock in a forked child.
pub(crate) fn begin_anew() {
    HELD.begin_anew();
}

/// A task depends on an address in freed memory (the range of placed blocks, but in none of them), or in unmapped
/// memory.
#[cold]
pub(crate) fn depends_on(address: usize) {
    if address == 0 {
        return;
    }
    let what = if crate::placed::is_freed(address) {
        "was freed"
    } else if !is_mapped(address) {
        "is not there"
    } else {
        return;
    };
    complain(&format!("a depend clause names {address:#x}, in memory that {what}"));
}

fn is_mapped(address: usize) -> bool {
    let _errno = crate::wait::KeepErrno::new();
    let mut state = 0;
    // SAFETY: rule "System": the page is given by its address alone, and may be unmapped; `state` has a byte for it.
    unsafe {
        let page = address & !(libc::getauxval(libc::AT_PAGESZ) as usize - 1);
        libc::mincore(std::ptr::with_exposed_provenance_mut(page), 1, &raw mut state) == 0
    }
}

/// The task holding each lock, by the lock's address, and the number of its thread.
static HELD: Guarded<BTreeMap<usize, (usize, u32)>> = Guarded::new(BTreeMap::new());

/// The running task has set a lock.
#[cold]
pub(crate) fn note_set(lock: usize) {
    let thread = here();
    let owner = (thread.task.addr(), thread.number);
    HELD.with(|held| held.insert(lock, owner));
}

/// The running task is about to unset a lock.
#[cold]
pub(crate) fn note_unset(lock: usize) {
    let thread = here();
    match HELD.with(|held| held.remove(&lock)) {
        None => complain(&format!("thread {} unsets the lock at {lock:#x}, which is not set", thread.number)),
        Some((task, number)) if task != thread.task.addr() => told_of_another(lock, thread.number, number),
        Some(_) => {}
    }
}

fn told_of_another(lock: usize, own: u32, other: u32) {
    complain(&format!("thread {own} unsets the lock at {lock:#x}, which a task of thread {other} has set"));
}

/// A task unsets a nested lock held by another one. The lock knows its owner in any case, so this is told once even
/// without the check.
#[cold]
pub(crate) fn nested_is_unset_by_another(lock: usize, owner: *const Task) {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    if is_on() || !IS_TOLD.swap(true, Ordering::Relaxed) {
        let what = if owner.is_null() { "is not set" } else { "another task has set" };
        complain(&format!("thread {} unsets the nested lock at {lock:#x}, which {what}", here().number));
    }
}
