//! Columns of files through networks as text, in the types that the files have. The files are written and read back by
//! Arrow's own crates.

use arrow_array::builder::{FixedSizeBinaryBuilder, ListBuilder, PrimitiveBuilder, StringDictionaryBuilder};
use arrow_array::types::{Int16Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, DurationSecondArray, Float32Array, Int32Array, RecordBatch, StringArray,
    StructArray, TimestampNanosecondArray, UInt8Array, UInt64Array,
};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vicus_flow::sequential;
use vicus_network::{Kinds, MachineCounts, Network, NetworkText};

const ROWS: i32 = 200;

/// A row for each number; every fifth one has nulls.
fn batch(with_spans: bool) -> RecordBatch {
    let some = |n: i32| n % 5 > 0;
    let rows = || 0..ROWS;
    let mut names = StringDictionaryBuilder::<Int32Type>::new();
    let mut tags = FixedSizeBinaryBuilder::new(3);
    let mut lists = ListBuilder::new(PrimitiveBuilder::<Int16Type>::new());
    for n in rows() {
        names.append_option(some(n).then(|| ["red", "green", "blue"][n as usize % 3]));
        match some(n) {
            true => tags.append_value([n as u8, 1, 2]).unwrap(),
            false => tags.append_null(),
        }
        lists.append_option(some(n).then(|| (0..n % 4).map(|item| Some((n + item) as i16)).collect::<Vec<_>>()));
    }
    let numbers: ArrayRef = Arc::new(rows().map(|n| some(n).then_some(n as u8)).collect::<UInt8Array>());
    let texts: ArrayRef = Arc::new(rows().map(|n| format!("s{n}")).map(Some).collect::<StringArray>());
    let moments: TimestampNanosecondArray = rows().map(|n| some(n).then_some(i64::from(n) * 1_001 + 7)).collect();
    let prices: Decimal128Array = rows().map(|n| some(n).then_some(i128::from(n) << 70)).collect();
    let parts = StructArray::from(vec![
        (Arc::new(Field::new("small", DataType::UInt8, true)), Arc::clone(&numbers)),
        (Arc::new(Field::new("text", DataType::Utf8, true)), texts),
    ]);
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(rows().collect::<Int32Array>())),
        ("tiny", numbers),
        ("huge", Arc::new(rows().map(|n| some(n).then_some(u64::MAX - n as u64)).collect::<UInt64Array>())),
        ("half", Arc::new(rows().map(|n| some(n).then_some(n as f32 / 2.0)).collect::<Float32Array>())),
        ("name", Arc::new(names.finish())),
        ("tag", Arc::new(tags.finish())),
        ("at", Arc::new(moments.with_timezone("+02:30"))),
        ("price", Arc::new(prices.with_precision_and_scale(38, 10).unwrap())),
        ("list", Arc::new(lists.finish())),
        ("parts", Arc::new(parts)),
    ];
    if with_spans {
        let spans: DurationSecondArray = rows().map(|n| some(n).then_some(-i64::from(n))).collect();
        columns.push(("long", Arc::new(spans)));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

fn built(text: &str) -> Result<Network, String> {
    let mut kinds = Kinds::library();
    vicus_tables::add_kinds(&mut kinds);
    let parsed: NetworkText = text.parse().unwrap();
    parsed.build("kept", &kinds, &MachineCounts { threads: 2, nodes: 1 }, &[]).map_err(|error| error.message)
}

fn folder(name: &str) -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn write(path: &Path, rows: &RecordBatch) {
    let file = File::create(path).unwrap();
    if path.extension().unwrap() == "parquet" {
        let mut writer = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
        writer.write(rows).unwrap();
        writer.close().unwrap();
    } else {
        let mut writer = FileWriter::try_new(file, &rows.schema()).unwrap();
        writer.write(rows).unwrap();
        writer.finish().unwrap();
    }
}

fn read(path: &Path) -> RecordBatch {
    let file = File::open(path).unwrap();
    let mut batches: Vec<RecordBatch> = match path.extension().unwrap().to_str() {
        Some("parquet") => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
            reader.map(Result::unwrap).collect()
        }
        _ => FileReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
    };
    batches.retain(|batch| batch.num_rows() > 0);
    assert_eq!(batches.len(), 1, "so few rows are one batch");
    batches.pop().unwrap()
}

