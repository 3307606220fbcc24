//! Files written by DuckDB and PyArrow, read as tables: `data/make.py` makes them and prints the answers expected here.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use vicus_flow::sequential;
use vicus_sql::{ColumnRange, PlanOptions, SqlType, StatementLimits, Table, Tables, Value, parse, plan};
use vicus_tables::{CsvOptions, TableError, open, open_as, open_csv, open_until};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The answer of a statement over one table, its values with `|` between them; or its error.
fn ask(name: &str, table: &Arc<dyn Table>, text: &str) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for options in [
        PlanOptions::default(),
        PlanOptions { threads: 4, parallel_rows: 10, envelope_rows: 100, via_envelopes: 1, ..PlanOptions::default() },
    ] {
        let mut tables = Tables::default();
        tables.add(name, Arc::clone(table));
        let parsed = parse(text, &StatementLimits::default()).map_err(|error| error.to_string())?;
        let plan = plan(&parsed, &tables, &options, &|| false).map_err(|error| error.to_string())?;
        // Every column as text.
        let columns = plan.columns().to_vec();
        let (send, receive) = mpsc::channel();
        let mut operators = plan.start();
        operators.push((plan.sinks()[0], plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?))));
        sequential::run(plan.model(), operators, |tasks| tasks / 2).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        for envelope in receive {
            for row in 0..envelope.rows() {
                let value = |(column, (_, kind)): (&vicus_flow::Column, &(String, SqlType))| match kind {
                    _ if column.is_null(row) => "NULL".to_owned(),
                    SqlType::Boolean => column.bools()[row].to_string(),
                    SqlType::BigInt => column.i64s()[row].to_string(),
                    SqlType::Double => format!("{:?}", column.f64s()[row]),
                    SqlType::Varchar => column.text_at(row).to_owned(),
                    kind => panic!("cast the {kind} to varchar"),
                };
                found.push(envelope.columns().iter().zip(&columns).map(value).collect::<Vec<_>>().join("|"));
            }
        }
        if !lines.is_empty() {
            assert_eq!(lines, found, "{text} in other ways");
        }
        lines = found;
    }
    Ok(lines)
}

const SUMS: &str = "SELECT COUNT(*), SUM(id), SUM(seven), SUM(quarter), COUNT(name), CAST(MIN(day) AS VARCHAR), \
                    CAST(MAX(moment) AS VARCHAR), SUM(small), SUM(half) FROM numbers";

/// The sums of the first 300 rows, by DuckDB.
const SUMS_OF_300: &str = "300|44850|897|9000.0|273|2020-01-01|2020-01-01 04:59:00|24850|22425.0";

#[test]
fn parquet_files_of_all_codecs_have_duckdbs_sums() {
    for codec in ["snappy", "gzip", "brotli", "lz4", "uncompressed"] {
        let table = open(data(&format!("numbers-{codec}.parquet"))).unwrap();
        assert_eq!(ask("numbers", &table, SUMS).unwrap(), [SUMS_OF_300], "{codec}");
    }
    let table = open(data("numbers-zstd.parquet")).unwrap();
    assert_eq!((table.rows(), table.parts()), (Some(5000), 3));
    let kinds: Vec<String> = table.columns().iter().map(|column| format!("{} {}", column.name, column.kind)).collect();
    assert_eq!(
        kinds,
        [
            "id bigint",
            "seven bigint",
            "quarter double",
            "name varchar",
            "day date",
            "moment timestamp",
            "third boolean",
            "small bigint",
            "half double"
        ]
    );
    let expected = "5000|12497500|14995|2500000.0|4545|2020-01-01|2020-01-04 11:19:00|497500|6248750.0";
    assert_eq!(ask("numbers", &table, SUMS).unwrap(), [expected]);
    let grouped = "SELECT third, COUNT(*), MIN(name), MAX(quarter) FROM numbers WHERE id BETWEEN 3000 AND 4500 GROUP \
        BY third \
                   ORDER BY third";
    assert_eq!(ask("numbers", &table, grouped).unwrap(), ["false|1000|text 0|1124.75", "true|501|text 0|1124.25"]);
    assert_eq!(ask("numbers", &table, "SELECT id, id FROM numbers WHERE id = 4999").unwrap(), ["4999|4999"]);
    let empty = open(data("empty.parquet")).unwrap();
    assert_eq!(ask("empty", &empty, "SELECT COUNT(*), MAX(id) FROM empty").unwrap(), ["0|NULL"]);
}

#[test]
fn row_groups_outside_of_what_is_asked_for_are_not_read() {
    let table = open(data("numbers-zstd.parquet")).unwrap();
    let read = |column: usize, least: Option<Value>, greatest: Option<Value>| {
        let filters = [ColumnRange { column, least, greatest }];
        let rows = |part: usize| {
            let (mut scan, mut rows) = (table.scan(&[0], part, &filters), 0);
            loop {
                scan.load().unwrap();
                match scan.next(1000).unwrap() {
                    Some(envelope) => rows += envelope.rows(),
                    None => break rows,
                }
            }
        };
        (0..table.parts()).map(rows).collect::<Vec<_>>()
    };
    assert_eq!(read(0, None, None), [2048, 2048, 904]);
    assert_eq!(read(0, Some(Value::BigInt(4096)), None), [0, 0, 904]);
    assert_eq!(read(0, None, Some(Value::BigInt(2047))), [2048, 0, 0]);
    assert_eq!(read(0, Some(Value::BigInt(2048)), Some(Value::BigInt(2048))), [0, 2048, 0]);
    assert_eq!(read(0, Some(Value::BigInt(5000)), None), [0, 0, 0]);
    assert_eq!(read(3, Some(Value::Varchar("u".into())), None), [0, 0, 0], "all texts begin with t");
    assert_eq!(read(4, None, Some(Value::Date(18_261))), [0, 0, 0], "2019-12-31");
    assert_eq!(read(6, Some(Value::Boolean(true)), None), [2048, 2048, 904]);
    assert_eq!(read(7, Some(Value::BigInt(1000)), None), [2048, 2048, 904], "of unsigned integers nothing is known");
}

