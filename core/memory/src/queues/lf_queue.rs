//! A queue with one order for all: many producers, many consumers, no lock, no bound.
//!
//! A list of array segments ([`super::segment`]). One word counts the pushes and one the pops, and each names its
//! segment, so one atomic addition tells a producer its segment and its slot at once:
//!
//! ```text
//!  tail   closed:1 │ – :15   │ segment : 34 │ index : 14                  a push adds 1
//!  head   tickets:8          │ segment : 34 │ limit : 11 │ index : 11     a pop exchanges index for index + 1
//! ```
//!
//! **Push.** Add 1 to the tail. An index below the number of slots is a slot of that segment: write the value, done. A
//! larger one is a *ticket*: it keeps the segment from being recycled while the producer links a new segment, with its
//! value already in the first slot, or finds another producer's, and moves the tail there. The push has happened when
//! the tail names its slot.
//!
//! **A burst.** A producer with more elements claims several of the remaining slots, by an exchange without a ticket,
//! and then writes one slot after the other. It gives unused slots back: to the tail, if the tail has not moved
//! meanwhile; otherwise to the consumers, and these pass over them.
//!
//! **Pop.** Slots below the head's limit are written. Below it, a consumer exchanges the head for the next index and
//! takes the slot; of all words written by producers it reads only the slot. At the limit it looks ahead: takes a
//! ticket of the segment by exchanging the head, reads the tail, goes through the states of the next slots, and raises
//! the limit as it gives the ticket back. If nothing else is there, it gives up a claimed, unwritten slot, and the
//! slot's producer tries another one ([`Stalled::Skipped`]): no thread waits for another.
//!
//! **Recycling.** A word can return to an old value, because a segment can return. A push doesn't mind: it adds. A pop
//! doesn't mind: its exchange succeeds only on a head that says of the segment's present life that the slot is written.
//! Only a look ahead, or the answer *empty*, relies on the segment or on both words, and holds a ticket. When the head
//! leaves a segment, the segment goes into a list until its slots are done and its tickets are back; the next consumer
//! at the end of a segment checks the list.
//!
//! Indexed slots with give-up by consumers are those of Morrison and Afek, "Fast concurrent queues for x86 processors",
//! PPoPP 2013 (LCRQ), and the list of arrays is that of Correia and Ramalhete's FAAArrayQueue. We differ: neither
//! hazard pointers nor epochs, no second word beside an index, values of any size in the slots themselves.

use crate::memory::AllocError;
use crate::queues::mutant::{Mutant, Planted};
use crate::queues::segment::{ALIGN, Header, How, INDEX_BITS, MAX_SLOTS, Segment, Stalled};
use crate::queues::source::{SegmentSource, SystemSegments};
use crate::sync::{AtomicI32, AtomicPtr, AtomicU64, Ordering, Padded, spin_loop};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::null_mut;
use std::sync::Arc;

/// In a head: the bits of an index, and of a limit.
const HEAD_BITS: u32 = 11;
/// In a head: the position of the segment.
const HEAD_SEGMENT: u32 = 2 * HEAD_BITS;
/// In a head: a ticket of its segment.
const TICKET: u64 = 1 << (HEAD_SEGMENT + SEGMENT_BITS);
/// The most tickets that fit, so the most consumers that can look ahead at the same moment.
const MOST_TICKETS: usize = 255;
/// In a tail: pushes are refused.
const CLOSED: u64 = 1 << 63;
/// The bits of an address of 48 bits without the alignment.
const SEGMENT_BITS: u32 = 48 - INDEX_BITS;

/// The number of producers at once that is more than an index has room for. Below the value that would overflow into
/// the segment.
const TOO_MANY: usize = ALIGN - 64;

const _: () = assert!(HEAD_SEGMENT + SEGMENT_BITS + 8 == 64 && MAX_SLOTS < 1 << HEAD_BITS);

