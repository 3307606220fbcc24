//! The results of `vicus query`: the same rows in every format, however many threads write them, in bounded memory.

use super::{file, run, stderr, stdout};
use sparesults::{QueryResultsFormat, QueryResultsParser, SliceQueryResultsParserOutput};
use vicus_schedule::ALL;

/// The terms of each row in N-Triples, in the order of the result.
fn rows(format: QueryResultsFormat, text: &str) -> Vec<Vec<String>> {
    let parser = QueryResultsParser::from_format(format);
    let SliceQueryResultsParserOutput::Solutions(solutions) = parser.for_slice(text.as_bytes()).unwrap() else {
        panic!("solutions were written")
    };
    let row = |values: &[Option<oxrdf::Term>]| {
        values.iter().map(|value| value.as_ref().map_or_else(String::new, ToString::to_string)).collect()
    };
    solutions.map(|solution| row(solution.expect("a whole row").values())).collect()
}

const FORMATS: [(&str, QueryResultsFormat); 3] =
    [("json", QueryResultsFormat::Json), ("xml", QueryResultsFormat::Xml), ("tsv", QueryResultsFormat::Tsv)];

/// Several threads write the rows of JSON and XML. A comma too many, or a head in the middle, would make the result
/// unreadable.
#[test]
fn all_threads_write_one_result_under_all_strategies() {
    let text: String = (0..280).map(|n| format!("<http://e/{n}> <http://e/p> \"<{n}>\\t\\\"&\"@en .\n")).collect();
    let data = file("parallel.nt", text);
    let query = "SELECT ?a ?none ?f { ?a <http://e/p> ?c . ?d <http://e/p> ?f }";
    let args = |format, strategy, threads| {
        ["query", "--data", &data, query, "--format", format, "--strategy", strategy, "--threads", threads]
    };
    let plan = stdout(&run(&["query", "--data", &data, query, "--format", "json", "--threads", "4", "--explain"]));
    assert!(plan.matches("solutions").count() >= 4, "four boxes write: {plan}");
    let one = ["json", "xml", "tsv"].map(|format| stdout(&run(&args(format, "las", "1"))));
    let mut expected = rows(FORMATS[2].1, &one[2]);
    expected.sort_unstable();
    assert_eq!(expected.len(), 280 * 280);
    for (number, strategy) in ALL.map(|strategy| strategy.name()).into_iter().enumerate() {
        // Parsing the result takes longest, so each strategy is tested with one of the two formats.
        let (format, parsed) = FORMATS[number % 2];
        let mut found = rows(parsed, &stdout(&run(&args(format, strategy, "4"))));
        found.sort_unstable();
        assert!(found == expected, "{format}, {strategy}");
    }
    for (text, (format, parsed)) in one.iter().zip(FORMATS) {
        let mut found = rows(parsed, text);
        found.sort_unstable();
        assert!(found == expected, "{format}, one thread");
    }
}

#[test]
fn results_without_rows_or_columns_are_whole() {
    let data = file("few.nt", "<http://e/s> <http://e/p> \"o\" .\n");
    let none = "SELECT ?x ?y { ?x <http://e/none> ?y }";
    let empty = "SELECT * { <http://e/s> <http://e/p> \"o\" }";
    for (format, parsed) in &FORMATS[..2] {
        let answer = |query| stdout(&run(&["query", "--data", &data, query, "--format", format, "--threads", "3"]));
        assert!(rows(*parsed, &answer(none)).is_empty(), "{format}");
        assert_eq!(rows(*parsed, &answer(empty)), vec![Vec::<String>::new()], "{format}");
        let limited = answer("SELECT ?x { ?x <http://e/p> ?y } LIMIT 1");
        assert_eq!(rows(*parsed, &limited), [["<http://e/s>"]], "{format}");
        assert!(limited.ends_with('\n'));
    }
}

