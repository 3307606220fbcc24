//! Small random programs over full/empty bits, on several threads of the system: the results of all steps must equal
//! those of some order of all steps, one after the other, by the documentation's rules.

use crate::following::following;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use vicus_machine::MachineRuntime;
use vicus_schedule::ALL;
use vicus_threads::{self as threads, SyncVar, full_empty};

const WORDS: usize = 2;
const THREADS: usize = 3;
/// How many programs are run, and how often each in each runtime.
const PROGRAMS: usize = 60;
const TIMES: usize = 12;

#[derive(Clone, Copy, Debug)]
enum Step {
    ReadFf,
    ReadFe,
    WriteEf(u64),
    WriteFf(u64),
    WriteF(u64),
    Fill,
    Empty,
    TryReadFf,
    TryReadFe,
    TryWriteEf(u64),
    TryWriteFf(u64),
    // Of words alone.
    Lock,
    TryLock,
    Unlock,
    Incr(u64),
    Cas(u64, u64),
}

/// By thread, its steps, each with a word.
type Program = Vec<Vec<(usize, Step)>>;
/// By thread, its steps' results, and the final words with their full bits.
type Outcome = (Vec<Vec<u64>>, [(u64, bool); WORDS]);

/// The result of a try that would have had to wait.
const NOT_NOW: u64 = u64::MAX;

/// A step's effect on a word: its result, and the word then. `None`: it waits.
fn act(step: Step, (value, is_full): (u64, bool)) -> Option<(u64, (u64, bool))> {
    let same = (value, is_full);
    let tries = |step| Some(act(step, same).unwrap_or((NOT_NOW, same)));
    match step {
        Step::ReadFf => is_full.then_some((value, same)),
        Step::ReadFe => is_full.then_some((value, (value, false))),
        Step::Lock => is_full.then_some((0, (value, false))),
        Step::WriteEf(new) => (!is_full).then_some((0, (new, true))),
        Step::WriteFf(new) => is_full.then_some((0, (new, true))),
        Step::WriteF(new) => Some((0, (new, true))),
        Step::Fill => Some((u64::from(!is_full), (value, true))),
        Step::Empty => Some((u64::from(is_full), (value, false))),
        Step::TryReadFf => tries(Step::ReadFf),
        Step::TryReadFe => tries(Step::ReadFe),
        Step::TryWriteEf(new) => tries(Step::WriteEf(new)),
        Step::TryWriteFf(new) => tries(Step::WriteFf(new)),
        Step::TryLock => tries(Step::Lock),
        Step::Unlock => Some((if is_full { NOT_NOW } else { 0 }, (value, true))),
        Step::Incr(by) => Some((value, (value.wrapping_add(by), is_full))),
        Step::Cas(old, new) => Some((value, (if value == old { new } else { value }, is_full))),
    }
}

/// All outcomes of a program; `None` if in some order its threads wait for ever.
fn outcomes(program: &Program) -> Option<BTreeSet<Outcome>> {
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    let mut open: Vec<Outcome> = vec![(vec![Vec::new(); program.len()], [(0, true); WORDS])];
    while let Some(state) = open.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        let (results, words) = &state;
        let mut goes_on = false;
        for (thread, steps) in program.iter().enumerate() {
            let Some(&(word, step)) = steps.get(results[thread].len()) else { continue };
            let Some((result, now)) = act(step, words[word]) else { continue };
            let mut next = state.clone();
            next.0[thread].push(result);
            next.1[word] = now;
            open.push(next);
            goes_on = true;
        }
        if !goes_on {
            if results.iter().zip(program).any(|(results, steps)| results.len() < steps.len()) {
                return None;
            }
            found.insert(state);
        }
    }
    Some(found)
}

fn programs(has_locks: bool) -> impl Strategy<Value = Program> {
    let value = || 0..5_u64;
    let of_both = prop_oneof![
        Just(Step::ReadFf),
        Just(Step::ReadFe),
        value().prop_map(Step::WriteEf),
        value().prop_map(Step::WriteFf),
        value().prop_map(Step::WriteF),
        Just(Step::Fill),
        Just(Step::Empty),
        Just(Step::TryReadFf),
        Just(Step::TryReadFe),
        value().prop_map(Step::TryWriteEf),
        value().prop_map(Step::TryWriteFf),
    ];
    let of_words = prop_oneof![
        Just(Step::Lock),
        Just(Step::TryLock),
        Just(Step::Unlock),
        value().prop_map(Step::Incr),
        (value(), value()).prop_map(|(old, new)| Step::Cas(old, new)),
    ];
    let weight = u32::from(has_locks);
    let step = prop_oneof![2 => of_both, weight => of_words];
    let steps = proptest::collection::vec((0..WORDS, step), 1..=4);
    proptest::collection::vec(steps, THREADS)
}

trait Word: Send + Sync + 'static {
    fn full() -> Self;
    fn run(&self, step: Step) -> u64;
    fn state(&self) -> (u64, bool);
    fn fill(&self);
}

/// The result of a trying step.
fn tried(done: bool) -> u64 {
    if done { 0 } else { NOT_NOW }
}

impl Word for AtomicU64 {
    fn full() -> AtomicU64 {
        AtomicU64::new(0)
    }

