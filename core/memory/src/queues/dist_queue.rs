//! A queue for each location, and consumers that find the elements of other locations.
//!
//! Wheeler, Thain, Murphy, §5.3 (qdqueue). The order is end to end: elements pushed at one location and popped by one
//! consumer come in order. As published:
//!
//! * An element goes into its location's subqueue. If that was not empty, advertisements go to a fixed set of
//!   neighbours, unless the last ones have not been consumed yet; so a push does bounded work, however large the
//!   machine is.
//! * A consumer takes from its own location first, then serves its advertisements, the nearest first, then looks at all
//!   others by distance. At a location without elements, it looks at that location's last source. An advertisement that
//!   arrives meanwhile is served at once.
//!
//! We differ: a [`super::Consumer`] first goes on at its last source, for a while; a [`super::Burst`] claims slots for
//! many pushes at once; a consumer that finds nothing can sleep, and each push that finds a sleeper wakes the nearest;
//! the queue can be closed; and the caller names its location, while the published queue takes it from the running
//! thread.
//!
//! **Sleep.** A consumer registers, looks everywhere once more, and sleeps. A push puts its element in, then looks for
//! a registered consumer. Both are sequentially consistent: either the push sees the sleeper, or the sleeper's look
//! comes after the push. The push reads a single word; this word changes only when a consumer falls asleep or wakes, or
//! the queue is closed. The pushes of a burst rely on the claim of their slots: a look after the claim finds claimed
//! slots, and does not end in sleep before they are written or given back.
//!
//! **Close.** A bit in each subqueue's tail: a push either happens before it and is found by all later looks, or gives
//! its element back. Consumers are told *closed* when all subqueues were closed before they looked at the first, and no
//! push was under way; so they find the elements that a burst still writes to slots claimed before.

use crate::memory::AllocError;
use crate::queues::ads::{Issued, Received};
use crate::queues::lf_queue::{LfQueue, QueueOptions, Refusal, TakeResult};
use crate::queues::mutant::{Mutant, Planted};
use crate::queues::segment::{How, Segment, Stalled};
use crate::queues::sleepers::Sleepers;
use crate::queues::source::{SegmentSource, SystemSegments};
use crate::sync::{AtomicU32, AtomicUsize, Ordering, Padded, order_in_models};
use std::fmt;
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use vicus_topology::{ByPlace, GroupId, LocationId, NodeId, Place, Topology};

/// The locations of a [`DistQueue`]: their places, and their distances from each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    /// `distances[from][to]`.
    distances: Vec<Vec<u32>>,
    /// The place of each location.
    places: Vec<Place>,
    /// The location for each place.
    nearest: ByPlace<LocationId>,
}

/// Why a table is not one of distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocationsError {
    /// There is no location.
    None,
    /// A row has another number of distances than there are locations.
    Row {
        /// The row.
        row: usize,
        /// How many distances it has.
        columns: usize,
        /// How many locations there are.
        locations: usize,
    },
}

impl fmt::Display for LocationsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocationsError::None => f.write_str("a queue has at least one location"),
            LocationsError::Row { row, columns, locations } => {
                write!(f, "row {row} has {columns} distances; there are {locations} locations, so it must have as many")
            }
        }
    }
}

impl std::error::Error for LocationsError {}

impl Locations {
    /// A location for each NUMA node. A core group means its node.
    pub fn nodes(topology: &Topology) -> Locations {
        Locations {
            distances: topology.distances.clone(),
            places: topology.nodes.iter().map(|node| node.id.into()).collect(),
            nearest: ByPlace::new(topology, |place| LocationId::new(topology.node_of(place).index())),
        }
    }

    /// A location for each core group, usually a last-level cache. A node means its first group; a node without cores
    /// means the first group of the nearest node with some.
    pub fn core_groups(topology: &Topology) -> Locations {
        let groups = &topology.core_groups;
        let row = |from: NodeId| groups.iter().map(|to| topology.numa_value(from, to.node)).collect();
        let first = |node: NodeId| groups.iter().find(|group| group.node == node).map(|group| group.id);
        let nearest = |place| match place {
            Place::Group(group) => group,
            Place::Node(node) => {
                topology.nodes_by_distance(node).into_iter().find_map(first).expect("a machine has a core group")
            }
        };
        Locations {
            distances: groups.iter().map(|group| row(group.node)).collect(),
            places: groups.iter().map(|group| group.id.into()).collect(),
            nearest: ByPlace::new(topology, |place| {
                let group: GroupId = nearest(place);
                LocationId::new(group.index())
            }),
        }
    }

