//! Full/empty bits: each aligned word of memory is full or empty, and threads wait for either.
//!
//! A word is full until it is emptied. A table keeps the waits for words by their addresses; a full word without
//! waiting threads has no entry. The table is cut into stripes with a lock each, so two words seldom share one.
//!
//! The operations are those of Qthreads, by its names: `F` is full, `E` empty; the first letter is the state to wait
//! for, the second the state afterwards. Filling a word wakes the threads waiting for a full one (`read_ff`, `read_fe`,
//! `write_ff`): first all operations leaving it full, in order of arrival, with reads before writes; then the first
//! operation emptying it. Emptying a word wakes the first thread waiting for an empty one (`write_ef`). We differ in
//! this order: Qthreads serves the last one first. Waits for locks have an order of their own ([`lock`]), and take
//! turns with other waits for the same word.
//!
//! Operations on one word are atomic among themselves. Plain accesses to it are ordered with them only by waits.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::AtomicU64;
//! use vicus_machine::MachineRuntime;
//! use vicus_threads::{Builder, full_empty};
//!
//! let runtime = MachineRuntime::builder().threads(2).start();
//! let word = Arc::new(AtomicU64::new(0));
//! full_empty::empty(&word);
//! let theirs = Arc::clone(&word);
//! let reader = Builder::new().spawn_on(&runtime, move || full_empty::read_fe(&theirs));
//! full_empty::write_ef(&word, 42);
//! assert_eq!(reader.join().unwrap(), 42);
//! assert!(!full_empty::is_full(&word));
//! # full_empty::fill(&word);
//! ```
//!
//! A word freed while empty leaves its entry behind; the next owner of its address finds it empty. So fill words before
//! they are freed.

use super::deadlock::Deadlock;
use super::entries::{At, Entries};
use super::lists::{IN_ORDER, Links, List, Runs, run_of_seat};
use super::sync_var;
use crate::mutant::{Mutant, Planted};
use crate::sync::{AtomicU32, Ordering};
use crate::threads::core::RuntimeEnded;
use crate::threads::counts::Waits;
use crate::threads::fibres::{self, Fibre};
use crate::threads::here::help_once;
use crate::watch::judges::{self, SeenWait, Verdict};
use crate::watch::layer::{attach, threads_of};
use crate::watch::waits::{begin_wait, end_wait};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::fmt;
use std::panic::resume_unwind;
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock};
use vicus_machine::layer::{
    EndSignal, Latch, Padded, RuntimeState, ShortLock, Worker, in_task, is_seated, leave_to_program, with_worker,
};
use vicus_schedule::SeatId;

/// Waits until the word is full, and reads it.
pub fn read_ff(word: &AtomicU64) -> u64 {
    TABLE.operate(word, Operation::ReadFf)
}

/// Waits until the word is full, reads it, and empties it.
pub fn read_fe(word: &AtomicU64) -> u64 {
    TABLE.operate(word, Operation::ReadFe)
}

/// Reads the word, full or empty.
pub fn read_xx(word: &AtomicU64) -> u64 {
    word.load(Ordering::Acquire)
}

/// Waits until the word is empty, writes it, and fills it.
pub fn write_ef(word: &AtomicU64, value: u64) {
    TABLE.operate(word, Operation::WriteEf(value));
}

/// Writes the word, full or empty, and fills it.
pub fn write_f(word: &AtomicU64, value: u64) {
    TABLE.fill(word, Some(value));
}

/// Waits until the word is full, and writes it.
pub fn write_ff(word: &AtomicU64, value: u64) {
    TABLE.operate(word, Operation::WriteFf(value));
}

/// Fills the word as it is. Whether it was empty.
pub fn fill(word: &AtomicU64) -> bool {
    TABLE.fill(word, None)
}

/// Empties the word as it is. Whether it was full.
pub fn empty(word: &AtomicU64) -> bool {
    TABLE.empty(word, None)
}

/// Empties the word, and makes it 0.
pub fn purge(word: &AtomicU64) {
    TABLE.empty(word, Some(0));
}

/// Empties the word, and writes it.
pub fn purge_to(word: &AtomicU64, value: u64) {
    TABLE.empty(word, Some(value));
}

/// Whether the word is full.
pub fn is_full(word: &AtomicU64) -> bool {
    TABLE.is_full(word)
}

