//! Random queries on random graphs: with all settings, the engine finds the naive evaluator's solutions.

use crate::made;
use crate::naive::{self, Dataset, Solution};
use crate::rows::{Chance, Row, rows_with};
use oxrdf::{GraphName, Term, Triple};
use oxttl::{NQuadsParser, NTriplesParser};
use spargebra::algebra::{GraphPattern, OrderExpression};
use spargebra::{Query, SparqlParser};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use vicus_files::{FakeDisk, Scratch};
use vicus_sparql::{
    DefaultGraph, Form, ParseOptions, PlanOptions, QueryLimits, QueryOptions, QuerySpill, RunOptions, parse_with, plan,
};

pub(crate) const SUBJECTS: [&str; 6] = ["<http://e/a>", "<http://e/b>", "<http://e/c>", "<http://e/p>", "_:x", "_:y"];
pub(crate) const PREDICATES: [&str; 4] = ["<http://e/p>", "<http://e/q>", "<http://e/r>", "<http://e/s>"];
pub(crate) const LITERALS: [&str; 32] = [
    "\"a\"",
    "\"b\"",
    "\"\"",
    "\"a\"@en",
    "\"b\"@de",
    "\"1\"^^<http://www.w3.org/2001/XMLSchema#integer>",
    "\"01\"^^<http://www.w3.org/2001/XMLSchema#integer>",
    "\"2\"^^<http://www.w3.org/2001/XMLSchema#integer>",
    "\"0\"^^<http://www.w3.org/2001/XMLSchema#integer>",
    "\"1.0\"^^<http://www.w3.org/2001/XMLSchema#decimal>",
    "\"1.5\"^^<http://www.w3.org/2001/XMLSchema#decimal>",
    "\"2.0E0\"^^<http://www.w3.org/2001/XMLSchema#double>",
    "\"true\"^^<http://www.w3.org/2001/XMLSchema#boolean>",
    "\"0\"^^<http://www.w3.org/2001/XMLSchema#boolean>",
    "\"false\"^^<http://www.w3.org/2001/XMLSchema#boolean>",
    "\"x\"^^<http://www.w3.org/2001/XMLSchema#integer>",
    "\"u\"^^<http://e/unknown>",
    "\"v\"^^<http://e/unknown>",
    "\"-7\"^^<http://www.w3.org/2001/XMLSchema#byte>",
    "\"1200\"^^<http://www.w3.org/2001/XMLSchema#byte>",
    "\"x\"^^<http://www.w3.org/2001/XMLSchema#boolean>",
    "\"0.1\"^^<http://www.w3.org/2001/XMLSchema#float>",
    "\"NaN\"^^<http://www.w3.org/2001/XMLSchema#double>",
    "\"9223372036854775807\"^^<http://www.w3.org/2001/XMLSchema#integer>",
    "\"99999999999999999999999\"^^<http://www.w3.org/2001/XMLSchema#integer>",
    "\"0.333333333333333333\"^^<http://www.w3.org/2001/XMLSchema#decimal>",
    "\"2020-02-29T23:30:00Z\"^^<http://www.w3.org/2001/XMLSchema#dateTime>",
    "\"2020-03-01T00:30:00+01:00\"^^<http://www.w3.org/2001/XMLSchema#dateTime>",
    "\"2020-02-29T24:00:00\"^^<http://www.w3.org/2001/XMLSchema#dateTime>",
    "\"2020-02-29\"^^<http://www.w3.org/2001/XMLSchema#date>",
    "\"2021-02-29\"^^<http://www.w3.org/2001/XMLSchema#date>",
    "\"10:00:00.50\"^^<http://www.w3.org/2001/XMLSchema#time>",
];
/// Names of graphs; the last one has no triples.
pub(crate) const GRAPHS: [&str; 5] =
    ["<http://e/g>", "<http://e/h>", "<http://e/a>", "<http://e/p>", "<http://e/nowhere>"];
pub(crate) const VARIABLES: [&str; 6] = ["?a", "?b", "?c", "?d", "?e", "?f"];

