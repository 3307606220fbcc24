//! The program of a recorded run: the same tasks, each as long as it was, let go by the same ones.
//!
//! What is kept: each invocation with its duration, who queued it and how, its request, the envelopes that it made and took, and
//! what it read from a store. What is not: under another strategy a box would find other heads at its inputs, and its
//! invocations would be cut otherwise. So replay is for comparing strategies on the same work, not for predicting what
//! the protocol itself would make of them.
//!
//! A recorded duration contains the time for memory on the machine that recorded. It is taken off before the simulated machine's
//! is added: the bytes of the envelopes and of the store at [`ReplayOptions::bytes_per_ns`].

use crate::layout::Layout;
use crate::recorded::{Invocation, Recorded, title};
use crate::{Cost, Program, Step, TaskSpec, Work};
use std::fmt;
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Kind, Mode, RequestId};
use vicus_trace::Trace;

/// How a trace becomes what is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayOptions {
    /// Which requests, by their numbers in the trace; all, if none is named.
    pub requests: Vec<u32>,
    /// How many times the recorded requests run at once; the copies are requests of their own.
    pub copies: usize,
    /// How fast the machine that recorded moved a task's bytes, in bytes in a nanosecond (GB/s); what they took then is no part of
    /// the work. Infinity takes nothing off.
    pub bytes_per_ns: f64,
    /// How what is read from the store lies.
    pub store: Distribution,
}

impl Default for ReplayOptions {
    fn default() -> ReplayOptions {
        ReplayOptions { requests: Vec::new(), copies: 1, bytes_per_ns: 10.0, store: Distribution::Blocked }
    }
}

/// Why a trace can't be replayed or re-enacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// Seats ran out of room for events, and these were lost.
    Lost {
        /// How many.
        events: u64,
    },
    /// It has no invocation of a box of these requests.
    Empty,
    /// Something is not as the box protocol has it, so the trace is of another version, or was cut.
    Odd {
        /// The seat whose log it stands in.
        seat: usize,
        /// The event's place there.
        event: usize,
        /// What was expected.
        expected: String,
    },
    /// A request can't be re-enacted: it didn't come to its end, or its model is none.
    Request {
        /// Its number in the trace.
        request: u32,
        /// What was expected of it.
        expected: String,
    },
}

