//! The nodes to ask for memory, and their order, as [`WhenFull`] allows.

use crate::pages::WhenFull;
use vicus_topology::{NodeId, Topology};

/// Whether a node must have room for the request before it is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Room {
    /// The node must have room: if pages may lie elsewhere, the system refuses none, so the room is checked first.
    Needed,
    /// The room is unchecked: the system may find room it does not count as free, or refuses.
    Unchecked,
}

/// A node to be asked for memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeTurn {
    pub(crate) node: NodeId,
    pub(crate) room: Room,
}

/// The order of all nodes as seen from each of them.
#[derive(Debug)]
pub(crate) struct Neighbours {
    /// For each node all nodes, the nearest first.
    near: Vec<Vec<NodeId>>,
}

impl Neighbours {
    pub(crate) fn new(topology: &Topology) -> Neighbours {
        Neighbours { near: topology.nodes.iter().map(|node| topology.nodes_by_distance(node.id)).collect() }
    }

    /// All nodes by their distance from one, that one first.
    pub(crate) fn near(&self, node: NodeId) -> &[NodeId] {
        &self.near[node.index()]
    }

    /// The nodes to ask for memory, in order: those with room, the nearest first; then, if there are several nodes, the
    /// node itself without a check.
    pub(crate) fn turns(&self, node: NodeId, when_full: WhenFull) -> impl Iterator<Item = NodeTurn> {
        let others: &[NodeId] = if when_full == WhenFull::Strict { &[] } else { &self.near(node)[1..] };
        let with_room = (!others.is_empty()).then_some(node).into_iter().chain(others.iter().copied());
        let needed = |node| NodeTurn { node, room: Room::Needed };
        with_room.map(needed).chain([NodeTurn { node, room: Room::Unchecked }])
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
        let turns = |node, when_full| neighbours.turns(node, when_full).collect::<Vec<_>>();
        let needed = [zero, two, one].map(|node| NodeTurn { node, room: Room::Needed });
        let unchecked = |node| NodeTurn { node, room: Room::Unchecked };
        assert_eq!(turns(zero, WhenFull::Preferred), [&needed[..], &[unchecked(zero)]].concat());
        assert_eq!(turns(two, WhenFull::Strict), [unchecked(two)]);
        let alone = Neighbours::new(&Topology::parse("node:1 core:1").unwrap());
        assert_eq!(alone.turns(zero, WhenFull::Preferred).collect::<Vec<_>>(), [unchecked(zero)]);
    }
}
