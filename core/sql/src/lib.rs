//! Parse, plan and lower a statement of SQL to a flow model, over tables that a catalogue knows.
//!
//! ```text
//!  text ── parse ──▶ Parsed ── bind ──▶ operators over numbered columns
//!                    optimise ─▶ the same, rewritten: constants, filters down, join order, columns left out
//!                    lower ────▶ a vicus_flow model: a box for each operator, or several
//! ```
//!
//! Begin at [`parse()`] and [`plan()`]. A [`Table`] is what doors implement over files and stores.
//!
//! SELECT is what can be asked: with joins of all kinds, WHERE, GROUP BY, HAVING, aggregates, DISTINCT, set operations,
//! ORDER BY, LIMIT, WITH, VALUES, and subqueries with IN, EXISTS and as values. Where dialects differ: integers
//! overflow with an error and are divided without a remainder; what is divided by zero is null; nulls are greater than
//! all values in ORDER BY, unless it says otherwise; LIKE tells capital from small letters and has no escape character
//! unless it names one; names in quotes are taken as they are, others in any letters.

mod bind;
mod boxes;
mod cost;
mod date;
mod dialect;
mod error;
mod evaluate;
mod explain;
mod expression;
mod lower;
mod module;
mod optimise;
mod parse;
mod plan;
mod relation;
mod table;
mod types;

pub use date::{date_text, timestamp_text};
pub use error::{Place, SqlError, SqlErrorKind};
pub use module::Sql;
pub use parse::{ParseOptions, Parsed, parse};
pub use plan::{Plan, plan};
pub use table::{Catalogue, ColumnRange, MemoryTable, Scan, Table, TableColumn, Tables, UnreadableTable};
pub use types::{SqlType, Value};
pub use vicus_language::{PlanNode, PlanOptions, Watch};
