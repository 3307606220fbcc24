//! Lightweight threads: hundreds of thousands of them, each with a small stack, waiting without a thread of the system.
//!
//! [`spawn`] makes one; it is a task like any other until a thread of the runtime takes it and gives it a stack. From
//! then on it stays with this thread, unless it follows others ([`Builder::follow`]). It may wait for another one
//! ([`JoinHandle::join`]), for a full/empty bit ([`full_empty`]), for a time ([`sleep`]), for a future ([`block_on`]),
//! for a scope, a request, or a queue; then it is put aside, and the thread does something else. Threads of the system
//! block while they wait for lightweight ones; waiting tasks and boxes run other tasks meanwhile, as always.
//!
//! After Wheeler, Murphy, Thain, "Qthreads: An API for Programming with Millions of Lightweight Threads", MTAAP 2008.
//! We differ: a thread has no stack before it begins; guards are set once for each stack and not for each thread; a
//! woken thread is a task of the runtime's plan, under any strategy.
//!
//! ```
//! use vicus_machine::{Runtime, threads};
//!
//! let runtime = Runtime::builder().threads(2).start();
//! let sum: u64 = runtime.run(|| {
//!     let threads: Vec<_> = (0..100).map(|n| threads::spawn(move || { threads::yield_now(); n * n })).collect();
//!     threads.into_iter().map(|thread| thread.join().unwrap()).sum()
//! });
//! assert_eq!(sum, 328_350);
//! ```

mod block_on;
mod cells;
mod core;
mod countdown;
mod deadlock;
mod entries;
pub(crate) mod fibres;
pub mod full_empty;
mod lists;
mod local;
mod migrate;
mod moves;
mod sitting;
mod sync_var;
mod timer;

pub use self::block_on::block_on;
pub(crate) use self::cells::{SeatCells, give_back as give_back_cells};
pub(crate) use self::core::{Core, begin};
use self::core::{Described, Joiner, Name};
pub use self::countdown::Countdown;
pub use self::deadlock::Deadlock;
use self::deadlock::Watch;
use self::fibres::Fibre;
use self::full_empty::{Verdict, judge_waits};
pub use self::local::Local;
pub use self::migrate::{MigrateError, migrate_to};
use self::moves::Moves;
use self::sitting::help_before_wait;
pub use self::sitting::{Lent, Sitting, help, lend, seat, set_word, stack, wait_outside, word};
pub use self::sync_var::SyncVar;
pub use self::timer::sleep;
pub use crate::defaults::OnDeadlock;
use crate::runtime::worker::{AtOnce, Worker, in_task, is_seated, with_worker};
use crate::runtime::{Runtime, Shared};
use crate::sync::Padded;
use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use vicus_fibres::{CLASSES, Class, LEAST_BYTES, Record as _};
use vicus_schedule::{Kind, Put, QueueId, ReadyTask, SeatId, TaskHeader, TaskRef, Way};
use vicus_topology::{NoSuchPlace, Place, Topology};

/// Limits the bytes of the stacks of all lightweight threads of the process; by default memory is the limit. A thread
/// without a stack begins when another one has ended; a thread of a size without any stack, now or later, is not
/// spawned ([`SpawnError::NoStack`]). Existing stacks stay.
pub fn limit_stacks(bytes: usize) {
    Fibre::pools().set_limit(bytes);
}

/// The default stack size of a thread.
pub const STACK_BYTES: usize = 64 << 10;

/// Spawns a lightweight thread in the runtime of the calling task or thread. It is run soon and near.
///
/// ```
/// use vicus_machine::{Runtime, threads};
///
/// let runtime = Runtime::builder().threads(1).start();
/// assert_eq!(runtime.run(|| threads::spawn(|| 6 * 7).join().unwrap()), 42);
/// ```
///
/// # Panics
/// Outside of a runtime ([`is_in_runtime`](crate::is_in_runtime)): there, see [`Builder::spawn_on`].
#[track_caller]
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(f)
}

