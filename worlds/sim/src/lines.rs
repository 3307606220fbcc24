//! Threads that operate on cache lines together: loads, stores and compare-and-swap, each of which waits until the line is there.
//!
//! A thread is a future. What it awaits is an operation on a line or some computing; [`Lines::run`] continues the threads in the order of virtual
//! time, so that a future may look at what others have changed: it sees all that happened before its operation. Nothing else runs at once.
//!
//! A line is in the caches that hold it, and comes from the nearest of them or from its home's memory: at the latency of the cache that both
//! cores share, otherwise at the memory's latency between their nodes, as lines do that another cache has written (`memory.rs`). Whoever changes
//! it takes it from all others, and the next one waits until it has arrived; those who only read it wait while its bytes pass through the
//! narrowest place on the way. Where a cache writes through, compare-and-swap happens in the next one. Lines of different addresses do not wait
//! for each other: operations are latencies here, not traffic. Nothing is driven out of a cache.

use crate::chance::{Chance, deviation};
use crate::{Machine, Parameters, SimError};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use vicus_topology::{NodeId, PuId};

/// The number of a line, or of a block of lines that are moved together.
pub(crate) type Line = usize;

/// Lines, and the threads that operate on them.
pub(crate) struct Lines<'m> {
    machine: &'m Machine,
    parameters: Parameters,
    seed: u64,
    threads: Vec<Thread>,
    lines: RefCell<Vec<State>>,
    clock: Clock,
}

/// Where a thread runs.
struct Thread {
    node: NodeId,
    /// The first cache, if it writes through.
    copies: Option<usize>,
    /// The first cache that keeps what is written, and those above it, by their index in the topology.
    path: Vec<usize>,
    /// How much longer computing takes because other threads are on the same core.
    slower: f64,
}

struct State {
    home: NodeId,
    bytes: f64,
    /// The caches that have it. If its last operation was a change, there is one.
    holders: Vec<usize>,
    /// Whether a holder has changed it, so that memory has not this value.
    changed: bool,
    /// The caches that write through and have a copy besides.
    copies: Vec<usize>,
    /// Until when it is on its way.
    busy_until: f64,
}

#[derive(Default)]
struct Clock {
    now: Cell<f64>,
    current: Cell<usize>,
    /// Times, in an order for equal ones, and threads. Times are not negative, so that their bits have their order.
    queue: RefCell<BinaryHeap<Reverse<(u64, u64, usize)>>>,
    events: Cell<u64>,
}

impl Clock {
    fn at(&self, time: f64, thread: usize) {
        self.events.set(self.events.get() + 1);
        self.queue.borrow_mut().push(Reverse((time.to_bits(), self.events.get(), thread)));
    }
}

/// Lets others run once.
#[derive(Default)]
struct Later(bool);

