//! How long a core waits for memory elsewhere: on other nodes (Fig. 2), and in other tiles' home caches (Fig. 5).

use super::{Claim, Figure, Input, MORE, Results, Setup, largest, smallest};
use crate::{Program, Recorder, Step};
use vicus_kernels::{KernelWorld, Leaf, Schedule};
use vicus_memory::distribution::Distribution;
use vicus_topology::LocationId;

/// Both machines' lines, in bytes.
const LINE: usize = 64;

const NODES: usize = 8;
const TILES: usize = 63;

/// The first thread reads a word of 32 bits of each line of an array at this location. It computes nothing, so its time
/// is the lines' time.
fn read(bytes: usize, location: usize) -> Program {
    Recorder::record_with("read", 1, |world| {
        let array = world.array::<f32>(bytes / size_of::<f32>(), &Distribution::On(LocationId::new(location)));
        world.push(Step::Start);
        world.each(1, Schedule::Static, |_| {
            let words = array.reads(0..1).rows(bytes / LINE, LINE);
            // Again and again, so that the cost of making the task does not matter.
            (0..100).for_each(|_| world.work(Leaf { name: "read", flops: 0 }, &[words], || ()));
        });
        world.push(Step::End);
    })
}

/// §2: "4 MB of memory".
fn read_node(node: usize) -> Program {
    read(4 << 20, node)
}

/// A size within home caches, so that no line comes from memory.
fn read_home(tile: usize) -> Program {
    read(32 << 10, tile)
}

/// A figure of a machine's locations, each read from the first one.
struct Locations {
    id: &'static str,
    title: &'static str,
    source: &'static str,
    machine: &'static str,
    /// The kind of a location.
    what: &'static str,
    count: usize,
    program: fn(usize) -> Program,
}

fn figure_of(locations: Locations, claims: Vec<Claim>) -> Figure {
    let Locations { id, title, source, machine, what, count, program } = locations;
    let setup = |location: usize| {
        Setup::of(what, (machine, 1), Input::Program(program, location)).under("steal", label(what, location))
    };
    Figure {
        id,
        title,
        source,
        notes: &[
            "The times of reading, which are as latencies are: a core alone gets bytes in inverse proportion to them.",
        ],
        baseline: if what == "node" { "node 0" } else { "tile 0" },
        samples: 1,
        setups: (0..count).map(setup).collect(),
        claims,
    }
}

fn label(what: &str, location: usize) -> String {
    format!("{what} {location}")
}

/// The times of all other locations, to that of the first.
fn others<'r>(results: &'r Results, what: &'static str, count: usize) -> impl Iterator<Item = f64> + 'r {
    (1..count).map(move |location| results.ratio(what, &label(what, location), &label(what, 0)))
}

/// Why these claims test nothing.
const FROM_FILE: &str = "the machine's file has these latencies by distance, and from this text";

fn by_construction(claims: Vec<Claim>) -> Vec<Claim> {
    claims.into_iter().map(|claim| claim.by_construction(FROM_FILE)).collect()
}

pub(super) fn fig2() -> Figure {
    let claims = vec![
        Claim::new("remote nodes are expensive", "the least time of another node to that of node 0", MORE, |results| {
            smallest(others(results, "node", NODES))
        }),
        Claim::new(
            "the average NUMA factor is 1.19",
            "the mean time of all nodes to that of node 0; within 5 % of the paper's",
            1.13..=1.25,
            |results| (1.0 + others(results, "node", NODES).sum::<f64>()) / NODES as f64,
        ),
    ];
    let title = "Memory of each node, read from node 0 of an eight-node Opteron 6172";
    let source = "Muddukrishna, Jonsson, Brorsson, Scientific Programming 2015, Fig. 2 and §2";
    let (id, machine) = ("muddukrishna-fig2", "opteron-6172");
    let nodes = Locations { id, title, source, machine, what: "node", count: NODES, program: read_node };
    figure_of(nodes, by_construction(claims))
}

pub(super) fn fig5() -> Figure {
    let claims = vec![
        Claim::new(
            "the nearest remote home cache takes four times as long",
            "time to that of the own",
            3.8..=4.2,
            |results| smallest(others(results, "tile", TILES)),
        ),
        Claim::new("the farthest one takes six times as long", "time to that of the own", 5.7..=6.3, |results| {
            largest(others(results, "tile", TILES))
        }),
    ];
    let title = "Home caches, read from tile 0 of a TILEPro64";
    let source = "Muddukrishna, Jonsson, Brorsson, Scientific Programming 2015, Fig. 5 and §2";
    let (id, machine) = ("muddukrishna-fig5", "tilepro64");
    let tiles = Locations { id, title, source, machine, what: "tile", count: TILES, program: read_home };
    figure_of(tiles, by_construction(claims))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_hold_of_what_the_paper_says_and_not_of_a_machine_without_distance() {
        let walls = |what: &'static str, count: usize, far: &dyn Fn(usize) -> f64| {
            let labels: Vec<String> = (0..count).map(|at| label(what, at)).collect();
            let walls =
                labels.iter().enumerate().map(|(at, label)| (what, &label[..], if at == 0 { 1.0 } else { far(at) }));
            Results::from_walls(walls)
        };
        let judged = |figure: Figure, results: &Results| -> Vec<bool> {
            figure.claims.iter().map(|claim| claim.judge(results).1).collect()
        };
        // Two kinds of nodes, as the distances 16 and 22 are.
        assert_eq!(judged(fig2(), &walls("node", NODES, &|at| if at % 2 == 0 { 1.17 } else { 1.28 })), [true; 2]);
        assert_eq!(judged(fig2(), &walls("node", NODES, &|_| 1.0)), [false; 2]);
        assert_eq!(judged(fig5(), &walls("tile", TILES, &|at| 4.0 + 2.0 * at as f64 / 62.0)), [true; 2]);
        assert_eq!(judged(fig5(), &walls("tile", TILES, &|_| 1.0)), [false; 2]);
    }
}
