//! When and how a request is over.
//!
//! Each seat counts the request's tasks it queued and the ones it finished, in counters of its own. A task is counted
//! as queued before it can be taken, and as finished only after all tasks it queued are counted. So reading first every
//! *finished* and then every *queued* finds equal sums only if no task is queued or running
//! ([`Instance::is_quiescent`]); then nothing can happen to the request any more, and it has either ended, or failed,
//! or stalled. A seat that finishes a task and leaves the request checks ([`Instance::settle`]), so the last one to
//! finish gets the result.
//!
//! A paused box is counted as queued, so the request is not quiescent. If all its tasks are paused ones, and some box's
//! envelopes wait for a receiver, boxes may wait for each other in a circle that no resume ends. The seat that checks
//! holds the paused boxes then; if it has as many as tasks are unfinished, nothing runs, and nothing can begin to run
//! before it lets them go. A request without a refusal is not looked at.

use super::cell::{BoxCell, Receiver};
use super::running::Absent;
use super::{Instance, SeatCounters, Totals};
use crate::error::{GivenUp, drop_quietly, keep_first};
use crate::seat_buffers::Activation;
use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};
use crate::{BoxError, BoxId, Envelope, FlowError};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Why no more user code is to run. The first reason stays.
pub(super) const GOES_ON: u8 = 0;
const ENDED: u8 = 1;
const FAILED: u8 = 2;

/// Claimed by the one caller that settles a request.
#[derive(Default)]
pub(super) struct Claim(AtomicBool);

impl Claim {
    /// Whether the caller, who has counted a task as finished, settles the request: nothing of it is queued or running,
    /// and no other caller has claimed it.
    fn claim(&self, is_quiescent: impl Fn() -> bool) -> bool {
        loop {
            // Two seats may finish the last two tasks at once: at least one sees the other's count.
            fence(Ordering::SeqCst);
            if !is_quiescent() || self.0.swap(true, Ordering::AcqRel) {
                return false;
            }
            // Between the two questions another seat may have found the boxes waiting, and have counted one of them.
            if is_quiescent() {
                return true;
            }
            // The seat that finishes it may have come here meanwhile, and have left because of this one: look again,
            // with all that seat had done before.
            self.0.swap(false, Ordering::AcqRel);
        }
    }

    /// Whether the caller has claimed it now, whatever is queued or running.
    fn claim_any(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// The claiming caller lets the request go on: it is settled when its last task is finished.
    fn go_on(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}

/// The outcome of [`Instance::settle`].
#[must_use = "a request that goes on has a box to be queued"]
pub enum Settled {
    /// The request is over.
    Over(Result<Totals, FlowError>),
    /// The boxes waited for each other in a circle over full vias, and one of these may hold more from now on (Parks'
    /// rule): its sender, already counted, is to be queued.
    GoesOn(Activation),
}

/// The outcome of a look at a request that has only paused boxes.
pub(crate) enum BesidePaused {
    /// A box that may go on by an overdraft, already counted: it is to be queued.
    GoesOn(Activation),
    /// No circle.
    Nothing,
    /// More boxes were queued or running than the paused ones, or paused ones were dropped: the caller looks anew.
    Changed,
}

impl Settled {
    /// The result of a request that is over.
    ///
    /// # Panics
    /// It goes on.
    pub fn over(self) -> Result<Totals, FlowError> {
        match self {
            Settled::Over(result) => result,
            Settled::GoesOn(_) => panic!("a via has got an overdraft, and its sender is not queued"),
        }
    }
}

impl Instance {
    /// The request has ended, failed or been cancelled. No more user code is to run, but for boxes that asked to run
    /// again before the end ([`Instance::is_wanted`]).
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != GOES_ON
    }

    /// Whether it goes on, has ended or has failed, as a number different for each of these.
    #[inline]
    pub fn stage(&self) -> u8 {
        self.stop.load(Ordering::Relaxed)
    }

    /// The request has failed or been cancelled: no user code is to run any more.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.stop.load(Ordering::Relaxed) == FAILED
    }

