//! What seats decide, as it was recorded: a change to seats or to dealing that changes a decision shows here.
//!
//! `decisions.txt` has a line for each kind of program, machine and strategy: how many decisions the seats made, how
//! long the runs took, and a hash of all decisions. A change that is meant to decide otherwise brings a new record.

use crate::strategies::{Chance, random};
use std::fmt::Write as _;
use std::path::Path;
use vicus_kernels::{NAMES, Pipeline, Size, by_name};
use vicus_schedule::{ALL, Kind, RequestId, Setting};
use vicus_sim::{
    Machine, Program, Recorder, Reenactment, Rehearsal, ReplayOptions, SimOptions, SimOutcome, Step, simulate,
};
use vicus_topology::fixtures;

/// The hash FNV-1a of Fowler, Noll and Vo.
fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Every strategy by its defaults, and settings that place tasks otherwise.
fn settings() -> Vec<Setting> {
    let others = [
        "bobox:boxes=immediate",
        "central:capacity=3",
        "footprint:share_bytes=4096,even=dealt",
        "footprint:undealt=beside",
        "locality-queues:capacity=2,domain=group",
        "locality-queues:pin=off",
        "shepherd:unplaced=own",
        "vicinity:private_bytes=4096,coarse=off",
        "vicus:deal_bytes=4096",
        "vicus:deal_bytes=4096,fan=0,crowd=0",
        "vicus:deal_bytes=4096,spread=0,warm=1,stretches=0",
        "vicus:pin=off",
        "vicus:spill=off",
    ];
    let all = ALL.iter().map(|strategy| strategy.name().to_owned()).chain(others.map(str::to_owned));
    all.map(|text| text.parse().unwrap()).collect()
}

/// A line of the record: of the runs of some programs on a machine under a strategy.
fn line(programs: &str, machine: &Machine, setting: &Setting, outcomes: &[SimOutcome]) -> String {
    let decisions: usize = outcomes.iter().flat_map(|outcome| &outcome.decisions).map(Vec::len).sum();
    let total_ns: f64 = outcomes.iter().map(|outcome| outcome.total_ns).sum();
    let all: String = outcomes.iter().map(|outcome| format!("{:?}", outcome.decisions)).collect();
    format!("{programs} {} {setting} {decisions} {total_ns:.0} {:016x}\n", machine.name, fnv_1a(&all))
}

/// A random program some of whose tasks are boxes, go to their data's node, or come from outside.
fn with_boxes(seed: u64) -> Program {
    let (mut program, mut chance) = (random(seed), Chance::new(seed));
    for (number, task) in program.tasks.iter_mut().enumerate().skip(1) {
        let is_leaf = task.steps.iter().all(|step| matches!(step, Step::Work(_)));
        task.goes_home = chance.below(4) == 0;
        task.outside = chance.below(10) == 0;
        task.spreads = task.kind == Kind::Deferred && chance.below(4) == 0;
        if is_leaf && task.pinned.is_none() && !task.outside && chance.below(2) == 0 {
            task.of_box = Some(number as u32);
            task.after.clear();
        }
        if chance.below(8) == 0 && task.request != RequestId::new(0) {
            task.released = Kind::Deferred;
        }
    }
    program.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    program
}

#[test]
fn every_decision_is_the_recorded_one() {
    let options = |seed| SimOptions { seed, decisions: true, ..SimOptions::default() };
    let mut now = String::new();
    for (name, threads) in [("opteron-6172", 48), ("tilepro64", 63), ("epyc-7763", 32)] {
        let machine = Machine::by_name(name).unwrap();
        let kernels = NAMES.iter().map(|kernel| by_name(kernel, Size::Times(0.002)).unwrap());
        let programs: Vec<Program> = kernels.map(|kernel| Recorder::record(&kernel, threads)).collect();
        for setting in settings() {
            let plan = machine.plan(&setting, threads);
            let run = |(program, seed)| simulate(&machine, &plan, program, &options(seed)).unwrap();
            let outcomes: Vec<SimOutcome> = programs.iter().zip(0..).map(run).collect();
            now += &line("kernels", &machine, &setting, &outcomes);
        }
    }
    for (number, topology) in fixtures().into_iter().enumerate() {
        let machine = Machine::from_topology(topology);
        let threads = machine.topology.usable_pus().count().min(20);
        for (at, setting) in settings().iter().enumerate() {
            let plan = machine.plan(setting, threads);
            let seed = (number * 100 + at) as u64;
            let run = |program| simulate(&machine, &plan, &program, &options(seed)).unwrap();
            now += &line("random", &machine, setting, &[random(seed), with_boxes(seed)].map(run));
        }
    }
    let pipeline = Rehearsal::of(&Pipeline::default().computing(1), |_| 0, |_, rows| 10 * rows).unwrap();
    let pipeline = Reenactment::of(&pipeline.trace, &ReplayOptions::default()).unwrap();
    for (name, threads) in [("core-i7-860", 8), ("opteron-6172", 48)] {
        let machine = Machine::by_name(name).unwrap();
        for setting in settings() {
            let plan = machine.plan(&setting, threads);
            let outcome = pipeline.simulate(&machine, &plan, &options(1), &mut |_| true).unwrap().0;
            now += &line("pipeline", &machine, &setting, &[outcome]);
        }
    }
    let recorded = include_str!("../decisions.txt");
    if now == recorded {
        return;
    }
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("decisions.txt");
    #[expect(clippy::disallowed_methods, reason = "the new record, for whoever reviews it")]
    std::fs::write(&written, &now).unwrap();
    let differ = recorded.lines().zip(now.lines()).filter(|(before, after)| before != after);
    let mut first = String::new();
    differ.clone().take(5).for_each(|(before, after)| write!(first, "\n- {before}\n+ {after}").unwrap());
    let lines = (differ.count(), recorded.lines().count(), now.lines().count());
    panic!("{lines:?} lines differ, are recorded, are now; {} has the latter:{first}", written.display());
}
