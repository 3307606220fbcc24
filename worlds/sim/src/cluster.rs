//! Networks of boxes over several simulated machines, joined by links.
//!
//! Each machine runs its part of a network's text as a node of doors/nodes does: the parts are made by core/network,
//! its ports decide when rows cross and when they wait, and core/flow's protocol runs the boxes, of which every one
//! works on real rows. Simulated are time, threads and links. A box takes its rows' recorded costs ([`BoxCosts`]), or
//! as long as the machine's memory takes for its bytes; a frame takes its way ([`LinkCosts`]). The same seed gives the
//! same run.
//!
//! Rows may stand for more: with a `scale` of 1000, each counts as a thousand of them, in costs and in bytes. So a
//! network over a terabyte is simulated with a gigabyte, whose envelopes are as many and each larger.
//!
//! A machine may be [lost](ClusterLoss) at a time. Then the network is cancelled everywhere, and run again with a spare
//! in its place if it may be; what the lost machine has sent is refused by the number of its attempt.

mod file;
mod links;
mod ports;

pub use file::{CROSSING_BYTE_NS, ClusterFile, ClusterFileError, STREAM};
pub use links::LinkCosts;

use crate::chance::Chance;
use crate::fluid::Time;
use crate::{BesideMemory, Machine, SimError};
use links::Links;
use ports::{Frame, Ports, PortsBorder, ProcessLost};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use vicus_flow::stepwise::{SteppedInvocation, SteppedRequest};
use vicus_flow::{Activation, BoxId, Envelope, Fact, FlowError, Operator, library};
use vicus_network::{CrossingRows, Kinds, MachineCounts, Network, NetworkError, NetworkPart, NetworkText};
use vicus_schedule::Kind;
use vicus_topology::NodeId;

/// A machine of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterMachine {
    /// Its threads and nodes: `threads` and `nodes` in texts.
    pub counts: MachineCounts,
    /// The bytes that its memory gives and takes in a second.
    pub memory_bytes_per_s: f64,
    /// The bytes of a second for one thread.
    pub thread_bytes_per_s: f64,
}

impl ClusterMachine {
    /// A described machine with so many threads.
    pub fn of(machine: &Machine, threads: usize) -> ClusterMachine {
        let nodes = machine.topology.nodes.len();
        ClusterMachine {
            counts: MachineCounts { threads, nodes },
            memory_bytes_per_s: machine.memory.controller_bandwidth * nodes as f64,
            thread_bytes_per_s: machine.memory.core_bandwidth,
        }
    }
}

/// A machine that is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterLoss {
    /// Its process: 1 or more, since the one that began the network ends it.
    pub process: usize,
    /// When, in nanoseconds of virtual time.
    pub at_ns: f64,
    /// Whether nothing says so: the machine goes on, and nobody hears it. Otherwise its connections are closed.
    pub is_silent: bool,
}

/// A cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The machines: first that of the process that begins the network.
    pub machines: Vec<ClusterMachine>,
    /// The threads of all machines together run on so many cores, if they are processes of one machine.
    pub shared_cores: Option<usize>,
    /// Their links.
    pub link: LinkCosts,
    /// The bytes of each crossing's rows that may be on their way.
    pub window: u64,
    /// Machines that are lost.
    pub losses: Vec<ClusterLoss>,
    /// A process that has sent nothing for so long is lost, in nanoseconds.
    pub silence_ns: f64,
    /// How often the network is run again.
    pub retries: usize,
    /// The order of tasks on a machine is by chance if there is a seed; else the newest comes first.
    pub seed: Option<u64>,
    /// How many rows each row stands for.
    pub scale: f64,
    /// The bytes that boxes and vias of each process may hold, if there is a bound; what there is no room for lies
    /// beside memory ([`BesideMemory`]), where it takes no time.
    pub memory_bytes: Option<u64>,
}

/// The costs of boxes.
#[derive(Clone, Debug, Default)]
pub struct BoxCosts {
    /// An invocation's time besides its rows', in nanoseconds.
    pub invocation_ns: f64,
    /// The time of each row that a box takes or sends, by the box's name in the text, in nanoseconds.
    pub row_ns: BTreeMap<String, f64>,
    /// That of rows of boxes without an own one.
    pub other_ns: f64,
    /// The time of each byte that a box sends to another process, or takes from one, in nanoseconds.
    pub crossing_byte_ns: f64,
}

