//! Generated data, in a folder deleted on drop.

use crate::{generate, interrupt};
use anyhow::Context;
use std::path::PathBuf;

/// A folder among the system's temporary ones.
pub(super) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Ctrl-C deletes the folder, too, and ends the process.
    pub(super) fn new() -> anyhow::Result<Scratch> {
        let folder = std::env::temp_dir().join(format!("vicus-bench-{}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| format!("{}: can't be made", folder.display()))?;
        // Without a handler the folder stays; this does no harm.
        let _ = ctrlc::set_handler({
            let folder = folder.clone();
            move || {
                let _ = std::fs::remove_dir_all(&folder);
                std::process::exit(interrupt::STATUS);
            }
        });
        Ok(Scratch { folder })
    }

    /// The path of a file or folder in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A file of about this many triples, as `vicus generate sp2b` writes it; it replaces the one before.
    pub(super) fn generate(&self, triples: u64) -> anyhow::Result<String> {
        let path = self.folder.join("sp2b.nt");
        generate::sp2b_file(&path, triples, 1)?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Scratch {
    /// A file with this text.
    pub(super) fn write(&self, name: &str, text: &str) -> anyhow::Result<String> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("{}: can't be written", path.display()))?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
