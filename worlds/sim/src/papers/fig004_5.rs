//! Arrays whose segments lie on several nodes: how long threads take that each read their own segments, by pattern and by segment size.

use super::{Claim, Figure, Input, MORE, Results, Setup, largest, smallest};
use crate::chance::Chance;
use crate::{ArraySpec, Cost, Machine, Program, Step, TaskSpec, Work};
use std::ops::RangeInclusive;
use vicus_memory::distribution::Distribution;
use vicus_memory::{ArrayOptions, Pattern};
use vicus_schedule::{Access, Kind, Mode, Setting};
use vicus_topology::LocationId;

/// A loop over all elements of an array, in which each thread reads the segments that are its own.
#[derive(Clone, Debug)]
pub struct ArrayLoop {
    /// Names the machine.
    machine: &'static str,
    /// Which thread has which segment. All patterns but the static hash keep a segment's place in the segment.
    pattern: Pattern,
    /// How large a segment is.
    pages: usize,
}

/// §5.2, Fig. 5: arrays of 100 million elements. The text does not say how large these are; here they are words.
const BYTES: usize = 800_000_000;

/// In so many pieces each thread walks over the array, so that threads that are at the same place share what they have fetched.
const PIECES: usize = 64;

impl ArrayLoop {
    /// The thread that has each segment.
    fn owners(&self, segments: usize, threads: usize) -> Vec<usize> {
        let mut chance = Chance::new(1);
        let owner = |segment| match self.pattern {
            Pattern::Fields => segment * threads / segments,
            Pattern::Random(_) => chance.below(threads as u64) as usize,
            _ => segment % threads,
        };
        (0..segments).map(owner).collect()
    }

    /// The program for so many threads, with so much of the array.
    pub(super) fn program(&self, threads: usize, times: f64) -> Program {
        let machine = Machine::by_name(self.machine).expect("a figure names a machine that comes with the crate");
        let plan = machine.plan(&"central".parse::<Setting>().expect("there is this strategy"), threads);
        let node = |thread: usize| plan.seats[thread].node.index();
        let (segment, line) = (self.pages * machine.memory.page_bytes, machine.memory.line_bytes);
        let owners = self.owners(((BYTES as f64 * times) as usize).div_ceil(segment), threads);
        let mut arrays: Vec<ArraySpec> = Vec::new();
        let mut array = |bytes: usize, node: usize| {
            let end = arrays.last().map_or(1 << 20, |last| last.range().end + 1);
            let base = end.next_multiple_of(1 << 20);
            arrays.push(ArraySpec {
                base,
                bytes: bytes.max(line),
                distribution: Distribution::On(LocationId::new(node)),
            });
            base
        };
        // A thread's segments lie one behind the other, and so do the lines in which those of a node say whose they are.
        let count = |of: &dyn Fn(usize) -> bool| owners.iter().filter(|&&owner| of(owner)).count();
        let own: Vec<usize> =
            (0..threads).map(|thread| array(segment * count(&|owner| owner == thread), node(thread))).collect();
        let nodes = 0..machine.topology.nodes.len();
        let lines: Vec<usize> = nodes.map(|at| array(line * count(&|owner| node(owner) == at), at)).collect();
        let mut tasks = vec![TaskSpec { steps: Vec::new(), pinned: Some(0), ..TaskSpec::default() }];
        tasks.extend((0..threads).map(|thread| TaskSpec { pinned: Some(thread), ..TaskSpec::default() }));
        let (mut read, mut asked) = (vec![0; threads], vec![0; lines.len()]);
        for piece in owners.chunks(owners.len().div_ceil(PIECES)) {
            let mut of_nodes = vec![0; lines.len()];
            piece.iter().for_each(|&owner| of_nodes[node(owner)] += 1);
            for thread in 0..threads {
                let mut accesses = Vec::new();
                let mut reads = |from: usize, bytes: usize| {
                    accesses.extend((bytes > 0).then(|| Access::new(from, bytes, Mode::Read)));
                };
                if self.pattern != Pattern::StaticHash {
                    (0..lines.len()).for_each(|at| reads(lines[at] + line * asked[at], line * of_nodes[at]));
                }
                let segments = piece.iter().filter(|&&owner| owner == thread).count();
                reads(own[thread] + segment * read[thread], segment * segments);
                read[thread] += segments;
                let work = Work { leaf: 0, cost: Cost::Nanos(0.0), accesses };
                tasks[1 + thread].steps.push(Step::Work(work));
            }
            asked.iter_mut().zip(of_nodes).for_each(|(asked, more)| *asked += more);
        }
        tasks[0].steps = vec![Step::Start, Step::Spawn(1..1 + threads as u32), Step::Wait, Step::End];
        tasks[0].kind = Kind::Deferred;
        Program { name: "array".to_owned(), arrays, heap: 0..0, leaves: vec!["read".to_owned()], tasks }
    }
}

/// The machines, with all of their threads.
const MACHINES: [(&str, usize); 3] = [("altix-3700", 48), ("niagara-2", 128), ("xeon-5150", 4)];

const STATIC: &str = "static hash";
const FIELDS: &str = "fields";

/// The paper's patterns.
const PATTERNS: [(&str, Pattern); 4] = [
    (STATIC, Pattern::StaticHash),
    ("stripes", Pattern::Stripes),
    (FIELDS, Pattern::Fields),
    ("random", Pattern::Random(1)),
];

/// Pages to a segment. The text names the least and the default.
const PAGES: [usize; 4] = [1, 4, 16, 64];

fn label(pattern: &str, pages: usize) -> String {
    format!("{pattern}, {pages}")
}

