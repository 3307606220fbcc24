//! Parse, plan and lower a query to a flow model.
//!
//! ```text
//!  text ── parse ──▶ Parsed ── translate ──▶ algebra over slots and ids
//!                    optimise ─▶ the same, rewritten: filters down, constants in, anti-joins
//!                    planner ──▶ physical operators: indexes, join order, columns
//!                    lower ────▶ a vicus_flow model: a box for each operator
//! ```
//!
//! Begin at [`parse()`] and [`plan()`]. Of what takes long, [`plan_until`] can be stopped, and a request that runs can be
//! cancelled; [`parse()`] takes time in the length of the text and can't be stopped, so whoever takes texts of megabytes
//! calls it where nobody has to wait for it.
//!
//! All that flows is ids; terms are looked at by the few expressions that need their
//! values, and by whoever prints the solutions.

mod algebra;
mod boxes;
mod computed;
mod condition;
mod error;
mod evaluate;
mod explain;
mod expression;
mod limits;
mod longest_token;
mod lower;
mod nesting;
mod optimise;
mod parse;
mod plan;
mod planner;
mod route;
mod slots;
mod stop;
mod terms;
mod translate;
mod value;

pub use error::{QueryError, QueryErrorKind};
pub use limits::Limits;
pub use parse::{Parsed, parse, parse_with_base};
pub use plan::{Form, Options, Plan, Run, plan, plan_until};
pub use terms::Moment;
