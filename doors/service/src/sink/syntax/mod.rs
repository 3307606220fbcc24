//! The W3C's formats for solutions, written straight from the dictionary's bytes: no term is built. Rows are text that
//! several threads may make at once; the text before, between and behind them is added when they are written.

mod delimited;
pub(super) mod json;
pub(super) mod xml;

use super::format::Format;
use delimited::{csv, csv_head, tsv, tsv_head};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use vicus_rdf::{TermView, TripleView};

/// The formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Syntax {
    Csv,
    Tsv,
    Json,
    Xml,
}

/// A character without a form in XML 1.0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NotInXml(pub(super) char);

impl Syntax {
    /// The syntax of a table of solutions, if its rows can be written as they come.
    pub(super) fn of(format: Format) -> Option<Syntax> {
        match format {
            Format::Json => Some(Syntax::Json),
            Format::Xml => Some(Syntax::Xml),
            Format::Csv => Some(Syntax::Csv),
            Format::Tsv => Some(Syntax::Tsv),
            _ => None,
        }
    }

    /// The text before all rows.
    pub(super) fn head(self, variables: &[String]) -> String {
        match self {
            Syntax::Csv => csv_head(variables),
            Syntax::Tsv => tsv_head(variables),
            Syntax::Json => json::head(&unique(variables)),
            Syntax::Xml => xml::head(&unique(variables)),
        }
    }

    /// The text behind all rows.
    pub(super) fn tail(self) -> &'static str {
        match self {
            Syntax::Csv | Syntax::Tsv => "",
            Syntax::Json => "]}}\n",
            Syntax::Xml => "</results></sparql>\n",
        }
    }

    /// The length of a row's separator, at its beginning; the first row of all is written without it.
    pub(super) fn separator_bytes(self) -> usize {
        if self == Syntax::Json { json::BETWEEN_ROWS.len() } else { 0 }
    }

    /// The text before the term of each column.
    pub(super) fn columns(self, variables: &[String]) -> Vec<String> {
        let column = |(number, name): (usize, &String)| match self {
            Syntax::Csv => (if number > 0 { "," } else { "" }).to_owned(),
            Syntax::Tsv => (if number > 0 { "\t" } else { "" }).to_owned(),
            Syntax::Json => json::key(name),
            Syntax::Xml => xml::opening(name),
        };
        unique(variables).iter().enumerate().map(column).collect()
    }

    pub(super) fn begin_row(self, out: &mut String) {
        match self {
            Syntax::Csv | Syntax::Tsv => {}
            Syntax::Json => out.push_str(json::BEFORE_ROW),
            Syntax::Xml => out.push_str("<result>"),
        }
    }

    /// Adds a column of a row: its term, if it is bound. `before` is the column's text from [`Syntax::columns`].
    pub(super) fn cell(self, before: &str, view: Option<TermView<'_>>, out: &mut String) -> Result<(), NotInXml> {
        match (self, view) {
            (Syntax::Csv | Syntax::Tsv, None) => out.push_str(before),
            (Syntax::Json | Syntax::Xml, None) => {}
            (Syntax::Csv, Some(view)) => {
                out.push_str(before);
                csv(view, out);
            }
            (Syntax::Tsv, Some(view)) => {
                out.push_str(before);
                tsv(view, out);
            }
            (Syntax::Json, Some(view)) => json::binding(before, view, out),
            (Syntax::Xml, Some(view)) => xml::binding(before, view, out)?,
        }
        Ok(())
    }

    pub(super) fn end_row(self, out: &mut String) {
        out.push_str(match self {
            Syntax::Csv => "\r\n",
            Syntax::Tsv => "\n",
            Syntax::Json => "}",
            Syntax::Xml => "</result>",
        });
    }
}

/// The names as keys of a row's members: of columns with the same name, which SQL allows, the second is `name_1`, and
/// so on, as in DuckDB.
fn unique(names: &[String]) -> Vec<String> {
    let all: HashSet<&str> = names.iter().map(String::as_str).collect();
    if all.len() == names.len() {
        return names.to_vec();
    }
    let (mut taken, mut next) = (HashSet::new(), HashMap::new());
    let made = names.iter().map(|name| {
        let mut made = name.clone();
        while taken.contains(&made) || made != *name && all.contains(&*made) {
            let number: &mut usize = next.entry(name).or_default();
            *number += 1;
            made = format!("{name}_{number}");
        }
        taken.insert(made.clone());
        made
    });
    made.collect()
}

