//! An event: its time, its order, and its kind.
//!
//! After Bednárek, Dokulil and Yaghob, "The Bobox Project", Technical Report 2011/1, Charles University Prague, §5.6:
//! events for queueing a box, for the beginning of its invocation and of its user code, and for received and created
//! envelopes. We differ: each beginning has an end, so durations need no interpolation; an event has a time stamp and a
//! logical clock of its seat, instead of one shared by all threads; and an envelope's event says whether it is a
//! poisoned pill, while their viewer has to look up its creation.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use vicus_topology::DealReason;

/// An event on one seat, known to the log. 32 bytes in memory and in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// The time, by the world's clock.
    pub time_ns: u64,
    /// The seat's Lamport clock. Invariant: rises along each log, and an effect's value is greater than its cause's.
    pub order: u64,
    /// The kind of the event, with its data.
    pub what: What,
}

const _: () = assert!(size_of::<Event>() == Event::BYTES);

/// A box of a request, or a task that is not a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct JobId {
    /// The request: the low 32 bits of the runtime's id.
    pub request: u32,
    /// The box's index in its model. For a task that is not a box: its number plus [`JobId::TASKS`], or [`JobId::NONE`]
    /// without a number.
    #[serde(rename = "box")]
    pub index: u32,
}

impl JobId {
    /// The index of a task without a number, and of a caller from outside.
    pub const NONE: u32 = u32::MAX;

    /// The first index of numbered tasks that are not boxes.
    pub const TASKS: u32 = 1 << 31;

    /// A task of this request that is neither a box nor numbered: a closure of `join`, a chunk of a loop.
    pub const fn task_of(request: u32) -> JobId {
        JobId { request, index: JobId::NONE }
    }

    /// A task with this number, unique in a run, across requests. A number beyond the limit is dropped.
    pub const fn task(request: u32, number: u32) -> JobId {
        match number < JobId::TASKS {
            true => JobId { request, index: JobId::TASKS + number },
            false => JobId::task_of(request),
        }
    }

    /// Whether this is a box, under the box protocol, or another task.
    pub const fn is_box(self) -> bool {
        self.index < JobId::TASKS
    }

    /// The number of a task that is not a box, if it has one.
    pub const fn number(self) -> Option<u32> {
        match self.index {
            JobId::NONE => None,
            index => index.checked_sub(JobId::TASKS),
        }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} {}", self.request, Index(self.index))
    }
}

/// Displays an index.
struct Index(u32);

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (JobId { request: 0, index: self.0 }).number() {
            Some(number) => write!(f, "task {number}"),
            None if self.0 == JobId::NONE => f.write_str("task"),
            None => write!(f, "box {}", self.0),
        }
    }
}

/// The two ways to queue a task (Falt et al., §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum TaskKind {
    /// The task shares data with the box that queued it, and this data is still in the caches.
    Immediate,
    /// The task begins something new.
    Deferred,
}

/// A task's declared use of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Use {
    /// Reads them.
    Reads,
    /// Writes all of them without reading any.
    Writes,
    /// Reads and writes them.
    ReadsAndWrites,
    /// Reads and writes them at the same time as its neighbours of this kind.
    Concurrent,
    /// Reads and writes them, in any order among its neighbours of this kind.
    Commutative,
}

impl Use {
    const ALL: [Use; 5] = [Use::Reads, Use::Writes, Use::ReadsAndWrites, Use::Concurrent, Use::Commutative];
}

/// The tasks a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Awaits {
    /// The tasks it has spawned.
    Children,
    /// The tasks of its innermost section; the section ends then.
    Section,
    /// All tasks of its team, and the other members, as at a barrier.
    Team,
}

