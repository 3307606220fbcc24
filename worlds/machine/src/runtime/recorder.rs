//! Records the events of a seat, if the runtime was asked to; otherwise each call is one test of a flag.
//!
//! Recording allocates nothing. It takes a lock of the seat's own, contended only when a team's logs are collected
//! while its threads go on. The Lamport clock travels with the box (a word in its cell), with the envelope, and with
//! the wake (a word for each pool). All closures share one word. A seat raises it when it queues or ends a closure. A
//! seat observes it when it begins a closure, has waited for some, or spawns or queues one that depends on others by
//! its data. This orders more than necessary, and never an effect before its cause.
//!
//! A trace tells closures apart by numbers: each seat counts its own, in steps of the number of seats.

use crate::runtime::takes::{Level, SeatTakes};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use vicus_flow::{BoxId, ConnectedBox, Fact, Instance, LiveBox, Model, SeatBuffers, refusable};
use vicus_schedule::{
    Access, DealResult, Decision, Kind, Mode, Plan, PoolId, RequestId, SeatId, TaskHeader, TaskName, TaskRef, Way,
};
use vicus_topology::Topology;
use vicus_trace::{
    Awaits, BoxInfo, EventLog, Header, InputSource, ModelInfo, OperatorInfo, RequestOutcome, SeatInfo, SeatLog,
    TaskKind, Trace, Use, ViaBound, What,
};

/// The number of a thread that only runs another task aside: it is none of the program's, and not recorded.
pub const ASIDE: u32 = TaskHeader::UNNUMBERED - 1;

/// The data of a recorded run beside its seats' logs.
pub(crate) struct Recording {
    began: Instant,
    started: String,
    /// `None`: takes are counted, and no events are kept.
    room: Option<EventRoom>,
    /// By seat.
    takes: Vec<Arc<SeatTakes>>,
    /// The clock of the last wake, by pool.
    wakes: Vec<AtomicU64>,
    /// The clock of closures.
    tasks: Arc<AtomicU64>,
    /// Events of callers without a seat.
    outside: Mutex<EventLog>,
    /// The numbers of their closures.
    numbers: Mutex<Numbers>,
    /// The networks of requests that have grown.
    grown: Mutex<Vec<ModelInfo>>,
    /// By the model's address, valid because this keeps the model.
    models: Mutex<BTreeMap<usize, Instances>>,
    /// By seat, filled when its thread has left.
    logs: Mutex<Vec<SeatLog>>,
    /// By seat, the log its thread records into now.
    live: Mutex<Vec<Option<Arc<Mutex<EventLog>>>>>,
    /// How the numbers of the first seat's closures begin, and by how much they rise.
    first_number: u32,
    number_step: u32,
    /// By seat, its decisions, filled when its thread has left. `None`: they are not recorded.
    decisions: Option<Mutex<Vec<Vec<Decision>>>>,
}

/// A model and its requests.
struct Instances {
    model: Arc<Model>,
    requests: Vec<u32>,
    /// Those of the query that it answers.
    operators: Vec<OperatorInfo>,
}

impl Instances {
    fn new(model: &Arc<Model>) -> Instances {
        Instances { model: Arc::clone(model), requests: Vec::new(), operators: Vec::new() }
    }
}

/// How many events of a seat are kept, and which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventRoom {
    pub(crate) events: usize,
    pub(crate) keeps: KeptEvents,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeptEvents {
    First,
    Last,
    /// Those of the last nanoseconds before the end.
    Recent(u64),
}

fn new_log(room: Option<EventRoom>, most: usize) -> EventLog {
    let EventRoom { events, keeps } = room.unwrap_or(EventRoom { events: 0, keeps: KeptEvents::First });
    let events = events.min(most);
    refusable(|| match keeps {
        KeptEvents::First => EventLog::new(events),
        KeptEvents::Last => EventLog::rolling(events),
        KeptEvents::Recent(span_ns) => EventLog::of_last(span_ns, events),
    })
}

impl Recording {
    /// `team`: the members of all teams of the process have one clock and different numbers, so that their logs make
    /// one trace.
    pub(crate) fn new(
        room: Option<EventRoom>,
        decides: bool,
        team: bool,
        plan: &Plan,
        machine: &Topology,
    ) -> Recording {
        let seats = plan.seats.len();
        if team {
            let common = common();
            let first = common.seats.fetch_add(seats, Ordering::Relaxed) as u32;
            let own = Recording::from(room, decides, plan, machine, first % TEAM_SEATS, TEAM_SEATS);
            let (began, started, tasks) = (common.began, common.started.clone(), Arc::clone(&common.tasks));
            return Recording { began, started, tasks, ..own };
        }
        // The number behind the last seat stands for all callers without one.
        Recording::from(room, decides, plan, machine, 0, seats as u32 + 1)
    }