impl BoxCosts {
    fn of(&self, name: &str) -> f64 {
        self.row_ns.get(plain_name(name)).copied().unwrap_or(self.other_ns)
    }
}

/// A box's name without the numbers of copies: `count` of `count[3]`.
pub fn plain_name(name: &str) -> &str {
    name.find('[').map_or(name, |bracket| &name[..bracket])
}

/// The outcome of a network on a cluster.
#[derive(Debug)]
pub struct ClusterOutcome {
    /// How long it took, in nanoseconds, from the first attempt on.
    pub wall_ns: f64,
    /// How often machines were lost before it did well.
    pub losses: usize,
    /// The invocations of boxes.
    pub invocations: u64,
    /// The bytes that crossed links.
    pub link_bytes: u64,
    /// The frames that crossed links.
    pub link_frames: u64,
    /// How busy the threads of all machines were together, as a share.
    pub busy: f64,
    /// The most bytes of rows that have waited for boxes at one machine.
    pub most_waiting: u64,
    /// The rows of each box that collects, by its name.
    pub rows: Vec<(String, Vec<Envelope>)>,
}

/// Why a network on a cluster has no outcome.
#[derive(Debug)]
pub enum ClusterError {
    /// The text is wrong.
    Text(NetworkError),
    /// A part has failed.
    Failed(usize, FlowError),
    /// A machine was lost, and there were no retries left.
    Lost(usize),
    /// Boxes wait, and nothing comes any more.
    Stuck,
    /// The simulation has failed.
    Sim(SimError),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterError::Text(error) => error.fmt(f),
            ClusterError::Failed(process, error) => write!(f, "process {process}: {error}"),
            ClusterError::Lost(process) => write!(f, "process {process} was lost while the network ran"),
            ClusterError::Stuck => f.write_str("the boxes of several machines wait for each other"),
            ClusterError::Sim(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClusterError {}

/// Runs a network on a cluster. `watch` is called now and then with the number of invocations, and returns whether to
/// go on.
///
/// # Errors
/// See [`ClusterError`].
pub fn simulate_cluster(
    text: &NetworkText,
    kinds: &Kinds,
    set: &[(String, String)],
    cluster: &Cluster,
    costs: &BoxCosts,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<ClusterOutcome, ClusterError> {
    let counts: Vec<MachineCounts> = cluster.machines.iter().map(|machine| machine.counts).collect();
    let whole = text.build_whole("network", kinds, &counts, set).map_err(ClusterError::Text)?;
    let rows: BTreeMap<u32, CrossingRows> =
        whole.crossings.into_iter().map(|(crossing, rows)| (crossing.number, rows)).collect();
    drop(whole.model);
    let mut losses: Vec<ClusterLoss> = cluster.losses.clone();
    losses.sort_by(|a, b| b.at_ns.total_cmp(&a.at_ns));
    let mut world = World {
        cluster,
        costs,
        chance: cluster.seed.map(Chance::new),
        now: 0,
        agenda: BinaryHeap::new(),
        numbered: 0,
        events: BTreeMap::new(),
        links: Links::new(cluster.machines.len(), cluster.link),
        parts: Vec::new(),
        free_cores: cluster.shared_cores.unwrap_or(usize::MAX),
        attempt: 0,
        invocations: 0,
        busy: 0,
        most_waiting: 0,
    };
    let mut lost = 0;
    loop {
        let begin = world.now;
        world.attempt += 1;
        world.begin(text, kinds, set, &counts, &Arc::new(rows.clone()))?;
        // A loss counts for the attempt that runs at its time.
        while losses.last().is_some_and(|loss| time(loss.at_ns) < begin) {
            losses.pop();
        }
        let next = losses.last().copied();
        match world.run(next, watch)? {
            None => break,
            Some(process) if lost == cluster.retries => return Err(ClusterError::Lost(process)),
            Some(_) => {
                lost += 1;
                losses.pop();
            }
        }
    }
    let threads: usize = counts.iter().map(|counts| counts.threads).sum();
    Ok(ClusterOutcome {
        wall_ns: world.now as f64 / 1000.0,
        losses: lost,
        invocations: world.invocations,
        link_bytes: world.links.bytes,
        link_frames: world.links.frames,
        busy: world.busy as f64 / (world.now.max(1) as f64 * threads as f64),
        most_waiting: world.most_waiting,
        rows: std::mem::take(&mut world.parts[0].kept)
            .into_iter()
            .map(|(name, kept)| (name, std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner))))
            .collect(),
    })
}

/// Picoseconds.
fn time(ns: f64) -> Time {
    (ns * 1000.0).round() as Time
}

enum Event {
    /// An invocation ends.
    Ends { process: usize, begun: SteppedInvocation },
    /// A frame of an attempt arrives.
    Arrives { attempt: u32, frame: Frame },
    /// A process is lost.
    Lost(ClusterLoss),
    /// Another process notices that.
    Noticed { attempt: u32, by: usize, lost: usize },
}

struct World<'a> {
    cluster: &'a Cluster,
    costs: &'a BoxCosts,
    chance: Option<Chance>,
    now: Time,
    agenda: BinaryHeap<Reverse<(Time, u64)>>,
    numbered: u64,
    events: BTreeMap<u64, Event>,
    links: Links,
    /// By process.
    parts: Vec<Part>,
    free_cores: usize,
    attempt: u32,
    invocations: u64,
    busy: Time,
    most_waiting: u64,
}

