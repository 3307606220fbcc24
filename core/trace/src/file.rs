//! The file format of traces.
//!
//! ```text
//! "VICUSTRC"                           8 bytes
//! version                              u32
//! length of the header                 u32
//! header                               JSON, see `Header`
//! for each seat of the header:
//!     number of events                 u64
//!     events                           32 bytes each, see `Event::to_bytes`
//! for each seat of the header:
//!     number of lost events            u64
//! ```
//! All numbers are little-endian. Nothing follows after the last one.
//!
//! A reader trusts no length: memory grows only with the bytes read.

use crate::{Event, Header, SeatLog, Trace};
use std::fmt;
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"VICUSTRC";
/// Version 2 added taken and left envelopes, the bounds of inputs, and the footprints of closures; version 3 the memory
/// of boxes, kept envelopes, numbers of closures, and their spawners; version 4 the data, waits and functions of
/// closures, and the reasons of dealing.
const VERSION: u32 = 4;
/// The oldest version with files readable as this one, without its additions.
const OLDEST: u32 = 3;

/// Why a file can't be read as a trace.
#[derive(Debug)]
pub enum TraceError {
    /// The file is something else.
    NotATrace,
    /// The file has a version this program can't read.
    Version {
        /// The file's version.
        found: u32,
        /// The version this program reads.
        expected: u32,
    },
    /// The file ends too early.
    Truncated {
        /// The number of bytes in the file.
        at_byte: u64,
    },
    /// The file has bytes foreign to traces.
    Damaged {
        /// The place.
        at_byte: u64,
        /// The fault there.
        found: String,
    },
    /// The file can't be read at all.
    Io(io::Error),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::NotATrace => write!(f, "not a trace: it doesn't begin with VICUSTRC"),
            TraceError::Version { found, expected } => {
                write!(f, "a trace of version {found}, but this program reads version {expected}; record it again")
            }
            TraceError::Truncated { at_byte } => write!(f, "a truncated trace: it ends at byte {at_byte}"),
            TraceError::Damaged { at_byte, found } => write!(f, "a damaged trace: at byte {at_byte}, {found}"),
            TraceError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TraceError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl Trace {
    /// Writes the trace. Use a buffered writer: there is one call for each event.
    ///
    /// # Errors
    /// The writer failed, or the header is larger than 4 GiB.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let header = serde_json::to_vec(&self.header)?;
        let header_bytes = u32::try_from(header.len()).map_err(io::Error::other)?;
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&header_bytes.to_le_bytes())?;
        out.write_all(&header)?;
        for log in &self.logs {
            out.write_all(&(log.events.len() as u64).to_le_bytes())?;
            for event in &log.events {
                out.write_all(&event.to_bytes())?;
            }
        }
        for log in &self.logs {
            out.write_all(&log.lost.to_le_bytes())?;
        }
        Ok(())
    }

    /// Reads a trace written by [`Trace::write_to`]. Use a buffered reader: there is one call for each event.
    ///
    /// # Errors
    /// The bytes are not a trace, have an unknown version, are truncated or damaged, or can't be read.
    pub fn read_from(input: &mut impl Read) -> Result<Trace, TraceError> {
        let mut input = Counted { input, at_byte: 0 };
        match input.array() {
            Ok(magic) if magic == *MAGIC => {}
            Ok(_) | Err(TraceError::Truncated { .. }) => return Err(TraceError::NotATrace),
            Err(error) => return Err(error),
        }
        let version = u32::from_le_bytes(input.array()?);
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(TraceError::Version { found: version, expected: VERSION });
        }
        let header_bytes = u32::from_le_bytes(input.array()?);
        let header_at = input.at_byte;
        let header: Header = serde_json::from_slice(&input.vec(header_bytes.into())?)
            .map_err(|error| TraceError::Damaged { at_byte: header_at, found: format!("the header: {error}") })?;
        let mut logs = Vec::new();
        for seat in 0..header.seats.len() {
            let count = u64::from_le_bytes(input.array()?);
            // No capacity is reserved, because the count may be wrong.
            let mut events = Vec::new();
            for index in 0..count {
                let at_byte = input.at_byte;
                let event = Event::from_bytes(&input.array()?).ok_or_else(|| TraceError::Damaged {
                    at_byte,
                    found: format!("event {index} of seat {seat} is none that this version knows"),
                })?;
                events.push(event);
            }
            logs.push(SeatLog { events, lost: 0 });
        }
        for log in &mut logs {
            log.lost = u64::from_le_bytes(input.array()?);
        }
        let end = input.at_byte;
        match input.array::<1>() {
            Err(TraceError::Truncated { .. }) => Ok(Trace::new(header, logs)),
            Ok(_) => Err(TraceError::Damaged { at_byte: end, found: "more follows after the end".to_owned() }),
            Err(error) => Err(error),
        }
    }
}

/// A reader that counts its bytes.
struct Counted<'a, R> {
    input: &'a mut R,
    at_byte: u64,
}

impl<R: Read> Counted<'_, R> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], TraceError> {
        let mut bytes = [0; N];
        let mut filled = 0;
        while filled < N {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => return Err(TraceError::Truncated { at_byte: self.at_byte }),
                Ok(read) => {
                    filled += read;
                    self.at_byte += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError::Io(error)),
            }
        }
        Ok(bytes)
    }

    fn vec(&mut self, count: u64) -> Result<Vec<u8>, TraceError> {
        let mut bytes = Vec::new();
        let read = self.input.take(count).read_to_end(&mut bytes).map_err(TraceError::Io)?;
        self.at_byte += read as u64;
        match read as u64 == count {
            true => Ok(bytes),
            false => Err(TraceError::Truncated { at_byte: self.at_byte }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Log, What};

    fn small() -> Vec<u8> {
        let mut log = Log::new(1);
        log.record(5, What::SleepBegins);
        log.record(6, What::SleepEnds);
        let mut file = Vec::new();
        Trace::new(Header::for_seats(1), vec![log.finish()]).write_to(&mut file).unwrap();
        file
    }

    fn error(file: &[u8]) -> String {
        Trace::read_from(&mut &file[..]).unwrap_err().to_string()
    }

    #[test]
    fn every_shortened_file_is_refused_with_its_length() {
        let file = small();
        assert_eq!(Trace::read_from(&mut &file[..]).unwrap().lost(), 1);
        for length in 0..file.len() {
            let expected = match length {
                0..8 => "not a trace: it doesn't begin with VICUSTRC".to_owned(),
                _ => format!("a truncated trace: it ends at byte {length}"),
            };
            assert_eq!(error(&file[..length]), expected);
        }
    }

    #[test]
    fn other_files_and_versions_are_refused() {
        assert_eq!(error(b"<html><body>"), "not a trace: it doesn't begin with VICUSTRC");
        for version in [0, 1, 2, 5, 9] {
            let mut other = small();
            other[8] = version;
            let expected = format!("a trace of version {version}, but this program reads version 4; record it again");
            assert_eq!(error(&other), expected);
        }
        let mut older = small();
        older[8] = 3;
        assert!(Trace::read_from(&mut &older[..]).is_ok(), "nothing of version 3 has changed");
        let mut longer = small();
        longer.push(0);
        assert!(error(&longer).ends_with("more follows after the end"));
    }

    #[test]
    fn a_length_that_lies_costs_no_memory() {
        let mut file = small();
        let length = file.len();
        // The number of the only seat's events comes before the event and the number of lost events.
        file[length - 48..length - 40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(error(&file).starts_with("a truncated trace") || error(&file).starts_with("a damaged trace"));
        let mut header = small();
        header[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(error(&header).starts_with("a truncated trace"));
    }
}
