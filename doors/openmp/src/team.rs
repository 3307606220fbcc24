//! Regions: a team of threads runs the region's function, each thread once.
//!
//! ```text
//!  thread 0: the caller ── its Pool: a dock for each other thread ──▶ Team ── a Member on each seat ──▶ the function
//! ```
//!
//! Each thread keeps the threads of its regions: thread *i* of one region is thread *i* of the next one as well, so the
//! program's thread-local data survive. It also keeps the teams, one for each size, with their plans, and each thread's
//! membership in them: a region makes nothing. Between two regions, threads wait at their docks; they spin for a moment
//! and then sleep.

use crate::bell::Bell;
use crate::bound::Bound;
use crate::futex::{sleep_on, wake};
use crate::places::Binding;
use crate::report::{self, Spent};
use crate::settings::{self, complain};
use crate::thread::{BUSY, Group, Icv, Task, Thread, here};
use crate::wait::KeepErrno;
use crate::work::{LoopStart, REMEMBERED, Site, Slot};
use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use vicus::kit::team::{BuildTeam as _, Meetings, Member, Setting, gather};

/// A region's function: gcc's has one argument, clang's many.
#[derive(Clone, Copy)]
pub(crate) enum Function {
    Gomp(unsafe extern "C-unwind" fn(*mut u8), *mut u8),
    /// With this number of words of arguments.
    Kmpc(*const (), usize, *const *mut u8),
    None,
}

/// How many loops of a team may be under way at once: those before may still be run by slower threads.
pub(crate) const RING: usize = 32;

/// The properties in which teams differ.
#[derive(Clone, Copy, PartialEq)]
struct Kind {
    size: u32,
    /// Where its threads are bound, and its plan has them; `None` if they are not bound.
    binding: Option<Binding>,
    /// Its region is in no other one of several threads.
    is_outermost: bool,
    /// With those of the regions beside it, there may be more threads than processors: none of them spins.
    is_crowded: bool,
}

impl Kind {
    fn initial() -> Kind {
        Kind { size: 1, binding: None, is_outermost: true, is_crowded: false }
    }
}

/// A team of threads: those of the running region, and of the next one of this size.
pub(crate) struct Team {
    pub(crate) size: u32,
    /// See [`Kind`].
    is_outermost: bool,
    is_crowded: bool,
    binding: Option<Binding>,
    pub(crate) nesting: Nesting,
    start: Start,
    pub(crate) work: SharedWork,
    /// Reductions shared by all threads of a region or of a loop; the first thread makes them.
    pub(crate) shared_reductions: [AtomicPtr<crate::reductions::Reductions>; 2],
    /// Whether the region was cancelled, and at which barriers its threads were then.
    pub(crate) meetings: Meetings,
    /// The cancelled loop, as one more than the number of earlier meetings of its threads.
    pub(crate) cancelled_loop: AtomicU64,
    machine: Option<vicus::kit::team::Team>,
    members: Box<[Slotted]>,
    is_busy: Cell<bool>,
    /// The places of its threads, if the user says nothing and they are bound.
    bound: Option<Bound>,
    /// Whether the affinity of its threads is shown in this region.
    is_shown: Cell<bool>,
}

/// A region among those around it.
pub(crate) struct Nesting {
    /// How many threads there are if each thread of the regions around has such a team.
    pub(crate) crowd: Cell<u32>,
    /// The number of enclosing regions, this one included; and how many of them have several threads.
    pub(crate) level: Cell<u32>,
    pub(crate) active_level: Cell<u32>,
    /// The outer team, of the thread that came to the region, and that thread's number there.
    pub(crate) outer: Cell<*const Team>,
    pub(crate) outer_number: Cell<u32>,
}

