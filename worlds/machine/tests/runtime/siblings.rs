//! Children with declared data: they run in the order of their accesses among their siblings, under every strategy, on
//! seats and on a box's caller.

use crate::children::{next, results};
use crate::helpers::{panic_of, strategy};
use crate::one_box::one_box;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use vicus_flow::FlowError;
use vicus_machine::{
    ChildBuilder, MachineRuntime, cancel_group, child, close_group, open_group, scope, spawn_child, wait_for_children,
};
use vicus_schedule::{ALL, Access, Mode};
use vicus_topology::{NodeId, Topology};
use vicus_trace::{TaskKind, What};

/// A runtime for each strategy and for one to three threads, with callers that leave no work to its threads.
fn runtimes() -> impl Iterator<Item = MachineRuntime> {
    ALL.into_iter().flat_map(|strategy| {
        [1, 2, 3].map(|threads| {
            let builder = MachineRuntime::builder().threads(threads).strategy(strategy.name().parse().unwrap());
            builder.caller_works(Duration::MAX).quiet().start()
        })
    })
}

/// Runs the code in a task, in a box on a seat, and in a box run by its caller, under each strategy.
fn everywhere(act: impl Fn() + Clone + Send + Sync + 'static) {
    for runtime in runtimes() {
        println!("{}", strategy(&runtime));
        runtime.run(&act);
        for result in results(&runtime, &one_box(act.clone())) {
            result.unwrap_or_else(|error| panic!("{}: {error}", strategy(&runtime)));
        }
    }
}

/// A child using this word.
fn uses(word: &AtomicU64, mode: Mode) -> ChildBuilder {
    child().follows(&[Access::of(std::slice::from_ref(word), mode)])
}

const CELLS: usize = 12;

type Cells = Arc<[AtomicU64]>;

fn cells() -> Cells {
    (0..CELLS as u64).map(AtomicU64::new).collect()
}

#[derive(Clone)]
enum Step {
    Child(Child),
    Wait,
    Open,
    Close,
}

/// A child that reads all cells of its parts, and then writes its writable ones, each as another mixture of all.
#[derive(Clone)]
struct Child {
    number: u64,
    parts: Vec<(Range<usize>, Mode)>,
    priority: Option<i32>,
    is_deferred: bool,
    /// Its steps between reading and writing, on cells of its own; and whether it waits for their children.
    inner: Vec<Step>,
    waits: bool,
    /// Whether a child of its own writes, in a group left open.
    leaves_group: bool,
}

impl Child {
    fn accesses(&self, cells: &Cells) -> Vec<Access> {
        self.parts.iter().map(|(part, mode)| Access::of(&cells[part.clone()], *mode)).collect()
    }

    /// The mixture of the read values. Not commutative.
    fn read(&self, cells: &Cells) -> u64 {
        let reads = self.parts.iter().filter(|(_, mode)| *mode != Mode::Write);
        let mix = |mixed: u64, at: usize| mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ cells[at].load(Relaxed);
        reads.flat_map(|(part, _)| part.clone()).fold(self.number, mix)
    }

    fn write(&self, cells: &Cells, mixed: u64) {
        for at in self.parts.iter().filter(|(_, mode)| mode.writes()).flat_map(|(part, _)| part.clone()) {
            cells[at].store(mixed.rotate_left(at as u32), Relaxed);
        }
    }

    fn spawn(self, cells: &Cells) {
        let mut builder = child().follows(&self.accesses(cells));
        if let Some(priority) = self.priority {
            builder = builder.priority(priority);
        }
        if self.is_deferred {
            builder = builder.deferred();
        }
        let cells = Arc::clone(cells);
        builder.spawn(move || {
            let (mixed, own) = (self.read(&cells), self::cells());
            run(&self.inner, &own);
            if self.waits {
                wait_for_children();
                assert_eq!(values(&own), expected(&self.inner), "the children of child {}", self.number);
            }
            if self.leaves_group {
                open_group();
                spawn_child(move || self.write(&cells, mixed));
            } else {
                self.write(&cells, mixed);
            }
        });
    }
}

