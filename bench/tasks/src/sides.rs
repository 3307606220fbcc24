//! The three runtimes, with threads pinned alike, and the programs that they run.

use crate::measure::{Side, allow, alternate, pin};
use crate::trees::{Node, vicus, with_rayon};
use std::time::{Duration, Instant};

#[cfg(tbb)]
mod tbb {
    use super::Node;

    #[repr(C)]
    pub(super) struct Runtime {
        _opaque: [u8; 0],
    }

    #[expect(unsafe_code, reason = "C++ functions")]
    unsafe extern "C" {
        pub(super) fn tbb_start(threads: i32, cpus: *const usize, count: usize) -> *mut Runtime;
        pub(super) fn tbb_end(runtime: *mut Runtime);
        pub(super) fn tbb_fib(runtime: *mut Runtime, n: u32) -> u64;
        pub(super) fn tbb_queens(runtime: *mut Runtime, n: u32) -> u64;
        pub(super) fn tbb_tree(runtime: *mut Runtime, root: *const Node) -> u64;
        pub(super) fn tbb_steps(runtime: *mut Runtime, steps: u64, points: u64, iterations: u64);
        pub(super) fn tbb_spawn(runtime: *mut Runtime, batches: u64, count: u64);
    }
}

/// All three runtimes, with the same number of threads.
pub(crate) struct Runtimes {
    pub(crate) vicus: vicus_machine::MachineRuntime,
    pub(crate) rayon: rayon::ThreadPool,
    #[cfg(tbb)]
    tbb: *mut tbb::Runtime,
}

/// The number of tasks spawned before a wait.
const BATCH: u64 = 1000;

/// What a side runs in its runtime; returns the result.
pub(crate) type Does<'a> = Box<dyn Fn() -> u64 + 'a>;

/// A program: its number of tasks, its expected result, and a version for each library.
struct Tree {
    tasks: u64,
    result: u64,
    vicus: Box<dyn Fn() -> u64 + Sync>,
    rayon: Box<dyn Fn() -> u64 + Sync>,
    #[cfg(tbb)]
    tbb: Box<dyn Fn(*mut tbb::Runtime) -> u64>,
}

impl Runtimes {
    pub(crate) fn start(threads: usize, cpus: &[usize], strategy: &str) -> anyhow::Result<Runtimes> {
        let owned = cpus.to_vec();
        // oneTBB has pinned the caller if it ran here before.
        allow(cpus);
        Ok(Runtimes {
            vicus: vicus_machine::MachineRuntime::builder().threads(threads).strategy(strategy.parse()?).start(),
            rayon: rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .start_handler(move |thread| pin(owned[thread % owned.len()]))
                .build()?,
            #[cfg(tbb)]
            tbb: {
                // oneTBB's observer keeps this pointer.
                let cpus = Vec::leak(cpus.to_vec());
                #[expect(unsafe_code, reason = "a C++ function")]
                // SAFETY: the numbers live for ever.
                unsafe {
                    tbb::tbb_start(threads as i32, cpus.as_ptr(), cpus.len())
                }
            },
        })
    }

