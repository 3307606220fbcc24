//! Random networks in the sequential world, in random orders of tasks. Failing cases print their seed.

use crate::networks::{self, Fault, Network, Operators, cases, recipes};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_flow::stepwise::SteppedRequest;
use vicus_flow::{BoxCounts, BoxError, Budget, FlowError, Overflow, Overflows, Totals, sequential};
use vicus_topology::NodeId;

/// Makes queues that have room for so many envelopes each, and counts all that were put.
#[derive(Debug)]
pub(crate) struct Beside {
    room: usize,
    put: Arc<AtomicUsize>,
}

impl Beside {
    pub(crate) fn with_room(room: usize) -> Beside {
        Beside { room, put: Arc::default() }
    }
}

struct Limited {
    queue: VecDeque<Vec<u8>>,
    room: usize,
    put: Arc<AtomicUsize>,
}

impl Overflows for Beside {
    fn begin(&self) -> Result<Box<dyn Overflow>, BoxError> {
        Ok(Box::new(Limited { queue: VecDeque::new(), room: self.room, put: Arc::clone(&self.put) }))
    }
}

impl Overflow for Limited {
    fn push(&mut self, bytes: &[u8]) -> Result<(), BoxError> {
        if self.queue.len() >= self.room {
            return Err("the disk is full".into());
        }
        self.put.fetch_add(1, Ordering::Relaxed);
        self.queue.push_back(bytes.to_vec());
        Ok(())
    }

    fn pop(&mut self, into: &mut Vec<u8>) -> Result<bool, BoxError> {
        let first = self.queue.pop_front();
        let is_there = first.is_some();
        *into = first.unwrap_or_default();
        Ok(is_there)
    }
}

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

/// Runs a network in a world with an outside: paused boxes are resumed by chance, and all of them when nothing else is
/// left to do. Then `rests` is called first.
fn run_with_pauses(
    network: &Network,
    operators: Operators,
    budget: Budget,
    overflows: Option<Arc<dyn Overflows>>,
    mut pick: impl FnMut(usize) -> Option<usize>,
    mut rests: impl FnMut(),
) -> (Result<Totals, FlowError>, Vec<BoxCounts>) {
    let (mut request, first) = SteppedRequest::start(&network.model, operators);
    request.allow_pauses();
    request.set_budget(budget);
    if let Some(overflows) = overflows {
        request.set_overflows(overflows);
    }
    let mut chance = |count: usize| pick(count).expect("it goes on");
    let mut queue = vec![first];
    loop {
        let paused = std::mem::take(&mut *network.paused.lock().unwrap());
        let is_idle = queue.is_empty();
        if is_idle && !paused.is_empty() {
            rests();
        }
        let (goes_on, stays): (Vec<_>, Vec<_>) = paused.into_iter().partition(|_| is_idle || chance(10) == 0);
        network.paused.lock().unwrap().extend(stays);
        drop(goes_on);
        queue.extend(request.resumed());
        if queue.is_empty() {
            return request.settle();
        }
        let task = queue.swap_remove(chance(queue.len()));
        let begun = request.begin(task, NodeId::default());
        queue.extend(request.finish(begun, NodeId::default()));
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn beside_a_paused_box_all_other_streams_come_to_their_ends(recipes in recipes(), seed in any::<u64>()) {
        let network = Network::beside_a_paused_box(recipes);
        let (log, operators) = network.operators(false, None);
        let at_rest = Arc::clone(&log);
        // It is resumed last.
        let mut has_rested = false;
        let mut pick = picks(seed);
        let never = move |count: usize| Some(if count == 10 { 1 } else { pick(count)? });
        let rests = || {
            has_rested = true;
            assert_eq!(network.missing(&at_rest), None);
        };
        let (result, counts) = run_with_pauses(&network, operators, Budget::UNBOUNDED, None, never, rests);
        network.judge(&log, &result, &counts);
        prop_assert!(result.is_ok(), "{result:?} of {:?}", network.model);
        prop_assert!(has_rested, "the paused box was not resumed before");
    }

    #[test]
    fn every_run_with_pauses_ends_with_all_rows_or_names_a_real_cycle(
        recipes in recipes(),
        budget in 0u64..300_000,
        room in prop_oneof![2 => Just(usize::MAX), 1 => 0usize..4],
        has_files in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let network = Network::new(&recipes, false);
        let (log, operators) = network.operators(false, None);
        let files = has_files.then(|| Arc::new(Beside::with_room(room)) as Arc<dyn Overflows>);
        let (result, counts) = run_with_pauses(&network, operators, budget.into(), files, picks(seed), || {});
        network.judge(&log, &result, &counts);
        let has_no_room = !has_files || room < usize::MAX;
        let fine = has_no_room && matches!(result, Err(FlowError::Stalled { .. }));
        prop_assert!(result.is_ok() || fine, "{result:?} of {:?}", network.model);
    }

    #[test]
    fn every_run_that_keeps_bounds_ends_or_names_a_real_cycle(recipes in recipes(), seed in any::<u64>()) {
        let network = Network::new(&recipes, false);
        let (log, operators) = network.operators(true, None);
        let (result, counts) = sequential::run_counted(&network.model, operators, picks(seed));
        network.judge(&log, &result, &counts);
        let fine = matches!(result, Ok(_) | Err(FlowError::Stalled { outside: None, .. }));
        prop_assert!(fine, "{result:?} of {:?}", network.model);
    }

    #[test]
    fn every_run_ends_with_all_rows(recipes in recipes(), seed in any::<u64>()) {
        let network = Network::new(&recipes, false);
        let (log, operators) = network.operators(true, None);
        let budget = Budget::UNBOUNDED;
        let (result, counts) = sequential::run_within(&network.model, operators, budget, None, picks(seed));
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
        let (result, counts) = sequential::run_within(&network.model, operators, budget, None, picks(seed));
        network.judge(&log, &result, &counts);
        let lent: u64 = counts.iter().flat_map(|counts| &counts.outputs).map(|output| output.overdraft).sum();
        prop_assert!(lent <= budget, "{lent} of {budget}");
        let fine = matches!(result, Ok(_) | Err(FlowError::Stalled { .. }));
        prop_assert!(fine, "{result:?} of {:?}", network.model);
    }

    #[test]
    fn every_run_within_a_budget_and_files_ends_with_all_rows(
        recipes in recipes(),
        budget in 0u64..300_000,
        room in prop_oneof![2 => Just(usize::MAX), 1 => 0usize..4],
        seed in any::<u64>(),
    ) {
        let network = Network::new(&recipes, false);
        let (log, operators) = network.operators(true, None);
        let beside = Arc::new(Beside { room, put: Arc::default() });
        let places: Arc<dyn Overflows> = beside.clone();
        let (result, counts) =
            sequential::run_within(&network.model, operators, budget, Some(places), picks(seed));
        network.judge(&log, &result, &counts);
        let written: u64 = counts.iter().map(|counts| counts.spilled_bytes).sum();
        prop_assert_eq!(written > 0, beside.put.load(Ordering::Relaxed) > 0);
        let is_full = room < usize::MAX && matches!(result, Err(FlowError::Stalled { outside: Some(_), .. }));
        prop_assert!(result.is_ok() || is_full, "{result:?} of {:?}", network.model);
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
