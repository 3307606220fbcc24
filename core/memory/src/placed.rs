//! Memory placed by a distribution: whole pages, placed before they are touched.
//!
//! Muddukrishna et al. §3 hand the pages to libnuma and then can't tell their places ("the locality-aware scheduler is
//! unable to query" them). We differ: placed ranges lie in a region of their own, and its atlas ([`crate::atlas`])
//! knows the requested location of each address.

use crate::atlas::{Atlas, Entry, PlotData};
use crate::distribution::{self, Arrangement, Distribution, DistributionError, Distributor};
use crate::memory::Memory;
use crate::neighbours::{Neighbours, NodeTurn, Room};
use crate::pages::{PageError, PagePlacement, Pages, WhenFull};
use crate::region::{HUGE_PAGE, Region};
use std::alloc::Layout;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use vicus_topology::{ByPlace, LocationId, NoSuchPlace, NodeId, Place, Topology};

/// The most runs of a range: each is a mapping of the kernel's, and a process may have about 65,000. Page by page in
/// turn is one run.
pub const MOST_RUNS: usize = 1 << 14;

/// Why memory could not be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceError {
    /// The distribution does not fit this machine.
    Distribution(DistributionError),
    /// The region of placed ranges has no row of this number of free addresses, with this alignment.
    TooLarge {
        /// The requested size.
        bytes: usize,
        /// The requested alignment.
        align: usize,
    },
    /// A node has no memory left, and no other node may be asked, or none had any.
    Exhausted {
        /// The requested node.
        node: NodeId,
        /// How many bytes of it.
        bytes: usize,
        /// Tells whether others were asked.
        when_full: WhenFull,
        /// The page source's last error.
        error: PageError,
    },
    /// The range would lie in more than [`MOST_RUNS`] runs.
    TooManyRuns(usize),
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::Distribution(error) => error.fmt(f),
            PlaceError::TooLarge { bytes, align } => write!(
                f,
                "{bytes} bytes aligned to {align} are more than the region of placed memory has left; raise \
                 `MemoryOptions::placed_bytes`"
            ),
            PlaceError::Exhausted { node, bytes, when_full, error } => {
                let others = match when_full {
                    WhenFull::Strict => "the memory is strict: no other node was asked",
                    WhenFull::Preferred => "neither has any other node",
                };
                write!(f, "{node} has no {bytes} bytes left ({error}), and {others}")
            }
            PlaceError::TooManyRuns(runs) => {
                write!(f, "the memory would lie in {runs} runs, at most {MOST_RUNS} are possible; take larger units")
            }
        }
    }
}

impl std::error::Error for PlaceError {}

/// How many bytes of a range lie on each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// By node.
    pub nodes: Vec<usize>,
    /// On unknown nodes.
    pub unknown: usize,
}

/// Some bytes in one place; see [`Memory::tell`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeBytes {
    /// The node; `None` if it is unknown.
    pub node: Option<NodeId>,
    /// Their number among the places that share the node's memory.
    pub home: usize,
    /// How many there are.
    pub bytes: usize,
    /// Whether no node was requested, and the page source has told their place: they may not stay there.
    pub is_learned: bool,
}

impl Footprint {
    fn add(&mut self, node: Option<NodeId>, bytes: usize) {
        *node.and_then(|node| self.nodes.get_mut(node.index())).unwrap_or(&mut self.unknown) += bytes;
    }
}

/// How many addresses the page source is asked about in one call.
const BATCH: usize = 512;

/// Pages requested on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Pages on this node.
    pub there: usize,
    /// Pages on other nodes.
    pub elsewhere: usize,
}

/// A memory's means to place ranges.
#[derive(Debug)]
pub(crate) struct Placing {
    pages: Arc<dyn Pages>,
    /// Made when it is first needed.
    atlas: OnceLock<Atlas>,
    /// Held while the atlas is made.
    making: Mutex<()>,
    region_bytes: usize,
    distributor: Distributor,
    /// The node of each location: the nodes with usable memory, ascending by the system's numbers.
    locations: Vec<NodeId>,
    /// The location for each place: the nearest to its node.
    nearest: ByPlace<LocationId>,
    neighbours: Arc<Neighbours>,
    when_full: WhenFull,
    huge_pages: bool,
    /// Why the page source first refused to place something.
    refusal: OnceLock<PageError>,
    /// Whether there are several nodes: only then is the place of unplaced pages worth knowing.
    learns: bool,
    /// How many relocations have begun, and how many have ended.
    relocating: AtomicUsize,
    relocated: AtomicUsize,
}

/// A relocation under way; it ends when this is dropped.
struct Relocation<'a>(&'a Placing);

impl Drop for Relocation<'_> {
    fn drop(&mut self) {
        self.0.relocated.fetch_add(1, Ordering::SeqCst);
    }
}