#[test]
fn arrow_files_and_streams_have_the_same_rows() {
    for (name, parts) in
        [("numbers.arrow", 3), ("numbers-lz4.arrow", 3), ("numbers-zstd.arrow", 3), ("numbers.arrows", 1)]
    {
        let table = open(data(name)).unwrap();
        assert_eq!(table.parts(), parts, "{name}");
        assert_eq!(ask("numbers", &table, SUMS).unwrap(), [SUMS_OF_300], "{name}");
        assert_eq!(ask("numbers", &table, "SELECT COUNT(*) FROM numbers").unwrap(), ["300"], "{name}");
    }
    let units = open(data("units.arrow")).unwrap();
    let text = "SELECT CAST(s AS VARCHAR), CAST(ms AS VARCHAR), CAST(ns AS VARCHAR), CAST(d64 AS VARCHAR), large, \
        view, u64, i8, \
                none FROM units";
    let expected = [
        "2024-02-29 12:30:15|2024-02-29 12:30:15.25+00|1969-12-31 23:59:59.999999|2024-02-29|é|a long text in a view|\
         9223372036854775807|-128|NULL",
        "NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
    ];
    assert_eq!(ask("units", &units, text).unwrap(), expected);
}

/// A file in a folder of its own, removed with it.
struct Written(PathBuf);

