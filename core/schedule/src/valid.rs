//! The proof that no task is ever stranded, from the plan alone.

use crate::{BoxPlacement, Idle, Plan, PoolId, Probe, QueueId, RULES, Robber, SeatPlan, Take, TaskPlacement, When};

impl Plan {
    /// Panics with the broken fact if a task put somewhere by this plan could stay there for ever: a wake ring is empty
    /// or names no seat with a thread; a seat is woken by a push to a queue it does not take from; an awaited task lies
    /// in a queue outside the waiting seat's looks, and all seats with a look there may wait, too; a place, an entry or
    /// a dealt home has no queue; only the owner may push to a home's queue, or to one that is dealt to in turn; a pool
    /// has only spare seats; a pool does not take from its queue of warm tasks; a plan with unbound threads binds one;
    /// a seat waits for a queue to become long, and sleeps without a push that wakes it; a token could be left without
    /// a task. It also panics if worlds do not count a rule's number.
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
                    let pushes = plan.place.contains(&id) || plan.tasks == id;
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
            for queue in seat.place.into_iter().chain([seat.tasks]) {
                let own = serves(seat, queue);
                let wakes = !self.queues[queue.index()].wake.is_empty();
                assert!(
                    own || wakes,
                    "{name}: seat{index} puts tasks into {queue:?}, from which neither it nor a woken seat takes"
                );
            }
            if let Idle::BackOff { factor, .. } = seat.idle {
                assert!(factor > 1, "{name}: seat{index}'s pauses grow");
            }
            for probe in &seat.look {
                let rule = probe.rule;
                assert!(
                    (1..RULES).contains(&rule.into()),
                    "{name}: seat{index}: rule {rule} is none of 1 to {}",
                    RULES - 1
                );
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
        if self.roams {
            for (index, seat) in self.seats.iter().enumerate() {
                assert!(seat.affinity.is_empty(), "{name}: threads are not bound, and seat{index} is");
            }
        }
        for (index, queue) in self.queues.iter().enumerate() {
            let mut robbers = queue.robbers.clone();
            robbers.sort_by_key(|robber| robber.pool);
            let expected = self.robbers_of(QueueId::new(index));
            assert_eq!(
                robbers, expected,
                "{name}: a push that makes {} long wakes the seats that then take from it",
                queue.name
            );
        }
        self.tasks.iter().for_each(|placement| placement.assert_valid(self));
        self.boxes.iter().for_each(|placement| placement.assert_valid(self));
        let is_last_own = self.tasks.last() == Some(&TaskPlacement::Own);
        assert!(is_last_own, "{name}: a task that is placed in no other way stays with its seat");
        let is_last_own = matches!(self.boxes.last(), Some(BoxPlacement::Own | BoxPlacement::OwnDeferred));
        assert!(is_last_own, "{name}: a box that is placed in no other way stays with its seat");
        let is_front = |placement: &BoxPlacement| matches!(placement, BoxPlacement::Front(_));
        assert!(!self.boxes.iter().skip(1).any(is_front), "{name}: a front goes before all other places");
        self.assert_waiting();
        if self.tokens.is_some() {
            self.assert_tokens();
        }
    }

    /// A waiting seat takes tasks of its own request from every queue it looks into, whenever there are some. If it
    /// does not look into a queue in this way, then all seats woken by a push to it take any task from it, even while
    /// they wait.
    fn assert_waiting(&self) {
        let name = &self.strategy;
        for (index, spec) in self.queues.iter().enumerate() {
            let queue = QueueId::new(index);
            let is_everybodys = self.seats.iter().all(|seat| serves(seat, queue));
            let woken = spec.wake.iter().flat_map(|pool| &self.pools[pool.index()].seats);
            for seat in woken.filter(|_| !is_everybodys) {
                let plan = &self.seats[seat.index()];
                let takes = longer_than(plan.look.iter().filter(|probe| probe.while_waiting), queue) == Some(0);
                assert!(takes, "{name}: {seat:?} waits, and leaves in {} what others wait for", spec.name);
            }
        }
        let owner_lifos = self.owner_lifos();
        for (index, seat) in self.seats.iter().enumerate() {
            for &queue in seat.look.iter().filter(|probe| !probe.while_waiting).flat_map(|probe| probe.scan.queues()) {
                // A deque with an owner and thieves can't be searched.
                let is_searched = !owner_lifos[queue.index()];
                assert!(is_searched, "{name}: seat{index} picks a request's tasks out of {queue:?}");
            }
        }
    }

    /// The pools whose seats take from a queue only when it is long, with the least threshold of their seats.
    fn robbers_of(&self, queue: QueueId) -> Vec<Robber> {
        let robber = |pool: usize| {
            let seats = self.pools[pool].seats.iter().map(|seat| &self.seats[seat.index()]);
            let least = seats.filter_map(|seat| longer_than(&seat.look, queue)).min().filter(|&length| length > 0);
            least.map(|longer_than| Robber { pool: PoolId::new(pool), longer_than })
        };
        (0..self.pools.len()).filter_map(robber).collect()
    }

    /// Every seat can take from every queue, one task at a time, so the holder of a token finds a task. A seat may
    /// leave a short queue alone: a task is taken in one step with its token, so both wait for the seats that a push
    /// wakes.
    fn assert_tokens(&self) {
        let name = &self.strategy;
        for (index, queue) in self.queues.iter().enumerate() {
            assert!(
                queue.owner.is_none() && queue.capacity.is_none(),
                "{name}: {} is everybody's, unbounded",
                queue.name
            );
            for seat in &self.seats {
                let takes = longer_than(&seat.look, QueueId::new(index)).is_some();
                assert!(takes, "{name}: every token finds what is in {}", queue.name);
            }
        }
        let several = |seat: &SeatPlan| seat.look.iter().any(|probe| matches!(probe.take, Take::Several(..)));
        assert!(!self.seats.iter().any(several), "{name}: one task is taken with a token");
    }
}

/// Whether a seat takes from a queue whenever it is not empty.
pub(crate) fn serves(seat: &SeatPlan, queue: QueueId) -> bool {
    longer_than(&seat.look, queue) == Some(0)
}

/// The number of tasks beyond which one of these probes takes from a queue.
fn longer_than<'a>(probes: impl IntoIterator<Item = &'a Probe>, queue: QueueId) -> Option<u32> {
    let lengths = probes.into_iter().filter_map(|probe| {
        let at = probe.scan.queues().iter().position(|&other| other == queue)?;
        Some(match &probe.when {
            When::NotEmpty => 0,
            When::LongerThan(limits) => limits[at],
        })
    });
    lengths.min()
}
