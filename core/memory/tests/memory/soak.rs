//! Random requests over several heaps, checked against a shadow map: overlap, alignment, content, place, leaks.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use vicus_memory::{FakePages, Foreign, Heap, Memory, MemoryOptions, Region, Series};
use vicus_topology::{NodeId, Topology};

fn memory(foreign: Foreign) -> Arc<Memory> {
    let machine = Topology::parse("node:2 core:1").unwrap();
    let series = Series { first: 8 << 10, ratio: 1.4, limit: 128 << 10 };
    let options = MemoryOptions {
        superblock_bytes: 1 << 20,
        range_bytes: 96 << 20,
        series,
        foreign,
        heaps: 6,
        batch_blocks: 5,
        superblocks_waiting: 2,
        mapped_waiting_bytes: 1 << 20,
        decay_ticks: 3,
        ..MemoryOptions::default()
    };
    Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap()
}

/// A block in use: its layout, and its written content.
#[derive(Clone, Copy, Debug)]
struct Live {
    block: NonNull<u8>,
    layout: Layout,
    mark: u64,
}

#[expect(unsafe_code, reason = "a block goes from thread to thread")]
// SAFETY: the value owns the block.
unsafe impl Send for Live {}

#[expect(unsafe_code, reason = "writes and reads blocks in use")]
impl Live {
    /// Words at the beginning, the end and in between are written: a mark and their place.
    fn words(self) -> impl Iterator<Item = (NonNull<u64>, u64)> {
        let count = self.layout.size() / 8;
        let places = (0..count).step_by(1 + count / 9).chain(count.checked_sub(1));
        // SAFETY: within the block.
        places.map(move |at| (unsafe { self.block.cast::<u64>().add(at) }, self.mark ^ at as u64))
    }

    fn write(self) {
        // SAFETY: the block is in use.
        self.words().for_each(|(word, value)| unsafe { word.write_unaligned(value) });
    }

    fn check(self) {
        for (word, value) in self.words() {
            // SAFETY: the block is in use, and was written.
            assert_eq!(unsafe { word.read_unaligned() }, value, "{self:?} was written to by another owner");
        }
    }
}

/// Mostly small multiples of the classes' sizes, some mapped, some with large alignments.
fn layout(chance: &mut Pcg64) -> Layout {
    let magnitude = 3 + chance.next_u32() % if cfg!(miri) { 12 } else { 16 };
    let size = (1 << magnitude) + chance.next_u32() as usize % (1 << magnitude);
    let align = match chance.next_u32() % 8 {
        0 => 1 << (chance.next_u32() % 15),
        _ => 8,
    };
    Layout::from_size_align(size, align).unwrap()
}

#[derive(Default)]
struct Shadow {
    live: BTreeMap<usize, Live>,
    marks: u64,
}

impl Shadow {
    fn add(&mut self, block: NonNull<u8>, layout: Layout) {
        self.marks = self.marks.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let live = Live { block, layout, mark: self.marks };
        let begin = block.addr().get();
        assert_eq!(begin % layout.align(), 0, "{live:?} is not aligned");
        let before = self.live.range(..begin).next_back();
        assert!(before.is_none_or(|(&at, other)| at + other.layout.size() <= begin), "{live:?} overlaps {before:?}");
        let after = self.live.range(begin..).next();
        assert!(after.is_none_or(|(&at, _)| begin + layout.size() <= at), "{live:?} overlaps {after:?}");
        live.write();
        self.live.insert(begin, live);
    }

    fn take(&mut self, chance: &mut Pcg64) -> Option<Live> {
        let at = *self.live.keys().nth(chance.next_u32() as usize % self.live.len().max(1))?;
        let live = self.live.remove(&at)?;
        live.check();
        Some(live)
    }
}

fn assert_nothing_is_left(memory: &Memory, what: &str) {
    for node in [0, 1].map(NodeId::new) {
        let counts = memory.counts(node);
        assert_eq!((counts.held, counts.mapped, counts.orphans), (0, 0, 0), "{what}: leaks on {node}: {counts:?}");
    }
}

