//! The decisions of a seat: by hand, after the papers and the rules in the seat's documentation.

use vicus_schedule::{
    ALL, After, DEEP, FRONT_RULE, FRONT_TURN_NS, Kind, Plan, QueueId, Queues, QueuesByRequest, RequestId, Rest, Seat,
    SeatId, Setting, Sleeper, SpawnTarget, TURN_NS, Take, TurnOrder, Wake, Way, YIELDED_TURN,
};
use vicus_topology::Topology;

/// A task is its request and a number; a task in none of these queues was kept.
pub(crate) type Task = (u64, u32);

/// Queues as lists, the youngest task last.
pub(crate) struct Lists(pub(crate) Vec<Vec<Task>>);

impl Queues for Lists {
    type Task = Task;

    fn take(&mut self, queue: QueueId, take: Take, longer_than: u32, _: Option<QueueId>) -> Option<Task> {
        let tasks = &mut self.0[queue.index()];
        match take {
            _ if tasks.len() <= longer_than as usize => None,
            Take::Youngest | Take::YoungestOfOldestRequest => tasks.pop(),
            _ => Some(tasks.remove(0)),
        }
    }
}

impl QueuesByRequest for Lists {
    fn take_of(&mut self, request: RequestId, queue: QueueId, take: Take, _: u32) -> Option<Task> {
        let tasks = &mut self.0[queue.index()];
        let mut of = tasks.iter();
        let at = match take {
            Take::Youngest | Take::YoungestOfOldestRequest => of.rposition(|task| task.0 == request.number()),
            _ => of.position(|task| task.0 == request.number()),
        };
        at.map(|at| tasks.remove(at))
    }

    fn request_of(&self, task: &Task) -> RequestId {
        RequestId::new(task.0)
    }
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) seat: Seat<Task>,
    pub(crate) queues: Lists,
    pub(crate) called: Vec<Task>,
}

impl World {
    /// The first seat of two under a strategy.
    fn new(strategy: &str) -> World {
        let machine = Topology::parse("node:1 core:2").unwrap();
        World::of(strategy.parse::<Setting>().unwrap().plan(&machine, 2))
    }

    /// A world with a front.
    fn with_front(strategy: &str) -> World {
        World::of(World::new(strategy).plan.with_front())
    }

    pub(crate) fn of(plan: Plan) -> World {
        let lock_free = plan.owner_lifos();
        let seat = Seat::new(&plan, SeatId::new(0), |queue| lock_free[queue.index()]);
        let queues = Lists(vec![Vec::new(); plan.queues.len()]);
        World { plan, seat, queues, called: Vec::new() }
    }

    fn place(&self, kind: Kind) -> QueueId {
        self.plan.seats[0].place[kind as usize]
    }

    /// The queue of its first look, if there is one.
    fn near(&self) -> Option<QueueId> {
        self.seat.first().map(|(queue, _)| queue).or(self.seat.own())
    }

    fn find(&mut self) -> Option<(Task, Way, Option<Wake>)> {
        let called = || self.called.pop();
        let run = self.seat.find(&self.plan.seats[0], &mut self.queues, called)?;
        Some((run.task, run.way, if run.passes_wake_on { self.seat.take_wake() } else { None }))
    }

    fn none(&mut self, idle_ns: u64) -> Rest {
        self.seat.none(&self.plan.seats[0], idle_ns)
    }

    fn activated(&mut self, task: Task, kind: Kind, is_last: bool) -> Option<(Task, QueueId, Kind)> {
        self.seat.activated(&self.plan, task, kind, None, is_last)
    }
}

