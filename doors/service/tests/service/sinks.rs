//! The sinks of answers.

use super::*;
use std::io::{self, Write};
use std::sync::Mutex;
use vicus_service::{Each, Error, ErrorKind, Format};

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
