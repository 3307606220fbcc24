//! The input of a simulation: tasks, their steps, and their memory. Plain data.
//!
//! A program comes from a kernel by a [`Recorder`](crate::Recorder), from a trace, or is written by hand.

use std::fmt;
use std::ops::Range;
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Kind, RequestId};

/// A task graph, and the arrays touched by its tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// A name for people.
    pub name: String,
    /// The memory, in the order of addresses. Invariant: no two overlap.
    pub arrays: Vec<ArraySpec>,
    /// The arrays of threads' heaps. The first writer's thread takes a block of memory for the array; the block is
    /// returned after the last reader, and used again for the next array of the same size. No such array is read before
    /// it was written. An access of no bytes is a reference: until its task has run, the block isn't returned.
    pub heap: Range<usize>,
    /// The names of pieces of work; [`Work::leaf`] is an index.
    pub leaves: Vec<String>,
    /// The tasks; the run begins with the first one. Invariant: every other task is spawned by exactly one step.
    pub tasks: Vec<TaskSpec>,
}

/// An array.
#[derive(Clone, Debug, PartialEq)]
pub struct ArraySpec {
    /// Its first address.
    pub base: usize,
    /// Its size in bytes.
    pub bytes: usize,
    /// Its distribution over the locations.
    pub distribution: Distribution,
}

impl ArraySpec {
    /// Its addresses.
    pub fn range(&self) -> Range<usize> {
        self.base..self.base + self.bytes
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSpec {
    /// The kind of its queue.
    pub kind: Kind,
    /// Whether it is deferred so that its request spreads ([`SeatBuffers::spreads`](vicus_flow::SeatBuffers::spreads)):
    /// it is immediate after all, if there are other requests of boxes when the task is spawned.
    pub spreads: bool,
    /// The box of its request, if it is an invocation of one. The last immediate box queued by a box stays with its
    /// seat, and runs there next.
    pub of_box: Option<u32>,
    /// Its request.
    pub request: RequestId,
    /// The footprint for dealing it.
    pub accesses: Vec<Access>,
    /// The only seat that may run it, as in the static schedules of loops. Numbers beyond the last seat go round.
    pub pinned: Option<usize>,
    /// Its predecessors: they must be over before it is queued.
    pub after: Vec<u32>,
    /// Its kind when it is queued because the last of those is over, and not when it is spawned.
    pub released: Kind,
    /// Whether it comes from outside, like the first task of a request: then it is queued at the plan's next entry,
    /// whichever seat spawned it.
    pub outside: bool,
    /// Whether it is queued near its data, under strategies with such places
    /// ([`Plan::homes`](vicus_schedule::Plan::homes)).
    pub goes_home: bool,
    /// Whether it is a lightweight thread.
    pub own_stack: OwnStack,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// Whether a task has a stack of its own, as a lightweight thread: then it leaves its seat while it waits for a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnStack {
    /// A task on its seat's stack. It waits for no word.
    #[default]
    None,
    /// A thread that goes on at the seat where it has begun.
    Bound,
    /// A thread that may go on at another seat after a wait.
    Movable,
}

impl Default for TaskSpec {
    fn default() -> TaskSpec {
        TaskSpec {
            kind: Kind::Deferred,
            spreads: false,
            of_box: None,
            request: RequestId::new(0),
            accesses: Vec::new(),
            pinned: None,
            after: Vec::new(),
            // It goes on with data just written.
            released: Kind::Immediate,
            outside: false,
            goes_home: false,
            own_stack: OwnStack::None,
            steps: Vec::new(),
        }
    }
}

/// One step of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Computes, and moves bytes.
    Work(Work),
    /// Queues tasks, one after the other.
    Spawn(Range<u32>),
    /// From here on, [`Step::Wait`] is for tasks spawned after this step. Such sections nest: a branch of `join` waits
    /// for other tasks than the `join` around it does.
    Open,
    /// Waits for the tasks spawned since the innermost open section began, and closes the section; without a section,
    /// waits for all tasks spawned by this task.
    Wait,
    /// Waits until this word was filled once more than taken, and takes it. Lightweight threads alone wait for words,
    /// the first one first, and for words alone.
    Take(u32),
    /// Fills a word for one [`Step::Take`].
    Fill(u32),
    /// Like the end of a `join` in this one's spawner: if the task is still in its queue, this seat runs it now.
    TakeBack(u32),
    /// The measured part begins.
    Start,
    /// The measured part ends.
    End,
    /// Frees an array: no task may touch it any more.
    Free(usize),
}

/// A piece of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The kind of work, as an index into [`Program::leaves`].
    pub leaf: u32,
    /// Its computing time.
    pub cost: Cost,
    /// Its accesses to memory.
    pub accesses: Vec<Access>,
}

