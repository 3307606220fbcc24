//! The rows inserted into and deleted from a sorted sequence, as a value. A change copies only a part of it.
//!
//! ```text
//!  base      a  b  c  d  e        merged      a  b  x  d  e  y
//!  delta     + x before c         row number  0  1  2  3  4  5
//!            - c
//!            + y at the end
//! ```
//!
//! Each entry knows its place in the base: the row behind an insertion, or the deleted row. Entries are sorted, in
//! chunks, and chunks in groups; versions share these; the insertions less the deletions in front of each are known. So
//! both the place of a row in the merged sequence and the row at a place there are found by binary search, and base and
//! delta are read as one sequence of numbered rows. For many reads, a version makes a copy by columns of its own
//! (`flat.rs`).

mod flat;

pub(crate) use flat::{Flat, Located};

use crate::ids::Id;
use crate::packed::{gallop, partition_point};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use vicus_flow::{Grow, NoMemory};

/// The ids of a row, in the order of its index.
pub type Row = [Id; 4];

/// The greatest number of entries of a chunk. A change of one row copies a chunk: at most 6 KiB.
const CHUNK: usize = 128;

/// The greatest number of chunks of a group. A change of one row copies the list of a group's chunks, and the list of
/// groups.
const GROUP: usize = 64;

/// [`Flat`] is made when this part of the entries could have been read: a search takes this many times as long as
/// copying an entry.
const READS: usize = 16;

/// The change of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowChange {
    /// The row is new.
    Insert,
    /// The row is gone.
    Delete,
}

