//! Worksharing: loops whose iterations are dealt to the threads of a team, sections, `single`, `ordered`, and loops whose iterations wait
//! for each other.
//!
//! All threads of a team come to the same loops in the same order. So each counts them, and the number of a loop says which of the
//! team's slots has what its threads share. The first thread that comes prepares the slot, the last one that leaves frees it for a later
//! loop. Iterations are counted from 0; the callers know what they stand for.

use crate::settings::Kind;
use crate::thread::{Thread, here};
use crate::wait::wait_until;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What the threads of a loop share.
#[repr(align(128))]
pub(crate) struct Slot {
    /// Four times the number of the loop that it is for, and how far it is.
    state: AtomicU64,
    /// How many threads have left the loop.
    left: AtomicU32,
    /// gcc's reductions of the loop, and a piece of memory that its threads share.
    pub(crate) reductions: Cell<*mut usize>,
    pub(crate) memory: Cell<*mut u8>,
    across: Cell<*mut Across>,
    /// The first iteration that no thread has.
    next: Line<AtomicU64>,
    /// The first iteration of the part whose turn it is.
    turn: Line<AtomicU64>,
}

#[repr(align(64))]
struct Line<T>(T);

const BEGINS: u64 = 1;
const READY: u64 = 2;

impl Slot {
    pub(crate) fn new(number: u64) -> Slot {
        Slot {
            state: AtomicU64::new(4 * number),
            left: AtomicU32::new(0),
            reductions: Cell::new(ptr::null_mut()),
            memory: Cell::new(ptr::null_mut()),
            across: Cell::new(ptr::null_mut()),
            next: Line(AtomicU64::new(0)),
            turn: Line(AtomicU64::new(0)),
        }
    }

    /// No thread is in a loop any more, and the next one has the number 0.
    pub(crate) fn reset(&self, number: u64) {
        self.clear();
        self.left.store(0, Ordering::Relaxed);
        self.state.store(4 * number, Ordering::Release);
    }

    fn clear(&self) {
        self.next.0.store(0, Ordering::Relaxed);
        self.turn.0.store(0, Ordering::Relaxed);
        self.reductions.set(ptr::null_mut());
        let memory = self.memory.replace(ptr::null_mut());
        unsafe { libc::free(memory.cast()) };
        let across = self.across.replace(ptr::null_mut());
        if !across.is_null() {
            drop(unsafe { Box::from_raw(across) });
        }
    }
}

/// A loop, before its iterations are dealt out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopStart {
    pub(crate) kind: Kind,
    /// 0: a static loop has one part for each thread.
    pub(crate) chunk: u64,
    pub(crate) count: u64,
    /// What the first iteration stands for, how much more each one, and the end.
    pub(crate) first: u64,
    pub(crate) step: u64,
    pub(crate) end: u64,
    pub(crate) is_ordered: bool,
}

impl LoopStart {
    /// A loop without iterations: for what threads share beside them.
    pub(crate) const EMPTY: LoopStart =
        LoopStart { kind: Kind::Static, chunk: 0, count: 0, first: 0, step: 0, end: 0, is_ordered: false };

    /// From `first` to before `end`.
    pub(crate) fn signed(kind: Kind, first: i64, end: i64, step: i64, chunk: i64) -> LoopStart {
        let count = match step {
            0.. if first < end => (end.wrapping_sub(first) as u64 - 1) / (step as u64).max(1) + 1,
            ..0 if first > end => (first.wrapping_sub(end) as u64 - 1) / step.unsigned_abs() + 1,
            _ => 0,
        };
        let (first, end, step, chunk) = (first as u64, end as u64, step as u64, chunk.max(0) as u64);
        LoopStart { kind, chunk, count, first, step, end, is_ordered: false }
    }

    /// The same for numbers without a sign; `step` is a number to add, modulo 2^64.
    pub(crate) fn unsigned(kind: Kind, is_up: bool, first: u64, end: u64, step: u64, chunk: u64) -> LoopStart {
        let count = if is_up {
            if first < end { (end - first - 1) / step.max(1) + 1 } else { 0 }
        } else if first > end {
            (first - end - 1) / step.wrapping_neg().max(1) + 1
        } else {
            0
        };
        LoopStart { kind, chunk, count, first, step, end, is_ordered: false }
    }

    pub(crate) fn ordered(self, is_ordered: bool) -> LoopStart {
        LoopStart { is_ordered, ..self }
    }

