//! The rules of LAS and NLS on every machine, against an oracle that knows the paper and the topology but not the plan.
//!
//! Random pushes and looks. After each look the oracle gives the rules that could have served and the task of each; the
//! look must have used the first of them and taken that very task. Failing cases print their seed.

use proptest::prelude::*;
use std::collections::BTreeMap;
use vicus_schedule::{Kind, Plan, Queue, QueueId, QueueOrder, Queues, RequestId, SeatId, Setting, Take, look};
use vicus_topology::{Topology, fixtures};

/// A task: its request and its number, in the order of spawning.
type Task = (u64, u32);

/// The plan's queues, without locks: a world in ten lines.
struct Bare(Vec<Queue<Task>>);

impl Queues for Bare {
    type Task = Task;

    fn take(&mut self, queue: QueueId, take: Take, longer_than: u32, _: Option<QueueId>) -> Option<Task> {
        let queue = &mut self.0[queue.index()];
        if queue.len() <= longer_than as usize { None } else { queue.take(take, &mut Vec::new()) }
    }
}

/// The oracle's state: the tasks spawned by each seat, the youngest last.
struct Oracle<'a> {
    machine: &'a Topology,
    ranks: Vec<Vec<u32>>,
    plan: &'a Plan,
    /// By seat: boxes, or all tasks if a program's tasks lie with them.
    immediate: Vec<Vec<Task>>,
    /// By seat: immediate tasks of a program, if these lie apart.
    tasks: Vec<Vec<Task>>,
    /// By core group (`las`) or all in one (`nls`).
    deferred: BTreeMap<usize, Vec<Task>>,
    /// By rule, 5 and 6, and seat: the strangers' queue that served last.
    resume: [Vec<usize>; 2],
}