impl RowChange {
    const fn net(self) -> isize {
        match self {
            RowChange::Insert => 1,
            RowChange::Delete => -1,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    row: Row,
    /// The row of the base behind an insertion, or the deleted row.
    at: u32,
    /// The insertions less the deletions in front of it, in its chunk.
    net: i16,
    change: RowChange,
}

impl Entry {
    /// The place in the merged sequence of an inserted row, or of the row behind a deleted one. `net` is its chunk's.
    fn place(&self, net: isize) -> isize {
        self.at as isize + self.net as isize + net
    }
}

/// A list of entries, or of parts with entries.
trait Counted {
    /// The first row, and its place in the base.
    fn first(&self) -> (&Row, usize);

    fn len(&self) -> usize;

    /// The insertions less the deletions.
    fn net(&self) -> isize;

    /// Its memory, in bytes; `own`: without the parts that another version has, too.
    fn bytes(&self, own: bool) -> usize;
}

#[derive(Debug)]
struct Chunk {
    /// Invariant: not empty; rows ascend strictly.
    entries: Vec<Entry>,
}

impl Chunk {
    fn new(mut entries: Vec<Entry>) -> Chunk {
        let mut net = 0;
        for entry in &mut entries {
            entry.net = net as i16;
            net += entry.change.net();
        }
        Chunk { entries }
    }
}

impl Counted for Chunk {
    fn first(&self) -> (&Row, usize) {
        (&self.entries[0].row, self.entries[0].at as usize)
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn net(&self) -> isize {
        self.entries.last().map_or(0, |last| last.net as isize + last.change.net())
    }

    fn bytes(&self, _: bool) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

/// The data read to search for a part.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// The row and the place of its first entry.
    row: Row,
    at: usize,
    /// The insertions less the deletions in front of it, in the list.
    net: isize,
}

/// Parts with their heads.
#[derive(Clone, Debug)]
struct List<P> {
    parts: Vec<Arc<P>>,
    /// The head of each part.
    heads: Vec<Head>,
    len: usize,
    net: isize,
}

/// Consecutive chunks.
type Group = List<Chunk>;

impl<P> Default for List<P> {
    fn default() -> List<P> {
        List { parts: Vec::new(), heads: Vec::new(), len: 0, net: 0 }
    }
}

impl<P: Counted> List<P> {
    fn new(parts: Vec<Arc<P>>) -> Result<List<P>, NoMemory> {
        let (mut heads, mut net, mut len) = (Vec::with_room(parts.len())?, 0, 0);
        for part in &parts {
            let (row, at) = part.first();
            heads.push(Head { row: *row, at, net });
            net += part.net();
            len += part.len();
        }
        Ok(List { parts, heads, len, net })
    }

    /// The last part with a head before something, if there is one.
    #[inline]
    fn last_before(&self, before: impl Fn(&Head) -> bool) -> Option<usize> {
        partition_point(0..self.heads.len(), |n| before(&self.heads[n])).checked_sub(1)
    }

    /// Gives each part the changes of its rows: `change` appends the changed part to the parts of the new list. Parts
    /// without changes are shared.
    fn with(
        &self,
        changes: &[(Row, RowChange)],
        mut change: impl FnMut(Option<&P>, &[(Row, RowChange)], &mut Vec<Arc<P>>) -> Result<(), NoMemory>,
    ) -> Result<Vec<Arc<P>>, NoMemory> {
        let mut parts = Vec::with_room(self.parts.len() + 2)?;
        let mut rest = changes;
        for (place, part) in self.parts.iter().enumerate() {
            let next = self.heads.get(place + 1).map(|next| next.row);
            let count = match next {
                _ if rest.is_empty() => 0,
                None => rest.len(),
                Some(next) => gallop(0..rest.len(), 0, |n| rest[n].0 < next),
            };
            let (here, others) = rest.split_at(count);
            rest = others;
            match here {
                [] => {
                    parts.grow(1)?;
                    parts.push(Arc::clone(part));
                }
                _ => change(Some(part), here, &mut parts)?,
            }
        }
        if !rest.is_empty() {
            // There was no part.
            change(None, rest, &mut parts)?;
        }
        Ok(parts)
    }
}

impl Counted for Group {
    fn first(&self) -> (&Row, usize) {
        (&self.heads[0].row, self.heads[0].at)
    }

    fn len(&self) -> usize {
        self.len
    }

    fn net(&self) -> isize {
        self.net
    }

    fn bytes(&self, own: bool) -> usize {
        list_bytes(self, own)
    }
}

/// The bytes of a list; `own`: without those parts that another version has, too.
fn list_bytes<P: Counted>(list: &List<P>, own: bool) -> usize {
    let counted = list.parts.iter().filter(|part| !own || Arc::strong_count(part) == 1);
    let parts: usize = counted.map(|part| part.bytes(own) + size_of::<P>()).sum();
    parts + list.parts.capacity() * size_of::<Arc<P>>() + list.heads.capacity() * size_of::<Head>()
}

/// The changes of a sequence of rows since it was built. A version shares most of its chunks with the one before.
#[derive(Debug, Default)]
pub struct Delta {
    groups: List<Group>,
    /// About how many reads have searched.
    reads: AtomicUsize,
    flat: OnceLock<Flat>,
}

/// A part of the merged sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MergedRun {
    /// These rows of the base.
    Base(Range<usize>),
    /// An inserted row.
    Inserted(Row),
}

/// Like [`MergedRun`], without a copy.
pub(crate) enum Part<'a> {
    Base(Range<usize>),
    Inserted(&'a Row),
}

/// The place of an entry, or the end. Invariant: the entry is less than its chunk's length, so a place has one name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Spot {
    group: u32,
    chunk: u16,
    entry: u16,
}

impl Delta {
    /// How many rows are inserted or deleted.
    pub fn len(&self) -> usize {
        self.groups.len
    }

    /// Whether the merged sequence is the base.
    pub fn is_empty(&self) -> bool {
        self.groups.len == 0
    }

    /// The insertions less the deletions.
    pub fn net(&self) -> isize {
        self.groups.net
    }

    /// The memory of its entries, in bytes; versions share most of them.
    pub fn heap_bytes(&self) -> usize {
        list_bytes(&self.groups, false) + self.flat.get().map_or(0, Flat::heap_bytes)
    }

    /// The part of these bytes that no other version has.
    pub(crate) fn own_bytes(&self) -> usize {
        list_bytes(&self.groups, true) + self.flat.get().map_or(0, Flat::heap_bytes)
    }

    /// The change of a row; `None` if it is as in the base.
    pub fn change(&self, row: &Row) -> Option<RowChange> {
        let entry = self.entry(self.first_not(|other| other < row))?;
        (entry.row == *row).then_some(entry.change)
    }

