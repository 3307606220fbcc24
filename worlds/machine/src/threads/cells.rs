//! Memory for lightweight threads: cells of a few cache lines, which hold a thread's closure and later its result.
//!
//! A seat keeps the cells that it has used last, the youngest first: a program that spawns and joins again and again stays in a few lines
//! of its caches. What a seat has beyond [`KEPT`] goes to its node, from which other seats and other threads take: cells wander from the seats
//! that spawn to those that run. The memory is not given back to the system; the next threads have it. Large pieces of it are asked for in huge
//! pages, since a million threads that wait to begin touch each of their cells once.
//!
//! What needs more than the largest cell comes from the program's allocator.

use crate::fibres::stack::NODES;
use crate::sync::Padded;
use crate::worker::with_worker;
use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Mutex;

const LINE: usize = 64;
/// Cells have from two lines to as many as these more.
const CLASSES: usize = 4;
const LEAST_LINES: usize = 2;
/// So many cells of a class stay with a seat: some more than a queue that is long has threads.
const KEPT: u32 = 2048;
/// How many go from a seat to its node, or back, at once.
const MOVED: u32 = 256;
/// The largest piece of memory that is asked for at once: a huge page.
const PIECE_BYTES: usize = 2 << 20;
/// The smallest one.
const FIRST_BYTES: usize = 16 << 10;

/// The class of cells for a value; `None` if it is too large for one.
const fn class_of(layout: Layout) -> Option<usize> {
    let lines = layout.size().div_ceil(LINE);
    let lines = if lines < LEAST_LINES { LEAST_LINES } else { lines };
    let fits = layout.align() <= LINE && lines < LEAST_LINES + CLASSES;
    if fits { Some(lines - LEAST_LINES) } else { None }
}

/// A free cell.
struct Free {
    next: Cell<*const Free>,
}

/// Free cells of a class, linked through themselves.
struct List {
    first: *const Free,
    len: u32,
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: free cells are used by the owner of the list alone.
unsafe impl Send for List {}

impl List {
    const EMPTY: List = List { first: ptr::null(), len: 0 };

    /// # Safety
    /// The cell belongs to the caller, and is not used after this call. It has room for a [`Free`], and stays for ever.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    unsafe fn push(&mut self, cell: NonNull<u8>) {
        let cell: *mut Free = cell.as_ptr().cast();
        // SAFETY: the caller's promise.
        unsafe { cell.write(Free { next: Cell::new(self.first) }) };
        self.first = cell;
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<NonNull<u8>> {
        #[expect(unsafe_code, reason = "follows a pointer to a free cell")]
        // SAFETY: `push` wrote it, and free cells are not used by others.
        let cell = unsafe { self.first.as_ref()? };
        self.first = cell.next.get();
        self.len -= 1;
        NonNull::new(ptr::from_ref(cell).cast_mut().cast())
    }

    fn move_to(&mut self, other: &mut List, most: u32) {
        for _ in 0..most {
            let Some(cell) = self.pop() else { return };
            #[expect(unsafe_code, reason = "moves a cell from list to list")]
            // SAFETY: it was free here.
            unsafe {
                other.push(cell);
            }
        }
    }
}

/// The free cells of a seat, by class.
pub(crate) struct SeatCells {
    free: [List; CLASSES],
    node: usize,
}

impl SeatCells {
    /// For a seat on this node.
    pub(crate) fn new(node: usize) -> SeatCells {
        SeatCells { free: [const { List::EMPTY }; CLASSES], node }
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, class: usize) -> Option<NonNull<u8>> {
        let own = &mut self.free[class];
        Pool::of(self.node, class).lock().expect("nothing panics under this lock").take(own, class, MOVED);
        own.pop()
    }

