//! A line on the terminal for a query that runs for over a second.

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use vicus_service::{CallOutcome, Error, RunningQuery, Sink};

/// Shorter runs show nothing.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// How often the line is drawn.
const DRAWN: Duration = Duration::from_millis(100);

/// Waits for the outcome of a run. Until it is over, a line on standard error counts its rows, if that is a terminal.
/// Rows that are `seen` as they come, on a terminal, are not counted beside.
pub(super) fn outcome<S: Sink>(running: RunningQuery<S>, seen: bool) -> Result<CallOutcome, Error> {
    watch(&running, seen);
    running.wait().map(|(_, outcome)| outcome)
}

fn watch<S: Sink>(running: &RunningQuery<S>, seen: bool) {
    if running.is_done() || !io::stderr().is_terminal() || seen {
        return;
    }
    let (over, is_over) = channel();
    // The receiver may be gone: the run is over then, too.
    running.when_done(move || _ = over.send(()));
    let goes_on = |wait| is_over.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
    if !goes_on(SHOWN_AFTER) {
        return;
    }
    let watch = running.watch();
    let style = ProgressStyle::with_template("{spinner} {elapsed}: {msg}; Ctrl-C ends it");
    let line = ProgressBar::new_spinner().with_style(style.expect("the template is well-formed"));
    line.set_elapsed(SHOWN_AFTER);
    while goes_on(DRAWN) {
        let rows = watch.rows();
        line.set_message(if rows == 1 {
            "1 row so far".to_owned()
        } else {
            format!("{} rows so far", HumanCount(rows))
        });
        line.tick();
    }
    line.finish_and_clear();
}