impl Written {
    fn new(name: &str, bytes: impl AsRef<[u8]>) -> Written {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("vicus-tables-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        Written(path)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

#[test]
fn csv_columns_have_the_types_of_their_first_values() {
    let text = "n,x,ok,day,at,name,\"a, b\"\n\
                1,1.5,true,2024-02-29,2024-02-29 12:30:15,Ada,\"a \"\"quoted\"\" text\"\n\
                2,-3,false,1969-12-31,1969-12-31T23:59:59,,\"two\nlines\"\n\
                ,,,,,é,";
    let file = Written::new("all.csv", text);
    let table = open(&file.0).unwrap();
    let kinds: Vec<SqlType> = table.columns().iter().map(|column| column.kind.clone()).collect();
    use SqlType::{BigInt, Boolean, Date, Double, Timestamp, Varchar};
    assert_eq!(kinds, [BigInt, Double, Boolean, Date, Timestamp, Varchar, Varchar]);
    let found = ask(
        "t",
        &table,
        "SELECT n, x, ok, CAST(day AS VARCHAR), CAST(at AS VARCHAR), name, \"a, b\" FROM t ORDER BY n",
    );
    assert_eq!(
        found.unwrap(),
        [
            "1|1.5|true|2024-02-29|2024-02-29 12:30:15|Ada|a \"quoted\" text",
            "2|-3.0|false|1969-12-31|1969-12-31 23:59:59|NULL|two\nlines",
            "NULL|NULL|NULL|NULL|NULL|é|NULL"
        ]
    );
    assert_eq!(ask("t", &table, "SELECT COUNT(*) FROM t").unwrap(), ["3"]);

    let tabs = Written::new("tabs.tsv", "a\tb\n1\tx,y\n");
    assert_eq!(ask("t", &open(&tabs.0).unwrap(), "SELECT a + 1, b FROM t").unwrap(), ["2|x,y"]);
    let options = CsvOptions { header: false, delimiter: b';', ..CsvOptions::default() };
    let bare = Written::new("bare.csv", "1;x\n2;y\n");
    let table = open_csv(&bare.0, &options).unwrap();
    assert_eq!(ask("t", &table, "SELECT SUM(column_1), MAX(column_2) FROM t").unwrap(), ["3|y"]);
}

#[test]
fn long_csv_files_are_read_in_blocks() {
    let rows = 60_000u64;
    let mut text = "id,name\n".to_owned();
    (0..rows).for_each(|row| text.push_str(&format!("{row},name {row}\n")));
    let file = Written::new("long.csv", &text);
    let table = open(&file.0).unwrap();
    let about = table.rows().unwrap();
    assert!((50_000..90_000).contains(&about), "{about} rows are expected");
    let found = ask("t", &table, "SELECT COUNT(*), SUM(id), MAX(LENGTH(name)) FROM t").unwrap();
    assert_eq!(found, [format!("{rows}|{}|10", rows * (rows - 1) / 2)]);
    assert_eq!(ask("t", &table, "SELECT name FROM t WHERE id = 59999").unwrap(), ["name 59999"]);
    assert_eq!(ask("t", &table, "SELECT COUNT(*) FROM (SELECT id FROM t LIMIT 5) AS s").unwrap(), ["5"]);
}

/// What happened: the first 200,000 rows of a file were read for the types of its columns, without a question.
#[test]
fn reading_the_first_rows_of_a_csv_file_asks_whether_it_is_to_end() {
    let rows: String = (0..100_000).map(|row| format!("{row},text number {row}\n")).collect();
    let one_row = "a".repeat(2 << 20);
    for (name, text) in [("rows.csv", format!("id,text\n{rows}")), ("row.csv", one_row)] {
        let file = Written::new(name, &text);
        let asked = Cell::new(0);
        let asks = |most: usize| {
            asked.set(0);
            let ends = || asked.replace(asked.get() + 1) >= most;
            open_until(&file.0, BTreeMap::new(), &ends).map(drop)
        };
        asks(usize::MAX).unwrap();
        assert!(asked.get() >= text.len() >> 18, "{} questions", asked.get());
        for most in [0, 1, 5] {
            let error = asks(most).unwrap_err();
            assert!(matches!(error, TableError::Stopped { .. }), "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

#[test]
fn a_later_csv_value_of_another_type_is_an_error_with_line_and_column() {
    let mut text = "id,price\n".to_owned();
    (0..20).for_each(|row| text.push_str(&format!("{row},{row}.5\n")));
    text.push_str("20,cheap\n");
    let file = Written::new("mixed.csv", &text);
    let table = open_csv(&file.0, &CsvOptions { inferred_rows: 10, ..CsvOptions::default() }).unwrap();
    let error = ask("t", &table, "SELECT SUM(price) FROM t").unwrap_err();
    let expected = "mixed.csv: line 22, column price: 'cheap' is no double, as the first rows of the column are";
    assert!(error.contains("table t: ") && error.contains(expected), "{error}");
    let types = BTreeMap::from([("price".to_owned(), SqlType::Varchar)]);
    let table = open_as(&file.0, types).unwrap();
    assert_eq!(ask("t", &table, "SELECT MAX(price), SUM(id) FROM t").unwrap(), ["cheap|210"]);
    let error = open_as(&file.0, BTreeMap::from([("cost".to_owned(), SqlType::Varchar)])).err().unwrap().to_string();
    assert!(error.contains("it has no column cost") && error.contains("id, price"), "{error}");
    assert_eq!(ask("t", &table, "SELECT SUM(id) FROM t").unwrap(), ["210"], "other columns can be read");
    let short = Written::new("short.csv", "a,b\n1,2\n3\n");
    let error = open(&short.0).err().expect("a value is missing").to_string();
    assert!(error.contains("is not a whole CSV file") && error.contains("line 3"), "{error}");
}

/// What happened: types come from the first rows, and further down `0870` was read as 870, without a word.
#[test]
fn a_later_csv_number_that_would_lose_its_zeros_or_sign_is_an_error() {
    const FIRST: usize = 100;
    let options = || CsvOptions { inferred_rows: FIRST, ..CsvOptions::default() };
    let line = |row: usize| format!("{row},{row}.5,name {row}\n");
    // In the batch of the first rows, and in a later block.
    for rows in [FIRST, 60_000] {
        let start = "id,price,name\n".to_owned() + &(0..rows).map(line).collect::<String>();
        for (last, column, value, kind) in [
            ("0870,1.5,x", "id", "0870", "bigint"),
            ("+49123,1.5,x", "id", "+49123", "bigint"),
            ("-007,1.5,x", "id", "-007", "bigint"),
            ("\"0870\",1.5,x", "id", "0870", "bigint"),
            ("1,007.50,x", "price", "007.50", "double"),
            ("1,+1.5,x", "price", "+1.5", "double"),
            ("1,-01e5,x", "price", "-01e5", "double"),
        ] {
            let file = Written::new("late.csv", start.clone() + last + "\n" + &line(7));
            let table = open_csv(&file.0, &options()).unwrap();
            let error = ask("t", &table, &format!("SELECT MAX({column}) FROM t")).unwrap_err();
            let line = rows + 2;
            let expected = format!(
                "late.csv: line {line}, column {column}: '{value}' would lose its zeros or its sign as a {kind}, the \
                 type of the column's first rows; as varchar all of it can be read (--table-types)"
            );
            assert!(error.contains(&expected), "{error}");
            // Other columns can be read, and this one, if its type is given.
            assert_eq!(ask("t", &table, "SELECT COUNT(name) FROM t").unwrap(), [(rows + 2).to_string()]);
            let kind = if kind == "bigint" { SqlType::BigInt } else { SqlType::Double };
            let types = BTreeMap::from([(column.to_owned(), kind)]);
            let given = open_csv(&file.0, &CsvOptions { types, ..options() }).unwrap();
            assert!(ask("t", &given, &format!("SELECT MAX({column}) FROM t")).is_ok(), "{last}");
            let types = BTreeMap::from([(column.to_owned(), SqlType::Varchar)]);
            let given = open_csv(&file.0, &CsvOptions { types, ..options() }).unwrap();
            let found = ask("t", &given, &format!("SELECT COUNT(*) FROM t WHERE {column} = '{value}'")).unwrap();
            assert_eq!(found, ["1"], "{last}");
        }
        // The same signs in texts change nothing, and faults behind them are told with their lines.
        let texts = start.clone()
            + "1,0.5,+49123\n2,-0.25,\"a,0870\nb\"\n,,0870\n-3,1e3,x\n4,NaN,07:30\n"
            + &(0..rows).map(line).collect::<String>();
        let file = Written::new("texts.csv", &texts);
        let table = open_csv(&file.0, &options()).unwrap();
        let found = ask("t", &table, "SELECT COUNT(*), COUNT(id), SUM(id) FROM t").unwrap();
        assert_eq!(found, [format!("{}|{}|{}", 2 * rows + 5, 2 * rows + 4, rows * (rows - 1) + 4)]);
        let found = ask("t", &table, "SELECT id, price FROM t WHERE price < 0 OR price = 1000").unwrap();
        assert_eq!(found, ["2|-0.25", "-3|1000.0"]);
        assert_eq!(ask("t", &table, "SELECT id FROM t WHERE name = '0870'").unwrap(), ["NULL"]);
        let line = 2 * rows + 7;
        for (last, statement, expected) in [
            ("x,1,y", "SELECT SUM(id) FROM t", format!("line {line}, column id: 'x' is no bigint, as the first rows")),
            ("1.5,1,y", "SELECT SUM(id) FROM t", format!("line {line}, column id: '1.5' is no bigint, as the first")),
            ("1,0x1,y", "SELECT SUM(price) FROM t", format!("line {line}, column price: '0x1' is no double, as the")),
            ("1,2", "SELECT SUM(id) FROM t", format!("for line {line}, expected 3 got 2")),
        ] {
            let file = Written::new("fault.csv", texts.clone() + last + "\n");
            let table = open_csv(&file.0, &options()).unwrap();
            let error = ask("t", &table, statement).unwrap_err();
            assert!(error.contains(&expected), "{error} instead of {expected}");
        }
    }
}

/// What happened: a batch had 4096 rows, however long they were, and nothing told of their bytes.
#[test]
fn long_csv_rows_are_read_a_few_at_a_time() {
    const ROWS: usize = 400;
    const MOST: usize = 4 << 20;
    for (name, quote, end) in [("long.csv", "", "\n"), ("quoted.csv", "\"", "\r\n")] {
        let mut text = format!("id,text{end}");
        (0..ROWS).for_each(|row| text += &format!("{row},{quote}{}{quote}{end}", "x".repeat(60_000 + row)));
        let file = Written::new(name, &text);
        let table = open(&file.0).unwrap();
        for columns in [&[0, 1][..], &[1], &[0]] {
            let (mut scan, mut rows, mut bytes) = (table.scan(columns, 0, &[]), 0, 0);
            loop {
                scan.load().unwrap();
                let held = scan.held_bytes() as usize;
                assert!(held < 2 * MOST, "{held} bytes are held");
                let Some(piece) = scan.next(4096).unwrap() else { break };
                rows += piece.rows();
                assert!((piece.held_bytes() as usize) < MOST, "{} bytes at once", piece.held_bytes());
                if let Some(column) = piece.columns().iter().find(|column| column.kind() == vicus_flow::Type::Text) {
                    bytes += (0..piece.rows()).map(|row| column.text_at(row).len()).sum::<usize>();
                }
            }
            let all = if columns.contains(&1) { 60_000 * ROWS + ROWS * (ROWS - 1) / 2 } else { 0 };
            assert_eq!((rows, bytes), (ROWS, all), "{name} {columns:?}");
        }
    }
}

/// Lists and structs are JSON there, strings of bytes hexadecimal digits.
#[test]
fn csv_has_columns_of_lists_structs_spans_and_bytes() {
    let file = Written::new(
        "nested.csv",
        b"id,sizes,box,takes,raw,price\n1,\"[1, null]\",\"{\"\"w\"\": 2.5}\",26:00:00,00ff,1.5\n2,,,,,\n",
    );
    let named = |name: &str| SqlType::named(name).unwrap();
    let types = [
        ("sizes", "bigint[]"),
        ("box", "struct(w double, name varchar)"),
        ("takes", "interval"),
        ("raw", "blob"),
        ("price", "decimal(9,2)"),
    ];
    let given = |wrong: Option<(&str, &str)>| {
        let all = types.into_iter().chain(wrong).map(|(name, kind)| (name.to_owned(), named(kind)));
        open_csv(&file.0, &CsvOptions { types: all.collect(), ..CsvOptions::default() }).unwrap()
    };
    let table = given(None);
    assert_eq!(table.columns()[2].kind, named("struct(w double, name varchar)"));
    let parts = "SELECT id, sizes[1], LENGTH(sizes), box.w, box.name, CAST(takes AS VARCHAR), \
                 CAST(raw AS VARCHAR), CAST(price AS VARCHAR) FROM t ORDER BY id";
    assert_eq!(
        ask("t", &table, parts).unwrap(),
        ["1|1|2|2.5|NULL|26:00:00|\\x00\\xFF|1.50", "2|NULL|NULL|NULL|NULL|NULL|NULL|NULL"]
    );
    let error = ask("t", &given(Some(("takes", "double[]"))), "SELECT takes FROM t").unwrap_err();
    assert!(error.contains("line 2, column takes: '26:00:00' is no double[]"), "{error}");
}

/// Decimals and lists of files that PyArrow has written; expected values by DuckDB.
#[test]
fn decimals_and_lists_of_parquet_are_columns() {
    let decimals = open(data("decimal.parquet")).unwrap();
    assert_eq!(decimals.columns()[1].kind, SqlType::Decimal { precision: 15, scale: 2 });
    let sums = "SELECT COUNT(*), CAST(SUM(price) AS VARCHAR), CAST(MIN(price * 3) AS VARCHAR) FROM t";
    assert_eq!(ask("t", &decimals, sums).unwrap(), ["2|1.50|4.50"]);
    assert_eq!(ask("t", &decimals, "SELECT id FROM t WHERE price > 1").unwrap(), ["1"]);
    assert_eq!(ask("t", &decimals, "SELECT id FROM t WHERE price > 1.5").unwrap(), Vec::<String>::new());
    let lists = open(data("nested.parquet")).unwrap();
    assert_eq!(lists.columns()[1].kind.to_string(), "bigint[]");
    let parts = "SELECT LENGTH(list), list[2], CAST(list AS VARCHAR), list = [1, 2] FROM t";
    assert_eq!(ask("t", &lists, parts).unwrap(), ["2|2|[1, 2]|true"]);
    assert_eq!(ask("t", &lists, "SELECT COUNT(DISTINCT list) FROM t AS t").unwrap(), ["1"]);
}

/// What happened: a column of another type made the whole table unreadable. An Arrow file and an Arrow stream have
/// columns of types that are unknown here, beside others.
#[test]
fn a_column_of_an_unknown_type_in_arrow_spoils_only_statements_that_use_it() {
    use arrow_array::{ArrayRef, BinaryArray, FixedSizeBinaryArray, Int64Array, RecordBatch, StringArray};
    use arrow_array::{DurationSecondArray, IntervalDayTimeArray, NullArray, StructArray, Time64MicrosecondArray};
    use arrow_schema::{DataType, Field};
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let part = Arc::new(Field::new("part", DataType::Int64, false));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::clone(&ids)),
        ("moment", Arc::new(Time64MicrosecondArray::from(vec![1, 2, 3]))),
        ("bytes", Arc::new(BinaryArray::from(vec![&b"a"[..], b"", b"\xff"]))),
        ("fixed", Arc::new(FixedSizeBinaryArray::try_from_iter([[1_u8; 4], [2; 4], [3; 4]].into_iter()).unwrap())),
        ("long", Arc::new(DurationSecondArray::from(vec![1, 2, 3]))),
        ("between", Arc::new(IntervalDayTimeArray::from(vec![None, None, None]))),
        ("parts", Arc::new(StructArray::from(vec![(part, ids)]))),
        ("nothing", Arc::new(NullArray::new(3))),
        ("name", Arc::new(StringArray::from(vec!["a", "b", "c"]))),
    ];
    let unknown: Vec<&str> =
        columns.iter().map(|(name, _)| *name).filter(|name| !["id", "name"].contains(name)).collect();
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut whole = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    for _ in 0..2 {
        whole.write(&batch).unwrap();
        stream.write(&batch).unwrap();
    }
    let (whole, stream) = (whole.into_inner().unwrap(), stream.into_inner().unwrap());
    for (name, bytes) in [("unknown.arrow", whole), ("unknown.arrows", stream)] {
        let file = Written::new(name, bytes);
        let table = open(&file.0).unwrap();
        assert_eq!(ask("t", &table, "SELECT COUNT(*), SUM(id), MAX(name) FROM t").unwrap(), ["6|12|c"], "{name}");
        let known = "SELECT CAST(moment AS VARCHAR), LENGTH(bytes), CAST(fixed AS VARCHAR), CAST(long AS VARCHAR), \
                     parts.part, nothing FROM t ORDER BY id LIMIT 1";
        let told = r"00:00:00.000001|1|\x01\x01\x01\x01|00:00:01|1|NULL";
        assert_eq!(ask("t", &table, known).unwrap(), [told], "{name}");
        for column in &unknown {
            let is_known = table.columns().iter().any(|one| one.name == *column && one.unreadable.is_none());
            for statement in [format!("SELECT {column} FROM t"), format!("SELECT id FROM t WHERE {column} IS NULL")] {
                // Such rows as text have a cast.
                let statement = statement.replace("SELECT ", "SELECT COUNT(*) FROM (SELECT ") + ") AS all_rows";
                match ask("t", &table, &statement) {
                    Err(error) => assert!(error.contains(&format!("t: column {column}: it is of the type")), "{error}"),
                    Ok(_) => assert!(is_known, "{statement}"),
                }
            }
        }
        assert!(ask("t", &table, "SELECT * FROM t").is_err());
    }
}

/// What happened: a postal code lost its zero and a telephone number its sign, a number beyond 64 bits made texts of a
/// column, and all rows behind a quotation mark that was never closed were one value.
#[test]
fn csv_values_are_what_was_written() {
    let text = "zip,tel,big\n0870,+4912345,1\n1234,5,9223372036854775808\n";
    let file = Written::new("written.csv", text);
    let table = open(&file.0).unwrap();
    let kinds: Vec<SqlType> = table.columns().iter().map(|column| column.kind.clone()).collect();
    assert_eq!(kinds, [SqlType::Varchar, SqlType::Varchar, SqlType::Double]);
    assert_eq!(ask("t", &table, "SELECT zip, tel FROM t ORDER BY zip").unwrap(), ["0870|+4912345", "1234|5"]);
    assert_eq!(ask("t", &table, "SELECT SUM(big) > 9e18 FROM t").unwrap(), ["true"]);
    // A later row than the first ten thousand tells, too.
    let mut text = "zip\n".to_owned();
    (0..30_000).for_each(|row| text.push_str(&format!("{}\n", 10_000 + row)));
    text.push_str("0870\n");
    let file = Written::new("late.csv", &text);
    assert_eq!(open(&file.0).unwrap().columns()[0].kind, SqlType::Varchar);
    let open_mark = Written::new("mark.csv", "a,b\n1,x\n2,\"y\n3,z\n");
    let error = open(&open_mark.0).err().expect("a mark is open").to_string();
    assert!(error.contains("mark.csv") && error.contains("line 3: a quotation mark"), "{error}");
    let mut text = "a,b\n".to_owned();
    (0..20).for_each(|row| text.push_str(&format!("{row},\"x\"\n")));
    text.push_str("20,\"x\n21,x\n");
    let file = Written::new("late-mark.csv", &text);
    let error = match open_csv(&file.0, &CsvOptions { inferred_rows: 5, ..CsvOptions::default() }) {
        Err(error) => error.to_string(),
        Ok(table) => ask("t", &table, "SELECT COUNT(*) FROM t").unwrap_err(),
    };
    assert!(error.contains("line 22: a quotation mark"), "{error}");
}

/// What happened: a mark that programs for tables write before a file became a part of the first column's name.
#[test]
fn a_byte_order_mark_is_no_part_of_a_csv_file() {
    for (name, text) in [
        ("marked.csv", "\u{FEFF}id,name\n1,x\n2,y\n"),
        ("quoted.csv", "\u{FEFF}\"id\",\"name\"\r\n1,x\r\n2,y\r\n"),
        ("marked.tsv", "\u{FEFF}id\tname\n1\tx\n2\ty\n"),
    ] {
        let file = Written::new(name, text);
        let table = open(&file.0).unwrap();
        let names: Vec<&str> = table.columns().iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["id", "name"], "{name}");
        assert_eq!(ask("t", &table, "SELECT SUM(id), MAX(name) FROM t").unwrap(), ["3|y"], "{name}");
    }
    // Without a header, the first value is a number.
    let file = Written::new("bare.csv", "\u{FEFF}1,x\n2,y\n");
    let table = open_csv(&file.0, &CsvOptions { header: false, ..CsvOptions::default() }).unwrap();
    assert_eq!(table.columns()[0].kind, SqlType::BigInt);
    assert_eq!(ask("t", &table, "SELECT SUM(column_1), COUNT(*) FROM t").unwrap(), ["3|2"]);
    // Within the file it is text.
    let file = Written::new("within.csv", "id,name\n1,\u{FEFF}x\n");
    assert_eq!(ask("t", &open(&file.0).unwrap(), "SELECT LENGTH(name) FROM t").unwrap(), ["2"]);
}

#[test]
fn files_that_are_no_tables_are_refused_with_the_reason() {
    let error = |path: &Path| open(path).err().unwrap_or_else(|| panic!("{} is no table", path.display()));
    let missing = error(Path::new("/no/such/file.parquet"));
    assert!(matches!(&missing, TableError::Io { error, .. } if error.kind() == std::io::ErrorKind::NotFound));
    assert!(matches!(error(&data("make.py")), TableError::UnknownEnding { .. }));
    let text = Written::new("text.parquet", "this is no Parquet file at all");
    assert!(error(&text.0).to_string().ends_with("is not a whole Parquet file: it does not begin with PAR1"));
    let whole = std::fs::read(data("numbers-zstd.parquet")).unwrap();
    for length in [0, 3, 20, whole.len() / 2, whole.len() - 1] {
        let cut = Written::new("cut.parquet", &whole[..length]);
        assert!(matches!(error(&cut.0), TableError::Format { format: "Parquet", .. }), "{length} bytes");
    }
    let arrow = std::fs::read(data("numbers.arrow")).unwrap();
    for length in [0, 5, 20, arrow.len() / 2, arrow.len() - 1] {
        let cut = Written::new("cut.arrow", &arrow[..length]);
        assert!(matches!(error(&cut.0), TableError::Format { format: "Arrow", .. }), "{length} bytes");
    }
    assert!(error(&Written::new("empty.csv", "").0).to_string().contains("it is empty"));
}

/// What happened in other readers: a damaged file ended the process. Here its request fails, or its rows are others.
#[test]
fn damaged_bytes_fail_a_request_and_nothing_else() {
    let whole = std::fs::read(data("numbers-snappy.parquet")).unwrap();
    let arrow = std::fs::read(data("numbers.arrow")).unwrap();
    let (mut state, mut refused) = (7u64, 0);
    let mut below = |count: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % count
    };
    for round in 0..300 {
        let (name, bytes) = if round % 2 == 0 { ("damaged.parquet", &whole) } else { ("damaged.arrow", &arrow) };
        let mut bytes = bytes.clone();
        for _ in 0..1 + below(8) {
            let at = below(bytes.len());
            bytes[at] = below(256) as u8;
        }
        let file = Written::new(name, &bytes);
        // A panic of the decoder would be the request's error; one while the file is opened would be ours.
        let outcome = open(&file.0).map_err(|error| error.to_string()).and_then(|table| {
            ask("numbers", &table, "SELECT * FROM (SELECT COUNT(name), SUM(id), COUNT(day) FROM numbers) AS t")
        });
        // What happened: a reader's panic was told as a mistake of ours, without the file.
        if let Err(error) = outcome {
            // Or numbers are others, and their sum is too great.
            assert!(error.contains(name) || error.contains("the sum"), "{error}");
            assert!(!error.contains("panicked"), "{error}");
            refused += 1;
        }
    }
    assert!(refused > 100, "{refused}");
    println!("{refused} of 300 were refused");
}

/// What happened: the decoder asked for the memory that a packed buffer said it needs, and the process ended.
#[test]
fn packed_buffers_of_impossible_sizes_are_refused() {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
    const ROWS: i64 = 9_999;
    let column = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row % 7))) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("id", column)]).unwrap();
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = || IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap();
        let mut file = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options()).unwrap();
        let mut stream = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options()).unwrap();
        for _ in 0..2 {
            file.write(&batch).unwrap();
            stream.write(&batch).unwrap();
        }
        for (name, whole) in [("p.arrow", file.into_inner().unwrap()), ("p.arrows", stream.into_inner().unwrap())] {
            let sum = "SELECT COUNT(*), SUM(id) FROM t";
            let written = Written::new(name, &whole);
            // 1428 sevens of 0 to 6, and 0, 1, 2; twice.
            assert_eq!(ask("t", &open(&written.0).unwrap(), sum).unwrap(), ["19998|59982"], "{codec:?} {name}");
            // Its bytes are told of before it is unpacked.
            let table = open(&written.0).unwrap();
            let mut scan = table.scan(&[0], 0, &[]);
            scan.load().unwrap();
            assert!(scan.held_bytes() >= 8 * ROWS as u64, "{} bytes", scan.held_bytes());
            assert_eq!(scan.next(1000).unwrap().map(|rows| rows.rows()), Some(0));
            scan.load().unwrap();
            assert_eq!(scan.next(1000).unwrap().map(|rows| rows.rows()), Some(1000));
            // In the last batch.
            let said = (8 * ROWS).to_le_bytes();
            let at = whole.windows(8).rposition(|bytes| bytes == said).unwrap();
            for size in [i64::MAX, i64::MIN, -2, 1 << 54, 1 << 40, (2 << 30) + 1, 2 << 30] {
                let mut bytes = whole.clone();
                bytes[at..at + 8].copy_from_slice(&size.to_le_bytes());
                let written = Written::new(name, &bytes);
                let error = ask("t", &open(&written.0).unwrap(), sum).unwrap_err();
                let told = error.contains(name) && error.contains("can't have the size");
                assert!(told && error.contains("record batch"), "{codec:?} {name} {size}: {error}");
            }
        }
    }
    for name in ["numbers-zstd.arrow", "numbers-lz4.arrow"] {
        let whole = std::fs::read(data(name)).unwrap();
        for step in 2..40 {
            let mut bytes = whole.clone();
            let end = bytes.len() - 6;
            bytes[8..end].iter_mut().step_by(step).for_each(|byte| *byte ^= 0x2a);
            let written = Written::new(name, &bytes);
            let outcome = open(&written.0)
                .map_err(|error| error.to_string())
                .and_then(|table| ask("numbers", &table, "SELECT COUNT(name), MIN(id), COUNT(day) FROM numbers"));
            assert!(outcome.is_err_and(|error| error.contains(name)), "every {step}th byte of {name}");
        }
        // Random bytes at random places, the last of each file among them.
        let mut state = 9u64;
        for _ in 0..200 {
            let mut bytes = whole.clone();
            for _ in 0..20 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 25) as u8;
            }
            let written = Written::new(name, &bytes);
            if let Ok(table) = open(&written.0) {
                let _ = ask("numbers", &table, "SELECT COUNT(name), MIN(id), COUNT(day) FROM numbers");
            }
        }
    }
}