/// The computing time of a piece of work if its bytes arrive at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cost {
    /// So many operations, at the machine's speed for the leaf.
    Flops(u64),
    /// A time in nanoseconds, equal on all machines.
    Nanos(f64),
}

/// Why a program can't be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError(pub(crate) String);

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProgramError {}

fn error<T>(message: String) -> Result<T, ProgramError> {
    Err(ProgramError(message))
}

impl Program {
    /// The array of this address.
    pub fn array_at(&self, address: usize) -> Option<usize> {
        let at = self.arrays.partition_point(|array| array.base <= address).checked_sub(1)?;
        self.arrays[at].range().contains(&address).then_some(at)
    }

    /// Checks the rules of a runnable program.
    ///
    /// # Errors
    /// Arrays overlap; a task is spawned twice or never; tasks wait for each other in a circle; a task touches memory
    /// outside of all arrays, or in an array freed before, in the order of a single thread. The message names the
    /// tasks.
    pub fn check(&self) -> Result<(), ProgramError> {
        if self.tasks.is_empty() {
            return error("a program has at least one task".to_owned());
        }
        if let Some(pair) = self.arrays.windows(2).position(|pair| pair[0].base + pair[0].bytes > pair[1].base) {
            return error(format!("arrays {pair} and {} overlap, or are not in the order of addresses", pair + 1));
        }
        if self.heap.end > self.arrays.len() {
            return error(format!("arrays {:?} are of heaps: there are {}", self.heap, self.arrays.len()));
        }
        self.check_spawns()?;
        self.check_order()?;
        self.check_memory()
    }

    fn check_spawns(&self) -> Result<(), ProgramError> {
        let mut spawned = vec![false; self.tasks.len()];
        spawned[0] = true;
        for (number, task) in self.tasks.iter().enumerate() {
            for (at, step) in task.steps.iter().enumerate() {
                match step {
                    Step::Spawn(range) => {
                        for child in range.clone() {
                            match spawned.get_mut(child as usize) {
                                Some(spawned) if !*spawned => *spawned = true,
                                Some(_) => {
                                    return error(format!("task {number} spawns task {child}, which runs already"));
                                }
                                None => return error(format!("task {number} spawns task {child}: there is none")),
                            }
                        }
                    }
                    Step::TakeBack(second) => {
                        let spawns = |step: &Step| matches!(step, Step::Spawn(range) if range.contains(second));
                        if task.own_stack != OwnStack::None {
                            return error(format!("task {number}, a lightweight thread, waits for tasks"));
                        }
                        if !task.steps[..at].iter().any(spawns) {
                            return error(format!("task {number} takes back task {second}, which it has not spawned"));
                        }
                    }
                    Step::Take(word) if task.own_stack == OwnStack::None => {
                        return error(format!("task {number} waits for word {word}, and is no lightweight thread"));
                    }
                    Step::Open | Step::Wait if task.own_stack != OwnStack::None => {
                        return error(format!("task {number}, a lightweight thread, waits for tasks"));
                    }
                    Step::Work(work) if work.leaf as usize >= self.leaves.len() => {
                        return error(format!("task {number} does work of leaf {}: there is none", work.leaf));
                    }
                    Step::Free(array) if *array >= self.arrays.len() => {
                        return error(format!("task {number} frees array {array}: there is none"));
                    }
                    _ => {}
                }
            }
        }
        match spawned.iter().position(|spawned| !spawned) {
            Some(task) => error(format!("no step spawns task {task}")),
            None => Ok(()),
        }
    }

