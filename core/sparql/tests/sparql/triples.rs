//! CONSTRUCT and DESCRIBE: with all settings, random ones give the triples that follow from the naive evaluator's
//! solutions.

use crate::made;
use crate::naive::{self, Solution};
use crate::random::{PREDICATES, SUBJECTS, Writer, data_of, graph, settings};
use crate::rows::{Chance, Row, rows_of};
use oxrdf::graph::CanonicalizationAlgorithm;
use oxrdf::{BlankNode, Graph, NamedNode, NamedOrBlankNode, Term, Triple};
use oxttl::NTriplesParser;
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};
use spargebra::{Query, SparqlParser};
use std::collections::BTreeSet;
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{Form, PlanOptions, parse, plan};

/// A triple, if its terms are allowed in their places. The graph's own blank nodes become IRIs, to tell them apart from
/// new ones and from each other.
fn triple([subject, predicate, object]: [Term; 3]) -> Option<Triple> {
    let known = |term: Term| match term {
        Term::BlankNode(node) if ["x", "y"].contains(&node.as_str()) => {
            NamedNode::new_unchecked(format!("known:{}", node.as_str())).into()
        }
        other => other,
    };
    let subject: NamedOrBlankNode = match known(subject) {
        Term::NamedNode(node) => node.into(),
        Term::BlankNode(node) => node.into(),
        Term::Literal(_) | Term::Triple(_) => return None,
    };
    let Term::NamedNode(predicate) = predicate else { return None };
    Some(Triple { subject, predicate, object: known(object) })
}

/// SPARQL 1.1, §16.2, for all solutions.
fn constructed(template: &[TriplePattern], solutions: &[Solution]) -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    for (number, solution) in solutions.iter().enumerate() {
        for pattern in template {
            let end = |end: &TermPattern| match end {
                TermPattern::Triple(_) => unreachable!("there are none"),
                TermPattern::NamedNode(node) => Some(node.clone().into()),
                TermPattern::Literal(literal) => Some(literal.clone().into()),
                TermPattern::BlankNode(node) => {
                    Some(BlankNode::new_unchecked(format!("s{number}_{}", node.as_str())).into())
                }
                TermPattern::Variable(variable) => solution.get(variable.as_str()).cloned(),
            };
            let predicate = match &pattern.predicate {
                NamedNodePattern::NamedNode(node) => Some(node.clone().into()),
                NamedNodePattern::Variable(variable) => solution.get(variable.as_str()).cloned(),
            };
            if let (Some(a), Some(b), Some(c)) = (end(&pattern.subject), predicate, end(&pattern.object)) {
                made.extend(triple([a, b, c]).map(|triple| triple.to_string()));
            }
        }
    }
    made
}

/// All triples with these subjects; then those with the blank nodes among their objects as subjects, and so on.
fn described(data: &[Triple], resources: impl IntoIterator<Item = Term>) -> BTreeSet<String> {
    let (mut made, mut open, mut seen) = (BTreeSet::new(), Vec::from_iter(resources), Vec::new());
    while let Some(resource) = open.pop() {
        if seen.contains(&resource) {
            continue;
        }
        for one in data.iter().filter(|one| Term::from(one.subject.clone()) == resource) {
            made.extend(
                triple([resource.clone(), one.predicate.clone().into(), one.object.clone()]).map(|t| t.to_string()),
            );
            open.extend(Some(one.object.clone()).filter(Term::is_blank_node));
        }
        seen.push(resource);
    }
    made
}

fn canonical(triples: impl IntoIterator<Item = String>) -> Graph {
    let text: String = triples.into_iter().map(|triple| triple + " .\n").collect();
    let mut graph: Graph = NTriplesParser::new().for_slice(&text).collect::<Result<_, _>>().expect("good triples");
    graph.canonicalize(CanonicalizationAlgorithm::Unstable);
    graph
}

/// Compares the engine's triples with the expected ones.
fn compare(seed: u64, data: &str, text: &str, expected: &BTreeSet<String>) {
    let snapshot = made::in_way(data, seed as usize % made::WAYS);
    let parsed = parse(text).unwrap_or_else(|error| panic!("seed {seed}: {text}: {error}"));
    for options in settings() {
        let plan = plan(&snapshot, &parsed, options).expect("supported");
        let mut order = Chance::new(seed ^ 77);
        let rows: Vec<Row> = rows_of(&plan, |_| order.next() as usize);
        let story = || format!("seed {seed}, {options:?}\n{text}\n{data}\n{}", plan.explain());
        let found = rows.into_iter().map(|row| {
            let terms: Option<Vec<Term>> = row.into_iter().collect();
            let terms = terms.and_then(|terms| <[Term; 3]>::try_from(terms).ok());
            terms.and_then(triple).unwrap_or_else(|| panic!("{}: an ill-formed triple", story())).to_string()
        });
        let found: Vec<String> = found.collect();
        let set: BTreeSet<String> = found.iter().cloned().collect();
        assert_eq!(found.len(), set.len(), "{}: a triple came twice\n{found:#?}", story());
        assert_eq!(found.len(), expected.len(), "{}\nfound {found:#?}\nexpected {expected:#?}", story());
        let is_plain = !expected.iter().any(|triple| triple.contains("_:"));
        // Many similar blank nodes make canonical names slow to find.
        if is_plain {
            assert_eq!(&set, expected, "{}", story());
        } else if expected.len() <= 24 {
            assert_eq!(canonical(set), canonical(expected.iter().cloned()), "{}", story());
        }
    }
}

