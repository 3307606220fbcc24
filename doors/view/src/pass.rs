//! One pass over all events, causes first: what each event waited for, what passed through vias, who took from whom,
//! and the chain of work that nothing can shorten.

use crate::activity::{Frame, Slice, State};
use crate::keys::Keys;
use crate::pack::Cause;
use crate::pyramid::{COARSEST, Span};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::collections::VecDeque;
use vicus_trace::{Awaits, Event, JobId, Trace, What};

/// The types of which is asked how long the chain would be without them.
pub(crate) const ASKED: usize = 6;
/// A via holds no more envelopes; what was sent and never received is forgotten beyond this.
const MOST_SENT: usize = 65_536;
/// The parts of the chain that the page has.
const MOST_STEPS: usize = 4000;
/// The stalls that the page has, the longest ones.
const MOST_STALLS: usize = 4000;

/// A via: an output, and one of the inputs it leads to.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Via {
    /// The model, by its place in the header.
    pub(crate) model: usize,
    pub(crate) from: u32,
    pub(crate) output: u16,
    pub(crate) to: u32,
    pub(crate) input: u16,
    /// Envelopes and rows that were received.
    pub(crate) envelopes: u64,
    pub(crate) rows: u64,
    /// The greatest number of envelopes in it at once, and the time that all of them spent in it.
    pub(crate) most: usize,
    pub(crate) inside_ns: u64,
    /// How often it refused, and how long its sender was blocked.
    pub(crate) refused: u64,
    pub(crate) blocked_ns: u64,
    /// How often its bound was raised, and how often it was told to keep envelopes outside of memory.
    pub(crate) overdrawn: u64,
    pub(crate) spilled: u64,
}

/// A step of the longest chain: a part of a slice.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Step {
    pub(crate) begin_ns: u64,
    pub(crate) ns: u64,
    pub(crate) seat: u32,
    pub(crate) key: u32,
}

/// The longest chain of user code in which each part waited for the one before: by being queued by it, by its envelope,
/// by its room in a via, or by waiting for its end. A run with any number of cores takes at least this long.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    pub(crate) ns: u64,
    /// Its steps in the order of time, the longest of them if there are very many.
    pub(crate) steps: Vec<Step>,
    /// The time on it by key.
    pub(crate) of_keys: Vec<u64>,
    /// The types, and the length of the longest chain if this type took no time.
    pub(crate) without: Vec<(usize, u64)>,
}

/// All that the pass finds.
pub(crate) struct Findings {
    /// For each seat, the causes of its events whose kinds have one, in their order.
    pub(crate) causes: Vec<Vec<Option<Cause>>>,
    pub(crate) vias: Vec<Via>,
    /// How many tasks each seat (rows) took that each seat (columns) had queued.
    pub(crate) takes: Vec<Vec<u64>>,
    /// How many jobs lay in queues at the end of each part of the time.
    pub(crate) queued: Vec<i64>,
    pub(crate) chain: Chain,
    /// How many events have an earlier time than what they waited for, and by how much at most.
    pub(crate) early: (u64, u64),
    pub(crate) requests: Vec<RequestSpan>,
    /// When boxes were blocked by a full via.
    pub(crate) stalls: Vec<Stall>,
}

/// A box that was blocked by a full via.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stall {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) key: u32,
}

/// A request from its submission to its end.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct RequestSpan {
    pub(crate) request: u32,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: Option<u64>,
    pub(crate) is_done: bool,
}

/// A place on a chain: its length, and its lengths without the types asked for.
#[derive(Clone, Copy, Default)]
struct Length {
    ns: [u64; 1 + ASKED],
    /// The last step, plus 1.
    step: u32,
}

impl Length {
    /// Whether a part of it has risen.
    fn raise(&mut self, other: Length) -> bool {
        if other.ns[0] > self.ns[0] {
            self.step = other.step;
        }
        let before = self.ns;
        for (ns, other) in self.ns.iter_mut().zip(other.ns) {
            *ns = (*ns).max(other);
        }
        self.ns != before
    }
}

#[derive(Clone, Copy)]
struct Sent {
    cause: Cause,
    time_ns: u64,
    rows: u32,
    pill: bool,
    length: Length,
}

