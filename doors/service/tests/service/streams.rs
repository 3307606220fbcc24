//! Answers read piece by piece: bounded, paced by the reader, and cancelled with it.

use super::*;
use std::future::poll_fn;
use std::time::{Duration, Instant};
use vicus::threads::block_on;
use vicus_service::{
    CallLimits, Cancel, Error, ErrorKind, Format, RunningQuery, StreamReader, StreamWriter, TextSink, text_stream,
};

type Answering = RunningQuery<TextSink<StreamWriter>>;

/// The most text waiting in a stream here.
const MOST: usize = 64 << 10;
/// The text a box may write beyond it before it pauses: a finished piece, with the row that filled it.
const BEYOND: usize = (256 << 10) + 1024;

fn begin(service: &Service, options: SessionOptions, text: &str, format: Format) -> (Answering, StreamReader) {
    let cancel = Cancel::new();
    let limits = CallLimits { cancel: cancel.clone(), ..options.limits };
    let session = service.session(&dataset(), SessionOptions { limits, ..options });
    let mut call = session.call().unwrap();
    let prepared = call.prepare(text).unwrap();
    let (writer, reader) = text_stream(MOST);
    let pace = Arc::new(writer.clone());
    let running = call.begin(&prepared, TextSink::paced(format, writer, pace)).unwrap();
    (running, reader.cancelling(cancel))
}

/// Ends the stream as a door does: when the query is over.
fn finish(running: Answering) -> Result<u64, Error> {
    let (writer, outcome) = running.wait()?;
    writer.end();
    Ok(outcome.rows)
}

fn next(reader: &mut StreamReader) -> Option<Vec<u8>> {
    block_on(poll_fn(|context| reader.poll_piece(context))).map(|piece| piece.expect("it does not break off"))
}

fn sorted_lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    lines
}

/// Nine million rows go through some hundred kilobytes, at any speed of the reader, and are the rows of any other sink.
#[test]
fn a_stream_is_what_a_whole_answer_is() {
    const PAIRS: &str = "SELECT ?c ?f { ?a ?b ?c . ?d ?e ?f FILTER (?a = <http://e/7>) }";
    const TRIPLES: &str = "CONSTRUCT { ?a ?e ?f } { ?a ?b ?c . ?d ?e ?f FILTER (?d = <http://e/7>) }";
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        for (text, format) in
            [(PAIRS, Format::Tsv), (PAIRS, Format::Json), (TRIPLES, Format::NTriples), ("ASK {}", Format::Xml)]
        {
            let (whole, outcome) = service.session(&dataset(), shared()).write(text, format, Vec::new()).unwrap();
            for slow in [false, true] {
                let (running, mut reader) = begin(&service, shared(), text, format);
                let ending = std::thread::spawn(move || finish(running).map_err(|error| panic!("{error}")));
                let (mut streamed, mut pieces) = (Vec::new(), 0);
                while let Some(piece) = next(&mut reader) {
                    streamed.extend(piece);
                    pieces += 1;
                    if slow && pieces % 8 == 0 {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                }
                assert_eq!(ending.join().unwrap().unwrap(), outcome.rows, "{strategy}");
                // Boxes write in any order, and JSON's commas lie between.
                assert_eq!(streamed.len(), whole.len(), "{strategy}, {format:?}");
                if format != Format::Json {
                    assert!(sorted_lines(&streamed) == sorted_lines(&whole), "{strategy}, {format:?}");
                }
            }
        }
        assert_eq!(service.memory().taken(), 0, "{strategy}");
    });
}

