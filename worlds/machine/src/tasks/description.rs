//! The description of a task before its spawn: the data it reads and writes, its place, its priority. Its queue, and
//! the time of queueing, follow from these.

use super::alive::ByAddress;
use super::included::HeldChild;
use crate::runtime::worker::context::close_all_groups;
use crate::runtime::worker::job::{Job, OfSeat, Store};
use crate::runtime::worker::{AtOnce, Worker, in_task};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use vicus_schedule::{Access, Context, ContextRef, DealResult, Kind, ReadyTask, TaskNode, TaskRef, Unspawned};
use vicus_topology::Place;

/// The description of a task before it is spawned.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskDescription {
    /// Its footprint: first the accesses that order it among its siblings.
    accesses: Vec<Access>,
    /// How many of them come first.
    ordered: usize,
    /// The index of the last added access.
    last: usize,
    /// The accesses with checked memory, in a build with debug assertions.
    pub(super) by_address: ByAddress,
    /// `None`: it is deferred; or, if it waits for others, the last of them queues it as an immediate task, near the
    /// data written by that one.
    pub(super) kind: Option<Kind>,
    pub(super) place: Option<Place>,
    /// Whether its footprint has no influence on its place.
    pub(super) is_undealt: bool,
    pub(super) priority: Option<i32>,
}

impl TaskDescription {
    /// A task of this kind.
    pub(super) fn of(kind: Kind) -> TaskDescription {
        TaskDescription { kind: Some(kind), ..TaskDescription::default() }
    }

    /// A task with a place.
    pub(super) fn at(place: Place) -> TaskDescription {
        TaskDescription { place: Some(place), ..TaskDescription::default() }
    }

    /// Orders it after the earlier siblings that write its inputs, or read or write its outputs.
    #[track_caller]
    pub(super) fn follows(&mut self, accesses: &[Access]) {
        if accesses.is_empty() {
            return;
        }
        self.by_address.say(accesses);
        if self.ordered == self.accesses.len() {
            self.accesses.extend_from_slice(accesses);
        } else {
            self.accesses.splice(self.ordered..self.ordered, accesses.iter().copied());
        }
        self.ordered += accesses.len();
        self.last = self.ordered - 1;
    }

    /// Adds bytes it uses, in memory that must be alive when it runs.
    #[track_caller]
    pub(super) fn touches(&mut self, accesses: &[Access]) {
        self.by_address.say(accesses);
        self.borrows(accesses);
    }

    /// Adds bytes it uses, borrowed until it is over.
    pub(super) fn borrows(&mut self, accesses: &[Access]) {
        if !accesses.is_empty() {
            self.accesses.extend_from_slice(accesses);
            self.last = self.accesses.len() - 1;
        }
    }

    /// Like [`TaskDescription::borrows`]; it comes after the earlier siblings using these bytes.
    pub(super) fn follows_borrowed(&mut self, access: Access) {
        self.accesses.insert(self.ordered, access);
        self.last = self.ordered;
        self.ordered += 1;
    }

    /// The last added access alone decides its place.
    pub(super) fn intensely(&mut self) {
        if let Some(last) = self.accesses.get_mut(self.last) {
            last.intense = true;
        }
    }

    /// Its footprint.
    pub(super) fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// The accesses that order it among its siblings.
    pub(super) fn ordered(&self) -> &[Access] {
        &self.accesses[..self.ordered]
    }

    /// Its kind, if nothing else is said.
    #[inline]
    pub(super) fn only_kind(&self) -> Option<Kind> {
        let is_only_kind = self.accesses.is_empty() && self.place.is_none() && self.priority.is_none();
        self.kind.filter(|_| is_only_kind)
    }
}

/// A closure ordered after others.
struct Ordered<F> {
    /// First: its captured values are dropped before other tasks may go on.
    f: F,
    turn: Turn,
}