/// Like [`spawn`], run in the neighbourhood of its data: a node or a core group.
///
/// # Panics
/// As [`spawn`]; and if the machine has no such place, with its name and how many there are.
#[track_caller]
pub fn spawn_to<T: Send + 'static>(place: impl Into<Place>, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().place(place).spawn(f)
}

/// Lets other tasks of the calling thread's seat go first. A lightweight thread is put behind the queued tasks; a
/// thread of the system gives up its time; elsewhere it does nothing.
#[inline]
pub fn yield_now() {
    match fibre_that_yields() {
        Some(fibre) => {
            fibre.yield_now();
            goes_on();
        }
        None => yield_without_fibre(),
    }
}

// Both are functions of their own. Their caller may be on another thread of the system after the switch, and they read
// a `thread_local!`: a compiler keeps its address within a function.
#[inline(never)]
fn fibre_that_yields() -> Option<&'static Fibre> {
    fibres::current()
}

#[inline(never)]
fn goes_on() {
    unwind_if_told();
}

#[cold]
fn yield_without_fibre() {
    if !is_seated() {
        std::thread::yield_now();
    }
}

/// Whether the calling code runs on a lightweight thread.
///
/// ```
/// use vicus_machine::{Runtime, threads};
///
/// let runtime = Runtime::builder().threads(1).start();
/// assert!(!threads::is_thread());
/// assert_eq!(runtime.run(|| (threads::is_thread(), threads::spawn(threads::is_thread).join().unwrap())), (false, true));
/// ```
pub fn is_thread() -> bool {
    core_here().is_some()
}

/// The lightweight thread running the calling code; `None` elsewhere.
///
/// ```
/// use vicus_machine::{Runtime, threads};
///
/// let runtime = Runtime::builder().threads(1).start();
/// let name = runtime.run(|| {
///     let named = threads::Builder::new().name("counter");
///     named.spawn(|| threads::current().unwrap().name().map(str::to_owned)).join().unwrap()
/// });
/// assert_eq!(name.as_deref(), Some("counter"));
/// ```
pub fn current() -> Option<ThreadInfo> {
    core_here().map(|core| {
        #[expect(unsafe_code, reason = "follows a pointer to the thread that runs here")]
        // SAFETY: it is there as long as it runs.
        let core = unsafe { core.as_ref() };
        ThreadInfo { id: ThreadId(core.id), name: core.name.clone(), spawned_at: core.spawned_at }
    })
}

/// The thread on the caller's fibre.
fn core_here() -> Option<NonNull<Core>> {
    with_worker(|worker| worker.fibres.current).flatten()?.thread()
}

/// The number of a lightweight thread. No other one of its runtime has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(u64);

impl ThreadId {
    /// The number itself, at least 1.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// Facts about a lightweight thread.
#[derive(Clone, Debug)]
pub struct ThreadInfo {
    id: ThreadId,
    name: Option<Name>,
    spawned_at: &'static Location<'static>,
}

impl ThreadInfo {
    /// Its number.
    pub fn id(&self) -> ThreadId {
        self.id
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_ref().map(Name::as_str)
    }

    /// The place of its spawn.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }
}

/// The error of a thread that did not begin, or of an aborted wait, because the runtime was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime of the lightweight thread was dropped")
    }
}

impl std::error::Error for Ended {}

/// Why a thread was not spawned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpawnError {
    /// Its stack would be smaller than the least one.
    StackTooSmall {
        /// The requested size.
        bytes: usize,
    },
    /// Its stack would be larger than the largest one.
    StackTooLarge {
        /// The requested size.
        bytes: usize,
    },
    /// The machine has no such place.
    NoSuchPlace(NoSuchPlace),
    /// There is no stack of this size, and none can be made, for lack of memory or because of [`limit_stacks`]. The
    /// thread would wait for ever.
    NoStack {
        /// The requested size.
        bytes: usize,
    },
    /// There is no memory for the thread.
    NoMemory,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::StackTooSmall { bytes } => {
                write!(f, "a stack of {bytes} bytes is too small: at least {LEAST_BYTES} are needed")
            }
            SpawnError::StackTooLarge { bytes } => {
                write!(f, "a stack of {bytes} bytes is too large: at most {} are given", LEAST_BYTES << (CLASSES - 1))
            }
            SpawnError::NoSuchPlace(error) => error.fmt(f),
            SpawnError::NoStack { bytes } => {
                write!(
                    f,
                    "no stack of {bytes} bytes can be made: there is no memory for it, or a limit on stacks forbids it"
                )
            }
            SpawnError::NoMemory => f.write_str("there is no memory for another lightweight thread"),
        }
    }
}

