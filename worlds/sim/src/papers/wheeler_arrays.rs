//! Arrays with segments on several nodes: the time of threads reading their own segments, by pattern, by segment size,
//! and by the layout of elements.

use super::wheeler::SOURCE;
use super::{ABOUT, Claim, Figure, Input, MORE, Results, Setup, geometric_mean, largest, smallest};
use crate::chance::Chance;
use crate::{ArraySpec, Cost, Machine, Program, Step, TaskSpec, Work};
use std::ops::RangeInclusive;
use vicus_memory::distribution::Distribution;
use vicus_memory::{ArrayOptions, Pattern};
use vicus_schedule::{Access, Kind, Mode, Setting};
use vicus_topology::LocationId;

/// A loop over all elements of an array; each thread reads its own segments.
#[derive(Clone, Debug)]
pub struct ArrayLoop {
    /// Names the machine.
    machine: &'static str,
    /// The assignment of segments to threads. All patterns but the static hash keep a segment's place in the segment.
    pattern: Pattern,
    /// How large a segment is.
    pages: usize,
    /// Its elements.
    elements: Elements,
}

/// The elements of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Elements {
    /// All bytes, from the first element's to the last one's.
    bytes: usize,
    /// How long a core computes for each byte.
    nanos: f64,
}

/// §5.2, Fig. 5: arrays of 100 million elements. The text does not say how large these are; here they are words, and
/// the cores only read them.
const WORDS: Elements = Elements { bytes: 800_000_000, nanos: 0.0 };

/// Number of pieces in each thread's walk over the array, so that threads at the same place share fetched lines.
const PIECES: usize = 64;

impl ArrayLoop {
    /// The thread of each segment.
    fn owners(&self, segments: usize, threads: usize) -> Vec<usize> {
        let mut chance = Chance::new(1);
        let owner = |segment| match self.pattern {
            Pattern::Fields => segment * threads / segments,
            Pattern::Random(_) => chance.below(threads as u64) as usize,
            _ => segment % threads,
        };
        (0..segments).map(owner).collect()
    }

