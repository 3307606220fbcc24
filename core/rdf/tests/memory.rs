//! The reported memory of a store, compared with the allocator's count. A program of its own, because all of a program
//! shares one allocator.

#[expect(dead_code, reason = "what is held at most is for other tests")]
mod counting;

use counting::live;
use std::fmt::Write;
use vicus_flow::sequential;
use vicus_rdf::load::{Load, LoadOptions, LoadSource, Syntax};
use vicus_rdf::{Order, Snapshot};

/// Few predicates, many subjects, literals inlined and not.
fn document(subjects: usize) -> String {
    let mut text = String::new();
    for subject in 0..subjects {
        writeln!(text, "<http://e/{subject}> <http://e/name> \"number {subject} of {subjects}\" .").unwrap();
        writeln!(text, "<http://e/{subject}> <http://e/next> <http://e/{}> .", subject + 1).unwrap();
        writeln!(
            text,
            "<http://e/{subject}> <http://e/age> \"{}\"^^<http://www.w3.org/2001/XMLSchema#integer> .",
            subject % 90
        )
        .unwrap();
    }
    text
}

/// One test, because allocations of others at the same time would be counted too.
#[test]
fn a_store_holds_what_it_says() {
    let text = document(20_000);
    let in_sequence = |text: &str| Snapshot::of_ntriples(text.as_bytes()).unwrap();
    let as_a_request = |text: &str| {
        let source = LoadSource::new("text", Syntax::NTriples, std::io::Cursor::new(text.as_bytes().to_vec()));
        let load = Load::new(vec![source], LoadOptions { workers: 4, ..LoadOptions::default() });
        sequential::run(load.model(), Vec::new(), |_| 0).unwrap();
        load.finish().unwrap().snapshot
    };
    for load in [&in_sequence as &dyn Fn(&str) -> Snapshot, &as_a_request] {
        let before = live();
        let snapshot = load(&text);
        let memory = snapshot.memory();
        let indexes = memory.indexes.len();
        let held = live() - before;
        // Also allocated: a list of four pairs, and the test thread's own data.
        let difference = held.abs_diff(memory.total());
        assert!(difference < 4096, "{memory:?} is {} bytes, and the allocator counts {held}", memory.total());
        assert_eq!(indexes, Order::USUAL.len());
        assert_eq!(memory.total(), snapshot.heap_bytes());
        drop((snapshot, memory));
        assert!(live() - before < 4096, "all of it is given back");
    }
}
