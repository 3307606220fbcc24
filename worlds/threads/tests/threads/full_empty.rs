//! Full/empty bits against a sequential model, by random programs.

use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use vicus_machine::MachineRuntime;
use vicus_threads::{self as threads, SyncVar, full_empty};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    ReadFf,
    ReadFe,
    Lock,
    WriteEf(u64),
    WriteFf(u64),
    WriteF(u64),
    Fill,
    Empty,
    PurgeTo(u64),
    TryReadFe,
    TryWriteEf(u64),
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let value = 0..1000_u64;
    let step = prop_oneof![
        3 => Just(Step::ReadFf),
        3 => Just(Step::ReadFe),
        2 => Just(Step::Lock),
        3 => value.clone().prop_map(Step::WriteEf),
        2 => value.clone().prop_map(Step::WriteFf),
        1 => value.clone().prop_map(Step::WriteF),
        1 => Just(Step::Fill),
        2 => Just(Step::Empty),
        1 => value.clone().prop_map(Step::PurgeTo),
        1 => Just(Step::TryReadFe),
        1 => value.prop_map(Step::TryWriteEf),
    ];
    proptest::collection::vec((0..WORDS, step), 1..60)
}

const WORDS: usize = 2;

/// A word as the documentation tells of it.
#[derive(Default)]
struct Word {
    value: u64,
    is_empty: bool,
    /// Waiting steps, with their numbers.
    waits: VecDeque<(usize, Step)>,
    /// Among the waits that would change the word, locks and others are served in runs.
    has_runs: bool,
    /// Whether it is the turn of the locks.
    is_turn_of_locks: bool,
}

/// The result of a step: a read's value, or 0.
type Results = Vec<Option<u64>>;

impl Word {
    /// The result of a step, if it goes on.
    fn goes_on(&mut self, step: Step) -> Option<u64> {
        let is_full = !self.is_empty;
        match step {
            Step::ReadFf => is_full.then_some(self.value),
            Step::ReadFe | Step::Lock if is_full => {
                self.is_empty = true;
                Some(if step == Step::Lock { 0 } else { self.value })
            }
            Step::WriteEf(value) if !is_full => {
                (self.value, self.is_empty) = (value, false);
                Some(0)
            }
            Step::WriteFf(value) if is_full => {
                self.value = value;
                Some(0)
            }
            Step::ReadFe | Step::Lock | Step::WriteEf(_) | Step::WriteFf(_) => None,
            Step::WriteF(value) => {
                (self.value, self.is_empty) = (value, false);
                Some(0)
            }
            Step::Fill => {
                self.is_empty = false;
                Some(u64::from(!is_full))
            }
            Step::Empty => {
                self.is_empty = true;
                Some(u64::from(is_full))
            }
            Step::PurgeTo(value) => {
                (self.value, self.is_empty) = (value, true);
                Some(0)
            }
            Step::TryReadFe => Some(self.goes_on(Step::ReadFe).map_or(u64::MAX, |value| value)),
            Step::TryWriteEf(value) => Some(u64::from(self.goes_on(Step::WriteEf(value)).is_some())),
        }
    }

    fn step(&mut self, number: usize, step: Step, results: &mut Results) {
        let was_empty = self.is_empty;
        match self.goes_on(step) {
            Some(result) => results[number] = Some(result),
            None => {
                self.waits.push_back((number, step));
                return self.choose_run(step == Step::Lock);
            }
        }
        if self.is_empty != was_empty {
            self.settle(results);
        }
    }

    /// If the run in turn has no waits, the other one has its turn.
    fn choose_run(&mut self, otherwise: bool) {
        let changes = |step: &Step| matches!(step, Step::ReadFe | Step::Lock | Step::WriteEf(_));
        let mut waiting = self.waits.iter().filter(|(_, step)| changes(step));
        if !waiting.any(|(_, step)| (*step == Step::Lock) == self.is_turn_of_locks) {
            self.is_turn_of_locks = otherwise;
        }
    }

    /// The word has become full or empty: first come reads leaving it full, then writes leaving it full, then the first
    /// of the changes.
    fn settle(&mut self, results: &mut Results) {
        let kinds: [fn(&Step) -> bool; 3] = [
            |step| *step == Step::ReadFf,
            |step| matches!(step, Step::WriteFf(_)),
            |step| matches!(step, Step::ReadFe | Step::Lock | Step::WriteEf(_)),
        ];
        for (kind, is_of) in kinds.iter().enumerate() {
            let mut at = 0;
            while at < self.waits.len() {
                let (number, step) = self.waits[at];
                let is_turn = kind < 2 || !self.has_runs || (step == Step::Lock) == self.is_turn_of_locks;
                let result = if is_of(&step) && is_turn { self.goes_on(step) } else { None };
                if let Some(result) = result {
                    results[number] = Some(result);
                    self.waits.remove(at);
                    if kind == 2 {
                        return self.choose_run(!self.is_turn_of_locks);
                    }
                } else {
                    at += 1;
                }
            }
        }
    }
}

