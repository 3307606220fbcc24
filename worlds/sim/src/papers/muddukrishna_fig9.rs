//! Distribution and scheduling on a chip with home caches for lines.

use super::published::{After, PAUSES};
use super::{Claim, Figure, MORE, NOT_MORE, Results, Setup, largest, smallest};
use vicus_kernels::{Kernel, Size};
use vicus_memory::distribution::Distribution;

pub(super) const MACHINE: (&str, usize) = ("tilepro64", 63);

/// The paper's vicinities; the last one reaches all other tiles.
pub(super) const VICINITIES: [usize; 5] = [1, 4, 8, 16, 63];

const NOTES: [&str; 3] = [
    "The paper does not say which vicinity its bars have; claims are about the best of its sizes.",
    "A home cache serves a word in a cycle to all tiles together, and a link of the mesh carries as much.",
    "Reduction, SparseLU and strategies as in the repository of the authors' runtime (MIR), where it differs from the \
        text: reduction in place, in ten \
             passes, by tasks made by all workers; a wait after each phase of SparseLU, and as many stores as BOTS' \
             loops do; pauses of 1 to 128 µs, and no wakes.",
];

const BASELINE: &str = "steal, fine";

const KERNELS: [&str; 4] = ["map", "reduction", "vecmul", "sparselu"];

/// The model's gap if the phases of SparseLU begin late.
const PHASES: &str = "before each phase of SparseLU workers have found nothing, pause for up to 128 µs and are not \
    woken; if they are, vicinity takes 1.02 times as long \
                      as steal";

/// The model's gap if stealing does not depend on the distribution.
const ANYWHERE: &str = "a thief's task is as far on average from one home cache as from all of them, and the text \
                        does not say what else differs";

/// The distribution advised by Table 4.
fn advised(after: After, name: &'static str) -> Distribution {
    let mut kernel = after.kernel(name, Size::Manycore);
    kernel.distribution().expect("each of them has arrays").clone()
}

/// A kernel with the input for a chip.
pub(super) fn setup(after: After, name: &'static str) -> Setup {
    Setup::kernel(name, MACHINE, after.kernel(name, Size::Manycore))
}

pub(super) fn strategy(after: After, vicinity: usize) -> String {
    // 0 means all tiles.
    after.strategy(&format!("vicinity:reach={}", if vicinity == MACHINE.1 { 0 } else { vicinity }))
}

pub(super) fn label(vicinity: usize, distribution: &Distribution) -> String {
    format!("vicinity of {vicinity}, {distribution}")
}

/// The shortest time of this kernel under vicinity scheduling with this distribution.
fn best(results: &Results, kernel: &str, distribution: &Distribution) -> f64 {
    smallest(VICINITIES.map(|vicinity| results.ratio(kernel, &label(vicinity, distribution), BASELINE)))
}

pub(super) fn figure() -> Figure {
    of(After::Text)
}

pub(super) fn published() -> Figure {
    of(After::Program)
}

