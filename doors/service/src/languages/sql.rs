//! SQL over the tables of a session: files, the store's predicates, and the rows of a query of SPARQL.
//!
//! | in FROM | rows |
//! |---|---|
//! | `name` | those of the file that was given this name |
//! | `"http://xmlns.com/foaf/0.1/name"` | the triples of the default graph with this predicate: columns `subject` and `object` |
//! | `SPARQL('SELECT …')` | the solutions of a query, a column for each variable |
//!
//! IRIs, blank nodes and literals are texts here, as in CSV results; a column of terms that are all integers or all
//! truth values is one of `bigint` or `boolean`, and a column of other numbers is one of `double`.
//!
//! A value given for a name ([`SessionOptions::given`]) is the parameter `$name` of the statement: a literal of a
//! type of SQL is a value of this type, and any other term is a text.

use super::sparql::sparql;
use super::{CheckedText, LanguageOptions, QueryLanguage, Question, TextReading};
use crate::error::Error;
use crate::session::{Call, CallLimits, Prepared, SessionOptions};
use crate::sink::{Sink, SolutionBatch, Solutions, Taker};
use oxrdf::{NamedNodeRef, Term};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use vicus::{BoxError, Column, Envelope, Turn};
use vicus_language::{Answer, Compiler as _, Completion, SourcePosition, TextError, TextErrorKind, Watch};
use vicus_rdf::{Id, Order, Snapshot, TermKind, TermView};
use vicus_sql::{
    Catalogue, ColumnRange, MemoryTable, ParsedStatement, Scan, Sql, SqlType, Table, TableColumn, Tables, complete_sql,
};

/// The options of SQL.
#[derive(Clone, Default)]
pub struct SqlOptions {
    /// Files that statements read as tables, by their names.
    pub tables: Arc<Tables>,
}

impl SqlOptions {
    /// About how many rows a table has, if known.
    pub fn rows(&self, table: &str) -> Option<u64> {
        self.tables.table(&[table.to_owned()])?.rows()
    }

    /// The tables' names, each with the names and the types of its columns.
    pub fn columns(&self) -> Vec<(String, Vec<(String, SqlType)>)> {
        let shown = |name: String| {
            let table = self.tables.table(std::slice::from_ref(&name))?;
            let columns = table.columns().iter().map(|column| (column.name.clone(), column.kind.clone())).collect();
            Some((name, columns))
        };
        self.tables.names().into_iter().filter_map(shown).collect()
    }
}

impl fmt::Debug for SqlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlOptions").field("tables", &self.tables.names()).finish()
    }
}

/// Statements of SQL, as a door names them.
#[derive(Debug)]
pub(super) struct SqlTexts;

impl QueryLanguage for SqlTexts {
    fn name(&self) -> &'static str {
        "sql"
    }

    fn number(&self) -> u32 {
        1
    }

    fn about(&self) -> &'static str {
        "SELECT of SQL"
    }

    fn media_types(&self) -> &'static [&'static str] {
        &["application/sql", "text/sql", "text/x-sql"]
    }

    fn needs_data(&self) -> bool {
        false
    }

    fn reads_files(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn read(&self, text: &str, reading: &TextReading<'_>) -> Result<CheckedText, Error> {
        let options = reading.options();
        let sql = Sql { catalogue: &*options.languages.sql.tables };
        let ends = reading.ends();
        let parse = || sql.parse_until(text, &options.text, &ends).map_err(Into::into);
        reading.read(&SqlTexts, text, sql.parsing_bytes(text), parse)
    }

    fn question(&self, _: &CheckedText) -> Question {
        Question { word: "select", answer: Answer::Rows { columns: Vec::new() } }
    }

    /// A call of `SPARQL('…')` in the text is answered at once, as a part of this call: within its time and its memory.
    fn plan(&self, call: &Call, checked: &CheckedText) -> Result<Arc<Prepared>, Error> {
        let files = &*call.session.options().languages.sql.tables;
        let (held, given) = (Cell::new(checked.bytes()), &call.session.options().given[..]);
        let unused = RefCell::new(given.iter().map(|(name, _)| name.as_str()).collect());
        let tables = SqlTables { files, call, held, refused: RefCell::default(), unused };
        let prepared = call.plan_in(&Sql { catalogue: &tables }, checked.parsed::<ParsedStatement>(), checked);
        if let (Ok(_), Some(name)) = (&prepared, tables.unused.borrow().first()) {
            let message = format!("a value is given for ${name}, and the statement has no such parameter");
            return Err(Error::Query(TextError::new(TextErrorKind::Wrong, SourcePosition::default(), message)));
        }
        match tables.refused.take() {
            // It says more than the error of a text.
            Some(refused) if prepared.is_err() => Err(refused),
            _ => prepared,
        }
    }

    fn complete(
        &self,
        text: &str,
        cursor: usize,
        data: &Snapshot,
        options: &LanguageOptions,
        _watch: &dyn Watch,
    ) -> Completion {
        let names = Names { tables: &options.sql.tables, predicates: predicates(data) };
        complete_sql(text, cursor, &names)
    }
}

