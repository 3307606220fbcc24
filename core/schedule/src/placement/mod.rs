//! Placements: the ways to find the queue of a task or a box. A plan lists them, and a seat tries them in that order.
//!
//! A new way is a variant here, a file beside this one, an arm in `seat/placing.rs`, and its entry in the list of a
//! strategy. The variant brings its check ([`Plan::assert_valid`]) and its lines in a plan's text.

mod by_bytes;
mod crowd;
pub(crate) mod in_turn;
mod warm;

pub use by_bytes::{DealResult, Dealing, Shares, Spawner, Whereabouts};
pub use crowd::Crowd;
pub use warm::{LastUses, Uses, Warm};

use crate::valid::serves;
use crate::{Plan, QueueId};
use std::fmt;

/// A way to find a task's queue.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskPlacement {
    /// Among many requests, a task with data stays on its spawner's node.
    Crowd(Crowd),
    /// A task with data goes to the pool that used them last. Parts of their spawners' work ([`Dealing::fan`]) do not.
    Warm(Warm),
    /// A task with data goes where its bytes cost least.
    ByBytes(Dealing),
    /// A task goes to these queues in turn, as its spawner counts ([`Plan::queue_in_turn`]).
    InTurn(Vec<QueueId>),
    /// A deferred task without data goes into its spawner's own queue once the spawner has found the usual queue in use
    /// by another seat, while there is one request: so the spawner waits for no lock
    /// ([`Seat::spill`](crate::Seat::spill)).
    SpillToOwn,
    /// A task goes to the queue of its kind of the spawner's seat ([`SeatPlan::place`](crate::SeatPlan::place)).
    Own,
}

/// A way to find the queue of an activated box.
#[derive(Clone, Debug, PartialEq)]
pub enum BoxPlacement {
    /// Boxes of young requests, beside other requests, go to this queue before all others ([`Plan::with_front`]).
    Front(QueueId),
    /// A box with a part of a range goes to a queue of the part's node ([`Plan::homes`]).
    AtHome,
    /// A box goes where the heads of its inputs cost least, by the dealing of the plan's tasks. In plans without this,
    /// boxes go by their kind: a freshly sent envelope is in its sender's caches, wherever its pages lie.
    ByHeads,
    /// A box without a part of a range goes to one of these queues by its number.
    ByNumber(Vec<QueueId>),
    /// A box goes to the queue of its kind of the activating seat.
    Own,
    /// A box with rows received is a deferred task, and not an immediate one, and goes to that queue of the seat.
    OwnDeferred,
}

/// The parts of a plan's text that have a placement's lines. Readers of texts know the lines in this order, and not in
/// that of trying.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    /// Places without data.
    Plain,
    /// Places by bytes.
    Bytes,
    /// Places by caches.
    Caches,
    /// Young requests.
    Young,
}

impl TaskPlacement {
    /// The queues it may name, other than the seat's own.
    pub(crate) fn queues(&self) -> &[QueueId] {
        match self {
            TaskPlacement::Crowd(crowd) => &crowd.queues,
            TaskPlacement::Warm(warm) => &warm.queues,
            TaskPlacement::ByBytes(dealing) => &dealing.queues,
            TaskPlacement::InTurn(queues) => queues,
            TaskPlacement::SpillToOwn | TaskPlacement::Own => &[],
        }
    }

    /// Panics with the broken fact if a task placed in this way could be stranded.
    pub(crate) fn assert_valid(&self, plan: &Plan) {
        match self {
            TaskPlacement::Crowd(crowd) => crowd.assert_valid(plan),
            TaskPlacement::Warm(warm) => warm.assert_valid(plan),
            TaskPlacement::ByBytes(dealing) => dealing.assert_valid(plan),
            TaskPlacement::InTurn(queues) => in_turn::assert_valid(queues, plan),
            TaskPlacement::SpillToOwn | TaskPlacement::Own => {}
        }
    }

    pub(crate) fn section(&self) -> Section {
        match self {
            TaskPlacement::InTurn(_) | TaskPlacement::SpillToOwn | TaskPlacement::Own => Section::Plain,
            TaskPlacement::Crowd(_) | TaskPlacement::ByBytes(_) => Section::Bytes,
            TaskPlacement::Warm(_) => Section::Caches,
        }
    }

    /// Its lines in a plan's text.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
        match self {
            // It replaces the dealing, and has its line there.
            TaskPlacement::Crowd(_) => Ok(()),
            TaskPlacement::Warm(warm) => warm.write(f, plan),
            TaskPlacement::ByBytes(dealing) => dealing.write(f, plan),
            TaskPlacement::InTurn(queues) => in_turn::write(queues, f, plan),
            TaskPlacement::SpillToOwn => writeln!(
                f,
                "deferred tasks of an only request, once another seat uses their queue: to the spawner's immediate ones"
            ),
            TaskPlacement::Own => Ok(()),
        }
    }
}

impl BoxPlacement {
    /// Panics with the broken fact if a box placed in this way could be stranded.
    pub(crate) fn assert_valid(&self, plan: &Plan) {
        let name = &plan.strategy;
        match self {
            BoxPlacement::Front(front) => {
                let queue = &plan.queues[front.index()];
                let everyone = plan.seats.iter().all(|seat| serves(seat, *front));
                let is_open = queue.owner.is_none() && queue.capacity.is_none();
                assert!(everyone && is_open, "{name}: every seat pushes to the front, and takes from it");
            }
            BoxPlacement::ByHeads => {
                assert!(plan.dealing().is_some(), "{name}: boxes are dealt as tasks are");
            }
            BoxPlacement::ByNumber(queues) => in_turn::assert_valid(queues, plan),
            BoxPlacement::AtHome | BoxPlacement::Own | BoxPlacement::OwnDeferred => {}
        }
    }

    pub(crate) fn section(&self) -> Section {
        match self {
            BoxPlacement::Front(_) => Section::Young,
            BoxPlacement::ByHeads => Section::Bytes,
            BoxPlacement::AtHome | BoxPlacement::ByNumber(_) | BoxPlacement::Own | BoxPlacement::OwnDeferred => {
                Section::Plain
            }
        }
    }

    /// Its lines in a plan's text.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
        match self {
            BoxPlacement::Front(front) => {
                let queue = plan.name(*front);
                writeln!(f, "requests that have just begun: to {queue}, where a free seat looks first")
            }
            BoxPlacement::OwnDeferred => writeln!(f, "boxes that have received rows: as deferred tasks"),
            // Tasks without a place go there too, and have the line.
            BoxPlacement::ByNumber(queues) if queues == plan.in_turn() => Ok(()),
            BoxPlacement::ByNumber(queues) => writeln!(f, "boxes: by number to {}", plan.names(queues)),
            // Homes and the dealing of tasks have the lines.
            BoxPlacement::AtHome | BoxPlacement::ByHeads | BoxPlacement::Own => Ok(()),
        }
    }
}
