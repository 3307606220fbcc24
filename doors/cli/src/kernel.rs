//! The options of commands about kernels: the kernels, and their input.

mod need;

use crate::memory;
use clap::ValueEnum;
pub(crate) use need::By;
use vicus::memory::Distribution;
use vicus_kernels::{
    AnyKernel, BlockOrder, FirstTouch, Jacobi3d, Kernel, NAMES, NoKernel, Schedule, Size, Submission, Submitters,
    by_name,
};

/// The options shared by commands about kernels.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The kernels: map, reduction, vecmul, matmul, jacobi2d, jacobi3d, sparselu, fib, nqueens, uts, alignment, fft,
    /// health, sort, strassen; all by default.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    kernel: Vec<String>,
    /// The input: numa (Muddukrishna et al., Fig. 7; Wittmann and Hager, §1.4), manycore (Fig. 9), or a number such as
    /// 0.1 for this many times as many tasks as numa. By default numa; but simulations use 0.01 for fib and 0.02 for
    /// uts, which leaves some 100,000 of millions of tasks.
    #[arg(long, value_parser = size)]
    size: Option<Size>,
    /// How arrays lie: a value of VICUS_DATA_DISTRIBUTION; by default as the papers advise for each kernel, if they do.
    #[arg(long, value_name = "DISTRIBUTION")]
    distribution: Vec<Distribution>,
    /// The threads that touch the grids of jacobi3d first: one thread, all in a loop dealt in equal parts or block by
    /// block, or the receivers of a range's halves, as with `--submission halves`.
    #[arg(long, value_enum, default_value_t = Touch::Static)]
    touch: Touch,
    /// How the blocks of jacobi3d get to the threads, for comparison: as a static loop, as tasks in either order,
    /// submitted by one thread or by all, or as a range halved down to single blocks, with the second halves taken by
    /// other threads, as in TBB's parallel_for. The others are compared with the first.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "ijk")]
    submission: Vec<Submit>,
    /// jacobi3d writes past the caches, with non-temporal stores.
    #[arg(long)]
    streaming: bool,
    /// map, reduction and sparselu as in the programs published by their paper's authors, where these differ from the
    /// paper.
    #[arg(long)]
    published: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Touch {
    Serial,
    Static,
    Single,
    Halves,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Submit {
    Loop,
    Ijk,
    Kji,
    IjkAll,
    KjiAll,
    Halves,
}

impl Touch {
    fn meant(self) -> FirstTouch {
        match self {
            Touch::Serial => FirstTouch::Serial,
            Touch::Static => FirstTouch::Loop(Schedule::Static),
            Touch::Single => FirstTouch::Loop(Schedule::Chunks(1)),
            Touch::Halves => FirstTouch::Halves,
        }
    }
}

impl Submit {
    fn meant(self, touch: FirstTouch) -> Submission {
        match self {
            // Dealt as the blocks were touched, so each thread's blocks are near it.
            Submit::Loop => Submission::Loop(match touch {
                FirstTouch::Loop(schedule) => schedule,
                FirstTouch::Serial | FirstTouch::Halves => Schedule::Static,
            }),
            Submit::Ijk => Submission::Tasks(BlockOrder::Ijk, Submitters::One),
            Submit::Kji => Submission::Tasks(BlockOrder::Kji, Submitters::One),
            Submit::IjkAll => Submission::Tasks(BlockOrder::Ijk, Submitters::All(Schedule::Static)),
            Submit::KjiAll => Submission::Tasks(BlockOrder::Kji, Submitters::All(Schedule::Static)),
            Submit::Halves => Submission::Halves,
        }
    }
}

fn size(text: &str) -> Result<Size, String> {
    match text {
        "numa" => Ok(Size::Numa),
        "manycore" => Ok(Size::Manycore),
        other => {
            let times = other.parse().ok().filter(|times: &f64| times.is_finite() && *times > 0.0);
            times.map(Size::Times).ok_or_else(|| "expected numa, manycore or a number above 0".to_owned())
        }
    }
}

/// The default input of a kernel.
fn default_size(kernel: &str, by: By) -> Size {
    match (by, kernel) {
        // Each of their tasks is an addition or a hash, and there are millions of them.
        (By::Simulation, "fib") => Size::Times(0.01),
        (By::Simulation, "uts") => Size::Times(0.02),
        _ => Size::Numa,
    }
}

impl Args {
    /// Whether a kernel was named on the command line.
    pub(crate) fn is_named(&self) -> bool {
        !self.kernel.is_empty()
    }

    /// The distributions named on the command line.
    pub(crate) fn distributions(&self) -> &[Distribution] {
        &self.distribution
    }

    /// The kernels with their inputs; fails if there is not enough memory for one.
    pub(crate) fn kernels(&self, by: By) -> anyhow::Result<Vec<AnyKernel>> {
        let kernel = |name: &str| -> Result<AnyKernel, NoKernel> {
            let kernel = by_name(name, self.size.unwrap_or(default_size(name, by)))?;
            Ok(if self.published { kernel.published() } else { kernel })
        };
        let kernels: Vec<AnyKernel> = if self.is_named() {
            self.kernel.iter().map(|name| kernel(name)).collect::<Result<_, _>>()?
        } else if self.size == Some(Size::Manycore) {
            // Not all kernels have an input for a chip.
            NAMES.iter().filter_map(|name| kernel(name).ok()).collect()
        } else {
            NAMES.iter().map(|name| kernel(name)).collect::<Result<_, _>>()?
        };
        let free = memory::free_bytes();
        kernels.iter().try_for_each(|kernel| need::check(kernel, by, free))?;
        Ok(kernels)
    }

    /// A kernel in each requested distribution, and jacobi3d in each requested submission; each with a name that
    /// includes jacobi3d's first touch.
    pub(crate) fn variants(&self, kernel: &AnyKernel) -> Vec<(AnyKernel, String)> {
        let AnyKernel::Jacobi3d(jacobi) = kernel else { return self.distributed(kernel) };
        let touch = self.touch.meant();
        let submitted = |submit: &Submit| {
            let submission = submit.meant(touch);
            let jacobi = Jacobi3d { touch, submission, streaming: self.streaming, ..jacobi.clone() };
            let name = submit.to_possible_value().expect("none is hidden");
            let touch = self.touch.to_possible_value().expect("none is hidden");
            let streaming = if self.streaming { " streaming" } else { "" };
            let name = format!("{} touch:{}{streaming}", name.get_name(), touch.get_name());
            let named = |(kernel, distribution)| (kernel, format!("{distribution} {name}"));
            self.distributed(&jacobi.into()).into_iter().map(named).collect::<Vec<_>>()
        };
        self.submission.iter().flat_map(submitted).collect()
    }

    fn distributed(&self, kernel: &AnyKernel) -> Vec<(AnyKernel, String)> {
        let mut advised = kernel.clone();
        let name = advised.distribution().map(|advised| advised.to_string());
        let Some(name) = name else { return vec![(advised, String::new())] };
        if self.distribution.is_empty() {
            return vec![(advised, name)];
        }
        let with = |distribution: &Distribution| {
            let mut kernel = kernel.clone();
            *kernel.distribution().expect("it has one") = distribution.clone();
            (kernel, distribution.to_string())
        };
        self.distribution.iter().map(with).collect()
    }
}