/// The common interface of both kinds of words.
trait Real: Send + Sync + 'static {
    fn run(&self, step: Step) -> u64;
    fn new() -> Self;
    /// Whether waiting locks have a run of their own.
    const HAS_RUNS: bool;
    fn state(&self) -> (u64, bool);
}

impl Real for AtomicU64 {
    fn run(&self, step: Step) -> u64 {
        match step {
            Step::ReadFf => full_empty::read_ff(self),
            Step::ReadFe => full_empty::read_fe(self),
            Step::Lock => {
                full_empty::lock(self);
                0
            }
            Step::WriteEf(value) => {
                full_empty::write_ef(self, value);
                0
            }
            Step::WriteFf(value) => {
                full_empty::write_ff(self, value);
                0
            }
            Step::WriteF(value) => {
                full_empty::write_f(self, value);
                0
            }
            Step::Fill => u64::from(full_empty::fill(self)),
            Step::Empty => u64::from(full_empty::empty(self)),
            Step::PurgeTo(value) => {
                full_empty::purge_to(self, value);
                0
            }
            Step::TryReadFe => full_empty::try_read_fe(self).unwrap_or(u64::MAX),
            Step::TryWriteEf(value) => u64::from(full_empty::try_write_ef(self, value)),
        }
    }

    const HAS_RUNS: bool = true;

    fn new() -> AtomicU64 {
        AtomicU64::new(0)
    }

    fn state(&self) -> (u64, bool) {
        (full_empty::read_xx(self), !full_empty::is_full(self))
    }
}

impl Real for SyncVar {
    fn run(&self, step: Step) -> u64 {
        match step {
            Step::ReadFf => self.read_ff(),
            Step::ReadFe => self.read_fe(),
            // It has no locks.
            Step::Lock => {
                self.read_fe();
                0
            }
            Step::WriteEf(value) => {
                self.write_ef(value);
                0
            }
            Step::WriteFf(value) => {
                self.write_ff(value);
                0
            }
            Step::WriteF(value) => {
                self.write_f(value);
                0
            }
            Step::Fill => u64::from(self.fill()),
            Step::Empty => u64::from(self.make_empty()),
            Step::PurgeTo(value) => {
                self.purge_to(value);
                0
            }
            Step::TryReadFe => self.try_read_fe().unwrap_or(u64::MAX),
            Step::TryWriteEf(value) => u64::from(self.try_write_ef(value)),
        }
    }

    const HAS_RUNS: bool = false;

    fn new() -> SyncVar {
        SyncVar::full(0)
    }

    fn state(&self) -> (u64, bool) {
        (self.read_xx(), !self.is_full())
    }
}

/// Runs each step in a thread of its own, one after the other, and compares after each the ended ones, their results,
/// and the words.
fn compare<W: Real>(program: &[(usize, Step)]) {
    let runtime = MachineRuntime::builder().threads(1).deadlock(threads::OnDeadlock::Ignore).quiet().start();
    let program = program.to_vec();
    let all = threads::Builder::new().spawn_on(&runtime, move || {
        let words: Arc<[W; WORDS]> = Arc::new(std::array::from_fn(|_| W::new()));
        let mut models: [Word; WORDS] = std::array::from_fn(|_| Word { has_runs: W::HAS_RUNS, ..Word::default() });
        let mut expected: Results = vec![None; program.len()];
        let found: Arc<Vec<AtomicU64>> = Arc::new(program.iter().map(|_| AtomicU64::new(u64::MAX - 1)).collect());
        let mut handles = Vec::new();
        for (number, &(word, step)) in program.iter().enumerate() {
            let (theirs, result) = (Arc::clone(&words), Arc::clone(&found));
            handles.push(threads::spawn(move || {
                let value = theirs[word].run(step);
                result[number].store(value, std::sync::atomic::Ordering::Relaxed);
            }));
            // It runs until it waits, and the threads it wakes run to their end.
            (0..4).for_each(|_| threads::yield_now());
            models[word].step(number, step, &mut expected);
            for (at, handle) in handles.iter().enumerate() {
                assert_eq!(handle.is_finished(), expected[at].is_some(), "step {at} of {program:?}");
                if let Some(result) = expected[at] {
                    let found = found[at].load(std::sync::atomic::Ordering::Relaxed);
                    assert_eq!(found, result, "step {at} of {program:?}");
                }
            }
            for (word, model) in words.iter().zip(&models) {
                assert_eq!(word.state(), (model.value, model.is_empty), "after step {number} of {program:?}");
            }
        }
        // So that all end.
        while !handles.iter().all(threads::JoinHandle::is_finished) {
            words.iter().for_each(|word| _ = (word.run(Step::Fill), word.run(Step::Empty)));
            threads::yield_now();
        }
        words.iter().for_each(|word| _ = word.run(Step::Fill));
    });
    all.join().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn words_by_address_do_what_the_model_does(program in steps()) {
        compare::<AtomicU64>(&program);
    }

    #[test]
    fn words_with_their_bits_do_what_the_model_does(program in steps()) {
        compare::<SyncVar>(&program);
    }
}
