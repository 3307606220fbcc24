//! The interface for users: the single-threaded code of a box, and its view of the world while it runs.

use crate::error::SentTooMuch;
use crate::instance::{Body, BoxCell, InputView, Instance, Receiver, SentNow};
use crate::{Blocks, Column, Entry, Envelope, FlowError, OverBudget, Resume, Schema, give_up};
use std::cell::Cell;
use std::error::Error;
use vicus_topology::NodeId;

/// The error of a box. Any error will do; the request fails with it and with the box's name.
pub type BoxError = std::boxed::Box<dyn Error + Send + Sync>;

/// The code of a box: a single-threaded operator (Bobox report §3.3). It owns its state, is never run twice at once,
/// and talks to other boxes through envelopes alone.
///
/// A closure is an operator too:
///
/// ```
/// use vicus_flow::{BoxError, Envelope, Operator, Turn};
///
/// fn pass_on() -> impl Operator {
///     |turn: &mut Turn<'_>| -> Result<(), BoxError> {
///         if let Some(envelope) = turn.take(0) {
///             turn.send(0, envelope);
///         }
///         Ok(())
///     }
/// }
/// # let _ = pass_on();
/// ```
pub trait Operator: Send {
    /// One invocation. Looks at the heads of the inputs, takes some of them, and sends envelopes.
    ///
    /// # Errors
    /// Any error that makes the whole request pointless.
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError>;
}

impl<F: FnMut(&mut Turn<'_>) -> Result<(), BoxError> + Send> Operator for F {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        self(turn)
    }
}

impl Operator for std::boxed::Box<dyn Operator> {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        (**self).act(turn)
    }
}

/// The world's services for a running box.
pub trait World {
    /// Runs a section that may block the thread; meanwhile the world lends another thread to the box's neighbourhood.
    fn blocking(&self, section: &mut dyn FnMut());

    /// Whether the request's caller has given up, in a world that can only be asked
    /// ([`SeatBuffers::asks_world`](crate::SeatBuffers::asks_world)).
    fn is_over(&self) -> bool {
        false
    }
}

/// One invocation of a box, as its operator sees it.
pub struct Turn<'a> {
    pub(crate) cell: &'a BoxCell,
    pub(crate) body: &'a mut Body,
    pub(crate) world: &'a dyn World,
    pub(crate) instance: &'a Instance,
    /// The node of the running seat.
    pub(crate) node: NodeId,
    pub(crate) blocks: Blocks,
    /// Whether the world knows if the caller has given up.
    pub(crate) asks_world: bool,
    /// The destination of the box when it is resumed from outside.
    pub(crate) entry: Option<&'a Entry>,
    /// How many bytes it holds by its last call of `book`; exact, while the budget is booked in portions.
    pub(crate) held: Cell<Option<u64>>,
}

