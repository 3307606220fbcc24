//! The log: the cost of one sync, the segments that stay, the report of a failure.

use crate::model::{KIND, Records, read};
use std::sync::Arc;
use vicus_disk::{BaseEntry, DiskError, StoreFiles};
use vicus_files::{Failure, FakeDisk};

fn create(disk: &FakeDisk) -> StoreFiles {
    StoreFiles::create(Arc::new(disk.process(1)), KIND, 7).unwrap()
}

/// A base file of these records, published.
pub(crate) fn publish(store: &mut StoreFiles, records: &[&[u8]]) {
    try_publish(store, records).unwrap();
}

pub(crate) fn try_publish(store: &mut StoreFiles, records: &[&[u8]]) -> Result<(), DiskError> {
    let (name, mut writer) = store.write_base("all")?;
    writer.begin("lengths")?;
    writer.write_words(&records.iter().map(|record| record.len() as u64).collect::<Vec<_>>())?;
    writer.begin("bytes")?;
    records.iter().try_for_each(|record| writer.write(record))?;
    let fingerprint = writer.finish()?;
    store.publish(records.len() as u64, vec![BaseEntry { name, fingerprint }]).map_err(|refused| refused.error)
}

fn logs(disk: &FakeDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.starts_with("log-")).collect()
}

#[test]
fn many_records_share_one_write_and_one_sync() {
    let disk = FakeDisk::new(1);
    let mut store = create(&disk);
    store.log().stage(b"first");
    store.log().flush().unwrap();
    let before = disk.operations();
    (0..1000_u32).for_each(|number| {
        store.log().stage(&number.to_le_bytes());
    });
    assert_eq!(store.log().flush().unwrap(), 1001);
    assert_eq!(disk.operations() - before, 2, "a write and a sync");
    assert_eq!(store.log().flush().unwrap(), 1001);
    assert_eq!(disk.operations() - before, 2, "nothing was staged");
    let found = read(&disk.process(2)).unwrap();
    assert_eq!(found[1000], 999_u32.to_le_bytes());
}

#[test]
fn segments_are_removed_when_a_base_has_what_is_in_them() {
    let disk = FakeDisk::new(1);
    let mut store = create(&disk);
    store.log().set_segment_bytes(1);
    let records: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];
    for record in records {
        store.log().stage(record);
        store.log().flush().unwrap();
    }
    assert_eq!(logs(&disk), ["log-00000001", "log-00000002", "log-00000003", "log-00000004", "log-00000005"]);
    publish(&mut store, &records[..3]);
    assert_eq!(logs(&disk), ["log-00000004", "log-00000005"]);
    assert_eq!(disk.names().iter().filter(|name| name.starts_with("base-")).count(), 1);
    publish(&mut store, &records);
    assert_eq!(logs(&disk), ["log-00000005"], "it is the one that is written");
    store.log().rotate();
    publish(&mut store, &records);
    assert_eq!(logs(&disk), [""; 0]);
    store.log().stage(b"f");
    assert_eq!(store.log().flush().unwrap(), 6);
    assert_eq!(logs(&disk), ["log-00000006"], "numbers are not used again");
    assert_eq!(read(&disk.process(2)).unwrap().concat(), b"abcdef");
}

#[test]
fn a_refused_record_is_surely_gone_and_its_place_is_taken() {
    for (seed, failing) in (0..20).flat_map(|seed| (0..2).map(move |failing| (seed, failing))) {
        eprintln!("seed {seed}, operation {failing}");
        let disk = FakeDisk::new(seed);
        let mut store = create(&disk);
        store.log().stage(b"first");
        store.log().flush().unwrap();
        store.log().stage(b"refused");
        disk.fail_after(failing, Failure::Error);
        let refusal = store.log().flush().unwrap_err();
        assert!(!refusal.in_doubt && refusal.to_string().contains("fake/log-00000001"), "{refusal}");
        let without = disk.copy();
        without.crash(seed);
        assert_eq!(read(&without.process(2)).unwrap(), [b"first"]);
        store.log().stage(b"second");
        assert_eq!(store.log().flush().unwrap(), 2);
        assert_eq!(logs(&disk).len(), 2, "the segment in which something failed is not written again");
        disk.crash(seed);
        let expected: Records = vec![b"first".to_vec(), b"second".to_vec()];
        assert_eq!(read(&disk.process(2)).unwrap(), expected);
    }
}

/// The case without the manifest's number of the first segment: three records are in doubt in segment 1, one takes
/// their place in segment 2, a base includes that one, and both segments are removed. After power loss segment 1 is
/// back alone: its second and third record would follow the base.
#[test]
fn a_segment_in_doubt_does_not_come_back_behind_a_base() {
    let mut back = 0;
    for seed in 0..100 {
        let disk = FakeDisk::new(seed);
        let mut store = create(&disk);
        [b"x1", b"x2", b"x3"].iter().for_each(|record| {
            store.log().stage(*record);
        });
        // The segment is created, written, synced and renamed; the directory's sync fails, and so does taking it back.
        disk.fail_after(4, Failure::Errors);
        let refusal = store.log().flush().unwrap_err();
        assert!(refusal.in_doubt && refusal.to_string().contains("may be found when the store is opened again"));
        disk.heal();
        store.log().stage(b"y1");
        assert_eq!(store.log().flush().unwrap(), 1);
        store.log().rotate();
        publish(&mut store, &[b"y1"]);
        assert_eq!(logs(&disk), [""; 0]);
        disk.crash(seed);
        back += u32::from(logs(&disk) == ["log-00000001"]);
        assert_eq!(read(&disk.process(2)).unwrap(), [b"y1"], "seed {seed}");
    }
    assert!(back > 0, "it came back");
}

