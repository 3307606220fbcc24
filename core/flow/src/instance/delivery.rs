//! The way of an invocation's envelopes to their receivers, and their wait there.

use super::Instance;
use super::cell::{Body, BoxCell, Input, Receiver, SentNow};
use crate::input_ring::Put;
use crate::mailbox::Mailbox;
use crate::seat_buffers::{Activation, Fact, SeatBuffers};
use crate::sync::Ordering;
use crate::{BoxId, Envelope};
use std::panic::{AssertUnwindSafe, catch_unwind};
use vicus_schedule::Kind;

impl Instance {
    /// Calls `f`. It may run a user's code, such as the drop of an envelope; a panic there fails the request, with the
    /// box's name.
    #[cold]
    #[inline(never)]
    pub(crate) fn guarded(&self, index: usize, f: impl FnOnce()) {
        catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| self.fail_by(BoxId(index), panic));
    }

    /// Sends refused envelopes again. Whether all of them were delivered.
    pub(crate) fn flush(&self, sender: &BoxCell, body: &mut Body, buffers: &mut SeatBuffers) -> bool {
        let mut all = true;
        for (index, output) in body.outputs.iter_mut().enumerate().filter(|(_, output)| output.waits()) {
            for receiver in &mut output.receivers {
                loop {
                    let envelope = match receiver.next() {
                        Ok(Some(envelope)) => envelope,
                        Ok(None) => break,
                        Err(error) => {
                            self.fail(self.gave_up(sender.index, error));
                            break;
                        }
                    };
                    let back = self.put((sender, index), receiver, envelope, Kind::Immediate, buffers);
                    body.ends |= receiver.is_over();
                    if let Some(back) = back {
                        receiver.put_back(back);
                        break;
                    }
                }
            }
            all &= !output.waits();
            if !output.is_refused() && std::mem::take(&mut output.noted) {
                buffers.note(Fact::Resumed { output: index });
            }
        }
        body.may_wait &= !all;
        all
    }

    /// Delivers the envelopes of the outbox. Whether all of them were delivered.
    #[inline]
    pub(crate) fn deliver(&self, sender: &BoxCell, body: &mut Body, buffers: &mut SeatBuffers) -> bool {
        let mut all = true;
        // The initialization pill wakes the boxes that start by themselves: larger pieces of work, to be spread.
        let kind = if sender.index == 0 { Kind::Deferred } else { Kind::Immediate };
        // The first one is taken first, and mostly it is the only one: a drain would cost more than the pop.
        body.now.outbox.reverse();
        while let Some((output, mut envelope)) = body.now.outbox.pop() {
            sender.tally().sent(output, &envelope);
            envelope.set_node(buffers.node, buffers.blocks);
            if buffers.recording {
                buffers.note(Fact::Sent {
                    output,
                    rows: envelope.rows(),
                    pill: envelope.is_pill(),
                    bytes: envelope.bytes(),
                });
                // Stamped after the fact is recorded: the reception is recorded later than the sending.
                envelope.set_stamp(buffers.clock);
            }
            body.outputs[output].sent = SentNow::default();
            let receivers = &mut body.outputs[output].receivers;
            let last = receivers.len() - 1;
            let mut lent = None;
            let mut rest = Some(envelope);
            for (index, receiver) in receivers.iter_mut().enumerate() {
                let mut copy = if index == last { rest.take() } else { rest.clone() }.expect("the last one takes it");
                if !copy.is_pill() {
                    for &column in &receiver.private {
                        self.guarded(sender.index, || copy.unshare(column));
                    }
                }
                let refused = if receiver.waits() {
                    Some(copy)
                } else {
                    self.put((sender, output), receiver, copy, kind, buffers)
                };
                body.ends |= receiver.is_over();
                if let Some(envelope) = refused {
                    body.may_wait = true;
                    sender.tally().spilled(receiver.keep(envelope));
                    if receiver.waits_long && receiver.is_refused() {
                        let more = self.widen(sender, output, receiver).ok();
                        lent = more.map(|more| more + lent.unwrap_or(0)).or(lent);
                    }
                    all = false;
                }
            }
            let sent = &mut body.outputs[output];
            if let Some(bytes) = lent.filter(|_| buffers.recording) {
                buffers.note(Fact::Overdrawn { output, bytes });
            }
            if buffers.recording && !body.any_room && !sent.noted && sent.holds_up() {
                sent.noted = true;
                buffers.note(Fact::Refused { output });
            }
        }
        all
    }

    /// Puts an envelope into a receiver's buffer and activates it. Gives the envelope back if there is no room.
    fn put(
        &self,
        from: (&BoxCell, usize),
        receiver: &mut Receiver,
        envelope: Envelope,
        kind: Kind,
        buffers: &mut SeatBuffers,
    ) -> Option<Envelope> {
        if receiver.closed {
            return self.discard(from.0, envelope);
        }
        let cell = &*receiver.cell;
        if buffers.recording {
            cell.clock.fetch_max(buffers.clock, Ordering::AcqRel);
        }
        let (home, is_pill) = (envelope.home(), envelope.is_pill());
        let input = &cell.inputs[receiver.input];
        let put = match &input.mailbox {
            None => input.ring.put(envelope, || cell.state.tell_of_refusal()),
            Some(mailbox) => self.put_newest(from, input, mailbox, envelope),
        };
        match put {
            Put::Taken => {
                receiver.done |= is_pill;
                if cell.state.arrive().0 {
                    let activation = self.activation(cell, kind, buffers.seat);
                    buffers.activations.push(Activation { home: home.or(activation.home), ..activation });
                }
                None
            }
            Put::Full(envelope) => Some(envelope),
            Put::Closed(envelope) => {
                receiver.closed = true;
                self.discard(from.0, envelope)
            }
        }
    }

    /// Puts an envelope where the newest are kept. Those that are dropped for it are counted at the sender.
    #[cold]
    #[inline(never)]
    fn put_newest(
        &self,
        from: (&BoxCell, usize),
        input: &Input,
        mailbox: &Mailbox,
        envelope: Envelope,
    ) -> Put<Envelope> {
        let (sender, output) = from;
        if input.ring.is_closed() {
            return Put::Closed(envelope);
        }
        for dropped in mailbox.put(envelope) {
            if dropped.mark().is_none() {
                sender.tally().dropped(output, &dropped);
            }
            self.guarded(sender.index, || drop(dropped));
        }
        Put::Taken
    }

    /// The request has ended: the sent envelopes have no reader, and the end has resumed the blocked boxes.
    #[cold]
    #[inline(never)]
    pub(crate) fn drop_sent(&self, cell: &BoxCell, body: &mut Body) {
        for (output, envelope) in body.now.outbox.drain(..) {
            cell.tally().sent(output, &envelope);
            self.guarded(cell.index, || drop(envelope));
        }
        body.now.resumed.clear();
    }

    /// Drops an envelope no longer accepted by its receiver. The drop may run the sender's code.
    #[cold]
    #[inline(never)]
    fn discard(&self, sender: &BoxCell, envelope: Envelope) -> Option<Envelope> {
        self.guarded(sender.index, || drop(envelope));
        None
    }
}
