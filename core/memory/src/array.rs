//! An array with its segments at different, known locations, so work on a segment can run near it.
//!
//! Wheeler, Thain, Murphy, "Portable Performance from Workstation to Supercomputer: Distributing Data Structures with
//! Qthreads", §5.2: the qarray. Segments of whole pages; a static hash of their numbers gives each one's location, or a
//! list does, and then segments can be relocated; elements below 64 bytes are rounded up to a multiple of 8.
//!
//! We differ: the addresses are contiguous, and an element too long for a segment's rest continues in the next one, so
//! indexing is that of a slice; the list of owners stands beside the segments, since a question for a segment's
//! location would touch a list inside of it; relocating a segment moves its memory.

mod loops;
mod tiling;

use crate::distribution::Arrangement;
use crate::memory::Memory;
use crate::placed::{MOST_RUNS, PlaceError, Placed};
pub use loops::{Operand, Stencil, together};
use std::alloc::Layout;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;
pub use tiling::{Tile, TileOrder, Tiling};
use vicus_topology::{LocationId, NoSuchPlace, NodeId, Place};

/// The location of each segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// Segment by segment round all locations, by the segment's number alone: "Static Hash". No list is stored, so no
    /// segment can be relocated.
    #[default]
    StaticHash,
    /// Segment by segment, with a list: "Dist Reg Stripes".
    Stripes,
    /// Equal shares of neighbouring segments for the locations: "Dist Reg Fields".
    Fields,
    /// By chance, from this seed: "Dist Rand".
    Random(u64),
    /// All segments at one place.
    AllOn(Place),
}

impl Pattern {
    fn arrangement(self, segments: usize, memory: &Memory) -> Result<Arrangement, NoSuchPlace> {
        let locations = memory.locations().len();
        let each = |location: &dyn Fn(usize) -> usize| Arrangement::Each {
            locations: (0..segments).map(|segment| LocationId::new(location(segment))).collect(),
        };
        Ok(match self {
            Pattern::StaticHash => Arrangement::Round { locations },
            Pattern::Stripes => each(&|segment| segment % locations),
            Pattern::Fields => each(&|segment| (segment as u128 * locations as u128 / segments as u128) as usize),
            Pattern::Random(seed) => each(&|segment| (mixed(seed, segment as u64) % locations as u64) as usize),
            Pattern::AllOn(place) => {
                let location = memory.find_location(place)?.index();
                each(&|_| location)
            }
        })
    }
}

/// The least common multiple; `None` if it overflows.
fn common_multiple(one: usize, other: usize) -> Option<usize> {
    let (mut divisor, mut rest) = (one, other);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (one / divisor.max(1)).checked_mul(other).filter(|&bytes| bytes > 0)
}

/// The number at position `place` of SplitMix64's stream of a seed (Steele, Lea, Flood, OOPSLA 2014, Fig. 17).
pub(crate) fn mixed(seed: u64, place: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(place.wrapping_add(1)));
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// How an array lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayOptions {
    /// The pattern of its segments. Default: the static hash.
    pub pattern: Pattern,
    /// Pages of a segment; doubled as often as needed to have at most [`MOST_RUNS`] segments. Default: 16.
    pub segment_pages: usize,
    /// The number of elements worked on together, such as a row of a matrix: no segment begins or ends within a block.
    /// If whole blocks fill a segment of at most twice the size, the segment gets this size; otherwise a block across
    /// two segments belongs to the first one. Default: 1.
    pub block: usize,
}

impl Default for ArrayOptions {
    fn default() -> ArrayOptions {
        ArrayOptions { pattern: Pattern::default(), segment_pages: 16, block: 1 }
    }
}

/// Why an array was not made, or a segment not moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrayError {
    /// The array would need more bytes than there are addresses.
    TooLarge {
        /// How many elements.
        len: usize,
        /// Bytes from one to the next.
        stride: usize,
    },
    /// Segments of no page, or of more pages than there are addresses.
    SegmentPages(usize),
    /// The array could not be placed, or the segment not be moved.
    Place(PlaceError),
    /// There is no such place.
    NoSuchPlace(NoSuchPlace),
    /// There is no such segment.
    NoSuchSegment {
        /// The requested segment.
        segment: usize,
        /// How many there are.
        segments: usize,
    },
    /// The array lies by a static hash, so no segment can be moved.
    Fixed,
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrayError::TooLarge { len, stride } => {
                write!(f, "{len} elements of {stride} bytes are more than there are addresses")
            }
            ArrayError::SegmentPages(pages) => {
                write!(f, "a segment of {pages} pages: take at least 1, and not all memory")
            }
            ArrayError::Place(error) => error.fmt(f),
            ArrayError::NoSuchPlace(none) => none.fmt(f),
            ArrayError::NoSuchSegment { segment, segments } => {
                write!(f, "there is no segment {segment}: there are {segments}, counted from 0")
            }
            ArrayError::Fixed => {
                write!(f, "a static hash says where the segments lie: take another pattern to relocate them")
            }
        }
    }
}

