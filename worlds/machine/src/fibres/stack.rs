//! Stacks of fibres: their addresses, their guards, and the owners of free ones.
//!
//! A stack's size is a power of two, its *class*. Stacks of a class lie in arenas, each below its own guard: memory
//! that ends the program when it is touched. Arenas are never unmapped, so a pointer to a [`Fibre`] stays valid for as
//! long as the process runs: a late wake finds a fibre, perhaps another thread's, and this one then checks its wait
//! condition once more.
//!
//! A seat keeps its last used stacks, the youngest first; stacks beyond [`KEPT`] go to its node, open to other seats. A
//! node keeps the pages of up to [`RESIDENT`] bytes; pages of further stacks go back to the system.

use super::Fibre;
use crate::heaps;
use crate::sync::Padded;
use crate::worker::with_worker;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

/// The least stack. It is enough for threads that compute and wait, but not for printing text.
pub(crate) const LEAST_BYTES: usize = 4096;
/// How many classes there are: the largest stack has 4 GiB.
pub(crate) const CLASSES: usize = 21;
const PAGE: usize = 4096;
/// The pages of the guard of a large stack. A function with a frame larger than a guard steps over it, unless its
/// compiler touches each page (gcc's and clang's `-fstack-clash-protection`; not all systems set it). Most frames
/// larger than a page hold buffers for a file or a text. Odd, so that the stacks of threads with the same work do not
/// all begin in the same sets of a cache.
const GUARD_PAGES: usize = 17;
/// So many free stacks of a class stay with a seat.
const KEPT: u32 = 64;
/// How many go from a seat to its node, or back, at once.
const MOVED: u32 = 32;
/// So many bytes of free stacks of a class keep their pages on a node.
const RESIDENT: usize = 64 << 20;
/// The system's memory left for others when stacks are made.
const LEFT_BYTES: u64 = 64 << 20;
/// Fills the lowest words of a stack without a guard.
const CANARY: usize = 0x7f5a_c3c3_5a7f_1234;

/// A class of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class(pub(crate) u8);

impl Class {
    /// The least class of at least this number of bytes; `None` if there is none.
    #[inline]
    pub(crate) fn of(bytes: usize) -> Option<Class> {
        let bytes = bytes.max(LEAST_BYTES).checked_next_power_of_two()?;
        let class = (bytes / LEAST_BYTES).trailing_zeros() as usize;
        (class < CLASSES).then_some(Class(class as u8))
    }

    pub(crate) fn bytes(self) -> usize {
        LEAST_BYTES << self.0
    }

    /// The guard of a small stack is a page: there may be a million of them, and their threads are to have small
    /// frames.
    fn guard_bytes(self) -> usize {
        if self.bytes() < 32 << 10 { PAGE } else { GUARD_PAGES * PAGE }
    }

    fn slot_bytes(self) -> usize {
        self.bytes() + self.guard_bytes()
    }
}

/// A stack of an arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Its lowest address; the guard lies below.
    pub(crate) bottom: usize,
    pub(crate) class: Class,
    /// Whether it has a canary instead of a guard.
    pub(crate) has_canary: bool,
}

impl Slot {
    pub(crate) fn top(&self) -> usize {
        self.bottom + self.class.bytes()
    }

    /// Whether the canary of a stack without a guard is intact.
    pub(crate) fn is_whole(&self) -> bool {
        #[expect(unsafe_code, reason = "looks at the lowest words of a stack")]
        // SAFETY: they are mapped, and only this thread uses the stack.
        unsafe {
            let words: *const usize = ptr::with_exposed_provenance(self.bottom);
            !self.has_canary || (words.read_volatile() == CANARY && words.add(1).read_volatile() == CANARY)
        }
    }

    /// Writes the canary.
    fn set_canary(&self) {
        #[expect(unsafe_code, reason = "writes the lowest words of a stack")]
        // SAFETY: they are mapped, and the stack is not in use.
        unsafe {
            let words: *mut usize = ptr::with_exposed_provenance_mut(self.bottom);
            words.write_volatile(CANARY);
            words.add(1).write_volatile(CANARY);
        }
    }

    /// Gives its pages back to the system. Their content is lost.
    fn give_up_pages(&self) {
        #[expect(unsafe_code, reason = "a system call that libc has no safe function for")]
        // SAFETY: the stack is not in use; its addresses stay mapped, and guards stay set.
        unsafe {
            libc::madvise(ptr::with_exposed_provenance_mut(self.bottom), self.class.bytes(), libc::MADV_DONTNEED);
        }
        if self.has_canary {
            self.set_canary();
        }
    }
}

