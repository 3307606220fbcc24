//! Maps an address to its placed range and to its location. Every thread may ask, without a lock.
//!
//! The atlas has a region of addresses of its own, cut into slots. Each slot in use points to the [`Plot`] of its
//! range: a few words, and a table if the arrangement needs one. One of the words is the *home number* of a range in
//! one place. Several caches share a node's memory; by the home number a scheduler that deals tasks to caches finds the
//! range's cache among them.
//!
//! Plots and tables are never freed, only used again. A reader of a plot reads wrong words while the plot changes; the
//! version is odd during a change, and then tells the reader to ask again. (A sequence lock: Boehm, "Can Seqlocks Get
//! Along With Programming Language Memory Models?", MSPC 2012.) So the words read from a plot give the index of a
//! location, and the index becomes a [`LocationId`] only once the version has shown that nothing changed: before, it
//! may be any word.

use crate::distribution::Arrangement;
use crate::pages::{PageError, Pages};
use crate::region::HUGE_PAGE;
use crate::slots::Slots;
use crate::sync::{AtomicPtr, AtomicUsize, Mutex, MutexGuard, Ordering, fence};
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use vicus_topology::LocationId;

/// The limit of slots, for a small table; with more addresses the slots are larger.
const MOST_SLOTS: usize = 1 << 16;

/// The region and its map.
pub(crate) struct Atlas {
    pages: Arc<dyn Pages>,
    base: NonNull<u8>,
    bytes: usize,
    slot_bytes: usize,
    /// The plot of each slot's range; null if none.
    slots: Box<[AtomicPtr<Plot>]>,
    /// How many locations there are.
    locations: usize,
    /// Whether it keeps the location of unplaced pages once told ([`Atlas::learn`]).
    learns: bool,
    state: Mutex<State>,
}

/// The changing part of the map, behind the atlas's lock.
pub(crate) struct State {
    used: Slots,
    /// By location: the next home number, equal to the number of whole ranges there that have got one.
    homes: Vec<usize>,
    /// All there are, from `Box::leak`.
    plots: Vec<NonNull<Plot>>,
    tables: Vec<NonNull<Table>>,
    /// Plots without a range.
    free_plots: Vec<NonNull<Plot>>,
    free_tables: Vec<NonNull<Table>>,
}

impl std::fmt::Debug for Atlas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Atlas").field("base", &self.base).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[expect(unsafe_code, reason = "it has pointers")]
// SAFETY: the base is only read; plots and tables are shared, live as long as the atlas, and consist of atomics.
unsafe impl Send for Atlas {}

#[expect(unsafe_code, reason = "it has pointers")]
// SAFETY: as above.
unsafe impl Sync for Atlas {}

/// How one range lies.
struct Plot {
    /// Odd while the rest changes, and while no range has it.
    version: AtomicUsize,
    start: AtomicUsize,
    bytes: AtomicUsize,
    unit: AtomicUsize,
    kind: AtomicUsize,
    argument: AtomicUsize,
    home: AtomicUsize,
    table: AtomicPtr<Table>,
}

type Table = Box<[AtomicUsize]>;

const UNPLACED: usize = 0;
const ONE: usize = 1;
const ROUND: usize = 2;
const PARTS: usize = 3;
const EACH: usize = 4;

/// The content of a plot.
#[derive(Clone, Copy)]
pub(crate) struct PlotData<'a> {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    /// Bytes of a unit.
    unit: usize,
    kind: usize,
    /// `ONE`: the location; `ROUND`: how many locations; `PARTS`: how many parts; others: how many units have a word.
    argument: usize,
    /// `ONE`: the home number of the whole range.
    home: usize,
    /// How many locations the atlas has.
    locations: usize,
    /// `PARTS`: the end of each location's part, in bytes; `EACH`: the location of each unit; `UNPLACED`: one more than
    /// the location of each unit, or 0 while it is unknown.
    table: Option<&'a Table>,
}

