//! Solutions in TSV: SPARQL 1.1 Query Results TSV Format, §4. A line has the terms of a solution in Turtle's syntax; a
//! triple term is written as N-Triples 1.2 writes it, up to the greatest number of levels.

use super::nesting::too_deep;
use oxrdf::{NamedNode, NamedOrBlankNode, Term, Triple, Variable};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};
use std::str::FromStr;
use vicus_rdf::triple::MOST_NESTED;
use vicus_sparql::SolutionSink;

/// Reads all solutions.
pub(super) fn read(reader: impl Read, found: SolutionSink<'_>) -> io::Result<()> {
    let mut lines = Lines { reader: BufReader::new(reader), line: String::new(), number: 0 };
    if !lines.next()? {
        return Err(lines.wrong("the names of the variables are missing"));
    }
    let head = lines.line.trim_matches([' ', '\r', '\n']).to_owned();
    let mut names = Vec::new();
    for name in head.split('\t').map(str::trim) {
        // Without variables the first line is empty, and so are the others.
        if head.is_empty() {
            break;
        }
        let is_name = name.starts_with(['?', '$']) && Variable::from_str(name).is_ok();
        if !is_name {
            return Err(lines.wrong(&format!("`{}` is no variable", shortened(name))));
        }
        names.push(&name[1..]);
    }
    if names.iter().collect::<BTreeSet<_>>().len() != names.len() {
        return Err(lines.wrong("a variable is named twice"));
    }
    let mut solution = Vec::new();
    while lines.next()? {
        solution.clear();
        let fields = lines.line.trim_end_matches(['\r', '\n']);
        let count = if names.is_empty() && fields.trim().is_empty() { 0 } else { fields.split('\t').count() };
        if count != names.len() {
            return Err(lines.wrong(&format!("{count} fields, where {} variables are named", names.len())));
        }
        for (&name, field) in names.iter().zip(fields.split('\t')) {
            let field = field.trim();
            if !field.is_empty() {
                solution.push((name, term(field).map_err(|why| lines.wrong(&why))?));
            }
        }
        found(&solution);
    }
    Ok(())
}

struct Lines<R> {
    reader: BufReader<R>,
    line: String,
    number: u64,
}

impl<R: Read> Lines<R> {
    /// Reads the next line; false at the end.
    fn next(&mut self) -> io::Result<bool> {
        self.line.clear();
        self.number += 1;
        Ok(self.reader.read_line(&mut self.line)? > 0)
    }

    fn wrong(&self, what: &str) -> io::Error {
        io::Error::other(format!("line {} of TSV: {what}", self.number))
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

/// A term. Triples within each other are unpacked by a loop.
fn term(field: &str) -> Result<Term, String> {
    let part = |text: &str| Term::from_str(text).map_err(|error| format!("`{}`: {error}", shortened(text)));
    let (mut rest, mut outer) = (field, Vec::new());
    while let Some(inner) = rest.strip_prefix("<<(") {
        if outer.len() == MOST_NESTED {
            return Err(too_deep());
        }
        let wrong = || format!("`{}` is no triple term", shortened(rest));
        let whole = inner.trim_end().strip_suffix(")>>").ok_or_else(wrong)?.trim();
        // Neither subjects nor predicates have spaces.
        let (subject, after) = whole.split_once([' ', '\t']).ok_or_else(wrong)?;
        let (predicate, object) = after.trim_start().split_once([' ', '\t']).ok_or_else(wrong)?;
        let subject = match part(subject)? {
            Term::NamedNode(node) => NamedOrBlankNode::from(node),
            Term::BlankNode(node) => node.into(),
            Term::Literal(_) | Term::Triple(_) => return Err(wrong()),
        };
        let predicate = NamedNode::from_str(predicate).map_err(|_| wrong())?;
        outer.push((subject, predicate));
        rest = object.trim_start();
    }
    let innermost = part(rest)?;
    Ok(outer
        .into_iter()
        .rev()
        .fold(innermost, |object, (subject, predicate)| Triple::new(subject, predicate, object).into()))
}
