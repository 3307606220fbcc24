//! Tests of the model of memory: a piece of work's waits.

use super::*;
use crate::{ArraySpec, Step, TaskSpec};
use vicus_topology::Topology;

const MB: usize = 1 << 20;

fn program(arrays: usize, bytes: usize, distribution: &str, accesses: &[Access]) -> Program {
    let array =
        |number: usize| ArraySpec { base: MB + number * 64 * MB, bytes, distribution: distribution.parse().unwrap() };
    let work = |access: &Access| Step::Work(Work { leaf: 0, cost: Cost::Flops(0), accesses: vec![*access] });
    let root = TaskSpec { steps: accesses.iter().map(work).collect(), ..TaskSpec::default() };
    let program = Program {
        name: "test".to_owned(),
        arrays: (0..arrays).map(array).collect(),
        heap: 0..0,
        leaves: vec!["leaf".to_owned()],
        tasks: vec![root],
    };
    program.check().unwrap();
    program
}

/// One node, L1 of 32 KiB at 100 GB/s and L3 of 16 MiB at 25, memory at 12.
fn one_node() -> Machine {
    Machine::from_topology(Topology::parse("node:1 l3:1 l1:2 core:1").unwrap())
}

fn run(machine: &Machine, program: &Program, pus: &[usize]) -> Vec<Demand> {
    let parameters = Parameters { overlap: 1.0, cache_share: 1.0, ..Parameters::default() };
    let mut memory = Memory::new(machine, program, &SimOptions { parameters, ..SimOptions::default() }).unwrap();
    let works = program.tasks[0].steps.iter().zip(pus).map(|(step, &pu)| {
        let Step::Work(work) = step else { panic!("all steps are work") };
        let demand = memory.demand(program, work, PuId::new(pu), 1.0, 0.0);
        memory.done(program, &work.accesses, PuId::new(pu), 0.0);
        demand
    });
    works.collect()
}

#[test]
fn bytes_that_lie_on_several_nodes_in_turn_come_in_runs() {
    let machine = Machine::from_topology(Topology::parse("node:2 l3:1 core:1").unwrap());
    let (one, other) = (Access::new(MB, MB, Mode::Read), Access::new(65 * MB, MB, Mode::Read));
    let turns = |distribution: &str, accesses: &[Access]| {
        let mut program = program(2, MB, distribution, &[one]);
        let Step::Work(work) = &mut program.tasks[0].steps[0] else { unreachable!("it is work") };
        work.accesses = accesses.to_vec();
        let demand = &run(&machine, &program, &[0])[0];
        let of = |node: usize| demand.uses.iter().find(|this| this.resource == node).map_or(0.0, |this| this.turns);
        (demand.streams, [0, 1].map(of))
    };
    // Half of the bytes of a stream are at each controller, and each of two streams has half of the bytes.
    assert_eq!(turns("fine", &[one]), (1.0, [0.5, 0.5]));
    assert_eq!(turns("fine", &[one, other]), (2.0, [0.25, 0.25]));
    // On one node, or each array on another: both are there all the time.
    assert_eq!(turns("on:1", &[one, other]), (2.0, [0.0, 0.0]));
    assert_eq!(turns("coarse", &[one, other]), (2.0, [0.0, 0.0]));
    // A small stream beside a large one: (17 / 16)² / (1 + 1 / 256).
    let small = Access::new(65 * MB, MB / 16, Mode::Read);
    assert!((turns("fine", &[one, small]).0 - 1.1245).abs() < 1e-4);
}

