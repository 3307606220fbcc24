//! The boxes' run, read from a trace: invocations, with their time, inputs, outputs and reads, and the invocations they
//! queued.

use crate::ReplayError;
use crate::replay::EventAt;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use vicus_trace::{InputSource, JobId, ModelInfo, RequestOutcome, TaskKind, Trace, What};

/// A longer invocation is a mistake: 18 minutes.
const LONGEST_NS: u64 = 1 << 40;

/// More bytes in all envelopes and states are a mistake: pages are counted one by one.
const MOST_BYTES: u64 = 64 << 30;

/// The type of boxes handing out parts of a range: `vicus_flow::library::split`.
pub(crate) const HANDS_OUT: &str = "split";

/// An invocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Invocation {
    pub(crate) request: u32,
    /// The box's index in the model.
    pub(crate) index: u32,
    pub(crate) deferred: bool,
    /// Whether it is deferred so that its request spreads: its spawner has sent to it, and to a later immediate one.
    pub(crate) spreads: bool,
    /// The box's type, as an index into [`Recorded::leaves`].
    pub(crate) leaf: usize,
    /// The time of its beginning, plus the time of invocations on top of it; `None` if it never ran.
    pub(crate) from_ns: Option<u64>,
    pub(crate) duration_ns: u64,
    pub(crate) takes: Vec<TakenEnvelope>,
    pub(crate) makes: Vec<SentEnvelope>,
    /// Bytes it read from the store.
    pub(crate) reads: u64,
    /// The bytes of its box's own memory, when it begins and when it ends.
    pub(crate) held: (u64, u64),
    /// How many envelopes its box keeps when it ends.
    pub(crate) keeps: usize,
    /// The invocations queued at its end, as indices.
    pub(crate) lets_go: Vec<usize>,
    /// The invocations to end before it begins: its box's last one, and the makers of its inputs; `by` is not among
    /// them.
    pub(crate) after: Vec<usize>,
    /// The invocation that queued it; `None` if it came from outside.
    pub(crate) by: Option<usize>,
}

impl Invocation {
    /// The invoked box.
    pub(crate) fn who(&self) -> JobId {
        JobId { request: self.request, index: self.index }
    }

    fn add_predecessor(&mut self, earlier: usize) {
        if self.by != Some(earlier) && !self.after.contains(&earlier) {
            self.after.push(earlier);
        }
    }
}

/// A taken envelope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenEnvelope {
    pub(crate) input: u16,
    /// Its index; `None` if the trace doesn't name its sender.
    pub(crate) envelope: Option<usize>,
    /// Whether the box keeps it, to read it later.
    pub(crate) kept: bool,
    /// The event of its taking.
    pub(crate) at: EventAt,
}

/// An envelope kept by a box.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptEnvelope {
    pub(crate) envelope: usize,
    /// The end of its bytes, if all the box's kept envelopes lie one after the other.
    pub(crate) end: u64,
}

/// A sent envelope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentEnvelope {
    pub(crate) output: u16,
    pub(crate) envelope: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Envelope {
    pub(crate) bytes: u64,
    pub(crate) rows: u32,
    pub(crate) pill: bool,
    /// Its maker.
    pub(crate) by: usize,
}

/// All invocations of a trace, in queueing order.
pub(crate) struct Recorded<'a> {
    pub(crate) tasks: Vec<Invocation>,
    /// Tasks from outside.
    pub(crate) roots: Vec<usize>,
    pub(crate) envelopes: Vec<Envelope>,
    /// The bytes of all envelopes and of the boxes' own memory.
    bytes: u64,
    /// By box, the bytes of its own memory: now, and the most so far.
    held: FxHashMap<JobId, (u64, u64)>,
    /// By box, its kept envelopes, in taking order.
    kept: FxHashMap<JobId, Vec<KeptEnvelope>>,
    /// The types of boxes.
    pub(crate) leaves: Vec<String>,
    /// By leaf, whether such boxes have left envelopes at their inputs to take others first.
    pub(crate) leaves_heads: Vec<bool>,
    /// The outcomes of requests.
    pub(crate) ended: BTreeMap<u32, RequestOutcome>,
    models: FxHashMap<u32, Named<'a>>,
    /// The leaves of all models' boxes.
    leaf_of: Vec<usize>,
    /// By box, its queued invocation.
    queued: FxHashMap<JobId, usize>,
    /// By box, its last begun invocation.
    latest: FxHashMap<JobId, usize>,
    /// The running boxes.
    under_way: FxHashSet<JobId>,
    /// By seat, the current invocations, the one on top last.
    running: Vec<Vec<usize>>,
    /// By seat, the last ended invocation.
    last: Vec<Option<(JobId, usize)>>,
    /// By request and output, the envelopes sent there.
    sent: FxHashMap<(u32, InputSource), Vec<usize>>,
    /// By input, how many envelopes it took.
    taken: FxHashMap<(JobId, u16), usize>,
    /// By seat, the envelope made and not yet sent.
    made: Vec<Option<usize>>,
}

