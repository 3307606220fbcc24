//! Lightweight threads that follow the enders of their waits.

use crate::threads::everywhere;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use vicus_machine::{MachineRuntime, RuntimeBuilder};
use vicus_schedule::{ALL, Setting};
use vicus_threads::{self as threads, CountThreads, StartSitting, full_empty};
use vicus_topology::{NodeId, Topology};

/// A thread that goes on at the seat of the thread that ends its wait.
#[expect(unsafe_code, reason = "what the closures have on their stacks is theirs alone")]
pub(crate) fn following() -> threads::Builder {
    // SAFETY: the closures of these tests keep nothing bound to a thread of the system across a wait.
    unsafe { threads::Builder::new().follow() }
}

#[test]
fn threads_that_follow_others_exchange_what_they_are_to() {
    everywhere(|runtime, what| {
        let pair = |number: u64| {
            let words: Arc<[AtomicU64; 3]> = Arc::default();
            words[..2].iter().for_each(|word| _ = full_empty::empty(word));
            let sides = [0, 1].map(|side| {
                let words = Arc::clone(&words);
                let builder = if number.is_multiple_of(3) && side == 1 { threads::Builder::new() } else { following() };
                builder.spawn_on(runtime, move || {
                    let mut sum = 0;
                    for step in 0..100 {
                        full_empty::write_ef(&words[side], step);
                        // One more, awaited here, which ends on any seat.
                        if step % 25 == number % 25 {
                            let words = Arc::clone(&words);
                            sum += following().spawn(move || full_empty::read_fe(&words[1 - side])).join().unwrap();
                        } else {
                            sum += full_empty::read_fe(&words[1 - side]);
                        }
                        full_empty::lock(&words[2]);
                        full_empty::unlock(&words[2]).unwrap();
                    }
                    sum
                })
            });
            (words, sides)
        };
        let pairs: Vec<_> = (0..40).map(pair).collect();
        for (words, sides) in pairs {
            sides.into_iter().for_each(|side| assert_eq!(side.join().unwrap(), 4950, "{what}"));
            words.iter().for_each(|word| _ = full_empty::fill(word));
        }
    });
}

/// Two seats on two nodes, under a strategy with threads that begin at their place.
fn two_places() -> MachineRuntime {
    let topology = Topology::parse("node:2 core:1").unwrap();
    let strategy: Setting = "shepherd".parse().unwrap();
    MachineRuntime::builder().topology(topology).threads(2).strategy(strategy).quiet().start()
}

