//! The places of a program's bytes: the node of each page, or the home cache of each line.
//!
//! Arrays with a distribution lie as it says ([`vicus_memory::distribution`]). Others lie on the node of the first
//! touch on machines with nodes, and line by line round all home caches on machines with these.

use crate::{ArraySpec, Machine};
use std::ops::Range;
use vicus_memory::distribution::{Arrangement, Distribution, DistributionError, Distributor};
use vicus_topology::{LocationId, NodeId};

/// An untouched page.
const UNTOUCHED: u16 = u16::MAX;

/// The locations of all arrays' pages.
pub(crate) struct Pages {
    arrays: Vec<Lies>,
    /// The starts of all arrays, packed: a recorded query has as many arrays as envelopes.
    bases: Vec<usize>,
    /// The unit of placement has 2 to the power of this bytes.
    shift: u32,
    /// By location, the place: the index of a node, or of a core group with a last-level cache as its home.
    places: Vec<usize>,
    /// By node, the index of the location of pages first touched there: the node itself, or the nearest with memory.
    touched_from: Vec<u16>,
    /// If pages without a placement are interleaved over the locations in the order of first touches: the next
    /// location.
    turn: Option<u16>,
}

struct Lies {
    bytes: usize,
    arrangement: Arrangement,
    /// By page, the index of its first toucher's location; empty if the array has a distribution.
    touched: Vec<u16>,
    /// The home number of an array in one place as a whole: its cache among those sharing the memory there.
    home: usize,
    freed: bool,
}

impl Pages {
    /// Lays out all arrays in their order.
    pub(crate) fn new(machine: &Machine, arrays: &[ArraySpec], interleave: bool) -> Result<Pages, DistributionError> {
        let topology = &machine.topology;
        let homes = machine.homes.is_some();
        let places: Vec<usize> = if homes {
            let groups = topology.core_groups.iter();
            let has_worker =
                |group: &&vicus_topology::CoreGroup| group.pus.iter().any(|pu| topology.pus[pu.index()].usable);
            groups.filter(has_worker).map(|group| group.id.index()).collect()
        } else {
            // In an operating system's order of interleaving.
            let mut nodes: Vec<_> = topology.nodes.iter().filter(|node| topology.has_memory(node.id)).collect();
            nodes.sort_by_key(|node| node.os_index);
            nodes.into_iter().map(|node| node.id.index()).collect()
        };
        let nearest = |node: NodeId| {
            let nodes = topology.nodes_by_distance(node);
            let location = nodes.iter().find_map(|node| places.iter().position(|&other| other == node.index()));
            location.unwrap_or(0) as u16
        };
        let touched_from = topology.nodes.iter().map(|node| if homes { 0 } else { nearest(node.id) }).collect();
        let unit = if homes { machine.memory.line_bytes } else { machine.memory.page_bytes };
        let distributor = Distributor::new(places.len(), Distribution::Standard).of_units(unit);
        assert!(unit.is_power_of_two(), "pages and lines are powers of two");
        let mut whole = vec![0; places.len()];
        let mut lies = |array: &ArraySpec| {
            let units = array.bytes.div_ceil(unit);
            let arrangement = match distributor.place(units, Some(&array.distribution))? {
                Arrangement::Unplaced if homes => Arrangement::Round { locations: places.len() },
                arrangement => arrangement,
            };
            let pages = if arrangement == Arrangement::Unplaced { units } else { 0 };
            Ok(Lies {
                bytes: array.bytes,
                home: match arrangement {
                    Arrangement::One(location) => {
                        whole[location.index()] += 1;
                        whole[location.index()] - 1
                    }
                    _ => 0,
                },
                arrangement,
                touched: vec![UNTOUCHED; pages],
                freed: false,
            })
        };
        let bases = arrays.iter().map(|array| array.base).collect();
        let arrays = arrays.iter().map(&mut lies).collect::<Result<_, _>>()?;
        Ok(Pages { arrays, bases, shift: unit.trailing_zeros(), places, touched_from, turn: interleave.then_some(0) })
    }

    /// The array of an address. There is one, because the program has been checked.
    pub(crate) fn array_at(&self, address: usize) -> usize {
        self.bases.partition_point(|&base| base <= address) - 1
    }

    pub(crate) fn base(&self, array: usize) -> usize {
        self.bases[array]
    }

    /// The single place of an array that lies in one place as a whole.
    pub(crate) fn only_place(&self, array: usize) -> Option<usize> {
        match self.arrays[array].arrangement {
            Arrangement::One(location) => Some(self.places[location.index()]),
            _ => None,
        }
    }

