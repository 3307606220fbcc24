//! Boxes in wait for something outside of their request, such as a client that reads slowly.
//!
//! A *paused* box is queued by its state word and its request's counts, but lies in no queue: its cell keeps it. So
//! nothing invokes it, its inputs fill up, its senders wait for room, and its request is not over. A resume puts it
//! into a queue of the world. A request that stops drops its paused boxes, since it needs them no more.
//!
//! The order of three events decides: *ask* ([`Turn::pause`](crate::Turn::pause)) and *leave* (the end of the
//! invocation) come from the runner, one after the other, and *resume* from any thread at any time. Resumed before it
//! has left, the box is queued as if it had asked to run again; after that, by the resuming thread. Each step is taken
//! under the cell's lock.

use crate::instance::{BoxCell, Neighbour};
use crate::sync::{Mutex, Ordering};
use crate::{BoxId, Instance, Queued};
use std::fmt;
use std::sync::Arc;

/// Puts a box into a queue, from a thread possibly without a seat.
pub type Entry = Arc<dyn Fn(Queued) + Send + Sync>;

/// A box's pause.
pub(crate) struct Pause(Mutex<State>);

struct State {
    /// The number of the last pause. A handle of an earlier one has no effect.
    number: u64,
    step: Step,
}

enum Step {
    /// The box is not paused.
    None,
    /// The box has asked for a pause, and its invocation is not over.
    Asked,
    /// The box has asked, its invocation is not over, and the pause is over already.
    Resumed,
    Paused(Queued),
}

impl Pause {
    pub(crate) fn new() -> Pause {
        Pause(Mutex::new(State { number: 0, step: Step::None }))
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.0.lock().expect("nothing panics under this lock"))
    }

    /// The runner asks for a pause. Gives its number.
    pub(crate) fn ask(&self) -> u64 {
        self.with(|state| {
            state.number += 1;
            state.step = Step::Asked;
            state.number
        })
    }

    /// The asking invocation is over, and the box is queued: keeps it, unless the pause is over already or the request
    /// has stopped. The question for a stop is asked under the lock: a stop takes paused boxes after that.
    pub(crate) fn leave(&self, queued: Queued, is_stopped: impl FnOnce() -> bool) -> Option<Queued> {
        self.with(|state| match state.step {
            Step::Asked if !is_stopped() => {
                state.step = Step::Paused(queued);
                None
            }
            _ => {
                state.step = Step::None;
                Some(queued)
            }
        })
    }

    /// Ends the pause with this number. Gives the box, if it has left.
    fn resume(&self, number: u64) -> Option<Queued> {
        self.with(|state| {
            if state.number != number {
                return None;
            }
            match std::mem::replace(&mut state.step, Step::None) {
                Step::Paused(queued) => return Some(queued),
                Step::Asked | Step::Resumed => state.step = Step::Resumed,
                Step::None => {}
            }
            None
        })
    }

    /// The box, if it is paused.
    pub(crate) fn take(&self) -> Option<Queued> {
        self.with(|state| match std::mem::replace(&mut state.step, Step::None) {
            Step::Paused(queued) => Some(queued),
            step => {
                state.step = step;
                None
            }
        })
    }
}

/// Resumes a paused box when it is dropped, from any thread. It keeps the request's instance alive, but not the memory
/// of its boxes.
#[must_use = "dropping it resumes the box"]
pub struct Resume {
    _instance: Arc<Instance>,
    /// Invariant: its `handles` counts this one.
    cell: Neighbour,
    number: u64,
    entry: Entry,
}

impl Resume {
    pub(crate) fn new(instance: Arc<Instance>, cell: &BoxCell, entry: &Entry) -> Resume {
        cell.handles.fetch_add(1, Ordering::Relaxed);
        let number = cell.pause.ask();
        Resume { _instance: instance, cell: Neighbour::of(cell), number, entry: Arc::clone(entry) }
    }

    /// Resumes the box, as dropping it does.
    pub fn resume(self) {}
}

