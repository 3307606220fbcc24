//! The quads of an index one after the other: for dumps, checks, and what else reads all of it.

use crate::ids::Id;
use crate::index::Index;
use std::ops::Range;
use vicus_flow::Unfilled;

/// So many rows are read at once.
const AT_ONCE: usize = 4096;

/// See [`Index::quads`].
#[derive(Debug)]
pub struct Quads<'a> {
    index: &'a Index,
    /// Those that are not read yet.
    rows: Range<usize>,
    /// For each level, the ids of the rows that are read.
    levels: [Vec<u64>; 4],
    /// The next of these rows.
    next: usize,
}

impl Index {
    /// The quads of these rows as subject, predicate, object and graph, in the order of the index. If there is no
    /// memory for a few thousand rows, the caller's box gives up.
    ///
    /// ```
    /// use vicus_rdf::{Order, Snapshot};
    /// let snapshot = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"1\" .\n<http://e/a> <http://e/p> \"2\" .")?;
    /// let index = snapshot.index(Order::Gpos);
    /// let objects = index.quads(0..index.len()).map(|[_, _, object, _]| snapshot.term(object).to_string());
    /// assert_eq!(objects.collect::<Vec<_>>(), ["\"1\"", "\"2\""]);
    /// # Ok::<(), vicus_rdf::SyntaxError>(())
    /// ```
    pub fn quads(&self, rows: Range<usize>) -> Quads<'_> {
        assert!(rows.start <= rows.end && rows.end <= self.len(), "{rows:?} of {} rows", self.len());
        Quads { index: self, rows, levels: Default::default(), next: 0 }
    }
}

impl Quads<'_> {
    /// The next row, in the order of the index's levels.
    #[inline]
    pub(crate) fn next_row(&mut self) -> Option<[Id; 4]> {
        if self.next == self.levels[0].len() && !self.read() {
            return None;
        }
        let row = self.levels.each_ref().map(|level| Id::from_bits(level[self.next]));
        self.next += 1;
        Some(row)
    }

    fn read(&mut self) -> bool {
        let end = self.rows.end.min(self.rows.start + AT_ONCE);
        let rows = self.rows.start..end;
        self.rows.start = end;
        self.next = 0;
        for (number, level) in self.levels.iter_mut().enumerate() {
            level.clear();
            Unfilled::of(level, rows.len(), |room| self.index.fill(number, rows.clone(), room));
        }
        !rows.is_empty()
    }
}

impl Iterator for Quads<'_> {
    type Item = [Id; 4];

    #[inline]
    fn next(&mut self) -> Option<[Id; 4]> {
        Some(self.index.order().restore(self.next_row()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.rows.len() + self.levels[0].len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Quads<'_> {}
