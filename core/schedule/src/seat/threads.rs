//! A seat's decisions about lightweight threads: where one goes on after its wait, and how many begin one after the
//! other before the seat looks around.
//!
//! A thread that has begun goes on at its own seat, since its stack may hold values bound to that seat's thread of the
//! system. A *movable* one may go on elsewhere. It stays near the threads it exchanges data with: it follows the thread
//! that ends its wait if its own seat is busy, and goes to an idle seat only from a seat with many ready threads. A
//! seat whose thread does something else, such as a program's own code, keeps no movable thread waiting.

use super::Seat;
use crate::{Plan, QueueId, SeatId, Way};

/// A seat with this many ready threads gives some to idle seats.
const MANY: usize = 4;

/// The number of threads out of the seat's first queue that begin one after the other before the seat looks around.
const STARTS: u32 = 64;

/// This limit holds on top of code that waits for a word on its thread's own stack. It is small: another seat may fill
/// the word soon, and threads that have begun stay here.
const STARTS_ON_TOP: u32 = 8;

/// After a thread has begun on top of waiting code and had to wait itself, this number of threads begin in the usual
/// way: each would cost a switch more.
const USUAL_STARTS: u32 = 32;

/// The other seats, as the end of a wait finds them.
pub trait OtherSeats {
    /// Claims a seat if it has nothing to do: before anything else, it goes on with the thread sent to it.
    fn claim(&mut self, seat: SeatId) -> bool;

    /// Whether the seat's thread does something else than tasks, for as long as it likes.
    fn is_elsewhere(&self, seat: SeatId) -> bool;
}

/// The end of a thread's wait, by code on a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOfWait {
    /// The seat of the thread whose wait ends.
    pub home: SeatId,
    /// Whether this thread may go on at another seat.
    pub is_movable: bool,
    /// Whether the code that ends the wait is a lightweight thread. It lets others have their turn when it waits.
    pub by_thread: bool,
    /// Whether the code that ends the wait may do anything from now on, for as long as it likes.
    pub leaves_seat: bool,
}

/// Where a thread goes on after its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoesOn {
    /// At the seat of the code that has ended its wait.
    Here,
    /// At this seat, which gets it from the code that has ended its wait.
    At {
        /// The seat.
        seat: SeatId,
        /// The seat was claimed for it.
        is_claimed: bool,
    },
}

/// The state of these decisions.
#[derive(Debug)]
pub(super) struct Threads {
    /// The seat it has looked at last in search of an idle one.
    looks_at: SeatId,
    /// How many threads may begin before the seat looks around.
    starts: u32,
    /// Number of further threads that begin in the usual way, and not on top of code that waits for them.
    usual: u32,
}

impl Threads {
    pub(super) fn new(id: SeatId) -> Threads {
        Threads { looks_at: id, starts: 0, usual: 0 }
    }
}

/// The next seat behind this one, in a round, that is no spare one and whose thread runs tasks; this one comes last.
pub fn next_open_seat(plan: &Plan, behind: SeatId, others: &impl OtherSeats) -> Option<SeatId> {
    let seats = plan.seats.len();
    let round = (1..=seats).map(|step| SeatId::new((behind.index() + step) % seats));
    let mut regular = round.filter(|seat| !plan.seats[seat.index()].spare);
    regular.find(|&seat| !others.is_elsewhere(seat))
}

/// Where a thread goes on whose wait was ended by code outside of the plan's seats.
#[inline]
pub fn goes_on_from_outside(plan: &Plan, home: SeatId, is_movable: bool, others: &impl OtherSeats) -> SeatId {
    if is_movable && others.is_elsewhere(home) { next_open_seat(plan, home, others).unwrap_or(home) } else { home }
}

impl<T> Seat<T> {
    /// Where a thread goes on whose wait was ended by code on this seat. `plan` is the whole plan.
    #[inline]
    pub fn place_resumed(&mut self, plan: &Plan, end: EndOfWait, others: &mut impl OtherSeats) -> GoesOn {
        let EndOfWait { home, is_movable, by_thread, leaves_seat } = end;
        if home != self.id {
            return if is_movable {
                self.follow(plan, end, others)
            } else {
                GoesOn::At { seat: home, is_claimed: false }
            };
        }
        if !is_movable || by_thread && !leaves_seat && self.woken_count() < MANY {
            return GoesOn::Here;
        }
        self.give_away(plan, leaves_seat, others)
    }

