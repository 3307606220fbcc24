//! The queues under many threads, on nodes, without memory, and with elements whose drop panics.

#![expect(clippy::disallowed_methods, reason = "a test is a world of its own: it may start threads")]

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::alloc::Layout;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use vicus_memory::{
    AllocError, Closed, DistOptions, DistQueue, FakePages, LfQueue, Locations, Memory, MemoryOptions, NodeSegments,
    PageError, PushError, QueueOptions, SegmentSource, SystemSegments, TryPopError, WhenFull,
};
use vicus_topology::{NodeId, Place, Topology};

/// Seven elements to a segment, and few segments kept: every edge is met often.
const TIGHT: QueueOptions = QueueOptions { segment_bytes: 1, segments_waiting: 2 };

/// The system's segments, counted.
#[derive(Default)]
struct Counted(AtomicUsize);

#[expect(unsafe_code, reason = "allocates")]
// SAFETY: the system promises all this.
unsafe impl SegmentSource for Counted {
    fn take(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        SystemSegments.take(layout)
    }

    unsafe fn give(&self, memory: NonNull<u8>, layout: Layout) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { SystemSegments.give(memory, layout) };
    }
}

/// An element of any size that counts itself.
struct Item<const WORDS: usize> {
    producer: usize,
    number: u64,
    copies: [u64; WORDS],
    alive: Arc<AtomicUsize>,
}

impl<const WORDS: usize> Item<WORDS> {
    fn new(producer: usize, number: u64, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Item { producer, number, copies: [number ^ producer as u64; WORDS], alive: alive.clone() }
    }
}

impl<const WORDS: usize> Drop for Item<WORDS> {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One consumer's view of each producer: the numbers must rise.
struct Seen {
    last: Vec<u64>,
    count: u64,
    sum: u64,
}

impl Seen {
    fn new(producers: usize) -> Seen {
        Seen { last: vec![0; producers], count: 0, sum: 0 }
    }

