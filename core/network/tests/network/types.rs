//! Columns of every type through the kinds that pass rows on. Expected values are computed from a row's number.

use std::sync::mpsc;
use vicus_flow::{Column, Envelope, Field, Operator, Schema, Storage, TimeUnit, Type, library, sequential};
use vicus_network::{BoxSpec, Kinds, MachineCounts, NetworkError, NetworkText, Ports};

const ROWS: i32 = 3000;
const NAMES: [&str; 4] = ["a", "b", "c", "a longer name that is in no view"];

/// The columns of the rows with these numbers; every seventh value is null but for the number.
fn columns(rows: &[i32]) -> Vec<(&'static str, Column)> {
    let every = |of: &dyn Fn(i64) -> i64| rows.iter().map(|&n| of(n.into())).collect::<Vec<i64>>();
    let nulls = |column: Column| column.with_nulls((0..rows.len()).filter(|&row| rows[row] % 7 == 0));
    let names: Vec<u32> = rows.iter().map(|&n| n as u32 % 4).collect();
    let zone = || Some("+02:30".into());
    let parts = Column::of_parts([
        ("small", Column::from(rows.iter().map(|&n| n as u16).collect::<Vec<_>>())),
        ("name", rows.iter().map(|n| format!("s{n}")).collect()),
    ]);
    let items: Vec<i16> = rows.iter().flat_map(|&n| (0..n % 3).map(move |item| (n + item) as i16)).collect();
    let mut end = 0;
    let ends = std::iter::once(0).chain(rows.iter().map(|n| {
        end += n % 3;
        end
    }));
    vec![
        ("n", rows.to_vec().into()),
        ("tiny", nulls(rows.iter().map(|&n| n as u8).collect::<Vec<_>>().into())),
        ("huge", nulls(rows.iter().map(|&n| u64::MAX - n as u64).collect::<Vec<_>>().into())),
        ("half", nulls(rows.iter().map(|&n| n as f32 / 2.0).collect::<Vec<_>>().into())),
        ("name", nulls(Column::of_dictionary(names, &NAMES.into_iter().collect()).unwrap())),
        ("tag", nulls(Column::of_fixed(3, rows.iter().flat_map(|&n| [n as u8, 7, (n >> 8) as u8]).collect()))),
        ("at", nulls(Column::from(every(&|n| n * 1001 + 7)).of_type(Type::Timestamp(TimeUnit::Nano, zone())))),
        ("long", nulls(Column::from(every(&|n| -n)).of_type(Type::Duration(TimeUnit::Second)))),
        ("price", nulls(Column::of_decimals(38, 10, rows.iter().map(|&n| i128::from(n) << 80).collect()))),
        ("far", nulls(Column::of_decimals(38, -2, rows.iter().map(|&n| n.into()).collect()))),
        ("list", nulls(Column::of_lists(ends.collect(), items.into()))),
        ("parts", nulls(parts)),
    ]
}

fn schema() -> Schema {
    columns(&[0]).iter().map(|(name, column)| Field::new(*name, column.kind()).or_null()).collect()
}

fn kinds() -> Kinds {
    let all =
        BoxSpec::new("all", "Rows of every type.").ports(Ports::Exactly(0), Ports::Exactly(1)).builds(|building| {
            let envelopes = || {
                (0..ROWS).step_by(500).map(|from| {
                    let rows: Vec<i32> = (from..from + 500).collect();
                    Envelope::new(columns(&rows).into_iter().map(|(_, column)| column).collect::<Vec<_>>())
                })
            };
            let source = building.source(library::source("all", &schema(), envelopes));
            Ok(vec![(source.output(0), schema())])
        });
    let mut kinds = Kinds::library();
    kinds.add(all);
    kinds
}

fn shown(column: &Column, row: usize) -> String {
    if column.is_null(row) {
        return "null".to_owned();
    }
    match column.kind() {
        Type::U8 => column.values::<u8>()[row].to_string(),
        Type::U16 => column.values::<u16>()[row].to_string(),
        Type::I16 => column.values::<i16>()[row].to_string(),
        Type::I32 => column.values::<i32>()[row].to_string(),
        Type::U64 => column.u64s()[row].to_string(),
        Type::F32 => column.values::<f32>()[row].to_string(),
        Type::I64 | Type::Timestamp(..) | Type::Duration(_) => column.i64s()[row].to_string(),
        Type::Decimal { .. } => column.decimals()[row].to_string(),
        Type::Text => column.text_at(row).to_owned(),
        Type::FixedBinary(_) => format!("{:?}", column.binary_at(row)),
        Type::List(_) => {
            let items: Vec<String> = column.item_range(row).map(|item| shown(column.items(), item)).collect();
            format!("[{}]", items.join(", "))
        }
        Type::Struct(fields) => {
            let parts: Vec<String> = (0..fields.columns().len()).map(|part| shown(column.part(part), row)).collect();
            format!("({})", parts.join(", "))
        }
        other => panic!("{other} is not among the columns"),
    }
}

