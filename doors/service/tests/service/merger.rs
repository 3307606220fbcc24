//! Merging in the background, beside calls and writers.

use super::*;
use oxrdf::{GraphName, Literal, NamedNode, Quad};
use std::path::PathBuf;
use std::time::Duration;
use vicus_service::{check_store, create_store, open_store};
use vicus_store::Store;

/// A longer wait is a failure.
const LONG: Duration = Duration::from_secs(120);

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("vicus-merger-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Commits numbers as objects of this subject, in one transaction.
fn commit(store: &Store, subject: usize, numbers: std::ops::Range<usize>) {
    let node = |name: &str| NamedNode::new_unchecked(format!("http://e/{name}{subject}"));
    let mut transaction = store.write().expect("there is memory");
    for number in numbers {
        let quad = Quad::new(node("s"), node("p"), Literal::from(number as u64), GraphName::DefaultGraph);
        transaction.insert_quad(quad.as_ref()).expect("there is memory");
    }
    transaction.commit().expect("nothing fails");
}

fn count(service: &Service, store: &Store) -> u64 {
    let session = service.session(&Dataset::new(store.snapshot()), SessionOptions::default());
    session.count("SELECT * { ?a ?b ?c FILTER (?c >= 0) }").expect("nothing fails")
}

/// Two threads write, and two ask. A merge is due after 4,096 changes; without commits for a second, after 256.
#[test]
fn changes_are_merged_beside_writers_and_readers_under_all_strategies() {
    under_all_strategies(|strategy| {
        let folder = Folder::new(strategy);
        let store = Arc::new(create_store(&folder.0).expect("an empty folder"));
        let service = service(strategy, 1 << 30);
        let merger = service.keep(&store).expect("there is a thread");
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let store = &store;
                scope.spawn(move || (0..30).for_each(|part| commit(store, writer, 100 * part..100 * part + 100)));
                let service = &service;
                scope.spawn(move || {
                    let mut last = 0;
                    for _ in 0..20 {
                        let now = count(service, store);
                        assert!(now >= last, "{strategy}: what was visible stays so");
                        last = now;
                    }
                });
            }
        });
        let is_merged = merger.wait_until(LONG, |kept| kept.merges > 0 && store.snapshot().change_count() < 256);
        assert!(is_merged, "{strategy}: {merger:?}");
        assert!(merger.kept().failed.is_none(), "{strategy}: {merger:?}");
        assert_eq!(count(&service, &store), 6000, "{strategy}");
        // Writers and calls go on beside the next merge, which ends with the merger.
        commit(&store, 2, 0..5000);
        drop(merger);
        assert!(service.into_runtime().is_some(), "{strategy}: the merger's thread has ended");
        drop(Arc::into_inner(store).expect("no other owner is left"));
        check_store(&folder.0, &mut |_, _| {}).unwrap_or_else(|error| panic!("{strategy}: {error}"));
        assert_eq!(open_store(&folder.0).expect("it is a store").snapshot().len(), 11_000, "{strategy}");
    });
}

/// Folders lie in place of the base files.
#[test]
fn a_merge_that_fails_is_told_and_tried_again() {
    let folder = Folder::new("fails");
    let store = Arc::new(create_store(&folder.0).expect("an empty folder"));
    let in_the_way = |generation: u64| folder.0.join(format!("base-{generation:08}-data.new"));
    (0..50).for_each(|generation| std::fs::create_dir(in_the_way(generation)).expect("there is room"));
    let service = service("las", 1 << 30);
    let merger = service.keep(&store).expect("there is a thread");
    commit(&store, 0, 0..5000);
    assert!(merger.wait_until(LONG, |kept| kept.failed.is_some()));
    assert_eq!((merger.kept().merges, count(&service, &store)), (0, 5000), "all stays as it was");
    (0..50).for_each(|generation| drop(std::fs::remove_dir(in_the_way(generation))));
    assert!(merger.wait_until(LONG, |kept| kept.merges == 1 && kept.failed.is_none()));
    assert_eq!((store.snapshot().change_count(), count(&service, &store)), (0, 5000));
}

/// One thread, used by a call for most of the time: the merge still comes to its end, and so does the call.
#[test]
fn calls_and_a_merge_share_one_thread() {
    let folder = Folder::new("one-thread");
    let store = Arc::new(create_store(&folder.0).expect("an empty folder"));
    let runtime = Runtime::builder().threads(1).quiet().start();
    let service = Service::new(runtime, MemoryBudget::new(1 << 30));
    commit(&store, 0, 0..20_000);
    let merger = service.keep(&store).expect("there is a thread");
    while merger.kept().merges == 0 {
        assert_eq!(count(&service, &store), 20_000);
        // An update holds the turn to write while its pattern needs the only thread; a slice may be waiting for the
        // turn on it.
        let mut transaction = store.write().expect("there is memory");
        let text = "DELETE { ?a ?b ?c } WHERE { ?a ?b ?c FILTER (?c < 0) }";
        service.update(text, &mut transaction, SessionOptions::default()).expect("nothing fails");
        transaction.commit().expect("nothing fails");
    }
    assert!(merger.kept().failed.is_none());
}
