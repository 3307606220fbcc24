//! A statement over the streams of a network, in place of tables: its boxes become a part of that network.

use crate::bind::{Output, bind};
use crate::convert::in_sql;
use crate::error::{SourcePosition, SqlError, SqlErrorKind};
use crate::lower::lower_into;
use crate::optimise::optimise;
use crate::origin::{add_types, type_before};
use crate::parse::{StatementLimits, parse};
use crate::plan::LEVEL_BYTES;
use crate::relation::Columns;
use crate::table::{Catalogue, ColumnRange, Scan, Table, TableColumn};
use crate::types::SqlType;
use std::sync::Arc;
use vicus_flow::{BoxError, BoxModel, Envelope, Field, ModelBuilder, OutputId, Schema, Turn, Type};
use vicus_language::stack::of_levels;
use vicus_language::{Costs, PlanOptions, Stop};

/// A stream that a statement reads by its name.
#[derive(Clone, Debug)]
pub struct SqlStream {
    /// The name of its table in the statement.
    pub name: String,
    /// Its columns. Integers of any size are bigint, floats are double; columns of types unknown to SQL here can't be
    /// named.
    pub schema: Schema,
    /// Where its rows come from.
    pub output: OutputId,
}

/// Adds the boxes of a statement over streams to a network. Gives the output that sends its rows, and their columns. A
/// column of a stream that is passed on, also as a key of groups, MIN or MAX, keeps its type but for nanoseconds, which
/// become microseconds; a computed one is of SQL's types. A stream that the statement doesn't need is taken and
/// dropped.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library, sequential};
/// use vicus_sql::{PlanOptions, SqlStream, add_statement};
///
/// let schema = Schema::new([("n", Type::I32)]);
/// let mut net = ModelBuilder::new("even numbers");
/// let numbers = net.source(library::source("numbers", &schema, || [Envelope::new([vec![1i32, 2, 3, 4].into()])]));
/// let stream = SqlStream { name: "numbers".to_owned(), schema, output: numbers.output(0) };
/// let text = "SELECT n, n * n AS square FROM numbers WHERE n % 2 = 0";
/// let (rows, schema) = add_statement(&mut net, text, &[stream], &PlanOptions::default())?;
/// assert_eq!(schema.to_string(), "(n: I32 or null, square: I64 or null)");
///
/// let (send, receive) = mpsc::channel();
/// let end = net.add(library::sink("end", &schema, move |envelope| Ok(send.send(envelope)?)));
/// net.connect(rows, end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build()?, Vec::new(), |_| 0)?;
/// assert_eq!(receive.recv()?.column(1).i64s(), [4, 16]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The text is no statement over these streams: see [`plan`](crate::plan()).
pub fn add_statement(
    net: &mut ModelBuilder,
    text: &str,
    streams: &[SqlStream],
    options: &PlanOptions,
) -> Result<(OutputId, Schema), SqlError> {
    let tables = Streams(streams.iter().map(StreamTable::of).collect());
    let (output, schema, read) = add(net, text, &tables, &tables.0, options)?;
    for (stream, _) in streams.iter().zip(read).filter(|(_, is_read)| !is_read) {
        net.end(stream.output);
    }
    Ok((output, schema))
}

/// Adds the boxes of a statement over the tables of a catalogue to a network. Gives the output that sends its rows, and
/// their columns.
///
/// # Errors
/// The text is no statement over these tables: see [`plan`](crate::plan()).
pub fn add_query(
    net: &mut ModelBuilder,
    text: &str,
    catalogue: &dyn Catalogue,
    options: &PlanOptions,
) -> Result<(OutputId, Schema), SqlError> {
    add(net, text, catalogue, &[], options).map(|(output, schema, _)| (output, schema))
}

fn add(
    net: &mut ModelBuilder,
    text: &str,
    catalogue: &dyn Catalogue,
    streams: &[StreamTable],
    options: &PlanOptions,
) -> Result<(OutputId, Schema, Vec<bool>), SqlError> {
    let parsed = parse(text, &StatementLimits::default())?;
    let added = of_levels(parsed.levels(), LEVEL_BYTES, || {
        let stop = Stop::within(&|| false, Costs { steps: options.plan_steps, bytes: options.plan_bytes });
        let mut columns = Columns::default();
        let (bound, _) = bind(&parsed, catalogue, &mut columns, &stop)?;
        let wanted: Vec<_> = bound.outputs.iter().map(|output| output.id).collect();
        let relation = optimise(bound.relation, &wanted, &columns, options.optimise, &stop)?;
        let (output, read) = lower_into(net, &relation, &columns, streams, options, &stop)?;
        let field = |output: &Output| Field::new(&output.name, output.kind.flow_type()).or_null();
        let before = |output: &Output| {
            let kind = type_before(&relation, output.id, streams);
            Field::new(&output.name, kind.unwrap_or_else(|| output.kind.flow_type())).or_null()
        };
        let sql: Schema = bound.outputs.iter().map(field).collect();
        let schema: Schema = bound.outputs.iter().map(before).collect();
        Ok((add_types(net, output, &sql, &schema), schema, read))
    });
    let (output, schema, read) = added.map_err(|error| parsed.placed(error))?;
    if schema.columns().is_empty() {
        return Err(SqlError::new(SqlErrorKind::Type, SourcePosition::default(), "the statement has no columns"));
    }
    Ok((output, schema, read))
}