/// How stacks of an arena are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guards {
    /// By `MADV_GUARD_INSTALL` (Linux 6.13), without a mapping of its own for each.
    Installed,
    /// By pages without access. Each splits its mapping, and a process has a limit of mappings.
    Protected,
    /// By a canary.
    Canaries,
}

const MADV_GUARD_INSTALL: libc::c_int = 102;

/// A piece of memory with stacks of one class.
pub(crate) struct Arena {
    start: usize,
    class: Class,
    fibres: Box<[Fibre]>,
    /// The arena made before.
    next: *const Arena,
}

impl Arena {
    /// The fibre whose stack has overflowed if this address was touched.
    fn of_guard(&self, address: usize) -> Option<&Fibre> {
        let offset = address.checked_sub(self.start)?;
        let fibre = self.fibres.get(offset / self.class.slot_bytes())?;
        (offset % self.class.slot_bytes() < self.class.guard_bytes()).then_some(fibre)
    }
}

/// The fibre of the stack above this address, if a guard is there. It takes no lock: signal handlers call it.
pub(crate) fn fibre_of_guard(address: usize) -> Option<&'static Fibre> {
    arenas().find_map(|arena| arena.of_guard(address))
}

/// All fibres ever made, including those in use.
pub(crate) fn all_fibres() -> impl Iterator<Item = &'static Fibre> {
    arenas().flat_map(|arena| arena.fibres.iter())
}

static ARENAS: AtomicPtr<Arena> = AtomicPtr::new(ptr::null_mut());

fn arenas() -> impl Iterator<Item = &'static Arena> {
    #[expect(unsafe_code, reason = "follows pointers to what is never freed")]
    // SAFETY: arenas are leaked, and written before they are put into the list.
    let arena = |arena: *const Arena| unsafe { arena.as_ref() };
    std::iter::successors(arena(ARENAS.load(Ordering::Acquire)), move |before| arena(before.next))
}

/// A list of free fibres, linked through themselves.
#[derive(Debug)]
pub(crate) struct List {
    first: *const Fibre,
    len: u32,
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: free fibres are used by the owner of the list alone.
unsafe impl Send for List {}

impl List {
    const EMPTY: List = List { first: ptr::null(), len: 0 };

    #[inline]
    fn push(&mut self, fibre: &'static Fibre) {
        fibre.next.set(self.first);
        self.first = fibre;
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<&'static Fibre> {
        #[expect(unsafe_code, reason = "follows a pointer to what is never freed")]
        // SAFETY: fibres are never freed, and those of this list are not in use.
        let fibre = unsafe { self.first.as_ref()? };
        self.first = fibre.next.get();
        self.len -= 1;
        Some(fibre)
    }

    fn move_to(&mut self, other: &mut List, most: u32) {
        for _ in 0..most {
            let Some(fibre) = self.pop() else { return };
            other.push(fibre);
        }
    }
}

/// Free stacks of a seat, by class.
#[derive(Debug)]
pub(crate) struct SeatStacks {
    free: [List; CLASSES],
    node: usize,
}

impl SeatStacks {
    /// For a seat on this node.
    pub(crate) fn new(node: usize) -> SeatStacks {
        SeatStacks { free: [const { List::EMPTY }; CLASSES], node }
    }

    /// A free fibre of the seat.
    #[inline]
    pub(crate) fn take_free(&mut self, class: Class) -> Option<&'static Fibre> {
        self.free[class.0 as usize].pop()
    }

