//! Arrays in segments, each owned by a shepherd.
//!
//! Creation touches no page. On a machine with several nodes, the system is first told the node of each segment's
//! pages; if it refuses, a thread of the segment's shepherd touches them.

use crate::each::each;
use crate::exports;
use crate::fork::{Function, finish_part, spawn_part};
use crate::hash;
use crate::library::{self, Library};
use crate::loops::{Accumulate, Argument, Results};
use crate::object::Object;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use vicus::NodeId;
use vicus::kit::{MOST_RUNS, PageError, PagePlacement, Pages};
use vicus::memory::WhenFull;
use vicus::threads::full_empty;

/// The header's structure, and behind it the library's fields.
#[repr(C)]
pub(crate) struct Array {
    unit_bytes: usize,
    pub(crate) count: usize,
    segment_units: usize,
    segment_bytes: usize,
    base: *mut u8,
    kind: u32,
    /// A shepherd, or how many segments each shepherd has and how many have one more.
    details: [usize; 2],
    /// By segment: its shepherd.
    homes: Box<[AtomicU16]>,
    /// How many of [`RUNS`] are its.
    runs: AtomicUsize,
}

/// The number of runs of pages in all arrays, each of them a mapping of the process: [`MOST_RUNS`] at most, a quarter
/// of Linux's limit.
static RUNS: AtomicUsize = AtomicUsize::new(0);

/// Elements below are rounded up to a multiple of 8 bytes. Beyond, a layout without gaps gains more than aligned
/// elements do (Wheeler et al., §5.2 and Fig. 6).
const MOST_ROUNDED: usize = 64;

/// Kinds, by the numbers of the header.
mod kinds {
    pub(super) const FIXED_HASH: u32 = 0;
    pub(super) const FIXED_FIELDS: u32 = 1;
    pub(super) const ALL_SAME: u32 = 2;
    pub(super) const DIST: u32 = 3;
    pub(super) const DIST_STRIPES: u32 = 4;
    pub(super) const DIST_FIELDS: u32 = 5;
    pub(super) const DIST_RAND: u32 = 6;
    pub(super) const DIST_LEAST: u32 = 7;
    pub(super) const ALL_LOCAL: u32 = 8;
    pub(super) const ALL_RAND: u32 = 9;
    pub(super) const ALL_LEAST: u32 = 10;
}

/// By shepherd, modulo its length: how many bytes of arrays it has.
static BYTES: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

fn bytes_of(shepherd: u16) -> &'static AtomicUsize {
    &BYTES[usize::from(shepherd) % BYTES.len()]
}

fn least(shepherds: u16) -> u16 {
    (0..shepherds).min_by_key(|&shepherd| bytes_of(shepherd).load(Ordering::Relaxed)).unwrap_or(0)
}

fn by_chance(shepherds: u16) -> u16 {
    static STEPS: AtomicU64 = AtomicU64::new(0);
    (hash::mix(STEPS.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)) % u64::from(shepherds.max(1))) as u16
}

/// Anonymous memory, without pages before they are touched; `None` if there is not enough.
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: rule "System": a new mapping.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { None } else { NonNull::new(mapped.cast()) }
}

