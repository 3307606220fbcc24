//! Triples as text in the syntaxes of RDF, written while the query runs; several threads may do so at once, each in
//! whole statements. A dump of quads (`dump.rs`) is written by one.

mod dump;
mod jsonld;
mod names;
mod ntriples;
mod rdfxml;

pub use dump::{DumpError, dump};

use super::format::Format;
use super::syntax::{NotInXml, most_bytes};
use super::text::{Ready, TextSink, Unwritable};
use oxrdf::{GraphName, NamedOrBlankNode, QuadRef, Term};
use oxttl::TriGSerializer;
use oxttl::trig::LowLevelTriGSerializer;
use std::io::{self, Write};
use vicus::{BoxError, Envelope, Turn};
use vicus_rdf::{Id, TermView};
use vicus_sparql::QueryRun;

/// Why a triple can't be written.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Refused {
    /// XML has no such character.
    Character(NotInXml),
    /// RDF/XML writes a predicate as the name of an element, and this IRI doesn't end with one.
    Predicate,
    /// JSON-LD 1.1 has no triple terms.
    Triple,
}

impl From<NotInXml> for Refused {
    fn from(character: NotInXml) -> Refused {
        Refused::Character(character)
    }
}

/// A syntax, and the last statement written in it.
enum Syntax {
    /// N-Triples, and N-Quads with the graph's name.
    Lines(String),
    JsonLd {
        /// The subject and predicate of the open statement.
        last: Option<[Id; 2]>,
        graph: JsonGraph,
    },
    RdfXml {
        /// The subject of the open element.
        last: Option<Id>,
        names: rdfxml::Names,
    },
    /// Turtle, and TriG; the subject and predicate as terms, by their ids.
    TriG {
        /// A serializer that has written nothing. A used one goes on behind its end as if the last statement were open.
        fresh: Box<TriGSerializer>,
        serializer: Box<LowLevelTriGSerializer>,
        graph: GraphName,
        subject: Option<(Id, NamedOrBlankNode)>,
        predicate: Option<(Id, oxrdf::NamedNode)>,
        prefixes: Vec<(String, String)>,
    },
}

/// The place of the next node object of JSON-LD.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonGraph {
    /// Into the default graph.
    Default,
    /// Into a named graph's list, as the first one.
    Begun,
    /// Behind another in a named graph's list.
    Named,
}

/// The triples of one box as text.
pub(super) struct Triples {
    syntax: Syntax,
    ready: Ready,
}

/// The text before all triples.
pub(super) fn head(format: Format, prefixes: &[(String, String)]) -> String {
    match format {
        Format::JsonLd => jsonld::HEAD.to_owned(),
        Format::RdfXml => rdfxml::Names::of(prefixes).head(),
        _ => String::new(),
    }
}

/// The text behind all triples.
pub(super) fn tail(format: Format) -> &'static str {
    match format {
        Format::JsonLd => jsonld::TAIL,
        Format::RdfXml => rdfxml::TAIL,
        _ => "",
    }
}

impl Triples {
    /// `prefixes` may abbreviate IRIs.
    pub(super) fn new(format: Format, prefixes: &[(String, String)]) -> Triples {
        let syntax = Syntax::new(format, prefixes);
        let separator = if format == Format::JsonLd { jsonld::BETWEEN_NODES.len() } else { 0 };
        Triples { syntax, ready: Ready::new(separator) }
    }

