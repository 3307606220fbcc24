//! Memory for lightweight threads: cells of a few cache lines, for a thread's closure and later its result.
//!
//! A seat keeps its last used cells, the youngest first: a program that spawns and joins again and again stays in a few
//! lines of its caches. It keeps them in two *magazines*. Further cells go to its node, open to other seats and other
//! threads: cells wander from spawning seats to running ones. A whole magazine moves at once, so that no thread looks
//! at its cells on the way. A seat that takes cells used by another one asks for their lines some cells ahead. Large
//! pieces of memory are huge pages, since a million threads waiting to begin touch each of their cells once.
//!
//! The addresses stay for ever, for the next threads; the pages behind them go back to the system when a runtime ends,
//! and when a seat has slept for as long as freed memory waits ([`give_back`]). Magazines name free cells by their
//! addresses, and free cells hold no data: so a piece with only free cells may lose its pages while its cells keep
//! their addresses.
//!
//! Values beyond the largest cell come from the program's allocator.
//!
//! Magazines are those of Bonwick and Adams, "Magazines and Vmem", USENIX ATC 2001, §3.1.

use crate::threads::fibres::of_worker_if_any;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard};
use vicus_fibres::NODES;
use vicus_machine::layer::{Padded, with_worker};
use vicus_memory::prefetch;
use vicus_os::pages;

const LINE: usize = 64;
/// Cells have from two lines to as many as these more.
const CLASSES: usize = 4;
const LEAST_LINES: usize = 2;
/// So many cells a magazine has: with the rest of it they are 2 KiB.
const MOST: usize = 254;
/// Distance in cells of the prefetch from the cell being taken.
const AHEAD: usize = 4;
/// The largest piece of memory requested at once: a huge page.
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

const fn cell_bytes(class: usize) -> usize {
    (class + LEAST_LINES) * LINE
}

/// Free cells of a class.
struct Magazine {
    /// The next one in the node's list.
    next: Option<Box<Magazine>>,
    /// Invariant: at most [`MOST`].
    len: usize,
    /// The first `len` are cells.
    cells: [*mut u8; MOST],
}

impl Magazine {
    /// An empty one. `None` if there is no memory for it.
    fn new() -> Option<Box<Magazine>> {
        let layout = Layout::new::<Magazine>();
        #[expect(unsafe_code, reason = "an allocation that may fail")]
        // SAFETY: the layout is not empty; all bytes at 0 are an empty magazine.
        unsafe {
            let magazine: *mut Magazine = alloc_zeroed(layout).cast();
            (!magazine.is_null()).then(|| Box::from_raw(magazine))
        }
    }

    /// Gives the cell back if it is full.
    #[inline]
    fn push(&mut self, cell: NonNull<u8>) -> Result<(), NonNull<u8>> {
        let Some(place) = self.cells.get_mut(self.len) else { return Err(cell) };
        *place = cell.as_ptr();
        self.len += 1;
        Ok(())
    }

    #[inline]
    fn pop(&mut self) -> Option<NonNull<u8>> {
        let at = self.len.checked_sub(1)?;
        self.len = at;
        if let Some(&ahead) = self.cells.get(at.wrapping_sub(AHEAD)) {
            prefetch::<true>(ahead);
            prefetch::<true>(ahead.wrapping_add(LINE));
        }
        NonNull::new(self.cells[at])
    }
}

/// The free cells of a seat, of one class.
#[derive(Default)]
struct Hand {
    /// Cells come from here, and go here.
    loaded: Option<Box<Magazine>>,
    /// Full or empty: so a seat that crosses the border between two magazines again and again does not go to its node
    /// each time.
    other: Option<Box<Magazine>>,
}

impl Hand {
    fn swap(&mut self) {
        std::mem::swap(&mut self.loaded, &mut self.other);
    }
}

/// The free cells of a seat, by class.
pub(crate) struct SeatCells {
    free: [Hand; CLASSES],
    node: usize,
}

#[expect(unsafe_code, reason = "it has pointers")]
// SAFETY: free cells are used by the owner of their magazine alone.
unsafe impl Send for SeatCells {}

