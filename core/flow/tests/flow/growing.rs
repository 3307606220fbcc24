//! Networks that grow: every result is that of plain loops, in any order of tasks.

use crate::growing_networks::{Growing, Step, is_own, random};
use crate::networks::expect_panics;
use crate::random_networks::Beside;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vicus_flow::stepwise::SteppedRequest;
use vicus_flow::{
    Arrivals, Bound, BoxCounts, BoxError, Envelope, Expansion, FlowError, FragmentBuilder, GrownBox, ModelBuilder,
    Overflows, Schema, Totals, Type, library, sequential,
};
use vicus_topology::NodeId;

/// The setting of a run.
#[derive(Default)]
struct Setting {
    budget: Option<u64>,
    overflows: Option<Arc<dyn Overflows>>,
    most_boxes: Option<usize>,
    /// It is cancelled after so many tasks.
    cancelled_after: Option<usize>,
}

/// Runs a request in a random order of tasks; several may be under way at once.
fn run(
    growing: &Growing,
    seed: u64,
    setting: Setting,
) -> (Result<Totals, FlowError>, Vec<BoxCounts>, Vec<GrownBox>, Vec<u64>) {
    let (operators, got) = growing.sink();
    let (mut request, first) = SteppedRequest::start(&growing.model, operators);
    if let Some(budget) = setting.budget {
        request.set_budget(budget);
    }
    if let Some(overflows) = setting.overflows {
        request.set_overflows(overflows);
    }
    if let Some(most) = setting.most_boxes {
        request.set_most_boxes(NonZeroUsize::new(most).unwrap());
    }
    if seed.is_multiple_of(2) {
        request.record();
    }
    let mut state = seed | 1;
    let mut pick = |count: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % count
    };
    let (mut queue, mut begun, mut tasks) = (vec![first], Vec::new(), 0);
    while !(queue.is_empty() && begun.is_empty()) {
        if setting.cancelled_after.is_some_and(|after| tasks >= after) {
            request.fail(FlowError::Cancelled);
        }
        tasks += 1;
        let begins = !queue.is_empty() && (begun.is_empty() || begun.len() < 3 && pick(2) == 0);
        if begins {
            let task = queue.swap_remove(pick(queue.len()));
            begun.push(request.begin(task, NodeId::new(0)));
            continue;
        }
        let at = pick(begun.len());
        let next = request.finish(begun.swap_remove(at), NodeId::new(0));
        queue.extend(next);
        request.facts().for_each(drop);
    }
    let (result, counts, grown) = request.settle_grown();
    (result, counts, grown, got.try_iter().flatten().collect())
}

#[test]
fn a_network_that_grows_makes_what_plain_loops_make_in_any_order() {
    for seed in 0..3000 {
        let growing = random(seed, false);
        let (result, counts, grown, got) = run(&growing, seed, Setting::default());
        let totals = result.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{:?}", growing.model));
        println!("seed {seed}");
        growing.judge(&got, &totals, &counts, &grown);
    }
}

#[test]
fn a_network_that_grows_within_a_budget_ends_with_its_rows_or_names_what_is_short() {
    let mut ended = 0;
    for seed in 0..2000 {
        let growing = random(seed, false);
        let room = if seed.is_multiple_of(3) { usize::MAX } else { seed as usize % 7 };
        let setting = Setting {
            budget: Some(seed * 31 % 40_000),
            overflows: Some(Arc::new(Beside::with_room(room))),
            ..Setting::default()
        };
        let (result, counts, grown, got) = run(&growing, seed, setting);
        match result {
            Ok(totals) => {
                ended += 1;
                assert_eq!(got, growing.expected, "seed {seed}");
                growing.judge_counts(&totals, &counts, &grown);
            }
            Err(FlowError::Failed { error, .. }) => assert!(error.to_string().contains("is needed"), "{seed}: {error}"),
            Err(FlowError::Stalled { .. }) => assert!(room < usize::MAX, "seed {seed}: there is room in files"),
            Err(error) => panic!("seed {seed}: {error}"),
        }
        assert_eq!(growing.census.live.load(Ordering::Relaxed), 0, "seed {seed}: all operators are gone");
    }
    assert!(ended > 500, "{ended} ended");
}

#[test]
fn a_cancelled_network_leaves_nothing_behind() {
    for seed in 0..2000 {
        let growing = random(seed, false);
        let setting = Setting { cancelled_after: Some(seed as usize * 7 % 120), ..Setting::default() };
        let (result, _, _, got) = run(&growing, seed, setting);
        match result {
            Ok(_) => assert_eq!(got, growing.expected, "seed {seed}"),
            Err(error) => assert!(matches!(error, FlowError::Cancelled), "seed {seed}: {error}"),
        }
        assert_eq!(growing.census.live.load(Ordering::Relaxed), 0, "seed {seed}");
    }
}

