//! The runtime: threads on seats, and requests that users submit to them.

pub(crate) mod boxes;
pub(crate) mod caller;
mod fit;
pub(crate) mod here;
pub(crate) mod last_words;
pub(crate) mod lending;
pub(crate) mod load;
mod near;
pub(crate) mod recorder;
pub(crate) mod request;
mod roaming;
pub(crate) mod takes;
pub(crate) mod worker;

use crate::defaults::{Defaults, OnDeadlock, said};
use crate::memory::heaps;
use crate::queues::SharedQueues;
use crate::queues::inbox::Inbox;
use crate::queues::sleep::{Barrier, SleepPool};
use crate::runtime::caller::{Callers, LONG};
use crate::runtime::fit::{assert_fits, pus_of};
use crate::runtime::last_words::count_refusable_calls;
use crate::runtime::lending::Lent;
use crate::runtime::recorder::Recording;
use crate::runtime::request::{Request, RequestState};
use crate::runtime::takes::Level;
use crate::runtime::worker::Worker;
use crate::sync::Padded;
use crate::sync::gate::Gate;
use crate::tasks::{self, Accounts, Blocks, GroupQueues, Nested, OpenRequests, Requests, Stopped, Waits};
use crate::team::Gathering;
use crate::threads::Threads;
use std::alloc::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use vicus_flow::{Account, BoxId, Entry, FlowError, Instance, Model, Operator, Queued, Totals};
use vicus_memory::distribution::{Distribution, Policy};
use vicus_memory::{Memory, MemoryOptions, PlaceError, Placed};
use vicus_os::{discover, latency, pages, pin};
use vicus_schedule::{
    DEFAULT, Decision, Kind, LastUses, MOST_THREADS, Plan, PoolId, QueueId, QueueSpec, RequestId, SeatId, Setting,
    TaskRef, Wake,
};
use vicus_topology::{Place, Topology};

/// Settings of a [`Runtime`], or of a door's wrapper around one.
pub struct RuntimeBuilder<R = Runtime> {
    pub(crate) chosen: Chosen,
    starts: PhantomData<fn() -> R>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Chosen {
    topology: Option<Topology>,
    threads: Option<usize>,
    /// The processors chosen for the threads; empty if none are chosen.
    processors: Vec<u32>,
    strategy: Option<Setting>,
    plan: Option<Plan>,
    memory: Option<MemoryOptions>,
    events: Option<usize>,
    counts_takes: bool,
    decides: bool,
    quiet: bool,
    distribution: Option<Distribution>,
    caller_works: Option<Duration>,
    pub(crate) on_deadlock: Option<OnDeadlock>,
    pub(crate) waits_have_backtraces: bool,
    head_start: Duration,
    without_turns: bool,
    pub(crate) members_spin: Duration,
    defaults: Defaults,
}

impl<R: From<Runtime>> RuntimeBuilder<R> {
    /// A builder with these defaults. For doors: each has its own builder type.
    pub fn new(defaults: Defaults) -> RuntimeBuilder<R> {
        RuntimeBuilder { chosen: Chosen { defaults, ..Chosen::default() }, starts: PhantomData }
    }

    /// Defaults for the settings without a call of their own.
    pub fn defaults(mut self, defaults: Defaults) -> Self {
        self.chosen.defaults = defaults;
        self
    }

    /// The machine to run on; by default the part of this one that the process may use.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.chosen.topology = Some(topology);
        self
    }

    /// Number of threads, at least one; by default one for each PU in the process's affinity mask, fewer under a CPU
    /// quota.
    pub fn threads(mut self, threads: usize) -> Self {
        self.chosen.threads = Some(threads);
        self
    }

    /// Puts one thread on each of these processors, by the operating system's numbers and in this order; a processor
    /// may be repeated. If the machine lacks one of them, the runtime starts as many threads in their default places
    /// and warns.
    ///
    /// ```
    /// use vicus_machine::Runtime;
    /// let builder = Runtime::builder().topology(vicus_topology::Topology::parse("core:4").unwrap());
    /// let team = builder.processors([3, 1, 3]).team()?;
    /// assert_eq!(team.plan().seats[..3].iter().map(|seat| seat.pu.index()).collect::<Vec<_>>(), [3, 1, 3]);
    /// # Ok::<(), vicus_machine::StartError>(())
    /// ```
    pub fn processors(mut self, processors: impl Into<Vec<u32>>) -> Self {
        self.chosen.processors = processors.into();
        if !self.chosen.processors.is_empty() {
            self.chosen.threads = Some(self.chosen.processors.len());
        }
        self
    }

    /// The strategy; by default that of [`Defaults`], else [`vicus_schedule::DEFAULT`].
    ///
    /// A strategy that deals tasks by latencies (`vicinity`) has them measured on a machine with several core groups,
    /// unless the file in [`Defaults::latencies`] has them already.
    pub fn strategy(mut self, strategy: Setting) -> Self {
        self.chosen.strategy = Some(strategy);
        self
    }

    /// A plan made or changed by the program. It overrides strategy and threads: the number of threads follows from its
    /// seats.
    ///
    /// ```
    /// use vicus_machine::Runtime;
    ///
    /// let builder = Runtime::builder().threads(2).strategy("steal".parse()?);
    /// let mut plan = builder.planned();
    /// plan.seats.iter_mut().for_each(|seat| seat.affinity.clear()); // threads run where the system likes
    /// let runtime = Runtime::builder().plan(plan).start();
    /// assert_eq!((runtime.plan().threads(), runtime.run(|| 6 * 7)), (2, 42));
    /// # Ok::<(), vicus_schedule::SettingError>(())
    /// ```
    ///
    /// # Panics
    /// When the runtime starts: if the plan breaks a rule ([`Plan::assert_valid`]), or names a PU or a node missing on
    /// the machine.
    pub fn plan(mut self, plan: Plan) -> Self {
        self.chosen.plan = Some(plan);
        self
    }

