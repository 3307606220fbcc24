//! The activity of a seat over time: slices, each of one state and one job.
//!
//! The states are those that [`vicus_trace::Summary`] adds up, told apart further. The viewer has the same machine in
//! `viewer/src/activity.js`; a test holds both to each other.

use crate::keys::Keys;
use vicus_trace::{Awaits, Event, JobId, What};

/// The state of a seat during a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Looking for work, taking it, queueing what follows.
    Looks = 0,
    /// Running user code.
    Busy = 1,
    /// Inside a box's invocation, outside of user code.
    Around = 2,
    /// A task on it waits for the tasks that it has spawned, as by OpenMP's `taskwait`.
    WaitsForChildren = 3,
    /// Sleeping.
    Asleep = 4,
    /// Having no thread: it waits to be lent.
    Away = 5,
    /// A task on it waits for the tasks of a section, as by OpenMP's `taskgroup`, or a `join`.
    WaitsForSection = 6,
    /// A member of a team waits at a barrier.
    WaitsForTeam = 7,
}

impl State {
    /// The number of states.
    pub(crate) const COUNT: usize = 8;
    /// The waits of a task, in the order of [`Awaits`].
    pub(crate) const WAITS: [State; 3] = [State::WaitsForChildren, State::WaitsForSection, State::WaitsForTeam];

    /// The state of a seat whose task waits for these.
    fn of(awaits: Awaits) -> State {
        State::WAITS[awaits as usize]
    }

    /// Whether a task on the seat waits for others.
    pub(crate) fn is_wait(self) -> bool {
        State::WAITS.contains(&self)
    }
}

/// The number of a rule that is not known.
pub(crate) const NO_RULE: u8 = 255;

/// A part of a seat's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) state: State,
    /// The job on the seat, if there is one, and its key.
    pub(crate) who: Option<(JobId, u32)>,
    /// The rule by which the seat took it.
    pub(crate) rule: u8,
    /// Whether the thread on the seat is lent.
    pub(crate) is_lent: bool,
    pub(crate) near_bytes: u64,
    pub(crate) far_bytes: u64,
}

/// An open invocation, or the code of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) who: JobId,
    pub(crate) key: u32,
    pub(crate) rule: u8,
    pub(crate) is_invocation: bool,
    pub(crate) in_user_code: bool,
    /// The others for which it waits.
    pub(crate) waits: Option<Awaits>,
}

/// Whether the seat's thread is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    #[default]
    Awake,
    Asleep,
    Away,
}

/// A seat at some time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seat {
    /// Since when its state is the present one.
    pub(crate) since_ns: u64,
    /// The time of its last event.
    pub(crate) then_ns: u64,
    has_begun: bool,
    pub(crate) rest: Rest,
    pub(crate) is_lent: bool,
    /// Open invocations and code, the innermost last.
    pub(crate) frames: Vec<Frame>,
    /// The bytes read since then.
    pub(crate) near_bytes: u64,
    pub(crate) far_bytes: u64,
    /// The job that was taken last, and by which rule.
    pub(crate) taken: Option<(JobId, u8)>,
}

impl Seat {
    pub(crate) fn state(&self) -> State {
        match (self.rest, self.frames.last()) {
            (Rest::Asleep, _) => State::Asleep,
            (Rest::Away, _) => State::Away,
            (_, Some(Frame { waits: Some(awaits), .. })) => State::of(*awaits),
            (_, Some(Frame { in_user_code: true, .. })) => State::Busy,
            (_, Some(_)) => State::Around,
            (_, None) => State::Looks,
        }
    }

    /// Goes on by an event of a seat; hands over the slice that ends with it, if one does.
    pub(crate) fn step(&mut self, event: &Event, keys: &Keys, emit: impl FnOnce(Slice)) {
        let now_ns = event.time_ns;
        self.then_ns = now_ns;
        if !std::mem::replace(&mut self.has_begun, true) {
            self.since_ns = now_ns;
        }
        match event.what {
            What::BytesRead { far: false, bytes, .. } => self.near_bytes += u64::from(bytes),
            What::BytesRead { far: true, bytes, .. } => self.far_bytes += u64::from(bytes),
            What::Taken { who, rule, .. } => self.taken = Some((who, rule)),
            What::InvocationBegins { .. }
            | What::InvocationEnds { .. }
            | What::UserCodeBegins { .. }
            | What::UserCodeEnds { .. }
            | What::WaitBegins { .. }
            | What::WaitEnds { .. }
            | What::SleepBegins
            | What::SleepEnds
            | What::LentBegins { .. }
            | What::LentEnds => {
                self.cut(now_ns, emit);
                self.turn(event.what, keys);
            }
            _ => {}
        }
    }

    /// Ends the present slice.
    pub(crate) fn cut(&mut self, now_ns: u64, emit: impl FnOnce(Slice)) {
        if now_ns > self.since_ns {
            let top = self.frames.last();
            emit(Slice {
                begin_ns: self.since_ns,
                end_ns: now_ns,
                state: self.state(),
                who: top.map(|frame| (frame.who, frame.key)),
                rule: top.map_or(NO_RULE, |frame| frame.rule),
                is_lent: self.is_lent,
                near_bytes: self.near_bytes,
                far_bytes: self.far_bytes,
            });
            (self.near_bytes, self.far_bytes) = (0, 0);
        }
        self.since_ns = now_ns;
    }

