//! The promises of strategies, and the decisions of a seat by their plans.

mod depend;
mod interpreted;
mod las;
mod plans;
mod recorded;
mod seat;
mod threads;