/// The head at some moment.
#[derive(Clone, Copy, PartialEq, Eq)]
struct HeadWord(u64);

impl HeadWord {
    fn new<T>(segment: Segment<T>) -> HeadWord {
        HeadWord((segment.address() as u64 >> INDEX_BITS) << HEAD_SEGMENT)
    }

    #[inline]
    fn index(self) -> usize {
        self.0 as usize & ((1 << HEAD_BITS) - 1)
    }

    #[inline]
    fn limit(self) -> usize {
        (self.0 >> HEAD_BITS) as usize & ((1 << HEAD_BITS) - 1)
    }

    /// With this limit, unless it has a higher one.
    fn with_limit(self, limit: usize) -> HeadWord {
        HeadWord(self.0 + ((limit.saturating_sub(self.limit()) as u64) << HEAD_BITS))
    }

    fn tickets(self) -> usize {
        (self.0 / TICKET) as usize
    }

    #[inline]
    fn address(self) -> usize {
        ((self.0 % TICKET) >> HEAD_SEGMENT << INDEX_BITS) as usize
    }

    #[inline]
    fn segment<T>(self) -> Segment<T> {
        Segment::at(self.address())
    }
}

/// The tail at some moment.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TailWord(u64);

impl TailWord {
    fn new<T>(segment: Segment<T>, index: usize) -> TailWord {
        TailWord(segment.address() as u64 | index as u64)
    }

    #[inline]
    fn index(self) -> usize {
        self.0 as usize & (ALIGN - 1)
    }

    fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    #[inline]
    fn address(self) -> usize {
        (self.0 & !CLOSED) as usize & !(ALIGN - 1)
    }

    #[inline]
    fn segment<T>(self) -> Segment<T> {
        Segment::at(self.address())
    }
}

/// A look at the tail with fewer elements than this was too early: this number of words fills some lines.
const FEW: usize = 32;

/// The least and the most pauses of a waiting consumer: the most are about a microsecond.
const LEAST_PAUSES: i32 = if cfg!(loom) { 0 } else { 8 };
const MOST_PAUSES: i32 = if cfg!(loom) { 0 } else { 32 };
/// After a wait in vain, this number of looks don't wait.
const IMPATIENT: i32 = 256;

/// How a queue cuts and keeps its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// The most bytes of a segment. A segment has at least seven elements, and at most 2,044, however small.
    pub segment_bytes: usize,
    /// How many unused segments a queue keeps. More are given back.
    pub segments_waiting: usize,
}

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions { segment_bytes: 64 << 10, segments_waiting: 64 }
    }
}

/// There is no memory for an element; it came back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Exhausted<T> {
    /// The element.
    pub element: T,
    /// The segment source's error.
    pub error: AllocError,
}

impl<T> fmt::Debug for Exhausted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exhausted").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Exhausted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the queue has no memory for another element: {}", self.error)
    }
}

impl<T> std::error::Error for Exhausted<T> {}

/// The result of a look ahead.
enum Look {
    /// The caller has claimed a settled slot: the head before the claim.
    Claimed(HeadWord),
    /// Another consumer was quicker, or the head has moved on.
    Again,
    Nothing(TakeResult),
}

/// The result of taking an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeResult {
    Element,
    /// At some moment during the call the queue was empty.
    Empty,
    /// A push is under way, and nothing is in front of it. Only if stalled producers are awaited.
    InFlight,
}

/// Slots claimed together by one producer and not written yet. They keep their segment from being recycled; the holder
/// writes them or gives them back: see [`LfQueue::reserve`].
#[derive(Debug)]
pub(crate) struct Reserved<T> {
    segment: Segment<T>,
    next: usize,
    end: usize,
}

/// Why an element was refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    Closed,
    Exhausted(AllocError),
}

