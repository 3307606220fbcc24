//! Copies of a store in a simulated network that loses, delays, reorders and duplicates messages and cuts links in one
//! direction, on disks that lose power at any operation. Each schedule is decided by a seed.
//!
//! Built with `VICUS_SEEDS=10000`, it runs as many schedules, from the one of `VICUS_FIRST_SEED` on.

mod bad;
mod world;

use world::{Counts, World};

/// A number that was set when the test was built.
fn number(text: Option<&str>, usual: u64) -> u64 {
    text.map_or(usual, |text| text.parse().expect("it is a number"))
}

/// In each schedule: a copy's data is what its history of epochs says, for all copies alike; no sequence number is
/// acknowledged in two epochs; and nothing acknowledged by a writer and K ≥ 0 followers is lost when a copy is
/// promoted.
#[test]
fn nothing_confirmed_is_lost_in_any_schedule() {
    let schedules = number(option_env!("VICUS_SEEDS"), if cfg!(debug_assertions) { 40 } else { 400 });
    let first = number(option_env!("VICUS_FIRST_SEED"), 1);
    let mut all = Counts::default();
    for seed in first..first + schedules {
        let mut world = World::new(seed);
        world.run();
        all.add(&world.counts);
    }
    eprintln!("seeds {first} to {}: {all:?}", first + schedules - 1);
    if schedules >= 40 {
        all.check();
    }
}
