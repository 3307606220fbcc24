//! Transactions in one flight, or behind one that has not landed, staged one by one.

use super::*;
use crate::record::Editor;
use crate::turn::NoWaiting;
use oxrdf::NamedNodeRef;
use vicus_files::{Failure, FakeDisk};
use vicus_rdf::{Encoder, Loader};

/// Those with even numbers are in the base.
const SUBJECTS: usize = 60_000;

/// A subject; its name does not compress, so there are several pages of names.
fn iri(subject: usize) -> String {
    let mixed = |salt: u64| {
        (subject as u64 + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    };
    format!("http://example.org/{subject:06}/{:016x}{:016x}", mixed(0), mixed(1 << 40))
}

/// The record of a batch that inserts a triple of this subject.
fn record(subject: usize) -> Vec<u8> {
    let (mut editor, mut encoder) = (Editor::default(), Encoder::default());
    let iri = iri(subject);
    let mut number = |iri: &str| editor.number(encoder.term(NamedNodeRef::new_unchecked(iri).into()));
    let quad = [number(&iri), number("http://example.org/q"), number("http://example.org/new"), 0];
    editor.set(quad, true);
    editor.finish().expect("its term has no flaw").expect("there are changes")
}

/// A base of some pages, with this one damaged. Opened anew, unless opening finds the damage; `None` behind the last
/// page.
fn damaged(page: usize) -> Option<(FakeDisk, Result<Store, StoreError>)> {
    let disk = FakeDisk::new(7);
    let store = Store::create(Arc::new(disk.process(1)), 7, Arc::new(NoWaiting)).unwrap();
    let mut text = String::new();
    for subject in (0..SUBJECTS).step_by(2) {
        text += &format!("<{}> <http://example.org/p> \"7\" .\n", iri(subject));
    }
    let mut loader = Loader::default();
    loader.ntriples(text.as_bytes()).unwrap();
    store.load(loader.finish(), &mut |_| {}).unwrap();
    drop(store);
    let name = disk.process(2).list().unwrap().into_iter().find(|name| name.starts_with("base")).unwrap();
    let mut bytes = disk.contents(&name).unwrap();
    *bytes.get_mut(page * (64 << 10) + 100)? ^= 1;
    disk.put(&name, &bytes);
    let store = Store::open(Arc::new(disk.process(3)), Arc::new(NoWaiting));
    Some((disk, store))
}

fn commit(store: &Store, subject: usize) -> Result<u64, CommitError> {
    let waiter = store.hand_in(record(subject))?;
    store.await_outcome(&waiter)
}

/// One batch with a need for a damaged page once refused all batches of its flight.
#[test]
fn of_the_batches_of_a_flight_those_that_need_a_damaged_page_are_refused() {
    let subjects: Vec<usize> = (0..SUBJECTS).step_by(SUBJECTS / 40).collect();
    let mut tried = 0;
    for page in 0.. {
        let Some((disk, store)) = damaged(page) else { break };
        let Ok(store) = store else { continue };
        let (good, bad): (Vec<usize>, Vec<usize>) =
            subjects.iter().partition(|subject| commit(&store, **subject).is_ok());
        eprintln!("page {page}: {} good, {} bad", good.len(), bad.len());
        let (good, bad) = match (&good[..], &bad[..]) {
            ([a, b, ..], [c, d, ..]) => ([a + 1, b + 1], [c + 1, d + 1]),
            _ => continue,
        };
        tried += 1;
        let before = store.snapshot().len();
        let all = [good[0], bad[0], good[1], bad[1]];
        let waiters = all.map(|subject| store.hand_in(record(subject)).unwrap());
        let outcomes = waiters.map(|waiter| store.await_outcome(&waiter));
        for (subject, outcome) in all.iter().zip(&outcomes) {
            match outcome {
                Ok(_) => assert!(good.contains(subject)),
                Err(CommitError::Failed(error)) => {
                    assert!(bad.contains(subject) && error.to_string().contains("page"), "{error}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        let numbers: Vec<u64> = outcomes.into_iter().flatten().collect();
        assert_eq!(numbers[1], numbers[0] + 1, "in the order in which they came");
        assert_eq!(store.snapshot().len(), before + 2);
        assert!(commit(&store, good[0] + 2).is_ok(), "the next ones go on");
        drop(store);
        let again = Store::open(Arc::new(disk.process(5)), Arc::new(NoWaiting)).expect("no log needs the damaged page");
        assert_eq!(again.snapshot().len(), before + 3);
    }
    assert!(tried > 0);
}

/// The step due for a transaction's caller, done unless it is a flight.
fn apply(store: &Store, waiter: &Waiter) {
    let coming = {
        let mut state = lock(&store.state);
        assert_eq!(state.staging.act(waiter, || 0), Act::Apply);
        state.staging.begin_applying()
    };
    store.apply_for_all(waiter, &coming);
}

fn take_off(store: &Store, waiter: &Waiter) -> (Flight, Arc<Snapshot>) {
    let mut state = lock(&store.state);
    assert_eq!(state.staging.act(waiter, || 0), Act::Fly);
    let snapshot = state.staging.take_off();
    (state.files.log().take_off().expect("what is ready is staged"), snapshot)
}

/// Power goes at any operation of a second flight, with transactions applied before the first one had landed. The
/// transactions found afterwards are the told ones, or all of the second flight or none.
#[test]
fn what_is_applied_while_a_flight_is_on_its_way_is_durable_with_its_own() {
    for operations in 0..3 {
        let disk = FakeDisk::new(operations);
        let store = Store::create(Arc::new(disk.process(1)), 7, Arc::new(NoWaiting)).unwrap();
        let first = store.hand_in(record(1)).unwrap();
        apply(&store, &first);
        let (mut flight, snapshot) = take_off(&store, &first);
        let others = [2, 3].map(|subject| store.hand_in(record(subject)).unwrap());
        assert_eq!(lock(&store.state).staging.act(&first, || 0), Act::Wait, "it flies");
        apply(&store, &others[0]);
        assert_eq!(lock(&store.state).staging.act(&others[1], || 0), Act::Wait, "all are ready");
        assert!(store.snapshot().is_empty(), "nothing is durable");
        flight.run();
        assert!(store.snapshot().is_empty() && !first.is_told(), "it has not landed");
        let told = lock(&store.state).settle(flight, snapshot, &store.published, 0..0).0;
        assert_eq!((told.len(), first.outcome.get().unwrap().clone().unwrap(), store.snapshot().len()), (1, 1, 1));

        disk.fail_after(operations, Failure::PowerLoss);
        let outcome = store.await_outcome(&others[1]);
        // A write and a sync are its only operations.
        assert_eq!(outcome.is_ok(), operations == 2, "{outcome:?}");
        assert_eq!(store.snapshot().len(), if outcome.is_ok() { 3 } else { 1 });
        drop(store);
        disk.crash(operations);
        let found = read(&disk.process(2)).unwrap().len();
        assert!(found == 3 || (outcome.is_err() && found == 1), "{found} after {outcome:?}");
    }
}

/// A transaction of the log's reader finds many terms again and again, and clears between.
#[test]
fn records_that_are_read_together_make_what_each_made() {
    let disk = FakeDisk::new(3);
    let store = Store::create(Arc::new(disk.process(1)), 7, Arc::new(NoWaiting)).unwrap();
    for round in 0..40 {
        for subject in (round..round + 30).step_by(3) {
            commit(&store, subject).unwrap();
        }
        if round % 16 == 9 {
            let mut transaction = store.write().unwrap();
            transaction.clear(Graphs::All).unwrap();
            transaction.commit().unwrap();
        }
    }
    let shown = |snapshot: &Snapshot| -> Vec<String> {
        let index = snapshot.index(vicus_rdf::Order::Gspo);
        let mut all: Vec<String> = (0..index.len()).map(|row| snapshot.term(index.quad(row)[0]).to_string()).collect();
        all.sort();
        all
    };
    let before = shown(&store.snapshot());
    assert!(before.len() > 30);
    assert_eq!(shown(&read(&disk.process(2)).unwrap()), before);
}

/// What happened: a transaction that was to end applied first what others had staged, without a question.
#[test]
fn a_transaction_that_begins_asks_while_it_applies_what_is_staged() {
    const QUADS: usize = 20_000;
    let disk = FakeDisk::new(7);
    let store = Store::create(Arc::new(disk.process(1)), 7, Arc::new(NoWaiting)).unwrap();
    let (mut editor, mut encoder) = (Editor::default(), Encoder::default());
    for subject in 0..QUADS {
        let iri = iri(subject);
        let number = editor.number(encoder.term(NamedNodeRef::new_unchecked(&iri).into()));
        editor.set([number, number, number, 0], true);
    }
    let waiter = store.hand_in(editor.finish().unwrap().unwrap()).unwrap();
    let run = |ends_at: usize| {
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let ask = move |_| match counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= ends_at {
            true => Err("its time is up".into()),
            false => Ok(()),
        };
        let begun = store.write_asking(Arc::new(ask)).map(drop).map_err(|error| error.to_string());
        (begun, asked.load(std::sync::atomic::Ordering::Relaxed))
    };
    let mut ends_at = 0;
    while let (Err(error), asked) = run(ends_at) {
        // An index that was not made, and then the transaction, ask once more whether it was by this error.
        assert!(error.contains("its time is up") && asked <= ends_at + 3, "{asked} questions, {ends_at}: {error}");
        ends_at += 1;
    }
    // Its terms and quads are counted, and those of each order.
    assert!(ends_at >= 8, "at most {ends_at} questions");
    store.await_outcome(&waiter).unwrap();
    assert_eq!(store.snapshot().len(), QUADS);
}
