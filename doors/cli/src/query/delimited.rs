//! SPARQL 1.1 Query Results in CSV and TSV, straight from the dictionary's bytes: no term is built. Byte by byte what
//! sparesults writes; a test compares them.

use std::fmt::Write;
use vicus::Envelope;
use vicus_rdf::{Id, TermView};
use vicus_sparql::Run;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Delimited {
    Csv,
    Tsv,
}

impl Delimited {
    /// The first line.
    pub(super) fn header(self, variables: &[String]) -> String {
        match self {
            Delimited::Csv => variables.join(",") + "\r\n",
            Delimited::Tsv => variables.iter().map(|name| format!("?{name}")).collect::<Vec<_>>().join("\t") + "\n",
        }
    }

    /// Appends a line for each row.
    pub(super) fn rows(self, run: &Run, envelope: &Envelope, out: &mut String) {
        let columns: Vec<&[u64]> = envelope.columns().iter().map(|column| column.u64s()).collect();
        let (between, end) = if self == Delimited::Csv { (',', "\r\n") } else { ('\t', "\n") };
        for row in 0..envelope.rows() {
            for (number, column) in columns.iter().enumerate() {
                if number > 0 {
                    out.push(between);
                }
                let id = Id::from_bits(column[row]);
                if !id.is_unbound() {
                    run.view(id, |view| self.term(view, out));
                }
            }
            out.push_str(end);
        }
    }

    fn term(self, view: TermView<'_>, out: &mut String) {
        match self {
            Delimited::Csv => csv(view, out),
            Delimited::Tsv => tsv(view, out),
        }
    }
}

fn csv(view: TermView<'_>, out: &mut String) {
    match view {
        TermView::Blank(blank) => write!(out, "_:{blank}").expect("a string takes everything"),
        TermView::String(text) | TermView::LangString { value: text, .. } | TermView::Typed { value: text, .. }
            if text.bytes().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r')) =>
        {
            out.push('"');
            for (number, part) in text.split('"').enumerate() {
                out.push_str(if number > 0 { "\"\"" } else { "" });
                out.push_str(part);
            }
            out.push('"');
        }
        view => view.write_lexical(out).expect("a string takes everything"),
    }
}

fn tsv(view: TermView<'_>, out: &mut String) {
    match view {
        TermView::Blank(blank) => write!(out, "_:{blank}").expect("a string takes everything"),
        TermView::Iri(iri) => in_brackets(iri, out),
        TermView::String(text) => quoted(text, out),
        TermView::LangString { value, language } => {
            quoted(value, out);
            out.push('@');
            out.push_str(language);
        }
        TermView::Boolean(_) | TermView::Integer(_) => view.write_lexical(out).expect("a string takes everything"),
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
    let mut rest = text;
    // Escapes are rare: everything between them is copied at once.
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b'"' | b'\\')) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'\t' => "\\t",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'"' => "\\\"",
            _ => "\\\\",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
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

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::{Literal, NamedNode, Term, Variable};
    use sparesults::{QueryResultsFormat, QueryResultsSerializer};
    use std::sync::Arc;
    use vicus_rdf::Store;
    use vicus_sparql::{Moment, Options, parse};

    const PIECES: [&str; 22] = [
        "",
        "a",
        "\"",
        "\\",
        "\t",
        "\n",
        "\r",
        ",",
        "ü",
        "日",
        "+",
        "-",
        ".",
        "e",
        "E",
        "1",
        "20",
        "true",
        "false",
        "'",
        " ",
        "\u{1F600}",
    ];
    const DATATYPES: [&str; 7] = ["boolean", "integer", "decimal", "double", "string", "date", "float"];

    /// Any term of a store is written as sparesults writes it.
    #[test]
    fn random_terms_are_written_as_sparesults_writes_them() {
        let mut state = 7u64;
        let mut below = |end: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % end
        };
        let mut terms: Vec<Term> = Vec::new();
        for number in 0..5000 {
            let text: String = (0..below(7)).map(|_| PIECES[below(PIECES.len())]).collect();
            terms.push(match below(6) {
                0 => NamedNode::new_unchecked(format!("http://e/{number}")).into(),
                1 => Literal::new_simple_literal(text).into(),
                2 => Literal::new_language_tagged_literal_unchecked(text, ["en", "de-at"][below(2)]).into(),
                3 => Literal::new_typed_literal(text, NamedNode::new_unchecked("http://e/type")).into(),
                _ => {
                    let name = DATATYPES[below(DATATYPES.len())];
                    let datatype = format!("http://www.w3.org/2001/XMLSchema#{name}");
                    Literal::new_typed_literal(text, NamedNode::new_unchecked(datatype)).into()
                }
            });
        }
        let line = |term: &Term| format!("_:b <http://e/p> {term} .\n");
        let text: String = terms.iter().map(line).collect();
        let store = Arc::new(Store::of_ntriples(text.as_bytes()).expect("good N-Triples"));
        let parsed = parse("SELECT ?s ?o ?none { ?s ?p ?o }").expect("good SPARQL");
        let plan = vicus_sparql::plan(&store, &parsed, &Options::default()).expect("supported");
        let run = plan.start(Moment::default());
        let id = |term: &Term| store.id(term.as_ref()).expect("it was loaded").bits();
        let blank = store.index(vicus_rdf::Order::Spo).keys()[0];
        let rows = terms.len();
        let columns = vec![
            vec![blank.bits(); rows].into(),
            terms.iter().map(id).collect::<Vec<u64>>().into(),
            vec![0u64; rows].into(),
        ];
        let envelope = Envelope::new(columns);
        let names = ["s", "o", "none"].map(str::to_owned);
        let variables: Vec<Variable> = names.iter().map(Variable::new_unchecked).collect();
        for (ours, theirs) in [(Delimited::Csv, QueryResultsFormat::Csv), (Delimited::Tsv, QueryResultsFormat::Tsv)] {
            let serializer = QueryResultsSerializer::from_format(theirs);
            let mut writer = serializer.serialize_solutions_to_writer(Vec::new(), variables.clone()).unwrap();
            for term in &terms {
                let subject = run.term(blank);
                let object = run.term(Id::from_bits(id(term)));
                writer.serialize([(&variables[0], &subject), (&variables[1], &object)]).unwrap();
            }
            let expected = String::from_utf8(writer.finish().unwrap()).unwrap();
            let mut found = ours.header(&names);
            ours.rows(&run, &envelope, &mut found);
            for (found, expected) in found.split('\n').zip(expected.split('\n')) {
                assert_eq!(found, expected, "{ours:?}");
            }
            assert_eq!(found, expected, "{ours:?}");
        }
    }
}
