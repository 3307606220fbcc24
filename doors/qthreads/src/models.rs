//! Models of the parts that count, meet, lock and hand over: the same files, with the atomics and the locks of loom.

mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
}

mod sync {
    pub(crate) use loom::sync::{Mutex, MutexGuard};
}

/// Full/empty bits, whose own models are in worlds/threads: here a word is empty while it is 1.
mod full_empty {
    use super::atomics::{AtomicU64, Ordering};
    use super::sync::Mutex;
    use loom::sync::Condvar;

    loom::lazy_static! {
        static ref BITS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(crate) fn empty(word: &AtomicU64) {
        let _bits = BITS.0.lock().unwrap();
        word.store(1, Ordering::Relaxed);
    }

    pub(crate) fn fill(word: &AtomicU64) -> bool {
        let _bits = BITS.0.lock().unwrap();
        let was_empty = word.swap(0, Ordering::Relaxed) == 1;
        BITS.1.notify_all();
        !was_empty
    }

    pub(crate) fn read_ff(word: &AtomicU64) -> u64 {
        let mut bits = BITS.0.lock().unwrap();
        while word.load(Ordering::Relaxed) == 1 {
            bits = BITS.1.wait(bits).unwrap();
        }
        0
    }
}

mod each {
    /// No wait of a model is unwound.
    pub(crate) fn wait_in_frame(word: &super::atomics::AtomicU64, _forget: impl Fn() -> bool) {
        super::full_empty::read_ff(word);
    }
}

#[path = "count.rs"]
mod count;
#[path = "meeting.rs"]
mod meeting;
#[path = "../../openmp/src/models/race.rs"]
mod race;
#[path = "ring.rs"]
mod ring;
#[path = "spinlock.rs"]
mod spinlock;

use count::Count;
use loom::thread;
use meeting::Barrier;
use race::{Data, check, finds};
use ring::Ring;
use spinlock::Spinlock;
// Not loom's: a model that fails drops it outside of the model.
use std::sync::Arc;

/// The maker waits for two threads, and sees what they have done. `counts_both` is false in the broken variant: one
/// thread was not added.
fn counted(counts_both: bool) {
    let all = Arc::new((Count::new(), [Data::new(0), Data::new(0)]));
    all.0.add(if counts_both { 2 } else { 1 });
    let threads: Vec<_> = (0..2)
        .map(|number| {
            let all = Arc::clone(&all);
            thread::spawn(move || {
                all.1[number].set(1);
                all.0.end_one();
            })
        })
        .collect();
    all.0.wait();
    assert_eq!((all.1[0].get(), all.1[1].get()), (1, 1));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn loom_the_maker_of_a_count_sees_what_all_have_done() {
    check(|| counted(true));
}

#[test]
fn loom_a_thread_that_is_not_counted_is_found() {
    assert!(finds(|| counted(false)));
}

/// Two threads meet twice at a barrier, and each sees what the other one has done before. `wanted` is 2, or 1 in the
/// broken variant.
fn met(wanted: usize) {
    let all = Arc::new((Barrier::new(wanted), [Data::new(0), Data::new(0)]));
    let run = |(barrier, data): &(Barrier, [Data; 2]), own: usize| {
        for time in 1..=2 {
            data[own].set(time);
            barrier.enter();
            assert_eq!(data[1 - own].get(), time);
            barrier.enter();
        }
    };
    let theirs = Arc::clone(&all);
    let thread = thread::spawn(move || run(&theirs, 1));
    run(&all, 0);
    thread.join().unwrap();
    assert!(all.0.lock().waiting.is_empty());
}

#[test]
fn loom_threads_at_a_barrier_see_what_each_did_before() {
    check(|| met(2));
}

#[test]
fn loom_a_barrier_that_opens_too_early_is_found() {
    assert!(finds(|| met(1)));
}

/// A thread hands three numbered places over by a queue with room for two, and the other one reads what was written
/// there. `takes_turns` is false in the broken variant: two threads put elements in at once.
fn handed_over(takes_turns: bool) {
    let all = Arc::new((Ring::new(2), [Data::new(0), Data::new(0), Data::new(0)]));
    let put = |all: &(Ring, [Data; 3]), number: usize| {
        all.1[number - 1].set(number as u32);
        while !all.0.push(number) {
            thread::yield_now();
        }
    };
    let theirs = Arc::clone(&all);
    let thread = thread::spawn(move || {
        for number in if takes_turns { 1..=3 } else { 1..=1 } {
            put(&theirs, number);
        }
    });
    if !takes_turns {
        put(&all, 2);
        thread.join().unwrap();
        let mut taken = [all.0.pop(), all.0.pop()];
        taken.sort_unstable();
        assert_eq!(taken, [Some(1), Some(2)], "none is lost");
        return;
    }
    let mut next = 1;
    while next <= 3 {
        match all.0.pop() {
            Some(number) => {
                assert_eq!((number, all.1[number - 1].get()), (next, next as u32), "in order, and with its data");
                next += 1;
            }
            None => thread::yield_now(),
        }
    }
    thread.join().unwrap();
    assert!(all.0.is_empty());
}

#[test]
fn loom_a_queue_between_two_threads_hands_over_each_element_once() {
    check(|| handed_over(true));
}

#[test]
fn loom_two_threads_that_put_at_once_are_found() {
    assert!(finds(|| handed_over(false)));
}

/// Two threads count under a recursive lock, which each takes twice. `own` has the threads' numbers: one for both in
/// the broken variant.
fn locked(own: [u64; 2]) {
    let all = Arc::new((Spinlock::new(true), Data::new(0)));
    let count = |(lock, data): &(Spinlock, Data), own: u64| {
        while !lock.try_lock(own) {
            thread::yield_now();
        }
        assert!(lock.try_lock(own), "it is this thread's");
        data.set(data.get() + 1);
        assert!(lock.unlock(own) && lock.unlock(own));
    };
    let theirs = Arc::clone(&all);
    let thread = thread::spawn(move || count(&theirs, own[1]));
    count(&all, own[0]);
    thread.join().unwrap();
    assert!(!all.0.unlock(own[0]), "it is open");
    assert_eq!(all.1.get(), 2);
}

#[test]
fn loom_a_spinlock_is_held_by_one_thread() {
    check(|| locked([1, 2]));
}

#[test]
fn loom_two_threads_of_one_number_are_found() {
    assert!(finds(|| locked([1, 1])));
}