    fn from(
        room: Option<EventRoom>,
        decides: bool,
        plan: &Plan,
        machine: &Topology,
        first_number: u32,
        number_step: u32,
    ) -> Recording {
        Recording {
            began: Instant::now(),
            started: now_said(),
            room,
            takes: SeatTakes::of_all(plan, machine),
            wakes: plan.pools.iter().map(|_| AtomicU64::new(0)).collect(),
            tasks: Arc::default(),
            outside: Mutex::new(new_log(room, 1 << 16)),
            numbers: Mutex::new(Numbers { next: first_number + plan.seats.len() as u32, step: number_step }),
            models: Mutex::new(BTreeMap::new()),
            grown: Mutex::default(),
            logs: Mutex::new(vec![SeatLog::default(); plan.seats.len()]),
            live: Mutex::new(vec![None; plan.seats.len()]),
            first_number,
            number_step,
            decisions: decides.then(|| Mutex::new(vec![Vec::new(); plan.seats.len()])),
        }
    }

    /// A caller without a seat submits a request.
    pub(crate) fn submitted(&self, instance: &Instance, first: BoxId) {
        if !self.keeps_events() {
            return;
        }
        let request = instance.id().number() as u32;
        let model = instance.model();
        self.models
            .lock()
            .expect("nothing panics under this lock")
            .entry(Arc::as_ptr(model) as usize)
            .or_insert_with(|| Instances::new(model))
            .requests
            .push(request);
        let mut outside = self.outside.lock().expect("nothing panics under this lock");
        let now = self.now();
        outside.record(now, What::RequestSubmitted { request });
        let kind = TaskKind::Deferred;
        let clock =
            outside.record(now, What::Enqueued { who: box_id(instance, first), kind, by: vicus_trace::JobId::NONE });
        instance.raise_clock(first, clock);
    }

    /// Says which operators of a query a model's boxes are, before it is submitted.
    pub(crate) fn has_operators(&self, model: &Arc<Model>, operators: impl FnOnce() -> Vec<OperatorInfo>) {
        if self.keeps_events() {
            let operators = operators();
            let mut models = self.models.lock().expect("nothing panics under this lock");
            let known = models.entry(Arc::as_ptr(model) as usize).or_insert_with(|| Instances::new(model));
            known.operators = operators;
        }
    }

    /// A box goes on from outside of an invocation: a paused one, or one whose via may hold more.
    pub(crate) fn resumed(&self, instance: &Instance, index: BoxId) {
        if !self.keeps_events() {
            return;
        }
        let mut outside = self.outside.lock().expect("nothing panics under this lock");
        outside.observe(instance.clock(index));
        let (who, kind) = (box_id(instance, index), TaskKind::Deferred);
        let clock = outside.record(self.now(), What::Enqueued { who, kind, by: vicus_trace::JobId::NONE });
        instance.raise_clock(index, clock);
    }

    /// A caller submits a closure as a request. Gives it a number.
    pub(crate) fn task_submitted(&self, request: RequestId) -> u32 {
        if !self.keeps_events() {
            return TaskHeader::UNNUMBERED;
        }
        let number = self.numbers.lock().expect("nothing panics under this lock").next();
        let mut outside = self.outside.lock().expect("nothing panics under this lock");
        let (who, kind) = (vicus_trace::JobId::task(request.number() as u32, number), TaskKind::Deferred);
        let clock = outside.record(self.now(), What::Enqueued { who, kind, by: vicus_trace::JobId::NONE });
        self.tasks.fetch_max(clock, Ordering::AcqRel);
        number
    }

    /// A thread without a seat here queues a held task.
    pub(crate) fn task_released(&self, task: TaskRef) {
        if !self.keeps_events() {
            return;
        }
        let mut outside = self.outside.lock().expect("nothing panics under this lock");
        outside.observe(self.tasks.load(Ordering::Acquire));
        let (who, kind) = (task_of(task.header()), TaskKind::Deferred);
        let clock = outside.record(self.now(), What::Enqueued { who, kind, by: vicus_trace::JobId::NONE });
        self.tasks.fetch_max(clock, Ordering::AcqRel);
    }

    /// A request is over: if its network has grown, the trace has all of its boxes.
    pub(crate) fn grew(&self, instance: &Instance) {
        let network = if self.keeps_events() { instance.network() } else { Vec::new() };
        if !network.is_empty() {
            let info = ModelInfo {
                name: instance.model().name().to_owned(),
                requests: vec![instance.id().number() as u32],
                boxes: network.iter().map(live_info).collect(),
            };
            self.grown.lock().expect("nothing panics under this lock").push(info);
        }
    }