impl std::error::Error for SpawnError {}

/// Settings of a lightweight thread to spawn.
///
/// ```
/// use vicus_machine::{Runtime, threads::Builder};
///
/// let runtime = Runtime::builder().threads(1).start();
/// let thread = Builder::new().name("deep").stack_size(1 << 20).spawn_on(&runtime, || "done");
/// assert_eq!(thread.join().unwrap(), "done");
/// ```
#[derive(Clone, Debug)]
#[must_use = "a thread runs when it is spawned"]
pub struct Builder {
    name: Option<Name>,
    stack_bytes: usize,
    place: Option<Place>,
    follows: bool,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// A thread without a name, with a stack of [`STACK_BYTES`], at no place.
    pub fn new() -> Builder {
        Builder { name: None, stack_bytes: STACK_BYTES, place: None, follows: false }
    }

    /// Its name, for messages.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(Name::new(name.into()));
        self
    }

    /// How large its stack is, in bytes: at least 4096, and the next power of two is taken. Below some 16 KiB, a thread
    /// can't print or panic. Pages are taken when they are touched.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }

    /// Runs it in the neighbourhood of this node or core group.
    pub fn place(mut self, place: impl Into<Place>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Makes it follow the threads it exchanges data with: when another lightweight thread ends its wait for a word or
    /// a thread, it goes on at that thread's seat, unless its own seat is idle. So two threads handing values to and
    /// fro are soon on one seat, wherever they have begun. A thread with running children stays, and so does one taken
    /// to a place by [`migrate_to`], as all threads do without this.
    ///
    /// # Safety
    /// The promise of [`migrate_to`] holds at each such wait of the thread.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see: what is on the stack")]
    pub unsafe fn follow(mut self) -> Self {
        self.follows = true;
        self
    }

    /// Spawns it in the runtime of the calling task or thread.
    ///
    /// # Panics
    /// Outside of a runtime, and for the reasons of [`SpawnError`].
    #[track_caller]
    pub fn spawn<T: Send + 'static>(self, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.spawn_or(Runtime::of_no_thread, f)
    }

    /// Like [`Builder::spawn`]; called outside of a runtime, it spawns in this one.
    ///
    /// # Panics
    /// For the reasons of [`SpawnError`].
    #[track_caller]
    pub fn spawn_or<T: Send + 'static>(
        self,
        outside: fn() -> &'static Runtime,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.try_spawn_or(outside, f).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`Builder::spawn`], in this runtime.
    ///
    /// # Panics
    /// For the reasons of [`SpawnError`].
    #[track_caller]
    pub fn spawn_on<T: Send + 'static>(
        self,
        runtime: &Runtime,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.try_spawn_on(runtime, f).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`Builder::spawn_or`].
    ///
    /// # Errors
    /// The stack's size is out of range, the machine has no such place, or there is no memory for the thread itself. A
    /// lack of memory for its stack now is no error: it begins when another one has ended.
    #[track_caller]
    pub fn try_spawn_or<T: Send + 'static>(
        self,
        outside: fn() -> &'static Runtime,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        let is_here = with_worker(|worker| !worker.is_tied).unwrap_or(false);
        if !is_here {
            return self.try_spawn_on(Runtime::of_this_thread_or(outside), f);
        }
        Ok(JoinHandle { joiner: Joiner(self.spawn_here(false, f)?), returns: PhantomData })
    }

    /// The thread; if it is detached, it may be over and gone.
    #[track_caller]
    fn spawn_here<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
        self,
        is_detached: bool,
        f: F,
    ) -> Result<NonNull<Core>, SpawnError> {
        let class = self.class()?;
        let Builder { name, place, follows, .. } = self;
        if let Some(place) = place {
            in_task(|worker| find_place(worker.shared.topology(), place))?;
        }
        let spawned_at = Location::caller();
        let core = in_task(|worker| {
            let (request, number) = (worker.frame.request, worker.recorder.number());
            let id = worker.shared.threads_here.next_number(worker.seat);
            let described = Described { request, number, id, name, class, follows, spawned_at, is_detached };
            let core = self::core::new(Some(&mut worker.fibres.cells), described, f)?;
            worker.shared.threads_here.spawned(worker.seat);
            Ok(core)
        });
        // The closure is a user's: it is dropped here.
        let core = core.map_err(|_: F| SpawnError::NoMemory)?;
        // A call of its own: its result comes in registers, and not by memory.
        in_task(|worker| worker.queue_thread(Core::task(core), place)).run();
        Ok(core)
    }

    /// Like [`Builder::spawn_on`].
    ///
    /// # Errors
    /// As [`Builder::try_spawn_or`].
    #[track_caller]
    pub fn try_spawn_on<T: Send + 'static>(
        self,
        runtime: &Runtime,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        Ok(JoinHandle { joiner: Joiner(self.spawn_there(runtime, false, f)?), returns: PhantomData })
    }

    /// Like [`Builder::try_spawn_on`], without a handle: no other thread can wait for its end.
    ///
    /// ```
    /// use vicus_machine::{Runtime, threads::{Builder, Countdown}};
    /// use std::sync::Arc;
    ///
    /// let runtime = Runtime::builder().threads(1).start();
    /// let count = Arc::new(Countdown::new(1));
    /// let theirs = Arc::clone(&count);
    /// Builder::new().try_detached_on(&runtime, move || theirs.submit())?;
    /// count.wait();
    /// # Ok::<(), vicus_machine::threads::SpawnError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Builder::try_spawn_or`].
    #[track_caller]
    pub fn try_detached_on(self, runtime: &Runtime, f: impl FnOnce() + Send + 'static) -> Result<(), SpawnError> {
        self.spawn_there(runtime, true, f).map(drop)
    }

    /// Like [`Builder::spawn_here`].
    #[track_caller]
    fn spawn_there<T: Send + 'static>(
        self,
        runtime: &Runtime,
        is_detached: bool,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<NonNull<Core>, SpawnError> {
        let shared = &runtime.shared;
        if shared.is_here() {
            return self.spawn_here(is_detached, f);
        }
        let class = self.class()?;
        let Builder { name, place, follows, .. } = self;
        let queue = match place {
            None => runtime.next_of(&shared.plan.entry),
            Some(place) => shared.queue_at(place)?.unwrap_or_else(|| runtime.next_of(&shared.plan.entry)),
        };
        let request = shared.ongoing.next_id();
        let number =
            shared.recording.as_ref().map_or(TaskHeader::UNNUMBERED, |recording| recording.task_submitted(request));
        let id = shared.threads_here.spawned_outside();
        let spawned_at = Location::caller();
        let described = Described { request, number, id, name, class, follows, spawned_at, is_detached };
        let Ok(core) = self::core::new(None, described, f) else {
            shared.threads_here.ended_outside();
            return Err(SpawnError::NoMemory);
        };
        shared.note_threads();
        if shared.queues.push(queue, Core::task(core)).is_err() {
            // There is no memory for a longer queue.
            shared.threads_here.ended_outside();
            self::core::discard(core);
            return Err(SpawnError::NoMemory);
        }
        shared.wake_for(queue, Some(request), true);
        Ok(core)
    }

    #[inline]
    fn class(&self) -> Result<Class, SpawnError> {
        let class = if self.stack_bytes < LEAST_BYTES { None } else { Class::of(self.stack_bytes) };
        class.filter(|&class| Fibre::pools().provide(class, node_here)).ok_or_else(|| self.no_class())
    }

    /// Why there is no class for it.
    #[cold]
    #[inline(never)]
    fn no_class(&self) -> SpawnError {
        let bytes = self.stack_bytes;
        if bytes < LEAST_BYTES {
            SpawnError::StackTooSmall { bytes }
        } else if Class::of(bytes).is_none() {
            SpawnError::StackTooLarge { bytes }
        } else {
            SpawnError::NoStack { bytes }
        }
    }
}