/// With what each thread begins a region.
struct Start {
    function: Cell<Function>,
    /// A loop begun by each thread with the region.
    begins: Cell<Option<LoopStart>>,
    /// The settings of each thread's task.
    icv: Cell<Icv>,
    group: Cell<*mut Group>,
    league: Cell<(u32, u32)>,
    /// How many loops and singles earlier regions had, and how often their threads waited for each other.
    before: Cell<(u64, u64, u64)>,
}

/// The work that the threads of a team share.
pub(crate) struct SharedWork {
    pub(crate) ring: Box<[Slot]>,
    /// The remembered taskloops, on a machine with several core groups; and the group of each thread.
    pub(crate) taskloops: Option<crate::taskloop::Memories>,
    pub(crate) groups: Box<[u16]>,
    /// The remembered loops.
    pub(crate) sites: Box<[Site]>,
    pub(crate) singles: AtomicU64,
    /// The value of `copyprivate`.
    pub(crate) copy: AtomicPtr<u8>,
}

/// A thread's state in its team.
#[repr(align(128))]
pub(crate) struct Slotted {
    member: UnsafeCell<Option<Member>>,
    task: UnsafeCell<Option<Task>>,
    /// How many more tasks the thread has made than run, as others see it.
    pub(crate) lead: AtomicI64,
}

impl Team {
    /// The team of a thread outside of all regions.
    pub(crate) fn initial() -> Team {
        Team::with(Kind::initial(), None, None)
    }

    fn with(kind: Kind, machine: Option<vicus::kit::team::Team>, bound: Option<Bound>) -> Team {
        let size = kind.size;
        let ring = if machine.is_some() || size > 1 { RING } else { 1 };
        Team {
            size,
            is_outermost: kind.is_outermost,
            is_crowded: kind.is_crowded,
            binding: kind.binding,
            nesting: Nesting {
                crowd: Cell::new(1),
                level: Cell::new(0),
                active_level: Cell::new(0),
                outer: Cell::new(ptr::null()),
                outer_number: Cell::new(0),
            },
            start: Start {
                function: Cell::new(Function::None),
                begins: Cell::new(None),
                icv: Cell::new(settings::get().icv),
                group: Cell::new(ptr::null_mut()),
                league: Cell::new((0, 1)),
                before: Cell::new((0, 0, 0)),
            },
            work: SharedWork {
                ring: (0..ring).map(|at| Slot::new(at as u64, if size > 1 { size } else { 0 })).collect(),
                taskloops: machine
                    .as_ref()
                    // Tasks dealt in turn are where they were the last time anyway.
                    .filter(|team| {
                        size > 1 && team.topology().core_groups.len() > 1 && team.plan().in_turn().is_empty()
                    })
                    .map(|_| crate::taskloop::Memories::new()),
                groups: machine
                    .iter()
                    .flat_map(|team| (0..size as usize).map(|number| team.group_of(number).index() as u16))
                    .collect(),
                sites: (0..if size > 1 { REMEMBERED } else { 0 }).map(|_| Site::new(size)).collect(),
                singles: AtomicU64::new(0),
                copy: AtomicPtr::new(ptr::null_mut()),
            },
            shared_reductions: [const { AtomicPtr::new(ptr::null_mut()) }; 2],
            meetings: Meetings::new(),
            cancelled_loop: AtomicU64::new(0),
            members: (0..if machine.is_some() { size } else { 0 })
                .map(|_| Slotted {
                    member: UnsafeCell::new(None),
                    task: UnsafeCell::new(None),
                    lead: AtomicI64::new(0),
                })
                .collect(),
            machine,
            is_busy: Cell::new(false),
            bound,
            is_shown: Cell::new(false),
        }
    }