    /// What an iteration stands for.
    pub(crate) fn value(&self, iteration: u64) -> u64 {
        self.first.wrapping_add(iteration.wrapping_mul(self.step))
    }

    /// The end of iterations before this one, as the bound of a loop.
    pub(crate) fn bound(&self, iteration: u64) -> u64 {
        if iteration == self.count { self.end } else { self.value(iteration) }
    }
}

/// The loop that a thread is in.
pub(crate) struct Loop {
    pub(crate) start: LoopStart,
    slot: *const Slot,
    number: u64,
    /// How many parts the thread has had.
    parts: u64,
    /// The iterations of its part.
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Loop {
    pub(crate) const fn none() -> Loop {
        Loop { start: LoopStart::EMPTY, slot: ptr::null(), number: 0, parts: 0, low: 0, high: 0 }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.slot.is_null()
    }

    /// What its threads share.
    pub(crate) fn slot<'a>(&self) -> &'a Slot {
        assert!(!self.slot.is_null(), "a loop is under way");
        unsafe { &*self.slot }
    }
}

/// The thread comes to a loop.
pub(crate) fn begin(thread: &mut Thread, start: LoopStart) {
    thread.work = join(thread, start, |_| {});
}

/// The thread comes to a loop. The first one that comes prepares what they share.
pub(crate) fn join(thread: &mut Thread, start: LoopStart, prepare: impl FnOnce(&Slot)) -> Loop {
    let ring = &thread.team().ring;
    let number = thread.loops;
    thread.loops += 1;
    let slot = &ring[number as usize % ring.len()];
    let free = 4 * number;
    let mut state = slot.state.load(Ordering::Acquire);
    if state != free + READY {
        if state != free && state != free + BEGINS {
            // A loop of many before is not left by all yet.
            wait_until(|| {
                state = slot.state.load(Ordering::Acquire);
                state >= free
            });
        }
        let claimed = state == free
            && slot.state.compare_exchange(free, free + BEGINS, Ordering::Acquire, Ordering::Acquire).is_ok();
        if claimed {
            prepare(slot);
            // Release: the others see what was prepared.
            slot.state.store(free + READY, Ordering::Release);
        } else {
            wait_until(|| slot.state.load(Ordering::Acquire) == free + READY);
        }
    }
    Loop { start, slot, number, parts: 0, low: 0, high: 0 }
}

/// The next part of the loop for the thread: its iterations are `low..high`. Whether there is one.
pub(crate) fn next(thread: &mut Thread) -> bool {
    let (size, number) = (u64::from(thread.team().size), u64::from(thread.number));
    let work = &mut thread.work;
    if work.slot.is_null() {
        return false;
    }
    if work.start.is_ordered {
        end_turn(work);
    }
    let slot = work.slot();
    let LoopStart { kind, chunk, count, .. } = work.start;
    let part = match kind {
        Kind::Static | Kind::Auto if chunk == 0 => {
            let (each, more) = (count / size, count % size);
            let low = each * number + number.min(more);
            (work.parts == 0).then_some((low, low + each + u64::from(number < more)))
        }
        Kind::Static | Kind::Auto => {
            let at = work.parts.checked_mul(size).and_then(|at| (at + number).checked_mul(chunk));
            at.map(|low| (low, low.saturating_add(chunk)))
        }
        Kind::Dynamic => {
            let chunk = chunk.max(1);
            let low = if chunk < 1 << 32 && count < 1 << 62 {
                // No more than one step beyond the end for each thread.
                let low = slot.next.0.load(Ordering::Relaxed);
                if low < count { slot.next.0.fetch_add(chunk, Ordering::Relaxed) } else { low }
            } else {
                let add = |next: u64| (next < count).then(|| next.saturating_add(chunk));
                slot.next.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).unwrap_or(count)
            };
            Some((low, low.saturating_add(chunk)))
        }
        Kind::Guided => {
            let take = |next: u64| {
                let rest = count.saturating_sub(next);
                (rest > 0).then(|| {
                    next + rest.div_ceil(size).checked_next_multiple_of(chunk.max(1)).unwrap_or(rest).min(rest)
                })
            };
            let mut next = slot.next.0.load(Ordering::Relaxed);
            loop {
                let Some(high) = take(next) else { break None };
                match slot.next.0.compare_exchange_weak(next, high, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(low) => break Some((low, high)),
                    Err(other) => next = other,
                }
            }
        }
    };
    work.parts += 1;
    let (low, high) = part.unwrap_or((count, count));
    (work.low, work.high) = (low.min(count), high.min(count));
    work.low < work.high
}

