//! A table for people: columns side by side, numbers to the right, values without quotation marks, IRIs by their
//! prefixes. Programs read the other formats.

use super::cells::Cells;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use unicode_width::UnicodeWidthChar;
use vicus::Envelope;
use vicus_rdf::TermView;
use vicus_sparql::KNOWN_PREFIXES;

/// The screen that a table is written to. In a file or a pipe, which have none, all rows are whole, and no line follows
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Screen {
    /// Characters in a line: cells are cut so that rows fit, the widest columns first.
    pub columns: usize,
    /// The most rows that are shown.
    pub rows: usize,
    /// For the line behind them: how to see all rows.
    pub all: &'static str,
}

/// How cells are shown.
#[derive(Clone, Copy)]
pub(super) enum Style<'a> {
    /// RDF terms, with the prefixes of the query.
    Terms(&'a [(String, String)]),
    /// Values of SQL.
    Values,
}

/// Between two columns.
const GAP: &str = "  ";

/// No column is cut to fewer characters: the text of a narrower one would say nothing.
const NARROWEST: usize = 8;

const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

/// Datatypes of XML Schema whose values are numbers.
const NUMBERS: [&str; 17] = [
    "integer",
    "decimal",
    "double",
    "float",
    "int",
    "long",
    "short",
    "byte",
    "nonNegativeInteger",
    "positiveInteger",
    "nonPositiveInteger",
    "negativeInteger",
    "unsignedLong",
    "unsignedInt",
    "unsignedShort",
    "unsignedByte",
    "precisionDecimal",
];

pub(super) struct Table<'a, C> {
    pub(super) names: &'a [String],
    pub(super) rows: &'a [Envelope],
    /// The cells of each envelope.
    pub(super) cells: Vec<C>,
    pub(super) style: Style<'a>,
}

impl<C: Cells> Table<'_, C> {
    pub(super) fn write(&self, out: &mut impl Write, screen: Option<Screen>) -> io::Result<()> {
        let count: usize = self.rows.iter().map(Envelope::rows).sum();
        let shown = screen.map_or(count, |screen| screen.rows.min(count));
        let places = || {
            let rows = |(at, envelope): (usize, &Envelope)| (0..envelope.rows()).map(move |row| (at, row));
            self.rows.iter().enumerate().flat_map(rows).take(shown)
        };
        let mut text = String::new();
        let mut columns: Vec<Column> = self.names.iter().map(|name| Column::named(name)).collect();
        for (at, row) in places() {
            for (number, column) in columns.iter_mut().enumerate() {
                let is_number = self.cell(at, row, number, &mut text);
                column.grow(&text, is_number);
            }
        }
        if let Some(screen) = screen {
            fit(&mut columns, screen.columns);
        }
        let mut out = io::BufWriter::new(out);
        let mut line = String::new();
        for (column, name) in columns.iter().zip(self.names) {
            column.put(name, &mut line);
        }
        end_line(&mut out, &mut line)?;
        for column in &columns {
            column.put(&"-".repeat(column.width), &mut line);
        }
        end_line(&mut out, &mut line)?;
        for (at, row) in places() {
            for (number, column) in columns.iter().enumerate() {
                self.cell(at, row, number, &mut text);
                column.put(&text, &mut line);
            }
            end_line(&mut out, &mut line)?;
        }
        if let Some(screen) = screen {
            if shown < count {
                writeln!(out, "… {} more; {} shows all", in_groups(count - shown), screen.all)?;
            }
            writeln!(out, "{} row{}", in_groups(count), if count == 1 { "" } else { "s" })?;
        }
        out.flush()
    }

    /// Puts the text of a cell in place of what is in `text`; whether it is a number. No text: an empty cell.
    fn cell(&self, at: usize, row: usize, column: usize, text: &mut String) -> bool {
        text.clear();
        self.cells[at].view(row, column, |view| {
            let Some(view) = view else { return true };
            let mut out = Escaped(text);
            match self.style {
                Style::Terms(prefixes) => put_term(view, prefixes, &mut out),
                Style::Values => view.write_lexical(&mut out),
            }
            .expect("a string takes everything");
            is_number(view)
        })
    }
}

