//! Events of a run, recorded by both worlds in the same form, and a file format for them.
//!
//! A world gives each seat an [`EventLog`] and records an [`Event`] at each step, without locks, allocation or shared
//! data. Afterwards the logs become a [`Trace`]. It can be written to a file and read back, merged into one stream
//! ([`Trace::merged`], or for people [`Trace::by_time`]), checked against the box protocol ([`Trace::check`]) and
//! summed up ([`Trace::summary`]). This crate never reads a clock: the caller passes the time, real or virtual.
//!
//! ```
//! use vicus_trace::{JobId, Header, EventLog, TaskKind, Trace, What};
//!
//! let who = JobId { request: 1, index: 0 };
//! let (mut submitter, mut worker) = (EventLog::new(1000), EventLog::new(1000));
//! submitter.record(10, What::RequestSubmitted { request: 1 });
//! let cause = submitter.record(20, What::Enqueued { who, kind: TaskKind::Deferred, by: JobId::NONE });
//! // The task carries the clock of the seat that queued it. So an effect is ordered after its cause, even though this
//! // worker's clock runs behind.
//! worker.observe(cause);
//! worker.record(15, What::Taken { who, rule: 3, far: false });
//!
//! let trace = Trace::new(Header::for_seats(2), vec![submitter.finish(), worker.finish()]);
//! assert_eq!(trace.check(), []);
//! let seats: Vec<usize> = trace.merged().map(|entry| entry.seat).collect();
//! assert_eq!(seats, [0, 0, 1]);
//!
//! let mut file = Vec::new();
//! trace.write_to(&mut file).unwrap();
//! assert_eq!(Trace::read_from(&mut &file[..]).unwrap(), trace);
//! ```
//!
//! # Where the clock must travel
//!
//! Each [`EventLog`] has a Lamport clock. For [`Trace::merged`] to put every cause before its effects, a seat must
//! [`observe`](EventLog::observe) the clock of the event it depends on:
//!
//! * **with the box**: the end of an invocation leaves the seat's clock in the box's cell; the next seat to queue or
//!   begin the box observes it;
//! * **with the task**: the seat that takes a task observes the clock of the seat that queued it;
//! * **with the envelope**: the receiver observes the clock of the sender, and a refused sender the clock of the
//!   receiver that resumes it;
//! * **with a closure**: all closures share one clock. Queueing or ending a closure raises it. A seat that begins a
//!   closure, or has waited for some, observes it, and so does a seat that spawns or queues a closure with predecessors
//!   by its data: other seats may have spawned the closure, or run its predecessors;
//! * **with a barrier**: a member that comes to one raises the clock of closures, and one that leaves observes it;
//! * **with the wake**: a seat that wakes up observes the clock of the waker;
//! * **with the request**: its first task carries the clock of the submission, and its end observes every seat's last.
//!
//! A 64-bit cell beside the box's state word, raised before each release and observed after each acquire, is enough for
//! the first three.

mod check;
mod earlier;
mod event;
mod file;
mod log;
mod merge;
mod recent;
mod summary;

pub use check::{Rule, Violation};
pub use earlier::Earlier;
pub use event::{Awaits, Event, EventKind, JobId, RequestOutcome, TaskKind, UnknownKind, Use, What};
pub use file::TraceError;
pub use log::{EventLog, SeatLog};
pub use merge::{Entry, Merged};
pub use summary::{BoxSummary, SeatSummary, Summary, Takes};

use serde::{Deserialize, Serialize};
use vicus_topology::{GroupId, NodeId, PuId, Topology};

/// Everything recorded of one run: the machine, the networks, and the events of each seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The program of the run, and its machine.
    header: Header,
    /// The log of each seat. Invariant: as many as `header.seats`, in the same order.
    logs: Vec<SeatLog>,
}

