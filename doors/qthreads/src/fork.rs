//! Threads: their creation, their state, and their end.

use crate::codes::{BADARGS, MALLOC_ERROR, NO_SHEPHERD, NON_TASK_ID, NOT_ALLOWED, SUCCESS};
use crate::exports;
use crate::library::{self, Library};
use crate::recording;
use crate::sinc::{Sinc, qt_sinc_submit};
use std::cell::{Cell, UnsafeCell};
use std::io::Write as _;
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use vicus::kit::team;
use vicus::threads::{Builder, SyncVar, full_empty};

/// The function of a thread.
pub(crate) type Function = unsafe extern "C-unwind" fn(*mut libc::c_void) -> u64;

/// A thread of a program before it runs: small, since hundreds of thousands may be queued. As a closure it fits into
/// the smallest cell of the runtime's.
struct Queued {
    f: Function,
    arg: *mut libc::c_void,
    ret: *mut libc::c_void,
    flags: u32,
}

// SAFETY: its pointers are the program's, which gives them to the thread.
unsafe impl Send for Queued {}

/// Fields needed by few threads.
struct Extra {
    /// How many words there are to wait for, and their addresses: from `malloc`, or null.
    preconditions: *mut usize,
    team: Option<Arc<Team>>,
    /// The copy of its argument.
    _copied: Copied,
}

// SAFETY: the list is from `malloc` and belongs to the thread; rule "Interface" for the words in it.
unsafe impl Send for Extra {}

impl Extra {
    const NONE: Extra = Extra { preconditions: ptr::null_mut(), team: None, _copied: Copied(ptr::null_mut()) };
}

/// A running thread of a program. It lies at the bottom of its stack.
pub(crate) struct Thread {
    pub(crate) ret: *mut libc::c_void,
    pub(crate) team: Option<Arc<Team>>,
    /// [`NON_TASK_ID`] until it asks: so the numbers of asking threads are small, and programs use them as indices.
    id: Cell<u32>,
    pub(crate) is_blocking: Cell<bool>,
    /// Stands in for its worker meanwhile.
    pub(crate) lent: Cell<Option<team::StandIn>>,
    /// Whether its function has returned; counted once.
    is_done: Cell<bool>,
    locals: Cell<*mut libc::c_void>,
    pub(crate) locals_bytes: Cell<u32>,
    /// Values of keys.
    pub(crate) values: UnsafeCell<Vec<(usize, *mut libc::c_void)>>,
}

/// Flags, by the names of the header.
mod flags {
    pub(super) const NEW_TEAM: u32 = 1 << 2;
    pub(super) const NEW_SUBTEAM: u32 = 1 << 3;
    pub(super) const RET_SYNCVAR: u32 = 1 << 4;
    pub(super) const RET_SINC: u32 = 1 << 5;
    pub(super) const RET_SINC_VOID: u32 = 1 << 6;
    pub(super) const PRECONDITIONS_SYNCVAR: u32 = 1 << 7;
}

/// Threads whose leader ends after all of them.
pub(crate) struct Team {
    pub(crate) id: u32,
    pub(crate) parent: u32,
    /// Open members, and leaders of subteams.
    open: AtomicU64,
    /// Full when there is none.
    done: AtomicU64,
    above: Option<Arc<Team>>,
    /// A lock of the team's.
    pub(crate) critical: AtomicU64,
}

impl Team {
    fn leave(&self) {
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            full_empty::fill(&self.done);
        }
    }

    /// The counted member, or leader, was not forked.
    #[cold]
    fn forget(&self, flags: u32) {
        if flags & (flags::NEW_TEAM | flags::NEW_SUBTEAM) == 0 {
            return self.leave();
        }
        full_empty::fill(&self.done);
        if let Some(above) = &self.above {
            above.leave();
        }
    }

    /// The leader has run: waits for the others.
    fn finish(&self) {
        self.leave();
        full_empty::read_ff(&self.done);
        if let Some(above) = &self.above {
            above.leave();
        }
    }
}