impl Placing {
    fn begin_relocation(&self) -> Relocation<'_> {
        self.relocating.fetch_add(1, Ordering::SeqCst);
        Relocation(self)
    }

    pub(crate) fn new(
        pages: &Arc<dyn Pages>,
        topology: &Topology,
        neighbours: &Arc<Neighbours>,
        options: &crate::MemoryOptions,
    ) -> Placing {
        let nodes = topology.nodes.iter().map(|node| node.id);
        let has_memory = |node: &NodeId| topology.has_memory(*node);
        let mut locations: Vec<NodeId> =
            nodes.clone().filter(|node| has_memory(node) && pages.may_use(*node)).collect();
        if locations.is_empty() {
            // No node seems to have memory; the first touch then decides for all ranges.
            locations = nodes.clone().filter(has_memory).collect();
        }
        // The order of a system's turns.
        locations.sort_by_key(|node| topology.nodes[node.index()].os_index);
        let nearest = ByPlace::new(topology, |place| {
            let nodes = neighbours.near(topology.node_of(place));
            let location = nodes.iter().find_map(|node| locations.iter().position(|at| at == node));
            LocationId::new(location.expect("some node has memory"))
        });
        Placing {
            pages: Arc::clone(pages),
            atlas: OnceLock::new(),
            making: Mutex::new(()),
            region_bytes: options.placed_bytes,
            distributor: Distributor::new(locations.len(), options.distribution.clone()).of_units(pages.page_bytes()),
            locations,
            nearest,
            neighbours: Arc::clone(neighbours),
            when_full: options.when_full,
            huge_pages: options.huge_pages,
            refusal: OnceLock::new(),
            learns: topology.nodes.len() > 1,
            relocating: AtomicUsize::new(0),
            relocated: AtomicUsize::new(0),
        }
    }

    fn atlas(&self) -> Result<&Atlas, PageError> {
        if let Some(atlas) = self.atlas.get() {
            return Ok(atlas);
        }
        let _making = self.making.lock().expect("nothing panics while the atlas is made");
        if let Some(atlas) = self.atlas.get() {
            return Ok(atlas);
        }
        let atlas = Atlas::reserve(&self.pages, self.region_bytes, self.locations.len(), self.learns)?;
        Ok(self.atlas.get_or_init(|| atlas))
    }

    /// The locks, in the order they are taken in.
    pub(crate) fn lock(&self) -> (MutexGuard<'_, ()>, Option<crate::sync::MutexGuard<'_, crate::atlas::State>>) {
        let making = self.making.lock().expect("nothing panics while the atlas is made");
        (making, self.atlas.get().map(Atlas::lock))
    }

    /// Whether each node has room for its part, if the memory is strict: single runs may fit while all of them together
    /// do not.
    fn check_room(&self, plan: &PlacePlan) -> Result<(), PlaceError> {
        if self.when_full == WhenFull::Preferred {
            return Ok(());
        }
        let page = self.pages.page_bytes();
        let mut bytes = vec![0; self.locations.len()];
        for (run, at) in &plan.runs {
            match at {
                At::First => {}
                At::Node(node) => bytes[self.location(*node).index()] += run.len(),
                At::InTurn(count) => {
                    let pages = run.len() / page;
                    (0..*count).for_each(|at| bytes[at] += (pages / count + usize::from(at < pages % count)) * page);
                }
            }
        }
        for (&node, bytes) in self.locations.iter().zip(bytes) {
            if bytes > 0 && !self.pages.has_room(node, bytes) {
                let (when_full, error) = (WhenFull::Strict, PageError::Full);
                return Err(PlaceError::Exhausted { node, bytes, when_full, error });
            }
        }
        Ok(())
    }

    fn location(&self, node: NodeId) -> LocationId {
        LocationId::new(self.locations.iter().position(|&at| at == node).expect("a run lies at a location"))
    }

    /// Whether a node has usable memory.
    pub(crate) fn is_location(&self, node: NodeId) -> bool {
        self.locations.contains(&node)
    }

    /// Notes a refused placement; there, the first touch decides.
    pub(crate) fn refused(&self, error: PageError) {
        // The first error stays.
        let _ = self.refusal.set(error);
    }

    pub(crate) fn owns(&self, address: *const u8) -> bool {
        self.atlas.get().is_some_and(|atlas| atlas.owns(address.addr()))
    }

    pub(crate) fn node_of(&self, address: *const u8) -> Option<NodeId> {
        let at = address.addr();
        let location = self.atlas.get()?.ask(at, |data| data.at(at - data.start).0)??;
        self.locations.get(location).copied()
    }

    fn is_in_one_place(&self, address: usize) -> bool {
        self.atlas.get().and_then(|atlas| atlas.ask(address, |data| data.is_in_one_place())).unwrap_or(false)
    }

    /// Whether an address is in an unplaced range.
    fn is_unplaced(&self, address: usize) -> bool {
        self.atlas.get().and_then(|atlas| atlas.ask(address, |data| data.is_unplaced())).unwrap_or(false)
    }

    /// The first address of a range in the region that is not in use.
    pub(crate) fn freed_in(&self, range: Range<usize>) -> Option<usize> {
        let atlas = self.atlas.get()?;
        let mut at = range.start;
        while at < range.end && atlas.owns(at) {
            match atlas.ask(at, |data| data.start + data.bytes) {
                Some(end) => at = end,
                None => return Some(at),
            }
        }
        None
    }

    /// Tells the places of the bytes from `from` up to `end`, as far as they are in one range or in none. Gives the end
    /// of this part.
    fn tally(&self, from: usize, end: usize, cycle: usize, tell: &mut dyn FnMut(NodeBytes)) -> usize {
        let Some(atlas) = self.atlas.get() else {
            tell(NodeBytes { node: None, home: 0, bytes: end - from, is_learned: false });
            return end;
        };
        let mut told: Vec<(Option<usize>, usize, usize)> = Vec::new();
        let mut is_unplaced = false;
        let until =
            atlas.ask(from, |data| {
                is_unplaced = data.is_unplaced();
                let until = (data.start + data.bytes).min(end);
                told.clear();
                data.tally(from - data.start, until - data.start, cycle, &mut |location, home, bytes| match told
                    .last_mut()
                {
                    Some((last, same, sum)) if (*last, *same) == (location, home) => *sum += bytes,
                    _ => told.push((location, home, bytes)),
                });
                until
            });
        for (location, home, bytes) in told {
            let node = location.and_then(|location| self.locations.get(location)).copied();
            tell(NodeBytes { node, home, bytes, is_learned: is_unplaced && node.is_some() });
        }
        until.unwrap_or_else(|| {
            let next = atlas.next(from, end);
            tell(NodeBytes { node: None, home: 0, bytes: next - from, is_learned: false });
            next
        })
    }
}