impl std::error::Error for ArrayError {}

impl From<PlaceError> for ArrayError {
    fn from(error: PlaceError) -> ArrayError {
        ArrayError::Place(error)
    }
}

impl From<NoSuchPlace> for ArrayError {
    fn from(none: NoSuchPlace) -> ArrayError {
        ArrayError::NoSuchPlace(none)
    }
}

/// A type whose value of zero bytes is valid: fresh memory is zeroed.
///
/// # Safety
/// A value of zero bytes is valid.
#[expect(unsafe_code, reason = "an implementation promises that zero bytes are a valid value")]
pub unsafe trait Zero {}

macro_rules! zero {
    ($($number:ty)*) => { $(
        #[expect(unsafe_code, reason = "promises that zero bytes are a number")]
        // SAFETY: all bits zero is the number 0.
        unsafe impl Zero for $number {}
    )* };
}

zero! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 }

#[expect(unsafe_code, reason = "promises that zero bytes are an array")]
// SAFETY: an array is its elements.
unsafe impl<T: Zero, const N: usize> Zero for [T; N] {}

/// A distributed array. Elements below 64 bytes are rounded up to a multiple of 8 bytes, unless it is `TIGHT`.
///
/// ```
/// use std::sync::Arc;
/// use vicus_memory::{ArrayOptions, DistArray, FakePages, Memory, MemoryOptions};
/// use vicus_topology::Topology;
///
/// let machine = Topology::parse("node:2 core:1").unwrap();
/// let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 32 << 20, ..MemoryOptions::default() };
/// let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
/// let squares = DistArray::from_fn(&memory, 50_000, ArrayOptions::default(), |i| (i * i) as u64).unwrap();
/// assert_eq!(squares[300], 90_000);
/// // Each node's part, to be summed up there.
/// let sum = |&node| squares.runs(node).flat_map(|run| run.iter()).sum::<u64>();
/// assert_eq!(memory.locations().iter().map(sum).sum::<u64>(), squares.iter().sum::<u64>());
/// ```
pub struct DistArray<T, const TIGHT: bool = false> {
    placed: Placed,
    len: usize,
    segment_bytes: usize,
    segments: usize,
    /// The elements of one segment.
    block: usize,
    pattern: Pattern,
    elements: PhantomData<T>,
}

#[expect(unsafe_code, reason = "its elements are in raw memory")]
// SAFETY: it owns its elements as a vector does.
unsafe impl<T: Send, const TIGHT: bool> Send for DistArray<T, TIGHT> {}

#[expect(unsafe_code, reason = "its elements are in raw memory")]
// SAFETY: as above; `&self` gives `&T` alone.
unsafe impl<T: Sync, const TIGHT: bool> Sync for DistArray<T, TIGHT> {}

impl<T> DistArray<T> {
    /// `len` elements, each made from its index.
    ///
    /// # Errors
    /// It can't be placed like this; see [`ArrayError`].
    pub fn from_fn(
        memory: &Arc<Memory>,
        len: usize,
        options: ArrayOptions,
        f: impl FnMut(usize) -> T,
    ) -> Result<DistArray<T>, ArrayError> {
        DistArray::filled(memory, len, options, f)
    }

    /// `len` zeros; no page is touched.
    ///
    /// # Errors
    /// Those of [`DistArray::from_fn`].
    pub fn zeroed(memory: &Arc<Memory>, len: usize, options: ArrayOptions) -> Result<DistArray<T>, ArrayError>
    where
        T: Zero,
    {
        DistArray::of_zeros(memory, len, options)
    }
}

impl<T> DistArray<T, true> {
    /// Like [`DistArray::from_fn`], without rounding up the elements' size.
    ///
    /// # Errors
    /// Those of [`DistArray::from_fn`].
    pub fn tight_from_fn(
        memory: &Arc<Memory>,
        len: usize,
        options: ArrayOptions,
        f: impl FnMut(usize) -> T,
    ) -> Result<DistArray<T, true>, ArrayError> {
        DistArray::filled(memory, len, options, f)
    }

    /// Like [`DistArray::zeroed`], without rounding up the elements' size.
    ///
    /// # Errors
    /// Those of [`DistArray::from_fn`].
    pub fn tight_zeroed(
        memory: &Arc<Memory>,
        len: usize,
        options: ArrayOptions,
    ) -> Result<DistArray<T, true>, ArrayError>
    where
        T: Zero,
    {
        DistArray::of_zeros(memory, len, options)
    }
}

