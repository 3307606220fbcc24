//! A count to wait for.

use super::sync_var::SyncVar;
use crate::mutant::{Mutant, Planted};
use crate::sync;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use vicus_machine::layer::{Padded, ShortLock};

/// Threads wait until as many submissions have come as are expected; each submission may expect more.
///
/// Qthreads' sinc without its values. Threads whose wait a submission ends see the writes before it.
///
/// ```
/// use std::sync::Arc;
/// use vicus_machine::MachineRuntime;
/// use vicus_threads::{Builder, Countdown};
///
/// let runtime = MachineRuntime::builder().threads(2).start();
/// let count = Arc::new(Countdown::new(3));
/// for _ in 0..3 {
///     let count = Arc::clone(&count);
///     Builder::new().spawn_on(&runtime, move || count.submit());
/// }
/// count.wait();
/// assert!(count.is_over());
/// ```
#[derive(Debug)]
pub struct Countdown {
    count: Count,
    /// Full while no submission is to come.
    done: SyncVar,
}

impl Countdown {
    /// A countdown of this number of submissions.
    pub fn new(expected: u64) -> Countdown {
        let countdown = Countdown { count: Count::new(), done: SyncVar::full(0) };
        countdown.expect(expected);
        countdown
    }

    /// So many more are to come.
    pub fn expect(&self, more: u64) {
        self.count.expect(more, self.edge(), || _ = self.done.make_empty());
    }

    /// One has come. If none was to come, nothing happens.
    pub fn submit(&self) {
        self.submit_with(|| ());
    }

    /// Like [`Countdown::submit`]. If it seems to be the last one, `f` is called before the waits end.
    pub fn submit_with(&self, f: impl Fn()) {
        // A thread that goes on after the fill may drop this: the fill is its last use here.
        self.count.submit(f, self.edge(), || _ = self.done.fill());
    }

    /// Begins anew, with this number of submissions to come.
    pub fn reset(&self, expected: u64) {
        while !self.is_over() {
            self.submit();
        }
        self.expect(expected);
    }

    /// Waits until none is to come.
    pub fn wait(&self) {
        self.done.read_ff();
    }

    /// Held while the count changes from or to 0, and the word with it. It lies outside of this, since this may be
    /// dropped while it is held.
    fn edge(&self) -> &'static ShortLock<()> {
        static EDGES: LazyLock<Box<[Padded<ShortLock<()>>]>> =
            LazyLock::new(|| (0..EDGES_COUNT).map(|_| Padded(ShortLock::new(()))).collect());
        &EDGES[std::ptr::from_ref(self).addr() / align_of::<Countdown>() % EDGES_COUNT].0
    }

    /// Whether none is to come.
    pub fn is_over(&self) -> bool {
        self.count.open.load(Ordering::Acquire) == 0
    }
}

/// Few threads are at an edge at once.
const EDGES_COUNT: usize = 64;

/// How many are to come.
#[derive(Debug)]
struct Count {
    open: sync::AtomicU64,
    planted: Planted,
}

impl Count {
    fn new() -> Count {
        Count { open: sync::AtomicU64::new(0), planted: Planted::NONE }
    }

    fn expect(&self, more: u64, edge: &ShortLock<()>, empty: impl FnOnce()) {
        let add = |open| (open > 0).then_some(open + more);
        if more == 0 || self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok() {
            return;
        }
        let _edge = (!self.planted.has(Mutant::Unlocked)).then(|| edge.lock());
        if self.open.fetch_add(more, Ordering::AcqRel) == 0 {
            empty();
        }
    }

