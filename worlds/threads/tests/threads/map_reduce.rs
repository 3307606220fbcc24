//! MapReduce against a map filled one pair after the other, under every strategy, with memory and without, and with a
//! failing disk.

use crate::helpers::{panic_of, strategy};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use vicus_files::{Failure, FakeDisk, Scratch};
use vicus_machine::MachineRuntime;
use vicus_memory::DistQueue;
use vicus_schedule::ALL;
use vicus_threads::map_reduce::{Emitter, MapReduce, MapReduceError, Values};

fn runtimes() -> impl Iterator<Item = MachineRuntime> {
    ALL.into_iter().flat_map(|strategy| {
        [1, 2, 3, 8].map(|threads| {
            let strategy = strategy.name().parse().unwrap();
            MachineRuntime::builder().threads(threads).strategy(strategy).quiet().start()
        })
    })
}

fn scratch() -> Arc<Scratch> {
    Scratch::new(Arc::new(FakeDisk::new(1).process(7)))
}

/// The texts of numbers, by their remainders.
fn key_of(number: u64) -> String {
    format!("the rest {}", number % 977)
}

/// The sum and the count of a key's numbers.
type Sum = (String, (u64, u64));

/// Each key's sum, one pair after the other.
fn expected(numbers: u64) -> Vec<Sum> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for number in 0..numbers {
        let (sum, count) = sums.entry(key_of(number)).or_default();
        (*sum, *count) = (*sum + number, *count + 1);
    }
    sums.into_iter().collect()
}

fn sums(job: &MapReduce<'_>, numbers: u64) -> Result<Vec<Sum>, MapReduceError> {
    let sum = |_: &String, values: &mut Values<'_, String, u64>| {
        values.fold((0, 0), |(sum, count), number| (sum + number, count + 1))
    };
    let mut sums = job.run(0..numbers, |number, pairs| pairs.emit(key_of(number), number), sum)?;
    sums.sort();
    Ok(sums)
}

#[test]
fn results_are_those_of_one_pair_after_the_other_in_memory_and_beyond_it() {
    let all = expected(20_000);
    for runtime in runtimes() {
        let in_memory = MapReduce::new(&runtime);
        assert_eq!(sums(&in_memory, 20_000).unwrap(), all, "{}", strategy(&runtime));
        let scratch = scratch();
        let spilling = MapReduce::new(&runtime).memory(0).scratch(Arc::clone(&scratch));
        assert_eq!(sums(&spilling, 20_000).unwrap(), all, "{}, with files", strategy(&runtime));
        assert!(scratch.written() > 100_000, "{} bytes", scratch.written());
    }
}

#[test]
fn combined_values_are_the_same_and_fewer_of_them_are_written() {
    for runtime in runtimes() {
        let written = |combines: bool| {
            let scratch = scratch();
            let job = MapReduce::new(&runtime).memory(0).partitions(3).scratch(Arc::clone(&scratch));
            let emit = |number: u64, pairs: &mut Emitter<'_, u64, u64>| pairs.emit(number % 10, number);
            let mut largest = match combines {
                true => job.run_combined(0..50_000, emit, u64::max).unwrap(),
                false => job.run(0..50_000, emit, |_, values| values.max().unwrap()).unwrap(),
            };
            largest.sort();
            assert_eq!(
                largest,
                (0..10).map(|rest| (rest, 49_990 + rest)).collect::<Vec<_>>(),
                "{}",
                strategy(&runtime)
            );
            scratch.written()
        };
        assert!(written(true) < written(false) / 10);
    }
}

#[test]
fn more_runs_than_are_merged_at_once_become_fewer_first() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let scratch = scratch();
    let job = MapReduce::new(&runtime).memory(0).partitions(1).scratch(Arc::clone(&scratch));
    let numbers = 400_000;
    let counts = job.run(0..numbers, |n: u64, pairs| pairs.emit(n / 2, [n; 2]), |_, values| values.count()).unwrap();
    assert!(counts.iter().map(|(key, _)| *key).eq(0..numbers / 2), "by key in a partition");
    assert!(counts.iter().all(|(_, count)| *count == 2));
    assert!(scratch.written() > numbers * 24 * 5 / 4, "some were written twice");
}

#[test]
fn stages_follow_each_other_by_queues() {
    for runtime in runtimes() {
        let topology = runtime.topology();
        let node = topology.nodes[0].id;
        let (words, counts, by_count) = (DistQueue::new(topology), DistQueue::new(topology), DistQueue::new(topology));
        std::thread::scope(|scope| {
            // While the first stage waits.
            scope.spawn(|| {
                for number in 0..3000u64 {
                    words.push(node, number * number % 100).unwrap();
                }
                words.close();
            });
            let job = MapReduce::new(&runtime);
            job.run_queues(&words, |word, pairs| pairs.emit(word, ()), |_, ones| ones.count() as u64, &counts).unwrap();
            counts.close();
            let each = |(_, count), pairs: &mut Emitter<'_, u64, ()>| pairs.emit(count, ());
            job.run_queues(&counts, each, |_, ones| ones.count(), &by_count).unwrap();
        });
        let mut expected: BTreeMap<u64, usize> = BTreeMap::new();
        let mut words = [0u64; 100];
        (0..3000usize).for_each(|number| words[number * number % 100] += 1);
        words.iter().filter(|count| **count > 0).for_each(|count| *expected.entry(*count).or_default() += 1);
        let found: BTreeMap<u64, usize> = std::iter::from_fn(|| by_count.try_pop(node).ok()).collect();
        assert_eq!(found, expected, "{}", strategy(&runtime));
    }
}

