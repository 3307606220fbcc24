//! Places: the user's names for a part of a machine. A node, or one of the core groups on its memory.

use crate::{CoreGroup, GroupId, NodeId, Topology};
use std::fmt;
use std::ops::Index;

/// A place on a machine: a NUMA node, or one of the core groups on its memory, mostly a last-level cache. Qthreads'
/// shepherds are such places (Wheeler, Thain, Murphy, §3). A function with a place as its argument takes either id.
/// [The crate's documentation](crate#where) gives each container's reading of it.
///
/// ```
/// use vicus_topology::{Place, Topology};
///
/// // Two nodes of two L3 caches.
/// let machine = Topology::parse("node:2 l3:2 core:1").unwrap();
/// let third = Place::from(machine.core_groups[2].id);
/// assert_eq!(third.to_string(), "group2");
/// assert_eq!(machine.node_of(third), machine.nodes[1].id);
/// assert_eq!(machine.node_of(machine.nodes[0].id), machine.nodes[0].id);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A node.
    Node(NodeId),
    /// A core group.
    Group(GroupId),
}

/// The reason for the queue a task was dealt to, or for leaving it to its maker's seat. Schedules give it, and traces
/// keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum DealReason {
    /// Too few of its bytes have a known place.
    Small,
    /// Its bytes lie evenly over all places.
    Even,
    /// An intensely used datum has its home there.
    Home,
    /// Its bytes cost least there, or hardly more than the least.
    Nearest,
    /// The plan deals such tasks in turn.
    Turn,
    /// There are many requests, so it stays on its maker's node.
    Crowd,
    /// The task is taken for a part of its maker's work, and too few of its bytes lie in one place.
    Part,
    /// A pool has used most of its bytes last, and may have them in its caches.
    Warm,
}

impl DealReason {
    /// All reasons, by their numbers in traces.
    pub const ALL: [DealReason; 8] = [
        DealReason::Small,
        DealReason::Even,
        DealReason::Home,
        DealReason::Nearest,
        DealReason::Turn,
        DealReason::Crowd,
        DealReason::Part,
        DealReason::Warm,
    ];
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

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Node(node) => fmt::Debug::fmt(node, f),
            Place::Group(group) => fmt::Debug::fmt(group, f),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A named place is missing in the machine, or in the container in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchPlace {
    /// The place.
    pub place: Place,
    /// How many of its kind there are.
    pub count: usize,
}

impl fmt::Display for NoSuchPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoSuchPlace { place, count } = self;
        let kind = match place {
            Place::Node(_) => "nodes",
            Place::Group(_) => "core groups",
        };
        match count {
            0 => write!(f, "there is no {place}: there are no {kind}"),
            _ => write!(f, "there is no {place}: the number of {kind} is {count}, counted from 0"),
        }
    }
}

impl std::error::Error for NoSuchPlace {}

/// A value for each place of a machine. A container keeps in one its location for each place.
///
/// ```
/// use vicus_topology::{ByPlace, Topology};
///
/// let machine = Topology::parse("node:2 l3:2 core:1").unwrap();
/// let nodes = ByPlace::new(&machine, |place| machine.node_of(place));
/// assert_eq!(nodes[machine.core_groups[3].id.into()], machine.nodes[1].id);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByPlace<T> {
    nodes: Box<[T]>,
    groups: Box<[T]>,
}

impl<T> ByPlace<T> {
    /// Calls the function for each place and keeps the values.
    pub fn new(machine: &Topology, mut of: impl FnMut(Place) -> T) -> ByPlace<T> {
        let nodes = machine.nodes.iter().map(|node| of(node.id.into())).collect();
        ByPlace { nodes, groups: machine.core_groups.iter().map(|group| of(group.id.into())).collect() }
    }

    /// For nodes only: no core group is known.
    pub fn of_nodes(nodes: impl IntoIterator<Item = T>) -> ByPlace<T> {
        ByPlace { nodes: nodes.into_iter().collect(), groups: Box::default() }
    }

    /// The value of a place.
    ///
    /// # Errors
    /// There is no such place.
    #[inline]
    pub fn get(&self, place: Place) -> Result<&T, NoSuchPlace> {
        let (of_its_kind, index) = match place {
            Place::Node(node) => (&self.nodes, node.index()),
            Place::Group(group) => (&self.groups, group.index()),
        };
        of_its_kind.get(index).ok_or(NoSuchPlace { place, count: of_its_kind.len() })
    }
}

/// Panics with [`NoSuchPlace`] if there is no such place.
impl<T> Index<Place> for ByPlace<T> {
    type Output = T;

    #[inline]
    fn index(&self, place: Place) -> &T {
        self.get(place).unwrap_or_else(|none| refuse(none))
    }
}

#[cold]
#[inline(never)]
fn refuse(none: NoSuchPlace) -> ! {
    panic!("{none}")
}

impl Topology {
    /// The node of a place: the node itself, or the node of a core group's memory.
    ///
    /// # Panics
    /// If there is no such place, with its name and how many there are.
    pub fn node_of(&self, place: impl Into<Place>) -> NodeId {
        self.try_node_of(place).unwrap_or_else(|none| refuse(none))
    }

