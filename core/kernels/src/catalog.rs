//! All kernels, by name and input.

use crate::{
    Alignment, Fft, Fib, Health, Jacobi2d, Jacobi3d, Kernel, KernelWorld, Map, Matmul, Nqueens, Reduction, Sort,
    SparseLu, Strassen, Uts, Vecmul,
};
use std::fmt;
use vicus_memory::distribution::Distribution;

/// The names of all kernels' leaves ([`Leaf::name`](crate::Leaf::name)), in the order of the alphabet.
pub const LEAVES: &[&str] = &[
    "admit",
    "align",
    "bdiv",
    "bmod",
    "check",
    "combine",
    "combine quadrants",
    "cross",
    "fib",
    "fill",
    "fwd",
    "lu0",
    "map",
    "map with roots",
    "merge",
    "merge part",
    "multiply",
    "multiply leaf",
    "node",
    "place",
    "quicksort",
    "relax 2d",
    "relax 3d",
    "relax 3d streaming",
    "sum quadrants",
    "touch",
    "transform",
    "treat",
    "twiddle",
    "unshuffle",
];

/// The input of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// The input for machines with several nodes: the one of the paper's Fig. 7, if the kernel is in it.
    Numa,
    /// The paper's input for a chip with many cores: Fig. 9.
    Manycore,
    /// About this many times as many tasks as [`Size::Numa`].
    Times(f64),
}

/// Why a kernel could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoKernel(String);

impl fmt::Display for NoKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoKernel {}

macro_rules! kernels {
    ($($kernel:ident $name:literal $fig9:expr,)*) => {
        /// The kernels' names, as users write them.
        pub const NAMES: &[&str] = &[$($name),*];

        /// One of the kernels.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "each is named as its kernel is")]
        pub enum AnyKernel {
            $($kernel($kernel),)*
        }

        $(impl From<$kernel> for AnyKernel {
            fn from(kernel: $kernel) -> AnyKernel {
                AnyKernel::$kernel(kernel)
            }
        })*

        impl Kernel for AnyKernel {
            fn name(&self) -> &'static str {
                match self {
                    $(AnyKernel::$kernel(kernel) => kernel.name(),)*
                }
            }

            fn distribution(&mut self) -> Option<&mut Distribution> {
                match self {
                    $(AnyKernel::$kernel(kernel) => kernel.distribution(),)*
                }
            }

            fn scale(&mut self, times: f64) {
                match self {
                    $(AnyKernel::$kernel(kernel) => kernel.scale(times),)*
                }
            }

            fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
                match self {
                    $(AnyKernel::$kernel(kernel) => kernel.run(world, start, end),)*
                }
            }
        }

        /// The inputs of a kernel: for several nodes, and for a chip.
        fn inputs(name: &str) -> Option<(AnyKernel, Option<AnyKernel>)> {
            match name {
                $($name => {
                    let fig9: Option<$kernel> = $fig9;
                    Some(($kernel::default().into(), fig9.map(AnyKernel::from)))
                })*
                _ => None,
            }
        }
    };
}

kernels! {
    Map "map" Some(Map::fig9()),
    Reduction "reduction" Some(Reduction::fig9()),
    Vecmul "vecmul" Some(Vecmul::fig9()),
    Matmul "matmul" None,
    Jacobi2d "jacobi2d" None,
    Jacobi3d "jacobi3d" None,
    SparseLu "sparselu" Some(SparseLu::fig9()),
    Fib "fib" None,
    Nqueens "nqueens" None,
    Uts "uts" None,
    Alignment "alignment" None,
    Fft "fft" None,
    Health "health" None,
    Sort "sort" None,
    Strassen "strassen" None,
}

impl AnyKernel {
    /// The kernel as in the program published by its paper's authors, if it differs; else the same kernel.
    ///
    /// ```
    /// use vicus_kernels::{AnyKernel, Size, by_name};
    /// let AnyKernel::Map(map) = by_name("map", Size::Numa).unwrap().published() else { unreachable!() };
    /// assert!(map.published);
    /// ```
    pub fn published(mut self) -> AnyKernel {
        match &mut self {
            AnyKernel::Map(kernel) => kernel.published = true,
            AnyKernel::Reduction(kernel) => kernel.published = true,
            AnyKernel::SparseLu(kernel) => kernel.published = true,
            _ => {}
        }
        self
    }
}

