//! Changes of a snapshot when memory is refused. A program of its own, because an allocator is the whole program's.

use oxrdf::{Literal, NamedNode};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use vicus_flow::{NoMemory, tell_of_asking};
use vicus_rdf::{Changes, Id, Snapshot};

/// The system's allocator, which refuses the allocations whose failure the caller survives from one of them on.
struct Refusing;

/// Whether such an allocation is going on; how many of them are given; and whether one was refused.
static ASKING: AtomicBool = AtomicBool::new(false);
static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);
static REFUSED: AtomicBool = AtomicBool::new(false);

#[expect(unsafe_code, reason = "only an allocator can refuse, and its trait is unsafe")]
// SAFETY: GlobalAlloc asks for blocks that fit their layouts and don't overlap, and for no unwinding. System keeps that, every
// call that is not refused is passed on to it unchanged, null is how to refuse, and atomic numbers neither allocate nor unwind.
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

/// Deletes all that the snapshot has of one predicate, and inserts triples with new terms, some of them in a graph.
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

#[test]
fn a_change_without_memory_is_an_error_and_leaves_the_snapshot_as_it_was() {
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
