//! Places: where tasks are sent to, and how far they are from one another.

use vicus_schedule::{Kind, Plan, QueueId};
use vicus_topology::{CoreGroup, GroupId, NodeId, Topology};

/// A place on a machine: a NUMA node, or one of the core groups that share its memory; mostly that is a last-level cache.
/// Qthreads' shepherds are such places (Wheeler, Thain, Murphy, §3), and what takes a place takes either id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A node.
    Node(NodeId),
    /// A core group.
    Group(GroupId),
}

impl From<NodeId> for Place {
    fn from(node: NodeId) -> Place {
        Place::Node(node)
    }
}

impl From<GroupId> for Place {
    fn from(group: GroupId) -> Place {
        Place::Group(group)
    }
}

/// See [`crate::Runtime::distance`].
pub(crate) fn distance(machine: &Topology, a: Place, b: Place) -> u32 {
    [a, b].into_iter().for_each(|place| assert_exists(machine, place));
    if let (Place::Group(a), Place::Group(b)) = (a, b) {
        if a == b {
            return 0;
        }
        let of = |group: GroupId| &machine.core_groups[group.index()];
        if let Some(level) = shared_level(machine, of(a), of(b)) {
            return level.into();
        }
    }
    let node = |place| match place {
        Place::Node(node) => node,
        Place::Group(group) => machine.core_groups[group.index()].node,
    };
    let (a, b) = (node(a), node(b));
    machine.numa_value(a, b).max(machine.numa_value(b, a))
}

fn assert_exists(machine: &Topology, place: Place) {
    let (nodes, groups) = (machine.nodes.len(), machine.core_groups.len());
    match place {
        Place::Node(node) => {
            assert!(node.index() < nodes, "there is no {node}: the machine has {nodes} nodes, counted from 0");
        }
        Place::Group(group) => {
            assert!(
                group.index() < groups,
                "there is no {group}: the machine has {groups} core groups, counted from 0"
            );
        }
    }
}

/// The lowest level of a cache that two groups share: those of two nodes may have one.
fn shared_level(machine: &Topology, a: &CoreGroup, b: &CoreGroup) -> Option<u8> {
    let is_of = |cache: &vicus_topology::Cache, group: &CoreGroup| group.pus.iter().any(|pu| cache.pus.contains(pu));
    let shared = machine.caches.iter().filter(|cache| is_of(cache, a) && is_of(cache, b));
    shared.map(|cache| cache.level).min()
}

/// By core group, the queue for what is sent to it, where a plan has one for that group alone.
pub(crate) struct GroupQueues(Vec<Option<QueueId>>);

impl GroupQueues {
    /// A queue for places is that of the seats which put their own deferred tasks there: a group's, if all of them are of one.
    pub(crate) fn new(plan: &Plan, machine: &Topology) -> GroupQueues {
        let mut queues = vec![None; machine.core_groups.len()];
        for &queue in plan.homes.iter().flatten() {
            let theirs = plan.seats.iter().filter(|seat| seat.place[Kind::Deferred as usize] == queue);
            let mut groups = theirs.map(|seat| machine.pus[seat.pu.index()].group);
            if let Some(first) = groups.next()
                && groups.all(|group| group == first)
            {
                queues[first.index()] = Some(queue);
            }
        }
        GroupQueues(queues)
    }

