//! Random expressions over random numbers, moments and texts, and random patterns: the engine computes the same as the
//! naive evaluator, to the last digit.

use crate::made;
use crate::naive::{self, Solution};
use crate::rows::{Chance, Row, rows_of};
use crate::values::{literal_of, value_of};
use oxrdf::Term;
use oxttl::NTriplesParser;
use spargebra::{Query, SparqlParser};
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{ParseOptions, PlanOptions, parse, parse_with, plan};

const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

struct Writer<'a>(&'a mut Chance);

impl Writer<'_> {
    fn digits(&mut self, most: usize) -> String {
        let count = 1 + self.0.below(most);
        let only = self.0.pick(&["0123456789", "0123456789", "09", "50"]);
        (0..count).map(|_| char::from(only.as_bytes()[self.0.below(only.len())])).collect()
    }

    fn number(&mut self) -> String {
        let sign = self.0.pick(&["", "", "-"]);
        let most = self.0.pick(&[1, 2, 6, 19, 40, 60]);
        match self.0.below(8) {
            // With their types: a grammar may take a sign for an operator.
            0 | 1 => format!("\"{sign}{}\"^^xsd:integer", self.digits(most)),
            2..=4 => format!("\"{sign}{}.{}\"^^xsd:decimal", self.digits(most), self.digits(most)),
            5 => {
                format!("\"{sign}{}.{}e{}\"^^xsd:double", self.digits(3), self.digits(17), self.0.below(40) as i64 - 20)
            }
            6 => format!("\"{sign}{}.{}e{}\"^^xsd:float", self.digits(3), self.digits(7), self.0.below(40) as i64 - 20),
            _ => self
                .0
                .pick(&[
                    "\"INF\"^^xsd:double",
                    "\"-INF\"^^xsd:float",
                    "\"NaN\"^^xsd:double",
                    "\"-0e0\"^^xsd:double",
                    "9223372036854775807",
                    "\"-9223372036854775808\"^^xsd:integer",
                    "\"127\"^^xsd:byte",
                    "\"128\"^^xsd:byte",
                    "\"18446744073709551615\"^^xsd:unsignedLong",
                    "\"-1\"^^xsd:negativeInteger",
                    "\"x\"^^xsd:integer",
                    "5e-324",
                    "1.7976931348623157e308",
                ])
                .to_owned(),
        }
    }

    /// An integer or a decimal.
    fn exact(&mut self) -> String {
        let sign = self.0.pick(&["", "", "-"]);
        let most = self.0.pick(&[1, 2, 6, 18, 19, 40]);
        match self.0.below(2) {
            0 => format!("\"{sign}{}\"^^xsd:integer", self.digits(most)),
            _ => format!("\"{sign}{}.{}\"^^xsd:decimal", self.digits(most), self.digits(most)),
        }
    }

    fn moment(&mut self) -> String {
        let year = self.0.pick(&["2019", "2020", "2000", "1900", "0000", "-0004", "12020", "-10000"]);
        let month = self.0.pick(&["01", "02", "03", "12", "13"]);
        let day = self.0.pick(&["01", "28", "29", "30", "31"]);
        let hour = self.0.pick(&["00", "10", "23", "24"]);
        let minute = self.0.pick(&["00", "00", "59"]);
        let second = self.0.pick(&["00", "00", "00.0", "59.999", "07.50"]);
        let zone = self.0.pick(&["", "", "Z", "+00:00", "-05:00", "+14:00", "+05:30", "-14:00"]);
        match self.0.below(4) {
            0 => format!("\"{year}-{month}-{day}{zone}\"^^xsd:date"),
            1 => format!("\"{hour}:{minute}:{second}{zone}\"^^xsd:time"),
            _ => format!("\"{year}-{month}-{day}T{hour}:{minute}:{second}{zone}\"^^xsd:dateTime"),
        }
    }

    fn text(&mut self) -> String {
        match self.0.below(4) {
            0 => format!("\"{}\"", self.0.pick(&["", " 12 ", "true", "1", "-0.50", "1e5", "INF", "abc", "+7", "TRUE"])),
            1 => self.0.pick(&["true", "false", "\"abc\"@en", "\"\"@en", "<http://e/a>"]).to_owned(),
            // The text of something else.
            2 => format!("STR({})", self.number()),
            _ => format!("STR({})", self.moment()),
        }
    }

    fn operand(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.0.below(5) {
                0 => self.moment(),
                1 => self.text(),
                _ => self.number(),
            };
        }
        let depth = depth - 1;
        match self.0.below(12) {
            0..=4 => {
                let sign = self.0.pick(&["+", "-", "*", "*", "/", "/"]);
                format!("({} {sign} {})", self.operand(depth), self.operand(depth))
            }
            5 => format!("(-({}))", self.operand(depth)),
            6 => format!("{}({})", self.0.pick(&["ABS", "CEIL", "FLOOR", "ROUND"]), self.operand(depth)),
            7 | 8 => {
                let names = ["integer", "decimal", "double", "float", "string", "boolean", "dateTime", "date", "time"];
                format!("xsd:{}({})", self.0.pick(&names), self.operand(depth))
            }
            9 => {
                let names = ["YEAR", "MONTH", "DAY", "HOURS", "MINUTES", "SECONDS", "TZ"];
                format!("{}({})", self.0.pick(&names), self.moment())
            }
            10 => format!("IF({}, {}, {})", self.operand(depth), self.operand(depth), self.operand(depth)),
            _ => {
                let sign = self.0.pick(&["=", "!=", "<", "<=", ">", ">="]);
                if self.0.one_in(3) {
                    return format!("({} {sign} {})", self.moment(), self.moment());
                }
                format!("({} {sign} {})", self.operand(depth), self.operand(depth))
            }
        }
    }
}

