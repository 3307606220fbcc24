//! Array segments: slots in groups of seven, with their states beside their values.
//!
//! Seven words and their states fill one cache line, so moving a word from producer to consumer costs a seventh of a
//! line's transfer.
//!
//! ```text
//!  header │ d d d d … │ s s s s s s s · v v v v v v v │ s s s s s s s · v v v v v v v │ …
//! ```
//!
//! **A slot's life.** A producer claims it, writes the value and says `FULL`. A consumer that looks ahead finds the end
//! of the settled slots, and consumers claim only settled ones; the claiming consumer takes the value and says *done*.
//! If producers are [`Stalled::Skipped`], a look ahead may give up an unwritten slot; its producer notices this, puts
//! the value elsewhere, and says *done* itself.
//!
//! All words bear the parity of the segment's life, so a segment needs no cleaning. *Done* has bytes of its own, so
//! consumers write nothing into the lines of values, and these lines go one way only.
//!
//! **A segment's life.** Threads with a claimed slot keep the segment alive until the slot is done. Threads looking for
//! the next segment hold a ticket. The number of tickets is known when head and tail leave the segment: the words count
//! them. When all slots are done and all tickets are back, the segment is unused.

use crate::prefetch::prefetch;
use crate::queues::mutant::{Mutant, Planted};
use crate::sizes::LINE;
use crate::sync::{AtomicPtr, AtomicU8, AtomicUsize, Ordering, Padded, UnsafeCell, spin_loop};
use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};

/// How many slots have their states side by side.
const GROUP: usize = 7;

/// A segment begins at a multiple of this, so an index fits into its address.
pub(crate) const ALIGN: usize = 1 << INDEX_BITS;

/// How many bits of a word are the index.
pub(crate) const INDEX_BITS: u32 = 14;

/// The most slots of a segment: the same number of tickets and more fit into an index.
pub(crate) const MAX_SLOTS: usize = 292 * GROUP;

/// A slot's state, with the parity of the life: there is a value.
const FULL: u8 = 2;
/// The consumers have given it up; its producer finishes it.
const SKIPPED: u8 = 4;
/// Its producer has given it up; the consumer that claims it finishes it.
const ABANDONED: u8 = 6;
/// A state or *done* of no life.
const UNTOUCHED: u8 = 0;
/// The byte of a slot left by both producer and consumer, with the parity of the life.
const DONE: u8 = 2;

/// How often a consumer looks for a value its producer is still writing, before it gives the slot up.
const LOOKS: usize = if cfg!(loom) { 0 } else { 32 };

/// The most slots seen by a look ahead: their lines then come all at once, and few enough to be still there.
const AHEAD: usize = 32 * GROUP;

/// The treatment of a slot whose producer is interrupted between claiming it and writing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stalled {
    /// Consumers give it up. This makes a push two atomic exchanges.
    Skipped,
    /// Consumers don't see elements behind it until it is written. A push is one atomic exchange.
    Awaited,
}

/// A producer asks for the line this number of lines ahead of its slot. Measured: 3 to 9 are as good.
const AHEAD_LINES: usize = 6;

/// How much of a value is prefetched before it is taken. For longer ones the processor recognises the pattern.
const MOST_FETCHED: usize = 16 * LINE;

/// A number of tickets not yet known.
const UNKNOWN: usize = usize::MAX;

/// The part of a segment before the slots.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    /// The segment behind this one in the queue.
    pub(crate) next: AtomicPtr<Header>,
    /// The parity of its life. Written while only one thread has the segment.
    parity: AtomicU8,
    /// The next segment in the list of those left by the head and still in use.
    pub(crate) retired: AtomicPtr<Header>,
    /// Tickets, on a line of their own.
    tickets: Padded<Tickets>,
}

#[derive(Debug)]
struct Tickets {
    /// How many producers took one.
    of_tail: AtomicUsize,
    /// How many consumers had one when the head left.
    of_head: AtomicUsize,
    /// How many came back since.
    returned: AtomicUsize,
}

/// How a queue's segments are cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// How many slots a segment has.
    pub(crate) slots: usize,
    /// The beginning of the first group.
    first: usize,
    pub(crate) layout: Layout,
}

/// How a queue handles its segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) shape: Shape,
    pub(crate) stalled: Stalled,
    pub(crate) planted: Planted,
}

/// A segment. Each use says why the segment isn't recycled meanwhile: a claimed slot, a ticket, or no other thread
/// knows it.
#[derive(Debug)]
pub(crate) struct Segment<T> {
    header: NonNull<Header>,
    of: PhantomData<*mut T>,
}

impl<T> Clone for Segment<T> {
    fn clone(&self) -> Segment<T> {
        *self
    }
}

impl<T> Copy for Segment<T> {}

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

