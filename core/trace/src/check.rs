//! Checks a trace against the box protocol: a forbidden event is a violation.

use crate::{Event, JobId, Trace, What};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;

/// An event against a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seat that recorded the event.
    pub seat: usize,
    /// The event's place in the seat's log.
    pub index: usize,
    /// The event.
    pub event: Event,
    /// The broken rule.
    pub rule: Rule,
}

/// A rule of every execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A seat's logical clock rises from event to event.
    OrderRises,
    /// A seat's time never goes back.
    TimeRises,
    /// The invocation, code or sleep that ends is the last begun on the seat.
    EndsMatchBeginnings,
    /// A box's user code runs inside an invocation of it.
    UserCodeInsideInvocation,
    /// A sleeping seat does nothing.
    NothingWhileAsleep,
    /// A box runs on one seat at a time.
    RunsOnce {
        /// The seat it runs on already.
        already_on: usize,
    },
    /// A box waits in at most one queue.
    QueuedOnce,
    /// A task is queued before it is taken, and taken once.
    TakenAfterQueued,
    /// A task that is not a box is spawned once, before it is queued, by a box running on the same seat or by such a
    /// task taken there.
    SpawnedByRunner,
    /// The user code of a box with a refused envelope isn't run.
    BlockedDoesNotRun,
    /// Only a refused output resumes, and a blocked output is not refused again.
    RefusedThenResumed,
    /// A box keeps an envelope only in the invocation that received it.
    KeptWhenReceived,
    /// A request is submitted once, then ends once.
    RequestOnce,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::OrderRises => f.write_str("the seat's logical clock didn't rise"),
            Rule::TimeRises => f.write_str("the seat's time went back"),
            Rule::EndsMatchBeginnings => f.write_str("the end does not match the last beginning on this seat"),
            Rule::UserCodeInsideInvocation => f.write_str("user code outside an invocation of its box"),
            Rule::NothingWhileAsleep => f.write_str("the seat sleeps"),
            Rule::RunsOnce { already_on } => write!(f, "the box runs on seat {already_on} already"),
            Rule::QueuedOnce => f.write_str("the box waits in a queue already"),
            Rule::TakenAfterQueued => f.write_str("the box waits in no queue"),
            Rule::SpawnedByRunner => f.write_str("its spawner does not run on this seat, or it was spawned before"),
            Rule::BlockedDoesNotRun => f.write_str("the box is blocked on a full via"),
            Rule::RefusedThenResumed => f.write_str("refused twice, or resumed without having been refused"),
            Rule::KeptWhenReceived => f.write_str("the invocation has taken nothing from this input"),
            Rule::RequestOnce => f.write_str("the request was submitted already, or ends without running"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { seat, index, event, rule } = self;
        write!(f, "seat {seat}, event {index}, order {}: {}", event.order, event.what.kind())?;
        if let Some(who) = event.what.who() {
            write!(f, " of {who}")?;
        }
        write!(f, ": {rule}")
    }
}

/// A seat's activity, nested in its former one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    Invocation(JobId),
    UserCode(JobId),
    Sleep,
    Lent,
}

#[derive(Default)]
struct BoxState {
    queued: bool,
    runs_on: Option<usize>,
    /// The blocked outputs, a handful at most.
    refused: Vec<u16>,
    /// The inputs the current invocation has taken from.
    received: Vec<u16>,
}

/// A task that is not a box.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskState {
    Waits,
    Queued,
    /// Taken by this seat.
    Taken(usize),
}

#[derive(Default)]
struct Checker {
    /// For each seat, its nested activities, the innermost last.
    frames: Vec<Vec<Frame>>,
    boxes: FxHashMap<JobId, BoxState>,
    /// The tasks that are not boxes, by number.
    tasks: FxHashMap<u32, TaskState>,
    running: FxHashSet<u32>,
    submitted: FxHashSet<u32>,
}

