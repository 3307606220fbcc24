//! Models of commits: every order in which callers hand in, apply, fly and land, on the fake disk and with real
//! snapshots.
//!
//! In every order, each caller is told once and none waits for ever (loom finds a deadlock), acknowledged records are
//! in the log in the order of their numbers, and readers see the log's content.

use super::*;
use crate::mutant::{Mutant, Planted};
use crate::transaction::Batch;
use loom::sync::Condvar;
use oxrdf::{GraphName, Literal, NamedNode, Quad};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use vicus_files::{Failure, FakeDisk};

/// A time is up at once if nothing has happened until then.
#[derive(Debug)]
struct Places {
    places: [(Mutex<()>, Condvar); 4],
    now_ns: AtomicU64,
}

impl Places {
    fn new() -> Arc<Places> {
        let places = [(); 4].map(|()| (Mutex::new(()), Condvar::new()));
        Arc::new(Places { places, now_ns: AtomicU64::new(1) })
    }

    fn of(&self, key: u64) -> &(Mutex<()>, Condvar) {
        &self.places[key as usize % self.places.len()]
    }
}

impl Waiting for Places {
    fn wait(&self, key: u64, ready: &mut dyn FnMut() -> bool) {
        let (mutex, changed) = self.of(key);
        let mut guard = lock(mutex);
        while !ready() {
            guard = changed.wait(guard).unwrap();
        }
    }

    fn wait_at_most(&self, key: u64, ns: u64, ready: &mut dyn FnMut() -> bool) {
        let _guard = lock(&self.of(key).0);
        if !ready() {
            self.now_ns.fetch_add(ns, Ordering::Relaxed);
        }
    }

    fn wake(&self, key: u64) {
        let (mutex, changed) = self.of(key);
        let _guard = lock(mutex);
        changed.notify_all();
    }

    fn now_ns(&self) -> u64 {
        // A sync takes a time, so a next flight waits for others.
        self.now_ns.fetch_add(1, Ordering::Relaxed)
    }
}

/// The action of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// Inserts a quad of its own, and the common one, by a batch.
    Insert,
    /// Inserts a quad of its own, and deletes the common one, by a batch.
    Delete,
    /// Inserts a quad of its own by a transaction.
    Transaction,
}

fn quad(subject: usize) -> Quad {
    let node = |name: String| NamedNode::new_unchecked(format!("http://e/{name}"));
    let object = Literal::new_simple_literal("o");
    Quad::new(node(format!("s{subject}")), node("p".to_owned()), object, GraphName::DefaultGraph)
}

fn quads(snapshot: &Snapshot) -> BTreeSet<String> {
    let index = snapshot.index(vicus_rdf::Order::Gspo);
    (0..index.len()).map(|row| snapshot.term(index.quad(row)[0]).to_string()).collect()
}

const COMMON: usize = 9;

fn commit(store: &Store, caller: usize, what: What) -> Result<u64, CommitError> {
    let number = match what {
        What::Transaction => {
            let mut transaction = store.write()?;
            transaction.insert_quad(quad(caller).as_ref())?;
            transaction.commit()?.number
        }
        _ => {
            let mut batch = Batch::new();
            batch.insert(quad(caller).as_ref());
            match what {
                What::Delete => batch.delete(quad(COMMON).as_ref()),
                _ => batch.insert(quad(COMMON).as_ref()),
            }
            batch.commit(store)?
        }
    };
    let number = number.expect("there are changes");
    assert!(quads(&store.snapshot()).contains(&format!("<http://e/s{caller}>")), "what is acknowledged is seen");
    Ok(number)
}

/// Callers with commits at the same time; an operation of the disk may fail.
fn explore(callers: &'static [What], failure: Option<(u64, Failure)>, mutant: Option<Mutant>) {
    let mut builder = loom::model::Builder::new();
    // A failing disk is explored for several operations.
    builder.preemption_bound = Some(if failure.is_some() { 2 } else { 3 });
    builder.max_branches = 10_000;
    // A model's own thread has little stack.
    builder.check(move || spawn(move || run(callers, failure, mutant)).join().unwrap());
}