fn program(seed: &mut u64, many: usize, depth: u32) -> Vec<Step> {
    let mut open = 0;
    let mut steps = Vec::new();
    for number in 0..many as u64 {
        let step = match next(seed) % 20 {
            0 => Step::Wait,
            1 | 2 => {
                open += 1;
                Step::Open
            }
            3 | 4 if open > 0 => {
                open -= 1;
                Step::Close
            }
            _ => {
                let part = |seed: &mut u64| {
                    let from = next(seed) as usize % CELLS;
                    let to = from + 1 + next(seed) as usize % 3;
                    (from..to.min(CELLS), [Mode::Read, Mode::Write, Mode::ReadWrite][next(seed) as usize % 3])
                };
                let has_inner = depth > 0 && next(seed).is_multiple_of(4);
                Step::Child(Child {
                    number,
                    parts: (0..1 + next(seed) % 3).map(|_| part(seed)).collect(),
                    priority: (next(seed).is_multiple_of(3)).then(|| next(seed) as i32 % 5),
                    is_deferred: next(seed).is_multiple_of(2),
                    inner: if has_inner { program(seed, 6, depth - 1) } else { Vec::new() },
                    waits: next(seed).is_multiple_of(2),
                    leaves_group: next(seed).is_multiple_of(8),
                })
            }
        };
        steps.push(step);
    }
    steps.extend((0..open).map(|_| Step::Close));
    steps
}

fn run(steps: &[Step], cells: &Cells) {
    for step in steps {
        match step {
            Step::Child(child) => child.clone().spawn(cells),
            Step::Wait => wait_for_children(),
            Step::Open => open_group(),
            Step::Close => close_group(),
        }
    }
}

fn values(cells: &Cells) -> Vec<u64> {
    cells.iter().map(|cell| cell.load(Relaxed)).collect()
}

/// The cells' content if each child is called at its spawn.
fn expected(steps: &[Step]) -> Vec<u64> {
    let cells = cells();
    for step in steps {
        if let Step::Child(child) = step {
            let mixed = child.read(&cells);
            child.write(&cells, mixed);
        }
    }
    values(&cells)
}

/// What happened: a child had no way to declare its data.
#[test]
fn children_with_data_do_what_they_would_do_one_after_the_other() {
    for seed in 1..6u64 {
        println!("seed {seed}");
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let steps = program(&mut random, 60, 2);
        let expected = expected(&steps);
        everywhere(move || {
            let cells = cells();
            run(&steps, &cells);
            wait_for_children();
            assert_eq!(values(&cells), expected, "seed {seed}");
        });
    }
}

#[test]
fn a_chain_of_children_that_follow_each_other_may_be_long() {
    const LONG: u64 = 100_000;
    for breaks in [false, true] {
        for runtime in runtimes().filter(|runtime| runtime.plan().threads() < 3) {
            println!("{}, {breaks}", strategy(&runtime));
            let act = move || {
                let (word, all) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
                let may_begin = Arc::clone(&all);
                uses(&word, Mode::ReadWrite).spawn(move || {
                    // With more than one thread, it begins before the others are spawned.
                    while !may_begin.load(Relaxed) {
                        std::thread::yield_now();
                    }
                    assert!(!breaks, "the first one");
                });
                for at in 0..LONG {
                    let counts = Arc::clone(&word);
                    uses(&word, Mode::ReadWrite).spawn(move || {
                        assert_eq!(counts.load(Relaxed), at);
                        counts.store(at + 1, Relaxed);
                    });
                }
                all.store(true, Relaxed);
                if breaks {
                    assert_eq!(panic_of(wait_for_children), "the first one");
                }
                wait_for_children();
                assert_eq!(word.load(Relaxed), if breaks { 0 } else { LONG });
            };
            runtime.run(act);
            // The caller is a thread of little stack.
            let model = one_box(act);
            std::thread::scope(|threads| {
                let here = || runtime.submit_here(&model, Vec::new(), u64::MAX, &|| false).wait().map(drop);
                let thread = std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(threads, here);
                thread.unwrap().join().unwrap().unwrap();
            });
        }
    }
}

/// If the grandchild waited for its uncle, or for its parent, none of the three would end.
#[test]
fn only_siblings_are_ordered() {
    everywhere(|| {
        let words: Arc<[AtomicU64; 2]> = Arc::default();
        let order = Arc::new(AtomicU64::new(0));
        let [first, second] = &*words;
        let (used, grandchild) = (Arc::clone(&words), Arc::clone(&order));
        uses(first, Mode::Write).spawn(move || {
            for word in &*used {
                let grandchild = Arc::clone(&grandchild);
                uses(word, Mode::ReadWrite).spawn(move || _ = grandchild.fetch_add(1, Relaxed));
            }
            wait_for_children();
        });
        let uncle = Arc::clone(&order);
        let both = [first, second].map(|word| Access::of(std::slice::from_ref(word), Mode::Write));
        child().follows(&both).spawn(move || assert_eq!(uncle.fetch_add(1, Relaxed), 2));
        wait_for_children();
        assert_eq!(order.load(Relaxed), 3);
    });
}

