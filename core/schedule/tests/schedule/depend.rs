//! The order by data, compared with one that looks at each byte.

use proptest::prelude::*;
use vicus_schedule::{Access, Dependences, Mode};

/// The size of the random programs' memory, in bytes.
const BYTES: usize = 96;

fn access() -> impl Strategy<Value = Access> {
    let mode = prop_oneof![
        Just(Mode::Read),
        Just(Mode::Read),
        Just(Mode::Write),
        Just(Mode::ReadWrite),
        Just(Mode::Concurrent)
    ];
    // Starts and lengths are often multiples of a few numbers, so the same blocks recur.
    let (start, bytes) = (prop_oneof![0..48usize, (0..6usize).prop_map(|n| 8 * n)], prop_oneof![0..12usize, Just(8)]);
    (start, bytes, 1..4usize, 0..4usize, mode)
        .prop_map(|(start, bytes, rows, between, mode)| Access::new(start, bytes, mode).rows(rows, bytes + between))
}

/// An access of one byte: programs with accesses of this kind alone are ordered by a table, until there is another one.
fn byte() -> impl Strategy<Value = Access> {
    access().prop_map(|access| Access::new(access.start, 1, access.mode))
}

fn program() -> impl Strategy<Value = Vec<Vec<Access>>> {
    let tasks =
        |access: BoxedStrategy<Access>, count| prop::collection::vec(prop::collection::vec(access, 0..4), count);
    (tasks(byte().boxed(), 0..20), tasks(access().boxed(), 0..20))
        .prop_map(|(bytes, others)| [bytes, others].concat())
        .prop_filter("a program has tasks", |program| !program.is_empty())
}

/// A task's use of each byte: reads it, writes it, writes it at the same time as others.
fn bytes_of(task: &[Access]) -> [[bool; BYTES]; 3] {
    let mut bytes = [[false; BYTES]; 3];
    for access in task {
        for row in 0..access.rows {
            for byte in 0..access.bytes {
                let at = access.start + row * access.stride + byte;
                bytes[0][at] |= !matches!(access.mode, Mode::Write | Mode::Concurrent);
                bytes[1][at] |= matches!(access.mode, Mode::Write | Mode::ReadWrite);
                bytes[2][at] |= access.mode == Mode::Concurrent;
            }
        }
    }
    bytes
}

/// Whether the order of two tasks matters: one of them writes a byte the other one touches, and not both of them
/// declare this use as concurrent.
fn conflict(a: &[Access], b: &[Access]) -> bool {
    let one_way = |a: &[[bool; BYTES]; 3], b: &[[bool; BYTES]; 3], at: usize| {
        (a[1][at] && (b[0][at] || b[1][at] || b[2][at])) || (a[2][at] && (b[0][at] || b[1][at]))
    };
    let (a, b) = (bytes_of(a), bytes_of(b));
    (0..BYTES).any(|at| one_way(&a, &b, at) || one_way(&b, &a, at))
}

/// For each task all earlier tasks it follows, as a set of bits, from the direct edges.
fn closure(tasks: usize, waits: impl Fn(usize, usize) -> bool) -> Vec<u64> {
    let mut before = vec![0u64; tasks];
    for task in 0..tasks {
        for earlier in (0..task).filter(|&earlier| waits(task, earlier)) {
            before[task] |= before[earlier] | 1 << earlier;
        }
    }
    before
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_is_that_of_the_bytes(program in program()) {
        let mut dependences = Dependences::new();
        let mut all = Vec::new();
        let edges: Vec<Vec<usize>> = program.iter().enumerate().map(|(task, accesses)| {
            let from = all.len();
            dependences.add(task, accesses, &mut all);
            all[from..].to_vec()
        }).collect();
        for (task, edges) in edges.iter().enumerate() {
            prop_assert!(edges.is_sorted_by(|a, b| a < b) && edges.iter().all(|&edge| edge < task), "{edges:?}");
        }
        let got = closure(program.len(), |task, earlier| edges[task].contains(&earlier));
        let expected = closure(program.len(), |task, earlier| conflict(&program[earlier], &program[task]));
        prop_assert_eq!(got, expected);
    }

    /// Tasks end in a random order: a task is over only after its predecessors. The others are ordered as without ends.
    #[test]
    fn a_finished_task_is_not_waited_for(program in program(), ends in prop::collection::vec(0..3usize, 40)) {
        let before = closure(program.len(), |task, earlier| conflict(&program[earlier], &program[task]));
        let (mut dependences, mut over) = (Dependences::new(), 0u64);
        let mut got = vec![0u64; program.len()];
        for (task, accesses) in program.iter().enumerate() {
            let mut edges = Vec::new();
            dependences.add(2 * task, accesses, &mut edges);
            for edge in edges {
                prop_assert!(edge % 2 == 0 && over >> (edge / 2) & 1 == 0, "{edge} is over, or no task");
                got[task] |= got[edge / 2] | 1 << (edge / 2);
            }
            prop_assert_eq!(got[task] | (over & before[task]), before[task], "task {}", task);
            for _ in 0..ends[task] {
                let may_end = |&task: &usize| over >> task & 1 == 0 && before[task] & !over == 0;
                if let Some(ends) = (0..=task).rev().find(may_end) {
                    dependences.retire(2 * ends);
                    over |= 1 << ends;
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "task 3 is added after task 3")]
fn numbers_ascend() {
    let mut dependences = Dependences::new();
    dependences.add(3, &[], &mut Vec::new());
    dependences.add(3, &[], &mut Vec::new());
}

/// Commuting tasks name the same bytes; tasks with a part of them, or more, are ordered.
#[test]
fn commutative_tasks_are_ordered_only_among_others() {
    let mut dependences = Dependences::new();
    let mut follows = |task: usize, start: usize, bytes: usize, mode: Mode| -> Vec<usize> {
        let mut earlier = Vec::new();
        dependences.add_commuting(task, &[Access::new(start, bytes, mode)], &mut earlier);
        earlier
    };
    assert_eq!(follows(0, 0, 8, Mode::Commutative), [0usize; 0]);
    assert_eq!(follows(1, 0, 8, Mode::Commutative), [0usize; 0]);
    assert_eq!(follows(2, 0, 8, Mode::Concurrent), [0, 1], "each kind is a set of its own");
    assert_eq!(follows(3, 0, 8, Mode::Commutative), [2]);
    assert_eq!(follows(4, 0, 8, Mode::Commutative), [2]);
    assert_eq!(follows(5, 4, 4, Mode::Commutative), [3, 4], "a part");
    assert_eq!(follows(6, 0, 4, Mode::Commutative), [3, 4], "a part that was named as a part of more");
    assert_eq!(follows(7, 0, 4, Mode::Commutative), [3, 4], "as the one before, with which it commutes");
    assert_eq!(follows(8, 0, 8, Mode::Commutative), [5, 6, 7], "more");
    assert_eq!(follows(9, 0, 8, Mode::Read), [8]);
    assert_eq!(follows(10, 0, 8, Mode::Commutative), [9]);
}

/// If a caller does not keep tasks apart, commuting ones follow each other.
#[test]
fn commutative_tasks_are_in_order_if_their_world_knows_no_other_way() {
    let mut dependences = Dependences::new();
    let mut earlier = Vec::new();
    for task in 0..3 {
        dependences.add(task, &[Access::new(0, 8, Mode::Commutative)], &mut earlier);
    }
    assert_eq!(earlier, [0, 1]);
}
