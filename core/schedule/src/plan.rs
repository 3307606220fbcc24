//! The plan: all decisions of a strategy, as data.
//!
//! It is built once for a machine, a strategy and its parameters. It can be printed (`{plan}`), compared, written into
//! a trace, and checked ([`Plan::assert_valid`]). It never names a queue's implementation: worlds derive it
//! ([`Plan::owner_lifos`]).

use crate::placement::in_turn;
use crate::{Access, BoxPlacement, Crowd, Dealing, Kind, TaskPlacement, Warm};
use std::fmt;
use vicus_topology::{NodeId, PuId};

macro_rules! index {
    ($(#[doc = $doc:literal] $name:ident $word:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The id with this index. Panics beyond four billion.
            pub const fn new(index: usize) -> $name {
                assert!(index <= u32::MAX as usize, concat!("fewer than four billion of ", $word));
                $name(index as u32)
            }

            /// Its index in its vector.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, "{}"), self.0)
            }
        }
    )*};
}

index! {
    #[doc = "A queue, by its index in [`Plan::queues`]."] QueueId "q";
    #[doc = "A worker's slot, by its index in [`Plan::seats`]."] SeatId "seat";
    #[doc = "A thread pool, by its index in [`Plan::pools`]."] PoolId "pool";
}

/// The scheduling decisions for one machine under one strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The strategy's name with the parameters different from their defaults, as [`Setting`](crate::Setting) reads it.
    pub strategy: String,
    /// All queues.
    pub queues: Vec<QueueSpec>,
    /// All workers' slots, spare ones included.
    pub seats: Vec<SeatPlan>,
    /// The seats sleeping on one primitive. Invariant: every seat is in exactly one pool.
    pub pools: Vec<Pool>,
    /// The queues that callers without a seat put tasks into, one after the other. Invariant: not empty.
    pub entry: Vec<QueueId>,
    /// By node, the queues for a task spawned elsewhere with its data there: it goes to one of them. Empty if the
    /// spawner's seat decides alone. Otherwise invariant: no node's list is empty.
    pub homes: Vec<Vec<QueueId>>,
    /// Whether threads run on any PU the system puts them on: a seat asks for its PU before it looks for a task, and
    /// then behaves like one bound there ([`Seat::stand`](crate::Seat::stand)). Queues with an owner stay with their
    /// seat.
    pub roams: bool,
    /// If not `None`, a seat takes a task only together with a token. Each push adds one.
    pub tokens: Option<Tokens>,
    /// The ways to place a task that names no place, in the order they are tried. Invariant: the last one is
    /// [`TaskPlacement::Own`].
    pub tasks: Vec<TaskPlacement>,
    /// The ways to place an activated box, in the order they are tried. Invariant: a front is the first one, and the
    /// last one is [`BoxPlacement::Own`] or [`BoxPlacement::OwnDeferred`].
    pub boxes: Vec<BoxPlacement>,
}

/// Locality queues' pool of tokens (Wittmann and Hager, 2010, §2.2): the queues hold blocks of work, and the holder of
/// a token takes a block, of its own domain if there is one.
///
/// A push adds its token after its block, and a token is taken in one step with a block: there are never more tokens
/// than blocks, so every token finds one. We differ: in the paper a thread holds a token while it looks for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// A seat looks for a task itself at once if its push makes more tokens than this; `None` is unlimited. Callers
    /// without a seat add tokens without bound.
    pub capacity: Option<u32>,
}

/// A queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    /// A name for people: `immediate of seat3`.
    pub name: String,
    /// The only seat that pushes here by its table; `None` if several do.
    pub owner: Option<SeatId>,
    /// How it is sorted.
    pub order: QueueOrder,
    /// A push beyond this many tasks is refused, and the spawner runs the task itself.
    pub capacity: Option<u32>,
    /// The node expected to have its tasks' data.
    pub home: NodeId,
    /// The pools in which a push may wake one sleeper, in this order. Invariant: not empty, and each of their seats
    /// takes from this queue whenever it is not empty.
    pub wake: Vec<PoolId>,
    /// The pools that take from it only above a threshold of length: a push above it may wake one of their sleepers, if
    /// no seat in `wake` sleeps.
    pub robbers: Vec<Robber>,
}

