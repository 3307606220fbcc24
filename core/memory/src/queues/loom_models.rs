//! Models of the queues: loom checks every interleaving of a few calls.
//!
//! Each model runs as it is, and once for each planted mistake; it has to find the mistake.

#![expect(clippy::disallowed_types, reason = "a model's own records are outside of what is modelled")]

use super::dist_queue::{Closed, DistOptions, DistQueue, Locations};
use super::lf_queue::LfQueue;
use super::mutant::{Mutant, Planted};
use super::segment::{How, Segment, Stalled};
use super::source::{SegmentSource, SystemSegments};
use crate::memory::AllocError;
use loom::sync::Notify;
use std::alloc::Layout;
use std::collections::VecDeque;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use vicus_topology::NodeId;

/// Runs a model; bounded, as all interleavings would take hours.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Counts the system's segments: none may be missing in the end.
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

impl Drop for Counted {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(*self.0.get_mut(), 0, "segments are missing");
        }
    }
}

fn queue<T>(slots: usize, stalled: Stalled, mutant: Option<Mutant>) -> LfQueue<T> {
    let how = How { shape: Segment::<T>::shape_of(slots), stalled, planted: Planted::new(mutant) };
    LfQueue::with(Arc::new(Counted::default()), how, 1).unwrap()
}

/// A value dropped only if its model has not failed: a failed model's loom parts can't be used any more, and a drop
/// uses them.
struct Unfailed<T>(ManuallyDrop<T>);

impl<T> Unfailed<T> {
    fn new(value: T) -> Unfailed<T> {
        Unfailed(ManuallyDrop::new(value))
    }
}

impl<T> Deref for Unfailed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Unfailed<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Clone> Clone for Unfailed<T> {
    fn clone(&self) -> Unfailed<T> {
        Unfailed::new(T::clone(self))
    }
}

impl<T> Drop for Unfailed<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            #[expect(unsafe_code, reason = "drops by hand")]
            // SAFETY: it is not used after this drop.
            unsafe {
                ManuallyDrop::drop(&mut self.0);
            }
        }
    }
}

/// The places of the first two locations.
const HERE: NodeId = NodeId::new(0);
const THERE: NodeId = NodeId::new(1);

fn dist<T>(locations: usize, slots: usize, mutant: Option<Mutant>) -> Unfailed<Arc<DistQueue<T>>> {
    let locations = Locations::from_distances(vec![vec![10; locations]; locations]).unwrap();
    let subqueue = |_| Ok(queue(slots, Stalled::Awaited, mutant));
    let queue = DistQueue::with_queues(&locations, &DistOptions::default(), Planted::new(mutant), subqueue);
    Unfailed::new(Arc::new(queue.unwrap()))
}

// ---- linearizability ----

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Pushed(u32),
    Popped(Option<u32>),
}

/// A call: its beginning, its end, its result.
type Call = (usize, usize, Done);

/// The calls of a model's threads, in the order of the interleaving.
#[derive(Default)]
struct History {
    clock: AtomicUsize,
    calls: Mutex<Vec<Call>>,
}

impl History {
    /// Acts and records. The fences order an ended call before one that begins afterwards, as linearizability asks for.
    fn record(&self, act: impl FnOnce() -> Done) {
        let fence = || loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
        fence();
        let began = self.clock.fetch_add(1, Ordering::SeqCst);
        let done = act();
        let ended = self.clock.fetch_add(1, Ordering::SeqCst);
        fence();
        self.calls.lock().unwrap().push((began, ended, done));
    }

    fn push(&self, queue: &LfQueue<u32>, value: u32) {
        self.record(|| {
            queue.push(value);
            Done::Pushed(value)
        });
    }

    fn pop(&self, queue: &LfQueue<u32>) {
        self.record(|| Done::Popped(queue.pop()));
    }

    fn assert_linearizable(&self) {
        let calls = self.calls.lock().unwrap().clone();
        assert!(explains(&calls, &VecDeque::new()), "no order of these calls is that of a queue: {calls:?}");
    }
}

/// Whether a sequential queue can have given these results, in an order with every ended call before the calls that
/// began after it (Wing and Gong, "Testing and verifying concurrent objects", JPDC 1993).
fn explains(calls: &[Call], queue: &VecDeque<u32>) -> bool {
    let Some(first_end) = calls.iter().map(|call| call.1).min() else { return true };
    (0..calls.len()).filter(|&at| calls[at].0 < first_end).any(|at| {
        let mut queue = queue.clone();
        let fits = match calls[at].2 {
            Done::Pushed(value) => {
                queue.push_back(value);
                true
            }
            Done::Popped(value) => queue.pop_front() == value,
        };
        let rest = [&calls[..at], &calls[at + 1..]].concat();
        fits && explains(&rest, &queue)
    })
}