impl ReplayError {
    pub(crate) fn odd((seat, event): (usize, usize), expected: impl Into<String>) -> ReplayError {
        ReplayError::Odd { seat, event, expected: expected.into() }
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Lost { events } => {
                write!(f, "{events} events were lost when it was recorded, for want of room: record it with more room")
            }
            ReplayError::Empty => {
                f.write_str("the trace has no invocation of a box of these requests: nothing to replay")
            }
            ReplayError::Odd { seat, event, expected } => {
                write!(f, "event {event} of seat {seat}: expected {expected}")
            }
            ReplayError::Request { request, expected } => write!(f, "request {request}: expected {expected}"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// A recorded run as a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// What to simulate.
    pub program: Program,
    /// The sum of all invocations' durations in the trace, in nanoseconds, for each copy once.
    pub recorded_ns: f64,
    /// What of it was taken off as time for memory. What is left, and this, is the recorded time.
    pub taken_off_ns: f64,
}

impl Replay {
    /// Makes a program of a trace.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn of(trace: &Trace, options: &ReplayOptions) -> Result<Replay, ReplayError> {
        let recorded = Recorded::of(trace, &options.requests)?;
        // What was queued and never ran, because its request had ended, is left out.
        let mut number = vec![None; recorded.tasks.len()];
        let mut count = 0u32;
        for (task, invocation) in recorded.tasks.iter().enumerate() {
            if invocation.from_ns.is_some() {
                number[task] = Some(count);
                count += 1;
            }
        }
        let layout = Layout::new(&recorded, options.copies, &options.store);
        let mut replay = Replay { program: Program::default(), recorded_ns: 0.0, taken_off_ns: 0.0 };
        let mut root = TaskSpec { pinned: Some(0), ..TaskSpec::default() };
        root.steps.push(Step::Start);
        let mut tasks = Vec::new();
        let requests = 1 + recorded.tasks.iter().map(|task| u64::from(task.request)).max().unwrap_or(0);
        for copy in 0..options.copies {
            let first = 1 + copy as u32 * count;
            for &task in &recorded.roots {
                if let Some(number) = number[task] {
                    root.steps.push(Step::Spawn(first + number..first + number + 1));
                }
            }
            // The store is read from its beginning to its end, and again by the next copy.
            let mut from = 0;
            for invocation in recorded.tasks.iter().filter(|task| task.from_ns.is_some()) {
                let accesses = accesses(&layout, copy, invocation, from);
                from += invocation.reads;
                let bytes: usize = accesses.iter().map(Access::total_bytes).sum();
                let duration = invocation.duration_ns as f64;
                let memory = (bytes as f64 / options.bytes_per_ns).min(duration);
                replay.recorded_ns += duration;
                replay.taken_off_ns += memory;
                let work = Work { leaf: invocation.leaf as u32, cost: Cost::Nanos(duration - memory), accesses };
                let footprint = work.accesses.iter().filter(|access| access.mode == Mode::Read).copied().collect();
                let mut steps = vec![Step::Work(work)];
                let children = invocation.lets_go.iter().filter_map(|&child| number[child]);
                steps.extend(children.map(|child| Step::Spawn(first + child..first + child + 1)));
                tasks.push(TaskSpec {
                    kind: if invocation.deferred { Kind::Deferred } else { Kind::Immediate },
                    request: RequestId(u64::from(invocation.request) + requests * copy as u64),
                    accesses: footprint,
                    steps,
                    ..TaskSpec::default()
                });
            }
        }
        replay.program = Program {
            name: title("replay", trace),
            arrays: layout.arrays,
            leaves: recorded.leaves,
            tasks: std::iter::once(root).chain(tasks).collect(),
        };
        Ok(replay)
    }
}

/// What an invocation of a copy touches.
fn accesses(layout: &Layout, copy: usize, invocation: &Invocation, from: u64) -> Vec<Access> {
    let taken = invocation.takes.iter().filter_map(|taken| taken.envelope);
    let takes = taken.filter_map(|envelope| layout.envelope(copy, envelope, Mode::Read));
    let makes = invocation.makes.iter().filter_map(|made| layout.envelope(copy, made.envelope, Mode::Write));
    takes.chain(makes).chain(layout.store(from, invocation.reads)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_trace::{BoxId, BoxInfo, Header, Log, ModelInfo, Source, TaskKind, What};

    /// A source makes an envelope of 4,096 bytes, and a sink takes it and reads 1,000 bytes of a store.
    fn two_boxes() -> Trace {
        let named = |name: &str, inputs| BoxInfo {
            name: name.to_owned(),
            type_name: name.to_owned(),
            inputs,
            ..BoxInfo::default()
        };
        let boxes = vec![named("source", vec![]), named("sink", vec![Source { index: 0, output: 0 }])];
        let models = vec![ModelInfo { name: "two".to_owned(), requests: vec![7], boxes }];
        let [source, sink] = [0, 1].map(|index| BoxId { request: 7, index });
        let mut log = Log::new(100);
        for (time_ns, what) in [
            (0, What::Enqueued { who: source, kind: TaskKind::Deferred, by: BoxId::NOBODY }),
            (100, What::InvocationBegins { who: source }),
            (900, What::EnvelopeCreated { who: source, output: 0, bytes: 4096 }),
            (900, What::EnvelopeSent { who: source, output: 0, rows: 512, pill: false }),
            (1100, What::InvocationEnds { who: source }),
            (1100, What::Enqueued { who: sink, kind: TaskKind::Immediate, by: 0 }),
            (1200, What::InvocationBegins { who: sink }),
            (1200, What::EnvelopeReceived { who: sink, input: 0, rows: 512, pill: false }),
            (3000, What::BytesRead { who: sink, far: false, bytes: 4096 + 1000 }),
            (3200, What::InvocationEnds { who: sink }),
        ] {
            log.record(time_ns, what);
        }
        Trace::new(Header { models, ..Header::for_seats(1) }, vec![log.finish()])
    }

    #[test]
    fn what_is_taken_and_what_is_read_are_told_apart() {
        let options = ReplayOptions { copies: 2, bytes_per_ns: 10.0, ..ReplayOptions::default() };
        let replay = Replay::of(&two_boxes(), &options).unwrap();
        replay.program.check().unwrap();
        let sizes: Vec<usize> = replay.program.arrays.iter().map(|array| array.bytes).collect();
        assert_eq!(sizes, [1000, 4096, 4096], "the store, and an envelope for each copy");
        // Durations of 1,000 and 2,000 ns; 4,096 bytes written, and 5,096 read, at 10 bytes in a nanosecond.
        assert_eq!(replay.recorded_ns, 2.0 * 3000.0);
        assert!((replay.taken_off_ns - 2.0 * (409.6 + 509.6)).abs() < 1e-6, "{}", replay.taken_off_ns);
    }
}
