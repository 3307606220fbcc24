//! How far apart two PUs or two nodes are.
//!
//! Three distances, never mixed: the *cache distance* of two PUs, the *rank* of two nodes, and the operating system's
//! *value* for two nodes.

use crate::{NodeId, PuId, Topology};

impl Topology {
    /// The lowest cache level shared by two PUs; `None` if they share none (Falt et al. §4.2: infinity). Two threads of
    /// a core share all of the core's caches; if none is known, this counts as level 1.
    pub fn cache_distance(&self, a: PuId, b: PuId) -> Option<u8> {
        let shared = |cache: &&crate::Cache| cache.pus.contains(&a) && cache.pus.contains(&b);
        let level = self.caches.iter().filter(shared).map(|cache| cache.level).min();
        level.or((self.pus[a.index()].core == self.pus[b.index()].core).then_some(1))
    }

    /// The operating system's distance from one node to another.
    pub fn numa_value(&self, from: NodeId, to: NodeId) -> u32 {
        self.distances[from.index()][to.index()]
    }

    /// The rank of each distance among the distinct values of the matrix, from row to column: 0 on the node itself, 1
    /// for the nearest neighbours, and so on (the hops of Falt et al. §4.2). Two nodes whose distance equals that of a
    /// node to itself have rank 1: another node never has rank 0.
    pub fn numa_ranks(&self) -> Vec<Vec<u32>> {
        let count = self.nodes.len();
        let foreign = |i: usize, row: &[u32]| -> Vec<u32> { [&row[..i], &row[i + 1..]].concat() };
        let mut values: Vec<u32> = (0..count).flat_map(|i| foreign(i, &self.distances[i])).collect();
        values.sort_unstable();
        values.dedup();
        let rank = |value: u32| 1 + values.partition_point(|&other| other < value) as u32;
        let row = |i: usize| (0..count).map(|j| if i == j { 0 } else { rank(self.distances[i][j]) }).collect();
        (0..count).map(row).collect()
    }

    /// The rank of one distance. For many, [`Topology::numa_ranks`] sorts the matrix only once.
    pub fn numa_rank(&self, from: NodeId, to: NodeId) -> u32 {
        self.numa_ranks()[from.index()][to.index()]
    }

    /// All nodes by increasing distance from the given one, itself first; equal distances by id.
    pub fn nodes_by_distance(&self, from: NodeId) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.nodes.iter().map(|node| node.id).collect();
        nodes.sort_by_key(|&to| (to != from, self.numa_value(from, to), to));
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opteron() -> Topology {
        // Muddukrishna et al. §2: eight nodes, values 10, 16 and 22.
        let mut machine = Topology::parse("node:8 l3:1 core:6").unwrap();
        for i in 0..8usize {
            for j in 0..8 {
                machine.distances[i][j] = if i == j { 10 } else { [22, 16][usize::from((i ^ j).is_power_of_two())] };
            }
        }
        machine
    }

    #[test]
    fn rank_counts_distinct_values() {
        let machine = opteron();
        let node = |i: usize| machine.nodes[i].id;
        assert_eq!(machine.numa_rank(node(0), node(0)), 0);
        assert_eq!(machine.numa_rank(node(0), node(1)), 1);
        assert_eq!(machine.numa_rank(node(0), node(3)), 2);
        assert_eq!(machine.numa_value(node(0), node(3)), 22);
    }

    #[test]
    fn nearer_nodes_come_first() {
        let order: Vec<usize> = opteron().nodes_by_distance(NodeId::new(2)).iter().map(|node| node.index()).collect();
        assert_eq!(order, [2, 0, 3, 6, 1, 4, 5, 7]);
    }

    #[test]
    fn threads_of_a_core_are_nearer_than_cores() {
        let machine = Topology::parse("node:2 l3:1 l2:2 core:1 pu:2").unwrap();
        let distance = |a, b| machine.cache_distance(PuId::new(a), PuId::new(b));
        assert_eq!(distance(0, 1), Some(2));
        assert_eq!(distance(0, 2), Some(3));
        assert_eq!(distance(0, 4), None);
    }
}
