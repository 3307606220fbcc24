//! RDF/XML: from elements to triples. RDF 1.1 XML Syntax, W3C Recommendation 2014, §7; RDF 1.2 XML Syntax for triple
//! terms and directions.
//!
//! A stack of frames stands for the open elements, so nothing recurses. An XML literal is written in exclusive
//! canonical form with comments, as §7.2.17 asks.

mod literal;
mod xml;

use super::pull_parsers::Ended;
use super::rdf_12::TextItem;
use super::statements::Statements;
use super::{is_of_rdf_12, too_long_iri};
use crate::triple::{MOST_NESTED, levels_of};
use literal::XmlLiteral;
use oxiri::Iri;
use oxrdf::vocab::rdf;
use oxrdf::{
    BaseDirection, BlankNode, GraphNameRef, Literal, NamedNode, NamedNodeRef, NamedOrBlankNode, Term, TermRef, Triple,
};
use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;
use xml::{Event, Name, Reader, Start, Wrong, is_nc_name, wrong};

const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
const ITS: &str = "http://www.w3.org/2005/11/its";

type Result<T> = std::result::Result<T, Wrong>;

/// Reads a document's triples, one event after the other.
pub(super) struct RdfXmlReader<R> {
    xml: Reader<R>,
    frames: Vec<Frame>,
    base: Option<Arc<Iri<String>>>,
    /// The names given by `rdf:ID`, by their bases.
    ids: BTreeSet<(Arc<str>, Box<str>)>,
    /// The triples found within triple-term elements, the innermost last.
    captured: Vec<Vec<Triple>>,
}

/// The settings of an element for its content.
#[derive(Clone, Default)]
struct Scope {
    base: Option<Arc<Iri<String>>>,
    language: Option<Arc<str>>,
    direction: Option<BaseDirection>,
    /// The version of RDF has triple terms, and directions.
    has_triples: bool,
    has_directions: bool,
}

struct Frame {
    scope: Scope,
    kind: Kind,
}

enum Kind {
    /// `rdf:RDF`.
    Root,
    /// A node, or a property with `rdf:parseType="Resource"`, with properties as content; and its number of `rdf:li`.
    Node {
        subject: NamedOrBlankNode,
        items: u64,
        is_property: bool,
    },
    Property {
        edge: Edge,
        object: Object,
        datatype: Option<NamedNode>,
    },
    /// The last cell of the list so far.
    Collection {
        edge: Edge,
        last: Option<NamedOrBlankNode>,
    },
    Literal {
        edge: Edge,
        written: Box<XmlLiteral>,
    },
    /// A triple term; without an edge if the version of RDF has none and leaves it out.
    Triple {
        edge: Option<Edge>,
    },
}

/// The content of a property so far.
enum Object {
    Text(String),
    Node(NamedOrBlankNode),
    /// Attributes have said it, so there is no content.
    Said(NamedOrBlankNode),
}

/// A property being read.
#[derive(Clone)]
struct Edge {
    subject: NamedOrBlankNode,
    predicate: NamedNode,
    /// The statement of the triple, from `rdf:ID`.
    statement: Option<NamedNode>,
    /// The reifiers of the triple, from `rdf:annotation` and `rdf:annotationNodeID`.
    reifiers: Vec<NamedOrBlankNode>,
}

/// The attributes of an element.
#[derive(Default)]
struct Attributes {
    id: Option<String>,
    node_id: Option<String>,
    about: Option<String>,
    resource: Option<String>,
    datatype: Option<String>,
    parse_type: Option<String>,
    annotation: Option<String>,
    annotation_node_id: Option<String>,
    types: Option<String>,
    properties: Vec<(NamedNode, String)>,
}

fn fresh() -> NamedOrBlankNode {
    BlankNode::default().into()
}

fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
}

/// Whether a name in RDF's namespace names part of the syntax, and no property.
fn is_syntax(local: &str) -> bool {
    matches!(
        local,
        "RDF"
            | "ID"
            | "about"
            | "parseType"
            | "resource"
            | "nodeID"
            | "datatype"
            | "aboutEach"
            | "aboutEachPrefix"
            | "bagID"
    )
}