    /// Kahn's order over the dependences.
    fn check_order(&self) -> Result<(), ProgramError> {
        let mut waits: Vec<usize> = self.tasks.iter().map(|task| task.after.len()).collect();
        let mut next: Vec<Vec<u32>> = vec![Vec::new(); self.tasks.len()];
        for (number, task) in self.tasks.iter().enumerate() {
            for &earlier in &task.after {
                match next.get_mut(earlier as usize) {
                    Some(next) => next.push(number as u32),
                    None => return error(format!("task {number} waits for task {earlier}: there is none")),
                }
            }
        }
        let mut ready: Vec<u32> = (0..self.tasks.len() as u32).filter(|&task| waits[task as usize] == 0).collect();
        while let Some(task) = ready.pop() {
            for &later in &next[task as usize] {
                waits[later as usize] -= 1;
                if waits[later as usize] == 0 {
                    ready.push(later);
                }
            }
        }
        let Some(first) = waits.iter().position(|&waits| waits > 0) else { return Ok(()) };
        error(format!("tasks wait for each other in a circle: {}", self.circle(first, &waits)))
    }

    /// A circle among the waiting tasks, as text. Each of them waits for another one.
    fn circle(&self, first: usize, waits: &[usize]) -> String {
        let mut way = vec![first];
        loop {
            let last = *way.last().expect("it begins with one");
            let after = self.tasks[last].after.iter().map(|&earlier| earlier as usize);
            let earlier = after
                .clone()
                .find(|&earlier| waits[earlier] > 0)
                .expect("a task that waits in a circle waits for another that waits");
            if let Some(from) = way.iter().position(|&task| task == earlier) {
                way.push(earlier);
                let names: Vec<String> = way[from..].iter().map(|task| format!("task {task}")).collect();
                return names.join(" waits for ");
            }
            way.push(earlier);
        }
    }

    /// Carries out the steps like a single thread that runs each task at its spawn.
    fn check_memory(&self) -> Result<(), ProgramError> {
        let mut freed = vec![None; self.arrays.len()];
        let mut open: Vec<(usize, usize, Range<u32>)> = vec![(0, 0, 0..0)];
        while let Some((task, at, mut children)) = open.pop() {
            if let Some(child) = children.next() {
                open.push((task, at, children));
                open.push((child as usize, 0, 0..0));
                continue;
            }
            let Some(step) = self.tasks[task].steps.get(at) else { continue };
            let mut children = 0..0;
            match step {
                Step::Work(work) => self.check_accesses(task, &work.accesses, &freed)?,
                Step::Spawn(range) => children = range.clone(),
                Step::Free(array) => {
                    if let Some(by) = freed[*array].replace(task) {
                        return error(format!("task {task} frees array {array}, which task {by} has freed"));
                    }
                }
                _ => {}
            }
            open.push((task, at + 1, children));
        }
        Ok(())
    }

    fn check_accesses(&self, task: usize, accesses: &[Access], freed: &[Option<usize>]) -> Result<(), ProgramError> {
        for access in accesses.iter().filter(|access| access.total_bytes() > 0) {
            let bytes = (access.rows - 1)
                .checked_mul(access.stride)
                .and_then(|bytes| bytes.checked_add(access.bytes))
                .filter(|bytes| access.start.checked_add(*bytes).is_some());
            let array = self.array_at(access.start);
            match (array, bytes) {
                (Some(array), Some(bytes)) if access.start + bytes <= self.arrays[array].range().end => {
                    if let Some(by) = freed[array] {
                        return error(format!(
                            "task {task} touches {access:?} of array {array}, which task {by} has freed"
                        ));
                    }
                }
                (Some(array), _) => {
                    let end = self.arrays[array].range().end;
                    return error(format!("task {task} touches {access:?}, and array {array} ends at {end:#x}"));
                }
                (None, _) => return error(format!("task {task} touches {access:?}: no array is there")),
            }
        }
        Ok(())
    }

