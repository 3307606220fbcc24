//! A run in the forms of other programs: Perfetto and Chrome's trace viewer, tables of Arrow, and a still picture.

mod arrow;
mod chrome;
mod perfetto;
mod still;

pub use arrow::arrow;
pub use chrome::chrome_json;
pub use perfetto::perfetto;
pub use still::{Still, still};

use crate::activity::{Slice, State, slices};
use crate::keys::Keys;
use crate::pack::{Cause, has_cause};
use crate::pass::pass;
use crate::pyramid::Span;
use vicus_trace::{EventKind, Trace};

/// A run as its exports go through it.
struct Export<'a> {
    trace: &'a Trace,
    keys: Keys,
    span: Span,
    causes: Vec<Vec<Option<Cause>>>,
}

/// A job that a seat took from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Take {
    /// Unique in a run, from 1 on.
    id: u64,
    from_seat: usize,
    queued_ns: u64,
    to_seat: usize,
    taken_ns: u64,
}

impl<'a> Export<'a> {
    fn new(trace: &'a Trace) -> Export<'a> {
        let keys = Keys::new(trace);
        let events = || trace.logs().iter().flat_map(|log| &log.events);
        let first_ns = events().map(|event| event.time_ns).min().unwrap_or(0);
        let last_ns = events().map(|event| event.time_ns).max().unwrap_or(0);
        let span = Span { first_ns, ns: last_ns - first_ns };
        let causes = pass(trace, &keys, &[], span).causes;
        Export { trace, keys, span, causes }
    }

    /// The seats of threads, each with its number and its name for people.
    fn seats(&self) -> impl Iterator<Item = (usize, String)> {
        let seats = self.trace.header().seats.iter().enumerate().filter(|(_, seat)| !seat.is_callers);
        seats.map(|(number, seat)| (number, format!("seat {number}, PU {}", seat.pu.index())))
    }

    /// Hands over the slices of a seat in which it does something, or sleeps.
    fn slices(&self, seat: usize, mut emit: impl FnMut(&Slice)) {
        let last_ns = self.span.first_ns.saturating_add(self.span.ns);
        slices(&self.trace.logs()[seat].events, last_ns, &self.keys, |slice| {
            if slice.state != State::Looks {
                emit(&slice);
            }
        });
    }

    /// A slice's name for people.
    fn name(&self, slice: &Slice) -> &str {
        match (slice.state, slice.who) {
            (State::Asleep, _) => "asleep",
            (State::Away, _) => "waits to be lent",
            (State::Waits, _) => "waits for tasks",
            (State::Around, _) => "around user code",
            (_, Some((_, key))) => &self.keys.all[key as usize].name,
            _ => "looks for work",
        }
    }

    /// The takes from other seats.
    fn takes(&self) -> Vec<Take> {
        let mut takes = Vec::new();
        for (to_seat, log) in self.trace.logs().iter().enumerate() {
            let mut causes = self.causes[to_seat].iter();
            for event in log.events.iter().filter(|event| has_cause(event.what.kind())) {
                let Some(Some(cause)) = causes.next() else { continue };
                let from_seat = cause.seat as usize;
                if event.what.kind() == EventKind::Taken && from_seat != to_seat {
                    let queued_ns = self.trace.logs()[from_seat].events[cause.index as usize].time_ns;
                    let id = takes.len() as u64 + 1;
                    takes.push(Take { id, from_seat, queued_ns, to_seat, taken_ns: event.time_ns });
                }
            }
        }
        takes
    }
}
