//! Lightweight threads that wait for one another: finds and reports them.
//!
//! As long as a thread waits for a full/empty bit, its runtime is examined every half second. The waiting thread is a
//! lightweight one, or one on a seat with its own stack, such as a program's main thread. A deadlock is found if twice
//! in a row all seats sleep, nothing is queued, no thread waits for a time, and no wait has begun or ended in between:
//! then nothing of this runtime will ever fill or empty a word. A thread of the system may still do so. The report
//! therefore states only the observations, and threads are ended only if the program has asked for it, and no such
//! thread has ended a wait before.

use super::full_empty::{SeenWait, Verdict, judge_waits};
use super::timer::{Call, timer};
use super::{Core, Threads, Waits, starved_of};
use crate::defaults::OnDeadlock;
use crate::runtime::{Runtime, RuntimeBuilder, Shared};
use crate::threads::fibres::Fibre;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use vicus_schedule::{QueueId, SeatId};

/// The panic of an unwound lightweight thread: no running code could have ended its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The awaited operation, by the name of the function.
    pub operation: &'static str,
    /// With the word at this address.
    pub address: usize,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a deadlock: {} of the word at {:#x} would have waited for ever", self.operation, self.address)
    }
}

impl std::error::Error for Deadlock {}

impl<R: From<Runtime>> RuntimeBuilder<R> {
    /// Sets its reaction when its lightweight threads wait for full/empty bits and no running code could change these;
    /// by default it reports.
    ///
    /// ```
    /// use vicus_machine::{Runtime, threads::{Builder, Deadlock, OnDeadlock, full_empty}};
    /// use std::sync::atomic::AtomicU64;
    ///
    /// static WORD: AtomicU64 = AtomicU64::new(0);
    /// full_empty::empty(&WORD);
    /// let runtime = Runtime::builder().threads(1).deadlock(OnDeadlock::Unwind).start();
    /// let waits = Builder::new().spawn_on(&runtime, || full_empty::read_ff(&WORD));
    /// let deadlock = *waits.join().unwrap_err().downcast::<Deadlock>().unwrap();
    /// assert_eq!(deadlock.operation, "read_ff");
    /// ```
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
}

/// How often it is looked for.
const EVERY: Duration = Duration::from_millis(500);
/// How many threads are named.
const NAMED: usize = 20;

/// The findings of the last look.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// How many waits have begun, and have ended.
    waits: (u64, u64),
    is_quiet: bool,
    is_reported: bool,
}

/// Looks for deadlocks of a runtime, as long as threads wait.
#[derive(Default)]
pub(crate) struct Watch {
    pub(super) is_set: AtomicBool,
    /// A thread without a seat has ended a wait.
    pub(super) is_filled_outside: AtomicBool,
    /// A deadlock was told.
    pub(super) was_told: AtomicBool,
    pub(crate) on_deadlock: OnDeadlock,
    pub(crate) takes_backtraces: bool,
}

impl Shared {
    /// A thread of this runtime begins to wait for a word.
    pub(super) fn watch_waits(self: &Arc<Self>) {
        let watch = &self.threads_here.watch;
        if watch.on_deadlock == OnDeadlock::Ignore || watch.is_set.load(Ordering::Relaxed) {
            return;
        }
        if !watch.is_set.swap(true, Ordering::AcqRel) {
            look_later(Arc::downgrade(self), Look::First);
        }
    }

    /// Whether nothing of it runs or will run by itself, apart from one seat.
    pub(super) fn is_quiet_but(&self, own: Option<SeatId>) -> bool {
        let sleeps = |seat: SeatId| {
            let plan = &self.plan.seats[seat.index()];
            let is_away = Some(seat) == own || plan.spare && self.system.lent[seat.index()].is_idle();
            let is_asleep = is_away || self.sleepers.pools[plan.pool.index()].is_announced(self.slot_of(seat));
            is_asleep && self.inbox(seat).len() == 0
        };
        (0..self.plan.seats.len()).map(SeatId::new).all(sleeps)
            && (0..self.plan.queues.len()).map(QueueId::new).all(|queue| self.queues.len(queue) == 0)
            && self.threads_here.sleeping.load(Ordering::Relaxed) == 0
    }
}

/// The number of a look.
#[derive(Clone, Copy)]
enum Look {
    First,
    /// After a look with these findings.
    Next(Seen),
    /// The watch was ended, but a thread just beginning to wait may not have seen the end.
    Last,
}

fn look_later(runtime: Weak<Shared>, next: Look) {
    if let Some(timer) = timer() {
        timer.add(Instant::now() + EVERY, Call::Run(Box::new(move || look(&runtime, next))));
    }
}

