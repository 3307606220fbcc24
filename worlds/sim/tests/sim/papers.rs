//! The papers' claims as tests of the model, on reduced inputs: those that hold for all values of the free parameters. `vicus
//! simulate paper all` tests all claims on all inputs, with every parameter varied.

use vicus_sim::papers::{Effort, FIGURES, Report, Results, figure, serially};

/// The claims that do not hold on reduced inputs, and of which nobody knows what is missing.
const UNEXPLAINED: [&str; 2] = [
    "niagara-2: lock-free does not scale: no faster with all threads than with one",
    "niagara-2: qdqueue (affinity) is 72 times as fast as lock-free with all threads",
];

fn small(id: &str) -> Report {
    let report = figure(id).unwrap().evaluate(&Effort::small(), serially).unwrap();
    for verdict in &report.verdicts {
        let is_known = verdict.missing.is_some() || UNEXPLAINED.contains(&verdict.claim.as_str());
        assert_eq!(verdict.holds, !is_known, "{id}: {}: {:.3}", verdict.claim, verdict.value);
    }
    report
}

/// Checks that the claims that contain one of these texts hold, and that each text is part of a claim.
fn assert_hold(report: &Report, texts: &[&str]) {
    for text in texts {
        let mut claims = report.verdicts.iter().filter(|verdict| verdict.claim.contains(text)).peekable();
        assert!(claims.peek().is_some(), "{} has a claim with `{text}`", report.id);
        for verdict in claims {
            assert!(verdict.holds, "{}: {verdict:?}", report.id);
        }
    }
}

/// The figures that the simulator repeats: those of five papers, and the memory of machines of today.
#[test]
fn each_figure_is_there() {
    let mut wanted = [
        "000-fig5",
        "000-fig6",
        "000-fig7",
        "000-fig8",
        "000-fig9",
        "000-fig10",
        "000-fig11",
        "001-fig2",
        "001-fig3",
        "001-fig5",
        "001-fig7",
        "001-fig7-published",
        "001-fig9",
        "001-fig9-published",
        "001-fig11",
        "001-fig11-published",
        "002-fig3",
        "002-fig4",
        "003-table3",
        "004-fig3",
        "004-fig4",
        "004-fig4-patterns",
        "004-fig5",
        "004-fig6",
        "004-fig7",
        "004-fig8",
        "004-fig9",
        "memory",
    ];
    let mut there: Vec<&str> = FIGURES.iter().map(|(id, _)| *id).collect();
    there.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(there, wanted);
}

#[test]
fn a_claim_can_fail() {
    let figure = figure("001-fig11").unwrap();
    let walls = |map: f64, vecmul: f64| {
        Results::from_walls([
            ("map", "vicinity of 1, coarse", 100.0),
            ("map", "vicinity of 63, coarse", map),
            ("vecmul", "vicinity of 1, coarse", 100.0),
            ("vecmul", "vicinity of 63, coarse", vecmul),
        ])
    };
    let judged = |results: &Results| figure.claims.iter().map(|claim| claim.judge(results)).collect::<Vec<_>>();
    assert_eq!(judged(&walls(150.0, 80.0)), [(1.5, true), (1.25, true)]);
    assert_eq!(judged(&walls(50.0, 125.0)), [(0.5, false), (0.8, false)]);
    assert_eq!(judged(&walls(100.0, 100.0)), [(1.0, false), (1.0, false)], "as much is not more");
}

#[test]
fn eight_nodes() {
    let report = small("001-fig7");
    let hold = [
        "jacobi2d: footprint, fine",
        "matmul: footprint, coarse",
        "with stealing, fine is as good as numactl",
        "footprint: breaking the advice",
        "map, fine: all tasks stay",
    ];
    assert_hold(&report, &hold);
}

#[test]
fn first_touch_and_interleaving() {
    let hold = ["alignment: ", "sparselu: ", "health: ", "all but strassen"];
    assert_hold(&small("001-fig3"), &hold);
}

#[test]
fn home_caches() {
    assert_hold(&small("001-fig9"), &["reduction, coarse, is serialized", "larger vicinities win it back"]);
    assert_hold(&small("001-fig11"), &["larger vicinities help vecmul"]);
}

#[test]
fn loops_tasks_and_locality_queues() {
    let hold = [
        "serial initialisation is worse than round robin",
        "istanbul: round robin is worse than first touch",
        "nehalem-ep: round robin is worse than first touch",
        "of plain tasking, static with ijk is worst",
        "they are not with static and ijk",
        "that penalty vanishes if the pool is unlimited",
        "loops that remember",
    ];
    assert_hold(&small("002-fig3"), &hold);
}

#[test]
#[ignore = "takes ten seconds and more; `vicus simulate paper 002-fig4` does more"]
fn runs_differ_little() {
    assert_hold(&small("002-fig4"), &["istanbul", "nehalem-ex"]);
}

#[test]
fn a_pipeline() {
    assert_hold(&small("003-table3"), &["bobox, 2 threads", "bobox, 4 threads", "las, 2 threads", "las, 4 threads"]);
}

#[test]
fn queues_and_pools() {
    let hold = ["outpaces malloc", "the pool with a mutex suffers", "malloc is uniformly slow"];
    assert_hold(&small("004-fig3"), &hold);
    assert_hold(&small("004-fig4"), &["niagara-2: iteration", "xeon-5150: iteration"]);
    assert_hold(&small("004-fig4-patterns"), &["altix-3700: static hash"]);
    assert_hold(&small("004-fig5"), &["static hash"]);
    assert_hold(&small("004-fig6"), &["niagara-2: aligning", "packed elements halve"]);
    let hold = [
        "altix-3700: lock-free does not scale",
        "xeon-5150: lock-free does not scale",
        "one mutex does not scale",
        "niagara-2: the lock-free queue is faster",
        "xeon-5150: the lock-free queue is faster",
    ];
    assert_hold(&small("004-fig7"), &hold);
    assert_hold(&small("004-fig8"), &["with one thread"]);
    assert_hold(&small("004-fig9"), &["affinity helps"]);
}
