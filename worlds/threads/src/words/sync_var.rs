//! A value with its full/empty bit in one word.

use super::entries::{At, Entries};
use super::full_empty::{Entry, Node, Operation, STRIPES, Table, Word, act, after_next, judge_all, wake};
use super::lists::List;
use crate::mutant::{Mutant, Planted};
use crate::watch::judges;
use std::cell::Cell;
use std::fmt;
use std::ptr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A value of 60 bits, and whether it is full or empty, in one word: what [`full_empty`](super::full_empty) has for
/// words of 64 bits, in a few nanoseconds where no thread waits.
///
/// The lowest bit is 0, the next three are the state: 0 for full, 2 for empty, and one more while threads wait. Waiting
/// threads are in a table by the address of the word.
///
/// ```
/// use std::sync::Arc;
/// use vicus_machine::MachineRuntime;
/// use vicus_threads::{Builder, SyncVar};
///
/// let runtime = MachineRuntime::builder().threads(2).start();
/// let word = Arc::new(SyncVar::empty());
/// let reader = Builder::new().spawn_on(&runtime, { let word = Arc::clone(&word); move || word.read_fe() });
/// word.write_ef(42);
/// assert_eq!(reader.join().unwrap(), 42);
/// assert!(!word.is_full());
/// ```
#[repr(transparent)]
pub struct SyncVar(AtomicU64);

/// One bit of the state, in place: threads wait.
const WAITS: u64 = 1 << 1;
/// The other one: it is empty.
const EMPTY: u64 = 1 << 2;
/// Below the value.
const BITS: u32 = 4;
const STATE: u64 = (1 << BITS) - 1;

/// The variables for which threads wait.
pub(crate) fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        judges::note(judge_all);
        Table::new(STRIPES, settle)
    });
    &TABLE
}

/// A wait for the variable of this entry was taken out.
fn settle(entries: &mut Entries, at: At) {
    #[expect(unsafe_code, reason = "follows the address of a variable")]
    // SAFETY: the wait's frame has a reference to it, and the waiting thread goes on after this.
    let var = unsafe { SyncVar::at(ptr::with_exposed_provenance_mut(entries[at].address)) };
    let value = var.0.load(Ordering::Acquire) >> BITS;
    var.in_table().put_back(entries, at, value);
}

/// A value under the stripe's lock.
struct Value(Cell<u64>);

impl Word for Value {
    fn read(&self) -> u64 {
        self.0.get()
    }

    fn write(&self, value: u64) {
        self.0.set(value);
    }
}

#[inline]
fn pack(value: u64, is_full: bool, has_waits: bool) -> u64 {
    value << BITS | if is_full { 0 } else { EMPTY } | if has_waits { WAITS } else { 0 }
}

#[inline]
fn check(value: u64) -> u64 {
    assert!(value <= SyncVar::MOST, "a SyncVar has 60 bits, and {value:#x} needs more");
    value
}

impl SyncVar {
    /// The greatest value.
    pub const MOST: u64 = u64::MAX >> BITS;

    /// A full one.
    ///
    /// # Panics
    /// The value needs more than 60 bits.
    pub const fn full(value: u64) -> SyncVar {
        assert!(value <= SyncVar::MOST, "a SyncVar has 60 bits");
        SyncVar(AtomicU64::new(value << BITS))
    }

    /// An empty one.
    pub const fn empty() -> SyncVar {
        SyncVar(AtomicU64::new(EMPTY))
    }

