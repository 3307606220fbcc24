//! The live copy of a model: its boxes are the tasks.
//!
//! Flow owns the whole protocol of a box; a world owns when and where. Four calls, so that a simulator can put virtual
//! time between them and a recorder its events: `Queued::begin` takes the snapshot, `Running::act` runs the user's code,
//! `Running::send` sends what it made, `Sent::finish` lets the box go; `desk` then has what is to be queued.
//!
//! When is a request over? Each seat counts the tasks of the request that it queued and those that it finished, in
//! counters of its own. A task is counted as queued before it can be taken, and as finished only after all that it
//! queued is counted. Reading first every *finished* and then every *queued* therefore finds equal sums only if no task
//! is queued or running ([`Instance::is_quiescent`]); then nothing can happen to the request any more, and it has
//! either ended, or failed, or stalled. Whoever finishes a task and turns away from the request asks
//! ([`Instance::settle`]), so the last one to finish gets the answer.

use crate::counts::Tally;
use crate::error::{GivenUp, drop_quietly};
use crate::operator::Input;
use crate::ring::Ring;
use crate::running::Absent;
use crate::state::StateWord;
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Mutex, Ordering, Padded, UnsafeCell, fence};
use crate::{
    Activation, BoxCounts, BoxError, BoxId, Envelope, FlowError, Model, Operator, OutputId, OverBudget, Queued, Schema,
};
use smallvec::{SmallVec, smallvec};
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use vicus_schedule::{ContextRef, Kind, RULES, RequestId, TaskClass, TaskHeader};

/// A live model under a request's id: the unit of fairness, cancellation and failure.
pub struct Instance {
    id: RequestId,
    model: Arc<Model>,
    pub(crate) cells: std::boxed::Box<[BoxCell]>,
    /// One for each seat, written by it alone; the last is for callers without a seat, who add atomically.
    counts: std::boxed::Box<[Padded<Counts>]>,
    stop: AtomicU8,
    settled: AtomicBool,
    failure: Mutex<Option<FlowError>>,
    /// Bytes that its boxes may hold together, and those that they have taken of them.
    budget: AtomicU64,
    held: Padded<AtomicU64>,
}

/// Why no more user code is to run. The first reason stays.
const GOES_ON: u8 = 0;
const ENDED: u8 = 1;
const FAILED: u8 = 2;

#[derive(Default)]
struct Counts {
    queued: AtomicU64,
    finished: AtomicU64,
    taken: [AtomicU64; RULES],
    far: AtomicU64,
    acts: AtomicU64,
}

/// What a request cost, summed over the seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tasks that were run or, after the end, dropped.
    pub tasks: u64,
    /// Invocations of user code.
    pub acts: u64,
    /// Tasks by the rule that found them; rule 1 is at index 1, and 0 are those without a look.
    pub taken: [u64; RULES],
    /// Tasks whose queue was at home on another node than the seat that took them.
    pub far: u64,
    /// Bytes that its boxes took at the place where they were sent; see [`crate::InputCounts::near_bytes`].
    pub near_bytes: u64,
    /// Bytes that its boxes took at another place.
    pub far_bytes: u64,
}

impl std::ops::Add for Totals {
    type Output = Totals;

    fn add(self, other: Totals) -> Totals {
        Totals {
            tasks: self.tasks + other.tasks,
            acts: self.acts + other.acts,
            taken: std::array::from_fn(|rule| self.taken[rule] + other.taken[rule]),
            far: self.far + other.far,
            near_bytes: self.near_bytes + other.near_bytes,
            far_bytes: self.far_bytes + other.far_bytes,
        }
    }
}

/// A box with everything that is its own. Its address is its task.
#[repr(C)]
pub(crate) struct BoxCell {
    header: TaskHeader,
    pub(crate) index: usize,
    pub(crate) instance: *const Instance,
    pub(crate) state: StateWord,
    /// The logical time of the last thing that happened to it; kept up to date only where the run is recorded.
    pub(crate) clock: AtomicU64,
    /// Bytes that it has taken from the request's budget. Written by the runner alone.
    pub(crate) held: AtomicU64,
    pub(crate) tally: Tally,
    pub(crate) inputs: std::boxed::Box<[Input]>,
    /// Touched only between begin and finish, and at the very end by whoever settles the request.
    pub(crate) body: UnsafeCell<Body>,
}

