//! A world without computation that records a kernel's steps.
//!
//! Arrays are numbers without memory behind them, and no work is done. The rest of a kernel, its loops and submissions,
//! runs on the calling thread, in the order of a single thread.

use crate::{ArraySpec, Cost, Program, Step, TaskSpec, Work};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use vicus_kernels::{Array, Element, Kernel, KernelWorld, Leaf, Schedule, Task, TaskOrder};
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Dependences, Kind};

/// Records the program of a kernel on a given number of threads.
///
/// ```
/// use vicus_kernels::Map;
/// use vicus_sim::Recorder;
/// let program = Recorder::record(&Map { vectors: 3, bytes: 4096, ..Map::default() }, 2);
/// assert_eq!(program.tasks.len(), 4); // the kernel's own one, and one for each vector
/// assert_eq!(program.check(), Ok(()));
/// ```
pub struct Recorder {
    threads: usize,
    state: Mutex<State>,
}

struct State {
    program: Program,
    /// The tasks running inside each other, the current one last.
    current: Vec<usize>,
    /// The address of the next array.
    free: usize,
}

/// Arrays begin at multiples of this, with a gap between them, as an operating system's large allocations do.
const ALIGN: usize = 1 << 21;

impl Recorder {
    /// The program of a kernel on this number of threads.
    pub fn record(kernel: &impl Kernel, threads: usize) -> Program {
        Recorder::record_with(kernel.name(), threads, |recorder| {
            kernel.run(recorder, || recorder.push(Step::Start), || recorder.push(Step::End));
        })
    }

    /// The program of a function on this world.
    pub fn record_with(name: &str, threads: usize, body: impl FnOnce(&Recorder)) -> Program {
        assert!(threads > 0, "a program runs on at least one thread");
        let root = TaskSpec { pinned: Some(0), ..TaskSpec::default() };
        let program = Program { name: name.to_owned(), tasks: vec![root], ..Program::default() };
        let recorder = Recorder { threads, state: Mutex::new(State { program, current: vec![0], free: ALIGN }) };
        body(&recorder);
        recorder.state.into_inner().expect("nothing panics under this lock").program
    }

    /// Adds a step to the current task.
    pub fn push(&self, step: Step) {
        self.state().push(step);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Spawns a task, and records its steps.
    fn task(&self, task: TaskSpec, body: impl FnOnce()) -> usize {
        let number = {
            let mut state = self.state();
            let number = state.program.tasks.len();
            state.program.tasks.push(task);
            let name = u32::try_from(number).expect("fewer than four billion tasks");
            let task = state.task();
            match task.steps.last_mut() {
                Some(Step::Spawn(range)) if range.end == name => range.end += 1,
                _ => task.steps.push(Step::Spawn(name..name + 1)),
            }
            state.current.push(number);
            number
        };
        body();
        self.state().current.pop();
        number
    }
}

impl State {
    fn task(&mut self) -> &mut TaskSpec {
        let current = *self.current.last().expect("the first task records until the end");
        &mut self.program.tasks[current]
    }

    fn push(&mut self, step: Step) {
        self.task().steps.push(step);
    }

    fn leaf(&mut self, name: &str) -> u32 {
        let leaves = &mut self.program.leaves;
        let at = leaves.iter().position(|leaf| leaf == name).unwrap_or_else(|| {
            leaves.push(name.to_owned());
            leaves.len() - 1
        });
        at as u32
    }
}

impl KernelWorld for Recorder {
    fn threads(&self) -> usize {
        self.threads
    }

    fn array<T: Element>(&self, len: usize, distribution: &Distribution) -> Array<'_, T> {
        let mut state = self.state();
        let bytes = len.checked_mul(size_of::<T>()).expect("an array fits into the address space");
        let range: Range<usize> = state.free..state.free.checked_add(bytes).expect("arrays fit into the address space");
        state.free = (range.end + 1).next_multiple_of(ALIGN);
        state.program.arrays.push(ArraySpec { base: range.start, bytes, distribution: distribution.clone() });
        Array::new(std::ptr::without_provenance_mut(range.start), len)
    }

    fn work(&self, leaf: Leaf, accesses: &[Access], _: impl FnOnce()) {
        let mut state = self.state();
        let name = state.leaf(leaf.name);
        state.push(Step::Work(Work { leaf: name, cost: Cost::Flops(leaf.flops), accesses: accesses.to_vec() }));
    }

