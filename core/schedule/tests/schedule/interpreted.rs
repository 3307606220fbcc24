//! Every strategy's plan, interpreted: only legal moves, every token finds a block, no task is stranded, and a
//! repetition is the same.
//!
//! Seeded steps on each fixture: seats spawn, deal and look, callers without a seat submit. The result of each step is
//! checked by a model that knows the plan as data and each task's place and age, but neither `look` nor the queues.

use vicus_schedule::{
    ALL, AllowedValues, End, FoundTask, Idle, Kind, Plan, Probe, Queue, QueueId, QueueOrder, QueueScan, Queues,
    QueuesByRequest, RequestId, SeatId, Setting, Shares, Strategy, Take, Tokens, Way, When, look, look_waiting,
};
use vicus_topology::{NodeId, Topology, fixtures};

/// A task: its request, and its number in the order of spawning.
type Task = (u64, usize);

/// The plan's queues, without locks.
struct World<'a> {
    plan: &'a Plan,
    queues: Vec<Queue<Task>>,
    tokens: u32,
    cursors: Vec<Vec<usize>>,
}

impl Queues for World<'_> {
    type Task = Task;

    fn take(&mut self, queue: QueueId, take: Take, longer_than: u32, rest_to: Option<QueueId>) -> Option<Task> {
        if self.plan.tokens.is_some() && self.tokens == 0 || self.queues[queue.index()].len() <= longer_than as usize {
            return None;
        }
        let mut rest = Vec::new();
        let task = self.queues[queue.index()].take(take, &mut rest)?;
        self.tokens = self.tokens.saturating_sub(1);
        for (request, task) in rest {
            self.queues[rest_to.unwrap().index()].push(request, task);
        }
        Some(task)
    }
}

impl QueuesByRequest for World<'_> {
    fn take_of(&mut self, request: RequestId, queue: QueueId, take: Take, longer_than: u32) -> Option<Task> {
        assert!(self.plan.tokens.is_none(), "no strategy with tokens picks tasks out");
        let queue = &mut self.queues[queue.index()];
        if queue.len() > longer_than as usize { queue.remove(request, take.end(), |_| true) } else { None }
    }

    fn request_of(&self, _: &Task) -> RequestId {
        unreachable!("no seat takes turns here")
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Submit {
        request: u64,
    },
    Spawn {
        seat: usize,
        kind: Kind,
        request: u64,
        bytes: Vec<u64>,
        home: Option<usize>,
    },
    Look {
        seat: usize,
    },
    /// A look by a seat with a waiting task of this request.
    Wait {
        seat: usize,
        request: u64,
    },
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
enum Done {
    Queued(QueueId),
    /// The queue was full: the spawner runs it itself.
    RunHere,
    /// Queued; the pool of tokens was full, so the spawner ran this.
    Helped(QueueId, FoundTask<Task>),
    Took(Option<FoundTask<Task>>),
}

/// The generator splitmix64 of Steele and Vigna; good enough for choices.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn step(&mut self, plan: &Plan, nodes: usize) -> Step {
        let (seat, request) = (self.below(plan.seats.len()), self.below(3) as u64);
        match self.below(20) {
            0 => Step::Submit { request },
            1..=11 => {
                let kind = [Kind::Immediate, Kind::Deferred][self.below(2)];
                // Most of the bytes on one node, some on all.
                let (much, rest) = (self.below(nodes), [0, 0, 1 << 10, 1 << 22][self.below(4)]);
                let bytes = (0..nodes).map(|node| if node == much { 4 * rest } else { rest }).collect();
                let home = (self.below(4) == 0).then(|| self.below(nodes));
                Step::Spawn { seat, kind, request, bytes, home }
            }
            12..=16 => Step::Look { seat },
            _ => Step::Wait { seat, request },
        }
    }
}

