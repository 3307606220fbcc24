//! Kinds of boxes for networks as text: readers of files, and writers.

use crate::writing::{RowFormat, writer};
use crate::{CsvOptions, TableError, open_arrow, open_as, open_csv, open_json, open_parquet};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use vicus_flow::{BoxError, BoxModel, Operator, OutputId, Schema, Turn};
use vicus_network::{BoxSpec, Building, KindError, Kinds, ParameterType, ParameterValue, Ports};
use vicus_sql::{PlanOptions, SqlType, Table, Tables, add_kept, add_query};

/// Adds the kinds that read and write files: `read`, `read_csv`, `read_parquet`, `read_arrow`, `write_csv`,
/// `write_json`, `write_arrow` and `write_parquet`. A program that does not trust the texts leaves them out.
///
/// ```
/// use vicus_network::Kinds;
///
/// let mut kinds = Kinds::library();
/// vicus_tables::add_kinds(&mut kinds);
/// assert!(kinds.get("read_parquet").is_some());
/// ```
pub fn add_kinds(kinds: &mut Kinds) {
    let read =
        reader("read", "Reads a file of rows, in the format of its ending: CSV, TSV, JSON lines, Parquet or Arrow.")
            .optional("types", ParameterType::Columns, TYPES)
            .builds(|building| {
                let types = types(building)?;
                add(building, |file| open_as(file, types.clone()))
            });
    let csv = reader("read_csv", "Reads a file of values with commas between them, a row a line.")
        .defaults("delimiter", ParameterValue::Text(",".to_owned()), "The sign between two values, of one byte.")
        .defaults("header", ParameterValue::Boolean(true), "Whether the first line has the columns' names.")
        .optional("types", ParameterType::Columns, TYPES)
        .builds(|building| {
            let &[delimiter] = building.text("delimiter").as_bytes() else {
                return Err(KindError::of("delimiter", "a delimiter has one byte, such as \";\""));
            };
            let types = types(building)?;
            let options = CsvOptions { delimiter, header: building.boolean("header"), types, ..CsvOptions::default() };
            add(building, |file| open_csv(file, &options))
        });
    let json = reader("read_json", "Reads a file with an object of JSON on each line: a row.")
        .optional("types", ParameterType::Columns, TYPES)
        .builds(|building| {
            let types = types(building)?;
            add(building, |file| open_json(file, &types))
        });
    let parquet = reader("read_parquet", "Reads a file of Parquet.").builds(|building| add(building, open_parquet));
    let arrow = reader("read_arrow", "Reads a file or a stream of Arrow's format for exchange.")
        .builds(|building| add(building, open_arrow));
    [
        read,
        csv,
        json,
        parquet,
        arrow,
        writes("write_csv", "Writes rows as CSV.", RowFormat::Csv),
        writes("write_json", "Writes each row as an object of JSON, on a line of its own.", RowFormat::JsonLines),
        writes("write_parquet", "Writes rows to a file of Parquet, packed by Zstandard.", RowFormat::Parquet),
        writes("write_arrow", "Writes rows to a file of Arrow's format for exchange.", RowFormat::Arrow),
    ]
    .into_iter()
    .for_each(|kind| kinds.add(kind));
}

const TYPES: &str = "The types of columns of CSV or JSON, such as (age: I64); those of the others are inferred.";

fn reader(name: &'static str, doc: &'static str) -> BoxSpec {
    BoxSpec::new(name, doc)
        .ports(Ports::Exactly(0), Ports::Exactly(1))
        .required("file", ParameterType::Text, "The file, from the folder in which the program runs.")
        .defaults("select", ParameterValue::Text("*".to_owned()), "The columns that are read, such as \"name, age\".")
        .defaults(
            "scans",
            ParameterValue::Integer(1),
            "How many boxes read parts of the file at once; with several, the order of rows is lost.",
        )
}