    /// A team of this kind, with a plan of its own.
    #[cold]
    #[inline(never)]
    fn new(kind: Kind) -> &'static Team {
        let Kind { size, binding, is_outermost, is_crowded } = kind;
        let mut bound = if binding.is_none() && is_outermost { Bound::of(size) } else { None };
        let is_exact = binding.is_some() || bound.as_ref().is_some_and(|bound| bound.is_exact);
        let defaults = crate::process::unforked(vicus::environment::defaults);
        let builder = vicus::kit::machine::MachineRuntime::builder().defaults(defaults);
        let mut builder = builder.threads(size as usize).quiet();
        if let Some(binding) = binding {
            builder = builder.processors(binding.processors(size));
        }
        if let Some(bound) = &bound {
            builder = builder.processors(bound.processors());
        }
        builder = builder.members_spin(spins_for(is_crowded).0);
        if report::is_on() {
            builder = builder.count_takes();
        }
        if let Some(room) = report::room() {
            builder = room.of(builder);
        }
        let setting = strategy(kind, is_exact);
        let team = crate::process::unforked(|| builder.strategy(setting).team());
        let team = team.unwrap_or_else(|error| crate::settings::fail(&format!("no team of {size} threads: {error}")));
        bound = bound.filter(|_| team.plan().has_places());
        report::keep_team(&team);
        crate::intense::tell_of_idle(team.plan());
        static TOLD: AtomicBool = AtomicBool::new(false);
        if let Some(warning) = team.plan().idle_warning()
            && !TOLD.swap(true, Ordering::Relaxed)
        {
            crate::settings::complain(&warning);
        }
        Box::leak(Box::new(Team::with(kind, Some(team), bound)))
    }

    fn is_of(&self, kind: Kind) -> bool {
        let Team { size, binding, is_outermost, is_crowded, .. } = *self;
        kind == Kind { size, binding, is_outermost, is_crowded }
    }

    /// Whether its strategy looks at the nodes of a task's bytes.
    pub(crate) fn deals(&self) -> bool {
        self.machine.as_ref().is_some_and(|team| team.plan().dealing().is_some_and(|dealing| dealing.queues.len() > 1))
    }

    /// The address of the function of its region; 0 if the region has none.
    pub(crate) fn function_address(&self) -> usize {
        match self.start.function.get() {
            Function::Gomp(function, _) => function as usize,
            Function::Kmpc(function, ..) => function.addr(),
            Function::None => 0,
        }
    }

    /// Calls the function of its region.
    pub(crate) fn call_again(&self) {
        invoke(self.start.function.get());
    }

    /// The state of each thread, by number.
    pub(crate) fn members(&self) -> &[Slotted] {
        &self.members
    }

    /// The team at a nesting level, seen from within. `None` if there is no such level.
    pub(crate) fn at_level(&self, level: i32, number: u32) -> Option<(&Team, u32)> {
        let (mut team, mut number) = (self, number);
        if level < 0 || level as u32 > team.nesting.level.get() {
            return None;
        }
        while team.nesting.level.get() > level as u32 {
            // A region of one thread has one number, and it stands in for itself at its own level.
            number = team.nesting.outer_number.get();
            // SAFETY: rule "Team": the outer team's region lasts longer than the inner one's.
            team = unsafe { &*team.nesting.outer.get() };
        }
        Some((team, number))
    }
}

/// The strategy of a team of this kind. How long its threads look around before they sleep is said by the user's
/// policy; not at all if they are more than there are processors: each keeps another one from its work meanwhile. Where
/// threads are not bound to a processor each (`is_exact`), and there are several nodes, each asks where it runs, if the
/// strategy can do so.
fn strategy(kind: Kind, is_exact: bool) -> Setting {
    let settings = settings::get();
    let wanted = settings.strategy.as_ref().map_or(vicus::DEFAULT.to_owned(), ToString::to_string);
    let with = |wanted: &str, parameter: &str| -> Option<String> {
        let mark = if wanted.contains(':') { ',' } else { ':' };
        let setting = format!("{wanted}{mark}{parameter}");
        // Strategies without such a parameter stay as they are.
        setting.parse::<Setting>().is_ok().then_some(setting)
    };
    let roams = !is_exact && kind.size > 1 && crate::places::nodes().len() > 1 && !wanted.contains("pin=");
    let wanted = if roams { with(&wanted, "pin=off").unwrap_or(wanted) } else { wanted };
    let spin_ns = match settings.waiting.is_active {
        Some(true) => Some(1_000_000_000),
        Some(false) => Some(0),
        None => kind.is_crowded.then_some(0),
    };
    let spinning = spin_ns.filter(|_| !wanted.contains("spin_ns"));
    let spinning = spinning.and_then(|spin_ns| with(&wanted, &format!("spin_ns={spin_ns}")));
    spinning.unwrap_or(wanted).parse().expect("it was parsed before")
}