/// So many predicates are suggested as tables, in the order of the data.
const PREDICATES: usize = 1000;

fn predicates(data: &Snapshot) -> Vec<String> {
    let iris = data.statistics().predicates().filter_map(|each| match data.term(each.id) {
        Term::NamedNode(iri) => Some(iri.into_string()),
        _ => None,
    });
    iris.take(PREDICATES).collect()
}

/// The tables of files, and those of the data's predicates.
struct Names<'a> {
    tables: &'a Tables,
    predicates: Vec<String>,
}

impl Catalogue for Names<'_> {
    fn table(&self, name: &[String]) -> Option<Arc<dyn Table>> {
        self.tables.table(name).or_else(|| {
            // The columns of every predicate have these names.
            let columns = ["subject", "object"].map(|name| TableColumn::new(name, SqlType::Varchar));
            self.predicates.contains(&name.join(".")).then(|| Arc::new(MemoryTable::new(columns, [])) as _)
        })
    }

    fn names(&self) -> Vec<String> {
        self.tables.names().into_iter().chain(self.predicates.iter().cloned()).collect()
    }
}

/// Tables of files, and of the call's data.
struct SqlTables<'a> {
    files: &'a Tables,
    call: &'a Call,
    /// The call's bytes: its text, and the tables made so far.
    held: Cell<u64>,
    /// Why a table could not be made, if not because of its text.
    refused: RefCell<Option<Error>>,
    /// The names of the given values that the statement has not asked for.
    unused: RefCell<BTreeSet<&'a str>>,
}

impl Catalogue for SqlTables<'_> {
    fn table(&self, name: &[String]) -> Option<Arc<dyn Table>> {
        if let Some(table) = self.files.table(name) {
            return Some(table);
        }
        let [name] = name else { return None };
        let part_rows = PART_ENVELOPES * self.call.session.options().plan.envelope_rows.max(1);
        PredicateTable::of(self.call.session.dataset().snapshot(), name, part_rows).map(|table| Arc::new(table) as _)
    }

    fn names(&self) -> Vec<String> {
        self.files.names()
    }

    fn function(&self, name: &str, arguments: &[String]) -> Option<Result<Arc<dyn Table>, String>> {
        if !name.eq_ignore_ascii_case("sparql") {
            return None;
        }
        // Planning a part has no time limit of its own.
        if self.call.is_part() {
            return Some(Err("a part of a statement for another process has no SPARQL('…')".to_owned()));
        }
        Some(match arguments {
            [text] => self.solutions(text),
            _ => Err("SPARQL takes one argument, the text of a SELECT".to_owned()),
        })
    }

    fn parameter(&self, name: &str) -> Option<Result<(vicus_sql::Value, SqlType), String>> {
        let given = &self.call.session.options().given;
        let (_, term) = given.iter().find(|(given, _)| given == name)?;
        self.unused.borrow_mut().remove(name);
        Some(value_of_term(term))
    }
}