/// A reader that takes nothing has a bounded text wait for it, holds no thread, and lets other queries be answered.
#[test]
fn a_reader_that_takes_nothing_slows_its_own_query_alone() {
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let still: Vec<_> = (0..20).map(|_| begin(&service, shared(), ENDLESS, Format::Tsv)).collect();
        let began = Instant::now();
        assert_eq!(service.session(&dataset(), shared()).count(MODEST).unwrap(), 500, "{strategy}");
        assert!(began.elapsed() < Duration::from_secs(20), "{strategy}: others are answered");
        // By then all of them are full: several boxes write to each.
        let waiting = |reader: &StreamReader| -> usize {
            format!("{reader:?}").chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
        };
        // One that had no turn writes nothing either.
        let is_full = |running: &Answering, reader: &StreamReader| {
            let before = running.watch().rows();
            std::thread::sleep(Duration::from_millis(20));
            waiting(reader) >= MOST && running.watch().rows() == before
        };
        let until = Instant::now() + Duration::from_secs(60);
        for (running, reader) in &still {
            while !is_full(running, reader) {
                assert!(Instant::now() < until, "{strategy}: it writes on and on");
            }
            assert!(!running.is_done(), "{strategy}");
            let bytes = waiting(reader);
            assert!((MOST..MOST + 3 * BEYOND).contains(&bytes), "{strategy}: {bytes} bytes wait");
        }
        // The readers go.
        for (running, reader) in still {
            drop(reader);
            assert_eq!(finish(running).unwrap_err().kind(), ErrorKind::Cancelled, "{strategy}");
        }
        assert_eq!(service.memory().taken(), 0, "{strategy}");
    });
}

#[test]
fn a_time_limit_ends_a_query_whose_reader_takes_nothing() {
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let limits = CallLimits { time: Some(Duration::from_millis(250)), ..CallLimits::default() };
        let (running, mut reader) = begin(&service, SessionOptions { limits, ..shared() }, ENDLESS, Format::Csv);
        // No reader takes anything until it is over.
        assert_eq!(finish(running).unwrap_err().kind(), ErrorKind::TimeLimit, "{strategy}");
        let last = loop {
            match block_on(poll_fn(|context| reader.poll_piece(context))) {
                Some(Ok(_)) => {}
                last => break last,
            }
        };
        assert!(matches!(last, Some(Err(_))), "{strategy}: what is cut says so");
    });
}

#[test]
fn only_the_first_rows_are_handed_out_where_no_more_are_wanted() {
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        for first in [0, 1, 499, 500, 501, 2999] {
            for text in [ENDLESS, MODEST, "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }"] {
                let format = if text.starts_with('C') { Format::NTriples } else { Format::Tsv };
                let session = service.session(&dataset(), SessionOptions { first_rows: Some(first), ..shared() });
                let (out, outcome) = session.write(text, format, Vec::new()).unwrap();
                let rows = if text == MODEST { first.min(500) } else { first };
                let lines = out.iter().filter(|&&byte| byte == b'\n').count() as u64;
                let head = u64::from(format == Format::Tsv);
                assert_eq!((outcome.rows, lines), (rows, rows + head), "{strategy}: {first} of {text}");
            }
        }
        // More than may be is an error, not a short answer.
        let limits = CallLimits { rows: Some(499), ..CallLimits::default() };
        let session = service.session(&dataset(), SessionOptions { limits, ..shared() });
        assert_eq!(session.count(MODEST).unwrap_err().kind(), ErrorKind::RowLimit, "{strategy}");
        let limits = CallLimits { rows: Some(500), ..CallLimits::default() };
        let session = service.session(&dataset(), SessionOptions { limits, ..shared() });
        assert_eq!(session.count(MODEST).unwrap(), 500, "{strategy}");
    });
}

/// The speed of a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reading {
    Fast,
    Slow,
    /// It comes when the boxes have written to their limit.
    Late,
}