#[expect(unsafe_code, reason = "a cell is shared by the seats that send to it and the one that runs it")]
// SAFETY: `body` is used by the runner alone (the state word admits one) or after quiescence by the one that settles;
// `instance` points to the instance that owns the cell and so outlives it; rings and state word are made for sharing.
unsafe impl Sync for BoxCell {}
#[expect(unsafe_code, reason = "the raw pointer to its owner takes the automatic implementation away")]
// SAFETY: as above; operators and envelopes are `Send`.
unsafe impl Send for BoxCell {}

impl BoxCell {
    #[inline]
    pub(crate) fn instance(&self) -> &Instance {
        #[expect(unsafe_code, reason = "follows a pointer to its owner")]
        // SAFETY: the instance owns the cell.
        unsafe {
            &*self.instance
        }
    }
}

/// What an action sees of an input.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// No envelope when the invocation began, or the box has closed it without taking one.
    Nothing,
    /// A head.
    Head,
    /// A head that it has taken.
    Taken,
    /// A head that it has taken to keep.
    Kept,
}

pub(crate) struct Body {
    pub(crate) operator: std::boxed::Box<dyn Operator>,
    pub(crate) outputs: std::boxed::Box<[Output]>,
    /// By input, what the action sees of it.
    pub(crate) snapshot: std::boxed::Box<[Seen]>,
    /// By input, whether its head was reported as left. Kept while somebody records.
    pub(crate) left: SmallVec<[bool; 8]>,
    /// How many bytes it said last that it holds.
    pub(crate) held: u64,
    /// What the action sent; it leaves at the end.
    pub(crate) outbox: Vec<(usize, Envelope)>,
    /// Senders that the action made room for.
    pub(crate) resumed: Vec<usize>,
    pub(crate) consumed: bool,
    pub(crate) run_again: bool,
    /// Bytes of what it sent in this invocation, without the first envelope of each output.
    pub(crate) outbox_bytes: u64,
    /// Bytes of what it took in this invocation: so much more it may send.
    pub(crate) taken_bytes: u64,
    pub(crate) ended: bool,
    /// Room at any output is enough for the next invocation; if not, all of them need it.
    pub(crate) any_room: bool,
    /// All its readers are gone: its user code is run no more.
    pub(crate) retired: bool,
}

impl Body {
    /// Whether what still waits at the outputs keeps the box from being invoked.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        let mut open = self.outputs.iter().filter(|output| !output.is_closed()).peekable();
        if self.any_room && open.peek().is_some() { open.all(Output::is_refused) } else { self.is_refused() }
    }

    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        self.outputs.iter().any(Output::is_refused)
    }

    /// Whether an output still waits for its pill. A box that has sent them all may ask to run again to clean up.
    #[inline]
    pub(crate) fn owes_pills(&self) -> bool {
        self.outputs.iter().any(|output| !output.pill_sent)
    }
}

pub(crate) struct Output {
    pub(crate) schema: Schema,
    pub(crate) pill_sent: bool,
    /// What was sent in this invocation: envelopes, and bytes of all but the first.
    pub(crate) sent: (usize, u64),
    /// The action was told since its last envelope that there is room.
    pub(crate) was_asked: Cell<bool>,
    /// The trace says that it was refused. Not for a box that any room is enough for: it goes on.
    pub(crate) noted: bool,
    pub(crate) receivers: Vec<Receiver>,
}

pub(crate) struct Receiver {
    pub(crate) cell: usize,
    pub(crate) input: usize,
    pub(crate) private: Vec<usize>,
    pub(crate) closed: bool,
    /// What it refused, in order.
    pub(crate) pending: VecDeque<Envelope>,
}

impl Output {
    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        self.receivers.iter().any(|receiver| !receiver.pending.is_empty())
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.receivers.iter().all(|receiver| receiver.closed)
    }
}