#[test]
fn its_next_box_comes_first_then_what_it_was_called_for_then_what_it_kept_then_queues() {
    let mut world = World::new("las");
    let (immediate, deferred) = (world.place(Kind::Immediate), world.place(Kind::Deferred));
    world.queues.0[immediate.index()] = vec![(1, 7)];
    world.queues.0[deferred.index()] = vec![(1, 8)];
    [5, 6].into_iter().for_each(|number| world.seat.keep((1, number)));
    world.called.push((1, 4));
    assert_eq!(world.activated((1, 1), Kind::Immediate, false), Some(((1, 1), immediate, Kind::Immediate)));
    assert_eq!(world.activated((1, 2), Kind::Deferred, true), Some(((1, 2), deferred, Kind::Deferred)));
    assert_eq!(world.activated((1, 3), Kind::Immediate, true), None);
    let ran: Vec<_> = std::iter::from_fn(|| world.find()).map(|(task, way, _)| (task.1, way)).collect();
    let expected = [
        (3, Way::new(1, immediate)),
        (4, Way::NO_QUEUE),
        // The youngest first.
        (6, Way::NO_QUEUE),
        (5, Way::NO_QUEUE),
        (7, Way::new(1, immediate)),
        (8, Way::new(3, deferred)),
    ];
    assert_eq!(ran, expected);
}

#[test]
fn what_is_in_the_front_comes_before_all_else_under_every_strategy() {
    for strategy in ALL.map(|strategy| strategy.name()) {
        let mut world = World::with_front(strategy);
        let front = world.plan.front().unwrap();
        let queues = [world.place(Kind::Immediate), world.place(Kind::Deferred)];
        queues.iter().for_each(|queue| world.queues.0[queue.index()].push((1, 1)));
        world.seat.keep((1, 2));
        world.called.push((1, 3));
        let next = world.activated((1, 4), Kind::Immediate, true);
        world.queues.0[front.index()] = vec![(2, 5), (2, 6)];
        let mut ran = std::iter::from_fn(|| world.find()).map(|(task, way, _)| (task, way));
        // Of the request the youngest first.
        let way = Way::new(FRONT_RULE, front);
        assert_eq!([ran.next(), ran.next()], [Some(((2, 6), way)), Some(((2, 5), way))], "{strategy}");
        let others = ran.inspect(|(_, way)| assert_ne!(way.queue(), Some(front), "{strategy}")).count();
        assert_eq!(others, 4 + usize::from(next.is_none()), "{strategy}");
    }
}

#[test]
fn a_seat_that_has_worked_at_the_front_for_long_does_one_task_of_its_strategy_s() {
    let mut world = World::with_front("las");
    let (front, deferred) = (world.plan.front().unwrap(), world.place(Kind::Deferred));
    world.queues.0[front.index()] = (0..6).map(|number| (2, number)).collect();
    world.queues.0[deferred.index()] = vec![(1, 10), (1, 11)];
    let mut run = |ns| {
        let (task, way, _) = world.find().unwrap();
        if way.queue() == Some(front) {
            world.seat.worked_at_front(ns);
        }
        task.1
    };
    // Three pieces of work; the last one goes beyond the turn.
    let ran: Vec<u32> = (0..4).map(|_| run(FRONT_TURN_NS / 2 - 1)).collect();
    assert_eq!(ran, [5, 4, 3, 11]);
    assert_eq!([run(FRONT_TURN_NS), run(0)], [2, 10]);
    // There is nothing else by now.
    assert_eq!([run(FRONT_TURN_NS), run(FRONT_TURN_NS)], [1, 0]);
}

#[test]
fn a_seat_on_which_a_task_waits_takes_from_the_front_what_it_waits_for() {
    let mut world = World::with_front("las");
    let (front, immediate) = (world.plan.front().unwrap(), world.place(Kind::Immediate));
    world.queues.0[front.index()] = vec![(2, 1), (3, 2)];
    world.queues.0[immediate.index()] = vec![(1, 3)];
    world.seat.begin_wait(Some(RequestId::new(2)));
    let ran: Vec<Task> = std::iter::from_fn(|| world.find()).map(|(task, ..)| task).collect();
    assert_eq!(ran, [(1, 3), (2, 1)]);
    world.seat.end_wait();
    assert_eq!(world.find().map(|(task, ..)| task), Some((3, 2)));
}