fn iri_of(name: &Name, longest: usize) -> Result<NamedNode> {
    if name.space.len() + name.local.len() > longest {
        return wrong(too_long_iri(longest));
    }
    let iri = [&*name.space, &*name.local].concat();
    match Iri::parse(&*iri) {
        Ok(_) => Ok(NamedNode::new_unchecked(iri)),
        Err(error) => wrong(format!("the name `{}` is no IRI: {error}", iri.chars().take(100).collect::<String>())),
    }
}

impl<R: Read> RdfXmlReader<R> {
    pub(super) fn new(source: R, base: Option<Iri<String>>) -> RdfXmlReader<R> {
        let base = base.map(Arc::new);
        RdfXmlReader { xml: Reader::new(source), frames: Vec::new(), base, ids: BTreeSet::new(), captured: Vec::new() }
    }

    /// Entities may stand for `bytes` bytes between two statements.
    pub(super) fn set_most_longer(&mut self, bytes: usize) {
        self.xml.set_most_longer(bytes);
    }

    /// Its line and column.
    pub(super) fn place(&self) -> (u64, u64) {
        let (lines, column) = self.xml.place();
        (lines + 1, column + 1)
    }

    /// Reads the next part of the document, and adds its triples; false at the end. `told` is called for each triple,
    /// and says whether to stop.
    pub(super) fn step(
        &mut self,
        statements: &mut Statements,
        told: &mut dyn FnMut() -> bool,
    ) -> std::result::Result<bool, Stop> {
        let mut out = Out { statements, told };
        let event = self.xml.next()?;
        if let Some(Frame { kind: Kind::Literal { written, .. }, .. }) = self.frames.last_mut() {
            let is_written = match &event {
                Event::End => written.end(),
                Event::Eof => false,
                content => {
                    written.write(content);
                    true
                }
            };
            if is_written {
                return Ok(true);
            }
        }
        match event {
            Event::Start(start) => self.start(&start, &mut out)?,
            Event::End => self.end(&mut out)?,
            Event::Text(text) => self.text(&text)?,
            Event::Comment(_) | Event::Instruction(..) => {}
            Event::Eof => return Ok(false),
        }
        Ok(true)
    }

    fn text(&mut self, text: &str) -> Result<()> {
        match self.frames.last_mut().map(|frame| &mut frame.kind) {
            Some(Kind::Property { object: Object::Text(so_far), .. }) => so_far.push_str(text),
            _ if is_blank(text) => {}
            _ => {
                return wrong(format!(
                    "the text `{}` stands where no text may",
                    text.trim().chars().take(60).collect::<String>()
                ));
            }
        }
        Ok(())
    }

