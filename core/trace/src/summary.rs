//! Sums of a trace: the time spent, by type of box and by seat.

use crate::{Event, JobId, Names, Trace, What};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::fmt;

/// The sums of a trace; displayed as two tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// From the first to the last event of any seat.
    pub span_ns: u64,
    /// The number of events.
    pub events: u64,
    /// The number of events missing because a log was full; if there are any, all figures here are too low.
    pub lost: u64,
    /// The number of requests submitted.
    pub requests: u64,
    /// The types of boxes, the busiest first.
    pub boxes: Vec<BoxSummary>,
    /// The seats, in order.
    pub seats: Vec<SeatSummary>,
}

/// The sums of the boxes of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BoxSummary {
    /// The type; for tasks that are not boxes, their function's name, or `(task)` if it is unknown; `(unknown)` for
    /// boxes without a name in the header.
    pub type_name: String,
    /// The number of boxes of this type with an event.
    pub boxes: u64,
    /// The number of their invocations; for tasks that are not boxes, the number of runs.
    pub invocations: u64,
    /// The number of their spawned tasks; for `(task)`, by such tasks.
    pub spawned: u64,
    /// How long they lay in queues, all together, before a seat took them.
    pub queued_ns: u64,
    /// Time in user code, without other tasks run inside it meanwhile.
    pub busy_ns: u64,
    /// Time with a refused output, summed over the boxes.
    pub blocked_ns: u64,
    /// Envelopes taken from inputs. A pill without rows doesn't count.
    pub envelopes_in: u64,
    /// Rows in them.
    pub rows_in: u64,
    /// Envelopes accepted by vias. A pill without rows doesn't count.
    pub envelopes_out: u64,
    /// Rows in them.
    pub rows_out: u64,
    /// Bytes of the envelopes made.
    pub bytes_created: u64,
    /// Bytes taken or read on the node of the seat; for tasks that are not boxes, the bytes of their declared use, by
    /// the seat that ran them.
    pub near_bytes: u64,
    /// Such bytes on another node.
    pub far_bytes: u64,
}

/// The sums of one seat. `busy_ns + overhead_ns + idle_ns` is the time from its first event to its last, or to the
/// trace's last if it ends asleep. A task that waits for others is idle time. A lent thread waiting for its next loan
/// counts as asleep; for callers no times are given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SeatSummary {
    /// The seat.
    pub seat: usize,
    /// Whether this is the log of callers without a seat.
    pub is_callers: bool,
    /// The number of events recorded.
    pub events: u64,
    /// The number of events dropped.
    pub lost: u64,
    /// The number of invocations begun.
    pub invocations: u64,
    /// Time in user code.
    pub busy_ns: u64,
    /// Time neither in user code nor asleep: prologues, epilogues, looking for tasks, taking them.
    pub overhead_ns: u64,
    /// Time asleep.
    pub idle_ns: u64,
    /// The number of tasks taken by each rule, in the order of rules, without unused rules.
    pub takes: Vec<Takes>,
}

/// The number of tasks taken by one rule of the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Takes {
    /// The rule; for `las` the level.
    pub rule: u8,
    /// From a queue on the seat's node.
    pub near: u64,
    /// From a queue on another.
    pub far: u64,
}

/// The state of a seat.
#[derive(Default)]
struct Seat {
    /// The time of its last event.
    then_ns: u64,
    asleep: bool,
    /// Open invocations and code, the innermost last.
    open: Vec<Open>,
}

/// An invocation, or the code of a task that is not a box.
struct Open {
    who: JobId,
    is_invocation: bool,
    in_user_code: bool,
    /// Whether it waits for its spawned tasks.
    waits: bool,
}

/// Since when a box is blocked, and on how many outputs.
#[derive(Default)]
struct Blocked {
    since_ns: u64,
    outputs: u32,
}

/// The table of box types. It grows as boxes appear.
struct Types<'a> {
    names: Names<'a>,
    /// The functions of tasks.
    functions: FxHashMap<JobId, &'a str>,
    places: FxHashMap<&'a str, usize>,
    seen: FxHashSet<JobId>,
    rows: Vec<BoxSummary>,
}