/// A term as a value of SQL: of the literal's type, if SQL has it, else a text.
fn value_of_term(term: &Term) -> Result<(vicus_sql::Value, SqlType), String> {
    let text = |text: &str| Ok((vicus_sql::Value::Varchar(Arc::from(text)), SqlType::Varchar));
    let literal = match term {
        Term::NamedNode(iri) => return text(iri.as_str()),
        Term::Literal(literal) => literal,
        _ => return Err(format!("{term} is neither an IRI nor a literal")),
    };
    let datatype = literal.datatype();
    let name = datatype.as_str().strip_prefix("http://www.w3.org/2001/XMLSchema#").unwrap_or_default();
    let value = literal.value();
    let kind = match name {
        "boolean" => SqlType::Boolean,
        "integer" | "long" | "int" | "short" | "byte" => SqlType::BigInt,
        "nonNegativeInteger" | "positiveInteger" | "nonPositiveInteger" | "negativeInteger" => SqlType::BigInt,
        "unsignedLong" | "unsignedInt" | "unsignedShort" | "unsignedByte" => SqlType::BigInt,
        "double" | "float" => SqlType::Double,
        "decimal" => {
            // As many digits as it is written with.
            let behind = value.split_once('.').map_or(0, |(_, digits)| digits.len());
            let scale = u8::try_from(behind).map_err(|_| format!("{value} has more digits than a decimal"))?;
            SqlType::Decimal { precision: DECIMAL_DIGITS, scale }
        }
        "date" => SqlType::Date,
        "time" => SqlType::Time,
        "dateTime" if has_zone(value) => SqlType::TimestampTz,
        "dateTime" => SqlType::Timestamp,
        _ => return text(value),
    };
    let read = vicus_sql::read_value(value, &kind);
    read.map(|value| (value, kind.clone())).ok_or_else(|| format!("`{value}` is no {kind}"))
}

/// Whether a date and time has a zone behind it.
fn has_zone(value: &str) -> bool {
    let time = value.split_once('T').map_or("", |(_, time)| time);
    time.contains(['Z', '+', '-'])
}

/// The digits of a decimal.
const DECIMAL_DIGITS: u8 = 38;

impl SqlTables<'_> {
    /// The solutions of a query as a table in memory.
    fn solutions(&self, text: &str) -> Result<Arc<dyn Table>, String> {
        let wrong = |error: Error| {
            let message = format!("SPARQL: {error}");
            if !matches!(error, Error::Query(_) | Error::Failed { .. }) {
                self.refused.replace(Some(error));
            }
            message
        };
        let Call { session, allowance } = self.call;
        let options = session.options();
        // All solutions are wanted, however few rows of the statement are.
        let limits = CallLimits { rows: None, ..options.limits.clone() };
        let options = SessionOptions {
            first_rows: None,
            parallel_answers: false,
            counts: false,
            limits,
            given: Vec::new(),
            ..options.clone()
        };
        let call = Call { session: session.with(options), allowance: allowance.clone() };
        let prepared = call.prepare_beside(self.held.get(), &sparql(&call.session), text).map_err(wrong)?;
        let Answer::Rows { columns: names } = prepared.form().clone() else {
            return Err("SPARQL takes a SELECT, whose solutions are rows".to_owned());
        };
        let collect = Collect { columns: names.len(), cells: Mutex::default() };
        let (columns, outcome) = call.answer(&prepared, collect).map_err(wrong)?;
        let named = names.into_iter().zip(&columns).map(|(name, (kind, _))| TableColumn::new(name, kind.clone()));
        let named: Vec<TableColumn> = named.collect();
        let rows = Envelope::of_rows(columns.into_iter().map(|(_, column)| column).collect(), outcome.rows as usize);
        let table = MemoryTable::new(named, [rows]);
        // A run gives back its share.
        let (before, bytes) = (self.held.get(), table.held_bytes());
        let held = before.saturating_add(bytes);
        allowance.hold(held, [("the solutions of SPARQL", bytes), ("its text and tables", before)]).map_err(wrong)?;
        self.held.set(held);
        Ok(Arc::new(table))
    }
}

/// Collects solutions by columns.
struct Collect {
    columns: usize,
    /// The cells handed out by each box.
    cells: Mutex<Vec<Vec<Vec<Value>>>>,
}