    pub(super) fn of(&self, group: GroupId) -> Option<QueueId> {
        self.0.get(group.index()).copied().flatten()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use vicus_schedule::{ALL, Setting};
    use vicus_topology::{Cache, CacheId, fixtures};

    fn places(machine: &Topology) -> Vec<Place> {
        let nodes = machine.nodes.iter().map(|node| Place::Node(node.id));
        nodes.chain(machine.core_groups.iter().map(|group| Place::Group(group.id))).collect()
    }

    #[test]
    fn each_place_is_nearest_to_itself_and_as_far_there_as_back() {
        for machine in fixtures() {
            let places = places(&machine);
            for &a in &places {
                for &b in &places {
                    let there = distance(&machine, a, b);
                    assert_eq!(there, distance(&machine, b, a), "{}: {a:?} and {b:?}", machine.name);
                    assert!(distance(&machine, a, a) <= there, "{}: {a:?} and {b:?}", machine.name);
                }
            }
        }
    }

    #[test]
    fn groups_are_as_far_as_what_lies_between_them() {
        // Two nodes of two L3; the matrix is the notation's.
        let mut machine = Topology::parse("node:2 l3:2 core:2").unwrap();
        machine.distances = vec![vec![10, 21], vec![17, 10]];
        let group = |index| Place::Group(GroupId::new(index));
        let node = |index| Place::Node(NodeId::new(index));
        let from_first = |machine: &Topology| [0, 1, 2, 3].map(|other| distance(machine, group(0), group(other)));
        assert_eq!(from_first(&machine), [0, 10, 21, 21], "itself, by its node's memory, and the longer of two ways");
        assert_eq!([0, 1].map(|other| distance(&machine, node(1), node(other))), [21, 10]);
        assert_eq!([0, 1].map(|other| distance(&machine, group(1), node(other))), [10, 21]);
        // A cache over a border of nodes.
        let pus = [machine.core_groups[0].pus[0], machine.core_groups[2].pus[1]];
        machine.caches.push(Cache {
            id: CacheId::new(machine.caches.len()),
            level: 4,
            bytes: 1 << 26,
            pus: pus.into(),
        });
        assert_eq!(from_first(&machine), [0, 10, 4, 21]);
    }

    /// What happened: a place that there isn't was an index out of bounds, in another crate.
    #[test]
    fn a_place_that_there_is_not_is_named() {
        let machine = Topology::parse("node:2 l3:2 core:1").unwrap();
        let [node, group] = [Place::Node(NodeId::new(7)), Place::Group(GroupId::new(4))];
        let here = Place::Node(NodeId::new(0));
        for (a, b, expected) in [
            (here, node, "there is no node7: the machine has 2 nodes, counted from 0"),
            (node, here, "there is no node7: the machine has 2 nodes, counted from 0"),
            (group, here, "there is no group4: the machine has 4 core groups, counted from 0"),
            (group, group, "there is no group4: the machine has 4 core groups, counted from 0"),
        ] {
            let panic = std::panic::catch_unwind(|| distance(&machine, a, b)).unwrap_err();
            assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some(expected));
        }
    }

    /// The groups of the seats that look into a queue at all.
    fn takers(plan: &Plan, machine: &Topology, queue: QueueId) -> BTreeSet<GroupId> {
        let looks =
            |seat: &&vicus_schedule::SeatPlan| seat.look.iter().any(|probe| probe.scan.queues().contains(&queue));
        plan.seats.iter().filter(looks).map(|seat| machine.pus[seat.pu.index()].group).collect()
    }

    #[test]
    fn a_group_has_its_queue_where_the_strategy_has_one_for_it() {
        for machine in fixtures() {
            for (threads, strategy) in
                [1, 2, 5, machine.default_threads()].into_iter().flat_map(|n| ALL.map(|s| (n, s)))
            {
                let setting: Setting = strategy.name().parse().unwrap();
                let plan = setting.plan(&machine, threads);
                let queues = GroupQueues::new(&plan, &machine);
                let what = format!("{} of {threads} threads on {}", strategy.name(), machine.name);
                let of_seats: BTreeSet<(NodeId, GroupId)> =
                    plan.seats.iter().map(|seat| (seat.node, machine.pus[seat.pu.index()].group)).collect();
                for CoreGroup { id, node, .. } in &machine.core_groups {
                    let works = of_seats.contains(&(*node, *id));
                    let is_alone = of_seats.iter().filter(|(other, _)| other == node).count() == 1;
                    let expected = match strategy.name() {
                        "las" | "vicinity" | "shepherd" => works,
                        // Their queues are nodes'.
                        "footprint" | "locality-queues" => works && is_alone,
                        _ => false,
                    };
                    let queue = queues.of(*id);
                    assert_eq!(queue.is_some(), expected, "{what}: {id}");
                    let Some(queue) = queue else { continue };
                    assert!(plan.homes[node.index()].contains(&queue), "{what}: {id}'s queue is its node's, too");
                    let takers = takers(&plan, &machine, queue);
                    assert!(takers.contains(id), "{what}: {id} takes from its queue");
                    if strategy.name() == "shepherd" {
                        assert_eq!(takers.len(), 1, "{what}: nobody else takes from {id}'s queue");
                    }
                }
            }
        }
    }
}