#[test]
fn an_order_is_kept_in_every_format() {
    let text: String =
        (0..3000).map(|n| format!("<http://e/{}> <http://e/p> {:?} .\n", n * 7919 % 3000, n.to_string())).collect();
    let data = file("ordered.nt", text);
    let query = "SELECT ?s ?o { ?s <http://e/p> ?o } ORDER BY DESC(STRLEN(?o)) ?s LIMIT 2900";
    let answers = FORMATS.map(|(format, parsed)| {
        rows(parsed, &stdout(&run(&["query", "--data", &data, query, "--format", format, "--threads", "4"])))
    });
    assert_eq!(answers[0].len(), 2900);
    assert!(answers[0] == answers[2] && answers[1] == answers[2]);
    let key = |row: &[String]| (std::cmp::Reverse(row[1].len()), row[0].trim_end_matches('>').to_owned());
    assert!(answers[0].windows(2).all(|pair| key(&pair[0]) < key(&pair[1])));
}

/// What happened: control characters were written to XML results unchanged, and no XML parser accepted them.
#[test]
fn xml_refuses_what_it_cannot_write_and_says_where() {
    let data = file("control.nt", "<http://e/a> <http://e/p> \"fine\" .\n<http://e/b> <http://e/p> \"a\\u0001b\" .\n");
    let query = "SELECT ?s ?text { ?s <http://e/p> ?text } ORDER BY ?s";
    let answer = |format| run(&["query", "--data", &data, query, "--format", format]);
    let output = answer("xml");
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    for part in ["the query", "?text of row 2", "\"a\\u0001b\"", "U+0001", "--format json"] {
        assert!(text.contains(part), "`{part}` is part of: {text}");
    }
    for (format, parsed) in [FORMATS[0], FORMATS[2]] {
        let found = rows(parsed, &stdout(&answer(format)));
        assert_eq!(found[1], ["<http://e/b>", "\"a\\u0001b\""], "{format}");
    }
}

/// What happened: after XML parsing, a carriage return was a line feed, and a literal of white space was empty.
#[test]
fn white_space_survives_xml() {
    let data = file("white.nt", "<http://e/a> <http://e/p> \"\\r\\n\\t x \\r y \" .\n");
    let query = "SELECT ?text { ?s <http://e/p> ?text }";
    let text = stdout(&run(&["query", "--data", &data, query, "--format", "xml"]));
    assert!(text.contains("<literal>&#13;&#10;&#9; x &#13; y&#32;</literal>"), "{text}");
    assert_eq!(rows(QueryResultsFormat::Xml, &text), [["\"\\r\\n\\t x \\r y \""]]);
}

/// What happened: a box made the text of all rows of an envelope before it wrote any: 2,048 rows of a megabyte took two
/// gigabytes, and none of it was booked.
#[test]
fn rows_with_long_terms_are_written_one_by_one() {
    let long = "x".repeat(1 << 20);
    let names: String = (0..200).map(|n| format!("<http://e/{n}> <http://e/p> <http://e/o> .\n")).collect();
    let data = file("long.nt", format!("{names}<http://e/long> <http://e/text> \"{long}\" .\n"));
    let query = "SELECT ?a ?text { ?a <http://e/p> ?o . <http://e/long> <http://e/text> ?text }";
    for format in ["json", "xml", "csv", "tsv"] {
        let args = ["query", "--data", &data, query, "--format", format, "--memory-limit", "8M", "--timings=json"];
        let output = run(&args);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(output.stdout.len() > 200 << 20, "{format}");
        let text = stderr(&output);
        let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert!(last["peak_rss_mib"].as_f64().unwrap() < 120.0, "{format}: {text}");
        // One of them is more than the query may hold.
        let output = run(&["query", "--data", &data, query, "--format", format, "--memory-limit", "900K"]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{format}");
        assert!(text.contains("900.0 KiB") && text.contains("MiB for solutions"), "{format}: {text}");
    }
}
