//! Queues: elements go from some producers to as many consumers (Wheeler et al., Figs. 8 and 9).

use crate::peers::{self, CppElement, Peer};
use anyhow::ensure;
use crossbeam_queue::{ArrayQueue, SegQueue};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vicus_memory::{DistOptions, DistQueue, LfQueue, Locations, SystemSegments};

/// What is measured.
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
    /// Only sides whose names have one of these in them.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { words: 4_000_000, blocks: 300_000, rounds: 9, pairs: vec![1, 2], only: Vec::new() }
    }
}

/// A queue as the benchmark uses it. Threads are numbered from 0; a thread puts or takes.
trait Queue<T>: Sync {
    fn push(&self, thread: usize, value: T);
    fn pop(&self, thread: usize) -> Option<T>;
}

/// What a thread does in a round.
trait Transfer: Sync {
    fn produce(&self, thread: usize, count: u64);
    /// Takes so many elements, and adds up what stood in their last words.
    fn consume(&self, thread: usize, count: u64) -> u64;
}

/// One side: makes a fresh queue for each round.
struct Side {
    name: &'static str,
    ours: bool,
    fresh: Box<dyn Fn(usize) -> Box<dyn Transfer>>,
    /// Elements in a second, round by round.
    rates: Vec<f64>,
}

struct Rust<Q>(Q);

/// After some misses, others may need the CPU.
fn wait(misses: &mut u32) {
    *misses = misses.wrapping_add(1);
    if misses.is_multiple_of(64) { std::thread::yield_now() } else { spin_loop() }
}

/// The loops of peers/transfer.hpp.
struct Loops<Q, const WORDS: usize>(Q);

impl<Q: Queue<[u64; WORDS]>, const WORDS: usize> Transfer for Loops<Q, WORDS> {
    fn produce(&self, thread: usize, count: u64) {
        for number in 1..=count {
            let mut value = [0; WORDS];
            value[0] = number;
            value[WORDS - 1] = number;
            self.0.push(thread, value);
        }
    }

