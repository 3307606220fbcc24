//! Dealing: the place of a task with a footprint. One function serves all worlds; a world only tells the places of
//! bytes.

use super::{BoxPlacement, Crowd};
use crate::access::{data_bytes, total_bytes};
use crate::{Access, Plan, QueueId};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use vicus_topology::{DealReason, LocationId, NodeId};

/// How a task with a footprint finds its queue (Muddukrishna et al., algorithms 1 and 3).
#[derive(Clone, Debug, PartialEq)]
pub struct Dealing {
    /// A task is dealt only if its bytes exceed this: the last-level cache per core (algorithm 1, line 3), or the
    /// private cache (algorithm 3, line 8).
    pub more_bytes_than: u64,
    /// Whether bytes spread evenly over the locations stay with the spawner (algorithm 1, line 3).
    pub only_uneven: bool,
    /// Up to this number of the first tasks spawned by one task, each larger than [`Dealing::more_bytes_than`], are
    /// dealt only if 80 percent of their bytes lie at their destination. The same holds for all of them if the spawner
    /// is as large itself. Such a spawner is taken to divide its work, so its tasks use its own recent data. `None`
    /// deals them like all others.
    pub fan: Option<u32>,
    /// Locations whose bytes cost at most this many percent more than the cheapest are as good as the cheapest: the
    /// task goes to the one that got the fewest bytes from the spawner's seat. Exceptions: 80 percent of the task's
    /// bytes lie at the cheapest one, or the task is a part of its spawner's work. `None`: the first of the cheapest.
    pub spread_within: Option<u32>,
    /// Looks up at most this number of an access's stretches, standing for all; `None` is no limit. The spawner looks,
    /// and all seats may wait for its tasks.
    pub stretches_at_most: Option<u32>,
    /// By location, whether bytes can lie there: "evenly" refers to these locations. A node may have cores and no
    /// memory.
    pub holds: Vec<bool>,
    /// Whether the intensely used datum's home decides first, without the size test (algorithm 3, line 3).
    pub intensity_first: bool,
    /// Whether only data in one place for each allocation (distribution `coarse`, and memory from a seat's heap) count
    /// as bytes and as the intensely used datum (algorithm 3, line 2).
    pub only_coarse: bool,
    /// By NUMA node, the locations that share its memory: its own, or those of the nearest node with any. Invariant: no
    /// list is empty.
    pub locations: Vec<Vec<LocationId>>,
    /// The queue of each location. A location without seats has the queue of the nearest location with seats.
    pub queues: Vec<QueueId>,
    /// `costs[from][to]`: the cost of a byte at location `to` for a task dealt to location `from`: the OS's value or a
    /// latency, counted from the seats of that location's queue. Invariant: locations with the same queue have the same
    /// row.
    pub costs: Vec<Vec<u32>>,
}

/// Facts about a spawning task ([`Dealing::fan`]). A closure run as a part of another task, such as the second one of a
/// join not taken by another thread, counts as that task. One word: it is stored and loaded with each task, and a load
/// right after a store in pieces would be slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spawner(u64);

impl Spawner {
    const HAS_DATA: u64 = 1 << 63;

    /// A task that has spawned nothing yet. [`Plan::divides`](crate::Plan::divides) says whether its data suffice to
    /// deal the task itself.
    pub fn new(has_data: bool) -> Spawner {
        Spawner(if has_data { Spawner::HAS_DATA } else { 0 })
    }

    /// Whether it has data enough to be dealt itself.
    pub fn has_data(self) -> bool {
        self.0 >= Spawner::HAS_DATA
    }

    /// How many tasks with data enough to be dealt it has spawned.
    pub fn spawned(self) -> u64 {
        self.0 & !Spawner::HAS_DATA
    }

    fn count_spawn(&mut self) {
        self.0 += 1;
    }
}

/// A world's knowledge of the places of bytes.
pub trait Whereabouts {
    /// Whether the whole allocation around the start of a stretch lies in one place.
    fn is_in_one_place(&self, stretch: &Range<usize>) -> bool;

    /// Reports the known places of a stretch's bytes: node, home number (see [`Dealing::location`]) and number of
    /// bytes, from the beginning of the stretch on. Numbers `cycle` apart are equivalent.
    fn tell(&mut self, stretch: Range<usize>, cycle: usize, tell: &mut dyn FnMut(NodeId, usize, u64));

    /// Like [`Whereabouts::tell`] for all stretches of an access, one after the other: for a world with a cheaper
    /// lookup of several.
    fn tell_all(&mut self, access: &Access, cycle: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
        access.stretches().for_each(|stretch| self.tell(stretch, cycle, tell));
    }

    /// The node of one byte, if it is known.
    fn node_of(&mut self, address: usize) -> Option<NodeId> {
        let mut found = None;
        self.tell(address..address.saturating_add(1), 1, &mut |node, _, _| found = Some(node));
        found
    }
}