impl<F> Ordered<F> {
    /// Runs it, unless one of its predecessors has panicked.
    fn run<A>(self, argument: A)
    where
        F: FnOnce(A),
    {
        let Ordered { f, mut turn } = self;
        if !turn.begin() {
            return drop(f);
        }
        let result = catch_unwind(AssertUnwindSafe(|| f(argument)));
        // The tasks of the groups it has left open belong to it.
        close_all_groups();
        match result {
            Ok(()) => turn.end(),
            Err(panic) => {
                drop(turn);
                resume_unwind(panic);
            }
        }
    }
}

/// A task's turn: when it is dropped, waiting tasks may go on.
struct Turn {
    node: Arc<TaskNode>,
    /// Whether the task has begun. A task cancelled before only made others wait.
    is_under_way: bool,
}

impl Turn {
    /// Begins the task. Returns whether none of its predecessors has panicked.
    fn begin(&mut self) -> bool {
        self.is_under_way = true;
        !self.node.is_broken()
    }

    /// The task has ended without a panic.
    fn end(mut self) {
        self.is_under_way = false;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        in_task(|worker| worker.recorder.turn_ends());
        let ready = |queued| in_task(|worker| worker.queue_released(queued)).run();
        #[expect(unsafe_code, reason = "ends a task of a graph")]
        // SAFETY: a task is run or dropped once, after it was given out, and has its node from its beginning on.
        unsafe {
            self.node.end(!self.is_under_way, ready);
        }
    }
}

/// Spawns a task of this context.
///
/// # Safety
/// As for [`Job::task`].
#[expect(unsafe_code, reason = "the caller promises what the type system can't see: the closure's lifetime")]
pub(super) unsafe fn spawn_described(
    worker: &mut Worker,
    context: *const Context,
    said: TaskDescription,
    store: impl Store,
    f: impl FnOnce(ContextRef) + Send,
) -> AtOnce {
    let TaskDescription { accesses, ordered, last: _, by_address, kind, place, is_undealt, priority } = said;
    let ordered = &accesses[..ordered];
    let dealt = match place {
        Some(place) => DealResult { queue: worker.home_of(place), ..DealResult::NONE },
        None if is_undealt => DealResult::NONE,
        None => worker.deal(&accesses),
    };
    let queue = dealt.queue;
    // A task dealt to this seat by its bytes has a ticket for this seat's queue; tickets without a queue are for
    // any seat.
    let has_data = !accesses.is_empty() && !is_undealt;
    let is_dealt = priority.is_some() && has_data && worker.shared.plan.dealing().is_some();
    let queue = queue.or_else(|| is_dealt.then(|| worker.own_deferred()));
    let is_sent = queue.is_some() || place.is_some();
    let kind_or = |unsaid| if is_sent { Kind::Deferred } else { kind.unwrap_or(unsaid) };
    let kind = kind_or(Kind::Deferred);
    let f = move |context| {
        by_address.check();
        f(context);
    };
    if ordered.is_empty() {
        // SAFETY: the caller's promise.
        let task = unsafe { task_with(worker, context, &accesses, is_undealt, store, f) };
        worker.record_footprint(task, &[], &accesses, &dealt);
        return worker.queue(ReadyTask { task, kind, queue, priority });
    }
    // SAFETY: as above.
    let (unspawned, task) = unsafe { ordered_task(worker, context, ordered, &accesses, is_undealt, store, f) };
    worker.record_footprint(task, ordered, &accesses, &dealt);
    // Its predecessors may have run on other seats, and be over.
    worker.recorder.observe_tasks();
    worker.recorder.task_spawned(task);
    match unspawned.spawn(ReadyTask { task, kind: kind_or(Kind::Immediate), queue, priority }) {
        Some(queued) => worker.queue_released(ReadyTask { kind, ..queued }),
        None => AtOnce::NONE,
    }
}