fn spawn<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> loom::thread::JoinHandle<T> {
    /// In words.
    const STACK: usize = 1 << 17;
    loom::thread::Builder::new().stack_size(STACK).spawn(function).unwrap()
}

fn run(callers: &'static [What], failure: Option<(u64, Failure)>, mutant: Option<Mutant>) {
    let disk = FakeDisk::new(1);
    let mut store = Store::create(Arc::new(disk.process(1)), 1, Places::new()).unwrap();
    store.planted = Planted::new(mutant);
    lock(&store.state).staging.planted = Planted::new(mutant);
    if let Some((operations, failure)) = failure {
        disk.fail_after(operations, failure);
    }
    let store = Arc::new(store);
    let threads: Vec<_> = (1..callers.len())
        .map(|caller| {
            let store = Arc::clone(&store);
            spawn(move || commit(&store, caller, callers[caller]))
        })
        .collect();
    let mut outcomes = vec![commit(&store, 0, callers[0])];
    outcomes.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
    disk.heal();
    check(&store, &disk, callers, &outcomes);
}

fn check(store: &Store, disk: &FakeDisk, callers: &[What], outcomes: &[Result<u64, CommitError>]) {
    let mut numbers: Vec<(u64, usize)> =
        (0..callers.len()).filter_map(|caller| Some((*outcomes[caller].as_ref().ok()?, caller))).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().map(|(number, _)| *number).eq(1..=numbers.len() as u64), "{numbers:?}");
    // In the order of their numbers.
    let mut expected = BTreeSet::new();
    for (_, caller) in &numbers {
        expected.insert(format!("<http://e/s{caller}>"));
        match callers[*caller] {
            What::Insert => drop(expected.insert(format!("<http://e/s{COMMON}>"))),
            What::Delete => drop(expected.remove(&format!("<http://e/s{COMMON}>"))),
            What::Transaction => {}
        }
    }
    assert_eq!(quads(&store.snapshot()), expected, "readers see what is acknowledged");
    assert!(lock(&store.state).staging.is_empty());
    if outcomes.iter().flat_map(|outcome| outcome.as_ref().err()).any(CommitError::in_doubt) {
        return;
    }
    let found = read(&disk.process(2)).unwrap();
    assert_eq!(quads(&found), expected, "the log has what is acknowledged, in this order");
}

use What::{Delete, Insert, Transaction};

#[test]
fn loom_batches_are_landed_once_in_one_order() {
    explore(&[Insert, Delete, Insert], None, None);
}

#[test]
fn loom_batches_and_a_transaction_are_landed_once_in_one_order() {
    explore(&[Insert, Transaction, Delete], None, None);
    explore(&[Transaction, Transaction], None, None);
}

#[test]
fn loom_a_flight_that_fails_tells_all_of_its_writers() {
    // The first flight makes a segment by five operations, the next ones append to it by two.
    for operations in [0, 2, 4, 5, 6] {
        explore(&[Insert, Delete, Insert], Some((operations, Failure::Error)), None);
        explore(&[Insert, Transaction, Delete], Some((operations, Failure::Error)), None);
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_finds_that_the_next_one_sleeps() {
    explore(&[Insert, Delete, Insert], None, Some(Mutant::NextAsleep));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_finds_that_a_caller_was_told_and_woke_no_other() {
    for operations in 0..6 {
        explore(&[Insert, Delete, Insert], Some((operations, Failure::Error)), Some(Mutant::NoPassing));
    }
}

#[test]
#[should_panic(expected = "what is acknowledged is seen")]
fn loom_finds_that_something_stale_counts_as_ready() {
    explore(&[Insert, Transaction, Delete], None, Some(Mutant::StaleApplied));
}
