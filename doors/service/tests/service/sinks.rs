//! The sinks of answers.

use super::*;
use std::io::{self, Write};
use std::sync::Mutex;
use vicus_service::{ArrowForm, Each, Error, ErrorKind, Format, Next, RowStream, TermForm, ValueType, WrongValue};

/// Takes a number of bytes, then fails with this error.
struct Short(usize, io::ErrorKind);

impl Write for Short {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(self.1.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_ends_the_answer_with_its_error() {
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let session = service.session(&dataset(), shared());
        for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::StorageFull] {
            for (text, bytes) in [(ENDLESS, 1 << 20), (MODEST, 10), (MODEST, 0), ("ASK {}", 2)] {
                match session.write(text, Format::Json, Short(bytes, kind)) {
                    Err(Error::Sink(failed)) => assert_eq!(failed.io().map(io::Error::kind), Some(kind), "{strategy}"),
                    other => panic!("{strategy}, {text}: {:?}", other.map(drop)),
                }
            }
        }
        assert_eq!(service.memory().taken(), 0, "{strategy}");
    });
}

#[test]
fn several_boxes_write_one_text() {
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let session = service.session(&dataset(), shared());
        let (tsv, outcome) = session.write("SELECT ?o { ?s ?p ?o }", Format::Tsv, Vec::new()).unwrap();
        let text = String::from_utf8(tsv).unwrap();
        let (head, rows) = text.split_once('\n').unwrap();
        let mut rows: Vec<u64> = rows.lines().map(|row| row.trim_matches('"').parse().unwrap()).collect();
        rows.sort_unstable();
        assert_eq!((head, rows.len() as u64), ("?o", outcome.rows), "{strategy}");
        assert!(rows.iter().copied().eq(0..3000), "{strategy}");
    });
}

#[test]
fn batches_come_to_a_function_one_after_the_other() {
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let session = service.session(&dataset(), shared());
        let (seen, enters) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(())));
        let into = Arc::clone(&seen);
        let each = Each::new(move |batch| {
            let _alone = enters.try_lock().expect("one at a time");
            let term = |row| batch.term(row, 0).expect("it is bound").to_string();
            into.lock().unwrap().extend((0..batch.rows()).map(term));
            Ok(())
        });
        let ((), outcome) = session.answer("SELECT ?o ?none { ?s ?p ?o }", each).unwrap();
        let mut seen: Vec<String> = std::mem::take(&mut *seen.lock().unwrap());
        seen.sort();
        let mut expected: Vec<String> = (0..3000).map(|n| format!("\"{n}\"")).collect();
        expected.sort();
        assert!(seen == expected && outcome.rows == 3000, "{strategy}: {} rows", seen.len());
    });
}

#[test]
fn an_error_of_a_function_is_the_answers() {
    let service = service("las", 1 << 30);
    let session = service.session(&dataset(), shared());
    let each = Each::new(|_| Err("enough".into()));
    let error = session.answer(ENDLESS, each).map(drop).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Sink, "enough"));
}

#[test]
fn an_ask_is_yes_or_no_in_every_format() {
    let service = service("las", 1 << 30);
    let session = service.session(&dataset(), SessionOptions::default());
    for (format, yes) in [
        (Format::Table, "yes\n"),
        (Format::Json, "{\"head\":{},\"boolean\":true}\n"),
        (Format::Csv, "true\n"),
        (Format::Tsv, "true\n"),
    ] {
        let (text, outcome) = session.write("ASK { ?s ?p \"7\" }", format, Vec::new()).unwrap();
        assert_eq!((String::from_utf8(text).unwrap().as_str(), outcome.rows), (yes, 1));
    }
}

/// The cells of a stream in a form, each as Arrow's own display has it.
fn cells(text: &str, form: &ArrowForm) -> Result<Vec<Vec<String>>, Error> {
    let data = r#"<http://e/a> <http://e/n> 7, "x"@en, "2026-01-02"^^<http://www.w3.org/2001/XMLSchema#date>, "INF"^^
        <http://www.w3.org/2001/XMLSchema#double>, _:b, true ."#;
    let snapshot = Snapshot::of_turtle(data.as_bytes(), None).expect("good Turtle");
    let service = service("las", 1 << 30);
    let session = service.session(&Dataset::new(Arc::new(snapshot)), SessionOptions::default());
    let mut call = session.call()?;
    let prepared = call.prepare(text)?;
    let mut stream = RowStream::begin(call, &prepared)?;
    let mut all = Vec::new();
    loop {
        let rows = match stream.next(None)? {
            Next::Rows(rows) => stream.to_arrow(rows, form)?,
            Next::Late | Next::End => return Ok(all),
        };
        for row in 0..rows.num_rows() {
            let cell = |column: &arrow_array::ArrayRef| format!("{:?}", column.slice(row, 1));
            all.push(rows.columns().iter().map(cell).collect());
        }
    }
}