    /// How the process's memory is cut, placed and kept: the variants of Falt et al., "Locality Aware Task Scheduling
    /// in Parallel Data Stream Processing", §5, and ours. By default their sizes and our mailboxes, with as much kept
    /// for reuse as suits the machine.
    ///
    /// A process has one memory, installed by its first runtime. A later runtime with other options uses the existing
    /// one, and warns ([`Runtime::warnings`]).
    ///
    /// ```
    /// use vicus_machine::Runtime;
    /// use vicus_memory::{Foreign, MemoryOptions};
    ///
    /// let bins = MemoryOptions { foreign: Foreign::Bins, touch_ahead: true, ..Runtime::builder().memory_options() };
    /// let runtime = Runtime::builder().threads(1).memory(bins.clone()).start();
    /// assert_eq!(runtime.memory().expect("there are addresses").options().foreign, Foreign::Bins);
    /// let second = Runtime::builder().threads(1).quiet().start();
    /// assert!(second.warnings().iter().all(|warning| !warning.contains("memory already")));
    /// ```
    pub fn memory(mut self, options: MemoryOptions) -> Self {
        self.chosen.memory = Some(options);
        self
    }

    /// The default of [`RuntimeBuilder::memory`] on this builder's machine.
    pub fn memory_options(&self) -> MemoryOptions {
        let Chosen { topology, memory, defaults, .. } = &self.chosen;
        let topology = topology.clone().unwrap_or_else(|| vicus_os::this_machine().topology);
        memory.clone().unwrap_or_else(|| heaps::options(&topology, defaults, &mut Vec::new()))
    }

    /// Records a trace of at most this number of events for each seat; see [`Runtime::trace`].
    ///
    /// Events belong to seats. A caller running its own request ([`Runtime::submit_here`]) sits on none. While a
    /// runtime records, such requests therefore go to the seats at once: a trace shows all requests, and short ones as
    /// they run when their caller does not run them.
    pub fn record(mut self, events_per_seat: usize) -> Self {
        self.chosen.events = Some(events_per_seat);
        self
    }

    /// Counts the taken tasks; see [`Runtime::takes`]. Each take then costs some nanoseconds more.
    pub fn count_takes(mut self) -> Self {
        self.chosen.counts_takes = true;
        self
    }

    /// Requests have no turns ([`TURN_NS`](vicus_schedule::TURN_NS)): tasks go as the strategy says and at no other
    /// time. Beside a long request others may wait for its end. For comparisons of strategies, and of decisions with
    /// those of worlds/sim.
    pub fn without_turns(mut self) -> Self {
        self.chosen.without_turns = true;
        self
    }

    /// Writes down the decisions of its seats; see [`Runtime::recorded`]. The buffers grow as needed.
    pub fn write_decisions(mut self) -> Self {
        self.chosen.decides = true;
        self
    }

    /// Keeps warnings, such as a thread that could not be pinned, off standard error; [`Runtime::warnings`] still has
    /// them. Without this, a process prints each warning once, however many runtimes it starts.
    pub fn quiet(mut self) -> Self {
        self.chosen.quiet = true;
        self
    }

    /// Placement of memory allocated from the runtime without a distribution of its own. By default it follows the
    /// [`Defaults`] of the process's first runtime, else [`Distribution::Standard`].
    pub fn distribution(mut self, distribution: Distribution) -> Self {
        self.chosen.distribution = Some(distribution);
        self
    }

    /// How long the caller of [`Runtime::submit_here`] works on its request before the runtime's threads do; by default
    /// a millisecond.
    pub fn caller_works(mut self, long: Duration) -> Self {
        self.chosen.caller_works = Some(long);
        self
    }

    /// Gives young requests priority, under any strategy: until the invocations of its boxes have used this time,
    /// summed over all seats, a request of boxes goes before the older ones. By default there is no such time, and
    /// requests go in the strategy's order.
    ///
    /// A request below this time stays short beside long ones: it waits for at most one invocation of theirs. A request
    /// that runs alone is not affected. Long requests keep a share even under an endless row of short ones
    /// ([`vicus_schedule::FRONT_TURN_NS`]).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let builder = vicus_machine::Runtime::builder().threads(2).head_start(Duration::from_millis(20));
    /// assert!(builder.start().plan().front.is_some());
    /// ```
    pub fn head_start(mut self, long: Duration) -> Self {
        self.chosen.head_start = long;
        self
    }

    /// Starts the threads. Features that the machine does not allow are left out, with a warning once on standard
    /// error. Panics if the system gives too few threads; [`RuntimeBuilder::try_start`] returns an error instead.
    pub fn start(self) -> R {
        self.try_start().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`RuntimeBuilder::start`], for programs that can go on with fewer threads.
    ///
    /// # Errors
    /// The system gives no more threads, and the threads started so far have ended; or the number exceeds
    /// [`vicus_schedule::MOST_THREADS`].
    pub fn try_start(self) -> Result<R, StartError> {
        self.chosen.try_start().map(R::from)
    }

    /// The state shared by a team's members.
    pub(crate) fn shared(&self) -> Result<Arc<Shared>, StartError> {
        self.chosen.shared(true)
    }

    /// The plan for its threads, without any thread. Latencies are measured if they are needed and unknown.
    ///
    /// ```
    /// let builder = vicus_machine::Runtime::builder().threads(2);
    /// assert_eq!(&builder.planned(), builder.clone().start().plan());
    /// ```
    pub fn planned(&self) -> Plan {
        self.chosen.find_plan(false, &mut Vec::new()).1
    }
}

