//! A machine as text for people.

use super::{bytes, count, node_name, ranges, summary, usable};
use std::fmt::Write;
use vicus_topology::{Cache, CoreGroup, Device, Node, PuId, Topology};

/// The greatest width of lists of cores.
const COLUMNS: usize = 100;
/// The most names of a device: a controller may have thousands of disks.
const MOST_NAMES: usize = 16;

pub(super) fn render(machine: &Topology) -> String {
    let mut out = format!("{}: {}\n{}\n", machine.name, summary(machine), usable(machine));
    out.push_str("PU numbers are the operating system's; a+b are neighbours.\n");
    for node in &machine.nodes {
        let memory = match node.bytes {
            0 if machine.has_memory(node.id) => "memory unknown".to_owned(),
            0 => "no memory".to_owned(),
            known => bytes(known),
        };
        let alone = if node.pus.is_empty() { ", memory only" } else { "" };
        // Writing to a String can't fail.
        let tier = node.tier.map_or(String::new(), |tier| format!(", tier {tier}"));
        let _ = writeln!(out, "\n{}: {memory}{alone}{tier}", node_name(node));
        write_speed(&mut out, machine, node);
        for group in machine.core_groups.iter().filter(|group| group.node == node.id) {
            write_group(&mut out, machine, group);
        }
        write_devices(&mut out, machine.devices.iter().filter(|device| device.node == Some(node.id)));
    }
    if machine.devices.iter().any(|device| device.node.is_none()) {
        out.push_str("\ndevices whose node is unknown:\n");
        write_devices(&mut out, machine.devices.iter().filter(|device| device.node.is_none()));
    }
    write_distances(&mut out, machine);
    out
}

/// The speed of a node's memory by the firmware.
fn write_speed(out: &mut String, machine: &Topology, node: &Node) {
    let Some(speed) = &node.speed else { return };
    let pair = |[read, write]: [u32; 2], unit: &str| {
        let shown = |value: u32| if value == 0 { "?".to_owned() } else { value.to_string() };
        (read > 0 || write > 0).then(|| format!("{} {unit} reading, {} writing", shown(read), shown(write)))
    };
    let known = [pair([speed.read_mb_s, speed.write_mb_s], "MB/s"), pair([speed.read_ns, speed.write_ns], "ns")];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() {
        return;
    }
    let near = speed.near.iter().map(|&near| node_name(&machine.nodes[near.index()])).collect::<Vec<_>>();
    let near = if near.is_empty() { String::new() } else { format!(", from {}", near.join(", ")) };
    let _ = writeln!(out, "  memory by the firmware: {}{near}", known.join("; "));
}

fn write_devices<'a>(out: &mut String, devices: impl Iterator<Item = &'a Device>) {
    for device in devices {
        let mut names = device.names.iter().take(MOST_NAMES).fold(String::new(), |names, name| names + " " + name);
        if let Some(more) = device.names.len().checked_sub(MOST_NAMES).filter(|&more| more > 0) {
            let _ = write!(names, " and {more} more");
        }
        let _ = writeln!(out, "  {}{names} at {}", device.kind.name(), device.address);
    }
}

fn write_group(out: &mut String, machine: &Topology, group: &CoreGroup) {
    let mut cores: Vec<_> = machine.cores.iter().filter(|core| group.pus.contains(&core.pus[0])).collect();
    let pus = if group.pus.len() == 1 { "PU" } else { "PUs" };
    let (id, numbers) = (group.id.index(), ranges(machine, &group.pus));
    let _ = writeln!(out, "  group {id}: {}, {pus} {numbers}", count(cores.len(), "core"));
    let mut caches: Vec<&Cache> = machine.caches.iter().filter(|cache| touches(cache, group)).collect();
    caches.sort_by_key(|cache| (std::cmp::Reverse(cache.level), cache.bytes, cache.pus.len()));
    for alike in caches.chunk_by(|a, b| (a.level, a.bytes, a.pus.len()) == (b.level, b.bytes, b.pus.len())) {
        let first = alike[0];
        let size = if first.bytes == 0 { "size unknown".to_owned() } else { bytes(first.bytes) };
        let many = if alike.len() == 1 { String::new() } else { format!("{} x ", alike.len()) };
        let _ = write!(out, "    L{} {many}{size}", first.level);
        let sharers = first.pus.len();
        let is_core = |cache: &&Cache| machine.cores.iter().any(|core| core.pus == cache.pus);
        if first.pus.iter().any(|pu| !group.pus.contains(pu)) {
            let _ = writeln!(out, ", shared beyond the group by PUs {}", ranges(machine, &first.pus));
        } else if sharers == group.pus.len() {
            out.push_str(if sharers == 1 { "\n" } else { " for the whole group\n" });
        } else if alike.iter().all(is_core) {
            out.push_str(if alike.len() == 1 { ", its core's own\n" } else { ", one for each core\n" });
        } else {
            let _ = writeln!(out, " for {sharers} PUs each:");
            write_sets(out, machine, alike.iter().map(|cache| &cache.pus[..]));
        }
    }
    cores.sort_by_key(|core| (std::cmp::Reverse(core.kind), core.pus.len()));
    let hybrid = machine.cores.iter().any(|core| core.kind != machine.cores[0].kind);
    for alike in cores.chunk_by(|a, b| (a.kind, a.pus.len()) == (b.kind, b.pus.len())) {
        let kind = if hybrid { format!(" of kind {}", alike[0].kind) } else { String::new() };
        let threads = alike[0].pus.len();
        // Cores of one PU each are described by their group's line, unless there are several kinds.
        if threads == 1 && hybrid {
            let pus: Vec<PuId> = alike.iter().map(|core| core.pus[0]).collect();
            let _ = writeln!(out, "    {}{kind}: PUs {}", count(alike.len(), "core"), ranges(machine, &pus));
        } else if threads > 1 {
            let _ = writeln!(out, "    {}{kind} of {threads} PUs:", count(alike.len(), "core"));
            write_sets(out, machine, alike.iter().map(|core| &core.pus[..]));
        }
    }
}

