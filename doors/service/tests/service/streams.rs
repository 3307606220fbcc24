//! Answers that a reader takes piece by piece: bounded, paced by the reader, and cancelled with it.

use super::*;
use std::future::poll_fn;
use std::time::{Duration, Instant};
use vicus::memory::block_on;
use vicus_service::{
    Cancel, Error, ErrorKind, Format, Limits, Running, StreamReader, StreamWriter, TextSink, text_stream,
};

type Answering = Running<TextSink<StreamWriter>>;

/// What may wait in a stream here.
const MOST: usize = 64 << 10;
/// What a box may write beyond that before it pauses: a piece that is ready, with the row that filled it.
const BEYOND: usize = (256 << 10) + 1024;

fn begin(service: &Service, options: SessionOptions, text: &str, format: Format) -> (Answering, StreamReader) {
    let cancel = Cancel::new();
    let limits = Limits { cancel: cancel.clone(), ..options.limits };
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

/// Nine million rows go through some hundred kilobytes, whatever the reader's speed, and are the rows that any other sink gets.
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
        let is_full = |running: &Answering| {
            let before = running.watch().rows();
            std::thread::sleep(Duration::from_millis(20));
            running.watch().rows() == before
        };
        let until = Instant::now() + Duration::from_secs(60);
        for (running, reader) in &still {
            while !is_full(running) {
                assert!(Instant::now() < until, "{strategy}: it writes on and on");
            }
            assert!(!running.is_done(), "{strategy}");
            let waiting = format!("{reader:?}");
            let bytes: usize = waiting.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap();
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
        let limits = Limits { time: Some(Duration::from_millis(50)), ..Limits::default() };
        let (running, mut reader) = begin(&service, SessionOptions { limits, ..shared() }, ENDLESS, Format::Csv);
        // Nobody takes anything until it is over.
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
        let limits = Limits { rows: Some(499), ..Limits::default() };
        let session = service.session(&dataset(), SessionOptions { limits, ..shared() });
        assert_eq!(session.count(MODEST).unwrap_err().kind(), ErrorKind::RowLimit, "{strategy}");
        let limits = Limits { rows: Some(500), ..Limits::default() };
        let session = service.session(&dataset(), SessionOptions { limits, ..shared() });
        assert_eq!(session.count(MODEST).unwrap(), 500, "{strategy}");
    });
}

/// What Arrow's own reader makes of a stream is what N-Triples has, whichever box wrote first.
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
