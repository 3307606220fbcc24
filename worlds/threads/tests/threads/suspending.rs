//! Waits of lightweight threads: each puts its thread aside and keeps no other one waiting.

use crate::following::following;
use crate::threads::everywhere;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;
use vicus_machine::{MachineRuntime, in_place_scope};
use vicus_memory::DistQueue;
use vicus_threads::{self as threads, Countdown, SyncVar, block_on, full_empty};
use vicus_topology::NodeId;

const WAITERS: usize = 50;
/// A node of each machine.
const HERE: NodeId = NodeId::new(0);

/// This number of threads wait, each for a thing of its own. Then one more ends their waits, the longest first, and
/// goes on only after each of them has gone on: if they waited one on top of the other, the first would be beneath all
/// others, and could never go on.
fn each_goes_on_by_itself<T: Send + Sync + 'static>(
    runtime: &MachineRuntime,
    thing: impl Fn() -> T,
    wait: fn(&T),
    end: fn(&T),
) {
    let things: Arc<Vec<T>> = Arc::new((0..WAITERS).map(|_| thing()).collect());
    let gone_on: Arc<Vec<SyncVar>> = Arc::new((0..WAITERS).map(|_| SyncVar::empty()).collect());
    let all = threads::Builder::new().spawn_on(runtime, move || {
        let waiter = |number: usize| {
            let (things, gone_on) = (Arc::clone(&things), Arc::clone(&gone_on));
            threads::spawn(move || {
                wait(&things[number]);
                gone_on[number].fill();
            })
        };
        let waiters: Vec<_> = (0..WAITERS).map(waiter).collect();
        let ender = threads::spawn(move || {
            for (thing, gone_on) in things.iter().zip(gone_on.iter()) {
                end(thing);
                gone_on.read_ff();
            }
        });
        ender.join().unwrap();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
    all.join().unwrap();
}

#[test]
fn a_wait_for_a_word_or_a_variable_holds_no_other_up() {
    let word = || {
        let word = Box::new(AtomicU64::new(0));
        full_empty::empty(&word);
        word
    };
    everywhere(|runtime, _| {
        each_goes_on_by_itself(runtime, word, |word| _ = full_empty::read_ff(word), |word| _ = full_empty::fill(word));
        each_goes_on_by_itself(runtime, SyncVar::empty, |var| _ = var.read_ff(), |var| var.write_f(1));
    });
}

#[test]
fn a_wait_for_a_count_or_an_element_of_a_queue_holds_no_other_up() {
    everywhere(|runtime, _| {
        each_goes_on_by_itself(runtime, || Countdown::new(1), Countdown::wait, Countdown::submit);
        let queue = || DistQueue::<u32>::new(runtime.topology());
        let pop = |queue: &DistQueue<u32>| assert_eq!(block_on(queue.pop(HERE)), Ok(7));
        each_goes_on_by_itself(runtime, queue, pop, |queue| queue.push(HERE, 7).unwrap());
    });
}

/// A thread waiting for a word, and awaited by another one.
type Joined = (Mutex<Option<threads::JoinHandle<()>>>, Arc<AtomicU64>);

#[test]
fn a_wait_for_a_thread_or_a_future_holds_no_other_up() {
    fn joined(runtime: &MachineRuntime) -> Joined {
        let word = Arc::new(AtomicU64::new(0));
        full_empty::empty(&word);
        let theirs = Arc::clone(&word);
        let thread = threads::Builder::new().spawn_on(runtime, move || _ = full_empty::read_ff(&theirs));
        (Mutex::new(Some(thread)), word)
    }
    everywhere(|runtime, _| {
        let join = |joined: &Joined| {
            let thread = joined.0.lock().unwrap().take().unwrap();
            thread.join().unwrap();
        };
        each_goes_on_by_itself(runtime, || joined(runtime), join, |joined| _ = full_empty::fill(&joined.1));
        let block = |joined: &Joined| {
            let thread = joined.0.lock().unwrap().take().unwrap();
            block_on(thread).unwrap();
        };
        each_goes_on_by_itself(runtime, || joined(runtime), block, |joined| _ = full_empty::fill(&joined.1));
    });
}

thread_local! {
    /// The first thread of the system to look at it.
    static SEEN_BY: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

/// The calling thread of the system, and the one whose `thread_local!` is found here.
#[inline(never)]
fn who() -> (ThreadId, ThreadId) {
    let own = std::thread::current().id();
    (
        own,
        SEEN_BY.with(|seen| {
            seen.get().unwrap_or_else(|| {
                seen.set(Some(own));
                own
            })
        }),
    )
}

/// Waits of each kind, one after the other; `after` is called after each.
fn wait_in_all_ways(words: &[AtomicU64; 3], side: usize, steps: u64, mut after: impl FnMut(&str)) {
    for step in 0..steps {
        full_empty::write_ef(&words[side], step);
        after("write_ef");
        full_empty::read_fe(&words[1 - side]);
        after("read_fe");
        full_empty::lock(&words[2]);
        threads::yield_now();
        after("yield_now");
        full_empty::unlock(&words[2]).unwrap();
        threads::spawn(threads::yield_now).join().unwrap();
        after("join");
        block_on(threads::spawn(threads::yield_now)).unwrap();
        after("block_on");
        let mut sum = 0;
        in_place_scope(|scope| scope.spawn(|_| sum += step));
        after("scope");
        if step % 8 == 0 {
            threads::sleep(Duration::from_micros(100));
            after("sleep");
        }
    }
}

/// Pairs of threads exchanging values. After each wait of a thread, `after` gets its identity before the first wait.
fn pairs(runtime: &MachineRuntime, builder: fn() -> threads::Builder, after: fn((ThreadId, ThreadId), &str)) {
    let spawn = |_| {
        let words: Arc<[AtomicU64; 3]> = Arc::default();
        words[..2].iter().for_each(|word| _ = full_empty::empty(word));
        let side = |side: usize| {
            let words = Arc::clone(&words);
            builder().spawn_on(runtime, move || {
                let before = who();
                wait_in_all_ways(&words, side, 30, |what| after(before, what));
            })
        };
        let sides = [0, 1].map(side);
        (sides, words)
    };
    let all: Vec<_> = (0..20).map(spawn).collect();
    for (sides, words) in all {
        sides.into_iter().for_each(|side| side.join().unwrap());
        words.iter().for_each(|word| _ = full_empty::fill(word));
    }
}

#[test]
fn a_thread_that_has_begun_stays_with_its_thread_of_the_system() {
    everywhere(|runtime, _| {
        pairs(runtime, threads::Builder::new, |before, what| assert_eq!(who(), before, "after {what}"));
    });
}

#[test]
fn a_thread_that_follows_others_finds_the_thread_locals_of_the_one_that_runs_it() {
    static MOVED: AtomicU64 = AtomicU64::new(0);
    everywhere(|runtime, _| {
        pairs(runtime, following, |before, what| {
            let (own, seen_by) = who();
            assert_eq!(own, seen_by, "after {what}");
            MOVED.fetch_add(u64::from(own != before.0), Ordering::Relaxed);
        });
    });
    assert!(MOVED.load(Ordering::Relaxed) > 0, "some go on elsewhere");
}