    /// Adds the triples of an envelope from one on, and writes the finished text. Returns the triple to go on from
    /// later, if the box has been paused.
    pub(super) fn take<W: Write + Send + 'static>(
        &mut self,
        sink: &TextSink<W>,
        run: &QueryRun,
        envelope: &Envelope,
        from: usize,
        turn: &mut Turn<'_>,
    ) -> Result<Option<usize>, BoxError> {
        if envelope.is_pill() {
            return self.write(sink, turn).map(|()| None);
        }
        let columns: Vec<&[u64]> = envelope.columns().iter().map(|column| column.u64s()).collect();
        let [subjects, predicates, objects] = columns[..] else { unreachable!("a triple has three terms") };
        for row in from..envelope.rows() {
            let (subject, predicate, object) = (subjects[row], predicates[row], objects[row]);
            let ids = [subject, predicate, object].map(Id::from_bits);
            let Triples { syntax, ready } = self;
            let done = ready.with_room(turn, |ready| {
                of_views(run, ids, |views @ [subject, predicate, object]| {
                    // A name in RDF/XML is written twice.
                    let wanted = most_bytes("", subject) + 2 * most_bytes("", predicate) + most_bytes("", object);
                    Ok(syntax.triple(ids, views, ready.room_for(wanted)?))
                })
            })?;
            done.map_err(|refused| refused.told(ids.map(|id| run.view(id, super::text::cut))))?;
            if self.ready.is_much() {
                self.write(sink, turn)?;
                if turn.is_stopped() {
                    return Ok(None);
                }
                if sink.pauses(turn) {
                    return Ok(Some(row + 1));
                }
            }
        }
        if self.ready.is_enough() {
            self.write(sink, turn)?;
        }
        self.ready.book(turn)?;
        Ok(sink.pauses(turn).then_some(envelope.rows()))
    }

    fn write<W: Write + Send + 'static>(&mut self, sink: &TextSink<W>, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        self.syntax.close(&mut self.ready.text);
        Ok(self.ready.write(sink, turn)?)
    }
}

