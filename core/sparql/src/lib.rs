//! Parse, plan and lower a query to a flow model.
//!
//! ```text
//!  text ── syntax ─▶ ParsedQuery ── translate ──▶ algebra over slots and ids
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
mod module;
mod operators;
mod optimise;
mod parse;
mod passing_terms;
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

pub use boxes::spill::QuerySpill;
pub use complete::{KNOWN_PREFIXES, complete};
pub use cost::{parsing_bytes, parsing_bytes_with, update_bytes_with};
pub use error::{QueryError, QueryErrorKind};
pub use graphs::DefaultGraph;
pub use limits::QueryLimits;
pub use module::Sparql;
pub use parse::{ParsedQuery, parse, parse_with};
pub use plan::{Form, QueryOptions, QueryRun, RunOptions, SparqlPlan, plan, plan_until};
pub use remarks::remarks;
pub use service::{Endpoints, ServiceFailed, SolutionSink};
pub use syntax::ParseOptions;
pub use terms::Moment;
pub use update::{
    DocumentLoad, Filled, Filling, Graphs, Update, UpdateChange, UpdateError, UpdateOperation, UpdateStep,
    parse_update, parse_update_with,
};
pub use vicus_language::{Done, Machines, PlanNode, PlanOptions, Watch};
