//! The threads at work on a loop. Its caller waits for them.

use crate::sync::{AtomicUsize, Ordering};

/// How many threads are at a loop, and whether its caller has closed it. Data in the caller's frame is only used
/// between [`Visitors::enter`] and [`Visitors::leave`]; the count itself outlives the frame.
pub(super) struct Visitors(AtomicUsize);

/// The caller has closed the loop: no thread begins any more.
const CLOSED: usize = 1 << 62;
/// The caller sleeps, or is about to.
const ASLEEP: usize = 1 << 61;

impl Visitors {
    /// None yet.
    pub(super) fn new() -> Visitors {
        Visitors(AtomicUsize::new(0))
    }

    /// A thread comes. Whether the loop is open; the thread has to leave in either case.
    pub(super) fn enter(&self) -> bool {
        self.0.fetch_add(1, Ordering::AcqRel) & CLOSED == 0
    }

    /// A thread leaves. Whether the caller has to check if all have left.
    pub(super) fn leave(&self) -> bool {
        // Release: the caller sees the thread's work.
        self.0.fetch_sub(1, Ordering::AcqRel) - 1 == CLOSED | ASLEEP
    }

    /// The caller closes the loop: a thread coming now finds it closed, and the caller waits for the present ones.
    pub(super) fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Whether the loop is closed, and all have left.
    pub(super) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) & !ASLEEP == CLOSED
    }

    /// The caller is about to sleep, until [`Visitors::leave`] tells it to check. Returns whether it still has to wait.
    pub(super) fn announce_sleep(&self) -> bool {
        (self.0.fetch_or(ASLEEP, Ordering::AcqRel) & !ASLEEP) != CLOSED
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Model {
        visitors: Visitors,
        /// Data in the caller's frame: each visitor writes a cell of its own, and the caller takes all.
        frame: [UnsafeCell<u32>; 2],
        asked: AtomicUsize,
    }

    #[expect(unsafe_code, reason = "the cells are what the model is about")]
    // SAFETY: loom tells if two threads use a cell at once.
    unsafe impl Sync for Model {}

    /// Two threads come, perhaps too late, while the caller closes the loop and sleeps: it is woken when the last one
    /// has left, sees the work of both, and none uses its frame after that.
    #[test]
    fn loom_the_caller_of_a_loop_leaves_after_all_visitors() {
        let mut builder = loom::model::Builder::new();
        // Enough for each thread to be interrupted in the one step that matters; without a bound it takes a minute.
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let model = Arc::new(Model {
                visitors: Visitors::new(),
                frame: [UnsafeCell::new(0), UnsafeCell::new(0)],
                asked: AtomicUsize::new(0),
            });
            let visitors = [0, 1].map(|part| {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    let is_open = model.visitors.enter();
                    if is_open {
                        #[expect(unsafe_code, reason = "loom's cell")]
                        // SAFETY: as for `Sync`.
                        model.frame[part].with_mut(|cell| unsafe { *cell += 1 });
                    }
                    if model.visitors.leave() {
                        model.asked.fetch_add(1, Ordering::Release);
                    }
                    is_open
                })
            });
            model.visitors.close();
            let mut asked = 0;
            while !model.visitors.is_done() && model.visitors.announce_sleep() {
                // A late visitor causes another check.
                while model.asked.load(Ordering::Acquire) == asked {
                    thread::yield_now();
                }
                asked += 1;
            }
            let sum: u32 = model
                .frame
                .iter()
                .map(|cell| {
                    #[expect(unsafe_code, reason = "loom's cell")]
                    // SAFETY: as for `Sync`.
                    cell.with_mut(|cell| unsafe { std::mem::take(&mut *cell) })
                })
                .sum();
            let came: u32 = visitors.into_iter().map(|visitor| u32::from(visitor.join().unwrap())).sum();
            assert_eq!(sum, came);
        });
    }
}