    /// The insertions less the deletions among the rows meeting `before`: with the number of such rows in the base, a
    /// place in the merged sequence. `before` must be true for all rows up to some row, and false from there on.
    pub fn net_of(&self, before: impl Fn(&Row) -> bool) -> isize {
        self.net_at(self.first_not(before))
    }

    /// With these changes as well. Rows must ascend strictly, and change: an inserted row is absent now, a deleted one
    /// is present. `at` gives the place of a row in the base, or else of the row behind it; it is asked for ascending
    /// rows. Takes O(√n) for one change.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn with(&self, changes: &[(Row, RowChange)], mut at: impl FnMut(&Row) -> usize) -> Result<Delta, NoMemory> {
        debug_assert!(changes.is_sorted_by(|a, b| a.0 < b.0), "changes ascend");
        let none = Group::default();
        let groups = self.groups.with(changes, |group, changes, groups| {
            let chunks = group.unwrap_or(&none).with(changes, |chunk, changes, chunks| {
                let entries = chunk.map_or(&[][..], |chunk| &chunk.entries);
                divide(&changed(entries, changes, &mut at)?, CHUNK, chunks, |part| Ok(Chunk::new(Vec::copied(part)?)))
            })?;
            divide(&chunks, GROUP, groups, |part| {
                let mut chunks = Vec::with_room(part.len())?;
                chunks.extend(part.iter().map(Arc::clone));
                List::new(chunks)
            })
        })?;
        Ok(Delta { groups: List::new(groups)?, ..Delta::default() })
    }

    /// Its columns, if the reads of this call and of earlier ones are worth a copy.
    #[inline]
    pub(crate) fn flat(&self, reads: usize) -> Option<&Flat> {
        self.flat.get().or_else(|| self.flat_if_due(reads))
    }

    #[cold]
    fn flat_if_due(&self, reads: usize) -> Option<&Flat> {
        let due = self.len() / READS;
        let before = self.reads.fetch_add(reads, Ordering::Relaxed);
        // The reader at this point copies; others go on without waiting for it. Without memory, all do.
        if before <= due
            && before + reads > due
            && let Ok(flat) = Flat::new(self)
        {
            let _ = self.flat.set(flat);
        }
        self.flat.get()
    }

    /// The row at this place of the merged sequence.
    pub fn locate(&self, place: usize) -> MergedRun {
        let (spot, base) = self.first_there(place);
        self.at(spot, base)
    }

    /// The row at a place of the merged sequence; one of the base with those behind it, up to the next change.
    pub(crate) fn run_at(&self, place: usize) -> MergedRun {
        let (spot, base) = self.first_there(place);
        match self.at(spot, base) {
            MergedRun::Base(_) => {
                MergedRun::Base(base..self.entry(spot).map_or(u32::MAX as usize, |entry| entry.at as usize))
            }
            inserted => inserted,
        }
    }

    /// The row at a place found by [`Delta::first_there`].
    #[inline]
    pub(crate) fn at(&self, spot: Spot, base: usize) -> MergedRun {
        match self.entry(spot) {
            Some(entry) if entry.at as usize == base => MergedRun::Inserted(entry.row),
            _ => MergedRun::Base(base..base + 1),
        }
    }

