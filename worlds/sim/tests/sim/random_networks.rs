//! The random networks of core/flow in virtual time: bounded memory, a queue beside it, and a trace that is possible.
//! Failing cases print their seed.

use crate::networks::{self, Fault, Log, Network, cases, recipes};
use proptest::prelude::*;
use std::sync::Arc;
use vicus_flow::{BoxCounts, FlowError, Overflows, Totals};
use vicus_sim::{BesideMemory, Rehearsal, RehearsalOptions};

/// Picks by a seed.
fn picks(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |count| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % count as u64) as usize
    }
}

/// The rules of a run that did well. Its totals are told by no rehearsal: they are taken from its counts.
fn judge(network: &Network, log: &Log, counts: &[BoxCounts]) {
    let sum = |of: fn(&BoxCounts) -> u64| counts.iter().map(of).sum();
    let (near_bytes, far_bytes) = (sum(BoxCounts::near_bytes), sum(BoxCounts::far_bytes));
    network.judge(log, &Ok(Totals { near_bytes, far_bytes, ..Totals::default() }), counts);
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_network_ends_with_all_rows_in_virtual_time(
        recipes in recipes(),
        budget in 0u64..300_000,
        room in prop_oneof![2 => Just(u64::MAX), 1 => 0u64..2000],
        seed in any::<u64>(),
    ) {
        let network = Network::new(&recipes, false);
        let (log, operators) = network.operators(false, None);
        let beside = Arc::new(BesideMemory::within(room));
        let overflows: Arc<dyn Overflows> = beside.clone();
        let options = RehearsalOptions { operators, budget: Some(budget.into()), overflows: Some(overflows) };
        match Rehearsal::with(&network.model, options, picks(seed), |_, rows| 1 + rows) {
            Ok(Rehearsal { trace, counts, .. }) => {
                judge(&network, &log, &counts);
                let violations = trace.check();
                prop_assert_eq!(violations.first(), None, "{:?}", network.model);
                let spilled: u64 = counts.iter().map(|counts| counts.spilled_bytes).sum();
                prop_assert_eq!(spilled, beside.written());
                let lent: u64 = counts.iter().flat_map(|counts| &counts.outputs).map(|output| output.overdraft).sum();
                prop_assert!(lent <= budget, "{} of {}", lent, budget);
            }
            Err(error) => {
                let is_full = room < u64::MAX && matches!(error, FlowError::Stalled { outside: Some(_), .. });
                prop_assert!(is_full, "{error} of {:?}", network.model);
            }
        }
    }

    /// A world without an outside has no pauses: a box that asks for one goes on.
    #[test]
    fn a_box_that_would_pause_goes_on(recipes in recipes(), seed in any::<u64>()) {
        let network = Network::beside_a_paused_box(recipes);
        let (log, operators) = network.operators(false, None);
        let options = RehearsalOptions { operators, ..RehearsalOptions::default() };
        let rehearsal = Rehearsal::with(&network.model, options, picks(seed), |_, rows| 1 + rows);
        let rehearsal = rehearsal.unwrap_or_else(|error| panic!("{error} of {:?}", network.model));
        judge(&network, &log, &rehearsal.counts);
        prop_assert_eq!(network.missing(&log), None);
        prop_assert!(network.paused.lock().unwrap().is_empty());
    }

    #[test]
    fn a_faulty_box_fails_its_request_at_most(
        recipes in recipes(),
        seed in any::<u64>(),
        at in 0usize..20,
        act in 1u64..8,
        how in prop_oneof![Just(Fault::Error), Just(Fault::Panic), Just(Fault::PanicInDrop)],
    ) {
        networks::expect_panics();
        let network = Network::new(&recipes, true);
        let (log, operators) = network.operators(false, Some((at, act, how)));
        let options = RehearsalOptions { operators, ..RehearsalOptions::default() };
        let result = Rehearsal::with(&network.model, options, picks(seed), |_, rows| 1 + rows);
        let is_expected = match (how, &result) {
            (Fault::Error, Err(error)) => matches!(error, FlowError::Failed { .. }),
            (Fault::Panic | Fault::PanicInDrop, Err(error)) => matches!(error, FlowError::Panicked { .. }),
            (Fault::Error | Fault::Panic, Ok(_)) => true,
            (Fault::PanicInDrop, Ok(_)) => false,
        };
        prop_assert!(is_expected, "{:?} of {:?}", result.err(), network.model);
        if let Ok(Rehearsal { counts, .. }) = result {
            judge(&network, &log, &counts);
        }
    }
}
