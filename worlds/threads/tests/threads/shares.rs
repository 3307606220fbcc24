//! Each request has a share of the threads, regardless of the others, under every strategy: requests of few and of many
//! tasks end beside endless ones, and these go on meanwhile. What happened: beside two endless networks on two threads
//! a request of three envelopes was not done after 15 seconds under three strategies.

use std::fmt::Debug;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use vicus_flow::{Envelope, Model, ModelBuilder, Schema, Type, library};
use vicus_machine::{MachineRuntime, scope};
use vicus_schedule::{ALL, Setting};
use vicus_threads as threads;

/// A test above this time has failed: it takes a second or two on two processors.
const LIMIT: Duration = Duration::from_secs(60);

/// The parts of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Parts {
    Boxes,
    Tasks,
    /// Tasks of one task, which spawns all before it waits.
    Spread,
    Threads,
}

const PARTS: [Parts; 3] = [Parts::Boxes, Parts::Tasks, Parts::Threads];

/// Some microseconds.
fn work() {
    (0..20_000_u64).for_each(|number| _ = black_box(number));
}

/// Branches at work on this number of envelopes each, counting them.
fn network(branches: usize, envelopes: u64, goes_on: &Arc<AtomicBool>, count: &Arc<AtomicU64>) -> Arc<Model> {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("numbers");
    for branch in 0..branches {
        let goes_on = Arc::clone(goes_on);
        let made = move || {
            let goes_on = Arc::clone(&goes_on);
            let numbers = (0..envelopes).take_while(move |_| goes_on.load(Ordering::Relaxed));
            numbers.map(|number| Envelope::new([vec![number].into()]))
        };
        let source = net.source(library::source(format!("numbers {branch}"), &schema, made));
        let count = Arc::clone(count);
        let taker = net.add(library::sink(format!("taker {branch}"), &schema, move |_| {
            work();
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }));
        net.connect(source.output(0), taker.input(0));
        net.end(taker.output(0));
    }
    net.build().unwrap()
}