impl Awaits {
    const ALL: [Awaits; 3] = [Awaits::Children, Awaits::Section, Awaits::Team];
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum RequestOutcome {
    /// All its boxes finished.
    Done,
    /// A box failed.
    Failed,
    /// A caller cancelled it.
    Cancelled,
}

/// The kind of an event.
///
/// `who` is the box or task of the event. For each event that begins something, the same seat records its end; the only
/// exception is [`What::Refused`]: any seat may record its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum What {
    /// A task was put in a queue.
    Enqueued {
        /// The task.
        who: JobId,
        /// How it was queued.
        #[serde(rename = "task_kind")]
        kind: TaskKind,
        /// The index ([`JobId::index`]) of the box of the same request, or of the task, that queued it; or
        /// [`JobId::NONE`]. It also spawned the task, unless a [`What::Spawned`] says otherwise.
        by: u32,
    },
    /// A task that is not a box was spawned, and may have to wait for others before it is queued.
    Spawned {
        /// The task.
        who: JobId,
        /// The index of its spawner, as in [`What::Enqueued`].
        by: u32,
    },
    /// A task was taken out of a queue.
    Taken {
        /// The task.
        who: JobId,
        /// The number of the plan's rule that took it; for `las` the levels 1 to 5 of Falt et al., §4.
        rule: u8,
        /// Whether the queue's node is not the seat's.
        far: bool,
    },
    /// A box's invocation begins: the prologue.
    InvocationBegins {
        /// The box.
        who: JobId,
    },
    /// A box's invocation ends: after the epilogue.
    InvocationEnds {
        /// The box.
        who: JobId,
    },
    /// The user's code begins, inside an invocation.
    UserCodeBegins {
        /// The box.
        who: JobId,
    },
    /// The user's code ends.
    UserCodeEnds {
        /// The box.
        who: JobId,
    },
    /// A box took an envelope from an input.
    EnvelopeReceived {
        /// The box.
        who: JobId,
        /// The number of the input.
        input: u16,
        /// How many rows the envelope has.
        rows: u32,
        /// Whether it ends the stream.
        pill: bool,
    },
    /// A box saw an envelope at an input and left it there, to wait for something else. Recorded once for each
    /// envelope.
    EnvelopeLeft {
        /// The box.
        who: JobId,
        /// The number of the input.
        input: u16,
    },
    /// A box keeps the envelope just taken from an input as long as it lives, such as a hash table. Later reads of the
    /// envelope are not recorded; it is not part of [`What::Held`].
    EnvelopeKept {
        /// The box.
        who: JobId,
        /// The number of the input.
        input: u16,
    },
    /// A box made an envelope, in newly allocated memory.
    EnvelopeCreated {
        /// The box.
        who: JobId,
        /// The number of the output.
        output: u16,
        /// The bytes of its columns; greater sizes are recorded as four billion.
        bytes: u32,
    },
    /// A via took an envelope from an output.
    EnvelopeSent {
        /// The box.
        who: JobId,
        /// The number of the output.
        output: u16,
        /// How many rows the envelope has.
        rows: u32,
        /// Whether it ends the stream.
        pill: bool,
    },
    /// An invocation took or read data. Or a task that is not a box has begun, and these are the bytes of its declared
    /// use, by their place at this time. There is one event for the seat's own node, and one for all other nodes;
    /// untouched pages are in neither.
    BytesRead {
        /// The box or task.
        who: JobId,
        /// Whether the data lies on another node than the seat's.
        far: bool,
        /// The number of bytes; greater sizes are recorded as four billion.
        bytes: u32,
    },
    /// The bytes a box keeps beyond its invocation, such as a hash table or rows to be sorted. Recorded at the end of
    /// the user code, after a change.
    Held {
        /// The box.
        who: JobId,
        /// The bytes in all; greater sizes are recorded as four billion.
        bytes: u32,
    },
    /// The declared footprint of a task that is not a box, recorded by its maker's seat; another seat may run it
    /// ([`What::BytesRead`] is by that seat). There is one event for bytes on the seat's own node, and one for bytes
    /// elsewhere; untouched pages are in neither.
    Footprint {
        /// The task.
        who: JobId,
        /// Whether the bytes lie on another node than the seat's.
        far: bool,
        /// The number of bytes; greater sizes are recorded as four billion.
        bytes: u32,
    },
    /// A task with a footprint was dealt, or was found to be better left to its maker's seat. Recorded by that seat,
    /// under strategies that deal.
    Dealt {
        /// The task.
        who: JobId,
        /// Why it goes there.
        why: DealReason,
        /// The percentage of its bytes at their chosen destination; 0 if they did not decide.
        share: u16,
        /// The index of the queue in the plan; or [`JobId::NONE`] if it is left to its maker's seat.
        queue: u32,
    },
    /// A task that is not a box uses bytes from this address on, and they order it among the tasks of its spawner. The
    /// seat's next event gives their number.
    Follows {
        /// The task.
        who: JobId,
        /// The use of the bytes.
        how: Use,
        /// The upper 16 bits of the 48 of the address; see [`What::number`].
        high: u16,
        /// The lower 32 bits.
        low: u32,
    },
    /// Likewise for bytes that only give the task's place.
    Uses {
        /// The task.
        who: JobId,
        /// The use of the bytes.
        how: Use,
        /// See [`What::Follows`].
        high: u16,
        /// See [`What::Follows`].
        low: u32,
    },
    /// How many bytes they are: a number of 48 bits; greater ones are recorded as the greatest.
    UsesBytes {
        /// The task.
        who: JobId,
        /// The upper 16 bits; see [`What::number`].
        high: u16,
        /// The lower 32 bits.
        low: u32,
    },
    /// From here on, a wait of this task for a section is for tasks spawned after this event. Sections nest.
    SectionBegins {
        /// The task.
        who: JobId,
    },
    /// A task begins to wait for others. Its seat may run tasks meanwhile.
    WaitBegins {
        /// The task.
        who: JobId,
        /// The others.
        awaits: Awaits,
    },
    /// The task goes on.
    WaitEnds {
        /// The task.
        who: JobId,
    },
    /// The newly begun task is one of this function.
    Named {
        /// The task.
        who: JobId,
        /// The index in [`Header::functions`](crate::Header::functions).
        function: u32,
    },
    /// A via was full; the box is blocked from now on.
    Refused {
        /// The box.
        who: JobId,
        /// The number of the output.
        output: u16,
    },
    /// The via has room again; this output no longer blocks the box.
    Resumed {
        /// The box.
        who: JobId,
        /// The number of the output.
        output: u16,
    },
    /// Boxes waited for each other in a circle, and this via of it may hold more from now on; or it may keep envelopes
    /// outside of memory, and `bytes` is 0. The box goes on.
    Overdrawn {
        /// The box.
        who: JobId,
        /// The number of the output.
        output: u16,
        /// So many bytes more.
        bytes: u32,
    },
    /// The seat found nothing to do and goes to sleep.
    SleepBegins,
    /// The seat is awake again.
    SleepEnds,
    /// The seat woke a sleeping thread of a pool; the operating system chooses the thread.
    Woke {
        /// The pool.
        pool: u32,
    },
    /// A request came in.
    RequestSubmitted {
        /// The request.
        request: u32,
    },
    /// A request is over.
    RequestEnded {
        /// The request.
        request: u32,
        /// How it ended.
        outcome: RequestOutcome,
    },
    /// A thread was lent to this seat, because the thread of another seat is blocked.
    LentBegins {
        /// The seat with the blocked thread.
        seat: u32,
    },
    /// The lent thread leaves, and waits to be lent again.
    LentEnds,
}

