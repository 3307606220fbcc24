//! The machine as Qthreads sees it: shepherds, each with as many workers.
//!
//! The runtime is given a machine with the shepherds as core groups and the workers as PUs, so a shepherd is a place of
//! every strategy. Each of these PUs stands for a real one; several may stand for the same, if there are more workers
//! than PUs.

use crate::environment::number;
use vicus::kit::topology::{Cache, CacheId, Core, CoreGroup, CoreId, Pu, PuId};
use vicus::{GroupId, Topology};

/// How many shepherds of how many workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) shepherds: usize,
    pub(crate) workers: usize,
}

impl Shape {
    /// The environment's shape; without its numbers, it follows the machine: a shepherd for each core group.
    pub(crate) fn chosen(real: &Topology) -> Shape {
        let (shepherds, workers) = (number("NUM_SHEPHERDS"), number("NUM_WORKERS_PER_SHEPHERD"));
        Shape::of(real, shepherds, workers, number("HWPAR"))
    }

    fn of(real: &Topology, shepherds: Option<usize>, workers: Option<usize>, all: Option<usize>) -> Shape {
        let groups = real.core_groups.iter().filter(|group| group.pus.iter().any(|pu| real.pus[pu.index()].usable));
        let (groups, pus) = (groups.count().max(1), all.unwrap_or_else(|| real.default_threads().max(1)));
        let shepherds = shepherds.unwrap_or_else(|| match workers {
            Some(workers) if all.is_some() => pus.div_ceil(workers),
            _ => groups.min(pus),
        });
        Shape { shepherds, workers: workers.unwrap_or_else(|| (pus / shepherds).max(1)) }
    }

    pub(crate) fn threads(self) -> usize {
        self.shepherds.saturating_mul(self.workers)
    }
}

/// Whether the process may run on several nodes.
pub(crate) fn has_nodes(real: &Topology) -> bool {
    let mut nodes = real.usable_pus().map(|pu| pu.node);
    let first = nodes.next();
    nodes.any(|node| Some(node) != first)
}

/// The PU of each worker. A shepherd has the PUs of its part of the core groups, or its part of the PUs of one group.
/// So it lies on one node, unless its part of the groups lies on several: groups may have unequal numbers of PUs.
fn pus_of_workers(real: &Topology, Shape { shepherds, workers }: Shape) -> Vec<&Pu> {
    let usable = |group: &CoreGroup| -> Vec<&Pu> {
        group.pus.iter().map(|pu| &real.pus[pu.index()]).filter(|pu| pu.usable).collect()
    };
    let groups: Vec<Vec<&Pu>> = real.core_groups.iter().map(usable).filter(|group| !group.is_empty()).collect();
    let mut all = Vec::new();
    for shepherd in 0..shepherds {
        let first = shepherd * groups.len() / shepherds;
        let end = ((shepherd + 1) * groups.len() / shepherds).max(first + 1);
        let own: Vec<&Pu> = groups[first..end].iter().flatten().copied().collect();
        // If several shepherds share a group, each has its part of it.
        let is_beside = |other: &usize| other * groups.len() / shepherds == first && shepherds > groups.len();
        let (before, beside) =
            ((0..shepherd).filter(is_beside).count(), (0..shepherds).filter(is_beside).count().max(1));
        let at = |worker: usize| (before * workers + worker) * own.len() / (beside * workers);
        all.extend((0..workers).map(|worker| own[at(worker)]));
    }
    all
}

