//! The library's start and end by a program, and its data of shepherds and workers.

use crate::codes::{NO_SHEPHERD, NON_TASK_ID, NOT_ALLOWED, NULL_TASK_ID, PTHREAD_ERROR, SUCCESS};
use crate::environment::{flag, ignored, number};
use crate::exports;
use crate::machine::{self, Shape};
use crate::recording;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use vicus::kit::SystemPages;
use vicus::kit::team::{self, CountThreads as _, SeatId, Sitting, StartSitting as _};
use vicus::{NodeId, Place, Runtime, Setting, environment};

/// Between two starts and ends of the library.
pub(crate) struct Library {
    /// Behind a pointer because it is taken out at the end.
    sitting: AtomicPtr<Sitting<Runtime>>,
    owner: ThreadId,
    /// A forked child has none of its threads.
    process: u32,
    /// By seat: the worker there.
    workers: Box<[Worker]>,
    /// By seat: how many threads have finished their functions there. The seat's thread alone writes it.
    done: Box<[Line]>,
    pub(crate) shepherds: Box<[Shepherd]>,
    pub(crate) pages: SystemPages,
    pub(crate) stack_bytes: usize,
    /// How many bytes each thread has for itself from the start.
    pub(crate) local_bytes: usize,
    /// Whether a shepherd is disabled, so the strategy can't choose one by itself.
    pub(crate) any_disabled: AtomicBool,
    /// The next shepherd in turn while one is disabled.
    next: AtomicU16,
    next_id: AtomicU32,
    pub(crate) next_team: AtomicU32,
}

#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

#[derive(Clone, Copy)]
pub(crate) struct Worker {
    pub(crate) shepherd: u16,
    /// Within the shepherd, and over all of them.
    pub(crate) local: u16,
    pub(crate) unique: u16,
}

pub(crate) struct Shepherd {
    pub(crate) place: Place,
    pub(crate) node: NodeId,
    /// The others, the nearest first.
    pub(crate) nearest: Box<[u16]>,
    pub(crate) distances: Box<[i32]>,
    pub(crate) workers: u16,
    pub(crate) is_enabled: AtomicBool,
    /// By local number: whether a worker is counted.
    pub(crate) disabled_workers: AtomicU64,
}

/// Programs fork recursively, and most of their threads wait: if threads were taken in the order of forking, each would
/// have a stack before the first one ends.
const DEFAULT_STRATEGY: &str = "shepherd:unplaced=own";

static LIBRARY: AtomicPtr<Library> = AtomicPtr::new(ptr::null_mut());
/// Whether its threads are about to end.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Held while it starts or ends.
static CHANGES: Mutex<()> = Mutex::new(());

/// The library, if it is initialized.
#[inline]
pub(crate) fn get() -> Option<&'static Library> {
    // SAFETY: rule "Library": null, or a library that stays for ever.
    unsafe { LIBRARY.load(Ordering::Acquire).as_ref() }
}

/// Whether the library is ending: waiters for its threads must not ask them for anything.
pub(crate) fn is_ending() -> bool {
    IS_ENDING.load(Ordering::Relaxed)
}

impl Library {
    #[inline]
    pub(crate) fn runtime(&self) -> &Runtime {
        // SAFETY: rule "Library": its place is never freed.
        unsafe { &*self.sitting.load(Ordering::Relaxed) }
    }

    /// The worker running the calling code; `None` on threads from outside.
    #[inline]
    pub(crate) fn worker(&self) -> Option<Worker> {
        team::seat().map(|seat: SeatId| self.workers[seat.index()])
    }

