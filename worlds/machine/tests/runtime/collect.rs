//! Loops with a result, under every strategy.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_machine::{MachineRuntime, collect, map_reduce};
use vicus_schedule::ALL;

fn runtimes() -> impl Iterator<Item = MachineRuntime> {
    ALL.into_iter().flat_map(|strategy| [1, 2, 8].map(|threads| (strategy, threads))).map(|(strategy, threads)| {
        println!("{} on {threads} threads", strategy.name());
        MachineRuntime::builder().threads(threads).strategy(strategy.name().parse().unwrap()).quiet().start()
    })
}

#[test]
fn a_vector_has_a_value_for_each_number_in_order() {
    for runtime in runtimes() {
        runtime.run(|| {
            for len in [0, 1, 2, 7, 1000] {
                let expected: Vec<String> = (5..5 + len).map(|n| n.to_string()).collect();
                assert_eq!(collect(5..5 + len, |n| n.to_string()), expected);
            }
            assert_eq!(collect(usize::MAX - 3..usize::MAX, |n| usize::MAX - n), [3, 2, 1]);
            assert_eq!(collect(0..1000, drop).len(), 1000, "values without a size");
        });
    }
}

#[test]
fn values_are_reduced_in_the_order_of_their_numbers() {
    // Concatenation is associative and not commutative.
    let expected: String = (3..1003).map(|n| format!("{n},")).collect();
    for runtime in runtimes() {
        runtime.run(|| {
            assert_eq!(map_reduce(3..1003, |n| format!("{n},"), |a, b| a + &b), Some(expected.clone()));
            assert_eq!(map_reduce(7..7, |n| n, usize::max), None);
            assert_eq!(map_reduce(7..8, |n| n, |_, _| panic!("there is one value")), Some(7));
            let sum = || map_reduce(1..10_000, |n| 1.0 / n as f64, |a, b| a + b).map(f64::to_bits);
            let first = sum();
            assert!((0..20).all(|_| sum() == first), "the same pieces have the same sum");
        });
    }
}

/// A value that counts the living ones.
struct Counted<'a>(&'a AtomicUsize, usize);

impl<'a> Counted<'a> {
    fn new(live: &'a AtomicUsize, number: usize) -> Counted<'a> {
        live.fetch_add(1, Ordering::Relaxed);
        Counted(live, number)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_panic_reaches_the_caller_and_every_value_is_dropped_once() {
    for runtime in runtimes() {
        runtime.run(|| {
            let live = AtomicUsize::new(0);
            for at in [0, 1, 499, 999] {
                let make = |n| if n == at { panic!("number {n}") } else { Counted::new(&live, n) };
                let told = |panic: Box<dyn std::any::Any + Send>| panic.downcast_ref::<String>().cloned();
                let panic = catch_unwind(AssertUnwindSafe(|| collect(0..1000, make).len())).unwrap_err();
                assert_eq!(told(panic), Some(format!("number {at}")));
                assert_eq!(live.load(Ordering::Relaxed), 0);
                let larger = |a, b| -> Counted<'_> { std::cmp::max_by_key(a, b, |value: &Counted<'_>| value.1) };
                let panic =
                    catch_unwind(AssertUnwindSafe(|| map_reduce(0..1000, make, larger).map(|n| n.1))).unwrap_err();
                assert_eq!(told(panic), Some(format!("number {at}")));
                assert_eq!(live.load(Ordering::Relaxed), 0);
            }
            let all = collect(0..1000, |n| Counted::new(&live, n));
            assert_eq!(live.load(Ordering::Relaxed), 1000);
            assert!(all.iter().enumerate().all(|(n, value)| value.1 == n));
            drop(all);
            assert_eq!(live.load(Ordering::Relaxed), 0);
        });
    }
}

/// A loop within a loop's iteration, and one outside of any runtime.
#[test]
fn loops_with_results_may_be_nested() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let sums = runtime.run(|| collect(0..20, |n| map_reduce(0..n + 1, |m| m, |a, b| a + b)));
    assert_eq!(sums, (0..20).map(|n| Some(n * (n + 1) / 2)).collect::<Vec<_>>());
}
