//! Triples as text in the syntaxes of RDF, written while the query runs; several threads may do so at once. What each of them writes at
//! a time is whole statements.

mod jsonld;
mod ntriples;
mod rdfxml;

use super::format::Format;
use super::syntax::{NotInXml, most_bytes};
use super::text::{Ready, TextSink, Unwritable};
use oxrdf::{NamedOrBlankNode, Term, Triple};
use oxttl::TurtleSerializer;
use oxttl::turtle::LowLevelTurtleSerializer;
use std::io::{self, Write};
use vicus::{BoxError, Envelope, Turn};
use vicus_rdf::{Id, TermView};
use vicus_sparql::Run;

/// Why a triple can't be written.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Refused {
    /// XML has no such character.
    Character(NotInXml),
    /// RDF/XML writes a predicate as the name of an element, which this IRI doesn't end with.
    Predicate,
}

impl From<NotInXml> for Refused {
    fn from(character: NotInXml) -> Refused {
        Refused::Character(character)
    }
}

/// A syntax, and what was written last in it.
enum Syntax {
    /// N-Triples, and N-Quads of the default graph.
    Lines,
    /// The subject and predicate of the statement that is not closed.
    JsonLd(Option<[Id; 2]>),
    /// The subject of the element that is not closed.
    RdfXml(Option<Id>),
    /// Turtle, and TriG of the default graph; the subject and predicate as terms, by their ids.
    Turtle { serializer: Box<LowLevelTurtleSerializer>, subject: Option<(Id, Term)>, predicate: Option<(Id, Term)> },
}

/// The triples of one box as text.
pub(super) struct Triples {
    syntax: Syntax,
    ready: Ready,
}

/// What comes before all triples.
pub(super) fn head(format: Format) -> &'static str {
    match format {
        Format::JsonLd => jsonld::HEAD,
        Format::RdfXml => rdfxml::HEAD,
        _ => "",
    }
}

/// What comes behind all triples.
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
        let syntax = match format {
            Format::JsonLd => Syntax::JsonLd(None),
            Format::RdfXml => Syntax::RdfXml(None),
            Format::Turtle | Format::TriG => {
                let mut serializer = TurtleSerializer::new();
                for (name, iri) in prefixes {
                    // A prefix that is no IRI abbreviates none.
                    serializer = serializer.clone().with_prefix(name, iri).unwrap_or(serializer);
                }
                Syntax::Turtle { serializer: Box::new(serializer.low_level()), subject: None, predicate: None }
            }
            _ => Syntax::Lines,
        };
        let separator = if format == Format::JsonLd { jsonld::BETWEEN_NODES.len() } else { 0 };
        Triples { syntax, ready: Ready::new(separator) }
    }

    /// Adds the triples of an envelope, and writes what is ready.
    pub(super) fn take<W: Write>(
        &mut self,
        sink: &TextSink<W>,
        run: &Run,
        envelope: &Envelope,
        turn: &mut Turn<'_>,
    ) -> Result<(), BoxError> {
        if envelope.is_pill() {
            return self.write(sink, turn);
        }
        let columns: Vec<&[u64]> = envelope.columns().iter().map(|column| column.u64s()).collect();
        let [subjects, predicates, objects] = columns[..] else { unreachable!("a triple has three terms") };
        for ((&subject, &predicate), &object) in subjects.iter().zip(predicates).zip(objects) {
            let ids = [subject, predicate, object].map(Id::from_bits);
            let Triples { syntax, ready } = self;
            let done = ready.with_room(turn, |ready| {
                of_views(run, ids, |views @ [subject, predicate, object]| {
                    // A name in RDF/XML is written twice.
                    let wanted = most_bytes("", subject) + 2 * most_bytes("", predicate) + most_bytes("", object);
                    Ok(syntax.triple(ids, views, ready.room_for(wanted)?))
                })
            })?;
            done.map_err(|refused| unwritable(&refused, run, ids))?;
            if self.ready.is_much() {
                self.write(sink, turn)?;
                if turn.is_stopped() {
                    return Ok(());
                }
            }
        }
        if self.ready.is_enough() {
            self.write(sink, turn)?;
        }
        self.ready.book(turn)
    }

    fn write<W: Write>(&mut self, sink: &TextSink<W>, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        self.syntax.close(&mut self.ready.text);
        Ok(self.ready.write(sink, turn)?)
    }
}

