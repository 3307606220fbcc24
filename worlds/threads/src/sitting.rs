//! A program's thread on the first seat of a runtime, such as Qthreads' main thread; and a door's knowledge of its
//! calling thread.
//!
//! The thread runs its own code most of the time. When this code waits for a full/empty bit, a lightweight thread, or a
//! scope, the thread runs the tasks of its seat on top; lightweight threads among them have stacks of their own, so
//! they keep nothing waiting beneath them.

use crate::spawn::{fibre_that_yields, go_on, yield_without_fibre};
use crate::threads::counts::{Threads, Waits};
use crate::threads::fibres;
use crate::threads::here::{core_here, help_once};
use crate::watch::deadlock::is_quiet_but;
use crate::watch::layer::{LAYER, threads_of};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vicus_machine::layer::{LentThread, RuntimeState, Stay, in_task, is_seated, lend_here, thread_moved, with_worker};
use vicus_machine::{MachineRuntime, RuntimeBuilder, StartError};
use vicus_os::discover::limits;
use vicus_os::pin;
use vicus_schedule::SeatId;
use vicus_trace::Trace;

/// The start of a [`Sitting`].
pub trait StartSitting<R> {
    /// Starts a runtime with the calling thread on its first seat, where it stays until [`Sitting::end`].
    ///
    /// ```
    /// use std::sync::atomic::AtomicU64;
    /// use vicus_machine::MachineRuntime;
    /// use vicus_threads::{StartSitting, full_empty};
    ///
    /// static WORD: AtomicU64 = AtomicU64::new(0);
    /// let sitting = MachineRuntime::builder().threads(1).start_sitting()?;
    /// full_empty::empty(&WORD);
    /// vicus_threads::spawn(|| full_empty::write_ef(&WORD, 42));
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
    fn start_sitting(self) -> Result<Sitting<R>, StartError>;
}

impl<R: From<MachineRuntime>> StartSitting<R> for RuntimeBuilder<R> {
    fn start_sitting(self) -> Result<Sitting<R>, StartError> {
        assert!(!is_seated(), "the thread sits on a seat already");
        let runtime = self.layer(LAYER).try_start_without_first()?;
        let shared = Arc::clone(runtime.shared());
        let seat = shared.first_seat().expect("a plan has a seat that is not spare");
        shared.hook.of_seat(seat).sits_down();
        let stay = Stay::begin(&shared, seat);
        Ok(Sitting { runtime: R::from(runtime), shared, stay, bound: None })
    }
}