/// On the box's caller, a waiting child has its siblings run on top of it: those that don't follow it.
#[test]
fn a_grandchild_runs_before_its_uncle_is_over_and_a_sibling_does_not() {
    let runtime = runtimes().next().unwrap();
    let model = one_box(|| {
        let (word, told) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let seen = Arc::clone(&told);
        uses(&word, Mode::Write).spawn(move || {
            wait_for_children();
            assert_eq!(seen.load(Relaxed), 1, "the grandchild has run");
        });
        let (read, sibling, grandchild) = (Arc::clone(&word), Arc::clone(&told), Arc::clone(&told));
        uses(&word, Mode::Read).spawn(move || _ = sibling.fetch_add(2, Relaxed));
        spawn_child(move || uses(&read, Mode::Read).spawn(move || _ = grandchild.fetch_add(1, Relaxed)));
        wait_for_children();
        assert_eq!(told.load(Relaxed), 3);
    });
    runtime.submit_here(&model, Vec::new(), u64::MAX, &|| false).wait().unwrap();
}

#[test]
fn children_that_follow_one_that_panicked_are_dropped_until_its_parent_gets_the_panic() {
    everywhere(|| {
        let words: [AtomicU64; 3] = Default::default();
        let ran = Arc::new(AtomicUsize::new(0));
        let runs = |reads: usize, writes: usize| {
            let ran = Arc::clone(&ran);
            let accesses = [(reads, Mode::Read), (writes, Mode::Write)];
            let accesses = accesses.map(|(word, mode)| Access::of(&words[word..][..1], mode));
            child().follows(&accesses).spawn(move || _ = ran.fetch_add(1, Relaxed));
        };
        uses(&words[0], Mode::Write).spawn(|| panic!("outside of the group"));
        runs(0, 1);
        open_group();
        runs(1, 2);
        uses(&words[2], Mode::ReadWrite).spawn(|| panic!("it is dropped itself"));
        // The group has no panic of its own.
        close_group();
        runs(2, 2);
        assert_eq!(panic_of(wait_for_children), "outside of the group");
        assert_eq!(ran.load(Relaxed), 0);
        runs(2, 0);
        wait_for_children();
        assert_eq!(ran.load(Relaxed), 1, "its parent knows of the panic");

        // A group hands out its own panics, and the others' are not known by then.
        uses(&words[0], Mode::Write).spawn(|| panic!("outside again"));
        open_group();
        uses(&words[1], Mode::Write).spawn(|| panic!("in the group"));
        runs(1, 1);
        assert_eq!(panic_of(close_group), "in the group");
        runs(1, 2);
        runs(0, 2);
        assert_eq!(panic_of(wait_for_children), "outside again");
        assert_eq!(ran.load(Relaxed), 2);
    });
}

/// What happened: a reader in a group was dropped by the group's panic. It was the only task between later tasks and a
/// writer from before the group, which had panicked. The panic of the group let these later tasks run again, and they
/// read unwritten data.
#[test]
fn the_panic_of_a_group_says_nothing_of_a_panic_from_before_it() {
    for (mode, closes) in [(Mode::Write, true), (Mode::ReadWrite, true), (Mode::ReadWrite, false)] {
        everywhere(move || {
            let (outside, inside) = (AtomicU64::new(0), AtomicU64::new(0));
            let ran = Arc::new(AtomicUsize::new(0));
            let runs = |mode| {
                let ran = Arc::clone(&ran);
                uses(&outside, mode).spawn(move || _ = ran.fetch_add(1, Relaxed));
            };
            uses(&outside, Mode::Write).spawn(|| panic!("outside"));
            open_group();
            runs(Mode::Read);
            uses(&inside, Mode::Write).spawn(|| panic!("in the group"));
            assert_eq!(panic_of(if closes { close_group } else { wait_for_children }), "in the group");
            runs(mode);
            assert_eq!(panic_of(wait_for_children), "outside");
            assert_eq!(ran.load(Relaxed), 0, "{mode:?}, {closes}");
            runs(mode);
            wait_for_children();
            assert_eq!(ran.load(Relaxed), 1, "{mode:?}, {closes}");
        });
    }
}