    /// The scope of an element, and its other attributes.
    fn scope(&self, start: &Start, longest: usize) -> Result<(Scope, Attributes)> {
        let mut scope = match self.frames.last() {
            Some(frame) => frame.scope.clone(),
            None => Scope { base: self.base.clone(), ..Scope::default() },
        };
        let (mut found, mut direction) = (Attributes::default(), None);
        for (name, value) in &start.attributes {
            let value = || Some(value.clone());
            match (&*name.space, &*name.local) {
                (xml::XML, "lang") => {
                    let value = value().unwrap_or_default();
                    if !value.is_empty() && Literal::new_language_tagged_literal("", &value).is_err() {
                        return wrong(format!("`{}` is no language tag", value.chars().take(60).collect::<String>()));
                    }
                    scope.language =
                        Some(value).filter(|value| !value.is_empty()).map(|value| value.to_ascii_lowercase().into());
                }
                (xml::XML, "base") => {
                    let value = value().unwrap_or_default();
                    let base = match &scope.base {
                        Some(outer) => outer.resolve(&value),
                        None if value.is_empty() => continue,
                        None => Iri::parse(value.clone()),
                    };
                    let Ok(base) = base else {
                        return wrong(format!(
                            "the xml:base `{}` is no IRI",
                            value.chars().take(100).collect::<String>()
                        ));
                    };
                    if base.len() > longest {
                        return wrong(too_long_iri(longest));
                    }
                    scope.base = Some(Arc::new(base));
                }
                (xml::XML, _) => {}
                ("", local) if local.starts_with("xml") => {}
                (_, _) if name.prefix.starts_with("xml") => {}
                (ITS, "dir") => direction = value(),
                (ITS, "version") => {}
                (RDF, "version") => {
                    let version = value().unwrap_or_default();
                    (scope.has_triples, scope.has_directions) = match &*version {
                        "1.1" => (false, false),
                        "1.2" => (true, true),
                        "1.2-basic" => (false, true),
                        _ => return wrong("the value of rdf:version must be 1.1, 1.2 or 1.2-basic"),
                    };
                }
                (RDF | "", "ID") => found.id = value(),
                (RDF, "nodeID") => found.node_id = value(),
                (RDF | "", "about") => found.about = value(),
                (RDF | "", "resource") => found.resource = value(),
                (RDF, "datatype") => found.datatype = value(),
                (RDF | "", "parseType") => found.parse_type = value(),
                (RDF, "annotation") => found.annotation = value(),
                (RDF, "annotationNodeID") => found.annotation_node_id = value(),
                (RDF | "", "type") => found.types = value(),
                (RDF, local) if is_syntax(local) || matches!(local, "Description" | "li") => {
                    return wrong(format!("rdf:{local} can't be an attribute"));
                }
                ("", local) => {
                    return wrong(format!(
                        "the attribute `{}` has no namespace",
                        local.chars().take(60).collect::<String>()
                    ));
                }
                _ => found.properties.push((iri_of(name, longest)?, value().unwrap_or_default())),
            }
        }
        if let Some(direction) = direction.filter(|_| scope.has_directions) {
            scope.direction = match &*direction {
                "ltr" => Some(BaseDirection::Ltr),
                "rtl" => Some(BaseDirection::Rtl),
                _ => return wrong("the value of its:dir must be ltr or rtl"),
            };
        }
        for id in [&found.id, &found.node_id, &found.annotation_node_id].into_iter().flatten() {
            if !is_nc_name(id) {
                return wrong(format!(
                    "`{}` is no name that rdf:ID or rdf:nodeID can give",
                    id.chars().take(60).collect::<String>()
                ));
            }
        }
        Ok((scope, found))
    }

    fn resolved(&self, scope: &Scope, reference: &str, longest: usize) -> Result<NamedNode> {
        let resolved = match &scope.base {
            Some(base) => base.resolve(reference),
            None => Iri::parse(reference.to_owned()),
        };
        match resolved {
            Ok(iri) if iri.len() <= longest => Ok(NamedNode::new_unchecked(iri.into_inner())),
            Ok(_) => wrong(too_long_iri(longest)),
            Err(error) => wrong(format!("`{}` is no IRI: {error}", reference.chars().take(100).collect::<String>())),
        }
    }

    /// The IRI given by `rdf:ID`, once.
    fn identified(&mut self, scope: &Scope, id: &str, longest: usize) -> Result<NamedNode> {
        let iri = self.resolved(scope, &format!("#{id}"), longest)?;
        let base = &iri.as_str()[..iri.as_str().len() - id.len() - 1];
        let known =
            self.ids.range((Arc::from(base), id.into())..).next().is_some_and(|(b, i)| **b == *base && **i == *id);
        if known {
            return wrong(format!("the rdf:ID `{}` is given twice", id.chars().take(60).collect::<String>()));
        }
        // Bases are many times the same text.
        let shared = self.ids.first().filter(|(first, _)| **first == *base).map(|(first, _)| Arc::clone(first));
        self.ids.insert((shared.unwrap_or_else(|| base.into()), id.into()));
        Ok(iri)
    }

