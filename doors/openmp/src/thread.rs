//! The library's state of a thread, and of its running task.
//!
//! Each thread has one word of its own, found without a call (the initial-exec model of thread-local storage): a
//! pointer to its [`Thread`]. It is made when the thread first calls the library.

use crate::settings::{self, Schedule};
use crate::team::{Pool, Team};
use crate::work::Loop;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use vicus::tasks::Access;

/// The settings of a task, its *internal control variables*: a copy of its maker's at that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Icv {
    /// How many threads a region gets.
    pub(crate) threads: i32,
    pub(crate) max_active_levels: i32,
    pub(crate) thread_limit: i32,
    /// The schedule of `schedule(runtime)` loops.
    pub(crate) schedule: Schedule,
    pub(crate) is_dynamic: bool,
    pub(crate) bind: u8,
    pub(crate) default_device: i32,
}

/// A running task, implicit or explicit.
#[repr(C)]
pub(crate) struct Task {
    pub(crate) icv: Icv,
    pub(crate) is_final: bool,
    pub(crate) is_explicit: bool,
    /// The innermost taskgroup around it, or null.
    pub(crate) group: *mut Group,
}

impl Task {
    /// The first task of a thread.
    fn initial() -> Task {
        Task { icv: settings::get().icv, is_final: false, is_explicit: false, group: ptr::null_mut() }
    }
}

impl Task {
    /// A new explicit child of this task.
    #[inline(always)]
    pub(crate) fn child(&self, is_final: bool) -> Task {
        Task { icv: self.icv, is_final, is_explicit: true, group: self.group }
    }
}

/// A taskgroup.
pub(crate) struct Group {
    pub(crate) outer: *mut Group,
    pub(crate) is_cancelled: AtomicBool,
    /// gcc's reductions: the first of a chain of descriptions, or null.
    pub(crate) reductions: Cell<*mut usize>,
    /// clang's.
    pub(crate) kmp: Cell<*mut crate::reductions::Reductions>,
    /// Whether the machine's tasks are in a group, too.
    pub(crate) is_open: bool,
    /// Whether a loop or a region has opened it, for its reductions.
    pub(crate) is_implicit: Cell<bool>,
}

/// A thread.
pub(crate) struct Thread {
    /// The current team. Never null.
    pub(crate) team: *const Team,
    /// Its number there.
    pub(crate) number: u32,
    /// Whether it sits on a seat of its team, so tasks can be queued.
    pub(crate) is_seated: bool,
    /// Whether it is alone in its team, and its tasks need no report and no cancellation: it calls them, as long as
    /// none is queued.
    pub(crate) calls_tasks: bool,
    /// The running task.
    pub(crate) task: *mut Task,
    pub(crate) sharing: Sharing,
    pub(crate) tasking: Tasking,
    pub(crate) placing: Placing,
    pub(crate) next: NextRegion,
    /// The threads of its regions, by depth: first of the outermost regions, then of the regions within these, and so
    /// on.
    pub(crate) pools: Vec<Pool>,
    /// How many of its regions have begun and not ended.
    pub(crate) depth: usize,
    /// Its number among all threads.
    pub(crate) id: u32,
    /// Its number among host teams, and how many they are.
    pub(crate) league: (u32, u32),
    pub(crate) initial_task: Task,
    /// Regions of one thread that compilers begin and end with separate calls.
    pub(crate) serialized: Vec<crate::kmpc::fork::Serialized>,
    /// The account of its time, or null: see [`crate::report`].
    pub(crate) account: *const crate::report::Account,
    /// A word for a tool.
    pub(crate) tool_data: u64,
    /// clang's `threadprivate` memory of the thread, by the address of the variable.
    pub(crate) private: Vec<(*mut u8, *mut u8)>,
}

/// A thread's part in loops, and in what its team shares in a region.
pub(crate) struct Sharing {
    /// The program's address of the call that begins the next loop; 0 if it is unknown.
    pub(crate) caller: usize,
    /// How many loops and the like it has come to in this region.
    pub(crate) loops: u64,
    /// How many `single` it has come to in this region.
    pub(crate) singles: u64,
    /// How often it has waited for its team in this region.
    pub(crate) gathers: u64,
    /// The current loop.
    pub(crate) work: Loop,
    /// The current loop with dependences between iterations.
    pub(crate) across: Loop,
}

impl Sharing {
    /// Outside of loops.
    fn new(caller: usize, loops: u64, singles: u64, gathers: u64) -> Sharing {
        Sharing { caller, loops, singles, gathers, work: Loop::none(), across: Loop::none() }
    }
}

