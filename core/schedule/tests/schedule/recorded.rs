//! Every plan and every seat as they were recorded: a change to the code that builds and prints plans, or decides by
//! them, shows here.
//!
//! `plans.txt` has each strategy's plan for a small machine as text, then a line for each setting: a hash of its plans'
//! texts on all fixtures. `seats.txt` has a hash for each strategy: of a seat's answers to events by chance. A strategy
//! that is meant to change brings a new record, and its diff is read in review.

use crate::interpreted::{Chance, settings};
use crate::seat::World;
use std::fmt::Write as _;
use std::path::Path;
use vicus_schedule::{ALL, FRONT_TURN_NS, Kind, QueueId, RequestId, Setting, TURN_NS, TurnOrder, Wake};
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
    assert_recorded("plans.txt", &now, include_str!("../plans.txt"));
}

fn assert_recorded(file: &str, now: &str, recorded: &str) {
    if now == recorded {
        return;
    }
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    #[expect(clippy::disallowed_methods, reason = "the new record, for whoever reviews it")]
    std::fs::write(&written, now).unwrap();
    let differs = recorded.lines().zip(now.lines()).find(|(before, after)| before != after);
    panic!("{differs:?} and perhaps more: {} is from this code, tests/{file} is the record", written.display());
}

/// An event by chance, and what the seat answers.
fn event(world: &mut World, chance: &mut Chance, order: &mut TurnOrder, now_ns: &mut u64, number: u32) -> String {
    let request = 1 + chance.below(3) as u64;
    let (task, other) = ((request, number), (request, number / 2));
    let kind = [Kind::Immediate, Kind::Deferred][chance.below(2)];
    let queue = QueueId::new(chance.below(world.plan.queues.len()));
    let World { plan, seat, queues, called } = world;
    let mut answer = String::new();
    match chance.below(30) {
        0 | 1 => answer = format!("{:?}", seat.activated(plan, task, kind, None, chance.below(2) == 0)),
        2 => seat.keep(task),
        3 => seat.yielded(task),
        4 => seat.woke(task),
        5 => called.push(task),
        6..=10 => queues.0[queue.index()].push(task),
        11..=15 => {
            let run = seat.find(&plan.seats[0], &mut *queues, || called.pop());
            let wake = if run.is_some_and(|run| run.passes_wake_on) { seat.take_wake() } else { None };
            answer = format!("{run:?} {wake:?}");
        }
        16 | 17 => {
            *now_ns += chance.below(TURN_NS as usize) as u64;
            let but = (chance.below(3) == 0).then_some(RequestId::new(request));
            let run = seat.find_in_turn(&plan.seats[0], &mut *queues, || called.pop(), *now_ns, order, but);
            answer = format!("{run:?} {}", seat.is_turn_over(*now_ns));
        }
        18 => seat.end_turns(),
        19 => answer = format!("{:?}", seat.next_resumed(|| number.is_multiple_of(3))),
        20 => {
            let own = seat.own().filter(|_| seat.is_own_next());
            let task = own.and_then(|own| queues.0[own.index()].pop());
            task.iter().for_each(|_| seat.took_own());
            answer = format!("{own:?} {task:?} {}", seat.own().is_none() && seat.is_look_next());
        }
        21 => seat.begin_wait((chance.below(2) == 0).then_some(RequestId::new(request))),
        22 if seat.is_waiting() => answer = format!("{:?}", seat.end_wait()),
        23 => seat.widen_wait(),
        24 => {
            let wake = Wake { queue, request: Some(RequestId::new(request)), while_waiting: false };
            let wake = (chance.below(2) == 0).then_some(wake);
            seat.woken(wake, Some(chance.below(200_000) as u64), chance.below(2) == 0);
        }
        25 => answer = format!("{:?} {:?}", seat.none(&plan.seats[0], chance.below(20_000) as u64), seat.take_wake()),
        26 => answer = format!("{} {} {}", seat.take_back(&other), seat.woken_count(), seat.has_resumed()),
        27 if chance.below(8) == 0 => answer = format!("{:?} {:?}", seat.take_private(), seat.take_woken()),
        28 => {
            let place = seat.place(plan, kind);
            let spilled = seat.spill(kind, || !number.is_multiple_of(5), || number.is_multiple_of(2));
            answer = format!("{place:?} {:?} {spilled:?}", seat.place_second(plan));
        }
        29 => seat.worked_at_front(chance.below(FRONT_TURN_NS as usize) as u64),
        _ => {}
    }
    answer
}

#[test]
fn every_seat_answers_as_recorded() {
    let mut now = String::new();
    let machine = Topology::parse("node:2 l3:2 core:1").unwrap();
    for strategy in ALL {
        for has_front in [false, true] {
            let mut hash = FNV_START;
            for setting in settings().iter().filter(|setting| setting.strategy().name() == strategy.name()) {
                let plan = setting.plan(&machine, 4);
                let mut world = World::of(if has_front { plan.with_front() } else { plan });
                let (mut chance, mut order, mut now_ns) = (Chance(7), TurnOrder::default(), 0);
                (1..4).for_each(|request| assert!(order.begin(RequestId::new(request))));
                for number in 0..2_000 {
                    hash = fnv_1a(&event(&mut world, &mut chance, &mut order, &mut now_ns, number), hash);
                }
            }
            writeln!(now, "{hash:016x} {}{}", strategy.name(), if has_front { ", with a front" } else { "" }).unwrap();
        }
    }
    assert_recorded("seats.txt", &now, include_str!("../seats.txt"));
}
