//! Which kernels a command is about, and with which input.

use vicus::memory::Distribution;
use vicus_kernels::{AnyKernel, Kernel, NAMES, NoKernel, Size, by_name};

/// What commands about kernels share.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Which kernels: map, reduction, vecmul, matmul, jacobi2d, jacobi3d, sparselu, fib, nqueens, uts; all by default.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    kernel: Vec<String>,
    /// The input: numa (Muddukrishna et al., Fig. 7; Wittmann and Hager, §1.4), manycore (Fig. 9), or a number such as 0.1 for
    /// so many times as many tasks as numa.
    #[arg(long, default_value = "numa", value_parser = size)]
    size: Size,
    /// How arrays lie, one of the values of VICUS_DATA_DISTRIBUTION; by default as the papers advise for each kernel.
    #[arg(long, value_name = "DISTRIBUTION")]
    distribution: Vec<Distribution>,
}

fn size(text: &str) -> Result<Size, String> {
    match text {
        "numa" => Ok(Size::Numa),
        "manycore" => Ok(Size::Manycore),
        other => other.parse().map(Size::Times).map_err(|_| "expected numa, manycore or a number".to_owned()),
    }
}

impl Args {
    /// Whether a kernel was named.
    pub(crate) fn is_named(&self) -> bool {
        !self.kernel.is_empty()
    }

    /// The kernels with their inputs.
    pub(crate) fn kernels(&self) -> Result<Vec<AnyKernel>, NoKernel> {
        if !self.is_named() {
            return Ok(NAMES.iter().filter_map(|name| by_name(name, self.size).ok()).collect());
        }
        self.kernel.iter().map(|name| by_name(name, self.size)).collect()
    }

    /// A kernel with each distribution that was asked for, and the distribution's name.
    pub(crate) fn distributed(&self, kernel: &AnyKernel) -> Vec<(AnyKernel, String)> {
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