/// Looks, and looks again later.
fn look(runtime: &Weak<Shared>, which: Look) {
    let Some(shared) = runtime.upgrade() else { return };
    let watch = &shared.threads_here.watch;
    let waits = shared.threads_here.waits(&[Waits::OfThreads, Waits::OfSeats]);
    match (which, waits.0 == waits.1) {
        (Look::Last, true) => return,
        (_, true) => {
            watch.is_set.store(false, Ordering::SeqCst);
            return look_later(Weak::clone(runtime), Look::Last);
        }
        // A thread that has seen the end of this watch has begun another one.
        (Look::Last, false) if watch.is_set.swap(true, Ordering::SeqCst) => return,
        _ => {}
    }
    let last = if let Look::Next(seen) = which { Some(seen) } else { None };
    let is_quiet = shared.is_quiet_but(None);
    let is_same = last.is_some_and(|last| last.is_quiet && last.waits == waits);
    let mut is_reported = is_same && last.is_some_and(|last| last.is_reported);
    if is_quiet && is_same && !is_reported {
        report(&shared);
        is_reported = true;
    }
    look_later(Weak::clone(runtime), Look::Next(Seen { waits, is_quiet, is_reported }));
}

/// Reports the waiting threads, and ends them if the program wants it.
#[cold]
fn report(shared: &Shared) {
    let watch = &shared.threads_here.watch;
    // Such threads may do so again, so it may be none: it is told once, and nothing is ended.
    let is_sure = !watch.is_filled_outside.load(Ordering::Relaxed);
    if watch.was_told.swap(true, Ordering::Relaxed) && !is_sure {
        return;
    }
    let on_deadlock = if is_sure { watch.on_deadlock } else { OnDeadlock::Report };
    let waits = || shared.threads_here.waits(&[Waits::OfThreads, Waits::OfSeats]);
    let waits_before = waits();
    let (mut count, mut text) = (0, String::new());
    let who_waits = |wait: &SeenWait<'_>| {
        let thread = wait.fibre.filter(|fibre| fibre.is_of(shared)).and_then(Fibre::thread);
        let seat = wait.seat.filter(|(runtime, _)| ptr::eq(*runtime, shared)).map(|(_, seat)| seat);
        (thread, seat)
    };
    judge_waits(|wait| {
        let (thread, seat) = who_waits(&wait);
        if thread.is_none() && seat.is_none() {
            return Verdict::Stays;
        }
        count += 1;
        if count <= NAMED {
            text.push_str("\n  ");
            let _ = match (thread, seat) {
                (Some(thread), _) => Core::describe(thread, &mut text),
                (None, Some(seat)) if shared.threads_here.of_seat(seat).is_sitting() => {
                    write!(text, "the main thread, on seat {}", seat.index())
                }
                (None, Some(seat)) => write!(text, "a task on the stack of the thread of seat {}", seat.index()),
                (None, None) => Ok(()),
            };
            let state = if wait.operation.wants_full() { "empty" } else { "full" };
            let _ = write!(text, ": {} of the word at {:#x}, which is {state}", wait.operation.name(), wait.address);
            if let Some(backtrace) = wait.backtrace {
                let _ = write!(text, "\n{backtrace}");
            }
        }
        Verdict::Stays
    });
    if count == 0 {
        return;
    }
    if count > NAMED {
        let _ = write!(text, "\n  and {} more", count - NAMED);
    }
    match starved_of(shared) {
        0 => {}
        starved => {
            _ = write!(text, "\n  {starved} lightweight threads have not begun, since there is no stack for them")
        }
    }
    let who = if count == 1 { "one thread waits".to_owned() } else { format!("{count} threads wait") };
    let end = match on_deadlock {
        OnDeadlock::Unwind => "Lightweight threads among them are unwound.",
        OnDeadlock::Abort => "The process is aborted.",
        OnDeadlock::Report | OnDeadlock::Ignore => "Unless a thread of the system fills or empties them, none goes on.",
    };
    // A failing standard error is no reason to end.
    let _ = writeln!(std::io::stderr(), "vicus: a deadlock: nothing runs, and {who} for full/empty bits. {end}{text}");
    match on_deadlock {
        OnDeadlock::Abort => std::process::abort(),
        // During the report, which may take long, a thread of the system may have come.
        OnDeadlock::Unwind if waits() != waits_before || watch.is_filled_outside.load(Ordering::Relaxed) => {}
        // Now, and not before: their program may end as soon as they are unwound.
        OnDeadlock::Unwind => judge_waits(|wait| match who_waits(&wait) {
            (None, None) => Verdict::Stays,
            _ => Verdict::IsDeadlocked,
        }),
        OnDeadlock::Report | OnDeadlock::Ignore => {}
    }
}

impl Threads {
    /// How many waits of these for words have begun, and how many of these have ended.
    pub(super) fn waits(&self, whose: &[Waits]) -> (u64, u64) {
        let of_all = |which: usize| {
            let waits =
                self.counts.iter().flat_map(|counts| whose.iter().map(|&whose| &counts.0.waits[whose as usize]));
            waits.map(|waits| waits[which].load(Ordering::Acquire)).sum()
        };
        // In this order: an ended wait has begun before.
        let ended = of_all(1);
        (of_all(0), ended)
    }
}
