//! What strategies promise, and what a seat decides by their plans.

mod depend;
mod interpreted;
mod las;
mod plans;
mod seat;
