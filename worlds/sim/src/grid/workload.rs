//! The work of a grid: kernels, graphs, and recorded runs, each as large as the machine asks for.

use super::structures::Structure;
use super::{graphs, short};
use crate::{Program, Recorder};
use std::collections::BTreeMap;
use std::sync::Arc;
use vicus_kernels::{Kernel, Size, by_name};
use vicus_schedule::RequestId;

/// The work of a grid's column.
#[derive(Clone)]
pub struct Workload {
    /// A name for options.
    pub name: String,
    /// A description of one line.
    pub what: String,
    source: Source,
    /// Whether the time is the program's, or its short requests'.
    measure: Measure,
}

#[derive(Clone)]
enum Source {
    /// A kernel, and its number of tasks for each of 48 threads, as a multiple of the paper's input.
    Kernel(&'static str, f64),
    /// A random graph.
    Graph(graphs::Shape),
    /// A data structure shared by threads.
    Structure(Structure),
    /// Recorded runs, by their planned number of threads. Invariant: not empty.
    Recorded(BTreeMap<usize, Arc<Program>>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    All,
    Short,
}

/// The threads of the papers' machine for these inputs (Muddukrishna et al., Fig. 7).
const THREADS: f64 = 48.0;

/// The kernels, and how many times as many tasks as the paper's inputs they have here: simulated time is short, but for
/// each task the simulation takes some microseconds.
const KERNELS: [(&str, f64, &str); 15] = [
    ("map", 1.0, "each task scales a vector of its own"),
    ("reduction", 0.25, "a merge sort: a tree of tasks"),
    ("vecmul", 1.0, "each task multiplies two vectors"),
    ("matmul", 0.25, "products of blocks of matrices"),
    ("jacobi2d", 0.03, "a stencil on blocks of rows"),
    ("jacobi3d", 0.01, "a stencil on blocks of a volume"),
    ("sparselu", 0.1, "an LU decomposition of sparse blocks"),
    ("fib", 0.005, "a tree of tiny tasks"),
    ("nqueens", 1.0, "a search tree"),
    ("uts", 0.02, "an unbalanced tree"),
    ("alignment", 1.0, "the scores of pairs of proteins"),
    ("fft", 0.03, "a Fourier transform, whose passes are cut into tasks"),
    ("health", 0.1, "a tree of villages, step by step"),
    ("sort", 0.02, "a merge sort, whose merges are cut into tasks"),
    ("strassen", 0.02, "products of quadrants of matrices, which tasks allocate"),
];

/// Wheeler et al.'s structures.
const STRUCTURES: [(&str, Structure, &str); 3] = [
    ("array", Structure::Array, "each task reads a segment of an array, whose segments go round the nodes"),
    ("pool", Structure::Pool, "each task allocates small items, writes and frees them"),
    ("queue", Structure::Queue, "half as many tasks as threads put elements, each of which another task takes"),
];

impl Workload {
    /// All workloads without recordings.
    pub fn all() -> Vec<Workload> {
        let kernel = |(name, share, what): (&'static str, f64, &str)| Workload {
            name: name.to_owned(),
            what: what.to_owned(),
            source: Source::Kernel(name, share),
            measure: Measure::All,
        };
        let graph = |name: &str, what: &str, shape, measure| Workload {
            name: name.to_owned(),
            what: what.to_owned(),
            source: Source::Graph(shape),
            measure,
        };
        let structure = |(name, structure, what): (&str, Structure, &str)| Workload {
            name: name.to_owned(),
            what: what.to_owned(),
            source: Source::Structure(structure),
            measure: Measure::All,
        };
        let mut all: Vec<Workload> = KERNELS.map(kernel).to_vec();
        all.extend(STRUCTURES.map(structure));
        let one = graphs::Shape { requests: 1, short: 0, ..graphs::Shape::default() };
        let local = graphs::Shape { near: 90, ..one };
        all.extend([
            graph("graph", "a random graph of tasks, which read any blocks", one, Measure::All),
            graph(
                "near graph",
                "a random graph of tasks, which mostly read blocks beside their own",
                local,
                Measure::All,
            ),
            graph(
                "16 graphs",
                "16 near graphs at once, each of a request",
                graphs::Shape { requests: 16, ..local },
                Measure::All,
            ),
            graph(
                "short beside long",
                "how long 8 graphs of few tasks take beside a long one",
                graphs::Shape { short: 8, ..local },
                Measure::Short,
            ),
        ]);
        all
    }

    /// A recorded run as a program, by its planned number of threads. Panics if there is none.
    pub fn recorded(name: &str, what: &str, programs: BTreeMap<usize, Arc<Program>>) -> Workload {
        assert!(!programs.is_empty(), "a workload has a program");
        Workload {
            name: name.to_owned(),
            what: what.to_owned(),
            source: Source::Recorded(programs),
            measure: Measure::All,
        }
    }

    /// This work, with the time of its requests that do less than the average.
    #[must_use]
    pub fn of_short_requests(self) -> Workload {
        Workload { measure: Measure::Short, ..self }
    }

    /// The program for a machine with this number of threads.
    pub(super) fn program(&self, threads: usize, share: f64) -> Arc<Program> {
        match &self.source {
            Source::Kernel(name, times) => {
                let times = times * share * threads as f64 / THREADS;
                let kernel = by_name(name, Size::Times(times)).expect("the kernel exists");
                debug_assert_eq!(kernel.name(), *name);
                Arc::new(Recorder::record(&kernel, threads))
            }
            Source::Graph(shape) => Arc::new(shape.program(&self.name, threads, share)),
            Source::Structure(structure) => Arc::new(structure.program(&self.name, threads, share)),
            Source::Recorded(programs) => {
                // Planned for as many threads as there are, or for the next smaller number, or else for the least.
                let fits = programs.range(..=threads).next_back().or_else(|| programs.first_key_value());
                Arc::clone(fits.expect("a workload has a program").1)
            }
        }
    }

    /// The requests of the measured time; `None` for all.
    pub(super) fn measured(&self, program: &Program) -> Option<Vec<RequestId>> {
        (self.measure == Measure::Short).then(|| short(program))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own_and_can_be_run() {
        let all = Workload::all();
        let mut names: Vec<&str> = all.iter().map(|workload| workload.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for workload in &all {
            let program = workload.program(3, 0.5);
            assert_eq!(program.check(), Ok(()), "{}", workload.name);
            assert!(program.tasks.len() > 1, "{}: {}", workload.name, program.tasks.len());
            assert_eq!(program, workload.program(3, 0.5), "the same each time");
        }
    }

    #[test]
    fn a_recording_is_the_one_for_so_many_threads_or_less() {
        let named = |name: &str| Arc::new(Program { name: name.to_owned(), ..Program::default() });
        let workload = Workload::recorded("q", "", [(4, named("four")), (16, named("sixteen"))].into());
        let name = |threads| workload.program(threads, 1.0).name.clone();
        assert_eq!([1, 4, 15, 16, 64].map(name), ["four", "four", "four", "sixteen", "sixteen"]);
    }
}
