//! Objects as files below a folder.

use super::{Objects, ReadAt};
use crate::store::number;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// A file that is not whole begins with this.
const UNFINISHED: &str = ".unfinished-";

/// The bytes that are copied at once.
const PIECE: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(path: &Path) -> Folder {
        Folder(path.to_owned())
    }

    fn list_below(path: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with('.') {
                continue;
            }
            match entry.file_type()?.is_dir() {
                // Names of objects have one slash at most.
                true if prefix.is_empty() => Folder::list_below(&entry.path(), &format!("{name}/"), names)?,
                true => {}
                false => names.push(format!("{prefix}{name}")),
            }
        }
        Ok(())
    }
}

impl Objects for Folder {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        Folder::list_below(&self.0, "", &mut names)?;
        Ok(names)
    }

    fn get(&self, name: &str, range: Option<(u64, u64)>) -> io::Result<Option<Vec<u8>>> {
        let path = self.0.join(name);
        let Some((from, to)) = range else {
            return match fs::read(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                read => read.map(Some),
            };
        };
        let mut file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = vec![0; (to - from) as usize];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn put(&self, name: &str, bytes: u64, read: &mut ReadAt<'_>) -> io::Result<()> {
        let path = self.0.join(name);
        let folder = path.parent().expect("a name is below the folder").to_owned();
        if !folder.exists() {
            fs::create_dir_all(&folder)?;
            // The new folder lasts when the one above it is synced.
            let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
            File::open(above.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        // By chance, since another machine may write to the folder, and may have processes of the same number.
        let unfinished = folder.join(format!("{UNFINISHED}{:016x}", number()));
        let mut write = || {
            let mut file = File::create_new(&unfinished)?;
            let (mut at, mut piece) = (0, vec![0; PIECE.min(bytes as usize)]);
            while at < bytes {
                let most = piece.len().min((bytes - at) as usize);
                read(at, &mut piece[..most])?;
                file.write_all(&piece[..most])?;
                at += most as u64;
            }
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            // The new name lasts when the folder is synced.
            File::open(&folder)?.sync_all()
        };
        write().inspect_err(|_: &io::Error| {
            let _ = fs::remove_file(&unfinished);
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}
