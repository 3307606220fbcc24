//! A runtime and a store, for all commands that ask queries.

use crate::doing::Doing;
use crate::input::Reading;
use crate::interrupt::{self, Interrupted};
use anyhow::ensure;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vicus::{BoxId, FlowError, NoMemory, Operator, OverBudget, Request, Runtime, RuntimeBuilder, Topology, Totals};
use vicus_rdf::load::{Load, LoadError, LoadOptions, Phase, Source};
use vicus_rdf::{Placement, Store};
use vicus_schedule::MOST_THREADS;
use vicus_sparql::Plan;

/// The outcome of loading.
pub(crate) struct Loaded {
    pub(crate) store: Arc<Store>,
    pub(crate) load_ms: f64,
    /// The number of malformed lines that were skipped, and the first of them.
    pub(crate) skipped: u64,
    pub(crate) first_skipped: Option<String>,
}

/// Loads sources as a request of the runtime, with a progress bar on a terminal. The runtime decides the number of workers and
/// where the store lies.
pub(crate) fn load(
    runtime: &Runtime,
    sources: Vec<Source>,
    reading: &Reading,
    options: LoadOptions,
) -> anyhow::Result<Loaded> {
    let began = Instant::now();
    let _doing = Doing::Loading.begin();
    let threads = runtime.plan().threads();
    let place = |memory: &Arc<_>| Placement { memory: Arc::clone(memory), threads: runtime.plan().threads_by_node() };
    let over = runtime.memory().map(place);
    let load = Load::new(sources, LoadOptions { workers: threads, over, ..options });
    let bar = bar(reading);
    let request = runtime.submit(load.model());
    let progress = load.progress();
    let ended = wait(&request, None, || {
        bar.set_position(reading.done.load(Ordering::Relaxed));
        let phase = match progress.phase() {
            Phase::Text => "reading",
            Phase::Terms => "sorting terms",
            Phase::Triples => "sorting triples",
            Phase::Indexes | Phase::Done => "making indexes",
        };
        bar.set_message(format!("{} triples, {phase}", progress.triples()));
    });
    bar.finish_and_clear();
    ended.map_err(|stopped| {
        let is_memory = matches!(&stopped, Stopped::Failed(failed) if is_no_memory(failed));
        if is_memory { plain(stopped).context("loading") } else { plain(stopped) }
    })?;
    let loaded = load.finish()?;
    Ok(Loaded {
        load_ms: began.elapsed().as_secs_f64() * 1e3,
        skipped: loaded.skipped,
        first_skipped: loaded.first_skipped.map(|malformed| malformed.to_string()),
        store: Arc::new(loaded.store),
    })
}

/// Submits a query's request. A request that is expected to be short begins on this thread, which checks the time and Ctrl-C
/// between its steps.
pub(crate) fn submit(
    runtime: &Runtime,
    plan: &Plan,
    operators: Vec<(BoxId, Box<dyn Operator>)>,
    budget: u64,
    until: Option<Instant>,
) -> Request {
    match plan.is_short() {
        true => runtime.submit_here(plan.model(), operators, budget, &|| over(until, "running").is_some()),
        false => runtime.submit_within(plan.model(), operators, budget),
    }
}

/// How often a waiting thread checks for Ctrl-C.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits for a request. Ctrl-C cancels it, and so does the end of its time.
pub(crate) fn wait(request: &Request, until: Option<Instant>, mut meanwhile: impl FnMut()) -> Result<Totals, Stopped> {
    // A short request ends before the clock is read again.
    let mut next = until.map_or(PAUSE, |until| PAUSE.min(until.saturating_duration_since(Instant::now())));
    loop {
        if let Some(result) = request.wait_for(next) {
            return result.map_err(|error| match error {
                // It was cancelled by this thread, while the thread ran it.
                FlowError::Cancelled => over(until, "running").unwrap_or(Stopped::Failed(error)),
                error => Stopped::Failed(error),
            });
        }
        meanwhile();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let is_late = left.is_some_and(|left| left.is_zero());
        if interrupt::pressed() || is_late {
            request.cancel();
            let _ = request.wait();
            return Err(if is_late { Stopped::Late("running") } else { Stopped::Interrupted });
        }
        next = left.map_or(PAUSE, |left| PAUSE.min(left));
    }
}

/// Whether work that only checks by itself has to end: after Ctrl-C, or when its time is up. `doing` names the work in the
/// message.
pub(crate) fn over(until: Option<Instant>, doing: &'static str) -> Option<Stopped> {
    if interrupt::pressed() {
        return Some(Stopped::Interrupted);
    }
    until.is_some_and(|until| Instant::now() >= until).then_some(Stopped::Late(doing))
}

