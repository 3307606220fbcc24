//! `vicus topology`: the machine as text, JSON or a picture.
//!
//! Options and output; `text.rs` and `svg.rs` render the machine, and are pure.

mod memory;
mod svg;
mod text;

use crate::tell::{self, tell};
use clap::ValueEnum;
use vicus::kit::Discovered;
use vicus_topology::{PuId, Topology};

/// Show the machine: PUs, cores, caches, core groups, NUMA nodes, distances, memory's speed, devices, and the part
/// usable by this process.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Another machine than this one: an XML file written by hwloc (`lstopo machine.xml`), a folder of recorded files
    /// of Linux (`hwloc-gather-topology`), one line such as "node:2 l3:2 core:4 pu:2", or a known name, such as
    /// AMD-19h-Zen3-2xEpyc-7763; or a machine of `vicus simulate`, such as opteron-6172, or a machine file (.toml).
    #[arg(long, value_name = "FILE|LINE|NAME", alias = "from")]
    machine: Option<String>,
    /// How to show it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Also show each node's memory: its size, the free part, the part held by Vicus, and how many pages lie on the
    /// requested node. Some memory is allocated on each node to find out.
    #[arg(long, conflicts_with_all = ["machine", "format"])]
    memory: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For a person at a terminal.
    Text,
    /// For a program: pus, cores, caches, core_groups, nodes, distances, devices.
    Json,
    /// A picture.
    Svg,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let machine = match args.machine {
        Some(text) => crate::machine::named(&text)?,
        None => {
            let Discovered { topology, warnings } = vicus::this_machine();
            warnings.iter().for_each(|warning| tell(format_args!("vicus: warning: {warning}")));
            topology
        }
    };
    let shown = match args.format {
        Format::Text if args.memory => text::render(&machine) + &memory::render(&memory::try_nodes(&machine)?),
        Format::Text => text::render(&machine),
        Format::Json => machine.to_json() + "\n",
        Format::Svg => svg::render(&machine),
    };
    tell::print(&shown)
}

/// A sentence about the PUs usable by this process.
fn usable(machine: &Topology) -> String {
    let all = machine.pus.len();
    let usable: Vec<PuId> = machine.usable_pus().map(|pu| pu.id).collect();
    let pus = if usable.len() == all {
        format!("all {}", count(all, "PU"))
    } else {
        format!("{} of {all} PUs ({})", usable.len(), ranges(machine, &usable))
    };
    // A machine that is only described has none, and one without it is the usual case.
    let quota = machine
        .cpu_quota_millis
        .map_or(String::new(), |millis| format!(", a CPU quota of {} CPUs", decimal(f64::from(millis) / 1000.0)));
    format!("Usable: {pus}{quota}; {} by default", count(machine.default_threads(), "thread"))
}

/// The machine in one line.
fn summary(machine: &Topology) -> String {
    let memory: u64 = machine.nodes.iter().map(|node| node.bytes).sum();
    let memory = if memory == 0 { String::new() } else { format!(", {} of memory", bytes(memory)) };
    format!(
        "{}, {}, {}, {}{memory}",
        count(machine.pus.len(), "PU"),
        count(machine.cores.len(), "core"),
        count(machine.core_groups.len(), "core group"),
        count(machine.nodes.len(), "NUMA node"),
    )
}

/// `node 3`, and the operating system's number if it differs.
fn node_name(node: &vicus_topology::Node) -> String {
    let index = node.id.index();
    if node.os_index as usize == index {
        format!("node {index}")
    } else {
        format!("node {index} (OS {})", node.os_index)
    }
}

/// The operating system's numbers of PUs, in order: `0-3,8`.
fn ranges(machine: &Topology, pus: &[PuId]) -> String {
    let mut numbers: Vec<u32> = pus.iter().map(|pu| machine.pus[pu.index()].os_index).collect();
    numbers.sort_unstable();
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => unreachable!("chunk_by gives no empty chunk"),
    });
    runs.collect::<Vec<_>>().join(",")
}

pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// `1.25 MiB`; exact if two decimals suffice.
fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..units.len()).rev().find(|&power| bytes >> (10 * power) > 0).unwrap_or(0);
    format!("{} {}", decimal(bytes as f64 / (1_u64 << (10 * power)) as f64), units[power])
}

fn decimal(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_a_person_writes_them() {
        let machine = Topology::parse("core:6").unwrap();
        let pus: Vec<PuId> = [4, 0, 1, 2].map(PuId::new).to_vec();
        assert_eq!(ranges(&machine, &pus), "0-2,4");
        assert_eq!(bytes(1_310_720), "1.25 MiB");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(3 << 30), "3 GiB");
    }

    #[test]
    fn what_is_not_usable_is_said() {
        let mut machine = Topology::parse("core:4").unwrap();
        machine.pus[2].usable = false;
        machine.cpu_quota_millis = Some(1500);
        assert_eq!(usable(&machine), "Usable: 3 of 4 PUs (0-1,3), a CPU quota of 1.5 CPUs; 2 threads by default");
    }
}