impl Trace {
    /// All events against a rule, in merged order. Empty for a trace of a sound runtime if clocks travel as in the
    /// crate's documentation.
    ///
    /// If a log was full, events after [`Trace::complete_until`] are not checked. If one has rolled, only the rules of
    /// clocks are: the others ask for what was before. Tasks that are neither boxes nor
    /// numbered are only checked to begin and end in order, because they can't be told apart.
    ///
    /// ```
    /// use vicus_trace::{JobId, Header, Log, Rule, Trace, What};
    ///
    /// let mut log = Log::new(10);
    /// log.record(5, What::Taken { who: JobId { request: 1, index: 0 }, rule: 1, far: false });
    /// let violations = Trace::new(Header::for_seats(1), vec![log.finish()]).check();
    /// assert_eq!(violations[0].rule, Rule::TakenAfterQueued);
    /// ```
    pub fn check(&self) -> Vec<Violation> {
        let mut checker = Checker { frames: vec![Vec::new(); self.logs.len()], ..Checker::default() };
        let mut violations = Vec::new();
        let end = self.complete_until().unwrap_or(u64::MAX);
        let has_rolled = self.complete_from().is_some();
        for entry in self.merged().take_while(|entry| entry.event.order <= end) {
            let (seat, index, event) = (entry.seat, entry.index, *entry.event);
            let mut breaks = |rule| violations.push(Violation { seat, index, event, rule });
            if let Some(before) = index.checked_sub(1).map(|before| &self.logs[seat].events[before]) {
                if event.order <= before.order {
                    breaks(Rule::OrderRises);
                }
                if event.time_ns < before.time_ns {
                    breaks(Rule::TimeRises);
                }
            }
            if !has_rolled {
                checker.step(seat, event.what, &mut breaks);
            }
        }
        violations
    }
}

impl Checker {
    fn step(&mut self, seat: usize, what: What, breaks: &mut impl FnMut(Rule)) {
        let frames = &mut self.frames[seat];
        if frames.last() == Some(&Frame::Sleep) && what != What::SleepEnds {
            breaks(Rule::NothingWhileAsleep);
        }
        let mut ends = |frame: Frame| match frames.iter().rposition(|&open| open == frame) {
            Some(at) => {
                if at + 1 != frames.len() {
                    breaks(Rule::EndsMatchBeginnings);
                }
                // Everything left open inside ends as well, so one mistake is reported once.
                frames.truncate(at);
            }
            None => breaks(Rule::EndsMatchBeginnings),
        };
        match what {
            What::InvocationEnds { who } => ends(Frame::Invocation(who)),
            What::UserCodeEnds { who } => ends(Frame::UserCode(who)),
            What::SleepEnds => ends(Frame::Sleep),
            What::LentEnds => ends(Frame::Lent),
            What::InvocationBegins { who } => frames.push(Frame::Invocation(who)),
            What::UserCodeBegins { who } => {
                if who.is_box() && frames.last() != Some(&Frame::Invocation(who)) {
                    breaks(Rule::UserCodeInsideInvocation);
                }
                frames.push(Frame::UserCode(who));
            }
            What::SleepBegins => frames.push(Frame::Sleep),
            What::LentBegins { .. } => frames.push(Frame::Lent),
            What::RequestSubmitted { request } => {
                let first = self.submitted.insert(request);
                if !(first && self.running.insert(request)) {
                    breaks(Rule::RequestOnce);
                }
            }
            What::RequestEnded { request, .. } if !self.running.remove(&request) => breaks(Rule::RequestOnce),
            _ => {}
        }
        if let Some(number) = what.who().and_then(JobId::number) {
            self.step_task(seat, number, what, breaks);
        }
        if let Some(who) = what.who().filter(|who| who.is_box()) {
            self.boxes.entry(who).or_default().step(seat, what, breaks);
        }
    }
}

