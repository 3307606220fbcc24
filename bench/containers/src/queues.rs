//! Queues: elements go from some producers to as many consumers (Wheeler et al., Figs. 8 and 9).

use crate::measure::{self, allowed, alternate, print_rates, together};
use crate::peers::{self, CppElement, Peer};
use anyhow::ensure;
use crossbeam_queue::{ArrayQueue, SegQueue};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vicus_memory::{DistOptions, DistQueue, LfQueue, Locations, SystemSegments};
use vicus_topology::NodeId;

/// The options of `queues`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Words that go through a queue in one round.
    #[arg(long, default_value_t = 4_000_000)]
    words: u64,
    /// Blocks of 1,024 bytes that go through a queue in one round.
    #[arg(long, default_value_t = 300_000)]
    blocks: u64,
    /// Rounds of each side; the medians count.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Numbers of producers, and of consumers.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    pairs: Vec<usize>,
    /// Only sides whose name contains one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { words: 4_000_000, blocks: 300_000, rounds: 9, pairs: vec![1, 2], only: Vec::new() }
    }
}

/// A queue for the benchmark. Threads are numbered from 0; each either pushes or pops.
trait Queue<T>: Sync {
    fn push(&self, thread: usize, value: T);
    fn pop(&self, thread: usize) -> Option<T>;
}

/// The work of a thread in a round.
trait Transfer: Sync {
    fn produce(&self, thread: usize, count: u64);
    /// Takes this many elements, and sums up their last words.
    fn consume(&self, thread: usize, count: u64) -> u64;
}

/// Makes a fresh queue for each round, for this many threads.
type Fresh = Box<dyn Fn(usize) -> Box<dyn Transfer>>;

type Side = measure::Side<Fresh>;

struct Rust<Q>(Q);

/// Yields after some misses, because other threads may need the CPU.
fn wait(misses: &mut u32) {
    *misses = misses.wrapping_add(1);
    if misses.is_multiple_of(64) { std::thread::yield_now() } else { spin_loop() }
}

/// As in peers/transfer.hpp.
#[inline(always)]
fn produce<const WORDS: usize>(count: u64, mut put: impl FnMut([u64; WORDS])) {
    for number in 1..=count {
        let mut value = [0; WORDS];
        value[0] = number;
        value[WORDS - 1] = number;
        put(value);
    }
}

/// As in peers/transfer.hpp.
#[inline(always)]
fn consume<const WORDS: usize>(mut count: u64, mut take: impl FnMut() -> Option<[u64; WORDS]>) -> u64 {
    let (mut sum, mut misses) = (0u64, 0);
    while count > 0 {
        match take() {
            Some(value) => {
                // Ensures that the whole element is read.
                std::hint::black_box(&value);
                sum = sum.wrapping_add(value[WORDS - 1]);
                count -= 1;
            }
            None => wait(&mut misses),
        }
    }
    sum
}

/// Pushes and pops one element at a time.
struct Single<Q, const WORDS: usize>(Q);

impl<Q: Queue<[u64; WORDS]>, const WORDS: usize> Transfer for Single<Q, WORDS> {
    fn produce(&self, thread: usize, count: u64) {
        produce(count, |value| self.0.push(thread, value));
    }

    fn consume(&self, thread: usize, count: u64) -> u64 {
        consume(count, || self.0.pop(thread))
    }
}

/// Uses handles, which each thread makes for itself.
struct Handles<const WORDS: usize>(Dist<[u64; WORDS]>);

impl<const WORDS: usize> Transfer for Handles<WORDS> {
    fn produce(&self, thread: usize, count: u64) {
        let Dist(queue, of) = &self.0;
        let mut burst = queue.burst(of[thread]);
        produce(count, |value| assert!(burst.push(value).is_ok(), "the queue is open"));
    }

    fn consume(&self, thread: usize, count: u64) -> u64 {
        let Dist(queue, of) = &self.0;
        let mut consumer = queue.consumer(of[thread]);
        consume(count, || consumer.try_pop().ok())
    }
}

