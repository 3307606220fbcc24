//! SPARQL 1.1 Query Results JSON Format, W3C Recommendation 2013, with the terms of SPARQL 1.2.

use super::{escaped, plain};
use std::fmt::Write as _;
use vicus_rdf::TermView;

/// A row's object, with the comma between it and the row before.
pub(super) const BEFORE_ROW: &str = ",\n{";
/// Its part before the object, missing in the first row.
pub(super) const BETWEEN_ROWS: &str = ",";

pub(super) fn head(variables: &[String]) -> String {
    let names: Vec<String> = variables.iter().map(|name| quoted(name)).collect();
    format!("{{\"head\":{{\"vars\":[{}]}},\"results\":{{\"bindings\":[", names.join(","))
}

/// A binding up to its type's value, with the comma between it and the one before.
pub(super) fn key(name: &str) -> String {
    format!(",{}:{{\"type\":\"", quoted(name))
}

/// A variable with its term.
pub(super) fn binding(before: &str, view: TermView<'_>, out: &mut String) {
    let is_first = out.ends_with('{');
    out.push_str(if is_first { &before[1..] } else { before });
    term(view, out);
}

/// A term behind `"type":"`.
fn term(view: TermView<'_>, out: &mut String) {
    match view {
        TermView::Triple(triple) => {
            let parts = [triple.subject(), TermView::Iri(triple.predicate()), triple.object()];
            out.push_str("triple\",\"value\":{");
            for (number, (name, part)) in ["subject", "predicate", "object"].into_iter().zip(parts).enumerate() {
                let before = if number > 0 { "," } else { "" };
                write!(out, "{before}\"{name}\":{{\"type\":\"").expect("a string takes everything");
                term(part, out);
            }
            out.push_str("}}");
        }
        TermView::Blank(blank) => write!(out, "bnode\",\"value\":\"{blank}\"}}").expect("a string takes everything"),
        TermView::Iri(iri) => {
            out.push_str("uri\",\"value\":\"");
            text(iri, out);
            out.push_str("\"}");
        }
        literal => {
            out.push_str("literal\",\"value\":\"");
            match literal.as_str() {
                Some(value) => text(value, out),
                None => plain(literal, out),
            }
            match literal {
                TermView::String(_) => out.push_str("\"}"),
                TermView::LangString { language, .. } => {
                    out.push_str("\",\"xml:lang\":\"");
                    text(language, out);
                    out.push_str("\"}");
                }
                TermView::DirString { language, direction, .. } => {
                    out.push_str("\",\"xml:lang\":\"");
                    text(language, out);
                    write!(out, "\",\"its:dir\":\"{direction}\"}}").expect("a string takes everything");
                }
                _ => {
                    out.push_str("\",\"datatype\":\"");
                    text(literal.datatype().expect("a literal has one"), out);
                    out.push_str("\"}");
                }
            }
        }
    }
}

fn quoted(name: &str) -> String {
    let mut quoted = "\"".to_owned();
    text(name, &mut quoted);
    quoted.push('"');
    quoted
}

/// A string's characters as RFC 8259, §7, has them.
pub(in crate::sink) fn text(value: &str, out: &mut String) {
    let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    escaped(value, out, is_special, |byte, out| match byte {
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        control => write!(out, "\\u{control:04x}").expect("a string takes everything"),
    });
}