impl World<'_> {
    fn new(plan: &Plan) -> World<'_> {
        World {
            plan,
            queues: plan.queues.iter().map(|queue| Queue::new(queue.order)).collect(),
            tokens: 0,
            cursors: (0..plan.seats.len()).map(|seat| vec![0; plan.cursors(SeatId::new(seat))]).collect(),
        }
    }

    fn push(&mut self, queue: QueueId, task: Task) {
        self.queues[queue.index()].push(RequestId::new(task.0), task);
        self.tokens += u32::from(self.plan.tokens.is_some());
    }

    fn look(&mut self, seat: usize) -> Option<FoundTask<Task>> {
        self.look_as(seat, None)
    }

    fn look_as(&mut self, seat: usize, waiting: Option<u64>) -> Option<FoundTask<Task>> {
        let mut cursors = std::mem::take(&mut self.cursors[seat]);
        let probes = &self.plan.seats[seat].look;
        let found = match waiting {
            Some(request) => look_waiting(probes, &mut cursors, self, RequestId::new(request), 1),
            None => look(probes, &mut cursors, self),
        };
        self.cursors[seat] = cursors;
        found
    }

    fn follow(&mut self, step: &Step, number: usize) -> Done {
        let plan = self.plan;
        match *step {
            Step::Submit { request } => {
                let queue = plan.entry[number % plan.entry.len()];
                self.push(queue, (request, number));
                Done::Queued(queue)
            }
            Step::Spawn { seat, kind, request, ref bytes, home } => {
                let dealt = plan.dealing().and_then(|dealing| {
                    let mut shares = Shares::default();
                    let nodes = bytes.iter().enumerate();
                    nodes.for_each(|(node, &bytes)| shares.add(dealing, NodeId::new(node), number, bytes));
                    dealing.deal_shares(&shares).queue
                });
                let in_turn = if home.is_some() { None } else { plan.queue_in_turn(SeatId::new(seat), number, 0) };
                let home = home.and_then(|home| plan.home_queue(SeatId::new(seat), NodeId::new(home), number));
                let warm = plan.warm().filter(|_| !bytes.is_empty() && number.is_multiple_of(3));
                let warm = warm.map(|warm| warm.queues[number / 3 % warm.queues.len()]);
                let queue = home.or(warm).or(dealt).or(in_turn).unwrap_or(plan.seats[seat].place[kind as usize]);
                let spec = &plan.queues[queue.index()];
                if spec.capacity.is_some_and(|most| self.queues[queue.index()].len() >= most as usize) {
                    return Done::RunHere;
                }
                self.push(queue, (request, number));
                match plan.tokens {
                    Some(Tokens { capacity: Some(most) }) if self.tokens > most => {
                        Done::Helped(queue, self.look(seat).expect("every token finds a block"))
                    }
                    _ => Done::Queued(queue),
                }
            }
            Step::Look { seat } => Done::Took(self.look(seat)),
            Step::Wait { seat, request } => Done::Took(self.look_as(seat, Some(request))),
        }
    }
}

/// The place of each task, the oldest first: the legal moves follow from this and from the plan.
struct Model<'a> {
    plan: &'a Plan,
    queues: Vec<Vec<Task>>,
    cursors: Vec<Vec<usize>>,
    /// By queue, for those with turns: the requests still to come in this round, between the last served one and the
    /// last one.
    rounds: Vec<std::ops::Range<u64>>,
    run: Vec<usize>,
}