/// [`What`] without its fields: for filtering events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is documented at its namesake in `What`")]
pub enum EventKind {
    Enqueued,
    Taken,
    InvocationBegins,
    InvocationEnds,
    UserCodeBegins,
    UserCodeEnds,
    EnvelopeReceived,
    EnvelopeCreated,
    EnvelopeSent,
    Refused,
    Resumed,
    SleepBegins,
    SleepEnds,
    Woke,
    RequestSubmitted,
    RequestEnded,
    LentBegins,
    LentEnds,
    BytesRead,
    EnvelopeLeft,
    Footprint,
    Held,
    Spawned,
    EnvelopeKept,
    Follows,
    Uses,
    UsesBytes,
    SectionBegins,
    WaitBegins,
    WaitEnds,
    Named,
    Dealt,
    Overdrawn,
}

impl EventKind {
    /// Every kind; the place in this list is the number in a file.
    pub const ALL: [EventKind; 33] = [
        EventKind::Enqueued,
        EventKind::Taken,
        EventKind::InvocationBegins,
        EventKind::InvocationEnds,
        EventKind::UserCodeBegins,
        EventKind::UserCodeEnds,
        EventKind::EnvelopeReceived,
        EventKind::EnvelopeCreated,
        EventKind::EnvelopeSent,
        EventKind::Refused,
        EventKind::Resumed,
        EventKind::SleepBegins,
        EventKind::SleepEnds,
        EventKind::Woke,
        EventKind::RequestSubmitted,
        EventKind::RequestEnded,
        EventKind::LentBegins,
        EventKind::LentEnds,
        EventKind::BytesRead,
        EventKind::EnvelopeLeft,
        EventKind::Footprint,
        EventKind::Held,
        EventKind::Spawned,
        EventKind::EnvelopeKept,
        EventKind::Follows,
        EventKind::Uses,
        EventKind::UsesBytes,
        EventKind::SectionBegins,
        EventKind::WaitBegins,
        EventKind::WaitEnds,
        EventKind::Named,
        EventKind::Dealt,
        EventKind::Overdrawn,
    ];