/// How many of the expressions have a value.
fn check(seed: u64) -> usize {
    let mut chance = Chance::new(seed);
    let mut writer = Writer(&mut chance);
    let expressions: Vec<String> = (0..20).map(|_| writer.operand(1 + seed as usize % 3)).collect();
    let named = expressions.iter().enumerate().map(|(number, text)| format!("({text} AS ?v{number})"));
    let text = format!("PREFIX xsd: <{XSD}> SELECT {} {{}}", named.collect::<Vec<_>>().join(" "));
    let query = SparqlParser::new().parse_query(&text).unwrap_or_else(|error| panic!("seed {seed}: {text}: {error}"));
    let Query::Select { pattern, .. } = &query else { unreachable!("it is a SELECT") };
    let wanted: Solution = naive::evaluate(&[], pattern).expect("few rows").remove(0);
    let snapshot = Arc::new(Snapshot::of_ntriples(b"").expect("good N-Triples"));
    let parsed = parse(&text).unwrap_or_else(|error| panic!("seed {seed}: {text}: {error}"));
    let plan = plan(&snapshot, &parsed, PlanOptions::default()).expect("supported");
    let found = rows_of(&plan, |_| 0).remove(0);
    for (number, expression) in expressions.iter().enumerate() {
        let show = |term: Option<&Term>| term.map_or("error".to_owned(), ToString::to_string);
        let (found, wanted) = (show(found[number].as_ref()), show(wanted.get(&format!("v{number}"))));
        assert_eq!(found, wanted, "seed {seed}: {expression}");
    }
    wanted.len()
}

#[test]
fn values_are_what_the_naive_evaluator_computes() {
    // The optimised tests take as long for more of them.
    let seeds = if cfg!(debug_assertions) { 150 } else { 600 };
    let values: usize = (0..seeds).map(check).sum();
    println!("seeds 0..{seeds}: {values} of {} expressions have a value", 20 * seeds);
    assert!(values as u64 > 4 * seeds, "{values}");
}

