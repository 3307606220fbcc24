//! Tasks as closures.
//!
//! ```
//! use vicus::tasks::{collect, for_each_mut, join, map_reduce, scope};
//!
//! let mut numbers: Vec<u64> = collect(0..10_000, |n| n as u64);
//! assert_eq!(map_reduce(0..10_000, |n| numbers[n], |a, b| a + b), Some(49_995_000));
//! for_each_mut(&mut numbers, |index, number| assert_eq!(*number, index as u64));
//! let (low, high) = numbers.split_at(5_000);
//! let (low, high): (u64, u64) = join(|| low.iter().sum(), || high.iter().sum());
//! assert_eq!(low + high, 49_995_000);
//!
//! // Tasks in the order of what they read and write, and where that is.
//! let mut sums = [0; 2];
//! scope(|scope| {
//!     let (numbers, sums) = (scope.share(&mut numbers), scope.share(&mut sums));
//!     scope.task().reads(numbers.part(..5_000)).writes(sums.part(..1)).spawn(|(low, sum)| sum[0] = low.iter().sum());
//!     let high = scope.task().reads(numbers.part(5_000..)).writes(sums.part(1..));
//!     high.spawn(|(high, sum)| sum[0] = high.iter().sum());
//!     scope.task().writes(sums.part(..)).spawn(|(sums,)| sums[0] += sums[1]);
//! });
//! assert_eq!(sums[0], 49_995_000);
//! ```
//!
//! A task may have children, which borrow nothing, and may end before them. They, too, run in the order of their
//! declared reads and writes, by address:
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//! use vicus::tasks::{Access, Mode, child, wait_for_children};
//!
//! let steps: Arc<[AtomicU64; 3]> = Arc::default();
//! vicus::Runtime::global().run(|| {
//!     for step in 1..3 {
//!         let before = Access::of(&steps[step - 1..step], Mode::Read);
//!         let this = Access::of(&steps[step..=step], Mode::Write);
//!         let steps = Arc::clone(&steps);
//!         child().follows(&[before, this]).spawn(move || {
//!             steps[step].store(steps[step - 1].load(Relaxed) + 1, Relaxed);
//!         });
//!     }
//!     wait_for_children();
//! });
//! assert_eq!(steps[2].load(Relaxed), 2);
//! ```
//!
//! They run in the runtime of the calling task or request ([`Runtime::run`](crate::Runtime#method.run)), else in
//! [`Runtime::global`].

use crate::Runtime;
use std::ops::Range;
pub use vicus_machine::{
    Append, Cancelled, ChildBuilder, Data, Part, Scope, SharedSlice, TaskBuilder, Views, child, in_place_scope,
    is_cancelled, is_in_runtime, reserve, wait_for_children,
};
pub use vicus_schedule::{Access, Kind, Mode};

/// Runs two closures and returns their results. Another thread may run the second one while the first one runs; if none
/// has taken it by then, this thread does. The second one is an immediate task: it is run near. Usually it takes no
/// lock and allocates nothing.
///
/// ```
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() < 1000 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = vicus::tasks::join(|| sum(left), || sum(right));
///     left + right
/// }
/// assert_eq!(sum(&(0..100_000).collect::<Vec<_>>()), 100_000 * 99_999 / 2);
/// ```
///
/// # Panics
/// If one of them panics, with its panic, after both are over; with the first one's if both do.
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    vicus_machine::join_or(|| Runtime::global(), a, b)
}

/// Runs a closure that may spawn tasks, and returns when all of them are over. Tasks may borrow data that outlives the
/// scope.
///
/// ```
/// let mut halves = [0, 0];
/// let (left, right) = halves.split_at_mut(1);
/// vicus::tasks::scope(|scope| {
///     scope.spawn(|_| left[0] = 1);
///     scope.spawn_deferred(|_| right[0] = 2);
/// });
/// assert_eq!(halves, [1, 2]);
/// ```
///
/// # Panics
/// If the closure or a task panics, with its panic, after all are over; with the first one if several do.
#[inline]
pub fn scope<'scope, R: Send>(f: impl FnOnce(&Scope<'scope>) -> R + Send) -> R {
    in_runtime(|| vicus_machine::scope(f))
}