/// Like [`read_ff`]; `None` if the word is empty.
pub fn try_read_ff(word: &AtomicU64) -> Option<u64> {
    TABLE.try_operate(word, Operation::ReadFf)
}

/// Like [`read_fe`]; `None` if the word is empty.
pub fn try_read_fe(word: &AtomicU64) -> Option<u64> {
    TABLE.try_operate(word, Operation::ReadFe)
}

/// Like [`write_ef`]; `false` if the word is full.
pub fn try_write_ef(word: &AtomicU64, value: u64) -> bool {
    TABLE.try_operate(word, Operation::WriteEf(value)).is_some()
}

/// Like [`write_ff`]; `false` if the word is empty.
pub fn try_write_ff(word: &AtomicU64, value: u64) -> bool {
    TABLE.try_operate(word, Operation::WriteFf(value)).is_some()
}

/// Waits until no thread has locked the word, and locks it: a [`read_fe`] for words used as locks, which go from thread
/// to thread. Such locks stay in a neighbourhood for some time: up to 64 waiting threads of one seat have their turn,
/// in order of arrival, and then those of another seat. On more than seven seats neighbouring ones count as one.
///
/// Unlocking wakes the lightweight thread whose turn it is. It locks the word if no other thread has done so until it
/// runs: its seat and others lose no time between. After eight attempts in vain the next unlock leaves the word locked,
/// for this thread.
pub fn lock(word: &AtomicU64) {
    TABLE.operate(word, Operation::Lock);
}

/// Like [`lock`]; `false` if it is locked.
pub fn try_lock(word: &AtomicU64) -> bool {
    try_read_fe(word).is_some()
}

/// Unlocks the word, from any thread.
///
/// # Errors
/// No thread had locked it. Nothing has changed.
pub fn unlock(word: &AtomicU64) -> Result<(), NotLocked> {
    if fill(word) { Ok(()) } else { Err(NotLocked) }
}

/// The unlocked word was not locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLocked;

impl fmt::Display for NotLocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the word is not locked")
    }
}

impl std::error::Error for NotLocked {}

/// Adds to the word, full or empty, and returns its earlier value.
pub fn incr(word: &AtomicU64, by: u64) -> u64 {
    word.fetch_add(by, Ordering::AcqRel)
}

/// Writes `new` if the word is `old`, full or empty. Returns its earlier value.
pub fn cas(word: &AtomicU64, old: u64, new: u64) -> u64 {
    word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|now| now)
}

/// The word at an unchecked address, such as one from a program in C.
///
/// # Errors
/// It is null, or not a multiple of 8.
///
/// # Safety
/// Eight bytes there may be read and written, by atomic operations, as long as the reference is used.
#[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
pub unsafe fn word_at<'a>(address: *mut u64) -> Result<&'a AtomicU64, Misaligned> {
    if address.is_null() || !address.is_aligned() {
        return Err(Misaligned { address: address.addr() });
    }
    // SAFETY: the caller's promise; it is aligned.
    Ok(unsafe { AtomicU64::from_ptr(address) })
}

/// An address is no word's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misaligned {
    /// The address.
    pub address: usize,
}

impl fmt::Display for Misaligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the address {:#x} is not that of a word: words lie at multiples of 8", self.address)
    }
}

impl std::error::Error for Misaligned {}

/// The words of the process.
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    judges::note(judge_all);
    Table::new(STRIPES, Entries::forget_unneeded)
});

/// Many more stripes than threads that would meet in one.
pub(crate) const STRIPES: usize = 1024;

/// An operation to be done when the word has the wanted state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    ReadFf,
    ReadFe,
    /// Like `ReadFe`, apart from the order of service.
    Lock,
    WriteEf(u64),
    WriteFf(u64),
}

impl Operation {
    pub(crate) fn wants_full(self) -> bool {
        !matches!(self, Operation::WriteEf(_))
    }

    /// Whether the word is not as it wants it any more when it is done.
    fn changes(self) -> bool {
        !matches!(self, Operation::ReadFf | Operation::WriteFf(_))
    }

    /// Its name, as users call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::ReadFf => "read_ff",
            Operation::ReadFe => "read_fe",
            Operation::Lock => "lock",
            Operation::WriteEf(_) => "write_ef",
            Operation::WriteFf(_) => "write_ff",
        }
    }
}