/// How long threads of a team look around before they sleep, in a region and for the next one, if the user says nothing
/// of that and each of them can have a processor. To wake a thread takes 4 µs on real hardware, and up to 60 on a
/// virtual machine; in less time than that, threads that wait for one another in turn fall asleep each time. libgomp
/// spins for some milliseconds, libomp for 200.
const SPINS: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(3));

fn spins_for(is_crowded: bool) -> (Duration, Duration) {
    let settings = settings::get();
    let is_said = settings.waiting.is_active.is_some() || settings.waiting.says_spins;
    if is_said || is_crowded {
        return (Duration::ZERO, Duration::ZERO);
    }
    match settings.waiting.blocks_ms {
        Some(ms) => [ms; 2].map(|ms| Duration::from_millis(ms.into())).into(),
        None => SPINS,
    }
}

/// How often a thread lets others run before it sleeps at its dock: threads of the same team may wait for its
/// processor.
const YIELDS: u32 = 10;

/// How long a spinning thread goes on before it lets others run.
const GIVES_WAY_AFTER_US: u128 = 10;

/// The place of a waiting thread between two regions.
#[repr(align(128))]
struct Dock {
    bell: Bell,
    team: Cell<*const Team>,
    number: u32,
    /// How often the thread looks before it sleeps, and for how many microseconds at least.
    spins: AtomicU32,
    spins_us: AtomicU32,
    /// The processor of the thread that last called this one out of its sleep.
    called_from: AtomicI32,
    /// The processors of the thread that started the dock's thread.
    processors: libc::cpu_set_t,
    /// The library's state of the thread, and the thread's first team: a checker of leaks follows pointers from the
    /// pool's owner, and cannot find them elsewhere.
    keeps: Cell<(*const Thread, *const Team)>,
    /// Set when there is no team any more: the ending pool.
    ending: Cell<*const Ending>,
}

/// An ending pool: its teams stay until its last thread has left.
struct Ending {
    left: AtomicUsize,
    teams: Vec<&'static Team>,
}

impl Ending {
    /// A thread has left.
    ///
    /// # Safety
    /// The thread is counted in `left`, and leaves once.
    unsafe fn leave(ending: *const Ending) {
        // Acquire and release: the last thread sees all writes of the others in the teams.
        // SAFETY: the caller is counted in `left` and not yet subtracted, so the value is there.
        if unsafe { (*ending).left.fetch_sub(1, Ordering::AcqRel) } == 1 {
            // SAFETY: the last one to leave: all others have subtracted themselves, and it sees their writes. It was
            // made by `Box::into_raw` in `Pool::end`.
            let ending = unsafe { Box::from_raw(ending.cast_mut()) };
            for team in ending.teams {
                // SAFETY: `Team::new` has leaked it from a box; all threads of the pool have left, and the pool with
                // its list of teams is gone.
                drop(unsafe { Box::from_raw(ptr::from_ref(team).cast_mut()) });
            }
        }
    }
}

/// The threads of a thread's regions, and their teams.
pub(crate) struct Pool {
    docks: Vec<&'static Dock>,
    teams: Vec<&'static Team>,
    /// The index in `teams` of the last region's team.
    last: usize,
}