fn lines(columns: &[Column]) -> Vec<String> {
    let rows = columns[0].len();
    (0..rows).map(|row| columns.iter().map(|column| shown(column, row)).collect::<Vec<_>>().join(" | ")).collect()
}

fn run(text: &str) -> Result<(Schema, Vec<Envelope>), NetworkError> {
    let network =
        text.parse::<NetworkText>()?.build("types", &kinds(), &MachineCounts { threads: 3, nodes: 1 }, &[])?;
    let (send, receive) = mpsc::channel();
    let collected = &network.collected[0];
    let sink: Box<dyn Operator> = Box::new(library::sink_operator(move |rows| Ok(send.send(rows)?)));
    sequential::run(&network.model, vec![(collected.sink, sink)], |_| 0).unwrap();
    Ok((collected.schema.clone(), receive.iter().collect()))
}

fn found(envelopes: &[Envelope]) -> Vec<String> {
    envelopes.iter().flat_map(|envelope| lines(envelope.columns())).collect()
}

#[test]
fn filters_sorts_partitions_and_merges_pass_every_type_on() {
    let text = "box a = all; box pick = filter(where: \"n % 3 = 0 AND tiny < 200 AND at IS NOT NULL\");
        box deal = partition(by: \"name, tag\"); box order = sort(by: \"n desc\") * threads;
        box one = merge(by: \"n desc\");
        box most = limit(rows: 100000); box wait = hold; box rows = collect;
        a -> pick -> deal -> order -> one -> most -> wait -> rows;";
    let (passed, envelopes) = run(text).unwrap();
    assert_eq!(passed, schema());
    let rows: Vec<i32> = (0..ROWS).rev().filter(|n| n % 3 == 0 && n % 256 < 200 && n % 7 > 0).collect();
    let wanted: Vec<Column> = columns(&rows).into_iter().map(|(_, column)| column).collect();
    assert_eq!(found(&envelopes), lines(&wanted));
}

#[test]
fn a_condition_copies_the_codes_of_a_dictionary() {
    let (_, envelopes) =
        run("box a = all; box f = filter(where: \"name = 'b'\"); box rows = collect; a -> f -> rows;").unwrap();
    assert!(envelopes.iter().all(|envelope| envelope.column(4).storage() == Storage::Dictionary));
    let rows = (0..ROWS).filter(|n| n % 4 == 1 && n % 7 > 0).count();
    assert_eq!(envelopes.iter().map(Envelope::rows).sum::<usize>(), rows);
}

#[test]
fn a_map_passes_on_the_columns_that_it_names_alone() {
    let text = "box a = all; box m = map(select: \"parts, huge, at AS moment, tag, list, n + 1 AS next, name\");
        box rows = collect; a -> m -> rows;";
    let (passed, envelopes) = run(text).unwrap();
    assert_eq!(
        passed.to_string(),
        "(parts: Struct(small: U16, name: Text) or null, huge: U64 or null, moment: Timestamp(ns, +02:30) or null, \
         tag: FixedBinary(3) or null, list: List(I16) or null, next: I64 or null, name: Text or null)"
    );
    let rows: Vec<i32> = (0..ROWS).collect();
    let own = columns(&rows);
    let of = |name: &str| own.iter().find(|(own, _)| *own == name).unwrap().1.clone();
    let next: Column = rows.iter().map(|&n| i64::from(n) + 1).collect::<Vec<_>>().into();
    let wanted = [of("parts"), of("huge"), of("at"), of("tag"), of("list"), next, of("name")];
    assert_eq!(found(&envelopes), lines(&wanted));
}

#[test]
fn groups_and_joins_in_parts_keep_types() {
    let text = "box a = all; box deal = partition(by: \"name, at, tag\");
        box g = group(by: \"name, at, tag, price, far, list, parts, long\", folds: \"count as rows\") * 2;
        box all_groups = union; box b = all; box few = filter(where: \"n < 100\");
        box j = join_parts(on: \"a.tag = b.tag AND a.far = b.far\", parts: 2); box o = sort(by: \"n\");
        box rows = collect;
        a -> deal -> g -> all_groups -> j.0; b -> few -> j.1; j -> o -> rows;";
    let (joined, envelopes) = run(text).unwrap();
    let fields = joined.columns();
    for (name, column) in columns(&[1]) {
        let of: Vec<&Field> = fields.iter().filter(|field| field.name == name).collect();
        assert!(!of.is_empty() && of.iter().all(|field| field.kind == column.kind()), "{name}: {joined}");
    }
    // Each row below 100 with values has one partner, since a group is a row of its own.
    let rows: Vec<i32> = (0..100).filter(|n| n % 7 > 0).collect();
    let wanted: Vec<Column> = columns(&rows).into_iter().map(|(_, column)| column).collect();
    let right: Vec<Envelope> =
        envelopes.iter().map(|envelope| Envelope::new(envelope.columns()[9..].to_vec())).collect();
    assert_eq!(found(&right), lines(&wanted));
}

/// The columns whose types SQL has, with all of their values: not `far`, `huge` (beyond bigint), nor nanoseconds.
const OF_SQL: [&str; 9] = ["n", "tiny", "half", "name", "tag", "long", "price", "list", "parts"];

#[test]
fn statements_keep_the_types_of_columns_that_they_pass_on() {
    let names = OF_SQL.join(", ");
    let of = |table: &str| OF_SQL.map(|name| format!("{table}.{name}")).join(", ");
    let before = "box all = all; box f = filter(where: \"n < 500\"); box o = sort(by: \"n\"); box rows = collect;";
    let greatest: Vec<String> = OF_SQL[1..].iter().map(|name| format!("MAX({name}) AS {name}")).collect();
    let join = |kind: &str, table: &str| {
        let columns = of(table);
        format!(
            "box j = join(on: \"a.n = b.n\", kind: \"{kind}\", select: \"{columns}\"); box b = all; f -> j.0; b -> j.1;"
        )
    };
    let texts = [
        format!("box j = aggregate(select: \"{names}\", by: \"{names}\"); f -> j;"),
        format!("box j = aggregate(select: \"n, {}\", by: \"n\"); f -> j;", greatest.join(", ")),
        join("inner", "b"),
        join("left", "a"),
        join("left", "b"),
        format!("box j = sql(text: \"SELECT DISTINCT {names} FROM a UNION SELECT {names} FROM a\"); f -> j;"),
    ];
    let rows: Vec<i32> = (0..500).collect();
    let own = columns(&rows);
    let picked = |name: &str| own.iter().find(|(own, _)| *own == name).unwrap().1.clone();
    let wanted = OF_SQL.map(picked);
    for text in texts {
        let text = format!("{before} {text} all -> f; j -> o -> rows;");
        let (passed, envelopes) = run(&text).unwrap();
        for (field, column) in passed.columns().iter().zip(&wanted) {
            let kind = field.kind.to_string().replace(" or null", "");
            assert_eq!(kind, column.kind().to_string(), "{text}: {passed}");
        }
        assert_eq!(found(&envelopes), lines(&wanted), "{text}");
    }
}

#[test]
fn an_expression_that_cannot_take_a_type_is_told_with_its_place() {
    let text = "box a = all; box m = map(select: \"n, far + 1 AS more\"); box rows = collect; a -> m -> rows;";
    let error = run(text).unwrap_err();
    assert!(error.message.contains("far: it is of the type Decimal(38, -2), which SQL has not here"), "{error}");
    assert_eq!(error.place.offset, text.find("far"), "{error}");
    let text = "box a = all; box f = filter(where: \"n > 3 AND far > 2\"); box rows = collect; a -> f -> rows;";
    let error = run(text).unwrap_err();
    assert!(error.message.contains("which SQL has not here"), "{error}");
    assert_eq!(error.place.offset, text.find("far"), "{error}");
}

#[test]
fn conditions_without_rows_or_with_queries_are_met() {
    let count = |condition: &str| {
        let text = format!("box a = all; box f = filter(where: \"{condition}\"); box rows = collect; a -> f -> rows;");
        let (passed, envelopes) = run(&text).unwrap();
        (passed == schema(), envelopes.iter().map(Envelope::rows).sum::<usize>())
    };
    assert_eq!(count("1 = 2"), (true, 0));
    assert_eq!(count("1 = 1"), (true, ROWS as usize));
    assert_eq!(count("name = 'b' OR name IS NULL").1, (0..ROWS).filter(|n| n % 7 == 0 || n % 4 == 1).count());
}