#[test]
fn loom_the_checker_knows_a_queue_from_a_stack() {
    use Done::{Popped, Pushed};
    let calls = |order: [Done; 4]| -> Vec<Call> { (0..4).map(|at| (2 * at, 2 * at + 1, order[at])).collect() };
    let explained = |order| explains(&calls(order), &VecDeque::new());
    assert!(explained([Pushed(1), Pushed(2), Popped(Some(1)), Popped(Some(2))]));
    assert!(!explained([Pushed(1), Pushed(2), Popped(Some(2)), Popped(Some(1))]));
    assert!(!explained([Pushed(1), Popped(None), Popped(Some(1)), Popped(None)]));
    let overlapping = [(0, 3, Pushed(1)), (1, 2, Popped(None)), (4, 5, Popped(Some(1)))];
    assert!(explains(&overlapping, &VecDeque::new()));
}

#[derive(Clone, Copy)]
enum Step {
    Push(u32),
    Pop,
}

/// Threads that push and pop; the elements left over are popped in the end.
fn histories(slots: usize, stalled: Stalled, mutant: Option<Mutant>, threads: &'static [&'static [Step]]) {
    check(4, move || {
        let queue = Arc::new(queue::<u32>(slots, stalled, mutant));
        let history = Arc::new(History::default());
        let run = |steps: &'static [Step]| {
            let (queue, history) = (queue.clone(), history.clone());
            move || {
                steps.iter().for_each(|step| match *step {
                    Step::Push(value) => history.push(&queue, value),
                    Step::Pop => history.pop(&queue),
                });
            }
        };
        let others: Vec<_> = threads[1..].iter().map(|steps| loom::thread::spawn(run(steps))).collect();
        run(threads[0])();
        others.into_iter().for_each(|other| other.join().unwrap());
        let pushes = threads.concat().iter().filter(|step| matches!(step, Step::Push(_))).count();
        (0..=pushes).for_each(|_| history.pop(&queue));
        history.assert_linearizable();
    });
}

use Step::{Pop as Take, Push as Put};

/// Within a segment: claimed, unwritten slots.
const IN_A_SEGMENT: &[&[Step]] = &[&[Put(1)], &[Put(2)], &[Take, Take]];
/// Over segments: links, moves of both words, recycling.
const OVER_SEGMENTS: &[&[Step]] = &[&[Put(1), Put(2)], &[Take, Take]];
/// Both sides over the edge of a segment at once.
const AT_THE_EDGE: &[&[Step]] = &[&[Put(1)], &[Put(2)], &[Take]];

#[test]
fn loom_lf_queue_is_linearizable_within_a_segment() {
    histories(4, Stalled::Skipped, None, IN_A_SEGMENT);
}

#[test]
fn loom_lf_queue_is_linearizable_over_segments() {
    histories(1, Stalled::Skipped, None, OVER_SEGMENTS);
}

#[test]
fn loom_lf_queue_is_linearizable_at_the_edge() {
    histories(1, Stalled::Skipped, None, AT_THE_EDGE);
}

#[test]
#[should_panic]
fn loom_lf_queue_mutant_an_announcement_without_release_is_found() {
    histories(4, Stalled::Skipped, Some(Mutant::FullRelaxed), IN_A_SEGMENT);
}

#[test]
#[should_panic]
fn loom_lf_queue_mutant_a_skipped_slot_that_its_producer_overlooks_is_found() {
    histories(4, Stalled::Skipped, Some(Mutant::SkipUnseen), IN_A_SEGMENT);
}

#[test]
#[should_panic]
fn loom_lf_queue_mutant_awaiting_a_stalled_producer_is_found() {
    histories(4, Stalled::Awaited, None, IN_A_SEGMENT);
}

// ---- recycling ----

/// One thread goes over segments and back to recycled ones while another is still in the first.
fn recycling(mutant: Option<Mutant>) {
    check(2, move || {
        let queue = Arc::new(queue::<u32>(1, Stalled::Skipped, mutant));
        queue.push(1);
        let other = {
            let queue = queue.clone();
            loom::thread::spawn(move || queue.pop().into_iter().collect::<Vec<u32>>())
        };
        let mut taken = Vec::new();
        for value in 2..4 {
            queue.push(value);
            taken.extend(queue.pop());
        }
        let others = other.join().unwrap();
        taken.extend(queue.pop());
        assert!(taken.is_sorted(), "{taken:?}");
        taken.extend(others);
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3]);
    });
}

#[test]
fn loom_segments_are_recycled_when_no_thread_is_in_them() {
    recycling(None);
}

#[test]
#[should_panic]
fn loom_segments_mutant_recycling_at_once_is_found() {
    recycling(Some(Mutant::RecycleAtOnce));
}