#[test]
fn a_strategy_without_own_queues_has_no_next_box() {
    let mut world = World::new("central");
    let pool = world.place(Kind::Immediate);
    assert_eq!(world.seat.own(), None);
    assert_eq!(world.activated((1, 1), Kind::Immediate, true), Some(((1, 1), pool, Kind::Immediate)));
}

#[test]
fn a_seat_that_finds_nothing_looks_around_and_then_sleeps() {
    let mut world = World::new("las:spin_ns=700");
    assert_eq!(world.none(0), Rest::Look { until_ns: 700 });
    assert_eq!(world.none(699), Rest::Look { until_ns: 700 });
    assert_eq!(world.none(700), Rest::Sleep { sleeper: Sleeper::Free, at_most_ns: None });
    world.seat.begin_wait(Some(RequestId::new(3)));
    assert_eq!(world.none(699), Rest::Look { until_ns: 700 });
    assert_eq!(world.none(700), Rest::Sleep { sleeper: Sleeper::Waiting(RequestId::new(3)), at_most_ns: None });
    // It waits for something outside of this runtime.
    world.seat.begin_wait(None);
    assert_eq!(world.none(700), Rest::Sleep { sleeper: Sleeper::Free, at_most_ns: None });
}

/// Two seats that hand a task back and forth would otherwise sleep at each turn: a wake takes longer than either looks
/// around.
#[test]
fn a_seat_looks_around_for_longer_after_a_short_sleep_if_it_has_its_pu_to_itself() {
    let mut world = World::new("las:spin_ns=700");
    let sleep = Rest::Sleep { sleeper: Sleeper::Free, at_most_ns: None };
    let slept = |world: &mut World, ns| world.seat.woken(None, ns, false);
    slept(&mut world, Some(9_000));
    assert_eq!([0, 17_999].map(|idle| world.none(idle)), [Rest::Look { until_ns: 18_000 }; 2]);
    assert_eq!(world.none(18_000), sleep);
    // It found a task in its last look.
    slept(&mut world, None);
    assert_eq!(world.none(700), Rest::Look { until_ns: 18_000 });
    for (ns, until_ns) in [(50_000, 50_000), (100, 50_000), (50_001, 700)] {
        slept(&mut world, Some(ns));
        assert_eq!(world.none(0), Rest::Look { until_ns });
        assert_eq!(world.none(until_ns), sleep);
    }
    // Lightweight threads wait that only it can go on with.
    for (ns, until_ns) in [(100_000, 200_000), (300_000, 300_000), (100, 300_000), (300_001, 700)] {
        world.seat.woken(None, Some(ns), true);
        assert_eq!(world.none(0), Rest::Look { until_ns });
        assert_eq!(world.none(until_ns), sleep);
    }
    // Not if the setting keeps a seat from looking around.
    let mut world = World::new("las:spin_ns=0");
    slept(&mut world, Some(9_000));
    assert_eq!(world.none(0), sleep);
    // Two seats on each PU; and two PUs that are one of the system's.
    let machine = Topology::parse("node:1 core:2").unwrap();
    let mut same = machine.clone();
    same.pus.iter_mut().for_each(|pu| pu.os_index = 0);
    for (machine, threads) in [(machine, 4), (same, 2)] {
        let mut world = World::of("las:spin_ns=700".parse::<Setting>().unwrap().plan(&machine, threads));
        slept(&mut world, Some(9_000));
        assert_eq!(world.none(700), sleep);
    }
}