impl Checker {
    /// Checks an event of a task that is not a box.
    fn step_task(&mut self, seat: usize, number: u32, what: What, breaks: &mut impl FnMut(Rule)) {
        let state = self.tasks.get(&number).copied();
        let next = match what {
            What::Spawned { who, by } => {
                if state.is_some() || !self.runs(seat, who.request, by) {
                    breaks(Rule::SpawnedByRunner);
                }
                TaskState::Waits
            }
            What::Enqueued { who, by, .. } => {
                match state {
                    Some(TaskState::Waits) => {}
                    Some(TaskState::Queued | TaskState::Taken(_)) => breaks(Rule::QueuedOnce),
                    None if self.runs(seat, who.request, by) => {}
                    None => breaks(Rule::SpawnedByRunner),
                }
                TaskState::Queued
            }
            What::Taken { .. } => {
                if state != Some(TaskState::Queued) {
                    breaks(Rule::TakenAfterQueued);
                }
                TaskState::Taken(seat)
            }
            _ => return,
        };
        self.tasks.insert(number, next);
    }

    /// Whether a spawner, given by its index, may run on the seat now. Always true for a caller from outside and for
    /// tasks without numbers.
    fn runs(&self, seat: usize, request: u32, index: u32) -> bool {
        let who = JobId { request, index };
        match who.number() {
            Some(number) => self.tasks.get(&number) == Some(&TaskState::Taken(seat)),
            None => !who.is_box() || self.boxes.get(&who).is_some_and(|state| state.runs_on == Some(seat)),
        }
    }
}

