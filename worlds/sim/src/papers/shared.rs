//! Queues and pools of Wheeler, Thain and Murphy, and their competitors, as operations on cache lines.
//!
//! A run is [`Shared`]: threads that pass elements through a queue, or allocate and free items of a pool. Each
//! structure only defines the lines read and changed by an operation, and the values seen there; `lines.rs` computes
//! the time.

use super::Sample;
use crate::lines::{Line, Lines, Lock, Work};
use crate::{Machine, ParameterSet, SimError, SimOptions};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use vicus_memory::DistOptions;

/// The free parameters of its time.
pub(super) const PARAMETERS: [&str; 4] = ["own_cycles", "take_cycles", "wake_ns", "jitter"];

/// Threads sharing a queue or a pool.
#[derive(Clone, Debug)]
pub struct Shared {
    /// How many there are.
    pub(super) threads: usize,
    pub(super) what: What,
    /// How many operations they do together.
    pub(super) operations: usize,
    /// Whether each runs on the PU near its part of the structure; otherwise on a random one, like threads moved by the
    /// system.
    pub(super) pinned: bool,
}

/// The shared structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A queue for elements of this number of bytes, and the threads' roles.
    Queue(Queue, usize, Roles),
    /// A pool.
    Pool(Pool),
}

/// Queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// A list, and one lock with sleeping waiters.
    Locked,
    /// Michael and Scott's, PODC 1996: a list with a head and a tail changed by compare-and-swap.
    LockFree,
    /// Threading Building Blocks 2: tickets from two counters, and eight queues served in the order of their tickets.
    Tickets,
    /// One lock-free queue to each thread, and ads to its neighbours (§5.3).
    Distributed,
}

/// The threads that put elements into a queue, and those that take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Roles {
    /// Every second thread puts, and its neighbour takes as many. A single thread does both in turn.
    Apart,
    /// Each does both in turn.
    Both,
}

/// Pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    /// A lock-free stack for each thread, and a block to cut new items from (§5.1).
    Distributed,
    /// One heap with one lock and sleeping waiters, like a pool with a mutex and Solaris' malloc.
    Locked,
    /// A heap with a lock to each thread, as glibc's malloc comes to when all are taken.
    Arenas,
}

/// Queues of elements ordered by tickets: TBB 2.1, `concurrent_queue`.
const MICRO_QUEUES: usize = 8;

/// Number of items held by a thread while it allocates and frees.
const HELD: usize = 16;

impl Shared {
    /// The PUs of this number of threads: cores first, then their further hardware threads.
    fn pus(&self, machine: &Machine) -> Vec<usize> {
        let cores = &machine.topology.cores;
        let most = cores.iter().map(|core| core.pus.len()).max().unwrap_or(1);
        let in_turn = (0..most).flat_map(|at| cores.iter().filter_map(move |core| core.pus.get(at)));
        let mut pus: Vec<usize> = in_turn.map(|pu| pu.index()).take(self.threads).collect();
        // Neighbours in the machine are neighbours in number.
        pus.sort_unstable();
        pus
    }