impl SeatCells {
    /// For a seat on this node.
    pub(crate) fn new(node: usize) -> SeatCells {
        SeatCells { free: Default::default(), node }
    }

    #[inline]
    fn take(&mut self, class: usize) -> Option<NonNull<u8>> {
        match self.free[class].loaded.as_mut().and_then(|loaded| loaded.pop()) {
            Some(cell) => Some(cell),
            None => self.take_more(class),
        }
    }

    /// The loaded magazine is empty, or there is none.
    #[cold]
    #[inline(never)]
    fn take_more(&mut self, class: usize) -> Option<NonNull<u8>> {
        let hand = &mut self.free[class];
        hand.swap();
        if hand.loaded.as_ref().is_none_or(|loaded| loaded.len == 0) {
            let mut pool = Pool::lock(self.node, class);
            match pool.take_full() {
                Some(full) => hand.loaded.replace(full).into_iter().for_each(|empty| pool.give(empty)),
                None => {
                    if hand.loaded.is_none() {
                        hand.loaded = pool.take_empty();
                    }
                    // Without memory for a magazine, only the requested cell is taken.
                    let Some(loaded) = &mut hand.loaded else { return pool.take_one(class) };
                    while let Some(cell) = pool.take_one(class)
                        && loaded.push(cell).is_ok()
                        && loaded.len < MOST
                    {}
                }
            }
        }
        hand.loaded.as_mut()?.pop()
    }

    #[inline]
    fn give(&mut self, class: usize, cell: NonNull<u8>) {
        let given = self.free[class].loaded.as_mut().map_or(Err(cell), |loaded| loaded.push(cell));
        if let Err(cell) = given {
            self.give_more(class, cell);
        }
    }

    /// The loaded magazine is full, or there is none.
    #[cold]
    #[inline(never)]
    fn give_more(&mut self, class: usize, cell: NonNull<u8>) {
        let hand = &mut self.free[class];
        hand.swap();
        if hand.loaded.as_ref().is_none_or(|loaded| loaded.len > 0) {
            let mut pool = Pool::lock(self.node, class);
            if let Some(empty) = pool.take_empty() {
                hand.loaded.replace(empty).into_iter().for_each(|full| pool.give(full));
            }
        }
        let given = hand.loaded.as_mut().map_or(Err(cell), |loaded| loaded.push(cell));
        if let Err(cell) = given {
            Pool::lock(self.node, class).give_one(cell);
        }
    }
}

/// Gives pages back to the system: those of pieces of memory without cells in use or in a seat's hands. The cells stay
/// free as they are.
pub(crate) fn give_back() {
    for class in 0..CLASSES {
        // A cell may be free on another node than its origin.
        let mut pools: Vec<MutexGuard<'_, Pool>> = (0..NODES).map(|node| Pool::lock(node, class)).collect();
        if !pools.iter_mut().fold(false, |any, pool| any | std::mem::take(&mut pool.has_more_free)) {
            continue;
        }
        let mut free: HashMap<usize, (*mut u8, usize)> = HashMap::new();
        for &piece in pools.iter().flat_map(|pool| &pool.pieces) {
            free.insert(piece.addr(), (piece, 0));
        }
        for pool in &mut pools {
            pool.gather_loose();
            let mut magazine = pool.full.as_deref();
            while let Some(full) = magazine {
                for &cell in &full.cells[..full.len] {
                    // A cell of a first, smaller piece is in none of these.
                    if let Some((_, count)) = free.get_mut(&(cell.addr() & !(PIECE_BYTES - 1))) {
                        *count += 1;
                    }
                }
                magazine = full.next.as_deref();
            }
        }
        let whole = PIECE_BYTES / cell_bytes(class);
        for (start, _) in free.into_values().filter(|&(_, count)| count == whole) {
            let Some(start) = NonNull::new(start) else { continue };
            #[expect(unsafe_code, reason = "the content goes")]
            // SAFETY: the piece begins at this address, and is a pool's for ever. This number of cells fills it: all
            // are free, and their pools are locked; the content of free cells does not matter.
            unsafe {
                pages::give_up(start, PIECE_BYTES);
            }
        }
    }
}

