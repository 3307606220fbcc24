//! Queues and pools divided among threads, against those with one place for all.

use super::memory::{READS, Traffic};
use super::shared::{Pool, Queue, Roles, Shared, What};
use super::{ABOUT, Claim, Figure, Input, MORE, NOT_MORE, Results, Setup, largest, smallest};
use std::ops::RangeInclusive;

/// The machines, and the numbers of threads on each.
const MACHINES: [(&str, &[usize]); 3] =
    [("altix-3700", &[1, 2, 8, 24, 48]), ("niagara-2", &[1, 2, 8, 16, 128]), ("xeon-5150", &[1, 2, 4])];

/// How many elements or items a run has.
const OPERATIONS: usize = 8192;

/// The bytes of a word, and of the large elements.
const WORD: usize = 8;
const LARGE: usize = 1024;

fn most(machine: &str) -> usize {
    let of = MACHINES.iter().find(|(name, _)| *name == machine).expect("it is one of them");
    *of.1.last().expect("it has a number of threads")
}

fn label(name: &str, threads: usize) -> String {
    format!("{name}, {threads}")
}

/// The share of the operations of runs with varying parameters. If many threads compete for one place, runs take long
/// to simulate and soon go on as they do later. Others are so short that their threads' begins, up to
/// [`Parameters::wake_ns`](crate::Parameters::wake_ns) apart, would count.
fn reduced(what: What, threads: usize) -> f64 {
    let divided = matches!(what, What::Queue(Queue::Distributed, ..) | What::Pool(Pool::Distributed | Pool::Arenas));
    if divided || threads <= 8 { 0.5 } else { 0.125 }
}

fn setup(machine: &'static str, name: &str, threads: usize, what: What, pinned: bool) -> Setup {
    let input = Input::Shared(Shared { threads, what, operations: OPERATIONS, pinned });
    let setup = Setup::of(machine, (machine, 1), input).under("central", label(name, threads));
    Setup { reduced: reduced(what, threads), ..setup }
}

/// One run for each machine and number of threads.
fn each(name: &str, what: What, pinned: bool) -> Vec<Setup> {
    let of = |&(machine, threads): &(&'static str, &[usize])| {
        let threads = threads.iter();
        threads.map(|&threads| setup(machine, name, threads, what, pinned)).collect::<Vec<_>>()
    };
    MACHINES.iter().flat_map(of).collect()
}

/// A structure with a number of threads.
#[derive(Clone, Copy)]
struct Contender {
    name: &'static str,
    threads: usize,
}

/// A structure with this number of threads.
const fn with(name: &'static str, threads: usize) -> Contender {
    Contender { name, threads }
}

/// Operations of one structure over another's.
fn faster(
    text: impl Into<String>,
    expected: RangeInclusive<f64>,
    machine: &'static str,
    one: Contender,
    other: Contender,
) -> Claim {
    Claim::new(text, "operations a second", expected, move |results| {
        results.ratio(machine, &label(other.name, other.threads), &label(one.name, one.threads))
    })
}

/// This ratio with all threads, against a published number.
fn published(machine: &'static str, one: &'static str, other: &'static str, times: f64) -> Claim {
    let threads = most(machine);
    let text = format!("{machine}: {one} is {times} times as fast as {other} with all threads");
    let claim = Claim::new(text, "predicted to published", ABOUT, move |results| {
        results.ratio(machine, &label(other, threads), &label(one, threads)) / times
    });
    claim.published(times, "times")
}

pub(super) const SOURCE: &str = "Wheeler, Thain, Murphy, \"Portable Performance from Workstation to Supercomputer: \
    Distributing Data Structures with \
                      Qthreads\", 2009";

const PLACES: &str = "The paper's charts are not in its text: claims are what the text says of them. Threads are on \
    cores first, then on \
                      their further hardware threads.";

const LATENCIES: &str =
    "Operations are those on cache lines, one waiting for the other; lines of different addresses share no bandwidth.";

