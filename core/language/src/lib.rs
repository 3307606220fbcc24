//! What a language module gives a door: a planned text as a flow model, and as a tree of operators that says what each of them is
//! expected to do and what it did.
//!
//! A module is one crate above core/flow. It knows a grammar and a catalogue; it plans a text, and lowers the plan to boxes and vias. Doors
//! know this crate's words alone, so that they explain, limit, cancel and trace every language alike.

mod node;

pub use node::{Done, PlanNode};
