//! The links between nodes, and the route of a byte over them.

/// A link in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Its first node.
    pub from: usize,
    /// Its last node.
    pub to: usize,
    /// Bytes per second.
    pub bandwidth: f64,
}

/// All links, and a shortest route from each node to each other. Among several, the routes of all pairs are spread over
/// the links, as in makers' tables of routers: otherwise one link of a square would carry most of the traffic to the
/// opposite nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Links {
    pub(crate) links: Vec<Link>,
    /// By sender and receiver, the links of the route in order. Invariant: empty from a node to itself, and nowhere
    /// else.
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
    /// The two nodes without a route between them.
    pub(crate) fn new(nodes: usize, pairs: impl Iterator<Item = (usize, usize, f64)>) -> Result<Links, (usize, usize)> {
        let both = |(from, to, bandwidth)| [Link { from, to, bandwidth }, Link { from: to, to: from, bandwidth }];
        let links: Vec<Link> = pairs.flat_map(both).collect();
        let ways = spread_ways(nodes, &links)?;
        Ok(Links { links, ways })
    }

    /// The route from one node to another.
    pub(crate) fn way(&self, from: usize, to: usize) -> &[usize] {
        &self.ways[from][to]
    }

    /// Routes all bytes from one node to another over these nodes.
    ///
    /// # Errors
    /// Two unconnected nodes.
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

/// A shortest route for each pair of nodes, near pairs first: the one with the fewest routes so far on its fullest
/// link; among several, the one with the fewest on all its links together; among these, the one over nodes with lower
/// numbers.
fn spread_ways(nodes: usize, links: &[Link]) -> Result<Vec<Vec<Vec<usize>>>, (usize, usize)> {
    let hops: Vec<Vec<Option<usize>>> = (0..nodes).map(|from| hops_from(from, nodes, links)).collect();
    let mut pairs = Vec::new();
    for (from, hops) in hops.iter().enumerate() {
        for (to, hops) in hops.iter().enumerate() {
            pairs.push((hops.ok_or((from, to))?, from, to));
        }
    }
    pairs.sort_unstable();
    let mut routes = vec![0usize; links.len()];
    let mut ways = vec![vec![Vec::new(); nodes]; nodes];
    for (_, from, to) in pairs {
        // A route is carried on only by links nearer to its end.
        let mut begun = vec![(from, Vec::new())];
        let mut all: Vec<Vec<usize>> = Vec::new();
        while let Some((at, way)) = begun.pop() {
            if at == to {
                all.push(way);
                continue;
            }
            let nearer = |link: &&(usize, &Link)| link.1.from == at && hops[link.1.to][to] < hops[at][to];
            for (number, link) in links.iter().enumerate().filter(|link| nearer(&link)) {
                let mut longer = way.clone();
                longer.push(number);
                begun.push((link.to, longer));
            }
        }
        let weight = |way: &Vec<usize>| {
            let fullest = way.iter().map(|&link| routes[link]).max();
            let over: Vec<usize> = way.iter().map(|&link| links[link].to).collect();
            (fullest, way.iter().map(|&link| routes[link]).sum::<usize>(), over)
        };
        let way = all.into_iter().min_by_key(weight).expect("a node that is so many hops away has a route");
        way.iter().for_each(|&link| routes[link] += 1);
        ways[from][to] = way;
    }
    Ok(ways)
}

/// How many links lie between a node and each other one; `None` if no route leads there.
fn hops_from(from: usize, nodes: usize, links: &[Link]) -> Vec<Option<usize>> {
    let mut hops = vec![None; nodes];
    hops[from] = Some(0);
    let mut edge = vec![from];
    let mut count = 0;
    while !edge.is_empty() {
        count += 1;
        let mut next = Vec::new();
        for link in links.iter().filter(|link| edge.contains(&link.from)) {
            if hops[link.to].is_none() {
                hops[link.to] = Some(count);
                next.push(link.to);
            }
        }
        edge = next;
    }
    hops
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

    /// A byte from each node to each other: the square of four nodes has as many on each link.
    #[test]
    fn routes_are_spread_over_the_links() {
        let loads = |links: &Links, nodes: usize| {
            let mut loads = vec![0; links.links.len()];
            for from in 0..nodes {
                for to in 0..nodes {
                    links.way(from, to).iter().for_each(|&link| loads[link] += 1);
                }
            }
            loads
        };
        let square = Links::new(4, [(0, 1, 1e9), (0, 2, 1e9), (1, 3, 1e9), (2, 3, 1e9)].into_iter()).unwrap();
        assert_eq!(loads(&square, 4), [2; 8]);
        // 56 routes of 12 links in both directions: the sum of hops of a cube is 8 × 12.
        let pairs = (0..8).flat_map(|node| [1, 2, 4].map(|bit| (node, node ^ bit, 1e9)));
        let cube = Links::new(8, pairs.filter(|(from, to, _)| from < to)).unwrap();
        let loads = loads(&cube, 8);
        assert_eq!(loads.iter().sum::<usize>(), 96);
        assert!(loads.iter().all(|&load| (3..=5).contains(&load)), "{loads:?}");
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
