//! SPARQL Query Results XML Format, W3C Recommendation 2013, with the terms of SPARQL 1.2.

use super::{NotInXml, first, plain};
use std::fmt::Write as _;
use vicus_rdf::TermView;

/// The namespace of the attributes for a direction.
const ITS: &str = "http://www.w3.org/2005/11/its";

pub(super) fn head(variables: &[String]) -> String {
    let mut head =
        "<?xml version=\"1.0\"?>\n<sparql xmlns=\"http://www.w3.org/2005/sparql-results#\"><head>".to_owned();
    variables
        .iter()
        .for_each(|name| write!(head, "<variable name=\"{}\"/>", attribute(name)).expect("a string takes everything"));
    head.push_str("</head><results>");
    head
}

/// A name as an attribute's value: SQL gives columns any names. XML has no way to write some characters; U+FFFD stands
/// for each.
fn attribute(name: &str) -> String {
    let mut out = String::new();
    let is_known = text(name, &mut out).is_ok();
    if !is_known {
        out.clear();
        let known: String = name
            .chars()
            .map(|character| match character {
                '\t' | '\n' | '\r' => character,
                '\0'..' ' | '\u{FFFE}' | '\u{FFFF}' => '\u{FFFD}',
                other => other,
            })
            .collect();
        text(&known, &mut out).expect("all characters are XML's");
    }
    out
}

/// A binding's opening tag.
pub(super) fn opening(name: &str) -> String {
    format!("<binding name=\"{}\">", attribute(name))
}

/// A variable with its term.
pub(super) fn binding(before: &str, view: TermView<'_>, out: &mut String) -> Result<(), NotInXml> {
    out.push_str(before);
    term(view, out)?;
    out.push_str("</binding>");
    Ok(())
}

fn term(view: TermView<'_>, out: &mut String) -> Result<(), NotInXml> {
    match view {
        TermView::Triple(triple) => {
            out.push_str("<triple><subject>");
            term(triple.subject(), out)?;
            out.push_str("</subject><predicate>");
            term(TermView::Iri(triple.predicate()), out)?;
            out.push_str("</predicate><object>");
            term(triple.object(), out)?;
            out.push_str("</object></triple>");
        }
        TermView::Blank(blank) => write!(out, "<bnode>{blank}</bnode>").expect("a string takes everything"),
        TermView::Iri(iri) => {
            out.push_str("<uri>");
            text(iri, out)?;
            out.push_str("</uri>");
        }
        literal => {
            match literal {
                TermView::String(_) => out.push_str("<literal>"),
                TermView::LangString { language, .. } => {
                    out.push_str("<literal xml:lang=\"");
                    text(language, out)?;
                    out.push_str("\">");
                }
                TermView::DirString { language, direction, .. } => {
                    write!(out, "<literal xmlns:its=\"{ITS}\" its:version=\"2.0\" its:dir=\"{direction}\" xml:lang=\"")
                        .expect("a string takes everything");
                    text(language, out)?;
                    out.push_str("\">");
                }
                _ => {
                    out.push_str("<literal datatype=\"");
                    text(literal.datatype().expect("a literal has one"), out)?;
                    out.push_str("\">");
                }
            }
            match literal.as_str() {
                Some(value) => bounded(value, out)?,
                None => plain(literal, out),
            }
            out.push_str("</literal>");
        }
    }
    Ok(())
}

/// A literal's text. A space at its beginning or end is written as a reference: many readers take spaces away there.
pub(in crate::sink) fn bounded(value: &str, out: &mut String) -> Result<(), NotInXml> {
    let front = value.len() - value.trim_start_matches(' ').len();
    let core = value[front..].trim_end_matches(' ');
    let space = |count: usize, out: &mut String| (0..count).for_each(|_| out.push_str("&#32;"));
    space(front, out);
    text(core, out)?;
    space(value.len() - front - core.len(), out);
    Ok(())
}

/// Characters of a text or an attribute's value. A reader makes a line feed of a carriage return, and a space of a line
/// feed or tab in an attribute (XML 1.0, §2.11 and §3.3.3), so these are written as references, which stay as they are.
/// A character outside of XML (§2.2) can't even be referred to.
pub(in crate::sink) fn text(value: &str, out: &mut String) -> Result<(), NotInXml> {
    // U+FFFE and U+FFFF begin with 0xEF, as do others.
    let is_special = |byte: u8| byte < 0x20 || matches!(byte, b'<' | b'>' | b'&' | b'"' | b'\'' | 0xEF);
    let mut rest = value;
    while let Some(at) = first(rest.as_bytes(), is_special) {
        out.push_str(&rest[..at]);
        let character = rest[at..].chars().next().expect("there is one");
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\0'..' ' | '\u{FFFE}' | '\u{FFFF}' => return Err(NotInXml(character)),
            other => out.push(other),
        }
        rest = &rest[at + character.len_utf8()..];
    }
    out.push_str(rest);
    Ok(())
}
