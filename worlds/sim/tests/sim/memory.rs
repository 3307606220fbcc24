//! Published measurements of memory under load, against the simulator's predictions from data sheets and idle machines.

use vicus_sim::papers::{Effort, figure, serially};

/// The published figures missed by the model by more than 15 %.
const MISSED: [&str; 13] = [
    "xeon-6252n: latency beside 236.7 GB/s",
    "xeon-6252n: latency beside all that the others can read",
    "xeon-8360y: latency beside all that the others can read",
    "epyc-9224-cxl: 2 cores read their own node",
    "epyc-9224-cxl: 4 cores read their own node",
    "epyc-9224-cxl: 8 cores read their own node",
    "epyc-9224-cxl: a node's cores read the other of the socket",
    "epyc-9224-cxl: a node's cores read one of the other socket",
    "kunpeng-920: 8 cores copy on their own node",
    "kunpeng-920: 8 cores copy, interleaved over two nodes",
    "kunpeng-920: 12 cores copy, interleaved over two nodes",
    "kunpeng-920: 12 cores copy, interleaved over four nodes",
    "kunpeng-920: 24 cores of two nodes copy, interleaved over both",
];

#[test]
fn what_others_measured_is_predicted_within_fifteen_percent() {
    let report = figure("memory").unwrap().evaluate(&Effort::quick(), serially).unwrap();
    for verdict in &report.verdicts {
        let published = verdict.published.as_ref().expect("each claim is a published figure");
        let holds = if verdict.holds { "holds" } else { "missed" };
        println!(
            "{holds:6} {:>7.1} predicted {:>7.1} published {:4} {:.2} {}",
            published.predicted, published.published, published.unit, verdict.value, verdict.claim
        );
        assert_eq!(verdict.holds, (verdict.value - 1.0).abs() <= 0.15, "{}", verdict.claim);
        assert_eq!(verdict.holds, verdict.missing.is_none(), "{}: what is missing is said", verdict.claim);
    }
    let missed: Vec<&str> = report.verdicts.iter().filter(|v| !v.holds).map(|v| v.claim.as_str()).collect();
    assert_eq!(missed, MISSED, "a figure that is met now leaves the list");
    // No machine is missed altogether, and no figure by more than half.
    assert!(report.verdicts.iter().all(|verdict| (0.67..1.5).contains(&verdict.value)));
    for machine in ["xeon-6252n", "xeon-8360y", "xeon-8468", "epyc-7742", "epyc-7742-nps4", "graviton2", "graviton4"] {
        let of = |verdict: &&vicus_sim::papers::Verdict| verdict.claim.starts_with(&format!("{machine}:"));
        let (held, all) = report
            .verdicts
            .iter()
            .filter(of)
            .fold((0, 0), |(held, all), verdict| (held + usize::from(verdict.holds), all + 1));
        assert!(10 * held >= 7 * all, "{machine}: {held} of {all}");
    }
}
