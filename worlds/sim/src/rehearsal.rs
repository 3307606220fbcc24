//! A run of a model on one seat in virtual time, as the trace that a world would have recorded.
//!
//! The boxes are live and their code runs, but an invocation takes as long as its caller says. So a network can be
//! re-enacted on any machine without having run on one. Tasks wait in one queue, as in `vicus_flow::sequential`.

use std::fmt;
use std::sync::Arc;
use vicus_flow::stepwise::SteppedRequest;
use vicus_flow::{BoxCounts, Budget, ConnectedBox, Fact, FlowError, LiveBox, Model, Overflows, OwnOperators};
use vicus_schedule::Kind;
use vicus_topology::NodeId;
use vicus_trace::{
    BoxInfo, Event, Header, InputSource, JobId, ModelInfo, RequestOutcome, SeatLog, TaskKind, Trace, What,
};

/// The only request's number in the trace.
const REQUEST: u32 = 3;

/// A run's own operators, budget and place beside memory.
#[derive(Default)]
pub struct RehearsalOptions {
    /// Operators in place of the model's, as of [`SteppedRequest::start`].
    pub operators: OwnOperators,
    /// The bound on the memory of its boxes and vias; none by default.
    pub budget: Option<Budget>,
    /// Where vias and boxes keep what there is no memory for, such as [`BesideMemory`](crate::BesideMemory).
    pub overflows: Option<Arc<dyn Overflows>>,
}

impl fmt::Debug for RehearsalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RehearsalOptions").field("budget", &self.budget).finish_non_exhaustive()
    }
}

/// A run, and what was counted beside the trace.
///
/// ```
/// use vicus_kernels::Pipeline;
/// use vicus_sim::{Rehearsal, Replay, ReplayOptions};
///
/// let model = Pipeline { envelopes: 5, ..Pipeline::default() }.computing(1);
/// // A nanosecond for each row that a box takes; the task that was queued last runs first.
/// let rehearsal = Rehearsal::of(&model, |_| 0, |_, rows| rows).unwrap();
/// assert_eq!(rehearsal.work_ns, 5 * 4096 * 11);
/// assert_eq!(Replay::of(&rehearsal.trace, &ReplayOptions::default()).unwrap().recorded_ns, rehearsal.work_ns as f64);
/// ```
pub struct Rehearsal {
    /// The trace, of one seat and one request.
    pub trace: Trace,
    /// The counts of each box.
    pub counts: Vec<BoxCounts>,
    /// The sum of all invocations' durations.
    pub work_ns: u64,
    /// The invocations.
    pub invocations: u64,
}

impl Rehearsal {
    /// Runs a model. `choose` picks the next of a number of queued tasks by its index (0: the one queued last);
    /// `takes_ns` returns the duration of a box's invocation with this number of taken rows, in nanoseconds.
    ///
    /// # Errors
    /// The request's error.
    pub fn of(
        model: &Arc<Model>,
        choose: impl FnMut(usize) -> usize,
        takes_ns: impl Fn(&ConnectedBox, u64) -> u64,
    ) -> Result<Rehearsal, FlowError> {
        Rehearsal::with(model, RehearsalOptions::default(), choose, takes_ns)
    }

