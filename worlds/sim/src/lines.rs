//! Threads operating together on cache lines: loads, stores and compare-and-swap, each with a wait for the line.
//!
//! A thread is a future. It awaits operations on lines or some computing; [`Lines::run`] continues the threads in the
//! order of virtual time. A future may therefore look at other threads' changes: it sees everything before its
//! operation. Nothing else runs at once.
//!
//! A line is in the caches that hold it, and comes from the nearest of them or from its home's memory: at the latency
//! of the cache shared by both cores, otherwise at the memory's latency between their nodes, like lines written by
//! another cache (`memory.rs`). Its home takes the requests of caches in their order. A request to change the line
//! takes it from all other caches, and the home takes the next one when the line has arrived; a request to read it
//! keeps the home busy while its bytes pass through the narrowest place on the way.
//!
//! A cache keeps a line until another cache's request has reached it, after the first half of that request's latency.
//! So a core that has got a line to change has it for at least as long, and its next operations on the line do not
//! leave its cache. Requests of cores behind the same holding cache need no second transfer. If a cache writes through,
//! compare-and-swap happens in the next one.
//!
//! Lines of different addresses do not wait for each other: operations are latencies here, not traffic. But a thread
//! has one store under way: the next one waits until its line, or block, has come. Nothing is driven out of a cache.

use crate::chance::{Chance, deviation};
use crate::{Machine, Parameters, SimError};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use vicus_topology::{NodeId, PuId};

/// The number of a line, or of a block of lines moved together.
pub(crate) type Line = usize;

/// Lines, and the threads operating on them.
pub(crate) struct Lines<'m> {
    machine: &'m Machine,
    parameters: Parameters,
    seed: u64,
    threads: Vec<Thread>,
    /// By thread, the node of its data.
    homes: Vec<NodeId>,
    lines: RefCell<Vec<State>>,
    clock: Clock,
}

/// The place of a thread.
struct Thread {
    /// The first cache, if it writes through.
    copies: Option<usize>,
    /// The first cache that keeps written lines, and those above it, by their index in the topology.
    path: Vec<usize>,
    /// How much longer computing takes because other threads are on the same core.
    slower: f64,
    /// The way from each cache, by its index in the topology.
    from_caches: Vec<Way>,
    /// The way from each node's memory.
    from_memory: Vec<Way>,
    /// When the line of its last store has come.
    stored: Cell<f64>,
}

/// How a line, or a block, comes to a thread.
#[derive(Clone, Copy)]
struct Way {
    latency_ns: f64,
    /// Additional time of a block for each byte after its first line.
    following_ns: f64,
    /// How long each byte keeps the narrowest place busy.
    busy_ns: f64,
}

impl Way {
    /// The time of this number of bytes, and how long they keep the way busy.
    fn takes(&self, bytes: f64, line_bytes: f64) -> (f64, f64) {
        (self.latency_ns + (bytes - line_bytes) * self.following_ns, bytes * self.busy_ns)
    }

    fn between(machine: &Machine, to: NodeId, from: NodeId) -> Way {
        let links = machine.links.way(from.index(), to.index()).iter().map(|&link| machine.links()[link].bandwidth);
        let places = links.chain(machine.bus.map(|bus| bus.1)).chain([machine.controller_bandwidth(from)]);
        Way {
            latency_ns: machine.latency_ns(to, from),
            following_ns: 1e9 / machine.core_bandwidth(to, from),
            busy_ns: 1e9 / places.fold(f64::INFINITY, f64::min),
        }
    }

    /// From a cache to a thread on this node with these caches.
    fn from_cache(machine: &Machine, node: NodeId, path: &[usize], cache: usize) -> Way {
        let caches = &machine.topology.caches;
        let shares = |&&own: &&usize| own == cache || caches[cache].pus.iter().all(|pu| caches[own].pus.contains(pu));
        if let Some(&shared) = path.iter().find(shares) {
            let costs = machine.cache_costs(caches[shared].level);
            let byte_ns = 1e9 / costs.bandwidth;
            return Way { latency_ns: costs.latency_ns, following_ns: byte_ns, busy_ns: byte_ns };
        }
        let from = caches[cache].pus.first().map_or(node, |pu| machine.topology.pus[pu.index()].node);
        Way::between(machine, node, from)
    }
}

struct State {
    home: NodeId,
    bytes: f64,
    /// When caches have it, in the order of their requests. After the first one, one or more of them have it without an
    /// end.
    held: Vec<LineSpan>,
    /// Whether a holder has changed it, so that memory lacks this value.
    changed: bool,
    /// When its home takes the next request.
    free_at: f64,
}

