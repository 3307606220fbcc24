//! Placed containers under random use, checked against a shadow map, and by several threads at once.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use vicus_memory::distribution::Distribution;
use vicus_memory::{
    DistPool, FakePages, Frees, Memory, MemoryOptions, Placed, PoolHandle, PoolItem, PoolOptions, Region, Series,
};
use vicus_topology::{NodeId, Topology};

const NODES: usize = 3;

fn memory() -> (Arc<Memory>, Arc<FakePages>) {
    let machine = Topology::parse(&format!("node:{NODES} core:1")).unwrap();
    let pages = Arc::new(FakePages::new(NODES));
    let series = Series { first: 8 << 10, ratio: 1.5, limit: 64 << 10 };
    let options = MemoryOptions {
        superblock_bytes: 1 << 20,
        range_bytes: 32 << 20,
        placed_bytes: 32 << 20,
        mapped_waiting_bytes: 1 << 18,
        series,
        ..MemoryOptions::default()
    };
    (Memory::new(pages.clone(), &machine, options).unwrap(), pages)
}

/// A pool's item that knows its content, and counts its drop.
struct Marked<'a> {
    mark: u64,
    copies: [u64; 4],
    gone: &'a AtomicUsize,
}

impl<'a> Marked<'a> {
    fn new(mark: u64, gone: &'a AtomicUsize) -> Marked<'a> {
        Marked { mark, copies: [mark; 4], gone }
    }

    fn check(&self) {
        assert_eq!(self.copies, [self.mark; 4], "an item was written to by another owner");
    }
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        self.gone.fetch_add(1, Ordering::Relaxed);
    }
}

fn place(item: &PoolItem<'_, Marked<'_>>) -> usize {
    std::ptr::from_ref(&**item).addr()
}

/// Its blocks come from no heap.
#[test]
fn a_pools_items_count_as_in_use_for_as_long_as_it_lives() {
    let (memory, _) = memory();
    let pool = DistPool::<u64>::new(&memory, PoolOptions::default()).unwrap();
    let item = pool.handle(NodeId::new(0)).alloc(7).unwrap();
    let start = std::ptr::from_ref(&*item).addr();
    assert_eq!(memory.freed_in(start..start + 8), None);
    drop(item);
    assert_eq!(memory.freed_in(start..start + 8), None);
    drop(pool);
    assert_eq!(memory.freed_in(start..start + 8), cfg!(debug_assertions).then_some(start));
}

fn pool_soak(options: PoolOptions, steps: u64) {
    let what = format!("{options:?}");
    let (memory, pages) = memory();
    let gone = AtomicUsize::new(0);
    let mut made = 0;
    {
        let pool: DistPool<Marked<'_>> = DistPool::new(&memory, options).unwrap();
        let mut chance = Pcg64::seed_from_u64(options.seed);
        let mut seats: Vec<PoolHandle<'_, _>> = (0..5).map(|seat| pool.handle(NodeId::new(seat % NODES))).collect();
        // By their addresses.
        let mut live: BTreeMap<usize, PoolItem<'_, Marked<'_>>> = BTreeMap::new();
        for step in 0..steps {
            let random = chance.next_u32() as usize;
            let seat = random % seats.len();
            // Up to a number of items, then down again.
            let most = if step / 1000 % 2 == 0 { 3000 } else { 300 };
            if (random >> 8) % (2 * most) > live.len() {
                let item = seats[seat].alloc(Marked::new(step, &gone)).unwrap();
                made += 1;
                let at = place(&item);
                assert!(at.is_multiple_of(options.align));
                let before = live.range(..at).next_back().map_or(0, |(before, _)| before + pool.stride());
                let behind = live.range(at..).next().map_or(usize::MAX, |(behind, _)| *behind);
                assert!(before <= at && at + pool.stride() <= behind, "overlap at step {step}: {what}");
                assert_eq!(memory.node_of(std::ptr::from_ref(&*item).cast()), Some(pool.node_of(&item)));
                live.insert(at, item);
            } else if let Some((_, item)) =
                live.range((random >> 4)..).next().map(|(at, _)| *at).and_then(|at| live.remove_entry(&at))
            {
                item.check();
                match random >> 28 {
                    0 => drop(item),
                    _ => seats[seat].free(item),
                }
            } else if let Some((_, item)) = live.pop_first() {
                item.check();
                seats[seat].free(item);
            }
            if step % 1777 == 0 {
                seats[seat].release();
                seats[seat] = pool.handle(NodeId::new(random % NODES));
            }
        }
        assert_eq!(gone.load(Ordering::Relaxed), made - live.len(), "{what}");
        live.values().for_each(|item| item.check());
    }
    assert_eq!(gone.load(Ordering::Relaxed), made, "{what}: every value is dropped once");
    for node in (0..NODES).map(NodeId::new) {
        assert_eq!(memory.counts(node).mapped, 0, "{what}: blocks are given back");
    }
    drop(memory);
    assert_eq!(pages.reserved(), 0);
}