/// Keeps its seat busy until it holds, and fails if it never does.
fn spin_until(what: &str, holds: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_follows_the_one_that_wakes_it_if_its_seat_is_busy() {
    let runtime = two_places();
    let (word, state) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
    full_empty::empty(&word);
    let follower = following().place(NodeId::new(0)).spawn_on(&runtime, {
        let (word, state) = (Arc::clone(&word), Arc::clone(&state));
        move || {
            full_empty::read_ff(&word);
            state.store(3, Ordering::Release);
        }
    });
    // A child spawned before then would begin on top of it.
    spin_until("it waits", || runtime.lightweight_threads().1 > 0);
    // This one ends only after the first one has gone on, which is impossible on this seat.
    let busy = threads::Builder::new().place(NodeId::new(0)).spawn_on(&runtime, {
        let state = Arc::clone(&state);
        move || {
            state.store(2, Ordering::Release);
            spin_until("it follows", || state.load(Ordering::Acquire) == 3);
        }
    });
    let waker = threads::Builder::new().place(NodeId::new(1)).spawn_on(&runtime, move || {
        spin_until("the other seat is busy", || state.load(Ordering::Acquire) >= 2);
        full_empty::fill(&word);
    });
    [waker, busy, follower].into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_thread_stays_if_its_seat_has_nothing_else_to_do_and_goes_to_one_that_has_not() {
    let runtime = two_places();
    for place in [0, 1].map(NodeId::new) {
        let words: Arc<Vec<AtomicU64>> = Arc::new((0..200).map(|_| AtomicU64::new(0)).collect());
        let gone_on = Arc::new(AtomicUsize::new(0));
        words.iter().for_each(|word| _ = full_empty::empty(word));
        let spawn = |number: usize| {
            let (words, gone_on) = (Arc::clone(&words), Arc::clone(&gone_on));
            following().place(place).spawn_on(&runtime, move || {
                full_empty::read_ff(&words[number]);
                gone_on.fetch_add(1, Ordering::Release);
            })
        };
        let followers: Vec<_> = (0..200).map(spawn).collect();
        spin_until("all wait", || runtime.lightweight_threads().1 == 200);
        // One after the other, so that the other seat has come to rest for most of them. Those of the other place stay
        // there, and some of those of this one go there: here none goes on before this thread is over.
        let waker = threads::Builder::new().place(NodeId::new(1)).spawn_on(&runtime, {
            let (words, gone_on) = (Arc::clone(&words), Arc::clone(&gone_on));
            move || {
                for word in words.iter() {
                    full_empty::fill(word);
                    if gone_on.load(Ordering::Acquire) > 0 {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                spin_until("some go on elsewhere", || gone_on.load(Ordering::Acquire) > 0);
                words.iter().for_each(|word| _ = full_empty::fill(word));
            }
        });
        waker.join().unwrap();
        followers.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// A program's main thread sits on a seat, wakes threads, and then does something else: they go on with other seats,
/// and need not wait for it.
#[test]
fn threads_do_not_wait_for_a_main_thread_that_has_woken_them() {
    for strategy in ALL {
        let setting: Setting = strategy.name().parse().unwrap();
        let sitting: threads::Sitting =
            MachineRuntime::builder().threads(2).strategy(setting).quiet().start_sitting().unwrap();
        let words: Arc<Vec<AtomicU64>> = Arc::new((0..300).map(|_| AtomicU64::new(0)).collect());
        let go = Arc::new(AtomicU64::new(0));
        let gone_on = Arc::new(AtomicUsize::new(0));
        full_empty::empty(&go);
        words.iter().for_each(|word| _ = full_empty::empty(word));
        for number in 0..300 {
            let (words, go, gone_on) = (Arc::clone(&words), Arc::clone(&go), Arc::clone(&gone_on));
            let thread = move || {
                full_empty::fill(&words[number]);
                full_empty::read_ff(&go);
                gone_on.fetch_add(1, Ordering::Release);
            };
            following().try_detached_on(&sitting, thread).unwrap();
        }
        // It waits until all have begun, here or there.
        words.iter().for_each(|word| _ = full_empty::read_ff(word));
        full_empty::fill(&go);
        // From here on this thread does nothing for them.
        let began = std::time::Instant::now();
        while gone_on.load(Ordering::Acquire) < 300 {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{} under {}",
                gone_on.load(Ordering::Relaxed),
                strategy.name()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(sitting.end(), "{}", strategy.name());
    }
}

#[test]
fn a_thread_that_was_taken_to_its_own_place_stays_there() {
    let runtime = two_places();
    let (word, state) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
    full_empty::empty(&word);
    let stays = following().place(NodeId::new(0)).spawn_on(&runtime, {
        let (word, state) = (Arc::clone(&word), Arc::clone(&state));
        move || {
            #[expect(unsafe_code, reason = "nothing here belongs to a thread of the system")]
            // SAFETY: the values are shared by counted references, and no closure of the library is open.
            unsafe { threads::migrate_to(NodeId::new(0)) }.unwrap();
            let before = std::thread::current().id();
            full_empty::read_ff(&word);
            assert_eq!(std::thread::current().id(), before);
            assert_eq!(state.load(Ordering::Acquire), 2, "its seat was busy until then");
        }
    });
    spin_until("it waits", || runtime.lightweight_threads().1 > 0);
    let busy = threads::Builder::new().place(NodeId::new(0)).spawn_on(&runtime, {
        let state = Arc::clone(&state);
        move || {
            state.store(1, Ordering::Release);
            std::thread::sleep(Duration::from_millis(50));
            state.store(2, Ordering::Release);
        }
    });
    let waker = threads::Builder::new().place(NodeId::new(1)).spawn_on(&runtime, move || {
        spin_until("the other seat is busy", || state.load(Ordering::Acquire) >= 1);
        full_empty::fill(&word);
    });
    [waker, busy, stays].into_iter().for_each(|thread| thread.join().unwrap());
}

/// Threads waiting for a word each, and counting those gone on; all wait when this returns.
fn waiters(spawn: impl Fn(threads::Builder, Box<dyn FnOnce() + Send>), runtime: &MachineRuntime) -> Waiters {
    let words: Arc<Vec<AtomicU64>> = Arc::new((0..100).map(|_| AtomicU64::new(0)).collect());
    let gone_on = Arc::new(AtomicUsize::new(0));
    words.iter().for_each(|word| _ = full_empty::empty(word));
    for number in 0..words.len() {
        let (words, gone_on) = (Arc::clone(&words), Arc::clone(&gone_on));
        let waits = move || {
            full_empty::read_ff(&words[number]);
            gone_on.fetch_add(1, Ordering::Release);
        };
        spawn(following(), Box::new(waits));
    }
    spin_until("all wait", || {
        threads::help();
        runtime.lightweight_threads().1 == words.len() as u64
    });
    Waiters { words, gone_on }
}

#[derive(Clone)]
struct Waiters {
    words: Arc<Vec<AtomicU64>>,
    gone_on: Arc<AtomicUsize>,
}

impl Waiters {
    fn fill(&self) {
        self.words.iter().for_each(|word| _ = full_empty::fill(word));
    }

    fn is_over(&self) -> bool {
        self.gone_on.load(Ordering::Acquire) == self.words.len()
    }

    /// Blocks in the system until all have gone on.
    fn block(&self, what: &str) {
        let began = std::time::Instant::now();
        while !self.is_over() {
            let gone_on = self.gone_on.load(Ordering::Relaxed);
            assert!(began.elapsed() < Duration::from_secs(60), "{what}: {gone_on} have gone on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn threads_do_not_wait_for_one_that_blocks_and_has_woken_them() {
    for strategy in ALL {
        let setting: Setting = strategy.name().parse().unwrap();
        let runtime: MachineRuntime = MachineRuntime::builder().threads(2).strategy(setting).quiet().start();
        let waiters = waiters(|builder, waits| drop(builder.spawn_on(&runtime, waits)), &runtime);
        let blocker = threads::Builder::new().spawn_on(&runtime, move || {
            let _lent = threads::lend();
            waiters.fill();
            waiters.block(strategy.name());
        });
        blocker.join().unwrap();
    }
}

#[test]
fn threads_do_not_wait_for_one_that_blocks_whoever_wakes_them() {
    let runtime = two_places();
    let at = |node: usize| threads::Builder::new().place(NodeId::new(node));
    let waiters = waiters(|builder, waits| drop(builder.place(NodeId::new(0)).spawn_on(&runtime, waits)), &runtime);
    let blocks = Arc::new(AtomicUsize::new(0));
    let blocker = at(0).spawn_on(&runtime, {
        let (blocks, waiters) = (Arc::clone(&blocks), waiters.clone());
        move || {
            let _lent = threads::lend();
            blocks.store(1, Ordering::Release);
            waiters.block("their seat is blocked");
        }
    });
    spin_until("it blocks", || blocks.load(Ordering::Acquire) == 1);
    // By a thread of the system, and by a lightweight one of the other seat.
    let (first, rest) = waiters.words.split_at(50);
    first.iter().for_each(|word| _ = full_empty::fill(word));
    spin_until("those go on", || waiters.gone_on.load(Ordering::Acquire) == 50);
    let words = Arc::clone(&waiters.words);
    assert_eq!(rest.len(), 50);
    at(1).spawn_on(&runtime, move || words[50..].iter().for_each(|word| _ = full_empty::fill(word))).join().unwrap();
    blocker.join().unwrap();
}

#[test]
fn threads_do_not_wait_for_a_main_thread_that_ran_the_one_that_has_woken_them() {
    for strategy in ALL {
        let setting: Setting = strategy.name().parse().unwrap();
        let builder: RuntimeBuilder = MachineRuntime::builder().threads(2).strategy(setting).quiet();
        let sitting = builder.start_sitting().unwrap();
        let waiters = waiters(|builder, waits| builder.try_detached_on(&sitting, waits).unwrap(), &sitting);
        let done = Arc::new(AtomicU64::new(0));
        full_empty::empty(&done);
        // The other seat is busy until the main thread goes on, so it takes none of the threads woken before.
        let state = Arc::new(AtomicUsize::new(0));
        let busy = {
            let state = Arc::clone(&state);
            move || {
                state.store(1, Ordering::Release);
                spin_until("the main thread goes on", || state.load(Ordering::Acquire) == 2);
            }
        };
        // From outside: under some strategies no seat takes another one's children.
        let runtime: &MachineRuntime = &sitting;
        std::thread::scope(|scope| _ = scope.spawn(|| threads::Builder::new().spawn_on(runtime, busy)).join().unwrap());
        spin_until(strategy.name(), || state.load(Ordering::Acquire) == 1);
        threads::spawn({
            let (waiters, done) = (waiters.clone(), Arc::clone(&done));
            move || {
                waiters.fill();
                full_empty::fill(&done);
            }
        });
        full_empty::read_ff(&done);
        state.store(2, Ordering::Release);
        // From here on this thread does nothing for them.
        waiters.block(strategy.name());
        assert!(sitting.end(), "{}", strategy.name());
    }
}
