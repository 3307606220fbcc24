//! A program's thread on the first seat of a runtime, such as Qthreads' main thread; and a door's knowledge of its
//! calling thread.
//!
//! The thread runs its own code most of the time. When this code waits for a full/empty bit, a lightweight thread, or a
//! scope, the thread runs the tasks of its seat on top; lightweight threads among them have stacks of their own, so
//! they keep nothing waiting beneath them.

use super::{Waits, core_here};
use crate::memory::heaps;
use crate::runtime::awaited::Awaited;
use crate::runtime::here::HERE;
use crate::runtime::lending::{LentThread, lend_here};
use crate::runtime::worker::{Worker, in_task, is_seated, with_worker};
use crate::runtime::{Runtime, RuntimeBuilder, Shared, StartError};
use crate::threads::fibres;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vicus_os::discover::limits;
use vicus_os::pin;
use vicus_schedule::SeatId;

impl<R: From<Runtime>> RuntimeBuilder<R> {
    /// Starts a runtime with the calling thread on its first seat, where it stays until [`Sitting::end`].
    ///
    /// ```
    /// use std::sync::atomic::AtomicU64;
    /// use vicus_machine::{Runtime, threads::{self, full_empty}};
    ///
    /// static WORD: AtomicU64 = AtomicU64::new(0);
    /// let sitting = Runtime::builder().threads(1).start_sitting()?;
    /// full_empty::empty(&WORD);
    /// threads::spawn(|| full_empty::write_ef(&WORD, 42));
    /// // The only thread that there is runs the lightweight one meanwhile.
    /// assert_eq!(full_empty::read_ff(&WORD), 42);
    /// assert!(sitting.end());
    /// # Ok::<(), vicus_machine::StartError>(())
    /// ```
    ///
    /// # Errors
    /// As [`RuntimeBuilder::try_start`].
    ///
    /// # Panics
    /// If the thread sits on a seat already.
    pub fn start_sitting(self) -> Result<Sitting<R>, StartError> {
        assert!(!is_seated(), "the thread sits on a seat already");
        let runtime = self.chosen.try_start_but(true)?;
        let shared = Arc::clone(&runtime.shared);
        let seat = shared.first_seat().expect("a plan has a seat that is not spare");
        shared.threads_here.of_seat(seat).sits_down();
        let mut worker = Box::new(Worker::new(Arc::clone(&shared), seat));
        worker.begin_alone(shared.ongoing.next_id());
        let worker = NonNull::from(Box::leak(worker));
        HERE.set(worker.as_ptr());
        Ok(Sitting { runtime: R::from(runtime), shared, worker, bound: None })
    }
}

/// A thread's stay on the first seat of a runtime. It stays on its thread.
pub struct Sitting<R = Runtime> {
    runtime: R,
    shared: Arc<Shared>,
    worker: NonNull<Worker>,
    bound: Option<Bound>,
}

/// CPUs of the system open to a thread.
struct Bound {
    /// Since its binding, unless its program has changed it.
    here: Vec<u32>,
    before: Vec<u32>,
}

/// How long the end waits for running lightweight threads.
const LAST_WAIT: Duration = Duration::from_secs(2);

impl<R> Sitting<R> {
    /// Binds the calling thread to its place until the stay ends: it may run on all PUs of its core group's threads, as
    /// far as it might run there before. At the end it may run where it might before, unless it was bound elsewhere
    /// meanwhile. Returns whether it is bound: not if the plan binds no thread of the group, or if none of these PUs
    /// are open to it.
    ///
    /// Threads and processes started by it inherit this, and keep it after the end; those of the runtime bind
    /// themselves. Hence the binding covers all PUs of the group, and not the seat's own: a program's own threads would
    /// share one.
    ///
    /// ```
    /// use vicus_machine::Runtime;
    ///
    /// let mut sitting = Runtime::builder().threads(1).start_sitting()?;
    /// assert!(sitting.bind()?);
    /// assert!(sitting.end());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The system refuses to read or to change the thread's CPUs.
    ///
    /// # Panics
    /// On another thread.
    pub fn bind(&mut self) -> io::Result<bool> {
        assert!(HERE.get() == self.worker.as_ptr(), "its own thread binds a stay");
        let (plan, topology) = (&self.shared.plan, self.shared.topology());
        let group = |seat: SeatId| topology.pus[plan.seats[seat.index()].pu.index()].group;
        let own = group(self.seat());
        let seats = (0..plan.seats.len()).map(SeatId::new).filter(|&seat| group(seat) == own);
        let pus = seats.flat_map(|seat| &plan.seats[seat.index()].affinity);
        let wanted: BTreeSet<u32> = pus.map(|pu| topology.pus[pu.index()].os_index).collect();
        let before = limits::affinity()?;
        let here: Vec<u32> = before.iter().copied().filter(|cpu| wanted.contains(cpu)).collect();
        if here.is_empty() {
            return Ok(false);
        }
        pin::pin(here.iter().copied())?;
        if let Some(process) = heaps::process() {
            heaps::moved(process);
        }
        // The first call has noted its original CPUs.
        let before = self.bound.take().map_or(before, |bound| bound.before);
        self.bound = Some(Bound { here, before });
        Ok(true)
    }

