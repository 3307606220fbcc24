//! A dump: the quads of a snapshot as text, written in the order of the index, so it holds only a piece of the text.

use super::{Syntax, head, tail};
use crate::sink::format::Format;
use crate::sink::text::{Unwritable, cut};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use vicus_rdf::{Id, Order, Snapshot, TermKind, TermView};

/// Why quads could not be written.
#[derive(Clone, Debug)]
pub enum DumpError {
    /// The writer has refused.
    Io(Arc<io::Error>),
    /// The syntax has no way to write a triple.
    Unwritable(Unwritable),
    /// The syntax has no graphs, and the data has named ones.
    Graphs(Format),
    /// The data can't be read.
    Damaged(Arc<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DumpError::Io(error) => error.fmt(f),
            DumpError::Unwritable(error) => error.fmt(f),
            DumpError::Graphs(format) => {
                write!(f, "there are named graphs, which {} can't hold, but nq, trig and jsonld can", format.name())
            }
            DumpError::Damaged(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DumpError {}

impl From<io::Error> for DumpError {
    fn from(error: io::Error) -> DumpError {
        DumpError::Io(Arc::new(error))
    }
}

/// A piece of text is written when it has this number of bytes.
const PIECE_BYTES: usize = 1 << 18;

/// Writes all quads, or those of one graph ([`Id::UNBOUND`] is the default graph), in a syntax of RDF. A syntax with
/// graphs has the graph's name then, too. Prefixes are the given ones, and some for the namespaces of the data's
/// predicates. `pause` is called now and then with the number of quads written so far, and may end it by an error.
/// Returns the number of quads.
///
/// ```
/// use vicus_rdf::Snapshot;
/// use vicus_service::{Format, dump};
///
/// let data = Snapshot::of_turtle(b"<http://e/ann> <http://xmlns.com/foaf/0.1/name> 'Ann', 'A.' .", None).unwrap();
/// let mut text = Vec::new();
/// assert_eq!(dump(&data, None, Format::Turtle, &[], &mut text, &mut |_| Ok(())).unwrap(), 2);
/// let text = String::from_utf8(text).unwrap();
/// assert!(text.ends_with("<http://e/ann> foaf:name \"A.\" , \"Ann\" .\n"), "{text}");
/// ```
///
/// # Errors
/// The writer refuses, the syntax has no way to write a graph or a triple, or the data is damaged.
///
/// # Panics
/// The format is none of RDF.
pub fn dump(
    snapshot: &Snapshot,
    graph: Option<Id>,
    format: Format,
    prefixes: &[(String, String)],
    out: &mut dyn Write,
    pause: &mut dyn FnMut(usize) -> io::Result<()>,
) -> Result<usize, DumpError> {
    assert!(format.is_rdf(), "quads can't be written as {}", format.name());
    let has_graphs = matches!(format, Format::NQuads | Format::TriG | Format::JsonLd);
    if !has_graphs && graph.is_none() && snapshot.graphs().len() > 0 {
        return Err(DumpError::Graphs(format));
    }
    let written = snapshot.read_by(|| {
        let prefixes = with_known(prefixes, snapshot);
        write(snapshot, graph, has_graphs, format, &prefixes, out, pause)
    });
    written.map_err(|damage| DumpError::Damaged(damage.into()))?
}

/// An item of JSON-LD ends behind about this number of bytes, and another one goes on: readers hold an item as a whole.
const LONGEST_ITEM: usize = 1 << 20;

/// Checks that all bytes behind the text were there.
fn kept(snapshot: &Snapshot) -> Result<(), DumpError> {
    snapshot.check_kept().map_err(|lost| DumpError::Damaged(lost.into()))
}

fn write(
    snapshot: &Snapshot,
    graph: Option<Id>,
    has_graphs: bool,
    format: Format,
    prefixes: &[(String, String)],
    out: &mut dyn Write,
    pause: &mut dyn FnMut(usize) -> io::Result<()>,
) -> Result<usize, DumpError> {
    let index = snapshot.index(Order::Gspo);
    let rows = graph.map_or(0..index.len(), |graph| index.range(&[graph]));
    let (count, first) = (rows.len(), rows.start);
    let mut syntax = Syntax::new(format, prefixes);
    let mut text = String::with_capacity(PIECE_BYTES + (1 << 12));
    out.write_all(head(format, prefixes).as_bytes())?;
    // The comma before the first node object.
    let mut unwanted = if format == Format::JsonLd { super::jsonld::BETWEEN_NODES.len() } else { 0 };
    let mut entered = Id::UNBOUND;
    // Bytes of the current item of the list that is a document of JSON-LD, without the last piece.
    let mut item = 0;
    for row in rows {
        let [subject, predicate, object, graph] = index.quad(row);
        let is_long = format == Format::JsonLd && item >= LONGEST_ITEM;
        if has_graphs && (graph != entered || is_long) {
            item = 0;
            match graph.is_unbound() {
                true => syntax.enter(None, &mut text),
                false => snapshot.view(graph, |view| syntax.enter(Some(view), &mut text)),
            }
            entered = graph;
        }
        let ids = [subject, predicate, object];
        let mut write = |views: [TermView<'_>; 3]| syntax.triple(ids, views, &mut text);
        let written = snapshot.view(subject, |subject| {
            snapshot.view(predicate, |predicate| snapshot.view(object, |object| write([subject, predicate, object])))
        });
        written.map_err(|refused| DumpError::Unwritable(refused.told(ids.map(|id| snapshot.view(id, cut)))))?;
        if text.len() >= PIECE_BYTES {
            kept(snapshot)?;
            out.write_all(&text.as_bytes()[std::mem::take(&mut unwanted)..])?;
            item += text.len();
            text.clear();
            pause(row + 1 - first)?;
        }
    }
    if entered.is_unbound() {
        syntax.close(&mut text);
    } else {
        syntax.enter(None, &mut text);
        syntax.close(&mut text);
    }
    kept(snapshot)?;
    let text = if count > 0 { &text[unwanted..] } else { &text };
    out.write_all(text.as_bytes())?;
    out.write_all(tail(format).as_bytes())?;
    out.flush()?;
    pause(count)?;
    Ok(count)
}

/// Widely known names.
const KNOWN: [(&str, &str); 14] = [
    ("rdf", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"),
    ("rdfs", "http://www.w3.org/2000/01/rdf-schema#"),
    ("owl", "http://www.w3.org/2002/07/owl#"),
    ("xsd", "http://www.w3.org/2001/XMLSchema#"),
    ("skos", "http://www.w3.org/2004/02/skos/core#"),
    ("foaf", "http://xmlns.com/foaf/0.1/"),
    ("dc", "http://purl.org/dc/elements/1.1/"),
    ("dcterms", "http://purl.org/dc/terms/"),
    ("dcat", "http://www.w3.org/ns/dcat#"),
    ("prov", "http://www.w3.org/ns/prov#"),
    ("sh", "http://www.w3.org/ns/shacl#"),
    ("schema", "http://schema.org/"),
    ("geo", "http://www.w3.org/2003/01/geo/wgs84_pos#"),
    ("void", "http://rdfs.org/ns/void#"),
];

/// The most namespaces of the data with a prefix.
const MOST_PREFIXES: usize = 30;

/// The given prefixes, and more for the namespaces with the most triples among the predicates': widely known ones by
/// their usual names, others as `ns1` and so on.
fn with_known(given: &[(String, String)], snapshot: &Snapshot) -> Vec<(String, String)> {
    let mut prefixes = given.to_vec();
    let xsd = KNOWN[3];
    if prefixes.iter().all(|(name, namespace)| name != xsd.0 && namespace != xsd.1) {
        prefixes.push((xsd.0.to_owned(), xsd.1.to_owned()));
    }
    let mut namespaces: BTreeMap<String, u64> = BTreeMap::new();
    for predicate in snapshot.statistics().predicates().chain(snapshot.named_statistics().predicates()) {
        if predicate.id.kind() != TermKind::Iri {
            continue;
        }
        snapshot.key(predicate.id, |iri| {
            if let Some(end) = iri.rfind(['#', '/']).filter(|end| end + 1 < iri.len()) {
                *namespaces.entry(iri[..=end].to_owned()).or_default() += predicate.triples as u64;
            }
        });
    }
    let mut namespaces: Vec<(String, u64)> = namespaces.into_iter().collect();
    namespaces.sort_by(|(one, of_one), (other, of_other)| of_other.cmp(of_one).then_with(|| one.cmp(other)));
    let mut number = 0;
    for (namespace, _) in namespaces.into_iter().take(MOST_PREFIXES) {
        if prefixes.iter().any(|(_, other)| *other == namespace) {
            continue;
        }
        let is_free = |name: &str| prefixes.iter().all(|(other, _)| other != name);
        let known = KNOWN.iter().find(|(_, other)| *other == namespace).map(|(name, _)| (*name).to_owned());
        let name = known.filter(|name| is_free(name)).unwrap_or_else(|| {
            loop {
                number += 1;
                let name = format!("ns{number}");
                if is_free(&name) {
                    return name;
                }
            }
        });
        prefixes.push((name, namespace));
    }
    prefixes
}