/// A pool that takes from a long queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Robber {
    /// The pool.
    pub pool: PoolId,
    /// The pool takes when the queue holds more tasks than this.
    pub longer_than: u32,
}

/// How a queue is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// By arrival; both ends are reachable.
    Deque,
    /// A priority queue of double-ended queues by request (Falt et al. §4.1).
    ByRequest,
}

/// A worker's slot, the owner of queues. Queues don't belong to "the PU that the thread happens to be on": a thread
/// that migrates between push and pop would be at another owner's end. Here we differ from Falt et al. §4.1.
#[derive(Clone, Debug, PartialEq)]
pub struct SeatPlan {
    /// The PU distances are counted from.
    pub pu: PuId,
    /// The node of this PU.
    pub node: NodeId,
    /// The PUs its thread may run on; empty means anywhere.
    pub affinity: Vec<PuId>,
    /// The pool it sleeps in.
    pub pool: PoolId,
    /// A slot without a thread until another seat of the pool declares that it blocks.
    pub spare: bool,
    /// Whether no other seat of the plan, apart from spare ones, is on the same processor of the system: a description
    /// may have several PUs for one.
    pub is_alone: bool,
    /// The queue for a task of each kind spawned here.
    pub place: [QueueId; Kind::COUNT],
    /// The queue for an immediate task that is no box. It differs from that of `place` if seats of another node, or all
    /// others, leave immediate boxes alone: a program's own tasks begin on one seat, and the others would idle.
    pub tasks: QueueId,
    /// The seat's looks for work: the first probe that finds something wins.
    pub look: Vec<Probe>,
    /// The seat's action when no probe finds anything.
    pub idle: Idle,
    /// How it looks around while a task waits on it, before it sleeps.
    pub patience: Patience,
}

/// How a seat looks around while a task waits on it, where it would sleep by its [`Idle`]. The default is to sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// How long it looks around at least, in nanoseconds. Now and then it gives way to another thread on its PU.
    pub least_ns: u64,
    /// How often it gives way before it sleeps.
    pub gives_way: u32,
}

/// One step of looking for work.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The number of this step's rule in the paper, counted from 1. Invariant: less than [`RULES`].
    pub rule: u8,
    /// The queues, in order.
    pub scan: QueueScan,
    /// The task to take from the first queue that serves.
    pub take: Take,
    /// When a queue serves.
    pub when: When,
    /// The queue for the other tasks of a take of several.
    pub rest_to: Option<QueueId>,
    /// Whether the probe finds any task while a task of the seat waits, or only tasks of the waiting one's request.
    /// True for probes of immediate tasks, or if one queue has both kinds. A task runs on top of the waiting one, and
    /// the waiting one goes on when both are done: long tasks of other requests are for free seats.
    pub while_waiting: bool,
}

/// The queues a probe looks into.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueScan {
    /// Always in this order.
    List(Vec<QueueId>),
    /// A ring: the scan resumes at the queue that served last. The world keeps the cursor under this index.
    Ring(Vec<QueueId>, usize),
}

/// The task to take from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The task put last.
    Youngest,
    /// The task put first.
    Oldest,
    /// From the oldest request, the task put last.
    YoungestOfOldestRequest,
    /// From the second oldest request the task put first; from the only request if there is no second. One atomic step.
    OldestOfSecondOldestRequest,
    /// The task at this end from the request behind the one served last in this way. A round ends behind the youngest
    /// request at its beginning, and a new one begins with the oldest. So after the rest of the round it arrives in, a
    /// request waits for at most one task of each other one. In a deque, the task at that end.
    InTurn(End),
    /// Up to this number from one end; the first is run, the others go to the probe's `rest_to`.
    Several(End, u16),
}

