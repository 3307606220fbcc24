//! Durable files: checksummed base files, a write-ahead log, and a manifest that names the valid ones.
//!
//! All of it carries bytes. Their meaning is core/store's business, so this crate's tests, with a loss of power at
//! every operation of many programs, build and run in seconds.
//!
//! ```text
//!  StoreFiles   one process writes: the lock, the manifest, the log, new generations of base files
//!    │
//!  Manifest     CURRENT: generation, the base files with their checksums, and up to which record they include the log
//!    ├─ BaseFile   base-GENERATION-NAME: written once, sections of words, a checksum for each page of 64 KiB
//!    └─ Log        log-NUMBER: segments of frames; a frame is one sync's records, all or none
//! ```
//!
//! **Promises.** A record acknowledged by [`Log`] is there after a crash, and so are all before it. An unacknowledged
//! one is there wholly or not at all, and only if all before it are. After a failure each operation names one of two
//! cases: surely not there, or in doubt until the store is opened again. A page returned wrong by the drive is found by
//! its checksum before its bytes are used, and named.
//!
//! **Assumptions** on the directory stand in core/files. Above all: a successful sync after a failed one proves
//! nothing, so nothing under a failed sync is relied upon. It is written again under another name, or given up.

mod base;
mod error;
mod fetched;
mod log;
mod manifest;
mod store;

pub use base::{BaseFile, BaseWriter, Fingerprint, PAGE, Section};
pub use error::{Damage, DiskError};
pub use fetched::{Fetched, Fetching};
pub use log::{BadRecord, Flight, FramePlace, Landing, Log, LogPart, LogPlace, Refusal, TornTail};
pub use manifest::{BaseEntry, Epoch, EpochStart, Lineage, Manifest};
pub use store::{NotPublished, Opening, Recovered, StoreFiles, kept_aside};
