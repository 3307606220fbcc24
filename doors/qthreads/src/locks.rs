//! Locks by address, and the program's own lock structures. A waiting thread lets others run, or is suspended.

use crate::codes::{BADARGS, OPFAIL, SUCCESS};
use crate::exports;
use crate::fork::here;
use crate::spinlock::Spinlock;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use vicus::kit::team;
use vicus::threads::full_empty;

/// The data of a word that its owner may lock again. The word itself is empty meanwhile, like any locked word.
#[derive(Default)]
struct Recursive {
    /// The number of the owner, or 0.
    owner: AtomicU64,
    /// How often it has. Its owner alone looks at this.
    count: AtomicU64,
}

/// The recursive words of a bucket, by their addresses.
type Bucket = Vec<(usize, Arc<Recursive>)>;

const BUCKETS: usize = 1024;

static RECURSIVE: [Mutex<Bucket>; BUCKETS] = [const { Mutex::new(Vec::new()) }; BUCKETS];
/// The number of recursive words in each bucket: locks of other buckets look no further. Kept apart from the buckets,
/// whose cache lines are written.
static COUNTS: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];

fn bucket_of(word: *const u64) -> usize {
    crate::hash::mix(word.addr() as u64) as usize % BUCKETS
}

fn bucket(at: usize) -> MutexGuard<'static, Bucket> {
    RECURSIVE[at].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A word's data if it is a recursive lock.
#[inline]
fn recursive(word: *const u64) -> Option<Arc<Recursive>> {
    let at = bucket_of(word);
    if COUNTS[at].load(Ordering::Acquire) == 0 {
        return None;
    }
    bucket(at).iter().find(|(address, _)| *address == word.addr()).map(|(_, lock)| Arc::clone(lock))
}

/// Forgets the recursive lock of a word. Returns whether it was locked.
fn forget(word: *const u64) -> bool {
    let at = bucket_of(word);
    if COUNTS[at].load(Ordering::Acquire) == 0 {
        return false;
    }
    let mut all = bucket(at);
    let Some(index) = all.iter().position(|(address, _)| *address == word.addr()) else { return false };
    let (_, lock) = all.swap_remove(index);
    COUNTS[at].fetch_sub(1, Ordering::Release);
    lock.owner.load(Ordering::Relaxed) != 0
}

impl Recursive {
    /// Locks the word again, if it is the calling thread's.
    fn again(&self, own: u64) -> bool {
        // Only this thread writes its own number.
        let is_own = self.owner.load(Ordering::Relaxed) == own;
        if is_own {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        is_own
    }

    fn taken(&self, own: u64) {
        self.count.store(1, Ordering::Relaxed);
        self.owner.store(own, Ordering::Relaxed);
    }

    fn lock(&self, word: &AtomicU64) {
        let own = own_number();
        if !self.again(own) {
            full_empty::lock(word);
            self.taken(own);
        }
    }

    fn try_lock(&self, word: &AtomicU64) -> bool {
        let own = own_number();
        if self.again(own) {
            return true;
        }
        let is_taken = full_empty::try_lock(word);
        if is_taken {
            self.taken(own);
        }
        is_taken
    }

    /// Whether it was the calling thread's.
    fn unlock(&self, word: &AtomicU64) -> bool {
        if self.owner.load(Ordering::Relaxed) != own_number() {
            return false;
        }
        if self.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.owner.store(0, Ordering::Relaxed);
            full_empty::fill(word);
        }
        true
    }
}