    fn submit(&self, sum: impl Fn(), edge: &ShortLock<()>, fill: impl FnOnce()) {
        loop {
            let take = |open| (open > 1).then(|| open - 1);
            match self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, take) {
                Ok(_) | Err(0) => return,
                Err(_) => {}
            }
            // All others have come, unless more are expected meanwhile: then it is done once more at the end.
            if !self.planted.has(Mutant::SummedLate) {
                sum();
            }
            let held = (!self.planted.has(Mutant::Unlocked)).then(|| edge.lock());
            if self.open.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                let is_late = self.planted.has(Mutant::SummedLate);
                fill();
                drop(held);
                if is_late {
                    sum();
                }
                return;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_that_moves_is_the_same() {
        let runtime = vicus_machine::MachineRuntime::builder().threads(2).quiet().start();
        let mut all: Vec<Countdown> = Vec::new();
        (0..100).for_each(|_| all.push(Countdown::new(1)));
        assert!(all.iter().all(|count| !count.is_over()));
        let all: std::sync::Arc<[Countdown]> = all.into();
        let waits: Vec<_> = (0..all.len())
            .map(|n| {
                let all = std::sync::Arc::clone(&all);
                crate::Builder::new().spawn_on(&runtime, move || {
                    all[n].wait();
                    all[n].is_over()
                })
            })
            .collect();
        all.iter().for_each(Countdown::submit);
        assert!(waits.into_iter().all(|wait| wait.join().unwrap()));
    }

    #[test]
    fn more_may_be_expected_and_one_too_many_counts_for_nothing() {
        let count = Countdown::new(1);
        count.expect(2);
        (0..2).for_each(|_| count.submit());
        assert!(!count.is_over());
        count.submit();
        count.wait();
        count.submit();
        assert!(count.is_over());
        count.reset(1);
        assert!(!count.is_over());
        count.reset(0);
        count.wait();
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;
    use std::sync::Arc;

    /// A count, the state of its word, and the values put together before the fill.
    struct Model {
        count: Count,
        edge: ShortLock<()>,
        is_full: AtomicBool,
        values: [UnsafeCell<u32>; 2],
        sum: UnsafeCell<u32>,
    }

    #[expect(unsafe_code, reason = "the cells are what the model is about")]
    // SAFETY: loom tells if two threads use one at once.
    unsafe impl Sync for Model {}

    impl Model {
        fn new(expected: u64, mutant: Option<Mutant>) -> Arc<Model> {
            let count = Count { planted: Planted::new(mutant), ..Count::new() };
            let (values, sum) = ([0, 0].map(UnsafeCell::new), UnsafeCell::new(0));
            let (edge, is_full) = (ShortLock::new(()), AtomicBool::new(true));
            let model = Model { count, edge, is_full, values, sum };
            model.expect(expected);
            Arc::new(model)
        }

        fn expect(&self, more: u64) {
            self.count.expect(more, &self.edge, || self.is_full.store(false, Ordering::SeqCst));
        }

        fn submit(&self) {
            let sum = || {
                #[expect(unsafe_code, reason = "loom's cells")]
                // SAFETY: as for `Sync`.
                unsafe {
                    let values = self.values.each_ref().map(|value| value.with(|value| *value));
                    self.sum.with_mut(|sum| *sum = values.iter().sum());
                }
            };
            self.count.submit(sum, &self.edge, || self.is_full.store(true, Ordering::SeqCst));
        }
    }

    fn check(body: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.max_branches = 5_000;
        builder.check(body);
    }

    /// The last one comes while another is expected: then the word is empty, and full after the other has come.
    fn at_the_edge(mutant: Option<Mutant>) {
        check(move || {
            let model = Model::new(1, mutant);
            let other = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.expect(1))
            };
            model.submit();
            other.join().unwrap();
            assert!(!model.is_full.load(Ordering::SeqCst), "one is to come");
            model.submit();
            assert!(model.is_full.load(Ordering::SeqCst));
        });
    }

    /// Two submit their values, and one of them expects the other: a waiting thread finds the sum of both.
    fn values(mutant: Option<Mutant>) {
        check(move || {
            let model = Model::new(2, mutant);
            let others = [0, 1].map(|own| {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    #[expect(unsafe_code, reason = "loom's cell")]
                    // SAFETY: as for `Sync`.
                    model.values[own].with_mut(|value| unsafe { *value = own as u32 + 1 });
                    model.submit();
                })
            });
            while !model.is_full.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            #[expect(unsafe_code, reason = "loom's cell")]
            // SAFETY: as for `Sync`.
            let sum = model.sum.with(|sum| unsafe { *sum });
            assert_eq!(sum, 3);
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }

    fn finds(model: fn(Option<Mutant>), mutant: Mutant) {
        let found = std::panic::catch_unwind(|| model(Some(mutant)));
        assert!(found.is_err(), "the model doesn't find {mutant:?}");
    }

    #[test]
    fn loom_a_count_is_over_when_none_is_to_come() {
        at_the_edge(None);
        finds(at_the_edge, Mutant::Unlocked);
    }

    #[test]
    fn loom_what_was_submitted_is_seen_by_those_that_wait() {
        values(None);
        finds(values, Mutant::SummedLate);
    }
}