impl Array {
    fn new(count: usize, unit: usize, kind: u32, is_tight: bool, pages: i32) -> Option<*mut Array> {
        if count == 0 || unit == 0 || kind > kinds::ALL_LEAST {
            return None;
        }
        let library = library::get()?;
        let page = library.pages.page_bytes();
        let unit_bytes = if is_tight || unit >= MOST_ROUNDED { unit } else { unit.next_multiple_of(8) };
        // Large enough to make the cost of a thread small beside the work on a segment, and to keep elements from
        // crossing segments.
        let wanted = if pages > 0 { (pages as usize).checked_mul(page)? } else { 16 * page };
        let segment_bytes = wanted.max(unit_bytes).checked_next_multiple_of(page)?;
        let segment_units = segment_bytes / unit_bytes;
        let segments = count.div_ceil(segment_units);
        let base = map(segments.checked_mul(segment_bytes)?)?.as_ptr();
        let shepherds = library.shepherds.len() as u16;
        let own = library.worker().map_or(0, |worker| worker.shepherd);
        let one = match kind {
            kinds::ALL_RAND => by_chance(shepherds),
            kinds::ALL_LEAST => least(shepherds),
            _ => own,
        };
        let home = |segment: usize| match kind {
            kinds::FIXED_HASH | kinds::DIST_STRIPES => (segment % usize::from(shepherds)) as u16,
            kinds::FIXED_FIELDS | kinds::DIST_FIELDS => (segment * usize::from(shepherds) / segments) as u16,
            kinds::DIST | kinds::DIST_RAND => by_chance(shepherds),
            kinds::DIST_LEAST => least(shepherds),
            _ => one,
        };
        let homes: Box<[AtomicU16]> = (0..segments)
            .map(|segment| {
                let home = home(segment);
                bytes_of(home).fetch_add(segment_bytes, Ordering::Relaxed);
                AtomicU16::new(home)
            })
            .collect();
        let kind = match kind {
            kinds::FIXED_HASH | kinds::FIXED_FIELDS => kind,
            kinds::ALL_SAME | kinds::ALL_LOCAL.. => kinds::ALL_SAME,
            _ => kinds::DIST,
        };
        let details = match kind {
            kinds::ALL_SAME => [usize::from(one), 0],
            _ => [segments / usize::from(shepherds), segments % usize::from(shepherds)],
        };
        let runs = AtomicUsize::new(0);
        let array = Array { unit_bytes, count, segment_units, segment_bytes, base, kind, details, homes, runs };
        let pointer = Box::into_raw(Box::new(array));
        // SAFETY: a new box, which the program has and ends later.
        let array: &'static Array = unsafe { &*pointer };
        if library.has_nodes() && array.place(library).is_err() {
            array.touch(page);
        }
        Some(pointer)
    }

    /// The node of a segment's shepherd.
    fn node(&self, library: &Library, segment: usize) -> NodeId {
        library.shepherds[usize::from(self.homes[segment].load(Ordering::Relaxed))].node
    }

    fn bytes(&self, segments: Range<usize>) -> (NonNull<u8>, usize) {
        let start = self.base.wrapping_add(segments.start * self.segment_bytes);
        (NonNull::new(start).expect("it is mapped"), segments.len() * self.segment_bytes)
    }

    /// Tells the system the node of each page for its first touch. Pages of a node without memory lie near their first
    /// touch.
    fn place(&self, library: &Library) -> Result<(), PageError> {
        let mut runs = vec![0];
        runs.extend((1..self.homes.len()).filter(|&at| self.node(library, at) != self.node(library, at - 1)));
        if !self.books(runs.len()) {
            return Err(PageError::Refused(libc::ENOMEM));
        }
        runs.push(self.homes.len());
        let topology = library.runtime().topology();
        runs.windows(2).try_for_each(|ends| {
            let (start, bytes) = self.bytes(ends[0]..ends[1]);
            let node = self.node(library, ends[0]);
            if !topology.has_memory(node) || !library.pages.may_use(node) {
                return Ok(());
            }
            let on = PagePlacement::On(node, WhenFull::Preferred);
            // SAFETY: pages of this array; they are mapped in the way of `SystemPages::map`, which remembers nothing of
            // its reservations.
            unsafe { library.pages.place(start, bytes, on) }
        })
    }

    /// Whether the process may have `runs` more mappings for it.
    fn books(&self, runs: usize) -> bool {
        let is_booked = RUNS.fetch_add(runs, Ordering::Relaxed) + runs <= MOST_RUNS;
        let undone = if is_booked { 0 } else { runs };
        RUNS.fetch_sub(undone, Ordering::Relaxed);
        self.runs.fetch_add(runs - undone, Ordering::Relaxed);
        is_booked
    }

