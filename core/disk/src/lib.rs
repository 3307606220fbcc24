//! What outlasts a crash: checksummed base files, a write-ahead log, and a manifest that says which of them are valid.
//!
//! All of it carries bytes. What these mean is core/rdf's business, so that this crate's tests, which lose power at every operation
//! of many programs, build and run in seconds.
//!
//! ```text
//!  StoreFiles   one process writes: the lock, the manifest, the log, new generations of base files
//!    │
//!  Manifest     CURRENT: generation, the base files with their checksums, and up to which record they include the log
//!    ├─ BaseFile   base-GENERATION-NAME: written once, sections of words, a checksum for each page of 64 KiB
//!    └─ Log        log-NUMBER: segments of frames; a frame is one sync's records, all or none
//! ```
//!
//! **What is promised.** A record that [`Log`] has acknowledged is there after a crash, and so are all before it. One that was not
//! acknowledged is there wholly or not at all, and only if all before it are. After a failure each operation says which of the two it
//! is: surely not there, or in doubt until the store is opened again. A page that the drive returns wrong is found
//! by its checksum before its bytes are used, and named.
//!
//! **What is assumed** of the directory stands in core/files. Above all: a sync that succeeds after one that failed proves
//! nothing, so nothing that was under a failed sync is relied upon. It is written again under another name, or given up.

mod base;
mod error;
mod log;
mod manifest;
mod store;

pub use base::{BaseFile, BaseWriter, Fingerprint, PAGE, Section};
pub use error::{Damage, DiskError};
pub use log::{Broken, Flight, FramePlace, Landing, Log, Refusal, Torn};
pub use manifest::{BaseEntry, Manifest};
pub use store::{NotPublished, Opening, Recovered, StoreFiles, kept_aside};