    fn start(&mut self, start: &Start, out: &mut Out<'_>) -> std::result::Result<(), Stop> {
        let longest = out.statements.longest_iri;
        let (scope, attributes) = self.scope(start, longest)?;
        let is_rdf = *start.name.space == *RDF;
        match self.frames.last().map(|frame| &frame.kind) {
            None if is_rdf && *start.name.local == *"RDF" => {
                let has_others =
                    attributes.id.is_some() || attributes.about.is_some() || !attributes.properties.is_empty();
                if has_others {
                    return Err(wrong::<()>("rdf:RDF has no attributes but those of XML").unwrap_err().into());
                }
                self.frames.push(Frame { scope, kind: Kind::Root });
                Ok(())
            }
            Some(Kind::Node { .. }) => self.property(start, scope, attributes, out),
            Some(Kind::Property { object, .. }) => match object {
                Object::Text(text) if is_blank(text) => self.node(start, scope, attributes, out),
                Object::Text(_) => Err(said("an element stands beside text: give rdf:parseType=\"Literal\"")),
                Object::Node(_) => Err(said("a property has two elements in it, and can have one")),
                Object::Said(_) => Err(said("a property whose attributes say its value has no content")),
            },
            None | Some(Kind::Root | Kind::Collection { .. } | Kind::Triple { .. }) => {
                self.node(start, scope, attributes, out)
            }
            Some(Kind::Literal { .. }) => unreachable!("its content was written"),
        }
    }

    /// nodeElement, §7.2.11.
    fn node(
        &mut self,
        start: &Start,
        scope: Scope,
        found: Attributes,
        out: &mut Out<'_>,
    ) -> std::result::Result<(), Stop> {
        let longest = out.statements.longest_iri;
        let (is_rdf, local) = (*start.name.space == *RDF, &*start.name.local);
        if is_rdf && (is_syntax(local) || local == "li") {
            return Err(said(format!("rdf:{local} can't be a node")));
        }
        let others =
            [&found.resource, &found.datatype, &found.parse_type, &found.annotation, &found.annotation_node_id];
        if others.into_iter().any(Option::is_some) {
            return Err(said(
                "a node has an attribute that only properties have, such as rdf:resource or rdf:parseType",
            ));
        }
        let subject = match (&found.id, &found.node_id, &found.about) {
            (None, None, None) => fresh(),
            (Some(id), None, None) => self.identified(&scope, id, longest)?.into(),
            (None, Some(label), None) => BlankNode::new_unchecked(label.clone()).into(),
            (None, None, Some(about)) => self.resolved(&scope, about, longest)?.into(),
            _ => return Err(said("a node has more than one of rdf:ID, rdf:nodeID and rdf:about")),
        };
        if !(is_rdf && local == "Description") {
            let class = iri_of(&start.name, longest)?;
            self.emit(Triple::new(subject.clone(), rdf::TYPE, class), out)?;
        }
        self.attributes(&subject, &scope, &found, out)?;
        self.frames.push(Frame { scope, kind: Kind::Node { subject, items: 0, is_property: false } });
        Ok(())
    }

    /// Attributes used as types and properties of a node.
    fn attributes(
        &mut self,
        subject: &NamedOrBlankNode,
        scope: &Scope,
        found: &Attributes,
        out: &mut Out<'_>,
    ) -> std::result::Result<(), Stop> {
        if let Some(class) = &found.types {
            let class = self.resolved(scope, class, out.statements.longest_iri)?;
            self.emit(Triple::new(subject.clone(), rdf::TYPE, class), out)?;
        }
        for (predicate, value) in &found.properties {
            let triple = Triple::new(subject.clone(), predicate.clone(), plain(scope, value.clone()));
            self.emit(triple, out)?;
        }
        Ok(())
    }

