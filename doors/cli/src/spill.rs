//! Options about rows without room in memory.

use crate::query::bytes;
use anyhow::Context;
use std::path::{Path, PathBuf};
use vicus_service::TemporaryFolder;

#[derive(clap::Args)]
pub(crate) struct SpillArgs {
    /// The folder of temporary files, for rows of joins, GROUP BY, ORDER BY, DISTINCT and CONSTRUCT beyond the memory
    /// limit. The files have no names, and are gone when the query ends. By default the store's own folder, or, for
    /// data without a store and for read-only stores, the system's folder (TMPDIR, else /tmp).
    #[arg(long, value_name = "DIR", conflicts_with = "no_spill", help_heading = "Temporary files")]
    temp_folder: Option<PathBuf>,
    /// The most bytes of a query's temporary files; a query that needs more fails.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "32G", conflicts_with = "no_spill")]
    #[arg(help_heading = "Temporary files")]
    temp_limit: u64,
    /// Writes no temporary files: queries that outgrow the memory limit fail.
    #[arg(long, help_heading = "Temporary files")]
    no_spill: bool,
}

impl SpillArgs {
    /// The folder of temporary files, for queries to a store or to other data. Without `--temp-folder`, none if no
    /// folder can be written to.
    pub(crate) fn folder(&self, store: Option<&Path>) -> anyhow::Result<Option<TemporaryFolder>> {
        if self.no_spill {
            return Ok(None);
        }
        let usable = |path: &Path| {
            let folder = TemporaryFolder::open(path)?.within(self.temp_limit);
            folder.check().map(|()| folder)
        };
        match &self.temp_folder {
            Some(path) => usable(path).map(Some).with_context(|| format!("--temp-folder {}", path.display())),
            None => Ok(store.and_then(|path| usable(path).ok()).or_else(|| usable(&std::env::temp_dir()).ok())),
        }
    }
}
