//! The log of one seat's events.

use crate::earlier::{Earlier, EarlierSums};
use crate::event::{Event, What};
use crate::recent::{CHUNK, Recent};

/// The recorder of a seat: owned by its thread, allocated once, without locks.
///
/// [`EventLog::record`] is an addition, a comparison and a 32-byte store: 12 ns including page faults of fresh memory,
/// measured on a busy 2-core virtual machine, and less than 1 ns once the log is full. A full log drops and counts
/// later events; it never overwrites, because the beginning explains the end and not the reverse. For runs of days a
/// log [rolls](EventLog::rolling): it keeps the last events, or those of a [span of time](EventLog::of_last), and
/// counts and sums up those before them. Memory is first touched by recording, so the log's pages lie on the node of
/// the recording thread.
///
/// ```
/// use vicus_trace::{EventLog, What};
///
/// let (mut waker, mut sleeper) = (EventLog::new(100), EventLog::new(100));
/// sleeper.record(0, What::SleepBegins);
/// let cause = waker.record(7, What::Woke { pool: 1 });
/// sleeper.observe(cause);
/// assert!(sleeper.record(8, What::SleepEnds) > cause);
/// ```
#[derive(Debug)]
pub struct EventLog {
    /// Invariant: `events.len() <= room`, and the vector never grows beyond its first allocation.
    events: Vec<Event>,
    /// The capacity; 0 if it keeps a span of time, which looks at it itself.
    room: usize,
    /// The place of the next event in a full log that rolls, or in the last chunk of `recent`; `None` if it does not
    /// roll.
    next: Option<usize>,
    /// Which events are there, if it keeps a span of time.
    recent: Option<Box<Recent>>,
    /// The number of events dropped.
    lost: u64,
    /// The sums of the events dropped by a log that rolls.
    earlier: Option<Box<EarlierSums>>,
    /// Lamport, "Time, clocks, and the ordering of events in a distributed system", CACM 1978. Invariant: at least the
    /// order of every recorded, dropped or observed event.
    clock: u64,
}

/// The contents of a finished [`EventLog`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeatLog {
    /// The recorded events, in their order on the seat.
    pub events: Vec<Event>,
    /// The number of events dropped because the log was full: later ones, or those before the first one if it rolled.
    pub lost: u64,
    /// Sums over the time before the first event, if the log rolls. A trace has them in its [header](crate::Header).
    pub earlier: Vec<Earlier>,
    /// The span of time before the end of which each event is there, if the log keeps one: shorter than it was asked to
    /// keep if there was no room. Otherwise 0. A trace has the shortest in its [header](crate::Header).
    pub last_ns: u64,
}

impl EventLog {
    /// The default capacity: 32 MiB of events.
    pub const DEFAULT_ROOM: usize = 1 << 20;

    /// A log with this capacity, allocated now: 32 bytes for each event.
    pub fn new(room: usize) -> EventLog {
        let mut events = Vec::new();
        // Without enough memory, all events are dropped, and the trace counts them.
        let room = if events.try_reserve_exact(room).is_ok() { room } else { 0 };
        EventLog { events, room, next: None, recent: None, lost: 0, earlier: None, clock: 0 }
    }

    /// A log with this capacity that keeps the last events, and sums over the time before them.
    ///
    /// ```
    /// use vicus_trace::{EventLog, What};
    ///
    /// let mut log = EventLog::rolling(3);
    /// (0..10).for_each(|time_ns| _ = log.record(time_ns, What::Woke { pool: 0 }));
    /// let log = log.finish();
    /// assert_eq!(log.events.iter().map(|event| event.time_ns).collect::<Vec<_>>(), [7, 8, 9]);
    /// assert_eq!(log.lost, 7);
    /// assert_eq!(log.earlier.iter().map(|part| part.events).sum::<u64>(), 7);
    /// ```
    pub fn rolling(room: usize) -> EventLog {
        EventLog { next: Some(0), earlier: Some(Box::new(EarlierSums::new())), ..EventLog::new(room) }
    }