    pub(crate) fn free(&mut self, array: usize) {
        self.arrays[array].freed = true;
    }

    pub(crate) fn is_freed(&self, array: usize) -> bool {
        self.arrays[array].freed
    }

    /// Calls `tell` for each place (node, or core group) with the bytes of an array's stretch known to lie there, and
    /// their home number, like [`vicus_memory::Memory::tell`] for threads' memory. The place of the stretch's beginning
    /// comes first; numbers equal modulo `cycle` are the same.
    pub(crate) fn tell(
        &self,
        array: usize,
        stretch: Range<usize>,
        cycle: usize,
        tell: &mut dyn FnMut(usize, usize, u64),
    ) {
        let (shift, places, lies) = (self.shift, &self.places, &self.arrays[array]);
        let unit = 1 << shift;
        let (mut start, end) = (stretch.start - self.bases[array], stretch.end - self.bases[array]);
        match &lies.arrangement {
            Arrangement::One(location) => return tell(places[location.index()], lies.home, (end - start) as u64),
            Arrangement::Copies { .. } => return tell(places[0], 0, (end - start) as u64),
            Arrangement::Round { locations } => {
                // Recurring units of each cycle are added up at once.
                let round = locations * cycle;
                let rounds = (end - start) / (round * unit);
                if rounds > 0 {
                    for at in (0..round).map(|step| start / unit + step) {
                        tell(places[at % locations], at / places.len(), (rounds * unit) as u64);
                    }
                    start += rounds * round * unit;
                }
            }
            _ => {}
        }
        while start < end {
            let at = start >> shift;
            let location = match &lies.arrangement {
                Arrangement::Unplaced => Some(lies.touched[at]).filter(|&at| at != UNTOUCHED).map(usize::from),
                placed => placed.location_of(at).map(LocationId::index),
            };
            let until = ((at + 1) * unit).min(end);
            if let Some(location) = location {
                tell(places[location], at / places.len(), (until - start) as u64);
            }
            start = until;
        }
    }