/// Sums of a task's bytes by location. Reused for the next task, so dealing allocates nothing.
#[derive(Debug, Default)]
pub struct Shares {
    bytes: Vec<u64>,
    /// The location of the first byte with a known location.
    first: Option<LocationId>,
    /// By location, the bytes of tasks sent to its seats ([`Dealing::spread_within`]). Older bytes count less.
    dealt: Vec<u64>,
    /// How many of these tasks there were since the bytes were halved.
    counted: usize,
    /// Whether the task may go to any location about as near to its bytes as the nearest.
    pub(crate) spreads: bool,
}

impl Shares {
    /// Adds bytes on a node, under a home number.
    pub fn add(&mut self, dealing: &Dealing, node: NodeId, home: usize, bytes: u64) {
        if bytes > 0 && node.index() < dealing.locations.len() {
            let location = dealing.location(node, home);
            self.bytes.resize(dealing.queues.len(), 0);
            let sum = &mut self.bytes[location.index()];
            *sum = sum.saturating_add(bytes);
            self.first.get_or_insert(location);
        }
    }

    /// Forgets the last task's bytes, but keeps the counts of dealt bytes.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.first = None;
    }

    /// All locations in the order of preference among equals, beginning with that of the first byte. So equals are not
    /// all dealt to the first location, and the same data always have the same one.
    fn in_order(&self, count: usize) -> impl Iterator<Item = LocationId> + use<> {
        let first = self.first.unwrap_or_default().index();
        (first..count).chain(0..first).map(LocationId::new)
    }

    /// The percentage of all bytes at these locations.
    fn percent(&self, is_there: impl Fn(usize) -> bool) -> u8 {
        let all: u128 = self.bytes.iter().map(|&bytes| u128::from(bytes)).sum();
        let there = self.bytes.iter().enumerate().filter(|&(at, _)| is_there(at));
        let here: u128 = there.map(|(_, &bytes)| u128::from(bytes)).sum();
        (here * 100).checked_div(all).unwrap_or(0) as u8
    }

    fn most(&self) -> Option<LocationId> {
        let mut most: Option<LocationId> = None;
        for at in self.in_order(self.bytes.len()) {
            if self.bytes[at.index()] > most.map_or(0, |most| self.bytes[most.index()]) {
                most = Some(at);
            }
        }
        most
    }
}

/// The result of dealing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DealResult {
    /// The queue of the location; `None` if the spawner's own queue is right.
    pub queue: Option<QueueId>,
    /// The number of accesses with places looked up: these cost dealing its time. Accesses refused by the strategy for
    /// their layout are not looked up.
    pub looked_up: usize,
    /// How many further stretches these accesses have: each was looked up as well, beside the one before.
    pub stretches: usize,
    /// Why it goes there, or why the spawner's own queue is right; `None` if the plan does not deal it.
    pub why: Option<DealReason>,
    /// The percentage of the bytes at the chosen destination, or at the one that would have been chosen if the task
    /// were no part of its spawner's work; 0 if the bytes did not decide.
    pub share: u8,
}

impl DealResult {
    /// The spawner's own queue, without a look.
    pub const NONE: DealResult = DealResult { queue: None, looked_up: 0, stretches: 0, why: None, share: 0 };
}

impl Dealing {
    /// Deals every task, to these queues. `costs`: of a byte, between any two locations. `of_seats`: the location of
    /// the seats that serve a queue.
    pub(crate) fn over(
        locations: Vec<Vec<LocationId>>,
        queues: Vec<QueueId>,
        costs: &[Vec<u32>],
        of_seats: impl Fn(QueueId) -> LocationId,
    ) -> Dealing {
        let costs = queues.iter().map(|&queue| costs[of_seats(queue).index()].clone()).collect();
        Dealing {
            more_bytes_than: 0,
            only_uneven: false,
            fan: None,
            spread_within: None,
            stretches_at_most: None,
            holds: vec![true; queues.len()],
            intensity_first: false,
            only_coarse: false,
            locations,
            queues,
            costs,
        }
    }

    /// The location of bytes with this home number on a node. Locations on one node's memory, such as several
    /// last-level caches, have the numbers in turn. Bytes keep their number, so they are always dealt to the same
    /// location.
    pub fn location(&self, node: NodeId, home: usize) -> LocationId {
        let locations = &self.locations[node.index()];
        locations[home % locations.len()]
    }

    /// Home numbers this far apart are equivalent on all nodes.
    pub fn cycle(&self) -> usize {
        self.locations.iter().map(Vec::len).fold(1, |cycle, count| cycle / gcd(cycle, count) * count)
    }