impl Drop for SeatCells {
    fn drop(&mut self) {
        for (class, hand) in self.free.iter_mut().enumerate() {
            let both = [hand.loaded.take(), hand.other.take()];
            both.into_iter().flatten().for_each(|magazine| Pool::lock(self.node, class).give(magazine));
        }
    }
}

/// Room for a value; null if there is no memory. `seat`: the calling thread's, if it sits on one.
#[inline]
pub(crate) fn take<T>(seat: Option<&mut SeatCells>) -> *mut T {
    let layout = Layout::new::<T>();
    let Some(class) = (const { class_of(Layout::new::<T>()) }) else {
        #[expect(unsafe_code, reason = "memory for a value")]
        // SAFETY: it is not empty, as it has more bytes than a cell or a greater alignment.
        return unsafe { alloc(layout).cast() };
    };
    let cell = match seat {
        Some(seat) => seat.take(class),
        None => take_outside(class),
    };
    cell.map_or(ptr::null_mut(), |cell| cell.as_ptr().cast())
}

#[cold]
fn take_outside(class: usize) -> Option<NonNull<u8>> {
    Pool::lock(0, class).take_one(class)
}

/// Gives back the room of a dropped value.
///
/// # Safety
/// It is from [`take`] for the same type, and is not used after this call.
#[inline]
#[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
pub(crate) unsafe fn release<T>(place: NonNull<T>) {
    let place = place.cast();
    let Some(class) = (const { class_of(Layout::new::<T>()) }) else {
        // SAFETY: the caller's promise; it was allocated with this layout.
        return unsafe { dealloc(place.as_ptr(), Layout::new::<T>()) };
    };
    let given = with_worker(|worker| of_worker_if_any(worker).map(|own| own.cells.give(class, place)));
    if given.flatten().is_none() {
        Pool::lock(0, class).give_one(place);
    }
}

/// A free cell in no magazine.
struct Loose(*mut Loose);

/// The free cells of a class on a node.
struct Pool {
    /// Magazines with cells.
    full: Option<Box<Magazine>>,
    empty: Option<Box<Magazine>>,
    /// Cells of threads without a seat.
    loose: *mut Loose,
    /// Cells have come here since [`give_back`].
    has_more_free: bool,
    /// Memory not cut into cells yet.
    fresh: *mut u8,
    fresh_bytes: usize,
    /// How much is asked for next.
    next_bytes: usize,
    /// Its pieces of [`PIECE_BYTES`], aligned to their size.
    pieces: Vec<*mut u8>,
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: the memory there belongs to the pool.
unsafe impl Send for Pool {}

impl Pool {
    const NEW: Pool = Pool {
        full: None,
        empty: None,
        loose: ptr::null_mut(),
        has_more_free: false,
        fresh: ptr::null_mut(),
        fresh_bytes: 0,
        next_bytes: FIRST_BYTES,
        pieces: Vec::new(),
    };

    fn lock(node: usize, class: usize) -> MutexGuard<'static, Pool> {
        /// By node and class.
        static POOLS: [Padded<[Mutex<Pool>; CLASSES]>; NODES] =
            [const { Padded([const { Mutex::new(Pool::NEW) }; CLASSES]) }; NODES];
        POOLS[node % NODES].0[class].lock().expect("nothing panics under this lock")
    }

    fn take_full(&mut self) -> Option<Box<Magazine>> {
        let mut full = self.full.take()?;
        self.full = full.next.take();
        Some(full)
    }

    fn take_empty(&mut self) -> Option<Box<Magazine>> {
        let Some(mut empty) = self.empty.take() else { return Magazine::new() };
        self.empty = empty.next.take();
        Some(empty)
    }

    fn give(&mut self, mut magazine: Box<Magazine>) {
        self.has_more_free |= magazine.len > 0;
        let list = if magazine.len > 0 { &mut self.full } else { &mut self.empty };
        magazine.next = list.take();
        *list = Some(magazine);
    }

