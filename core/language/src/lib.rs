//! A language module as a door sees it: a text and a catalogue become a flow model, the boxes that hand out its rows,
//! and a tree of operators with the expected and the actual work of each.
//!
//! ```text
//!  Compiler ── parse ──▶ Parsed ── plan ──▶ Runnable ── begin ──▶ operators of one run, and what its rows are read by
//!     │                    │                  │
//!     └ its catalogue      └ or a TextError, with its place, also from planning
//! ```
//!
//! A module is one crate above core/flow. It knows a grammar and a catalogue; it plans a text, and lowers the plan to
//! boxes and vias. Doors know this crate's words alone, so they explain, limit, cancel and trace every language alike.
//! [`Stop`] counts the cost of planning, and [`stack`] lets it recurse as deeply as a text is nested.
//!
//! Begin at [`Compiler`].

mod completion;
mod error;
pub mod machines;
mod module;
mod node;
mod options;
mod remark;
pub mod stack;
mod stop;
mod values;

pub use completion::{Completion, Suggestion, SuggestionKind};
pub use error::{SourcePosition, TextError, TextErrorKind};
pub use machines::{Alone, Machines};
pub use module::{Answer, Compiler, PartOfPlan, Planned, RunOperators, Runnable};
pub use node::{Done, PlanNode, RunCounts, StepBox};
pub use options::{PlanOptions, TextLimits};
pub use remark::{Remark, RemarkKind};
pub use stop::{Costs, Ends, Stop, Stopped, Watch};
pub use values::{ValueColumns, ValueType};
pub use vicus_topology::names::{similar_names, suggestion};