    /// Like [`Rehearsal::of`], within a budget, or with other operators.
    ///
    /// # Errors
    /// The request's error.
    pub fn with(
        model: &Arc<Model>,
        options: RehearsalOptions,
        mut choose: impl FnMut(usize) -> usize,
        takes_ns: impl Fn(&ConnectedBox, u64) -> u64,
    ) -> Result<Rehearsal, FlowError> {
        let mut log = EventList::default();
        let (mut work_ns, mut invocations) = (0, 0);
        let who = |index: usize| JobId { request: REQUEST, index: index as u32 };
        let (mut request, first) = SteppedRequest::start(model, options.operators);
        if let Some(budget) = options.budget {
            request.set_budget(budget);
        }
        if let Some(overflows) = options.overflows {
            request.set_overflows(overflows);
        }
        request.record();
        request.set_spreads(true);
        log.record(What::RequestSubmitted { request: REQUEST });
        log.record(What::Enqueued { who: who(first.index.index()), kind: TaskKind::Deferred, by: JobId::NONE });
        // The youngest last. Deferred tasks go below all others.
        let mut queue = vec![first];
        while !queue.is_empty() {
            let picked = choose(queue.len()) % queue.len();
            let task = queue.remove(queue.len() - 1 - picked);
            let (id, index) = (task.index, task.index.index());
            log.record(What::Taken { who: who(index), rule: 1, far: false });
            log.record(What::InvocationBegins { who: who(index) });
            let begun = request.begin(task, NodeId::default());
            invocations += u64::from(!begun.was_dropped());
            let mut facts: Vec<Fact> = request.facts().collect();
            let rows = facts.iter().map(|fact| match fact {
                Fact::Received { rows, .. } => *rows as u64,
                _ => 0,
            });
            let rows = rows.sum();
            let ns = request.with_box(id, |each| takes_ns(each, rows));
            let next = request.finish(begun, NodeId::default());
            (log.now, work_ns) = (log.now + ns, work_ns + ns);
            facts.extend(request.facts());
            facts.into_iter().for_each(|fact| log.fact(who(index), fact));
            log.record(What::InvocationEnds { who: who(index) });
            for task in next {
                let is_deferred = task.kind == Kind::Deferred;
                let kind = if is_deferred { TaskKind::Deferred } else { TaskKind::Immediate };
                log.record(What::Enqueued { who: who(task.index.index()), kind, by: index as u32 });
                queue.insert(if is_deferred { 0 } else { queue.len() }, task);
            }
        }
        log.record(What::RequestEnded { request: REQUEST, outcome: RequestOutcome::Done });
        let grown = request.network();
        let (result, counts) = request.settle();
        result?;
        let header =
            Header { models: vec![info(model, &grown)], machine: "no machine".to_owned(), ..Header::for_seats(1) };
        let trace = Trace::new(header, vec![SeatLog { events: log.events, ..SeatLog::default() }]);
        Ok(Rehearsal { trace, counts, work_ns, invocations })
    }
}

fn info(model: &Model, grown: &[LiveBox]) -> ModelInfo {
    let each = |each: &ConnectedBox| BoxInfo {
        name: each.name().to_owned(),
        type_name: each.type_name().to_owned(),
        inputs: each
            .sources()
            .map(|(sender, output)| InputSource { index: sender.index() as u32, output: output as u16 })
            .collect(),
        bounds: each
            .bounds()
            .map(|bound| vicus_trace::ViaBound { envelopes: bound.envelopes as u32, bytes: bound.bytes })
            .collect(),
    };
    let live = |live: &LiveBox| BoxInfo {
        name: live.name.clone(),
        type_name: live.type_name.clone(),
        inputs: live
            .sources
            .iter()
            .map(|(sender, output)| InputSource { index: sender.index() as u32, output: *output as u16 })
            .collect(),
        bounds: live
            .bounds
            .iter()
            .map(|bound| vicus_trace::ViaBound { envelopes: bound.envelopes as u32, bytes: bound.bytes })
            .collect(),
    };
    let boxes = match grown {
        [] => model.boxes().iter().map(each).collect(),
        grown => grown.iter().map(live).collect(),
    };
    ModelInfo { name: model.name().to_owned(), requests: vec![REQUEST], boxes }
}

/// The events so far. Unlike a thread's log it grows.
#[derive(Default)]
struct EventList {
    events: Vec<Event>,
    now: u64,
}

impl EventList {
    fn record(&mut self, what: What) {
        self.events.push(Event { time_ns: self.now, order: 1 + self.events.len() as u64, what });
    }

    fn fact(&mut self, who: JobId, fact: Fact) {
        let what = match fact {
            Fact::Received { input, rows, pill, .. } => {
                What::EnvelopeReceived { who, input: input as u16, rows: rows as u32, pill }
            }
            Fact::Left { input } => What::EnvelopeLeft { who, input: input as u16 },
            Fact::Kept { input } => What::EnvelopeKept { who, input: input as u16 },
            Fact::Sent { output, rows, pill, bytes } => {
                let output = output as u16;
                self.record(What::EnvelopeCreated { who, output, bytes: bytes as u32 });
                What::EnvelopeSent { who, output, rows: rows as u32, pill }
            }
            Fact::Read { near, far } => What::BytesRead { who, far: false, bytes: (near + far) as u32 },
            Fact::Held { bytes } => What::Held { who, bytes: bytes as u32 },
            Fact::Refused { output } => What::Refused { who, output: output as u16 },
            Fact::Overdrawn { output, bytes } => {
                What::Overdrawn { who, output: output as u16, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) }
            }
            Fact::Resumed { output } => What::Resumed { who, output: output as u16 },
        };
        self.record(what);
    }
}