/// Looks at three terms at once.
fn of_views<R>(run: &QueryRun, ids: [Id; 3], look: impl FnOnce([TermView<'_>; 3]) -> R) -> R {
    let [subject, predicate, object] = ids;
    run.view(subject, |subject| {
        run.view(predicate, |predicate| run.view(object, |object| look([subject, predicate, object])))
    })
}

impl Syntax {
    /// `prefixes` may abbreviate IRIs.
    fn new(format: Format, prefixes: &[(String, String)]) -> Syntax {
        match format {
            Format::JsonLd => Syntax::JsonLd { last: None, graph: JsonGraph::Default },
            Format::RdfXml => Syntax::RdfXml { last: None, names: rdfxml::Names::of(prefixes) },
            Format::Turtle | Format::TriG => {
                let mut serializer = TriGSerializer::new();
                for (name, iri) in prefixes {
                    // A prefix without an IRI abbreviates none.
                    serializer = serializer.clone().with_prefix(name, iri).unwrap_or(serializer);
                }
                let fresh = Box::new(serializer);
                let serializer = Box::new(fresh.as_ref().clone().low_level());
                let (graph, prefixes) = (GraphName::DefaultGraph, prefixes.to_vec());
                Syntax::TriG { fresh, serializer, graph, subject: None, predicate: None, prefixes }
            }
            _ => Syntax::Lines(String::new()),
        }
    }

    /// The next statements belong to this graph; at first they belong to the default graph.
    fn enter(&mut self, name: Option<TermView<'_>>, out: &mut String) {
        if let Syntax::JsonLd { .. } | Syntax::RdfXml { .. } = self {
            self.close(out);
        }
        match self {
            Syntax::Lines(graph) => {
                graph.clear();
                if let Some(name) = name {
                    graph.push(' ');
                    ntriples::term(name, graph);
                }
            }
            Syntax::JsonLd { graph, .. } => {
                if *graph != JsonGraph::Default {
                    out.push_str(jsonld::CLOSING_GRAPH);
                }
                *graph = name.map_or(JsonGraph::Default, |name| {
                    jsonld::open_graph(name, out);
                    JsonGraph::Begun
                });
            }
            Syntax::RdfXml { .. } => assert!(name.is_none(), "RDF/XML has no graphs"),
            Syntax::TriG { graph, .. } => {
                *graph = match name.map(|name| name.to_term()) {
                    None => GraphName::DefaultGraph,
                    Some(Term::NamedNode(name)) => name.into(),
                    Some(Term::BlankNode(name)) => name.into(),
                    Some(term) => unreachable!("a graph's name is not {term}"),
                };
            }
        }
    }

    fn triple(&mut self, ids: [Id; 3], views: [TermView<'_>; 3], out: &mut String) -> Result<(), Refused> {
        match self {
            Syntax::Lines(graph) => ntriples::line(views, graph, out),
            Syntax::JsonLd { last, graph } => {
                let pair = [ids[0], ids[1]];
                if *last == Some(pair) {
                    out.push(',');
                } else {
                    if last.replace(pair).is_some() {
                        out.push_str(jsonld::CLOSING);
                    }
                    if *graph == JsonGraph::Begun {
                        *graph = JsonGraph::Named;
                    } else {
                        out.push_str(jsonld::BETWEEN_NODES);
                    }
                    jsonld::open(views[0], views[1], out);
                }
                jsonld::object(views[2], out)?;
            }
            Syntax::RdfXml { last, names } => {
                if *last != Some(ids[0]) {
                    if last.replace(ids[0]).is_some() {
                        out.push_str(rdfxml::CLOSING);
                    }
                    rdfxml::open(views[0], out)?;
                }
                rdfxml::property(names, views[1], views[2], out)?;
            }
            Syntax::TriG { serializer, graph, subject, predicate, prefixes, .. } => {
                let began = out.len();
                if subject.as_ref().is_none_or(|(id, _)| *id != ids[0]) {
                    let node = match views[0].to_term() {
                        Term::NamedNode(node) => node.into(),
                        Term::BlankNode(node) => node.into(),
                        term => unreachable!("a triple's subject is not {term}"),
                    };
                    *subject = Some((ids[0], node));
                }
                if predicate.as_ref().is_none_or(|(id, _)| *id != ids[1]) {
                    let node = match views[1].to_term() {
                        Term::NamedNode(node) => node,
                        term => unreachable!("a triple's predicate is not {term}"),
                    };
                    *predicate = Some((ids[1], node));
                }
                let (Some((_, subject)), Some((_, predicate))) = (subject, predicate) else {
                    unreachable!("they were set")
                };
                let object = views[2].to_term();
                let quad = QuadRef::new(&*subject, &*predicate, &object, &*graph);
                serializer.serialize_quad(quad, Utf8(out)).expect("a string takes everything");
                names::without_escapes(out, began, prefixes);
            }
        }
        Ok(())
    }

    /// Ends the last statement, so another box may write.
    fn close(&mut self, out: &mut String) {
        match self {
            Syntax::Lines(_) => {}
            Syntax::JsonLd { last, .. } => out.push_str(if last.take().is_some() { jsonld::CLOSING } else { "" }),
            Syntax::RdfXml { last, .. } => out.push_str(if last.take().is_some() { rdfxml::CLOSING } else { "" }),
            Syntax::TriG { fresh, serializer, .. } => {
                serializer.finish(Utf8(out)).expect("a string takes everything");
                **serializer = fresh.as_ref().clone().low_level();
            }
        }
    }
}

/// A string written to as bytes, each time whole characters.
struct Utf8<'a>(&'a mut String);

impl Write for Utf8<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push_str(str::from_utf8(bytes).map_err(io::Error::other)?);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Refused {
    /// The error for people, about a triple as they see it.
    #[cold]
    fn told(&self, [subject, predicate, object]: [String; 3]) -> Unwritable {
        let why = match self {
            Refused::Character(NotInXml(character)) => {
                format!("XML has no way to write the character U+{:04X}", u32::from(*character))
            }
            Refused::Predicate => "RDF/XML has no way to write this predicate".to_owned(),
            Refused::Triple => "JSON-LD has no way to write a triple term".to_owned(),
        };
        let others = if *self == Refused::Triple { "nt, ttl and rdf" } else { "nt, ttl and jsonld" };
        Unwritable::new(format!("{subject} {predicate} {object}: {why}"), others)
    }
}