    /// Adds up the bytes of an array's stretch by place (node, or core group). If a node is given, it touches the pages
    /// first. Untouched pages are left out.
    pub(crate) fn add_places(&mut self, array: usize, stretch: Range<usize>, node: Option<NodeId>, places: &mut [f64]) {
        let (shift, unit) = (self.shift, 1 << self.shift);
        let (base, lies) = (self.bases[array], &mut self.arrays[array]);
        let (start, end) = (stretch.start - base, stretch.end - base);
        debug_assert!(end <= lies.bytes, "inside the array");
        if start >= end {
            return;
        }
        let units = start >> shift..((end - 1) >> shift) + 1;
        let part = |from: usize, to: usize| ((to << shift).min(end) - (from << shift).max(start)) as f64;
        let here = node.map(|node| self.touched_from[node.index()]);
        match &lies.arrangement {
            Arrangement::Unplaced => {
                for at in units {
                    let page = &mut lies.touched[at];
                    if let (UNTOUCHED, Some(here)) = (*page, here) {
                        *page = match &mut self.turn {
                            Some(turn) => std::mem::replace(turn, (*turn + 1) % self.places.len() as u16),
                            None => here,
                        };
                    }
                    if *page != UNTOUCHED {
                        places[self.places[usize::from(*page)]] += part(at, at + 1);
                    }
                }
            }
            Arrangement::One(location) => places[self.places[location.index()]] += (end - start) as f64,
            Arrangement::Round { locations } => {
                // Whole rounds at once; the first and the last unit may be used in part.
                let rounds = units.len().saturating_sub(2) / locations;
                for &place in &self.places {
                    places[place] += (rounds * unit) as f64;
                }
                for at in [units.start].into_iter().chain(units.start + 1 + rounds * locations..units.end) {
                    places[self.places[at % locations]] += part(at, at + 1);
                }
            }
            Arrangement::Copies { .. } => places[self.places[usize::from(here.unwrap_or(0))]] += (end - start) as f64,
            placed @ (Arrangement::Parts { .. } | Arrangement::Each { .. }) => {
                for at in units {
                    let location = placed.location_of(at).expect("each unit has its place");
                    places[self.places[location.index()]] += part(at, at + 1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_topology::Topology;

    const PAGE: usize = 4096;

    fn pages(nodes: usize, distribution: &str, bytes: usize) -> Pages {
        let machine = Machine::from_topology(Topology::parse(&format!("node:{nodes} core:1")).unwrap());
        let array = ArraySpec { base: 1 << 20, bytes, distribution: distribution.parse().unwrap() };
        Pages::new(&machine, &[array], false).unwrap()
    }

    fn places(pages: &mut Pages, range: Range<usize>, node: Option<usize>) -> Vec<f64> {
        let mut places = vec![0.0; pages.places.len()];
        let range = (1 << 20) + range.start..(1 << 20) + range.end;
        pages.add_places(0, range, node.map(NodeId::new), &mut places);
        places
    }

    #[test]
    fn the_first_touch_decides_and_later_ones_do_not() {
        let mut pages = pages(2, "standard", 4 * PAGE);
        assert_eq!(places(&mut pages, 0..4 * PAGE, None), [0.0, 0.0], "no node has touched it");
        // Half a page makes the whole page node 1's.
        assert_eq!(places(&mut pages, 100..PAGE / 2, Some(1)), [0.0, 1948.0]);
        assert_eq!(places(&mut pages, 0..2 * PAGE, Some(0)), [4096.0, 4096.0]);
        assert_eq!(places(&mut pages, 0..4 * PAGE, None), [4096.0, 4096.0]);
    }

    #[test]
    fn fine_goes_round_page_by_page() {
        let mut pages = pages(3, "fine", 100 * PAGE);
        // From the middle of page 1 to the middle of page 99: half of node 1's first, of node 0's last.
        let found = places(&mut pages, PAGE + 2048..99 * PAGE + 2048, None);
        let mut expected = [0.0; 3];
        for byte in (PAGE + 2048..99 * PAGE + 2048).step_by(2048) {
            expected[byte / PAGE % 3] += 2048.0;
        }
        assert_eq!(found, expected);
        assert_eq!(places(&mut pages, 5..10, None), [5.0, 0.0, 0.0]);
    }

    #[test]
    fn interleaved_pages_go_round_in_the_order_of_first_touches() {
        let machine = Machine::from_topology(Topology::parse("node:3 core:1").unwrap());
        let array = |number: usize| ArraySpec {
            base: number * 16 * PAGE,
            bytes: 4 * PAGE,
            distribution: if number == 1 { Distribution::Fine } else { Distribution::Standard },
        };
        let mut pages = Pages::new(&machine, &[array(0), array(1), array(2)], true).unwrap();
        let mut places = |array: usize, pages_touched: Range<usize>| {
            let start = array * 16 * PAGE;
            let mut places = vec![0.0; 3];
            let stretch = start + pages_touched.start * PAGE..start + pages_touched.end * PAGE;
            pages.add_places(array, stretch, Some(NodeId::new(2)), &mut places);
            places.iter().map(|bytes| bytes / PAGE as f64).collect::<Vec<_>>()
        };
        // Its first two pages, then one of the other array's, which goes on; placed pages have no turn.
        assert_eq!(places(0, 0..2), [1.0, 1.0, 0.0]);
        assert_eq!(places(1, 0..2), [1.0, 1.0, 0.0]);
        assert_eq!(places(2, 3..4), [0.0, 0.0, 1.0]);
        assert_eq!(places(2, 0..2), [1.0, 1.0, 0.0]);
        assert_eq!(places(0, 0..2), [1.0, 1.0, 0.0], "and stay where they are");
    }

    #[test]
    fn coarse_and_parts_lie_where_they_should() {
        assert_eq!(places(&mut pages(2, "coarse", PAGE), 0..PAGE, None), [4096.0, 0.0]);
        assert_eq!(places(&mut pages(2, "on:1", PAGE), 0..PAGE, None), [0.0, 4096.0]);
        assert_eq!(places(&mut pages(2, "weighted:3,1", 4 * PAGE), PAGE..4 * PAGE, None), [8192.0, 4096.0]);
        assert_eq!(places(&mut pages(2, "replicated", PAGE), 0..10, Some(1)), [0.0, 10.0]);
    }

    #[test]
    fn lines_of_a_manycore_go_round_its_workers_home_caches() {
        let machine = Machine::by_name("tilepro64").unwrap();
        let array = ArraySpec { base: 0, bytes: 63 * 64 * 2, distribution: Distribution::Standard };
        let mut pages = Pages::new(&machine, &[array], false).unwrap();
        let mut places = vec![0.0; 64];
        pages.add_places(0, 0..63 * 64 * 2, None, &mut places);
        assert_eq!(places[..63], [128.0; 63]);
        assert_eq!(places[63], 0.0, "tile 63 is the system's");
    }
}