    fn consume(&self, thread: usize, mut count: u64) -> u64 {
        let (mut sum, mut misses) = (0u64, 0);
        while count > 0 {
            match self.0.pop(thread) {
                Some(value) => {
                    // All of it was wanted.
                    std::hint::black_box(&value);
                    sum = sum.wrapping_add(value[WORDS - 1]);
                    count -= 1;
                }
                None => wait(&mut misses),
            }
        }
        sum
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

/// Bounded: a full one makes the producer wait.
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

/// Ours, with the location of each thread.
struct Dist<T>(DistQueue<T>, Vec<usize>);

impl<T> Dist<T> {
    /// As many locations as there are different numbers in `of`, all equally far from each other.
    fn new(of: Vec<usize>) -> Dist<T> {
        let count = of.iter().max().map_or(1, |&last| last + 1);
        let row = |from: usize| (0..count).map(|to| if from == to { 10 } else { 20 }).collect();
        let locations = Locations::from_distances((0..count).map(row).collect()).expect("a square of distances");
        let queue = DistQueue::with_source(&locations, &DistOptions::default(), |_| Arc::new(SystemSegments));
        Dist(queue.expect("the system has memory"), of)
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
// SAFETY: all peers are queues for many producers and many consumers.
unsafe impl Sync for Cpp {}

#[expect(unsafe_code, reason = "calls C++")]
impl Cpp {
    fn new(peer: Peer) -> Cpp {
        // SAFETY: nothing is asked of the caller.
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

/// The PUs that this process may use.
pub(crate) fn allowed() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

pub(crate) fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("this PU was allowed when the benchmark began");
}

/// One round: the time from when all threads are ready until the last is done.
fn round(transfer: &dyn Transfer, pairs: usize, count: u64, cpus: &[usize]) -> anyhow::Result<Duration> {
    let (ready, begun) = (AtomicUsize::new(0), Mutex::new(None::<Instant>));
    let sum = AtomicU64::new(0);
    let threads = 2 * pairs;
    let each = count / pairs as u64;
    let latest = std::thread::scope(|scope| {
        let work = |thread: usize| {
            // Producers on the even PUs, consumers on the odd ones, as far as there are as many.
            pin(cpus[thread % cpus.len()]);
            ready.fetch_add(1, Ordering::AcqRel);
            while ready.load(Ordering::Acquire) < threads {
                std::thread::yield_now();
            }
            begun.lock().expect("nothing panics behind it").get_or_insert_with(Instant::now);
            if thread.is_multiple_of(2) {
                transfer.produce(thread, each);
            } else {
                sum.fetch_add(transfer.consume(thread, each), Ordering::Relaxed);
            }
            Instant::now()
        };
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no side panics")).max()
    });
    let expected = pairs as u64 * (each * (each + 1) / 2);
    ensure!(sum.into_inner() == expected, "elements were lost or came twice");
    let begun = begun.into_inner()?.expect("a thread has begun");
    Ok(latest.expect("there are threads") - begun)
}

fn side<Q, const WORDS: usize>(name: &'static str, ours: bool, fresh: impl Fn(usize) -> Q + 'static) -> Side
where
    Q: Queue<[u64; WORDS]> + 'static,
{
    Side { name, ours, fresh: Box::new(move |threads| Box::new(Loops(fresh(threads)))), rates: Vec::new() }
}

/// All sides that this machine can run, for elements of so many words.
fn sides<const WORDS: usize>(skipped: &mut Vec<String>) -> Vec<Side>
where
    [u64; WORDS]: CppElement,
{
    let mut sides = vec![
        side::<_, WORDS>("DistQueue, one location", true, |threads| Dist::new(vec![0; threads])),
        // A producer and a consumer at each.
        side::<_, WORDS>("DistQueue, one for each pair", true, |threads| {
            Dist::new((0..threads).map(|thread| thread / 2).collect())
        }),
        side::<_, WORDS>("DistQueue, one for each thread", true, |threads| Dist::new((0..threads).collect())),
        side::<_, WORDS>("LfQueue", true, |_| Rust(LfQueue::new())),
        side::<_, WORDS>("crossbeam SegQueue", false, |_| Rust(SegQueue::new())),
        side::<_, WORDS>("crossbeam ArrayQueue (1,024)", false, |_| Rust(ArrayQueue::new(1024))),
        side::<_, WORDS>("Mutex<VecDeque>", false, |_| Rust(Mutex::new(VecDeque::new()))),
    ];
    for (name, peer) in peers::all::<WORDS>() {
        match peer {
            Ok(peer) => {
                let fresh = Box::new(move |_| Box::new(Cpp::new(peer)) as Box<dyn Transfer>);
                sides.push(Side { name, ours: false, fresh, rates: Vec::new() });
            }
            Err(missing) => skipped.push(format!("{name}: needs {missing}")),
        }
    }
    sides
}

fn measure(mut sides: Vec<Side>, what: &str, pairs: usize, count: u64, options: &Options) -> anyhow::Result<()> {
    let cpus = allowed()?;
    sides.retain(|side| options.only.is_empty() || options.only.iter().any(|only| side.name.contains(only.as_str())));
    // The first round warms up.
    for at in 0..=options.rounds {
        for side in &mut sides {
            let transfer = (side.fresh)(2 * pairs);
            let time = round(&*transfer, pairs, count, &cpus)?;
            if at > 0 {
                side.rates.push(count as f64 / time.as_secs_f64());
            }
        }
    }
    print_table(&sides, &format!("{what}, {pairs} + {pairs} threads on {} PUs, load {}", cpus.len(), load()));
    Ok(())
}

/// How many others want to run: a ratio holds under load, a time doesn't.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().map_or_else(|| "unknown".to_owned(), str::to_owned)
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn print_table(sides: &[Side], title: &str) {
    println!("\n{title}");
    println!("{:32} {:>10} {:>8} {:>8} {:>13}", "", "million/s", "least", "most", "to best peer");
    let best = sides.iter().filter(|side| !side.ours).map(|side| median(&side.rates)).fold(0.0, f64::max);
    for side in sides {
        let of = |pick: fn(f64, f64) -> f64| side.rates.iter().copied().reduce(pick).unwrap_or(f64::NAN) / 1e6;
        let rate = median(&side.rates);
        let ratio = if best > 0.0 { format!("{:.2}", rate / best) } else { String::new() };
        println!("{:32} {:>10.2} {:>8.2} {:>8.2} {ratio:>13}", side.name, rate / 1e6, of(f64::min), of(f64::max));
    }
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