// SAFETY: only the pool's owner leads its teams, and the pool changes its owner under a lock, after its last region.
unsafe impl Send for Pool {}

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool { docks: Vec::new(), teams: Vec::new(), last: 0 }
    }

    /// How many threads it has, and one more.
    pub(crate) fn cost(&self) -> usize {
        self.docks.len() + 1
    }

    /// Ends its threads, and frees its memory. No region of it runs, and none will.
    pub(crate) fn end(self) {
        // The caller is counted as well, so the teams stay until all threads have been called.
        let left = AtomicUsize::new(self.docks.len() + 1);
        let ending: *const Ending = Box::into_raw(Box::new(Ending { left, teams: self.teams }));
        for dock in self.docks {
            dock.ending.set(ending);
            dock.team.set(ptr::null());
            dock.call();
        }
        // SAFETY: made above, with the caller counted.
        unsafe { Ending::leave(ending) };
    }

    /// A team of this kind in which no region runs.
    fn team(&mut self, kind: Kind) -> &'static Team {
        let is_free = |team: &Team| team.is_of(kind) && !team.is_busy.get();
        if !self.teams.get(self.last).is_some_and(|team| is_free(team)) {
            self.last = match self.teams.iter().position(|team| is_free(team)) {
                Some(at) => at,
                None => {
                    self.teams.push(Team::new(kind));
                    self.teams.len() - 1
                }
            };
        }
        self.teams[self.last]
    }

    /// Adds threads for numbers below `size`, and returns their number. They may run on the calling thread's
    /// processors, or on those it had before it was bound by default (`free`).
    fn grow(&mut self, size: u32, is_outermost: bool, free: Option<libc::cpu_set_t>) -> u32 {
        while (self.docks.len() as u32) + 1 < size {
            let number = self.docks.len() as u32 + 1;
            let dock: &'static Dock = Box::leak(Box::new(Dock {
                bell: Bell::new(),
                team: Cell::new(ptr::null()),
                number,
                spins: AtomicU32::new(0),
                spins_us: AtomicU32::new(0),
                called_from: AtomicI32::new(-1),
                processors: free.unwrap_or_else(crate::places::own_set),
                keeps: Cell::new((ptr::null(), ptr::null())),
                ending: Cell::new(ptr::null()),
            }));
            let on = if is_outermost { crate::places::begins_on(number, size) } else { None };
            if let Err(error) = crate::process::start_thread(ptr::from_ref(dock).cast(), serve, on) {
                complain(&format!("no more than {number} threads can be had: {error}"));
                break;
            }
            self.docks.push(dock);
        }
        self.docks.len() as u32 + 1
    }
}

impl Dock {
    /// The thread is to look at its team.
    fn call(&self) {
        if self.bell.is_asleep() {
            // SAFETY: rule "System": no argument.
            self.called_from.store(unsafe { libc::sched_getcpu() }, Ordering::Relaxed);
        }
        if self.bell.ring() {
            wake(self.bell.word(), 1);
        }
    }