    /// A movable thread of another seat goes on: at its own seat if that is idle; here if the code that ended its wait
    /// is a thread, and soon lets it have its turn; else at its own seat after all.
    #[cold]
    #[inline(never)]
    fn follow(&self, plan: &Plan, end: EndOfWait, others: &mut impl OtherSeats) -> GoesOn {
        if others.claim(end.home) {
            return GoesOn::At { seat: end.home, is_claimed: true };
        }
        // A lent thread should leave little behind when it goes.
        let is_spare = plan.seats[self.id.index()].spare;
        if end.by_thread && !is_spare && !end.leaves_seat {
            return GoesOn::Here;
        }
        GoesOn::At { seat: goes_on_from_outside(plan, end.home, true, others), is_claimed: false }
    }

    /// A movable thread of this seat goes on at an idle seat, if the next one is idle. The threads that exchange data
    /// with it follow it there.
    #[cold]
    #[inline(never)]
    fn give_away(&mut self, plan: &Plan, leaves_seat: bool, others: &mut impl OtherSeats) -> GoesOn {
        // One seat each time, so that busy seats cost little. Spare ones come last.
        let next = self.threads.looks_at.index() + 1;
        let is_regular = plan.seats.get(next).is_some_and(|seat| !seat.spare);
        self.threads.looks_at = SeatId::new(if is_regular { next } else { 0 });
        let seat = self.threads.looks_at;
        if seat != self.id && others.claim(seat) {
            return GoesOn::At { seat, is_claimed: true };
        }
        let open = if leaves_seat { self.open_seat(plan, others) } else { None };
        open.map_or(GoesOn::Here, |seat| GoesOn::At { seat, is_claimed: false })
    }

    /// Another seat for a movable thread that is ready here, if there is one whose thread runs tasks: the thread on
    /// this seat may do anything now.
    pub fn open_seat(&mut self, plan: &Plan, others: &impl OtherSeats) -> Option<SeatId> {
        let open = next_open_seat(plan, self.threads.looks_at, others)?;
        // Its own one may be open again.
        if open == self.id {
            return None;
        }
        self.threads.looks_at = open;
        Some(open)
    }

    /// The seat takes a thread out of a queue, or goes on with one, and further ones may follow before it looks around.
    /// None may on top of a thread, or of code that waits for a task: either may be able to go on.
    #[inline]
    pub fn begin_row(&mut self, is_on_thread: bool) {
        self.threads.starts = if is_on_thread || self.is_waiting() { 0 } else { STARTS };
    }

    /// Code on its thread's own stack waits for a word: a few threads may begin on top of it.
    pub fn begin_row_on_top(&mut self) {
        self.begin_row(false);
        self.threads.starts = self.threads.starts.min(STARTS_ON_TOP);
    }

    /// Whether another thread may begin before the seat looks around.
    #[inline]
    pub fn may_begin_thread(&self) -> bool {
        self.threads.starts > 0
    }

    /// Whether the seat's own queue has its turn, for a thread that begins before the seat looks around.
    #[inline]
    pub fn is_own_thread_next(&self) -> bool {
        self.may_begin_thread() && self.is_own_next()
    }

    /// A thread out of the own queue begins, by [`Seat::is_own_thread_next`]. Returns its way.
    #[inline]
    pub fn begin_own_thread(&mut self) -> Way {
        self.threads.starts -= 1;
        self.took_own();
        self.own.way
    }

    /// For a seat without a queue of its own: the queue with the next thread, and the thread's way, if that queue has
    /// its turn. If a thread was there, [`Seat::begin_first_thread`] is to follow.
    #[inline]
    pub fn first_thread_next(&self) -> Option<(QueueId, Way)> {
        let first = self.own.first?;
        (self.may_begin_thread() && self.is_look_next()).then_some(first)
    }

    /// A thread out of the seat's first queue begins, by [`Seat::first_thread_next`].
    #[inline]
    pub fn begin_first_thread(&mut self) {
        self.threads.starts -= 1;
    }

    /// Code is about to wait for a thread, or for a word: returns whether a thread may begin on top of it, and counts
    /// those that are to begin in the usual way.
    #[inline]
    pub fn try_on_top(&mut self) -> bool {
        let is_usual = self.threads.usual > 0;
        self.threads.usual -= u32::from(is_usual);
        !is_usual
    }

    /// A thread that has begun on top of waiting code waits: one switch was wasted.
    #[cold]
    pub fn began_in_vain(&mut self) {
        self.threads.usual = USUAL_STARTS;
    }
}
