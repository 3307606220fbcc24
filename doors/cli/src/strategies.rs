//! `vicus strategies`: which there are, what can be set, and the plan that one makes for a machine.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write};
use vicus::{Parameter, STRATEGIES, Setting, Strategy};

/// Show the scheduling strategies, their parameters and the papers that they are from; or the plan of one of them.
///
/// A strategy is written with its parameters: `las`, `las:pin=pu`, `footprint:backoff_ns=500,backoff_max_ns=100000`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show the plan of this strategy: its queues, whom a push wakes, and how each seat looks for work.
    #[arg(long, value_name = "STRATEGY")]
    plan: Option<Setting>,
    /// The machine that it is for, if not this one: an XML file that hwloc wrote (`lstopo machine.xml`), one line such
    /// as "node:2 l3:2 core:4 pu:2", or one that is known by name, such as AMD-19h-Zen3-2xEpyc-7763.
    #[arg(long, value_name = "FILE.xml|LINE|NAME", requires = "plan")]
    machine: Option<String>,
    /// How many threads it is for; by default one for each PU that may be used.
    #[arg(long, value_name = "N", requires = "plan", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let shown = match args.plan {
        None => STRATEGIES.into_iter().map(list).collect(),
        Some(setting) => {
            let machine = match args.machine {
                Some(text) => crate::machine::named(&text)?,
                None => vicus::this_machine().topology,
            };
            let threads = args.threads.map_or(machine.usable_pus().count(), usize::from);
            format!("on {}\n{}", machine.name, setting.plan(&machine, threads.max(1)))
        }
    };
    let mut out = std::io::stdout().lock();
    match out.write_all(shown.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// A strategy, and a line for each parameter.
fn list(strategy: &dyn Strategy) -> String {
    let mut text = format!("{:16} {}\n", strategy.name(), strategy.source());
    for Parameter { name, default, choices, what } in strategy.parameters() {
        let value = match choices {
            [] => default.to_string(),
            choices => choices
                .iter()
                .enumerate()
                .map(
                    |(value, name)| {
                        if value == *default as usize { format!("{name} (default)") } else { (*name).to_owned() }
                    },
                )
                .collect::<Vec<_>>()
                .join(" or "),
        };
        writeln!(text, "  {name}={value}: {what}").expect("a string takes everything");
    }
    text
}
