//! The front: a queue before all others, for the boxes of young requests.
//!
//! A strategy orders tasks by locality, and the oldest request goes first. So a small request beside one of several
//! seconds waits for seconds, under any strategy: a seat at the long request's boxes always finds another of them near.
//! A plan has a front if short requests are to stay short. A request has a **head start** of some nanoseconds on seats;
//! while some of it is left and other requests run as well, the world puts its boxes into the front. A seat looks there
//! first, and its next task waits. So a request within its head start waits for one invocation of a longer one at most,
//! and a longer one goes the strategy's way afterwards.
//!
//! This is feedback by levels (Corbató, Merwin-Daggett, Daley, "An Experimental Time-Sharing System", AFIPS SJCC 1962)
//! with two levels. We differ: the upper level has a bounded share. After [`FRONT_TURN_NS`] of work from the front, a
//! seat does one task of its strategy before the next, or leaves the front alone for a [turn](crate::TURN_NS) while
//! requests have turns. So an endless row of short requests slows a long one and does not stop it.
//!
//! In the front the oldest request goes first, and of its boxes the youngest: a receiver runs behind its sender, as in
//! a seat's own queue.

use crate::{BoxPlacement, Plan, PoolId, Probe, QueueId, QueueOrder, QueueScan, QueueSpec, RULES, Take, When};

/// The rule by which a seat takes from the front. Strategies have smaller ones.
pub const FRONT_RULE: u8 = RULES as u8 - 1;

/// How a seat takes from the front.
pub(crate) const FRONT_TAKE: Take = Take::YoungestOfOldestRequest;

/// The time a seat works at tasks from the front before it does one found by its strategy, if there is one.
pub const FRONT_TURN_NS: u64 = 10_000_000;

impl Plan {
    /// This plan with a [front](BoxPlacement::Front). By its last probe a seat takes from there while a task waits on
    /// it, tasks of that task's request alone; a free seat looks there before it looks anywhere else
    /// ([`Seat::find`](crate::Seat::find)).
    ///
    /// ```
    /// use vicus_schedule::Setting;
    /// use vicus_topology::Topology;
    ///
    /// let machine = Topology::parse("node:1 core:2").unwrap();
    /// let plan = "las".parse::<Setting>().unwrap().plan(&machine, 2).with_front();
    /// plan.assert_valid();
    /// assert_eq!(plan.queues[plan.front().unwrap().index()].name, "front");
    /// ```
    #[must_use]
    pub fn with_front(mut self) -> Plan {
        if self.front().is_some() {
            return self;
        }
        let front = QueueId::new(self.queues.len());
        self.queues.push(QueueSpec {
            name: "front".to_owned(),
            owner: None,
            order: QueueOrder::ByRequest,
            capacity: None,
            home: self.seats[0].node,
            wake: (0..self.pools.len()).map(PoolId::new).collect(),
            robbers: Vec::new(),
        });
        for seat in &mut self.seats {
            seat.look.push(Probe {
                rule: FRONT_RULE,
                scan: QueueScan::List(vec![front]),
                take: FRONT_TAKE,
                when: When::NotEmpty,
                rest_to: None,
                while_waiting: false,
            });
        }
        self.boxes.insert(0, BoxPlacement::Front(front));
        self
    }
}
