//! Folders of the system for temporary files.

use std::path::Path;
use std::sync::Arc;
use vicus::flow::{Overflow, Overflows};
use vicus::{BoxError, TemporaryFiles};
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

    /// The place beside memory of networks that run outside of calls, such as those of a server's node. The bound on
    /// bytes is that of each via, and of each box that writes.
    pub fn overflows(&self) -> Arc<dyn Overflows> {
        Arc::new(OutsideOfCalls(self.clone()))
    }

    /// For a run with boxes that may hold `budget` bytes together.
    pub(crate) fn spill(&self, budget: u64) -> QuerySpill {
        QuerySpill { scratch: Scratch::within(Arc::clone(&self.directory), self.most), budget }
    }
}

/// Files of networks that come and go as long as the process runs: a bound on all that they write would end one day.
#[derive(Debug)]
struct OutsideOfCalls(TemporaryFolder);

impl Overflows for OutsideOfCalls {
    fn begin(&self) -> Result<Box<dyn Overflow>, BoxError> {
        let TemporaryFolder { directory, most } = &self.0;
        TemporaryFiles::beside(Scratch::within(Arc::clone(directory), *most)).begin()
    }
}