/// A thread's explicit tasks.
pub(crate) struct Tasking {
    /// How many more tasks it has made than run.
    pub(crate) lead: i64,
    /// How many of the next tasks are run at once because enough were queued.
    pub(crate) full_for: u32,
    /// How many tasks stand on top of their makers, in teams of one thread.
    pub(crate) stacked: u32,
    /// How many tasks, the innermost ones on its stack, run as calls unknown to its seat: they have no children.
    pub(crate) untold: u32,
    /// The stacked tasks known to its seat, as children on top of their parents. Behind each stand only others.
    pub(crate) told: Vec<vicus::kit::team::Included>,
    /// While the program is traced: the functions of the tasks that run as calls.
    pub(crate) called: Vec<usize>,
    /// Tasks that compilers begin and end with separate calls.
    pub(crate) included: Vec<(Option<vicus::kit::team::Included>, *mut Task)>,
    /// Whether a task of this region waits for an event, or has.
    pub(crate) has_events: bool,
    /// Outside of all regions: the events of tasks with ended blocks, each with its task's maker.
    pub(crate) awaited: Vec<(*mut Task, *const crate::tasks::Event)>,
    /// clang's last task with an event, and what an undeferred one has waited for since then: those that follow it wait
    /// for the event, too.
    pub(crate) detached: (*mut crate::kmpc::KmpTask, Vec<Access>),
    /// Free memory for tasks.
    pub(crate) memory: crate::records::Memory,
    /// Free memory for the clauses of one task.
    spare_accesses: Vec<Access>,
}

/// Where a thread runs, and where threads of its regions may.
pub(crate) struct Placing {
    /// Its place, if it is bound, or -1.
    pub(crate) place: i32,
    /// The places of the team it took its own from, if it is bound by default ([`crate::bound`]); and its processors
    /// before.
    pub(crate) bound: *const crate::bound::Bound,
    pub(crate) free: Option<libc::cpu_set_t>,
    /// Its last region, if affinity is shown: the level, the number of threads, and their binding.
    pub(crate) shown: Option<(u32, u32, Option<crate::places::Binding>)>,
    /// The places allowed for threads of its regions; none: all.
    pub(crate) partition: crate::places::Partition,
}

/// clang's clauses for a thread's next region.
#[derive(Default)]
pub(crate) struct NextRegion {
    pub(crate) threads: u32,
    pub(crate) bind: u8,
    pub(crate) teams: (u32, u32),
}

/// The fields that a thread sets aside while it is in another region.
pub(crate) struct Outer {
    team: *const Team,
    number: u32,
    is_seated: bool,
    calls_tasks: bool,
    task: *mut Task,
    sharing: Sharing,
    lead: i64,
    untold: u32,
    has_events: bool,
    partition: crate::places::Partition,
}

impl Thread {
    /// An empty list.
    #[inline]
    pub(crate) fn accesses(&mut self) -> Vec<Access> {
        std::mem::take(&mut self.tasking.spare_accesses)
    }

    /// The next empty list has the memory of this one.
    #[inline]
    pub(crate) fn keep_accesses(&mut self, mut accesses: Vec<Access>) {
        const MOST_KEPT: usize = 256;
        if (1..=MOST_KEPT).contains(&accesses.capacity()) {
            accesses.clear();
            self.tasking.spare_accesses = accesses;
        }
    }

    fn new() -> Box<Thread> {
        static IDS: AtomicU32 = AtomicU32::new(0);
        let mut thread = Box::new(Thread {
            team: Box::leak(Box::new(Team::initial())),
            number: 0,
            is_seated: false,
            calls_tasks: false,
            task: ptr::null_mut(),
            sharing: Sharing::new(0, 0, 0, 0),
            tasking: Tasking {
                lead: 0,
                full_for: 0,
                stacked: 0,
                untold: 0,
                told: Vec::new(),
                called: Vec::new(),
                included: Vec::new(),
                has_events: false,
                awaited: Vec::new(),
                detached: (ptr::null_mut(), Vec::new()),
                memory: crate::records::Memory::new(),
                spare_accesses: Vec::new(),
            },
            placing: Placing { place: -1, bound: ptr::null(), free: None, shown: None, partition: (0, 0) },
            next: NextRegion::default(),
            pools: Vec::new(),
            depth: 0,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            league: (0, 1),
            initial_task: Task::initial(),
            serialized: Vec::new(),
            account: ptr::null(),
            tool_data: 0,
            private: Vec::new(),
        });
        thread.task = &raw mut thread.initial_task;
        thread
    }

    /// Resets a thread of a pool to its first state, in its first team.
    pub(crate) fn leave_teams(&mut self, initial: *const Team) {
        self.team = initial;
        (self.is_seated, self.calls_tasks) = (false, false);
        self.task = &raw mut self.initial_task;
        self.placing.bound = ptr::null();
    }

    /// Its team.
    #[inline]
    pub(crate) fn team<'a>(&self) -> &'a Team {
        // SAFETY: rule "Team": the team of a thread lives as long as the thread is in it; `None` is never there, since
        // a thread begins in its initial one.
        unsafe { &*self.team }
    }

