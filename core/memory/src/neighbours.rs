//! Whom to ask for memory: a node, and then the others, as the policy allows.

use crate::pages::Policy;
use vicus_topology::{NodeId, Topology};

/// Whether a node must have room for what it is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Room {
    /// Where pages may lie elsewhere, nobody refuses them, so the node is asked before.
    Needed,
    /// The system may find room that it does not call free, or else refuses.
    AllTheSame,
}

/// All nodes, as each of them sees the others.
#[derive(Debug)]
pub(crate) struct Neighbours {
    /// For each node all nodes, the nearest first.
    near: Vec<Vec<NodeId>>,
}

impl Neighbours {
    pub(crate) fn new(topology: &Topology) -> Neighbours {
        Neighbours { near: topology.nodes.iter().map(|node| topology.nodes_by_distance(node.id)).collect() }
    }

    /// All nodes by their distance from one, which comes first.
    pub(crate) fn near(&self, node: NodeId) -> &[NodeId] {
        &self.near[node.index()]
    }

    /// Whom to ask for memory on a node, one after the other: those that have room, the nearest first; and if none has, and
    /// there are several, the node itself all the same.
    pub(crate) fn turns(&self, node: NodeId, policy: Policy) -> impl Iterator<Item = (NodeId, Room)> {
        let others: &[NodeId] = if policy == Policy::Strict { &[] } else { &self.near(node)[1..] };
        let with_room = (!others.is_empty()).then_some(node).into_iter().chain(others.iter().copied());
        with_room.map(|node| (node, Room::Needed)).chain([(node, Room::AllTheSame)])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_asked_first_and_the_node_itself_at_last_all_the_same() {
        let mut machine = Topology::parse("node:3 core:1").unwrap();
        machine.distances = vec![vec![10, 30, 20], vec![30, 10, 20], vec![20, 30, 10]];
        let neighbours = Neighbours::new(&machine);
        let [zero, one, two] = [0, 1, 2].map(NodeId::new);
        let turns = |node, policy| neighbours.turns(node, policy).collect::<Vec<_>>();
        let needed = [zero, two, one].map(|node| (node, Room::Needed));
        assert_eq!(turns(zero, Policy::Preferred), [&needed[..], &[(zero, Room::AllTheSame)]].concat());
        assert_eq!(turns(two, Policy::Strict), [(two, Room::AllTheSame)]);
        let alone = Neighbours::new(&Topology::parse("node:1 core:1").unwrap());
        assert_eq!(alone.turns(zero, Policy::Preferred).collect::<Vec<_>>(), [(zero, Room::AllTheSame)]);
    }
}