/// A queue for any number of producers and consumers, without a bound and without a lock, in one order for all: an
/// element pushed before another is popped before it (the queue is linearizable). At most some 14,000 threads may push
/// at the same moment; of consumers that look for new elements at the same moment, those after the first 255 wait for
/// one of them.
///
/// An element costs its size and a byte for its state; memory comes in segments, and segments are used again.
///
/// ```
/// let queue = vicus_memory::LfQueue::new();
/// queue.push("first");
/// queue.push("second");
/// assert_eq!(queue.pop(), Some("first"));
/// assert_eq!(queue.pop(), Some("second"));
/// assert_eq!(queue.pop(), None);
/// ```
pub struct LfQueue<T> {
    tail: Padded<AtomicU64>,
    head: Padded<Head>,
    how: How,
    source: Arc<dyn SegmentSource>,
    /// Unused segments.
    waiting: Box<[AtomicPtr<Header>]>,
    /// Segments left by the head, linked by `retired`.
    retired: Padded<AtomicPtr<Header>>,
    of: PhantomData<*mut T>,
}

/// The line consumers write to.
#[derive(Debug)]
struct Head {
    word: AtomicU64,
    /// How long a consumer waits before it looks at the tail, in the processor's pauses. Below 0: how many looks come
    /// before the next one with a wait.
    patience: AtomicI32,
}

#[expect(unsafe_code, reason = "elements go from thread to thread")]
// SAFETY: by the words and the slot's state, a slot's value has one owner at a time; there are no references to
// elements inside.
unsafe impl<T: Send> Send for LfQueue<T> {}

#[expect(unsafe_code, reason = "elements go from thread to thread")]
// SAFETY: as above.
unsafe impl<T: Send> Sync for LfQueue<T> {}

impl<T> fmt::Debug for LfQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LfQueue").field("how", &self.how).finish_non_exhaustive()
    }
}

impl<T> Default for LfQueue<T> {
    fn default() -> LfQueue<T> {
        LfQueue::new()
    }
}

impl<T> LfQueue<T> {
    /// An empty queue with the program's allocator.
    pub fn new() -> LfQueue<T> {
        LfQueue::with_source(Arc::new(SystemSegments), &QueueOptions::default())
            .expect("the program's allocator gives memory or ends the program")
    }

    /// An empty queue with segments from a source. It has one segment from the beginning.
    ///
    /// # Errors
    /// The source has no memory for the first segment.
    pub fn with_source(source: Arc<dyn SegmentSource>, options: &QueueOptions) -> Result<LfQueue<T>, AllocError> {
        let shape = Segment::<T>::shape(options.segment_bytes);
        let how = How { shape, stalled: Stalled::Skipped, planted: Planted::NONE };
        LfQueue::with(source, how, options.segments_waiting)
    }

    pub(crate) fn with(
        source: Arc<dyn SegmentSource>,
        how: How,
        segments_waiting: usize,
    ) -> Result<LfQueue<T>, AllocError> {
        let first = Segment::<T>::new(source.take(how.shape.layout)?, how.shape);
        Ok(LfQueue {
            tail: Padded(AtomicU64::new(TailWord::new(first, 0).0)),
            head: Padded(Head { word: AtomicU64::new(HeadWord::new(first).0), patience: AtomicI32::new(0) }),
            how,
            source,
            waiting: (0..segments_waiting).map(|_| AtomicPtr::new(null_mut())).collect(),
            retired: Padded(AtomicPtr::new(null_mut())),
            of: PhantomData,
        })
    }

    /// Puts an element behind all others. Panics if the segment source has no memory left (never with the program's
    /// allocator); see [`LfQueue::try_push`].
    #[inline]
    pub fn push(&self, element: T) {
        if let Err(refused) = self.try_push(element) {
            panic!("{refused}");
        }
    }

