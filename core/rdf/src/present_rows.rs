//! The present rows of an index: those of its base, with the rows inserted and without the rows deleted since.
//!
//! Rows have their numbers in the merged sequence, and so have keys and graphs: those of the changes alone are
//! included, and those with all rows deleted are left out. A search is one in the base and one in the changes; their
//! places are added up.

use crate::base::{Base, Lies};
use crate::delta::{Delta, Flat, Located, MergedRun, Part, Row, RowChange, Runs, Spot};
use crate::ids::Id;
use crate::index::Index;
use crate::interrupt::Interrupt;
use crate::packed::{BLOCK, Window};
use crate::search::Cursor;
use std::ops::Range;
use vicus_flow::library::Piece;
use vicus_flow::{Grow, NoMemory, Unfilled};
use vicus_topology::NodeId;

/// The changes of a base's rows, and of its directories.
#[derive(Default, Debug)]
pub(crate) struct Changed {
    rows: Delta,
    /// The keys missing in the base or without rows now: their ids, with the graph in front if the order begins with
    /// it. An entry's place in the base is one of a key.
    keys: Delta,
    /// The changes of graphs, likewise.
    graphs: Delta,
}

impl Changed {
    /// The changes of an index with strictly ascending further ones; `None` if they undo each other.
    pub(crate) fn with(
        index: &Index,
        changes: &[(Row, RowChange)],
        interrupt: &Interrupt<'_>,
    ) -> Result<Option<Changed>, NoMemory> {
        let (base, none) = (index.base(), Changed::default());
        let before = index.changed().unwrap_or(&none);
        let mut cursor = Cursor::of_base(base);
        let place = |row: &Row| {
            interrupt.step();
            cursor.range(row).start
        };
        let rows = before.rows.with(changes, place)?;
        let mut after = Changed { rows, ..Changed::default() };
        if after.rows.is_empty() {
            return Ok(None);
        }
        let level = base.key_level();
        let keys = before.came_and_went(&after, base, changes, level + 1, interrupt)?;
        after.keys = before.keys.with(&keys, |row| base.key_range(&row[..=level]).start)?;
        if level > 0 {
            let graphs = before.came_and_went(&after, base, changes, 1, interrupt)?;
            after.graphs = before.graphs.with(&graphs, |row| base.graph_range(row[0]).start)?;
        }
        Ok(Some(after))
    }

    /// The first ids of changed rows that gained their first row or lost their last one. The other ids of their rows
    /// are unbound.
    fn came_and_went(
        &self,
        after: &Changed,
        base: &Base,
        changes: &[(Row, RowChange)],
        ids: usize,
        interrupt: &Interrupt<'_>,
    ) -> Result<Vec<(Row, RowChange)>, NoMemory> {
        let (mut made, mut cursor) = (Vec::new(), Cursor::of_base(base));
        let mut hints = [Spot::default(); 2];
        for same in changes.chunk_by(|a, b| a.0[..ids] == b.0[..ids]) {
            interrupt.steps(same.len());
            let prefix = &same[0].0[..ids];
            let rows = cursor.range(prefix);
            let was_there = !self.rows.around(prefix, rows.clone(), &mut hints[0]).is_empty();
            let is_there = !after.rows.around(prefix, rows, &mut hints[1]).is_empty();
            let change = match (was_there, is_there) {
                (false, true) => RowChange::Insert,
                (true, false) => RowChange::Delete,
                _ => continue,
            };
            let mut row = [Id::UNBOUND; 4];
            row[..ids].copy_from_slice(prefix);
            made.grow(1)?;
            made.push((row, change));
        }
        Ok(made)
    }

    #[inline]
    pub(crate) fn rows(&self) -> &Delta {
        &self.rows
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.rows.heap_bytes() + self.keys.heap_bytes() + self.graphs.heap_bytes()
    }

    /// The part of these bytes that no other version has.
    pub(crate) fn own_bytes(&self) -> usize {
        self.rows.own_bytes() + self.keys.own_bytes() + self.graphs.own_bytes()
    }
}

/// The methods of [`Index`] for an index with changes.
#[derive(Clone, Copy)]
pub(crate) struct Merged<'a> {
    base: &'a Base,
    rows: &'a Delta,
    keys: &'a Delta,
    graphs: &'a Delta,
}