    /// propertyElt, §7.2.14.
    fn property(
        &mut self,
        start: &Start,
        scope: Scope,
        found: Attributes,
        out: &mut Out<'_>,
    ) -> std::result::Result<(), Stop> {
        let longest = out.statements.longest_iri;
        let (is_rdf, local) = (*start.name.space == *RDF, &*start.name.local);
        let Some(Frame { kind: Kind::Node { subject, items, .. }, .. }) = self.frames.last_mut() else {
            unreachable!("properties are in nodes")
        };
        let subject = subject.clone();
        let predicate = match local {
            "li" if is_rdf => {
                *items += 1;
                NamedNode::new_unchecked(format!("{RDF}_{items}"))
            }
            _ if is_rdf && (is_syntax(local) || local == "Description") => {
                return Err(said(format!("rdf:{local} can't be a property")));
            }
            _ => iri_of(&start.name, longest)?,
        };
        if found.about.is_some() {
            return Err(said("a property has no rdf:about"));
        }
        let statement = match &found.id {
            Some(id) => Some(self.identified(&scope, id, longest)?),
            None => None,
        };
        let mut reifiers = Vec::new();
        if let Some(annotation) = &found.annotation {
            reifiers.push(self.resolved(&scope, annotation, longest)?.into());
        }
        reifiers.extend(found.annotation_node_id.clone().map(|label| BlankNode::new_unchecked(label).into()));
        let edge = Edge { subject, predicate, statement, reifiers };
        let has_attributes = found.types.is_some() || !found.properties.is_empty();
        let says = [found.resource.is_some(), found.node_id.is_some(), found.datatype.is_some()];
        if found.parse_type.is_some() && (has_attributes || says.contains(&true)) {
            return Err(said("a property with rdf:parseType has no other attributes than rdf:ID"));
        }
        let kind = match found.parse_type.as_deref() {
            Some("Resource") => {
                let node = fresh();
                self.edge(&edge, node.clone().into(), out)?;
                Kind::Node { subject: node, items: 0, is_property: true }
            }
            Some("Collection") => Kind::Collection { edge, last: None },
            Some("Triple") => {
                if self.captured.len() >= MOST_NESTED {
                    return Err(said(TextItem::TooDeep.refusal()));
                }
                self.captured.push(Vec::new());
                Kind::Triple { edge: Some(edge).filter(|_| scope.has_triples) }
            }
            Some(_) => Kind::Literal { edge, written: Box::default() },
            None => {
                if says.iter().filter(|is_said| **is_said).count() > 1 || found.datatype.is_some() && has_attributes {
                    return Err(said(
                        "a property has more than one of rdf:resource, rdf:nodeID and rdf:datatype, or these beside \
                            others",
                    ));
                }
                let datatype = match &found.datatype {
                    Some(datatype) => Some(self.resolved(&scope, datatype, longest)?),
                    None => None,
                };
                let object = match (&found.resource, &found.node_id) {
                    (Some(resource), _) => Object::Said(self.resolved(&scope, resource, longest)?.into()),
                    (None, Some(label)) => Object::Said(BlankNode::new_unchecked(label.clone()).into()),
                    (None, None) if has_attributes => Object::Said(fresh()),
                    (None, None) => Object::Text(String::new()),
                };
                if let Object::Said(node) = &object {
                    let node = node.clone();
                    self.attributes(&node, &scope, &found, out)?;
                }
                Kind::Property { edge, object, datatype }
            }
        };
        self.frames.push(Frame { scope, kind });
        Ok(())
    }

    fn end(&mut self, out: &mut Out<'_>) -> std::result::Result<(), Stop> {
        let Frame { scope, kind } = self.frames.pop().expect("an element was open");
        match kind {
            Kind::Root => Ok(()),
            Kind::Node { is_property: true, .. } => Ok(()),
            Kind::Node { subject, .. } => self.found(subject, out),
            Kind::Property { edge, object, datatype } => {
                let object = match (object, datatype) {
                    (Object::Text(text), Some(datatype)) => Literal::new_typed_literal(text, datatype).into(),
                    (Object::Text(text), None) => plain(&scope, text).into(),
                    (Object::Node(_), Some(_)) => {
                        return Err(said("a property with rdf:datatype has an element in it"));
                    }
                    (Object::Node(node) | Object::Said(node), _) => node.into(),
                };
                self.edge(&edge, object, out)
            }
            Kind::Collection { edge, last } => match last {
                Some(last) => self.emit(Triple::new(last, rdf::REST, rdf::NIL), out),
                None => self.edge(&edge, rdf::NIL.into(), out),
            },
            Kind::Literal { edge, written } => {
                let literal = Literal::new_typed_literal(written.finish(), rdf::XML_LITERAL);
                self.edge(&edge, literal.into(), out)
            }
            Kind::Triple { edge } => {
                let mut captured = self.captured.pop().expect("its frame has begun it");
                let (Some(triple), true) = (captured.pop(), captured.is_empty()) else {
                    return Err(said("a property with rdf:parseType=\"Triple\" has one triple in it"));
                };
                edge.map_or(Ok(()), |edge| self.edge(&edge, triple.into(), out))
            }
        }
    }

