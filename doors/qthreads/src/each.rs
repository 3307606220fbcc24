//! Threads for the parts of something, and the wait for them.

use crate::codes::NO_SHEPHERD;
use crate::count::Count;
use crate::fork::{finish_part, spawn_part};
use crate::library::{self, Library};
use std::sync::atomic::AtomicU64;
use vicus::threads::full_empty;

/// A pointer to the common data of all parts. They live until the wait for the parts is over.
struct Shared<T: ?Sized>(*const T);

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        *self
    }
}

impl<T: ?Sized> Copy for Shared<T> {}

// SAFETY: a reference to a value that any thread may use; rule "Frame": it is there.
unsafe impl<T: ?Sized + Sync> Send for Shared<T> {}

impl<T: ?Sized> Shared<T> {
    fn get(&self) -> &T {
        // SAFETY: rule "Frame": the waiting thread's value.
        unsafe { &*self.0 }
    }
}

/// Calls `f` with each number below `count`, each in a thread of its own, at the shepherd given by `shepherd`. Without
/// the library, one after the other.
pub(crate) fn each(count: usize, shepherd: impl Fn(usize, &Library) -> u16, f: &(dyn Fn(usize) + Sync)) {
    let Some(library) = library::get() else { return (0..count).for_each(f) };
    let left = Count::new();
    left.add(count as u64);
    #[expect(clippy::missing_transmute_annotations, reason = "forgets how long it lives")]
    // SAFETY: rule "Frame": the function is called by the parts alone, before each counts down for the wait below.
    let shared: Shared<dyn Fn(usize) + Sync> = unsafe { Shared(std::mem::transmute(std::ptr::from_ref(f))) };
    let counted = Shared(&raw const left);
    for index in 0..count {
        let part = move || {
            let (shared, counted) = (shared, counted);
            shared.get()(index);
            finish_part();
            counted.get().end_one();
        };
        if !spawn_part(library, shepherd(index, library), part) {
            f(index);
            left.end_one();
        }
    }
    left.wait();
}

/// Waits until a word of the caller's frame is full, which stands in a list. The runtime may end the wait by unwinding:
/// then `forget` takes the word out of the list. `false`: it is in no list any more, and another thread is about to
/// fill it.
pub(crate) fn wait_in_frame(word: &AtomicU64, forget: impl Fn() -> bool) {
    struct OnUnwinding<'a, F: Fn() -> bool>(&'a AtomicU64, F);
    impl<F: Fn() -> bool> Drop for OnUnwinding<'_, F> {
        fn drop(&mut self) {
            if !(self.1)() {
                while !full_empty::is_full(self.0) {
                    std::thread::yield_now();
                }
            }
        }
    }
    let on_unwinding = OnUnwinding(word, forget);
    full_empty::read_ff(word);
    std::mem::forget(on_unwinding);
}

/// [`each`] with as many calls as there were [`workers`] when the caller cut its work into parts: their number may be
/// another one by now.
pub(crate) fn each_worker(parts: usize, f: &(dyn Fn(usize) + Sync)) {
    each(parts, worker_in_turn, f);
}

/// How many parts a whole is cut into.
pub(crate) fn workers() -> usize {
    library::get().map_or(1, |library| library.active_workers().max(1))
}

/// The shepherd of the worker of this number, shepherd by shepherd.
pub(crate) fn worker_in_turn(index: usize, library: &Library) -> u16 {
    let mut left = index;
    for shepherd in library.active() {
        let workers = library.shepherds[usize::from(shepherd)].active_workers();
        if left < workers {
            return shepherd;
        }
        left -= workers;
    }
    NO_SHEPHERD
}

/// Part `index` of `parts` nearly equal ones of a range.
pub(crate) fn part(start: usize, stop: usize, index: usize, parts: usize) -> (usize, usize) {
    let length = stop.saturating_sub(start);
    let (each, more) = (length / parts, length % parts);
    let from = start + index * each + index.min(more);
    (from, from + each + usize::from(index < more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    // A worker was enabled between the cut of an array and its threads: there was one part more than results.
    #[test]
    fn workers_run_as_many_parts_as_were_cut() {
        let seen = Mutex::new(Vec::new());
        each_worker(workers() + 2, &|index| seen.lock().unwrap().push(index));
        assert_eq!(seen.into_inner().unwrap(), [0, 1, 2]);
    }
}
