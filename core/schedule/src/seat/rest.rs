//! How a seat rests once it has found nothing: it looks around, pauses, or sleeps.

use crate::{Idle, Patience, RequestId, SeatPlan, Sleeper};

/// How long a waiting seat looks around before it sleeps, if the strategy has no such time.
const SPIN_NS: u64 = 5_000;

/// After a sleep of at most this time, a seat looks around for up to this time before it sleeps again.
///
/// A wake costs some ten microseconds. Two seats that hand tasks back and forth, and have slept once, would find
/// nothing within a shorter time again and again: each waits while the other one is woken.
const LONGER_LOOK_NS: u64 = 50_000;

/// Likewise for a seat with waiting lightweight threads. Mostly no other seat goes on with them, and on virtual
/// machines a sleep and a wake take some 0.1 ms. A token on its round of 500 threads on two seats comes back to a seat
/// after about this time.
const LONGEST_LOOK_NS: u64 = 300_000;

/// How long a patient seat looks around before it gives way, and again before it does so the next time: the awaited
/// thread may have been woken on the same PU.
const GIVES_WAY_AFTER_NS: u64 = 10_000;

/// A shorter pause costs less than announcing that a push may end it.
const SHORT_NS: u64 = 50_000;

/// The longest sleep of a seat that may miss its wake.
pub(super) const UNSURE_NS: u64 = 1_000_000;

/// A seat's next step after it has found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The seat looks again, until it has found nothing for this time.
    Look {
        /// In nanoseconds, since it first found nothing.
        until_ns: u64,
    },
    /// The seat lets another thread on its PU go first, if there is one, and looks again. The awaited thread may be
    /// ready to run there.
    GiveWay,
    /// The seat looks again after a pause that no push ends: the pause is too short for it, or the seat is never woken.
    Pause {
        /// In nanoseconds.
        ns: u64,
    },
    /// The seat announces itself, looks a last time, and sleeps until it is woken.
    Sleep {
        /// The tasks it would take.
        sleeper: Sleeper,
        /// The longest sleep, in nanoseconds.
        at_most_ns: Option<u64>,
    },
}

/// The pauses of a seat.
#[derive(Debug)]
pub(super) struct Resting {
    /// The last pause of a seat that backs off, in nanoseconds; 0 after every success.
    pause_ns: u64,
    /// How long it looks around at least: more than the plan says after a short sleep, 0 after a long one.
    look_ns: u64,
    /// How often it has given way since it last found something, slept, or began to wait.
    gave_way: u32,
    /// Whether it has its PU to itself. Otherwise looking around takes time from the seats it waits for.
    is_alone: bool,
}

impl Resting {
    pub(super) fn new(is_alone: bool) -> Resting {
        Resting { pause_ns: 0, look_ns: 0, gave_way: 0, is_alone }
    }

    /// The seat has found a task.
    #[inline]
    pub(super) fn found(&mut self) {
        self.pause_ns = 0;
        self.gave_way = 0;
    }

    /// A task begins to wait on the seat, or goes on.
    #[inline]
    pub(super) fn wait_changes(&mut self) {
        self.gave_way = 0;
    }

    /// The seat has slept for this time.
    pub(super) fn slept(&mut self, slept_ns: u64, has_threads: bool) {
        let longest_ns = if has_threads { LONGEST_LOOK_NS } else { LONGER_LOOK_NS };
        let is_short = self.is_alone && slept_ns <= longest_ns;
        self.gave_way = 0;
        self.look_ns = if is_short { longest_ns.min(self.look_ns.max(slept_ns * 2)) } else { 0 };
    }

    /// The step after nothing was found for `idle_ns`. `waiting`: a task waits on the seat, for tasks of this request
    /// or of any.
    pub(super) fn none(&mut self, plan: &SeatPlan, waiting: Option<Option<RequestId>>, idle_ns: u64) -> Rest {
        if let Idle::BackOff { first_ns, factor, max_ns, sleeps: false } = plan.idle {
            return Rest::Pause { ns: self.longer_pause(first_ns, factor, max_ns) };
        }
        let spin_ns = match (plan.idle, waiting) {
            (Idle::Sleep { spin_ns: 0 }, _) => 0,
            (Idle::Sleep { spin_ns }, _) => self.look_ns.max(spin_ns.into()),
            (Idle::BackOff { .. }, Some(_)) => SPIN_NS,
            (Idle::BackOff { .. }, None) => 0,
        };
        if idle_ns < spin_ns {
            return Rest::Look { until_ns: spin_ns };
        }
        if waiting.is_some()
            && let Some(rest) = self.be_patient(plan.patience, idle_ns)
        {
            return rest;
        }
        let pause_ns = if waiting.is_none() { self.next_pause(plan) } else { None };
        match pause_ns {
            Some(ns) if ns < SHORT_NS => Rest::Pause { ns },
            at_most_ns => {
                Rest::Sleep { sleeper: waiting.flatten().map_or(Sleeper::Free, Sleeper::Waiting), at_most_ns }
            }
        }
    }

    /// The step of a seat with a waiting task before it sleeps, if it does not sleep yet.
    fn be_patient(&mut self, Patience { least_ns, gives_way }: Patience, idle_ns: u64) -> Option<Rest> {
        let is_early = idle_ns < least_ns;
        let due = if is_early { u32::try_from(idle_ns / GIVES_WAY_AFTER_NS).unwrap_or(u32::MAX) } else { gives_way };
        if self.gave_way < due {
            // A late look makes up for no turns.
            self.gave_way = if is_early { due } else { self.gave_way + 1 };
            return Some(Rest::GiveWay);
        }
        let until_ns = (idle_ns / GIVES_WAY_AFTER_NS + 1) * GIVES_WAY_AFTER_NS;
        is_early.then_some(Rest::Look { until_ns: until_ns.min(least_ns) })
    }

    /// The pause of a seat that backs off. `None`: it sleeps until it is woken, because the strategy has no pauses, or
    /// because it found nothing after the longest one. It is woken by a push that makes a queue long enough for it
    /// ([`Plan::wake_one`](crate::Plan::wake_one)).
    fn next_pause(&mut self, plan: &SeatPlan) -> Option<u64> {
        let Idle::BackOff { first_ns, factor, max_ns, .. } = plan.idle else { return None };
        let is_longest = self.pause_ns >= u64::from(max_ns.max(first_ns).max(1));
        (!is_longest).then(|| self.longer_pause(first_ns, factor, max_ns))
    }

    /// Lengthens the pause, up to the longest one.
    fn longer_pause(&mut self, first_ns: u32, factor: u8, max_ns: u32) -> u64 {
        let next = self.pause_ns.saturating_mul(u64::from(factor)).max(u64::from(first_ns));
        self.pause_ns = next.clamp(1, u64::from(max_ns.max(first_ns).max(1)));
        self.pause_ns
    }
}