    /// The queue for a task with this footprint: at the home of the first intensely used datum, if the plan asks for
    /// that, or else at the location with the least cost of its bytes. Among equals the first one wins, counted from
    /// the location of the task's first byte; a seat also chooses among locations of about the same cost
    /// ([`Dealing::spread_within`]).
    ///
    /// The cost is time for each access, and for each pair of a location and a location with bytes.
    ///
    /// ```
    /// use std::ops::Range;
    /// use vicus_schedule::{Access, Mode, Setting, Shares, Whereabouts};
    /// use vicus_topology::{NodeId, Topology};
    ///
    /// /// Megabytes are on the nodes in turn; allocations of two of them each, as if by `coarse`, have homes in turn.
    /// struct Megabytes;
    ///
    /// impl Whereabouts for Megabytes {
    ///     fn is_in_one_place(&self, _: &Range<usize>) -> bool {
    ///         true
    ///     }
    ///
    ///     fn tell(&mut self, at: Range<usize>, _: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
    ///         let number = at.start >> 20;
    ///         tell(NodeId::new(number % 2), number / 2, at.len() as u64);
    ///     }
    /// }
    ///
    /// let machine = Topology::parse("node:2 l3:2 core:2").unwrap();
    /// let plan = "vicinity".parse::<Setting>().unwrap().plan(&machine, 8);
    /// let dealing = plan.dealing().unwrap();
    /// let mut shares = Shares::default();
    /// let mut deal = |number: usize| {
    ///     let access = Access::new(number << 20, 1 << 20, Mode::Read);
    ///     dealing.deal(&[access], &mut shares, &mut Megabytes).queue
    /// };
    /// // The caches of two nodes: each has two.
    /// let caches = [0, 2, 1, 3, 0].map(|cache| Some(dealing.queues[cache]));
    /// assert_eq!([0, 1, 2, 3, 4].map(&mut deal), caches);
    /// assert_eq!(deal(2), caches[2], "the same datum goes to the same cache");
    /// ```
    pub fn deal(&self, accesses: &[Access], shares: &mut Shares, data: &mut impl Whereabouts) -> DealResult {
        let (mut looked_up, mut stretches) = (0, 0);
        // With a single location, all tasks are dealt there, or put there by their spawner.
        if self.queues.len() < 2 {
            return DealResult::NONE;
        }
        let is_asked_for_home = self.intensity_first && accesses.iter().any(|access| access.intense);
        if !is_asked_for_home && self.are_too_few(accesses) {
            return DealResult { why: Some(DealReason::Small), ..DealResult::NONE };
        }
        let cycle = self.cycle();
        let mut add = |access: &Access, shares: &mut Shares| {
            let sure = access.sure();
            // A guessed length counts as a whole where its first bytes lie.
            let whole = || (access.total_bytes() / sure.total_bytes().max(1)).max(1) as u64;
            let times = if access.guessed { whole() } else { 1 };
            let add = |shares: &mut Shares, node, home, bytes: u64| {
                shares.add(self, node, home, bytes.saturating_mul(times));
            };
            if !self.only_coarse && sure.bytes > 0 && sure.rows > 0 {
                let some = self.add_some(&sure, cycle, shares, data);
                if some.is_none() {
                    data.tell_all(&sure, cycle, &mut |node, home, bytes| add(shares, node, home, bytes));
                }
                looked_up += 1;
                stretches += some.unwrap_or(sure.rows) - 1;
                return;
            }
            let mut found: usize = 0;
            for stretch in sure.stretches().filter(|stretch| !stretch.is_empty()) {
                if data.is_in_one_place(&stretch) {
                    found += 1;
                    data.tell(stretch, cycle, &mut |node, home, bytes| add(shares, node, home, bytes));
                }
            }
            looked_up += found.min(1);
            stretches += found.saturating_sub(1);
        };
        if self.intensity_first {
            for access in accesses.iter().filter(|access| access.intense) {
                shares.clear();
                add(access, shares);
                if let Some(home) = shares.most() {
                    let (queue, share) =
                        (Some(self.queues[home.index()]), shares.percent(|other| other == home.index()));
                    return DealResult { queue, looked_up, stretches, why: Some(DealReason::Home), share };
                }
            }
        }
        shares.clear();
        accesses.iter().for_each(|access| add(access, shares));
        DealResult { looked_up, stretches, ..self.deal_shares(shares) }
    }

    /// The percentage of a task's bytes that has to lie at its destination, if the task is taken for a part of its
    /// spawner's work ([`Dealing::fan`]).
    pub(crate) const NEARLY_ALL: u8 = 80;

    /// Whether the tasks spawned by a task with this footprint are taken for parts of its work.
    pub(crate) fn divides(&self, accesses: &[Access]) -> bool {
        self.fan.is_some() && !self.are_too_few(accesses)
    }

    /// Counts a task with this footprint under its spawner. Returns whether it is taken for a part of the spawner's
    /// work.
    pub(crate) fn is_part(&self, accesses: &[Access], spawner: &mut Spawner) -> bool {
        let Some(fan) = self.fan.filter(|_| self.divides(accesses)) else { return false };
        let is_part = spawner.has_data() || spawner.spawned() < u64::from(fan);
        spawner.count_spawn();
        is_part
    }

    /// Counts a task with this footprint sent to this node ([`Dealing::spread_within`]).
    pub(crate) fn count(&self, shares: &mut Shares, node: NodeId, accesses: &[Access]) {
        if self.spread_within.is_none() || self.queues.len() < 2 {
            return;
        }
        shares.dealt.resize(self.queues.len(), 0);
        shares.counted += 1;
        if shares.counted >= 32 * self.queues.len() {
            shares.counted = 0;
            shares.dealt.iter_mut().for_each(|bytes| *bytes /= 2);
        }
        let queue = self.queues[self.location(node, 0).index()];
        let bytes = data_bytes(accesses);
        for (_, dealt) in self.queues.iter().zip(&mut shares.dealt).filter(|(other, _)| **other == queue) {
            *dealt = dealt.saturating_add(bytes);
        }
    }