/// A process's part of a network.
struct Part {
    /// `None` if it has no boxes, and when it is over.
    request: Option<SteppedRequest>,
    ports: Arc<Ports>,
    /// The cost of a row and of a byte, by box.
    costs: Vec<(f64, f64)>,
    /// Boxes to be run, the next one last.
    ready: Vec<Activation>,
    running: usize,
    /// The inputs of the termination box: all of them are ends of crossings if nobody here takes rows.
    ends: usize,
    is_unwanted: bool,
    /// Nobody hears it any more.
    is_gone: bool,
    kept: Vec<(String, Arc<Mutex<Vec<Envelope>>>)>,
}

impl World<'_> {
    fn at(&mut self, time: Time, event: Event) {
        self.agenda.push(Reverse((time, self.numbered)));
        self.events.insert(self.numbered, event);
        self.numbered += 1;
    }

    /// Makes all parts, and starts them.
    fn begin(
        &mut self,
        text: &NetworkText,
        kinds: &Kinds,
        set: &[(String, String)],
        counts: &[MachineCounts],
        rows: &Arc<BTreeMap<u32, CrossingRows>>,
    ) -> Result<(), ClusterError> {
        self.parts.clear();
        self.free_cores = self.cluster.shared_cores.unwrap_or(usize::MAX);
        let mut frames = Vec::new();
        for process in 0..counts.len() {
            let ports = Ports::new(process, self.cluster.window, self.cluster.scale, Arc::clone(rows));
            let border = PortsBorder(Arc::clone(&ports));
            let part = NetworkPart { processes: counts, own: process, border: &border };
            let network = text.build_part("network", kinds, &part, set).map_err(ClusterError::Text)?;
            frames.extend(ports.frames());
            self.parts.push(self.part(network, ports));
        }
        self.send(frames);
        for process in 0..counts.len() {
            self.work(process);
        }
        Ok(())
    }

    fn part(&self, network: Option<Network>, ports: Arc<Ports>) -> Part {
        let mut part = Part {
            request: None,
            ports,
            costs: Vec::new(),
            ready: Vec::new(),
            running: 0,
            ends: 0,
            is_unwanted: false,
            is_gone: false,
            kept: Vec::new(),
        };
        let Some(network) = network else { return part };
        let boxes = network.names.iter().zip(network.model.boxes());
        let costs = boxes.map(|(name, each)| match each.type_name() {
            ports::SEND | ports::RECEIVE => (0.0, self.costs.crossing_byte_ns * self.cluster.scale),
            _ => (self.costs.of(name) * self.cluster.scale, 0.0),
        });
        part.costs = costs.collect();
        part.ends = network.model.boxes().last().map_or(0, |last| last.sources().count());
        let mut operators: Vec<(BoxId, Box<dyn Operator>)> = Vec::new();
        for collected in &network.collected {
            let kept: Arc<Mutex<Vec<Envelope>>> = Arc::default();
            let keeps = Arc::clone(&kept);
            let take = move |envelope: Envelope| {
                keeps.lock().unwrap_or_else(PoisonError::into_inner).push(envelope);
                Ok(())
            };
            operators.push((collected.sink, Box::new(library::sink_operator(take))));
            part.kept.push((collected.name.clone(), kept));
        }
        let (mut request, first) = SteppedRequest::start(&network.model, operators);
        request.allow_pauses();
        if let Some(bytes) = self.cluster.memory_bytes {
            request.set_budget(bytes);
            request.set_overflows(Arc::new(BesideMemory::within(u64::MAX)));
        }
        request.record();
        part.request = Some(request);
        part.ready.push(first);
        part
    }

    fn send(&mut self, frames: Vec<Frame>) {
        for frame in frames {
            let bytes = frame.body.bytes(self.cluster.scale);
            let arrives = self.links.send(self.now, frame.from, frame.to, bytes);
            self.at(arrives, Event::Arrives { attempt: self.attempt, frame });
        }
    }

    /// Has the free threads of a process begin what is ready.
    fn work(&mut self, process: usize) {
        let threads = self.cluster.machines[process].counts.threads;
        loop {
            let part = &mut self.parts[process];
            let Some(request) = &mut part.request else { return };
            for task in request.resumed() {
                part.ready.insert(0, task);
            }
            if part.ready.is_empty() || part.running == threads || self.free_cores == 0 {
                return;
            }
            let last = part.ready.len() - 1;
            let picked = self.chance.as_mut().map_or(last, |chance| chance.below(last as Time + 1) as usize);
            let task = part.ready.remove(picked);
            let index = task.index.index();
            let mut begun = request.begin(task, NodeId::default());
            let (mut rows, mut bytes) = (0, 0);
            for fact in request.facts() {
                match fact {
                    Fact::Received { rows: taken, .. } => rows += taken,
                    Fact::Read { near, far } => bytes += near + far,
                    _ => {}
                }
            }
            let made = begun.made();
            (rows, bytes) = (rows + made.0, bytes + made.1);
            self.invocations += u64::from(begun.acted());
            part.running += 1;
            self.free_cores -= 1;
            let machine = &self.cluster.machines[process];
            let rate = machine.thread_bytes_per_s.min(machine.memory_bytes_per_s / part.running as f64);
            let moved_ns = bytes as f64 * self.cluster.scale * 1e9 / rate;
            let (row_ns, byte_ns) = part.costs[index];
            let worked_ns = self.costs.invocation_ns + rows as f64 * row_ns + bytes as f64 * byte_ns;
            let takes = time(worked_ns.max(moved_ns));
            self.busy += takes;
            self.at(self.now + takes, Event::Ends { process, begun });
        }
    }

    /// Runs until all parts are over. Gives the process that was lost, if one was.
    fn run(
        &mut self,
        loss: Option<ClusterLoss>,
        watch: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<usize>, ClusterError> {
        /// Events between two calls of `watch`.
        const WATCHED: u64 = 4096;
        if let Some(loss) = loss {
            self.at(time(loss.at_ns).max(self.now), Event::Lost(loss));
        }
        for process in 0..self.parts.len() {
            self.settle(process)?;
        }
        let mut steps = 0;
        while self.parts.iter().any(|part| part.request.is_some()) {
            steps += 1;
            if steps % WATCHED == 0 && !watch(self.invocations) {
                return Err(ClusterError::Sim(SimError::Cancelled));
            }
            let Some(Reverse((now, number))) = self.agenda.pop() else { return Err(ClusterError::Stuck) };
            let event = self.events.remove(&number).expect("an event is there until its time");
            // A loss in the future of a network that is done does not delay its end.
            self.now = now;
            match event {
                Event::Ends { process, begun } => {
                    self.ends(process, begun);
                    self.work(process);
                    self.settle(process)?;
                    if self.cluster.shared_cores.is_some() {
                        (0..self.parts.len()).for_each(|other| self.work(other));
                    }
                }
                Event::Arrives { attempt, frame } => {
                    // What an older attempt has sent is refused, and a lost process is not heard.
                    if attempt != self.attempt || self.parts[frame.from].is_gone {
                        continue;
                    }
                    let process = frame.to;
                    self.parts[process].ports.take(frame.crossing, frame.body);
                    let waiting = self.parts[process].ports.waiting_bytes();
                    self.most_waiting = self.most_waiting.max(waiting);
                    self.work(process);
                    self.settle(process)?;
                }
                Event::Lost(loss) => {
                    self.parts[loss.process].is_gone = true;
                    let after = if loss.is_silent { self.cluster.silence_ns } else { self.cluster.link.latency_ns };
                    for by in (0..self.parts.len()).filter(|by| *by != loss.process) {
                        let chance = self.chance.as_mut().map_or(0, |chance| chance.below(1 + time(after) / 4));
                        let noticed = Event::Noticed { attempt: self.attempt, by, lost: loss.process };
                        self.at(self.now + time(after) + chance, noticed);
                    }
                }
                Event::Noticed { attempt, by, lost } if attempt == self.attempt => {
                    if by == 0 {
                        self.cancel();
                        return Ok(Some(lost));
                    }
                    self.parts[by].ports.lose(lost);
                    self.work(by);
                    self.settle(by)?;
                }
                Event::Noticed { .. } => {}
            }
        }
        // What is still on its way, such as a loss that is yet to come, belongs to no network.
        self.agenda.clear();
        self.events.clear();
        Ok(None)
    }

    /// An invocation ends: its envelopes are sent, and its frames.
    fn ends(&mut self, process: usize, begun: SteppedInvocation) {
        self.free_cores = self.free_cores.saturating_add(1);
        let part = &mut self.parts[process];
        part.running -= 1;
        if let Some(request) = &mut part.request {
            for task in request.finish(begun, NodeId::default()) {
                let place = if task.kind == Kind::Deferred { 0 } else { part.ready.len() };
                part.ready.insert(place, task);
            }
            request.facts().for_each(drop);
        }
        let frames = part.ports.frames();
        self.send(frames);
    }

    /// Ends a part that has nothing left to do, and one of which nobody wants anything.
    fn settle(&mut self, process: usize) -> Result<(), ClusterError> {
        let part = &mut self.parts[process];
        let Some(request) = &part.request else { return Ok(()) };
        if !part.is_unwanted && part.ends > 0 && part.ports.is_unwanted(part.ends) {
            part.is_unwanted = true;
            request.fail(FlowError::Cancelled);
            part.ports.let_go();
            self.work(process);
        }
        let part = &mut self.parts[process];
        if !part.ready.is_empty() || part.running > 0 || (part.ports.paused() > 0 && !part.is_unwanted) {
            return Ok(());
        }
        let request = part.request.take().expect("it was there");
        let (result, _) = request.settle();
        let (is_unwanted, is_gone) = (part.is_unwanted, part.is_gone);
        // The boxes are gone, and with them their ends.
        let frames = part.ports.frames();
        self.send(frames);
        match result {
            Ok(_) => Ok(()),
            Err(FlowError::Cancelled) if is_unwanted => Ok(()),
            Err(_) if is_gone => Ok(()),
            // A consequence: the process that began the network notices the loss itself.
            Err(FlowError::Failed { error, .. }) if error.is::<ProcessLost>() => Ok(()),
            Err(error) => Err(ClusterError::Failed(process, error)),
        }
    }

    /// Ends all parts of an attempt.
    fn cancel(&mut self) {
        // Invocations under way end in their parts; frames on their way have the number of an old attempt.
        let under_way = std::mem::take(&mut self.events);
        self.agenda.clear();
        for part in &self.parts {
            if let Some(request) = &part.request {
                request.fail(FlowError::Cancelled);
            }
            part.ports.let_go();
        }
        for event in under_way.into_values() {
            match event {
                Event::Ends { process, begun } => self.ends(process, begun),
                Event::Arrives { .. } | Event::Lost(_) | Event::Noticed { .. } => {}
            }
        }
        for part in &mut self.parts {
            let Some(request) = &mut part.request else { continue };
            part.ready.extend(request.resumed());
            while let Some(task) = part.ready.pop() {
                let begun = request.begin(task, NodeId::default());
                part.ready.extend(request.finish(begun, NodeId::default()));
                part.ready.extend(request.resumed());
            }
            let request = part.request.take().expect("it was there");
            let _ = request.settle();
        }
        // The old attempt's frames and ends.
        self.agenda.clear();
        self.events.clear();
    }
}