    /// Locations with these distances, `distances[from][to]`. They stand for the nodes with the indices of the rows;
    /// core groups are unknown.
    ///
    /// # Errors
    /// There is none, or a row has not as many columns as there are rows.
    pub fn from_distances(distances: Vec<Vec<u32>>) -> Result<Locations, LocationsError> {
        let locations = distances.len();
        if locations == 0 {
            return Err(LocationsError::None);
        }
        match distances.iter().position(|row| row.len() != locations) {
            Some(row) => Err(LocationsError::Row { row, columns: distances[row].len(), locations }),
            None => Ok(Locations {
                distances,
                places: (0..locations).map(|node| NodeId::new(node).into()).collect(),
                nearest: ByPlace::of_nodes((0..locations).map(LocationId::new)),
            }),
        }
    }

    /// All other locations from one, the nearest first; of equals, the one with the next index, so locations turn to
    /// different ones.
    fn by_distance(&self, from: LocationId) -> Vec<LocationId> {
        let count = self.distances.len();
        let mut others: Vec<_> = (1..count).map(|step| LocationId::new((from.index() + step) % count)).collect();
        others.sort_by_key(|&to| self.distance(from, to));
        others
    }

    fn distance(&self, from: LocationId, to: LocationId) -> u32 {
        self.distances[from.index()][to.index()]
    }

    /// The neighbours of a location, by the options.
    fn neighbours(&self, from: LocationId, options: &DistOptions) -> Vec<LocationId> {
        let mut others = self.by_distance(from);
        if let Some(&nearest) = others.first() {
            let far = self.distance(from, nearest).saturating_add(options.reach);
            others.retain(|&to| self.distance(from, to) < far);
        }
        others.truncate(options.neighbours);
        others
    }
}

/// Options of a [`DistQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistOptions {
    /// A location advertises to the others at a distance less than the nearest one's plus this. 10 by default: the
    /// operating system's distances are 10 on the node itself, and Qthreads does the same.
    pub reach: u32,
    /// The most neighbours. With 0, no location advertises.
    pub neighbours: usize,
    /// How the subqueues cut and keep their segments.
    pub queue: QueueOptions,
}

impl Default for DistOptions {
    fn default() -> DistOptions {
        DistOptions { reach: 10, neighbours: 8, queue: QueueOptions::default() }
    }
}

/// Why a push gave its element back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PushError<T> {
    /// The queue is closed.
    Closed(T),
    /// The location's segment source has no memory left.
    Exhausted(T, AllocError),
}

impl<T> PushError<T> {
    /// The element.
    pub fn into_element(self) -> T {
        let (PushError::Closed(element) | PushError::Exhausted(element, _)) = self;
        element
    }
}

impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PushError::Closed(_) => f.write_str("Closed(..)"),
            PushError::Exhausted(_, error) => write!(f, "Exhausted(.., {error:?})"),
        }
    }
}

impl<T> fmt::Display for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PushError::Closed(_) => f.write_str("the queue is closed and takes no more elements"),
            PushError::Exhausted(_, error) => write!(f, "the queue has no memory for another element: {error}"),
        }
    }
}

impl<T> std::error::Error for PushError<T> {}

/// Why a pop gave no element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryPopError {
    /// No location had one; there may be one later.
    Empty,
    /// There will never be one again.
    Closed,
}

impl fmt::Display for TryPopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryPopError::Empty => f.write_str("the queue is empty"),
            TryPopError::Closed => Closed.fmt(f),
        }
    }
}

impl std::error::Error for TryPopError {}

/// The queue is closed, and all its elements were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is closed, and all its elements were taken")
    }
}

impl std::error::Error for Closed {}

/// Pushes are refused.
const CLOSING: usize = 1;
/// All subqueues are closed.
const CLOSED: usize = 2;
/// A sleeper: the bits above the two others count them.
const SLEEPER: usize = 4;

/// The index of no location.
const NOWHERE: u32 = u32::MAX;

