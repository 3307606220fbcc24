//! A recorded run as a program: the same tasks with the same durations, queued by the same tasks.
//!
//! A replay keeps each invocation with its duration, its spawner, its kind, its request, its inputs and outputs, and
//! its reads from a store. An invocation waits until its input envelopes are made, and until its box's last invocation
//! has ended: a box runs once at a time. But under another strategy a box would find other envelopes at its inputs, and
//! its invocations would be divided otherwise. So a replay compares strategies on the same work, and doesn't predict
//! how the protocol would divide it.
//!
//! Envelopes lie in blocks of threads' heaps ([`Program::heap`](crate::Program::heap)): an invocation writes to memory
//! of its thread, and the block is used again when all readers have read it.
//!
//! A box's parts of the store lie together, box by box, like the parts of a range shared by replicas. A part's reader
//! is queued at the part's place, under strategies with such places, as in worlds/machine.
//!
//! A box's own state, such as a hash table or rows to be sorted, is memory of its own, for each copy. It lies with its
//! first writer: the bytes of a growth belong to the thread of the growing invocation. The trace records how much is
//! kept, but not its use, so the same is assumed for all boxes:
//! * For each taken row, an invocation reads [`ReplayOptions::state_bytes_per_row`] of its box's earlier state, at
//!   random.
//! * Bytes given up by a box have been read by it; a box that sends rows without taking any has read as many bytes.
//!
//! An envelope kept by a box, such as a table from another box, is a part of its state. It isn't read when it is taken,
//! but later, from its maker's heap, and its block is used again when the box has run for the last time.
//!
//! The memory model knows ranges and no random lines: a random read is a part in one piece, with a place that follows
//! from the invocation's number and moves through the whole state.
//!
//! A trace of plain tasks is another thing (`tasks.rs`): they are ordered by their declared data, and these are their
//! accesses to memory.
//!
//! A recorded duration contains the time for memory on the recording machine. This time is subtracted before the
//! simulated machine's is added: the bytes of the envelopes, of the state, and of the store at
//! [`ReplayOptions::bytes_per_ns`].

use crate::layout::{Layout, StateIn, StatePart};
use crate::recorded::{Invocation, Recorded, title};
use crate::tasks;
use crate::{Cost, Program, Step, TaskSpec, Work};
use std::collections::BTreeMap;
use std::fmt;
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Kind, Mode, RequestId};
use vicus_trace::Trace;

/// How a trace becomes a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayOptions {
    /// The requests, by their numbers in the trace; all, if none is named.
    pub requests: Vec<u32>,
    /// How many times the recorded requests run at once; each copy has requests of its own.
    pub copies: usize,
    /// The recording machine's rate for a task's bytes, in bytes per nanosecond (GB/s). Their time is subtracted from
    /// the work; infinity subtracts nothing.
    pub bytes_per_ns: f64,
    /// The distribution of the store's bytes; or of plain tasks' data.
    pub store: Distribution,
    /// The bytes of its state read by a box for each taken row. By default a line of a cache, as for a look into a hash
    /// table.
    pub state_bytes_per_row: u64,
}

impl Default for ReplayOptions {
    fn default() -> ReplayOptions {
        ReplayOptions {
            requests: Vec::new(),
            copies: 1,
            bytes_per_ns: 10.0,
            store: Distribution::Blocked,
            state_bytes_per_row: 64,
        }
    }
}

/// Why a trace can't be replayed or re-enacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// Seats ran out of room for events, and these were lost.
    Lost {
        /// The number of these events.
        events: u64,
    },
    /// The trace has no invocation of a box of these requests.
    Empty {
        /// The requests with invocations.
        known: Vec<u32>,
    },
    /// An event contradicts the box protocol, so the trace is of another version, or was cut.
    Odd {
        /// The seat of the log.
        seat: usize,
        /// The event's index in the log.
        event: usize,
        /// The expectation.
        expected: String,
    },
    /// A run of plain tasks can't be replayed with these options.
    Tasks {
        /// The expectation.
        expected: String,
    },
    /// A request's network grew while it ran: it can be replayed, and not re-enacted.
    Grown {
        /// Its number in the trace.
        request: u32,
    },
    /// A request can't be re-enacted: it didn't end, or its model is wrong.
    Request {
        /// Its number in the trace.
        request: u32,
        /// The expectation.
        expected: String,
    },
}