impl Instance {
    /// A live copy of a model. `seats` is how many seats may run its tasks; `class` is what its world's boxes are
    /// ([`crate::box_class`]); `operators` replaces the operator of some boxes, such as a sink that belongs to this request alone.
    pub fn new(
        model: &Arc<Model>,
        id: RequestId,
        seats: usize,
        class: &'static TaskClass,
        operators: Vec<(BoxId, std::boxed::Box<dyn Operator>)>,
    ) -> Arc<Instance> {
        let mut operators = operators;
        let unknown = operators.iter().find(|(id, _)| id.index() >= model.boxes.len());
        assert!(
            unknown.is_none(),
            "an operator was given for box {:?}, which the model does not have",
            unknown.map(|o| o.0)
        );
        Arc::new_cyclic(|weak| {
            let cell = |index: usize| {
                let model = &model.boxes[index];
                let special = operators.iter().position(|(id, _)| id.index() == index);
                let operator = match special {
                    Some(at) => operators.swap_remove(at).1,
                    None => (model.factory)(),
                };
                let receiver = |link: &crate::model::Link| Receiver {
                    cell: link.receiver.index(),
                    input: link.input,
                    private: link.private.clone(),
                    closed: false,
                    pending: VecDeque::new(),
                };
                let output = |(schema, links): &(Schema, crate::model::Links)| Output {
                    schema: schema.clone(),
                    pill_sent: false,
                    sent: (0, 0),
                    was_asked: Cell::new(false),
                    noted: false,
                    receivers: links.iter().map(receiver).collect(),
                };
                let body = Body {
                    operator,
                    outputs: model.outputs.iter().map(output).collect(),
                    snapshot: vec![Seen::Nothing; model.inputs.len()].into(),
                    left: smallvec![false; model.inputs.len()],
                    held: 0,
                    outbox: Vec::new(),
                    resumed: Vec::new(),
                    consumed: false,
                    run_again: false,
                    outbox_bytes: 0,
                    taken_bytes: 0,
                    ended: false,
                    any_room: false,
                    retired: false,
                };
                let input = |(from, bound): &(OutputId, crate::Bound)| Input {
                    ring: Ring::new(*bound),
                    sender: from.sender().index(),
                };
                BoxCell {
                    header: TaskHeader {
                        class,
                        context: ContextRef::NONE,
                        request: id,
                        number: TaskHeader::UNNUMBERED,
                    },
                    index,
                    instance: weak.as_ptr(),
                    state: StateWord::new(),
                    clock: AtomicU64::new(0),
                    held: AtomicU64::new(0),
                    tally: Tally::new(model.inputs.len(), model.outputs.len()),
                    inputs: model.inputs.iter().map(input).collect(),
                    body: UnsafeCell::new(body),
                }
            };
            Instance {
                id,
                model: Arc::clone(model),
                cells: (0..model.boxes.len()).map(cell).collect(),
                counts: (0..=seats).map(|_| Padded::default()).collect(),
                stop: AtomicU8::new(GOES_ON),
                settled: AtomicBool::new(false),
                failure: Mutex::new(None),
                budget: AtomicU64::new(u64::MAX),
                held: Padded(AtomicU64::new(0)),
            }
        })
    }

    /// The request's id.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Bounds what its boxes hold together, in bytes; see [`Turn::holds`](crate::Turn::holds). To be called before it starts.
    pub fn set_budget(&self, bytes: u64) {
        self.budget.store(bytes, Ordering::Relaxed);
    }

    /// Books a box's bytes, in portions so that the boxes of a request rarely meet at its sum.
    pub(crate) fn hold(&self, held: &AtomicU64, bytes: u64) -> Result<(), OverBudget> {
        const PORTION: u64 = 1 << 16;
        const LITTLE: u64 = 1 << 10;
        let before = held.load(Ordering::Relaxed);
        if bytes <= before && before - bytes < 2 * PORTION {
            return Ok(());
        }
        // Many boxes of a large model hold little, and must not seem to hold much together.
        let after = bytes.next_multiple_of(if bytes < PORTION { LITTLE } else { PORTION });
        held.store(after, Ordering::Relaxed);
        // Wraps where the box holds less than before.
        let change = after.wrapping_sub(before);
        let sum = self.held.0.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        let budget = self.budget.load(Ordering::Relaxed);
        if sum <= budget || after < before {
            return Ok(());
        }
        let holder =
            |(cell, model): (&BoxCell, &crate::ModelBox)| (model.name().to_owned(), cell.held.load(Ordering::Relaxed));
        let mut holders: Vec<(String, u64)> = self.cells.iter().zip(self.model.boxes()).map(holder).collect();
        holders.retain(|(_, held)| *held > 0);
        holders.sort_by_key(|(_, held)| std::cmp::Reverse(*held));
        Err(OverBudget { budget, holders })
    }

