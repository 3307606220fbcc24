//! Runs a box on a worker: begin, act, send, finish; and queues its activated boxes.

use crate::memory::heaps;
use crate::runtime::clock::worked_ns;
use crate::runtime::lending::lend_here;
use crate::runtime::recorder::{SeatRecorder, name_of};
use crate::runtime::requests::nested::cancel_nested;
use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::context::wait_for_descendants;
use crate::runtime::worker::{Worker, in_task, outside, with_shared};
use std::any::Any;
use std::sync::Arc;
use vicus_flow::{
    Activation, BoxId, FlowError, Instance, Queued, SeatBuffers, Settled, World, box_class, drop_quietly,
};
use vicus_schedule::{ActivatedBox, Dealing, Decision, Kind, QueueId, RequestId, Shares, TaskClass, TaskRef};
use vicus_topology::NodeId;
use vicus_trace::RequestOutcome;

/// The boxes of this world.
pub(crate) static BOX: TaskClass = box_class(run);

/// Runs a box.
#[expect(unsafe_code, reason = "the type of a class's functions")]
// SAFETY of callers: `task` is from `Queued::into_task`, and was taken out of its queue once; this is a seat.
unsafe fn run(task: TaskRef) {
    // SAFETY: the caller's promise.
    run_box(unsafe { Queued::from_task(task) });
}

fn run_box(queued: Queued) {
    if !in_task(|worker| worker.is_at(queued.request())) {
        enter(&queued);
    }
    let (buffers, seat) = in_task(|worker| worker.start(&queued));
    match buffers {
        Some(buffers) => invoke(queued, buffers),
        None => queued.discard(Some(seat)),
    }
    heaps::finish_task();
}

/// Begin, act, send, finish. The box's request is the seat's current one.
#[inline]
fn invoke(queued: Queued, mut buffers: Box<SeatBuffers>) {
    let index = queued.index();
    // Recording does not change during a runtime's life.
    let is_recorded = in_task(|worker| worker.recorder.is_on());
    let stage = queued.instance().stage();
    let began_ns = (queued.instance().has_head_start() && !buffers.spreads).then(worked_ns);
    // A user's destructors running there are no part of a task.
    let mut running = outside(|| queued.begin(&mut buffers));
    if is_recorded {
        record(|recorder, instance| recorder.invocation_begins(instance, index, &mut buffers));
    }
    if running.is_due() {
        if is_recorded {
            record(|recorder, instance| recorder.act_begins(instance, index));
        }
        running.act(&Neighbourhood, &mut buffers);
        if in_task(|worker| worker.frame.context.is_some()) {
            wait_for_tasks(index);
        }
        if is_recorded {
            record(|recorder, instance| recorder.act_ends(instance, index, &mut buffers));
        }
    }
    if is_recorded {
        let sent = outside(|| running.send(&mut buffers));
        record(|recorder, instance| recorder.invocation_ends(instance, index, &mut buffers));
        outside(|| sent.finish(&mut buffers));
    } else {
        outside(|| running.send(&mut buffers).finish(&mut buffers));
    }
    if let Some(began_ns) = began_ns {
        in_task(|worker| worker.spend_head_start(worked_ns().saturating_sub(began_ns)));
    }
    // Usually no tasks are left behind, and then no queue has to be searched.
    if in_task(|worker| worker.end(buffers, index, stage)) {
        let seat = in_task(|worker| worker.seat_id.index());
        in_request(|instance| with_shared(|shared| shared.sweep(instance, Some(seat))));
    }
}

/// A box waits for its spawned tasks. If it has failed, those that have not begun are dropped.
#[cold]
fn wait_for_tasks(index: BoxId) {
    in_request(|instance| with_shared(|shared| shared.stop_tasks(instance)));
    if let Some(panic) = wait_for_descendants() {
        in_request(|instance| outside(|| instance.fail_by(index, panic)));
    }
}

/// Records an event of the current request.
#[cold]
fn record(f: impl FnOnce(&mut SeatRecorder, &Instance)) {
    in_task(|worker| {
        let Worker { frame, recorder, .. } = worker;
        f(recorder, frame.current.as_ref().expect("the seat is at the box's request"));
    });
}

/// Calls `f` with the current request; `f` may run a user's code.
#[cold]
fn in_request<R>(f: impl FnOnce(&Instance) -> R) -> R {
    let current = in_task(|worker| worker.frame.current.clone());
    f(&current.expect("the seat is at the box's request"))
}

/// The runtime's own code panicked in a box's invocation: the request fails, and the thread goes on. Boxes activated
/// and not queued yet are dropped, since the request has stopped.
#[cold]
pub(crate) fn recover(panic: Box<dyn Any + Send>) {
    let (running, seat) = in_task(|worker| (worker.frame.running.take(), worker.seat_id.index()));
    let Some(index) = running else { std::panic::resume_unwind(panic) };
    in_request(|instance| {
        instance.abandon(index, Some(seat), panic);
        with_shared(|shared| shared.sweep(instance, Some(seat)));
    });
    heaps::finish_task();
}

