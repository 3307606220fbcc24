//! Many threads that write, read, load and merge at the same time.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test is a world of its own: it may start threads, and have them wait"
)]

use crate::model::{Quads, found, quads, shown};
use oxrdf::{GraphName, Literal, NamedNode, Quad};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use vicus_files::{Failure, FakeDisk};
use vicus_store::{Batch, CommitError, Store, Waiting};

#[derive(Debug)]
struct Threads {
    mutex: Mutex<()>,
    changed: Condvar,
    begun: Instant,
}

impl Threads {
    fn new() -> Arc<Threads> {
        Arc::new(Threads { mutex: Mutex::default(), changed: Condvar::new(), begun: Instant::now() })
    }
}

impl Waiting for Threads {
    fn wait(&self, _: u64, ready: &mut dyn FnMut() -> bool) {
        drop(self.changed.wait_while(self.mutex.lock().unwrap(), |()| !ready()).unwrap());
    }

    fn wait_at_most(&self, _: u64, ns: u64, ready: &mut dyn FnMut() -> bool) {
        let time = Duration::from_nanos(ns);
        drop(self.changed.wait_timeout_while(self.mutex.lock().unwrap(), time, |()| !ready()).unwrap());
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn wake(&self, _: u64) {
        drop(self.mutex.lock().unwrap());
        self.changed.notify_all();
    }
}

fn quad(writer: usize, number: usize) -> Quad {
    let s = NamedNode::new_unchecked(format!("http://example.org/writer/{writer}"));
    let p = NamedNode::new_unchecked(format!("http://example.org/p/{}", number % 3));
    Quad::new(s, p, Literal::new_simple_literal(number.to_string()), GraphName::DefaultGraph)
}

/// The outcomes of one thread's transactions.
#[derive(Default)]
struct Told {
    acknowledged: Quads,
    refused: Quads,
    in_doubt: Quads,
}

/// Each writer inserts so many quads, one in each transaction.
fn write(store: &Store, writer: usize, count: usize) -> Told {
    let mut told = Told::default();
    for number in 0..count {
        let quad = quad(writer, number);
        // Every second one of some writers looks at nothing.
        let committed = if writer % 3 == number % 2 {
            let mut batch = Batch::new();
            batch.insert(quad.as_ref());
            batch.commit(store)
        } else {
            let mut transaction = store.write().unwrap();
            let before = transaction.snapshot().unwrap().len();
            transaction.insert_quad(quad.as_ref()).unwrap();
            assert_eq!(transaction.snapshot().unwrap().len(), before + 1);
            transaction.commit().map(|committed| {
                assert!(quads(&committed.snapshot).contains(&shown(&quad)));
                committed.number
            })
        };
        let to = match committed {
            Ok(_) => {
                assert!(quads(&store.snapshot()).contains(&shown(&quad)), "readers see what is acknowledged");
                &mut told.acknowledged
            }
            Err(error) if error.in_doubt() => &mut told.in_doubt,
            Err(CommitError::Refused(_) | CommitError::BuiltOnRefused) => &mut told.refused,
            Err(error) => panic!("{error}"),
        };
        to.insert(shown(&quad));
    }
    told
}

/// Readers see more and more, and at any time only whole transactions.
fn read(store: &Store, is_over: &AtomicBool) {
    let mut last = BTreeSet::new();
    while !is_over.load(Ordering::Relaxed) {
        let now = quads(&store.snapshot());
        assert!(now.is_superset(&last), "what was seen is durable");
        last = now;
    }
}

fn run(seed: u64, fails_after: Option<(u64, Failure)>, merges: usize) {
    eprintln!("seed {seed}, {fails_after:?}, {merges} merges");
    let (writers, count) = (5, if cfg!(debug_assertions) { 8 } else { 30 });
    let disk = FakeDisk::new(seed);
    let store = Store::create(Arc::new(disk.process(1)), 4711, Threads::new()).unwrap();
    if let Some((operations, failure)) = fails_after {
        disk.fail_after(operations, failure);
    }
    let is_over = AtomicBool::new(false);
    let told = thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                scope.spawn({
                    let store = &store;
                    move || write(store, writer, count)
                })
            })
            .collect();
        let reader = scope.spawn(|| read(&store, &is_over));
        for _ in 0..merges {
            let merged = store.merge(&mut |_| thread::yield_now());
            assert!(merged.is_ok() || fails_after.is_some(), "{merged:?}");
        }
        let told: Vec<Told> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        told
    });
    let all = |of: fn(&Told) -> &Quads| told.iter().flat_map(of).cloned().collect::<Quads>();
    let (acknowledged, refused, in_doubt) =
        (all(|told| &told.acknowledged), all(|told| &told.refused), all(|told| &told.in_doubt));
    assert_eq!(acknowledged.len() + refused.len() + in_doubt.len(), writers * count);
    assert_eq!(quads(&store.snapshot()), acknowledged);
    drop(store);
    disk.crash(seed);
    let found = found(&disk.process(2)).unwrap();
    assert!(found.is_superset(&acknowledged), "nothing acknowledged is lost");
    assert!(found.is_disjoint(&refused), "nothing refused is there");
}