/// The rows of a text as other parsers read them, each as often as it is there, sorted.
fn rows_of(format: Format, text: &[u8]) -> Vec<String> {
    use arrow_array::Array;
    use sparesults::{QueryResultsFormat, QueryResultsParser, SliceQueryResultsParserOutput};
    let solutions = |format| {
        let parser = QueryResultsParser::from_format(format).for_slice(text).expect("a head");
        let SliceQueryResultsParserOutput::Solutions(solutions) = parser else { panic!("it is a table") };
        let row = |row: sparesults::QuerySolution| {
            let cells: Vec<_> = row.iter().map(|(_, term)| term.to_string()).collect();
            cells.join(" ")
        };
        solutions.map(|solution| row(solution.expect("a row"))).collect()
    };
    let mut rows: Vec<String> = match format {
        Format::Arrow => {
            let batches = arrow_ipc::reader::StreamReader::try_new(text, None).expect("a schema");
            batches
                .flat_map(|batch| {
                    let batch = batch.expect("a batch");
                    let cell = |column: &Arc<dyn Array>, row: usize| {
                        use arrow_array::cast::AsArray;
                        let Some(terms) = column.as_dictionary_opt::<arrow_array::types::Int32Type>() else {
                            return column.as_primitive::<arrow_array::types::Int64Type>().value(row).to_string();
                        };
                        terms.values().as_string::<i32>().value(terms.key(row).expect("it is bound")).to_owned()
                    };
                    let row = |row| batch.columns().iter().map(|each| cell(each, row)).collect::<Vec<_>>().join(" ");
                    (0..batch.num_rows()).map(row).collect::<Vec<_>>()
                })
                .collect()
        }
        Format::Json => solutions(QueryResultsFormat::Json),
        Format::Xml => solutions(QueryResultsFormat::Xml),
        Format::Tsv => {
            let lines = str::from_utf8(text).expect("it is UTF-8").lines().skip(1);
            lines.map(|line| line.replace('\t', " ")).collect()
        }
        // Its terms have no kind.
        Format::Csv => {
            let lines = str::from_utf8(text).expect("it is UTF-8").lines().skip(1);
            let row = |line: &str| line.split_once(',').map(|(iri, text)| format!("<{iri}> \"{text}\""));
            lines.map(|line| row(line).expect("two cells")).collect()
        }
        format => graphs::parsed(format, text)
            .into_iter()
            .map(|triple| format!("{} {}", triple.subject, triple.object))
            .collect(),
    };
    rows.sort_unstable();
    rows
}

/// The text and the rows that a reader takes of a stream of a few kilobytes.
fn taken(running: Answering, mut reader: StreamReader, reading: Reading) -> (Vec<u8>, u64) {
    if reading == Reading::Late {
        std::thread::sleep(Duration::from_millis(20));
    }
    let ending = std::thread::spawn(move || finish(running).expect("it is answered"));
    let (mut streamed, mut pieces) = (Vec::new(), 0);
    while let Some(piece) = next(&mut reader) {
        streamed.extend(piece);
        pieces += 1;
        match reading {
            Reading::Slow => std::thread::sleep(Duration::from_micros(500)),
            Reading::Late if pieces % 16 == 0 => std::thread::sleep(Duration::from_millis(5)),
            _ => {}
        }
    }
    (streamed, ending.join().expect("no panic"))
}

/// Begins with a stream small enough to pause boxes after each write.
fn begin_small(
    call: vicus_service::Call,
    prepared: &Arc<vicus_service::Prepared>,
    format: Format,
) -> (Answering, StreamReader) {
    let (writer, reader) = text_stream(4 << 10);
    let pace = Arc::new(writer.clone());
    (call.begin(prepared, TextSink::paced(format, writer, pace)).expect("it begins"), reader)
}