impl<R> Clone for RuntimeBuilder<R> {
    fn clone(&self) -> RuntimeBuilder<R> {
        RuntimeBuilder { chosen: self.chosen.clone(), starts: PhantomData }
    }
}

impl<R> fmt::Debug for RuntimeBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.chosen, f)
    }
}

impl Chosen {
    /// The state shared by all threads, without any thread. `team`: of a team.
    fn shared(&self, team: bool) -> Result<Arc<Shared>, StartError> {
        let mut warnings = Vec::new();
        if let Some(threads) = self.threads.filter(|&threads| threads > MOST_THREADS) {
            let error = std::io::Error::new(ErrorKind::InvalidInput, format!("at most {MOST_THREADS} are planned for"));
            return Err(StartError { started: 0, threads, error });
        }
        let (topology, plan) = self.find_plan(team, &mut warnings);
        count_refusable_calls();
        let memory = heaps::memory_for(&topology, self.memory.clone(), &self.defaults, &mut warnings);
        let on_deadlock =
            self.on_deadlock.or_else(|| said(&self.defaults.deadlock, "; it is reported now", &mut warnings));
        let barrier = Barrier::new();
        if !barrier.is_expedited() {
            warnings.push("the kernel refuses membarrier: a spawn may wake a sleeper late".to_owned());
        }
        let spares_of = |pool: &vicus_schedule::Pool| {
            let spare = |seat: &&SeatId| plan.seats[seat.index()].spare;
            Mutex::new(pool.seats.iter().filter(spare).copied().collect())
        };
        let spares = plan.pools.iter().map(spares_of).collect();
        let shared = Arc::new_cyclic(|weak: &Weak<Shared>| Shared {
            entry: entry(weak.clone()),
            queues: SharedQueues::new(&plan),
            pools: plan.pools.iter().map(|pool| SleepPool::new(pool.seats.len())).collect(),
            blocks: Blocks::new(plan.seats.len()),
            for_waiting: plan.for_waiting(),
            group_queues: GroupQueues::new(&plan, &topology),
            last_uses: plan.warm.as_ref().map(LastUses::new),
            inboxes: plan.seats.iter().map(|_| Padded(Inbox::default())).collect(),
            threads_here: Threads::new(plan.seats.len(), on_deadlock.unwrap_or_default(), self.waits_have_backtraces),
            spares,
            lent: plan.seats.iter().map(|_| Lent::default()).collect(),
            recording: (self.events.is_some() || self.counts_takes || self.decides)
                .then(|| Recording::new(self.events, self.decides, team, &plan, &topology)),
            roaming: crate::runtime::roaming::Roaming::of(&plan, &topology),
            topology,
            memory,
            distribution: self.distribution.clone(),
            yields: if team { TEAM_YIELDS } else { 0 },
            least_spin: if team { self.members_spin } else { Duration::ZERO },
            gathering: Gathering::new(plan.threads()),
            plan,
            barrier,
            closing: AtomicBool::new(false),
            sweeps: AtomicU64::new(0),
            next_request: AtomicU64::new(1),
            next_entry: AtomicUsize::new(0),
            callers: Callers::default(),
            caller_works: self.caller_works.unwrap_or(LONG),
            has_turns: !self.without_turns,
            head_start_ns: u64::try_from(self.head_start.as_nanos()).unwrap_or(u64::MAX),
            requests: Mutex::new(BTreeMap::new()),
            alone: Padded(AtomicU64::new(NO_REQUEST)),
            requests_of_tasks: Requests::default(),
            open: OpenRequests::default(),
            stopped: Stopped::default(),
            accounts: Accounts::default(),
            nested: Nested::default(),
            waits: Waits::default(),
            threads: Mutex::new(Vec::new()),
            warnings: Mutex::new(warnings),
        });
        let seats: Weak<dyn heaps::Seats> = Arc::<Shared>::downgrade(&shared);
        heaps::register(seats);
        Ok(shared)
    }

    fn try_start(self) -> Result<Runtime, StartError> {
        self.try_start_but(false)
    }

    /// `leaves_first`: no thread for the first seat that is not spare.
    pub(crate) fn try_start_but(self, leaves_first: bool) -> Result<Runtime, StartError> {
        let shared = self.shared(false)?;
        let threads = shared.plan.threads();
        let left_out = shared.first_seat().filter(|_| leaves_first);
        // If a thread can't start, dropping this ends the threads started so far.
        let runtime = Runtime { shared: Arc::clone(&shared) };
        let gate = Arc::new(Gate::default());
        let mut started = 0;
        for seat in (0..shared.plan.seats.len()).map(SeatId::new) {
            if !shared.plan.seats[seat.index()].spare && Some(seat) != left_out {
                let theirs = Arc::clone(&gate);
                let spawned = shared.thread(seat, move |shared| {
                    let mut worker = Worker::new(Arc::clone(&shared), seat);
                    theirs.pass();
                    worker.work(|| !shared.closing.load(Ordering::Acquire));
                    worker.hand_in();
                });
                if let Err(error) = spawned {
                    gate.open_for(started);
                    return Err(StartError { started, threads, error });
                }
                started += 1;
            }
        }
        gate.open_for(started);
        if !self.quiet {
            warn_once(runtime.warnings());
        }
        Ok(runtime)
    }

    fn find_plan(&self, team: bool, warnings: &mut Vec<String>) -> (Topology, Plan) {
        let (topology, plan) = self.find_plan_of_strategy(team, warnings);
        (topology, if self.head_start.is_zero() { plan } else { plan.with_front() })
    }