/// A queue for each location. Elements pushed at one location and popped by one consumer come in order; no other order
/// is promised. Consumers at a location get its own elements first, and then others', the nearest first.
///
/// Callers name a [`Place`], best their own: it means the location nearest to it ([`Locations`]). A call with a missing
/// place panics and names the place.
///
/// ```
/// use vicus_memory::{DistQueue, TryPopError};
/// use vicus_topology::Topology;
///
/// let machine = Topology::parse("node:2 core:2").unwrap();
/// let queue = DistQueue::new(&machine);
/// let (there, here) = (machine.nodes[0].id, machine.pus[2].group);
/// queue.push(there, "far").unwrap();
/// queue.push(here, "near").unwrap();
/// assert_eq!(queue.try_pop(here), Ok("near"));
/// assert_eq!(queue.try_pop(here), Ok("far"));
/// assert_eq!(queue.try_pop(here), Err(TryPopError::Empty));
/// queue.close();
/// assert_eq!(queue.push(there, "late").unwrap_err().into_element(), "late");
/// assert_eq!(queue.try_pop(there), Err(TryPopError::Closed));
/// ```
pub struct DistQueue<T> {
    subqueues: Box<[Subqueue<T>]>,
    /// The location for each place.
    nearest: ByPlace<LocationId>,
    /// Whether it is closing or closed, and how many consumers sleep.
    state: Padded<AtomicUsize>,
    sleepers: Sleepers,
    pub(super) planted: Planted,
}

/// A location's part of the queue.
pub(super) struct Subqueue<T> {
    pub(super) queue: LfQueue<T>,
    /// The advertisements received here, by the sender's index in `others`.
    received: Received,
    issued: Issued,
    /// The last source of a consumer of this location. A hint.
    source: Padded<AtomicU32>,
    /// All other locations, the nearest first.
    others: Box<[LocationId]>,
    /// The locations it advertises to, and this location's index in their `others`.
    neighbours: Box<[(LocationId, u32)]>,
}

impl<T> fmt::Debug for DistQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistQueue").field("locations", &self.locations()).finish_non_exhaustive()
    }
}

impl<T> DistQueue<T> {
    /// An empty queue with a location for each NUMA node, and the program's allocator: segments lie on the node of
    /// their first producer's touch.
    pub fn new(topology: &Topology) -> DistQueue<T> {
        DistQueue::with_source(&Locations::nodes(topology), &DistOptions::default(), |_| Arc::new(SystemSegments))
            .expect("the program's allocator gives memory or ends the program")
    }

    /// An empty queue. Each location's segments come from a source of its own, made by `source` for its place; for
    /// example [`crate::NodeSegments`].
    ///
    /// # Errors
    /// A source has no memory for a location's first segment.
    pub fn with_source(
        locations: &Locations,
        options: &DistOptions,
        mut source: impl FnMut(Place) -> Arc<dyn SegmentSource>,
    ) -> Result<DistQueue<T>, AllocError> {
        let shape = Segment::<T>::shape(options.queue.segment_bytes);
        let waiting = options.queue.segments_waiting;
        let how = How { shape, stalled: Stalled::Awaited, planted: Planted::NONE };
        DistQueue::with_queues(locations, options, how.planted, |at| LfQueue::with(source(at), how, waiting))
    }

    pub(crate) fn with_queues(
        locations: &Locations,
        options: &DistOptions,
        planted: Planted,
        mut queue: impl FnMut(Place) -> Result<LfQueue<T>, AllocError>,
    ) -> Result<DistQueue<T>, AllocError> {
        let count = locations.distances.len();
        let others: Vec<Vec<LocationId>> = (0..count).map(|at| locations.by_distance(LocationId::new(at))).collect();
        let rank_of = |from: LocationId, to: LocationId| {
            let rank = others[to.index()].iter().position(|&other| other == from);
            rank.expect("each location has all others") as u32
        };
        let subqueue = |at: usize| {
            let location = LocationId::new(at);
            let neighbours = locations.neighbours(location, options);
            Ok(Subqueue {
                queue: queue(locations.places[at])?,
                received: Received::new(count - 1),
                issued: Issued::new(),
                source: Padded(AtomicU32::new(NOWHERE)),
                others: others[at].clone().into(),
                neighbours: neighbours.into_iter().map(|to| (to, rank_of(location, to))).collect(),
            })
        };
        Ok(DistQueue {
            subqueues: (0..count).map(subqueue).collect::<Result<_, _>>()?,
            nearest: locations.nearest.clone(),
            state: Padded(AtomicUsize::new(0)),
            sleepers: Sleepers::new(),
            planted,
        })
    }