    /// Puts an element behind all others.
    ///
    /// # Errors
    /// The segment source has no memory left; the element comes back.
    #[inline]
    pub fn try_push(&self, element: T) -> Result<(), Exhausted<T>> {
        let element = ManuallyDrop::new(element);
        match self.put(&element) {
            Ok(()) => Ok(()),
            Err(refusal) => Err(Exhausted { element: ManuallyDrop::into_inner(element), error: refusal.exhausted() }),
        }
    }

    /// Puts an element in. If it succeeds, the queue owns the element; otherwise the caller still does.
    #[inline]
    pub(crate) fn put(&self, element: &ManuallyDrop<T>) -> Result<(), Refusal> {
        loop {
            // Sequentially consistent for sleeping consumers: see `DistQueue::push`.
            let at = TailWord(self.tail.0.fetch_add(1, Ordering::SeqCst));
            if at.is_closed() || at.index() >= self.how.shape.slots {
                match self.put_beyond(at, element)? {
                    true => return Ok(()),
                    false => continue,
                }
            }
            #[expect(unsafe_code, reason = "copies the element into its slot")]
            // SAFETY: the addition gave this index to this call alone.
            if unsafe { at.segment::<T>().put(at.index(), &raw const **element, self.how) } {
                return Ok(());
            }
        }
    }

    /// The push of a producer with a ticket, or at the end of the queue. Returns whether the element is in.
    #[cold]
    fn put_beyond(&self, at: TailWord, element: &ManuallyDrop<T>) -> Result<bool, Refusal> {
        let segment = at.segment::<T>();
        if at.index() < self.how.shape.slots {
            segment.abandon(at.index(), self.how);
            return Err(Refusal::Closed);
        }
        assert!(at.index() < TOO_MANY, "more than 14,000 threads push at the same moment");
        let outcome = if at.is_closed() { Err(Refusal::Closed) } else { self.put_next(segment, element) };
        self.leave_tail(segment);
        outcome
    }

    /// Links a new segment with the element in it, or goes on to another producer's. Returns whether the element is in.
    /// The caller has a ticket.
    fn put_next(&self, full: Segment<T>, element: &ManuallyDrop<T>) -> Result<bool, Refusal> {
        if let Some(next) = Segment::from_pointer(full.header().next.load(Ordering::Acquire)) {
            self.move_tail(full, next)?;
            return Ok(false);
        }
        let fresh = self.fresh().map_err(Refusal::Exhausted)?;
        #[expect(unsafe_code, reason = "copies the element into its slot")]
        // SAFETY: no other thread knows the segment yet.
        unsafe {
            fresh.put_first(&raw const **element, self.how);
        }
        let linked =
            full.header().next.compare_exchange(null_mut(), fresh.pointer(), Ordering::AcqRel, Ordering::Acquire);
        match linked {
            Ok(_) => match self.move_tail(full, fresh) {
                Ok(()) => Ok(true),
                Err(closed) => {
                    // The tail never gets there, so no thread looks into it.
                    fresh.forget_first(self.how.shape);
                    Err(closed)
                }
            },
            Err(next) => {
                fresh.forget_first(self.how.shape);
                self.keep(fresh);
                let next =
                    Segment::from_pointer(next).expect("only a link that isn't null keeps a null one from being set");
                self.move_tail(full, next)?;
                Ok(false)
            }
        }
    }

    /// Claims up to `most` slots. `None` at the end of the segment or of the queue: there, single elements are pushed
    /// as usual.
    #[cold]
    pub(crate) fn reserve(&self, most: usize) -> Option<Reserved<T>> {
        let mut now = self.tail();
        loop {
            let room = self.how.shape.slots.saturating_sub(now.index());
            if now.is_closed() || room == 0 {
                return None;
            }
            let count = room.min(most);
            match self.exchange_tail(now, TailWord(now.0 + count as u64)) {
                Ok(()) => {
                    return Some(Reserved { segment: now.segment(), next: now.index(), end: now.index() + count });
                }
                Err(other) => now = other,
            }
        }
    }

