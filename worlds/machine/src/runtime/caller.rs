//! A request begun on its caller's thread.
//!
//! Waking a seat for a request, and then the caller for its answer, takes longer than a whole small request. So the
//! caller runs its boxes itself, one after the other, and wakes no thread. Boxes left after some time go to the seats,
//! as if the request had been submitted then, because the length of a request is not known beforehand.
//!
//! The caller sits on no seat. It has no queue open to thieves, and counts in the request's slot for callers. At most
//! as many callers as the runtime has threads do this at once; the requests of all other callers go to the seats at
//! once.

use crate::Request;
use crate::memory::allocator::column_block;
use crate::memory::heaps;
use crate::runtime::caller_here::{self, Here, Restore, RunsHere};
use crate::runtime::clock::now_ns;
use crate::runtime::handle::MachineRuntime;
use crate::runtime::recorder::Recording;
use crate::runtime::request::RequestOptions;
use crate::runtime::request::new_request;
use crate::runtime::requests::here::request_here;
use crate::runtime::requests::nested::cancel_nested;
use crate::runtime::requests::state::RequestState;
use crate::runtime::seatless;
use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::{is_seated, outside, runs_task_of};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use vicus_flow::{
    Activation, Blocks, BoxId, Entry, FlowError, Instance, Model, Operator, Queued, SeatBuffers, Settled, World,
    drop_quietly,
};
use vicus_schedule::{Kind, RequestId};
use vicus_topology::NodeId;

impl MachineRuntime {
    /// Submits a request expected to be short. The calling thread begins with it, and no other one is woken; the call
    /// returns when the request is over, or after a millisecond. The runtime's threads do the rest, and the request
    /// goes on like one of [`MachineRuntime::submit_within`].
    ///
    /// `gives_up` is called between two invocations on the calling thread, before each of their children, and each
    /// millisecond while a box there waits for tasks on the runtime's threads. Boxes and children call it when they
    /// check whether they are stopped ([`vicus_flow::Turn::is_stopped`], [`is_cancelled`](crate::is_cancelled)). When
    /// it returns true, the request is cancelled. Nothing else can end the call while an invocation is under way, so
    /// this is for requests of short invocations, and for boxes with such checks. A blocking box
    /// ([`vicus_flow::Turn::blocking`]) leaves the other boxes to the runtime's threads.
    ///
    /// The request goes to these threads at once in three cases: the caller is one of them, as many callers as there
    /// are threads do the same, or the runtime records events or decisions, since a trace shows the work of its seats.
    /// Counts of takes exclude the calling thread: it has one request, and takes from no queue.
    ///
    /// ```
    /// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library};
    /// use vicus_machine::MachineRuntime;
    ///
    /// let schema = Schema::new([("n", Type::U64)]);
    /// let mut net = ModelBuilder::new("one envelope");
    /// let source = net.source(library::source("source", &schema, || [Envelope::new([vec![1u64].into()])]));
    /// net.end(source.output(0));
    ///
    /// let runtime = MachineRuntime::builder().threads(2).start();
    /// let request = runtime.submit_here(&net.build().unwrap(), Vec::new(), 1 << 20, &|| false);
    /// assert!(request.wait().unwrap().tasks >= 3);
    /// ```
    pub fn submit_here(
        &self,
        model: &Arc<Model>,
        operators: Vec<(BoxId, Box<dyn Operator>)>,
        options: impl Into<RequestOptions>,
        gives_up: &dyn Fn() -> bool,
    ) -> Request {
        let shared = &self.shared;
        let is_of_seats = shared.recording.as_ref().is_some_and(Recording::is_of_seats);
        let place =
            if is_of_seats || runs_task_of(shared) { None } else { shared.system.callers.come(shared.plan.threads()) };
        let Some(_place) = place else { return self.submit_within(model, operators, options) };
        let state = new_request(shared, model, operators, options.into().accounted());
        let caller = Caller {
            shared,
            state: &state,
            slot: shared.plan.seats.len(),
            tasks: RefCell::default(),
            gives_up,
            outer: caller_here::here(),
            within: request_here(),
        };
        // Boxes here spawn into this runtime, even if the calling thread belongs to another one.
        let outer = Restore::begin(self, &caller);
        outside(|| caller.run());
        drop(outer);
        Request { shared: Arc::clone(shared), state }.nested()
    }