    /// How many locations there are.
    pub fn locations(&self) -> usize {
        self.subqueues.len()
    }

    /// The location for a place. Panics if there is no such place.
    #[inline]
    pub(super) fn location(&self, place: impl Into<Place>) -> LocationId {
        self.nearest[place.into()]
    }

    #[inline]
    pub(super) fn subqueue(&self, location: LocationId) -> &Subqueue<T> {
        &self.subqueues[location.index()]
    }

    /// Puts an element into the subqueue nearest to a place; best the caller's own. Wakes a sleeping consumer, if there
    /// is one. Panics if there is no such place.
    ///
    /// # Errors
    /// The queue is closed, or the location has no memory left; the element comes back.
    #[inline]
    pub fn push(&self, place: impl Into<Place>, element: T) -> Result<(), PushError<T>> {
        let location = self.location(place);
        let subqueue = self.subqueue(location);
        self.put_unless_closing(element, |element| subqueue.queue.put(element))?;
        order_in_models();
        self.notify(location, subqueue, || subqueue.queue.has_more_than_one());
        Ok(())
    }

    /// Puts an element in, unless the queue closes.
    #[inline(always)]
    pub(super) fn put_unless_closing(
        &self,
        element: T,
        put: impl FnOnce(&ManuallyDrop<T>) -> Result<(), Refusal>,
    ) -> Result<(), PushError<T>> {
        let element = ManuallyDrop::new(element);
        let closing = self.state.0.load(Ordering::Relaxed) & CLOSING != 0;
        let put = if closing { Err(Refusal::Closed) } else { put(&element) };
        put.map_err(|refusal| {
            let element = ManuallyDrop::into_inner(element);
            match refusal {
                Refusal::Closed => PushError::Closed(element),
                Refusal::Exhausted(error) => PushError::Exhausted(element, error),
            }
        })
    }

    /// Wakes a sleeper, and tells the neighbours if there were elements before the new one.
    #[inline(always)]
    pub(super) fn notify(&self, location: LocationId, subqueue: &Subqueue<T>, had_more: impl FnOnce() -> bool) {
        // The exchange of the tail comes before this load, and a sleeper looks at the tail after its registration.
        if self.state.0.load(Ordering::SeqCst) >= SLEEPER && !self.planted.has(Mutant::NoWake) {
            self.wake(location);
        }
        if !subqueue.neighbours.is_empty() && subqueue.issued.is_due() && had_more() {
            self.advertise(subqueue);
        }
    }

    /// Posts advertisements to the neighbours.
    #[cold]
    fn advertise(&self, from: &Subqueue<T>) {
        if from.issued.begin() {
            for &(to, at) in &from.neighbours {
                self.subqueue(to).received.post(at as usize);
            }
        }
    }

    /// Wakes the sleeper nearest to a location.
    #[cold]
    fn wake(&self, location: LocationId) {
        let others = &self.subqueue(location).others;
        let distance = |to: LocationId| match to == location {
            true => 0,
            false => 1 + others.iter().position(|&other| other == to).unwrap_or(others.len()),
        };
        if let Some(waker) = self.sleepers.take_nearest(distance, || self.count_sleepers(1)) {
            waker.wake();
        }
    }

    fn count_sleepers(&self, gone: usize) {
        self.state.0.fetch_sub(gone * SLEEPER, Ordering::SeqCst);
    }

    /// Takes an element for a consumer at a place: from there, or from as near as there is one. Panics if there is no
    /// such place.
    ///
    /// # Errors
    /// There is none at the moment, or never again.
    #[inline]
    pub fn try_pop(&self, place: impl Into<Place>) -> Result<T, TryPopError> {
        let location = self.location(place);
        match self.take_here(location) {
            Some(element) => Ok(element),
            None => self.try_everywhere(location),
        }
    }

    #[cold]
    pub(super) fn try_everywhere(&self, location: LocationId) -> Result<T, TryPopError> {
        self.look_everywhere(location, false).map_err(|none| match none {
            NoElement::Closed => TryPopError::Closed,
            NoElement::Empty | NoElement::InFlight => TryPopError::Empty,
        })
    }

    fn look(&self, location: LocationId) -> Result<T, NoElement> {
        match self.take_here(location) {
            Some(element) => Ok(element),
            None => self.look_everywhere(location, true),
        }
    }