    /// Waits until the state changes from `seen`. Returns the new state.
    fn wait(&self, seen: u32) -> u32 {
        let (mut spins, mut yields, mut since) = (0, 0, None);
        loop {
            if let Some(state) = self.bell.called_since(seen) {
                return state;
            }
            let least = Duration::from_micros(self.spins_us.load(Ordering::Relaxed).into());
            if least.is_zero() && spins < self.spins.load(Ordering::Relaxed) {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            let waited = if least.is_zero() { least } else { since.get_or_insert_with(Instant::now).elapsed() };
            // Now and then it gives way, to a thread that may have been woken on the same processor.
            let turns = if waited < least { (waited.as_micros() / GIVES_WAY_AFTER_US) as u32 } else { YIELDS };
            if yields < turns {
                yields += 1;
                // SAFETY: rule "System": no argument.
                unsafe { libc::sched_yield() };
            } else if waited < least {
                std::hint::spin_loop();
            } else if let Some(asleep) = self.bell.mark_asleep(seen) {
                sleep_on(self.bell.word(), asleep);
                if !least.is_zero() {
                    self.leave_caller();
                }
            }
        }
    }
}

impl Dock {
    /// Moves a woken thread to another processor if it woke on its caller's one, where the caller works: the system
    /// would move one of the two only after some milliseconds.
    fn leave_caller(&self) {
        let caller = self.called_from.load(Ordering::Relaxed);
        // SAFETY: rule "System": no argument.
        if caller < 0 || unsafe { libc::sched_getcpu() } != caller {
            return;
        }
        let own = crate::places::own_set();
        let mut others = own;
        // SAFETY: rule "System": both sets are values of this function, of the length given. `caller` is a number that
        // the system gave for a processor, so it is in the set.
        unsafe {
            libc::CPU_CLR(caller as usize, &mut others);
            // None is left if the thread is bound to this one: then nothing changes.
            let size = size_of::<libc::cpu_set_t>();
            if libc::sched_setaffinity(0, size, &raw const others) == 0 {
                libc::sched_setaffinity(0, size, &raw const own);
            }
        }
    }
}

/// A pool's thread.
extern "C" fn serve(dock: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `Pool::grow` has leaked this dock for this thread, which frees it below.
    let dock = unsafe { &*dock.cast::<Dock>() };
    // The thread has begun on a chosen processor, and may go on where its siblings may.
    crate::places::set_affinity(&dock.processors);
    let thread = here();
    thread.placing.free = Some(dock.processors);
    let initial = thread.team;
    dock.keeps.set((ptr::from_ref(thread), initial));
    let mut seen = 0;
    loop {
        seen = dock.wait(seen);
        // SAFETY: rule "Team": the caller has written the address before it changed the state that `wait` has read with
        // acquire.
        let Some(team) = (unsafe { dock.team.get().as_ref() }) else { break };
        enter(team, dock.number);
    }
    here().leave_teams(initial);
    // SAFETY: `Pool::end` has set `ending` before the call that ended the loop, and has counted this thread. The dock
    // was leaked from a box, and the pool has forgotten it.
    unsafe {
        Ending::leave(dock.ending.get());
        // The caller may still wake this address: the system call looks at the address alone.
        drop(Box::from_raw(ptr::from_ref(dock).cast_mut()));
    }
    ptr::null_mut()
}

/// The number of threads of the next region, for this `num_threads` clause; 0: no clause.
pub(crate) fn resolve(thread: &Thread, wanted: u32) -> u32 {
    let icv = &thread.task().icv;
    if wanted == 1 || thread.team().nesting.active_level.get() as i32 >= icv.max_active_levels {
        return 1;
    }
    let mut size = if wanted == 0 { icv.threads.max(1) as u32 } else { wanted };
    if icv.is_dynamic {
        size = size.min(settings::processors());
    }
    if size as usize > vicus::kit::team::MOST_THREADS {
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Ordering::Relaxed) {
            complain(&format!("{size} threads are wanted, and {} are the most", vicus::kit::team::MOST_THREADS));
        }
        size = vicus::kit::team::MOST_THREADS as u32;
    }
    if icv.thread_limit != i32::MAX {
        let free = (icv.thread_limit - 1 - BUSY.load(Ordering::Relaxed)).max(0) as u32;
        size = size.min(free + 1);
    }
    size.max(1)
}

/// The parts of a region.
pub(crate) struct Region {
    pub(crate) function: Function,
    pub(crate) size: u32,
    pub(crate) bind: u8,
    pub(crate) begins: Option<LoopStart>,
    pub(crate) group: *mut Group,
}

/// The thread has no pool for regions of this depth yet.
#[cold]
#[inline(never)]
fn add_pool(thread: &mut Thread, depth: usize) {
    // Takes over the pools of an ended thread, if this one has none yet. The threads of a region take none: they never
    // end.
    if depth == 0 && thread.team().nesting.level.get() == 0 {
        thread.pools = crate::process::left_pools();
    }
    if thread.pools.len() == depth {
        thread.pools.push(Pool::new());
    }
}

