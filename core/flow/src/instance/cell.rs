//! A box of an instance, with its state.
//!
//! Boxes at the ends of a via reach each other by pointers. In an instance that grows, boxes end before their request
//! does, and their memory is used again. So each end of a via lets go of the other one when it will not touch it any
//! more (`growth.rs`), and a cell counts the ends that have not ([`BoxCell::far`]).

use super::Instance;
use crate::counts::Tally;
use crate::expand::Growing;
use crate::input_ring::{InputRing, Put};
use crate::mailbox::Mailbox;
use crate::operator::ENVELOPE_BYTES;
use crate::overflow::Outside;
use crate::pause::Pause;
use crate::state::StateWord;
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, UnsafeCell};
use crate::{BoxError, ConnectedBox, Envelope, Operator, Schema};
use smallvec::{SmallVec, smallvec};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use vicus_schedule::{ContextRef, RequestId, TaskClass, TaskHeader};
use vicus_topology::NodeId;

/// A box with its state. Its address is its task.
#[repr(C)]
pub(crate) struct BoxCell {
    header: TaskHeader,
    pub(crate) index: usize,
    /// See [`BoxModel::at`](crate::BoxModel::at).
    pub(crate) node: Option<NodeId>,
    pub(crate) instance: *const Instance,
    pub(crate) state: StateWord,
    /// The logical time of its last event; kept up to date only if the run is recorded.
    pub(crate) clock: AtomicU64,
    /// Bytes it has taken from the request's budget. Only the runner writes it.
    pub(crate) held: AtomicU64,
    /// See [`BoxCell::tally`].
    pub(super) tally: UnsafeCell<Tally>,
    pub(crate) inputs: std::boxed::Box<[Input]>,
    /// Used only by boxes that wait for something outside.
    pub(crate) pause: Pause,
    /// Used only between begin and finish, and at the very end by the thread that settles the request.
    pub(crate) body: UnsafeCell<Body>,
    /// How many ends at its neighbours may still touch it: at the senders of its inputs, and at its receivers.
    pub(crate) far: AtomicUsize,
    /// How many others may still touch it: handles of pauses, and its runner when it has marked it as blocked.
    pub(crate) handles: AtomicUsize,
}

#[expect(unsafe_code, reason = "a cell is shared by the seats that send to it and the one that runs it")]
// SAFETY: only the runner uses `body` (the state word admits one), or after quiescence the settling thread; `instance`
// points to the instance that owns the cell and so outlives it; rings and state word are made for sharing.
unsafe impl Sync for BoxCell {}
#[expect(unsafe_code, reason = "the raw pointer to its owner takes the automatic implementation away")]
// SAFETY: as above; operators and envelopes are `Send`.
unsafe impl Send for BoxCell {}

impl BoxCell {
    /// A box of a model, with the operator of this instance, yet to be connected with the receivers that are made.
    pub(super) fn new(
        model: &ConnectedBox,
        index: usize,
        operator: std::boxed::Box<dyn Operator>,
        instance: *const Instance,
        request: RequestId,
        class: &'static TaskClass,
        is_made: impl Fn(usize) -> bool,
    ) -> BoxCell {
        let rounds = model.rounds.as_ref().map_or(0, |rounds| rounds.len());
        let inputs = model.inputs.len() + usize::from(rounds > 0);
        // Without a fragment beside it, nothing comes back.
        let over = (0..inputs).map(|input| input >= model.inputs.len()).collect();
        let body = Body {
            operator,
            outputs: Output::of(model, is_made),
            now: Invocation::new(inputs),
            left: smallvec![false; inputs],
            over,
            ends: false,
            has_left: false,
            held: 0,
            may_wait: false,
            run_again: false,
            any_room: false,
            retired: false,
        };
        let input = |(number, bound): (usize, crate::Bound)| Input {
            ring: InputRing::new(bound),
            sender: AtomicPtr::new(ptr::null_mut()),
            mailbox: model.newest.contains(&number).then(|| std::boxed::Box::new(Mailbox::new(bound))),
        };
        let bounds = model.inputs.iter().map(|(_, bound)| *bound).chain((rounds > 0).then(crate::Bound::default));
        let receivers: usize = body.outputs.iter().map(|output| output.receivers.len()).sum();
        BoxCell {
            header: TaskHeader { class, context: ContextRef::NONE, request, number: index as u32, has_data: false },
            index,
            node: model.node,
            instance,
            state: StateWord::new(),
            clock: AtomicU64::new(0),
            held: AtomicU64::new(0),
            tally: UnsafeCell::new(Tally::new(inputs, model.outputs.len() + rounds)),
            inputs: bounds.enumerate().map(input).collect(),
            pause: Pause::new(),
            body: UnsafeCell::new(body),
            far: AtomicUsize::new(model.inputs.len() + receivers),
            handles: AtomicUsize::new(0),
        }
    }