/// What happened: a file that was cut at a line's end under an open table gave fewer rows, without an error.
#[test]
fn a_file_that_was_changed_after_it_was_opened_is_an_error() {
    use std::io::Write;
    let csv: String = "id,name\n".to_owned() + &(0..50_000).map(|id| format!("{id},name {id}\n")).collect::<String>();
    let other: String = csv.replace("name 7\n", "name 8\n");
    assert_eq!(csv.len(), other.len());
    let cut = csv[..csv.len() / 2].rfind('\n').unwrap() + 1;
    let (parquet, arrow) = (data("numbers-snappy.parquet"), data("numbers.arrow"));
    let (parquet, arrow) = (std::fs::read(parquet).unwrap(), std::fs::read(arrow).unwrap());
    let stream = std::fs::read(data("numbers.arrows")).unwrap();
    let cases: [(&str, &[u8], &[u8]); 9] = [
        ("t.csv", csv.as_bytes(), &csv.as_bytes()[..cut]),
        ("t.csv", csv.as_bytes(), b""),
        ("t.csv", csv.as_bytes(), &[csv.as_bytes(), b"50000,name 50000\n"].concat()),
        ("t.csv", csv.as_bytes(), other.as_bytes()),
        ("t.parquet", &parquet, &std::fs::read(data("numbers-zstd.parquet")).unwrap()),
        ("t.parquet", &parquet, &parquet[..parquet.len() / 2]),
        ("t.parquet", &parquet, &vec![0; parquet.len()]),
        ("t.arrow", &arrow, &arrow[..arrow.len() / 2]),
        ("t.arrows", &stream, &stream[..stream.len() / 2]),
    ];
    for (name, before, after) in cases {
        let file = Written::new(name, before);
        // A clock of the file system may go in steps, so a change soon after the opening could have its time.
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
        let open_file = std::fs::File::options().write(true).open(&file.0).unwrap();
        open_file.set_modified(long_ago).unwrap();
        let table = open(&file.0).unwrap();
        let all = ask("t", &table, "SELECT COUNT(*), COUNT(name), MIN(id) FROM t").unwrap();
        // The same file, in place.
        open_file.set_len(0).unwrap();
        (&open_file).write_all(after).unwrap();
        for text in [
            "SELECT COUNT(*), COUNT(name), MIN(id) FROM t",
            "SELECT name FROM t WHERE id = 7",
            "SELECT COUNT(*) FROM t WHERE id > 1000000",
        ] {
            let error = ask("t", &table, text).expect_err("the file has changed");
            let says = format!("the file was changed after it was opened: it had {} bytes", before.len());
            assert!(error.contains(name) && error.contains(&says), "{text}: {error}");
        }
        assert_ne!(all[0], "0|0|NULL");
        // A table that is opened now has the file's new rows, if it is a whole one.
        if let Ok(table) = open(&file.0) {
            println!("{name}: {:?}", ask("t", &table, "SELECT COUNT(*) FROM t"));
        }
        // A file that takes its place is another one, and the table keeps its own.
        let file = Written::new(name, before);
        let table = open(&file.0).unwrap();
        let beside = file.0.with_file_name("beside");
        std::fs::write(&beside, after).unwrap();
        std::fs::rename(&beside, &file.0).unwrap();
        assert_eq!(ask("t", &table, "SELECT COUNT(*), COUNT(name), MIN(id) FROM t").unwrap(), all);
    }
}

