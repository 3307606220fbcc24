//! Parse, plan and lower a query to a flow model.
//!
//! ```text
//!  text ── syntax ─▶ Parsed ── translate ──▶ algebra over slots and ids
//!                    optimise ─▶ the same, rewritten: filters down, constants in, anti-joins
//!                    planner ──▶ a tree of operators: indexes, join order, columns
//!                    lower ────▶ a vicus_flow model: boxes for each operator
//! ```
//!
//! Begin at [`parse()`] and [`plan()`]. [`plan_until`] can be stopped, and a running request can be cancelled;
//! [`parse()`] takes time in proportion to the text, some 100 ms for ten megabytes.
//!
//! Boxes exchange ids only. Terms are read by the few expressions that need their values, and by the caller that prints
//! the solutions.

mod algebra;
mod boxes;
mod complete;
mod condition;
mod cost;
mod crossing;
mod error;
mod evaluate;
mod explain;
mod expression;
mod graphs;
mod limits;
mod lower;
mod machines;
mod module;
mod operators;
mod optimise;
mod parse;
mod passing;
mod plan;
mod planner;
mod remarks;
mod route;
mod service;
mod slots;
mod stack;
mod syntax;
mod terms;
mod translate;
mod update;
mod value;

pub use boxes::spill::Spill;
pub use complete::{Completion, KNOWN_PREFIXES, Suggestion, SuggestionKind, complete};
pub use cost::{parsing_bytes, parsing_bytes_with, update_bytes_with};
pub use error::{QueryError, QueryErrorKind};
pub use graphs::DefaultGraph;
pub use limits::Limits;
pub use machines::Machines;
pub use module::Sparql;
pub use parse::{Parsed, parse, parse_with};
pub use plan::{Form, Plan, QueryOptions, Run, RunOptions, plan, plan_until};
pub use remarks::remarks;
pub use service::{Endpoints, ServiceFailed, SolutionSink};
pub use syntax::ParseOptions;
pub use terms::Moment;
pub use update::{
    Change, Filled, Filling, Graphs, Load, Operation, Step, Update, UpdateError, parse_update, parse_update_with,
};
pub use vicus_language::{Done, PlanNode, PlanOptions, Watch};