/// The waiting party.
pub(crate) enum Party {
    Fibre(&'static Fibre),
    /// A seat with a thread waiting on its own stack, and its runtime, alive until the latch is set.
    Seat(Latch, *const RuntimeState, SeatId),
    /// A thread without a seat.
    Outside(Arc<EndSignal>),
    /// A model's thread.
    #[cfg(all(test, loom))]
    Model(Arc<loom::sync::Notify>),
}

/// A wait, in the waiting code's frame.
pub(crate) struct Node {
    /// Guarded by the stripe's lock, and then owned by the waker.
    pub(crate) links: Links,
    address: usize,
    operation: Operation,
    /// The value read.
    value: Cell<u64>,
    /// How often it was called, for an open lock. Guarded like the links.
    calls: Cell<u8>,
    /// The outcome it will be told. Guarded like the links.
    outcome: Cell<u32>,
    /// The outcome once told, or 0.
    is_done: AtomicU32,
    party: Party,
    /// The waiting code's backtrace, if its runtime takes them.
    backtrace: Option<Box<Backtrace>>,
}

impl Node {
    /// The calling code's wait.
    pub(crate) fn new(address: usize, operation: Operation) -> Node {
        let party = match fibres::current() {
            Some(fibre) => Party::Fibre(fibre),
            None => with_worker(|worker| {
                Party::Seat(Latch::new(worker.code.waiter), Arc::as_ptr(&worker.shared), worker.seat_id)
            })
            .unwrap_or_else(|| Party::Outside(EndSignal::new())),
        };
        let takes_backtraces = with_worker(|worker| worker.shared.settings.waits_have_backtraces);
        let backtrace = (takes_backtraces == Some(true)).then(|| Box::new(Backtrace::force_capture()));
        let run = |worker: &mut Worker| run_of_seat(worker.seat_id.index(), worker.shared.plan.seats.len());
        let run = if operation == Operation::Lock { with_worker(run) } else { None };
        let links = Links::new(run.unwrap_or(IN_ORDER));
        Node { backtrace, links, ..Node::of(address, operation, party) }
    }

    fn of(address: usize, operation: Operation, party: Party) -> Node {
        let (links, value, calls) = (Links::new(IN_ORDER), Cell::new(0), Cell::new(0));
        let (outcome, is_done) = (Cell::new(DONE), AtomicU32::new(0));
        Node { links, address, operation, value, calls, outcome, is_done, party, backtrace: None }
    }

    /// A wait of no thread.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn in_run(run: u32, operation: Operation) -> Node {
        Node { links: Links::new(run), ..Node::of(8, operation, Party::Outside(EndSignal::new())) }
    }

    /// A wait of a model's thread.
    #[cfg(all(test, loom))]
    pub(crate) fn of_model(address: usize, operation: Operation) -> Node {
        Node::of(address, operation, Party::Model(Arc::new(loom::sync::Notify::new())))
    }

    /// Whether it may be called when the lock is open, instead of being given it.
    fn is_callable(&self) -> bool {
        let is_callable = match self.party {
            Party::Fibre(_) => true,
            Party::Seat(..) | Party::Outside(_) => false,
            #[cfg(all(test, loom))]
            Party::Model(_) => true,
        };
        is_callable && self.operation == Operation::Lock && self.calls.get() < MOST_CALLS
    }

    /// Waits until it is done, and returns the value read. It is in a list. `None`: it was called, and is in no list
    /// any more.
    pub(crate) fn wait(&self) -> Option<u64> {
        match &self.party {
            Party::Fibre(fibre) => {
                begin_wait(Waits::OfThreads);
                // The thread that takes it out of the list queues the fibre.
                fibre.suspend_exactly();
                end_wait(Waits::OfThreads);
                match self.is_done.load(Ordering::Acquire) {
                    DONE => {}
                    CALLED => return None,
                    WITHDRAWN => resume_unwind(Box::new(RuntimeEnded)),
                    _ => resume_unwind(Box::new(Deadlock { operation: self.operation.name(), address: self.address })),
                }
            }
            Party::Seat(latch, ..) => {
                begin_wait(Waits::OfSeats);
                vicus_machine::layer::wait(None, latch);
                end_wait(Waits::OfSeats);
            }
            Party::Outside(done) => done.wait(None),
            #[cfg(all(test, loom))]
            Party::Model(notify) => {
                while self.is_done.load(Ordering::Acquire) == 0 {
                    notify.wait();
                }
                if self.is_done.load(Ordering::Relaxed) == CALLED {
                    return None;
                }
            }
        }
        Some(self.value.get())
    }
}

