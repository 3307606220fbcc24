//! The W3C's suites for SPARQL 1.0, 1.1 and 1.2: texts to accept, texts to refuse, and queries with their results.
//!
//! Tests not passed are listed in `not-passed.txt`, by name and with the reason. The list is neither longer nor shorter
//! than needed: a listed test that passes is a failure, too.
#![expect(clippy::disallowed_methods, reason = "tests read files")]

mod compare;
#[path = "../sparql/made.rs"]
mod made;
mod manifest;
mod results;
mod updates;
#[path = "../sparql/updating.rs"]
mod updating;

use manifest::{Kind, Test};
use oxrdf::{Graph, NamedOrBlankNode, Term, Triple};
use results::{Answer, Row};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use vicus_flow::sequential;
use vicus_rdf::{Id, Snapshot};
use vicus_sparql::{
    Endpoints, Form, ParseOptions, PlanOptions, QueryError, QueryErrorKind, RunOptions, SolutionSink, parse_with, plan,
};

const NOT_PASSED: &str = include_str!("not-passed.txt");

/// Why a test may stand on the list.
const REASONS: [&str; 2] = ["needs entailment", "has the truth values of SPARQL 1.1"];

/// The folder of the suites in `VICUS_SHARED`, or in `shared` beside the repository; `None`, said aloud, if it is not
/// there.
fn suites() -> Option<PathBuf> {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
    let shared =
        std::env::var_os("VICUS_SHARED").map_or_else(|| Path::new(&here).join("../../../shared"), PathBuf::from);
    let folder = shared.join("rdf-tests/sparql");
    if !folder.is_dir() {
        println!("SKIPPED: {} is not there; set VICUS_SHARED to the folder with the test data", folder.display());
        return None;
    }
    Some(folder)
}

/// The error of a text that is not a query; a query refused for an unsupported feature is a query all the same.
fn syntax_error(text: &str, base: &str, rdf_12: bool) -> Option<QueryError> {
    let error = parse_with(text, &ParseOptions { base: Some(base), rdf_12, ..ParseOptions::default() }).err()?;
    (error.kind == QueryErrorKind::Syntax).then_some(error)
}

