//! Lightweight threads in virtual time: where one goes on after its wait, with times that can be worked out on paper.

use super::by_hand::free;
use vicus_schedule::{ALL, Idle, Setting};
use vicus_sim::{Cost, Machine, OwnStack, Program, SimError, SimOptions, SimOutcome, Step, TaskSpec, Work, simulate};
use vicus_topology::Topology;

fn work(us: u32) -> Step {
    Step::Work(Work { leaf: 0, cost: Cost::Nanos(f64::from(us) * 1000.0), accesses: Vec::new() })
}

fn task(own_stack: OwnStack, seat: usize, steps: Vec<Step>) -> TaskSpec {
    TaskSpec { own_stack, pinned: Some(seat), steps, ..TaskSpec::default() }
}

/// A first task on seat 0 spawns all others.
fn program(others: Vec<TaskSpec>) -> Program {
    let all = 1..others.len() as u32 + 1;
    let root = task(OwnStack::None, 0, vec![Step::Spawn(all)]);
    let tasks = std::iter::once(root).chain(others).collect();
    Program { name: "threads".to_owned(), leaves: vec!["work".to_owned()], tasks, ..Program::default() }
}

/// A run on two seats of one node.
fn run(strategy: &str, program: &Program) -> Result<SimOutcome, SimError> {
    let machine = Machine::from_topology(Topology::parse("node:1 core:2").unwrap());
    let plan = machine.plan(&strategy.parse::<Setting>().unwrap(), 2);
    let options = SimOptions { parameters: free(), trace: Some(1 << 12), ..SimOptions::default() };
    let outcome = simulate(&machine, &plan, program, &options)?;
    let broken = outcome.trace.as_ref().expect("it was asked for").check();
    assert!(broken.is_empty(), "{strategy}: {broken:?}");
    Ok(outcome)
}

/// The strategies whose seats look around and sleep. Others pause meanwhile, for times of their own.
fn strategies() -> Vec<&'static str> {
    let machine = Machine::from_topology(Topology::parse("node:1 core:2").unwrap());
    let idle = |name: &str| machine.plan(&name.parse::<Setting>().unwrap(), 2).seats[0].idle;
    let all = ALL.map(|strategy| strategy.name()).into_iter();
    let found: Vec<&str> = all.filter(|name| matches!(idle(name), Idle::Sleep { .. })).collect();
    assert!(found.len() > 3, "{found:?}");
    found
}

/// The seat and the end, in microseconds, of a thread that waits on seat 1 for a word, and then works for 10. A waker
/// on seat 0 fills the word at 100, and works for 5 more; `busy`: seat 1 works at something else until 1001.
fn waits(strategy: &str, thread: OwnStack, waker: OwnStack, busy: bool) -> (u32, u32) {
    let mut others = vec![
        task(thread, 1, vec![work(1), Step::Take(0), work(10)]),
        task(waker, 0, vec![work(100), Step::Fill(0), work(5)]),
    ];
    others.extend(busy.then(|| task(OwnStack::None, 1, vec![work(1000)])));
    let outcome = run(strategy, &program(others)).unwrap();
    (outcome.tasks[1].seat, (outcome.tasks[1].end_ns / 1000.0) as u32)
}

#[test]
fn a_movable_thread_follows_the_thread_that_ends_its_wait_if_its_seat_is_busy() {
    for strategy in strategies() {
        let of = |thread, waker, busy| waits(strategy, thread, waker, busy);
        // The waker, and then the thread, on seat 0.
        assert_eq!(of(OwnStack::Movable, OwnStack::Bound, true), (0, 115), "{strategy}");
        assert_eq!(of(OwnStack::Bound, OwnStack::Bound, true), (1, 1011), "{strategy}: it is bound to seat 1");
        assert_eq!(
            of(OwnStack::Movable, OwnStack::None, true),
            (1, 1011),
            "{strategy}: a task lets none have its turn"
        );
        assert_eq!(of(OwnStack::Movable, OwnStack::Bound, false), (1, 110), "{strategy}: its seat is idle");
    }
}

#[test]
fn a_seat_with_many_ready_threads_gives_one_to_an_idle_seat() {
    for strategy in strategies() {
        let of = |stack: OwnStack| {
            let mut others = vec![task(stack, 0, vec![Step::Take(0), work(100)]); 8];
            others.push(task(stack, 0, vec![Step::Fill(0); 8]));
            let outcome = run(strategy, &program(others)).unwrap();
            let on_second = outcome.tasks[1..9].iter().filter(|task| task.seat == 1).count();
            (on_second, (outcome.wall_ns / 1000.0) as u32)
        };
        assert_eq!(of(OwnStack::Bound), (0, 800), "{strategy}");
        // The fifth one: four are ready, and the other seat is idle. It is busy after that.
        assert_eq!(of(OwnStack::Movable), (1, 700), "{strategy}");
    }
}

/// Two threads hand a word back and forth: each goes on a thousand times, once for each word filled for it.
#[test]
fn words_are_taken_once_for_each_time_they_are_filled() {
    let hands = |first: Vec<Step>, of: [u32; 2]| {
        let turn = [Step::Fill(of[0]), Step::Take(of[1]), work(1)];
        [first, turn.iter().cycle().take(3000).cloned().collect()].concat()
    };
    let others = vec![
        task(OwnStack::Movable, 0, hands(Vec::new(), [0, 1])),
        task(OwnStack::Movable, 1, hands(vec![Step::Take(0)], [1, 0])),
        // The second one's last turn.
        task(OwnStack::Bound, 0, vec![work(5000), Step::Fill(0)]),
    ];
    for strategy in ALL.map(|strategy| strategy.name()) {
        let outcome = run(strategy, &program(others.clone())).unwrap();
        assert_eq!(outcome.counts.tasks, 4, "{strategy}");
        assert!(outcome.tasks[1..3].iter().all(|task| (task.busy_ns - 1e6).abs() < 1.0), "{strategy}");
    }
}

#[test]
fn a_thread_that_waits_for_ever_is_named() {
    let mut program = program(vec![task(OwnStack::Movable, 1, vec![work(1), Step::Take(3)])]);
    program.tasks[0].steps.insert(0, work(1));
    assert!(matches!(run("las", &program), Err(SimError::Stuck { left: 1, task: 1 })));
}

#[test]
fn threads_wait_for_words_and_tasks_for_tasks() {
    let wrong = |own_stack, step| {
        let error = program(vec![task(own_stack, 0, vec![step])]).check().unwrap_err();
        error.to_string()
    };
    assert_eq!(wrong(OwnStack::None, Step::Take(2)), "task 1 waits for word 2, and is no lightweight thread");
    for step in [Step::Open, Step::Wait, Step::TakeBack(0)] {
        assert_eq!(wrong(OwnStack::Bound, step), "task 1, a lightweight thread, waits for tasks");
    }
}
