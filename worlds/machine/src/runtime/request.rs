//! A request as its caller has it: how it runs, and a handle on it.

use crate::runtime::boxes::BOX;
use crate::runtime::done::EndSignal;
use crate::runtime::handle::MachineRuntime;
use crate::runtime::requests::here::{nest, request_here};
use crate::runtime::requests::nested::cancel_nested;
use crate::runtime::requests::reserve::account_here;
use crate::runtime::requests::state::RequestState;
use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::runs_task_of;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use vicus_flow::{
    Account, BoxCounts, BoxId, Budget, FlowError, GrownBox, Inherited, Instance, Model, OnResult, Operator, Overflows,
    OwnOperators, Totals,
};
use vicus_schedule::{QueueId, RequestId};
use vicus_topology::NodeId;

/// How a request runs.
///
/// ```
/// # use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library};
/// # let schema = Schema::new([("n", Type::U64)]);
/// # let mut net = ModelBuilder::new("one envelope");
/// # let source = net.source(library::source("source", &schema, || [Envelope::new([vec![1u64, 2, 3].into()])]));
/// # net.end(source.output(0));
/// # let model = net.build().unwrap();
/// use vicus_machine::{RequestOptions, MachineRuntime};
/// let runtime = MachineRuntime::builder().threads(1).start();
/// let options = RequestOptions { is_timed: true, ..RequestOptions::default() };
/// let request = runtime.submit_within(&model, Vec::new(), options); // as above
/// request.wait().unwrap();
/// assert!(request.counts().iter().any(|counts| counts.busy_ns > 0));
/// ```
#[derive(Clone, Debug)]
pub struct RequestOptions {
    /// The bound on the memory of its boxes and tasks.
    pub budget: Budget,
    /// Whether the time in each box's code is measured ([`BoxCounts::busy_ns`]).
    pub is_timed: bool,
    /// Where vias may keep envelopes beyond the budget, so that boxes which wait for each other go on; see
    /// [`TemporaryFiles`](crate::TemporaryFiles).
    pub overflows: Option<Arc<dyn Overflows>>,
    /// How many of its boxes may live at once, if its network grows ([`BoxModel::expandable`]) or its boxes submit
    /// requests ([`Turn::submit`]), whose boxes count as well; by default 262,144.
    ///
    /// [`BoxModel::expandable`]: vicus_flow::BoxModel::expandable
    /// [`Turn::submit`]: vicus_flow::Turn::submit
    pub most_boxes: Option<NonZeroUsize>,
}

impl Default for RequestOptions {
    /// No bound, not timed, and nothing outside of memory.
    fn default() -> RequestOptions {
        Budget::UNBOUNDED.into()
    }
}

impl From<Budget> for RequestOptions {
    fn from(budget: Budget) -> RequestOptions {
        RequestOptions { budget, is_timed: false, overflows: None, most_boxes: None }
    }
}

impl From<u64> for RequestOptions {
    fn from(bytes: u64) -> RequestOptions {
        Budget::from(bytes).into()
    }
}

impl RequestOptions {
    /// With the budget of the calling task's or box's request around it, if there is one.
    pub(crate) fn accounted(self) -> Accounted {
        let RequestOptions { budget, is_timed, overflows, most_boxes } = self;
        let account = Account::within(budget, account_here());
        Accounted { account, is_timed, overflows, most_boxes, head_start: None, outer: None, inherited: None }
    }
}

/// The options of a request, with its account.
pub(crate) struct Accounted {
    account: Option<Arc<Account>>,
    is_timed: bool,
    overflows: Option<Arc<dyn Overflows>>,
    most_boxes: Option<NonZeroUsize>,
    /// The head start that it has in place of the runtime's, in nanoseconds.
    head_start: Option<u64>,
    /// The request whose box has submitted it, and what comes from there.
    outer: Option<RequestId>,
    inherited: Option<Inherited>,
}

impl MachineRuntime {
    /// Submits an instance of a model as a request. Requests are numbered as they come; older ones go first.
    pub fn submit(&self, model: &Arc<Model>) -> Request {
        self.submit_with(model, Vec::new())
    }

    /// Submits an instance of a model, with operators of this request's own for some boxes.
    pub fn submit_with(&self, model: &Arc<Model>, operators: Vec<(BoxId, Box<dyn Operator>)>) -> Request {
        self.submit_within(model, operators, Budget::UNBOUNDED)
    }