    /// A free fibre. `None` if there is no memory for one.
    #[inline]
    pub(crate) fn take(&mut self, class: Class) -> Option<&'static Fibre> {
        match self.take_free(class) {
            Some(fibre) => Some(fibre),
            None => self.fill(class),
        }
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, class: Class) -> Option<&'static Fibre> {
        vicus_os::signals::watch_thread();
        let own = &mut self.free[class.0 as usize];
        let pool = Pool::of(self.node, class);
        pool.lock().take(own);
        if own.first.is_null() {
            pool.grow(own, class, self.node);
        }
        // A stack on another node is better than none.
        let mut others = (0..NODES).map(|node| Pool::of(node, class)).filter(|&other| !ptr::eq(other, pool));
        while own.first.is_null()
            && let Some(other) = others.next()
        {
            other.lock().take(own);
        }
        own.pop()
    }

    /// Gives back a fibre without a thread.
    #[inline]
    pub(crate) fn give(&mut self, fibre: &'static Fibre) {
        let own = &mut self.free[fibre.slot.class.0 as usize];
        own.push(fibre);
        if own.len > KEPT {
            self.give_some(fibre.slot.class);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_some(&mut self, class: Class) {
        Pool::of(self.node, class).lock().give(&mut self.free[class.0 as usize], MOVED, class);
    }

    /// Gives all to the node: the seat sleeps, or a thread waits for a stack.
    pub(crate) fn give_all(&mut self) {
        for (class, own) in self.free.iter_mut().enumerate().filter(|(_, own)| own.len > 0) {
            let class = Class(class as u8);
            Pool::of(self.node, class).lock().give(own, u32::MAX, class);
        }
    }
}

impl Drop for SeatStacks {
    fn drop(&mut self) {
        self.give_all();
    }
}

/// The free stacks of a class on a node.
struct Free {
    /// They have pages.
    warm: List,
    /// Their pages were given back to the system.
    cold: List,
    /// How many stacks the next arena has.
    next: u32,
}

impl Free {
    fn take(&mut self, to: &mut List) {
        self.warm.move_to(to, MOVED);
        if to.first.is_null() {
            self.cold.move_to(to, MOVED);
        }
    }

    fn give(&mut self, from: &mut List, most: u32, class: Class) {
        let warmest = (RESIDENT / class.bytes()).max(1) as u32;
        for _ in 0..most {
            let Some(fibre) = from.pop() else { return };
            if self.warm.len < warmest {
                self.warm.push(fibre);
            } else {
                fibre.forget_stack();
                fibre.slot.give_up_pages();
                self.cold.push(fibre);
            }
        }
    }
}

struct Pool(Mutex<Free>);

impl Pool {
    const fn new() -> Pool {
        Pool(Mutex::new(Free { warm: List::EMPTY, cold: List::EMPTY, next: 16 }))
    }

    fn of(node: usize, class: Class) -> &'static Pool {
        &POOLS[node % NODES].0[class.0 as usize]
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Free> {
        self.0.lock().expect("nothing panics under this lock")
    }

    /// Makes an arena, and gives its stacks to the list and to the pool. Nothing, if there is no memory for it.
    fn grow(&self, own: &mut List, class: Class, node: usize) {
        let most = ((32 << 20) / class.slot_bytes()).clamp(1, 16_384) as u32;
        let mut free = self.lock();
        // Another seat may have been quicker.
        free.take(own);
        if !own.first.is_null() {
            return;
        }
        let mut count = free.next.clamp(1, most);
        while count > 0 {
            if let Some(arena) = make(class, count as usize, node) {
                free.next = count.saturating_mul(2);
                STACKS[class.0 as usize].fetch_add(count as usize, Ordering::Release);
                // The lowest addresses are taken first.
                for fibre in arena.fibres.iter().rev() {
                    free.cold.push(fibre);
                }
                free.take(own);
                return;
            }
            count /= 2;
        }
    }
}

/// So many nodes have pools of their own; of machines with more, some share one.
pub(crate) const NODES: usize = 16;

/// By node and class.
static POOLS: [Padded<[Pool; CLASSES]>; NODES] = [const { Padded([const { Pool::new() }; CLASSES]) }; NODES];

/// How many bytes all stacks of the process may have together.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static MADE: AtomicUsize = AtomicUsize::new(0);
/// By class: how many there are.
static STACKS: [AtomicUsize; CLASSES] = [const { AtomicUsize::new(0) }; CLASSES];
/// How many mappings guards have made.
static SPLIT: AtomicUsize = AtomicUsize::new(0);

/// Limits the bytes of the stacks of all lightweight threads of the process. Existing stacks stay.
pub(crate) fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// Whether there is a stack of this class, or one can be made now: otherwise a thread would wait for one for ever, as
/// no other can end and leave its own.
#[inline]
pub(crate) fn is_to_be_had(class: Class) -> bool {
    STACKS[class.0 as usize].load(Ordering::Relaxed) > 0 || make_first(class)
}

/// Makes the first stacks of a class. Whether there are any.
#[cold]
fn make_first(class: Class) -> bool {
    let node = with_worker(|worker| worker.node().index()).unwrap_or(0);
    let (pool, mut made) = (Pool::of(node, class), List::EMPTY);
    pool.grow(&mut made, class, node);
    pool.lock().give(&mut made, u32::MAX, class);
    STACKS[class.0 as usize].load(Ordering::Relaxed) > 0
}

/// Whether this number of stacks of this class may be made. Counts them if so.
fn book(class: Class, count: usize) -> bool {
    let bytes = class.bytes() * count;
    let is_within = MADE.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= LIMIT.load(Ordering::Relaxed);
    // Each needs at least a page when it is used.
    let has_memory = || available().is_none_or(|free| free >= LEFT_BYTES + (count * LEAST_BYTES) as u64);
    if is_within && has_memory() {
        return true;
    }
    MADE.fetch_sub(bytes, Ordering::Relaxed);
    false
}

/// The memory still available to programs by the system's account; `None` without one.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Maps an arena. `None` if there is no memory for it.
fn make(class: Class, count: usize, node: usize) -> Option<&'static Arena> {
    if !book(class, count) {
        return None;
    }
    let mut fibres: Vec<Fibre> = Vec::new();
    if fibres.try_reserve_exact(count).is_err() {
        MADE.fetch_sub(class.bytes() * count, Ordering::Relaxed);
        return None;
    }
    let bytes = class.slot_bytes() * count;
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    #[expect(unsafe_code, reason = "system calls that libc has no safe function for")]
    // SAFETY: the kernel chooses unused addresses; the advice is about these alone.
    let start = unsafe {
        let start = libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0);
        if start == libc::MAP_FAILED {
            MADE.fetch_sub(class.bytes() * count, Ordering::Relaxed);
            return None;
        }
        libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
        start.expose_provenance()
    };
    // Placed for its first user.
    heaps::prefer(start, bytes, node);
    super::overflow::watch();
    super::sanitizers::find();
    let guard_of = |index: usize| start + index * class.slot_bytes();
    let guard_bytes = class.guard_bytes();
    let (installed, mut guards) = (install_guards(count, guard_bytes, guard_of), Guards::Installed);
    fibres.extend((0..count).map(|index| {
        if index >= installed {
            guards = guard(guard_of(index), guard_bytes, guards);
        }
        let slot = Slot { bottom: guard_of(index) + guard_bytes, class, has_canary: guards == Guards::Canaries };
        if slot.has_canary {
            slot.set_canary();
        }
        Fibre::new(slot)
    }));
    let fibres = fibres.into_boxed_slice();
    let arena = Box::into_raw(Box::new(Arena { start, class, fibres, next: ptr::null() }));
    let mut first = ARENAS.load(Ordering::Relaxed);
    loop {
        #[expect(unsafe_code, reason = "links the arena")]
        // SAFETY: no other thread knows it yet.
        unsafe {
            (*arena).next = first;
        }
        // Release: readers of the list see its content.
        match ARENAS.compare_exchange_weak(first, arena, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(other) => first = other,
        }
    }
    #[expect(unsafe_code, reason = "a reference to what is never freed")]
    // SAFETY: it was leaked above.
    NonNull::new(arena).map(|arena| unsafe { arena.as_ref() })
}