    /// The name for users: `user-code-begins`.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::Enqueued => "enqueued",
            EventKind::Taken => "taken",
            EventKind::InvocationBegins => "invocation-begins",
            EventKind::InvocationEnds => "invocation-ends",
            EventKind::UserCodeBegins => "user-code-begins",
            EventKind::UserCodeEnds => "user-code-ends",
            EventKind::EnvelopeReceived => "envelope-received",
            EventKind::EnvelopeCreated => "envelope-created",
            EventKind::EnvelopeSent => "envelope-sent",
            EventKind::Refused => "refused",
            EventKind::Resumed => "resumed",
            EventKind::SleepBegins => "sleep-begins",
            EventKind::SleepEnds => "sleep-ends",
            EventKind::Woke => "woke",
            EventKind::RequestSubmitted => "request-submitted",
            EventKind::RequestEnded => "request-ended",
            EventKind::LentBegins => "lent-begins",
            EventKind::LentEnds => "lent-ends",
            EventKind::BytesRead => "bytes-read",
            EventKind::EnvelopeLeft => "envelope-left",
            EventKind::Footprint => "footprint",
            EventKind::Held => "held",
            EventKind::Spawned => "spawned",
            EventKind::EnvelopeKept => "envelope-kept",
            EventKind::Follows => "follows",
            EventKind::Uses => "uses",
            EventKind::UsesBytes => "uses-bytes",
            EventKind::SectionBegins => "section-begins",
            EventKind::WaitBegins => "wait-begins",
            EventKind::WaitEnds => "wait-ends",
            EventKind::Named => "named",
            EventKind::Dealt => "dealt",
            EventKind::Overdrawn => "overdrawn",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word other than the names of [`EventKind`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKind(
    /// The word.
    pub String,
);

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.name()).collect();
        write!(f, "no kind of event is called `{}`; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownKind {}

impl FromStr for EventKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<EventKind, UnknownKind> {
        let found = EventKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

impl What {
    /// The kind of this event.
    pub const fn kind(self) -> EventKind {
        match self {
            What::Enqueued { .. } => EventKind::Enqueued,
            What::Taken { .. } => EventKind::Taken,
            What::InvocationBegins { .. } => EventKind::InvocationBegins,
            What::InvocationEnds { .. } => EventKind::InvocationEnds,
            What::UserCodeBegins { .. } => EventKind::UserCodeBegins,
            What::UserCodeEnds { .. } => EventKind::UserCodeEnds,
            What::EnvelopeReceived { .. } => EventKind::EnvelopeReceived,
            What::EnvelopeCreated { .. } => EventKind::EnvelopeCreated,
            What::EnvelopeSent { .. } => EventKind::EnvelopeSent,
            What::Refused { .. } => EventKind::Refused,
            What::Resumed { .. } => EventKind::Resumed,
            What::SleepBegins => EventKind::SleepBegins,
            What::SleepEnds => EventKind::SleepEnds,
            What::Woke { .. } => EventKind::Woke,
            What::RequestSubmitted { .. } => EventKind::RequestSubmitted,
            What::RequestEnded { .. } => EventKind::RequestEnded,
            What::LentBegins { .. } => EventKind::LentBegins,
            What::LentEnds => EventKind::LentEnds,
            What::BytesRead { .. } => EventKind::BytesRead,
            What::EnvelopeLeft { .. } => EventKind::EnvelopeLeft,
            What::EnvelopeKept { .. } => EventKind::EnvelopeKept,
            What::Footprint { .. } => EventKind::Footprint,
            What::Held { .. } => EventKind::Held,
            What::Spawned { .. } => EventKind::Spawned,
            What::Follows { .. } => EventKind::Follows,
            What::Uses { .. } => EventKind::Uses,
            What::UsesBytes { .. } => EventKind::UsesBytes,
            What::SectionBegins { .. } => EventKind::SectionBegins,
            What::WaitBegins { .. } => EventKind::WaitBegins,
            What::WaitEnds { .. } => EventKind::WaitEnds,
            What::Named { .. } => EventKind::Named,
            What::Dealt { .. } => EventKind::Dealt,
            What::Overdrawn { .. } => EventKind::Overdrawn,
        }
    }

    /// The box or task of the event, if there is one.
    pub const fn who(self) -> Option<JobId> {
        match self {
            What::Enqueued { who, .. }
            | What::Taken { who, .. }
            | What::InvocationBegins { who }
            | What::InvocationEnds { who }
            | What::UserCodeBegins { who }
            | What::UserCodeEnds { who }
            | What::EnvelopeReceived { who, .. }
            | What::EnvelopeLeft { who, .. }
            | What::EnvelopeKept { who, .. }
            | What::EnvelopeCreated { who, .. }
            | What::EnvelopeSent { who, .. }
            | What::BytesRead { who, .. }
            | What::Footprint { who, .. }
            | What::Held { who, .. }
            | What::Spawned { who, .. }
            | What::Follows { who, .. }
            | What::Uses { who, .. }
            | What::UsesBytes { who, .. }
            | What::SectionBegins { who }
            | What::WaitBegins { who, .. }
            | What::WaitEnds { who }
            | What::Named { who, .. }
            | What::Dealt { who, .. }
            | What::Refused { who, .. }
            | What::Overdrawn { who, .. }
            | What::Resumed { who, .. } => Some(who),
            What::SleepBegins
            | What::SleepEnds
            | What::Woke { .. }
            | What::RequestSubmitted { .. }
            | What::RequestEnded { .. }
            | What::LentBegins { .. }
            | What::LentEnds => None,
        }
    }
}

impl What {
    /// The halves of a number of 48 bits, as an address is one; a greater number becomes the greatest.
    pub const fn halves(number: u64) -> (u16, u32) {
        let number = if number >> 48 == 0 { number } else { (1 << 48) - 1 };
        ((number >> 32) as u16, number as u32)
    }

    /// The number of 48 bits of [`What::Follows`], [`What::Uses`] and [`What::UsesBytes`].
    ///
    /// ```
    /// use vicus_trace::{JobId, Use, What};
    /// let (high, low) = What::halves(0x7fff_1234_5678);
    /// let what = What::Uses { who: JobId::task(1, 0), how: Use::Reads, high, low };
    /// assert_eq!(what.number(), Some(0x7fff_1234_5678));
    /// ```
    pub const fn number(self) -> Option<u64> {
        match self {
            What::Follows { high, low, .. } | What::Uses { high, low, .. } | What::UsesBytes { high, low, .. } => {
                Some((high as u64) << 32 | low as u64)
            }
            _ => None,
        }
    }
}

/// The fields without kind and box, for people: `input 0, 512 rows`.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends_stream = |pill: bool| if pill { ", end of stream" } else { "" };
        match *self {
            What::Enqueued { kind, by, .. } => {
                f.write_str(match kind {
                    TaskKind::Immediate => "immediate",
                    TaskKind::Deferred => "deferred",
                })?;
                match by {
                    JobId::NONE => Ok(()),
                    by => write!(f, ", by {}", Index(by)),
                }
            }
            What::Spawned { by: JobId::NONE, .. } => Ok(()),
            What::Spawned { by, .. } => write!(f, "by {}", Index(by)),
            What::Taken { rule, far, .. } => write!(f, "rule {rule}, {}", if far { "far" } else { "near" }),
            What::EnvelopeReceived { input, rows, pill, .. } => {
                write!(f, "input {input}, {rows} rows{}", ends_stream(pill))
            }
            What::EnvelopeLeft { input, .. } | What::EnvelopeKept { input, .. } => write!(f, "input {input}"),
            What::EnvelopeCreated { output, bytes, .. } => write!(f, "output {output}, {bytes} bytes"),
            What::EnvelopeSent { output, rows, pill, .. } => {
                write!(f, "output {output}, {rows} rows{}", ends_stream(pill))
            }
            What::BytesRead { far, bytes, .. } | What::Footprint { far, bytes, .. } => {
                write!(f, "{bytes} bytes {}", if far { "far" } else { "near" })
            }
            What::Held { bytes, .. } => write!(f, "{bytes} bytes"),
            What::Follows { how, high, low, .. } | What::Uses { how, high, low, .. } => {
                let how = match how {
                    Use::Reads => "reads",
                    Use::Writes => "writes",
                    Use::ReadsAndWrites => "reads and writes",
                    Use::Concurrent => "concurrent",
                    Use::Commutative => "commutative",
                };
                write!(f, "{how} from {:#x} on", u64::from(high) << 32 | u64::from(low))
            }
            What::UsesBytes { high, low, .. } => write!(f, "{} bytes", u64::from(high) << 32 | u64::from(low)),
            What::WaitBegins { awaits, .. } => f.write_str(match awaits {
                Awaits::Children => "for its tasks",
                Awaits::Section => "for the section's tasks",
                Awaits::Team => "for all tasks of the team",
            }),
            What::Named { function, .. } => write!(f, "function {function}"),
            What::Dealt { why, share, queue, .. } => {
                match queue {
                    JobId::NONE => f.write_str("stays with its maker: ")?,
                    queue => write!(f, "to queue {queue}: ")?,
                }
                match why {
                    DealReason::Small => f.write_str("few bytes"),
                    DealReason::Even => f.write_str("its bytes lie everywhere"),
                    DealReason::Home => write!(f, "the home of what it uses intensely, with {share} % of that"),
                    DealReason::Nearest => write!(f, "its bytes cost least there, {share} % lie there"),
                    DealReason::Turn => f.write_str("in turn"),
                    DealReason::Crowd => f.write_str("its maker's node, among many requests"),
                    DealReason::Part => {
                        write!(f, "a part of its maker's work, and only {share} % of its bytes lie in one place")
                    }
                    DealReason::Warm => write!(f, "{share} % of its bytes were used last there"),
                }
            }
            What::Refused { output, .. } | What::Resumed { output, .. } => write!(f, "output {output}"),
            What::Overdrawn { output, bytes: 0, .. } => write!(f, "output {output}, envelopes outside of memory"),
            What::Overdrawn { output, bytes, .. } => write!(f, "output {output}, {bytes} bytes more"),
            What::Woke { pool } => write!(f, "pool {pool}"),
            What::LentBegins { seat } => write!(f, "for seat {seat}"),
            What::RequestSubmitted { request } => write!(f, "request {request}"),
            What::RequestEnded { request, outcome } => {
                let outcome = match outcome {
                    RequestOutcome::Done => "done",
                    RequestOutcome::Failed => "failed",
                    RequestOutcome::Cancelled => "cancelled",
                };
                write!(f, "request {request}, {outcome}")
            }
            What::InvocationBegins { .. }
            | What::InvocationEnds { .. }
            | What::UserCodeBegins { .. }
            | What::UserCodeEnds { .. }
            | What::SectionBegins { .. }
            | What::WaitEnds { .. }
            | What::SleepBegins
            | What::SleepEnds
            | What::LentEnds => Ok(()),
        }
    }
}

/// The columns of an event in a file; columns without a use by a kind are 0.
#[derive(Default)]
struct Columns {
    /// A task kind, rule, outcome or flag.
    detail: u8,
    /// An input, an output, or a second flag.
    port: u16,
    request: u32,
    index: u32,
    /// Rows, bytes, a seat or another box.
    value: u32,
}

impl Event {
    /// The bytes of an event in a file.
    pub const BYTES: usize = 32;

