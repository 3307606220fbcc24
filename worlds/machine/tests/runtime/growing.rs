//! Networks that grow, on real threads under every strategy. Failing cases print their seed.

use crate::growing_networks::{Growing, Step, is_own, random};
use crate::networks::expect_panics;
use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vicus_flow::library::{self, HashKey, Iterating};
use vicus_flow::{Bound, Budget, Envelope, FlowError, FragmentBuilder, Model, ModelBuilder, Schema, Totals, Type};
use vicus_machine::{MachineRuntime, Request, RequestOptions};
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
            let mut builder = MachineRuntime::builder().strategy(name.parse().unwrap()).threads(threads).quiet();
            if threads == 2 {
                builder = builder.record(1 << 16);
            }
            let runtime = builder.start();
            let first = (number * 1000 + threads * 100) as u64;
            let all: Vec<(u64, Growing)> =
                (first..first + 100).map(|seed| (seed, random(seed, seed.is_multiple_of(5)))).collect();
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
                let models = &trace.header().models;
                let named = models.iter().flat_map(|model| &model.boxes);
                assert!(named.clone().any(|one| one.name.starts_with("grows / ")), "{name}: new boxes have names");
                for model in models {
                    let sources = model.boxes.iter().flat_map(|one| &one.inputs);
                    assert!(sources.clone().all(|source| (source.index as usize) < model.boxes.len()), "{name}");
                }
            }
        }
    }
}

/// Each box of the chain passes one envelope on to the next before it is asked for its end.
#[test]
fn a_long_chain_ends_and_one_that_is_too_long_is_refused() {
    for strategy in ["bobox", "vicus", "las"] {
        let runtime = MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(2).quiet().start();
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

/// Numbers that go round: each leads to two others modulo `modulus`, or to greater ones without end if it is 0.
fn rounds(modulus: u64) -> (Arc<Model>, Arc<Mutex<Vec<u64>>>) {
    let schema = Schema::new([("n", Type::U64)]);
    let mut step = FragmentBuilder::new("step", [&schema]);
    let next = step.add(library::map("next", &schema, &schema, move |envelope| {
        let next = |n: &u64| match modulus {
            0 => vec![n + 1],
            modulus => vec![n * 3 % modulus, (n * 5 + 1) % modulus],
        };
        Some(Envelope::new([envelope.column(0).u64s().iter().flat_map(next).collect::<Vec<_>>().into()]))
    }));
    step.connect(step.input(0), next.input(0));
    step.end(next.output(0));
    let iterating = Iterating::of(&schema, &step.build().unwrap()).only_new(HashKey::default());
    let mut net = ModelBuilder::new("rounds");
    let first = net.source(library::source("first", &schema, || [Envelope::new([vec![1u64].into()])]));
    let iterate = net.add(library::iterate(&iterating));
    let got = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&got);
    let sink = net.add(library::sink("sink", &schema, move |envelope| {
        into.lock().unwrap().extend_from_slice(envelope.column(0).u64s());
        Ok(())
    }));
    net.connect(first.output(0), iterate.input(0));
    net.connect(iterate.output(0), sink.input(0));
    net.end(sink.output(0));
    (net.build().unwrap(), got)
}

#[test]
fn rows_go_round_under_every_strategy_until_nothing_is_new_or_the_request_is_cancelled() {
    for strategy in ALL {
        let name = strategy.name();
        for threads in [1, 2, 8] {
            let runtime = MachineRuntime::builder().strategy(name.parse().unwrap()).threads(threads).quiet().start();
            let endless = runtime.submit(&rounds(0).0);
            for modulus in [1u64, 2, 97, 1000] {
                let (model, got) = rounds(modulus);
                let request = runtime.submit(&model);
                let what = format!("{name}, {threads} threads, modulo {modulus}");
                wait(&request, &what).unwrap_or_else(|error| panic!("{what}: {error}"));
                let (mut found, mut open) = (std::collections::BTreeSet::from([1]), vec![1]);
                while let Some(n) = open.pop() {
                    let next = [n * 3 % modulus, (n * 5 + 1) % modulus];
                    open.extend(next.into_iter().filter(|n| found.insert(*n)));
                }
                let mut got = got.lock().unwrap().clone();
                got.sort_unstable();
                assert_eq!(got, found.into_iter().collect::<Vec<u64>>(), "{what}");
            }
            assert!(!endless.is_done(), "{name}");
            endless.cancel();
            assert!(matches!(wait(&endless, name), Err(FlowError::Cancelled)), "{name}");
        }
    }
}