    /// Gives a segment to a shepherd, and moves its pages to the shepherd's node. If the system refuses, they stay.
    fn give(&self, library: Option<&Library>, segment: usize, shepherd: u16) {
        let before = self.homes[segment].swap(shepherd, Ordering::Relaxed);
        bytes_of(before).fetch_sub(self.segment_bytes, Ordering::Relaxed);
        bytes_of(shepherd).fetch_add(self.segment_bytes, Ordering::Relaxed);
        let Some(library) = library.filter(|library| before != shepherd && library.has_nodes()) else { return };
        // One is cut into three.
        if !self.books(2) {
            return;
        }
        let (start, bytes) = self.bytes(segment..segment + 1);
        // SAFETY: pages of this array, mapped as in `place`.
        let _ = unsafe { library.pages.relocate(start, bytes, self.node(library, segment), WhenFull::Preferred) };
    }

    /// Has each page touched near its node.
    fn touch(&'static self, page: usize) {
        // A huge page would lie on the node of its first segment.
        // SAFETY: rule "System": the mapping of this array, with its bytes.
        unsafe { libc::madvise(self.base.cast(), self.homes.len() * self.segment_bytes, libc::MADV_NOHUGEPAGE) };
        let whole = self.segment_units;
        self.each_segment((0, self.homes.len() * whole), move |from, _| {
            let first = from / self.segment_units * self.segment_bytes;
            for page in (first..first + self.segment_bytes).step_by(page) {
                // SAFETY: a page of this array, which the program does not have yet.
                unsafe { self.base.add(page).write_volatile(0) };
            }
        });
    }

    /// Bytes of an element.
    pub(crate) fn unit(&self) -> usize {
        self.unit_bytes
    }

    pub(crate) fn at(&self, index: usize) -> *mut u8 {
        let segment = index / self.segment_units;
        let within = index - segment * self.segment_units;
        self.base.wrapping_add(segment * self.segment_bytes + within * self.unit_bytes)
    }

    fn home(&self, index: usize) -> u16 {
        let segment = (index / self.segment_units).min(self.homes.len() - 1);
        self.homes[segment].load(Ordering::Relaxed)
    }

    /// Calls `f` with the part of the range in each segment, at the segment's shepherd: each shepherd has a thread for
    /// each of its workers, if it has as many segments. The array is there as long as the program's functions run on
    /// it: rule "Objects".
    pub(crate) fn each_segment(&'static self, range: (usize, usize), f: impl Fn(usize, usize) + Send + Sync + 'static) {
        let (start, stop) = range;
        if start >= stop {
            return;
        }
        let (first, last) = (start / self.segment_units, (stop - 1) / self.segment_units);
        let call = move |segment: usize| {
            let from = (segment * self.segment_units).max(start);
            let to = ((segment + 1) * self.segment_units).min(stop);
            f(from, to);
        };
        let Some(library) = library::get() else { return (first..=last).for_each(call) };
        let homes = &self.homes[first.min(self.homes.len())..(last + 1).min(self.homes.len())];
        let mut counts = vec![0_usize; library.shepherds.len()];
        homes.iter().for_each(|home| counts[usize::from(home.load(Ordering::Relaxed))] += 1);
        let threads: Arc<[(u16, usize, usize)]> = counts
            .iter()
            .enumerate()
            .flat_map(|(shepherd, &segments)| {
                let of_shepherd = library.shepherds[shepherd].active_workers().max(1).min(segments);
                (0..of_shepherd).map(move |index| (shepherd as u16, index, of_shepherd))
            })
            .collect();
        let theirs = Arc::clone(&threads);
        each(
            threads.len(),
            |index, _| threads[index].0,
            move |index| {
                let (shepherd, own, all) = theirs[index];
                let mine = Cell::new(0);
                let is_mine = |&segment: &usize| {
                    self.homes[segment].load(Ordering::Relaxed) == shepherd
                        && mine.replace((mine.get() + 1) % all) == own
                };
                (first..=last).filter(is_mine).for_each(&call);
            },
        );
    }
}

