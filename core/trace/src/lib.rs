//! What happened, in words both worlds share, and how it is written to and read from a file.
//!
//! A world gives each seat a [`Log`] of its own and records an [`Event`] wherever something happens: no lock, no
//! allocation, nothing shared. Afterwards the logs become a [`Trace`], which can be written to a file, read back,
//! merged into one stream ([`Trace::merged`], or for people [`Trace::by_time`]), held against the rules of the box protocol ([`Trace::check`]) and added
//! up ([`Trace::summary`]). This crate never asks for the time: it arrives as a number, real or virtual.
//!
//! ```
//! use vicus_trace::{BoxId, Header, Log, TaskKind, Trace, What};
//!
//! let who = BoxId { request: 1, index: 0 };
//! let (mut submitter, mut worker) = (Log::new(1000), Log::new(1000));
//! submitter.record(10, What::RequestSubmitted { request: 1 });
//! let cause = submitter.record(20, What::Enqueued { who, kind: TaskKind::Deferred, by: BoxId::NOBODY });
//! // The task carries the clock of the seat that queued it, so that an effect is never ordered before its cause,
//! // even though this worker's clock runs behind.
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
//! [`Log`] keeps a Lamport clock. For [`Trace::merged`] to put every cause before its effects, a seat must
//! [`observe`](Log::observe) the clock of whatever let it go on:
//!
//! * **with the box**: who ends an invocation leaves its clock in the box's cell; who next queues or begins the box
//!   observes it;
//! * **with the task**: who takes it observes the clock of who queued it;
//! * **with the envelope**: who receives it observes the clock of who sent it, and a refused sender that of the
//!   receiver that resumes it;
//! * **with a closure**: all closures share one clock, which who queues or ends one raises and who begins one, or
//!   has waited for some, observes; as does who spawns or queues one that waits for others by its data: another seat
//!   may have spawned it, and others may have run what it waited for;
//! * **with the wake**: who wakes up observes the clock of the waker;
//! * **with the request**: its first task carries the clock of the submission, and its end observes every seat's last.
//!
//! One 64-bit cell beside the box's state word, raised before each release and observed after each acquire, covers the
//! first three.

mod check;
mod event;
mod file;
mod log;
mod merge;
mod summary;

pub use check::{Rule, Violation};
pub use event::{BoxId, Event, Kind, Outcome, TaskKind, UnknownKind, What};
pub use file::TraceError;
pub use log::{Log, SeatLog};
pub use merge::{Entry, Merged};
pub use summary::{BoxSummary, SeatSummary, Summary, Takes};

use serde::{Deserialize, Serialize};
use vicus_topology::{GroupId, NodeId, PuId};

/// All that is known of one run: who ran where, and what each seat recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What was run, on what.
    header: Header,
    /// The log of each seat. Invariant: as many as `header.seats`, in the same order.
    logs: Vec<SeatLog>,
}

/// What was run, on what. It stands as JSON at the beginning of a trace file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The name of the scheduling strategy.
    pub strategy: String,
    /// The strategy's plan, printed.
    pub plan: String,
    /// The machine's name.
    pub machine: String,
    /// What the time stamps count from and in whose time, for people: "ns since the start, monotonic", "virtual ns".
    pub clock: String,
    /// When the run began, for people.
    pub started: String,
    /// The seats, in the order of the logs.
    pub seats: Vec<SeatInfo>,
    /// The networks that ran.
    pub models: Vec<ModelInfo>,
}

/// Where a seat's thread was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatInfo {
    /// The PU that its thread began on; a thread bound to a group may have moved since.
    pub pu: PuId,
    /// The core group of that PU.
    pub group: GroupId,
    /// The node of that PU.
    pub node: NodeId,
    /// Whether no thread sits there: the log is that of callers without a seat, as if they were on this PU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_callers: bool,
}