impl PlotData<'_> {
    /// The index of the location of a byte of the range, and the end of the run of bytes there. Offsets from the start.
    pub(crate) fn at(&self, offset: usize) -> (Option<usize>, usize) {
        let table = self.table.map_or(&[][..], |table| &table[..self.argument]);
        let unit = offset / self.unit;
        let (location, end) = match self.kind {
            ONE => (Some(self.argument), self.bytes),
            ROUND => (Some(unit % self.argument), (unit + 1) * self.unit),
            PARTS => {
                let location = table.partition_point(|end| end.load(Ordering::Relaxed) <= offset);
                let end = table.get(location).map(|end| end.load(Ordering::Relaxed));
                // A part is missing only if the table changes meanwhile; the version then tells.
                end.map_or((None, self.bytes), |end| (Some(location), end))
            }
            EACH => (Some(table[unit].load(Ordering::Relaxed)), (unit + 1) * self.unit),
            _ => match table.get(unit) {
                Some(told) => (told.load(Ordering::Relaxed).checked_sub(1), (unit + 1) * self.unit),
                None => (None, self.bytes),
            },
        };
        (location, end.clamp(offset + 1, self.bytes))
    }

    /// Whether the whole range was asked to lie at one location.
    pub(crate) fn is_in_one_place(&self) -> bool {
        self.kind == ONE
    }

    /// Whether no location was asked for.
    pub(crate) fn is_unplaced(&self) -> bool {
        self.kind == UNPLACED
    }

    /// The location of a unit.
    pub(crate) fn at_unit(&self, unit: usize) -> Option<usize> {
        self.at(unit * self.unit).0
    }

    /// The home number of a byte of the range. A range in one place takes the next number of that place; in other
    /// ranges, successive units at a place have successive numbers.
    fn home_of(&self, offset: usize) -> usize {
        if self.kind == ONE { self.home } else { offset / self.unit / self.locations }
    }

    /// Tells the bytes at each location, with their home numbers, from one offset up to another, starting with the
    /// location at the first offset. The caller does not distinguish numbers `cycle` apart and may be told either of
    /// them.
    pub(crate) fn tally(
        &self,
        from: usize,
        to: usize,
        cycle: usize,
        tell: &mut dyn FnMut(Option<usize>, usize, usize),
    ) {
        let mut from = from;
        // How many units until location and home number repeat.
        let round = self.argument.saturating_mul(cycle);
        let round_bytes = self.unit.saturating_mul(round);
        if self.kind == ROUND && to - from >= round_bytes {
            let rounds = (to - from) / round_bytes;
            for unit in (0..round).map(|step| from / self.unit + step) {
                tell(Some(unit % self.argument), unit / self.locations, rounds * self.unit);
            }
            from += rounds * round_bytes;
        }
        while from < to {
            let (location, mut end) = self.at(from);
            if cycle > 1 && self.kind != ONE && location.is_some() {
                // A location's part has several homes.
                end = end.min((from / self.unit / self.locations + 1) * self.locations * self.unit);
            }
            let end = end.min(to);
            // The divisions for home numbers take as long as all else: a caller without a use for the numbers skips
            // them.
            let home = if cycle > 1 { self.home_of(from) } else { 0 };
            tell(location, home, end - from);
            from = end;
        }
    }
}