/// The longest time of a pattern over all segment sizes, to the shortest.
fn spread(results: &Results, machine: &str, pattern: &str) -> f64 {
    largest(PAGES.map(|pages| of_best(results, machine, pattern, pages)))
}

/// A pattern's time with segments of so many pages, to its shortest one.
fn of_best(results: &Results, machine: &str, pattern: &str, pages: usize) -> f64 {
    largest(PAGES.map(|other| results.ratio(machine, &label(pattern, pages), &label(pattern, other))))
}

/// Why the smallest segments are too fast.
const PREFETCHED: &str =
    "incorrect prefetching (§5.2): what the caches fetch in vain behind each line that says whose a segment is";

/// What counts as the paper's number, which is one of a chart.
const ABOUT: RangeInclusive<f64> = 0.75..=1.25;

/// What counts as no cost that is left.
const MASKED: RangeInclusive<f64> = 1.0..=1.1;

pub(super) fn figure() -> Figure {
    let mut setups = Vec::new();
    for machine in MACHINES {
        for (name, pattern) in PATTERNS {
            setups.extend(PAGES.map(|pages| {
                let input = Input::Array(ArrayLoop { machine: machine.0, pattern, pages });
                let setup = Setup::of(machine.0, machine, input).under("central", label(name, pages));
                Setup { reduced: 0.5, ..setup }
            }));
        }
    }
    let mut claims = vec![
        Claim::new(
            "niagara-2: with the static hash, segment sizes differ by less than 12 %",
            "the longest time to the shortest",
            1.0..=1.12,
            |results| spread(results, "niagara-2", STATIC),
        ),
        Claim::new(
            "niagara-2: the best segment size for fields is 2.2 times as fast as the worst",
            "predicted to published",
            ABOUT,
            |results| spread(results, "niagara-2", FIELDS) / 2.2,
        )
        .published(2.2, "times")
        .missing(PREFETCHED),
    ];
    for (machine, _) in MACHINES {
        claims.push(Claim::new(
            format!("{machine}: with segments of a page, the static hash is fastest"),
            "the shortest time of the others to its",
            MORE,
            move |results| {
                let ratio = |(name, _)| results.ratio(machine, &label(name, 1), &label(STATIC, 1));
                smallest(PATTERNS[1..].iter().copied().map(ratio))
            },
        ));
        claims.push(Claim::new(
            format!("{machine}: 16 pages mask what the other patterns cost"),
            "time to that of the pattern's best size, the largest",
            MASKED,
            move |results| {
                let pages = ArrayOptions::default().segment_pages;
                largest(PATTERNS[1..].iter().map(|(name, _)| of_best(results, machine, name, pages)))
            },
        ));
    }
    Figure {
        id: "004-fig5",
        title: "Arrays: patterns and segment sizes",
        source: "Wheeler, Thain, Murphy, \"Portable Performance from Workstation to Supercomputer: Distributing Data Structures with Qthreads\", \
                 2009, Fig. 5 and §5.2",
        notes: &[
            "The paper's charts are not in its text: claims are what the text says of them, and sizes but for 1 and 16 pages are ours.",
            "With all patterns but the static hash, each thread reads a line of every segment to learn whose it is (§5.2). What the caches fetch in vain \
             behind such a line is not in the model.",
        ],
        baseline: "static hash, 16",
        samples: 1,
        setups,
        claims,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_segment_is_read_once_and_asked_by_all_but_with_the_static_hash() {
        for (name, pattern) in PATTERNS {
            let array = ArrayLoop { machine: "xeon-5150", pattern, pages: 16 };
            let program = array.program(4, 0.01);
            assert_eq!(program.check(), Ok(()), "{name}");
            let works = program.tasks.iter().flat_map(|task| &task.steps).filter_map(|step| match step {
                Step::Work(work) => Some(&work.accesses),
                _ => None,
            });
            let (mut segments, mut lines) = (0, 0);
            for access in works.flatten() {
                let is_segment = program.array_at(access.start).unwrap() < 4;
                *if is_segment { &mut segments } else { &mut lines } += access.bytes;
            }
            // 8 MB are 123 segments of 64 KB.
            assert_eq!(segments, 123 << 16, "{name}");
            let asked = if pattern == Pattern::StaticHash { 0 } else { 4 * 123 * 64 };
            assert_eq!(lines, asked, "{name}");
        }
    }

    #[test]
    fn claims_hold_of_what_the_paper_says_and_not_of_the_contrary() {
        let judged = |time: &dyn Fn(&str, usize) -> f64| -> Vec<bool> {
            let runs = MACHINES.iter().flat_map(|&(machine, _)| {
                let of = move |(name, _)| PAGES.map(|pages| (machine, name, pages));
                PATTERNS.into_iter().flat_map(of)
            });
            let walls: Vec<_> =
                runs.map(|(machine, name, pages)| (machine, label(name, pages), time(name, pages))).collect();
            let results = Results::from_walls(walls.iter().map(|(machine, label, wall)| (*machine, &label[..], *wall)));
            figure().claims.iter().map(|claim| claim.judge(&results).1).collect()
        };
        let is_small = |pages| pages < 16;
        let paper = |name: &str, pages| if name != STATIC && is_small(pages) { 2.2 } else { 1.0 };
        assert!(judged(&paper).iter().all(|&holds| holds));
        let contrary = |name: &str, pages| match name {
            STATIC => 3.0 * paper(FIELDS, pages),
            _ if is_small(pages) => 1.0,
            _ => 1.3,
        };
        assert!(!judged(&contrary).iter().any(|&holds| holds));
    }
}
