//! What parsing and planning a text takes, as the allocator counts it, against what is booked for it. A
//! program of its own, because an allocator is the whole program's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_rdf::Store;
use vicus_sparql::{Options, parse, parsing_bytes, plan};

/// The system's allocator, which counts the bytes that were asked for and not yet given back, and how many they were at most.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "only an allocator knows what is allocated, and its trait is unsafe")]
// SAFETY: GlobalAlloc asks for blocks that fit their layouts and don't overlap, and for no unwinding. System keeps that,
// every call is passed on to it unchanged, and adding to an atomic number neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(live, Ordering::Relaxed);
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

/// Texts that are long in all the ways in which texts can be.
fn texts(count: usize) -> Vec<(&'static str, String)> {
    let each = |make: &dyn Fn(usize) -> String| (0..count).map(make).collect::<String>();
    let few = |make: &dyn Fn(usize) -> String| (0..count / 20).map(make).collect::<String>();
    vec![
        ("numbers in VALUES", format!("SELECT * {{ VALUES ?x {{ {} }} }}", each(&|_| "1 ".to_owned()))),
        ("strings in VALUES", format!("SELECT * {{ VALUES ?x {{ {} }} }}", each(&|n| format!("'{n}'")))),
        ("IRIs in VALUES", format!("SELECT * {{ VALUES ?x {{ {} }} }}", each(&|n| format!("<a:{n}>")))),
        (
            "names with a long prefix",
            format!("PREFIX p:<a:{}> SELECT * {{ VALUES ?x {{ {} }} }}", "x".repeat(150), each(&|n| format!("p:{n} "))),
        ),
        ("rows of VALUES", format!("SELECT * {{ VALUES (?x ?y) {{ {} }} }}", each(&|_| "(1 2)".to_owned()))),
        ("IN", format!("SELECT * {{ ?s ?p ?o FILTER (?o IN (1{})) }}", each(&|_| ",1".to_owned()))),
        ("CONCAT", format!("SELECT (CONCAT(''{}) AS ?x) {{ }}", each(&|_| ",''".to_owned()))),
        ("sums", format!("SELECT (1{} AS ?x) {{ }}", few(&|_| "+1".to_owned()))),
        ("projected", format!("SELECT {} {{ }}", each(&|n| format!("?{n} ")))),
        ("objects", format!("SELECT * {{ ?s ?p 1{} }}", few(&|_| ",1".to_owned()))),
        ("triples", format!("SELECT * {{ {} }}", few(&|n| format!("?x ?y{n} ?z{n}.")))),
        ("paths of many objects", format!("SELECT * {{ ?s <a:>|<b:>|<c:> 1{} }}", few(&|_| ",1".to_owned()))),
        ("paths", format!("SELECT * {{ ?s <a:>{} ?o }}", few(&|_| "|<a:>".to_owned()))),
        ("sequences", format!("SELECT * {{ ?s <a:>{} ?o }}", few(&|_| "/<a:>".to_owned()))),
        ("UNION", format!("SELECT * {{ {{}}{} }}", few(&|_| "UNION{}".to_owned()))),
        ("OPTIONAL", format!("SELECT * {{ {} }}", few(&|_| "OPTIONAL{?s ?p ?o}".to_owned()))),
        ("FILTER", format!("SELECT * {{ ?x ?y ?z {} }}", few(&|_| "FILTER(?x)".to_owned()))),
        ("BIND", format!("SELECT * {{ {} }}", few(&|n| format!("BIND(1 AS ?{n})")))),
        ("a string", format!("SELECT ('{}' AS ?x) {{ }}", "x".repeat(count))),
        ("white space", format!("SELECT * {{ {} }}", " ".repeat(count))),
    ]
}

/// Nothing of a text's parse or plan was booked, however large it was.
#[test]
fn parsing_and_planning_take_no_more_than_is_booked() {
    let store = Arc::new(Store::of_ntriples(b"<a:s> <a:p> <a:o> .").unwrap());
    for (name, text) in texts(4000) {
        let before = LIVE.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let parsed = parse(&text);
        let most = (MOST.load(Ordering::Relaxed) - before) as u64;
        let booked = parsing_bytes(&text);
        assert!(most <= booked, "{name}: {} bytes of text take {most} to parse", text.len());
        // A limit of the parser may stand before some of them.
        let Ok(parsed) = parsed else { continue };
        let plan = plan(&store, &parsed, &Options { threads: 4, sinks: 4, ..Options::default() }).unwrap();
        drop(parsed);
        let held = (LIVE.load(Ordering::Relaxed) - before) as u64;
        assert!(
            held <= booked + plan.bytes(),
            "{name}: {held} bytes, {} of them for the plan are booked",
            plan.bytes()
        );
    }
}