pub(crate) fn graph(chance: &mut Chance) -> String {
    let mut text = String::new();
    let predicates = &PREDICATES[..1 + chance.below(4)];
    // Now and then all objects are of one kind, so statistics allow more than otherwise.
    let style = chance.below(4);
    for _ in 0..3 + chance.below(22) {
        let object = match style {
            0 => chance.pick(&SUBJECTS),
            1 => chance.pick(&LITERALS[..3]),
            2 => chance.pick(&["\"1\"^^<http://www.w3.org/2001/XMLSchema#integer>", LITERALS[7], LITERALS[8]]),
            _ if chance.one_in(2) => chance.pick(&SUBJECTS),
            _ => chance.pick(&LITERALS),
        };
        let (subject, predicate) = (chance.pick(&SUBJECTS), chance.pick(predicates));
        writeln!(text, "{subject} {predicate} {object} .").expect("a string takes everything");
    }
    text
}

/// Writes queries. Variables of BIND have names of their own.
pub(crate) struct Writer<'a> {
    pub(crate) chance: &'a mut Chance,
    pub(crate) bound: usize,
    /// Whether parts are in named graphs.
    pub(crate) graphs: bool,
}

impl Writer<'_> {
    pub(crate) fn variable(&mut self) -> &'static str {
        VARIABLES[self.chance.below(VARIABLES.len())]
    }

    pub(crate) fn constant(&mut self) -> &'static str {
        match self.chance.below(8) {
            0 => "<http://e/nowhere>",
            1 => "\"nothing\"",
            2 | 3 => self.chance.pick(&SUBJECTS[..4]),
            _ => self.chance.pick(&LITERALS),
        }
    }

    fn triple(&mut self) -> String {
        let subject = match self.chance.below(10) {
            0 => self.chance.pick(&SUBJECTS[..4]),
            1 => "[]",
            _ => self.variable(),
        };
        let predicate = if self.chance.one_in(4) { self.variable() } else { self.chance.pick(&PREDICATES) };
        let object = if self.chance.one_in(5) { self.constant() } else { self.variable() };
        format!("{subject} {predicate} {object} .")
    }

    pub(crate) fn group(&mut self, depth: usize) -> String {
        let mut text = String::new();
        // In a graph, a group without triples has solutions, too.
        let triples = if self.graphs { self.chance.below(3) } else { 1 + self.chance.below(3) };
        for _ in 0..triples {
            text += &self.triple();
        }
        if depth > 0 {
            for _ in 0..self.chance.below(3) {
                text += &self.part(depth - 1);
            }
        }
        if self.chance.one_in(2) {
            write!(text, " FILTER ({})", self.condition(2)).expect("a string takes everything");
        }
        if self.chance.one_in(8) {
            text += &self.triple();
        }
        text
    }

    fn part(&mut self, depth: usize) -> String {
        if self.graphs && self.chance.one_in(2) {
            let name = if self.chance.one_in(3) { self.chance.pick(&GRAPHS) } else { self.variable() };
            return format!(" GRAPH {name} {{ {} }}", self.group(depth));
        }
        match self.chance.below(15) {
            12 => format!(" {} {} {} .", self.variable(), self.path(2), self.end()),
            13 => format!(" {} {} {} .", self.end(), self.path(2), self.variable()),
            14 => format!(" {{ {} }}", self.grouping(depth)),
            0..=3 => format!(" OPTIONAL {{ {} }}", self.group(depth)),
            4 | 5 => format!(" {{ {} }} UNION {{ {} }}", self.group(depth), self.group(depth)),
            6 => format!(" {{ {} }}", self.group(depth)),
            7 => format!(" MINUS {{ {} }}", self.group(depth)),
            8 => {
                let distinct = if self.chance.one_in(2) { "DISTINCT " } else { "" };
                let (a, b) = (self.variable(), self.variable());
                let both = if a == b { a.to_owned() } else { format!("{a} {b}") };
                format!(" {{ SELECT {distinct}{both} {{ {} }} }}", self.group(depth))
            }
            9 => {
                let (a, b) = (self.variable(), self.variable());
                if a == b {
                    return format!(" VALUES {a} {{ {} {} }}", self.constant(), self.constant());
                }
                let mut rows = String::new();
                for _ in 0..1 + self.chance.below(4) {
                    write!(rows, " ({} {})", self.cell(), self.cell()).expect("a string takes everything");
                }
                format!(" VALUES ({a} {b}) {{{rows} }}")
            }
            10 => {
                self.bound += 1;
                format!(" BIND ({} AS ?z{})", self.operand(1), self.bound)
            }
            _ => {
                let (a, b) = (self.variable(), self.variable());
                format!(" OPTIONAL {{ {} }} FILTER (!bound({a}) || {a} != {b})", self.group(depth))
            }
        }
    }

    /// In a table.
    fn cell(&mut self) -> &'static str {
        match self.chance.below(3) {
            0 => "UNDEF",
            1 => self.chance.pick(&SUBJECTS[..4]),
            _ => self.constant(),
        }
    }

    fn end(&mut self) -> &'static str {
        if self.chance.one_in(3) { self.chance.pick(&SUBJECTS[..4]) } else { self.variable() }
    }

    fn path(&mut self, depth: usize) -> String {
        let step = self.chance.pick(&PREDICATES).to_owned();
        if depth == 0 {
            return step;
        }
        match self.chance.below(8) {
            0 => format!("^({})", self.path(depth - 1)),
            // A sequence begins with a step: a path of length zero is left open for a term without triples.
            1 => format!("({step}/{})", self.path(depth - 1)),
            2 => format!("({}|{})", self.path(depth - 1), self.path(depth - 1)),
            3 => format!("!({step}|^{})", self.chance.pick(&PREDICATES)),
            4 => format!("({})?", self.path(depth - 1)),
            5 => format!("({})+", self.path(depth - 1)),
            _ => format!("({})*", self.path(depth - 1)),
        }
    }

    /// A SELECT with aggregates.
    fn grouping(&mut self, depth: usize) -> String {
        let (key, other) = (self.variable(), self.variable());
        let mut results = String::new();
        for _ in 0..1 + self.chance.below(2) {
            self.bound += 1;
            let distinct = if self.chance.one_in(3) { "DISTINCT " } else { "" };
            let call = match self.chance.below(9) {
                0 | 1 => "COUNT(".to_owned() + distinct + "*)",
                2 => format!("COUNT({distinct}{})", self.variable()),
                3 => format!("SUM({distinct}{})", self.operand(1)),
                4 => format!("AVG({distinct}{})", self.variable()),
                5 => format!("MIN({})", self.variable()),
                6 => format!("MAX({})", self.operand(1)),
                7 => format!("SAMPLE({})", self.variable()),
                _ => format!("GROUP_CONCAT({distinct}{}; separator=\"-\")", self.variable()),
            };
            write!(results, " ({call} AS ?z{})", self.bound).expect("a string takes everything");
        }
        let body = self.group(depth);
        let having = if self.chance.one_in(4) { format!(" HAVING (COUNT({other}) > 1)") } else { String::new() };
        match self.chance.below(3) {
            0 => format!("SELECT{results} {{ {body} }}"),
            _ => format!("SELECT {key}{results} {{ {body} }} GROUP BY {key}{having}"),
        }
    }

    pub(crate) fn condition(&mut self, depth: usize) -> String {
        if depth > 0 && self.chance.one_in(2) {
            let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
            return match self.chance.below(5) {
                0 | 1 => format!("({a} && {b})"),
                2 | 3 => format!("({a} || {b})"),
                _ => format!("!({a})"),
            };
        }
        let (a, b) = (self.variable(), self.variable());
        match self.chance.below(15) {
            12 | 13 if depth > 0 => format!("EXISTS {{ {} }}", self.group(depth - 1)),
            14 if depth > 0 => format!("NOT EXISTS {{ {} }}", self.group(depth - 1)),
            0 => format!("bound({a})"),
            1 => format!("!bound({a})"),
            2 => format!("{a} = {b}"),
            3 => format!("{a} != {b}"),
            4 => format!("{a} {} {b}", self.chance.pick(&["<", "<=", ">", ">="])),
            5 => format!("sameTerm({a}, {b})"),
            6 => format!("{a} IN ({}, {b})", self.constant()),
            7 => format!("{a} NOT IN ({}, {})", self.constant(), self.constant()),
            8 => format!("{}({a})", self.chance.pick(&["isIRI", "isBlank", "isLiteral", "isNumeric"])),
            9 => a.to_owned(),
            _ => {
                let sign = self.chance.pick(&["=", "!=", "<", "<=", ">", ">=", "="]);
                format!("{} {sign} {}", self.operand(1), self.operand(1))
            }
        }
    }

    pub(crate) fn operand(&mut self, depth: usize) -> String {
        match self.chance.below(19) {
            14 if depth > 0 => format!("({} / {})", self.operand(depth - 1), self.operand(depth - 1)),
            15 => format!("{}({})", self.chance.pick(&["ABS", "CEIL", "FLOOR", "ROUND"]), self.variable()),
            16 => format!("{}({})", self.chance.pick(&["YEAR", "DAY", "HOURS", "SECONDS", "TZ"]), self.variable()),
            18 if depth > 0 => {
                format!("IF(EXISTS {{ {} }}, {}, 1)", self.group(depth - 1), self.operand(depth - 1))
            }
            17 => {
                let names = ["integer", "decimal", "double", "float", "string", "boolean", "dateTime", "date", "time"];
                format!("<http://www.w3.org/2001/XMLSchema#{}>({})", self.chance.pick(&names), self.operand(0))
            }
            0..=3 => self.variable().to_owned(),
            4..=6 => self.constant().to_owned(),
            7 if depth > 0 => {
                let sign = self.chance.pick(&["+", "-", "*"]);
                format!("({} {sign} {})", self.operand(depth - 1), self.operand(depth - 1))
            }
            8 if depth > 0 => format!("-{}", self.variable()),
            9 => format!("{}({})", self.chance.pick(&["str", "lang", "datatype", "strlen", "ucase"]), self.variable()),
            12 => format!("concat({}, {})", self.variable(), self.constant()),
            13 => format!("{}({}, {})", self.chance.pick(&["contains", "strafter"]), self.variable(), self.variable()),
            10 => format!("IF(bound({}), {}, 1)", self.variable(), self.variable()),
            11 => format!("COALESCE({}, {})", self.variable(), self.constant()),
            _ => "1".to_owned(),
        }
    }

    /// A BIND of `name` to a computed term, though the data often has it.
    pub(crate) fn recomputed(&mut self, name: &str) -> String {
        let value = match self.chance.below(5) {
            0 => format!("LCASE({})", self.variable()),
            1 => format!("IRI(STR({}))", self.variable()),
            2 => format!("IRI(CONCAT(\"http://e/\", {}))", self.chance.pick(&["\"a\"", "\"b\"", "\"p\"", "\"q\""])),
            3 => format!("STR({})", self.variable()),
            _ => format!("CONCAT({}, \"\")", self.chance.pick(&["\"a\"", "\"b\""])),
        };
        format!(" BIND ({value} AS {name})")
    }

    fn query(&mut self) -> String {
        let body = self.group(2);
        if self.chance.one_in(8) {
            return format!("ASK {{ {body} }}");
        }
        if self.chance.one_in(8) {
            return self.grouping(2);
        }
        let modifier = self.chance.pick(&["", "", "DISTINCT ", "REDUCED "]);
        let mut projection = "*".to_owned();
        if self.chance.one_in(2) {
            let count = 1 + self.chance.below(3);
            let start = self.chance.below(4);
            projection = VARIABLES[start..(start + count).min(6)].join(" ");
        }
        let mut text = format!("SELECT {modifier}{projection} {{ {body} }}");
        if self.chance.one_in(3) {
            text += " ORDER BY";
            for _ in 0..1 + self.chance.below(2) {
                let key = match self.chance.below(4) {
                    0 => format!(" DESC({})", self.variable()),
                    1 => format!(" ({})", self.operand(1)),
                    _ => format!(" {}", self.variable()),
                };
                text += &key;
            }
        }
        if self.chance.one_in(4) {
            write!(text, " LIMIT {}", self.chance.below(6)).expect("a string takes everything");
        }
        if self.chance.one_in(6) {
            write!(text, " OFFSET {}", self.chance.below(4)).expect("a string takes everything");
        }
        text
    }
}

