//! Under `vicinity`, each datum belongs to one of its node's caches, and tasks go there.
//!
//! A process has one memory, so all tests here use the same machine.

use std::alloc::Layout;
use vicus_machine::{MachineRuntime, child, scope};
use vicus_memory::Placed;
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Mode};
use vicus_topology::Topology;
use vicus_trace::{Trace, What};

const CACHES: usize = 4;
const PAGE: usize = 4096;

/// A thread for each cache, all on one node, without robbing; every datum is worth dealing.
fn runtime(more: &str) -> MachineRuntime {
    let machine = Topology::parse(&format!("node:1 l3:{CACHES} core:1")).unwrap();
    let strategy = format!("vicinity:reach=1,private_bytes=1{more}").parse().unwrap();
    MachineRuntime::builder().topology(machine).threads(CACHES).strategy(strategy).record(1 << 12).quiet().start()
}

/// `None`, with a message, if the kernel does not place memory.
fn alloc(runtime: &MachineRuntime, bytes: usize, distribution: Distribution) -> Option<Placed> {
    let placed = runtime.alloc(Layout::from_size_align(bytes, PAGE).unwrap(), distribution).unwrap();
    if let Some(error) = placed.refusal() {
        eprintln!("not checked: memory can't be placed here: {error}");
        return None;
    }
    Some(placed)
}

/// The seats of tasks spawned one after the other, in this order.
fn seats(trace: &Trace) -> Vec<usize> {
    assert!(trace.check().is_empty());
    let spawned = trace.merged().filter_map(|entry| match entry.event.what {
        What::Enqueued { who, by, .. } if by != vicus_trace::JobId::NONE => Some(who),
        _ => None,
    });
    let ran = |who| {
        let runs = |entry: &vicus_trace::Entry<'_>| entry.event.what == What::UserCodeBegins { who };
        trace.merged().find(runs).expect("it ran").seat
    };
    spawned.map(ran).collect()
}

fn touch(runtime: &MachineRuntime, data: &[Access]) {
    runtime.run(|| scope(|scope| data.iter().for_each(|datum| scope.task().touches(&[*datum]).spawn(|()| ()))));
}

/// What happened: a datum belonged only to a node, and tasks took the node's caches in turn: two tasks on the same
/// datum had it in the same cache only by chance.
#[test]
fn a_coarse_allocation_is_always_dealt_to_the_same_cache_and_the_next_one_to_the_next() {
    let runtime = runtime("");
    let Some(all) =
        (0..3 * CACHES).map(|_| alloc(&runtime, 3 * PAGE, Distribution::Coarse)).collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let of = |placed: &Placed| Access::of(placed.bytes(), Mode::Read);
    // All of one datum, a part of the next, a part from the middle of the third.
    let datum = |at: usize| match at % 3 {
        0 => of(&all[at]),
        1 => Access::new(of(&all[at]).start, 10, Mode::Read),
        _ => Access::new(of(&all[at]).start + PAGE + 7, 100, Mode::Read),
    };
    let data: Vec<Access> = (0..all.len()).map(datum).collect();
    for _ in 0..3 {
        touch(&runtime, &data);
    }
    // An odd number of other data, left out of the count.
    let again: Vec<Access> = (0..5).map(|at| data[7 * at % data.len()]).collect();
    // Children are dealt as tasks of a scope are.
    runtime.run(|| again.iter().for_each(|datum| child().follows(&[*datum]).spawn(|| ())));
    let seats = seats(&runtime.trace().unwrap());
    let first = seats[0];
    let home = |at: usize| (first + at) % CACHES;
    let expected = (0..3).flat_map(|_| 0..data.len()).chain((0..5).map(|at| 7 * at % data.len())).map(home);
    assert_eq!(seats, expected.collect::<Vec<_>>());
}

#[test]
fn pages_of_a_fine_allocation_have_the_caches_in_turn() {
    let runtime = runtime(",coarse=off");
    let Some(placed) = alloc(&runtime, 10 * PAGE, Distribution::Fine) else { return };
    let start = placed.bytes().as_ptr().addr();
    let page = |number: usize| Access::new(start + number * PAGE + number, 100, Mode::Read);
    let order: Vec<usize> = (0..10).chain([3, 3, 9, 0]).collect();
    touch(&runtime, &order.iter().map(|&number| page(number)).collect::<Vec<_>>());
    let expected: Vec<usize> = order.iter().map(|number| number % CACHES).collect();
    assert_eq!(seats(&runtime.trace().unwrap()), expected);
}

/// Memory of heaps and of others: any cache, but the same one each time.
#[test]
fn other_data_are_dealt_to_the_same_cache_each_time() {
    let runtime = runtime(",coarse=off");
    let vectors: Vec<Vec<u8>> = (0..8).map(|number| vec![1; PAGE * (1 + number)]).collect();
    let data: Vec<Access> = vectors.iter().map(|vector| Access::of(vector, Mode::Read).intense()).collect();
    (0..3).for_each(|_| touch(&runtime, &data));
    let seats = seats(&runtime.trace().unwrap());
    assert_eq!(seats[..8], seats[8..16]);
    assert_eq!(seats[..8], seats[16..]);
}
