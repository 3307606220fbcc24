//! Random graphs of tasks, with data laid over the nodes.
//!
//! A request has a row of blocks of memory. In each of several rounds, a task for each block reads two other blocks and
//! writes its own; it waits for the writers of its inputs, and for the readers of its output. Tasks' computing times
//! differ by up to sixteen times.

use crate::chance::Chance;
use crate::{ArraySpec, Cost, Program, Step, TaskSpec, Work};
use std::ops::Range;
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Dependences, Mode, RequestId};

/// The shape of a graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// How many requests of equal size there are.
    pub(super) requests: usize,
    /// How many short ones come behind these.
    pub(super) short: usize,
    /// Percentage of reads of a block beside the task's own.
    pub(super) near: u64,
    /// Average number of tasks for each thread, in all requests except short ones.
    pub(super) tasks_per_thread: usize,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { requests: 1, short: 0, near: 0, tasks_per_thread: 24 }
    }
}

const BLOCK: usize = 128 << 10;
/// How many times a block is written.
const ROUNDS: usize = 6;
/// How many blocks a short request has.
const SHORT_BLOCKS: usize = 2;
/// Arrays begin at multiples of this.
const ALIGN: usize = 1 << 21;
/// Computing time of the shortest task; the longest takes sixteen times as long.
const LEAST_NS: u64 = 5_000;

impl Shape {
    /// The program for this number of threads. Graphs of the same shape and size are the same.
    pub(super) fn program(&self, name: &str, threads: usize, share: f64) -> Program {
        let mut chance = Chance::new(self.near ^ (self.requests as u64) << 8);
        let tasks = (self.tasks_per_thread * threads) as f64 * share;
        // Short requests are shorter than the others also with few tasks.
        let least = if self.short > 0 { 4 * SHORT_BLOCKS } else { 2 };
        let blocks = ((tasks / (ROUNDS * self.requests) as f64).round() as usize).max(least);
        let mut program = Program {
            name: name.to_owned(),
            leaves: vec!["block".to_owned()],
            tasks: vec![TaskSpec { pinned: Some(0), ..TaskSpec::default() }],
            ..Program::default()
        };
        let sizes = std::iter::repeat_n(blocks, self.requests).chain(std::iter::repeat_n(SHORT_BLOCKS, self.short));
        let mut steps = vec![Step::Start];
        let mut numbers = Dependences::new();
        for (index, blocks) in sizes.enumerate() {
            let first = program.tasks.len() as u32;
            steps.push(Step::Spawn(first..first + 1));
            self.request(&mut program, RequestId::new(1 + index as u64), blocks, &mut chance, &mut numbers);
        }
        steps.extend([Step::Wait, Step::End]);
        program.tasks[0].steps = steps;
        program
    }

    /// Adds a request: its first task spawns all others and waits for them.
    fn request(
        &self,
        program: &mut Program,
        request: RequestId,
        blocks: usize,
        chance: &mut Chance,
        dependences: &mut Dependences,
    ) {
        let base = program.arrays.last().map_or(ALIGN, |last| (last.range().end + 1).next_multiple_of(ALIGN));
        program.arrays.push(ArraySpec { base, bytes: blocks * BLOCK, distribution: Distribution::Blocked });
        let first = program.tasks.len();
        let all: Range<u32> = first as u32 + 1..(first + 1 + blocks * ROUNDS) as u32;
        let steps = vec![Step::Spawn(all), Step::Wait];
        program.tasks.push(TaskSpec { request, outside: true, steps, ..TaskSpec::default() });
        for own in (0..ROUNDS).flat_map(|_| 0..blocks) {
            let block = |at: usize, mode| Access::new(base + at * BLOCK, BLOCK, mode);
            let mut accesses = vec![block(own, Mode::ReadWrite)];
            for _ in 0..2 {
                let other = if chance.below(100) < self.near {
                    (own + blocks + chance.below(3) as usize - 1) % blocks
                } else {
                    chance.below(blocks as u64) as usize
                };
                if accesses.iter().all(|access| access.start != base + other * BLOCK) {
                    accesses.push(block(other, Mode::Read));
                }
            }
            let number = program.tasks.len();
            let mut after = Vec::new();
            dependences.add(number, &accesses, &mut after);
            let ns = (LEAST_NS << chance.below(4)) + chance.below(LEAST_NS << 3);
            let work = Work { leaf: 0, cost: Cost::Nanos(ns as f64), accesses: accesses.clone() };
            program.tasks.push(TaskSpec {
                request,
                accesses,
                after: after.into_iter().map(|task| task as u32).collect(),
                steps: vec![Step::Work(work)],
                ..TaskSpec::default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_has_its_blocks_written_in_every_round_in_order() {
        let shape = Shape { requests: 2, short: 1, near: 50, tasks_per_thread: 24 };
        let program = shape.program("graph", 4, 1.0);
        program.check().unwrap();
        // 96 tasks in two requests of 8 blocks; and 12 in the short one; and a first task of each.
        assert_eq!(program.tasks.len(), 1 + 3 + 96 + 12);
        let of = |request| program.tasks.iter().filter(|task| task.request == RequestId::new(request)).count();
        assert_eq!([1, 2, 3].map(of), [49, 49, 13]);
        // A block's writers follow each other.
        let block = program.tasks[2].accesses[0].start;
        let writers: Vec<usize> = (0..program.tasks.len())
            .filter(|&at| program.tasks[at].accesses.first().is_some_and(|access| access.start == block))
            .collect();
        assert_eq!(writers.len(), ROUNDS);
        for pair in writers.windows(2) {
            assert!(reaches(&program, pair[1], pair[0]), "{pair:?}");
        }
    }

    /// Whether a task waits for another one, at once or by others.
    fn reaches(program: &Program, from: usize, to: usize) -> bool {
        from == to || program.tasks[from].after.iter().any(|&earlier| reaches(program, earlier as usize, to))
    }
}