fn as_lines<'a>(rows: impl Iterator<Item = Vec<Option<&'a Term>>>) -> Vec<String> {
    let cell = |term: Option<&Term>| term.map_or("-".to_owned(), Term::to_string);
    rows.map(|row| row.into_iter().map(cell).collect::<Vec<_>>().join(" ")).collect()
}

/// The pattern without its outermost LIMIT and OFFSET, and with its ORDER BY.
fn unsliced(pattern: &GraphPattern) -> (&GraphPattern, usize, Option<usize>) {
    match pattern {
        GraphPattern::Slice { inner, start, length } => (inner, *start, *length),
        other => (other, 0, None),
    }
}

fn order_keys(pattern: &GraphPattern) -> &[OrderExpression] {
    match pattern {
        GraphPattern::OrderBy { expression, .. } => expression,
        GraphPattern::Project { inner, .. }
        | GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::Slice { inner, .. } => order_keys(inner),
        _ => &[],
    }
}

fn counted(lines: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    lines.iter().for_each(|line| *counts.entry(line.as_str()).or_insert(0) += 1);
    counts
}

fn check(seed: u64) -> bool {
    let mut chance = Chance::new(seed);
    let data = graph(&mut chance);
    let text = Writer { chance: &mut chance, bound: 0, graphs: false }.query();
    check_query(seed, &data, &text).is_some()
}

