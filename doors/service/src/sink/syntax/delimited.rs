//! The terms of SPARQL 1.1 Query Results CSV and TSV, W3C Recommendation 2013, with the terms of SPARQL 1.2.

use super::{escaped, plain};
use std::fmt::Write as _;
use vicus_rdf::TermView;

pub(super) fn csv(view: TermView<'_>, out: &mut String) {
    match view {
        TermView::Blank(blank) => write!(out, "_:{blank}").expect("a string takes everything"),
        TermView::String(text)
        | TermView::LangString { value: text, .. }
        | TermView::DirString { value: text, .. }
        | TermView::Typed { value: text, .. }
            if is_special(text) =>
        {
            in_marks(text, out);
        }
        // As in TSV: CSV has no form of its own for it.
        TermView::Triple(_) => {
            let mut text = String::new();
            tsv(view, &mut text);
            if is_special(&text) { in_marks(&text, out) } else { out.push_str(&text) }
        }
        view => plain(view, out),
    }
}

fn is_special(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r'))
}

fn in_marks(text: &str, out: &mut String) {
    out.push('"');
    for (number, part) in text.split('"').enumerate() {
        out.push_str(if number > 0 { "\"\"" } else { "" });
        out.push_str(part);
    }
    out.push('"');
}

pub(super) fn tsv(view: TermView<'_>, out: &mut String) {
    match view {
        TermView::Blank(blank) => write!(out, "_:{blank}").expect("a string takes everything"),
        TermView::Iri(iri) => in_brackets(iri, out),
        TermView::String(text) => quoted(text, out),
        TermView::LangString { value, language } => {
            quoted(value, out);
            out.push('@');
            out.push_str(language);
        }
        TermView::DirString { value, language, direction } => {
            quoted(value, out);
            write!(out, "@{language}--{direction}").expect("a string takes everything");
        }
        TermView::Triple(triple) => {
            out.push_str("<<( ");
            tsv(triple.subject(), out);
            out.push(' ');
            in_brackets(triple.predicate(), out);
            out.push(' ');
            tsv(triple.object(), out);
            out.push_str(" )>>");
        }
        TermView::Boolean(_) | TermView::Integer(_) => plain(view, out),
        TermView::Typed { value, datatype } if stands_bare(value, datatype) => out.push_str(value),
        TermView::Typed { value, datatype } => {
            quoted(value, out);
            out.push_str("^^");
            in_brackets(datatype, out);
        }
    }
}

fn in_brackets(iri: &str, out: &mut String) {
    out.push('<');
    out.push_str(iri);
    out.push('>');
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    escaped(
        text,
        out,
        |byte| matches!(byte, b'\t' | b'\n' | b'\r' | b'"' | b'\\'),
        |byte, out| {
            out.push_str(match byte {
                b'\t' => "\\t",
                b'\n' => "\\n",
                b'\r' => "\\r",
                b'"' => "\\\"",
                _ => "\\\\",
            });
        },
    );
    out.push('"');
}

/// Whether Turtle has an abbreviation for such a literal, so that its lexical form says it all.
fn stands_bare(value: &str, datatype: &str) -> bool {
    let Some(name) = datatype.strip_prefix("http://www.w3.org/2001/XMLSchema#") else { return false };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |text: &str| !text.is_empty() && digits(text);
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    match name {
        "boolean" => value == "true" || value == "false",
        "integer" => number(unsigned),
        "decimal" => unsigned.split_once('.').is_some_and(|(whole, part)| digits(whole) && number(part)),
        "double" => unsigned.split_once(['e', 'E']).is_some_and(|(mantissa, exponent)| {
            let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
            let has_digits = !whole.is_empty() || !part.is_empty();
            has_digits && digits(whole) && digits(part) && number(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))
        }),
        _ => false,
    }
}
