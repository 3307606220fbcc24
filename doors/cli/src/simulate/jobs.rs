//! Simulations side by side, on as many threads as the machine has.

use crate::progress::style;
use indicatif::ProgressBar;
use std::io::IsTerminal;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs all jobs, with a progress bar on a terminal, and returns the results in the order of the jobs; or the error of
/// the first failed job.
pub(crate) fn on_all_threads<J: Sync, R: Send, E: Send>(
    jobs: &[J],
    what: &str,
    run: impl Fn(&J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let bar = progress(jobs.len(), what);
    let next = AtomicUsize::new(0);
    let results = Mutex::new(jobs.iter().map(|_| None).collect::<Vec<_>>());
    let work = || {
        loop {
            // Relaxed, because the results go through the lock.
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else { return };
            let result = run(job);
            results.lock().expect("nothing panics under this lock")[at] = Some(result);
            bar.inc(1);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    bar.finish_and_clear();
    let results = results.into_inner().expect("nothing panics under this lock");
    results.into_iter().map(|result| result.expect("each job was run")).collect()
}

fn progress(jobs: usize, what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = style("{msg} {bar:30} {pos} of {len} runs{left}");
    let bar = ProgressBar::new(jobs as u64).with_style(style);
    bar.with_message(what.to_owned())
}