/// A model, and the requests that were instances of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// What the model is called.
    pub name: String,
    /// The requests that ran it, as [`BoxId::request`] names them.
    pub requests: Vec<u32>,
    /// Its boxes, in the order of [`BoxId::index`].
    pub boxes: Vec<BoxInfo>,
}

/// A box of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxInfo {
    /// Its name in the model.
    pub name: String,
    /// What kind of box it is; [`Trace::summary`] adds up by this.
    pub type_name: String,
    /// Where its inputs come from. Empty in files of older versions.
    #[serde(default)]
    pub inputs: Vec<Source>,
    /// How much each input holds before it refuses. Empty in files of older versions.
    #[serde(default)]
    pub bounds: Vec<Bound>,
}

/// How much an input holds before it refuses: always one envelope, and not more than these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// At most so many envelopes.
    pub envelopes: u32,
    /// At most so many bytes.
    pub bytes: u64,
}

/// Where a box's input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    /// The index of the box that sends.
    #[serde(rename = "box")]
    pub index: u32,
    /// Which of its outputs.
    pub output: u16,
}

impl Header {
    /// A header for so many seats, all said to sit on PU 0, and nothing else known.
    pub fn for_seats(seats: usize) -> Header {
        let seat = SeatInfo { pu: PuId::new(0), group: GroupId::new(0), node: NodeId::new(0), is_callers: false };
        Header { seats: vec![seat; seats], ..Header::default() }
    }
}

impl Trace {
    /// A trace of these logs. Panics unless there is one log for each seat of the header.
    pub fn new(header: Header, logs: Vec<SeatLog>) -> Trace {
        assert_eq!(header.seats.len(), logs.len(), "a trace has one log for each seat of its header");
        Trace { header, logs }
    }

    /// What was run, on what.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The log of each seat, in the order of the header's seats.
    pub fn logs(&self) -> &[SeatLog] {
        &self.logs
    }

    /// How many events were not recorded because a log was full.
    pub fn lost(&self) -> u64 {
        self.logs.iter().fold(0, |sum, log| sum.saturating_add(log.lost))
    }

    /// The highest order up to which no event of any seat is missing; `None` if none is missing at all.
    pub fn complete_until(&self) -> Option<u64> {
        let full = self.logs.iter().filter(|log| log.lost > 0);
        full.map(|log| log.events.last().map_or(0, |event| event.order)).min()
    }

    /// Looks up boxes by the ids that events carry. Costs one pass over the models' requests.
    pub fn names(&self) -> Names<'_> {
        let models = &self.header.models;
        let requests = models.iter().flat_map(|model| model.requests.iter().map(move |&request| (request, model)));
        Names { models: requests.collect() }
    }
}

/// The boxes of a trace by id; from [`Trace::names`].
pub struct Names<'a> {
    models: rustc_hash::FxHashMap<u32, &'a ModelInfo>,
}

impl<'a> Names<'a> {
    /// What the header says of a box, if anything.
    pub fn get(&self, who: BoxId) -> Option<&'a BoxInfo> {
        self.models.get(&who.request)?.boxes.get(who.index as usize)
    }

    /// The box's name: the model's, or `task` and its number for a task that is no box, or its index.
    pub fn name(&self, who: BoxId) -> String {
        match self.get(who) {
            Some(info) => info.name.clone(),
            None if who.is_box() => format!("box{}", who.index),
            None => who.number().map_or("task".to_owned(), |number| format!("task{number}")),
        }
    }

    /// What kind of box it is; `(task)` for a task that is no box, `(unknown)` if the header doesn't say.
    pub fn type_name(&self, who: BoxId) -> &'a str {
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
        assert_eq!(names.name(BoxId { request: 8, index: 0 }), "scan1");
        assert_eq!(names.type_name(BoxId { request: 8, index: 0 }), "Scan");
        assert_eq!(names.name(BoxId { request: 8, index: 1 }), "box1");
        assert_eq!(names.type_name(BoxId { request: 9, index: 0 }), "(unknown)");
        assert_eq!(names.type_name(BoxId::task_of(8)), "(task)");
    }
}