    /// A log that keeps the events of the last `span_ns` before its end, or the last ones if there are more than
    /// `room`, and sums over the time before them. Memory for `room` events is allocated now, and touched as far as the
    /// busiest span needs it.
    ///
    /// ```
    /// use vicus_trace::{EventLog, What};
    ///
    /// const MINUTE_NS: u64 = 60_000_000_000;
    /// let mut log = EventLog::of_last(10 * MINUTE_NS, 1 << 20);
    /// (0..=60).for_each(|minute| _ = log.record(minute * MINUTE_NS, What::Woke { pool: 0 }));
    /// let log = log.finish();
    /// let minutes = Vec::from_iter(log.events.iter().map(|event| event.time_ns / MINUTE_NS));
    /// assert_eq!(minutes, Vec::from_iter(50..=60));
    /// assert_eq!(log.earlier.iter().map(|part| part.events).sum::<u64>(), 50);
    /// ```
    pub fn of_last(span_ns: u64, room: usize) -> EventLog {
        // One more: the oldest chunk is dropped whole when there is no room.
        let chunks = if room == 0 { 0 } else { room.div_ceil(CHUNK) + 1 };
        let log = EventLog::rolling(chunks.saturating_mul(CHUNK));
        // Without enough memory, all events are dropped, and the trace counts them.
        let recent = Recent::new(span_ns, log.room / CHUNK).ok().map(Box::new);
        EventLog { room: 0, recent, ..log }
    }

    /// Records an event; returns its order, to be carried along by its effects.
    #[inline]
    pub fn record(&mut self, time_ns: u64, what: What) -> u64 {
        self.clock += 1;
        let event = Event { time_ns, order: self.clock, what };
        if self.events.len() < self.room {
            self.events.push(event)
        } else {
            self.record_in_full(event)
        }
        self.clock
    }

    fn record_in_full(&mut self, event: Event) {
        let (Some(next), Some(earlier)) = (&mut self.next, &mut self.earlier) else {
            self.lost += 1;
            return;
        };
        if let Some(recent) = &mut self.recent {
            self.lost += recent.add(&mut self.events, next, event, earlier);
            return;
        }
        self.lost += 1;
        if let Some(oldest) = self.events.get_mut(*next) {
            earlier.add(oldest);
            *oldest = event;
            *next = if *next + 1 == self.room { 0 } else { *next + 1 };
        }
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

    /// Ends the recording, for a log of a span of time at the time of its last event. A log that has rolled begins
    /// where each invocation in it is whole: behind the last end without a beginning, and one of a span of time with
    /// the first invocation that is not over before the span.
    pub fn finish(self) -> SeatLog {
        self.finish_at(0)
    }

    /// Ends the recording at this time: see [`EventLog::finish`]. A span of time ends there, or with a later event.
    pub fn finish_at(mut self, now_ns: u64) -> SeatLog {
        let (mut from_ns, mut end_ns, mut span) = (0, now_ns, None);
        if let (Some(recent), Some(next)) = (self.recent.take(), self.next) {
            span = Some((recent.span_ns(), recent.refused_until_ns()));
            recent.finish(&mut self.events, next);
            end_ns = now_ns.max(self.events.last().map_or(0, |event| event.time_ns));
            from_ns = end_ns.saturating_sub(span.map_or(0, |(span_ns, _)| span_ns));
        } else if let Some(next) = self.next.filter(|_| self.lost > 0) {
            self.events.rotate_left(next);
        }
        if self.next.is_some() && (self.lost > 0 || from_ns > 0) {
            let whole = first_whole(&self.events, from_ns);
            let dropped = self.events.drain(..whole);
            if let Some(earlier) = &mut self.earlier {
                dropped.for_each(|event| earlier.add(&event));
            }
            self.lost += whole as u64;
        }
        let first_ns = self.events.first().map(|event| event.time_ns);
        let last_ns = span.map_or(0, |(span_ns, refused_until_ns)| match refused_until_ns {
            Some(refused_ns) if refused_ns >= from_ns => end_ns.saturating_sub(first_ns.unwrap_or(end_ns)).max(1),
            _ => span_ns,
        });
        let earlier = self.earlier.map_or_else(Vec::new, |earlier| earlier.finish(first_ns));
        SeatLog { events: self.events, lost: self.lost, earlier, last_ns }
    }
}

/// The first event from which on each end has its beginning, and before which nothing reaches over `from_ns`.
fn first_whole(events: &[Event], from_ns: u64) -> usize {
    let (mut open, mut first, mut is_early) = (0_u64, 0, true);
    for (at, event) in events.iter().enumerate() {
        if open == 0 && is_early {
            first = at;
        }
        is_early &= event.time_ns < from_ns;
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
                None => first = at + 1,
            },
            _ => {}
        }
    }
    if open == 0 && is_early { events.len() } else { first }
}

