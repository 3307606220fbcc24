//! Files read into memory, for Windows: a file that is mapped there can be neither replaced nor removed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Deref;
use vicus_files::MappedBytes;

/// The bytes of a file, read into memory: whatever happens to the file, they stay.
pub(super) struct LoadedFile {
    /// In lines, as readers of columns expect aligned words.
    lines: Vec<Line>,
    len: usize,
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line {
    _bytes: [u8; 64],
}

impl LoadedFile {
    /// Reads a whole file, from its beginning.
    pub(super) fn new(mut file: &File) -> io::Result<LoadedFile> {
        let too_long = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let len = usize::try_from(file.metadata()?.len()).map_err(too_long)?;
        let count = len.div_ceil(size_of::<Line>());
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        lines.resize(count, Line { _bytes: [0; 64] });
        let mut loaded = LoadedFile { lines, len };
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(loaded.bytes_mut())?;
        Ok(loaded)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        #[expect(unsafe_code, reason = "lines of bytes as bytes")]
        // SAFETY: a line is its bytes alone, without padding, and there are enough lines for this length.
        unsafe {
            std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len)
        }
    }
}

impl Deref for LoadedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        #[expect(unsafe_code, reason = "lines of bytes as bytes")]
        // SAFETY: as in `bytes_mut`.
        unsafe {
            std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len)
        }
    }
}

impl MappedBytes for LoadedFile {}
