//! `vicus trace join`: one trace of the processes of a network.

use super::view;
use crate::recording::write_trace;
use clap::Args as ClapArgs;
use std::path::PathBuf;
use vicus::kit::TraceRoom;

/// Make one trace of those of the processes that ran a network, with clocks aligned by the messages between them.
///
/// The first trace is that of `vicus network run --nodes … --trace`, the others are those of its `vicus node --trace`s.
/// `vicus trace view` shows a group of rows for each process.
#[derive(ClapArgs)]
pub(super) struct Args {
    /// The traces, that of the process that began the network first.
    #[arg(value_name = "RUN", num_args = 2.., required = true)]
    runs: Vec<PathBuf>,
    /// The trace file to write.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut runs = Vec::new();
    for path in &args.runs {
        runs.extend(view::runs(path)?);
    }
    let joined = vicus_view::join(&runs)?;
    let room = TraceRoom { rolls: joined.trace.header().rolls, ..TraceRoom::default() };
    write_trace(&args.output, &joined.trace, room)?;
    joined.faults.iter().for_each(|fault| crate::messages::tell(format_args!("vicus: {fault}")));
    Ok(())
}