impl Take {
    /// The end of a request's tasks to take from.
    pub fn end(self) -> End {
        match self {
            Take::Youngest | Take::YoungestOfOldestRequest => End::Youngest,
            Take::Oldest | Take::OldestOfSecondOldestRequest => End::Oldest,
            Take::InTurn(end) | Take::Several(end, _) => end,
        }
    }
}

/// An end of a deque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end of the tasks put last.
    Youngest,
    /// The end of the tasks put first.
    Oldest,
}

/// When a queue serves a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// The queue holds a task.
    NotEmpty,
    /// The queue holds more tasks than its threshold; one threshold for each queue of the scan.
    LongerThan(Vec<u32>),
}

impl When {
    /// The scan's queue of this index serves if it holds more tasks than this.
    #[inline]
    pub fn longer_than(&self, at: usize) -> u32 {
        match self {
            When::NotEmpty => 0,
            When::LongerThan(limits) => limits[at],
        }
    }
}

/// A seat's action after it has found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Looks around for this time, then sleeps until a spawn wakes it.
    Sleep {
        /// Nanoseconds of looking around before it sleeps; 0 is not at all. After a short sleep it is more: see
        /// [`Seat::woken`](crate::Seat::woken).
        spin_ns: u32,
    },
    /// Looks again after a pause; the pause grows up to a limit (Muddukrishna et al. §4.1).
    BackOff {
        /// The first pause, in nanoseconds.
        first_ns: u32,
        /// The pause's factor of growth. Invariant: at least 2, so the pause reaches its limit.
        factor: u8,
        /// The longest pause, in nanoseconds.
        max_ns: u32,
        /// Whether the seat sleeps until a push wakes it, once it has found nothing after the longest pause. Otherwise
        /// it goes on with pauses of that length, also while a task of it waits, and is never woken.
        sleeps: bool,
    },
}

/// Seats that sleep on one primitive (Falt et al. §4.3).
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its seats.
    pub seats: Vec<SeatId>,
}

impl QueueScan {
    /// The queues; of a ring, beginning with its first.
    pub fn queues(&self) -> &[QueueId] {
        match self {
            QueueScan::List(queues) | QueueScan::Ring(queues, _) => queues,
        }
    }
}

/// The largest number of a strategy's rule, counted from 1, and one more: takes are counted by rule.
pub const RULES: usize = 7;

/// The most threads of a plan: its size grows with the square of their number.
pub const MOST_THREADS: usize = 2048;

/// More than five change nothing: by then, each ready thread of the PU has had its turn. With two threads on each PU, a
/// barrier takes 1.9 µs instead of 25, with eight 11 instead of 150.
const MEMBER_GIVES_WAY: u32 = 10;

impl Plan {
    /// The plan for a team, whose members wait for one another: a waiting one looks around for at least `least_ns`
    /// nanoseconds before it sleeps, and gives way to other threads on its PU.
    ///
    /// If each member has a processor, the time should exceed that of waking a thread: otherwise two members waiting
    /// for each other in turn both fall asleep before the other one is awake, each time. Members that share a processor
    /// get theirs sooner when the waiting one gives way: sleeping and waking would cost both more.
    ///
    /// ```
    /// use vicus_schedule::Setting;
    /// use vicus_topology::Topology;
    ///
    /// let machine = Topology::parse("node:1 core:2").unwrap();
    /// let plan = "vicus".parse::<Setting>().unwrap().plan(&machine, 4).for_team(100_000);
    /// assert!(plan.seats.iter().all(|seat| seat.patience.least_ns == 100_000));
    /// ```
    #[must_use]
    pub fn for_team(mut self, least_ns: u64) -> Plan {
        let patience = Patience { least_ns, gives_way: MEMBER_GIVES_WAY };
        self.seats.iter_mut().for_each(|seat| seat.patience = patience);
        self
    }

