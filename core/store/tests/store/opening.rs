//! Refusals, and their messages.

use crate::model::{Dice, quad, quads, shown};
use oxrdf::{GraphName, GraphNameRef, Literal, NamedNode, NamedNodeRef, Quad, QuadRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_files::{Directory, Failure, FakeDisk, OpenMode};
use vicus_flow::{give_up, or_given_up};
use vicus_rdf::{Changes, Graphs, Id, Order, Snapshot};
use vicus_store::{Batch, CommitError, NoWaiting, Store, StoreReader, Transaction, check, read};

fn create(disk: &FakeDisk) -> Store {
    Store::create(Arc::new(disk.process(1)), 4711, Arc::new(NoWaiting)).unwrap()
}

fn open(disk: &FakeDisk, pid: u32) -> Result<Store, String> {
    Store::open(Arc::new(disk.process(pid)), Arc::new(NoWaiting)).map_err(|error| error.to_string())
}

fn insert(store: &Store, seed: u64) -> String {
    let quad = quad(&mut Dice::new(seed));
    let mut transaction = store.write().unwrap();
    transaction.insert_quad(quad.as_ref()).unwrap();
    transaction.commit().unwrap();
    shown(&quad)
}

#[test]
fn a_second_writer_is_refused_with_the_firsts_process_and_readers_are_not() {
    let disk = FakeDisk::new(1);
    let store = create(&disk);
    let inserted = insert(&store, 1);
    assert_eq!(open(&disk, 2).unwrap_err(), "fake/LOCK is locked by process 1");
    assert_eq!(quads(&read(&disk.process(2)).unwrap()), [inserted.clone()].into());
    drop(store);
    assert_eq!(quads(&open(&disk, 2).unwrap().snapshot()), [inserted].into());
}

#[test]
fn a_directory_without_a_store_is_left_alone() {
    let disk = FakeDisk::new(1);
    assert_eq!(open(&disk, 1).unwrap_err(), "fake/ holds no store: there is no file CURRENT in it");
    assert!(read(&disk.process(1)).is_err() && check(&disk.process(1), &mut |_, _| {}).is_err());
    assert!(disk.names().is_empty());
    drop(create(&disk));
    let again = Store::create(Arc::new(disk.process(2)), 4712, Arc::new(NoWaiting));
    assert_eq!(again.unwrap_err().to_string(), "fake/ holds a store already");
}

/// Base files with right pages, and sections of a later version.
#[test]
fn a_newer_store_is_refused_clearly() {
    let disk = FakeDisk::new(1);
    drop(create(&disk));
    let text = String::from_utf8(disk.contents("CURRENT").unwrap()).unwrap();
    let newer = text.replace("format 1", "format 7");
    disk.put("CURRENT", newer.as_bytes());
    let error = open(&disk, 2).unwrap_err();
    assert!(error.contains("CURRENT has format 7, from a newer Vicus"), "{error}");
}

#[test]
fn garbage_in_place_of_a_file_is_refused_with_its_name() {
    let disk = FakeDisk::new(1);
    let store = create(&disk);
    store.load(Snapshot::of_ntriples(b"<http://e/s> <http://e/p> \"o\" .").unwrap(), &mut |_| {}).unwrap();
    insert(&store, 2);
    drop(store);
    for name in disk.names().into_iter().filter(|name| name != "LOCK") {
        for garbage in [&b""[..], b"garbage", &[0; 300], &[0x55; 70_000]] {
            let disk = disk.copy();
            disk.put(&name, garbage);
            let error = open(&disk, 2).expect_err("it is garbage");
            assert!(error.contains(&name), "{name}: {error}");
            assert!(read(&disk.process(2)).is_err() && check(&disk.process(2), &mut |_, _| {}).is_err());
        }
    }
}

/// A log of whole records that make no sense.
#[test]
fn a_record_that_makes_no_sense_is_named() {
    let disk = FakeDisk::new(1);
    drop(create(&disk));
    let (mut files, _) = vicus_disk::StoreFiles::open(Arc::new(disk.process(1)), *b"rdf     ").unwrap();
    files.log().stage(&[1, 0, 0]);
    files.log().stage(&[1, 9, 9, 9]);
    files.log().flush().unwrap();
    drop(files);
    let error = open(&disk, 1).unwrap_err();
    assert!(error.contains("record 2 of the log can't be understood"), "{error}");
}

/// One transaction is open at a time; dropped, it leaves nothing.
#[test]
fn a_transaction_that_is_dropped_has_not_happened() {
    let disk = FakeDisk::new(1);
    let store = create(&disk);
    let mut transaction = store.write().unwrap();
    assert!(store.try_write().unwrap().is_none());
    transaction.insert_quad(quad(&mut Dice::new(1)).as_ref()).unwrap();
    assert_eq!(transaction.snapshot().unwrap().len(), 1);
    assert!(store.snapshot().is_empty());
    drop(transaction);
    let transaction = store.try_write().unwrap().expect("the turn has ended");
    assert_eq!(transaction.commit().unwrap().number, None, "nothing has changed");
    assert!(store.snapshot().is_empty() && read(&disk.process(2)).unwrap().is_empty());
}

/// A transaction of millions of quads once could not be ended while they were sorted and merged.
#[test]
fn a_transaction_that_is_ended_at_any_question_has_not_happened() {
    const QUADS: usize = 30_000;
    let disk = FakeDisk::new(1);
    let store = create(&disk);
    let before = insert(&store, 1);
    let run = |ends_at: usize| {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let ask = move |_| match counted.fetch_add(1, Ordering::Relaxed) >= ends_at {
            true => Err("its time is up".into()),
            false => Ok(()),
        };
        let changed = store.write_asking(Arc::new(ask)).and_then(|mut transaction| {
            let [p, g] = ["http://e/p", "http://e/g"].map(NamedNodeRef::new_unchecked);
            for graph in [GraphNameRef::DefaultGraph, g.into()] {
                for number in 0..QUADS {
                    let subject = NamedNode::new_unchecked(format!("http://e/s{number}"));
                    transaction.insert_quad(QuadRef::new(&subject, p, &subject, graph))?;
                }
                transaction.snapshot()?;
            }
            let (graph, none) = (transaction.id(g.into())?, transaction.snapshot()?.fresh().behind());
            transaction.copy_graph(Id::UNBOUND, graph, none)?;
            transaction.clear(Graphs::One(graph))?;
            Ok(transaction)
        });
        let committed = changed.map_err(CommitError::from).and_then(Transaction::commit);
        (committed.map(|_| ()).map_err(|error| error.to_string()), asked.load(Ordering::Relaxed))
    };
    let (mut ends_at, mut questions) = (0, 0);
    while let (Err(error), asked) = run(ends_at) {
        assert!(error.contains("its time is up") && asked <= ends_at + 2, "{asked} questions, {ends_at}: {error}");
        assert_eq!(quads(&store.snapshot()), [before.clone()].into(), "ended at {ends_at}");
        (ends_at, questions) = (ends_at + 1 + ends_at / 3, ends_at);
    }
    // The eight orders are sorted and merged, of each graph.
    assert!(questions >= 2 * 8 * (QUADS / 16_384), "at most {questions} questions");
    assert_eq!(store.snapshot().len(), 1 + QUADS);
    drop(store);
    assert_eq!(open(&disk, 2).unwrap().snapshot().len(), 1 + QUADS);
}

/// What happened: it asked for ever, and took a whole processor.
#[test]
#[should_panic(expected = "a program with one thread would wait for itself")]
fn a_program_with_one_thread_does_not_ask_for_its_turn_for_ever() {
    let disk = FakeDisk::new(1);
    let store = create(&disk);
    let _open = store.write().unwrap();
    let asked = AtomicUsize::new(0);
    let ask = move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        1000.. => Err("it was asked a thousand times".into()),
        _ => Ok(()),
    };
    drop(store.write_asking(Arc::new(ask)));
}

