//! Threads as programs spawn and join them.

mod block_on;
mod migrate;

pub use block_on::block_on;
pub use migrate::{MigrateError, migrate_to};

use crate::threads::core::{self, Core, Described, Joiner, Name};
use crate::threads::fibres::{self, Fibre, of_worker};
use crate::threads::here::{core_here, unwind_if_told};
use crate::watch::layer::{attach, threads_of};
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};
use vicus_fibres::{CLASSES, Class, LEAST_BYTES, Record as _};
use vicus_machine::MachineRuntime;
use vicus_machine::layer::{AtOnce, Worker, in_task, is_seated, runs_task_of, with_worker};
use vicus_schedule::{Kind, ReadyTask, SpawnTarget, TaskRef};
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
/// use vicus_machine::MachineRuntime;
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// assert_eq!(runtime.run(|| vicus_threads::spawn(|| 6 * 7).join().unwrap()), 42);
/// ```
///
/// # Panics
/// Outside of a runtime ([`is_in_runtime`](vicus_machine::is_in_runtime)): there, see [`Builder::spawn_on`].
#[inline]
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
            go_on();
        }
        None => yield_without_fibre(),
    }
}

// Both are functions of their own. Their caller may be on another thread of the system after the switch, and they read
// a `thread_local!`: a compiler keeps its address within a function.
#[inline(never)]
pub(crate) fn fibre_that_yields() -> Option<&'static Fibre> {
    fibres::current()
}

#[inline(never)]
pub(crate) fn go_on() {
    unwind_if_told();
}

#[cold]
pub(crate) fn yield_without_fibre() {
    if !is_seated() {
        std::thread::yield_now();
    }
}

/// Whether the calling code runs on a lightweight thread.
///
/// ```
/// use vicus_machine::MachineRuntime;
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// assert!(!vicus_threads::is_thread());
/// assert!(!runtime.run(vicus_threads::is_thread));
/// assert!(runtime.run(|| vicus_threads::spawn(vicus_threads::is_thread).join().unwrap()));
/// ```
pub fn is_thread() -> bool {
    core_here().is_some()
}