    /// The decision for a dealt part of its spawner's work.
    pub(crate) fn keep_part(dealt: DealResult) -> DealResult {
        let is_kept = dealt.why == Some(DealReason::Nearest) && dealt.share < Dealing::NEARLY_ALL;
        if is_kept { DealResult { queue: None, why: Some(DealReason::Part), ..dealt } } else { dealt }
    }

    /// Adds some stretches of an access, standing for all, if it has more than the limit. Returns their number.
    fn add_some(
        &self,
        access: &Access,
        cycle: usize,
        shares: &mut Shares,
        data: &mut impl Whereabouts,
    ) -> Option<usize> {
        let most = self.stretches_at_most.filter(|&most| access.rows > most as usize)?.max(1) as usize;
        let (all, each) = (access.rows as u64, most as u64);
        // `number * all / each`, without the overflow of a large product.
        let part_of_all = |number: u64| {
            let rest = number.saturating_mul(all % each) / each;
            number.saturating_mul(all / each).saturating_add(rest)
        };
        for part in 0..each {
            // One stretch of each part, at varying offsets: with a fixed offset, stretches at places in turn would all
            // be met at one place.
            let (begin, end) = (part_of_all(part), part_of_all(part + 1));
            let mixed = (part + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
            let row = (begin + mixed % (end - begin)) as usize;
            let start = access.start.saturating_add(row.saturating_mul(access.stride));
            data.tell(start..start.saturating_add(access.bytes), cycle, &mut |node, home, bytes| {
                shares.add(self, node, home, part_of_all(bytes));
            });
        }
        Some(most)
    }

    /// Panics with the broken fact if a dealt task could be stranded, or would cost something else where it runs.
    pub(super) fn assert_valid(&self, plan: &Plan) {
        let (name, count) = (&plan.strategy, self.queues.len());
        assert_eq!(self.costs.len(), count, "{name}: a cost row for each location");
        assert!(self.costs.iter().all(|row| row.len() == count), "{name}: square costs");
        for locations in &self.locations {
            assert!(!locations.is_empty(), "{name}: what lies on a node lies at a location");
            let are_there = locations.iter().all(|location| location.index() < count);
            assert!(are_there, "{name}: a node's locations are locations");
        }
        for (queue, costs) in self.queues.iter().zip(&self.costs) {
            let first = self.queues.iter().position(|other| other == queue).expect("it is one of them");
            assert_eq!(costs, &self.costs[first], "{name}: a task of {queue:?} costs what it costs where it runs");
        }
        for queue in self.queues.iter().map(|queue| &plan.queues[queue.index()]) {
            let is_open = queue.owner.is_none();
            assert!(is_open, "{name}: seats elsewhere deal to {}, whose owner alone may push", queue.name);
            let first = plan.pools[queue.wake[0].index()].seats[0];
            let node = plan.seats[first.index()].node;
            assert_eq!(node, queue.home, "{name}: a deal to {} wakes a worker there first", queue.name);
        }
    }

    /// Its lines in a plan's text.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
        let Dealing {
            more_bytes_than,
            only_uneven,
            fan,
            spread_within,
            stretches_at_most,
            holds,
            intensity_first,
            only_coarse,
            locations,
            queues,
            costs,
        } = self;
        let are_boxes_dealt = plan.boxes.contains(&BoxPlacement::ByHeads);
        let what = if are_boxes_dealt { "tasks" } else { "tasks that are no boxes," };
        let without: Vec<usize> = (0..holds.len()).filter(|&at| !holds[at]).collect();
        let even = match (only_uneven, &without[..]) {
            (false, _) => String::new(),
            (true, []) => " that lie unevenly".to_owned(),
            (true, without) => format!(" that lie unevenly, but for locations {without:?}, which have no memory"),
        };
        let looks = match stretches_at_most {
            None => String::new(),
            Some(most) => format!(", of which at most {most} stretches are looked up for each access"),
        };
        let coarse = if *only_coarse { ", coarse memory only" } else { "" };
        let intense = if *intensity_first { ", an intensely used datum's home first" } else { "" };
        let to = plan.names(queues);
        writeln!(f, "deals {what} of more than {more_bytes_than} bytes{even}{coarse}{intense}{looks}: to {to}")?;
        if let Some(fan) = fan {
            let all = Dealing::NEARLY_ALL;
            writeln!(
                f,
                "  the first {fan} of a spawner, and all of one that has as many bytes itself: only if {all} % of \
                    theirs lie there"
            )?;
        }
        if let Some(percent) = spread_within {
            writeln!(
                f,
                "  of places that cost at most {percent} % more than the cheapest: to the one with the fewest bytes of \
                    the spawner's"
            )?;
        }
        if let Some(Crowd { requests, more_bytes_than: _, queues: _ }) = plan.crowd() {
            writeln!(f, "  from {requests} requests on: to the spawner's node")?;
        }
        for (node, locations) in locations.iter().enumerate() {
            let in_turn = if locations.len() > 1 { ", in turn by home number" } else { "" };
            let locations: Vec<usize> = locations.iter().map(|location| location.index()).collect();
            writeln!(f, "  node{node} is at locations {locations:?}{in_turn}")?;
        }
        for (index, (&queue, costs)) in queues.iter().zip(costs).enumerate() {
            writeln!(f, "  location{index}: {}; a byte costs {costs:?}", plan.name(queue))?;
        }
        Ok(())
    }