/// Makes a task of this context with this footprint. `has_data`: its children are dealt by data. `uses`: the uses
/// it marks when it begins. A task without uses to mark does not carry its footprint, except where events are kept.
///
/// # Safety
/// As for [`Job::task`].
#[expect(unsafe_code, reason = "the caller promises what the type system can't see: the closure's lifetime")]
unsafe fn task_with(
    worker: &mut Worker,
    context: *const Context,
    accesses: &[Access],
    is_undealt: bool,
    store: impl Store,
    f: impl FnOnce(ContextRef) + Send,
) -> TaskRef {
    // An undealt task is one without data to its plan: its children are no parts of it, and it marks no caches.
    let of_plan = if is_undealt { &[] } else { accesses };
    let (has_data, uses) = (worker.shared.plan.divides(of_plan), worker.uses(of_plan));
    // SAFETY: the caller's promise.
    unsafe {
        if worker.recorder.keeps_events() && !accesses.is_empty() {
            // A single byte only serves as an address to order tasks.
            let used = accesses.iter().filter(|access| access.total_bytes() > 1).copied();
            let accesses: Box<[Access]> = used.collect();
            return Job::task(worker, context, has_data, store, move |context| {
                in_task(|worker| {
                    worker.begin_uses(&uses);
                    worker.record_begun(&accesses);
                });
                drop(accesses);
                f(context);
            });
        }
        if uses.is_none() {
            return Job::task(worker, context, has_data, store, f);
        }
        Job::task(worker, context, has_data, store, move |context| {
            in_task(|worker| worker.begin_uses(&uses));
            f(context);
        })
    }
}

/// Makes a task of this context, ordered after the earlier ones with such accesses.
///
/// # Safety
/// As for [`Job::task`].
#[expect(unsafe_code, reason = "the caller promises what the type system can't see: the closure's lifetime")]
unsafe fn ordered_task(
    worker: &mut Worker,
    context: *const Context,
    ordered: &[Access],
    accesses: &[Access],
    is_undealt: bool,
    store: impl Store,
    f: impl FnOnce(ContextRef) + Send,
) -> (Unspawned, TaskRef) {
    // SAFETY: the caller's promise.
    let unspawned = unsafe { (*context).order(ordered) };
    let turn = Turn { node: Arc::clone(unspawned.node()), is_under_way: false };
    let ordered_f = Ordered { f, turn };
    // SAFETY: as above.
    let task =
        unsafe { task_with(worker, context, accesses, is_undealt, store, move |context| ordered_f.run(context)) };
    (unspawned, task)
}

/// Makes a task of this context that waits for its release.
///
/// # Safety
/// As for [`Job::task`].
#[expect(unsafe_code, reason = "the caller promises what the type system can't see: the closure's lifetime")]
pub(super) unsafe fn hold_described(
    worker: &mut Worker,
    context: *const Context,
    said: TaskDescription,
    f: impl FnOnce(ContextRef) + Send,
) -> HeldChild {
    // SAFETY: the caller's promise.
    let (unspawned, task) =
        unsafe { ordered_task(worker, context, said.ordered(), said.accesses(), said.is_undealt, OfSeat, f) };
    worker.recorder.task_spawned(task);
    let ready = ReadyTask { task, kind: Kind::Immediate, queue: None, priority: said.priority };
    HeldChild { unspawned, ready, shared: Arc::clone(&worker.shared) }
}

#[cfg(test)]
mod tests {
    use crate::MachineRuntime;
    use crate::runtime::worker::in_task;
    use crate::tasks::{child, in_place_scope, run_child, wait_for_children};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use vicus_schedule::{ALL, Access, Mode, PoolId, Setting};
    use vicus_topology::{DealReason, Topology};

    const DATA: Access = Access::new(1 << 20, 1 << 20, Mode::Read);

    fn known() -> (u64, bool) {
        let spawner = in_task(|worker| worker.frame.spawner);
        (spawner.spawned(), spawner.has_data())
    }

    fn with_data() -> crate::ChildBuilder {
        child().touches(&[DATA])
    }