#[test]
#[should_panic]
fn loom_segments_mutant_leaving_a_slot_before_reading_it_is_found() {
    recycling(Some(Mutant::DoneEarly));
}

// ---- the distributed queue ----

/// Wakes a thread of the model.
struct Unpark(Notify);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.notify();
    }
}

fn block_on<F: Future + Unpin>(future: F) -> F::Output {
    let unpark = Arc::new(Unpark(Notify::new()));
    let waker = Unfailed::new(Waker::from(unpark.clone()));
    let mut future = Unfailed::new(future);
    loop {
        match Pin::new(&mut *future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => {
                // It may have woken itself for a push under way, and this push needs the processor.
                loom::thread::yield_now();
                unpark.0.wait();
            }
        }
    }
}

/// How a producer pushes.
#[derive(Clone, Copy)]
enum Way {
    Single,
    Burst,
}

/// Pushes at the first location. Gives the accepted values.
fn push_all(queue: &DistQueue<u32>, way: Way, values: std::ops::Range<u32>) -> Vec<u32> {
    let mut burst = Unfailed::new(queue.burst(HERE));
    let push = |&value: &u32| match way {
        Way::Single => queue.push(HERE, value).is_ok(),
        Way::Burst => burst.push(value).is_ok(),
    };
    values.filter(push).collect()
}

/// A producer at one location, and consumers at this and another one that look and don't wait.
fn end_to_end(way: Way, mutant: Option<Mutant>) {
    check(2, move || {
        let queue = dist::<u32>(2, 2, mutant);
        let consumer = |place: NodeId| {
            let queue = queue.clone();
            move || (0..2).filter_map(|_| queue.try_pop(place).ok()).collect::<Vec<u32>>()
        };
        let other = loom::thread::spawn(consumer(THERE));
        assert_eq!(push_all(&queue, way, 1..4), [1, 2, 3]);
        let mut mine = consumer(HERE)();
        let others = other.join().unwrap();
        mine.extend(std::iter::from_fn(|| queue.try_pop(HERE).ok()));
        assert!(mine.is_sorted() && others.is_sorted(), "{mine:?} {others:?}");
        mine.extend(others);
        mine.sort_unstable();
        assert_eq!(mine, [1, 2, 3]);
    });
}

#[test]
fn loom_dist_queue_keeps_each_producers_order() {
    end_to_end(Way::Single, None);
}

#[test]
fn loom_dist_queue_keeps_the_order_of_a_burst() {
    end_to_end(Way::Burst, None);
}

#[test]
#[should_panic]
fn loom_dist_queue_mutant_an_announcement_without_release_is_found() {
    end_to_end(Way::Single, Some(Mutant::FullRelaxed));
}

#[test]
#[should_panic]
fn loom_dist_queue_mutant_a_burst_without_release_is_found() {
    end_to_end(Way::Burst, Some(Mutant::FullRelaxed));
}

/// A consumer goes on at another location while one of that location takes from it.
fn goes_on(mutant: Option<Mutant>) {
    check(3, move || {
        let queue = dist::<u32>(2, 4, mutant);
        (1..4).for_each(|value| queue.push(HERE, value).unwrap());
        let other = {
            let queue = queue.clone();
            loom::thread::spawn(move || {
                let mut consumer = queue.consumer(THERE);
                (0..2).filter_map(|_| consumer.try_pop().ok()).collect::<Vec<u32>>()
            })
        };
        let mut mine: Vec<u32> = queue.try_pop(HERE).into_iter().collect();
        let others = other.join().unwrap();
        mine.extend(std::iter::from_fn(|| queue.try_pop(HERE).ok()));
        assert!(mine.is_sorted() && others.is_sorted(), "{mine:?} {others:?}");
        mine.extend(others);
        mine.sort_unstable();
        assert_eq!(mine, [1, 2, 3]);
    });
}

#[test]
fn loom_a_consumer_that_goes_on_takes_each_element_once() {
    goes_on(None);
}

#[test]
#[should_panic]
fn loom_a_consumer_mutant_that_ignores_a_quicker_one_is_found() {
    goes_on(Some(Mutant::SlotShared));
}

/// A burst ends with an unwritten slot while another thread pushes at the same location and one consumes.
fn burst_ends(mutant: Option<Mutant>) {
    check(2, move || {
        let queue = dist::<u32>(1, 3, mutant);
        let other = {
            let queue = queue.clone();
            loom::thread::spawn(move || queue.push(HERE, 9).unwrap())
        };
        let consumer = {
            let queue = queue.clone();
            loom::thread::spawn(move || queue.try_pop(HERE).ok())
        };
        assert_eq!(push_all(&queue, Way::Burst, 1..2), [1]);
        other.join().unwrap();
        let mut taken: Vec<u32> = consumer.join().unwrap().into_iter().collect();
        taken.extend(std::iter::from_fn(|| queue.try_pop(HERE).ok()));
        taken.sort_unstable();
        assert_eq!(taken, [1, 9]);
        assert!(queue.is_empty(), "nothing is left of the burst");
    });
}

