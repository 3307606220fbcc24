//! The sources of rows: tables, their scans, and the catalogue of their names.

use crate::types::{SqlType, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Schema};

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: SqlType,
    /// The reason if it can't be read, such as a type unknown to SQL here. A statement that uses the column is refused
    /// with this text.
    pub unreadable: Option<String>,
}

impl TableColumn {
    /// A column of this name and type.
    pub fn new(name: impl Into<String>, kind: SqlType) -> TableColumn {
        TableColumn { name: name.into(), kind, unreadable: None }
    }

    /// A column closed to all statements, and the reason.
    ///
    /// ```
    /// use vicus_sql::TableColumn;
    ///
    /// let column = TableColumn::unreadable("parts", "it is a list");
    /// assert_eq!(column.unreadable.as_deref(), Some("it is a list"));
    /// ```
    pub fn unreadable(name: impl Into<String>, why: impl Into<String>) -> TableColumn {
        TableColumn { unreadable: Some(why.into()), ..TableColumn::new(name, SqlType::Varchar) }
    }
}

/// A statement's demand on a column's values: a scan may leave out rows with a value outside, or with null. The
/// remaining rows are checked again.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnRange {
    /// The column's place in [`Table::columns`].
    pub column: usize,
    /// The least value, of the column's type, if there is one.
    pub least: Option<Value>,
    /// The greatest value, of the column's type, if there is one.
    pub greatest: Option<Value>,
}

impl ColumnRange {
    /// Whether the range may have rows of a part, given the least and the greatest value of the part.
    ///
    /// ```
    /// use vicus_sql::{ColumnRange, Value};
    ///
    /// let range = ColumnRange { column: 0, least: Some(Value::BigInt(5)), greatest: None };
    /// assert!(range.meets(&Value::BigInt(1), &Value::BigInt(5)));
    /// assert!(!range.meets(&Value::BigInt(1), &Value::BigInt(4)));
    /// ```
    pub fn meets(&self, least: &Value, greatest: &Value) -> bool {
        let is_below = self.least.as_ref().is_some_and(|from| greatest.order(from).is_some_and(|order| order.is_lt()));
        let is_above = self.greatest.as_ref().is_some_and(|to| least.order(to).is_some_and(|order| order.is_gt()));
        !is_below && !is_above
    }
}

/// A table, readable in parts and by several boxes at once.
pub trait Table: Send + Sync {
    /// Its columns. Their names need not differ, but a repeated name can't be used.
    fn columns(&self) -> &[TableColumn];

    /// The approximate number of rows, if known.
    fn rows(&self) -> Option<u64>;

    /// The number of its parts; each is scanned by itself.
    fn parts(&self) -> usize;

    /// Begins to read a part: these columns, in this order. `filters` may be used to leave rows out, see
    /// [`ColumnRange`].
    fn scan(&self, columns: &[usize], part: usize, filters: &[ColumnRange]) -> Box<dyn Scan>;

    /// The columns in the types that the table keeps them in, if it can give these as well as SQL's.
    fn kept(&self) -> Option<&Schema> {
        None
    }

    /// Begins to read a part as it is kept: these columns, in the types of [`Table::kept`].
    fn scan_kept(&self, columns: &[usize], part: usize) -> Box<dyn Scan> {
        self.scan(columns, part, &[])
    }

    /// Whether a scan's [`next`](Scan::next) may block its thread, for example to read a file. The box then calls it
    /// within [`Turn::blocking`](vicus_flow::Turn::blocking).
    fn blocks(&self) -> bool {
        false
    }

    /// Whether scans have something to [load](Scan::load).
    fn loads(&self) -> bool {
        false
    }

    /// Whether all machines of a plan ([`PlanOptions::machines`](crate::PlanOptions)) have the table, with the same
    /// parts.
    fn is_everywhere(&self) -> bool {
        false
    }

    /// How many bytes of memory it holds. They count as the plan's if the table was made for a statement
    /// ([`Catalogue::function`]).
    fn held_bytes(&self) -> u64 {
        0
    }
}

/// A table can't be read, because its file is damaged, say. The error of a [`Scan`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnreadableTable(
    /// The table, the place in it, and what is wrong.
    pub String,
);

impl std::fmt::Display for UnreadableTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnreadableTable {}

/// A part of a table being read.
pub trait Scan: Send {
    /// The next rows, up to a limit; `None` at the end. An envelope without rows means that more may come. The columns
    /// have the [flow types](SqlType::flow_type) of the requested ones; without columns, the number of rows alone
    /// counts ([`Envelope::of_rows`]).
    ///
    /// # Errors
    /// The request fails with any error.
    fn next(&mut self, most_rows: usize) -> Result<Option<Envelope>, BoxError>;

