//! Queries over RDF under the locality-aware scheduler and under one that is not, on two servers, alone and sixteen at once.

use super::{Claim, Figure, Input, MORE, NOT_MORE, Recording, Replayed, SAME, Setup, largest};

/// §6.1.1.
const QUERIES: [&str; 8] = ["q2", "q4", "q5a", "q6", "q7", "q8", "q9", "q11"];

/// Name and threads: §6.1.2.
const SMP: (&str, usize) = ("xeon-e5310", 8);
const NUMA: (&str, usize) = ("xeon-e7-4820", 64);

/// §6.1.1: "16 times in all our measurements".
const MULTI: usize = 16;

/// The queries run on one of so many parts of the triples. As in the paper (§6.2), q4 gets less data,
/// because it returns so many rows.
fn part(query: &str) -> u64 {
    if query == "q4" { 4 } else { 1 }
}

/// How many times as fast a query is under las.
fn gain(results: &super::Results, query: &str) -> f64 {
    results.ratio(query, "nls", "las")
}

fn figure(
    id: &'static str,
    title: &'static str,
    source: &'static str,
    machine: (&'static str, usize),
    copies: usize,
) -> Figure {
    let setup = |query: &'static str, strategy: &str| Setup {
        group: query,
        label: strategy.to_owned(),
        machine: machine.0,
        input: Input::Replay(Replayed::new(Recording { query, threads: machine.1, part: part(query) }, copies)),
        strategy: strategy.to_owned(),
        threads: machine.1,
        interleave: false,
        reduced: 1.0,
    };
    let never_slower = |query| {
        let claim = Claim::new(
            format!("{query} is never slower under las"),
            "las, to nls",
            NOT_MORE,
            move |results: &super::Results| results.ratio(query, "las", "nls"),
        );
        claim.always(query, ["las", "nls"].map(str::to_owned))
    };
    Figure {
        id,
        title,
        source,
        notes: &[
            "Replays of queries that ran on one thread, planned for the machine's: the same invocations, each as long as in the quickest of \
             several runs, without its time for memory. The paper has an engine of its own \
             and 5 million triples; q4, which puts most out, has a quarter of the others' triples here.",
            "What a box keeps for itself (rows to be sorted, groups) lies on the node where it has grown, and a hash table in the envelopes of the box that \
             built it. How much that is was recorded; it is \
             assumed that a box reads a line of it, 64 bytes, for each row that it takes, and what it puts out when it takes none.",
        ],
        baseline: "nls",
        samples: if copies == 1 { 5 } else { 1 },
        setups: QUERIES.iter().flat_map(|query| [setup(query, "nls"), setup(query, "las")]).collect(),
        claims: QUERIES.map(never_slower).into(),
    }
}

/// §6.2: "up to 10 %" (abstract), and "Q2 is almost 2x faster".
fn smp(id: &'static str, title: &'static str, source: &'static str, copies: usize) -> Figure {
    let mut figure = figure(id, title, source, SMP, copies);
    figure.claims.push(Claim::new(
        "las gains up to 10 %, Q2 apart",
        "nls to las, the largest of the other queries",
        1.0 + SAME..=1.1 + SAME,
        |results| largest(QUERIES[1..].iter().map(|query| gain(results, query))),
    ));
    figure
        .claims
        .push(Claim::new("Q2 gains more", "nls to las, q2", 1.1..=f64::INFINITY, |results| gain(results, "q2")));
    figure
}

pub(super) fn fig5() -> Figure {
    smp("000-fig5", "One query at a time on a Xeon E5310 (SMP)", "Falt et al., Fig. 5 and §6.2", 1)
}

pub(super) fn fig6() -> Figure {
    smp("000-fig6", "Sixteen queries at once on a Xeon E5310 (SMP)", "Falt et al., Fig. 6 and §6.2", MULTI)
}

pub(super) fn fig7() -> Figure {
    let title = "One query at a time on four Xeon E7-4820 (NUMA)";
    let mut figure = figure("000-fig7", title, "Falt et al., Fig. 7 and §6.3", NUMA, 1);
    figure.claims.push(Claim::new(
        "branches tend to different nodes",
        "nodes kept to under las, to nls, geometric mean of the queries",
        MORE,
        |results| {
            let kept = |query, strategy| results.point(query, strategy).kept_nodes();
            let ratios = QUERIES.map(|query| kept(query, "las") / kept(query, "nls"));
            ratios.iter().product::<f64>().powf(1.0 / QUERIES.len() as f64)
        },
    ));
    figure
}

pub(super) fn fig8() -> Figure {
    let title = "Sixteen queries at once on four Xeon E7-4820 (NUMA)";
    let mut figure = figure("000-fig8", title, "Falt et al., Fig. 8 and §6.3", NUMA, MULTI);
    figure.claims.push(Claim::new(
        "several queries are more than twice as fast under las",
        "nls to las, the third largest",
        2.0..=f64::INFINITY,
        |results| {
            let mut gains = QUERIES.map(|query| gain(results, query));
            gains.sort_by(f64::total_cmp);
            gains[QUERIES.len() - 3]
        },
    ));
    figure.claims.push(Claim::new(
        "Q2 gains most",
        "nls to las: q2, to the largest of the others",
        1.0..=f64::INFINITY,
        |results| gain(results, "q2") / largest(QUERIES[1..].iter().map(|query| gain(results, query))),
    ));
    figure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::Results;

    /// Each query's time under las, as a percentage of its time under nls.
    fn judged(figure: &Figure, las: [f64; 8]) -> Vec<(f64, bool)> {
        let walls = QUERIES.iter().zip(las).flat_map(|(query, las)| [(*query, "nls", 100.0), (*query, "las", las)]);
        let results = Results::from_walls(walls);
        figure.claims.iter().map(|claim| claim.judge(&results)).collect()
    }

    #[test]
    fn claims_hold_of_what_the_paper_measured_and_not_of_the_contrary() {
        // Read from Figs. 5, 6 and 8, and the text.
        for figure in [fig5(), fig6()] {
            assert!(
                judged(&figure, [52.0, 93.0, 99.0, 95.0, 100.0, 99.0, 100.0, 98.0]).iter().all(|(_, holds)| *holds)
            );
            assert!(!judged(&figure, [101.5; 8]).iter().any(|(_, holds)| *holds));
        }
        let real = judged(&fig8(), [30.0, 45.0, 48.0, 90.0, 60.0, 70.0, 49.0, 95.0]);
        assert!(real.iter().all(|(_, holds)| *holds), "{real:?}");
        let reverse = judged(&fig8(), [150.0, 102.0, 102.0, 102.0, 102.0, 102.0, 102.0, 102.0]);
        assert!(!reverse.iter().any(|(_, holds)| *holds), "{reverse:?}");
    }
}