    /// The termination box has seen every pill.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.stop.load(Ordering::Relaxed) == ENDED
    }

    /// Whether a queued box is to be run, and not dropped: the request goes on, or it has ended after the box had sent
    /// its pills and asked to run again (Bobox report §4.1: a box may pass the pill on, and clean up in a later
    /// invocation).
    #[inline]
    pub fn is_wanted(&self, index: BoxId) -> bool {
        match self.stop.load(Ordering::Relaxed) {
            GOES_ON => true,
            ENDED => self.cells.with(index.index(), |cell| cell.state.runs_after_end()),
            _ => false,
        }
    }

    /// See [`Instance::is_wanted`].
    #[inline]
    pub(crate) fn needs(&self, cell: &BoxCell) -> bool {
        match self.stop.load(Ordering::Relaxed) {
            GOES_ON => true,
            ENDED => cell.state.runs_after_end(),
            _ => false,
        }
    }

    /// Stops the request with a reason, if it has not failed before. Its queued tasks are dropped when they are taken.
    pub fn fail(&self, error: FlowError) {
        let mut failure = self.failure.lock().expect("nothing panics under this lock");
        if self.stop.swap(FAILED, Ordering::AcqRel) == FAILED {
            drop(failure);
            return drop_quietly(error);
        }
        *failure = Some(error);
    }

    /// The termination box has all pills. Resumes blocked boxes, since their envelopes have no reader any more. Gives
    /// the boxes that asked to run again.
    #[cold]
    #[inline(never)]
    pub(crate) fn end(&self, mut wanted: impl FnMut(&BoxCell)) {
        if self.stop.compare_exchange(GOES_ON, ENDED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        // Either a box in its last step to being blocked sees the request's end, or it is seen to be blocked here.
        fence(Ordering::SeqCst);
        self.cells.each(|cell| {
            if cell.state.is_blocked() && cell.state.resume().0 && cell.state.runs_after_end() {
                wanted(cell);
            }
        });
    }

    /// Counts a task before `seat` queues it (`None`: a caller without a seat).
    #[inline]
    pub(crate) fn count_queued(&self, seat: Option<usize>) {
        self.add(seat, |counts| &counts.queued);
    }

    /// Counts a task run or dropped by `seat`. Unless the caller holds a reference of its own, the instance may be gone
    /// after this call: another seat may settle it.
    #[inline]
    pub(crate) fn count_finished(&self, seat: Option<usize>) {
        self.add(seat, |counts| &counts.finished);
    }

    /// Counts a task taken by `seat`, by its rule.
    #[inline]
    pub fn count_taken(&self, seat: usize, rule: u8, far: bool) {
        self.add(Some(seat), |counts| &counts.taken[usize::from(rule)]);
        if far {
            self.add(Some(seat), |counts| &counts.far);
        }
    }

    /// Counts an invocation of user code.
    #[inline]
    pub(crate) fn count_act(&self, seat: Option<usize>) {
        self.add(seat, |counts| &counts.acts);
    }

    #[inline]
    fn add(&self, seat: Option<usize>, which: impl Fn(&SeatCounters) -> &AtomicU64) {
        match seat {
            Some(seat) => {
                // Only the seat writes here, so a load and a store are enough for an addition.
                let counter = which(&self.counts[seat].0);
                counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
            }
            None => {
                which(&self.counts[self.counts.len() - 1].0).fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Whether no task of the request is queued or running. Once true it stays true, unless the caller that settles it
    /// lets it go on.
    pub fn is_quiescent(&self) -> bool {
        self.unfinished() == 0
    }

    /// How many tasks are queued or running, the caller's own included: never less than there are, and exact if only
    /// the caller's is left.
    pub fn unfinished(&self) -> u64 {
        let sum = |which: fn(&SeatCounters) -> &AtomicU64| -> u64 {
            self.counts.iter().map(|counts| which(&counts.0).load(Ordering::Acquire)).sum()
        };
        let finished = sum(|counts| &counts.finished);
        sum(|counts| &counts.queued) - finished
    }

    /// An invocation is about to end whose envelopes wait for a receiver.
    #[inline]
    pub(crate) fn note_refusal(&self) {
        let has_refused = &self.waiting.0.has_refused;
        // Relaxed: a thread that has seen the invocation counted as finished sees it. Mostly it is set already.
        if !has_refused.load(Ordering::Relaxed) {
            has_refused.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the request goes on, all its tasks seem to be paused boxes, and envelopes may wait for a receiver. The
    /// caller has counted its last task as finished before an earlier look at the counts.
    pub(crate) fn may_wait_beside_paused(&self) -> bool {
        if !self.waiting.0.has_refused.load(Ordering::Relaxed) || self.is_stopped() {
            return false;
        }
        // In this order: a box is counted as paused before its invocation is counted as finished.
        let unfinished = self.unfinished();
        unfinished > 0 && unfinished <= self.waiting.0.paused.load(Ordering::Relaxed)
    }

    /// Looks whether boxes wait for each other while all others are paused, and lets one go on then; without memory or
    /// a place for that, the request fails. `let_go` is called before the paused boxes may go on; a box that is dropped
    /// then is counted as finished by `seat`.
    #[cold]
    pub(crate) fn look_beside_paused(&self, seat: Option<usize>, let_go: impl FnOnce()) -> BesidePaused {
        let held = self.hold_paused();
        // If none is paused any more, the request may be over, and the caller settles it.
        let found = if held > 0 && self.unfinished() == held {
            match self.overdraw_beside_paused() {
                Ok(Some(activation)) => BesidePaused::GoesOn(activation),
                Ok(None) => BesidePaused::Nothing,
                Err(error) => {
                    self.fail(error);
                    BesidePaused::Changed
                }
            }
        } else {
            BesidePaused::Changed
        };
        let_go();
        match (self.let_go_of_paused(seat), found) {
            (true, BesidePaused::Nothing) => BesidePaused::Changed,
            (_, found) => found,
        }
    }

    /// No envelope waits for a receiver. To be called when nothing runs.
    pub(crate) fn forget_refusals(&self) {
        self.waiting.0.has_refused.store(false, Ordering::Relaxed);
    }

    /// To be called by a seat that has counted a task as finished and leaves the request. Gives the result of the
    /// request after its last task; `None` if it was not the last, or if another caller was quicker. The boxes'
    /// operators and envelopes are dropped before it returns. If the boxes wait for each other, it gives the one that
    /// may go on by an [overdraft](Settled::GoesOn), also if other boxes are paused. `seat` counts paused boxes that
    /// are dropped meanwhile because the request has stopped.
    pub fn settle(&self, seat: Option<usize>) -> Option<Settled> {
        while !self.settled.claim(|| self.is_quiescent()) {
            if !self.may_wait_beside_paused() || !self.settled.claim_any() {
                return None;
            }
            match self.look_beside_paused(seat, || self.settled.go_on()) {
                BesidePaused::GoesOn(activation) => return Some(Settled::GoesOn(activation)),
                BesidePaused::Nothing => return None,
                // Another caller may have left because of this one.
                BesidePaused::Changed => {}
            }
        }
        let result = match self.stop.load(Ordering::Acquire) {
            ENDED => Ok(self.totals()),
            GOES_ON => match self.overdraw() {
                Ok(activation) => {
                    // It is counted.
                    self.settled.go_on();
                    return Some(Settled::GoesOn(activation));
                }
                Err(error) => Err(error),
            },
            _ => {
                let failure = self.failure.lock().expect("nothing panics under this lock").take();
                Err(failure.expect("a request is stopped with a reason"))
            }
        };
        let dropped = self.release();
        #[expect(unsafe_code, reason = "gives back the reference to itself")]
        // SAFETY: `start` took it, since there was a task to be finished; this is done once (`settled`). The caller has
        // another one.
        unsafe {
            Arc::decrement_strong_count(self.cells.first().instance);
        }
        Some(Settled::Over(result.and_then(|totals| dropped.map_or(Ok(totals), Err))))
    }

    /// Drops every operator and envelope. So a kept handle costs little, and values owned by an operator, such as a
    /// channel's sender, are gone when the request is over. Their memory is given back to the account, possibly shared
    /// with other requests. Gives the first panic.
    fn release(&self) -> Option<FlowError> {
        let mut first = None;
        let mut held = self.overdraft.load(Ordering::Relaxed);
        self.cells.empty(|cell| {
            held += cell.held.load(Ordering::Relaxed);
            for input in &cell.inputs {
                let next = || {
                    let popped = input.ring.take().map(|popped| popped.value);
                    popped.or_else(|| input.mailbox.as_ref().and_then(|mailbox| mailbox.take()))
                };
                while let Some(popped) = next() {
                    // A panic of a column's owner is counted as the sender's.
                    let dropped = catch_unwind(AssertUnwindSafe(move || drop(popped)));
                    let sender = input.sender().map_or(cell.index, |sender| sender.index);
                    dropped.unwrap_or_else(|panic| drop_quietly(keep_first(&mut first, self.unwound(sender, panic))));
                }
            }
            let (operator, left) = cell.body.with_mut(|body| {
                #[expect(unsafe_code, reason = "empties the bodies of boxes that no longer run")]
                // SAFETY: the request is quiescent, and only the settling thread comes here (`settled`): no box runs or
                // will run, and all their writes are visible through the counters.
                let body = unsafe { &mut *body };
                let receivers = body.outputs.iter_mut().flat_map(|output| &mut output.receivers);
                let mut left: Vec<Envelope> = receivers.flat_map(Receiver::clear).collect();
                left.extend(body.now.outbox.drain(..).map(|(_, envelope)| envelope));
                (std::mem::replace(&mut body.operator, std::boxed::Box::new(Absent)), left)
            });
            let mut drops = |drops: &mut dyn FnMut()| {
                let dropped = catch_unwind(AssertUnwindSafe(drops));
                dropped.unwrap_or_else(|panic| drop_quietly(keep_first(&mut first, self.unwound(cell.index, panic))));
            };
            let mut operator = Some(operator);
            drops(&mut || drop(operator.take()));
            for envelope in left {
                let mut envelope = Some(envelope);
                drops(&mut || drop(envelope.take()));
            }
        });
        if let Some(account) = self.account() {
            account.give_back(held + self.cells.held());
        }
        first
    }

    /// Fails the request after a panic of an invocation on `seat` outside of the box's own code. The box is not run any
    /// more.
    #[cold]
    pub fn abandon(&self, index: BoxId, seat: Option<usize>, panic: std::boxed::Box<dyn Any + Send>) {
        self.fail_by(index, panic);
        self.count_finished(seat);
    }

    /// Fails the request with the panic of a box's code, or of a task of it.
    #[cold]
    pub fn fail_by(&self, index: BoxId, panic: std::boxed::Box<dyn Any + Send>) {
        self.fail(self.unwound(index.index(), panic));
    }

    /// The request's error after a box returned an error.
    #[cold]
    pub(crate) fn gave_up(&self, index: usize, error: BoxError) -> FlowError {
        FlowError::Failed { name: self.name_of(index), error: error.into() }
    }

    /// The request's error after a box's code unwound.
    #[cold]
    pub(crate) fn unwound(&self, index: usize, panic: std::boxed::Box<dyn Any + Send>) -> FlowError {
        unwound_as(self.name_of(index), panic)
    }
}

/// Like [`Instance::unwound`], for a box of this name.
pub(super) fn unwound_as(name: String, panic: std::boxed::Box<dyn Any + Send>) -> FlowError {
    let panic = match panic.downcast::<GivenUp>() {
        Ok(given_up) => return FlowError::Failed { name, error: given_up.0.into() },
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let message = text.unwrap_or_else(|| "a panic without a message".to_owned());
    drop_quietly(panic);
    FlowError::Panicked { name, message }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::{BoxModel, ModelBuilder, Schema};
    use loom::sync::atomic::{AtomicBool as Flag, AtomicUsize};
    use vicus_schedule::{RequestId, TaskClass};

    #[expect(unsafe_code, reason = "the type of a class's functions")]
    // SAFETY of callers: no condition: it is never called.
    unsafe fn never(_: vicus_schedule::TaskRef) {
        unreachable!("these tasks are only counted");
    }

    static COUNTED: TaskClass = crate::box_class(never);

    /// A task queues another and ends, while a second seat takes that one, runs it and ends it: exactly one of them
    /// finds the request over, and not before both tasks are.
    #[test]
    fn loom_a_request_is_settled_once_and_not_too_early() {
        let mut net = ModelBuilder::new("one box");
        let source =
            net.source(BoxModel::new("source", || |_: &mut crate::Turn<'_>| Ok(())).output(&Schema::new::<&str>([])));
        net.end(source.output(0));
        let model = net.build().unwrap();
        loom::model(move || {
            let instance = Instance::new(&model, RequestId::new(1), 2, &COUNTED, Vec::new());
            instance.fail(FlowError::Cancelled);
            let queued = loom::sync::Arc::new(Flag::new(false));
            let counts: loom::sync::Arc<[AtomicUsize; 2]> =
                loom::sync::Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            fn take(queued: &Flag) -> bool {
                queued.compare_exchange(true, false, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            }
            fn end(instance: &Instance, seat: usize, [ended, settled]: &[AtomicUsize; 2]) {
                ended.fetch_add(1, Ordering::Relaxed);
                instance.count_finished(Some(seat));
                if let Some(outcome) = instance.settle(Some(seat)) {
                    assert!(matches!(outcome, Settled::Over(_)));
                    assert_eq!(ended.load(Ordering::Relaxed), 2, "both tasks had ended");
                    settled.fetch_add(1, Ordering::Relaxed);
                }
            }
            std::mem::forget(instance.start(Some(0)));
            let thief = {
                let (instance, queued, counts) = (Arc::clone(&instance), queued.clone(), counts.clone());
                loom::thread::spawn(move || {
                    if take(&queued) {
                        end(&instance, 1, &counts);
                    }
                })
            };
            instance.count_queued(Some(0));
            queued.store(true, Ordering::Release);
            end(&instance, 0, &counts);
            // If the thief came too early, the owner takes it.
            if take(&queued) {
                end(&instance, 0, &counts);
            }
            thief.join().unwrap();
            assert_eq!(counts[1].load(Ordering::Relaxed), 1, "settled once");
        });
    }

    /// Two seats finish the last two tasks; the one that finds the boxes waiting for each other counts another task and
    /// finishes it. The request is settled once, behind all three, and never not at all.
    #[test]
    fn loom_a_request_that_goes_on_is_settled_behind_its_last_task() {
        loom::model(|| {
            let claim = loom::sync::Arc::new(Claim::default());
            // Queued and finished; how often it was settled.
            let counts: loom::sync::Arc<[AtomicUsize; 3]> =
                loom::sync::Arc::new([AtomicUsize::new(2), AtomicUsize::new(0), AtomicUsize::new(0)]);
            fn finish(claim: &Claim, counts: &[AtomicUsize; 3]) {
                let [queued, finished, settled] = counts;
                let is_quiescent = || {
                    let done = finished.load(Ordering::Acquire);
                    queued.load(Ordering::Acquire) == done
                };
                finished.fetch_add(1, Ordering::AcqRel);
                while claim.claim(is_quiescent) {
                    if finished.load(Ordering::Acquire) == 3 {
                        settled.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                    queued.fetch_add(1, Ordering::AcqRel);
                    claim.go_on();
                    finished.fetch_add(1, Ordering::AcqRel);
                }
            }
            let other = {
                let (claim, counts) = (claim.clone(), counts.clone());
                loom::thread::spawn(move || finish(&claim, &counts))
            };
            finish(&claim, &counts);
            other.join().unwrap();
            assert_eq!(counts[2].load(Ordering::Relaxed), 1);
        });
    }
}
