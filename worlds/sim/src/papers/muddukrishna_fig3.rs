//! First touch against interleaving on eight nodes, for programs of the Barcelona OpenMP Tasks Suite.

use super::{Claim, EQUAL, Figure, MORE, NOT_MORE, Results, SAME, Setup, largest};
use vicus_kernels::{Size, by_name};
use vicus_memory::distribution::Distribution;

const MACHINE: (&str, usize) = ("opteron-6172", 48);

/// The kernels named by the text, and sort; each with a sufficient share of its tasks for varying parameters.
const KERNELS: [(&str, f64); 6] =
    [("alignment", 1.0), ("fft", 0.125), ("health", 1.0), ("sort", 0.1), ("sparselu", 1.0), ("strassen", 0.15)];

const FIRST_TOUCH: &str = "first touch";
const INTERLEAVED: &str = "numactl";

/// Why the time of some kernels is the same.
const COMPUTES: &str =
    "in the model, its tasks compute so long for their bytes that the time does not depend on where these lie";

/// The time with interleaved pages to that with first touch.
fn interleaved(results: &Results, kernel: &str) -> f64 {
    results.ratio(kernel, INTERLEAVED, FIRST_TOUCH)
}

/// The ratios counted as less.
const LESS: std::ops::RangeInclusive<f64> = 0.0..=1.0 - SAME;

pub(super) fn figure() -> Figure {
    let mut setups = Vec::new();
    for (name, reduced) in KERNELS {
        let kernel = by_name(name, Size::Numa).expect("the kernel has such an input");
        let setup = Setup { reduced, ..Setup::kernel(name, MACHINE, kernel) };
        setups.push(setup.under("steal", FIRST_TOUCH).lying(&Distribution::Standard));
        setups.push(setup.under("steal", INTERLEAVED).interleaved());
    }
    let ratio = "time with numactl to that with first touch";
    let of = |text: &str, expected, name: &'static str| {
        Claim::new(format!("{name}: {text}"), ratio, expected, move |results| interleaved(results, name))
    };
    let mut claims =
        vec![
        of("little communication, and so the same time", EQUAL, "alignment").by_construction(COMPUTES),
        of("distribution does not relieve the memory, and the time is the same", EQUAL, "fft").missing(
            "with first touch all its numbers lie on one node, whose controller is the limit here; the paper does not \
                say who touches them first",
        ),
        of("distribution does not relieve the memory, and the time is the same", EQUAL, "sparselu")
            .by_construction(COMPUTES),
        of("the time improves", LESS, "health"),
        of("memory that tasks allocate is near them with first touch only, and the time \
            degrades", MORE, "strassen").missing(
            "with first touch its matrices and their first sums lie on one node, whose controller costs more here than \
                the distance to interleaved pages",
        ),
    ];
    claims.push(Claim::new(
        "all but strassen improve or maintain their performance",
        "the largest of these ratios",
        NOT_MORE,
        |results| {
            let others = KERNELS.iter().filter(|(name, _)| *name != "strassen");
            largest(others.map(|(name, _)| interleaved(results, name)))
        },
    ));
    Figure {
        id: "muddukrishna-fig3",
        title: "First touch against interleaved pages on an eight-node Opteron 6172, 48 threads",
        source: "Muddukrishna, Jonsson, Brorsson, Scientific Programming 2015, Fig. 3 and §2",
        notes: &[
            "The paper does not say which inputs its programs have. Here: 100 proteins, 16 million complex numbers, \
                673 villages of 30 days, 32 million integers, \
             and matrices of 4096 rows; sparselu as in Fig. 7.",
            "Its runtime is Intel's, whose threads steal tasks; here it is `steal`. Arrays that are made before the \
                tasks are touched first by one thread.",
            "The text does not name sort; whether the figure has it is not known here.",
        ],
        baseline: FIRST_TOUCH,
        samples: 1,
        setups,
        claims,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_hold_of_what_the_paper_says_and_not_of_memory_without_distance() {
        let judged = |ratios: [f64; 6]| -> Vec<bool> {
            let walls = KERNELS
                .iter()
                .zip(ratios)
                .flat_map(|((name, _), ratio)| [(*name, FIRST_TOUCH, 1.0), (*name, INTERLEAVED, ratio)]);
            let results = Results::from_walls(walls);
            figure().claims.iter().map(|claim| claim.judge(&results).1).collect()
        };
        assert_eq!(judged([1.0, 0.98, 0.9, 0.7, 1.0, 1.2]), [true; 6]);
        assert_eq!(judged([1.0; 6]), [true, true, true, false, false, true]);
        assert_eq!(judged([1.1, 0.8, 1.1, 1.2, 0.8, 0.9]), [false; 6]);
    }
}