/// Why a request has no result.
pub(crate) enum Stopped {
    Failed(FlowError),
    Interrupted,
    /// It needs more memory than allowed.
    Over(OverBudget),
    /// Its time was up, during this work.
    Late(&'static str),
}

impl Stopped {
    /// The error for holding more than the budget.
    pub(crate) fn over(budget: u64, mut holders: Vec<(String, u64)>) -> Stopped {
        holders.sort_by_key(|(_, held)| std::cmp::Reverse(*held));
        Stopped::Over(OverBudget { budget, holders })
    }

    /// The same; but if its boxes are over budget, the error tells the limit given by the user, of which the boxes' budget is
    /// what text and plan have left.
    pub(crate) fn of_budget(self, limit: u64) -> Stopped {
        match self {
            Stopped::Failed(FlowError::Failed { error, name }) => match error.downcast_ref::<OverBudget>() {
                Some(over) => {
                    let mut holders = over.holders.clone();
                    holders.push(("its text and plan".to_owned(), limit.saturating_sub(over.budget)));
                    Stopped::over(limit, holders)
                }
                None => Stopped::Failed(FlowError::Failed { error, name }),
            },
            stopped => stopped,
        }
    }
}

/// The error for people. A box's message about the user's input is shown without the box's name.
pub(crate) fn plain(stopped: Stopped) -> anyhow::Error {
    match stopped {
        Stopped::Interrupted => Interrupted.into(),
        Stopped::Late(doing) => {
            anyhow::Error::msg(format!("its time was up while {doing}: it was cancelled (--timeout)"))
        }
        Stopped::Over(error) => anyhow::Error::msg(format!("{error} (--memory-limit)")),
        // The input may be fine, so the box's name tells what the memory was for.
        Stopped::Failed(failed @ FlowError::Failed { .. }) if is_no_memory(&failed) => {
            anyhow::Error::msg(failed.to_string())
        }
        Stopped::Failed(FlowError::Failed { error, .. }) => match error.downcast_ref() {
            Some(LoadError::TooLong { .. }) => anyhow::Error::msg(format!("{error} (--max-line)")),
            _ => anyhow::Error::new(Boxed(error)),
        },
        Stopped::Failed(error) => error.into(),
    }
}

fn is_no_memory(error: &FlowError) -> bool {
    matches!(error, FlowError::Failed { error, .. } if error.is::<NoMemory>())
}

/// A shared error as an error.
#[derive(Debug)]
pub(crate) struct Boxed(pub(crate) Arc<dyn std::error::Error + Send + Sync>);

impl std::fmt::Display for Boxed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

// Without a source: its message is complete, and printing the chain would repeat it.
impl std::error::Error for Boxed {}

fn bar(reading: &Reading) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, style) = match reading.total {
        0 => (ProgressBar::new_spinner(), "{spinner} loading: {bytes} read, {msg}"),
        total => (ProgressBar::new(total), "loading {wide_bar} {bytes}/{total_bytes}, {msg}"),
    };
    bar.set_style(ProgressStyle::with_template(style).expect("the template is well-formed"));
    bar
}

/// Starts a runtime with as many threads as the user wants; by default as many as suit the machine.
pub(crate) fn start(builder: RuntimeBuilder, threads: Option<usize>) -> anyhow::Result<Runtime> {
    check_threads(threads)?;
    let builder = threads.map_or(builder.clone(), |threads| builder.threads(threads));
    Ok(builder.try_start()?)
}

/// Checks a number of threads against this machine.
pub(crate) fn check_threads(threads: Option<usize>) -> anyhow::Result<()> {
    let Some(threads) = threads else { return Ok(()) };
    check_threads_of(&vicus::this_machine().topology, threads)
}

/// Checks a number of threads against a machine.
pub(crate) fn check_threads_of(machine: &Topology, threads: usize) -> anyhow::Result<()> {
    let pus = machine.usable_pus().count();
    let most = (16 * pus).clamp(1024, MOST_THREADS);
    ensure!(threads > 0, "--threads 0: at least one thread is needed");
    ensure!(threads <= most, "--threads {threads}: at most {most} threads; the machine has {pus} PUs");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_is_told_so() {
        let now = Instant::now();
        let error = plain(over(Some(now), "planning").expect("it is late"));
        assert_eq!(error.to_string(), "its time was up while planning: it was cancelled (--timeout)");
        for until in [Some(now + Duration::from_secs(600)), None] {
            assert!(over(until, "parsing").is_none());
        }
    }
}
