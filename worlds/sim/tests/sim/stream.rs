//! STREAM copy on the machines of Wittmann and Hager 2010, against their Table 1.

use vicus_kernels::{KernelWorld, Leaf, Schedule};
use vicus_memory::distribution::Distribution;
use vicus_schedule::Setting;
use vicus_sim::{Machine, Recorder, SimOptions, Step, simulate};

/// The result of STREAM copy on this number of threads, in GB/s: each element counts as read once and written once,
/// regardless of other traffic.
fn copy(machine: &Machine, threads: usize, streaming_stores: bool) -> f64 {
    // 64 MiB for each thread: beyond all caches.
    let each = 8 << 20;
    let program = Recorder::record_with("stream copy", threads, |world| {
        let [from, to] = [(); 2].map(|()| world.array::<f64>(threads * each, &Distribution::Standard));
        let part = |thread: usize| thread * each..(thread + 1) * each;
        let store = |thread: usize| match streaming_stores {
            true => to.writes(part(thread)).streaming(),
            false => to.writes(part(thread)),
        };
        world.each(threads, Schedule::Static, |thread| {
            let leaf = Leaf { name: "init", flops: 0 };
            world.work(leaf, &[from.writes(part(thread)), store(thread)], || ());
        });
        world.push(Step::Start);
        world.each(threads, Schedule::Static, |thread| {
            world.work(Leaf { name: "copy", flops: 0 }, &[from.reads(part(thread)), store(thread)], || ());
        });
        world.push(Step::End);
    });
    let plan = machine.plan(&"central".parse::<Setting>().unwrap(), threads);
    let outcome = simulate(machine, &plan, &program, &SimOptions::default()).unwrap();
    (2 * 8 * threads * each) as f64 / outcome.wall_ns
}

#[test]
fn the_test_bed_has_the_papers_bandwidth() {
    // Table 1: the name, the cores of a socket, GB/s of a socket and of all, and whether with non-temporal stores.
    let table =
        [("istanbul", 6, 9.9, 38.6, true), ("nehalem-ep", 4, 18.9, 36.6, true), ("nehalem-ex", 8, 8.15, 33.4, false)];
    for (name, cores, socket, system, streaming_stores) in table {
        let machine = Machine::by_name(name).unwrap();
        let all = machine.topology.cores.len();
        for (threads, paper) in [(cores, socket), (all, system)] {
            let found = copy(&machine, threads, streaming_stores);
            assert!((found / paper - 1.0).abs() < 0.05, "{name}, {threads} threads: {found:.2} and not {paper}");
        }
        let stream = machine.stream.unwrap();
        let file = [stream.socket / 1e9, stream.system / 1e9];
        assert_eq!((file, stream.streaming_stores), ([socket, system], streaming_stores), "{name}");
    }
}

#[test]
fn one_core_does_not_fill_a_socket() {
    for name in ["istanbul", "nehalem-ep", "nehalem-ex"] {
        let machine = Machine::by_name(name).unwrap();
        let (one, socket) = (copy(&machine, 1, true), machine.stream.unwrap().socket / 1e9);
        assert!(one < 0.9 * socket, "{name}: {one} of {socket}");
    }
}