    /// The event as in a file: time, order, kind, detail, port, request, box, value, all little-endian.
    pub fn to_bytes(&self) -> [u8; Event::BYTES] {
        let columns = self.what.columns();
        let mut bytes = [0; Event::BYTES];
        bytes[..8].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.order.to_le_bytes());
        bytes[16] = self.what.kind() as u8;
        bytes[17] = columns.detail;
        bytes[18..20].copy_from_slice(&columns.port.to_le_bytes());
        bytes[20..24].copy_from_slice(&columns.request.to_le_bytes());
        bytes[24..28].copy_from_slice(&columns.index.to_le_bytes());
        bytes[28..].copy_from_slice(&columns.value.to_le_bytes());
        bytes
    }

    /// The inverse of [`Event::to_bytes`]; `None` for all other bytes.
    pub fn from_bytes(bytes: &[u8; Event::BYTES]) -> Option<Event> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let kind = *EventKind::ALL.get(usize::from(bytes[16]))?;
        let columns = Columns {
            detail: bytes[17],
            port: u16::from_le_bytes([bytes[18], bytes[19]]),
            request: u32_at(20),
            index: u32_at(24),
            value: u32_at(28),
        };
        let event = Event { time_ns: u64_at(0), order: u64_at(8), what: What::from_columns(kind, &columns)? };
        // Unused columns must be 0, so later versions can give them a meaning.
        (event.to_bytes() == *bytes).then_some(event)
    }
}

