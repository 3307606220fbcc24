//! Settings of a runtime, and its start.

use crate::defaults::{Defaults, OnDeadlock, said};
use crate::memory::heaps;
use crate::memory::slab::Blocks;
use crate::queues::SharedQueues;
use crate::queues::groups::GroupQueues;
use crate::queues::inbox::Inbox;
use crate::queues::sleep::{Barrier, SleepPool};
use crate::runtime::callers::{Callers, LONG};
use crate::runtime::fit::{assert_fits, pus_of};
use crate::runtime::gathering::Gathering;
use crate::runtime::handle::MachineRuntime;
use crate::runtime::hook::{Hook, NewLayer};
use crate::runtime::last_words::count_refusable_calls;
use crate::runtime::recorder::{EventRoom, Recording};
use crate::runtime::requests::Ongoing;
use crate::runtime::roaming::Roaming;
use crate::runtime::shared::{PlanTables, QueuedTasks, RunSettings, RuntimeState, SleepPools, Storage, SystemThreads};
use crate::runtime::spare_thread::SpareThread;
use crate::runtime::worker::Worker;
use crate::sync::Padded;
use crate::sync::gate::Gate;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use vicus_flow::Entry;
use vicus_memory::MemoryOptions;
use vicus_memory::distribution::Distribution;
use vicus_os::{discover, latency};
use vicus_schedule::{DEFAULT, LastUses, MOST_THREADS, Plan, SeatId, Setting};
use vicus_topology::Topology;

/// Settings of a [`MachineRuntime`], or of a door's wrapper around one.
pub struct RuntimeBuilder<R = MachineRuntime> {
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
    events: Option<EventRoom>,
    counts_takes: bool,
    decides: bool,
    quiet: bool,
    distribution: Option<Distribution>,
    caller_works: Option<Duration>,
    on_deadlock: Option<OnDeadlock>,
    waits_have_backtraces: bool,
    head_start: Duration,
    without_turns: bool,
    members_spin: Duration,
    layer: Option<NewLayer>,
    defaults: Defaults,
}

impl<R: From<MachineRuntime>> RuntimeBuilder<R> {
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
    /// use vicus_machine::MachineRuntime;
    /// let builder = MachineRuntime::builder().topology(vicus_topology::Topology::parse("core:4").unwrap());
    /// let plan = builder.processors([3, 1, 3]).planned();
    /// assert_eq!(plan.seats[..3].iter().map(|seat| seat.pu.index()).collect::<Vec<_>>(), [3, 1, 3]);
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
    /// use vicus_machine::MachineRuntime;
    ///
    /// let builder = MachineRuntime::builder().threads(2).strategy("steal".parse()?);
    /// let mut plan = builder.planned();
    /// plan.seats.iter_mut().for_each(|seat| seat.affinity.clear()); // threads run where the system likes
    /// let runtime = MachineRuntime::builder().plan(plan).start();
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
    /// one, and warns ([`MachineRuntime::warnings`]).
    ///
    /// ```standalone_crate
    /// use vicus_machine::MachineRuntime;
    /// use vicus_memory::{Foreign, MemoryOptions};
    ///
    /// let usual = MachineRuntime::builder().memory_options();
    /// let bins = MemoryOptions { foreign: Foreign::Bins, touch_ahead: true, ..usual };
    /// let runtime = MachineRuntime::builder().threads(1).memory(bins.clone()).start();
    /// assert_eq!(runtime.memory().expect("there are addresses").options().foreign, Foreign::Bins);
    /// let second = MachineRuntime::builder().threads(1).quiet().start();
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

    /// Records a trace of at most this number of events for each seat; see [`MachineRuntime::trace`].
    ///
    /// Events belong to seats. A caller running its own request ([`MachineRuntime::submit_here`]) sits on none. While a
    /// runtime records, such requests therefore go to the seats at once: a trace shows all requests, and short ones as
    /// they run when their caller does not run them.
    pub fn record(mut self, events_per_seat: usize) -> Self {
        self.chosen.events = Some(EventRoom { events: events_per_seat, rolls: false });
        self
    }

    /// Records a trace of the last events of each seat, at most this number; earlier ones are dropped and counted. For
    /// requests that run for days.
    pub fn record_last(mut self, events_per_seat: usize) -> Self {
        self.chosen.events = Some(EventRoom { events: events_per_seat, rolls: true });
        self
    }

    /// Counts the taken tasks; see [`MachineRuntime::takes`]. Each take then costs some nanoseconds more.
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

    /// Writes down the decisions of its seats; see [`MachineRuntime::recorded`]. The buffers grow as needed.
    pub fn write_decisions(mut self) -> Self {
        self.chosen.decides = true;
        self
    }

    /// Keeps warnings, such as a thread that could not be pinned, off standard error; [`MachineRuntime::warnings`]
    /// still has them. Without this, a process prints each warning once, however many runtimes it starts.
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

    /// How long the caller of [`MachineRuntime::submit_here`] works on its request before the runtime's threads do; by
    /// default a millisecond.
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
    /// let builder = vicus_machine::MachineRuntime::builder().threads(2).head_start(Duration::from_millis(20));
    /// assert!(builder.start().plan().front().is_some());
    /// ```
    pub fn head_start(mut self, long: Duration) -> Self {
        self.chosen.head_start = long;
        self
    }

    /// Sets its reaction when its lightweight threads wait for full/empty bits and no running code could change these;
    /// by default it reports.
    pub fn deadlock(mut self, on_deadlock: OnDeadlock) -> Self {
        self.chosen.on_deadlock = Some(on_deadlock);
        self
    }

