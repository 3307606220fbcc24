//! The cost of a piece of work: its bytes found in each cache, the places of the others, and the resources on their
//! way.

mod tally;

use crate::cache::{Cache, Passing};
use crate::fluid::Use;
use crate::granules::{Cut, cut, stretches};
use crate::heaps::{FAULT_CYCLES, Heaps};
use crate::machine::{HomeCosts, Queueing};
use crate::pages::Pages;
use crate::{Cost, Machine, Parameters, Program, SimOptions, Work};
use std::ops::Range;
use tally::{Load, Tally};
use vicus_memory::distribution::DistributionError;
use vicus_schedule::{Access, Mode, Whereabouts};
use vicus_topology::{CoreGroup, NodeId, PuId};

/// The needs of a piece of work without shared resources.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Demand {
    /// Its time.
    pub(crate) alone_ns: f64,
    /// Bytes through a shared resource; 0 if there are none.
    pub(crate) bytes: f64,
    /// The uses of resources by these bytes.
    pub(crate) uses: Vec<Use>,
    /// How much later the bytes may come without delaying the work, because it computes for longer than they take; in
    /// nanoseconds.
    pub(crate) hidden_ns: f64,
    /// How many bytes from memory the core has under way at once.
    pub(crate) window: f64,
    /// How many streams of as many bytes from memory each are under way side by side; on a machine with one node 1.
    pub(crate) streams: f64,
    /// Bytes from the core's own caches, or its group's.
    pub(crate) cached: f64,
    /// Bytes between the core and its own node, or its own home cache.
    pub(crate) near: f64,
    /// Bytes between the core and other nodes or home caches.
    pub(crate) far: f64,
    /// The average wait of a core for a line, in nanoseconds.
    pub(crate) latency_ns: f64,
}

/// A resource shared by flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// A name for people: `controller 3`, `link 0>1`.
    pub name: String,
    /// Bytes per second.
    pub capacity: f64,
    /// How long a line waits there.
    pub queueing: Queueing,
}

/// Caches, pages, and the routes between them.
pub(crate) struct Memory<'a> {
    machine: &'a Machine,
    overlap: f64,
    pages: Pages,
    heaps: Heaps,
    /// By array, its division into granules.
    cuts: Vec<Cut>,
    granules: Vec<Granule>,
    /// By cache, the node of its cores.
    nodes_of_caches: Vec<usize>,
    /// By index in the topology; the last one stands for all home caches together.
    caches: Vec<Cache>,
    /// By PU, its caches, the lowest level first.
    paths: Vec<Vec<usize>>,
    /// By PU, the bandwidth of each of these.
    speeds: Vec<Vec<f64>>,
    resources: Vec<Resource>,
    /// By cache, its resource, if its cores share one.
    shared: Vec<Option<usize>>,
    /// By core group, the resource of its bank of home caches, if there is one.
    banks: Vec<Option<usize>>,
    /// The first of the links of a mesh among the resources, if it has any.
    mesh: Option<usize>,
    /// The first bus among the resources.
    buses: usize,
    /// The first of the ports, two for each core group, if it has any.
    ports: usize,
    now: Tally,
    evicted: Vec<(u32, u32)>,
}

/// The places of a task's data, for dealing the task.
pub(crate) struct DataOf<'m, 'a> {
    pub(crate) memory: &'m Memory<'a>,
    /// The number of the task's box, if it is an invocation of one. As on threads, an envelope then tells only its
    /// node, and of the caches there a box is always dealt to the same one.
    pub(crate) of_box: Option<u32>,
}

impl Whereabouts for DataOf<'_, '_> {
    fn is_in_one_place(&self, stretch: &Range<usize>) -> bool {
        self.memory.is_in_one_place(stretch)
    }

    fn tell(&mut self, stretch: Range<usize>, cycle: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
        self.memory.tell(stretch, cycle, &mut |node, home, bytes| {
            let own = self.of_box.filter(|_| self.memory.machine.homes.is_none());
            tell(node, own.map_or(home, |number| number as usize), bytes);
        });
    }
}

/// The part of a granule touched by an access.
struct Piece {
    array: usize,
    id: u32,
    /// The bytes of the whole granule.
    whole: usize,
    /// The touched bytes, from the array's start.
    part: Range<usize>,
    /// Whether they are enough of the granule for caches to keep it.
    counts: bool,
    mode: Mode,
    /// How many times each byte is stored, if it is written.
    stores: u32,
}

