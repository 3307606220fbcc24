//! The random networks of core/flow on real threads: every strategy, several requests at once, some of them cancelled
//! or faulty. The log of each box is checked as in the sequential world, and the trace must be possible. Failing cases
//! print their seed.

use crate::networks::{self, Fault, Network, cases, recipes};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vicus_flow::{FlowError, Overflows};
use vicus_machine::{MachineRuntime, Request, RequestOptions, TemporaryFiles};
use vicus_schedule::ALL;

/// All strategies, and settings with which queues are soon full, or tasks are placed otherwise.
fn settings() -> Vec<String> {
    let others = [
        "las:pin=pu",
        "central:capacity=2",
        "shepherd:unplaced=own",
        "locality-queues:capacity=2",
        "footprint:share_bytes=1",
        "vicinity:private_bytes=1",
    ];
    let all = ALL.iter().map(|strategy| strategy.name());
    all.chain(others).map(str::to_owned).collect()
}

/// A request ends soon, unless there is a mistake. Its paused boxes are resumed one after the other.
fn wait(network: &Network, request: &Request) -> Result<vicus_flow::Totals, FlowError> {
    let began = Instant::now();
    while !request.is_done() {
        assert!(began.elapsed() < Duration::from_secs(60), "a request never ended");
        std::thread::sleep(Duration::from_micros(20));
        let paused = network.paused.lock().unwrap().pop();
        drop(paused);
    }
    request.wait()
}

fn fault() -> impl Strategy<Value = Option<(usize, u64, Fault)>> {
    let how = prop_oneof![Just(Fault::Error), Just(Fault::Panic), Just(Fault::PanicInDrop)];
    prop_oneof![3 => Just(None), 1 => (0usize..20, 1u64..8, how).prop_map(Some)]
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn many_networks_at_once_under_every_strategy(
        recipes in proptest::collection::vec(recipes(), 1..4),
        requests in proptest::collection::vec((any::<usize>(), fault(), 0u8..8), 1..9),
        threads in prop_oneof![Just(1usize), Just(2), Just(8)],
        strategy in proptest::sample::select(settings()),
    ) {
        networks::expect_panics();
        let several: Vec<Network> = recipes.iter().map(|recipes| Network::new(recipes, true)).collect();
        let builder = MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(threads);
        let runtime = builder.quiet().record(1 << 16).start();
        let submitted: Vec<_> = requests
            .iter()
            .map(|(which, fault, cancel)| {
                let network = &several[which % several.len()];
                let (log, operators) = network.operators(false, *fault);
                let request = runtime.submit_with(&network.model, operators);
                if *cancel == 0 {
                    request.cancel();
                }
                (network, log, request, fault.is_some(), cancel)
            })
            .collect();
        for (network, log, request, faulty, cancel) in submitted {
            if *cancel == 1 {
                request.cancel();
            }
            let result = wait(network, &request);
            network.judge(&log, &result, &request.counts());
            let expected = match &result {
                Ok(_) => true,
                Err(FlowError::Cancelled) => *cancel <= 1,
                Err(FlowError::Failed { .. }) => faulty,
                Err(FlowError::Panicked { message, .. }) => {
                    prop_assert!(message.starts_with("out of"), "{message}");
                    faulty
                }
                _ => false,
            };
            prop_assert!(expected, "{result:?} of {:?}", network.model);
        }
        let trace = runtime.trace().unwrap();
        prop_assert_eq!(trace.lost(), 0);
        let violations = trace.check();
        prop_assert_eq!(violations.first(), None, "{}, {} threads", strategy, threads);
    }

    #[test]
    fn a_network_that_begins_on_its_caller_s_thread_does_the_same(
        recipes in recipes(),
        fault in fault(),
        threads in prop_oneof![Just(1usize), Just(2), Just(8)],
        strategy in proptest::sample::select(settings()),
        caller_works in prop_oneof![Just(Duration::ZERO), Just(Duration::MAX),
            (1u64..200).prop_map(Duration::from_micros)],
        gives_up_after in prop_oneof![3 => Just(usize::MAX), 1 => 0usize..20],
    ) {
        networks::expect_panics();
        let network = Network::new(&recipes, true);
        let builder = MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(threads);
        let runtime = builder.caller_works(caller_works).quiet().start();
        for _ in 0..3 {
            let (log, operators) = network.operators(false, fault);
            let asked = std::cell::Cell::new(0);
            let gives_up = || asked.replace(asked.get() + 1) >= gives_up_after;
            let request = runtime.submit_here(&network.model, operators, u64::MAX, &gives_up);
            let result = wait(&network, &request);
            network.judge(&log, &result, &request.counts());
            let expected = match &result {
                Ok(_) => true,
                Err(FlowError::Cancelled) => gives_up_after < usize::MAX,
                Err(FlowError::Failed { .. } | FlowError::Panicked { .. }) => fault.is_some(),
                _ => false,
            };
            prop_assert!(expected, "{result:?} of {:?}", network.model);
        }
    }

    #[test]
    fn a_network_whose_boxes_wait_for_each_other_ends_on_any_number_of_threads(
        recipes in recipes(),
        threads in prop_oneof![Just(1usize), Just(2), Just(8)],
        strategy in proptest::sample::select(settings()),
        budget in 0u64..300_000,
    ) {
        let network = Network::new(&recipes, false);
        let runtime = MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(threads).quiet().start();
        for (is_bounded, has_files) in [(false, false), (true, false), (true, true)] {
            let (log, operators) = network.operators(false, None);
            let bound = if is_bounded { budget } else { u64::MAX };
            let files = has_files.then(|| TemporaryFiles::within(&std::env::temp_dir(), u64::MAX).unwrap());
            let overflows = files.map(|files| files as Arc<dyn Overflows>);
            let options = RequestOptions { overflows, ..RequestOptions::from(bound) };
            let request = runtime.submit_within(&network.model, operators, options);
            let result = wait(&network, &request);
            network.judge(&log, &result, &request.counts());
            // With files it ends whatever the budget is.
            let may_stall = is_bounded && !has_files;
            let is_fine = result.is_ok() || may_stall && matches!(result, Err(FlowError::Stalled { .. }));
            prop_assert!(is_fine, "{result:?} with files: {has_files}");
        }
    }

    #[test]
    fn beside_a_paused_box_all_other_streams_come_to_their_ends(
        recipes in recipes(),
        threads in prop_oneof![Just(1usize), Just(2), Just(8)],
        strategy in proptest::sample::select(settings()),
    ) {
        let network = Network::beside_a_paused_box(recipes);
        let runtime = MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(threads).quiet().start();
        for is_here in [false, true] {
            let (log, operators) = network.operators(false, None);
            let request = match is_here {
                true => runtime.submit_here(&network.model, operators, u64::MAX, &|| false),
                false => runtime.submit_with(&network.model, operators),
            };
            let began = Instant::now();
            while let Some(missing) = network.missing(&log) {
                prop_assert!(began.elapsed() < Duration::from_secs(60), "{missing}: {:?}", network.model);
                std::thread::sleep(Duration::from_micros(20));
            }
            prop_assert!(!request.is_done(), "its paused box goes on when it is resumed");
            let result = wait(&network, &request);
            network.judge(&log, &result, &request.counts());
            prop_assert!(result.is_ok(), "{result:?} of {:?}", network.model);
        }
    }
}