/// What happened: of 50,007 rows as Arrow, 52,055 to 62,357 came. A box that had paused behind a batch wrote the batch
/// once more.
#[test]
fn each_row_comes_once_in_every_format_at_every_speed() {
    const SUBJECT: &str = "<http://e/a-rather-long-name-of-a-subject/";
    let table = [Format::Json, Format::Xml, Format::Csv, Format::Tsv, Format::Arrow];
    let most = if cfg!(debug_assertions) { 5007 } else { 20_007 };
    let of_las = [0, 1, 2048, most].map(|count| ("las", count));
    let others = vicus::STRATEGIES.iter().map(|strategy| strategy.name()).filter(|name| *name != "las");
    for (strategy, count) in of_las.into_iter().chain(others.map(|name| (name, 3007))) {
        let text: String = (0..count).map(|n| format!("{SUBJECT}{n}> <http://e/p> \"{n}\" .\n")).collect();
        let data = Dataset::new(Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples")));
        let mut expected: Vec<String> = (0..count).map(|n| format!("{SUBJECT}{n}> \"{n}\"")).collect();
        expected.sort_unstable();
        for options in [SessionOptions::default(), shared()] {
            let service = service(strategy, 1 << 30);
            let select = table.map(|format| ("SELECT ?s ?o { ?s ?p ?o }", format));
            let construct = graphs::RDF.map(|format| ("CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }", format));
            let arrow = [("CONSTRUCT { ?s <http://e/p> ?o } { ?s ?p ?o }", Format::Arrow)];
            for (text, format) in select.into_iter().chain(construct).chain(arrow) {
                for reading in [Reading::Fast, Reading::Slow, Reading::Late] {
                    let session = service.session(&data, options.clone());
                    let mut call = session.call().expect("there is memory");
                    let prepared = call.prepare(text).expect("a query");
                    let (running, reader) = begin_small(call, &prepared, format);
                    let (streamed, rows) = taken(running, reader, reading);
                    assert_eq!(rows, count, "{strategy}: {text} as {format:?}, {reading:?}");
                    let mut streamed = rows_of(format, &streamed);
                    if text.starts_with('C') && format == Format::Arrow {
                        let short = |row: String| row.replace("<http://e/p> ", "");
                        streamed = streamed.into_iter().map(short).collect();
                    }
                    assert_eq!(streamed.len(), expected.len(), "{strategy}: {text} as {format:?}, {reading:?}");
                    assert!(streamed == expected, "{strategy}: {text} as {format:?}, {reading:?}");
                }
            }
        }
    }
}

/// A hundred thousand rows in every format, and a million in those that other parsers read fast. The rows are numbered,
/// so a list of the numbers that came tells all.
#[test]
fn each_of_a_million_rows_comes_once() {
    let dataset = |side: usize| {
        let text: String = (0..side).map(|n| format!("<http://e/s> <http://e/p> {n} .\n")).collect();
        Dataset::new(Arc::new(Snapshot::of_turtle(text.as_bytes(), None).expect("good Turtle")))
    };
    let service = service("las", 1 << 30);
    let table = [Format::Json, Format::Xml, Format::Csv, Format::Tsv, Format::Arrow].map(|format| (true, format));
    let graph = graphs::RDF.into_iter().chain([Format::Arrow]).map(|format| (false, format));
    for (is_table, format) in table.into_iter().chain(graph) {
        let side = match format {
            _ if cfg!(debug_assertions) => 100,
            Format::Arrow | Format::Tsv | Format::Json | Format::NTriples => 1000,
            _ => 320,
        };
        let pattern = format!("{{ ?s <http://e/p> ?a . ?s <http://e/p> ?b BIND (?a * {side} + ?b AS ?n) }}");
        let text = match is_table {
            true => format!("SELECT ?s ?n {pattern}"),
            false => format!("CONSTRUCT {{ ?s <http://e/p> ?n }} WHERE {pattern}"),
        };
        let session = service.session(&dataset(side), shared());
        let mut call = session.call().expect("there is memory");
        let prepared = call.prepare(&text).expect("a query");
        let (running, reader) = begin_small(call, &prepared, format);
        let (streamed, rows) = taken(running, reader, Reading::Fast);
        assert_eq!(rows as usize, side * side, "{text} as {format:?}");
        let mut came = vec![0u8; side * side];
        for row in rows_of(format, &streamed) {
            let number = row.rsplit_once("\"^^").map_or(&row[..], |(before, _)| before);
            let number = number.trim_end_matches('"').rsplit(['"', ' ']).next().expect("there is a last part");
            came[number.parse::<usize>().unwrap_or_else(|_| panic!("{format:?}: {row}"))] += 1;
        }
        assert!(came.iter().all(|times| *times == 1), "{text} as {format:?}");
    }
}

/// The case of many rows of plain columns: a million of SQL came as 1.07 million.
#[test]
fn each_row_of_sql_comes_once_as_arrow() {
    let count: u64 = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };
    let side = count / 1000;
    let text: String = (0..1000.max(side)).map(|n| format!("<http://e/s{n}> <http://e/p> {n} .\n")).collect();
    let data = Dataset::new(Arc::new(Snapshot::of_turtle(text.as_bytes(), None).expect("good Turtle")));
    let service = service("las", 1 << 30);
    let text = format!(
        "SELECT a.object * 1000 + b.object AS n FROM \"http://e/p\" a, \"http://e/p\" b WHERE a.object < {side} AND \
            b.object < 1000"
    );
    for reading in [Reading::Fast, Reading::Late] {
        let session = service.session(&data, SessionOptions { language: of_sql().language, ..shared() });
        let mut call = session.call().expect("there is memory");
        let prepared = call.prepare(&text).expect("a statement");
        let (running, reader) = begin_small(call, &prepared, Format::Arrow);
        let (streamed, rows) = taken(running, reader, reading);
        let mut seen: Vec<u64> =
            rows_of(Format::Arrow, &streamed).iter().map(|n| n.parse().expect("a number")).collect();
        seen.sort_unstable();
        assert_eq!((rows, seen.len() as u64), (count, count), "{reading:?}");
        assert!(seen.into_iter().eq(0..count), "{reading:?}");
    }
}