#[expect(unsafe_code, reason = "frees blocks")]
fn soak(foreign: Foreign, seed: u64, steps: u64) {
    let memory = memory(foreign);
    let mut chance = Pcg64::seed_from_u64(seed);
    let heap = |at: usize| Heap::new(&memory, NodeId::new(at % 2)).unwrap();
    let mut heaps: Vec<Heap> = (0..4).map(heap).collect();
    let mut shadow = Shadow::default();
    for step in 0..steps {
        let at = chance.next_u32() as usize % heaps.len();
        match chance.next_u32() % 100 {
            // In waves, so superblocks empty and fill.
            0..40 if step / 1000 % 2 == 0 || shadow.live.len() < 50 => {
                let layout = layout(&mut chance);
                let block = match chance.next_u32() % 4 {
                    0 => heaps[at].alloc_zeroed(layout).unwrap(),
                    _ => heaps[at].alloc(layout).unwrap(),
                };
                assert_eq!(memory.node_of(block.as_ptr()), Some(heaps[at].node()), "step {step}, seed {seed}");
                shadow.add(block, layout);
            }
            0..80 => {
                if let Some(live) = shadow.take(&mut chance) {
                    // SAFETY: taken from the shadow, so in use, and freed once.
                    unsafe {
                        match chance.next_u32() % 10 {
                            0 => memory.free(live.block),
                            1 => heaps[at].free_any(live.block),
                            _ => heaps[at].free(live.block, live.layout),
                        }
                    }
                }
            }
            80..88 => {
                if let Some(live) = shadow.take(&mut chance) {
                    let size = layout(&mut chance).size();
                    // SAFETY: as above; the result replaces it.
                    let block = unsafe { heaps[at].realloc(live.block, live.layout, size) }.unwrap();
                    let kept = live.layout.size().min(size) / 8;
                    let words = live.words().map(|(_, value)| value ^ live.mark).filter(|&place| place < kept as u64);
                    for place in words {
                        // SAFETY: within the new block.
                        let word = unsafe { block.cast::<u64>().add(place as usize).read_unaligned() };
                        assert_eq!(word, live.mark ^ place, "step {step}, seed {seed}: a copy has what it had");
                    }
                    shadow.add(block, Layout::from_size_align(size, live.layout.align()).unwrap());
                }
            }
            88..96 => heaps[at].finish_task(),
            96 => heaps[at].trim(),
            97 => memory.tick(step / 50),
            98 => drop(heaps.swap_remove(at)),
            _ => {}
        }
        while heaps.len() < 4 {
            heaps.push(heap(chance.next_u32() as usize));
        }
    }
    // Half before the heaps end, half after.
    for round in 0..2 {
        for _ in 0..shadow.live.len() / (2 - round) {
            let live = shadow.take(&mut chance).unwrap();
            match heaps.first_mut() {
                // SAFETY: taken from the shadow, so in use, and freed once.
                Some(heap) => unsafe { heap.free(live.block, live.layout) },
                // SAFETY: as above.
                None => unsafe { memory.free(live.block) },
            }
        }
        heaps.clear();
    }
    assert!(shadow.live.is_empty());
    assert_nothing_is_left(&memory, &format!("{foreign:?}, seed {seed}"));
}

#[test]
fn random_requests_agree_with_a_shadow_map() {
    let (seeds, steps) = if cfg!(miri) { (1, 300) } else { (3, 20_000) };
    for seed in 0..seeds {
        soak(Foreign::Mailboxes, seed, steps);
        soak(Foreign::Bins, seed + 100, steps);
    }
}

/// Threads that allocate, hand blocks to each other, free the received ones, and end in any order.
#[expect(unsafe_code, reason = "frees blocks")]
#[expect(clippy::disallowed_methods, reason = "a test is a world of its own: it may start threads")]
fn threads(foreign: Foreign, steps: u64) {
    let memory = memory(foreign);
    let passed: Mutex<Vec<Live>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (memory, passed) = (&memory, &passed);
            scope.spawn(move || {
                let mut chance = Pcg64::seed_from_u64(thread);
                let mut heap = Heap::new(memory, NodeId::new(thread as usize % 2)).unwrap();
                for step in 0..steps * (thread + 1) {
                    let layout = layout(&mut chance);
                    let live = Live { block: heap.alloc(layout).unwrap(), layout, mark: thread << 60 | step };
                    live.write();
                    let other = {
                        let mut passed = passed.lock().unwrap();
                        passed.push(live);
                        let at = chance.next_u32() as usize % passed.len();
                        (passed.len() > 20).then(|| passed.swap_remove(at))
                    };
                    if let Some(other) = other {
                        other.check();
                        // SAFETY: taken out of the map, and freed once.
                        unsafe { heap.free(other.block, other.layout) };
                    }
                    match step % 64 {
                        7 | 39 => heap.finish_task(),
                        63 => {
                            // Its blocks are still in use.
                            drop(heap);
                            heap = Heap::new(memory, NodeId::new((step / 64) as usize % 2)).unwrap();
                        }
                        _ => {}
                    }
                }
            });
        }
    });
    for live in passed.into_inner().unwrap() {
        live.check();
        // SAFETY: blocks left in the map are still in use.
        unsafe { memory.free(live.block) };
    }
    assert_nothing_is_left(&memory, &format!("{foreign:?}"));
}

#[test]
fn threads_free_each_others_blocks_and_end_in_any_order() {
    let steps = if cfg!(miri) { 50 } else { 4000 };
    threads(Foreign::Mailboxes, steps);
    threads(Foreign::Bins, steps);
}