    fn find_plan_of_strategy(&self, team: bool, warnings: &mut Vec<String>) -> (Topology, Plan) {
        let is_found = self.topology.is_none();
        let topology = self.topology.clone().unwrap_or_else(|| {
            // A program has many teams: one of each size, for each thread that enters a region.
            let found = if team { discover::known_machine() } else { vicus_os::this_machine() };
            warnings.extend(found.warnings);
            found.topology
        });
        if let Some(plan) = &self.plan {
            plan.assert_valid();
            assert_fits(plan, &topology);
            return (topology, plan.clone());
        }
        let strategy = self.strategy.clone().or_else(|| said(&self.defaults.strategy, "; it is vicus now", warnings));
        let strategy = strategy.unwrap_or_else(|| DEFAULT.parse().expect("the default strategy exists"));
        // Latencies can only be measured on this machine, not on a described one.
        let is_this = || is_found || vicus_os::this_machine().topology == topology;
        let wants_latencies =
            strategy.strategy().wants_latencies(&topology) && topology.core_groups.len() > 1 && is_this();
        let kept = self.defaults.latencies.as_ref();
        let latencies = if wants_latencies { latency::of_this_machine(&topology, kept, warnings) } else { None };
        let threads = self.threads.unwrap_or_else(|| topology.default_threads()).max(1);
        let chosen = Some(&self.processors).filter(|all| all.len() == threads);
        let pus = chosen.and_then(|all| pus_of(all, &topology, warnings)).unwrap_or_else(|| topology.seat_pus(threads));
        let plan = strategy.plan_on(&topology, &pus, latencies.as_ref());
        warnings.extend(plan.idle_warning());
        (topology, plan)
    }
}

/// Prints the warnings not printed before.
fn warn_once(warnings: Vec<String>) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut printed = PRINTED.lock().expect("nothing panics under this lock");
    for warning in warnings {
        if printed.insert(warning.clone()) {
            // A failing standard error is no reason to end.
            let _ = writeln!(std::io::stderr(), "vicus: warning: {warning}");
        }
    }
}

/// Why a runtime has not started: the system gave no more threads, or they are more than
/// [`vicus_schedule::MOST_THREADS`].
///
/// ```
/// use std::error::Error;
/// use vicus_schedule::MOST_THREADS;
///
/// let error = vicus_machine::Runtime::builder().threads(MOST_THREADS + 1).try_start().err().unwrap();
/// assert!(error.to_string().ends_with(&format!("at most {MOST_THREADS} are planned for")));
/// // What prints an error with its causes has told this one then, and told it twice when it was a cause as well.
/// assert!(error.source().is_none());
/// ```
#[derive(Debug)]
pub struct StartError {
    /// How many it had given.
    pub started: usize,
    /// How many were wanted.
    pub threads: usize,
    /// The system's error.
    pub error: std::io::Error,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StartError { started, threads, error } = self;
        write!(f, "only {started} of {threads} threads could be started: {error}")
    }
}

// Without a source: the message above already has the system's error.
impl std::error::Error for StartError {}

/// A runtime's entry for boxes resumed from outside. When the runtime has ended, no box is paused any more.
fn entry(shared: Weak<Shared>) -> Entry {
    Arc::new(move |queued| {
        if let Some(shared) = shared.upgrade() {
            shared.enter(queued);
        }
    })
}

/// Limit of a thread's stack; a page is taken on its first touch. A waiting task runs others on top of itself.
pub(crate) const STACK_BYTES: usize = 16 << 20;

/// Memory for a starting thread beside its stack, with room for other threads starting at the same time. The standard
/// library ends the process if a thread gets no stack for signals. The C library ends it if it can't note a destructor
/// of a thread variable: its allocator maps a MiB for that when its heap can't grow. Both may fail even if the thread's
/// own stack is available.
const BESIDE_STACK: usize = 4 << 20;

/// The state shared by all threads of a runtime.
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) queues: SharedQueues,
    pub(crate) pools: Vec<SleepPool>,
    /// Memory for tasks.
    pub(crate) blocks: Blocks,
    /// The current place of each thread, if threads are not bound.
    pub(crate) roaming: Option<crate::runtime::roaming::Roaming>,
    /// By queue: [`Plan::for_waiting`].
    for_waiting: Vec<bool>,
    pub(crate) group_queues: GroupQueues,
    /// The last pool to use each piece of data, if the plan asks for that.
    pub(crate) last_uses: Option<LastUses>,
    /// By seat.
    inboxes: Box<[Padded<Inbox>]>,
    /// Its lightweight threads.
    pub(crate) threads_here: Threads,
    pub(crate) barrier: Barrier,
    pub(crate) recording: Option<Recording>,
    /// Grows when a request was stopped: each seat then looks through its own queue.
    pub(crate) sweeps: AtomicU64,
    topology: Topology,
    /// `None` if the system gave no addresses.
    memory: Option<Arc<Memory>>,
    distribution: Option<Distribution>,
    /// Spare seats without a thread, by pool.
    pub(crate) spares: Vec<Mutex<Vec<SeatId>>>,
    /// By seat; used for spare ones.
    pub(crate) lent: Vec<Lent>,
    pub(crate) closing: AtomicBool,
    pub(crate) next_request: AtomicU64,
    next_entry: AtomicUsize,
    pub(crate) callers: Callers,
    pub(crate) caller_works: Duration,
    head_start_ns: u64,
    /// Whether requests take turns.
    pub(crate) has_turns: bool,
    requests: Mutex<BTreeMap<RequestId, Arc<RequestState>>>,
    /// The id of the only one of these; [`NO_REQUEST`] if there are none or several. Changed under their lock.
    alone: Padded<AtomicU64>,
    /// Requests that are closures.
    pub(crate) requests_of_tasks: Requests,
    pub(crate) open: OpenRequests,
    /// Requests of both kinds.
    pub(crate) stopped: Stopped,
    pub(crate) accounts: Accounts,
    /// Requests submitted by this runtime's requests.
    pub(crate) nested: Nested,
    /// Requests of this runtime waiting for others.
    pub(crate) waits: Waits,
    /// For a team: how often a waiting member lets others run before it sleeps.
    pub(crate) yields: u32,
    /// Least time a waiting thread looks around before it yields or sleeps, whatever its strategy says.
    pub(crate) least_spin: Duration,
    /// For a team: the meeting point of its members.
    pub(crate) gathering: Gathering,
    /// Entry for boxes resumed from outside.
    pub(crate) entry: Entry,
    threads: Mutex<Vec<JoinHandle<()>>>,
    warnings: Mutex<Vec<String>>,
}

