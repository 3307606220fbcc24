//! The program of a recorded run: the same tasks, each as long as it was, let go by the same ones.
//!
//! What is kept: each invocation with its duration, who queued it and how, its request, the envelopes that it made and took, and
//! what it read from a store. What is not: under another strategy a box would find other heads at its inputs, and its
//! invocations would be cut otherwise. So replay is for comparing strategies on the same work, not for predicting what
//! the protocol itself would make of them.
//!
//! A recorded duration contains the time for memory on the machine that recorded. It is taken off before the simulated machine's
//! is added: the bytes of the envelopes and of the store at [`ReplayOptions::bytes_per_ns`].

use crate::{ArraySpec, Cost, Program, Step, TaskSpec, Work};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Kind, Mode, RequestId};
use vicus_trace::{BoxId, Source, TaskKind, Trace, What};

/// How a trace becomes a program.
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

/// Why a trace can't be replayed.
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
        if trace.lost() > 0 {
            return Err(ReplayError::Lost { events: trace.lost() });
        }
        let mut reader = Reader::new(trace);
        for entry in trace.merged() {
            let time = entry.event.time_ns;
            reader.read(entry.seat, time, entry.event.what).map_err(|expected| ReplayError::Odd {
                seat: entry.seat,
                event: entry.index,
                expected,
            })?;
        }
        reader.keep(&options.requests);
        if reader.tasks.iter().all(|task| task.from_ns.is_none()) {
            return Err(ReplayError::Empty);
        }
        Ok(reader.into_replay(trace, options))
    }
}

/// An invocation: what is known of it so far.
#[derive(Clone, Debug, Default)]
struct Invocation {
    request: u32,
    deferred: bool,
    leaf: usize,
    from_ns: Option<u64>,
    duration_ns: u64,
    /// Envelopes, as indices.
    takes: Vec<usize>,
    makes: Vec<usize>,
    /// Bytes of the store.
    reads: u64,
    /// What it lets go when it is over.
    lets_go: Vec<usize>,
}

struct Reader {
    tasks: Vec<Invocation>,
    /// Tasks that come from outside.
    roots: Vec<usize>,
    /// By box, the invocation that is queued.
    queued: BTreeMap<BoxId, usize>,
    /// By seat, the invocations that run, on top of one another.
    running: Vec<Vec<usize>>,
    /// By seat, the invocation that was over last.
    last: Vec<Option<(BoxId, usize)>>,
    /// By request and sender's output, its readers: box and input.
    readers: BTreeMap<(u32, Source), Vec<(BoxId, u16)>>,
    /// By reader, the envelopes on their way.
    vias: BTreeMap<(BoxId, u16), VecDeque<usize>>,
    /// How large each envelope is.
    envelopes: Vec<u64>,
    /// By seat, the envelope that was made and is not sent yet.
    made: Vec<Option<usize>>,
    /// The types of boxes, and by box its type.
    leaves: Vec<String>,
    leaf_of: BTreeMap<BoxId, usize>,
}

impl Reader {
    fn new(trace: &Trace) -> Reader {
        let seats = trace.logs().len();
        let mut reader = Reader {
            tasks: Vec::new(),
            roots: Vec::new(),
            queued: BTreeMap::new(),
            running: vec![Vec::new(); seats],
            last: vec![None; seats],
            readers: BTreeMap::new(),
            vias: BTreeMap::new(),
            envelopes: Vec::new(),
            made: vec![None; seats],
            leaves: Vec::new(),
            leaf_of: BTreeMap::new(),
        };
        for model in &trace.header().models {
            for &request in &model.requests {
                for (index, info) in model.boxes.iter().enumerate() {
                    let who = BoxId { request, index: index as u32 };
                    let known = reader.leaves.iter().position(|leaf| *leaf == info.type_name);
                    let leaf = known.unwrap_or_else(|| {
                        reader.leaves.push(info.type_name.clone());
                        reader.leaves.len() - 1
                    });
                    reader.leaf_of.insert(who, leaf);
                    for (input, source) in info.inputs.iter().enumerate() {
                        reader.readers.entry((request, *source)).or_default().push((who, input as u16));
                    }
                }
            }
        }
        reader
    }

    /// The invocation that runs on a seat.
    fn runs(&mut self, seat: usize, what: &str) -> Result<&mut Invocation, String> {
        let task = self.running[seat].last().copied().ok_or_else(|| format!("an invocation around {what}"))?;
        Ok(&mut self.tasks[task])
    }

