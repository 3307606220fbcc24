//! Every plan as it was recorded: a change to the code that builds and prints plans shows here.
//!
//! `plans.txt` has each strategy's plan for a small machine as text, then a line for each setting: a hash of its plans'
//! texts on all fixtures. A strategy that is meant to change brings a new record, and its diff is read in review.

use crate::interpreted::settings;
use std::fmt::Write as _;
use std::path::Path;
use vicus_schedule::{ALL, Setting};
use vicus_topology::{Topology, fixtures};

/// The hash FNV-1a of Fowler, Noll and Vo.
fn fnv_1a(text: &str, start: u64) -> u64 {
    text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

const FNV_START: u64 = 0xCBF2_9CE4_8422_2325;

#[test]
fn every_plan_is_the_recorded_one() {
    let mut now = String::new();
    let small = Topology::parse("node:2 l3:2 core:1").unwrap();
    for strategy in ALL {
        let plan = strategy.name().parse::<Setting>().unwrap().plan(&small, 4);
        writeln!(now, "== 4 threads of {}, {plan}", small.name).unwrap();
    }
    let machines = fixtures();
    for (index, setting) in settings().iter().enumerate() {
        let mut hash = FNV_START;
        for (at, machine) in machines.iter().enumerate() {
            let threads = [1, 3, 7, 24][(index + at) % 4].min(machine.usable_pus().count());
            let plan = setting.plan(machine, threads);
            hash = fnv_1a(&plan.to_string(), hash);
            hash = fnv_1a(&plan.with_front().to_string(), hash);
        }
        writeln!(now, "{hash:016x} {setting}").unwrap();
    }
    let recorded = include_str!("../plans.txt");
    if now == recorded {
        return;
    }
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plans.txt");
    #[expect(clippy::disallowed_methods, reason = "the new record, for whoever reviews it")]
    std::fs::write(&written, &now).unwrap();
    let differs = recorded.lines().zip(now.lines()).find(|(before, after)| before != after);
    panic!(
        "{differs:?} and perhaps more: {} has the plans of this code, tests/plans.txt the record",
        written.display()
    );
}