pub(super) fn fig3() -> Figure {
    let mut setups = each("qpool", What::Pool(Pool::Distributed), true);
    setups.extend(each("locked pool", What::Pool(Pool::Locked), true));
    setups.extend(
        each("malloc", What::Pool(Pool::Arenas), true).into_iter().filter(|setup| setup.machine != "niagara-2"),
    );
    setups.extend(
        each("malloc", What::Pool(Pool::Locked), true).into_iter().filter(|setup| setup.machine == "niagara-2"),
    );
    let mut claims = Vec::new();
    for machine in ["altix-3700", "xeon-5150"] {
        let all = most(machine);
        let at_scale = |text: &str| format!("{machine}: {text}");
        claims.push(faster(
            at_scale("the qpool outpaces malloc at scale"),
            MORE,
            machine,
            with("qpool", all),
            with("malloc", all),
        ));
        claims.push(faster(
            at_scale("the pool with a mutex suffers: it is slower than malloc at scale"),
            NOT_MORE,
            machine,
            with("locked pool", all),
            with("malloc", all),
        ));
    }
    let all = most("niagara-2");
    let slow = "niagara-2: malloc is uniformly slow: no faster with all threads than with one";
    claims.push(faster(slow, NOT_MORE, "niagara-2", with("malloc", all), with("malloc", 1)));
    claims.push(
        Claim::new(
            "the qpool is up to 155 times as fast as malloc",
            "predicted to published, the largest of all machines and threads",
            ABOUT,
            |results| {
                let of =
                    |&(machine, threads): &(&'static str, &'static [usize])| {
                        largest(threads.iter().map(|&threads| {
                            results.ratio(machine, &label("malloc", threads), &label("qpool", threads))
                        }))
                    };
                largest(MACHINES.iter().map(of)) / 155.0
            },
        )
        .published(155.0, "times")
        .missing("a lock whose waiters spin before they sleep, as Solaris' do, and what malloc itself computes"),
    );
    Figure {
        id: "wheeler-fig3",
        title: "Pools: threads that allocate, write and free items of 44 bytes",
        source: SOURCE,
        notes: &[
            PLACES,
            LATENCIES,
            "8192 items instead of 100 million; each thread holds 16 at once. Malloc is glibc's on Linux, with a heap \
                to each thread, and one heap \
             with one lock on Solaris. Solaris' mtmalloc is left out.",
        ],
        baseline: "qpool, 1",
        samples: 3,
        setups,
        claims,
    }
}

/// Iteration over an array; each thread reads its segments on its own node.
pub(super) fn fig4() -> Figure {
    let mut setups = Vec::new();
    let mut claims = Vec::new();
    for (machine, threads, times) in [("altix-3700", 32, 31.2), ("niagara-2", 128, 86.2), ("xeon-5150", 4, 2.1)] {
        for (name, cores) in [("serial", 1), ("near", threads)] {
            setups.push(Setup {
                label: name.to_owned(),
                input: Input::Traffic(Traffic::by(0..cores, READS)),
                reduced: 1.0,
                ..setup(machine, name, cores, What::Pool(Pool::Distributed), true)
            });
        }
        let text = format!("{machine}: iteration with {threads} threads is {times} times as fast as serial iteration");
        let claim = Claim::new(text, "predicted to published", ABOUT, move |results| {
            let bandwidth = |name: &str| results.point(machine, name).bandwidth();
            bandwidth("near") / bandwidth("serial") / times
        });
        let missing =
            "what the function does with each element; two CPUs of the Altix that only read share their front-side bus";
        let claim = claim.published(times, "times");
        claims.push(if machine == "altix-3700" { claim.missing(missing) } else { claim });
    }
    Figure {
        id: "wheeler-fig4",
        title: "Arrays: threads that iterate over the segments on their own nodes",
        source: SOURCE,
        notes: &[
            "Only the fastest pattern: each segment is read where it lies, and no thread looks for it. wheeler-fig5 \
                has the others.",
            "The paper says 32 nodes of the Altix, whose machine has 24 of two CPUs each (§4): here 32 CPUs are meant, \
                two to a node.",
        ],
        baseline: "serial",
        samples: 3,
        setups,
        claims,
    }
}

