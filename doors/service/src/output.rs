//! Files that doors write: packed by their name's ending, and renamed at the end, so that a name never leads to half
//! of a file.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Stdout, Write};
use std::path::{Path, PathBuf};

/// The target of what a door writes.
pub struct Output {
    packed: Packed,
    /// A file that has another name until all is written.
    unfinished: Option<Unfinished>,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("is_unfinished", &self.unfinished.is_some()).finish_non_exhaustive()
    }
}

enum Packed {
    Plain(Box<dyn Write + Send>),
    Gzip(GzEncoder<Box<dyn Write + Send>>),
    Zstd(zstd::Encoder<'static, Box<dyn Write + Send>>),
}

impl Output {
    /// Standard output, packed as a file of this name is.
    ///
    /// # Errors
    /// There is no memory to pack it.
    pub fn stdout(name: &str) -> io::Result<Output> {
        Ok(Output { packed: Packed::new(Box::new(BufWriter::<Stdout>::new(io::stdout())), name)?, unfinished: None })
    }

    /// A writer, packed as a file of this name is. It is written to directly.
    ///
    /// # Errors
    /// There is no memory to pack it.
    pub fn over(writer: impl Write + Send + 'static, name: &str) -> io::Result<Output> {
        Ok(Output { packed: Packed::new(Box::new(writer), name)?, unfinished: None })
    }

    /// A path: packed by gzip or zstd if its name ends in `.gz` or `.zst`. A pipe or a device is written to directly. A
    /// file is written beside the existing one, or beside the target of a link, until [`Output::keep`]; without that
    /// call the old content stays.
    ///
    /// # Errors
    /// The system refuses the file.
    pub fn create(path: &Path) -> io::Result<Output> {
        let name = path.to_string_lossy();
        let buffered = |file: File| -> Box<dyn Write + Send> { Box::new(BufWriter::with_capacity(1 << 20, file)) };
        if !is_to_be_replaced(path)? {
            let file = File::options().write(true).open(path)?;
            return Ok(Output { packed: Packed::new(buffered(file), &name)?, unfinished: None });
        }
        let unfinished = Unfinished::beside(followed(path))?;
        let file = unfinished.file.try_clone()?;
        Ok(Output { packed: Packed::new(buffered(file), &name)?, unfinished: Some(unfinished) })
    }

    /// Writes the rest; a file gets its name.
    ///
    /// # Errors
    /// The rest can't be written, or the file can't be renamed.
    pub fn keep(self) -> io::Result<()> {
        match self.packed {
            Packed::Plain(writer) => writer,
            Packed::Gzip(writer) => writer.finish()?,
            Packed::Zstd(writer) => writer.finish()?,
        }
        .flush()?;
        self.unfinished.map_or(Ok(()), Unfinished::keep)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.packed {
            Packed::Plain(writer) => writer.write(bytes),
            Packed::Gzip(writer) => writer.write(bytes),
            Packed::Zstd(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.packed {
            Packed::Plain(writer) => writer.flush(),
            Packed::Gzip(writer) => writer.flush(),
            Packed::Zstd(writer) => writer.flush(),
        }
    }
}

impl Packed {
    fn new(inner: Box<dyn Write + Send>, name: &str) -> io::Result<Packed> {
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        Ok(match ending.as_deref() {
            Some("gz") => Packed::Gzip(GzEncoder::new(inner, Compression::fast())),
            Some("zst") => Packed::Zstd(zstd::Encoder::new(inner, 1)?),
            _ => Packed::Plain(inner),
        })
    }
}

/// A file under another name than it is to have. Dropped, it is removed.
struct Unfinished {
    beside: PathBuf,
    target: PathBuf,
    file: File,
}

impl Unfinished {
    /// Creates a file beside another one, under an unused name.
    fn beside(target: PathBuf) -> io::Result<Unfinished> {
        let mut number = 0;
        loop {
            let mut beside = target.as_os_str().to_owned();
            beside.push(format!(".{}-{number}.part", std::process::id()));
            match File::create_new(&beside) {
                // From a killed process with the same id.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                created => return Ok(Unfinished { beside: beside.into(), target, file: created? }),
            }
        }
    }

    fn keep(self) -> io::Result<()> {
        // Else power loss may leave the new name with an empty file.
        self.file.sync_data()?;
        // The name that is removed afterwards is gone.
        fs::rename(&self.beside, &self.target)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.beside);
    }
}

/// Whether a path leads to standard output, such as `/dev/stdout`: figures about what is written must not be shown
/// there.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == OsStr::new("-") || leads_to_stdout(path).unwrap_or(false)
}

#[cfg(unix)]
fn leads_to_stdout(path: &Path) -> io::Result<bool> {
    use std::os::fd::AsFd;

    let path = fs::metadata(path)?;
    let stdout = || File::from(io::stdout().as_fd().try_clone_to_owned()?).metadata();
    Ok(!path.is_file() && vicus_machine::is_same_file(&path, &stdout()?))
}

/// No path does.
#[cfg(not(unix))]
fn leads_to_stdout(_path: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Whether there is a file at a path, or nothing: neither a pipe nor a device.
///
/// # Errors
/// The system refuses to look.
pub fn is_to_be_replaced(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        found => Ok(found?.is_file()),
    }
}

/// The target of a path's links, whether a file is there or not.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    while let Ok(next) = fs::read_link(&path) {
        // Relative to the link's folder, unless it is absolute.
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    path
}