    /// The queue a seat puts a task of this kind into, if it is no box and names no place, and its kind in that queue.
    #[inline]
    pub fn place_of_task(&self, seat: SeatId, kind: Kind) -> (QueueId, Kind) {
        let SeatPlan { place: [immediate, deferred], tasks, .. } = self.seats[seat.index()];
        match kind {
            Kind::Immediate if tasks == deferred && tasks != immediate => (deferred, Kind::Deferred),
            Kind::Immediate => (tasks, Kind::Immediate),
            Kind::Deferred => (deferred, Kind::Deferred),
        }
    }

    /// The first pair of seats, neither of them spare, such that the second takes from none of the queues for the first
    /// one's tasks without a place or data; `None` if each seat takes every other one's tasks. While such a pair
    /// exists, the second seat may idle beside a first one with many tasks.
    pub fn idles_beside(&self) -> Option<(SeatId, SeatId)> {
        if !self.in_turn().is_empty() {
            // Each spawner gives every seat's queue its share.
            return None;
        }
        let threads: Vec<SeatId> =
            (0..self.seats.len()).map(SeatId::new).filter(|seat| !self.seats[seat.index()].spare).collect();
        let put_into: Vec<[QueueId; 2]> = (threads.iter())
            .map(|&spawner| [Kind::Immediate, Kind::Deferred].map(|kind| self.place_of_task(spawner, kind).0))
            .collect();
        // By queue, the last seat found to take from it.
        let mut takes = vec![None; self.queues.len()];
        let first_beside = |&seat: &SeatId| {
            let scanned = self.seats[seat.index()].look.iter().flat_map(|probe| probe.scan.queues());
            scanned.for_each(|queue| takes[queue.index()] = Some(seat));
            let is_left = |queues: &[QueueId; 2]| queues.iter().any(|queue| takes[queue.index()] != Some(seat));
            Some((threads[put_into.iter().position(is_left)?], seat))
        };
        threads.iter().filter_map(first_beside).min()
    }

    /// The warning for users about options that leave seats idle ([`Plan::idles_beside`]); `None` for a strategy
    /// without options: none idles by its defaults.
    ///
    /// ```
    /// use vicus_schedule::Setting;
    /// use vicus_topology::Topology;
    ///
    /// let machine = Topology::parse("node:2 core:2").unwrap();
    /// let warning = |setting: &str| setting.parse::<Setting>().unwrap().plan(&machine, 4).idle_warning();
    /// assert_eq!(warning("vicinity"), None);
    /// let text = warning("vicinity:undealt=beside,reach=1").unwrap();
    /// assert!(text.starts_with("strategy vicinity:reach=1,undealt=beside leaves threads idle"), "{text}");
    /// ```
    pub fn idle_warning(&self) -> Option<String> {
        let (name, _) = self.strategy.split_once(':')?;
        let (spawner, idle) = self.idles_beside()?;
        let pu = |seat: SeatId| self.seats[seat.index()].pu.index();
        Some(format!(
            "strategy {} leaves threads idle: the one on PU {} never takes a task that the one on PU {} spawns without \
             a place, however many wait there; leave out options (`{name}` alone leaves none idle), or name another \
             strategy (`vicus strategies` lists all)",
            self.strategy,
            pu(idle),
            pu(spawner)
        ))
    }

    /// Whether queues of it lie at places, or tasks are dealt to places by their data: threads elsewhere would take the
    /// tasks of a place although their data are far. A plan without places gains nothing by bound threads.
    ///
    /// ```
    /// use vicus_schedule::Setting;
    /// use vicus_topology::Topology;
    ///
    /// let machine = Topology::parse("node:2 core:2").unwrap();
    /// let has_places = |strategy: &str| strategy.parse::<Setting>().unwrap().plan(&machine, 4).has_places();
    /// assert!(["las", "footprint", "vicinity", "locality-queues", "shepherd", "vicus"].into_iter().all(has_places));
    /// assert!(!["nls", "bobox", "steal", "central"].into_iter().any(has_places));
    /// ```
    pub fn has_places(&self) -> bool {
        !self.homes.is_empty() || self.dealing().is_some()
    }

