//! Each kernel has the same result in every world, and declares all its reads and writes.

mod worlds;

use std::collections::BTreeSet;
use vicus_kernels::{
    Alignment, AnyKernel, BlockOrder, Fft, Fib, FirstTouch, Health, Jacobi2d, Jacobi3d, Kernel, KernelWorld, LEAVES,
    Map, Matmul, NAMES, Nqueens, Reduction, Schedule, Serial, Sort, SparseLu, Strassen, Submission, Submitters, Tree,
    Uts, Vecmul,
};
use worlds::{Shuffled, Strict};

/// Each kernel with a small input; blocks don't divide the size evenly if this is allowed.
fn small() -> Vec<AnyKernel> {
    let jacobi3d = Jacobi3d { sites: [7, 8, 11], block: [3, 3], sweeps: 3, ..Jacobi3d::default() };
    let kernels: Vec<AnyKernel> = vec![
        Map { vectors: 5, bytes: 100, ..Map::default() }.into(),
        Map { vectors: 5, bytes: 100, published: true, ..Map::default() }.into(),
        Reduction { bytes: 1000, depth: 3, published: true, ..Reduction::default() }.into(),
        SparseLu { blocks: 7, block: 3, published: true, ..SparseLu::default() }.into(),
        Reduction { bytes: 1000, depth: 3, ..Reduction::default() }.into(),
        Reduction { bytes: 84, depth: 4, ..Reduction::default() }.into(),
        Vecmul { pairs: 4, bytes: 100, ..Vecmul::default() }.into(),
        Matmul { blocks: 3, block: 5, ..Matmul::default() }.into(),
        Matmul { blocks: 1, block: 13, ..Matmul::default() }.into(),
        Jacobi2d { size: 17, block: 5, sweeps: 3, ..Jacobi2d::default() }.into(),
        jacobi3d.clone().into(),
        Jacobi3d { streaming: true, touch: FirstTouch::Serial, ..jacobi3d.clone() }.into(),
        Jacobi3d { submission: Submission::Loop(Schedule::Static), ..jacobi3d.clone() }.into(),
        Jacobi3d {
            touch: FirstTouch::Loop(Schedule::Chunks(1)),
            submission: Submission::Tasks(BlockOrder::Kji, Submitters::All(Schedule::Static)),
            ..jacobi3d.clone()
        }
        .into(),
        Jacobi3d { touch: FirstTouch::Halves, submission: Submission::Halves, ..jacobi3d }.into(),
        SparseLu { blocks: 7, block: 3, intense: true, ..SparseLu::default() }.into(),
        Fib { n: 10, alone: 3 }.into(),
        Nqueens { n: 6 }.into(),
        Uts { tree: Tree::Geometric { mean: 3.0, depth: 4 }, seed: 7 }.into(),
        Uts { tree: Tree::Binomial { root: 10, children: 3, likely: 0.25 }, seed: 7 }.into(),
        Alignment { proteins: 4, least: 3, most: 17, ..Alignment::default() }.into(),
        Fft { len: 64, alone: 2, ..Fft::default() }.into(),
        Fft { len: 128, alone: 32, ..Fft::default() }.into(),
        Health { regions: 2, cities: 2, levels: 3, inhabitants: 5, days: 9, ..Health::default() }.into(),
        Sort { len: 333, alone: 9, ..Sort::default() }.into(),
        Strassen { levels: 2, block: 3, ..Strassen::default() }.into(),
    ];
    assert!(NAMES.iter().all(|name| kernels.iter().any(|kernel| kernel.name() == *name)), "all kernels are here");
    kernels
}

/// The result of a kernel. Checks that the measured part begins and ends once, in this order.
fn result(kernel: &AnyKernel, world: &impl KernelWorld) -> f64 {
    let parts = std::cell::RefCell::new(Vec::new());
    let result = kernel.run(world, || parts.borrow_mut().push("start"), || parts.borrow_mut().push("end"));
    assert_eq!(parts.into_inner(), ["start", "end"]);
    assert!(result.is_finite(), "{kernel:?}");
    result
}

#[test]
fn the_order_of_tasks_makes_no_difference() {
    for kernel in small() {
        let expected = result(&kernel, &Serial::default());
        for seed in 0..20 {
            let got = result(&kernel, &Shuffled::new(seed));
            assert_eq!(got.to_bits(), expected.to_bits(), "seed {seed}: {kernel:?}");
        }
    }
}

#[test]
fn what_was_not_said_is_not_touched() {
    for kernel in small() {
        let expected = result(&kernel, &Serial::default());
        assert_eq!(result(&kernel, &Strict::default()).to_bits(), expected.to_bits(), "{kernel:?}");
    }
}

#[test]
fn all_leaves_of_all_kernels_are_listed_and_no_other() {
    let leaves = small().into_iter().flat_map(|kernel| {
        let world = Shuffled::new(1);
        result(&kernel, &world);
        world.leaves()
    });
    assert_eq!(leaves.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), LEAVES);
}

/// Kernels with wrong declarations, to test the strict world.
mod liars {
    use super::*;
    use vicus_kernels::{Leaf, Task, TaskOrder};
    use vicus_memory::distribution::Distribution;

    const LEAF: Leaf = Leaf { name: "lie", flops: 0 };

    /// Adds the second half of an array to the first half, in one task.
    fn add_half(
        said: impl FnOnce(&vicus_kernels::Array<'_, f32>) -> [vicus_schedule::Access; 2],
        task_says: bool,
    ) -> f32 {
        let world = Strict::default();
        let array = world.array::<f32>(8, &Distribution::Standard);
        let accesses = said(&array);
        let task = if task_says { Task::new(accesses) } else { Task::new([array.reads(0..8)]) };
        let body = || {
            world.work(LEAF, &accesses, || {
                #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                // SAFETY: there is one task.
                let (to, from) = unsafe { (array.part_mut(0..4), array.part(4..8)) };
                to.iter_mut().zip(from).for_each(|(to, from)| *to += from + 1.0);
            });
        };
        world.tasks(TaskOrder::Free, std::iter::once((task, body)));
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: the task is over.
        unsafe {
            array.part(0..1)[0]
        }
    }

    #[test]
    fn truth_is_let_through() {
        assert_eq!(add_half(|array| [array.changes(0..4), array.reads(4..8)], true), 1.0);
    }

    #[test]
    fn what_is_read_in_silence_is_garbage() {
        assert!(add_half(|array| [array.changes(0..4), array.reads(5..8)], true).is_nan());
        assert!(add_half(|array| [array.writes(0..4), array.reads(4..8)], true).is_nan());
    }

    #[test]
    #[should_panic(expected = "writes")]
    fn what_is_written_in_silence_is_found() {
        add_half(|array| [array.changes(0..3), array.reads(3..8)], true);
    }

    #[test]
    #[should_panic(expected = "is more than the task said")]
    fn what_the_task_keeps_silent_about_is_found() {
        add_half(|array| [array.changes(0..4), array.reads(4..8)], false);
    }
}