/// An error says whether the failed changes may be found later.
#[test]
fn a_refused_commit_says_whether_it_is_in_doubt() {
    let mut doubts = [0; 2];
    for at in 0..8 {
        let disk = FakeDisk::new(at);
        let store = create(&disk);
        insert(&store, 1);
        let mut transaction = store.write().unwrap();
        transaction.insert_quad(quad(&mut Dice::new(2)).as_ref()).unwrap();
        disk.fail_after(at, Failure::Errors);
        let Err(error) = transaction.commit() else { continue };
        doubts[usize::from(error.in_doubt())] += 1;
        assert_eq!(error.to_string().contains("may be found when the store is opened again"), error.in_doubt());
        assert_eq!(store.snapshot().len(), 1);
        disk.heal();
        assert_eq!(store.write().unwrap().commit().unwrap().snapshot.len(), 1);
    }
    assert!(doubts[1] > 0, "{doubts:?}");
}

#[test]
fn a_backup_is_a_store_of_its_own_and_needs_a_place_without_one() {
    let [disk, other] = [1, 2].map(FakeDisk::new);
    let store = create(&disk);
    let inserted = insert(&store, 1);
    store.backup(Arc::new(other.process(1)), 4712, &mut |_| {}).unwrap();
    insert(&store, 5);
    assert_eq!(quads(&read(&other.process(2)).unwrap()), [inserted].into());
    let again = store.backup(Arc::new(other.process(1)), 4713, &mut |_| {}).unwrap_err();
    assert_eq!(again.to_string(), "fake/ holds a store already");
}