impl<'a> Merged<'a> {
    #[inline]
    pub(crate) fn new(base: &'a Base, changed: &'a Changed) -> Merged<'a> {
        Merged { base, rows: &changed.rows, keys: &changed.keys, graphs: &changed.graphs }
    }

    pub(crate) fn range(self, prefix: &[Id]) -> Range<usize> {
        merged_range(self.rows, prefix, self.base.range(prefix))
    }

    pub(crate) fn between(self, prefix: &[Id], ids: Range<Id>) -> Range<usize> {
        assert!(prefix.len() < 4, "a prefix of three ids at most, so that one is left to compare");
        let bound = |id: Id| {
            let mut row = [Id::UNBOUND; 4];
            row[..prefix.len()].copy_from_slice(prefix);
            row[prefix.len()] = id;
            self.range(&row[..=prefix.len()]).start
        };
        let (start, end) = (bound(ids.start), bound(ids.end));
        start..end.max(start)
    }

    pub(crate) fn graph_count(self) -> usize {
        (self.base.graph_count() as isize + self.graphs.net()) as usize
    }

    pub(crate) fn graph(self, graph: usize) -> Id {
        assert!(graph < self.graph_count(), "graph {graph} of {}", self.graph_count());
        match self.graphs.locate(graph) {
            MergedRun::Base(graphs) => self.base.graph(graphs.start),
            MergedRun::Inserted(row) => row[0],
        }
    }

    pub(crate) fn keys_of(self, graph: Id) -> Range<usize> {
        match self.base.key_level() {
            0 => 0..self.key_count(),
            _ => merged_range(self.keys, &[graph], self.base.keys_of(graph)),
        }
    }

    pub(crate) fn key_count(self) -> usize {
        (self.base.key_count() as isize + self.keys.net()) as usize
    }

    pub(crate) fn key(self, key: usize) -> Id {
        assert!(key < self.key_count(), "key {key} of {}", self.key_count());
        match self.keys.locate(key) {
            MergedRun::Base(keys) => self.base.key(keys.start),
            MergedRun::Inserted(row) => row[self.base.key_level()],
        }
    }

    pub(crate) fn keys(self, keys: Range<usize>) -> Keys<'a> {
        assert!(keys.end <= self.key_count(), "keys {keys:?} of {}", self.key_count());
        let left = keys.len();
        Keys { base: self.base, runs: self.keys.runs(keys), run: 0..0, window: Window::default(), left }
    }

    pub(crate) fn rows_of_key(self, key: usize) -> Range<usize> {
        let level = self.base.key_level();
        match self.keys.locate(key) {
            MergedRun::Base(keys) => {
                let ids = self.base.ids_of_key(keys.start);
                merged_range(self.rows, &ids[..=level], self.base.rows_of_key(keys.start))
            }
            MergedRun::Inserted(row) => self.range(&row[..=level]),
        }
    }

    pub(crate) fn key_of_row(self, row: usize) -> usize {
        match self.rows.locate(row) {
            MergedRun::Base(rows) => self.keys.place_of(self.base.key_of_row(rows.start)),
            MergedRun::Inserted(row) => {
                let ids = &row[..=self.base.key_level()];
                merged_range(self.keys, ids, self.base.key_range(ids)).start
            }
        }
    }

    pub(crate) fn row(self, row: usize) -> Row {
        match self.rows.locate(row) {
            MergedRun::Base(rows) => self.base.row(rows.start),
            MergedRun::Inserted(row) => row,
        }
    }

    /// The rows of the base among these.
    fn base_rows(self, rows: &Range<usize>) -> Range<usize> {
        let (_, start) = self.rows.first_there(rows.start);
        let (_, end) = self.rows.seek(rows.end);
        start..end.max(start)
    }

    pub(crate) fn pieces(self, rows: Range<usize>) -> Vec<Piece> {
        let of_base = self.base.pieces(self.base_rows(&rows));
        let Some(last) = of_base.last().map(|piece| piece.home) else {
            let all = (!rows.is_empty()).then_some(Piece { range: rows.start as u64..rows.end as u64, home: None });
            return all.into_iter().collect();
        };
        let mut start = rows.start;
        let mut pieces: Vec<Piece> = Vec::with_capacity(of_base.len());
        for piece in &of_base {
            let end = self.rows.place_of(piece.range.end as usize).clamp(start, rows.end);
            if end > start {
                pieces.push(Piece { range: start as u64..end as u64, home: piece.home });
            }
            start = end;
        }
        match pieces.last_mut() {
            Some(piece) => piece.range.end = rows.end as u64,
            None => pieces.push(Piece { range: rows.start as u64..rows.end as u64, home: last }),
        }
        pieces
    }

    /// Like [`Index::bytes_of`]. An inserted row is not packed.
    pub(crate) fn bytes_of(self, level: usize, rows: Range<usize>) -> usize {
        let of_base = self.base_rows(&rows);
        let inserted = rows.len().saturating_sub(of_base.len());
        self.base.bytes_of(level, of_base) + inserted * size_of::<Id>()
    }

    pub(crate) fn home(self, row: usize) -> Option<NodeId> {
        let last = self.base.len().checked_sub(1)?;
        self.base.home(self.rows.first_there(row).1.min(last))
    }

    /// Like [`Index::get`].
    #[inline(never)]
    pub(crate) fn get(self, level: usize, row: usize) -> Id {
        match self.rows.locate(row) {
            MergedRun::Base(rows) => self.base.get(level, rows.start),
            MergedRun::Inserted(row) => row[level],
        }
    }

    /// Whether the base has a column for the level.
    fn is_by_row(self, level: usize) -> bool {
        matches!(self.base.lies(level), Lies::Rows(_) | Lies::Last)
    }

    fn len(self) -> usize {
        (self.base.len() as isize + self.rows.net()) as usize
    }

    /// Writes the ids of rows of one block to their places in it.
    fn unpack_into(self, level: usize, rows: Range<usize>, values: &mut [u64; BLOCK]) {
        let (mut next, mut window) = (rows.start % BLOCK, Window::default());
        self.rows.walk(rows, |part| match part {
            Part::Base(mut rows) => {
                while !rows.is_empty() {
                    let ids = self.base.slice(level, rows.clone(), &mut window);
                    let places = &mut values[next..next + ids.len()];
                    places.iter_mut().zip(ids).for_each(|(place, id)| *place = id.bits());
                    next += ids.len();
                    rows.start += ids.len();
                }
            }
            Part::Inserted(row) => {
                values[next] = row[level].bits();
                next += 1;
            }
        });
    }

    pub(crate) fn lower_bound(self, level: usize, rows: Range<usize>, id: Id) -> usize {
        let ((from, start), (to, end)) = (self.rows.first_there(rows.start), self.rows.seek(rows.end));
        if rows.is_empty() {
            return rows.start;
        }
        let base = if end > start { self.base.lower_bound(level, start..end, id) } else { start };
        let spot = self.rows.search(&(from..to.max(from)), from, |row| row[level] < id);
        (base as isize + self.rows.net_at(spot)) as usize
    }

    pub(crate) fn values(self, level: usize, rows: Range<usize>) -> MergedValues<'a> {
        assert!(rows.end <= self.len(), "{rows:?} of {} rows", self.len());
        MergedValues { merged: self, level, rows, values: [0; BLOCK], next: 0, end: 0 }
    }

    pub(crate) fn fill(self, level: usize, rows: Range<usize>, column: &mut Unfilled<'_, u64>) {
        let (mut window, mut at) = (Window::default(), self.base.key_walk());
        let lies = self.base.lies(level);
        self.rows.walk(rows, |part| match (part, lies) {
            (Part::Inserted(row), _) => column.push(row[level].bits()),
            (Part::Base(rows), Lies::Keys) => self.base.fill_keys(rows, &mut at, column),
            (Part::Base(rows), _) if rows.len() >= BLOCK || lies == Lies::Graphs => self.base.fill(level, rows, column),
            (Part::Base(mut rows), _) => {
                while !rows.is_empty() {
                    let ids = self.base.slice(level, rows.clone(), &mut window);
                    column.extend(ids.iter().map(|id| id.bits()));
                    rows.start += ids.len();
                }
            }
        });
    }

    pub(crate) fn gather(self, level: usize, rows: &[u32], into: &mut Unfilled<'_, u64>) {
        if !self.is_by_row(level) {
            // Rows often have the ids of the row before.
            let (mut same, mut id) = (0..0, 0);
            return into.extend(rows.iter().map(|&row| {
                if !same.contains(&(row as usize)) {
                    let ids = self.row(row as usize);
                    (same, id) = (self.range(&ids[..=level]), ids[level].bits());
                }
                id
            }));
        }
        if self.base.len() == 0 {
            return into.extend(rows.iter().map(|row| self.get(level, *row as usize).bits()));
        }
        // The places in the base. The base gathers them as if there were no changes; inserted rows are put in behind
        // it.
        let (mut places, mut inserted) = ([0; BLOCK], [(0, Id::UNBOUND); BLOCK]);
        let (columns, mut near) = (self.columns(level, rows.len()), Near::default());
        for rows in rows.chunks(BLOCK) {
            let mut count = 0;
            for (number, (row, place)) in rows.iter().zip(&mut places).enumerate() {
                let row = *row as usize;
                if !near.rows.contains(&row) {
                    near = self.near(level, row, columns);
                }
                if let Some(id) = near.inserted {
                    inserted[count] = (number, id);
                    count += 1;
                }
                *place = near.base_row(row).min(self.base.len() - 1) as u32;
            }
            let first = into.len();
            self.base.gather(level, &places[..rows.len()], into);
            let values = &mut into.filled()[first..];
            inserted[..count].iter().for_each(|(number, id)| values[*number] = id.bits());
        }
    }

    /// The copy by columns with that of a level, if this number of further reads is worth it.
    #[inline]
    fn columns(self, level: usize, reads: usize) -> Option<(&'a Flat, &'a [u64])> {
        let flat = self.rows.flat(reads)?;
        Some((flat, flat.column(self.rows, level)?))
    }

    /// A row with the rows around it up to the next changes.
    #[inline]
    fn near(self, level: usize, row: usize, columns: Option<(&Flat, &[u64])>) -> Near {
        let inserted = |id| Near { rows: row..row + 1, base: row, inserted: Some(id) };
        let of_base = |rows: Range<usize>| Near { rows: row..row + rows.len(), base: rows.start, inserted: None };
        match columns {
            Some((flat, ids)) => match flat.locate(row) {
                Located::Base(rows) => of_base(rows),
                Located::Inserted(entry) => inserted(Id::from_bits(ids[entry])),
            },
            None => match self.rows.run_at(row) {
                MergedRun::Base(rows) => of_base(rows),
                MergedRun::Inserted(row) => inserted(row[level]),
            },
        }
    }

    pub(crate) fn end_of_group(self, level: usize, row: usize, end: usize) -> usize {
        if let Lies::Graphs | Lies::Keys = self.base.lies(level) {
            let ids = self.row(row);
            return self.range(&ids[..=level]).end.min(end);
        }
        let ((from, start), (to, last)) = (self.rows.first_there(row), self.rows.seek(end));
        let is_base = |entry: MergedRun| matches!(entry, MergedRun::Base(_));
        let found = self.rows.at(from, start);
        let id = match &found {
            MergedRun::Base(rows) => self.base.get(level, rows.start),
            MergedRun::Inserted(row) => row[level],
        };
        let has_it = start < last && (is_base(found) || self.base.get(level, start) == id);
        let base = if has_it { self.base.end_of_group(level, start, last) } else { start };
        let spot = self.rows.search(&(from..to.max(from)), from, |row| row[level] <= id);
        (base as isize + self.rows.net_at(spot)) as usize
    }

    pub(crate) fn assert_valid(self) {
        for (row, change, at) in self.rows.changes() {
            let found = self.base.range(&row);
            assert_eq!(found.start, at, "a change knows its place in the base");
            assert_eq!(
                found.is_empty(),
                change == RowChange::Insert,
                "what is inserted was not there, what is deleted was"
            );
        }
        let level = self.base.key_level();
        for (ids, change, at) in self.keys.changes() {
            let (found, now) = (self.base.key_range(&ids[..=level]), self.range(&ids[..=level]));
            assert_eq!(found.start, at, "a key knows its place in the base");
            assert_eq!((found.is_empty(), now.is_empty()), (change == RowChange::Insert, change == RowChange::Delete));
        }
        for (ids, change, at) in self.graphs.changes() {
            let (found, now) = (self.base.graph_range(ids[0]), self.range(&ids[..1]));
            assert_eq!(found.start, at, "a graph knows its place in the base");
            assert_eq!((found.is_empty(), now.is_empty()), (change == RowChange::Insert, change == RowChange::Delete));
        }
        let rows: Vec<Range<usize>> = (0..self.key_count()).map(|key| self.rows_of_key(key)).collect();
        assert!(rows.iter().all(|rows| !rows.is_empty()), "no key without rows");
        let ends = [0].into_iter().chain(rows.iter().map(|rows| rows.end));
        assert!(
            ends.zip(rows.iter().map(|rows| rows.start).chain([self.len()])).all(|(a, b)| a == b),
            "keys have all rows"
        );
        let mut last: Option<Row> = None;
        for row in (0..self.len()).map(|row| self.row(row)) {
            assert!(last.is_none_or(|last| last < row), "rows ascend, and none is twice there");
            last = Some(row);
        }
    }
}

