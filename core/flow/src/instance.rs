//! The live copy of a model: its boxes are the tasks.
//!
//! Flow owns the whole protocol of a box; a world decides when and where it runs. Four calls, so a simulator can put
//! virtual time between them and a recorder its events: `Queued::begin` takes the snapshot, `Running::act` runs the
//! user's code, `Running::send` sends its envelopes, `Sent::finish` lets the box go; `buffers` then has the boxes to be
//! queued.

mod cell;
mod cells;
mod delivery;
mod growth;
mod running;
mod settling;

use crate::sync::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Mutex, Ordering, Padded};
use crate::{
    Account, Activation, BoxCounts, BoxId, Budget, ConnectedBox, FlowError, Inherited, Model, Operator, OverBudget,
    Overflows, Queued, SubmitInner,
};
pub(crate) use cell::{Body, BoxCell, Input, InputView, Neighbour, Output, Receiver, SentNow};
use cells::Cells;
pub(crate) use cells::CountedBoxes;
pub use cells::{GrownBox, LiveBox};
pub use running::{Running, Sent};
pub(crate) use settling::BesidePaused;
use settling::GOES_ON;
pub use settling::Settled;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use vicus_schedule::{Kind, RULES, RequestId, TaskClass};

/// A live model under a request's id: the unit of fairness, cancellation and failure.
pub struct Instance {
    id: RequestId,
    model: Arc<Model>,
    pub(crate) cells: Cells,
    /// One for each seat, written by it alone; the last is for callers without a seat, and these add atomically.
    counts: std::boxed::Box<[Padded<SeatCounters>]>,
    stop: AtomicU8,
    settled: settling::Claim,
    is_timed: AtomicBool,
    keeps_bounds: AtomicBool,
    /// Nanoseconds. Seats write it while there are some left, and the request is not alone.
    head_start: AtomicU64,
    failure: Mutex<Option<FlowError>>,
    /// Set before it starts, if it has a budget.
    account: OnceLock<Arc<Account>>,
    /// Set before it starts, if envelopes may go out of memory.
    pub(crate) overflows: OnceLock<Arc<dyn Overflows>>,
    /// Bytes that its vias may hold beyond their bounds.
    pub(crate) overdraft: AtomicU64,
    pub(crate) waiting: Padded<Waiting>,
    /// How many of its boxes may live at once.
    most_boxes: AtomicUsize,
    /// How its boxes submit requests of their own.
    submits: OnceLock<SubmitInner>,
}

/// See [`Instance::set_most_boxes`].
const MOST_BOXES: usize = 1 << 18;

/// The signs that boxes may wait for each other beside paused ones. On lines of its own: no invocation writes here
/// whose envelopes are all taken, and that does not pause.
#[derive(Default)]
pub(crate) struct Waiting {
    /// How many boxes are paused. Changed under the lock of the box's pause.
    pub(crate) paused: AtomicU64,
    /// Whether envelopes may wait for a receiver: set before the invocation ends that leaves them.
    has_refused: AtomicBool,
}

#[derive(Default)]
struct SeatCounters {
    queued: AtomicU64,
    finished: AtomicU64,
    taken: [AtomicU64; RULES],
    far: AtomicU64,
    acts: AtomicU64,
}

/// The cost of a request, summed over the seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tasks run or, after the end, dropped.
    pub tasks: u64,
    /// Invocations of user code.
    pub acts: u64,
    /// Tasks by the rule that found them; rule 1 is at index 1, and index 0 counts the tasks outside of queues.
    pub taken: [u64; RULES],
    /// Tasks of a queue with its home on another node than the taking seat.
    pub far: u64,
    /// Bytes taken by its boxes on the sender's node; see [`crate::InputCounts::near_bytes`].
    pub near_bytes: u64,
    /// Bytes taken by its boxes on another node.
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