    /// A caller without a seat settled a request.
    pub(crate) fn ended(&self, instance: &Instance, outcome: RequestOutcome) {
        if !self.keeps_events() {
            return;
        }
        let mut outside = self.outside.lock().expect("nothing panics under this lock");
        outside.observe(instance.last_clock());
        outside.record(self.now(), What::RequestEnded { request: instance.id().number() as u32, outcome });
    }

    /// Whether events are kept.
    pub(crate) fn keeps_events(&self) -> bool {
        self.room.is_some()
    }

    /// Whether it is to show all work, as told by seats alone, rather than counts of takes.
    pub(crate) fn is_of_seats(&self) -> bool {
        self.keeps_events() || self.decisions.is_some()
    }

    /// How many tasks were taken up to now, by rule and level.
    pub(crate) fn takes(&self) -> BTreeMap<(u8, Level), u64> {
        let mut sums = BTreeMap::new();
        self.takes.iter().for_each(|seat| seat.add_to(&mut sums));
        sums
    }

    /// The decisions of each seat. To be called when the threads have left.
    pub(crate) fn decisions(&self) -> Vec<Vec<Decision>> {
        let decisions =
            self.decisions.as_ref().map(|decisions| decisions.lock().expect("nothing panics under this lock"));
        decisions.map(|mut decisions| std::mem::take(&mut *decisions)).unwrap_or_default()
    }

    /// A log for the thread sitting down on a seat: a team's former member of this number may have begun it.
    fn log_of(&self, seat: SeatId) -> Arc<Mutex<EventLog>> {
        let new = || Arc::new(Mutex::new(new_log(self.room, usize::MAX)));
        let mut live = self.live.lock().expect("nothing panics under this lock");
        Arc::clone(live[seat.index()].get_or_insert_with(new))
    }

    /// Collects the recordings of the present threads. They record no more.
    pub(crate) fn cut_off(&self) {
        let live = self.live.lock().expect("nothing panics under this lock");
        let mut logs = self.logs.lock().expect("nothing panics under this lock");
        for (log, to) in live.iter().zip(&mut *logs) {
            if let Some(log) = log {
                let log =
                    std::mem::replace(&mut *log.lock().expect("nothing panics under this lock"), EventLog::new(0));
                *to = log.finish_at(self.now());
            }
        }
    }