/// Rows of the merged sequence that follow each other in the base, too; or an inserted one.
#[derive(Clone, Default, Debug)]
pub(crate) struct Near {
    rows: Range<usize>,
    /// The place of the first in the base; for an inserted row, any.
    base: usize,
    /// The id of the inserted row.
    inserted: Option<Id>,
}

impl Near {
    /// The place of one of the rows in the base; for an inserted row, any.
    #[inline]
    fn base_row(&self, row: usize) -> usize {
        self.base + (row - self.rows.start)
    }
}

impl<'a> Merged<'a> {
    /// The id of a row, read through a window of the base, and the surroundings of the last row read.
    #[inline]
    pub(crate) fn read(self, level: usize, row: usize, near: &mut Near, window: &mut Window) -> Id {
        self.go_near(level, row, near);
        match near.inserted {
            Some(id) => id,
            None => self.base.read(level, near.base_row(row), window),
        }
    }

    /// Like [`Merged::read`]: the ids of the first of these rows on a level after the keys: of at least one.
    #[inline]
    pub(crate) fn slice<'w>(
        self,
        level: usize,
        rows: Range<usize>,
        near: &'w mut Near,
        window: &'w mut Window,
    ) -> &'w [Id] {
        self.go_near(level, rows.start, near);
        match &near.inserted {
            Some(id) => std::slice::from_ref(id),
            None => {
                let start = near.base_row(rows.start);
                self.base.slice(level, start..start + (rows.end.min(near.rows.end) - rows.start), window)
            }
        }
    }

    #[inline]
    fn go_near(self, level: usize, row: usize, near: &mut Near) {
        if !near.rows.contains(&row) {
            *near = self.find_near(level, row);
        }
    }

    #[inline(never)]
    fn find_near(self, level: usize, row: usize) -> Near {
        self.near(level, row, self.columns(level, 1))
    }
}