    /// A box of a fragment gets its index.
    pub(super) fn set_index(&mut self, index: usize) {
        self.index = index;
        self.header.number = index as u32;
    }

    /// The class of its world's boxes.
    pub(super) fn class(&self) -> &'static TaskClass {
        self.header.class
    }

    #[inline]
    pub(crate) fn instance(&self) -> &Instance {
        #[expect(unsafe_code, reason = "follows a pointer to its owner")]
        // SAFETY: the instance owns the cell.
        unsafe {
            &*self.instance
        }
    }

    /// Its counters. For its runner, for the thread that settles the request, and for those that hold the lock of the
    /// instance's cells.
    #[inline]
    pub(crate) fn tally(&self) -> &Tally {
        self.tally.with(|tally| {
            #[expect(unsafe_code, reason = "the counters are exchanged when the box grows")]
            // SAFETY: only the box's runner exchanges them, with the lock of the instance's cells, between two uses of
            // this reference by itself.
            unsafe {
                &*tally
            }
        })
    }
}

/// A box at the other end of a via. Invariant: it is used only by an end that has not let go of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour(NonNull<BoxCell>);

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: the cell is made for several threads.
unsafe impl Send for Neighbour {}
#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above.
unsafe impl Sync for Neighbour {}

impl Neighbour {
    pub(super) fn new(cell: NonNull<BoxCell>) -> Neighbour {
        Neighbour(cell)
    }

    pub(crate) fn of(cell: &BoxCell) -> Neighbour {
        Neighbour(NonNull::from(cell))
    }
}

impl Deref for Neighbour {
    type Target = BoxCell;

    #[inline]
    fn deref(&self) -> &BoxCell {
        #[expect(unsafe_code, reason = "follows a pointer to a neighbour")]
        // SAFETY: by the type's invariant the cell counts the end in `far`, so it is not freed; or it is one of the
        // model's, which live as long as the instance.
        unsafe {
            self.0.as_ref()
        }
    }
}

/// One input of a live box.
pub(crate) struct Input {
    pub(crate) ring: InputRing<Envelope>,
    /// The box at the other end; null once this end has let go of it. A box that grows hands its outputs over before
    /// it has sent anything: then another box stands here.
    pub(super) sender: AtomicPtr<BoxCell>,
    /// The envelopes before they come into the ring, for a via that keeps the newest.
    pub(crate) mailbox: Option<std::boxed::Box<Mailbox>>,
}

impl Input {
    /// Whether nothing waits here.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.mailbox.as_ref().is_none_or(|mailbox| mailbox.is_empty())
    }

    /// The receiver moves an envelope into its ring, of which it has both ends.
    #[cold]
    fn fetch(&self, mailbox: &Mailbox) {
        if self.ring.is_empty()
            && let Some(envelope) = mailbox.take()
        {
            let put = self.ring.put(envelope, || {});
            debug_assert!(!matches!(put, Put::Full(_)), "an empty ring has room");
        }
    }

    /// An invocation begins: gets an envelope out of the mailbox, if there is one.
    #[inline]
    pub(crate) fn begin(&self) {
        if let Some(mailbox) = &self.mailbox {
            self.fetch(mailbox);
        }
    }

    /// The receiver accepts no more, and drops the envelopes. Returns whether a refused sender is to be resumed.
    pub(crate) fn close(&self) -> bool {
        let waits = self.ring.close();
        while let Some(envelope) = self.mailbox.as_ref().and_then(|mailbox| mailbox.take()) {
            drop(envelope);
        }
        waits
    }

    /// The box at the other end, if this end has not let go of it.
    #[inline]
    pub(crate) fn sender(&self) -> Option<Neighbour> {
        // Relaxed: an envelope or a refusal came from the box that stands here, and was acquired.
        NonNull::new(self.sender.load(Ordering::Relaxed)).map(Neighbour)
    }
}