    /// Whether a task is not worth dealing wherever its bytes lie: small tasks pay for no look-up.
    #[inline]
    fn are_too_few(&self, accesses: &[Access]) -> bool {
        total_bytes(accesses) <= self.more_bytes_than
    }

    /// Like [`Dealing::deal`], for summed bytes, none of them used intensely.
    pub fn deal_shares(&self, shares: &Shares) -> DealResult {
        if let Some(why) = self.why_not(&shares.bytes) {
            return DealResult { why: Some(why), ..DealResult::NONE };
        }
        // Few locations have any, since a task usually touches few allocations.
        let there: SmallVec<[(usize, u64); 8]> =
            shares.bytes.iter().copied().enumerate().filter(|(_, bytes)| *bytes > 0).collect();
        let costs: SmallVec<[u128; 16]> = self
            .costs
            .iter()
            .map(|costs| there.iter().map(|&(at, bytes)| u128::from(bytes) * u128::from(costs[at])).sum())
            .collect();
        let cost = |at: &LocationId| costs[at.index()];
        let in_order = || shares.in_order(self.queues.len());
        let Some(mut at) = in_order().min_by_key(cost) else { return DealResult::NONE };
        let share = |queue: QueueId| shares.percent(|other| self.queues[other] == queue);
        let is_one_place = share(self.queues[at.index()]) >= Dealing::NEARLY_ALL;
        if let Some(percent) = self.spread_within.filter(|_| shares.spreads && !is_one_place) {
            let most = cost(&at).saturating_mul(100 + u128::from(percent)) / 100;
            let bytes = |at: &LocationId| (shares.dealt.get(at.index()).copied().unwrap_or(0), cost(at));
            at = in_order().filter(|at| cost(at) <= most).min_by_key(bytes).unwrap_or(at);
        }
        // Locations without seats have the queues of others.
        let queue = self.queues[at.index()];
        DealResult { queue: Some(queue), why: Some(DealReason::Nearest), share: share(queue), ..DealResult::NONE }
    }

    /// Why a task with these bytes by location is not worth dealing; `None` if it is.
    fn why_not(&self, bytes: &[u64]) -> Option<DealReason> {
        let counts = |(bytes, holds): &(&u64, &bool)| **holds || **bytes > 0;
        let mut held = bytes.iter().zip(&self.holds).filter(counts).map(|(bytes, _)| bytes);
        let first = held.next();
        let even = held.all(|other| Some(other) == first);
        let is_small = bytes.iter().sum::<u64>() <= self.more_bytes_than;
        if is_small { Some(DealReason::Small) } else { (self.only_uneven && even).then_some(DealReason::Even) }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Setting};
    use vicus_topology::Topology;

    /// A node with cores and without memory has no bytes of anything. Bytes spread evenly over the other nodes were
    /// once called uneven, and dealt to one of them.
    #[test]
    fn bytes_lie_evenly_over_the_nodes_that_have_memory() {
        let mut machine = Topology::parse("node:3 core:2").unwrap();
        let dealt = |machine: &Topology, bytes: [u64; 3]| {
            let dealing = "footprint".parse::<Setting>().unwrap().plan(machine, 6).dealing().unwrap().clone();
            let mut shares = Shares::default();
            for (node, bytes) in bytes.into_iter().enumerate() {
                shares.add(&dealing, NodeId::new(node), 0, bytes);
            }
            dealing
                .deal_shares(&shares)
                .queue
                .map(|queue| dealing.queues.iter().position(|&other| other == queue).unwrap())
        };
        const MUCH: u64 = 1 << 30;
        assert_eq!(dealt(&machine, [MUCH, MUCH, 0]), Some(0));
        machine.nodes[2].bytes = 0;
        assert_eq!(dealt(&machine, [MUCH, MUCH, 0]), None, "it stays with its spawner");
        assert_eq!(dealt(&machine, [MUCH, 2 * MUCH, 0]), Some(1));
        assert_eq!(dealt(&machine, [MUCH, 0, 0]), Some(0));
        // Memory plugged in later counts as well.
        assert_eq!(dealt(&machine, [MUCH, MUCH, 2 * MUCH]), Some(2));
        // If no sizes are known, every node may have memory.
        machine.nodes.iter_mut().for_each(|node| node.bytes = 0);
        assert_eq!(dealt(&machine, [MUCH, MUCH, 0]), Some(0));
        assert_eq!(dealt(&machine, [MUCH, MUCH, MUCH]), None);
    }

