//! One invocation of a box: begin, act, send, finish.

use crate::instance::{Body, BoxCell, Input, InputView, Instance};
use crate::queued::CellRef;
use crate::seat_buffers::{Activation, Fact, SeatBuffers};
use crate::state::Sending;
use crate::sync::{Ordering, fence};
use crate::{BoxId, Envelope, Operator, Turn, World};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use vicus_schedule::Kind;

/// A running box. The value is the evidence that no other seat runs it. If the value is neither finished nor abandoned
/// ([`Instance::abandon`]), the request does not end.
#[must_use = "its request does not end before the invocation does"]
pub struct Running {
    cell: CellRef,
    /// [`RUN_DUE`] and [`RUN_BLOCKED`]. In one byte, so the value is passed in registers: this is done in each
    /// invocation, and two bytes written separately and read as one would delay each other.
    flags: u8,
}

/// User code is to be run, or was to be run.
const RUN_DUE: u8 = 1;
/// Some of its envelopes still wait.
const RUN_BLOCKED: u8 = 2;

/// A running box after it has sent its envelopes.
#[must_use = "its request does not end before the invocation does"]
pub struct Sent(Running);

impl Running {
    /// See [`Queued::begin`](crate::Queued::begin), the source of the cell.
    #[inline]
    pub(crate) fn begin(cell: CellRef, buffers: &mut SeatBuffers) -> Running {
        let mut running = Running { cell, flags: 0 };
        running.take_snapshot(buffers);
        running
    }

    fn take_snapshot(&mut self, buffers: &mut SeatBuffers) {
        let own = self.cell;
        let cell: &BoxCell = &own;
        let instance = cell.instance();
        self.flags = if cell.state.begin() { RUN_DUE } else { 0 };
        if buffers.recording {
            buffers.clock = buffers.clock.max(cell.clock.load(Ordering::Acquire));
        }
        self.with_body(|body, due| {
            let has_ended = instance.has_ended();
            if has_ended {
                instance.guarded(cell.index, || body.drop_pending(buffers));
            }
            let blocked = body.may_wait && {
                let goes_round = instance.grows() && !body.retired && !has_ended;
                let (refused, was_lent) =
                    if goes_round { (body.refused_rounds(), body.was_lent_for_rounds()) } else { (0, false) };
                body.note_overdrafts(buffers);
                let all = instance.flush(cell, body, buffers);
                if goes_round && (was_lent || body.refused_rounds() < refused) {
                    // Its code has seen no room there, and has not asked to run again.
                    body.run_again = true;
                    *due = true;
                }
                !all && body.is_held_up()
            };
            body.look_at_readers(cell);
            let mut sees = cell.inputs.is_empty();
            for (seen, input) in body.now.snapshot.iter_mut().zip(&cell.inputs) {
                if input.ring.is_closed() {
                    instance.drop_late(cell, input);
                } else {
                    input.begin();
                }
                *seen = if input.ring.is_empty() { InputView::Nothing } else { InputView::Head };
                sees |= *seen == InputView::Head;
            }
            body.now.begin();
            if !blocked {
                // The invocation under way may have consumed the arrival: then there is nothing to do. A retired box,
                // or one of an ended request, is run only if it has sent its pills and asked for it.
                let again = std::mem::take(&mut body.run_again);
                *due &= again || (sees && !body.retired && !has_ended);
            }
            blocked
        });
    }
}

impl Body {
    /// The heads seen by an action, as facts in case it takes them.
    fn heads(&self, cell: &BoxCell) -> Vec<(usize, Fact)> {
        let seen = (0..cell.inputs.len()).filter(|&input| self.now.snapshot[input] == InputView::Head);
        let heads = seen.filter_map(|input| Some((input, cell.inputs[input].ring.head()?)));
        let fact = |(input, head): (usize, &Envelope)| {
            (input, Fact::Received { input, rows: head.rows(), pill: head.is_pill(), stamp: head.stamp() })
        };
        heads.map(fact).collect()
    }

    /// Records the heads taken and the heads left. A head of a closed input is neither.
    fn note_heads(&mut self, heads: Vec<(usize, Fact)>, buffers: &mut SeatBuffers) {
        for (input, received) in heads {
            match self.now.snapshot[input] {
                seen @ (InputView::Taken | InputView::Kept) => {
                    self.left[input] = false;
                    buffers.note(received);
                    if seen == InputView::Kept {
                        buffers.note(Fact::Kept { input });
                    }
                }
                InputView::Head if !std::mem::replace(&mut self.left[input], true) => {
                    buffers.note(Fact::Left { input })
                }
                InputView::Head | InputView::Nothing => {}
            }
        }
    }

