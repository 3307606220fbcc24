//! Folders of the system for temporary files.

use std::path::Path;
use std::sync::Arc;
use vicus_files::{Directory, FileError, Scratch};
use vicus_machine::SystemDirectory;
use vicus_sparql::QuerySpill;

/// A folder for temporary files: calls that outgrow their memory write rows into them. The files have no names: they
/// are gone when the call ends, and when the process does.
///
/// ```
/// use vicus_service::TemporaryFolder;
///
/// let folder = TemporaryFolder::open(&std::env::temp_dir())?;
/// folder.check()?;
/// assert!(TemporaryFolder::open("no/such/folder".as_ref()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TemporaryFolder {
    directory: Arc<dyn Directory>,
    most: u64,
}

impl TemporaryFolder {
    /// The folder at this path.
    ///
    /// # Errors
    /// There is none, or the system refuses.
    pub fn open(path: &Path) -> Result<TemporaryFolder, FileError> {
        Ok(TemporaryFolder { directory: Arc::new(SystemDirectory::open(path)?), most: u64::MAX })
    }

    /// This folder, with at most `bytes` for each call.
    pub fn within(self, bytes: u64) -> TemporaryFolder {
        TemporaryFolder { most: bytes, ..self }
    }

    /// Makes a file there, and drops it.
    ///
    /// # Errors
    /// The system refuses: the folder can't be written to.
    pub fn check(&self) -> Result<(), FileError> {
        self.directory.temporary().map(drop)
    }

    /// For a run with boxes that may hold `budget` bytes together.
    pub(crate) fn spill(&self, budget: u64) -> QuerySpill {
        QuerySpill { scratch: Scratch::within(Arc::clone(&self.directory), self.most), budget }
    }
}
