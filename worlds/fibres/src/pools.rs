//! The memory of stacks, and the owners of free ones.
//!
//! A stack's size is a power of two, its *class*. Stacks of a class lie in arenas, each below its own guard: memory
//! that ends the program when it is touched. Arenas are never unmapped, so a pointer to a [`Record`] stays valid for as
//! long as the process runs.
//!
//! A thread keeps its last used stacks, the youngest first ([`OwnStacks`]); stacks beyond [`KEPT`] go to its node, open
//! to other threads. A node keeps the pages of up to [`RESIDENT`] bytes; pages of further stacks go back to the system.

use crate::Record;
use crate::guards::{BEST, Guards, guard, install_guards};
use crate::overflow;
use crate::sanitizers;
use crate::stack::{CLASSES, Class, LEAST_BYTES, Slot, Stack};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use vicus_os::{pages, signals};

/// So many free stacks of a class stay with a thread.
const KEPT: u32 = 64;
/// How many go from a thread to its node, or back, at once.
const MOVED: u32 = 32;
/// So many bytes of free stacks of a class keep their pages on a node.
const RESIDENT: usize = 64 << 20;
/// The system's memory left for others when stacks are made.
const LEFT_BYTES: u64 = 64 << 20;
/// A piece of memory with stacks of one class.
struct Arena<R> {
    start: usize,
    class: Class,
    records: Box<[R]>,
    /// The arena made before.
    next: *const Arena<R>,
}

impl<R> Arena<R> {
    /// The record whose stack has overflowed if this address was touched.
    fn of_guard(&self, address: usize) -> Option<&R> {
        let offset = address.checked_sub(self.start)?;
        let record = self.records.get(offset / self.class.slot_bytes())?;
        (offset % self.class.slot_bytes() < self.class.guard_bytes()).then_some(record)
    }
}

/// A list of free stacks, linked through themselves.
#[derive(Debug)]
struct List<R: Record> {
    first: *const R,
    len: u32,
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: free stacks are used by the owner of the list alone, and records may go to other threads.
unsafe impl<R: Record> Send for List<R> {}

impl<R: Record> List<R> {
    const EMPTY: List<R> = List { first: ptr::null(), len: 0 };

    #[inline]
    fn push(&mut self, record: &'static R) {
        record.stack().next.set(self.first.cast());
        self.first = record;
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<&'static R> {
        #[expect(unsafe_code, reason = "follows a pointer to what is never freed")]
        // SAFETY: records are never freed, and those of this list are not in use.
        let record = unsafe { self.first.as_ref()? };
        self.first = record.stack().next.get().cast();
        self.len -= 1;
        Some(record)
    }

    fn move_to(&mut self, other: &mut List<R>, most: u32) {
        for _ in 0..most {
            let Some(record) = self.pop() else { return };
            other.push(record);
        }
    }
}

/// Free stacks of a thread, by class.
#[derive(Debug)]
pub struct OwnStacks<R: Record> {
    free: [List<R>; CLASSES],
    node: usize,
}

impl<R: Record> OwnStacks<R> {
    /// For a thread on this node.
    pub fn new(node: usize) -> OwnStacks<R> {
        OwnStacks { free: [const { List::EMPTY }; CLASSES], node }
    }

    /// A free stack of the thread.
    #[inline]
    pub fn take_free(&mut self, class: Class) -> Option<&'static R> {
        self.free[class.index()].pop()
    }

