//! Takes the traces out of a page again: an old page becomes a new one, and a trace is never lost in it.

use crate::pack::{Base, from_base64, unpack};
use crate::{FORMAT, RecordedRun};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::io::{self, Read};
use vicus_trace::{Event, Header, SeatLog, Trace, TraceError};

/// Why a page's traces can't be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file is not a page about runs.
    NotAPage,
    /// The page's data has a version that this program can't read.
    Format(u64),
    /// The page's data is damaged.
    Damaged(String),
    /// The file can't be read.
    Io(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::NotAPage => f.write_str("neither a trace nor a page of `vicus trace view`"),
            ReadError::Format(found) => {
                write!(f, "a page with data of version {found}, but this program reads version {FORMAT}")
            }
            ReadError::Damaged(found) => write!(f, "a damaged file: {found}"),
            ReadError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// The part of a run's index from which its trace is made.
#[derive(Deserialize)]
struct Index {
    name: String,
    lost: Vec<String>,
    faults: Vec<String>,
    rates: [f64; 2],
    chunks: Vec<Value>,
}

/// Reads the runs of a page that [`Page::write_to`](crate::Page::write_to) wrote. A page that was cut off has the
/// events up to there; its runs say so among their faults.
///
/// # Errors
/// The file is none, is damaged, or can't be read.
pub fn read(input: &mut impl Read) -> Result<Vec<RecordedRun>, ReadError> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(ReadError::Io)?;
    let page = Scripts::of(&bytes);
    let mut runs = Vec::new();
    while let Some(text) = page.get(&format!("r{}", runs.len())) {
        let number = runs.len();
        runs.push(run(&page, number, text)?);
        if runs.len() == 2 {
            break;
        }
    }
    if runs.is_empty() { Err(ReadError::NotAPage) } else { Ok(runs) }
}

/// The runs of a file: of a trace, as far as it can be read, or of a page. `name` is the file's.
///
/// # Errors
/// The bytes are neither, or damaged from the beginning.
pub fn runs(name: &str, bytes: &[u8]) -> Result<Vec<RecordedRun>, ReadError> {
    match RecordedRun::salvage(name, &mut &bytes[..]) {
        Ok(run) => Ok(vec![run]),
        Err(TraceError::NotATrace) => read(&mut &bytes[..]),
        Err(error) => Err(ReadError::Damaged(error.to_string())),
    }
}

/// The bytes of memory for each event of a run while its page is made: the event, its cause, what it is shown as.
const BYTES_AN_EVENT: u64 = 96;
/// The bytes of an event in a trace file.
const FILE_BYTES_AN_EVENT: u64 = 32;

/// About how many bytes of memory it takes to make the page of a file, beside the file: for callers with a limit.
///
/// ```
/// // A trace of a million events.
/// assert_eq!(vicus_view::needed_bytes(&vec![0; 32_000_000]), 96_000_000);
/// ```
pub fn needed_bytes(file: &[u8]) -> u64 {
    let page = Scripts::of(file);
    let indexes: Vec<&[u8]> = (0..2).map_while(|number| page.get(&format!("r{number}"))).collect();
    let events_of = |index: &&[u8]| {
        let index: Value = serde_json::from_slice(index).unwrap_or_default();
        let counts = index["chunks"].as_array().into_iter().flatten().filter_map(|chunk| chunk[2].as_u64());
        counts.fold(0, u64::saturating_add)
    };
    let events = match indexes.is_empty() {
        true => file.len() as u64 / FILE_BYTES_AN_EVENT,
        false => indexes.iter().map(events_of).fold(0, u64::saturating_add),
    };
    events.saturating_mul(BYTES_AN_EVENT)
}

fn run(page: &Scripts<'_>, number: usize, text: &[u8]) -> Result<RecordedRun, ReadError> {
    let damaged = |found: &str| ReadError::Damaged(format!("{found} of run {number}"));
    let index: Value = serde_json::from_slice(text).map_err(|_| damaged("the index"))?;
    match index["format"].as_u64() {
        Some(format) if format == u64::from(FORMAT) => {}
        Some(other) => return Err(ReadError::Format(other)),
        None => return Err(ReadError::NotAPage),
    }
    let index: Index = serde_json::from_value(index).map_err(|_| damaged("the index"))?;
    let header = page.get(&format!("h{number}")).ok_or_else(|| damaged("the header"))?;
    let header: Header = serde_json::from_slice(header).map_err(|_| damaged("the header"))?;
    if index.lost.len() != header.seats.len() {
        return Err(damaged("the seats"));
    }
    let lost = index.lost.iter().map(|lost| lost.parse().ok()).collect::<Option<Vec<u64>>>();
    let lost = lost.ok_or_else(|| damaged("the counts"))?;
    let mut logs: Vec<SeatLog> = lost.into_iter().map(|lost| SeatLog { lost, ..SeatLog::default() }).collect();
    let mut faults = index.faults;
    let mut missing = 0_u64;
    for (chunk, entry) in index.chunks.iter().enumerate() {
        let number_at = |at: usize| entry[at].as_u64();
        let text_at = |at: usize| entry[at].as_str().and_then(|text| text.parse::<u64>().ok());
        let parts = (number_at(0), number_at(2), text_at(5), text_at(6));
        let (Some(seat), Some(count), Some(time), Some(order)) = parts else { return Err(damaged("a chunk")) };
        let log = usize::try_from(seat).ok().and_then(|seat| logs.get_mut(seat)).ok_or_else(|| damaged("a chunk"))?;
        let Some(text) = page.get(&format!("c{number}-{chunk}")) else {
            log.lost = log.lost.saturating_add(count);
            missing = missing.saturating_add(count);
            continue;
        };
        let events: Option<Vec<Event>> = from_base64(text).and_then(|bytes| unpack(&bytes, Base { time, order }));
        // Room was asked for so many.
        let events = events.filter(|events| events.len() as u64 == count);
        log.events.extend(events.ok_or_else(|| damaged(&format!("chunk {chunk}")))?);
    }
    if missing > 0 {
        faults.push(format!("a page that was cut off: {missing} events are missing"));
    }
    let [near_bytes_a_ns, far_bytes_a_ns] = index.rates;
    Ok(RecordedRun {
        faults,
        near_bytes_a_ns,
        far_bytes_a_ns,
        ..RecordedRun::new(index.name, Trace::new(header, logs))
    })
}

/// The texts of a page's scripts by their ids.
struct Scripts<'a>(rustc_hash::FxHashMap<&'a [u8], &'a [u8]>);

impl<'a> Scripts<'a> {
    /// A page's data begins at the beginning of a line, and has no line break.
    fn of(page: &'a [u8]) -> Scripts<'a> {
        let script = |line: &'a [u8]| {
            let line = line.strip_prefix(b"<script type=\"application/")?;
            let at = line.windows(5).take(40).position(|five| five == b" id=\"")?;
            let line = &line[at + 5..];
            let quote = line.iter().position(|byte| *byte == b'"')?;
            let text = line[quote + 1..].strip_prefix(b">")?.strip_suffix(b"</script>")?;
            Some((&line[..quote], text))
        };
        Scripts(page.split(|byte| *byte == b'\n').filter_map(script).collect())
    }

    fn get(&self, id: &str) -> Option<&'a [u8]> {
        self.0.get(id.as_bytes()).copied()
    }
}