#[test]
fn code_that_fails_fails_its_request_with_the_chain_of_boxes() {
    expect_panics();
    let mut failed = 0;
    for seed in 0..2000 {
        let growing = random(seed, true);
        let (result, _, _, got) = run(&growing, seed, Setting::default());
        match result {
            Ok(_) => assert_eq!(got, growing.expected, "seed {seed}"),
            Err(error) => {
                assert!(is_own(&error), "seed {seed}: {error}");
                assert!(error.to_string().contains("grows"), "seed {seed}: {error}");
                failed += 1;
            }
        }
        assert_eq!(growing.census.live.load(Ordering::Relaxed), 0, "seed {seed}");
    }
    assert!(failed > 100, "{failed} failed");
}

/// Numbers in the order of a stack of tasks: a chain that becomes as deep as it is.
fn chain(depth: usize, rows: u64) -> Growing {
    Growing::new(Step::deep(depth), rows, Bound::default())
}

#[test]
fn a_request_that_would_have_too_many_boxes_names_the_chain() {
    let growing = chain(40, 600);
    let most = 10 + growing.model.boxes().len();
    let (result, ..) = run(&growing, 1, Setting { most_boxes: Some(most), ..Setting::default() });
    let Err(FlowError::TooManyBoxes { most: told, chain }) = &result else { panic!("{result:?}") };
    assert_eq!(*told, most);
    assert_eq!(chain[0], "grows");
    assert!(chain[1].starts_with("… ") && chain[1].ends_with(" more …"), "{chain:?}");
    assert!(chain[2..].iter().all(|name| name == "grows") && chain.len() < 8, "{chain:?}");
    assert_eq!(growing.census.live.load(Ordering::Relaxed), 0);
}

#[test]
fn a_box_of_a_fragment_is_called_by_the_boxes_around_it() {
    expect_panics();
    use crate::growing_networks::How;
    let inner = Step::Grows(How::Errs, Box::new(Step::Add(1)));
    let step = Step::Grows(How::AtOnce, Box::new(Step::Chain(vec![Step::Add(1), inner])));
    let growing = Growing::new(step, 3, Bound::default());
    let (result, ..) = run(&growing, 1, Setting::default());
    assert_eq!(result.unwrap_err().to_string(), "box grows / grows failed: out of room");
}

/// The error of a network with an expandable box of one input and two outputs.
fn refused(decide: impl Fn(&Arrivals<'_>) -> Result<Expansion, BoxError> + Clone + Send + Sync + 'static) -> String {
    let numbers = Schema::new([("number", Type::U64)]);
    let mut net = ModelBuilder::new("refused");
    let source = net.source(library::source("numbers", &numbers, || [Envelope::new([vec![1u64, 2].into()])]));
    let grows = net.expandable("grows", [&numbers], [&numbers, &numbers], move || decide.clone());
    net.connect(source.output(0), grows.input(0));
    net.end(grows.output(0));
    net.end(grows.output(1));
    sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap_err().to_string()
}

#[test]
fn a_decision_that_does_not_fit_the_box_fails_its_request() {
    let told = refused(|_| Ok(Expansion::PassBy));
    assert_eq!(told, "box grows failed: only a box with the same columns at both ends may be passed by");
    let told = refused(|_| Ok(Expansion::LookOn));
    assert_eq!(told, "box grows failed: a box that has seen the end of all inputs can't look on");
    let one = |schema: &Schema, ends: usize| {
        let mut net = FragmentBuilder::new("grows", [schema]);
        (0..ends).for_each(|_| net.end(net.input(0)));
        net.build()
    };
    let (numbers, words) = (Schema::new([("number", Type::U64)]), Schema::new([("word", Type::Text)]));
    let fragment = one(&numbers, 1).unwrap();
    let told = refused(move |_| Ok(Expansion::Become(fragment.clone())));
    let counts = "the fragment grows has 1 inputs and 1 outputs, and the box 1 and 2";
    assert_eq!(told, format!("box grows failed: {counts}"));
    let fragment = one(&words, 2).unwrap();
    let told = refused(move |_| Ok(Expansion::Become(fragment.clone())));
    assert_eq!(told, "box grows failed: input 0 (number: U64) does not fit the fragment's, (word: Text)");
    let error = one(&numbers, 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "output 0 of box inputs has no receiver: every path must lead to the termination box"
    );
}
