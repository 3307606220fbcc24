//! Recorded runs of live models, re-enacted under every strategy.

mod mutated;
mod recording;

use recording::{PART, fan, limited, parts, record, streams};
use vicus_flow::BoxCounts;
use vicus_schedule::{ALL, Setting};
use vicus_sim::{
    Machine, Parameters, Reenacted, Reenactment, Rehearsal, Replay, ReplayOptions, SimOptions, SimOutcome, simulate,
};
use vicus_topology::Topology;
use vicus_trace::{TaskKind, Trace, What};

fn enact(
    machine: &Machine,
    strategy: &str,
    threads: usize,
    reenactment: &Reenactment,
    options: &SimOptions,
) -> (SimOutcome, Reenacted) {
    let plan = strategy.parse::<Setting>().unwrap().plan(&machine.topology, threads);
    let done = reenactment.simulate(machine, &plan, options, &mut |_| true);
    done.unwrap_or_else(|error| panic!("{strategy} on {threads} threads: {error}"))
}

/// Rows in and out of each box: they have to be the same under every schedule.
fn rows(counts: &[BoxCounts]) -> Vec<(u64, u64)> {
    counts.iter().map(|counts| (counts.rows_taken(), counts.rows_sent())).collect()
}

/// Only work takes time.
fn free_of_cost() -> SimOptions {
    let parameters = Parameters {
        spawn_cycles: 0.0,
        take_cycles: 0.0,
        steal_cycles: 0.0,
        deal_cycles: 0.0,
        stretch_cycles: 0.0,
        wake_ns: 0.0,
        jitter: 0.0,
        own_cycles: 0.0,
        ..Parameters::default()
    };
    SimOptions { parameters, ..SimOptions::default() }
}