/// Whether the machine has this place.
fn find_place(machine: &Topology, place: Place) -> Result<(), SpawnError> {
    machine.try_node_of(place).map(|_| ()).map_err(SpawnError::NoSuchPlace)
}

/// The owner of a lightweight thread's result. Dropping it lets the thread run on by itself.
///
/// As a future, it is ready when the thread is over.
pub struct JoinHandle<T> {
    joiner: Joiner,
    returns: PhantomData<fn() -> T>,
}

impl<T: Send + 'static> JoinHandle<T> {
    /// Waits until the thread is over. A calling lightweight thread is suspended meanwhile, a task's or box's thread
    /// runs other tasks on top of it, and a thread of the system blocks.
    ///
    /// # Errors
    /// The thread has panicked: with its panic, or [`Ended`].
    pub fn join(self) -> std::thread::Result<T> {
        self.joiner.wait();
        #[expect(unsafe_code, reason = "the type of a result")]
        // SAFETY: the handle was made with the thread, by its closure's type.
        unsafe {
            self.joiner.finish()
        }
    }

    /// Whether the thread is over.
    pub fn is_finished(&self) -> bool {
        self.joiner.is_over()
    }

    /// The thread's number.
    pub fn id(&self) -> ThreadId {
        ThreadId(self.joiner.core().id)
    }

    fn take(&mut self) -> std::thread::Result<T> {
        #[expect(unsafe_code, reason = "the type of a result")]
        // SAFETY: the handle was made with the thread, by its closure's type.
        unsafe {
            self.joiner.take()
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("id", &self.joiner.core().id).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Future for JoinHandle<T> {
    type Output = std::thread::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.joiner.is_over() || !self.joiner.set_waker(context.waker()) {
            Poll::Ready(self.take())
        } else {
            Poll::Pending
        }
    }
}

/// Spawns a lightweight thread to wait for a future. It has a stack like any other: other runtimes suspend futures
/// without one.
///
/// ```
/// use vicus_machine::{Runtime, threads};
///
/// let runtime = Runtime::builder().threads(1).start();
/// let sum = runtime.run(|| {
///     let inner = threads::spawn(|| 40);
///     threads::spawn_async(async move { inner.await.unwrap() + 2 }).join().unwrap()
/// });
/// assert_eq!(sum, 42);
/// ```
///
/// # Panics
/// As [`spawn`].
#[track_caller]
pub fn spawn_async<F: Future<Output: Send> + Send + 'static>(future: F) -> JoinHandle<F::Output> {
    spawn(move || block_on(future))
}

