//! The six steps of the Bobox report's Fig. 3, on a plan's queues of four threads.
//!
//! The network: the initialization pill starts two boxes, `left` and `right`. `left` has two outputs, each with a
//! reader, `up` and `down`; `right` has one, read by `end`. We differ: vias are links and no tasks, so the report's
//! steps (b) and (c), via queued and boxes queued, are one.

use super::by_hand::ByHand;
use std::sync::Arc;
use vicus_flow::{Activation, BoxModel, Column, Envelope, Model, ModelBuilder, Schema, Turn, Type};
use vicus_schedule::{Plan, Queue, QueueId, Queues, Setting, Take, look};
use vicus_topology::Topology;

/// The plan's queues, with tasks of one request.
struct Threads {
    plan: Plan,
    queues: Vec<Queue<Activation>>,
    cursors: Vec<Vec<usize>>,
    world: ByHand,
}

struct Reach<'a>(&'a mut [Queue<Activation>]);

impl Queues for Reach<'_> {
    type Task = Activation;

    fn take(&mut self, queue: QueueId, take: Take, more: u32, rest_to: Option<QueueId>) -> Option<Activation> {
        if self.0[queue.index()].len() <= more as usize {
            return None;
        }
        let mut rest = Vec::new();
        let task = self.0[queue.index()].take(take, &mut rest);
        for (request, task) in rest {
            self.0[rest_to.expect("several have a place to go").index()].push(request, task);
        }
        task
    }
}

impl Threads {
    fn new(strategy: &str, model: &Arc<Model>) -> Threads {
        let setting: Setting = strategy.parse().unwrap();
        let plan = setting.plan(&Topology::parse("l3:1 core:4").unwrap(), 4);
        let queues = plan.queues.iter().map(|queue| Queue::new(queue.order)).collect();
        let cursors = (0..4).map(|seat| vec![0; plan.cursors(vicus_schedule::SeatId::new(seat))]).collect();
        let mut threads = Threads { queues, cursors, world: ByHand::start(model), plan };
        // Requests come into thread 0's entry queue.
        let entry = threads.plan.entry[0];
        threads.spawn(|_, _| entry);
        threads
    }

    /// Puts the tasks activated by the last step into queues.
    fn spawn(&mut self, place: impl Fn(&Plan, &Activation) -> QueueId) {
        for activation in std::mem::take(&mut self.world.queue) {
            let queue = place(&self.plan, &activation);
            self.queues[queue.index()].push(self.world.instance.id(), activation);
        }
    }

    /// A thread looks for work. Gives the box taken, and the rule.
    fn take(&mut self, seat: usize) -> (String, u8) {
        let probes = &self.plan.seats[seat].look;
        let found = look(probes, &mut self.cursors[seat], &mut Reach(&mut self.queues)).expect("there is work");
        self.world.queue = vec![found.task];
        (self.world.queued()[0].trim_start_matches('~').to_owned(), found.way.rule())
    }

    /// Runs the taken box on that thread.
    fn run(&mut self, seat: usize, name: &str) {
        self.world.run(name);
        self.spawn(|plan, activation| plan.seats[seat].place[activation.kind as usize]);
    }

    /// Takes the tasks of a queue apart: their names, the oldest first.
    fn show(&mut self, name: &str) -> Vec<String> {
        let at = self.plan.queues.iter().position(|queue| queue.name == name);
        let at = at.unwrap_or_else(|| panic!("{name} is a queue of {}", self.plan));
        let tasks: Vec<Activation> =
            std::iter::from_fn(|| self.queues[at].take(Take::Oldest, &mut Vec::new())).collect();
        self.world.queue = tasks;
        let names = self.world.queued();
        for task in std::mem::take(&mut self.world.queue) {
            self.queues[at].push(self.world.instance.id(), task);
        }
        names
    }
}

fn numbers() -> Schema {
    Schema::new([("n", Type::U64)])
}

