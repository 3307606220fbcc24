//! Tasks with footprints run on the seats chosen by Muddukrishna et al., by the nodes of their pages according to the
//! kernel's `move_pages`.
//!
//! "Locality-aware task scheduling and data distribution for OpenMP programs on NUMA systems and manycore processors",
//! Scientific Programming 2015: map, matmul, jacobi2d and SparseLU under algorithm 1 (`footprint`) and algorithm 3
//! (`vicinity`). This file implements both algorithms a second time, by pages and by the kernel's distances. The trace
//! has each task's seat.

use crate::left_out;
use crate::nodes::nodes_of;
use crate::sysfs::Machine;
use std::alloc::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use vicus_kernels::{
    AnyKernel, Array, Element, Jacobi2d, Kernel, KernelWorld, Leaf, Map, Matmul, Schedule, SparseLu, Task, TaskOrder,
};
use vicus_machine::{Defaults, LatencyFile, MachineRuntime, RuntimeBuilder, in_place_scope, join, this_machine};
use vicus_memory::distribution::Distribution;
use vicus_memory::{NodeBytes, Placed};
use vicus_schedule::{Access, Dealing, Kind, Plan};
use vicus_topology::{CoreGroup, NodeId, Topology};
use vicus_trace::{JobId, Trace, What};

/// Threads recording the footprints of all tasks.
struct Watched<'r> {
    runtime: &'r MachineRuntime,
    arrays: Mutex<Vec<Placed>>,
    said: Mutex<Vec<Vec<Access>>>,
}

impl KernelWorld for Watched<'_> {
    fn threads(&self) -> usize {
        self.runtime.plan().threads()
    }

    fn array<T: Element>(&self, len: usize, distribution: &Distribution) -> Array<'_, T> {
        let mut placed = self.runtime.alloc(Layout::array::<T>(len).unwrap(), distribution.clone()).unwrap();
        let start = placed.bytes_mut().as_mut_ptr().cast();
        self.arrays.lock().unwrap().push(placed);
        Array::new(start, len)
    }

    fn work(&self, _: Leaf, _: &[Access], f: impl FnOnce()) {
        f();
    }

    fn join<A: Send, B: Send>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        join(a, b)
    }

    fn tasks<F: FnOnce() + Send>(&self, order: TaskOrder, tasks: impl Iterator<Item = (Task, F)>) {
        in_place_scope(|scope| {
            for (Task { kind, accesses }, f) in tasks {
                self.said.lock().unwrap().push(accesses.clone());
                let task = if kind == Kind::Immediate { scope.task().immediate() } else { scope.task() };
                let task = match order {
                    TaskOrder::Free => task.touches(&accesses),
                    TaskOrder::ByData => task.follows(&accesses),
                };
                task.spawn(move |()| f());
            }
        });
    }

    fn each(&self, iterations: usize, schedule: Schedule, body: impl Fn(usize) + Sync) {
        self.runtime.on_each_thread(|thread, threads| {
            schedule.of_thread(thread, threads, iterations).for_each(&body);
        });
    }
}

/// An array as the kernel reports it.
struct Pages {
    start: usize,
    bytes: usize,
    /// Whether its distribution lays it in one place.
    coarse: bool,
    /// By page, our number of its node.
    nodes: Vec<usize>,
    /// The home number of an array in one place.
    home: usize,
}

/// The plan's locations: nodes, or a node's caches.
struct Locations<'a> {
    plan: &'a Plan,
    dealing: &'a Dealing,
    /// By seat.
    of_seat: Vec<usize>,
    /// By node, the locations there, in their order.
    of_node: Vec<Vec<usize>>,
    /// From one to another, as the plan weighs them.
    costs: Vec<Vec<u64>>,
    /// Over how many nodes data is laid.
    turns: usize,
}