    fn see<const WORDS: usize>(&mut self, item: &Item<WORDS>, seed: u64) {
        let last = &mut self.last[item.producer];
        assert!(item.number > *last, "seed {seed}: {} came after {last} of producer {}", item.number, item.producer);
        assert!(item.copies.iter().all(|&copy| copy == item.number ^ item.producer as u64), "seed {seed}: torn");
        *last = item.number;
        self.count += 1;
        self.sum += item.number;
    }
}

fn now_and_then(chance: &mut Pcg64) {
    if chance.next_u32().is_multiple_of(64) {
        std::thread::yield_now();
    }
}

/// Several producers and consumers on one queue; a tenth of the elements stays in and is dropped with it.
fn lf_soak<const WORDS: usize>(options: QueueOptions, seed: u64, each: u64) {
    println!("seed {seed}");
    let (source, alive) = (Arc::new(Counted::default()), Arc::new(AtomicUsize::new(0)));
    let queue = LfQueue::<Item<WORDS>>::with_source(source.clone(), &options).unwrap();
    let (producers, to_take) = (3, 3 * each / 10 * 9);
    let taken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for producer in 0..producers {
            let (queue, alive) = (&queue, &alive);
            scope.spawn(move || {
                let mut chance = Pcg64::seed_from_u64(seed ^ (producer as u64) << 32);
                for number in 1..=each {
                    queue.push(Item::new(producer, number, alive));
                    now_and_then(&mut chance);
                }
            });
        }
        for consumer in 0..2u64 {
            let (queue, taken) = (&queue, &taken);
            scope.spawn(move || {
                let mut chance = Pcg64::seed_from_u64(seed ^ (consumer + 10) << 32);
                let mut seen = Seen::new(producers);
                while taken.load(Ordering::Relaxed) < to_take as usize {
                    now_and_then(&mut chance);
                    if let Some(item) = queue.pop() {
                        seen.see(&item, seed);
                        taken.fetch_add(1, Ordering::Relaxed);
                    } else {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    let left = 3 * each as usize - taken.into_inner();
    assert_eq!(alive.load(Ordering::Relaxed), left, "seed {seed}");
    drop(queue);
    assert_eq!(alive.load(Ordering::Relaxed), 0, "seed {seed}");
    assert_eq!(source.0.load(Ordering::Relaxed), 0, "seed {seed}: segments are missing");
}

#[test]
fn queues_lf_soak() {
    let (seeds, each) = if cfg!(miri) { (1, 60) } else { (6, 20_000) };
    for seed in 0..seeds {
        lf_soak::<1>(TIGHT, seed, each);
        lf_soak::<1>(QueueOptions::default(), seed + 100, each);
        lf_soak::<125>(TIGHT, seed + 200, each / 3);
    }
}

/// Wakes a thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The index of a location's node.
fn index(place: Place) -> usize {
    match place {
        Place::Node(node) => node.index(),
        Place::Group(group) => panic!("{group} is no location"),
    }
}

fn equal(locations: usize) -> Locations {
    Locations::from_distances(vec![vec![10; locations]; locations]).unwrap()
}

/// Producers and consumers at three locations; consumers sleep; the queue is closed under way, or at the end.
fn dist_soak<const WORDS: usize>(seed: u64, each: u64, closed_at: Option<u64>) {
    println!("seed {seed}");
    let alive = Arc::new(AtomicUsize::new(0));
    let sources: Vec<_> = (0..3).map(|_| Arc::new(Counted::default())).collect();
    let options = DistOptions { queue: TIGHT, ..DistOptions::default() };
    let queue =
        DistQueue::<Item<WORDS>>::with_source(&equal(3), &options, |place| sources[index(place)].clone()).unwrap();
    let (pushed, taken) = std::thread::scope(|scope| {
        let producers: Vec<_> = (0..4)
            .map(|producer| {
                let (queue, alive) = (&queue, &alive);
                scope.spawn(move || {
                    let mut chance = Pcg64::seed_from_u64(seed ^ (producer as u64) << 32);
                    let mut sum = 0;
                    let mut burst = None;
                    for number in 1..=each {
                        if producer == 0 && Some(number) == closed_at {
                            queue.close();
                        }
                        // Single pushes and bursts of some length.
                        match chance.next_u32() % 32 {
                            0 => burst = Some(queue.burst(NodeId::new(producer % 3))),
                            1..8 => burst = None,
                            _ => {}
                        }
                        let item = Item::new(producer, number, alive);
                        let pushed = match &mut burst {
                            Some(burst) => burst.push(item),
                            None => queue.push(NodeId::new(producer % 3), item),
                        };
                        match pushed {
                            Ok(()) => sum += number,
                            Err(PushError::Closed(back)) => assert_eq!(back.number, number, "seed {seed}"),
                            Err(error) => panic!("seed {seed}: {error}"),
                        }
                        now_and_then(&mut chance);
                    }
                    sum
                })
            })
            .collect();
        let consumers: Vec<_> = (0..3)
            .map(|location| {
                let queue = &queue;
                scope.spawn(move || {
                    let mut chance = Pcg64::seed_from_u64(seed ^ (location as u64 + 10) << 32);
                    let mut seen = Seen::new(4);
                    let place = NodeId::new(location);
                    let mut consumer = queue.consumer(place);
                    loop {
                        let taken = match chance.next_u32() % 8 {
                            0 => queue.try_pop(place),
                            1 => consumer.try_pop(),
                            2..5 => block_on(queue.pop(place)).map_err(|Closed| TryPopError::Closed),
                            _ => block_on(consumer.pop()).map_err(|Closed| TryPopError::Closed),
                        };
                        match taken {
                            Ok(item) => seen.see(&item, seed),
                            Err(TryPopError::Empty) => std::thread::yield_now(),
                            Err(TryPopError::Closed) => break,
                        }
                    }
                    seen.sum
                })
            })
            .collect();
        let pushed: u64 = producers.into_iter().map(|producer| producer.join().unwrap()).sum();
        queue.close();
        (pushed, consumers.into_iter().map(|consumer| consumer.join().unwrap()).sum::<u64>())
    });
    assert_eq!(taken, pushed, "seed {seed}: what got in comes out");
    assert_eq!(alive.load(Ordering::Relaxed), 0, "seed {seed}: all that came out was dropped");
    drop(queue);
    assert!(sources.iter().all(|source| source.0.load(Ordering::Relaxed) == 0), "seed {seed}: segments are missing");
}

#[test]
fn queues_dist_soak() {
    let (seeds, each) = if cfg!(miri) { (1, 40) } else { (6, 10_000) };
    for seed in 0..seeds {
        dist_soak::<1>(seed, each, None);
        dist_soak::<1>(seed + 100, each, Some(each / 2));
        dist_soak::<125>(seed + 200, each / 4, None);
    }
}

/// Many consumers at one location wait for as many elements: each is woken.
#[test]
fn queues_wake_as_many_as_there_are_elements() {
    let rounds = if cfg!(miri) { 3 } else { 2000 };
    for _ in 0..rounds {
        let queue =
            DistQueue::<u32>::with_source(&equal(2), &DistOptions::default(), |_| Arc::new(SystemSegments)).unwrap();
        std::thread::scope(|scope| {
            let consumers = [0, 1, 0].map(|at| {
                let queue = &queue;
                scope.spawn(move || block_on(queue.pop(NodeId::new(at))).unwrap())
            });
            (0..3).for_each(|value| queue.push(NodeId::new(0), value).unwrap());
            let mut taken = consumers.map(|consumer| consumer.join().unwrap());
            taken.sort_unstable();
            assert_eq!(taken, [0, 1, 2]);
        });
    }
}

#[test]
fn queues_lie_on_their_nodes_and_say_when_those_are_full() {
    let machine = Topology::parse("node:2 core:1").unwrap();
    let pages = Arc::new(FakePages::new(2));
    let options = MemoryOptions {
        range_bytes: 32 << 20,
        superblock_bytes: 1 << 20,
        when_full: WhenFull::Strict,
        ..MemoryOptions::default()
    };
    let memory = Memory::new(pages.clone(), &machine, options).unwrap();
    let source = |place: Place| -> Arc<dyn SegmentSource> { Arc::new(NodeSegments::new(&memory, place).unwrap()) };
    let locations = Locations::nodes(&machine);
    let queue = DistQueue::<[u64; 128]>::with_source(&locations, &DistOptions::default(), source).unwrap();
    let held = || [0, 1].map(|node| memory.counts(NodeId::new(node)).held);
    assert_eq!(held(), [1, 1], "a segment each from the beginning");
    // 1,500 elements are 1.5 MiB and more: a second superblock, on the node of the pushes.
    (0..1500).for_each(|value| queue.push(NodeId::new(1), [value; 128]).unwrap());
    assert_eq!(held()[0], 1);
    assert!(held()[1] >= 2);
    pages.set_free(NodeId::new(1), 0);
    let mut refused = None;
    for value in 1500..9000 {
        refused = refused.or(queue.push(NodeId::new(1), [value; 128]).err());
        if refused.is_some() {
            break;
        }
    }
    let refused = refused.expect("the node is full");
    assert!(
        matches!(refused, PushError::Exhausted(_, AllocError::Exhausted { error: PageError::Full, .. })),
        "{refused:?}"
    );
    let last = refused.into_element()[0];
    // The other node's subqueue still takes elements, and all accepted ones come out in order.
    queue.push(NodeId::new(0), [7; 128]).unwrap();
    assert_eq!(queue.try_pop(NodeId::new(0)).unwrap()[0], 7);
    let taken: Vec<u64> =
        std::iter::from_fn(|| queue.try_pop(NodeId::new(1)).ok()).map(|element| element[127]).collect();
    assert!(taken.iter().copied().eq(0..last), "{} of {last}", taken.len());
    queue.push(NodeId::new(1), [1; 128]).expect("there are segments again");
    drop(queue);
    assert_eq!(held(), [0, 0]);
}

/// Panics when it is dropped, if told to.
struct Explosive(bool, Arc<AtomicUsize>);

impl Drop for Explosive {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
        assert!(!self.0, "as planned");
    }
}

#[test]
fn queues_drop_the_rest_when_a_drop_panics() {
    let (source, dropped) = (Arc::new(Counted::default()), Arc::new(AtomicUsize::new(0)));
    let queue = LfQueue::with_source(source.clone(), &TIGHT).unwrap();
    (0..30).for_each(|number| queue.push(Explosive(number == 11, dropped.clone())));
    let panicked = catch_unwind(AssertUnwindSafe(|| drop(queue))).is_err();
    assert!(panicked);
    assert_eq!(dropped.load(Ordering::Relaxed), 30);
    assert_eq!(source.0.load(Ordering::Relaxed), 0);
}

#[test]
fn queues_take_elements_of_no_size_and_of_large_alignment() {
    #[derive(Debug, PartialEq)]
    #[repr(align(512))]
    struct Wide(u8);

    let nothing = LfQueue::new();
    (0..5000).for_each(|_| nothing.push(()));
    assert_eq!(std::iter::from_fn(|| nothing.pop()).count(), 5000);
    let wide = LfQueue::with_source(Arc::new(SystemSegments), &TIGHT).unwrap();
    (0..100).for_each(|value| wide.push(Wide(value)));
    assert!((0..100).all(|value| wide.pop() == Some(Wide(value))));
    assert_eq!(wide.pop(), None);
    assert!(wide.is_empty());
}