/// Sends one envelope on each output and asks to run again, twice; then the pills.
fn producer(name: &'static str) -> BoxModel {
    BoxModel::new(name, || {
        let mut turns = 0;
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            turns += 1;
            if turns <= 2 {
                (0..turn.outputs()).for_each(|output| turn.send(output, Envelope::new([Column::from(vec![1u64])])));
                turn.run_again();
            } else {
                turn.send_pills();
            }
            Ok(())
        }
    })
    .output(&numbers())
}

fn figure() -> Arc<Model> {
    let mut net = ModelBuilder::new("Fig. 3");
    let left = net.source(producer("left").output(&numbers()));
    let right = net.source(producer("right"));
    for (name, from) in [("up", left.output(0)), ("down", left.output(1)), ("end", right.output(0))] {
        let reader = net.add(vicus_flow::library::sink(name, &numbers(), |_| Ok(())));
        net.connect(from, reader.input(0));
        net.end(reader.output(0));
    }
    net.build().unwrap()
}

#[test]
fn the_six_steps_under_the_reports_own_scheduler() {
    let mut threads = Threads::new("bobox:several=1", &figure());
    // (a) The initialization box is queued.
    assert_eq!(threads.show("stealing of seat0"), ["~initialization"]);
    // (b), (c) It is invoked and sends the pill; its receivers are queued with its thread.
    assert_eq!(threads.take(0), ("initialization".into(), 2));
    threads.run(0, "initialization");
    assert_eq!(threads.show("stealing of seat0"), ["~left", "~right"]);
    // (d) A second thread has nothing of its own and takes one, from the tail.
    assert_eq!(threads.take(1), ("right".into(), 3));
    let right = std::mem::take(&mut threads.world.queue);
    assert_eq!(threads.take(0), ("left".into(), 2));
    // (e) Both run. `left` sends on two outputs; the activated boxes are queued with the activating threads: receivers
    // of rows as immediate tasks, and producers with more to send in queues open to thieves.
    threads.run(0, "left");
    threads.world.queue = right;
    threads.run(1, "right");
    assert_eq!(threads.show("immediate of seat0"), ["up", "down"]);
    assert_eq!(threads.show("stealing of seat0"), ["~left"]);
    assert_eq!(threads.show("immediate of seat1"), ["end"]);
    assert_eq!(threads.show("stealing of seat1"), ["~right"]);
    // (f) A third thread comes for work: its first victim is the fourth, without any, then the first.
    assert_eq!(threads.take(2), ("left".into(), 3));
    threads.run(2, "left");
    assert_eq!(threads.show("stealing of seat0"), [""; 0]);
    assert_eq!(threads.show("immediate of seat0"), ["up", "down"], "queued once, though more has come");
    assert_eq!(threads.show("stealing of seat2"), ["~left"], "from now on it is the third thread's");
    // The first goes on with its last queued task.
    assert_eq!(threads.take(0), ("down".into(), 1));
}

#[test]
fn the_six_steps_under_las() {
    let mut threads = Threads::new("las", &figure());
    assert_eq!(threads.show("deferred of pool0"), ["~initialization"]);
    assert_eq!(threads.take(0), ("initialization".into(), 3));
    threads.run(0, "initialization");
    assert_eq!(threads.show("deferred of pool0"), ["~left", "~right"], "the group shares it");
    assert_eq!(threads.take(1), ("right".into(), 3));
    let right = std::mem::take(&mut threads.world.queue);
    assert_eq!(threads.take(0), ("left".into(), 3));
    threads.run(0, "left");
    threads.world.queue = right;
    threads.run(1, "right");
    assert_eq!(threads.show("immediate of seat0"), ["up", "down"]);
    assert_eq!(threads.show("immediate of seat1"), ["end"]);
    assert_eq!(threads.show("deferred of pool0"), ["~left", "~right"]);
    // The third thread takes the group's oldest receiver of rows before a deferred task.
    assert_eq!(threads.take(2), ("up".into(), 2));
    threads.run(2, "up");
    assert_eq!(threads.show("immediate of seat0"), ["down"]);
    assert_eq!(threads.take(0), ("down".into(), 1));
}