/// How many bytes at most a term with `before` in front of it adds, in any syntax.
#[inline]
pub(super) fn most_bytes(before: &str, view: TermView<'_>) -> usize {
    // Tags, brackets and quotation marks; a number, too.
    const BESIDE: usize = 192;
    let text = match view {
        TermView::Boolean(_) | TermView::Integer(_) => 0,
        TermView::Blank(_) => length(view),
        TermView::Iri(text) | TermView::String(text) => most_escaped(text),
        TermView::LangString { value, language: beside }
        | TermView::DirString { value, language: beside, .. }
        | TermView::Typed { value, datatype: beside } => most_escaped(value) + most_escaped(beside),
        TermView::Triple(triple) => most_of_triple(triple),
    };
    before.len() + text + BESIDE
}

/// The bound of [`most_bytes`] for a triple term, without its surroundings.
#[cold]
fn most_of_triple(triple: TripleView<'_>) -> usize {
    let (mut sum, mut next) = (0, Some(triple));
    while let Some(triple) = next.take() {
        // A predicate in RDF/XML is written twice.
        sum += most_bytes("", triple.subject()) + 2 * most_bytes("", TermView::Iri(triple.predicate()));
        match triple.object() {
            TermView::Triple(inner) => next = Some(inner),
            object => sum += most_bytes("", object),
        }
    }
    // In CSV, quotation marks are doubled again.
    2 * sum
}

/// The text of a term without one of its own: a blank node's label, a number, a truth value.
pub(super) fn plain(view: TermView<'_>, out: &mut String) {
    view.write_lexical(out).expect("a string takes everything");
}

/// Appends a term in the form of Turtle's family of syntaxes. `quoted` appends a text with its marks and escapes;
/// literals that `is_bare` accepts are written without either.
#[inline]
pub(super) fn term_of_turtle(
    view: TermView<'_>,
    quoted: impl Fn(&str, &mut String) + Copy,
    is_bare: impl Fn(TermView<'_>) -> bool + Copy,
    out: &mut String,
) {
    match view {
        TermView::Blank(blank) => write!(out, "_:{blank}").expect("a string takes everything"),
        TermView::Iri(text) => in_brackets(text, out),
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
            term_of_turtle(triple.subject(), quoted, is_bare, out);
            out.push(' ');
            in_brackets(triple.predicate(), out);
            out.push(' ');
            term_of_turtle(triple.object(), quoted, is_bare, out);
            out.push_str(" )>>");
        }
        literal if is_bare(literal) => plain(literal, out),
        TermView::Typed { value, datatype } => {
            quoted(value, out);
            out.push_str("^^");
            in_brackets(datatype, out);
        }
        TermView::Boolean(_) | TermView::Integer(_) => {
            out.push('"');
            plain(view, out);
            out.push_str("\"^^");
            in_brackets(view.datatype().expect("a literal has one"), out);
        }
    }
}

fn in_brackets(iri: &str, out: &mut String) {
    out.push('<');
    out.push_str(iri);
    out.push('>');
}