/// A thread's stay on the first seat of a runtime. It stays on its thread.
pub struct Sitting<R = MachineRuntime> {
    runtime: R,
    shared: Arc<RuntimeState>,
    stay: Stay,
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
    /// use vicus_machine::MachineRuntime;
    /// use vicus_threads::StartSitting;
    ///
    /// let mut sitting = MachineRuntime::builder().threads(1).start_sitting()?;
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
        assert!(self.stay.is_here(), "its own thread binds a stay");
        let (plan, topology) = (&self.shared.plan, self.shared.topology());
        let group = |seat: SeatId| topology.pus[plan.seats[seat.index()].pu.index()].group;
        let own = group(self.stay.seat());
        let seats = (0..plan.seats.len()).map(SeatId::new).filter(|&seat| group(seat) == own);
        let pus = seats.flat_map(|seat| &plan.seats[seat.index()].affinity);
        let wanted: BTreeSet<u32> = pus.map(|pu| topology.pus[pu.index()].os_index).collect();
        let before = limits::affinity()?;
        let here: Vec<u32> = before.iter().copied().filter(|cpu| wanted.contains(cpu)).collect();
        if here.is_empty() {
            return Ok(false);
        }
        pin::pin(here.iter().copied())?;
        thread_moved();
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
        self.end_recorded().0
    }

    /// Ends the runtime as [`Sitting::end`] does, and returns its recording as well; `None` if it did not record. What
    /// lightweight threads do that are left as they are is not in it.
    ///
    /// ```
    /// use vicus_machine::MachineRuntime;
    /// use vicus_threads::StartSitting;
    ///
    /// let sitting = MachineRuntime::builder().threads(1).record(1000).start_sitting()?;
    /// vicus_threads::spawn(|| ()).join().unwrap();
    /// let (are_over, trace) = sitting.end_recorded();
    /// assert!(are_over);
    /// assert_eq!(trace.unwrap().check(), []);
    /// # Ok::<(), vicus_machine::StartError>(())
    /// ```
    ///
    /// # Panics
    /// As [`Sitting::end`].
    pub fn end_recorded(self) -> (bool, Option<Trace>) {
        assert!(self.stay.is_here() && fibres::current().is_none(), "its own thread ends a stay");
        let until = Instant::now() + LAST_WAIT;
        let mut was_quiet = false;
        let mut is_quiet = false;
        while Threads::of(&self.shared).live() > 0 && Instant::now() < until {
            help();
            is_quiet =
                !in_task(|worker| worker.seat.has_resumed()) && is_quiet_but(&self.shared, Some(self.stay.seat()));
            if is_quiet && was_quiet {
                break;
            }
            was_quiet = is_quiet;
            if is_quiet {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        let Sitting { runtime, shared, stay, bound } = self;
        stay.end();
        bound.into_iter().for_each(Bound::undo);
        if Threads::of(&shared).live() == 0 {
            drop(runtime);
            return (true, shared.cut_trace());
        }
        let trace = shared.cut_trace();
        // Suspended fibres know of the runtime.
        std::mem::forget(runtime);
        if is_quiet {
            shared.end_system_threads();
        }
        std::mem::forget(shared);
        (false, trace)
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
        f.debug_struct("Sitting").field("seat", &self.stay.seat()).finish_non_exhaustive()
    }
}

/// The lightweight threads of a runtime, in numbers.
pub trait CountThreads {
    /// How many lightweight threads there are, and how many of them wait for full/empty bits: an estimate while they
    /// run.
    ///
    /// ```
    /// use vicus_machine::MachineRuntime;
    /// use vicus_threads::CountThreads;
    ///
    /// assert_eq!(MachineRuntime::builder().threads(1).start().lightweight_threads(), (0, 0));
    /// ```
    fn lightweight_threads(&self) -> (u64, u64);

    /// How many lightweight threads have been spawned since it started: at least those spawned by the calling thread,
    /// or known to it.
    ///
    /// ```
    /// use vicus_machine::MachineRuntime;
    /// use vicus_threads::CountThreads;
    ///
    /// let runtime = MachineRuntime::builder().threads(1).start();
    /// runtime.run(|| vicus_threads::spawn(|| ()).join().unwrap());
    /// assert_eq!(runtime.spawned_threads(), 1);
    /// ```
    fn spawned_threads(&self) -> u64;
}

impl CountThreads for MachineRuntime {
    fn lightweight_threads(&self) -> (u64, u64) {
        let threads = threads_of(self.shared());
        let (begun, ended) = threads.waits(&[Waits::OfThreads]);
        (threads.live(), begun.saturating_sub(ended))
    }

    fn spawned_threads(&self) -> u64 {
        threads_of(self.shared()).all()
    }
}

/// Runs one other task of the calling thread's seat, if there is one; a lightweight thread is suspended meanwhile
/// ([`yield_now`](super::yield_now)). Outside of seats it gives up the thread's time.
#[inline]
pub fn help() {
    match fibre_that_yields() {
        Some(fibre) => {
            fibre.yield_now();
            go_on();
        }
        None => help_without_fibre(),
    }
}

#[cold]
#[inline(never)]
fn help_without_fibre() {
    if is_seated() {
        help_once();
    } else {
        yield_without_fibre();
    }
}

/// The seat of the calling code.
///
/// ```
/// use vicus_machine::MachineRuntime;
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// assert_eq!(vicus_threads::seat(), None);
/// assert_eq!(runtime.run(vicus_threads::seat).map(|seat| seat.index()), Some(0));
/// ```
#[inline]
pub fn seat() -> Option<SeatId> {
    with_worker(|worker| worker.seat_id)
}

/// Calls `f`, in which the calling lightweight thread waits for a thread of the system: this is no deadlock.
pub fn wait_outside<R>(f: impl FnOnce() -> R) -> R {
    let Some(shared) = with_worker(|worker| Arc::clone(&worker.shared)) else { return f() };
    let threads = threads_of(&shared);
    threads.begin_sleep();
    let result = f();
    threads.end_sleep();
    result
}

/// Another thread of the system working near a seat with a blocked thread, until this is dropped.
#[derive(Debug)]
pub struct StandIn(#[expect(dead_code, reason = "the thread leaves when it is dropped")] LentThread);

/// The calling thread is about to block in the system: puts another one on a spare seat of its neighbourhood, if there
/// is one, to begin the queued tasks there. Lightweight threads begun on this seat wait for its own thread all the
/// same, unless they follow others ([`Builder::follow`](super::Builder::follow)) and some seat has an unblocked thread
/// that is no program's. `None` outside of seats.
///
/// ```
/// use std::sync::mpsc::channel;
/// use vicus_machine::MachineRuntime;
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// let value = runtime.run(|| {
///     let (sender, receiver) = channel();
///     vicus_threads::spawn(move || sender.send(42).unwrap());
///     let _lent = vicus_threads::lend();
///     // Blocks the only thread that is not a spare one.
///     receiver.recv().unwrap()
/// });
/// assert_eq!(value, 42);
/// ```
pub fn lend() -> Option<StandIn> {
    lend_here().map(StandIn)
}

/// The addresses of the calling lightweight thread's stack; `None` elsewhere.
pub fn stack() -> Option<std::ops::Range<usize>> {
    fibres::beneath().map(|fibre| fibre.stack.addresses())
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
/// use vicus_machine::MachineRuntime;
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// let thread = vicus_threads::Builder::new().spawn_on(&runtime, || {
///     vicus_threads::set_word(7);
///     vicus_threads::yield_now();
///     vicus_threads::word()
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