/// The bytes of a page are read before it is written, unless they are streamed; the rest of the page's cost is added.
#[test]
fn a_page_costs_more_when_it_is_written_to_for_the_first_time() {
    let mut machine = Machine::from_topology(Topology::parse("node:1 l3:1 core:2").unwrap());
    let mut more = |steps: &[(Access, Cost)]| {
        let accesses: Vec<Access> = steps.iter().map(|(access, _)| *access).collect();
        let mut program = program(1, MB, "on:0", &accesses);
        let work = |&(access, cost): &(Access, Cost)| Step::Work(Work { leaf: 0, cost, accesses: vec![access] });
        program.tasks[0].steps = steps.iter().map(work).collect();
        let mut took = |fault_ns: Option<f64>| {
            machine.memory.fault_ns = fault_ns;
            let found = run(&machine, &program, &vec![0; steps.len()]);
            found.iter().map(|demand| demand.alone_ns).collect::<Vec<_>>()
        };
        let (without, with) = (took(None), took(Some(1000.0)));
        with.iter().zip(without).map(|(with, without)| (with - without).round()).collect::<Vec<_>>()
    };
    let [read, write, both] =
        [Mode::Read, Mode::Write, Mode::ReadWrite].map(|mode| (Access::new(MB, MB, mode), Cost::Flops(0)));
    let half = (Access::new(MB, MB / 2, Mode::Write), Cost::Flops(0));
    // 12 GB/s.
    let pages = |count: usize, reads_ns: f64| (count as f64 * (1000.0 - reads_ns)).round();
    let (all, kept) = (MB / 4096, 4096.0 / 12.0);
    assert_eq!(more(&[read, half, write, write]), [0.0, pages(all / 2, kept), pages(all / 2, kept), 0.0]);
    assert_eq!(more(&[both, both]), [pages(all, kept), 0.0]);
    let streamed = (Access { streams: true, ..write.0 }, Cost::Flops(0));
    assert_eq!(more(&[streamed, write]), [pages(all, 0.0), 0.0]);
    let recorded = (write.0, Cost::Nanos(5.0));
    assert_eq!(more(&[recorded, write]), [0.0, 0.0], "it is in the time already");
}

#[test]
fn where_no_directory_says_whom_to_ask_each_line_asks_all_other_nodes() {
    let mut machine = Machine::from_topology(Topology::parse("node:3 l3:1 core:1").unwrap());
    let over = |machine: &Machine, place: &str| {
        let program = program(1, MB, place, &[Access::new(MB, MB, Mode::Read)]);
        let demand = &run(machine, &program, &[0])[0];
        let link = |from: usize, to: usize| {
            let at = machine.links().iter().position(|link| (link.from, link.to) == (from, to)).unwrap();
            let share = demand.uses.iter().find(|this| this.resource == 3 + at).map_or(0.0, |this| this.share);
            share * demand.bytes / MB as f64
        };
        [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)].map(|(from, to)| (link(from, to) * 64.0).round())
    };
    assert_eq!(over(&machine, "on:0"), [0.0; 6]);
    assert_eq!(over(&machine, "on:1"), [0.0, 64.0, 0.0, 0.0, 0.0, 0.0]);
    machine.probe_bytes = Some(8.0);
    // Two questions and two answers for a line of the own node; for one of node 1, its node is asked for the line, and
    // its caches are; node 2 answers node 1.
    assert_eq!(over(&machine, "on:0"), [8.0, 8.0, 8.0, 8.0, 0.0, 0.0]);
    assert_eq!(over(&machine, "on:1"), [16.0, 64.0, 8.0, 0.0, 0.0, 8.0]);
}

#[test]
fn a_leaf_of_known_bandwidth_is_as_slow_as_its_bytes_and_computes_where_they_are_near() {
    let mut machine = Machine::from_topology(Topology::parse("node:2 l3:1 core:1").unwrap());
    machine.leaf_bandwidths.insert("leaf".to_owned(), 4e9);
    let read = Access::new(MB, MB, Mode::Read);
    let mut program = program(1, MB, "on:0", &[read, read, read]);
    // 3 GHz, 4 operations in a cycle: 100 microseconds.
    let work = |flops| Step::Work(Work { leaf: 0, cost: Cost::Flops(flops), accesses: vec![read] });
    program.tasks[0].steps = vec![work(1_200_000), work(1_200_000), work(1_200_000)];
    let farther =
        machine.core_bandwidth(NodeId::new(0), NodeId::new(0)) / machine.core_bandwidth(NodeId::new(1), NodeId::new(0));
    let from_memory = MB as f64 / 4.0;
    let found = run(&machine, &program, &[0, 0, 1]);
    let took: Vec<f64> = found.iter().map(|demand| demand.alone_ns).collect();
    assert!((took[0] - from_memory).abs() < 1e-6, "{took:?}");
    assert!((took[1] - 100_000.0).abs() < 1e-6, "its bytes are in the cache, and faster than that: {took:?}");
    assert!(farther > 1.0 && (took[2] - farther * from_memory).abs() < 1e-6, "{took:?}");
    // Half of the bytes are in the cache: half of the work runs at the cache's speed, the other half at memory's.
    let half = Access::new(MB, MB / 2, Mode::Read);
    program.tasks[0].steps = vec![work(0), work(1_200_000)];
    let Step::Work(first) = &mut program.tasks[0].steps[0] else { unreachable!("it is work") };
    first.accesses = vec![half];
    let took = run(&machine, &program, &[0, 0])[1].alone_ns;
    assert!((took - (50_000.0 + from_memory / 2.0)).abs() < 1e-6, "{took}");
    // Work with a computing time above its bytes' time doesn't wait for them.
    program.tasks[0].steps = vec![work(12_000_000)];
    assert!((run(&machine, &program, &[0])[0].alone_ns - 1_000_000.0).abs() < 1e-6);
    let slower = machine.scaled("core_bandwidth", 0.5).unwrap();
    program.tasks[0].steps = vec![work(1_200_000)];
    assert!((run(&slower, &program, &[0])[0].alone_ns - 2.0 * from_memory).abs() < 1e-6);
    // More core groups than nodes.
    let mut groups = Machine::from_topology(Topology::parse("node:1 l3:3 core:1").unwrap());
    groups.leaf_bandwidths.clone_from(&machine.leaf_bandwidths);
    assert!((run(&groups, &program, &[2])[0].alone_ns - from_memory).abs() < 1e-6);
}