    /// A free stack. `None` if there is no memory for one.
    #[inline]
    pub fn take(&mut self, class: Class) -> Option<&'static R> {
        match self.take_free(class) {
            Some(record) => Some(record),
            None => self.fill(class),
        }
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, class: Class) -> Option<&'static R> {
        signals::watch_thread();
        let (pools, own) = (R::pools(), &mut self.free[class.index()]);
        let pool = pools.pool(self.node, class);
        pool.lock().take(own);
        if own.first.is_null() {
            pools.grow(own, class, self.node);
        }
        // A stack on another node is better than none.
        let mut others = (0..NODES).map(|node| pools.pool(node, class)).filter(|&other| !ptr::eq(other, pool));
        while own.first.is_null()
            && let Some(other) = others.next()
        {
            other.lock().take(own);
        }
        own.pop()
    }

    /// Gives back a stack without code.
    #[inline]
    pub fn give(&mut self, record: &'static R) {
        let class = record.stack().class();
        let own = &mut self.free[class.index()];
        own.push(record);
        if own.len > KEPT {
            self.give_some(class);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_some(&mut self, class: Class) {
        R::pools().pool(self.node, class).lock().give(&mut self.free[class.index()], MOVED, class);
    }

    /// Gives all to the node: the thread sleeps, or waits for a stack.
    pub fn give_all(&mut self) {
        for (class, own) in self.free.iter_mut().enumerate().filter(|(_, own)| own.len > 0) {
            let class = Class(class as u8);
            R::pools().pool(self.node, class).lock().give(own, u32::MAX, class);
        }
    }
}

impl<R: Record> Drop for OwnStacks<R> {
    fn drop(&mut self) {
        self.give_all();
    }
}

/// The free stacks of a class on a node.
struct Free<R: Record> {
    /// They have pages.
    warm: List<R>,
    /// Their pages were given back to the system.
    cold: List<R>,
    /// How many stacks the next arena has.
    next: u32,
}

impl<R: Record> Free<R> {
    fn take(&mut self, to: &mut List<R>) {
        self.warm.move_to(to, MOVED);
        if to.first.is_null() {
            self.cold.move_to(to, MOVED);
        }
    }

    fn give(&mut self, from: &mut List<R>, most: u32, class: Class) {
        let warmest = (RESIDENT / class.bytes()).max(1) as u32;
        for _ in 0..most {
            let Some(record) = from.pop() else { return };
            if self.warm.len < warmest {
                self.warm.push(record);
            } else {
                let stack = record.stack();
                #[expect(unsafe_code, reason = "a stack that is left as it is")]
                // SAFETY: the list it came from was its only user. No code is on it but that of its bottom, which waits
                // for the next entry with nothing to drop.
                unsafe {
                    stack.forget();
                }
                stack.slot.give_up_pages();
                self.cold.push(record);
            }
        }
    }
}

struct Pool<R: Record>(Mutex<Free<R>>);

impl<R: Record> Pool<R> {
    const fn new() -> Pool<R> {
        Pool(Mutex::new(Free { warm: List::EMPTY, cold: List::EMPTY, next: 16 }))
    }

    fn lock(&self) -> MutexGuard<'_, Free<R>> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

/// So many nodes have pools of their own; of machines with more, some share one.
pub const NODES: usize = 16;

/// The pools of a node on cache lines of their own: two, since processors fetch them in pairs.
#[repr(align(128))]
struct NodePools<R: Record>([Pool<R>; CLASSES]);

/// All stacks with records of one type: a constant of the process.
pub struct Pools<R: Record> {
    /// By node and class.
    free: [NodePools<R>; NODES],
    /// The last arena.
    arenas: AtomicPtr<Arena<R>>,
    /// By class: how many stacks there are.
    stacks: [AtomicUsize; CLASSES],
    /// How many bytes all stacks may have together.
    limit: AtomicUsize,
    made: AtomicUsize,
}

impl<R: Record> Pools<R> {
    /// Pools without a stack.
    #[expect(clippy::new_without_default, reason = "a static needs a constant")]
    pub const fn new() -> Pools<R> {
        Pools {
            free: [const { NodePools([const { Pool::new() }; CLASSES]) }; NODES],
            arenas: AtomicPtr::new(ptr::null_mut()),
            stacks: [const { AtomicUsize::new(0) }; CLASSES],
            limit: AtomicUsize::new(usize::MAX),
            made: AtomicUsize::new(0),
        }
    }

    fn pool(&self, node: usize, class: Class) -> &Pool<R> {
        &self.free[node % NODES].0[class.index()]
    }

    fn arenas(&self) -> impl Iterator<Item = &'static Arena<R>> {
        #[expect(unsafe_code, reason = "follows pointers to what is never freed")]
        // SAFETY: arenas are leaked, and written before they are put into the list.
        let arena = |arena: *const Arena<R>| unsafe { arena.as_ref() };
        std::iter::successors(arena(self.arenas.load(Ordering::Acquire)), move |before| arena(before.next))
    }

    /// The record of the stack above this address, if a guard is there. It takes no lock: signal handlers call it.
    pub(crate) fn of_guard(&self, address: usize) -> Option<&'static R> {
        self.arenas().find_map(|arena| arena.of_guard(address))
    }

    /// All records ever made, including those in use.
    pub fn all(&self) -> impl Iterator<Item = &'static R> {
        self.arenas().flat_map(|arena| arena.records.iter())
    }

    /// Limits the bytes of all stacks together. Existing stacks stay.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Whether there is a stack of this class, or one can be made now, on the given node: otherwise its user would wait
    /// for one for ever, as no other can end and leave its own.
    #[inline]
    pub fn provide(&self, class: Class, node: impl FnOnce() -> usize) -> bool {
        self.stacks[class.index()].load(Ordering::Relaxed) > 0 || self.make_first(class, node())
    }

    /// Makes the first stacks of a class. Whether there are any.
    #[cold]
    fn make_first(&self, class: Class, node: usize) -> bool {
        let mut made = List::EMPTY;
        self.grow(&mut made, class, node);
        self.pool(node, class).lock().give(&mut made, u32::MAX, class);
        self.stacks[class.index()].load(Ordering::Relaxed) > 0
    }

    /// Makes an arena, and gives its stacks to the list and to the node's pool. Nothing, if there is no memory for it.
    fn grow(&self, own: &mut List<R>, class: Class, node: usize) {
        let most = ((32 << 20) / class.slot_bytes()).clamp(1, 16_384) as u32;
        let mut free = self.pool(node, class).lock();
        // Another thread may have been quicker.
        free.take(own);
        if !own.first.is_null() {
            return;
        }
        let mut count = free.next.clamp(1, most);
        while count > 0 {
            if let Some(arena) = self.make(class, count as usize, node) {
                free.next = count.saturating_mul(2);
                self.stacks[class.index()].fetch_add(count as usize, Ordering::Release);
                // The lowest addresses are taken first.
                for record in arena.records.iter().rev() {
                    free.cold.push(record);
                }
                free.take(own);
                return;
            }
            count /= 2;
        }
    }

    /// Whether this number of stacks of this class may be made. Counts them if so.
    fn book(&self, class: Class, count: usize) -> bool {
        let bytes = class.bytes() * count;
        let is_within =
            self.made.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= self.limit.load(Ordering::Relaxed);
        // Each needs at least a page when it is used.
        let has_memory = || available().is_none_or(|free| free >= LEFT_BYTES + (count * LEAST_BYTES) as u64);
        if is_within && has_memory() {
            return true;
        }
        self.made.fetch_sub(bytes, Ordering::Relaxed);
        false
    }

    /// Maps an arena. `None` if there is no memory for it.
    fn make(&self, class: Class, count: usize, node: usize) -> Option<&'static Arena<R>> {
        if !self.book(class, count) {
            return None;
        }
        let mut records: Vec<R> = Vec::new();
        if records.try_reserve_exact(count).is_err() {
            self.made.fetch_sub(class.bytes() * count, Ordering::Relaxed);
            return None;
        }
        let bytes = class.slot_bytes() * count;
        let Some(start) = pages::map_stacks(bytes) else {
            self.made.fetch_sub(class.bytes() * count, Ordering::Relaxed);
            return None;
        };
        let start = start.as_ptr().expose_provenance();
        // Placed for its first user.
        R::prefer(start, bytes, node);
        overflow::watch::<R>();
        sanitizers::find();
        let guard_of = |index: usize| start + index * class.slot_bytes();
        let guard_bytes = class.guard_bytes();
        let (installed, mut guards) = (install_guards(count, guard_bytes, guard_of), BEST);
        records.extend((0..count).map(|index| {
            if index >= installed {
                guards = guard(guard_of(index), guard_bytes, guards);
            }
            let slot = Slot { bottom: guard_of(index) + guard_bytes, class, has_canary: guards == Guards::Canaries };
            if slot.has_canary {
                slot.set_canary();
            }
            R::new(Stack::new(slot))
        }));
        let records = records.into_boxed_slice();
        let arena = Box::into_raw(Box::new(Arena { start, class, records, next: ptr::null() }));
        let mut first = self.arenas.load(Ordering::Relaxed);
        loop {
            #[expect(unsafe_code, reason = "links the arena")]
            // SAFETY: no other thread knows it yet.
            unsafe {
                (*arena).next = first;
            }
            // Release: readers of the list see its content.
            match self.arenas.compare_exchange_weak(first, arena, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(other) => first = other,
            }
        }
        #[expect(unsafe_code, reason = "a reference to what is never freed")]
        // SAFETY: it was leaked above.
        NonNull::new(arena).map(|arena| unsafe { arena.as_ref() })
    }
}