impl Locations<'_> {
    /// The bytes of a footprint by location; with `only_coarse`, of arrays in one place.
    fn bytes(&self, accesses: &[Access], arrays: &[Pages], page: usize, only_coarse: bool) -> Vec<u64> {
        let mut bytes = vec![0; self.costs.len()];
        for stretch in accesses.iter().flat_map(Access::stretches) {
            let array = arrays.iter().find(|array| (array.start..array.start + array.bytes).contains(&stretch.start));
            let array = array.expect("tasks touch arrays");
            if only_coarse && !array.coarse {
                continue;
            }
            let mut at = stretch.start;
            while at < stretch.end {
                let number = (at - array.start) / page;
                let end = (array.start + (number + 1) * page).min(stretch.end);
                // `fine`: node by node, and then the next cache of each.
                let home = if array.coarse { array.home } else { number / self.turns };
                let there = &self.of_node[array.nodes[number]];
                bytes[there[home % there.len()]] += (end - at) as u64;
                at = end;
            }
        }
        bytes
    }

    /// The permitted locations of a dealt task: several if they are equal. `None` if its spawner keeps it.
    fn expected(&self, bytes: &[u64]) -> Option<BTreeSet<usize>> {
        // A node without memory has no bytes.
        let mut held = (0..bytes.len()).filter(|&at| self.dealing.holds[at] || bytes[at] > 0).map(|at| bytes[at]);
        let first = held.next();
        let even = held.all(|other| Some(other) == first);
        if bytes.iter().sum::<u64>() <= self.dealing.more_bytes_than || self.dealing.only_uneven && even {
            return None;
        }
        let cost = |at: usize| -> u64 { bytes.iter().zip(&self.costs[at]).map(|(bytes, cost)| bytes * cost).sum() };
        // A queue without seats is not used: the process may have memory of a node and none of its CPUs.
        let with_seats: BTreeSet<usize> = self.of_seat.iter().copied().collect();
        let least = with_seats.iter().map(|&at| cost(at)).min();
        Some(with_seats.into_iter().filter(|&at| Some(cost(at)) == least).collect())
    }
}

/// By task in spawning order: the queuing seat, and the taking seat with its rule.
fn moves(trace: &Trace) -> Vec<(usize, usize, u8)> {
    let mut spawned: Vec<JobId> = Vec::new();
    let (mut queued, mut taken) = (BTreeMap::new(), BTreeMap::new());
    for (seat, event) in
        trace.logs().iter().enumerate().flat_map(|(seat, log)| log.events.iter().map(move |e| (seat, e)))
    {
        match event.what {
            // Only tasks with footprints have one, and all are spawned on one seat.
            What::Footprint { who, .. } if spawned.last() != Some(&who) => spawned.push(who),
            What::Enqueued { who, .. } => _ = queued.insert((who.request, who.index), seat),
            What::Taken { who, rule, .. } => _ = taken.insert((who.request, who.index), (seat, rule)),
            _ => {}
        }
    }
    let of = |who: &JobId| {
        let key = (who.request, who.index);
        let (taker, rule) = taken[&key];
        (queued[&key], taker, rule)
    };
    spawned.iter().map(of).collect()
}

fn arrays(runtime: &MachineRuntime, placed: &[Placed], coarse: bool, topology: &Topology) -> Vec<Pages> {
    let memory = runtime.memory().unwrap();
    let page = memory.pages().page_bytes();
    let of = |placed: &Placed| {
        let bytes = placed.bytes();
        let addresses: Vec<*mut u8> = bytes.chunks(page).map(|page| page.as_ptr().cast_mut()).collect();
        let numbers = nodes_of(&addresses).unwrap();
        let node = |number: i32| topology.nodes.iter().position(|node| node.os_index as i32 == number).unwrap();
        let mut home = 0;
        let start = bytes.as_ptr().addr();
        memory.tell(start..start + 1, usize::MAX, &mut |NodeBytes { home: told, .. }| home = told);
        Pages { start, bytes: bytes.len(), coarse, nodes: numbers.into_iter().map(node).collect(), home }
    };
    placed.iter().map(of).collect()
}