fn text_of(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The data of a default graph and of named graphs, in snapshots made in all ways.
fn stores_of(data: &[PathBuf], graphs: &[PathBuf]) -> Result<[Arc<Snapshot>; made::WAYS], String> {
    let mut lines = String::new();
    for (file, path) in data.iter().chain(graphs).enumerate() {
        // Blank nodes of two files are different ones.
        let prefix = format!("d{file}");
        let name = if file < data.len() { String::new() } else { format!(" <{}>", manifest::iri(path)) };
        for quad in results::quads(path, &manifest::iri(path))? {
            let own = if quad.graph_name.is_default_graph() { name.clone() } else { format!(" {}", quad.graph_name) };
            writeln!(lines, "{}{own} .", renamed(&prefix, quad.into())).expect("a string takes everything");
        }
    }
    Ok(std::array::from_fn(|way| made::in_way(&lines, way)))
}

fn renamed(prefix: &str, mut triple: Triple) -> Triple {
    if let Term::Triple(inner) = triple.object {
        triple.object = renamed(prefix, *inner).into();
    }
    let rename = |node: &oxrdf::BlankNode| oxrdf::BlankNode::new_unchecked(format!("{prefix}{}", node.as_str()));
    if let oxrdf::NamedOrBlankNode::BlankNode(node) = &triple.subject {
        triple.subject = rename(node).into();
    }
    if let Term::BlankNode(node) = &triple.object {
        triple.object = rename(node).into();
    }
    triple
}

/// Endpoints served by this engine. The expected results are the suite's.
struct Local {
    snapshots: BTreeMap<String, Arc<Snapshot>>,
    options: PlanOptions,
    rdf_12: bool,
}

impl Endpoints for Local {
    fn ask(
        &self,
        endpoint: &str,
        query: &str,
        _: &dyn Fn() -> bool,
        found: SolutionSink<'_>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let snapshot = self.snapshots.get(endpoint).ok_or("there is no such endpoint")?;
        let others = Arc::new(Local { snapshots: self.snapshots.clone(), ..*self });
        let Answer::Rows { variables, rows, .. } = answer(snapshot, query, endpoint, &self.options, &others)? else {
            return Err("an endpoint is asked for solutions".into());
        };
        for row in rows {
            let bound = variables.iter().zip(row).filter_map(|(name, term)| Some((name.as_str(), term?)));
            found(&bound.collect::<Vec<_>>());
        }
        Ok(())
    }
}

fn answer(
    snapshot: &Arc<Snapshot>,
    text: &str,
    base: &str,
    options: &PlanOptions,
    endpoints: &Arc<Local>,
) -> Result<Answer, String> {
    let rdf_12 = endpoints.rdf_12;
    let parsed = parse_with(text, &ParseOptions { base: Some(base), rdf_12, ..ParseOptions::default() })
        .map_err(|error| error.to_string())?;
    let plan = plan(snapshot, &parsed, options).map_err(|error| error.to_string())?;
    let run = plan.start_with(RunOptions { endpoints: Some(Arc::clone(endpoints) as _), ..RunOptions::default() });
    let (send, receive) = mpsc::channel();
    let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?));
    sequential::run(plan.model(), run.operators([(plan.sink(), sink)]), |_| 0).map_err(|error| error.to_string())?;
    let mut rows: Vec<Row> = Vec::new();
    for envelope in receive {
        for row in 0..envelope.rows() {
            let bits = envelope.columns().iter().map(|column| column.u64s()[row]);
            rows.push(bits.map(|bits| (bits != 0).then(|| run.term(Id::from_bits(bits)))).collect());
        }
    }
    Ok(match plan.form() {
        Form::Ask => Answer::Boolean(!rows.is_empty()),
        Form::Select { variables } => Answer::Rows { variables: variables.clone(), rows, ordered: false },
        Form::Construct | Form::Describe => {
            let triples: Result<Graph, String> = rows.into_iter().map(triple).collect();
            Answer::graph(triples?)
        }
    })
}

fn triple(row: Row) -> Result<Triple, String> {
    match <[Option<Term>; 3]>::try_from(row) {
        Ok([Some(subject), Some(Term::NamedNode(predicate)), Some(object)]) => {
            let subject: NamedOrBlankNode = match subject {
                Term::NamedNode(node) => node.into(),
                Term::BlankNode(node) => node.into(),
                other => return Err(format!("{other} is a subject")),
            };
            Ok(Triple { subject, predicate, object })
        }
        other => Err(format!("{other:?} is no triple")),
    }
}

/// Runs a test; returns the failure.
fn run(test: &Test) -> Result<(), String> {
    let text = text_of(&test.query)?;
    let base = manifest::iri(&test.query);
    let rdf_12 = test.name.starts_with("sparql12/");
    match test.kind {
        Kind::PositiveUpdateSyntax => updates::syntax_error(&text, &base, rdf_12).map_or(Ok(()), Err),
        Kind::NegativeUpdateSyntax => {
            updates::syntax_error(&text, &base, rdf_12).map(|_| ()).ok_or_else(|| "it was accepted".to_owned())
        }
        Kind::UpdateEvaluation => updates::run(test, &text, &base, rdf_12),
        Kind::PositiveSyntax => syntax_error(&text, &base, rdf_12).map_or(Ok(()), |error| Err(error.to_string())),
        Kind::NegativeSyntax => {
            syntax_error(&text, &base, rdf_12).map(|_| ()).ok_or_else(|| "it was accepted".to_owned())
        }
        Kind::Evaluation => {
            let snapshots = stores_of(&test.data, &test.graphs)?;
            let services = test.services.iter();
            let services =
                services.map(|(endpoint, data)| Ok((endpoint.clone(), stores_of(std::slice::from_ref(data), &[])?)));
            let services: BTreeMap<String, [Arc<Snapshot>; made::WAYS]> = services.collect::<Result<_, String>>()?;
            let of_way =
                |way: usize| services.iter().map(|(name, made)| (name.clone(), Arc::clone(&made[way]))).collect();
            let result = test.result.as_ref().ok_or("no expected result is named")?;
            let expected = results::read(result, &manifest::iri(result))?;
            for (way, snapshot) in snapshots.iter().enumerate() {
                for (optimise, envelope_rows) in [(true, 1), (true, 2048), (false, 1), (false, 2048)] {
                    let options = PlanOptions { optimise, envelope_rows, ..PlanOptions::default() };
                    let endpoints = Arc::new(Local { snapshots: of_way(way), options, rdf_12 });
                    let found = answer(snapshot, &text, &base, &options, &endpoints)?;
                    compare::compare(&found, &expected, result.extension().is_some_and(|name| name == "csv"))
                        .map_err(|difference| format!("way {way}, optimise: {optimise}: {difference}"))?;
                }
            }
            Ok(())
        }
    }
}

