//! The bandwidths of caches and memory, read by one core and by all, and how long a core waits for a cache line.

use super::{Effort, PAGE, quartiles};
use std::alloc::Layout;
use std::hint::black_box;
use std::ops::Range;
use std::sync::{Barrier, Mutex};
use std::time::Instant;
use vicus::Runtime;
use vicus::memory::{Distribution, Placed};
use vicus_topology::{NodeId, Topology};

/// The results. Bandwidths are in bytes per second.
pub(super) struct Streams {
    pub(super) clock_ghz: f64,
    /// The lowest level first.
    pub(super) caches: Vec<Cache>,
    pub(super) memory: PlacedMemory,
    /// The share of computing that overlaps with the arrival of bytes.
    pub(super) overlap: f64,
}

pub(super) struct Cache {
    pub(super) level: u8,
    /// The most bytes that stay in this cache when they are read repeatedly.
    pub(super) bytes: u64,
    pub(super) latency_ns: f64,
    pub(super) bandwidth: f64,
    pub(super) shared_bandwidth: Option<f64>,
}

pub(super) struct PlacedMemory {
    pub(super) latency_ns: f64,
    /// The latency by the distance in the topology's matrix.
    pub(super) by_distance: Vec<(u32, f64)>,
    pub(super) core_bandwidth: f64,
    pub(super) stream_bandwidth: f64,
    pub(super) controller_bandwidth: f64,
    /// The time of a page's first write.
    pub(super) fault_ns: f64,
    /// Between two nodes; `None` if there is one node.
    pub(super) link_bandwidth: Option<f64>,
}

/// Measuring threads, each on a PU of its own.
struct Bench<'t> {
    topology: &'t Topology,
    effort: Effort,
    runtime: Runtime,
}

impl Streams {
    pub(super) fn measure(topology: &Topology, effort: Effort) -> Streams {
        let bench = Bench { topology, effort, runtime: super::tasks::runtime("las", topology.default_threads()) };
        let clock_ghz = clock_ghz(effort);
        let sets = bench.sets();
        let large = *sets.last().expect("memory is the last level");
        let speeds: Vec<f64> = sets.iter().map(|&set| bench.alone(|| bench.reads::<SEVERAL>(set))).collect();
        let levels = bench.levels();
        let caches = levels.iter().enumerate().map(|(at, &(level, nominal, _))| Cache {
            level,
            bytes: bench.kept(sets[at]..nominal as usize, speeds[at], speeds[at + 1]),
            latency_ns: bench.alone(|| bench.waits(sets[at], None)),
            bandwidth: speeds[at],
            shared_bandwidth: bench.shared(at, sets[at]),
        });
        let caches = caches.collect();
        let core_bandwidth = *speeds.last().expect("memory is the last level");
        let first = bench.node_of(0);
        let node = bench.threads_of(first);
        Streams {
            clock_ghz,
            caches,
            memory: PlacedMemory {
                latency_ns: bench.alone(|| bench.waits(large, None)),
                by_distance: bench.latencies(large),
                core_bandwidth,
                stream_bandwidth: bench.alone(|| bench.reads::<1>(large)),
                controller_bandwidth: bench.together(&node, large / node.len(), None, Sweep::Update),
                fault_ns: bench.alone(|| bench.faults(large.min(64 << 20))),
                link_bandwidth: bench.link(&node, large / node.len()),
            },
            overlap: bench.alone(|| bench.overlap(sets[0], large)),
        }
    }
}

/// Cycles per nanosecond, measured with dependent operations of one cycle each.
fn clock_ghz(effort: Effort) -> f64 {
    const OPERATIONS: u64 = 2_000_000;
    let (a, b) = (black_box(0x9E37_79B9_7F4A_7C15_u64), black_box(0x5851_F42D_4C95_7F2D));
    let mut x = black_box(1_u64);
    let ns = effort.nanoseconds(1, || {
        for _ in 0..OPERATIONS / 8 {
            x = (x ^ a).wrapping_add(b);
            x = (x ^ b).wrapping_add(a);
            x = (x ^ a).wrapping_add(b);
            x = (x ^ b).wrapping_add(a);
        }
        black_box(x);
    });
    OPERATIONS as f64 / ns
}

