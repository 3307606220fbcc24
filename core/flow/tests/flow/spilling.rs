//! Boxes that keep more than their request's budget, over random tables of all types. Failing cases print their seed.

use crate::joins::{joined, pairing};
use crate::random_networks::Beside;
use crate::tables::{Chance, Row, Table, assert_same};
use crate::trials::{by_keys, envelopes, grouping, groups, in_order, keep, random_keys, seen};
use std::sync::Arc;
use vicus_flow::library::{self, HashKey};
use vicus_flow::{BoxModel, FlowError, ModelBuilder, OverBudget, Schema, sequential};

/// Runs a box over tables within a budget, beside files. Gives its rows, and the bytes that it wrote there; nothing if
/// the budget has no room for what the box has to have at once.
fn within(
    budget: u64,
    model: BoxModel,
    tables: &[&Table],
    to: &Schema,
    chance: &mut Chance,
    what: &str,
) -> Option<(Vec<Row>, u64)> {
    let mut net = ModelBuilder::new("within a budget");
    let model = net.add(model);
    for (input, table) in tables.iter().enumerate() {
        let rows = envelopes(table, chance);
        let source = net.source(library::source("rows", &table.schema, move || rows.clone()));
        net.connect(source.output(0), model.input(input));
    }
    let (sink, kept) = keep(to);
    let sink = net.add(sink);
    net.connect(model.output(0), sink.input(0));
    net.end(sink.output(0));
    let beside = Arc::new(Beside::with_room(usize::MAX));
    let tasks = |tasks| Some(chance.below(tasks));
    let (result, counts) = sequential::run_within(&net.build().unwrap(), Vec::new(), budget, Some(beside), tasks);
    let spilled = counts.iter().map(|counts| counts.spilled_bytes).sum();
    match result {
        Ok(_) => Some((seen(&kept), spilled)),
        Err(FlowError::Failed { error, .. }) if error.downcast_ref::<OverBudget>().is_some() => None,
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn what_a_budget_has_no_room_for_goes_to_files_and_comes_back() {
    let (mut runs, mut spilled, mut refused) = (0, [0; 4], 0);
    for seed in 0..if cfg!(debug_assertions) { 200 } else { 1500 } {
        let chance = &mut Chance::of_seed(seed);
        let table = Table::random(chance, 600);
        let schema = &table.schema;
        let rows = 1 + chance.below(100);
        let budget = 1 << (12 + chance.below(6));
        let hash = HashKey::of_seed(seed);
        let what = format!("seed {seed}, {schema} within {budget} bytes");
        let mut check = |place: usize, made: Option<(Vec<Row>, u64)>, expected: &[Row], is_ordered: bool, of: &str| {
            runs += 1;
            let Some((made, bytes)) = made else { return refused += 1 };
            spilled[place] += u64::from(bytes > 0);
            let what = format!("{what}: {of}, {bytes} bytes outside");
            match is_ordered {
                true => assert_same(&made, expected, &what),
                false => assert_same(&in_order(made), &in_order(expected.to_vec()), &what),
            }
        };
        let made = within(budget, library::hold(schema), &[&table], schema, chance, &what);
        check(0, made, &table.rows, true, "hold");

        let keys = random_keys(&table, chance, 3);
        let mut sorted = table.rows.clone();
        sorted.sort_by(|a, b| by_keys(&keys, a, b));
        let made = within(budget, library::sort(schema, keys, rows), &[&table], schema, chance, &what);
        check(1, made, &sorted, true, "sort");

        let by: Vec<usize> = (0..1 + chance.below(2)).map(|_| chance.below(schema.columns().len())).collect();
        let grouping = grouping(&table, &by);
        let made = within(budget, library::group(&grouping, hash, rows), &[&table], &grouping.schema(), chance, &what);
        check(2, made, &groups(&table, &by), false, "group");

        let ([first, second], joining, keys) = pairing(chance, 150);
        let made =
            within(budget, library::join(&joining, hash, rows), &[&first, &second], &joining.schema(), chance, &what);
        let what = format!("join of {} and {}", first.schema, second.schema);
        check(3, made, &joined(&first, &second, &joining, keys), false, &what);
    }
    println!("{runs} runs, {spilled:?} of hold, sort, group and join wrote files, {refused} had no room");
    // Of a quarter of the runs each.
    assert!(spilled.iter().all(|&count| 60 * count > runs), "{spilled:?} of {runs} wrote files");
    assert!(5 * refused < runs, "{refused} of {runs} had no room");
}

#[test]
fn without_files_a_budget_is_an_error_as_before() {
    let schema = Schema::new([("n", vicus_flow::Type::U64)]);
    let models = [
        library::hold(&schema),
        library::sort(&schema, [library::SortKey::of(0)], 100),
        library::group(&library::Grouping::by(&schema, [0]), HashKey::default(), 100),
    ];
    for model in models {
        let mut net = ModelBuilder::new("within a budget");
        let rows = || {
            (0..100u64)
                .map(|part| vicus_flow::Envelope::new([(1000 * part..1000 * part + 1000).collect::<Vec<_>>().into()]))
        };
        let source = net.source(library::source("rows", &schema, rows));
        let model = net.add(model);
        let sink = net.add(library::sink("sink", &schema, |_| Ok(())));
        net.connect(source.output(0), model.input(0));
        net.connect(model.output(0), sink.input(0));
        net.end(sink.output(0));
        let (result, _) = sequential::run_within(&net.build().unwrap(), Vec::new(), 100_000, None, |_| Some(0));
        let FlowError::Failed { error, .. } = result.unwrap_err() else { panic!("a box failed") };
        assert!(error.downcast_ref::<OverBudget>().is_some(), "{error}");
    }
}

/// The rows of one key can't be divided: a join that has no room for them says so.
#[test]
fn a_join_of_one_key_has_no_room_for_it() {
    let schema = Schema::new([("n", vicus_flow::Type::U64)]);
    let joining = library::Joining::of(&schema, &schema, [(0, 0)]).kind(library::JoinKind::Semi);
    let mut net = ModelBuilder::new("within a budget");
    let join = net.add(library::join(&joining, HashKey::default(), 100));
    for input in 0..2 {
        let rows = || (0..200).map(|_| vicus_flow::Envelope::new([vec![7u64; 1000].into()]));
        let source = net.source(library::source("rows", &schema, rows));
        net.connect(source.output(0), join.input(input));
    }
    let sink = net.add(library::sink("sink", &joining.schema(), |_| Ok(())));
    net.connect(join.output(0), sink.input(0));
    net.end(sink.output(0));
    let beside = Arc::new(Beside::with_room(usize::MAX));
    let (result, _) = sequential::run_within(&net.build().unwrap(), Vec::new(), 1 << 19, Some(beside), |_| Some(0));
    let error = result.unwrap_err().to_string();
    assert!(error.starts_with("box join failed: more than 512.0 KiB is needed"), "{error}");
}