    /// Whether the tasks spawned by a task with this footprint are dealt as parts of its work ([`Dealing::fan`]).
    #[inline]
    pub fn divides(&self, accesses: &[Access]) -> bool {
        self.dealing().is_some_and(|dealing| dealing.divides(accesses))
    }

    /// By queue, whether it may be a deque with an owner and thieves: one seat alone pushes, and pops at the same end;
    /// all others take one at a time at the other end, unconditionally. This is for all queues at once, since it walks
    /// through the whole plan.
    pub fn owner_lifos(&self) -> Vec<bool> {
        let plain =
            |spec: &QueueSpec| spec.owner.is_some() && spec.order == QueueOrder::Deque && spec.capacity.is_none();
        let mut fits: Vec<bool> = self.queues.iter().map(plain).collect();
        let placed = self.tasks.iter().flat_map(TaskPlacement::queues);
        placed.chain(&self.entry).for_each(|queue| fits[queue.index()] = false);
        for (seat, plan) in self.seats.iter().enumerate() {
            let is_own = |queue: QueueId| self.queues[queue.index()].owner == Some(SeatId::new(seat));
            let rests = plan.look.iter().filter_map(|probe| probe.rest_to);
            let others = plan.place.into_iter().chain([plan.tasks]).chain(rests).filter(|&queue| !is_own(queue));
            others.for_each(|queue| fits[queue.index()] = false);
            for probe in &plan.look {
                for &queue in probe.scan.queues() {
                    let end = if is_own(queue) { Take::Youngest } else { Take::Oldest };
                    fits[queue.index()] &= probe.take == end && probe.when == When::NotEmpty;
                }
            }
        }
        fits
    }

    /// By queue, whether every seat that looks into it gets its oldest task, at any length. The two ends of such a
    /// queue may work without hindering each other. A queue with tokens has no such ends.
    ///
    /// ```
    /// use vicus_schedule::Setting;
    /// use vicus_topology::Topology;
    ///
    /// let machine = Topology::parse("node:2 core:2").unwrap();
    /// let are_fifos = |strategy: &str| strategy.parse::<Setting>().unwrap().plan(&machine, 4).fifos();
    /// assert_eq!(are_fifos("shepherd"), [true; 4], "one for each core group");
    /// assert!(!are_fifos("locality-queues").contains(&true), "its tasks go together with tokens");
    /// ```
    pub fn fifos(&self) -> Vec<bool> {
        let is_plain =
            |spec: &QueueSpec| spec.order == QueueOrder::Deque && spec.capacity.is_none() && self.tokens.is_none();
        let mut fits: Vec<bool> = self.queues.iter().map(is_plain).collect();
        // Tasks in the front are taken in their own way.
        self.front().iter().for_each(|front| fits[front.index()] = false);
        for probe in self.seats.iter().flat_map(|seat| &seat.look) {
            let is_oldest = probe.take == Take::Oldest && probe.when == When::NotEmpty;
            probe.scan.queues().iter().filter(|_| !is_oldest).for_each(|queue| fits[queue.index()] = false);
        }
        fits
    }

    /// The queue of a task spawned by this seat with its data on that node; `None` if it goes to its usual queue
    /// without a place, since no other seat is nearer. Tasks with different numbers go to different queues, if there
    /// are several.
    pub fn home_queue(&self, seat: SeatId, home: NodeId, number: usize) -> Option<QueueId> {
        let own = self.seats[seat.index()].place[Kind::Deferred as usize];
        let queues = self.homes.get(home.index()).filter(|queues| !queues.contains(&own))?;
        queues.get(number % queues.len()).copied()
    }