/// The program of a run, and its machine. It stands as JSON at the beginning of a trace file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The name of the scheduling strategy.
    pub strategy: String,
    /// The strategy's plan, printed.
    pub plan: String,
    /// The machine's name.
    pub machine: String,
    /// The origin and the unit of the time stamps, for people: "ns since the start, monotonic", "virtual ns".
    pub clock: String,
    /// When the run began, for people.
    pub started: String,
    /// The command line of the program that ran, if it is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// The name and version of the program that recorded, if they are known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The seats, in the order of the logs.
    pub seats: Vec<SeatInfo>,
    /// The networks of the run.
    pub models: Vec<ModelInfo>,
    /// The functions of tasks that are not boxes ([`What::Named`]), as people call them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// The first addresses of arrays, if they are known and may lie side by side: tasks' data are parts of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<u64>,
    /// The length of each array in bytes, if known: as many as there are arrays, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub array_bytes: Vec<u64>,
    /// Whether logs keep the last events: what was lost lies before the first one, and not behind the last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rolls: bool,
    /// The span of time before the end that logs have whole, if they keep one; otherwise 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_ns: u64,
    /// The processes of a run over several ones, by the numbers that seats have; empty for a run of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<String>,
    /// The machine of each process, with the parts that no seat is on. Empty in files of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<Topology>,
    /// For each seat, sums over the time before its first event, if logs keep the last events; or nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Vec<Earlier>>,
    /// For each model, the operators of the query that it answers, if it answers one; or nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<Vec<OperatorInfo>>,
}

/// The place of a seat's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatInfo {
    /// The PU its thread began on; a thread bound to a group may have moved since.
    pub pu: PuId,
    /// The core group of that PU.
    pub group: GroupId,
    /// The node of that PU.
    pub node: NodeId,
    /// Whether this log is of callers without a seat, recorded as if they were on this PU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_callers: bool,
    /// The process, by its place in [`Header::processes`].
    #[serde(default, skip_serializing_if = "is_first")]
    pub process: u32,
}

fn is_first(process: &u32) -> bool {
    *process == 0
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A model, and the requests that were instances of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The model's name.
    pub name: String,
    /// The requests that ran it, as [`JobId::request`] names them.
    pub requests: Vec<u32>,
    /// Its boxes, in the order of [`JobId::index`].
    pub boxes: Vec<BoxInfo>,
}

/// An operator of a query's plan. A plan is a list of them, each before its inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorInfo {
    /// The place in the list of the operator that reads its rows; none for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// The kind of operator.
    pub name: String,
    /// Its operands.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// How many rows it was expected to make.
    pub expected_rows: u64,
    /// Its boxes, by their places in the model.
    pub boxes: Vec<u32>,
    /// The outputs that share its rows.
    pub outputs: Vec<InputSource>,
}

/// A box of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxInfo {
    /// Its name in the model.
    pub name: String,
    /// The type of the box; [`Trace::summary`] adds up by type.
    pub type_name: String,
    /// The sources of its inputs. Empty in files of older versions.
    #[serde(default)]
    pub inputs: Vec<InputSource>,
    /// How much each input holds before it refuses an envelope. Empty in files of older versions.
    #[serde(default)]
    pub bounds: Vec<ViaBound>,
}

/// The capacity of an input before it refuses an envelope: one envelope always fits, further ones only within these
/// limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViaBound {
    /// The greatest number of envelopes.
    pub envelopes: u32,
    /// The greatest number of bytes.
    pub bytes: u64,
}

/// The source of a box's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InputSource {
    /// The index of the sending box.
    #[serde(rename = "box")]
    pub index: u32,
    /// The number of its output.
    pub output: u16,
}

impl Header {
    /// A header for this many seats, all on PU 0, without further information.
    pub fn for_seats(seats: usize) -> Header {
        let seat =
            SeatInfo { pu: PuId::new(0), group: GroupId::new(0), node: NodeId::new(0), is_callers: false, process: 0 };
        Header { seats: vec![seat; seats], ..Header::default() }
    }
}

impl Trace {
    /// Makes a trace of these logs. Panics unless there is one log for each seat of the header.
    pub fn new(mut header: Header, mut logs: Vec<SeatLog>) -> Trace {
        assert_eq!(header.seats.len(), logs.len(), "a trace has one log for each seat of its header");
        if logs.iter().any(|log| !log.earlier.is_empty()) {
            header.earlier = logs.iter_mut().map(|log| std::mem::take(&mut log.earlier)).collect();
        }
        let spans = logs.iter_mut().map(|log| std::mem::take(&mut log.last_ns)).filter(|last_ns| *last_ns > 0);
        header.last_ns = spans.min().unwrap_or(header.last_ns);
        Trace { header, logs }
    }