    /// The running task.
    #[inline]
    pub(crate) fn task<'a>(&self) -> &'a mut Task {
        // SAFETY: rule "Thread": the running task lies on this thread's stack, in its record or in the thread itself
        // until it ends, and the thread alone uses it.
        unsafe { &mut *self.task }
    }

    pub(crate) fn set_aside(&mut self) -> Outer {
        let Sharing { caller, loops, singles, gathers, .. } = self.sharing;
        let within = Sharing::new(caller, loops, singles, gathers);
        Outer {
            team: self.team,
            number: self.number,
            is_seated: self.is_seated,
            calls_tasks: self.calls_tasks,
            task: self.task,
            sharing: std::mem::replace(&mut self.sharing, within),
            lead: self.tasking.lead,
            untold: std::mem::take(&mut self.tasking.untold),
            has_events: self.tasking.has_events,
            partition: self.placing.partition,
        }
    }

    pub(crate) fn resume(&mut self, outer: Outer) {
        self.team = outer.team;
        self.number = outer.number;
        self.is_seated = outer.is_seated;
        self.calls_tasks = outer.calls_tasks;
        self.task = outer.task;
        let caller = self.sharing.caller;
        self.sharing = Sharing { caller, ..outer.sharing };
        self.tasking.lead = outer.lead;
        self.tasking.untold = outer.untold;
        self.tasking.has_events = outer.has_events;
        self.placing.partition = outer.partition;
    }
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .tbss.vicus_omp_thread,\"awT\",@nobits",
    ".p2align 3",
    ".hidden vicus_omp_thread",
    ".globl vicus_omp_thread",
    ".type vicus_omp_thread, @object",
    ".size vicus_omp_thread, 8",
    "vicus_omp_thread:",
    ".zero 8",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn word() -> *mut Thread {
    let thread;
    // SAFETY: reads the thread's own word; the linker has given it its place among the thread's data.
    unsafe {
        core::arch::asm!(
            "mov {thread}, qword ptr [rip + vicus_omp_thread@GOTTPOFF]",
            "mov {thread}, qword ptr fs:[{thread}]",
            thread = out(reg) thread,
            options(nostack, readonly, preserves_flags),
        );
    }
    thread
}

#[cfg(target_arch = "x86_64")]
fn set_word(thread: *mut Thread) {
    // SAFETY: writes the thread's own word, as `word` reads it.
    unsafe {
        core::arch::asm!(
            "mov {at}, qword ptr [rip + vicus_omp_thread@GOTTPOFF]",
            "mov qword ptr fs:[{at}], {thread}",
            at = out(reg) _,
            thread = in(reg) thread,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
thread_local! {
    static WORD: Cell<*mut Thread> = const { Cell::new(ptr::null_mut()) };
}

#[cfg(not(target_arch = "x86_64"))]
fn word() -> *mut Thread {
    WORD.get()
}

#[cfg(not(target_arch = "x86_64"))]
fn set_word(thread: *mut Thread) {
    WORD.set(thread);
}

/// The calling thread. The reference is for one function, which runs no code of the program while it uses it.
#[inline(always)]
pub(crate) fn here<'a>() -> &'a mut Thread {
    let thread = word();
    // SAFETY: rule "Thread": the word is the address of the calling thread's own `Thread`, which stays until
    // `process::ends` has reset the word.
    if thread.is_null() { first() } else { unsafe { &mut *thread } }
}

/// The first call of a thread.
#[cold]
#[inline(never)]
fn first<'a>() -> &'a mut Thread {
    let _errno = crate::wait::KeepErrno::new();
    let thread = Box::into_raw(Thread::new());
    set_word(thread);
    KNOWN.fetch_add(1, Ordering::Relaxed);
    crate::process::watch_end(thread);
    crate::tool::begin();
    // SAFETY: rule "Thread": it was made here for the calling thread, and is used by no other.
    unsafe { &mut *thread }
}

/// How many threads there are that have called the library.
static KNOWN: AtomicI32 = AtomicI32::new(0);

pub(crate) fn known() -> i32 {
    here();
    KNOWN.load(Ordering::Relaxed)
}

/// The thread ends.
pub(crate) fn ends() {
    KNOWN.fetch_sub(1, Ordering::Relaxed);
}

/// Forgets the thread: it has ended, or a new process has begun with it.
pub(crate) fn forget() {
    set_word(ptr::null_mut());
}

/// A new process has begun with the calling thread: it has had no region, and its settings are as they were.
pub(crate) fn begin_anew() {
    let old = word();
    forget();
    KNOWN.store(0, Ordering::Relaxed);
    // SAFETY: rule "Thread": the child's one thread is the copy of the thread with this state, which stays allocated.
    if let Some(old) = unsafe { old.as_ref() } {
        first().task().icv = old.task().icv;
    }
}

/// The number of the library's threads in regions, without the threads that came to them. Counted if there is a limit.
pub(crate) static BUSY: AtomicI32 = AtomicI32::new(0);