    /// A length that was guessed from the step between two names reached over the next parts of the array. Their bytes
    /// outweighed the task's own.
    #[test]
    fn a_guessed_length_lies_where_its_first_bytes_lie() {
        const PART: usize = 2 << 20;
        /// The first part on node 1, all others on node 0.
        struct Parts;
        impl Whereabouts for Parts {
            fn is_in_one_place(&self, _: &Range<usize>) -> bool {
                true
            }
            fn tell(&mut self, at: Range<usize>, _: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
                let first = at.end.min(PART).saturating_sub(at.start);
                tell(NodeId::new(1), 0, first as u64);
                tell(NodeId::new(0), 0, (at.len() - first) as u64);
            }
        }
        let machine = Topology::parse("node:2 core:2").unwrap();
        for strategy in ["footprint:share_bytes=1048576", "vicinity:private_bytes=1", "locality-queues", "vicus"] {
            let plan = strategy.parse::<Setting>().unwrap().plan(&machine, 4);
            let (dealing, mut shares) = (plan.dealing().unwrap(), Shares::default());
            let mut node = |access: Access| {
                let dealt = dealing.deal(&[access], &mut shares, &mut Parts);
                (dealt.queue.map(|queue| plan.queues[queue.index()].home.index()), dealt.share)
            };
            let access = Access::new(0, 4 * PART, Mode::Read);
            assert_eq!(node(access), (Some(0), 75), "{strategy}");
            // The length still says that the task is worth dealing.
            assert_eq!(node(access.guessed()), (Some(1), 100), "{strategy}");
        }
    }

    /// A node without usable cores for the process once took tasks by its own distances. The nearest node ran them, and
    /// from there the rest of their bytes were farther than from another one.
    #[test]
    fn a_task_goes_where_its_bytes_cost_least_among_the_nodes_that_have_seats() {
        let mut machine = Topology::parse("node:3 core:2").unwrap();
        machine.distances = vec![vec![10, 16, 17], vec![16, 10, 30], vec![17, 30, 10]];
        machine.pus.iter_mut().filter(|pu| pu.node.index() == 0).for_each(|pu| pu.usable = false);
        for setting in ["footprint:share_bytes=1", "vicinity:private_bytes=1,coarse=off"] {
            let plan = setting.parse::<Setting>().unwrap().plan(&machine, 4);
            plan.assert_valid();
            let dealing = plan.dealing().unwrap();
            let dealt = |bytes: [u64; 3]| {
                let mut shares = Shares::default();
                for (node, bytes) in bytes.into_iter().enumerate() {
                    shares.add(dealing, NodeId::new(node), 0, bytes);
                }
                plan.queues[dealing.deal_shares(&shares).queue.unwrap().index()].home.index()
            };
            // 5 * 16 + 4 * 30 = 200 at node 1, and 5 * 17 + 4 * 10 = 125 at node 2; it is 118 at node 0, but no task
            // can run there.
            assert_eq!(dealt([5, 0, 4]), 2, "{setting}");
            assert_eq!(dealt([5, 0, 0]), 1, "{setting}");
            assert_eq!(dealt([5, 4, 0]), 1, "{setting}");
        }
    }

    /// A matrix with its rows on eight nodes in turn.
    struct InTurn(usize);

    impl Whereabouts for InTurn {
        fn is_in_one_place(&self, _: &Range<usize>) -> bool {
            false
        }

        fn tell(&mut self, at: Range<usize>, _: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
            tell(NodeId::new((at.start >> 12) % self.0), 0, at.len() as u64);
        }
    }

    /// The number of pages on each node, node by node.
    struct Pages([u64; 4]);

    impl Whereabouts for Pages {
        fn is_in_one_place(&self, _: &Range<usize>) -> bool {
            false
        }

        fn tell(&mut self, _: Range<usize>, _: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
            self.0.iter().enumerate().for_each(|(node, &pages)| tell(NodeId::new(node), 0, pages * 4096));
        }
    }

    /// The first share of the rows lies on node 1, the rest on node 0.
    struct Bands {
        bytes: usize,
        first: f64,
    }

    impl Whereabouts for Bands {
        fn is_in_one_place(&self, _: &Range<usize>) -> bool {
            false
        }

        fn tell(&mut self, at: Range<usize>, _: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
            let is_first = (at.start as f64) < self.bytes as f64 * self.first;
            tell(NodeId::new(usize::from(is_first)), 0, at.len() as u64);
        }
    }

