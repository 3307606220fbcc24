//! The log of one seat's events.

use crate::earlier::{Earlier, EarlierSums};
use crate::event::{Event, What};

/// The recorder of a seat: owned by its thread, allocated once, without locks.
///
/// [`Log::record`] is an addition, a comparison and a 32-byte store: 12 ns including page faults of fresh memory,
/// measured on a busy 2-core virtual machine, and less than 1 ns once the log is full. A full log drops and counts
/// later events; it never overwrites, because the beginning explains the end and not the reverse. For runs of days a
/// log [rolls](Log::rolling): it keeps the last events, and counts and sums up those before them. Memory is first
/// touched by recording, so the log's pages lie on the node of the recording thread.
///
/// ```
/// use vicus_trace::{Log, What};
///
/// let (mut waker, mut sleeper) = (Log::new(100), Log::new(100));
/// sleeper.record(0, What::SleepBegins);
/// let cause = waker.record(7, What::Woke { pool: 1 });
/// sleeper.observe(cause);
/// assert!(sleeper.record(8, What::SleepEnds) > cause);
/// ```
#[derive(Debug)]
pub struct Log {
    /// Invariant: `events.len() <= room`, and the vector never grows beyond its first allocation.
    events: Vec<Event>,
    /// The capacity.
    room: usize,
    /// The place of the next event in a full log that rolls; `None` if it does not roll.
    next: Option<usize>,
    /// The number of events dropped.
    lost: u64,
    /// The sums of the events dropped by a log that rolls.
    earlier: Option<Box<EarlierSums>>,
    /// Lamport, "Time, clocks, and the ordering of events in a distributed system", CACM 1978. Invariant: at least the
    /// order of every recorded, dropped or observed event.
    clock: u64,
}

/// The contents of a finished [`Log`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeatLog {
    /// The recorded events, in their order on the seat.
    pub events: Vec<Event>,
    /// The number of events dropped because the log was full: later ones, or those before the first one if it rolled.
    pub lost: u64,
    /// Sums over the time before the first event, if the log rolls. A trace has them in its [header](crate::Header).
    pub earlier: Vec<Earlier>,
}

impl Log {
    /// The default capacity: 32 MiB of events.
    pub const DEFAULT_ROOM: usize = 1 << 20;

    /// A log with this capacity, allocated now: 32 bytes for each event.
    pub fn new(room: usize) -> Log {
        let mut events = Vec::new();
        // Without enough memory, all events are dropped, and the trace counts them.
        let room = if events.try_reserve_exact(room).is_ok() { room } else { 0 };
        Log { events, room, next: None, lost: 0, earlier: None, clock: 0 }
    }

    /// A log with this capacity that keeps the last events, and sums over the time before them.
    ///
    /// ```
    /// use vicus_trace::{Log, What};
    ///
    /// let mut log = Log::rolling(3);
    /// (0..10).for_each(|time_ns| _ = log.record(time_ns, What::Woke { pool: 0 }));
    /// let log = log.finish();
    /// assert_eq!(log.events.iter().map(|event| event.time_ns).collect::<Vec<_>>(), [7, 8, 9]);
    /// assert_eq!(log.lost, 7);
    /// assert_eq!(log.earlier.iter().map(|part| part.events).sum::<u64>(), 7);
    /// ```
    pub fn rolling(room: usize) -> Log {
        Log { next: Some(0), earlier: Some(Box::new(EarlierSums::new())), ..Log::new(room) }
    }

    /// Records an event; returns its order, to be carried along by its effects.
    #[inline]
    pub fn record(&mut self, time_ns: u64, what: What) -> u64 {
        self.clock += 1;
        if self.events.len() < self.room {
            self.events.push(Event { time_ns, order: self.clock, what });
        } else {
            self.lost += 1;
            if let Some(next) = self.next
                && let Some(oldest) = self.events.get_mut(next)
            {
                if let Some(earlier) = &mut self.earlier {
                    earlier.add(oldest);
                }
                *oldest = Event { time_ns, order: self.clock, what };
                self.next = Some(if next + 1 == self.room { 0 } else { next + 1 });
            }
        }
        self.clock
    }

    /// Raises the clock to that of a cause on another seat, so later events are ordered after it.
    #[inline]
    pub fn observe(&mut self, order: u64) {
        self.clock = self.clock.max(order);
    }

    /// The order of the last event recorded or observed.
    #[inline]
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// The events recorded so far; of a log that has rolled, in the order of their places.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The number of events dropped because the log was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Ends the recording. A log that has rolled begins behind the last end without a beginning, so that each
    /// invocation in it is whole.
    pub fn finish(mut self) -> SeatLog {
        if let Some(next) = self.next.filter(|_| self.lost > 0) {
            self.events.rotate_left(next);
            let (mut open, mut whole) = (0_u64, 0);
            for (at, event) in self.events.iter().enumerate() {
                match event.what {
                    What::InvocationBegins { .. }
                    | What::UserCodeBegins { .. }
                    | What::WaitBegins { .. }
                    | What::SleepBegins
                    | What::LentBegins { .. } => open += 1,
                    What::InvocationEnds { .. }
                    | What::UserCodeEnds { .. }
                    | What::WaitEnds { .. }
                    | What::SleepEnds
                    | What::LentEnds => match open.checked_sub(1) {
                        Some(left) => open = left,
                        None => whole = at + 1,
                    },
                    _ => {}
                }
            }
            let dropped = self.events.drain(..whole);
            if let Some(earlier) = &mut self.earlier {
                dropped.for_each(|event| earlier.add(&event));
            }
            self.lost += whole as u64;
        }
        let first_ns = self.events.first().map(|event| event.time_ns);
        let earlier = self.earlier.map_or_else(Vec::new, |earlier| earlier.finish(first_ns));
        SeatLog { events: self.events, lost: self.lost, earlier }
    }
}

