//! Loading in parts through temporary files: the same store, byte for byte, and an error for any failure of the files.

use crate::flow::{BASE, in_sequence, load, piped};
use crate::{check, random};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_files::{
    Directory, Failure, FakeDirectory, FakeDisk, File, FileError, Lock, LockError, Mapping, OpenMode, Scratch,
};
use vicus_flow::BoxError;
use vicus_rdf::load::{LoadOptions, LoadSource, LoadSpill, Syntax};
use vicus_rdf::sections::Sections;
use vicus_rdf::{OnError, Snapshot};

#[derive(Default)]
struct InMemory(BTreeMap<String, Vec<u8>>, String);

impl Sections for InMemory {
    fn begin(&mut self, name: &str) -> Result<(), BoxError> {
        name.clone_into(&mut self.1);
        self.0.insert(name.to_owned(), Vec::new());
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BoxError> {
        self.0.get_mut(&self.1).expect("it was begun").extend_from_slice(bytes);
        Ok(())
    }
}

/// All sections as they would be written.
fn sections(snapshot: &Snapshot) -> BTreeMap<String, Vec<u8>> {
    let mut into = InMemory::default();
    snapshot.write(&mut into).unwrap();
    into.0
}

fn options(disk: &FakeDisk, memory: u64) -> LoadOptions {
    let scratch = Scratch::new(Arc::new(disk.process(1)));
    LoadOptions { spill: Some(LoadSpill { memory, scratch }), ..LoadOptions::default() }
}

#[test]
fn what_is_loaded_in_parts_is_what_is_loaded_at_once() {
    let syntax = prop_oneof![
        2 => Just(Syntax::NTriples), 3 => Just(Syntax::NQuads), 2 => Just(Syntax::Turtle), 2 => Just(Syntax::TriG),
        1 => Just(Syntax::RdfXml), 1 => Just(Syntax::JsonLd)
    ];
    let sources = proptest::collection::vec((syntax, random::quads()), 0..5);
    let numbers =
        (1..5_usize, 1..1000_usize, prop_oneof![Just(0_u64), Just(300), Just(3000), Just(100_000)], any::<u64>());
    check(300, (sources, numbers), |(sources, (workers, chunk_bytes, memory, seed))| {
        let texts: Vec<(Syntax, Vec<u8>)> =
            sources.iter().map(|(syntax, quads)| (*syntax, random::document_in(*syntax, quads))).collect();
        let whole = in_sequence(&texts, OnError::Fail).finish();
        let disk = FakeDisk::new(seed);
        let options = LoadOptions { workers, chunk_bytes, ..options(&disk, memory) };
        let loaded =
            load(piped(&texts, usize::MAX), options, seed).map_err(|error| TestCaseError::fail(error.to_string()))?;
        loaded.snapshot.assert_valid();
        prop_assert_eq!(sections(&loaded.snapshot), sections(&whole));
        prop_assert!(disk.names().is_empty(), "no file has a name");
        Ok(())
    });
}

/// Enough quads, with terms of all kinds, to give columns several pages, and to make the parts share terms and quads.
fn text(quads: u32) -> String {
    let quad = |n: u32| {
        let graph = if n.is_multiple_of(4) { format!("<http://e/g{}>", n % 3) } else { String::new() };
        let object = match n % 5 {
            0 => format!("_:b{}", n % 977),
            1 => format!("\"été {}\"@fr", n % 4001),
            2 => format!("\"{}\"^^<http://www.w3.org/2001/XMLSchema#integer>", n % 3001),
            3 => format!("\"{n}.5\"^^<http://e/type{}>", n % 4),
            _ => format!("<http://example.org/a/long/name/{}>", n % 10_007),
        };
        format!("<http://e/{}> <http://e/p{}> {object} {graph} .\n", n % 20_011 * 7, n % 11)
    };
    (0..quads).chain((0..quads).step_by(3)).map(quad).collect()
}

#[test]
fn columns_of_many_pages_are_the_same_in_temporary_files() {
    let texts = [(Syntax::NQuads, text(60_000).into_bytes())];
    let whole = in_sequence(&texts, OnError::Fail).finish();
    let (in_memory, whole) = (whole.heap_bytes(), sections(&whole));
    for memory in [0, 3 << 20] {
        let disk = FakeDisk::new(memory);
        let options = LoadOptions { workers: 3, chunk_bytes: 1 << 16, ..options(&disk, memory) };
        let scratch = Arc::clone(&options.spill.as_ref().unwrap().scratch);
        let loaded = load(piped(&texts, usize::MAX), options, memory + 1).unwrap();
        assert!(scratch.written() > 5 << 20, "{} bytes were spilled", scratch.written());
        let left = loaded.snapshot.heap_bytes();
        assert!(left < in_memory - (800 << 10), "what is large is in files: {left} of {in_memory} bytes are in memory");
        assert!(sections(&loaded.snapshot) == whole);
    }
}

/// What happened: the rest of an uncut source was counted as held for ever, but no single source had enough to be
/// spilled. So 3000 Turtle files took 25 times the memory allowed.
#[test]
fn many_small_files_that_cannot_be_cut_are_spilled_by_size() {
    let turtle =
        |n: u32| format!("_:a <http://e/p> _:b , [] .\n<http://e/{n}> <http://e/p> _:b , <http://e/{}> .", n % 7);
    let xml = "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:e='http://e/'>\
        <rdf:Description rdf:nodeID='a'><e:p rdf:nodeID='b'/></rdf:Description></rdf:RDF>";
    let json = r#"{ "@id": "_:a", "http://e/p": [ 1, { "@id": "_:b" } ] }"#;
    let text = |n: u32| match n % 5 {
        0 => (Syntax::Turtle, turtle(n)),
        1 => (Syntax::TriG, format!("{}\n<http://e/g> {{ _:a <http://e/p> [] }}", turtle(n))),
        2 => (Syntax::RdfXml, xml.to_owned()),
        3 => (Syntax::JsonLd, json.to_owned()),
        _ => (Syntax::NTriples, "_:a <http://e/p> _:b .\n".to_owned()),
    };
    let texts: Vec<(Syntax, Vec<u8>)> = (0..600).map(text).map(|(syntax, text)| (syntax, text.into_bytes())).collect();
    let whole = sections(&in_sequence(&texts, OnError::Fail).finish());
    for workers in [1, 2, 4] {
        let disk = FakeDisk::new(1);
        let options = LoadOptions { workers, ..options(&disk, 40_000) };
        let scratch = Arc::clone(&options.spill.as_ref().unwrap().scratch);
        let loaded = load(piped(&texts, usize::MAX), options, 1).unwrap();
        assert!(scratch.written() > 40_000, "{} bytes were spilled", scratch.written());
        assert!(disk.operations() < 1500, "{} operations: a segment is no file", disk.operations());
        assert!(sections(&loaded.snapshot) == whole, "{workers} workers");
    }
}

/// A directory that counts its new temporary files.
#[derive(Debug)]
struct Counted(FakeDirectory, AtomicUsize);

impl Directory for Counted {
    fn temporary(&self) -> Result<Arc<dyn File>, FileError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.temporary()
    }
    fn path(&self, name: &str) -> String {
        self.0.path(name)
    }
    fn create(&self, name: &str) -> Result<Arc<dyn File>, FileError> {
        self.0.create(name)
    }
    fn open(&self, name: &str, access: OpenMode) -> Result<Arc<dyn File>, FileError> {
        self.0.open(name, access)
    }
    fn map(&self, name: &str) -> Result<Mapping, FileError> {
        self.0.map(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<(), FileError> {
        self.0.remove(name)
    }
    fn list(&self) -> Result<Vec<String>, FileError> {
        self.0.list()
    }
    fn sync(&self) -> Result<(), FileError> {
        self.0.sync()
    }
    fn lock(&self, name: &str) -> Result<Box<dyn Lock>, LockError> {
        self.0.lock(name)
    }
}

/// What happened: each part had nine files of its own, and loading a gigabyte in small parts failed at the usual limit
/// of 1024 open files.
#[test]
fn however_many_parts_there_are_they_share_a_few_files() {
    let texts = [(Syntax::NQuads, text(3000).into_bytes())];
    let whole = sections(&in_sequence(&texts, OnError::Fail).finish());
    let files = |chunk_bytes: usize| {
        let directory = Arc::new(Counted(FakeDisk::new(1).process(1), AtomicUsize::new(0)));
        let scratch = Scratch::new(Arc::clone(&directory) as Arc<dyn Directory>);
        let spill = Some(LoadSpill { memory: 0, scratch });
        let options = LoadOptions { workers: 2, chunk_bytes, spill, ..LoadOptions::default() };
        assert!(sections(&load(piped(&texts, usize::MAX), options, 1).unwrap().snapshot) == whole);
        directory.1.load(Ordering::Relaxed)
    };
    // Two parts, and about three hundred.
    let few = files(200_000);
    assert_eq!(files(1000), few);
}

#[test]
fn what_fits_touches_no_files() {
    let texts = [(Syntax::NQuads, text(2000).into_bytes())];
    let disk = FakeDisk::new(1);
    load(piped(&texts, usize::MAX), options(&disk, 1 << 30), 1).unwrap();
    assert_eq!(disk.operations(), 0);
}

/// At each operation of the temporary files, for each way to fail: loading fails with the file's error, or ends well;
/// and nothing is left.
#[test]
fn any_failure_of_a_temporary_file_is_told() {
    let texts = [(Syntax::NQuads, text(700).into_bytes())];
    let whole = sections(&in_sequence(&texts, OnError::Fail).finish());
    let attempt = |disk: &FakeDisk| {
        let options = LoadOptions { workers: 2, chunk_bytes: 10_000, ..options(disk, 0) };
        load(piped(&texts, usize::MAX), options, 5)
    };
    let operations = {
        let disk = FakeDisk::new(1);
        attempt(&disk).unwrap();
        disk.operations()
    };
    assert!(operations > 60, "{operations} operations");
    for failure in [Failure::Error, Failure::Errors, Failure::Full] {
        let mut failed = 0;
        for after in 0..operations {
            let disk = FakeDisk::new(after);
            disk.fail_after(after, failure);
            match attempt(&disk) {
                Ok(loaded) => {
                    disk.heal();
                    assert!(sections(&loaded.snapshot) == whole, "{failure:?} after {after}");
                }
                Err(error) => {
                    failed += 1;
                    assert!(error.to_string().contains("a temporary file in fake/"), "{error}");
                }
            }
            disk.heal();
            vicus_files::scratch::sweep(&disk.process(2));
            assert!(disk.names().is_empty());
        }
        assert!(failed > 30, "{failed} of {operations} failed");
    }
}

#[test]
fn errors_in_the_data_are_counted_across_parts() {
    let bad =
        |n: u32| if n % 10 == 3 { "nonsense\n".to_owned() } else { format!("<http://e/{n}> <http://e/p> \"{n}\" .\n") };
    let text: String = (0..1000).map(bad).collect();
    for syntax in [Syntax::NTriples, Syntax::Turtle] {
        let whole = in_sequence(&[(syntax, text.clone().into_bytes())], OnError::Skip);
        let (skipped, whole) = (whole.skipped(), whole.finish());
        let disk = FakeDisk::new(1);
        let options = LoadOptions { on_error: OnError::Skip, chunk_bytes: 500, ..options(&disk, 0) };
        let source = LoadSource::new("data", syntax, std::io::Cursor::new(text.clone())).with_base(BASE);
        let loaded = load(vec![source], options, 3).unwrap();
        assert_eq!((loaded.snapshot.len(), loaded.skipped), (whole.len(), skipped), "{syntax:?}");
        assert_eq!(loaded.first_skipped.unwrap().error.line, 4);
    }
}