    /// Puts an element into the first reserved slot, if there is one left. Whether the element is in.
    #[inline]
    pub(crate) fn put_reserved(&self, reserved: &mut Option<Reserved<T>>, element: &ManuallyDrop<T>) -> bool {
        let Some(reserved) = reserved.as_mut().filter(|reserved| reserved.next < reserved.end) else { return false };
        let index = reserved.next;
        reserved.next += 1;
        #[expect(unsafe_code, reason = "copies the element into its slot")]
        // SAFETY: the reservation gave this index to its owner alone, and the owner uses it once.
        unsafe {
            reserved.segment.put(index, &raw const **element, self.how)
        }
    }

    /// Gives back the unwritten slots: to the tail, if no other producer has pushed behind them, or to the consumers.
    pub(crate) fn give_back(&self, reserved: Reserved<T>) {
        let (Reserved { segment, next, end }, planted) = (reserved, self.how.planted);
        if next == end || planted.has(Mutant::SlotsKept) {
            return;
        }
        if planted.has(Mutant::TailForced) {
            self.tail.0.store(TailWord::new(segment, next).0, Ordering::SeqCst);
            return;
        }
        // The segment stays in this life until these slots are done, so an equal tail is one that has not moved.
        if self.exchange_tail(TailWord::new(segment, end), TailWord::new(segment, next)).is_ok() {
            return;
        }
        (next..end).for_each(|index| segment.abandon(index, self.how));
    }

    /// Whether there was an element before the last one put into a reserved slot, by a look without synchronization.
    pub(crate) fn had_others_before(&self, reserved: &Reserved<T>) -> bool {
        let head = self.head();
        head.address() != reserved.segment.address() || head.index() + 1 < reserved.next
    }

    fn tail(&self) -> TailWord {
        TailWord(self.tail.0.load(Ordering::SeqCst))
    }