impl<T, const TIGHT: bool> DistArray<T, TIGHT> {
    /// Bytes from one element to the next. A multiple of the alignment: either it divides 8, or it divides a size that
    /// is a multiple of 8 already.
    pub const STRIDE: usize = match size_of::<T>() {
        0 => 1,
        size if TIGHT || size >= 64 => size,
        size => size.next_multiple_of(8),
    };

    fn filled(
        memory: &Arc<Memory>,
        len: usize,
        options: ArrayOptions,
        mut f: impl FnMut(usize) -> T,
    ) -> Result<DistArray<T, TIGHT>, ArrayError> {
        let mut array = DistArray::empty(memory, len, options)?;
        for index in 0..len {
            let at = array.at(index);
            #[expect(unsafe_code, reason = "the memory is raw")]
            // SAFETY: there is room for that element, and nothing in it yet.
            unsafe {
                at.write(f(index));
            }
            // If `f` panics next, this number of elements is dropped.
            array.len = index + 1;
        }
        Ok(array)
    }

    fn of_zeros(memory: &Arc<Memory>, len: usize, options: ArrayOptions) -> Result<DistArray<T, TIGHT>, ArrayError>
    where
        T: Zero,
    {
        let mut array = DistArray::empty(memory, len, options)?;
        array.len = len;
        Ok(array)
    }

    /// With room for `len` elements, and none yet.
    fn empty(memory: &Arc<Memory>, len: usize, options: ArrayOptions) -> Result<DistArray<T, TIGHT>, ArrayError> {
        let too_large = ArrayError::TooLarge { len, stride: Self::STRIDE };
        let bytes = len.checked_mul(Self::STRIDE).ok_or(too_large.clone())?;
        let layout = Layout::from_size_align(bytes, align_of::<T>()).map_err(|_| too_large)?;
        let pattern = options.pattern;
        let page = memory.pages().page_bytes();
        let segment =
            options.segment_pages.checked_mul(page).filter(|&bytes| bytes > 0 && bytes <= isize::MAX as usize);
        let mut segment_bytes = segment.ok_or(ArrayError::SegmentPages(options.segment_pages))?;
        // Page by page in turn is one run, however long.
        let in_turn = pattern == Pattern::StaticHash && segment_bytes == page;
        while !in_turn && bytes.div_ceil(segment_bytes) > MOST_RUNS {
            segment_bytes *= 2;
        }
        let block = options.block.max(1);
        let whole = block.checked_mul(Self::STRIDE).and_then(|bytes| common_multiple(bytes, page));
        if let Some(whole) = whole.filter(|&whole| block > 1 && whole <= 2 * segment_bytes) {
            segment_bytes = segment_bytes.next_multiple_of(whole);
        }
        let segments = bytes.div_ceil(segment_bytes).max(1);
        let placed = memory.place_as(layout, segment_bytes, pattern.arrangement(segments, memory)?)?;
        Ok(DistArray { placed, len: 0, segment_bytes, segments, block, pattern, elements: PhantomData })
    }

    /// The address of an element, present or not, with the provenance of all.
    #[inline(always)]
    fn at(&self, index: usize) -> NonNull<T> {
        #[expect(unsafe_code, reason = "an offset within the array")]
        // SAFETY: the memory has room for the elements up to the last, and callers don't ask beyond this end.
        unsafe {
            self.placed.start().byte_add(index * Self::STRIDE).cast()
        }
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// An element; `None` if there is no such index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: there is such an element, and `&self` keeps it.
        (index < self.len).then(|| unsafe { self.at(index).as_ref() })
    }