/// A time span of a line in a cache.
struct LineSpan {
    cache: usize,
    /// When it gets the line.
    from: f64,
    /// When it loses the line; without an end while no other cache has asked for it.
    until: f64,
    /// End of its exclusive hold, during which it can be changed here. Never later than `until`.
    alone_until: f64,
    /// When it can begin its next operation on the line, if it works for several cores.
    next: f64,
    /// The caches with a further copy that write through to this one.
    copies: Vec<usize>,
}

impl LineSpan {
    fn new(cache: usize, from: f64, alone: bool) -> LineSpan {
        let alone_until = if alone { f64::INFINITY } else { f64::NEG_INFINITY };
        LineSpan { cache, from, until: f64::INFINITY, alone_until, next: from, copies: vec![] }
    }

    /// Time of a request, taken at `begin`, to this cache and back.
    fn answers(&self, begin: f64, latency: f64) -> f64 {
        latency.max(self.from - begin + latency / 2.0)
    }

    /// Whether the home knows it as a holder: no other cache's request has ended the hold.
    fn lasts(&self) -> bool {
        self.until == f64::INFINITY
    }

    /// Another cache's request to read it, or to change it, comes at this time.
    fn shares(&mut self, time: f64) {
        self.alone_until = self.alone_until.min(time.max(self.from));
    }

    fn loses(&mut self, time: f64) {
        self.shares(time);
        self.until = self.until.min(time.max(self.from));
    }
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