    fn join<A: Send, B: Send>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        self.push(Step::Open);
        let mut second = None;
        let task = self.task(TaskSpec { kind: Kind::Immediate, ..TaskSpec::default() }, || second = Some(b()));
        let first = a();
        self.push(Step::TakeBack(task as u32));
        self.push(Step::Wait);
        (first, second.expect("a task runs when it is recorded"))
    }

    fn tasks<F: FnOnce() + Send>(&self, order: TaskOrder, tasks: impl Iterator<Item = (Task, F)>) {
        self.push(Step::Open);
        let mut dependences = Dependences::new();
        for (Task { kind, accesses, .. }, body) in tasks {
            let mut after = Vec::new();
            let number = self.state().program.tasks.len();
            if order == TaskOrder::ByData {
                dependences.add(number, &accesses, &mut after);
            }
            let after = after.into_iter().map(|earlier| earlier as u32).collect();
            self.task(TaskSpec { kind, accesses, after, ..TaskSpec::default() }, body);
        }
        self.push(Step::Wait);
    }

    fn each(&self, iterations: usize, schedule: Schedule, body: impl Fn(usize) + Sync) {
        self.push(Step::Open);
        for thread in 0..self.threads {
            let pinned = TaskSpec { pinned: Some(thread), ..TaskSpec::default() };
            self.task(pinned, || schedule.of_thread(thread, self.threads, iterations).for_each(&body));
        }
        self.push(Step::Wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_schedule::Mode;

    fn fib(world: &Recorder, n: u32) -> u64 {
        if n < 2 {
            return u64::from(n);
        }
        let (a, b) = world.join(|| fib(world, n - 1), || fib(world, n - 2));
        a + b
    }

    #[test]
    fn a_join_spawns_its_second_branch_and_runs_the_first() {
        let program = Recorder::record_with("fib", 2, |world| assert_eq!(fib(world, 3), 2));
        let spawns = |from| [Step::Open, Step::Spawn(from..from + 1)];
        // fib(3): fib(1) is task 1; fib(2) is inline, and its fib(0) is task 2.
        let [a, b] = [spawns(1), spawns(2)];
        let ends = [Step::TakeBack(2), Step::Wait, Step::TakeBack(1), Step::Wait];
        let expected: Vec<Step> = a.into_iter().chain(b).chain(ends).collect();
        assert_eq!(program.tasks[0].steps, expected);
        assert_eq!(program.tasks.len(), 3);
        assert!(program.tasks[1..].iter().all(|task| task.kind == Kind::Immediate && task.steps.is_empty()));
    }

    #[test]
    fn tasks_by_data_know_whom_they_wait_for() {
        let cell = |mode| Task::new([Access::new(ALIGN, 8, mode)]);
        let program = Recorder::record_with("order", 1, |world| {
            world.array::<f64>(1, &Distribution::Standard);
            let tasks = [Mode::Write, Mode::Read, Mode::Read, Mode::Write].map(|mode| (cell(mode), || ()));
            world.tasks(TaskOrder::ByData, tasks.into_iter());
        });
        let after: Vec<&[u32]> = program.tasks[1..].iter().map(|task| &task.after[..]).collect();
        assert_eq!(after, [&[][..], &[1], &[1], &[2, 3]]);
        assert_eq!(program.tasks[0].steps, [Step::Open, Step::Spawn(1..5), Step::Wait]);
    }

    #[test]
    fn a_loop_is_one_pinned_task_for_each_thread() {
        let program = Recorder::record_with("loop", 3, |world| {
            let array = world.array::<f64>(8, &Distribution::Fine);
            world.each(8, Schedule::Static, |at| {
                let leaf = Leaf { name: "set", flops: 1 };
                world.work(leaf, &[array.writes(at..at + 1)], || unreachable!("a recorder doesn't work"));
            });
        });
        let pinned: Vec<_> = program.tasks[1..].iter().map(|task| (task.pinned, task.steps.len())).collect();
        assert_eq!(pinned, [(Some(0), 3), (Some(1), 3), (Some(2), 2)]);
        assert_eq!(program.check(), Ok(()));
        assert_eq!(program.arrays[0].range().len(), 64);
    }
}
