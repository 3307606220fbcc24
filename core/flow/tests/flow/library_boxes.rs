//! The library's boxes over random tables of all types, in random orders of tasks. Failing cases print their seed.

use crate::one_box;
use crate::tables::{self, Cell, Chance, Row, Table, assert_same, cell, envelope, kind, rows, rows as rows_of};
use crate::trials::{Trial, envelopes, keep, seen};
use vicus_flow::library::{self, Grouping, HashKey, More, SortKey};
use vicus_flow::{Column, Envelope, Field, FlowError, ModelBuilder, Schema, Type, sequential};

#[test]
fn tables_are_sorted_dealt_merged_and_grouped_as_by_plain_loops() {
    for seed in 0..if cfg!(debug_assertions) { 300 } else { 2000 } {
        let trial = Trial::of_seed(seed);
        let mut picks = Chance::of_seed(!seed);
        let result = sequential::run(&trial.model, Vec::new(), |tasks| picks.below(tasks));
        result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        trial.judge();
    }
}

#[test]
fn a_builder_makes_of_rows_what_they_were() {
    for seed in 0..200 {
        let chance = &mut Chance::of_seed(seed);
        let table = Table::random(chance, 300);
        let envelopes = envelopes(&table, chance);
        let at_once = 1 + chance.below(4);
        let mut net = ModelBuilder::new("rows filled in");
        let source = net.source(library::fill("rows", &table.schema, move || {
            let mut rest = envelopes.clone().into_iter();
            move |turn, builder| {
                for envelope in rest.by_ref().take(at_once) {
                    let all: Vec<u32> = (0..envelope.rows() as u32).collect();
                    builder.append(turn, &envelope, &all);
                }
                Ok(if rest.len() > 0 { More::Yes } else { More::No })
            }
        }));
        let (sink, kept) = keep(&table.schema);
        let sink = net.add(sink);
        net.connect(source.output(0), sink.input(0)).private(0..table.schema.columns().len());
        net.end(sink.output(0));
        sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
        assert_same(&seen(&kept), &table.rows, &format!("seed {seed}, {}", table.schema));
        for envelope in kept.lock().unwrap().iter() {
            let half = envelope.slice(envelope.rows() / 2..envelope.rows());
            let copy = half.clone().compact();
            assert_same(&rows(&copy), &rows(&half), &format!("seed {seed}: a copy"));
            assert!(copy.held_bytes() <= half.held_bytes(), "seed {seed}: a copy takes less");
            assert!(half.bytes() <= envelope.bytes(), "seed {seed}: a half is less");
        }
    }
}

/// Runs a box over these rows. Gives its output, or the error.
fn over(
    rows: Envelope,
    from: &Schema,
    model: vicus_flow::BoxModel,
    to: &Schema,
) -> Result<Vec<tables::Row>, FlowError> {
    let made = one_box::over(vec![rows], model, from, to)?;
    Ok(made.iter().flat_map(rows_of).collect())
}

#[test]
fn a_sum_beyond_64_bits_fails_its_request() {
    for (column, kind) in [(Column::from(vec![i64::MIN, -1]), Type::I64), (vec![u64::MAX, 1].into(), Type::U64)] {
        let schema = Schema::new([("n", kind)]);
        let sum = Grouping::by(&schema, []).sum("sum", 0);
        let group = library::group(&sum, HashKey::default(), 10);
        let error = over(Envelope::new([column]), &schema, group, &sum.schema()).unwrap_err();
        assert_eq!(error.to_string(), "box group failed: a sum of integers is beyond 64 bits");
    }
}

#[test]
fn floats_are_added_in_the_order_in_which_they_come() {
    let schema = Schema::new([("x", Type::F64), ("y", Type::F32)]);
    let sums = Grouping::by(&schema, []).sum("x", 0).sum("y", 1);
    let values = [1e300, -1e300, 0.1, 0.2];
    let rows = Envelope::new([values.to_vec().into(), vec![0.1f32, -0.0, 1e30, -1e30].into()]);
    let made = over(rows, &schema, library::group(&sums, HashKey::default(), 10), &sums.schema()).unwrap();
    let expected = [values.iter().sum::<f64>(), [0.1f32, -0.0, 1e30, -1e30].map(f64::from).iter().sum()];
    assert_same(&made, &[expected.map(tables::Cell::Float).to_vec()], "sums");
}