/// A member of a team waits for others. What it does was a loop of worlds/machine alone.
#[test]
fn a_waiting_member_of_a_team_looks_for_a_while_and_gives_way_before_it_sleeps() {
    let sleep = Rest::Sleep { sleeper: Sleeper::Waiting(RequestId::new(3)), at_most_ns: None };
    let mut world = World::of(World::new("las:spin_ns=700").plan.for_team(25_000));
    // A free seat is no waiting member.
    assert_eq!(world.none(700), Rest::Sleep { sleeper: Sleeper::Free, at_most_ns: None });
    world.seat.begin_wait(Some(RequestId::new(3)));
    assert_eq!(world.none(0), Rest::Look { until_ns: 700 });
    assert_eq!(world.none(700), Rest::Look { until_ns: 10_000 });
    // Each ten microseconds; a late look makes up for no turns.
    assert_eq!([10_000, 10_001].map(|idle| world.none(idle)), [Rest::GiveWay, Rest::Look { until_ns: 20_000 }]);
    assert_eq!([20_500, 20_501].map(|idle| world.none(idle)), [Rest::GiveWay, Rest::Look { until_ns: 25_000 }]);
    // Then eight more times, ten in all.
    let rests: Vec<Rest> = (0..9).map(|number| world.none(25_000 + number)).collect();
    assert_eq!(rests, [[Rest::GiveWay; 8].as_slice(), &[sleep]].concat());
    assert_eq!(world.none(26_000), sleep);
    // Woken, it begins again; so it does when it has found a task, and on top of that task.
    world.seat.woken(None, Some(1_000_000), false);
    assert_eq!(world.none(25_000), Rest::GiveWay);
    let immediate = world.place(Kind::Immediate);
    world.queues.0[immediate.index()] = vec![(3, 1)];
    assert!(world.find().is_some());
    let ten = |world: &mut World| (0..11).filter(|_| world.none(25_000) == Rest::GiveWay).count();
    assert_eq!(ten(&mut world), 10);
    world.seat.begin_wait(Some(RequestId::new(3)));
    assert_eq!(ten(&mut world), 10);
}

#[test]
fn a_waiting_seat_that_may_miss_its_wake_looks_again_each_millisecond() {
    let mut world = World::new("las:spin_ns=700");
    world.seat.begin_wait(Some(RequestId::new(3)));
    let mut none = |idle_ns| world.seat.none_unsure(&world.plan.seats[0], idle_ns);
    assert_eq!(none(0), Rest::Look { until_ns: 700 });
    assert_eq!(none(700), Rest::Sleep { sleeper: Sleeper::Waiting(RequestId::new(3)), at_most_ns: Some(1_000_000) });
}

#[test]
fn only_the_plan_of_a_team_prints_how_its_members_wait() {
    let plan = World::new("las").plan;
    assert!(!plan.to_string().contains("gives way") && !plan.to_string().contains("given way"));
    let shown = plan.for_team(25_000).to_string();
    assert!(
        shown.contains("; while a task waits, after at least 25000 ns, and having given way 10 times\n"),
        "{shown}"
    );
}

/// Muddukrishna et al., §4.1: pauses grow up to a limit. A short one can't be ended by a push; after the longest, the
/// seat sleeps.
#[test]
fn a_seat_that_is_never_woken_pauses_for_ever_also_while_its_task_waits() {
    // The authors' runtime of footprint scheduling: 1 µs, twice as long each time, up to 128 µs.
    let mut world = World::new("footprint:wake=off,backoff_ns=1000,backoff_max_ns=128000");
    let pauses = |world: &mut World, count: usize| -> Vec<u64> {
        let rest = |_| match world.seat.none(&world.plan.seats[0], 0) {
            Rest::Pause { ns } => ns / 1000,
            other => panic!("{other:?}"),
        };
        (0..count).map(rest).collect()
    };
    assert_eq!(pauses(&mut world, 10), [1, 2, 4, 8, 16, 32, 64, 128, 128, 128]);
    world.queues.0[world.plan.seats[0].place[0].index()].push((7, 1));
    assert!(world.seat.find(&world.plan.seats[0], &mut world.queues, || None).is_some());
    world.seat.begin_wait(Some(RequestId::new(7)));
    assert_eq!(pauses(&mut world, 3), [1, 2, 4]);
}

