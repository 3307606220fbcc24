//! The memory for all calls of a process together; each call takes its share of it.
//!
//! A call takes a share when it begins, raises it while its text is parsed and planned and while its boxes hold rows,
//! and gives it back when it ends. The shares' sum never exceeds the total: without room, a raise is refused, and a
//! call that has only begun may wait.

use crate::cancel::Cancel;
use crate::error::{Error, Stage};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Instant;
use vicus::kit::Grants;
use vicus::memory::Memory;

/// The memory for all calls together.
///
/// ```
/// use vicus_service::MemoryBudget;
///
/// let memory = MemoryBudget::new(1 << 30);
/// assert_eq!((memory.total(), memory.taken(), memory.most_taken()), (1 << 30, 0, 0));
/// ```
pub struct MemoryBudget {
    state: Mutex<State>,
    /// Something was given back, the total was raised, or a waiting call was cancelled.
    changed: Condvar,
    /// Its part of what may wait in the process's memory.
    process: OnceLock<Bound>,
}

/// Invariant: no share was taken that made `taken` exceed `total`. A total lowered later may lie below it.
struct State {
    total: u64,
    taken: u64,
    most_taken: u64,
    /// Calls waiting for a share, the oldest first.
    waiting: VecDeque<u64>,
    next: u64,
    /// Bytes held by a door beside all shares.
    beside: u64,
    /// How many freed bytes may wait to be used again as far as this budget says, as was told last.
    may_wait: u64,
    ended: EndedCalls,
}

/// The calls ended so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EndedCalls {
    /// How often a call gave back its share.
    pub calls: u64,
    /// Bytes of these shares, without the first [`EndedCalls::SMALL`] of each.
    pub bytes: u64,
}

impl EndedCalls {
    /// The share of a short query is at most this.
    pub const SMALL: u64 = 4 << 20;
}

/// The action of a call without room for its first share.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Admission {
    /// The call fails at once ([`Error::Busy`]).
    #[default]
    Refuse,
    /// The call waits behind earlier ones, until its time is up or it is cancelled.
    Wait,
}

/// Calls together held too much for one of them to get more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy {
    /// Bytes the call had.
    pub had: u64,
    /// Bytes the call wanted all in all.
    pub wanted: u64,
    /// Bytes that all calls may hold together.
    pub total: u64,
    /// Bytes all calls had, this one included.
    pub taken: u64,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Busy { had, wanted, total, taken } = self;
        write!(
            f,
            "no memory is left for it: it holds {had} bytes and wants {wanted}, and all requests hold {taken} of \
                {total}"
        )
    }
}

impl std::error::Error for Busy {}

impl MemoryBudget {
    /// A budget of `total` bytes.
    pub fn new(total: u64) -> Arc<MemoryBudget> {
        let state = State {
            total,
            taken: 0,
            most_taken: 0,
            waiting: VecDeque::new(),
            next: 0,
            beside: 0,
            may_wait: u64::MAX,
            ended: EndedCalls::default(),
        };
        Arc::new(MemoryBudget { state: Mutex::new(state), changed: Condvar::new(), process: OnceLock::new() })
    }

    /// How many bytes calls may hold together.
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    /// Changes the bytes for all calls together. Calls keep their shares.
    pub fn set_total(&self, total: u64) {
        let mut state = self.lock();
        state.total = total;
        self.bound_waiting(state);
        self.changed.notify_all();
    }

    /// How many bytes running calls have taken.
    pub fn taken(&self) -> u64 {
        self.lock().taken
    }

    /// How many bytes they had taken together at most.
    pub fn most_taken(&self) -> u64 {
        self.lock().most_taken
    }

    /// The shares given back so far.
    pub fn ended(&self) -> EndedCalls {
        self.lock().ended
    }

    /// A door holds `bytes` more for its calls, outside of all shares: texts being sent, say. They have a limit of
    /// their own, and leave less room for freed blocks to be used again.
    pub fn hold_beside(&self, bytes: u64) {
        let mut state = self.lock();
        state.beside += bytes;
        self.bound_waiting(state);
    }

