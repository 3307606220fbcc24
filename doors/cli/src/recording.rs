//! `--trace` and the options beside it, alike for all commands with a recording of their own run.

use crate::messages::tell;
use anyhow::Context as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vicus::RuntimeBuilder;
use vicus::kit::TraceRoom;
use vicus_trace::{EventLog, Trace};

/// The events of a thread in a trace, unless others are wanted.
pub(crate) const ROOM: NonZero<usize> = NonZero::new(EventLog::DEFAULT_ROOM).expect("it has room");

#[derive(clap::Args)]
pub(crate) struct TraceArgs {
    /// Records the events of every thread, and writes them to this file at the end; see `vicus trace`. Short queries,
    /// which otherwise run on the calling thread, then run on these threads.
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    trace: Option<PathBuf>,
    /// How many events of each thread the trace has room for, 32 bytes each. Later ones are left out, and counted.
    #[arg(long, value_name = "N", requires = "trace", default_value_t = ROOM, help_heading = "Trace")]
    trace_events: NonZero<usize>,
    /// Keeps the last events in place of the first ones, and sums of those before: for runs of days.
    #[arg(long, requires = "trace", help_heading = "Trace")]
    trace_rolling: bool,
    /// Keeps the events of so much time before the end, such as 10m or 500ms, and sums of the time before that; the
    /// last events alone if `--trace-events` has no room for more.
    #[arg(long, value_name = "TIME", value_parser = trace_span, requires = "trace", conflicts_with = "trace_rolling")]
    #[arg(help_heading = "Trace")]
    trace_last: Option<Duration>,
}

impl TraceArgs {
    fn room(&self) -> TraceRoom {
        TraceRoom { events: self.trace_events.get(), rolls: self.trace_rolling, last: self.trace_last }
    }

    /// A builder whose runtime records, if a trace is wanted. A file that can't be written fails now, not after the
    /// work.
    pub(crate) fn begin(&self, builder: RuntimeBuilder) -> anyhow::Result<RuntimeBuilder> {
        let Some(path) = &self.trace else { return Ok(builder) };
        File::create(path).with_context(|| format!("{}: can't be written", path.display()))?;
        Ok(self.room().of(builder))
    }

    /// Writes the trace, if one is wanted.
    pub(crate) fn end(&self, trace: impl FnOnce() -> Option<Trace>) -> anyhow::Result<()> {
        match &self.trace {
            Some(path) => write_trace(path, &of_this_program(trace().expect("it was asked to record")), self.room()),
            None => Ok(()),
        }
    }
}

/// A span of time for a trace.
pub(crate) fn trace_span(text: &str) -> Result<Duration, String> {
    let ns = vicus_network::span_ns(text)?;
    let ns = u64::try_from(ns).ok().filter(|ns| *ns > 0);
    ns.map(Duration::from_nanos).ok_or_else(|| format!("`{text}` is no span of time that a trace can keep"))
}

/// A trace of this program's own run, with its command line.
pub(crate) fn of_this_program(trace: Trace) -> Trace {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    trace.with_command(words.collect::<Vec<_>>().join(" "))
}

/// Writes a trace file, and says what is missing in it; errors name the file.
pub(crate) fn write_trace(path: &Path, trace: &Trace, room: TraceRoom) -> anyhow::Result<()> {
    let cannot = || format!("{}: can't be written", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(cannot)?);
    trace.write_to(&mut file).with_context(cannot)?;
    file.flush().with_context(cannot)?;
    if let Some(shortage) = room.shortage(trace, "--trace-events") {
        tell(format_args!("vicus: {shortage}"));
    }
    Ok(())
}
