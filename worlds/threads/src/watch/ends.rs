//! The end of a runtime's lightweight threads.

use super::judges::{Verdict, judge_waits};
use crate::threads::core::Core;
use crate::threads::counts::Threads;
use crate::threads::fibres::Fibre;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vicus_fibres::Record as _;
use vicus_machine::layer::RuntimeState;

/// How long the drop of a runtime waits for its lightweight threads after it has told them to end.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// Ends all lightweight threads: drops those not begun, unwinds the waiting ones, and waits for the running ones.
/// If some don't end, it says so on standard error. Returns whether all ended.
pub(crate) fn end_all(threads: &Threads, shared: &RuntimeState) -> bool {
    threads.ending.store(true, Ordering::SeqCst);
    let began = Instant::now();
    let mut pause = Duration::from_micros(50);
    while threads.live() > 0 {
        // A thread beginning to wait at this moment is found the next time.
        judge_waits(|wait| match wait.fibre {
            Some(fibre) if fibre.is_of(shared) => Verdict::Ends,
            _ => Verdict::Stays,
        });
        Fibre::pools().all().filter(|fibre| fibre.is_suspended() && fibre.is_of(shared)).for_each(Fibre::wake);
        if began.elapsed() > LAST_WAIT {
            report_left(shared, threads);
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    true
}

#[cold]
fn report_left(shared: &RuntimeState, threads: &Threads) {
    let mut text = format!("vicus: {} lightweight threads of a dropped runtime don't end", threads.live());
    // Waiting threads can't end while they are examined; others could.
    let mut waiting = 0;
    judge_waits(|wait| {
        if let Some(fibre) = wait.fibre.filter(|fibre| fibre.is_of(shared))
            && let Some(thread) = fibre.thread()
        {
            waiting += 1;
            if waiting <= 20 {
                text.push_str("\n  ");
                let _ = Core::describe(thread, &mut text);
                let _ = write!(text, ": {} of the word at {:#x}", wait.operation, wait.address);
            }
        }
        Verdict::Stays
    });
    // A failing standard error is no reason to end.
    let _ = writeln!(std::io::stderr(), "{text}");
}
