//! A seat's buffers while it runs boxes: the boxes to be queued, and the facts about envelopes.

use crate::{Blocks, BoxId, Entry, Queued};
use std::fmt;
use vicus_schedule::Kind;
use vicus_topology::NodeId;

/// A box to be put into a queue.
#[derive(Debug)]
pub struct Activation {
    /// The evidence.
    pub queued: Queued,
    /// Its kind in the queue. The framework decides it, never the user. A box with received rows is immediate, and so
    /// is one with some left over at its end. Deferred is a box that the initialization pill woke, that asked to run
    /// again, or that found room after a refusal; and if the request [spreads](SeatBuffers::spreads), all receivers of
    /// one invocation but the last.
    pub kind: Kind,
    /// The box's index.
    pub index: BoxId,
    /// The node of its data, if its envelope has a home ([`Envelope::at_home`](crate::Envelope::at_home)), or the box
    /// ([`BoxModel::at`](crate::BoxModel::at)).
    pub home: Option<NodeId>,
}

/// An event of an envelope, for the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The action took this head.
    Received {
        /// The box's input.
        input: usize,
        /// Rows; 0 for a pill.
        rows: usize,
        /// Whether it is the pill.
        pill: bool,
        /// The sender's logical time.
        stamp: u64,
    },
    /// The action saw the head of this input and did not take it. Reported once for each head.
    Left {
        /// The box's input.
        input: usize,
    },
    /// The action keeps the head it took from this input as long as the box lives ([`crate::Turn::record_kept`]).
    Kept {
        /// The box's input.
        input: usize,
    },
    /// An envelope was created for an output.
    Sent {
        /// The box's output.
        output: usize,
        /// Rows; 0 for a pill.
        rows: usize,
        /// Whether it is the pill.
        pill: bool,
        /// Bytes of its columns.
        bytes: u64,
    },
    /// How many bytes the action took or read.
    Read {
        /// Bytes on the node of the invocation.
        near: u64,
        /// Bytes on other nodes.
        far: u64,
    },
    /// The box holds another number of bytes beyond this action than after its last one ([`crate::Turn::book`]).
    Held {
        /// All bytes it holds.
        bytes: u64,
    },
    /// A receiver refused an envelope: the box is blocked from now on.
    Refused {
        /// The box's output.
        output: usize,
    },
    /// Boxes waited for each other, and a via of this output may hold more from now on: the box goes on.
    Overdrawn {
        /// The box's output.
        output: usize,
        /// So many bytes more; 0 if it keeps envelopes outside of memory.
        bytes: u64,
    },
    /// All receivers of an output took the envelopes they had refused.
    Resumed {
        /// The box's output.
        output: usize,
    },
}

impl Fact {
    /// How many events a world may record for a fact. The logical clock leaves this much room, so consequences of a
    /// fact are recorded after it.
    pub const EVENTS: u64 = 2;
}

/// A seat's buffers, used again for each invocation.
#[derive(Default)]
pub struct SeatBuffers {
    /// Boxes to be queued, the one to be run first last: an immediate one, if there is any. The world empties it after
    /// each invocation.
    pub activations: Vec<Activation>,
    /// The recorded facts.
    pub facts: Vec<Fact>,
    /// Whether facts are recorded.
    pub recording: bool,
    /// The seat's logical time, the stamp of sent envelopes. Facts advance it by [`Fact::EVENTS`] each.
    pub clock: u64,
    /// The seat's node.
    pub node: NodeId,
    /// Whether the request is to spread over the machine when an invocation has several receivers. A world sets this
    /// for a request that runs alone: other requests would have work for the other seats, so its deferred boxes would
    /// wait behind theirs, or theirs behind its own.
    pub spreads: bool,
    /// The source of memory for new columns.
    pub blocks: Blocks,
    /// Whether boxes that check for a stop ask the world as well ([`World::is_over`](crate::World::is_over)).
    pub asks_world: bool,
    /// The world's clock in nanoseconds, for [timed](crate::Instance::set_timed) requests.
    pub now_ns: Option<fn() -> u64>,
    /// The destination of boxes resumed from outside; `None` in a world without an outside: no box can pause there
    /// ([`Turn::pause`](crate::Turn::pause)).
    pub entry: Option<Entry>,
    /// The seat's number among those of [`Instance::new`](crate::Instance::new), for its counters. `None`: with the
    /// callers without a seat.
    pub seat: Option<usize>,
}

impl fmt::Debug for SeatBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SeatBuffers");
        shown.field("activations", &self.activations).field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl SeatBuffers {
    #[inline]
    pub(crate) fn note(&mut self, fact: Fact) {
        self.facts.push(fact);
        self.clock += Fact::EVENTS;
    }
}