/// What happened: the followers of a panicked child were dropped while tasks still ran in the group it had left open.
#[test]
fn a_child_that_panics_is_over_when_the_groups_that_it_has_left_open_are() {
    struct Sees(Arc<AtomicU64>, Arc<AtomicU64>);
    impl Drop for Sees {
        fn drop(&mut self) {
            self.1.store(self.0.load(Relaxed), Relaxed);
        }
    }
    everywhere(|| {
        let (word, seen) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
        let written = Arc::clone(&word);
        uses(&word, Mode::Write).spawn(move || {
            open_group();
            spawn_child(move || {
                std::thread::sleep(Duration::from_millis(2));
                written.store(2, Relaxed);
            });
            panic!("with an open group");
        });
        let sees = Sees(Arc::clone(&word), Arc::clone(&seen));
        uses(&word, Mode::Read).spawn(move || unreachable!("{}", sees.0.load(Relaxed)));
        assert_eq!(panic_of(wait_for_children), "with an open group");
        assert_eq!(seen.load(Relaxed), 2);
    });
}

/// What happened: a deferred child was queued as an immediate one if it had to wait for a sibling.
#[test]
fn a_child_that_waits_keeps_the_kind_that_was_said() {
    for each in ALL {
        let builder = MachineRuntime::builder().threads(1).strategy(each.name().parse().unwrap());
        let runtime = builder.quiet().record(1 << 10).start();
        runtime.run(|| {
            let word = AtomicU64::new(0);
            uses(&word, Mode::Write).spawn(|| ());
            uses(&word, Mode::ReadWrite).deferred().spawn(|| ());
            uses(&word, Mode::ReadWrite).spawn(|| ());
            wait_for_children();
        });
        let trace = runtime.trace().unwrap();
        let events = || trace.logs().iter().flat_map(|log| &log.events);
        let mut spawned: Vec<_> = events()
            .filter_map(|event| if let What::Spawned { who, .. } = event.what { Some(who) } else { None })
            .collect();
        spawned.sort_unstable_by_key(|who| who.index);
        let kind = |task| {
            let kind =
                |what| if let What::Enqueued { who, kind, .. } = what { (who == task).then_some(kind) } else { None };
            events().find_map(|event| kind(event.what)).expect("it was queued")
        };
        let kinds: Vec<_> = spawned.into_iter().map(kind).collect();
        let [first, deferred, last] = kinds[..] else { panic!("{}: {kinds:?}", each.name()) };
        assert_eq!((deferred, first), (TaskKind::Deferred, last), "{}", each.name());
    }
}

/// What happened: opening a group looked through all open ones.
#[test]
fn many_groups_may_be_open_one_in_the_other() {
    const DEEP: usize = 200_000;
    let runtime = MachineRuntime::builder().threads(1).quiet().start();
    let act = || {
        (0..DEEP).for_each(|_| open_group());
        let (word, ran) = (AtomicU64::new(0), Arc::new(AtomicUsize::new(0)));
        for _ in 0..2 {
            let ran = Arc::clone(&ran);
            uses(&word, Mode::ReadWrite).spawn(move || _ = ran.fetch_add(1, Relaxed));
        }
        (0..DEEP).for_each(|_| close_group());
        assert_eq!(ran.load(Relaxed), 2);
    };
    runtime.run(act);
    results(&runtime, &one_box(act)).into_iter().for_each(Result::unwrap);
}

/// A descendant's panic is none of the sibling's, which has done its work.
#[test]
fn a_child_whose_own_children_panic_is_followed() {
    for runtime in runtimes() {
        let ran = Arc::new(AtomicUsize::new(0));
        let follows = Arc::clone(&ran);
        let act = move || {
            let (word, follows) = (Arc::new(AtomicU64::new(0)), Arc::clone(&follows));
            uses(&word, Mode::Write).spawn(|| {
                open_group();
                spawn_child(|| panic!("of a grandchild"));
            });
            uses(&word, Mode::Read).spawn(move || _ = follows.fetch_add(1, Relaxed));
        };
        let what = strategy(&runtime);
        assert_eq!(panic_of(|| runtime.run(&act)), "of a grandchild", "{what}");
        for result in results(&runtime, &one_box(act)) {
            let Err(FlowError::Panicked { message, .. }) = result else { panic!("{what}: {result:?}") };
            assert_eq!(message, "of a grandchild", "{what}");
        }
        assert_eq!(ran.load(Relaxed), 3, "{what}");
    }
}

