//! What a seat has on its desk while it runs boxes: what is to be queued, and what happened to envelopes.

use crate::{Blocks, BoxId, Queued};
use vicus_schedule::Kind;
use vicus_topology::NodeId;

/// A box that has to be put into a queue.
#[derive(Debug)]
pub struct Activation {
    /// The evidence.
    pub queued: Queued,
    /// How it is to be queued. The framework decides it, never the user. A box that received rows is immediate, and so is one that
    /// left some over when it ended. Deferred is one that the initialization pill woke, that asked to run again, or that found room
    /// after a refusal; and where the request [spreads](Desk::spreads), all receivers of one invocation but the last.
    pub kind: Kind,
    /// Which box.
    pub index: BoxId,
    /// Where the data lies for which it is to be run, if its envelope said so ([`Envelope::at_home`](crate::Envelope::at_home)).
    pub home: Option<NodeId>,
}

/// Something that happened to an envelope, for the trace.
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
    /// The action saw the head of this input and left it. Told once of each.
    Left {
        /// The box's input.
        input: usize,
    },
    /// The action keeps the head of this input, which it took, as long as the box lives ([`crate::Turn::keeps`]).
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
    /// The action took or read so much: from where it ran, and from elsewhere.
    Read {
        /// Bytes that lay where it ran.
        near: u64,
        /// Bytes that lay elsewhere.
        far: u64,
    },
    /// What the box holds beyond this action is another number of bytes than after its last one ([`crate::Turn::holds`]).
    Held {
        /// All in all.
        bytes: u64,
    },
    /// A receiver refused: the box is blocked from now on.
    Refused {
        /// The box's output.
        output: usize,
    },
    /// All receivers of an output took what they had refused.
    Resumed {
        /// The box's output.
        output: usize,
    },
}

impl Fact {
    /// How many events a world may record for a fact. The logical clock leaves so much room, so that what a fact brings
    /// about is recorded after it.
    pub const EVENTS: u64 = 2;
}

/// A seat's buffers, used again for each invocation.
#[derive(Debug, Default)]
pub struct Desk {
    /// Boxes to be queued, the one to be run first last: an immediate one, if there is any. The world empties it after each
    /// invocation.
    pub activations: Vec<Activation>,
    /// What happened, if it is recorded.
    pub facts: Vec<Fact>,
    /// Whether facts are recorded.
    pub recording: bool,
    /// The seat's logical time; stamps the envelopes that are sent. Facts move it on by [`Fact::EVENTS`] each.
    pub clock: u64,
    /// Where the seat is.
    pub node: NodeId,
    /// Whether the request is to spread over the machine where an invocation has several receivers. A world says so of a request
    /// that is alone: beside others, which have work for the other seats, its deferred boxes would wait behind theirs, or theirs
    /// behind its own.
    pub spreads: bool,
    /// Where the memory of new columns comes from.
    pub blocks: Blocks,
    /// Whether boxes that ask whether they are stopped ask the world as well ([`World::is_over`](crate::World::is_over)).
    pub asks_world: bool,
    /// Where the seat counts, by its number among those of [`Instance::new`](crate::Instance::new). `None`: with the callers without a seat.
    pub seat: Option<usize>,
}

impl Desk {
    #[inline]
    pub(crate) fn note(&mut self, fact: Fact) {
        self.facts.push(fact);
        self.clock += Fact::EVENTS;
    }
}