#[test]
fn pauses_grow_and_end_in_sleep_and_begin_anew_after_a_task() {
    let mut world = World::new("footprint:backoff_ns=10000,backoff_factor=3,backoff_max_ns=100000");
    let sleep = |ns| Rest::Sleep { sleeper: Sleeper::Free, at_most_ns: ns };
    let pauses = [Rest::Pause { ns: 10_000 }, Rest::Pause { ns: 30_000 }, sleep(Some(90_000)), sleep(Some(100_000))];
    for pause in pauses {
        assert_eq!(world.none(0), pause);
    }
    assert_eq!(world.none(0), sleep(None));
    world.called.push((1, 1));
    assert!(world.find().is_some());
    assert_eq!(world.none(0), pauses[0]);
    // A seat with a waiting task looks around for 5 µs, as the strategy has no such time.
    world.seat.begin_wait(Some(RequestId::new(1)));
    assert_eq!(world.none(0), Rest::Look { until_ns: 5_000 });
    assert_eq!(world.none(5_000), Rest::Sleep { sleeper: Sleeper::Waiting(RequestId::new(1)), at_most_ns: None });
}

#[test]
fn a_seat_leaves_the_task_that_it_was_woken_for_to_another_if_it_finds_a_different_one() {
    let mut world = World::new("las");
    let (immediate, deferred) = (world.place(Kind::Immediate), world.place(Kind::Deferred));
    let wake = |queue| Wake { queue, request: Some(RequestId::new(1)), while_waiting: false };
    let mut found = |woken_for, found_in: QueueId| {
        world.seat.woken(Some(wake(woken_for)), None, false);
        world.queues.0[found_in.index()].push((1, 1));
        world.find().unwrap().2
    };
    assert_eq!(found(immediate, immediate), None);
    assert_eq!(found(deferred, immediate), Some(wake(deferred)));
    assert_eq!(world.seat.take_wake(), None, "once");
    // It has looked: other seats were quicker.
    world.seat.woken(Some(wake(deferred)), None, false);
    assert_eq!((world.find(), world.none(0)), (None, Rest::Look { until_ns: 10_000 }));
    assert_eq!(world.seat.take_wake(), None);
    world.seat.woken(Some(wake(deferred)), None, false);
    assert_eq!(world.seat.take_wake(), Some(wake(deferred)), "what it waited for came first");
}

#[test]
fn a_seat_on_whose_stack_many_wait_keeps_what_it_spawns() {
    for strategy in ["las", "shepherd", "central"] {
        let mut world = World::new(strategy);
        let place = |world: &mut World| world.seat.place(&world.plan, Kind::Deferred);
        (1..DEEP).for_each(|_| world.seat.begin_wait(Some(RequestId::new(1))));
        assert!(matches!(place(&mut world), SpawnTarget::Into(_, Kind::Deferred)), "{strategy}");
        world.seat.begin_wait(Some(RequestId::new(1)));
        assert_eq!(place(&mut world), SpawnTarget::Keep, "{strategy}");
        world.seat.end_wait();
        assert_ne!(place(&mut world), SpawnTarget::Keep, "{strategy}");
    }
}

/// In the simulator, a box refused by a full queue once ran on top of its sender.
#[test]
fn a_refused_box_waits_and_a_refused_closure_runs_at_once_but_not_on_top_of_many() {
    let mut world = World::new("central");
    assert_eq!(world.seat.refused((1, 1), false), None);
    assert_eq!(world.find(), Some(((1, 1), Way::NO_QUEUE, None)));
    assert_eq!(world.seat.refused((1, 2), true), Some((1, 2)));
    assert_eq!(
        [(true, true), (true, false), (false, true)].map(|(inline, over)| world.seat.pushed(inline, over)),
        [After::Help, After::Wake, After::Wake]
    );
    (0..64).for_each(|_| world.seat.begin_help());
    assert_eq!(world.seat.pushed(true, true), After::Wake);
    assert_eq!(world.seat.refused((1, 3), true), None, "the stack would have no end");
    world.seat.end_help();
    assert_eq!(world.seat.refused((1, 4), true), Some((1, 4)));
    assert!(world.seat.take_back(&(1, 3)) && !world.seat.take_back(&(1, 3)));
}