fn is_number(view: TermView<'_>) -> bool {
    match view {
        TermView::Integer(_) => true,
        TermView::Typed { datatype, .. } => datatype.strip_prefix(XSD).is_some_and(|name| NUMBERS.contains(&name)),
        _ => false,
    }
}

struct Column {
    width: usize,
    is_of_numbers: bool,
    has_text: bool,
}

impl Column {
    fn named(name: &str) -> Column {
        Column { width: width(name), is_of_numbers: true, has_text: false }
    }

    fn grow(&mut self, text: &str, is_number: bool) {
        self.width = self.width.max(width(text));
        self.is_of_numbers &= is_number;
        self.has_text |= !text.is_empty();
    }

    /// Appends a cell to a line, cut or filled up to the column's width.
    fn put(&self, text: &str, line: &mut String) {
        if !line.is_empty() {
            line.push_str(GAP);
        }
        let cut = cut(text, self.width);
        let (text, end) = cut.map_or((text, ""), |cut| (cut, "…"));
        let space = self.width.saturating_sub(width(text) + end.chars().count());
        let (before, behind) = if self.is_of_numbers && self.has_text { (space, 0) } else { (0, space) };
        // An empty first cell: the line must not look as if it had not begun.
        let fill = |line: &mut String, count| line.extend(std::iter::repeat_n(' ', count));
        fill(line, before);
        line.push_str(text);
        line.push_str(end);
        fill(line, behind);
    }
}

fn end_line(out: &mut impl Write, line: &mut String) -> io::Result<()> {
    writeln!(out, "{}", line.trim_end())?;
    line.clear();
    Ok(())
}

fn width(text: &str) -> usize {
    text.chars().map(|character| character.width().unwrap_or(0)).sum()
}

/// The beginning of a text wider than `most`, with room for a mark behind it.
fn cut(text: &str, most: usize) -> Option<&str> {
    let (mut sum, mut end) = (0, 0);
    for (at, character) in text.char_indices() {
        let wide = character.width().unwrap_or(0);
        if sum + wide > most {
            return Some(&text[..end]);
        }
        if sum + wide < most {
            end = at + character.len_utf8();
        }
        sum += wide;
    }
    None
}

/// Makes the widest columns narrower until a row fits a line of `most` characters.
fn fit(columns: &mut [Column], most: usize) {
    let gaps = GAP.len() * columns.len().saturating_sub(1);
    let sum = |limit: usize| columns.iter().map(|column| column.width.min(limit)).sum::<usize>() + gaps;
    let mut limit = columns.iter().map(|column| column.width).max().unwrap_or(0);
    while limit > NARROWEST && sum(limit) > most {
        limit -= 1;
    }
    columns.iter_mut().for_each(|column| column.width = column.width.min(limit));
}

/// A number with marks between its thousands.
fn in_groups(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A text with its control characters as escapes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    Escaped(&mut out).write_str(text).expect("a string takes everything");
    out
}

/// Writes a text with its control characters as escapes, which a terminal would obey.
struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character {
            control if control.is_control() => write!(self.0, "{}", control.escape_default()),
            other => self.0.write_char(other),
        })
    }
}

fn put_term(view: TermView<'_>, prefixes: &[(String, String)], out: &mut Escaped<'_>) -> fmt::Result {
    match view {
        TermView::Iri(iri) => put_iri(iri, prefixes, out),
        TermView::Blank(blank) => write!(out, "_:{blank}"),
        TermView::LangString { value, language } => write!(out, "{value}@{language}"),
        TermView::Typed { value, datatype } if !datatype.starts_with(XSD) => {
            write!(out, "{value}^^")?;
            put_iri(datatype, prefixes, out)
        }
        TermView::DirString { .. } | TermView::Triple(_) => write!(out, "{view}"),
        TermView::String(_) | TermView::Boolean(_) | TermView::Integer(_) | TermView::Typed { .. } => {
            view.write_lexical(out)
        }
    }
}

