//! Queries over RDF on two servers: under the locality-aware scheduler and under one without locality, alone and
//! sixteen at once; and with threads' heaps and with malloc, sixteen at once.

use super::{ABOUT, Claim, Figure, Input, MORE, NOT_MORE, Recording, Replayed, SAME, Setup, geometric_mean, largest};
use crate::AllocatorModel;

/// §6.1.1.
const QUERIES: [&str; 8] = ["q2", "q4", "q5a", "q6", "q7", "q8", "q9", "q11"];

/// Name and threads: §6.1.2.
const SMP: (&str, usize) = ("xeon-e5310", 8);
const NUMA: (&str, usize) = ("xeon-e7-4820", 64);

/// §6.4.1.
const DESKTOP: (&str, usize) = ("core-i7-2600", 8);

/// §6.1.1: "16 times in all our measurements".
const MULTI: usize = 16;

/// The number of parts of the triples; queries run on one part. As in the paper (§6.2), q4 gets less data, because it
/// returns more rows.
fn part(query: &str) -> u64 {
    if query == "q4" { 4 } else { 1 }
}

/// How many times as fast a query is under las.
fn gain(results: &super::Results, query: &str) -> f64 {
    results.ratio(query, "nls", "las")
}

/// Common points and differences between all these figures and the paper's.
const NOTES: [&str; 2] = [
    "Replays of queries that ran on one thread, planned for the machine's: the same invocations, each as long as in \
        the quickest of \
     several runs, without its time for memory. The paper has an engine of its own \
     and 5 million triples; q4, which puts most out, has a quarter of the others' triples here.",
    "What a box keeps for itself (rows to be sorted, groups) lies on the node where it has grown, and a hash table in \
        the envelopes of the box that \
     built it. How much that is was recorded; it is \
     assumed that a box reads a line of it, 64 bytes, for each row that it takes, and what it puts out when it takes \
     none.",
];

/// So many copies of a query at once.
fn replay(query: &'static str, machine: (&'static str, usize), copies: usize) -> Setup {
    let recording = Recording { query, threads: machine.1, part: part(query) };
    Setup::of(query, machine, Input::Replay(Replayed::new(recording, copies)))
}