/// Runs a region on `size` threads, the calling one among them.
pub(crate) fn run(region: Region) {
    let Region { function, mut size, bind, begins, group } = region;
    let _errno = KeepErrno::new();
    let thread = here();
    let outer_team = thread.team();
    let mut icv = thread.task().icv;
    let depth = thread.depth;
    if thread.pools.len() == depth {
        add_pool(thread, depth);
    }
    // The plan first: its registration with the kernel takes long if the process has several threads. A clause has no
    // effect if threads are not to be bound.
    let policy = if bind != 0 && icv.bind != 0 { bind } else { icv.bind };
    let binding = if policy == 0 { None } else { Binding::of(thread, policy) };
    // A thread that others have called to their region has begun none, and is in one all the same.
    let is_outermost = outer_team.nesting.crowd.get() == 1;
    let crowd = outer_team.nesting.crowd.get().saturating_mul(size);
    let mut kind = Kind { size, binding, is_outermost, is_crowded: size > 1 && crowd > settings::processors() };
    let pool = &mut thread.pools[depth];
    let mut team = pool.team(kind);
    if size > 1 {
        let had = pool.grow(size, is_outermost, thread.placing.free);
        if had < size {
            (size, kind.size) = (had, had);
            team = pool.team(kind);
        }
    }
    let level = outer_team.nesting.level.get() + 1;
    if let Some(&threads) = settings::get().threads_by_level.get(level as usize) {
        icv.threads = threads;
    }
    icv.bind = settings::get().binding.bind_by_level.get(level as usize).copied().unwrap_or(policy);
    let is_limited = icv.thread_limit != i32::MAX;
    if is_limited {
        BUSY.fetch_add(size as i32 - 1, Ordering::Relaxed);
    }
    team.is_busy.set(true);
    if team.nesting.crowd.get() != crowd {
        team.nesting.crowd.set(crowd);
    }
    team.nesting.level.set(level);
    team.nesting.active_level.set(outer_team.nesting.active_level.get() + u32::from(size > 1));
    team.nesting.outer.set(outer_team);
    team.nesting.outer_number.set(thread.number);
    team.start.function.set(function);
    team.start.begins.set(begins);
    team.start.icv.set(icv);
    team.start.group.set(group);
    team.start.league.set(thread.league);
    if settings::get().binding.displays_affinity {
        team.is_shown.set(thread.placing.shown != Some((level, size, binding)));
    }
    team.meetings.begin();
    let spins = if kind.is_crowded { 0 } else { settings::get().waiting.spins };
    // Regions beside it may be larger than this one.
    let spins_us = if is_outermost { spins_for(kind.is_crowded).1.as_micros() as u32 } else { 0 };
    for dock in &pool.docks[..size as usize - 1] {
        dock.team.set(team);
        dock.spins.store(spins, Ordering::Relaxed);
        dock.spins_us.store(spins_us, Ordering::Relaxed);
        dock.call();
    }
    thread.depth = depth + 1;
    let outer = thread.set_aside();
    enter(team, 0);
    let thread = here();
    if team.meetings.is_cancelled() {
        for (at, slot) in team.work.ring.iter().enumerate() {
            slot.reset(at as u64);
        }
        team.start.before.set((0, 0, thread.sharing.gathers));
        team.work.singles.store(0, Ordering::Relaxed);
    } else {
        team.start.before.set((thread.sharing.loops, thread.sharing.singles, thread.sharing.gathers));
    }
    thread.resume(outer);
    thread.depth = depth;
    team.is_busy.set(false);
    if is_limited {
        BUSY.fetch_sub(size as i32 - 1, Ordering::Relaxed);
    }
}