    /// A range of the merged sequence, as parts of the base and inserted rows.
    pub fn runs(&self, range: Range<usize>) -> Runs<'_> {
        let (spot, base) = self.seek(range.start);
        Runs { delta: self, spot, base, rest: range.len() }
    }

    /// The place of a row of the base in the merged sequence; if it is deleted, of the row behind it.
    pub(crate) fn place_of(&self, base: usize) -> usize {
        let is_before = |at: usize, change: RowChange| at < base || at == base && change == RowChange::Insert;
        let in_group = |group: &Group, n: usize| group.parts[n].entries[0].change;
        let groups = &self.groups;
        let group =
            partition_point(0..groups.heads.len(), |n| is_before(groups.heads[n].at, in_group(&groups.parts[n], 0)));
        let Some(group) = group.checked_sub(1) else { return base };
        let chunks = &groups.parts[group];
        let chunk = partition_point(1..chunks.heads.len(), |n| is_before(chunks.heads[n].at, in_group(chunks, n))) - 1;
        let entries = &chunks.parts[chunk].entries;
        let entry = entries.partition_point(|entry| is_before(entry.at as usize, entry.change));
        (base as isize + self.net_at(self.spot(group, chunk, entry))) as usize
    }

    /// The first entry not meeting `before`, asked for its place in the merged sequence.
    #[inline]
    fn first_by_place(&self, before: impl Fn(isize) -> bool) -> Spot {
        let Some(group) = self.groups.last_before(|head| before(head.at as isize + head.net)) else {
            return Spot::default();
        };
        let (net, chunks) = (self.groups.heads[group].net, &self.groups.parts[group]);
        let chunk = chunks.last_before(|head| before(head.at as isize + head.net + net)).unwrap_or(0);
        let net = net + chunks.heads[chunk].net;
        let entries = &chunks.parts[chunk].entries;
        self.spot(group, chunk, entries.partition_point(|entry| before(entry.place(net))))
    }

    /// The first entry at or behind a place of the merged sequence, and how many rows of the base are in front of the
    /// place.
    pub(crate) fn seek(&self, place: usize) -> (Spot, usize) {
        let place = place as isize;
        let spot = self.first_by_place(|other| other < place);
        (spot, (place - self.net_at(spot)) as usize)
    }

    /// Like [`Delta::seek`], behind the deleted rows in front of the row at the place: so this row is that of the
    /// entry, if the entry is an insertion there, or that of the base.
    pub(crate) fn first_there(&self, place: usize) -> (Spot, usize) {
        let place = place as isize;
        // Of the entries at a place, only the last one may be an insertion.
        let behind = self.first_by_place(|other| other <= place);
        let base = |spot| (place - self.net_at(spot)) as usize;
        match self.before(behind) {
            Some((spot, entry)) if entry.change == RowChange::Insert && entry.at as usize == base(spot) => {
                (spot, base(spot))
            }
            _ => (behind, base(behind)),
        }
    }

    /// Passes the parts of a range of the merged sequence on, in order.
    #[inline]
    pub(crate) fn walk(&self, range: Range<usize>, mut pass: impl FnMut(Part<'_>)) {
        let (spot, mut base) = self.seek(range.start);
        let mut rest = range.len();
        for entry in self.entries_of_chunks(spot).flatten() {
            let end = base + rest.min(entry.at as usize - base);
            if end > base {
                pass(Part::Base(base..end));
                rest -= end - base;
                base = end;
            }
            if rest == 0 {
                return;
            }
            match entry.change {
                RowChange::Delete => base += 1,
                RowChange::Insert => {
                    pass(Part::Inserted(&entry.row));
                    rest -= 1;
                }
            }
        }
        if rest > 0 {
            pass(Part::Base(base..base + rest));
        }
    }

    /// The rows with a prefix in the merged sequence, given those in the base, or the empty range at their place.
    /// Searched from the spot of the last search; any spot will do.
    #[inline]
    pub(crate) fn around(&self, prefix: &[Id], base: Range<usize>, hint: &mut Spot) -> Range<usize> {
        let all = Spot::default()..self.end();
        let from = self.search(&all, *hint, |row| row[..prefix.len()] < *prefix);
        *hint = from;
        let start = self.net_at(from);
        let end = match self.entry(from) {
            Some(entry) if entry.row.starts_with(prefix) => {
                self.net_at(self.search(&all, from, |row| row[..prefix.len()] <= *prefix))
            }
            _ => start,
        };
        (base.start as isize + start) as usize..(base.end as isize + end) as usize
    }

    /// Like [`Delta::around`] for rows with `id` on a level, among entries with the same ids on the levels before.
    #[inline]
    pub(crate) fn around_id(
        &self,
        level: usize,
        id: Id,
        within: &Range<Spot>,
        base: Range<usize>,
        hint: &mut Spot,
    ) -> Range<usize> {
        let from =
            if within.start == within.end { within.start } else { self.search(within, *hint, |row| row[level] < id) };
        *hint = from;
        let start = self.net_at(from);
        let end = match self.entry(from) {
            Some(entry) if from < within.end && entry.row[level] == id => {
                self.net_at(self.search(within, from, |row| row[level] <= id))
            }
            _ => start,
        };
        (base.start as isize + start) as usize..(base.end as isize + end) as usize
    }

    /// The entries of rows with a prefix.
    pub(crate) fn spots(&self, prefix: &[Id]) -> Range<Spot> {
        self.first_not(|row| row[..prefix.len()] < *prefix)..self.first_not(|row| row[..prefix.len()] <= *prefix)
    }

    /// The first of some entries with a row that is not before. Takes O(log distance) from `hint` if it is in the same
    /// chunk.
    #[inline]
    pub(crate) fn search(&self, within: &Range<Spot>, hint: Spot, before: impl Fn(&Row) -> bool) -> Spot {
        let (start, end) = (within.start, within.end);
        if start >= end {
            return start;
        }
        let part = |group: usize, chunk: usize, len: usize| {
            let is = |spot: Spot| (group, chunk) == (spot.group as usize, spot.chunk as usize);
            let first = if is(start) { start.entry as usize } else { 0 };
            let last = if is(end) { end.entry as usize } else { len };
            (first..last, is(start), is(end))
        };
        let hint = hint.clamp(start, end);
        if let Some(chunk) = self.chunk(hint) {
            let (group, place) = (hint.group as usize, hint.chunk as usize);
            let (places, is_first, is_last) = part(group, place, chunk.entries.len());
            let found = gallop(places.clone(), hint.entry as usize, |n| before(&chunk.entries[n].row));
            if (found > places.start || is_first) && (found < places.end || is_last) {
                return self.spot(group, place, found);
            }
        }
        let groups = &self.groups;
        let last = end.group as usize + usize::from((end.chunk, end.entry) != (0, 0));
        let group = partition_point(start.group as usize + 1..last, |n| before(&groups.heads[n].row)) - 1;
        let chunks = &groups.parts[group];
        let first = if group == start.group as usize { start.chunk as usize } else { 0 };
        let last = match group == end.group as usize {
            true => end.chunk as usize + usize::from(end.entry > 0),
            false => chunks.parts.len(),
        };
        let chunk = partition_point(first + 1..last, |n| before(&chunks.heads[n].row)) - 1;
        let entries = &chunks.parts[chunk].entries;
        let (places, ..) = part(group, chunk, entries.len());
        self.spot(group, chunk, partition_point(places, |n| before(&entries[n].row)))
    }

    /// The place behind all entries.
    pub(crate) fn end(&self) -> Spot {
        Spot { group: self.groups.parts.len() as u32, ..Spot::default() }
    }

    #[inline]
    fn spot(&self, group: usize, chunk: usize, entry: usize) -> Spot {
        let chunks = &self.groups.parts[group].parts;
        if entry < chunks[chunk].entries.len() {
            Spot { group: group as u32, chunk: chunk as u16, entry: entry as u16 }
        } else if chunk + 1 < chunks.len() {
            Spot { group: group as u32, chunk: chunk as u16 + 1, entry: 0 }
        } else {
            Spot { group: group as u32 + 1, ..Spot::default() }
        }
    }

    /// The entry in front of a spot.
    fn before(&self, spot: Spot) -> Option<(Spot, &Entry)> {
        let Spot { mut group, mut chunk, mut entry } = spot;
        if (chunk, entry) == (0, 0) {
            group = group.checked_sub(1)?;
            chunk = self.groups.parts[group as usize].parts.len() as u16;
        }
        let chunks = &self.groups.parts[group as usize].parts;
        if entry == 0 {
            chunk -= 1;
            entry = chunks[chunk as usize].entries.len() as u16;
        }
        let spot = Spot { group, chunk, entry: entry - 1 };
        Some((spot, &chunks[chunk as usize].entries[spot.entry as usize]))
    }

    fn first_not(&self, before: impl Fn(&Row) -> bool) -> Spot {
        let Some(group) = self.groups.last_before(|head| before(&head.row)) else { return Spot::default() };
        let chunks = &self.groups.parts[group];
        let chunk = chunks.last_before(|head| before(&head.row)).unwrap_or(0);
        self.spot(group, chunk, chunks.parts[chunk].entries.partition_point(|entry| before(&entry.row)))
    }

    #[inline]
    fn chunk(&self, spot: Spot) -> Option<&Chunk> {
        self.groups.parts.get(spot.group as usize).map(|group| &*group.parts[spot.chunk as usize])
    }

    #[inline]
    fn entry(&self, spot: Spot) -> Option<&Entry> {
        self.chunk(spot).map(|chunk| &chunk.entries[spot.entry as usize])
    }

    #[inline]
    fn entries(&self, from: Spot) -> impl Iterator<Item = &Entry> {
        self.entries_of_chunks(from).flatten()
    }

    /// The entries from a spot on, those of a chunk together.
    #[inline]
    fn entries_of_chunks(&self, from: Spot) -> impl Iterator<Item = &[Entry]> {
        let groups = self.groups.parts.get(from.group as usize..).unwrap_or_default();
        let (first, behind) = groups.split_at(groups.len().min(1));
        let chunks = first.iter().flat_map(move |group| &group.parts[from.chunk as usize..]);
        let mut skipped = from.entry as usize;
        chunks
            .chain(behind.iter().flat_map(|group| &group.parts))
            .map(move |chunk| &chunk.entries[std::mem::take(&mut skipped)..])
    }

    /// The changes, ascending by row, each with its place in the base.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (Row, RowChange, usize)> + '_ {
        self.entries(Spot::default()).map(|entry| (entry.row, entry.change, entry.at as usize))
    }

    /// The insertions less the deletions in front of an entry.
    #[inline]
    pub(crate) fn net_at(&self, spot: Spot) -> isize {
        let group = spot.group as usize;
        let Some(head) = self.groups.heads.get(group) else { return self.groups.net };
        let (chunks, chunk) = (&self.groups.parts[group], spot.chunk as usize);
        head.net + chunks.heads[chunk].net + chunks.parts[chunk].entries[spot.entry as usize].net as isize
    }

    /// How many entries are in front of a spot.
    pub(crate) fn number_of(&self, spot: Spot) -> usize {
        let (group, chunk) = (spot.group as usize, spot.chunk as usize);
        let groups: usize = self.groups.parts[..group].iter().map(|group| group.len).sum();
        let chunks = self.groups.parts.get(group).map_or(&[][..], |group| &group.parts[..chunk]);
        groups + chunks.iter().map(|chunk| chunk.entries.len()).sum::<usize>() + spot.entry as usize
    }
}

