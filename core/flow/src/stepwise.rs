//! A request run step by step by its caller, in any order and time: the protocol without a world.
//!
//! An invocation has two steps. [`SteppedRequest::begin`] takes the snapshot of the inputs and runs the user's code;
//! [`SteppedRequest::finish`] sends its envelopes and lets the box go. A simulator puts virtual time between them, and
//! other boxes of the request may begin and finish meanwhile. A task to be run is an [`Activation`]; beginning it
//! consumes it, so it can't be begun twice.
//!
//! ```
//! use vicus_flow::stepwise::SteppedRequest;
//! use vicus_flow::{Envelope, ModelBuilder, Schema, library};
//! use vicus_topology::NodeId;
//!
//! let schema = Schema::new::<&str>([]);
//! let mut net = ModelBuilder::new("ten rows");
//! let rows = net.source(library::source("rows", &schema, || [Envelope::of_rows(Vec::new(), 10)]));
//! let end = net.add(library::sink("end", &schema, |_| Ok(())));
//! net.connect(rows.output(0), end.input(0));
//! net.end(end.output(0));
//!
//! let (mut request, first) = SteppedRequest::start(&net.build().unwrap(), Vec::new());
//! let mut queue = vec![first];
//! while let Some(task) = queue.pop() {
//!     let begun = request.begin(task, NodeId::new(0));
//!     queue.extend(request.finish(begun, NodeId::new(0)));
//! }
//! let (result, counts) = request.settle();
//! assert!(result.is_ok());
//! assert_eq!(counts[2].rows_taken(), 10);
//! ```

use crate::instance::BesidePaused;
use crate::{
    Account, Activation, BoxCounts, BoxId, Budget, ConnectedBox, Fact, FlowError, GrownBox, Inherited, Instance,
    LiveBox, Model, Operator, Overflows, Queued, Running, SeatBuffers, Totals, World, box_class,
};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use vicus_schedule::{Kind, RequestId, TaskClass, TaskRef};
use vicus_topology::NodeId;

struct Alone;

impl World for Alone {
    fn blocking(&self, section: &mut dyn FnMut()) {
        section();
    }
}

#[expect(unsafe_code, reason = "a class asks for a function that tasks are run with; here boxes are begun by hand")]
// SAFETY of callers: no condition: it only panics.
unsafe fn not_called(_: TaskRef) {
    unreachable!("these tasks are in no queue");
}

/// The class of boxes begun by their caller.
static BY_HAND: TaskClass = box_class(not_called);

/// Calls a part of an invocation. A panic there fails the request, with the name of the box, and ends the invocation.
fn guarded<R>(instance: &Instance, index: BoxId, f: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| instance.abandon(index, Some(0), panic)).ok()
}

/// A live copy of a model with its tasks in the caller's hands.
pub struct SteppedRequest {
    instance: Arc<Instance>,
    buffers: SeatBuffers,
    /// The paused boxes that were resumed.
    resumed: Arc<Mutex<Vec<Queued>>>,
}

/// An invocation under way.
#[must_use]
pub struct SteppedInvocation {
    /// `None` if the request had stopped, or if it failed.
    running: Option<Running>,
    /// Boxes activated by resuming, before the user's code ran.
    activations: Vec<Activation>,
    acted: bool,
    was_dropped: bool,
}

impl SteppedInvocation {
    /// Whether the user's code was run. It is not if there is nothing to do, or if its envelopes still wait.
    pub fn acted(&self) -> bool {
        self.acted
    }

    /// Whether the request had stopped before, and the box was only dropped.
    pub fn was_dropped(&self) -> bool {
        self.was_dropped
    }

    /// The rows and the bytes of the envelopes that it is to send.
    pub fn made(&mut self) -> (usize, u64) {
        self.running.as_mut().map_or((0, 0), Running::made)
    }
}

impl SteppedRequest {
    /// A live copy, and its first task. `operators` replaces operators as in [`Instance::new`].
    pub fn start(
        model: &Arc<Model>,
        operators: Vec<(BoxId, std::boxed::Box<dyn Operator>)>,
    ) -> (SteppedRequest, Activation) {
        let instance = Instance::new(model, RequestId::new(0), 1, &BY_HAND, operators);
        let first = instance.start(Some(0));
        (
            SteppedRequest {
                instance,
                buffers: SeatBuffers { seat: Some(0), ..SeatBuffers::default() },
                resumed: Arc::default(),
            },
            first,
        )
    }

    /// Bounds the bytes that its boxes hold together ([`Instance::set_budget`]). To be called once, before its first
    /// task begins.
    pub fn set_budget(&self, budget: impl Into<Budget>) {
        self.instance.set_budget(budget);
    }

    /// Has no via hold more than its bound ([`Instance::set_keeps_bounds`]). To be called before its first task begins.
    pub fn set_keeps_bounds(&self) {
        self.instance.set_keeps_bounds();
    }

    /// Where vias may keep envelopes when the budget is used up ([`Instance::set_overflows`]). To be called once,
    /// before its first task begins.
    pub fn set_overflows(&self, overflows: Arc<dyn Overflows>) {
        self.instance.set_overflows(overflows);
    }

    /// Bounds how many of its boxes live at once ([`Instance::set_most_boxes`]). To be called before its first task
    /// begins.
    pub fn set_most_boxes(&self, most: NonZeroUsize) {
        self.instance.set_most_boxes(most);
    }

