//! Loops with a result: one value from all iterations, or a vector with one of each.

use super::loops::pieces;
use std::mem::{ManuallyDrop, needs_drop};
use std::ops::Range;
use std::ptr;
use std::sync::Mutex;

/// Maps each number of a range to a value and reduces the values to one, on all threads; `None` for an empty range. The
/// range is cut as by [`for_each`](crate::for_each). `reduce` must be associative and need not be commutative: it gets
/// the values in the order of their numbers. The same range is cut into the same pieces by the same number of threads,
/// so a sum of floating-point numbers is the same each time.
///
/// ```
/// let runtime = vicus_machine::MachineRuntime::builder().threads(2).start();
/// let longest = runtime.run(|| vicus_machine::map_reduce(0..1000, |n| (n * 7919) % 1000, usize::max));
/// assert_eq!(longest, Some(999));
/// ```
///
/// # Panics
/// If `map` or `reduce` panics, with its panic; iterations that have not begun are then left out. Outside of a runtime,
/// if the range is not empty.
pub fn map_reduce<R: Send>(
    range: Range<usize>,
    map: impl Fn(usize) -> R + Sync,
    reduce: impl Fn(R, R) -> R + Sync,
) -> Option<R> {
    let reduced: Mutex<Vec<(usize, R)>> = Mutex::default();
    pieces(range, &|piece| {
        let start = piece.start;
        if let Some(value) = piece.map(&map).reduce(&reduce) {
            reduced.lock().expect("nothing panics under this lock").push((start, value));
        }
    });
    let mut reduced = reduced.into_inner().expect("nothing panics under this lock");
    reduced.sort_unstable_by_key(|(start, _)| *start);
    reduced.into_iter().map(|(_, value)| value).reduce(reduce)
}

/// A vector with a value for each number of a range, computed on all threads. The range is cut as by
/// [`for_each`](crate::for_each), and each thread writes its values in place: so large vectors lie near the threads
/// that later go over the same range.
///
/// ```
/// let runtime = vicus_machine::MachineRuntime::builder().threads(2).start();
/// let squares = runtime.run(|| vicus_machine::collect(0..1000, |n| n * n));
/// assert_eq!(squares[31], 961);
/// ```
///
/// # Panics
/// If the closure panics, with its panic; the values that are written are dropped, and iterations that have not begun
/// are left out. Outside of a runtime, if the range is not empty.
pub fn collect<R: Send>(range: Range<usize>, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let (first, len) = (range.start, range.len());
    let mut values: Vec<R> = Vec::with_capacity(len);
    let made = VectorValues { start: values.as_mut_ptr(), written: Mutex::default() };
    pieces(range, &|piece| {
        let mut written = PieceValues { made: &made, values: piece.start - first..piece.start - first };
        for number in piece {
            let value = f(number);
            #[expect(unsafe_code, reason = "the memory is raw")]
            // SAFETY: the vector has room for this value, and no other piece has this number.
            unsafe {
                made.start.wrapping_add(written.values.end).write(value);
            }
            written.values.end += 1;
        }
    });
    // Each number was done, or `pieces` has panicked.
    made.hand_over();
    #[expect(unsafe_code, reason = "the memory was raw")]
    // SAFETY: as many values were written, one for each number of the range.
    unsafe {
        values.set_len(len);
    }
    values
}

/// The written values of a vector whose length does not count them yet. Dropped, it drops them.
struct VectorValues<R> {
    start: *mut R,
    /// The numbers of the written values.
    written: Mutex<Vec<Range<usize>>>,
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: each value is written by one thread, and dropped by one.
unsafe impl<R: Send> Sync for VectorValues<R> {}

impl<R> VectorValues<R> {
    fn hand_over(self) {
        let mut made = ManuallyDrop::new(self);
        // Drops the list, but no value.
        *made.written.get_mut().expect("nothing panics under this lock") = Vec::new();
    }
}

impl<R> Drop for VectorValues<R> {
    fn drop(&mut self) {
        for range in self.written.get_mut().expect("nothing panics under this lock").drain(..) {
            #[expect(unsafe_code, reason = "drops values of raw memory")]
            // SAFETY: they were written and the vector does not own them; the vector, which has the memory, is dropped
            // after this.
            unsafe {
                ptr::slice_from_raw_parts_mut(self.start.wrapping_add(range.start), range.len()).drop_in_place();
            }
        }
    }
}

/// The values of a piece. Dropped, also by a panic, it adds them to the list.
struct PieceValues<'a, R> {
    made: &'a VectorValues<R>,
    values: Range<usize>,
}

impl<R> Drop for PieceValues<'_, R> {
    fn drop(&mut self) {
        if needs_drop::<R>() {
            self.made.written.lock().expect("nothing panics under this lock").push(self.values.clone());
        }
    }
}