/// Stretches of the same length, at the same distance.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The addresses of the first one.
    pub first: Range<usize>,
    /// How many there are.
    pub count: usize,
    /// From the start of one to the next, in bytes.
    pub stride: usize,
}

impl Placing {
    /// Like [`Placing::tally`], for rows all in one range with requested places only. Returns whether they are.
    fn tally_rows(&self, rows: &Rows, cycle: usize, tell: &mut dyn FnMut(NodeBytes)) -> bool {
        let (Some(atlas), Some(before)) = (self.atlas.get(), rows.count.checked_sub(1)) else { return false };
        let Some(last) = before.checked_mul(rows.stride).and_then(|far| rows.first.end.checked_add(far)) else {
            return false;
        };
        let mut told: Vec<(Option<usize>, usize, usize)> = Vec::new();
        let are_in = atlas.ask(rows.first.start, |data| {
            // Asked again if the range changes meanwhile.
            told.clear();
            if data.start + data.bytes < last || data.is_unplaced() {
                return false;
            }
            for row in 0..rows.count {
                let from = rows.first.start - data.start + row * rows.stride;
                data.tally(from, from + rows.first.len(), cycle, &mut |location, home, bytes| match told.last_mut() {
                    Some((last, same, sum)) if (*last, *same) == (location, home) => *sum += bytes,
                    _ => told.push((location, home, bytes)),
                });
            }
            true
        });
        let node = |location: Option<usize>| location.and_then(|location| self.locations.get(location)).copied();
        let is_known = are_in == Some(true) && told.iter().all(|part| node(part.0).is_some());
        if is_known {
            told.into_iter().for_each(|(location, home, bytes)| {
                tell(NodeBytes { node: node(location), home, bytes, is_learned: false })
            });
        }
        is_known
    }
}

impl Memory {
    /// The node of each location counted by distributions ([`LocationId`]): the nodes with memory usable by this
    /// process, in the order of the system's numbers.
    pub fn locations(&self) -> &[NodeId] {
        &self.placing.locations
    }

    /// The location for a place: its node, if that has usable memory, else the nearest node with some. Panics if there
    /// is no such place.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use vicus_memory::{FakePages, Memory, MemoryOptions};
    /// use vicus_topology::{GroupId, NodeId, Topology};
    ///
    /// let machine = Topology::parse("node:2 l3:2 core:1").unwrap();
    /// let options = MemoryOptions { range_bytes: 32 << 20, ..MemoryOptions::default() };
    /// let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
    /// assert_eq!(memory.location_near(NodeId::new(1)).index(), 1);
    /// assert_eq!(memory.location_near(GroupId::new(3)).index(), 1, "its node");
    /// assert_eq!(memory.node_near(GroupId::new(3)), NodeId::new(1));
    /// ```
    pub fn location_near(&self, place: impl Into<Place>) -> LocationId {
        self.placing.nearest[place.into()]
    }

    /// Like [`Memory::location_near`]; an error if there is no such place.
    pub(crate) fn find_location(&self, place: Place) -> Result<LocationId, NoSuchPlace> {
        self.placing.nearest.get(place).copied()
    }

    /// The node of [`Memory::location_near`]. Panics if there is no such place.
    pub fn node_near(&self, place: impl Into<Place>) -> NodeId {
        self.node_at(self.location_near(place))
    }