    /// The whole recording. To be called when the threads have left, or have been cut off.
    pub(crate) fn collect(&self, plan: &Plan, machine: &Topology) -> Trace {
        let info = |pu: vicus_topology::PuId| {
            let pu = &machine.pus[pu.index()];
            SeatInfo { pu: pu.id, group: pu.group, node: pu.node, is_callers: false, process: 0 }
        };
        // Callers without a seat come last, as if they were on the first seat's PU.
        let callers = SeatInfo { is_callers: true, ..info(plan.seats[0].pu) };
        let seats = plan.seats.iter().map(|seat| info(seat.pu)).chain([callers]).collect();
        let models = self.models.lock().expect("nothing panics under this lock");
        let grown = std::mem::take(&mut *self.grown.lock().expect("nothing panics under this lock"));
        let is_grown = |request: &u32| grown.iter().any(|info| info.requests.contains(request));
        let submitted = || models.values().filter(|instances| !instances.requests.is_empty());
        let model = |Instances { model, requests, .. }: &Instances| ModelInfo {
            name: model.name().to_owned(),
            requests: requests.iter().copied().filter(|request| !is_grown(request)).collect(),
            boxes: model.boxes().iter().map(box_info).collect(),
        };
        let mut operators: Vec<_> = submitted().map(|instances| instances.operators.clone()).collect();
        if operators.iter().all(Vec::is_empty) {
            operators.clear();
        }
        let header = Header {
            strategy: plan.strategy.clone(),
            plan: plan.to_string(),
            machine: machine.name.clone(),
            clock: "ns since the runtime's start, monotonic".to_owned(),
            started: self.started.clone(),
            command: String::new(),
            version: concat!("Vicus ", env!("CARGO_PKG_VERSION")).to_owned(),
            seats,
            models: submitted().map(model).chain(grown.iter().cloned()).collect(),
            functions: Vec::new(),
            arrays: Vec::new(),
            array_bytes: Vec::new(),
            rolls: self.room.is_some_and(|room| room.keeps != KeptEvents::First),
            last_ns: 0,
            processes: Vec::new(),
            machines: vec![machine.clone()],
            earlier: Vec::new(),
            operators,
        };
        // Threads of a runtime that goes on leave their seats later.
        let none = vec![SeatLog::default(); plan.seats.len()];
        let mut logs = std::mem::replace(&mut *self.logs.lock().expect("nothing panics under this lock"), none);
        let outside = std::mem::take(&mut *self.outside.lock().expect("nothing panics under this lock"));
        logs.push(outside.finish_at(self.now()));
        Trace::new(header, logs)
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

fn box_info(b: &ConnectedBox) -> BoxInfo {
    let source = |(sender, output): (BoxId, usize)| InputSource { index: sender.index() as u32, output: output as u16 };
    let bound = |bound: vicus_flow::Bound| ViaBound { envelopes: bound.envelopes as u32, bytes: bound.bytes };
    BoxInfo {
        name: b.name().to_owned(),
        type_name: b.type_name().to_owned(),
        inputs: b.sources().map(source).collect(),
        bounds: b.bounds().map(bound).collect(),
    }
}

fn live_info(live: &LiveBox) -> BoxInfo {
    let source =
        |(sender, output): &(BoxId, usize)| InputSource { index: sender.index() as u32, output: *output as u16 };
    let bound = |bound: &vicus_flow::Bound| ViaBound { envelopes: bound.envelopes as u32, bytes: bound.bytes };
    BoxInfo {
        name: live.name.clone(),
        type_name: live.type_name.clone(),
        inputs: live.sources.iter().map(source).collect(),
        bounds: live.bounds.iter().map(bound).collect(),
    }
}

fn box_id(instance: &Instance, index: BoxId) -> vicus_trace::JobId {
    vicus_trace::JobId { request: instance.id().number() as u32, index: index.index() as u32 }
}

fn task_of(header: &TaskHeader) -> vicus_trace::JobId {
    vicus_trace::JobId::task(header.request.number() as u32, header.number)
}

/// A task as decisions of seats name it.
pub(crate) fn name_of(task: TaskRef) -> TaskName {
    let TaskHeader { request, number, .. } = *task.header();
    TaskName { request, number, is_box: !task.header().class.runs_inline }
}

pub(crate) fn name_of_box(instance: &Instance, index: BoxId) -> TaskName {
    TaskName { request: instance.id(), number: index.index() as u32, is_box: true }
}

/// One event each for near and far bytes, if there are any.
fn near_first(near: usize, far: usize) -> impl Iterator<Item = (bool, u32)> {
    let bytes = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    [(false, bytes(near)), (true, bytes(far))].into_iter().filter(|&(_, bytes)| bytes > 0)
}

/// A counter of numbers, unique among all counters.
struct Numbers {
    next: u32,
    step: u32,
}

impl Numbers {
    fn next(&mut self) -> u32 {
        let number = self.next;
        self.next = number.saturating_add(self.step);
        number
    }
}

fn kind_of(kind: Kind) -> TaskKind {
    match kind {
        Kind::Immediate => TaskKind::Immediate,
        Kind::Deferred => TaskKind::Deferred,
    }
}

/// The state shared by all teams of the process, so that their logs make one trace.
struct Common {
    began: Instant,
    started: String,
    tasks: Arc<AtomicU64>,
    /// How many seats they have had.
    seats: AtomicUsize,
}

/// By how much the numbers of a member's tasks rise: half a million for each member of the first 4096.
const TEAM_SEATS: u32 = 4096;

fn common() -> &'static Common {
    static COMMON: OnceLock<Common> = OnceLock::new();
    COMMON.get_or_init(|| Common {
        began: Instant::now(),
        started: now_said(),
        tasks: Arc::default(),
        seats: AtomicUsize::new(0),
    })
}

/// When a recording began, for people.
fn now_said() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:03} s after 1970-01-01 UTC", since.as_secs(), since.subsec_millis())
}

/// One seat's recorder.
pub struct SeatRecorder(Option<On>);

struct On {
    /// Shared with the collector.
    log: Arc<Mutex<EventLog>>,
    /// Whether events are kept; otherwise the time isn't asked for.
    keeps_events: bool,
    takes: Arc<SeatTakes>,
    began: Instant,
    /// The clock of closures.
    tasks: Arc<AtomicU64>,
    numbers: Numbers,
    /// The seat's decisions; `None`: they are not recorded.
    decisions: Option<Vec<Decision>>,
    /// The tasks with code running on this seat, the innermost last, by [`vicus_trace::JobId::index`].
    open: Vec<u32>,
}