    #[inline]
    fn give(&mut self, class: usize, cell: NonNull<u8>) {
        let own = &mut self.free[class];
        #[expect(unsafe_code, reason = "puts a cell into the list of its class")]
        // SAFETY: `release` is done with it.
        unsafe {
            own.push(cell);
        }
        if own.len > KEPT {
            self.give_some(class);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_some(&mut self, class: usize) {
        let pool = Pool::of(self.node, class);
        self.free[class].move_to(&mut pool.lock().expect("nothing panics under this lock").free, MOVED);
    }
}

impl Drop for SeatCells {
    fn drop(&mut self) {
        for (class, own) in self.free.iter_mut().enumerate().filter(|(_, own)| own.len > 0) {
            let mut pool = Pool::of(self.node, class).lock().expect("nothing panics under this lock");
            own.move_to(&mut pool.free, u32::MAX);
        }
    }
}

/// Room for a value; null if there is no memory. `seat`: the calling thread's, if it sits on one.
#[inline]
pub(super) fn take<T>(seat: Option<&mut SeatCells>) -> *mut T {
    let layout = Layout::new::<T>();
    let Some(class) = (const { class_of(Layout::new::<T>()) }) else {
        #[expect(unsafe_code, reason = "memory for a value")]
        // SAFETY: it is not empty, as it has more bytes than a cell or a greater alignment.
        return unsafe { alloc(layout).cast() };
    };
    let cell = match seat {
        Some(seat) => seat.free[class].pop().or_else(|| seat.fill(class)),
        None => take_outside(class),
    };
    cell.map_or(ptr::null_mut(), |cell| cell.as_ptr().cast())
}

#[cold]
fn take_outside(class: usize) -> Option<NonNull<u8>> {
    let mut one = List::EMPTY;
    Pool::of(0, class).lock().expect("nothing panics under this lock").take(&mut one, class, 1);
    one.pop()
}

/// Gives back the room of a value that is no more.
///
/// # Safety
/// It is from [`take`] for the same type, and is not used after this call.
#[inline]
#[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
pub(super) unsafe fn release<T>(place: NonNull<T>) {
    let place = place.cast();
    let Some(class) = (const { class_of(Layout::new::<T>()) }) else {
        // SAFETY: the caller's promise; it was allocated with this layout.
        return unsafe { dealloc(place.as_ptr(), Layout::new::<T>()) };
    };
    if with_worker(|worker| worker.cells.give(class, place)).is_none() {
        // SAFETY: the caller's promise.
        unsafe { Pool::of(0, class).lock().expect("nothing panics under this lock").free.push(place) };
    }
}

/// The free cells of a class on a node.
struct Pool {
    free: List,
    /// Memory from which no cell was cut yet.
    fresh: *mut u8,
    fresh_bytes: usize,
    /// How much is asked for next.
    next_bytes: usize,
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: the memory there belongs to the pool.
unsafe impl Send for Pool {}

impl Pool {
    const NEW: Pool = Pool { free: List::EMPTY, fresh: ptr::null_mut(), fresh_bytes: 0, next_bytes: FIRST_BYTES };

    fn of(node: usize, class: usize) -> &'static Mutex<Pool> {
        /// By node and class.
        static POOLS: [Padded<[Mutex<Pool>; CLASSES]>; NODES] =
            [const { Padded([const { Mutex::new(Pool::NEW) }; CLASSES]) }; NODES];
        &POOLS[node % NODES].0[class]
    }

    /// So many cells go to the list, or fewer if there is no memory.
    fn take(&mut self, to: &mut List, class: usize, most: u32) {
        self.free.move_to(to, most);
        let bytes = (class + LEAST_LINES) * LINE;
        while to.len < most {
            if self.fresh_bytes < bytes && !self.grow() {
                return;
            }
            #[expect(unsafe_code, reason = "cuts a cell from memory of the pool")]
            // SAFETY: so many bytes are left there, which nobody else uses; they begin at a line, and are never freed.
            unsafe {
                to.push(NonNull::new_unchecked(self.fresh));
                self.fresh = self.fresh.add(bytes);
            }
            self.fresh_bytes -= bytes;
        }
    }

    /// Asks for more memory. Whether there was any.
    #[cold]
    fn grow(&mut self) -> bool {
        let bytes = self.next_bytes;
        // A huge page is one by its address, too.
        let align = if bytes == PIECE_BYTES { PIECE_BYTES } else { LINE };
        let Ok(layout) = Layout::from_size_align(bytes, align) else { return false };
        #[expect(unsafe_code, reason = "memory that stays, and advice on it")]
        // SAFETY: the layout is not empty; the advice changes nothing but the time that the first touch takes.
        let piece = unsafe {
            let piece = alloc(layout);
            #[cfg(target_os = "linux")]
            if align == PIECE_BYTES && !piece.is_null() {
                libc::madvise(piece.cast(), bytes, libc::MADV_HUGEPAGE);
            }
            piece
        };
        if piece.is_null() {
            return false;
        }
        // What is left of the last piece is less than a cell.
        (self.fresh, self.fresh_bytes) = (piece, bytes);
        self.next_bytes = (bytes * 2).min(PIECE_BYTES);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_room_for_its_value() {
        assert_eq!(class_of(Layout::new::<u8>()), Some(0));
        assert_eq!(class_of(Layout::new::<[u8; 128]>()), Some(0));
        assert_eq!(class_of(Layout::new::<[u8; 129]>()), Some(1));
        assert_eq!(class_of(Layout::new::<[u8; 320]>()), Some(3));
        assert_eq!(class_of(Layout::new::<[u8; 321]>()), None);
        #[repr(align(128))]
        struct Wide;
        assert_eq!(class_of(Layout::new::<Wide>()), None);
    }

    #[test]
    fn cells_do_not_overlap_and_are_used_again() {
        type Value = [u8; 192];
        let mut own = SeatCells::new(0);
        let count = 3 * (PIECE_BYTES / size_of::<Value>());
        let mut taken: Vec<*mut Value> = (0..count).map(|_| take(Some(&mut own))).collect();
        taken.sort_unstable();
        assert!(taken.iter().all(|cell| !cell.is_null() && cell.addr() % LINE == 0));
        assert!(taken.windows(2).all(|two| two[1].addr() - two[0].addr() >= size_of::<Value>()));
        for &cell in &taken {
            own.give(1, NonNull::new(cell.cast()).unwrap());
        }
        assert!(own.free[1].len <= KEPT + 1, "the rest goes to the node");
        let mut again: Vec<*mut Value> = (0..count).map(|_| take(Some(&mut own))).collect();
        again.sort_unstable();
        // Other tests of this process use the pool as well.
        let kept = again.iter().filter(|cell| taken.binary_search(cell).is_ok()).count();
        assert!(kept > count / 2, "{kept} of {count} were used again");
        again.iter().for_each(|cell| own.give(1, NonNull::new(cell.cast()).unwrap()));
    }
}