    /// Records the overdrafts that its vias have got since its last run.
    #[cold]
    fn note_overdrafts(&mut self, buffers: &mut SeatBuffers) {
        for (output, out) in self.outputs.iter_mut().enumerate() {
            if let Some(bytes) = out.lent.take().filter(|_| buffers.recording) {
                buffers.note(Fact::Overdrawn { output, bytes });
            }
        }
    }

    /// The request has ended: refused envelopes are not needed any more.
    #[cold]
    #[inline(never)]
    fn drop_pending(&mut self, buffers: &mut SeatBuffers) {
        for (index, output) in self.outputs.iter_mut().enumerate() {
            output.receivers.iter_mut().for_each(|receiver| drop(receiver.clear()));
            if std::mem::take(&mut output.noted) {
                buffers.note(Fact::Resumed { output: index });
            }
        }
    }

    /// Takes note of the readers that accept no more. A box whose readers have all closed is not run any more, and
    /// closes its own inputs: so an early stop travels upstream. But a box that has sent its pills and asked to run
    /// again does so.
    #[inline]
    fn look_at_readers(&mut self, cell: &BoxCell) {
        let mut is_unread = !self.outputs.is_empty();
        for receiver in self.outputs.iter_mut().flat_map(|output| &mut output.receivers) {
            if receiver.closed {
                continue;
            }
            // Envelopes refused by a closing receiver were dropped in `flush`, or will be when it resumes the box.
            if receiver.done || !receiver.ring().is_closed() || receiver.waits() {
                is_unread = false;
            } else {
                receiver.closed = true;
                self.ends = true;
            }
        }
        if is_unread && !self.retired {
            self.retire(cell);
        }
    }

    #[cold]
    #[inline(never)]
    fn retire(&mut self, cell: &BoxCell) {
        self.retired = true;
        self.run_again &= !self.owes_pills();
        for input in &cell.inputs {
            self.ends = true;
            if input.close() {
                self.now.resumed.extend(input.sender());
            }
        }
        if !self.run_again {
            // Others may wait for its end, such as the sender of rows in another process.
            let operator = std::mem::replace(&mut self.operator, std::boxed::Box::new(Absent));
            cell.instance().guarded(cell.index, || drop(operator));
        }
    }
}

impl Running {
    /// Whether user code is to be run: an envelope arrived or the box asked for it, and none of its envelopes still
    /// waits.
    pub fn is_due(&self) -> bool {
        self.flags & (RUN_DUE | RUN_BLOCKED) == RUN_DUE
    }

    /// Whether it is one of this instance's.
    pub(crate) fn is_of(&self, instance: &Instance) -> bool {
        std::ptr::eq(self.cell.instance(), instance)
    }

    /// The box's index.
    pub fn index(&self) -> BoxId {
        BoxId(self.cell.index)
    }

    /// The rows and the bytes of the envelopes that the user's code has made, and that are not sent yet.
    pub(crate) fn made(&mut self) -> (usize, u64) {
        let mut made = (0, 0);
        self.with_body(|body, _| {
            for (_, envelope) in &body.now.outbox {
                made.0 += envelope.rows();
                made.1 += envelope.bytes();
            }
            false
        });
        made
    }

    /// `f` gets the body and `due`. It returns whether the box is blocked.
    #[inline]
    fn with_body(&mut self, f: impl FnOnce(&mut Body, &mut bool) -> bool) {
        let own = self.cell;
        let cell: &BoxCell = &own;
        cell.body.with_mut(|body| {
            #[expect(unsafe_code, reason = "the runner owns the body")]
            // SAFETY: `self` is the evidence that the state word is Running, set by one runner at a time; the previous
            // runner's writes are visible through the state word's acquire and release.
            let body = unsafe { &mut *body };
            let mut due = self.flags & RUN_DUE != 0;
            let blocked = f(body, &mut due);
            self.flags =
                self.flags & RUN_BLOCKED | if due { RUN_DUE } else { 0 } | if blocked { RUN_BLOCKED } else { 0 };
        });
    }

    /// Resumes the senders that were refused while this invocation took from their inputs.
    #[cold]
    #[inline(never)]
    fn resume_refused(&mut self, buffers: &mut SeatBuffers) {
        let own = self.cell;
        let cell: &BoxCell = &own;
        self.with_body(|body, _| {
            for (seen, input) in body.now.snapshot.iter().zip(&cell.inputs) {
                if matches!(seen, InputView::Taken | InputView::Kept)
                    && input.ring.takes_refusal()
                    && let Some(sender) = input.sender()
                {
                    cell.instance().resume(&sender, buffers);
                }
            }
            false
        });
    }