    /// Leaves the seat and ends the runtime. Ready tasks run before, for two seconds at most. Lightweight threads still
    /// waiting then are left as they are, and never go on; if some still run, their threads of the system stay. Returns
    /// whether all are over.
    ///
    /// # Panics
    /// On another thread, and on a lightweight one.
    pub fn end(self) -> bool {
        assert!(HERE.get() == self.worker.as_ptr() && fibres::current().is_none(), "its own thread ends a stay");
        let until = Instant::now() + LAST_WAIT;
        let mut was_quiet = false;
        let mut is_quiet = false;
        while self.shared.threads_here.live() > 0 && Instant::now() < until {
            help();
            is_quiet = !in_task(|worker| worker.state.has_resumed()) && self.shared.is_quiet_but(Some(self.seat()));
            if is_quiet && was_quiet {
                break;
            }
            was_quiet = is_quiet;
            if is_quiet {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        let Sitting { runtime, shared, worker, bound } = self;
        #[expect(unsafe_code, reason = "takes back a worker that was given to this thread")]
        // SAFETY: it was leaked by `start_sitting`; as this thread sits on it alone and leaves it now, there is no
        // other way to it.
        let mut worker = unsafe { Box::from_raw(worker.as_ptr()) };
        worker.on_seat(heaps::finish_task);
        HERE.set(std::ptr::null_mut());
        worker.share_tasks();
        worker.hand_in();
        bound.into_iter().for_each(Bound::undo);
        if shared.threads_here.live() == 0 {
            drop(runtime);
            return true;
        }
        // Suspended fibres know of the runtime.
        std::mem::forget(runtime);
        if is_quiet {
            shared.end_system_threads();
        }
        std::mem::forget(shared);
        false
    }

    fn seat(&self) -> SeatId {
        #[expect(unsafe_code, reason = "reads a field that does not change")]
        // SAFETY: the worker is there until the stay ends, and the field is never written.
        unsafe {
            (*self.worker.as_ptr()).seat
        }
    }
}

impl Bound {
    /// The calling thread may run on its earlier CPUs, unless its program has bound it elsewhere.
    fn undo(self) {
        if limits::affinity().is_ok_and(|now| now == self.here) {
            // CPUs may have gone offline: it keeps its binding then.
            let _ = pin::pin(self.before.into_iter());
        }
    }
}

impl<R> Deref for Sitting<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.runtime
    }
}

impl<R> fmt::Debug for Sitting<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sitting").field("seat", &self.seat()).finish_non_exhaustive()
    }
}

impl Runtime {
    /// How many lightweight threads there are, and how many of them wait for full/empty bits: an estimate while they
    /// run.
    ///
    /// ```
    /// use vicus_machine::Runtime;
    ///
    /// assert_eq!(Runtime::builder().threads(1).start().lightweight_threads(), (0, 0));
    /// ```
    pub fn lightweight_threads(&self) -> (u64, u64) {
        let (begun, ended) = self.shared.threads_here.waits(&[Waits::OfThreads]);
        (self.shared.threads_here.live(), begun.saturating_sub(ended))
    }

    /// How many lightweight threads have been spawned since it started: at least those spawned by the calling thread,
    /// or known to it.
    ///
    /// ```
    /// use vicus_machine::{Runtime, threads};
    ///
    /// let runtime = Runtime::builder().threads(1).start();
    /// runtime.run(|| threads::spawn(|| ()).join().unwrap());
    /// assert_eq!(runtime.spawned_threads(), 1);
    /// ```
    pub fn spawned_threads(&self) -> u64 {
        self.shared.threads_here.all()
    }
}

/// Over when it is asked again.
struct Once(Cell<bool>);