impl Future for Later {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// No run takes longer in virtual time.
const LONGEST_NS: f64 = 1e9;

/// What a thread does.
pub(crate) type Work<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl<'m> Lines<'m> {
    /// Threads on these PUs, one each.
    pub(crate) fn new(machine: &'m Machine, parameters: Parameters, seed: u64, pus: &[usize]) -> Lines<'m> {
        let topology = &machine.topology;
        let core = |pu: usize| topology.pus[pu].core;
        let thread = |&pu: &usize| {
            let mut path = machine.caches_of(PuId::new(pu));
            let writes_through = path.len() > 1 && machine.cache_costs(topology.caches[path[0]].level).write_through;
            let copies = writes_through.then(|| path.remove(0));
            let together = pus.iter().filter(|&&other| core(other) == core(pu)).count() as f64;
            let slower = if together > 1.0 { (together / machine.smt_speedup).max(1.0) } else { 1.0 };
            Thread { node: topology.pus[pu].node, copies, path, slower }
        };
        let threads = pus.iter().map(thread).collect();
        Lines { machine, parameters, seed, threads, lines: RefCell::default(), clock: Clock::default() }
    }

    pub(crate) fn now(&self) -> f64 {
        self.clock.now.get()
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// The value of the distance matrix between two threads' nodes.
    pub(crate) fn distance(&self, from: usize, to: usize) -> u32 {
        self.machine.topology.numa_value(self.threads[from].node, self.threads[to].node)
    }

    /// A line in the memory of a thread's node.
    pub(crate) fn line(&self, thread: usize) -> Line {
        self.block(thread, self.machine.memory.line_bytes)
    }

    /// A block of so many bytes in the memory of a thread's node.
    pub(crate) fn block(&self, thread: usize, bytes: usize) -> Line {
        let mut lines = self.lines.borrow_mut();
        let bytes = bytes.next_multiple_of(self.machine.memory.line_bytes) as f64;
        let home = self.threads[thread].node;
        lines.push(State { home, bytes, holders: vec![], changed: false, copies: vec![], busy_until: 0.0 });
        lines.len() - 1
    }

    /// A line of a thread's node that is in its own cache already.
    pub(crate) fn warm_line(&self, thread: usize) -> Line {
        let line = self.line(thread);
        self.lines.borrow_mut()[line].holders.extend(self.threads[thread].path.first());
        line
    }

    /// Reads a line.
    pub(crate) async fn load(&self, line: Line) {
        let end = self.loaded(self.clock.current.get(), line);
        self.until(end).await;
    }

    /// Compare-and-swap, or another change for whose result the thread waits.
    pub(crate) async fn atomic(&self, line: Line) {
        let end = self.changed(self.clock.current.get(), line);
        self.until(end).await;
    }

    /// Writes a line. The thread does not wait for it, but others do.
    pub(crate) async fn store(&self, line: Line) {
        let thread = self.clock.current.get();
        let bytes = self.lines.borrow()[line].bytes;
        let first = self.machine.caches.first().copied();
        self.changed(thread, line);
        let takes = first.map_or(0.0, |cache| (bytes / cache.bandwidth * 1e9).max(cache.latency_ns));
        self.until(self.now() + takes).await;
    }

    /// Computes for so many cycles.
    pub(crate) async fn compute(&self, cycles: f64) {
        let thread = &self.threads[self.clock.current.get()];
        let ns = cycles * thread.slower / self.machine.clock_ghz;
        self.until(self.now() + ns * self.uneven()).await;
    }

    /// How much longer this piece of work takes than an equal one: see [`Parameters::jitter`].
    fn uneven(&self) -> f64 {
        let name = (self.clock.current.get() as u32, self.clock.events.get() as usize);
        (1.0 + self.parameters.jitter * deviation(self.seed, name)).max(0.125)
    }

    /// The instructions of an operation that no lock protects.
    pub(crate) async fn own(&self) {
        self.compute(self.parameters.own_cycles).await;
    }

    /// The instructions of an operation while a lock is held.
    pub(crate) async fn take(&self) {
        self.compute(self.parameters.take_cycles).await;
    }

    async fn until(&self, time: f64) {
        self.clock.at(time, self.clock.current.get());
        Later::default().await;
    }

    /// How long a line takes from a cache to a thread, and how long it keeps its way busy.
    fn way_from_cache(&self, thread: &Thread, cache: usize, bytes: f64) -> (f64, f64) {
        let caches = &self.machine.topology.caches;
        let shares = |&&own: &&usize| own == cache || caches[cache].pus.iter().all(|pu| caches[own].pus.contains(pu));
        if let Some(&shared) = thread.path.iter().find(shares) {
            let costs = self.machine.cache_costs(caches[shared].level);
            return (costs.latency_ns, bytes / costs.bandwidth * 1e9);
        }
        let from = caches[cache].pus.first().map_or(thread.node, |pu| self.machine.topology.pus[pu.index()].node);
        self.between(thread.node, from, bytes)
    }

    fn between(&self, to: NodeId, from: NodeId, bytes: f64) -> (f64, f64) {
        let machine = self.machine;
        let way = machine.links.way(from.index(), to.index()).iter().map(|&link| machine.links()[link].bandwidth);
        let places = way.chain(machine.bus.map(|bus| bus.1)).chain([machine.controller_bandwidth(from)]);
        let line = machine.memory.line_bytes as f64;
        // The first line comes after the latency, the others follow as fast as a core alone gets them.
        let more = (bytes - line).max(0.0) / machine.core_bandwidth(to, from) * 1e9;
        (machine.latency_ns(to, from) + more, bytes / places.fold(f64::INFINITY, f64::min) * 1e9)
    }

    /// How long a line takes to a thread from the nearest place that has it, and how long it keeps its way busy.
    fn nearest(&self, thread: &Thread, line: &State) -> (f64, f64) {
        let caches = line.holders.iter().map(|&cache| self.way_from_cache(thread, cache, line.bytes));
        let memory =
            (!line.changed || line.holders.is_empty()).then(|| self.between(thread.node, line.home, line.bytes));
        caches.chain(memory).min_by(|one, other| one.0.total_cmp(&other.0)).expect("a line is somewhere")
    }

    fn loaded(&self, thread: usize, line: Line) -> f64 {
        let thread = &self.threads[thread];
        let line = &mut self.lines.borrow_mut()[line];
        let first = self.machine.caches.first().map_or(0.0, |cache| cache.latency_ns);
        if thread.copies.is_some_and(|copy| line.copies.contains(&copy)) {
            return self.now() + first;
        }
        let own = thread.path.first().copied();
        let has = own.is_some_and(|own| line.holders.contains(&own));
        if has && thread.copies.is_none() {
            return self.now().max(line.busy_until) + self.nearest(thread, line).0;
        }
        let (latency, busy) = self.nearest(thread, line);
        let begin = self.now().max(line.busy_until);
        line.busy_until = begin + busy;
        line.holders.extend(own.filter(|_| !has));
        line.copies.extend(thread.copies);
        begin + latency
    }

    fn changed(&self, thread: usize, line: Line) -> f64 {
        let thread = &self.threads[thread];
        let line = &mut self.lines.borrow_mut()[line];
        let begin = self.now().max(line.busy_until);
        let own = thread.path.first().copied();
        let alone = own.is_some_and(|own| line.holders == [own]);
        let end = if alone {
            let (latency, busy) = self.nearest(thread, line);
            // Where compare-and-swap happens in a cache that cores share, it takes the next one while the result is on its way.
            line.busy_until = begin + if thread.copies.is_some() { busy } else { latency };
            begin + latency
        } else {
            // It has come, and all others have given it up.
            let others = line.holders.iter().filter(|&&cache| Some(cache) != own);
            let latest = others.map(|&cache| self.way_from_cache(thread, cache, line.bytes).0);
            let end = begin + latest.fold(self.nearest(thread, line).0, f64::max);
            line.busy_until = end;
            end
        };
        line.holders.clear();
        line.holders.extend(own);
        line.copies.clear();
        line.changed = true;
        end
    }

    /// Runs the threads to their end, and returns the time from the first one's begin to the last one's end, in nanoseconds. They begin within
    /// [`Parameters::wake_ns`]; the seed says when.
    pub(crate) fn run(&self, mut work: Vec<Work<'_>>, watch: &mut dyn FnMut(usize) -> bool) -> Result<f64, SimError> {
        let mut chance = Chance::new(self.seed);
        let all = 1 << 20;
        for thread in 0..work.len() {
            let share = if thread == 0 { 0.0 } else { chance.below(all) as f64 / all as f64 };
            self.clock.at(share * self.parameters.wake_ns, thread);
        }
        let mut context = Context::from_waker(Waker::noop());
        let (mut left, mut steps) = (work.len(), 0);
        while left > 0 {
            let next = self.clock.queue.borrow_mut().pop();
            let Some(Reverse((time, _, thread))) = next else { return Err(SimError::Stuck { left, task: 0 }) };
            self.clock.now.set(f64::from_bits(time));
            if self.now() > LONGEST_NS {
                return Err(SimError::TooLong);
            }
            self.clock.current.set(thread);
            left -= usize::from(work[thread].as_mut().poll(&mut context).is_ready());
            steps += 1;
            if steps % 65_536 == 0 && !watch(0) {
                return Err(SimError::Cancelled);
            }
        }
        Ok(self.now())
    }
}

/// A lock on a line of its own. A thread that finds it taken sleeps, and takes [`Parameters::wake_ns`] to continue; meanwhile another may be
/// quicker.
pub(crate) struct Lock {
    line: Line,
    taken: Cell<bool>,
    waiting: RefCell<VecDeque<usize>>,
}

impl Lock {
    pub(crate) fn new(lines: &Lines<'_>, home: usize) -> Lock {
        Lock { line: lines.line(home), taken: Cell::new(false), waiting: RefCell::default() }
    }

    pub(crate) async fn lock(&self, lines: &Lines<'_>) {
        loop {
            lines.atomic(self.line).await;
            if !self.taken.replace(true) {
                return;
            }
            self.waiting.borrow_mut().push_back(lines.clock.current.get());
            Later::default().await;
        }
    }

    pub(crate) async fn unlock(&self, lines: &Lines<'_>) {
        lines.atomic(self.line).await;
        self.taken.set(false);
        if let Some(thread) = self.waiting.borrow_mut().pop_front() {
            lines.clock.at(lines.now() + lines.parameters.wake_ns * lines.uneven(), thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one operation after the other takes, by thread and kind: `r`, `w`.
    fn take(machine: &Machine, pus: &[usize], operations: &[(usize, char)]) -> Vec<f64> {
        let lines = Lines::new(machine, Parameters::default(), 1, pus);
        let line = lines.line(0);
        let mut now = 0.0;
        let one = |&(thread, kind): &(usize, char)| {
            lines.clock.now.set(now);
            let end = if kind == 'r' { lines.loaded(thread, line) } else { lines.changed(thread, line) };
            let took = end - now;
            now = end + 1000.0;
            (took * 100.0).round() / 100.0
        };
        operations.iter().map(one).collect()
    }

    #[test]
    fn a_line_comes_from_the_nearest_place_and_is_taken_from_all_others() {
        let altix = Machine::by_name("altix-3700").unwrap();
        // CPUs 0 and 1 are on node 0, 2 on node 1, 47 on the last one.
        let operations = [(0, 'w'), (0, 'r'), (1, 'r'), (1, 'r'), (0, 'w'), (3, 'w'), (2, 'r'), (3, 'r')];
        let own = [3.3, 0.67];
        let took = take(&altix, &[0, 1, 2, 47], &operations);
        assert_eq!(took, [145.0, own[0], 145.0, own[1], 145.0, 490.0, 490.0, own[0]]);
    }

    #[test]
    fn compare_and_swap_happens_in_the_shared_cache() {
        let niagara = Machine::by_name("niagara-2").unwrap();
        // PUs 0 and 8 are two cores of a socket, and 64 is on the other one.
        let took = take(&niagara, &[0, 8, 64], &[(0, 'w'), (1, 'w'), (0, 'w'), (0, 'r'), (0, 'r'), (2, 'w'), (0, 'w')]);
        assert_eq!(took, [150.0, 21.7, 21.7, 21.7, 2.5, 230.0, 230.0]);
    }

    #[test]
    fn a_lock_is_held_by_one_thread() {
        let machine = Machine::by_name("xeon-5150").unwrap();
        let lines = Lines::new(&machine, Parameters::default(), 1, &[0, 1, 2, 3]);
        let (lock, inside, count) = (Lock::new(&lines, 0), Cell::new(false), Cell::new(0));
        let (lines, lock, inside, count) = (&lines, &lock, &inside, &count);
        let work = (0..4).map(|_| {
            Box::pin(async move {
                for _ in 0..50 {
                    lock.lock(lines).await;
                    assert!(!inside.replace(true));
                    lines.take().await;
                    inside.set(false);
                    count.set(count.get() + 1);
                    lock.unlock(lines).await;
                }
            }) as Work<'_>
        });
        lines.run(work.collect(), &mut |_| true).unwrap();
        assert_eq!((count.get(), lock.taken.get()), (200, false));
    }
}