impl<T> Segment<T> {
    /// Large values begin at a line.
    const VALUE_ALIGN: usize =
        larger(align_of::<Slot<T>>(), if size_of::<Slot<T>>() >= LINE { LINE } else { align_of::<AtomicU8>() });
    /// The beginning of a group's values.
    const VALUES: usize = size_of::<[AtomicU8; GROUP]>().next_multiple_of(Self::VALUE_ALIGN);
    const GROUP_ALIGN: usize = larger(LINE, larger(Self::VALUE_ALIGN, align_of::<AtomicU8>()));
    const GROUP_BYTES: usize = (Self::VALUES + GROUP * size_of::<Slot<T>>()).next_multiple_of(Self::GROUP_ALIGN);
    /// The beginning of the bytes for *done*.
    const DONES: usize = size_of::<Header>();

    /// The beginning of the first group.
    const fn first(slots: usize) -> usize {
        (Self::DONES + slots * size_of::<AtomicU8>()).next_multiple_of(Self::GROUP_ALIGN)
    }

    /// Segments of at most `bytes` bytes, if one group is not more.
    pub(crate) fn shape(bytes: usize) -> Shape {
        let groups = (bytes.saturating_sub(Self::first(0)) / (Self::GROUP_BYTES + GROUP)).clamp(1, MAX_SLOTS / GROUP);
        Self::shape_of(groups * GROUP)
    }

    /// Segments of `slots` slots.
    pub(crate) fn shape_of(slots: usize) -> Shape {
        assert!((1..=MAX_SLOTS).contains(&slots), "a segment has 1 to {MAX_SLOTS} slots, not {slots}");
        let first = Self::first(slots);
        let bytes = first + slots.div_ceil(GROUP) * Self::GROUP_BYTES;
        let layout = Layout::from_size_align(bytes, larger(ALIGN, Self::GROUP_ALIGN));
        Shape { slots, first, layout: layout.expect("a few thousand elements are less than half of all addresses") }
    }

    pub(crate) fn address(self) -> usize {
        self.header.as_ptr().expose_provenance()
    }

    /// The segment at an address given by [`Segment::address`].
    #[inline(always)]
    pub(crate) fn at(address: usize) -> Segment<T> {
        let header = std::ptr::with_exposed_provenance_mut(address);
        Segment { header: NonNull::new(header).expect("a word always names a segment"), of: PhantomData }
    }

    pub(crate) fn from_pointer(header: *mut Header) -> Option<Segment<T>> {
        NonNull::new(header).map(|header| Segment { header, of: PhantomData })
    }

    pub(crate) fn pointer(self) -> *mut Header {
        self.header.as_ptr()
    }

    #[inline(always)]
    #[expect(unsafe_code, reason = "reads a segment's header")]
    pub(crate) fn header<'a>(self) -> &'a Header {
        // SAFETY: `new` wrote it; the caller keeps the segment from being recycled. All its fields are atomic.
        unsafe { self.header.as_ref() }
    }

    #[inline(always)]
    #[expect(unsafe_code, reason = "an offset within the segment")]
    fn group(self, shape: Shape, index: usize) -> (*mut u8, usize) {
        // SAFETY: the caller's index is below the number of slots, and `shape_of` made room for this number.
        (
            unsafe { self.header.as_ptr().cast::<u8>().add(shape.first + index / GROUP * Self::GROUP_BYTES) },
            index % GROUP,
        )
    }

    #[inline(always)]
    #[expect(unsafe_code, reason = "reads a slot's state")]
    fn state<'a>(self, shape: Shape, index: usize) -> &'a AtomicU8 {
        let (group, at) = self.group(shape, index);
        // SAFETY: within the group, and written by `new`.
        unsafe { &*group.cast::<AtomicU8>().add(at) }
    }

    #[inline(always)]
    #[expect(unsafe_code, reason = "reads a slot's byte")]
    fn done<'a>(self, index: usize) -> &'a AtomicU8 {
        // SAFETY: the caller's index is below the number of slots, and `shape_of` made room for this number; written by
        // `new`.
        unsafe { &*self.header.as_ptr().cast::<u8>().add(Self::DONES).cast::<AtomicU8>().add(index) }
    }

    #[inline(always)]
    #[expect(unsafe_code, reason = "an offset within the segment")]
    fn slot(self, shape: Shape, index: usize) -> *mut Slot<T> {
        let (group, at) = self.group(shape, index);
        // SAFETY: within the group.
        unsafe { group.add(Self::VALUES).cast::<Slot<T>>().add(at) }
    }

    #[inline(always)]
    #[expect(unsafe_code, reason = "reaches a slot's value")]
    fn with_value<R>(self, shape: Shape, index: usize, f: impl FnOnce(*mut T) -> R) -> R {
        // SAFETY: `new` wrote the slot.
        unsafe { &*self.slot(shape, index) }.with_mut(|value| f(value.cast()))
    }