/// Makes a store of 9,000 quads, with more than a page of texts first in its base file, and returns that file's name.
fn loaded(disk: &FakeDisk) -> String {
    let store = create(disk);
    // Texts of digits in no order, so they have several pages when compressed.
    let digits = |n: u64| [3, 5, 7].map(|k| format!("{:016x}", (n + k).wrapping_mul(0x9E37_79B9_7F4A_7C15))).concat();
    let text: String =
        (0..9000).map(|n| format!("<http://e/{n:05}> <http://e/p> \"number {}\" .\n", digits(n))).collect();
    store.load(Snapshot::of_ntriples(text.as_bytes()).unwrap(), &mut |_| {}).unwrap();
    drop(store);
    disk.names().into_iter().find(|name| name.starts_with("base-")).unwrap()
}

/// Flips a bit of a byte in a file.
fn flip(disk: &FakeDisk, name: &str, at: usize) {
    let mut bytes = disk.contents(name).unwrap();
    bytes[at] ^= 1;
    disk.put(name, &bytes);
}

/// A backup of a damaged store once failed, and left a store without quads.
#[test]
fn a_backup_of_a_damaged_store_leaves_no_store() {
    let [disk, other] = [1, 2].map(FakeDisk::new);
    let name = loaded(&disk);
    flip(&disk, &name, 70_000);
    let store = open(&disk, 2).expect("only counts are read");
    let failed = store.backup(Arc::new(other.process(1)), 4712, &mut |_| {}).unwrap_err().to_string();
    assert!(failed.contains(&format!("{name} is damaged at byte 65536")), "{failed}");
    assert_eq!(
        read(&other.process(2)).unwrap_err().to_string(),
        "fake/ holds no store: there is no file CURRENT in it"
    );
    // The files that mark a begun store once stayed.
    assert!(other.names().is_empty(), "{:?}", other.names());
    let whole = FakeDisk::new(1);
    let store = create(&whole);
    insert(&store, 1);
    let stopped = store.backup(Arc::new(other.process(1)), 4713, &mut |_| give_up("stopped")).unwrap_err();
    assert_eq!((stopped.to_string().as_str(), other.names()), ("stopped", Vec::new()));
    store.backup(Arc::new(other.process(1)), 4713, &mut |_| {}).unwrap();
    assert_eq!(read(&other.process(2)).unwrap().len(), 1);
    assert!(!other.names().iter().any(|name| name == "BEGUN"));
}

