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
    /// The processes and nodes, sorted, each once.
    nodes: Vec<(u32, usize)>,
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
        let seats = trace.header().seats.iter();
        let mut nodes: Vec<(u32, usize)> = seats.map(|seat| (seat.process, seat.node.index())).collect();
        nodes.sort_unstable();
        nodes.dedup();
        Export { trace, keys, span, causes, nodes }
    }

    /// The seats of threads, each with its number and its name for people.
    fn seats(&self) -> impl Iterator<Item = (usize, String)> {
        let seats = self.trace.header().seats.iter().enumerate().filter(|(_, seat)| !seat.is_callers);
        seats.map(|(number, seat)| (number, format!("seat {number}, PU {}", seat.pu.index())))
    }

    /// The names of the nodes for people: processes on several machines have nodes of the same numbers.
    fn nodes(&self) -> impl Iterator<Item = String> {
        self.nodes.iter().map(|(process, node)| match self.trace.header().processes.get(*process as usize) {
            Some(process) => format!("{process}, node {node}"),
            None => format!("node {node}"),
        })
    }

    /// The place of a seat's node among [`Export::nodes`].
    fn node_of(&self, seat: usize) -> usize {
        let info = self.trace.header().seats[seat];
        self.nodes.binary_search(&(info.process, info.node.index())).expect("each seat has a node")
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
            (State::WaitsForChildren, _) => "waits for its tasks",
            (State::WaitsForSection, _) => "waits for a group of tasks",
            (State::WaitsForTeam, _) => "waits at a barrier",
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

#[cfg(test)]
mod tests {
    use vicus_trace::{EventLog, Header, JobId, SeatInfo, Trace, What};

    /// A run of two processes, each with a seat on the first node of its machine.
    pub(super) fn of_two_processes() -> Trace {
        let seats = [0, 1].map(|process| SeatInfo { process, ..Header::for_seats(1).seats[0] });
        let processes = ["here", "there"].map(str::to_owned).into();
        let logs = [0, 1].map(|number| {
            let (who, mut log) = (JobId::task(1, number), EventLog::new(10));
            log.record(0, What::UserCodeBegins { who });
            log.record(10, What::UserCodeEnds { who });
            log.finish()
        });
        Trace::new(Header { seats: seats.into(), processes, ..Header::default() }, logs.into())
    }
}