/// The length of the log's only segment.
fn length(disk: &FakeDisk) -> usize {
    let [name] = &logs(disk)[..] else { panic!("one segment") };
    disk.contents(name).unwrap().len()
}

/// A sync of a longer file takes more time than one of overwritten bytes.
#[test]
fn a_segment_that_goes_on_has_room_so_that_few_records_make_it_longer() {
    let disk = FakeDisk::new(1);
    let mut store = create(&disk);
    store.log().stage(b"first");
    store.log().flush().unwrap();
    assert!(length(&disk) < 200, "one record has no room behind it: {}", length(&disk));
    let (mut longer, mut last, before) = (0, length(&disk), disk.operations());
    for number in 0..5000_u64 {
        store.log().stage(&[number.to_le_bytes(); 10].concat());
        store.log().flush().unwrap();
        let now = length(&disk);
        longer += u32::from(now != std::mem::replace(&mut last, now));
    }
    assert_eq!(disk.operations() - before, 2 * 5000, "a write and a sync each");
    assert!((2..12).contains(&longer), "{longer} of 5000");
    // 24 bytes of each frame's header, 8 of each record's, and 8 at the end.
    let frames = 5001 * (24 + 8 + 80 + 8);
    assert!(last < frames + (257 << 10), "{last}");
    disk.crash(1);
    let found = read(&disk.process(2)).unwrap();
    assert_eq!(found.len(), 5001);
    assert_eq!(found[5000], [4999_u64.to_le_bytes(); 10].concat());
}

/// A segment that is not written any more ends with its last frame.
#[test]
fn room_is_cut_off_when_a_log_is_closed_or_goes_on_in_another_segment() {
    let disk = FakeDisk::new(1);
    let mut store = create(&disk);
    for number in 0..12_u8 {
        if number % 4 == 0 {
            store.log().rotate();
        }
        store.log().stage(&[number; 50]);
        store.log().flush().unwrap();
        let lengths: Vec<usize> = logs(&disk).iter().map(|name| disk.contents(name).unwrap().len()).collect();
        let (last, others) = lengths.split_last().unwrap();
        assert!(others.iter().all(|&length| length < 500), "{lengths:?}");
        assert_eq!(*last > 500, number % 4 > 0, "{lengths:?}");
    }
    drop(store);
    assert!(logs(&disk).iter().all(|name| disk.contents(name).unwrap().len() < 500), "{disk:?}");
    assert_eq!(read(&disk.process(2)).unwrap().len(), 12);
}

/// A disk with room for a frame, but not for room behind it, takes the frame.
#[test]
fn a_frame_that_fits_on_a_disk_is_written_though_no_room_fits_behind_it() {
    let disk = FakeDisk::new(1);
    let mut store = create(&disk);
    store.log().stage(b"first");
    store.log().flush().unwrap();
    disk.set_room(Some(300));
    for record in [&b"second"[..], b"third"] {
        store.log().stage(record);
        store.log().flush().unwrap();
    }
    store.log().stage(&[7; 300]);
    let refusal = store.log().flush().unwrap_err();
    assert!(!refusal.in_doubt && refusal.error.is_full(), "{refusal}");
    disk.crash(1);
    assert_eq!(read(&disk.process(2)).unwrap(), [&b"first"[..], b"second", b"third"]);
}

/// The bytes of a frame in the place of room appear one after the other, before a reader as well as after a `kill -9`.
#[test]
fn a_frame_of_which_only_the_first_bytes_are_there_is_not_there() {
    let records = [&b"first"[..], b"second", &[0; 1100], &[0xa5; 90], b""];
    for place in 2..records.len() {
        let disk = FakeDisk::new(1);
        let mut store = create(&disk);
        for record in &records[..place] {
            store.log().stage(record);
            store.log().flush().unwrap();
        }
        let before = disk.contents("log-00000001").unwrap();
        store.log().stage(records[place]);
        store.log().flush().unwrap();
        let after = disk.contents("log-00000001").unwrap();
        disk.kill();
        drop(store);
        assert_eq!(before.len(), after.len(), "there was room");
        let begin = before.iter().zip(&after).position(|(before, after)| before != after).unwrap();
        let end = after.iter().rposition(|&byte| byte != 0).unwrap() + 1;
        for at in begin..=end {
            disk.put("log-00000001", &[&after[..at], &before[at..]].concat());
            let found = read(&disk.process(2)).unwrap_or_else(|error| panic!("{at} of {begin}..{end}: {error}"));
            assert!(found == records[..place] || found == records[..=place], "{at} of {begin}..{end}");
            assert!(
                found == records[..=place] || at < end - 1,
                "only the last byte is missing, which belongs to no record"
            );
        }
    }
}
