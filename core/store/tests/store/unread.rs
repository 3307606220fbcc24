//! An unreadable record in the log: the records before it are read, the rest is kept aside, and the store goes on.

use crate::model::{Quads, quads, shown};
use oxrdf::{GraphName, Literal, NamedNode, Quad};
use std::sync::Arc;
use vicus_disk::StoreFiles;
use vicus_files::FakeDisk;
use vicus_store::{Batch, NoWaiting, Store, check, read, read_up_to, repair};

fn open(disk: &FakeDisk, pid: u32) -> Result<Store, String> {
    Store::open(Arc::new(disk.process(pid)), Arc::new(NoWaiting)).map_err(|error| error.to_string())
}

fn quad(number: i64) -> Quad {
    let iri = |name: &str| NamedNode::new_unchecked(format!("http://e/{name}"));
    Quad::new(iri("s"), iri("p"), Literal::from(number), GraphName::DefaultGraph)
}

fn insert(store: &Store, number: i64) {
    let mut batch = Batch::new();
    batch.insert(quad(number).as_ref());
    batch.commit(store).unwrap();
}

/// The first so many.
fn first(count: i64) -> Quads {
    (0..count).map(|number| shown(&quad(number))).collect()
}

/// A store with one quad in its base, if it has a base, and the quads up to `count` in its log.
fn store(has_base: bool, count: i64) -> FakeDisk {
    let disk = FakeDisk::new(1);
    let store = Store::create(Arc::new(disk.process(1)), 4711, Arc::new(NoWaiting)).unwrap();
    for number in 0..count {
        insert(&store, number);
        if number == 0 && has_base {
            store.merge(&mut |_| {}).unwrap();
        }
    }
    disk
}

fn logs(disk: &FakeDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.starts_with("log-")).collect()
}

/// After a repair, the store is written to and opened as any other.
fn goes_on(disk: &FakeDisk, expected: &Quads) {
    let mut expected = expected.clone();
    for number in [100, 101] {
        let store = open(disk, 3).unwrap();
        assert_eq!(quads(&store.snapshot()), expected);
        insert(&store, number);
        expected.insert(shown(&quad(number)));
        store.merge(&mut |_| {}).unwrap();
        drop(store);
        assert_eq!(quads(&read(&disk.process(4)).unwrap()), expected);
        check(&disk.process(4), &mut |_, _| {}).unwrap();
    }
}

/// An acknowledged, unreadable record once kept the whole store from being opened, for good.
#[test]
fn a_record_without_sense_leaves_what_is_before_it() {
    for has_base in [false, true] {
        for good in [1, 2, 4] {
            let disk = store(has_base, good);
            let (mut files, _) = StoreFiles::open(Arc::new(disk.process(1)), *b"rdf     ").unwrap();
            // The frame begins with a valid record that changes nothing.
            files.log().stage(&[1, 0, 0]);
            files.log().stage(&[1, 9, 9, 9]);
            files.log().flush().unwrap();
            files.log().rotate();
            files.log().stage(&[1, 0, 0]);
            files.log().flush().unwrap();
            drop(files);
            let number = good + 2;
            let error = open(&disk, 1).unwrap_err();
            for part in [&format!("record {number} of the log can't be understood"), "fake/log-", "at byte", "--repair"]
            {
                assert!(error.contains(part), "{part}: {error}");
            }
            let before = disk.names();
            assert!(read(&disk.process(1)).is_err() && check(&disk.process(1), &mut |_, _| {}).is_err());
            let (found, unread) = read_up_to(&disk.process(2)).unwrap();
            assert_eq!((quads(&found), unread.unwrap().number()), (first(good), number as u64));
            assert_eq!(disk.names(), before, "reading changes nothing, and opening in vain does not either");

            let repaired = repair(Arc::new(disk.process(1))).unwrap().expect("there is something to repair");
            assert_eq!((repaired.unread.number(), repaired.kept.len()), (number as u64, 2));
            let kept = &repaired.kept[0].replace("fake/", "");
            assert!(!disk.contents(kept).unwrap().is_empty());
            disk.crash(5);
            let checked = check(&disk.process(4), &mut |_, _| {}).unwrap();
            assert_eq!(checked.aside, repaired.kept);
            assert!(checked.to_string().contains(&repaired.kept[0]), "{checked}");
            assert!(repair(Arc::new(disk.process(1))).unwrap().is_none());
            goes_on(&disk, &first(good));
            assert!(disk.names().contains(kept), "it stays");
        }
    }
}