/// Limit of calls to a thread waiting for an open lock before the lock is given to it. A lock given away stays locked
/// until its new owner runs again, and other threads come to wait meanwhile; so giving is the exception. Without a
/// limit others might always be faster.
const MOST_CALLS: u8 = 8;

/// States of a wait, beside 0.
const DONE: u32 = 1;
/// Its runtime ends.
const WITHDRAWN: u32 = 2;
const DEADLOCK: u32 = 3;
/// The awaited lock is open.
const CALLED: u32 = 4;

/// Calls `f` with each wait for a word, under a lock.
pub(crate) fn judge_all(f: &mut dyn FnMut(SeenWait<'_>) -> Verdict) {
    for table in [&*TABLE, sync_var::table()] {
        for stripe in &table.stripes {
            table.judge(&stripe.0, f);
        }
    }
}

/// An empty word, or one with waiting threads.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// 0 in a free place.
    pub(crate) address: usize,
    pub(crate) is_full: bool,
    /// A thread waiting for the lock was called, and has not come yet. Until then no other is called for this entry,
    /// and the word may be full with threads waiting for it to be.
    is_called: bool,
    /// Waits whose operation leaves the word's state: they wait for it to be full.
    stay: List,
    /// Waits whose operation changes it: they wait for it to be full, or all of them for it to be empty.
    change: Runs,
}

impl Entry {
    pub(crate) const FREE: Entry =
        Entry { address: 0, is_full: true, is_called: false, stay: List::EMPTY, change: Runs::EMPTY };

    /// An entry without waiting threads.
    pub(crate) fn new(address: usize, is_full: bool) -> Entry {
        Entry { address, is_full, ..Entry::FREE }
    }

    /// Marks the word as full. Adds the waits ended by this to `woken`.
    pub(crate) fn filled(&mut self, word: &impl Word, woken: &mut List, planted: Planted) {
        self.is_full = true;
        let mut readers = List::EMPTY;
        let mut writers = List::EMPTY;
        while let Some(node) = self.stay.pop() {
            if node.operation == Operation::ReadFf { &mut readers } else { &mut writers }.push(node);
        }
        for mut list in [readers, writers] {
            while let Some(node) = list.pop() {
                act(word, node.operation, &node.value);
                woken.push(node);
            }
        }
        if self.change.first().is_some_and(Node::is_callable) {
            self.call(woken);
            return;
        }
        while self.give(word, woken) {
            if !planted.has(Mutant::AllTake) {
                break;
            }
        }
    }

    /// The word is full, and is a lock: calls the first waiting thread.
    fn call(&mut self, woken: &mut List) {
        if !self.is_called
            && let Some(node) = self.change.pop()
        {
            self.is_called = true;
            node.calls.set(node.calls.get() + 1);
            node.outcome.set(CALLED);
            woken.push(node);
        }
    }

    /// Gives the full word to the first thread waiting to empty it, if there is one.
    fn give(&mut self, word: &impl Word, woken: &mut List) -> bool {
        let Some(node) = self.change.pop() else { return false };
        act(word, node.operation, &node.value);
        woken.push(node);
        self.is_full = false;
        true
    }

    /// The word is empty from now on.
    pub(crate) fn emptied(&mut self, word: &impl Word, woken: &mut List) {
        self.is_full = false;
        if self.change.first().is_some_and(|first| !first.operation.wants_full())
            && let Some(node) = self.change.pop()
        {
            act(word, node.operation, &node.value);
            woken.push(node);
            // The threads waiting for a full word are not in this list.
            self.is_full = true;
        }
    }

    pub(crate) fn is_needed(&self) -> bool {
        !self.is_full || self.has_waits()
    }

    pub(crate) fn has_waits(&self) -> bool {
        !self.change.is_empty() || !self.stay.is_empty()
    }

    /// Removes a wait.
    fn remove(&mut self, node: &Node) {
        if node.operation.changes() { self.change.remove(node) } else { self.stay.remove(node) }
    }

    /// One more waits.
    pub(crate) fn push(&mut self, node: &Node) {
        if node.operation.changes() { self.change.push(node) } else { self.stay.push(node) }
    }
}