/// The report's boxes are stolen after they have received rows (Fig. 3): they lie in the stealing queue, and none is
/// the seat's next task.
#[test]
fn a_box_that_has_received_rows_is_a_relaxed_task_under_bobox() {
    for (strategy, kind) in [("bobox", Kind::Deferred), ("bobox:boxes=immediate", Kind::Immediate)] {
        let mut world = World::new(strategy);
        let queue = world.place(kind);
        assert_eq!(world.activated((1, 1), Kind::Immediate, false), Some(((1, 1), queue, kind)), "{strategy}");
        let last = world.activated((1, 2), Kind::Immediate, true);
        assert_eq!(last, (kind == Kind::Deferred).then_some(((1, 2), queue, kind)), "{strategy}");
    }
}

/// The number of steps after which a seat with two tasks that yield again and again takes a task put into this queue
/// after `before` steps; `None` if it takes none from there at all.
fn steps_until_taken(strategy: &str, queue: usize, before: u32) -> Option<u32> {
    let mut free = World::new(strategy);
    free.queues.0[queue].push((1, 9));
    free.find()?;
    let mut world = World::new(strategy);
    let near = world.near();
    [1, 2].into_iter().for_each(|number| world.seat.yielded((1, number)));
    let mut last = 0;
    for step in 0..before + 1000 {
        if step == before {
            world.queues.0[queue].push((1, 9));
        }
        let is_near_empty = near.is_none_or(|near| world.queues.0[near.index()].is_empty());
        let next = world.seat.next_resumed(|| is_near_empty);
        let (_, number) = next.or_else(|| world.find().map(|(task, ..)| task)).unwrap();
        if number == 9 {
            return Some(step - before);
        }
        assert_ne!(number, last, "{strategy}: the two go on in turns");
        last = number;
        world.seat.yielded((1, number));
    }
    panic!("{strategy}: two tasks that yield leave no turn to queue {queue}");
}

#[test]
fn tasks_that_yield_again_and_again_leave_turns_to_queues_under_every_strategy() {
    for strategy in ALL.map(|strategy| strategy.name()) {
        let world = World::new(strategy);
        let near = world.near();
        let mut taken = 0;
        for queue in 0..world.plan.queues.len() {
            for before in [0, 1, 2, 3, 100, 101, 129, 130] {
                let Some(steps) = steps_until_taken(strategy, queue, before) else { continue };
                taken += 1;
                let most = if near == Some(QueueId::new(queue)) { 2 } else { YIELDED_TURN + 2 };
                assert!(steps <= most, "{strategy}: a task of queue {queue} after {steps} steps");
            }
        }
        assert!(taken > 0, "{strategy}");
    }
}

/// Otherwise more and more would have begun, each with a stack of its own.
#[test]
fn one_task_of_the_first_queue_begins_for_each_that_yields() {
    let mut world = World::new("shepherd");
    let (queue, _) = world.seat.first().unwrap();
    world.queues.0[queue.index()] = (10..40).map(|number| (1, number)).collect();
    [1, 2, 3].into_iter().for_each(|number| world.seat.yielded((1, number)));
    let mut begun = 0;
    for step in 1..=40 {
        let is_empty = world.queues.0[queue.index()].is_empty();
        let next = world.seat.next_resumed(|| is_empty);
        let (_, number) = next.or_else(|| world.find().map(|(task, ..)| task)).unwrap();
        begun += u32::from(number == 10 + begun);
        world.seat.yielded((1, number));
        assert!((step / 2..=step / 2 + 1).contains(&begun), "{begun} have begun in {step} steps");
    }
}

