//! Which events a log holds that keeps a span of time.

use crate::earlier::EarlierSums;
use crate::event::Event;
use std::collections::VecDeque;

/// Events are dropped, and their room is used again, by so many at a time.
pub(crate) const CHUNK: usize = 1024;

/// The events of a span of time, in chunks of one vector, which is allocated at once and touched as far as it was
/// needed: a quiet hour leaves room to a busy one, and no room is touched twice as widely as the busiest span needs.
#[derive(Debug)]
pub(crate) struct Recent {
    span_ns: u64,
    /// The chunks with events, the oldest first. All but the last one are full.
    order: VecDeque<usize>,
    /// Chunks whose events were dropped.
    free: Vec<usize>,
    /// The chunks that there may be.
    most: usize,
    /// The time of the last event for which there was no room.
    refused_until_ns: Option<u64>,
}

impl Recent {
    /// For a vector with room for `most` chunks, now and then of events in the last `span_ns`.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn new(span_ns: u64, most: usize) -> Result<Recent, std::collections::TryReserveError> {
        let (mut order, mut free) = (VecDeque::new(), Vec::new());
        order.try_reserve_exact(most)?;
        free.try_reserve_exact(most)?;
        Ok(Recent { span_ns, order, free, most, refused_until_ns: None })
    }

    pub(crate) fn span_ns(&self) -> u64 {
        self.span_ns
    }

    pub(crate) fn refused_until_ns(&self) -> Option<u64> {
        self.refused_until_ns
    }

    /// Adds an event. Returns how many were dropped for it; their sums have them.
    pub(crate) fn add(
        &mut self,
        events: &mut Vec<Event>,
        next: &mut usize,
        event: Event,
        earlier: &mut EarlierSums,
    ) -> u64 {
        let mut dropped = 0;
        if *next == CHUNK || self.order.is_empty() {
            let from_ns = event.time_ns.saturating_sub(self.span_ns);
            while let Some(&oldest) = self.order.front()
                && last_of(events, oldest) < from_ns
            {
                dropped += self.drop_oldest(events, earlier);
            }
            if self.free.is_empty() && self.order.len() == self.most {
                self.refused_until_ns = Some(self.order.front().map_or(event.time_ns, |&at| last_of(events, at)));
                dropped += self.drop_oldest(events, earlier);
            }
            let fresh = self.order.len() + self.free.len();
            let Some(chunk) = self.free.pop().or((fresh < self.most).then_some(fresh)) else { return 1 };
            self.order.push_back(chunk);
            *next = 0;
        }
        let at = self.order[self.order.len() - 1] * CHUNK + *next;
        if at == events.len() {
            events.push(event)
        } else {
            events[at] = event
        }
        *next += 1;
        dropped
    }

    fn drop_oldest(&mut self, events: &[Event], earlier: &mut EarlierSums) -> u64 {
        let Some(oldest) = self.order.pop_front() else { return 0 };
        events[oldest * CHUNK..][..CHUNK].iter().for_each(|event| earlier.add(event));
        self.free.push(oldest);
        CHUNK as u64
    }

    /// Puts the events in their order, in place; `next` is the number of those in the last chunk.
    pub(crate) fn finish(self, events: &mut Vec<Event>, next: usize) {
        let Some(last) = self.order.len().checked_sub(1) else { return events.clear() };
        let mut places: Vec<usize> = self.order.into_iter().chain(self.free).collect();
        // A last chunk that was never full may stand behind others: they change places as wholes.
        if let Some(&filler) = events.last() {
            events.resize(places.len() * CHUNK, filler);
        }
        for at in 0..places.len() {
            // `places[at]` has what belongs at `at`; what was put aside before lies where its own place pointed to.
            let mut from = places[at];
            while from < at {
                from = places[from];
            }
            if from != at {
                let (low, high) = events.split_at_mut(from * CHUNK);
                low[at * CHUNK..][..CHUNK].swap_with_slice(&mut high[..CHUNK]);
            }
            places[at] = from;
        }
        events.truncate(last * CHUNK + next);
    }
}

/// The time of the last event in a full chunk.
fn last_of(events: &[Event], chunk: usize) -> u64 {
    events[chunk * CHUNK + CHUNK - 1].time_ns
}
