//! The tables that a statement of SQL can name: those of files, the store's predicates, and the rows of a query of SPARQL.
//!
//! | in FROM | rows |
//! |---|---|
//! | `name` | those of the file that was given this name |
//! | `"http://xmlns.com/foaf/0.1/name"` | the triples of the default graph with this predicate: columns `subject` and `object` |
//! | `SPARQL('SELECT …')` | the solutions of a query, a column for each variable |
//!
//! IRIs, blank nodes and literals are texts here, as results in CSV have them; a column whose terms are all integers or all truth values is
//! one of `bigint` or `boolean`, and of numbers among which are others one of `double`.

use crate::session::Session;
use crate::sink::Each;
use oxrdf::NamedNodeRef;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use vicus::{BoxError, Column, Envelope};
use vicus_rdf::{Id, Kind, Order, Snapshot, TermView};
use vicus_sparql::Form;
use vicus_sql::{Catalogue, ColumnRange, MemoryTable, Scan, SqlType, Table, TableColumn, Tables};

/// Tables of files, and of the data that a session asks. To be made anew for each statement, so that it reads the data as it is then.
#[derive(Clone)]
pub struct SqlTables {
    files: Tables,
    session: Session,
}

impl SqlTables {
    /// These files, and the data of this session, whose calls answer `SPARQL('…')`.
    pub fn new(files: Tables, session: &Session) -> SqlTables {
        SqlTables { files, session: session.clone() }
    }
}

impl Catalogue for SqlTables {
    fn table(&self, name: &[String]) -> Option<Arc<dyn Table>> {
        if let Some(table) = self.files.table(name) {
            return Some(table);
        }
        let [name] = name else { return None };
        PredicateTable::of(self.session.dataset().snapshot(), name).map(|table| Arc::new(table) as _)
    }

    fn names(&self) -> Vec<String> {
        self.files.names()
    }

