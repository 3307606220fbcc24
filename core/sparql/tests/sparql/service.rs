//! SERVICE: an endpoint with the same data answers as the group itself would; the questions to it, and the effect of
//! failures.

use crate::random::{self, Writer};
use crate::rows::{Chance, Row};
use crate::updating::snapshot_of;
use std::error::Error;
use std::sync::{Arc, Mutex, mpsc};
use vicus_flow::sequential;
use vicus_rdf::{Id, Snapshot};
use vicus_sparql::{
    Endpoints, Form, Moment, PlanOptions, QueryLimits, QueryOptions, RunOptions, SolutionSink, SparqlPlan, parse, plan,
};

/// Answers each question from a snapshot, and notes it.
struct Local {
    snapshot: Arc<Snapshot>,
    asked: Mutex<Vec<(String, String)>>,
}

impl Local {
    fn new(snapshot: &Arc<Snapshot>) -> Arc<Local> {
        Arc::new(Local { snapshot: Arc::clone(snapshot), asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl Endpoints for Local {
    fn ask(
        &self,
        endpoint: &str,
        query: &str,
        _: &dyn Fn() -> bool,
        found: SolutionSink<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.asked.lock().unwrap().push((endpoint.to_owned(), query.to_owned()));
        if endpoint.ends_with("down") {
            return Err("it does not answer".into());
        }
        let plan = plan(&self.snapshot, &parse(query)?, PlanOptions::default())?;
        let Form::Select { variables } = plan.form() else { return Err("no SELECT".into()) };
        for row in rows(&plan, None)? {
            let bound = variables.iter().zip(row).filter_map(|(name, term)| Some((name.as_str(), term?)));
            found(&bound.collect::<Vec<_>>());
            if endpoint.ends_with("half") {
                return Err("it ended in the middle".into());
            }
        }
        Ok(())
    }
}

fn rows(plan: &SparqlPlan, endpoints: Option<&Arc<Local>>) -> Result<Vec<Row>, String> {
    let run = match endpoints {
        Some(endpoints) => {
            plan.start_with(RunOptions { endpoints: Some(Arc::clone(endpoints) as _), ..RunOptions::default() })
        }
        None => plan.start(Moment::default()),
    };
    let (send, receive) = mpsc::channel();
    let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?));
    sequential::run(plan.model(), run.operators([(plan.sink(), sink)]), |_| 0).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for envelope in receive {
        let term = |bits: u64| (bits != 0).then(|| run.term(Id::from_bits(bits)));
        for row in 0..envelope.rows() {
            rows.push(envelope.columns().iter().map(|column| term(column.u64s()[row])).collect());
        }
    }
    Ok(rows)
}

fn answer(
    snapshot: &Arc<Snapshot>,
    text: &str,
    options: &QueryOptions,
    endpoints: &Arc<Local>,
) -> Result<Vec<String>, String> {
    let plan =
        plan(snapshot, &parse(text).map_err(|error| error.to_string())?, options).map_err(|error| error.to_string())?;
    let mut rows: Vec<String> = rows(&plan, Some(endpoints))?.iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    Ok(rows)
}

/// SPARQL 1.1 Federated Query, §2.4: the solutions of SERVICE are those that the endpoint has for the group. So with
/// the endpoint's data in a graph here, the query with GRAPH in place of SERVICE has the same answer. Only the data
/// here has blank nodes: those of an endpoint are its own.
#[test]
fn an_endpoint_answers_as_a_graph_with_its_data_would() {
    let mut compared = 0;
    for seed in 0..600 {
        let mut chance = Chance::new(seed);
        let data = random::graph(&mut chance);
        let lines: Vec<&str> = data.lines().map(|line| line.trim_end_matches(" .")).collect();
        let theirs: Vec<&str> = lines.iter().copied().filter(|line| !line.contains("_:")).collect();
        let endpoints = Local::new(&snapshot_of(&theirs));
        let ours = lines.iter().map(|line| (*line).to_owned());
        let snapshot = snapshot_of(ours.chain(theirs.iter().map(|line| format!("{line} <http://e/there>"))));
        let rows = 1 + chance.below(4);
        let mut writer = Writer { chance: &mut chance, bound: 0, graphs: false };
        let (before, group, after) = (writer.group(0), writer.group(1), writer.group(0));
        // Rows with values, gaps, and both; some twice.
        let mut table = String::new();
        for _ in 0..1 + writer.chance.below(6) {
            let mut value =
                || if writer.chance.one_in(2) { "UNDEF" } else { writer.chance.pick(&random::SUBJECTS[..3]) };
            table += &format!("({} {}) ", value(), value());
        }
        let (one, other) = writer.chance.pick(&[("?a", "?b"), ("?c", "?a"), ("?b", "?d")]);
        let table = format!("VALUES ({one} {other}) {{ {table}}}");
        let form = writer.chance.below(6);
        let of = |group: &str| match form {
            0 => format!("SELECT * {{ {before} {group} }}"),
            1 => format!("SELECT * {{ {group} {after} }}"),
            2 => format!("SELECT * {{ {before} OPTIONAL {{ {group} }} {after} }}"),
            3 => format!("SELECT * {{ {before} OPTIONAL {{ {after} }} {group} }}"),
            4 => format!("SELECT * {{ {table} {group} }}"),
            _ => format!("SELECT * {{ {table} OPTIONAL {{ {before} }} OPTIONAL {{ {group} }} }}"),
        };
        let (there, here) =
            (of(&format!("SERVICE <http://e/s> {{ {group} }}")), of(&format!("GRAPH <http://e/there> {{ {group} }}")));
        let options = QueryOptions {
            limits: QueryLimits { service_rows: rows, ..QueryLimits::default() },
            ..QueryOptions::default()
        };
        let naive = QueryOptions { common: PlanOptions { optimise: false, ..PlanOptions::default() }, ..options };
        let Ok(parsed) = parse(&here) else { continue };
        let Ok(planned) = plan(&snapshot, &parsed, naive) else { continue };
        if planned.may_differ() {
            continue;
        }
        let expected = answer(&snapshot, &here, &naive, &endpoints);
        for options in [options, naive] {
            let found = answer(&snapshot, &there, &options, &endpoints);
            assert_eq!(found, expected, "seed {seed}, optimise: {}\n{there}\n{data}", options.common.optimise);
        }
        compared += 1;
    }
    println!("{compared} were compared");
    assert!(compared > 300, "{compared} were compared");
}

/// Rows with and without a value were asked about together, the latter as UNDEF. Such a line goes with all solutions,
/// so the endpoint sent each several times, and each was joined again with each row that it fits: three rows came
/// instead of one, and five instead of three.
#[test]
fn rows_with_gaps_multiply_no_solutions() {
    let endpoints =
        Local::new(&snapshot_of(["<http://e/a> <http://e/label> \"A\"", "<http://e/z> <http://e/label> \"Z\""]));
    let ours = ["<http://e/a>", "_:b1", "_:b2", "<http://e/c>"];
    let snapshot = snapshot_of(ours.map(|object| format!("<http://e/x> <http://e/p> {object}")));
    let service = "SERVICE <http://e/s> { ?o <http://e/label> ?l }";
    for (before, expected, questions) in [
        ("?s <http://e/p> ?o", 1, 2),
        ("VALUES ?o { <http://e/a> UNDEF }", 3, 2),
        ("VALUES ?o { UNDEF UNDEF <http://e/a> <http://e/a> }", 6, 2),
        // Labels are asked for with the first, with the second, and with none.
        ("VALUES (?o ?l) { (<http://e/a> UNDEF) (UNDEF \"A\") (UNDEF UNDEF) (<http://e/a> \"Z\") }", 4, 4),
    ] {
        let rows =
            answer(&snapshot, &format!("SELECT * {{ {before} {service} }}"), &QueryOptions::default(), &endpoints);
        assert_eq!(rows.as_ref().map(Vec::len), Ok(expected), "{before}: {rows:#?}");
        let asked = endpoints.asked();
        assert_eq!(asked.len(), questions, "{before}: {asked:#?}");
        assert!(asked.iter().all(|(_, query)| !query.contains("UNDEF")), "{asked:#?}");
    }
}

fn four() -> Arc<Snapshot> {
    let text =
        b"<http://e/a> <http://e/p> \"1\" .\n<http://e/b> <http://e/p> \"1\" .\n<http://e/c> <http://e/p> \"2\"@en .\n\
        _:d <http://e/p> \"3\" .\n";
    Arc::new(Snapshot::of_ntriples(text).expect("good N-Triples"))
}

/// Values are sent once each, in blocks, without blank nodes; the prefixes go with them.
#[test]
fn an_endpoint_is_given_the_values_that_its_group_shares() {
    let snapshot = four();
    let endpoints = Local::new(&snapshot);
    let text = "PREFIX e: <http://e/> SELECT * { ?s e:p ?o SERVICE <http://e/s> { ?t e:p ?o } }";
    let options =
        QueryOptions { limits: QueryLimits { service_rows: 2, ..QueryLimits::default() }, ..QueryOptions::default() };
    assert_eq!(answer(&snapshot, text, &options, &endpoints).unwrap().len(), 6);
    let asked = endpoints.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    for (endpoint, query) in &asked {
        assert_eq!(endpoint, "http://e/s");
        assert!(query.starts_with("PREFIX e: <http://e/>\nSELECT ?o ?t WHERE { VALUES (?o ) {"), "{query}");
        assert!(query.ends_with("} { ?t e:p ?o } }"), "{query}");
    }
    let values: usize = asked.iter().map(|(_, query)| query.matches('"').count() / 2).sum();
    assert_eq!(values, 3, "{asked:?}");
    // A blank node is not sent, and goes with no other one.
    let text = "PREFIX e: <http://e/> SELECT * { ?s e:p \"3\" SERVICE <http://e/s> { ?s e:p ?o } }";
    assert_eq!(answer(&snapshot, text, &QueryOptions::default(), &endpoints).unwrap().len(), 0);
    assert!(endpoints.asked()[0].1.ends_with("WHERE { { ?s e:p ?o } }"));
    // No rows, no question.
    let text = "SELECT * { ?s <http://e/none> ?o SERVICE <http://e/s> { ?s ?p ?o } }";
    assert_eq!(answer(&snapshot, text, &QueryOptions::default(), &endpoints).unwrap().len(), 0);
    assert_eq!(endpoints.asked().len(), 0);
}

#[test]
fn a_variable_names_the_endpoint_of_each_row() {
    let text = b"<http://e/a> <http://e/at> <http://e/s1> .\n<http://e/b> <http://e/at> <http://e/s2> .\n";
    let snapshot = Arc::new(Snapshot::of_ntriples(text).expect("good N-Triples"));
    let endpoints = Local::new(&snapshot);
    for text in [
        "SELECT * { ?s <http://e/at> ?e SERVICE ?e { ?s ?p ?o } }",
        "SELECT * { ?s <http://e/at> ?e OPTIONAL { SERVICE ?e { ?s ?p ?o } } }",
    ] {
        assert_eq!(answer(&snapshot, text, &QueryOptions::default(), &endpoints).unwrap().len(), 2, "{text}");
        let asked: Vec<String> = endpoints.asked().into_iter().map(|(endpoint, _)| endpoint).collect();
        assert_eq!(asked, ["http://e/s1", "http://e/s2"]);
    }
    for (text, says) in [
        ("SELECT * { SERVICE ?e { ?s ?p ?o } }", "its variable has no value"),
        ("SELECT * { BIND (1 AS ?e) SERVICE ?e { ?s ?p ?o } }", "which is no IRI"),
    ] {
        let error = answer(&snapshot, text, &QueryOptions::default(), &endpoints).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

/// §2.3: SILENT makes a failure one solution without values; what came before the failure does not count.
#[test]
fn an_endpoint_that_fails_ends_the_query_or_is_left_out() {
    let snapshot = four();
    let endpoints = Local::new(&snapshot);
    for (endpoint, says) in [("down", "it does not answer"), ("half", "it ended in the middle")] {
        let text =
            |silent: &str| format!("SELECT * {{ ?s ?p ?o SERVICE {silent} <http://e/{endpoint}> {{ ?s ?q ?r }} }}");
        let error = answer(&snapshot, &text(""), &QueryOptions::default(), &endpoints).unwrap_err();
        assert!(error.contains(&format!("SERVICE <http://e/{endpoint}>: {says}")), "{error}");
        let rows = answer(&snapshot, &text("SILENT"), &QueryOptions::default(), &endpoints).unwrap();
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|row| row.matches("None").count() == 2), "{rows:?}");
    }
    // Without endpoints.
    let plan = plan(&snapshot, &parse("ASK { SERVICE <http://e/s> {} }").unwrap(), QueryOptions::default()).unwrap();
    assert!(rows(&plan, None).unwrap_err().contains("SERVICE <http://e/s>: this run can ask no endpoint"));
    assert!(plan.explain().contains("service <http://e/s>"));
}