    /// The graph as text: a line for each task, up to `tasks` lines.
    pub fn outline(&self, tasks: usize) -> String {
        let mut text = format!("{}: {} tasks, {} arrays\n", self.name, self.tasks.len(), self.arrays.len());
        for (number, task) in self.tasks.iter().enumerate().take(tasks) {
            let pinned = task.pinned.map_or(String::new(), |seat| format!(" on seat{seat}"));
            let after = if task.after.is_empty() { String::new() } else { format!(" after {:?}", task.after) };
            text += &format!("task {number}: {:?}{pinned}{after}, {} steps\n", task.kind, task.steps.len());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_schedule::Mode;

    fn two_tasks_in_turn() -> Program {
        let array = |base| ArraySpec { base, bytes: 0x1000, distribution: Distribution::Standard };
        let work = |start| {
            let accesses = vec![Access::new(start, 0x100, Mode::Read)];
            Step::Work(Work { leaf: 0, cost: Cost::Flops(1), accesses })
        };
        let root = TaskSpec { steps: vec![Step::Spawn(1..3), Step::Wait, work(0x1000)], ..TaskSpec::default() };
        let first = TaskSpec { steps: vec![work(0x1f00)], ..TaskSpec::default() };
        let second = TaskSpec { after: vec![1], ..first.clone() };
        Program {
            name: "two".to_owned(),
            arrays: vec![array(0x1000), array(0x3000)],
            heap: 0..0,
            leaves: vec!["leaf".to_owned()],
            tasks: vec![root, first, second],
        }
    }

    fn mistake(change: impl FnOnce(&mut Program)) -> String {
        let mut program = two_tasks_in_turn();
        assert_eq!(program.check(), Ok(()));
        change(&mut program);
        program.check().unwrap_err().to_string()
    }

    #[test]
    fn a_circle_names_its_tasks() {
        let message = mistake(|program| program.tasks[1].after = vec![2]);
        assert_eq!(message, "tasks wait for each other in a circle: task 1 waits for task 2 waits for task 1");
        assert!(mistake(|program| program.tasks[1].after = vec![1]).ends_with("task 1 waits for task 1"));
    }

    #[test]
    fn arrays_of_heaps_are_among_the_arrays() {
        assert_eq!(mistake(|program| program.heap = 1..3), "arrays 1..3 are of heaps: there are 2");
    }

    #[test]
    fn every_task_is_spawned_once() {
        assert_eq!(mistake(|program| program.tasks[0].steps.truncate(0)), "no step spawns task 1");
        let twice = mistake(|program| program.tasks[1].steps.push(Step::Spawn(2..3)));
        assert_eq!(twice, "task 1 spawns task 2, which runs already");
        assert!(mistake(|program| program.tasks[1].steps.push(Step::Spawn(3..4))).ends_with("there is none"));
    }

    #[test]
    fn memory_is_there_when_it_is_touched() {
        let touch = |program: &mut Program, start: usize| {
            let Step::Work(work) = &mut program.tasks[2].steps[0] else { panic!("the task works") };
            work.accesses[0].start = start;
        };
        assert_eq!(mistake(|program| touch(program, 0x2000)), "task 2 touches Read 0x2000+256: no array is there");
        assert_eq!(
            mistake(|program| touch(program, 0x1f01)),
            "task 2 touches Read 0x1f01+256, and array 0 ends at 0x2000"
        );
        let freed = mistake(|program| program.tasks[1].steps.push(Step::Free(0)));
        assert_eq!(freed, "task 2 touches Read 0x1f00+256 of array 0, which task 1 has freed");
        // The first array's last task is over, so that it may be freed.
        let mut program = two_tasks_in_turn();
        program.tasks[0].steps.push(Step::Free(0));
        assert_eq!(program.check(), Ok(()));
    }
}
