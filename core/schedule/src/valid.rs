//! The proof that no task is ever stranded, by looking at the plan alone.

use crate::{Plan, QueueId, SeatPlan, When};

impl Plan {
    /// Panics with the fact that does not hold, if a task put somewhere by this plan could stay there for ever:
    /// a wake ring is empty or names no seat with a thread; a seat that a push can wake does not take from that queue;
    /// a place, an entry or a dealt home has no queue; a home's queue is one that only its owner may push to; a pool has only
    /// spare seats.
    pub fn assert_valid(&self) {
        let name = &self.strategy;
        assert!(!self.seats.is_empty(), "{name}: a plan has seats");
        assert!(!self.entry.is_empty(), "{name}: callers without a seat have an entry queue");
        let mut pool_of = vec![0; self.seats.len()];
        for (index, pool) in self.pools.iter().enumerate() {
            assert!(pool.seats.iter().any(|seat| !self.seats[seat.index()].spare), "{name}: pool {index} has a thread");
            for seat in &pool.seats {
                pool_of[seat.index()] += 1;
                let plan = &self.seats[seat.index()];
                assert_eq!(plan.pool.index(), index, "{name}: {seat:?} knows its pool");
            }
        }
        assert!(pool_of.iter().all(|&pools| pools == 1), "{name}: every seat is in exactly one pool");

        for (index, queue) in self.queues.iter().enumerate() {
            let id = QueueId::new(index);
            assert!(!queue.wake.is_empty(), "{name}: a push to {} can wake someone", queue.name);
            for pool in &queue.wake {
                for seat in &self.pools[pool.index()].seats {
                    let serves = serves(&self.seats[seat.index()], id);
                    assert!(serves, "{name}: a push to {} can wake {seat:?}, which does not take from it", queue.name);
                }
            }
            if let Some(owner) = queue.owner {
                for (seat, plan) in self.seats.iter().enumerate() {
                    let pushes = plan.place.contains(&id);
                    assert!(
                        !pushes || seat == owner.index(),
                        "{name}: seat{seat} pushes to {}, not its own",
                        queue.name
                    );
                }
            }
        }
        for (index, seat) in self.seats.iter().enumerate() {
            // The pusher itself is awake: it finds the task when its own work is done.
            for queue in seat.place {
                let own = serves(seat, queue);
                let wakes = !self.queues[queue.index()].wake.is_empty();
                assert!(own || wakes, "{name}: seat{index} puts tasks into {queue:?} that nobody takes");
            }
            assert!(seat.while_waiting <= seat.look.len(), "{name}: seat{index} waits with probes that it has");
            for probe in &seat.look {
                if let When::LongerThan(limits) = &probe.when {
                    let queues = probe.scan.queues().len();
                    assert_eq!(limits.len(), queues, "{name}: seat{index}: a threshold for each queue of the scan");
                }
            }
        }
        assert!(
            self.homes.iter().all(|queues| !queues.is_empty()),
            "{name}: a task whose data lies on a node has a queue"
        );
        for queue in self.homes.iter().flatten().map(|queue| &self.queues[queue.index()]) {
            assert!(queue.owner.is_none(), "{name}: seats elsewhere push to {}, whose owner alone may", queue.name);
        }
        if let Some(dealing) = &self.dealing {
            assert_eq!(dealing.costs.len(), dealing.queues.len(), "{name}: a cost row for each location");
            assert!(dealing.costs.iter().all(|row| row.len() == dealing.queues.len()), "{name}: square costs");
        }
    }
}

/// Whether a seat takes from a queue whenever it is not empty.
fn serves(seat: &SeatPlan, queue: QueueId) -> bool {
    seat.look.iter().any(|probe| {
        let at = probe.scan.queues().iter().position(|&other| other == queue);
        at.is_some_and(|at| match &probe.when {
            When::NotEmpty => true,
            When::LongerThan(limits) => limits[at] == 0,
        })
    })
}