    #[test]
    fn some_stretches_stand_for_all() {
        for nodes in [2, 3, 4, 5, 6, 7, 8, 16] {
            let machine = Topology::parse(&format!("node:{nodes} core:2")).unwrap();
            let dealing = |stretches: u32| {
                let setting = format!("vicus:deal_bytes=1,stretches={stretches}");
                setting.parse::<Setting>().unwrap().plan(&machine, 2 * nodes).dealing().unwrap().clone()
            };
            for rows in [1, 7, 8, 9, 15, 16, 48, 56, 79, 100, 512, 1000] {
                let access = Access::new(0, 4096, crate::Mode::Read).rows(rows, 4096);
                let sum = rows as u64 * 4096;
                let deal = |stretches, data: &mut dyn FnMut(&Dealing, &mut Shares) -> DealResult| {
                    let mut shares = Shares::default();
                    let dealt = data(&dealing(stretches), &mut shares);
                    (dealt, shares.bytes)
                };
                let (all, exact) = deal(0, &mut |dealing, shares| dealing.deal(&[access], shares, &mut InTurn(nodes)));
                assert_eq!((all.looked_up, all.stretches, exact.iter().sum::<u64>()), (1, rows - 1, sum));
                let (some, shares) =
                    deal(8, &mut |dealing, shares| dealing.deal(&[access], shares, &mut InTurn(nodes)));
                assert_eq!((some.looked_up, some.stretches), (1, rows.min(8) - 1));
                assert!(shares.iter().sum::<u64>().abs_diff(sum) <= 8, "{rows} rows, {nodes} nodes: {shares:?}");
                if rows <= 8 {
                    assert_eq!(shares, exact);
                }
                // The stretches looked up do not all lie on one node, as they would at a multiple of the nodes apart.
                assert!(
                    rows == 1 || shares.iter().filter(|&&bytes| bytes > 0).count() > 1,
                    "{rows} rows, {nodes} nodes: {shares:?}"
                );
                // Two bands: the smaller one never decides.
                for (first, expected) in [(0.2, 0), (0.8, 1)] {
                    let (banded, shares) = deal(8, &mut |dealing, shares| {
                        dealing.deal(&[access], shares, &mut Bands { bytes: sum as usize, first })
                    });
                    if rows > 1 {
                        assert_eq!(banded.queue, Some(dealing(8).queues[expected]), "{rows} rows, {first}: {shares:?}");
                    }
                }
            }
        }
        // The product of step and stride was once too large.
        let machine = Topology::parse("node:2 core:2").unwrap();
        let dealing = "vicus:deal_bytes=1".parse::<Setting>().unwrap().plan(&machine, 4).dealing().unwrap().clone();
        let access = Access::new(0, 4096, crate::Mode::Read).rows(100, usize::MAX / 2);
        assert_eq!(dealing.deal(&[access], &mut Shares::default(), &mut InTurn(2)).looked_up, 1);
    }

    #[test]
    fn among_many_requests_large_tasks_stay_on_their_spawners_node() {
        let machine = Topology::parse("node:8 core:2").unwrap();
        let plan = |setting: &str| setting.parse::<Setting>().unwrap().plan(&machine, 16);
        let by_default = plan("vicus:deal_bytes=65536");
        let mut seat = crate::Seat::<u32>::new(&by_default, crate::SeatId::new(6), |_| true);
        let mut deal = |plan: &crate::Plan, bytes: usize, requests: usize| {
            // On node 5, in whole.
            let access = Access::new(5 << 12, bytes, crate::Mode::Read);
            seat.deal(plan, &[access], &mut Spawner::default(), || requests, &mut InTurn(8), None)
        };
        let queue = |node: usize| Some(by_default.dealing().unwrap().queues[node]);
        for requests in 1..=4 {
            let dealt = deal(&by_default, 1 << 20, requests);
            assert_eq!(
                (dealt.queue, dealt.why),
                (queue(5), Some(DealReason::Nearest)),
                "{requests} requests, half as many as nodes"
            );
        }
        let crowd = deal(&by_default, 1 << 20, 5);
        assert_eq!(
            (crowd.queue, crowd.why, crowd.looked_up),
            (queue(3), Some(DealReason::Crowd), 0),
            "seat 6 is on node 3"
        );
        assert_eq!(deal(&by_default, 1 << 10, 5).why, Some(DealReason::Small), "it goes by its kind");
        assert_eq!(deal(&plan("vicus:deal_bytes=65536,crowd=200"), 1 << 20, 16).why, Some(DealReason::Nearest));
        assert_eq!(deal(&plan("vicus:deal_bytes=65536,crowd=200"), 1 << 20, 17).why, Some(DealReason::Crowd));
        assert_eq!(deal(&plan("vicus:deal_bytes=65536,crowd=0"), 1 << 20, usize::MAX).why, Some(DealReason::Nearest));
    }