impl Types<'_> {
    fn of(&mut self, who: JobId) -> &mut BoxSummary {
        let type_name = self.functions.get(&who).copied().unwrap_or_else(|| self.names.type_name(who));
        let place = *self.places.entry(type_name).or_insert_with(|| {
            self.rows.push(BoxSummary { type_name: type_name.to_owned(), ..BoxSummary::default() });
            self.rows.len() - 1
        });
        let row = &mut self.rows[place];
        if who.is_box() && self.seen.insert(who) {
            row.boxes += 1;
        }
        row
    }
}

/// Sums of a damaged trace may be nonsense, but must not panic.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

impl Trace {
    /// Sums the trace up, in one pass over the merged events.
    ///
    /// ```
    /// use vicus_trace::{Header, EventLog, Trace, What};
    ///
    /// let mut log = EventLog::new(10);
    /// log.record(100, What::SleepBegins);
    /// log.record(350, What::SleepEnds);
    /// let summary = Trace::new(Header::for_seats(1), vec![log.finish()]).summary();
    /// assert_eq!(summary.seats[0].idle_ns, 250);
    /// println!("{summary}");
    /// ```
    pub fn summary(&self) -> Summary {
        let all = || self.logs.iter().flat_map(|log| &log.events);
        let first_ns = all().map(|event| event.time_ns).min().unwrap_or(0);
        let last_ns = all().map(|event| event.time_ns).max().unwrap_or(0);
        let mut summary = Summary { span_ns: last_ns - first_ns, lost: self.lost(), ..Summary::default() };
        summary.seats = (self.logs.iter().enumerate())
            .map(|(seat, log)| SeatSummary {
                seat,
                is_callers: self.header().seats[seat].is_callers,
                events: log.events.len() as u64,
                lost: log.lost,
                ..SeatSummary::default()
            })
            .collect();
        summary.events = summary.seats.iter().map(|seat| seat.events).sum();
        let mut seats: Vec<Seat> = (0..self.logs.len()).map(|_| Seat::default()).collect();
        let mut blocked: FxHashMap<JobId, Blocked> = FxHashMap::default();
        let mut spawned_before: FxHashSet<JobId> = FxHashSet::default();
        let mut queued: FxHashMap<JobId, u64> = FxHashMap::default();
        let mut begun: FxHashSet<JobId> = FxHashSet::default();
        let names = self.names();
        // A task is named right after it has begun.
        let function = |event: &Event| match event.what {
            What::Named { who, function } => Some((who, names.function(function)?)),
            _ => None,
        };
        let functions = all().filter_map(function).collect();
        let mut types =
            Types { names, functions, places: FxHashMap::default(), seen: FxHashSet::default(), rows: Vec::new() };

        for entry in self.merged() {
            let (now_ns, what) = (entry.event.time_ns, entry.event.what);
            let (seat, total) = (&mut seats[entry.seat], &mut summary.seats[entry.seat]);
            if entry.index > 0 && !total.is_callers {
                seat.spend(now_ns, total, &mut types);
            }
            seat.then_ns = now_ns;
            seat.step(what);
            if let What::Enqueued { who, .. } = what {
                queued.insert(who, now_ns);
            }
            match what {
                What::InvocationBegins { who } => {
                    total.invocations += 1;
                    types.of(who).invocations += 1;
                }
                // A task that is not a box has no invocation around its code, and the code may go on several times.
                What::UserCodeBegins { who }
                    if seat.open.last().is_some_and(|open| !open.is_invocation)
                        && (who.number().is_none() || begun.insert(who)) =>
                {
                    types.of(who).invocations += 1;
                }
                What::Taken { who, rule, far } => {
                    total.take(rule, far);
                    if let Some(since_ns) = queued.remove(&who) {
                        add(&mut types.of(who).queued_ns, now_ns.saturating_sub(since_ns));
                    }
                }
                What::EnvelopeReceived { who, rows, pill, .. } => {
                    let row = types.of(who);
                    row.envelopes_in += u64::from(!pill || rows > 0);
                    row.rows_in += u64::from(rows);
                }
                What::EnvelopeSent { who, rows, pill, .. } => {
                    let row = types.of(who);
                    row.envelopes_out += u64::from(!pill || rows > 0);
                    row.rows_out += u64::from(rows);
                }
                What::EnvelopeCreated { who, bytes, .. } => types.of(who).bytes_created += u64::from(bytes),
                What::BytesRead { who, far, bytes } => {
                    let row = types.of(who);
                    *(if far { &mut row.far_bytes } else { &mut row.near_bytes }) += u64::from(bytes);
                }
                What::Refused { who, .. } => {
                    let blocked = blocked.entry(who).or_default();
                    if blocked.outputs == 0 {
                        blocked.since_ns = now_ns;
                    }
                    blocked.outputs = blocked.outputs.saturating_add(1);
                }
                What::Resumed { who, .. } => {
                    if let Some(state) = blocked.get_mut(&who) {
                        state.outputs -= 1;
                        if state.outputs == 0 {
                            add(&mut types.of(who).blocked_ns, now_ns.saturating_sub(state.since_ns));
                            blocked.remove(&who);
                        }
                    }
                }
                What::Enqueued { who, by, .. } | What::Spawned { who, by } if !who.is_box() && by != JobId::NONE => {
                    // Queueing a task spawned before does not count as spawning it.
                    let is_spawn = matches!(what, What::Spawned { .. });
                    if is_spawn {
                        spawned_before.insert(who);
                    }
                    if is_spawn || !spawned_before.remove(&who) {
                        types.of(JobId { request: who.request, index: by }).spawned += 1;
                    }
                }
                What::RequestSubmitted { .. } => summary.requests += 1,
                _ => {}
            }
        }
        // A seat or box still asleep or blocked stays so until the trace's end.
        for (seat, total) in seats.iter().zip(&mut summary.seats).filter(|(seat, _)| seat.asleep) {
            add(&mut total.idle_ns, last_ns.saturating_sub(seat.then_ns));
        }
        for (who, state) in blocked {
            add(&mut types.of(who).blocked_ns, last_ns.saturating_sub(state.since_ns));
        }
        summary.boxes = types.rows;
        summary.boxes.sort_by(|a, b| b.busy_ns.cmp(&a.busy_ns).then_with(|| a.type_name.cmp(&b.type_name)));
        summary
    }
}