    /// Counts the calling thread's function as finished. To be called before others are told.
    #[inline]
    pub(crate) fn count_done(&self) {
        if let Some(done) = team::seat().and_then(|seat| self.done.get(seat.index())) {
            // Release: a thread that hears of its result counts it, too.
            done.0.store(done.0.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
    }

    /// How many forked threads have unfinished functions. The runtime counts a thread longer: until its stack is free.
    pub(crate) fn open_threads(&self) -> u64 {
        // In this order: a finished thread was forked before.
        let done: u64 = self.done.iter().map(|done| done.0.load(Ordering::Acquire)).sum();
        self.runtime().spawned_threads().saturating_sub(done)
    }

    /// Whether the machine has several nodes.
    pub(crate) fn has_nodes(&self) -> bool {
        self.runtime().topology().nodes.len() > 1
    }

    /// How many seats there are, spare ones included.
    pub(crate) fn seats(&self) -> usize {
        self.workers.len()
    }

    pub(crate) fn all_workers(&self) -> usize {
        self.shepherds.iter().map(|shepherd| usize::from(shepherd.workers)).sum()
    }

    /// How many workers are counted.
    pub(crate) fn active_workers(&self) -> usize {
        self.active().map(|shepherd| self.shepherds[usize::from(shepherd)].active_workers()).sum()
    }

    pub(crate) fn active(&self) -> impl Iterator<Item = u16> {
        let all = self.shepherds.iter().enumerate();
        all.filter(|(_, shepherd)| shepherd.is_enabled.load(Ordering::Relaxed)).map(|(index, _)| index as u16)
    }

    /// The shepherd for a thread bound to this one: itself, or the nearest enabled one.
    pub(crate) fn enabled_near(&self, wanted: u16) -> u16 {
        let wanted = wanted % self.shepherds.len() as u16;
        let is_enabled = |shepherd: u16| self.shepherds[usize::from(shepherd)].is_enabled.load(Ordering::Relaxed);
        if !self.any_disabled.load(Ordering::Relaxed) || is_enabled(wanted) {
            return wanted;
        }
        let others = self.shepherds[usize::from(wanted)].nearest.iter().copied();
        others.into_iter().find(|&other| is_enabled(other)).unwrap_or(0)
    }

    /// The shepherd for a thread that names none: the strategy's choice, unless a shepherd is disabled.
    #[inline]
    pub(crate) fn shepherd_for_any(&self) -> u16 {
        if self.any_disabled.load(Ordering::Relaxed) { self.next_in_turn() } else { NO_SHEPHERD }
    }

    #[cold]
    fn next_in_turn(&self) -> u16 {
        self.enabled_near(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The number of the next thread to ask for its own.
    pub(crate) fn new_id(&self) -> u32 {
        loop {
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            // After 2^32 threads: these two mean none.
            if id != NON_TASK_ID && id != NULL_TASK_ID {
                return id;
            }
        }
    }
}

impl Shepherd {
    pub(crate) fn active_workers(&self) -> usize {
        usize::from(self.workers) - self.disabled_workers.load(Ordering::Relaxed).count_ones() as usize
    }
}

/// Starts it, with `shepherds` shepherds if given. The calling thread is the first worker from now on.
fn start(shepherds: Option<usize>) -> i32 {
    // Before the lock: a thread that runs while the library ends would wait for itself.
    if get().is_some() {
        return SUCCESS;
    }
    let _changes = CHANGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if get().is_some() {
        return SUCCESS;
    }
    if team::seat().is_some() {
        return NOT_ALLOWED;
    }
    let real = vicus::this_machine().topology;
    let mut shape = Shape::chosen(&real);
    if let Some(shepherds) = shepherds {
        shape = Shape { shepherds, workers: 1 };
    }
    if shape.threads() > vicus::kit::team::MOST_THREADS {
        eprintln!("vicus: {} workers are too many: at most {}", shape.threads(), vicus::kit::team::MOST_THREADS);
        return PTHREAD_ERROR;
    }
    let builder = Runtime::builder().topology(machine::machine(&real, shape)).threads(shape.threads());
    let said = environment::strategy();
    if let Some(Err(wrong)) = &said {
        eprintln!("vicus: {wrong}; the strategy is {DEFAULT_STRATEGY} instead");
    }
    let shepherd = || DEFAULT_STRATEGY.parse::<Setting>().expect("there is such a strategy");
    let setting = said.and_then(Result::ok).unwrap_or_else(shepherd);
    let mut builder = builder.strategy(setting);
    match environment::checks() {
        Some(Ok(true)) => builder = builder.wait_backtraces(),
        Some(Err(wrong)) => eprintln!("vicus: {wrong}"),
        _ => {}
    }
    builder = recording::begin(builder);
    let affinity = flag("AFFINITY");
    if affinity == Some(false) {
        let mut plan = builder.planned();
        plan.seats.iter_mut().for_each(|seat| seat.affinity.clear());
        builder = builder.plan(plan);
    }
    let mut sitting = match builder.start_sitting() {
        Ok(sitting) => sitting,
        Err(error) => {
            eprintln!("vicus: {error}");
            return PTHREAD_ERROR;
        }
    };
    // Elsewhere it would run threads forked to the first shepherd far from it. On one node nothing is far, and it
    // shares its PU with all threads it starts.
    if affinity.unwrap_or_else(|| machine::has_nodes(&real))
        && let Err(error) = sitting.bind()
    {
        eprintln!("vicus: the main thread is not bound ({error}): what it runs may be far from its data");
    }
    let library = Library::new(sitting);
    if number("INFO").is_some() {
        eprintln!(
            "vicus: {} shepherds, {} workers, strategy {}, stacks of {} bytes",
            library.shepherds.len(),
            library.all_workers(),
            library.runtime().plan().strategy,
            library.stack_bytes
        );
        let names = ignored();
        if !names.is_empty() {
            eprintln!("vicus: without an effect here: {}", names.join(", "));
        }
    }
    // Release: others find it whole.
    LIBRARY.store(Box::into_raw(Box::new(library)), Ordering::Release);
    static AT_EXIT: std::sync::Once = std::sync::Once::new();
    AT_EXIT.call_once(|| {
        extern "C" fn at_exit() {
            end();
        }
        // SAFETY: rule "System": the function is there as long as the process.
        unsafe {
            libc::atexit(at_exit);
        }
    });
    SUCCESS
}

/// The least stack allowed.
const LEAST_STACK: usize = 4 << 10;

impl Library {
    fn new(sitting: Sitting<Runtime>) -> Library {
        let (plan, topology) = (sitting.plan(), sitting.topology());
        // Shepherds are numbered like their first workers, so the main thread's is the first one.
        let mut numbers: Vec<Option<u16>> = vec![None; topology.core_groups.len()];
        let mut groups = Vec::new();
        let mut counts: Vec<u16> = Vec::new();
        let mut unique = 0;
        let mut workers = Vec::with_capacity(plan.seats.len());
        for seat in &plan.seats {
            let group = topology.pus[seat.pu.index()].group;
            let shepherd = *numbers[group.index()].get_or_insert_with(|| {
                groups.push(group);
                counts.push(0);
                groups.len() as u16 - 1
            });
            let count = &mut counts[usize::from(shepherd)];
            // A spare seat stands in for the shepherd's first worker.
            if seat.spare {
                let first = workers.iter().find(|worker: &&Worker| worker.shepherd == shepherd).copied();
                workers.push(first.unwrap_or(Worker { shepherd, local: 0, unique: 0 }));
            } else {
                workers.push(Worker { shepherd, local: *count, unique });
                *count += 1;
                unique += 1;
            }
        }
        let shepherd = |own: usize| {
            let distance = |other: usize| topology.place_distance(groups[own], groups[other]) as i32;
            let mut nearest: Vec<u16> = (0..groups.len() as u16).filter(|&other| usize::from(other) != own).collect();
            nearest.sort_by_key(|&other| distance(usize::from(other)));
            Shepherd {
                place: groups[own].into(),
                node: topology.core_groups[groups[own].index()].node,
                nearest: nearest.into(),
                distances: (0..groups.len()).map(distance).collect(),
                workers: counts[own],
                is_enabled: AtomicBool::new(true),
                disabled_workers: AtomicU64::new(0),
            }
        };
        Library {
            shepherds: (0..groups.len()).map(shepherd).collect(),
            pages: SystemPages::new(topology),
            done: plan.seats.iter().map(|_| Line::default()).collect(),
            workers: workers.into(),
            owner: thread::current().id(),
            process: std::process::id(),
            stack_bytes: number("STACK_SIZE").unwrap_or(32 << 10).clamp(LEAST_STACK, 1 << 30),
            local_bytes: number("TASKLOCAL_SIZE").unwrap_or(8),
            any_disabled: AtomicBool::new(false),
            next: AtomicU16::new(0),
            next_id: AtomicU32::new(1),
            next_team: AtomicU32::new(2),
            sitting: AtomicPtr::new(Box::into_raw(Box::new(sitting))),
        }
    }
}

/// Whether a fork has made the calling process: it has none of the library's threads.
pub(crate) fn is_forked() -> bool {
    get().is_some_and(|library| library.process != std::process::id())
}

/// Ends it, if the calling thread has started it.
fn end() {
    // As in `start`.
    if vicus::threads::is_thread() || get().is_none_or(|library| library.owner != thread::current().id()) {
        return;
    }
    let _changes = CHANGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(library) = get().filter(|library| library.owner == thread::current().id()) else { return };
    if library.process != std::process::id() {
        return;
    }
    crate::fork::end_main();
    IS_ENDING.store(true, Ordering::Relaxed);
    // SAFETY: `start` has put it there, and the lock and the check above let one call take it out, once. Its place is
    // never freed: threads that run on look at the runtime there, which stays then.
    let sitting = unsafe { library.sitting.load(Ordering::Relaxed).read() };
    recording::end(sitting.end_recorded().1);
    // The library stays in place: a thread from outside may just look at it.
    LIBRARY.store(ptr::null_mut(), Ordering::Release);
    IS_ENDING.store(false, Ordering::Relaxed);
}

exports! {
    fn qthread_initialize() -> i32 {
        start(None)
    }

    fn qthread_init(shepherds: u16) -> i32 {
        start(Some(usize::from(shepherds)).filter(|&shepherds| shepherds > 0))
    }

    fn qthread_finalize() {
        end();
    }

    fn qthread_reset_target_shep() {
        if let Some(library) = get() {
            library.next.store(0, Ordering::Relaxed);
        }
    }
}