struct Queued {
    cause: Cause,
    time_ns: u64,
}

#[derive(Default)]
struct Job {
    length: Length,
    /// The job that spawned it.
    by: Option<JobId>,
    /// How many sections its spawner had open then.
    depth: usize,
    is_over: bool,
    /// The chains of its descendants; most jobs have none.
    family: Option<Box<Family>>,
}

/// The longest chains of a job's descendants that have ended.
#[derive(Default)]
struct Family {
    children: Length,
    descendants: Length,
    /// The descendants of each open section, the innermost last.
    sections: Vec<Length>,
}

/// A team of threads at its barriers.
#[derive(Default)]
struct Gathering {
    /// The members that have come to the next barrier.
    waiting: FxHashSet<JobId>,
    /// The members that have still to leave the last one.
    leaving: FxHashSet<JobId>,
    /// The longest chain of the members and their tasks when the last barrier opened.
    length: Length,
}

impl Job {
    fn family(&mut self) -> &mut Family {
        self.family.get_or_insert_default()
    }

    fn open_sections(&self) -> usize {
        self.family.as_ref().map_or(0, |family| family.sections.len())
    }
}

struct Pass<'a> {
    keys: &'a Keys,
    /// The type of each key, and the place of each type among those asked for.
    types: Vec<usize>,
    asked: Vec<usize>,
    seats: Vec<crate::activity::Seat>,
    /// The job that last ran on each seat.
    last: Vec<Option<JobId>>,
    jobs: FxHashMap<JobId, Job>,
    /// The longest chain of each request, and the requests that are teams of threads.
    of_requests: FxHashMap<u32, Length>,
    teams: FxHashMap<u32, Gathering>,
    queued: FxHashMap<JobId, Queued>,
    /// For each model and box: the first via of its inputs, and those of each output.
    inputs: Vec<Vec<Option<usize>>>,
    outputs: FxHashMap<(usize, u32, u16), Vec<usize>>,
    sent: FxHashMap<(u32, usize), VecDeque<Sent>>,
    refused: FxHashMap<(JobId, u16), Queued>,
    steps: Vec<(Step, u32)>,
    best: Length,
    open: FxHashMap<u32, usize>,
    found: Findings,
    first_ns: u64,
    part_ns: f64,
}

/// Goes over all events. `asked` are types, by their numbers of [`Keys::types`].
pub(crate) fn pass(trace: &Trace, keys: &Keys, asked: &[usize], span: Span) -> Findings {
    let Span { first_ns, ns: span_ns } = span;
    let header = trace.header();
    let seats = trace.logs().len();
    let mut vias: Vec<Via> = Vec::new();
    let mut outputs: FxHashMap<(usize, u32, u16), Vec<usize>> = FxHashMap::default();
    let mut inputs = Vec::new();
    for (model, info) in header.models.iter().enumerate() {
        let mut firsts = Vec::new();
        for (to, info) in info.boxes.iter().enumerate() {
            firsts.push((!info.inputs.is_empty()).then_some(vias.len()));
            for (input, source) in info.inputs.iter().enumerate() {
                outputs.entry((model, source.index, source.output)).or_default().push(vias.len());
                let (from, output) = (source.index, source.output);
                vias.push(Via { model, from, output, to: to as u32, input: input as u16, ..Via::default() });
            }
        }
        inputs.push(firsts);
    }
    let found = Findings {
        causes: vec![Vec::new(); seats],
        vias,
        takes: vec![vec![0; seats]; seats],
        queued: vec![0; COARSEST],
        chain: Chain::default(),
        early: (0, 0),
        requests: Vec::new(),
        stalls: Vec::new(),
    };
    let mut pass = Pass {
        keys,
        types: keys.types().1,
        asked: asked[..asked.len().min(ASKED)].to_vec(),
        seats: vec![crate::activity::Seat::default(); seats],
        last: vec![None; seats],
        jobs: FxHashMap::default(),
        of_requests: FxHashMap::default(),
        teams: FxHashMap::default(),
        queued: FxHashMap::default(),
        inputs,
        outputs,
        sent: FxHashMap::default(),
        refused: FxHashMap::default(),
        steps: Vec::new(),
        best: Length::default(),
        open: FxHashMap::default(),
        found,
        first_ns,
        part_ns: (span_ns as f64 / COARSEST as f64).max(1.0),
    };
    for entry in trace.merged() {
        pass.step(entry.seat, entry.index as u64, entry.event);
    }
    pass.finish()
}

