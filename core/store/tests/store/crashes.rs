//! A fault at every operation, power loss, and the state found then: as for core/disk, with data instead of records.

use crate::model::{Run, found};
use std::sync::Arc;
use vicus_disk::DiskError;
use vicus_files::scratch::is_scratch;
use vicus_files::{Failure, FakeDisk};
use vicus_rdf::Snapshot;
use vicus_store::StoreError;

const STEPS: u32 = 14;

/// Runs a program with a failure at its n-th operation, then loses power; `false` when it has fewer operations. If all
/// operations fail, they do so until the program was told `until` times.
fn run_with_failure(seed: u64, at: u64, failure: Failure, until: usize) -> bool {
    eprintln!("seed {seed}, operation {at}: {failure:?} until {until}");
    let disk = FakeDisk::new(seed ^ at << 32);
    disk.fail_after(at, failure);
    let mut run = Run::new(&disk, seed);
    for _ in 0..STEPS {
        run.steps(1);
        if run.errors.len() >= until {
            disk.heal();
        }
    }
    if disk.operations() <= at {
        assert_eq!(run.errors, [""; 0], "nothing has failed");
        return false;
    }
    for crash in 0..2 {
        let disk = disk.copy();
        disk.crash(crash ^ at << 8 ^ seed << 40);
        goes_on(&disk, &run, seed ^ crash);
    }
    true
}

/// Opens a store after a crash, checks it, works with it, and crashes again.
fn goes_on(disk: &FakeDisk, before: &Run, seed: u64) {
    let mut run = Run::new(disk, seed);
    (run.is_created, run.acknowledged, run.in_doubt) =
        (before.is_created, before.acknowledged.clone(), before.in_doubt.clone());
    run.is_created = match found(&disk.process(2)) {
        Ok(found) => {
            run.check(&found);
            true
        }
        Err(error) => {
            assert!(!run.is_created, "{error}");
            false
        }
    };
    run.open();
    assert!(run.is_created, "{:?}", run.errors);
    let leftovers: Vec<String> = disk.names().into_iter().filter(|name| is_scratch(name)).collect();
    assert_eq!(leftovers, [""; 0], "temporary files are gone when the store is opened");
    run.steps(3);
    assert_eq!(run.errors, [""; 0], "nothing fails any more");
    disk.crash(seed);
    run.check(&found(&disk.process(3)).expect("it was there"));
}