impl heaps::Seats for Shared {
    fn is_closing(&self) -> bool {
        Shared::is_closing(self)
    }

    fn wake_any(&self) -> bool {
        (0..self.pools.len()).any(|pool| self.wake_pool(PoolId::new(pool)))
    }
}

/// More than five change nothing: by then, each ready thread of the PU has had its turn. With two threads on each PU, a
/// barrier takes 1.9 µs instead of 25, with eight 11 instead of 150.
const TEAM_YIELDS: u32 = 10;

/// No request has this id.
const NO_REQUEST: u64 = u64::MAX;

impl Shared {
    pub(crate) fn thread(
        self: &Arc<Self>,
        seat: SeatId,
        body: impl FnOnce(Arc<Shared>) + Send + 'static,
    ) -> std::io::Result<()> {
        let shared = Arc::clone(self);
        let name = format!("vicus {}", seat.index());
        pages::ensure_room(STACK_BYTES + BESIDE_STACK)?;
        let thread = std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || {
            let affinity = &shared.plan.seats[seat.index()].affinity;
            if !affinity.is_empty()
                && let Err(error) = pin::pin(affinity.iter().map(|pu| shared.topology.pus[pu.index()].os_index))
            {
                let text = format!("threads are not pinned ({error}): tasks may run far from their data");
                let mut warnings = shared.warnings.lock().expect("nothing panics under this lock");
                if !warnings.contains(&text) {
                    warnings.push(text);
                }
            }
            if let Some(process) = heaps::process() {
                // If the thread may run on several nodes, the node of its seat says nothing about its place.
                let mut nodes = affinity.iter().map(|pu| shared.topology.pus[pu.index()].node);
                let stays = nodes.next().filter(|&first| nodes.all(|node| node == first));
                heaps::sit(process, stays.map(|node| shared.topology.nodes[node.index()].os_index));
            }
            body(shared);
        })?;
        self.threads.lock().expect("nothing panics under this lock").push(thread);
        Ok(())
    }

    /// Builds a request that is yet to start.
    pub(crate) fn new_request(
        &self,
        model: &Arc<Model>,
        operators: Vec<(BoxId, Box<dyn Operator>)>,
        (account, is_timed): (Option<Arc<Account>>, bool),
    ) -> Arc<RequestState> {
        let id = RequestId(self.next_request.fetch_add(1, Ordering::Relaxed));
        let instance = Instance::new(model, id, self.plan.seats.len(), &boxes::BOX, operators);
        instance.set_account(account);
        instance.set_head_start(self.head_start_ns);
        if is_timed {
            instance.set_timed();
        }
        Arc::new(RequestState::new(instance))
    }

    /// Registers the request: it ends with the runtime, and the ending thread finds it. Call this before a seat can
    /// have a task of it. A second call has no effect, also after the request's end.
    pub(crate) fn keep(&self, state: &Arc<RequestState>) {
        // Relaxed: the flag changes under the lock, and a thread gets a task of the request only after that.
        if state.is_known.load(Ordering::Relaxed) {
            return;
        }
        self.change_requests(|requests| {
            if !state.is_known.swap(true, Ordering::Relaxed) {
                requests.insert(state.instance.id(), Arc::clone(state));
                self.open_request(state.instance.id());
            }
        });
    }

    /// Resumes a box, on a thread that may sit on no seat.
    fn enter(&self, queued: Queued) {
        if let Some(recording) = &self.recording {
            recording.resumed(queued.instance(), queued.index());
        }
        self.put_at_entry(queued);
    }

    /// The request, if it is of boxes and not over.
    pub(crate) fn boxes_of(&self, request: RequestId) -> Option<Arc<RequestState>> {
        self.requests.lock().expect("nothing panics under this lock").get(&request).cloned()
    }

    fn change_requests<R>(&self, change: impl FnOnce(&mut BTreeMap<RequestId, Arc<RequestState>>) -> R) -> R {
        let mut requests = self.requests.lock().expect("nothing panics under this lock");
        let result = change(&mut requests);
        let alone = requests.first_key_value().filter(|_| requests.len() == 1).map_or(NO_REQUEST, |(id, _)| id.0);
        // Relaxed: it only influences the seats chosen for boxes.
        self.alone.0.store(alone, Ordering::Relaxed);
        result
    }

    /// The account for the memory held by a request's tasks; `None` if it has no budget.
    pub(crate) fn account_of(&self, id: RequestId) -> Option<Arc<Account>> {
        let requests = self.requests.lock().expect("nothing panics under this lock");
        match requests.get(&id) {
            Some(state) => state.instance.account().cloned(),
            None => self.accounts.of(id),
        }
    }

    /// Whether boxes run for no other request.
    #[inline]
    pub(crate) fn is_alone(&self, id: RequestId) -> bool {
        self.alone.0.load(Ordering::Relaxed) == id.0
    }

    /// One entry after the other, so that independent requests start in different neighbourhoods.
    fn next_of(&self, entries: &[QueueId]) -> QueueId {
        entries[self.next_entry.fetch_add(1, Ordering::Relaxed) % entries.len()]
    }

    /// Puts a caller's task into an entry queue, and wakes one thread for it.
    pub(crate) fn put_into_entry(&self, queue: QueueId, task: TaskRef) {
        let request = task.header().request;
        // It has no capacity, but a longer queue may need memory.
        self.queues.push(queue, task).unwrap_or_else(|_| panic!("there is no memory for a longer queue of tasks"));
        self.wake_for(queue, Some(request), true);
    }

    /// Like [`Shared::put_into_entry`], into the front or the next entry in turn.
    pub(crate) fn put_at_entry(&self, queued: Queued) {
        let queue = self.front_for(queued.instance()).unwrap_or_else(|| self.next_of(&self.plan.entry));
        self.put_into_entry(queue, queued.into_task());
    }

    /// Like [`Shared::put_into_entry`], into the next entry in turn, for a plain task.
    pub(crate) fn put_task_at_entry(&self, task: TaskRef) {
        self.put_into_entry(self.next_of(&self.plan.entry), task);
    }

    /// The front, if boxes of this request are to go before those of others.
    #[inline]
    pub(crate) fn front_for(&self, instance: &Instance) -> Option<QueueId> {
        self.plan.front.filter(|_| instance.has_head_start() && !self.is_alone(instance.id()))
    }

    /// Wakes one thread for a push, near pools first; if none of their threads sleeps, one of the robbers of a long
    /// queue. `request` is the task's: a seat waiting for tasks of this request may be woken, too; with `None`, only
    /// free seats. `must`: perhaps no awake thread will find the task, so a thread falling asleep at this moment must
    /// not be missed (see `sleep`).
    #[inline]
    pub(crate) fn wake_for(&self, queue: QueueId, request: Option<RequestId>, must: bool) -> Option<PoolId> {
        self.barrier.before_look(must);
        let QueueSpec { wake, robbers, .. } = &self.plan.queues[queue.index()];
        let has_sleepers = |pool: PoolId| self.pools[pool.index()].has_sleepers();
        // Fast path: usually no thread sleeps, and then the reason for a wake does not matter.
        if wake.iter().any(|&pool| has_sleepers(pool)) || robbers.iter().any(|robber| has_sleepers(robber.pool)) {
            self.wake(Wake { queue, request, while_waiting: self.for_waiting[queue.index()] })
        } else {
            None
        }
    }

    /// Wakes one thread for a task, after [`Barrier::before_look`].
    #[cold]
    fn wake(&self, wake: Wake) -> Option<PoolId> {
        let length = || self.queues.len(wake.queue);
        self.plan.wake_one(wake.queue, length, |pool| self.pools[pool.index()].wake_one(wake))
    }

    /// Passes a wake on to another seat: the woken seat has other work.
    pub(crate) fn pass_on(&self, wake: Wake) {
        self.barrier.before_look(true);
        self.wake(wake);
    }

    /// Makes all seats check their wait conditions.
    pub(crate) fn ask_all(&self) {
        self.pools.iter().for_each(SleepPool::ask_all);
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().expect("nothing panics under this lock").clone()
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Whether its threads are about to end, or have.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Makes a sleeping seat check its wait condition and its inbox.
    pub(crate) fn ask(&self, seat: SeatId) {
        let pool = self.plan.seats[seat.index()].pool;
        self.pools[pool.index()].ask(self.slot_of(seat));
    }

    /// A seat's place among those of its pool.
    pub(crate) fn slot_of(&self, seat: SeatId) -> usize {
        let pool = self.plan.seats[seat.index()].pool;
        let slot = self.plan.pools[pool.index()].seats.iter().position(|&other| other == seat);
        slot.expect("a seat is in its pool")
    }

    /// The queue of the tasks reserved for this seat.
    #[inline]
    pub(crate) fn inbox(&self, seat: SeatId) -> &Inbox {
        &self.inboxes[seat.index()].0
    }

    /// A seat is to run this task, and no other may.
    pub(crate) fn call(&self, seat: SeatId, task: TaskRef) {
        self.inbox(seat).put(task);
        let pool = self.plan.seats[seat.index()].pool;
        self.pools[pool.index()].ask_if_announced(self.slot_of(seat), &self.barrier);
    }

    /// If the request has failed or was cancelled, stops its tasks: queued tasks of its boxes no longer begin, and
    /// running ones are told. A request that ended without failure still has boxes cleaning up, and their tasks run.
    pub(crate) fn stop_tasks(&self, instance: &Instance) {
        if instance.has_failed() {
            let requests = self.requests.lock().expect("nothing panics under this lock");
            if requests.contains_key(&instance.id()) {
                self.stopped.add(instance.id());
            }
        }
    }

    /// Takes the boxes of a stopped request out of all queues, except those due after its end: at once out of the
    /// locked queues, soon out of the seats' own. Stops the tasks of running boxes, and the requests submitted by them.
    pub(crate) fn sweep(&self, instance: &Instance, seat: Option<usize>) {
        self.sweep_boxes(instance, seat);
        if instance.has_failed() {
            self.cancel_nested(instance.id());
        }
    }

    /// Like [`Shared::sweep`], without the requests it has submitted.
    pub(crate) fn sweep_boxes(&self, instance: &Instance, seat: Option<usize>) {
        self.stop_tasks(instance);
        instance.discard_paused(seat);
        #[expect(unsafe_code, reason = "asks what a task is")]
        // SAFETY: the task is in a queue.
        let is_unwanted = |task: &TaskRef| unsafe { task.is_unwanted() };
        #[expect(unsafe_code, reason = "a task is a value again")]
        // SAFETY: boxes alone may be unwanted, and this one was just taken out of its queue.
        let discard = |task| unsafe { Queued::from_task(task) }.discard(seat);
        self.queues.sweep_locked(instance.id(), is_unwanted, discard);
        // Release: a seat reading the new number also sees the request as stopped.
        self.sweeps.fetch_add(1, Ordering::Release);
    }

    /// A request has its result.
    pub(crate) fn done(&self, id: RequestId, result: Result<Totals, FlowError>) {
        let state = self.change_requests(|requests| requests.remove(&id));
        if state.is_some() {
            self.open.end(id);
        }
        self.stopped.remove(id);
        if let Some(state) = state {
            let mut answer = state.lock();
            answer.result = Some(result);
            let waiting = std::mem::take(&mut answer.waiting);
            let told = std::mem::take(&mut answer.told);
            let within = answer.within.take();
            drop(answer);
            drop(within);
            state.done.notify_all();
            waiting.iter().for_each(|done| done.set());
            told.into_iter().for_each(|tell| tell());
            // The last one to know of it drops a user's error.
            tasks::drop_quietly(state);
        }
    }

    /// Makes a free thread of a pool look around.
    pub(crate) fn wake_pool(&self, pool: PoolId) -> bool {
        let seat = self.plan.pools[pool.index()].seats[0];
        let queue = self.plan.seats[seat.index()].place[Kind::Deferred as usize];
        self.pools[pool.index()].wake_one(Wake { queue, request: None, while_waiting: false })
    }
}