/// Arrow's own reader finds in a stream the rows of N-Triples, in any order of the writing boxes.
#[test]
fn an_arrow_stream_has_the_same_rows() {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    let read = |bytes: &[u8]| {
        let mut rows: Vec<Vec<Option<String>>> = Vec::new();
        for batch in arrow_ipc::reader::StreamReader::try_new(bytes, None).unwrap() {
            let batch = batch.unwrap();
            let columns: Vec<_> =
                batch.columns().iter().map(|column| column.as_dictionary::<Int32Type>().clone()).collect();
            for row in 0..batch.num_rows() {
                let cell = |column: &arrow_array::DictionaryArray<Int32Type>| {
                    column.key(row).map(|key| column.values().as_string::<i32>().value(key).to_owned())
                };
                rows.push(columns.iter().map(cell).collect());
            }
        }
        rows.sort();
        rows
    };
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let session = service.session(&dataset(), shared());
        let text = "SELECT ?s ?o ?none { ?s ?p ?o }";
        let (arrow, _) = session.write(text, Format::Arrow, Vec::new()).unwrap();
        let (tsv, _) = session.write(text, Format::Tsv, Vec::new()).unwrap();
        let cell = |cell: &str| (!cell.is_empty()).then(|| cell.to_owned());
        let lines = str::from_utf8(&tsv).unwrap().lines().skip(1);
        let mut expected: Vec<Vec<Option<String>>> = lines.map(|line| line.split('\t').map(cell).collect()).collect();
        expected.sort();
        assert!(read(&arrow) == expected && expected.len() == 3000, "{strategy}");
        // No rows, and no columns.
        let (none, _) = session.write("SELECT ?x { ?x <http://e/none> 1 }", Format::Arrow, Vec::new()).unwrap();
        assert!(read(&none).is_empty(), "{strategy}");
        let (triples, _) = session.write("CONSTRUCT { ?s ?p 1 } { ?s ?p ?o }", Format::Arrow, Vec::new()).unwrap();
        assert_eq!(read(&triples).len(), 500, "{strategy}");
        let (truth, _) = session.write("ASK { ?s ?p ?o }", Format::Arrow, Vec::new()).unwrap();
        let batch = arrow_ipc::reader::StreamReader::try_new(&*truth, None).unwrap().next().unwrap().unwrap();
        assert!(batch.column(0).as_boolean().value(0), "{strategy}");
    });
}