impl On {
    fn log(&self) -> MutexGuard<'_, EventLog> {
        self.log.lock().expect("nothing panics under this lock")
    }

    /// Orders the next event after an event with this clock. Clocks order events; without events there are none.
    #[inline]
    fn observe(&self, clock: u64) {
        if self.keeps_events {
            self.log().observe(clock);
        }
    }

    #[inline]
    fn clock(&self) -> u64 {
        if self.keeps_events { self.log().clock() } else { 0 }
    }

    fn take_log(&self) -> SeatLog {
        let log = std::mem::replace(&mut *self.log(), EventLog::new(0));
        log.finish_at(self.began.elapsed().as_nanos() as u64)
    }

    /// The innermost running task: the maker of new ones.
    fn by(&self) -> u32 {
        self.open.last().copied().unwrap_or(vicus_trace::JobId::NONE)
    }

    /// A task begins that was in no queue; `by` has made it.
    fn begin_unqueued(&mut self, who: vicus_trace::JobId, by: u32) {
        self.record(What::Enqueued { who, kind: TaskKind::Immediate, by });
        self.record(What::Taken { who, rule: 0, far: false });
        self.record(What::UserCodeBegins { who });
        self.open.push(who.index);
    }

    /// A task's code is over, together with all tasks left open by its panic.
    fn close(&mut self, index: u32) {
        if let Some(at) = self.open.iter().rposition(|&open| open == index) {
            self.open.truncate(at);
        }
    }

    fn record(&mut self, what: What) -> u64 {
        if !self.keeps_events {
            return 0;
        }
        self.log().record(self.began.elapsed().as_nanos() as u64, what)
    }

    /// Records the facts about envelopes.
    fn record_facts(&mut self, who: vicus_trace::JobId, buffers: &mut SeatBuffers) {
        for fact in buffers.facts.drain(..) {
            match fact {
                Fact::Received { input, rows, pill, stamp } => {
                    self.observe(stamp);
                    self.record(What::EnvelopeReceived { who, input: input as u16, rows: rows as u32, pill });
                }
                Fact::Left { input } => {
                    self.record(What::EnvelopeLeft { who, input: input as u16 });
                }
                Fact::Kept { input } => {
                    self.record(What::EnvelopeKept { who, input: input as u16 });
                }
                Fact::Sent { output, rows, pill, bytes } => {
                    let (output, bytes) = (output as u16, u32::try_from(bytes).unwrap_or(u32::MAX));
                    self.record(What::EnvelopeCreated { who, output, bytes });
                    self.record(What::EnvelopeSent { who, output, rows: rows as u32, pill });
                }
                Fact::Read { near, far } => {
                    for (far, bytes) in [(false, near), (true, far)].into_iter().filter(|(_, bytes)| *bytes > 0) {
                        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                        self.record(What::BytesRead { who, far, bytes });
                    }
                }
                Fact::Held { bytes } => {
                    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                    self.record(What::Held { who, bytes });
                }
                Fact::Refused { output } => {
                    self.record(What::Refused { who, output: output as u16 });
                }
                Fact::Overdrawn { output, bytes } => {
                    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                    self.record(What::Overdrawn { who, output: output as u16, bytes });
                }
                Fact::Resumed { output } => {
                    self.record(What::Resumed { who, output: output as u16 });
                }
            }
        }
        self.observe(buffers.clock);
        buffers.clock = self.clock();
    }
}

impl SeatRecorder {
    pub(crate) fn new(recording: Option<&Recording>, seat: SeatId) -> SeatRecorder {
        let on = |recording: &Recording| On {
            log: recording.log_of(seat),
            keeps_events: recording.keeps_events(),
            takes: Arc::clone(&recording.takes[seat.index()]),
            began: recording.began,
            tasks: Arc::clone(&recording.tasks),
            numbers: Numbers { next: recording.first_number + seat.index() as u32, step: recording.number_step },
            decisions: recording.decisions.is_some().then(Vec::new),
            open: Vec::new(),
        };
        SeatRecorder(recording.map(on))
    }

    /// Whether it records anything.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether events are kept, rather than takes just counted.
    #[inline]
    pub fn keeps_events(&self) -> bool {
        self.0.as_ref().is_some_and(|on| on.keeps_events)
    }

    /// Records a decision of the seat, if decisions are recorded.
    #[inline]
    pub(crate) fn record_decision(&mut self, decision: impl FnOnce() -> Decision) {
        if let Some(decisions) = self.0.as_mut().and_then(|on| on.decisions.as_mut()) {
            decisions.push(decision());
        }
    }

    pub(crate) fn clock(&self) -> u64 {
        self.0.as_ref().map_or(0, On::clock)
    }

    /// A box is about to be put into a queue.
    #[inline]
    pub(crate) fn enqueued(&mut self, instance: &Instance, index: BoxId, kind: Kind, by: BoxId) {
        if let Some(on) = &mut self.0 {
            let kind = kind_of(kind);
            on.observe(instance.clock(index));
            let clock = on.record(What::Enqueued { who: box_id(instance, index), kind, by: by.index() as u32 });
            instance.raise_clock(index, clock);
        }
    }

    /// A number for a closure made by this seat.
    #[inline]
    pub fn number(&mut self) -> u32 {
        match &mut self.0 {
            Some(on) => on.numbers.next(),
            None => TaskHeader::UNNUMBERED,
        }
    }