    /// The node of a location. Panics if there is no such location.
    pub fn node_at(&self, location: LocationId) -> NodeId {
        self.locations()[location.index()]
    }

    /// All locations, the nearest to a node first.
    pub(crate) fn locations_near(&self, node: NodeId) -> impl Iterator<Item = LocationId> {
        let of_node = |node: &NodeId| self.locations().iter().position(|at| at == node);
        self.near(node).iter().filter_map(of_node).map(LocationId::new)
    }

    /// All nodes by their distance from one, that one first.
    pub(crate) fn near(&self, node: NodeId) -> &[NodeId] {
        self.placing.neighbours.near(node)
    }

    /// The page source's reason for its first refusal to place something; there, the first touch decides. `None` if all
    /// is well. A node without usable memory is not a refusal: requests for it lie at the nearest location.
    pub fn placing_refused(&self) -> Option<PageError> {
        self.placing.refusal.get().copied()
    }

    /// How many relocations ([`Placed::relocate`]) there have been; `None` while one is under way. Its pages move
    /// before their requested place changes: the two may only be compared if this is the same number before and after.
    pub fn relocations(&self) -> Option<usize> {
        // What has ended is read first: a relocation that begins in between is under way.
        let ended = self.placing.relocated.load(Ordering::SeqCst);
        (self.placing.relocating.load(Ordering::SeqCst) == ended).then_some(ended)
    }

    /// The addresses of all placed memory; `None` before something was placed.
    pub fn placed_addresses(&self) -> Option<Range<usize>> {
        self.placing.atlas.get().map(Atlas::addresses)
    }

    /// Allocates whole pages, zeroed, in the chosen distribution; `None` takes [`crate::MemoryOptions::distribution`].
    /// It takes some system calls: use it for large, long-lived memory.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use std::sync::Arc;
    /// use vicus_memory::{FakePages, Memory, MemoryOptions, Region, distribution::Distribution};
    /// use vicus_topology::{NodeId, Topology};
    ///
    /// let machine = Topology::parse("node:2 core:1").unwrap();
    /// let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 32 << 20, ..MemoryOptions::default() };
    /// let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
    /// let placed = memory.place(Layout::new::<[u64; 4096]>(), Some(&Distribution::Blocked)).unwrap();
    /// assert_eq!(memory.node_of(&placed.bytes()[20_000]), Some(NodeId::new(1)));
    /// assert_eq!(memory.footprint(placed.bytes()).nodes, [16384, 16384]);
    /// ```
    ///
    /// # Errors
    /// It does not fit, or there is no memory, or the memory is strict and a node has too little.
    pub fn place(self: &Arc<Memory>, layout: Layout, chosen: Option<&Distribution>) -> Result<Placed, PlaceError> {
        self.place_pages(layout, |distributor, pages| distributor.place(pages, chosen))
    }

    /// Like [`Memory::place`], by any policy; units are pages.
    ///
    /// # Errors
    /// Those of [`Memory::place`].
    pub fn place_by(
        self: &Arc<Memory>,
        layout: Layout,
        policy: &dyn distribution::Policy,
    ) -> Result<Placed, PlaceError> {
        self.place_pages(layout, |distributor, pages| distributor.place_by(policy, pages))
    }

    fn place_pages(
        self: &Arc<Memory>,
        layout: Layout,
        place: impl FnOnce(&Distributor, usize) -> Result<Arrangement, DistributionError>,
    ) -> Result<Placed, PlaceError> {
        let unit = self.pages().page_bytes();
        let units = layout.size().div_ceil(unit).max(1);
        let arrangement = place(&self.placing.distributor, units).map_err(PlaceError::Distribution)?;
        self.place_as(layout, unit, arrangement)
    }

    /// Like [`Memory::place`], by an arrangement of units of this number of bytes. Panics if a unit is not a multiple
    /// of a page, or if there is no such location.
    ///
    /// # Errors
    /// Those of [`Memory::place`].
    pub fn place_as(
        self: &Arc<Memory>,
        layout: Layout,
        unit_bytes: usize,
        arrangement: Arrangement,
    ) -> Result<Placed, PlaceError> {
        let page = self.pages().page_bytes();
        assert!(
            unit_bytes > 0 && unit_bytes.is_multiple_of(page),
            "a unit of {unit_bytes} bytes is not a multiple of a page"
        );
        let too_large = PlaceError::TooLarge { bytes: layout.size(), align: layout.align() };
        let plan = PlacePlan::new(&self.placing, layout, page, unit_bytes, &arrangement).ok_or(too_large.clone())?;
        if plan.runs.len() > MOST_RUNS {
            return Err(PlaceError::TooManyRuns(plan.runs.len()));
        }
        self.placing.check_room(&plan)?;
        let atlas = self.placing.atlas().map_err(|_| too_large.clone())?;
        if plan.taken > atlas.bytes() {
            return Err(too_large);
        }
        let (entry, first) = atlas.take(plan.taken).ok_or(too_large)?;
        let lead = plan.lead(&*self.placing.pages, first.addr().get());
        #[expect(unsafe_code, reason = "an offset within what was taken")]
        // SAFETY: the plan has room for the alignment.
        let start = unsafe { first.add(lead) };
        // From here on, dropping it gives all back.
        let mut placed = Placed {
            memory: Arc::clone(self),
            entry,
            start,
            bytes: layout.size(),
            stride: plan.stride,
            all: plan.all,
            arrangement,
            committed: Vec::with_capacity(plan.runs.len()),
            refusal: None,
            spilled: 0,
        };
        placed.place_runs(&plan)?;
        placed.commit(&plan)?;
        let known = if placed.refusal.is_none() { &placed.arrangement } else { &Arrangement::Unplaced };
        let unit = match known {
            Arrangement::Unplaced => page,
            _ if placed.copies() > 1 => plan.stride,
            _ => unit_bytes,
        };
        atlas.enter(&mut placed.entry, start.addr().get(), plan.all, unit, known);
        Ok(placed)
    }