pub(super) fn fig7() -> Figure {
    let mut setups = each("lock-free", What::Queue(Queue::LockFree, WORD, Roles::Apart), true);
    setups.extend(each("one mutex", What::Queue(Queue::Locked, WORD, Roles::Apart), true));
    let mut claims = Vec::new();
    for (machine, threads) in MACHINES {
        claims.push(Claim::new(
            format!("{machine}: the lock-free queue is faster than that with one mutex"),
            "operations a second, the smallest with several threads",
            MORE,
            move |results| {
                let ratio = |&threads: &usize| {
                    results.ratio(machine, &label("one mutex", threads), &label("lock-free", threads))
                };
                smallest(threads[1..].iter().map(ratio))
            },
        ));
        for name in ["lock-free", "one mutex"] {
            let text = format!("{machine}: {name} does not scale: no faster with all threads than with one");
            claims.push(faster(text, NOT_MORE, machine, with(name, most(machine)), with(name, 1)));
        }
    }
    Figure {
        id: "wheeler-fig7",
        title: "Queues with a strict order: threads that put and threads that take",
        source: SOURCE,
        notes: &[
            PLACES,
            LATENCIES,
            "8192 elements. Waiters of the mutex sleep; waking one takes the waker half as long as the sleeper.",
        ],
        baseline: "lock-free, 1",
        samples: 3,
        setups,
        claims,
    }
}

/// The runs of Figs. 8 and 9.
fn distributed(bytes: usize) -> Vec<Setup> {
    let mut setups = each("lock-free", What::Queue(Queue::LockFree, bytes, Roles::Apart), true);
    setups.extend(each("tbb", What::Queue(Queue::Tickets, bytes, Roles::Apart), true));
    setups.extend(each("qdqueue", What::Queue(Queue::Distributed, bytes, Roles::Apart), false));
    setups.extend(each("qdqueue (affinity)", What::Queue(Queue::Distributed, bytes, Roles::Apart), true));
    setups
}

const APART: &str = "The paper does not say whether a thread that puts and one that takes share a shepherd. Here each \
    has a thread of its own, every second \
                     one puts.";

const BOTH: &str = "The paper does not say whether a thread that puts and one that takes share a shepherd. Here each \
    has a thread of its own, every second \
                    one puts; with \"both roles\" each thread puts and takes in turn.";

/// Why the central structures of the Altix are too slow.
const RETRIES: &str = "anything that spaces out the retries of many threads: each failed compare-and-swap is repeated \
    at once, and has the line sent to it \
                       again; and what the authors' operations compute beside their lines, of which the qdqueue would \
                       lose most";

/// Why the distributed structures are too fast.
const COMPUTES: &str =
    "what the authors' operations compute beside their lines, fences among it; the qdqueue would lose most";

/// The reason for consumers' far takes.
const EQUIDISTANT: &str = "libnuma calls all four cores equidistant (§4), so ads lead consumers to the producer behind \
    the bus as often as to the one with \
                           which they share a cache; with both roles, where each thread finds its own elements, it is \
                           8 times as fast";

/// Why a distributed queue gains nothing.
const TWO: &str =
    "with two threads, one puts and one takes: the qdqueue gains nothing, and has its ads to look at besides";

/// The choice between the paper's two numbers.
const SUMMARY: &str =
    "Of the Niagara the paper says 72 times (§5.3); its summary (§7) says up to 47 times, of no machine by name.";