/// Limits low enough for a small graph to exceed each of them.
fn low_limits(chance: &mut Chance) -> QueryLimits {
    QueryLimits {
        remembered_ends: chance.below(6),
        steps: 1 + chance.below(5),
        remembered_answers: chance.below(3),
        batches: 1 + chance.below(2),
        searched_keys: chance.below(3),
        candidates: 1 + chance.below(4),
        waiting_ids: chance.below(9),
        spilled_from: if chance.one_in(2) { chance.below(3000) as u64 } else { u64::MAX },
        part_rows: 1 + chance.below(3) as u64,
        service_rows: 1 + chance.below(4),
        ordered_exhaustively: chance.below(4),
        ordered_joins: chance.below(200),
        ordered_together: 2 + chance.below(3),
        branches: chance.below(5),
        unions: chance.below(3),
        tries: chance.below(3),
        tried_from_ns: 0,
        eliminated_from_ns: if chance.one_in(2) { 0 } else { u64::MAX },
    }
}

/// Settings with the same answer for a query.
pub(crate) fn settings() -> impl Iterator<Item = QueryOptions> {
    let sizes = [(1, 1), (1, 3), (2, 1), (2, 2), (7, 8), (2048, 1), (2048, 4)];
    let all = [true, false].into_iter().flat_map(move |optimise| sizes.map(|size| (optimise, size)));
    all.map(|(optimise, (envelope_rows, threads))| {
        let common = PlanOptions {
            envelope_rows,
            // With one envelope a via, boxes waiting for each other would stall.
            via_envelopes: if threads == 1 { 8 } else { 1 },
            // With threads, every pipeline is shared among several boxes.
            threads,
            parallel_rows: 0,
            optimise,
            ..PlanOptions::default()
        };
        // Without a cache, tables are split as soon as there is a row.
        let cache_bytes = if (envelope_rows, threads) == (2, 2) { 0 } else { 1 << 20 };
        QueryOptions { cache_bytes, ..QueryOptions::from(common) }
    })
}