    /// From the own location. The other ways have a buffer of their own for the element: so this buffer's address
    /// reaches no other function, and a large element is not copied twice.
    #[inline]
    #[expect(unsafe_code, reason = "the element is copied into place")]
    pub(super) fn take_here(&self, location: LocationId) -> Option<T> {
        let mut out = MaybeUninit::uninit();
        let subqueue = self.subqueue(location);
        // SAFETY: `out` can be written, and is initialised if the call says so.
        unsafe {
            (subqueue.queue.take(out.as_mut_ptr(), false) == TakeResult::Element).then(|| {
                subqueue.found_at(location);
                out.assume_init()
            })
        }
    }

    /// Takes an element seen by an earlier look at a location.
    #[inline]
    #[expect(unsafe_code, reason = "the element is copied into place")]
    pub(super) fn take_seen(&self, location: LocationId) -> Option<T> {
        let mut out = MaybeUninit::uninit();
        // SAFETY: `out` can be written, and is initialised if the call says so.
        unsafe { self.subqueue(location).queue.take_seen(out.as_mut_ptr()).then(|| out.assume_init()) }
    }

    #[cold]
    #[expect(unsafe_code, reason = "the element is copied into place")]
    fn look_everywhere(&self, location: LocationId, exact: bool) -> Result<T, NoElement> {
        // Read before the search: an exact search finds every element put in before the queue was closed.
        let state = self.state.0.load(Ordering::SeqCst);
        let bit = if self.planted.has(Mutant::ClosedEarly) { CLOSING } else { CLOSED };
        let closed = state & bit != 0;
        let mut out = MaybeUninit::uninit();
        let mut search =
            Search { queue: self, location, out: out.as_mut_ptr(), exact: exact || closed, in_flight: false };
        match search.run() {
            // SAFETY: the search has written it.
            true => Ok(unsafe { out.assume_init() }),
            false if search.in_flight => Err(NoElement::InFlight),
            false if closed => Err(NoElement::Closed),
            false => Err(NoElement::Empty),
        }
    }

    /// An element for a consumer at a place, as a future: the polling task sleeps until there is one or the queue is
    /// closed. Panics if there is no such place.
    pub fn pop(&self, place: impl Into<Place>) -> Pop<'_, T> {
        self.pop_at(self.location(place))
    }

    pub(super) fn pop_at(&self, location: LocationId) -> Pop<'_, T> {
        Pop { queue: self, location, sleeps: None }
    }

    /// From now on pushes give their elements back. Consumers get the elements that are in, and then
    /// [`TryPopError::Closed`]; sleeping consumers are woken. Closing again does nothing.
    pub fn close(&self) {
        self.state.0.fetch_or(CLOSING, Ordering::SeqCst);
        self.subqueues.iter().for_each(|subqueue| subqueue.queue.close());
        self.state.0.fetch_or(CLOSED, Ordering::SeqCst);
        let all = self.sleepers.take_all(|count| self.count_sleepers(count));
        all.into_iter().for_each(std::task::Waker::wake);
    }

    /// Whether there is nothing to take at the moment, by a look without synchronization.
    pub fn is_empty(&self) -> bool {
        self.subqueues.iter().all(|subqueue| subqueue.queue.is_empty())
    }
}

impl<T> Subqueue<T> {
    /// The last source of a consumer of this location. A hint.
    pub(super) fn last_source(&self) -> Option<LocationId> {
        let source = self.source.0.load(Ordering::Relaxed);
        (source != NOWHERE).then(|| LocationId::new(source as usize))
    }

    #[inline]
    fn found_at(&self, source: LocationId) {
        let source = source.index() as u32;
        // It seldom changes; without a store the line stays shared.
        if self.source.0.load(Ordering::Relaxed) != source {
            self.source.0.store(source, Ordering::Relaxed);
        }
    }
}

/// Why a look gave no element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoElement {
    Empty,
    /// A push is between claiming its slot and writing it.
    InFlight,
    Closed,
}

/// A consumer's search through all locations.
struct Search<'a, T> {
    queue: &'a DistQueue<T>,
    location: LocationId,
    /// The buffer for the element. It can be written, and holds nothing yet.
    out: *mut T,
    exact: bool,
    /// Whether a push was under way somewhere.
    in_flight: bool,
}

