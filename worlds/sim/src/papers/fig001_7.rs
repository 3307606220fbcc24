//! Distribution and scheduling on eight nodes.

use super::{Claim, EQUAL, Figure, MORE, NOT_MORE, Setup, farthest};
use vicus_kernels::{AnyKernel, Kernel, Size, by_name};
use vicus_memory::distribution::Distribution;

const MACHINE: (&str, usize) = ("opteron-6172", 48);

/// The kernels, each with the share of its tasks that is enough when parameters vary.
const KERNELS: [(&str, f64); 5] =
    [("map", 1.0), ("jacobi2d", 0.25), ("matmul", 1.0), ("sparselu", 1.0), ("reduction", 1.0)];

const NUMACTL: &str = "steal, numactl";

fn kernel(name: &str) -> AnyKernel {
    by_name(name, Size::Numa).expect("the kernel is in the catalogue")
}

/// The run with the distribution that Table 4 advises.
fn advised(name: &str) -> String {
    let mut kernel = kernel(name);
    format!("footprint, {}", kernel.distribution().expect("each of them has arrays"))
}

pub(super) fn figure() -> Figure {
    let mut setups = Vec::new();
    for (name, reduced) in KERNELS {
        let setup = Setup { reduced, ..Setup::kernel(name, MACHINE, kernel(name)) };
        setups.push(setup.under("steal", NUMACTL).interleaved());
        for strategy in ["steal", "footprint"] {
            for distribution in [Distribution::Fine, Distribution::Coarse] {
                setups.push(setup.under(strategy, format!("{strategy}, {distribution}")).lying(&distribution));
            }
        }
    }
    let mut claims = Vec::new();
    for (name, _) in KERNELS {
        let advised = advised(name);
        let runs = [advised.clone(), NUMACTL.to_owned()];
        claims.push(
            Claim::new(
                format!("{name}: {advised}, as advised, is never worse than {NUMACTL}"),
                "time of the one to the other",
                NOT_MORE,
                move |results| results.ratio(name, &advised, NUMACTL),
            )
            .always(name, runs),
        );
    }
    claims.push(Claim::new(
        "with stealing, fine is as good as numactl",
        "the ratio of times farthest from 1, over all kernels",
        EQUAL,
        |results| farthest(KERNELS.map(|(name, _)| results.ratio(name, "steal, fine", NUMACTL))),
    ));
    claims.push(Claim::new(
        "matmul gains about 14 % with footprint, coarse",
        "time of steal, numactl to it; half to one and a half of the paper's gain",
        1.07..=1.21,
        |results| results.ratio("matmul", NUMACTL, "footprint, coarse"),
    ));
    for strategy in ["steal", "footprint"] {
        let label = |distribution: &str| format!("{strategy}, {distribution}");
        let (fine, coarse) = (label("fine"), label("coarse"));
        claims.push(Claim::new(
            format!("{strategy}: breaking the advice costs time: matmul, fine"),
            "time with fine to that with coarse",
            MORE,
            move |results| results.ratio("matmul", &fine, &coarse),
        ));
    }
    claims.push(Claim::new(
        "map, fine: all tasks stay in their creator's queue, and footprint loses to steal",
        "time of footprint to that of steal",
        MORE,
        |results| results.ratio("map", "footprint, fine", "steal, fine"),
    ));
    claims.push(Claim::new(
        "sparselu is the same with both distributions",
        "the ratio to steal, numactl farthest from 1, under both strategies",
        EQUAL,
        |results| {
            let labels = ["steal, fine", "steal, coarse", "footprint, fine", "footprint, coarse"];
            farthest(labels.map(|label| results.ratio("sparselu", label, NUMACTL)))
        },
    ));
    Figure {
        id: "001-fig7",
        title: "Distribution and scheduling on an eight-node Opteron 6172, 48 threads",
        source: "Muddukrishna, Jonsson, Brorsson, Scientific Programming 2015, Fig. 7 and §6",
        notes: &[
            "numactl has pages go round the nodes in the order in which they are touched first, over all allocations; fine begins \
             each allocation with the first node.",
            "The paper does not say how many sweeps jacobi2d does; here it does four.",
        ],
        baseline: NUMACTL,
        samples: 1,
        setups,
        claims,
    }
}
