//! A thread's own handles at a [`DistQueue`], to push many elements or to take many.

use crate::queues::dist_queue::{Closed, DistQueue, PushError, Subqueue, TryPopError};
use crate::queues::lf_queue::{Refusal, Reserved};
use crate::queues::mutant::Mutant;
use crate::sizes::LINE;
use crate::sync::order_in_models;
use std::fmt;
use std::mem::ManuallyDrop;
use vicus_topology::{LocationId, Place};

impl<T> DistQueue<T> {
    /// A handle for many pushes at a place by one thread, each cheaper than a single one: see [`Burst`]. Panics if
    /// there is no such place.
    pub fn burst(&self, place: impl Into<Place>) -> Burst<'_, T> {
        let location = self.location(place);
        Burst { queue: self, subqueue: self.subqueue(location), location, reserved: None }
    }

    /// One thread's consumer at a place; it goes on at its last source: see [`Consumer`]. Panics if there is no such
    /// place.
    pub fn consumer(&self, place: impl Into<Place>) -> Consumer<'_, T> {
        let location = self.location(place);
        Consumer { queue: self, location, source: location, left: 0 }
    }
}

/// How many slots a burst claims at once: four lines of words. One for large elements: keeping the producer near the
/// consumer then matters more than the cost of the claim.
const fn claimed_at_once<T>() -> usize {
    let elements = 4 * LINE / if size_of::<T>() > 0 { size_of::<T>() } else { 1 };
    match elements {
        _ if cfg!(loom) => 2,
        0 => 1,
        1..28 => elements,
        28.. => 28,
    }
}

/// Many pushes at one place by one thread: see [`DistQueue::burst`].
///
/// It claims several slots with one atomic exchange, and then only writes to them. Each element can be taken as soon as
/// it is in, and a sleeping consumer is woken for it. Elements come in the order of their pushes.
///
/// Claimed, unwritten slots are like pushes under way: elements pushed by others at this location meanwhile come after
/// them. Consumers that find nothing else look again and again instead of falling asleep, and are not told that the
/// queue is closed. So a burst is for a loop of pushes without waits; when it is dropped or told to
/// [`pause`](Burst::pause), it gives its slots back.
///
/// ```
/// use vicus_memory::DistQueue;
/// use vicus_topology::Topology;
///
/// let machine = Topology::parse("node:2 core:2").unwrap();
/// let (here, there) = (machine.nodes[0].id, machine.nodes[1].id);
/// let queue = DistQueue::new(&machine);
/// let mut burst = queue.burst(here);
/// (1..4).for_each(|number| burst.push(number).unwrap());
/// assert_eq!(queue.try_pop(here), Ok(1));
/// drop(burst);
/// queue.push(here, 4).unwrap();
/// assert!((2..5).all(|number| queue.try_pop(there) == Ok(number)));
/// ```
#[must_use = "a burst pushes what it is given"]
pub struct Burst<'a, T> {
    queue: &'a DistQueue<T>,
    subqueue: &'a Subqueue<T>,
    location: LocationId,
    reserved: Option<Reserved<T>>,
}

impl<T> fmt::Debug for Burst<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Burst").field("location", &self.location).finish_non_exhaustive()
    }
}

impl<T> Burst<'_, T> {
    /// Like [`DistQueue::push`].
    ///
    /// # Errors
    /// The queue is closed, or the location has no memory left; the element comes back.
    #[inline]
    pub fn push(&mut self, element: T) -> Result<(), PushError<T>> {
        let Burst { queue, subqueue, location, reserved } = self;
        let put = queue.put_unless_closing(element, |element| match subqueue.queue.put_reserved(reserved, element) {
            true => Ok(()),
            false => put_more(queue, subqueue, reserved, element),
        });
        if put.is_err() {
            // Consumers wait for these slots, and after a refusal the caller may not push again.
            self.pause();
            return put;
        }
        queue.notify(*location, subqueue, || match reserved {
            Some(reserved) => subqueue.queue.had_others_before(reserved),
            None => subqueue.queue.has_more_than_one(),
        });
        Ok(())
    }

    /// Gives back its unwritten slots; the next push claims others.
    pub fn pause(&mut self) {
        if let Some(reserved) = self.reserved.take() {
            self.subqueue.queue.give_back(reserved);
        }
    }
}

/// The push of a burst without slots: claims slots for this element and the next ones, if the segment has some.
#[cold]
fn put_more<T>(
    queue: &DistQueue<T>,
    subqueue: &Subqueue<T>,
    reserved: &mut Option<Reserved<T>>,
    element: &ManuallyDrop<T>,
) -> Result<(), Refusal> {
    *reserved = subqueue.queue.reserve(claimed_at_once::<T>());
    if !queue.planted.has(Mutant::ClaimUnordered) {
        order_in_models();
    }
    if !subqueue.queue.put_reserved(reserved, element) {
        subqueue.queue.put(element)?;
        order_in_models();
    }
    Ok(())
}

impl<T> Drop for Burst<'_, T> {
    fn drop(&mut self) {
        self.pause();
    }
}

/// How many elements a [`Consumer`] takes from another location before it looks around again.
const RUN: u32 = if cfg!(loom) { 2 } else { 64 };

/// One consumer at a place: see [`DistQueue::consumer`].
///
/// It takes from its own location first, like every consumer. If that is empty, it first goes on at its last source, if
/// more elements were seen there, for up to 64 elements in a row; then it looks at advertisements and around, like
/// every consumer. So a nearer element may come a little later, and one from far away costs less.
///
/// ```
/// use vicus_memory::{DistQueue, TryPopError};
/// use vicus_topology::Topology;
///
/// let machine = Topology::parse("node:2 core:2").unwrap();
/// let queue = DistQueue::new(&machine);
/// (1..4).for_each(|number| queue.push(machine.nodes[0].id, number).unwrap());
/// let mut consumer = queue.consumer(machine.nodes[1].id);
/// assert_eq!([1, 2, 3].map(|_| consumer.try_pop()), [Ok(1), Ok(2), Ok(3)]);
/// assert_eq!(consumer.try_pop(), Err(TryPopError::Empty));
/// ```
#[must_use = "a consumer takes nothing by itself"]
pub struct Consumer<'a, T> {
    queue: &'a DistQueue<T>,
    location: LocationId,
    /// The last source of an element.
    source: LocationId,
    /// How many more it may take there.
    left: u32,
}

impl<T> fmt::Debug for Consumer<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("location", &self.location).finish_non_exhaustive()
    }
}

impl<T> Consumer<'_, T> {
    /// Like [`DistQueue::try_pop`], except for its first look.
    ///
    /// # Errors
    /// There is none at the moment, or never again.
    #[inline]
    pub fn try_pop(&mut self) -> Result<T, TryPopError> {
        let Consumer { queue, location, source, left } = self;
        if let Some(element) = queue.take_here(*location) {
            return Ok(element);
        }
        if *left > 0 {
            *left -= 1;
            if let Some(element) = queue.take_seen(*source) {
                return Ok(element);
            }
        }
        let found = queue.try_everywhere(*location);
        if let (Ok(_), Some(at)) = (&found, queue.subqueue(*location).last_source()) {
            (*source, *left) = (at, RUN);
        }
        found
    }

    /// An element, as a future: as [`DistQueue::pop`].
    ///
    /// # Errors
    /// The queue is closed, and all its elements were taken.
    pub async fn pop(&mut self) -> Result<T, Closed> {
        match self.try_pop() {
            Ok(element) => Ok(element),
            Err(_) => self.queue.pop_at(self.location).await,
        }
    }
}