pub(super) fn fig8() -> Figure {
    let mut setups = distributed(WORD);
    for (name, queue) in [("lock-free, both roles", Queue::LockFree), ("qdqueue, both roles", Queue::Distributed)] {
        let runs = each(name, What::Queue(queue, WORD, Roles::Both), true);
        setups.extend(runs.into_iter().filter(|setup| setup.label == label(name, most(setup.machine))));
    }
    let mut claims = Vec::new();
    for (machine, times) in [("altix-3700", 9.6), ("niagara-2", 72.0), ("xeon-5150", 4.0)] {
        for (one, other) in [("qdqueue (affinity)", "lock-free"), ("qdqueue, both roles", "lock-free, both roles")] {
            let claim = published(machine, one, other, times);
            claims.push(match machine {
                "altix-3700" => claim.missing(RETRIES),
                // Too fast with both roles.
                _ if one == "qdqueue, both roles" => claim.missing(COMPUTES),
                "xeon-5150" => claim.missing(EQUIDISTANT),
                _ => claim,
            });
        }
    }
    for (machine, threads) in MACHINES {
        let same = format!("{machine}: with one thread the qdqueue is just as fast as the lock-free queue");
        claims.push(faster(same, ABOUT, machine, with("qdqueue (affinity)", 1), with("lock-free", 1)));
        let improves = Claim::new(
            format!("{machine}: the qdqueue improves on the lock-free queue with several threads"),
            "operations a second, the smallest with several threads",
            MORE,
            move |results| {
                let ratio = |&threads: &usize| {
                    results.ratio(machine, &label("lock-free", threads), &label("qdqueue (affinity)", threads))
                };
                smallest(threads[1..].iter().map(ratio))
            },
        );
        claims.push(improves.missing(TWO));
        if machine == "altix-3700" {
            let text = "altix-3700: the qdqueue is up to 8.3 times as fast as TBB's queue";
            let claim =
                Claim::new(text, "predicted to published, the largest of all numbers of threads", ABOUT, |results| {
                    let ratio = |&threads: &usize| {
                        results.ratio(machine, &label("tbb", threads), &label("qdqueue (affinity)", threads))
                    };
                    largest(threads.iter().map(ratio)) / 8.3
                });
            claims.push(claim.published(8.3, "times").missing(RETRIES));
        }
    }
    Figure {
        id: "wheeler-fig8",
        title: "Queues with an order from end to end: threads that put words and threads that take them",
        source: SOURCE,
        notes: &[PLACES, LATENCIES, BOTH, SUMMARY],
        baseline: "lock-free, 1",
        samples: 3,
        setups,
        claims,
    }
}

pub(super) fn fig9() -> Figure {
    let mut setups = distributed(LARGE);
    for (name, pinned) in [("words: qdqueue", false), ("words: qdqueue (affinity)", true)] {
        let runs = each(name, What::Queue(Queue::Distributed, WORD, Roles::Apart), pinned);
        setups.extend(runs.into_iter().filter(|setup| setup.label == label(name, most(setup.machine))));
    }
    // How much faster it is with affinity.
    let gain = |results: &Results, machine: &str, of: &str| {
        let threads = most(machine);
        let name = |name: &str| label(&format!("{of}{name}"), threads);
        results.ratio(machine, &name("qdqueue"), &name("qdqueue (affinity)"))
    };
    let mut claims = Vec::new();
    for machine in ["altix-3700", "niagara-2"] {
        let helps = format!("{machine}: affinity helps with large elements");
        claims.push(Claim::new(helps, "operations a second with all threads", MORE, move |results| {
            gain(results, machine, "")
        }));
    }
    claims.push(Claim::new(
        "altix-3700: large elements magnify what affinity gains",
        "the gain with large elements, to that with words",
        MORE,
        move |results| gain(results, "altix-3700", "") / gain(results, "altix-3700", "words: "),
    ));
    Figure {
        id: "wheeler-fig9",
        title: "The same with elements of 1024 bytes",
        source: SOURCE,
        notes: &[PLACES, LATENCIES, APART],
        baseline: "lock-free, 1",
        samples: 3,
        setups,
        claims,
    }
}
