//! The terms of SPARQL 1.1 Query Results CSV and TSV, W3C Recommendation 2013, with the terms of SPARQL 1.2.

use super::{escaped, plain, term_of_turtle};
use std::fmt::Write as _;
use vicus_rdf::TermView;

pub(super) fn csv(view: TermView<'_>, out: &mut String) {
    match view {
        TermView::Blank(blank) => write!(out, "_:{blank}").expect("a string takes everything"),
        TermView::Iri(text)
        | TermView::String(text)
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
            field(&text, out);
        }
        view => plain(view, out),
    }
}

/// A field of CSV: RFC 4180, §2.
fn field(text: &str, out: &mut String) {
    if is_special(text) { in_marks(text, out) } else { out.push_str(text) }
}

/// The line with the names of the columns. SQL gives columns any names.
pub(super) fn csv_head(names: &[String]) -> String {
    let mut head = String::new();
    for (number, name) in names.iter().enumerate() {
        head.push_str(if number > 0 { "," } else { "" });
        field(name, &mut head);
    }
    head + "\r\n"
}

/// The head of TSV: a name with a tab or the end of a line has escapes, as literals have.
pub(super) fn tsv_head(names: &[String]) -> String {
    let mut head = String::new();
    for (number, name) in names.iter().enumerate() {
        head.push_str(if number > 0 { "\t?" } else { "?" });
        let is_special = |byte| matches!(byte, b'\t' | b'\n' | b'\r' | b'\\');
        escaped(name, &mut head, is_special, escape);
    }
    head + "\n"
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
    term_of_turtle(view, quoted, stands_bare, out);
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    escaped(text, out, |byte| matches!(byte, b'\t' | b'\n' | b'\r' | b'"' | b'\\'), escape);
    out.push('"');
}

fn escape(byte: u8, out: &mut String) {
    out.push_str(match byte {
        b'\t' => "\\t",
        b'\n' => "\\n",
        b'\r' => "\\r",
        b'"' => "\\\"",
        _ => "\\\\",
    });
}

/// Whether Turtle has an abbreviation for such a literal, so its lexical form says it all.
fn stands_bare(view: TermView<'_>) -> bool {
    let (value, datatype) = match view {
        TermView::Boolean(_) | TermView::Integer(_) => return true,
        TermView::Typed { value, datatype } => (value, datatype),
        _ => return false,
    };
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