    /// The program of the run, and its machine.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Says how the functions of tasks are called, by the numbers of [`What::Named`].
    #[must_use]
    pub fn with_functions(mut self, functions: Vec<String>) -> Trace {
        self.header.functions = functions;
        self
    }

    /// Says which command line ran.
    #[must_use]
    pub fn with_command(mut self, command: String) -> Trace {
        self.header.command = command;
        self
    }

    /// Sets the beginnings of arrays.
    #[must_use]
    pub fn with_arrays(mut self, arrays: Vec<u64>) -> Trace {
        self.header.arrays = arrays;
        self
    }

    /// Sets the length in bytes of each array named by [`Trace::with_arrays`].
    #[must_use]
    pub fn with_array_bytes(mut self, bytes: Vec<u64>) -> Trace {
        self.header.array_bytes = bytes;
        self
    }

    /// The log of each seat, in the order of the header's seats.
    pub fn logs(&self) -> &[SeatLog] {
        &self.logs
    }

    /// How many events were not recorded because a log was full.
    pub fn lost(&self) -> u64 {
        self.logs.iter().fold(0, |sum, log| sum.saturating_add(log.lost))
    }

    /// The greatest order up to which no seat's event is missing; `None` if none is missing at all, or if the logs
    /// [roll](Header::rolls).
    pub fn complete_until(&self) -> Option<u64> {
        if self.header.rolls {
            return None;
        }
        let full = self.logs.iter().filter(|log| log.lost > 0);
        full.map(|log| log.events.last().map_or(0, |event| event.order)).min()
    }

    /// The least order from which on no seat's event is missing, if the logs [roll](Header::rolls) and have dropped
    /// any.
    pub fn complete_from(&self) -> Option<u64> {
        let rolled = self.logs.iter().filter(|log| self.header.rolls && log.lost > 0);
        rolled.map(|log| log.events.first().map_or(u64::MAX, |event| event.order)).max()
    }

    /// Looks up boxes by the ids in events. Takes one pass over the models' requests.
    pub fn names(&self) -> Names<'_> {
        let models = &self.header.models;
        let requests = models.iter().flat_map(|model| model.requests.iter().map(move |&request| (request, model)));
        Names { models: requests.collect(), functions: &self.header.functions }
    }
}

/// The boxes of a trace by id; from [`Trace::names`].
pub struct Names<'a> {
    models: rustc_hash::FxHashMap<u32, &'a ModelInfo>,
    functions: &'a [String],
}

impl<'a> Names<'a> {
    /// The header's information about a box, if there is any.
    pub fn get(&self, who: JobId) -> Option<&'a BoxInfo> {
        self.models.get(&who.request)?.boxes.get(who.index as usize)
    }

    /// The name of a box in its model; `task` and its number for a task that is not a box; otherwise the index.
    pub fn name(&self, who: JobId) -> String {
        match self.get(who) {
            Some(info) => info.name.clone(),
            None if who.is_box() => format!("box{}", who.index),
            None => who.number().map_or("task".to_owned(), |number| format!("task{number}")),
        }
    }

    /// A function of tasks, by its number in [`What::Named`].
    pub fn function(&self, number: u32) -> Option<&'a str> {
        self.functions.get(number as usize).map(String::as_str)
    }

    /// The type of a box; `(task)` for a task that is not a box, `(unknown)` if the header doesn't say.
    pub fn type_name(&self, who: JobId) -> &'a str {
        match self.get(who) {
            Some(info) => &info.type_name,
            None if who.is_box() => "(unknown)",
            None => "(task)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_model_of_the_request() {
        let mut header = Header::for_seats(0);
        let boxes = vec![BoxInfo { name: "scan1".into(), type_name: "Scan".into(), ..BoxInfo::default() }];
        header.models = vec![ModelInfo { name: "q1".into(), requests: vec![7, 8], boxes }];
        let trace = Trace::new(header, Vec::new());
        let names = trace.names();
        assert_eq!(names.name(JobId { request: 8, index: 0 }), "scan1");
        assert_eq!(names.type_name(JobId { request: 8, index: 0 }), "Scan");
        assert_eq!(names.name(JobId { request: 8, index: 1 }), "box1");
        assert_eq!(names.type_name(JobId { request: 9, index: 0 }), "(unknown)");
        assert_eq!(names.type_name(JobId::task_of(8)), "(task)");
    }
}