#[test]
fn a_second_pass_comes_from_the_cache_that_it_fits_into() {
    let read = |bytes| Access::new(MB, bytes, Mode::Read);
    let machine = one_node();
    // 1 MiB: memory at 12 GB/s, then L3 at 25.
    let found = run(&machine, &program(1, MB, "fine", &[read(MB), read(MB)]), &[0, 0]);
    assert!((found[0].alone_ns - MB as f64 / 12.0).abs() < 1e-6);
    assert!((found[1].alone_ns - MB as f64 / 25.0).abs() < 1e-6);
    assert_eq!((found[0].near, found[1].near, found[1].cached), (MB as f64, 0.0, MB as f64));
    // 16 KiB: L1 at 100 GB/s. On the other core, L3.
    let small = 16 << 10;
    let found = run(&machine, &program(1, MB, "fine", &[read(small); 3]), &[0, 0, 1]);
    assert!((found[1].alone_ns - small as f64 / 100.0).abs() < 1e-6);
    assert!((found[2].alone_ns - small as f64 / 25.0).abs() < 1e-6);
    // 32 MiB go round and leave nothing reusable in the cache.
    let large = 32 * MB;
    let found = run(&machine, &program(1, large, "fine", &[read(large), read(large)]), &[0, 0]);
    assert_eq!(found[1].near, large as f64);
}

#[test]
fn a_write_takes_the_bytes_from_other_cores() {
    let small = 16 << 10;
    let (read, write) = (Access::new(MB, small, Mode::Read), Access::new(MB, small, Mode::Write));
    let two = Machine::from_topology(Topology::parse("node:2 l3:1 core:1").unwrap());
    let accesses = [read, read, write, read, read];
    let found = run(&two, &program(1, MB, "on:0", &accesses), &[0, 1, 1, 0, 0]);
    let from_memory: Vec<bool> = found.iter().map(|demand| demand.near + demand.far > 0.0).collect();
    assert_eq!(from_memory, [true, true, false, true, false]);
    assert_eq!(
        (found[1].far, found[3].far),
        (small as f64, small as f64),
        "the written lines come from the other's cache"
    );
}

/// What happened: they came from memory, though they were not there yet.
#[test]
fn lines_that_another_nodes_cache_has_written_come_from_there() {
    let small = 16 << 10;
    let (read, write) = (Access::new(MB, small, Mode::Read), Access::new(MB, small, Mode::Write));
    let two = Machine::from_topology(Topology::parse("node:2 l3:1 core:1").unwrap());
    // It lies on node 0, and node 0's core writes it at first; then the other core does, and the first one reads it.
    let found = run(&two, &program(1, MB, "on:0", &[write, write, read, read]), &[0, 1, 0, 0]);
    let bytes: Vec<(f64, f64)> = found.iter().map(|demand| (demand.near, demand.far)).collect();
    let all = small as f64;
    assert_eq!(bytes, [(all, 0.0), (0.0, all), (0.0, all), (0.0, 0.0)]);
    let far_ns = all / two.core_bandwidth(NodeId::new(0), NodeId::new(1)) * 1e9;
    assert!((found[2].alone_ns - far_ns).abs() < 1e-6, "{}", found[2].alone_ns);
    // Controllers are 0 and 1, and link 1>0 is 3.
    let uses = |at: usize| found[at].uses.iter().map(|this: &Use| this.resource).collect::<Vec<_>>();
    assert_eq!((uses(1), uses(2)), (vec![2], vec![3]), "each from the other's cache");
    // When it has been driven out, it is in memory.
    let others = Access::new(65 * MB, 32 * MB, Mode::Read);
    let found = run(&two, &program(2, 32 * MB, "on:0", &[write, others, read]), &[1, 1, 0]);
    assert_eq!((found[2].near, found[2].far), (all, 0.0));
}