    /// Like [`DistArray::get`], for writing.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: there is such an element, and `&mut self` keeps it.
        (index < self.len).then(|| unsafe { self.at(index).as_mut() })
    }

    /// All elements as one run across their locations.
    pub fn all(&self) -> Run<'_, T, TIGHT> {
        self.run(0..self.len)
    }

    /// The elements of a range of indices. Panics if it is not within the array.
    pub fn run(&self, range: Range<usize>) -> Run<'_, T, TIGHT> {
        let (start, end, len) = (range.start, range.end, self.len);
        assert!(start <= end && end <= len, "elements {start} to {end} of {len}");
        Run { first: self.at(start), len: end - start, start, elements: PhantomData }
    }

    /// All elements in order.
    pub fn iter(&self) -> Iter<'_, T, TIGHT> {
        self.all().iter()
    }

    /// All elements as one slice, if there is nothing between them: then their size is their stride.
    pub fn as_slice(&self) -> Option<&[T]> {
        self.all().as_slice()
    }

    /// How many segments it has.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// How many bytes a segment has.
    pub fn segment_bytes(&self) -> usize {
        self.segment_bytes
    }

    /// The indices of the elements whose blocks begin in a segment. Panics if there is no such segment.
    pub fn segment(&self, segment: usize) -> Range<usize> {
        assert!(segment < self.segments, "segment {segment} of {}", self.segments);
        let before = |segment: usize| (segment * self.segment_bytes).div_ceil(Self::STRIDE);
        let first = |segment: usize| before(segment).next_multiple_of(self.block).min(self.len);
        first(segment)..first(segment + 1)
    }

    /// The segment in which an element's block begins. Panics if there is no such element.
    pub fn segment_of(&self, index: usize) -> usize {
        assert!(index < self.len, "element {index} of {}", self.len);
        index / self.block * self.block * Self::STRIDE / self.segment_bytes
    }

    /// The node requested for a segment, whether it could be placed or not: the node to work on it. Panics if there is
    /// no such segment.
    pub fn segment_node(&self, segment: usize) -> NodeId {
        assert!(segment < self.segments, "segment {segment} of {}", self.segments);
        self.placed.memory().node_at(self.placed.asked_location(segment))
    }

    /// The node requested for an element; `None` if nothing can be placed here. Panics if there is no such element.
    pub fn node_of(&self, index: usize) -> Option<NodeId> {
        use crate::region::Region;
        assert!(index < self.len, "element {index} of {}", self.len);
        self.placed.node_of(self.at(index).as_ptr().cast())
    }

    /// The elements nearest to a place, as runs of the greatest length: the work of that place. Those on its node, if
    /// it has memory. (So the runs of all [`Memory::locations`] have each element once.) Panics if there is no such
    /// place.
    pub fn runs(&self, place: impl Into<Place>) -> impl Iterator<Item = Run<'_, T, TIGHT>> {
        let node = self.placed.memory().node_near(place);
        let ranges = self.ranges().filter(move |(_, at)| *at == node);
        ranges.map(|(range, _)| self.run(range))
    }

    /// The indices in order, in ranges of the greatest length on one node each. Segments without the beginning of an
    /// element are left out.
    pub fn ranges(&self) -> impl Iterator<Item = (Range<usize>, NodeId)> {
        let mut segment = 0;
        std::iter::from_fn(move || {
            if segment == self.segments {
                return None;
            }
            let (first, node) = (segment, self.segment_node(segment));
            while segment < self.segments && self.segment_node(segment) == node {
                segment += 1;
            }
            Some((self.segment(first).start..self.segment(segment - 1).end, node))
        })
        .filter(|(range, _)| !range.is_empty())
    }

    /// Like [`DistArray::ranges`], for writing: each range can go to a thread of its own.
    pub fn ranges_mut(&mut self) -> Vec<(RunMut<'_, T, TIGHT>, NodeId)> {
        let run = |range: Range<usize>| RunMut {
            first: self.at(range.start),
            len: range.len(),
            start: range.start,
            elements: PhantomData,
        };
        self.ranges().map(|(range, node)| (run(range), node)).collect()
    }

    /// Moves a segment to another place. Its elements keep their values and addresses, in use or not.
    ///
    /// # Errors
    /// It can't be moved; then it stays at its place.
    pub fn relocate(&self, segment: usize, to: impl Into<Place>) -> Result<(), ArrayError> {
        let (segments, to) = (self.segments, to.into());
        if self.pattern == Pattern::StaticHash {
            return Err(ArrayError::Fixed);
        }
        if segment >= segments {
            return Err(ArrayError::NoSuchSegment { segment, segments });
        }
        self.placed.memory().find_location(to)?;
        Ok(self.placed.relocate(segment, to)?)
    }

    /// The memory it lies in.
    pub fn placed(&self) -> &Placed {
        &self.placed
    }
}

impl<T, const TIGHT: bool> Drop for DistArray<T, TIGHT> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            for index in 0..self.len {
                #[expect(unsafe_code, reason = "the memory is raw")]
                // SAFETY: it is initialised, and dropped once, here.
                unsafe {
                    self.at(index).drop_in_place();
                }
            }
        }
    }
}

impl<T, const TIGHT: bool> Index<usize> for DistArray<T, TIGHT> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        match self.get(index) {
            Some(element) => element,
            None => no_such_element(index, self.len),
        }
    }
}

impl<T, const TIGHT: bool> IndexMut<usize> for DistArray<T, TIGHT> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        let len = self.len;
        match self.get_mut(index) {
            Some(element) => element,
            None => no_such_element(index, len),
        }
    }
}

#[cold]
fn no_such_element(index: usize, len: usize) -> ! {
    panic!("there is no element {index}: the array has {len}, counted from 0")
}