/// Begins a request of this number of pieces of work; returns a function that checks its end.
fn begin(
    runtime: &MachineRuntime,
    parts: Parts,
    pieces: u64,
    goes_on: &Arc<AtomicBool>,
    count: &Arc<AtomicU64>,
) -> Box<dyn Fn() -> bool> {
    let (goes_on, count) = (Arc::clone(goes_on), Arc::clone(count));
    match parts {
        Parts::Boxes => {
            let request = runtime.submit(&network(3, pieces.div_ceil(3), &goes_on, &count));
            Box::new(move || request.is_done())
        }
        Parts::Tasks => {
            let request = runtime.spawn(move || {
                let mut left = pieces;
                while left > 0 && goes_on.load(Ordering::Relaxed) {
                    let now = left.min(4);
                    left -= now;
                    scope(|scope| {
                        for _ in 0..now {
                            scope.spawn(|_| {
                                work();
                                count.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                    });
                }
            });
            Box::new(move || request.is_done())
        }
        Parts::Spread => {
            let request = runtime.spawn(move || {
                scope(|scope| {
                    for _ in (0..pieces).take_while(|_| goes_on.load(Ordering::Relaxed)) {
                        scope.spawn(|_| {
                            work();
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            });
            Box::new(move || request.is_done())
        }
        Parts::Threads => {
            let (ends, over) = mpsc::channel::<()>();
            let each = move || {
                let mut left = pieces;
                while left > 0 && goes_on.load(Ordering::Relaxed) {
                    left -= 1;
                    work();
                    count.fetch_add(1, Ordering::Relaxed);
                    threads::yield_now();
                }
                drop(ends);
            };
            threads::Builder::new().spawn_on(runtime, each);
            Box::new(move || over.try_recv() == Err(mpsc::TryRecvError::Disconnected))
        }
    }
}

/// Waits until it is so.
fn until(is_so: impl Fn() -> bool, what: &dyn Debug) -> Duration {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "not after {LIMIT:?}: {what:?}");
        std::thread::sleep(Duration::from_micros(200));
    }
    began.elapsed()
}

/// Ends the endless requests, also of a failing test.
struct Stops(Arc<AtomicBool>);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Requests of few and of `many` pieces of work, of each kind, beside endless requests of these kinds.
fn beside(strategy: &str, threads: usize, endless: &[Parts], many: u64) {
    let setting: Setting = strategy.parse().unwrap();
    let runtime =
        MachineRuntime::builder().layer(vicus_threads::LAYER).strategy(setting).threads(threads).quiet().start();
    let (goes_on, always) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
    let stops = Stops(Arc::clone(&goes_on));
    let counts: Vec<Arc<AtomicU64>> = endless.iter().map(|_| Arc::default()).collect();
    let long: Vec<_> = endless
        .iter()
        .zip(&counts)
        .map(|(&parts, count)| begin(&runtime, parts, u64::MAX / 4, &goes_on, count))
        .collect();
    for (count, parts) in counts.iter().zip(endless) {
        until(|| count.load(Ordering::Relaxed) > 50, &(strategy, threads, endless, "begins", parts));
    }
    for pieces in [50, many] {
        for parts in PARTS {
            let count = Arc::default();
            let is_over = begin(&runtime, parts, pieces, &always, &count);
            let took = until(is_over, &(strategy, threads, endless, pieces, parts));
            if std::env::var_os("VICUS_TEST_TIMES").is_some() {
                println!("{strategy} on {threads} beside {endless:?}: {pieces} of {parts:?} in {took:?}");
            }
            assert!(count.load(Ordering::Relaxed) >= pieces);
        }
    }
    let before: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    for ((count, before), parts) in counts.iter().zip(before).zip(endless) {
        until(|| count.load(Ordering::Relaxed) > before + 50, &(strategy, threads, endless, "goes on", parts));
    }
    drop(stops);
    for (is_over, parts) in long.iter().zip(endless) {
        until(is_over, &(strategy, threads, endless, "ends", parts));
    }
}

/// The pieces of work of a request whose share is measured: some milliseconds of work, two turns or more.
const LONG: u64 = 800;

/// The pieces that two endless requests may do for each piece of a third one, on this number of threads. A request of N
/// has at least one part in 2 N of a seat's time ([`TURN_NS`](vicus_schedule::TURN_NS)), and one without parallel parts
/// works on one seat. Four times that is left to the system's scheduler and to pieces of different cost.
fn most_of_others(threads: usize) -> u64 {
    4 * 2 * 3 * threads as u64
}

/// The pieces that endless requests may do before one beside them has its first turn, or while it ends: those of some
/// turns.
const BEFORE: u64 = 40_000;

/// Checks that a request of much work has its share of the threads beside endless ones, counted in pieces of work.
/// An error says which share it had.
fn share(strategy: &str, threads: usize, endless: [Parts; 2], parts: Parts) -> Result<(), String> {
    let setting: Setting = strategy.parse().unwrap();
    let runtime =
        MachineRuntime::builder().layer(vicus_threads::LAYER).strategy(setting).threads(threads).quiet().start();
    let (goes_on, always) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
    let stops = Stops(Arc::clone(&goes_on));
    let counts: [Arc<AtomicU64>; 2] = Default::default();
    let long: Vec<_> = endless
        .iter()
        .zip(&counts)
        .map(|(&parts, count)| begin(&runtime, parts, u64::MAX / 4, &goes_on, count))
        .collect();
    let done = || counts.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>();
    until(|| counts.iter().all(|count| count.load(Ordering::Relaxed) > 50), &(strategy, threads, endless, "begins"));
    let (before, count) = (done(), Arc::new(AtomicU64::new(0)));
    let is_over = begin(&runtime, parts, LONG, &always, &count);
    let own = || count.load(Ordering::Relaxed);
    // Checked until it ends, so a request that stands still fails regardless of its work before.
    while !is_over() {
        let (others, own) = (done() - before, own());
        if others > most_of_others(threads) * own + BEFORE {
            always.store(false, Ordering::Relaxed);
            return Err(format!(
                "{strategy} on {threads} beside {endless:?}: {own} of {parts:?} were done while they did {others}"
            ));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    if std::env::var_os("VICUS_TEST_TIMES").is_some() {
        let others = (done() - before) as f64 / own() as f64;
        println!("{strategy} on {threads} beside {endless:?}: {others:.2} pieces to one of {parts:?}");
    }
    drop(stops);
    for (is_over, parts) in long.iter().zip(endless) {
        until(is_over, &(strategy, threads, endless, "ends", parts));
    }
    Ok(())
}

/// What happened: beside two endless requests of tasks on one thread a network did 22 pieces of work while they did
/// 21,031. One of these had all turns: its root was suspended, so each of its turns ended at once.
#[test]
fn every_strategy_gives_a_long_request_its_share_beside_two_endless_ones() {
    const PAIRS: [[Parts; 2]; 3] =
        [[Parts::Boxes, Parts::Tasks], [Parts::Tasks, Parts::Threads], [Parts::Threads, Parts::Boxes]];
    // With more threads than PUs, the system decides who works, and a seat's turns are no part of the machine.
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let mut unfair = Vec::new();
    for strategy in ALL {
        for threads in [1, 2, 8].into_iter().filter(|&threads| threads <= most) {
            let pairs = if threads == 1 { &PAIRS[..] } else { &[] };
            for endless in PARTS.map(|parts| [parts; 2]).iter().chain(pairs) {
                for parts in PARTS {
                    unfair.extend(share(strategy.name(), threads, *endless, parts).err());
                }
            }
        }
    }
    assert!(unfair.is_empty(), "{}", unfair.join("\n"));
}

#[test]
fn every_strategy_gives_each_request_a_share_beside_endless_ones() {
    for strategy in ALL {
        for threads in [1, 2, 8] {
            beside(strategy.name(), threads, &PARTS, 500);
        }
        for parts in PARTS {
            beside(strategy.name(), 2, &[parts; 2], 500);
        }
    }
}

/// A task with more children than its queue holds runs the rest itself, as long as it goes on.
#[test]
fn a_task_that_spawns_without_end_leaves_others_their_shares_where_queues_are_bounded() {
    for strategy in ["central", "steal:capacity=64", "locality-queues:capacity=64"] {
        for threads in [1, 2, 8] {
            beside(strategy, threads, &[Parts::Spread; 2], 500);
            beside(strategy, threads, &[Parts::Spread, Parts::Boxes, Parts::Threads], 500);
        }
    }
}