/// The base takes the log's content, and the log's files go.
#[test]
fn merging_empties_the_log() {
    let disk = FakeDisk::new(1);
    let store = create(&disk);
    let inserted: std::collections::BTreeSet<String> = (0..40).map(|seed| insert(&store, seed)).collect();
    let mut paused = 0;
    assert!(store.merge(&mut |_| paused += 1).unwrap());
    assert!(!store.merge(&mut |_| {}).unwrap(), "nothing is left");
    assert!(paused > 10);
    assert_eq!(quads(&store.snapshot()), inserted);
    assert!(disk.names().iter().any(|name| name.starts_with("base-")));
    insert(&store, 99);
    drop(store);
    let records: u64 = disk
        .names()
        .iter()
        .filter(|name| name.starts_with("log-"))
        .map(|name| disk.process(3).open(name, OpenMode::Read).unwrap().len().unwrap())
        .sum();
    assert!(records < 400, "one record is left, not forty: {records} bytes");
    assert_eq!(open(&disk, 2).unwrap().snapshot().len(), check(&disk.process(3), &mut |_, _| {}).unwrap().quads);
}

/// Queries of other processes read states that readers have seen before; how many quads each has is counted here.
#[test]
fn recent_states_are_kept_where_they_are_asked_for() {
    let disk = FakeDisk::new(1);
    let store = create(&disk);
    let any = |_: &Arc<Snapshot>| true;
    insert(&store, 1);
    assert!(store.recent_snapshot(0, any).is_none(), "nobody has asked for states before");
    store.keep_recent();
    let counts: Vec<(u64, usize)> = (2..300)
        .map(|seed| {
            insert(&store, seed);
            let (snapshot, number) = store.numbered_snapshot();
            (number, quads(&snapshot).len())
        })
        .collect();
    let kept = |&(number, _): &(u64, usize)| store.recent_snapshot(number, any).is_some();
    let first = counts.iter().position(kept).unwrap();
    // The newest one, and 256 before it.
    assert_eq!(counts.len() - first, 257);
    for (number, count) in &counts[first..] {
        assert_eq!(quads(&store.recent_snapshot(*number, any).unwrap()).len(), *count, "{number}");
    }
    // A merge gives terms other numbers: both states of the last record are there, and told apart.
    let (before, number) = store.numbered_snapshot();
    assert!(store.merge(&mut |_| {}).unwrap());
    let (after, same) = store.numbered_snapshot();
    assert_eq!((same, quads(&after)), (number, quads(&before)));
    assert_ne!(before.fingerprint(), after.fingerprint());
    for wanted in [&before, &after] {
        let found = store.recent_snapshot(number, |snapshot| snapshot.fingerprint() == wanted.fingerprint()).unwrap();
        assert_eq!(found.fingerprint(), wanted.fingerprint());
    }
    assert!(store.recent_snapshot(number, |_| false).is_none() && store.recent_snapshot(number + 1, any).is_none());
}

/// A process that reads beside the writer applies new records alone; another one, at its first reading, has the same
/// terms by the same numbers.
#[test]
fn a_reader_goes_on_from_what_it_has_read() {
    for seed in 0..40 {
        let (mut dice, disk) = (Dice::new(seed), FakeDisk::new(seed));
        let (store, mut reader) = (create(&disk), StoreReader::default());
        let (mut states, mut included) = (BTreeMap::from([(0, quads(&store.snapshot()))]), 0);
        for step in 0..60 {
            for _ in 0..dice.below(4) {
                insert(&store, seed << 20 | step << 8 | dice.below(200));
                states.insert(store.numbered_snapshot().1, quads(&store.snapshot()));
            }
            let last = store.numbered_snapshot().1;
            if dice.below(8) == 0 && store.merge(&mut |_| {}).unwrap() {
                included = last;
            }
            let wanted = (dice.below(3) > 0).then(|| dice.below(last + 2));
            let (found, place) = reader.read_at(&disk.process(2), wanted).unwrap();
            // A record that was read before is there still; others are as far as the base.
            let expected = wanted.unwrap_or(last).clamp(included, last);
            assert!(
                place.sequence == expected || Some(place.sequence) == wanted,
                "seed {seed}: {place:?} of {expected}"
            );
            assert_eq!(quads(&found), states[&place.sequence], "seed {seed}: {place:?}");
            if place.sequence >= included {
                let (anew, same) = StoreReader::default().read_at(&disk.process(3), Some(place.sequence)).unwrap();
                assert_eq!(same, place, "seed {seed}");
                if place.sequence > included {
                    assert_eq!(anew.fingerprint(), found.fingerprint(), "seed {seed}: {place:?}");
                }
            }
        }
    }
}

