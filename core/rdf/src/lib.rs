//! RDF at rest: terms, ids, dictionary, sorted indexes, and how they are loaded. No queries, no threads, no files.
//!
//! * [`ids`]: 64 bits that name a term and sort as SPARQL sorts.
//! * [`term`] and [`dictionary`]: from terms to ids and back.
//! * [`index`](mod@index): all triples in one order, as columns; a pattern is a range of rows.
//! * [`statistics`]: counts for a planner, and [`characteristic`]: which predicates go together.
//! * [`store`]: all of it together; start at [`Store`].
//! * [`load`]: from N-Triples and Turtle to a store, in steps that can run at the same time.

pub mod characteristic;
pub mod dictionary;
pub mod ids;
pub mod index;
pub mod load;
mod placed;
pub mod statistics;
pub mod store;
pub mod term;

pub use dictionary::Dictionary;
pub use ids::{Id, Kind};
pub use index::{Cursor, Index, Order, Position};
pub use load::{Loader, OnError, SyntaxError};
pub use placed::Placement;
pub use statistics::Statistics;
pub use store::{Memory, Store};
pub use term::{Encoded, Encoder, TermView, inline};