    /// A door holds `bytes` less.
    pub fn give_back_beside(&self, bytes: u64) {
        let mut state = self.lock();
        state.beside -= bytes;
        self.bound_waiting(state);
    }

    /// This process's memory keeps freed blocks to use them again: from now on only as many as calls have left of the
    /// total, and [`MemoryBudget::SPARE`]; of several budgets, as many as they have left together.
    pub(crate) fn bounds_waiting_in(&self, memory: &Arc<Memory>) {
        let mut is_first = false;
        self.process.get_or_init(|| {
            is_first = true;
            Bound::new(memory)
        });
        if is_first {
            self.bound_waiting(self.lock());
        }
    }

    /// Freed bytes that may wait to be used again even if calls hold the total: a call takes its share before it takes
    /// the memory, and often the memory of a call that has just ended.
    pub const SPARE: u64 = 64 << 20;

    /// The bound of freed blocks changes in steps of this size.
    const TOLD_STEP: u64 = 16 << 20;

    /// Tells the process's memory the new bound of freed blocks, if it has changed, and has it give back the excess.
    fn bound_waiting(&self, mut state: MutexGuard<'_, State>) {
        let Some(bound) = self.process.get() else { return };
        let free = state.total.saturating_sub(state.taken).saturating_sub(state.beside);
        let may_wait = (free / Self::TOLD_STEP * Self::TOLD_STEP).saturating_add(Self::SPARE);
        let before = std::mem::replace(&mut state.may_wait, may_wait);
        if may_wait != before {
            // Under the lock, so the last change is the last one told.
            bound.set(may_wait);
        }
        drop(state);
        if may_wait < before {
            bound.memory.hold_to_bound();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// A share of `bytes` for a new call.
    pub(crate) fn admit(
        self: &Arc<Self>,
        bytes: u64,
        admission: Admission,
        until: Option<Instant>,
        cancel: &Cancel,
    ) -> Result<Arc<Share>, Error> {
        let mut state = self.lock();
        let is_free = state.waiting.is_empty() && state.take(bytes);
        if !is_free {
            let busy = state.busy(0, bytes);
            if admission == Admission::Refuse || bytes > state.total {
                return Err(Error::Busy(busy));
            }
            state = self.wait_for_turn(state, bytes, until, cancel)?;
        }
        self.bound_waiting(state);
        Ok(Arc::new(Share {
            budget: Arc::clone(self),
            granted: Mutex::new(bytes),
            beside_boxes: AtomicU64::new(0),
            refused: OnceLock::new(),
        }))
    }

    /// Waits in line until there is room for `bytes`, and takes them.
    fn wait_for_turn<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        bytes: u64,
        until: Option<Instant>,
        cancel: &Cancel,
    ) -> Result<MutexGuard<'a, State>, Error> {
        let ticket = state.next;
        state.next += 1;
        state.waiting.push_back(ticket);
        drop(state);
        let told = Arc::clone(self);
        let _listening = cancel.listen(move || {
            // Under the lock: a call between its look and its wait would miss the notice.
            let _state = told.lock();
            told.changed.notify_all();
        });
        let mut state = self.lock();
        loop {
            let ended = if cancel.is_cancelled() {
                Some(Error::Cancelled)
            } else if state.waiting.front() == Some(&ticket) && state.take(bytes) {
                state.waiting.pop_front();
                // The next one may have room, too.
                self.changed.notify_all();
                return Ok(state);
            } else if bytes > state.total {
                Some(Error::Busy(state.busy(0, bytes)))
            } else {
                until
                    .is_some_and(|until| Instant::now() >= until)
                    .then_some(Error::TimeLimit { during: Stage::Waiting })
            };
            if let Some(error) = ended {
                state.waiting.retain(|waiting| *waiting != ticket);
                self.changed.notify_all();
                return Err(error);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            state = match left {
                Some(left) => self.changed.wait_timeout(state, left).expect("nothing panics under this lock").0,
                None => self.changed.wait(state).expect("nothing panics under this lock"),
            };
        }
    }
}

/// Each living budget: its number, the memory that it bounds, and the bytes that it lets wait there.
static BOUNDS: Mutex<Vec<(u64, Arc<Memory>, u64)>> = Mutex::new(Vec::new());

/// A budget's bound of what waits in a memory, which is told the sum of all its bounds. Ends with the budget.
struct Bound {
    number: u64,
    memory: Arc<Memory>,
}

impl Bound {
    /// One that lets everything wait at first.
    fn new(memory: &Arc<Memory>) -> Bound {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let bound = Bound { number: NEXT.fetch_add(1, Ordering::Relaxed), memory: Arc::clone(memory) };
        let mut bounds = Bound::all();
        bounds.push((bound.number, Arc::clone(memory), u64::MAX));
        bound.tell(&bounds);
        drop(bounds);
        bound
    }