#[test]
fn loom_a_burst_gives_its_slots_back() {
    burst_ends(None);
}

#[test]
#[should_panic]
fn loom_a_burst_mutant_that_keeps_its_slots_is_found() {
    burst_ends(Some(Mutant::SlotsKept));
}

#[test]
#[should_panic]
fn loom_a_burst_mutant_that_forces_the_tail_back_is_found() {
    burst_ends(Some(Mutant::TailForced));
}

/// A consumer sleeps at one location; an element is put in at another.
fn sleeper(way: Way, mutant: Option<Mutant>) {
    check(3, move || {
        let queue = dist::<u32>(2, 2, mutant);
        let producer = {
            let queue = queue.clone();
            loom::thread::spawn(move || assert_eq!(push_all(&queue, way, 7..8), [7]))
        };
        assert_eq!(block_on(queue.pop(THERE)), Ok(7));
        producer.join().unwrap();
    });
}

#[test]
fn loom_a_sleeper_is_woken() {
    sleeper(Way::Single, None);
}

#[test]
fn loom_a_sleeper_is_woken_by_a_burst() {
    sleeper(Way::Burst, None);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_sleeper_mutant_a_burst_that_wakes_no_sleeper_is_found() {
    sleeper(Way::Burst, Some(Mutant::NoWake));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_sleeper_mutant_a_burst_whose_claim_is_unordered_is_found() {
    sleeper(Way::Burst, Some(Mutant::ClaimUnordered));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_sleeper_mutant_a_push_that_wakes_no_sleeper_is_found() {
    sleeper(Way::Single, Some(Mutant::NoWake));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_sleeper_mutant_sleeping_without_a_second_look_is_found() {
    sleeper(Way::Single, Some(Mutant::NoSecondLook));
}

/// A woken consumer gives up while another sleeps.
fn giving_up(mutant: Option<Mutant>) {
    check(3, move || {
        let queue = dist::<u32>(1, 2, mutant);
        let mut first = Unfailed::new(queue.pop(HERE));
        let woken = Arc::new(Unpark(Notify::new()));
        let waker = Unfailed::new(Waker::from(woken));
        assert!(Pin::new(&mut *first).poll(&mut Context::from_waker(&waker)).is_pending());
        let second = {
            let queue = queue.clone();
            loom::thread::spawn(move || block_on(queue.pop(HERE)))
        };
        queue.push(HERE, 7).unwrap();
        drop(first);
        assert_eq!(second.join().unwrap(), Ok(7));
    });
}

#[test]
fn loom_a_wake_up_is_passed_on() {
    giving_up(None);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_wake_up_mutant_that_is_kept_is_found() {
    giving_up(Some(Mutant::NoPassing));
}

/// Two consumers wait for one element each.
#[test]
fn loom_each_element_wakes_a_sleeper() {
    check(1, || {
        let queue = dist::<u32>(1, 2, None);
        let consumer = || {
            let queue = queue.clone();
            loom::thread::spawn(move || block_on(queue.pop(HERE)).unwrap())
        };
        let consumers = [consumer(), consumer()];
        (1..3).for_each(|value| queue.push(HERE, value).unwrap());
        let mut taken = consumers.map(|consumer| consumer.join().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

/// The queue is closed while one thread pushes and another takes until the end.
fn close(way: Way, mutant: Option<Mutant>) {
    check(2, move || {
        let queue = dist::<u32>(1, 1, mutant);
        let producer = {
            let queue = queue.clone();
            loom::thread::spawn(move || push_all(&queue, way, 1..3))
        };
        let closer = {
            let queue = queue.clone();
            loom::thread::spawn(move || queue.close())
        };
        let mut taken = Vec::new();
        let closed = loop {
            match block_on(queue.pop(HERE)) {
                Ok(value) => taken.push(value),
                Err(closed) => break closed,
            }
        };
        assert_eq!(closed, Closed);
        let pushed = producer.join().unwrap();
        closer.join().unwrap();
        assert_eq!(taken, pushed, "what was let in comes out before the queue is said to be closed");
    });
}

#[test]
fn loom_close_loses_nothing() {
    close(Way::Single, None);
}

#[test]
fn loom_close_loses_nothing_of_a_burst() {
    close(Way::Burst, None);
}

#[test]
#[should_panic]
fn loom_close_mutant_an_early_end_of_a_burst_is_found() {
    close(Way::Burst, Some(Mutant::ClosedEarly));
}

#[test]
#[should_panic]
fn loom_close_mutant_an_early_end_is_found() {
    close(Way::Single, Some(Mutant::ClosedEarly));
}