#[test]
fn everything_ends_under_every_strategy_with_the_recorded_rows_and_work() {
    let machine = Machine::by_name("opteron-6172").unwrap();
    for seed in 0..3 {
        let Rehearsal { trace, counts, work_ns, invocations } = record(&streams(2, 60), seed);
        let reenactment = Reenactment::of(&trace, &ReplayOptions { copies: 2, ..ReplayOptions::default() }).unwrap();
        let work_ns = 2.0 * work_ns as f64;
        assert_eq!((reenactment.recorded_ns, reenactment.invocations), (work_ns, 2 * invocations), "seed {seed}");
        for strategy in ALL.map(|strategy| strategy.name()) {
            for threads in [1, 2, 48] {
                let (outcome, again) = enact(&machine, strategy, threads, &reenactment, &SimOptions::default());
                let what = format!("{strategy} on {threads} threads, seed {seed}");
                assert_eq!(again.requests.len(), 2, "{what}");
                for (request, counted) in &again.requests {
                    assert_eq!((*request, rows(counted)), (3, rows(&counts)), "{what}");
                }
                assert!((again.work_ns / work_ns - 1.0).abs() < 1e-9, "{what}: {} of {work_ns}", again.work_ns);
                assert_eq!(again.invocations + 1, outcome.counts.tasks, "{what}: the first task submits");
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_byte_for_byte() {
    let machine = Machine::by_name("opteron-6172").unwrap();
    let reenactment = Reenactment::of(&record(&streams(2, 40), 1).trace, &ReplayOptions::default()).unwrap();
    for strategy in ALL.map(|strategy| strategy.name()) {
        let written = |seed| {
            let options = SimOptions { seed, trace: Some(1 << 14), ..SimOptions::default() };
            let trace = enact(&machine, strategy, 12, &reenactment, &options).0.trace.unwrap();
            assert_eq!((trace.lost(), trace.check().first()), (0, None), "{strategy}");
            let mut file = Vec::new();
            trace.write_to(&mut file).unwrap();
            file
        };
        assert!(written(5) == written(5), "{strategy}");
    }
}

#[test]
fn one_thread_takes_as_long_as_the_work_and_several_less() {
    let machine = Machine::from_topology(Topology::parse("node:1 core:8").unwrap());
    // Envelopes without columns have no bytes.
    let Rehearsal { trace, work_ns, .. } = record(&streams(0, 200), 4);
    let reenactment = Reenactment::of(&trace, &ReplayOptions::default()).unwrap();
    assert_eq!(reenactment.taken_off_ns, 0.0);
    let wall = |strategy, threads| enact(&machine, strategy, threads, &reenactment, &free_of_cost()).0.wall_ns;
    for strategy in ["las", "steal", "central"] {
        let alone = wall(strategy, 1);
        // Each piece of work is rounded to picoseconds.
        assert!((alone - work_ns as f64).abs() < 10.0, "{strategy}: {alone} ns, {work_ns} ns recorded");
        // The four streams have 40 ns of about 80 for each row.
        let parallel = wall(strategy, 8);
        assert!(parallel < 0.6 * alone, "{strategy}: {parallel} ns on eight threads, {alone} on one");
    }
}

/// A thread reuses the memory of small envelopes, so that their bytes don't come from main memory each time.
#[test]
fn envelopes_lie_in_heaps() {
    let machine = Machine::by_name("core-i7-860").unwrap();
    let Rehearsal { trace, .. } = record(&streams(8, 400), 3);
    let (mut small, mut large) = (0.0, 0.0);
    for entry in trace.merged() {
        if let What::EnvelopeCreated { bytes, .. } = entry.event.what {
            *(if bytes > 8192 { &mut large } else { &mut small }) += f64::from(bytes);
        }
    }
    assert!(small > 4e6, "there are {small} bytes");
    let reenactment = Reenactment::of(&trace, &ReplayOptions::default()).unwrap();
    let counts = enact(&machine, "las", 1, &reenactment, &SimOptions::default()).0.counts;
    let moved = counts.near_bytes + counts.far_bytes;
    // Bytes written back by caches count as well.
    assert!(
        moved < 2.0 * large + small / 4.0,
        "{moved} bytes moved, {small} in small envelopes and {large} in large ones"
    );
}

/// The join reads its table for each row of the stream, as in a replay, however the rows are divided among invocations.
#[test]
fn what_boxes_keep_is_memory() {
    let machine = Machine::by_name("xeon-e7-4820").unwrap();
    let Rehearsal { trace, .. } = record(&streams(8, 400), 3);
    let touched = |state_bytes_per_row: u64, threads: usize| {
        let options = ReplayOptions { state_bytes_per_row, ..ReplayOptions::default() };
        let reenactment = Reenactment::of(&trace, &options).unwrap();
        let replay = Replay::of(&trace, &options).unwrap();
        let differ = (reenactment.taken_off_ns - replay.taken_off_ns).abs();
        assert!(differ < 1e-3, "{} ns taken off, and {}", reenactment.taken_off_ns, replay.taken_off_ns);
        let counts = enact(&machine, "las", threads, &reenactment, &free_of_cost()).0.counts;
        counts.near_bytes + counts.far_bytes + counts.cached_bytes
    };
    let rows: u64 = (0..400).map(|at| 50 + at % 7).sum();
    for threads in [1, 16] {
        let more = touched(64, threads) - touched(0, threads);
        // Each row is looked up. Boxes that collect rows read these as well, but at most as many as they take.
        let least = 0.9 * 64.0 * rows as f64;
        assert!(more > least, "{more} bytes more on {threads} threads, at least {least} expected");
    }
}

/// A request recorded while spreading has two copies: neither spreads beside the other; the remaining one then does.
#[test]
fn a_request_spreads_while_it_is_alone() {
    let machine = Machine::by_name("core-i7-860").unwrap();
    let recorded = record(&fan(200), 1).trace;
    let both = ReplayOptions { copies: 2, ..ReplayOptions::default() };
    let (replay, reenactment) = (Replay::of(&recorded, &both).unwrap(), Reenactment::of(&recorded, &both).unwrap());
    let options = SimOptions { trace: Some(1 << 16), ..SimOptions::default() };
    for threads in [1, 4] {
        let plan = "las".parse::<Setting>().unwrap().plan(&machine.topology, threads);
        let replayed = simulate(&machine, &plan, &replay.program, &options).unwrap();
        let enacted = enact(&machine, "las", threads, &reenactment, &options).0;
        for (what, outcome) in [("replayed", replayed), ("enacted", enacted)] {
            let trace = outcome.trace.unwrap();
            // A simulated trace has a box for each invocation.
            let boxes = &trace.header().models[0].boxes;
            let is_reader = |index: u32| boxes.get(index as usize).is_some_and(|info| info.type_name == "work");
            // A request's readers of its envelopes queued in either way, before the other request is over and after
            // that.
            let mut readers = std::collections::BTreeMap::<(u32, bool), [u32; 2]>::new();
            let mut is_one_over = false;
            for entry in trace.merged() {
                match entry.event.what {
                    What::Enqueued { who, kind, by } if is_reader(who.index) && !is_reader(by) => {
                        let kinds = readers.entry((who.request, is_one_over)).or_default();
                        kinds[usize::from(kind == TaskKind::Deferred)] += 1;
                    }
                    What::RequestEnded { request: 3 | 7, .. } => is_one_over = true,
                    _ => {}
                }
            }
            // Copies' requests are numbered so far apart as the trace has requests: 3, and 7.
            let text = format!("{what} on {threads} threads: {readers:?}");
            let deferred = |is_one_over: bool| -> u32 {
                [3, 7].map(|request| readers.get(&(request, is_one_over)).map_or(0, |kinds| kinds[1])).iter().sum()
            };
            assert_eq!(deferred(false), 0, "{text}");
            assert!(deferred(true) > 0, "{text}");
        }
    }
}

/// A splitter's envelopes give the place of their described parts; those of any other box don't. Seats don't search for
/// work pushed to another seat.
#[test]
fn parts_of_the_store_are_read_where_they_lie() {
    let machine = Machine::by_name("xeon-e7-4820").unwrap();
    let Rehearsal { trace, .. } = record(&parts(), 1);
    let far = |splitter: &str| {
        let mut header = trace.header().clone();
        for info in header.models.iter_mut().flat_map(|model| &mut model.boxes).filter(|info| info.type_name == "split")
        {
            info.type_name = splitter.to_owned();
        }
        let trace = Trace::new(header, trace.logs().to_vec());
        let reenactment = Reenactment::of(&trace, &ReplayOptions::default()).unwrap();
        enact(&machine, "las:spin_ns=0", 64, &reenactment, &free_of_cost()).0.counts.far_bytes
    };
    let (with, without) = (far("split"), far("other"));
    // The splitter's seat looks for work before the woken seats are awake, and may take one part.
    let parts = |bytes: f64| (bytes / PART as f64).round();
    assert!(parts(with) <= 1.0, "{with} bytes far with homes");
    assert_eq!(parts(without), 3.0, "{without} bytes far without");
}

/// Invocations are divided anew: recorded on one seat with full vias, and re-enacted on many.
#[test]
fn invocations_depend_on_the_strategy_and_the_threads() {
    let machine = Machine::by_name("opteron-6172").unwrap();
    let reenactment = Reenactment::of(&record(&streams(2, 200), 2).trace, &ReplayOptions::default()).unwrap();
    let counts: Vec<u64> = [("las", 1), ("central", 1), ("las", 48), ("central", 48)]
        .map(|(strategy, threads)| {
            enact(&machine, strategy, threads, &reenactment, &SimOptions::default()).1.invocations
        })
        .into();
    let different: std::collections::BTreeSet<u64> = counts.iter().copied().collect();
    assert!(different.len() > 1, "{counts:?}");
}

/// A reader with enough rows stops its sender: the sender's work until then is repeated.
#[test]
fn work_before_an_early_end_is_repeated() {
    let machine = Machine::by_name("core-i7-860").unwrap();
    let Rehearsal { trace, counts, work_ns, .. } = record(&limited(), 7);
    let sent = |counts: &[BoxCounts]| -> Vec<u64> { counts.iter().map(BoxCounts::rows_sent).collect() };
    assert!(sent(&counts)[1] < 50_000, "the source was stopped");
    // It takes the second envelope, and closes its input at once.
    let taken = |what| matches!(what, What::EnvelopeReceived { who, .. } if who.index == 2);
    assert_eq!(trace.merged().filter(|entry| taken(entry.event.what)).count(), 2);
    let reenactment = Reenactment::of(&trace, &ReplayOptions::default()).unwrap();
    for strategy in ALL.map(|strategy| strategy.name()) {
        for threads in [1, 4] {
            let (_, again) = enact(&machine, strategy, threads, &reenactment, &SimOptions::default());
            assert_eq!(sent(&again.requests[0].1), sent(&counts), "{strategy} on {threads} threads");
            assert!((again.work_ns / work_ns as f64 - 1.0).abs() < 1e-9, "{} of {work_ns}", again.work_ns);
        }
    }
}