/// The suite of SPARQL 1.2, packed beside the tests (`../data/README.md`), unpacked.
fn unpacked() -> PathBuf {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sparql12.gz");
    let mut all = Vec::new();
    let packed = std::fs::File::open(&file).expect("it is packed");
    flate2::read::GzDecoder::new(packed).read_to_end(&mut all).expect("it is whole");
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("rdf-tests/sparql/sparql12");
    let mut rest = &all[..];
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == b'\n').expect("a line says what comes");
        let (name, length) =
            str::from_utf8(&rest[..end]).expect("ASCII").rsplit_once(' ').expect("a name and a length");
        let (text, more) = rest[end + 1..].split_at(length.parse().expect("a length"));
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for it");
        std::fs::write(path, text).expect("a file for it");
        rest = more;
    }
    folder
}

#[test]
fn all_tests_but_the_listed_ones_pass() {
    let folder = suites();
    let mut suites = vec![(unpacked(), 250)];
    if let Some(folder) = &folder {
        suites.extend(["sparql10", "sparql11"].map(|suite| (folder.join(suite), 400)));
    }
    let listed: BTreeMap<&str, &str> = NOT_PASSED
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split_once('\t').unwrap_or_else(|| panic!("{line}: no reason")))
        .collect();
    let mut wrong = Vec::new();
    let mut unknown = listed.clone();
    unknown.retain(|name, _| folder.is_some() || name.starts_with("sparql12/"));
    for (folder, least) in suites {
        let suite = folder.file_name().expect("a suite has a name").to_string_lossy().into_owned();
        let tests = manifest::tests(&folder);
        let mut counts: BTreeMap<Kind, (usize, usize)> = BTreeMap::new();
        for test in &tests {
            let outcome = std::panic::catch_unwind(|| run(test)).unwrap_or_else(|_| Err("it panicked".to_owned()));
            let (passed, total) = counts.entry(test.kind).or_default();
            *total += 1;
            *passed += usize::from(outcome.is_ok());
            unknown.remove(test.name.as_str());
            match (outcome, listed.get(test.name.as_str())) {
                (Err(error), None) => wrong.push(format!("{}\t{error}", test.name)),
                (Ok(()), Some(_)) => wrong.push(format!("{}\tpasses, and is listed", test.name)),
                _ => {}
            }
        }
        for (kind, (passed, total)) in counts {
            println!("{suite}: {kind:?}: {passed} of {total}");
        }
        assert!(tests.len() > least, "only {} tests were found in {suite}", tests.len());
    }
    wrong.extend(unknown.keys().map(|name| format!("{name}\tis listed, and there is no such test")));
    wrong.extend(listed.values().filter(|reason| !REASONS.contains(reason)).map(|reason| format!("reason: {reason}")));
    assert!(wrong.is_empty(), "{} tests:\n{}", wrong.len(), wrong.join("\n"));
}
