//! Solutions in CSV: SPARQL 1.1 Query Results CSV Format, §3, and RFC 4180. The format has texts only. A text in
//! SPARQL's syntax of an IRI, a blank node or a number is read as such, anything else as a simple string, and an empty
//! field as no value.

use oxiri::Iri;
use oxrdf::vocab::xsd;
use oxrdf::{BlankNode, Literal, NamedNode, Term};
use std::io::{self, BufRead, BufReader, Read};
use vicus_sparql::SolutionSink;

/// Reads all solutions.
pub(super) fn read(reader: impl Read, found: SolutionSink<'_>) -> io::Result<()> {
    let mut records = Records { reader: BufReader::new(reader), line: 1, begun: 1 };
    let (mut fields, mut names) = (Vec::new(), Vec::new());
    if !records.next(&mut names)? {
        return Err(records.wrong("the names of the variables are missing"));
    }
    let name = |field: &String| field.strip_prefix('?').unwrap_or(field).to_owned();
    let names: Vec<String> = names.iter().map(name).collect();
    let is_name = |name: &&str| !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || "<>\"{}".contains(c));
    // Without variables the first line is empty, and so are the others.
    let has_names = names.len() > 1 || !names[0].is_empty();
    if let Some(wrong) = names.iter().find(|name| has_names && !is_name(&name.as_str())) {
        return Err(records.wrong(&format!("`{wrong}` is no variable")));
    }
    let mut solution = Vec::new();
    while records.next(&mut fields)? {
        if fields.len() != names.len() || !has_names && !fields[0].is_empty() {
            let count = if has_names { names.len() } else { 0 };
            return Err(records.wrong(&format!("{} fields, where {count} variables are named", fields.len())));
        }
        solution.clear();
        let bound = names.iter().zip(&fields).filter(|(_, field)| !field.is_empty());
        solution.extend(bound.map(|(name, field)| (name.as_str(), term(field))));
        found(&solution);
    }
    Ok(())
}

/// The records of a text. A field may have line ends within quotation marks.
struct Records<R> {
    reader: BufReader<R>,
    line: u64,
    /// The beginning of the last record.
    begun: u64,
}

impl<R: Read> Records<R> {
    /// The fields of the next record; false at the end.
    fn next(&mut self, fields: &mut Vec<String>) -> io::Result<bool> {
        fields.clear();
        self.begun = self.line;
        let (mut field, mut is_quoted, mut is_open, mut has_any) = (Vec::new(), false, false, false);
        let end = |field: &mut Vec<u8>| String::from_utf8(std::mem::take(field)).map_err(io::Error::other);
        loop {
            let Some(&byte) = self.reader.fill_buf()?.first() else {
                if is_open {
                    return Err(self.wrong("a quotation mark is not closed"));
                }
                if has_any {
                    fields.push(end(&mut field)?);
                }
                return Ok(has_any);
            };
            self.reader.consume(1);
            has_any = true;
            match byte {
                b'"' if is_open => {
                    // Two of them are one, a single one ends the text.
                    if self.reader.fill_buf()?.first() == Some(&b'"') {
                        self.reader.consume(1);
                        field.push(byte);
                    } else {
                        is_open = false;
                    }
                }
                b'"' if field.is_empty() && !is_quoted => (is_quoted, is_open) = (true, true),
                b',' | b'\n' | b'\r' if !is_open => {
                    fields.push(end(&mut field)?);
                    is_quoted = false;
                    if byte == b',' {
                        continue;
                    }
                    if byte == b'\r' && self.reader.fill_buf()?.first() == Some(&b'\n') {
                        self.reader.consume(1);
                    }
                    self.line += 1;
                    return Ok(true);
                }
                _ if is_quoted && !is_open => return Err(self.wrong("text behind a closing quotation mark")),
                _ => {
                    self.line += u64::from(byte == b'\n');
                    field.push(byte);
                }
            }
        }
    }

    fn wrong(&self, what: &str) -> io::Error {
        io::Error::other(format!("line {} of CSV: {what}", self.begun))
    }
}

