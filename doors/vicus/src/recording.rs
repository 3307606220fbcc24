//! What a recording keeps, chosen in the same way by all doors.

use std::time::Duration;
use vicus_machine::{MachineRuntime, RuntimeBuilder};
use vicus_trace::{EventLog, Trace};

/// The room of a recording for events, and which of them it keeps.
///
/// ```
/// use std::time::Duration;
/// use vicus::Runtime;
/// use vicus::kit::TraceRoom;
///
/// let room = TraceRoom { last: Some(Duration::from_secs(60)), ..TraceRoom::default() };
/// let runtime = room.of(Runtime::builder().threads(1)).start();
/// runtime.run(|| ());
/// let trace = runtime.trace().unwrap();
/// assert!(trace.header().rolls);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRoom {
    /// How many events of each thread have room.
    pub events: usize,
    /// Whether the last events are kept in place of the first ones, and sums of those before.
    pub rolls: bool,
    /// The span of time before the end whose events are kept, and sums of the time before; it goes before `rolls`.
    pub last: Option<Duration>,
}

impl Default for TraceRoom {
    fn default() -> TraceRoom {
        TraceRoom { events: EventLog::DEFAULT_ROOM, rolls: false, last: None }
    }
}

impl TraceRoom {
    /// A builder whose runtime records so.
    pub fn of<R: From<MachineRuntime>>(self, builder: RuntimeBuilder<R>) -> RuntimeBuilder<R> {
        match (self.last, self.rolls) {
            (Some(last), _) => builder.record_last_time(last, self.events),
            (None, true) => builder.record_last(self.events),
            (None, false) => builder.record(self.events),
        }
    }

    /// What is missing in a trace that was to have this room, in a line for people: `option` says how more is given.
    pub fn shortage(self, trace: &Trace, option: &str) -> Option<String> {
        let whole = Duration::from_nanos(trace.header().last_ns);
        match (self.last, self.rolls) {
            (Some(last), _) => (whole < last).then(|| {
                let [whole, last] = [whole, last].map(|span| span.as_secs_f64());
                format!("the trace has the last {whole:.1} s of {last:.1}: make room by {option}")
            }),
            (None, true) => (trace.lost() > 0)
                .then(|| format!("the trace has the last events; {} before them were dropped", trace.lost())),
            (None, false) => (trace.lost() > 0)
                .then(|| format!("{} events did not fit into the trace: make room by {option}", trace.lost())),
        }
    }
}
