//! A box of an instance, with its state.

use super::Instance;
use crate::counts::Tally;
use crate::mailbox::Mailbox;
use crate::operator::{ENVELOPE_BYTES, Input};
use crate::overflow::Outside;
use crate::pause::Pause;
use crate::ring::Ring;
use crate::state::StateWord;
use crate::sync::{AtomicU64, UnsafeCell};
use crate::{BoxError, ConnectedBox, Envelope, Operator, OutputId, Schema};
use smallvec::{SmallVec, smallvec};
use std::cell::Cell;
use std::collections::VecDeque;
use vicus_schedule::{ContextRef, RequestId, TaskClass, TaskHeader};

/// A box with its state. Its address is its task.
#[repr(C)]
pub(crate) struct BoxCell {
    header: TaskHeader,
    pub(crate) index: usize,
    pub(crate) instance: *const Instance,
    pub(crate) state: StateWord,
    /// The logical time of its last event; kept up to date only if the run is recorded.
    pub(crate) clock: AtomicU64,
    /// Bytes it has taken from the request's budget. Only the runner writes it.
    pub(crate) held: AtomicU64,
    pub(crate) tally: Tally,
    pub(crate) inputs: std::boxed::Box<[Input]>,
    /// Used only by boxes that wait for something outside.
    pub(crate) pause: Pause,
    /// Used only between begin and finish, and at the very end by the thread that settles the request.
    pub(crate) body: UnsafeCell<Body>,
}

#[expect(unsafe_code, reason = "a cell is shared by the seats that send to it and the one that runs it")]
// SAFETY: only the runner uses `body` (the state word admits one), or after quiescence the settling thread; `instance`
// points to the instance that owns the cell and so outlives it; rings and state word are made for sharing.
unsafe impl Sync for BoxCell {}
#[expect(unsafe_code, reason = "the raw pointer to its owner takes the automatic implementation away")]
// SAFETY: as above; operators and envelopes are `Send`.
unsafe impl Send for BoxCell {}

impl BoxCell {
    /// A box of a model, with the operator of this instance.
    pub(super) fn new(
        model: &ConnectedBox,
        index: usize,
        operator: std::boxed::Box<dyn Operator>,
        instance: *const Instance,
        request: RequestId,
        class: &'static TaskClass,
    ) -> BoxCell {
        let receiver = |link: &crate::model::Link| Receiver {
            cell: link.receiver.index(),
            input: link.input,
            private: link.private.clone(),
            waits_long: link.waits_long,
            closed: false,
            pending: VecDeque::new(),
            pending_bytes: 0,
            overdraft: 0,
            outside: None,
        };
        let output = |(schema, links): &(Schema, crate::model::Links)| Output {
            schema: schema.clone(),
            pill_sent: false,
            sent: SentNow::default(),
            was_asked: Cell::new(false),
            noted: false,
            lent: None,
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
            pauses: false,
            outbox_bytes: 0,
            taken_bytes: 0,
            ended: false,
            any_room: false,
            retired: false,
        };
        let input = |(number, (from, bound)): (usize, &(OutputId, crate::Bound))| Input {
            ring: Ring::new(*bound),
            sender: from.sender().index(),
            mailbox: model.newest.contains(&number).then(|| std::boxed::Box::new(Mailbox::new(*bound))),
        };
        BoxCell {
            header: TaskHeader { class, context: ContextRef::NONE, request, number: index as u32, has_data: false },
            index,
            instance,
            state: StateWord::new(),
            clock: AtomicU64::new(0),
            held: AtomicU64::new(0),
            tally: Tally::new(model.inputs.len(), model.outputs.len()),
            inputs: model.inputs.iter().enumerate().map(input).collect(),
            pause: Pause::new(),
            body: UnsafeCell::new(body),
        }
    }

    #[inline]
    pub(crate) fn instance(&self) -> &Instance {
        #[expect(unsafe_code, reason = "follows a pointer to its owner")]
        // SAFETY: the instance owns the cell.
        unsafe {
            &*self.instance
        }
    }
}

/// The state of an input as an action sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// No envelope when the invocation began, or the box has closed it without taking one.
    Nothing,
    /// A head.
    Head,
    /// The action has taken the head.
    Taken,
    /// The action has taken the head and will keep it.
    Kept,
}

pub(crate) struct Body {
    pub(crate) operator: std::boxed::Box<dyn Operator>,
    pub(crate) outputs: std::boxed::Box<[Output]>,
    /// By input, its state as the action sees it.
    pub(crate) snapshot: std::boxed::Box<[Seen]>,
    /// By input, whether its head was reported as left. Only used while facts are recorded.
    pub(crate) left: SmallVec<[bool; 8]>,
    /// How many bytes it holds, by its last booking.
    pub(crate) held: u64,
    /// Envelopes sent by the action; they leave at the end.
    pub(crate) outbox: Vec<(usize, Envelope)>,
    /// Senders with new room, made by the action.
    pub(crate) resumed: Vec<usize>,
    /// The action has taken an envelope or closed an input in this invocation: if an input has a next one, the box is
    /// due again without an arrival.
    pub(crate) consumed: bool,
    /// The action has asked to be invoked again though nothing arrives ([`Turn::run_again`](crate::Turn::run_again)).
    /// The next invocation that is not blocked clears it.
    pub(crate) run_again: bool,
    /// The action has asked for a pause in this invocation.
    pub(crate) pauses: bool,
    /// Bytes of the envelopes sent in this invocation, without the first envelope of each output.
    pub(crate) outbox_bytes: u64,
    /// Bytes of the envelopes taken in this invocation: the box may send as many more.
    pub(crate) taken_bytes: u64,
    /// Only of the termination box: it has had every pill, and the end of this invocation ends the request.
    pub(crate) ended: bool,
    /// Room at any output is enough for the next invocation; otherwise all outputs need room.
    pub(crate) any_room: bool,
    /// All its readers are gone: its user code is not run any more.
    pub(crate) retired: bool,
}