    /// Like [`MachineRuntime::submit_with`]; the request fails when its boxes hold more than this (`Turn::book`): a
    /// number of bytes, or their share of a larger whole, or [`RequestOptions`] with such a budget.
    pub fn submit_within(
        &self,
        model: &Arc<Model>,
        operators: Vec<(BoxId, Box<dyn Operator>)>,
        options: impl Into<RequestOptions>,
    ) -> Request {
        submit_to(&self.shared, self.next_of(&self.shared.plan.entry), model, operators, options.into().accounted())
    }

    /// Submits a request to begin on a node, if the plan has an entry there.
    pub(crate) fn submit_near(&self, model: &Arc<Model>, node: NodeId) -> Request {
        let plan = &self.shared.plan;
        let is_near = |queue: &QueueId| plan.queues[queue.index()].home == node;
        let near: Vec<QueueId> = plan.entry.iter().copied().filter(is_near).collect();
        let entries = if near.is_empty() { &plan.entry } else { &near };
        submit_to(&self.shared, self.next_of(entries), model, Vec::new(), RequestOptions::default().accounted())
    }
}

fn submit_to(
    shared: &Arc<RuntimeState>,
    queue: QueueId,
    model: &Arc<Model>,
    operators: Vec<(BoxId, Box<dyn Operator>)>,
    accounted: Accounted,
) -> Request {
    let state = new_request(shared, model, operators, accounted);
    shared.keep(&state);
    let instance = &state.instance;
    let first = instance.start(None);
    if let Some(recording) = &shared.recording {
        recording.submitted(instance, first.index);
    }
    let queue = shared.front_for(instance).unwrap_or(queue);
    shared.put_into_entry(queue, first.queued.into_task());
    Request { shared: Arc::clone(shared), state }.nested()
}

/// Submits a request for the calling thread's box, and tells its result.
fn submit_inner(model: &Arc<Model>, operators: OwnOperators, inherited: Inherited, told: OnResult) {
    let (shared, id) = request_here().expect("a box runs on a seat, or on the thread of its caller");
    let shared = &shared;
    let queue = shared.next_of(&shared.plan.entry);
    // A long request does not become a young one by its parts, one after the other.
    let outer = shared.ongoing.boxes_of(id);
    let head_start = outer.as_ref().map(|outer| outer.instance.head_start());
    let options = RequestOptions::default().accounted();
    let accounted = Accounted { head_start, outer: Some(id), inherited: Some(inherited), ..options };
    let request = submit_to(shared, queue, model, operators, accounted);
    let state = Arc::clone(&request.state);
    request.when_done(move || {
        if let (Some(outer), Some(head_start)) = (outer, head_start) {
            outer.instance.spend_head_start(head_start.saturating_sub(state.instance.head_start()));
        }
        let result = state.lock().result.clone();
        told(result.expect("it is over"));
    });
}

/// A submitted instance. Dropping the handle lets it run on by itself.
///
/// A request submitted by a task or a box of another request is a part of that request: it is cancelled when the outer
/// one is cancelled or fails, and books its memory with the outer budget, beside its own.
///
/// ```
/// use std::sync::Arc;
/// use vicus_machine::{Cancelled, MachineRuntime, reserve};
///
/// let runtime = Arc::new(MachineRuntime::builder().threads(1).start());
/// let inner = Arc::clone(&runtime);
/// let request = runtime.spawn_within(1000, move || inner.spawn(|| reserve(2000).is_ok()).wait());
/// assert_eq!(request.wait(), Ok(Ok(false)));
/// ```
pub struct Request {
    pub(crate) shared: Arc<RuntimeState>,
    pub(crate) state: Arc<RequestState>,
}

impl Request {
    /// Its number; a smaller one is older and goes first.
    pub fn id(&self) -> u64 {
        self.state.instance.id().number()
    }

    /// The boxes holding memory now and their bytes, the largest first; and the tasks together.
    pub fn holders(&self) -> Vec<(String, u64)> {
        self.state.instance.holders()
    }

    /// Waits until the request is over. If a task of the same runtime calls it, its thread meanwhile runs tasks of the
    /// awaited request, on top of the waiting one, and immediate ones; under a strategy with one queue for both kinds,
    /// any.
    ///
    /// # Errors
    /// Why it has no result; see [`FlowError`].
    ///
    /// # Panics
    /// If requests would wait in a circle: this one for another with a task beneath the calling one on its stack, or
    /// through others.
    pub fn wait(&self) -> Result<Totals, FlowError> {
        let mut answer = self.state.lock();
        if answer.result.is_none() {
            let done = EndSignal::new();
            let theirs = Arc::clone(&done);
            answer.told.push(Box::new(move || theirs.set()));
            drop(answer);
            done.wait(runs_task_of(&self.shared).then(|| self.state.instance.id()));
            answer = self.state.lock();
        }
        answer.result.clone().expect("it is over")
    }