    /// Whether no other thread continues before this time, so that the current one need not wait for its turn. Now and
    /// then it waits all the same, so that the run can end.
    fn is_next(&self, time: f64) -> bool {
        self.events.set(self.events.get() + 1);
        let later = |next: &Reverse<(u64, u64, usize)>| next.0.0 > time.to_bits();
        self.queue.borrow().peek().is_none_or(later) && !self.events.get().is_multiple_of(1024)
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

/// The code of a thread.
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
            let node = topology.pus[pu].node;
            let caches = 0..topology.caches.len();
            let from_caches = caches.map(|cache| Way::from_cache(machine, node, &path, cache)).collect();
            let memories = (0..topology.nodes.len()).map(NodeId::new);
            let from_memory = memories.map(|from| Way::between(machine, node, from)).collect();
            Thread { copies, path, slower, from_caches, from_memory, stored: Cell::new(0.0) }
        };
        let threads = pus.iter().map(thread).collect();
        let lines = Lines {
            machine,
            parameters,
            seed,
            threads,
            homes: vec![],
            lines: RefCell::default(),
            clock: Clock::default(),
        };
        lines.with_homes(pus)
    }

    /// Like [`Lines::new`]; the threads' data lies on the nodes of these PUs, wherever the threads run.
    pub(crate) fn with_homes(self, pus: &[usize]) -> Lines<'m> {
        let homes = pus.iter().map(|&pu| self.machine.topology.pus[pu].node).collect();
        Lines { homes, ..self }
    }

    pub(crate) fn now(&self) -> f64 {
        self.clock.now.get()
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// The value of the distance matrix between the homes of two threads.
    pub(crate) fn distance(&self, from: usize, to: usize) -> u32 {
        self.machine.topology.numa_value(self.homes[from], self.homes[to])
    }

    /// A line in the memory of a thread's home.
    pub(crate) fn line(&self, thread: usize) -> Line {
        self.block(thread, self.machine.memory.line_bytes)
    }

    /// A block of this number of bytes in the memory of a thread's home.
    pub(crate) fn block(&self, thread: usize, bytes: usize) -> Line {
        let mut lines = self.lines.borrow_mut();
        let bytes = bytes.next_multiple_of(self.machine.memory.line_bytes) as f64;
        let home = self.homes[thread];
        lines.push(State { home, bytes, held: vec![], changed: false, free_at: 0.0 });
        lines.len() - 1
    }

    /// A line of a thread's home, already in its own cache.
    pub(crate) fn warm_line(&self, thread: usize) -> Line {
        let line = self.line(thread);
        let own = self.threads[thread].path.first();
        self.lines.borrow_mut()[line].held.extend(own.map(|&cache| LineSpan::new(cache, 0.0, true)));
        line
    }

    /// Reads a line.
    pub(crate) async fn load(&self, line: Line) {
        let end = self.loaded(self.clock.current.get(), line);
        self.until(end).await;
    }

    /// Compare-and-swap, or another change with a result the thread waits for.
    pub(crate) async fn atomic(&self, line: Line) {
        let end = self.changed(self.clock.current.get(), line);
        self.until(end).await;
    }

    /// Writes a line. The thread does not wait for it, but others do, and its own next store.
    pub(crate) async fn store(&self, line: Line) {
        let thread = self.clock.current.get();
        let before = self.threads[thread].stored.get();
        if before > self.now() {
            self.until(before).await;
        }
        let bytes = self.lines.borrow()[line].bytes;
        let first = self.machine.caches.first().copied();
        let end = self.changed(thread, line);
        self.threads[thread].stored.set(end);
        let takes = first.map_or(0.0, |cache| (bytes / cache.bandwidth * 1e9).max(cache.latency_ns));
        self.until(self.now() + takes).await;
    }

    /// Computes for this number of cycles.
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

    /// The instructions of an operation without a lock.
    pub(crate) async fn own(&self) {
        self.compute(self.parameters.own_cycles).await;
    }

    /// The instructions of an operation while a lock is held.
    pub(crate) async fn take(&self) {
        self.compute(self.parameters.take_cycles).await;
    }

    async fn until(&self, time: f64) {
        if self.clock.is_next(time) {
            self.clock.now.set(time);
        } else {
            self.clock.at(time, self.clock.current.get());
            Later::default().await;
        }
    }

    /// How long a line takes from a cache to a thread, and how long it keeps its way busy.
    fn way_from_cache(&self, thread: &Thread, cache: usize, bytes: f64) -> (f64, f64) {
        thread.from_caches[cache].takes(bytes, self.machine.memory.line_bytes as f64)
    }

    /// Time of a line to a thread from its nearest holder, and how long it keeps its way busy. The request is taken at
    /// `begin`; a cache still without the line when the request comes answers as soon as it has it.
    fn nearest(&self, thread: &Thread, line: &State, begin: f64) -> (f64, f64) {
        let holders = || line.held.iter().filter(|held| held.lasts());
        let caches = holders().map(|held| {
            let (latency, busy) = self.way_from_cache(thread, held.cache, line.bytes);
            (held.answers(begin, latency), busy)
        });
        let in_memory = !line.changed || holders().next().is_none();
        let memory = in_memory
            .then(|| thread.from_memory[line.home.index()].takes(line.bytes, self.machine.memory.line_bytes as f64));
        caches.chain(memory).min_by(|one, other| one.0.total_cmp(&other.0)).expect("a line is somewhere")
    }

    /// The end of an operation on a line in the thread's own cache; `None` if a request is necessary.
    fn in_own_cache(&self, thread: &Thread, line: &mut State, changes: bool) -> Option<f64> {
        let own = thread.path.first().copied()?;
        let (latency, busy) = self.way_from_cache(thread, own, line.bytes);
        let now = self.now();
        for held in line.held.iter_mut().filter(|held| held.cache == own) {
            let copy = thread.copies.filter(|copy| held.copies.contains(copy));
            if copy.is_some() && !changes && now < held.until {
                return Some(now.max(held.from) + self.machine.caches[0].latency_ns);
            }
            let begin = now.max(held.next);
            if begin >= if changes { held.alone_until } else { held.until } {
                continue;
            }
            if thread.copies.is_some() {
                // A cache for several cores takes the next operation while the result is on its way.
                held.next = begin + busy;
            } else if changes {
                held.next = begin + latency;
            }
            if changes {
                held.copies.clear();
            } else {
                held.copies.extend(thread.copies);
            }
            line.changed |= changes;
            return Some(begin + latency);
        }
        None
    }

    fn loaded(&self, thread: usize, line: Line) -> f64 {
        let thread = &self.threads[thread];
        let line = &mut self.lines.borrow_mut()[line];
        if let Some(end) = self.in_own_cache(thread, line, false) {
            return end;
        }
        line.held.retain(|held| held.until > self.now());
        let begin = self.now().max(line.free_at);
        let (latency, busy) = self.nearest(thread, line, begin);
        line.free_at = begin + busy;
        let mut alone = true;
        for held in line.held.iter_mut().filter(|held| held.lasts()) {
            held.shares(begin + self.way_from_cache(thread, held.cache, line.bytes).0 / 2.0);
            alone = false;
        }
        line.held.extend(thread.path.first().map(|&own| {
            let mut held = LineSpan::new(own, begin + latency, alone);
            held.copies.extend(thread.copies);
            held
        }));
        begin + latency
    }

    fn changed(&self, thread: usize, line: Line) -> f64 {
        let thread = &self.threads[thread];
        let line = &mut self.lines.borrow_mut()[line];
        if let Some(end) = self.in_own_cache(thread, line, true) {
            return end;
        }
        line.held.retain(|held| held.until > self.now());
        let begin = self.now().max(line.free_at);
        let own = thread.path.first().copied();
        // It has come, and all others have given it up.
        let mut latency = self.nearest(thread, line, begin).0;
        for held in line.held.iter_mut().filter(|held| held.lasts()) {
            if Some(held.cache) == own {
                held.loses(begin);
                continue;
            }
            let way = self.way_from_cache(thread, held.cache, line.bytes).0;
            held.loses(begin + way / 2.0);
            latency = latency.max(held.answers(begin, way));
        }
        line.held.extend(own.map(|own| LineSpan::new(own, begin + latency, true)));
        line.free_at = begin + latency;
        line.changed = true;
        begin + latency
    }

    /// Runs the threads to their end, and returns the time from the first one's begin to the last one's end, in
    /// nanoseconds. They begin within [`Parameters::wake_ns`]; the seed says when.
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

/// A lock on a line of its own. A thread that finds it taken sleeps, and takes [`Parameters::wake_ns`] to continue;
/// meanwhile another may be quicker. The first half of this is the system call of the waking thread, which cannot lock
/// again before.
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
        let woken = self.waiting.borrow_mut().pop_front();
        if let Some(thread) = woken {
            let wake_ns = lines.parameters.wake_ns * lines.uneven();
            lines.clock.at(lines.now() + wake_ns, thread);
            lines.until(lines.now() + wake_ns / 2.0).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of operations one after the other, by thread and kind: `r`, `w`.
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
        assert_eq!(took, [145.0, own[0], 145.0, own[1], 145.0, 435.0, 435.0, own[0]]);
    }

    /// The ends of operations with these beginnings, by thread and kind: `r`, `w`.
    fn ends(machine: &Machine, pus: &[usize], operations: &[(f64, usize, char)]) -> Vec<f64> {
        let lines = Lines::new(machine, Parameters::default(), 1, pus);
        let line = lines.line(0);
        let one = |&(time, thread, kind): &(f64, usize, char)| {
            lines.clock.now.set(time);
            let end = if kind == 'r' { lines.loaded(thread, line) } else { lines.changed(thread, line) };
            (end * 100.0).round() / 100.0
        };
        operations.iter().map(one).collect()
    }

    #[test]
    fn a_core_keeps_a_line_until_the_next_request_has_reached_it() {
        let altix = Machine::by_name("altix-3700").unwrap();
        // CPUs of three nodes, each 319 ns from the others. The second one's request is taken when the first one has
        // its line, at 145 ns, and is half of its way later there.
        let operations =
            [(0.0, 0, 'w'), (100.0, 1, 'w'), (150.0, 0, 'r'), (300.0, 0, 'w'), (305.0, 0, 'w'), (310.0, 2, 'w')];
        let second = 145.0 + 319.0;
        let expected = [145.0, second, 153.3, 303.3, second + 319.0, second + 2.0 * 319.0];
        assert_eq!(ends(&altix, &[0, 2, 4], &operations), expected);
    }

    #[test]
    fn cores_that_share_a_cache_need_one_request() {
        let niagara = Machine::by_name("niagara-2").unwrap();
        // The first two PUs are of one socket. The third one's request takes the line from them at 315 ns, and gets it
        // at 430 ns.
        let operations = [(0.0, 0, 'w'), (200.0, 2, 'w'), (300.0, 1, 'w'), (316.0, 1, 'w'), (400.0, 0, 'w')];
        assert_eq!(ends(&niagara, &[0, 8, 64], &operations), [150.0, 430.0, 321.7, 660.0, 681.7]);
    }

    #[test]
    fn readers_share_a_line_that_none_of_them_changes() {
        let altix = Machine::by_name("altix-3700").unwrap();
        // The third CPU waits until the bytes for the second one are on their way, 40 ns; then each has a copy, and a
        // change needs a request.
        let operations =
            [(0.0, 0, 'r'), (1000.0, 1, 'r'), (1001.0, 2, 'r'), (2000.0, 1, 'r'), (2000.0, 0, 'r'), (3000.0, 0, 'w')];
        let ends = ends(&altix, &[0, 2, 4], &operations);
        assert_eq!(ends, [145.0, 1319.0, 1359.0, 2000.67, 2000.67, 3319.0]);
    }

    #[test]
    fn a_line_comes_from_no_cache_before_it_is_there() {
        let xeon = Machine::by_name("xeon-5150").unwrap();
        // Two CPUs with a shared second cache; its latency is 5.3 ns. The first one's line comes at 100 ns, and half a
        // way later the other has it.
        let shared = ends(&xeon, &[0, 1], &[(0.0, 0, 'r'), (20.0, 1, 'r'), (30.0, 1, 'r')]);
        let memory = shared[0];
        let l2 = ends(&xeon, &[0, 1], &[(0.0, 0, 'r'), (1000.0, 1, 'r')])[1] - 1000.0;
        assert_eq!(shared[1], ((memory + l2 / 2.0) * 100.0).round() / 100.0);
        assert!(shared[2] >= shared[1], "the copy is not there before");
        assert!(l2 < memory / 4.0);
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