impl What {
    fn columns(self) -> Columns {
        let own = match self {
            What::Enqueued { kind, by, .. } => Columns { detail: kind as u8, value: by, ..Columns::default() },
            What::Taken { rule, far, .. } => Columns { detail: rule, port: far.into(), ..Columns::default() },
            What::EnvelopeReceived { input: port, rows: value, pill, .. }
            | What::EnvelopeSent { output: port, rows: value, pill, .. } => {
                Columns { detail: pill.into(), port, value, ..Columns::default() }
            }
            What::EnvelopeCreated { output: port, bytes: value, .. }
            | What::Overdrawn { output: port, bytes: value, .. } => Columns { port, value, ..Columns::default() },
            What::BytesRead { far, bytes: value, .. } | What::Footprint { far, bytes: value, .. } => {
                Columns { port: far.into(), value, ..Columns::default() }
            }
            What::Held { bytes: value, .. } | What::Spawned { by: value, .. } | What::Named { function: value, .. } => {
                Columns { value, ..Columns::default() }
            }
            What::Follows { how, high: port, low: value, .. } | What::Uses { how, high: port, low: value, .. } => {
                Columns { detail: how as u8, port, value, ..Columns::default() }
            }
            What::UsesBytes { high: port, low: value, .. } => Columns { port, value, ..Columns::default() },
            What::WaitBegins { awaits, .. } => Columns { detail: awaits as u8, ..Columns::default() },
            What::Dealt { why, share: port, queue: value, .. } => {
                Columns { detail: why as u8, port, value, ..Columns::default() }
            }
            What::EnvelopeLeft { input: port, .. }
            | What::EnvelopeKept { input: port, .. }
            | What::Refused { output: port, .. }
            | What::Resumed { output: port, .. } => Columns { port, ..Columns::default() },
            What::Woke { pool: value } | What::LentBegins { seat: value } => Columns { value, ..Columns::default() },
            What::RequestSubmitted { request } => Columns { request, ..Columns::default() },
            What::RequestEnded { request, outcome } => Columns { detail: outcome as u8, request, ..Columns::default() },
            What::InvocationBegins { .. }
            | What::InvocationEnds { .. }
            | What::UserCodeBegins { .. }
            | What::UserCodeEnds { .. }
            | What::SectionBegins { .. }
            | What::WaitEnds { .. }
            | What::SleepBegins
            | What::SleepEnds
            | What::LentEnds => Columns::default(),
        };
        match self.who() {
            Some(JobId { request, index }) => Columns { request, index, ..own },
            None => own,
        }
    }