    /// While a task with dealt children runs, its seat knows whether the task has data, and the number of its children
    /// with data. This holds also after the task has waited, with others on top of it.
    #[test]
    fn a_seat_knows_what_its_tasks_children_are_dealt_by() {
        let settings = ALL.into_iter().map(|strategy| strategy.name()).chain(["vicus:deal_bytes=4096"]);
        for (strategy, threads) in settings.flat_map(|strategy| [1, 2].map(|threads| (strategy, threads))) {
            let setting: Setting = strategy.parse().unwrap();
            let runtime = MachineRuntime::builder().strategy(setting).threads(threads).start();
            let asks = runtime.plan().divides(&[DATA]);
            // `vicus` asks, unless the chips' caches lie at different distances.
            assert!(!asks || strategy.starts_with("vicus"), "{strategy}");
            runtime.run(move || {
                let count = move |number: u64| if asks { number } else { 0 };
                assert_eq!(known(), (0, false), "{strategy}");
                child().spawn(|| assert_eq!(known(), (0, false)));
                child().follows(&[DATA]).spawn(move || assert_eq!(known(), (0, asks)));
                for number in 2..5 {
                    with_data().spawn(move || {
                        assert_eq!(known(), (0, asks));
                        run_child(|| assert_eq!(known(), (0, false), "it is on top"));
                        with_data().spawn(move || assert_eq!(known(), (0, asks)));
                        child()
                            .touches(&[Access::new(1 << 20, 1, Mode::Read)])
                            .spawn(|| assert_eq!(known(), (0, false)));
                        wait_for_children();
                        assert_eq!(known(), (count(1), asks));
                    });
                    assert_eq!(known(), (count(number), false));
                }
                wait_for_children();
                assert_eq!(known(), (count(4), false));
            });
        }
    }

    /// Two caches with a core each. The next task with the same data is dealt to the pool of the last user's seat, also
    /// if that last user was an ordered task.
    #[test]
    fn data_are_where_the_seat_that_ran_their_task_is() {
        let topology = Topology::parse("node:1 l3:2 core:1").unwrap();
        for (setting, is_asked) in
            [("vicus:deal_bytes=4096", true), ("vicus:deal_bytes=4096,warm=0", false), ("footprint", false)]
        {
            let setting: Setting = setting.parse().unwrap();
            let runtime = MachineRuntime::builder().topology(topology.clone()).strategy(setting).threads(2).start();
            let warm = runtime.plan().warm().cloned();
            assert_eq!(warm.is_some(), is_asked);
            let pools: Vec<PoolId> = runtime.plan().seats.iter().map(|seat| seat.pool).collect();
            const DATA: usize = 32;
            let datum = |number: usize| Access::new((1 + number) << 20, 8192, Mode::ReadWrite);
            let ran: [AtomicUsize; DATA] = Default::default();
            // Two of the first tasks run at the same time, so on different seats. Later ones are left to one seat.
            let together = Barrier::new(2);
            runtime.run(|| {
                for round in 0..3 {
                    in_place_scope(|scope| {
                        for number in 0..DATA {
                            let task = scope.task().touches(&[datum(number)]);
                            // Every third one comes after the last one of these.
                            let order = Access::new(0x100, 1, Mode::ReadWrite);
                            let task = if number.is_multiple_of(3) { task.follows(&[order]) } else { task };
                            let ran = &ran[number];
                            let together = (round == 0 && (number == 1 || number == 2)).then_some(&together);
                            task.spawn(move |()| {
                                together.iter().for_each(|barrier| _ = barrier.wait());
                                ran.store(in_task(|worker| worker.seat.stands().index()), Relaxed);
                            });
                        }
                    });
                    assert!(round > 0 || ran[1].load(Relaxed) != ran[2].load(Relaxed));
                    in_task(|worker| {
                        for (number, ran) in ran.iter().enumerate() {
                            let dealt = worker.deal(&[datum(number)]);
                            let expected = warm.as_ref().map(|warm| warm.queues[pools[ran.load(Relaxed)].index()]);
                            assert_eq!(dealt.why == Some(DealReason::Warm), is_asked, "round {round}: {dealt:?}");
                            assert!(!is_asked || dealt.queue == expected, "round {round}: {dealt:?}");
                        }
                        assert_ne!(worker.deal(&[datum(2000)]).why, Some(DealReason::Warm));
                    });
                }
            });
        }
    }
}
