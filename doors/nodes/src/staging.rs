//! Files that get their places together, and other work that is done, when a whole network has done well.

use crate::locked;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use vicus_network::{EndWork, Kinds};

/// Files that the boxes of a network write beside their places, and work that they leave for the end. The files are
/// renamed together then, so a network that ended in the middle leaves what was there, and can be run again.
#[derive(Clone, Default)]
pub(crate) struct Staging(Arc<Mutex<Staged>>);

#[derive(Default)]
struct Staged {
    files: Vec<StagedFile>,
    /// Such as transactions of stores.
    works: Vec<EndWork>,
}

/// A file on its way. Dropped before it has its place, it is removed.
#[derive(Debug)]
struct StagedFile {
    staged: PathBuf,
    place: PathBuf,
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // One that has its place is no longer here, and one that was never opened never was.
        let _ = std::fs::remove_file(&self.staged);
    }
}

impl Staging {
    /// Kinds whose files and work are staged here.
    pub(crate) fn kinds(&self, kinds: &Kinds) -> Kinds {
        let (files, works) = (self.clone(), self.clone());
        let kinds = kinds.clone().with_files_to_write(move |file| files.stage(file));
        kinds.with_work_at_end(Arc::new(move |work| works.staged().works.push(work)))
    }

    /// The file to be written for a place.
    ///
    /// # Errors
    /// Something other than a file is there, such as a pipe: what it was given can't be taken back.
    fn stage(&self, place: PathBuf) -> Result<PathBuf, String> {
        /// Several boxes, of several networks in one process, may write one file.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if place.as_os_str() == "-" {
            return Err("rows that were printed can't be taken back, so the network can't be run again".to_owned());
        }
        let shown = || place.display().to_string();
        // The target of a link is written, and the link stays.
        let place = match place.canonicalize() {
            Ok(found) if found.is_file() => found,
            Ok(_) => return Err(format!("{}: it is no file, so the network can't be run again", shown())),
            Err(_) => place,
        };
        let Some(name) = place.file_name() else { return Err(format!("{}: it has no name", place.display())) };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let staged = format!(".{}.{}-{number}.staged", name.to_string_lossy(), std::process::id());
        let staged = place.with_file_name(staged);
        self.staged().files.push(StagedFile { staged: staged.clone(), place });
        Ok(staged)
    }

    fn staged(&self) -> MutexGuard<'_, Staged> {
        locked(&self.0)
    }

    /// Whether there is something to commit.
    pub(crate) fn has_any(&self) -> bool {
        let staged = self.staged();
        !staged.files.is_empty() || !staged.works.is_empty()
    }

    /// Does all work, and gives all files their places. To be called when all of them are written, and once.
    ///
    /// # Errors
    /// The system refuses, or work has failed. Before that is done and the first file has its place, all files are on
    /// the disk, so that a full one leaves what was there.
    pub(crate) fn commit(&self) -> io::Result<()> {
        let Staged { files, works } = std::mem::take(&mut *self.staged());
        let named =
            |path: &Path, error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        for file in &files {
            let synced = File::open(&file.staged).and_then(|staged| staged.sync_all());
            synced.map_err(|error| named(&file.place, error))?;
        }
        works.into_iter().try_for_each(|work| work()).map_err(io::Error::other)?;
        for file in &files {
            std::fs::rename(&file.staged, &file.place).map_err(|error| named(&file.place, error))?;
        }
        let mut folders: Vec<&Path> = files.iter().filter_map(|file| file.place.parent()).collect();
        folders.sort_unstable();
        folders.dedup();
        for folder in folders {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            // Some file systems sync no folders; the files are there all the same.
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("vicus-staging-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn files_get_their_places_together_or_leave_what_was_there() {
        let folder = folder("together");
        std::fs::write(folder.join("a"), "before").unwrap();
        let (first, second) = (Staging::default(), Staging::default());
        for (staging, text) in [(&first, "first"), (&second, "second")] {
            std::fs::write(staging.stage(folder.join("a")).unwrap(), text).unwrap();
            std::fs::write(staging.stage(folder.join("b")).unwrap(), text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "before");
        // An attempt that was given up leaves nothing.
        drop(first);
        assert_eq!(names(&folder).len(), 3);
        second.commit().unwrap();
        assert_eq!(names(&folder), ["a", "b"]);
        assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "second");
        // A file that was never written is an error before any of them has its place.
        let third = Staging::default();
        std::fs::write(third.stage(folder.join("a")).unwrap(), "third").unwrap();
        third.stage(folder.join("c")).unwrap();
        assert!(third.commit().unwrap_err().to_string().contains("/c: "));
        assert_eq!(names(&folder), ["a", "b"]);
        assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "second");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn links_keep_their_targets_and_devices_are_refused() {
        let folder = folder("links");
        std::fs::write(folder.join("target"), "before").unwrap();
        std::os::unix::fs::symlink("target", folder.join("link")).unwrap();
        let staging = Staging::default();
        std::fs::write(staging.stage(folder.join("link")).unwrap(), "after").unwrap();
        staging.commit().unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("target")).unwrap(), "after");
        assert!(folder.join("link").symlink_metadata().unwrap().is_symlink());
        assert!(staging.stage(PathBuf::from("/dev/null")).unwrap_err().contains("is no file"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