    /// The bytes of a slice requested on each node, or known to lie there by [`Memory::learn`]; the rest is unknown.
    pub fn footprint<T>(&self, of: &[T]) -> Footprint {
        let range = of.as_ptr_range();
        self.footprint_at(range.start.addr()..range.end.addr())
    }

    /// Whether an address's allocation was requested as a whole on one node, by a heap or by a distribution.
    pub fn is_in_one_place(&self, address: usize) -> bool {
        self.superblocks.ranges.index(address).is_some() || self.placing.is_in_one_place(address)
    }

    /// Like [`Memory::footprint`], for a range of addresses.
    pub fn footprint_at(&self, range: Range<usize>) -> Footprint {
        let mut footprint = Footprint { nodes: vec![0; self.nodes()], unknown: 0 };
        self.tell(range, 1, &mut |part| footprint.add(part.node, part.bytes));
        footprint
    }

    /// Tells the requested places of a range's bytes, with their home numbers, from its beginning on. The caller does
    /// not distinguish numbers `cycle` apart and may be told either of them; with 1 there are none.
    ///
    /// Several caches share the memory of a node. A home number tells an allocation's cache among them: the number
    /// modulo the number of caches. It does not change. An allocation in one place as a whole takes the next number of
    /// its node, as Muddukrishna et al. go round the home caches of a chip (§3, `coarse`); the pages of others have
    /// successive numbers (`fine`), and so have the superblocks of heaps.
    pub fn tell(&self, range: Range<usize>, cycle: usize, tell: &mut dyn FnMut(NodeBytes)) {
        let Range { start: mut at, end } = range;
        while at < end {
            let ranges = &self.superblocks.ranges;
            at = match ranges.index(at) {
                Some(index) => {
                    let until = if cycle > 1 { ranges.end_of(index) } else { ranges.end_of_node(index) }.min(end);
                    tell(NodeBytes {
                        node: Some(ranges.node(index)),
                        home: ranges.within_node(index),
                        bytes: until - at,
                        is_learned: false,
                    });
                    until
                }
                None => self.placing.tally(at, ranges.next(at, end), cycle, tell),
            };
        }
    }

    /// Like [`Memory::tell`] for one row after the other, at the cost of looking up one range: if all rows are in one
    /// placed range with requested nodes. Otherwise it tells nothing and returns false.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use std::sync::Arc;
    /// use vicus_memory::{FakePages, Memory, MemoryOptions, Region, Rows};
    /// use vicus_memory::distribution::Distribution;
    /// use vicus_topology::Topology;
    ///
    /// let machine = Topology::parse("node:2 core:1").unwrap();
    /// let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 32 << 20, ..MemoryOptions::default() };
    /// let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
    /// let placed = memory.place(Layout::array::<u8>(16 << 12).unwrap(), Some(&Distribution::Fine)).unwrap();
    /// let start = placed.bytes().as_ptr().addr();
    /// // Eight rows of 100 bytes, each on the second page of two.
    /// let rows = Rows { first: start + 4096..start + 4196, count: 8, stride: 8192 };
    /// let mut told = Vec::new();
    /// assert!(memory.tell_rows(&rows, 1, &mut |part| told.push((part.node.unwrap().index(), part.bytes))));
    /// assert_eq!(told, [(1, 800)]);
    /// ```
    pub fn tell_rows(&self, rows: &Rows, cycle: usize, tell: &mut dyn FnMut(NodeBytes)) -> bool {
        let is_heap = self.superblocks.ranges.index(rows.first.start).is_some();
        !is_heap && self.placing.tally_rows(rows, cycle, tell)
    }

    /// Keeps the page source's answer on a page's place, if the page is in an unplaced range
    /// ([`Distribution::Standard`](crate::distribution::Distribution::Standard)): [`Memory::node_of`] and
    /// [`Memory::footprint`] say so until the range is freed.
    pub fn learn(&self, address: usize, node: NodeId) {
        let location = self.locations().iter().position(|&at| at == node);
        if let (Some(atlas), Some(location)) = (self.placing.atlas.get(), location) {
            atlas.learn(address, LocationId::new(location));
        }
    }