/// Writes an IRI by the prefix that leaves least of it: one of the query, or one that is known everywhere.
fn put_iri(iri: &str, prefixes: &[(String, String)], out: &mut Escaped<'_>) -> fmt::Result {
    let own = prefixes.iter().map(|(name, namespace)| (name.as_str(), namespace.as_str()));
    let known = KNOWN_PREFIXES.iter().copied().filter(|(name, _)| prefixes.iter().all(|(own, _)| own != name));
    let local = |(name, namespace): (&'static str, &str)| Some((name, iri.strip_prefix(namespace)?));
    let own = own.filter_map(|(name, namespace)| Some((name, iri.strip_prefix(namespace)?)));
    let all = own.chain(known.filter_map(local)).filter(|(_, rest)| is_local(rest));
    match all.min_by_key(|(_, rest)| rest.len()) {
        Some((name, rest)) => write!(out, "{name}:{rest}"),
        None => write!(out, "<{iri}>"),
    }
}

/// Whether a text stands behind a prefix without escapes.
fn is_local(text: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-');
    text.starts_with(|first: char| first.is_alphanumeric() || first == '_')
        && text.chars().all(|character| is_plain(character) || character == '.')
        && !text.ends_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(view: TermView<'_>, prefixes: &[(&str, &str)]) -> String {
        let prefixes: Vec<_> = prefixes.iter().map(|(name, iri)| ((*name).to_owned(), (*iri).to_owned())).collect();
        let mut text = String::new();
        put_term(view, &prefixes, &mut Escaped(&mut text)).unwrap();
        text
    }

    #[test]
    fn terms_are_shown_without_marks_and_iris_by_their_prefixes() {
        let typed = |value, datatype| TermView::Typed { value, datatype };
        let own = [("e", "http://e/"), ("deep", "http://e/deep/"), ("foaf", "http://mine/")];
        for (view, expected) in [
            (TermView::Iri("http://e/ann"), "e:ann"),
            (TermView::Iri("http://e/deep/ann"), "deep:ann"),
            (TermView::Iri("http://e/a/b"), "<http://e/a/b>"),
            (TermView::Iri("http://e/"), "<http://e/>"),
            (TermView::Iri("http://e/a."), "<http://e/a.>"),
            (TermView::Iri("http://www.w3.org/2000/01/rdf-schema#label"), "rdfs:label"),
            // The query's own prefix of this name is another one.
            (TermView::Iri("http://xmlns.com/foaf/0.1/name"), "<http://xmlns.com/foaf/0.1/name>"),
            (TermView::Iri("http://mine/name"), "foaf:name"),
            (TermView::String("two\nlines, \"quoted\""), "two\\nlines, \"quoted\""),
            (TermView::String("\u{1b}[31m"), "\\u{1b}[31m"),
            (TermView::LangString { value: "Bob", language: "en" }, "Bob@en"),
            (TermView::Integer(-7), "-7"),
            (TermView::Boolean(true), "true"),
            (typed("2.50", "http://www.w3.org/2001/XMLSchema#decimal"), "2.50"),
            (typed("2024-02-29", "http://www.w3.org/2001/XMLSchema#date"), "2024-02-29"),
            (typed("x", "http://e/type"), "x^^e:type"),
        ] {
            assert_eq!(shown(view, &own), expected);
        }
    }

    #[test]
    fn texts_are_cut_by_their_width() {
        assert_eq!(cut("abcdef", 6), None);
        assert_eq!(cut("abcdefg", 6), Some("abcde"));
        // Each of these is two columns wide.
        assert_eq!(cut("漢字漢字", 8), None);
        assert_eq!(cut("漢字漢字", 6), Some("漢字"));
        assert_eq!((cut("", 0), cut("a", 0)), (None, Some("")));
    }

    #[test]
    fn the_widest_columns_become_narrower_first() {
        let of = |width| Column { width, is_of_numbers: false, has_text: true };
        let fitted = |widths: &[usize], most| {
            let mut columns: Vec<Column> = widths.iter().map(|&width| of(width)).collect();
            fit(&mut columns, most);
            columns.into_iter().map(|column| column.width).collect::<Vec<_>>()
        };
        assert_eq!(fitted(&[10, 100, 50], 80), [10, 33, 33]);
        assert_eq!(fitted(&[10, 20], 80), [10, 20]);
        assert_eq!(fitted(&[40; 10], 80), [8; 10], "and the line is longer than the screen");
        assert_eq!(fitted(&[], 80), Vec::<usize>::new());
    }

    #[test]
    fn numbers_have_marks_between_thousands() {
        let all = [0, 7, 999, 1000, 329_175, 1_000_000].map(in_groups);
        assert_eq!(all, ["0", "7", "999", "1,000", "329,175", "1,000,000"]);
    }
}