/// Installs many guards by a few calls, if the kernel takes advice for a list of ranges from the process itself (Linux
/// 6.13). Returns how many, from the first one on, are installed.
fn install_guards(count: usize, guard_bytes: usize, guard_of: impl Fn(usize) -> usize) -> usize {
    /// The kernel's limit for one call.
    const MOST: usize = libc::UIO_MAXIOV as usize;
    if count < 4 {
        return 0;
    }
    #[expect(unsafe_code, reason = "system calls that libc has no functions for")]
    // SAFETY: they take numbers and a list of ranges; the pages are an arena's, and not in use; the file is closed
    // once.
    unsafe {
        let this = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) as libc::c_int;
        if this < 0 {
            return 0;
        }
        let mut installed = 0;
        let mut ranges = Vec::with_capacity(count.min(MOST));
        while installed < count {
            ranges.clear();
            ranges.extend((installed..count.min(installed + MOST)).map(|index| libc::iovec {
                iov_base: ptr::with_exposed_provenance_mut(guard_of(index)),
                iov_len: guard_bytes,
            }));
            let advice = MADV_GUARD_INSTALL;
            let bytes = libc::syscall(libc::SYS_process_madvise, this, ranges.as_ptr(), ranges.len(), advice, 0);
            let done = usize::try_from(bytes).unwrap_or(0) / guard_bytes;
            installed += done;
            if done < ranges.len() {
                break;
            }
        }
        libc::close(this);
        installed
    }
}

