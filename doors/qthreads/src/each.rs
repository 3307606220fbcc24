//! Threads for the parts of something, and the wait for them.

use crate::codes::NO_SHEPHERD;
use crate::count::Count;
use crate::fork::{finish_part, spawn_part};
use crate::library::{self, Library};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use vicus::threads::full_empty;

/// One of the threads of a count. It is over when this is dropped: the thread has done its part, or is unwound, or has
/// never begun.
pub(crate) struct Counted<T: AsRef<Count>>(Arc<T>);

impl<T: AsRef<Count>> Counted<T> {
    /// A thread that is already added to the count.
    pub(crate) fn new(with_count: &Arc<T>) -> Counted<T> {
        Counted(Arc::clone(with_count))
    }
}

impl<T: AsRef<Count>> Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: AsRef<Count>> Drop for Counted<T> {
    fn drop(&mut self) {
        (*self.0).as_ref().end_one();
    }
}

/// The function of all parts, which owns what it uses, and their count.
struct Common<F> {
    f: F,
    left: Count,
}

impl<F> AsRef<Count> for Common<F> {
    fn as_ref(&self) -> &Count {
        &self.left
    }
}

/// A part before it runs.
struct Part<F> {
    index: usize,
    common: Counted<Common<F>>,
}

impl<F: Fn(usize)> Part<F> {
    fn run(self) {
        (self.common.f)(self.index);
        finish_part();
    }
}

/// Calls `f` with each number below `count`, each in a thread of its own, at the shepherd given by `shepherd`. Without
/// the library, one after the other.
pub(crate) fn each(count: usize, shepherd: impl Fn(usize, &Library) -> u16, f: impl Fn(usize) + Send + Sync + 'static) {
    let Some(library) = library::get() else { return (0..count).for_each(f) };
    each_by(count, |part| spawn_part(library, shepherd(part.index, library), move || part.run()), f);
}

/// [`each`] with the way to begin a thread. `spawn` drops the part and returns `false` if there is no thread for it.
fn each_by<F: Fn(usize)>(count: usize, spawn: impl Fn(Part<F>) -> bool, f: F) {
    let common = Arc::new(Common { f, left: Count::new() });
    common.left.add(count as u64);
    for index in 0..count {
        if !spawn(Part { index, common: Counted::new(&common) }) {
            (common.f)(index);
        }
    }
    common.left.wait();
}

/// Waits until a word of the caller's frame is full, which stands in a list. The runtime may end the wait by unwinding:
/// then `forget` takes the word out of the list, and the word is filled before its memory has another use. `false`: it
/// is in no list any more, and another thread is about to fill it.
pub(crate) fn wait_in_frame(word: &AtomicU64, forget: impl Fn() -> bool) {
    struct OnUnwinding<'a, F: Fn() -> bool>(&'a AtomicU64, F);
    impl<F: Fn() -> bool> Drop for OnUnwinding<'_, F> {
        fn drop(&mut self) {
            if (self.1)() {
                full_empty::fill(self.0);
            }
            while !full_empty::is_full(self.0) {
                std::thread::yield_now();
            }
        }
    }
    let on_unwinding = OnUnwinding(word, forget);
    full_empty::read_ff(word);
    std::mem::forget(on_unwinding);
}

/// [`each`] with as many calls as there were [`workers`] when the caller cut its work into parts: their number may be
/// another one by now.
pub(crate) fn each_worker(parts: usize, f: impl Fn(usize) + Send + Sync + 'static) {
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
    use vicus::kit::machine::MachineRuntime;
    use vicus::threads::{Builder, OnDeadlock};

    // A worker was enabled between the cut of an array and its threads: there was one part more than results.
    #[test]
    fn workers_run_as_many_parts_as_were_cut() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&seen);
        each_worker(workers() + 2, move |index| theirs.lock().unwrap().push(index));
        assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
    }

    impl AsRef<Count> for Count {
        fn as_ref(&self) -> &Count {
            self
        }
    }

    // A thread that was unwound, or never ran, was counted for ever, and the count's word was still empty when its
    // memory went to others.
    #[test]
    fn unwound_and_dropped_threads_are_over() {
        let runtime: MachineRuntime = MachineRuntime::builder().threads(1).deadlock(OnDeadlock::Unwind).start();
        let count = Arc::new(Count::new());
        count.add(2);
        drop(Counted::new(&count));
        let (waits, part) = (Arc::clone(&count), Counted::new(&count));
        let never = Arc::new(AtomicU64::new(0));
        full_empty::empty(&never);
        let word = Arc::clone(&never);
        let part = Builder::new().spawn_on(&runtime, move || {
            let _part = part;
            full_empty::read_ff(&word);
        });
        let maker = Builder::new().spawn_on(&runtime, move || waits.wait());
        assert!(part.join().is_err(), "no thread fills its word");
        let _ = maker.join();
        full_empty::fill(&never);
        assert!(full_empty::is_full(&count.done));
    }

    // The runtime unwound a thread, and its word was still empty when the next thread with this stack had a word there.
    #[test]
    fn the_word_of_an_unwound_wait_is_full() {
        let runtime: MachineRuntime = MachineRuntime::builder().threads(1).deadlock(OnDeadlock::Unwind).start();
        let word = Arc::new(AtomicU64::new(0));
        full_empty::empty(&word);
        let theirs = Arc::clone(&word);
        let waits = Builder::new().spawn_on(&runtime, move || wait_in_frame(&theirs, || true));
        assert!(waits.join().is_err(), "no other thread fills it");
        assert!(full_empty::is_full(&word));
    }
}