    /// Reads an event. The error says what was expected.
    fn read(&mut self, seat: usize, time_ns: u64, what: What) -> Result<(), String> {
        match what {
            What::Enqueued { who, kind, by } if who.is_box() => self.enqueued(seat, who, kind, by)?,
            What::InvocationBegins { who } => {
                let task = self.queued.remove(&who).ok_or_else(|| format!("that {who} was queued before it runs"))?;
                self.tasks[task].from_ns = Some(time_ns);
                self.running[seat].push(task);
            }
            What::InvocationEnds { who } => {
                let task = self.running[seat].pop().ok_or_else(|| format!("that {who} runs before it ends"))?;
                let from_ns = self.tasks[task].from_ns.expect("it runs");
                let duration_ns = time_ns.saturating_sub(from_ns);
                self.tasks[task].duration_ns = duration_ns;
                // What it read is in the trace together with what it took.
                let taken: u64 = self.tasks[task].takes.iter().map(|&envelope| self.envelopes[envelope]).sum();
                self.tasks[task].reads = self.tasks[task].reads.saturating_sub(taken);
                self.last[seat] = Some((who, task));
                // It ran on top of another, whose time this is not.
                if let Some(&below) = self.running[seat].last() {
                    self.tasks[below].from_ns = self.tasks[below].from_ns.map(|from_ns| from_ns + duration_ns);
                }
            }
            What::EnvelopeReceived { who, input, pill, .. } => {
                let envelope = self.vias.get_mut(&(who, input)).and_then(VecDeque::pop_front);
                if let (Some(envelope), false) = (envelope, pill) {
                    self.runs(seat, "a received envelope")?.takes.push(envelope);
                }
            }
            What::EnvelopeCreated { bytes, .. } => {
                self.envelopes.push(u64::from(bytes));
                let envelope = self.envelopes.len() - 1;
                self.made[seat] = Some(envelope);
                if bytes > 0 {
                    self.runs(seat, "an envelope that is made")?.makes.push(envelope);
                }
            }
            What::EnvelopeSent { who, output, .. } => {
                let envelope = self.made[seat].take().ok_or("that an envelope is made before it is sent")?;
                let source = Source { index: who.index, output };
                for &reader in self.readers.get(&(who.request, source)).map_or(&[][..], Vec::as_slice) {
                    self.vias.entry(reader).or_default().push_back(envelope);
                }
            }
            What::BytesRead { bytes, .. } => self.runs(seat, "what is read")?.reads += u64::from(bytes),
            _ => {}
        }
        Ok(())
    }

    fn enqueued(&mut self, seat: usize, who: BoxId, kind: TaskKind, by: u32) -> Result<(), String> {
        let leaf = *self.leaf_of.get(&who).ok_or_else(|| format!("a model that {who} is of"))?;
        let task = self.tasks.len();
        let deferred = kind == TaskKind::Deferred;
        self.tasks.push(Invocation { request: who.request, deferred, leaf, ..Invocation::default() });
        if self.queued.insert(who, task).is_some() {
            return Err(format!("that {who} is queued once at a time"));
        }
        if by == BoxId::NOBODY {
            self.roots.push(task);
            return Ok(());
        }
        // What an invocation activates is queued right after its end, on its seat.
        match self.last[seat] {
            Some((last, parent)) if last == (BoxId { request: who.request, index: by }) => {
                self.tasks[parent].lets_go.push(task);
                Ok(())
            }
            _ => Err(format!("that box {by} has just run on this seat, as {who} was queued by it")),
        }
    }

    /// Leaves out what is of other requests, as if it had never run.
    fn keep(&mut self, requests: &[u32]) {
        if !requests.is_empty() {
            let others = self.tasks.iter_mut().filter(|task| !requests.contains(&task.request));
            others.for_each(|task| *task = Invocation::default());
        }
    }