    fn function(&self, name: &str, arguments: &[String]) -> Option<Result<Arc<dyn Table>, String>> {
        if !name.eq_ignore_ascii_case("sparql") {
            return None;
        }
        Some(match arguments {
            [text] => solutions(&self.session, text),
            _ => Err("SPARQL takes one argument, the text of a SELECT".to_owned()),
        })
    }
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

/// A cell, as it comes.
enum Cell {
    Null,
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Text(String),
}

fn cell_of(view: TermView<'_>) -> Cell {
    match view {
        TermView::Boolean(value) => Cell::Boolean(value),
        TermView::Integer(value) => Cell::Integer(value),
        TermView::Typed { value, datatype } => {
            let name = datatype.strip_prefix("http://www.w3.org/2001/XMLSchema#");
            let is_number = matches!(name, Some("double" | "float" | "decimal" | "integer"));
            let number = value.parse().ok().filter(|_| is_number);
            number.map_or_else(|| Cell::Text(value.to_owned()), Cell::Double)
        }
        view => Cell::Text(text_of(view)),
    }
}

/// A column of cells, of the narrowest type that has all of them.
fn column_of(cells: Vec<Cell>) -> (SqlType, Column) {
    let all = |fits: fn(&Cell) -> bool| cells.iter().all(|cell| matches!(cell, Cell::Null) || fits(cell));
    let nulls = || cells.iter().enumerate().filter(|(_, cell)| matches!(cell, Cell::Null)).map(|(row, _)| row);
    let has_value = cells.iter().any(|cell| !matches!(cell, Cell::Null));
    let (kind, column) = if has_value && all(|cell| matches!(cell, Cell::Boolean(_))) {
        let values: Vec<bool> = cells.iter().map(|cell| matches!(cell, Cell::Boolean(true))).collect();
        (SqlType::Boolean, Column::from(values))
    } else if has_value && all(|cell| matches!(cell, Cell::Integer(_))) {
        let value = |cell: &Cell| if let Cell::Integer(value) = cell { *value } else { 0 };
        (SqlType::BigInt, Column::from(cells.iter().map(value).collect::<Vec<i64>>()))
    } else if has_value && all(|cell| matches!(cell, Cell::Integer(_) | Cell::Double(_))) {
        let value = |cell: &Cell| match cell {
            Cell::Integer(value) => *value as f64,
            Cell::Double(value) => *value,
            _ => 0.0,
        };
        (SqlType::Double, Column::from(cells.iter().map(value).collect::<Vec<f64>>()))
    } else {
        let text = |cell: &Cell| match cell {
            Cell::Null => String::new(),
            Cell::Boolean(value) => value.to_string(),
            Cell::Integer(value) => value.to_string(),
            Cell::Double(value) => format!("{value:?}"),
            Cell::Text(text) => text.clone(),
        };
        (SqlType::Varchar, cells.iter().map(text).collect::<Column>())
    };
    (kind, column.with_nulls(nulls()))
}

/// The solutions of a query as a table in memory.
fn solutions(session: &Session, text: &str) -> Result<Arc<dyn Table>, String> {
    let mut call = session.call().map_err(|error| error.to_string())?;
    let prepared = call.prepare(text).map_err(|error| error.to_string())?;
    let Form::Select { variables } = prepared.form().clone() else {
        return Err("SPARQL takes a SELECT, whose solutions are rows".to_owned());
    };
    let columns: Arc<Mutex<Vec<Vec<Cell>>>> = Arc::new(Mutex::new(variables.iter().map(|_| Vec::new()).collect()));
    let filled = Arc::clone(&columns);
    let each = Each::new(move |batch| {
        let mut columns = filled.lock().unwrap_or_else(PoisonError::into_inner);
        for row in 0..batch.rows() {
            for (number, column) in columns.iter_mut().enumerate() {
                column.push(batch.view(row, number, cell_of).unwrap_or(Cell::Null));
            }
        }
        Ok(())
    });
    let ((), outcome) = call.answer(&prepared, each).map_err(|error| error.to_string())?;
    let columns = std::mem::take(&mut *columns.lock().unwrap_or_else(PoisonError::into_inner));
    let columns: Vec<(SqlType, Column)> = columns.into_iter().map(column_of).collect();
    let named = variables.into_iter().zip(&columns).map(|(name, (kind, _))| TableColumn::new(name, *kind));
    let named: Vec<TableColumn> = named.collect();
    let rows = Envelope::of_rows(columns.into_iter().map(|(_, column)| column).collect(), outcome.rows as usize);
    Ok(Arc::new(MemoryTable::new(named, [rows])))
}

/// The triples of the default graph that have a predicate.
struct PredicateTable {
    snapshot: Arc<Snapshot>,
    columns: [TableColumn; 2],
    rows: Range<usize>,
}

/// A part of a table has so many rows at least.
const PART_ROWS: usize = 1 << 16;

impl PredicateTable {
    fn of(snapshot: &Arc<Snapshot>, iri: &str) -> Option<PredicateTable> {
        let id = snapshot.id(NamedNodeRef::new(iri).ok()?.into())?;
        let predicate = snapshot.statistics().predicate(id)?;
        let kind = match predicate.objects.only_kind() {
            Some(Kind::Integer) => SqlType::BigInt,
            Some(Kind::Boolean) => SqlType::Boolean,
            _ => SqlType::Varchar,
        };
        let columns = [TableColumn::new("subject", SqlType::Varchar), TableColumn::new("object", kind)];
        let rows = snapshot.index(Order::Gpso).range(&[Id::UNBOUND, id]);
        Some(PredicateTable { snapshot: Arc::clone(snapshot), columns, rows })
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
        self.rows.len().div_ceil(PART_ROWS).max(1)
    }

    fn scan(&self, columns: &[usize], part: usize, _: &[ColumnRange]) -> Box<dyn Scan> {
        let from = self.rows.start + part * PART_ROWS;
        Box::new(PredicateScan {
            snapshot: Arc::clone(&self.snapshot),
            columns: columns.iter().map(|&column| (column, self.columns[column].kind)).collect(),
            rows: from..self.rows.end.min(from + PART_ROWS),
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
        let column = |&(column, kind): &(usize, SqlType)| {
            // Behind the graph and the predicate.
            let ids = index.values(2 + column, rows.clone());
            let seen = |id: Id| self.snapshot.view(id, cell_of);
            match kind {
                SqlType::BigInt => {
                    let value = |id| if let Cell::Integer(value) = seen(id) { value } else { 0 };
                    Column::from(ids.map(value).collect::<Vec<i64>>())
                }
                SqlType::Boolean => {
                    Column::from(ids.map(|id| matches!(seen(id), Cell::Boolean(true))).collect::<Vec<bool>>())
                }
                _ => ids.map(|id| self.snapshot.view(id, text_of)).collect::<Column>(),
            }
        };
        Ok(Some(Envelope::of_rows(self.columns.iter().map(column).collect(), rows.len())))
    }
}