impl<T: Send> Queue<T> for Rust<SegQueue<T>> {
    fn push(&self, _: usize, value: T) {
        self.0.push(value);
    }

    fn pop(&self, _: usize) -> Option<T> {
        self.0.pop()
    }
}

/// A bounded queue: if it is full, the producer waits.
impl<T: Send> Queue<T> for Rust<ArrayQueue<T>> {
    fn push(&self, _: usize, mut value: T) {
        let mut misses = 0;
        while let Err(back) = self.0.push(value) {
            value = back;
            wait(&mut misses);
        }
    }

    fn pop(&self, _: usize) -> Option<T> {
        self.0.pop()
    }
}

impl<T: Send> Queue<T> for Rust<Mutex<VecDeque<T>>> {
    fn push(&self, _: usize, value: T) {
        self.0.lock().expect("nothing panics behind it").push_back(value);
    }

    fn pop(&self, _: usize) -> Option<T> {
        self.0.lock().expect("nothing panics behind it").pop_front()
    }
}

impl<T: Send> Queue<T> for Rust<LfQueue<T>> {
    fn push(&self, _: usize, value: T) {
        self.0.push(value);
    }

    fn pop(&self, _: usize) -> Option<T> {
        self.0.pop()
    }
}

/// Our queue, with the place of each thread.
struct Dist<T>(DistQueue<T>, Vec<NodeId>);

impl<T> Dist<T> {
    /// A queue with as many locations as there are different numbers in `of`, all equally far from each other.
    fn new(of: Vec<usize>) -> Dist<T> {
        let count = of.iter().max().map_or(1, |&last| last + 1);
        let row = |from: usize| (0..count).map(|to| if from == to { 10 } else { 20 }).collect();
        let locations = Locations::from_distances((0..count).map(row).collect()).expect("a square of distances");
        let queue = DistQueue::with_source(&locations, &DistOptions::default(), |_| Arc::new(SystemSegments));
        Dist(queue.expect("the system has memory"), of.into_iter().map(NodeId::new).collect())
    }
}

impl<T: Send> Queue<T> for Dist<T> {
    fn push(&self, thread: usize, value: T) {
        assert!(self.0.push(self.1[thread], value).is_ok(), "the queue is open");
    }

    fn pop(&self, thread: usize) -> Option<T> {
        self.0.try_pop(self.1[thread]).ok()
    }
}

/// A queue of a C++ peer.
struct Cpp {
    peer: Peer,
    queue: *mut c_void,
}

#[expect(unsafe_code, reason = "a pointer to a C++ queue goes to other threads")]
// SAFETY: all peers are queues for several producers and several consumers.
unsafe impl Sync for Cpp {}

#[expect(unsafe_code, reason = "calls C++")]
impl Cpp {
    fn new(peer: Peer) -> Cpp {
        // SAFETY: the function has no requirements.
        Cpp { peer, queue: unsafe { (peer.new)() } }
    }
}

#[expect(unsafe_code, reason = "calls C++")]
impl Drop for Cpp {
    fn drop(&mut self) {
        // SAFETY: made by the same peer, and no thread uses it any more.
        unsafe { (self.peer.delete)(self.queue) };
    }
}

#[expect(unsafe_code, reason = "calls C++")]
impl Transfer for Cpp {
    fn produce(&self, _: usize, count: u64) {
        // SAFETY: made by the same peer.
        unsafe { (self.peer.produce)(self.queue, count) };
    }

    fn consume(&self, _: usize, count: u64) -> u64 {
        // SAFETY: made by the same peer.
        unsafe { (self.peer.consume)(self.queue, count) }
    }
}

