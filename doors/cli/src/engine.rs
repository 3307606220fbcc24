//! Threads, and data loaded on them: the engine of every command with queries.

use crate::doing::Doing;
use crate::input::Reading;
use crate::interrupt::{self, Interrupted};
use crate::progress::style;
use crate::query::text_option;
use crate::tell::tell;
use crate::topology::count;
use anyhow::ensure;
use indicatif::{HumanCount, ProgressBar};
use std::io::{self, ErrorKind, IsTerminal};
use std::sync::Once;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vicus::{FlowError, Runtime, RuntimeBuilder, Topology};
use vicus_schedule::MOST_THREADS;
use vicus_service::data::{LoadError, LoadOptions, Phase, Source};
use vicus_service::{
    DocumentFailed, Error, FileNotPermitted, Loaded, MemoryBudget, Service, ServiceFailed, Unwritable, WebError,
};

/// Loads sources with the threads of a service, with a bar on a terminal.
pub(crate) fn load(
    service: &Service,
    sources: Vec<Source>,
    reading: &Reading,
    options: LoadOptions,
) -> anyhow::Result<Loaded> {
    /// How often the bar is drawn.
    const DRAWN: Duration = Duration::from_millis(50);
    let _doing = Doing::Loading.begin();
    let loading = service.load(sources, options, interrupt::cancel());
    let bar = bar(reading);
    if !bar.is_hidden() {
        let (progress, began, mut shown) = (loading.progress(), Instant::now(), Phase::Text);
        while !loading.wait_for(DRAWN) {
            bar.set_position(reading.done.load(Ordering::Relaxed));
            let phase = progress.phase();
            let triples = HumanCount(progress.triples());
            let at_work = match phase {
                Phase::Text => {
                    let rate = progress.triples() as f64 / began.elapsed().as_secs_f64().max(1e-3);
                    bar.set_message(format!("{triples} triples, {}/s", HumanCount(rate as u64)));
                    continue;
                }
                Phase::Terms => "sorting their terms",
                Phase::Triples => "sorting them",
                Phase::Indexes | Phase::Done => "making indexes",
            };
            // The text has been read, so nothing tells how much is left.
            if std::mem::replace(&mut shown, phase) == Phase::Text {
                bar.set_style(style("{spinner} {msg}, {elapsed}"));
            }
            bar.set_message(format!("{triples} triples read, {at_work}"));
        }
        bar.finish_and_clear();
    }
    loading.finish().map_err(|error| match error {
        Error::NoMemory { .. } => plain(error).context("loading"),
        error => plain(error),
    })
}

/// An error for people, with the options it depends on.
pub(crate) fn plain(error: Error) -> anyhow::Error {
    let option = match &error {
        Error::Cancelled => return Interrupted.into(),
        Error::Query(error) => text_option(error),
        Error::Format(_) => " (--format)",
        Error::TimeLimit { .. } => " (--timeout)",
        Error::MemoryLimit(_) | Error::Busy(_) | Error::NetworkLimit(FlowError::Stalled { .. }) => " (--memory-limit)",
        Error::Failed { error, .. } if matches!(error.downcast_ref(), Some(LoadError::TooLong { .. })) => {
            " (--max-line)"
        }
        Error::Failed { error, .. } => of_foreign_error(&**error),
        Error::Operation { number, name, error } => {
            return plain(Error::clone(error)).context(format!("operation {number}, {name}"));
        }
        Error::Sink(failed) => match failed.io() {
            // Its reader has seen enough.
            Some(io) if io.kind() == ErrorKind::BrokenPipe => return io::Error::from(ErrorKind::BrokenPipe).into(),
            Some(io) => return anyhow::Error::msg(format!("standard output: {io}")),
            None => match failed.error().downcast_ref::<Unwritable>() {
                Some(unwritable) => {
                    return anyhow::Error::msg(format!("{error}; --format {} have", unwritable.others()));
                }
                None => "",
            },
        },
        _ => "",
    };
    anyhow::Error::msg(format!("{error}{option}"))
}

/// The option behind an error of another server, or of a file named by an update.
fn of_foreign_error(error: &(dyn std::error::Error + 'static)) -> &'static str {
    if error.is::<FileNotPermitted>() {
        return " (--load-folder)";
    }
    if let Some(DocumentFailed { error, .. }) = error.downcast_ref() {
        return of_web_error(error);
    }
    let web = match (error.downcast_ref(), error.downcast_ref()) {
        (Some(ServiceFailed { error, .. }), _) => error.downcast_ref(),
        // A document that is too long when it is unpacked.
        (_, Some(LoadError::Unreadable { error, .. })) => error.get_ref().and_then(|error| error.downcast_ref()),
        (None, _) => error.downcast_ref(),
    };
    web.map_or("", of_web_error)
}

fn of_web_error(error: &WebError) -> &'static str {
    match error {
        WebError::NotPermitted { .. } => " (--allow-service)",
        WebError::TimedOut { .. } => " (--service-timeout)",
        WebError::TooManyBytes { .. } => " (--service-bytes)",
        _ => "",
    }
}

fn bar(reading: &Reading) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match reading.total {
        0 => (ProgressBar::new_spinner(), "{spinner} loading: {bytes} read, {msg}"),
        total => (ProgressBar::new(total), "loading {wide_bar} {bytes}/{total_bytes}, {msg}{left}"),
    };
    // The first drawing has a count as well.
    bar.with_style(style(template)).with_message("0 triples")
}

/// A service with the user's number of threads, and no bound on its calls' memory together.
pub(crate) fn serve(builder: RuntimeBuilder, threads: Option<usize>) -> anyhow::Result<Service> {
    Ok(Service::new(start(builder, threads)?, MemoryBudget::new(u64::MAX)))
}

/// Starts a runtime with the user's number of threads; by default as many as suit the machine.
pub(crate) fn start(builder: RuntimeBuilder, threads: Option<usize>) -> anyhow::Result<Runtime> {
    check_threads(threads)?;
    let builder = threads.map_or(builder.clone(), |threads| builder.threads(threads));
    Ok(builder.try_start()?)
}

/// Checks a number of threads against this machine. A person is told when there are more threads than PUs; a script
/// may want that, as for a test.
pub(crate) fn check_threads(threads: Option<usize>) -> anyhow::Result<()> {
    /// A command may check more than once.
    static TOLD: Once = Once::new();
    let Some(threads) = threads else { return Ok(()) };
    let machine = vicus::this_machine().topology;
    check_threads_of(&machine, threads)?;
    let pus = machine.usable_pus().count();
    if threads > pus && std::io::stderr().is_terminal() {
        let turns =
            format!("{threads} threads take turns on {}: more than one for each gain nothing", count(pus, "PU"));
        TOLD.call_once(|| tell(format_args!("vicus: {turns}")));
    }
    Ok(())
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
    use vicus_service::Stage;

    #[test]
    fn what_is_late_is_told_so() {
        let error = plain(Error::TimeLimit { during: Stage::Planning });
        assert_eq!(error.to_string(), "its time was up while planning: it was cancelled (--timeout)");
    }
}
