//! The logs of all seats as one stream.

use crate::{Event, Trace};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The seat that recorded it.
    pub seat: usize,
    /// Its place in the seat's log.
    pub index: usize,
    /// The event.
    pub event: &'a Event,
}

/// All events, those of a seat in its order and causes before effects; from [`Trace::merged`].
pub struct Merged<'a> {
    trace: &'a Trace,
    /// For each seat with events left its next: order, time, seat, index.
    heads: BinaryHeap<Reverse<(u64, u64, usize, usize)>>,
}

impl Trace {
    /// All events by order, then time, then seat: one of the streams that respect both the order on each seat and,
    /// given that clocks were observed, cause before effect. Costs the logarithm of the number of seats per event.
    pub fn merged(&self) -> Merged<'_> {
        let mut merged = Merged { trace: self, heads: BinaryHeap::with_capacity(self.logs.len()) };
        (0..self.logs.len()).for_each(|seat| merged.push(seat, 0));
        merged
    }
}

impl Merged<'_> {
    fn push(&mut self, seat: usize, index: usize) {
        if let Some(event) = self.trace.logs[seat].events.get(index) {
            self.heads.push(Reverse((event.order, event.time_ns, seat, index)));
        }
    }
}

impl<'a> Iterator for Merged<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let Reverse((_, _, seat, index)) = self.heads.pop()?;
        self.push(seat, index + 1);
        Some(Entry { seat, index, event: &self.trace.logs[seat].events[index] })
    }
}