#[test]
fn a_pool_hands_out_each_item_once_and_loses_none() {
    let steps = if cfg!(miri) { 400 } else { 60_000 };
    let usual = PoolOptions { block_bytes: 1 << 16, ..PoolOptions::default() };
    for (seed, magazine) in [(1, 0), (2, 1), (3, 7), (4, 64)] {
        for frees in [Frees::Here, Frees::Home] {
            pool_soak(PoolOptions { seed, magazine, frees, align: 8 << (seed % 3), ..usual }, steps);
        }
    }
}

/// Threads that hand items to each other, with magazines so small that every item goes through the stacks.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test is a world of its own: it may start threads")]
fn threads_free_each_others_items() {
    let steps = if cfg!(miri) { 60 } else { 60_000 };
    for (magazine, frees) in [(0, Frees::Here), (0, Frees::Home), (2, Frees::Here), (4, Frees::Home)] {
        let (memory, _) = memory();
        let (gone, made) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let options = PoolOptions { block_bytes: 1 << 16, magazine, frees, ..PoolOptions::default() };
        let pool: DistPool<Marked<'_>> = DistPool::new(&memory, options).unwrap();
        let passed: Mutex<Vec<PoolItem<'_, Marked<'_>>>> = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (pool, passed, gone, made) = (&pool, &passed, &gone, &made);
                scope.spawn(move || {
                    let mut chance = Pcg64::seed_from_u64(thread);
                    let mut seat = pool.handle(NodeId::new(thread as usize % NODES));
                    let mut own = Vec::new();
                    for step in 0..steps {
                        let random = chance.next_u32();
                        own.push(seat.alloc(Marked::new(thread << 60 | step, gone)).unwrap());
                        made.fetch_add(1, Ordering::Relaxed);
                        if random % 8 == 0 {
                            let mut passed = passed.lock().unwrap();
                            std::mem::swap(&mut *passed, &mut own);
                        }
                        while own.len() > (random >> 8) as usize % 40 {
                            let item = own.swap_remove((random >> 16) as usize % own.len());
                            item.check();
                            seat.free(item);
                        }
                    }
                    own.iter().for_each(|item| item.check());
                });
            }
        });
        passed.lock().unwrap().drain(..).for_each(|item| item.check());
        let counts = (gone.load(Ordering::Relaxed), made.load(Ordering::Relaxed));
        assert_eq!(counts.0, counts.1, "magazines of {magazine}, {frees:?}");
    }
}

/// Ranges come and go while other threads look addresses up: an answer is right for some range, present or past.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test is a world of its own: it may start threads")]
fn an_address_is_looked_up_while_ranges_come_and_go() {
    let (memory, pages) = memory();
    let steps = if cfg!(miri) { 10 } else { 3000 };
    let done = AtomicBool::new(false);
    let texts = ["standard", "fine", "on:2", "blocked", "weighted:0,1,1", "replicated"];
    let place = |random: usize| -> Placed {
        let layout = Layout::from_size_align(1 + (random >> 8) % 60_000, 8).unwrap();
        memory.place(layout, Some(&texts[random % 6].parse::<Distribution>().unwrap())).unwrap()
    };
    // This range stays, and so must the answers about it.
    let steady = memory.place(Layout::new::<[u8; 50_000]>(), Some(&Distribution::Blocked)).unwrap();
    let expected: Vec<Option<NodeId>> = steady.bytes().iter().map(|byte| memory.node_of(byte)).collect();
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (memory, place, done) = (&memory, &place, &done);
            scope.spawn(move || {
                let mut chance = Pcg64::seed_from_u64(thread);
                let mut live: Vec<Placed> = Vec::new();
                for step in 0..steps {
                    let random = chance.next_u32() as usize;
                    live.push(place(random));
                    if live.len() > 5 {
                        live.swap_remove(random % 6);
                    }
                    let mine = &live[random % live.len()];
                    let footprint = memory.footprint(mine.bytes());
                    assert_eq!(footprint.nodes.iter().sum::<usize>() + footprint.unknown, mine.len(), "step {step}");
                    let last = mine.len() - 1;
                    assert_eq!(memory.node_of(&mine.bytes()[last]), mine.node_of(&mine.bytes()[last]));
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        let mut at = 0;
        while !done.load(Ordering::Relaxed) {
            assert_eq!(memory.node_of(&steady.bytes()[at]), expected[at]);
            // Anywhere behind it: every answer is allowed, but asking must be safe.
            let near = steady.start().as_ptr().wrapping_add(at * 97);
            assert!(memory.node_of(near).is_none_or(|node| node.index() < NODES));
            at = (at + 1237) % steady.len();
        }
    });
    drop(steady);
    drop(memory);
    assert_eq!(pages.reserved(), 0);
}