#[test]
fn all_writers_get_their_turns_and_share_syncs() {
    for seed in 0..3 {
        run(seed, None, 0);
    }
}

#[test]
fn writers_go_on_while_a_new_base_is_written() {
    for seed in 0..3 {
        run(seed, None, 4);
    }
}

/// Some of the transactions staged behind a failing one are refused, too; no acknowledged one is lost.
#[test]
fn a_failure_among_many_writers_refuses_what_was_built_on_it() {
    for seed in 0..12 {
        run(seed, Some((seed * 4, Failure::Error)), 2);
        run(seed, Some((seed * 4, Failure::Full)), 2);
    }
}

/// One writer's record is on its way to the drive while others stage theirs: all of these go with the next sync.
#[test]
fn records_that_are_staged_while_the_drive_works_share_a_sync() {
    let disk = FakeDisk::new(1);
    let store = Store::create(Arc::new(disk.process(1)), 4711, Threads::new()).unwrap();
    let before = disk.operations();
    let count = 16;
    let barrier = std::sync::Barrier::new(count);
    thread::scope(|scope| {
        for writer in 0..count {
            let (store, barrier) = (&store, &barrier);
            scope.spawn(move || {
                barrier.wait();
                write(store, writer, 4)
            });
        }
    });
    // The segment's five operations, and a write and a sync for each flight.
    assert!(disk.operations() - before <= 5 + 2 * 4 * count as u64);
    assert_eq!(store.snapshot().len(), 4 * count);
}

/// Once 16 threads saw that a merge was due, and each made one.
#[test]
fn many_writers_who_see_that_a_merge_is_due_make_one() {
    let disk = FakeDisk::new(1);
    let store = Store::create(Arc::new(disk.process(1)), 4711, Threads::new()).unwrap();
    let mut batch = Batch::new();
    (0..5000).for_each(|number| batch.insert(quad(0, number).as_ref()));
    batch.commit(&store).unwrap();
    assert!(store.is_merge_due());
    let barrier = std::sync::Barrier::new(16);
    let writer = |writer: usize| {
        let mut batch = Batch::new();
        batch.insert(quad(writer, 0).as_ref());
        batch.commit(&store).unwrap();
        barrier.wait();
        usize::from(store.merge_if_due(&mut |_| thread::yield_now()).unwrap())
    };
    let writer = &writer;
    let merges: usize = thread::scope(|scope| {
        let threads: Vec<_> = (1..=16).map(|number| scope.spawn(move || writer(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(merges, 1);
    assert!(!store.is_merge_due());
    // Nothing is due, though there is something to merge.
    let mut batch = Batch::new();
    batch.insert(quad(17, 0).as_ref());
    batch.commit(&store).unwrap();
    assert!(!store.merge_if_due(&mut |_| {}).unwrap());
    assert!(store.merge(&mut |_| {}).unwrap());
    assert_eq!(store.snapshot().len(), 5000 + 17);
}