impl Drop for Team {
    /// Its leader may have been unwound: the word does not stay empty for the next use of its memory.
    fn drop(&mut self) {
        full_empty::fill(&self.done);
    }
}

/// The main thread, as others see theirs.
struct Main(UnsafeCell<Thread>);

// SAFETY: rule "Thread": the main thread alone uses it.
unsafe impl Sync for Main {}

static MAIN: Main = Main(UnsafeCell::new(Thread::new(ptr::null_mut(), None)));

/// The thread running the calling code; `None` outside of the library's threads.
#[inline]
pub(crate) fn here() -> Option<&'static Thread> {
    match team::word() {
        Some(0) => None,
        // SAFETY: rule "Thread": a thread sets its word to the address of its own `Thread`, before other code runs on
        // it.
        Some(word) => Some(unsafe { &*ptr::with_exposed_provenance(word) }),
        // SAFETY: rule "Thread": code on a seat without a word is the main thread's.
        None => team::seat().map(|_| unsafe { &*MAIN.0.get() }),
    }
}

/// The main thread leaves the library.
pub(crate) fn end_main() {
    // SAFETY: rule "Thread": the main thread calls it.
    let main = unsafe { &*MAIN.0.get() };
    main.drop_locals();
    main.id.set(NON_TASK_ID);
    // An open blocking action belongs to the ended library.
    main.is_blocking.set(false);
    main.lent.set(None);
}

impl Thread {
    const fn new(ret: *mut libc::c_void, team: Option<Arc<Team>>) -> Thread {
        Thread {
            ret,
            team,
            id: Cell::new(NON_TASK_ID),
            is_blocking: Cell::new(false),
            lent: Cell::new(None),
            is_done: Cell::new(false),
            locals: Cell::new(ptr::null_mut()),
            locals_bytes: Cell::new(0),
            values: UnsafeCell::new(Vec::new()),
        }
    }

    /// Its number. Threads are numbered in the order of their first questions, from 1.
    pub(crate) fn id(&self) -> u32 {
        if self.id.get() == NON_TASK_ID
            && let Some(library) = library::get()
        {
            self.id.set(library.new_id());
        }
        self.id.get()
    }

    /// At least `bytes` bytes of its own.
    pub(crate) fn locals(&self, bytes: u32) -> *mut libc::c_void {
        if self.locals.get().is_null() || self.locals_bytes.get() < bytes {
            // SAFETY: rule "System": null, or memory of an earlier call.
            let grown = unsafe { libc::realloc(self.locals.get(), bytes as usize) };
            if grown.is_null() {
                return grown;
            }
            let before = self.locals_bytes.get() as usize;
            // SAFETY: the memory has `bytes` bytes, which are more than before.
            unsafe { ptr::write_bytes(grown.cast::<u8>().add(before), 0, bytes as usize - before) };
            self.locals.set(grown);
            self.locals_bytes.set(bytes);
        }
        self.locals.get()
    }

    /// Its function has returned; it tells others next.
    #[inline]
    pub(crate) fn finish(&self) {
        if !self.is_done.replace(true)
            && let Some(library) = library::get()
        {
            library.count_done();
        }
    }

    fn drop_locals(&self) {
        crate::io::drop_values(self);
        // SAFETY: rule "System": null, or memory of `locals`.
        unsafe { libc::free(self.locals.replace(ptr::null_mut())) };
        self.locals_bytes.set(0);
    }
}

impl Drop for Thread {
    /// The thread may be unwinding.
    fn drop(&mut self) {
        self.finish();
    }
}

impl Queued {
    /// Waits until all words of its preconditions are full.
    ///
    /// # Safety
    /// Rule "Interface": the list of [`are_words`], from `malloc`, which is freed here.
    #[cold]
    unsafe fn wait_for_preconditions(&self, words: *mut usize) {
        // SAFETY: the caller's promise; rule "Words".
        unsafe {
            for index in 1..=*words {
                let address: *mut u64 = ptr::with_exposed_provenance_mut(*words.add(index));
                if self.flags & flags::PRECONDITIONS_SYNCVAR != 0 {
                    SyncVar::at(address).read_ff();
                } else if let Ok(word) = full_empty::word_at(address) {
                    full_empty::read_ff(word);
                }
            }
            libc::free(words.cast());
        }
    }

