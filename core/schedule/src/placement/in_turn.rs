//! Queues in turn: for tasks as their spawners count them, for boxes by their numbers.

use crate::{DEEP, Plan, QueueId, RequestId, SeatId};
use std::fmt;

/// The queue of a task without a named place, out of these. `turn` counts those of the spawning seat, from 0. Each seat
/// begins with the queue behind its own number, so they don't all spawn to one at first.
///
/// A seat with more than [`DEEP`] waiting tasks on its stack (`waits`: their number) keeps the tasks it spawns, and its
/// stack grows with the depth of a recursion. Otherwise it would wait for tasks of other seats, meanwhile run tasks
/// dealt to it by these, wait again, and so on, as often as there are tasks. (A task of Qthreads has a stack of its
/// own.)
pub(crate) fn of_task(queues: &[QueueId], seat: SeatId, turn: usize, waits: usize) -> Option<QueueId> {
    if waits > DEEP {
        return None;
    }
    nth(queues, seat.index().wrapping_add(1).wrapping_add(turn))
}

/// The queue of a box, out of these. A box is always queued at the same one, near its state; neighbours in a request,
/// and the first boxes of successive requests, at different ones.
pub(crate) fn of_box(queues: &[QueueId], request: RequestId, index: usize) -> Option<QueueId> {
    nth(queues, (request.number() as usize).wrapping_add(index))
}

fn nth(queues: &[QueueId], number: usize) -> Option<QueueId> {
    let turn = number.checked_rem(queues.len())?;
    Some(queues[turn])
}

pub(super) fn assert_valid(queues: &[QueueId], plan: &Plan) {
    let name = &plan.strategy;
    for queue in queues.iter().map(|queue| &plan.queues[queue.index()]) {
        assert!(queue.owner.is_none(), "{name}: all seats push to {} in turn, whose owner alone may push", queue.name);
        assert!(queue.capacity.is_none(), "{name}: {} is dealt to in turn, and may be full", queue.name);
    }
}

pub(super) fn write(queues: &[QueueId], f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
    writeln!(f, "what names no place: in turn to {}", plan.names(queues))
}
