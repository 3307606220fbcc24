//! Lightweight threads, under every strategy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use vicus_machine::threads::{self, full_empty};
use vicus_machine::{Runtime, in_place_scope, join};
use vicus_schedule::{ALL, Setting};

/// Runs a program in a runtime of every strategy with 1, 2, 3 and 8 threads.
fn everywhere(program: impl Fn(&Runtime, &str)) {
    for strategy in ALL {
        for threads in [1, 2, 3, 8] {
            let setting: Setting = strategy.name().parse().unwrap();
            let runtime = Runtime::builder().threads(threads).strategy(setting).quiet().start();
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
    let runtime = Runtime::builder().threads(1).start();
    let thread = threads::Builder::new().spawn_on(&runtime, || {
        let inner = threads::spawn(|| panic!("on purpose"));
        inner.join().map(|()| 1).unwrap_or(2)
    });
    assert_eq!(thread.join().unwrap(), 2);
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

/// What happened: a task that waited ran another on top of itself that waited for what the first one would do next.
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
    let runtime = Runtime::builder().threads(2).start();
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
        assert!(handle.join().unwrap_err().is::<threads::Ended>());
    }
    full_empty::fill(&word);
}
