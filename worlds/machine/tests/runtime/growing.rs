//! Networks that grow, on real threads under every strategy. Failing cases print their seed.

use crate::growing_networks::{Growing, Step, is_own, random};
use crate::networks::expect_panics;
use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vicus_flow::{Bound, Budget, FlowError, Totals};
use vicus_machine::{Request, RequestOptions, Runtime};
use vicus_schedule::ALL;

/// Waits for a request that ends soon unless there is a mistake.
fn wait(request: &Request, what: &str) -> Result<Totals, FlowError> {
    request.wait_for(Duration::from_secs(60)).unwrap_or_else(|| panic!("a request never ended: {what}"))
}

#[test]
fn networks_grow_beside_each_other_under_every_strategy() {
    expect_panics();
    for (number, strategy) in ALL.iter().enumerate() {
        for threads in [1, 2, 8] {
            let name = strategy.name();
            let mut builder = Runtime::builder().strategy(name.parse().unwrap()).threads(threads).quiet();
            if threads == 2 {
                builder = builder.record(1 << 16);
            }
            let runtime = builder.start();
            let first = (number * 1000 + threads * 40) as u64;
            let all: Vec<(u64, Growing)> =
                (first..first + 40).map(|seed| (seed, random(seed, seed.is_multiple_of(5)))).collect();
            let submitted = all.iter().map(|(seed, growing)| {
                let (operators, got) = growing.sink();
                let options = match seed % 3 {
                    0 => RequestOptions::from(Budget::from(seed * 97 % 60_000)),
                    _ => RequestOptions::default(),
                };
                let request = match seed % 2 {
                    0 => runtime.submit_here(&growing.model, operators, options, &|| false),
                    _ => runtime.submit_within(&growing.model, operators, options),
                };
                if seed.is_multiple_of(7) {
                    request.cancel();
                }
                (seed, growing, request, got)
            });
            for (seed, growing, request, got) in submitted.collect::<Vec<_>>() {
                let what = format!("{name}, {threads} threads, seed {seed}");
                if seed.is_multiple_of(11) {
                    request.cancel();
                }
                match wait(&request, &what) {
                    Ok(totals) => {
                        let rows: Vec<u64> = got.try_iter().flatten().collect();
                        println!("{what}");
                        growing.judge(&rows, &totals, &request.counts(), &request.grown());
                    }
                    Err(FlowError::Cancelled) => assert!(seed.is_multiple_of(7) || seed.is_multiple_of(11), "{what}"),
                    Err(FlowError::Stalled { .. }) => assert!(seed.is_multiple_of(3), "{what}"),
                    Err(error) => {
                        let is_short = seed.is_multiple_of(3) && error.to_string().contains("is needed");
                        assert!(is_short || is_own(&error), "{what}: {error}");
                    }
                }
                assert_eq!(growing.census.live.load(Ordering::Relaxed), 0, "{what}: all operators are gone");
            }
            if let Some(trace) = runtime.trace() {
                assert_eq!(trace.check().first(), None, "{name}");
            }
        }
    }
}

/// Each box of the chain passes one envelope on to the next before it is asked for its end.
#[test]
fn a_long_chain_ends_and_one_that_is_too_long_is_refused() {
    for strategy in ["bobox", "vicus", "las"] {
        let runtime = Runtime::builder().strategy(strategy.parse().unwrap()).threads(2).quiet().start();
        for (depth, rows, most, ends) in [(300, 40, 10_000, true), (300, 3000, 30, false)] {
            let growing = Growing::new(Step::deep(depth), rows, Bound::default());
            let (operators, got) = growing.sink();
            let options = RequestOptions { most_boxes: NonZeroUsize::new(most), ..RequestOptions::default() };
            let request = runtime.submit_within(&growing.model, operators, options);
            match wait(&request, strategy) {
                Ok(totals) => {
                    assert!(ends, "{strategy}: {depth} boxes, and {most} are allowed");
                    let rows: Vec<u64> = got.try_iter().flatten().collect();
                    growing.judge(&rows, &totals, &request.counts(), &request.grown());
                    let added = request.grown().into_iter().find(|grown| grown.name == "add").unwrap();
                    assert_eq!((added.expanded.as_str(), added.boxes), ("grows", depth as u64));
                }
                Err(error) => {
                    assert!(!ends, "{strategy}: {error}");
                    let FlowError::TooManyBoxes { most: told, chain } = &error else { panic!("{strategy}: {error}") };
                    assert_eq!((*told, chain[0].as_str()), (most, "grows"), "{strategy}: {error}");
                }
            }
            assert_eq!(growing.census.live.load(Ordering::Relaxed), 0, "{strategy}");
        }
    }
}
