//! Statements and their answers: expected values come from SQLite and DuckDB.

mod answers;
mod bounds;
mod errors;
mod plans;
mod random;
mod recursive;
mod run;
mod spilling;