impl<T> Search<'_, T> {
    fn at(&self, location: LocationId) -> &'_ Subqueue<T> {
        self.queue.subqueue(location)
    }

    /// Whether an element was found.
    fn run(&mut self) -> bool {
        let here = self.location;
        if (self.exact && self.take(here)) || self.serve_ads() {
            return true;
        }
        for at in 0..self.at(here).others.len() {
            // Serves an advertisement at once if it arrives meanwhile.
            if at > 0 && self.serve_ads() {
                return true;
            }
            let other = self.at(here).others[at];
            if self.take(other) {
                return true;
            }
            if let Some(hint) = self.at(other).last_source()
                && hint != here
                && hint != other
                && self.take(hint)
            {
                return true;
            }
        }
        false
    }

    fn serve_ads(&mut self) -> bool {
        while let Some(rank) = self.at(self.location).received.take_nearest() {
            let sender = self.at(self.location).others[rank];
            self.at(sender).issued.consume();
            if self.take(sender) {
                return true;
            }
        }
        false
    }

    #[expect(unsafe_code, reason = "copies the element into place")]
    fn take(&mut self, from: LocationId) -> bool {
        // SAFETY: `out` can be written, and holds nothing yet.
        let taken = unsafe { self.at(from).queue.take(self.out, self.exact) };
        match taken {
            TakeResult::Element => self.at(self.location).found_at(from),
            TakeResult::InFlight => self.in_flight = true,
            TakeResult::Empty => {}
        }
        taken == TakeResult::Element
    }
}

/// The future of [`DistQueue::pop`]. A dropped one passes its wake-up on.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Pop<'a, T> {
    queue: &'a DistQueue<T>,
    location: LocationId,
    /// Its number among the sleepers, while it is one.
    sleeps: Option<u64>,
}

impl<T> Pop<'_, T> {
    fn join_sleepers(&mut self, cx: &Context<'_>) {
        let queue = self.queue;
        if self.sleeps.is_some_and(|number| queue.sleepers.renew(number, cx.waker())) {
            return;
        }
        let count = || {
            queue.state.0.fetch_add(SLEEPER, Ordering::SeqCst);
        };
        self.sleeps = Some(queue.sleepers.add(self.location, cx.waker().clone(), count));
        order_in_models();
    }

    /// Leaves the sleepers. If it was woken already, it wakes another one: the awaited element may still be there.
    fn leave_sleepers(&mut self) {
        let Some(number) = self.sleeps.take() else { return };
        let queue = self.queue;
        let was_woken = !queue.sleepers.remove(number, || queue.count_sleepers(1));
        if was_woken && !queue.planted.has(Mutant::NoPassing) && !queue.is_empty() {
            queue.wake(self.location);
        }
    }
}

impl<T> Future for Pop<'_, T> {
    type Output = Result<T, Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let queue = self.queue;
        let mut found = queue.look(self.location);
        if matches!(found, Err(NoElement::Empty)) {
            self.join_sleepers(cx);
            if !queue.planted.has(Mutant::NoSecondLook) {
                found = queue.look(self.location);
            }
        }
        let found = match found {
            Err(NoElement::Empty) => return Poll::Pending,
            Err(NoElement::InFlight) => {
                // The push, or the burst that claimed the slot, may have looked for sleepers already. It will end soon.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Err(NoElement::Closed) => Err(Closed),
            Ok(element) => Ok(element),
        };
        self.leave_sleepers();
        Poll::Ready(found)
    }
}