    fn take_loose(&mut self) -> Option<NonNull<u8>> {
        let loose = NonNull::new(self.loose)?;
        #[expect(unsafe_code, reason = "follows a pointer to a free cell")]
        // SAFETY: `give_one` wrote it, and free cells are not used by others.
        let next = unsafe { loose.read().0 };
        self.loose = next;
        Some(loose.cast())
    }

    /// Moves loose cells to magazines, as far as there is memory for these.
    fn gather_loose(&mut self) {
        while !self.loose.is_null()
            && let Some(mut magazine) = self.take_empty()
        {
            while magazine.len < MOST
                && let Some(cell) = self.take_loose()
            {
                magazine.push(cell).expect("it is not full");
            }
            self.give(magazine);
        }
        self.has_more_free = false;
    }

    /// A cell; `None` if there is no memory.
    fn take_one(&mut self, class: usize) -> Option<NonNull<u8>> {
        if let Some(loose) = self.take_loose() {
            return Some(loose);
        }
        if let Some(full) = &mut self.full {
            let cell = full.pop();
            if full.len == 0 {
                let empty = self.take_full();
                empty.into_iter().for_each(|empty| self.give(empty));
            }
            return cell;
        }
        let bytes = cell_bytes(class);
        if self.fresh_bytes < bytes && !self.grow() {
            return None;
        }
        let cell = NonNull::new(self.fresh);
        #[expect(unsafe_code, reason = "cuts a cell from memory of the pool")]
        // SAFETY: at least this number of bytes is left there, and unused; they begin at a line, and are never freed.
        unsafe {
            self.fresh = self.fresh.add(bytes);
        }
        self.fresh_bytes -= bytes;
        cell
    }

    fn give_one(&mut self, cell: NonNull<u8>) {
        let loose: NonNull<Loose> = cell.cast();
        #[expect(unsafe_code, reason = "writes into a free cell")]
        // SAFETY: its user is done with it; it has room for a pointer, and stays for ever.
        unsafe {
            loose.write(Loose(self.loose));
        }
        self.loose = loose.as_ptr();
        self.has_more_free = true;
    }

    /// Asks for more memory. Whether there was any.
    #[cold]
    fn grow(&mut self) -> bool {
        let bytes = self.next_bytes;
        // A huge page is one by its address, too.
        let align = if bytes == PIECE_BYTES { PIECE_BYTES } else { LINE };
        let Ok(layout) = Layout::from_size_align(bytes, align) else { return false };
        #[expect(unsafe_code, reason = "memory that stays, and advice on it")]
        // SAFETY: the layout is not empty; the advice only changes the time of the first touch.
        let piece = unsafe {
            let piece = alloc(layout);
            if align == PIECE_BYTES
                && let Some(piece) = NonNull::new(piece)
            {
                pages::prefer_huge(piece, bytes);
            }
            piece
        };
        if piece.is_null() {
            return false;
        }
        // A piece without room in the list is never given back.
        if align == PIECE_BYTES && self.pieces.try_reserve(1).is_ok() {
            self.pieces.push(piece);
        }
        // The rest of the last piece is less than a cell.
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
        let kept = own.free[1].loaded.iter().chain(&own.free[1].other).map(|magazine| magazine.len).sum::<usize>();
        assert!(kept <= 2 * MOST, "the rest goes to the node");
        let mut again: Vec<*mut Value> = (0..count).map(|_| take(Some(&mut own))).collect();
        again.sort_unstable();
        // Other tests of this process use the pool as well.
        let kept = again.iter().filter(|cell| taken.binary_search(cell).is_ok()).count();
        assert!(kept > count / 2, "{kept} of {count} were used again");
        again.iter().for_each(|cell| own.give(1, NonNull::new(cell.cast()).unwrap()));
    }