impl<T, const TIGHT: bool> fmt::Debug for DistArray<T, TIGHT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DistArray { placed: _, len, segment_bytes, segments, block: _, pattern, elements: _ } = self;
        write!(f, "{len} elements in {segments} segments of {segment_bytes} bytes, {pattern:?}")
    }
}

/// Neighbouring elements of an array.
pub struct Run<'a, T, const TIGHT: bool = false> {
    first: NonNull<T>,
    len: usize,
    start: usize,
    elements: PhantomData<&'a [T]>,
}

impl<T, const TIGHT: bool> Clone for Run<'_, T, TIGHT> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const TIGHT: bool> Copy for Run<'_, T, TIGHT> {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: it is a shared slice in all but its stride.
unsafe impl<T: Sync, const TIGHT: bool> Send for Run<'_, T, TIGHT> {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above.
unsafe impl<T: Sync, const TIGHT: bool> Sync for Run<'_, T, TIGHT> {}

impl<'a, T, const TIGHT: bool> Run<'a, T, TIGHT> {
    /// The indices of its elements in the array.
    pub fn indices(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// Its elements in order.
    #[inline]
    pub fn iter(&self) -> Iter<'a, T, TIGHT> {
        Iter { next: self.first, left: self.len, elements: PhantomData }
    }

    /// This run as a slice, if there is nothing between two elements: known when the program is built.
    #[inline]
    pub fn as_slice(&self) -> Option<&'a [T]> {
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: the array's borrow keeps these `len` elements, one behind the other.
        is_slice::<T, TIGHT>().then(|| unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) })
    }
}

const fn is_slice<T, const TIGHT: bool>() -> bool {
    DistArray::<T, TIGHT>::STRIDE == size_of::<T>()
}

/// Neighbouring elements of an array, for writing.
pub struct RunMut<'a, T, const TIGHT: bool = false> {
    first: NonNull<T>,
    len: usize,
    start: usize,
    elements: PhantomData<&'a mut [T]>,
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: it is a slice for writing in all but its stride.
unsafe impl<T: Send, const TIGHT: bool> Send for RunMut<'_, T, TIGHT> {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above.
unsafe impl<T: Sync, const TIGHT: bool> Sync for RunMut<'_, T, TIGHT> {}

impl<T, const TIGHT: bool> RunMut<'_, T, TIGHT> {
    /// The indices of its elements in the array.
    pub fn indices(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// Its elements in order.
    #[inline]
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut T> {
        let first = self.first;
        (0..self.len).map(move |index| {
            #[expect(unsafe_code, reason = "the memory is raw")]
            // SAFETY: an element of this run, handed out once.
            unsafe {
                first.byte_add(index * DistArray::<T, TIGHT>::STRIDE).as_mut()
            }
        })
    }

    /// This run as a slice, if there is nothing between two elements: known when the program is built.
    #[inline]
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: this borrow keeps these `len` elements, one behind the other.
        is_slice::<T, TIGHT>().then(|| unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) })
    }
}

/// The elements of a run in order.
pub struct Iter<'a, T, const TIGHT: bool = false> {
    next: NonNull<T>,
    left: usize,
    elements: PhantomData<&'a [T]>,
}

impl<'a, T, const TIGHT: bool> Iterator for Iter<'a, T, TIGHT> {
    type Item = &'a T;

    #[inline(always)]
    fn next(&mut self) -> Option<&'a T> {
        self.left = self.left.checked_sub(1)?;
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: one of the run's elements, kept by the array's borrow; behind the last one the memory goes on at
        // least to the end of its stride.
        unsafe {
            let element = self.next.as_ref();
            self.next = self.next.byte_add(DistArray::<T, TIGHT>::STRIDE);
            Some(element)
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    #[inline]
    fn fold<B, F: FnMut(B, &'a T) -> B>(self, init: B, f: F) -> B {
        let run = Run::<T, TIGHT> { first: self.next, len: self.left, start: 0, elements: PhantomData };
        let stride = DistArray::<T, TIGHT>::STRIDE;
        match run.as_slice() {
            Some(slice) => slice.iter().fold(init, f),
            #[expect(unsafe_code, reason = "the memory is raw")]
            // SAFETY: one of the run's elements, kept by the array's borrow.
            None => (0..run.len).map(|index| unsafe { run.first.byte_add(index * stride).as_ref() }).fold(init, f),
        }
    }
}

impl<T, const TIGHT: bool> ExactSizeIterator for Iter<'_, T, TIGHT> {}
impl<T, const TIGHT: bool> FusedIterator for Iter<'_, T, TIGHT> {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: it is a slice's iterator in all but its stride.
unsafe impl<T: Sync, const TIGHT: bool> Send for Iter<'_, T, TIGHT> {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above.
unsafe impl<T: Sync, const TIGHT: bool> Sync for Iter<'_, T, TIGHT> {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::MemoryOptions;
    use crate::pages::{FakePages, PageError};
    use std::rc::Rc;
    use vicus_topology::Topology;

