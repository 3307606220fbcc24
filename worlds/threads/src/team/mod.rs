//! A team: threads of its owner that run at once, each on a seat of its own of one plan.
//!
//! ```text
//!  Team ── member ──▶ Member ── run ──▶ a closure on the seat, as a task ── gather ──▶ all members, and no task left
//! ```
//!
//! The threads are not the runtime's: a door of OpenMP has its own, more of them than PUs if a program wants it, and
//! the first one is the thread entering the region. A team shares everything below threads with a runtime: queues,
//! seats, and places to sleep. Its tasks run on its threads alone, since no other thread sits on a seat of its plan.
//!
//! A team's tasks are *tied*: a thread with a waiting task on its stack only begins descendants of this task
//! (`Context::is_below`). The waiting task may hold a lock, and another task on top of it would never get this lock.
//! OpenMP calls this the task scheduling constraint (OpenMP 5.2, §12.9). While all gather, any task may be begun.

mod meetings;

pub use meetings::Meetings;

use crate::watch::layer::LAYER;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vicus_machine::Level;
use vicus_machine::RuntimeBuilder;
use vicus_machine::layer::{
    Arrival, Awaited, RuntimeState, Worker, finish_task, in_task, recorded, wait, wait_for_descendants, wait_for_own,
    with_shared,
};
use vicus_machine::{MachineRuntime, StartError};
use vicus_schedule::{Plan, RequestId, SeatId};
use vicus_topology::{GroupId, Topology};
use vicus_trace::{Awaits, Header, SeatLog, Trace};

/// Seats for threads of a caller, with a plan of their own.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use vicus_machine::{MachineRuntime, spawn_child};
/// use vicus_threads::team::{BuildTeam, gather};
///
/// let team = MachineRuntime::builder().threads(3).team()?;
/// let count = AtomicUsize::new(0);
/// std::thread::scope(|scope| {
///     for number in 0..3 {
///         let (team, count) = (&team, &count);
///         scope.spawn(move || {
///             team.member(number).run(|| {
///                 count.fetch_add(1, Ordering::Relaxed);
///                 gather();
///                 assert_eq!(count.load(Ordering::Relaxed), 3);
///             })
///         });
///     }
/// });
/// # Ok::<(), vicus_machine::StartError>(())
/// ```
#[derive(Clone)]
pub struct Team {
    shared: Arc<RuntimeState>,
    /// Its tasks are of one request.
    request: RequestId,
    /// The members' seats.
    seats: Arc<[SeatId]>,
}

/// The start of a [`Team`].
pub trait BuildTeam {
    /// A team of as many members as there would be threads. No thread is started.
    ///
    /// # Errors
    /// More members are wanted than [`vicus_schedule::MOST_THREADS`].
    fn team(self) -> Result<Team, StartError>;
}

impl BuildTeam for RuntimeBuilder<MachineRuntime> {
    fn team(self) -> Result<Team, StartError> {
        let shared = self.layer(LAYER).team_state()?;
        let all = shared.plan.seats.iter().enumerate();
        let seats: Arc<[SeatId]> = all.filter(|(_, seat)| !seat.spare).map(|(seat, _)| SeatId::new(seat)).collect();
        // Unique among teams, so that traces of several tell their tasks apart.
        static REQUESTS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let request = RequestId::new(REQUESTS.fetch_add(1, Ordering::Relaxed));
        Ok(Team { shared, request, seats })
    }
}

impl Team {
    /// How many members it has.
    pub fn members(&self) -> usize {
        self.seats.len()
    }

    /// The plan of its seats.
    pub fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    /// The machine it runs on.
    pub fn topology(&self) -> &Topology {
        self.shared.topology()
    }

    /// The core group of a member's seat.
    ///
    /// # Panics
    /// If the number is not below the number of members.
    pub fn group_of(&self, number: usize) -> GroupId {
        let seat = &self.shared.plan.seats[self.seats[number].index()];
        self.topology().pus[seat.pu.index()].group
    }

    /// The features that could not be used on this machine.
    pub fn warnings(&self) -> Vec<String> {
        self.shared.warnings()
    }

    /// How many tasks its members have taken up to now; see
    /// [`MachineRuntime::takes`](vicus_machine::MachineRuntime::takes).
    pub fn takes(&self) -> BTreeMap<(u8, Level), u64> {
        self.shared.takes()
    }