/// The thread leaves its loop.
pub(crate) fn leave(thread: &mut Thread) {
    let mut work = std::mem::replace(&mut thread.work, Loop::none());
    if work.start.is_ordered {
        end_turn(&mut work);
    }
    part(thread, &work);
}

/// The thread leaves what it has joined.
pub(crate) fn part(thread: &Thread, work: &Loop) {
    if work.slot.is_null() {
        return;
    }
    let slot = work.slot();
    let team = thread.team();
    // Acquire and release: the last one sees what all have done there.
    if slot.left.fetch_add(1, Ordering::AcqRel) + 1 == team.size {
        slot.clear();
        slot.left.store(0, Ordering::Relaxed);
        slot.state.store(4 * (work.number + team.ring.len() as u64), Ordering::Release);
    }
}

/// Waits until all earlier iterations of the thread's ordered loop are over.
pub(crate) fn await_turn() {
    let work = &here().work;
    if work.slot.is_null() || work.low >= work.high {
        return;
    }
    let (slot, low) = (work.slot(), work.low);
    wait_until(|| slot.turn.0.load(Ordering::Acquire) == low);
}

/// The thread's part of an ordered loop is over.
fn end_turn(work: &mut Loop) {
    if work.low < work.high && !work.slot.is_null() {
        let (slot, low) = (work.slot(), work.low);
        let team = here().team();
        wait_until(|| slot.turn.0.load(Ordering::Acquire) == low || team.is_cancelled.load(Ordering::Relaxed));
        slot.turn.0.store(work.high, Ordering::Release);
        work.low = work.high;
    }
}

/// Whether the calling thread is the one that does what `single` says.
pub(crate) fn is_single() -> bool {
    let thread = here();
    let team = thread.team();
    let number = thread.singles;
    thread.singles += 1;
    if team.size == 1 {
        return true;
    }
    team.singles.load(Ordering::Relaxed) == number
        && team.singles.compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// A loop whose iterations wait for earlier ones, in several dimensions.
pub(crate) struct Across {
    /// Of each dimension: where it begins, its step, and how many iterations it has.
    dimensions: Vec<(i64, i64, u64)>,
    /// A bit for each iteration that is over.
    done: Vec<AtomicU64>,
}

impl Across {
    fn new(dimensions: Vec<(i64, i64, u64)>) -> Across {
        let all: u64 = dimensions.iter().map(|dimension| dimension.2).product();
        Across { dimensions, done: (0..all.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The number of an iteration; `None` if it is not in the loop.
    fn number(&self, at: impl Iterator<Item = i64>) -> Option<u64> {
        let mut number = 0;
        for (&(first, step, count), at) in self.dimensions.iter().zip(at) {
            let distance = i128::from(at) - i128::from(first);
            let index = u64::try_from(distance / i128::from(step)).ok().filter(|&index| index < count)?;
            number = number * count + index;
        }
        Some(number)
    }

    pub(crate) fn dimensions(&self) -> usize {
        self.dimensions.len()
    }
}

/// The thread comes to a loop whose iterations wait for each other.
pub(crate) fn begin_across(thread: &mut Thread, dimensions: impl FnOnce() -> Vec<(i64, i64, u64)>) {
    thread.across = join(thread, LoopStart::EMPTY, |slot| {
        slot.across.set(Box::into_raw(Box::new(Across::new(dimensions()))));
    });
}

/// The loop whose iterations wait for each other, in which the thread is.
pub(crate) fn across<'a>() -> Option<&'a Across> {
    let work = &here().across;
    if work.slot.is_null() { None } else { unsafe { work.slot().across.get().as_ref() } }
}

/// An iteration is over.
pub(crate) fn post(at: impl Iterator<Item = i64>) {
    if let Some(across) = across()
        && let Some(number) = across.number(at)
    {
        across.done[number as usize / 64].fetch_or(1 << (number % 64), Ordering::Release);
    }
}

/// Waits for an iteration, if it is in the loop.
pub(crate) fn await_iteration(at: impl Iterator<Item = i64>) {
    if let Some(across) = across()
        && let Some(number) = across.number(at)
    {
        wait_until(|| across.done[number as usize / 64].load(Ordering::Acquire) >> (number % 64) & 1 != 0);
    }
}

/// The thread leaves such a loop.
pub(crate) fn leave_across(thread: &mut Thread) {
    let across = std::mem::replace(&mut thread.across, Loop::none());
    part(thread, &across);
}
