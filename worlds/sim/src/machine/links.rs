//! The links between nodes, and the route of a byte over them.

/// A link in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The node at which it begins.
    pub from: usize,
    /// The node at which it ends.
    pub to: usize,
    /// Bytes per second.
    pub bandwidth: f64,
}

/// All links, and the shortest route from each node to each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Links {
    pub(crate) links: Vec<Link>,
    /// By sender and receiver, the links of the route in order. Invariant: empty from a node to itself, and nowhere else.
    ways: Vec<Vec<Vec<usize>>>,
}

impl Links {
    /// One link between any two nodes in each direction.
    pub(crate) fn full(nodes: usize, bandwidth: f64) -> Links {
        let pairs = (0..nodes).flat_map(|from| (from + 1..nodes).map(move |to| (from, to, bandwidth)));
        Links::new(nodes, pairs).expect("in a full graph everyone reaches everyone")
    }

    /// Links in both directions between these pairs.
    ///
    /// # Errors
    /// The two nodes that have no route between them.
    pub(crate) fn new(nodes: usize, pairs: impl Iterator<Item = (usize, usize, f64)>) -> Result<Links, (usize, usize)> {
        let both = |(from, to, bandwidth)| [Link { from, to, bandwidth }, Link { from: to, to: from, bandwidth }];
        let links: Vec<Link> = pairs.flat_map(both).collect();
        let ways = (0..nodes).map(|from| ways_from(from, nodes, &links)).collect::<Result<_, _>>()?;
        Ok(Links { links, ways })
    }

    /// The route from one node to another.
    pub(crate) fn way(&self, from: usize, to: usize) -> &[usize] {
        &self.ways[from][to]
    }

    /// Routes all bytes from one node to another over these nodes.
    ///
    /// # Errors
    /// Two nodes that no link connects.
    pub(crate) fn set_way(&mut self, nodes: &[usize]) -> Result<(), (usize, usize)> {
        let link = |pair: &[usize]| {
            let at = self.links.iter().position(|link| [link.from, link.to] == pair);
            at.ok_or((pair[0], pair[1]))
        };
        let way = nodes.windows(2).map(link).collect::<Result<Vec<usize>, _>>()?;
        if let (&[first, ..], Some(&last)) = (nodes, nodes.last()) {
            self.ways[first][last] = way;
        }
        Ok(())
    }
}

/// The shortest routes from a node; of equally long ones, that over nodes with lower numbers.
fn ways_from(from: usize, nodes: usize, links: &[Link]) -> Result<Vec<Vec<usize>>, (usize, usize)> {
    let mut ways: Vec<Option<Vec<usize>>> = vec![None; nodes];
    ways[from] = Some(Vec::new());
    let mut edge = vec![from];
    while !edge.is_empty() {
        let mut next = Vec::new();
        for node in edge {
            for (at, link) in links.iter().enumerate().filter(|(_, link)| link.from == node) {
                if ways[link.to].is_none() {
                    let mut way = ways[node].clone().expect("the edge has been reached");
                    way.push(at);
                    ways[link.to] = Some(way);
                    next.push(link.to);
                }
            }
        }
        next.sort_unstable();
        edge = next;
    }
    ways.into_iter().enumerate().map(|(to, way)| way.ok_or((from, to))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hops(links: &Links, from: usize, to: usize) -> Vec<(usize, usize)> {
        links.way(from, to).iter().map(|&at| (links.links[at].from, links.links[at].to)).collect()
    }

    #[test]
    fn a_ring_goes_the_shorter_way() {
        let ring = Links::new(5, (0..5).map(|node| (node, (node + 1) % 5, 1e9))).unwrap();
        assert_eq!(hops(&ring, 0, 2), [(0, 1), (1, 2)]);
        assert_eq!(hops(&ring, 1, 4), [(1, 0), (0, 4)]);
        assert_eq!(hops(&ring, 3, 3), []);
    }

    #[test]
    fn a_route_can_be_set_and_an_island_is_found() {
        let mut square = Links::new(4, [(0, 1, 1e9), (1, 3, 1e9), (0, 2, 1e9), (2, 3, 1e9)].into_iter()).unwrap();
        assert_eq!(hops(&square, 0, 3), [(0, 1), (1, 3)]);
        square.set_way(&[0, 2, 3]).unwrap();
        assert_eq!(hops(&square, 0, 3), [(0, 2), (2, 3)]);
        assert_eq!(square.set_way(&[1, 2]), Err((1, 2)));
        assert_eq!(Links::new(3, [(0, 1, 1e9)].into_iter()), Err((0, 2)));
    }
}