#[test]
fn a_source_fails_with_its_iterators_error() {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("a file that ends too soon");
    let one = || Envelope::new([vec![1u64].into()]);
    let source = net.source(library::source("reader", &schema, move || {
        [Ok(one()), Err(std::io::Error::other("the file ends here"))].into_iter()
    }));
    let (sink, kept) = keep(&schema);
    let sink = net.add(sink);
    net.connect(source.output(0), sink.input(0));
    net.end(sink.output(0));
    let error = sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap_err();
    assert_eq!(error.to_string(), "box reader failed: the file ends here");
    assert_eq!(kept.lock().unwrap().len(), 1, "what came before was read");
}

#[test]
fn nulls_come_only_where_the_schema_has_them() {
    let (plain, nullable) = (Schema::new([("n", Type::U64)]), Schema::new([("n", Type::U64)]).with_nulls(["n"]));
    assert!(plain.fits(&nullable) && !nullable.fits(&plain));
    let build = |from: &Schema, to: &Schema| {
        let mut net = ModelBuilder::new("nulls");
        let source = net.source(library::source("source", from, || [Envelope::new([vec![Some(1u64), None].into()])]));
        let sort = net.add(library::sort(to, [SortKey::of(0)], 10));
        net.connect(source.output(0), sort.input(0));
        net.end(sort.output(0));
        net.build()
    };
    let error = build(&nullable, &plain).unwrap_err().to_string();
    assert!(error.contains("(n: U64 or null)") && error.contains("(n: U64)"), "{error}");
    let error = sequential::run(&build(&plain, &nullable).unwrap(), Vec::new(), |_| 0).unwrap_err();
    let expected = "output 0 has the schema (n: U64), and this envelope's columns are [U64 with nulls in 1 of 2 rows]";
    assert_eq!(error.to_string(), format!("box source panicked: {expected}"));
}

/// Envelopes and schemas with mostly one difference: the type or the nulls of one column, or a column more or less.
#[test]
fn an_envelope_fits_a_schema_whose_columns_all_agree() {
    for seed in 0..if cfg!(debug_assertions) { 3000 } else { 20_000 } {
        let chance = &mut Chance::of_seed(seed);
        let field = |chance: &mut Chance| {
            let field = Field::new("column", kind(chance, 1));
            if chance.below(2) == 0 { field.or_null() } else { field }
        };
        let sent: Vec<Field> = (0..chance.below(16)).map(|_| field(chance)).collect();
        let mut read = sent.clone();
        for _ in 0..chance.below(3) {
            let place = chance.below(read.len() + 1);
            match chance.below(5) {
                0 => read.insert(place, field(chance)),
                1 if place < read.len() => _ = read.remove(place),
                2 if place < read.len() => read[place].kind = field(chance).kind,
                _ if place < read.len() => read[place].nullable ^= true,
                _ => {}
            }
        }
        fn same(sent: &Type, read: &Type) -> bool {
            let agree =
                |(sent, read): (&Field, &Field)| same(&sent.kind, &read.kind) && (read.nullable || !sent.nullable);
            match (sent, read) {
                (Type::List(sent), Type::List(read)) => agree((sent, read)),
                (Type::Struct(sent), Type::Struct(read)) => {
                    let (sent, read) = (sent.columns(), read.columns());
                    sent.len() == read.len() && sent.iter().zip(read).all(agree)
                }
                (sent, read) => sent == read,
            }
        }
        let agree = |(sent, read): (&Field, &Field)| same(&sent.kind, &read.kind) && (read.nullable || !sent.nullable);
        let expected = sent.len() == read.len() && sent.iter().zip(&read).all(agree);
        let (sent, read): (Schema, Schema) = (sent.into_iter().collect(), read.into_iter().collect());
        assert_eq!(sent.fits(&read), expected, "seed {seed}: {sent} and {read}");
        let first = chance.below(sent.columns().len() + 1);
        let alike = sent.columns()[..first].iter().cloned().collect();
        assert!(sent.prefix(first).fits(&alike) && alike.fits(&sent.prefix(first)), "seed {seed}: {first} of {sent}");

        // A null in each column that may have one, and then none.
        let mut row = |null: bool| -> Row {
            let cell = |field: &Field| if field.nullable && null { Cell::Null } else { cell(&field.kind, chance) };
            sent.columns().iter().map(cell).collect()
        };
        let whole = envelope(&sent, &[row(true), row(false)]);
        assert_eq!(whole.fits(&read), expected, "seed {seed}: {sent} and {read}");
        // Whether a row has nulls within its values is said by the type of these.
        let part = whole.slice(1..2);
        let kinds = sent.columns().len() == read.columns().len()
            && sent.columns().iter().zip(read.columns()).all(|(sent, read)| same(&sent.kind, &read.kind));
        assert_eq!(part.fits(&read), kinds, "seed {seed}: {sent} without nulls and {read}");
        assert!(Envelope::pill().fits(&read));
    }
}