impl<T> Drop for Pop<'_, T> {
    fn drop(&mut self) {
        self.leave_sleepers();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The places of a ring.
    const AT: [NodeId; 6] =
        [NodeId::new(0), NodeId::new(1), NodeId::new(2), NodeId::new(3), NodeId::new(4), NodeId::new(5)];

    /// A ring: the distance is 10 and 10 more for each step.
    fn ring(count: usize, options: &DistOptions) -> DistQueue<u32> {
        let steps = |from: usize, to: usize| (from.abs_diff(to)).min(count - from.abs_diff(to)) as u32;
        let row = |from| (0..count).map(|to| 10 + 10 * steps(from, to)).collect();
        let locations = Locations::from_distances((0..count).map(row).collect()).unwrap();
        DistQueue::with_source(&locations, options, |_| Arc::new(SystemSegments)).unwrap()
    }

    /// Takes the advertisements at a location: the senders.
    fn ads(queue: &DistQueue<u32>, at: usize) -> Vec<u32> {
        let subqueue = &queue.subqueues[at];
        let senders = std::iter::from_fn(|| subqueue.received.take_nearest()).map(|rank| subqueue.others[rank]);
        senders.map(|sender| sender.index() as u32).collect()
    }

    #[test]
    fn neighbours_are_those_almost_as_near_as_the_nearest() {
        let near = |options: DistOptions| {
            ring(6, &options).subqueues[0].neighbours.iter().map(|to| to.0.index()).collect::<Vec<_>>()
        };
        // At 20: 1 and 5; at 30: 2 and 4; at 40: 3. Qthreads takes those below the nearest and 10 more.
        assert_eq!(near(DistOptions::default()), [1, 5]);
        assert_eq!(near(DistOptions { reach: 11, ..DistOptions::default() }), [1, 5, 2, 4]);
        assert_eq!(near(DistOptions { reach: 11, neighbours: 3, ..DistOptions::default() }), [1, 5, 2]);
        assert!(near(DistOptions { neighbours: 0, ..DistOptions::default() }).is_empty());
    }

    #[test]
    fn neighbours_hear_of_a_queue_that_was_not_empty_and_once() {
        let queue = ring(6, &DistOptions::default());
        queue.push(AT[0], 1).unwrap();
        assert_eq!([1, 5].map(|at| ads(&queue, at).len()), [0, 0], "the queue was empty");
        queue.push(AT[0], 2).unwrap();
        queue.push(AT[0], 3).unwrap();
        assert_eq!([1, 2, 3, 4].map(|at| ads(&queue, at)), [vec![0], vec![], vec![], vec![]]);
        queue.push(AT[0], 4).unwrap();
        assert_eq!(ads(&queue, 1), [0; 0], "the last one is not consumed yet");
        // Serves its last advertisement.
        assert_eq!(queue.try_pop(AT[5]), Ok(1));
        queue.push(AT[0], 5).unwrap();
        assert_eq!([1, 5].map(|at| ads(&queue, at)), [vec![0], vec![0]]);
    }

    #[test]
    fn neighbours_hear_of_a_burst_once_and_not_of_its_first_element() {
        let queue = ring(6, &DistOptions::default());
        let mut burst = queue.burst(AT[0]);
        burst.push(1).unwrap();
        assert_eq!(ads(&queue, 1), [0; 0], "the queue was empty; slots that wait are no elements");
        burst.push(2).unwrap();
        burst.push(3).unwrap();
        assert_eq!([1, 5].map(|at| ads(&queue, at)), [vec![0], vec![0]]);
    }

    #[test]
    fn a_burst_gives_back_what_it_did_not_need() {
        let queue = ring(2, &DistOptions::default());
        let mut burst = queue.burst(AT[0]);
        burst.push(1).unwrap();
        queue.push(AT[0], 2).unwrap();
        assert_eq!(
            [queue.try_pop(AT[0]), queue.try_pop(AT[0])],
            [Ok(1), Err(TryPopError::Empty)],
            "2 waits behind its slots"
        );
        burst.pause();
        assert_eq!(queue.try_pop(AT[0]), Ok(2));
        burst.push(3).unwrap();
        drop(burst);
        queue.push(AT[0], 4).unwrap();
        assert_eq!([queue.try_pop(AT[1]), queue.try_pop(AT[1])], [Ok(3), Ok(4)]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_burst_knows_that_the_queue_is_closed() {
        let queue = ring(1, &DistOptions::default());
        let mut burst = queue.burst(AT[0]);
        burst.push(1).unwrap();
        queue.close();
        assert_eq!(burst.push(2), Err(PushError::Closed(2)));
        assert_eq!(queue.try_pop(AT[0]), Ok(1));
        drop(burst);
        assert_eq!(queue.try_pop(AT[0]), Err(TryPopError::Closed));
    }

    #[test]
    fn the_own_location_comes_first_then_advertisements_then_the_nearest() {
        let queue = ring(6, &DistOptions { reach: 100, ..DistOptions::default() });
        for (location, value) in [(1, 10), (3, 30), (3, 31), (3, 32), (0, 1)] {
            queue.push(AT[location], value).unwrap();
        }
        // Location 1 is nearer, but 3 has advertised; after that only the scan is left.
        let order: Vec<u32> = std::iter::from_fn(|| queue.try_pop(AT[0]).ok()).collect();
        assert_eq!(order, [1, 30, 10, 31, 32]);
    }

    #[test]
    fn where_nothing_is_one_looks_where_something_was_found() {
        let queue = ring(6, &DistOptions { neighbours: 0, ..DistOptions::default() });
        queue.push(AT[3], 30).unwrap();
        assert_eq!(queue.try_pop(AT[1]), Ok(30));
        // Location 1 is empty and its hint is 3, which is further away than 5.
        queue.push(AT[3], 31).unwrap();
        queue.push(AT[5], 50).unwrap();
        assert_eq!(queue.try_pop(AT[0]), Ok(31));
        assert_eq!(queue.try_pop(AT[0]), Ok(50));
    }

    #[test]
    fn a_consumer_goes_on_where_it_found_something_for_a_while() {
        let queue = ring(6, &DistOptions { neighbours: 0, ..DistOptions::default() });
        (0..100).for_each(|value| queue.push(AT[3], value).unwrap());
        let mut consumer = queue.consumer(AT[0]);
        assert_eq!(consumer.try_pop(), Ok(0));
        queue.push(AT[1], 1000).unwrap();
        queue.push(AT[0], 2000).unwrap();
        assert_eq!(consumer.try_pop(), Ok(2000), "the own location comes first");
        let order: Vec<u32> = std::iter::from_fn(|| consumer.try_pop().ok()).collect();
        let expected: Vec<u32> = (1..65).chain([1000]).chain(65..100).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn locations_are_nodes_or_core_groups() {
        let machine = Topology::parse("node:2 l3:2 core:2").unwrap();
        assert_eq!(DistQueue::<u8>::new(&machine).locations(), 2);
        let groups = Locations::core_groups(&machine);
        assert_eq!(
            groups.by_distance(LocationId::new(2)),
            [3, 0, 1].map(LocationId::new),
            "the other group of the node is nearer"
        );
        assert_eq!(Locations::from_distances(vec![]), Err(LocationsError::None));
        let row = LocationsError::Row { row: 1, columns: 1, locations: 2 };
        assert_eq!(Locations::from_distances(vec![vec![1, 2], vec![1]]), Err(row));
    }

    /// Queues once counted locations while callers had nodes or core groups, so every caller had to convert them.
    #[test]
    fn a_place_means_the_nearest_location() {
        // Node 1 has no cores, and is nearer to node 2.
        let mut machine = Topology::parse("node:3 l3:2 core:2").unwrap();
        machine.distances = vec![vec![10, 20, 20], vec![20, 10, 15], vec![20, 15, 10]];
        machine.core_groups.retain(|group| group.node.index() != 1);
        machine.core_groups.iter_mut().enumerate().for_each(|(at, group)| group.id = GroupId::new(at));
        let means = |locations: &Locations, place: Place| locations.places[locations.nearest[place].index()];
        let group = |index| Place::Group(GroupId::new(index));
        let node = |index| Place::Node(NodeId::new(index));

        let nodes = Locations::nodes(&machine);
        assert_eq!([0, 1, 2].map(|at| means(&nodes, node(at))), [0, 1, 2].map(node));
        assert_eq!([0, 1, 2, 3].map(|at| means(&nodes, group(at))), [0, 0, 2, 2].map(node), "a group means its node");

        let groups = Locations::core_groups(&machine);
        assert_eq!([0, 1, 2, 3].map(|at| means(&groups, group(at))), [0, 1, 2, 3].map(group));
        assert_eq!([0, 1, 2].map(|at| means(&groups, node(at))), [0, 2, 2].map(group), "a node means its first group");

        let queue: DistQueue<u8> =
            DistQueue::with_source(&groups, &DistOptions::default(), |_| Arc::new(SystemSegments)).unwrap();
        queue.push(machine.nodes[2].id, 1).unwrap();
        assert_eq!(
            queue.subqueues.iter().map(|subqueue| subqueue.queue.is_empty()).collect::<Vec<_>>(),
            [true, true, false, true]
        );
        assert_eq!(queue.consumer(machine.core_groups[0].id).try_pop(), Ok(1));

        let free = Locations::from_distances(vec![vec![10; 2]; 2]).unwrap();
        assert_eq!(means(&free, node(1)), node(1));
        let none = free.nearest.get(group(0)).unwrap_err();
        assert_eq!(none.to_string(), "there is no group0: there are no core groups");
    }

    #[test]
    #[should_panic(expected = "there is no node2: the number of nodes is 2, counted from 0")]
    fn a_place_that_there_is_not_is_named() {
        let _ = ring(2, &DistOptions::default()).push(AT[2], 0);
    }
}