    /// Asks the page source, in batches, how many touched pages of this memory lie on their requested nodes. By the
    /// requested node.
    pub fn audit(&self) -> Vec<Audit> {
        let mut audits = vec![Audit::default(); self.nodes()];
        let page = self.pages().page_bytes();
        let placed = self.placing.atlas.get().map(Atlas::all).unwrap_or_default();
        for range in self.superblocks.all().into_iter().chain(placed) {
            let asked = |at: usize| match self.placing.is_unplaced(at) {
                true => None,
                false => self.node_of(std::ptr::without_provenance(at)),
            };
            let pages: Vec<usize> = range.step_by(page).filter(|&at| asked(at).is_some()).collect();
            for batch in pages.chunks(BATCH) {
                for (&at, truth) in batch.iter().zip(self.pages().truth(batch)) {
                    let (Some(asked), Some(truth)) = (asked(at), truth) else { continue };
                    let audit = &mut audits[asked.index()];
                    *(if asked == truth { &mut audit.there } else { &mut audit.elsewhere }) += 1;
                }
            }
        }
        audits
    }

    /// Asks the page source, in batches, for the real number of a slice's bytes on each node. Untouched pages are
    /// unknown.
    pub fn truth<T>(&self, of: &[T]) -> Footprint {
        let mut footprint = Footprint { nodes: vec![0; self.nodes()], unknown: 0 };
        let (page, range) = (self.pages().page_bytes(), of.as_ptr_range());
        let (mut at, end) = (range.start.addr(), range.end.addr());
        let mut addresses = Vec::with_capacity(BATCH);
        let page_end = |at: usize| ((at & !(page - 1)) + page).min(end);
        while at < end {
            addresses.clear();
            while at < end && addresses.len() < BATCH {
                addresses.push(at);
                at = page_end(at);
            }
            for (&address, node) in addresses.iter().zip(self.pages().truth(&addresses)) {
                footprint.add(node, page_end(address) - address);
            }
        }
        footprint
    }
}

/// Zeroed whole pages in the requested places. Dropping the value gives them back.
///
/// Replicated memory is several copies. The first one is written ([`Placed::bytes_mut`]), then copied to all others
/// ([`Placed::spread`]); then each thread reads the nearest ([`Placed::copy`]).
#[derive(Debug)]
pub struct Placed {
    memory: Arc<Memory>,
    entry: Entry,
    start: NonNull<u8>,
    /// Bytes of one copy, as asked for.
    bytes: usize,
    /// Bytes from one copy to the next.
    stride: usize,
    /// Bytes of all copies.
    all: usize,
    arrangement: Arrangement,
    /// Committed offsets, each in one call for this node.
    committed: Vec<(Range<usize>, NodeId)>,
    refusal: Option<PageError>,
    spilled: usize,
}

#[expect(unsafe_code, reason = "it has a pointer to its memory")]
// SAFETY: the memory is this value's alone; it is plain bytes, shared for reading and written through `&mut`.
unsafe impl Send for Placed {}

#[expect(unsafe_code, reason = "it has a pointer to its memory")]
// SAFETY: as above.
unsafe impl Sync for Placed {}

impl Placed {
    /// The first byte, for callers that store something else than bytes.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes were asked for.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether no bytes were asked for.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Its memory; of several copies, the first.
    pub fn bytes(&self) -> &[u8] {
        self.copy_at(0)
    }

