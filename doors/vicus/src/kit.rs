//! The parts of the house that its other doors are built of, and a program does without. They may change with every
//! version.

/// A recording while it is written.
use std::time::Duration;
use vicus_machine::{MachineRuntime, RuntimeBuilder};
use vicus_trace::Trace;

/// Boxes over memory and threads of others.
pub use vicus_flow::{
    Attachment, ConnectedBox, Grants, LinkOptions, Native, Plain, Reservation, SentTooMuch, Unfilled, UnfilledText,
    or_given_up,
};
/// Networks over several processes: the parts of a model, and the crossings between them.
pub use vicus_flow::{CrossingEnds, ModelCrossing, ModelLinks, ModelPart};
/// The machine as others describe it, and learned treatments of programs.
pub use vicus_machine::{
    DiscoverError, Discovered, LatencyFile, Learned, Level, PuTime, Treatment, default_threads, describe,
    from_synthetic, from_sysfs, from_xml, pu_times,
};
/// Memory that is moved, looked at and given back.
pub use vicus_machine::{
    Everywhere, SystemPages, awaits_touch, footprint_of, forget, forget_at, free_bytes, give_back_own_blocks,
    give_back_small_blocks, merge_when_freed, process_memory, touch,
};
/// Groups of tasks, and requests of tasks alone.
pub use vicus_machine::{TaskMemory, TaskRequest, cancel_group, close_group, open_group, spawn_child, spawn_child_in};
/// The allocator's own parts, and containers without a type.
pub use vicus_memory::{
    Audit, Burst, DistOptions, FakePages, Foreign, FreeBlock, Heap, Locations, LocationsError, Locks, MOST_RUNS,
    MemoryOptions, NodeBytes, NodeCounts, NodeSegments, OptionsError, PageError, PagePlacement, Pages, Returns,
    SegmentSource, Series, SeriesError, Sizes, SystemCall, SystemSegments, UntypedHandle, UntypedPool,
};
/// Strategies, as lists and with their parameters.
pub use vicus_schedule::{AllowedValues, DEFAULT_OF_QUERIES, Parameter, Settings, Strategy};
pub use vicus_trace::{EventLog, SeatLog, What};

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

    /// A line for people about events that are missing in a trace that was to have this room: `option` says how more is
    /// given.
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

/// The runtime behind [`Runtime`](crate::Runtime), with its methods, and its builder. It knows no environment.
pub mod machine {
    #[doc(inline)]
    pub use vicus_machine::{MachineRuntime, RuntimeBuilder};
}

/// The parts of a [`Topology`](crate::Topology). `vicus topology` prints this machine's.
pub mod topology {
    pub use vicus_topology::{
        ByPlace, Cache, CacheId, Core, CoreGroup, CoreId, Device, DeviceKind, LocationId, MemorySpeed, NoSuchDevice,
        NoSuchPlace, Node, NotationError, Pu, PuId,
    };
}

/// The counts of a request's boxes.
pub mod counts {
    pub use vicus_flow::{BoxCounts, GrownBox, HeldBytes, InputCounts, OutputCounts};
}

/// Teams of a caller's own threads, for runtimes of languages; a caller's thread on a seat of a runtime; and the calls
/// of such runtimes beside those of [`tasks`](crate::tasks) and [`threads`](crate::threads).
pub mod team {
    pub use vicus_machine::{
        HeldChild, Included, begin_child, end_child, has_queued, run_child, wait_for_earlier, yield_to_descendants,
    };
    pub use vicus_schedule::{MOST_THREADS, SeatId, Setting};
    pub use vicus_threads::team::{BuildTeam, Meetings, Member, Team, gather, name_task};
    pub use vicus_threads::{
        CountThreads, Sitting, StandIn, StartSitting, help, lend, seat, set_word, stack, wait_outside, word,
    };
}

/// The parts of a [`Plan`](crate::Plan): queues, pools of seats, and each seat's search for work. `vicus strategies
/// --plan las` prints one.
pub mod plan {
    pub use vicus_schedule::{
        BoxPlacement, Crowd, DEEP, DealResult, Dealing, Decision, End, FRONT_RULE, FRONT_TURN_NS, Idle, LastUses,
        Latencies, MOST_THREADS, Patience, Pool, PoolId, Probe, QueueId, QueueOrder, QueueScan, QueueSpec, RULES,
        RequestId, Robber, SeatId, SeatPlan, Shares, Take, TaskName, TaskPlacement, Tokens, Uses, Warm, Way, When,
        Whereabouts,
    };
}

/// The parts of a recording ([`Trace`]): of its head, of its events, and of its summary.
pub mod recording {
    pub use vicus_topology::DealReason;
    pub use vicus_trace::{
        Awaits, BoxInfo, BoxSummary, Earlier, Entry, Event, EventKind, Header, InputSource, JobId, Merged, ModelInfo,
        Names, OperatorInfo, RequestOutcome, Rule, SeatInfo, SeatSummary, Takes, TaskKind, UnknownKind, Use, ViaBound,
        Violation,
    };
}