fn types(building: &Building<'_>) -> Result<BTreeMap<String, SqlType>, KindError> {
    let Some(ParameterValue::Columns(schema)) = building.value("types") else { return Ok(BTreeMap::new()) };
    let kind = |field: &vicus_flow::Field| match SqlType::of(&field.kind) {
        Some(kind) => Ok((field.name.clone(), kind)),
        None => Err(KindError::of("types", format!("a text is not read as {}", field.kind))),
    };
    schema.columns().iter().map(kind).collect()
}

/// Adds the boxes that read a file.
fn add(
    building: &mut Building<'_>,
    open: impl Fn(PathBuf) -> Result<Arc<dyn Table>, TableError>,
) -> Result<Vec<(OutputId, Schema)>, KindError> {
    let scans = usize::try_from(building.integer("scans")).ok().filter(|scans| (1..=1024).contains(scans));
    let scans = scans.ok_or_else(|| KindError::of("scans", "1 to 1024 boxes can read a file"))?;
    let table = open(building.file("file")?).map_err(|error| KindError::of("file", error.to_string()))?;
    let select = building.text("select").to_owned();
    // With several boxes, all of them read, however few rows there are.
    let options = PlanOptions { threads: scans, parallel_rows: 1, ..PlanOptions::default() };
    if let Some(picked) = plain_columns(&select, &table)
        && let Some(added) = add_kept(building.net(), "rows", &table, &picked, scans, &options)
    {
        return Ok(vec![added]);
    }
    let mut tables = Tables::default();
    tables.add("rows", table);
    let before = "SELECT ";
    let text = format!("{before}{select}\nFROM rows");
    let added = add_query(building.net(), &text, &tables, &options);
    let added = added.map_err(|error| match error.place.offset {
        Some(offset) => KindError::within("select", offset.saturating_sub(before.len()), error.message),
        None => KindError::of("select", error.message),
    });
    Ok(vec![added?])
}

/// The places of columns, if a text names columns alone: with their types as the file has them, as no expression is.
fn plain_columns(select: &str, table: &Arc<dyn Table>) -> Option<Vec<usize>> {
    let all = table.columns();
    // Two columns of one name can't be told apart.
    let place = |name: &str| {
        let mut named = (0..all.len()).filter(|&place| all[place].name == name);
        named.next().filter(|_| named.next().is_none())
    };
    match select.trim() {
        "*" => all.iter().map(|column| place(&column.name)).collect(),
        names => names.split(',').map(|name| place(name.trim())).collect(),
    }
}

/// Adds the boxes of a statement over tables: for kinds of other programs, whose rows lie in memory.
///
/// # Errors
/// The statement can't be planned.
pub fn add_table(
    building: &mut Building<'_>,
    tables: &Tables,
    statement: &str,
) -> Result<(OutputId, Schema), KindError> {
    let added = add_query(building.net(), statement, tables, &PlanOptions::default());
    added.map_err(|error| KindError::new(error.message))
}

fn writes(name: &'static str, doc: &'static str, format: RowFormat) -> BoxSpec {
    BoxSpec::new(name, doc)
        .ports(Ports::Exactly(1), Ports::Exactly(0))
        .required("file", ParameterType::Text, "The file, which is written anew; \"-\" is standard output.")
        .builds(move |building| {
            let schema = building.inputs()[0].schema.clone();
            format.check(&schema).map_err(KindError::new)?;
            let file = building.file_to_write("file")?;
            let nothing = Schema::new::<&str>([]);
            let columns = schema.clone();
            let operator = move || {
                let path = file.clone();
                let open = move || {
                    let target: Box<dyn Write + Send> = if path.as_os_str() == "-" {
                        Box::new(io::stdout())
                    } else {
                        let shown = path.display();
                        let named = |error: io::Error| io::Error::new(error.kind(), format!("{shown}: {error}"));
                        Box::new(File::create(&path).map_err(named)?)
                    };
                    Ok(Box::new(BufWriter::new(target)) as Box<dyn Write + Send>)
                };
                let mut writer = writer(format, &columns, open);
                move |turn: &mut Turn<'_>| -> Result<(), BoxError> { writer.act(turn) }
            };
            let end = building.add(BoxModel::new(name, operator).input(&schema).output(&nothing));
            building.net().end(end.output(0));
            Ok(Vec::new())
        })
}
