//! Sums over the time before the first event of a log that rolls.

use crate::{Event, What};
use serde::{Deserialize, Serialize};

/// The parts of a log's earlier time, at most.
const PARTS: usize = 256;
/// The length of a part at first. It doubles whenever more than [`PARTS`] would be needed: 28 times in ten days.
const FIRST_NS: u64 = 100_000;
/// The work within work that is followed; what lies deeper counts as work of the innermost of these.
const DEPTH: usize = 64;

/// Sums over a part of the time of a seat, from events that its rolling log has dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// The time where the part begins.
    pub from_ns: u64,
    /// Its length.
    pub ns: u64,
    /// The events in it.
    pub events: u64,
    /// The invocations of boxes that began in it.
    pub invocations: u64,
    /// The time in user code.
    pub busy_ns: u64,
    /// The time asleep.
    pub asleep_ns: u64,
}

/// The sums of a log that rolls. They take the events that it drops, in their order, and never allocate.
#[derive(Debug)]
pub(crate) struct EarlierSums {
    /// Invariant: never longer than [`PARTS`], which is its capacity; all parts have the length `width_ns`, and each
    /// begins where the one before ends.
    parts: Vec<Earlier>,
    width_ns: u64,
    /// The open user code, the innermost last, and whether it waits. Invariant: never longer than [`DEPTH`].
    open: Vec<bool>,
    /// User code that is open beyond these.
    deeper: usize,
    /// Since when the seat is in the state that `open` says.
    since_ns: u64,
    asleep_since_ns: Option<u64>,
}

impl EarlierSums {
    pub(crate) fn new() -> EarlierSums {
        EarlierSums {
            parts: Vec::with_capacity(PARTS),
            width_ns: FIRST_NS,
            open: Vec::with_capacity(DEPTH),
            deeper: 0,
            since_ns: 0,
            asleep_since_ns: None,
        }
    }

    /// Takes the next event.
    pub(crate) fn add(&mut self, event: &Event) {
        let now_ns = event.time_ns;
        let part = self.part(now_ns);
        part.events += 1;
        part.invocations += u64::from(matches!(event.what, What::InvocationBegins { .. }));
        match event.what {
            What::UserCodeBegins { .. } => {
                self.turn(now_ns);
                if self.open.len() < DEPTH { self.open.push(false) } else { self.deeper += 1 }
            }
            What::UserCodeEnds { .. } => {
                self.turn(now_ns);
                match self.deeper.checked_sub(1) {
                    Some(left) => self.deeper = left,
                    None => _ = self.open.pop(),
                }
            }
            What::WaitBegins { .. } | What::WaitEnds { .. } => {
                self.turn(now_ns);
                if let Some(waits) = self.open.last_mut() {
                    *waits = matches!(event.what, What::WaitBegins { .. });
                }
            }
            What::SleepBegins => self.asleep_since_ns = Some(now_ns),
            What::SleepEnds => {
                if let Some(since_ns) = self.asleep_since_ns.take() {
                    self.spread(since_ns, now_ns, |part, ns| part.asleep_ns += ns);
                }
            }
            _ => {}
        }
    }

    /// Ends with what is open at the first kept event.
    pub(crate) fn finish(mut self, first_ns: Option<u64>) -> Vec<Earlier> {
        if let (Some(first_ns), false) = (first_ns, self.parts.is_empty()) {
            self.turn(first_ns);
            if let Some(since_ns) = self.asleep_since_ns.take() {
                self.spread(since_ns, first_ns, |part, ns| part.asleep_ns += ns);
            }
        }
        self.parts
    }

    /// The state changes: time in user code that does not wait counts as busy.
    fn turn(&mut self, now_ns: u64) {
        if self.open.last() == Some(&false) {
            self.spread(self.since_ns, now_ns, |part, ns| part.busy_ns += ns);
        }
        self.since_ns = now_ns;
    }

    /// The part of a time. A time before the first part counts in it.
    fn part(&mut self, now_ns: u64) -> &mut Earlier {
        if self.parts.is_empty() {
            self.parts.push(Earlier { from_ns: now_ns, ns: self.width_ns, ..Earlier::default() });
        }
        let from_ns = self.parts[0].from_ns;
        while now_ns.saturating_sub(from_ns) / self.width_ns >= PARTS as u64 {
            self.halve();
        }
        let at = (now_ns.saturating_sub(from_ns) / self.width_ns) as usize;
        while self.parts.len() <= at {
            let from_ns = from_ns + self.parts.len() as u64 * self.width_ns;
            self.parts.push(Earlier { from_ns, ns: self.width_ns, ..Earlier::default() });
        }
        &mut self.parts[at]
    }

    /// Makes one part of each two.
    fn halve(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let half = self.parts.len().div_ceil(2);
        for at in 0..half {
            let mut sum = self.parts[2 * at];
            if let Some(other) = self.parts.get(2 * at + 1) {
                sum.events += other.events;
                sum.invocations += other.invocations;
                sum.busy_ns += other.busy_ns;
                sum.asleep_ns += other.asleep_ns;
            }
            sum.ns = self.width_ns;
            self.parts[at] = sum;
        }
        self.parts.truncate(half);
    }

    /// Adds a stretch of time to the parts in which it lies.
    fn spread(&mut self, from_ns: u64, to_ns: u64, add: impl Fn(&mut Earlier, u64)) {
        let mut from_ns = from_ns;
        while from_ns < to_ns {
            // The part of the end first: it may make all others longer.
            let _ = self.part(to_ns - 1);
            let part = self.part(from_ns);
            let end_ns = part.from_ns.saturating_add(part.ns).clamp(from_ns + 1, to_ns);
            add(part, end_ns - from_ns);
            from_ns = end_ns;
        }
    }
}