/// Appends a text with some ASCII characters replaced. They are rare: the text between them is copied at once.
pub(super) fn escaped(text: &str, out: &mut String, is_special: impl Fn(u8) -> bool, escape: impl Fn(u8, &mut String)) {
    let mut rest = text;
    while let Some(at) = first(rest.as_bytes(), &is_special) {
        out.push_str(&rest[..at]);
        escape(rest.as_bytes()[at], out);
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

/// How many bytes at most a text becomes by escapes: the longest of one byte have six, `\u001F`.
fn most_escaped(text: &str) -> usize {
    const SHORT: usize = 1 << 12;
    if text.len() <= SHORT {
        return 6 * text.len();
    }
    let is_plain = |byte: u8| byte > b' ' && !matches!(byte, b'<' | b'>' | b'&' | b'"' | b'\'' | b'\\' | 0x7F);
    let special = text.bytes().filter(|&byte| !is_plain(byte)).count();
    text.len() + 5 * special
}

/// How many bytes [`plain`] adds.
#[cold]
fn length(view: TermView<'_>) -> usize {
    struct Count(usize);
    impl std::fmt::Write for Count {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut count = Count(0);
    view.write_lexical(&mut count).expect("it counts everything");
    count.0
}

/// The index of the first such byte.
fn first(bytes: &[u8], is_special: impl Fn(u8) -> bool) -> Option<usize> {
    // A block without a branch is looked at with one instruction for many bytes.
    const BLOCK: usize = 16;
    let clean =
        bytes.chunks_exact(BLOCK).take_while(|block| !block.iter().fold(false, |any, &byte| any | is_special(byte)));
    let at = clean.count() * BLOCK;
    bytes[at..].iter().position(|&byte| is_special(byte)).map(|place| at + place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::{Literal, NamedNode, Term, Variable};
    use sparesults::{QueryResultsFormat, QueryResultsParser, QueryResultsSerializer, SliceQueryResultsParserOutput};
    use std::sync::Arc;
    use vicus_rdf::{Id, Snapshot};
    use vicus_sparql::{Moment, PlanOptions, QueryRun, parse};

    const PIECES: [&str; 29] = [
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
        "<",
        "&amp;",
        "]]>",
        "\u{FF21}",
        "\u{FEFF}",
        "\u{7F}",
        "a text of more than sixteen bytes",
    ];
    const DATATYPES: [&str; 7] = ["boolean", "integer", "decimal", "double", "string", "date", "float"];

    /// Terms of all kinds, a store with them as objects, and a plan for it.
    fn random_terms(seed: u64) -> (Vec<Term>, Arc<Snapshot>, QueryRun) {
        let mut state = seed;
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
        let snapshot = Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"));
        let parsed = parse("SELECT ?s ?o ?none { ?s ?p ?o }").expect("good SPARQL");
        let plan = vicus_sparql::plan(&snapshot, &parsed, PlanOptions::default()).expect("supported");
        (terms, snapshot, plan.start(Moment::default()))
    }

    fn names(variables: &[&str]) -> Vec<String> {
        variables.iter().map(|&name| name.to_owned()).collect()
    }

    /// Rows of terms as text, without the text before, between and behind them.
    fn rows(
        syntax: Syntax,
        run: &QueryRun,
        variables: &[String],
        rows: &[Vec<Option<Id>>],
    ) -> Result<String, NotInXml> {
        let (before, mut out) = (syntax.columns(variables), String::new());
        for row in rows {
            syntax.begin_row(&mut out);
            for (before, id) in before.iter().zip(row) {
                match *id {
                    Some(id) => run.view(id, |view| {
                        let (began, most) = (out.len(), most_bytes(before, view));
                        let done = syntax.cell(before, Some(view), &mut out);
                        assert!(
                            out.len() - began <= most,
                            "{syntax:?}: {} bytes of {view}, not {most}",
                            out.len() - began
                        );
                        done
                    })?,
                    None => syntax.cell(before, None, &mut out)?,
                }
            }
            syntax.end_row(&mut out);
        }
        Ok(out)
    }

    fn whole(syntax: Syntax, variables: &[String], rows: &str) -> String {
        let begin = if rows.is_empty() { 0 } else { syntax.separator_bytes() };
        syntax.head(variables) + &rows[begin..] + syntax.tail()
    }

    /// Any term of a store, and none, is written as sparesults writes it.
    #[test]
    fn random_terms_are_lines_as_sparesults_writes_them() {
        let (terms, snapshot, run) = random_terms(7);
        let blank = snapshot.index(vicus_rdf::Order::Gspo).key(0);
        let ids: Vec<Vec<Option<Id>>> =
            terms.iter().map(|term| vec![Some(blank), snapshot.id(term.as_ref()), None]).collect();
        let names = names(&["s", "o", "none"]);
        let variables: Vec<Variable> = names.iter().map(Variable::new_unchecked).collect();
        for (ours, theirs) in [(Syntax::Csv, QueryResultsFormat::Csv), (Syntax::Tsv, QueryResultsFormat::Tsv)] {
            let serializer = QueryResultsSerializer::from_format(theirs);
            let mut writer = serializer.serialize_solutions_to_writer(Vec::new(), variables.clone()).unwrap();
            for term in &terms {
                writer.serialize([(&variables[0], &run.term(blank)), (&variables[1], term)]).unwrap();
            }
            let expected = String::from_utf8(writer.finish().unwrap()).unwrap();
            let found = whole(ours, &names, &rows(ours, &run, &names, &ids).unwrap());
            for (found, expected) in found.split('\n').zip(expected.split('\n')) {
                assert_eq!(found, expected, "{ours:?}");
            }
            assert_eq!(found, expected, "{ours:?}");
        }
    }

    /// Long texts of escaped characters: `rows` checks each cell's length against its bound.
    #[test]
    fn long_cells_are_no_longer_than_was_said() {
        let ascii = (0..0x80u8).map(char::from);
        let texts = ascii.chain("ü日\u{1F600}".chars()).map(|character| character.to_string().repeat(5000));
        let terms = texts.map(|text| Term::from(Literal::new_language_tagged_literal_unchecked(text, "en")));
        let subject = NamedNode::new_unchecked("http://e/s");
        let lines: String = terms.map(|term| format!("{subject} <http://e/p> {term} .\n")).collect();
        let snapshot = Arc::new(Snapshot::of_ntriples(lines.as_bytes()).unwrap());
        let parsed = parse("SELECT * { ?s ?p ?o }").unwrap();
        let run = vicus_sparql::plan(&snapshot, &parsed, PlanOptions::default()).unwrap().start(Moment::default());
        let names = names(&["o"]);
        let index = snapshot.index(vicus_rdf::Order::Gops);
        for id in index.keys(0..index.key_count()) {
            for syntax in [Syntax::Csv, Syntax::Tsv, Syntax::Json, Syntax::Xml] {
                // XML refuses most control characters.
                let _ = rows(syntax, &run, &names, &[vec![Some(id)]]);
            }
        }
    }

    /// The result of sparesults' reading of a JSON or XML text.
    fn read(syntax: Syntax, text: &str) -> (Vec<Variable>, Vec<Vec<Option<Term>>>) {
        let format = if syntax == Syntax::Json { QueryResultsFormat::Json } else { QueryResultsFormat::Xml };
        let parser = QueryResultsParser::from_format(format);
        match parser.for_slice(text.as_bytes()).unwrap() {
            SliceQueryResultsParserOutput::Solutions(solutions) => {
                let variables = solutions.variables().to_vec();
                (variables, solutions.map(|solution| solution.unwrap().values().to_vec()).collect())
            }
            SliceQueryResultsParserOutput::Boolean(_) => panic!("a table was written"),
        }
    }

    #[test]
    fn sparesults_reads_back_what_random_rows_had() {
        for seed in 0..3u64 {
            let (terms, snapshot, run) = random_terms(seed);
            let blank = snapshot.index(vicus_rdf::Order::Gspo).key(0);
            let names = names(&["s", "o", "none", "ünï_1"]);
            for count in [0, 1, 2, terms.len()] {
                let ids: Vec<Vec<Option<Id>>> = terms[..count]
                    .iter()
                    .enumerate()
                    .map(|(number, term)| {
                        let id = snapshot.id(term.as_ref());
                        let part = |bit: u32| number >> bit & 1 == 0;
                        vec![Some(blank).filter(|_| part(0)), id, None, id.filter(|_| part(1))]
                    })
                    .collect();
                let expected: Vec<Vec<Option<Term>>> =
                    ids.iter().map(|row| row.iter().map(|id| id.map(|id| run.term(id))).collect()).collect();
                for syntax in [Syntax::Json, Syntax::Xml] {
                    let text = whole(syntax, &names, &rows(syntax, &run, &names, &ids).unwrap());
                    let (variables, found) = read(syntax, &text);
                    assert_eq!(variables.iter().map(Variable::as_str).collect::<Vec<_>>(), names);
                    for (found, expected) in found.iter().zip(&expected) {
                        assert_eq!(found, expected, "seed {seed}, {syntax:?}");
                    }
                    assert_eq!(found.len(), expected.len(), "seed {seed}, {syntax:?}");
                }
            }
        }
    }

    /// A carriage return in a result became a line feed in the hands of a reader that follows XML 1.0, §2.11; line
    /// feeds and tabs of an attribute became spaces. Control characters made the whole result unreadable.
    #[test]
    fn xml_keeps_white_space_and_refuses_what_it_cannot_write() {
        let text = |character: char| {
            let mut out = String::new();
            let value = format!("a{character}b");
            xml::binding("", TermView::Typed { value: &value, datatype: &value }, &mut out).map(|()| out)
        };
        for (character, reference) in [('\t', "a&#9;b"), ('\n', "a&#10;b"), ('\r', "a&#13;b")] {
            let expected = format!("<literal datatype=\"{reference}\">{reference}</literal></binding>");
            assert_eq!(text(character), Ok(expected));
        }
        // Char, production 2: #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF].
        for character in '\0'..=char::MAX {
            let is_xml = matches!(u32::from(character), 0x9 | 0xA | 0xD | 0x20..=0xD7FF | 0xE000..=0xFFFD | 0x10000..);
            if is_xml {
                let out = text(character).expect("a character of XML");
                let unescaped = quick_xml::escape::unescape(&out[out.find('>').unwrap() + 1..]).unwrap();
                assert!(unescaped.starts_with(&format!("a{character}b")), "{out}");
            } else {
                assert_eq!(text(character), Err(NotInXml(character)));
            }
        }
    }

    /// Records of CSV by the definition of RFC 4180, with a reader that shares nothing with the writer.
    fn records(text: &str) -> Vec<Vec<String>> {
        let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
        let (mut chars, mut is_quoted) = (text.chars().peekable(), false);
        while let Some(character) = chars.next() {
            match (is_quoted, character) {
                (true, '"') if chars.next_if_eq(&'"').is_some() => field.push('"'),
                (_, '"') => is_quoted = !is_quoted,
                (false, ',') => record.push(std::mem::take(&mut field)),
                (false, '\r') if chars.next_if_eq(&'\n').is_some() => {
                    record.push(std::mem::take(&mut field));
                    records.push(std::mem::take(&mut record));
                }
                (_, other) => field.push(other),
            }
        }
        assert!(field.is_empty() && record.is_empty() && !is_quoted, "{text}");
        records
    }

    /// What happened: `<http://e/a,b>` moved all columns behind it, names of SQL's columns broke CSV, TSV and XML, and
    /// two columns with one name were one member of a JSON object.
    #[test]
    fn any_name_and_any_iri_is_read_back() {
        let given = ["x,\"y", "a\tb", "<&>'", "line\r\nend", "\\", "a", "a", "a_1", "a", "", "ü\u{FFFE}", " a "];
        let names = names(&given);
        let iris = ["http://e/a,b", "http://e/a;b", "http://e/'a'"];
        let lines: String = iris.iter().map(|iri| format!("<{iri}> <http://e/p> <{iri}> .\n")).collect();
        let snapshot = Arc::new(Snapshot::of_ntriples(lines.as_bytes()).unwrap());
        let parsed = parse("SELECT * { ?s ?p ?o }").unwrap();
        let run = vicus_sparql::plan(&snapshot, &parsed, PlanOptions::default()).unwrap().start(Moment::default());
        let id = |iri: &&str| snapshot.id(NamedNode::new_unchecked(*iri).as_ref().into());
        let ids: Vec<Vec<Option<Id>>> = iris.iter().map(|iri| vec![id(iri); names.len()]).collect();
        let text = |syntax: Syntax| whole(syntax, &names, &rows(syntax, &run, &names, &ids).unwrap());
        let found = records(&text(Syntax::Csv));
        assert_eq!(found[0], given);
        let expected: Vec<Vec<String>> = iris.iter().map(|iri| vec![(*iri).to_owned(); names.len()]).collect();
        assert_eq!(found[1..], expected);
        let tsv = text(Syntax::Tsv);
        let lines: Vec<Vec<&str>> = tsv.lines().map(|line| line.split('\t').collect()).collect();
        assert!(lines.len() == 4 && lines.iter().all(|line| line.len() == names.len()), "{tsv}");
        assert_eq!((lines[0][1], lines[0][3], lines[0][4]), ("?a\\tb", "?line\\r\\nend", "?\\\\"));
        // Of columns with one name, each has a member of its own; an existing name is not given to another.
        let mut unique = given.map(str::to_owned);
        (unique[6], unique[8]) = ("a_2".to_owned(), "a_3".to_owned());
        let json: serde_json::Value = serde_json::from_str(&text(Syntax::Json)).unwrap();
        assert_eq!(json["head"]["vars"], serde_json::json!(unique));
        for (row, iri) in iris.iter().enumerate() {
            let members = json["results"]["bindings"][row].as_object().unwrap();
            assert_eq!(members.len(), names.len());
            assert!(unique.iter().all(|name| members[name]["value"] == *iri), "{members:?}");
        }
        // U+FFFE is no character of XML.
        unique[10] = "ü\u{FFFD}".to_owned();
        let xml = text(Syntax::Xml);
        let mut reader = quick_xml::Reader::from_str(&xml);
        let (mut variables, mut bindings) = (Vec::new(), Vec::new());
        loop {
            let event = reader.read_event().unwrap();
            let (quick_xml::events::Event::Start(tag) | quick_xml::events::Event::Empty(tag)) = &event else {
                if event == quick_xml::events::Event::Eof {
                    break;
                }
                continue;
            };
            let into = match tag.name().as_ref() {
                b"variable" => &mut variables,
                b"binding" => &mut bindings,
                _ => continue,
            };
            let name = tag.try_get_attribute("name").unwrap().unwrap().value;
            let name = quick_xml::escape::unescape(std::str::from_utf8(&name).unwrap()).unwrap().into_owned();
            into.push(name);
        }
        assert_eq!(variables, unique);
        assert_eq!(bindings, vec![unique; iris.len()].concat());
    }

    #[test]
    fn json_has_every_character() {
        for character in '\0'..=char::MAX {
            let (value, mut out) = (format!("a{character}b"), String::new());
            json::binding(",\"x\":{\"type\":\"", TermView::String(&value), &mut out);
            let parsed: serde_json::Value = serde_json::from_str(&format!("{{{}}}", &out[1..])).unwrap();
            assert_eq!(parsed["x"]["value"], value);
        }
    }
}