    /// A box of another request has submitted it: it books with that one's account.
    pub(crate) fn inherit(&self, account: Option<Arc<Account>>, inherited: Inherited) {
        self.instance.set_account(account);
        self.instance.set_inherited(inherited);
    }

    /// Lets its boxes pause ([`Turn::pause`](crate::Turn::pause)). Those that are resumed come by
    /// [`SteppedRequest::resumed`].
    pub fn allow_pauses(&mut self) {
        let resumed = Arc::clone(&self.resumed);
        let entry = move |queued| resumed.lock().unwrap_or_else(PoisonError::into_inner).push(queued);
        self.buffers.entry = Some(Arc::new(entry));
    }

    /// The paused boxes that were resumed since the last call.
    pub fn resumed(&mut self) -> Vec<Activation> {
        let resumed = std::mem::take(&mut *self.resumed.lock().unwrap_or_else(PoisonError::into_inner));
        let activation = |queued: Queued| {
            let index = queued.index();
            Activation { queued, kind: Kind::Deferred, index, home: None }
        };
        resumed.into_iter().map(activation).collect()
    }

    /// Keeps the facts about envelopes from now on; see [`SteppedRequest::facts`].
    pub fn record(&mut self) {
        self.buffers.recording = true;
    }

    /// Whether it is to spread from now on, because it is its caller's only one ([`SeatBuffers::spreads`]).
    pub fn set_spreads(&mut self, spreads: bool) {
        self.buffers.spreads = spreads;
    }

    /// The facts about envelopes since the last call, if they are recorded.
    pub fn facts(&mut self) -> impl Iterator<Item = Fact> {
        self.buffers.facts.drain(..)
    }

    /// Stops the request with a reason, if it goes on.
    pub fn fail(&self, error: FlowError) {
        self.instance.fail(error);
        self.instance.discard_paused(Some(0));
    }

    /// Calls `f` with a box as its model or its fragment has it.
    pub fn with_box<R>(&self, index: BoxId, f: impl FnOnce(&ConnectedBox) -> R) -> R {
        self.instance.with_box(index, f)
    }

    /// The whole network, if it has grown while facts were recorded ([`Instance::network`]).
    pub fn network(&self) -> Vec<LiveBox> {
        self.instance.network()
    }

    /// Begins an invocation on a node: the snapshot, and the user's code if it is due. Panics if the task is another
    /// request's.
    pub fn begin(&mut self, task: Activation, node: NodeId) -> SteppedInvocation {
        let Activation { queued, index, .. } = task;
        assert!(std::ptr::eq(queued.instance(), &*self.instance), "a task is begun by its request");
        let mut begun = SteppedInvocation { running: None, activations: Vec::new(), acted: false, was_dropped: false };
        if !queued.is_wanted() {
            queued.discard(Some(0));
            begun.was_dropped = true;
            return begun;
        }
        self.buffers.node = node;
        let Some(mut running) = guarded(&self.instance, index, || queued.begin(&mut self.buffers)) else {
            return begun;
        };
        if running.is_due() {
            begun.acted = true;
            running.act(&Alone, &mut self.buffers);
        }
        begun.activations = std::mem::take(&mut self.buffers.activations);
        begun.running = Some(running);
        begun
    }

    /// Ends an invocation begun on this node. Gives the boxes to be queued, the one to be run first last; if nothing
    /// else is left but paused boxes, the one that goes on by an [overdraft](crate::Settled::GoesOn).
    pub fn finish(&mut self, begun: SteppedInvocation, node: NodeId) -> Vec<Activation> {
        let Some(running) = begun.running else { return begun.activations };
        assert!(running.is_of(&self.instance), "an invocation is finished by its request");
        self.buffers.node = node;
        self.buffers.activations = begun.activations;
        let (index, buffers) = (running.index(), &mut self.buffers);
        guarded(&self.instance, index, || running.send(buffers).finish(buffers));
        let mut activations = std::mem::take(&mut self.buffers.activations);
        // Nothing is left to do, and it has not ended: the boxes wait for each other.
        if activations.is_empty() && !self.instance.is_stopped() {
            if self.instance.is_quiescent() {
                match self.instance.overdraw() {
                    Ok(activation) => activations.push(activation),
                    Err(error) => self.instance.fail(error),
                }
            } else if self.instance.may_wait_beside_paused()
                && let BesidePaused::GoesOn(activation) = self.instance.look_beside_paused(Some(0), || {})
            {
                activations.push(activation);
            }
        }
        activations
    }

    /// The result of the request, and the counts of each box. To be called when no task is left; panics otherwise.
    pub fn settle(self) -> (Result<Totals, FlowError>, Vec<BoxCounts>) {
        let (result, counts, _) = self.settle_grown();
        (result, counts)
    }

    /// Like [`SteppedRequest::settle`], with the counts of the boxes of fragments ([`Instance::grown`]).
    pub fn settle_grown(self) -> (Result<Totals, FlowError>, Vec<BoxCounts>, Vec<GrownBox>) {
        let settled = self.instance.settle(Some(0)).expect("every task was begun and finished");
        (settled.over(), self.instance.counts(), self.instance.grown())
    }
}
