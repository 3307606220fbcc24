//! Models of the lock-free parts: the same files, with the atomics and the waits of loom.
//!
//! The crate itself stays with the standard atomics under loom, because its locks are statics.

mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
}

/// The kernel's sleep on a word: the comparison and the wake exclude one another.
mod futex {
    use super::atomics::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    pub(crate) const LOOKS: u32 = 0;

    loom::lazy_static! {
        static ref KERNEL: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(crate) fn sleep_on(word: &AtomicU32, value: u32) {
        let guard = KERNEL.0.lock().unwrap();
        if word.load(Ordering::Relaxed) == value {
            drop(KERNEL.1.wait(guard).unwrap());
        }
    }

    pub(crate) fn wake(_word: *const AtomicU32, _count: i32) {
        drop(KERNEL.0.lock().unwrap());
        KERNEL.1.notify_one();
    }
}

mod wait {
    /// A value under a lock. The lock's own model is below.
    pub(crate) struct Guarded<T>(loom::sync::Mutex<T>);

    impl<T> Guarded<T> {
        pub(crate) fn new(value: T) -> Guarded<T> {
            Guarded(loom::sync::Mutex::new(value))
        }

        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            f(&mut self.0.lock().unwrap())
        }
    }

    pub(crate) fn wait_until(mut is_done: impl FnMut() -> bool) {
        while !is_done() {
            loom::thread::yield_now();
        }
    }
}

#[path = "bell.rs"]
mod bell;
#[path = "event.rs"]
mod event;
#[path = "lock.rs"]
mod lock;
mod race;
#[path = "shares.rs"]
mod shares;
#[path = "stage.rs"]
mod stage;

use atomics::{AtomicU32, Ordering};
use bell::Bell;
use event::Event;
use lock::Lock;
use loom::thread;
use race::{Data, check, finds};
use shares::{Line, Share, take};
use stage::Stage;
// Not loom's: a model that fails drops it outside of the model.
use std::sync::Arc;

// ---- a thread that waits for its next region ----

/// A thread is called twice, and each time it finds what the caller has written. `marks` is false in the broken
/// variant: the thread sleeps without a mark.
fn called_twice(marks: bool) {
    let dock = Arc::new((Bell::new(), Data::new(0), AtomicU32::new(0)));
    let theirs = Arc::clone(&dock);
    let thread = thread::spawn(move || {
        let (bell, region, come) = &*theirs;
        let mut seen = 0;
        for expected in 1..=2 {
            seen = loop {
                if let Some(state) = bell.called_since(seen) {
                    break state;
                }
                if !marks {
                    futex::sleep_on(bell.word(), seen);
                } else if let Some(asleep) = bell.mark_asleep(seen) {
                    futex::sleep_on(bell.word(), asleep);
                }
            };
            assert_eq!(region.get(), expected);
            come.store(expected, Ordering::Release);
        }
    });
    let (bell, region, come) = &*dock;
    for number in 1..=2 {
        region.set(number);
        if bell.ring() {
            futex::wake(bell.word(), 1);
        }
        wait::wait_until(|| come.load(Ordering::Acquire) == number);
    }
    thread.join().unwrap();
}

#[test]
fn loom_a_thread_at_its_dock_hears_each_call() {
    check(|| called_twice(true));
}

#[test]
fn loom_a_thread_that_sleeps_without_a_mark_is_found() {
    assert!(finds(|| called_twice(false)));
}

// ---- the event of a task ----

/// How the task of an event ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Runs,
    IsDropped,
    /// Another thread fulfils the event only after all.
    IsDroppedBefore,
    /// The broken variant: a dropped task ends the use of the caller that fulfils the event.
    TakesAnothersUse,
}

/// The maker holds a child with the event, another thread fulfils it, and a third one ends the task. The child is
/// released once, and the event is freed once.
fn event_of_a_task(end: End) {
    struct HeldChild(Arc<AtomicU32>);
    let (released, freed) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let release = |held: Option<HeldChild>| {
        held.into_iter().for_each(|held| _ = held.0.fetch_add(1, Ordering::Relaxed));
    };
    let address = Event::<HeldChild>::new().expose_provenance();
    let event = move || -> *const Event<HeldChild> { std::ptr::with_exposed_provenance(address) };
    let drop_one = move |freed: &AtomicU32| {
        // SAFETY: the calling thread is one of its users, but for the broken variant.
        let is_last = unsafe { Event::drop_one(event()) };
        freed.fetch_add(u32::from(is_last), Ordering::Relaxed);
    };
    // SAFETY: each thread is one of its users until its `drop_one`.
    let one = move || unsafe { &*event() };
    let theirs = Arc::clone(&freed);
    let fulfil = move || {
        if let Some(held) = one().fulfil() {
            release(held);
            drop_one(&theirs);
        }
    };
    let (now, later) = if end == End::IsDroppedBefore { (None, Some(fulfil)) } else { (Some(fulfil), None) };
    let fulfils = now.map(thread::spawn);
    let theirs = Arc::clone(&freed);
    let ends = thread::spawn(move || {
        if end != End::Runs {
            release(one().abandon());
        }
        if end == End::TakesAnothersUse {
            // The count of the broken variant alone: the memory stays, since loom would not tell of its use.
            assert!(one().users() > 1, "the caller that fulfils it still uses it");
        }
        drop_one(&theirs);
    });
    release(one().hold(HeldChild(Arc::clone(&released))));
    drop_one(&freed);
    fulfils.into_iter().for_each(|fulfils| fulfils.join().unwrap());
    ends.join().unwrap();
    assert_eq!(released.load(Ordering::Relaxed), 1);
    later.into_iter().for_each(|fulfil| fulfil());
    assert_eq!(freed.load(Ordering::Relaxed), 1);
}

