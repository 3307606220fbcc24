//! The last uses of data: a hint at the caches that have them.
//!
//! A task large enough to be dealt marks its data when it begins: with its pool, and with the bytes used by that pool's
//! tasks so far. A later task with the same data finds the mark. If the pool has used no more bytes since then than its
//! caches hold, the marked task's included, the data are taken to be there still; data of another node, if it has used
//! an eighth less. A task is dealt when it is spawned: a task behind others finds the marks present at that time.
//!
//! On a machine with several nodes, a mark counts while its datum stays on the node it had when a task with it was last
//! dealt. Another node means other pages: the memory was freed and got again, or its pages were moved, and no cache has
//! these.
//!
//! The cache line in its middle identifies an access. So a task that reads a block with the rows around it knows the
//! block by another task's writes. Marks lie in a table of fixed size, and a new mark takes the place of an old one
//! with the same index: forgetting costs speed alone. A mark is one word, and no other memory is read because of it, so
//! it is read and written without an order ([`Relaxed`](Ordering::Relaxed)).

use super::{DealResult, Whereabouts};
use crate::access::data_bytes;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::valid::serves;
use crate::{Access, Plan, PoolId, QueueId};
use smallvec::SmallVec;
use std::fmt;
use vicus_topology::{DealReason, NodeId};

/// The number of a task's accesses that are marked and looked up: the largest ones.
const ACCESSES: usize = 4;

/// The table has no more marks than this: half a megabyte, and half as much for nodes.
const MOST_MARKS: usize = 1 << 16;

/// Nor has it fewer: of 32 data, hardly two have the same index.
const LEAST_MARKS: usize = 1 << 10;

/// The eighths of a pool's caches that are taken to hold data of another node. All eight would keep a sweep that just
/// fits the caches far from its pages, where a line lost to code, stacks or a conflict costs most. Simulated stencils
/// take 0.91 to 1.02 times as long as with eight; with four, up to 1.96 times.
const FAR_EIGHTHS: u64 = 7;

/// Bits of a mark: the key's upper half, the pool, and the pool's clock.
const POOL_BITS: u32 = 12;
const CLOCK_BITS: u32 = 36;
const CLOCK_MASK: u64 = (1 << CLOCK_BITS) - 1;

/// Bits of a word of a node: the key's upper half, and the node, counted from 1.
const NODE_BITS: u32 = 16;

/// Tasks with data in the caches of a pool go there ([`LastUses`]): the next sweep over an array, the
/// next product into a block.
///
/// This is only for tasks that are large enough to be dealt and are no parts of their spawners' work
/// ([`Dealing::fan`](crate::Dealing::fan)).
#[derive(Clone, Debug, PartialEq)]
pub struct Warm {
    /// By pool, its queue for such tasks.
    pub queues: Vec<QueueId>,
    /// By pool, how many bytes its last-level caches hold.
    pub cache_bytes: Vec<u64>,
    /// The tasks with more bytes than this may be dealt.
    pub more_bytes_than: u64,
    /// At least this part of a task's bytes has to be there, in percent.
    pub percent: u8,
    /// By pool, its node.
    pub on: Vec<NodeId>,
    /// By node, the node of the seats nearest to its memory. Data moved to another node are in no cache.
    pub nearest: Vec<NodeId>,
}

/// The last uses of data. One for each runtime, for a plan with [`Plan::warm`].
#[derive(Debug)]
pub struct LastUses {
    /// Marks; 0 is none. Invariant: their number is a power of two.
    marks: Box<[AtomicU64]>,
    /// By the index of a datum's mark, its node when a task with it was last dealt; 0 is none. Empty on a machine with
    /// one node.
    nodes: Box<[AtomicU32]>,
    /// By pool, how many KiB its tasks have used.
    clocks: Box<[Clock]>,
}

/// On lines of its own: all seats of a pool change it, and no others.
#[derive(Debug)]
#[repr(align(128))]
struct Clock(AtomicU64);

/// The data of a task, as they are marked when it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// The keys of the largest accesses; the others are 0.
    keys: [u32; ACCESSES],
    kib: u32,
}