    /// The one at an address: a word of a program in C.
    ///
    /// # Safety
    /// Eight bytes there, at a multiple of eight, may be read and written as long as the reference is used, and were
    /// written as a `SyncVar`.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub unsafe fn at<'a>(address: *mut u64) -> &'a SyncVar {
        // SAFETY: the caller's promise; the type is transparent.
        unsafe { &*address.cast::<SyncVar>() }
    }

    /// Waits until it is full, and reads it.
    #[inline]
    pub fn read_ff(&self) -> u64 {
        let word = self.0.load(Ordering::Acquire);
        if word & EMPTY == 0 { word >> BITS } else { self.operate(Operation::ReadFf) }
    }

    /// Waits until it is full, reads it, and empties it.
    #[inline]
    pub fn read_fe(&self) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        if word & STATE == 0 && self.0.compare_exchange(word, word | EMPTY, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            return word >> BITS;
        }
        self.operate(Operation::ReadFe)
    }

    /// Reads it, full or empty.
    #[inline]
    pub fn read_xx(&self) -> u64 {
        self.0.load(Ordering::Acquire) >> BITS
    }

    /// Waits until it is empty, writes it, and fills it.
    ///
    /// # Panics
    /// The value needs more than 60 bits.
    #[inline]
    pub fn write_ef(&self, value: u64) {
        let word = self.0.load(Ordering::Relaxed);
        let full = check(value) << BITS;
        if word & STATE != EMPTY || self.0.compare_exchange(word, full, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            self.operate(Operation::WriteEf(value));
        }
    }

    /// Writes it, full or empty, and fills it.
    ///
    /// # Panics
    /// The value needs more than 60 bits.
    pub fn write_f(&self, value: u64) {
        self.set(true, |_| check(value));
    }

    /// Waits until it is full, and writes it.
    ///
    /// # Panics
    /// The value needs more than 60 bits.
    pub fn write_ff(&self, value: u64) {
        self.operate(Operation::WriteFf(check(value)));
    }

    /// Adds to it, modulo 2 to the 60th, full or empty, and fills it. What it is then.
    pub fn incr_f(&self, by: u64) -> u64 {
        self.set(true, |value| value.wrapping_add(by) & SyncVar::MOST).1
    }

    /// Fills it as it is. Whether it was empty.
    pub fn fill(&self) -> bool {
        !self.set(true, |value| value).0
    }

    /// Empties it as it is. Whether it was full.
    pub fn make_empty(&self) -> bool {
        self.set(false, |value| value).0
    }

    /// Empties it, and writes it.
    ///
    /// # Panics
    /// The value needs more than 60 bits.
    pub fn purge_to(&self, value: u64) {
        self.set(false, |_| check(value));
    }

    /// Whether it is full.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.0.load(Ordering::Acquire) & EMPTY == 0
    }

    /// Like [`SyncVar::read_ff`]; `None` if it is empty.
    pub fn try_read_ff(&self) -> Option<u64> {
        let word = self.0.load(Ordering::Acquire);
        (word & EMPTY == 0).then_some(word >> BITS)
    }

    /// Like [`SyncVar::read_fe`]; `None` if it is empty.
    pub fn try_read_fe(&self) -> Option<u64> {
        self.try_operate(Operation::ReadFe)
    }

    /// Like [`SyncVar::write_ef`]; `false` if it is full.
    ///
    /// # Panics
    /// The value needs more than 60 bits.
    pub fn try_write_ef(&self, value: u64) -> bool {
        self.try_operate(Operation::WriteEf(check(value))).is_some()
    }

    /// Like [`SyncVar::write_ff`]; `false` if it is empty.
    ///
    /// # Panics
    /// The value needs more than 60 bits.
    pub fn try_write_ff(&self, value: u64) -> bool {
        self.try_operate(Operation::WriteFf(check(value))).is_some()
    }

    #[inline]
    fn in_table(&self) -> Var<'_, AtomicU64> {
        let address = ptr::from_ref(self).expose_provenance();
        Var { word: &self.0, address, table: table(), planted: Planted::NONE }
    }

    #[cold]
    fn operate(&self, operation: Operation) -> u64 {
        let var = self.in_table();
        if let Some(value) = var.operate_or(operation, None) {
            return value;
        }
        if let Some(value) = after_next(|| var.operate_or(operation, None)) {
            return value;
        }
        let node = Node::new(var.address, operation);
        match var.operate_or(operation, Some(&node)) {
            Some(value) => value,
            None => node.wait().expect("a variable is no lock"),
        }
    }

    fn try_operate(&self, operation: Operation) -> Option<u64> {
        self.in_table().operate_or(operation, None)
    }

    fn set(&self, is_full: bool, change: impl Fn(u64) -> u64) -> (bool, u64) {
        self.in_table().set(is_full, change)
    }
}