#[test]
fn loom_an_event_releases_its_child_once_and_is_freed_once() {
    check(|| event_of_a_task(End::Runs));
    check(|| event_of_a_task(End::IsDropped));
    check(|| event_of_a_task(End::IsDroppedBefore));
}

#[test]
fn loom_a_task_that_is_not_the_last_user_of_its_event_is_found() {
    assert!(finds(|| event_of_a_task(End::TakesAnothersUse)));
}

// ---- the stages of a loop ----

/// Two threads come to three loops, each in the same slot. The first to come writes the loop's data, and the last to
/// leave clears them. `counts_all` is false in the broken variant: the first to leave frees the slot.
fn loops_in_one_slot(counts_all: bool) {
    const LOOPS: u64 = 3;
    let slot = Arc::new((Stage::new(0), Data::new(0)));
    let run = move |slot: &(Stage, Data)| {
        let (stage, data) = slot;
        for number in 0..LOOPS {
            stage.enter(number, || {
                assert_eq!(data.get(), 0, "the last one has cleared it");
                data.set(number as u32 + 1);
            });
            assert_eq!(data.get(), number as u32 + 1);
            stage.leave(if counts_all { 2 } else { 1 }, number + 1, || data.set(0));
        }
    };
    let theirs = Arc::clone(&slot);
    let thread = thread::spawn(move || run(&theirs));
    run(&slot);
    thread.join().unwrap();
    assert_eq!(slot.1.get(), 0);
}

#[test]
fn loom_a_slot_is_prepared_once_and_cleared_once_for_each_loop() {
    check(|| loops_in_one_slot(true));
}

#[test]
fn loom_a_slot_that_is_freed_too_early_is_found() {
    assert!(finds(|| loops_in_one_slot(false)));
}

// ---- the shares of a returning loop ----

/// Two threads take all chunks of a loop: each goes out once. `steals_whole` is true in the broken variant: a thread
/// sets its own share to the chunks of the other one, and leaves them there, too.
fn shared_chunks(steals_whole: bool) {
    const CHUNKS: u32 = 5;
    let shares: Vec<Line<Share>> = (0..2).map(|_| Line(Share::default())).collect();
    shares[0].0.set(0, 2);
    shares[1].0.set(2, CHUNKS);
    let shares = Arc::new((shares, (0..CHUNKS).map(|_| AtomicU32::new(0)).collect::<Vec<_>>()));
    let run = move |(shares, runs): &(Vec<Line<Share>>, Vec<AtomicU32>), number: usize| {
        let mut has_stolen = !steals_whole;
        loop {
            let chunk = match take(shares, number) {
                Some(chunk) => chunk,
                None if has_stolen => break,
                None => {
                    has_stolen = true;
                    shares[number].0.set(0, 1);
                    continue;
                }
            };
            let before = runs[chunk as usize].fetch_add(1, Ordering::Relaxed);
            assert_eq!(before, 0, "chunk {chunk} goes out once");
        }
    };
    let theirs = Arc::clone(&shares);
    let thread = thread::spawn(move || run(&theirs, 1));
    run(&shares, 0);
    thread.join().unwrap();
    let is_left = |run: &AtomicU32| run.load(Ordering::Relaxed) == 0;
    assert!(!shares.1.iter().any(is_left), "all chunks have gone out");
}

#[test]
fn loom_each_chunk_of_a_loop_goes_out_once() {
    check(|| shared_chunks(false));
}

#[test]
fn loom_a_chunk_that_comes_back_is_found() {
    assert!(finds(|| shared_chunks(true)));
}

// ---- locks ----

/// Three threads change data under a lock. `marks` is false in the broken variant: a thread waits for the lock without
/// saying so.
fn locked(marks: bool) {
    let shared = Arc::new((Lock(AtomicU32::new(lock::FREE)), Data::new(0)));
    let change = move |(lock, data): &(Lock, Data)| {
        if marks {
            lock.lock();
        } else {
            while !lock.try_lock() {
                futex::sleep_on(&lock.0, 1);
            }
        }
        data.set(data.get() + 1);
        lock.unlock();
    };
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let theirs = Arc::clone(&shared);
            thread::spawn(move || change(&theirs))
        })
        .collect();
    change(&shared);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(!shared.0.is_held());
    assert_eq!(shared.1.get(), 3);
}

#[test]
fn loom_a_lock_is_held_by_one_thread_and_wakes_the_next() {
    check(|| locked(true));
}

#[test]
fn loom_a_waiter_that_leaves_no_mark_is_found() {
    assert!(finds(|| locked(false)));
}