/// Sets a guard. Returns the kind of guard set: the wanted one, or a substitute.
fn guard(start: usize, bytes: usize, wanted: Guards) -> Guards {
    let pages = ptr::with_exposed_provenance_mut::<libc::c_void>(start);
    let is_installed = || {
        #[expect(unsafe_code, reason = "a system call that libc has no safe function for")]
        // SAFETY: the pages are an arena's, and not in use.
        let refused = unsafe { libc::madvise(pages, bytes, MADV_GUARD_INSTALL) };
        refused == 0
    };
    let is_protected = || {
        // Two mappings for each, and half of all are for others.
        if SPLIT.fetch_add(2, Ordering::Relaxed) >= most_mappings() / 2 {
            return false;
        }
        #[expect(unsafe_code, reason = "a system call that libc has no safe function for")]
        // SAFETY: as above.
        let refused = unsafe { libc::mprotect(pages, bytes, libc::PROT_NONE) };
        refused == 0
    };
    if wanted == Guards::Installed && is_installed() {
        Guards::Installed
    } else if wanted != Guards::Canaries && is_protected() {
        Guards::Protected
    } else {
        Guards::Canaries
    }
}

/// How many mappings the system allows a process.
fn most_mappings() -> usize {
    static MOST: LazyLock<usize> = LazyLock::new(|| {
        let told = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        told.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530)
    });
    *MOST
}

#[cfg(all(test, not(loom)))]
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

    /// The guard of a page in a fresh mapping, and whether the page can be written then.
    fn guarded(wanted: Guards) -> (Guards, bool) {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let mut pipe = [0; 2];
        #[expect(unsafe_code, reason = "system calls")]
        // SAFETY: the kernel chooses the addresses, and tells whether it can read them, without a signal.
        unsafe {
            let page = libc::mmap(ptr::null_mut(), PAGE, access, flags, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            let by = guard(page.expose_provenance(), PAGE, wanted);
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let is_readable = libc::write(pipe[1], page, 1) == 1;
            pipe.iter().for_each(|&end| _ = libc::close(end));
            libc::munmap(page, PAGE);
            (by, is_readable)
        }
    }

    #[test]
    fn what_the_kernel_refuses_is_guarded_by_what_there_is() {
        let (by, is_readable) = guarded(Guards::Installed);
        assert!(by != Guards::Canaries && !is_readable, "{by:?}");
        assert_eq!(guarded(Guards::Protected), (Guards::Protected, false));
        assert_eq!(guarded(Guards::Canaries), (Guards::Canaries, true));
    }

    #[test]
    fn many_guards_are_installed_by_few_calls_or_one_by_one() {
        const COUNT: usize = 3000;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let mut pipe = [0; 2];
        #[expect(unsafe_code, reason = "system calls")]
        // SAFETY: the kernel chooses the addresses, and tells whether it can read them, without a signal.
        unsafe {
            let bytes = 2 * COUNT * PAGE;
            let start = libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            // Each second page.
            let installed = install_guards(COUNT, PAGE, |index| start.expose_provenance() + 2 * index * PAGE);
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            for page in 0..2 * COUNT {
                let is_readable = libc::write(pipe[1], start.byte_add(page * PAGE), 1) == 1;
                assert_eq!(is_readable, page % 2 == 1 || page / 2 >= installed, "page {page} of {installed} guards");
                let mut byte = 0_u8;
                assert!(!is_readable || libc::read(pipe[0], (&raw mut byte).cast(), 1) == 1);
            }
            pipe.iter().for_each(|&end| _ = libc::close(end));
            libc::munmap(start, bytes);
        }
    }

    #[test]
    fn a_canary_shows_that_the_end_was_overwritten() {
        let mut own = SeatStacks::new(0);
        let fibre = own.take(Class(2)).expect("there is memory");
        let slot = Slot { has_canary: true, ..fibre.slot };
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
        own.give(fibre);
    }

    #[test]
    fn a_guard_belongs_to_the_stack_above() {
        let mut own = SeatStacks::new(0);
        // Of one page below 32 KiB, and of more from there on.
        for (class, guard) in [(Class(0), PAGE), (Class(2), PAGE), (Class(3), 17 * PAGE), (Class(4), 17 * PAGE)] {
            let fibre = own.take(class).expect("there is memory");
            let found = |address| fibre_of_guard(address).map(ptr::from_ref);
            assert_eq!(found(fibre.slot.bottom - 1), Some(ptr::from_ref(fibre)));
            assert_eq!(found(fibre.slot.bottom - guard), Some(ptr::from_ref(fibre)));
            assert_ne!(found(fibre.slot.bottom - guard - 1), Some(ptr::from_ref(fibre)));
            assert_eq!(found(fibre.slot.bottom), None);
            assert_eq!(found(fibre.slot.top() - 1), None);
            own.give(fibre);
        }
    }
}