    /// The threads, and the homes of their parts.
    fn lines<'m>(&self, machine: &'m Machine, options: &SimOptions) -> Lines<'m> {
        let homes = self.pus(machine);
        let mut pus = homes.clone();
        if !self.pinned {
            let mut chance = crate::chance::Chance::new(options.seed);
            (1..pus.len()).for_each(|at| pus.swap(at, chance.below(at as u64 + 1) as usize));
        }
        Lines::new(machine, options.parameters, options.seed, &pus).with_homes(&homes)
    }

    /// Runs it, with this share of its operations.
    pub(super) fn run(
        &self,
        machine: &Machine,
        options: &SimOptions,
        times: f64,
        watch: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Sample, SimError> {
        let lines = &self.lines(machine, options);
        let operations = ((self.operations as f64 * times) as usize / (2 * self.threads)).max(4) * 2 * self.threads;
        let wall = match self.what {
            What::Pool(pool) => {
                let pool = &AnyPool::new(lines, pool);
                let each = operations / self.threads;
                let work =
                    (0..self.threads).map(|thread| Box::pin(allocate_and_free(lines, pool, thread, each)) as Work<'_>);
                lines.run(work.collect(), watch)?
            }
            What::Queue(queue, bytes, roles) => {
                let line_bytes = machine.memory.line_bytes;
                let queue = &AnyQueue::new(lines, queue, (bytes > line_bytes / 2).then_some(bytes));
                let both = roles == Roles::Both || self.threads == 1;
                let each = operations / self.threads;
                let work = (0..self.threads).map(|thread| match (both, thread % 2) {
                    (true, _) => Box::pin(put_and_take(lines, queue, thread, each)) as Work<'_>,
                    (false, 0) => Box::pin(put(lines, queue, thread, 2 * each)),
                    (false, _) => Box::pin(take(lines, queue, thread, 2 * each)),
                });
                lines.run(work.collect(), watch)?
            }
        };
        // As if all runs had as many operations.
        let wall_ns = wall * self.operations as f64 / operations as f64;
        Ok(Sample { wall_ns, used: ParameterSet::of(PARAMETERS), ..Sample::default() })
    }
}

async fn put_and_take(lines: &Lines<'_>, queue: &AnyQueue, thread: usize, elements: usize) {
    for _ in 0..elements {
        queue.put(lines, thread).await;
        while !queue.take(lines, thread).await {}
    }
}

async fn put(lines: &Lines<'_>, queue: &AnyQueue, thread: usize, elements: usize) {
    for _ in 0..elements {
        queue.put(lines, thread).await;
    }
}

async fn take(lines: &Lines<'_>, queue: &AnyQueue, thread: usize, elements: usize) {
    for _ in 0..elements {
        while !queue.take(lines, thread).await {}
    }
}

async fn allocate_and_free(lines: &Lines<'_>, pool: &AnyPool, thread: usize, items: usize) {
    let mut held = VecDeque::new();
    for _ in 0..items {
        let item = pool.allocate(lines, thread).await;
        lines.store(item).await;
        held.push_back(item);
        if held.len() == HELD {
            pool.free(lines, thread, held.pop_front().expect("it holds some")).await;
        }
    }
}

/// An element of a queue: its node in the list, and its bytes if they are too many for the node.
#[derive(Clone, Copy)]
struct Element {
    node: Line,
    block: Option<Line>,
}

/// Michael and Scott's queue.
struct LockFree {
    head: Line,
    tail: Line,
    /// The first one is the dummy.
    nodes: RefCell<VecDeque<Element>>,
    /// How many were linked, how many of these the tail has passed, and how many were taken.
    linked: Cell<usize>,
    passed: Cell<usize>,
    taken: Cell<usize>,
}

impl LockFree {
    fn new(lines: &Lines<'_>, home: usize) -> LockFree {
        let dummy = Element { node: lines.line(home), block: None };
        LockFree {
            head: lines.line(home),
            tail: lines.line(home),
            nodes: RefCell::new([dummy].into()),
            linked: Cell::new(0),
            passed: Cell::new(0),
            taken: Cell::new(0),
        }
    }

    /// Puts an element, and returns whether the queue was empty.
    async fn put(&self, lines: &Lines<'_>, element: Element) -> bool {
        lines.store(element.node).await;
        loop {
            lines.load(self.tail).await;
            let seen = self.passed.get();
            let last = self.node_after(seen);
            lines.load(last).await;
            // The paper's test for an unchanged tail reads it once more; so does that of the head below.
            lines.load(self.tail).await;
            if self.passed.get() != seen {
                continue;
            }
            if self.linked.get() != seen {
                // Another thread has linked a node, and not moved the tail yet.
                lines.atomic(self.tail).await;
                self.passed.set(self.passed.get().max(seen + 1));
                continue;
            }
            lines.atomic(last).await;
            if self.linked.get() == seen {
                break;
            }
        }
        let empty = self.linked.get() == self.taken.get();
        self.linked.set(self.linked.get() + 1);
        self.nodes.borrow_mut().push_back(element);
        let number = self.linked.get();
        lines.atomic(self.tail).await;
        self.passed.set(self.passed.get().max(number));
        empty
    }

    /// The tail's node after this number of elements; if it was taken meanwhile, the dummy.
    fn node_after(&self, number: usize) -> Line {
        self.nodes.borrow()[number.saturating_sub(self.taken.get())].node
    }

    async fn take(&self, lines: &Lines<'_>) -> Option<Element> {
        loop {
            lines.load(self.head).await;
            let seen = self.taken.get();
            lines.load(self.tail).await;
            lines.load(self.node_after(seen)).await;
            let is_empty = self.linked.get() == seen;
            lines.load(self.head).await;
            if self.taken.get() != seen {
                continue;
            }
            if is_empty {
                return None;
            }
            let next = self.nodes.borrow()[1];
            lines.load(next.node).await;
            if self.taken.get() != seen {
                continue;
            }
            lines.atomic(self.head).await;
            if self.taken.get() == seen {
                self.taken.set(seen + 1);
                // The tail is never behind the head.
                self.passed.set(self.passed.get().max(seen + 1));
                // The node of the element is the new dummy; the old one is free.
                let old = self.nodes.borrow_mut().pop_front().expect("there is a dummy");
                return Some(Element { node: old.node, block: next.block });
            }
        }
    }
}

/// A thread's part of a distributed queue.
struct Part {
    queue: LockFree,
    /// Its ads: their senders.
    ads: RefCell<Vec<usize>>,
    ads_line: Line,
    /// Whether its own ads have led to an element since they were sent.
    consumed: Cell<bool>,
    consumed_line: Line,
    /// The receivers of its ads.
    neighbours: Vec<usize>,
    /// All others, the nearest ones first.
    others: Vec<usize>,
}

struct Distributed {
    parts: Vec<Part>,
}

impl Distributed {
    fn new(lines: &Lines<'_>) -> Distributed {
        let options = DistOptions::default();
        let part = |thread: usize| {
            let count = lines.threads();
            // From the next one on, so that not all ask the same one first.
            let mut others: Vec<usize> = (1..count)
                .map(|step| if thread.is_multiple_of(2) { thread + step } else { thread + count - step } % count)
                .collect();
            others.sort_by_key(|&other| lines.distance(thread, other));
            let nearest = others.first().map_or(0, |&other| lines.distance(thread, other));
            let near = others.iter().filter(|&&other| lines.distance(thread, other) < nearest + options.reach);
            Part {
                queue: LockFree::new(lines, thread),
                ads: RefCell::default(),
                ads_line: lines.line(thread),
                consumed: Cell::new(true),
                consumed_line: lines.line(thread),
                neighbours: near.copied().take(options.neighbours).collect(),
                others,
            }
        };
        Distributed { parts: (0..lines.threads()).map(part).collect() }
    }

    async fn put(&self, lines: &Lines<'_>, thread: usize, element: Element) {
        let part = &self.parts[thread];
        let was_empty = part.queue.put(lines, element).await;
        lines.load(part.queue.head).await;
        if was_empty {
            return;
        }
        lines.load(part.consumed_line).await;
        if part.consumed.replace(false) {
            for &neighbour in &part.neighbours {
                let other = &self.parts[neighbour];
                lines.atomic(other.ads_line).await;
                let mut ads = other.ads.borrow_mut();
                if !ads.contains(&thread) {
                    ads.push(thread);
                    ads.sort_by_key(|&from| lines.distance(neighbour, from));
                }
            }
        }
    }

    /// The element found by an ad, or by a look.
    async fn take_from(&self, lines: &Lines<'_>, from: usize) -> Option<Element> {
        let part = &self.parts[from];
        let element = part.queue.take(lines).await?;
        lines.load(part.consumed_line).await;
        if !part.consumed.get() {
            lines.atomic(part.consumed_line).await;
            part.consumed.set(true);
        }
        Some(element)
    }

    async fn take(&self, lines: &Lines<'_>, thread: usize) -> Option<Element> {
        let part = &self.parts[thread];
        if let Some(element) = part.queue.take(lines).await {
            return Some(element);
        }
        for &other in &part.others {
            // Ads are looked at first, new ones too.
            loop {
                lines.load(part.ads_line).await;
                let Some(&from) = part.ads.borrow().first() else { break };
                if let Some(element) = self.take_from(lines, from).await {
                    return Some(element);
                }
                lines.atomic(part.ads_line).await;
                part.ads.borrow_mut().retain(|&ad| ad != from);
            }
            if let Some(element) = self.take_from(lines, other).await {
                return Some(element);
            }
        }
        None
    }
}

/// A queue of elements with tickets.
struct Tickets {
    put: Cell<usize>,
    put_line: Line,
    taken: Cell<usize>,
    taken_line: Line,
    queues: Vec<Micro>,
}

struct Micro {
    /// The served tickets of putting threads and of taking ones.
    served: [Cell<usize>; 2],
    lines: [Line; 2],
    elements: RefCell<VecDeque<Element>>,
}

impl Tickets {
    fn new(lines: &Lines<'_>) -> Tickets {
        let micro = |_| Micro {
            served: Default::default(),
            lines: [lines.line(0), lines.line(0)],
            elements: RefCell::default(),
        };
        let queues = (0..MICRO_QUEUES).map(micro).collect();
        Tickets { put: Cell::new(0), put_line: lines.line(0), taken: Cell::new(0), taken_line: lines.line(0), queues }
    }

    /// Waits until it is this ticket's turn.
    async fn turn(&self, lines: &Lines<'_>, ticket: usize, side: usize) -> &Micro {
        let micro = &self.queues[ticket % MICRO_QUEUES];
        let mut pauses = 0;
        loop {
            lines.load(micro.lines[side]).await;
            if micro.served[side].get() == ticket / MICRO_QUEUES {
                return micro;
            }
            back_off(lines, &mut pauses).await;
        }
    }

    async fn put(&self, lines: &Lines<'_>, element: Element) {
        lines.atomic(self.put_line).await;
        let ticket = self.put.replace(self.put.get() + 1);
        let micro = self.turn(lines, ticket, 0).await;
        lines.store(element.node).await;
        micro.elements.borrow_mut().push_back(element);
        lines.atomic(micro.lines[0]).await;
        micro.served[0].set(micro.served[0].get() + 1);
    }

    async fn take(&self, lines: &Lines<'_>) -> Option<Element> {
        let ticket = loop {
            lines.load(self.taken_line).await;
            let seen = self.taken.get();
            lines.load(self.put_line).await;
            if self.put.get() <= seen {
                return None;
            }
            lines.atomic(self.taken_line).await;
            if self.taken.get() == seen {
                break self.taken.replace(seen + 1);
            }
        };
        let micro = self.turn(lines, ticket, 1).await;
        // Its element may still be on its way.
        let mut pauses = 0;
        loop {
            lines.load(micro.lines[0]).await;
            if micro.served[0].get() > ticket / MICRO_QUEUES {
                break;
            }
            back_off(lines, &mut pauses).await;
        }
        let element = micro.elements.borrow_mut().pop_front().expect("it was put");
        lines.load(element.node).await;
        lines.atomic(micro.lines[1]).await;
        micro.served[1].set(micro.served[1].get() + 1);
        Some(element)
    }
}

/// TBB's wait: each time twice as long, up to sixteen times.
async fn back_off(lines: &Lines<'_>, pauses: &mut u32) {
    for _ in 0..1 << *pauses {
        lines.take().await;
    }
    *pauses = (*pauses + 1).min(4);
}

/// A list and a lock.
struct Locked {
    lock: Lock,
    ends: Line,
    elements: RefCell<VecDeque<Element>>,
}

enum Kind {
    Locked(Locked),
    LockFree(LockFree),
    Tickets(Tickets),
    Distributed(Distributed),
}

struct AnyQueue {
    kind: Kind,
    /// The bytes of an element if it doesn't lie in its node.
    bytes: Option<usize>,
    /// Each thread's pool of nodes.
    nodes: AnyPool,
}

impl AnyQueue {
    fn new(lines: &Lines<'_>, queue: Queue, bytes: Option<usize>) -> AnyQueue {
        let kind = match queue {
            Queue::Locked => {
                let lock = Lock::new(lines, 0);
                Kind::Locked(Locked { lock, ends: lines.line(0), elements: RefCell::default() })
            }
            Queue::LockFree => Kind::LockFree(LockFree::new(lines, 0)),
            Queue::Tickets => Kind::Tickets(Tickets::new(lines)),
            Queue::Distributed => Kind::Distributed(Distributed::new(lines)),
        };
        AnyQueue { kind, bytes, nodes: AnyPool::new(lines, Pool::Distributed) }
    }

    async fn put(&self, lines: &Lines<'_>, thread: usize) {
        lines.own().await;
        let node = self.nodes.allocate(lines, thread).await;
        let block = self.bytes.map(|bytes| lines.block(thread, bytes));
        if let Some(block) = block {
            lines.store(block).await;
        }
        let element = Element { node, block };
        match &self.kind {
            Kind::LockFree(queue) => drop(queue.put(lines, element).await),
            Kind::Tickets(queue) => queue.put(lines, element).await,
            Kind::Distributed(queue) => queue.put(lines, thread, element).await,
            Kind::Locked(queue) => {
                queue.lock.lock(lines).await;
                lines.atomic(queue.ends).await;
                lines.store(node).await;
                lines.take().await;
                queue.elements.borrow_mut().push_back(element);
                queue.lock.unlock(lines).await;
            }
        }
    }

    /// Takes an element if there is one.
    async fn take(&self, lines: &Lines<'_>, thread: usize) -> bool {
        lines.own().await;
        let element = match &self.kind {
            Kind::LockFree(queue) => queue.take(lines).await,
            Kind::Tickets(queue) => queue.take(lines).await,
            Kind::Distributed(queue) => queue.take(lines, thread).await,
            Kind::Locked(queue) => {
                queue.lock.lock(lines).await;
                lines.atomic(queue.ends).await;
                lines.take().await;
                let element = queue.elements.borrow_mut().pop_front();
                if let Some(element) = element {
                    lines.load(element.node).await;
                }
                queue.lock.unlock(lines).await;
                element
            }
        };
        let Some(Element { node, block }) = element else { return false };
        if let Some(block) = block {
            lines.load(block).await;
        }
        self.nodes.free(lines, thread, node).await;
        true
    }
}

/// A pool's part nearest to one thread; or the whole pool, if it has one part.
struct Heap {
    /// Its lock, if it has one.
    lock: Option<Lock>,
    /// The head of its list of free items.
    head: Line,
    free: RefCell<Vec<Line>>,
    changes: Cell<usize>,
}

struct AnyPool {
    heaps: Vec<Heap>,
}

impl AnyPool {
    fn new(lines: &Lines<'_>, pool: Pool) -> AnyPool {
        let count = if pool == Pool::Locked { 1 } else { lines.threads() };
        let heap = |at| Heap {
            lock: (pool != Pool::Distributed).then(|| Lock::new(lines, at)),
            head: lines.line(at),
            free: RefCell::default(),
            changes: Cell::new(0),
        };
        AnyPool { heaps: (0..count).map(heap).collect() }
    }

    async fn allocate(&self, lines: &Lines<'_>, thread: usize) -> Line {
        let heap = &self.heaps[thread % self.heaps.len()];
        let Some(lock) = &heap.lock else {
            lines.own().await;
            loop {
                // A stack of Treiber's: the next one stands in the first one.
                let Some(first) = heap.free.borrow().last().copied() else { break };
                let seen = heap.changes.get();
                lines.load(heap.head).await;
                lines.load(first).await;
                lines.atomic(heap.head).await;
                if heap.changes.get() == seen {
                    heap.changes.set(seen + 1);
                    heap.free.borrow_mut().pop();
                    return first;
                }
            }
            lines.atomic(heap.head).await;
            return lines.warm_line(thread);
        };
        lock.lock(lines).await;
        lines.atomic(heap.head).await;
        lines.take().await;
        let first = heap.free.borrow_mut().pop();
        if let Some(first) = first {
            lines.load(first).await;
        }
        lock.unlock(lines).await;
        first.unwrap_or_else(|| lines.warm_line(thread))
    }

    async fn free(&self, lines: &Lines<'_>, thread: usize, item: Line) {
        let heap = &self.heaps[thread % self.heaps.len()];
        let Some(lock) = &heap.lock else {
            lines.own().await;
            lines.load(heap.head).await;
            lines.store(item).await;
            lines.atomic(heap.head).await;
            heap.changes.set(heap.changes.get() + 1);
            heap.free.borrow_mut().push(item);
            return;
        };
        lock.lock(lines).await;
        lines.store(item).await;
        lines.atomic(heap.head).await;
        lines.take().await;
        heap.free.borrow_mut().push(item);
        lock.unlock(lines).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_that_is_put_is_taken() {
        for (name, threads) in [("altix-3700", 6), ("niagara-2", 20), ("xeon-5150", 4), ("xeon-5150", 1)] {
            let machine = Machine::by_name(name).unwrap();
            for queue in [Queue::Locked, Queue::LockFree, Queue::Tickets, Queue::Distributed] {
                for (bytes, roles) in [(8, Roles::Apart), (1024, Roles::Apart), (8, Roles::Both)] {
                    let shared =
                        Shared { threads, what: What::Queue(queue, bytes, roles), operations: 400, pinned: true };
                    let run = || shared.run(&machine, &SimOptions::default(), 1.0, &mut |_| true);
                    // A run ends only when all were taken.
                    let wall = run().unwrap_or_else(|error| panic!("{name}: {shared:?}: {error}")).wall_ns;
                    assert!(wall > 0.0);
                    assert_eq!(run().unwrap().wall_ns, wall, "the same seed gives the same run");
                }
            }
        }
    }

    #[test]
    fn only_the_named_parameters_matter() {
        let machine = Machine::by_name("xeon-5150").unwrap();
        let wall = |parameters: crate::Parameters| {
            let runs = [What::Queue(Queue::Locked, 8, Roles::Apart), What::Queue(Queue::Tickets, 1024, Roles::Both)];
            let run = |what| {
                let shared = Shared { threads: 4, what, operations: 400, pinned: true };
                let options = SimOptions { parameters, ..SimOptions::default() };
                shared.run(&machine, &options, 1.0, &mut |_| true).unwrap().wall_ns
            };
            runs.map(run)
        };
        let before = wall(crate::Parameters::default());
        for name in crate::Parameters::NAMES {
            let after = wall(crate::Parameters::default().scaled(name, 1.25).unwrap());
            assert_eq!(after != before, PARAMETERS.contains(&name), "{name}");
        }
    }

    #[test]
    fn a_consumer_finds_its_neighbours_elements_by_an_ad() {
        let machine = Machine::by_name("altix-3700").unwrap();
        let lines = &Lines::new(&machine, crate::Parameters::default(), 1, &[0, 1, 2, 46]);
        let queue = &Distributed::new(lines);
        assert_eq!(queue.parts[0].neighbours, [1], "the other CPU of its node");
        let found = &Cell::new(None);
        let put = async move {
            for _ in 0..2 {
                let element = Element { node: lines.line(0), block: None };
                queue.put(lines, 0, element).await;
            }
            assert_eq!(*queue.parts[1].ads.borrow(), [0]);
            found.set(Some(false));
        };
        let take = async move {
            while found.get().is_none() {
                lines.take().await;
            }
            assert!(queue.take(lines, 1).await.is_some());
            assert!(queue.parts[0].consumed.get(), "the one who sent it may send the next");
            found.set(Some(true));
        };
        lines.run(vec![Box::pin(put) as Work<'_>, Box::pin(take)], &mut |_| true).unwrap();
        assert_eq!(found.get(), Some(true));
    }
}