/// Arrow's own form of a column: its type and its values. Texts come without their dictionaries.
fn shown(column: &ArrayRef) -> String {
    match column.data_type() {
        DataType::Dictionary(..) => {
            let codes = column.as_any().downcast_ref::<arrow_array::DictionaryArray<Int32Type>>().unwrap();
            let texts = codes.downcast_dict::<StringArray>().unwrap();
            format!("{:?}", texts.into_iter().collect::<StringArray>())
        }
        _ => format!("{column:?}"),
    }
}

#[test]
fn readers_kinds_and_writers_keep_the_types_of_files() {
    let folder = folder("kept");
    for (from, to) in [("arrow", "arrow"), ("parquet", "parquet"), ("parquet", "arrow"), ("arrow", "parquet")] {
        let rows = batch(from == "arrow" && to == "arrow");
        let (source, target) = (folder.join(format!("in.{from}")), folder.join(format!("{from}-{to}.{to}")));
        write(&source, &rows);
        let text = format!(
            "box all = read(file: \"{}\"); box some = filter(where: \"n >= 20 AND n % 1 = 0\");
            box deal = partition(by: \"name, tag\"); box order = sort(by: \"n\") * threads; box one = merge(by: \"n\");
            box keep = write_{to}(file: \"{}\"); all -> some -> deal -> order -> one -> keep;",
            source.display(),
            target.display()
        );
        sequential::run(&built(&text).unwrap().model, Vec::new(), |_| 0).unwrap();
        let (found, wanted) = (read(&target), rows.slice(20, ROWS as usize - 20));
        assert_eq!(found.num_columns(), wanted.num_columns());
        for (place, field) in wanted.schema().fields().iter().enumerate() {
            assert_eq!(found.schema().field(place).name(), field.name());
            assert_eq!(shown(found.column(place)), shown(wanted.column(place)), "{from} to {to}: {}", field.name());
        }
    }
}

#[test]
fn named_columns_keep_their_types_and_expressions_have_those_of_sql() {
    let folder = folder("named");
    let source = folder.join("in.arrow");
    write(&source, &batch(true));
    let columns = |select: &str| {
        let text = format!(
            "box all = read_arrow(file: \"{}\", select: \"{select}\"); box rows = collect; all -> rows;",
            source.display()
        );
        built(&text).map(|network| network.collected[0].schema.to_string())
    };
    assert_eq!(
        columns("tag, n , at").unwrap(),
        "(tag: FixedBinary(3) or null, n: I32 or null, at: Timestamp(ns, +02:30) or null)"
    );
    assert_eq!(columns("n + 1 AS next, tiny").unwrap(), "(next: I64 or null, tiny: I64 or null)");
    assert!(columns("n, non").unwrap_err().contains("non"));
}

#[test]
fn what_parquet_has_not_is_told_before_anything_is_written() {
    let folder = folder("refused");
    let (source, target) = (folder.join("in.arrow"), folder.join("out.parquet"));
    write(&source, &batch(true));
    let text = format!(
        "box all = read(file: \"{}\"); box keep = write_parquet(file: \"{}\"); all -> keep;",
        source.display(),
        target.display()
    );
    let error = built(&text).err().unwrap();
    assert!(error.contains("column long is of the type Duration(s), which Parquet has not"), "{error}");
    assert!(!target.exists());
}

#[test]
fn moments_of_any_zone_are_csv_in_utc() {
    let folder = folder("csv");
    let (source, target) = (folder.join("in.arrow"), folder.join("out.csv"));
    let moment =
        |zone: &str| Arc::new(TimestampNanosecondArray::from(vec![1_000_000_007]).with_timezone(zone)) as ArrayRef;
    write(&source, &RecordBatch::try_from_iter([("a", moment("Europe/Prague")), ("b", moment("+02:30"))]).unwrap());
    let text = format!(
        "box all = read(file: \"{}\"); box keep = write_csv(file: \"{}\"); all -> keep;",
        source.display(),
        target.display()
    );
    sequential::run(&built(&text).unwrap().model, Vec::new(), |_| 0).unwrap();
    let written = std::fs::read_to_string(&target).unwrap();
    assert_eq!(written, "a,b\n1970-01-01T00:00:01.000000007Z,1970-01-01T00:00:01.000000007Z\n");
}