/// Reads all bytes as fast as possible: in one stream, or in several, each over a part of its own.
///
/// By index, without iterators: a build in several units that are not optimised together calls their functions for each
/// word, and reads at a thirtieth of the speed.
fn read<const STREAMS: usize>(bytes: &[u8]) -> u64 {
    let (lines, _) = bytes.as_chunks::<64>();
    let part = lines.len() / STREAMS;
    let parts: [&[[u8; 64]]; STREAMS] = std::array::from_fn(|stream| &lines[stream * part..(stream + 1) * part]);
    let mut sums = [0_u64; 8];
    for at in 0..part {
        for part in parts {
            let (words, _) = part[at].as_chunks::<8>();
            for word in 0..8 {
                sums[word] = sums[word].wrapping_add(u64::from_ne_bytes(words[word]));
            }
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

/// Reads and writes all bytes, in several streams.
fn update(bytes: &mut [u8]) {
    let part = bytes.len() / SEVERAL / 64 * 64;
    for at in (0..part).step_by(64) {
        for stream in 0..SEVERAL {
            let line = &mut bytes[stream * part + at..][..64];
            line.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        }
    }
}

/// Computes with each number for about half as long as memory needs to deliver it.
fn compute(numbers: &mut [f32], others: &[f32]) {
    for (x, other) in numbers.iter_mut().zip(others) {
        for _ in 0..4 {
            *x = *x * 0.999 + other;
        }
    }
}

/// Prefetching stops at the end of a page, so several streams are faster than one. More than these are not faster.
const SEVERAL: usize = 4;

#[derive(Clone, Copy)]
enum Sweep {
    Read,
    Update,
}

impl Bench<'_> {
    /// The cache levels of the first thread's PU: level, size, and the number of PUs sharing it.
    fn levels(&self) -> Vec<(u8, u64, usize)> {
        let pu = self.runtime.plan().seats[0].pu;
        let mut own: Vec<_> = self.topology.caches.iter().filter(|cache| cache.pus.contains(&pu)).collect();
        own.sort_by_key(|cache| cache.level);
        own.iter().map(|cache| (cache.level, cache.bytes, cache.pus.len())).collect()
    }

    /// For each cache level, and for memory, a number of bytes that surely come from there: halfway between the
    /// capacity of the level below and its own.
    fn sets(&self) -> Vec<usize> {
        let mut below = 0.0;
        let mut sets = Vec::new();
        for (_, bytes, _) in self.levels() {
            let bytes = bytes as f64;
            let set = if below > 0.0 { (below * bytes).sqrt() } else { bytes / 2.0 };
            sets.push(set as usize & !4095);
            below = bytes;
        }
        // More than all last-level caches of the first node.
        let node = self.node_of(0);
        let last = self.levels().last().map(|&(level, ..)| level);
        let on_node = |cache: &&vicus_topology::Cache| {
            Some(cache.level) == last && self.topology.pus[cache.pus[0].index()].node == node
        };
        let caches: u64 = self.topology.caches.iter().filter(on_node).map(|cache| cache.bytes).sum();
        sets.push((2 * caches as usize).max(256 << 20).min(self.effort.most_bytes));
        sets.into_iter().map(|set| set.clamp(4096, self.effort.most_bytes)).collect()
    }

    /// Allocated and written memory, on this node or near the caller.
    fn memory(&self, bytes: usize, node: Option<NodeId>) -> Placed {
        let on = |node| Distribution::On(self.runtime.memory().expect("there are addresses").location_near(node));
        let chosen = node.map_or(Distribution::Standard, on);
        let layout = Layout::from_size_align(bytes, PAGE).expect("a size that fits");
        let mut placed = self.runtime.alloc(layout, chosen).expect("there is room to measure");
        update(placed.bytes_mut());
        placed
    }

    /// The result of `measure` on the first thread.
    fn alone(&self, measure: impl Fn() -> f64 + Sync) -> f64 {
        let found = Mutex::new(0.0);
        self.runtime.on_each_thread(|thread, _| {
            if thread == 0 {
                *found.lock().expect("nothing panics under this lock") = measure();
            }
        });
        found.into_inner().expect("nothing panicked")
    }

    /// The time of the first write to a page, in nanoseconds.
    fn faults(&self, bytes: usize) -> f64 {
        let layout = Layout::from_size_align(bytes, PAGE).expect("a size that fits");
        let once = || {
            let mut placed = self.runtime.alloc(layout, Distribution::Standard).expect("there is room to measure");
            let began = Instant::now();
            placed.bytes_mut().iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
            began.elapsed().as_nanos() as f64 / (bytes / PAGE) as f64
        };
        quartiles(&self.effort.samples(once)).0
    }

    fn reads<const STREAMS: usize>(&self, bytes: usize) -> f64 {
        let memory = self.memory(bytes, None);
        self.effort.bytes_per_second(bytes, || _ = black_box(read::<STREAMS>(black_box(memory.bytes()))))
    }

    /// How long a core waits for a line from a set of this many bytes.
    fn waits(&self, bytes: usize, node: Option<NodeId>) -> f64 {
        // A part of a large set, because waiting for its every line would take seconds.
        let bytes = bytes.min(1 << 30);
        let mut memory = self.memory(bytes, node);
        let lines = bytes / 64;
        // A single cycle through all lines in an unpredictable order: Sattolo's algorithm.
        let mut order: Vec<u32> = (0..lines as u32).collect();
        let mut chance = 0x2545_F491_4F6C_DD1D_u64;
        for at in (1..lines).rev() {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            order.swap(at, (chance % at as u64) as usize);
        }
        for (line, next) in memory.bytes_mut().chunks_exact_mut(64).zip(order) {
            line[..4].copy_from_slice(&next.to_ne_bytes());
        }
        let bytes = memory.bytes();
        let mut at = 0;
        let steps = lines.min(1_000_000);
        self.effort.nanoseconds(1, || {
            for _ in 0..steps {
                let line = bytes[at * 64..].first_chunk().expect("a line");
                at = u32::from_ne_bytes(*line) as usize;
            }
            black_box(at);
        }) / steps as f64
    }

    /// The largest set still read at nearer to this level's speed than to the next one's.
    fn kept(&self, from: Range<usize>, here: f64, next: f64) -> u64 {
        let Range { start: mut fits, end: nominal } = from;
        if here < 1.1 * next || fits >= nominal {
            return nominal.max(fits) as u64;
        }
        let border = (here * next).sqrt();
        let mut too_large = nominal;
        if nominal > self.effort.most_bytes || self.alone(|| self.reads::<SEVERAL>(nominal)) >= border {
            return nominal as u64;
        }
        while too_large as f64 > 1.08 * fits as f64 {
            let middle = ((fits as f64 * too_large as f64).sqrt() as usize & !4095).max(4096);
            if self.alone(|| self.reads::<SEVERAL>(middle)) >= border {
                fits = middle;
            } else {
                too_large = middle;
            }
        }
        fits as u64
    }

    /// The bandwidth of all threads of the first one's cache reading from it.
    fn shared(&self, level: usize, set: usize) -> Option<f64> {
        let (level, _, pus) = self.levels()[level];
        let first = self.runtime.plan().seats[0].pu;
        let cache = self.topology.caches.iter().find(|cache| cache.level == level && cache.pus.contains(&first))?;
        let threads: Vec<usize> = self.threads(|seat| cache.pus.contains(&seat.pu));
        let cores = self.topology.pus[first.index()].core;
        let is_one_core = cache.pus.iter().all(|pu| self.topology.pus[pu.index()].core == cores);
        (pus > 1 && threads.len() > 1 && !is_one_core)
            .then(|| self.together(&threads, (set / threads.len()).max(4096), None, Sweep::Read))
    }

    fn threads(&self, which: impl Fn(&vicus_schedule::SeatPlan) -> bool) -> Vec<usize> {
        let plan = self.runtime.plan();
        (0..plan.threads()).filter(|&thread| which(&plan.seats[thread])).collect()
    }

    fn node_of(&self, thread: usize) -> NodeId {
        self.runtime.plan().seats[thread].node
    }

    fn threads_of(&self, node: NodeId) -> Vec<usize> {
        self.threads(|seat| seat.node == node)
    }

    /// The bytes per second moved by these threads together, each through memory of its own.
    fn together(&self, threads: &[usize], bytes: usize, node: Option<NodeId>, sweep: Sweep) -> f64 {
        let (barrier, sums) = (Barrier::new(threads.len()), Mutex::new(vec![0.0; self.effort.samples]));
        let once = Effort { samples: 1, ..self.effort };
        self.runtime.on_each_thread(|thread, _| {
            if !threads.contains(&thread) {
                return;
            }
            let mut memory = self.memory(bytes, node);
            for sample in 0..self.effort.samples {
                barrier.wait();
                let per_second = match sweep {
                    Sweep::Read => {
                        once.bytes_per_second(bytes, || _ = black_box(read::<SEVERAL>(black_box(memory.bytes()))))
                    }
                    Sweep::Update => once.bytes_per_second(2 * bytes, || update(black_box(memory.bytes_mut()))),
                };
                sums.lock().expect("nothing panics under this lock")[sample] += per_second;
            }
        });
        quartiles(&sums.into_inner().expect("nothing panicked")).1
    }

    /// From the first thread's node to others, by the distance in the matrix.
    fn latencies(&self, bytes: usize) -> Vec<(u32, f64)> {
        let from = self.node_of(0);
        let mut found: Vec<(u32, f64)> = Vec::new();
        for (a, b) in self.pairs() {
            let value = self.topology.numa_value(a, b);
            if found.iter().any(|&(other, _)| other == value) {
                continue;
            }
            // If no node has this distance from the first thread's node, its latency to the other pair's node is the
            // best approximation.
            let to =
                self.topology.nodes.iter().find(|to| to.id != from && self.topology.numa_value(from, to.id) == value);
            let node = to.map_or(b, |to| to.id);
            found.push((value, self.alone(|| self.waits(bytes, Some(node)))));
        }
        found.sort_by_key(|&(value, _)| value);
        found
    }

    /// Pairs of different nodes with memory.
    fn pairs(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        let nodes = self.topology.nodes.iter().filter(|node| self.topology.has_memory(node.id)).map(|node| node.id);
        nodes.clone().flat_map(move |a| nodes.clone().filter(move |&b| b != a).map(move |b| (a, b)))
    }

    /// The bandwidth of all threads of a node reading from the nearest other node.
    fn link(&self, threads: &[usize], bytes: usize) -> Option<f64> {
        let from = self.node_of(0);
        let mut others: Vec<NodeId> = self.pairs().filter(|&(a, _)| a == from).map(|(_, b)| b).collect();
        others.sort_by_key(|&to| self.topology.numa_value(from, to));
        others.first().map(|&to| self.together(threads, bytes, Some(to), Sweep::Read))
    }

    /// The share of computing that overlaps with the arrival of bytes, from how much longer a sweep takes than its
    /// bytes alone.
    fn overlap(&self, small: usize, large: usize) -> f64 {
        let once = Effort { samples: 1, ..self.effort };
        let memory = self.memory(large, None);
        // Arrays at the same offset within a page conflict in the cache.
        const APART: usize = 272;
        let numbers = |bytes: usize| vec![1.0_f32; bytes / 4 + APART];
        let (mut near, mut far) = (numbers(small), numbers(large));
        // Times per byte, of all three sweeps in turn; the bytes alone arrive as in the simulator.
        let share = || {
            let moving =
                1.0 / once.bytes_per_second(large, || _ = black_box(read::<SEVERAL>(black_box(memory.bytes()))));
            let ns = |all: &mut Vec<f32>, bytes| {
                let (numbers, others) = all.split_at_mut(bytes / 8 + APART);
                1.0 / once.bytes_per_second(bytes, || compute(black_box(&mut numbers[..bytes / 8]), black_box(others)))
            };
            let (computing, both) = (ns(&mut near, small), ns(&mut far, large));
            1.0 - (both - moving) / computing
        };
        self.effort.median(share).clamp(0.05, 1.0)
    }
}