    fn all() -> MutexGuard<'static, Vec<(u64, Arc<Memory>, u64)>> {
        BOUNDS.lock().expect("nothing panics under this lock")
    }

    fn set(&self, bytes: u64) {
        let mut bounds = Bound::all();
        for (_, _, of_it) in bounds.iter_mut().filter(|(number, ..)| *number == self.number) {
            *of_it = bytes;
        }
        self.tell(&bounds);
    }

    /// The sum of the budgets in a memory; `None` if there are none.
    fn sum(memory: &Arc<Memory>, bounds: &[(u64, Arc<Memory>, u64)]) -> Option<u64> {
        let of_memory = bounds.iter().filter(|(_, of, _)| Arc::ptr_eq(of, memory));
        of_memory.map(|&(_, _, bytes)| bytes).reduce(u64::saturating_add)
    }

    /// Under the lock, so that the last one to change a bound has told it.
    fn tell(&self, bounds: &[(u64, Arc<Memory>, u64)]) {
        let sum = Bound::sum(&self.memory, bounds).and_then(|sum| usize::try_from(sum).ok());
        self.memory.let_wait(sum.unwrap_or(usize::MAX));
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let mut bounds = Bound::all();
        bounds.retain(|(number, ..)| *number != self.number);
        self.tell(&bounds);
        drop(bounds);
        self.memory.hold_to_bound();
    }
}

impl State {
    fn take(&mut self, bytes: u64) -> bool {
        let is_room = self.taken.checked_add(bytes).is_some_and(|taken| taken <= self.total);
        if is_room {
            self.taken += bytes;
            self.most_taken = self.most_taken.max(self.taken);
        }
        is_room
    }

    fn busy(&self, had: u64, wanted: u64) -> Busy {
        Busy { had, wanted, total: self.total, taken: self.taken }
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        let mut shown = f.debug_struct("MemoryBudget");
        shown.field("total", &state.total).field("taken", &state.taken).field("waiting", &state.waiting.len());
        shown.finish_non_exhaustive()
    }
}

/// The share of one call. Given back when it is dropped.
pub(crate) struct Share {
    budget: Arc<MemoryBudget>,
    granted: Mutex<u64>,
    /// The part of the share not for boxes.
    beside_boxes: AtomicU64,
    /// Why it got no more.
    refused: OnceLock<Busy>,
}

impl Share {
    /// The least raise of a share, so that calls rarely meet at the budget; but at most this part of the free bytes.
    const STEP: u64 = 1 << 20;
    const PART_OF_FREE: u64 = 8;

