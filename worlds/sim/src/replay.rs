//! The program of a recorded run: the same tasks, each as long as it was, let go by the same ones.
//!
//! What is kept: each invocation with its duration, who queued it and how, its request, the envelopes that it made and took, and
//! what it read from a store. An invocation waits for what it took to be made, and for its box's invocation before: a box runs
//! once at a time. What is not kept: under another strategy a box would find other heads at its inputs, and its
//! invocations would be cut otherwise. So replay is for comparing strategies on the same work, not for predicting what
//! the protocol itself would make of them.
//!
//! Envelopes lie in blocks of threads' heaps ([`Program::heap`](crate::Program::heap)): an invocation writes to memory of the thread
//! that runs it, which is used again when all have read it.
//!
//! What a box reads from the store lies together, box by box, as parts of a range do that replicas share. A part's reader is
//! queued where the part lies, under strategies that know of such places, as in worlds/machine.
//!
//! A recorded duration contains the time for memory on the machine that recorded. It is taken off before the simulated machine's
//! is added: the bytes of the envelopes and of the store at [`ReplayOptions::bytes_per_ns`].

use crate::{ArraySpec, Cost, Program, Step, TaskSpec, Work};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use vicus_memory::distribution::Distribution;
use vicus_memory::{Series, Sizes};
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
    /// By task, the number of the box that it is an invocation of; the boxes of copies are boxes of their own. The first task is
    /// none's.
    pub boxes: Vec<Option<u32>>,
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
#[derive(Clone, Debug)]
struct Invocation {
    /// Whose it is.
    who: BoxId,
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
    /// What is over before it begins: its box's invocation before, and the makers of what it takes. Who lets it go is not
    /// among them.
    after: Vec<usize>,
    /// What has let it go; `None` if it came from outside.
    by: Option<usize>,
}

impl Invocation {
    fn new(who: BoxId, leaf: usize, deferred: bool) -> Invocation {
        Invocation {
            who,
            deferred,
            leaf,
            from_ns: None,
            duration_ns: 0,
            takes: Vec::new(),
            makes: Vec::new(),
            reads: 0,
            lets_go: Vec::new(),
            after: Vec::new(),
            by: None,
        }
    }

