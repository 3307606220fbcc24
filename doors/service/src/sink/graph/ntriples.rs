//! RDF 1.1 N-Triples, W3C Recommendation 2014, and the terms of RDF 1.2. A line of N-Triples is one of N-Quads; there a
//! graph's name may follow the object.

use crate::sink::syntax::{escaped, term_of_turtle};
use std::fmt::Write as _;
use vicus_rdf::TermView;

/// `graph` is a space and its name, or nothing.
pub(super) fn line([subject, predicate, object]: [TermView<'_>; 3], graph: &str, out: &mut String) {
    term(subject, out);
    out.push(' ');
    term(predicate, out);
    out.push(' ');
    term(object, out);
    out.push_str(graph);
    out.push_str(" .\n");
}

pub(super) fn term(view: TermView<'_>, out: &mut String) {
    term_of_turtle(view, quoted, |_| false, out);
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    let is_special = |byte: u8| byte < 0x20 || matches!(byte, b'"' | b'\\' | 0x7F);
    escaped(text, out, is_special, |byte, out| match byte {
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        control => write!(out, "\\u{control:04X}").expect("a string takes everything"),
    });
    out.push('"');
}