impl Plot {
    fn data(&self, locations: usize) -> PlotData<'_> {
        let table = self.table.load(Ordering::Relaxed);
        PlotData {
            start: self.start.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            unit: self.unit.load(Ordering::Relaxed),
            kind: self.kind.load(Ordering::Relaxed),
            argument: self.argument.load(Ordering::Relaxed),
            home: self.home.load(Ordering::Relaxed),
            locations,
            #[expect(unsafe_code, reason = "tables are never freed before the atlas is")]
            // SAFETY: null, or a table of this atlas. The atlas outlives the plot's borrow.
            table: unsafe { table.as_ref() },
        }
    }

    /// Writes the words [`Plot::read`] reads. The caller has the atlas's lock, and the version is odd.
    fn write(&self, data: PlotData<'_>, table: *mut Table) {
        // A reader of any of these words also sees the odd version.
        fence(Ordering::Release);
        self.start.store(data.start, Ordering::Relaxed);
        self.bytes.store(data.bytes, Ordering::Relaxed);
        self.unit.store(data.unit, Ordering::Relaxed);
        self.kind.store(data.kind, Ordering::Relaxed);
        self.argument.store(data.argument, Ordering::Relaxed);
        self.home.store(data.home, Ordering::Relaxed);
        self.table.store(table, Ordering::Relaxed);
    }

    /// Calls `f` with the content, or gives `None` if the plot changed meanwhile.
    fn read<R>(&self, locations: usize, f: impl FnOnce(PlotData<'_>) -> R) -> Option<R> {
        let version = self.version.load(Ordering::Acquire);
        let unchanged = || {
            fence(Ordering::Acquire);
            self.version.load(Ordering::Relaxed) == version
        };
        if version % 2 == 1 {
            return None;
        }
        let data = self.data(locations);
        // Asked twice: `f` relies on fields that belong together, and then reads the table.
        if !unchanged() {
            return None;
        }
        let answer = f(data);
        unchanged().then_some(answer)
    }
}

/// A range's place in the atlas.
#[derive(Debug)]
pub(crate) struct Entry {
    first: usize,
    slots: usize,
    /// Null before it is entered.
    plot: *const Plot,
}

impl Atlas {
    /// Reserves about this number of addresses, for ranges at this number of locations. With `learns`, unplaced ranges
    /// have a word for each unit.
    pub(crate) fn reserve(
        pages: &Arc<dyn Pages>,
        bytes: usize,
        locations: usize,
        learns: bool,
    ) -> Result<Atlas, PageError> {
        let slot_bytes = (bytes / MOST_SLOTS).max(HUGE_PAGE).next_power_of_two();
        let slots = bytes.div_ceil(slot_bytes);
        let bytes = slots.checked_mul(slot_bytes).ok_or(PageError::Full)?;
        let base = pages.reserve(bytes, HUGE_PAGE)?;
        Ok(Atlas {
            pages: Arc::clone(pages),
            base,
            bytes,
            slot_bytes,
            slots: (0..slots).map(|_| AtomicPtr::new(null_mut())).collect(),
            locations,
            learns,
            state: Mutex::new(State {
                used: Slots::new(slots),
                homes: vec![0; locations],
                plots: Vec::new(),
                tables: Vec::new(),
                free_plots: Vec::new(),
                free_tables: Vec::new(),
            }),
        })
    }