impl Drop for Resume {
    fn drop(&mut self) {
        let queued = self.cell.pause.resume(self.number);
        // Release: whoever frees the cell comes after this.
        self.cell.handles.fetch_sub(1, Ordering::Release);
        if let Some(queued) = queued {
            (self.entry)(queued);
        }
    }
}

impl fmt::Debug for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resume").field("box", &BoxId(self.cell.index)).finish_non_exhaustive()
    }
}

impl Instance {
    /// Drops the paused boxes of a stopped request: `seat` counts them as finished. To be called after
    /// [`Instance::fail`], by a caller that settles the request afterwards and has its own reference to it.
    pub fn discard_paused(&self, seat: Option<usize>) {
        self.cells.each(|cell| cell.pause.take().into_iter().for_each(|queued| queued.discard(seat)));
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::Ordering;
    use crate::{BoxModel, FlowError, ModelBuilder, Schema};
    use loom::sync::atomic::AtomicUsize;
    use vicus_schedule::{RequestId, TaskClass};

    #[expect(unsafe_code, reason = "the type of a class's functions")]
    // SAFETY of callers: no condition: it is never called.
    unsafe fn never(_: vicus_schedule::TaskRef) {
        unreachable!("these tasks are only counted");
    }

    static COUNTED: TaskClass = crate::box_class(never);

    fn instance() -> Arc<Instance> {
        let mut net = ModelBuilder::new("one box");
        let source =
            net.source(BoxModel::new("source", || |_: &mut crate::Turn<'_>| Ok(())).output(&Schema::new::<&str>([])));
        net.end(source.output(0));
        Instance::new(&net.build().unwrap(), RequestId(1), 2, &COUNTED, Vec::new())
    }

    /// A box asks for a pause and leaves, while another thread resumes it: it is queued once, by one of both.
    #[test]
    fn loom_a_paused_box_is_queued_once() {
        loom::model(|| {
            let instance = instance();
            let first = instance.start(None).queued;
            let queued = loom::sync::Arc::new(AtomicUsize::new(0));
            let count = {
                let queued = queued.clone();
                move |task: Queued| {
                    queued.fetch_add(1, Ordering::Relaxed);
                    task.discard(None);
                }
            };
            let resume =
                Resume::new(Arc::clone(&instance), instance.cells.first(), &(Arc::new(count.clone()) as Entry));
            let resumer = loom::thread::spawn(move || drop(resume));
            if let Some(task) = instance.cells.first().pause.leave(first, || instance.is_stopped()) {
                count(task);
            }
            resumer.join().unwrap();
            assert_eq!(queued.load(Ordering::Relaxed), 1);
            instance.fail(FlowError::Cancelled);
            assert!(instance.settle().is_some(), "no task is left");
        });
    }

    /// The same, while a third thread cancels the request: the holder of the box counts it as finished, and the request
    /// is over.
    #[test]
    fn loom_a_cancelled_request_has_no_paused_box() {
        loom::model(|| {
            let instance = instance();
            let first = instance.start(None).queued;
            let settled = loom::sync::Arc::new(AtomicUsize::new(0));
            let end = {
                let settled = settled.clone();
                move |instance: &Instance| {
                    if instance.settle().is_some() {
                        settled.fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            let entry = {
                let end = end.clone();
                move |task: Queued| {
                    let instance = task.share();
                    task.discard(None);
                    end(&instance);
                }
            };
            let resume =
                Resume::new(Arc::clone(&instance), instance.cells.first(), &(Arc::new(entry.clone()) as Entry));
            let canceller = {
                let (instance, end) = (Arc::clone(&instance), end.clone());
                loom::thread::spawn(move || {
                    instance.fail(FlowError::Cancelled);
                    instance.discard_paused(None);
                    end(&instance);
                })
            };
            if let Some(task) = instance.cells.first().pause.leave(first, || instance.is_stopped()) {
                entry(task);
            }
            canceller.join().unwrap();
            // The client never reads again.
            assert_eq!(settled.load(Ordering::Relaxed), 1, "the request is over while its box would still be paused");
            drop(resume);
        });
    }
}