impl Pass<'_> {
    fn step(&mut self, seat: usize, index: u64, event: &Event) {
        let here = Cause { seat: seat as u32, index };
        let now_ns = event.time_ns;
        let mut ended = None;
        let before = self.seats[seat].frames.last().copied();
        let hands_on = matches!(
            event.what,
            What::Enqueued { .. } | What::Spawned { .. } | What::EnvelopeSent { .. } | What::Resumed { .. }
        );
        match hands_on {
            // What is handed on follows from the work up to here.
            true => self.seats[seat].cut(now_ns, |slice| ended = Some(slice)),
            false => self.seats[seat].step(event, self.keys, |slice| ended = Some(slice)),
        }
        if let Some(slice) = ended {
            self.ran(seat, &slice);
        }
        match event.what {
            What::Enqueued { who, by, .. } => {
                self.follows(who, by, before);
                self.queued.insert(who, Queued { cause: here, time_ns: now_ns });
                self.count(now_ns, 1);
            }
            What::Spawned { who, by } => self.follows(who, by, before),
            What::Taken { who, .. } => {
                let queued = self.queued.remove(&who).filter(|_| is_one(who));
                if let Some(queued) = &queued {
                    self.found.takes[seat][queued.cause.seat as usize] += 1;
                    self.count(now_ns, -1);
                    self.compare(now_ns, queued.time_ns);
                }
                self.found.causes[seat].push(queued.map(|queued| queued.cause));
            }
            What::UserCodeBegins { who } => self.last[seat] = Some(who),
            What::UserCodeEnds { who } if !who.is_box() => self.ends(who),
            What::SectionBegins { who } if is_one(who) => {
                self.jobs.entry(who).or_default().family().sections.push(Length::default());
            }
            What::WaitBegins { who, awaits: Awaits::Team } => {
                self.teams.entry(who.request).or_default().waiting.insert(who);
            }
            What::WaitEnds { who } if is_one(who) => {
                let awaits = before.filter(|frame| frame.who == who).and_then(|frame| frame.waits);
                self.goes_on_after(who, awaits.unwrap_or(Awaits::Children));
            }
            What::EnvelopeSent { who, output, rows, pill } => {
                self.sends(who, output, Sent { cause: here, time_ns: now_ns, rows, pill, length: Length::default() })
            }
            What::EnvelopeReceived { who, input, rows, pill } => {
                let cause = self.receives(now_ns, who, input, rows, pill);
                self.found.causes[seat].push(cause);
            }
            What::Refused { who, output } => {
                self.refused.insert((who, output), Queued { cause: here, time_ns: now_ns });
                self.vias(who, output, |via| via.refused += 1);
            }
            What::Resumed { who, output } => {
                let refused = self.refused.remove(&(who, output));
                if let Some(refused) = &refused {
                    let ns = now_ns.saturating_sub(refused.time_ns);
                    self.vias(who, output, |via| via.blocked_ns = via.blocked_ns.saturating_add(ns));
                    let stall = Stall { begin_ns: refused.time_ns, end_ns: now_ns, key: self.keys.of(who) };
                    self.found.stalls.push(stall);
                    self.compare(now_ns, refused.time_ns);
                }
                if let Some(by) = self.last[seat].filter(|by| *by != who) {
                    let length = self.jobs.get(&by).map(|job| job.length).unwrap_or_default();
                    self.jobs.entry(who).or_default().length.raise(length);
                }
                self.found.causes[seat].push(refused.map(|refused| refused.cause));
            }
            What::Overdrawn { who, output, bytes: 0 } => self.vias(who, output, |via| via.spilled += 1),
            What::Overdrawn { who, output, .. } => self.vias(who, output, |via| via.overdrawn += 1),
            What::RequestSubmitted { request } => {
                self.open.insert(request, self.found.requests.len());
                self.found.requests.push(RequestSpan { request, begin_ns: now_ns, end_ns: None, is_done: false });
            }
            What::RequestEnded { request, outcome } => {
                if let Some(at) = self.open.remove(&request) {
                    self.found.requests[at].end_ns = Some(now_ns);
                    self.found.requests[at].is_done = outcome == vicus_trace::RequestOutcome::Done;
                }
            }
            _ => {}
        }
    }

    /// A slice is over: its user code makes the chain of its job longer.
    fn ran(&mut self, seat: usize, slice: &Slice) {
        let (State::Busy, Some((who, key))) = (slice.state, slice.who) else { return };
        if !is_one(who) {
            return;
        }
        let ns = slice.end_ns - slice.begin_ns;
        let job = self.jobs.entry(who).or_default();
        let step = Step { begin_ns: slice.begin_ns, ns, seat: seat as u32, key };
        self.steps.push((step, job.length.step));
        job.length.step = u32::try_from(self.steps.len()).unwrap_or(u32::MAX);
        let own = self.asked.iter().position(|asked| *asked == self.types[key as usize]);
        for (place, length) in job.length.ns.iter_mut().enumerate() {
            if place == 0 || Some(place - 1) != own {
                *length = length.saturating_add(ns);
            }
        }
        let length = job.length;
        self.of_requests.entry(who.request).or_default().raise(length);
        self.best.raise(length);
    }

    /// A job is spawned or queued by another one, or by the code that the seat runs. The first of these jobs has
    /// spawned it; a later one has released it, as the last of the tasks whose data it uses, and is no parent of it.
    fn follows(&mut self, who: JobId, by: u32, running: Option<Frame>) {
        let by = match by {
            JobId::NONE => running.map(|frame| frame.who),
            index => Some(JobId { request: who.request, index }),
        };
        let Some(by) = by.filter(|by| *by != who && is_one(*by)) else {
            // A member of a team begins a region behind the last barrier of the one before.
            if let (Some(team), true) = (self.teams.get(&who.request), is_one(who)) {
                self.jobs.entry(who).or_default().length.raise(team.length);
            }
            return;
        };
        let (length, depth) = self.jobs.get(&by).map(|job| (job.length, job.open_sections())).unwrap_or_default();
        let job = self.jobs.entry(who).or_default();
        if job.by.is_none() {
            (job.by, job.depth) = (Some(by), depth);
        }
        job.length.raise(length);
    }

    /// A task has waited for others, and goes on when the last of them is over.
    fn goes_on_after(&mut self, who: JobId, awaits: Awaits) {
        let awaited = match awaits {
            Awaits::Team => {
                let request = self.of_requests.get(&who.request).copied().unwrap_or_default();
                let team = self.teams.entry(who.request).or_default();
                // What there is when the first member leaves is what all have waited for: this one works on before the
                // last one has left.
                if !team.leaving.remove(&who) {
                    team.length = request;
                    team.leaving = std::mem::take(&mut team.waiting);
                    team.leaving.remove(&who);
                }
                team.length
            }
            Awaits::Section | Awaits::Children => {
                let Some(family) = self.jobs.get_mut(&who).and_then(|job| job.family.as_mut()) else { return };
                let section = if awaits == Awaits::Section { family.sections.pop() } else { None };
                // The beginning of the section may be before the first event.
                section.unwrap_or(family.children)
            }
        };
        self.jobs.entry(who).or_default().length.raise(awaited);
    }

    /// A task has ended, or has been put aside until it goes on: its ancestors may wait for it.
    fn ends(&mut self, who: JobId) {
        let Some(job) = self.jobs.get_mut(&who) else { return };
        job.is_over = true;
        let mut chain = job.length;
        chain.raise(job.family.as_ref().map(|family| family.descendants).unwrap_or_default());
        let (mut by, mut depth) = (job.by, job.depth);
        if let Some(by) = by {
            let length = job.length;
            self.jobs.entry(by).or_default().family().children.raise(length);
        }
        // An ancestor that is not over hands on the chain when it ends. In a damaged trace, jobs may have spawned each
        // other: the chains rise no more after a round.
        while let Some(ancestor) = by {
            let job = self.jobs.entry(ancestor).or_default();
            let family = job.family.get_or_insert_default();
            let has_risen = family.descendants.raise(chain);
            for section in family.sections.iter_mut().take(depth) {
                section.raise(chain);
            }
            if !has_risen || !job.is_over {
                break;
            }
            (by, depth) = (job.by, job.depth);
        }
    }

    fn count(&mut self, now_ns: u64, by: i64) {
        let part = (now_ns.saturating_sub(self.first_ns) as f64 / self.part_ns) as usize;
        self.found.queued[part.min(COARSEST - 1)] += by;
    }

    fn compare(&mut self, now_ns: u64, cause_ns: u64) {
        if now_ns < cause_ns {
            self.found.early.0 += 1;
            self.found.early.1 = self.found.early.1.max(cause_ns - now_ns);
        }
    }

    fn vias(&mut self, who: JobId, output: u16, mut change: impl FnMut(&mut Via)) {
        let Some(model) = self.keys.model(who.request) else { return };
        for &via in self.outputs.get(&(model, who.index, output)).into_iter().flatten() {
            change(&mut self.found.vias[via]);
        }
    }

    fn sends(&mut self, who: JobId, output: u16, sent: Sent) {
        let Some(model) = self.keys.model(who.request) else { return };
        let length = self.jobs.get(&who).map(|job| job.length).unwrap_or_default();
        for &via in self.outputs.get(&(model, who.index, output)).into_iter().flatten() {
            let inside = self.sent.entry((who.request, via)).or_default();
            if inside.len() == MOST_SENT {
                inside.pop_front();
            }
            let is_one = !sent.pill || sent.rows > 0;
            let via = &mut self.found.vias[via];
            via.most = via.most.max(inside.len() + usize::from(is_one));
            inside.push_back(Sent { length, ..sent });
        }
    }

    /// Envelopes leave a via in the order in which they came. Those that were never received, because their receiver
    /// had ended, are passed over by their rows.
    fn receives(&mut self, now_ns: u64, who: JobId, input: u16, rows: u32, pill: bool) -> Option<Cause> {
        let model = self.keys.model(who.request)?;
        let via = (*self.inputs[model].get(who.index as usize)?)? + usize::from(input);
        let known = self.found.vias.get(via).is_some_and(|via| via.model == model && via.to == who.index);
        let inside = self.sent.get_mut(&(who.request, via)).filter(|_| known);
        let at = inside.as_ref().and_then(|all| all.iter().position(|sent| (sent.rows, sent.pill) == (rows, pill)));
        let sent = inside.zip(at).and_then(|(inside, at)| inside.drain(..=at).next_back());
        if known && (rows > 0 || !pill) {
            self.found.vias[via].envelopes += 1;
            self.found.vias[via].rows += u64::from(rows);
        }
        let sent = sent?;
        self.compare(now_ns, sent.time_ns);
        let inside_ns = &mut self.found.vias[via].inside_ns;
        *inside_ns = inside_ns.saturating_add(now_ns.saturating_sub(sent.time_ns));
        self.jobs.entry(who).or_default().length.raise(sent.length);
        Some(sent.cause)
    }

    fn finish(mut self) -> Findings {
        self.found.stalls.sort_by_key(|stall| std::cmp::Reverse(stall.end_ns.saturating_sub(stall.begin_ns)));
        self.found.stalls.truncate(MOST_STALLS);
        let mut sum = 0;
        for queued in &mut self.found.queued {
            sum += *queued;
            *queued = sum;
        }
        let mut chain = Chain { ns: self.best.ns[0], of_keys: vec![0; self.keys.all.len()], ..Chain::default() };
        let mut at = self.best.step;
        while let Some((step, before)) = (at as usize).checked_sub(1).and_then(|at| self.steps.get(at)) {
            let of_key = &mut chain.of_keys[step.key as usize];
            *of_key = of_key.saturating_add(step.ns);
            match chain.steps.last_mut() {
                // Seen backwards: this step may end where the one behind it begins.
                Some(next)
                    if next.seat == step.seat && next.key == step.key && step.begin_ns + step.ns == next.begin_ns =>
                {
                    next.begin_ns = step.begin_ns;
                    next.ns += step.ns;
                }
                _ => chain.steps.push(*step),
            }
            at = *before;
        }
        if chain.steps.len() > MOST_STEPS {
            chain.steps.sort_by_key(|step| std::cmp::Reverse(step.ns));
            chain.steps.truncate(MOST_STEPS);
        }
        chain.steps.sort_by_key(|step| step.begin_ns);
        chain.without = self.asked.iter().zip(&self.best.ns[1..]).map(|(&asked, &ns)| (asked, ns)).collect();
        self.found.chain = chain;
        self.found
    }
}