/// The memory still available to programs by the system's account; `None` without one.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::PAGE;
    use std::fmt;

    /// A record with a stack alone.
    struct Plain(Stack);

    #[expect(unsafe_code, reason = "its cells are used by one test")]
    // SAFETY: each test uses its own stacks.
    unsafe impl Sync for Plain {}

    #[expect(unsafe_code, reason = "its cells are used by one test")]
    // SAFETY: no code is on the stacks.
    unsafe impl Send for Plain {}

    static PLAIN: Pools<Plain> = Pools::new();

    impl Record for Plain {
        const ADVICE: &'static str = "";

        fn new(stack: Stack) -> Plain {
            Plain(stack)
        }

        fn stack(&self) -> &Stack {
            &self.0
        }

        fn pools() -> &'static Pools<Plain> {
            &PLAIN
        }

        fn prefer(_: usize, _: usize, _: usize) {}

        fn describe(&self, to: &mut dyn fmt::Write) -> fmt::Result {
            write!(to, "a test")
        }
    }

    #[test]
    fn a_canary_shows_that_the_end_was_overwritten() {
        let mut own = OwnStacks::<Plain>::new(0);
        let record = own.take(Class(2)).expect("there is memory");
        let slot = Slot { has_canary: true, ..record.0.slot };
        slot.set_canary();
        assert!(slot.is_whole());
        #[expect(unsafe_code, reason = "writes over the end of a stack")]
        // SAFETY: no thread is on it.
        unsafe {
            ptr::with_exposed_provenance_mut::<usize>(slot.bottom).write(1);
        }
        assert!(!slot.is_whole());
        slot.give_up_pages();
        assert!(slot.is_whole());
        own.give(record);
    }

    #[test]
    fn a_guard_belongs_to_the_stack_above() {
        let mut own = OwnStacks::<Plain>::new(0);
        // Of one page below 32 KiB, and of more from there on.
        for (class, guard) in [(Class(0), PAGE), (Class(2), PAGE), (Class(3), 17 * PAGE), (Class(4), 17 * PAGE)] {
            let record = own.take(class).expect("there is memory");
            let found = |address| PLAIN.of_guard(address).map(ptr::from_ref);
            assert_eq!(found(record.0.slot.bottom - 1), Some(ptr::from_ref(record)));
            assert_eq!(found(record.0.slot.bottom - guard), Some(ptr::from_ref(record)));
            assert_ne!(found(record.0.slot.bottom - guard - 1), Some(ptr::from_ref(record)));
            assert_eq!(found(record.0.slot.bottom), None);
            assert_eq!(found(record.0.slot.top() - 1), None);
            own.give(record);
        }
    }
}
