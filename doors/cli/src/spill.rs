//! Options about rows that memory has no room for.

use anyhow::Context;
use std::path::{Path, PathBuf};
use vicus_service::TemporaryFolder;

#[derive(clap::Args)]
pub(crate) struct SpillArgs {
    /// The folder of temporary files, into which ORDER BY, DISTINCT and CONSTRUCT write rows beyond the memory limit. They have no names,
    /// and are gone when the query ends. By default the store's own folder, or, for data without a store and for stores that can't be
    /// written to, the system's folder (TMPDIR, else /tmp).
    #[arg(long, value_name = "DIR", conflicts_with = "no_spill")]
    temp_folder: Option<PathBuf>,
    /// Writes no temporary files: what outgrows the memory limit fails.
    #[arg(long)]
    no_spill: bool,
}

impl SpillArgs {
    /// The folder of temporary files, for queries to a store or to other data. Without `--temp-folder`, none if there is none that can be
    /// written to.
    pub(crate) fn folder(&self, store: Option<&Path>) -> anyhow::Result<Option<TemporaryFolder>> {
        if self.no_spill {
            return Ok(None);
        }
        let usable = |path: &Path| TemporaryFolder::open(path).and_then(|folder| folder.check().map(|()| folder));
        match &self.temp_folder {
            Some(path) => usable(path).map(Some).with_context(|| format!("--temp-folder {}", path.display())),
            None => Ok(store.and_then(|path| usable(path).ok()).or_else(|| usable(&std::env::temp_dir()).ok())),
        }
    }
}