/// The lightweight threads of a runtime.
pub(crate) struct Threads {
    /// By seat, and last the threads spawned by callers without one.
    counts: Box<[Padded<Counts>]>,
    /// By seat.
    moves: Box<[Padded<Moves>]>,
    /// Whether there has been one.
    any: AtomicBool,
    pub(crate) watch: Watch,
    /// How many wait for a time.
    sleeping: AtomicUsize,
    /// The runtime ends: threads that have not begun are dropped, and waiting ones are unwound.
    ending: AtomicBool,
}

#[derive(Default)]
struct Counts {
    spawned: AtomicU64,
    ended: AtomicU64,
    /// Waits for words, by [`Waits`]: how many have begun, and how many have ended.
    waits: [[AtomicU64; 2]; 2],
}

/// The owners of waits for words.
#[derive(Clone, Copy)]
enum Waits {
    /// Waits of lightweight threads.
    OfThreads,
    /// Waits of code on its thread's own stack: a program's main thread, and tasks.
    OfSeats,
}

impl Threads {
    pub(crate) fn new(seats: usize, on_deadlock: OnDeadlock, takes_backtraces: bool) -> Threads {
        Threads {
            watch: Watch { on_deadlock, takes_backtraces, ..Watch::default() },
            counts: (0..=seats).map(|_| Padded(Counts::default())).collect(),
            moves: (0..seats).map(|_| Padded(Moves::new())).collect(),
            any: AtomicBool::new(false),
            sleeping: AtomicUsize::new(0),
            ending: AtomicBool::new(false),
        }
    }