fn touches(cache: &Cache, group: &CoreGroup) -> bool {
    cache.pus.iter().any(|pu| group.pus.contains(pu))
}

/// Writes `0+4 1+5`, broken into lines.
fn write_sets<'a>(out: &mut String, machine: &Topology, sets: impl Iterator<Item = &'a [PuId]>) {
    let words = sets.map(|pus| {
        let numbers: Vec<String> = pus.iter().map(|pu| machine.pus[pu.index()].os_index.to_string()).collect();
        // Eight or more neighbours are written as a range.
        if numbers.len() < 8 { numbers.join("+") } else { ranges(machine, pus) }
    });
    let mut line = String::from("     ");
    for word in words {
        if line.len() + 1 + word.len() > COLUMNS {
            out.push_str(&line);
            out.push('\n');
            line = String::from("     ");
        }
        line.push(' ');
        line.push_str(&word);
    }
    out.push_str(&line);
    out.push('\n');
}

fn write_distances(out: &mut String, machine: &Topology) {
    if machine.nodes.len() == 1 {
        return;
    }
    let ranks: Vec<String> =
        super::svg::ranks(machine).iter().map(|(value, rank)| format!("{value} is rank {rank}")).collect();
    let _ = writeln!(out, "\ndistances from node (row) to node (column); between nodes {}:", ranks.join(", "));
    let widest = machine.distances.iter().flatten().map(|value| value.to_string().len()).max().unwrap_or(1);
    let width = 1 + widest.max(machine.nodes.len().to_string().len());
    let _ = write!(out, "    ");
    for node in &machine.nodes {
        let _ = write!(out, "{:>width$}", node.id.index());
    }
    out.push('\n');
    for node in &machine.nodes {
        let _ = write!(out, "{:>4}", node.id.index());
        for value in &machine.distances[node.id.index()] {
            let _ = write!(out, "{value:>width$}");
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_machine_reads_like_this() {
        let machine = Topology::parse("node:2 l3:1 l2:2 core:1 pu:2").unwrap();
        let expected = "\
node:2 l3:1 l2:2 core:1 pu:2: 8 PUs, 4 cores, 2 core groups, 2 NUMA nodes, 32 GiB of memory
Usable: all 8 PUs; 8 threads by default
PU numbers are the operating system's; a+b are neighbours.

node 0: 16 GiB
  group 0: 2 cores, PUs 0-3
    L3 16 MiB for the whole group
    L2 2 x 512 KiB, one for each core
    2 cores of 2 PUs:
      0+1 2+3

node 1: 16 GiB
  group 1: 2 cores, PUs 4-7
    L3 16 MiB for the whole group
    L2 2 x 512 KiB, one for each core
    2 cores of 2 PUs:
      4+5 6+7

distances from node (row) to node (column); between nodes 20 is rank 1:
      0  1
   0 10 20
   1 20 10
";
        assert_eq!(render(&machine), expected);
    }

    /// What happened: the sum of two large numbers of the firmware was too large for its type.
    #[test]
    fn large_numbers_and_many_names_are_shown() {
        let mut machine = Topology::parse("node:1 core:1").unwrap();
        let speed = vicus_topology::MemorySpeed { read_mb_s: u32::MAX, write_mb_s: u32::MAX, ..Default::default() };
        machine.nodes[0].speed = Some(speed);
        machine.devices.push(Device {
            address: "0000:5e:00.0".to_owned(),
            kind: vicus_topology::DeviceKind::Storage,
            names: (10..30).map(|disk| format!("sd{disk}")).collect(),
            node: None,
        });
        let text = render(&machine);
        assert!(text.contains("firmware: 4294967295 MB/s reading, 4294967295 writing\n"), "{text}");
        assert!(text.contains("storage sd10 sd11") && text.contains(" sd25 and 4 more at 0000:5e:00.0\n"), "{text}");
    }

    #[test]
    fn a_node_without_memory_is_not_called_unknown() {
        let mut machine = Topology::parse("node:2 core:1").unwrap();
        machine.nodes[1].bytes = 0;
        assert!(render(&machine).contains("\nnode 1: no memory\n"));
        machine.nodes[0].bytes = 0;
        assert!(render(&machine).contains("\nnode 1: memory unknown\n"));
    }
}