impl Body {
    /// Whether envelopes wait at the outputs.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.outputs.iter().any(Output::waits)
    }

    /// Whether envelopes waiting at the outputs keep the box from being invoked.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        let mut open = self.outputs.iter().filter(|output| !output.is_closed()).peekable();
        if self.any_room && open.peek().is_some() { open.all(Output::is_refused) } else { self.is_refused() }
    }

    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        self.outputs.iter().any(Output::is_refused)
    }

    /// Whether an output still waits for its pill. A box without such an output may ask to run again to clean up.
    #[inline]
    pub(crate) fn owes_pills(&self) -> bool {
        self.outputs.iter().any(|output| !output.pill_sent)
    }
}

/// The envelopes sent to an output in the invocation under way.
#[derive(Clone, Copy, Default)]
pub(crate) struct SentNow {
    pub(crate) envelopes: usize,
    /// The bytes of all but the first.
    pub(crate) later_bytes: u64,
}

pub(crate) struct Output {
    pub(crate) schema: Schema,
    pub(crate) pill_sent: bool,
    pub(crate) sent: SentNow,
    /// Whether the action was told of room since its last envelope.
    pub(crate) was_asked: Cell<bool>,
    /// Whether the trace has recorded the refusal. Never for a box that goes on with any room.
    pub(crate) noted: bool,
    /// An overdraft that the trace has not recorded: its bytes.
    pub(crate) lent: Option<u64>,
    pub(crate) receivers: Vec<Receiver>,
}

pub(crate) struct Receiver {
    pub(crate) cell: usize,
    pub(crate) input: usize,
    pub(crate) private: Vec<usize>,
    /// The via may hold more than its bound as soon as it is full.
    pub(crate) waits_long: bool,
    pub(crate) closed: bool,
    /// The refused envelopes, in order.
    pub(crate) pending: VecDeque<Envelope>,
    /// Their bytes.
    pub(crate) pending_bytes: u64,
    /// So many bytes may wait without holding the box up: more than 0 after the network had waited for itself here.
    pub(crate) overdraft: u64,
    /// The newest ones, behind those in memory, if there was no memory for an overdraft.
    pub(crate) outside: Option<Box<Outside>>,
}

impl Receiver {
    /// Whether envelopes wait for it.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        !self.pending.is_empty() || self.outside.as_ref().is_some_and(|outside| !outside.is_empty())
    }

    /// Whether envelopes wait for it that hold the sender up.
    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        match &self.outside {
            None => !self.pending.is_empty() && (self.overdraft == 0 || self.pending_bytes > self.overdraft),
            Some(outside) => outside.is_refused(),
        }
    }

    /// An envelope waits behind the others. Gives the bytes that were written for it outside of memory.
    #[cold]
    pub(crate) fn keep(&mut self, envelope: Envelope) -> u64 {
        let bytes = bytes_of(&envelope);
        match &mut self.outside {
            Some(outside) if !outside.is_empty() || self.pending_bytes + bytes > self.overdraft => {
                return outside.push(envelope);
            }
            _ => {}
        }
        self.pending_bytes += bytes;
        self.pending.push_back(envelope);
        0
    }

    /// The first one that waits.
    ///
    /// # Errors
    /// It can't be read back.
    pub(crate) fn next(&mut self) -> Result<Option<Envelope>, BoxError> {
        if let Some(envelope) = self.pending.pop_front() {
            self.pending_bytes -= bytes_of(&envelope);
            return Ok(Some(envelope));
        }
        let Some(outside) = &mut self.outside else { return Ok(None) };
        let envelope = outside.pop()?;
        if outside.is_empty() {
            self.outside = None;
        }
        Ok(envelope)
    }

    /// The first one waits on.
    pub(crate) fn put_back(&mut self, envelope: Envelope) {
        self.pending_bytes += bytes_of(&envelope);
        self.pending.push_front(envelope);
    }

    /// The envelopes that wait in memory, which are not needed any more or are to be dropped elsewhere.
    pub(crate) fn clear(&mut self) -> VecDeque<Envelope> {
        self.pending_bytes = 0;
        let mut all = std::mem::take(&mut self.pending);
        all.extend(self.outside.take().into_iter().flat_map(|outside| outside.into_behind()));
        all
    }
}

/// An envelope without rows takes memory, too.
fn bytes_of(envelope: &Envelope) -> u64 {
    envelope.bytes() + ENVELOPE_BYTES
}

impl Output {
    /// Whether envelopes wait that hold the box up.
    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        self.receivers.iter().any(Receiver::is_refused)
    }

    /// Whether envelopes wait.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.receivers.iter().any(Receiver::waits)
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.receivers.iter().all(|receiver| receiver.closed)
    }
}