impl Seat {
    /// Adds the time since the last event to the seat's activity.
    fn spend(&self, now_ns: u64, total: &mut SeatSummary, types: &mut Types<'_>) {
        let spent_ns = now_ns.saturating_sub(self.then_ns);
        match self.open.last() {
            _ if self.asleep => add(&mut total.idle_ns, spent_ns),
            Some(&Open { waits: true, .. }) => add(&mut total.idle_ns, spent_ns),
            Some(&Open { who, in_user_code: true, .. }) => {
                add(&mut total.busy_ns, spent_ns);
                add(&mut types.of(who).busy_ns, spent_ns);
            }
            _ => add(&mut total.overhead_ns, spent_ns),
        }
    }

    fn step(&mut self, what: What) {
        match what {
            What::InvocationBegins { who } => {
                self.open.push(Open { who, is_invocation: true, in_user_code: false, waits: false })
            }
            What::InvocationEnds { .. } => {
                self.open.pop();
            }
            What::UserCodeBegins { who } => match self.open.last_mut() {
                Some(open) if open.who == who && open.is_invocation => open.in_user_code = true,
                _ => self.open.push(Open { who, is_invocation: false, in_user_code: true, waits: false }),
            },
            What::UserCodeEnds { .. } => {
                if self.open.pop_if(|open| !open.is_invocation).is_none()
                    && let Some(open) = self.open.last_mut()
                {
                    open.in_user_code = false;
                }
            }
            What::WaitBegins { who, .. } | What::WaitEnds { who } => {
                if let Some(open) = self.open.last_mut().filter(|open| open.who == who) {
                    open.waits = matches!(what, What::WaitBegins { .. });
                }
            }
            What::SleepBegins | What::LentEnds => self.asleep = true,
            What::SleepEnds | What::LentBegins { .. } => self.asleep = false,
            _ => {}
        }
    }
}

impl SeatSummary {
    fn take(&mut self, rule: u8, far: bool) {
        let place = self.takes.binary_search_by_key(&rule, |takes| takes.rule).unwrap_or_else(|place| {
            self.takes.insert(place, Takes { rule, ..Takes::default() });
            place
        });
        let count = if far { &mut self.takes[place].far } else { &mut self.takes[place].near };
        *count += 1;
    }
}