impl Instance {
    /// A live copy of a model. `seats` is how many seats may run its tasks; `class` is the class of its world's boxes
    /// ([`crate::box_class`]); `operators` replaces the operators of some boxes, such as a sink for this request alone.
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
                let special = operators.iter().position(|(id, _)| id.index() == index);
                let operator = match special {
                    Some(at) => operators.swap_remove(at).1,
                    None => (model.boxes[index].factory)(),
                };
                BoxCell::new(&model.boxes[index], index, operator, weak.as_ptr(), id, class, |_| true)
            };
            Instance {
                id,
                model: Arc::clone(model),
                cells: Cells::new(model, (0..model.boxes.len()).map(cell).collect()),
                counts: (0..=seats).map(|_| Padded::default()).collect(),
                stop: AtomicU8::new(GOES_ON),
                settled: settling::Claim::default(),
                is_timed: AtomicBool::new(false),
                keeps_bounds: AtomicBool::new(false),
                head_start: AtomicU64::new(0),
                failure: Mutex::new(None),
                account: OnceLock::new(),
                overflows: OnceLock::new(),
                overdraft: AtomicU64::new(0),
                waiting: Padded::default(),
                most_boxes: AtomicUsize::new(MOST_BOXES),
                submits: OnceLock::new(),
            }
        })
    }

    /// The request's id.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Bounds the bytes its boxes and their tasks hold together; see [`Turn::book`](crate::Turn::book). To be called
    /// once, before it starts.
    pub fn set_budget(&self, budget: impl Into<Budget>) {
        self.set_account(Account::new(budget));
    }

    /// Like [`Instance::set_budget`], with an account that may have further users.
    pub fn set_account(&self, account: Option<Arc<Account>>) {
        if let Some(account) = account {
            assert!(self.account.set(account).is_ok(), "a request has one budget");
        }
    }

    /// Has no via hold more than its bound: boxes that wait for each other are an error. For tests of networks that
    /// never do. To be called before it starts.
    pub fn set_keeps_bounds(&self) {
        self.keeps_bounds.store(true, Ordering::Relaxed);
    }

    pub(crate) fn keeps_bounds(&self) -> bool {
        self.keeps_bounds.load(Ordering::Relaxed)
    }

    /// Where vias may keep envelopes when the budget is used up. To be called once, before it starts.
    pub fn set_overflows(&self, overflows: Arc<dyn Overflows>) {
        assert!(self.overflows.set(overflows).is_ok(), "a request has one place outside of memory");
    }

    /// How its boxes submit requests of their own ([`Turn::submit`](crate::Turn::submit)), in a world with an outside.
    /// To be called once, before it starts.
    pub fn set_submits(&self, submit: SubmitInner) {
        assert!(self.submits.set(submit).is_ok(), "a request has one world");
    }

    pub(crate) fn submits(&self) -> Option<SubmitInner> {
        self.submits.get().copied()
    }

    /// Has the time in each box's user code measured ([`BoxCounts::busy_ns`]), in a world with a clock. To be called
    /// before it starts: two looks at the clock in each invocation, some 50 ns.
    pub fn set_timed(&self) {
        self.is_timed.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed.load(Ordering::Relaxed)
    }

    /// Gives its boxes precedence over other requests' for this number of nanoseconds of invocations beside them, in a
    /// world with a [front](vicus_schedule::BoxPlacement::Front) and a clock. To be called before it starts.
    pub fn set_head_start(&self, ns: u64) {
        self.head_start.store(ns, Ordering::Relaxed);
    }

    /// The nanoseconds that are left of its head start.
    pub fn head_start(&self) -> u64 {
        self.head_start.load(Ordering::Relaxed)
    }

    /// Whether some of its head start is left.
    #[inline]
    pub fn has_head_start(&self) -> bool {
        self.head_start.load(Ordering::Relaxed) > 0
    }

    /// An invocation has taken `ns` of the head start.
    pub fn spend_head_start(&self, ns: u64) {
        // Relaxed: only the order of tasks depends on it.
        let spent = |left: u64| (left > 0).then(|| left.saturating_sub(ns));
        let _ = self.head_start.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent);
    }

    /// The account for the memory held by tasks of its boxes; `None` if it has no budget.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.get()
    }

    /// Books a box's bytes, in portions, so the boxes of a request rarely meet at its sum.
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
        let Some(account) = self.account.get() else { return Ok(()) };
        if after < before {
            account.give_back(before - after);
            return Ok(());
        }
        account.book(after - before).map_err(|budget| {
            let error = OverBudget { budget, holders: self.holders() };
            // The box does not get the bytes, and may go on with less.
            held.store(before, Ordering::Relaxed);
            error
        })
    }

    /// The boxes that hold memory now and how many bytes, the most first; the tasks together, and the vias that may
    /// hold more than their bounds.
    #[cold]
    pub fn holders(&self) -> Vec<(String, u64)> {
        let mut holders = self.cells.holders(&self.model);
        let reserved = self.account.get().map_or(0, |account| account.reserved());
        holders.push(("tasks".to_owned(), reserved));
        holders.push(("full vias".to_owned(), self.overdraft.load(Ordering::Relaxed)));
        holders.push(("boxes of fragments".to_owned(), self.cells.held()));
        holders.retain(|(_, held)| *held > 0);
        holders.sort_by_key(|(_, held)| std::cmp::Reverse(*held));
        holders
    }

    /// One of its boxes, by its index in the model. Panics if there are fewer.
    pub fn box_id(&self, index: usize) -> BoxId {
        let boxes = self.model.boxes.len();
        assert!(index < boxes, "the model has {boxes} boxes");
        BoxId(index)
    }

    /// The model it is a copy of.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Counts the request's first box, the initialization box; `seat` is to queue it. From now on the instance holds
    /// itself, until it is settled. To be called once.
    pub fn start(self: &Arc<Self>, seat: Option<usize>) -> Activation {
        let enqueue = self.cells.first().state.arrive();
        assert!(enqueue.0, "a request is started once");
        std::mem::forget(Arc::clone(self));
        self.activation(self.cells.first(), Kind::Deferred, seat)
    }

    /// A newly queued box, by its state word.
    #[inline]
    pub(crate) fn activation(&self, cell: &BoxCell, kind: Kind, seat: Option<usize>) -> Activation {
        Activation { queued: Queued::new(cell, seat), kind, index: BoxId(cell.index), home: cell.node }
    }

    /// A reference to it. The instance holds one itself as long as it has queued or running boxes.
    pub(crate) fn share(&self) -> Arc<Instance> {
        let instance = self.cells.first().instance;
        #[expect(unsafe_code, reason = "makes an Arc of the pointer that the cells hold")]
        // SAFETY: instances are made only by `Instance::new`, inside an Arc, and `instance` is the pointer given by
        // this Arc (not one made from a reference, since such a pointer may not reach the counts before the value); the
        // Arc is alive, since `self` is, and the count added here belongs to the returned Arc.
        unsafe {
            Arc::increment_strong_count(instance);
            Arc::from_raw(instance)
        }
    }

    /// Raises a box's logical clock: later events of the box happen after it. For recorded runs.
    pub fn raise_clock(&self, index: BoxId, clock: u64) {
        self.cells.with(index.index(), |cell| cell.clock.fetch_max(clock, Ordering::AcqRel));
    }

    /// A box's logical clock. For recorded runs.
    pub fn clock(&self, index: BoxId) -> u64 {
        self.cells.with(index.index(), |cell| cell.clock.load(Ordering::Acquire))
    }

    /// The latest clock of its boxes. For recorded runs.
    pub fn last_clock(&self) -> u64 {
        self.cells.last_clock()
    }

    /// The cost of the request so far.
    pub fn totals(&self) -> Totals {
        let sum = |which: &dyn Fn(&SeatCounters) -> &AtomicU64| -> u64 {
            self.counts.iter().map(|counts| which(&counts.0).load(Ordering::Relaxed)).sum()
        };
        let (near_bytes, far_bytes) = self.cells.bytes();
        Totals {
            tasks: sum(&|counts| &counts.finished),
            acts: sum(&|counts| &counts.acts),
            taken: std::array::from_fn(|rule| sum(&|counts| &counts.taken[rule])),
            far: sum(&|counts| &counts.far),
            near_bytes,
            far_bytes,
        }
    }

    /// The counts of each box so far, in the order of [`Model::boxes`]. Exact when the request is over; while it runs,
    /// each number may be a little old. A box whose place a fragment has taken counts what it did before.
    pub fn counts(&self) -> Vec<BoxCounts> {
        self.cells.counts()
    }

    /// The boxes of fragments so far, those that have ended included: one entry for all boxes of a name in fragments
    /// of expandable boxes of a type.
    pub fn grown(&self) -> Vec<GrownBox> {
        self.cells.grown()
    }

    /// The whole network of a recorded request that has grown, by [`BoxId::index`]: its model's boxes, and all those of
    /// fragments so far. A box whose place a fragment has taken is there as the fragment's first box. Empty if nothing
    /// has grown.
    pub fn network(&self) -> Vec<LiveBox> {
        self.cells.network()
    }

    /// Calls `f` with a box as its model or its fragment has it.
    pub fn with_box<R>(&self, index: BoxId, f: impl FnOnce(&ConnectedBox) -> R) -> R {
        self.cells.with_box(index.index(), f)
    }

    /// Gives it the shares of the request whose box has submitted it. To be called once, before it starts, and in place
    /// of [`Instance::set_overflows`].
    pub fn set_inherited(&self, Inherited { overflows, counted }: Inherited) {
        if let Some(overflows) = overflows {
            self.set_overflows(overflows);
        }
        self.cells.set_counted(counted);
    }

    /// How many of its boxes may live at once, with those of requests submitted by them: a box that would grow beyond
    /// it fails the request ([`FlowError::TooManyBoxes`]). To be called before it starts; otherwise 262,144.
    pub fn set_most_boxes(&self, most: NonZeroUsize) {
        self.most_boxes.store(most.get(), Ordering::Relaxed);
    }
}
