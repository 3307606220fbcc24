//! Parses, plans and lowers a statement of SQL to a flow model, over the tables of a catalogue.
//!
//! ```text
//!  text ── parse ──▶ ParsedStatement ── bind ──▶ operators over numbered columns
//!                    optimise ─▶ the same, rewritten: constants, filters down, join order, columns left out
//!                    lower ────▶ a vicus_flow model: a box for each operator, or several
//! ```
//!
//! Begin at [`parse()`] and [`plan()`]. Doors implement [`Table`] over files and stores.
//!
//! SELECT is supported: with joins of all kinds, WHERE, GROUP BY, HAVING, aggregates, DISTINCT, set operations, ORDER
//! BY, LIMIT, WITH, VALUES, and subqueries with IN, EXISTS and as values. Choices among dialects: integers overflow
//! with an error and are divided without a remainder; division by zero is null; nulls are greater than all values in
//! ORDER BY, unless it says otherwise; LIKE tells capital from small letters and has no escape character unless it
//! names one; names in quotes are taken literally, others in any letters.

mod bind;
mod boxes;
mod complete;
mod convert;
mod cost;
mod date;
mod decimal;
mod dialect;
mod error;
mod evaluate;
mod explain;
mod expression;
mod lower;
mod module;
mod optimise;
mod origin;
mod parse;
mod plan;
mod read;
mod relation;
mod rows;
mod stream;
mod table;
mod types;
mod written;

pub use bind::FUNCTIONS;
pub use complete::complete_sql;
pub use convert::in_sql;
pub use date::{date_of, date_text, span_text, time_text, timestamp_of, timestamp_text};
pub use decimal::decimal_text;
pub use error::{SourcePosition, SqlError, SqlErrorKind};
pub use module::Sql;
pub use parse::{ParsedStatement, StatementLimits, parse, parse_until};
pub use plan::{SqlPlan, plan};
pub use read::{read_json, read_value, value_column};
pub use rows::{RowColumns, add_kept, add_rows};
pub use stream::{SqlStream, add_query, add_statement};
pub use table::{Catalogue, ColumnRange, MemoryTable, Scan, Table, TableColumn, Tables, UnreadableTable};
pub use types::{SqlType, Value};
pub use vicus_language::{PlanNode, PlanOptions, Watch};
pub use written::{json_text, write_json};