/// The array of an argument, and a range within it.
fn array(array: Object<Array>, range: (usize, usize)) -> Option<(&'static Array, (usize, usize))> {
    let array = array.get()?;
    Some((array, (range.0.min(array.count), range.1.min(array.count))))
}

// SAFETY: its memory is the program's to use, by any threads; functions that write its fields are called by one thread
// at a time.
unsafe impl Sync for Array {}

type Loop = unsafe extern "C-unwind" fn(usize, usize, *mut Array, *mut libc::c_void);
type Folding = unsafe extern "C-unwind" fn(usize, usize, *mut Array, *mut libc::c_void, *mut libc::c_void);

fn iterate(pointer: Object<Array>, range: (usize, usize), f: Option<Loop>, argument: *mut libc::c_void) {
    let (Some(f), Some((own, range))) = (f, array(pointer, range)) else { return };
    let (pointer, argument) = (Argument(pointer.pointer().cast()), Argument(argument));
    // SAFETY: rule "Interface": the program's function, with its argument.
    own.each_segment(range, move |from, to| unsafe { f(from, to, pointer.get().cast(), argument.get()) });
}

exports! {
    fn qarray_create(count: usize, unit: usize) -> *mut Array {
        Array::new(count, unit, kinds::FIXED_HASH, false, 0).unwrap_or(ptr::null_mut())
    }

    fn qarray_create_tight(count: usize, unit: usize) -> *mut Array {
        Array::new(count, unit, kinds::FIXED_HASH, true, 0).unwrap_or(ptr::null_mut())
    }

    fn qarray_create_configured(count: usize, unit: usize, kind: u32, is_tight: i8, pages: i32) -> *mut Array {
        Array::new(count, unit, kind, is_tight != 0, pages).unwrap_or(ptr::null_mut())
    }

    fn qarray_destroy(array: Object<Array>) {
        let Some(array) = array.end() else { return };
        for home in &array.homes {
            bytes_of(home.load(Ordering::Relaxed)).fetch_sub(array.segment_bytes, Ordering::Relaxed);
        }
        // SAFETY: rule "System": the mapping of this array, with its bytes.
        unsafe { libc::munmap(array.base.cast(), array.homes.len() * array.segment_bytes) };
        RUNS.fetch_sub(array.runs.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn qarray_iter(pointer: Object<Array>, start: usize, stop: usize, f: Option<Function>) {
        let (Some(f), Some((own, range))) = (f, array(pointer, (start, stop))) else { return };
        own.each_segment(range, move |from, to| {
            // SAFETY: rule "Interface": the program's function, with an element.
            (from..to).for_each(|index| _ = unsafe { f(own.at(index).cast()) });
        });
    }

    fn qarray_iter_loop(array: Object<Array>, start: usize, stop: usize, f: Option<Loop>, argument: *mut libc::c_void) {
        iterate(array, (start, stop), f, argument);
    }

    fn qarray_iter_constloop(
        array: Object<Array>,
        start: usize,
        stop: usize,
        f: Option<Loop>,
        argument: *mut libc::c_void,
    ) {
        iterate(array, (start, stop), f, argument);
    }

    fn qarray_iter_loop_nb(
        array: Object<Array>,
        start: usize,
        stop: usize,
        f: Option<Loop>,
        argument: *mut libc::c_void,
        ret: *mut u64,
    ) {
        // SAFETY: rule "Words": another address is refused.
        let word = unsafe { full_empty::word_at(ret) }.ok();
        if let Some(word) = word {
            full_empty::empty(word);
        }
        let (array, argument, ret) = (Argument(array.pointer().cast()), Argument(argument), Argument(ret.cast()));
        let all = move |is_forked: bool| {
            let (array, argument, ret) = (array, argument, ret);
            // SAFETY: rule "Objects": the program's argument.
            let array = unsafe { Object::new(array.get().cast()) };
            iterate(array, (start, stop), f, argument.get());
            if is_forked {
                finish_part();
            }
            // SAFETY: rule "Words": another address is refused.
            if let Ok(word) = unsafe { full_empty::word_at(ret.get().cast()) } {
                full_empty::fill(word);
            }
        };
        let spawned = library::get().map(|library| spawn_part(library, library.shepherd_for_any(), move || all(true)));
        if spawned != Some(true) {
            all(false);
        }
    }

    fn qarray_iter_loopaccum(
        pointer: Object<Array>,
        start: usize,
        stop: usize,
        f: Option<Folding>,
        argument: *mut libc::c_void,
        out: *mut libc::c_void,
        bytes: usize,
        accumulate: Option<Accumulate>,
    ) {
        let (Some(f), Some(accumulate)) = (f, accumulate) else { return };
        let Some((own, range)) = array(pointer, (start, stop)) else { return };
        if range.0 >= range.1 {
            return;
        }
        let first = range.0 / own.segment_units;
        let segments = (range.1 - 1) / own.segment_units + 1 - first;
        let results = Arc::new(Results::new(segments, bytes));
        let theirs = Arc::clone(&results);
        let (pointer, argument) = (Argument(pointer.pointer().cast()), Argument(argument));
        own.each_segment(range, move |from, to| {
            let result = theirs.at(from / own.segment_units - first);
            // SAFETY: rule "Interface": the program's function, with a segment's own result. Rule "Shared": this
            // function owns the results.
            unsafe { f(from, to, pointer.get().cast(), argument.get(), result) };
        });
        // SAFETY: rule "Interface": the program's function, with results that no thread writes any more.
        (0..segments).for_each(|segment| unsafe { accumulate(out, results.at(segment)) });
    }

    fn qarray_set_shepof(pointer: Object<Array>, index: usize, shepherd: u16) {
        let Some(library) = library::get() else { return };
        let Some(own) = pointer.alone() else { return };
        if usize::from(shepherd) >= library.shepherds.len() || index >= own.count {
            return;
        }
        match own.kind {
            kinds::ALL_SAME => {
                own.details[0] = usize::from(shepherd);
                (0..own.homes.len()).for_each(|segment| own.give(Some(library), segment, shepherd));
            }
            kinds::DIST => own.give(Some(library), index / own.segment_units, shepherd),
            _ => {}
        }
    }

    fn qarray_shepof(pointer: Object<Array>, index: usize) -> u16 {
        pointer.get()
            .filter(|array| index < array.count)
            .map_or(crate::codes::NO_SHEPHERD, |array| array.home(index))
    }

    fn qarray_dist_like(like: Object<Array>, pointer: Object<Array>) {
        // An array lies as itself already.
        if ptr::eq(like.pointer(), pointer.pointer()) {
            return;
        }
        let (Some(like), Some(own)) = (like.get(), pointer.alone()) else { return };
        for segment in 0..own.homes.len() {
            let index = segment * own.segment_units;
            own.give(library::get(), segment, like.home(index.min(like.count - 1)));
        }
        own.kind = if like.kind == kinds::ALL_SAME { kinds::ALL_SAME } else { kinds::DIST };
        own.details = like.details;
    }

    fn qarray_elem_migrate(pointer: Object<Array>, index: usize) -> *mut libc::c_void {
        let Some(own) = pointer.get().filter(|array| index < array.count) else {
            return ptr::null_mut();
        };
        // SAFETY: the function has no condition.
        unsafe { crate::fork::qthread_migrate_to(own.home(index)) };
        own.at(index).cast()
    }
}