/// The quads of N-Quads, each once.
pub(crate) fn dataset_of(text: &str) -> Dataset {
    let mut dataset = Dataset::default();
    for quad in NQuadsParser::new().for_slice(text) {
        let quad = quad.expect("good N-Quads");
        let triple = Triple::new(quad.subject, quad.predicate, quad.object);
        let name: Option<Term> = match quad.graph_name {
            GraphName::DefaultGraph => None,
            GraphName::NamedNode(node) => Some(node.into()),
            GraphName::BlankNode(node) => Some(node.into()),
        };
        let triples = match name {
            None => &mut dataset.default,
            Some(name) => {
                let known = dataset.named.iter().position(|(other, _)| *other == name);
                let place = known.unwrap_or_else(|| {
                    dataset.named.push((name, Vec::new()));
                    dataset.named.len() - 1
                });
                &mut dataset.named[place].1
            }
        };
        if !triples.contains(&triple) {
            triples.push(triple);
        }
    }
    dataset
}

/// The triples of N-Triples, each once.
pub(crate) fn data_of(text: &str) -> Vec<Triple> {
    let mut set: Vec<Triple> = Vec::new();
    for triple in NTriplesParser::new().for_slice(text) {
        let triple = triple.expect("good N-Triples");
        if !set.contains(&triple) {
            set.push(triple);
        }
    }
    set
}