    fn into_replay(self, trace: &Trace, options: &ReplayOptions) -> Replay {
        // What was queued and never ran, because its request had ended, is left out.
        let mut number = vec![None; self.tasks.len()];
        let mut count = 0u32;
        for (task, invocation) in self.tasks.iter().enumerate() {
            if invocation.from_ns.is_some() {
                number[task] = Some(count);
                count += 1;
            }
        }
        let mut maker = Maker::new(&self, options);
        let mut replay = Replay { program: Program::default(), recorded_ns: 0.0, taken_off_ns: 0.0 };
        let mut root = TaskSpec { pinned: Some(0), ..TaskSpec::default() };
        root.steps.push(Step::Start);
        let mut tasks = Vec::new();
        let requests = 1 + self.tasks.iter().map(|task| task.request).max().unwrap_or(0);
        for copy in 0..options.copies {
            let first = 1 + copy as u32 * count;
            for &task in &self.roots {
                if let Some(number) = number[task] {
                    root.steps.push(Step::Spawn(first + number..first + number + 1));
                }
            }
            for invocation in self.tasks.iter().filter(|task| task.from_ns.is_some()) {
                let accesses = maker.accesses(copy, invocation);
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
                    request: RequestId(u64::from(invocation.request) + u64::from(requests) * copy as u64),
                    accesses: footprint,
                    steps,
                    ..TaskSpec::default()
                });
            }
        }
        replay.program = Program {
            name: format!(
                "replay of {} recorded on {}",
                trace.header().models.iter().map(|m| m.name.as_str()).collect::<Vec<_>>().join(", "),
                trace.header().machine
            ),
            arrays: maker.arrays,
            leaves: self.leaves,
            tasks: std::iter::once(root).chain(tasks).collect(),
        };
        replay
    }
}

/// Lays out the memory of a replay: an array for each envelope of each copy, and one for the store.
struct Maker {
    arrays: Vec<ArraySpec>,
    /// By copy and envelope, where it begins; 0 for those without bytes.
    starts: Vec<usize>,
    envelopes: usize,
    sizes: Vec<usize>,
    store: usize,
    store_bytes: usize,
    /// Where the next read of the store begins.
    next: usize,
}

/// Arrays begin at multiples of a page.
const PAGE: usize = 4096;

impl Maker {
    fn new(reader: &Reader, options: &ReplayOptions) -> Maker {
        let sizes: Vec<usize> = reader.envelopes.iter().map(|&bytes| bytes as usize).collect();
        let store_bytes: u64 = reader.tasks.iter().map(|task| task.reads).sum();
        let mut maker = Maker {
            arrays: Vec::new(),
            starts: Vec::new(),
            envelopes: sizes.len(),
            sizes,
            store: 0,
            store_bytes: store_bytes as usize,
            next: 0,
        };
        let mut free = PAGE;
        let mut array = |bytes: usize, distribution: Distribution, arrays: &mut Vec<ArraySpec>| {
            let base = free;
            free += bytes.next_multiple_of(PAGE) + PAGE;
            arrays.push(ArraySpec { base, bytes, distribution });
            base
        };
        if maker.store_bytes > 0 {
            maker.store = array(maker.store_bytes, options.store.clone(), &mut maker.arrays);
        }
        for _ in 0..options.copies {
            for &bytes in &maker.sizes {
                let start = if bytes > 0 { array(bytes, Distribution::Standard, &mut maker.arrays) } else { 0 };
                maker.starts.push(start);
            }
        }
        maker
    }

    fn accesses(&mut self, copy: usize, invocation: &Invocation) -> Vec<Access> {
        let envelope = |&envelope: &usize, mode| {
            let bytes = self.sizes[envelope];
            (bytes > 0).then(|| Access::new(self.starts[copy * self.envelopes + envelope], bytes, mode))
        };
        let takes = invocation.takes.iter().filter_map(|at| envelope(at, Mode::Read));
        let makes = invocation.makes.iter().filter_map(|at| envelope(at, Mode::Write));
        let mut accesses: Vec<Access> = takes.chain(makes).collect();
        // The store is read from its beginning to its end, and again by the next copy.
        let mut left = invocation.reads as usize;
        while left > 0 {
            let bytes = left.min(self.store_bytes - self.next);
            accesses.push(Access::new(self.store + self.next, bytes, Mode::Read));
            self.next = (self.next + bytes) % self.store_bytes;
            left -= bytes;
        }
        accesses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_trace::{BoxInfo, Header, Log, ModelInfo};

    /// A source makes an envelope of 4,096 bytes, and a sink takes it and reads 1,000 bytes of a store.
    fn two_boxes() -> Trace {
        let named = |name: &str, inputs| BoxInfo { name: name.to_owned(), type_name: name.to_owned(), inputs };
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