    /// Records a new closure, which may have to wait for others before it is queued.
    pub(crate) fn task_spawned(&mut self, task: TaskRef) {
        if let Some(on) = &self.0 {
            let by = on.by();
            self.task_causes(What::Spawned { who: task_of(task.header()), by });
        }
    }

    /// A closure is about to be put into a queue.
    #[inline]
    pub(crate) fn task_enqueued(&mut self, task: TaskRef, kind: Kind) {
        if let Some(on) = &self.0 {
            let by = on.by();
            self.task_causes(What::Enqueued { who: task_of(task.header()), kind: kind_of(kind), by });
        }
    }

    /// Records the bytes that a closure about to be queued uses near this seat and elsewhere.
    pub(crate) fn task_uses(&mut self, request: RequestId, number: u32, near: usize, far: usize) {
        if let Some(on) = &mut self.0 {
            let who = vicus_trace::JobId::task(request.number() as u32, number);
            for (far, bytes) in near_first(near, far) {
                on.record(What::Footprint { who, far, bytes });
            }
        }
    }

    /// Records the bytes that the running task of this request, just begun, uses near this seat and elsewhere.
    pub(crate) fn running_uses(&mut self, request: RequestId, near: usize, far: usize) {
        for (far, bytes) in near_first(near, far) {
            self.record_of_running(request, |who| What::BytesRead { who, far, bytes });
        }
    }

    /// Records the reason for a dealt task's queue, if the plan deals it.
    #[cold]
    pub(crate) fn dealt(&mut self, who: vicus_trace::JobId, dealt: &DealResult) {
        let Some(why) = dealt.why else { return };
        let queue = dealt.queue.map_or(vicus_trace::JobId::NONE, |queue| queue.index() as u32);
        if let Some(on) = &mut self.0 {
            on.record(What::Dealt { who, why, share: dealt.share.into(), queue });
        }
    }

    /// Records the declared data of a closure about to be queued; its ordering accesses come first.
    #[cold]
    pub(crate) fn task_says(&mut self, request: RequestId, number: u32, ordered: &[Access], accesses: &[Access]) {
        let Some(on) = &mut self.0 else { return };
        let who = vicus_trace::JobId::task(request.number() as u32, number);
        let others = accesses.iter().filter(|access| !ordered.contains(access));
        let said = ordered.iter().map(|access| (true, access)).chain(others.map(|access| (false, access)));
        for (is_ordered, access) in said {
            let how = match access.mode {
                Mode::Read => Use::Reads,
                Mode::Write => Use::Writes,
                Mode::ReadWrite => Use::ReadsAndWrites,
                Mode::Concurrent => Use::Concurrent,
                Mode::Commutative => Use::Commutative,
            };
            for stretch in access.stretches().filter(|stretch| !stretch.is_empty()) {
                let (high, low) = What::halves(stretch.start as u64);
                on.record(match is_ordered {
                    true => What::Follows { who, how, high, low },
                    false => What::Uses { who, how, high, low },
                });
                let (high, low) = What::halves(stretch.len() as u64);
                on.record(What::UsesBytes { who, high, low });
            }
        }
    }

    /// The running task of this request begins a section.
    #[inline]
    pub(crate) fn section_begins(&mut self, request: RequestId) {
        if self.keeps_events() {
            self.record_of_running(request, |who| What::SectionBegins { who });
        }
    }

    /// The running task begins to wait.
    #[inline]
    pub(crate) fn wait_begins(&mut self, request: RequestId, awaits: Awaits) {
        if self.keeps_events() {
            self.record_of_running(request, |who| What::WaitBegins { who, awaits });
            // At a barrier, other seats go on behind it.
            self.turn_ends();
        }
    }

    /// A child begins on top of the running task of this request, which waits for its end: a section of its own. It was
    /// in no queue.
    #[cold]
    pub(crate) fn included_begins(&mut self, request: RequestId) -> u32 {
        self.section_begins(request);
        let number = self.number();
        let who = vicus_trace::JobId::task(request.number() as u32, number);
        if let Some(on) = &mut self.0 {
            on.begin_unqueued(who, on.by());
        }
        number
    }

    /// The included child ends.
    #[cold]
    pub(crate) fn included_ends(&mut self, request: RequestId, number: u32) {
        let who = vicus_trace::JobId::task(request.number() as u32, number);
        if let Some(on) = &mut self.0 {
            on.close(who.index);
            on.record(What::UserCodeEnds { who });
        }
        self.section_ends(request);
    }

    /// The tasks spawned by the running task in its section are over.
    #[inline]
    pub(crate) fn section_ends(&mut self, request: RequestId) {
        self.wait_begins(request, Awaits::Section);
        self.wait_ends(request);
    }

