//! The sleeping seats of a pool, and the choice of the one woken by a push. Plain data: a world puts a lock around it
//! if it needs one.
//!
//! A seat that finds nothing *announces* itself with the tasks it would take. A push *chooses* one announced seat, and
//! that seat is no longer announced: so a push wakes one seat. The seat learns of its task when it wakes, or when it
//! has found another task by itself meanwhile; then it leaves the first task to another seat
//! ([`Seat::take_wake`](crate::Seat::take_wake)).

use crate::{Plan, PoolId, QueueId, QueueSpec, RequestId};

/// The tasks a sleeping seat would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeper {
    /// Any task.
    Free,
    /// Its task waits: it takes other tasks of that request, and tasks open to every waiting seat.
    Waiting(RequestId),
}

/// The task a sleeping seat is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The task's queue.
    pub queue: QueueId,
    /// The task's request. `None`: only a free seat is to look there.
    pub request: Option<RequestId>,
    /// Whether waiting seats take any task from there ([`Plan::for_waiting`]).
    pub while_waiting: bool,
}

impl Wake {
    /// Whether this seat would take the task. A waiting seat woken for another request's task would pass it to another
    /// waiting seat and get it back, while a free seat sleeps on.
    fn suits(&self, sleeper: Sleeper) -> bool {
        match sleeper {
            Sleeper::Free => true,
            Sleeper::Waiting(request) => self.while_waiting || self.request == Some(request),
        }
    }
}

/// The sleeping seats of a pool, by slot: their index in [`Pool::seats`](crate::Pool::seats).
///
/// ```
/// use vicus_schedule::{QueueId, RequestId, Sleeper, Sleepers, Wake};
///
/// let mut sleepers = Sleepers::new(2);
/// sleepers.announce(0, Sleeper::Free);
/// sleepers.announce(1, Sleeper::Waiting(RequestId::new(7)));
/// let wake = Wake { queue: QueueId::new(3), request: Some(RequestId::new(7)), while_waiting: false };
/// assert_eq!(sleepers.choose(wake), Some(0), "a free seat comes first");
/// assert_eq!(sleepers.choose(Wake { request: Some(RequestId::new(8)), ..wake }), None, "slot 1 would not take it");
/// assert_eq!(sleepers.choose(wake), Some(1));
/// assert_eq!((sleepers.stay(0), sleepers.stay(0)), (Some(wake), None));
/// ```
#[derive(Debug)]
pub struct Sleepers {
    /// Announced seats that are not chosen, the last one last.
    announced: Vec<(usize, Sleeper)>,
    /// By slot, the task the seat was chosen for, until it is told. Invariant: an announced seat is not chosen.
    chosen: Box<[Option<Wake>]>,
}

impl Sleepers {
    /// For a pool without sleeping seats.
    pub fn new(slots: usize) -> Sleepers {
        Sleepers { announced: Vec::with_capacity(slots), chosen: (0..slots).map(|_| None).collect() }
    }

    /// A seat goes to sleep, unless its last look finds a task.
    pub fn announce(&mut self, slot: usize, sleeper: Sleeper) {
        self.announced.push((slot, sleeper));
    }

    /// Whether this seat may be chosen.
    pub fn is_announced(&self, slot: usize) -> bool {
        self.announced.iter().any(|&(other, _)| other == slot)
    }

    /// How many seats may be chosen.
    pub fn announced(&self) -> usize {
        self.announced.len()
    }

    /// Whether no seat is announced, and each chosen one has been told.
    pub fn is_idle(&self) -> bool {
        self.announced.is_empty() && self.chosen.iter().all(Option::is_none)
    }

    /// Chooses the seat to wake for a task: a free one before a waiting one that takes the task. Of several, the last
    /// to announce itself: it has the warmest caches.
    pub fn choose(&mut self, wake: Wake) -> Option<usize> {
        let free = self.announced.iter().rposition(|&(_, sleeper)| sleeper == Sleeper::Free);
        let found = free.or_else(|| self.announced.iter().rposition(|&(_, sleeper)| wake.suits(sleeper)));
        let (slot, _) = self.announced.remove(found?);
        self.chosen[slot] = Some(wake);
        Some(slot)
    }

    /// The task a seat was chosen for; it is told once.
    pub fn tell(&mut self, slot: usize) -> Option<Wake> {
        self.chosen[slot].take()
    }

    /// A seat does not sleep any more, or does not go to sleep. Gives the task it was chosen for, if it was.
    pub fn stay(&mut self, slot: usize) -> Option<Wake> {
        if let Some(at) = self.announced.iter().position(|&(other, _)| other == slot) {
            self.announced.remove(at);
        }
        self.tell(slot)
    }
}

impl Plan {
    /// Wakes one seat for a push into a queue: in near pools first, and if no seat there is woken, in pools that take
    /// from a long queue. `length`: its number of tasks. `wakes` wakes a seat of a pool and says whether there was one.
    #[inline]
    pub fn wake_one(
        &self,
        queue: QueueId,
        length: impl FnOnce() -> usize,
        mut wakes: impl FnMut(PoolId) -> bool,
    ) -> Option<PoolId> {
        let spec = &self.queues[queue.index()];
        let near = spec.wake.iter().copied().find(|&pool| wakes(pool));
        if near.is_some() || spec.robbers.is_empty() { near } else { spec.wake_robber(length(), wakes) }
    }
}

impl QueueSpec {
    #[cold]
    fn wake_robber(&self, length: usize, mut wakes: impl FnMut(PoolId) -> bool) -> Option<PoolId> {
        let robbers = self.robbers.iter().filter(|robber| length > robber.longer_than as usize);
        robbers.map(|robber| robber.pool).find(|&pool| wakes(pool))
    }
}