/// The entries with changes among them. A change takes away the entry undone by it.
fn changed(
    entries: &[Entry],
    changes: &[(Row, RowChange)],
    at: &mut impl FnMut(&Row) -> usize,
) -> Result<Vec<Entry>, NoMemory> {
    let mut made = Vec::with_room(entries.len() + changes.len())?;
    let mut rest = entries;
    for (row, change) in changes {
        let count = gallop(0..rest.len(), 0, |n| rest[n].row < *row);
        made.extend_from_slice(&rest[..count]);
        rest = &rest[count..];
        match rest {
            [entry, behind @ ..] if entry.row == *row => {
                assert_ne!(entry.change, *change, "a row is inserted once, and deleted if it is there");
                rest = behind;
            }
            _ => {
                let at = u32::try_from(at(row)).expect("fewer than 2^32 rows");
                made.push(Entry { row: *row, at, net: 0, change: *change });
            }
        }
    }
    made.extend_from_slice(rest);
    Ok(made)
}

/// Appends items as parts of about the same size, up to a limit.
fn divide<T, P>(
    items: &[T],
    most: usize,
    parts: &mut Vec<Arc<P>>,
    make: impl Fn(&[T]) -> Result<P, NoMemory>,
) -> Result<(), NoMemory> {
    let count = items.len().div_ceil(most);
    parts.grow(count)?;
    for part in 0..count {
        let cut = |part: usize| items.len() * part / count;
        parts.push(Arc::new(make(&items[cut(part)..cut(part + 1)])?));
    }
    Ok(())
}

