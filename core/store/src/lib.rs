//! A durable RDF store: snapshots for readers, transactions for one writer at a time, and files that survive a crash.
//!
//! ```text
//!  Store ── snapshot() ──▶ Arc<Snapshot>     what is durable now; a reader keeps it as long as it likes
//!    │
//!    ├── write() ──▶ Transaction             one at a time; sees its own changes; durable when commit() returns
//!    │                 └─ record ──▶ log     group commit: transactions that end during a sync share the next one
//!    ├── load() ───▶ base file               large data goes there, past the log
//!    └── merge() ──▶ base file               the log, merged into a new base, while readers and writers go on
//! ```
//!
//! **Durable before visible.** A transaction ends in three steps: its record is staged, and the next writer begins on
//! top of it; the record is written and synced, alone or with others; the snapshot is published to readers. So no
//! reader ever sees data a crash could take back, and a writer never waits for the drive but for its own commit. If the
//! sync fails, all staged transactions are refused, and so is the open one, because it was built on them.
//!
//! **A record is complete in itself**: it names terms by their kinds and keys, since ids change with each base. So the
//! log can be read on top of any base that includes less than it, with either of the two manifests a crash may bring
//! back.
//!
//! Nothing here blocks a thread by itself: how a caller waits for its turn is the world's business ([`Waiting`]).

mod archiving;
mod base;
mod check;
mod copies;
mod error;
mod following;
mod gathering;
mod mutant;
mod reading;
mod record;
mod staging;
mod store;
mod sync;
mod transaction;
mod turn;

pub use archiving::{ArchiveSource, Frozen};
pub use base::copy;
pub use check::{Checked, check};
pub use copies::{
    ARCHIVE_HEAD, ArchiveHorizon, ArchiveList, ArchivedRecords, LogSpan, NotArchived, Restoration, Until, archive_head,
    archived_base, base_of_archive, is_name_of_base, name_of_base, name_of_base_file, store_of_archive,
};
pub use copies::{Content, CopyAnswer, CopyDecision, CopyStanding, CopyStep, NotUnderstood, Offer, PROTOCOL, Refused};
pub use error::{CommitError, StoreError, Unread};
pub use following::Followed;
pub use reading::StoreReader;
pub use store::{CommitWatch, Repaired, Store, StorePlace, read, read_up_to, repair};
pub use transaction::{Ask, Batch, Committed, Pending, Transaction};
pub use turn::{NoWaiting, TicketGuard, TicketLock, Waiting};
pub use vicus_disk::{BaseEntry, DiskError, Epoch, EpochStart, Fetched, Fetching, Fingerprint, TornTail};