#[test]
fn a_heaps_memory_is_used_again_by_its_thread_and_is_in_its_caches() {
    let small = 16 << 10;
    let envelope = |number: usize, mode| Access::new(MB + number * 64 * MB, small, mode);
    let (written, read) = (|number| envelope(number, Mode::Write), |number| envelope(number, Mode::Read));
    let accesses = [written(0), read(0), written(1), read(1), written(2), read(2), written(3)];
    let mut program = program(4, small, "standard", &accesses);
    program.heap = 0..4;
    let two = Machine::from_topology(Topology::parse("node:2 l3:1 core:1").unwrap());
    // The third one is written by the other core, and read by the first: it goes back to the other core's heap.
    let found = run(&two, &program, &[0, 0, 0, 0, 1, 0, 0]);
    let bytes: Vec<(f64, f64)> = found.iter().map(|demand| (demand.near, demand.far)).collect();
    let all = small as f64;
    let none = (0.0, 0.0);
    assert_eq!(bytes, [(all, 0.0), none, none, none, (all, 0.0), (0.0, all), none]);
    program.heap = 0..0;
    let found = run(&two, &program, &[0, 0, 0, 0, 1, 0, 0]);
    assert_eq!((found[2].near, found[6].near), (all, all), "without heaps each is new");
}

#[test]
fn stores_read_first_and_write_later_unless_they_go_past_the_caches() {
    // Twice the size of L3: written granules go back when the next ones come.
    let large = 32 * MB;
    let write = Access::new(MB, large, Mode::Write);
    let machine = one_node();
    let found = run(&machine, &program(1, large, "fine", &[write, write]), &[0, 0]);
    assert_eq!(found[0].near, (large + large / 2) as f64, "the last 16 MiB are still in the cache");
    assert_eq!(found[1].near, (2 * large) as f64);
    let found = run(&machine, &program(1, large, "fine", &[write.streaming()]), &[0]);
    assert_eq!(found[0].near, large as f64);
}

#[test]
fn far_bytes_use_links_and_controllers_in_their_shares() {
    let mut machine = Machine::from_topology(Topology::parse("node:3 core:1").unwrap());
    machine.links = crate::machine::Links::new(3, [(0, 1, 1e9), (1, 2, 1e9)].into_iter()).unwrap();
    // A page of each node, read by node 0; links are 3: 0>1, 4: 1>0, 5: 1>2, 6: 2>1.
    let found = run(&machine, &program(1, 3 * 4096, "fine", &[Access::new(MB, 3 * 4096, Mode::Read)]), &[0]);
    let third = 1.0 / 3.0;
    assert_eq!(found[0].bytes, 3.0 * 4096.0);
    let expected = [(0, third), (1, third), (2, third), (4, 2.0 * third), (6, third)];
    assert_eq!(found[0].uses.len(), expected.len());
    // 12 GB/s at 90 ns are 1080 bytes under way.
    assert!((found[0].window - 1080.0).abs() < 1e-6);
    for (this, expected) in found[0].uses.iter().zip(expected) {
        assert!(this.resource == expected.0 && (this.share - expected.1).abs() < 1e-12, "{:?}", found[0].uses);
        assert!((this.waits - expected.1 / 1080.0).abs() < 1e-12 && this.posts == 0.0, "{this:?}");
    }
}

#[test]
fn rows_of_a_block_are_kept_and_not_their_neighbours() {
    // Columns 0 to 127 of a matrix of 1024 floats a row, then the next block beside it, then the first again.
    let block = |at: usize| Access::new(MB + at * 512, 512, Mode::Read).rows(32, 4096);
    let accesses = [block(0), block(1), block(0)];
    let found = run(&one_node(), &program(1, MB, "fine", &accesses), &[0, 0, 0]);
    let from_memory: Vec<f64> = found.iter().map(|demand| demand.near).collect();
    assert_eq!(from_memory, [16384.0, 16384.0, 0.0]);
}