/// The thread takes part in a region.
fn enter(team: &Team, number: u32) {
    let own = &team.members[number as usize];
    // SAFETY: rule "Team": a member's cells are used by its own thread alone, and only between regions or in this
    // function.
    let task = unsafe { &mut *own.task.get() };
    let task = task.insert(Task {
        icv: team.start.icv.get(),
        is_final: false,
        is_explicit: false,
        group: team.start.group.get(),
    });
    let thread = here();
    thread.team = team;
    thread.number = number;
    thread.task = task;
    (thread.sharing.loops, thread.sharing.singles, thread.sharing.gathers) = team.start.before.get();
    thread.tasking.lead = 0;
    thread.tasking.has_events = false;
    thread.league = team.start.league.get();
    own.lead.store(0, Ordering::Relaxed);
    // SAFETY: rule "Team": a member's cells are used by its own thread alone, and only between regions or in this
    // function.
    let member = unsafe { &mut *own.member.get() };
    let member = member
        .get_or_insert_with(|| team.machine.as_ref().expect("a region's team has a plan").member(number as usize));
    thread.is_seated = true;
    thread.calls_tasks = team.size == 1 && !report::is_on() && !report::is_traced() && !settings::get().cancels;
    if let Some(binding) = team.binding {
        binding.bind(thread, team.size, number);
    }
    if let Some(bound) = &team.bound {
        bound.take_place(thread, number);
    }
    if settings::get().binding.displays_affinity {
        thread.placing.shown = Some((team.nesting.level.get(), team.size, team.binding));
        if team.is_shown.get() {
            crate::places::display();
        }
    }
    member.run(|| {
        if report::is_traced() {
            report::name(team.function_address());
        }
        let outer =
            report::is_on().then(|| report::spend(Spent::Region(team.function_address()), u64::from(number == 0)));
        call(team);
        report::waiting(end_region);
        if let Some(outer) = outer {
            report::spend(outer, 0);
        }
    });
    let thread = here();
    (thread.is_seated, thread.calls_tasks) = (false, false);
}

/// Runs a region's function as the calling thread.
#[inline]
fn call(team: &Team) {
    if let Some(begins) = team.start.begins.get() {
        crate::work::begin(here(), begins);
    }
    invoke(team.start.function.get());
}

/// Calls a region's function.
#[inline]
pub(crate) fn invoke(function: Function) {
    match function {
        // SAFETY: rule "Interface": the region's function is called with its data.
        Function::Gomp(function, data) => unsafe { function(data) },
        // SAFETY: rule "Interface": the function has `count` words of arguments, in an array of at least four.
        Function::Kmpc(function, count, arguments) => unsafe {
            let (id, number) = (here().id as i32, here().number as i32);
            crate::kmpc::fork::invoke(function, id, number, count, arguments);
        },
        Function::None => {}
    }
}

/// The end of a region: all threads of the team, and no task is left.
fn end_region() {
    let thread = here();
    let team = thread.team();
    if team.size == 1 && !thread.is_seated {
        return;
    }
    loop {
        gather();
        thread.sharing.gathers += 1;
        // In a cancelled region some threads come here while others are at an earlier barrier; they come once more.
        if !settings::get().cancels || team.meetings.was_end(thread.sharing.gathers) {
            break;
        }
    }
}

/// A barrier: all threads of the team, and no task is left. Whether the region was cancelled.
pub(crate) fn barrier() -> bool {
    let thread = here();
    if !thread.is_seated {
        return false;
    }
    if crate::tasks::runs_all_as_calls(thread) && !settings::get().cancels {
        // It is alone, and none of its tasks is left.
        thread.sharing.gathers += 1;
        return false;
    }
    let _errno = KeepErrno::new();
    let team = thread.team();
    let cancels = settings::get().cancels;
    if cancels {
        team.meetings.come_within(thread.sharing.gathers + 1);
    }
    report::waiting(gather);
    thread.sharing.gathers += 1;
    cancels && team.meetings.is_cancelled()
}