    fn from_columns(kind: EventKind, columns: &Columns) -> Option<What> {
        let &Columns { detail, port, request, index, value } = columns;
        let who = JobId { request, index };
        let flag = |number: u16| match number {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        Some(match kind {
            EventKind::Enqueued => {
                let kind = *[TaskKind::Immediate, TaskKind::Deferred].get(usize::from(detail))?;
                What::Enqueued { who, kind, by: value }
            }
            EventKind::Taken => What::Taken { who, rule: detail, far: flag(port)? },
            EventKind::InvocationBegins => What::InvocationBegins { who },
            EventKind::InvocationEnds => What::InvocationEnds { who },
            EventKind::UserCodeBegins => What::UserCodeBegins { who },
            EventKind::UserCodeEnds => What::UserCodeEnds { who },
            EventKind::EnvelopeReceived => {
                What::EnvelopeReceived { who, input: port, rows: value, pill: flag(detail.into())? }
            }
            EventKind::EnvelopeCreated => What::EnvelopeCreated { who, output: port, bytes: value },
            EventKind::EnvelopeSent => {
                What::EnvelopeSent { who, output: port, rows: value, pill: flag(detail.into())? }
            }
            EventKind::Refused => What::Refused { who, output: port },
            EventKind::Resumed => What::Resumed { who, output: port },
            EventKind::Overdrawn => What::Overdrawn { who, output: port, bytes: value },
            EventKind::SleepBegins => What::SleepBegins,
            EventKind::SleepEnds => What::SleepEnds,
            EventKind::Woke => What::Woke { pool: value },
            EventKind::RequestSubmitted => What::RequestSubmitted { request },
            EventKind::RequestEnded => {
                let outcome = *[RequestOutcome::Done, RequestOutcome::Failed, RequestOutcome::Cancelled]
                    .get(usize::from(detail))?;
                What::RequestEnded { request, outcome }
            }
            EventKind::LentBegins => What::LentBegins { seat: value },
            EventKind::LentEnds => What::LentEnds,
            EventKind::BytesRead => What::BytesRead { who, far: flag(port)?, bytes: value },
            EventKind::EnvelopeLeft => What::EnvelopeLeft { who, input: port },
            EventKind::Footprint => What::Footprint { who, far: flag(port)?, bytes: value },
            EventKind::Held => What::Held { who, bytes: value },
            EventKind::Spawned => What::Spawned { who, by: value },
            EventKind::EnvelopeKept => What::EnvelopeKept { who, input: port },
            EventKind::Follows => {
                What::Follows { who, how: *Use::ALL.get(usize::from(detail))?, high: port, low: value }
            }
            EventKind::Uses => What::Uses { who, how: *Use::ALL.get(usize::from(detail))?, high: port, low: value },
            EventKind::UsesBytes => What::UsesBytes { who, high: port, low: value },
            EventKind::SectionBegins => What::SectionBegins { who },
            EventKind::WaitBegins => What::WaitBegins { who, awaits: *Awaits::ALL.get(usize::from(detail))? },
            EventKind::WaitEnds => What::WaitEnds { who },
            EventKind::Named => What::Named { who, function: value },
            EventKind::Dealt => {
                What::Dealt { who, why: *DealReason::ALL.get(usize::from(detail))?, share: port, queue: value }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_number_and_its_name() {
        for (number, kind) in EventKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "sleeps".parse::<EventKind>().unwrap_err().to_string();
        assert!(error.contains("`sleeps`") && error.contains("sleep-begins"), "{error}");
    }

    #[test]
    fn an_event_in_a_file_has_known_bytes() {
        let who = JobId { request: 0x01020304, index: 5 };
        let what = What::EnvelopeSent { who, output: 2, rows: 0x0600, pill: true };
        let event = Event { time_ns: 0x11, order: 0x2200, what };
        let mut expected = [0; 32];
        (expected[0], expected[9], expected[16], expected[17], expected[18]) = (0x11, 0x22, 8, 1, 2);
        expected[20..24].copy_from_slice(&[4, 3, 2, 1]);
        (expected[24], expected[29]) = (5, 6);
        assert_eq!(event.to_bytes(), expected);
        assert_eq!(Event::from_bytes(&expected), Some(event));
    }

    #[test]
    fn bytes_that_no_event_is_written_as_are_refused() {
        let good = Event { time_ns: 1, order: 1, what: What::SleepBegins }.to_bytes();
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            Event::from_bytes(&bytes)
        };
        assert!(with(16, EventKind::SleepEnds as u8).is_some());
        assert_eq!(with(16, EventKind::ALL.len() as u8), None, "an unknown kind");
        assert_eq!(with(28, 1), None, "a column that the kind doesn't use");
    }

    #[test]
    fn particulars_read_well() {
        let who = JobId { request: 1, index: 2 };
        let text = |what: What| what.to_string();
        assert_eq!(text(What::Enqueued { who, kind: TaskKind::Immediate, by: 1 }), "immediate, by box 1");
        let by = JobId::task(1, 3).index;
        assert_eq!(text(What::Enqueued { who, kind: TaskKind::Deferred, by }), "deferred, by task 3");
        assert_eq!(text(What::Spawned { who, by: 1 }), "by box 1");
        assert_eq!(
            [who, JobId::task(1, 3), JobId::task_of(1)].map(|who| who.to_string()),
            ["request 1 box 2", "request 1 task 3", "request 1 task"]
        );
        assert_eq!(text(What::Taken { who, rule: 4, far: true }), "rule 4, far");
        assert_eq!(
            text(What::EnvelopeReceived { who, input: 0, rows: 9, pill: true }),
            "input 0, 9 rows, end of stream"
        );
        let dealt = |why, share, queue| text(What::Dealt { who, why, share, queue });
        assert_eq!(dealt(DealReason::Nearest, 75, 12), "to queue 12: its bytes cost least there, 75 % lie there");
        assert_eq!(dealt(DealReason::Small, 0, JobId::NONE), "stays with its maker: few bytes");
        assert_eq!(text(What::InvocationEnds { who }), "");
    }
}