struct CollectTaker {
    collect: Arc<Collect>,
    columns: Vec<Vec<Value>>,
    /// The bytes of the cells.
    bytes: u64,
}

/// The text of a term, as CSV has it.
fn text_of(view: TermView<'_>) -> String {
    match view {
        TermView::Iri(text) | TermView::String(text) => text.to_owned(),
        TermView::LangString { value, .. } | TermView::DirString { value, .. } | TermView::Typed { value, .. } => {
            value.to_owned()
        }
        TermView::Boolean(value) => value.to_string(),
        TermView::Integer(value) => value.to_string(),
        TermView::Blank(blank) => format!("_:{blank}"),
        view @ TermView::Triple(_) => view.to_string(),
    }
}

/// A value, as it comes.
enum Value {
    Null,
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Text(String),
}

fn value_of(view: TermView<'_>) -> Value {
    match view {
        TermView::Boolean(value) => Value::Boolean(value),
        TermView::Integer(value) => Value::Integer(value),
        TermView::Typed { value, datatype } => {
            let name = datatype.strip_prefix("http://www.w3.org/2001/XMLSchema#");
            let is_number = matches!(name, Some("double" | "float" | "decimal" | "integer"));
            let number = value.parse().ok().filter(|_| is_number);
            number.map_or_else(|| Value::Text(value.to_owned()), Value::Double)
        }
        view => Value::Text(text_of(view)),
    }
}

/// A column of values, of the narrowest type for all of them.
fn column_of(values: Vec<Value>) -> (SqlType, Column) {
    let all = |fits: fn(&Value) -> bool| values.iter().all(|cell| matches!(cell, Value::Null) || fits(cell));
    let nulls = || values.iter().enumerate().filter(|(_, cell)| matches!(cell, Value::Null)).map(|(row, _)| row);
    let has_value = values.iter().any(|cell| !matches!(cell, Value::Null));
    let (kind, column) = if has_value && all(|cell| matches!(cell, Value::Boolean(_))) {
        let values: Vec<bool> = values.iter().map(|cell| matches!(cell, Value::Boolean(true))).collect();
        (SqlType::Boolean, Column::from(values))
    } else if has_value && all(|cell| matches!(cell, Value::Integer(_))) {
        let value = |cell: &Value| if let Value::Integer(value) = cell { *value } else { 0 };
        (SqlType::BigInt, Column::from(values.iter().map(value).collect::<Vec<i64>>()))
    } else if has_value && all(|cell| matches!(cell, Value::Integer(_) | Value::Double(_))) {
        let value = |cell: &Value| match cell {
            Value::Integer(value) => *value as f64,
            Value::Double(value) => *value,
            _ => 0.0,
        };
        (SqlType::Double, Column::from(values.iter().map(value).collect::<Vec<f64>>()))
    } else {
        let text = |cell: &Value| match cell {
            Value::Null => String::new(),
            Value::Boolean(value) => value.to_string(),
            Value::Integer(value) => value.to_string(),
            Value::Double(value) => format!("{value:?}"),
            Value::Text(text) => text.clone(),
        };
        (SqlType::Varchar, values.iter().map(text).collect::<Column>())
    };
    (kind, column.with_nulls(nulls()))
}

impl Value {
    /// Its bytes, and the bytes of its later column.
    fn bytes(&self) -> u64 {
        let text = if let Value::Text(text) = self { text.capacity() } else { 0 };
        2 * (size_of::<Value>() + text) as u64
    }
}

impl Sink for Collect {
    type Taker = CollectTaker;
    /// A type and a column for each variable.
    type Output = Vec<(SqlType, Column)>;

    fn taker(self: &Arc<Self>, _: &Arc<Solutions>) -> CollectTaker {
        let columns = (0..self.columns).map(|_| Vec::new()).collect();
        CollectTaker { collect: Arc::clone(self), columns, bytes: 0 }
    }