impl Default for Log {
    fn default() -> Log {
        Log::new(Log::DEFAULT_ROOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_keeps_its_beginning_and_counts_the_rest() {
        let mut log = Log::new(3);
        let before = log.events().as_ptr();
        for time_ns in 0..10 {
            log.record(time_ns, What::SleepBegins);
        }
        assert_eq!(log.events().as_ptr(), before, "recording never allocates");
        assert_eq!(log.clock(), 10, "lost events count in the order of things too");
        let log = log.finish();
        assert_eq!(log.events.iter().map(|event| event.time_ns).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(log.lost, 7);
    }

    #[test]
    fn a_rolling_log_has_whole_invocations() {
        let who = crate::JobId { request: 1, index: 2 };
        let invocation = [
            What::InvocationBegins { who },
            What::UserCodeBegins { who },
            What::UserCodeEnds { who },
            What::InvocationEnds { who },
        ];
        for room in 1..20 {
            let mut log = Log::rolling(room);
            let before = log.events().as_ptr();
            (0..100).for_each(|time_ns| _ = log.record(time_ns, invocation[time_ns as usize % 4]));
            assert_eq!(log.events().as_ptr(), before, "recording never allocates");
            let log = log.finish();
            assert_eq!(log.lost + log.events.len() as u64, 100);
            assert!(log.events.len() + 4 > room && log.events.len() <= room, "{room}: {} events", log.events.len());
            assert!(log.events.iter().map(|event| event.time_ns).eq(log.lost..100));
            assert!(log.events.first().is_none_or(|event| event.what == invocation[0]), "room for {room}");
        }
        let mut log = Log::rolling(0);
        log.record(0, What::SleepBegins);
        assert_eq!(log.finish(), SeatLog { lost: 1, ..SeatLog::default() });
    }

    /// Days of invocations, each of 300 of 1,000 ns, with a sleep now and then: the sums and the kept events are all.
    #[test]
    fn what_a_rolling_log_drops_is_summed_up() {
        let who = crate::JobId { request: 1, index: 2 };
        let day_ns = 86_400_000_000_000;
        for (room, step_ns) in [(1, 1000), (7, 1000), (40, day_ns / 1000), (4000, day_ns)] {
            let mut log = Log::rolling(room);
            let (mut busy_ns, mut asleep_ns, mut invocations) = (0, 0, 0);
            let mut all = Vec::new();
            for round in 0..3000_u64 {
                let now_ns = 50 + round * step_ns;
                let lengths = [0, step_ns / 10, step_ns / 10 + step_ns * 3 / 10, step_ns / 2];
                let whats = [
                    What::InvocationBegins { who },
                    What::UserCodeBegins { who },
                    What::UserCodeEnds { who },
                    What::InvocationEnds { who },
                ];
                all.extend(lengths.into_iter().zip(whats).map(|(ns, what)| (now_ns + ns, what)));
                if round % 5 == 0 {
                    all.push((now_ns + step_ns * 6 / 10, What::SleepBegins));
                    all.push((now_ns + step_ns * 9 / 10, What::SleepEnds));
                }
            }
            all.iter().for_each(|&(time_ns, what)| _ = log.record(time_ns, what));
            let log = log.finish();
            let kept_from = log.events.first().map_or(u64::MAX, |event| event.time_ns);
            let mut since_ns = 0;
            for &(time_ns, what) in all.iter().take(all.len() - log.events.len()) {
                match what {
                    What::InvocationBegins { .. } => invocations += 1,
                    What::UserCodeBegins { .. } | What::SleepBegins => since_ns = time_ns,
                    What::UserCodeEnds { .. } => busy_ns += time_ns - since_ns,
                    What::SleepEnds => asleep_ns += time_ns - since_ns,
                    _ => {}
                }
            }
            let sum = |of: fn(&Earlier) -> u64| log.earlier.iter().map(of).sum::<u64>();
            assert_eq!(sum(|part| part.events), log.lost, "room for {room}");
            assert_eq!((sum(|part| part.busy_ns), sum(|part| part.invocations)), (busy_ns, invocations));
            assert_eq!(sum(|part| part.asleep_ns), asleep_ns, "room for {room}");
            assert!(log.earlier.len() <= 256 && log.earlier.iter().all(|part| part.busy_ns <= part.ns));
            assert!(log.earlier.windows(2).all(|two| two[0].from_ns + two[0].ns == two[1].from_ns));
            assert!(log.earlier.iter().all(|part| part.from_ns <= kept_from));
        }
    }

    #[test]
    fn an_effect_is_ordered_after_its_cause() {
        let (mut fast, mut slow) = (Log::new(100), Log::new(100));
        let cause = (0..50).map(|time_ns| fast.record(time_ns, What::Woke { pool: 1 })).last().unwrap();
        slow.observe(cause);
        assert_eq!(slow.record(1, What::SleepEnds), cause + 1);
        slow.observe(3);
        assert_eq!(slow.clock(), cause + 1, "an old clock changes nothing");
    }
}
