//! Random networks in the sequential world, in random orders of tasks. Failing cases print their seed.

use crate::networks::{self, Fault, Network, recipes};
use proptest::prelude::*;
use vicus_flow::{FlowError, sequential};

/// Picks by a seed: xorshift.
fn picks(seed: u64) -> impl FnMut(usize) -> Option<usize> {
    let mut state = seed | 1;
    move |count| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some((state % count as u64) as usize)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_with_all_rows(recipes in recipes(), seed in any::<u64>()) {
        let network = Network::new(&recipes, false);
        let (log, operators) = network.operators(true, None);
        let (result, counts) = sequential::run_counted(&network.model, operators, picks(seed));
        network.judge(&log, &result, &counts);
        prop_assert!(result.is_ok(), "{result:?} of {:?}", network.model);
    }

    #[test]
    fn every_run_within_a_budget_ends_or_names_a_real_cycle(
        recipes in recipes(),
        budget in 0u64..300_000,
        seed in any::<u64>(),
    ) {
        let network = Network::new(&recipes, false);
        let (log, operators) = network.operators(true, None);
        let (result, counts) = sequential::run_within(&network.model, operators, budget, picks(seed));
        network.judge(&log, &result, &counts);
        let lent: u64 = counts.iter().flat_map(|counts| &counts.outputs).map(|output| output.overdraft).sum();
        prop_assert!(lent <= budget, "{lent} of {budget}");
        let fine = matches!(result, Ok(_) | Err(FlowError::Stalled { .. }));
        prop_assert!(fine, "{result:?} of {:?}", network.model);
    }

    #[test]
    fn with_its_branches_held_a_network_never_waits_for_itself(recipes in recipes(), seed in any::<u64>()) {
        let network = Network::new(&recipes, true);
        let (log, operators) = network.operators(true, None);
        let (result, counts) = sequential::run_counted(&network.model, operators, picks(seed));
        network.judge(&log, &result, &counts);
        prop_assert!(result.is_ok(), "{result:?} of {:?}", network.model);
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
        let (log, operators) = network.operators(true, Some((at, act, how)));
        let (result, counts) = sequential::run_counted(&network.model, operators, picks(seed));
        network.judge(&log, &result, &counts);
        let expected = match how {
            Fault::Error => matches!(result, Ok(_) | Err(FlowError::Failed { .. })),
            Fault::Panic => matches!(result, Ok(_) | Err(FlowError::Panicked { .. })),
            Fault::PanicInDrop => matches!(result, Err(FlowError::Panicked { .. })),
        };
        prop_assert!(expected, "{result:?} of {:?}", network.model);
    }
}
