//! Lightweight threads, under every strategy.

use crate::following::following;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library};
use vicus_machine::{MachineRuntime, in_place_scope, join};
use vicus_schedule::{ALL, Setting};
use vicus_threads::{self as threads, CountThreads, StartSitting, block_on, full_empty};
use vicus_topology::{GroupId, NodeId, Topology};

/// Runs a program in a runtime of every strategy with 1, 2, 3 and 8 threads.
pub(crate) fn everywhere(program: impl Fn(&MachineRuntime, &str)) {
    for strategy in ALL {
        for threads in [1, 2, 3, 8] {
            let setting: Setting = strategy.name().parse().unwrap();
            let runtime = MachineRuntime::builder().threads(threads).strategy(setting).quiet().start();
            program(&runtime, &format!("{} with {threads} threads", strategy.name()));
        }
    }
}

#[test]
fn a_thread_gives_its_result_to_its_joiner() {
    everywhere(|runtime, what| {
        let sum: usize = runtime.run(|| {
            let threads: Vec<_> = (0..1000).map(|n| threads::spawn(move || n)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(sum, 499_500, "{what}");
        let outside = threads::Builder::new().spawn_on(runtime, || threads::spawn(|| 7).join().unwrap());
        assert_eq!(outside.join().unwrap(), 7, "{what}");
    });
}

#[test]
fn yielding_threads_and_queued_ones_all_come_to_their_end() {
    everywhere(|runtime, what| {
        let count = Arc::new(AtomicUsize::new(0));
        runtime.run(|| {
            let spawn = |_| {
                let count = Arc::clone(&count);
                threads::spawn(move || {
                    for _ in 0..10 {
                        threads::yield_now();
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                })
            };
            let threads: Vec<_> = (0..100).map(spawn).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert_eq!(count.load(Ordering::Relaxed), 100, "{what}");
    });
}

#[test]
fn every_wait_of_the_library_suspends_a_thread() {
    everywhere(|runtime, what| {
        let count = Arc::new(AtomicUsize::new(0));
        let threads = (0..20).map(|_| {
            let count = Arc::clone(&count);
            threads::Builder::new().spawn_on(runtime, move || {
                let add = || _ = count.fetch_add(1, Ordering::Relaxed);
                join(add, add);
                in_place_scope(|scope| (0..4).for_each(|_| scope.spawn(move |_| add())));
                vicus_machine::for_each(0..10, |_| add());
                vicus_machine::spawn_child({
                    let count = Arc::clone(&count);
                    move || _ = count.fetch_add(1, Ordering::Relaxed)
                });
                vicus_machine::wait_for_children();
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(count.load(Ordering::Relaxed), 20 * 17, "{what}");
    });
}

#[test]
fn a_panic_reaches_the_joiner_and_no_other() {
    let runtime = MachineRuntime::builder().threads(1).start();
    let thread = threads::Builder::new().spawn_on(&runtime, || {
        let inner = threads::spawn(|| panic!("on purpose"));
        inner.join().map(|()| 1).unwrap_or(2)
    });
    assert_eq!(thread.join().unwrap(), 2);
}

/// What happened: its seat slept, and the wake went to the thread, which was not suspended.
#[test]
fn a_thread_that_unwinds_waits_for_another_one() {
    struct Joins(Option<threads::JoinHandle<()>>, Arc<AtomicUsize>);
    impl Drop for Joins {
        fn drop(&mut self) {
            self.0.take().unwrap().join().unwrap();
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    everywhere(|runtime, what| {
        let joined = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&joined);
        let thread = threads::Builder::new().spawn_on(runtime, move || {
            let late = threads::spawn(|| threads::sleep(Duration::from_millis(5)));
            let _joins = Joins(Some(late), own);
            panic!("on purpose");
        });
        assert!(thread.join().is_err(), "{what}");
        assert_eq!(joined.load(Ordering::Relaxed), 1, "{what}");
    });
}

/// What happened: a destructor made a new value, and the joiner dropped it on its own thread.
#[test]
fn there_are_no_values_of_a_thread_while_its_values_are_dropped() {
    static OTHER: threads::Local<u32> = threads::Local::new(|| 7);
    static LOOKS: threads::Local<Looks> = threads::Local::new(Looks::default);
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    #[derive(Default)]
    struct Looks;
    impl Drop for Looks {
        fn drop(&mut self) {
            SEEN.fetch_add(1 + usize::from(OTHER.try_with(|_| ()).is_some()) * 100, Ordering::Relaxed);
        }
    }
    let runtime = MachineRuntime::builder().threads(1).quiet().start();
    threads::Builder::new().spawn_on(&runtime, || LOOKS.with(|_| ())).join().unwrap();
    assert_eq!(SEEN.load(Ordering::Relaxed), 1);
}

#[test]
fn words_pass_values_between_threads_and_callers() {
    everywhere(|runtime, what| {
        let (there, back) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        full_empty::empty(&there);
        full_empty::empty(&back);
        let echo = {
            let (there, back) = (Arc::clone(&there), Arc::clone(&back));
            move || (0..100).for_each(|_| full_empty::write_ef(&back, full_empty::read_fe(&there) + 1))
        };
        let echo = threads::Builder::new().spawn_on(runtime, echo);
        for n in 0..50 {
            full_empty::write_ef(&there, n);
            assert_eq!(full_empty::read_fe(&back), n + 1, "{what}");
        }
        let asks = {
            let (there, back) = (Arc::clone(&there), Arc::clone(&back));
            move || {
                for n in 50..100 {
                    full_empty::write_ef(&there, n);
                    assert_eq!(full_empty::read_fe(&back), n + 1);
                }
            }
        };
        threads::Builder::new().spawn_on(runtime, asks).join().unwrap();
        echo.join().unwrap();
        full_empty::fill(&there);
        full_empty::fill(&back);
    });
}

/// What happened: a waiting task ran another on top of itself, and this one waited for the first one's next step.
#[test]
fn a_wait_beneath_its_own_resolver_ends() {
    everywhere(|runtime, what| {
        let words: Arc<[AtomicU64; 3]> = Arc::default();
        words.iter().for_each(|word| _ = full_empty::empty(word));
        let first = {
            let words = Arc::clone(&words);
            move || {
                full_empty::write_ef(&words[0], 1);
                let second = full_empty::read_ff(&words[1]);
                full_empty::write_ef(&words[2], second + 1);
            }
        };
        let second = {
            let words = Arc::clone(&words);
            move || {
                let first = full_empty::read_ff(&words[0]);
                full_empty::write_ef(&words[1], first + 1);
                full_empty::read_ff(&words[2])
            }
        };
        let last = runtime.run(|| {
            let first = threads::spawn(first);
            let second = threads::spawn(second);
            first.join().unwrap();
            second.join().unwrap()
        });
        assert_eq!(last, 3, "{what}");
    });
}

#[test]
fn dropping_a_runtime_ends_its_threads() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    everywhere(|_, _| ());
    let dropped = Arc::new(AtomicUsize::new(0));
    let runtime = MachineRuntime::builder().threads(2).start();
    let word = Arc::new(AtomicU64::new(0));
    full_empty::empty(&word);
    let spawn = |n: usize| {
        let (value, word) = (Dropped(Arc::clone(&dropped)), Arc::clone(&word));
        threads::Builder::new().spawn_on(&runtime, move || {
            let _value = value;
            match n % 4 {
                0 => _ = full_empty::read_ff(&word),
                1 => threads::sleep(Duration::from_secs(1000)),
                2 => loop {
                    threads::yield_now();
                },
                _ => threads::block_on(std::future::pending()),
            }
        })
    };
    let handles: Vec<_> = (0..40).map(spawn).collect();
    std::thread::sleep(Duration::from_millis(20));
    drop(runtime);
    assert_eq!(dropped.load(Ordering::Relaxed), 40);
    for handle in handles {
        assert!(handle.join().unwrap_err().is::<threads::RuntimeEnded>());
    }
    full_empty::fill(&word);
}

#[test]
fn a_backtrace_in_a_thread_ends_at_its_border() {
    let runtime = MachineRuntime::builder().threads(1).start();
    let thread = threads::Builder::new().spawn_on(&runtime, || {
        #[inline(never)]
        fn innermost() -> String {
            std::backtrace::Backtrace::force_capture().to_string()
        }
        threads::yield_now();
        innermost()
    });
    let trace = thread.join().unwrap();
    assert!(trace.contains("innermost"), "{trace}");
}

#[test]
fn a_lock_is_had_by_one_thread_at_a_time_and_by_all_in_the_end() {
    everywhere(|runtime, what| {
        // The word, and its guarded value: reads and writes that would lose some if two had the lock.
        let guarded = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let count = {
            let guarded = Arc::clone(&guarded);
            move |times: u64, pauses: fn()| {
                for time in 0..times {
                    full_empty::lock(&guarded.0);
                    let value = guarded.1.load(Ordering::Relaxed);
                    if time % 7 == 0 {
                        pauses();
                    }
                    guarded.1.store(value + 1, Ordering::Relaxed);
                    full_empty::unlock(&guarded.0).unwrap();
                }
            }
        };
        let outside: Vec<_> = (0..2)
            .map(|_| {
                let count = count.clone();
                std::thread::spawn(move || count(50, std::thread::yield_now))
            })
            .collect();
        let threads: Vec<_> = (0..100)
            .map(|number| {
                let count = count.clone();
                let builder = if number % 2 == 0 { following() } else { threads::Builder::new() };
                builder.spawn_on(runtime, move || count(30, threads::yield_now))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        outside.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(guarded.1.load(Ordering::Relaxed), 2 * 50 + 100 * 30, "{what}");
        assert!(full_empty::is_full(&guarded.0), "{what}");
    });
}

/// The threads of a seat have a lock for 64 turns at most while those of another seat wait.
#[test]
fn a_lock_goes_to_the_threads_of_one_seat_and_then_to_those_of_another() {
    let topology = Topology::parse("node:2 core:1").unwrap();
    // Under this strategy a thread runs at its place, and is not stolen.
    let strategy: Setting = "shepherd".parse().unwrap();
    let runtime = MachineRuntime::builder().topology(topology).threads(2).strategy(strategy).quiet().start();
    let word = Arc::new(AtomicU64::new(0));
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let waiting = Arc::new(AtomicUsize::new(0));
    full_empty::lock(&word);
    // They come in turn, so that their order would be that of the seats.
    let threads: Vec<_> = (0..300)
        .map(|number| {
            let place = NodeId::new(number % 2);
            let (word, order, began) = (Arc::clone(&word), Arc::clone(&order), Arc::clone(&waiting));
            let thread = threads::Builder::new().place(place).spawn_on(&runtime, move || {
                began.fetch_add(1, Ordering::Relaxed);
                full_empty::lock(&word);
                order.lock().unwrap().push(place.index());
                full_empty::unlock(&word).unwrap();
            });
            while waiting.load(Ordering::Relaxed) <= number {
                std::thread::yield_now();
            }
            thread
        })
        .collect();
    // The last ones may still be on their way into the list.
    std::thread::sleep(Duration::from_millis(20));
    full_empty::unlock(&word).unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let order = order.lock().unwrap();
    assert_eq!(order.len(), 300);
    let turns: Vec<usize> = order.chunk_by(|a, b| a == b).map(<[usize]>::len).collect();
    assert!(turns.iter().all(|&turn| turn <= 64) && turns.len() <= 10, "{turns:?}");
    // The runtime ends while threads of both seats wait for it.
    full_empty::lock(&word);
    let began = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..20)
        .map(|number| {
            let (word, began) = (Arc::clone(&word), Arc::clone(&began));
            threads::Builder::new().place(NodeId::new(number % 2)).spawn_on(&runtime, move || {
                began.fetch_add(1, Ordering::Relaxed);
                full_empty::lock(&word);
            })
        })
        .collect();
    while began.load(Ordering::Relaxed) < 20 {
        std::thread::yield_now();
    }
    drop(runtime);
    assert!(threads.into_iter().all(|thread| thread.join().is_err()));
    assert_eq!(full_empty::unlock(&word), Ok(()));
    assert!(full_empty::is_full(&word));
}

#[test]
fn bad_input_is_told() {
    let runtime = MachineRuntime::builder().threads(1).start();
    let try_spawn =
        |builder: threads::Builder| builder.try_spawn_on(&runtime, || ()).map(|thread| thread.join().unwrap());
    let small = threads::Builder::new().stack_size(100);
    assert_eq!(try_spawn(small).unwrap_err(), threads::SpawnError::StackTooSmall { bytes: 100 });
    let large = threads::Builder::new().stack_size(usize::MAX);
    assert_eq!(try_spawn(large).unwrap_err(), threads::SpawnError::StackTooLarge { bytes: usize::MAX });
    let elsewhere = threads::Builder::new().place(NodeId::new(1000));
    assert!(matches!(try_spawn(elsewhere), Err(threads::SpawnError::NoSuchPlace(_))));
    assert_eq!(try_spawn(threads::Builder::new().stack_size(4096)), Ok(()));
    let word = AtomicU64::new(1);
    assert_eq!(full_empty::unlock(&word), Err(full_empty::NotLocked));
    full_empty::lock(&word);
    assert!(!full_empty::try_lock(&word));
    assert_eq!(full_empty::unlock(&word), Ok(()));
    let mut words = [0_u64; 2];
    let odd = words.as_mut_ptr().wrapping_byte_add(3);
    #[expect(unsafe_code, reason = "the function looks at the address first")]
    // SAFETY: the words are there; refused addresses are not followed.
    unsafe {
        assert!(full_empty::word_at(odd).is_err());
        assert!(full_empty::word_at(std::ptr::null_mut()).is_err());
        assert_eq!(full_empty::word_at(words.as_mut_ptr()).map(full_empty::read_ff), Ok(0));
    }
    #[expect(unsafe_code, reason = "it is refused")]
    // SAFETY: the caller is no lightweight thread, so nothing moves.
    let moved = unsafe { threads::migrate_to(NodeId::new(0)) };
    assert_eq!(moved, Err(threads::MigrateError::NotAThread));
    assert!(std::panic::catch_unwind(|| threads::SyncVar::empty().write_f(u64::MAX)).is_err());
}

#[test]
fn a_thread_goes_where_it_wants_and_is_woken_there() {
    let machine = Topology::parse("node:2 l3:1 core:2").unwrap();
    let runtime = MachineRuntime::builder().topology(machine).threads(4).quiet().start();
    let words: Arc<[AtomicU64; 2]> = Arc::default();
    words.iter().for_each(|word| _ = full_empty::empty(word));
    let spawn = |n: usize| {
        let words = Arc::clone(&words);
        threads::Builder::new().spawn_on(&runtime, move || {
            for step in 0..200 {
                let node = NodeId::new((n + step) % 2);
                #[expect(unsafe_code, reason = "nothing here belongs to a thread of the system")]
                // SAFETY: the words are shared by a counted reference, and no closure of the library is open.
                unsafe { threads::migrate_to(node) }.unwrap();
                // Two pass a value on, to and fro.
                if n.is_multiple_of(2) {
                    full_empty::write_ef(&words[0], step as u64);
                    assert_eq!(full_empty::read_fe(&words[1]), step as u64);
                } else {
                    let value = full_empty::read_fe(&words[0]);
                    full_empty::write_ef(&words[1], value);
                }
            }
        })
    };
    let threads = [spawn(0), spawn(1)];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    words.iter().for_each(|word| _ = full_empty::fill(word));
    let nowhere = threads::Builder::new().spawn_on(&runtime, || {
        #[expect(unsafe_code, reason = "it is refused")]
        // SAFETY: there is no such place, so nothing moves.
        unsafe {
            threads::migrate_to(NodeId::new(7))
        }
    });
    assert!(matches!(nowhere.join().unwrap(), Err(threads::MigrateError::NoSuchPlace(_))));
}

#[test]
fn threads_that_wait_for_one_another_are_unwound_if_the_program_wants_it() {
    for threads_of_system in [1, 2] {
        let runtime =
            MachineRuntime::builder().threads(threads_of_system).deadlock(threads::OnDeadlock::Unwind).quiet().start();
        let words: Arc<[AtomicU64; 2]> = Arc::default();
        words.iter().for_each(|word| _ = full_empty::empty(word));
        let var = Arc::new(threads::SyncVar::empty());
        let spawn = |n: usize| {
            let (words, var) = (Arc::clone(&words), Arc::clone(&var));
            threads::Builder::new().spawn_on(&runtime, move || {
                if n == 2 {
                    return var.read_fe();
                }
                let value = full_empty::read_ff(&words[n]);
                full_empty::write_ef(&words[1 - n], value);
                value
            })
        };
        let told = [spawn(0), spawn(1), spawn(2)].map(|thread| thread.join().unwrap_err());
        let told = told.map(|panic| panic.downcast_ref::<threads::Deadlock>().unwrap().operation);
        assert_eq!(told, ["read_ff", "read_ff", "read_fe"]);
        assert!(var.try_write_ef(7), "no thread waits there any more");
        words.iter().for_each(|word| _ = full_empty::fill(word));
    }
}

#[test]
fn no_deadlock_is_told_while_one_sleeps() {
    let runtime = MachineRuntime::builder().threads(1).deadlock(threads::OnDeadlock::Unwind).quiet().start();
    let word = Arc::new(AtomicU64::new(0));
    full_empty::empty(&word);
    let waits = threads::Builder::new().spawn_on(&runtime, {
        let word = Arc::clone(&word);
        move || full_empty::read_ff(&word)
    });
    let fills = threads::Builder::new().spawn_on(&runtime, {
        let word = Arc::clone(&word);
        move || {
            threads::sleep(Duration::from_millis(1600));
            full_empty::write_f(&word, 5);
        }
    });
    assert_eq!(waits.join().unwrap(), 5);
    fills.join().unwrap();
}

/// A tree in which every node waits for its child, as deep as there are threads.
#[test]
fn a_deep_tree_of_joins_needs_no_deep_stack() {
    fn descend(depth: u32) -> u32 {
        if depth == 0 {
            return 0;
        }
        threads::Builder::new().stack_size(8 << 10).spawn(move || descend(depth - 1)).join().unwrap() + 1
    }
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let depth = 50_000;
    let thread = threads::Builder::new().spawn_on(&runtime, move || descend(depth));
    assert_eq!(thread.join().unwrap(), depth);
}

#[test]
fn a_thread_awaits_futures_and_is_one() {
    everywhere(|runtime, what| {
        let thread = threads::Builder::new().spawn_on(runtime, || {
            let inner = threads::spawn(|| {
                threads::yield_now();
                20
            });
            let other = threads::spawn_async(async { 22 });
            threads::block_on(async { inner.await.unwrap() + other.await.unwrap() })
        });
        assert_eq!(block_on(thread).unwrap(), 42, "{what}");
    });
}

#[test]
fn a_trace_with_threads_breaks_no_rule() {
    for strategy in ALL {
        let setting: Setting = strategy.name().parse().unwrap();
        let runtime = MachineRuntime::builder().threads(2).strategy(setting).record(200_000).quiet().start();
        let word = Arc::new(AtomicU64::new(0));
        full_empty::empty(&word);
        runtime.run(|| {
            let threads: Vec<_> = (0..50)
                .map(|n| {
                    let word = Arc::clone(&word);
                    threads::spawn(move || {
                        threads::yield_now();
                        let inner = threads::spawn(move || n);
                        full_empty::read_ff(&word) + inner.join().unwrap()
                    })
                })
                .collect();
            full_empty::write_f(&word, 1);
            assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>(), 50 * 49 / 2 + 50);
        });
        let trace = runtime.trace().unwrap();
        assert_eq!((trace.lost(), trace.check().first()), (0, None), "{}", strategy.name());
    }
}

/// The steps of two that wait for one another in turn: each for the other one's next step.
fn first_of_two(words: &[AtomicU64; 3]) {
    full_empty::write_ef(&words[0], 1);
    let second = full_empty::read_ff(&words[1]);
    full_empty::write_ef(&words[2], second + 1);
}

fn second_of_two(words: &[AtomicU64; 3]) -> u64 {
    let first = full_empty::read_ff(&words[0]);
    full_empty::write_ef(&words[1], first + 1);
    full_empty::read_ff(&words[2])
}

fn three_empty_words() -> Arc<[AtomicU64; 3]> {
    let words: Arc<[AtomicU64; 3]> = Arc::default();
    words.iter().for_each(|word| _ = full_empty::empty(word));
    words
}

/// The program that lightweight threads end, in tasks: one runs on top of the other, and both wait. A thread from
/// outside frees them.
#[test]
fn tasks_that_wait_for_one_another_in_turn_hang_on_one_thread() {
    let runtime = MachineRuntime::builder().threads(1).deadlock(threads::OnDeadlock::Ignore).quiet().start();
    let words = three_empty_words();
    let (one, other) = (Arc::clone(&words), Arc::clone(&words));
    let request = runtime.spawn(move || {
        in_place_scope(|scope| {
            scope.spawn(|_| first_of_two(&one));
            scope.spawn(|_| _ = second_of_two(&other));
        });
    });
    std::thread::sleep(Duration::from_millis(100));
    assert!(!request.is_done(), "the test shows nothing if tasks can do it");
    while !request.is_done() {
        words.iter().for_each(|word| _ = full_empty::fill(word));
        std::thread::sleep(Duration::from_millis(1));
        words.iter().for_each(|word| _ = full_empty::empty(word));
        std::thread::sleep(Duration::from_millis(1));
    }
    request.wait().unwrap();
    words.iter().for_each(|word| _ = full_empty::fill(word));
}

#[test]
fn a_box_joins_threads_that_wait_for_one_another() {
    let schema = Schema::new([("n", Type::U64)]);
    everywhere(|runtime, what| {
        let words = three_empty_words();
        let of_box = Arc::clone(&words);
        let mut net = ModelBuilder::new("a box that joins");
        let one = || [Envelope::new([vec![1_u64].into()])];
        let source = net.source(library::source("source", &schema, one));
        let joins = net.add(library::map("joins", &schema, &schema, move |_| {
            let (one, other) = (Arc::clone(&of_box), Arc::clone(&of_box));
            let first = threads::spawn(move || first_of_two(&one));
            let second = threads::spawn(move || second_of_two(&other));
            first.join().unwrap();
            Some(Envelope::new([vec![second.join().unwrap()].into()]))
        }));
        net.connect(source.output(0), joins.input(0));
        net.end(joins.output(0));
        runtime.submit(&net.build().unwrap()).wait().unwrap_or_else(|error| panic!("{what}: {error}"));
        words.iter().for_each(|word| _ = full_empty::fill(word));
    });
}

/// A thread waits for a request; above it in the queue is one that waits for the first one's step after that.
#[test]
fn a_thread_that_waits_for_a_request_is_no_ones_stack() {
    everywhere(|runtime, what| {
        let word = Arc::new(AtomicU64::new(0));
        full_empty::empty(&word);
        let (theirs, request) = (Arc::clone(&word), runtime.spawn(|| 20));
        let last = runtime.run(|| {
            let waits = threads::spawn(move || {
                let inner = Arc::clone(&theirs);
                let reads = threads::spawn(move || full_empty::read_ff(&inner));
                let value = request.wait().unwrap();
                full_empty::write_ef(&theirs, value + 1);
                reads.join().unwrap() + value
            });
            waits.join().unwrap()
        });
        assert_eq!(last, 41, "{what}");
    });
}

#[test]
fn a_thread_waits_for_its_turn_when_there_is_no_stack() {
    // A class of stacks for this test alone, as many as the first arena has.
    const BYTES: usize = 2 << 20;
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let word = Arc::new(AtomicU64::new(0));
    full_empty::empty(&word);
    let came = Arc::new(AtomicUsize::new(0));
    let spawn = || {
        let (word, came) = (Arc::clone(&word), Arc::clone(&came));
        threads::Builder::new().stack_size(BYTES).spawn_on(&runtime, move || {
            came.fetch_add(1, Ordering::Relaxed);
            full_empty::read_ff(&word)
        })
    };
    // The first one makes some stacks, and the limit allows no more.
    let first = spawn();
    while came.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    threads::limit_stacks(0);
    let others: Vec<_> = (0..200).map(|_| spawn()).collect();
    std::thread::sleep(Duration::from_millis(50));
    let begun = came.load(Ordering::Relaxed);
    threads::limit_stacks(usize::MAX);
    full_empty::write_f(&word, 3);
    assert_eq!(first.join().unwrap(), 3);
    others.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 3));
    assert!(begun < 201, "all {begun} had a stack");
}

#[test]
fn a_loop_of_spawns_holds_no_million_of_threads_that_have_not_begun() {
    // `shepherd` has no queue of a fixed size.
    let setting: Setting = "shepherd".parse().unwrap();
    let runtime = MachineRuntime::builder().threads(1).strategy(setting).quiet().start();
    let (begun, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let spawner = threads::Builder::new().spawn_on(&runtime, {
        let (begun, most) = (Arc::clone(&begun), Arc::clone(&most));
        move || {
            for spawned in 1..=100_000 {
                let theirs = Arc::clone(&begun);
                threads::spawn(move || {
                    theirs.fetch_add(1, Ordering::Relaxed);
                    // Its spawner goes on, and it does afterwards.
                    threads::yield_now();
                });
                most.fetch_max(spawned - begun.load(Ordering::Relaxed), Ordering::Relaxed);
                if spawned % 1000 == 0 {
                    threads::yield_now();
                }
            }
        }
    });
    spawner.join().unwrap();
    while begun.load(Ordering::Relaxed) < 100_000 {
        std::thread::yield_now();
    }
    let most = most.load(Ordering::Relaxed);
    assert!(most <= 1024, "{most} threads waited to begin");
}

/// Spawns itself again until this is set, or it has run so often. Counts how often it has.
fn again(is_set: &'static AtomicBool, ran: &'static AtomicUsize, most: usize) {
    if ran.fetch_add(1, Ordering::Relaxed) + 1 < most && !is_set.load(Ordering::Relaxed) {
        threads::spawn(move || again(is_set, ran, most));
    }
}

/// Threads that spawn one another without end, each the youngest, leave turns to an older one of their seat, and to one
/// sent there.
#[test]
fn a_chain_of_threads_keeps_no_other_thread_from_running() {
    const MOST: usize = 100_000;
    for strategy in ALL.map(|strategy| strategy.name()).into_iter().chain(["shepherd:unplaced=own"]) {
        for place in [None, Some(GroupId::new(0))] {
            let is_set: &'static AtomicBool = Box::leak(Box::default());
            let ran: &'static AtomicUsize = Box::leak(Box::default());
            let setting: Setting = strategy.parse().unwrap();
            let machine = Topology::parse("node:1 core:1 pu:1").unwrap();
            let runtime = MachineRuntime::builder().topology(machine).threads(1).strategy(setting).quiet().start();
            let both = move || {
                let builder = threads::Builder::new();
                let builder = if let Some(place) = place { builder.place(place) } else { builder };
                let sets = builder.spawn(move || is_set.store(true, Ordering::Relaxed));
                threads::spawn(move || again(is_set, ran, MOST));
                sets.join().unwrap();
            };
            threads::Builder::new().spawn_on(&runtime, both).join().unwrap();
            let ran = ran.load(Ordering::Relaxed);
            assert!(ran < MOST, "{strategy}, {place:?}: {ran} threads of the chain went first");
        }
    }
}

/// A tree of threads; each spawns both of its children before it waits for the first one. `open` counts those begun and
/// not ended.
fn tree(depth: usize, open: &'static AtomicUsize, most: &'static AtomicUsize) {
    most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    if depth > 0 {
        let children = [0, 1].map(|_| threads::spawn(move || tree(depth - 1, open, most)));
        children.into_iter().for_each(|child| child.join().unwrap());
    }
    open.fetch_sub(1, Ordering::Relaxed);
}

/// What happened: programs of Qthreads that fork recursively had as many stacks as threads, since the oldest thread
/// began first.
#[test]
fn a_recursion_has_as_many_stacks_as_it_is_deep() {
    for (strategy, is_deep) in [("shepherd:unplaced=own", true), ("las", true), ("shepherd", false)] {
        let open: &'static AtomicUsize = Box::leak(Box::default());
        let most: &'static AtomicUsize = Box::leak(Box::default());
        let setting: Setting = strategy.parse().unwrap();
        let runtime = MachineRuntime::builder().threads(1).strategy(setting).quiet().start();
        threads::Builder::new().spawn_on(&runtime, move || tree(10, open, most)).join().unwrap();
        let most = most.load(Ordering::Relaxed);
        // With the oldest first, nearly all of 2047 threads have begun before one ends.
        assert_eq!(most <= 4 * 10, is_deep, "{strategy}: {most}");
    }
}

#[test]
fn threads_that_are_joined_at_once_let_others_go_on() {
    for strategy in ALL {
        let runtime =
            MachineRuntime::builder().threads(1).strategy(strategy.name().parse::<Setting>().unwrap()).quiet().start();
        let turns = Arc::new(AtomicUsize::new(0));
        let other = threads::Builder::new().spawn_on(&runtime, {
            let turns = Arc::clone(&turns);
            move || {
                for _ in 0..10 {
                    threads::yield_now();
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        // It waits only for its newly spawned threads.
        let joins = threads::Builder::new().spawn_on(&runtime, {
            let turns = Arc::clone(&turns);
            move || {
                while turns.load(Ordering::Relaxed) < 10 {
                    assert_eq!(threads::spawn(|| threads::spawn(|| 7).join().unwrap()).join().unwrap(), 7);
                }
            }
        });
        joins.join().unwrap();
        other.join().unwrap();
    }
}

#[test]
fn a_thread_that_waits_when_it_is_joined_lets_its_joiner_wait_too() {
    everywhere(|runtime, what| {
        let words: Arc<[AtomicU64]> = (0..200).map(|_| AtomicU64::new(0)).collect();
        words.iter().for_each(|word| _ = full_empty::empty(word));
        let theirs = Arc::clone(&words);
        let sum = threads::Builder::new().spawn_on(runtime, move || {
            let pairs: Vec<_> = (0..theirs.len() / 2)
                .map(|pair| {
                    let words = Arc::clone(&theirs);
                    threads::spawn(move || {
                        let words_of_child = Arc::clone(&words);
                        let child = threads::spawn(move || full_empty::read_ff(&words_of_child[2 * pair]));
                        // This begins the child, which waits for a word filled when the loop below comes to it.
                        child.join().unwrap() + full_empty::read_ff(&words[2 * pair + 1])
                    })
                })
                .collect();
            threads::yield_now();
            theirs.iter().for_each(|word| full_empty::write_f(word, 1));
            pairs.into_iter().map(|pair| pair.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sum.join().unwrap(), 200, "{what}");
    });
}

#[test]
fn a_thousand_waits_for_one_word_end_with_their_runtime() {
    let word = Arc::new(AtomicU64::new(0));
    full_empty::empty(&word);
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let waits: Vec<_> = (0..1000)
        .map(|n| {
            let word = Arc::clone(&word);
            // Waits that keep the word's state and waits that change it are in different lists.
            threads::Builder::new().spawn_on(&runtime, move || match n % 3 {
                0 => full_empty::read_ff(&word),
                1 => full_empty::read_fe(&word),
                _ => {
                    full_empty::write_ff(&word, 1);
                    1
                }
            })
        })
        .collect();
    while runtime.lightweight_threads().1 < 1000 {
        std::thread::yield_now();
    }
    drop(runtime);
    for wait in waits {
        assert!(wait.join().unwrap_err().is::<threads::RuntimeEnded>());
    }
    full_empty::fill(&word);
}

#[test]
fn a_thread_on_a_spare_seat_is_no_deadlock() {
    // The thread that stands in for the only regular one computes for longer than two looks take, while the regular one
    // sleeps.
    let runtime = MachineRuntime::builder().threads(1).quiet().deadlock(threads::OnDeadlock::Unwind).start();
    let word = Arc::new(AtomicU64::new(0));
    full_empty::empty(&word);
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let waits = threads::Builder::new().spawn_on(&runtime, {
        let word = Arc::clone(&word);
        move || full_empty::read_ff(&word)
    });
    let blocks = threads::Builder::new().spawn_on(&runtime, move || {
        threads::spawn(move || {
            sender.send(()).unwrap();
            let until = std::time::Instant::now() + Duration::from_millis(1700);
            while std::time::Instant::now() < until {
                std::hint::spin_loop();
            }
            full_empty::write_f(&word, 9);
        });
        let _lent = threads::lend();
        receiver.recv().unwrap();
    });
    blocks.join().unwrap();
    assert_eq!(waits.join().unwrap(), 9);
}

/// Code that waits for a word on its thread's own stack begins threads on top of itself, and checks the word after few
/// of them: under every strategy, in any order of them.
#[test]
fn a_thread_of_a_program_waits_for_a_word_no_longer_than_few_threads_take() {
    for strategy in ALL {
        let sitting = MachineRuntime::builder()
            .threads(1)
            .strategy(strategy.name().parse().unwrap())
            .quiet()
            .start_sitting()
            .unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        for round in 1..=20 {
            let word = Arc::new(AtomicU64::new(0));
            full_empty::empty(&word);
            for _ in 0..100 {
                let (word, ran) = (Arc::clone(&word), Arc::clone(&ran));
                threads::spawn(move || {
                    ran.fetch_add(1, Ordering::Relaxed);
                    full_empty::write_f(&word, 7);
                });
            }
            let before = ran.load(Ordering::Relaxed);
            assert_eq!(full_empty::read_ff(&word), 7);
            let meanwhile = ran.load(Ordering::Relaxed) - before;
            assert!(meanwhile <= 8, "{}: {meanwhile} threads have run before the word was looked at", strategy.name());
            while ran.load(Ordering::Relaxed) < 100 * round {
                threads::help();
            }
        }
        assert!(sitting.end());
    }
}
