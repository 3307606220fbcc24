//! Damaged traces end in an error with a place, or in a run, and never in a panic.

use super::recording::{limited, record, streams};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::panic::{AssertUnwindSafe, catch_unwind};
use vicus_schedule::Setting;
use vicus_sim::{Machine, Reenactment, Replay, ReplayError, ReplayOptions, SimError, SimOptions, simulate};
use vicus_topology::Topology;
use vicus_trace::{BoxInfo, Event, Header, InputSource, Trace, What};

struct Chance(Pcg64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end.max(1) as u64) as usize
    }

    /// A small number, a large one, or one nearby.
    fn number(&mut self, near: u64) -> u64 {
        match self.below(5) {
            0 => self.below(4) as u64,
            1 => u64::MAX >> self.below(64),
            2 => near.wrapping_add(1),
            3 => near.wrapping_sub(1),
            _ => self.0.next_u64(),
        }
    }
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut file = Vec::new();
    trace.write_to(&mut file).unwrap();
    file
}

/// Bytes of the file, changed, cut off or doubled.
fn damaged_bytes(chance: &mut Chance, trace: &Trace) -> Vec<u8> {
    let mut file = written(trace);
    for _ in 0..1 + chance.below(3) {
        let at = chance.below(file.len());
        match chance.below(4) {
            0 => file.truncate(at),
            1 => file[at] = chance.below(256) as u8,
            2 => file[at] ^= 1 << chance.below(8),
            _ => {
                let upto = (at + 32).min(file.len());
                let copy = file[at..upto].to_vec();
                let to = chance.below(file.len() - copy.len() + 1);
                file[to..to + copy.len()].copy_from_slice(&copy);
            }
        }
        if file.is_empty() {
            break;
        }
    }
    file
}

/// A header and events, each well formed by itself.
fn damaged_trace(chance: &mut Chance, trace: &Trace) -> Trace {
    let (mut header, mut logs) = (trace.header().clone(), trace.logs().to_vec());
    for _ in 0..1 + chance.below(3) {
        let events = &mut logs[0].events;
        if events.is_empty() {
            break;
        }
        let at = chance.below(events.len());
        match chance.below(7) {
            0 => drop(events.remove(at)),
            1 => events.insert(at, events[chance.below(events.len())]),
            2 => {
                let other = chance.below(events.len());
                (events[at].what, events[other].what) = (events[other].what, events[at].what);
            }
            3 => events[at].time_ns = chance.number(events[at].time_ns),
            4 => events[at].what = changed(chance, events[at].what),
            5 => events.truncate(at + 1),
            _ => damage_header(chance, &mut header),
        }
    }
    Trace::new(header, logs)
}

/// The event with one of its numbers changed, if it is still an event.
fn changed(chance: &mut Chance, what: What) -> What {
    let mut bytes = Event { time_ns: 0, order: 0, what }.to_bytes();
    let at = 17 + chance.below(15);
    let value = chance.number(u64::from(bytes[at])).to_le_bytes();
    let count = (1 + chance.below(4)).min(32 - at);
    bytes[at..at + count].copy_from_slice(&value[..count]);
    Event::from_bytes(&bytes).map_or(what, |event| event.what)
}

fn damage_header(chance: &mut Chance, header: &mut Header) {
    let model = &mut header.models[0];
    if model.boxes.is_empty() {
        return;
    }
    let at = chance.below(model.boxes.len());
    match chance.below(6) {
        0 => drop(model.boxes.remove(at)),
        1 => model.boxes.insert(at, BoxInfo::default()),
        2 => model.requests.push(chance.number(3) as u32),
        3 => {
            let source = InputSource { index: chance.number(at as u64) as u32, output: chance.number(0) as u16 };
            model.boxes[at].inputs.push(source);
        }
        4 => drop(model.boxes[at].inputs.pop()),
        _ => {
            for bound in &mut model.boxes[at].bounds {
                (bound.envelopes, bound.bytes) = (chance.number(1) as u32, chance.number(1));
            }
        }
    }
}

/// Whether its envelopes and its store fit a machine of this test's size.
fn is_small(trace: &Trace) -> bool {
    let bytes = |event: &Event| match event.what {
        What::EnvelopeCreated { bytes, .. } | What::BytesRead { bytes, .. } => u64::from(bytes),
        What::EnvelopeSent { rows, .. } => 8 * u64::from(rows),
        _ => 0,
    };
    trace.logs().iter().flat_map(|log| &log.events).map(bytes).sum::<u64>() < 64 << 20
}

/// Reads, replays and re-enacts a file.
#[derive(Debug, Default, PartialEq)]
struct Came {
    unread: usize,
    refused: usize,
    ran: usize,
    stalled: usize,
}

