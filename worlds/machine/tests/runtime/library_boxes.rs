//! Random tables of all types through the library's boxes on real threads, under each strategy. Failing cases print
//! their seed.

use crate::tables::{self, Chance, Table, assert_same, rows};
use crate::trials::{Trial, in_order, keep, seen};
use vicus_flow::library::{self, Grouping, HashKey, JoinKind, Joining, SortKey};
use vicus_flow::{Column, Envelope, Field, FlowError, ModelBuilder, OverBudget, Schema, Type};
use vicus_machine::{MachineRuntime, RequestOptions, TemporaryFiles};

fn runtimes() -> impl Iterator<Item = (&'static str, MachineRuntime)> {
    let start =
        |strategy: &str| MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(3).quiet().start();
    vicus_schedule::ALL.iter().map(move |strategy| (strategy.name(), start(strategy.name())))
}

#[test]
fn tables_come_to_the_same_under_each_strategy() {
    for (name, runtime) in runtimes() {
        for seed in 1000..1000 + if cfg!(debug_assertions) { 20 } else { 200 } {
            let trial = Trial::of_seed(seed);
            let result = runtime.submit(&trial.model).wait();
            result.unwrap_or_else(|error| panic!("{name}, seed {seed}: {error}"));
            trial.judge();
        }
    }
}

/// Sorting, and grouping by all columns, hold all rows: many long texts exceed this request's budget.
#[test]
fn rows_that_are_held_count_against_the_budget() {
    let schema = Schema::new([("text", Type::Text)]);
    let texts = || (0..100).map(|part| (0..100).map(|row| format!("{part:0300} {row}")).collect::<Column>());
    let grouping = Grouping::by(&schema, [0]);
    let joining = Joining::of(&schema, &schema, [(0, 0)]).kind(JoinKind::Semi);
    for (name, runtime) in runtimes() {
        for holder in ["sort", "group", "hold", "join"] {
            let mut net = ModelBuilder::new("more than it may");
            let source =
                net.source(library::source("texts", &schema, move || texts().map(|text| Envelope::new([text]))));
            let holds = net.add(match holder {
                "sort" => library::sort(&schema, [SortKey::of(0)], 1000),
                "group" => library::group(&grouping, HashKey::default(), 1000),
                "hold" => library::hold(&schema),
                _ => library::join(&joining, HashKey::default(), 1000),
            });
            if holder == "join" {
                let others =
                    net.source(library::source("texts", &schema, move || texts().map(|text| Envelope::new([text]))));
                net.connect(others.output(0), holds.input(1));
            }
            let (sink, kept) = keep(&schema);
            let sink = net.add(sink);
            net.connect(source.output(0), holds.input(0));
            net.connect(holds.output(0), sink.input(0));
            net.end(sink.output(0));
            let model = net.build().unwrap();
            let error = runtime.submit_within(&model, Vec::new(), 1 << 20).wait().unwrap_err();
            let FlowError::Failed { name: of, error } = &error else { panic!("{name}: {error}") };
            assert!(of == holder && error.downcast_ref::<OverBudget>().is_some(), "{name}: {of} said {error}");
            assert!(kept.lock().unwrap().is_empty());
            runtime.submit_within(&model, Vec::new(), 64 << 20).wait().unwrap();
            let rows = in_order(seen(&kept));
            assert_eq!(rows.len(), 10_000, "{name}");
            kept.lock().unwrap().clear();

            // Within the first budget, with files for the rest.
            let files = TemporaryFiles::within(&std::env::temp_dir(), 64 << 20).unwrap();
            let options = RequestOptions { overflows: Some(files), ..RequestOptions::from(1 << 20) };
            let request = runtime.submit_within(&model, Vec::new(), options);
            request.wait().unwrap_or_else(|error| panic!("{name}, {holder}: {error}"));
            let written: u64 = request.counts().iter().map(|counts| counts.spilled_bytes).sum();
            assert!(written > 1 << 20, "{name}, {holder}: {written} bytes in files");
            assert_same(&in_order(seen(&kept)), &rows, &format!("{name}, {holder}"));
            kept.lock().unwrap().clear();
        }
    }
}

/// What happened: texts were collected into memory of the program's allocator, regardless of the making box's node.
#[test]
fn texts_that_a_builder_fills_lie_in_one_block() {
    let field = |kind| Field::new("c", kind).or_null();
    let table =
        Table::of(vec![field(Type::Text), field(Type::Binary), field(Type::U64)], &mut Chance::of_seed(5), 3000);
    let (schema, envelope) = (table.schema.clone(), tables::envelope(&table.schema, &table.rows));
    let runtime = MachineRuntime::builder().threads(1).quiet().start();
    let mut net = ModelBuilder::new("texts");
    let given = envelope.clone();
    let source = net.source(library::fill("texts", &schema, move || {
        let given = given.clone();
        move |turn, builder| {
            builder.append(turn, &given, &(0..given.rows() as u32).collect::<Vec<_>>());
            Ok(library::More::No)
        }
    }));
    let (sink, kept) = keep(&schema);
    let sink = net.add(sink);
    net.connect(source.output(0), sink.input(0));
    net.end(sink.output(0));
    runtime.submit(&net.build().unwrap()).wait().unwrap();
    let made = kept.lock().unwrap().pop().unwrap();
    assert_same(&rows(&made), &table.rows, "filled in");
    let one = made.column(2).u64s().as_ptr().addr();
    let text = made.column(0).texts().find(|text| !text.is_empty()).unwrap().as_ptr().addr();
    assert!(one.abs_diff(text) < made.held_bytes() as usize, "{one:x} and {text:x} in {} bytes", made.held_bytes());
    assert!(made.held_bytes() < 2 * made.bytes() + 4096);
}