/// Tasks without numbers can't be told apart.
fn is_one(who: JobId) -> bool {
    who.is_box() || who.number().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_trace::{BoxInfo, EventLog, Header, InputSource, ModelInfo, TaskKind};

    fn header(seats: usize) -> Header {
        let info = |name: &str, inputs: Vec<InputSource>| BoxInfo {
            name: name.to_owned(),
            type_name: name.to_owned(),
            inputs,
            ..BoxInfo::default()
        };
        let boxes = vec![info("make", vec![]), info("use", vec![InputSource { index: 0, output: 0 }])];
        let models = vec![ModelInfo { name: "two".into(), requests: vec![1], boxes }];
        Header { models, ..Header::for_seats(seats) }
    }

    const MAKE: JobId = JobId { request: 1, index: 0 };
    const USE: JobId = JobId { request: 1, index: 1 };

    fn ran(who: JobId, from_ns: u64, to_ns: u64, inside: &[What]) -> Vec<(u64, What)> {
        let mut events = vec![(from_ns, What::InvocationBegins { who }), (from_ns, What::UserCodeBegins { who })];
        events.extend(inside.iter().map(|&what| (to_ns, what)));
        events.extend([(to_ns, What::UserCodeEnds { who }), (to_ns, What::InvocationEnds { who })]);
        events
    }

    /// Two envelopes of 10 and 20 ns of making; each is used for 50 ns on another seat, as soon as it can be.
    fn pipeline() -> Trace {
        let (mut first, mut second) = (EventLog::new(100), EventLog::new(100));
        let sent = |rows| What::EnvelopeSent { who: MAKE, output: 0, rows, pill: false };
        let received = |rows| What::EnvelopeReceived { who: USE, input: 0, rows, pill: false };
        let record = |log: &mut EventLog, events: Vec<(u64, What)>| {
            events.into_iter().map(|(time_ns, what)| log.record(time_ns, what)).last().unwrap_or(0)
        };
        record(&mut first, ran(MAKE, 0, 10, &[]));
        let cause = first.record(10, sent(7));
        let queued = first.record(10, What::Enqueued { who: USE, kind: TaskKind::Immediate, by: 0 });
        record(&mut first, ran(MAKE, 10, 30, &[]));
        first.record(30, sent(8));
        second.observe(cause.max(queued));
        second.record(15, What::Taken { who: USE, rule: 2, far: false });
        record(&mut second, ran(USE, 15, 65, &[received(7)]));
        second.observe(first.clock());
        record(&mut second, ran(USE, 65, 115, &[received(8)]));
        Trace::new(header(2), vec![first.finish(), second.finish()])
    }

    #[test]
    fn the_longest_chain_goes_through_the_slower_box() {
        let trace = pipeline();
        let keys = Keys::new(&trace);
        let (types, _) = keys.types();
        let asked: Vec<usize> =
            ["make", "use"].iter().map(|name| types.iter().position(|t| t == name).unwrap()).collect();
        let found = pass(&trace, &keys, &asked, Span { first_ns: 0, ns: 115 });
        // The first envelope takes 10 ns to make, and both are used one after the other.
        assert_eq!(found.chain.ns, 110);
        assert_eq!(found.chain.without, [(asked[0], 100), (asked[1], 30)]);
        let via = &found.vias[0];
        assert_eq!((via.envelopes, via.rows, via.refused), (2, 15, 0));
        // Received when the code that took them ends: 65 - 10 and 115 - 30.
        assert_eq!((via.most, via.inside_ns), (1, 55 + 85));
        assert_eq!(found.takes, [vec![0, 0], vec![1, 0]]);
        let causes: Vec<Option<Cause>> = found.causes[1].clone();
        let cause = |index| Some(Cause { seat: 0, index });
        assert_eq!(causes, [cause(5), cause(4), cause(10)]);
    }

    #[test]
    fn a_wait_waits_for_the_longest_child() {
        let (root, one, two) = (JobId::task(1, 0), JobId::task(1, 1), JobId::task(1, 2));
        let mut log = EventLog::new(100);
        let queued = |who, by: JobId| What::Enqueued { who, kind: TaskKind::Deferred, by: by.index };
        let events = [
            (0, queued(root, JobId::task_of(1))),
            (0, What::UserCodeBegins { who: root }),
            (10, queued(one, root)),
            (10, queued(two, root)),
            (10, What::WaitBegins { who: root, awaits: vicus_trace::Awaits::Children }),
            (10, What::UserCodeBegins { who: one }),
            (40, What::UserCodeEnds { who: one }),
            (40, What::UserCodeBegins { who: two }),
            (140, What::UserCodeEnds { who: two }),
            (140, What::WaitEnds { who: root }),
            (145, What::UserCodeEnds { who: root }),
        ];
        events.into_iter().for_each(|(time_ns, what)| _ = log.record(time_ns, what));
        let trace = Trace::new(Header::for_seats(1), vec![log.finish()]);
        let found = pass(&trace, &Keys::new(&trace), &[], Span { first_ns: 0, ns: 145 });
        assert_eq!(found.chain.ns, 10 + 100 + 5);
    }

    /// The steps of a single log, and the longest chain in it.
    fn chain_of(events: &[(u64, What)]) -> u64 {
        let mut log = EventLog::new(100);
        events.iter().for_each(|&(time_ns, what)| _ = log.record(time_ns, what));
        let trace = Trace::new(Header::for_seats(1), vec![log.finish()]);
        let ns = events.last().unwrap().0;
        pass(&trace, &Keys::new(&trace), &[], Span { first_ns: 0, ns }).chain.ns
    }

    fn queued(who: JobId, by: JobId) -> What {
        What::Enqueued { who, kind: TaskKind::Deferred, by: by.index }
    }

    fn begins(who: JobId) -> What {
        What::UserCodeBegins { who }
    }

    fn ends(who: JobId) -> What {
        What::UserCodeEnds { who }
    }

    /// A task of OpenMP spawns two of which the second follows the first by its data, and waits for both. The runtime
    /// queues the second when the first ends, by this one: the wait once missed the second.
    #[test]
    fn the_spawner_of_a_task_and_not_its_predecessor_waits_for_it() {
        let [outer, root, one, two] = [0, 1, 2, 3].map(|number| JobId::task(1, number));
        let wait = What::WaitBegins { who: root, awaits: Awaits::Children };
        let events = [
            (0, queued(outer, JobId::task_of(1))),
            (0, begins(outer)),
            (1, queued(root, outer)),
            (1, ends(outer)),
            (1, begins(root)),
            (11, What::Spawned { who: one, by: root.index }),
            (11, queued(one, root)),
            (11, What::Spawned { who: two, by: root.index }),
            (11, wait),
            (11, begins(one)),
            (41, queued(two, one)),
            (41, ends(one)),
            (41, begins(two)),
            (141, ends(two)),
            (141, What::WaitEnds { who: root }),
            (148, ends(root)),
        ];
        // 1 of the outer task, 10 of the root up to its spawns, 30 and 100 of the tasks one after the other, 7 behind.
        assert_eq!(chain_of(&events), 1 + 10 + 30 + 100 + 7);
    }

    /// A task from outside has no spawner; its wait for children is no barrier.
    #[test]
    fn a_task_without_a_spawner_waits_for_its_own_children_alone() {
        let [root, child, stranger] = [0, 1, 2].map(|number| JobId::task(1, number));
        let none = JobId::task_of(1);
        let events = [
            (0, queued(stranger, none)),
            (0, queued(root, none)),
            (0, begins(stranger)),
            (500, ends(stranger)),
            (500, begins(root)),
            (510, queued(child, root)),
            (510, What::WaitBegins { who: root, awaits: Awaits::Children }),
            (510, begins(child)),
            (530, ends(child)),
            (530, What::WaitEnds { who: root }),
            (1010, ends(root)),
        ];
        // The root's 10, the child's 20 and the root's 480: the stranger's 500 are beside them.
        assert_eq!(chain_of(&events), 10 + 20 + 480);
    }

    /// A group waits for grandchildren as well, whose parent has not waited for them, and for no earlier child.
    #[test]
    fn a_section_has_all_descendants_since_its_beginning() {
        let [root, earlier, child, grandchild] = [0, 1, 2, 3].map(|number| JobId::task(1, number));
        let events = [
            (0, queued(root, JobId::task_of(1))),
            (0, begins(root)),
            (10, queued(earlier, root)),
            (10, What::SectionBegins { who: root }),
            (10, queued(child, root)),
            (10, What::WaitBegins { who: root, awaits: Awaits::Section }),
            (10, begins(earlier)),
            (310, ends(earlier)),
            (310, begins(child)),
            (315, queued(grandchild, child)),
            (318, ends(child)),
            (318, begins(grandchild)),
            (418, ends(grandchild)),
            (418, What::WaitEnds { who: root }),
            (718, ends(root)),
        ];
        // 10, then the child's 5 up to the grandchild, its 100, and 300 behind; the earlier child ends after 310.
        assert_eq!(chain_of(&events), 10 + 5 + 100 + 300);
    }

    /// Two members, of which the first works 100 ns before a barrier and 10 behind it, the second 20 and 200. Only one
    /// of them has a long part on either side, so neither does all of the chain.
    #[test]
    fn a_barrier_joins_the_longest_parts_before_and_behind_it() {
        let [one, two] = [0, 1].map(|number| JobId::task(1, number));
        let none = JobId::task_of(1);
        let (mut first, mut second) = (EventLog::new(100), EventLog::new(100));
        let wait = |who| What::WaitBegins { who, awaits: Awaits::Team };
        let mut record = |is_first: bool, time_ns: u64, what: What| {
            let (own, other) = if is_first { (&mut first, &mut second) } else { (&mut second, &mut first) };
            other.observe(own.record(time_ns, what));
        };
        for round in [0, 1000] {
            let [one, two] = if round == 0 { [one, two] } else { [2, 3].map(|number| JobId::task(1, number)) };
            record(true, round, queued(one, none));
            record(true, round, begins(one));
            record(false, round, queued(two, none));
            record(false, round, begins(two));
            record(false, round + 20, wait(two));
            record(true, round + 100, wait(one));
            record(true, round + 100, What::WaitEnds { who: one });
            // It works on, and waits at the next barrier, before the other one has left the first.
            record(true, round + 110, wait(one));
            record(false, round + 120, What::WaitEnds { who: two });
            record(false, round + 320, wait(two));
            record(false, round + 320, What::WaitEnds { who: two });
            record(true, round + 320, What::WaitEnds { who: one });
            record(true, round + 321, ends(one));
            record(false, round + 322, ends(two));
        }
        let trace = Trace::new(Header::for_seats(2), vec![first.finish(), second.finish()]);
        let found = pass(&trace, &Keys::new(&trace), &[], Span { first_ns: 0, ns: 1322 });
        // Each region: 100 up to the barrier, 200 from there to the next one, 2 behind it. The second one begins behind
        // the last barrier of the first.
        assert_eq!(found.chain.ns, 300 + 100 + 200 + 2);
    }

    /// A damaged trace may have tasks that have spawned each other: they must not keep the pass for ever.
    #[test]
    fn tasks_that_have_spawned_each_other_end() {
        let [one, two] = [0, 1].map(|number| JobId::task(1, number));
        let mut events = vec![(0, queued(one, two)), (0, queued(two, one))];
        for (at, who) in [(0, one), (10, two), (30, one)] {
            events.extend([(at, begins(who)), (at + 10, ends(who))]);
        }
        assert_eq!(chain_of(&events), 20);
    }

    #[test]
    fn a_clock_that_runs_behind_its_cause_is_counted() {
        let (mut first, mut second) = (EventLog::new(10), EventLog::new(10));
        let cause = first.record(100, What::Enqueued { who: USE, kind: TaskKind::Immediate, by: JobId::NONE });
        second.observe(cause);
        second.record(40, What::Taken { who: USE, rule: 1, far: false });
        let trace = Trace::new(header(2), vec![first.finish(), second.finish()]);
        assert_eq!(pass(&trace, &Keys::new(&trace), &[], Span { first_ns: 40, ns: 60 }).early, (1, 60));
    }
}