    #[inline]
    fn run(self, extra: Extra) {
        let Extra { preconditions, team, _copied } = extra;
        let thread = Thread::new(self.ret, team);
        team::set_word(ptr::from_ref(&thread).expose_provenance());
        if !preconditions.is_null() {
            // SAFETY: `try_spawn` has looked at the list, which belongs to the thread.
            unsafe { self.wait_for_preconditions(preconditions) };
        }
        recording::name(self.f);
        // SAFETY: rule "Interface": the thread's function, with its argument.
        let value = unsafe { (self.f)(self.arg) };
        // SAFETY: rule "Thread": no other reference to its values lasts.
        if !thread.locals.get().is_null() || unsafe { !(*thread.values.get()).is_empty() } {
            thread.drop_locals();
        }
        if let Some(team) = &thread.team {
            let is_leader = self.flags & (flags::NEW_TEAM | flags::NEW_SUBTEAM) != 0;
            if is_leader { team.finish() } else { team.leave() }
        }
        thread.finish();
        // SAFETY: rule "Words": `prepare` has looked at the place.
        unsafe { give(self.ret, self.flags, value) };
    }
}

/// Goes to another shepherd. Whether it went.
#[inline(never)]
fn migrate(library: &Library, shepherd: u16) -> bool {
    // SAFETY: the program promises that nothing on its stack minds: it calls a function of this name, or has forked to
    // a shepherd.
    unsafe { vicus::threads::migrate_to(library.shepherds[usize::from(shepherd)].place) }.is_ok()
}

/// Whether all addresses behind the count are those of words.
///
/// # Safety
/// Rule "Interface": there are as many addresses behind the count as it says.
#[cold]
unsafe fn are_words(preconditions: *const usize) -> bool {
    // SAFETY: the caller's promise.
    let addresses = unsafe { slice::from_raw_parts(preconditions.add(1), *preconditions) };
    addresses.iter().all(|&address| address != 0 && address.is_multiple_of(8))
}

/// Empties the place for a result. Whether it was full; `None` if it is no place.
///
/// # Safety
/// Rule "Words": null, or a place as the flags say.
unsafe fn prepare(ret: *mut libc::c_void, flags: u32) -> Option<bool> {
    if ret.is_null() || flags & (flags::RET_SINC | flags::RET_SINC_VOID) != 0 {
        return Some(false);
    }
    // SAFETY: the caller's promise.
    let word = unsafe { full_empty::word_at(ret.cast()) }.ok()?;
    let is_syncvar = flags & flags::RET_SYNCVAR != 0;
    // SAFETY: as above; the address is that of a word.
    Some(if is_syncvar { unsafe { SyncVar::at(ret.cast()) }.make_empty() } else { full_empty::empty(word) })
}

/// The thread was not forked: fills the place for its result again, as it was.
///
/// # Safety
/// [`prepare`] has emptied it.
#[cold]
unsafe fn restore(ret: *mut libc::c_void, flags: u32) {
    // SAFETY: the caller's promise; rule "Words".
    unsafe {
        if flags & flags::RET_SYNCVAR != 0 {
            SyncVar::at(ret.cast()).fill();
        } else if let Ok(word) = full_empty::word_at(ret.cast()) {
            full_empty::fill(word);
        }
    }
}

/// Writes a result to its place.
///
/// # Safety
/// Rule "Words": null, or a place as the flags say.
unsafe fn give(ret: *mut libc::c_void, flags: u32, value: u64) {
    if ret.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if flags & flags::RET_SYNCVAR != 0 {
            SyncVar::at(ret.cast()).write_f(value & SyncVar::MOST);
        } else if flags & flags::RET_SINC != 0 {
            qt_sinc_submit(ret.cast::<Sinc>(), ptr::from_ref(&value).cast());
        } else if flags & flags::RET_SINC_VOID != 0 {
            qt_sinc_submit(ret.cast::<Sinc>(), ptr::null());
        } else if let Ok(word) = full_empty::word_at(ret.cast()) {
            full_empty::write_f(word, value);
        }
    }
}