fn of(after: After) -> Figure {
    let mut setups = Vec::new();
    let mut claims = Vec::new();
    for name in KERNELS {
        let setup = setup(after, name);
        for distribution in [Distribution::Fine, Distribution::Coarse] {
            setups.push(setup.under("steal", format!("steal, {distribution}")).lying(&distribution));
            setups.extend(VICINITIES.map(|vicinity| {
                setup.under(&strategy(after, vicinity), label(vicinity, &distribution)).lying(&distribution)
            }));
        }
        let advised = advised(after, name);
        let vicinities = VICINITIES.iter().map(|&vicinity| label(vicinity, &advised));
        let runs: Vec<String> = vicinities.chain([BASELINE.to_owned()]).collect();
        claims.push(
            Claim::new(
                format!("{name}: {advised}, as advised, is never worse than {BASELINE} in the best vicinity"),
                "time of the one to the other",
                NOT_MORE,
                move |results| best(results, name, &advised),
            )
            .always(name, runs),
        );
    }
    claims.push(Claim::new(
        "vecmul gains up to 69 % with vicinity, coarse",
        "time of steal, fine to that in the best vicinity; half to one and a half of the paper's gain",
        1.345..=2.035,
        |results| 1.0 / best(results, "vecmul", &Distribution::Coarse),
    ));
    claims.push(Claim::new(
        "the locality-aware scheduler is better by up to 88 %",
        "the largest ratio of the times of steal, fine and of vicinity as advised, in the best one; half to one and a \
         half of the paper's gain",
        1.44..=2.32,
        move |results| largest(KERNELS.map(|name| 1.0 / best(results, name, &advised(after, name)))),
    ));
    for (name, other) in
        [("map", Distribution::Fine), ("reduction", Distribution::Coarse), ("vecmul", Distribution::Fine)]
    {
        let breaking = Claim::new(
            format!("vicinity: breaking the advice costs time: {name}, {other}"),
            "time with it to that with the advised one, each in its best vicinity",
            MORE,
            move |results| best(results, name, &other) / best(results, name, &advised(after, name)),
        );
        let missing = if name == "vecmul" { after.choose(None, Some(PAUSES)) } else { None };
        claims.push(Claim { missing, ..breaking });
    }
    for (name, other, kept) in [("reduction", "coarse", "fine"), ("vecmul", "fine", "coarse")] {
        let [broken, kept] = [other, kept].map(|distribution| format!("steal, {distribution}"));
        let claim = Claim::new(
            format!("steal: breaking the advice costs time: {name}, {other}"),
            "time with it to that with the advised one",
            MORE,
            move |results| results.ratio(name, &broken, &kept),
        );
        claims.push(claim.missing(ANYWHERE));
    }
    for name in ["map", "vecmul"] {
        claims.push(Claim::new(
            format!("{name}, coarse: tasks wait less for lines in a vicinity of 1 than with steal (Fig. 10)"),
            "the share of far bytes of the one, divided by that of the other",
            0.0..=0.99,
            move |results| {
                results.far_share(name, &label(1, &Distribution::Coarse)) / results.far_share(name, "steal, coarse")
            },
        ));
    }
    // Its own one, and the advised one.
    let of_vecmul = claims.iter_mut().filter(|claim| claim.text.starts_with("vecmul"));
    of_vecmul.for_each(|claim| claim.missing = after.choose(None, Some(PAUSES)));
    let of_sparselu = claims.iter_mut().filter(|claim| claim.text.starts_with("sparselu"));
    of_sparselu.for_each(|claim| claim.missing = after.choose(None, Some(PHASES)));
    claims.push(Claim::new(
        "reduction, coarse, is serialized in a vicinity of 1",
        "time to that of steal, fine",
        2.0..=f64::INFINITY,
        |results| results.ratio("reduction", &label(1, &Distribution::Coarse), BASELINE),
    ));
    claims.push(Claim::new(
        "larger vicinities win it back",
        "time in a vicinity of 1 to that of all",
        1.5..=f64::INFINITY,
        |results| {
            let [one, all] = [1, 63].map(|vicinity| label(vicinity, &Distribution::Coarse));
            results.ratio("reduction", &one, &all)
        },
    ));
    let loses = Claim::new("sparselu, coarse, loses under steal", "time to that of fine", MORE, |results| {
        results.ratio("sparselu", "steal, coarse", BASELINE)
    });
    const STORES: &str = "the stores of the authors' inner loops, each of which goes to the home cache of one block: \
        their program has them, and loses";
    claims.push(Claim { missing: after.choose(Some(STORES), None), ..loses });
    Figure {
        id: after.choose("muddukrishna-fig9", "muddukrishna-fig9-published"),
        title: after.choose(
            "Distribution and scheduling on a TILEPro64, 63 threads",
            "The same as Fig. 9, with the programs and the runtime that the authors published",
        ),
        source: "Muddukrishna, Jonsson, Brorsson, Scientific Programming 2015, Fig. 9 and §6",
        notes: after.choose(&NOTES[..2], &NOTES),
        baseline: BASELINE,
        samples: 1,
        setups,
        claims,
    }
}
