//! Uses of Qthreads' array, pool and queue by threads, as tasks: Wheeler, Thain, Murphy, "Portable Performance from
//! Workstation to Supercomputer: Distributing Data Structures with Qthreads", §5.
//!
//! The structures themselves are simulated by operations on cache lines (`papers/shared.rs`), out of reach of
//! strategies. Here a strategy assigns the work to threads, and so decides the distance of its data.

use crate::{ArraySpec, Cost, Program, Step, TaskSpec, Work};
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Kind, Mode};

/// A structure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Structure {
    /// Segments of 16 pages, round the nodes. A task for each reads it at its place, in several passes.
    Array,
    /// Tasks that allocate, write and free items of 44 bytes.
    Pool,
    /// Tasks that put elements of 1024 bytes; another task takes each.
    Queue,
}

/// The default of §5.2: 16 pages.
const SEGMENT: usize = 16 * 4096;
const SEGMENTS_PER_THREAD: f64 = 8.0;
const PASSES: usize = 4;

/// Allocating tasks for each thread, and the bytes each holds at once: 16 items of 44 bytes, in their lines.
const POOLED_PER_THREAD: f64 = 32.0;
const HELD: usize = 16 * 64;

/// How many times a task allocates and frees [`HELD`] bytes.
const ROUNDS: usize = 2;

/// The large elements of Fig. 9, and how many tasks put as many for every thread.
const ELEMENT: usize = 1024;
const ELEMENTS: usize = 128;

/// Arrays begin at multiples of this.
const ALIGN: usize = 1 << 16;

impl Structure {
    /// The program for this number of threads.
    pub(super) fn program(self, name: &str, threads: usize, share: f64) -> Program {
        let mut program = Program {
            name: name.to_owned(),
            leaves: vec![name.to_owned()],
            tasks: vec![TaskSpec { pinned: Some(0), ..TaskSpec::default() }],
            ..Program::default()
        };
        let for_each_thread = |count: f64| ((count * share * threads as f64).round() as usize).max(1);
        let mut steps = vec![Step::Start];
        match self {
            Structure::Array => {
                let segments: Vec<usize> = (0..for_each_thread(SEGMENTS_PER_THREAD))
                    .map(|_| add_array(&mut program, SEGMENT, Distribution::Coarse))
                    .collect();
                for _ in 0..PASSES {
                    let first = program.tasks.len() as u32;
                    program.tasks.extend(segments.iter().map(|&start| {
                        let read = Access::new(start, SEGMENT, Mode::Read);
                        // "Ensuring that the function executes near the range it processes": under strategies with
                        // places.
                        TaskSpec {
                            accesses: vec![read],
                            goes_home: true,
                            steps: vec![work(read)],
                            ..TaskSpec::default()
                        }
                    }));
                    steps.extend([Step::Spawn(first..program.tasks.len() as u32), Step::Wait]);
                }
            }
            Structure::Pool => {
                for _ in 0..for_each_thread(POOLED_PER_THREAD) {
                    let mut round = || {
                        let start = add_array(&mut program, HELD, Distribution::Standard);
                        [Mode::Write, Mode::Read].map(|mode| work(Access::new(start, HELD, mode)))
                    };
                    let steps = (0..ROUNDS).flat_map(|_| round()).collect();
                    program.tasks.push(TaskSpec { steps, ..TaskSpec::default() });
                }
                program.heap = 0..program.arrays.len();
                steps.extend([Step::Spawn(1..program.tasks.len() as u32), Step::Wait]);
            }
            Structure::Queue => {
                let putting = for_each_thread(0.5) as u32;
                steps.extend([Step::Spawn(1..1 + putting), Step::Wait]);
                let mut taking = Vec::new();
                for _ in 0..putting {
                    let start = add_array(&mut program, ELEMENTS * ELEMENT, Distribution::Standard);
                    let mut puts = Vec::new();
                    for at in 0..ELEMENTS {
                        let element = |mode| Access::new(start + at * ELEMENT, ELEMENT, mode);
                        let number = 1 + putting + taking.len() as u32;
                        puts.extend([work(element(Mode::Write)), Step::Spawn(number..number + 1)]);
                        let read = element(Mode::Read);
                        let steps = vec![work(read)];
                        taking.push(TaskSpec {
                            kind: Kind::Immediate,
                            accesses: vec![read],
                            steps,
                            ..TaskSpec::default()
                        });
                    }
                    puts.push(Step::Wait);
                    program.tasks.push(TaskSpec { steps: puts, ..TaskSpec::default() });
                }
                program.tasks.append(&mut taking);
            }
        }
        steps.push(Step::End);
        program.tasks[0].steps = steps;
        program
    }
}

/// Adds an array and returns its address.
fn add_array(program: &mut Program, bytes: usize, distribution: Distribution) -> usize {
    let base = program.arrays.last().map_or(ALIGN, |last| (last.range().end + 1).next_multiple_of(ALIGN));
    program.arrays.push(ArraySpec { base, bytes, distribution });
    base
}

/// Does nothing but move bytes.
fn work(access: Access) -> Step {
    Step::Work(Work { leaf: 0, cost: Cost::Nanos(0.0), accesses: vec![access] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, SimOptions, simulate};

    fn ran(structure: Structure, strategy: &str) -> crate::SimOutcome {
        let machine = Machine::by_name("nehalem-ep").unwrap();
        let program = structure.program("structure", 8, 1.0);
        let plan = machine.plan(&strategy.parse().unwrap(), 8);
        simulate(&machine, &plan, &program, &SimOptions::default()).unwrap()
    }

    #[test]
    fn each_segment_is_read_in_each_pass() {
        let outcome = ran(Structure::Array, "steal");
        assert_eq!(outcome.counts.tasks, 4 * 64, "eight segments to a thread, four passes");
        let counts = outcome.counts;
        let moved = counts.near_bytes + counts.far_bytes + counts.cached_bytes;
        assert!(moved >= (4 * 64 * SEGMENT) as f64, "{moved}");
    }

    #[test]
    fn strategies_that_know_places_read_segments_where_they_lie() {
        let far = |strategy| ran(Structure::Array, strategy).far_share();
        assert!(far("las") < far("central") / 2.0, "{} of {}", far("las"), far("central"));
    }

    #[test]
    fn what_a_task_frees_is_used_again() {
        // 256 tasks have two blocks of 1 KB each, and hold only one at once, so nearly all bytes are in caches.
        let counts = ran(Structure::Pool, "steal").counts;
        assert_eq!(counts.tasks, 256);
        assert!(counts.near_bytes + counts.far_bytes < (64 * HELD) as f64, "{counts:?}");
    }

    #[test]
    fn every_element_that_is_put_is_taken() {
        let counts = ran(Structure::Queue, "las").counts;
        assert_eq!(counts.tasks, 4 + 4 * ELEMENTS as u64, "four of eight threads put");
    }
}