    /// The recordings of these teams so far, in one trace: the seats of the first team, then those of the next one;
    /// after each team's seats, the outside threads that have released tasks of it. Their members may go on, and record
    /// no more. `None` if no team records ([`RuntimeBuilder::record`]).
    ///
    /// ```
    /// use vicus_machine::{MachineRuntime, spawn_child};
    /// use vicus_threads::team::{BuildTeam, Team};
    ///
    /// let team = MachineRuntime::builder().threads(1).record(1000).team()?;
    /// let mut member = team.member(0);
    /// member.run(|| spawn_child(|| ()));
    /// let trace = Team::trace([&team]).expect("it was asked to");
    /// assert!(trace.check().is_empty());
    /// # Ok::<(), vicus_machine::StartError>(())
    /// ```
    pub fn trace<'a>(teams: impl IntoIterator<Item = &'a Team>) -> Option<Trace> {
        let mut all: Option<(Header, Vec<SeatLog>)> = None;
        for Team { shared, seats, .. } in teams {
            let Some(trace) = shared.cut_trace() else { continue };
            let (header, logs) = all.get_or_insert_with(|| {
                let none = Header { seats: Vec::new(), earlier: Vec::new(), last_ns: 0, ..trace.header().clone() };
                (none, Vec::new())
            });
            // No thread ever sits on a spare seat. Outside threads, listed last, release tasks at most.
            let is_used = |seat: &usize| !trace.logs()[*seat].events.is_empty();
            let members = seats.iter().map(|seat| seat.index()).chain(Some(trace.logs().len() - 1).filter(is_used));
            header.seats.extend(members.clone().map(|seat| trace.header().seats[seat]));
            // A log that rolls has its sums with it, from which the whole trace's header gets them again.
            logs.extend(members.map(|seat| SeatLog {
                earlier: trace.header().earlier.get(seat).cloned().unwrap_or_default(),
                last_ns: trace.header().last_ns,
                ..trace.logs()[seat].clone()
            }));
        }
        all.map(|(header, logs)| Trace::new(header, logs))
    }

    /// The member of this number, for the calling thread. Each number is for one thread at a time.
    ///
    /// # Panics
    /// If the number is not below the number of members.
    pub fn member(&self, number: usize) -> Member {
        let mut worker = Box::new(Worker::new(Arc::clone(&self.shared), self.seats[number]));
        worker.stack.is_tied = true;
        Member { worker, request: self.request, has_run: false }
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team").field("members", &self.members()).finish_non_exhaustive()
    }
}

/// A thread's membership. It stays on its thread.
pub struct Member {
    worker: Box<Worker>,
    /// The team's.
    request: RequestId,
    has_run: bool,
}

impl Member {
    /// Runs a closure on the member's seat, as a task of the team without a parent. It returns when the tasks spawned
    /// by it, and all their descendants, are over. Panics like the closure, or like the first panicking one of these
    /// tasks.
    ///
    /// The calling thread may sit on a seat of another team, or of a runtime: its work there waits meanwhile.
    pub fn run<R>(&mut self, f: impl FnOnce() -> R) -> R {
        self.worker.begin_alone(self.request);
        let has_run = std::mem::replace(&mut self.has_run, true);
        let (recorder, request) = (&mut self.worker.recorder, self.request);
        let number = recorder.keeps_events().then(|| recorder.member_begins(request, has_run));
        let result = self.worker.on_seat(|| {
            let result = catch_unwind(AssertUnwindSafe(f));
            let panic = wait_for_descendants();
            finish_task();
            match (result, panic) {
                (Ok(result), None) => Ok(result),
                (Err(panic), _) | (Ok(_), Some(panic)) => Err(panic),
            }
        });
        if let Some(number) = number {
            self.worker.recorder.member_ends(request, number);
        }
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("seat", &self.worker.seat_id).finish_non_exhaustive()
    }
}

/// Waits until all members of the calling thread's team have called this, and all tasks of the team are over. The
/// thread runs tasks meanwhile.
///
/// A member comes when its own tasks and their descendants are over; so when the last one comes, no task is left.
///
/// # Panics
/// Outside of [`Member::run`], and in tasks spawned there.
pub fn gather() {
    assert!(in_task(|worker| worker.stack.is_tied), "gather is called by members of a team");
    recorded(Awaits::Team, || {
        wait_for_own();
        with_shared(|shared| match shared.gathering.come() {
            Arrival::Last { is_awaited: false } => {}
            Arrival::Last { is_awaited: true } => shared.notify_all(),
            Arrival::Early(gathered) => {
                if !gathered.is_done() {
                    wait(None, &gathered);
                }
            }
        });
    });
}

/// Marks the running task as one of this function, for the trace ([`What::Named`](vicus_trace::What::Named)); the
/// trace's header has the functions' names ([`Trace::with_functions`]).
///
/// # Panics
/// Outside of tasks on a seat.
pub fn name_task(function: u32) {
    in_task(|worker| worker.recorder.named(worker.frame.request, function));
}
