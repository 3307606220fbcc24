//! A line on the terminal for a query that runs for over a second.

use crate::progress::RunningLine;
use indicatif::HumanCount;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use vicus_service::{CallOutcome, Error, RunningQuery, Sink};

/// How often the line is drawn.
const DRAWN: Duration = Duration::from_millis(100);

/// Waits for the outcome of a run. Until it is over, a line on standard error counts its rows, if that is a terminal.
/// Rows that are `seen` as they come, on a terminal, are not counted beside.
pub(super) fn outcome<S: Sink>(running: RunningQuery<S>, seen: bool) -> Result<CallOutcome, Error> {
    watch(&running, seen);
    running.wait().map(|(_, outcome)| outcome)
}

fn watch<S: Sink>(running: &RunningQuery<S>, seen: bool) {
    let mut line = RunningLine::new(!seen);
    if running.is_done() || !line.is_shown() {
        return;
    }
    let (over, is_over) = channel();
    // The receiver may be gone: the run is over then, too.
    running.when_done(move || _ = over.send(()));
    let goes_on = |wait| is_over.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
    if !goes_on(RunningLine::SHOWN_AFTER) {
        return;
    }
    let watch = running.watch();
    while goes_on(DRAWN) {
        line.tell(|| match watch.rows() {
            1 => "1 row so far".to_owned(),
            rows => format!("{} rows so far", HumanCount(rows)),
        });
    }
}
