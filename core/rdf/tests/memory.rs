//! The memory that a store reports, compared with what the allocator gave out. A program of its own, because all of a program
//! shares one allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_flow::sequential;
use vicus_rdf::load::{Load, LoadOptions, Source, Syntax};
use vicus_rdf::{Order, Snapshot};

/// The system's allocator, with a count of the bytes that are allocated and not yet freed.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "only an allocator knows what is allocated, and its trait is unsafe")]
// SAFETY: GlobalAlloc asks for blocks that fit their layouts and don't overlap, and for no unwinding. System keeps that,
// every call is passed on to it unchanged, and adding to an atomic number neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps GlobalAlloc::alloc's conditions, which are System's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the block came from `alloc` above with this layout, that is, from System.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
        let source = Source::new("text", Syntax::NTriples, std::io::Cursor::new(text.as_bytes().to_vec()));
        let load = Load::new(vec![source], LoadOptions { workers: 4, ..LoadOptions::default() });
        sequential::run(load.model(), Vec::new(), |_| 0).unwrap();
        load.finish().unwrap().snapshot
    };
    for load in [&in_sequence as &dyn Fn(&str) -> Snapshot, &as_a_request] {
        let before = LIVE.load(Ordering::Relaxed);
        let snapshot = load(&text);
        let memory = snapshot.memory();
        let indexes = memory.indexes.len();
        let held = LIVE.load(Ordering::Relaxed) - before;
        // Also allocated: a list of four pairs, and the test thread's own data.
        let difference = held.abs_diff(memory.total());
        assert!(difference < 4096, "{memory:?} is {} bytes, and the allocator counts {held}", memory.total());
        assert_eq!(indexes, Order::USUAL.len());
        assert_eq!(memory.total(), snapshot.heap_bytes());
        drop((snapshot, memory));
        assert!(LIVE.load(Ordering::Relaxed) - before < 4096, "all of it is given back");
    }
}
