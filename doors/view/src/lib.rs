//! One HTML file that shows a recorded run, without a network and without another file.
//!
//! [`Page::write_to`] packs the events of one or two runs by columns, computes their figures, and writes them as plain
//! tables and pictures around the viewer: a script of `viewer/`, which draws the time line, unpacks events where one
//! looks, and marks a box or a core in every picture at once. [`read`] takes the trace out of such a file again.
//!
//! ```
//! use vicus_trace::{Header, JobId, EventLog, Trace, What};
//! use vicus_view::{Page, RecordedRun, read};
//!
//! let who = JobId::task(1, 0);
//! let mut log = EventLog::new(10);
//! log.record(100, What::UserCodeBegins { who });
//! log.record(350, What::UserCodeEnds { who });
//! let trace = Trace::new(Header::for_seats(1), vec![log.finish()]);
//!
//! let mut file = Vec::new();
//! Page::new(vec![RecordedRun::new("one task", trace.clone())]).write_to(&mut file)?;
//! let runs = read(&mut &file[..])?;
//! assert_eq!(runs[0].trace, trace);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod activity;
mod drawing;
mod export;
mod figures;
mod floor;
mod html;
mod join;
mod keys;
mod operators;
mod pack;
mod page;
mod pass;
mod plan;
mod pyramid;
mod read;
mod tables;

pub use export::{Still, arrow, chrome_json, perfetto, still};
pub use join::{JoinError, join};
pub use page::{Page, script_hash};
pub use read::{ReadError, needed_bytes, read, runs};

use std::io::Read;
use vicus_trace::{Trace, TraceError};

/// The version of the data in a page.
const FORMAT: u32 = 1;

/// A run to be shown.
#[derive(Clone, Debug)]
pub struct RecordedRun {
    /// The name for people, such as that of its file.
    pub name: String,
    /// The recording.
    pub trace: Trace,
    /// Whatever is wrong with the recording, such as an end that is missing; the head of the page says it.
    pub faults: Vec<String>,
    /// The bytes that a core gets in a nanosecond from the memory of its own node: by these, and those of
    /// [`RecordedRun::far_bytes_a_ns`], the part of the time that waited for memory is estimated.
    pub near_bytes_a_ns: f64,
    /// Likewise from another node's.
    pub far_bytes_a_ns: f64,
    /// The file with the measurement of both; without one, they are assumed, and the page says so.
    pub measured_by: Option<String>,
}

impl RecordedRun {
    /// A run without faults, with assumed costs of memory.
    pub fn new(name: impl Into<String>, trace: Trace) -> RecordedRun {
        let (near_bytes_a_ns, far_bytes_a_ns) = (10.0, 5.0);
        RecordedRun { name: name.into(), trace, faults: Vec::new(), near_bytes_a_ns, far_bytes_a_ns, measured_by: None }
    }

    /// The run of a trace file, as far as it can be read; a fault of the file is one of the run.
    ///
    /// # Errors
    /// Not even the file's header can be read, or the bytes are not a trace.
    pub fn salvage(name: impl Into<String>, input: &mut impl Read) -> Result<RecordedRun, TraceError> {
        let (trace, fault) = Trace::salvage_from(input)?;
        Ok(RecordedRun { faults: fault.iter().map(ToString::to_string).collect(), ..RecordedRun::new(name, trace) })
    }
}
