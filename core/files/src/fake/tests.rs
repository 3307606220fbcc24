//! The fake's promises to the tests that use it.

use super::*;

fn with_a_file(disk: &FakeDisk) -> (FakeDirectory, Arc<dyn File>) {
    let directory = disk.process(1);
    let file = directory.create("a").unwrap();
    file.sync().unwrap();
    directory.sync().unwrap();
    (directory, file)
}

#[test]
fn the_fake_does_what_every_directory_does() {
    crate::conformance::check(&FakeDisk::new(1).process(4711));
}

#[test]
fn what_was_synced_survives_every_crash() {
    for seed in 0..50 {
        let disk = FakeDisk::new(seed);
        let (directory, file) = with_a_file(&disk);
        file.write_at(0, &[1; 2000]).unwrap();
        file.sync().unwrap();
        directory.create("b").unwrap();
        disk.crash(seed);
        assert_eq!(disk.contents("a"), Some(vec![1; 2000]), "seed {seed}");
        assert_eq!(disk.names().first().map(String::as_str), Some("a"));
    }
}

/// All possible states of two sectors written twice each: each by itself is before, between or after.
#[test]
fn what_was_not_synced_is_torn_by_sectors_in_all_ways() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let disk = FakeDisk::new(0);
        let (_, file) = with_a_file(&disk);
        file.write_at(0, &[1; 1024]).unwrap();
        file.sync().unwrap();
        file.write_at(0, &[2; 1024]).unwrap();
        file.write_at(0, &[3; 1024]).unwrap();
        disk.crash(seed);
        let after = disk.contents("a").unwrap();
        assert_eq!(after.len(), 1024);
        let (first, second) = after.split_at(512);
        assert!(first.iter().all(|&byte| byte == first[0]) && second.iter().all(|&byte| byte == second[0]));
        seen.insert((first[0], second[0]));
    }
    assert_eq!(seen.len(), 9, "{seen:?}");
}

#[test]
fn a_file_that_grew_has_one_of_its_lengths_and_zeros_where_nothing_was_written() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let disk = FakeDisk::new(0);
        let (_, file) = with_a_file(&disk);
        file.write_at(0, &[1; 700]).unwrap();
        file.set_len(100).unwrap();
        file.write_at(1500, &[2; 500]).unwrap();
        disk.crash(seed);
        let after = disk.contents("a").unwrap();
        lengths.insert(after.len());
        assert!(after.iter().take(1500).all(|&byte| byte < 2) && after.iter().skip(1500).all(|&byte| byte != 1));
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [0, 100, 700, 2000]);
}

#[test]
fn names_that_were_not_synced_come_back_in_any_combination() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let disk = FakeDisk::new(0);
        let (directory, _) = with_a_file(&disk);
        directory.create("b").unwrap();
        directory.rename("b", "c").unwrap();
        directory.remove("a").unwrap();
        disk.crash(seed);
        seen.insert(disk.names().concat());
    }
    let all = ["", "a", "ab", "ac", "b", "c"];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}

/// Linux marks pages clean when they could not be written, so the next sync returns as if all was well.
#[test]
fn a_sync_after_a_failed_one_says_nothing_about_the_bytes_before() {
    let mut lost = 0;
    for seed in 0..50 {
        let disk = FakeDisk::new(seed);
        let (_, file) = with_a_file(&disk);
        file.write_at(0, &[1; 4096]).unwrap();
        disk.fail_after(0, Failure::Error);
        assert_eq!(file.sync().unwrap_err().operation, FileOperation::Sync);
        file.sync().unwrap();
        assert_eq!(disk.contents("a").unwrap(), [1; 4096], "it reads as if it were written");
        disk.crash(seed);
        lost += u32::from(disk.contents("a").unwrap() != [1; 4096]);
    }
    assert!((10..50).contains(&lost), "{lost}");
}

#[test]
fn every_operation_can_be_the_one_that_fails() {
    let run = |disk: &FakeDisk| -> Result<(), FileError> {
        let directory = disk.process(1);
        let file = directory.create("a")?;
        file.write_at(0, b"bytes")?;
        file.sync()?;
        directory.rename("a", "b")?;
        directory.sync()?;
        directory.map("b").map(drop)
    };
    for failure in [Failure::Error, Failure::Errors, Failure::PowerLoss] {
        for at in 0.. {
            let disk = FakeDisk::new(at);
            disk.fail_after(at, failure);
            let outcome = run(&disk);
            assert_eq!(outcome.is_ok(), at == 6, "{failure:?} at {at}: {outcome:?}");
            if outcome.is_ok() {
                break;
            }
            let more = disk.process(1).list();
            assert_eq!(more.is_ok(), failure == Failure::Error, "{failure:?} at {at}: {more:?}");
            disk.crash(at);
            disk.process(1).list().unwrap();
        }
    }
}

#[test]
fn a_full_disk_takes_what_fits() {
    let disk = FakeDisk::new(0);
    let (directory, file) = with_a_file(&disk);
    disk.set_room(Some(10));
    let full = file.write_at(0, &[1; 12]).unwrap_err();
    assert!(full.is_full(), "{full}");
    assert_eq!(file.len().unwrap(), 10);
    file.write_at(0, &[2; 10]).expect("no more room is needed");
    assert!(directory.create("b").unwrap().write_at(0, &[0]).unwrap_err().is_full());
    file.set_len(4).unwrap();
    file.write_at(4, &[3; 6]).unwrap();
    directory.remove("a").unwrap();
    let other = directory.open("b", OpenMode::Write).unwrap();
    assert!(other.write_at(0, &[0]).unwrap_err().is_full(), "a file that is open takes its room without a name, too");
    drop(file);
    other.write_at(0, &[0; 10]).unwrap();
}

#[test]
fn a_lying_disk_loses_what_it_said_was_synced() {
    let disk = FakeDisk::new(0);
    let (directory, file) = with_a_file(&disk);
    disk.lie_about_syncs(true);
    file.write_at(0, b"bytes").unwrap();
    file.sync().unwrap();
    directory.sync().unwrap();
    let lost = (0..20).filter(|&seed| {
        let disk = disk.copy();
        disk.crash(seed);
        disk.contents("a").unwrap() != b"bytes"
    });
    assert!(lost.count() > 0);
}

#[test]
fn the_dead_hold_no_locks_and_open_no_files() {
    let disk = FakeDisk::new(0);
    let (directory, file) = with_a_file(&disk);
    let lock = directory.lock("lock").unwrap();
    let refused = disk.process(2).lock("lock").unwrap_err();
    assert!(matches!(refused, LockError::Held { by: Some(1), .. }));
    disk.kill();
    assert!(file.write_at(0, b"x").is_err() && directory.list().is_err());
    let second = disk.process(2).lock("lock").expect("the first has ended");
    drop(lock);
    assert!(disk.process(3).lock("lock").is_err(), "dropping the first's lock doesn't end the second's");
    drop(second);
}
