//! The expected result of a test, in any of the suites' formats.

use oxrdf::graph::CanonicalizationAlgorithm;
use oxrdf::vocab::rdf;
use oxrdf::{Graph, GraphName, NamedNode, NamedOrBlankNodeRef, Quad, Term, TermRef, Triple};
use oxrdfxml::RdfXmlParser;
use oxttl::{TriGParser, TurtleParser};
use sparesults::{QueryResultsFormat, QueryResultsParser, SliceQueryResultsParserOutput};
use std::path::Path;

pub(crate) type Row = Vec<Option<Term>>;

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a test has few of them")]
pub(crate) enum Answer {
    Boolean(bool),
    Rows {
        variables: Vec<String>,
        rows: Vec<Row>,
        ordered: bool,
    },
    /// With canonical names of blank nodes.
    Graph(Graph),
}

impl Answer {
    pub(crate) fn graph(mut graph: Graph) -> Answer {
        graph.canonicalize(CanonicalizationAlgorithm::Unstable);
        Answer::Graph(graph)
    }
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The triples of a Turtle or RDF/XML file.
pub(crate) fn graph(path: &Path, base: &str) -> Result<Vec<Triple>, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if extension(path) == "rdf" {
        let parser = RdfXmlParser::new().with_base_iri(base).expect("an IRI");
        parser.for_slice(&text).collect::<Result<_, _>>().map_err(|error| wrong(&error))
    } else {
        let parser = TurtleParser::new().with_base_iri(base).expect("an IRI");
        parser.for_slice(&text).collect::<Result<_, _>>().map_err(|error| wrong(&error))
    }
}

/// The quads of a TriG or N-Quads file, or the triples of another one in the default graph.
pub(crate) fn quads(path: &Path, base: &str) -> Result<Vec<Quad>, String> {
    if !["trig", "nq"].contains(&extension(path)) {
        let triples = graph(path, base)?.into_iter();
        return Ok(triples.map(|triple| triple.in_graph(GraphName::DefaultGraph)).collect());
    }
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let parser = TriGParser::new().with_base_iri(base).expect("an IRI");
    parser.for_slice(&text).collect::<Result<_, _>>().map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn read(path: &Path, base: &str) -> Result<Answer, String> {
    let format = match extension(path) {
        "srx" => QueryResultsFormat::Xml,
        "srj" => QueryResultsFormat::Json,
        "csv" => return of_csv(path),
        "tsv" => QueryResultsFormat::Tsv,
        _ => return of_graph(&graph(path, base)?.into_iter().collect()),
    };
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let parser = QueryResultsParser::from_format(format).for_slice(&text).map_err(|error| error.to_string())?;
    Ok(match parser {
        SliceQueryResultsParserOutput::Boolean(value) => Answer::Boolean(value),
        SliceQueryResultsParserOutput::Solutions(solutions) => {
            let variables = solutions.variables().iter().map(|variable| variable.as_str().to_owned()).collect();
            let mut rows = Vec::new();
            for solution in solutions {
                rows.push(solution.map_err(|error| error.to_string())?.values().to_vec());
            }
            Answer::Rows { variables, rows, ordered: false }
        }
    })
}

/// A table of texts. CSV doesn't tell the kind of a term.
fn of_csv(path: &Path) -> Result<Answer, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines: Vec<Vec<String>> = vec![vec![String::new()]];
    let mut quoted = false;
    let mut chars = text.chars().filter(|char| *char != '\r').peekable();
    while let Some(char) = chars.next() {
        let line = lines.last_mut().expect("there is always a line");
        match char {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => line.last_mut().expect("and a cell").push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => line.push(String::new()),
            '\n' if !quoted => lines.push(vec![String::new()]),
            other => line.last_mut().expect("and a cell").push(other),
        }
    }
    if text.ends_with('\n') {
        lines.pop();
    }
    let mut lines = lines.into_iter();
    let variables = lines.next().ok_or("no head")?;
    let cell = |text: String| {
        Some(match text.strip_prefix("_:") {
            Some(label) => oxrdf::BlankNode::new_unchecked(label).into(),
            None => oxrdf::Literal::new_simple_literal(text).into(),
        })
    };
    let rows = lines.map(|line| line.into_iter().map(cell).collect()).collect();
    Ok(Answer::Rows { variables, rows, ordered: false })
}

/// A result set as the working group wrote them before there was a format.
fn of_graph(graph: &Graph) -> Result<Answer, String> {
    let word =
        |word: &str| NamedNode::new_unchecked(format!("http://www.w3.org/2001/sw/DataAccess/tests/result-set#{word}"));
    let Some(set) = graph.subject_for_predicate_object(rdf::TYPE, word("ResultSet").as_ref()) else {
        // The triples of a CONSTRUCT.
        return Ok(Answer::graph(graph.clone()));
    };
    if let Some(TermRef::Literal(value)) = graph.object_for_subject_predicate(set, word("boolean").as_ref()) {
        return Ok(Answer::Boolean(value.value() == "true"));
    }
    let node = |term| match term {
        TermRef::BlankNode(node) => Ok(NamedOrBlankNodeRef::BlankNode(node)),
        TermRef::NamedNode(node) => Ok(NamedOrBlankNodeRef::NamedNode(node)),
        other => Err(format!("{other} where a node is expected")),
    };
    let text = |term: Option<TermRef<'_>>| match term {
        Some(TermRef::Literal(literal)) => Some(literal.value().to_owned()),
        _ => None,
    };
    let variables: Vec<String> = graph
        .objects_for_subject_predicate(set, word("resultVariable").as_ref())
        .filter_map(|term| text(Some(term)))
        .collect();
    let mut rows: Vec<(usize, Row)> = Vec::new();
    let mut ordered = false;
    for solution in graph.objects_for_subject_predicate(set, word("solution").as_ref()) {
        let solution = node(solution)?;
        let mut row = vec![None; variables.len()];
        for binding in graph.objects_for_subject_predicate(solution, word("binding").as_ref()) {
            let binding = node(binding)?;
            let name = text(graph.object_for_subject_predicate(binding, word("variable").as_ref()));
            let place = variables.iter().position(|variable| Some(variable) == name.as_ref()).ok_or("no variable")?;
            row[place] = graph.object_for_subject_predicate(binding, word("value").as_ref()).map(TermRef::into_owned);
        }
        let index = text(graph.object_for_subject_predicate(solution, word("index").as_ref()));
        ordered |= index.is_some();
        rows.push((index.and_then(|index| index.parse().ok()).unwrap_or(0), row));
    }
    rows.sort_by_key(|(index, _)| *index);
    Ok(Answer::Rows { variables, rows: rows.into_iter().map(|(_, row)| row).collect(), ordered })
}