    /// Lets its lightweight threads note their backtraces when they wait for full/empty bits, which takes some
    /// microseconds each. Reports of a [`RuntimeBuilder::deadlock`] then have backtraces.
    pub fn wait_backtraces(mut self) -> Self {
        self.chosen.waits_have_backtraces = true;
        self
    }

    /// For a team: the least time that waiting members look around before they sleep, whatever the strategy says of its
    /// idle seats. If each member has a processor, it should exceed the time to wake a thread: otherwise two members
    /// waiting for each other in turn both fall asleep before the other one is awake, each time.
    pub fn members_spin(mut self, least: Duration) -> Self {
        self.chosen.members_spin = least;
        self
    }

    /// The layer above the runtime, from its start on; else from its first use on. For doors.
    #[doc(hidden)]
    pub fn layer(mut self, new: NewLayer) -> Self {
        self.chosen.layer = Some(new);
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

    /// The state shared by a team's members, for the layer above. No thread is started.
    ///
    /// # Errors
    /// More members are wanted than [`vicus_schedule::MOST_THREADS`].
    #[doc(hidden)]
    pub fn team_state(&self) -> Result<Arc<RuntimeState>, StartError> {
        self.chosen.shared(true)
    }

    /// Starts a runtime without a thread on its first regular seat, for the layer above.
    ///
    /// # Errors
    /// As [`RuntimeBuilder::try_start`].
    pub fn try_start_without_first(self) -> Result<MachineRuntime, StartError> {
        self.chosen.try_start_but(true)
    }

    /// The plan for its threads, without any thread. Latencies are measured if they are needed and unknown.
    ///
    /// ```
    /// let builder = vicus_machine::MachineRuntime::builder().threads(2);
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
    fn shared(&self, team: bool) -> Result<Arc<RuntimeState>, StartError> {
        let mut warnings = self.defaults.warnings.clone();
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
        let seats = plan.seats.len();
        let recording = (self.events.is_some() || self.counts_takes || self.decides)
            .then(|| Recording::new(self.events, self.decides, team, &plan, &topology));
        let shared = Arc::new_cyclic(|weak: &Weak<RuntimeState>| RuntimeState {
            tables: PlanTables {
                for_waiting: plan.for_waiting(),
                group_queues: GroupQueues::new(&plan, &topology),
                last_uses: plan.warm().map(LastUses::new),
                roaming: Roaming::of(&plan, &topology),
                next_entry: AtomicUsize::new(0),
                topology,
            },
            queued: QueuedTasks {
                queues: SharedQueues::new(&plan),
                inboxes: plan.seats.iter().map(|_| Padded(Inbox::default())).collect(),
                entry: entry(weak.clone()),
            },
            ongoing: Ongoing::new(),
            storage: Storage { memory, distribution: self.distribution.clone(), blocks: Blocks::new(seats) },
            settings: RunSettings {
                has_turns: !self.without_turns,
                head_start_ns: u64::try_from(self.head_start.as_nanos()).unwrap_or(u64::MAX),
                caller_works: self.caller_works.unwrap_or(LONG),
                on_deadlock: on_deadlock.unwrap_or_default(),
                waits_have_backtraces: self.waits_have_backtraces,
            },
            system: SystemThreads {
                sleepers: SleepPools {
                    pools: plan.pools.iter().map(|pool| SleepPool::new(pool.seats.len())).collect(),
                    barrier,
                },
                callers: Callers::default(),
                handles: Mutex::new(Vec::new()),
                closing: AtomicBool::new(false),
                spares,
                lent: plan.seats.iter().map(|_| SpareThread::default()).collect(),
                warnings: Mutex::new(warnings),
            },
            recording,
            hook: Hook::new(seats, self.layer),
            gathering: Gathering::new(plan.threads()),
            plan,
        });
        let seats: Weak<dyn heaps::Seats> = Arc::<RuntimeState>::downgrade(&shared);
        heaps::register(seats);
        Ok(shared)
    }

    fn try_start(self) -> Result<MachineRuntime, StartError> {
        self.try_start_but(false)
    }

    /// `leaves_first`: no thread for the first seat that is not spare.
    fn try_start_but(self, leaves_first: bool) -> Result<MachineRuntime, StartError> {
        let shared = self.shared(false)?;
        let threads = shared.plan.threads();
        let left_out = shared.first_seat().filter(|_| leaves_first);
        // If a thread can't start, dropping this ends the threads started so far.
        let runtime = MachineRuntime { shared: Arc::clone(&shared) };
        let gate = Arc::new(Gate::default());
        let mut started = 0;
        for seat in (0..shared.plan.seats.len()).map(SeatId::new) {
            if !shared.plan.seats[seat.index()].spare && Some(seat) != left_out {
                let theirs = Arc::clone(&gate);
                let spawned = shared.thread(seat, move |shared| {
                    let mut worker = Worker::new(Arc::clone(&shared), seat);
                    theirs.pass();
                    worker.work(|| !shared.system.closing.load(Ordering::Acquire));
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
        let (topology, mut plan) = self.find_plan_of_strategy(team, warnings);
        if !self.head_start.is_zero() {
            plan = plan.with_front();
        }
        if team {
            plan = plan.for_team(u64::try_from(self.members_spin.as_nanos()).unwrap_or(u64::MAX));
        }
        (topology, plan)
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
/// let error = vicus_machine::MachineRuntime::builder().threads(MOST_THREADS + 1).try_start().err().unwrap();
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
fn entry(shared: Weak<RuntimeState>) -> Entry {
    Arc::new(move |queued| {
        if let Some(shared) = shared.upgrade() {
            shared.enter(queued);
        }
    })
}