/// What happened: `IN` compared each row with each of 6,000 constants. It means `a = b || a = c || …` (SPARQL 1.1,
/// §17.4.1.9). The test evaluates these one by one: for computed and stored needles, with non-constant operands among
/// the others.
#[test]
fn a_long_list_of_in_is_the_disjunction_of_its_equalities() {
    let mut outcomes = [0; 3];
    let seeds = if cfg!(debug_assertions) { 60 } else { 300 };
    for seed in 0..seeds {
        let mut chance = Chance::new(seed);
        let mut writer = Writer(&mut chance);
        let constant = |writer: &mut Writer<'_>| match writer.0.below(if seed % 4 == 0 { 6 } else { 9 }) {
            0 => writer.number(),
            1 => writer.moment(),
            2 => writer
                .0
                .pick(&["\"abc\"", "\"\"", "\"7\"", "\"abc\"@en", "\"abc\"@de", "true", "\"1\"^^xsd:boolean"])
                .to_owned(),
            3 => writer
                .0
                .pick(&["<http://e/a>", "<http://e/b>", "\"P1Y\"^^xsd:duration", "\"P12M\"^^xsd:yearMonthDuration"])
                .to_owned(),
            4 => {
                writer.0.pick(&["1", "1.0", "1e0", "\"1\"^^xsd:float", "\"01\"^^xsd:int", "0", "-0e0", "7"]).to_owned()
            }
            5 => {
                let texts = ["01T00:00:00", "01T10:00:00Z", "01T11:00:00+01:00", "03T00:00:00", "03T00:00:00Z"];
                format!("\"2020-01-{}\"^^xsd:dateTime", writer.0.pick(&texts))
            }
            6 => writer.0.pick(&["\"a\"^^<http://e/t>", "\"b\"^^<http://e/t>", "\"x\"^^xsd:integer"]).to_owned(),
            7 => writer.0.pick(&["\"NaN\"^^xsd:double", "\"NaN\"^^xsd:float", "\"INF\"^^xsd:double"]).to_owned(),
            _ => writer
                .0
                .pick(&["<<( <http://e/a> <http://e/p> 1 )>>", "<<( <http://e/a> <http://e/p> 01 )>>"])
                .to_owned(),
        };
        let list: Vec<String> = (0..12 + seed as usize % 30)
            .map(|_| match writer.0.below(40) {
                0 => "STR(7)".to_owned(),
                1 => "?unbound".to_owned(),
                _ => constant(&mut writer),
            })
            .collect();
        let needles: Vec<String> = (0..30).map(|_| constant(&mut writer)).collect();
        let data: String = needles
            .iter()
            .enumerate()
            .filter(|(_, needle)| needle.starts_with('"') || needle.starts_with("<http"))
            .map(|(number, needle)| match needle.split_once("^^xsd:") {
                Some((value, name)) => format!("<http://e/s{number}> <http://e/p> {value}^^<{XSD}{name}> .\n"),
                None => format!("<http://e/s{number}> <http://e/p> {needle} .\n"),
            })
            .collect();
        let snapshot = made::in_way(&data, seed as usize);
        let one_by_one = list.iter().map(|member| format!("?x = {member}")).collect::<Vec<_>>().join(" || ");
        let text = format!(
            "PREFIX xsd: <{XSD}> SELECT ?x ?in ?not ?or {{ {{ ?s <http://e/p> ?x }} UNION {{ VALUES ?x0 {{ {} }} \
                BIND(IF(isLITERAL(?x0) && \
             DATATYPE(?x0) = xsd:string, CONCAT(?x0, \"\"), ?x0) AS ?x) }} UNION {{ VALUES ?n {{ 1 0 7 }} BIND(?n * \
             1.0 AS ?x) }} \
             BIND(?x IN ({list}) AS ?in) BIND(?x NOT IN ({list}) AS ?not) BIND({one_by_one} AS ?or) }}",
            needles.join(" "),
            list = list.join(", "),
        );
        let options = ParseOptions { rdf_12: true, ..ParseOptions::default() };
        let parsed = parse_with(&text, &options).unwrap_or_else(|error| panic!("seed {seed}: {text}: {error}"));
        let plan = plan(&snapshot, &parsed, PlanOptions::default()).expect("supported");
        for row in rows_of(&plan, |_| 0) {
            let show = |place: usize| row[place].as_ref().map_or("error".to_owned(), ToString::to_string);
            assert_eq!(show(1), show(3), "seed {seed}: {} IN ({})", show(0), list.join(", "));
            let is_in = |place: usize| show(place).split('"').nth(1).map(|text| text == "true");
            assert_eq!(is_in(2), is_in(3).map(|is_in| !is_in), "seed {seed}: {} NOT IN ({})", show(0), list.join(", "));
            outcomes[is_in(1).map_or(2, usize::from)] += 1;
        }
    }
    println!("seeds 0..{seeds}: not in, in, error: {outcomes:?}");
    assert!(outcomes.iter().all(|count| *count as u64 > 2 * seeds), "{outcomes:?}");
}