/// OpenMP API 5.2, §11.2: a cancelled task counts as completed.
#[test]
fn children_that_follow_one_that_was_cancelled_are_run_if_they_are_not_of_its_group() {
    everywhere(|| {
        let word = AtomicU64::new(0);
        let ran: Arc<[AtomicUsize; 3]> = Arc::default();
        let runs = |which: usize| {
            let ran = Arc::clone(&ran);
            uses(&word, Mode::ReadWrite).spawn(move || _ = ran[which].fetch_add(1, Relaxed));
        };
        runs(0);
        open_group();
        cancel_group();
        (0..10).for_each(|_| runs(1));
        close_group();
        runs(2);
        wait_for_children();
        assert_eq!([0, 1, 2].map(|which| ran[which].load(Relaxed)), [1, 0, 1]);
    });
}

/// A cancelled child's captured values are dropped before its followers begin.
#[test]
fn a_cancelled_child_is_over_when_its_closure_is_dropped() {
    struct Writes(Arc<AtomicU64>);
    impl Drop for Writes {
        fn drop(&mut self) {
            std::thread::yield_now();
            self.0.store(1, Relaxed);
        }
    }
    everywhere(|| {
        let word = Arc::new(AtomicU64::new(0));
        open_group();
        cancel_group();
        let writes = Writes(Arc::clone(&word));
        uses(&word, Mode::Write).spawn(move || drop(writes));
        close_group();
        let reads = Arc::clone(&word);
        uses(&word, Mode::Read).spawn(move || assert_eq!(reads.load(Relaxed), 1));
        wait_for_children();
    });
}

/// The end of a child in another context queues a ticket for a child: the group may be over before this end is.
#[test]
fn a_child_of_a_group_with_a_priority_may_follow_one_outside() {
    everywhere(|| {
        for round in 0..100 {
            let (word, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            uses(&word, Mode::Write).spawn(|| ());
            open_group();
            for priority in 0..3 {
                let seen = Arc::clone(&seen);
                uses(&word, Mode::Read).priority(priority).spawn(move || _ = seen.fetch_add(1, Relaxed));
            }
            close_group();
            assert_eq!(seen.load(Relaxed), 3, "round {round}");
        }
    });
}

#[test]
fn tasks_of_a_scope_have_children_in_order_as_well() {
    for runtime in runtimes() {
        let words: Vec<Arc<AtomicU64>> = (0..8).map(|_| Arc::default()).collect();
        runtime.run(|| {
            scope(|scope| {
                for word in &words {
                    scope.spawn(move |_| {
                        for at in 0..20 {
                            let counts = Arc::clone(word);
                            uses(word, Mode::ReadWrite).spawn(move || {
                                assert_eq!(counts.load(Relaxed), at);
                                counts.store(at + 1, Relaxed);
                            });
                        }
                    });
                }
            });
        });
        assert!(words.iter().all(|word| word.load(Relaxed) == 20), "{}", strategy(&runtime));
    }
}

#[test]
fn a_trace_of_children_in_order_has_causes_before_effects() {
    let mut random = 0x5eed;
    let steps = program(&mut random, 60, 2);
    for each in ALL {
        let builder = MachineRuntime::builder().threads(3).strategy(each.name().parse().unwrap());
        let runtime = builder.quiet().record(1 << 14).start();
        runtime.run(|| run(&steps, &cells()));
        let trace = runtime.trace().unwrap();
        assert_eq!((trace.lost(), trace.check().first()), (0, None), "{}", each.name());
    }
}

/// The trace has a child's queueing and its seat.
#[test]
fn a_child_for_a_place_goes_there_when_it_follows_no_sibling_any_more() {
    let machine = Topology::parse("node:2 core:1").unwrap();
    let builder = MachineRuntime::builder().topology(machine).threads(2);
    // Its seats take no tasks from each other.
    let runtime = builder.strategy("shepherd".parse().unwrap()).quiet().start();
    let wrong = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wrong);
    runtime.run(move || {
        let word = AtomicU64::new(0);
        for at in 0..200 {
            let (node, wrong) = (at / 3 % 2, Arc::clone(&counted));
            let builder = uses(&word, if at % 5 == 0 { Mode::Write } else { Mode::Read }).at(NodeId::new(node));
            let builder = if at % 2 == 0 { builder.priority(at as i32 % 7) } else { builder };
            builder.spawn(move || {
                let name = std::thread::current().name().expect("threads have names").to_owned();
                wrong.fetch_add(usize::from(!name.ends_with(['0', '1'][node])), Relaxed);
            });
        }
        wait_for_children();
    });
    assert_eq!(wrong.load(Relaxed), 0);
}