impl BoxState {
    fn step(&mut self, seat: usize, what: What, breaks: &mut impl FnMut(Rule)) {
        match what {
            What::Enqueued { .. } => {
                if self.queued {
                    breaks(Rule::QueuedOnce);
                }
                self.queued = true;
            }
            What::Taken { .. } => {
                if !self.queued {
                    breaks(Rule::TakenAfterQueued);
                }
                self.queued = false;
            }
            What::InvocationBegins { .. } => {
                if let Some(already_on) = self.runs_on {
                    breaks(Rule::RunsOnce { already_on });
                }
                self.runs_on = Some(seat);
                self.received.clear();
            }
            What::EnvelopeReceived { input, .. } if !self.received.contains(&input) => self.received.push(input),
            What::EnvelopeKept { input, .. } if !self.received.contains(&input) => breaks(Rule::KeptWhenReceived),
            What::InvocationEnds { .. } if self.runs_on == Some(seat) => self.runs_on = None,
            What::UserCodeBegins { .. } if !self.refused.is_empty() => breaks(Rule::BlockedDoesNotRun),
            What::Refused { output, .. } => {
                if self.refused.contains(&output) {
                    breaks(Rule::RefusedThenResumed);
                } else {
                    self.refused.push(output);
                }
            }
            What::Resumed { output, .. } => match self.refused.iter().position(|&refused| refused == output) {
                Some(at) => {
                    self.refused.swap_remove(at);
                }
                None => breaks(Rule::RefusedThenResumed),
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, Log, Outcome, TaskKind};

    const A: JobId = JobId { request: 1, index: 0 };
    const B: JobId = JobId { request: 1, index: 1 };

    fn queued(who: JobId) -> What {
        What::Enqueued { who, kind: TaskKind::Immediate, by: JobId::NONE }
    }

    fn taken(who: JobId) -> What {
        What::Taken { who, rule: 1, far: false }
    }

    /// The rules broken by these events; they happen one after the other, each on its seat.
    fn broken(events: &[(usize, What)]) -> Vec<Rule> {
        let mut logs = [Log::new(100), Log::new(100)];
        let mut clock = 0;
        for (time_ns, &(seat, what)) in events.iter().enumerate() {
            logs[seat].observe(clock);
            clock = logs[seat].record(time_ns as u64, what);
        }
        let trace = Trace::new(Header::for_seats(2), logs.map(Log::finish).into());
        trace.check().iter().map(|violation| violation.rule).collect()
    }

    fn run(who: JobId) -> [What; 4] {
        [
            What::InvocationBegins { who },
            What::UserCodeBegins { who },
            What::UserCodeEnds { who },
            What::InvocationEnds { who },
        ]
    }

    #[test]
    fn a_sound_run_breaks_nothing() {
        let [begins, user_begins, user_ends, ends] = run(A);
        let events = [
            (0, What::RequestSubmitted { request: 1 }),
            (0, queued(A)),
            (1, taken(A)),
            (1, begins),
            (1, user_begins),
            (1, user_ends),
            (1, What::Refused { who: A, output: 0 }),
            (1, ends),
            (0, What::Resumed { who: A, output: 0 }),
            (0, queued(A)),
            (0, taken(A)),
            (0, begins),
            (0, user_begins),
            // `join` in the user code runs another task while it waits.
            (0, What::InvocationBegins { who: JobId::task_of(1) }),
            (0, What::InvocationEnds { who: JobId::task_of(1) }),
            (0, user_ends),
            (0, ends),
            (0, What::RequestEnded { request: 1, outcome: Outcome::Done }),
            (1, What::SleepBegins),
            (1, What::SleepEnds),
        ];
        assert_eq!(broken(&events), []);
    }

    #[test]
    fn a_box_waits_once_and_is_taken_once() {
        assert_eq!(broken(&[(0, queued(A)), (1, queued(A))]), [Rule::QueuedOnce]);
        assert_eq!(broken(&[(0, queued(A)), (1, taken(A)), (0, taken(A))]), [Rule::TakenAfterQueued]);
        assert_eq!(broken(&[(0, queued(A)), (0, taken(B))]), [Rule::TakenAfterQueued]);
    }

    #[test]
    fn a_task_is_spawned_by_a_running_task_before_it_is_taken() {
        let task = |number| JobId::task(1, number);
        let queued = |number, by| What::Enqueued { who: task(number), kind: TaskKind::Deferred, by };
        let taken = |number| taken(task(number));
        let spawned = |number, by| What::Spawned { who: task(number), by };
        let first = task(0).index;
        let [begins, user_begins, ..] = run(A);
        // A box spawns a task. That task spawns two more on its seat, and one of them waits for the other.
        let sound = [
            (0, begins),
            (0, user_begins),
            (0, queued(0, A.index)),
            (1, taken(0)),
            (1, spawned(2, first)),
            (1, queued(1, first)),
            (0, taken(1)),
            (0, queued(2, task(1).index)),
            (1, taken(2)),
        ];
        assert_eq!(broken(&sound), []);
        assert_eq!(broken(&sound[2..4]), [Rule::SpawnedByRunner], "the box doesn't run");
        assert_eq!(broken(&[(0, queued(0, JobId::NONE)), (0, queued(1, first))]), [Rule::SpawnedByRunner]);
        let elsewhere = [(0, queued(0, JobId::NONE)), (0, taken(0)), (1, spawned(1, first))];
        assert_eq!(broken(&elsewhere), [Rule::SpawnedByRunner], "it runs on the other seat");
        assert_eq!(broken(&[(0, taken(7))]), [Rule::TakenAfterQueued]);
        let twice = [(0, queued(0, JobId::NONE)), (0, taken(0)), (1, taken(0)), (0, queued(0, JobId::NONE))];
        assert_eq!(broken(&twice), [Rule::TakenAfterQueued, Rule::QueuedOnce]);
        assert_eq!(broken(&[(0, spawned(0, JobId::NONE)), (0, taken(0))]), [Rule::TakenAfterQueued], "it waits");
    }

    #[test]
    fn a_box_runs_once_at_a_time() {
        let [begins, .., ends] = run(A);
        assert_eq!(broken(&[(0, begins), (1, begins)]), [Rule::RunsOnce { already_on: 0 }]);
        assert_eq!(broken(&[(0, begins), (0, ends), (1, begins), (1, ends)]), []);
    }

    #[test]
    fn ends_match_beginnings_on_their_seat() {
        let [begins, user_begins, user_ends, ends] = run(A);
        assert_eq!(broken(&[(0, begins), (1, ends)]), [Rule::EndsMatchBeginnings]);
        assert_eq!(broken(&[(0, begins), (0, user_begins), (0, ends)]), [Rule::EndsMatchBeginnings]);
        assert_eq!(broken(&[(0, user_ends)]), [Rule::EndsMatchBeginnings]);
        assert_eq!(broken(&[(0, user_begins)]), [Rule::UserCodeInsideInvocation]);
        // A closure has no prologue.
        let task = JobId::task_of(1);
        let closure = [(0, What::UserCodeBegins { who: task }), (0, What::UserCodeEnds { who: task })];
        assert_eq!(broken(&closure), []);
        assert_eq!(broken(&closure[1..]), [Rule::EndsMatchBeginnings]);
        assert_eq!(broken(&[(0, What::LentEnds)]), [Rule::EndsMatchBeginnings]);
        assert_eq!(broken(&[(0, What::LentBegins { seat: 1 }), (0, What::LentEnds)]), []);
    }

    #[test]
    fn a_blocked_box_does_not_enter_user_code() {
        let [begins, user_begins, user_ends, ends] = run(A);
        let refused = What::Refused { who: A, output: 3 };
        let events = [(0, refused), (0, begins), (0, user_begins), (0, user_ends), (0, ends)];
        assert_eq!(broken(&events), [Rule::BlockedDoesNotRun]);
        assert_eq!(broken(&[(0, What::Resumed { who: A, output: 3 })]), [Rule::RefusedThenResumed]);
        assert_eq!(broken(&[(0, refused), (1, refused)]), [Rule::RefusedThenResumed]);
    }

    #[test]
    fn what_is_kept_was_received() {
        let [begins, .., ends] = run(A);
        let received = What::EnvelopeReceived { who: A, input: 1, rows: 5, pill: false };
        let kept = |input| (0, What::EnvelopeKept { who: A, input });
        assert_eq!(broken(&[(0, begins), (0, received), kept(1), (0, ends)]), []);
        assert_eq!(broken(&[(0, begins), (0, received), kept(0), (0, ends)]), [Rule::KeptWhenReceived]);
        let later = [(0, begins), (0, received), (0, ends), (0, begins), kept(1), (0, ends)];
        assert_eq!(broken(&later), [Rule::KeptWhenReceived]);
    }

    #[test]
    fn a_sleeper_does_nothing() {
        assert_eq!(broken(&[(0, What::SleepBegins), (1, queued(A)), (0, taken(A))]), [Rule::NothingWhileAsleep]);
    }

    #[test]
    fn a_request_is_submitted_and_ends_once() {
        let submitted = What::RequestSubmitted { request: 1 };
        let ended = What::RequestEnded { request: 1, outcome: Outcome::Failed };
        assert_eq!(broken(&[(0, submitted), (1, submitted)]), [Rule::RequestOnce]);
        assert_eq!(broken(&[(0, submitted), (1, ended), (0, ended)]), [Rule::RequestOnce]);
        assert_eq!(broken(&[(0, submitted), (1, ended), (0, submitted)]), [Rule::RequestOnce]);
    }

    #[test]
    fn clocks_never_go_back() {
        let event = |time_ns, order| Event { time_ns, order, what: What::Woke { pool: 0 } };
        let log = crate::SeatLog { events: vec![event(5, 2), event(4, 2)], ..crate::SeatLog::default() };
        let violations = Trace::new(Header::for_seats(1), vec![log]).check();
        assert_eq!(violations.iter().map(|found| found.rule).collect::<Vec<_>>(), [Rule::OrderRises, Rule::TimeRises]);
        assert_eq!(violations[0].to_string(), "seat 0, event 1, order 2: woke: the seat's logical clock didn't rise");
    }

    #[test]
    fn what_follows_a_loss_is_not_judged() {
        // The second seat's log was too full to record that it queued the box.
        let (mut first, mut second) = (Log::new(100), Log::new(1));
        second.record(0, What::SleepBegins);
        second.record(1, What::SleepEnds);
        let cause = second.record(2, queued(A));
        first.observe(cause);
        first.record(3, taken(A));
        let trace = Trace::new(Header::for_seats(2), vec![first.finish(), second.finish()]);
        assert_eq!(trace.complete_until(), Some(1));
        assert_eq!(trace.check(), []);
    }
}
