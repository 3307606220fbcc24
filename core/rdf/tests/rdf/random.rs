//! Random terms, triples and documents, with many of the hard cases.

use oxjsonld::JsonLdSerializer;
use oxrdf::vocab::xsd;
use oxrdf::{BlankNode, GraphName, Literal, NamedNode, NamedOrBlankNode, Quad, Term, Triple};
use oxrdfxml::RdfXmlSerializer;
use oxttl::{NQuadsSerializer, NTriplesSerializer, TriGSerializer, TurtleSerializer};
use proptest::prelude::*;
use vicus_rdf::load::Syntax;

pub(crate) fn iri() -> impl Strategy<Value = NamedNode> {
    prop_oneof![
        4 => (0..12_u32).prop_map(|n| format!("http://e/{n}")),
        1 => "[a-z]{1,3}:[a-zA-Z0-9/?@:._~-]{0,12}",
        1 => "http://[a-z.]{1,9}(:[0-9]{0,4})?/[a-zé£ぁ/%]{0,8}(#[a-z/?]{0,3})?",
        1 => Just("urn:x".to_owned()),
    ]
    .prop_filter_map("an IRI", |iri| NamedNode::new(iri).ok())
}

/// Labels equal outside the store.
pub(crate) fn blank() -> impl Strategy<Value = BlankNode> {
    prop_oneof![3 => (0..6_u32).prop_map(|n| format!("b{n}")), 1 => "[a-eA-Z0-9_é][a-zA-Z0-9_.é-]{0,8}[a-z0-9]"]
        .prop_filter_map("a label", |label| BlankNode::new(label).ok())
}

/// Labels in the form of the store's names for nodes of other files.
pub(crate) fn borrowed_label() -> impl Strategy<Value = BlankNode> {
    "(f0_){0,2}[fg][0-9]{1,3}_[a-z0-9_]{0,3}".prop_filter_map("a label", |label| BlankNode::new(label).ok())
}

const HARD: &[char] = &['\0', '\t', '\n', '\r', '"', '\\', '\'', 'a', 'é', 'ぁ', '\u{10FFFD}', '\u{7f}', ' '];
const ODD_NUMBERS: &[&str] = &["-0", "+1", "00", "-01", "", "1.0", " 1", "1e0", "99999999999999999999"];

/// Texts with escapes, zeros, several scripts and line ends.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[ab]{0,3}",
        1 => proptest::collection::vec(proptest::sample::select(HARD), 0..6)
            .prop_map(|text| text.into_iter().collect()),
        1 => any::<String>(),
    ]
}

pub(crate) fn integer() -> impl Strategy<Value = String> {
    let edge = 1_i64 << 55;
    prop_oneof![
        3 => (-20..2000_i64).prop_map(|n| n.to_string()),
        1 => (edge - 3..edge + 3).prop_map(|n| n.to_string()),
        1 => (-edge - 3..-edge + 3).prop_map(|n| n.to_string()),
        1 => any::<i64>().prop_map(|n| n.to_string()),
        1 => proptest::sample::select(ODD_NUMBERS).prop_map(str::to_owned),
    ]
}

pub(crate) fn literal() -> impl Strategy<Value = Literal> {
    let datatype = prop_oneof![
        Just(xsd::BOOLEAN.into_owned()),
        Just(xsd::DECIMAL.into_owned()),
        Just(xsd::INT.into_owned()),
        Just(xsd::DATE_TIME.into_owned()),
        iri(),
    ];
    let boolean = proptest::sample::select(vec!["true", "false", "1", "0", "True", " true"]);
    prop_oneof![
        3 => text().prop_map(Literal::new_simple_literal),
        2 => integer().prop_map(|value| Literal::new_typed_literal(value, xsd::INTEGER)),
        1 => boolean.prop_map(|value| Literal::new_typed_literal(value, xsd::BOOLEAN)),
        1 => (text(), datatype).prop_map(|(value, datatype)| Literal::new_typed_literal(value, datatype)),
        1 => (text(), "[a-zA-Z]{2,3}(-[A-Za-z]{2}|-[A-Z][a-z]{3}|-[0-9]{3}|-x-[a-z]{1,5})?")
            .prop_filter_map("a language", |(value, tag)| Literal::new_language_tagged_literal(value, tag).ok()),
    ]
}

pub(crate) fn term() -> impl Strategy<Value = Term> {
    prop_oneof![iri().prop_map(Term::from), blank().prop_map(Term::from), literal().prop_map(Term::from)]
}