fn term(field: &str) -> Term {
    if let Some(node) = field.strip_prefix("_:").and_then(|label| BlankNode::new(label).ok()) {
        return node.into();
    }
    if let Some(datatype) = number(field) {
        return Literal::new_typed_literal(field, datatype).into();
    }
    let is_iri = field.contains("://") || field.starts_with("urn:") || field.starts_with("mailto:");
    match Iri::parse(field) {
        Ok(_) if is_iri => NamedNode::new_unchecked(field).into(),
        _ => Literal::new_simple_literal(field).into(),
    }
}

/// The datatype of a number, by the productions INTEGER, DECIMAL and DOUBLE of SPARQL's grammar with a sign or without.
fn number(field: &str) -> Option<oxrdf::NamedNodeRef<'static>> {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = field.strip_prefix(['+', '-']).unwrap_or(field);
    if let Some((mantissa, exponent)) = unsigned.split_once(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_double = is_digits(whole) && is_digits(part) && whole.len() + part.len() > 0;
        return (is_double && !exponent.is_empty() && is_digits(exponent)).then_some(xsd::DOUBLE);
    }
    match unsigned.split_once('.') {
        Some((whole, part)) => (is_digits(whole) && is_digits(part) && !part.is_empty()).then_some(xsd::DECIMAL),
        None => (is_digits(unsigned) && !unsigned.is_empty()).then_some(xsd::INTEGER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<String>, String> {
        let mut rows = Vec::new();
        let mut found = |solution: &[(&str, Term)]| {
            rows.push(solution.iter().map(|(name, term)| format!("{name}={term}")).collect::<Vec<_>>().join(" "));
        };
        read(text.as_bytes(), &mut found).map_err(|error| error.to_string())?;
        Ok(rows)
    }

    /// The example of SPARQL 1.1 Query Results CSV Format, §3.2, with a row of numbers.
    #[test]
    fn fields_are_what_they_look_like() {
        let text = "x,literal\r\nhttp://example/x,String\r\nhttp://example/x,\"String-with-dquote\"\"\"\r\n_:b0,Blank \
            node\r\n\
                    ,Missing 'x'\r\n,\r\nhttp://example/x,\r\n_:b1,\"String-with-lang, \nand a \
                    line\"\r\n_:b1,123\r\n-1.5,1e6\r\n";
        let integer = "^^<http://www.w3.org/2001/XMLSchema#integer>";
        let expected = [
            "x=<http://example/x> literal=\"String\"".to_owned(),
            "x=<http://example/x> literal=\"String-with-dquote\\\"\"".to_owned(),
            "x=_:b0 literal=\"Blank node\"".to_owned(),
            "literal=\"Missing 'x'\"".to_owned(),
            String::new(),
            "x=<http://example/x>".to_owned(),
            "x=_:b1 literal=\"String-with-lang, \\nand a line\"".to_owned(),
            format!("x=_:b1 literal=\"123\"{integer}"),
            format!(
                "x=\"-1.5\"{} literal=\"1e6\"{}",
                integer.replace("integer", "decimal"),
                integer.replace("integer", "double")
            ),
        ];
        assert_eq!(all(text).unwrap(), expected);
        assert_eq!(all("a,b\n1.,a b://c").unwrap(), ["a=\"1.\" b=\"a b://c\""]);
        assert_eq!(all("\n\n\n").unwrap(), ["", ""], "solutions without variables");
    }

    #[test]
    fn what_is_no_csv_is_told_by_its_line() {
        for (text, says) in [
            ("", "line 1 of CSV: the names of the variables are missing"),
            ("<!DOCTYPE html>\n", "line 1 of CSV: `<!DOCTYPE html>` is no variable"),
            ("a,b\n1\n", "line 2 of CSV: 1 fields, where 2 variables are named"),
            ("\n\n<!DOCTYPE html>\n", "line 3 of CSV: 1 fields, where 0 variables are named"),
            ("a\n\"x", "line 2 of CSV: a quotation mark is not closed"),
            ("a\n\"x\"y\n", "line 2 of CSV: text behind a closing quotation mark"),
        ] {
            assert_eq!(all(text).unwrap_err(), says);
        }
    }
}
