//! Every flip of a byte and every cut of a store's small files: reads are right, or the file is named.

use crate::log::publish;
use crate::model::{KIND, read};
use std::sync::Arc;
use vicus_disk::{DiskError, Recovered, StoreFiles};
use vicus_files::FakeDisk;

/// A store with a base of two records, and three segments with seven more, two frames in the last one.
fn store() -> (FakeDisk, Vec<Vec<u8>>) {
    let disk = FakeDisk::new(1);
    let mut store = StoreFiles::create(Arc::new(disk.process(1)), KIND, 7).unwrap();
    let records: Vec<Vec<u8>> = (0..9_u8).map(|at| vec![at; [3, 90, 0, 700, 8][usize::from(at) % 5]]).collect();
    let mut staged = 0;
    for (count, rotates) in [(2, true), (2, false), (1, true), (1, true), (2, false), (1, false)] {
        records[staged..staged + count].iter().for_each(|record| {
            store.log().stage(record);
        });
        staged += count;
        store.log().flush().unwrap();
        if rotates {
            store.log().rotate();
        }
    }
    assert_eq!(staged, records.len());
    publish(&mut store, &[&records[0], &records[1]]);
    assert_eq!(read(&disk.process(2)).unwrap(), records);
    drop(store);
    (disk, records)
}

fn logs(disk: &FakeDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.starts_with("log-")).collect()
}

/// Whether a reader is told of damage that left all records as they were.
fn is_told(disk: &FakeDisk) -> bool {
    let recovered = Recovered::read(&disk.process(2), KIND).unwrap();
    recovered.torn.is_some() || recovered.spoiled.is_some()
}

/// A reader's records, after checking that a writer finds the same.
fn found(disk: &FakeDisk, name: &str) -> Option<Vec<Vec<u8>>> {
    let found = read(&disk.process(2));
    let written = StoreFiles::open(Arc::new(disk.copy().process(3)), KIND);
    match (found, written) {
        (Ok(found), Ok((_, recovered))) => {
            assert_eq!(found[found.len() - recovered.records.len()..], recovered.records);
            Some(found)
        }
        (Err(error), Err(other)) => {
            assert_eq!(error.to_string(), other.to_string());
            assert!(error.to_string().contains(&format!("fake/{name}")), "{error}");
            None
        }
        (found, written) => panic!("{found:?}, but a writer: {written:?}"),
    }
}

#[test]
fn a_flipped_byte_of_the_log_is_found_or_does_no_harm() {
    let (disk, records) = store();
    let names = logs(&disk);
    assert_eq!(names.len(), 3);
    let last = names.last().unwrap();
    for name in &names {
        let good = disk.contents(name).unwrap();
        let mut harmless = 0;
        for (at, mask) in (0..good.len()).flat_map(|at| [1, 0x40, 0xff].map(|mask| (at, mask))) {
            let mut flipped = good.clone();
            flipped[at] ^= mask;
            disk.put(name, &flipped);
            if let Some(found) = found(&disk, name) {
                assert_eq!(found, records, "{name}, byte {at}");
                harmless += 1;
                // The end of the last frame looks unwritten if it is zeros.
                let is_unwritten = good[at] == 0xff && mask == 0xff && good[at..].len() <= 8;
                assert!(is_told(&disk) || is_unwritten && name == last, "{name}, byte {at}, mask {mask:x}");
            }
        }
        // The last byte of a frame and the zeros behind it belong to no record.
        assert!(harmless <= 2 * 8 * 3, "{name}: {harmless}");
        disk.put(name, &good);
    }
}