    /// How many addresses it has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All its addresses, in use or not.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.base.addr().get();
        start..start + self.bytes
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics behind the atlas's lock")
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.lock())
    }

    /// The addresses of all slots with a range.
    pub(crate) fn all(&self) -> Vec<Range<usize>> {
        let start = |slot: usize| self.base.addr().get() + slot * self.slot_bytes;
        self.with(|state| state.used.in_use().map(|slot| start(slot)..start(slot + 1)).collect())
    }

    /// Takes a row of free addresses; it begins with a slot.
    pub(crate) fn take(&self, bytes: usize) -> Option<(Entry, NonNull<u8>)> {
        let slots = bytes.div_ceil(self.slot_bytes);
        let first = self.with(|state| state.used.take(slots))?;
        #[expect(unsafe_code, reason = "an offset within the region")]
        // SAFETY: there is such a slot.
        let start = unsafe { self.base.add(first * self.slot_bytes) };
        Some((Entry { first, slots, plot: std::ptr::null() }, start))
    }

    /// Maps a new range: from now on its addresses are known. For copies, `unit` is the distance between two.
    pub(crate) fn enter(&self, entry: &mut Entry, start: usize, bytes: usize, unit: usize, arrangement: &Arrangement) {
        let untold = if self.learns { bytes.div_ceil(unit) } else { 0 };
        let (kind, argument) = match arrangement {
            Arrangement::Unplaced => (UNPLACED, untold),
            Arrangement::One(location) => (ONE, location.index()),
            Arrangement::Round { locations } | Arrangement::Copies { locations } => (ROUND, *locations),
            Arrangement::Parts { ends } => (PARTS, ends.len()),
            Arrangement::Each { locations } => (EACH, locations.len()),
        };
        // How many words the table needs.
        let words = if matches!(kind, ONE | ROUND) { 0 } else { argument };
        let word = |at: usize| match arrangement {
            Arrangement::Parts { ends } => ends[at].saturating_mul(unit),
            Arrangement::Each { locations } => locations[at].index(),
            // The table's former range has left words in it.
            _ => 0,
        };
        let one = if let Arrangement::One(location) = arrangement { Some(location.index()) } else { None };
        let (plot, table, home) = self.with(|state| {
            let next = one.and_then(|location| state.homes.get_mut(location));
            let home = next.map_or(0, |next| std::mem::replace(next, next.wrapping_add(1)));
            (state.plot(), state.table(words), home)
        });
        let locations = self.locations;
        #[expect(unsafe_code, reason = "plots and tables are never freed before the atlas is")]
        // SAFETY: both are this atlas's.
        let (shared, list) = unsafe { (plot.as_ref(), table.map(|table| table.as_ref())) };
        shared.write(
            PlotData { start, bytes, unit, kind, argument, home, locations, table: None },
            table.map_or(null_mut(), NonNull::as_ptr),
        );
        for (to, value) in list.into_iter().flatten().zip((0..words).map(word)) {
            to.store(value, Ordering::Relaxed);
        }
        let version = shared.version.load(Ordering::Relaxed);
        shared.version.store(version.wrapping_add(1), Ordering::Release);
        for slot in &self.slots[entry.first..entry.first + entry.slots] {
            slot.store(plot.as_ptr(), Ordering::Release);
        }
        entry.plot = plot.as_ptr();
    }

    /// Takes a range out of the map, if it was entered: its addresses are not known any more.
    pub(crate) fn leave(&self, entry: &Entry) {
        if let Some(plot) = NonNull::new(entry.plot.cast_mut()) {
            for slot in &self.slots[entry.first..entry.first + entry.slots] {
                slot.store(null_mut(), Ordering::Relaxed);
            }
            #[expect(unsafe_code, reason = "plots are never freed before the atlas is")]
            // SAFETY: as it says.
            let shared = unsafe { plot.as_ref() };
            let version = shared.version.load(Ordering::Relaxed);
            // Release: a reader that sees the odd version finds the slots empty.
            shared.version.store(version.wrapping_add(1), Ordering::Release);
            let table = NonNull::new(shared.table.load(Ordering::Relaxed));
            self.with(|state| {
                state.free_plots.push(plot);
                state.free_tables.extend(table);
            });
        }
    }

    /// Gives back the addresses of a range that has left the map.
    pub(crate) fn give_back(&self, entry: &Entry) {
        self.with(|state| state.used.give(entry.first, entry.slots));
    }

    /// The map's data on a range inside it.
    pub(crate) fn data<'a>(&'a self, entry: &'a Entry) -> PlotData<'a> {
        assert!(!entry.plot.is_null(), "the range was entered");
        #[expect(unsafe_code, reason = "plots are never freed before the atlas is")]
        // SAFETY: as the reason says; the plot does not change as long as the range is in the map.
        unsafe {
            (*entry.plot).data(self.locations)
        }
    }

    /// Notes the new location of a unit of a range with a list.
    pub(crate) fn relocate(&self, entry: &Entry, unit: usize, location: LocationId) {
        let data = self.data(entry);
        assert!(data.kind == EACH && unit < data.argument, "unit {unit} of a range that lies by a list");
        data.table.expect("it has a list")[unit].store(location.index(), Ordering::Relaxed);
    }

    /// Keeps the location of an address, for its unit, if the address is in an unplaced range: later questions get this
    /// answer.
    pub(crate) fn learn(&self, address: usize, location: LocationId) {
        if !self.owns(address) {
            return;
        }
        // A range leaves the map before its table goes to another range, and both need the lock.
        let _state = self.lock();
        self.ask(address, |data| {
            let unit = (address - data.start) / data.unit;
            if let (UNPLACED, Some(word)) = (data.kind, data.table.and_then(|table| table[..data.argument].get(unit))) {
                word.store(location.index() + 1, Ordering::Relaxed);
            }
        });
    }

    pub(crate) fn owns(&self, address: usize) -> bool {
        address.wrapping_sub(self.base.addr().get()) < self.bytes
    }

    /// Calls `f` with the content of the plot of an address's range. `f` may be called again if the plot changes
    /// meanwhile.
    pub(crate) fn ask<R>(&self, address: usize, mut f: impl FnMut(PlotData<'_>) -> R) -> Option<R> {
        let offset = address.wrapping_sub(self.base.addr().get());
        if offset >= self.bytes {
            return None;
        }
        let slot = &self.slots[offset / self.slot_bytes];
        loop {
            #[expect(unsafe_code, reason = "plots are never freed before the atlas is")]
            // SAFETY: null, or as it says.
            let plot = unsafe { slot.load(Ordering::Acquire).as_ref()? };
            let is_in = |data: &PlotData<'_>| address.wrapping_sub(data.start) < data.bytes;
            if let Some(answer) = plot.read(self.locations, |data| is_in(&data).then(|| f(data))) {
                return answer;
            }
        }
    }

    /// The beginning of the first range behind an address, if it is before `end`; else `end`.
    pub(crate) fn next(&self, address: usize, end: usize) -> usize {
        let base = self.base.addr().get();
        if !self.owns(address) {
            return if address < base { base.min(end) } else { end };
        }
        let slot = (address - base) / self.slot_bytes;
        // A range may begin behind its slot's beginning, for its alignment.
        match self.ask_slot(slot) {
            Some(start) if start > address => start.min(end),
            _ => (base + (slot + 1) * self.slot_bytes).min(end),
        }
    }

    fn ask_slot(&self, slot: usize) -> Option<usize> {
        #[expect(unsafe_code, reason = "plots are never freed before the atlas is")]
        // SAFETY: null, or as it says.
        let plot = unsafe { self.slots[slot].load(Ordering::Acquire).as_ref()? };
        plot.read(self.locations, |data| data.start)
    }
}