/// The lightweight thread running the calling code; `None` elsewhere.
///
/// ```
/// use vicus_machine::MachineRuntime;
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// let name = runtime.run(|| {
///     let named = vicus_threads::Builder::new().name("counter");
///     named.spawn(|| vicus_threads::current().unwrap().name().map(str::to_owned)).join().unwrap()
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
/// use vicus_machine::MachineRuntime;
/// use vicus_threads::Builder;
///
/// let runtime = MachineRuntime::builder().threads(1).start();
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
    #[inline]
    #[track_caller]
    pub fn spawn<T: Send + 'static>(self, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.spawn_or(MachineRuntime::of_no_thread, f)
    }

    /// Like [`Builder::spawn`]; called outside of a runtime, it spawns in this one.
    ///
    /// # Panics
    /// For the reasons of [`SpawnError`].
    #[inline]
    #[track_caller]
    pub fn spawn_or<T: Send + 'static>(
        self,
        outside: fn() -> &'static MachineRuntime,
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
        runtime: &MachineRuntime,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.try_spawn_on(runtime, f).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`Builder::spawn_or`].
    ///
    /// # Errors
    /// The stack's size is out of range, the machine has no such place, or there is no memory for the thread itself. A
    /// lack of memory for its stack now is no error: it begins when another one has ended.
    #[inline]
    #[track_caller]
    pub fn try_spawn_or<T: Send + 'static>(
        self,
        outside: fn() -> &'static MachineRuntime,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        let is_here = with_worker(|worker| !worker.stack.is_tied).unwrap_or(false);
        if !is_here {
            return self.try_spawn_on(MachineRuntime::of_this_thread_or(outside), f);
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
            if !worker.code.above.has_value() {
                attach(&worker.shared);
            }
            let own = of_worker(worker);
            let id = own.counts.0.next_number();
            let described = Described { request, number, id, name, class, follows, spawned_at, is_detached };
            let core = core::new(Some(&mut own.cells), described, f)?;
            own.counts.0.spawn();
            Ok(core)
        });
        // The closure is a user's: it is dropped here.
        let core = core.map_err(|_: F| SpawnError::NoMemory)?;
        // A call of its own: its result comes in registers, and not by memory.
        in_task(|worker| queue_thread(worker, Core::task(core), place)).run();
        Ok(core)
    }

    /// Like [`Builder::spawn_on`].
    ///
    /// # Errors
    /// As [`Builder::try_spawn_or`].
    #[track_caller]
    pub fn try_spawn_on<T: Send + 'static>(
        self,
        runtime: &MachineRuntime,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        Ok(JoinHandle { joiner: Joiner(self.spawn_there(runtime, false, f)?), returns: PhantomData })
    }

    /// Like [`Builder::try_spawn_on`], without a handle: no other thread can wait for its end.
    ///
    /// ```
    /// use vicus_machine::MachineRuntime;
    /// use vicus_threads::{Builder, Countdown};
    /// use std::sync::Arc;
    ///
    /// let runtime = MachineRuntime::builder().threads(1).start();
    /// let count = Arc::new(Countdown::new(1));
    /// let theirs = Arc::clone(&count);
    /// Builder::new().try_detached_on(&runtime, move || theirs.submit())?;
    /// count.wait();
    /// # Ok::<(), vicus_threads::SpawnError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Builder::try_spawn_or`].
    #[track_caller]
    pub fn try_detached_on(
        self,
        runtime: &MachineRuntime,
        f: impl FnOnce() + Send + 'static,
    ) -> Result<(), SpawnError> {
        self.spawn_there(runtime, true, f).map(drop)
    }

    /// Like [`Builder::spawn_here`].
    #[track_caller]
    fn spawn_there<T: Send + 'static>(
        self,
        runtime: &MachineRuntime,
        is_detached: bool,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<NonNull<Core>, SpawnError> {
        let shared = runtime.shared();
        if runs_task_of(shared) {
            return self.spawn_here(is_detached, f);
        }
        let class = self.class()?;
        let Builder { name, place, follows, .. } = self;
        let queue = match place {
            None => shared.next_entry(),
            Some(place) => {
                shared.queue_at(place).map_err(SpawnError::NoSuchPlace)?.unwrap_or_else(|| shared.next_entry())
            }
        };
        let request = shared.next_request();
        let number = shared.number_submitted(request);
        let threads = threads_of(shared);
        let id = threads.spawned_outside();
        let spawned_at = Location::caller();
        let described = Described { request, number, id, name, class, follows, spawned_at, is_detached };
        let Ok(core) = core::new(None, described, f) else {
            threads.ended_outside();
            return Err(SpawnError::NoMemory);
        };
        shared.note_code();
        if shared.queued.queues.push(queue, Core::task(core)).is_err() {
            // There is no memory for a longer queue.
            threads.ended_outside();
            core::discard(core);
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
    /// The thread has panicked: with its panic, or [`RuntimeEnded`](crate::RuntimeEnded).
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
/// use vicus_machine::MachineRuntime;
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// let sum = runtime.run(|| {
///     let inner = vicus_threads::spawn(|| 40);
///     vicus_threads::spawn_async(async move { inner.await.unwrap() + 2 }).join().unwrap()
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

/// Queues a beginning thread.
#[inline]
fn queue_thread(worker: &mut Worker, task: TaskRef, place: Option<Place>) -> AtOnce {
    worker.shared.note_code();
    let Some(place) = place else { return spawn_thread(worker, task) };
    let queue = worker.home_of(place);
    worker.queue(ReadyTask { task, kind: Kind::Deferred, queue, priority: None })
}

/// Length of a long queue: a thread spawned into one begins at once, on top of its spawner, with a stack of its own. So
/// a program that spawns a million threads in a loop does not write a million cells and then read them again, out of
/// its caches. The rings of other strategies refuse tasks at such a length, too.
const LONG: usize = vicus_machine::layer::LONG_QUEUE;

/// Queues a thread without a place.
#[inline]
fn spawn_thread(worker: &mut Worker, task: TaskRef) -> AtOnce {
    worker.record_queued(task, Kind::Immediate, true);
    if worker.put_own(task).is_ok() {
        return AtOnce::NONE;
    }
    match worker.seat.place(&worker.shared.plan, Kind::Immediate) {
        SpawnTarget::Into(queue, _) if worker.shared.queued.queues.is_long(queue, LONG) => worker.refused(task),
        put => worker.put_or_keep(task, put),
    }
}

/// The node of the calling thread's seat; the first one for a thread without a seat.
fn node_here() -> usize {
    with_worker(|worker| worker.node().index()).unwrap_or(0)
}