/// One round with `pairs` producers and as many consumers.
fn round(transfer: &dyn Transfer, pairs: usize, count: u64, cpus: &[usize]) -> anyhow::Result<Duration> {
    let sum = AtomicU64::new(0);
    let each = count / pairs as u64;
    // Producers run on even PUs and consumers on odd ones, as far as possible.
    let time = together(2 * pairs, cpus, |thread| {
        if thread.is_multiple_of(2) {
            transfer.produce(thread, each);
        } else {
            sum.fetch_add(transfer.consume(thread, each), Ordering::Relaxed);
        }
    });
    let expected = pairs as u64 * (each * (each + 1) / 2);
    ensure!(sum.into_inner() == expected, "elements were lost or came twice");
    Ok(time)
}

fn fresh<Q, const WORDS: usize>(new: impl Fn(usize) -> Q + 'static) -> Fresh
where
    Q: Queue<[u64; WORDS]> + 'static,
{
    Box::new(move |threads| Box::new(Single(new(threads))))
}

fn handles<const WORDS: usize>(new: impl Fn(usize) -> Dist<[u64; WORDS]> + 'static) -> Fresh {
    Box::new(move |threads| Box::new(Handles(new(threads))))
}

/// All sides that can run on this machine, for elements of this many words.
fn sides<const WORDS: usize>(skipped: &mut Vec<String>) -> Vec<Side>
where
    [u64; WORDS]: CppElement,
{
    let one = |threads| Dist::new(vec![0; threads]);
    // One producer and one consumer at each location.
    let paired = |threads| Dist::new((0..threads).map(|thread| thread / 2).collect());
    let apart = |threads| Dist::new((0..threads).collect());
    let mut sides = vec![
        Side::ours("DistQueue, one location", fresh::<_, WORDS>(one)),
        Side::ours("DistQueue, one for each pair", fresh::<_, WORDS>(paired)),
        Side::ours("DistQueue, one for each thread", fresh::<_, WORDS>(apart)),
        Side::ours("DistQueue, one location, handles", handles::<WORDS>(one)),
        Side::ours("DistQueue, one a pair, handles", handles::<WORDS>(paired)),
        Side::ours("DistQueue, one a thread, handles", handles::<WORDS>(apart)),
        Side::ours("LfQueue", fresh::<_, WORDS>(|_| Rust(LfQueue::new()))),
        Side::peer("crossbeam SegQueue", fresh::<_, WORDS>(|_| Rust(SegQueue::new()))),
        Side::peer("crossbeam ArrayQueue (1,024)", fresh::<_, WORDS>(|_| Rust(ArrayQueue::new(1024)))),
        Side::peer("Mutex<VecDeque>", fresh::<_, WORDS>(|_| Rust(Mutex::new(VecDeque::new())))),
    ];
    for (name, peer) in peers::all::<WORDS>() {
        match peer {
            Ok(peer) => sides.push(Side::peer(name, Box::new(move |_| Box::new(Cpp::new(peer))))),
            Err(missing) => skipped.push(format!("{name}: needs {missing}")),
        }
    }
    sides
}

fn measure(mut sides: Vec<Side>, what: &str, pairs: usize, count: u64, options: &Options) -> anyhow::Result<()> {
    let cpus = allowed()?;
    sides.retain(|side| options.only.is_empty() || options.only.iter().any(|only| side.name.contains(only.as_str())));
    alternate(&mut sides, options.rounds, count, |fresh| round(&*fresh(2 * pairs), pairs, count, &cpus))?;
    print_rates(&sides, &format!("{what}, {pairs} + {pairs} threads on {} PUs", cpus.len()));
    Ok(())
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ensure!(options.rounds > 0 && !options.pairs.contains(&0), "there is at least one round and one pair");
    let mut skipped = Vec::new();
    for &pairs in &options.pairs {
        measure(sides::<1>(&mut skipped), "words (Fig. 8)", pairs, options.words, options)?;
        measure(sides::<128>(&mut skipped), "1,024 bytes (Fig. 9)", pairs, options.blocks, options)?;
    }
    skipped.sort();
    skipped.dedup();
    skipped.iter().for_each(|peer| println!("\nskipped {peer}"));
    Ok(())
}