    fn turn(&mut self, what: What, keys: &Keys) {
        let rule = |who: JobId| match self.taken {
            Some((taken, rule)) if taken == who => rule,
            _ => NO_RULE,
        };
        let open = |who: JobId, is_invocation: bool| Frame {
            who,
            key: keys.of(who),
            rule: rule(who),
            is_invocation,
            in_user_code: !is_invocation,
            waits: None,
        };
        match what {
            What::InvocationBegins { who } => self.frames.push(open(who, true)),
            What::InvocationEnds { .. } => _ = self.frames.pop(),
            What::UserCodeBegins { who } => match self.frames.last_mut() {
                Some(frame) if frame.who == who && frame.is_invocation => frame.in_user_code = true,
                _ => self.frames.push(open(who, false)),
            },
            What::UserCodeEnds { .. } => {
                if self.frames.pop_if(|frame| !frame.is_invocation).is_none()
                    && let Some(frame) = self.frames.last_mut()
                {
                    frame.in_user_code = false;
                }
            }
            What::WaitBegins { who, awaits } => self.waits(who, Some(awaits)),
            What::WaitEnds { who } => self.waits(who, None),
            What::SleepBegins => self.rest = Rest::Asleep,
            What::LentEnds => (self.rest, self.is_lent) = (Rest::Away, false),
            What::SleepEnds => self.rest = Rest::Awake,
            What::LentBegins { .. } => (self.rest, self.is_lent) = (Rest::Awake, true),
            _ => {}
        }
    }

    fn waits(&mut self, who: JobId, awaits: Option<Awaits>) {
        if let Some(frame) = self.frames.last_mut().filter(|frame| frame.who == who) {
            frame.waits = awaits;
        }
    }
}

/// All slices of a seat's log, one after the other. A seat that ends asleep sleeps until `last_ns`.
pub(crate) fn slices(events: &[Event], last_ns: u64, keys: &Keys, mut emit: impl FnMut(Slice)) {
    let mut seat = Seat::default();
    for event in events {
        seat.step(event, keys, &mut emit);
    }
    let end_ns = if seat.rest == Rest::Awake { seat.then_ns } else { last_ns };
    seat.cut(end_ns, &mut emit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_trace::{EventLog, Header, TaskKind, Trace};

    /// The slices of a log, as text.
    fn shown(events: &[(u64, What)], last_ns: u64) -> Vec<String> {
        let mut log = EventLog::new(100);
        events.iter().for_each(|&(time_ns, what)| _ = log.record(time_ns, what));
        let trace = Trace::new(Header::for_seats(1), vec![log.finish()]);
        let keys = Keys::new(&trace);
        let mut shown = Vec::new();
        slices(&trace.logs()[0].events, last_ns, &keys, |slice| {
            let Slice { begin_ns, end_ns, state, rule, near_bytes, .. } = slice;
            let who = slice.who.map_or(String::new(), |(who, _)| format!(" {who}"));
            shown.push(format!("{begin_ns}-{end_ns} {state:?}{who} rule {rule} {near_bytes}"));
        });
        shown
    }

    #[test]
    fn an_invocation_has_three_parts() {
        let who = JobId { request: 1, index: 4 };
        let events = [
            (0, What::Enqueued { who, kind: TaskKind::Deferred, by: JobId::NONE }),
            (10, What::Taken { who, rule: 3, far: false }),
            (20, What::InvocationBegins { who }),
            (25, What::UserCodeBegins { who }),
            (60, What::BytesRead { who, far: false, bytes: 7 }),
            (65, What::UserCodeEnds { who }),
            (70, What::InvocationEnds { who }),
            (80, What::SleepBegins),
        ];
        let expected = [
            "0-20 Looks rule 255 0",
            "20-25 Around request 1 box 4 rule 3 0",
            "25-65 Busy request 1 box 4 rule 3 7",
            "65-70 Around request 1 box 4 rule 3 0",
            "70-80 Looks rule 255 0",
            "80-100 Asleep rule 255 0",
        ];
        assert_eq!(shown(&events, 100), expected);
    }

    #[test]
    fn a_task_that_waits_runs_others_meanwhile() {
        let (outer, inner) = (JobId::task(1, 0), JobId::task(1, 1));
        let events = [
            (0, What::UserCodeBegins { who: outer }),
            (10, What::WaitBegins { who: outer, awaits: Awaits::Children }),
            (20, What::UserCodeBegins { who: inner }),
            (50, What::UserCodeEnds { who: inner }),
            (55, What::WaitEnds { who: outer }),
            (60, What::UserCodeEnds { who: outer }),
        ];
        let expected = [
            "0-10 Busy request 1 task 0 rule 255 0",
            "10-20 WaitsForChildren request 1 task 0 rule 255 0",
            "20-50 Busy request 1 task 1 rule 255 0",
            "50-55 WaitsForChildren request 1 task 0 rule 255 0",
            "55-60 Busy request 1 task 0 rule 255 0",
        ];
        assert_eq!(shown(&events, 100), expected);
    }

    #[test]
    fn a_barrier_is_no_wait_for_children_or_a_section() {
        let who = JobId::task(1, 0);
        let wait =
            |from_ns, awaits| [(from_ns, What::WaitBegins { who, awaits }), (from_ns + 5, What::WaitEnds { who })];
        let mut events = vec![(0, What::UserCodeBegins { who })];
        events.extend([wait(10, Awaits::Team), wait(20, Awaits::Section), wait(30, Awaits::Children)].concat());
        events.push((40, What::UserCodeEnds { who }));
        let states: Vec<String> =
            shown(&events, 40).iter().map(|shown| shown.split(' ').nth(1).unwrap().to_owned()).collect();
        let expected = ["Busy", "WaitsForTeam", "Busy", "WaitsForSection", "Busy", "WaitsForChildren", "Busy"];
        assert_eq!(states, expected);
    }
}
