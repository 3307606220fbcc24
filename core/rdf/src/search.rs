//! Repeated searches in an index: each begins where the last one ended, or where its value says that it should.
//!
//! Demaine, López-Ortiz, Munro, "Adaptive set intersections", SODA 2000, for galloping from the last place; Peterson,
//! "Addressing for random-access storage", IBM Journal 1957, for guessing the place from the value. Ranks are dense, so
//! a guess is nearly always close; where it isn't, galloping repairs it.

use crate::base::{Base, Lies};
use crate::delta::{Delta, Spot};
use crate::ids::Id;
use crate::index::Index;
use crate::packed::Window;
use std::ops::Range;

/// Searches an index from where the last search ended. Searches for ascending values take O(log distance), others O(log n).
///
/// ```
/// use vicus_rdf::{Id, Order, Snapshot};
/// let snapshot = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"1\" .\n<http://e/b> <http://e/p> \"2\" .")?;
/// let index = snapshot.index(Order::Gspo);
/// let mut cursor = index.cursor();
/// let subjects = index.keys(index.keys_of(Id::UNBOUND));
/// let rows: usize = subjects.map(|subject| cursor.range(&[Id::UNBOUND, subject]).len()).sum();
/// assert_eq!(rows, 2);
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    base: &'a Base,
    /// The rows changed since, and where the last search in them ended.
    changed: Option<(&'a Delta, Spot)>,
    /// The graph of the last search and its keys; in an order that ends with the graph, all keys.
    graph: Id,
    keys: Range<usize>,
    /// Where the last searches ended: a place in the keys, and rows. These are hints; any values give correct results.
    key: usize,
    levels: [usize; 3],
    /// Of keys and of their first rows, and of the levels after them.
    key_windows: [Window; 2],
    level_windows: [Window; 3],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(index: &'a Index) -> Cursor<'a> {
        let changed = index.changed().map(|changed| (changed.rows(), Spot::default()));
        Cursor { changed, ..Cursor::of_base(index.base()) }
    }

    /// A cursor that does not know of changes.
    pub(crate) fn of_base(base: &'a Base) -> Cursor<'a> {
        Cursor {
            base,
            changed: None,
            graph: Id::UNBOUND,
            keys: base.keys_of(Id::UNBOUND),
            key: 0,
            levels: [0; 3],
            key_windows: Default::default(),
            level_windows: Default::default(),
        }
    }

    /// As [`Index::range`].
    #[inline]
    pub fn range(&mut self, prefix: &[Id]) -> Range<usize> {
        let rows = self.range_in_base(prefix);
        match &mut self.changed {
            None => rows,
            Some((delta, hint)) => delta.around(prefix, rows, hint),
        }
    }

    fn range_in_base(&mut self, prefix: &[Id]) -> Range<usize> {
        let rest = match prefix {
            [] => return 0..self.base.len(),
            [graph, rest @ ..] if self.base.order().is_by_graph() => {
                if *graph != self.graph {
                    (self.graph, self.keys) = (*graph, self.base.keys_of(*graph));
                }
                rest
            }
            rest => rest,
        };
        let [first, rest @ ..] = rest else { return self.base.range(prefix) };
        assert!(rest.len() < 4, "a quad has four ids");
        let mut rows = self.first(*first);
        let above = self.base.key_level() + 1;
        for (place, id) in rest.iter().enumerate() {
            let (hint, window) = (self.levels[place], &mut self.level_windows[place]);
            rows = self.base.find(above + place, rows, hint, *id, window);
            self.levels[place] = rows.start;
        }
        rows
    }

    fn first(&mut self, id: Id) -> Range<usize> {
        let (base, [keys, starts]) = (self.base, &mut self.key_windows);
        let found = base.find_key(self.keys.clone(), self.key, id, keys);
        self.key = found.start;
        if found.start == base.key_count() {
            return base.len()..base.len();
        }
        let rows = base.read_rows_of_key(found.start, starts);
        if found.is_empty() { rows.start..rows.start } else { rows }
    }
}

/// Searches one level of an index for ids in any order, within the rows of one prefix.
///
/// ```
/// use vicus_rdf::{Id, Order, Snapshot};
/// let snapshot = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"1\" .\n<http://e/b> <http://e/p> \"2\" .")?;
/// let index = snapshot.index(Order::Gpso);
/// let predicate = index.key(0);
/// let mut searcher = index.searcher(&[Id::UNBOUND, predicate]);
/// for row in [1, 0] {
///     assert_eq!(searcher.find(index, index.get(2, row)), row..row + 1);
/// }
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Searcher {
    level: usize,
    lies: Lies,
    /// The changes of rows with the prefix, and where the last search in them ended; `None` if the index has no changes at all.
    changes: Option<(Range<Spot>, Spot)>,
    /// Where it searches: graphs, keys or rows.
    within: Range<usize>,
    /// The last id, and where its search ended.
    last: u64,
    place: usize,
    /// The distance of ids within which a search from `place` is shorter than after a guess.
    near: u64,
    /// A line from the first to the last id; if there are many searches, lines through more of them.
    line: Line,
    /// The difference of the last and the first id.
    span: u64,
    guide: Option<Box<Guide>>,
    /// How many searches began with a guess, until the guide is made.
    guesses: u32,
    /// Of the level; and of the first rows of keys.
    ids: Window,
    starts: Window,
}

/// Up to this distance in places, galloping beats a guess.
const NEAR: f64 = 64.0;

/// After so many guesses, making the guide takes little time beside them.
const GUESSES: u32 = 16;

impl Searcher {
    pub(crate) fn new(index: &Index, prefix: &[Id]) -> Searcher {
        let level = prefix.len();
        let changes =
            index.changed().map(|changed| changed.rows().spots(prefix)).map(|spots| (spots.clone(), spots.start));
        let index = index.base();
        let lies = index.lies(level);
        let within = match lies {
            Lies::Graphs => 0..index.graph_count(),
            Lies::Keys => prefix.first().map_or(0..index.key_count(), |graph| index.keys_of(*graph)),
            Lies::Rows(_) | Lies::Last => index.range(prefix),
        };
        let last_place = within.end.max(within.start + 1) - 1;
        let ends =
            [within.start, last_place].map(|at| if within.is_empty() { 0 } else { index.id_at(level, at).bits() });
        let line = Line::through((ends[0], within.start), (ends[1], last_place));
        let (ids, starts) = (Window::default(), Window::default());
        let (last, place, near, span) = (ends[0], within.start, NEAR as u64, ends[1] - ends[0]);
        Searcher { level, lies, changes, last, place, within, near, line, span, guide: None, guesses: 0, ids, starts }
    }

    /// The rows with `id`; an empty range if there are none. `index` must be the one that it was made for.
    #[inline]
    pub fn find(&mut self, index: &Index, id: Id) -> Range<usize> {
        let mut rows = 0..0;
        self.find_each(index, &[id.bits()], |_, found| {
            rows = found;
            true
        });
        rows
    }

    /// As [`Searcher::find`], for many ids, given as [`Id::bits`]: `found` gets the place of an id with its rows, and says whether
    /// to go on.
    #[inline]
    pub fn find_each(&mut self, index: &Index, ids: &[u64], found: impl FnMut(usize, Range<usize>) -> bool) {
        let base = match index.changed() {
            None => index.base(),
            Some(changed) => return self.find_each_changed(index.base(), changed.rows(), ids, found),
        };
        // Where the level lies is asked once for all of them.
        match self.lies {
            Lies::Rows(column) => {
                let find = |within, hint, id, ids: &mut Window, _: &mut Window| {
                    let rows = base.find_in(Lies::Rows(column), within, hint, id, ids);
                    (rows.start, rows)
                };
                self.each(base, ids, find, found);
            }
            Lies::Last => {
                let find = |within, hint, id, ids: &mut Window, _: &mut Window| {
                    let rows = base.find_in(Lies::Last, within, hint, id, ids);
                    (rows.start, rows)
                };
                self.each(base, ids, find, found);
            }
            Lies::Keys => {
                let find = |within, hint, id, ids: &mut Window, starts: &mut Window| {
                    let key = base.find_key(within, hint, id, ids);
                    (key.start, if key.is_empty() { 0..0 } else { base.read_rows_of_key(key.start, starts) })
                };
                self.each(base, ids, find, found);
            }
            Lies::Graphs => {
                let find = |_, hint, id, ids: &mut Window, _: &mut Window| {
                    let graph = base.find_graph(hint, id, ids);
                    (graph.start, if graph.is_empty() { 0..0 } else { base.rows_of_graph(graph.start) })
                };
                self.each(base, ids, find, found);
            }
        }
    }

    #[inline]
    fn each(
        &mut self,
        base: &Base,
        ids: &[u64],
        find: impl Fn(Range<usize>, usize, Id, &mut Window, &mut Window) -> (usize, Range<usize>),
        mut found: impl FnMut(usize, Range<usize>) -> bool,
    ) {
        for (number, &id) in ids.iter().enumerate() {
            // Many of the rows that are joined may be of another kind altogether.
            if id.wrapping_sub(self.line.id) > self.span {
                if !found(number, 0..0) {
                    return;
                }
                continue;
            }
            let hint = self.hint(base, id);
            let (place, rows) = find(self.within.clone(), hint, Id::from_bits(id), &mut self.ids, &mut self.starts);
            (self.last, self.place) = (id, place);
            if !found(number, rows) {
                return;
            }
        }
    }

    /// Where to begin the search for an id. In the loop over ids, a call would take as long as the hint.
    #[inline(always)]
    fn hint(&mut self, base: &Base, id: u64) -> usize {
        match &self.guide {
            _ if id.abs_diff(self.last) <= self.near => self.place,
            Some(guide) => guide.guess(id),
            None => self.guess(base, id),
        }
    }

    /// As [`Searcher::find_each`], if the index has changes.
    #[inline(never)]
    fn find_each_changed(
        &mut self,
        base: &Base,
        delta: &Delta,
        ids: &[u64],
        mut found: impl FnMut(usize, Range<usize>) -> bool,
    ) {
        for (number, &id) in ids.iter().enumerate() {
            let places = if id < self.line.id {
                self.within.start..self.within.start
            } else if id - self.line.id > self.span {
                self.within.end..self.within.end
            } else {
                let (hint, within) = (self.hint(base, id), self.within.clone());
                let places = match self.lies {
                    Lies::Graphs => base.find_graph(hint, Id::from_bits(id), &mut self.ids),
                    Lies::Keys => base.find_key(within, hint, Id::from_bits(id), &mut self.ids),
                    lies => base.find_in(lies, within, hint, Id::from_bits(id), &mut self.ids),
                };
                (self.last, self.place) = (id, places.start);
                places
            };
            let rows = match self.lies {
                Lies::Graphs => base.start_of_graph(places.start)..base.start_of_graph(places.end),
                Lies::Keys if places.is_empty() => {
                    let start = base.start_of(places.start);
                    start..start
                }
                Lies::Keys => base.read_rows_of_key(places.start, &mut self.starts),
                Lies::Rows(_) | Lies::Last => places,
            };
            let (within, spot) = self.changes.as_mut().expect("the index that it was made for has changes");
            if !found(number, delta.around_id((self.level, Id::from_bits(id)), within, rows, spot)) {
                return;
            }
        }
    }

    #[cold]
    fn guess(&mut self, base: &Base, id: u64) -> usize {
        self.guesses += 1;
        if self.guesses == GUESSES && !self.within.is_empty() {
            let guide = Guide::new(&self.within, |place| base.id_at(self.level, place).bits());
            self.near = (NEAR / guide.usual_slope()) as u64;
            self.guide = Some(Box::new(guide));
        }
        self.line.guess(id)
    }
}

/// Places as a linear function of ids.
#[derive(Clone, Copy, Debug)]
struct Line {
    id: u64,
    place: usize,
    /// Places per id.
    slope: f64,
}

impl Line {
    fn through(a: (u64, usize), b: (u64, usize)) -> Line {
        let slope = (b.1 - a.1) as f64 / b.0.saturating_sub(a.0).max(1) as f64;
        Line { id: a.0, place: a.1, slope }
    }

    #[inline]
    fn guess(&self, id: u64) -> usize {
        self.place.saturating_add((id.saturating_sub(self.id) as i64 as f64 * self.slope) as usize)
    }
}

/// Where ids lie, as lines between a few of them. The ranks of one kind are dense, but kinds are far apart, so that a single line
/// may be far from all ids.
#[derive(Clone, Debug)]
struct Guide {
    lines: [Line; LINES],
    /// Where they begin.
    ids: [u64; LINES],
}

const LINES: usize = STEP * STEP;

const STEP: usize = 8;

impl Guide {
    /// Of the ids at these places, which ascend. Panics if there are none.
    fn new(within: &Range<usize>, id: impl Fn(usize) -> u64) -> Guide {
        let knot = |number: usize| {
            let place = within.start + (within.len() - 1) * number / LINES;
            (id(place), place)
        };
        let lines = std::array::from_fn(|number| Line::through(knot(number), knot(number + 1)));
        Guide { lines, ids: lines.map(|line| line.id) }
    }

    #[inline]
    fn guess(&self, id: u64) -> usize {
        // Comparisons that do not depend on each other take less time than the fewest that do.
        let coarse = (1..STEP).filter(|number| self.ids[number * STEP] <= id).count() * STEP;
        let fine = (1..STEP).filter(|number| self.ids[coarse + number] <= id).count();
        self.lines[coarse + fine].guess(id)
    }

    /// The median.
    fn usual_slope(&self) -> f64 {
        let mut slopes = self.lines.map(|line| line.slope);
        slopes.sort_unstable_by(f64::total_cmp);
        slopes[LINES / 2]
    }
}

/// Reads a level after the keys of an index, faster than [`Index::get`] if many reads are near each other.
///
/// ```
/// use vicus_rdf::{Order, Snapshot};
/// let snapshot = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"1\" .\n<http://e/a> <http://e/p> \"2\" .")?;
/// let index = snapshot.index(Order::Gspo);
/// let mut reader = index.reader(2);
/// let predicate = reader.get(index, 0);
/// assert_eq!(reader.slice(index, 0..2), [predicate; 2]);
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader {
    level: usize,
    window: Window,
}

impl Reader {
    pub(crate) fn new(level: usize) -> Reader {
        Reader { level, window: Window::default() }
    }

    /// As [`Index::get`]. `index` must be the one that it was made for.
    #[inline]
    pub fn get(&mut self, index: &Index, row: usize) -> Id {
        index.read(self.level, row, &mut self.window)
    }

    /// The ids of the first of these rows: of at least one. Panics if there are no rows. `index` must be the one that it was made
    /// for.
    #[inline]
    pub fn slice(&mut self, index: &Index, rows: Range<usize>) -> &[Id] {
        index.slice(self.level, rows, &mut self.window)
    }
}