    const PAGE: usize = 4096;

    const NO_NODE2: &str = "there is no node2: the number of nodes is 2, counted from 0";

    /// The wanted location of a segment, by its index and the number of segments.
    type Locations<'a> = &'a dyn Fn(usize, usize) -> usize;

    pub(super) fn memory(nodes: usize) -> (Arc<Memory>, Arc<FakePages>) {
        let machine = Topology::parse(&format!("node:{nodes} core:1")).unwrap();
        let series = crate::Series { limit: 64 << 10, ..Default::default() };
        let options = MemoryOptions {
            superblock_bytes: 1 << 20,
            range_bytes: 2 << 20,
            placed_bytes: if cfg!(miri) { 4 << 20 } else { 32 << 20 },
            series,
            ..MemoryOptions::default()
        };
        Memory::on_fake_pages(&machine, options)
    }

    pub(super) fn options(pattern: Pattern, segment_pages: usize) -> ArrayOptions {
        ArrayOptions { pattern, segment_pages, ..ArrayOptions::default() }
    }

    /// By the page source's word, each element is on its segment's node, the ranges are a partition, and neighbours in
    /// it differ.
    #[test]
    fn each_pattern_puts_segments_where_it_says() {
        let (memory, _) = memory(3);
        let count = if cfg!(miri) { 2_000 } else { 20_000 };
        let hash = |segment: usize, _: usize| segment % 3;
        let fields = |segment: usize, segments: usize| (0..3).find(|part| segment * 3 < segments * (part + 1)).unwrap();
        let cases: [(Pattern, Locations<'_>); 4] = [
            (Pattern::StaticHash, &hash),
            (Pattern::Stripes, &hash),
            (Pattern::Fields, &fields),
            (Pattern::AllOn(NodeId::new(2).into()), &|_, _| 2),
        ];
        for (pattern, expected) in cases {
            for segment_pages in [1, 3] {
                let array: DistArray<u64> =
                    DistArray::from_fn(&memory, count, options(pattern, segment_pages), |i| i as u64 * 3).unwrap();
                let segments = (count * 8).div_ceil(segment_pages * PAGE);
                assert_eq!(array.segments(), segments);
                for index in (0..count).step_by(if cfg!(miri) { 97 } else { 1 }) {
                    let segment = index * 8 / (segment_pages * PAGE);
                    let location = expected(segment, segments);
                    assert_eq!(array.segment_of(index), segment);
                    let node = NodeId::new(location);
                    assert_eq!(array.segment_node(segment), node, "{pattern:?}, segment {segment} of {segments}");
                    assert_eq!(array.node_of(index), Some(node));
                    let address = std::ptr::from_ref(&array[index]).addr();
                    assert_eq!(memory.pages().truth(&[address]), [Some(NodeId::new(location))]);
                    assert_eq!(array[index], index as u64 * 3);
                }
                let ranges: Vec<_> = array.ranges().collect();
                assert_eq!(ranges.first().map(|first| first.0.start), Some(0));
                assert_eq!(ranges.last().map(|last| last.0.end), Some(count));
                assert!(ranges.windows(2).all(|two| two[0].0.end == two[1].0.start && two[0].1 != two[1].1));
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "chance needs many segments")]
    fn a_random_array_is_its_seeds_and_uses_all_locations() {
        let (memory, _) = memory(4);
        let owners = |seed: u64| {
            let array: DistArray<[u64; 512]> =
                DistArray::zeroed(&memory, 400, options(Pattern::Random(seed), 1)).unwrap();
            (0..array.segments()).map(|segment| array.segment_node(segment)).collect::<Vec<_>>()
        };
        assert_eq!(owners(7), owners(7));
        assert_ne!(owners(7), owners(8));
        for node in [0, 1, 2, 3].map(NodeId::new) {
            let share = owners(7).iter().filter(|&&at| at == node).count();
            // 100 on average; the standard deviation is 8.7.
            assert!((60..=140).contains(&share), "{share} of 400 on {node}");
        }
    }

    #[test]
    fn the_stream_is_splitmix64() {
        // The first values of seed 1234567, as in the test vectors of Rosetta Code's "Pseudo-random
        // numbers/Splitmix64".
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([0, 1, 2].map(|place| mixed(1_234_567, place)), expected);
    }

    #[test]
    fn elements_below_64_bytes_are_rounded_up_to_8_unless_tight() {
        fn strides<const BYTES: usize>() -> [usize; 2] {
            [DistArray::<[u8; BYTES]>::STRIDE, DistArray::<[u8; BYTES], true>::STRIDE]
        }
        assert_eq!(strides::<1>(), [8, 1]);
        assert_eq!(strides::<8>(), [8, 8]);
        assert_eq!(strides::<44>(), [48, 44]);
        assert_eq!(strides::<63>(), [64, 63]);
        assert_eq!(strides::<64>(), [64, 64]);
        assert_eq!(strides::<65>(), [65, 65]);
        let (memory, _) = memory(2);
        let bytes = |i: usize| [i as u8; 3];
        let rounded = DistArray::from_fn(&memory, 1500, options(Pattern::Stripes, 1), bytes).unwrap();
        let tight = DistArray::tight_from_fn(&memory, 1500, options(Pattern::Stripes, 1), bytes).unwrap();
        let apart = |a: &[u8; 3], b: &[u8; 3]| std::ptr::from_ref(b).addr() - std::ptr::from_ref(a).addr();
        assert_eq!((apart(&rounded[0], &rounded[1499]), apart(&tight[0], &tight[1499])), (1499 * 8, 1499 * 3));
        assert!(rounded.as_slice().is_none());
        let expected: Vec<[u8; 3]> = (0..1500).map(bytes).collect();
        assert_eq!(tight.as_slice(), Some(&expected[..]));
        assert!(rounded.iter().eq(&expected) && tight.iter().eq(&expected));
        let folded = rounded.iter().fold(0, |sum, element| sum + usize::from(element[1]));
        assert_eq!(folded, expected.iter().map(|element| usize::from(element[0])).sum::<usize>());
        // Element 1365 begins in the first page and ends in the second: 1365 × 3 = 4095.
        assert_eq!((tight.segment_of(1365), tight.segment(1)), (0, 1366..1500));
        assert_eq!(tight[1365], [1365 % 256; 3].map(|byte: usize| byte as u8));
    }

    #[test]
    fn elements_larger_than_a_segment_leave_segments_empty() {
        let (memory, _) = memory(2);
        let array: DistArray<[u64; 1200]> = DistArray::zeroed(&memory, 5, options(Pattern::StaticHash, 1)).unwrap();
        let ranges: Vec<_> = array.ranges().collect();
        // 9,600 bytes each: they begin in the pages 0, 2, 4, 7 and 9.
        let [zero, one] = [0, 1].map(NodeId::new);
        assert_eq!(ranges, [(0..1, zero), (1..2, zero), (2..3, zero), (3..4, one), (4..5, one)]);
        assert_eq!(array.runs(zero).map(|run| run.iter().count()).sum::<usize>(), 3);
    }

    #[test]
    fn a_segment_is_relocated_unless_a_hash_says_where_it_lies() {
        let (memory, pages) = memory(2);
        let fixed: DistArray<u64> = DistArray::zeroed(&memory, 4096, options(Pattern::StaticHash, 1)).unwrap();
        let [zero, one] = [0, 1].map(NodeId::new);
        assert_eq!(fixed.relocate(0, one), Err(ArrayError::Fixed));
        for pattern in [Pattern::Stripes, Pattern::Fields, Pattern::Random(1), Pattern::AllOn(zero.into())] {
            let array: DistArray<u64> = DistArray::from_fn(&memory, 4096, options(pattern, 2), |i| i as u64).unwrap();
            let held = &array[600];
            for node in [one, zero, one] {
                array.relocate(1, node).unwrap();
                assert_eq!((array.segment_node(1), array.node_of(1500)), (node, Some(node)));
                let address = std::ptr::from_ref(&array[1500]).addr();
                assert_eq!(memory.pages().truth(&[address]), [Some(node)]);
            }
            assert_eq!(*held, 600, "in use meanwhile");
            assert!(array.iter().copied().eq(0..4096));
            let told = |error: Result<(), ArrayError>| error.unwrap_err().to_string();
            assert_eq!(told(array.relocate(4, zero)), "there is no segment 4: there are 4, counted from 0");
            assert_eq!(told(array.relocate(0, NodeId::new(2))), NO_NODE2);
            pages.refuse_placing(Some(PageError::Refused(1)));
            assert!(told(array.relocate(1, zero)).contains("refused with error 1"));
            assert_eq!(array.segment_node(1), one, "it stays where it is");
            pages.refuse_placing(None);
        }
    }

    #[test]
    fn where_nothing_can_be_placed_work_is_divided_all_the_same() {
        let (memory, pages) = memory(2);
        pages.refuse_placing(Some(PageError::Refused(1)));
        let array: DistArray<u64> = DistArray::zeroed(&memory, 4096, options(Pattern::Stripes, 1)).unwrap();
        assert_eq!(array.runs(NodeId::new(0)).map(|run| run.iter().count()).sum::<usize>(), 2048);
        assert_eq!(array.node_of(0), None);
    }

    #[test]
    fn ranges_are_written_each_on_its_own() {
        let (memory, _) = memory(2);
        let mut array: DistArray<u32> = DistArray::zeroed(&memory, 3000, options(Pattern::Stripes, 1)).unwrap();
        let mut runs = array.ranges_mut();
        // In any order, all at hand at once.
        for (run, node) in runs.iter_mut().rev() {
            let (indices, node) = (run.indices(), node.index() as u32);
            run.iter_mut().zip(indices).for_each(|(element, index)| *element = index as u32 * 2 + node);
        }
        // 512 elements of 8 bytes to a page.
        assert!((0..3000).all(|index| array[index] == index as u32 * 2 + (index / 512 % 2) as u32));
        array[2999] = 1;
        *array.get_mut(0).unwrap() = 9;
        assert_eq!((array[0], array.get(2999), array.get(3000)), (9, Some(&1), None));
    }

    #[test]
    fn every_element_is_dropped_once_even_if_making_one_panics() {
        let (memory, pages) = memory(2);
        let token = Rc::new(());
        let array: DistArray<Rc<()>> =
            DistArray::from_fn(&memory, 700, options(Pattern::Stripes, 1), |_| token.clone()).unwrap();
        assert_eq!(Rc::strong_count(&token), 701);
        drop(array);
        assert_eq!(Rc::strong_count(&token), 1);
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            DistArray::from_fn(&memory, 700, ArrayOptions::default(), |i| {
                assert!(i < 300, "no more");
                token.clone()
            })
        }));
        assert!(made.is_err());
        assert_eq!(Rc::strong_count(&token), 1);
        drop(memory);
        assert_eq!(pages.reserved(), 0);
    }

    #[test]
    fn what_can_not_be_is_refused_at_the_call() {
        let (memory, _) = memory(2);
        let refused = |len: usize, options: ArrayOptions| {
            let array: Result<DistArray<u64>, _> = DistArray::zeroed(&memory, len, options);
            array.unwrap_err().to_string()
        };
        let usual = ArrayOptions::default();
        assert_eq!(
            refused(usize::MAX, usual),
            "18446744073709551615 elements of 8 bytes are more than there are addresses"
        );
        assert!(refused(usize::MAX / 8, usual).contains("more than there are addresses"));
        assert!(refused(1 << 40, usual).contains("raise `MemoryOptions::placed_bytes`"));
        assert!(refused(1, options(Pattern::StaticHash, 0)).starts_with("a segment of 0 pages"));
        assert!(refused(1, options(Pattern::StaticHash, usize::MAX)).contains("not all memory"));
        assert_eq!(refused(1, options(Pattern::AllOn(NodeId::new(2).into()), 1)), NO_NODE2);
        let none: DistArray<u64> = DistArray::zeroed(&memory, 0, usual).unwrap();
        assert_eq!((none.is_empty(), none.ranges().count(), none.iter().next()), (true, 0, None));
        let unit = DistArray::from_fn(&memory, 5, usual, |_| ()).unwrap();
        assert_eq!(unit.iter().count(), 5);
    }

    #[test]
    #[should_panic(expected = "there is no element 3: the array has 3, counted from 0")]
    fn an_index_behind_the_end_is_named() {
        let (memory, _) = memory(1);
        let array: DistArray<u64> = DistArray::zeroed(&memory, 3, ArrayOptions::default()).unwrap();
        let _ = array[3];
    }

    #[test]
    #[cfg_attr(miri, ignore = "64 MiB")]
    fn large_arrays_have_larger_segments() {
        let machine = Topology::parse("node:2 core:1").unwrap();
        let wide = MemoryOptions { placed_bytes: 256 << 20, range_bytes: 8 << 20, ..MemoryOptions::default() };
        let (memory, _) = Memory::on_fake_pages(&machine, wide);
        let bytes = MOST_RUNS * PAGE;
        for (bytes, pages) in [(bytes, 1), (bytes + 1, 2)] {
            let array: DistArray<u8, true> =
                DistArray::tight_zeroed(&memory, bytes, options(Pattern::Stripes, 1)).unwrap();
            assert_eq!(array.segment_bytes(), pages * PAGE);
            assert_eq!(array.segments(), bytes.div_ceil(pages * PAGE));
        }
        // Page by page in turn needs no list.
        let array: DistArray<u8, true> =
            DistArray::tight_zeroed(&memory, bytes + 1, options(Pattern::StaticHash, 1)).unwrap();
        assert_eq!(array.segment_bytes(), PAGE);
    }
}