#[test]
fn a_thread_that_leaves_its_seat_leaves_its_tasks_to_others() {
    let mut world = World::new("steal");
    [1, 2].into_iter().for_each(|number| world.seat.keep((1, number)));
    assert_eq!(world.activated((1, 3), Kind::Immediate, true), None);
    assert_eq!(world.seat.take_private(), [(1, 3), (1, 1), (1, 2)]);
    assert_eq!(world.find(), None);
    // So does a waiting box, with the box beneath it that it has activated.
    world.seat.begin_wait(Some(RequestId::new(1)));
    assert_eq!(world.activated((1, 4), Kind::Immediate, true), None);
    assert_eq!(world.seat.end_wait(), Some(((1, 4), world.place(Kind::Immediate))));
}

/// So many milliseconds, in nanoseconds.
fn ms(number: u64) -> u64 {
    number * 1_000_000
}

#[test]
fn requests_take_turns_of_a_seats_time() {
    let mut world = World::new("las");
    let [own, shared] = world.plan.seats[0].place;
    // The oldest request always has a task in the seat's own queue, the others have theirs in the place of rule 3's
    // search for the oldest request's.
    world.queues.0[own.index()] = vec![(1, 0); 10];
    world.queues.0[shared.index()] = vec![(3, 0), (2, 0), (2, 1), (3, 1)];
    let mut order = TurnOrder::default();
    (1..=3).for_each(|number| _ = order.begin(RequestId::new(number)));
    let mut find = |now_ns| {
        let World { plan, seat, queues, .. } = &mut world;
        seat.find_in_turn(&plan.seats[0], &mut *queues, || None, now_ns, &mut order, None).map(|run| run.task)
    };
    assert_eq!(TURN_NS, ms(4));
    assert_eq!([find(ms(0)), find(ms(3))], [None; 2], "the strategy's turn");
    // No task is suspended. First one beyond the seat's own queue, of any request, and then those of the first request.
    assert_eq!([find(ms(4)), find(ms(5))], [Some((3, 0)), Some((1, 0))]);
    assert_eq!([find(ms(6)), find(ms(7))], [Some((1, 0)), Some((1, 0))]);
    assert_eq!([find(ms(8)), find(ms(11))], [None; 2], "the strategy's turn");
    assert_eq!(
        [find(ms(12)), find(ms(13)), find(ms(14))],
        [Some((2, 0)), Some((2, 1)), None],
        "and then it has no more"
    );
    assert_eq!(find(ms(15)), None, "so it is the strategy's turn until the time is over");
    assert_eq!(find(ms(16)), Some((3, 1)));
}

/// What happened: requests that run and have no task came first in the order of turns for good, so with hundreds of
/// them a seat spent dozens of turns in vain before each one with a task, and a request had a ten-thousandth of its
/// time.
#[test]
fn requests_without_tasks_take_half_of_the_turns_at_most() {
    const EACH: u64 = 256;
    let mut world = World::new("las");
    let own = world.plan.seats[0].place[0];
    let mut order = TurnOrder::default();
    (1..=2 * EACH).for_each(|number| _ = order.begin(RequestId::new(number)));
    let mut had = vec![0; EACH as usize];
    let mut in_vain = 0;
    // Each second turn is the strategy's.
    let turns = 40 * EACH;
    for turn in 0..turns {
        // Requests of the second half have a task at any time.
        world.queues.0[own.index()] = (EACH + 1..=2 * EACH).map(|number| (number, 0)).collect();
        let World { plan, seat, queues, .. } = &mut world;
        let now_ns = turn * TURN_NS;
        match seat.find_in_turn(&plan.seats[0], &mut *queues, || None, now_ns, &mut order, None) {
            Some(run) => had[(run.task.0 - EACH - 1) as usize] += 1,
            None => in_vain += 1,
        }
    }
    let (least, most) = (had.iter().min().copied().unwrap_or(0), had.iter().max().copied().unwrap_or(0));
    assert!(in_vain <= turns / 4 * 3 + EACH, "{in_vain} of {turns} turns, of which half are the strategy's");
    // Each has a part in 4 N of all turns or more, where N are those that have tasks.
    assert!(least >= 8 && most <= 4 * least, "{least} to {most} turns");
}