impl Model<'_> {
    /// The index of the task a take must give.
    fn due(&self, queue: QueueId, take: Take) -> usize {
        let tasks = &self.queues[queue.index()];
        let mut requests: Vec<u64> = tasks.iter().map(|task| task.0).collect();
        requests.sort_unstable();
        requests.dedup();
        let by_request = self.plan.queues[queue.index()].order == QueueOrder::ByRequest;
        let of = |request: u64| move |task: &Task| !by_request || task.0 == request;
        let second = *requests.get(1).unwrap_or(&requests[0]);
        match take {
            Take::Youngest | Take::YoungestOfOldestRequest => tasks.iter().rposition(of(requests[0])).unwrap(),
            Take::Oldest => tasks.iter().position(of(requests[0])).unwrap(),
            Take::OldestOfSecondOldestRequest => tasks.iter().position(of(second)).unwrap(),
            Take::InTurn(end) => {
                let next = requests.iter().find(|request| self.rounds[queue.index()].contains(request));
                let next = of(*next.unwrap_or(&requests[0]));
                match end {
                    End::Youngest => tasks.iter().rposition(next).unwrap(),
                    End::Oldest => tasks.iter().position(next).unwrap(),
                }
            }
            Take::Several(..) => tasks.len() - 1,
        }
    }

    /// The index of the task a take of one request's tasks must give.
    fn due_of(&self, queue: QueueId, take: Take, request: u64) -> Option<usize> {
        let mut tasks = self.queues[queue.index()].iter();
        match take {
            Take::Oldest
            | Take::OldestOfSecondOldestRequest
            | Take::InTurn(End::Oldest)
            | Take::Several(End::Oldest, _) => tasks.position(|task| task.0 == request),
            _ => tasks.rposition(|task| task.0 == request),
        }
    }

    /// The task a seat must find; `waiting`: the request of its waiting task, if one waits.
    fn look(&mut self, seat: usize, waiting: Option<u64>) -> Option<FoundTask<Task>> {
        let plan = self.plan;
        for Probe { rule, scan, take, when, rest_to, while_waiting } in &plan.seats[seat].look {
            let picked = waiting.filter(|_| !while_waiting);
            let queues = scan.queues();
            let (start, cursor) = match scan {
                QueueScan::List(_) => (0, None),
                QueueScan::Ring(_, cursor) => (self.cursors[seat][*cursor], Some(*cursor)),
            };
            for at in (start..queues.len()).chain(0..start) {
                let limit = match when {
                    When::NotEmpty => 0,
                    When::LongerThan(limits) => limits[at] as usize,
                };
                let queue = queues[at];
                let length = self.queues[queue.index()].len();
                if length <= limit {
                    continue;
                }
                let due = picked.map_or_else(|| Some(self.due(queue, *take)), |of| self.due_of(queue, *take, of));
                let Some(due) = due else { continue };
                if let Some(cursor) = cursor {
                    self.cursors[seat][cursor] = at;
                }
                let youngest = self.queues[queue.index()].iter().map(|task| task.0).max().unwrap();
                let task = self.queues[queue.index()].remove(due);
                if let (Take::InTurn(_), None) = (take, picked) {
                    let round = &mut self.rounds[queue.index()];
                    let end = if round.contains(&task.0) { round.end } else { youngest + 1 };
                    *round = task.0 + 1..end;
                }
                if let (Take::Several(_, most), None) = (take, picked) {
                    // The thief runs the youngest, and has the others before it.
                    let from = length - length.min(usize::from(*most));
                    let rest: Vec<Task> = self.queues[queue.index()].drain(from..).collect();
                    self.queues[rest_to.unwrap().index()].extend(rest);
                }
                self.run.push(task.1);
                return Some(FoundTask { task, way: Way::new(*rule, queue) });
            }
        }
        None
    }

    fn check(&mut self, step: &Step, number: usize, done: &Done) {
        let request = match *step {
            Step::Submit { request } | Step::Spawn { request, .. } => request,
            Step::Look { seat } => return assert_eq!(*done, Done::Took(self.look(seat, None)), "step {number}"),
            Step::Wait { seat, request } => {
                return assert_eq!(*done, Done::Took(self.look(seat, Some(request))), "step {number}");
            }
        };
        match (step, done) {
            (_, Done::RunHere) => self.run.push(number),
            (_, Done::Queued(queue)) => self.queues[queue.index()].push((request, number)),
            (Step::Spawn { seat, .. }, Done::Helped(queue, found)) => {
                self.queues[queue.index()].push((request, number));
                assert_eq!(self.look(*seat, None).as_ref(), Some(found), "step {number}");
            }
            _ => panic!("step {number}: {step:?} did {done:?}"),
        }
        for (queue, spec) in self.queues.iter().zip(&self.plan.queues) {
            assert!(spec.capacity.is_none_or(|most| queue.len() <= most as usize), "{} is full", spec.name);
        }
    }
}

/// Steps and their results; `check` sees each.
fn record(plan: &Plan, nodes: usize, seed: u64) -> Vec<(Step, Done)> {
    let (mut chance, mut world) = (Chance(seed), World::new(plan));
    let mut model = Model {
        plan,
        queues: vec![Vec::new(); plan.queues.len()],
        cursors: world.cursors.clone(),
        rounds: vec![0..0; plan.queues.len()],
        run: Vec::new(),
    };
    let mut record = Vec::new();
    let mut submitted = 0;
    for number in 0..300 {
        let step = chance.step(plan, nodes);
        let done = world.follow(&step, number);
        model.check(&step, number, &done);
        let waiting: usize = world.queues.iter().map(Queue::len).sum();
        if let Some(Tokens { capacity }) = plan.tokens {
            assert_eq!(world.tokens as usize, waiting, "a token for each block");
            submitted += u32::from(matches!(step, Step::Submit { .. }));
            assert!(
                capacity.is_none_or(|most| world.tokens <= most + submitted),
                "only callers without a seat go beyond it"
            );
        }
        record.push((step, done));
    }
    // A single seat woken by a push to a queue empties it; the other tasks of a theft are its own then.
    while let Some(index) = world.queues.iter().position(|queue| !queue.is_empty()) {
        let spec = &plan.queues[index];
        let pool = spec.wake[chance.below(spec.wake.len())];
        let seats = &plan.pools[pool.index()].seats;
        let seat = seats[chance.below(seats.len())].index();
        while !world.queues[index].is_empty() {
            let found = world.look(seat);
            assert!(found.is_some(), "{} is left with tasks that {seat} was woken for", spec.name);
            assert_eq!(found, model.look(seat, None));
        }
    }
    let spawned =
        record.iter().enumerate().filter(|(_, (step, _))| !matches!(step, Step::Look { .. } | Step::Wait { .. }));
    model.run.sort_unstable();
    assert!(model.run.into_iter().eq(spawned.map(|(number, _)| number)), "every task is run once");
    record
}