    #[test]
    fn cells_of_a_seat_that_runs_go_back_to_one_that_spawns() {
        type Value = [u8; 256];
        let (mut spawns, mut runs) = (SeatCells::new(1), SeatCells::new(1));
        let mut seen = std::collections::HashSet::new();
        // Across the borders of magazines, and more often than cells would be new each time.
        for round in 0..200 {
            let taken: Vec<*mut Value> = (0..300 + round % 7).map(|_| take(Some(&mut spawns))).collect();
            let mut here = std::collections::HashSet::new();
            for cell in taken {
                assert!(here.insert(cell), "a cell was given twice");
                seen.insert(cell);
                runs.give(2, NonNull::new(cell.cast()).unwrap());
            }
        }
        assert!(seen.len() < 10 * MOST, "{} cells for 306 threads at once", seen.len());
        drop((spawns, runs));
        // Callers without a seat get the cells given back by seats.
        let outside = Pool::lock(1, 2).take_one(2).unwrap();
        assert!(seen.contains(&outside.as_ptr().cast()));
        Pool::lock(1, 2).give_one(outside);
        assert_eq!(Pool::lock(1, 2).take_one(2), Some(outside));
        Pool::lock(1, 2).give_one(outside);
    }

    /// How many of these bytes have pages, as the kernel tells.
    fn resident(start: *mut u8, bytes: usize) -> usize {
        let mut pages = vec![0_u8; bytes / 4096];
        #[expect(unsafe_code, reason = "a system call")]
        // SAFETY: the addresses are mapped, and there is a byte for each page.
        let failed = unsafe { libc::mincore(start.cast(), bytes, pages.as_mut_ptr()) };
        assert_eq!(failed, 0, "the system has pages of 4 KiB");
        pages.iter().filter(|&&page| page & 1 == 1).count() * 4096
    }

    #[test]
    fn pages_of_unused_cells_go_back_to_the_system_and_the_cells_stay() {
        // Of this class and node no other test has cells.
        type Value = [u8; 320];
        let mut own = SeatCells::new(2);
        let count = 8 * PIECE_BYTES / size_of::<Value>();
        let fill = |own: &mut SeatCells| -> Vec<*mut Value> {
            let taken: Vec<*mut Value> = (0..count).map(|_| take(Some(own))).collect();
            #[expect(unsafe_code, reason = "writes into cells that were taken")]
            // SAFETY: each is this test's, and large enough.
            taken.iter().for_each(|&cell| unsafe { cell.write([1; 320]) });
            taken
        };
        let taken = fill(&mut own);
        let first =
            |taken: &[*mut Value]| taken.iter().map(|cell| cell.map_addr(|at| at & !(PIECE_BYTES - 1))).collect();
        let pieces: std::collections::BTreeSet<*mut Value> = first(&taken);
        let all = |pieces: &std::collections::BTreeSet<*mut Value>| -> usize {
            // The first pieces are smaller, and may have no pages around them.
            let whole = |piece: &&*mut Value| {
                let of_piece = |cell: &&*mut Value| cell.addr() & !(PIECE_BYTES - 1) == piece.addr();
                taken.iter().filter(of_piece).count() == PIECE_BYTES / size_of::<Value>()
            };
            pieces.iter().filter(whole).map(|piece| resident(piece.cast(), PIECE_BYTES)).sum()
        };
        let before = all(&pieces);
        assert!(before >= 6 * PIECE_BYTES, "{before}");
        taken.iter().for_each(|cell| own.give(3, NonNull::new(cell.cast()).unwrap()));
        give_back();
        let left = all(&pieces);
        // The cells in a seat's hands may lie in two pieces or more.
        assert!(left <= before / 2, "{left} of {before} bytes have pages");
        let again = fill(&mut own);
        let mut both = [taken.clone(), again.clone()];
        both.iter_mut().for_each(|cells| cells.sort_unstable());
        assert_eq!(both[0], both[1], "the same cells are used again");
        again.iter().for_each(|cell| own.give(3, NonNull::new(cell.cast()).unwrap()));
        // Those in hand are given up with the seat.
        drop(own);
        give_back();
        assert_eq!(all(&pieces), 0);
    }
}