    /// Like [`Topology::node_of`].
    ///
    /// # Errors
    /// There is no such place.
    pub fn try_node_of(&self, place: impl Into<Place>) -> Result<NodeId, NoSuchPlace> {
        let place = place.into();
        let (node, count) = match place {
            Place::Node(node) => ((node.index() < self.nodes.len()).then_some(node), self.nodes.len()),
            Place::Group(group) => {
                (self.core_groups.get(group.index()).map(|group| group.node), self.core_groups.len())
            }
        };
        node.ok_or(NoSuchPlace { place, count })
    }

    /// The distance of two places. Through memory, it is the operating system's value for their nodes, the longer of
    /// the two directions: on most machines 10 within a node, and so between its core groups without a common cache.
    /// Groups of two nodes with a common cache have that cache's level, a smaller number; a group's distance from
    /// itself is 0.
    ///
    /// ```
    /// let machine = vicus_topology::Topology::parse("node:2 l3:2 core:1").unwrap();
    /// let (node, group) = (machine.nodes[0].id, machine.core_groups[0].id);
    /// assert_eq!(machine.place_distance(node, node), machine.distances[0][0]);
    /// assert_eq!(machine.place_distance(group, group), 0);
    /// let other = machine.core_groups[1].id;
    /// assert!(machine.place_distance(group, other) < machine.place_distance(group, machine.nodes[1].id));
    /// ```
    ///
    /// # Panics
    /// If there is no such place, with its name and how many there are.
    pub fn place_distance(&self, a: impl Into<Place>, b: impl Into<Place>) -> u32 {
        let (a, b) = (a.into(), b.into());
        let nodes = [a, b].map(|place| self.node_of(place));
        if let (Place::Group(a), Place::Group(b)) = (a, b) {
            if a == b {
                return 0;
            }
            let of = |group: GroupId| &self.core_groups[group.index()];
            if let Some(level) = self.shared_level(of(a), of(b)) {
                return level.into();
            }
        }
        self.numa_value(nodes[0], nodes[1]).max(self.numa_value(nodes[1], nodes[0]))
    }

    /// The lowest level of a cache shared by two groups: groups of two nodes may share one.
    fn shared_level(&self, a: &CoreGroup, b: &CoreGroup) -> Option<u8> {
        let is_of = |cache: &crate::Cache, group: &CoreGroup| group.pus.iter().any(|pu| cache.pus.contains(pu));
        let shared = self.caches.iter().filter(|cache| is_of(cache, a) && is_of(cache, b));
        shared.map(|cache| cache.level).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, CacheId};

    #[test]
    fn each_place_is_nearest_to_itself_and_as_far_there_as_back() {
        for machine in crate::fixtures() {
            let nodes = machine.nodes.iter().map(|node| Place::Node(node.id));
            let places: Vec<Place> = nodes.chain(machine.core_groups.iter().map(|group| group.id.into())).collect();
            for &a in &places {
                for &b in &places {
                    let there = machine.place_distance(a, b);
                    assert_eq!(there, machine.place_distance(b, a), "{}: {a} and {b}", machine.name);
                    assert!(machine.place_distance(a, a) <= there, "{}: {a} and {b}", machine.name);
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
        let from_first = |machine: &Topology| [0, 1, 2, 3].map(|other| machine.place_distance(group(0), group(other)));
        assert_eq!(from_first(&machine), [0, 10, 21, 21], "itself, by its node's memory, and the longer of two ways");
        assert_eq!([0, 1].map(|other| machine.place_distance(node(1), node(other))), [21, 10]);
        assert_eq!([0, 1].map(|other| machine.place_distance(group(1), node(other))), [10, 21]);
        // A cache across two nodes.
        let pus = [machine.core_groups[0].pus[0], machine.core_groups[2].pus[1]];
        machine.caches.push(Cache {
            id: CacheId::new(machine.caches.len()),
            level: 4,
            bytes: 1 << 26,
            pus: pus.into(),
        });
        assert_eq!(from_first(&machine), [0, 10, 4, 21]);
    }

    /// A missing place was once an index out of bounds, in another crate.
    #[test]
    fn a_place_that_there_is_not_is_named() {
        let machine = Topology::parse("node:2 l3:2 core:1").unwrap();
        let by_place = ByPlace::new(&machine, |_| ());
        let [node, group] = [Place::Node(NodeId::new(7)), Place::Group(GroupId::new(4))];
        let here = Place::Node(NodeId::new(0));
        let told = |f: &(dyn Fn() + std::panic::RefUnwindSafe)| {
            let panic = std::panic::catch_unwind(f).unwrap_err();
            panic.downcast_ref::<String>().expect("a text").clone()
        };
        for (a, b, expected) in [
            (here, node, "there is no node7: the number of nodes is 2, counted from 0"),
            (node, here, "there is no node7: the number of nodes is 2, counted from 0"),
            (group, here, "there is no group4: the number of core groups is 4, counted from 0"),
            (group, group, "there is no group4: the number of core groups is 4, counted from 0"),
        ] {
            assert_eq!(told(&|| _ = machine.place_distance(a, b)), expected);
            let none = if a == here { b } else { a };
            assert_eq!(told(&|| _ = machine.node_of(none)), expected);
            assert_eq!(told(&|| by_place[none]), expected);
        }
        let told = ByPlace::of_nodes([()]).get(GroupId::new(0).into()).unwrap_err().to_string();
        assert_eq!(told, "there is no group0: there are no core groups");
    }
}