/// Room behind the last frame is zeros, and a killed process leaves it.
#[test]
fn a_flipped_byte_of_room_is_found_or_does_no_harm() {
    let disk = FakeDisk::new(1);
    let mut store = StoreFiles::create(Arc::new(disk.process(1)), KIND, 7).unwrap();
    let records = [b"first".to_vec(), vec![0xa5; 700], vec![0xff; 3]];
    let mut end = 0;
    for record in &records {
        store.log().stage(record);
        store.log().flush().unwrap();
        end = disk.contents("log-00000001").unwrap().iter().rposition(|&byte| byte == 0xff).unwrap() + 1;
    }
    disk.kill();
    drop(store);
    let good = disk.contents("log-00000001").unwrap();
    assert!(good.len() > end + 1000 && good[end..].iter().all(|&byte| byte == 0), "there is room");
    let mut harmless = 0;
    for at in (end..end + 100).chain((end + 100..good.len()).step_by(499)).chain([good.len() - 1]) {
        for mask in [1, 0x40, 0xff] {
            let mut flipped = good.clone();
            flipped[at] ^= mask;
            disk.put("log-00000001", &flipped);
            if let Some(found) = found(&disk, "log-00000001") {
                assert_eq!(found, records, "byte {at}");
                assert!(is_told(&disk), "byte {at}, mask {mask:x}");
                harmless += 1;
            }
        }
    }
    assert!(harmless > 0, "no frame lies there");
    // Garbage of the length of a frame's beginning is never taken for room.
    let mut garbage = good.clone();
    garbage[end.next_multiple_of(8)..][..32].fill(0x5a);
    disk.put("log-00000001", &garbage);
    assert_eq!(found(&disk, "log-00000001"), None);
    // A damaged last frame is not taken for an unfinished one.
    for at in end - 1 - 3..end - 1 {
        let mut flipped = good.clone();
        flipped[at] ^= 1;
        disk.put("log-00000001", &flipped);
        assert_eq!(found(&disk, "log-00000001"), None, "byte {at}");
    }
}

/// Written by the version of form 1: two records in a frame, one in another.
const FORM_1: &str = "56494355534c4f4701000000000000000700000000000000010000000000000000000000000000000100000000000000\
    0000000000000000000000005bce6c9a1500000000000000010000000000000057727b84b859acdfa0a5a5a5a5a5a5a5c3ccd7d6d1a5a5a5a5\
    a5a5a5a500000015000000000000000300000000000000517fb55620d423b8a8a5a5a5a5a5a5a5d1cdccd7c18985c9cacbc2c0d7000000";

#[test]
fn a_log_of_form_1_is_read_and_what_is_wrong_in_it_is_found() {
    let bytes: Vec<u8> =
        FORM_1.as_bytes().chunks(2).map(|hex| u8::from_str_radix(str::from_utf8(hex).unwrap(), 16).unwrap()).collect();
    let records: Vec<Vec<u8>> = vec![b"first".to_vec(), Vec::new(), b"third, longer".to_vec()];
    let name = "log-00000001";
    let disk = FakeDisk::new(1);
    drop(StoreFiles::create(Arc::new(disk.process(1)), KIND, 7).unwrap());
    disk.put(name, &bytes);
    assert_eq!(found(&disk, name).unwrap(), records);
    for (at, mask) in (0..bytes.len()).flat_map(|at| [1, 0x40, 0xff].map(|mask| (at, mask))) {
        let mut flipped = bytes.clone();
        flipped[at] ^= mask;
        disk.put(name, &flipped);
        assert!(found(&disk, name).is_none_or(|found| found == records), "byte {at}");
    }
    // The second frame has 24 bytes and 21 of records, 51 bytes before the file's end.
    for at in bytes.len() - 51 + 3..bytes.len() {
        disk.put(name, &bytes[..at]);
        let whole = at >= bytes.len() - 3;
        assert_eq!(found(&disk, name).unwrap(), records[..if whole { 3 } else { 2 }], "cut at {at}");
    }
    // It is gone on with in form 2.
    disk.put(name, &bytes);
    let (mut store, _) = StoreFiles::open(Arc::new(disk.process(4)), KIND).unwrap();
    store.log().stage(b"fourth");
    store.log().flush().unwrap();
    drop(store);
    assert_eq!(read(&disk.process(2)).unwrap(), [&records[..], &[b"fourth".to_vec()]].concat());
    let forms: Vec<u8> = logs(&disk).iter().map(|name| disk.contents(name).unwrap()[8]).collect();
    assert_eq!(forms, [1, 2]);
}