    /// Blocks the calling thread until the request is over, but no longer than this. `None`: it is not over yet. Called
    /// in a task, its thread runs nothing else meanwhile.
    pub fn wait_for(&self, at_most: Duration) -> Option<Result<Totals, FlowError>> {
        let waiting = self.state.done.wait_timeout_while(self.state.lock(), at_most, |answer| answer.result.is_none());
        waiting.expect("nothing panics under this lock").0.result.clone()
    }

    /// The work of each of its boxes so far, in the order of the model's boxes; exact when the request is over. Near
    /// counts stayed on a NUMA node, far counts went from one to another.
    ///
    /// ```
    /// # use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library};
    /// # let schema = Schema::new([("n", Type::U64)]);
    /// # let mut net = ModelBuilder::new("one envelope");
    /// # let source = net.source(library::source("source", &schema, || [Envelope::new([vec![1u64, 2, 3].into()])]));
    /// # net.end(source.output(0));
    /// # let model = net.build().unwrap();
    /// # let runtime = vicus_machine::MachineRuntime::builder().threads(1).start();
    /// let request = runtime.submit(&model); // as above, with three rows
    /// request.wait().unwrap();
    /// assert_eq!(request.counts()[source.index()].rows_sent(), 3);
    /// ```
    pub fn counts(&self) -> Vec<BoxCounts> {
        self.state.instance.counts()
    }

    /// The work of the boxes of fragments that have taken the place of [expandable](vicus_flow::BoxModel::expandable)
    /// boxes so far, by name.
    pub fn grown(&self) -> Vec<GrownBox> {
        self.state.instance.grown()
    }

    /// Its cost so far.
    pub fn totals(&self) -> Totals {
        self.state.instance.totals()
    }

    /// Whether it is over.
    pub fn is_done(&self) -> bool {
        self.state.lock().result.is_some()
    }

    /// Registers a function to be called at its end: by the ending thread, which does nothing else meanwhile, or at
    /// once if it is over. So the function should only pass a message.
    pub fn when_done(&self, tell: impl FnOnce() + Send + 'static) {
        let mut answer = self.state.lock();
        if answer.result.is_none() {
            answer.told.push(Box::new(tell));
            return;
        }
        drop(answer);
        tell();
    }

    /// Cancels it: no box of it is invoked any more. It is over when its running invocations have returned. Their tasks
    /// that have not begun are dropped, except those of [`join`](crate::join), whose results are needed; running ones
    /// may check [`is_cancelled`](crate::is_cancelled).
    pub fn cancel(&self) {
        self.shared.cancel(&self.state.instance);
        cancel_nested(&self.shared, self.state.instance.id());
    }

    /// If a task or a box submits it, it ends with their request.
    pub(crate) fn nested(self) -> Request {
        if let Some(within) = nest(&self.shared, self.state.instance.id()) {
            let mut answer = self.state.lock();
            if answer.result.is_none() {
                answer.within = Some(Box::new(within));
            }
        }
        self
    }
}

/// Builds a request that is yet to start.
pub(crate) fn new_request(
    shared: &RuntimeState,
    model: &Arc<Model>,
    operators: Vec<(BoxId, Box<dyn Operator>)>,
    Accounted { account, is_timed, overflows, most_boxes, head_start, outer, inherited }: Accounted,
) -> Arc<RequestState> {
    let id = outer.map_or_else(|| shared.ongoing.next_id(), |outer| shared.ongoing.next_id_within(outer));
    let instance = Instance::new(model, id, shared.plan.seats.len(), &BOX, operators);
    instance.set_account(account);
    instance.set_submits(submit_inner);
    instance.set_head_start(head_start.unwrap_or(shared.settings.head_start_ns));
    if is_timed {
        instance.set_timed();
    }
    if let Some(overflows) = overflows {
        instance.set_overflows(overflows);
    }
    if let Some(most) = most_boxes {
        instance.set_most_boxes(most);
    }
    if let Some(inherited) = inherited {
        instance.set_inherited(inherited);
    }
    Arc::new(RequestState::new(instance))
}

impl RuntimeState {
    /// Cancels a request of boxes, without the requests submitted by it.
    pub(crate) fn cancel(&self, instance: &Instance) {
        instance.fail(FlowError::Cancelled);
        self.sweep_boxes(instance, None);
        let outcome = self.settle(instance, None);
        if let (Some(outcome), Some(recording)) = (outcome, &self.recording) {
            recording.ended(instance, outcome);
        }
    }
}