/// The memory read and written under the stripe's lock.
pub(crate) trait Word {
    fn read(&self) -> u64;
    fn write(&self, value: u64);
}

impl Word for AtomicU64 {
    // Relaxed: the stripe's lock orders them.
    #[inline]
    fn read(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    #[inline]
    fn write(&self, value: u64) {
        self.store(value, Ordering::Relaxed);
    }
}

/// Reads or writes the word.
#[inline]
pub(crate) fn act(word: &impl Word, operation: Operation, value: &Cell<u64>) {
    match operation {
        Operation::ReadFf | Operation::ReadFe | Operation::Lock => value.set(word.read()),
        Operation::WriteEf(new) | Operation::WriteFf(new) => word.write(new),
    }
}

/// Words lie at multiples of 8.
#[inline]
pub(crate) fn hash(address: usize) -> usize {
    (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> 20
}

/// Words and their waits.
pub(crate) struct Table {
    stripes: Box<[Padded<ShortLock<Entries>>]>,
    /// Called when a wait was taken out of the entry at this place.
    settle: fn(&mut Entries, At),
    pub(crate) planted: Planted,
}

impl Table {
    /// A table with this number of stripes, a power of two.
    pub(crate) fn new(stripes: usize, settle: fn(&mut Entries, At)) -> Table {
        let stripe = || Padded(ShortLock::new(Entries::new()));
        Table { stripes: (0..stripes).map(|_| stripe()).collect(), settle, planted: Planted::NONE }
    }

    #[inline]
    pub(crate) fn stripe(&self, address: usize) -> &ShortLock<Entries> {
        &self.stripes[(hash(address) >> 24) & (self.stripes.len() - 1)].0
    }

    fn is_full(&self, word: &AtomicU64) -> bool {
        let entries = self.stripe(address_of(word)).lock();
        entries.find(address_of(word)).is_none_or(|at| entries[at].is_full)
    }

    /// Does it at once, if the word is as the operation wants it.
    #[inline]
    fn try_operate(&self, word: &AtomicU64, operation: Operation) -> Option<u64> {
        self.operate_or(word, operation, |_, _| ()).ok()
    }

    /// Waits until the word is as the operation wants it, and does it.
    #[inline]
    fn operate(&self, word: &AtomicU64, operation: Operation) -> u64 {
        match self.try_operate(word, operation) {
            Some(value) => value,
            None => self.wait(word, operation),
        }
    }

    /// Does it, or calls `otherwise` with the word's entry.
    #[inline]
    fn operate_or<R>(
        &self,
        word: &AtomicU64,
        operation: Operation,
        otherwise: impl FnOnce(&mut Entries, At) -> R,
    ) -> Result<u64, R> {
        let address = address_of(word);
        let value = Cell::new(0);
        let mut woken = List::EMPTY;
        let mut entries = self.stripe(address).lock();
        let found = entries.find(address);
        let mut is_full = found.is_none_or(|at| entries[at].is_full);
        if is_full
            && let (Operation::WriteEf(_), Some(at)) = (operation, found)
            && entries[at].change.first().is_some_and(|first| first.operation.wants_full())
        {
            // The lock is open: earlier threads come first.
            is_full = !entries[at].give(word, &mut woken);
        }
        if is_full != operation.wants_full() {
            let at = found.unwrap_or_else(|| entries.insert(Entry::new(address, true)));
            let result = otherwise(&mut entries, at);
            entries.forget_unneeded(at);
            return Err(result);
        }
        act(word, operation, &value);
        match (operation, found) {
            (Operation::ReadFf | Operation::WriteFf(_), _) => {}
            (Operation::ReadFe | Operation::Lock, None) => _ = entries.insert(Entry::new(address, false)),
            (Operation::ReadFe | Operation::Lock, Some(at)) => {
                entries[at].emptied(word, &mut woken);
                entries.forget_unneeded(at);
            }
            (Operation::WriteEf(_), at) => {
                let at = at.expect("an empty word has an entry");
                entries[at].filled(word, &mut woken, self.planted);
                entries.forget_unneeded(at);
            }
        }
        drop(entries);
        wake(woken);
        Ok(value.get())
    }

    #[cold]
    fn wait(&self, word: &AtomicU64, operation: Operation) -> u64 {
        if let Some(value) = after_next(|| self.try_operate(word, operation)) {
            return value;
        }
        let node = Node::new(address_of(word), operation);
        self.operate_or_list(word, &node).unwrap_or_else(|()| self.wait_in_list(word, &node))
    }

    /// Waits until it is done, and tries again each time it is called.
    fn wait_in_list(&self, word: &AtomicU64, node: &Node) -> u64 {
        loop {
            if let Some(value) = node.wait() {
                return value;
            }
            if let Ok(value) = self.come(word, node) {
                return value;
            }
        }
    }

    /// A called thread has come: it locks the lock if it is still open, and otherwise waits as the first one of its
    /// run.
    fn come(&self, word: &AtomicU64, node: &Node) -> Result<u64, ()> {
        let mut woken = List::EMPTY;
        let mut entries = self.stripe(node.address).lock();
        let at = entries.find(node.address).unwrap_or_else(|| entries.insert(Entry::new(node.address, true)));
        let entry = &mut entries[at];
        entry.is_called = self.planted.has(Mutant::NeverCame);
        if entry.is_full {
            act(word, node.operation, &node.value);
            entry.emptied(word, &mut woken);
            entries.forget_unneeded(at);
            drop(entries);
            wake(woken);
            return Ok(node.value.get());
        }
        node.is_done.store(0, Ordering::Relaxed);
        node.outcome.set(DONE);
        entry.change.push_first(node);
        Err(())
    }

    /// Does a wait's operation, or puts the wait into its list.
    fn operate_or_list(&self, word: &AtomicU64, node: &Node) -> Result<u64, ()> {
        if self.planted.has(Mutant::ListedLate) {
            let result = self.operate_or(word, node.operation, |_, _| ());
            return result.inspect_err(|()| {
                let mut entries = self.stripe(node.address).lock();
                let at = entries.find(node.address);
                let at = at.unwrap_or_else(|| entries.insert(Entry::new(node.address, true)));
                entries[at].push(node);
            });
        }
        self.operate_or(word, node.operation, |entries, at| entries[at].push(node))
    }

    /// Examines each wait of a stripe, and takes out those condemned by `f`.
    fn judge(&self, stripe: &ShortLock<Entries>, f: &mut dyn FnMut(SeenWait<'_>) -> Verdict) {
        let mut ended = Vec::new();
        let mut entries = stripe.lock();
        for entry in entries.iter() {
            for node in entry.stay.iter().chain(entry.change.iter()) {
                let fibre = if let Party::Fibre(fibre) = node.party { Some(fibre) } else { None };
                let seat = if let Party::Seat(_, shared, seat) = node.party { Some((shared, seat)) } else { None };
                let Node { operation, address, .. } = *node;
                let (wants_full, operation) = (operation.wants_full(), operation.name());
                let backtrace = node.backtrace.as_deref();
                let verdict = f(SeenWait { fibre, seat, operation, wants_full, address, backtrace });
                if verdict != Verdict::Stays
                    && let Some(fibre) = fibre
                {
                    ended.push((ptr::from_ref(node), address, fibre, verdict));
                }
            }
        }
        for (node, address, fibre, verdict) in ended {
            let at = entries.find(address).expect("a thread waits for it");
            #[expect(unsafe_code, reason = "follows a pointer to a wait")]
            // SAFETY: the wait stays in its frame until the fibre is queued, below.
            let node = unsafe { &*node };
            entries[at].remove(node);
            (self.settle)(&mut entries, at);
            node.is_done.store(if verdict == Verdict::Ends { WITHDRAWN } else { DEADLOCK }, Ordering::Release);
            fibre.queue();
        }
    }

    fn fill(&self, word: &AtomicU64, value: Option<u64>) -> bool {
        let mut woken = List::EMPTY;
        let mut entries = self.stripe(address_of(word)).lock();
        if let Some(value) = value {
            word.store(value, Ordering::Relaxed);
        }
        let found = entries.find(address_of(word)).filter(|&at| !entries[at].is_full);
        if let Some(at) = found {
            entries[at].filled(word, &mut woken, self.planted);
            entries.forget_unneeded(at);
        }
        drop(entries);
        wake(woken);
        found.is_some()
    }

    fn empty(&self, word: &AtomicU64, value: Option<u64>) -> bool {
        let address = address_of(word);
        let mut woken = List::EMPTY;
        let mut entries = self.stripe(address).lock();
        if let Some(value) = value {
            word.store(value, Ordering::Relaxed);
        }
        let was_full = match entries.find(address) {
            None => {
                entries.insert(Entry::new(address, false));
                true
            }
            Some(at) if entries[at].is_full => {
                entries[at].emptied(word, &mut woken);
                entries.forget_unneeded(at);
                true
            }
            Some(_) => false,
        };
        drop(entries);
        wake(woken);
        was_full
    }
}

/// For code about to wait on a seat: begins the seat's next thread on top of it, and tries once more. The last spawned
/// thread often fills or empties the word, and then there is no wait. If no lightweight thread begins, code on its
/// thread's own stack runs one other task.
pub(crate) fn after_next(again: impl FnOnce() -> Option<u64>) -> Option<u64> {
    let is_on_fibre = fibres::current().is_some();
    if !is_on_fibre && (!is_seated() || std::thread::panicking()) {
        return None;
    }
    in_task(|worker| attach(&worker.shared));
    if fibres::begin_next() {
        let value = again();
        match value {
            None => fibres::began_in_vain(),
            Some(_) if !is_on_fibre => leave_to_program(),
            Some(_) => {}
        }
        return value;
    }
    if is_on_fibre {
        return None;
    }
    // On its own stack it would run other tasks while it waits.
    help_once();
    again()
}

#[inline]
fn address_of(word: &AtomicU64) -> usize {
    ptr::from_ref(word).addr()
}

/// Tells the ended waits.
#[inline]
pub(crate) fn wake(mut woken: List) {
    while !woken.is_empty() {
        wake_first(&mut woken);
    }
}

#[cold]
#[inline(never)]
fn wake_first(woken: &mut List) {
    let Some(node) = woken.pop() else { return };
    if !is_seated() {
        note_outside(&node.party);
    }
    match &node.party {
        Party::Fibre(fibre) => {
            let fibre = *fibre;
            // Release: the waiting thread sees the value read. Its frame may be gone after this.
            node.is_done.store(node.outcome.get(), Ordering::Release);
            fibre.queue();
        }
        Party::Seat(latch, shared, _) => end_wait_of_seat(latch, *shared),
        Party::Outside(done) => {
            let done = Arc::clone(done);
            done.set();
        }
        #[cfg(all(test, loom))]
        Party::Model(notify) => {
            let notify = Arc::clone(notify);
            node.is_done.store(node.outcome.get(), Ordering::Release);
            notify.notify();
        }
    }
}

/// A thread without a seat ends a wait: waits of this runtime may depend on such a thread again.
#[cold]
fn note_outside(party: &Party) {
    let runtime = match party {
        Party::Fibre(fibre) => fibre.runtime(),
        Party::Seat(_, runtime, _) => *runtime,
        Party::Outside(_) => return,
        #[cfg(all(test, loom))]
        Party::Model(_) => return,
    };
    #[expect(unsafe_code, reason = "the runtime of the one that waits")]
    // SAFETY: it is alive until the wait is over, and the end is told after this.
    let runtime = unsafe { &*runtime };
    threads_of(runtime).watch.is_filled_outside.store(true, Ordering::Relaxed);
}

/// The wait of a seat of this runtime is over.
fn end_wait_of_seat(latch: &Latch, shared: *const RuntimeState) {
    let is_here = with_worker(|worker| ptr::eq(Arc::as_ptr(&worker.shared), shared)) == Some(true);
    #[expect(unsafe_code, reason = "the runtime of the one that waits")]
    // SAFETY: it is alive until the latch is set.
    unsafe {
        RuntimeState::held(shared, is_here, |shared| latch.set(shared));
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::thread;
    use std::sync::Arc;

    /// A table and one empty word of it.
    struct Model {
        table: Table,
        word: AtomicU64,
    }

    impl Model {
        fn new(mutant: Option<Mutant>) -> Arc<Model> {
            let planted = Planted::new(mutant);
            let table = Table { planted, ..Table::new(1, Entries::forget_unneeded) };
            let model = Arc::new(Model { table, word: AtomicU64::new(0) });
            model.table.empty(&model.word, None);
            model
        }

        fn node(&self, operation: Operation) -> Node {
            Node::of_model(address_of(&self.word), operation)
        }

        /// Like [`Table::operate`].
        fn operate(&self, operation: Operation) -> u64 {
            if let Some(value) = self.table.try_operate(&self.word, operation) {
                return value;
            }
            let node = self.node(operation);
            let listed = self.table.operate_or_list(&self.word, &node);
            listed.unwrap_or_else(|()| self.table.wait_in_list(&self.word, &node))
        }
    }

    fn check(mutant: Option<Mutant>, body: impl Fn(Arc<Model>) + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        // The lock's holder may be interrupted once; with a bound of two it takes minutes.
        builder.preemption_bound = Some(1);
        builder.max_branches = 20_000;
        builder.check(move || body(Model::new(mutant)));
    }

    /// Two threads take the values written one after the other by a third: each is taken once, and the word is empty
    /// then.
    fn hand_over(mutant: Option<Mutant>) {
        check(mutant, |model| {
            let takers = [0, 1].map(|_| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.operate(Operation::ReadFe))
            });
            model.operate(Operation::WriteEf(1));
            model.operate(Operation::WriteEf(2));
            let taken: u64 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
            assert_eq!(taken, 3);
            assert!(!model.table.is_full(&model.word));
        });
    }

    /// Like `hand_over`, with both already waiting.
    fn hand_over_to_waiting(mutant: Option<Mutant>) {
        check(mutant, |model| {
            let waits = [0, 1].map(|_| model.node(Operation::ReadFe));
            waits.iter().for_each(|node| assert_eq!(model.table.operate_or_list(&model.word, node), Err(())));
            let writer = {
                let model = Arc::clone(&model);
                thread::spawn(move || [1, 2].map(|value| model.operate(Operation::WriteEf(value))))
            };
            let taken: u64 = waits.iter().map(|node| model.table.wait_in_list(&model.word, node)).sum();
            writer.join().unwrap();
            assert_eq!(taken, 3);
            assert!(!model.table.is_full(&model.word));
        });
    }

    /// One fill lets a reader and a taker go on, in either order.
    fn fill_and_read(mutant: Option<Mutant>) {
        check(mutant, |model| {
            let others = [Operation::ReadFf, Operation::ReadFe].map(|operation| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.operate(operation))
            });
            model.table.fill(&model.word, Some(7));
            let [reader, taker] = others;
            assert_eq!(taker.join().unwrap(), 7);
            // A reader behind the taker waits for the next value.
            model.table.fill(&model.word, Some(7));
            assert_eq!(reader.join().unwrap(), 7);
        });
    }