    fn follows(&mut self, earlier: usize) {
        if self.by != Some(earlier) && !self.after.contains(&earlier) {
            self.after.push(earlier);
        }
    }
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
    /// How large each envelope is, and the invocation that made it.
    envelopes: Vec<(u64, usize)>,
    /// By box, its last invocation that has begun.
    latest: BTreeMap<BoxId, usize>,
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
            latest: BTreeMap::new(),
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
                if let Some(earlier) = self.latest.insert(who, task) {
                    self.tasks[task].follows(earlier);
                }
                self.running[seat].push(task);
            }
            What::InvocationEnds { who } => {
                let task = self.running[seat].pop().ok_or_else(|| format!("that {who} runs before it ends"))?;
                let from_ns = self.tasks[task].from_ns.expect("it runs");
                let duration_ns = time_ns.saturating_sub(from_ns);
                self.tasks[task].duration_ns = duration_ns;
                // What it read is in the trace together with what it took.
                let taken: u64 = self.tasks[task].takes.iter().map(|&envelope| self.envelopes[envelope].0).sum();
                self.tasks[task].reads = self.tasks[task].reads.saturating_sub(taken);
                self.last[seat] = Some((who, task));
                // It ran on top of another, whose time this is not.
                if let Some(&below) = self.running[seat].last() {
                    self.tasks[below].from_ns = self.tasks[below].from_ns.map(|from_ns| from_ns + duration_ns);
                }
            }
            What::EnvelopeReceived { who, input, pill, .. } => {
                let envelope = self.vias.get_mut(&(who, input)).and_then(VecDeque::pop_front);
                if let Some(envelope) = envelope {
                    let maker = self.envelopes[envelope].1;
                    let taker = self.runs(seat, "a received envelope")?;
                    taker.follows(maker);
                    if !pill {
                        taker.takes.push(envelope);
                    }
                }
            }
            What::EnvelopeCreated { bytes, .. } => {
                let envelope = self.envelopes.len();
                self.runs(seat, "an envelope that is made")?.makes.push(envelope);
                let maker = *self.running[seat].last().expect("it runs");
                self.envelopes.push((u64::from(bytes), maker));
                self.made[seat] = Some(envelope);
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
        self.tasks.push(Invocation::new(who, leaf, deferred));
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
                self.tasks[task].by = Some(parent);
                Ok(())
            }
            _ => Err(format!("that box {by} has just run on this seat, as {who} was queued by it")),
        }
    }

    /// Leaves out what is of other requests, as if it had never run.
    fn keep(&mut self, requests: &[u32]) {
        if !requests.is_empty() {
            let others = self.tasks.iter_mut().filter(|task| !requests.contains(&task.who.request));
            others.for_each(|task| *task = Invocation::new(task.who, task.leaf, task.deferred));
        }
    }

    /// Whether an invocation hands out parts of a range that others read, with the place where each lies
    /// (`vicus_flow::library::split`).
    fn hands_out(&self, task: usize) -> bool {
        self.leaves[self.tasks[task].leaf] == "split"
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
        let maker = Maker::new(&self, options);
        let mut replay = Replay { program: Program::default(), boxes: Vec::new(), recorded_ns: 0.0, taken_off_ns: 0.0 };
        let mut root = TaskSpec { pinned: Some(0), ..TaskSpec::default() };
        root.steps.push(Step::Start);
        let mut tasks = Vec::new();
        let (mut boxes, mut numbers) = (vec![None], BTreeMap::new());
        let requests = 1 + self.tasks.iter().map(|task| task.who.request).max().unwrap_or(0);
        for copy in 0..options.copies {
            let first = 1 + copy as u32 * count;
            for &task in &self.roots {
                if let Some(number) = number[task] {
                    root.steps.push(Step::Spawn(first + number..first + number + 1));
                }
            }
            for (at, invocation) in self.tasks.iter().enumerate().filter(|(_, task)| task.from_ns.is_some()) {
                let accesses = maker.accesses(copy, at, invocation);
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
                let kind = if invocation.deferred { Kind::Deferred } else { Kind::Immediate };
                let after = invocation.after.iter().filter_map(|&earlier| number[earlier]);
                tasks.push(TaskSpec {
                    kind,
                    request: RequestId(u64::from(invocation.who.request) + u64::from(requests) * copy as u64),
                    accesses: footprint,
                    after: after.map(|earlier| first + earlier).collect(),
                    released: kind,
                    outside: invocation.by.is_none(),
                    goes_home: invocation.reads > 0 && invocation.by.is_some_and(|by| self.hands_out(by)),
                    steps,
                    ..TaskSpec::default()
                });
                let next = numbers.len() as u32;
                boxes.push(Some(*numbers.entry((copy, invocation.who)).or_insert(next)));
            }
        }
        replay.boxes = boxes;
        replay.program = Program {
            name: format!(
                "replay of {} recorded on {}",
                trace.header().models.iter().map(|m| m.name.as_str()).collect::<Vec<_>>().join(", "),
                trace.header().machine
            ),
            heap: maker.heap..maker.arrays.len(),
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
    /// The first array that is an envelope. All others are as well.
    heap: usize,
    /// By copy and envelope, where it begins; 0 for those without bytes.
    starts: Vec<usize>,
    sizes: Vec<usize>,
    /// By task, where in the store it reads. All copies read the same.
    reads: Vec<usize>,
}

/// Up to so many bytes, blocks are of small classes, as in worlds/machine.
const SMALL: usize = 8 << 10;

/// Arrays begin at multiples of a page.
const PAGE: usize = 4096;

impl Maker {
    fn new(reader: &Reader, options: &ReplayOptions) -> Maker {
        let is_kept = |task: usize| reader.tasks[task].from_ns.is_some();
        let size = |&(bytes, by): &(u64, usize)| if is_kept(by) { bytes as usize } else { 0 };
        let mut maker = Maker {
            arrays: Vec::new(),
            heap: 0,
            starts: Vec::new(),
            sizes: reader.envelopes.iter().map(size).collect(),
            reads: vec![0; reader.tasks.len()],
        };
        let mut free = PAGE;
        let mut array = |bytes: usize, distribution: Distribution, arrays: &mut Vec<ArraySpec>| {
            let base = free;
            free += bytes.next_multiple_of(PAGE) + PAGE;
            arrays.push(ArraySpec { base, bytes, distribution });
            base
        };
        let store_bytes: u64 = reader.tasks.iter().map(|task| task.reads).sum();
        if store_bytes > 0 {
            let mut next = array(store_bytes as usize, options.store.clone(), &mut maker.arrays);
            let mut order: Vec<usize> = (0..reader.tasks.len()).collect();
            // Those of a box stay in the order of their time.
            order.sort_by_key(|&task| reader.tasks[task].who);
            for task in order {
                maker.reads[task] = next;
                next += reader.tasks[task].reads as usize;
            }
        }
        maker.heap = maker.arrays.len();
        let classes = Sizes::new(Series::default(), SMALL).expect("the series of threads' heaps is a good one");
        // What no class is for is mapped alone.
        let block = |bytes: usize| classes.class_of(bytes).map_or(bytes, |class| classes.bytes(class));
        for _ in 0..options.copies {
            for &bytes in &maker.sizes {
                let start = if bytes > 0 { array(block(bytes), Distribution::Standard, &mut maker.arrays) } else { 0 };
                maker.starts.push(start);
            }
        }
        maker
    }

    fn accesses(&self, copy: usize, task: usize, invocation: &Invocation) -> Vec<Access> {
        let envelope = |&envelope: &usize, mode| {
            let bytes = self.sizes[envelope];
            (bytes > 0).then(|| Access::new(self.starts[copy * self.sizes.len() + envelope], bytes, mode))
        };
        let takes = invocation.takes.iter().filter_map(|at| envelope(at, Mode::Read));
        let makes = invocation.makes.iter().filter_map(|at| envelope(at, Mode::Write));
        let bytes = invocation.reads as usize;
        let reads = (bytes > 0).then(|| Access::new(self.reads[task], bytes, Mode::Read));
        takes.chain(makes).chain(reads).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_trace::{BoxInfo, Header, Log, ModelInfo};

    const SOURCE: BoxId = BoxId { request: 7, index: 0 };
    const SINK: BoxId = BoxId { request: 7, index: 1 };

    fn named(name: &str, senders: &[u16]) -> BoxInfo {
        let inputs = senders.iter().map(|&output| Source { index: 0, output }).collect();
        BoxInfo { name: name.to_owned(), type_name: name.to_owned(), inputs }
    }

    /// What one seat recorded, with each time in so many nanoseconds.
    fn trace(boxes: Vec<BoxInfo>, unit_ns: u64, events: impl IntoIterator<Item = (u64, What)>) -> Trace {
        let models = vec![ModelInfo { name: "boxes".to_owned(), requests: vec![7], boxes }];
        let mut log = Log::new(100);
        events.into_iter().for_each(|(time, what)| _ = log.record(time * unit_ns, what));
        Trace::new(Header { models, ..Header::for_seats(1) }, vec![log.finish()])
    }

    fn queued(who: BoxId, kind: TaskKind, by: u32) -> What {
        What::Enqueued { who, kind, by }
    }

    fn received(who: BoxId) -> What {
        What::EnvelopeReceived { who, input: 0, rows: 512, pill: false }
    }

    /// What makes and sends an envelope of the source's.
    fn sends(output: u16, bytes: u32) -> [What; 2] {
        let sent = What::EnvelopeSent { who: SOURCE, output, rows: 512, pill: false };
        [What::EnvelopeCreated { who: SOURCE, output, bytes }, sent]
    }

    /// A source makes an envelope of 4,096 bytes, and a sink takes it and reads 1,000 bytes of a store.
    fn two_boxes(unit_ns: u64) -> Trace {
        let [made, sent] = sends(0, 4096);
        let events = [
            (0, queued(SOURCE, TaskKind::Deferred, BoxId::NOBODY)),
            (100, What::InvocationBegins { who: SOURCE }),
            (900, made),
            (900, sent),
            (1100, What::InvocationEnds { who: SOURCE }),
            (1100, queued(SINK, TaskKind::Immediate, 0)),
            (1200, What::InvocationBegins { who: SINK }),
            (1200, received(SINK)),
            (3000, What::BytesRead { who: SINK, far: false, bytes: 4096 + 1000 }),
            (3200, What::InvocationEnds { who: SINK }),
        ];
        trace(vec![named("source", &[]), named("sink", &[0])], unit_ns, events)
    }

    #[test]
    fn what_is_taken_and_what_is_read_are_told_apart() {
        let options = ReplayOptions { copies: 2, bytes_per_ns: 10.0, ..ReplayOptions::default() };
        let replay = Replay::of(&two_boxes(1), &options).unwrap();
        replay.program.check().unwrap();
        let sizes: Vec<usize> = replay.program.arrays.iter().map(|array| array.bytes).collect();
        let envelope = sizes[1];
        assert!((4096..4096 + 4096 / 4 + 64).contains(&envelope), "a small class of heaps: {envelope}");
        assert_eq!(sizes, [1000, envelope, envelope], "the store, and an envelope for each copy");
        // Durations of 1,000 and 2,000 ns; 4,096 bytes written, and 5,096 read, at 10 bytes in a nanosecond.
        assert_eq!(replay.recorded_ns, 2.0 * 3000.0);
        assert!((replay.taken_off_ns - 2.0 * (409.6 + 509.6)).abs() < 1e-6, "{}", replay.taken_off_ns);
    }

    /// The nodes that tasks ran on, but for the first one, and how each task went. Nobody looks around for work, and who submits
    /// stays away: tasks are for those who are woken for them, if they take longer than that.
    fn ran(mut replay: Replay) -> (Vec<usize>, Vec<crate::TaskRecord>) {
        let machine = crate::Machine::by_name("xeon-e7-4820").unwrap();
        let las: vicus_schedule::Setting = "las:spin_ns=0".parse().unwrap();
        let plan = las.plan(&machine.topology, 64);
        let away = Work { leaf: 0, cost: Cost::Nanos(1e6), accesses: Vec::new() };
        replay.program.tasks[0].steps.push(Step::Work(away));
        let parameters = crate::Parameters { wake_ns: 0.0, ..crate::Parameters::default() };
        let options = crate::Options { parameters, ..crate::Options::default() };
        let tasks = crate::simulate(&machine, &plan, &replay.program, &options).unwrap().tasks;
        let node = |task: &crate::TaskRecord| plan.seats[task.seat as usize].node.index();
        (tasks[1..].iter().map(node).collect(), tasks)
    }

    /// The source lets the sink go twice, which is quicker each time: on many threads, too, it takes one envelope after the other.
    #[test]
    fn a_box_runs_once_at_a_time_and_takes_what_was_made() {
        let mut events = vec![(0, queued(SOURCE, TaskKind::Deferred, BoxId::NOBODY))];
        for (at, again) in [(0, true), (10_000, false)] {
            let [made, sent] = sends(0, 4096);
            events.extend([
                (at + 100, What::InvocationBegins { who: SOURCE }),
                (at + 900, made),
                (at + 900, sent),
                (at + 1100, What::InvocationEnds { who: SOURCE }),
            ]);
            if again {
                events.push((at + 1100, queued(SOURCE, TaskKind::Deferred, 0)));
            }
            events.extend([
                (at + 1100, queued(SINK, TaskKind::Immediate, 0)),
                (at + 1100, What::InvocationBegins { who: SINK }),
                (at + 1100, received(SINK)),
                (at + 9100, What::InvocationEnds { who: SINK }),
            ]);
        }
        let replay =
            Replay::of(&trace(vec![named("source", &[]), named("sink", &[0])], 1, events), &ReplayOptions::default());
        let replay = replay.unwrap();
        // Numbered in the order in which they were queued.
        assert_eq!(replay.boxes, [None, Some(0), Some(0), Some(1), Some(1)]);
        let after: Vec<&[u32]> = replay.program.tasks.iter().map(|task| &task.after[..]).collect();
        assert_eq!(after, [&[][..], &[], &[], &[], &[3]], "what lets it go is over anyhow");
        let (_, tasks) = ran(replay);
        assert!(tasks[2].start_ns < tasks[3].end_ns, "the source goes on beside the sink");
        assert!(tasks[4].start_ns >= tasks[3].end_ns, "{tasks:?}");
    }

    /// The sink is the source's last immediate task: it goes on where that was, unless the source still has something to do.
    #[test]
    fn the_last_immediate_task_wakes_nobody() {
        let replay = Replay::of(&two_boxes(100), &ReplayOptions::default()).unwrap();
        let machine = crate::Machine::by_name("xeon-e7-4820").unwrap();
        let wakes = |program: &Program| {
            let las: vicus_schedule::Setting = "las:spin_ns=0".parse().unwrap();
            let options = crate::Options::default();
            crate::simulate(&machine, &las.plan(&machine.topology, 64), program, &options).unwrap().counts.wakes
        };
        let alone = wakes(&replay.program);
        let mut busy = replay.program.clone();
        busy.tasks[1].steps.push(Step::Work(Work { leaf: 0, cost: Cost::Nanos(1e6), accesses: Vec::new() }));
        assert_eq!(wakes(&busy), alone + 1, "its spawner goes on");
    }

    #[test]
    fn copies_begin_in_different_neighbourhoods_and_are_requests_of_their_own() {
        let replay = Replay::of(&two_boxes(100), &ReplayOptions { copies: 4, ..ReplayOptions::default() }).unwrap();
        let requests: Vec<u64> = replay.program.tasks[1..].iter().map(|task| task.request.0).collect();
        assert_eq!(requests, [7, 7, 15, 15, 23, 23, 31, 31]);
        assert_eq!(ran(replay).0, [0, 0, 1, 1, 2, 2, 3, 3]);
    }

    /// Four replicas read a part each, of which each lies on a node of its own.
    #[test]
    fn a_part_is_read_where_it_lies() {
        let replica = |index| BoxId { request: 7, index };
        let mut events =
            vec![(0, queued(SOURCE, TaskKind::Deferred, BoxId::NOBODY)), (100, What::InvocationBegins { who: SOURCE })];
        let parts = [1, 2, 3, 4];
        events.extend(parts.iter().flat_map(|&part| sends(part - 1, 24)).map(|what| (200, what)));
        events.push((300, What::InvocationEnds { who: SOURCE }));
        events.extend(parts.into_iter().rev().map(|part| (300, queued(replica(part.into()), TaskKind::Immediate, 0))));
        for part in parts.into_iter().rev() {
            let (who, at) = (replica(part.into()), 10_000 * u64::from(10 - part));
            events.extend([
                (at, What::InvocationBegins { who }),
                (at, received(who)),
                (at + 8000, What::BytesRead { who, far: false, bytes: 24 + (1 << 20) }),
                (at + 9000, What::InvocationEnds { who }),
            ]);
        }
        let of = |splitter: &str| {
            let scans = parts.map(|part| named("scan", &[part - 1]));
            let boxes = [named(splitter, &[])].into_iter().chain(scans).collect();
            let replay = Replay::of(&trace(boxes, 100, events.clone()), &ReplayOptions::default()).unwrap();
            ran(replay).0
        };
        // The last part is the first to be read: where it lies does not hang on that.
        assert_eq!(of("split")[1..], [3, 2, 1, 0]);
        assert_eq!(of("source")[1..], [0; 4], "immediate tasks stay on their node");
    }
}