    /// A node is complete: it is the value of its outer property.
    fn found(&mut self, node: NamedOrBlankNode, out: &mut Out<'_>) -> std::result::Result<(), Stop> {
        match self.frames.last_mut().map(|frame| &mut frame.kind) {
            Some(Kind::Property { object, .. }) => *object = Object::Node(node),
            Some(Kind::Collection { edge, last }) => {
                let cell = fresh();
                let edge = edge.clone();
                match last.replace(cell.clone()) {
                    Some(last) => self.emit(Triple::new(last, rdf::REST, cell.clone()), out)?,
                    None => self.edge(&edge, cell.clone().into(), out)?,
                }
                self.emit(Triple::new(cell, rdf::FIRST, node), out)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// A property's triple, and its statement and reifiers.
    fn edge(&mut self, edge: &Edge, object: Term, out: &mut Out<'_>) -> std::result::Result<(), Stop> {
        let Edge { subject, predicate, statement, reifiers } = edge;
        let triple = Triple::new(subject.clone(), predicate.clone(), object);
        if let Some(statement) = statement {
            let mut say = |predicate: NamedNodeRef<'_>, object: Term| {
                self.emit(Triple::new(statement.clone(), predicate.into_owned(), object), out)
            };
            say(rdf::TYPE, rdf::STATEMENT.into())?;
            say(rdf::SUBJECT, triple.subject.clone().into())?;
            say(rdf::PREDICATE, triple.predicate.clone().into())?;
            say(rdf::OBJECT, triple.object.clone())?;
        }
        for reifier in reifiers {
            self.emit(Triple::new(reifier.clone(), rdf::REIFIES, triple.clone()), out)?;
        }
        self.emit(triple, out)
    }

    fn emit(&mut self, triple: Triple, out: &mut Out<'_>) -> std::result::Result<(), Stop> {
        if matches!(&triple.object, Term::Triple(inner) if levels_of(inner) > MOST_NESTED) {
            return Err(said(TextItem::TooDeep.refusal()));
        }
        if let Some(captured) = self.captured.last_mut() {
            if captured.len() >= 2 {
                return Err(said("a property with rdf:parseType=\"Triple\" has one triple in it"));
            }
            captured.push(triple);
            return Ok(());
        }
        let quad = triple.as_ref().in_graph(GraphNameRef::DefaultGraph);
        if !out.statements.parsed.rdf_12 {
            match quad.object {
                TermRef::Triple(_) => return Err(said(TextItem::TripleTerm.refusal())),
                _ if is_of_rdf_12(quad) => return Err(said(TextItem::Direction.refusal())),
                _ => {}
            }
        }
        self.xml.forget_longer();
        if (out.told)() {
            return Err(Stop::Ended(Ended::Stopped));
        }
        out.statements.push(quad).map_err(|error| Stop::Ended(error.into()))
    }
}

/// A literal without a type, in the language of its element.
fn plain(scope: &Scope, text: String) -> Literal {
    match (&scope.language, scope.direction) {
        (Some(language), Some(direction)) => {
            Literal::new_directional_language_tagged_literal_unchecked(text, &**language, direction)
        }
        (Some(language), None) => Literal::new_language_tagged_literal_unchecked(text, &**language),
        (None, _) => Literal::new_simple_literal(text),
    }
}

/// The target of triples.
struct Out<'o> {
    statements: &'o mut Statements,
    told: &'o mut dyn FnMut() -> bool,
}

/// Why a document is not read further.
pub(super) enum Stop {
    Wrong(Wrong),
    Ended(Ended),
}

impl From<Wrong> for Stop {
    fn from(wrong: Wrong) -> Stop {
        Stop::Wrong(wrong)
    }
}

impl Stop {
    /// The message of an error in the text; `Err` for any other end.
    pub(super) fn message(self) -> std::result::Result<String, Ended> {
        match self {
            Stop::Wrong(Wrong::Text(message)) => Ok(message),
            Stop::Wrong(Wrong::Io(error)) => Err(Ended::Unreadable(error)),
            // The caller knows the line.
            Stop::Wrong(Wrong::TooLong) => Err(Ended::TooLong(0)),
            Stop::Ended(ended) => Err(ended),
        }
    }
}

fn said(what: impl Into<String>) -> Stop {
    Stop::Wrong(Wrong::Text(what.into()))
}