/// Each load has its own files, so a label in one is not the same as in another.
#[test]
fn blank_nodes_of_two_loads_are_different() {
    let disk = FakeDisk::new(1);
    let store = create(&disk);
    for _ in 0..3 {
        let loaded = Snapshot::of_ntriples(b"_:x <http://e/p> \"o\" .\n<http://e/s> <http://e/p> \"o\" .").unwrap();
        store.load(loaded, &mut |_| {}).unwrap();
    }
    assert_eq!(store.snapshot().len(), 4, "three nodes called x, and one triple that is always the same");
    assert_eq!(check(&disk.process(2), &mut |_, _| {}).unwrap().quads, 4);
}

/// Damage in the way of a change refuses the change, and nothing else.
#[test]
fn a_change_that_needs_a_damaged_page_is_refused_with_its_place() {
    let disk = FakeDisk::new(1);
    let name = loaded(&disk);
    flip(&disk, &name, 70_000);
    let store = open(&disk, 2).expect("only counts are read");
    let mut refused = 0;
    for seed in 0..20 {
        let mut batch = vicus_store::Batch::new();
        batch.insert(quad(&mut Dice::new(seed)).as_ref());
        let before = store.snapshot().len();
        match batch.commit(&store) {
            Ok(_) => assert!(store.snapshot().len() >= before),
            Err(error) => {
                assert!(error.to_string().contains(&format!("{name} is damaged at byte 65536")), "{error}");
                assert!(!error.in_doubt() && store.snapshot().len() == before);
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    let merged = store.merge(&mut |_| {}).map_or_else(|error| error.to_string(), |merged| merged.to_string());
    assert!(merged == "false" || merged.contains(&name), "{merged}");
    assert!(check(&disk.process(3), &mut |_, _| {}).unwrap_err().to_string().contains(&name));
}

/// The snapshot once kept the new terms of changes without quads, so the next changes with other new terms made the
/// transaction panic. It took an update with a first operation that found nothing and a second one that inserted a new
/// term.
#[test]
fn new_terms_without_quads_are_forgotten_with_the_next_snapshot() {
    let disk = FakeDisk::new(1);
    let store = create(&disk);
    let mut transaction = store.write().unwrap();
    let before = transaction.snapshot().unwrap();
    let mut changes = Changes::of(&before);
    let a = changes.id(&before, NamedNodeRef::new_unchecked("http://e/a").into()).unwrap();
    // A quad with it can't be there.
    changes.deletes.push([a, a, a, Id::UNBOUND]);
    transaction.change(changes).unwrap();
    transaction.id(NamedNodeRef::new_unchecked("http://e/unused").into()).unwrap();
    let before = transaction.snapshot().unwrap();
    let mut changes = Changes::of(&before);
    let b = changes.id(&before, NamedNodeRef::new_unchecked("http://e/b").into()).unwrap();
    changes.inserts.push([b, b, b, Id::UNBOUND]);
    transaction.change(changes).unwrap();
    transaction.commit().unwrap();
    drop(store);
    let found = quads(&open(&disk, 2).unwrap().snapshot());
    assert_eq!(found, ["<http://e/b> <http://e/b> <http://e/b> ".to_owned()].into());
}

/// A transaction once went on after an error, and its commit acknowledged part of it: a record with a step broken off,
/// so the store could not be opened again.
#[test]
fn a_transaction_that_has_failed_is_not_committed_and_the_store_can_be_opened() {
    let whole = FakeDisk::new(1);
    let name = loaded(&whole);
    let mut failed = 0;
    for at in (5_000..whole.contents(&name).unwrap().len()).step_by(65_536) {
        let disk = whole.copy();
        flip(&disk, &name, at);
        let Ok(store) = open(&disk, 2) else { continue };
        let mut transaction = store.write().unwrap();
        let snapshot = transaction.snapshot().unwrap();
        let index = snapshot.index(Order::Gspo);
        let Ok(all) = or_given_up(|| index.quads(0..index.len()).collect::<Vec<_>>()) else { continue };
        let [s, p, _, graph] = all[0];
        all.into_iter().for_each(|quad| transaction.delete(quad));
        // The data needed for the record, or to apply it, may be damaged.
        let is_whole = transaction.snapshot().is_ok();
        transaction.insert([s, p, Id::integer(7).unwrap(), graph]);
        let committed = transaction.commit();
        assert_eq!(committed.is_ok(), is_whole, "byte {at}");
        if let Err(error) = committed {
            assert_eq!(error.to_string(), "a change of this transaction has failed, so nothing of it happens");
            assert_eq!(store.snapshot().len(), 9000);
            drop(store);
            assert_eq!(open(&disk, 3).unwrap().snapshot().len(), 9000, "byte {at}");
            failed += 1;
        }
    }
    assert!(failed > 0, "some page is needed for a change");
}

/// A merge was once due by the difference from the base alone. Quads inserted and deleted again, over and over, made
/// the log, the new terms and the time to open the store grow without bound.
#[test]
fn a_merge_is_due_when_changes_were_undone_too() {
    let disk = FakeDisk::new(1);
    let mut store = create(&disk);
    let texts = |round: usize| (0..2000).map(move |n| Literal::from(format!("{round} and {n}")));
    for is_opened_between in [false, true] {
        let mut rounds = 0;
        while !store.is_merge_due() {
            let node = NamedNodeRef::new_unchecked("http://e/s");
            let quad = |text: Literal| Quad::new(node, node, text, GraphName::DefaultGraph);
            let mut batch = Batch::new();
            texts(rounds).for_each(|text| batch.insert(quad(text).as_ref()));
            batch.commit(&store).unwrap();
            let mut batch = Batch::new();
            texts(rounds).for_each(|text| batch.delete(quad(text).as_ref()));
            batch.commit(&store).unwrap();
            assert!(store.snapshot().is_empty());
            if is_opened_between {
                drop(store);
                store = open(&disk, 1).unwrap();
            }
            rounds += 1;
            assert!(rounds < 30, "it is due by the log or by the terms");
        }
        assert!(store.merge(&mut |_| {}).unwrap());
        assert!(!store.is_merge_due() && store.snapshot().fresh().is_empty());
        assert_eq!(check(&disk.process(2), &mut |_, _| {}).unwrap().records, 0);
    }
}

/// A store with 100,000 commits of one quad each once took 0.7 s to open, because a merge was due by quads and bytes
/// alone.
#[test]
fn a_merge_is_due_by_the_number_of_commits() {
    let disk = FakeDisk::new(1);
    let mut store = create(&disk);
    let node = NamedNodeRef::new_unchecked("http://e/s");
    let quad = Quad::new(node, node, node, GraphName::DefaultGraph);
    let mut commits = 0;
    while !store.is_merge_due() {
        let mut batch = Batch::new();
        if commits % 2 == 0 {
            batch.insert(quad.as_ref())
        } else {
            batch.delete(quad.as_ref())
        }
        batch.commit(&store).unwrap();
        commits += 1;
        assert!(commits < 20_000, "it is due");
        if commits == 1000 {
            drop(store);
            store = open(&disk, 1).unwrap();
            assert_eq!(store.snapshot().len(), 0);
        }
    }
    assert!(commits > 10_000, "{commits} commits: no merge for a few");
    drop(store);
    let store = open(&disk, 1).unwrap();
    assert!(store.is_merge_due() && store.merge(&mut |_| {}).unwrap() && !store.is_merge_due_when_idle());
}

/// Many records are applied together when a store is opened, and a few at a time when they came: both make the same
/// data, among them terms that come, go and come again, and terms of the base.
#[test]
fn records_that_are_applied_together_make_what_they_made_one_by_one() {
    for seed in 0..20 {
        println!("seed {seed}");
        let disk = FakeDisk::new(seed);
        let store = create(&disk);
        let text: String =
            (0..300).map(|n| format!("<http://example.org/s/{n}> <http://example.org/p/1> \"text {n}\" .\n")).collect();
        store.load(Snapshot::of_ntriples(text.as_bytes()).unwrap(), &mut |_| {}).unwrap();
        let (mut dice, mut model) = (Dice::new(seed), quads(&store.snapshot()));
        for number in 0..200 {
            let mut batch = Batch::new();
            for _ in 0..1 + dice.below(3) {
                let mut one = quad(&mut dice);
                if dice.below(2) == 0 {
                    one.object = Literal::new_simple_literal(format!("text {}", dice.below(2 * 300))).into();
                }
                if dice.below(3) == 0 {
                    batch.delete(one.as_ref());
                    model.remove(&shown(&one));
                } else {
                    batch.insert(one.as_ref());
                    model.insert(shown(&one));
                }
            }
            batch.commit(&store).unwrap();
            if number % 50 == 49 {
                assert_eq!(quads(&store.snapshot()), model);
                assert_eq!(quads(&read(&disk.process(2)).unwrap()), model, "after {number}");
            }
        }
        store.snapshot().assert_valid();
        read(&disk.process(2)).unwrap().assert_valid();
    }
}

/// A change large enough for a new base in memory once read all rows for it, so one damaged page refused every change,
/// and the store could not even be opened to read.
#[test]
fn many_changes_beside_a_damaged_page_need_no_more_than_few() {
    let disk = FakeDisk::new(1);
    let store = create(&disk);
    let text: String = (0..40_000)
        .map(|n: u64| format!("<http://e/{n:05}> <http://e/p{}> <http://e/{:05}> .\n", n % 7, n * n % 39_989))
        .collect();
    store.load(Snapshot::of_ntriples(text.as_bytes()).unwrap(), &mut |_| {}).unwrap();
    let node = |n: usize| oxrdf::NamedNode::new_unchecked(format!("http://n/{n}"));
    let insert = |store: &Store, numbers: std::ops::Range<usize>| {
        let mut transaction = store.write().map_err(|error| error.to_string())?;
        for n in numbers {
            let quad = Quad::new(
                node(n),
                NamedNodeRef::new_unchecked("http://n/p"),
                Literal::new_simple_literal("new"),
                GraphName::DefaultGraph,
            );
            transaction.insert_quad(quad.as_ref()).map_err(|error| error.to_string())?;
        }
        transaction.commit().map(drop).map_err(|error| error.to_string())
    };
    insert(&store, 0..100).unwrap();
    drop(store);
    let few = disk.copy();
    let store = open(&disk, 2).unwrap();
    insert(&store, 100..2000).unwrap();
    drop(store);
    let name = disk.names().into_iter().find(|name| name.starts_with("base-")).unwrap();
    let mut opened = 0;
    for page in 0..disk.contents(&name).unwrap().len() >> 16 {
        let [few, many] = [&few, &disk].map(FakeDisk::copy);
        [&few, &many].into_iter().for_each(|disk| flip(disk, &name, (page << 16) + 9));
        if open(&few, 3).is_ok() {
            let store = open(&many, 3).unwrap_or_else(|error| panic!("page {page}: {error}"));
            insert(&store, 2000..4000).unwrap_or_else(|error| panic!("page {page}: {error}"));
            opened += 1;
        }
    }
    assert!(opened > 3, "{opened} pages are not needed");
}

/// They had every quad of the graph.
#[test]
fn records_of_whole_graphs_have_their_names_and_not_their_quads() {
    let disk = FakeDisk::new(1);
    let store = create(&disk);
    let node = |name: &str| NamedNodeRef::new_unchecked(name).into_owned();
    let mut transaction = store.write().unwrap();
    for number in 0..5000 {
        let object = Literal::from(number);
        let quad = Quad::new(node("http://e/s"), node("http://e/p"), object, GraphName::NamedNode(node("http://e/g")));
        transaction.insert_quad(quad.as_ref()).unwrap();
    }
    transaction.commit().unwrap();
    let log = |disk: &FakeDisk| {
        let names = disk.names().into_iter().filter(|name| name.starts_with("log-"));
        names.map(|name| disk.contents(&name).unwrap().iter().rposition(|&byte| byte != 0).unwrap()).sum::<usize>()
    };
    let before = log(&disk);
    let snapshot = store.snapshot();
    let graph = snapshot.id(NamedNodeRef::new_unchecked("http://e/g").into()).unwrap();
    // MOVE to a new graph, and the empty default graph cleared.
    let mut changes = Changes::of(&snapshot);
    let other = changes.id(&snapshot, NamedNodeRef::new_unchecked("http://e/h").into()).unwrap();
    let mut transaction = store.write().unwrap();
    transaction.clear(Graphs::One(Id::UNBOUND)).unwrap();
    transaction.copy_graph(graph, other, changes.fresh).unwrap();
    transaction.clear(Graphs::One(graph)).unwrap();
    let committed = transaction.commit().unwrap();
    let moved = quads(&committed.snapshot);
    assert_eq!(moved.len(), 5000);
    assert!(moved.iter().all(|quad| quad.ends_with(" <http://e/h>")));
    assert!(log(&disk) - before < 200, "{} bytes", log(&disk) - before);
    drop(store);
    assert_eq!(quads(&open(&disk, 2).unwrap().snapshot()), moved);
    let store = open(&disk, 3).unwrap();
    // The changes of earlier records in the log are cleared, too, and later ones are not.
    let mut transaction = store.write().unwrap();
    transaction.clear(Graphs::All).unwrap();
    transaction.commit().unwrap();
    let last = insert(&store, 7);
    drop(store);
    assert_eq!(quads(&open(&disk, 4).unwrap().snapshot()), [last].into());
}

#[test]
fn a_clear_of_nothing_has_no_record() {
    let disk = FakeDisk::new(1);
    let store = create(&disk);
    let mut transaction = store.write().unwrap();
    transaction.clear(Graphs::All).unwrap();
    assert_eq!(transaction.commit().unwrap().number, None);
}

/// LOCK was removed by hand, a second process opened the store, and the later acknowledgements of the first one were
/// lost.
#[test]
fn a_writer_whose_lock_was_removed_acknowledges_nothing() {
    for reopened in [false, true] {
        let disk = FakeDisk::new(1);
        let store = create(&disk);
        let mut inserted = std::collections::BTreeSet::from([insert(&store, 1)]);
        disk.process(7).remove("LOCK").unwrap();
        let second = reopened.then(|| open(&disk, 2).expect("nothing holds it off"));
        if let Some(second) = &second {
            inserted.insert(insert(second, 2));
        }
        let names = disk.names();
        for is_batch in [true, false] {
            let quad = quad(&mut Dice::new(3));
            let refused = if is_batch {
                let mut batch = Batch::new();
                batch.insert(quad.as_ref());
                batch.commit(&store).unwrap_err()
            } else {
                let mut transaction = store.write().unwrap();
                transaction.insert_quad(quad.as_ref()).unwrap();
                transaction.commit().unwrap_err()
            };
            assert!(!refused.in_doubt() && refused.to_string().contains("fake/LOCK: it was removed"), "{refused}");
        }
        for refused in [
            store.merge(&mut |_| {}).map(drop),
            store.load(Snapshot::of_ntriples(b"<http://e/s> <http://e/p> <http://e/o> .").unwrap(), &mut |_| {}),
        ] {
            assert!(refused.unwrap_err().to_string().contains("fake/LOCK: it was removed"));
        }
        drop(store);
        assert_eq!(disk.names(), names, "the files are the other one's");
        if let Some(second) = &second {
            inserted.insert(insert(second, 4));
            second.merge(&mut |_| {}).unwrap();
        }
        drop(second);
        disk.crash(3);
        assert_eq!(quads(&open(&disk, 4).unwrap().snapshot()), inserted);
    }
}