/// Compares the solutions of the engine and of the naive evaluator. Returns the optimised plan; `None` if the query has
/// no answer to compare.
pub(crate) fn check_query(seed: u64, data: &str, text: &str) -> Option<String> {
    check_query_in(seed, data, text, DefaultGraph::Own)
}

/// Like [`check_query`], for N-Quads. The query's FROM clauses name its graphs, or else `default` its default graph.
fn check_query_in(seed: u64, data: &str, text: &str, default: DefaultGraph) -> Option<String> {
    let query = SparqlParser::new().parse_query(text).ok()?;
    let mut set = dataset_of(data);
    let (Query::Select { pattern, dataset, .. } | Query::Ask { pattern, dataset, .. }) = &query else {
        unreachable!("only these")
    };
    match (dataset, default) {
        (Some(written), _) => set = set.chosen(written),
        (None, DefaultGraph::Union) => set.default = set.merged(None),
        (None, DefaultGraph::Own) => {}
    }
    let (whole, skip, limit) = unsliced(pattern);
    let expected = naive::evaluate_in(&set, whole)?;
    let snapshot = made::in_way(data, seed as usize % made::WAYS);
    let options = ParseOptions { rdf_12: data.contains("<<"), ..ParseOptions::default() };
    let parsed = parse_with(text, &options).unwrap_or_else(|error| panic!("seed {seed}: {text}: {error}"));
    let mut explained = None;
    let mut numbers = Chance::new(seed ^ 5);
    for options in settings() {
        let limits =
            if options.common.envelope_rows % 2 == 0 { QueryLimits::default() } else { low_limits(&mut numbers) };
        let options = QueryOptions { limits, default_graph: default, ..options };
        let plan = plan(&snapshot, &parsed, options).expect("supported");
        let mut order = Chance::new(seed ^ 77);
        // With low limits, spilling boxes spill after some rows.
        let disk = FakeDisk::new(seed);
        let scratch = || Scratch::new(Arc::new(disk.process(1)));
        let spill = (limits.spilled_from < 10_000).then(|| QuerySpill { scratch: scratch(), budget: 0 });
        let rows = rows_with(&plan, RunOptions { spill, ..RunOptions::default() }, |_| order.next() as usize);
        assert!(disk.names().is_empty());
        let story = || format!("seed {seed}, {options:?}\n{text}\n{data}\n{}", plan.explain());
        match plan.form() {
            Form::Ask => {
                assert!(rows.len() <= 1, "{}", story());
                assert_eq!(!rows.is_empty(), !expected.is_empty(), "{}", story());
            }
            Form::Select { variables } => {
                compare(&rows, &expected, variables, (skip, limit), order_keys(whole), &story);
            }
            Form::Construct | Form::Describe => unreachable!("only these"),
        }
        explained.get_or_insert_with(|| plan.explain());
    }
    explained
}