/// Sums of parts of moments, of integers and of decimals are computed in place while they are short, without a term for
/// each value. They equal the naive evaluator's sums for all forms of moments and lengths of numbers, in one group or
/// in many, on one thread or in parts.
#[test]
fn sums_are_what_the_naive_evaluator_adds_up() {
    let mut sums = 0;
    for seed in 0..120 {
        let mut chance = Chance::new(seed);
        let mut writer = Writer(&mut chance);
        let data: String = (0..60)
            .map(|row| {
                let value = if writer.0.one_in(2) { writer.moment() } else { writer.exact() };
                let value = value.replace("xsd:", &format!("<{XSD}")) + ">";
                format!("<http://e/s{row}> <http://e/in{}> {value} .\n", writer.0.below(3))
            })
            .collect();
        let of = writer.0.pick(&[
            "COALESCE(SECONDS(?v), ?v, 0)",
            "COALESCE(SECONDS(?v), 0)",
            "COALESCE(MINUTES(?v), ?v, 1)",
            "COALESCE(HOURS(?v) + 0.50, YEAR(?v) - 1, ?v, 7)",
            "COALESCE(MONTH(?v) * 9223372036854775, 0)",
            "COALESCE(DAY(?v), ?v * 9223372036854775807, 1.5)",
            // An error in one row makes the group's sum an error.
            "SECONDS(?v)",
        ]);
        let fold = writer.0.pick(&["SUM", "AVG"]);
        let (keys, by) = writer.0.pick(&[("", ""), ("?p", "GROUP BY ?p"), ("?s", "GROUP BY ?s")]);
        let text = format!("PREFIX xsd: <{XSD}> SELECT {keys} ({fold}({of}) AS ?sum) {{ ?s ?p ?v }} {by}");
        let query = SparqlParser::new().parse_query(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let Query::Select { pattern, .. } = &query else { unreachable!("it is a SELECT") };
        let parsed_data = NTriplesParser::new().for_slice(data.as_bytes()).collect::<Result<Vec<_>, _>>();
        let triples = parsed_data.unwrap_or_else(|error| panic!("{data}: {error}"));
        let show = |term: Option<&Term>| term.map_or("error".to_owned(), ToString::to_string);
        let names = [keys.trim_start_matches('?'), "sum"];
        let line = |row: &Solution| names.map(|name| show(row.get(name))).join(" ");
        let mut wanted: Vec<String> = naive::evaluate(&triples, pattern).expect("few rows").iter().map(line).collect();
        wanted.sort();
        sums += wanted.iter().filter(|line| !line.ends_with("error")).count();
        let snapshot = made::in_way(&data, seed as usize % made::WAYS);
        let parsed = parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        for threads in [1, 4] {
            let plan = plan(&snapshot, &parsed, PlanOptions { threads, ..PlanOptions::default() }).expect("supported");
            let line = |row: &Row| {
                let key = if keys.is_empty() { None } else { row[0].as_ref() };
                [show(key), show(row.last().and_then(Option::as_ref))].join(" ")
            };
            let mut found: Vec<String> = rows_of(&plan, |count| chance.below(count)).iter().map(line).collect();
            found.sort();
            assert_eq!(found, wanted, "seed {seed}, {threads} threads: {text}\n{data}");
        }
    }
    println!("seeds 0..120: {sums} sums have a value");
    assert!(sums > 500, "{sums}");
}

/// For long runs: `cargo test -p vicus-sparql --release -- --ignored many_more`.
#[test]
#[ignore = "takes minutes"]
fn many_more_values() {
    let values: usize = (600..60_000).map(check).sum();
    println!("seeds 600..60000: {values} expressions have a value");
}

/// A pattern as a tree, so it need not be read.
enum Tree {
    /// A class of characters, as it is written.
    One(String, Box<dyn Fn(char) -> bool>),
    Start,
    End,
    Sequence(Vec<Tree>),
    Either(Vec<Tree>),
    /// The number of the group; `None` if it captures nothing.
    Group(Option<usize>, Box<Tree>),
    Repeated {
        inner: Box<Tree>,
        least: usize,
        most: usize,
        /// Whether it prefers fewer repetitions.
        lazy: bool,
    },
    Back(usize),
}

/// The most repetitions tried for a pattern without a bound: texts are shorter.
const OFTEN: usize = 12;

fn tree(chance: &mut Chance, depth: usize, groups: &mut usize, closed: &mut Vec<usize>) -> Tree {
    match chance.below(if depth == 0 { 5 } else { 11 }) {
        0..=2 => {
            let char = char::from(b"abAB#& -"[chance.below(8)]);
            let text = if char == '-' { "\\-".to_owned() } else { char.to_string() };
            Tree::One(text, Box::new(move |other| other == char))
        }
        3 => match chance.below(9) {
            0 => Tree::One(".".to_owned(), Box::new(|char| char != '\n')),
            1 => Tree::One("[ab]".to_owned(), Box::new(|char| "ab".contains(char))),
            2 => Tree::One("[^a#]".to_owned(), Box::new(|char| !"a#".contains(char))),
            3 => Tree::One("[a-z-[b]]".to_owned(), Box::new(|char| char.is_ascii_lowercase() && char != 'b')),
            4 => Tree::One("[a&&b]".to_owned(), Box::new(|char| "ab&".contains(char))),
            5 => Tree::One("\\s".to_owned(), Box::new(|char| " \n".contains(char))),
            6 => Tree::One("\\i".to_owned(), Box::new(|char| char.is_ascii_alphabetic())),
            7 => Tree::One("\\w".to_owned(), Box::new(|char| char.is_ascii_alphabetic())),
            _ => Tree::One("\\p{Lu}".to_owned(), Box::new(|char| char.is_ascii_uppercase())),
        },
        4 if chance.one_in(2) => Tree::Start,
        4 => Tree::End,
        5 | 6 => Tree::Sequence((0..2 + chance.below(2)).map(|_| tree(chance, depth - 1, groups, closed)).collect()),
        7 => {
            let trees = (0..2).map(|_| tree(chance, depth - 1, groups, closed)).collect();
            Tree::Group(None, Box::new(Tree::Either(trees)))
        }
        8 => {
            *groups += 1;
            let number = *groups;
            let inner = tree(chance, depth - 1, groups, closed);
            closed.push(number);
            Tree::Group(Some(number), Box::new(inner))
        }
        9 => {
            let inner = tree(chance, depth - 1, groups, closed);
            let (least, most) = chance.pick(&[(0, 1), (0, OFTEN), (1, OFTEN), (2, 2), (1, 3), (2, OFTEN)]);
            let lazy = chance.one_in(3);
            Tree::Repeated { inner: Box::new(Tree::Group(None, Box::new(inner))), least, most, lazy }
        }
        _ if !closed.is_empty() => Tree::Back(chance.pick(closed)),
        _ => tree(chance, 0, groups, closed),
    }
}

fn written(tree: &Tree) -> String {
    match tree {
        Tree::One(text, _) => text.clone(),
        Tree::Start => "^".to_owned(),
        Tree::End => "$".to_owned(),
        Tree::Sequence(all) => all.iter().map(written).collect(),
        Tree::Either(all) => all.iter().map(written).collect::<Vec<_>>().join("|"),
        Tree::Group(number, inner) => format!("({}{})", if number.is_some() { "" } else { "?:" }, written(inner)),
        Tree::Repeated { inner, least, most, lazy } => {
            let often = match (least, *most) {
                (0, 1) => "?".to_owned(),
                (0, OFTEN) => "*".to_owned(),
                (1, OFTEN) => "+".to_owned(),
                (2, 2) => "{2}".to_owned(),
                (least, OFTEN) => format!("{{{least},}}"),
                (least, most) => format!("{{{least},{most}}}"),
            };
            format!("{}{often}{}", written(inner), if *lazy { "?" } else { "" })
        }
        // No piece begins with a digit, as this would continue the number.
        Tree::Back(group) => format!("\\{group}"),
    }
}

/// Each group's beginning and end, if it has matched.
type Captured = Vec<Option<(usize, usize)>>;

/// A text to search for matches by trying every way.
struct Search<'a> {
    text: &'a [char],
    /// Under the flag m.
    lines: bool,
}

