//! Lightweight threads that wait for one another: finds and reports them.
//!
//! As long as a thread waits for a full/empty bit, its runtime is examined every half second. The waiting thread is a
//! lightweight one, or one on a seat with its own stack, such as a program's main thread. A deadlock is found if twice
//! in a row all seats sleep, nothing is queued, no thread waits for a time, and no wait has begun or ended in between:
//! then nothing of this runtime will ever fill or empty a word. A thread of the system may still do so. The report
//! therefore states only the observations, and threads are ended only if the program has asked for it, and no such
//! thread has ended a wait before.

use super::judges::{SeenWait, Verdict, judge_waits};
use crate::threads::core::Core;
use crate::threads::counts::{Threads, Waits};
use crate::threads::fibres::Fibre;
use crate::threads::starved::starved_of;
use crate::threads::timer::{Call, timer};
use std::fmt::Write as _;
use std::io::Write as _;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use vicus_machine::OnDeadlock;
use vicus_machine::layer::RuntimeState;
use vicus_schedule::SeatId;

/// How often it is looked for.
const EVERY: Duration = Duration::from_millis(500);
/// How many threads are named.
const NAMED: usize = 20;

/// The findings of the last look.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LastLook {
    /// How many waits have begun, and have ended.
    waits: (u64, u64),
    is_quiet: bool,
    is_reported: bool,
}

/// Whether nothing of a runtime runs or will run by itself, apart from one seat.
pub(crate) fn is_quiet_but(shared: &RuntimeState, own: Option<SeatId>) -> bool {
    shared.is_quiet_but(own) && Threads::of(shared).sleeping.load(Ordering::Relaxed) == 0
}

/// The number of a look.
#[derive(Clone, Copy)]
enum Look {
    First,
    /// After a look with these findings.
    Next(LastLook),
    /// The watch was ended, but a thread just beginning to wait may not have seen the end.
    Last,
}

/// The first look at a runtime: threads begin to wait.
pub(crate) fn look_first(shared: &Arc<RuntimeState>) {
    look_later(Arc::downgrade(shared), Look::First);
}

fn look_later(runtime: Weak<RuntimeState>, next: Look) {
    if let Some(timer) = timer() {
        timer.add(Instant::now() + EVERY, Call::Run(Box::new(move || look(&runtime, next))));
    }
}

/// Looks, and looks again later.
fn look(runtime: &Weak<RuntimeState>, which: Look) {
    let Some(shared) = runtime.upgrade() else { return };
    let threads = Threads::of(&shared);
    let watch = &threads.watch;
    let waits = threads.waits(&[Waits::OfThreads, Waits::OfSeats]);
    match (which, waits.0 == waits.1) {
        (Look::Last, true) => return,
        (_, true) => {
            watch.watching.end();
            return look_later(Weak::clone(runtime), Look::Last);
        }
        // A thread that has seen the end of this watch has begun another one.
        (Look::Last, false) if !watch.watching.resume() => return,
        _ => {}
    }
    let last = if let Look::Next(seen) = which { Some(seen) } else { None };
    let is_quiet = is_quiet_but(&shared, None);
    let is_same = last.is_some_and(|last| last.is_quiet && last.waits == waits);
    let mut is_reported = is_same && last.is_some_and(|last| last.is_reported);
    if is_quiet && is_same && !is_reported {
        report(&shared);
        is_reported = true;
    }
    look_later(Weak::clone(runtime), Look::Next(LastLook { waits, is_quiet, is_reported }));
}

/// Reports the waiting threads, and ends them if the program wants it.
#[cold]
fn report(shared: &RuntimeState) {
    let threads = Threads::of(shared);
    let watch = &threads.watch;
    // Such threads may do so again, so it may be none: it is told once, and nothing is ended.
    let is_sure = !watch.is_filled_outside.load(Ordering::Relaxed);
    if watch.was_told.swap(true, Ordering::Relaxed) && !is_sure {
        return;
    }
    let on_deadlock = if is_sure { shared.settings.on_deadlock } else { OnDeadlock::Report };
    let waits = || threads.waits(&[Waits::OfThreads, Waits::OfSeats]);
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
                (None, Some(seat)) if shared.hook.of_seat(seat).is_sitting() => {
                    write!(text, "the main thread, on seat {}", seat.index())
                }
                (None, Some(seat)) => write!(text, "a task on the stack of the thread of seat {}", seat.index()),
                (None, None) => Ok(()),
            };
            let state = if wait.wants_full { "empty" } else { "full" };
            let _ = write!(text, ": {} of the word at {:#x}, which is {state}", wait.operation, wait.address);
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
