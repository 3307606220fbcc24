//! Boxes in wait for something outside of their request, such as a client that reads slowly.
//!
//! A *paused* box is queued by its state word and its request's counts, but lies in no queue: its cell keeps it. So
//! nothing invokes it, its inputs fill up, its senders wait for room, and its request is not over. A resume puts it
//! into a queue of the world. A request that stops drops its paused boxes, since it needs them no more. Paused boxes
//! are counted apart as well: if a request has nothing else, its other boxes may wait for each other (`settling.rs`).
//! The thread that looks for this *holds* the paused boxes meanwhile: a resume then leaves its entry with the box, and
//! the thread queues the box when it lets go.
//!
//! The order of three events decides: *ask* ([`Turn::pause`](crate::Turn::pause)) and *leave* (the end of the
//! invocation) come from the runner, one after the other, and *resume* from any thread at any time. Resumed before it
//! has left, the box is queued as if it had asked to run again; after that, by the resuming thread. Each step is taken
//! under the cell's lock.

use crate::instance::{BoxCell, Neighbour};
use crate::sync::{Mutex, Ordering};
use crate::{BoxId, Instance, Queued};
use smallvec::SmallVec;
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
    /// A thread looks at the bodies of the request's boxes. The entry is there if the pause is over since.
    Held(Queued, Option<Entry>),
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
                queued.instance().waiting.0.paused.fetch_add(1, Ordering::Relaxed);
                state.step = Step::Paused(queued);
                None
            }
            _ => {
                state.step = Step::None;
                Some(queued)
            }
        })
    }

    /// Ends the pause with this number. Gives the box, if it has left and is not held.
    fn resume(&self, number: u64, entry: &Entry) -> Option<Queued> {
        self.with(|state| {
            if state.number != number {
                return None;
            }
            match std::mem::replace(&mut state.step, Step::None) {
                Step::Paused(queued) => return Some(goes_on(queued)),
                Step::Held(queued, _) => state.step = Step::Held(queued, Some(Arc::clone(entry))),
                Step::Asked | Step::Resumed => state.step = Step::Resumed,
                Step::None => {}
            }
            None
        })
    }

    /// The box, if it is paused and not held.
    pub(crate) fn take(&self) -> Option<Queued> {
        self.with(|state| match std::mem::replace(&mut state.step, Step::None) {
            Step::Paused(queued) => Some(goes_on(queued)),
            step => {
                state.step = step;
                None
            }
        })
    }

    /// Holds the box, if it is paused and not held.
    fn hold(&self) -> bool {
        self.with(|state| match std::mem::replace(&mut state.step, Step::None) {
            Step::Paused(queued) => {
                state.step = Step::Held(queued, None);
                true
            }
            step => {
                state.step = step;
                false
            }
        })
    }

    pub(crate) fn is_held(&self) -> bool {
        self.with(|state| matches!(state.step, Step::Held(..)))
    }

    /// Lets go of the box, if it is held. Gives it if it does not stay paused: with the entry of the resume that came
    /// meanwhile, or with none if the request has stopped. A stop takes paused boxes after the question for it.
    fn let_go(&self, is_stopped: impl FnOnce() -> bool) -> Option<(Queued, Option<Entry>)> {
        self.with(|state| match std::mem::replace(&mut state.step, Step::None) {
            Step::Held(queued, _) if is_stopped() => Some((goes_on(queued), None)),
            Step::Held(queued, None) => {
                state.step = Step::Paused(queued);
                None
            }
            Step::Held(queued, entry) => Some((goes_on(queued), entry)),
            step => {
                state.step = step;
                None
            }
        })
    }
}