impl Search<'_> {
    /// Whether the tree matches from the character `at` on, and `rest` accepts the remaining text, given the match's
    /// end and the groups.
    fn fits(
        &self,
        tree: &Tree,
        at: usize,
        captured: &Captured,
        rest: &mut dyn FnMut(usize, &Captured) -> bool,
    ) -> bool {
        match tree {
            Tree::One(_, takes) => self.text.get(at).is_some_and(|char| takes(*char)) && rest(at + 1, captured),
            Tree::Start => {
                let in_lines = self.lines && at > 0 && at < self.text.len() && self.text[at - 1] == '\n';
                (at == 0 || in_lines) && rest(at, captured)
            }
            Tree::End => {
                let is_end = at == self.text.len() && !(self.lines && self.text.last() == Some(&'\n'));
                (is_end || self.lines && self.text.get(at) == Some(&'\n')) && rest(at, captured)
            }
            Tree::Sequence(all) => match all.split_first() {
                None => rest(at, captured),
                Some((first, others)) => {
                    self.fits(first, at, captured, &mut |at, captured| self.sequence(others, at, captured, rest))
                }
            },
            Tree::Either(all) => all.iter().any(|tree| self.fits(tree, at, captured, rest)),
            Tree::Group(number, inner) => self.fits(inner, at, captured, &mut |end, captured| {
                let mut captured = captured.clone();
                if let Some(number) = number {
                    captured[*number] = Some((at, end));
                }
                rest(end, &captured)
            }),
            Tree::Repeated { inner, least, most, .. } => {
                // The order of trials does not decide whether there is a match.
                let enough = *least == 0 && rest(at, captured);
                enough
                    || *most > 0
                        && self.fits(inner, at, captured, &mut |end, captured| {
                            self.repeated(inner, least.saturating_sub(1), most - 1, (at, end), captured, rest)
                        })
            }
            Tree::Back(group) => {
                let part: &[char] = captured[*group].map_or(&[], |(start, end)| &self.text[start..end]);
                self.text[at..].starts_with(part) && rest(at + part.len(), captured)
            }
        }
    }

    fn sequence(
        &self,
        trees: &[Tree],
        at: usize,
        captured: &Captured,
        rest: &mut dyn FnMut(usize, &Captured) -> bool,
    ) -> bool {
        match trees.split_first() {
            None => rest(at, captured),
            Some((first, others)) => {
                self.fits(first, at, captured, &mut |at, captured| self.sequence(others, at, captured, rest))
            }
        }
    }

    fn repeated(
        &self,
        inner: &Tree,
        least: usize,
        most: usize,
        (before, at): (usize, usize),
        captured: &Captured,
        rest: &mut dyn FnMut(usize, &Captured) -> bool,
    ) -> bool {
        if least == 0 && rest(at, captured) {
            return true;
        }
        // Repeating an empty match once more changes nothing.
        let is_empty = before == at;
        if most == 0 || is_empty && least == 0 {
            return false;
        }
        self.fits(inner, at, captured, &mut |end, captured| {
            self.repeated(inner, least.saturating_sub(1), most - 1, (at, end), captured, rest)
        })
    }
}

#[test]
fn patterns_match_what_a_search_of_all_ways_finds() {
    let (mut matched, mut back) = (0, 0);
    for seed in 0..2500u64 {
        let mut chance = Chance::new(seed);
        let mut groups = 0;
        let pattern = tree(&mut chance, 4, &mut groups, &mut Vec::new());
        let lines = chance.one_in(3);
        let length = chance.below(7);
        let text: Vec<char> = (0..length).map(|_| char::from(b"abABa#& -\n"[chance.below(10)])).collect();
        let none = vec![None; groups + 1];
        let search = Search { text: &text, lines };
        let wanted = (0..=text.len()).any(|at| search.fits(&pattern, at, &none, &mut |_, _| true));
        let written = written(&pattern);
        let shown: String = text.iter().collect();
        let flags = if lines { "m" } else { "" };
        let call = format!("REGEX({}, {}, \"{flags}\")", literal_of(&shown), literal_of(&written));
        assert_eq!(value_of(&call), format!("{wanted} boolean"), "seed {seed}: {call}");
        matched += usize::from(wanted);
        back += usize::from(written.contains("\\1"));
    }
    println!("seeds 0..2500: {matched} patterns match, {back} have back-references");
    assert!(matched > 500 && back > 50, "{matched} {back}");
}