fn compare(
    rows: &[Row],
    expected: &[Solution],
    variables: &[String],
    (skip, limit): (usize, Option<usize>),
    keys: &[OrderExpression],
    story: &dyn Fn() -> String,
) {
    let found = as_lines(rows.iter().map(|row| row.iter().map(Option::as_ref).collect()));
    let wanted = as_lines(expected.iter().map(|row| variables.iter().map(|name| row.get(name)).collect()));
    let (found_counts, wanted_counts) = (counted(&found), counted(&wanted));
    let count = (wanted.len().saturating_sub(skip)).min(limit.unwrap_or(usize::MAX));
    assert_eq!(found.len(), count, "{}\nfound {found:#?}\nwanted {wanted:#?}", story());
    for (line, count) in &found_counts {
        let most = wanted_counts.get(line).copied().unwrap_or(0);
        assert!(*count <= most, "{}\n{line} came {count} times and not {most}\nfound {found:#?}", story());
    }
    // Projected keys can be looked at in the rows.
    let named = |row: &Row| -> Solution {
        variables.iter().zip(row).filter_map(|(name, term)| Some((name.clone(), term.clone()?))).collect()
    };
    let visible = |key: &OrderExpression| match key {
        OrderExpression::Asc(expression) | OrderExpression::Desc(expression) => match expression {
            spargebra::algebra::Expression::Variable(name) => variables.contains(&name.as_str().to_owned()),
            _ => false,
        },
    };
    if let [first, ..] = keys
        && visible(first)
    {
        let rows: Vec<Solution> = rows.iter().map(named).collect();
        for pair in rows.windows(2) {
            let order = naive::by_keys(std::slice::from_ref(first), &pair[0], &pair[1]);
            assert!(order.is_le(), "{}\nout of order: {found:#?}", story());
        }
    }
}

#[test]
fn the_engine_finds_what_the_naive_evaluator_finds() {
    let seeds = 1000;
    let checked = (0..seeds).filter(|&seed| check(seed)).count();
    println!("seeds 0..{seeds}: {checked} queries were checked");
    assert!(checked as u64 > seeds / 2, "most random queries are good ones, but only {checked} were");
}

/// Quads of few graphs with many common triples.
pub(crate) fn quads(chance: &mut Chance) -> String {
    let triples = graph(chance);
    let mut text = String::new();
    for triple in triples.lines() {
        let triple = triple.strip_suffix('.').expect("it was written so");
        for _ in 0..1 + chance.below(3) {
            let name = match chance.below(8) {
                0 | 1 => "",
                2 => "_:x",
                _ => chance.pick(&GRAPHS[..4]),
            };
            writeln!(text, "{triple} {name} .").expect("a string takes everything");
        }
    }
    // Now and then most triples are in other graphs.
    if chance.one_in(4) {
        let triples = graph(chance);
        for (place, triple) in triples.lines().chain(triples.lines()).enumerate() {
            let triple = triple.strip_suffix('.').expect("it was written so");
            writeln!(text, "{triple} <http://e/other{}> .", place % 5).expect("a string takes everything");
        }
    }
    text
}

fn check_graphs(seed: u64) -> Option<String> {
    let mut chance = Chance::new(seed);
    let data = quads(&mut chance);
    let mut writer = Writer { chance: &mut chance, bound: 0, graphs: true };
    let mut text = writer.query();
    let mut from = String::new();
    if writer.chance.one_in(3) {
        for _ in 0..writer.chance.below(4) {
            let named = if writer.chance.one_in(2) { "NAMED " } else { "" };
            write!(from, "FROM {named}{} ", writer.chance.pick(&GRAPHS)).expect("a string takes everything");
        }
    }
    let brace = text.find('{').expect("there is a pattern");
    text.insert_str(brace, &from);
    let default = if chance.one_in(4) { DefaultGraph::Union } else { DefaultGraph::Own };
    check_query_in(seed, &data, &text, default)
}

#[test]
fn queries_of_several_graphs_are_what_the_naive_evaluator_finds() {
    let seeds = 1000;
    let plans: Vec<String> = (0..seeds).filter_map(check_graphs).collect();
    let of = |word: &str| plans.iter().filter(|plan| plan.contains(word)).count();
    let (named, merged, walks) = (of("graph ?"), of("graph of "), of("walk graph "));
    println!(
        "seeds 0..{seeds}: {} queries were checked; {named} are in each graph, {merged} in a merge of graphs, {walks} \
            walk there",
        plans.len()
    );
    assert!(plans.len() > seeds as usize / 2 && named > 100 && merged > 50 && walks > 20);
}