/// Makes a box's request the current one.
#[cold]
fn enter(queued: &Queued) {
    leave();
    let instance = queued.share();
    in_task(|worker| worker.frame.current = Some(instance));
}

/// Leaves the current request. If this seat ran its last task, the request is over.
#[inline]
pub(crate) fn leave() {
    if let Some(instance) = in_task(|worker| worker.frame.current.take()) {
        end_if_last(instance);
    }
}

/// The seat has turned away from this request. If it ran the last task, the request is over.
#[cold]
pub(crate) fn end_if_last(instance: Arc<Instance>) {
    // Memory freed at its end is counted as freed now, not when this thread last slept.
    heaps::tick();
    let seat = in_task(|worker| worker.seat_id.index());
    let outcome = with_shared(|shared| outside(|| shared.settle(&instance, Some(seat))));
    if let Some(outcome) = outcome {
        in_task(|worker| worker.recorder.request_ended(&instance, outcome));
    }
    outside(|| drop_quietly(instance));
}

/// Drops the boxes of stopped requests from this seat's own queue.
#[cold]
pub(crate) fn sweep_boxes() {
    for queued in in_task(Worker::take_unwanted) {
        enter(&queued);
        queued.discard(Some(in_task(|worker| worker.seat_id.index())));
    }
}

impl Worker {
    /// Whether this is the current request.
    #[inline]
    fn is_at(&self, request: RequestId) -> bool {
        self.frame.current.as_ref().is_some_and(|current| current.id() == request)
    }

    /// Whether there is a current request, and another one.
    #[inline]
    pub(crate) fn is_at_other(&self, request: RequestId) -> bool {
        self.frame.current.as_ref().is_some_and(|current| current.id() != request)
    }

    /// A box of the current request was taken out of its queue. Returns the buffers for its invocation, unless the
    /// request no longer needs the box, and the index this seat counts by.
    #[inline]
    fn start(&mut self, queued: &Queued) -> (Option<Box<SeatBuffers>>, usize) {
        let (instance, index, way) = (queued.instance(), queued.index(), self.frame.way);
        let seat = self.seat_id.index();
        let far = way.queue().is_some_and(|queue| self.is_far(queue));
        instance.count_taken(seat, way.rule(), far);
        self.recorder.taken(instance, index, way, far);
        if !queued.is_wanted() {
            return (None, seat);
        }
        self.frame.request = instance.id();
        self.frame.running = Some(index);
        // Its operator may wait for tasks, and other boxes running meanwhile need buffers of their own.
        let mut buffers = self.supplies.buffers.take().unwrap_or_else(|| self.new_buffers());
        buffers.clock = self.recorder.clock();
        buffers.spreads = self.shared.ongoing.is_alone(instance.id());
        (Some(buffers), seat)
    }

    /// Charges the time of an invocation to its request's head start, if other requests run beside it.
    fn spend_head_start(&mut self, ns: u64) {
        self.frame.current.as_ref().expect("the seat is at the box's request").spend_head_start(ns);
        if self.frame.way.queue().is_some_and(|queue| self.shared.plan.front() == Some(queue)) {
            self.seat.worked_at_front(ns);
        }
    }

    /// An invocation is over: queues its activated boxes. Returns whether its request has stopped meanwhile and has
    /// left tasks behind.
    #[inline]
    fn end(&mut self, mut buffers: Box<SeatBuffers>, index: BoxId, stage: u8) -> bool {
        self.frame.running = None;
        let current = self.frame.current.as_ref();
        match current.and_then(|instance| self.shared.front_for(instance)) {
            Some(front) => self.queue_all_at(front, &mut buffers.activations, index),
            None => self.queue_all(&mut buffers.activations, index),
        }
        self.supplies.buffers = Some(buffers);
        let instance = self.frame.current.as_ref().expect("the seat is at the box's request");
        instance.stage() != stage && instance.unfinished() > 0
    }

    /// Takes the boxes of stopped requests out of the seat's own queues.
    fn take_unwanted(&mut self) -> Vec<Queued> {
        let shared = Arc::clone(&self.shared);
        let mut all = Vec::new();
        for deque in shared.queued.queues.own(self.seat_id) {
            let tasks = std::iter::from_fn(|| deque.pop());
            #[expect(unsafe_code, reason = "asks what a task is")]
            // SAFETY: it was taken out and has not been run.
            let (unwanted, kept): (Vec<_>, Vec<_>) = tasks.partition(|task| unsafe { task.is_unwanted() });
            for task in kept.into_iter().rev() {
                if let Err(task) = deque.push(task) {
                    self.seat.keep(task);
                }
            }
            deque.share(true);
            #[expect(unsafe_code, reason = "a task is a value again")]
            // SAFETY: only boxes are ever unwanted; `queue_all` put them there, and they were taken out above.
            all.extend(unwanted.into_iter().map(|task| unsafe { Queued::from_task(task) }));
        }
        all
    }

