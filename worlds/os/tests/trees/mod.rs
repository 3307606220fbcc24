//! Recorded files of machines, for tests: one text for each machine in `fixtures/trees`, unpacked into folders.
//!
//! `fixtures/trees/README.md` says what their lines are.

use std::path::{Path, PathBuf};

/// Folders of unpacked machines; removed when dropped.
pub(crate) struct Unpacked(PathBuf);

impl Unpacked {
    pub(crate) fn new(test: &str) -> Unpacked {
        // In memory if there is a place for that: a machine has hundreds of files.
        let memory = PathBuf::from("/dev/shm");
        let place = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = place.join(format!("vicus-trees-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is a temporary folder");
        Unpacked(folder)
    }

    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).expect("it was made");
        let mut folders: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be read").path()).collect();
        folders.sort();
        folders
    }

    /// Unpacks one text, and gives the folder.
    pub(crate) fn unpack(&self, name: &str, text: &str) -> PathBuf {
        let root = self.0.join(name);
        std::fs::create_dir_all(&root).expect("a folder");
        let (mut folder, mut open) = (root.clone(), None::<(PathBuf, String)>);
        // A mutated text may have a file below a file, or a name twice: what can't be made is left out.
        let close = |open: &mut Option<(PathBuf, String)>| {
            if let Some((path, text)) = open.take() {
                let _ = std::fs::create_dir_all(path.parent().expect("it is below the root"));
                let _ = std::fs::write(path, text + "\n");
            }
        };
        for line in text.lines() {
            if let (Some(more), Some((_, text))) = (line.strip_prefix("| "), &mut open) {
                *text += "\n";
                *text += more;
                continue;
            }
            close(&mut open);
            if let Some(path) = line.strip_prefix("@ ") {
                // Nothing is written outside of the root.
                folder = root.join(path.replace("..", ".").trim_start_matches('/'));
                let _ = std::fs::create_dir_all(&folder);
            } else if let Some((name, content)) = line.split_once(" = ") {
                open = Some((folder.join(name.replace("..", ".").trim_start_matches('/')), content.to_owned()));
            } else if let Some((name, target)) = line.split_once(" -> ") {
                let path = folder.join(name.replace("..", ".").trim_start_matches('/'));
                let _ = std::fs::create_dir_all(path.parent().expect("it is below the root"));
                let _ = std::os::unix::fs::symlink(target, path);
            }
        }
        close(&mut open);
        root
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        // A leftover in the temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The names and texts of all recorded machines.
pub(crate) fn all() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/trees");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut all: Vec<(String, String)> = entries
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .map(|path| {
            let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a text"))
        })
        .collect();
    all.sort();
    all
}

pub(crate) fn unpack_all(test: &str) -> Unpacked {
    let unpacked = Unpacked::new(test);
    for (name, text) in all() {
        unpacked.unpack(&name, &text);
    }
    unpacked
}
