//! A fault at every operation, power loss, and the state found then.
//!
//! SQLite's tests do it like this (sqlite.org/testing.html, §3.2 and §3.3): the same program again and again, with the
//! n-th operation failing, for n from 0 until nothing fails.

use crate::model::{Run, read};
use vicus_files::{Failure, FakeDisk};

/// How many steps a program has.
const STEPS: u32 = 24;

/// How many programs there are: `VICUS_SEEDS` asks for more, in a long run.
fn seeds(usual: u64) -> u64 {
    option_env!("VICUS_SEEDS").map_or(usual, |seeds| seeds.parse().expect("VICUS_SEEDS is a number"))
}

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
    // Several ways to lose power here. The store must survive each of them, and go on.
    for crash in 0..3 {
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
    let created = match read(&disk.process(2)) {
        Ok(found) => {
            run.check(&found);
            true
        }
        Err(error) => {
            assert!(!run.is_created, "{error}");
            false
        }
    };
    run.is_created = created;
    run.open();
    assert!(run.is_created, "{run}");
    run.steps(4);
    assert_eq!(run.errors, [""; 0], "nothing fails any more");
    disk.crash(seed);
    run.check(&read(&disk.process(3)).expect("it was there"));
}

fn every_operation_fails(failure: Failure, until: usize) {
    for seed in 0..seeds(12) {
        let failed = (0..).take_while(|&at| run_with_failure(seed, at, failure, until)).count();
        assert!(failed > 40, "the program has many operations: {failed}");
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

/// Records in doubt when the disk failed must not come back after others were acknowledged in their place.
#[test]
fn nothing_acknowledged_is_lost_when_the_disk_comes_back() {
    for until in 1..4 {
        every_operation_fails(Failure::Errors, until);
    }
}

/// Only operations with a need for room fail: the programs' other operations leave no error.
#[test]
fn nothing_acknowledged_is_lost_when_the_disk_is_full_at_any_operation() {
    for seed in 0..seeds(12) {
        for at in 0..400 {
            run_with_failure(seed, at, Failure::Full, usize::MAX);
        }
    }
}

/// Recovery is written like everything else: power goes at each of its operations, and then at each of those of the
/// next one.
#[test]
fn a_crash_while_a_crash_is_recovered_loses_nothing() {
    for seed in 0..seeds(6) {
        let disk = FakeDisk::new(seed);
        let mut run = Run::new(&disk, seed);
        run.steps(STEPS);
        disk.crash(seed);
        for (first, second) in (0..60).flat_map(|first| (0..20).map(move |second| (first, second * 3))) {
            let disk = disk.copy();
            for (turn, at) in [first, second].into_iter().enumerate() {
                let mut again = Run::new(&disk, seed);
                (again.is_created, again.acknowledged) = (run.is_created, run.acknowledged.clone());
                disk.fail_after(at, if at % 2 == 0 { Failure::PowerLoss } else { Failure::Error });
                again.open();
                disk.crash(seed ^ at << 16 ^ (turn as u64) << 32);
            }
            eprintln!("seed {seed}, operations {first} and {second}");
            run.check(&read(&disk.process(9)).expect("it is a store"));
        }
    }
}

/// A disk that reports unfinished work as done can lose anything, but the records found were once acknowledged, in
/// order, or there is an error.
#[test]
fn a_lying_disk_loses_the_end_or_is_found_out() {
    let (mut lost, mut refused) = (0, 0);
    for seed in 0..300 {
        eprintln!("seed {seed}");
        let disk = FakeDisk::new(seed);
        let mut run = Run::new(&disk, seed);
        run.steps(3);
        disk.lie_about_syncs(true);
        run.steps(STEPS);
        disk.crash(seed);
        match read(&disk.process(2)) {
            Ok(found) => {
                assert!(run.acknowledged.starts_with(&found), "seed {seed}: {run}");
                lost += usize::from(found.len() < run.acknowledged.len());
            }
            Err(error) => {
                assert!(error.to_string().contains("fake/"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(lost > 0 && refused > 0, "{lost} lost, {refused} refused");
}

/// The same program on a disk with this number of bytes, for all of them: the store goes on when there is room again.
#[test]
fn a_full_disk_refuses_what_does_not_fit_and_nothing_else() {
    for (seed, room) in (0..6).flat_map(|seed| (0..60).map(move |room| (seed, room * 250))) {
        eprintln!("seed {seed}, {room} bytes");
        let disk = FakeDisk::new(seed);
        let mut run = Run::new(&disk, seed);
        run.open();
        disk.set_room(Some(room));
        run.steps(STEPS);
        let was_full = !run.errors.is_empty();
        let others = run.errors.iter().find(|error| !error.contains("no space left"));
        assert_eq!(others, None, "only room is missing");
        assert!(was_full || room > 1000, "the program needs more");
        assert!(run.in_doubt.is_empty(), "a refused commit is cut away, which needs no room");
        run.check(&read(&disk.process(2)).unwrap());
        disk.set_room(None);
        run.errors.clear();
        run.steps(6);
        assert_eq!(run.errors, [""; 0]);
        disk.crash(seed);
        run.check(&read(&disk.process(3)).unwrap());
    }
}