    /// Queues the boxes activated by the last invocation, and wakes one sleeper for each but the last immediate one:
    /// this one is the seat's own next task (the plan's first probe), and a thread woken for it could only take it away
    /// from its rows.
    fn queue_all(&mut self, activations: &mut Vec<Activation>, by: BoxId) {
        // The first one is taken first, and usually it is the only one; a drain would cost more for it than the pop.
        activations.reverse();
        while let Some(activation) = activations.pop() {
            let Activation { queued, kind, index, home } = activation;
            let elsewhere = self.deal_box(&queued, kind, home);
            self.recorder.enqueued(
                queued.instance(),
                index,
                if elsewhere.is_some() { Kind::Deferred } else { kind },
                by,
            );
            let (plan, task) = (&self.shared.plan, queued.into_task());
            let put = self.seat.activated(plan, task, kind, elsewhere, activations.is_empty());
            if self.recorder.is_on() && put.is_none_or(|(other, ..)| other != task) {
                self.recorder.record_decision(|| Decision::Next(name_of(task)));
            }
            if let Some((task, queue, kind)) = put {
                self.put(task, queue, kind).assert_none();
            }
        }
    }

    /// Like [`Worker::queue_all`], for a request that goes before others. The last immediate box is this seat's own
    /// next task here, too: in the front it is the youngest of its request.
    fn queue_all_at(&mut self, front: QueueId, activations: &mut Vec<Activation>, by: BoxId) {
        activations.reverse();
        while let Some(Activation { queued, kind, index, .. }) = activations.pop() {
            self.recorder.enqueued(queued.instance(), index, Kind::Deferred, by);
            let stays = kind == Kind::Immediate && activations.is_empty() && self.seat.waits_for().is_none();
            let task = queued.into_task();
            if stays {
                self.put_quietly(task, front);
            } else {
                self.put(task, front, Kind::Deferred).assert_none();
            }
        }
    }

    /// The queue of a box, if it is not the seat's own. The box is dealt by its inputs' heads, by the nodes of their
    /// senders. An envelope lies in one place, like memory of the distribution `coarse`. Only its node is known: among
    /// the caches there, a box is always dealt to the same one, the cache of its state.
    #[inline]
    fn deal_box(&mut self, queued: &Queued, kind: Kind, home: Option<NodeId>) -> Option<QueueId> {
        let index = queued.index().index();
        let heads = |dealing: &Dealing, shares: &mut Shares| {
            shares.clear();
            queued.heads(|node, bytes| shares.add(dealing, node, index, bytes));
            dealing.deal_shares(shares)
        };
        let activated = ActivatedBox { request: queued.request(), index, kind, home };
        let dealt = self.seat.deal_box(&self.shared.plan, &activated, heads);
        if self.recorder.keeps_events() {
            self.recorder
                .dealt(vicus_trace::JobId { request: queued.request().number() as u32, index: index as u32 }, &dealt);
        }
        dealt.queue
    }
}

/// A box's view of the world: its seat's.
struct Neighbourhood;

impl World for Neighbourhood {
    fn blocking(&self, section: &mut dyn FnMut()) {
        // The calling thread runs the box: this value does not leave the thread.
        let _lent = lend_here();
        section();
    }
}

impl RuntimeState {
    /// Settles a request without further tasks, and wakes the threads waiting for it. If its boxes wait for each other,
    /// the one that may go on is queued. `seat`: the index that the caller counts by.
    pub(crate) fn settle(&self, instance: &Instance, seat: Option<usize>) -> Option<RequestOutcome> {
        let result = match instance.settle(seat)? {
            Settled::Over(result) => {
                self.cancel_inner_of_stalled(instance, &result);
                if let Some(recording) = &self.recording {
                    recording.grew(instance);
                }
                result
            }
            Settled::GoesOn(activation) => {
                self.enter(activation.queued);
                return None;
            }
        };
        let outcome = match result {
            Ok(_) => RequestOutcome::Done,
            Err(FlowError::Cancelled) => RequestOutcome::Cancelled,
            Err(_) => RequestOutcome::Failed,
        };
        self.done(instance.id(), result);
        Some(outcome)
    }

    /// A request whose boxes wait for each other may have failed while others of its boxes wait for requests of their
    /// own. Any other failure has cancelled these when it came.
    pub(crate) fn cancel_inner_of_stalled<T>(&self, instance: &Instance, result: &Result<T, FlowError>) {
        if matches!(result, Err(FlowError::Stalled { .. })) {
            cancel_nested(self, instance.id());
        }
    }
}