/// Threads working under a strategy. Dropping it cancels all running requests and waits for its threads.
///
/// ```
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library};
/// use vicus_machine::Runtime;
///
/// let schema = Schema::new([("n", Type::U64)]);
/// let mut net = ModelBuilder::new("one envelope");
/// let source = net.source(library::source("source", &schema, || [Envelope::new([vec![1u64].into()])]));
/// net.end(source.output(0));
///
/// let runtime = Runtime::builder().threads(2).start();
/// let totals = runtime.submit(&net.build().unwrap()).wait().unwrap();
/// assert!(totals.tasks >= 3); // initialization, source, termination
/// ```
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
}

impl Runtime {
    /// The settings to start a runtime with.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new(Defaults::default())
    }

    /// Like [`Shared::next_of`].
    pub(crate) fn next_of(&self, entries: &[QueueId]) -> QueueId {
        self.shared.next_of(entries)
    }

    /// The plan followed by its threads.
    pub fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    /// The machine it runs on.
    pub fn topology(&self) -> &Topology {
        &self.shared.topology
    }

    /// How far two places of its machine are from one another, nodes or core groups: [`Topology::place_distance`].
    ///
    /// # Panics
    /// If the machine has no such place, with its name and how many there are.
    pub fn distance(&self, a: impl Into<Place>, b: impl Into<Place>) -> u32 {
        self.shared.topology.place_distance(a, b)
    }

    /// Zeroed memory in whole pages, spread over the nodes by the chosen distribution, until it is dropped. `None`
    /// takes the runtime's own distribution ([`RuntimeBuilder::distribution`]).
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use vicus_machine::Runtime;
    /// use vicus_memory::distribution::Distribution;
    ///
    /// let runtime = Runtime::builder().threads(1).start();
    /// let mut placed = runtime.alloc(Layout::new::<[u64; 100_000]>(), Distribution::Fine)?;
    /// placed.bytes_mut()[0] = 1;
    /// # Ok::<(), vicus_memory::PlaceError>(())
    /// ```
    ///
    /// # Errors
    /// The distribution names a location missing on the machine, or memory or address space is short.
    pub fn alloc(&self, layout: Layout, chosen: impl Into<Option<Distribution>>) -> Result<Placed, PlaceError> {
        let too_large = PlaceError::TooLarge { bytes: layout.size(), align: layout.align() };
        let chosen = chosen.into().or_else(|| self.shared.distribution.clone());
        self.memory().ok_or(too_large)?.place(layout, chosen.as_ref())
    }

    /// Memory like that of [`Runtime::alloc`], placed page by page by any policy.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use vicus_machine::Runtime;
    /// use vicus_memory::distribution::{Arrangement, DistributionError, Policy, Request};
    /// use vicus_topology::LocationId;
    ///
    /// /// All pages on the last location.
    /// #[derive(Debug)]
    /// struct Last;
    /// impl Policy for Last {
    ///     fn name(&self) -> &'static str {
    ///         "last"
    ///     }
    ///     fn place(&self, request: &Request<'_>) -> Result<Arrangement, DistributionError> {
    ///         Ok(Arrangement::One(LocationId::new(request.locations - 1)))
    ///     }
    /// }
    ///
    /// let runtime = Runtime::builder().threads(1).start();
    /// let placed = runtime.alloc_by(Layout::new::<[u64; 100_000]>(), &Last)?;
    /// assert!(placed.bytes().len() >= 800_000);
    /// # Ok::<(), vicus_memory::PlaceError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Runtime::alloc`].
    pub fn alloc_by(&self, layout: Layout, policy: &dyn Policy) -> Result<Placed, PlaceError> {
        let too_large = PlaceError::TooLarge { bytes: layout.size(), align: layout.align() };
        self.memory().ok_or(too_large)?.place_by(layout, policy)
    }

    /// The source of its pages: the process's memory, if it runs on this machine. `None` if the system gave no
    /// addresses; [`Runtime::warnings`] then says so.
    pub fn memory(&self) -> Option<&Arc<Memory>> {
        self.shared.memory.as_ref()
    }

    /// The features that could not be used on this machine.
    pub fn warnings(&self) -> Vec<String> {
        self.shared.warnings()
    }

    /// Number of tasks taken by its seats so far, by the plan's rule that found them (0 for tasks from no queue) and by
    /// distance. Every task whose end the caller has seen is counted. Empty if the runtime neither counts nor records.
    ///
    /// ```
    /// use vicus_machine::{Level, Runtime, join};
    ///
    /// let runtime = Runtime::builder().threads(1).count_takes().start();
    /// runtime.run(|| {
    ///     let before = runtime.takes();
    ///     join(|| 1, || 2);
    ///     let own = |takes: std::collections::BTreeMap<(u8, Level), u64>| takes.get(&(1, Level::Own)).copied();
    ///     assert_eq!((own(before), own(runtime.takes())), (None, Some(1)));
    /// });
    /// ```
    pub fn takes(&self) -> BTreeMap<(u8, Level), u64> {
        self.shared.recording.as_ref().map(Recording::takes).unwrap_or_default()
    }

    /// Ends the runtime and returns its recording; `None` if it did not record.
    pub fn trace(self) -> Option<vicus_trace::Trace> {
        self.recorded().1
    }

    /// The decisions of each of its seats, in order, and then the trace; nothing if it did not write decisions
    /// ([`RuntimeBuilder::write_decisions`]). A seat of worlds/sim decides the same in the same place.
    ///
    /// ```
    /// use vicus_machine::{Runtime, scope};
    /// use vicus_schedule::Decision;
    ///
    /// let runtime = Runtime::builder().threads(1).write_decisions().start();
    /// runtime.run(|| scope(|scope| scope.spawn(|_| ())));
    /// let (decisions, _) = runtime.recorded();
    /// let ran = decisions[0].iter().filter(|decision| matches!(decision, Decision::Runs(..))).count();
    /// assert_eq!(ran, 2);
    /// ```
    pub fn recorded(self) -> (Vec<Vec<Decision>>, Option<vicus_trace::Trace>) {
        let shared = Arc::clone(&self.shared);
        drop(self);
        let Some(recording) = &shared.recording else { return (Vec::new(), None) };
        let trace = recording.keeps_events().then(|| recording.collect(&shared.plan, &shared.topology));
        (recording.decisions(), trace)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if !self.shared.is_here() && !self.shared.is_own_thread() {
            return self.shared.end();
        }
        // The last owner is a task of its own, or a model dropped by one of its threads: that thread can't wait for
        // itself.
        let shared = Arc::clone(&self.shared);
        let ender = std::thread::Builder::new().name("vicus end".to_owned()).spawn(move || shared.end());
        if ender.is_err() {
            // No thread is to be had: requests are told to end, and the threads stay.
            self.shared.requests_of_tasks.end_all(&self.shared, false);
        }
    }
}