/// The team of a new thread.
fn team_of_child(library: &Library, flags: u32) -> Option<Arc<Team>> {
    let own = here().and_then(|thread| thread.team.as_ref());
    if flags & (flags::NEW_TEAM | flags::NEW_SUBTEAM) == 0 {
        let own = own?;
        own.open.fetch_add(1, Ordering::Relaxed);
        return Some(Arc::clone(own));
    }
    let above = own.filter(|_| flags & flags::NEW_SUBTEAM != 0);
    if let Some(above) = above {
        above.open.fetch_add(1, Ordering::Relaxed);
    }
    let parent = if flags & flags::NEW_SUBTEAM != 0 { own.map_or(1, |own| own.id) } else { 0 };
    let team = Arc::new(Team {
        id: library.next_team.fetch_add(1, Ordering::Relaxed),
        parent,
        open: AtomicU64::new(1),
        done: AtomicU64::new(0),
        above: above.cloned(),
        critical: AtomicU64::new(0),
    });
    full_empty::empty(&team.done);
    Some(team)
}

/// The arguments of a fork.
#[derive(Clone, Copy)]
pub(crate) struct Forked {
    pub(crate) f: Option<Function>,
    pub(crate) arg: *const libc::c_void,
    pub(crate) bytes: usize,
    pub(crate) ret: *mut libc::c_void,
    pub(crate) preconditions: *mut usize,
    pub(crate) shepherd: u16,
    pub(crate) flags: u32,
}

/// Memory to free when a thread has run.
struct Copied(*mut libc::c_void);

// SAFETY: memory of `malloc`, which belongs to the thread.
unsafe impl Send for Copied {}

impl Drop for Copied {
    fn drop(&mut self) {
        // SAFETY: rule "System": null, or memory of `malloc`, freed once.
        unsafe { libc::free(self.0) };
    }
}

/// Forks a thread.
///
/// # Safety
/// Rule "Interface": the arguments of a fork. The list of preconditions is from `malloc`, and is handed over.
unsafe fn spawn(forked: Forked) -> i32 {
    // SAFETY: the caller's promise. The list is freed by the thread, if there is one.
    unsafe {
        let code = try_spawn(forked);
        if code != SUCCESS {
            libc::free(forked.preconditions.cast());
        }
        code
    }
}

/// # Safety
/// The rule of [`spawn`]; the list is handed over if the thread is forked.
#[inline]
unsafe fn try_spawn(forked: Forked) -> i32 {
    let Forked { f, arg, bytes, ret, preconditions, shepherd, flags } = forked;
    let Some(library) = library::get() else { return NOT_ALLOWED };
    let Some(f) = f else { return BADARGS };
    // SAFETY: the caller's promise.
    if !preconditions.is_null() && unsafe { !are_words(preconditions) } {
        return BADARGS;
    }
    let mut copied = Copied(ptr::null_mut());
    let mut arg = arg.cast_mut();
    if bytes > 0 && !arg.is_null() {
        // SAFETY: rule "System": no condition.
        copied.0 = unsafe { libc::malloc(bytes) };
        if copied.0.is_null() {
            return MALLOC_ERROR;
        }
        // SAFETY: the caller's promise: the argument has this number of bytes, and so has the new memory.
        unsafe { ptr::copy_nonoverlapping(arg.cast::<u8>(), copied.0.cast(), bytes) };
        arg = copied.0;
    }
    // SAFETY: the caller's promise.
    let Some(was_full) = (unsafe { prepare(ret, flags) }) else { return BADARGS };
    let shepherd = if shepherd == NO_SHEPHERD { library.shepherd_for_any() } else { library.enabled_near(shepherd) };
    let team = team_of_child(library, flags);
    let thread = Queued { f, arg, ret, flags };
    let is_plain = copied.0.is_null() && preconditions.is_null() && team.is_none();
    let spawned = if is_plain {
        spawn_closure(library, shepherd, move || thread.run(Extra::NONE))
    } else {
        let extra = Extra { preconditions, team: team.clone(), _copied: copied };
        let spawned = spawn_closure(library, shepherd, move || thread.run(extra));
        if !spawned && let Some(team) = team {
            team.forget(flags);
        }
        spawned
    };
    if spawned {
        return SUCCESS;
    }
    if was_full {
        // SAFETY: it was emptied above.
        unsafe { restore(ret, flags) };
    }
    MALLOC_ERROR
}