impl Uses {
    /// Nothing is marked.
    pub const NONE: Uses = Uses { keys: [0; ACCESSES], kib: 0 };

    /// The uses of these accesses.
    fn of(accesses: &[Access]) -> Uses {
        let mut keys = [0; ACCESSES];
        keys.iter_mut().zip(largest(accesses)).for_each(|(to, access)| *to = key(access));
        Uses { keys, kib: u32::try_from(data_bytes(accesses) >> 10).unwrap_or(u32::MAX).max(1) }
    }

    /// Whether nothing is marked.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.kib == 0
    }
}

/// The largest accesses with data, the first of equals first.
fn largest(accesses: &[Access]) -> SmallVec<[&Access; ACCESSES]> {
    let mut largest: SmallVec<[&Access; ACCESSES]> = SmallVec::new();
    for access in accesses.iter().filter(|access| access.has_data()) {
        let at = largest.partition_point(|other| other.total_bytes() >= access.total_bytes());
        if at < ACCESSES {
            largest.truncate(ACCESSES - 1);
            largest.insert(at, access);
        }
    }
    largest
}

/// The address in the middle of an access.
fn middle(access: &Access) -> usize {
    let row = (access.rows / 2).wrapping_mul(access.stride);
    access.start.wrapping_add(row).wrapping_add(access.bytes / 2)
}

/// The number of the line in the middle of an access, mixed. 0 stands for none.
fn key(access: &Access) -> u32 {
    let line = middle(access) as u64 >> 6;
    ((line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32).max(1)
}

impl Warm {
    /// The queue of the pool whose caches are taken to have enough of a task's data; `None` if there is none, or the
    /// task is too small or a part of its spawner's work. Notes where the data lie, also those of such a part, which
    /// are marked when it begins, and forgets where they were used if they lay elsewhere before.
    pub(crate) fn deal(
        &self,
        accesses: &[Access],
        is_part: bool,
        uses: &LastUses,
        data: &mut impl Whereabouts,
    ) -> Option<DealResult> {
        let bytes = data_bytes(accesses);
        if bytes <= self.more_bytes_than {
            return None;
        }
        let largest = largest(accesses);
        uses.drop_moved(&largest, data);
        let found = if is_part { None } else { uses.find_among(self, &largest, bytes) };
        let (pool, share) = found.filter(|&(_, share)| share >= self.percent)?;
        let queue = Some(self.queues[pool.index()]);
        Some(DealResult { queue, looked_up: 1, why: Some(DealReason::Warm), share, ..DealResult::NONE })
    }

    /// Panics unless each pool has a queue there, and takes from it.
    pub(super) fn assert_valid(&self, plan: &Plan) {
        let (name, pools) = (&plan.strategy, plan.pools.len());
        let are_by_pool = self.queues.len() == pools && self.cache_bytes.len() == pools;
        assert!(
            are_by_pool && plan.dealing().is_some(),
            "{name}: tasks go by pool to what is warm, and are dealt otherwise"
        );
        for (pool, &queue) in plan.pools.iter().zip(&self.queues) {
            let spec = &plan.queues[queue.index()];
            let node = plan.seats[pool.seats[0].index()].node;
            assert_eq!(spec.home, node, "{name}: {} is on its pool's node", spec.name);
            let is_open = spec.owner.is_none() && spec.capacity.is_none();
            let is_served = pool.seats.iter().all(|seat| serves(&plan.seats[seat.index()], queue));
            assert!(is_open && is_served, "{name}: any seat pushes to {}, and its pool takes from it", spec.name);
        }
    }

    /// Its lines in a plan's text.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
        let Warm { queues, cache_bytes, more_bytes_than, percent, on: _, nearest: _ } = self;
        writeln!(
            f,
            "tasks of more than {more_bytes_than} bytes, {percent} % of which a pool has used last and may have in its \
                caches:"
        )?;
        for (pool, (&queue, bytes)) in queues.iter().zip(cache_bytes).enumerate() {
            writeln!(f, "  pool{pool}, with {bytes} bytes: to {}", plan.name(queue))?;
        }
        Ok(())
    }
}

