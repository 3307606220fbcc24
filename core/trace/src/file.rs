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
        match Trace::salvage_from(input)? {
            (trace, None) => Ok(trace),
            (_, Some(fault)) => Err(fault),
        }
    }

    /// Reads what there is of a trace: of a file that was cut off, has foreign bytes or is of another version, all
    /// events that can be read, and the first fault. Events that can't be read count as lost.
    ///
    /// ```
    /// use vicus_trace::{Header, EventLog, Trace, What};
    ///
    /// let mut log = EventLog::new(10);
    /// log.record(5, What::Woke { pool: 0 });
    /// log.record(9, What::Woke { pool: 1 });
    /// let mut file = Vec::new();
    /// Trace::new(Header::for_seats(1), vec![log.finish()]).write_to(&mut file)?;
    /// // The end of the file is missing, from the middle of the second event on.
    /// let (trace, fault) = Trace::salvage_from(&mut &file[..file.len() - 20]).unwrap();
    /// assert_eq!((trace.logs()[0].events.len(), trace.lost()), (1, 1));
    /// assert!(fault.unwrap().to_string().starts_with("a truncated trace"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not even the header can be read, or the bytes are not a trace.
    pub fn salvage_from(input: &mut impl Read) -> Result<(Trace, Option<TraceError>), TraceError> {
        let mut input = Counted { input, at_byte: 0 };
        match input.array() {
            Ok(magic) if magic == *MAGIC => {}
            Ok(_) | Err(TraceError::Truncated { .. }) => return Err(TraceError::NotATrace),
            Err(error) => return Err(error),
        }
        let version = u32::from_le_bytes(input.array()?);
        let is_known = (OLDEST..=VERSION).contains(&version);
        let other = || TraceError::Version { found: version, expected: VERSION };
        let header_bytes = u32::from_le_bytes(input.array()?);
        let header_at = input.at_byte;
        let header: Header = match serde_json::from_slice(&input.vec(header_bytes.into())?) {
            Err(_) if !is_known => return Err(other()),
            read => {
                read.map_err(|error| TraceError::Damaged { at_byte: header_at, found: format!("the header: {error}") })?
            }
        };
        let mut logs = vec![SeatLog::default(); header.seats.len()];
        let fault = (!is_known).then(other);
        let fault = fault.or(input.logs(&mut logs).err());
        Ok((Trace::new(header, logs), fault))
    }
}

/// A reader that counts its bytes.
struct Counted<'a, R> {
    input: &'a mut R,
    at_byte: u64,
}

impl<R: Read> Counted<'_, R> {
    /// Reads as much of the logs as there is, and the rest of the file; fails with the first fault.
    fn logs(&mut self, logs: &mut [SeatLog]) -> Result<(), TraceError> {
        let (mut fault, mut missing) = (None, Vec::new());
        for (seat, log) in logs.iter_mut().enumerate() {
            let count = u64::from_le_bytes(self.array()?);
            let mut foreign = 0;
            // No capacity is reserved, because the count may be wrong.
            for index in 0..count {
                let at_byte = self.at_byte;
                let bytes = self.array().inspect_err(|_| log.lost = (count - index).saturating_add(foreign))?;
                match Event::from_bytes(&bytes) {
                    Some(event) => log.events.push(event),
                    None => {
                        foreign += 1;
                        fault.get_or_insert_with(|| TraceError::Damaged {
                            at_byte,
                            found: format!("event {index} of seat {seat} is none that this version knows"),
                        });
                    }
                }
            }
            log.lost = foreign;
            missing.push(foreign);
        }
        for (log, foreign) in logs.iter_mut().zip(missing) {
            log.lost = u64::from_le_bytes(self.array()?).saturating_add(foreign);
        }
        let end = self.at_byte;
        let more = match self.array::<1>() {
            Err(TraceError::Truncated { .. }) => Ok(()),
            Ok(_) => Err(TraceError::Damaged { at_byte: end, found: "more follows after the end".to_owned() }),
            Err(error) => Err(error),
        };
        fault.map_or(more, Err)
    }

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
    use crate::{EventLog, What};

    fn small() -> Vec<u8> {
        let mut log = EventLog::new(1);
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
    fn a_part_of_a_trace_is_read_as_far_as_it_goes() {
        let mut log = EventLog::new(10);
        (0..4).for_each(|time_ns| _ = log.record(time_ns, What::Woke { pool: 7 }));
        let mut file = Vec::new();
        Trace::new(Header::for_seats(1), vec![log.finish()]).write_to(&mut file).unwrap();
        let times = |file: &[u8]| {
            let (trace, fault) = Trace::salvage_from(&mut &file[..]).unwrap();
            let times: Vec<u64> = trace.logs()[0].events.iter().map(|event| event.time_ns).collect();
            (times, trace.lost(), fault.map(|fault| fault.to_string()))
        };
        assert_eq!(times(&file), (vec![0, 1, 2, 3], 0, None));
        // 8 bytes at the end are the number of lost events.
        let first = file.len() - 8 - 4 * Event::BYTES;
        for length in first..file.len() {
            let whole = (length - first) / Event::BYTES;
            let lost = if whole == 4 { 0 } else { 4 - whole as u64 };
            let expected = format!("a truncated trace: it ends at byte {length}");
            assert_eq!(times(&file[..length]), ((0..whole as u64).collect(), lost, Some(expected)));
        }
        let mut foreign = file.clone();
        foreign[first + Event::BYTES + 16] = 200;
        let (seen, lost, fault) = times(&foreign);
        assert_eq!((seen, lost), (vec![0, 2, 3], 1));
        assert!(fault.unwrap().contains("event 1 of seat 0"));
        let mut later = file;
        later[8] = 9;
        let (seen, _, fault) = times(&later);
        assert_eq!(seen, [0, 1, 2, 3]);
        assert!(fault.unwrap().starts_with("a trace of version 9"));
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