    fn run(&self, step: Step) -> u64 {
        match step {
            Step::ReadFf => return full_empty::read_ff(self),
            Step::ReadFe => return full_empty::read_fe(self),
            Step::WriteEf(value) => full_empty::write_ef(self, value),
            Step::WriteFf(value) => full_empty::write_ff(self, value),
            Step::WriteF(value) => full_empty::write_f(self, value),
            Step::Fill => return u64::from(full_empty::fill(self)),
            Step::Empty => return u64::from(full_empty::empty(self)),
            Step::TryReadFf => return full_empty::try_read_ff(self).unwrap_or(NOT_NOW),
            Step::TryReadFe => return full_empty::try_read_fe(self).unwrap_or(NOT_NOW),
            Step::TryWriteEf(value) => return tried(full_empty::try_write_ef(self, value)),
            Step::TryWriteFf(value) => return tried(full_empty::try_write_ff(self, value)),
            Step::Lock => full_empty::lock(self),
            Step::TryLock => return tried(full_empty::try_lock(self)),
            Step::Unlock => return tried(full_empty::unlock(self).is_ok()),
            Step::Incr(by) => return full_empty::incr(self, by),
            Step::Cas(old, new) => return full_empty::cas(self, old, new),
        }
        0
    }

    fn state(&self) -> (u64, bool) {
        (full_empty::read_xx(self), full_empty::is_full(self))
    }

    fn fill(&self) {
        full_empty::fill(self);
    }
}

impl Word for SyncVar {
    fn full() -> SyncVar {
        SyncVar::full(0)
    }

    fn run(&self, step: Step) -> u64 {
        match step {
            Step::ReadFf => return self.read_ff(),
            Step::ReadFe => return self.read_fe(),
            Step::WriteEf(value) => self.write_ef(value),
            Step::WriteFf(value) => self.write_ff(value),
            Step::WriteF(value) => self.write_f(value),
            Step::Fill => return u64::from(self.fill()),
            Step::Empty => return u64::from(self.make_empty()),
            Step::TryReadFf => return self.try_read_ff().unwrap_or(NOT_NOW),
            Step::TryReadFe => return self.try_read_fe().unwrap_or(NOT_NOW),
            Step::TryWriteEf(value) => return tried(self.try_write_ef(value)),
            Step::TryWriteFf(value) => return tried(self.try_write_ff(value)),
            other => unreachable!("{other:?} is of words alone"),
        }
        0
    }

    fn state(&self) -> (u64, bool) {
        (self.read_xx(), self.is_full())
    }

    fn fill(&self) {
        self.fill();
    }
}

fn run<W: Word>(runtime: &MachineRuntime, program: &Program, time: usize) -> Outcome {
    let words: Arc<[W; WORDS]> = Arc::new(std::array::from_fn(|_| W::full()));
    let spawn = |(number, steps): (usize, &Vec<(usize, Step)>)| {
        let (words, steps) = (Arc::clone(&words), steps.clone());
        let builder = if (number + time).is_multiple_of(2) { following() } else { threads::Builder::new() };
        builder.spawn_on(runtime, move || {
            let step = |(at, &(word, step)): (usize, &(usize, Step))| {
                if (at + number + time).is_multiple_of(3) {
                    threads::yield_now();
                }
                words[word].run(step)
            };
            steps.iter().enumerate().map(step).collect::<Vec<u64>>()
        })
    };
    let all: Vec<_> = program.iter().enumerate().map(spawn).collect();
    let results = all.into_iter().map(|thread| thread.join().unwrap()).collect();
    let state = std::array::from_fn(|word| words[word].state());
    words.iter().for_each(W::fill);
    (results, state)
}

fn everywhere<W: Word>(has_locks: bool) {
    let mut runner = TestRunner::new(ProptestConfig::default());
    // A failing program is printed whole: a seed would say less.
    let generate =
        std::iter::repeat_with(|| programs(has_locks).new_tree(&mut runner).expect("nothing is rejected").current());
    let with_outcomes = generate.filter_map(|program| Some((outcomes(&program)?, program)));
    let programs: Vec<_> = with_outcomes.take(PROGRAMS).collect();
    assert!(programs.iter().filter(|(outcomes, _)| outcomes.len() > 1).count() > PROGRAMS / 3, "most are trivial");
    for strategy in ALL {
        for threads in [1, 2, 3] {
            let builder = MachineRuntime::builder().threads(threads).strategy(strategy.name().parse().unwrap()).quiet();
            let runtime = builder.start();
            for (outcomes, program) in &programs {
                for time in 0..TIMES {
                    let outcome = run::<W>(&runtime, program, time);
                    let what = format!("{} with {threads} threads: {program:?}", strategy.name());
                    assert!(outcomes.contains(&outcome), "{what} gave {outcome:?}, which no order of its steps does");
                }
            }
        }
    }
}

#[test]
fn what_steps_on_words_give_is_what_some_order_of_them_gives() {
    everywhere::<AtomicU64>(true);
}

#[test]
fn what_steps_on_variables_give_is_what_some_order_of_them_gives() {
    everywhere::<SyncVar>(false);
}
