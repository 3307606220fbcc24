//! The front: a queue before all others, for boxes of requests that have only just begun.
//!
//! A strategy orders tasks by locality, and of requests the oldest goes first. So beside a request that runs for seconds, a small one
//! waits for seconds, whichever strategy it is: a seat that is at the long one's boxes always finds another of them near. Where short
//! requests are to stay short, a plan has a front. A request has a **head start**, so many nanoseconds on seats; while there is some of it left
//! and other requests run as well, the world puts its boxes into the front. A seat looks there first, and what it had next waits. So a
//! request that needs no more than its head start waits for one invocation of a longer one at most, and a longer one goes the strategy's
//! way afterwards.
//!
//! That is feedback by levels (Corbató, Merwin-Daggett, Daley, "An Experimental Time-Sharing System", AFIPS SJCC 1962) with two of
//! them. We differ: the upper level has a bounded share. A seat that has worked for [`FRONT_TURN_NS`] at what it found in the front does one
//! task of its strategy's before the next, or leaves the front alone for a [turn](crate::TURN_NS) while requests have these, so an endless row of short requests slows
//! a long one and does not stop it.
//!
//! In the front the oldest request goes first, and of its boxes the youngest: a receiver runs behind its sender, as in a seat's own queue.

use crate::{Order, Plan, PoolId, Probe, QueueId, QueueSpec, RULES, Scan, Take, When};

/// The rule by which a seat takes from the front. Strategies have smaller ones.
pub const FRONT_RULE: u8 = RULES as u8 - 1;

/// How a seat takes from the front.
pub(crate) const FRONT_TAKE: Take = Take::YoungestOfOldestRequest;

/// A seat works so long at tasks from the front before it does one of those that its strategy finds, if there is one.
pub const FRONT_TURN_NS: u64 = 10_000_000;

impl Plan {
    /// The same plan with a [front](Plan::front). By its last probe a seat takes from there while a task waits on it, of that task's request
    /// alone; a free seat looks there before it looks anywhere else ([`Seat::find`](crate::Seat::find)).
    ///
    /// ```
    /// use vicus_schedule::Setting;
    /// use vicus_topology::Topology;
    ///
    /// let machine = Topology::parse("node:1 core:2").unwrap();
    /// let plan = "las".parse::<Setting>().unwrap().plan(&machine, 2).with_front();
    /// plan.assert_valid();
    /// assert_eq!(plan.queues[plan.front.unwrap().index()].name, "front");
    /// ```
    #[must_use]
    pub fn with_front(mut self) -> Plan {
        if self.front.is_some() {
            return self;
        }
        let front = QueueId::new(self.queues.len());
        self.queues.push(QueueSpec {
            name: "front".to_owned(),
            owner: None,
            order: Order::ByRequest,
            capacity: None,
            home: self.seats[0].node,
            wake: (0..self.pools.len()).map(PoolId::new).collect(),
            robbers: Vec::new(),
        });
        for seat in &mut self.seats {
            seat.look.push(Probe {
                rule: FRONT_RULE,
                scan: Scan::List(vec![front]),
                take: FRONT_TAKE,
                when: When::NotEmpty,
                rest_to: None,
                while_waiting: false,
            });
        }
        self.front = Some(front);
        self
    }
}