/// The machine with this shape: neighbouring workers are on neighbouring PUs.
pub(crate) fn machine(real: &Topology, shape: Shape) -> Topology {
    let threads = shape.threads();
    let real_of = pus_of_workers(real, shape);
    let mut machine = Topology { pus: Vec::new(), cores: Vec::new(), core_groups: Vec::new(), ..real.clone() };
    machine.nodes.iter_mut().for_each(|node| node.pus.clear());
    for shepherd in 0..shape.shepherds {
        let group = GroupId::new(shepherd);
        let own = shepherd * shape.workers..(shepherd + 1) * shape.workers;
        let node = real_of[own.start].node;
        for thread in own.clone() {
            let (id, core) = (PuId::new(thread), CoreId::new(thread));
            let pu = real_of[thread];
            machine.pus.push(Pu { id, os_index: pu.os_index, core, group, node, usable: true });
            let kind = real.cores[pu.core.index()].kind;
            machine.cores.push(Core { id: core, os_index: real.cores[pu.core.index()].os_index, pus: vec![id], kind });
            machine.nodes[node.index()].pus.push(id);
        }
        machine.core_groups.push(CoreGroup { id: group, node, pus: own.map(PuId::new).collect() });
    }
    let sharers = |cache: &Cache| {
        let shared = (0..threads).filter(|&thread| cache.pus.contains(&real_of[thread].id));
        shared.map(PuId::new).collect::<Vec<_>>()
    };
    let caches = real.caches.iter().map(|cache| (cache, sharers(cache))).filter(|(_, pus)| !pus.is_empty());
    let numbered = caches.enumerate();
    machine.caches = numbered.map(|(id, (cache, pus))| Cache { id: CacheId::new(id), pus, ..cache.clone() }).collect();
    machine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shepherd_is_a_core_group_unless_users_say_more() {
        let machine = Topology::parse("node:2 l3:2 core:4").unwrap();
        let shape = |shepherds, workers, all| {
            let Shape { shepherds, workers } = Shape::of(&machine, shepherds, workers, all);
            (shepherds, workers)
        };
        assert_eq!(shape(None, None, None), (4, 4));
        assert_eq!(shape(Some(2), None, None), (2, 8));
        assert_eq!(shape(Some(32), None, None), (32, 1));
        assert_eq!(shape(None, Some(1), None), (4, 1));
        assert_eq!(shape(Some(3), Some(2), None), (3, 2));
        assert_eq!(shape(None, None, Some(2)), (2, 1));
        assert_eq!(shape(None, Some(2), Some(12)), (6, 2));
    }

    #[test]
    fn nodes_count_where_the_process_may_run() {
        let mut machine = Topology::parse("node:2 core:2").unwrap();
        assert!(has_nodes(&machine));
        let far = machine.nodes[1].pus.clone();
        far.iter().for_each(|pu| machine.pus[pu.index()].usable = false);
        assert!(!has_nodes(&machine));
    }

    /// What happened: with a CPU of the last node offline, PUs were dealt out in order, three to each of two shepherds:
    /// the second one had workers on both nodes. And of four nodes with two CPUs each but for the last one, the last
    /// had no shepherd.
    #[test]
    fn a_shepherd_lies_on_one_node_if_a_processor_is_missing() {
        for text in ["node:2 l3:1 core:4", "node:4 l3:1 core:2", "node:4 l3:1 core:1 pu:2"] {
            let mut real = Topology::parse(text).unwrap();
            for missing in [real.pus.len() - 1, 0] {
                real.pus[missing].usable = false;
                let shape = Shape::of(&real, None, None, None);
                let pus = pus_of_workers(&real, shape);
                let nodes: Vec<usize> = pus.chunks(shape.workers).map(|own| own[0].node.index()).collect();
                assert_eq!(nodes, (0..real.nodes.len()).collect::<Vec<_>>(), "{text}");
                for own in pus.chunks(shape.workers) {
                    assert!(own.iter().all(|pu| pu.usable && pu.node == own[0].node), "{text}");
                }
                machine(&real, shape).assert_valid();
            }
        }
    }

    #[test]
    fn workers_lie_where_their_pus_do() {
        let real = Topology::parse("node:2 l3:2 core:4").unwrap();
        for (shepherds, workers) in [(1, 1), (2, 1), (4, 4), (3, 2), (8, 1), (8, 8), (1, 40)] {
            let made = machine(&real, Shape { shepherds, workers });
            made.assert_valid();
            assert_eq!((made.core_groups.len(), made.pus.len()), (shepherds, shepherds * workers));
        }
        let two = machine(&real, Shape { shepherds: 2, workers: 1 });
        assert_eq!(two.core_groups.iter().map(|group| group.node.index()).collect::<Vec<_>>(), [0, 1]);
        // Neighbours on one cache are nearer than neighbours on one node.
        let eight = machine(&real, Shape { shepherds: 8, workers: 1 });
        let far = |to: usize| eight.place_distance(eight.core_groups[0].id, eight.core_groups[to].id);
        assert!(far(0) < far(1) && far(1) < far(2) && far(2) < far(7));
    }
}