/// A query takes no longer in one run than in the other.
fn never_slower(query: &'static str, how: &str, ratio: &'static str, [one, other]: [&'static str; 2]) -> Claim {
    let claim = Claim::new(format!("{query} is never slower {how}"), ratio, NOT_MORE, move |results| {
        results.ratio(query, one, other)
    });
    claim.always(query, [one, other].map(str::to_owned))
}

/// Why a strategy is slower for some seeds in single runs.
const CHAINS: &str = "a single run takes milliseconds, of which its longest chain of invocations is two fifths and \
    more, and differs by seed by a tenth and more; the \
                      paper's plans have no serial parts (§6.1.1), and its runs differed by 1 % at most from their \
                      mean (§6.1)";

/// Why short queries are slower for some seeds.
const SHORT: &str = "the query takes a millisecond or two, and differs by which thread takes which task";

/// Why las is slower with sixteen short queries.
const ENDS: &str = "las runs the oldest requests first, so the chains of invocations that end the last ones have few \
    seats at work, while under nls all requests \
                    end at once; the chain is half of this query's work, and the paper's plans have no serial parts \
                    (§6.1.1)";
const STEALS: &str = "the seats that share a cache steal from one another before they take what is deferred (rule 2), \
    at 1200 cycles for a task of some \
                      microseconds; the paper does not say how long its tasks are";

/// Why nodes do not end at the same time.
const IMMEDIATE: &str = "immediate tasks stay on their node (rules 1, 2 and 5), so a node that has ended its requests \
    can't help the others: in the last tenth \
                         of the time up to half of the seats have no work";

/// Why q2 is no pipeline.
const GATHERED: &str = "the paper's q2 is one long pipeline (§6.2); here each request ends in a merge of sorted parts, \
    and by rule 4 these merges gather on the node \
                        that has most of them, where they share cores";
const MERGE: &str = "the paper's q2 is one long pipeline (§6.2) without serial parts (§6.1.1); here it ends in a merge \
    of sorted parts, for much of the time the \
                     only invocation of its request";
const SORTS: &str = "the paper's q2 is one long pipeline (§6.2); here half of its time passes in sorts, which read and \
    write 14 MB for each request, more \
                     than an L2 cache of 4 MB keeps under any strategy";

/// Why other queries gain too much where memory is slow.
const COMPUTES: &str = "invocations compute as fast as on the machine that recorded them, several times as fast as on \
    these cores of 2006, so memory takes too \
                        large a part of the time; and what las saves is bytes from memory";

/// Why las gains too little where memory is far.
const NEAR: &str = "far memory costs nls 4 % of its time at most: under nls as well, most tasks run where they were \
    made, and read what was just written there; the \
                    paper says that its threads' relation to their memory is almost arbitrary";

/// Names the model's gap if one of these queries is slower.
fn explain(figure: &mut Figure, queries: &[&str], missing: &'static str) {
    for query in queries {
        let is_its = |claim: &&mut Claim| claim.text.starts_with(&format!("{query} is never slower"));
        let claim = figure.claims.iter_mut().find(is_its).expect("there is such a claim about each query");
        claim.missing = Some(missing);
    }
}

fn figure(
    id: &'static str,
    title: &'static str,
    source: &'static str,
    machine: (&'static str, usize),
    copies: usize,
) -> Figure {
    let setup = |query, strategy: &str| replay(query, machine, copies).under(strategy, strategy);
    let never_slower = |query| never_slower(query, "under las", "las, to nls", ["las", "nls"]);
    Figure {
        id,
        title,
        source,
        notes: &NOTES,
        baseline: "nls",
        samples: if copies == 1 { 5 } else { 1 },
        setups: QUERIES.iter().flat_map(|query| [setup(query, "nls"), setup(query, "las")]).collect(),
        claims: QUERIES.map(never_slower).into(),
    }
}

/// §6.2: "up to 10 %" (abstract), and "Q2 is almost 2x faster".
fn smp(id: &'static str, title: &'static str, source: &'static str, copies: usize) -> Figure {
    let mut figure = figure(id, title, source, SMP, copies);
    let others = Claim::new(
        "las gains up to 10 %, Q2 apart",
        "nls to las, the largest of the other queries",
        1.0 + SAME..=1.1 + SAME,
        |results| largest(QUERIES[1..].iter().map(|query| gain(results, query))),
    );
    figure.claims.push(others.missing(COMPUTES));
    let q2 = Claim::new("Q2 gains more", "nls to las, q2", 1.1..=f64::INFINITY, |results| gain(results, "q2"));
    figure.claims.push(q2.missing(if copies == 1 { MERGE } else { SORTS }));
    figure
}

pub(super) fn fig5() -> Figure {
    let title = "One query at a time on a Xeon E5310 (SMP)";
    let mut figure = smp("falt-fig5", title, "Falt et al., Fig. 5 and §6.2", 1);
    explain(&mut figure, &["q2", "q4", "q7", "q9"], CHAINS);
    figure
}

pub(super) fn fig6() -> Figure {
    let title = "Sixteen queries at once on a Xeon E5310 (SMP)";
    let mut figure = smp("falt-fig6", title, "Falt et al., Fig. 6 and §6.2", MULTI);
    explain(&mut figure, &["q8"], ENDS);
    explain(&mut figure, &["q9", "q11"], STEALS);
    figure
}

pub(super) fn fig7() -> Figure {
    let title = "One query at a time on four Xeon E7-4820 (NUMA)";
    let mut figure = figure("falt-fig7", title, "Falt et al., Fig. 7 and §6.3", NUMA, 1);
    explain(&mut figure, &["q2", "q5a", "q6", "q7", "q8", "q11"], CHAINS);
    figure.claims.push(Claim::new(
        "branches tend to different nodes",
        "nodes kept to under las, to nls, geometric mean of the queries",
        MORE,
        |results| {
            let kept = |query, strategy| results.point(query, strategy).kept_nodes();
            geometric_mean(&QUERIES.map(|query| kept(query, "las") / kept(query, "nls")))
        },
    ));
    figure
}

pub(super) fn fig8() -> Figure {
    let title = "Sixteen queries at once on four Xeon E7-4820 (NUMA)";
    let mut figure = figure("falt-fig8", title, "Falt et al., Fig. 8 and §6.3", NUMA, MULTI);
    explain(&mut figure, &["q2"], GATHERED);
    explain(&mut figure, &["q4"], IMMEDIATE);
    explain(&mut figure, &["q7", "q8"], SHORT);
    let several = Claim::new(
        "several queries are more than twice as fast under las",
        "nls to las, the third largest",
        2.0..=f64::INFINITY,
        |results| {
            let mut gains = QUERIES.map(|query| gain(results, query));
            gains.sort_by(f64::total_cmp);
            gains[QUERIES.len() - 3]
        },
    );
    figure.claims.push(several.missing(NEAR));
    let most =
        Claim::new("Q2 gains most", "nls to las: q2, to the largest of the others", 1.0..=f64::INFINITY, |results| {
            gain(results, "q2") / largest(QUERIES[1..].iter().map(|query| gain(results, query)))
        });
    figure.claims.push(most.missing(MERGE));
    figure
}

/// The model of malloc, and its gaps.
const MALLOC: &str = "Of malloc, the model has which chunk is used again, and the pages that go back to the system and \
    are new when they are touched \
    again, at 1500 cycles each, an estimate. It has no locks of malloc, and none of the system's, for which many \
    threads wait when they \
    touch new pages at once.";

/// §6.4: sixteen queries at once under las, with the heaps of §5 and with the system's malloc.
fn allocators(
    id: &'static str,
    title: &'static str,
    source: &'static str,
    machine: (&'static str, usize),
    malloc: AllocatorModel,
    notes: &'static [&'static str],
) -> Figure {
    let setup = |query, label, allocator| Setup { allocator, ..replay(query, machine, MULTI).under("las", label) };
    let never_slower = |query| never_slower(query, "with heaps", "heaps, to malloc", ["heaps", "malloc"]);
    Figure {
        id,
        title,
        source,
        notes,
        baseline: "malloc",
        samples: 1,
        setups: QUERIES
            .iter()
            .flat_map(|query| [setup(query, "malloc", malloc), setup(query, "heaps", AllocatorModel::Heaps)])
            .collect(),
        claims: QUERIES.map(never_slower).into(),
    }
}

/// How many times as fast a query is with heaps.
fn gain_of_heaps(results: &super::Results, query: &str) -> f64 {
    results.ratio(query, "malloc", "heaps")
}

pub(super) fn fig9() -> Figure {
    let title = "Sixteen queries at once on four Xeon E7-4820 (NUMA), with heaps and with malloc";
    const NOTES_9: [&str; 3] = [NOTES[0], NOTES[1], MALLOC];
    let mut figure =
        allocators("falt-fig9", title, "Falt et al., Fig. 9 and §6.4", NUMA, AllocatorModel::Arenas, &NOTES_9);
    let claims = [("q4", "35", 0.60..=0.70), ("q2", "15", 0.80..=0.90)];
    const LARGE: &str =
        "the machine's large L3 caches hold both what heaps and what malloc would use again, so q4 and q2 gain less";
    figure.claims.extend(claims.map(|(query, percent, range)| {
        Claim::new(format!("{query} takes about {percent} % less"), "heaps, to malloc", range, move |results| {
            results.ratio(query, "heaps", "malloc")
        })
        .missing(LARGE)
    }));
    let most = Claim::new(
        "q4 gains most",
        "malloc to heaps: q4, to the largest of the others",
        1.0..=f64::INFINITY,
        |results| {
            let others = QUERIES.iter().filter(|query| **query != "q4");
            gain_of_heaps(results, "q4") / largest(others.map(|query| gain_of_heaps(results, query)))
        },
    );
    figure.claims.push(most.missing(LARGE));
    explain(&mut figure, &["q4"], IMMEDIATE);
    explain(&mut figure, &["q7", "q8", "q11"], SHORT);
    figure
}

pub(super) fn fig10() -> Figure {
    let title = "Sixteen queries at once on a Xeon E5310 (SMP), with heaps and with malloc";
    const NOTES_10: [&str; 3] = [NOTES[0], NOTES[1], MALLOC];
    let mut figure =
        allocators("falt-fig10", title, "Falt et al., Fig. 10 and §6.4", SMP, AllocatorModel::Arenas, &NOTES_10);
    explain(&mut figure, &["q8"], SHORT);
    let gains = |results: &super::Results| {
        let mut gains = QUERIES.map(|query| gain_of_heaps(results, query));
        gains.sort_by(f64::total_cmp);
        gains
    };
    let little = Claim::new(
        "no query gains significantly: 10 % at most",
        "malloc to heaps, the largest",
        0.0..=1.1 + SAME,
        move |results| gains(results)[QUERIES.len() - 1],
    );
    figure.claims.push(little.missing(
        "here no cache holds a new page, and its lines come over the bus; a system often hands out the page that came \
            back last, of which caches may \
         have a part",
    ));
    figure.claims.push(Claim::new(
        "almost every query gains a little: all but one",
        "malloc to heaps, the second smallest",
        MORE,
        move |results| gains(results)[1],
    ));
    figure
}

/// The model of Windows' heap.
const WINDOWS: &str = "Of Windows' heap, the model has its one lock (which threads get in turn, at no cost for one \
    that sleeps), and what goes back to the system: all but 64 KiB \
                       of what is free, whose pages are new when they are touched again. How long the lock is held is \
                       estimated: 400 cycles, and with a call of \
                       the system 1500 more, and 350 for each page that goes back.";

/// Why queries gain too much without Windows' heap.
const RETAINED: &str = "the paper's q6, q7 and q11 keep most of their memory to their ends; here each invocation takes \
    envelopes and returns others, as in the other queries";

/// Why queries gain too little without it.
const SYSTEM: &str = "what the system does when threads wait for the heap's lock, which it puts to sleep and wakes, \
    and its own lock on a process' memory, for which page faults and \
                      returned pages wait; and how often the paper's boxes allocate, which it does not say";

pub(super) fn fig11() -> Figure {
    let title = "Sixteen queries at once on a Core i7-2600 (Windows 7), with heaps and with malloc";
    const NOTES_11: [&str; 3] = [NOTES[0], NOTES[1], WINDOWS];
    let mut figure =
        allocators("falt-fig11", title, "Falt et al., Fig. 11 and §6.4.1", DESKTOP, AllocatorModel::OneHeap, &NOTES_11);
    figure.claims.extend(["q6", "q7", "q11"].map(|query| {
        let text = format!("{query} shows little difference: 10 % at most");
        let claim = Claim::new(text, "malloc to heaps", 0.9..=1.1 + SAME, move |results| gain_of_heaps(results, query));
        claim.missing(RETAINED)
    }));
    figure.claims.extend([("q5a", 2.0), ("q9", 2.0), ("q2", 2.3)].map(|(query, times)| {
        let text = format!("{query} is {times} times as fast with heaps");
        let claim =
            Claim::new(text, "predicted to published", ABOUT, move |results| gain_of_heaps(results, query) / times);
        claim.published(times, "times").missing(SYSTEM)
    }));
    explain(&mut figure, &["q8"], SHORT);
    figure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::Results;

    /// Each query's time under las, as a percentage of its time under nls.
    fn judged(figure: &Figure, las: [f64; 8]) -> Vec<(f64, bool)> {
        let walls = QUERIES.iter().zip(las).flat_map(|(query, las)| [(*query, "nls", 100.0), (*query, "las", las)]);
        let results = Results::from_walls(walls);
        figure.claims.iter().map(|claim| claim.judge(&results)).collect()
    }

    #[test]
    fn claims_hold_of_what_the_paper_measured_and_not_of_the_contrary() {
        // Read from Figs. 5, 6 and 8, and the text.
        for figure in [fig5(), fig6()] {
            assert!(
                judged(&figure, [52.0, 93.0, 99.0, 95.0, 100.0, 99.0, 100.0, 98.0]).iter().all(|(_, holds)| *holds)
            );
            assert!(!judged(&figure, [101.5; 8]).iter().any(|(_, holds)| *holds));
        }
        let real = judged(&fig8(), [30.0, 45.0, 48.0, 90.0, 60.0, 70.0, 49.0, 95.0]);
        assert!(real.iter().all(|(_, holds)| *holds), "{real:?}");
        let reverse = judged(&fig8(), [150.0, 102.0, 102.0, 102.0, 102.0, 102.0, 102.0, 102.0]);
        assert!(!reverse.iter().any(|(_, holds)| *holds), "{reverse:?}");
    }

    #[test]
    fn claims_about_heaps_hold_of_what_the_paper_says_and_not_of_the_contrary() {
        let judged = |figure: &Figure, heaps: [f64; 8]| -> Vec<bool> {
            let both = QUERIES.iter().zip(heaps);
            let walls = both.flat_map(|(query, heaps)| [(*query, "malloc", 100.0), (*query, "heaps", heaps)]);
            let results = Results::from_walls(walls);
            figure.claims.iter().map(|claim| claim.judge(&results).1).collect()
        };
        // From the text of §6.4.
        assert!(judged(&fig9(), [85.0, 65.0, 97.0, 100.0, 98.0, 96.0, 95.0, 98.0]).iter().all(|&holds| holds));
        assert!(judged(&fig10(), [96.0, 95.0, 97.0, 100.0, 98.0, 96.0, 95.0, 98.0]).iter().all(|&holds| holds));
        assert!(judged(&fig11(), [43.5, 80.0, 50.0, 95.0, 97.0, 80.0, 50.0, 99.0]).iter().all(|&holds| holds));
        assert!(!judged(&fig11(), [101.5, 101.5, 101.5, 120.0, 120.0, 101.5, 101.5, 120.0]).iter().any(|&holds| holds));
        let reverse = [102.0, 104.0, 102.0, 102.0, 102.0, 102.0, 102.0, 102.0];
        assert!(!judged(&fig9(), reverse).iter().any(|&holds| holds));
        // They are slower, and so no query gains too much.
        assert_eq!(judged(&fig10(), reverse).iter().filter(|&&holds| holds).count(), 1);
    }
}