    /// The runtime of a thread without a seat: that of its running request.
    ///
    /// # Panics
    /// If it runs none.
    pub(crate) fn of_this_thread<'a>() -> &'a MachineRuntime {
        MachineRuntime::of_this_thread_or(MachineRuntime::of_no_thread)
    }

    /// The runtime of a thread without a seat, for the layer above: that of its running request, or the other one if it
    /// runs none. The reference is for a call that returns before that request's end.
    pub fn of_this_thread_or<'a>(other: fn() -> &'static MachineRuntime) -> &'a MachineRuntime {
        caller_here::runtime().unwrap_or_else(other)
    }

    /// Panics: the caller spawns outside of tasks and boxes.
    pub fn of_no_thread() -> &'static MachineRuntime {
        panic!("tasks are spawned in a task or a box of a runtime; Runtime::run makes one")
    }
}

/// Whether the calling thread runs a task or a box of a runtime: [`join`](crate::join), [`scope`](crate::scope) and
/// loops may be called.
///
/// ```
/// let runtime = vicus_machine::MachineRuntime::builder().threads(1).start();
/// assert!(runtime.run(vicus_machine::is_in_runtime));
/// assert!(!vicus_machine::is_in_runtime());
/// ```
#[inline]
pub fn is_in_runtime() -> bool {
    is_seated() || caller_here::runtime().is_some()
}

/// The boxes to be run by this caller.
#[derive(Default)]
struct Tasks {
    /// The youngest is run first.
    immediate: Vec<Queued>,
    /// The oldest is run first, when there is no immediate one.
    deferred: VecDeque<Queued>,
    /// The box with an invocation under way.
    running: Option<BoxId>,
}

impl Tasks {
    fn put(&mut self, activation: Activation) {
        match activation.kind {
            Kind::Immediate => self.immediate.push(activation.queued),
            Kind::Deferred => self.deferred.push_back(activation.queued),
        }
    }

    fn take(&mut self) -> Option<Queued> {
        let queued = self.immediate.pop().or_else(|| self.deferred.pop_front())?;
        self.running = Some(queued.index());
        Some(queued)
    }
}

/// A thread without a seat, running its request.
struct Caller<'a> {
    shared: &'a Arc<RuntimeState>,
    state: &'a Arc<RequestState>,
    /// The index to count by: the one after the last seat's. No other thread uses it before the request has a handle.
    slot: usize,
    tasks: RefCell<Tasks>,
    gives_up: &'a dyn Fn() -> bool,
    /// The request beneath this one on the thread's stack.
    outer: Here,
    /// The request of the task or box that has submitted this one: in a runtime of the calling thread's seat, or the
    /// one beneath.
    within: Option<(Arc<RuntimeState>, RequestId)>,
}