    /// Raises it to `wanted` bytes, if there is room for them.
    pub(crate) fn raise_to(&self, wanted: u64) -> Option<u64> {
        let mut granted = self.granted.lock().expect("nothing panics under this lock");
        if wanted > *granted {
            let mut state = self.budget.lock();
            let least = wanted - *granted;
            let free = state.total.saturating_sub(state.taken);
            let more = least.max(Self::STEP.max(*granted / 4).min(free / Self::PART_OF_FREE));
            let Some(taken) = [more, least].into_iter().find(|&bytes| state.take(bytes)) else {
                let _ = self.refused.set(state.busy(*granted, wanted));
                return None;
            };
            *granted += taken;
            self.budget.bound_waiting(state);
        }
        Some(*granted)
    }

    /// Sets the part not for boxes. Boxes must hold nothing yet.
    pub(crate) fn set_beside_boxes(&self, bytes: u64) {
        self.beside_boxes.store(bytes, Ordering::Relaxed);
    }

    /// Why it got no more, if it did not.
    pub(crate) fn refused(&self) -> Option<Busy> {
        self.refused.get().copied()
    }
}

impl Grants for Share {
    fn raise(&self, bytes: u64) -> Option<u64> {
        let beside = self.beside_boxes.load(Ordering::Relaxed);
        self.raise_to(bytes.saturating_add(beside)).map(|granted| granted - beside)
    }
}

impl Share {
    /// Gives all but so many bytes back, for a call that goes on.
    pub(crate) fn lower_to(&self, bytes: u64) {
        let mut granted = self.granted.lock().expect("nothing panics under this lock");
        let less = granted.saturating_sub(bytes);
        *granted -= less;
        let mut state = self.budget.lock();
        state.taken -= less;
        let is_awaited = !state.waiting.is_empty();
        self.budget.bound_waiting(state);
        if is_awaited {
            self.budget.changed.notify_all();
        }
    }

    /// Gives it back, for an ended call. A box that still runs would take it anew.
    pub(crate) fn give_back(&self) {
        let granted = std::mem::take(&mut *self.granted.lock().expect("nothing panics under this lock"));
        if granted == 0 {
            return;
        }
        let mut state = self.budget.lock();
        state.taken -= granted;
        state.ended.calls += 1;
        state.ended.bytes += granted.saturating_sub(EndedCalls::SMALL);
        let is_awaited = !state.waiting.is_empty();
        self.budget.bound_waiting(state);
        if is_awaited {
            self.budget.changed.notify_all();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus::Topology;
    use vicus::kit::{FakePages, MemoryOptions};

    /// What happened: each budget told the process's memory its own bound, so the last one to change it bounded all,
    /// and went on doing so when it had been dropped.
    #[test]
    fn budgets_of_a_process_let_wait_as_much_as_they_have_left_together() {
        const GIB: u64 = 1 << 30;
        let machine = Topology::parse("node:1 core:1").unwrap();
        let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 32 << 20, ..MemoryOptions::default() };
        let memory = Memory::new(Arc::new(FakePages::new(1)), &machine, options).unwrap();
        // What the memory was told last.
        let told = || Bound::sum(&memory, &Bound::all());
        let [large, small] = [64 * GIB, GIB].map(MemoryBudget::new);
        large.bounds_waiting_in(&memory);
        assert_eq!(told(), Some(64 * GIB + MemoryBudget::SPARE));
        small.bounds_waiting_in(&memory);
        assert_eq!(told(), Some(65 * GIB + 2 * MemoryBudget::SPARE));
        let share = small.admit(GIB / 2, Admission::Refuse, None, &Cancel::new()).unwrap();
        assert_eq!(told(), Some(64 * GIB + GIB / 2 + 2 * MemoryBudget::SPARE));
        let same = Arc::clone(&small);
        drop((share, small));
        same.bounds_waiting_in(&memory);
        assert_eq!(told(), Some(65 * GIB + 2 * MemoryBudget::SPARE));
        drop(same);
        assert_eq!(told(), Some(64 * GIB + MemoryBudget::SPARE));
        let all = MemoryBudget::new(u64::MAX);
        all.bounds_waiting_in(&memory);
        assert_eq!(told(), Some(u64::MAX));
        drop((all, large));
        assert_eq!(told(), None);
    }
}
