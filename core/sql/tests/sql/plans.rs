//! Plans have the expected form: filters at the scans, joins by keys, needed columns only.

use crate::run::{answer, lines, people};
use vicus_flow::sequential;
use vicus_sql::{PlanOptions, SqlPlan, StatementLimits, parse, plan};

fn planned(text: &str, options: &PlanOptions) -> SqlPlan {
    let parsed = parse(text, &StatementLimits::default()).unwrap();
    plan(&parsed, &people(), options, &|| false).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn explained(text: &str) -> String {
    planned(text, &PlanOptions::default()).explain()
}

#[test]
fn filters_go_to_scans_and_columns_that_are_not_needed_are_not_read() {
    let plan = explained(
        "SELECT n FROM (SELECT p.name AS n, p.id * 2 AS twice, t.name AS team FROM people p JOIN teams t ON p.team = \
            t.id) AS x \
         WHERE twice > 4 AND team = 'blue' AND n LIKE 'J%'",
    );
    assert!(plan.contains("scan people (id, name, team)"), "{plan}");
    assert!(plan.contains("scan teams (id, name), name = 'blue'"), "{plan}");
    assert!(
        plan.contains("filter (name LIKE 'J%') AND ((id * 2) > 4)")
            || plan.contains("filter ((id * 2) > 4) AND (name LIKE 'J%')"),
        "{plan}"
    );
    assert!(plan.contains("inner join"), "{plan}");
    let plan = explained(
        "SELECT COUNT(*) FROM people WHERE born >= DATE '1900-01-01' AND born < DATE '1900-01-01' + INTERVAL '1' YEAR",
    );
    assert!(plan.contains("scan people (born), born from DATE '1900-01-01', born to DATE '1901-01-01'"), "{plan}");
    let plan = explained("SELECT name FROM people WHERE 1 = 2 AND id > 3");
    assert!(plan.contains("values 0 rows") && !plan.contains("scan"), "{plan}");
}

#[test]
fn joins_are_made_by_their_equalities_in_an_order_of_their_sizes() {
    let plan = explained(
        "SELECT COUNT(*) FROM lineitem, orders, customer WHERE l_orderkey = o_orderkey AND o_custkey = c_custkey",
    );
    assert!(!plan.contains("cross join") && plan.matches("inner join").count() == 2, "{plan}");
    assert!(plan.contains("l_orderkey = o_orderkey") && plan.contains("o_custkey = c_custkey"), "{plan}");
    let plan = explained("SELECT * FROM people WHERE team IN (SELECT id FROM teams)");
    assert!(plan.contains("semi join team = id"), "{plan}");
    let plan = explained(
        "SELECT * FROM people p WHERE NOT EXISTS (SELECT 1 FROM teams t WHERE t.id = p.team AND t.name = 'red')",
    );
    assert!(plan.contains("anti join team = id") && plan.contains("name = 'red'"), "{plan}");
    let plan = explained("SELECT p.id FROM people p LEFT JOIN teams t ON p.team = t.id WHERE t.name = 'red'");
    assert!(plan.contains("inner join") && !plan.contains("left join"), "rows without a team don't pass: {plan}");
}

#[test]
fn operators_are_data_with_their_boxes_and_rows() {
    let text = "SELECT team, COUNT(*) FROM people GROUP BY team ORDER BY 2 DESC LIMIT 1";
    let plan = planned(text, &PlanOptions { threads: 3, parallel_rows: 2, ..PlanOptions::default() });
    let names: Vec<&str> = plan.nodes().iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["limit", "sort", "project", "aggregate", "scan"]);
    let parents: Vec<Option<usize>> = plan.nodes().iter().map(|node| node.parent).collect();
    assert_eq!(parents, [None, Some(0), Some(1), Some(2), Some(3)]);
    assert!(plan.nodes()[4].degree > 1 && !plan.is_short(), "{}", plan.explain());
    let boxes: usize = plan.nodes().iter().map(|node| node.boxes.len()).sum();
    // All but initialization, termination and the sink.
    assert_eq!(boxes, plan.model().boxes().len() - 3);
    let (outcome, counts) = sequential::run_counted(plan.model(), plan.start(), |_| Some(0));
    outcome.unwrap();
    let made: Vec<u64> = plan.nodes().iter().map(|node| node.done(&counts).rows).collect();
    assert_eq!(made, [1, 1, 4, 4, 6], "{}", plan.explain_with(&counts));
    assert!(
        plan.explain_with(&counts).contains("scan people (team) [team] ~6 rows, 6 actual"),
        "{}",
        plan.explain_with(&counts)
    );
    assert!(planned("SELECT 1", &PlanOptions::default()).is_short());
    assert!(plan.bytes() > 1000);
}

#[test]
fn columns_have_names_and_types() {
    let plan = planned(
        "SELECT p.name, score * 2, COUNT(*) AS c, MAX(born) FROM people p GROUP BY 1, 2",
        &PlanOptions::default(),
    );
    let columns: Vec<String> = plan.columns().iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
    assert_eq!(columns, ["name: varchar", "score * 2: double", "c: bigint", "MAX(born): date"]);
}

#[test]
fn a_plan_runs_any_number_of_times() {
    let (tables, options) = (people(), PlanOptions { threads: 4, parallel_rows: 1, ..PlanOptions::default() });
    for seed in 0..50 {
        let rows = answer(
            "SELECT SUM(p.id), COUNT(t.id) FROM people p LEFT JOIN teams t ON p.team = t.id",
            &tables,
            &options,
            seed,
        );
        assert_eq!(lines(&rows.unwrap()), ["21|4"]);
    }
}