/// The state of an input as an action sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputView {
    /// No envelope when the invocation began, or the box has closed it without taking one.
    Nothing,
    /// A head.
    Head,
    /// The action has taken the head.
    Taken,
    /// The action has taken the head and will keep it.
    Kept,
}

/// The state of a box from one invocation to the next.
pub(crate) struct Body {
    pub(crate) operator: std::boxed::Box<dyn Operator>,
    pub(crate) outputs: std::boxed::Box<[Output]>,
    /// The invocation under way.
    pub(crate) now: Invocation,
    /// By input, whether its head was reported as left. Only used while facts are recorded.
    pub(crate) left: SmallVec<[bool; 8]>,
    /// By input, whether its pill was taken.
    pub(crate) over: SmallVec<[bool; 8]>,
    /// An end of a via may have to be let go: a pill was taken or delivered, or an input closed.
    pub(crate) ends: bool,
    /// The box has let go of all ends, and waits for its neighbours to do so.
    pub(crate) has_left: bool,
    /// How many bytes it holds, by its last booking.
    pub(crate) held: u64,
    /// Envelopes may wait at the outputs. Invariant: if it is false, none do.
    pub(crate) may_wait: bool,
    /// The action has asked to be invoked again though nothing arrives ([`Turn::run_again`](crate::Turn::run_again)).
    /// The next invocation that is not blocked clears it.
    pub(crate) run_again: bool,
    /// Room at any output is enough for the next invocation; otherwise all outputs need room.
    pub(crate) any_room: bool,
    /// All its readers are gone: its user code is not run any more.
    pub(crate) retired: bool,
}

/// The views and results of one invocation. Its memory is used again by the next one.
pub(crate) struct Invocation {
    /// By input, its state as the action sees it.
    pub(crate) snapshot: std::boxed::Box<[InputView]>,
    /// Envelopes sent by the action; they leave at the end.
    pub(crate) outbox: Vec<(usize, Envelope)>,
    /// Bytes of the envelopes sent, without the first envelope of each output.
    pub(crate) outbox_bytes: u64,
    /// Bytes of the envelopes taken: the box may send as many more.
    pub(crate) taken_bytes: u64,
    /// Senders with new room, made by the action.
    pub(crate) resumed: Vec<Neighbour>,
    /// A fragment that is to take the place of the box when its code has returned.
    pub(crate) growing: Option<std::boxed::Box<Growing>>,
    /// The action has taken an envelope or closed an input: if an input has a next one, the box is due again without an
    /// arrival.
    pub(crate) consumed: bool,
    /// The action has asked for a pause.
    pub(crate) pauses: bool,
    /// Only of the termination box: it has had every pill, and the end of this invocation ends the request.
    pub(crate) ended: bool,
}

impl Invocation {
    fn new(inputs: usize) -> Invocation {
        Invocation {
            snapshot: vec![InputView::Nothing; inputs].into(),
            outbox: Vec::new(),
            outbox_bytes: 0,
            taken_bytes: 0,
            resumed: Vec::new(),
            growing: None,
            consumed: false,
            pauses: false,
            ended: false,
        }
    }

    /// The next invocation begins. Its outbox is empty: the one before has sent all, or its request has failed.
    #[inline]
    pub(crate) fn begin(&mut self) {
        (self.outbox_bytes, self.taken_bytes, self.consumed) = (0, 0, false);
    }
}