    /// One of its boxes, by its place in the model. Panics if there are not so many.
    pub fn box_id(&self, index: usize) -> BoxId {
        assert!(index < self.cells.len(), "the model has {} boxes", self.cells.len());
        BoxId(index)
    }

    /// The model that it is a copy of.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The request's first box, the initialization box, which `seat` is to queue. From now on the instance holds itself, until it is
    /// settled. To be called once.
    pub fn start(self: &Arc<Self>, seat: Option<usize>) -> Activation {
        let enqueue = self.cells[0].state.arrive();
        assert!(enqueue.0, "a request is started once");
        std::mem::forget(Arc::clone(self));
        self.activation(0, Kind::Deferred, seat)
    }

    /// A box whose state word has just become queued.
    #[inline]
    pub(crate) fn activation(&self, index: usize, kind: Kind, seat: Option<usize>) -> Activation {
        Activation { queued: Queued::new(&self.cells[index], seat), kind, index: BoxId(index), home: None }
    }

    /// A reference to it, which it holds itself as long as it has boxes that are queued or run.
    pub(crate) fn share(&self) -> Arc<Instance> {
        let instance = self.cells[0].instance;
        #[expect(unsafe_code, reason = "makes an Arc of the pointer that the cells hold")]
        // SAFETY: instances are made by `Instance::new` alone, inside an Arc, and `instance` is the pointer that this Arc
        // gave (not one made of a reference, which may not reach the counts before the value); the Arc is alive, since `self` is, and the
        // count added here belongs to the one returned.
        unsafe {
            Arc::increment_strong_count(instance);
            Arc::from_raw(instance)
        }
    }