    /// Runs the user's code. An error or a panic fails the request.
    pub fn act(&mut self, world: &dyn World, buffers: &mut SeatBuffers) {
        let own = self.cell;
        let cell: &BoxCell = &own;
        let instance = cell.instance();
        instance.count_act(buffers.seat);
        self.with_body(|body, due| {
            debug_assert!(*due, "user code is run when it is due, and once");
            *due = false;
            let heads = if buffers.recording { body.heads(cell) } else { Vec::new() };
            let mut operator: std::boxed::Box<dyn Operator> =
                std::mem::replace(&mut body.operator, std::boxed::Box::new(Absent));
            body.any_room = false;
            cell.tally().acted();
            let before = if buffers.recording { cell.tally().bytes() } else { (0, 0) };
            let SeatBuffers { node, blocks, asks_world, .. } = *buffers;
            let entry = buffers.entry.as_ref();
            let held = Cell::new(None);
            let mut turn = Turn { cell, body, world, instance, node, blocks, asks_world, entry, held };
            let now = buffers.now_ns.filter(|_| instance.is_timed());
            let began = now.map(|now| now());
            let done = catch_unwind(AssertUnwindSafe(|| operator.act(&mut turn)));
            if let (Some(now), Some(began)) = (now, began) {
                cell.tally().busy(now().saturating_sub(began));
            }
            let held = turn.held.get();
            body.operator = operator;
            if buffers.recording {
                body.note_heads(heads, buffers);
                let (near, far) = cell.tally().bytes();
                let (near, far) = (near - before.0, far - before.1);
                if near + far > 0 {
                    buffers.note(Fact::Read { near, far });
                }
            }
            if let Some(bytes) = held.filter(|&bytes| bytes != body.held) {
                body.held = bytes;
                if buffers.recording {
                    buffers.note(Fact::Held { bytes });
                }
            }
            match done {
                Ok(Ok(())) => {
                    if let Some(growing) = body.now.growing.take() {
                        instance.grow_guarded(cell, body, *growing, buffers.recording);
                    }
                }
                Ok(Err(error)) => instance.fail(instance.gave_up(cell.index, error)),
                Err(panic) => instance.fail_by(BoxId(cell.index), panic),
            }
            false
        });
    }

    /// Sends the action's envelopes, and resumes senders with new room. Receivers to be queued are left in
    /// `buffers.activations`.
    pub fn send(mut self, buffers: &mut SeatBuffers) -> Sent {
        let own = self.cell;
        let cell: &BoxCell = &own;
        let instance = cell.instance();
        if instance.has_failed() {
            // The box is not run any more; its values are dropped with the instance.
            return Sent(self);
        }
        self.with_body(|body, _| {
            let mut blocked = false;
            if instance.has_ended() {
                instance.drop_sent(cell, body);
            }
            if !body.now.outbox.is_empty() {
                blocked = !instance.deliver(cell, body, buffers) && body.is_held_up();
                if body.ends {
                    body.look_at_readers(cell);
                }
            }
            for sender in body.now.resumed.drain(..) {
                instance.resume(&sender, buffers);
            }
            if body.now.ended {
                instance
                    .end(|wanted| buffers.activations.push(instance.activation(wanted, Kind::Deferred, buffers.seat)));
                instance.discard_paused(buffers.seat);
            }
            blocked
        });
        Sent(self)
    }
}

impl Sent {
    /// The box's index.
    pub fn index(&self) -> BoxId {
        self.0.index()
    }