    /// Reads the data for the next [`next`](Scan::next), for scans that first read and then compute. If the table
    /// [says so](Table::loads), the box calls it before each `next`, within
    /// [`Turn::blocking`](vicus_flow::Turn::blocking).
    ///
    /// # Errors
    /// The request fails with any error.
    fn load(&mut self) -> Result<(), BoxError> {
        Ok(())
    }

    /// The bytes of memory held between two calls. They count against the request's budget.
    fn held_bytes(&self) -> u64 {
        0
    }
}

/// The tables a statement can name.
pub trait Catalogue {
    /// The table of this name, given as its parts: `["main", "orders"]` for `main.orders`.
    fn table(&self, name: &[String]) -> Option<Arc<dyn Table>>;

    /// The names of all tables, for suggestions and for names in other letters.
    fn names(&self) -> Vec<String>;

    /// The table made by a function in FROM of its arguments (literals); `None` if there is no such function. An
    /// error's text explains the mistake in the arguments. A plan with such a table can't be kept: called again, the
    /// function may make another one.
    fn function(&self, _name: &str, _arguments: &[String]) -> Option<Result<Arc<dyn Table>, String>> {
        None
    }

    /// The value of a parameter, which a statement writes as `$name` or `:name`; `None` if there is no such parameter.
    /// An error's text says why its value is none of SQL. A plan with a parameter can't be kept for other values.
    fn parameter(&self, _name: &str) -> Option<Result<(Value, SqlType), String>> {
        None
    }
}

/// A catalogue of tables by name.
///
/// ```
/// use std::sync::Arc;
/// use vicus_flow::Envelope;
/// use vicus_sql::{Catalogue, MemoryTable, SqlType, TableColumn, Tables};
///
/// let numbers = MemoryTable::new(
///     [TableColumn::new("n", SqlType::BigInt)],
///     [Envelope::new([vec![1i64, 2, 3].into()])],
/// );
/// let mut tables = Tables::default();
/// tables.add("numbers", Arc::new(numbers));
/// assert!(tables.table(&["numbers".to_owned()]).is_some());
/// ```
#[derive(Clone, Default)]
pub struct Tables(BTreeMap<String, Arc<dyn Table>>);

impl Tables {
    /// Adds a table, in place of an earlier one with this name.
    pub fn add(&mut self, name: impl Into<String>, table: Arc<dyn Table>) {
        self.0.insert(name.into(), table);
    }
}

impl Catalogue for Tables {
    fn table(&self, name: &[String]) -> Option<Arc<dyn Table>> {
        self.0.get(&name.join(".")).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

/// A table in memory; each envelope is a part.
#[derive(Clone, Debug)]
pub struct MemoryTable {
    columns: Vec<TableColumn>,
    parts: Vec<Envelope>,
}

impl MemoryTable {
    /// A table of these rows. Panics if an envelope's columns are not those.
    pub fn new(
        columns: impl IntoIterator<Item = TableColumn>,
        parts: impl IntoIterator<Item = Envelope>,
    ) -> MemoryTable {
        let table = MemoryTable { columns: columns.into_iter().collect(), parts: parts.into_iter().collect() };
        for part in &table.parts {
            let fits = |(column, of): (&vicus_flow::Column, &TableColumn)| of.kind.has(column);
            let are_these = part.columns().len() == table.columns.len();
            let are_these = are_these && part.columns().iter().zip(&table.columns).all(fits);
            assert!(are_these, "the envelopes have the columns {:?}", table.columns);
        }
        table
    }
}

impl Table for MemoryTable {
    fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    fn rows(&self) -> Option<u64> {
        Some(self.parts.iter().map(|part| part.rows() as u64).sum())
    }

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn held_bytes(&self) -> u64 {
        self.parts.iter().map(Envelope::held_bytes).sum()
    }

    fn scan(&self, columns: &[usize], part: usize, _filters: &[ColumnRange]) -> Box<dyn Scan> {
        let part = &self.parts[part];
        let picked = columns.iter().map(|&column| part.column(column).clone()).collect();
        Box::new(MemoryScan { rows: Envelope::of_rows(picked, part.rows()), next: 0 })
    }
}

struct MemoryScan {
    rows: Envelope,
    next: usize,
}

impl Scan for MemoryScan {
    fn next(&mut self, most_rows: usize) -> Result<Option<Envelope>, BoxError> {
        let from = self.next;
        self.next = self.rows.rows().min(from.saturating_add(most_rows));
        Ok((self.next > from).then(|| self.rows.slice(from..self.next)))
    }
}
