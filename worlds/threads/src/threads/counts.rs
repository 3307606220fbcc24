//! The lightweight threads of a runtime, as numbers.

use super::watching::Watching;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use vicus_machine::layer::{Padded, RuntimeState};
use vicus_schedule::SeatId;

/// The lightweight threads of a runtime.
pub(crate) struct Threads {
    /// By seat, and last the threads spawned by callers without one.
    counts: Box<[Arc<Padded<Counts>>]>,
    pub(crate) watch: Watch,
    /// How many wait for a time.
    pub(crate) sleeping: AtomicUsize,
    /// The runtime ends: threads that have not begun are dropped, and waiting ones are unwound.
    pub(crate) ending: AtomicBool,
}

/// Looks for deadlocks of a runtime, as long as threads wait.
#[derive(Default)]
pub(crate) struct Watch {
    /// Whether it looks.
    pub(crate) watching: Watching,
    /// A thread without a seat has ended a wait.
    pub(crate) is_filled_outside: AtomicBool,
    /// A deadlock was told.
    pub(crate) was_told: AtomicBool,
}

/// The threads of a seat, whose thread alone writes this.
pub(crate) struct Counts {
    /// The number of its first thread, and the step from one to the next.
    numbers: (u64, u64),
    spawned: AtomicU64,
    ended: AtomicU64,
    /// Waits for words, by [`Waits`]: how many have begun, and how many have ended.
    waits: [[AtomicU64; 2]; 2],
}

/// The owners of waits for words.
#[derive(Clone, Copy)]
pub(crate) enum Waits {
    /// Waits of lightweight threads.
    OfThreads,
    /// Waits of code on its thread's own stack: a program's main thread, and tasks.
    OfSeats,
}

impl Threads {
    pub(crate) fn new(seats: usize) -> Threads {
        Threads {
            watch: Watch::default(),
            counts: (0..=seats).map(|seat| Arc::new(Padded(Counts::new(seat, seats + 1)))).collect(),
            sleeping: AtomicUsize::new(0),
            ending: AtomicBool::new(false),
        }
    }

    /// The threads of this runtime.
    pub(crate) fn of(shared: &RuntimeState) -> &Threads {
        let layer: Option<&dyn Any> = shared.hook.layer().map(|layer| layer as _);
        layer.and_then(<dyn Any>::downcast_ref).expect("the runtime has lightweight threads")
    }

    /// Like [`Threads::of`], as an owner.
    pub(crate) fn shared_of(shared: &RuntimeState) -> Arc<Threads> {
        let layer: Option<Arc<dyn Any + Send + Sync>> = shared.hook.shared_layer().map(|layer| layer as _);
        let threads = layer.and_then(|layer| layer.downcast().ok());
        threads.expect("the runtime has lightweight threads")
    }

    /// The counts of a seat.
    pub(crate) fn of_seat(&self, seat: SeatId) -> Arc<Padded<Counts>> {
        Arc::clone(&self.counts[seat.index()])
    }

    /// Counts a thread spawned by a caller without a seat. Returns its number.
    pub(crate) fn spawned_outside(&self) -> u64 {
        let counts = &self.counts[self.counts.len() - 1].0;
        counts.number(counts.spawned.fetch_add(1, Ordering::AcqRel))
    }

    /// Takes back a count of [`Threads::spawned_outside`]: the spawn failed.
    #[cold]
    pub(crate) fn ended_outside(&self) {
        self.counts[self.counts.len() - 1].0.ended.fetch_add(1, Ordering::AcqRel);
    }

    /// How many there are. If it is 0, there was none at a moment since this was called.
    pub(crate) fn live(&self) -> u64 {
        // In this order: a thread ended by the first sum was spawned before the second one.
        let ended: u64 = self.counts.iter().map(|counts| counts.0.ended.load(Ordering::Acquire)).sum();
        let spawned: u64 = self.counts.iter().map(|counts| counts.0.spawned.load(Ordering::Acquire)).sum();
        spawned - ended
    }

    /// How many have been spawned.
    pub(crate) fn all(&self) -> u64 {
        let spawned: u64 = self.counts.iter().map(|counts| counts.0.spawned.load(Ordering::Acquire)).sum();
        // Of the outside spawns, only the failed ones count as ended.
        spawned - self.counts[self.counts.len() - 1].0.ended.load(Ordering::Acquire)
    }

    /// How many waits of these for words have begun, and how many of these have ended.
    pub(crate) fn waits(&self, whose: &[Waits]) -> (u64, u64) {
        let of_all = |which: usize| {
            let waits =
                self.counts.iter().flat_map(|counts| whose.iter().map(|&whose| &counts.0.waits[whose as usize]));
            waits.map(|waits| waits[which].load(Ordering::Acquire)).sum()
        };
        // In this order: an ended wait has begun before.
        let ended = of_all(1);
        (of_all(0), ended)
    }

    pub(crate) fn begin_sleep(&self) {
        self.sleeping.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_sleep(&self) {
        self.sleeping.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
}

impl Counts {
    fn new(index: usize, all: usize) -> Counts {
        let numbers = (index as u64 + 1, all as u64);
        Counts { numbers, spawned: AtomicU64::new(0), ended: AtomicU64::new(0), waits: Default::default() }
    }

    #[inline]
    fn number(&self, before: u64) -> u64 {
        self.numbers.0 + before * self.numbers.1
    }

    /// Counts a thread spawned by the seat.
    #[inline]
    pub(crate) fn spawn(&self) {
        add_one(&self.spawned);
    }

    /// The number of the next thread.
    #[inline]
    pub(crate) fn next_number(&self) -> u64 {
        self.number(self.spawned.load(Ordering::Relaxed))
    }

    /// Counts a thread that has ended on the seat.
    #[inline]
    pub(crate) fn end(&self) {
        add_one(&self.ended);
    }

    /// A wait for a word begins.
    pub(crate) fn begin_wait(&self, whose: Waits) {
        add_one(&self.waits[whose as usize][0]);
    }

    /// The wait is over.
    pub(crate) fn end_wait(&self, whose: Waits) {
        add_one(&self.waits[whose as usize][1]);
    }
}

/// Only one thread writes it.
#[inline]
fn add_one(count: &AtomicU64) {
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
}