    /// Like [`Placed::bytes`], for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: committed, initialised, and this value's alone.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes)
        }
    }

    /// How its units lie. If [`Placed::refusal`] is not `None`, this was only asked for.
    pub fn arrangement(&self) -> &Arrangement {
        &self.arrangement
    }

    /// The requested node of a byte; `None` if it is unknown, or if there are copies. Panics if there is no such byte.
    pub fn node_at(&self, offset: usize) -> Option<NodeId> {
        assert!(offset < self.bytes, "byte {offset} of {}", self.bytes);
        let known = !matches!(self.arrangement, Arrangement::Copies { .. });
        self.plot_data().at(offset).0.filter(|_| known).map(|location| self.memory.locations()[location])
    }

    /// The last requested location of a unit, whether it could be placed or not. Panics if there is none.
    pub(crate) fn asked_location(&self, unit: usize) -> LocationId {
        let told = self.plot_data().at_unit(unit).map(LocationId::new).or_else(|| self.arrangement.location_of(unit));
        told.expect("units of an array lie at one location each")
    }

    /// The memory it was placed in.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// How many copies there are; 1 if it is not replicated.
    pub fn copies(&self) -> usize {
        self.all / self.stride
    }

    /// The copy nearest to a place; memory without replicas has one for all. Panics if there is no such place.
    pub fn copy(&self, place: impl Into<Place>) -> &[u8] {
        let location = self.memory.location_near(place).index();
        self.copy_at(if self.copies() > 1 { location } else { 0 })
    }

    /// The copy of a location, by its index. Panics if there is none.
    fn copy_at(&self, location: usize) -> &[u8] {
        assert!(location < self.copies(), "copy {location} of {}", self.copies());
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: committed and initialised; written only through `&mut self`.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().add(location * self.stride), self.bytes)
        }
    }

    /// Copies the first copy to all others.
    pub fn spread(&mut self) {
        for copy in 1..self.copies() {
            #[expect(unsafe_code, reason = "the memory is raw")]
            // SAFETY: both are committed and this value's alone, and they don't overlap.
            unsafe {
                let to = self.start.as_ptr().add(copy * self.stride);
                self.start.as_ptr().copy_to_nonoverlapping(to, self.bytes);
            }
        }
    }

    /// Why the page source refused to place it; the first touch then decides, and its nodes are unknown.
    pub fn refusal(&self) -> Option<PageError> {
        self.refusal
    }

    /// How many runs of it went to another node, since theirs was full. A page source that only notices this at the
    /// first touch counts none; [`Memory::truth`] knows.
    pub fn spilled(&self) -> usize {
        self.spilled
    }

    /// Moves a unit of memory with a list to another place. Its content stays, also while other threads use it.
    ///
    /// # Errors
    /// The page source refuses; then it stays at its place. Panics if there is no such unit or place, or no list.
    pub fn relocate(&self, unit: usize, to: impl Into<Place>) -> Result<(), PlaceError> {
        let location = self.memory.location_near(to);
        let Arrangement::Each { locations } = &self.arrangement else {
            panic!("only memory that lies by a list can be relocated");
        };
        assert!(unit < locations.len(), "unit {unit} of {}", locations.len());
        let placing = &self.memory.placing;
        let (part, _) = &self.committed[unit];
        let (node, when_full) = (self.memory.node_at(location), placing.when_full);
        let bytes = part.len();
        let _relocation = placing.begin_relocation();
        #[expect(unsafe_code, reason = "moves what it has committed")]
        // SAFETY: committed in one call.
        let moved = unsafe { placing.pages.relocate(self.start.add(part.start), bytes, node, when_full) };
        moved.map_err(|error| PlaceError::Exhausted { node, bytes, when_full, error })?;
        if self.refusal.is_none() {
            self.atlas().relocate(&self.entry, unit, location);
        }
        Ok(())
    }

    fn atlas(&self) -> &Atlas {
        self.memory.placing.atlas.get().expect("it has a range in it")
    }

    fn plot_data(&self) -> PlotData<'_> {
        self.atlas().data(&self.entry)
    }

    /// Tells the page source the nodes for the runs. If it refuses one, the error is noted and the first touch decides
    /// for all.
    #[expect(unsafe_code, reason = "places what it has taken")]
    fn place_runs(&mut self, plan: &PlacePlan) -> Result<(), PlaceError> {
        let placing = &self.memory.placing;
        let place = |run: &Range<usize>, placement: PagePlacement<'_>| {
            // SAFETY: a part of the newly taken range, with nothing of it touched.
            unsafe { placing.pages.place(self.start.add(run.start), run.len(), placement) }
        };
        let tell = |(run, at): &(Range<usize>, At)| match at {
            At::First => Ok(()),
            At::Node(node) => place(run, PagePlacement::On(*node, placing.when_full)),
            At::InTurn(count) => place(run, PagePlacement::Interleaved(&placing.locations[..*count])),
        };
        let Err(error) = plan.runs.iter().try_for_each(tell) else { return Ok(()) };
        if let (PageError::NoSuchNode(node), WhenFull::Strict) = (error, placing.when_full) {
            return Err(PlaceError::Exhausted { node, bytes: self.all, when_full: placing.when_full, error });
        }
        // Otherwise the runs placed already would lie differently from the rest.
        let _ = place(&(0..self.all), PagePlacement::Standard);
        placing.refused(error);
        self.refusal = Some(error);
        Ok(())
    }

    fn commit(&mut self, plan: &PlacePlan) -> Result<(), PlaceError> {
        for (run, at) in &plan.runs {
            let node = match at {
                At::Node(node) => *node,
                At::First | At::InTurn(_) => self.memory.placing.locations[0],
            };
            // Unplaced memory belongs to no node.
            let when_full = if matches!(at, At::Node(_)) { self.memory.placing.when_full } else { WhenFull::Preferred };
            self.commit_run(run, node, when_full)?;
        }
        Ok(())
    }

    /// Commits a run on a node, or on the nearest with room if this is allowed.
    #[expect(unsafe_code, reason = "commits what it has taken")]
    fn commit_run(&mut self, run: &Range<usize>, node: NodeId, when_full: WhenFull) -> Result<(), PlaceError> {
        let placing = &self.memory.placing;
        let (mut error, bytes) = (PageError::Full, run.len());
        for NodeTurn { node: at, room } in placing.neighbours.turns(node, when_full) {
            if room == Room::Needed && !placing.pages.has_room(at, bytes) {
                continue;
            }
            // SAFETY: a part of the newly taken range, committed once.
            let committed = unsafe {
                let start = self.start.add(run.start);
                if placing.huge_pages && bytes >= HUGE_PAGE {
                    placing.pages.advise_huge(start, bytes);
                }
                placing.pages.commit(start, bytes, at)
            };
            match committed {
                Ok(()) => {
                    self.committed.push((run.clone(), at));
                    self.spilled += usize::from(at != node);
                    return Ok(());
                }
                Err(refusal) => error = refusal,
            }
        }
        Err(PlaceError::Exhausted { node, bytes, when_full, error })
    }
}