impl Body {
    /// Whether envelopes wait at the outputs.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        debug_assert!(self.may_wait || !self.outputs.iter().any(Output::waits));
        self.may_wait && self.outputs.iter().any(Output::waits)
    }

    /// Whether envelopes waiting at the outputs keep the box from being invoked.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        let mut open = self.outputs.iter().filter(|output| !output.is_closed()).peekable();
        if self.any_room && open.peek().is_some() {
            open.all(Output::is_refused)
        } else {
            self.outputs.iter().any(Output::holds_up)
        }
    }

    /// How many vias that lead round to the box are refused.
    #[cold]
    pub(crate) fn refused_rounds(&self) -> usize {
        let receivers = self.outputs.iter().flat_map(|output| &output.receivers);
        receivers.filter(|receiver| receiver.goes_round && receiver.is_refused()).count()
    }

    /// Whether a via that leads round to the box was lent more since its last run.
    #[cold]
    pub(crate) fn was_lent_for_rounds(&self) -> bool {
        let is_round = |output: &Output| output.receivers.iter().any(|receiver| receiver.goes_round);
        self.outputs.iter().any(|output| output.lent.is_some() && is_round(output))
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
    pub(crate) cell: Neighbour,
    pub(crate) input: usize,
    pub(crate) private: Vec<usize>,
    /// The via may hold more than its bound as soon as it is full.
    pub(crate) waits_long: bool,
    /// A via that leads round to its sender: it holds more even in a request that keeps bounds, and does not hold the
    /// sender up.
    pub(crate) goes_round: bool,
    pub(crate) closed: bool,
    /// The pill was delivered.
    pub(crate) done: bool,
    /// This end has let go of the receiver, and does not touch it any more.
    pub(crate) let_go: bool,
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
    /// Its buffer.
    #[inline]
    pub(crate) fn ring(&self) -> &InputRing<Envelope> {
        &self.cell.inputs[self.input].ring
    }

    /// Whether nothing more is put into its buffer.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.closed || self.done
    }

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
        // Of a via that holds more than its bound, many wait: none of them may pin a block of which it has little.
        let envelope = if self.overdraft > 0 || self.outside.is_some() { envelope.compact() } else { envelope };
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

/// The bytes that an envelope keeps alive. One without rows takes memory, too.
fn bytes_of(envelope: &Envelope) -> u64 {
    envelope.held_bytes() + ENVELOPE_BYTES
}

impl Output {
    /// The outputs of a box of a model, to the receivers with these indexes. They are yet to be connected.
    pub(super) fn of(model: &ConnectedBox, is_made: impl Fn(usize) -> bool) -> std::boxed::Box<[Output]> {
        let receiver = |link: &crate::model::Link| Receiver {
            cell: Neighbour(NonNull::dangling()),
            input: link.input,
            private: link.private.clone(),
            waits_long: link.waits_long,
            goes_round: false,
            closed: false,
            done: false,
            let_go: false,
            pending: VecDeque::new(),
            pending_bytes: 0,
            overdraft: 0,
            outside: None,
        };
        let output = |schema: &Schema, pill_sent: bool, receivers: Vec<Receiver>| Output {
            schema: schema.clone(),
            pill_sent,
            sent: SentNow::default(),
            was_asked: Cell::new(false),
            noted: false,
            lent: None,
            receivers,
        };
        let own = model.outputs.iter().map(|(schema, links)| {
            let made = links.iter().filter(|link| is_made(link.receiver.index()));
            output(schema, false, made.map(receiver).collect())
        });
        // Without a fragment beside it, nothing is sent there.
        let rounds = model.rounds.iter().flat_map(|rounds| rounds.iter());
        own.chain(rounds.map(|schema| output(schema, true, Vec::new()))).collect()
    }

    /// Whether envelopes wait that hold the box up.
    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        self.receivers.iter().any(Receiver::is_refused)
    }

    /// Whether envelopes wait that keep the box from being invoked. Those on a via that leads round to the box do not:
    /// room comes there as the box takes what comes back.
    #[inline]
    pub(crate) fn holds_up(&self) -> bool {
        self.receivers.iter().any(|receiver| receiver.is_refused() && !receiver.goes_round)
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
