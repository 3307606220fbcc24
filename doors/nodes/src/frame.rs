//! The frames of a link, and its first bytes.
//!
//! ```text
//!  length  kind  crossing  body
//!   u32     u8     u32     length - 5 bytes
//! ```
//!
//! Numbers have their least byte first.

use arrow_buffer::Buffer;
use std::io::{self, IoSlice, Read, Write};

/// The meaning of a frame for its crossing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The link is alive. It has no crossing.
    Alive,
    /// The sender's columns, as text.
    Columns,
    /// Rows, as the next bytes of a stream of Arrow's IPC format.
    Rows,
    /// A mark among the rows: see `port.rs`.
    Mark,
    /// The sender has sent all rows.
    End,
    /// The receiver grants the sender so many bytes more: a u64.
    Grant,
    /// The receiver takes no more.
    Closed,
}

const KINDS: [Kind; 7] = [Kind::Alive, Kind::Columns, Kind::Rows, Kind::Mark, Kind::End, Kind::Grant, Kind::Closed];

/// A frame's parts before its body.
const HEAD: usize = 9;

/// The most bytes of a frame: those of rows are those of one envelope.
const MOST: u32 = 2 << 30;

/// A frame to be written. Its body may lie in several places, such as the columns of an envelope.
#[derive(Debug)]
pub(crate) struct Outgoing {
    kind: Kind,
    crossing: u32,
    body: Vec<Buffer>,
}

impl Outgoing {
    pub(crate) fn new(kind: Kind, crossing: u32, body: Vec<Buffer>) -> Outgoing {
        Outgoing { kind, crossing, body }
    }

    pub(crate) fn of_bytes(kind: Kind, crossing: u32, body: &[u8]) -> Outgoing {
        Outgoing { kind, crossing, body: if body.is_empty() { Vec::new() } else { vec![Buffer::from(body.to_vec())] } }
    }

    /// Writes the frame.
    ///
    /// # Errors
    /// The system refuses, or the body is too long.
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let length = 5 + self.body.iter().map(Buffer::len).sum::<usize>();
        let length = u32::try_from(length).ok().filter(|length| *length <= MOST).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("an envelope of {length} bytes is too long for a link"))
        })?;
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4] = KINDS.iter().position(|kind| *kind == self.kind).expect("all are there") as u8;
        head[5..].copy_from_slice(&self.crossing.to_le_bytes());
        let mut parts = Vec::with_capacity(1 + self.body.len());
        parts.push(IoSlice::new(&head));
        parts.extend(self.body.iter().filter(|buffer| !buffer.is_empty()).map(|buffer| IoSlice::new(buffer)));
        let mut rest = parts.as_mut_slice();
        while !rest.is_empty() {
            match to.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A frame that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Incoming {
    pub(crate) kind: Kind,
    pub(crate) crossing: u32,
    pub(crate) body: Vec<u8>,
}

/// Reads a frame.
///
/// # Errors
/// The other end is gone ([`io::ErrorKind::UnexpectedEof`]), has been silent for too long, or these bytes are no frame.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Incoming> {
    let mut head = [0; HEAD];
    from.read_exact(&mut head)?;
    let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let (length, crossing) = (number(0), number(5));
    let kind = KINDS.get(usize::from(head[4])).filter(|_| (5..=MOST).contains(&length));
    let &kind = kind.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "bytes that are no frame"))?;
    // Memory is taken as bytes come, so a wrong length takes none.
    let wanted = u64::from(length - 5);
    let mut body = Vec::with_capacity(wanted.min(1 << 20) as usize);
    from.take(wanted).read_to_end(&mut body)?;
    if (body.len() as u64) < wanted {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Incoming { kind, crossing, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes one byte at each write.
    struct Slow(Vec<u8>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend(bytes.first());
            Ok(bytes.len().min(1))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_frame_comes_back_as_it_was_written() {
        let mut slow = Slow(Vec::new());
        let body = ["near".as_bytes(), b"", b"far"].map(Buffer::from).to_vec();
        Outgoing::new(Kind::Rows, 258, body).write(&mut slow).unwrap();
        Outgoing::of_bytes(Kind::End, 7, &[]).write(&mut slow).unwrap();
        // Written down by hand from the head of this page.
        let expected =
            [12, 0, 0, 0, 2, 2, 1, 0, 0, b'n', b'e', b'a', b'r', b'f', b'a', b'r', 5, 0, 0, 0, 4, 7, 0, 0, 0];
        assert_eq!(slow.0, expected);
        let mut bytes = slow.0.as_slice();
        let first = read(&mut bytes).unwrap();
        assert_eq!(first, Incoming { kind: Kind::Rows, crossing: 258, body: b"nearfar".to_vec() });
        assert_eq!(read(&mut bytes).unwrap(), Incoming { kind: Kind::End, crossing: 7, body: Vec::new() });
        assert_eq!(read(&mut bytes).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn other_bytes_are_no_frame_and_take_no_memory() {
        let kind = |bytes: &[u8]| read(&mut &*bytes).unwrap_err().kind();
        assert_eq!(kind(b"HTTP/1.1 200 OK\r\n\r\n"), io::ErrorKind::InvalidData);
        // Two gigabytes are announced, and four bytes come.
        assert_eq!(kind(&[0, 0, 0, 0x80, 2, 0, 0, 0, 0, 1, 2, 3, 4]), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(&[4, 0, 0, 0, 2, 0, 0, 0, 0]), io::ErrorKind::InvalidData);
        assert_eq!(kind(&[5, 0, 0, 0, 7, 0, 0, 0, 0]), io::ErrorKind::InvalidData);
    }
}