/// Every strategy, with some values of every parameter.
pub(crate) fn settings() -> Vec<Setting> {
    let mut settings = Vec::new();
    for strategy in ALL {
        settings.push(strategy.name().to_owned());
        for parameter in strategy.parameters() {
            let values: Vec<String> = match parameter.values {
                AllowedValues::Named(names) => names.iter().map(|name| (*name).to_owned()).collect(),
                AllowedValues::OneOf(numbers) => numbers.iter().map(u32::to_string).collect(),
                AllowedValues::Between(least, most) => {
                    let some = [0, 1, 2, 7, most.min(4_000_000_000)]
                        .into_iter()
                        .filter(|value| (least..=most).contains(value));
                    some.map(|value| value.to_string()).collect()
                }
            };
            // A first pause may not be longer than the longest.
            let with = match parameter.name {
                "backoff_ns" => ",backoff_max_ns=4294967295",
                "backoff_max_ns" => ",backoff_ns=1",
                _ => "",
            };
            settings.extend(values.iter().map(|value| format!("{}:{}={value}{with}", strategy.name(), parameter.name)));
        }
    }
    settings.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn every_setting_of_every_strategy_moves_legally_on_every_fixture() {
    for machine in fixtures() {
        for (index, setting) in settings().iter().enumerate() {
            let threads = [1, 2, 7, 24][index % 4].min(machine.usable_pus().count());
            let plan = setting.plan(&machine, threads);
            plan.assert_valid();
            let seed = index as u64;
            eprintln!("{}, {threads} threads of {}, seed {seed}", plan.strategy, machine.name);
            let recorded = record(&plan, machine.nodes.len(), seed);
            assert_eq!(recorded, record(&plan, machine.nodes.len(), seed), "the same seed, the same moves");
            // The record is enough to repeat it, without the generator.
            let same_plan = setting.plan(&machine, threads);
            let mut again = World::new(&same_plan);
            for (number, (step, done)) in recorded.iter().enumerate() {
                assert_eq!(again.follow(step, number), *done, "step {number}");
            }
        }
    }
}

/// A seat with a waiting task once took its request's youngest task from any queue, though the queue was not long
/// enough to be robbed, or is to be robbed of the oldest; and it left other seats' immediate tasks if they came last.
#[test]
fn a_seat_whose_task_waits_robs_by_the_papers_rules() {
    let machine = Topology::parse("node:2 core:2").unwrap();
    let plan = |strategy: &str, threads| strategy.parse::<Setting>().unwrap().plan(&machine, threads);
    let found = |task, rule, queue| Some(FoundTask { task, way: Way::new(rule, queue) });

    // Muddukrishna et al., algorithm 2, line 4: longer than rank 1 times two cores; and first in, first out.
    let footprint = plan("footprint:undealt=beside", 4);
    let far = footprint.seats[3].place[0];
    let mut world = World::new(&footprint);
    (0..2).for_each(|number| world.push(far, (7, number)));
    assert_eq!(world.look_as(0, Some(7)), None, "too short");
    world.push(far, (7, 2));
    assert_eq!(world.look_as(0, Some(7)), found((7, 0), 2, far));
    assert_eq!(
        world.look_as(3, Some(8)),
        found((7, 1), 1, far),
        "a seat of that node takes it, though it waits for other tasks"
    );

    // Wittmann and Hager, §2.2: the oldest block of the next domain.
    let queues = plan("locality-queues", 4);
    let far = queues.seats[3].place[0];
    let mut world = World::new(&queues);
    (0..2).for_each(|number| world.push(far, (7, number)));
    assert_eq!(world.look_as(0, Some(7)), found((7, 0), 2, far));

    // Falt et al., §6.1: own immediate tasks, deferred ones, another's oldest immediate one.
    let nls = plan("nls", 2);
    let (deferred, other) = (nls.entry[0], nls.seats[1].place[0]);
    let mut world = World::new(&nls);
    (0..2).for_each(|number| world.push(other, (8, number)));
    [(8, 2), (7, 3), (7, 4)].into_iter().for_each(|task| world.push(deferred, task));
    assert_eq!(world.look_as(0, Some(7)), found((7, 3), 2, deferred), "deferred ones of its request, as they came");
    assert_eq!(world.look_as(0, Some(7)), found((7, 4), 2, deferred));
    assert_eq!(world.look_as(0, Some(7)), found((8, 0), 3, other), "immediate ones of any request");
    assert_eq!(world.look_as(0, Some(7)), found((8, 1), 3, other));
    assert_eq!(world.look_as(0, Some(7)), None, "other requests' deferred tasks wait for free seats");
}

#[test]
fn tasks_that_are_not_dealt_lie_apart_and_are_robbed_at_any_length() {
    let machine = Topology::parse("node:2 core:2").unwrap();
    let plan = "footprint:undealt=apart,share_bytes=1000".parse::<Setting>().unwrap().plan(&machine, 4);
    let mut world = World::new(&plan);
    let spawn = |far: u64| Step::Spawn { seat: 3, kind: Kind::Deferred, request: 0, bytes: vec![0, far], home: None };
    let found = |number, rule, queue| Some(FoundTask { task: (0, number), way: Way::new(rule, queue) });
    let stays = plan.seats[3].place[0];
    let dealt = plan.dealing().unwrap().queues[1];
    assert_ne!(stays, dealt);
    const MUCH: u64 = 1 << 30;
    assert_eq!(world.follow(&spawn(MUCH), 0), Done::Queued(dealt));
    assert_eq!(world.follow(&spawn(1), 1), Done::Queued(stays), "too few bytes");
    assert_eq!(world.follow(&spawn(MUCH), 2), Done::Queued(dealt));
    assert_eq!(world.follow(&spawn(1), 3), Done::Queued(stays));
    // A seat of the other node robs an undealt task, though one task is not longer than rank 1 times two cores.
    assert_eq!(world.look(0), found(1, 2, stays));
    // Its own seats take this one first as well.
    assert_eq!(world.look(2), found(3, 1, stays));
    assert_eq!(world.look(0), None, "two dealt tasks are for that node's two cores");
    assert_eq!(world.follow(&spawn(MUCH), 4), Done::Queued(dealt));
    assert_eq!(world.look(0), found(0, 2, dealt));
    assert_eq!(world.look(3), found(2, 1, dealt));
}

#[test]
fn a_submitter_to_a_full_pool_takes_the_oldest_block_of_its_own_domain() {
    // Wittmann and Hager, §2.2, by hand: two domains of one thread, room for two tokens.
    let machine = Topology::parse("node:2 core:1").unwrap();
    let plan = "locality-queues:capacity=2".parse::<Setting>().unwrap().plan(&machine, 2);
    let mut world = World::new(&plan);
    let block = |domain: usize| Step::Spawn {
        seat: 0,
        kind: Kind::Immediate,
        request: 0,
        bytes: (0..2).map(|node| u64::from(node == domain)).collect(),
        home: None,
    };
    let [own, other] = [plan.seats[0].place[0], plan.seats[1].place[0]];
    assert_eq!(world.follow(&block(0), 0), Done::Queued(own));
    assert_eq!(world.follow(&block(1), 1), Done::Queued(other));
    let found = |number, rule, queue| FoundTask { task: (0, number), way: Way::new(rule, queue) };
    assert_eq!(world.follow(&block(1), 2), Done::Helped(other, found(0, 1, own)), "not the block that it submitted");
    assert_eq!(world.follow(&block(1), 3), Done::Helped(other, found(1, 2, other)), "its own domain has none");
    assert_eq!(world.look(1), Some(found(2, 1, other)));
    assert_eq!(world.look(0), Some(found(3, 2, other)));
    assert_eq!(world.look(0), None);
}

/// Threads that came before all blocks were submitted took the first ones of others, and of a first sweep's 32 blocks
/// 13 to 26 ran in their domains.
#[test]
fn blocks_of_a_domain_wait_for_its_cores_if_long_queues_alone_are_robbed() {
    let machine = Topology::parse("node:2 core:2").unwrap();
    let plan = "locality-queues:rob=long".parse::<Setting>().unwrap().plan(&machine, 4);
    plan.assert_valid();
    let mut world = World::new(&plan);
    let block = Step::Spawn { seat: 0, kind: Kind::Immediate, request: 0, bytes: vec![0, 1], home: None };
    let far = plan.seats[2].place[0];
    let found = |number, rule| Some(FoundTask { task: (0, number), way: Way::new(rule, far) });
    for number in 0..2 {
        assert_eq!(world.follow(&block, number), Done::Queued(far));
        assert_eq!(world.look(0), None, "a core is there for it");
    }
    assert_eq!(world.follow(&block, 2), Done::Queued(far));
    assert_eq!(world.look(0), found(0, 2), "two cores, three blocks: the oldest");
    assert_eq!(world.look(1), None);
    assert_eq!((world.look(2), world.look(3)), (found(1, 1), found(2, 1)));
    let robbers: Vec<_> = plan.queues[far.index()].robbers.iter().map(|robber| robber.longer_than).collect();
    assert_eq!((plan.queues[far.index()].wake.len(), robbers), (1, vec![2]), "a push wakes those that take from it");
}

#[test]
fn thresholds_pauses_and_bounds_are_what_was_set() {
    let machine = Topology::parse("node:4 l3:1 core:4").unwrap();
    let plan = |setting: &str| setting.parse::<Setting>().unwrap().plan(&machine, 16);
    let idle = |setting: &str| plan(setting).seats[0].idle;
    let is_woken_late =
        |strategy: &dyn Strategy| strategy.parameters().iter().any(|parameter| parameter.name == "backoff_ns");
    let (back_off, sleep): (Vec<_>, Vec<_>) = ALL.into_iter().partition(|strategy| is_woken_late(*strategy));
    for strategy in sleep.iter().map(|strategy| strategy.name()) {
        assert_eq!(idle(&format!("{strategy}:spin_ns=77")), Idle::Sleep { spin_ns: 77 });
    }
    let back_off: Vec<&str> = back_off.iter().map(|strategy| strategy.name()).collect();
    assert_eq!(back_off, ["footprint", "vicinity"], "these threads poll (Muddukrishna et al., §4.1)");
    for strategy in back_off {
        let setting = format!("{strategy}:backoff_ns=5,backoff_factor=3,backoff_max_ns=600");
        assert_eq!(idle(&setting), Idle::BackOff { first_ns: 5, factor: 3, max_ns: 600, sleeps: true });
        let never = Idle::BackOff { first_ns: 5, factor: 3, max_ns: 600, sleeps: false };
        assert_eq!(idle(&format!("{setting},wake=off")), never);
    }
    assert_eq!(plan("central").queues[0].capacity, Some(256));
    assert_eq!(plan("central:capacity=0").queues[0].capacity, None);
    assert_eq!(plan("locality-queues").tokens, Some(Tokens { capacity: Some(256) }));
    assert_eq!(plan("locality-queues:capacity=0").tokens, Some(Tokens { capacity: None }));

    let dealing = |setting: &str| plan(setting).dealing().unwrap().clone();
    assert_eq!(dealing("footprint:share_bytes=999").more_bytes_than, 999);
    assert_eq!(dealing("vicinity:private_bytes=999").more_bytes_than, 999);
    assert_eq!(dealing("vicus:deal_bytes=999").more_bytes_than, 999);
    assert!(dealing("footprint").only_uneven && !dealing("footprint:even=dealt").only_uneven);
    assert!(dealing("vicinity").only_coarse && !dealing("vicinity:coarse=off").only_coarse);
    assert!(dealing("vicinity").intensity_first && !dealing("vicinity:intensity=off").intensity_first);
    let limits = |setting: &str| match &plan(setting).seats[0].look.last().unwrap().when {
        When::LongerThan(limits) => limits.clone(),
        When::NotEmpty => panic!("a threshold"),
    };
    // A far node is 20 in the one-line notation, as on most machines; each has four cores.
    assert_eq!((limits("footprint"), limits("footprint:distance=value")), (vec![4; 3], vec![80; 3]));
    for (reach, others) in [(1, 0), (4, 3), (8, 3), (0, 3)] {
        let plan = plan(&format!("vicinity:undealt=beside,reach={reach}"));
        let robs = plan.seats[0].look.get(1).map_or(0, |probe| probe.scan.queues().len());
        assert_eq!(robs, others, "a vicinity of {reach} of the four home caches");
    }
}
