//! The queues of core groups.

use vicus_schedule::{Plan, QueueId};
use vicus_topology::{GroupId, Topology};

/// By core group, the queue for tasks sent to it, if the plan has one for this group alone.
pub(crate) struct GroupQueues(Vec<Option<QueueId>>);

impl GroupQueues {
    /// A queue is meant for the seats of the first pool woken by a push: it is a group's if all of them belong to one.
    pub(crate) fn new(plan: &Plan, machine: &Topology) -> GroupQueues {
        let mut queues = vec![None; machine.core_groups.len()];
        for &queue in plan.homes.iter().flatten() {
            let first = plan.queues[queue.index()].wake[0];
            let theirs = plan.pools[first.index()].seats.iter().map(|seat| &plan.seats[seat.index()]);
            let mut groups = theirs.map(|seat| machine.pus[seat.pu.index()].group);
            if let Some(first) = groups.next()
                && groups.all(|group| group == first)
            {
                queues[first.index()] = Some(queue);
            }
        }
        GroupQueues(queues)
    }

    pub(crate) fn of(&self, group: GroupId) -> Option<QueueId> {
        self.0.get(group.index()).copied().flatten()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use vicus_schedule::{ALL, Setting};
    use vicus_topology::{CoreGroup, NodeId, fixtures};

    /// The groups of all seats that poll a queue.
    fn takers(plan: &Plan, machine: &Topology, queue: QueueId) -> BTreeSet<GroupId> {
        let looks =
            |seat: &&vicus_schedule::SeatPlan| seat.look.iter().any(|probe| probe.scan.queues().contains(&queue));
        plan.seats.iter().filter(looks).map(|seat| machine.pus[seat.pu.index()].group).collect()
    }

    #[test]
    fn a_group_has_its_queue_where_the_strategy_has_one_for_it() {
        let strategies = || ALL.map(|strategy| strategy.name()).into_iter().chain(["shepherd:unplaced=own"]);
        for machine in fixtures() {
            for (threads, strategy) in
                [1, 2, 5, machine.default_threads()].into_iter().flat_map(|n| strategies().map(move |s| (n, s)))
            {
                let setting: Setting = strategy.parse().unwrap();
                let plan = setting.plan(&machine, threads);
                let queues = GroupQueues::new(&plan, &machine);
                let what = format!("{strategy} of {threads} threads on {}", machine.name);
                let of_seats: BTreeSet<(NodeId, GroupId)> =
                    plan.seats.iter().map(|seat| (seat.node, machine.pus[seat.pu.index()].group)).collect();
                for CoreGroup { id, node, .. } in &machine.core_groups {
                    let works = of_seats.contains(&(*node, *id));
                    let is_alone = of_seats.iter().filter(|(other, _)| other == node).count() == 1;
                    let expected = match strategy {
                        "las" | "vicinity" | "shepherd" | "shepherd:unplaced=own" | "vicus" => works,
                        // Their queues are for nodes.
                        "footprint" | "locality-queues" => works && is_alone,
                        _ => false,
                    };
                    let queue = queues.of(*id);
                    assert_eq!(queue.is_some(), expected, "{what}: {id}");
                    let Some(queue) = queue else { continue };
                    assert!(plan.homes[node.index()].contains(&queue), "{what}: {id}'s queue is its node's, too");
                    let takers = takers(&plan, &machine, queue);
                    assert!(takers.contains(id), "{what}: {id} takes from its queue");
                    if strategy.starts_with("shepherd") {
                        assert_eq!(takers.len(), 1, "{what}: no other core group takes from {id}'s queue");
                    }
                }
            }
        }
    }
}