    fn exchange_tail(&self, from: TailWord, to: TailWord) -> Result<(), TailWord> {
        let exchanged = self.tail.0.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::SeqCst);
        exchanged.map(drop).map_err(TailWord)
    }

    /// Moves the tail from a full segment to the next, with its first slot taken, unless another producer was quicker.
    /// The caller has a ticket of the full one.
    fn move_tail(&self, full: Segment<T>, next: Segment<T>) -> Result<(), Refusal> {
        let mut now = self.tail();
        while now.address() == full.address() {
            if now.is_closed() {
                return Err(Refusal::Closed);
            }
            match self.exchange_tail(now, TailWord::new(next, 1)) {
                Ok(()) => {
                    full.tail_left(now.index() - self.how.shape.slots);
                    break;
                }
                Err(other) => now = other,
            }
        }
        Ok(())
    }

    /// Gives a producer's ticket back.
    fn leave_tail(&self, segment: Segment<T>) {
        let mut now = self.tail();
        while now.address() == segment.address() {
            match self.exchange_tail(now, TailWord(now.0 - 1)) {
                Ok(()) => return,
                Err(other) => now = other,
            }
        }
        segment.return_ticket();
    }

    /// Takes the first element. `None`: at some moment during the call there was none.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let mut out = MaybeUninit::uninit();
        #[expect(unsafe_code, reason = "the element is copied into place")]
        // SAFETY: `take` has written it if it says so.
        unsafe {
            (self.take(out.as_mut_ptr(), true) == TakeResult::Element).then(|| out.assume_init())
        }
    }

    fn head(&self) -> HeadWord {
        HeadWord(self.head.0.word.load(Ordering::Acquire))
    }

    #[inline]
    fn exchange_head(&self, from: HeadWord, to: HeadWord) -> Result<(), HeadWord> {
        let word = &self.head.0.word;
        let exchanged = word.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::Acquire);
        exchanged.map(drop).map_err(HeadWord)
    }

    /// Copies the first element out, if there is one. Without `exact` it may also call the queue empty by mistake, if a
    /// segment was recycled twice meanwhile, and costs less when the queue is empty.
    ///
    /// # Safety
    /// `out` can be written. Its content belongs to the caller if the result says that it is an element.
    #[inline]
    #[expect(unsafe_code, reason = "copies the element out of its slot")]
    pub(crate) unsafe fn take(&self, out: *mut T, exact: bool) -> TakeResult {
        let mut at = self.head();
        loop {
            if at.index() >= at.limit() {
                match self.look(at, exact) {
                    Look::Claimed(claimed) => at = claimed,
                    Look::Again => {
                        at = self.head();
                        continue;
                    }
                    Look::Nothing(taken) => return taken,
                }
            } else if self.exchange_head(at, HeadWord(at.0 + 1)).is_err() {
                give_way();
                at = self.head();
                continue;
            }
            // SAFETY: the exchange gave this index to this call alone, and it was below the limit.
            if unsafe { self.take_claimed(at, out) } {
                return TakeResult::Element;
            }
            at = self.head();
        }
    }

    /// Copies the first element out, if a look ahead has seen it already.
    ///
    /// # Safety
    /// Those of [`LfQueue::take`].
    #[inline]
    #[expect(unsafe_code, reason = "copies the element out of its slot")]
    pub(crate) unsafe fn take_seen(&self, out: *mut T) -> bool {
        let mut at = self.head();
        while at.index() < at.limit() {
            match self.exchange_head(at, HeadWord(at.0 + 1)) {
                // SAFETY: the exchange gave this index to this call alone, and it was below the limit.
                Ok(()) if unsafe { self.take_claimed(at, out) } => return true,
                Ok(()) => at = self.head(),
                Err(now) if !self.how.planted.has(Mutant::SlotShared) => at = now,
                // SAFETY: none: this is the planted mistake.
                Err(_) => return unsafe { self.take_claimed(at, out) },
            }
        }
        false
    }

    /// Copies out the element in the slot claimed by the caller with this head, and prefetches the next slot, usually
    /// the caller's next one.
    ///
    /// # Safety
    /// The claim is the caller's alone, and was below the limit; `out` can be written.
    #[inline(always)]
    #[expect(unsafe_code, reason = "copies the element out of its slot")]
    unsafe fn take_claimed(&self, at: HeadWord, out: *mut T) -> bool {
        let segment = at.segment::<T>();
        if at.index() + 1 < at.limit() {
            segment.fetch_settled(self.how.shape, at.index() + 1);
        }
        // SAFETY: the caller's promise.
        unsafe { segment.take(at.index(), out, self.how) }
    }

    /// Looks ahead at the limit.
    #[cold]
    fn look(&self, at: HeadWord, exact: bool) -> Look {
        let patience = self.head.0.patience.load(Ordering::Relaxed);
        for _ in 0..patience {
            spin_loop();
        }
        let glance = self.tail();
        if !exact && glance.address() == at.address() && at.index() >= glance.index() {
            self.look_again_after(patience, 0);
            return Look::Nothing(TakeResult::Empty);
        }
        let head = self.enter_head();
        let segment = head.segment::<T>();
        // Read with the ticket held: so the two words speak of the same life of the segment.
        let tail = self.tail();
        let is_last = tail.address() == head.address();
        let end = if is_last { tail.index().min(self.how.shape.slots) } else { self.how.shape.slots };
        let mut found = head.limit().saturating_sub(head.index());
        let mut left = false;
        let mut nothing = None;
        if found == 0 && head.index() < end {
            found = segment.settled(head.index(), end, self.how);
            nothing = (found == 0).then_some(TakeResult::InFlight);
        } else if found == 0 && is_last {
            nothing = Some(TakeResult::Empty);
        } else if found == 0 {
            left = self.move_head(segment);
        }
        let claimed = self.leave_head(segment, head.index() + found);
        if left {
            self.recycle();
        } else {
            self.look_again_after(patience, found);
        }
        match (claimed, nothing) {
            (Some(claimed), _) => Look::Claimed(claimed),
            (None, Some(taken)) => Look::Nothing(taken),
            (None, None) => Look::Again,
        }
    }

    /// A look takes the tail's line, and soon the slot's, away from a producer in the middle of its writes. A consumer
    /// quicker than the producer would do so for each element, and both would wait for lines all the time. So a look
    /// with few elements delays the next one, and a look with many hastens it. If waiting brings no more elements,
    /// looks don't wait for a while.
    fn look_again_after(&self, patience: i32, found: usize) {
        let next = match (patience, found) {
            (_, 0) => patience.min(0),
            (..0, _) => patience + 1,
            (0, ..FEW) => LEAST_PAUSES,
            (1.., 1) => -IMPATIENT,
            (1.., ..FEW) => (2 * patience).min(MOST_PAUSES),
            _ if found > 2 * FEW && patience > LEAST_PAUSES => patience / 2,
            _ => patience,
        };
        if next != patience {
            self.head.0.patience.store(next, Ordering::Relaxed);
        }
    }

    /// Takes a ticket of the head's segment.
    fn enter_head(&self) -> HeadWord {
        let mut now = self.head();
        loop {
            // Hundreds of threads at once are past the limit: those inside will leave soon.
            if now.tickets() == MOST_TICKETS {
                spin_loop();
                now = self.head();
                continue;
            }
            match self.exchange_head(now, HeadWord(now.0 + TICKET)) {
                Ok(()) => return now,
                Err(other) => now = other,
            }
        }
    }

    /// Gives a consumer's ticket back, raises the limit, and claims a slot below it, if there is one: all in one
    /// exchange. Returns the head before it, if it claimed.
    fn leave_head(&self, segment: Segment<T>, limit: usize) -> Option<HeadWord> {
        let mut now = self.head();
        while now.address() == segment.address() {
            let raised = HeadWord(now.0 - TICKET).with_limit(limit);
            let claims = raised.index() < raised.limit();
            match self.exchange_head(now, HeadWord(raised.0 + u64::from(claims))) {
                Ok(()) => return claims.then_some(raised),
                Err(other) => now = other,
            }
        }
        segment.return_ticket();
        None
    }

    /// Moves the head from an exhausted segment to the next, unless another consumer was quicker. The tail has left the
    /// segment; the caller has a ticket. Returns whether this call moved it.
    fn move_head(&self, from: Segment<T>) -> bool {
        let next = Segment::<T>::from_pointer(from.header().next.load(Ordering::Acquire));
        let next = next.expect("the tail leaves a segment for the next one");
        let mut now = self.head();
        while now.address() == from.address() {
            match self.exchange_head(now, HeadWord::new(next)) {
                Ok(()) => {
                    from.head_left(now.tickets());
                    self.retire(from);
                    return true;
                }
                Err(other) => now = other,
            }
        }
        false
    }

    /// A segment for the next elements.
    fn fresh(&self) -> Result<Segment<T>, AllocError> {
        for waiting in &self.waiting {
            if waiting.load(Ordering::Relaxed).is_null() {
                continue;
            }
            if let Some(segment) = Segment::from_pointer(waiting.swap(null_mut(), Ordering::Acquire)) {
                return Ok(segment);
            }
        }
        Ok(Segment::new(self.source.take(self.how.shape.layout)?, self.how.shape))
    }

    /// Keeps an unused segment, renewed, or gives it back.
    fn keep(&self, segment: Segment<T>) {
        for waiting in &self.waiting {
            let null = null_mut();
            if waiting.load(Ordering::Relaxed).is_null()
                && waiting.compare_exchange(null, segment.pointer(), Ordering::Release, Ordering::Relaxed).is_ok()
            {
                return;
            }
        }
        self.give(segment);
    }

    #[expect(unsafe_code, reason = "gives memory back")]
    fn give(&self, segment: Segment<T>) {
        let memory = std::ptr::NonNull::new(segment.pointer().cast()).expect("a segment has an address");
        // SAFETY: it came from this source with this layout, and is not used any more.
        unsafe { self.source.give(memory, self.how.shape.layout) };
    }

    /// Puts a segment left by the head into the list.
    fn retire(&self, segment: Segment<T>) {
        let mut first = self.retired.0.load(Ordering::Relaxed);
        loop {
            segment.header().retired.store(first, Ordering::Relaxed);
            let pushed =
                self.retired.0.compare_exchange(first, segment.pointer(), Ordering::Release, Ordering::Relaxed);
            match pushed {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes the list of the segments left by the head.
    fn take_retired(&self) -> impl Iterator<Item = Segment<T>> + use<T> {
        let mut at = self.retired.0.swap(null_mut(), Ordering::Acquire);
        std::iter::from_fn(move || {
            let segment = Segment::<T>::from_pointer(at)?;
            at = segment.header().retired.load(Ordering::Relaxed);
            Some(segment)
        })
    }

    /// Keeps the segments that are unused by now.
    fn recycle(&self) {
        for segment in self.take_retired() {
            if segment.is_unused(self.how) {
                segment.renew();
                self.keep(segment);
            } else {
                self.retire(segment);
            }
        }
    }

    /// A lower bound for the number of elements, up to two, by a look without synchronization.
    fn glance(&self) -> usize {
        let (head, tail) = (self.head(), self.tail());
        let is_last = head.address() == tail.address();
        let end = if is_last { tail.index() } else { self.how.shape.slots + 1 };
        end.min(self.how.shape.slots + usize::from(!is_last)).saturating_sub(head.index()).min(2)
    }

    /// Whether there is nothing to take at the moment, by a look without synchronization.
    pub fn is_empty(&self) -> bool {
        self.glance() == 0
    }

    /// Whether there is more than one element, by a look without synchronization.
    pub(crate) fn has_more_than_one(&self) -> bool {
        self.glance() > 1
    }

    /// From now on pushes are refused. Present elements stay.
    pub(crate) fn close(&self) {
        self.tail.0.fetch_or(CLOSED, Ordering::SeqCst);
    }
}

/// Another consumer was quicker. For a moment the line of the first index is left to that one, and it takes several
/// elements meanwhile: taking the line away from each other for each element would cost both more.
#[cold]
fn give_way() {
    // Loom has no moments.
    let moments = if cfg!(loom) { 0 } else { 6 };
    (0..moments).for_each(|_| spin_loop());
}

impl Refusal {
    /// The error of a queue that is never closed.
    fn exhausted(self) -> AllocError {
        match self {
            Refusal::Exhausted(error) => error,
            Refusal::Closed => unreachable!("only a distributed queue closes its subqueues"),
        }
    }
}

impl<T> Drop for LfQueue<T> {
    fn drop(&mut self) {
        /// Goes on after the drop of an element has panicked.
        struct Rest<'a, T>(&'a LfQueue<T>);

        impl<T> Drop for Rest<'_, T> {
            fn drop(&mut self) {
                while self.0.pop().is_some() {}
                self.0.give_all();
            }
        }

        let rest = Rest(self);
        while rest.0.pop().is_some() {}
    }
}

impl<T> LfQueue<T> {
    /// Gives all memory back. There are no elements, and the queue is not used any more.
    fn give_all(&self) {
        let mut listed = Some(self.head().segment());
        while let Some(segment) = listed {
            listed = Segment::from_pointer(segment.header().next.load(Ordering::Acquire));
            self.give(segment);
        }
        self.take_retired().for_each(|segment| self.give(segment));
        let waiting = self.waiting.iter().map(|waiting| waiting.swap(null_mut(), Ordering::Acquire));
        waiting.filter_map(Segment::<T>::from_pointer).for_each(|segment| self.give(segment));
    }
}