impl Region for Placed {
    fn owns(&self, address: *const u8) -> bool {
        address.addr().wrapping_sub(self.start.addr().get()) < self.all
    }

    fn node_of(&self, address: *const u8) -> Option<NodeId> {
        let offset = address.addr().wrapping_sub(self.start.addr().get());
        let location = if offset < self.all { self.plot_data().at(offset).0 } else { None };
        self.memory.placing.locations.get(location?).copied()
    }
}

impl Drop for Placed {
    #[expect(unsafe_code, reason = "gives back what it has committed")]
    fn drop(&mut self) {
        let placing = &self.memory.placing;
        self.atlas().leave(&self.entry);
        let was_placed = self.refusal.is_none() && !matches!(self.arrangement, Arrangement::Unplaced);
        // SAFETY: each part was committed in one call, and the memory is this value's alone. Afterwards its addresses
        // have no policy any more, so the next range starts without one and the kernel can merge the mappings.
        let is_free = unsafe {
            for (run, node) in self.committed.drain(..) {
                placing.pages.decommit(self.start.add(run.start), run.len(), node);
            }
            !was_placed || placing.pages.place(self.start, self.all, PagePlacement::Standard).is_ok()
        };
        // Addresses with a policy are not given back: the next range there would inherit it.
        if is_free {
            self.atlas().give_back(&self.entry);
        }
    }
}

/// The steps for a range.
struct PlacePlan {
    /// Bytes from one copy to the next; or of all.
    stride: usize,
    /// Bytes of all copies.
    all: usize,
    /// The alignment of its start.
    align: usize,
    /// Bytes of addresses, with room for the alignment.
    taken: usize,
    /// In order, without gaps.
    runs: Vec<(Range<usize>, At)>,
}

enum At {
    /// On the node of the first touch.
    First,
    Node(NodeId),
    /// Page by page over this number of locations.
    InTurn(usize),
}

impl PlacePlan {
    /// `None` if a number does not fit an address.
    fn new(
        placing: &Placing,
        layout: Layout,
        page: usize,
        unit: usize,
        arrangement: &Arrangement,
    ) -> Option<PlacePlan> {
        let locations = &placing.locations;
        let whole = layout.size().max(1).checked_next_multiple_of(page)?;
        let units = whole.div_ceil(unit);
        let copies = if let Arrangement::Copies { locations } = arrangement { *locations } else { 1 };
        // No huge page has parts of two copies.
        let between = if copies > 1 && whole >= HUGE_PAGE { HUGE_PAGE } else { page };
        let stride = match copies {
            1 => whole,
            _ => whole.checked_next_multiple_of(layout.align().max(between))?,
        };
        let all = stride.checked_mul(copies)?;
        let in_turn = match arrangement {
            Arrangement::Round { locations } if unit == page && *locations > 1 => *locations,
            _ => 1,
        };
        let align = layout.align().max(page);
        let taken = all.checked_add(align.checked_mul(in_turn)?)?;
        let runs = match arrangement {
            Arrangement::Unplaced => vec![(0..all, At::First)],
            Arrangement::Copies { .. } => {
                (0..copies).map(|copy| (copy * stride..(copy + 1) * stride, At::Node(locations[copy]))).collect()
            }
            _ if in_turn > 1 => vec![(0..all, At::InTurn(in_turn))],
            _ => {
                let bytes = |run: &Range<usize>| run.start * unit..if run.end == units { all } else { run.end * unit };
                let runs = arrangement.runs(units);
                runs.iter().map(|(run, location)| (bytes(run), At::Node(locations[location.index()]))).collect()
            }
        };
        Some(PlacePlan { stride, all, align, taken, runs })
    }

    /// How far behind an address the range begins: it is aligned, and pages in turn begin with the first location.
    fn lead(&self, pages: &dyn Pages, address: usize) -> usize {
        let first = address.next_multiple_of(self.align);
        let turns = if let [(_, At::InTurn(turns))] = self.runs[..] { turns } else { 1 };
        let mut starts = (0..turns).map(|step| first + step * self.align);
        // A system may count turns from page to page: then one of these starts has turn 0. If it counts otherwise, none
        // need have.
        starts.find(|&start| turns == 1 || pages.turn(start, turns) == 0).unwrap_or(first) - address
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