/// What happened: the root of a request was suspended while its tasks ran, and went on in turns of the strategy alone.
/// So its own turns were short, it had the least time in turns, and each turn was its.
#[test]
fn short_turns_of_a_request_leave_each_second_turn_to_others() {
    let mut world = World::new("las");
    let own = world.plan.seats[0].place[0];
    let mut order = TurnOrder::default();
    (1..=2).for_each(|number| _ = order.begin(RequestId::new(number)));
    let mut had = [0; 2];
    for turn in 0..80 {
        // At the beginning of a turn request 1 has a single task, and request 2 as many as it likes.
        world.queues.0[own.index()] = [vec![(1, 0)], vec![(2, 0); 100]].concat();
        for part in 0..100 {
            let World { plan, seat, queues, .. } = &mut world;
            let now_ns = turn * TURN_NS + part * TURN_NS / 100;
            let run = seat.find_in_turn(&plan.seats[0], &mut *queues, || None, now_ns, &mut order, None);
            had[run.map_or(0, |run| run.task.0 as usize).saturating_sub(1)] += usize::from(run.is_some());
        }
    }
    // Of 80 turns, 40 are the strategy's at least, and request 2 has a third of the others or more.
    assert!(had[0] >= 10 && had[1] >= 40 / 3 * 90, "{had:?}");
}

/// What happened: the task that waits for the tasks of a turn was woken by them, and no turn of its request found it.
#[test]
fn a_task_woken_in_a_turn_of_its_request_goes_on_in_that_turn() {
    let mut world = World::new("las");
    let own = world.plan.seats[0].place[0];
    let mut order = TurnOrder::default();
    (1..=2).for_each(|number| _ = order.begin(RequestId::new(number)));
    world.queues.0[own.index()] = vec![(1, 0), (2, 0)];
    let World { plan, seat, queues, .. } = &mut world;
    let mut find = |seat: &mut Seat<Task>, now_ns| {
        seat.find_in_turn(&plan.seats[0], &mut *queues, || None, now_ns, &mut order, None).map(|run| run.task)
    };
    assert_eq!([find(seat, 0), find(seat, TURN_NS)], [None, Some((1, 0))]);
    seat.woke((2, 7));
    seat.woke((1, 7));
    seat.woke((2, 8));
    assert_eq!(find(seat, TURN_NS + 1), Some((1, 7)));
    // Others go on in other turns, and between these the strategy finds them.
    assert_eq!([find(seat, TURN_NS + 2), find(seat, TURN_NS + 3)], [None; 2]);
    seat.woke((1, 8));
    assert_eq!(find(seat, TURN_NS + 4), Some((1, 8)));
    assert_eq!(seat.woken_count(), 2);
}

#[test]
fn a_task_that_leaves_its_turn_gets_no_task_of_its_own_request() {
    let mut world = World::new("las");
    let own = world.plan.seats[0].place[0];
    let mut order = TurnOrder::default();
    (1..=2).for_each(|number| _ = order.begin(RequestId::new(number)));
    let World { plan, seat, queues, .. } = &mut world;
    queues.0[own.index()] = vec![(1, 0), (1, 1), (2, 0), (1, 2)];
    let mut find = |now_ns| {
        seat.find_in_turn(&plan.seats[0], &mut *queues, || None, now_ns, &mut order, Some(RequestId::new(1)))
            .map(|run| run.task)
    };
    assert_eq!([find(0), find(TURN_NS), find(TURN_NS + 1)], [None, Some((2, 0)), None]);
}
