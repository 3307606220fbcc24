//! Joins of random tables of all types, against nested loops. Failing cases print their seed.

use crate::tables::{self, Cell, Chance, Row, Table, assert_same};
use crate::trials::{envelopes, keep, seen};
use vicus_flow::library::{self, HashKey, JoinKind, Joining};
use vicus_flow::{Bound, Field, FlowError, ModelBuilder, OverBudget, Schema, sequential};

/// Random columns behind keys of these types, which have nulls or not.
fn fields(keys: &[vicus_flow::Type], chance: &mut Chance) -> Vec<Field> {
    let further: Vec<_> = (0..chance.below(3)).map(|_| tables::kind(chance, 1)).collect();
    let all = keys.iter().cloned().chain(further).enumerate();
    let field = |(number, kind)| Field::new(format!("c{number}"), kind);
    all.map(field).map(|field| if chance.below(2) == 0 { field.or_null() } else { field }).collect()
}

/// All pairs of equal keys, by comparing each with each.
fn nested_loops(first: &[Row], second: &[Row], keys: usize, kind: JoinKind, nulls: usize) -> Vec<Row> {
    let mut made = Vec::new();
    for a in first {
        let is_equal = |b: &&Row| (0..keys).all(|key| !a[key].is_null() && a[key].order(&b[key]).is_eq());
        let partners: Vec<&Row> = second.iter().filter(is_equal).collect();
        let pair = |b: &[Cell]| a.iter().chain(b).cloned().collect::<Row>();
        match kind {
            JoinKind::Inner => made.extend(partners.iter().map(|b| pair(b))),
            JoinKind::Left if partners.is_empty() => made.push(pair(&vec![Cell::Null; nulls])),
            JoinKind::Left => made.extend(partners.iter().map(|b| pair(b))),
            JoinKind::Semi if !partners.is_empty() => made.push(a.clone()),
            JoinKind::Anti if partners.is_empty() => made.push(a.clone()),
            JoinKind::Semi | JoinKind::Anti => {}
        }
    }
    made
}

/// Two random tables, a join of them, and the number of their keys.
pub(crate) fn pairing(chance: &mut Chance, most_rows: usize) -> ([Table; 2], Joining, usize) {
    let keys: Vec<_> = (0..chance.below(3)).map(|_| tables::kind(chance, 1)).collect();
    let tables = [(); 2].map(|()| Table::of(fields(&keys, chance), chance, most_rows));
    let kind = [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti][chance.below(4)];
    let on = (0..keys.len()).map(|key| (key, key));
    let joining = Joining::of(&tables[0].schema, &tables[1].schema, on).kind(kind);
    (tables, joining, keys.len())
}

/// The rows of a [`pairing`].
pub(crate) fn joined(first: &Table, second: &Table, joining: &Joining, keys: usize) -> Vec<Row> {
    nested_loops(&first.rows, &second.rows, keys, joining.sends(), second.schema.columns().len())
}

#[test]
fn streams_are_joined_as_by_nested_loops() {
    for seed in 0..if cfg!(debug_assertions) { 300 } else { 2000 } {
        let chance = &mut Chance::of_seed(seed);
        let (tables, joining, keys) = pairing(chance, 60);
        let [first, second] = &tables;
        let what = format!("seed {seed}, {joining:?}");
        let mut net = ModelBuilder::new("join");
        net.default_bound(Bound { envelopes: 1 + chance.below(8), ..Bound::default() });
        let join = net.add(library::join(&joining, HashKey::of_seed(seed), 1 + chance.below(100)));
        for (input, table) in tables.iter().enumerate() {
            let rows = envelopes(table, chance);
            let source = net.source(library::source("rows", &table.schema, move || rows.clone()));
            net.connect(source.output(0), join.input(input));
        }
        let (sink, kept) = keep(&joining.schema());
        let sink = net.add(sink);
        net.connect(join.output(0), sink.input(0));
        net.end(sink.output(0));
        sequential::run(&net.build().unwrap(), Vec::new(), |tasks| chance.below(tasks))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_same(&seen(&kept), &joined(first, second, &joining, keys), &what);
    }
}

#[test]
#[should_panic(expected = "I64 and Text are compared")]
fn columns_of_two_types_are_not_joined() {
    let schemas = [vicus_flow::Type::I64, vicus_flow::Type::Text].map(|kind| Schema::new([("key", kind)]));
    let _ = Joining::of(&schemas[0], &schemas[1], [(0, 0)]);
}

#[test]
fn a_join_is_booked_with_what_it_keeps() {
    let schema = Schema::new([("key", vicus_flow::Type::U64)]);
    let joining = Joining::of(&schema, &schema, [(0, 0)]);
    let mut net = ModelBuilder::new("join");
    let join = net.add(library::join(&joining, HashKey::default(), 100));
    for input in 0..2 {
        let rows = || (0..100u64).map(|part| vicus_flow::Envelope::new([vec![part; 1000].into()]));
        let source = net.source(library::source("rows", &schema, rows));
        net.connect(source.output(0), join.input(input));
    }
    let sink = net.add(library::sink("sink", &joining.schema(), |_| Ok(())));
    net.connect(join.output(0), sink.input(0));
    net.end(sink.output(0));
    let (result, _) = sequential::run_within(&net.build().unwrap(), Vec::new(), 1 << 20, None, |_| Some(0));
    let error = result.unwrap_err();
    let FlowError::Failed { name, error } = &error else { panic!("{error}") };
    assert!(name == "join" && error.downcast_ref::<OverBudget>().is_some(), "{error}");
}
