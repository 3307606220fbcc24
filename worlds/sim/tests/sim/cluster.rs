//! Networks over many simulated machines: each row once, whatever the order of tasks, the links and the losses are.

use vicus_network::{Kinds, MachineCounts, NetworkText};
use vicus_sim::{
    BoxCosts, Cluster, ClusterError, ClusterLoss, ClusterMachine, ClusterOutcome, LinkCosts, simulate_cluster,
};

const GROUP: &str = "param to: integer = 4000;
    box n = numbers(to: to) on node *;
    box k = map(select: \"n % 100 AS k, n\") on node *;
    box deal = partition(by: \"k\") on node *;
    box group = aggregate(select: \"k, COUNT(*) AS c, SUM(n) AS s\", by: \"k\") on node *;
    box rows = collect;
    n -> k -> deal => group -> rows;";

fn cluster(machines: usize, threads: usize, seed: Option<u64>) -> Cluster {
    let machine = ClusterMachine {
        counts: MachineCounts { threads, nodes: 1 },
        memory_bytes_per_s: 100e9,
        thread_bytes_per_s: 10e9,
    };
    Cluster {
        machines: vec![machine; machines + 1],
        shared_cores: None,
        link: LinkCosts::default(),
        window: 64 << 10,
        losses: Vec::new(),
        silence_ns: 1e9,
        retries: 0,
        seed,
        scale: 1.0,
        memory_bytes: None,
    }
}

fn costs() -> BoxCosts {
    BoxCosts { invocation_ns: 500.0, other_ns: 5.0, crossing_byte_ns: 0.1, ..BoxCosts::default() }
}

fn simulate(text: &str, to: usize, cluster: &Cluster, costs: &BoxCosts) -> Result<ClusterOutcome, ClusterError> {
    let text: NetworkText = text.parse().unwrap();
    simulate_cluster(&text, &Kinds::library(), &[("to".to_owned(), to.to_string())], cluster, costs, &mut |_| true)
}

/// The rows of the only box that collects, sorted.
fn rows(outcome: &ClusterOutcome) -> Vec<Vec<i64>> {
    let [(_, envelopes)] = &outcome.rows[..] else { panic!("one box collects") };
    let mut rows: Vec<Vec<i64>> = Vec::new();
    for envelope in envelopes {
        let columns: Vec<&[i64]> = envelope.columns().iter().map(|column| column.i64s()).collect();
        rows.extend((0..envelope.rows()).map(|row| columns.iter().map(|column| column[row]).collect::<Vec<i64>>()));
    }
    rows.sort_unstable();
    rows
}

/// Each machine has the numbers below `to`, so each key counts `to / 100` numbers of each machine.
fn grouped(machines: i64, to: i64) -> Vec<Vec<i64>> {
    let each = to / 100;
    let sum = |k: i64| (0..each).map(|i| k + 100 * i).sum::<i64>();
    (0..100).map(|k| vec![k, machines * each, machines * sum(k)]).collect()
}

#[test]
fn sixty_four_machines_by_a_seed_give_each_row_once() {
    for seed in 0..6 {
        println!("seed {seed}");
        let outcome = simulate(GROUP, 1000, &cluster(64, 2, Some(seed)), &costs()).unwrap();
        assert_eq!(rows(&outcome), grouped(64, 1000));
        assert!(outcome.link_bytes > 0 && outcome.wall_ns > 0.0);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let outcome = simulate(GROUP, 4000, &cluster(5, 2, Some(seed)), &costs()).unwrap();
        (outcome.wall_ns, outcome.invocations, outcome.link_frames)
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

/// Machines are lost at times by chance, some without a word: what they have sent before is in no row.
#[test]
fn a_lost_machine_costs_time_and_no_row() {
    let whole = simulate(GROUP, 20_000, &cluster(4, 2, Some(1)), &costs()).unwrap();
    let mut was_lost = 0;
    for seed in 0..60u64 {
        println!("seed {seed}");
        // Multiples of the golden ratio lie evenly in the run.
        let share = (seed as f64 * 0.618_033_988).fract();
        let loss =
            ClusterLoss { process: 1 + seed as usize % 4, at_ns: share * whole.wall_ns, is_silent: seed % 3 == 0 };
        let cluster = Cluster { losses: vec![loss], retries: 1, silence_ns: 1e6, ..cluster(4, 2, Some(seed)) };
        let outcome = simulate(GROUP, 20_000, &cluster, &costs()).unwrap();
        assert_eq!(rows(&outcome), grouped(4, 20_000));
        was_lost += outcome.losses;
        if outcome.losses > 0 {
            assert!(outcome.wall_ns > loss.at_ns);
            let without = simulate(GROUP, 20_000, &Cluster { retries: 0, ..cluster }, &costs()).unwrap_err();
            assert!(matches!(without, ClusterError::Lost(process) if process == loss.process), "{without}");
        }
    }
    assert!(was_lost > 40, "{was_lost} of 60 losses were in time");
}

/// Ways that meet again over machines, with room for hardly a row on each link: the report's "above average" (§3.5,
/// Fig. 4) in several forms. All vias on such ways widen when they are full, so no order of tasks leaves boxes that
/// wait for each other, and no process has to know of another's blocked boxes.
#[test]
fn circles_over_machines_never_wait_for_themselves() {
    let texts = [
        // One way waits for a number of all rows.
        "param to: integer = 1;
         box n = numbers(to: to); box mean = aggregate(select: \"AVG(n) AS mean\") on node 1;
         box above = join(on: \"n > mean\") on node 2; box count = aggregate(select: \"COUNT(*) AS c\");
         box rows = collect; n -> mean; n -> above.0; mean -> above.1; above -> count -> rows;",
        // Two circles, one in the other, over three machines.
        "param to: integer = 1;
         box n = numbers(to: to) on node 1; box a = map(select: \"n\") on node 2;
         box least = aggregate(select: \"AVG(n) AS mean\") on node 3; box b = join(on: \"n > mean\") on node 2;
         box half = aggregate(select: \"AVG(n) * 0 + AVG(n) / 2 AS mean\") on node 1;
         box c = filter(where: \"n >= 0\") on node 3; box d = join(on: \"n > mean\") on node 1;
         box all = union on node 2; box count = aggregate(select: \"COUNT(*) AS c\") on node 3; box rows = collect;
         n -> a -> b.0; a -> least -> b.1; n -> c -> d.0; b -> half; half -> d.1; b -> all; d -> all;
         all -> count -> rows;",
        // The second input is wanted first, and comes last.
        "param to: integer = 1;
         box n = numbers(to: to) on node 1; box near = map(select: \"n\") on node 2;
         box far = sort(by: \"n\") on node 3; box one = limit(rows: 1) on node 2;
         box both = join(on: \"a.n >= b.n\") on node 1; box count = aggregate(select: \"COUNT(*) AS c\");
         box rows = collect; n -> near -> both.0; n -> far -> one -> both.1; both -> count -> rows;",
    ];
    for (number, text) in texts.iter().enumerate() {
        let mut first = None;
        for seed in 0..25u64 {
            println!("text {number}, seed {seed}");
            let tight = Cluster { window: 1 << (seed % 14), ..cluster(3, 1 + seed as usize % 2, Some(seed)) };
            let outcome = simulate(text, 40_000, &tight, &costs()).unwrap();
            let rows = rows(&outcome);
            assert_eq!(*first.get_or_insert_with(|| rows.clone()), rows);
        }
        // The rows of one process, where every via is seen by core/flow's own protocol.
        let text: NetworkText = text.parse().unwrap();
        let set = [("to".to_owned(), "40000".to_owned())];
        let alone = text.build_whole("one", &Kinds::library(), &[MachineCounts::default(); 4], &set).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let take = move |envelope: vicus_flow::Envelope| Ok(send.send(envelope.column(0).i64s().to_vec())?);
        let operator = Box::new(vicus_flow::library::sink_operator(take));
        vicus_flow::sequential::run(&alone.model, vec![(alone.collected[0].sink, operator)], |_| 0).unwrap();
        let expected: Vec<Vec<i64>> = receive.into_iter().flatten().map(|row| vec![row]).collect();
        assert_eq!(first, Some(expected), "text {number}");
    }
}

/// What waits at a machine is bounded by the windows of its crossings, however slow it is.
#[test]
fn a_slow_machine_holds_up_its_senders() {
    let text = "param to: integer = 1;
        box n = numbers(to: to) on node 1; box slow = filter(where: \"n >= 0\") on node 2;
        box count = aggregate(select: \"COUNT(*) AS c\") on node 2; box rows = collect;
        n -> slow -> count -> rows;";
    let costs = BoxCosts { row_ns: [("slow".to_owned(), 1000.0)].into(), ..costs() };
    let outcome = simulate(text, 2_000_000, &cluster(2, 2, None), &costs).unwrap();
    assert_eq!(rows(&outcome), [[2_000_000]]);
    // An envelope beyond the window is on its way at most.
    assert!(outcome.most_waiting < (64 << 10) + (256 << 10), "{}", outcome.most_waiting);
}

/// A reader that has enough ends a source without an end on another machine.
#[test]
fn a_part_that_nobody_wants_ends() {
    let text = "param to: integer = 1; box n = numbers(to: 9000000000000000000) on node 1;
        box few = limit(rows: 3); box rows = collect; n -> few -> rows;";
    let outcome = simulate(text, 1, &cluster(1, 1, Some(1)), &costs()).unwrap();
    assert_eq!(rows(&outcome), [[0], [1], [2]]);
}

/// Work without much to cross is done twice as fast on twice as many machines; what has to cross is as fast as links.
#[test]
fn more_machines_are_faster_until_links_are_full() {
    let wall = |machines: usize, gigabits: f64| {
        let link = LinkCosts { bytes_per_s: gigabits * 1e9 / 8.0, ..LinkCosts::default() };
        let cluster = Cluster { link, window: 4 << 20, ..cluster(machines, 2, None) };
        // The boxes take 30 ns for a row, and the two ends of a crossing 10 for three rows in four: 3.2 times as fast.
        let costs = BoxCosts { row_ns: [("group".to_owned(), 15.0)].into(), ..costs() };
        simulate(GROUP, 1_600_000 / machines, &cluster, &costs).unwrap().wall_ns
    };
    let (one, four) = (wall(1, 100.0), wall(4, 100.0));
    assert!(one / four > 3.0, "{one} ns alone, {four} ns on four");
    // With four machines, three quarters of a machine's rows leave it: two numbers of eight bytes each.
    let (slow, bytes) = (wall(4, 0.1), 400_000.0 * 16.0 * 0.75);
    let least = bytes * 8.0 / 0.1;
    assert!((1.0..1.3).contains(&(slow / least)), "{slow} ns, and the links alone take {least}");
}

/// One way counts all numbers before the other may go on: with bounded memory, the others lie beside it.
#[test]
fn a_cluster_of_bounded_memory_keeps_rows_beside_it() {
    const TEXT: &str = "param to: integer = 0;
        box n = numbers(to: to);
        box all = count;
        box k = map(select: \"CAST(count AS bigint) AS n\");
        box both = join(on: \"a.n < b.n\", select: \"a.n AS n\");
        box rows = collect;
        n -> both.0; n -> all -> k -> both.1; both -> rows;";
    for seed in 0..10u64 {
        for memory_bytes in [None, Some(1 << 20)] {
            let bounded = Cluster { memory_bytes, ..cluster(1, 2, Some(seed)) };
            let outcome = simulate(TEXT, 200_000, &bounded, &costs()).unwrap_or_else(|error| panic!("{seed}: {error}"));
            let expected: Vec<Vec<i64>> = (0..200_000).map(|n| vec![n]).collect();
            assert_eq!(rows(&outcome), expected, "seed {seed}");
        }
    }
}