    /// The running task goes on.
    #[inline]
    pub(crate) fn wait_ends(&mut self, request: RequestId) {
        if self.keeps_events() {
            // A wait that found all over was in no loop that looks at the clock.
            self.observe_tasks();
            self.record_of_running(request, |who| What::WaitEnds { who });
        }
    }

    /// The running task is one of this function.
    #[inline]
    pub fn named(&mut self, request: RequestId, function: u32) {
        if self.keeps_events() {
            self.record_of_running(request, |who| What::Named { who, function });
        }
    }

    #[cold]
    fn record_of_running(&mut self, request: RequestId, what: impl FnOnce(vicus_trace::JobId) -> What) {
        if let Some(on) = &mut self.0 {
            let who = vicus_trace::JobId { request: request.number() as u32, index: on.by() };
            on.record(what(who));
        }
    }

    /// `far`: from another node's queue.
    #[inline]
    pub(crate) fn task_taken(&mut self, task: TaskRef, way: Way, far: bool) {
        if self.is_on() {
            self.task_counted(task, way, far);
        }
    }

    #[cold]
    fn task_counted(&mut self, task: TaskRef, way: Way, far: bool) {
        if let Some(on) = &self.0 {
            on.takes.take(way);
        }
        self.record_decision(|| Decision::Runs(name_of(task), way));
        self.task_follows(What::Taken { who: task_of(task.header()), rule: way.rule(), far });
    }

    #[inline]
    pub(crate) fn task_begins(&mut self, task: TaskRef) {
        if self.is_on() {
            if let Some(on) = &mut self.0 {
                on.open.push(task_of(task.header()).index);
            }
            self.record(What::UserCodeBegins { who: task_of(task.header()) });
        }
    }

    /// The running task has ended.
    #[inline]
    pub fn task_ends(&mut self, task: &TaskHeader) {
        if self.is_on() && task.number != ASIDE {
            self.record_end(task);
        }
    }

    #[cold]
    fn record_end(&mut self, task: &TaskHeader) {
        if let Some(on) = &mut self.0 {
            let who = task_of(task);
            on.close(who.index);
            self.task_causes(What::UserCodeEnds { who });
        }
    }

    /// A team's member begins its part of a region, a task from no queue. `slept`: since its last part it has done
    /// nothing here.
    #[cold]
    pub fn member_begins(&mut self, request: RequestId, slept: bool) -> u32 {
        let number = self.number();
        let who = vicus_trace::JobId::task(request.number() as u32, number);
        if let Some(on) = &mut self.0
            && on.keeps_events
        {
            if slept {
                on.record(What::SleepEnds);
            }
            on.begin_unqueued(who, vicus_trace::JobId::NONE);
        }
        number
    }

    /// A member's part of a region is over. It sleeps, as far as this seat is concerned.
    #[cold]
    pub fn member_ends(&mut self, request: RequestId, number: u32) {
        let who = vicus_trace::JobId::task(request.number() as u32, number);
        if let Some(on) = &mut self.0
            && on.keeps_events
        {
            on.close(who.index);
            self.task_causes(What::UserCodeEnds { who });
            self.record(What::SleepBegins);
        }
    }

    /// How many tasks' code is open on the seat.
    pub fn open(&self) -> usize {
        self.0.as_ref().map_or(0, |on| on.open.len())
    }

    /// A lightweight thread is suspended: its code, above the first `beneath` tasks, is not open any more. Gives it,
    /// for [`SeatRecorder::thread_goes_on`].
    pub fn thread_is_suspended(&mut self, thread: &TaskHeader, beneath: usize) -> Vec<u32> {
        let Some(on) = &mut self.0 else { return Vec::new() };
        let open = on.open.split_off(beneath.min(on.open.len()));
        if !open.is_empty() {
            on.record(What::UserCodeEnds { who: task_of(thread) });
        }
        open
    }

    /// The lightweight thread goes on.
    pub fn thread_goes_on(&mut self, thread: &TaskHeader, open: Vec<u32>) {
        if let Some(on) = &mut self.0
            && !open.is_empty()
        {
            on.record(What::UserCodeBegins { who: task_of(thread) });
            on.open.extend(open);
        }
    }

    /// Orders the events of this seat so far before those of seats waiting for its closure.
    pub(crate) fn turn_ends(&mut self) {
        if let Some(on) = self.0.as_ref().filter(|on| on.keeps_events) {
            on.tasks.fetch_max(on.clock(), Ordering::AcqRel);
        }
    }

    /// Orders the next event after those of the closures that this seat, or the closure it makes or queues, has waited
    /// for.
    #[inline]
    pub fn observe_tasks(&mut self) {
        if let Some(on) = &mut self.0 {
            on.observe(on.tasks.load(Ordering::Acquire));
        }
    }