/// Looks at three terms at once.
fn of_views<R>(run: &Run, ids: [Id; 3], look: impl FnOnce([TermView<'_>; 3]) -> R) -> R {
    let [subject, predicate, object] = ids;
    run.view(subject, |subject| {
        run.view(predicate, |predicate| run.view(object, |object| look([subject, predicate, object])))
    })
}

impl Syntax {
    fn triple(&mut self, ids: [Id; 3], views: [TermView<'_>; 3], out: &mut String) -> Result<(), Refused> {
        match self {
            Syntax::Lines => ntriples::line(views, out),
            Syntax::JsonLd(last) => {
                let pair = [ids[0], ids[1]];
                if *last == Some(pair) {
                    out.push(',');
                } else {
                    if last.replace(pair).is_some() {
                        out.push_str(jsonld::CLOSING);
                    }
                    jsonld::open(views[0], views[1], out);
                }
                jsonld::object(views[2], out);
            }
            Syntax::RdfXml(last) => {
                if *last != Some(ids[0]) {
                    if last.replace(ids[0]).is_some() {
                        out.push_str(rdfxml::CLOSING);
                    }
                    rdfxml::open(views[0], out)?;
                }
                rdfxml::property(views[1], views[2], out)?;
            }
            Syntax::Turtle { serializer, subject, predicate } => {
                let known = |place: &mut Option<(Id, Term)>, id: Id, view: TermView<'_>| match place.take() {
                    Some((other, term)) if other == id => term,
                    _ => view.to_term(),
                };
                let triple = Triple {
                    subject: match known(subject, ids[0], views[0]) {
                        Term::NamedNode(node) => node.into(),
                        Term::BlankNode(node) => node.into(),
                        Term::Literal(_) => unreachable!("a triple's subject is no literal"),
                    },
                    predicate: match known(predicate, ids[1], views[1]) {
                        Term::NamedNode(node) => node,
                        term => unreachable!("a triple's predicate is an IRI, not {term}"),
                    },
                    object: views[2].to_term(),
                };
                serializer.serialize_triple(&triple, Utf8(out)).expect("a string takes everything");
                *subject = Some((
                    ids[0],
                    match triple.subject {
                        NamedOrBlankNode::NamedNode(node) => node.into(),
                        NamedOrBlankNode::BlankNode(node) => node.into(),
                    },
                ));
                *predicate = Some((ids[1], triple.predicate.into()));
            }
        }
        Ok(())
    }

    /// Ends the last statement, so that another box may write.
    fn close(&mut self, out: &mut String) {
        match self {
            Syntax::Lines => {}
            Syntax::JsonLd(last) => out.push_str(if last.take().is_some() { jsonld::CLOSING } else { "" }),
            Syntax::RdfXml(last) => out.push_str(if last.take().is_some() { rdfxml::CLOSING } else { "" }),
            Syntax::Turtle { serializer, .. } => {
                serializer.finish(Utf8(out)).expect("a string takes everything");
            }
        }
    }
}

/// A string that is written to as bytes, each time whole characters.
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

#[cold]
fn unwritable(refused: &Refused, run: &Run, ids: [Id; 3]) -> BoxError {
    let [subject, predicate, object] = ids.map(|id| run.view(id, super::text::cut));
    let why = match refused {
        Refused::Character(NotInXml(character)) => {
            format!("XML has no way to write the character U+{:04X}", u32::from(*character))
        }
        Refused::Predicate => "RDF/XML has no way to write this predicate".to_owned(),
    };
    Unwritable::new(format!("{subject} {predicate} {object}: {why}"), "nt, ttl and jsonld").into()
}