    /// Two want a lock held by a third, and each unlocks it.
    fn lock_and_unlock(mutant: Option<Mutant>) {
        check(mutant, |model| {
            let others = [0, 1].map(|_| {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    model.operate(Operation::Lock);
                    assert!(model.table.fill(&model.word, None));
                })
            });
            assert!(model.table.fill(&model.word, None));
            others.into_iter().for_each(|other| other.join().unwrap());
            assert!(model.table.is_full(&model.word));
        });
    }

    /// Like `lock_and_unlock`, with both already waiting, and the third one locks it again at once.
    fn lock_and_come(mutant: Option<Mutant>) {
        check(mutant, |model| {
            let waits = [0, 1].map(|_| model.node(Operation::Lock));
            waits.iter().for_each(|node| assert_eq!(model.table.operate_or_list(&model.word, node), Err(())));
            let third = {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    assert!(model.table.fill(&model.word, None));
                    model.operate(Operation::Lock);
                    assert!(model.table.fill(&model.word, None));
                })
            };
            for node in &waits {
                model.table.wait_in_list(&model.word, node);
                assert!(model.table.fill(&model.word, None));
            }
            third.join().unwrap();
            assert!(model.table.is_full(&model.word));
        });
    }

    fn finds(model: fn(Option<Mutant>), mutant: Mutant) {
        let found = std::panic::catch_unwind(|| model(Some(mutant)));
        assert!(found.is_err(), "the model doesn't find {mutant:?}");
    }

    #[test]
    fn loom_each_value_is_taken_once() {
        hand_over(None);
        hand_over_to_waiting(None);
        finds(hand_over_to_waiting, Mutant::AllTake);
        finds(hand_over, Mutant::ListedLate);
    }

    #[test]
    fn loom_an_open_lock_is_locked_in_the_end_by_all_that_wait() {
        lock_and_unlock(None);
        lock_and_come(None);
        finds(lock_and_come, Mutant::NeverCame);
    }

    #[test]
    fn loom_a_fill_lets_those_go_on_that_wait() {
        fill_and_read(None);
    }
}
