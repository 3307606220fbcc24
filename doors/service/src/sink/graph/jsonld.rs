//! JSON-LD 1.1 in expanded form, W3C Recommendation 2020: a list of node objects without a context. Triples that follow
//! each other with one subject and predicate share an object. Not oxjsonld: its writer has to see all triples in turn,
//! here several boxes write.

use super::Refused;
use crate::sink::syntax::json::text;
use crate::sink::syntax::plain;
use std::fmt::Write as _;
use vicus_rdf::TermView;

pub(super) const HEAD: &str = "[";
pub(super) const TAIL: &str = "\n]\n";
/// The end of a node object.
pub(super) const CLOSING: &str = "]}";
/// The end of a named graph's list of node objects.
pub(super) const CLOSING_GRAPH: &str = "\n]}";
/// The text before a node object, except the first.
pub(super) const BETWEEN_NODES: &str = ",";

/// A named graph up to its first node object, with the comma before it.
pub(super) fn open_graph(name: TermView<'_>, out: &mut String) {
    out.push_str(BETWEEN_NODES);
    out.push_str("\n{\"@id\":\"");
    node(name, out);
    out.push_str("\",\"@graph\":[");
}

/// A node object up to the objects of its predicate.
pub(super) fn open(subject: TermView<'_>, predicate: TermView<'_>, out: &mut String) {
    out.push_str("\n{\"@id\":\"");
    node(subject, out);
    out.push_str("\",\"");
    node(predicate, out);
    out.push_str("\":[");
}

pub(super) fn object(object: TermView<'_>, out: &mut String) -> Result<(), Refused> {
    match object {
        TermView::Triple(_) => return Err(Refused::Triple),
        TermView::Blank(_) | TermView::Iri(_) => {
            out.push_str("{\"@id\":\"");
            node(object, out);
        }
        literal => {
            match literal {
                TermView::String(_) => {}
                TermView::LangString { language, .. } => {
                    out.push_str("{\"@language\":\"");
                    text(language, out);
                }
                TermView::DirString { language, direction, .. } => {
                    write!(out, "{{\"@direction\":\"{direction}\",\"@language\":\"")
                        .expect("a string takes everything");
                    text(language, out);
                }
                _ => {
                    out.push_str("{\"@type\":\"");
                    text(literal.datatype().expect("a literal has one"), out);
                }
            }
            out.push_str(if matches!(literal, TermView::String(_)) { "{\"@value\":\"" } else { "\",\"@value\":\"" });
            match literal.as_str() {
                Some(value) => text(value, out),
                None => plain(literal, out),
            }
        }
    }
    out.push_str("\"}");
    Ok(())
}

fn node(view: TermView<'_>, out: &mut String) {
    match view {
        TermView::Blank(blank) => write!(out, "_:{blank}").expect("a string takes everything"),
        TermView::Iri(iri) => text(iri, out),
        literal => unreachable!("{literal} is no node"),
    }
}