    #[test]
    fn what_divides_its_spawners_work_is_dealt_only_if_nearly_all_of_it_lies_in_one_place() {
        let machine = Topology::parse("node:4 core:2").unwrap();
        let plan = |setting: &str| setting.parse::<Setting>().unwrap().plan(&machine, 8);
        let deal = |plan: &crate::Plan, first: f64, spawned: u32, has_data: bool| {
            let mut seat = crate::Seat::<u32>::new(plan, crate::SeatId::new(6), |_| true);
            let bytes = 1 << 20;
            let access = Access::new(0, 4096, crate::Mode::Read).rows(bytes / 4096, 4096);
            let mut spawner = Spawner::new(has_data);
            (0..spawned).for_each(|_| spawner.count_spawn());
            let dealt = seat.deal(plan, &[access], &mut spawner, || 1, &mut Bands { bytes, first }, None);
            let has_fan = plan.dealing().unwrap().fan.is_some();
            let counted = u64::from(spawned) + u64::from(has_fan);
            assert_eq!((spawner.spawned(), spawner.has_data()), (counted, has_data));
            // A task too small to be dealt is not counted.
            let small = Access::new(0, 64, crate::Mode::Read);
            seat.deal(plan, &[small], &mut spawner, || 1, &mut InTurn(4), None);
            assert_eq!(spawner.spawned(), counted);
            assert_eq!((plan.divides(&[access]), plan.divides(&[small])), (has_fan, false));
            (dealt.why, dealt.queue.map(|queue| plan.queues[queue.index()].home.index()))
        };
        let by_default = plan("vicus:deal_bytes=65536,stretches=0");
        for (first, near) in [(0.9, Some(1)), (0.8, Some(1)), (0.7, None), (0.3, None), (0.1, Some(0))] {
            let part = near.map_or((Some(DealReason::Part), None), |node| (Some(DealReason::Nearest), Some(node)));
            let far = (Some(DealReason::Nearest), Some(usize::from(first > 0.5)));
            for (spawned, has_data, expected) in [(0, false, part), (7, false, part), (8, false, far), (8, true, part)]
            {
                assert_eq!(deal(&by_default, first, spawned, has_data), expected, "{first}, {spawned}, {has_data}");
            }
            assert_eq!(deal(&plan("vicus:deal_bytes=65536,stretches=0,fan=0"), first, 0, true), far);
            assert_eq!(deal(&plan("footprint:share_bytes=65536"), first, 0, true).1, far.1, "the paper's deal all");
        }
        // Node 2 has no cores, so node 1, the nearest to it, has its queue: bytes on both are at one place.
        let mut machine = Topology::parse("node:3 core:2").unwrap();
        machine.distances = vec![vec![10, 20, 30], vec![20, 10, 16], vec![30, 16, 10]];
        machine.pus.iter_mut().filter(|pu| pu.node.index() == 2).for_each(|pu| pu.usable = false);
        let plan = "vicus".parse::<Setting>().unwrap().plan(&machine, 4);
        let dealing = plan.dealing().unwrap();
        let mut shares = Shares::default();
        for (node, bytes) in [1u64, 4, 5].into_iter().enumerate() {
            shares.add(dealing, NodeId::new(node), 0, bytes << 20);
        }
        assert_eq!(dealing.deal_shares(&shares).share, 90);
    }

    #[test]
    fn among_nodes_that_cost_about_the_same_the_one_with_the_fewest_bytes_gets_a_task() {
        // Nodes 0 and 1 are near each other, as 2 and 3 are.
        let mut machine = Topology::parse("node:4 core:2").unwrap();
        machine.distances =
            vec![vec![10, 12, 30, 30], vec![12, 10, 30, 30], vec![30, 30, 10, 12], vec![30, 30, 12, 10]];
        let dealt = |setting: &str, tasks: &[[u64; 4]], seat: usize| {
            let plan = setting.parse::<Setting>().unwrap().plan(&machine, 8);
            let mut seat = crate::Seat::<u32>::new(&plan, crate::SeatId::new(seat), |_| true);
            let mut spawner = Spawner::default();
            let mut node = |bytes: &[u64; 4]| {
                let access = Access::new(0, bytes.iter().sum::<u64>() as usize * 4096, crate::Mode::Read);
                let dealt = seat.deal(&plan, &[access], &mut spawner, || 1, &mut Pages(*bytes), None);
                dealt.queue.map(|queue| plan.queues[queue.index()].home.index())
            };
            tasks.iter().map(&mut node).collect::<Vec<_>>()
        };
        let nodes = |nodes: [usize; 6]| nodes.map(Some).to_vec();
        // Half on node 0, half on node 2: a byte costs 20 there on average, and 21 on the others.
        let halves = [[50, 0, 50, 0]; 6];
        assert_eq!(dealt("vicus:fan=0,spread=0", &halves, 0), nodes([0, 2, 0, 2, 0, 2]), "the cheapest in turn");
        assert_eq!(dealt("vicus:fan=0,spread=5", &halves, 0), nodes([0, 2, 1, 3, 0, 2]), "21 is 5 percent more");
        assert_eq!(dealt("vicus:fan=0,spread=4", &halves, 0), nodes([0, 2, 0, 2, 0, 2]));
        assert_eq!(
            dealt("footprint:share_bytes=1", &halves, 0),
            nodes([0, 2, 0, 2, 0, 2]),
            "as the authors' runtime does"
        );
        assert_eq!(dealt("footprint:share_bytes=1,ties=first", &halves, 0), nodes([0; 6]));
        // By bytes: larger tasks count more.
        let unequal = [[40, 0, 40, 0], [10, 0, 10, 0], [10, 0, 10, 0], [10, 0, 10, 0], [50, 0, 0, 0], [10, 0, 10, 0]];
        assert_eq!(dealt("vicus:fan=0,spread=0", &unequal, 0), nodes([0, 2, 2, 2, 0, 2]));
        // Parts of the spawner's work stay on its node, node 2, and count there.
        let parts = dealt("vicus:fan=4,spread=0", &halves, 4);
        assert_eq!(parts, [None, None, None, None, Some(0), Some(0)]);
        // Old bytes count less: with the 128th task all bytes are halved, so node 2 has more than node 0 after 164.
        let mut long = vec![[100, 0, 0, 0]; 100];
        long.extend([[0, 0, 100, 0]; 64]);
        long.extend([[50, 0, 50, 0]; 2]);
        assert_eq!(dealt("vicus:fan=0,spread=0", &long, 0)[164..], [Some(0), Some(2)]);
    }
}