/// A granule's state. Both fields are looked at together.
#[derive(Clone, Copy)]
struct Granule {
    /// How often it was written.
    version: u32,
    /// The cache that kept it at its last write, or [`Granule::NONE`].
    writer: u32,
}

impl Granule {
    /// No cache.
    const NONE: u32 = u32::MAX;
}

/// The place of a found piece.
#[derive(Clone, Copy, PartialEq)]
enum PiecePlace {
    /// In the core's own caches, or its group's.
    Own,
    /// In the cache of other cores, which has written it and would have to write it back; they are on this node.
    Written(usize),
    /// In memory.
    Memory,
}

impl<'a> Memory<'a> {
    pub(crate) fn new(
        machine: &'a Machine,
        program: &Program,
        options: &SimOptions,
    ) -> Result<Memory<'a>, DistributionError> {
        let Parameters { overlap, cache_share, .. } = options.parameters;
        let topology = &machine.topology;
        let nodes = topology.nodes.len();
        let mut resources: Vec<Resource> = (0..nodes)
            .map(|node| Resource {
                name: format!("controller {node}"),
                capacity: machine.controller_bandwidth(NodeId::new(node)),
                queueing: machine.memory.queueing.clone(),
            })
            .collect();
        let plain = |name: String, capacity: f64| Resource { name, capacity, queueing: Queueing::NONE };
        resources.extend(machine.links().iter().map(|link| Resource {
            name: format!("link {}>{}", link.from, link.to),
            capacity: link.bandwidth,
            queueing: machine.link_queueing.clone(),
        }));
        let mut shared = Vec::new();
        for (at, cache) in topology.caches.iter().enumerate() {
            let is_home = machine.homes.is_some() && cache.level == 2;
            let together = machine.cache_costs(cache.level).shared_bandwidth;
            let together = together.filter(|_| is_home || cache.pus.len() > 1);
            shared.push(together.map(|capacity| {
                // Tiles ask a home cache for a fetch each, one after the other; other caches serve many lines at once.
                let fetch = machine.homes.as_ref().filter(|_| is_home).map(|homes| homes.fetch_bytes as f64);
                let queueing = fetch.map_or(Queueing::NONE, |fetch| Queueing::of_server(fetch / capacity * 1e9));
                resources.push(Resource { queueing, ..plain(format!("L{} {at}", cache.level), capacity) });
                resources.len() - 1
            }));
        }
        let bank = |group: &CoreGroup| {
            let of_group =
                |at: &usize| topology.caches[*at].level == 2 && topology.caches[*at].pus.contains(&group.pus[0]);
            machine.homes.as_ref().and_then(|_| (0..shared.len()).find(of_group)).and_then(|at| shared[at])
        };
        let banks = topology.core_groups.iter().map(bank).collect();
        let mesh = machine.homes.as_ref().and_then(|homes| homes.mesh_bandwidth).map(|capacity| {
            let first = resources.len();
            for tile in 0..topology.core_groups.len() {
                // Banks have one line at a time, at a link's speed: lines of one bank do not wait behind themselves on
                // the way. Links full of lines of several banks slow these down.
                let links = ["right", "left", "down", "up"].map(|to| plain(format!("mesh {tile} {to}"), capacity));
                resources.extend(links);
            }
            first
        });
        let buses = resources.len();
        if let Some((pus, capacity)) = machine.bus {
            let bus = |at| plain(format!("bus {at}"), capacity);
            resources.extend((0..topology.pus.len() / pus).map(bus));
        }
        let ports = resources.len();
        for (group, port) in topology.core_groups.iter().flat_map(|group| Some((group.id.index(), machine.port?))) {
            resources.push(plain(format!("port {group} in"), port.read));
            resources.push(plain(format!("port {group} out"), port.write));
        }
        let keeps = |bytes: u64| Cache::new((bytes as f64 * cache_share) as u64);
        let mut caches: Vec<Cache> = topology.caches.iter().map(|cache| keeps(cache.bytes)).collect();
        let homes = topology.caches.iter().filter(|cache| machine.homes.is_some() && cache.level == 2);
        caches.push(keeps(homes.map(|cache| cache.bytes).sum()));
        // A core's misses go to home caches and not to its own second level.
        let path = |pu: PuId| {
            let own = machine.caches_of(pu).into_iter();
            own.filter(|&at| machine.homes.is_none() || topology.caches[at].level == 1).collect()
        };
        let paths: Vec<Vec<usize>> = topology.pus.iter().map(|pu| path(pu.id)).collect();
        let speed = |&at: &usize| machine.cache_costs(topology.caches[at].level).bandwidth;
        let speeds = paths.iter().map(|path| path.iter().map(speed).collect()).collect();
        let cuts = cut(program);
        let granules = cuts.last().map_or(0, |last| last.first + last.granules());
        let places = nodes.max(topology.core_groups.len());
        let now = Tally {
            reads: vec![0.0; places],
            writes: vec![0.0; places],
            forwarded: vec![0.0; places],
            stored: vec![0.0; places],
            streamed: vec![0.0; places],
            turns: vec![0.0; places],
            before: vec![0.0; places],
            uses: vec![Load::default(); resources.len()],
            ..Tally::default()
        };
        Ok(Memory {
            machine,
            overlap,
            heaps: Heaps::new(program, options.allocator, machine.clock_ghz),
            pages: Pages::new(machine, &program.arrays, options.interleave)?,
            cuts,
            granules: vec![Granule { version: 0, writer: Granule::NONE }; granules],
            nodes_of_caches: topology
                .caches
                .iter()
                .map(|cache| cache.pus.first().map_or(0, |pu| topology.pus[pu.index()].node.index()))
                .collect(),
            caches,
            paths,
            speeds,
            resources,
            shared,
            banks,
            mesh,
            buses,
            ports,
            now,
            evicted: Vec::new(),
        })
    }

    pub(crate) fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// See [`Heaps::expect`].
    pub(crate) fn expect_readers(&mut self, readers: &[u32]) {
        self.heaps.expect(readers);
    }

    pub(crate) fn free(&mut self, array: usize) {
        self.pages.free(array);
    }

    /// The first access to a freed array, and the array.
    pub(crate) fn freed(&self, accesses: &[Access]) -> Option<(Access, usize)> {
        let touching = accesses.iter().filter(|access| access.total_bytes() > 0);
        let mut arrays = touching.map(|access| (*access, self.pages.array_at(access.start)));
        arrays.find(|&(_, array)| self.pages.is_freed(array))
    }

    /// The needs of a piece of work with this beginning, in nanoseconds, on a PU with `slower` times the usual
    /// computing time. Changes caches and places.
    pub(crate) fn demand(&mut self, program: &Program, work: &Work, pu: PuId, slower: f64, now: f64) -> Demand {
        let node = self.machine.topology.pus[pu.index()].node;
        let compute_ns = slower
            * match work.cost {
                Cost::Flops(flops) => self.machine.compute_ns(&program.leaves[work.leaf as usize], flops),
                Cost::Nanos(ns) => ns,
            };
        // It returns its last task's blocks before it begins.
        let mut blocks_ns = self.heaps.returning_ns(pu, now);
        if work.accesses.is_empty() {
            return Demand { alone_ns: compute_ns + blocks_ns, ..Demand::default() };
        }
        self.clear(pu);
        let mut new_pages = 0;
        let has_places = self.machine.topology.nodes.len() > 1;
        let write_cost = self.machine.memory.write_cost;
        for access in &work.accesses {
            let before = self.now.stretches;
            if access.mode.writes() && access.total_bytes() > 0 && !self.heaps.is_empty() {
                let array = self.pages.array_at(access.start);
                let taken = self.heaps.take(array, program.arrays[array].bytes, pu, now + blocks_ns);
                new_pages += taken.pages;
                blocks_ns += taken.ns;
            }
            let Some((access, array)) = self.lying(access) else { continue };
            if has_places {
                self.now.remember_waits(write_cost);
            }
            // A recorded time has them in it, and memory of heaps is counted above.
            let faults = matches!(work.cost, Cost::Flops(_)) && !self.heaps.has(array);
            for stretch in stretches(&access) {
                self.touch(pu, node, array, faults, stretch, &access);
            }
            if self.now.stretches > before {
                self.now.streams += 1;
                if has_places {
                    self.now.add_stream(write_cost);
                }
            }
        }
        let measured = self.machine.leaf_bandwidths.get(&program.leaves[work.leaf as usize]);
        let memory = &self.machine.memory;
        // The bytes under way at once are those arriving within a latency.
        let window = |bandwidth: f64| bandwidth * memory.latency_ns / 1e9;
        let (alone_ns, hidden_ns, window) = match (&self.machine.homes, measured) {
            // A core with one miss at a time computes nothing meanwhile.
            (Some(homes), _) => (compute_ns + self.home_ns(homes, pu), 0.0, homes.fetch_bytes as f64),
            (None, None) => {
                let bytes_ns = self.hits_ns(pu) + self.memory_ns(node);
                let hidden_ns = (self.overlap * compute_ns - bytes_ns).max(0.0);
                (self.together_ns(compute_ns, bytes_ns), hidden_ns, window(self.streaming() * memory.core_bandwidth))
            }
            (None, Some(&bandwidth)) => {
                let (alone_ns, hidden_ns) = self.measured_ns(compute_ns, bandwidth, pu, node);
                (alone_ns, hidden_ns, window(bandwidth))
            }
        };
        let of_heaps_ns = new_pages as f64 * self.fault_ns(true).unwrap_or(FAULT_CYCLES / self.machine.clock_ghz);
        let alone_ns = alone_ns + blocks_ns + slower * (of_heaps_ns + self.now.faults_ns);
        self.summary(pu, node, Demand { alone_ns, hidden_ns, window, ..Demand::default() })
    }

    /// A piece of work on this PU is over, at this time in nanoseconds: blocks without further readers may be used
    /// again.
    pub(crate) fn done(&mut self, program: &Program, accesses: &[Access], pu: PuId, mut now: f64) {
        if self.heaps.is_empty() {
            return;
        }
        for access in accesses {
            let Some(array) = program.array_at(access.start) else { continue };
            now += self.heaps.done(array, program.arrays[array].bytes, access, pu, now);
        }
    }

    /// The access in its array's block, and the array with the block's memory; `None` if it has no bytes.
    fn lying(&self, access: &Access) -> Option<(Access, usize)> {
        if access.total_bytes() == 0 {
            return None;
        }
        let array = self.pages.array_at(access.start);
        if self.heaps.is_empty() {
            return Some((*access, array));
        }
        let (inside, block) = (access.start - self.pages.base(array), self.heaps.block(array));
        Some((Access { start: self.pages.base(block) + inside, ..*access }, block))
    }

    /// By node, the bytes of a footprint with a known place.
    pub(crate) fn by_node(&self, accesses: &[Access]) -> Vec<u64> {
        let mut nodes = vec![0; self.machine.topology.nodes.len()];
        for stretch in accesses.iter().flat_map(stretches) {
            self.tell(stretch, 1, &mut |node, _, bytes| nodes[node.index()] += bytes);
        }
        nodes
    }

    /// Whether a stretch's first array lies in one place as a whole.
    fn is_in_one_place(&self, stretch: &Range<usize>) -> bool {
        let array = self.pages.array_at(stretch.start);
        self.heaps.has(array) || self.pages.only_place(array).is_some()
    }

    /// Calls `tell` with the places of a stretch's bytes; see [`Pages::tell`].
    fn tell(&self, stretch: Range<usize>, cycle: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
        let array = self.pages.array_at(stretch.start);
        let block = if self.heaps.is_empty() { array } else { self.heaps.block(array) };
        let (from, to) = (self.pages.base(array), self.pages.base(block));
        let groups = &self.machine.topology.core_groups;
        self.pages.tell(block, stretch.start - from + to..stretch.end - from + to, cycle, &mut |place, home, bytes| {
            if self.machine.homes.is_none() {
                return tell(NodeId::new(place), home, bytes);
            }
            // The place is a home cache; its number counts those of its node.
            let node = groups[place].node;
            let before = groups[..place].iter().filter(|group| group.node == node).count();
            tell(node, before, bytes);
        });
    }

    fn clear(&mut self, pu: PuId) {
        self.now.hits.clear();
        self.now.hits.resize(self.paths[pu.index()].len(), 0.0);
        self.now.reads.fill(0.0);
        self.now.writes.fill(0.0);
        self.now.forwarded.fill(0.0);
        self.now.streamed.fill(0.0);
        self.now.turns.fill(0.0);
        (self.now.from_memory, self.now.posted) = (0.0, 0.0);
        (self.now.streams, self.now.stretches, self.now.faults_ns) = (0, 0, 0.0);
        (self.now.waited, self.now.squares) = (0.0, 0.0);
    }

    /// The cost of the first write to a page, if it is known, besides its bytes: the system zeroes them, and a write
    /// kept in the caches reads them first in this model.
    fn fault_ns(&self, is_kept: bool) -> Option<f64> {
        let memory = &self.machine.memory;
        let reads_ns = if is_kept { memory.page_bytes as f64 / memory.core_bandwidth * 1e9 } else { 0.0 };
        memory.fault_ns.map(|fault_ns| (fault_ns - reads_ns).max(0.0))
    }

    /// Reads or writes a stretch granule by granule through the caches. `faults`: whether the system gives pages at
    /// their first write.
    fn touch(&mut self, pu: PuId, node: NodeId, array: usize, faults: bool, stretch: Range<usize>, access: &Access) {
        let base = self.pages.base(array);
        let cut = &self.cuts[array];
        let first = cut.first;
        let inside = stretch.start - base..stretch.end - base;
        let (from, to) = (cut.number(inside.start), cut.number(inside.end - 1) + 1);
        // With home caches, all stores go there at once.
        let past_caches = access.streams && access.mode.writes() && self.machine.homes.is_none();
        // Parts of pages at an array's ends cost parts.
        let fault_ns = if faults && access.mode.writes() { self.fault_ns(!past_caches) } else { None };
        let mut missed = inside.start..inside.start;
        let mut before = PiecePlace::Own;
        let mut end = cut.start(from);
        for at in from..to {
            let whole = end..self.cuts[array].start(at + 1);
            end = whole.end;
            let part = whole.start.max(inside.start)..whole.end.min(inside.end);
            // An access to a small part of a granule neither brings it into the caches nor takes it from others'.
            let counts = part.len() * 2 >= whole.len();
            let id = (first + at) as u32;
            if let Some(ns) = fault_ns.filter(|_| counts && self.granules[id as usize].version == 0) {
                self.now.faults_ns += ns * whole.len() as f64 / self.machine.memory.page_bytes as f64;
            }
            let (mode, stores) = (access.mode, access.stores);
            let piece = Piece { array, id, whole: whole.len(), part: part.clone(), counts, mode, stores };
            let found = if past_caches { PiecePlace::Memory } else { self.through_caches(pu, &piece) };
            if past_caches && counts {
                let version = &mut self.granules[id as usize].version;
                *version = version.wrapping_add(1);
            }
            match found {
                PiecePlace::Own => {}
                PiecePlace::Written(from) => {
                    self.now.stretches += usize::from(before != found);
                    self.now.forwarded[from] += part.len() as f64;
                }
                PiecePlace::Memory => {
                    if missed.end != part.start {
                        self.miss(node, array, base, missed, access.mode, past_caches);
                        missed = part.start..part.start;
                    }
                    missed.end = part.end;
                }
            }
            before = found;
        }
        self.miss(node, array, base, missed, access.mode, past_caches);
        while let Some((id, bytes)) = self.evicted.pop() {
            let array = self.cuts.partition_point(|cut| cut.first <= id as usize) - 1;
            let cut = &self.cuts[array];
            let start = self.pages.base(array) + cut.start(id as usize - cut.first);
            self.pages.add_places(array, start..start + bytes as usize, None, &mut self.now.writes);
        }
    }

    /// Looks for a granule in the PU's caches, and leaves it there.
    fn through_caches(&mut self, pu: PuId, piece: &Piece) -> PiecePlace {
        let &Piece { array, id, whole, ref part, counts, mode, stores } = piece;
        let path = &self.paths[pu.index()];
        let Granule { version, writer } = &mut self.granules[id as usize];
        let (writes, before) = (mode.writes(), *version);
        if writes && counts {
            *version = version.wrapping_add(1);
        }
        let (version, writer, bytes) = (*version, *writer, whole as u32);
        let passing = |dirty: bool| Passing { granule: id, bytes, before, version, dirty };
        if self.machine.homes.is_some() {
            let found = path.iter().position(|&cache| self.caches[cache].look_up(id, before));
            if let Some(at) = found {
                self.now.hits[at] += part.len() as f64;
            }
            let keeps = if mode == Mode::Write { found.is_some() } else { counts };
            if keeps && (found.is_none() || writes) {
                path.iter().for_each(|&cache| {
                    self.caches[cache].pass(passing(false), &mut self.evicted);
                });
            }
            if writes {
                let (times, base) = (f64::from(stores), self.pages.base(array));
                let bytes = base + part.start..base + part.end;
                self.now.posted += part.len() as f64 * times;
                if stores == 1 {
                    self.pages.add_places(array, bytes, None, &mut self.now.writes);
                } else {
                    self.now.stored.fill(0.0);
                    self.pages.add_places(array, bytes, None, &mut self.now.stored);
                    let stored = self.now.writes.iter_mut().zip(&self.now.stored);
                    stored.for_each(|(writes, stored)| *writes += stored * times);
                }
            }
            let home = self.pages.only_place(array).and_then(|group| self.home_cache(group));
            let home = home.unwrap_or(self.caches.len() - 1);
            // Home caches have the latest version.
            let latest = Passing { before: 0, version: 0, ..passing(false) };
            if found.is_none() && !self.caches[home].pass(latest, &mut self.evicted).0 && mode != Mode::Write {
                self.now.from_memory += part.len() as f64;
            }
            return if found.is_some() || mode == Mode::Write { PiecePlace::Own } else { PiecePlace::Memory };
        }
        let last = path.len().wrapping_sub(1);
        let (mut found, mut keeps) = (None, false);
        if counts {
            for (at, &cache) in path.iter().enumerate() {
                let was_there;
                (was_there, keeps) = self.caches[cache].pass(passing(writes && at == last), &mut self.evicted);
                if was_there && found.is_none() {
                    found = Some(at);
                    // A granule found at a level, and not written, only has to go to the lower levels.
                    if !writes {
                        break;
                    }
                }
            }
        } else {
            found = path.iter().position(|&cache| self.caches[cache].look_up(id, before));
        }
        if let Some(at) = found {
            self.now.hits[at] += part.len() as f64;
        }
        // The own caches don't own the version of before: if they had it, it would have been found.
        let comes_from = match found {
            Some(_) => PiecePlace::Own,
            // Lines written elsewhere are not in memory yet.
            None if writer != Granule::NONE && self.caches[writer as usize].owns(id, before) => {
                PiecePlace::Written(self.nodes_of_caches[writer as usize])
            }
            None => PiecePlace::Memory,
        };
        if writes && counts {
            self.granules[id as usize].writer = if keeps { path[last] as u32 } else { Granule::NONE };
            if !keeps {
                // No cache has room for it, so it is written back at once.
                let cut = &self.cuts[array];
                let start = self.pages.base(array) + cut.start(id as usize - cut.first);
                let node = self.machine.topology.pus[pu.index()].node;
                self.pages.add_places(array, start..start + part.len(), Some(node), &mut self.now.writes);
            }
        }
        comes_from
    }

    /// Adds a part of an array found in no cache.
    fn miss(&mut self, node: NodeId, array: usize, base: usize, part: Range<usize>, mode: Mode, past_caches: bool) {
        if part.is_empty() {
            return;
        }
        let bytes = base + part.start..base + part.end;
        self.now.stretches += 1;
        if past_caches {
            if mode == Mode::ReadWrite {
                self.pages.add_places(array, bytes.clone(), Some(node), &mut self.now.reads);
            }
            self.pages.add_places(array, bytes.clone(), Some(node), &mut self.now.writes);
            self.pages.add_places(array, bytes, Some(node), &mut self.now.streamed);
        } else {
            // A written line is read first.
            self.pages.add_places(array, bytes, Some(node), &mut self.now.reads);
        }
    }

    /// The second-level cache of a tile.
    fn home_cache(&self, group: usize) -> Option<usize> {
        let pu = self.machine.topology.core_groups[group].pus[0];
        let caches = self.machine.topology.caches.iter();
        caches.enumerate().find(|(_, cache)| cache.level == 2 && cache.pus.contains(&pu)).map(|(at, _)| at)
    }

    fn hits_ns(&self, pu: PuId) -> f64 {
        let hits = self.now.hits.iter().zip(&self.speeds[pu.index()]);
        hits.map(|(bytes, speed)| bytes / speed * 1e9).sum()
    }

    /// The time of computing and moving together.
    fn together_ns(&self, compute_ns: f64, bytes_ns: f64) -> f64 {
        (1.0 - self.overlap) * compute_ns + bytes_ns.max(self.overlap * compute_ns)
    }

    /// The nodes whose bytes a core waits for, and how many bytes.
    fn waits(&self) -> impl Iterator<Item = (NodeId, f64)> {
        let bytes = self.now.waits(1.0).zip(&self.now.forwarded).map(|(bytes, forwarded)| bytes + forwarded);
        // There may be more places than nodes; the additional ones have no bytes.
        bytes.enumerate().filter(|(_, bytes)| *bytes > 0.0).map(|(node, bytes)| (NodeId::new(node), bytes))
    }

    /// The time of a kind of work with a measured bandwidth from memory: first the part with its bytes in caches, then
    /// the other part. Also how much later the other bytes may come without delaying it.
    fn measured_ns(&self, compute_ns: f64, bandwidth: f64, pu: PuId, node: NodeId) -> (f64, f64) {
        let hits: f64 = self.now.hits.iter().sum();
        let all = hits + self.waits().map(|(_, bytes)| bytes).sum::<f64>();
        if all == 0.0 {
            return (compute_ns, 0.0);
        }
        let own = self.machine.core_bandwidth(node, node);
        let (mut from_memory, mut hidden) = (0.0, 0.0);
        for (from, bytes) in self.waits() {
            let farther = own / self.machine.core_bandwidth(node, from);
            let (moving, computing) = (bytes / bandwidth * 1e9 * farther, compute_ns * bytes / all);
            from_memory += moving.max(computing);
            hidden += (computing - moving).max(0.0);
        }
        (self.together_ns(compute_ns * hits / all, self.hits_ns(pu)) + from_memory, hidden)
    }

    /// The current piece of work's share of a core's bandwidth from memory, because its stretches are few or short.
    fn streaming(&self) -> f64 {
        let one_stream = self.machine.memory.stream_bandwidth / self.machine.memory.core_bandwidth;
        // Prefetching begins anew on each page.
        let page = self.machine.memory.page_bytes * self.now.stretches;
        let short = self.waits().map(|(_, bytes)| bytes).sum::<f64>() < page as f64;
        if self.now.streams == 1 || short { one_stream } else { 1.0 }
    }

    /// The time of the bytes from memory on a machine with nodes, if no other core delays them.
    fn memory_ns(&self, node: NodeId) -> f64 {
        let share = self.streaming();
        let ns = |(from, bytes)| bytes / (share * self.machine.core_bandwidth(node, from)) * 1e9;
        self.waits().map(ns).sum()
    }

    /// The time of memory on a machine with home caches: one miss after the other.
    fn home_ns(&self, homes: &HomeCosts, pu: PuId) -> f64 {
        let tile = self.machine.topology.pus[pu.index()].group.index();
        let mut ns = self.hits_ns(pu) + self.now.posted / self.speeds[pu.index()][0] * 1e9;
        for (home, bytes) in self.now.reads.iter().enumerate().filter(|(_, bytes)| **bytes > 0.0) {
            ns += bytes / homes.fetch_bytes as f64 * self.machine.home_latency_ns(homes, tile, home);
        }
        ns + self.now.from_memory / self.machine.memory.line_bytes as f64 * self.machine.memory.latency_ns
    }

    /// The needs of the current piece of work, given its time.
    fn summary(&mut self, pu: PuId, node: NodeId, mut demand: Demand) -> Demand {
        let machine = self.machine;
        let window = demand.window;
        // It has no more streams than lines under way.
        demand.streams = self.now.equal_streams().min(window / machine.memory.line_bytes as f64).max(1.0);
        let mut waited = 0.0;
        self.now.uses.fill(Load::default());
        for (at, &cache) in self.paths[pu.index()].iter().enumerate() {
            let bytes = self.now.hits[at];
            let costs = machine.cache_costs(machine.topology.caches[cache].level);
            demand.cached += bytes;
            waited += bytes * costs.latency_ns;
            if let Some(resource) = self.shared[cache] {
                self.now.uses[resource].add(bytes, bytes / (costs.bandwidth * costs.latency_ns / 1e9), 0.0);
                demand.bytes += bytes;
            }
        }
        let own = if machine.homes.is_some() { machine.topology.pus[pu.index()].group.index() } else { node.index() };
        for place in 0..self.now.reads.len() {
            let (read, written, streamed) = (self.now.reads[place], self.now.writes[place], self.now.streamed[place]);
            let forwarded = self.now.forwarded[place];
            let bytes = read + written + forwarded;
            if bytes == 0.0 {
                continue;
            }
            if place == own {
                demand.near += bytes;
            } else {
                demand.far += bytes;
            }
            if let Some(homes) = &machine.homes {
                // Cores don't wait for stores.
                waited += read * machine.home_latency_ns(homes, own, place);
                if let Some(bank) = self.banks[place] {
                    demand.bytes += bytes;
                    // A tile asks its own bank one thing after the other, and does not wait behind itself.
                    let (waits, posts) = if place == own { (0.0, bytes) } else { (read, written) };
                    self.now.uses[bank].add(bytes, waits / window, posts / window);
                }
                if let Some(mesh) = self.mesh {
                    // Lines come from the home, stores go there; requests for lines go over a network of their own.
                    let (reads, posts) = (read / window, written / window);
                    homes.way(place, own).for_each(|link| self.now.uses[mesh + link].add(read, reads, 0.0));
                    homes.way(own, place).for_each(|link| self.now.uses[mesh + link].add(written, 0.0, posts));
                }
                continue;
            }
            waited += bytes * machine.latency_ns(node, NodeId::new(place));
            demand.bytes += bytes;
            let (stores, posts) = (streamed / window, (written - streamed) / window);
            let slower = machine.memory.write_cost;
            self.now.uses[place].add(read + slower * written, read / window + stores, posts);
            self.now.uses[place].turns = self.now.turns[place] / demand.streams;
            // Bytes from caches don't go through the controller.
            let (read, reads) = (read + forwarded, (read + forwarded) / window);
            let first = machine.topology.nodes.len();
            let mut over = |way: &[usize], bytes, waits, posts| {
                way.iter().for_each(|&link| self.now.uses[first + link].add(bytes, waits, posts));
            };
            over(machine.links.way(place, node.index()), read, reads, 0.0);
            over(machine.links.way(node.index(), place), written, stores, posts);
            if let Some(message) = machine.probe_bytes {
                // Also for a line written without a read: others have to give it up.
                let lines = (read + streamed) / machine.memory.line_bytes as f64;
                self.probe(node.index(), place, lines * message, reads + stores);
            }
            if machine.port.is_some() {
                let port = self.ports + 2 * machine.topology.pus[pu.index()].group.index();
                self.now.uses[port].add(read, reads, 0.0);
                self.now.uses[port + 1].add(written, stores, posts);
            }
            if let Some((pus, _)) = machine.bus {
                self.now.uses[self.buses + pu.index() / pus].add(bytes, reads + stores, posts);
            }
        }
        if self.now.from_memory > 0.0 {
            let bytes = self.now.from_memory;
            demand.bytes += bytes;
            self.now.uses[0].add(bytes, bytes / machine.memory.line_bytes as f64, 0.0);
            waited += bytes * machine.memory.latency_ns;
        }
        let all = demand.bytes;
        let used = self.now.uses.iter().enumerate().filter(|(_, load)| load.bytes > 0.0);
        let share = |(resource, load): (usize, &Load)| Use {
            resource,
            share: load.bytes / all,
            waits: load.waits / all,
            posts: load.posts / all,
            turns: load.turns / all,
        };
        demand.uses = used.map(share).collect();
        let all = demand.cached + demand.near + demand.far;
        demand.latency_ns = if all > 0.0 { waited / all } else { 0.0 };
        demand
    }
}

impl Memory<'_> {
    /// Adds the messages without data for a core's lines. The core is on node `own`, the lines come from node `place`,
    /// from its memory or its caches. The messages are a question to this node, if it is another one, a question to the
    /// caches of each other node, and their answers to this node. The answers come at the same time, so the core waits
    /// for each of them a part of the time.
    fn probe(&mut self, own: usize, place: usize, bytes: f64, waits: f64) {
        let Memory { machine, now, .. } = self;
        let nodes = machine.topology.nodes.len();
        let each = waits / (nodes - 1) as f64;
        let mut over = |from: usize, to: usize, waits: f64| {
            machine.links.way(from, to).iter().for_each(|&link| now.uses[nodes + link].add(bytes, waits, 0.0));
        };
        over(own, place, waits);
        for other in (0..nodes).filter(|&other| other != own) {
            over(own, other, each);
            over(other, place, each);
        }
    }
}

#[cfg(test)]
mod tests;
