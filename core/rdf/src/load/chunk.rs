//! Cuts a line-based format into chunks of whole lines with their line numbers, so that each chunk can be parsed by
//! itself.

use memchr::{memchr, memchr_iter, memrchr};

/// Whole lines of a file.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The lines. All end with a newline, except perhaps the file's last.
    pub bytes: &'a [u8],
    /// The number of the first line; a file's first is 1.
    pub first_line: u64,
}

impl<'a> Chunk<'a> {
    /// A whole file.
    pub fn file(bytes: &'a [u8]) -> Chunk<'a> {
        Chunk { bytes, first_line: 1 }
    }
}

/// Cuts a file that arrives in buffers.
///
/// ```
/// use vicus_rdf::load::Chunker;
/// let mut chunker = Chunker::new(4);
/// let (chunks, used) = chunker.cut(b"one\ntwo\nth", false);
/// assert_eq!((chunks.len(), chunks[1].first_line, used), (2, 2, 8));
/// let (chunks, used) = chunker.cut(b"three", true);
/// assert_eq!((chunks[0].bytes, chunks[0].first_line, used), (&b"three"[..], 3, 5));
/// ```
#[derive(Clone, Debug)]
pub struct Chunker {
    chunk_bytes: usize,
    /// The number of the next line.
    line: u64,
}

impl Chunker {
    /// Makes chunks of at most this many bytes; only a longer line makes a longer chunk. Lines are counted from 1.
    pub fn new(chunk_bytes: usize) -> Chunker {
        Chunker { chunk_bytes, line: 1 }
    }

    /// The number of the first line that has not been cut.
    pub fn next_line(&self) -> u64 {
        self.line
    }

    /// The whole lines of `buffer` as chunks, and their number of bytes. The rest must come again at the front of the
    /// next buffer. With `last`, everything is cut. Takes linear time; a buffer without a newline is searched again the
    /// next time, so let it grow by a factor.
    pub fn cut<'a>(&mut self, buffer: &'a [u8], last: bool) -> (Vec<Chunk<'a>>, usize) {
        let used = if last { buffer.len() } else { memrchr(b'\n', buffer).map_or(0, |at| at + 1) };
        let mut chunks = Vec::new();
        let mut rest = &buffer[..used];
        while !rest.is_empty() {
            let front = &rest[..rest.len().min(self.chunk_bytes)];
            let end = if front.len() == rest.len() {
                rest.len()
            } else if let Some(at) = memrchr(b'\n', front) {
                at + 1
            } else {
                memchr(b'\n', rest).map_or(rest.len(), |at| at + 1)
            };
            let (bytes, tail) = rest.split_at(end);
            chunks.push(Chunk { bytes, first_line: self.line });
            self.line += memchr_iter(b'\n', bytes).count() as u64;
            rest = tail;
        }
        (chunks, used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_whole_and_keep_their_numbers() {
        let text = b"a\n\nccc\nd\nlonger than any chunk\nf";
        for bytes in 1..40 {
            let (chunks, used) = Chunker::new(bytes).cut(text, true);
            assert_eq!(used, text.len());
            assert_eq!(chunks.iter().map(|chunk| chunk.bytes).collect::<Vec<_>>().concat(), text);
            for chunk in &chunks {
                let before = chunk.bytes.as_ptr() as usize - text.as_ptr() as usize;
                let lines = 1 + text[..before].iter().filter(|&&byte| byte == b'\n').count() as u64;
                assert_eq!(chunk.first_line, lines);
                assert!(before == 0 || text[before - 1] == b'\n');
            }
        }
    }

    #[test]
    fn a_line_that_is_not_finished_waits() {
        let mut chunker = Chunker::new(100);
        assert_eq!(chunker.cut(b"half a li", false).1, 0);
        assert_eq!(chunker.cut(b"half a line\nand", false).1, 12);
        assert_eq!(chunker.cut(b"", true).1, 0);
    }
}