/// Runs a kernel, and checks each task against the paper's algorithm. Gives how many tasks were dealt.
fn check(strategy: &str, kernel: &mut AnyKernel, distribution: &str, file: &Path) -> usize {
    *kernel.distribution().unwrap() = distribution.parse().unwrap();
    let what = format!("{}, {strategy}, {distribution}", kernel.name());
    let topology = this_machine().topology;
    let builder = with_latencies(&topology, file).strategy(strategy.parse().unwrap());
    let runtime = builder.record(1 << 14).start();
    let world = Watched { runtime: &runtime, arrays: Mutex::default(), said: Mutex::default() };
    runtime.run(|| kernel.run(&world, || (), || ()));
    let (placed, said) = (world.arrays.into_inner().unwrap(), world.said.into_inner().unwrap());
    let coarse = distribution == "coarse";
    let arrays = arrays(&runtime, &placed, coarse, &topology);
    let page = runtime.memory().unwrap().pages().page_bytes();
    if coarse {
        // In the order of their making, they go round the caches of their node.
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        for array in &arrays {
            assert!(array.nodes.iter().all(|node| *node == array.nodes[0]), "{what}: in one place");
            if let Some(before) = last.insert(array.nodes[0], array.home) {
                assert_eq!(array.home, before + 1, "{what}: the next home");
            }
        }
    }
    let by_cache = strategy.starts_with("vicinity");
    let plan = runtime.plan().clone();
    let dealing = plan.dealing().unwrap();
    let group = |seat: &vicus_schedule::SeatPlan| topology.pus[seat.pu.index()].group.index();
    let caches_of = |node: NodeId| -> Vec<usize> {
        let groups = || topology.core_groups.iter();
        let own: Vec<usize> = groups().filter(|group| group.node == node).map(|group| group.id.index()).collect();
        // Bytes on a node without a cache count for the nearest caches.
        if own.is_empty() { dealing.locations[node.index()].iter().map(|at| at.index()).collect() } else { own }
    };
    // The kernel's distances, or the latencies given to the runtime.
    let kernel_says = Machine::read().unwrap();
    let distances = |from: &vicus_topology::Node| -> Vec<u64> {
        let row = kernel_says.nodes.iter().find(|node| node.number == from.os_index).unwrap();
        let to = |other: &vicus_topology::Node| {
            let at = kernel_says.nodes.iter().position(|node| node.number == other.os_index).unwrap();
            u64::from(row.distances[at])
        };
        topology.nodes.iter().map(to).collect()
    };
    let locations = Locations {
        plan: &plan,
        dealing,
        of_seat: plan.seats.iter().map(|seat| if by_cache { group(seat) } else { seat.node.index() }).collect(),
        of_node: match by_cache {
            true => topology.nodes.iter().map(|node| caches_of(node.id)).collect(),
            false => (0..topology.nodes.len()).map(|node| vec![node]).collect(),
        },
        costs: match by_cache {
            true => dealing.costs.iter().map(|row| row.iter().map(|&cost| cost.into()).collect()).collect(),
            false => topology.nodes.iter().map(distances).collect(),
        },
        turns: runtime.memory().unwrap().locations().len(),
    };
    drop(placed);
    let trace = runtime.trace().unwrap();
    assert_eq!((trace.lost(), trace.check()), (0, vec![]), "{what}");
    let moves = moves(&trace);
    assert_eq!(moves.len(), said.len(), "{what}: each task has said what it uses");
    let (mut to_deal, mut dealt, mut robbed) = (0, 0, 0);
    let mut same: BTreeMap<Vec<(usize, usize)>, usize> = BTreeMap::new();
    for (number, (accesses, &(queuer, taker, rule))) in said.iter().zip(&moves).enumerate() {
        let bytes = locations.bytes(accesses, &arrays, page, dealing.only_coarse);
        let expected = locations.expected(&bytes);
        to_deal += usize::from(expected.is_some());
        if rule != 1 {
            // Undealt tasks are for all.
            robbed += usize::from(expected.is_some());
            continue;
        }
        let ran = locations.of_seat[taker];
        match expected {
            None => assert_eq!(ran, locations.of_seat[queuer], "{what}, task {number} of {bytes:?} bytes stays"),
            Some(expected) => {
                dealt += 1;
                assert!(expected.contains(&ran), "{what}, task {number} of {bytes:?} bytes: {ran}, not {expected:?}");
                let data = accesses.iter().map(|access| (access.start, access.total_bytes())).collect();
                let before = *same.entry(data).or_insert(ran);
                assert_eq!(ran, before, "{what}, task {number}: the same data, the same place");
            }
        }
    }
    let places: BTreeSet<usize> = same.values().copied().collect();
    let seats: BTreeSet<usize> = locations.of_seat.iter().copied().collect();
    eprintln!(
        "{what}: {} tasks, {dealt} dealt to {} of {} locations, {robbed} robbed, {} arrays, {}",
        said.len(),
        places.len(),
        seats.len(),
        arrays.len(),
        locations.plan.threads()
    );
    assert!(2 * robbed <= to_deal, "{what}: most of those that are dealt run where they were queued");
    // Each `fine` array begins on the first node; with few arrays, one node may be nearest to all; and so may one place
    // with seats, if most of the usable memory has no seats near it.
    let home = |array: &Pages| {
        let there = &locations.of_node[array.nodes[0]];
        there[array.home % there.len()]
    };
    let mut with_data: BTreeMap<usize, usize> = BTreeMap::new();
    arrays
        .iter()
        .map(home)
        .filter(|home| seats.contains(home))
        .for_each(|home| *with_data.entry(home).or_default() += 1);
    // What lies on a node without seats is nearest to one of the others, which then may be nearest to all tasks.
    let is_most = with_data.values().any(|&there| 3 * there >= 2 * arrays.len());
    // By latencies measured on a busy machine, one cache may be nearest to all; nodes have the kernel's distances.
    let is_exempt = is_most || by_cache || !coarse || arrays.len() < 2 * seats.len();
    let is_spread = places.len() > 1 || with_data.len() < 2 || is_exempt;
    assert!(dealt == 0 || is_spread, "{what}: not all to one place");
    dealt
}