/// The rows, keys or graphs with a prefix, given those of the base, or the empty range at their place.
fn merged_range(delta: &Delta, prefix: &[Id], base: Range<usize>) -> Range<usize> {
    let spots = delta.spots(prefix);
    let add = |base: usize, spot: Spot| (base as isize + delta.net_at(spot)) as usize;
    add(base.start, spots.start)..add(base.end, spots.end)
}

/// The ids of keys.
pub(crate) struct Keys<'a> {
    base: &'a Base,
    runs: Runs<'a>,
    /// The next keys of the base.
    run: Range<usize>,
    window: Window,
    left: usize,
}

impl Iterator for Keys<'_> {
    type Item = Id;

    fn next(&mut self) -> Option<Id> {
        if self.run.is_empty() {
            match self.runs.next()? {
                MergedRun::Base(keys) => self.run = keys,
                MergedRun::Inserted(row) => {
                    self.left -= 1;
                    return Some(row[self.base.key_level()]);
                }
            }
        }
        self.left -= 1;
        self.run.next().map(|key| self.base.read_key(key, &mut self.window))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Keys<'_> {}

/// The ids of a level, one row after the other.
pub(crate) struct MergedValues<'a> {
    merged: Merged<'a>,
    level: usize,
    /// The rows not unpacked yet.
    rows: Range<usize>,
    values: [u64; BLOCK],
    /// The places in `values` not given out yet.
    next: usize,
    end: usize,
}

impl Iterator for MergedValues<'_> {
    type Item = Id;

    #[inline]
    fn next(&mut self) -> Option<Id> {
        if self.next == self.end {
            if self.rows.is_empty() {
                return None;
            }
            let end = self.rows.end.min((self.rows.start / BLOCK + 1) * BLOCK);
            let rows = self.rows.start..end;
            (self.next, self.end) = (rows.start % BLOCK, rows.start % BLOCK + rows.len());
            self.merged.unpack_into(self.level, rows, &mut self.values);
            self.rows.start = end;
        }
        let bits = self.values[self.next];
        self.next += 1;
        Some(Id::from_bits(bits))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.rows.len() + self.end - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for MergedValues<'_> {}