    /// It has ended, failed or been cancelled. No more user code is to run, but for boxes that asked to run again before the end
    /// ([`Instance::is_wanted`]).
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != GOES_ON
    }

    /// Whether it goes on, has ended or has failed, as a number that differs for these.
    #[inline]
    pub fn stage(&self) -> u8 {
        self.stop.load(Ordering::Relaxed)
    }

    /// It has failed or been cancelled: no user code is to run any more.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.stop.load(Ordering::Relaxed) == FAILED
    }

    /// The termination box has seen every pill.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.stop.load(Ordering::Relaxed) == ENDED
    }

    /// Whether a box that was queued is to be run, and not dropped: the request goes on, or it has ended and the box, which had
    /// sent its pills, asked to run again (Bobox report §4.1: a box may pass the pill on, and clean up in a later invocation).
    #[inline]
    pub fn is_wanted(&self, index: BoxId) -> bool {
        match self.stop.load(Ordering::Relaxed) {
            GOES_ON => true,
            ENDED => self.cells[index.index()].state.is_again(),
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

    /// The termination box has all pills. Blocked boxes are resumed, since nothing that they sent matters any more: gives those that
    /// asked to run again.
    #[cold]
    #[inline(never)]
    pub(crate) fn end(&self, mut wanted: impl FnMut(usize)) {
        if self.stop.compare_exchange(GOES_ON, ENDED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        // A box that is about to be blocked sees that the request has ended, or is seen to be blocked here.
        fence(Ordering::SeqCst);
        for (index, cell) in self.cells.iter().enumerate().filter(|(_, cell)| cell.state.is_blocked()) {
            if cell.state.resume().0 && cell.state.is_again() {
                wanted(index);
            }
        }
    }

    /// Counts a task that `seat` is about to queue (`None`: a caller without a seat).
    #[inline]
    pub(crate) fn count_queued(&self, seat: Option<usize>) {
        self.add(seat, |counts| &counts.queued);
    }

    /// Counts a task that `seat` has run or dropped. Unless the caller holds a reference of its own, the instance may be gone after this:
    /// another seat may settle it.
    #[inline]
    pub(crate) fn count_finished(&self, seat: Option<usize>) {
        self.add(seat, |counts| &counts.finished);
    }

    /// Counts how `seat` found a task.
    #[inline]
    pub fn count_taken(&self, seat: usize, rule: u8, far: bool) {
        self.add(Some(seat), |counts| &counts.taken[usize::from(rule)]);
        if far {
            self.add(Some(seat), |counts| &counts.far);
        }
    }

    /// Raises a box's logical clock: what is queued with it happened later. For recorded runs.
    pub fn raise_clock(&self, index: BoxId, clock: u64) {
        self.cells[index.index()].clock.fetch_max(clock, Ordering::AcqRel);
    }

    /// A box's logical clock. For recorded runs.
    pub fn clock(&self, index: BoxId) -> u64 {
        self.cells[index.index()].clock.load(Ordering::Acquire)
    }

    /// Counts an invocation of user code.
    #[inline]
    pub(crate) fn count_act(&self, seat: Option<usize>) {
        self.add(seat, |counts| &counts.acts);
    }

    #[inline]
    fn add(&self, seat: Option<usize>, which: impl Fn(&Counts) -> &AtomicU64) {
        match seat {
            Some(seat) => {
                // Only the seat writes here, so a load and a store do for an addition.
                let counter = which(&self.counts[seat].0);
                counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
            }
            None => {
                which(&self.counts[self.counts.len() - 1].0).fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Whether no task of the request is queued or running. Once true it stays true.
    pub fn is_quiescent(&self) -> bool {
        self.unfinished() == 0
    }

    /// How many tasks are queued or running, the caller's own included: never less than there are, and exact if none
    /// but the caller's is left.
    pub fn unfinished(&self) -> u64 {
        let sum = |which: fn(&Counts) -> &AtomicU64| -> u64 {
            self.counts.iter().map(|counts| which(&counts.0).load(Ordering::Acquire)).sum()
        };
        let finished = sum(|counts| &counts.finished);
        sum(|counts| &counts.queued) - finished
    }

    /// To be called by whoever has counted a task as finished and turns away. Decides what became of the request if
    /// that was its last task; `None` if it was not, or if another caller was quicker. What its boxes hold is dropped
    /// before the answer is given.
    pub fn settle(&self) -> Option<Result<Totals, FlowError>> {
        // Two seats that finish the last two tasks at once: at least one sees the other's count.
        fence(Ordering::SeqCst);
        if !self.is_quiescent() || self.settled.swap(true, Ordering::AcqRel) {
            return None;
        }
        let result = match self.stop.load(Ordering::Acquire) {
            ENDED => Ok(self.totals()),
            GOES_ON => Err(self.explain_stall()),
            _ => {
                let failure = self.failure.lock().expect("nothing panics under this lock").take();
                Err(failure.expect("whoever stops a request leaves the reason"))
            }
        };
        let dropped = self.release();
        #[expect(unsafe_code, reason = "gives back the reference to itself")]
        // SAFETY: `start` took it, since there was a task to be finished; this is done once (`settled`). The caller has another one.
        unsafe {
            Arc::decrement_strong_count(self.cells[0].instance);
        }
        Some(result.and_then(|totals| dropped.map_or(Ok(totals), Err)))
    }

    /// Drops every operator and envelope. A handle that somebody keeps then costs little, and what an operator has at
    /// its end, such as a channel's sender, is gone when the request is over. Gives the first panic.
    fn release(&self) -> Option<FlowError> {
        let mut first = None;
        for cell in &self.cells {
            for input in &cell.inputs {
                while let Some(taken) = input.ring.take() {
                    // What a column's owner does when it is dropped is the sender's.
                    let dropped = catch_unwind(AssertUnwindSafe(move || drop(taken)));
                    dropped.unwrap_or_else(|panic| keep_first(&mut first, self.unwound(input.sender, panic)));
                }
            }
            let (operator, left) = cell.body.with_mut(|body| {
                #[expect(unsafe_code, reason = "empties bodies that nobody runs")]
                // SAFETY: the request is quiescent, and only the one that settles it comes here (`settled`): no box
                // runs or will, and all their writes are visible through the counters.
                let body = unsafe { &mut *body };
                let receivers = body.outputs.iter_mut().flat_map(|output| &mut output.receivers);
                let mut left: Vec<Envelope> = receivers.flat_map(|receiver| receiver.pending.drain(..)).collect();
                left.extend(body.outbox.drain(..).map(|(_, envelope)| envelope));
                (std::mem::replace(&mut body.operator, std::boxed::Box::new(Absent)), left)
            });
            let mut drops = |drops: &mut dyn FnMut()| {
                let dropped = catch_unwind(AssertUnwindSafe(drops));
                dropped.unwrap_or_else(|panic| keep_first(&mut first, self.unwound(cell.index, panic)));
            };
            let mut operator = Some(operator);
            drops(&mut || drop(operator.take()));
            for envelope in left {
                let mut envelope = Some(envelope);
                drops(&mut || drop(envelope.take()));
            }
        }
        first
    }

    /// Fails the request, whose box's invocation on `seat` panicked outside of its own code. The box is run no more.
    #[cold]
    pub fn abandon(&self, index: BoxId, seat: Option<usize>, panic: std::boxed::Box<dyn Any + Send>) {
        self.fail_by(index, panic);
        self.count_finished(seat);
    }

    /// Fails the request by what a box's code, or a task of it, panicked with.
    #[cold]
    pub fn fail_by(&self, index: BoxId, panic: std::boxed::Box<dyn Any + Send>) {
        self.fail(self.unwound(index.index(), panic));
    }

    /// What it means for the request that a box returned an error.
    #[cold]
    pub(crate) fn gave_up(&self, index: usize, error: BoxError) -> FlowError {
        FlowError::Failed { name: self.model.boxes[index].name().to_owned(), error: error.into() }
    }

    /// What it means for the request that a box's code left by unwinding.
    #[cold]
    pub(crate) fn unwound(&self, index: usize, panic: std::boxed::Box<dyn Any + Send>) -> FlowError {
        let panic = match panic.downcast::<GivenUp>() {
            Ok(given_up) => return self.gave_up(index, given_up.0),
            Err(panic) => panic,
        };
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let message = text.unwrap_or_else(|| "a panic without a message".to_owned());
        drop_quietly(panic);
        FlowError::Panicked { name: self.model.boxes[index].name().to_owned(), message }
    }

    /// What the request has cost so far.
    pub fn totals(&self) -> Totals {
        let sum = |which: &dyn Fn(&Counts) -> &AtomicU64| -> u64 {
            self.counts.iter().map(|counts| which(&counts.0).load(Ordering::Relaxed)).sum()
        };
        let add = |(near, far), cell: &BoxCell| {
            let (more_near, more_far) = cell.tally.bytes();
            (near + more_near, far + more_far)
        };
        let (near_bytes, far_bytes) = self.cells.iter().fold((0, 0), add);
        Totals {
            tasks: sum(&|counts| &counts.finished),
            acts: sum(&|counts| &counts.acts),
            taken: std::array::from_fn(|rule| sum(&|counts| &counts.taken[rule])),
            far: sum(&|counts| &counts.far),
            near_bytes,
            far_bytes,
        }
    }

    /// What each box has done so far, in the order of [`Model::boxes`]. Exact when the request is over; while it runs, of
    /// each number not less than was there some time ago.
    pub fn counts(&self) -> Vec<BoxCounts> {
        self.cells.iter().map(|cell| cell.tally.read()).collect()
    }
}

fn keep_first(first: &mut Option<FlowError>, error: FlowError) {
    match first {
        Some(_) => drop_quietly(error),
        None => *first = Some(error),
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::{BoxModel, ModelBuilder};
    use loom::sync::atomic::{AtomicBool as Flag, AtomicUsize};

    #[expect(unsafe_code, reason = "the type of a class's functions")]
    // SAFETY of callers: nothing to keep; it is never called.
    unsafe fn never(_: vicus_schedule::TaskRef) {
        unreachable!("these tasks are only counted");
    }

    static COUNTED: TaskClass = crate::box_class(never);

    /// A task queues another and ends, while a second seat takes that one, runs it and ends it: exactly one of them finds
    /// that the request is over, and not before both tasks are.
    #[test]
    fn loom_a_request_is_settled_once_and_not_too_early() {
        let mut net = ModelBuilder::new("one box");
        let source =
            net.source(BoxModel::new("source", || |_: &mut crate::Turn<'_>| Ok(())).output(&Schema::new::<&str>([])));
        net.end(source.output(0));
        let model = net.build().unwrap();
        loom::model(move || {
            let instance = Instance::new(&model, RequestId(1), 2, &COUNTED, Vec::new());
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
                if instance.settle().is_some() {
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
            // If the thief came too early, it is the owner's.
            if take(&queued) {
                end(&instance, 0, &counts);
            }
            thief.join().unwrap();
            assert_eq!(counts[1].load(Ordering::Relaxed), 1, "settled once");
        });
    }
}