impl State {
    /// A plot without a range; its version is odd.
    fn plot(&mut self) -> NonNull<Plot> {
        self.free_plots.pop().unwrap_or_else(|| {
            let plot = NonNull::from(Box::leak(Box::new(Plot {
                version: AtomicUsize::new(1),
                start: AtomicUsize::new(0),
                bytes: AtomicUsize::new(0),
                unit: AtomicUsize::new(1),
                kind: AtomicUsize::new(UNPLACED),
                argument: AtomicUsize::new(0),
                home: AtomicUsize::new(0),
                table: AtomicPtr::new(null_mut()),
            })));
            self.plots.push(plot);
            plot
        })
    }

    /// A table of at least `words` words; none if none are needed.
    fn table(&mut self, words: usize) -> Option<NonNull<Table>> {
        if words == 0 {
            return None;
        }
        #[expect(unsafe_code, reason = "tables are never freed before the atlas is")]
        // SAFETY: as it says.
        let length = |table: NonNull<Table>| unsafe { table.as_ref() }.len();
        let fits = |table: &NonNull<Table>| (words..=words.saturating_mul(4)).contains(&length(*table));
        if let Some(at) = self.free_tables.iter().position(fits) {
            return Some(self.free_tables.swap_remove(at));
        }
        let table: Table = (0..words.next_power_of_two()).map(|_| AtomicUsize::new(0)).collect();
        let table = NonNull::from(Box::leak(Box::new(table)));
        self.tables.push(table);
        Some(table)
    }
}