    /// The number of the seat's next thread.
    #[inline]
    fn next_number(&self, seat: SeatId) -> u64 {
        // Only this seat's thread writes it.
        let number = self.counts[seat.index()].0.spawned.load(Ordering::Relaxed);
        number * self.counts.len() as u64 + seat.index() as u64 + 1
    }

    /// Counts a thread spawned by a seat.
    #[inline]
    fn spawned(&self, seat: SeatId) {
        add_one(&self.counts[seat.index()].0.spawned);
    }

    fn spawned_outside(&self) -> u64 {
        let seats = self.counts.len() - 1;
        let number = self.counts[seats].0.spawned.fetch_add(1, Ordering::AcqRel);
        number * self.counts.len() as u64 + seats as u64 + 1
    }

    /// Takes back a count of [`Threads::spawned_outside`]: the spawn failed.
    #[cold]
    fn ended_outside(&self) {
        self.counts[self.counts.len() - 1].0.ended.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a thread that has ended on a seat.
    #[inline]
    fn ended(&self, seat: SeatId) {
        add_one(&self.counts[seat.index()].0.ended);
    }

    /// How many there are. If it is 0, there was none at a moment since this was called.
    pub(crate) fn live(&self) -> u64 {
        // In this order: a thread ended by the first sum was spawned before the second one.
        let ended: u64 = self.counts.iter().map(|counts| counts.0.ended.load(Ordering::Acquire)).sum();
        let spawned: u64 = self.counts.iter().map(|counts| counts.0.spawned.load(Ordering::Acquire)).sum();
        spawned - ended
    }

    /// How many have been spawned.
    pub(crate) fn all(&self) -> u64 {
        let spawned: u64 = self.counts.iter().map(|counts| counts.0.spawned.load(Ordering::Acquire)).sum();
        // Of the outside spawns, only the failed ones count as ended.
        spawned - self.counts[self.counts.len() - 1].0.ended.load(Ordering::Acquire)
    }

    /// A seat's messages to other seats.
    pub(crate) fn of_seat(&self, seat: SeatId) -> &Moves {
        &self.moves[seat.index()].0
    }

    /// A thread of one seat is the other one's from now on.
    pub(crate) fn went(&self, from: SeatId, to: SeatId) {
        self.of_seat(from).gone.fetch_add(1, Ordering::Relaxed);
        self.of_seat(to).gone.fetch_sub(1, Ordering::Relaxed);
    }

    fn begin_sleep(&self) {
        self.sleeping.fetch_add(1, Ordering::Relaxed);
    }

    fn end_sleep(&self) {
        self.sleeping.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Whether there has been one.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }
}

/// Only one thread writes it.
#[inline]
fn add_one(count: &AtomicU64) {
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// The calling code, on a seat, begins to wait for a word.
fn begin_wait(whose: Waits) {
    in_task(|worker| {
        add_one(&worker.shared.threads_here.counts[worker.seat.index()].0.waits[whose as usize][0]);
        worker.shared.watch_waits();
    });
}

/// The wait is over.
fn end_wait(whose: Waits) {
    in_task(|worker| add_one(&worker.shared.threads_here.counts[worker.seat.index()].0.waits[whose as usize][1]));
}

/// Stack size of a task run aside: a seat's own.
const ASIDE_BYTES: usize = crate::runtime::shared::STACK_BYTES;

/// Runs a task on a stack of its own, as a lightweight thread without a handle; `way` says how the seat found it. A
/// wait in it leaves the calling thread's stack to the task beneath. Returns the task if there is no memory for a
/// stack, or the runtime ends.
pub(crate) fn run_aside(task: TaskRef, way: Way) -> Result<(), TaskRef> {
    let class = Class::of(ASIDE_BYTES).expect("there are stacks of this size");
    let core = in_task(|worker| {
        if worker.shared.threads_here.is_ending() {
            return Err(task);
        }
        let id = worker.shared.threads_here.next_number(worker.seat);
        let described = Described {
            request: task.header().request,
            number: crate::runtime::recorder::ASIDE,
            id,
            name: None,
            class,
            follows: false,
            spawned_at: Location::caller(),
            is_detached: true,
        };
        let runs = move || crate::runtime::worker::run(task, way);
        let core = self::core::new(Some(&mut worker.fibres.cells), described, runs).map_err(|_| task)?;
        worker.shared.threads_here.spawned(worker.seat);
        Ok(core)
    })?;
    if fibres::start(Core::task(core), class, Some(way)).is_err() {
        in_task(|worker| worker.shared.threads_here.ended(worker.seat));
        self::core::discard(core);
        return Err(task);
    }
    Ok(())
}

impl Shared {
    /// A thread is about to be spawned. From the first one on, waiting tasks let any task run on top of them: their
    /// wait may depend on a thread, and the thread on any task.
    #[inline]
    fn note_threads(&self) {
        if !self.threads_here.any() {
            self.note_first_thread();
        }
    }

    #[cold]
    fn note_first_thread(&self) {
        self.threads_here.any.store(true, Ordering::SeqCst);
        self.ask_all();
    }

    /// The queue for threads of a place; `None` if the plan has none for places.
    fn queue_at(&self, place: Place) -> Result<Option<QueueId>, SpawnError> {
        find_place(self.topology(), place)?;
        let node = match place {
            Place::Node(node) => node,
            Place::Group(group) => match self.tables.group_queues.of(group) {
                Some(queue) => return Ok(Some(queue)),
                None => self.topology().core_groups[group.index()].node,
            },
        };
        Ok(self.plan.homes.get(node.index()).and_then(|queues| queues.first()).copied())
    }
}

impl Worker {
    /// Queues a beginning thread.
    #[inline]
    fn queue_thread(&mut self, task: TaskRef, place: Option<Place>) -> AtOnce {
        self.shared.note_threads();
        let Some(place) = place else { return self.spawn_thread(task) };
        let queue = self.home_of(place);
        self.queue(ReadyTask { task, kind: Kind::Deferred, queue, priority: None })
    }
}

/// Length of a long queue: a thread spawned into one begins at once, on top of its spawner, with a stack of its own. So
/// a program that spawns a million threads in a loop does not write a million cells and then read them again, out of
/// its caches. The rings of other strategies ([`crate::queues::deque`]) refuse tasks at such a length, too.
const LONG: usize = crate::queues::fifo::CAPACITY;

impl Worker {
    /// Queues a thread without a place.
    #[inline]
    fn spawn_thread(&mut self, task: TaskRef) -> AtOnce {
        self.record_queued(task, Kind::Immediate, true);
        if self.put_own(task).is_ok() {
            return AtOnce::NONE;
        }
        match self.state.place(&self.shared.plan, Kind::Immediate) {
            Put::Into(queue, _) if self.shared.queues.is_long(queue, LONG) => self.refused(task),
            put => self.put_or_keep(task, put),
        }
    }
}

/// Threads taken out of their queues and waiting for a stack.
static STARVED: Mutex<VecDeque<(Arc<Shared>, TaskRef)>> = Mutex::new(VecDeque::new());
static STARVING: AtomicUsize = AtomicUsize::new(0);

/// How many threads of a runtime wait for a stack.
fn starved_of(runtime: &Shared) -> usize {
    let starved = STARVED.lock().expect("nothing panics under this lock");
    starved.iter().filter(|(shared, _)| std::ptr::eq(Arc::as_ptr(shared), runtime)).count()
}

/// The node of the calling thread's seat; the first one for a thread without a seat.
fn node_here() -> usize {
    with_worker(|worker| worker.node().index()).unwrap_or(0)
}

/// There is no stack for this thread: it begins when another thread has ended.
#[cold]
pub(crate) fn starve(task: TaskRef, class: Class) {
    let shared = in_task(|worker| Arc::clone(&worker.shared));
    let mut starved = STARVED.lock().expect("nothing panics under this lock");
    starved.push_back((shared, task));
    STARVING.store(starved.len(), Ordering::SeqCst);
    drop(starved);
    // One may have been given back meanwhile.
    let is_there = in_task(|worker| match worker.fibres.stacks.take(class) {
        Some(fibre) => {
            worker.fibres.stacks.give(fibre);
            true
        }
        None => false,
    });
    if is_there {
        serve_starved();
    }
}

/// A stack was given back: a thread waiting for one may begin.
#[inline]
pub(crate) fn serve_starved() {
    if are_starving() {
        serve_one_starved();
    }
}

/// The calling thread's seat is about to sleep: others may want its stacks.
pub(crate) fn give_stacks() {
    in_task(|worker| worker.fibres.stacks.give_all());
    serve_starved();
}

/// Whether a thread waits for a stack.
#[inline]
pub(crate) fn are_starving() -> bool {
    STARVING.load(Ordering::Relaxed) > 0
}

#[cold]
fn serve_one_starved() {
    let mut starved = STARVED.lock().expect("nothing panics under this lock");
    let mut asked = [false; CLASSES];
    let mut has_stack = |(_, task): &(Arc<Shared>, TaskRef)| {
        let class = Core::class(*task);
        let was_asked = std::mem::replace(&mut asked[class.index()], true);
        let take = |worker: &mut Worker| {
            worker.fibres.stacks.take(class).map(|fibre| worker.fibres.stacks.give(fibre)).is_some()
        };
        !was_asked && in_task(take)
    };
    // The first one with memory for its stack: others wait for larger ones.
    let first = starved.iter().position(&mut has_stack).and_then(|at| starved.remove(at));
    STARVING.store(starved.len(), Ordering::SeqCst);
    drop(starved);
    // Other seats may take it.
    in_task(|worker| worker.fibres.stacks.give_all());
    if let Some((shared, task)) = first {
        shared.put_task_at_entry(task);
    }
}

/// How long the drop of a runtime waits for its lightweight threads after it has told them to end.
const LAST_WAIT: Duration = Duration::from_secs(10);

impl Shared {
    /// Ends all lightweight threads: drops those not begun, unwinds the waiting ones, and waits for the running ones.
    /// If some don't end, it says so on standard error. Returns whether all ended.
    pub(crate) fn end_threads(&self) -> bool {
        self.threads_here.ending.store(true, Ordering::SeqCst);
        let began = Instant::now();
        let mut pause = Duration::from_micros(50);
        while self.threads_here.live() > 0 {
            // A thread beginning to wait at this moment is found the next time.
            judge_waits(|wait| match wait.fibre {
                Some(fibre) if fibre.is_of(self) => Verdict::Ends,
                _ => Verdict::Stays,
            });
            Fibre::pools().all().filter(|fibre| fibre.is_suspended() && fibre.is_of(self)).for_each(Fibre::wake);
            if began.elapsed() > LAST_WAIT {
                self.report_left();
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        true
    }

    #[cold]
    fn report_left(&self) {
        let mut text =
            format!("vicus: {} lightweight threads of a dropped runtime don't end", self.threads_here.live());
        // Waiting threads can't end while they are examined; others could.
        let mut waiting = 0;
        judge_waits(|wait| {
            if let Some(fibre) = wait.fibre.filter(|fibre| fibre.is_of(self))
                && let Some(thread) = fibre.thread()
            {
                waiting += 1;
                if waiting <= 20 {
                    text.push_str("\n  ");
                    let _ = Core::describe(thread, &mut text);
                    let _ = write!(text, ": {} of the word at {:#x}", wait.operation.name(), wait.address);
                }
            }
            Verdict::Stays
        });
        // A failing standard error is no reason to end.
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}

/// Unwinds the calling thread, if it is told to end.
pub(crate) fn unwind_if_told() {
    if in_task(|worker| worker.shared.threads_here.is_ending()) {
        std::panic::resume_unwind(Box::new(Ended));
    }
}

/// Random numbers below a bound, for tests: Marsaglia's xorshift.
#[cfg(all(test, not(loom)))]
fn numbers_by_chance(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}
