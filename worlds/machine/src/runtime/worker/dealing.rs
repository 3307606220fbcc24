//! Where a task with data or a place goes, and what is recorded of its data.

use super::{AtOnce, Worker};
use crate::memory::locality::{self, Everywhere};
use vicus_schedule::{Access, DealResult, Kind, QueueId, ReadyTask, TaskRef, Uses};
use vicus_topology::Place;

impl Worker {
    /// The queue of a task with this footprint and no place.
    #[inline]
    pub(crate) fn deal(&mut self, accesses: &[Access]) -> DealResult {
        let shared = &self.shared;
        let spawner = &mut self.frame.spawner;
        self.seat.deal(
            &shared.plan,
            accesses,
            spawner,
            || shared.requests(),
            &mut Everywhere,
            shared.tables.last_uses.as_ref(),
        )
    }

    /// The uses that a task with this footprint marks when it begins, if the plan asks for the last use of data.
    #[inline]
    pub(crate) fn uses(&self, accesses: &[Access]) -> Uses {
        let shared = &self.shared;
        let warm = shared.plan.warm().zip(shared.tables.last_uses.as_ref());
        warm.map_or(Uses::NONE, |(warm, last_uses)| last_uses.uses(warm, accesses))
    }

    /// A task with these uses begins here.
    pub(crate) fn begin_uses(&self, uses: &Uses) {
        let pool = self.shared.plan.seats[self.seat.stands().index()].pool;
        self.shared.tables.last_uses.iter().for_each(|last_uses| last_uses.begin(pool, uses));
    }

    /// Records the data read and written by a task, and the reason for its dealt place.
    #[inline]
    pub(crate) fn record_footprint(
        &mut self,
        task: TaskRef,
        ordered: &[Access],
        accesses: &[Access],
        dealt: &DealResult,
    ) {
        if self.recorder.keeps_events() {
            let number = task.header().number;
            self.record_bytes(number, ordered, accesses);
            self.recorder.dealt(vicus_trace::JobId::task(self.frame.request.number() as u32, number), dealt);
        }
    }

    #[cold]
    fn record_bytes(&mut self, number: u32, ordered: &[Access], accesses: &[Access]) {
        self.recorder.task_says(self.frame.request, number, ordered, accesses);
        let (near, far) = self.near_and_far(accesses);
        self.recorder.task_uses(self.frame.request, number, near, far);
    }

    /// Records the place of a beginning task's data: another seat may have made the task.
    #[cold]
    pub(crate) fn record_begun(&mut self, accesses: &[Access]) {
        let (near, far) = self.near_and_far(accesses);
        self.recorder.running_uses(self.frame.request, near, far);
    }

    /// Bytes of these accesses on this seat's node, and on others.
    fn near_and_far(&self, accesses: &[Access]) -> (usize, usize) {
        let own = self.shared.plan.seats[self.seat.stands().index()].node.index();
        let nodes = locality::footprint_of(accesses).nodes;
        let near = nodes.get(own).copied().unwrap_or(0);
        (near, nodes.iter().sum::<usize>() - near)
    }

    /// The queue for tasks near a place; `None` if the plan has none for places.
    pub fn home_of(&mut self, place: Place) -> Option<QueueId> {
        if self.shared.plan.homes.is_empty() {
            return None;
        }
        let node = match place {
            Place::Node(node) => node,
            Place::Group(group) => {
                if let Some(queue) = self.shared.tables.group_queues.of(group) {
                    return Some(queue);
                }
                self.shared.topology().core_groups[group.index()].node
            }
        };
        let queue = self.seat.home(&self.shared.plan, node);
        // When its predecessors are over, a seat other than this one may queue the task.
        queue.or_else(|| Some(self.own_deferred()).filter(|own| self.shared.plan.queues[own.index()].owner.is_none()))
    }

    /// The queue of this seat's own deferred tasks.
    pub(crate) fn own_deferred(&self) -> QueueId {
        self.shared.plan.seats[self.seat.stands().index()].place[Kind::Deferred as usize]
    }

    /// Queues a task whose predecessors are over. Another seat may have spawned it, and others may have run the
    /// predecessors.
    pub(crate) fn queue_released(&mut self, queued: ReadyTask) -> AtOnce {
        self.recorder.observe_tasks();
        self.queue(queued)
    }
}
