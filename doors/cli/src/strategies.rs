//! `vicus strategies`: the strategies, their parameters, and the plan of one for a machine.

mod folded;

use crate::{engine, machine};
use std::fmt::Write as _;
use vicus::kit::DEFAULT_OF_QUERIES;
use vicus::kit::{Parameter, Strategy, Values};
use vicus::{DEFAULT, Plan, Runtime, STRATEGIES, Setting, Topology};
use vicus_schedule::{Latencies, MOST_THREADS};

/// Show the scheduling strategies, their parameters and their papers; or the plan of one of them.
///
/// A strategy is written with its parameters: `las`, `las:pin=pu`, `footprint:backoff_ns=500,backoff_max_ns=100000`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show the plan of this strategy: its queues, the seats woken by a push, and each seat's search for work.
    #[arg(long, value_name = "STRATEGY")]
    plan: Option<Setting>,
    /// The machine, if not this one: an XML file written by hwloc (`lstopo machine.xml`), one line such as "node:2 l3:2
    /// core:4 pu:2", or a known name, such as AMD-19h-Zen3-2xEpyc-7763; or a machine of `vicus simulate`, such as
    /// opteron-6172, or a machine file (.toml), whose latencies count.
    #[arg(long, value_name = "FILE|LINE|NAME", requires = "plan")]
    machine: Option<String>,
    /// The number of threads; by default one for each usable PU.
    #[arg(long, value_name = "N", requires = "plan", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Show each seat of the plan and each queue by itself, with whole lists; otherwise those that are alike are told
    /// of once, by the first of them if they differ in the order of their neighbours.
    #[arg(long, requires = "plan")]
    each: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let shown = match args.plan {
        None => STRATEGIES.into_iter().map(list).chain([defaults()]).collect(),
        Some(setting) => {
            let (machine, plan) = planned(&setting, args.machine.as_deref(), args.threads.map(usize::from))?;
            let plan = plan.to_string();
            format!("on {machine}\n{}", if args.each { plan } else { folded::folded(&plan) })
        }
    };
    crate::tell::print(&shown)
}

/// The plan for these threads, and the machine's name.
fn planned(setting: &Setting, machine: Option<&str>, threads: Option<usize>) -> anyhow::Result<(String, Plan)> {
    let Some(text) = machine else {
        engine::check_threads(threads)?;
        let builder = Runtime::builder().strategy(setting.clone()).quiet();
        let builder = threads.map_or(builder.clone(), |threads| builder.threads(threads));
        return Ok((vicus::this_machine().topology.name, builder.planned()));
    };
    let (machine, latencies) = match machine::with_costs(text)? {
        Some(machine) => {
            let latencies = Latencies::new(&machine.topology, machine.group_latencies());
            (Topology { name: machine.name, ..machine.topology }, latencies)
        }
        // A described machine has no measured latencies.
        None => (machine::named(text)?, None),
    };
    let threads = threads.unwrap_or_else(|| machine.default_threads().min(MOST_THREADS));
    engine::check_threads_of(&machine, threads)?;
    let plan = setting.plan_with(&machine, threads, latencies.as_ref());
    Ok((machine.name, plan))
}

/// The default strategies, and the reasons: figures of `vicus simulate grid --quick`, six machines with 22 workloads
/// each.
fn defaults() -> String {
    format!(
        "\n{DEFAULT} is the default of tasks (OpenMP, C, C++, Rust): on six simulated machines with 22 workloads it \
            takes 1.015 times as long as the best other\n\
         strategy on average (steal 1.129, las 1.147), it deals tasks to the nodes where their data lie, and it lets \
         no node idle beside another one with many\n\
         tasks (`vicus simulate grid --quick`). {DEFAULT_OF_QUERIES} is the default of queries and networks: their \
         requests begin on every node, and it keeps what a box sends in\n\
         the caches of its sender; SP2Bench's 17 queries take 5 to 10 percent longer under {DEFAULT} (`vicus bench \
         demo`).\n"
    )
}

/// The default binding of an OpenMP program's threads on several nodes.
fn binding(strategy: &dyn Strategy) -> &'static str {
    // The same on all machines with several nodes.
    let machine = Topology::parse("node:2 core:1").expect("two nodes of one core");
    let setting: Setting = strategy.name().parse().expect("a strategy's name is a setting");
    if setting.plan(&machine, 2).has_places() {
        "OpenMP's threads on several nodes: each bound to a processor or a node, unless OMP_PROC_BIND says otherwise"
    } else {
        "OpenMP's threads on several nodes: bound nowhere, for want of places, unless OMP_PROC_BIND says otherwise"
    }
}

/// A strategy, with a line for each parameter.
fn list(strategy: &dyn Strategy) -> String {
    let mut text = format!("{:16} {}\n", strategy.name(), strategy.source());
    for Parameter { name, default, values, what } in strategy.parameters() {
        let value = match values {
            Values::Between(..) | Values::OneOf(_) => default.to_string(),
            Values::Named(names) => {
                let marked = |(value, name): (usize, &&str)| {
                    if value == *default as usize { format!("{name} (default)") } else { (*name).to_owned() }
                };
                names.iter().enumerate().map(marked).collect::<Vec<_>>().join(" or ")
            }
        };
        let bounds = match values {
            Values::Named(_) | Values::Between(0, u32::MAX) => String::new(),
            Values::Between(least, u32::MAX) => format!("; at least {least}"),
            Values::Between(least, most) => format!("; {least} to {most}"),
            Values::OneOf(_) => format!("; {values}"),
        };
        writeln!(text, "  {name}={value}: {what}{bounds}").expect("a string takes everything");
    }
    writeln!(text, "  {}", binding(strategy)).expect("a string takes everything");
    text
}