    /// Makes a segment of the caller's memory, with the shape's layout, like one left by [`Segment::renew`].
    #[expect(unsafe_code, reason = "writes into fresh memory")]
    pub(crate) fn new(memory: NonNull<u8>, shape: Shape) -> Segment<T> {
        assert_eq!(memory.addr().get() % ALIGN, 0, "a segment source gives aligned memory");
        assert!(memory.addr().get() < 1 << 48, "segments lie in the lower 48 bits of the addresses");
        let segment = Segment { header: memory.cast(), of: PhantomData };
        let tickets = Tickets {
            of_tail: AtomicUsize::new(UNKNOWN),
            of_head: AtomicUsize::new(UNKNOWN),
            returned: AtomicUsize::new(0),
        };
        let header = Header {
            next: AtomicPtr::new(null_mut()),
            parity: AtomicU8::new(0),
            retired: AtomicPtr::new(null_mut()),
            tickets: Padded(tickets),
        };
        // SAFETY: the memory is the caller's, and large enough by its layout.
        unsafe {
            segment.header.write(header);
            for index in 0..shape.slots {
                let (group, at) = segment.group(shape, index);
                group.cast::<AtomicU8>().add(at).write(AtomicU8::new(UNTOUCHED));
                let dones = memory.as_ptr().add(Self::DONES).cast::<AtomicU8>();
                dones.add(index).write(AtomicU8::new(UNTOUCHED));
                segment.slot(shape, index).write(UnsafeCell::new(MaybeUninit::uninit()));
            }
        }
        segment
    }

    /// Begins the next life of an unused segment.
    pub(crate) fn renew(self) {
        let header = self.header();
        header.next.store(null_mut(), Ordering::Relaxed);
        header.parity.store(1 - self.parity(), Ordering::Relaxed);
        let tickets = &header.tickets.0;
        tickets.of_tail.store(UNKNOWN, Ordering::Relaxed);
        tickets.of_head.store(UNKNOWN, Ordering::Relaxed);
        tickets.returned.store(0, Ordering::Relaxed);
    }

