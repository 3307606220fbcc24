//! A stack: its class, its addresses, and the place of the code on it.

use crate::exceptions::Caught;
use crate::sanitizers;
use crate::switch::{Runs, Switch};
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::ptr::{self, NonNull};
use vicus_os::pages;

/// The least stack. It is enough for threads that compute and wait, but not for printing text.
pub const LEAST_BYTES: usize = 4096;
/// How many classes there are: the largest stack has 4 GiB.
pub const CLASSES: usize = 21;
pub(crate) const PAGE: usize = 4096;
/// The pages of the guard of a large stack. A function with a frame larger than a guard steps over it, unless its
/// compiler touches each page (gcc's and clang's `-fstack-clash-protection`; not all systems set it). Most frames
/// larger than a page hold buffers for a file or a text. Odd, so that the stacks of threads with the same work do not
/// all begin in the same sets of a cache.
const GUARD_PAGES: usize = 17;
/// Fills the lowest words of a stack without a guard.
const CANARY: usize = 0x7f5a_c3c3_5a7f_1234;

/// A class of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(pub(crate) u8);

impl Class {
    /// The least class of at least this number of bytes; `None` if there is none.
    #[inline]
    pub fn of(bytes: usize) -> Option<Class> {
        let bytes = bytes.max(LEAST_BYTES).checked_next_power_of_two()?;
        let class = (bytes / LEAST_BYTES).trailing_zeros() as usize;
        (class < CLASSES).then_some(Class(class as u8))
    }

    /// The bytes of its stacks.
    #[inline]
    pub fn bytes(self) -> usize {
        LEAST_BYTES << self.0
    }

    /// Its place in a table of all classes.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The guard of a small stack is a page: there may be a million of them, and their threads are to have small
    /// frames.
    pub(crate) fn guard_bytes(self) -> usize {
        if self.bytes() < 32 << 10 { PAGE } else { GUARD_PAGES * PAGE }
    }

    pub(crate) fn slot_bytes(self) -> usize {
        self.bytes() + self.guard_bytes()
    }
}

/// A stack, and the place of the code on it.
///
/// One thread at a time uses it: the thread that has it from a pool, or is handed it by its last user.
pub struct Stack {
    /// Not begun before the first entry, and after [`Stack::forget`].
    switch: Switch,
    /// C++'s exceptions of the stack beneath while the code on this one runs, and its own while it does not.
    pub(crate) caught: UnsafeCell<Caught>,
    pub(crate) slot: Slot,
    /// The next record in a list of free ones.
    pub(crate) next: Cell<*const ()>,
    /// The sanitizers' record of it; null without sanitizers.
    pub(crate) known: Cell<*mut sanitizers::FibreRecord>,
}

impl Stack {
    pub(crate) fn new(slot: Slot) -> Stack {
        Stack {
            switch: Switch::new(),
            caught: UnsafeCell::new(Caught::NOTHING),
            slot,
            next: Cell::new(ptr::null()),
            known: Cell::new(ptr::null_mut()),
        }
    }

    /// Its class.
    #[inline]
    pub fn class(&self) -> Class {
        self.slot.class
    }

    /// Its addresses.
    pub fn addresses(&self) -> Range<usize> {
        self.slot.bottom..self.slot.top()
    }

    /// Whether the code there has stayed on it. Only a stack without a guard can say no.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.slot.is_whole()
    }

    /// Goes to the stack, until the code there leaves it. Returns the word handed over at the leave. A stack without
    /// code begins `runs`, with `of` and `word`.
    ///
    /// # Safety
    /// Only the caller uses the stack, and no thread runs on it. The code there is not tied to another thread of the
    /// system. `runs` calls [`Stack::arrive`] first.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub unsafe fn enter(&self, runs: Runs, of: *const (), word: usize) -> usize {
        if sanitizers::are_there() {
            sanitizers::tell_entering(self);
        }
        // SAFETY: the caller's promise; the top is that of a mapped slot, and stacks never move.
        let word = unsafe {
            if !self.switch.has_begun() {
                self.switch.begin_at(self.slot.top(), runs, of);
            }
            self.switch.enter(word)
        };
        if sanitizers::are_there() {
            sanitizers::tell_left(self);
        }
        word
    }

    /// The first act of the code that begins on the stack.
    #[inline]
    pub fn arrive(&self) {
        if sanitizers::are_there() {
            sanitizers::tell_entered(self);
        }
    }

    /// Goes back to the code that entered the stack, until the stack is entered again. Returns the word handed over
    /// then.
    ///
    /// # Safety
    /// The caller runs on this stack.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub unsafe fn leave(&self, word: usize) -> usize {
        if sanitizers::are_there() {
            sanitizers::tell_leaving(self);
        }
        // SAFETY: the caller's promise.
        let word = unsafe { self.switch.leave(word) };
        if sanitizers::are_there() {
            sanitizers::tell_entered(self);
        }
        word
    }

    /// Forgets the use of the stack: the next entry begins at its top. The content is left as it is, and nothing there
    /// is dropped.
    ///
    /// # Safety
    /// Only the caller uses the stack, and no thread runs on it.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub(crate) unsafe fn forget(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            self.switch.forget();
            *self.caught.get() = Caught::NOTHING;
        }
        if sanitizers::are_there() {
            sanitizers::tell_forgotten(self);
        }
    }
}

/// Its place in an arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Its lowest address; the guard lies below.
    pub(crate) bottom: usize,
    pub(crate) class: Class,
    /// Whether it has a canary instead of a guard.
    pub(crate) has_canary: bool,
}

impl Slot {
    #[inline]
    pub(crate) fn top(&self) -> usize {
        self.bottom + self.class.bytes()
    }

    /// Whether the canary of a stack without a guard is intact.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        #[expect(unsafe_code, reason = "looks at the lowest words of a stack")]
        // SAFETY: they are mapped, and only this thread uses the stack.
        unsafe {
            let words: *const usize = ptr::with_exposed_provenance(self.bottom);
            !self.has_canary || (words.read_volatile() == CANARY && words.add(1).read_volatile() == CANARY)
        }
    }

    /// Writes the canary.
    pub(crate) fn set_canary(&self) {
        #[expect(unsafe_code, reason = "writes the lowest words of a stack")]
        // SAFETY: they are mapped, and the stack is not in use.
        unsafe {
            let words: *mut usize = ptr::with_exposed_provenance_mut(self.bottom);
            words.write_volatile(CANARY);
            words.add(1).write_volatile(CANARY);
        }
    }

    /// Gives its pages back to the system. Their content is lost.
    pub(crate) fn give_up_pages(&self) {
        let bottom = NonNull::new(ptr::with_exposed_provenance_mut(self.bottom)).expect("a stack has an address");
        #[expect(unsafe_code, reason = "the content goes")]
        // SAFETY: the stack is not in use; its addresses stay mapped, and guards stay set.
        unsafe {
            pages::give_up(bottom, self.class.bytes());
        }
        if self.has_canary {
            self.set_canary();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_next_power_of_two() {
        let bytes = |bytes| Class::of(bytes).map(Class::bytes);
        assert_eq!(bytes(0), Some(4096));
        assert_eq!(bytes(4096), Some(4096));
        assert_eq!(bytes(4097), Some(8192));
        assert_eq!(bytes(32 << 10), Some(32 << 10));
        assert_eq!(bytes(4 << 30), Some(4 << 30));
        assert_eq!(bytes((4 << 30) + 1), None);
        assert_eq!(bytes(usize::MAX), None);
    }
}