#[test]
fn a_cut_log_is_refused_or_ends_where_a_crash_could_have_ended_it() {
    let (disk, records) = store();
    for (turn, name) in logs(&disk).iter().enumerate() {
        let good = disk.contents(name).unwrap();
        let mut shorter = 0;
        for at in 0..good.len() {
            disk.put(name, &good[..at]);
            if let Some(found) = found(&disk, name) {
                assert!(records.starts_with(&found), "{name}, cut at {at}");
                let fits = turn == 2 && found.len() == 8;
                assert!(fits || found == records, "{name}, cut at {at}: {}", found.len());
                shorter += u32::from(found != records);
            }
        }
        assert_eq!(shorter > 0, turn == 2, "only the last frame of the last segment may never have been there");
        disk.put(name, &good);
        disk.take_away(name);
        match found(&disk, name) {
            None => assert!(turn < 2, "it is missed"),
            // Nothing tells of a newest segment; the one before it is whole.
            Some(found) => assert!(turn == 2 && found == records[..6]),
        }
        disk.put(name, &good);
    }
}

#[test]
fn a_manifest_with_any_other_byte_is_refused() {
    let (disk, _) = store();
    let good = disk.contents("CURRENT").unwrap();
    for at in 0..good.len() {
        for mask in (0..8).map(|bit| 1 << bit).chain([0xff]) {
            let mut flipped = good.clone();
            flipped[at] ^= mask;
            disk.put("CURRENT", &flipped);
            assert_eq!(found(&disk, "CURRENT"), None, "byte {at} with {mask:x}");
        }
        disk.put("CURRENT", &good[..at]);
        assert_eq!(found(&disk, "CURRENT"), None, "cut at {at}");
    }
    disk.put("CURRENT", &[&good[..], b"\n"].concat());
    assert_eq!(found(&disk, "CURRENT"), None);
}

#[test]
fn a_log_of_garbage_is_refused() {
    let (disk, _) = store();
    let name = logs(&disk).pop().unwrap();
    let refused = |bytes: &[u8]| {
        disk.put(&name, bytes);
        assert_eq!(found(&disk, &name), None);
        read(&disk.process(2)).unwrap_err().to_string()
    };
    let good = disk.contents(&name).unwrap();
    let path = format!("fake/{name}");
    assert_eq!(refused(&[0x5a; 5000]), format!("{path} is not a log of Vicus"));
    assert_eq!(refused(&[0; 5000]), format!("{path} is not a log of Vicus"));
    assert_eq!(refused(b""), format!("{path} is damaged at byte 0: it ends in its header"));
    let mut newer = good.clone();
    newer[8] = 9;
    assert_eq!(refused(&newer), format!("{path} has format 9, from a newer Vicus; this one reads formats up to 2"));
    let garbage = [&good[..], &[0x5a; 300]].concat();
    assert!(refused(&garbage).contains(&format!("damaged at byte {}: record 10 is not as it was written", good.len())));
    // A crash may leave zeros behind the last frame.
    disk.put(&name, &[&good[..], &[0; 300]].concat());
    assert_eq!(found(&disk, &name).unwrap().len(), 9);
}

#[test]
fn the_log_of_another_store_is_refused() {
    let (disk, _) = store();
    let other = FakeDisk::new(2);
    let mut store = StoreFiles::create(Arc::new(other.process(1)), KIND, 8).unwrap();
    store.log().stage(b"another store's");
    store.log().flush().unwrap();
    let name = logs(&disk).pop().unwrap();
    disk.put(&name, &other.contents("log-00000001").unwrap());
    let error = read(&disk.process(2)).unwrap_err();
    let what = "it says that it is segment 1 of store 0000000000000008";
    assert!(matches!(&error, DiskError::Damaged(damage) if damage.what.starts_with(what)), "{error}");
}
