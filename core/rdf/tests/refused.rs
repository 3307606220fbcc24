//! Changes and dictionaries of a snapshot when memory is refused. A program of its own, because an allocator is the
//! whole program's.

use oxrdf::{Literal, NamedNode};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use vicus_flow::{NoMemory, or_given_up, tell_of_asking};
use vicus_rdf::{Backing, Changes, Id, Snapshot, TermKind};

/// The system's allocator. From a given allocation on, it refuses those with a caller able to survive their failure.
struct Refusing;

/// Whether such an allocation is going on; how many of them are given; and whether one was refused.
static ASKING: AtomicBool = AtomicBool::new(false);
static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);
static REFUSED: AtomicBool = AtomicBool::new(false);

#[expect(unsafe_code, reason = "only an allocator can refuse, and its trait is unsafe")]
// SAFETY: GlobalAlloc asks for blocks that fit their layouts and don't overlap, and for no unwinding. System keeps
// that, every call that is not refused is passed on to it unchanged, null is how to refuse, and atomic numbers neither
// allocate nor unwind.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let is_given = || LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if ASKING.load(Ordering::Relaxed) && !is_given() {
            REFUSED.store(true, Ordering::Relaxed);
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps GlobalAlloc::alloc's conditions, which are System's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `alloc` above with this layout, that is, from System.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Deletes all data of one predicate, and inserts triples with new terms, some of them in a graph.
fn change(snapshot: &Snapshot) -> Result<Snapshot, NoMemory> {
    let mut changes = Changes::of(snapshot);
    let iri = |name: &str, number: usize| NamedNode::new_unchecked(format!("http://e/{name}{number}"));
    for number in 0..400 {
        let subject = changes.id(snapshot, iri("s", number).as_ref().into())?;
        let [p, q] = [0, 1].map(|predicate| changes.id(snapshot, iri("p", predicate).as_ref().into()));
        let [old, new] = ["old", "new"].map(|text| {
            let literal = Literal::new_typed_literal(format!("{text} {number}"), iri("type", number % 3));
            changes.id(snapshot, literal.as_ref().into())
        });
        let graph = if number % 3 == 0 { changes.id(snapshot, iri("g", 0).as_ref().into())? } else { Id::UNBOUND };
        changes.deletes.push([subject, p?, old?, Id::UNBOUND]);
        changes.inserts.push([subject, q?, new?, graph]);
    }
    snapshot.with(changes)
}

/// Held by the running test: allocations of others would be counted, too.
static RUNNING: Mutex<()> = Mutex::new(());

/// Calls a function with no allocation given, then one, and so on, until none is refused; returns the number given, and
/// the result.
fn until_given<T>(make: impl Fn() -> Result<T, String>) -> (usize, T) {
    for given in 0.. {
        LEFT.store(given, Ordering::Relaxed);
        let made = make();
        LEFT.store(usize::MAX, Ordering::Relaxed);
        assert_eq!(made.is_err(), REFUSED.swap(false, Ordering::Relaxed), "after {given} allocations");
        match made {
            Ok(made) => return (given, made),
            Err(error) => assert!(error.contains("memory"), "{error}"),
        }
    }
    unreachable!("numbers don't end")
}

#[test]
fn a_dictionary_that_finds_no_memory_while_it_is_made_or_read_is_an_error() {
    let _alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    tell_of_asking(|asking| ASKING.store(asking, Ordering::Relaxed));
    let line = |number: usize| {
        let long = "very long ".repeat(if number == 150 { 1000 } else { 2 });
        format!("<http://e/a/name/{number}> <http://e/p> \"a {long} text of number {number}\"@en .\n")
    };
    let [a, b] = [0..200, 100..300]
        .map(|numbers| Snapshot::of_ntriples(numbers.map(line).collect::<String>().as_bytes()).unwrap());
    let unite = || or_given_up(|| Snapshot::united(&[&a, &b], &Backing::Memory, &mut || {}));
    let (given, united) =
        until_given(|| unite().map_err(|error| error.to_string())?.map_err(|error| error.to_string()));
    println!("{given} allocations can be refused");
    assert!(given > 30);
    assert_eq!((united.len(), united.dictionary().count(TermKind::LangString)), (300, 300));
    united.assert_valid();
    let long = (0..300).map(|rank| Id::ranked(TermKind::LangString, rank));
    let long = long.max_by_key(|&id| united.key(id, str::len)).unwrap();
    let length = united.key(long, str::len);
    assert!(length > 10_000);
    let read = || or_given_up(|| united.key(long, str::len)).map_err(|error| error.to_string());
    assert_eq!(until_given(read), (2, length), "once for what its block begins with, once for the rest");
    let read_in_turn = || {
        let mut keys = united.dictionary().keys(TermKind::LangString);
        or_given_up(|| keys.key(long.rank().unwrap()).len()).map_err(|error| error.to_string())
    };
    assert_eq!(until_given(read_in_turn).1, length);
}

#[test]
fn a_change_without_memory_is_an_error_and_leaves_the_snapshot_as_it_was() {
    let _alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    tell_of_asking(|asking| ASKING.store(asking, Ordering::Relaxed));
    let line = |number: usize| {
        format!("<http://e/s{number}> <http://e/p0> \"old {number}\"^^<http://e/type{}> .\n", number % 3)
    };
    let before = Snapshot::of_ntriples((0..400).map(line).collect::<String>().as_bytes()).unwrap();
    for given in 0.. {
        LEFT.store(given, Ordering::Relaxed);
        let after = change(&before);
        LEFT.store(usize::MAX, Ordering::Relaxed);
        let was_refused = REFUSED.swap(false, Ordering::Relaxed);
        assert_eq!((before.len(), before.change_count(), before.fresh().len()), (400, 0, 0));
        assert_eq!(after.is_err(), was_refused, "after {given} allocations");
        if let Ok(after) = after {
            println!("{given} allocations can be refused");
            assert!(given > 50);
            assert_eq!((after.len(), after.change_count()), (400, 800));
            before.assert_valid();
            return after.assert_valid();
        }
    }
}