    /// The program for this number of threads, with this share of the array.
    pub(super) fn program(&self, threads: usize, times: f64) -> Program {
        let machine = Machine::by_name(self.machine).expect("a figure names a machine that comes with the crate");
        let plan = machine.plan(&"central".parse::<Setting>().expect("there is this strategy"), threads);
        let node = |thread: usize| plan.seats[thread].node.index();
        let (segment, line) = (self.pages * machine.memory.page_bytes, machine.memory.line_bytes);
        let owners = self.owners(((self.elements.bytes as f64 * times) as usize).div_ceil(segment), threads);
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
        // A thread's segments lie one behind the other, and so do a node's lines with the owners of its segments.
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
                let cost = Cost::Nanos((segment * segments) as f64 * self.elements.nanos);
                let work = Work { leaf: 0, cost, accesses };
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

/// A pattern's time with segments of this number of pages, to its shortest one.
fn of_best(results: &Results, machine: &str, pattern: &str, pages: usize) -> f64 {
    largest(PAGES.map(|other| results.ratio(machine, &label(pattern, pages), &label(pattern, other))))
}

/// The reason for the speed of patterns that keep places in segments.
const PREFETCHED: &str =
    "incorrect prefetching (§5.2): what the caches fetch in vain behind each line that says whose a segment is";

/// The search for segments, and its part outside of the model.
const ASKED: &str = "With all patterns but the static hash, each thread reads a line of every segment to learn whose \
    it is (§5.2). What the caches fetch in vain \
                     behind such a line is not in the model.";

/// The range for no remaining cost.
const MASKED: RangeInclusive<f64> = 1.0..=1.1;

fn setup(machine: (&'static str, usize), array: ArrayLoop, label: String) -> Setup {
    let setup = Setup::of(machine.0, machine, Input::Array(array)).under("central", label);
    Setup { reduced: 0.5, ..setup }
}

pub(super) fn fig5() -> Figure {
    let mut setups = Vec::new();
    for machine in MACHINES {
        for (name, pattern) in PATTERNS {
            setups.extend(PAGES.map(|pages| {
                setup(machine, ArrayLoop { machine: machine.0, pattern, pages, elements: WORDS }, label(name, pages))
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
        id: "wheeler-fig5",
        title: "Arrays: patterns and segment sizes",
        source: SOURCE,
        notes: &[
            "The paper's charts are not in its text: claims are what the text says of them, and sizes but for 1 and 16 \
                pages are ours.",
            ASKED,
        ],
        baseline: "static hash, 16",
        samples: 1,
        setups,
        claims,
    }
}

/// The patterns with segments of the default size.
pub(super) fn fig4_patterns() -> Figure {
    let pages = ArrayOptions::default().segment_pages;
    let of = |(machine, threads)| {
        PATTERNS.map(|(name, pattern)| {
            let array = ArrayLoop { machine, pattern, pages, elements: WORDS };
            setup((machine, threads), array, name.to_owned())
        })
    };
    let fastest = |machine: &'static str, fastest: &'static str| {
        let text = format!("{machine}: {fastest} is fastest");
        Claim::new(text, "the shortest time of the others to its", MORE, move |results| {
            let others = PATTERNS.iter().filter(|(name, _)| *name != fastest);
            smallest(others.map(|(name, _)| results.ratio(machine, name, fastest)))
        })
    };
    Figure {
        id: "wheeler-fig4-patterns",
        title: "Arrays: patterns with segments of the default size",
        source: SOURCE,
        notes: &[
            "The paper's charts are not in its text: claims are what the text says of them. wheeler-fig4 has the \
                iteration beside a serial one.",
            ASKED,
        ],
        baseline: STATIC,
        samples: 1,
        setups: MACHINES.into_iter().flat_map(of).collect(),
        claims: vec![
            fastest("altix-3700", STATIC),
            fastest("xeon-5150", STATIC).missing(PREFETCHED),
            fastest("niagara-2", "stripes")
                .missing("what one thread's caches fetch in vain, and a near thread uses (§5.2)"),
        ],
    }
}

/// A core's time for each byte of elements read word by word: at multiples of a word, and one behind the other.
const READING: [(&str, f64, f64); 3] = [
    // Two loads in a cycle (Intel, Itanium 2 reference manual for software development); packed ones byte by byte,
    // since the processor refuses unaligned words.
    ("altix-3700", 0.5 / 8.0 / 1.5, 0.5 / 1.5),
    // An instruction in a cycle, and for each byte of packed ones a load, a shift and an or.
    ("niagara-2", 1.0 / 8.0 / 1.2, 3.0 / 1.2),
    // A load in a cycle, of any address; 7 of 64 cross a line, which costs 12 cycles (estimate, after A. Fog, The
    // microarchitecture of Intel, AMD and VIA CPUs).
    ("xeon-5150", 1.0 / 8.0 / 2.66, (1.0 + 12.0 * 7.0 / 64.0) / 8.0 / 2.66),
];

/// The sizes of elements, in bytes, none a multiple of a word: those rounded up by Qthreads, and others.
const SMALL: [usize; 8] = [4, 12, 20, 28, 36, 44, 52, 60];
const LARGE: [usize; 4] = [100, 252, 508, 1020];

fn lying(how: &str, bytes: usize) -> String {
    format!("{how}, {bytes}")
}

/// How many times as long packed elements of a size take as aligned ones.
fn penalty(results: &Results, machine: &str, bytes: usize) -> f64 {
    results.ratio(machine, &lying("packed", bytes), &lying("aligned", bytes))
}

/// Elements at multiples of eight bytes, and packed ones.
pub(super) fn fig6() -> Figure {
    let elements = 1_000_000;
    let (mut setups, mut claims) = (Vec::new(), Vec::new());
    for machine in MACHINES {
        let &(_, aligned, packed) = READING.iter().find(|(name, ..)| *name == machine.0).expect("it is one of them");
        for size in SMALL.into_iter().chain(LARGE) {
            for (how, stride, nanos) in [("aligned", size.next_multiple_of(8), aligned), ("packed", size, packed)] {
                // Bytes between elements are not read, but come with the read ones.
                let nanos = nanos * size as f64 / stride as f64;
                let elements = Elements { bytes: elements * stride, nanos };
                let array = ArrayLoop { machine: machine.0, pattern: Pattern::StaticHash, pages: 1, elements };
                setups.push(setup(machine, array, lying(how, size)));
            }
        }
        let machine = machine.0;
        let same =
            "code that reads large elements in another way than small ones; here each byte costs the same in both";
        let memory = "what the paper's function does with an element, and whether its bandwidth counts the bytes \
            between elements, which the text does not \
                      say; here memory is what takes time on this machine, and fewer bytes take less";
        let clear = "aligning has a clear benefit for small elements";
        claims.push(
            Claim::new(
                format!("{machine}: {clear}"),
                "packed to aligned, time, the mean of those under 64 bytes",
                MORE,
                move |results| geometric_mean(&SMALL.map(|bytes| penalty(results, machine, bytes))),
            )
            .missing(memory),
        );
        claims.push(
            Claim::new(
                format!("{machine}: the benefit is smaller with large elements"),
                "packed to aligned, time, the largest of those under 64 bytes to that of 1020",
                MORE,
                move |results| {
                    largest(SMALL.iter().map(|&bytes| penalty(results, machine, bytes)))
                        / penalty(results, machine, 1020)
                },
            )
            .missing(same),
        );
    }
    claims.push(
        Claim::new(
            "packed elements halve the bandwidth at worst",
            "predicted to published, the largest of all machines and sizes",
            ABOUT,
            |results| {
                let of = |(machine, _)| SMALL.iter().chain(&LARGE).map(move |&bytes| penalty(results, machine, bytes));
                largest(MACHINES.into_iter().flat_map(of)) / 2.0
            },
        )
        .published(2.0, "times"),
    );
    Figure {
        id: "wheeler-fig6",
        title: "Arrays of a million elements: aligned and packed ones",
        source: SOURCE,
        notes: &[
            "The paper's charts are not in its text: claims are what the text says of them. It says neither which \
                sizes were measured nor what was done \
             with each element; here it is read word by word, once, by all threads, each on its own node.",
            "Which machine Fig. 6(c) shows, where packed elements halve the bandwidth, is not in the text.",
        ],
        baseline: "aligned, 4",
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
            let array = ArrayLoop { machine: "xeon-5150", pattern, pages: 16, elements: WORDS };
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
            fig5().claims.iter().map(|claim| claim.judge(&results).1).collect()
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

    #[test]
    fn claims_about_the_fastest_pattern_hold_of_what_the_paper_says() {
        let judged = |fastest: &dyn Fn(&str) -> &'static str| -> Vec<bool> {
            let walls = MACHINES.iter().flat_map(|&(machine, _)| {
                PATTERNS.map(|(name, _)| (machine, name, if name == fastest(machine) { 1.0 } else { 1.1 }))
            });
            let results = Results::from_walls(walls);
            fig4_patterns().claims.iter().map(|claim| claim.judge(&results).1).collect()
        };
        assert_eq!(judged(&|machine| if machine == "niagara-2" { "stripes" } else { STATIC }), [true; 3]);
        assert_eq!(judged(&|machine| if machine == "niagara-2" { STATIC } else { "stripes" }), [false; 3]);
    }

    #[test]
    fn claims_about_elements_hold_of_what_the_paper_says() {
        let judged = |packed: &dyn Fn(usize) -> f64| -> Vec<bool> {
            let mut walls = Vec::new();
            for (machine, _) in MACHINES {
                for size in SMALL.into_iter().chain(LARGE) {
                    walls.push((machine, lying("aligned", size), 1.0));
                    walls.push((machine, lying("packed", size), packed(size)));
                }
            }
            let results = Results::from_walls(walls.iter().map(|(machine, label, wall)| (*machine, &label[..], *wall)));
            fig6().claims.iter().map(|claim| claim.judge(&results).1).collect()
        };
        assert_eq!(judged(&|size| if size < 64 { 2.0 } else { 1.0 }), [true; 7]);
        assert_eq!(judged(&|size| if size < 64 { 1.0 } else { 1.2 }), [false; 7]);
    }

    #[test]
    fn packed_elements_are_fewer_bytes_and_take_longer_to_read() {
        let figure = fig6();
        let read = |label: &str| {
            let setup =
                figure.setups.iter().find(|setup| setup.machine == "xeon-5150" && setup.label == label).unwrap();
            let program = setup.program(1.0);
            assert_eq!(program.check(), Ok(()));
            let works = program.tasks.iter().flat_map(|task| &task.steps).filter_map(|step| match step {
                Step::Work(Work { cost: Cost::Nanos(ns), accesses, .. }) => Some((*ns, accesses)),
                _ => None,
            });
            works.fold((0.0, 0), |(ns, bytes), (more, accesses)| {
                (ns + more, bytes + accesses.iter().map(|access| access.bytes).sum::<usize>())
            })
        };
        let (aligned, packed) = (read("aligned, 12"), read("packed, 12"));
        // Whole pages: 12 MB and 16 MB.
        assert_eq!(
            (aligned.1, packed.1),
            (16_000_000_usize.next_multiple_of(4096), 12_000_000_usize.next_multiple_of(4096))
        );
        // A million elements of one and a half words, with a cycle for each word, and 21/16 more for loads across
        // lines.
        let per_word = 1e6 * 1.5 / 2.66;
        assert!((aligned.0 / per_word - 1.0).abs() < 1e-3, "{aligned:?}");
        assert!((packed.0 / per_word / (1.0 + 21.0 / 16.0) - 1.0).abs() < 1e-3, "{packed:?}");
    }
}