impl Summary {
    /// The number of tasks taken by all seats, near and far.
    pub fn taken(&self) -> (u64, u64) {
        let takes = || self.seats.iter().flat_map(|seat| &seat.takes);
        (takes().map(|takes| takes.near).sum(), takes().map(|takes| takes.far).sum())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count: u64, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        let (requests, seats) = (of(self.requests, "request"), of(self.seats.len() as u64, "seat"));
        writeln!(f, "{} ms, {requests}, {seats}, {}", Ms(self.span_ns), of(self.events, "event"))?;
        if self.lost > 0 {
            writeln!(f, "{} events were lost because a log was full: every figure below is too low", self.lost)?;
        }
        let mut table = Table::new(&[
            "box type",
            "boxes",
            "invocations",
            "spawned",
            "queued ms",
            "busy ms",
            "blocked ms",
            "envelopes in",
            "rows in",
            "envelopes out",
            "rows out",
            "bytes made",
            "bytes near",
            "bytes far",
        ]);
        for row in &self.boxes {
            table.row([
                row.type_name.clone(),
                row.boxes.to_string(),
                row.invocations.to_string(),
                row.spawned.to_string(),
                Ms(row.queued_ns).to_string(),
                Ms(row.busy_ns).to_string(),
                Ms(row.blocked_ns).to_string(),
                row.envelopes_in.to_string(),
                row.rows_in.to_string(),
                row.envelopes_out.to_string(),
                row.rows_out.to_string(),
                row.bytes_created.to_string(),
                row.near_bytes.to_string(),
                row.far_bytes.to_string(),
            ]);
        }
        write!(f, "\n{table}")?;
        let mut rules: Vec<u8> = self.seats.iter().flat_map(|seat| &seat.takes).map(|takes| takes.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        let mut titles: Vec<String> =
            ["seat", "invocations", "busy ms", "overhead ms", "idle ms"].map(String::from).into();
        titles.extend(rules.iter().map(|rule| format!("rule {rule} near+far")));
        let mut table = Table::new(&titles);
        for seat in &self.seats {
            let name = if seat.is_callers { "callers".to_owned() } else { seat.seat.to_string() };
            let mut cells = vec![name, seat.invocations.to_string()];
            cells.extend([seat.busy_ns, seat.overhead_ns, seat.idle_ns].map(|ns| Ms(ns).to_string()));
            cells.extend(rules.iter().map(|&rule| {
                let takes = seat.takes.iter().find(|takes| takes.rule == rule).copied().unwrap_or_default();
                format!("{}+{}", takes.near, takes.far)
            }));
            table.row(cells);
        }
        write!(f, "\n{table}")
    }
}

/// Nanoseconds, shown as milliseconds to the microsecond.
struct Ms(u64);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000_000, self.0 / 1000 % 1000)
    }
}

/// Aligned columns: the first to the left, numbers to the right.
struct Table(Vec<Vec<String>>);

impl Table {
    fn new<S: ToString>(titles: &[S]) -> Table {
        Table(vec![titles.iter().map(S::to_string).collect()])
    }

    fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.0.push(cells.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| self.0.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.0[0].len()).map(width).collect();
        for row in &self.0 {
            write!(f, "{:<1$}", row[0], widths[0])?;
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                write!(f, "  {cell:>width$}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Awaits;
    use crate::{BoxInfo, EventLog, Header, ModelInfo, TaskKind, Use};

    const WHO: JobId = JobId { request: 1, index: 0 };

    fn scan() -> Header {
        let boxes = vec![BoxInfo { name: "scan".into(), type_name: "Scan".into(), ..BoxInfo::default() }];
        let models = vec![ModelInfo { name: "q".into(), requests: vec![1], boxes }];
        Header { models, ..Header::for_seats(1) }
    }

    fn summary(events: &[(u64, What)]) -> Summary {
        let mut log = EventLog::new(100);
        events.iter().for_each(|&(time_ns, what)| {
            log.record(time_ns, what);
        });
        Trace::new(scan(), vec![log.finish()]).summary()
    }

    #[test]
    fn a_seat_is_busy_overhead_or_idle() {
        let summary = summary(&[
            (1000, What::SleepBegins),
            (1500, What::SleepEnds),
            (1510, What::Taken { who: WHO, rule: 4, far: true }),
            (1530, What::InvocationBegins { who: WHO }),
            (1540, What::UserCodeBegins { who: WHO }),
            (1640, What::UserCodeEnds { who: WHO }),
            (1645, What::InvocationEnds { who: WHO }),
            (1650, What::SleepBegins),
        ]);
        let seat = &summary.seats[0];
        assert_eq!((seat.idle_ns, seat.busy_ns, seat.overhead_ns), (500, 100, 50));
        assert_eq!(seat.takes, [Takes { rule: 4, near: 0, far: 1 }]);
        assert_eq!((summary.span_ns, summary.taken()), (650, (0, 1)));
        assert_eq!((summary.boxes[0].invocations, summary.boxes[0].busy_ns), (1, 100));
    }

    #[test]
    fn a_task_that_is_suspended_runs_once() {
        let who = JobId::task(1, 3);
        let parts = [What::UserCodeBegins { who }, What::UserCodeEnds { who }];
        let events: Vec<(u64, What)> = (0..6).map(|at| (at as u64 * 10, parts[at % 2])).collect();
        let row = &summary(&events).boxes[0];
        assert_eq!((row.invocations, row.busy_ns), (1, 30));
    }

    #[test]
    fn a_task_is_queued_until_it_is_taken() {
        let queued = |at| (at, What::Enqueued { who: WHO, kind: TaskKind::Deferred, by: JobId::NONE });
        let taken = |at| (at, What::Taken { who: WHO, rule: 3, far: false });
        // The last one stays in its queue.
        let summary = summary(&[queued(100), taken(130), queued(200), taken(1200), queued(1300)]);
        assert_eq!(summary.boxes[0].queued_ns, 30 + 1000);
    }

    #[test]
    fn a_task_that_runs_inside_user_code_is_not_counted_twice() {
        let task = JobId::task_of(1);
        let summary = summary(&[
            (0, What::InvocationBegins { who: WHO }),
            (0, What::UserCodeBegins { who: WHO }),
            (10, What::InvocationBegins { who: task }),
            (11, What::UserCodeBegins { who: task }),
            (17, What::UserCodeEnds { who: task }),
            (20, What::InvocationEnds { who: task }),
            (100, What::UserCodeEnds { who: WHO }),
            (100, What::InvocationEnds { who: WHO }),
        ]);
        let rows: Vec<(&str, u64)> = summary.boxes.iter().map(|row| (&row.type_name[..], row.busy_ns)).collect();
        assert_eq!(rows, [("Scan", 90), ("(task)", 6)]);
        assert_eq!((summary.seats[0].busy_ns, summary.seats[0].overhead_ns), (96, 4));
    }

    /// A lent thread waiting for its next loan was once counted as overhead, and so was the time between a caller's
    /// calls.
    #[test]
    fn lent_threads_sleep_until_they_are_lent_and_callers_have_no_time() {
        let (mut lent, mut callers) = (EventLog::new(100), EventLog::new(100));
        for (time_ns, what) in [
            (1000, What::LentBegins { seat: 0 }),
            (1010, What::Taken { who: WHO, rule: 1, far: false }),
            (1020, What::UserCodeBegins { who: WHO }),
            (1120, What::UserCodeEnds { who: WHO }),
            (1130, What::LentEnds),
            (501_130, What::LentBegins { seat: 0 }),
            (501_140, What::SleepBegins),
            (501_640, What::SleepEnds),
            (501_650, What::LentEnds),
        ] {
            lent.record(time_ns, what);
        }
        for time_ns in [0, 700_000, 1_501_650] {
            callers.record(time_ns, What::RequestSubmitted { request: time_ns as u32 });
        }
        let mut header = Header::for_seats(2);
        header.seats[1].is_callers = true;
        let trace = Trace::new(header, vec![lent.finish(), callers.finish()]);
        let summary = trace.summary();
        let seat = &summary.seats[0];
        let idle_ns = 500_000 + 500 + 1_000_000;
        assert_eq!((seat.busy_ns, seat.overhead_ns, seat.idle_ns), (100, 50, idle_ns));
        let seat = &summary.seats[1];
        assert_eq!((seat.busy_ns, seat.overhead_ns, seat.idle_ns), (0, 0, 0));
        assert!(summary.to_string().contains("\ncallers "), "{summary}");
    }

    /// A waiting task is not busy, unless its seat runs another one meanwhile; and a function's tasks are summed up
    /// under its name.
    #[test]
    fn waits_are_idle_and_functions_have_rows() {
        let (first, second) = (JobId::task(1, 0), JobId::task(1, 1));
        let mut log = EventLog::new(100);
        for (time_ns, what) in [
            (0, What::UserCodeBegins { who: first }),
            (0, What::Named { who: first, function: 1 }),
            (10, What::Enqueued { who: second, kind: TaskKind::Deferred, by: first.index }),
            (20, What::WaitBegins { who: first, awaits: Awaits::Children }),
            (50, What::UserCodeBegins { who: second }),
            (50, What::Named { who: second, function: 0 }),
            (90, What::UserCodeEnds { who: second }),
            (95, What::WaitEnds { who: first }),
            (100, What::UserCodeEnds { who: first }),
        ] {
            log.record(time_ns, what);
        }
        let functions = ["leaf", "root"].map(str::to_owned).to_vec();
        let summary = Trace::new(Header::for_seats(1), vec![log.finish()]).with_functions(functions).summary();
        let rows: Vec<(&str, u64, u64)> =
            summary.boxes.iter().map(|row| (&row.type_name[..], row.busy_ns, row.spawned)).collect();
        assert_eq!(rows, [("leaf", 40, 0), ("root", 25, 1)]);
        assert_eq!((summary.seats[0].busy_ns, summary.seats[0].idle_ns, summary.seats[0].overhead_ns), (65, 35, 0));
    }

    /// The bytes of a task that is not a box were once in neither column, because only its maker wrote them down. They
    /// are near or far by the seat that runs it.
    #[test]
    fn bytes_of_a_task_are_near_where_it_runs() {
        let (root, task) = (JobId::task(1, 0), JobId::task(1, 2));
        let ((high, low), (most, least)) = (What::halves(0x7f00_0010_0000), What::halves(12_288));
        let (mut maker, mut runner) = (EventLog::new(100), EventLog::new(100));
        // An OpenMP program's team has them so: its first member spawns a task with its data on the second one's node.
        for (time_ns, what) in [
            (0, What::Enqueued { who: root, kind: TaskKind::Immediate, by: JobId::NONE }),
            (0, What::Taken { who: root, rule: 0, far: false }),
            (0, What::UserCodeBegins { who: root }),
            (10, What::Follows { who: task, how: Use::ReadsAndWrites, high, low }),
            (10, What::UsesBytes { who: task, high: most, low: least }),
            (10, What::Footprint { who: task, far: true, bytes: 12_288 }),
            (10, What::Spawned { who: task, by: root.index }),
            (11, What::Enqueued { who: task, kind: TaskKind::Deferred, by: root.index }),
            (12, What::WaitBegins { who: root, awaits: Awaits::Team }),
            (90, What::WaitEnds { who: root }),
            (95, What::UserCodeEnds { who: root }),
        ] {
            maker.record(time_ns, what);
        }
        runner.observe(100);
        for (time_ns, what) in [
            (20, What::Taken { who: task, rule: 1, far: false }),
            (20, What::UserCodeBegins { who: task }),
            (20, What::BytesRead { who: task, far: false, bytes: 12_288 }),
            (20, What::Named { who: task, function: 0 }),
            (80, What::UserCodeEnds { who: task }),
        ] {
            runner.record(time_ns, what);
        }
        let trace = Trace::new(Header::for_seats(2), vec![maker.finish(), runner.finish()]);
        let trace = trace.with_functions(vec!["stencil".to_owned()]);
        assert_eq!(trace.check(), []);
        let summary = trace.summary();
        let rows: Vec<(&str, u64, u64, u64)> = (summary.boxes.iter())
            .map(|row| (&row.type_name[..], row.invocations, row.near_bytes, row.far_bytes))
            .collect();
        assert_eq!(rows, [("stencil", 1, 12_288, 0), ("(task)", 1, 0, 0)]);
    }

    /// Closures have no prologue. A closure counts for the scan that spawned it, even if another task queues it after a
    /// wait.
    #[test]
    fn closures_are_busy_and_have_spawners() {
        let (first, second) = (JobId::task(1, 0), JobId::task(1, 1));
        let queued = |who, by: JobId| What::Enqueued { who, kind: TaskKind::Deferred, by: by.index };
        let summary = summary(&[
            (0, What::InvocationBegins { who: WHO }),
            (0, What::UserCodeBegins { who: WHO }),
            (10, queued(first, WHO)),
            (10, What::Spawned { who: second, by: WHO.index }),
            (10, What::Taken { who: first, rule: 1, far: false }),
            (10, What::UserCodeBegins { who: first }),
            (30, queued(second, first)),
            (30, What::UserCodeEnds { who: first }),
            (100, What::UserCodeEnds { who: WHO }),
            (101, What::InvocationEnds { who: WHO }),
            (101, What::UserCodeBegins { who: second }),
            (151, queued(JobId::task(1, 2), second)),
            (151, What::UserCodeEnds { who: second }),
        ]);
        let rows: Vec<(&str, u64, u64)> =
            summary.boxes.iter().map(|row| (&row.type_name[..], row.busy_ns, row.spawned)).collect();
        assert_eq!(rows, [("Scan", 80, 2), ("(task)", 70, 1)]);
        assert_eq!((summary.seats[0].busy_ns, summary.seats[0].overhead_ns), (150, 1));
    }

    #[test]
    fn a_box_is_blocked_while_any_output_is() {
        let refused = |output| What::Refused { who: WHO, output };
        let resumed = |output| What::Resumed { who: WHO, output };
        let events = [
            (10, refused(0)),
            (20, refused(1)),
            (30, resumed(0)),
            (50, resumed(1)),
            (60, refused(0)),
            (61, What::LentEnds),
        ];
        assert_eq!(summary(&events).boxes[0].blocked_ns, 41);
    }

    #[test]
    fn a_pill_is_no_envelope_unless_it_has_rows() {
        let summary = summary(&[
            (1, What::EnvelopeReceived { who: WHO, input: 0, rows: 7, pill: false }),
            (2, What::EnvelopeReceived { who: WHO, input: 0, rows: 3, pill: true }),
            (3, What::EnvelopeCreated { who: WHO, output: 0, bytes: 80 }),
            (3, What::BytesRead { who: WHO, far: false, bytes: 56 }),
            (3, What::BytesRead { who: WHO, far: true, bytes: 24 }),
            (4, What::BytesRead { who: WHO, far: true, bytes: 1 }),
            (4, What::EnvelopeSent { who: WHO, output: 0, rows: 10, pill: false }),
            (5, What::EnvelopeSent { who: WHO, output: 0, rows: 0, pill: true }),
        ]);
        let row = &summary.boxes[0];
        assert_eq!((row.envelopes_in, row.rows_in, row.envelopes_out, row.rows_out), (2, 10, 1, 10));
        assert_eq!((row.bytes_created, row.near_bytes, row.far_bytes), (80, 56, 25));
    }

    #[test]
    fn printed_it_is_two_aligned_tables() {
        let summary = summary(&[
            (0, What::Taken { who: WHO, rule: 1, far: false }),
            (0, What::InvocationBegins { who: WHO }),
            (0, What::UserCodeBegins { who: WHO }),
            (2_500_000, What::UserCodeEnds { who: WHO }),
            (2_500_000, What::InvocationEnds { who: WHO }),
        ]);
        let expected = "\
2.500 ms, 0 requests, 1 seat, 5 events

box type  boxes  invocations  spawned  queued ms  busy ms  blocked ms  envelopes in  rows in  envelopes out  rows \
out  bytes made  bytes near  bytes far
Scan          1            1        0      0.000    2.500       0.000             0        0              0         \
0           0           0          0

seat  invocations  busy ms  overhead ms  idle ms  rule 1 near+far
0               1    2.500        0.000    0.000              1+0
";
        assert_eq!(summary.to_string(), expected);
    }
}