impl Drop for Atlas {
    #[expect(unsafe_code, reason = "frees what it leaked and releases what it reserved")]
    fn drop(&mut self) {
        let mut state = self.lock();
        // SAFETY: leaked in `plot` and `table`. No other pointer to them is left: ranges hold the memory, the owner of
        // this atlas. The region was reserved as such.
        unsafe {
            state.plots.drain(..).for_each(|plot| drop(Box::from_raw(plot.as_ptr())));
            state.tables.drain(..).for_each(|table| drop(Box::from_raw(table.as_ptr())));
            self.pages.release(self.base, self.bytes, HUGE_PAGE);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::pages::FakePages;

    /// A range is looked up while it leaves and another one takes its addresses, its plot and its table. Finds these
    /// mutants: one of `read`'s two questions left out; `write`'s fence, or `read`'s, left out; an even version while a
    /// plot changes.
    #[test]
    fn loom_an_address_is_at_a_location_of_its_range() {
        // Bounded: all interleavings would take minutes.
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let pages: Arc<dyn Pages> = Arc::new(FakePages::new(1));
            let atlas = loom::sync::Arc::new(Atlas::reserve(&pages, HUGE_PAGE, 10, true).unwrap());
            // The two arrangements differ in every word, so a mixed answer would be noticed.
            let low = Arrangement::Parts { ends: vec![1, 2] };
            let high = Arrangement::Each { locations: [8, 9].map(LocationId::new).into() };
            let (mut entry, start) = atlas.take(8192).unwrap();
            let at = start.addr().get();
            atlas.enter(&mut entry, at, 8192, 4096, &low);
            let asker = {
                let atlas = atlas.clone();
                loom::thread::spawn(move || atlas.ask(at + 4096, |data| data.at(at + 4096 - data.start).0))
            };
            atlas.leave(&entry);
            atlas.give_back(&entry);
            let (mut entry, again) = atlas.take(4096).unwrap();
            assert_eq!(again, start);
            atlas.enter(&mut entry, at + 2048, 4096, 2048, &high);
            let seen = asker.join().unwrap();
            assert!([None, Some(Some(1)), Some(Some(9))].contains(&seen), "{seen:?}");
            atlas.leave(&entry);
        });
    }

    /// A location is learned while its range leaves the map and another range, at other addresses, gets its plot and
    /// its table: the other range must not be told this location. Finds these mutants: `learn` without the lock; a
    /// table not emptied for the next range.
    #[test]
    fn loom_what_is_learned_of_a_range_stays_with_it() {
        // Bounded: all interleavings would take minutes.
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let pages: Arc<dyn Pages> = Arc::new(FakePages::new(1));
            let atlas = loom::sync::Arc::new(Atlas::reserve(&pages, 2 * HUGE_PAGE, 10, true).unwrap());
            let enter = || {
                let (mut entry, start) = atlas.take(8192).unwrap();
                let start = start.addr().get();
                atlas.enter(&mut entry, start, 8192, 4096, &Arrangement::Unplaced);
                (entry, start)
            };
            let told = |start: usize| atlas.ask(start + 4096, |data| data.at(4096).0);
            let (entry, at) = enter();
            let learner = {
                let atlas = atlas.clone();
                loom::thread::spawn(move || atlas.learn(at + 4096, LocationId::new(7)))
            };
            // The addresses are not given back, so the other range has others.
            atlas.leave(&entry);
            let (other, elsewhere) = enter();
            assert_eq!(told(elsewhere), Some(None));
            learner.join().unwrap();
            assert_eq!((told(at), told(elsewhere)), (None, Some(None)));
            atlas.learn(elsewhere + 4096, LocationId::new(3));
            assert_eq!(told(elsewhere), Some(Some(3)));
            atlas.leave(&other);
        });
    }
}