/// A file of `rows` rows: a number, its remainder by 1000, and a text.
fn many(rows: u64) -> Written {
    let mut text = "id,remainder,name\n".to_owned();
    (0..rows).for_each(|row| text.push_str(&format!("{row},{},name {}\n", row % 1000, row % 77)));
    Written::new("many.csv", &text)
}

/// Runs a statement over the file on threads; the rows of its answer, or its error.
fn on_threads(file: &Written, text: &str, budget: u64) -> Result<u64, String> {
    let mut tables = Tables::default();
    tables.add("many", open(&file.0).unwrap());
    tables.add("numbers", open(data("numbers-zstd.parquet")).unwrap());
    let options = PlanOptions { threads: 4, parallel_rows: 1000, sinks: 2, ..PlanOptions::default() };
    let parsed = parse(text, &StatementLimits::default()).unwrap();
    let plan = plan(&parsed, &tables, &options, &|| false).unwrap();
    let rows = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut operators = plan.start();
    for &sink in plan.sinks() {
        let rows = Arc::clone(&rows);
        let count = move |envelope: &vicus_flow::Envelope| {
            rows.fetch_add(envelope.rows() as u64, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        };
        operators.push((sink, plan.sink_operator(count)));
    }
    let runtime = vicus::Runtime::builder().start();
    let request = runtime.submit_within(plan.model(), operators, budget);
    request.wait().map_err(|error| error.to_string())?;
    Ok(rows.load(std::sync::atomic::Ordering::Relaxed))
}

#[test]
fn statements_run_on_threads_within_their_budget() {
    // The held rows are far above the budget below, and the scans' rows far less.
    let file = many(200_000);
    let join = "SELECT a.id, b.name FROM many a JOIN many b ON a.id = b.id WHERE a.remainder < 500";
    assert_eq!(on_threads(&file, join, u64::MAX), Ok(100_000));
    let groups = "SELECT id, remainder, COUNT(*), MAX(name) FROM many GROUP BY id, remainder";
    assert_eq!(on_threads(&file, groups, u64::MAX), Ok(200_000));
    let mixed = "SELECT n.seven, COUNT(DISTINCT m.name) FROM numbers n, many m WHERE n.id = m.remainder GROUP BY \
        n.seven ORDER BY 1";
    assert_eq!(on_threads(&file, mixed, u64::MAX), Ok(7));
    for (text, name) in [(join, "build"), (groups, "aggregate"), ("SELECT * FROM many ORDER BY name, id", "sort")] {
        let error = on_threads(&file, text, 2_000_000).unwrap_err();
        assert!(error.contains("more than 1.9 MiB is needed") && error.contains(name), "{text}: {error}");
    }
    // A few rows are enough, so the file is not read to its end, and little is held.
    assert_eq!(on_threads(&file, "SELECT id FROM many LIMIT 10", 3_000_000), Ok(10));
}

/// What happened: a hundred thousand groups within each other, 600 KB of a footer, ended the process.
#[test]
fn parquet_columns_within_each_other_are_refused() {
    for levels in [2, 99, 101, 100_000] {
        // The version; the schema: groups of one child each (repetition, name, number of children), and a column (type,
        // repetition, name).
        let mut footer = vec![0x15, 2, 0x19, 0xfc];
        let mut count = levels + 1;
        while count >= 128 {
            footer.push(count as u8 | 128);
            count >>= 7;
        }
        footer.push(count as u8);
        (0..levels).for_each(|_| footer.extend([0x35, 0, 0x18, 1, b'a', 0x15, 2, 0]));
        footer.extend([0x15, 2, 0x25, 0, 0x18, 1, b'b', 0]);
        // No rows, and no row groups.
        footer.extend([0x16, 0, 0x19, 0x0c, 0]);
        let bytes = [&b"PAR1"[..], &footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat();
        let path = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(format!("deep-{levels}.parquet"));
        std::fs::write(&path, bytes).unwrap();
        // A column of groups is one of an unknown type, refused only by a statement that uses it.
        let error = open(&path).err().map(|error| error.to_string());
        assert_eq!(error.is_some(), levels > 100, "{levels}: {error:?}");
        assert!(error.is_none_or(|error| error.contains("within each other")));
    }
}

/// What happened: the decoder had room for 4096 rows of all columns, a gigabyte of 10,000 columns, and a file of
/// 100,000 columns and three rows took minutes.
#[test]
fn a_file_of_very_many_columns_is_read_a_few_rows_at_a_time_or_refused() {
    let folder = std::env::temp_dir().join(format!("vicus-tables-wide-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let wide = |columns: usize, rows: usize| {
        let line = |value: &dyn Fn(usize) -> String| (0..columns).map(value).collect::<Vec<_>>().join(",") + "\n";
        let mut text = line(&|column| format!("c{column}"));
        (0..rows).for_each(|row| text += &line(&|column| (column + row).to_string()));
        let path = folder.join(format!("{columns}.csv"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let table = open(wide(16_384, 100)).unwrap();
    assert_eq!(table.columns().len(), 16_384);
    let sums = ask("t", &table, "SELECT COUNT(*), SUM(c0), SUM(c16383), MAX(c7) FROM t").unwrap();
    assert_eq!(sums, [format!("100|{}|{}|106", 99 * 50, 16_383 * 100 + 99 * 50)]);
    let held = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = held.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    // The room alone was 512 MiB, and the other tests of this process take little.
    assert!(peak < 400 << 10, "{peak} kB at most");
    for columns in [16_385, 300_000] {
        let error = open(wide(columns, 1)).err().expect("there are too many columns").to_string();
        assert!(error.contains(&format!("it has {columns} columns, and at most 16384 can be read")), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A file of lines of JSON in a folder of this process.
fn lines_of_json(name: &str, lines: &[String]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("vicus-tables-json-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, lines.join("\n")).unwrap();
    path
}

#[test]
fn lines_of_json_are_rows_of_the_types_of_their_first_values() {
    let lines = [
        r#"{"id": 1, "x": 1, "b": true, "day": "2024-02-29", "at": "2024-02-29 01:02:03", "code": "0870", "mixed": 1}"#,
        "",
        r#"{"x": 2.5, "id": -2, "b": null, "day": "2023-01-31", "code": "12", "list": [1, 2], "mixed": "one"}"#,
        r#"  {"id": 3, "day": null, "at": "2023-01-31 10:00:00", "list": {"a": "ü\n"}, "none": null}"#,
    ];
    let path = lines_of_json("types.jsonl", &lines.map(str::to_owned));
    let table = open(&path).unwrap();
    let columns: Vec<String> = table.columns().iter().map(|one| format!("{} {}", one.name, one.kind)).collect();
    let wanted = [
        "id bigint",
        "x double",
        "b boolean",
        "day date",
        "at timestamp",
        "code varchar",
        "mixed varchar",
        "list varchar",
        "none varchar",
    ];
    assert_eq!(columns, wanted);
    let text = "SELECT id, x, b, CAST(day AS varchar), CAST(at AS varchar), code, mixed, list, none FROM t ORDER BY id";
    let rows = ask("t", &table, text).unwrap();
    let wanted = [
        "-2|2.5|NULL|2023-01-31|NULL|12|one|[1,2]|NULL",
        "1|1.0|true|2024-02-29|2024-02-29 01:02:03|0870|1|NULL|NULL",
        "3|NULL|NULL|NULL|2023-01-31 10:00:00|NULL|NULL|{\"a\":\"ü\\n\"}|NULL",
    ];
    assert_eq!(rows, wanted);
    assert_eq!(ask("t", &table, "SELECT COUNT(*) FROM t").unwrap(), ["3"]);
    // The types of some are given, one of them of a column that the first rows do not have.
    let types = [("list", "bigint[]"), ("id", "varchar"), ("later", "double")];
    let types = types.map(|(name, kind)| (name.to_owned(), SqlType::named(kind).unwrap()));
    let path = lines_of_json("given.ndjson", &lines[..3].iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
    let table = open_as(&path, BTreeMap::from(types)).unwrap();
    let rows = ask("t", &table, "SELECT id, CAST(list AS varchar), later FROM t ORDER BY id").unwrap();
    assert_eq!(rows, ["-2|[1, 2]|NULL", "1|NULL|NULL"]);
}

#[test]
fn long_files_of_json_are_read_in_blocks() {
    const ROWS: usize = 60_000;
    // Lines of very different lengths, up to more than a block.
    let text = |row: usize| "x".repeat(if row.is_multiple_of(20_000) { 300_000 } else { row % 40 });
    let lines: Vec<String> = (0..ROWS).map(|row| format!("{{\"n\": {row}, \"t\": \"{}\"}}", text(row))).collect();
    let path = lines_of_json("long.jsonl", &lines);
    let table = open(&path).unwrap();
    let letters: usize = (0..ROWS).map(|row| text(row).len()).sum();
    let wanted = format!("{ROWS}|{}|{letters}", ROWS * (ROWS - 1) / 2);
    assert_eq!(ask("t", &table, "SELECT COUNT(*), SUM(n), SUM(LENGTH(t)) FROM t").unwrap(), [wanted]);
}

#[test]
fn wrong_lines_of_json_are_errors_with_line_and_column() {
    let good = |count: usize| (0..count).map(|n| format!("{{\"n\": {n}, \"t\": \"a\"}}"));
    let at_first = |wrong: &str| {
        let lines: Vec<String> = good(3).chain([wrong.to_owned()]).collect();
        open(lines_of_json("first.jsonl", &lines)).map(drop).unwrap_err().to_string()
    };
    let later = |wrong: &str| {
        let lines: Vec<String> = good(10_005).chain([wrong.to_owned()]).chain(good(2)).collect();
        let table = open(lines_of_json("later.jsonl", &lines)).unwrap();
        ask("t", &table, "SELECT SUM(n), COUNT(t) FROM t").unwrap_err()
    };
    for (wrong, place) in [("{\"n\": 1, \"t\": }", 15), ("[1]", 1), ("{\"n\": 01}", 8), ("{\"n\": 1", 7)] {
        let error = at_first(wrong);
        assert!(error.contains(&format!("line 4, column {place}: an object of JSON was expected")), "{wrong}: {error}");
        let error = later(wrong);
        assert!(error.contains(&format!("line 10006, column {place}: ")), "{wrong}: {error}");
    }
    let error = later("{\"n\": 0.5}");
    assert!(error.contains("line 10006, column n: 0.5 is no bigint"), "{error}");
    let error = later("{\"n\": 1, \"m\": 2}");
    assert!(error.contains("line 10006: the first rows have no column m"), "{error}");
    assert!(
        open(lines_of_json("empty.jsonl", &[])).map(drop).unwrap_err().to_string().contains("no line has an object")
    );
    let path = lines_of_json("bytes.jsonl", &[]);
    std::fs::write(&path, b"{\"n\": 1}\n{\"n\": \"\xff\"}\n").unwrap();
    assert!(open(&path).map(drop).unwrap_err().to_string().contains("line 2, column 8: it is not UTF-8"));
}