/// On this machine, with measurements kept in this file.
fn with_latencies(topology: &Topology, file: &Path) -> RuntimeBuilder {
    let defaults = Defaults { latencies: Some(LatencyFile::At(file.to_owned())), ..Defaults::default() };
    MachineRuntime::builder().topology(topology.clone()).quiet().defaults(defaults)
}

/// Makes a runtime measure latencies, and replaces them by others that follow the machine's distances.
fn replace_latencies(topology: &Topology, file: &Path) {
    drop(with_latencies(topology, file).strategy("vicinity".parse().unwrap()).start());
    // With a single cache, or if nothing can be measured, there is no file.
    let Ok(text) = std::fs::read_to_string(file) else { return };
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let groups = &topology.core_groups;
    let latency = |a: &CoreGroup, b: &CoreGroup| match a.id == b.id {
        true => topology.numa_value(a.node, b.node),
        false => 2 * topology.numa_value(a.node, b.node),
    };
    let rows: Vec<Vec<u32>> = groups.iter().map(|a| groups.iter().map(|b| latency(a, b)).collect()).collect();
    json["latency_ns"] = serde_json::to_value(rows).unwrap();
    std::fs::write(file, json.to_string()).unwrap();
}

/// Small ones, because a guest is slow. Each block has several pages, and not equally many on each node.
fn kernels() -> [AnyKernel; 4] {
    let fine = Distribution::Fine;
    [
        Map { vectors: 31, bytes: 5 * 4096, distribution: fine.clone(), published: false }.into(),
        Matmul { blocks: 3, block: 48, distribution: fine.clone() }.into(),
        Jacobi2d { size: 130, block: 40, sweeps: 3, distribution: fine.clone() }.into(),
        SparseLu { blocks: 5, block: 48, distribution: fine, ..SparseLu::default() }.into(),
    ]
}

/// What happened: these algorithms were tested only with hand-made numbers and in the simulator; no task with a
/// footprint had ever run on threads of several nodes.
#[test]
fn tasks_with_footprints_run_where_the_papers_algorithms_deal_them() {
    let Some(kernel_says) = Machine::read() else { return left_out("sysfs has no nodes, cores or caches") };
    let topology = this_machine().topology;
    let probe = MachineRuntime::builder().topology(topology.clone()).threads(1).quiet().start();
    let placed = probe.alloc(Layout::new::<[u8; 4096]>(), Distribution::Coarse).unwrap();
    if let Some(error) = placed.refusal() {
        return left_out(&format!("memory can't be placed here: {error}"));
    }
    if let Err(error) = nodes_of(&[placed.start().as_ptr()]) {
        return left_out(&format!("the kernel does not tell where pages are: {error}"));
    }
    drop((placed, probe));
    // With prepared latencies: measurements on an emulated machine are worth nothing.
    let file = std::env::temp_dir().join(format!("latencies-{}.json", std::process::id()));
    replace_latencies(&topology, &file);
    // All footprints are worth dealing. Far queues are robbed when there are 10 and more tasks for each core.
    let footprint = "footprint:share_bytes=1,distance=value";
    let vicinity = "vicinity:private_bytes=1,reach=1";
    let all = "vicinity:private_bytes=1,reach=1,coarse=off";
    let (nodes, caches) = (kernel_says.nodes.len(), topology.core_groups.len());
    eprintln!("{nodes} nodes, {} with memory, {caches} caches", kernel_says.with_memory.len());
    for mut kernel in kernels() {
        for (strategy, distribution) in
            [(footprint, "coarse"), (footprint, "fine"), (vicinity, "coarse"), (vicinity, "fine"), (all, "fine")]
        {
            let dealt = check(strategy, &mut kernel, distribution, &file);
            // Algorithm 3 leaves `fine` alone; and with a single node, all lies evenly.
            let is_dealt = if strategy == footprint {
                kernel_says.nodes.len() > 1
            } else {
                (strategy, distribution) != (vicinity, "fine")
            };
            assert_eq!(dealt > 0, is_dealt, "{}, {strategy}, {distribution}: {dealt} were dealt", kernel.name());
        }
    }
    let _ = std::fs::remove_file(file);
}
