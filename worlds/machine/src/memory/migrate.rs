//! Moves memory to another node on the program's request: at once, or to the node of the next task to use it.
//!
//! The kernel moves pages by move_pages(2), whatever their owner. It offers no next touch to programs. To notice the
//! first access, a handler of SIGSEGV would have to move protected pages: this takes the signal from the program and
//! races with system calls on such memory. userfaultfd(2) needs rights beyond a program's default ones. Tasks declare
//! their data. So memory is marked, and the first task to name a part of it as its data moves this part before it
//! begins, to its own node. Undeclared accesses move nothing.
//!
//! The requested place of our own memory is arithmetic, and false after a move: moved ranges are kept, and the kernel
//! is asked about them.

use crate::memory::heaps::{Process, node_of_thread, process};
use crate::memory::known;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use vicus_schedule::Access;
use vicus_topology::NodeId;

/// Ranges of addresses without overlaps: the end of each, by its beginning. And their number, readable without the
/// lock.
struct Ranges {
    ends: Mutex<BTreeMap<usize, usize>>,
    count: AtomicUsize,
}

/// The ranges to move at the next touch, and the moved ranges of our own memory.
static AWAITED: Ranges = Ranges { ends: Mutex::new(BTreeMap::new()), count: AtomicUsize::new(0) };
static MOVED: Ranges = Ranges { ends: Mutex::new(BTreeMap::new()), count: AtomicUsize::new(0) };

/// How many ranges are marked at a time.
const MOST: usize = 1 << 16;

impl Ranges {
    #[inline]
    fn are_none(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a range out, unless the lock is held: an allocator may call this for a block of the map itself, or in a
    /// forked child. A range left in costs time alone.
    fn forget(&self, range: &Range<usize>) {
        if self.are_none() {
            return;
        }
        let mut ends = match self.ends.try_lock() {
            Ok(ends) => ends,
            Err(TryLockError::Poisoned(ends)) => ends.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        take_out(&mut ends, range, |_| {});
        self.count.store(ends.len(), Ordering::Relaxed);
    }

    /// Adds a range. If there are too many, it gives it back, or makes one of all.
    fn add(&self, range: Range<usize>, joins: bool) -> bool {
        let mut ends = self.lock();
        let mut range = range;
        take_out(&mut ends, &range, |_| {});
        if ends.len() >= MOST {
            if !joins {
                return false;
            }
            // Larger than they are: asking about too much costs time alone.
            let first = ends.first_key_value().map_or(range.start, |(&start, _)| start);
            let last = ends.last_key_value().map_or(range.end, |(_, &end)| end);
            range = first.min(range.start)..last.max(range.end);
            ends.clear();
        }
        ends.insert(range.start, range.end);
        self.count.store(ends.len(), Ordering::Relaxed);
        true
    }
}

/// Takes all parts of a range out, and tells them.
fn take_out(ends: &mut BTreeMap<usize, usize>, range: &Range<usize>, mut tell: impl FnMut(Range<usize>)) {
    while let Some((&start, &end)) = ends.range(..range.end).next_back().filter(|(_, end)| **end > range.start) {
        ends.remove(&start);
        if end > range.end {
            ends.insert(range.end, end);
        }
        if start < range.start {
            ends.insert(start, range.start);
        }
        tell(start.max(range.start)..end.min(range.end));
    }
}

/// Moves memory of this process to a node: the pages with at least a half in the range, as far as they were touched.
/// Returns how many bytes of whole pages lie there now. Before the first runtime has started, none do. Contents stay,
/// and other threads may use them meanwhile.
///
/// ```
/// use vicus_machine::{MachineRuntime, footprint, here, migrate};
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// let values = vec![1u64; 1 << 20];
/// let node = here().expect("there is a runtime");
/// let range = values.as_ptr_range();
/// let moved = migrate(range.start.addr()..range.end.addr(), node)?;
/// assert!(moved > (8 << 20) - 8192 && footprint(&values).nodes[node.index()] > 0);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// There is no such node, or the system moves no pages. A single immovable page is no error.
pub fn migrate(range: Range<usize>, to: NodeId) -> io::Result<usize> {
    let Some(process) = process() else { return Ok(0) };
    let number = process.number(to).ok_or_else(|| {
        let what = format!("there is no node {}, only {} of them, counted from 0", to.index(), process.memory.nodes());
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })?;
    let page = process.memory.pages().page_bytes();
    let first = range.start.saturating_add(page / 2) / page;
    let pages = first..(range.end.saturating_add(page / 2) / page).max(first);
    let whole = pages.start * page..pages.end * page;
    let is_ours = !pages.is_empty() && owns_some(process, &whole);
    let moved = moving(whole, page, is_ours, || vicus_os::pages::migrate(pages, page, number))?;
    Ok(moved * page)
}

/// Moves whole pages. A part of them may be at another node before all of them are, or if the system stops half-way:
/// so their requested place counts no more from the beginning on. What the kernel says meanwhile is forgotten.
fn moving<R>(whole: Range<usize>, page: usize, is_ours: bool, moves: impl FnOnce() -> R) -> R {
    let pages = whole.start / page..whole.end / page;
    if is_ours {
        note_moved(whole);
        known::forget(pages.clone());
    }
    let moved = moves();
    if !pages.is_empty() {
        known::forget(pages);
    }
    moved
}

/// Our own memory at these addresses may lie elsewhere than it was asked to lie, until they get new pages.
pub(crate) fn note_moved(range: Range<usize>) {
    MOVED.add(range, true);
}

/// Whether a part of a range is our own and was asked to lie somewhere.
fn owns_some(process: &Process, range: &Range<usize>) -> bool {
    let mut owns = false;
    process.memory.tell(range.clone(), 1, &mut |part| owns |= part.node.is_some() && !part.is_learned);
    owns
}

/// Marks memory of this process. Each part of it moves when the first later task that names it as its data begins, to
/// the node of the task. Memory freed before then is not to be marked.
///
/// Tasks of OpenMP programs and of C name their data to the runtime; others call [`touch`].
///
/// # Errors
/// Too many ranges are marked: 65,536.
pub fn migrate_at_next_touch(range: Range<usize>) -> io::Result<()> {
    let is_marked = range.is_empty() || AWAITED.add(range, false);
    is_marked.then_some(()).ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, "65,536 ranges are marked"))
}