impl Oracle<'_> {
    fn pu(&self, seat: usize) -> &vicus_topology::Pu {
        &self.machine.pus[self.plan.seats[seat].pu.index()]
    }

    fn group(&self, seat: usize) -> usize {
        self.pu(seat).group.index()
    }

    /// Oldest of the second oldest request, or of the only one.
    fn for_strangers(tasks: &[Task]) -> Option<Task> {
        let mut requests: Vec<u64> = tasks.iter().map(|task| task.0).collect();
        requests.sort_unstable();
        requests.dedup();
        let request = *requests.get(1).or(requests.first())?;
        tasks.iter().copied().find(|task| task.0 == request)
    }

    /// The tasks each rule of Falt et al. §4.2 would accept now, by rule; several if the paper leaves the order of
    /// equals open. A program's tasks count as immediate boxes on their own node, and rule 6 takes them from others.
    fn las(&self, seat: usize) -> Vec<(u8, Vec<Task>)> {
        let own = self.pu(seat);
        let youngest = self.tasks[seat].last().or(self.immediate[seat].last());
        let mut rules = vec![(1, youngest.copied().into_iter().collect())];
        // Rule 2: of the nearest seats of the group with work, each one's oldest.
        let distance = |other: usize| {
            let pu = self.pu(other);
            if pu.id == own.id { 0 } else { self.machine.cache_distance(own.id, pu.id).unwrap_or(u8::MAX) }
        };
        let group = |other: &usize| *other != seat && self.group(*other) == self.group(seat);
        let in_group = |queues: &[Vec<Task>]| -> Vec<Task> {
            let with_work: Vec<usize> =
                (0..queues.len()).filter(group).filter(|&other| !queues[other].is_empty()).collect();
            let nearest = with_work.iter().map(|&other| distance(other)).min();
            let near = with_work.iter().filter(|&&other| Some(distance(other)) == nearest);
            near.map(|&other| queues[other][0]).collect()
        };
        let boxes = in_group(&self.immediate);
        rules.push((2, if boxes.is_empty() { in_group(&self.tasks) } else { boxes }));
        // Rule 3: own group's youngest of the oldest request.
        let own_deferred = self.deferred.get(&self.group(seat)).map_or(&[][..], Vec::as_slice);
        let oldest = own_deferred.iter().map(|task| task.0).min();
        rules.push((3, own_deferred.iter().rev().find(|task| Some(task.0) == oldest).copied().into_iter().collect()));
        // Rule 4: the nearest other groups with deferred tasks.
        let rank = |group: usize| {
            let node = self.machine.core_groups[group].node;
            self.ranks[own.node.index()][node.index()]
        };
        let others: Vec<usize> = self
            .deferred
            .iter()
            .filter(|(group, tasks)| **group != self.group(seat) && !tasks.is_empty())
            .map(|(group, _)| *group)
            .collect();
        let nearest = others.iter().map(|&group| rank(group)).min();
        let near = others.iter().filter(|&&group| Some(rank(group)) == nearest);
        rules.push((4, near.filter_map(|group| Oracle::for_strangers(&self.deferred[group])).collect()));
        // Rule 5: other groups of the node; round robin is checked with the last hit below.
        let strangers = |other: &usize| self.pu(*other).node == own.node && self.group(*other) != self.group(seat);
        let queues = (0..self.immediate.len()).filter(strangers);
        let tasks = queues.flat_map(|other| [self.immediate[other].first(), self.tasks[other].first()]).flatten();
        rules.push((5, tasks.copied().collect()));
        let far = (0..self.tasks.len()).filter(|&other| self.pu(other).node != own.node);
        rules.push((6, far.filter_map(|other| self.tasks[other].first()).copied().collect()));
        rules
    }

    /// Falt et al. §6.1.
    fn nls(&self, seat: usize) -> Vec<(u8, Vec<Task>)> {
        let shared = self.deferred.values().next().and_then(|tasks| tasks.first());
        let others = (0..self.immediate.len()).filter(|&other| other != seat);
        vec![
            (1, self.immediate[seat].last().copied().into_iter().collect()),
            (2, shared.copied().into_iter().collect()),
            (3, others.filter_map(|other| self.immediate[other].first()).copied().collect()),
        ]
    }

    fn remove(&mut self, task: Task) {
        for queue in self.immediate.iter_mut().chain(&mut self.tasks).chain(self.deferred.values_mut()) {
            if let Some(at) = queue.iter().position(|other| *other == task) {
                queue.remove(at);
                return;
            }
        }
        panic!("task {task:?} was taken twice");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push { seat: usize, kind: Kind, is_box: bool, request: u64 },
    Look { seat: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![Just(Kind::Immediate), Just(Kind::Deferred)];
    let step = prop_oneof![
        (0..512usize, kind, any::<bool>(), 0..4u64).prop_map(|(seat, kind, is_box, request)| Step::Push {
            seat,
            kind,
            is_box,
            request
        }),
        (0..512usize).prop_map(|seat| Step::Look { seat }),
    ];
    prop::collection::vec(step, 1..120)
}

fn follow(strategy: &str, machine: &Topology, threads: usize, steps: &[Step]) {
    let plan = strategy.parse::<Setting>().unwrap().plan(machine, threads);
    let las = strategy == "las";
    let seats = plan.seats.len();
    let mut bare = Bare(plan.queues.iter().map(|queue| Queue::new(queue.order)).collect());
    let mut cursors = vec![vec![0; 4]; seats];
    let mut oracle = Oracle {
        machine,
        ranks: machine.numa_ranks(),
        plan: &plan,
        immediate: vec![Vec::new(); seats],
        tasks: vec![Vec::new(); seats],
        deferred: BTreeMap::new(),
        resume: [vec![0; seats], vec![0; seats]],
    };
    let mut spawned = 0;
    let mut take = |bare: &mut Bare, oracle: &mut Oracle<'_>, seat: usize| -> bool {
        let found = look(&plan.seats[seat].look, &mut cursors[seat], bare);
        let rules = if las { oracle.las(seat) } else { oracle.nls(seat) };
        let first = rules.iter().find(|(_, tasks)| !tasks.is_empty());
        match (&found, first) {
            (None, None) => return false,
            (Some(found), Some((rule, tasks))) => {
                assert_eq!(found.way.rule(), *rule, "no rule is skipped while an earlier one could serve");
                assert!(tasks.contains(&found.task), "rule {rule} takes one of {tasks:?}, not {:?}", found.task);
                if las && *rule >= 5 {
                    // Round robin: from the last hit on, no queue between it and this one could have served.
                    let ring = plan.seats[seat].look.iter().find(|probe| probe.rule == *rule).unwrap().scan.queues();
                    let at = ring.iter().position(|queue| Some(*queue) == found.way.queue()).unwrap();
                    let resume = &mut oracle.resume[usize::from(rule - 5)][seat];
                    let from = *resume;
                    let passed = (0..ring.len()).map(|step| (from + step) % ring.len()).take_while(|&i| i != at);
                    for queue in passed {
                        assert!(bare.0[ring[queue].index()].is_empty(), "the scan resumes where it ended");
                    }
                    *resume = at;
                }
            }
            (found, first) => panic!("the look found {found:?}, the paper's rules {first:?}"),
        }
        oracle.remove(found.unwrap().task);
        true
    };
    for step in steps {
        match *step {
            Step::Push { seat, kind, is_box, request } => {
                let seat = seat % seats;
                let task = (request, spawned);
                spawned += 1;
                let of_boxes = plan.seats[seat].place[kind as usize];
                let queue = if is_box { of_boxes } else { plan.place_of_task(SeatId::new(seat), kind).0 };
                bare.0[queue.index()].push(RequestId::new(request), task);
                let group = if las { oracle.group(seat) } else { 0 };
                match kind {
                    Kind::Immediate if queue != of_boxes => oracle.tasks[seat].push(task),
                    Kind::Immediate => oracle.immediate[seat].push(task),
                    Kind::Deferred => oracle.deferred.entry(group).or_default().push(task),
                }
            }
            Step::Look { seat } => {
                take(&mut bare, &mut oracle, seat % seats);
            }
        }
    }
    // The seats woken by pushes find every task: seats with threads, one after the other, empty all queues.
    let mut took = true;
    while took {
        took = false;
        for seat in 0..seats {
            while !plan.seats[seat].spare && take(&mut bare, &mut oracle, seat) {
                took = true;
            }
        }
    }
    assert!(bare.0.iter().all(Queue::is_empty), "no task is stranded");
    assert!(plan.queues.iter().any(|queue| !las || queue.order == QueueOrder::ByRequest));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn las_follows_the_paper_on_small_machines(
        steps in steps(),
        machine in prop::sample::select(vec![
            "core:1", "core:4", "l3:1 core:4", "l2:4 core:2", "node:2 l3:2 l2:2 core:2 pu:2", "node:4 l3:1 core:2 pu:2",
            "l3:3 core:2",
        ]),
        threads in 1..20usize,
    ) {
        let machine = Topology::parse(machine).unwrap();
        follow("las", &machine, threads, &steps);
        follow("nls", &machine, threads, &steps);
    }

    #[test]
    fn las_follows_the_paper_on_every_fixture(steps in steps(), share in 1..=4usize) {
        for machine in fixtures() {
            // A plan for hundreds of threads takes long to make in an unoptimised build; `plans.rs` tests whole
            // machines.
            let threads = (machine.usable_pus().count() * share / 4).clamp(1, 24);
            follow("las", &machine, threads, &steps);
            follow("nls", &machine, threads, &steps);
        }
    }
}