pub(crate) struct Streams(pub(crate) Vec<StreamTable>);

impl Catalogue for Streams {
    fn table(&self, name: &[String]) -> Option<Arc<dyn Table>> {
        let name = name.join(".");
        self.0.iter().find(|stream| stream.stream.name == name).map(|stream| Arc::clone(&stream.table))
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|stream| stream.stream.name.clone()).collect()
    }
}

/// A stream, and the table that stands for it while a statement is planned.
pub(crate) struct StreamTable {
    stream: SqlStream,
    pub(crate) table: Arc<dyn Table>,
}

impl StreamTable {
    pub(crate) fn of(stream: &SqlStream) -> StreamTable {
        let column = |field: &Field| match SqlType::of(&field.kind) {
            Some(kind) => TableColumn::new(&field.name, kind),
            None => TableColumn::unreadable(
                &field.name,
                format!("it is of the type {}, which SQL has not here", field.kind),
            ),
        };
        let columns = stream.schema.columns().iter().map(column).collect();
        StreamTable { stream: stream.clone(), table: Arc::new(Described(columns)) }
    }

    /// The type of a column of the stream.
    pub(crate) fn kind_of(&self, column: usize) -> Type {
        self.stream.schema.columns()[column].kind.clone()
    }

    /// A box that reads these columns of the stream, in the types of SQL.
    pub(crate) fn reading(&self, picked: &[usize], schema: &Schema) -> (OutputId, BoxModel) {
        let picked: Arc<[usize]> = picked.into();
        let read = move || {
            let picked = Arc::clone(&picked);
            move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                let Some(envelope) = turn.take(0) else { return Ok(()) };
                if envelope.is_pill() {
                    turn.send_pill(0);
                    return Ok(());
                }
                if turn.pass_mark(&envelope) {
                    return Ok(());
                }
                let columns = picked.iter().map(|&column| in_sql(envelope.column(column)));
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                if envelope.rows() > 0 {
                    turn.send(0, Envelope::of_rows(columns, envelope.rows()));
                }
                Ok(())
            }
        };
        (self.stream.output, BoxModel::new("columns", read).input(&self.stream.schema).output(schema))
    }
}

/// The columns of a stream. It is never scanned.
struct Described(Vec<TableColumn>);

impl Table for Described {
    fn columns(&self) -> &[TableColumn] {
        &self.0
    }

    fn rows(&self) -> Option<u64> {
        None
    }

    fn parts(&self) -> usize {
        1
    }