    /// Ends the invocation: from here on another seat may run the box. If it has to be queued again, it is put into
    /// `buffers.activations` before all others: the youngest task is run next, to be a receiver of its rows.
    ///
    /// Unless the caller has its own reference to the instance, the instance may be gone after this call; with one, the
    /// caller settles the request if this was the last task.
    pub fn finish(self, buffers: &mut SeatBuffers) {
        let mut running = self.0;
        let own = running.cell;
        let cell: &BoxCell = &own;
        let instance = cell.instance();
        // User code left unrun while some envelopes still wait stays due.
        let mut due_again = running.flags & RUN_DUE != 0;
        let (mut run_again, mut after_end, mut pauses, mut waits) = (false, false, false, false);
        running.with_body(|body, _| {
            run_again = body.run_again;
            after_end = run_again && !body.owes_pills();
            pauses = std::mem::take(&mut body.now.pauses);
            due_again |= run_again | pauses;
            if !body.retired {
                due_again |= body.now.consumed && cell.inputs.iter().any(|input| !input.is_empty());
            }
            waits = body.waits();
            if body.ends && instance.grows() {
                instance.let_go(cell, body, due_again);
            }
            false
        });
        if buffers.recording {
            cell.clock.fetch_max(buffers.clock, Ordering::AcqRel);
        }
        if buffers.spreads && buffers.activations.len() > 1 {
            spread(&mut buffers.activations);
        }
        // A paused box is queued, so only as a blocked one it is invoked when its receiver has room.
        let blocked = running.flags & RUN_BLOCKED != 0 || (waits && pauses);
        let sending = match (blocked, waits) {
            (true, _) => Sending::Blocked,
            // Marked as neither, a box would never try again to send the waiting envelopes.
            (false, true) => Sending::Waits,
            (false, false) => Sending::Done,
        };
        if sending != Sending::Done {
            instance.note_refusal();
        }
        // A receiver may resume the box as soon as it is marked as blocked, and then it may run, end and be freed.
        let is_held = blocked && instance.grows();
        if is_held {
            cell.handles.fetch_add(1, Ordering::Relaxed);
        }
        let mut enqueue = cell.state.finish_as(sending, due_again, after_end, || running.resume_refused(buffers)).0;
        if blocked && !enqueue {
            enqueue = instance.is_resumed_by_the_end(cell);
        }
        if is_held {
            // Release: the cell is freed after this. If the box is to be queued, it is not freed before it runs.
            cell.handles.fetch_sub(1, Ordering::Release);
        }
        if enqueue && (!instance.is_stopped() || (after_end && !instance.has_failed())) {
            // Its receiver had room again before the box was marked as blocked or waiting. It goes on with the rest of
            // its input on its last seat.
            let was_resumed = blocked || (waits && !due_again);
            let kind = if run_again || was_resumed { Kind::Deferred } else { Kind::Immediate };
            let activation = instance.activation(cell, kind, buffers.seat);
            let activation = if pauses { pause(cell, activation, instance) } else { Some(activation) };
            if let Some(activation) = activation {
                buffers.activations.insert(0, activation);
            }
        }
        // The immediate one comes last, to be this seat's next.
        if buffers.activations.len() > 1 {
            buffers.activations.sort_by_key(|activation| activation.kind == Kind::Immediate);
        }
        instance.count_finished(buffers.seat);
    }
}

/// A box with a requested pause ends its invocation: it is paused, or queued if the pause is over already.
#[cold]
fn pause(cell: &BoxCell, activation: Activation, instance: &Instance) -> Option<Activation> {
    let Activation { queued, kind, index, home } = activation;
    let queued = cell.pause.leave(queued, || instance.is_stopped())?;
    Some(Activation { queued, kind, index, home })
}

/// The last one of several receivers of one invocation stays with its rows; the others are deferred to free seats. A
/// receiver of an envelope with a home goes there anyway.
#[inline]
fn spread(activations: &mut [Activation]) {
    let is_free = |activation: &&mut Activation| activation.kind == Kind::Immediate && activation.home.is_none();
    activations.iter_mut().rev().filter(is_free).skip(1).for_each(|activation| activation.kind = Kind::Deferred);
}

impl Instance {
    /// Drops the envelopes that were on their way when a box closed the input.
    #[cold]
    #[inline(never)]
    fn drop_late(&self, cell: &BoxCell, input: &Input) {
        while let Some(popped) = input.ring.take() {
            let sender = input.sender().map_or(cell.index, |sender| sender.index);
            self.guarded(sender, || drop(popped));
        }
        while let Some(late) = input.mailbox.as_ref().and_then(|mailbox| mailbox.take()) {
            let sender = input.sender().map_or(cell.index, |sender| sender.index);
            self.guarded(sender, || drop(late));
        }
    }

    /// Resumes a box that may wait for room.
    fn resume(&self, sender: &BoxCell, buffers: &mut SeatBuffers) {
        if buffers.recording {
            sender.clock.fetch_max(buffers.clock, Ordering::AcqRel);
        }
        if sender.state.resume().0 {
            buffers.activations.push(self.activation(sender, Kind::Deferred, buffers.seat));
        }
    }

    /// Whether a newly blocked box is to be queued, because the request has ended meanwhile.
    #[cold]
    fn is_resumed_by_the_end(&self, cell: &BoxCell) -> bool {
        // Either the box that ends the request sees that this one is blocked, or this one sees here that the request
        // has ended.
        fence(Ordering::SeqCst);
        self.has_ended() && cell.state.resume().0
    }
}

/// The operator in a body while its own operator runs.
pub(crate) struct Absent;

impl Operator for Absent {
    fn act(&mut self, _: &mut Turn<'_>) -> Result<(), crate::BoxError> {
        unreachable!("a box is never run twice at once")
    }
}