impl Awaited for Once {
    fn is_done(&self) -> bool {
        self.0.replace(true)
    }

    fn announce_sleep(&self) -> bool {
        false
    }
}

/// Runs one other task of the calling thread's seat, if there is one; a lightweight thread is suspended meanwhile
/// ([`yield_now`](super::yield_now)). Outside of seats it gives up the thread's time.
#[inline]
pub fn help() {
    match super::fibre_that_yields() {
        Some(fibre) => {
            fibre.yield_now();
            super::goes_on();
        }
        None => help_without_fibre(),
    }
}

#[cold]
#[inline(never)]
fn help_without_fibre() {
    if is_seated() {
        crate::runtime::worker::wait(None, &Once(Cell::new(false)));
    } else {
        super::yield_without_fibre();
    }
}

/// Like [`help`], for code about to wait on a seat, on its own stack.
pub(super) fn help_before_wait() {
    crate::runtime::worker::wait(None, &Once(Cell::new(false)));
}

/// The seat of the calling code.
///
/// ```
/// use vicus_machine::{Runtime, threads};
///
/// let runtime = Runtime::builder().threads(1).start();
/// assert_eq!(threads::seat(), None);
/// assert_eq!(runtime.run(threads::seat).map(|seat| seat.index()), Some(0));
/// ```
#[inline]
pub fn seat() -> Option<SeatId> {
    with_worker(|worker| worker.seat)
}

/// Calls `f`, in which the calling lightweight thread waits for a thread of the system: this is no deadlock.
pub fn wait_outside<R>(f: impl FnOnce() -> R) -> R {
    let Some(shared) = with_worker(|worker| Arc::clone(&worker.shared)) else { return f() };
    shared.threads_here.begin_sleep();
    let result = f();
    shared.threads_here.end_sleep();
    result
}

/// Another thread of the system working near a seat with a blocked thread, until this is dropped.
#[derive(Debug)]
pub struct Lent(#[expect(dead_code, reason = "the thread leaves when it is dropped")] LentThread);

/// The calling thread is about to block in the system: puts another one on a spare seat of its neighbourhood, if there
/// is one, to begin the queued tasks there. Lightweight threads begun on this seat wait for its own thread all the
/// same, unless they follow others ([`Builder::follow`](super::Builder::follow)) and some seat has an unblocked thread
/// that is no program's. `None` outside of seats.
///
/// ```
/// use std::sync::mpsc::channel;
/// use vicus_machine::{Runtime, threads};
///
/// let runtime = Runtime::builder().threads(1).start();
/// let value = runtime.run(|| {
///     let (sender, receiver) = channel();
///     threads::spawn(move || sender.send(42).unwrap());
///     let _lent = threads::lend();
///     // Blocks the only thread that is not a spare one.
///     receiver.recv().unwrap()
/// });
/// assert_eq!(value, 42);
/// ```
pub fn lend() -> Option<Lent> {
    lend_here().map(Lent)
}

/// The addresses of the calling lightweight thread's stack; `None` elsewhere.
pub fn stack() -> Option<std::ops::Range<usize>> {
    with_worker(|worker| worker.fibres.current).flatten().map(|fibre| fibre.stack.addresses())
}

/// The calling lightweight thread's word from [`set_word`], 0 at first; `None` elsewhere.
#[inline]
pub fn word() -> Option<usize> {
    let core = core_here()?;
    #[expect(unsafe_code, reason = "follows a pointer to the thread that runs here")]
    // SAFETY: it is there as long as it runs.
    Some(unsafe { core.as_ref() }.word.get())
}

/// Keeps a word for the calling lightweight thread: for doors with more data on their threads. A
/// [`Local`](super::Local) is for values of any type. Elsewhere it does nothing.
///
/// ```
/// use vicus_machine::{Runtime, threads};
///
/// let runtime = Runtime::builder().threads(1).start();
/// let thread = threads::Builder::new().spawn_on(&runtime, || {
///     threads::set_word(7);
///     threads::yield_now();
///     threads::word()
/// });
/// assert_eq!(thread.join().unwrap(), Some(7));
/// ```
#[inline]
pub fn set_word(word: usize) {
    if let Some(core) = core_here() {
        #[expect(unsafe_code, reason = "follows a pointer to the thread that runs here")]
        // SAFETY: as in `word`; only the thread itself uses the cell.
        unsafe {
            core.as_ref().word.set(word);
        }
    }
}