impl LastUses {
    /// A table without marks. Its size: two accesses for each of the tasks whose data the caches can hold.
    pub fn new(warm: &Warm) -> LastUses {
        let cached = warm.cache_bytes.iter().copied().fold(0, u64::saturating_add);
        let marks = (2 * (cached / warm.more_bytes_than.max(1)).min(MOST_MARKS as u64)) as usize;
        LastUses::with_marks(
            marks.next_power_of_two().clamp(LEAST_MARKS, MOST_MARKS),
            warm.queues.len(),
            warm.nearest.len(),
        )
    }

    fn with_marks(marks: usize, pools: usize, nodes: usize) -> LastUses {
        assert!(pools <= 1 << POOL_BITS, "a plan has at most {} pools", 1 << POOL_BITS);
        let words = if nodes > 1 { marks } else { 0 };
        LastUses {
            marks: (0..marks).map(|_| AtomicU64::new(0)).collect(),
            nodes: (0..words).map(|_| AtomicU32::new(0)).collect(),
            // From 1 on: no mark is 0.
            clocks: (0..pools).map(|_| Clock(AtomicU64::new(1))).collect(),
        }
    }

    /// The marks of a task with this footprint, for its beginning; none if it is too small.
    #[inline]
    pub fn uses(&self, warm: &Warm, accesses: &[Access]) -> Uses {
        if data_bytes(accesses) <= warm.more_bytes_than { Uses::NONE } else { Uses::of(accesses) }
    }

    /// A task with these uses begins on a seat of this pool.
    #[inline]
    pub fn begin(&self, pool: PoolId, uses: &Uses) {
        if !uses.is_none() {
            self.mark(pool, uses);
        }
    }

    fn mark(&self, pool: PoolId, uses: &Uses) {
        let kib = u64::from(uses.kib);
        // Without its own bytes: a task that uses more than the caches hold leaves nothing there for the next one.
        let clock = self.clocks[pool.index()].0.fetch_add(kib, Ordering::Relaxed);
        for &key in uses.keys.iter().filter(|&&key| key != 0) {
            let mark = tag(key) | (pool.index() as u64) << CLOCK_BITS | clock & CLOCK_MASK;
            self.marks[self.index(key)].store(mark, Ordering::Relaxed);
        }
    }

    /// Notes the places of a task's data as it is dealt, and drops the marks of data on another node before.
    fn drop_moved(&self, largest: &[&Access], data: &mut impl Whereabouts) {
        if self.nodes.is_empty() {
            return;
        }
        for access in largest {
            let Some(node) = data.node_of(middle(access)) else { continue };
            let key = key(access);
            let word = &self.nodes[self.index(key)];
            let now = key >> NODE_BITS << NODE_BITS | (node.index() as u32 + 1) & ((1 << NODE_BITS) - 1);
            let before = word.load(Ordering::Relaxed);
            if before == now {
                continue;
            }
            word.store(now, Ordering::Relaxed);
            // The word may be another datum's with the same index. Then this datum may have moved, too: where programs
            // free large memory and get it again, stale marks held tasks away from their pages for ever.
            let mark = &self.marks[self.index(key)];
            if before != 0 && is_of(mark.load(Ordering::Relaxed), key) {
                mark.store(0, Ordering::Relaxed);
            }
        }
    }

    /// The pool whose caches are taken to have most of these largest accesses' bytes, and their percentage of all.
    fn find_among(&self, warm: &Warm, largest: &[&Access], all: u64) -> Option<(PoolId, u8)> {
        // By pool; few accesses have few pools.
        let mut found = [(0, 0u64); ACCESSES];
        let mut pools = 0;
        for access in largest {
            let key = key(access);
            let mark = self.marks[self.index(key)].load(Ordering::Relaxed);
            let pool = (mark >> CLOCK_BITS) as usize & ((1 << POOL_BITS) - 1);
            if !is_of(mark, key) {
                continue;
            }
            let since = self.clocks[pool].0.load(Ordering::Relaxed).wrapping_sub(mark) & CLOCK_MASK;
            let eighths = if self.lies_far(warm, pool, key) { FAR_EIGHTHS } else { 8 };
            if since > (warm.cache_bytes[pool] >> 10) * eighths / 8 {
                continue;
            }
            let at = found[..pools].iter().position(|&(other, _)| other == pool).unwrap_or_else(|| {
                pools += 1;
                pools - 1
            });
            found[at] = (pool, found[at].1.saturating_add(access.total_bytes() as u64));
        }
        // The first of equals.
        let (pool, there) = found[..pools].iter().copied().rev().max_by_key(|&(_, bytes)| bytes)?;
        let percent = u128::from(there) * 100 / u128::from(all.max(1));
        Some((PoolId::new(pool), percent as u8))
    }