/// The kernel of this name, with this input.
///
/// ```
/// use vicus_kernels::{AnyKernel, Size, by_name};
/// let Ok(AnyKernel::Map(map)) = by_name("map", Size::Times(0.25)) else { unreachable!() };
/// assert_eq!((map.vectors, map.bytes), (12, 1 << 20));
/// assert_eq!(by_name("matmul", Size::Manycore).unwrap_err().to_string(),
///     "`matmul` has no input for a chip; these have: map, reduction, vecmul, sparselu");
/// ```
///
/// # Errors
/// There is no kernel of this name, the paper has no such input for it, or the factor is not a positive number.
pub fn by_name(name: &str, size: Size) -> Result<AnyKernel, NoKernel> {
    let unknown = || NoKernel(format!("`{name}` is not a kernel; the kernels are {}", NAMES.join(", ")));
    let (mut numa, fig9) = inputs(name).ok_or_else(unknown)?;
    match size {
        Size::Numa => Ok(numa),
        Size::Manycore => fig9.ok_or_else(|| {
            let has = |name: &&str| inputs(name).is_some_and(|(_, fig9)| fig9.is_some());
            let with: Vec<&str> = NAMES.iter().copied().filter(has).collect();
            NoKernel(format!("`{name}` has no input for a chip; these have: {}", with.join(", ")))
        }),
        Size::Times(times) if times > 0.0 && times.is_finite() => {
            numa.scale(times);
            Ok(numa)
        }
        Size::Times(times) => Err(NoKernel(format!("an input {times} times as large; a positive number is expected"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_is_found_by_its_own_name() {
        for name in NAMES {
            assert_eq!(by_name(name, Size::Numa).unwrap().name(), *name);
        }
        let error = by_name("maps", Size::Numa).unwrap_err().to_string();
        assert!(error.starts_with("`maps` is not a kernel") && error.ends_with("sort, strassen"), "{error}");
        assert!(by_name("map", Size::Times(-1.0)).is_err() && by_name("map", Size::Times(f64::NAN)).is_err());
    }

    /// Fig. 7 and 9 of Muddukrishna et al.; §1.4 of Wittmann and Hager, with blocks 600 long in the fast dimension, as
    /// rows are.
    #[test]
    fn inputs_are_those_of_the_figures() {
        let (map, fig9) = (Map::default(), Map::fig9());
        assert_eq!([(map.vectors, map.bytes), (fig9.vectors, fig9.bytes)], [(48, 1 << 20), (63, 32 << 10)]);
        let (reduction, fig9) = (Reduction::default(), Reduction::fig9());
        let inputs = [&reduction, &fig9].map(|reduction| (reduction.bytes, reduction.depth));
        assert_eq!(inputs, [(256 << 20, 10), (700 << 10, 6)]);
        let jacobi = Jacobi2d::default();
        assert_eq!((jacobi.size, jacobi.block), (16384, 512));
        let jacobi = Jacobi3d::default();
        assert_eq!((jacobi.sites, jacobi.block), ([2400, 600, 600], [10, 10]));
        let matmul = Matmul::default();
        assert_eq!((matmul.blocks * matmul.block, matmul.block), (4096, 128));
        let (lu, fig9) = (SparseLu::default(), SparseLu::fig9());
        assert_eq!((lu.blocks * lu.block, lu.block, lu.intense), (8192, 256, false));
        assert_eq!((fig9.blocks * fig9.block, fig9.block, fig9.intense), (1152, 36, true));
        assert_eq!(2 * Vecmul::fig9().pairs * Vecmul::fig9().bytes, 128 * 28 * 1024);
    }

    #[test]
    fn a_quarter_has_a_quarter_of_the_tasks() {
        let quarter = |name| by_name(name, Size::Times(0.25)).unwrap();
        assert!(matches!(quarter("matmul"), AnyKernel::Matmul(Matmul { blocks: 16, block: 128, .. })));
        assert!(matches!(quarter("jacobi2d"), AnyKernel::Jacobi2d(Jacobi2d { size: 8192, block: 512, .. })));
        assert!(matches!(quarter("jacobi3d"), AnyKernel::Jacobi3d(Jacobi3d { sites: [600, 600, 600], .. })));
        assert!(matches!(quarter("reduction"), AnyKernel::Reduction(Reduction { bytes: 0x400_0000, depth: 8, .. })));
        assert!(matches!(quarter("fib"), AnyKernel::Fib(Fib { n: 32, .. })));
    }
}