    #[inline(always)]
    fn parity(self) -> u8 {
        self.header().parity.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn finish(self, index: usize) {
        self.done(index).store(DONE | self.parity(), Ordering::Release);
    }

    /// Settles a slot for its producer or for the consumers, unless the other side was quicker. Only its producer may
    /// be too late.
    fn settle(self, shape: Shape, index: usize, to: u8, order: Ordering) -> bool {
        let (state, parity) = (self.state(shape, index), self.parity());
        let now = state.load(Ordering::Relaxed);
        let is_settled = now != UNTOUCHED && now & 1 == parity;
        !is_settled && state.compare_exchange(now, to | parity, order, Ordering::Relaxed).is_ok()
    }

    /// Prefetches a line for later pushes: a consumer had it last, and the exchange that claims a slot waits for all
    /// stores before it. If values fill lines, processors do so themselves.
    #[inline(always)]
    fn fetch_ahead(self, shape: Shape, index: usize) {
        let (group, at) = self.group(shape, index);
        if Self::GROUP_BYTES == LINE && at == 0 {
            // To read it: of several producers, each would take the line away from the others.
            prefetch::<false>(group.wrapping_add(AHEAD_LINES * LINE));
        }
    }

    /// Prefetches the lines of a settled slot's value, since the caller may take it soon. (A look ahead has read the
    /// states, and with them small values.) The producer is done with them; an earlier prefetch would take them away
    /// from it.
    #[inline(always)]
    pub(crate) fn fetch_settled(self, shape: Shape, index: usize) {
        let bytes = size_of::<Slot<T>>();
        if bytes >= LINE {
            let value = self.slot(shape, index).cast::<u8>();
            (0..bytes.min(MOST_FETCHED)).step_by(LINE).for_each(|at| prefetch::<false>(value.wrapping_add(at)));
        }
    }

    /// The producer's side of its claimed slot: copies the value in. Returns whether the slot took it; otherwise the
    /// caller still owns the value.
    ///
    /// # Safety
    /// The caller has claimed this index and calls this once; the value may be read, and belongs to the slot if the
    /// slot took it.
    #[inline(always)]
    #[expect(unsafe_code, reason = "copies a value into a slot")]
    pub(crate) unsafe fn put(self, index: usize, value: *const T, how: How) -> bool {
        let How { shape, stalled, planted } = how;
        self.fetch_ahead(shape, index);
        // SAFETY: the slot is this producer's until its state says otherwise.
        self.with_value(shape, index, |slot| unsafe { slot.copy_from_nonoverlapping(value, 1) });
        let order = if planted.has(Mutant::FullRelaxed) { Ordering::Relaxed } else { Ordering::Release };
        if stalled == Stalled::Awaited || planted.has(Mutant::SkipUnseen) {
            self.state(shape, index).store(FULL | self.parity(), order);
            return true;
        }
        let put = self.settle(shape, index, FULL, order);
        if !put {
            self.finish(index);
        }
        put
    }

    /// The producer's side of a claimed slot it does not need.
    pub(crate) fn abandon(self, index: usize, how: How) {
        if !self.settle(how.shape, index, ABANDONED, Ordering::Release) {
            self.finish(index);
        }
    }

    /// How many slots from this one on, up to `end`, are settled. The caller has a ticket.
    pub(crate) fn settled(self, from: usize, end: usize, how: How) -> usize {
        let mut end = end.min(from + AHEAD);
        if end > from + 2 * GROUP && end < how.shape.slots {
            // Producers are writing in the last group: its line stays with them.
            end -= end % GROUP;
        }
        let settled = (from..end).take_while(|&index| self.is_settled(how.shape, index)).count();
        if settled == 0 && how.stalled == Stalled::Skipped && from < end {
            self.skip(from, how.shape);
            return 1;
        }
        settled
    }

    #[inline]
    fn is_settled(self, shape: Shape, index: usize) -> bool {
        let state = self.state(shape, index).load(Ordering::Acquire);
        state != UNTOUCHED && state & 1 == self.parity()
    }

    /// Waits a moment for the producer, then gives the slot up, unless it was settled meanwhile.
    #[cold]
    fn skip(self, index: usize, shape: Shape) {
        for _ in 0..LOOKS {
            if self.is_settled(shape, index) {
                return;
            }
            spin_loop();
        }
        self.settle(shape, index, SKIPPED, Ordering::Release);
    }

    /// The consumer's side of its claimed, settled slot: copies the value out, if there is one.
    ///
    /// # Safety
    /// The caller has claimed this index and calls this once; `out` can be written.
    #[inline(always)]
    #[expect(unsafe_code, reason = "copies a value out of a slot")]
    pub(crate) unsafe fn take(self, index: usize, out: *mut T, how: How) -> bool {
        let state = self.state(how.shape, index).load(Ordering::Acquire) & !1;
        if state == SKIPPED {
            return false;
        }
        if how.planted.has(Mutant::DoneEarly) {
            self.finish(index);
        }
        if state == FULL {
            // SAFETY: the producer has left a value, and only the claiming consumer takes it.
            self.with_value(how.shape, index, |slot| unsafe { out.copy_from_nonoverlapping(slot, 1) });
        }
        if !how.planted.has(Mutant::DoneEarly) {
            self.finish(index);
        }
        state == FULL
    }

    /// Puts the first value into a segment not yet known to other threads.
    ///
    /// # Safety
    /// Those of [`Segment::put`].
    #[expect(unsafe_code, reason = "copies a value into a slot")]
    pub(crate) unsafe fn put_first(self, value: *const T, how: How) {
        // SAFETY: the caller's promise, and no other thread knows the segment.
        unsafe { self.put(0, value, How { stalled: Stalled::Awaited, ..how }) };
    }

    /// Undoes [`Segment::put_first`] on a segment still unknown to other threads; the caller owns the value again.
    pub(crate) fn forget_first(self, shape: Shape) {
        self.state(shape, 0).store(UNTOUCHED, Ordering::Relaxed);
    }

    /// Notes that the tail has left, and the number of producers with a ticket.
    pub(crate) fn tail_left(self, tickets: usize) {
        self.header().tickets.0.of_tail.store(tickets, Ordering::Release);
    }

    /// Notes that the head has left, and the number of consumers with a ticket.
    pub(crate) fn head_left(self, tickets: usize) {
        self.header().tickets.0.of_head.store(tickets, Ordering::Release);
    }

    /// Returns a ticket after the head or the tail has left. The caller may not use the segment any more.
    pub(crate) fn return_ticket(self) {
        self.header().tickets.0.returned.fetch_add(1, Ordering::Release);
    }

    /// Whether no thread uses it any more, given that head and tail have left it.
    pub(crate) fn is_unused(self, how: How) -> bool {
        if how.planted.has(Mutant::RecycleAtOnce) {
            return true;
        }
        let tickets = &self.header().tickets.0;
        let taken = [&tickets.of_tail, &tickets.of_head].map(|count| count.load(Ordering::Acquire));
        if taken.contains(&UNKNOWN) || tickets.returned.load(Ordering::Acquire) != taken[0] + taken[1] {
            return false;
        }
        let done = DONE | self.parity();
        (0..how.shape.slots).all(|index| self.done(index).load(Ordering::Acquire) == done)
    }
}