impl Turn<'_> {
    /// The node of the seat of this invocation.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// How many inputs the box has.
    pub fn inputs(&self) -> usize {
        self.cell.inputs.len()
    }

    /// How many outputs the box has.
    pub fn outputs(&self) -> usize {
        self.body.outputs.len()
    }

    /// The head of an input at the beginning of the invocation; `None` if there was none, or it was taken. The next
    /// invocation sees envelopes that arrive meanwhile.
    pub fn head(&self, input: usize) -> Option<&Envelope> {
        if self.body.now.snapshot[input] == InputView::Head { self.cell.inputs[input].ring.head() } else { None }
    }

    /// Consumes the head of an input.
    pub fn take(&mut self, input: usize) -> Option<Envelope> {
        if self.body.now.snapshot[input] != InputView::Head {
            return None;
        }
        let popped = self.cell.inputs[input].ring.take()?;
        self.body.now.snapshot[input] = InputView::Taken;
        self.body.now.consumed = true;
        self.body.now.taken_bytes += popped.bytes + ENVELOPE_BYTES;
        self.cell.tally().took(input, &popped.value, popped.bytes, self.node);
        if popped.value.is_pill() {
            self.body.over[input] = true;
            self.body.ends = true;
        }
        if popped.resumes {
            self.body.now.resumed.extend(self.cell.inputs[input].sender());
        }
        Some(popped.value)
    }

    /// Accepts no more from an input: envelopes there are dropped, and the sender stops if it can. For a box that has
    /// seen enough, as after a limit.
    pub fn close(&mut self, input: usize) {
        if self.body.now.snapshot[input] == InputView::Head {
            self.body.now.snapshot[input] = InputView::Nothing;
        }
        let source = &self.cell.inputs[input];
        if source.ring.is_closed() {
            // Nothing was consumed: a box that closes in every invocation is not queued again for that.
            return;
        }
        self.body.now.consumed = true;
        self.body.ends = true;
        if source.close() {
            self.body.now.resumed.extend(source.sender());
        }
    }

    /// Sends an envelope: it leaves when the invocation ends. If a receiver has no room for it, it waits with this box,
    /// and the box is not invoked until there is room, or until its via may hold more. Panics if the pill was sent
    /// already or the envelope does not fit the output's schema: the request then fails with this box's name.
    ///
    /// An invocation ends in this call, and its request fails with [`SentTooMuch`], if it sends more than
    /// [`ModelBuilder::outbox_bytes`](crate::ModelBuilder::outbox_bytes) and as many bytes as it has taken, not
    /// counting the first envelope on each output. A box with more to send checks whether there is room, and goes on in
    /// its next invocation:
    ///
    /// ```
    /// use vicus_flow::{BoxError, Envelope, Operator, Turn};
    ///
    /// /// Sends the numbers up to `last`, a thousand in an envelope, as fast as they are read.
    /// fn numbers(last: u64) -> impl Operator {
    ///     let mut next = 0;
    ///     move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
    ///         turn.take(0);
    ///         while next < last {
    ///             if !turn.ask_room(0) {
    ///                 turn.run_again();
    ///                 return Ok(());
    ///             }
    ///             let rows: Vec<u64> = (next..last.min(next + 1000)).collect();
    ///             next += rows.len() as u64;
    ///             turn.send(0, Envelope::new([rows.into()]));
    ///         }
    ///         turn.send_pill(0);
    ///         Ok(())
    ///     }
    /// }
    /// # let _ = numbers(3);
    /// ```
    pub fn send(&mut self, output: usize, envelope: Envelope) {
        let out = &mut self.body.outputs[output];
        assert!(!out.pill_sent, "nothing is sent after the poisoned pill, but output {output} was used again");
        if !envelope.fits(&out.schema) {
            does_not_fit(output, &out.schema, &envelope);
        }
        out.pill_sent = envelope.is_pill();
        // The first one is free, however large, so most invocations count no bytes.
        if out.sent.envelopes > 0 && !out.pill_sent {
            let bytes = envelope.bytes() + ENVELOPE_BYTES;
            out.sent.later_bytes += bytes;
            self.body.now.outbox_bytes += bytes;
            let bound = self.instance.model().outbox_bytes;
            let most = bound.saturating_add(self.body.now.taken_bytes);
            if self.body.now.outbox_bytes > most && !out.was_asked.get() {
                self.sent_too_much(SentTooMuch { output, bound });
            }
        }
        out.sent.envelopes += 1;
        out.was_asked.set(false);
        self.body.now.outbox.push((output, envelope));
    }

    #[cold]
    fn sent_too_much(&self, error: SentTooMuch) -> ! {
        // Also fails here, in case the box catches the panic and goes on.
        self.instance.fail(self.instance.gave_up(self.cell.index, error.into()));
        give_up(error)
    }

    /// Sends the poisoned pill, the end of the stream on this output.
    pub fn send_pill(&mut self, output: usize) {
        self.send(output, Envelope::pill());
    }

    /// Sends the poisoned pill on every output still without it.
    pub fn send_pills(&mut self) {
        (0..self.outputs()).for_each(|output| self.send_pill_once(output));
    }

    /// Sends the poisoned pill on an output still without it.
    pub(crate) fn send_pill_once(&mut self, output: usize) {
        if !self.body.outputs[output].pill_sent {
            self.send_pill(output);
        }
    }

    /// The schema of an output.
    pub fn schema(&self, output: usize) -> &Schema {
        &self.body.outputs[output].schema
    }

    /// Whether every reader of an output had closed it when the invocation began: envelopes sent there are dropped.
    pub fn is_closed(&self, output: usize) -> bool {
        self.body.outputs[output].is_closed()
    }

    /// Asks whether an output takes an envelope: it is not closed, no earlier envelope holds the box up there, and this
    /// invocation has not sent as much there as its readers' inputs hold ([`Bound`](crate::Bound)). If so, the next
    /// envelope there counts as asked for; see [`Turn::send`]. For loops.
    pub fn ask_room(&self, output: usize) -> bool {
        let output = &self.body.outputs[output];
        let SentNow { envelopes, later_bytes } = output.sent;
        let holds = |receiver: &Receiver| {
            if receiver.is_over() {
                return true;
            }
            let bound = receiver.ring().bound();
            envelopes < bound.envelopes && later_bytes < bound.bytes
        };
        let has_room =
            !output.is_closed() && !output.is_refused() && (envelopes == 0 || output.receivers.iter().all(holds));
        output.was_asked.set(has_room);
        has_room
    }

    /// Whether earlier envelopes wait at an output.
    pub(crate) fn is_refused(&self, output: usize) -> bool {
        self.body.outputs[output].is_refused()
    }

    /// Lets the box be invoked again as soon as any output has room; by default all its envelopes have to be delivered
    /// before. For boxes that choose their output; to be called in each invocation, see [`Turn::ask_room`].
    pub fn accept_any_room(&mut self) {
        self.body.any_room = true;
    }

    /// Counts bytes read by this invocation on node `home` outside of envelopes, for example the rows of an index.
    pub fn count_read(&self, home: NodeId, bytes: u64) {
        self.cell.tally().read_at(home == self.node, bytes);
    }

    /// Counts bytes written by this invocation to temporary files, because there was no memory for them.
    pub fn count_spilled(&self, bytes: u64) {
        self.cell.tally().spilled(bytes);
    }

    /// Books how many bytes the box holds beyond this invocation: in total, not since the last call. Cheap.
    ///
    /// # Errors
    /// The request's boxes hold more than it may ([`Instance::set_budget`]); to be returned.
    pub fn book(&self, bytes: u64) -> Result<(), OverBudget> {
        self.held.set(Some(bytes));
        self.instance.hold(&self.cell.held, bytes)
    }

    /// Records that the box keeps the envelope just taken from this input as long as the box lives, such as a table
    /// built by another box. Its bytes are not [booked](Turn::book) here, but by its maker. Panics if it took none.
    pub fn record_kept(&mut self, input: usize) {
        let seen = &mut self.body.now.snapshot[input];
        assert!(
            matches!(seen, InputView::Taken | InputView::Kept),
            "input {input}: what is kept was taken in this invocation"
        );
        *seen = InputView::Kept;
    }

    /// Asks to be invoked again even if nothing arrives. For boxes with more to send than they should at once, and for
    /// boxes that pass their pill on first and clean up later (Bobox report §4.1): the request is over only when these
    /// have run. A blocked box runs when there is room. A box does not run any more if its readers have all closed
    /// before it has sent its pills.
    pub fn run_again(&mut self) {
        self.body.run_again = true;
    }

    /// Pauses the box for something outside of its request: after this invocation it is invoked again only when the
    /// result was dropped, by any thread, though more may arrive meanwhile. No thread waits; senders find no room when
    /// the inputs are full. A request that has ended, failed or been cancelled drops its paused boxes, so this is for
    /// boxes that still have their pills to send. A box refused by a receiver in the same invocation is invoked when
    /// the receiver has room.
    ///
    /// `None` in worlds without an outside, such as a simulated one: the box does its best there.
    ///
    /// ```
    /// use std::sync::mpsc::Sender;
    /// use vicus_flow::{BoxError, Operator, Resume, Turn};
    ///
    /// /// Asks another thread whether to go on, before it takes each envelope.
    /// fn asks(other: Sender<Resume>) -> impl Operator {
    ///     let mut has_asked = false;
    ///     move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
    ///         if turn.head(0).is_some() && !std::mem::replace(&mut has_asked, true) {
    ///             if let Some(resume) = turn.pause() {
    ///                 other.send(resume)?;
    ///                 return Ok(());
    ///             }
    ///         }
    ///         has_asked = false;
    ///         if let Some(envelope) = turn.take(0) {
    ///             turn.send(0, envelope);
    ///         }
    ///         Ok(())
    ///     }
    /// }
    /// # let _ = asks(std::sync::mpsc::channel().0);
    /// ```
    pub fn pause(&mut self) -> Option<Resume> {
        let entry = self.entry?;
        self.body.now.pauses = true;
        // Its next step need not be about an arriving envelope.
        self.body.run_again = true;
        Some(Resume::new(self.instance.share(), self.cell, entry))
    }

    /// Whether the work of the box is no longer needed: the request has been cancelled or has failed, or it has ended
    /// and the box has not sent its pills yet. An action of more than 10 ms checks from time to time, and then returns
    /// soon.
    pub fn is_stopped(&self) -> bool {
        (self.instance.is_stopped() && (self.instance.has_failed() || self.body.owes_pills()))
            || (self.asks_world && self.is_given_up())
    }

    #[cold]
    #[inline(never)]
    fn is_given_up(&self) -> bool {
        let is_over = self.world.is_over();
        if is_over {
            self.instance.fail(FlowError::Cancelled);
        }
        is_over
    }

    /// Runs a section that may block the thread, such as a write to a slow pipe. Meanwhile the box's neighbourhood gets
    /// another thread.
    pub fn blocking<R>(&self, section: impl FnOnce() -> R) -> R {
        let mut section = Some(section);
        let mut result = None;
        self.world.blocking(&mut || result = section.take().map(|section| section()));
        result.expect("a world runs the blocking section once")
    }

    /// Ends the request: the termination box has had every pill.
    pub(crate) fn end_request(&mut self) {
        self.body.now.ended = true;
    }
}

/// The bytes of an envelope beside its values, so envelopes without values count as well.
pub(crate) const ENVELOPE_BYTES: u64 = 128;

#[cold]
fn does_not_fit(output: usize, schema: &Schema, envelope: &Envelope) -> ! {
    let described = |column: &Column| match column.null_count() {
        0 => format!("{:?}", column.kind()),
        nulls => format!("{:?} with nulls in {nulls} of {} rows", column.kind(), column.len()),
    };
    let kinds = envelope.columns().iter().map(described).collect::<Vec<_>>().join(", ");
    panic!("output {output} has the schema {schema}, and this envelope's columns are [{kinds}]")
}