/// The calling thread, as a number unique among running threads.
fn own_number() -> u64 {
    match here() {
        Some(thread) => ptr::from_ref(thread).addr() as u64,
        None => {
            thread_local!(static ADDRESS: u8 = const { 0 });
            ADDRESS.with(|address| ptr::from_ref(address).addr() as u64)
        }
    }
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

/// # Safety
/// Rule "Interface": null, or an initialized lock of the program's.
unsafe fn try_spinlock(lock: *const Spinlock) -> i32 {
    // SAFETY: the caller's promise.
    let Some(lock) = (unsafe { lock.as_ref() }) else { return BADARGS };
    if lock.try_lock(own_number()) { SUCCESS } else { OPFAIL }
}

exports! {
    fn qthread_lock_init(word: *mut u64, is_recursive: bool) -> i32 {
        // SAFETY: rule "Words": another address is refused.
        let Ok(open) = (unsafe { full_empty::word_at(word) }) else { return BADARGS };
        if !is_recursive {
            return SUCCESS;
        }
        forget(word);
        full_empty::fill(open);
        let at = bucket_of(word);
        bucket(at).push((word.addr(), Arc::default()));
        COUNTS[at].fetch_add(1, Ordering::Release);
        SUCCESS
    }

    fn qthread_lock_destroy(word: *mut u64) -> i32 {
        // SAFETY: rule "Words": another address is refused.
        if forget(word) && let Ok(word) = unsafe { full_empty::word_at(word) } {
            full_empty::fill(word);
        }
        SUCCESS
    }

    fn qthread_lock(word: *mut u64) -> i32 {
        // SAFETY: rule "Words": another address is refused.
        let Ok(own) = (unsafe { full_empty::word_at(word) }) else { return BADARGS };
        match recursive(word) {
            Some(lock) => lock.lock(own),
            None => full_empty::lock(own),
        }
        SUCCESS
    }

    fn qthread_trylock(word: *mut u64) -> i32 {
        // SAFETY: rule "Words": another address is refused.
        let Ok(own) = (unsafe { full_empty::word_at(word) }) else { return BADARGS };
        let is_taken = match recursive(word) {
            Some(lock) => lock.try_lock(own),
            None => full_empty::try_lock(own),
        };
        if is_taken { SUCCESS } else { OPFAIL }
    }

    fn qthread_unlock(word: *mut u64) -> i32 {
        // SAFETY: rule "Words": another address is refused.
        let Ok(own) = (unsafe { full_empty::word_at(word) }) else { return BADARGS };
        if let Some(lock) = recursive(word) {
            return if lock.unlock(own) { SUCCESS } else { OPFAIL };
        }
        // An unlocked word is no error of Qthreads.
        full_empty::fill(own);
        SUCCESS
    }

    fn qthread_spinlock_init(lock: *mut Spinlock, is_recursive: bool) -> i32 {
        if lock.is_null() {
            return BADARGS;
        }
        // SAFETY: rule "Interface": the program's structure can be written.
        unsafe { lock.write(Spinlock::new(is_recursive)) };
        SUCCESS
    }

    fn qthread_spinlock_destroy(lock: *mut Spinlock) -> i32 {
        if lock.is_null() { BADARGS } else { SUCCESS }
    }

    fn qthread_spinlock_lock(lock: *mut Spinlock) -> i32 {
        // SAFETY: rule "Interface": null, or an initialized lock of the program's.
        until_success(|| unsafe { try_spinlock(lock) })
    }

    fn qthread_spinlock_trylock(lock: *mut Spinlock) -> i32 {
        // SAFETY: rule "Interface": null, or an initialized lock of the program's.
        unsafe { try_spinlock(lock) }
    }

    fn qthread_spinlock_unlock(lock: *mut Spinlock) -> i32 {
        // SAFETY: rule "Interface": null, or an initialized lock of the program's.
        let Some(lock) = (unsafe { lock.as_ref() }) else { return BADARGS };
        if lock.unlock(own_number()) { SUCCESS } else { OPFAIL }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    /// The first test holds the whole table.
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());

    fn init(word: *mut u64) -> i32 {
        // SAFETY: a word of the test's.
        unsafe { qthread_lock_init(word, true) }
    }

    fn destroy(word: *mut u64) -> i32 {
        // SAFETY: a word of the test's.
        unsafe { qthread_lock_destroy(word) }
    }

    #[test]
    fn locks_that_are_not_recursive_look_at_a_count_alone() {
        let _alone = ONE_BY_ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut words = [0_u64; 64];
        let [again, others @ ..] = &mut words;
        let again = ptr::from_mut(again);
        let other = others.iter_mut().map(ptr::from_mut).find(|&word| bucket_of(word) != bucket_of(again));
        let other = other.expect("not all have one bucket").expose_provenance();
        assert_eq!(init(again), SUCCESS);
        let held: Vec<_> = (0..BUCKETS).map(bucket).collect();
        let (send, receive) = channel();
        let user = thread::spawn(move || {
            let word: *mut u64 = ptr::with_exposed_provenance_mut(other);
            // SAFETY: a word of the test's, which outlives the thread.
            let codes = unsafe { [qthread_lock(word), qthread_trylock(word), qthread_unlock(word)] };
            send.send((codes, destroy(word))).expect("it is waited for");
        });
        let codes = receive.recv_timeout(Duration::from_secs(20)).expect("no lock of the table is in its way");
        assert_eq!(codes, ([SUCCESS, OPFAIL, SUCCESS], SUCCESS));
        user.join().expect("it only locks");
        drop(held);
        // Twice is once.
        assert_eq!(init(again), SUCCESS);
        assert_eq!(COUNTS[bucket_of(again)].load(Ordering::Relaxed), 1);
        (0..2).for_each(|_| assert_eq!(destroy(again), SUCCESS));
        assert_eq!(COUNTS[bucket_of(again)].load(Ordering::Relaxed), 0);
        assert!(bucket(bucket_of(again)).is_empty());
    }

    #[test]
    fn a_recursive_lock_that_is_destroyed_is_open() {
        let _alone = ONE_BY_ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut word = 0;
        let word = ptr::from_mut(&mut word);
        // SAFETY: a word of the test's.
        unsafe {
            assert_eq!(
                (qthread_lock_init(word, true), qthread_lock(word), qthread_lock(word)),
                (SUCCESS, SUCCESS, SUCCESS)
            );
            assert_eq!((qthread_lock_destroy(word), qthread_trylock(word)), (SUCCESS, SUCCESS));
            assert_eq!((qthread_trylock(word), qthread_unlock(word)), (OPFAIL, SUCCESS));
        }
    }
}