/// The word of a variable: the standard atomic, or a model's.
trait Atomic {
    fn load(&self, order: Ordering) -> u64;
    /// Whether it was `old`, and is `new` now.
    fn replace(&self, old: u64, new: u64) -> bool;
    fn store(&self, value: u64, order: Ordering);
}

impl Atomic for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn replace(&self, old: u64, new: u64) -> bool {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
}

/// A variable, and the table of those that wait for it.
struct Var<'a, A> {
    word: &'a A,
    address: usize,
    table: &'a Table,
    planted: Planted,
}

impl<A: Atomic> Var<'_, A> {
    /// Does it if the word is as it wants it, and gives what was read; else it waits in the list.
    fn operate_or(&self, operation: Operation, wait: Option<&Node>) -> Option<u64> {
        let read = Cell::new(0);
        loop {
            let word = self.word.load(Ordering::Acquire);
            let (is_full, has_waits) = (word & EMPTY == 0, word & WAITS != 0);
            if is_full != operation.wants_full() && wait.is_none() {
                return None;
            }
            if is_full == operation.wants_full() && !has_waits {
                let value = Value(Cell::new(word >> BITS));
                act(&value, operation, &read);
                let is_full_then = !matches!(operation, Operation::ReadFe | Operation::Lock);
                let now = pack(value.0.get(), is_full_then, false);
                if self.word.replace(word, now) {
                    return Some(read.get());
                }
                continue;
            }
            // While its bit says that threads wait, the word changes under the lock alone.
            let mut woken = List::EMPTY;
            let mut entries = self.table.stripe(self.address).lock();
            if is_full == operation.wants_full() {
                let Some(at) = entries.find(self.address) else { continue };
                let value = Value(Cell::new(self.word.load(Ordering::Acquire) >> BITS));
                let entry = &mut entries[at];
                if entry.is_full != operation.wants_full() {
                    continue;
                }
                act(&value, operation, &read);
                match operation {
                    Operation::ReadFf | Operation::WriteFf(_) => {}
                    Operation::ReadFe | Operation::Lock => entry.emptied(&value, &mut woken),
                    Operation::WriteEf(_) => entry.filled(&value, &mut woken, Planted::NONE),
                }
                self.put_back(&mut entries, at, value.0.get());
                drop(entries);
                wake(woken);
                return Some(read.get());
            }
            let node = wait.expect("one that does not wait has returned");
            // From here on the word stays as it is.
            let is_told = has_waits || self.planted.has(Mutant::BitUnset);
            if !is_told && !self.word.replace(word, word | WAITS) {
                continue;
            }
            let at = match entries.find(self.address) {
                Some(at) if entries[at].is_full != is_full => continue,
                Some(at) => at,
                // The last wait ended after the word was read.
                None if has_waits => continue,
                None => entries.insert(Entry::new(self.address, is_full)),
            };
            entries[at].push(node);
            return None;
        }
    }

    /// Makes it full or empty, with another value. Whether it was full, and the value then.
    fn set(&self, is_full: bool, change: impl Fn(u64) -> u64) -> (bool, u64) {
        loop {
            let word = self.word.load(Ordering::Acquire);
            let was_full = word & EMPTY == 0;
            if word & WAITS == 0 {
                let value = change(word >> BITS);
                let now = pack(value, is_full, false);
                if self.word.replace(word, now) {
                    return (was_full, value);
                }
                continue;
            }
            let mut woken = List::EMPTY;
            let mut entries = self.table.stripe(self.address).lock();
            let Some(at) = entries.find(self.address) else { continue };
            let changed = change(self.word.load(Ordering::Acquire) >> BITS);
            let value = Value(Cell::new(changed));
            let entry = &mut entries[at];
            let was_full = entry.is_full;
            match (was_full, is_full) {
                (false, true) => entry.filled(&value, &mut woken, Planted::NONE),
                (true, false) => entry.emptied(&value, &mut woken),
                _ => {}
            }
            self.put_back(&mut entries, at, value.0.get());
            drop(entries);
            wake(woken);
            return (was_full, changed);
        }
    }

    /// Writes the word as its entry says, and forgets the entry if no thread waits.
    fn put_back(&self, entries: &mut Entries, at: At, value: u64) {
        let entry = &entries[at];
        let (is_full, has_waits) = (entry.is_full, entry.has_waits());
        if !has_waits {
            entries.remove(at);
        }
        self.word.store(pack(value, is_full, has_waits), Ordering::Release);
    }
}

