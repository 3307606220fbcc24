//! Base files that come from another copy of the store, piece by piece.
//!
//! The bytes that have come are kept in a file named after the base file's fingerprint, so that another process goes on
//! behind them. They are checked when all are there, page by page: bytes that were written but never synced may be
//! zeros after power loss, and then all of the file is fetched again.

use crate::base::{BaseFile, Fingerprint};
use crate::error::DiskError;
use std::sync::Arc;
use vicus_files::{Access, Directory, File};

const BEGINNING: &str = "fetched-";

fn name_of(fingerprint: Fingerprint) -> String {
    format!("{BEGINNING}{:08x}-{}", fingerprint.checksum, fingerprint.bytes)
}

/// Whether a file of this name is one that came, or is coming, from another copy.
pub(crate) fn is_fetched(name: &str) -> bool {
    name.starts_with(BEGINNING)
}

/// A base file, as far as it has come.
#[derive(Debug)]
pub struct Fetching {
    directory: Arc<dyn Directory>,
    file: Arc<dyn File>,
    fingerprint: Fingerprint,
    /// The number of bytes there.
    at: u64,
}

/// A base file that has come, and was checked.
#[derive(Debug)]
pub struct Fetched {
    pub(crate) name: String,
    pub(crate) fingerprint: Fingerprint,
}

impl Fetching {
    /// Begins to fetch the file with this fingerprint, or goes on. Others that were begun are removed.
    ///
    /// # Errors
    /// The system refuses.
    pub fn begin(directory: Arc<dyn Directory>, fingerprint: Fingerprint) -> Result<Fetching, DiskError> {
        let name = name_of(fingerprint);
        let names = directory.list()?;
        for other in names.iter().filter(|other| other.starts_with(BEGINNING) && **other != name) {
            directory.remove(other)?;
        }
        let file = match names.contains(&name) {
            true => directory.open(&name, Access::Write)?,
            false => directory.create(&name)?,
        };
        let at = file.len()?.min(fingerprint.bytes);
        Ok(Fetching { directory, file, fingerprint, at })
    }

    /// How many of its bytes are there: the place of the next ones.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How many bytes are still to come.
    pub fn left(&self) -> u64 {
        self.fingerprint.bytes - self.at
    }

    /// Adds the next bytes.
    ///
    /// # Errors
    /// The disk is full, or the system refuses. They can be added again.
    ///
    /// # Panics
    /// The file has fewer bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        assert!(bytes.len() as u64 <= self.left(), "it has {} bytes", self.fingerprint.bytes);
        self.file.write_at(self.at, bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Checks all of the file, when all bytes are there, and makes them durable.
    ///
    /// # Errors
    /// It differs from the file that was written: it is removed, and has to come again. Or the system refuses.
    pub fn finish(self, kind: [u8; 8]) -> Result<Fetched, DiskError> {
        assert_eq!(self.left(), 0, "all of it is there");
        let (name, fingerprint) = (name_of(self.fingerprint), self.fingerprint);
        self.file.sync()?;
        let check = || -> Result<(), DiskError> {
            let file = BaseFile::open(&*self.directory, &name, kind, Some(fingerprint))?;
            Ok(file.verify()?)
        };
        check().inspect_err(|error| {
            if !matches!(error, DiskError::File(_)) {
                let _ = self.directory.remove(&name);
            }
        })?;
        Ok(Fetched { name, fingerprint })
    }
}
