//! Sums, products and extremes of arrays, and sorting.

use crate::each::{each, each_worker, part, worker_in_turn, workers};
use crate::exports;
use crate::loops::Argument;
use std::slice;
use std::sync::Arc;
use vicus::threads::full_empty;

/// Below this many elements, threads cost more than they save.
const SMALL: usize = 4096;

/// Folds an array; waits for each element if asked to. 0 for an empty one.
///
/// # Safety
/// Rule "Interface": null, or an array of this length, which no thread writes if it does not wait.
unsafe fn fold<T: Copy + Default + Send + Sync + 'static>(
    array: *const T,
    length: usize,
    waits: i32,
    f: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
) -> T {
    if length == 0 || array.is_null() {
        return T::default();
    }
    let read = move |at: *const T| {
        if waits != 0
            // SAFETY: rule "Words": another address is refused.
            && let Ok(word) = unsafe { full_empty::word_at(at.cast_mut().cast()) }
        {
            full_empty::read_ff(word);
        }
        // SAFETY: the caller's promise.
        unsafe { *at }
    };
    let base = Argument(array.cast_mut().cast());
    let run = move |from: usize, to: usize| {
        let at = |index: usize| base.get().cast::<T>().wrapping_add(index).cast_const();
        (from + 1..to).fold(read(at(from)), |sum, index| f(sum, read(at(index))))
    };
    let parts = workers();
    if length < SMALL || parts == 1 {
        return run(0, length);
    }
    let mut results = vec![T::default(); parts];
    let slots = Argument(results.as_mut_ptr().cast());
    let results = Arc::new(results);
    let theirs = Arc::clone(&results);
    each_worker(parts, move |index| {
        let _results = &theirs;
        let (from, to) = part(0, length, index, parts);
        let result = run(from, to);
        // SAFETY: rule "Shared": the function owns the results; each part has its own place.
        unsafe { slots.get().cast::<T>().add(index).write(result) };
    });
    results.iter().copied().reduce(f).unwrap_or_default()
}

/// Sorts: parts by themselves, then pairs of neighbours are merged.
///
/// # Safety
/// Rule "Interface": null, or an array of this length, which no other thread uses.
unsafe fn sort<T: Copy + Send + Sync + 'static>(
    array: *mut T,
    length: usize,
    less: impl Fn(&T, &T) -> std::cmp::Ordering + Copy + Send + Sync + 'static,
) {
    if array.is_null() || length < 2 {
        return;
    }
    let mut parts = workers().next_power_of_two();
    if length < SMALL || parts == 1 {
        // SAFETY: the caller's promise.
        return unsafe { slice::from_raw_parts_mut(array, length) }.sort_unstable_by(&less);
    }
    let base = Argument(array.cast());
    each(
        parts,
        |index, library| worker_in_turn(index % workers(), library),
        move |index| {
            let (from, to) = part(0, length, index, parts);
            // SAFETY: the caller's promise, and each part is another one.
            unsafe { slice::from_raw_parts_mut(base.get().cast::<T>().add(from), to - from) }.sort_unstable_by(&less);
        },
    );
    let mut other: Vec<T> = Vec::with_capacity(length);
    let (mut source, mut target) = (base, Argument(other.as_mut_ptr().cast()));
    let other = Arc::new(other);
    let count = parts;
    while parts > 1 {
        let together = count / parts;
        let theirs = Arc::clone(&other);
        each(
            parts / 2,
            |index, library| worker_in_turn(index % workers(), library),
            move |pair| {
                let _other = &theirs;
                let edge = |index: usize| if index == count { length } else { part(0, length, index, count).0 };
                let [from, middle, to] = [0, 1, 2].map(|half| edge((2 * pair + half) * together));
                let of = |all: Argument, from: usize| all.get().cast::<T>().wrapping_add(from);
                // SAFETY: the caller's promise; rule "Shared": the function owns the other array. The source is written
                // by no thread, and each pair of parts has its own place in the target, which has as much room.
                unsafe {
                    let left = slice::from_raw_parts(of(source, from), middle - from);
                    let right = slice::from_raw_parts(of(source, middle), to - middle);
                    merge(left, right, of(target, from), &less);
                }
            },
        );
        (source, target) = (target, source);
        parts /= 2;
    }
    if source.get() != base.get() {
        // SAFETY: the source is the other array, as long as the caller's and written as a whole.
        unsafe { std::ptr::copy_nonoverlapping(source.get().cast::<T>(), array, length) };
    }
}

/// # Safety
/// `to` has room for both, and is neither's.
unsafe fn merge<T: Copy>(
    mut left: &[T],
    mut right: &[T],
    mut to: *mut T,
    less: &impl Fn(&T, &T) -> std::cmp::Ordering,
) {
    while let ([first_left, ..], [first_right, ..]) = (left, right) {
        let takes_right = less(first_right, first_left).is_lt();
        let value = if takes_right { *first_right } else { *first_left };
        (left, right) = (&left[usize::from(!takes_right)..], &right[usize::from(takes_right)..]);
        // SAFETY: the caller's promise.
        unsafe {
            to.write(value);
            to = to.add(1);
        }
    }
    let rest = if left.is_empty() { right } else { left };
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), to, rest.len()) };
}

fn greater<T: PartialOrd>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

fn lesser<T: PartialOrd>(a: T, b: T) -> T {
    if b < a { b } else { a }
}

macro_rules! folds {
    ($($name:ident, $of_loops:ident: $type:ty = $f:expr;)*) => {
        exports! {$(
            fn $name(array: *const $type, length: usize, waits: i32) -> $type {
                // SAFETY: rule "Interface": null, or an array of this length.
                unsafe { fold(array, length, waits, $f) }
            }

            fn $of_loops(array: *mut $type, length: usize, waits: i32) -> $type {
                // SAFETY: rule "Interface": null, or an array of this length.
                unsafe { fold(array, length, waits, $f) }
            }
        )*}
    };
}

folds! {
    qutil_double_sum, qt_double_sum: f64 = |a: f64, b: f64| a + b;
    qutil_double_mult, qt_double_prod: f64 = |a: f64, b: f64| a * b;
    qutil_double_max, qt_double_max: f64 = greater;
    qutil_double_min, qt_double_min: f64 = lesser;
    qutil_uint_sum, qt_uint_sum: u64 = u64::wrapping_add;
    qutil_uint_mult, qt_uint_prod: u64 = u64::wrapping_mul;
    qutil_uint_max, qt_uint_max: u64 = greater;
    qutil_uint_min, qt_uint_min: u64 = lesser;
    qutil_int_sum, qt_int_sum: i64 = i64::wrapping_add;
    qutil_int_mult, qt_int_prod: i64 = i64::wrapping_mul;
    qutil_int_max, qt_int_max: i64 = greater;
    qutil_int_min, qt_int_min: i64 = lesser;
}

exports! {
    fn qutil_qsort(array: *mut f64, length: usize) {
        // SAFETY: rule "Interface": null, or an array of this length.
        unsafe { sort(array, length, f64::total_cmp) }
    }

    fn qutil_mergesort(array: *mut f64, length: usize) {
        // SAFETY: rule "Interface": null, or an array of this length.
        unsafe { sort(array, length, f64::total_cmp) }
    }

    fn qt_qsort(array: *mut f64, length: usize) {
        // SAFETY: rule "Interface": null, or an array of this length.
        unsafe { sort(array, length, f64::total_cmp) }
    }

    fn qutil_aligned_qsort(array: *mut u64, length: usize) {
        // SAFETY: rule "Interface": null, or an array of this length.
        unsafe { sort(array, length, u64::cmp) }
    }
}