/// Whether some memory is to move at the next touch: then a beginning task calls [`touch`].
#[inline]
pub fn awaits_touch() -> bool {
    !AWAITED.are_none()
}

/// Whether a part of a range is to move at the next touch. Then it has no place yet: tasks that name it are not dealt,
/// so that all threads take them, and it comes to lie where they run.
#[inline]
pub(crate) fn awaits(range: &Range<usize>) -> bool {
    if AWAITED.are_none() {
        return false;
    }
    let ends = AWAITED.lock();
    ends.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
}

/// A task with these data begins on this thread: the marked parts of them move here. Returns how many bytes.
///
/// ```
/// use vicus_machine::{MachineRuntime, awaits_touch, migrate_at_next_touch, touch};
/// use vicus_schedule::{Access, Mode};
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// let values = vec![1u64; 1 << 20];
/// let all = Access::of(&values, Mode::Read);
/// migrate_at_next_touch(all.start..all.start + all.bytes)?;
/// runtime.run(|| assert!(touch(&[all]) > 0));
/// assert!(!awaits_touch(), "once");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn touch(of: &[Access]) -> usize {
    let Some(process) = process().filter(|_| awaits_touch()) else { return 0 };
    let mut parts = Vec::new();
    {
        let mut ends = AWAITED.lock();
        for stretch in of.iter().flat_map(Access::stretches) {
            take_out(&mut ends, &stretch, |part| parts.push(part));
        }
        AWAITED.count.store(ends.len(), Ordering::Relaxed);
    }
    // A node without memory uses that of the nearest one.
    let memory = &process.memory;
    let node = memory.locations()[memory.location_near(node_of_thread(process)).index()];
    // A hint: if pages cannot be moved, the task runs all the same.
    parts.into_iter().map(|part| migrate(part, node).unwrap_or(0)).sum()
}