#[test]
fn a_store_is_counted_at_its_home_and_not_waited_for() {
    // What happened: written bytes were neither near nor far.
    let machine = Machine::by_name("tilepro64").unwrap();
    let bytes = 4096;
    let modes = [Mode::Write, Mode::ReadWrite, Mode::Write].map(|mode| Access::new(MB, bytes, mode));
    let accesses = [modes[0], modes[0].streaming(), modes[1], modes[2]];
    // Home 1 is tile 1, far from tile 0.
    let found = run(&machine, &program(1, bytes, "on:1", &accesses), &[0, 0, 0, 1]);
    let counted: Vec<(f64, f64)> = found.iter().map(|demand| (demand.near, demand.far)).collect();
    assert_eq!(counted, [(0.0, 4096.0), (0.0, 4096.0), (0.0, 8192.0), (4096.0, 0.0)]);
    let posting = 4096.0 / 2.8;
    for at in [0, 1, 3] {
        assert!((found[at].alone_ns - posting).abs() < 1e-6, "{at}: {}", found[at].alone_ns);
        assert_eq!(found[at].latency_ns, 0.0);
    }
}

#[test]
fn each_store_of_a_loop_goes_to_the_home_cache() {
    let machine = Machine::by_name("tilepro64").unwrap();
    // The product of blocks in BOTS' sparselu, of 36 rows and columns: 46,656 stores of a word into 1,296.
    let (bytes, stores) = (36 * 36 * 4, 46_656.0 * 4.0);
    let access = Access::new(MB, bytes, Mode::ReadWrite);
    let found = run(&machine, &program(1, bytes, "on:1", &[access, access.stored(36)]), &[1, 1]);
    let once = bytes as f64;
    assert_eq!([found[0].near - once, found[1].near], [once, stores], "the first one fetched it as well");
    assert!((found[1].alone_ns - (once + stores) / 2.8).abs() < 1e-6, "{}", found[1].alone_ns);
    // A core with a first-level cache that keeps its stores has it there.
    let server = Machine::by_name("xeon-8468").unwrap();
    let found = run(&server, &program(1, bytes, "on:1", &[access, access, access.stored(36)]), &[0, 0, 0]);
    assert_eq!(found[1].alone_ns, found[2].alone_ns);
}

#[test]
fn lines_and_stores_go_over_the_links_between_a_tile_and_the_home() {
    let mut machine = Machine::by_name("tilepro64").unwrap();
    let bytes = 4096;
    let access = |mode| Access::new(MB, bytes, mode);
    // Tile 10 is in row 1 and column 2; home 28, of tile 28, in row 3 and column 4.
    let links = |mode| {
        let program = program(1, bytes, "on:28", &[access(mode)]);
        let memory = Memory::new(&machine, &program, &SimOptions::default()).unwrap();
        let names: Vec<String> = memory.resources().iter().map(|resource| resource.name.clone()).collect();
        let found = run(&machine, &program, &[10]).remove(0);
        let used = found.uses.iter().map(|this| (names[this.resource].clone(), this.share * found.bytes));
        used.filter(|(name, _)| name.starts_with("mesh")).collect::<Vec<_>>()
    };
    let of = |names: [&str; 4]| names.map(|name| (format!("mesh {name}"), bytes as f64)).to_vec();
    assert_eq!(links(Mode::Write), of(["10 right", "11 right", "12 down", "20 down"]));
    let mut read = links(Mode::Read);
    read.sort_by(|a, b| b.0.cmp(&a.0));
    assert_eq!(read, of(["28 left", "27 left", "26 up", "18 up"]));
    machine.homes.as_mut().unwrap().mesh_bandwidth = None;
    let program = program(1, bytes, "on:28", &[access(Mode::Read)]);
    let memory = Memory::new(&machine, &program, &SimOptions::default()).unwrap();
    assert!(memory.resources().iter().all(|resource| !resource.name.starts_with("mesh")));
}

#[test]
fn one_miss_after_the_other_goes_to_the_home_cache() {
    let machine = Machine::by_name("tilepro64").unwrap();
    let homes = machine.homes.clone().unwrap();
    let bytes = 4096;
    let read = Access::new(MB, bytes, Mode::Read);
    // Home 1 is tile 1. Tile 0 reads it twice, then tile 1 does: 256 fetches of 16 bytes.
    let found = run(&machine, &program(1, bytes, "on:1", &[read, read, read]), &[0, 0, 1]);
    let memory_ns = 64.0 * machine.memory.latency_ns;
    assert!((found[0].alone_ns - (256.0 * homes.latency_by_hops_ns[1] + memory_ns)).abs() < 1e-6);
    assert_eq!((found[0].far, found[0].near), (4096.0, 0.0));
    assert!((found[1].alone_ns - 4096.0 / 2.8).abs() < 1e-6, "it is in L1 now");
    assert!((found[2].alone_ns - 256.0 * homes.latency_by_hops_ns[0]).abs() < 1e-6, "and in the home cache");
}