/// See [`Delta::runs`].
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    delta: &'a Delta,
    /// The next entry.
    spot: Spot,
    /// The next row of the base.
    base: usize,
    /// How many rows are left.
    rest: usize,
}

impl Iterator for Runs<'_> {
    type Item = MergedRun;

    fn next(&mut self) -> Option<MergedRun> {
        while self.rest > 0 {
            let entry = self.delta.entry(self.spot);
            let end = self.base + self.rest;
            let end = entry.map_or(end, |entry| end.min(entry.at as usize));
            if end > self.base {
                let run = self.base..end;
                self.rest -= run.len();
                self.base = end;
                return Some(MergedRun::Base(run));
            }
            let entry = entry.expect("behind the last entry, the base has all that is left");
            let Spot { group, chunk, entry: place } = self.spot;
            self.spot = self.delta.spot(group as usize, chunk as usize, place as usize + 1);
            match entry.change {
                RowChange::Delete => self.base += 1,
                RowChange::Insert => {
                    self.rest -= 1;
                    return Some(MergedRun::Inserted(entry.row));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn row(number: u64) -> Row {
        // Several rows share their first ids.
        [0, number / 7 + 1, number / 3, number].map(Id::from_bits)
    }

    /// A generator of numbers: Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut bits = self.0;
            bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            (bits ^ bits >> 31) % end
        }
    }

    fn rows_of(delta: &Delta, base: &[Row], range: Range<usize>) -> Vec<Row> {
        let rows = |run| match run {
            MergedRun::Base(range) => base[range].to_vec(),
            MergedRun::Inserted(row) => vec![row],
        };
        delta.runs(range).flat_map(rows).collect()
    }

    fn walked(delta: &Delta, base: &[Row], range: Range<usize>) -> Vec<Row> {
        let mut rows = Vec::new();
        delta.walk(range, |part| match part {
            Part::Base(range) => rows.extend_from_slice(&base[range]),
            Part::Inserted(row) => rows.push(*row),
        });
        rows
    }

    /// Searches by prefix and by one id, each from the end of the last one or from anywhere.
    fn check_searches(delta: &Delta, base: &[Row], merged: &[Row], chance: &mut Chance) {
        let (mut hint, flat) = (Spot::default(), Flat::new(delta).expect("there is memory"));
        for _ in 0..30 {
            let (wanted, length) = (row(chance.below(3000)), chance.below(5) as usize);
            let prefix = &wanted[..length];
            let of = |rows: &[Row]| {
                rows.partition_point(|row| row[..length] < *prefix)
                    ..rows.partition_point(|row| row[..length] <= *prefix)
            };
            assert_eq!(delta.around(prefix, of(base), &mut hint), of(merged));
            let (front, id) = (&wanted[..1 + length.min(2)], wanted[1 + length.min(2)]);
            let within = delta.spots(front);
            let prefix = &wanted[..front.len() + 1];
            let of = |rows: &[Row]| {
                let length = prefix.len();
                rows.partition_point(|row| row[..length] < *prefix)
                    ..rows.partition_point(|row| row[..length] <= *prefix)
            };
            assert_eq!(delta.around_id(front.len(), id, &within, of(base), &mut hint), of(merged));
            let entries = delta.number_of(within.start)..delta.number_of(within.end);
            let ids = flat.column(delta, front.len()).expect("there is memory");
            assert_eq!(flat.around(ids, id.bits(), &entries, of(base)), of(merged));
        }
        for (place, row) in merged.iter().enumerate() {
            let run = match flat.locate(place) {
                Located::Base(run) => run,
                Located::Inserted(entry) => {
                    let ids = flat.column(delta, 3).expect("there is memory");
                    assert_eq!((ids[entry], delta.locate(place)), (row[3].bits(), MergedRun::Inserted(*row)));
                    continue;
                }
            };
            assert_eq!(base[run.start], *row);
            let run = run.start..run.end.min(base.len());
            assert_eq!(merged[place..place + run.len()], base[run.clone()]);
            assert!(matches!(delta.run_at(place), MergedRun::Base(other) if other.start == run.start));
        }
    }

    fn check(delta: &Delta, base: &[Row], model: &BTreeSet<Row>, chance: &mut Chance) {
        let merged: Vec<Row> = model.iter().copied().collect();
        check_searches(delta, base, &merged, chance);
        for (place, row) in base.iter().enumerate() {
            assert_eq!(delta.place_of(place), merged.partition_point(|other| other < row));
        }
        assert_eq!(base.len() as isize + delta.net(), merged.len() as isize);
        assert_eq!(rows_of(delta, base, 0..merged.len()), merged);
        for _ in 0..8 {
            let (a, b) = (chance.below(merged.len() as u64 + 1), chance.below(merged.len() as u64 + 1));
            let range = a.min(b) as usize..a.max(b) as usize;
            assert_eq!(rows_of(delta, base, range.clone()), merged[range.clone()]);
            assert_eq!(walked(delta, base, range.clone()), merged[range.clone()]);
            if let Some(place) = range.clone().next() {
                let found = match delta.locate(place) {
                    MergedRun::Base(rows) => base[rows.start],
                    MergedRun::Inserted(row) => row,
                };
                assert_eq!(found, merged[place]);
            }
            let bound = row(chance.below(3000));
            let place = base.partition_point(|row| *row < bound) as isize + delta.net_of(|row| *row < bound);
            assert_eq!(place as usize, merged.partition_point(|row| *row < bound));
            let change = delta.change(&bound);
            let there = (base.binary_search(&bound).is_ok(), model.contains(&bound));
            let expected = match there {
                (false, true) => Some(RowChange::Insert),
                (true, false) => Some(RowChange::Delete),
                _ => None,
            };
            assert_eq!(change, expected);
        }
    }

    /// Random changes, in batches of one row and of many, against a set of rows; each version stays as it was.
    #[test]
    fn base_and_delta_are_the_set_that_the_changes_make() {
        for seed in 0..60 {
            println!("seed {seed}");
            let mut chance = Chance(seed);
            let size = [0, 1, 40, 2000][seed as usize % 4];
            let base: BTreeSet<Row> = (0..size).map(|_| row(chance.below(3000))).collect();
            let mut model = base.clone();
            let base: Vec<Row> = base.into_iter().collect();
            let mut delta = Delta::default();
            let mut versions = Vec::new();
            for _ in 0..40 {
                let batch = [1, 3, 50, 1500][chance.below(4) as usize];
                let rows: BTreeSet<Row> = (0..batch).map(|_| row(chance.below(3000))).collect();
                let changes: Vec<(Row, RowChange)> = rows
                    .into_iter()
                    .map(|row| (row, if model.contains(&row) { RowChange::Delete } else { RowChange::Insert }))
                    .collect();
                for (row, change) in &changes {
                    match change {
                        RowChange::Insert => model.insert(*row),
                        RowChange::Delete => model.remove(row),
                    };
                }
                delta = delta.with(&changes, |row| base.partition_point(|other| other < row)).unwrap();
                check(&delta, &base, &model, &mut chance);
                versions.push((delta.with(&[], |_| unreachable!()).unwrap(), model.clone()));
            }
            for (delta, model) in &versions {
                check(delta, &base, model, &mut chance);
            }
            // Undoing all changes leaves none.
            let undo: Vec<(Row, RowChange)> = model
                .iter()
                .filter(|row| base.binary_search(row).is_err())
                .map(|row| (*row, RowChange::Delete))
                .chain(base.iter().filter(|row| !model.contains(*row)).map(|row| (*row, RowChange::Insert)))
                .collect::<std::collections::BTreeMap<_, _>>()
                .into_iter()
                .collect();
            assert_eq!(undo.len(), delta.len());
            assert!(delta.with(&undo, |_| unreachable!("no entry is added")).unwrap().is_empty());
        }
    }

    /// A change of one row copies one chunk.
    #[test]
    fn versions_share_the_chunks_that_a_change_does_not_touch() {
        let many: Vec<(Row, RowChange)> = (0..100_000).map(|n| (row(2 * n), RowChange::Insert)).collect();
        let before = Delta::default().with(&many, |_| 0).unwrap();
        let after = before.with(&[(row(1001), RowChange::Insert)], |_| 0).unwrap();
        let chunks = |delta: &Delta| -> Vec<Arc<Chunk>> {
            delta.groups.parts.iter().flat_map(|group| group.parts.iter().cloned()).collect()
        };
        let (old, new) = (chunks(&before), chunks(&after));
        let own = new.iter().filter(|chunk| !old.iter().any(|other| Arc::ptr_eq(chunk, other)));
        assert!(own.count() <= 2, "the chunk, or its halves");
        assert_eq!((before.len(), after.len()), (100_000, 100_001));
    }
}