    fn finish(&self, _: &Solutions, _: u64) -> io::Result<Vec<(SqlType, Column)>> {
        let mut boxes = std::mem::take(&mut *self.cells.lock().unwrap_or_else(PoisonError::into_inner));
        let column = |number: usize| {
            let mut values = boxes.iter_mut().map(|columns| std::mem::take(&mut columns[number]));
            let first = values.next().unwrap_or_default();
            column_of(values.fold(first, |mut all, more| {
                all.extend(more);
                all
            }))
        };
        Ok((0..self.columns).map(column).collect())
    }
}

impl Taker for CollectTaker {
    fn take(&mut self, batch: &SolutionBatch<'_>, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        for row in 0..batch.rows() {
            for (number, column) in self.columns.iter_mut().enumerate() {
                let value = batch.view(row, number, value_of).unwrap_or(Value::Null);
                self.bytes += value.bytes();
                column.push(value);
            }
        }
        turn.book(self.bytes)?;
        if batch.is_last() {
            let columns = std::mem::take(&mut self.columns);
            self.collect.cells.lock().unwrap_or_else(PoisonError::into_inner).push(columns);
        }
        Ok(())
    }
}

/// The triples of the default graph with a predicate.
struct PredicateTable {
    snapshot: Arc<Snapshot>,
    columns: [TableColumn; 2],
    rows: Range<usize>,
    part_rows: usize,
}

/// The envelopes of a part of a table: few, so threads and machines sharing it out end at about the same time.
const PART_ENVELOPES: usize = 4;

impl PredicateTable {
    fn of(snapshot: &Arc<Snapshot>, iri: &str, part_rows: usize) -> Option<PredicateTable> {
        let id = snapshot.id(NamedNodeRef::new(iri).ok()?.into())?;
        let predicate = snapshot.statistics().predicate(id)?;
        let kind = match predicate.objects.only_kind() {
            Some(TermKind::Integer) => SqlType::BigInt,
            Some(TermKind::Boolean) => SqlType::Boolean,
            _ => SqlType::Varchar,
        };
        let columns = [TableColumn::new("subject", SqlType::Varchar), TableColumn::new("object", kind)];
        let rows = snapshot.index(Order::Gpso).range(&[Id::UNBOUND, id]);
        Some(PredicateTable { snapshot: Arc::clone(snapshot), columns, rows, part_rows })
    }
}

impl Table for PredicateTable {
    fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows.len() as u64)
    }

    fn parts(&self) -> usize {
        self.rows.len().div_ceil(self.part_rows).max(1)
    }

    /// With the same data.
    fn is_everywhere(&self) -> bool {
        true
    }

    fn scan(&self, columns: &[usize], part: usize, _: &[ColumnRange]) -> Box<dyn Scan> {
        let from = self.rows.start + part * self.part_rows;
        Box::new(PredicateScan {
            snapshot: Arc::clone(&self.snapshot),
            columns: columns.iter().map(|&column| (column, self.columns[column].kind.clone())).collect(),
            rows: from..self.rows.end.min(from + self.part_rows),
        })
    }
}

struct PredicateScan {
    snapshot: Arc<Snapshot>,
    columns: Vec<(usize, SqlType)>,
    rows: Range<usize>,
}

impl Scan for PredicateScan {
    fn next(&mut self, most_rows: usize) -> Result<Option<Envelope>, BoxError> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let rows = self.rows.start..self.rows.end.min(self.rows.start + most_rows.max(1));
        self.rows.start = rows.end;
        let index = self.snapshot.index(Order::Gpso);
        let column = |&(column, ref kind): &(usize, SqlType)| {
            // Behind the graph and the predicate.
            let ids = index.values(2 + column, rows.clone());
            let seen = |id: Id| self.snapshot.view(id, value_of);
            match kind {
                SqlType::BigInt => {
                    let value = |id| if let Value::Integer(value) = seen(id) { value } else { 0 };
                    Column::from(ids.map(value).collect::<Vec<i64>>())
                }
                SqlType::Boolean => {
                    Column::from(ids.map(|id| matches!(seen(id), Value::Boolean(true))).collect::<Vec<bool>>())
                }
                _ => ids.map(|id| self.snapshot.view(id, text_of)).collect::<Column>(),
            }
        };
        Ok(Some(Envelope::of_rows(self.columns.iter().map(column).collect(), rows.len())))
    }
}