    fn scan(&self, _: &[usize], _: usize, _: &[ColumnRange]) -> Box<dyn Scan> {
        unreachable!("a stream's rows come from its output")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use vicus_flow::{Column, library, sequential};

    fn rows(text: &str, kinds: &[(&str, Column)]) -> Result<Vec<Vec<i64>>, String> {
        let mut net = ModelBuilder::new("test");
        let mut streams = Vec::new();
        for (name, column) in kinds {
            let field = Field::new("n", column.kind());
            let schema: Schema = [if column.null_count() > 0 { field.or_null() } else { field }].into_iter().collect();
            let envelope = Envelope::new([column.clone()]);
            let source = net.source(library::source("source", &schema, move || [envelope.clone()]));
            streams.push(SqlStream { name: (*name).to_owned(), schema, output: source.output(0) });
        }
        let added = add_statement(&mut net, text, &streams, &PlanOptions::default());
        let (output, schema) = added.map_err(|error| error.to_string())?;
        let (send, receive) = mpsc::channel();
        let end = net.add(library::sink("end", &schema, move |envelope| Ok(send.send(envelope)?)));
        net.connect(output, end.input(0));
        net.end(end.output(0));
        let model = net.build().map_err(|error| error.to_string())?;
        sequential::run(&model, Vec::new(), |_| 0).map_err(|error| error.to_string())?;
        let of = |envelope: Envelope| {
            let numbers: Vec<Column> = envelope.columns().iter().map(|column| in_sql(column).unwrap()).collect();
            let row = |row: usize| numbers.iter().map(|column| column.i64s()[row]).collect();
            (0..envelope.rows()).map(row).collect::<Vec<Vec<i64>>>()
        };
        Ok(receive.try_iter().flat_map(of).collect())
    }

    #[test]
    fn streams_are_joined_and_grouped() {
        let a = || ("a", Column::from(vec![1u16, 2, 3, 4]));
        let b = || ("b", Column::from(vec![2i64, 4, 4]));
        let joined = rows("SELECT a.n, b.n + 1 FROM a JOIN b ON a.n = b.n", &[a(), b()]).unwrap();
        assert_eq!(joined, [[2, 3], [4, 5], [4, 5]]);
        assert_eq!(rows("SELECT COUNT(*), SUM(n) FROM a WHERE n > 1", &[a()]).unwrap(), [[3, 9]]);
    }

    #[test]
    fn a_join_sends_texts_of_several_dictionaries() {
        let codes = |of: &[u32], values: &[&str]| {
            let values: Column = values.iter().copied().collect();
            Column::of_dictionary(of.to_vec(), &values).unwrap()
        };
        let schema: Schema = [Field::new("n", Type::I64), Field::new("t", Type::Text)].into_iter().collect();
        let rows = |first: i64, texts: Column| {
            Envelope::new([(first..first + texts.len() as i64).collect::<Vec<_>>().into(), texts])
        };
        let envelopes = [
            rows(0, codes(&[1, 0, 1], &["x", "a text that is in no view"])),
            rows(3, codes(&[0, 0], &["y"])),
            rows(5, ["plain", "z"].into_iter().collect()),
        ];
        let mut net = ModelBuilder::new("test");
        let streams = ["a", "b"].map(|name| {
            let envelopes = envelopes.clone();
            let source = net.source(library::source(name, &schema, move || envelopes.clone()));
            SqlStream { name: name.to_owned(), schema: schema.clone(), output: source.output(0) }
        });
        let text = "SELECT b.t FROM a LEFT JOIN b ON b.n = a.n + 1 ORDER BY a.n";
        let (output, schema) = add_statement(&mut net, text, &streams, &PlanOptions::default()).unwrap();
        let (send, receive) = mpsc::channel();
        let end = net.add(library::sink("end", &schema, move |envelope| Ok(send.send(envelope)?)));
        net.connect(output, end.input(0));
        net.end(end.output(0));
        sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
        let of = |envelope: Envelope| {
            let column = envelope.column(0).clone();
            (0..column.len())
                .map(|row| (!column.is_null(row)).then(|| column.text_at(row).to_owned()))
                .collect::<Vec<_>>()
        };
        let found: Vec<Option<String>> = receive.try_iter().flat_map(of).collect();
        let long = "a text that is in no view";
        assert_eq!(
            found,
            [Some("x"), Some(long), Some("y"), Some("y"), Some("plain"), Some("z"), None]
                .map(|text| text.map(str::to_owned))
        );
    }

    /// The types of the columns that a statement over `a` and `b` makes of a column of this type.
    fn types(kind: &Type, text: &str) -> String {
        let mut net = ModelBuilder::new("test");
        let schema: Schema = [Field::new("n", kind.clone()), Field::new("k", Type::I8)].into_iter().collect();
        let streams = ["a", "b"].map(|name| {
            let source = net.source(library::source(name, &schema, std::iter::empty::<Envelope>));
            SqlStream { name: name.to_owned(), schema: schema.clone(), output: source.output(0) }
        });
        let (_, schema) = add_statement(&mut net, text, &streams, &PlanOptions::default()).unwrap();
        schema.columns().iter().map(|field| field.kind.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn columns_that_are_passed_on_keep_their_types() {
        let kind = Type::FixedBinary(3);
        for (text, wanted) in [
            ("SELECT a.n, b.n, b.k FROM a JOIN b ON a.k = b.k", "FixedBinary(3) FixedBinary(3) I8"),
            ("SELECT b.n, a.k FROM a LEFT JOIN b ON a.k + 1 = b.k ORDER BY a.k LIMIT 3", "FixedBinary(3) I8"),
            ("SELECT k, n, COUNT(*), SUM(k) FROM a GROUP BY n, k", "I8 FixedBinary(3) I64 I64"),
            ("SELECT MIN(k), MAX(k), AVG(k), COUNT(n) FROM a", "I8 I8 F64 I64"),
            ("SELECT DISTINCT n FROM (SELECT n, k FROM a WHERE k > 2) AS d", "FixedBinary(3)"),
            ("SELECT k FROM a UNION ALL SELECT k FROM b", "I8"),
            ("SELECT k FROM a UNION SELECT k + 1 FROM b", "I64"),
            ("SELECT k FROM a INTERSECT SELECT k + 1 FROM b", "I8"),
            ("SELECT (SELECT MAX(b.k) FROM b), -k FROM a", "I8 I64"),
            ("SELECT n FROM a WHERE n IN (SELECT n FROM b)", "FixedBinary(3)"),
            ("WITH RECURSIVE r AS (SELECT k FROM a UNION SELECT k + 1 FROM r WHERE k < 9) SELECT k FROM r", "I64"),
        ] {
            assert_eq!(types(&kind, text), wanted, "{text}");
        }
        let nano = Type::Timestamp(vicus_flow::TimeUnit::Nano, Some("+01:00".into()));
        assert_eq!(types(&nano, "SELECT n FROM a GROUP BY n"), "Timestamp(us, UTC)");
        let nested = Type::list(nano);
        assert_eq!(types(&nested, "SELECT n FROM a ORDER BY n"), "List(Timestamp(us, UTC))");
        let list = Type::list(Type::Time(vicus_flow::TimeUnit::Second));
        assert_eq!(types(&list, "SELECT n FROM a ORDER BY n"), "List(Time(s))");
    }

    #[test]
    fn streams_that_are_not_needed_are_dropped() {
        let a = ("a", Column::from(vec![1i64, 2]));
        let b = ("b", Column::from(vec![7i64]));
        assert_eq!(rows("SELECT n FROM a", &[a.clone(), b]).unwrap(), [[1], [2]]);
        assert_eq!(rows("SELECT n FROM a WHERE 1 = 2", &[a]).unwrap(), Vec::<Vec<i64>>::new());
    }

    #[test]
    fn texts_in_dictionaries_are_grouped_and_joined_as_others_are() {
        let texts = |of: &dyn Fn(u32) -> u32, rows: u32| -> [Column; 2] {
            let values: Column = ["x", "y", "z", "x"].into_iter().collect();
            let codes: Vec<u32> = (0..rows).map(of).collect();
            let nulls = || (0..rows as usize).filter(|row| row % 5 == 4);
            let direct: Column = codes.iter().map(|&code| values.text_at(code as usize)).collect();
            [direct.with_nulls(nulls()), Column::of_dictionary(codes, &values).unwrap().with_nulls(nulls())]
        };
        let (many, few) = (texts(&|row| row % 4, 1000), texts(&|row| row % 2, 9));
        for text in [
            "SELECT COUNT(*) FROM a GROUP BY n ORDER BY 1",
            "SELECT COUNT(DISTINCT n) FROM a",
            "SELECT COUNT(*) FROM (SELECT DISTINCT n FROM a) AS d",
            "SELECT COUNT(*) FROM a JOIN b ON a.n = b.n",
            "SELECT COUNT(*) FROM a LEFT JOIN b ON a.n = b.n",
            "SELECT COUNT(*) FROM a WHERE n IN (SELECT n FROM b)",
            "SELECT COUNT(*) FROM a WHERE n NOT IN (SELECT n FROM b)",
            "SELECT COUNT(*) FROM a WHERE n NOT IN (SELECT n FROM b WHERE n IS NOT NULL)",
        ] {
            let of = |a: &Column, b: &Column| rows(text, &[("a", a.clone()), ("b", b.clone())]).unwrap();
            let wanted = of(&many[0], &few[0]);
            for (a, b) in [(1, 0), (0, 1), (1, 1)] {
                assert_eq!(of(&many[a], &few[b]), wanted, "{text}");
            }
        }
        // Two of four codes are of one text: x has every second row of those with values.
        let groups = rows("SELECT COUNT(*) FROM a GROUP BY n ORDER BY 1", &[("a", many[1].clone())]).unwrap();
        assert_eq!(groups, [[200], [200], [200], [400]]);
    }

    #[test]
    fn what_sql_has_not_is_told() {
        let large = ("a", Column::from(vec![u64::MAX]));
        assert!(rows("SELECT n FROM a", &[large]).unwrap_err().contains("18446744073709551615 is beyond bigint"));
        let far = ("a", Column::of_decimals(38, -1, vec![1]));
        let refused = rows("SELECT n FROM a", &[far]).unwrap_err();
        assert!(refused.contains("it is of the type Decimal(38, -1), which SQL has not here"), "{refused}");
        let typo = rows("SELECT m FROM a", &[("a", Column::from(vec![1i64]))]).unwrap_err();
        assert!(typo.starts_with("line 1, column 8"), "{typo}");
    }
}