/// A box is paused no more.
fn goes_on(queued: Queued) -> Queued {
    queued.instance().waiting.0.paused.fetch_sub(1, Ordering::Relaxed);
    queued
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
        let queued = self.cell.pause.resume(self.number, &self.entry);
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

    /// Holds all paused boxes, until [`Instance::let_go_of_paused`]. Gives how many these are.
    pub(crate) fn hold_paused(&self) -> u64 {
        let mut held = 0;
        self.cells.each(|cell| held += u64::from(cell.pause.hold()));
        held
    }

    /// Lets go of the held boxes: those that were resumed meanwhile are queued, and those of a stopped request dropped,
    /// counted as finished by `seat`. Gives whether any was dropped.
    pub(crate) fn let_go_of_paused(&self, seat: Option<usize>) -> bool {
        let mut resumed: SmallVec<[(Queued, Entry); 4]> = SmallVec::new();
        let mut has_dropped = false;
        self.cells.each(|cell| match cell.pause.let_go(|| self.is_stopped()) {
            Some((queued, Some(entry))) => resumed.push((queued, entry)),
            Some((queued, None)) => {
                queued.discard(seat);
                has_dropped = true;
            }
            None => {}
        });
        // A world's entry runs here, so without the lock of the cells.
        resumed.into_iter().for_each(|(queued, entry)| entry(queued));
        has_dropped
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
        Instance::new(&net.build().unwrap(), RequestId::new(1), 2, &COUNTED, Vec::new())
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
            assert!(instance.settle(None).is_some(), "no task is left");
        });
    }

    /// A box is paused, and another thread resumes it, while the one that has run the last other task looks for a
    /// circle: the box is queued once, no body is looked at while its box runs, and the request is settled behind it.
    #[test]
    fn loom_a_box_that_is_held_is_queued_once() {
        look_while_another_resumes(false);
    }

    /// The same, while the resuming thread has cancelled the request before: the box is dropped once.
    #[test]
    fn loom_a_cancelled_request_has_no_held_box() {
        look_while_another_resumes(true);
    }

    fn look_while_another_resumes(cancels: bool) {
        loom::model(move || {
            let instance = instance();
            let first = instance.start(None).queued;
            let counts: loom::sync::Arc<[AtomicUsize; 2]> =
                loom::sync::Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            fn end(instance: &Instance, [_, settled]: &[AtomicUsize; 2]) {
                if instance.settle(None).is_some() {
                    settled.fetch_add(1, Ordering::Relaxed);
                }
            }
            let entry = {
                let counts = counts.clone();
                move |task: Queued| {
                    counts[0].fetch_add(1, Ordering::Relaxed);
                    let instance = task.share();
                    // The seat that takes it runs it.
                    let cell = instance.cells.first();
                    cell.body.with_mut(|_| {});
                    task.discard(None);
                    end(&instance, &counts);
                }
            };
            let cell = instance.cells.first();
            let resume = Resume::new(Arc::clone(&instance), cell, &(Arc::new(entry) as Entry));
            assert!(cell.pause.leave(first, || instance.is_stopped()).is_none(), "it is paused");
            // Another box, refused by a receiver.
            instance.count_queued(None);
            instance.note_refusal();
            let other = {
                let (instance, counts) = (Arc::clone(&instance), counts.clone());
                loom::thread::spawn(move || {
                    if cancels {
                        instance.fail(FlowError::Cancelled);
                        instance.discard_paused(None);
                        end(&instance, &counts);
                    }
                    drop(resume);
                })
            };
            instance.count_finished(None);
            end(&instance, &counts);
            other.join().unwrap();
            let queued = counts[0].load(Ordering::Relaxed);
            assert!(if cancels { queued <= 1 } else { queued == 1 });
            assert_eq!(counts[1].load(Ordering::Relaxed), 1, "the request is over");
            assert_eq!(instance.waiting.0.paused.load(Ordering::Relaxed), 0);
        });
    }

    /// A box asks for a pause and leaves, another thread cancels the request, and nothing resumes: the holder of the
    /// box counts it as finished, and the request is over.
    #[test]
    fn loom_a_cancelled_request_has_no_paused_box() {
        loom::model(|| {
            let instance = instance();
            let first = instance.start(None).queued;
            let settled = loom::sync::Arc::new(AtomicUsize::new(0));
            let end = {
                let settled = settled.clone();
                move |instance: &Instance| {
                    if instance.settle(None).is_some() {
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