/// Runs a closure for each number of a range, on all threads, and returns when all is done. The range is cut into as
/// many parts as there are threads, always in the same way: the same number comes to the same thread in the next loop
/// over the same range, so its data is in that thread's caches and, if the thread touched it first, in near memory. A
/// thread that is done with its part helps the nearest ones first. For results of iterations: [`map_reduce`],
/// [`collect`].
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let is_composite: Vec<AtomicBool> = (0..1000).map(|_| AtomicBool::new(false)).collect();
/// let strike = |m: usize| is_composite[m].store(true, Ordering::Relaxed);
/// vicus::tasks::for_each(2..32, |n| (2 * n..1000).step_by(n).for_each(strike));
/// let primes = is_composite.into_iter().skip(2).filter(|n| !n.load(Ordering::Relaxed));
/// assert_eq!(primes.count(), 168);
/// ```
///
/// # Panics
/// If the closure panics, with its panic; iterations not yet begun are then left out.
pub fn for_each(range: Range<usize>, f: impl Fn(usize) + Sync) {
    in_runtime(|| vicus_machine::for_each(range, &f));
}

/// Runs a closure for each piece of a range, cut as by [`for_each`]: for bodies that are quicker with many numbers at a
/// time, or for costly calls.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// let sum = AtomicUsize::new(0);
/// vicus::tasks::for_each_piece(0..1000, |piece| _ = sum.fetch_add(piece.sum(), Ordering::Relaxed));
/// assert_eq!(sum.into_inner(), 499_500);
/// ```
///
/// # Panics
/// As [`for_each`].
pub fn for_each_piece(range: Range<usize>, f: impl Fn(Range<usize>) + Sync) {
    in_runtime(|| vicus_machine::for_each_piece(range, &f));
}

/// Runs a closure for each element of a slice and its index, as [`for_each`].
///
/// ```
/// let mut squares = vec![0; 1000];
/// vicus::tasks::for_each_mut(&mut squares, |index, square| *square = index * index);
/// assert_eq!(squares[31], 961);
/// ```
///
/// # Panics
/// As [`for_each`].
pub fn for_each_mut<T: Send>(elements: &mut [T], f: impl Fn(usize, &mut T) + Sync) {
    in_runtime(|| vicus_machine::for_each_mut(elements, &f));
}

/// Maps each number of a range to a value and reduces the values to one, on all threads; `None` of an empty range. The
/// range is cut as by [`for_each`]. `reduce` must be associative and need not be commutative: it gets the values in the
/// order of their numbers. The same range is cut into the same pieces by the same number of threads, so a sum of
/// floating-point numbers is the same each time.
///
/// ```
/// use vicus::tasks::map_reduce;
///
/// let longest = map_reduce(0..1000, |n| (n * 7919) % 1000, usize::max);
/// assert_eq!(longest, Some(999));
/// assert_eq!(map_reduce(0..0, |n| n, usize::max), None);
/// ```
///
/// # Panics
/// If `map` or `reduce` panics, with its panic; iterations not yet begun are then left out.
pub fn map_reduce<R: Send>(
    range: Range<usize>,
    map: impl Fn(usize) -> R + Sync,
    reduce: impl Fn(R, R) -> R + Sync,
) -> Option<R> {
    in_runtime(|| vicus_machine::map_reduce(range, &map, &reduce))
}

/// A vector with a value for each number of a range, computed on all threads. The range is cut as by [`for_each`], and
/// each thread writes its values in their final place: so large vectors lie near the threads that go over the same
/// range later.
///
/// ```
/// let squares = vicus::tasks::collect(0..1000, |n| n * n);
/// assert_eq!(squares[31], 961);
/// ```
///
/// # Panics
/// If the closure panics, with its panic; the written values are dropped, and iterations not yet begun are left out.
pub fn collect<R: Send>(range: Range<usize>, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    in_runtime(|| vicus_machine::collect(range, &f))
}

/// Runs `f` in the caller's runtime, or else in the global one.
#[inline]
fn in_runtime<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    if is_in_runtime() { f() } else { in_global(f) }
}

/// A separate function, so that the code for a call in a task is inlined.
#[cold]
#[inline(never)]
fn in_global<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    Runtime::global().run(f)
}