    /// Records an event ordered after events of closures elsewhere.
    fn task_follows(&mut self, what: What) {
        self.observe_tasks();
        self.record(what);
    }

    /// Records an event that may precede events of closures elsewhere.
    #[cold]
    fn task_causes(&mut self, what: What) {
        if let Some(on) = &mut self.0
            && on.keeps_events
        {
            let clock = on.record(what);
            on.tasks.fetch_max(clock, Ordering::AcqRel);
        }
    }

    #[cold]
    fn record(&mut self, what: What) {
        if let Some(on) = &mut self.0 {
            on.record(what);
        }
    }

    #[inline]
    pub(crate) fn taken(&mut self, instance: &Instance, index: BoxId, way: Way, far: bool) {
        self.record_decision(|| Decision::Runs(name_of_box(instance, index), way));
        if let Some(on) = &mut self.0 {
            on.takes.take(way);
            on.observe(instance.clock(index));
            on.record(What::Taken { who: box_id(instance, index), rule: way.rule(), far });
        }
    }

    #[inline]
    pub(crate) fn invocation_begins(&mut self, instance: &Instance, index: BoxId, buffers: &mut SeatBuffers) {
        if let Some(on) = &mut self.0 {
            on.observe(buffers.clock);
            on.record(What::InvocationBegins { who: box_id(instance, index) });
            on.record_facts(box_id(instance, index), buffers);
        }
    }

    #[inline]
    pub(crate) fn act_begins(&mut self, instance: &Instance, index: BoxId) {
        if let Some(on) = &mut self.0 {
            on.open.push(index.index() as u32);
            on.record(What::UserCodeBegins { who: box_id(instance, index) });
        }
    }

    #[inline]
    pub(crate) fn act_ends(&mut self, instance: &Instance, index: BoxId, buffers: &mut SeatBuffers) {
        if let Some(on) = &mut self.0 {
            on.close(index.index() as u32);
            on.record_facts(box_id(instance, index), buffers);
            on.record(What::UserCodeEnds { who: box_id(instance, index) });
            buffers.clock = on.clock();
        }
    }

    #[inline]
    pub(crate) fn invocation_ends(&mut self, instance: &Instance, index: BoxId, buffers: &mut SeatBuffers) {
        if let Some(on) = &mut self.0 {
            on.record_facts(box_id(instance, index), buffers);
            on.record(What::InvocationEnds { who: box_id(instance, index) });
            buffers.clock = on.clock();
        }
    }

    pub(crate) fn request_ended(&mut self, instance: &Instance, outcome: RequestOutcome) {
        if let Some(on) = &mut self.0 {
            on.observe(instance.last_clock());
            on.record(What::RequestEnded { request: instance.id().number() as u32, outcome });
        }
    }

    pub(crate) fn sleep_begins(&mut self) {
        self.record_decision(|| Decision::Sleeps);
        if let Some(on) = &mut self.0 {
            on.record(What::SleepBegins);
        }
    }

    pub(crate) fn sleep_ends(&mut self, recording: Option<&Recording>, pool: PoolId) {
        if let (Some(on), Some(recording)) = (&mut self.0, recording) {
            on.observe(recording.wakes[pool.index()].load(Ordering::Acquire));
            on.record(What::SleepEnds);
        }
    }

    /// A thread begins to sit in for the blocked thread of a seat.
    pub(crate) fn lent_begins(&mut self, seat: SeatId) {
        self.record(What::LentBegins { seat: seat.index() as u32 });
    }

    /// The lent thread leaves the seat, and waits until it is lent again.
    pub(crate) fn lent_ends(&mut self) {
        self.record(What::LentEnds);
    }

    #[cold]
    pub(crate) fn woke(&mut self, recording: Option<&Recording>, pool: PoolId) {
        self.record_decision(|| Decision::Wakes(pool));
        if let (Some(on), Some(recording)) = (&mut self.0, recording) {
            let clock = on.record(What::Woke { pool: pool.index() as u32 });
            recording.wakes[pool.index()].fetch_max(clock, Ordering::AcqRel);
        }
    }

    pub(crate) fn hand_in(self, recording: Option<&Recording>, seat: SeatId) {
        if let (Some(on), Some(recording)) = (self.0, recording) {
            recording.live.lock().expect("nothing panics under this lock")[seat.index()] = None;
            let mut logs = recording.logs.lock().expect("nothing panics under this lock");
            logs[seat.index()] = on.take_log();
            if let (Some(all), Some(own)) = (&recording.decisions, on.decisions) {
                all.lock().expect("nothing panics under this lock")[seat.index()] = own;
            }
        }
    }
}