    /// The queue of a task without a named place, if the plan deals these in turn. `turn` counts those of the spawning
    /// seat, from 0, and `waits` the tasks that wait on its stack: beyond [`DEEP`](crate::DEEP) it keeps the task.
    ///
    /// ```
    /// use vicus_schedule::{SeatId, Setting};
    /// use vicus_topology::Topology;
    ///
    /// let machine = Topology::parse("node:3 core:1").unwrap();
    /// let plan = "shepherd".parse::<Setting>().unwrap().plan(&machine, 3);
    /// let to = |turn| plan.queue_in_turn(SeatId::new(1), turn, 0).unwrap().index();
    /// assert_eq!([0, 1, 2, 3].map(to), [2, 0, 1, 2]);
    /// ```
    pub fn queue_in_turn(&self, seat: SeatId, turn: usize, waits: usize) -> Option<QueueId> {
        in_turn::of_task(self.in_turn(), seat, turn, waits)
    }

    /// How a task with a footprint is dealt to a queue; `None` if bytes decide nothing.
    #[inline]
    pub fn dealing(&self) -> Option<&Dealing> {
        self.tasks.iter().find_map(|placement| match placement {
            TaskPlacement::ByBytes(dealing) => Some(dealing),
            _ => None,
        })
    }

    /// How a task goes to the pool that used its data last; `None` if it does not.
    #[inline]
    pub fn warm(&self) -> Option<&Warm> {
        self.tasks.iter().find_map(|placement| match placement {
            TaskPlacement::Warm(warm) => Some(warm),
            _ => None,
        })
    }

    /// How a task is placed among many requests; `None`: as among few.
    pub fn crowd(&self) -> Option<&Crowd> {
        self.tasks.iter().find_map(|placement| match placement {
            TaskPlacement::Crowd(crowd) => Some(crowd),
            _ => None,
        })
    }

    /// The queues, in turn, for tasks that name no place. Empty if these tasks go to the spawner's
    /// [`SeatPlan::place`].
    pub fn in_turn(&self) -> &[QueueId] {
        let in_turn = self.tasks.iter().find_map(|placement| match placement {
            TaskPlacement::InTurn(queues) => Some(&queues[..]),
            _ => None,
        });
        in_turn.unwrap_or_default()
    }

    /// Whether tasks go into their spawner's own queue while another seat uses the usual one
    /// ([`TaskPlacement::SpillToOwn`]).
    pub fn spills(&self) -> bool {
        self.tasks.contains(&TaskPlacement::SpillToOwn)
    }

    /// The queue of young requests, before all others ([`Plan::with_front`]); `None`: they go the way of all.
    #[inline]
    pub fn front(&self) -> Option<QueueId> {
        match self.boxes.first() {
            Some(&BoxPlacement::Front(front)) => Some(front),
            _ => None,
        }
    }

    /// By queue, whether a waiting seat takes any task from it, or only those of its task's request.
    pub fn for_waiting(&self) -> Vec<bool> {
        let mut any = vec![true; self.queues.len()];
        for probe in self.seats.iter().flat_map(|seat| &seat.look).filter(|probe| !probe.while_waiting) {
            probe.scan.queues().iter().for_each(|queue| any[queue.index()] = false);
        }
        any
    }

    /// How many threads work all the time: the seats without the spare ones.
    pub fn threads(&self) -> usize {
        self.seats.iter().filter(|seat| !seat.spare).count()
    }

    /// By node, the number of these threads there, up to the last node with any.
    pub fn threads_by_node(&self) -> Vec<u32> {
        let mut threads = Vec::new();
        for seat in self.seats.iter().filter(|seat| !seat.spare) {
            threads.resize(threads.len().max(seat.node.index() + 1), 0);
            threads[seat.node.index()] += 1;
        }
        threads
    }

    /// How many cursors each seat needs for its rings.
    pub fn cursors(&self, seat: SeatId) -> usize {
        // An unbound seat looks as any other one does.
        let looks = if self.roams { &self.seats[..] } else { &self.seats[seat.index()..=seat.index()] };
        let rings = looks.iter().flat_map(|seat| &seat.look).filter_map(|probe| match probe.scan {
            QueueScan::Ring(_, cursor) => Some(cursor + 1),
            QueueScan::List(_) => None,
        });
        rings.max().unwrap_or(0)
    }
}