/// Whether a part of a range was moved away from its requested place, on request. [`crate::memory::stays`] knows of
/// moves by the kernel.
#[inline]
pub(crate) fn was_moved(range: &Range<usize>) -> bool {
    if MOVED.are_none() {
        return false;
    }
    let ends = MOVED.lock();
    ends.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
}

/// The memory at these addresses is gone: it moves no more.
pub(crate) fn forget(range: &Range<usize>) {
    AWAITED.forget(range);
}

/// Our own memory at these addresses is gone: new memory there lies in its requested place.
pub(crate) fn forget_moved(range: Range<usize>, page_bytes: usize) {
    AWAITED.forget(&range);
    if !MOVED.are_none() {
        MOVED.forget(&range);
        known::forget(range.start / page_bytes..range.end.div_ceil(page_bytes));
    }
}

/// While this thread forks: no other one is at work on the ranges.
pub(crate) type Locks = (MutexGuard<'static, BTreeMap<usize, usize>>, MutexGuard<'static, BTreeMap<usize, usize>>);

pub(crate) fn lock() -> Locks {
    (AWAITED.lock(), MOVED.lock())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_taken_out_of_ranges() {
        let ranges = Ranges { ends: Mutex::new(BTreeMap::new()), count: AtomicUsize::new(0) };
        let all = |ranges: &Ranges| ranges.lock().iter().map(|(&start, &end)| start..end).collect::<Vec<_>>();
        assert!(ranges.are_none());
        assert!(ranges.add(10..20, false) && ranges.add(30..40, false) && ranges.add(15..32, false));
        assert_eq!(all(&ranges), [10..15, 15..32, 32..40]);
        let mut taken = Vec::new();
        take_out(&mut ranges.lock(), &(12..35), |part| taken.push(part));
        assert_eq!((all(&ranges), taken), (vec![10..12, 35..40], vec![32..35, 15..32, 12..15]));
        take_out(&mut ranges.lock(), &(12..35), |_| panic!("nothing is left there"));
        take_out(&mut ranges.lock(), &(36..37), |part| assert_eq!(part, 36..37));
        assert_eq!(all(&ranges), [10..12, 35..36, 37..40]);
    }

    #[test]
    fn a_move_is_noted_before_it_begins_and_where_it_stops_half_way() {
        let _turn = known::tests::in_turn();
        let page = 4096;
        let range = |first: usize| (0xbeef_0000 + first) * page..(0xbeef_0000 + first + 4) * page;
        let (ours, others) = (range(0), range(4));
        let stopped: Result<(), &str> = moving(ours.clone(), page, true, || {
            assert!(was_moved(&ours), "another thread asks the kernel from now on");
            Err("half of them are moved")
        });
        assert!(stopped.is_err() && was_moved(&ours));
        // An answer of the kernel during the move is no answer after it.
        let (at, now, node) = (ours.start / page, known::now(), Some(NodeId::new(1)));
        moving(ours.clone(), page, true, || known::keep(at, node, now, known::forgotten()));
        assert_eq!(known::node(at, now), None);
        moving(others.clone(), page, false, || ());
        assert!(!was_moved(&others));
        forget_moved(ours.clone(), page);
        assert!(!was_moved(&ours));
    }

    #[test]
    fn there_are_never_too_many_ranges() {
        let ranges = Ranges { ends: Mutex::new(BTreeMap::new()), count: AtomicUsize::new(0) };
        assert!((0..MOST).all(|at| ranges.add(3 * at..3 * at + 1, false)));
        assert!(!ranges.add(5 * MOST..5 * MOST + 1, false));
        assert!(ranges.add(5 * MOST..5 * MOST + 1, true));
        assert_eq!(ranges.lock().iter().next(), Some((&0, &(5 * MOST + 1))));
    }
}