/// The border of a thread, while the program's code runs on it.
struct Border;

impl Drop for Border {
    /// Runs when the border is unwound. A panic is the runtime's: it ends a wait, and goes on to the thread's bottom;
    /// any other exception can't be caught there.
    fn drop(&mut self) {
        if !thread::panicking() {
            leave_by_exception();
        }
    }
}

#[cold]
fn leave_by_exception() -> ! {
    let id = here().map_or(NON_TASK_ID, Thread::id);
    // A standard error that takes nothing is no reason to go on.
    let _ = writeln!(
        std::io::stderr(),
        "vicus: an exception has left the function of thread {id}, where no function of C++ catches it: the program \
            ends"
    );
    std::process::abort()
}

/// Spawns a closure as a thread, at a shepherd if it is one.
#[inline]
pub(crate) fn spawn_closure(library: &Library, shepherd: u16, f: impl FnOnce() + Send + 'static) -> bool {
    let f = || {
        let border = Border;
        f();
        std::mem::forget(border);
    };
    let builder = Builder::new().stack_size(library.stack_bytes);
    if shepherd == NO_SHEPHERD {
        // SAFETY: a thread's stack holds data of this library, which keeps nothing of a thread of the system across a
        // wait, and data of the program, which expects the move: with Qthreads, too, a waiting thread goes on with the
        // worker of the thread that wakes it.
        let builder = unsafe { builder.follow() };
        return builder.try_detached_on(library.runtime(), f).is_ok();
    }
    let there = move || {
        go_to(shepherd);
        f();
    };
    builder.place(library.shepherds[usize::from(shepherd)].place).try_detached_on(library.runtime(), there).is_ok()
}

/// The calling thread, if it was made by [`spawn_part`], has done its part, and tells others next.
pub(crate) fn finish_part() {
    if let Some(thread) = here() {
        thread.finish();
    }
}

/// [`spawn_closure`] for a thread of a loop: the program's code on it may use its own threads' functions.
pub(crate) fn spawn_part(library: &Library, shepherd: u16, f: impl FnOnce() + Send + 'static) -> bool {
    spawn_closure(library, shepherd, move || {
        let thread = Thread::new(ptr::null_mut(), None);
        team::set_word(ptr::from_ref(&thread).expose_provenance());
        f();
        thread.drop_locals();
    })
}

/// Goes to the shepherd of the fork, if the strategy has begun the thread elsewhere: many have no queue for each place.
#[inline]
fn go_to(shepherd: u16) {
    if let Some(library) = library::get()
        && library.worker().is_some_and(|worker| worker.shepherd != shepherd)
    {
        migrate(library, shepherd);
    }
}

/// A fork without the rare arguments.
const PLAIN: Forked = Forked {
    f: None,
    arg: ptr::null(),
    bytes: 0,
    ret: ptr::null_mut(),
    preconditions: ptr::null_mut(),
    shepherd: NO_SHEPHERD,
    flags: 0,
};

/// Functions that fork a thread.
macro_rules! forks {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) { $forked:expr })*) => {
        exports! {$(
            fn $name($($argument: $type),*) -> i32 {
                // SAFETY: rule "Interface": the arguments of a fork.
                unsafe { spawn($forked) }
            }
        )*}
    };
}