/// The most requests of a trace in a message.
const MOST_SHOWN: usize = 8;

/// An event of a trace: its seat, and its place in that seat's log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventAt {
    pub(crate) seat: usize,
    pub(crate) event: usize,
}

impl ReplayError {
    pub(crate) fn odd(at: EventAt, expected: impl Into<String>) -> ReplayError {
        let EventAt { seat, event } = at;
        ReplayError::Odd { seat, event, expected: expected.into() }
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Lost { events } => {
                write!(f, "{events} events were lost when it was recorded, for want of room: record it with more room")
            }
            ReplayError::Empty { known } => {
                f.write_str("the trace has no invocation of a box of these requests: nothing to replay")?;
                let shown: Vec<String> = known.iter().take(MOST_SHOWN).map(u32::to_string).collect();
                match known.len() {
                    0 => Ok(()),
                    1..=MOST_SHOWN => write!(f, "; it has requests {}", shown.join(", ")),
                    all => write!(f, "; it has {all} requests, the first of them {}", shown.join(", ")),
                }
            }
            ReplayError::Odd { seat, event, expected } => {
                write!(f, "event {event} of seat {seat}: expected {expected}")
            }
            ReplayError::Tasks { expected } => write!(f, "a run of tasks that are not boxes: expected {expected}"),
            ReplayError::Grown { request } => {
                write!(f, "request {request}: its network grew while it ran, so it can be replayed, and not re-enacted")
            }
            ReplayError::Request { request, expected } => write!(f, "request {request}: expected {expected}"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// A recorded run as a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The program to simulate.
    pub program: Program,
    /// By task, the number of its invoked box; the boxes of copies have numbers of their own. `None` for the first
    /// task.
    pub boxes: Vec<Option<u32>>,
    /// The sum of all invocations' durations in the trace, in nanoseconds, for each copy once.
    pub recorded_ns: f64,
    /// The part of it subtracted as time for memory, and for spawns of plain tasks. The tasks' work is the rest.
    pub taken_off_ns: f64,
}

impl Replay {
    /// Makes a program of a trace.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn of(trace: &Trace, options: &ReplayOptions) -> Result<Replay, ReplayError> {
        if trace.lost() == 0 && tasks::is_of_tasks(trace) {
            return tasks::replay(trace, options);
        }
        let recorded = Recorded::of(trace, &options.requests)?;
        // Invocations queued but never run, because their request had ended, are left out.
        let mut number = vec![None; recorded.tasks.len()];
        let mut count = 0u32;
        for (task, invocation) in recorded.tasks.iter().enumerate() {
            if invocation.from_ns.is_some() {
                number[task] = Some(count);
                count += 1;
            }
        }
        let layout = Layout::new(&recorded, options.copies, &options.store);
        let mut replay = Replay { program: Program::default(), boxes: Vec::new(), recorded_ns: 0.0, taken_off_ns: 0.0 };
        let mut root = TaskSpec { pinned: Some(0), ..TaskSpec::default() };
        root.steps.push(Step::Start);
        let mut tasks = Vec::new();
        let (mut boxes, mut numbers) = (vec![None], BTreeMap::new());
        let reads = reads(&recorded);
        let requests = 1 + recorded.tasks.iter().map(|task| u64::from(task.request)).max().unwrap_or(0);
        for copy in 0..options.copies {
            let first = 1 + copy as u32 * count;
            for &task in &recorded.roots {
                if let Some(number) = number[task] {
                    root.steps.push(Step::Spawn(first + number..first + number + 1));
                }
            }
            for (at, invocation) in recorded.tasks.iter().enumerate().filter(|(_, task)| task.from_ns.is_some()) {
                let mut accesses = accesses(&layout, copy, invocation, reads[at]);
                let kept = state(&recorded, at, options.state_bytes_per_row);
                accesses.extend(kept.iter().filter_map(|part| layout.kept(copy, invocation.who(), part)));
                let bytes: usize = accesses.iter().map(Access::total_bytes).sum();
                let duration = invocation.duration_ns as f64;
                let memory = (bytes as f64 / options.bytes_per_ns).min(duration);
                replay.recorded_ns += duration;
                replay.taken_off_ns += memory;
                let work = Work { leaf: invocation.leaf as u32, cost: Cost::Nanos(duration - memory), accesses };
                let goes_home = invocation.reads > 0 && invocation.by.is_some_and(|by| recorded.hands_out(by));
                let footprint = match goes_home {
                    true => layout.store(reads[at], invocation.reads).collect(),
                    false => heads(&layout, copy, invocation),
                };
                let mut steps = vec![Step::Work(work)];
                let children = invocation.lets_go.iter().filter_map(|&child| number[child]);
                steps.extend(children.map(|child| Step::Spawn(first + child..first + child + 1)));
                // A reader of a part of the store has a place, and does not spread.
                let spreads = invocation.spreads && !goes_home;
                let is_deferred = invocation.deferred && (spreads || !invocation.spreads);
                let kind = if is_deferred { Kind::Deferred } else { Kind::Immediate };
                let after = invocation.after.iter().filter_map(|&earlier| number[earlier]);
                tasks.push(TaskSpec {
                    kind,
                    spreads,
                    of_box: Some(invocation.who().index),
                    request: RequestId::new(u64::from(invocation.request) + requests * copy as u64),
                    accesses: footprint,
                    after: after.map(|earlier| first + earlier).collect(),
                    released: kind,
                    outside: invocation.by.is_none(),
                    goes_home,
                    steps,
                    ..TaskSpec::default()
                });
                let next = numbers.len() as u32;
                boxes.push(Some(*numbers.entry((copy, invocation.who())).or_insert(next)));
            }
        }
        replay.boxes = boxes;
        replay.program = Program {
            name: title("replay", trace),
            heap: layout.heap..layout.arrays.len(),
            arrays: layout.arrays,
            leaves: recorded.leaves,
            tasks: std::iter::once(root).chain(tasks).collect(),
        };
        Ok(replay)
    }
}

/// By invocation, the place of its reads in the store: a box's reads lie together, in the order of time. All copies
/// read the same.
fn reads(recorded: &Recorded<'_>) -> Vec<u64> {
    let mut order: Vec<usize> = (0..recorded.tasks.len()).collect();
    order.sort_by_key(|&task| recorded.tasks[task].who());
    let (mut reads, mut next) = (vec![0; order.len()], 0);
    for task in order {
        reads[task] = next;
        next += recorded.tasks[task].reads;
    }
    reads
}

/// The first envelope of each input taken by an invocation: its box is dealt by these.
fn heads(layout: &Layout, copy: usize, invocation: &Invocation) -> Vec<Access> {
    let mut seen = Vec::new();
    let mut is_first = |input: u16| {
        !seen.contains(&input) && {
            seen.push(input);
            true
        }
    };
    let heads = invocation.takes.iter().filter(|taken| is_first(taken.input)).filter_map(|taken| taken.envelope);
    heads.filter_map(|envelope| layout.envelope(copy, envelope, Mode::Read)).collect()
}

/// The accesses of an invocation of a copy, without those to its box's state.
fn accesses(layout: &Layout, copy: usize, invocation: &Invocation, from: u64) -> Vec<Access> {
    let taken = invocation.takes.iter().filter(|taken| !taken.kept).filter_map(|taken| taken.envelope);
    let takes = taken.filter_map(|envelope| layout.envelope(copy, envelope, Mode::Read));
    let makes = invocation.makes.iter().filter_map(|made| layout.envelope(copy, made.envelope, Mode::Write));
    takes.chain(makes).chain(layout.store(from, invocation.reads)).collect()
}

/// The accesses of an invocation to its box's state: first its own memory, then the envelopes, as if they lay one after
/// the other. The box's last invocation returns the envelopes' blocks.
pub(crate) fn state(recorded: &Recorded<'_>, task: usize, bytes_per_row: u64) -> Vec<StatePart> {
    let invocation = &recorded.tasks[task];
    let (before, after) = invocation.held;
    let kept = recorded.kept(invocation);
    let whole = before + kept.last().map_or(0, |last| last.end);
    let rows = recorded.rows_taken(invocation);
    let reads = match rows {
        0 => recorded.bytes_made(invocation),
        rows => rows.saturating_mul(bytes_per_row),
    };
    let given_up = before.saturating_sub(after);
    let reads = reads.clamp(given_up, whole);
    let from = if reads == given_up { after.min(before) } else { somewhere(task, whole - reads) };
    let to = from + reads;
    let part = |within, range, mode| StatePart { within, range, mode };
    let mut parts = vec![part(StateIn::Own, from.min(before)..to.min(before), Mode::Read)];
    for each in &kept[kept.partition_point(|kept| before + kept.end <= from)..] {
        let end = before + each.end;
        let start = end - recorded.envelopes[each.envelope].bytes;
        if start >= to {
            break;
        }
        let range = from.max(start) - start..to.min(end) - start;
        parts.push(part(StateIn::Envelope(each.envelope), range, Mode::Read));
    }
    parts.push(part(StateIn::Own, before..before.max(after), Mode::Write));
    if recorded.is_last(task) {
        parts.extend(kept.iter().map(|kept| part(StateIn::Envelope(kept.envelope), 0..0, Mode::Read)));
    }
    parts
}

/// The place of a line, at most `last`. It follows from the number, and is seldom near the next number's.
fn somewhere(number: usize, last: u64) -> u64 {
    const LINE: u64 = 64;
    // Knuth, "The Art of Computer Programming", volume 3, §6.4: multiples of the golden ratio are spread evenly.
    let fraction = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let place = (u128::from(fraction) * (u128::from(last) + 1)) >> 64;
    place as u64 / LINE * LINE
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_trace::{BoxInfo, EventLog, Header, InputSource, JobId, ModelInfo, TaskKind, What};

    const SOURCE: JobId = JobId { request: 7, index: 0 };
    const SINK: JobId = JobId { request: 7, index: 1 };

    fn named(name: &str, senders: &[u16]) -> BoxInfo {
        let inputs = senders.iter().map(|&output| InputSource { index: 0, output }).collect();
        BoxInfo { name: name.to_owned(), type_name: name.to_owned(), inputs, ..BoxInfo::default() }
    }

    /// The log of one seat, with each time in units of this number of nanoseconds.
    fn trace(boxes: Vec<BoxInfo>, unit_ns: u64, events: impl IntoIterator<Item = (u64, What)>) -> Trace {
        let models = vec![ModelInfo { name: "boxes".to_owned(), requests: vec![7], boxes }];
        let mut log = EventLog::new(100);
        events.into_iter().for_each(|(time, what)| _ = log.record(time * unit_ns, what));
        Trace::new(Header { models, ..Header::for_seats(1) }, vec![log.finish()])
    }

    fn queued(who: JobId, kind: TaskKind, by: u32) -> What {
        What::Enqueued { who, kind, by }
    }

    fn received(who: JobId) -> What {
        What::EnvelopeReceived { who, input: 0, rows: 512, pill: false }
    }

    /// Makes and sends an envelope of the source.
    fn sends(output: u16, bytes: u32) -> [What; 2] {
        let sent = What::EnvelopeSent { who: SOURCE, output, rows: 512, pill: false };
        [What::EnvelopeCreated { who: SOURCE, output, bytes }, sent]
    }

    /// A source makes an envelope of 4,096 bytes; a sink takes it and reads 1,000 bytes of a store.
    fn two_boxes(unit_ns: u64) -> Trace {
        let [made, sent] = sends(0, 4096);
        let events = [
            (0, queued(SOURCE, TaskKind::Deferred, JobId::NONE)),
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

    /// What happened: the error for an unknown request didn't name the requests of the trace.
    #[test]
    fn who_asks_for_no_request_is_told_which_there_are() {
        let options = ReplayOptions { requests: vec![77], ..ReplayOptions::default() };
        let error = Replay::of(&two_boxes(1), &options).unwrap_err();
        assert_eq!(error, ReplayError::Empty { known: vec![7] });
        assert!(error.to_string().ends_with("nothing to replay; it has requests 7"), "{error}");
        let many = ReplayError::Empty { known: (1..=900).collect() }.to_string();
        assert!(many.ends_with("; it has 900 requests, the first of them 1, 2, 3, 4, 5, 6, 7, 8"), "{many}");
        let none = ReplayError::Empty { known: Vec::new() }.to_string();
        assert!(none.ends_with("nothing to replay"), "{none}");
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

    /// A source's events, each with its time after the one before, and then the sink's invocations of a millisecond
    /// each, with their events: the source spawns the first one, and the sink the others. Also returns their times.
    fn then_sink(mut events: Vec<(u64, What)>, acts: impl IntoIterator<Item = Vec<What>>) -> Vec<(u64, What)> {
        for (at, act) in acts.into_iter().enumerate() {
            let by = u32::from(at > 0);
            events.extend([(0, queued(SINK, TaskKind::Immediate, by)), (0, What::InvocationBegins { who: SINK })]);
            events.extend(act.into_iter().map(|what| (0, what)));
            events.push((1_000_000, What::InvocationEnds { who: SINK }));
        }
        let mut time = 0;
        for (at, _) in &mut events {
            time += *at;
            *at = time;
        }
        events
    }

    /// A sink takes an envelope and grows; takes another; sends rows; and gives up a part of its state.
    fn keeper() -> Replay {
        let mut events = vec![(0, queued(SOURCE, TaskKind::Deferred, JobId::NONE))];
        let [made, sent] = sends(0, 4096);
        events.push((0, What::InvocationBegins { who: SOURCE }));
        events.extend([made, sent, made, sent].map(|what| (0, what)));
        events.push((0, What::InvocationEnds { who: SOURCE }));
        let out = [
            What::EnvelopeCreated { who: SINK, output: 0, bytes: 5000 },
            What::EnvelopeSent { who: SINK, output: 0, rows: 512, pill: false },
        ];
        let held = |bytes| What::Held { who: SINK, bytes };
        let acts = [vec![received(SINK), held(1 << 20)], vec![received(SINK)], out.to_vec(), vec![held(1 << 19)]];
        let events = then_sink(events, acts);
        Replay::of(&trace(vec![named("source", &[]), named("sink", &[0])], 1, events), &ReplayOptions::default())
            .unwrap()
    }

    fn accesses_of(replay: &Replay, task: usize) -> &[Access] {
        let Step::Work(work) = &replay.program.tasks[task].steps[0] else { panic!("the task works") };
        &work.accesses
    }

    #[test]
    fn what_a_box_keeps_is_written_where_it_grows_and_read_for_each_row() {
        let replay = keeper();
        replay.program.check().unwrap();
        let kept = &replay.program.arrays[0];
        assert_eq!((kept.bytes, replay.program.heap.start), (1 << 20, 1), "the largest size");
        let of_kept = |task: usize| -> Vec<(Mode, usize, usize)> {
            let inside = accesses_of(&replay, task).iter().filter(|access| kept.range().contains(&access.start));
            inside.map(|access| (access.mode, access.start - kept.base, access.bytes)).collect()
        };
        assert_eq!(of_kept(2), [(Mode::Write, 0, 1 << 20)], "nothing was kept before");
        let [(Mode::Read, at, bytes)] = of_kept(3)[..] else { panic!("{:?}", of_kept(3)) };
        assert!(bytes == 512 * 64 && at % 64 == 0 && at + bytes <= 1 << 20, "a line for each row, at {at}");
        let [(Mode::Read, _, 5000)] = of_kept(4)[..] else { panic!("{:?}", of_kept(4)) };
        assert_eq!(of_kept(5), [(Mode::Read, 1 << 19, 1 << 19)], "what it gives up");
        // Two envelopes made and taken, one made only; and the above.
        let bytes = 4 * 4096 + 5000 + (1 << 20) + 512 * 64 + 5000 + (1 << 19);
        let works = replay.program.tasks[1..].iter().map(|task| match &task.steps[0] {
            Step::Work(Work { cost: Cost::Nanos(ns), .. }) => *ns,
            step => panic!("{step:?}"),
        });
        let replayed_ns: f64 = works.sum();
        // The source took no time, so nothing can be subtracted from it.
        assert!((replay.taken_off_ns - (bytes - 2 * 4096) as f64 / 10.0).abs() < 1e-6, "{}", replay.taken_off_ns);
        assert!((replayed_ns + replay.taken_off_ns - replay.recorded_ns).abs() < 1e-6);
        assert_eq!(replay.recorded_ns, 4e6);
    }

    /// The last act reads the given-up part; it is near if the act runs at the place of the growth.
    #[test]
    fn what_a_box_keeps_lies_where_it_has_grown() {
        let machine = crate::Machine::by_name("xeon-e7-4820").unwrap();
        let plan = "las".parse::<vicus_schedule::Setting>().unwrap().plan(&machine.topology, 64);
        let other = plan.seats.iter().position(|seat| seat.node != plan.seats[0].node).unwrap();
        let far = |last: usize| {
            let mut replay = keeper();
            // Nothing is read twice, so caches don't matter.
            replay.program.tasks[3].steps.remove(0);
            replay.program.tasks[4].steps.remove(0);
            for (task, seat) in [(1, 0), (2, 0), (3, 0), (4, 0), (5, last)] {
                replay.program.tasks[task].pinned = Some(seat);
            }
            let options = crate::SimOptions::default();
            crate::simulate(&machine, &plan, &replay.program, &options).unwrap().counts.far_bytes
        };
        assert_eq!((far(0), far(other)), (0.0, f64::from(1 << 19)));
    }

    /// A builder books its table with the request's budget and sends it: the bytes are counted once, as an envelope's.
    #[test]
    fn what_a_box_books_at_its_end_lies_in_what_it_has_sent() {
        let [made, sent] = sends(0, 8192);
        let held = |bytes| What::Held { who: SOURCE, bytes };
        let mut events = Vec::new();
        for (act, by) in [(vec![held(4096)], JobId::NONE), (vec![held(9000), made, sent], 0), (vec![], 0)] {
            events.extend([queued(SOURCE, TaskKind::Deferred, by), What::InvocationBegins { who: SOURCE }]);
            events.extend(act);
            events.push(What::InvocationEnds { who: SOURCE });
        }
        let trace = trace(vec![named("build", &[])], 1, events.into_iter().map(|what| (0, what)));
        let replay = Replay::of(&trace, &ReplayOptions::default()).unwrap();
        let touched = |task: usize| -> Vec<(Mode, usize)> {
            accesses_of(&replay, task).iter().map(|access| (access.mode, access.bytes)).collect()
        };
        assert_eq!(touched(1), [(Mode::Write, 4096)], "rows as they come");
        assert_eq!(touched(2), [(Mode::Write, 8192), (Mode::Read, 4096)], "the table is made of them");
        assert_eq!(touched(3), []);
    }

    /// A source builds a table of two envelopes and sends twice 512 rows to be looked up in it; a join keeps the table.
    fn join() -> Trace {
        let mut events = vec![(0, queued(SOURCE, TaskKind::Deferred, JobId::NONE))];
        events.push((0, What::InvocationBegins { who: SOURCE }));
        let sent = [sends(0, 8192), sends(1, 65536), sends(2, 4096), sends(2, 4096)];
        events.extend(sent.into_iter().flatten().map(|what| (0, what)));
        events.push((0, What::InvocationEnds { who: SOURCE }));
        let takes = |input| What::EnvelopeReceived { who: SINK, input, rows: 512, pill: false };
        let keeps = |input| What::EnvelopeKept { who: SINK, input };
        let acts = [vec![takes(0), keeps(0), takes(1), keeps(1)], vec![takes(2)], vec![takes(2)]];
        let events = then_sink(events, acts);
        trace(vec![named("source", &[]), named("join", &[0, 1, 2])], 1, events)
    }

    #[test]
    fn a_kept_envelope_is_looked_into_for_each_row_and_given_back_at_the_end() {
        let replay = Replay::of(&join(), &ReplayOptions::default()).unwrap();
        replay.program.check().unwrap();
        let bases: Vec<usize> = replay.program.arrays.iter().map(|array| array.base).collect();
        assert_eq!((bases.len(), replay.program.heap.clone()), (4, 0..4), "the table, and rows");
        let of_table = |task: usize| -> Vec<(usize, usize)> {
            let inside = accesses_of(&replay, task).iter().filter(|access| access.start < bases[2]);
            inside
                .inspect(|access| assert_eq!(access.mode, Mode::Read))
                .map(|access| (access.start, access.bytes))
                .collect()
        };
        assert_eq!(accesses_of(&replay, 2), [], "what is kept is not read at once");
        // A line for each row, as if the envelopes lay one after the other.
        let looked_into = |parts: &[(usize, usize)]| {
            let bytes: usize = parts.iter().map(|&(_, bytes)| bytes).sum();
            assert_eq!(bytes, 512 * 64, "{parts:?}");
            if let [(first, bytes), (second, _)] = *parts {
                assert_eq!((first + bytes, second), (bases[0] + 8192, bases[1]));
            }
            parts.iter().for_each(|&(at, _)| assert!(at.is_multiple_of(64), "{parts:?}"));
        };
        looked_into(&of_table(3));
        let last = of_table(4);
        let (given_back, parts): (Vec<_>, Vec<_>) = last.into_iter().partition(|&(_, bytes)| bytes == 0);
        assert_eq!(given_back, [(bases[0], 0), (bases[1], 0)]);
        looked_into(&parts);
        // The source took no time; each lookup reads its rows and the table.
        assert!((replay.taken_off_ns - 2.0 * f64::from(4096 + 512 * 64) / 10.0).abs() < 1e-6);
        let works = replay.program.tasks[1..].iter().map(|task| match &task.steps[0] {
            Step::Work(Work { cost: Cost::Nanos(ns), .. }) => *ns,
            step => panic!("{step:?}"),
        });
        assert!((works.sum::<f64>() + replay.taken_off_ns - replay.recorded_ns).abs() < 1e-6);
        assert_eq!(replay.recorded_ns, 3e6);
    }

    /// The nodes of tasks' runs, without the first one's, and each task's record. Seats don't look around for work, and
    /// the submitter stays away: a task longer than a wake runs on the woken seat.
    fn ran(mut replay: Replay) -> (Vec<usize>, Vec<crate::TaskRecord>) {
        let machine = crate::Machine::by_name("xeon-e7-4820").unwrap();
        let las: vicus_schedule::Setting = "las:spin_ns=0".parse().unwrap();
        let plan = las.plan(&machine.topology, 64);
        let away = Work { leaf: 0, cost: Cost::Nanos(1e6), accesses: Vec::new() };
        replay.program.tasks[0].steps.push(Step::Work(away));
        let parameters = crate::Parameters { wake_ns: 0.0, ..crate::Parameters::default() };
        let options = crate::SimOptions { parameters, ..crate::SimOptions::default() };
        let tasks = crate::simulate(&machine, &plan, &replay.program, &options).unwrap().tasks;
        let node = |task: &crate::TaskRecord| plan.seats[task.seat as usize].node.index();
        (tasks[1..].iter().map(node).collect(), tasks)
    }

    /// The source queues the sink twice, which is quicker each time: also on many threads it takes one envelope after
    /// the other.
    #[test]
    fn a_box_runs_once_at_a_time_and_takes_what_was_made() {
        let mut events = vec![(0, queued(SOURCE, TaskKind::Deferred, JobId::NONE))];
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
        // Numbered in queueing order.
        assert_eq!(replay.boxes, [None, Some(0), Some(0), Some(1), Some(1)]);
        let after: Vec<&[u32]> = replay.program.tasks.iter().map(|task| &task.after[..]).collect();
        assert_eq!(after, [&[][..], &[], &[], &[], &[3]], "what lets it go is over anyhow");
        let (_, tasks) = ran(replay);
        assert!(tasks[2].start_ns < tasks[3].end_ns, "the source goes on beside the sink");
        assert!(tasks[4].start_ns >= tasks[3].end_ns, "{tasks:?}");
    }

    /// The sink is the source's last immediate task: it runs on the source's seat, unless the source still has
    /// something to do.
    #[test]
    fn the_last_immediate_task_wakes_no_seat() {
        let replay = Replay::of(&two_boxes(100), &ReplayOptions::default()).unwrap();
        let machine = crate::Machine::by_name("xeon-e7-4820").unwrap();
        let wakes = |program: &Program| {
            let las: vicus_schedule::Setting = "las:spin_ns=0".parse().unwrap();
            let options = crate::SimOptions::default();
            crate::simulate(&machine, &las.plan(&machine.topology, 64), program, &options).unwrap().counts.wakes
        };
        let alone = wakes(&replay.program);
        let mut busy = replay.program.clone();
        busy.tasks[1].steps.push(Step::Work(Work { leaf: 0, cost: Cost::Nanos(1e6), accesses: Vec::new() }));
        assert_eq!(wakes(&busy), alone + 1, "its spawner goes on");
    }

    /// Other seats look around, and don't see it.
    #[test]
    fn the_last_immediate_task_stays_on_its_seat() {
        let replay = Replay::of(&two_boxes(100), &ReplayOptions { copies: 8, ..ReplayOptions::default() }).unwrap();
        let machine = crate::Machine::by_name("xeon-e7-4820").unwrap();
        let plan = "las".parse::<vicus_schedule::Setting>().unwrap().plan(&machine.topology, 64);
        for seed in 0..20 {
            let options = crate::SimOptions { seed, ..crate::SimOptions::default() };
            let tasks = crate::simulate(&machine, &plan, &replay.program, &options).unwrap().tasks;
            let moved = tasks[1..].chunks(2).filter(|pair| pair[0].seat != pair[1].seat).count();
            assert_eq!(moved, 0, "seed {seed}");
        }
    }

    #[test]
    fn copies_begin_in_different_neighbourhoods_and_are_requests_of_their_own() {
        let replay = Replay::of(&two_boxes(100), &ReplayOptions { copies: 4, ..ReplayOptions::default() }).unwrap();
        let requests: Vec<u64> = replay.program.tasks[1..].iter().map(|task| task.request.number()).collect();
        assert_eq!(requests, [7, 7, 15, 15, 23, 23, 31, 31]);
        assert_eq!(ran(replay).0, [0, 0, 1, 1, 2, 2, 3, 3]);
    }

    /// Four replicas read a part each; each part lies on another node.
    #[test]
    fn a_part_is_read_where_it_lies() {
        let replica = |index| JobId { request: 7, index };
        let mut events =
            vec![(0, queued(SOURCE, TaskKind::Deferred, JobId::NONE)), (100, What::InvocationBegins { who: SOURCE })];
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
        // The last part is read first: the reading order must not change the places.
        assert_eq!(of("split")[1..], [3, 2, 1, 0]);
        assert_eq!(of("source")[1..], [0; 4], "immediate tasks stay on their node");
    }
}