/// Many triples about many subjects, and a query with few rows on the left side and many on the optional side alone.
fn check_optional(seed: u64) -> Option<String> {
    let mut chance = Chance::new(seed);
    let mut data = String::new();
    for _ in 0..200 + chance.below(200) {
        let (subject, predicate) = (chance.below(60), chance.pick(&PREDICATES));
        match chance.below(5) {
            0 => writeln!(data, "<http://e/n{subject}> {predicate} {} .", chance.pick(&LITERALS)),
            _ => writeln!(data, "<http://e/n{subject}> {predicate} <http://e/n{}> .", chance.below(60)),
        }
        .expect("a string takes everything");
    }
    let mut writer = Writer { chance: &mut chance, bound: 0, graphs: false };
    let start = writer.chance.below(60);
    let left = match writer.chance.below(5) {
        0 => format!("<http://e/n{start}> {} ?a .", writer.chance.pick(&PREDICATES)),
        1 => format!("?a {} <http://e/n{start}> . OPTIONAL {{ ?a <http://e/q> ?b }}", writer.chance.pick(&PREDICATES)),
        2 => format!("VALUES (?a ?b) {{ (<http://e/n{start}> UNDEF) (<http://e/n1> <http://e/n2>) }} ?a ?d ?e ."),
        3 => format!("?a <http://e/p> <http://e/n{start}> BIND (?a AS ?b) FILTER (?b != <http://e/n3>)"),
        _ => format!("{{ ?a <http://e/p> <http://e/n{start}> }} UNION {{ <http://e/n{start}> <http://e/q> ?a }}"),
    };
    let mut right = String::new();
    let mut last = "?a";
    for next in &["?c", "?d", "?f"][..2 + writer.chance.below(2)] {
        let predicate = writer.chance.pick(&PREDICATES);
        right += &match writer.chance.below(8) {
            0 => format!("{next} {predicate} {last} . "),
            1 => format!("{last} {predicate}/{}* {next} . ", writer.chance.pick(&PREDICATES)),
            2 => format!("{last} {predicate} {next} OPTIONAL {{ {next} {} ?e }} ", writer.chance.pick(&PREDICATES)),
            3 => format!("{{ {last} {predicate} {next} }} UNION {{ {next} <http://e/r> {last} }} "),
            _ => format!("{last} {predicate} {next} . "),
        };
        last = next;
    }
    if writer.chance.one_in(3) {
        write!(right, "FILTER ({}) ", writer.condition(1)).expect("a string takes everything");
    }
    let join = match writer.chance.below(6) {
        0 => format!("MINUS {{ {right} }}"),
        1 => format!("OPTIONAL {{ {right} }} FILTER (!bound(?c))"),
        2 => format!("FILTER NOT EXISTS {{ {right} }}"),
        _ => format!("OPTIONAL {{ {right} }}"),
    };
    check_query(seed, &data, &format!("SELECT * {{ {left} {join} }}"))
}

#[test]
fn optional_parts_are_what_the_naive_evaluator_finds() {
    let plans: Vec<String> = (0..150).filter_map(check_optional).collect();
    // Nothing else in these queries asks for distinct rows.
    let asked = plans.iter().filter(|plan| plan.contains("distinct")).count();
    println!(
        "seeds 0..150: {} queries were checked; in {asked} the left side says where the right one begins",
        plans.len()
    );
    assert!(plans.len() > 100 && asked > 30, "{asked} of {} plans", plans.len());
}

/// For long runs: `cargo test -p vicus-sparql --release -- --ignored many_more`.
#[test]
#[ignore = "takes minutes"]
fn many_more_seeds() {
    let checked = (1000..150_000).filter(|&seed| check_graphs(seed).is_some() | check(seed)).count();
    println!("seeds 1000..150000: queries of {checked} were checked");
}