#[test]
fn terms_become_columns_in_the_forms_of_frames() {
    let with = |terms, types: &[(&str, ValueType)]| ArrowForm {
        terms,
        types: types.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect(),
    };
    let text = "SELECT ?o { ?s ?p ?o } ORDER BY DATATYPE(?o) STR(?o)";
    let lexical = cells(text, &with(TermForm::Lexical, &[])).expect("texts");
    let all = format!("{lexical:?}");
    for wanted in ["7", "x", "2026-01-02", "INF", "true", "_:"] {
        assert!(all.contains(wanted), "{wanted}: {all}");
    }
    let full = format!("{:?}", cells(text, &with(TermForm::Full, &[])).expect("structures"));
    for wanted in ["blank", "literal", "XMLSchema#date", "langString", "en"] {
        assert!(full.contains(wanted), "{wanted}: {full}");
    }
    for (value, kind, wanted) in [
        ("7", ValueType::Integer, "7"),
        ("7", ValueType::Double, "7.0"),
        ("'INF'^^<http://www.w3.org/2001/XMLSchema#double>", ValueType::Double, "inf"),
        ("true", ValueType::Boolean, "true"),
        ("'2026-01-02'", ValueType::Date, "2026-01-02"),
        ("'1970-01-01T00:00:01'", ValueType::Timestamp, "1970-01-01T00:00:01"),
        ("<http://e/x>", ValueType::Text, "http://e/x"),
    ] {
        let row =
            cells(&format!("SELECT ({value} AS ?v) {{}}"), &with(TermForm::Lexical, &[("v", kind)])).expect(value);
        assert!(row[0][0].contains(wanted), "{value}: {row:?}");
    }
    for (value, kind) in [
        ("<http://e/7>", ValueType::Integer),
        ("'7.5'", ValueType::Integer),
        ("'infinity'", ValueType::Double),
        ("2", ValueType::Boolean),
        ("'2026-02-30'", ValueType::Date),
        ("'noon'", ValueType::Timestamp),
        ("99999999999999999999", ValueType::Integer),
    ] {
        let text = format!("SELECT ?v {{ VALUES ?v {{ UNDEF {value} }} }}");
        let error = cells(&text, &with(TermForm::Lexical, &[("v", kind)])).expect_err(value);
        let Error::Failed { error, .. } = error else { panic!("{value}: {error}") };
        let wrong = error.downcast_ref::<WrongValue>().expect("a wrong value");
        assert_eq!((wrong.row, wrong.column.as_str()), (1, "v"), "{wrong}");
    }
}

#[test]
fn a_reader_may_say_late_what_it_wants() {
    let service = service("las", 1 << 30);
    let session = service.session(&dataset(), SessionOptions::default());
    let mut call = session.call().expect("there is memory");
    let prepared = call.prepare("SELECT ?a ?c { ?a ?b ?c }").expect("a query");
    let mut stream = RowStream::begin(call, &prepared).expect("it begins");
    let form = ArrowForm { terms: TermForm::Lexical, ..ArrowForm::default() };
    let Next::Rows(first) = stream.next(None).expect("rows") else { panic!("there are rows") };
    let before = first.batch().rows();
    let mut seen = stream.to_arrow(first, &form).expect("texts").num_rows();
    assert_eq!(seen, before);
    while let Next::Rows(rows) = stream.next(None).expect("rows") {
        assert_eq!(rows.first(), seen as u64);
        seen += stream.to_arrow(rows, &form).expect("texts").num_rows();
    }
    assert_eq!((seen, stream.outcome().map(|outcome| outcome.rows)), (3000, Some(3000)));
    // Nobody reads this one; its drop ends it.
    let mut call = session.call().expect("there is memory");
    let endless = call.prepare(ENDLESS).expect("a query");
    let mut stream = RowStream::begin(call, &endless).expect("it begins");
    assert!(matches!(stream.next(None), Ok(Next::Rows(_))));
    drop(stream);
    assert_eq!(session.count("SELECT * { ?a ?b '7' }").expect("it is answered"), 1);
}