/// The solutions of `SELECT *` with a pattern; `None` if it can't be compared.
fn solutions_of(data: &[Triple], pattern: &str) -> Option<Vec<Solution>> {
    let Query::Select { pattern, .. } = SparqlParser::new().parse_query(&format!("SELECT * {{ {pattern} }}")).ok()?
    else {
        unreachable!("a SELECT")
    };
    naive::evaluate(data, &pattern)
}

fn check_construct(seed: u64) -> bool {
    let mut chance = Chance::new(seed);
    let text = graph(&mut chance);
    let data = data_of(&text);
    let mut writer = Writer { chance: &mut chance, bound: 0, graphs: false };
    let mut template = String::new();
    for _ in 0..1 + writer.chance.below(4) {
        let mut end = |literals: bool| match writer.chance.below(9) {
            0 => "_:l".to_owned(),
            1 => "_:m".to_owned(),
            2 if literals => "\"lit\"@en".to_owned(),
            2 | 3 => SUBJECTS[writer.chance.below(4)].to_owned(),
            _ => writer.variable().to_owned(),
        };
        let (subject, object) = (end(false), end(true));
        let predicate = if writer.chance.one_in(3) { writer.variable() } else { writer.chance.pick(&PREDICATES) };
        template += &format!("{subject} {predicate} {object} . ");
    }
    let pattern = writer.group(1);
    let Some(solutions) = solutions_of(&data, &pattern) else { return false };
    let query = format!("CONSTRUCT {{ {template} }} WHERE {{ {pattern} }}");
    let Ok(Query::Construct { template, .. }) = SparqlParser::new().parse_query(&query) else { return false };
    compare(seed, &text, &query, &constructed(&template, &solutions));
    true
}

#[test]
fn random_templates_make_the_triples_of_the_naive_solutions() {
    let seeds = 300;
    let checked = (0..seeds).filter(|&seed| check_construct(seed)).count();
    println!("seeds 0..{seeds}: {checked} queries were checked");
    assert!(checked as u64 > seeds / 2, "most random queries are good ones, but only {checked} were");
}

fn check_describe(seed: u64) -> bool {
    let mut chance = Chance::new(seed);
    let text = graph(&mut chance);
    let data = data_of(&text);
    let mut writer = Writer { chance: &mut chance, bound: 0, graphs: false };
    let mut pattern = writer.group(1);
    let is_unranked = writer.chance.one_in(2);
    if is_unranked {
        pattern += &writer.recomputed("?computed");
    }
    let Some(solutions) = solutions_of(&data, &pattern) else { return false };
    let (mut resources, mut named): (Vec<Term>, String) = (Vec::new(), String::new());
    let is_star = writer.chance.one_in(4);
    if is_star {
        named.push('*');
        // Only names are in scope, no blank nodes.
        let names = solutions.iter().flatten().filter(|(name, _)| !name.starts_with("_:"));
        resources.extend(names.map(|(_, term)| term.clone()));
    } else {
        for _ in 0..1 + writer.chance.below(3) {
            if writer.chance.one_in(3) {
                let iri = writer.chance.pick(&SUBJECTS[..4]);
                resources.push(NamedNode::new_unchecked(iri.trim_matches(['<', '>'])).into());
                named += iri;
            } else {
                let variable = if is_unranked && writer.chance.one_in(2) { "?computed" } else { writer.variable() };
                resources.extend(solutions.iter().filter_map(|solution| solution.get(&variable[1..]).cloned()));
                named += variable;
            }
            named.push(' ');
        }
    }
    let query = format!("DESCRIBE {named} WHERE {{ {pattern} }}");
    compare(seed, &text, &query, &described(&data, resources));
    true
}

#[test]
fn random_descriptions_are_those_of_the_naive_solutions() {
    let seeds = 300;
    let checked = (0..seeds).filter(|&seed| check_describe(seed)).count();
    println!("seeds 0..{seeds}: {checked} queries were checked");
    assert!(checked as u64 > seeds / 2, "most random queries are good ones, but only {checked} were");
}

