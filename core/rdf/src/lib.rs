//! RDF data: terms, ids, dictionary, sorted indexes, and loading. No queries, no threads, no files but temporary ones.
//!
//! * [`ids`]: 64-bit names of terms. They sort as SPARQL sorts the terms.
//! * [`term`] and [`dictionary`]: from terms to ids and back; [`triple`]: triples as terms.
//! * [`index`](mod@index): all quads in one order, as columns; a pattern is a range of rows.
//! * [`search`]: many look-ups in one index, each from the end of the last one.
//! * [`unranked`]: terms missing in a sorted dictionary; [`retained`]: more of them than there is memory for; and
//!   [`delta`]: changes of an index since it was built.
//! * [`Changes`] make a new snapshot of an old one; [`Snapshot::united`] gives it a new base.
//! * [`statistics`]: counts for a planner, and [`characteristic`]: sets of predicates with a common subject.
//! * [`snapshot`]: all of it together; start at [`Snapshot`].
//! * [`sections`]: a snapshot as sections of a file, and [`checked_bytes`]: reading them in place.
//! * [`load`]: from all syntaxes of RDF to a store, in steps that can run at the same time.

mod base;
mod changes;
pub mod characteristic;
pub mod checked_bytes;
pub mod delta;
pub mod dictionary;
mod fingerprint;
pub mod ids;
pub mod index;
mod interrupt;
pub mod load;
mod packed;
mod placement;
mod present_rows;
pub mod quads;
pub mod retained;
pub mod search;
pub mod sections;
pub mod snapshot;
mod snapshot_union;
pub mod statistics;
mod storage;
pub mod term;
mod term_limits;
pub mod triple;
pub mod unranked;

pub use changes::{Changes, Graphs};
pub use dictionary::Dictionary;
pub use ids::{Id, SECTIONS, TermKind};
pub use index::{Index, Order, Position};
pub use interrupt::{Holding, Interrupt};
pub use load::{Loader, OnError, SyntaxError};
pub use placement::StorePlacement;
pub use retained::RetainedTerms;
pub use search::{Cursor, Reader, Searcher};
pub use snapshot::{OwnMemory, Snapshot, SnapshotMemory};
pub use statistics::Statistics;
pub use storage::Backing;
pub use term::{BlankView, Encoded, Encoder, TermView, inline};
pub use term_limits::{TermLimits, TermRefused};
pub use triple::{MOST_NESTED, TripleView, levels_of};
pub use unranked::{FreshTerms, Unranked};