impl Default for EventLog {
    fn default() -> EventLog {
        EventLog::new(EventLog::DEFAULT_ROOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_keeps_its_beginning_and_counts_the_rest() {
        let mut log = EventLog::new(3);
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
            let mut log = EventLog::rolling(room);
            let before = log.events().as_ptr();
            (0..100).for_each(|time_ns| _ = log.record(time_ns, invocation[time_ns as usize % 4]));
            assert_eq!(log.events().as_ptr(), before, "recording never allocates");
            let log = log.finish();
            assert_eq!(log.lost + log.events.len() as u64, 100);
            assert!(log.events.len() + 4 > room && log.events.len() <= room, "{room}: {} events", log.events.len());
            assert!(log.events.iter().map(|event| event.time_ns).eq(log.lost..100));
            assert!(log.events.first().is_none_or(|event| event.what == invocation[0]), "room for {room}");
        }
        let mut log = EventLog::rolling(0);
        log.record(0, What::SleepBegins);
        assert_eq!(log.finish(), SeatLog { lost: 1, ..SeatLog::default() });
    }

    /// Days of invocations, each of 300 of 1,000 ns, with a sleep now and then: the sums and the kept events are all.
    #[test]
    fn what_a_rolling_log_drops_is_summed_up() {
        let who = crate::JobId { request: 1, index: 2 };
        let day_ns = 86_400_000_000_000;
        for (room, step_ns) in [(1, 1000), (7, 1000), (40, day_ns / 1000), (4000, day_ns)] {
            let mut log = EventLog::rolling(room);
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

    /// Bursts of invocations of 10 ns, and days of silence between some: against a plain list of all events.
    #[test]
    fn a_log_of_a_span_of_time_has_each_invocation_of_it() {
        let who = crate::JobId { request: 1, index: 2 };
        let chunk = CHUNK as u64;
        // Spans, room, and the invocations and the silence before the next burst.
        let cases = [
            (1000, 1 << 16, vec![(5000, 0)]),
            (100_000, 1 << 16, vec![(100, 0), (9000, 50_000), (3 * chunk, 1 << 40), (200, 5)]),
            (1 << 41, 1 << 16, vec![(700, 1 << 40), (700, 1 << 40), (700, 1 << 40), (20, 1)]),
            (1 << 50, 5000, vec![(10_000, 3), (10_000, 3)]),
            (50_000, 1, vec![(3000, 1)]),
            (10, 100, vec![(3000, 100)]),
        ];
        for (span_ns, room, bursts) in cases {
            let mut log = EventLog::of_last(span_ns, room);
            let before = log.events().as_ptr();
            let (mut now_ns, mut all) = (0, Vec::new());
            for (count, silence_ns) in bursts {
                for _ in 0..count {
                    all.push((now_ns, What::InvocationBegins { who }));
                    all.push((now_ns + 1, What::UserCodeBegins { who }));
                    all.push((now_ns + 7, What::UserCodeEnds { who }));
                    all.push((now_ns + 9, What::InvocationEnds { who }));
                    now_ns += 10;
                }
                now_ns += silence_ns;
            }
            all.iter().for_each(|&(time_ns, what)| _ = log.record(time_ns, what));
            assert_eq!(log.events().as_ptr(), before, "recording never allocates");
            let touched = log.events().len();
            let log = log.finish_at(now_ns);
            let from_ns = now_ns.saturating_sub(span_ns);
            // An invocation that ends within the span is there from its beginning on.
            let wanted = all
                .iter()
                .rposition(|&(time_ns, what)| matches!(what, What::InvocationEnds { .. }) && time_ns < from_ns);
            let wanted = wanted.map_or(0, |at| at + 1);
            let kept = all.len() - log.events.len();
            assert_eq!(kept as u64, log.lost, "span {span_ns}, room {room}");
            if all.len() - wanted <= room {
                assert_eq!((kept, log.last_ns), (wanted, span_ns), "span {span_ns}, room {room}");
            } else {
                assert!(kept >= wanted && log.events.len() + 4 > room, "span {span_ns}, room {room}: {kept}");
                assert_eq!(log.last_ns, now_ns - all[kept].0, "span {span_ns}, room {room}");
            }
            assert!(log.events.iter().map(|event| (event.time_ns, event.what)).eq(all[kept..].iter().copied()));
            assert_eq!(log.earlier.iter().map(|part| part.events).sum::<u64>(), log.lost);
            assert_eq!(log.earlier.iter().map(|part| part.invocations).sum::<u64>(), log.lost / 4);
            assert_eq!(log.earlier.iter().map(|part| part.busy_ns).sum::<u64>(), log.lost / 4 * 6);
            // What one span needs, and a chunk at both ends.
            let within = |from_ns: u64| all.iter().filter(|(ns, _)| (from_ns..from_ns + span_ns).contains(ns)).count();
            let most = all.iter().step_by(97).map(|&(time_ns, _)| within(time_ns)).max().unwrap_or(0);
            assert!(touched <= (most.min(room) / CHUNK + 3) * CHUNK, "span {span_ns}, room {room}: {touched} touched");
        }
        let mut log = EventLog::of_last(1000, 0);
        log.record(5, What::SleepBegins);
        assert_eq!(log.finish_at(9), SeatLog { lost: 1, last_ns: 1, ..SeatLog::default() });
    }

    /// A seat that has slept for hours has no event in the span but is asleep in all of it.
    #[test]
    fn what_reaches_into_the_span_of_a_log_is_kept_from_its_beginning() {
        let who = crate::JobId { request: 1, index: 2 };
        let mut log = EventLog::of_last(1000, 100);
        log.record(10, What::InvocationBegins { who });
        log.record(20, What::InvocationEnds { who });
        log.record(30, What::SleepBegins);
        let log = log.finish_at(1_000_000);
        assert_eq!((log.events.iter().map(|event| event.time_ns).collect::<Vec<_>>(), log.lost), (vec![30], 2));
        let mut log = EventLog::of_last(1000, 100);
        log.record(10, What::InvocationBegins { who });
        log.record(20, What::InvocationEnds { who });
        assert_eq!(log.finish_at(1_000_000).events, []);
    }

    #[test]
    fn an_effect_is_ordered_after_its_cause() {
        let (mut fast, mut slow) = (EventLog::new(100), EventLog::new(100));
        let cause = (0..50).map(|time_ns| fast.record(time_ns, What::Woke { pool: 1 })).last().unwrap();
        slow.observe(cause);
        assert_eq!(slow.record(1, What::SleepEnds), cause + 1);
        slow.observe(3);
        assert_eq!(slow.clock(), cause + 1, "an old clock changes nothing");
    }
}