impl Came {
    fn take(&mut self, trace: &Trace, machine: &Machine) {
        let (options, run) = (ReplayOptions::default(), SimOptions::default());
        let plan = "las".parse::<Setting>().unwrap().plan(&machine.topology, 2);
        let (replay, enacted) = (Replay::of(trace, &options), Reenactment::of(trace, &options));
        for error in [replay.as_ref().err(), enacted.as_ref().err()].into_iter().flatten() {
            assert!(!error.to_string().is_empty());
            self.refused += 1;
        }
        if !is_small(trace) {
            return;
        }
        if let Ok(replay) = replay {
            simulate(machine, &plan, &replay.program, &run).expect("a replay is a program like others");
            self.ran += 1;
        }
        match enacted.map(|enacted| enacted.simulate(machine, &plan, &run, &mut |_| true)) {
            Ok(Ok(_)) => self.ran += 1,
            Ok(Err(SimError::Request { .. })) => self.stalled += 1,
            Ok(Err(error)) => panic!("{error}"),
            Err(_) => {}
        }
    }
}

#[test]
fn damaged_traces_are_refused_or_run() {
    let machine = Machine::from_topology(Topology::parse("node:2 core:2").unwrap());
    let traces = [record(&streams(2, 6), 1).trace, record(&streams(0, 3), 2).trace, record(&limited(), 3).trace];
    let mut came = Came::default();
    for seed in 0..6000 {
        let mut chance = Chance(Pcg64::seed_from_u64(seed));
        let trace = &traces[seed as usize % traces.len()];
        let done = catch_unwind(AssertUnwindSafe(|| {
            let trace = match chance.below(3) {
                0 => Trace::read_from(&mut &damaged_bytes(&mut chance, trace)[..]).ok(),
                _ => Some(damaged_trace(&mut chance, trace)),
            };
            match trace {
                Some(trace) => came.take(&trace, &machine),
                None => came.unread += 1,
            }
        }));
        assert!(done.is_ok(), "seed {seed}: see above");
    }
    // Otherwise the test has tried too little.
    assert!([came.unread, came.refused, came.ran].iter().all(|&count| count > 500), "{came:?}");
}

/// The error of a trace with one change.
fn mistake(change: impl FnOnce(&mut Header, &mut Vec<Event>)) -> ReplayError {
    let trace = record(&streams(1, 3), 1).trace;
    let (mut header, mut logs) = (trace.header().clone(), trace.logs().to_vec());
    change(&mut header, &mut logs[0].events);
    Reenactment::of(&Trace::new(header, logs), &ReplayOptions::default()).expect_err("it is refused")
}

#[test]
fn what_was_expected_is_said_with_its_place() {
    let position =
        |events: &[Event], want: fn(&What) -> bool| events.iter().position(|event| want(&event.what)).unwrap();
    let mut place = 0;
    let unsent = mistake(|_, events| {
        let sent = position(events, |what| matches!(what, What::EnvelopeSent { who, .. } if who.index == 1));
        drop(events.drain(sent - 1..=sent));
        // Box 3 takes a now unknown one there.
        let mut sent = 0;
        let unknown = events.iter().position(|event| match event.what {
            What::EnvelopeSent { who, .. } if who.index == 1 => {
                sent += 1;
                false
            }
            What::EnvelopeReceived { who, .. } if who.index == 3 => {
                sent -= 1;
                sent < 0
            }
            _ => false,
        });
        place = unknown.unwrap();
    });
    assert_eq!(
        unsent.to_string(),
        format!(
            "event {place} of seat 0: expected an input that there is, and that an envelope is sent before it is taken"
        )
    );
    let cut = mistake(|_, events| events.truncate(events.len() - 1));
    assert_eq!(cut.to_string(), "request 3: expected to have come to its end, done, before the trace ends");
    let unread = mistake(|header, _| header.models[0].boxes[4].inputs.clear());
    assert!(unread.to_string().ends_with("with a reader of its output 0"), "{unread}");
    let gap = mistake(|header, _| header.models[0].boxes[4].inputs[0].output += 7);
    assert!(gap.to_string().starts_with("request 3: expected a reader of each output"), "{gap}");
    let circle = mistake(|header, _| {
        let boxes = &mut header.models[0].boxes;
        let last = boxes.len() - 2;
        boxes[3].inputs[0] = InputSource { index: last as u32, output: 0 };
    });
    assert!(circle.to_string().starts_with("request 3: expected"), "{circle}");
    let long = mistake(|_, events| {
        let end = position(events, |what| matches!(what, What::InvocationEnds { .. }));
        events[end].time_ns = u64::MAX;
    });
    assert!(long.to_string().contains("to end within"), "{long}");
}
