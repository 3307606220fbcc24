//! The distance of steals on a chip with home caches for lines.

use super::muddukrishna_fig9::{VICINITIES, label, setup, strategy};
use super::published::{After, PAUSES};
use super::{Claim, Figure, MORE};
use vicus_memory::distribution::Distribution;

pub(super) fn figure() -> Figure {
    of(After::Text)
}

pub(super) fn published() -> Figure {
    of(After::Program)
}

fn of(after: After) -> Figure {
    let setups = ["map", "vecmul"].into_iter().flat_map(|name| {
        let setup = setup(after, name);
        VICINITIES.map(move |vicinity| {
            let label = label(vicinity, &Distribution::Coarse);
            setup.under(&strategy(after, vicinity), label).lying(&Distribution::Coarse)
        })
    });
    let [one, all] = [1, 63].map(|vicinity| label(vicinity, &Distribution::Coarse));
    let (first, last) = (one.clone(), all.clone());
    Figure {
        id: after.choose("muddukrishna-fig11", "muddukrishna-fig11-published"),
        title: after.choose(
            "Vicinities on a TILEPro64, 63 threads, coarse distribution",
            "The same as Fig. 11, with workers that pause for 1 to 128 µs and are never woken, as in the authors' \
                published runtime",
        ),
        source: "Muddukrishna, Jonsson, Brorsson, Scientific Programming 2015, Fig. 11 and §6",
        notes: &[],
        baseline: "vicinity of 1, coarse",
        samples: 1,
        setups: setups.collect(),
        claims: [
            Claim::new("larger vicinities hurt map", "time in that of all to that of 1", MORE, move |results| {
                results.ratio("map", &all, &one)
            }),
            Claim::new("larger vicinities help vecmul", "time in that of 1 to that of all", MORE, move |results| {
                results.ratio("vecmul", &first, &last)
            }),
        ]
        .map(|claim| Claim { missing: after.choose(None, Some(PAUSES)), ..claim })
        .into(),
    }
}