impl fmt::Debug for SyncVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncVar").field("value", &self.read_xx()).field("is_full", &self.is_full()).finish()
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::thread;
    use std::sync::Arc;

    impl Atomic for loom::sync::atomic::AtomicU64 {
        fn load(&self, order: Ordering) -> u64 {
            self.load(order)
        }

        fn replace(&self, old: u64, new: u64) -> bool {
            self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }

        fn store(&self, value: u64, order: Ordering) {
            self.store(value, order);
        }
    }

    /// A table and a variable, which is empty.
    struct Model {
        word: loom::sync::atomic::AtomicU64,
        table: Table,
        planted: Planted,
    }

    impl Model {
        fn new(mutant: Option<Mutant>) -> Arc<Model> {
            let settle: fn(&mut Entries, At) = |_, _| unreachable!("no wait is ended");
            let word = loom::sync::atomic::AtomicU64::new(EMPTY);
            Arc::new(Model { word, table: Table::new(1, settle), planted: Planted::new(mutant) })
        }

        fn var(&self) -> Var<'_, loom::sync::atomic::AtomicU64> {
            Var {
                word: &self.word,
                address: ptr::from_ref(self).expose_provenance(),
                table: &self.table,
                planted: self.planted,
            }
        }

        /// Like [`SyncVar::operate`].
        fn operate(&self, operation: Operation) -> u64 {
            let var = self.var();
            if let Some(value) = var.operate_or(operation, None) {
                return value;
            }
            let node = Node::of_model(var.address, operation);
            var.operate_or(operation, Some(&node)).unwrap_or_else(|| node.wait().expect("a variable is no lock"))
        }

        fn word(&self) -> u64 {
            self.word.load(Ordering::Acquire)
        }
    }

    fn check(mutant: Option<Mutant>, body: impl Fn(Arc<Model>) + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.max_branches = 20_000;
        builder.check(move || body(Model::new(mutant)));
    }

    /// One takes what another writes, one value after the other: no value is lost, and no bit says that a thread waits
    /// then.
    fn hand_over(mutant: Option<Mutant>) {
        check(mutant, |model| {
            let taker = {
                let model = Arc::clone(&model);
                thread::spawn(move || [(); 2].map(|()| model.operate(Operation::ReadFe)))
            };
            model.operate(Operation::WriteEf(1));
            model.operate(Operation::WriteEf(2));
            assert_eq!(taker.join().unwrap(), [1, 2]);
            assert_eq!(model.word() & STATE, EMPTY);
        });
    }

    /// One reads and one takes what is written, full or empty: the reader waits again if the taker was first.
    fn fill_and_read(mutant: Option<Mutant>) {
        check(mutant, |model| {
            let others = [Operation::ReadFf, Operation::ReadFe].map(|operation| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.operate(operation))
            });
            model.var().set(true, |_| 7);
            let [reader, taker] = others;
            assert_eq!(taker.join().unwrap(), 7);
            model.var().set(true, |_| 7);
            assert_eq!(reader.join().unwrap(), 7);
            assert_eq!(model.word(), pack(7, true, false));
        });
    }

    fn finds(model: fn(Option<Mutant>), mutant: Mutant) {
        let found = std::panic::catch_unwind(|| model(Some(mutant)));
        assert!(found.is_err(), "the model doesn't find {mutant:?}");
    }

    #[test]
    fn loom_a_variable_hands_each_value_over() {
        hand_over(None);
        finds(hand_over, Mutant::BitUnset);
    }

    #[test]
    fn loom_a_variable_lets_those_go_on_that_wait_for_its_value() {
        fill_and_read(None);
        finds(fill_and_read, Mutant::BitUnset);
    }
}
