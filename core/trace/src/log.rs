//! Where one seat writes down what happens on it.

use crate::event::{Event, What};

/// The recorder of one seat: owned by the seat's thread, sized once, never locked.
///
/// [`Log::record`] is an addition, a compare and a 32-byte store: 12 ns with the page faults of fresh memory, measured
/// on a busy 2-core virtual machine, and less than 1 ns once the log is full. A full log loses what comes later and
/// counts it; it never overwrites what it has, because the beginning explains the end and not the reverse. Memory is
/// only touched when it is written, so the log's pages come to lie on the node of the recording thread.
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
    /// How many events fit.
    room: usize,
    /// How many didn't fit.
    lost: u64,
    /// Lamport, "Time, clocks, and the ordering of events in a distributed system", CACM 1978. Invariant: at least
    /// the order of everything recorded, lost or observed.
    clock: u64,
}

/// What a [`Log`] has when its seat is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeatLog {
    /// What was recorded, in the order in which it happened on the seat.
    pub events: Vec<Event>,
    /// How many events came after the log was full.
    pub lost: u64,
}

impl Log {
    /// How many events a log has room for where nobody says otherwise: 32 MiB of them.
    pub const DEFAULT_ROOM: usize = 1 << 20;

    /// A log with room for so many events, 32 bytes each, all allocated now.
    pub fn new(room: usize) -> Log {
        let mut events = Vec::new();
        // Without memory for them all are lost, which the trace tells.
        let room = if events.try_reserve_exact(room).is_ok() { room } else { 0 };
        Log { events, room, lost: 0, clock: 0 }
    }

    /// Writes down what happens now and returns its order, to be carried along by whatever it brings about.
    #[inline]
    pub fn record(&mut self, time_ns: u64, what: What) -> u64 {
        self.clock += 1;
        if self.events.len() < self.room {
            self.events.push(Event { time_ns, order: self.clock, what });
        } else {
            self.lost += 1;
        }
        self.clock
    }

    /// Raises the clock to that of something that arrived from another seat, so that what happens from here on is
    /// ordered after it.
    #[inline]
    pub fn observe(&mut self, order: u64) {
        self.clock = self.clock.max(order);
    }

    /// The order of what was recorded or observed last.
    #[inline]
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// What was recorded so far.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How many events came after the log was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Ends the recording.
    pub fn finish(self) -> SeatLog {
        SeatLog { events: self.events, lost: self.lost }
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
    fn an_effect_is_ordered_after_its_cause() {
        let (mut fast, mut slow) = (Log::new(100), Log::new(100));
        let cause = (0..50).map(|time_ns| fast.record(time_ns, What::Woke { pool: 1 })).last().unwrap();
        slow.observe(cause);
        assert_eq!(slow.record(1, What::SleepEnds), cause + 1);
        slow.observe(3);
        assert_eq!(slow.clock(), cause + 1, "an old clock changes nothing");
    }
}