    /// Whether a datum with this key is known to lie on a node far from this pool.
    fn lies_far(&self, warm: &Warm, pool: usize, key: u32) -> bool {
        let Some(word) = self.nodes.get(self.index(key)).map(|word| word.load(Ordering::Relaxed)) else { return false };
        let node = word & ((1 << NODE_BITS) - 1);
        let is_its = node != 0 && word >> NODE_BITS == key >> NODE_BITS;
        // A plan for a described machine may know fewer nodes than the system.
        let nearest = warm.nearest.get((node as usize).wrapping_sub(1)).filter(|_| is_its);
        nearest.is_some_and(|&nearest| nearest != warm.on[pool])
    }

    fn index(&self, key: u32) -> usize {
        key as usize & (self.marks.len() - 1)
    }
}

/// Whether a mark is one of a datum with this key.
fn is_of(mark: u64, key: u32) -> bool {
    mark != 0 && mark >> (POOL_BITS + CLOCK_BITS) << (POOL_BITS + CLOCK_BITS) == tag(key)
}

/// A key's part of a mark.
fn tag(key: u32) -> u64 {
    u64::from(key >> 16) << (POOL_BITS + CLOCK_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Seat, SeatId, Setting, Spawner, Whereabouts};
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::{BTreeMap, BTreeSet};
    use std::ops::Range;
    use vicus_topology::Topology;

    fn warm(pools: usize, kib: u64) -> Warm {
        Warm {
            queues: (0..pools).map(QueueId::new).collect(),
            cache_bytes: vec![kib << 10; pools],
            more_bytes_than: 0,
            percent: 80,
            on: vec![NodeId::new(0); pools],
            nearest: vec![NodeId::new(0); 2],
        }
    }

    impl LastUses {
        fn find(&self, warm: &Warm, accesses: &[Access]) -> Option<(PoolId, u8)> {
            self.find_among(warm, &largest(accesses), data_bytes(accesses))
        }
    }

    fn begin(uses: &LastUses, warm: &Warm, pool: usize, accesses: &[Access]) {
        uses.begin(PoolId::new(pool), &uses.uses(warm, accesses));
    }

    const fn kib(at: usize, kib: usize) -> Access {
        Access::new(at << 10, kib << 10, Mode::ReadWrite)
    }

    #[test]
    fn data_are_where_they_were_used_last_until_that_many_bytes_were_used_there() {
        let warm = warm(3, 100);
        let uses = LastUses::new(&warm);
        let find = |access: Access| uses.find(&warm, &[access]).map(|(pool, share)| (pool.index(), share));
        let datum = kib(1000, 40);
        assert_eq!(find(datum), None);
        begin(&uses, &warm, 2, &[kib(7000, 101)]);
        assert_eq!(find(kib(7000, 101)), None, "it is larger than the caches");
        begin(&uses, &warm, 2, &[datum]);
        assert_eq!(find(datum), Some((2, 100)));
        begin(&uses, &warm, 1, &[datum]);
        assert_eq!(find(datum), Some((1, 100)), "the last one");
        // Other pools' uses do not matter.
        begin(&uses, &warm, 2, &[kib(5000, 4000)]);
        begin(&uses, &warm, 1, &[kib(9000, 60)]);
        assert_eq!(find(datum), Some((1, 100)), "100 KiB from then on");
        begin(&uses, &warm, 1, &[kib(9000, 1)]);
        assert_eq!(find(datum), None, "101 KiB from then on");
        let unknown = Warm { cache_bytes: vec![0; 3], ..warm.clone() };
        begin(&uses, &unknown, 0, &[datum]);
        assert!(uses.find(&unknown, &[datum]).is_none(), "the sizes of caches are not known");
    }

    #[test]
    fn the_pool_with_most_of_the_bytes_is_found() {
        let warm = warm(3, 1000);
        let uses = LastUses::new(&warm);
        let (a, b, c, new) = (kib(1000, 20), kib(2000, 40), kib(3000, 25), kib(4000, 15));
        begin(&uses, &warm, 2, &[a]);
        begin(&uses, &warm, 1, &[b]);
        begin(&uses, &warm, 2, &[c]);
        let find = |accesses: &[Access]| uses.find(&warm, accesses).map(|(pool, share)| (pool.index(), share));
        assert_eq!(find(&[a, b, c, new]), Some((2, 45)));
        assert_eq!(find(&[a, b, new]), Some((1, 53)));
        assert_eq!(find(&[new]), None);
        assert_eq!(find(&[kib(1000, 40), kib(2000, 40)]), Some((1, 50)), "of equals the first; a has another middle");
        assert_eq!(find(&[]), None);
        // A huge one: sums end at the largest number.
        let most = Access::new(4000 << 10, (1 << 40) - 1, Mode::Read);
        assert_eq!(find(&[a, most, most, most]), Some((2, 0)));
    }

    /// OpenMP's `depend` has one byte for each address, and all memory for `omp_all_memory`. These say an order, and
    /// come before the data.
    #[test]
    fn accesses_that_only_say_an_order_are_no_data() {
        let warm = warm(2, 1000);
        let uses = LastUses::new(&warm);
        let order = |at: usize| Access::new(at, 1, Mode::ReadWrite);
        let all = Access::new(0, usize::MAX, Mode::ReadWrite);
        let (a, b) = (kib(1000, 200), kib(2000, 200));
        begin(&uses, &warm, 1, &[order(8), order(16), order(24), order(32), all, a, kib(3000, 0), b]);
        let find = |accesses: &[Access]| uses.find(&warm, accesses).map(|(pool, share)| (pool.index(), share));
        assert_eq!(find(&[a]), Some((1, 100)));
        assert_eq!(find(&[order(8), order(16), all, order(24), order(32), b]), Some((1, 100)));
        assert!(uses.uses(&warm, &[order(8), all]).is_none());
        // Of more than four, the four largest.
        let small = |number: usize| kib(10_000 * number, 1);
        begin(&uses, &warm, 0, &[small(1), small(2), small(3), small(4), a]);
        assert_eq!(find(&[small(1), small(2), small(3), small(4), a]), Some((0, 99)));
        assert_eq!((find(&[small(3)]), find(&[small(4)])), (Some((0, 100)), None));
    }

    /// A stencil reads a block of 64 rows and columns of floats, of a matrix with 1024, with the rows and columns
    /// around it.
    #[test]
    fn a_block_is_known_with_and_without_the_rows_around_it() {
        let stride = 4096;
        for (row, column, rows, columns) in [(64, 64, 64, 64), (1, 1, 63, 63), (960, 1, 63, 63), (512, 960, 64, 63)] {
            let block = Access::new(row * stride + 4 * column, 4 * columns, Mode::Write).rows(rows, stride);
            let around = Access::new((row - 1) * stride + 4 * (column - 1), 4 * (columns + 2), Mode::Read);
            assert_eq!(key(&block), key(&around.rows(rows + 2, stride)), "{row}, {column}");
        }
    }

    /// A step: a pool, and data, each with its size.
    fn steps() -> impl Strategy<Value = Vec<(usize, Vec<(usize, usize)>)>> {
        let data = prop::collection::vec((0..12usize, 1..5usize), 1..7);
        prop::collection::vec((0..6usize, data), 1..200)
    }

    proptest! {
        /// With room for all marks, beside a map of the last uses.
        #[test]
        fn marks_are_those_of_a_map(steps in steps(), limit in 1..300u64) {
            let warm = warm(6, limit);
            let uses = LastUses::with_marks(MOST_MARKS, 6, 1);
            let access = |&(datum, size): &(usize, usize)| kib(datum << 10, 2 * size);
            let sized = (0..12).flat_map(|datum| (1..5).map(move |size| (datum, size)));
            let indices: BTreeSet<usize> =
                sized.map(|datum| uses.index(key(&access(&datum)))).collect();
            prop_assert_eq!(indices.len(), 12 * 4, "no two have the same place");
            let (mut clocks, mut last) = ([0u64; 6], BTreeMap::new());
            for (pool, data) in &steps {
                let accesses: Vec<Access> = data.iter().map(access).collect();
                let mut data = data.clone();
                data.sort_by_key(|datum| Reverse(datum.1));
                let there = |pool: usize| -> u64 {
                    let is_there = |datum: &&(usize, usize)| {
                        last.get(*datum).is_some_and(|&(at, then)| at == pool && clocks[at] - then <= limit)
                    };
                    data.iter().take(ACCESSES).filter(is_there).map(|datum| 2 * datum.1 as u64).sum()
                };
                let all: u64 = data.iter().map(|datum| 2 * datum.1 as u64).sum();
                let most = (0..6).map(there).max().unwrap();
                match uses.find(&warm, &accesses) {
                    None => prop_assert_eq!(most, 0),
                    Some((found, share)) => {
                        prop_assert_eq!(there(found.index()), most);
                        prop_assert!(most > 0);
                        prop_assert_eq!(u64::from(share), most * 100 / all);
                    }
                }
                begin(&uses, &warm, *pool, &accesses);
                data.iter().take(ACCESSES).for_each(|datum| _ = last.insert(*datum, (*pool, clocks[*pool])));
                clocks[*pool] += all;
            }
        }
    }

    /// On an emulated machine, the 16 MiB of a node's sweep just fit its caches of 16 MiB. What was robbed once ran far
    /// from its pages in all later sweeps.
    #[test]
    fn far_caches_are_taken_to_hold_an_eighth_less() {
        let on = |nodes: &[usize]| nodes.iter().copied().map(NodeId::new).collect();
        // Node 2 has memory alone, and node 1 is the nearest.
        let warm = Warm { on: on(&[0, 1]), nearest: on(&[0, 1, 1]), ..warm(2, 800) };
        let datum = kib(1000, 40);
        // And nothing is known of node 3.
        let cases = [(0, 0, 800), (0, 1, 700), (1, 0, 700), (1, 1, 800), (2, 0, 700), (2, 1, 800), (3, 0, 800)];
        for (lies_on, pool, holds) in cases {
            let uses = LastUses::new(&warm);
            let find = || uses.find(&warm, &[datum]).map(|(pool, _)| pool.index());
            assert_eq!(warm.deal(&[datum], true, &uses, &mut OnNode(Some(lies_on))), None, "it is noted");
            begin(&uses, &warm, pool, &[datum]);
            begin(&uses, &warm, pool, &[kib(5000, holds - 40)]);
            assert_eq!(find(), Some(pool), "node {lies_on}, pool {pool}: {holds} KiB");
            begin(&uses, &warm, pool, &[kib(7000, 1)]);
            assert_eq!(find(), None, "node {lies_on}, pool {pool}: more than {holds} KiB");
        }
    }

    /// All on node 0.
    struct OnNodeZero;

    impl Whereabouts for OnNodeZero {
        fn is_in_one_place(&self, _: &Range<usize>) -> bool {
            true
        }

        fn tell(&mut self, at: Range<usize>, _: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
            tell(NodeId::new(0), 0, at.len() as u64);
        }
    }

    /// All data on one node, or on an unknown one.
    struct OnNode(Option<usize>);

    impl Whereabouts for OnNode {
        fn is_in_one_place(&self, _: &Range<usize>) -> bool {
            true
        }

        fn tell(&mut self, at: Range<usize>, _: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
            self.0.iter().for_each(|&node| tell(NodeId::new(node), 0, at.len() as u64));
        }
    }

    /// Memory freed and got again at the same address, or moved by the system.
    #[test]
    fn data_that_lie_on_another_node_now_are_in_no_cache() {
        let machine = Topology::parse("node:2 l3:2 core:2").unwrap();
        let plan = "vicus:deal_bytes=65536".parse::<Setting>().unwrap().plan(&machine, 8);
        let warm = plan.warm().unwrap();
        let uses = LastUses::new(warm);
        let datum = kib(1 << 10, 200);
        let deal = |data: OnNode, access: Access| {
            let (mut seat, mut spawner) = (Seat::<u32>::new(&plan, SeatId::new(0), |_| true), Spawner::default());
            for _ in 0..8 {
                seat.deal(&plan, &[kib(77 << 10, 1000)], &mut spawner, || 1, &mut OnNodeZero, None);
            }
            let dealt = seat.deal(&plan, &[access], &mut spawner, || 1, &mut { data }, Some(&uses));
            (dealt.why, dealt.queue.map(|queue| plan.queues[queue.index()].name.clone()).unwrap_or_default())
        };
        let nearest = |node: usize| (Some(DealReason::Nearest), format!("dealt to node{node}"));
        let in_pool = |pool: usize| (Some(DealReason::Warm), format!("warm in pool{pool}"));
        assert_eq!(deal(OnNode(Some(0)), datum), nearest(0));
        begin(&uses, warm, 3, &[datum]);
        assert_eq!(deal(OnNode(Some(0)), datum), in_pool(3), "another node has taken it");
        assert_eq!(deal(OnNode(Some(1)), datum), nearest(1), "other pages");
        assert_eq!(deal(OnNode(Some(1)), datum), nearest(1), "no task has used them");
        begin(&uses, warm, 2, &[datum]);
        assert_eq!(deal(OnNode(Some(1)), datum), in_pool(2));
        // Pages without memory yet say nothing.
        assert_eq!(deal(OnNode(None), datum), in_pool(2));
        assert_eq!(deal(OnNode(Some(1)), datum), in_pool(2));
        assert_eq!(deal(OnNode(Some(0)), datum), nearest(0));
        // First touched by a task: the datum is on that task's node.
        let new = kib(9 << 10, 200);
        assert_ne!(deal(OnNode(None), new).0, Some(DealReason::Warm));
        begin(&uses, warm, 2, &[new]);
        assert_eq!(deal(OnNode(Some(1)), new), in_pool(2));
    }

    /// A program used two arrays in turn at the same addresses, the second one on other nodes. The places of data of a
    /// spawner's first eight tasks were not noted, so that their marks stayed: 10 of 32 tasks ran far from their pages
    /// in each pass.
    #[test]
    fn a_datum_of_a_part_of_its_spawners_work_is_in_no_cache_when_it_has_moved() {
        let machine = Topology::parse("node:2 l3:2 core:2").unwrap();
        let plan = "vicus:deal_bytes=65536".parse::<Setting>().unwrap().plan(&machine, 8);
        let warm = plan.warm().unwrap();
        let uses = LastUses::new(warm);
        let datum = kib(1 << 10, 200);
        let (mut seat, mut spawner) = (Seat::<u32>::new(&plan, SeatId::new(0), |_| true), Spawner::default());
        let mut why =
            |node: usize| seat.deal(&plan, &[datum], &mut spawner, || 1, &mut OnNode(Some(node)), Some(&uses)).why;
        // The spawner's first one of eight.
        assert_ne!(why(0), Some(DealReason::Warm));
        begin(&uses, warm, 3, &[datum]);
        let others: Vec<_> = (1..8).map(|_| why(1)).collect();
        assert!(!others.contains(&Some(DealReason::Warm)), "{others:?}");
        assert_eq!(why(1), Some(DealReason::Nearest), "other pages, and the ninth one");
    }

    #[test]
    fn a_datum_beside_another_one_with_the_same_index_is_in_no_cache_when_it_has_moved() {
        let machine = Topology::parse("node:2 l3:2 core:2").unwrap();
        let plan = "vicus:deal_bytes=65536".parse::<Setting>().unwrap().plan(&machine, 8);
        let warm = plan.warm().unwrap();
        let uses = LastUses::new(warm);
        let datum = kib(1 << 10, 200);
        let index = |access: &Access| uses.index(key(access));
        let has_its_index = |other: &Access| index(other) == index(&datum) && key(other) >> 16 != key(&datum) >> 16;
        let other = (2..100_000).map(|at| kib(at << 10, 200)).find(has_its_index).unwrap();
        let why = |node: usize, access: Access| warm.deal(&[access], false, &uses, &mut OnNode(Some(node))).map(|_| ());
        // Both are dealt before either of them begins, and the datum begins last.
        assert_eq!((why(0, datum), why(0, other)), (None, None));
        begin(&uses, warm, 3, &[other]);
        begin(&uses, warm, 3, &[datum]);
        assert_eq!(why(1, datum), None, "other pages");
    }

    #[test]
    fn a_large_task_goes_where_its_data_are_warm_unless_it_is_a_part_of_its_spawners_work() {
        let machine = Topology::parse("node:2 l3:2 core:2").unwrap();
        let plan = |setting: &str| setting.parse::<Setting>().unwrap().plan(&machine, 8);
        let deal = |plan: &crate::Plan, uses: Option<&LastUses>, access: Access, spawned: u32, requests: usize| {
            let mut seat = Seat::<u32>::new(plan, SeatId::new(0), |_| true);
            let mut spawner = Spawner::default();
            let any = kib(77 << 10, 1000);
            for _ in 0..spawned {
                seat.deal(plan, &[any], &mut spawner, || 1, &mut OnNodeZero, None);
            }
            let dealt = seat.deal(plan, &[access], &mut spawner, || requests, &mut OnNodeZero, uses);
            (dealt.why, dealt.queue.map(|queue| plan.queues[queue.index()].name.clone()), dealt.share)
        };
        let (large, small) = (kib(1 << 10, 200), kib(2 << 10, 60));
        let by_default = plan("vicus:deal_bytes=65536");
        let warm = by_default.warm().unwrap();
        let uses = LastUses::new(warm);
        begin(&uses, warm, 3, &[large]);
        begin(&uses, warm, 3, &[small]);
        let in_pool3 = (Some(DealReason::Warm), Some("warm in pool3".to_owned()), 100);
        let on_node0 = (Some(DealReason::Nearest), Some("dealt to node0".to_owned()), 100);
        assert_eq!(deal(&by_default, Some(&uses), large, 8, 1), in_pool3);
        assert_eq!(deal(&by_default, Some(&uses), large, 8, 99).0, Some(DealReason::Crowd), "not among many requests");
        assert_eq!(deal(&by_default, Some(&uses), large, 7, 1), on_node0, "a part of its spawner's work");
        assert_eq!(deal(&by_default, Some(&uses), kib(3 << 10, 200), 8, 1), on_node0, "it is new");
        assert_eq!(deal(&by_default, Some(&uses), small, 8, 1).0, Some(DealReason::Small));
        assert_eq!(deal(&by_default, None, large, 8, 1), on_node0);
        // Two thirds of the bytes.
        let setting = |percent: u32| plan(&format!("vicus:deal_bytes=65536,warm={percent}"));
        for (percent, is_warm) in [(66, true), (67, false)] {
            let warm = setting(percent).warm().unwrap().clone();
            let uses = LastUses::new(&warm);
            begin(&uses, &warm, 2, &[kib(5 << 10, 200)]);
            let dealt = warm.deal(&[kib(5 << 10, 200), kib(6 << 10, 100)], false, &uses, &mut OnNode(None));
            assert_eq!(dealt.is_some(), is_warm, "{percent}");
        }
        assert_eq!(setting(0).warm(), None);
        assert_eq!(plan("footprint").warm(), None, "the papers' strategies have no such thing");
        let one = Topology::parse("node:1 l3:1 core:4").unwrap();
        assert_eq!("vicus".parse::<Setting>().unwrap().plan(&one, 4).warm(), None, "one pool has all");
    }
}