pub(crate) fn triple() -> impl Strategy<Value = Triple> {
    let subject = prop_oneof![iri().prop_map(NamedOrBlankNode::from), blank().prop_map(NamedOrBlankNode::from),];
    let predicate = (0..4_u32).prop_map(|n| NamedNode::new_unchecked(format!("http://e/p{n}")));
    (subject, predicate, term()).prop_map(|(subject, predicate, object)| Triple { subject, predicate, object })
}

pub(crate) fn triples() -> impl Strategy<Value = Vec<Triple>> {
    proptest::collection::vec(triple(), 0..60)
}

/// Some of the default graph, others of few named graphs.
pub(crate) fn quads() -> impl Strategy<Value = Vec<Quad>> {
    let graph = prop_oneof![
        3 => Just(GraphName::DefaultGraph),
        3 => (0..3_u32).prop_map(|n| NamedNode::new_unchecked(format!("http://e/g{n}")).into()),
        1 => iri().prop_map(GraphName::from),
        1 => blank().prop_map(GraphName::from),
    ];
    proptest::collection::vec((triple(), graph).prop_map(|(triple, graph)| triple.in_graph(graph)), 0..60)
}

pub(crate) fn of_default_graph(triples: &[Triple]) -> Vec<Quad> {
    triples.iter().map(|triple| triple.clone().in_graph(GraphName::DefaultGraph)).collect()
}

/// N-Quads as oxttl writes it.
pub(crate) fn document_of_quads(quads: &[Quad]) -> Vec<u8> {
    let mut serializer = NQuadsSerializer::new().for_writer(Vec::new());
    for quad in quads {
        serializer.serialize_quad(quad).expect("memory takes everything");
    }
    serializer.finish()
}

/// N-Triples as oxttl writes it.
pub(crate) fn document(triples: &[Triple]) -> Vec<u8> {
    let mut serializer = NTriplesSerializer::new().for_writer(Vec::new());
    for triple in triples {
        serializer.serialize_triple(triple).expect("memory takes everything");
    }
    serializer.finish()
}

/// Whether oxrdfxml writes a triple in a readable form: no control characters, and labels that are XML's names.
pub(crate) fn is_xml(triple: &Triple) -> bool {
    let is_char = |c: char| matches!(c, ' '..='\u{FFFD}' | '\u{10000}'..) && !matches!(c, '\u{7F}'..='\u{9F}');
    let is_label = |node: &BlankNode| !node.as_str().starts_with(|c: char| c.is_ascii_digit());
    let is_subject = match &triple.subject {
        NamedOrBlankNode::BlankNode(node) => is_label(node),
        NamedOrBlankNode::NamedNode(_) => true,
    };
    is_subject
        && match &triple.object {
            Term::BlankNode(node) => is_label(node),
            Term::Literal(literal) => literal.value().chars().all(is_char),
            Term::NamedNode(_) => true,
            Term::Triple(_) => false,
        }
}

/// A document in any syntax, as the crates for it write it. Syntaxes without graphs have all triples in one; in RDF/XML
/// some are left out.
pub(crate) fn document_in(syntax: Syntax, quads: &[Quad]) -> Vec<u8> {
    const FULL: &str = "memory takes everything";
    let triples: Vec<Triple> = quads.iter().cloned().map(Triple::from).collect();
    match syntax {
        Syntax::NTriples => document(&triples),
        Syntax::NQuads => document_of_quads(quads),
        Syntax::Turtle => {
            let serializer = TurtleSerializer::new().with_prefix("e", "http://e/").expect("an IRI");
            let mut serializer = serializer.for_writer(Vec::new());
            triples.iter().for_each(|triple| serializer.serialize_triple(triple).expect(FULL));
            serializer.finish().expect(FULL)
        }
        Syntax::TriG => {
            let mut serializer = TriGSerializer::new().for_writer(Vec::new());
            quads.iter().for_each(|quad| serializer.serialize_quad(quad).expect(FULL));
            serializer.finish().expect(FULL)
        }
        Syntax::RdfXml => {
            let mut serializer = RdfXmlSerializer::new().for_writer(Vec::new());
            let written = triples.iter().filter(|triple| is_xml(triple));
            written.for_each(|triple| serializer.serialize_triple(triple).expect(FULL));
            serializer.finish().expect(FULL)
        }
        Syntax::JsonLd => {
            let mut serializer = JsonLdSerializer::new().for_writer(Vec::new());
            quads.iter().for_each(|quad| serializer.serialize_quad(quad).expect(FULL));
            serializer.finish().expect(FULL)
        }
    }
}