forks! {
    fn qthread_spawn(
        f: Option<Function>,
        arg: *const libc::c_void,
        bytes: usize,
        ret: *mut libc::c_void,
        _count: usize,
        preconditions: *mut libc::c_void,
        shepherd: u16,
        flags: u32,
    ) {
        Forked { f, arg, bytes, ret, preconditions: preconditions.cast(), shepherd, flags }
    }

    fn qthread_fork(f: Option<Function>, arg: *const libc::c_void, ret: *mut u64) {
        Forked { f, arg, ret: ret.cast(), ..PLAIN }
    }

    fn qthread_fork_net(f: Option<Function>, arg: *const libc::c_void, ret: *mut u64) {
        Forked { f, arg, ret: ret.cast(), ..PLAIN }
    }

    fn qthread_fork_to(f: Option<Function>, arg: *const libc::c_void, ret: *mut u64, shepherd: u16) {
        Forked { f, arg, ret: ret.cast(), shepherd, ..PLAIN }
    }

    fn qthread_fork_syncvar(f: Option<Function>, arg: *const libc::c_void, ret: *mut u64) {
        Forked { f, arg, ret: ret.cast(), flags: flags::RET_SYNCVAR, ..PLAIN }
    }

    fn qthread_fork_syncvar_to(f: Option<Function>, arg: *const libc::c_void, ret: *mut u64, shepherd: u16) {
        Forked { f, arg, ret: ret.cast(), shepherd, flags: flags::RET_SYNCVAR, ..PLAIN }
    }

    fn qthread_fork_copyargs(f: Option<Function>, arg: *const libc::c_void, bytes: usize, ret: *mut u64) {
        Forked { f, arg, bytes, ret: ret.cast(), ..PLAIN }
    }

    fn qthread_fork_copyargs_to(
        f: Option<Function>,
        arg: *const libc::c_void,
        bytes: usize,
        ret: *mut u64,
        shepherd: u16,
    ) {
        Forked { f, arg, bytes, ret: ret.cast(), shepherd, ..PLAIN }
    }

    fn qthread_fork_syncvar_copyargs(
        f: Option<Function>,
        arg: *const libc::c_void,
        bytes: usize,
        ret: *mut u64,
    ) {
        Forked { f, arg, bytes, ret: ret.cast(), flags: flags::RET_SYNCVAR, ..PLAIN }
    }

    fn qthread_fork_syncvar_copyargs_simple(
        f: Option<Function>,
        arg: *const libc::c_void,
        bytes: usize,
        ret: *mut u64,
    ) {
        Forked { f, arg, bytes, ret: ret.cast(), flags: flags::RET_SYNCVAR, ..PLAIN }
    }
}

exports! {
    fn qthread_call_method(f: Option<Function>, arg: *mut libc::c_void, ret: *mut libc::c_void, flags: u16) {
        if let Some(f) = f {
            // SAFETY: rule "Interface": a thread's function with its argument, and rule "Words": a place for its
            // result.
            unsafe { give(ret, u32::from(flags), f(arg)) };
        }
    }

    fn qthread_migrate_to(shepherd: u16) -> i32 {
        let Some(library) = library::get() else { return NOT_ALLOWED };
        let Some(worker) = library.worker() else { return NOT_ALLOWED };
        let Some(wanted) = library.shepherds.get(usize::from(shepherd)) else { return BADARGS };
        if worker.shepherd == shepherd {
            // It is to stay there.
            migrate(library, shepherd);
            return SUCCESS;
        }
        if !wanted.is_enabled.load(Ordering::Relaxed) || !vicus::threads::is_thread() {
            return NOT_ALLOWED;
        }
        if migrate(library, shepherd) { SUCCESS } else { NOT_ALLOWED }
    }

    fn qthread_yield_(_kind: i32) {
        team::help();
    }

    fn qt_team_critical_section(boundary: u32) {
        static OF_NO_TEAM: AtomicU64 = AtomicU64::new(0);
        let team = here().and_then(|thread| thread.team.as_ref());
        let word = team.map_or(&OF_NO_TEAM, |team| &team.critical);
        if boundary == 0 {
            full_empty::lock(word);
        } else {
            full_empty::fill(word);
        }
    }
}