/// Each byte of a log with several segments.
#[test]
fn damage_of_the_log_leaves_what_is_before_it() {
    for has_base in [false, true] {
        let disk = store(has_base, 4);
        // Opening writes the last frame again, in a segment of its own.
        insert(&open(&disk, 1).unwrap(), 4);
        insert(&open(&disk, 1).unwrap(), 5);
        let (mut repaired, mut lost) = (0, 0);
        for name in logs(&disk) {
            let whole = disk.contents(&name).unwrap();
            for at in (0..whole.len()).filter(|&at| whole[at] != 0) {
                let disk = disk.copy();
                let mut bytes = whole.clone();
                bytes[at] ^= 0x10;
                disk.put(&name, &bytes);
                let Ok((found, unread)) = read_up_to(&disk.process(2)) else {
                    lost += 1;
                    continue;
                };
                let found = quads(&found);
                assert_eq!(found, first(found.len() as i64), "{name}, byte {at}");
                let Some(unread) = unread else { continue };
                assert!(unread.to_string().contains(&name), "{unread}");
                assert!(open(&disk, 1).is_err());
                let done = repair(Arc::new(disk.process(1))).unwrap().unwrap();
                assert!(done.unread == unread && !done.kept.is_empty());
                let kept = disk.contents(&done.kept[0].replace("fake/", "")).unwrap();
                assert_eq!(kept, bytes[unread.damage().offset as usize..], "{name}, byte {at}");
                goes_on(&disk, &found);
                repaired += 1;
            }
        }
        assert!(repaired > 100 && lost > 0, "{repaired} repaired, {lost} without a header");
    }
}

/// When the end of a last record had become zeros, nothing was once told, and its commit was gone.
#[test]
fn the_end_of_a_log_that_is_not_whole_is_told_and_kept() {
    let disk = store(false, 3);
    let name = logs(&disk).pop().unwrap();
    let whole = disk.contents(&name).unwrap();
    let clean = disk.copy();
    // The beginning of the last frame: behind those of the first two.
    let two = store(false, 2).contents(&name).unwrap();
    let start = two.iter().rposition(|&byte| byte == 0xFF).unwrap().next_multiple_of(8);
    let end = whole.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    assert_eq!(whole[..start], two[..start]);
    let mut told = 0;
    // The value of the last byte, behind the record, is known.
    for cut in start + 1..end - 1 {
        let disk = disk.copy();
        let mut bytes = whole.clone();
        bytes[cut..].fill(0);
        disk.put(&name, &bytes);
        let left = bytes[start..].iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
        let checked = check(&disk.process(2), &mut |_, _| {}).unwrap();
        let store = open(&disk, 1).unwrap();
        assert_eq!(quads(&store.snapshot()), first(2));
        let torn = store.torn().expect("it is told").clone();
        assert_eq!((torn.number, torn.offset, torn.bytes), (3, start as u64, left as u64), "cut at {cut}");
        assert!(
            checked.to_string().contains("not all of record 3") && checked.to_string().contains(&name),
            "{checked}"
        );
        let kept = torn.kept.unwrap().replace("fake/", "");
        assert_eq!(disk.contents(&kept).unwrap(), bytes[start..start + left]);
        drop(store);
        let store = open(&disk, 1).unwrap();
        assert!(store.torn().is_none(), "it is told once");
        insert(&store, 2);
        drop(store);
        let checked = check(&disk.process(2), &mut |_, _| {}).unwrap();
        assert!(checked.torn.is_none() && checked.aside.len() == 1, "{checked}");
        assert_eq!(quads(&read(&disk.process(2)).unwrap()), first(3));
        told += 1;
    }
    assert!(told > 30);
    // Room behind the last frame, as a killed process leaves it, is no end of a record.
    for room in [0, 8, 4096] {
        let mut bytes = whole[..end.next_multiple_of(8)].to_vec();
        bytes.resize(bytes.len() + room, 0);
        clean.put(&name, &bytes);
        assert!(check(&clean.process(2), &mut |_, _| {}).unwrap().torn.is_none());
        assert!(open(&clean.copy(), 1).unwrap().torn().is_none());
        assert_eq!(quads(&read(&clean.process(2)).unwrap()), first(3));
    }
}
