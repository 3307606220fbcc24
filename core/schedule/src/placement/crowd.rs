//! Many requests: then tasks with data stay on their spawners' nodes.

use super::DealResult;
use crate::access::total_bytes;
use crate::{Access, Plan, QueueId};
use vicus_topology::{DealReason, NodeId};

/// From a number of requests on, a task large enough to be dealt goes to a queue of its spawner's node, wherever its
/// bytes lie: requests then fill the machine, and caches have each request's recent data.
#[derive(Clone, Debug, PartialEq)]
pub struct Crowd {
    /// This number of requests is a crowd.
    pub requests: u32,
    /// A task with more bytes than this is placed.
    pub more_bytes_than: u64,
    /// By node, its queue. With a single node, tasks are put there by their spawner.
    pub queues: Vec<QueueId>,
}

impl Crowd {
    /// The queue of the spawner's node, if the number of requests sends a task with this footprint there.
    #[inline]
    pub(crate) fn deal(
        &self,
        node: NodeId,
        accesses: &[Access],
        requests: impl FnOnce() -> usize,
    ) -> Option<DealResult> {
        let is_placed = self.queues.len() > 1
            && requests() >= self.requests as usize
            && total_bytes(accesses) > self.more_bytes_than;
        is_placed.then(|| DealResult {
            queue: Some(self.queues[node.index()]),
            why: Some(DealReason::Crowd),
            ..DealResult::NONE
        })
    }

    /// Panics unless the seats of each node have a queue there, to which every seat may push.
    pub(super) fn assert_valid(&self, plan: &Plan) {
        let name = &plan.strategy;
        assert!(plan.dealing().is_some(), "{name}: tasks stay on a node in a crowd, and are dealt otherwise");
        for queue in self.queues.iter().map(|queue| &plan.queues[queue.index()]) {
            assert!(queue.owner.is_none(), "{name}: a crowd's tasks go to {}, whose owner alone may push", queue.name);
        }
        let has_queue = |node: NodeId| node.index() < self.queues.len();
        assert!(plan.seats.iter().all(|seat| has_queue(seat.node)), "{name}: each seat's node has a queue in a crowd");
    }
}