#[test]
fn a_disk_that_fails_ends_the_job_with_its_error() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let (mut failed, mut operations) = (0, 0);
    loop {
        let disk = FakeDisk::new(1);
        disk.fail_after(operations, Failure::Error);
        let job = MapReduce::new(&runtime).memory(0).partitions(2).scratch(Scratch::new(Arc::new(disk.process(7))));
        match sums(&job, 6_000) {
            Ok(sums) => {
                assert_eq!(sums, expected(6_000));
                if disk.operations() <= operations {
                    break;
                }
                // The failed operation made a file with a name just taken by another thread: it tries the next one.
                operations += 1;
                continue;
            }
            Err(MapReduceError::File(error)) => assert!(error.to_string().contains("temporary"), "{error}"),
            Err(error) => panic!("{error}"),
        }
        (failed, operations) = (failed + 1, operations + 1);
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn files_are_made_in_a_folder() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let job = || MapReduce::new(&runtime).memory(0);
    let folder = std::env::temp_dir();
    assert_eq!(sums(&job().files_in(&folder).unwrap(), 20_000).unwrap(), expected(20_000));
    let error = job().files_in(&folder.join("vicus-no-such-folder")).unwrap_err().to_string();
    assert!(error.contains("vicus-no-such-folder"), "{error}");
}

#[test]
fn what_can_not_be_is_told() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let error = sums(&MapReduce::new(&runtime).memory(1), 20_000).unwrap_err().to_string();
    assert!(error.starts_with("the pairs need more than 65536 bytes: allow more"), "{error}");
    let queue: DistQueue<(u8, u8)> = DistQueue::new(runtime.topology());
    queue.close();
    let input = DistQueue::new(runtime.topology());
    input.push(runtime.topology().nodes[0].id, 7u8).unwrap();
    input.close();
    let job = MapReduce::new(&runtime);
    let error = job.run_queues(&input, |n, pairs| pairs.emit(n, n), |_, _| 1, &queue).unwrap_err();
    assert!(matches!(error, MapReduceError::Output));
    let none: Vec<(u8, usize)> = job.run([0u8; 0], |n, pairs| pairs.emit(n, n), |_, ones| ones.count()).unwrap();
    assert!(none.is_empty());
}

#[test]
fn a_panic_ends_a_job_whose_input_stays_open() {
    for runtime in runtimes() {
        let (input, output) = (DistQueue::new(runtime.topology()), DistQueue::new(runtime.topology()));
        let node = runtime.topology().nodes[0].id;
        input.push(node, 1u64).unwrap();
        let panic = panic_of(|| {
            let map = |n: u64, pairs: &mut Emitter<'_, u64, u64>| {
                pairs.emit(n, n);
                panic!("enough");
            };
            // Nothing else comes, and the queue is not closed: other mappers wait.
            drop(MapReduce::new(&runtime).run_queues(&input, map, |_, values| values.count(), &output));
        });
        assert_eq!(panic, "enough", "{}", strategy(&runtime));
    }
}

#[test]
fn a_panic_ends_the_job_however_long_its_input_is() {
    for runtime in runtimes() {
        let job = MapReduce::new(&runtime);
        let panic = panic_of(|| {
            let map = |n: u64, pairs: &mut Emitter<'_, u64, u64>| {
                assert!(n < 500, "enough");
                pairs.emit(n, n);
            };
            drop(job.run(0.., map, |_, values| values.count()));
        });
        assert_eq!(panic, "enough", "{}", strategy(&runtime));
        let panic = panic_of(|| {
            drop(job.run(0..100u64, |n, pairs| pairs.emit(n, n), |key, _| assert!(*key < 50, "too large")));
        });
        assert_eq!(panic, "too large", "{}", strategy(&runtime));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Texts of any length, keys of any number of pairs, values left unread.
    #[test]
    fn random_pairs_are_grouped_by_their_keys(
        pairs in prop::collection::vec((0u8..20, ".{0,40}"), 0..3000), threads in 1usize..4, partitions in 1usize..9,
        strategy in 0usize..ALL.len(), reads in 0usize..5,
    ) {
        let strategy = ALL[strategy].name().parse().unwrap();
        let runtime = MachineRuntime::builder().threads(threads).strategy(strategy).quiet().start();
        let mut expected: BTreeMap<u8, Vec<String>> = BTreeMap::new();
        pairs.iter().for_each(|(key, text)| expected.entry(*key).or_default().push(text.clone()));
        let job = MapReduce::new(&runtime).memory(0).partitions(partitions).scratch(scratch());
        let groups = job.run(pairs.clone(), |(key, text), pairs| pairs.emit(key, text), |_, texts| {
            let mut texts: Vec<String> = texts.collect();
            texts.sort();
            texts
        }).unwrap();
        let groups: BTreeMap<u8, Vec<String>> = groups.into_iter().collect();
        expected.values_mut().for_each(|texts| texts.sort());
        prop_assert_eq!(&groups, &expected);
        // `reduce` need not read all.
        let emit = |(key, text), pairs: &mut Emitter<'_, _, _>| pairs.emit(key, text);
        let some = job.run(pairs, emit, |_, texts| texts.take(reads).count()).unwrap();
        for (key, read) in some {
            prop_assert_eq!(read, expected[&key].len().min(reads));
        }
    }
}
