//! Updates: random programs against a set of quads and the naive evaluator, and the effect of single operations.

use crate::naive::{self, Dataset, Solution};
use crate::random::{self, GRAPHS, PREDICATES, SUBJECTS, Writer};
use crate::rows::Chance;
use crate::updating::{self, lines_of, nothing, snapshot_of};
use oxrdf::{NamedNode, Term, Triple};
use oxttl::NTriplesParser;
use spargebra::algebra::QueryDataset;
use spargebra::{Query, SparqlParser};
use std::collections::BTreeSet;
use std::sync::Arc;
use vicus_sparql::{PlanOptions, QueryErrorKind, parse, parse_update, plan};

/// A quad as texts; the default graph is the empty text.
type Line = [String; 4];

/// One operation of a random program.
enum Operation {
    Data { insert: bool, quads: Vec<Line> },
    Clear(&'static str),
    Transfer { how: &'static str, from: &'static str, to: &'static str },
    Modify(Modify),
}

/// Templates with variables, and a pattern.
struct Modify {
    with: Option<&'static str>,
    /// The graphs of USING, and whether they are named.
    using: Vec<(bool, &'static str)>,
    delete: Vec<Line>,
    insert: Vec<Line>,
    pattern: String,
}

/// Quads as a template writes them.
fn blocks(quads: &[Line]) -> String {
    let block = |[s, p, o, g]: &Line| match g.as_str() {
        "" => format!("{s} {p} {o} . "),
        graph => format!("GRAPH {graph} {{ {s} {p} {o} }} "),
    };
    quads.iter().map(block).collect()
}

fn graph_word(graph: &str) -> String {
    if graph.is_empty() { "DEFAULT".to_owned() } else { format!("GRAPH {graph}") }
}

impl Operation {
    fn random(chance: &mut Chance) -> Operation {
        let named = |chance: &mut Chance| if chance.one_in(3) { "" } else { chance.pick(&GRAPHS) };
        match chance.below(10) {
            0 | 1 => {
                let insert = chance.one_in(2);
                let mut writer = Writer { chance, bound: 0, graphs: false };
                let count = 1 + writer.chance.below(4);
                let quads = (0..count).map(|_| {
                    let (s, p) = (writer.chance.pick(&SUBJECTS[..4]), writer.chance.pick(&PREDICATES));
                    [s, p, writer.constant(), named(writer.chance)].map(str::to_owned)
                });
                Operation::Data { insert, quads: quads.collect() }
            }
            2 => Operation::Clear(chance.pick(&["", GRAPHS[0], GRAPHS[4], "NAMED", "ALL"])),
            3 => {
                let how = chance.pick(&["ADD", "COPY", "MOVE"]);
                Operation::Transfer { how, from: named(chance), to: named(chance) }
            }
            _ => {
                let graphs = chance.one_in(2);
                let mut writer = Writer { chance, bound: 0, graphs };
                let mut pattern = writer.group(1);
                let is_unranked = writer.chance.one_in(2);
                if is_unranked {
                    pattern += &writer.recomputed("?computed");
                }
                let template = |writer: &mut Writer<'_>| {
                    let variable = |writer: &mut Writer<'_>| match is_unranked && writer.chance.one_in(2) {
                        true => "?computed",
                        false => writer.variable(),
                    };
                    let quads = (0..1 + writer.chance.below(3)).map(|_| {
                        let subject = if writer.chance.one_in(4) { SUBJECTS[0] } else { variable(writer) };
                        let predicate = match writer.chance.one_in(3) {
                            true => variable(writer),
                            false => writer.chance.pick(&PREDICATES),
                        };
                        let object = if writer.chance.one_in(4) { writer.constant() } else { variable(writer) };
                        let graph = match writer.chance.below(6) {
                            0 => variable(writer),
                            1 | 2 => writer.chance.pick(&GRAPHS),
                            _ => "",
                        };
                        [subject, predicate, object, graph].map(str::to_owned)
                    });
                    quads.collect::<Vec<Line>>()
                };
                let (delete, insert) = (template(&mut writer), template(&mut writer));
                let with = writer.chance.one_in(3).then(|| writer.chance.pick(&GRAPHS));
                let count = if writer.chance.one_in(3) { 1 + writer.chance.below(3) } else { 0 };
                let using = (0..count).map(|_| (writer.chance.one_in(2), writer.chance.pick(&GRAPHS))).collect();
                let (delete, insert) = match writer.chance.below(3) {
                    0 => (delete, Vec::new()),
                    1 => (Vec::new(), insert),
                    _ => (delete, insert),
                };
                Operation::Modify(Modify { with, using, delete, insert, pattern })
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Operation::Data { insert, quads } => {
                format!("{} DATA {{ {} }}", if *insert { "INSERT" } else { "DELETE" }, blocks(quads))
            }
            Operation::Clear(all @ ("NAMED" | "ALL")) => format!("CLEAR {all}"),
            Operation::Clear(graph) => format!("DROP SILENT {}", graph_word(graph)),
            Operation::Transfer { how, from, to } => {
                format!("{how} SILENT {} TO {}", graph_word(from), graph_word(to))
            }
            Operation::Modify(Modify { with, using, delete, insert, pattern }) => {
                let part = |word: &str, quads: &[Line]| match quads {
                    [] => String::new(),
                    quads => format!("{word} {{ {} }} ", blocks(quads)),
                };
                let with = with.map(|graph| format!("WITH {graph} ")).unwrap_or_default();
                let using =
                    using.iter().map(|(named, graph)| format!("USING {}{graph} ", if *named { "NAMED " } else { "" }));
                let using: String = using.collect();
                format!("{with}{}{}{using}WHERE {{ {pattern} }}", part("DELETE", delete), part("INSERT", insert))
            }
        }
    }

    /// Its effect on a set of quads, as the specification says; `None` if it has no answer common to all engines.
    fn apply(&self, quads: &BTreeSet<Line>) -> Option<BTreeSet<Line>> {
        let mut after = quads.clone();
        match self {
            Operation::Data { insert: true, quads } => after.extend(quads.iter().map(known)),
            Operation::Data { insert: false, quads } => {
                quads.iter().for_each(|quad| _ = after.remove(&known(quad)));
            }
            Operation::Clear("ALL") => after.clear(),
            Operation::Clear("NAMED") => after.retain(|quad| quad[3].is_empty()),
            Operation::Clear(graph) => after.retain(|quad| quad[3] != *graph),
            Operation::Transfer { how, from, to } => {
                let exists = from.is_empty() || quads.iter().any(|quad| quad[3] == *from);
                if exists && from != to {
                    if *how != "ADD" {
                        after.retain(|quad| quad[3] != *to);
                    }
                    let copied = quads.iter().filter(|quad| quad[3] == *from);
                    let copied = copied.map(|[s, p, o, _]| [s.clone(), p.clone(), o.clone(), (*to).to_owned()]);
                    after.extend(copied.collect::<Vec<Line>>());
                    if *how == "MOVE" {
                        after.retain(|quad| quad[3] != *from);
                    }
                }
            }
            Operation::Modify(modify) => {
                let solutions = solutions(quads, modify)?;
                let filled = |template: &[Line]| {
                    let of = |solution| template.iter().filter_map(move |quad| filled(quad, modify.with, solution));
                    solutions.iter().flat_map(of).collect::<Vec<Line>>()
                };
                filled(&modify.delete).iter().for_each(|quad| _ = after.remove(quad));
                after.extend(filled(&modify.insert));
            }
        }
        Some(after)
    }
}

/// A quad's terms as oxrdf writes them.
fn known(quad: &Line) -> Line {
    quad.clone().map(|text| match text.as_str() {
        "" => text,
        text => term(text).to_string(),
    })
}

fn term(text: &str) -> Term {
    let line = format!("<http://e/s> <http://e/p> {text} .");
    let triple = NTriplesParser::new().for_slice(line.as_bytes()).next().expect("a triple");
    triple.unwrap_or_else(|error| panic!("{text}: {error}")).object
}

fn triples<'q>(quads: impl Iterator<Item = &'q Line>) -> Vec<Triple> {
    let text: String = quads.map(|[s, p, o, _]| format!("{s} {p} {o} .\n")).collect();
    NTriplesParser::new().for_slice(text.as_bytes()).collect::<Result<_, _>>().expect("good N-Triples")
}

/// The naive evaluator's solutions over the graphs named by the operation: SPARQL 1.1 Update, §3.1.3.
fn solutions(quads: &BTreeSet<Line>, modify: &Modify) -> Option<Vec<Solution>> {
    let of = |graph: &str| triples(quads.iter().filter(|quad| quad[3] == graph));
    let names: BTreeSet<&str> = quads.iter().map(|quad| quad[3].as_str()).filter(|name| !name.is_empty()).collect();
    let all = Dataset {
        default: of(modify.with.unwrap_or_default()),
        named: names.into_iter().map(|name| (term(name), of(name))).collect(),
    };
    let chosen = |is_named: bool| -> Vec<NamedNode> {
        let graphs = modify.using.iter().filter(|(named, _)| *named == is_named);
        graphs.map(|(_, graph)| NamedNode::new_unchecked(graph.trim_matches(['<', '>']))).collect()
    };
    let dataset = match &modify.using[..] {
        [] => all,
        _ => all.chosen(&QueryDataset { default: chosen(false), named: Some(chosen(true)) }),
    };
    let query = SparqlParser::new().parse_query(&format!("SELECT * {{ {} }}", modify.pattern)).ok()?;
    let Query::Select { pattern, .. } = query else { unreachable!("it is a SELECT") };
    naive::evaluate_in(&dataset, &pattern)
}

/// A template's quad for a solution, if all of it is bound to terms allowed there. WITH names the graph of quads
/// without one.
fn filled(quad: &Line, with: Option<&str>, solution: &Solution) -> Option<Line> {
    let mut made: Vec<String> = Vec::with_capacity(4);
    for (place, text) in quad.iter().enumerate() {
        let value = match text.strip_prefix('?') {
            Some(name) => solution.get(name)?.clone(),
            None if text.is_empty() => {
                made.push(with.unwrap_or_default().to_owned());
                continue;
            }
            None => term(text),
        };
        let may_stand = match place {
            0 => !value.is_literal(),
            1 => value.is_named_node(),
            2 => true,
            _ => !value.is_literal(),
        };
        if !may_stand {
            return None;
        }
        made.push(value.to_string());
    }
    Some(made.try_into().expect("four parts"))
}

fn lines(quads: &BTreeSet<Line>) -> BTreeSet<String> {
    quads.iter().map(|quad| quad.join(" ").trim_end().to_owned()).collect()
}

/// SPARQL 1.1 Update, §3 and §4: each operation sees the effect of those before it; deletes happen before inserts;
/// impossible quads of a template are left out.
#[test]
fn random_programs_do_to_quads_what_the_specification_says() {
    let mut compared = 0;
    for seed in 0..400 {
        let mut chance = Chance::new(seed);
        let mut quads: BTreeSet<Line> = BTreeSet::new();
        for graph in ["", GRAPHS[0], GRAPHS[1]] {
            let text = random::graph(&mut chance);
            let triples = NTriplesParser::new().for_slice(text.as_bytes()).map(|triple| triple.expect("a triple"));
            quads.extend(triples.map(|triple| {
                [triple.subject.to_string(), triple.predicate.to_string(), triple.object.to_string(), graph.to_owned()]
            }));
        }
        let before = snapshot_of(lines(&quads));
        let program: Vec<Operation> = (0..1 + chance.below(4)).map(|_| Operation::random(&mut chance)).collect();
        let text = program.iter().map(Operation::text).collect::<Vec<_>>().join(" ;\n");
        let differs = |operation: &Operation| match operation {
            Operation::Modify(Modify { pattern, .. }) => {
                let query = parse(&format!("SELECT * {{ {pattern} }}")).ok();
                let planned = query.and_then(|query| plan(&before, &query, PlanOptions::default()).ok());
                planned.is_none_or(|plan| plan.may_differ())
            }
            _ => false,
        };
        if program.iter().any(differs) {
            continue;
        }
        let Some(expected) = program.iter().try_fold(quads, |quads, operation| operation.apply(&quads)) else {
            continue;
        };
        let Ok(update) = parse_update(&text) else { continue };
        let small = PlanOptions { envelope_rows: 2, parallel_rows: 0, threads: 3, sinks: 3, ..PlanOptions::default() };
        for options in [small, PlanOptions { optimise: false, ..PlanOptions::default() }] {
            let about = format!("seed {seed}, optimise: {}\n{text}\n{:#?}", options.optimise, lines_of(&before));
            let after = updating::updated(&before, &update, &options, seed, &nothing);
            let after = after.unwrap_or_else(|error| panic!("{error}: {about}"));
            after.assert_valid();
            assert_eq!(lines_of(&after), lines(&expected), "{about}");
        }
        compared += 1;
    }
    println!("{compared} programs");
    assert!(compared > 200, "{compared} were compared");
}

fn updated(quads: &[&str], text: &str) -> Result<BTreeSet<String>, String> {
    let update = parse_update(text).map_err(|error| error.to_string())?;
    let after = updating::updated(&snapshot_of(quads), &update, &PlanOptions::default(), 1, &nothing)?;
    Ok(lines_of(&after))
}

fn set(quads: &[&str]) -> BTreeSet<String> {
    quads.iter().map(|line| (*line).to_owned()).collect()
}

const A: &str = "<http://e/a> <http://e/p> \"1\"";
const B: &str = "<http://e/b> <http://e/p> \"2\"";
const IN_G: &str = "<http://e/a> <http://e/p> \"3\" <http://e/g>";

#[test]
fn an_operation_that_fails_ends_the_update() {
    let quads = [A, IN_G];
    for (text, says) in [
        ("CLEAR ALL ; INSERT DATA { <http://e/x> <http://e/p> 1 } ; DELETE { ?s ?p } WHERE {}", "line 1, column 74"),
        ("CLEAR DEFAULT ; CREATE GRAPH <http://e/g>", "the graph <http://e/g> is there already"),
        ("CLEAR ALL ; COPY <http://e/none> TO DEFAULT", "there is no graph <http://e/none>"),
        ("CLEAR ALL ; LOAD <http://e/none>", "http://e/none can't be had"),
    ] {
        let done = updated(&quads, text);
        assert!(done.as_ref().is_err_and(|error| error.contains(says)), "{text}: {done:?}");
    }
    // SILENT: the rest happens.
    for text in [
        "CREATE SILENT GRAPH <http://e/g>",
        "COPY SILENT <http://e/none> TO <http://e/g>",
        "LOAD SILENT <http://e/none>",
    ] {
        assert_eq!(updated(&quads, &format!("{text} ; CLEAR DEFAULT")), Ok(set(&[IN_G])), "{text}");
    }
    // A graph without quads does not exist: CLEAR and DROP of it succeed, CREATE of it as well, and then it still does
    // not.
    for text in [
        "CLEAR GRAPH <http://e/none>",
        "DROP GRAPH <http://e/none>",
        "CREATE GRAPH <http://e/none>",
        "ADD DEFAULT TO DEFAULT",
    ] {
        assert_eq!(updated(&quads, text), Ok(set(&quads)), "{text}");
    }
    let error = updated(&quads, "CREATE GRAPH <http://e/new> ; MOVE <http://e/new> TO DEFAULT").unwrap_err();
    assert!(error.contains("there is no graph <http://e/new>"), "{error}");
}

/// SPARQL 1.1 Update, §4.1.4: blank nodes of a template are new ones for each solution, and those of INSERT DATA are
/// new ones.
#[test]
fn blank_nodes_of_templates_are_new_ones() {
    let after =
        updated(&[A, B], "INSERT { _:x <http://e/of> ?s . _:x <http://e/v> ?o , _:y } WHERE { ?s <http://e/p> ?o }")
            .unwrap();
    let blanks: BTreeSet<&str> =
        after.iter().flat_map(|line| line.split(' ')).filter(|term| term.starts_with("_:")).collect();
    assert_eq!((after.len(), blanks.len()), (8, 4), "{after:?}");
    // The same text again makes others, also with the same seed.
    let update = parse_update("INSERT DATA { _:x <http://e/p> _:y } ; INSERT DATA { _:z <http://e/p> _:z }").unwrap();
    let mut all = snapshot_of([""; 0]);
    for round in 1..=4 {
        all = updating::updated(&all, &update, &PlanOptions::default(), 1, &nothing).unwrap();
        assert_eq!(all.len(), 2 * round, "{:?}", lines_of(&all));
    }
    // Nodes made or found by the pattern stay the same.
    let text = "INSERT { ?s <http://e/q> ?b . ?b <http://e/r> ?s } WHERE { ?s ?p ?o BIND (BNODE(STR(?o)) AS ?b) }";
    let after = updated(&["_:old <http://e/p> \"1\"", B], text).unwrap();
    let made = after.iter().filter(|line| line.contains("/q>")).map(|line| line.rsplit(' ').next().unwrap());
    for blank in made {
        assert!(after.iter().any(|line| line.starts_with(&format!("{blank} <http://e/r>"))), "{after:?}");
    }
    assert_eq!(after.len(), 6, "{after:?}");
    assert!(after.iter().any(|line| line.starts_with("_:old <http://e/q> _:")), "{after:?}");
}

/// Computed terms are stored, and unknown ones are not deleted.
#[test]
fn templates_take_terms_of_the_data_and_computed_ones() {
    let text = "DELETE { ?s <http://e/p> ?o } INSERT { ?s <http://e/p> ?n ; <http://e/l> ?l } \
                WHERE { ?s <http://e/p> ?o BIND (CONCAT(?o, \"0\") AS ?n) BIND (STRLEN(?o) AS ?l) }";
    let after = updated(&[A, B], text).unwrap();
    let integer = "^^<http://www.w3.org/2001/XMLSchema#integer>";
    let expected: BTreeSet<String> = [("a", "10"), ("b", "20")]
        .iter()
        .flat_map(|(s, n)| {
            [format!("<http://e/{s}> <http://e/p> \"{n}\""), format!("<http://e/{s}> <http://e/l> \"1\"{integer}")]
        })
        .collect();
    assert_eq!(after, expected);
    let text = "DELETE { ?s <http://e/p> ?n } WHERE { ?s <http://e/p> ?o BIND (CONCAT(?o, \"0\") AS ?n) }";
    assert_eq!(updated(&[A, B], text), Ok(set(&[A, B])));
    // The same quad deleted and inserted stays.
    let text = "DELETE { ?s ?p ?o } INSERT { ?s ?p ?o } WHERE { ?s ?p ?o }";
    assert_eq!(updated(&[A, B], text), Ok(set(&[A, B])));
    // Without variables: once for any solution, with new blank nodes for each.
    assert_eq!(updated(&[A, B], "INSERT { <http://e/c> <http://e/p> 1 } WHERE { ?s ?p ?o }").unwrap().len(), 3);
    assert_eq!(updated(&[A, B], "INSERT { [] <http://e/p> 1 } WHERE { ?s ?p ?o }").unwrap().len(), 4);
    assert_eq!(updated(&[A, B], "INSERT { <http://e/c> <http://e/p> 1 } WHERE { ?s ?p 7 }").unwrap().len(), 2);
    // A literal is neither a subject nor a graph.
    assert_eq!(
        updated(&[A], "INSERT { ?o <http://e/q> ?s . GRAPH ?o { ?s ?p ?o } } WHERE { ?s ?p ?o }"),
        Ok(set(&[A]))
    );
    let into = updated(&[A], "INSERT { GRAPH ?s { ?s ?p ?o } } WHERE { ?s ?p ?o }").unwrap();
    assert_eq!(into, set(&[A, &format!("{A} <http://e/a>")]));
}

/// DELETE left quads in the data when its solutions had computed their terms: an id that a run makes for a computed
/// term was taken for that of a term which is nowhere in the data.
#[test]
fn computed_terms_that_are_in_the_data_are_deleted() {
    let quads = ["<http://e/a> <http://e/p> \"ab\"", "<http://e/a> <http://e/q> \"AB\""];
    let left = &quads[1..];
    for computed in [
        "<http://e/a> ?y ?o BIND (CONCAT('a', 'b') AS ?x) FILTER (?o = ?x)",
        "<http://e/a> <http://e/q> ?o BIND (LCASE(?o) AS ?x) BIND (<http://e/p> AS ?y)",
        "<http://e/a> <http://e/p> ?x BIND (IRI(CONCAT('http://e/', 'p')) AS ?y)",
        "BIND (CONCAT('a', 'b') AS ?x) BIND (IRI(CONCAT('http://e/', 'p')) AS ?y)",
    ] {
        let delete = format!("DELETE {{ <http://e/a> ?y ?x }} WHERE {{ {computed} }}");
        assert_eq!(updated(&quads, &delete), Ok(set(left)), "{delete}");
        // Inserted again, each has its former id.
        let both = format!(
            "DELETE {{ <http://e/a> ?y ?x }} INSERT {{ <http://e/a> ?y ?x }} WHERE {{ {computed} ?s ?any ?x }}"
        );
        assert_eq!(updated(&quads, &both), Ok(set(&quads)), "{both}");
    }
    let moved = "DELETE { ?s ?p ?x } INSERT { ?s <http://e/r> ?x } WHERE { ?s ?p ?o BIND (LCASE(?o) AS ?x) } ; \
                 DELETE { ?s ?p ?x } WHERE { ?s ?p ?o BIND (CONCAT('a', 'b') AS ?x) }";
    assert_eq!(updated(&quads, moved), Ok(set(left)));
}

#[test]
fn a_document_is_loaded_with_blank_nodes_of_its_own() {
    let load = |text: &str, document: &[&str]| {
        let (before, document) = (snapshot_of(["_:x <http://e/p> \"old\""]), snapshot_of(document));
        let update = parse_update(text).unwrap();
        let after = updating::updated(&before, &update, &PlanOptions::default(), 3, &|_| Ok(Arc::clone(&document)));
        after.map(|after| lines_of(&after))
    };
    let twice = "LOAD <http://e/d> ; LOAD <http://e/d> INTO GRAPH <http://e/g>";
    let all = load(twice, &["_:x <http://e/p> _:y", A]).unwrap();
    let blanks: BTreeSet<&str> =
        all.iter().flat_map(|line| line.split(' ')).filter(|term| term.starts_with("_:")).collect();
    assert_eq!((all.len(), blanks.len()), (5, 5), "{all:?}");
    assert!(all.contains(A) && all.contains(&format!("{A} <http://e/g>")), "{all:?}");
    // A document with graphs keeps them, and is no single graph.
    let all = load("LOAD <http://e/d>", &[IN_G, A]).unwrap();
    assert!(all.len() == 3 && all.contains(IN_G) && all.contains(A), "{all:?}");
    let error = load("LOAD <http://e/d> INTO GRAPH <http://e/h>", &[IN_G, A]).unwrap_err();
    assert!(error.contains("the document has named graphs"), "{error}");
}

/// The text is checked as a whole, with the limits of queries.
#[test]
fn limits_hold_for_updates() {
    let deep =
        format!("CLEAR ALL ; DELETE {{ ?s ?p ?o }} WHERE {{ {} ?s ?p ?o {} }}", "{".repeat(2000), "}".repeat(2000));
    assert_eq!(parse_update(&deep).err().unwrap().kind, QueryErrorKind::TooDeep);
    let long = format!("INSERT DATA {{ <http://e/s> <http://e/p> \"{}\" }}", "x".repeat(65 << 20));
    assert_eq!(parse_update(&long).err().unwrap().kind, QueryErrorKind::TooLong);
    let error = parse_update("INSERT DATA { <g h> <http://e/p> 1 }").err().unwrap();
    assert_eq!(error.kind, QueryErrorKind::Syntax);
    let error = parse_update("INSERT DATA { GRAPH <no-iri> { <http://e/s> <http://e/p> 1 } }").err().unwrap();
    assert!(error.message.contains("is no IRI"), "{error}");
}
