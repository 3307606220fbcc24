//! Worksharing: loops with iterations dealt to the threads of a team, sections, `single`, `ordered`, and loops with
//! dependences between iterations.
//!
//! All threads of a team come to the same loops in the same order. So each thread counts them, and the number of a loop
//! selects the team's slot with the loop's shared state. The first thread to come prepares the slot, the last one to
//! leave frees it for a later loop. Iterations are counted from 0; the callers know their values.
//!
//! A dynamic loop without an order is a *returning* one: each thread has a share of it, the same as the last time, and
//! takes from other shares when it has run its own. So iterations find their data in the caches and on the node of the
//! last time. A loop is known by its region's function, the address of the call that begins it, and its bounds.

use crate::settings::{Kind, fail};
use crate::shares::{Line, Share, take};
use crate::stage::Stage;
use crate::team::Team;
use crate::thread::{Thread, here};
use crate::wait::wait_until;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The state that the threads of a loop share.
#[repr(align(128))]
pub(crate) struct Slot {
    stage: Stage,
    /// gcc's reductions of the loop, and a piece of memory for all its threads.
    pub(crate) reductions: Cell<*mut usize>,
    pub(crate) memory: Cell<*mut u8>,
    across: Cell<*mut Across>,
    /// The first iteration not yet given to a thread.
    next: Line<AtomicU64>,
    /// The first iteration of the part that has its turn.
    turn: Line<AtomicU64>,
    /// The chunks of a returning loop that each thread is to run. Other threads may take the last ones.
    shares: Box<[Line<Share>]>,
}

/// How many loops a team remembers.
pub(crate) const REMEMBERED: usize = 64;
/// How many places a loop may take: with one, two loops with colliding hashes would forget each other every time.
const PROBED: usize = 4;

/// How many chunks of a loop each thread ran the last time. Read and written without a lock: two loops may have met
/// here, and then the counts do not add up to the loop's chunks and are ignored.
pub(crate) struct Site {
    /// A hash of the loop: its region's function, the address of its begin, and its bounds.
    key: AtomicU64,
    chunks: Box<[AtomicU32]>,
}