impl Caller<'_> {
    /// Whether the request was cancelled or has failed. Asks whether the caller gives up, and cancels it then.
    ///
    /// # Errors
    /// The question panicked, and the request goes on.
    fn check_given_up(&self) -> thread::Result<bool> {
        if self.instance().has_failed() {
            return Ok(true);
        }
        let is_given_up = catch_unwind(AssertUnwindSafe(|| {
            // The question is the caller's: if it asks whether its own task is cancelled, this is about the request
            // beneath.
            let _inner = Restore::before(self.outer);
            (self.gives_up)()
                || caller_here::is_given_up()
                || self.within.as_ref().is_some_and(|(shared, id)| shared.ongoing.stopped.has(*id))
        }))?;
        if is_given_up {
            self.instance().fail(FlowError::Cancelled);
            self.sweep();
        }
        Ok(is_given_up)
    }

    /// The request has stopped: takes its boxes from the seats, and stops their tasks.
    fn sweep(&self) {
        if self.state.is_known() {
            return self.shared.sweep(self.instance(), Some(self.slot));
        }
        self.instance().discard_paused(Some(self.slot));
        if self.instance().has_failed() {
            cancel_nested(self.shared, self.instance().id());
        }
    }

    /// The entry for boxes resumed from outside: the seats, which then may end the request.
    fn entry(&self) -> Entry {
        let (state, entry) = (Arc::clone(self.state), Arc::clone(&self.shared.queued.entry));
        let shared = Arc::downgrade(self.shared);
        Arc::new(move |queued| {
            if let Some(shared) = shared.upgrade() {
                shared.keep(&state);
            }
            entry(queued);
        })
    }

    fn run(&self) {
        let instance = self.instance();
        let seat = Some(self.slot);
        self.tasks.borrow_mut().put(self.state.instance.start(seat));
        let node = heaps::process().map_or(NodeId::default(), heaps::node_of_thread);
        let entry = Some(self.entry());
        let (blocks, now_ns) = (Blocks::of(column_block), Some(now_ns as fn() -> u64));
        let mut buffers = SeatBuffers { node, blocks, asks_world: true, now_ns, entry, seat, ..SeatBuffers::default() };
        // A time beyond the clock's range is no limit.
        let until = Instant::now().checked_add(self.shared.settings.caller_works);
        loop {
            // As in a worker: a panic outside of an invocation's own catch fails the request.
            while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run_until(until, &mut buffers))) {
                let Some(index) = self.tasks.borrow_mut().running.take() else { resume_unwind(panic) };
                instance.abandon(index, seat, panic);
                self.sweep();
                buffers.activations.clear();
            }
            heaps::finish_task();
            return match instance.settle(seat) {
                Some(Settled::GoesOn(activation)) => {
                    self.tasks.borrow_mut().put(activation);
                    continue;
                }
                Some(Settled::Over(result)) => {
                    self.shared.cancel_inner_of_stalled(instance, &result);
                    match self.state.is_known() {
                        true => self.shared.done(instance.id(), result),
                        false => self.state.set(result),
                    }
                }
                // Seats have the rest of it, or a box of it is paused.
                None => self.shared.keep(self.state),
            };
        }
    }

    /// Runs boxes until there are none, or until it is late: the remaining ones go to the seats.
    fn run_until(&self, until: Option<Instant>, buffers: &mut SeatBuffers) {
        let instance = self.instance();
        loop {
            let Some(queued) = self.tasks.borrow_mut().take() else { return };
            let stage = instance.stage();
            self.run_box(queued, buffers);
            self.tasks.borrow_mut().running = None;
            if instance.stage() != stage {
                self.sweep();
            }
            let goes_on = !instance.is_stopped() && !self.check_given_up().unwrap_or_else(|panic| resume_unwind(panic));
            if goes_on && until.is_some_and(|until| Instant::now() >= until) {
                return self.leave_to_seats();
            }
        }
    }

    fn run_box(&self, queued: Queued, buffers: &mut SeatBuffers) {
        self.instance().count_taken(self.slot, 0, false);
        if !queued.is_wanted() {
            return queued.discard(Some(self.slot));
        }
        let index = queued.index();
        let mut running = queued.begin(buffers);
        if running.is_due()
            && let Some(panic) = seatless::act(|| running.act(self, buffers))
        {
            self.instance().fail_by(index, panic);
        }
        running.send(buffers).finish(buffers);
        let mut tasks = self.tasks.borrow_mut();
        buffers.activations.drain(..).for_each(|activation| tasks.put(activation));
    }

    /// The request is longer than expected, or its box is about to block: its other boxes go to the seats.
    #[cold]
    #[inline(never)]
    fn leave_to_seats(&self) {
        let mut tasks = self.tasks.borrow_mut();
        let left: Vec<Queued> = tasks.deferred.drain(..).collect();
        let left = left.into_iter().chain(tasks.immediate.drain(..));
        for queued in left {
            self.shared.keep(self.state);
            self.shared.put_at_entry(queued);
        }
    }
}

impl RunsHere for Caller<'_> {
    fn shared(&self) -> &Arc<RuntimeState> {
        self.shared
    }

    fn instance(&self) -> &Instance {
        &self.state.instance
    }

    /// Like [`Caller::check_given_up`], while a box runs: a panic of the question fails the request. It does not unwind
    /// tasks.
    fn is_given_up(&self) -> bool {
        self.check_given_up().unwrap_or_else(|panic| {
            let running = self.tasks.borrow().running;
            match running {
                Some(index) => self.instance().fail_by(index, panic),
                // The box is being dropped at the end of its request.
                None => drop_quietly(panic),
            }
            self.sweep();
            true
        })
    }
}

impl World for Caller<'_> {
    fn blocking(&self, section: &mut dyn FnMut()) {
        self.leave_to_seats();
        section();
    }

    fn is_over(&self) -> bool {
        self.is_given_up()
    }
}