    pub(crate) fn fib(&self, n: u32, rounds: usize) -> anyhow::Result<Vec<Side<Does<'_>>>> {
        // Computes the expected number, and the number of joins, by recurrences.
        let (mut last, mut fib, mut joins_last, mut joins) = (0, 1, 0, 0);
        for _ in 2..=n {
            (last, fib) = (fib, last + fib);
            (joins_last, joins) = (joins, joins_last + joins + 1);
        }
        self.measure(
            rounds,
            Tree {
                tasks: joins,
                result: fib,
                vicus: Box::new(move || vicus::fib(n)),
                rayon: Box::new(move || with_rayon::fib(n)),
                #[cfg(tbb)]
                #[expect(unsafe_code, reason = "a C++ function")]
                // SAFETY: the runtime lives.
                tbb: Box::new(move |runtime| unsafe { tbb::tbb_fib(runtime, n) }),
            },
        )
    }

    pub(crate) fn queens(&self, n: u32, rounds: usize) -> anyhow::Result<Vec<Side<Does<'_>>>> {
        // Known solutions (OEIS A000170).
        let known = [(4, 2), (5, 10), (6, 4), (7, 40), (8, 92), (9, 352), (10, 724), (11, 2680), (12, 14200)];
        let solutions = known.iter().find(|(size, _)| *size == n).map(|(_, solutions)| *solutions);
        let result = solutions.ok_or_else(|| anyhow::anyhow!("{n} queens: expected 4 to 12"))?;
        self.measure(
            rounds,
            Tree {
                tasks: crate::trees::boards(n),
                result,
                vicus: Box::new(move || vicus::queens(n)),
                rayon: Box::new(move || with_rayon::queens(n)),
                #[cfg(tbb)]
                #[expect(unsafe_code, reason = "a C++ function")]
                // SAFETY: the runtime lives.
                tbb: Box::new(move |runtime| unsafe { tbb::tbb_queens(runtime, n) }),
            },
        )
    }

    pub(crate) fn tree(&self, rounds: usize) -> anyhow::Result<Vec<Side<Does<'_>>>> {
        // The size of T1 as published with the benchmark.
        let nodes = 4_130_071;
        self.measure(
            rounds,
            Tree {
                tasks: nodes,
                result: nodes,
                vicus: Box::new(|| vicus::tree(&Node::t1())),
                rayon: Box::new(|| with_rayon::tree(&Node::t1())),
                #[cfg(tbb)]
                #[expect(unsafe_code, reason = "a C++ function")]
                // SAFETY: the runtime lives, and so does the root.
                tbb: Box::new(|runtime| unsafe { tbb::tbb_tree(runtime, &Node::t1()) }),
            },
        )
    }

    pub(crate) fn spawn(&self, tasks: u64, rounds: usize) -> anyhow::Result<Vec<Side<Does<'_>>>> {
        self.measure(
            rounds,
            Tree {
                tasks,
                result: 0,
                vicus: Box::new(move || {
                    for _ in 0..tasks / BATCH {
                        vicus_machine::scope(|scope| {
                            (0..BATCH).for_each(|_| scope.spawn_deferred(|_| _ = std::hint::black_box(0)))
                        });
                    }
                    0
                }),
                rayon: Box::new(move || {
                    for _ in 0..tasks / BATCH {
                        rayon::scope(|scope| (0..BATCH).for_each(|_| scope.spawn(|_| _ = std::hint::black_box(0))));
                    }
                    0
                }),
                #[cfg(tbb)]
                tbb: Box::new(move |runtime| {
                    #[expect(unsafe_code, reason = "a C++ function")]
                    // SAFETY: the runtime lives.
                    unsafe {
                        tbb::tbb_spawn(runtime, tasks / BATCH, BATCH);
                    }
                    0
                }),
            },
        )
    }

    /// Runs steps with `points` tasks each, with a barrier after each step.
    #[cfg(tbb)]
    pub(crate) fn tbb_steps(&self, steps: u64, points: u64, iterations: u64) {
        #[expect(unsafe_code, reason = "a C++ function")]
        // SAFETY: the runtime lives.
        unsafe {
            tbb::tbb_steps(self.tbb, steps, points, iterations);
        }
    }

    fn measure<'a>(&'a self, rounds: usize, tree: Tree) -> anyhow::Result<Vec<Side<Does<'a>>>> {
        let Tree { tasks, result, vicus, rayon, .. } = tree;
        let mut sides: Vec<Side<Does<'a>>> = vec![
            Side::ours("Vicus", Box::new(move || self.vicus.run(&*vicus))),
            Side::peer("rayon", Box::new(move || self.rayon.install(&*rayon))),
        ];
        #[cfg(tbb)]
        sides.push(Side::peer("oneTBB", Box::new(move || (tree.tbb)(self.tbb))));
        #[cfg(not(tbb))]
        println!("oneTBB is left out: it needs tbb/task_group.h (Debian: libtbb-dev) and a C++ compiler");
        alternate(&mut sides, rounds, tasks, |does| -> anyhow::Result<Duration> {
            let begun = Instant::now();
            let came = does();
            let time = begun.elapsed();
            anyhow::ensure!(came == result, "{came} came out, and {result} is right");
            Ok(time)
        })?;
        Ok(sides)
    }
}

#[cfg(tbb)]
impl Drop for Runtimes {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a C++ function")]
        // SAFETY: made by `tbb_start`, and nothing runs in it any more.
        unsafe {
            tbb::tbb_end(self.tbb);
        }
    }
}