impl Site {
    pub(crate) fn new(threads: u32) -> Site {
        Site { key: AtomicU64::new(0), chunks: (0..threads).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl Slot {
    /// A slot for `threads` threads.
    pub(crate) fn new(number: u64, threads: u32) -> Slot {
        Slot {
            stage: Stage::new(number),
            reductions: Cell::new(ptr::null_mut()),
            memory: Cell::new(ptr::null_mut()),
            across: Cell::new(ptr::null_mut()),
            next: Line(AtomicU64::new(0)),
            turn: Line(AtomicU64::new(0)),
            shares: (0..threads).map(|_| Line(Share::default())).collect(),
        }
    }

    /// No thread is in a loop any more, and the next one has the number 0.
    pub(crate) fn reset(&self, number: u64) {
        self.clear();
        self.stage.reset(number);
    }

    fn clear(&self) {
        self.next.0.store(0, Ordering::Relaxed);
        self.turn.0.store(0, Ordering::Relaxed);
        self.reductions.set(ptr::null_mut());
        let memory = self.memory.replace(ptr::null_mut());
        // SAFETY: rule "System": `begin_with` has got it by `calloc`, or it is null; rule "Loop": no thread uses the
        // loop's memory any more.
        unsafe { libc::free(memory.cast()) };
        let across = self.across.replace(ptr::null_mut());
        if !across.is_null() {
            // SAFETY: `begin_across` made it by `Box::into_raw`; rule "Loop": no thread is in the loop any more.
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
    /// The value of the first iteration, the step, and the end.
    pub(crate) first: u64,
    pub(crate) step: u64,
    pub(crate) end: u64,
    pub(crate) is_ordered: bool,
    /// The address of the call that begins it in the program; 0 if it is unknown.
    caller: usize,
}

impl LoopStart {
    /// A loop without iterations: for shared state alone.
    pub(crate) const EMPTY: LoopStart =
        LoopStart { kind: Kind::Static, chunk: 0, count: 0, first: 0, step: 0, end: 0, is_ordered: false, caller: 0 };

    /// A loop over signed numbers, from `first` to before `end`.
    pub(crate) fn signed(kind: Kind, first: i64, end: i64, step: i64, chunk: i64) -> LoopStart {
        let count = match step {
            0.. if first < end => (end.wrapping_sub(first) as u64 - 1) / (step as u64).max(1) + 1,
            ..0 if first > end => (first.wrapping_sub(end) as u64 - 1) / step.unsigned_abs() + 1,
            _ => 0,
        };
        let (first, end, step, chunk) = (first as u64, end as u64, step as u64, chunk.max(0) as u64);
        LoopStart { kind, chunk, count, first, step, end, is_ordered: false, caller: 0 }
    }

    /// The variant for numbers without a sign; `step` is added modulo 2^64.
    pub(crate) fn unsigned(kind: Kind, is_up: bool, first: u64, end: u64, step: u64, chunk: u64) -> LoopStart {
        let count = if is_up {
            if first < end { (end - first - 1) / step.max(1) + 1 } else { 0 }
        } else if first > end {
            (first - end - 1) / step.wrapping_neg().max(1) + 1
        } else {
            0
        };
        LoopStart { kind, chunk, count, first, step, end, is_ordered: false, caller: 0 }
    }

    /// A loop of `count` iterations from the value `first`.
    pub(crate) fn counted(kind: Kind, chunk: u64, count: u64, first: u64, step: u64) -> LoopStart {
        LoopStart { kind, chunk, count, first, step, ..LoopStart::EMPTY }
    }

    pub(crate) fn ordered(self, is_ordered: bool) -> LoopStart {
        LoopStart { is_ordered, ..self }
    }

    /// The value of an iteration.
    pub(crate) fn value(&self, iteration: u64) -> u64 {
        self.first.wrapping_add(iteration.wrapping_mul(self.step))
    }

    /// The end of iterations before this one, as the bound of a loop.
    pub(crate) fn bound(&self, iteration: u64) -> u64 {
        if iteration == self.count { self.end } else { self.value(iteration) }
    }
}

/// A thread's current loop.
pub(crate) struct Loop {
    pub(crate) start: LoopStart,
    slot: *const Slot,
    number: u64,
    /// How many parts the thread has had.
    parts: u64,
    /// How many chunks of a returning loop it has run.
    ran: u32,
    /// The iterations of its part.
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Loop {
    pub(crate) const fn none() -> Loop {
        Loop { start: LoopStart::EMPTY, slot: ptr::null(), number: 0, parts: 0, ran: 0, low: 0, high: 0 }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.slot.is_null()
    }

    /// The state shared by the loop's threads.
    pub(crate) fn slot<'a>(&self) -> &'a Slot {
        assert!(!self.slot.is_null(), "a loop is under way");
        // SAFETY: rule "Loop": a slot is the team's, and the thread's loop ends before the thread leaves the team.
        unsafe { &*self.slot }
    }
}

/// The thread comes to a loop.
pub(crate) fn begin(thread: &mut Thread, start: LoopStart) {
    thread.sharing.work = join(thread, start, |_| {});
}

/// The thread comes to a loop. The first thread prepares the shared state.
pub(crate) fn join(thread: &mut Thread, start: LoopStart, prepare: impl FnOnce(&Slot)) -> Loop {
    let team = thread.team();
    let start =
        LoopStart { caller: std::mem::take(&mut thread.sharing.caller), ..settled(start, u64::from(team.size)) };
    let ring = &team.work.ring;
    let number = thread.sharing.loops;
    thread.sharing.loops += 1;
    let slot = &ring[number as usize % ring.len()];
    slot.stage.enter(number, || {
        if start.kind == Kind::Returning {
            deal(team, slot, &start);
        }
        prepare(slot);
    });
    Loop { start, slot, number, parts: 0, ran: 0, low: 0, high: 0 }
}

/// How many chunks of a returning loop are in shares: all but the last one, which goes out when no other is left. Its
/// thread gets no further chunk: gcc's code for `lastprivate` takes a thread's last iteration, if it is the loop's last
/// one.
fn chunks(start: &LoopStart) -> u64 {
    start.count.div_ceil(start.chunk.max(1)).saturating_sub(1)
}

/// Makes a loop of one thread monotonic, since it runs in order anyway, and also a loop with more chunks than a share
/// can count.
fn settled(start: LoopStart, threads: u64) -> LoopStart {
    let is_returning =
        start.kind == Kind::Returning && !start.is_ordered && threads > 1 && chunks(&start) <= u64::from(u32::MAX);
    LoopStart { kind: if is_returning { start.kind } else { start.kind.monotonic() }, ..start }
}

/// A hash of a few words.
pub(crate) fn hash(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(1, |key: u64, word| (key.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95))
}

/// The team's place for a loop: its own, or one that it may take.
fn site<'a>(team: &'a Team, start: &LoopStart) -> (&'a Site, u64) {
    let LoopStart { caller, first, step, count, chunk, .. } = *start;
    let key = hash([team.function_address() as u64, caller as u64, first, step, count, chunk].into_iter());
    let near = (0..PROBED).map(|further| &team.work.sites[((key >> 58) as usize + further) % REMEMBERED]);
    let known = near.clone().find(|site| site.key.load(Ordering::Relaxed) == key);
    // Else an unused place, else another loop's place; that loop is forgotten.
    let free = || near.clone().find(|site| site.key.load(Ordering::Relaxed) == 0);
    (known.or_else(free).unwrap_or(&team.work.sites[(key >> 58) as usize % REMEMBERED]), key)
}

/// Gives each thread its share of the last time; the first time, equal ones.
fn deal(team: &Team, slot: &Slot, start: &LoopStart) {
    let all = chunks(start);
    let (site, key) = site(team, start);
    let remembered = || site.chunks.iter().map(|chunks| chunks.load(Ordering::Relaxed));
    let is_known = site.key.load(Ordering::Relaxed) == key && remembered().map(u64::from).sum::<u64>() == all;
    let equal = |number: u32| {
        let (number, threads) = (u64::from(number), u64::from(team.size));
        (all / threads + u64::from(number < all % threads)) as u32
    };
    let mut low: u32 = 0;
    for (number, share) in (0..).zip(&slot.shares) {
        let chunks = if is_known { site.chunks[number as usize].load(Ordering::Relaxed) } else { equal(number) };
        // The sum was another one a moment ago if two loops meet here: no chunk must be left out or there twice.
        let high = if number + 1 == team.size { all as u32 } else { low.saturating_add(chunks).min(all as u32) };
        share.0.set(low, high);
        share.0.ran.store(0, Ordering::Relaxed);
        low = high;
    }
}

/// The last thread has left a returning loop. The memory goes half of the way to the chunks just run: the next time may
/// be like the times before.
fn remember(team: &Team, slot: &Slot, start: &LoopStart) {
    let all = chunks(start);
    let ran = || slot.shares.iter().map(|share| share.0.ran.load(Ordering::Relaxed));
    if ran().map(u64::from).sum::<u64>() != all {
        // It was cancelled.
        return;
    }
    let (site, key) = site(team, start);
    let threads = u64::from(team.size);
    let is_known = site.key.load(Ordering::Relaxed) == key;
    let mut rest = all as u32;
    for ((number, chunks), ran) in (0..).zip(&site.chunks).zip(ran()) {
        let equal = (all / threads + u64::from(number < all % threads)) as u32;
        let before = if is_known { chunks.load(Ordering::Relaxed) } else { equal };
        let now = if number + 1 == threads { rest } else { before.midpoint(ran).min(rest) };
        chunks.store(now, Ordering::Relaxed);
        rest -= now;
    }
    site.key.store(key, Ordering::Relaxed);
}

/// The next part of the loop for the thread: its iterations are `low..high`. Whether there is one.
pub(crate) fn next(thread: &mut Thread) -> bool {
    let (size, number) = (u64::from(thread.team().size), u64::from(thread.number));
    let work = &mut thread.sharing.work;
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
        Kind::Returning => {
            let chunk = chunk.max(1);
            let has_last = work.parts > 0 && work.high == count;
            let at = if has_last { None } else { take(&slot.shares, number as usize).map(u64::from) };
            work.ran += u32::from(at.is_some());
            let is_last =
                || !has_last && slot.next.0.load(Ordering::Relaxed) == 0 && slot.next.0.swap(1, Ordering::Relaxed) == 0;
            at.or_else(|| is_last().then(|| chunks(&work.start)))
                .map(|at| (at * chunk, (at * chunk).saturating_add(chunk)))
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
    let mut work = std::mem::replace(&mut thread.sharing.work, Loop::none());
    if work.start.is_ordered {
        end_turn(&mut work);
    }
    part(thread, &work);
}

/// The thread leaves a joined loop.
pub(crate) fn part(thread: &Thread, work: &Loop) {
    if work.slot.is_null() {
        return;
    }
    let slot = work.slot();
    let team = thread.team();
    let is_returning = work.start.kind == Kind::Returning;
    if is_returning {
        slot.shares[thread.number as usize].0.ran.store(work.ran, Ordering::Relaxed);
    }
    slot.stage.leave(team.size, work.number + team.work.ring.len() as u64, || {
        if is_returning {
            remember(team, slot, &work.start);
        }
        slot.clear();
    });
}

/// Waits until all earlier iterations of the thread's ordered loop are over.
pub(crate) fn await_turn() {
    let work = &here().sharing.work;
    if work.slot.is_null() || work.low >= work.high {
        return;
    }
    let (slot, low) = (work.slot(), work.low);
    // The thread with the turn may have left a cancelled region.
    let meetings = &here().team().meetings;
    wait_until(|| slot.turn.0.load(Ordering::Acquire) == low || meetings.is_cancelled());
}

/// The thread's part of an ordered loop is over.
fn end_turn(work: &mut Loop) {
    if work.low < work.high && !work.slot.is_null() {
        let (slot, low) = (work.slot(), work.low);
        let team = here().team();
        wait_until(|| slot.turn.0.load(Ordering::Acquire) == low || team.meetings.is_cancelled());
        slot.turn.0.store(work.high, Ordering::Release);
        work.low = work.high;
    }
}

/// Whether the calling thread runs the block of `single`.
pub(crate) fn claim_single() -> bool {
    let thread = here();
    let team = thread.team();
    let number = thread.sharing.singles;
    thread.sharing.singles += 1;
    if team.size == 1 {
        return true;
    }
    team.work.singles.load(Ordering::Relaxed) == number
        && team.work.singles.compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// A loop with dependences between iterations, in several dimensions.
pub(crate) struct Across {
    /// For each dimension: its first value, its step, and its number of iterations.
    dimensions: Vec<(i64, i64, u64)>,
    /// A bit for each finished iteration, in `words` words.
    done: *mut AtomicU64,
    words: usize,
}

impl Drop for Across {
    fn drop(&mut self) {
        // SAFETY: rule "System": it came from `calloc` and is freed once, by its owner.
        unsafe { libc::free(self.done.cast()) };
    }
}

impl Across {
    fn new(dimensions: Vec<(i64, i64, u64)>) -> Across {
        let all = dimensions.iter().try_fold(1, |all: u64, dimension| all.checked_mul(dimension.2));
        let words = all.and_then(|all| isize::try_from(all.div_ceil(64)).ok()).unwrap_or(isize::MAX / 8) as usize;
        // Zeroed memory of the system: pages of iterations that never run never exist.
        // SAFETY: rule "System": no condition.
        let done = unsafe { libc::calloc(words.max(1), size_of::<AtomicU64>()) }.cast::<AtomicU64>();
        if done.is_null() {
            let said = dimensions.iter().map(|dimension| dimension.2.to_string()).collect::<Vec<_>>().join(" times ");
            fail(&format!(
                "a loop whose iterations wait for each other has {said} iterations, and {words} words for them can't \
                    be had"
            ));
        }
        Across { dimensions, done, words }
    }

    /// The number of an iteration; `None` if it is not in the loop.
    fn number(&self, at: impl Iterator<Item = i64>) -> Option<u64> {
        let mut number = 0;
        for (&(first, step, count), at) in self.dimensions.iter().zip(at) {
            let index = if (first, step) == (0, 1) { at } else { index_of(at, first, step) };
            let index = u64::try_from(index).ok().filter(|&index| index < count)?;
            number = number * count + index;
        }
        Some(number)
    }

    pub(crate) fn dimensions(&self) -> usize {
        self.dimensions.len()
    }

    fn word(&self, number: u64) -> &AtomicU64 {
        let at = (number / 64) as usize;
        assert!(at < self.words, "an iteration of the loop has its bit");
        // SAFETY: the index is less than the number of words allocated, and zeros are valid atomic numbers.
        unsafe { &*self.done.add(at) }
    }
}

/// The iteration of a value; -1 if the value lies between two, or before the first one.
fn index_of(at: i64, first: i64, step: i64) -> i64 {
    // Modulo 2^64, the distance is exact as long as it goes the way of the step.
    let (is_ahead, distance) =
        if step >= 0 { (at >= first, at.wrapping_sub(first)) } else { (at <= first, first.wrapping_sub(at)) };
    let (distance, step) = (distance.cast_unsigned(), step.unsigned_abs().max(1));
    if is_ahead && distance % step == 0 { i64::try_from(distance / step).unwrap_or(-1) } else { -1 }
}

/// The thread comes to a loop with dependences between iterations.
pub(crate) fn begin_across(thread: &mut Thread, dimensions: impl FnOnce() -> Vec<(i64, i64, u64)>) {
    thread.sharing.across = join(thread, LoopStart::EMPTY, |slot| {
        slot.across.set(Box::into_raw(Box::new(Across::new(dimensions()))));
    });
}

/// The thread's current loop with dependences between iterations.
pub(crate) fn across<'a>() -> Option<&'a Across> {
    let work = &here().sharing.across;
    // SAFETY: rule "Loop": the first thread has written the cell before the others joined, and it stays until all have
    // left.
    if work.slot.is_null() { None } else { unsafe { work.slot().across.get().as_ref() } }
}

/// An iteration is over.
pub(crate) fn post(at: impl Iterator<Item = i64>) {
    if let Some(across) = across()
        && let Some(number) = across.number(at)
    {
        across.word(number).fetch_or(1 << (number % 64), Ordering::Release);
    }
}

/// Waits for an iteration, if it is in the loop.
pub(crate) fn await_iteration(at: impl Iterator<Item = i64>) {
    if let Some(across) = across()
        && let Some(number) = across.number(at)
    {
        let is_over = || across.word(number).load(Ordering::Acquire) >> (number % 64) & 1 != 0;
        let meetings = &here().team().meetings;
        wait_until(|| is_over() || meetings.is_cancelled());
    }
}

/// The thread leaves such a loop.
pub(crate) fn leave_across(thread: &mut Thread) {
    let across = std::mem::replace(&mut thread.sharing.across, Loop::none());
    part(thread, &across);
}
