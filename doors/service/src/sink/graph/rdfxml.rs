//! RDF 1.1 XML Syntax, W3C Recommendation 2014, and triple terms and directions of RDF 1.2 XML Syntax. Not oxrdfxml:
//! its writer makes a wrong document of a predicate that cannot be the name of an element, and loses carriage returns.

use super::Refused;
use crate::sink::syntax::plain;
use crate::sink::syntax::xml::{bounded, text};
use std::fmt::Write as _;
use vicus_rdf::TermView;

const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
/// The namespace of the attributes for a direction.
const ITS: &str = "http://www.w3.org/2005/11/its";
pub(super) const TAIL: &str = "</rdf:RDF>\n";
/// The end of a subject's element.
pub(super) const CLOSING: &str = "</rdf:Description>\n";

/// The namespaces declared by the document's first element: of the prefixes that can be names in XML.
pub(super) struct Names(Vec<(String, String)>);

impl Names {
    pub(super) fn of(prefixes: &[(String, String)]) -> Names {
        let mut names = vec![("rdf".to_owned(), RDF.to_owned())];
        for (name, namespace) in prefixes {
            let is_name = name.starts_with(is_name_start) && name.chars().all(is_name);
            // `p` is for all other namespaces, and names in `xml…` are XML's.
            let is_free = is_name && name != "p" && !name.to_ascii_lowercase().starts_with("xml");
            let is_new = names.iter().all(|(other, of_other)| other != name && of_other != namespace);
            if is_free && is_new && !XML.contains(&&**namespace) && text(namespace, &mut String::new()).is_ok() {
                names.push((name.clone(), namespace.clone()));
            }
        }
        Names(names)
    }

    /// The document up to its first statement.
    pub(super) fn head(&self) -> String {
        let mut head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rdf:RDF".to_owned();
        for (name, namespace) in &self.0 {
            write!(head, " xmlns:{name}=\"").expect("a string takes everything");
            text(namespace, &mut head).expect("it was tried");
            head.push('"');
        }
        head + ">\n"
    }

    fn get(&self, namespace: &str) -> Option<&str> {
        self.0.iter().find(|(_, of_name)| of_name == namespace).map(|(name, _)| &**name)
    }
}

/// These two can't be bound to another prefix.
const XML: [&str; 2] = ["http://www.w3.org/XML/1998/namespace", "http://www.w3.org/2000/xmlns/"];

/// The beginning of a subject's element.
pub(super) fn open(subject: TermView<'_>, out: &mut String) -> Result<(), Refused> {
    out.push_str("<rdf:Description");
    match subject {
        TermView::Blank(_) => named("nodeID", subject, out),
        iri => {
            out.push_str(" rdf:about=\"");
            plain_text(iri, out)?;
            out.push('"');
        }
    }
    out.push_str(">\n");
    Ok(())
}

/// A predicate with its object.
pub(super) fn property(
    names: &Names,
    predicate: TermView<'_>,
    object: TermView<'_>,
    out: &mut String,
) -> Result<(), Refused> {
    let iri = predicate.as_str().ok_or(Refused::Predicate)?;
    let (namespace, local) = split(iri).ok_or(Refused::Predicate)?;
    let known = names.get(namespace);
    let prefix = known.unwrap_or("p");
    write!(out, "  <{prefix}:{local}").expect("a string takes everything");
    if known.is_none() {
        out.push_str(" xmlns:p=\"");
        text(namespace, out)?;
        out.push('"');
    }
    match object {
        TermView::Blank(_) => {
            named("nodeID", object, out);
            out.push_str("/>\n");
            return Ok(());
        }
        TermView::Iri(iri) => {
            out.push_str(" rdf:resource=\"");
            text(iri, out)?;
            out.push_str("\"/>\n");
            return Ok(());
        }
        TermView::Triple(triple) => {
            out.push_str(" rdf:version=\"1.2\" rdf:parseType=\"Triple\">\n");
            open(triple.subject(), out)?;
            property(names, TermView::Iri(triple.predicate()), triple.object(), out)?;
            out.push_str(CLOSING);
            writeln!(out, "</{prefix}:{local}>").expect("a string takes everything");
            return Ok(());
        }
        TermView::String(_) => {}
        TermView::DirString { language, direction, .. } => {
            write!(
                out,
                " rdf:version=\"1.2\" xmlns:its=\"{ITS}\" its:version=\"2.0\" its:dir=\"{direction}\" xml:lang=\""
            )
            .expect("a string takes everything");
            text(language, out)?;
            out.push('"');
        }
        TermView::LangString { language, .. } => {
            out.push_str(" xml:lang=\"");
            text(language, out)?;
            out.push('"');
        }
        literal => {
            out.push_str(" rdf:datatype=\"");
            text(literal.datatype().expect("a literal has one"), out)?;
            out.push('"');
        }
    }
    out.push('>');
    match object.as_str() {
        Some(value) => bounded(value, out)?,
        None => plain(object, out),
    }
    writeln!(out, "</{prefix}:{local}>").expect("a string takes everything");
    Ok(())
}

fn plain_text(view: TermView<'_>, out: &mut String) -> Result<(), Refused> {
    Ok(text(view.as_str().expect("an IRI has a text"), out)?)
}

/// A blank node. An attribute of this kind can't begin with a digit, a label can.
fn named(attribute: &str, node: TermView<'_>, out: &mut String) {
    let TermView::Blank(blank) = node else { unreachable!("only blank nodes have labels") };
    write!(out, " rdf:{attribute}=\"b{blank}\"").expect("a string takes everything");
}

/// Cuts an IRI into a namespace and the name of an element. `None` if it ends with none, or if an element of that name
/// means something else (§5.1 and §7.4).
fn split(iri: &str) -> Option<(&str, &str)> {
    let tail = iri.char_indices().rev().take_while(|(_, c)| is_name(*c)).map(|(at, _)| at).last()?;
    let start = iri[tail..].char_indices().find(|(_, c)| is_name_start(*c)).map(|(at, _)| tail + at)?;
    let (namespace, local) = iri.split_at(start);
    const RESERVED: [&str; 12] = [
        "RDF",
        "ID",
        "about",
        "parseType",
        "resource",
        "nodeID",
        "datatype",
        "Description",
        "li",
        "aboutEach",
        "aboutEachPrefix",
        "bagID",
    ];
    let is_reserved = namespace == RDF && RESERVED.contains(&local);
    (!namespace.is_empty() && !XML.contains(&namespace) && !is_reserved).then_some((namespace, local))
}

/// Namespaces in XML 1.0, production 4: the first characters of a name without a colon.
fn is_name_start(c: char) -> bool {
    matches!(c, 'A'..='Z' | 'a'..='z' | '_' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

/// The further characters of such a name.
fn is_name(c: char) -> bool {
    is_name_start(c) || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_predicate_is_a_name_or_is_refused() {
        for (iri, found) in [
            ("http://e/p", Some(("http://e/", "p"))),
            ("http://e/#a-b.c", Some(("http://e/#", "a-b.c"))),
            ("http://e/1a", Some(("http://e/1", "a"))),
            ("urn:x:ä", Some(("urn:x:", "ä"))),
            (
                "http://www.w3.org/1999/02/22-rdf-syntax-ns#type",
                Some(("http://www.w3.org/1999/02/22-rdf-syntax-ns#", "type")),
            ),
            ("http://www.w3.org/1999/02/22-rdf-syntax-ns#li", None),
            ("http://e/", None),
            ("http://e/1", None),
            ("http://e/p%20", None),
        ] {
            assert_eq!(split(iri), found, "{iri}");
        }
    }
}