fn triples_of(data: &str, text: &str) -> Vec<String> {
    let snapshot = Arc::new(Snapshot::of_turtle(data.as_bytes(), Some("http://e/")).expect("good Turtle"));
    let plan = plan(&snapshot, &parse(text).expect("good SPARQL"), PlanOptions::default()).expect("supported");
    assert!(plan.form().is_graph());
    let line = |row: Row| row.into_iter().map(|term| term.expect("bound").to_string()).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = rows_of(&plan, |_| 0).into_iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn a_solution_has_blank_nodes_of_its_own_and_no_triple_comes_twice() {
    let data = "<a> <p> 1 , 2 . <b> <p> 1 .";
    let text = "PREFIX : <http://e/> CONSTRUCT { ?s a :Thing . [] :of ?s } { ?s :p ?o } ORDER BY ?s ?o";
    let found = triples_of(data, text);
    let of = |subject: &str| {
        found.iter().filter(|line| line.ends_with(&format!("<http://e/of> <http://e/{subject}>"))).count()
    };
    assert_eq!((of("a"), of("b"), found.len()), (2, 1, 5), "{found:#?}");
    // LIMIT counts solutions, not triples.
    assert_eq!(triples_of(data, &format!("{text} LIMIT 1")).len(), 2);
    // The short form: blank nodes of the pattern are variables, and of the template new ones.
    let short = triples_of("<a> <p> [ <q> 1 ] .", "CONSTRUCT WHERE { ?s ?p _:x . _:x ?q ?o }");
    assert!(short.len() == 2 && short.iter().all(|line| line.contains("_:new_")), "{short:#?}");
    assert!(
        triples_of(
            data,
            "CONSTRUCT { 1 ?p ?s . ?s \"x\" ?o . ?s ?p ?never } { ?s ?p ?o }".replace("\"x\"", "?o").as_str()
        )
        .is_empty()
    );
    assert!(triples_of(data, "CONSTRUCT { } { ?s ?p ?o }").is_empty());
    // A variable outside the groups' keys has no value.
    assert_eq!(
        triples_of(data, "CONSTRUCT { ?s <http://e/q> ?s . ?s <http://e/q> ?o } { ?s ?p ?o } GROUP BY ?s").len(),
        2
    );
}

#[test]
fn a_description_goes_through_blank_nodes_in_circles_and_no_further() {
    let data = "<a> <p> _:x , <b> . _:x <p> _:y , 1 . _:y <p> _:x , <a> , <c> . <b> <p> 2 . <c> <p> 3 .";
    assert_eq!(triples_of(data, "DESCRIBE <http://e/a>").len(), 7);
    assert_eq!(
        triples_of(data, "DESCRIBE <http://e/b>"),
        ["<http://e/b> <http://e/p> \"2\"^^<http://www.w3.org/2001/XMLSchema#integer>"]
    );
    assert_eq!(triples_of(data, "DESCRIBE <http://e/nowhere> <http://e/b>").len(), 1);
    assert_eq!(triples_of(data, "DESCRIBE ?s { ?s <http://e/p> 3 }").len(), 1);
    assert_eq!(triples_of(data, "DESCRIBE * { ?s <http://e/p> ?o }").len(), 9);
    assert!(triples_of(data, "DESCRIBE ?none { ?s <http://e/p> ?o }").is_empty());
    // Named resources are described for any result of the pattern.
    assert_eq!(triples_of(data, "DESCRIBE <http://e/b> ?s { ?s <http://e/q> ?o }").len(), 1);
    assert!(triples_of(data, "DESCRIBE *").is_empty());
}

/// A resource whose IRI was computed had no description: its id was taken for that of a term which is nowhere in the
/// data.
#[test]
fn a_resource_whose_iri_is_computed_is_described() {
    let data = "<a> <p> 1 . <b> <p> 2 .";
    let one = ["<http://e/a> <http://e/p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer>"];
    assert_eq!(triples_of(data, "DESCRIBE ?x { BIND (IRI(CONCAT('http://e/', 'a')) AS ?x) }"), one);
    // Computed for each of two rows, described once.
    assert_eq!(triples_of(data, "DESCRIBE ?x { ?s <http://e/p> ?o BIND (IRI(CONCAT('http://e/', 'a')) AS ?x) }"), one);
    assert!(triples_of(data, "DESCRIBE ?x { BIND (IRI(CONCAT('http://e/', 'none')) AS ?x) }").is_empty());
}

#[test]
fn the_form_is_known_before_there_is_data() {
    for (text, form) in [
        ("CONSTRUCT WHERE { ?s ?p ?o }", Form::Construct),
        ("DESCRIBE <http://e/a>", Form::Describe),
        ("ASK { }", Form::Ask),
        ("SELECT ?o (1 AS ?n) { ?s ?p ?o }", Form::Select { variables: vec!["o".to_owned(), "n".to_owned()] }),
    ] {
        assert_eq!(parse(text).expect("good SPARQL").form(), form);
    }
}