fn every_operation_fails(failure: Failure, until: usize) {
    let seeds = if cfg!(debug_assertions) { 4 } else { 20 };
    for seed in 0..seeds {
        let failed = (0..).take_while(|&at| run_with_failure(seed, at, failure, until)).count();
        assert!(failed > 20, "the program has many operations: {failed}");
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_power_goes_at_any_operation() {
    every_operation_fails(Failure::PowerLoss, usize::MAX);
}

#[test]
fn nothing_acknowledged_is_lost_when_any_operation_fails_once() {
    every_operation_fails(Failure::Error, usize::MAX);
}

#[test]
fn nothing_acknowledged_is_lost_when_the_disk_dies_at_any_operation() {
    every_operation_fails(Failure::Errors, usize::MAX);
}

/// A load published in doubt must not be found after changes built without it were acknowledged.
#[test]
fn nothing_acknowledged_is_lost_when_the_disk_comes_back() {
    for until in 1..3 {
        every_operation_fails(Failure::Errors, until);
    }
}

/// Only operations with a need for room fail, and the store is unchanged.
#[test]
fn a_full_disk_at_any_operation_leaves_the_store_as_it_was() {
    let seeds = if cfg!(debug_assertions) { 4 } else { 20 };
    for seed in 0..seeds {
        for at in 0..150 {
            run_with_failure(seed, at, Failure::Full, usize::MAX);
        }
    }
}

/// The same programs on a disk with this number of bytes: changes beyond them are refused, and the store goes on when
/// there is room again.
#[test]
fn a_full_disk_refuses_what_does_not_fit_and_nothing_else() {
    for (seed, room) in (0..3).flat_map(|seed| (0..25).map(move |room| (seed, room * 1500))) {
        eprintln!("seed {seed}, {room} bytes");
        let disk = FakeDisk::new(seed);
        let mut run = Run::new(&disk, seed);
        run.open();
        disk.set_room(Some(room));
        run.steps(STEPS);
        let others = run.errors.iter().find(|error| !error.contains("no space left"));
        assert_eq!(others, None, "only room is missing");
        assert!(run.in_doubt.is_empty(), "a refused commit is cut away, which needs no room");
        run.check(&found(&disk.process(2)).unwrap());
        disk.set_room(None);
        run.errors.clear();
        run.steps(6);
        assert_eq!(run.errors, [""; 0]);
        disk.crash(seed);
        run.check(&found(&disk.process(3)).unwrap());
    }
}

/// Long programs without faults but power loss at their end, again and again on the same store.
#[test]
fn a_store_is_the_set_of_quads_that_its_changes_make() {
    let mut done = [0; 5];
    let seeds = if cfg!(debug_assertions) { 6 } else { 40 };
    for seed in 0..seeds {
        eprintln!("seed {seed}");
        let disk = FakeDisk::new(seed);
        let mut run = Run::new(&disk, seed);
        for crash in 0..4 {
            run.steps(25);
            disk.crash(seed ^ crash << 20);
            run.check(&found(&disk.process(9)).unwrap());
            run.open();
        }
        assert_eq!(run.errors, [""; 0]);
        done.iter_mut().zip(run.done).for_each(|(sum, done)| *sum += done);
    }
    let [changes, loads, merges, backups, batches] = done;
    assert!(changes > 80 && loads > 10 && merges > 10 && backups > 5 && batches > 40, "{done:?}");
}

/// A copy once began with the manifest of an empty store. Interrupted, it was found as a store without quads, and a
/// second backup to the same folder was refused.
#[test]
fn a_copy_that_is_interrupted_at_any_operation_is_no_store_or_the_whole_one() {
    let text: String = (0..300).map(|n| format!("<http://e/{n}> <http://e/p> \"{n}\" .\n")).collect();
    let snapshot = Snapshot::of_ntriples(text.as_bytes()).unwrap();
    let copy =
        |disk: &FakeDisk, pid| vicus_store::copy(&snapshot, Arc::new(disk.process(pid)), 4712, 1 << 30, &mut |_| {});
    let mut outcomes = [0; 2];
    for failure in [Failure::PowerLoss, Failure::Error, Failure::Errors, Failure::Full] {
        for at in 0.. {
            let disk = FakeDisk::new(at);
            disk.fail_after(at, failure);
            let copied = copy(&disk, 1);
            let is_last = disk.operations() <= at;
            assert!(!is_last || copied.is_ok(), "{failure:?} at {at}");
            disk.heal();
            // As the process left it, and after power loss.
            for crash in 0..4 {
                let disk = disk.copy();
                match crash {
                    0 if failure != Failure::PowerLoss => disk.kill(),
                    _ => disk.crash(crash),
                }
                match found(&disk.process(2)) {
                    Ok(quads) => {
                        assert_eq!(quads.len(), 300, "{failure:?} at {at}");
                        outcomes[1] += 1;
                    }
                    Err(StoreError::Disk(DiskError::NoStore(_))) => {
                        assert!(copied.is_err(), "{failure:?} at {at}: what was acknowledged is there");
                        copy(&disk, 3).unwrap_or_else(|error| panic!("{failure:?} at {at}: again: {error}"));
                        disk.crash(crash);
                        assert_eq!(found(&disk.process(4)).unwrap().len(), 300, "{failure:?} at {at}: again");
                        outcomes[0] += 1;
                    }
                    Err(error) => panic!("{failure:?} at {at}: {error}"),
                }
            }
            if is_last {
                break;
            }
        }
    }
    assert!(outcomes.iter().all(|&count| count > 20), "{outcomes:?}");
}
