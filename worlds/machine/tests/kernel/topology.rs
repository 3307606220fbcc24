//! The discovered machine equals the kernel's description.

use crate::left_out;
use crate::sysfs::{self, Cache, Cpus, Machine, Node};
use std::collections::BTreeSet;
use vicus_machine::this_machine;
use vicus_topology::{PuId, Topology};

/// The discovered machine, and the kernel's description; `None` if the kernel gives none.
fn both() -> Option<(Topology, Machine)> {
    let kernel = Machine::read();
    if kernel.is_none() {
        left_out("sysfs has no nodes, cores or caches");
    }
    let found = this_machine();
    assert_eq!(found.warnings, Vec::<String>::new());
    Some((found.topology, kernel?))
}

fn cpus(machine: &Topology, pus: &[PuId]) -> Cpus {
    pus.iter().map(|pu| machine.pus[pu.index()].os_index).collect()
}

#[test]
fn nodes_have_the_kernels_cpus_memory_and_distances() {
    let Some((found, kernel)) = both() else { return };
    // The kernel lists distances in the order of its own numbers; ours may be another.
    let mut order: Vec<usize> = (0..found.nodes.len()).collect();
    order.sort_by_key(|&node| found.nodes[node].os_index);
    let node = |&node: &usize| Node {
        number: found.nodes[node].os_index,
        bytes: found.nodes[node].bytes,
        cpus: cpus(&found, &found.nodes[node].pus),
        distances: order.iter().map(|&to| found.distances[node][to]).collect(),
    };
    assert_eq!(order.iter().map(node).collect::<BTreeSet<_>>(), kernel.nodes);
}

#[test]
fn nodes_with_memory_are_those_that_the_kernel_lists() {
    let Some((found, kernel)) = both() else { return };
    let with_memory = found.nodes.iter().filter(|node| found.has_memory(node.id));
    assert_eq!(with_memory.map(|node| node.os_index).collect::<BTreeSet<u32>>(), kernel.with_memory);
}

#[test]
fn each_pu_is_on_its_kernels_node() {
    let Some((found, kernel)) = both() else { return };
    for pu in &found.pus {
        let node = kernel.nodes.iter().find(|node| node.cpus.contains(&pu.os_index));
        assert_eq!(Some(found.nodes[pu.node.index()].os_index), node.map(|node| node.number), "CPU {}", pu.os_index);
    }
}

#[test]
fn cores_are_the_kernels_siblings() {
    let Some((found, kernel)) = both() else { return };
    let cores: BTreeSet<Cpus> = found.cores.iter().map(|core| cpus(&found, &core.pus)).collect();
    assert_eq!(cores, kernel.cores);
}

#[test]
fn caches_have_the_kernels_levels_sizes_and_sharers() {
    let Some((found, kernel)) = both() else { return };
    let cache = |cache: &vicus_topology::Cache| Cache {
        level: cache.level,
        bytes: cache.bytes,
        cpus: cpus(&found, &cache.pus),
    };
    assert_eq!(found.caches.iter().map(cache).collect::<BTreeSet<_>>(), kernel.caches);
}

#[test]
fn core_groups_are_cpus_that_share_a_cache_and_a_node() {
    let Some((found, kernel)) = both() else { return };
    let groups: BTreeSet<Cpus> = found.core_groups.iter().map(|group| cpus(&found, &group.pus)).collect();
    assert_eq!(groups, kernel.groups());
}

#[test]
fn usable_are_the_cpus_on_which_this_thread_may_run() {
    let usable: Cpus = this_machine().topology.usable_pus().map(|pu| pu.os_index).collect();
    assert_eq!(usable, sysfs::own_cpus());
}

/// Otherwise every check here would pass in a guest without NUMA.
#[test]
fn a_guest_is_the_machine_that_was_asked_for() {
    let Some(path) = std::env::var_os("NUMA_VM_TOPOLOGY") else { return };
    let asked = std::fs::read_to_string(path).expect("numa-vm copies its topology into the guest");
    let lines = asked.lines().filter_map(|line| line.strip_prefix("node "));
    let nodes = lines.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let cpus = sysfs::numbers(words[1].trim_matches('-'));
        (cpus, words[2..].iter().map(|word| word.parse().expect("a distance")).collect::<Vec<u32>>())
    });
    let kernel = Machine::read().expect("a guest has sysfs");
    let has: Vec<(Cpus, Vec<u32>)> = kernel.nodes.into_iter().map(|node| (node.cpus, node.distances)).collect();
    assert_eq!(has, nodes.collect::<Vec<_>>());
}