impl Shared {
    /// Calls `f` with a runtime that may end as soon as `f` has done its work. `is_here`: the calling thread sits on a
    /// seat of this runtime, and so keeps it alive; any other caller holds a reference meanwhile.
    ///
    /// # Safety
    /// The runtime is alive at the call, and the pointer comes from its `Arc`.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub(crate) unsafe fn held<R>(shared: *const Shared, is_here: bool, f: impl FnOnce(&Shared) -> R) -> R {
        // SAFETY: the caller's promise.
        unsafe {
            if is_here {
                f(&*shared)
            } else {
                Arc::increment_strong_count(shared);
                f(&Arc::from_raw(shared))
            }
        }
    }

    /// Whether the runtime started the calling thread, also while the thread does nothing for a seat.
    fn is_own_thread(&self) -> bool {
        let here = std::thread::current().id();
        self.threads.lock().expect("nothing panics under this lock").iter().any(|thread| thread.thread().id() == here)
    }

    /// The first regular (not spare) seat.
    pub(crate) fn first_seat(&self) -> Option<SeatId> {
        self.plan.seats.iter().position(|seat| !seat.spare).map(SeatId::new)
    }

    /// Ends all requests, and then the threads.
    fn end(self: &Arc<Self>) {
        let open: Vec<Arc<RequestState>> =
            self.requests.lock().expect("nothing panics under this lock").values().cloned().collect();
        for state in open {
            let request = Request { shared: Arc::clone(self), state };
            request.cancel();
            let _ = request.wait();
        }
        self.requests_of_tasks.end_all(self, true);
        if self.threads_here.any() && !self.end_threads() {
            // They go on by themselves, on threads kept alive for them.
            return;
        }
        self.end_system_threads();
        if self.threads_here.any() {
            crate::threads::give_back_cells();
        }
    }

    /// Ends the threads on seats. Queued tasks and waiting lightweight threads are left as they are.
    pub(crate) fn end_system_threads(&self) {
        self.closing.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        for lent in &self.lent {
            let _lock = lent.lock.lock().expect("nothing panics under this lock");
            lent.changed.notify_all();
        }
        // One ask is enough: a sleeping thread learns by it that the runtime closes, and an awake one before it sleeps.
        self.ask_all();
        loop {
            let thread = self.threads.lock().expect("nothing panics under this lock").pop();
            let Some(thread) = thread else { break };
            if let Err(panic) = thread.join() {
                // A worker's panic is a mistake of ours; a user's box can't cause it.
                if !std::thread::panicking() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
}