/// A request's model, and the types of its boxes as leaves.
#[derive(Clone, Copy)]
struct Named<'a> {
    model: &'a ModelInfo,
    /// The place of its first box in [`Recorded::leaf_of`].
    first: usize,
}

impl<'a> Recorded<'a> {
    /// Reads these requests from a trace; all of them, if none is named.
    pub(crate) fn of(trace: &'a Trace, requests: &[u32]) -> Result<Recorded<'a>, ReplayError> {
        if trace.lost() > 0 {
            return Err(ReplayError::Lost { events: trace.lost() });
        }
        let mut recorded = Recorded::new(trace);
        for entry in trace.merged() {
            let time = entry.event.time_ns;
            let at = EventAt { seat: entry.seat, event: entry.index };
            recorded.read(at, time, entry.event.what).map_err(|expected| ReplayError::odd(at, expected))?;
        }
        recorded.lend();
        recorded.spread();
        let known = recorded.requests();
        recorded.keep(requests);
        if recorded.tasks.iter().all(|task| task.from_ns.is_none()) {
            return Err(ReplayError::Empty { known: known.into_iter().collect() });
        }
        Ok(recorded)
    }

    fn new(trace: &'a Trace) -> Recorded<'a> {
        let seats = trace.logs().len();
        let (mut leaves, mut leaf_of) = (Vec::new(), Vec::new());
        let (mut known, mut models) = (FxHashMap::default(), FxHashMap::default());
        for model in &trace.header().models {
            let first = leaf_of.len();
            for info in &model.boxes {
                leaf_of.push(*known.entry(&info.type_name).or_insert_with(|| {
                    leaves.push(info.type_name.clone());
                    leaves.len() - 1
                }));
            }
            models.extend(model.requests.iter().map(|&request| (request, Named { model, first })));
        }
        Recorded {
            tasks: Vec::new(),
            roots: Vec::new(),
            envelopes: Vec::new(),
            bytes: 0,
            held: FxHashMap::default(),
            kept: FxHashMap::default(),
            leaves_heads: vec![false; leaves.len()],
            leaves,
            ended: BTreeMap::new(),
            models,
            leaf_of,
            queued: FxHashMap::default(),
            latest: FxHashMap::default(),
            under_way: FxHashSet::default(),
            running: vec![Vec::new(); seats],
            last: vec![None; seats],
            sent: FxHashMap::default(),
            taken: FxHashMap::default(),
            made: vec![None; seats],
        }
    }

    /// A request's model.
    pub(crate) fn model(&self, request: u32) -> Option<&'a ModelInfo> {
        self.models.get(&request).map(|named| named.model)
    }

    /// The envelopes sent on an output, in order.
    pub(crate) fn sent(&self, request: u32, source: InputSource) -> &[usize] {
        self.sent.get(&(request, source)).map_or(&[], Vec::as_slice)
    }

    /// Requests with invocations.
    pub(crate) fn requests(&self) -> BTreeSet<u32> {
        self.tasks.iter().filter(|task| task.from_ns.is_some()).map(|task| task.request).collect()
    }

    /// The current invocation of a seat. It is an error if it isn't the box's.
    fn current_of(&mut self, seat: usize, who: JobId, what: &str) -> Result<&mut Invocation, String> {
        let task = self.running[seat].last().map(|&task| &mut self.tasks[task]);
        let of = |task: &&mut Invocation| (task.request, task.index) == (who.request, who.index);
        task.filter(of).ok_or_else(|| format!("an invocation of {who} around {what}"))
    }

    /// Reads an event. An error states the expectation.
    fn read(&mut self, at: EventAt, time_ns: u64, what: What) -> Result<(), String> {
        let seat = at.seat;
        match what {
            What::Enqueued { who, kind, by } if who.is_box() => {
                let named =
                    self.models.get(&who.request).filter(|named| (who.index as usize) < named.model.boxes.len());
                let named = named.ok_or_else(|| format!("a model that {who} is of"))?;
                let leaf = self.leaf_of[named.first + who.index as usize];
                self.enqueue(seat, who, kind, by, leaf)?;
            }
            What::InvocationBegins { who } => {
                let task = self.queued.remove(&who).ok_or_else(|| format!("that {who} was queued before it runs"))?;
                if !self.under_way.insert(who) {
                    return Err(format!("that {who} runs once at a time"));
                }
                let held = self.held.get(&who).map_or(0, |&(now, _)| now);
                self.tasks[task].from_ns = Some(time_ns);
                self.tasks[task].held = (held, held);
                if let Some(earlier) = self.latest.insert(who, task) {
                    self.tasks[task].add_predecessor(earlier);
                }
                self.running[seat].push(task);
            }
            What::InvocationEnds { who } => self.end(seat, who, time_ns)?,
            What::EnvelopeReceived { who, input, .. } => {
                let source = self.models.get(&who.request).and_then(|named| {
                    named.model.boxes.get(who.index as usize)?.inputs.get(usize::from(input)).copied()
                });
                let count = self.taken.entry((who, input)).or_default();
                let envelope = source.and_then(|source| self.sent.get(&(who.request, source))?.get(*count).copied());
                *count += 1;
                let maker = envelope.map(|envelope| self.envelopes[envelope].by);
                let taker = self.current_of(seat, who, "a received envelope")?;
                maker.into_iter().for_each(|maker| taker.add_predecessor(maker));
                taker.takes.push(TakenEnvelope { input, envelope, kept: false, at });
            }
            What::EnvelopeKept { who, input } => {
                let taker = self.current_of(seat, who, "an envelope that is kept")?;
                let taken = taker.takes.iter_mut().rev().find(|taken| taken.input == input && !taken.kept);
                let taken = taken.ok_or("that an envelope is taken before it is kept")?;
                taken.kept = true;
                if let Some(envelope) = taken.envelope {
                    let kept = self.kept.entry(who).or_default();
                    let end = kept.last().map_or(0, |kept| kept.end) + self.envelopes[envelope].bytes;
                    kept.push(KeptEnvelope { envelope, end });
                }
            }
            What::EnvelopeLeft { who, .. } => {
                let leaf = self.current_of(seat, who, "an envelope that is left")?.leaf;
                self.leaves_heads[leaf] = true;
            }
            What::EnvelopeCreated { who, bytes, .. } => {
                self.current_of(seat, who, "an envelope that is made")?;
                self.add_bytes(bytes.into())?;
                let by = *self.running[seat].last().expect("it runs");
                self.envelopes.push(Envelope { bytes: u64::from(bytes), by, ..Envelope::default() });
                self.made[seat] = Some(self.envelopes.len() - 1);
            }
            What::EnvelopeSent { who, output, rows, pill } => {
                let envelope = self.made[seat].take().ok_or("that an envelope is made before it is sent")?;
                if pill && rows > 0 {
                    return Err(format!("an end of stream without rows, not with {rows}"));
                }
                (self.envelopes[envelope].rows, self.envelopes[envelope].pill) = (rows, pill);
                self.sent.entry((who.request, InputSource { index: who.index, output })).or_default().push(envelope);
                self.current_of(seat, who, "an envelope that is sent")?.makes.push(SentEnvelope { output, envelope });
            }
            What::BytesRead { who, bytes, .. } => self.current_of(seat, who, "what is read")?.reads += u64::from(bytes),
            What::Held { who, bytes } => {
                let bytes = u64::from(bytes);
                self.current_of(seat, who, "what is held")?.held.1 = bytes;
                let held = self.held.entry(who).or_default();
                let more = bytes.saturating_sub(held.1);
                *held = (bytes, held.1 + more);
                self.add_bytes(more)?;
            }
            What::RequestEnded { request, outcome } => {
                self.ended.insert(request, outcome);
            }
            _ => {}
        }
        Ok(())
    }

    fn add_bytes(&mut self, more: u64) -> Result<(), String> {
        self.bytes += more;
        let fits = self.bytes <= MOST_BYTES;
        fits.then_some(())
            .ok_or_else(|| format!("envelopes, and what boxes keep, of {MOST_BYTES} bytes at most in all"))
    }

    /// The boxes of invocations that have run, and the most bytes of each one's own memory.
    pub(crate) fn states(&self) -> BTreeMap<JobId, u64> {
        let mut states = BTreeMap::new();
        for task in self.tasks.iter().filter(|task| task.from_ns.is_some() && task.held != (0, 0)) {
            let most: &mut u64 = states.entry(task.who()).or_default();
            *most = (*most).max(task.held.0).max(task.held.1);
        }
        states
    }

    /// The envelopes kept by an invocation's box at its end.
    pub(crate) fn kept(&self, invocation: &Invocation) -> &[KeptEnvelope] {
        self.kept.get(&invocation.who()).map_or(&[], |kept| &kept[..invocation.keeps])
    }

    /// Whether an invocation is its box's last.
    pub(crate) fn is_last(&self, task: usize) -> bool {
        self.latest.get(&self.tasks[task].who()) == Some(&task)
    }

    /// The rows taken by an invocation, without those of kept envelopes.
    pub(crate) fn rows_taken(&self, invocation: &Invocation) -> u64 {
        let taken = invocation.takes.iter().filter(|taken| !taken.kept).filter_map(|taken| taken.envelope);
        taken.map(|envelope| u64::from(self.envelopes[envelope].rows)).sum()
    }

    /// The bytes of the envelopes made by an invocation.
    pub(crate) fn bytes_made(&self, invocation: &Invocation) -> u64 {
        invocation.makes.iter().map(|made| self.envelopes[made.envelope].bytes).sum()
    }

    fn enqueue(&mut self, seat: usize, who: JobId, kind: TaskKind, by: u32, leaf: usize) -> Result<(), String> {
        let task = self.tasks.len();
        let deferred = kind == TaskKind::Deferred;
        let (request, index) = (who.request, who.index);
        self.tasks.push(Invocation { request, index, deferred, leaf, ..Invocation::default() });
        if self.queued.insert(who, task).is_some() {
            return Err(format!("that {who} is queued once at a time"));
        }
        if by == JobId::NONE {
            self.roots.push(task);
            return Ok(());
        }
        // An invocation's activated boxes are queued right after its end, on its seat.
        match self.last[seat] {
            Some((last, parent)) if last == (JobId { request: who.request, index: by }) => {
                self.tasks[parent].lets_go.push(task);
                self.tasks[task].by = Some(parent);
                Ok(())
            }
            _ => Err(format!("that box {by} has just run on this seat, as {who} was queued by it")),
        }
    }

    fn end(&mut self, seat: usize, who: JobId, time_ns: u64) -> Result<(), String> {
        self.current_of(seat, who, "its end")?;
        let task = self.running[seat].pop().expect("it runs");
        self.under_way.remove(&who);
        let invocation = &mut self.tasks[task];
        invocation.keeps = self.kept.get(&who).map_or(0, Vec::len);
        let duration_ns = time_ns.saturating_sub(invocation.from_ns.expect("it runs"));
        if duration_ns > LONGEST_NS {
            return Err(format!("{who} to end within {LONGEST_NS} ns of its time, not after {duration_ns}"));
        }
        invocation.duration_ns = duration_ns;
        // The trace counts the bytes of taken envelopes as read, too.
        let taken = invocation.takes.iter().filter_map(|taken| Some(self.envelopes[taken.envelope?].bytes));
        invocation.reads = invocation.reads.saturating_sub(taken.sum());
        self.last[seat] = Some((who, task));
        // It ran on top of another invocation, whose time excludes this one's.
        if let Some(&below) = self.running[seat].last() {
            self.tasks[below].from_ns = self.tasks[below].from_ns.map(|from_ns| from_ns.saturating_add(duration_ns));
        }
        Ok(())
    }

    /// Whether an invocation hands out parts of a range, with their places, for other boxes to read.
    pub(crate) fn hands_out(&self, task: usize) -> bool {
        self.leaves[self.tasks[task].leaf] == HANDS_OUT
    }

    /// A box that has grown in its last active invocation keeps no more memory of its own after it: the booked bytes
    /// lie in its sent envelopes, such as a table for other boxes.
    fn lend(&mut self) {
        let mut is_known = FxHashSet::default();
        for task in self.tasks.iter_mut().rev().filter(|task| task.from_ns.is_some()) {
            if is_known.contains(&task.who()) {
                continue;
            }
            let (before, after) = task.held;
            task.held.1 = before.min(after);
            match task.takes.is_empty() && task.makes.is_empty() && before == after {
                true => task.held = (0, 0),
                false => _ = is_known.insert(task.who()),
            }
        }
    }

    /// Finds the invocations deferred so that their request spreads.
    fn spread(&mut self) {
        for parent in 0..self.tasks.len() {
            let Invocation { index, request, .. } = self.tasks[parent];
            let Some(named) = self.models.get(&request).filter(|_| index != 0) else { continue };
            let has_sent = |task: &Invocation| {
                task.index != index
                    && named.model.boxes[task.index as usize].inputs.iter().any(|source| source.index == index)
            };
            let lets_go = std::mem::take(&mut self.tasks[parent].lets_go);
            let last = lets_go.iter().rposition(|&task| !self.tasks[task].deferred && has_sent(&self.tasks[task]));
            for &task in &lets_go[..last.unwrap_or(0)] {
                self.tasks[task].spreads = self.tasks[task].deferred && has_sent(&self.tasks[task]);
            }
            self.tasks[parent].lets_go = lets_go;
        }
    }

    /// Drops the invocations of other requests, as if they had never run.
    fn keep(&mut self, requests: &[u32]) {
        if !requests.is_empty() {
            let others = self.tasks.iter_mut().filter(|task| !requests.contains(&task.request));
            others.for_each(|task| *task = Invocation::default());
        }
    }
}

/// A name for a recorded run.
pub(crate) fn title(mode: &str, trace: &Trace) -> String {
    let models: Vec<&str> = trace.header().models.iter().map(|model| model.name.as_str()).collect();
    format!("{mode} of {} recorded on {}", models.join(", "), trace.header().machine)
}
