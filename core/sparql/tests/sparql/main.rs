//! The engine against other ways to answer: a naive evaluator, numbers from other engines, and known rows.
#![expect(clippy::disallowed_methods, reason = "tests read files")]

mod deep;
mod exists;
mod given;
mod grammar;
mod graphs;
mod growth;
mod large;
mod larger;
mod long;
mod made;
mod meaning;
mod naive;
mod paths;
mod plans;
mod random;
mod random_shapes;
mod random_triples;
mod random_values;
mod rows;
mod service;
mod small;
mod sp2b;
mod spilling;
mod stop;
mod triples;
mod update;
mod updating;
mod values;
