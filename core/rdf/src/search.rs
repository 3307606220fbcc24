//! Repeated searches in an index: each begins at the end of the last one, or at a place guessed from its value.
//!
//! Demaine, López-Ortiz, Munro, "Adaptive set intersections", SODA 2000, for galloping from the last place; Peterson,
//! "Addressing for random-access storage", IBM Journal 1957, for guessing the place from the value. Ranks are dense, so
//! a guess is nearly always close; galloping repairs a bad one.

use crate::base::{Base, Lies};
use crate::delta::{Delta, Flat, Spot};
use crate::ids::Id;
use crate::index::Index;
use crate::packed::Window;
use crate::present_rows::Near;
use std::ops::Range;

/// Searches an index from the end of the last search. Searches for ascending values take O(log distance), others O(log
/// n).
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
    /// The rows changed since, and the end of the last search in them.
    changed: Option<(&'a Delta, Spot)>,
    /// The graph of the last search and its keys; in an order ending with the graph, all keys.
    graph: Id,
    keys: Range<usize>,
    /// The ends of the last searches: a place in the keys, and rows. These are hints; any values give correct results.
    key: usize,
    levels: [usize; 3],
    /// Windows of keys and of their first rows, and of the levels after them.
    key_windows: [Window; 2],
    level_windows: [Window; 3],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(index: &'a Index) -> Cursor<'a> {
        let changed = index.changed().map(|changed| (changed.rows(), Spot::default()));
        Cursor { changed, ..Cursor::of_base(index.base()) }
    }

    /// A cursor without changes.
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

    /// Like [`Index::range`].
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
    /// The changes of rows with the prefix, and the end of the last search in them; `None` if the index has no changes
    /// at all.
    changes: Option<(Range<Spot>, Spot)>,
    /// The numbers of these entries, when they were asked for.
    entries: Option<Range<usize>>,
    /// The searched places: graphs, keys or rows.
    within: Range<usize>,
    /// The rows of these.
    ends: Range<usize>,
    /// The last id, and the end of its search.
    last: u64,
    place: usize,
    /// The distance of ids up to which a search from `place` is shorter than after a guess.
    near: u64,
    /// A line from the first to the last id; if there are many searches, lines through more of them.
    line: Line,
    /// The difference of the last and the first id.
    span: u64,
    guide: Option<Box<Guide>>,
    /// How many searches began with a guess, until the guide is made.
    guesses: u32,
    /// Windows of the level, and of the first rows of keys.
    ids: Window,
    starts: Window,
}

/// Up to this distance in places, galloping beats a guess.
const NEAR: f64 = 64.0;

/// After this number of guesses, making the guide takes little time beside them.
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
        let ends = match lies {
            Lies::Graphs => 0..index.len(),
            Lies::Keys => index.start_of(within.start)..index.start_of(within.end),
            Lies::Rows(_) | Lies::Last => within.clone(),
        };
        let last_place = within.end.max(within.start + 1) - 1;
        let [first, last] =
            [within.start, last_place].map(|at| if within.is_empty() { 0 } else { index.id_at(level, at).bits() });
        let line = Line::through((first, within.start), (last, last_place));
        Searcher {
            level,
            lies,
            changes,
            entries: None,
            last: first,
            place: within.start,
            within,
            ends,
            near: NEAR as u64,
            line,
            span: last - first,
            guide: None,
            guesses: 0,
            ids: Window::default(),
            starts: Window::default(),
        }
    }

    /// The rows with `id`; an empty range if there are none. `index` must be the searcher's own.
    #[inline]
    pub fn find(&mut self, index: &Index, id: Id) -> Range<usize> {
        let mut rows = 0..0;
        self.find_each(index, &[id.bits()], |_, found| {
            rows = found;
            true
        });
        rows
    }

    /// Like [`Searcher::find`], for many ids, given as [`Id::bits`]: `found` gets the place of an id with its rows, and
    /// says whether to go on.
    #[inline]
    pub fn find_each(&mut self, index: &Index, ids: &[u64], found: impl FnMut(usize, Range<usize>) -> bool) {
        let base = index.base();
        match index.changed() {
            None => self.each_by_level(base, ids, &mut Unchanged, found),
            Some(changed) => self.find_each_changed(base, changed.rows(), ids, found),
        }
    }

    /// Like [`Searcher::find_each`], if the index has changes.
    #[inline(never)]
    fn find_each_changed(
        &mut self,
        base: &Base,
        delta: &Delta,
        ids: &[u64],
        found: impl FnMut(usize, Range<usize>) -> bool,
    ) {
        let (level, changes) = (self.level, self.changes.clone().expect("the index that it was made for has changes"));
        let (within, spot) = changes;
        let columns = delta.flat(ids.len()).and_then(|flat| Some((flat, flat.column(delta, level)?)));
        match columns {
            Some((flat, column)) => {
                let entries = self
                    .entries
                    .get_or_insert_with(|| delta.number_of(within.start)..delta.number_of(within.end))
                    .clone();
                self.each_by_level(
                    base,
                    ids,
                    &mut InColumns { flat, ids: column, within: entries, gap: 0..0, net: 0 },
                    found,
                );
            }
            None => {
                let mut in_chunks = InChunks { delta, level, within, spot };
                self.each_by_level(base, ids, &mut in_chunks, found);
                self.changes = Some((in_chunks.within, in_chunks.spot));
            }
        }
    }

    #[inline(always)]
    fn each_by_level<C: Changes>(
        &mut self,
        base: &Base,
        ids: &[u64],
        changes: &mut C,
        found: impl FnMut(usize, Range<usize>) -> bool,
    ) {
        // The place of the level is asked once for all of them.
        match self.lies {
            Lies::Rows(column) => {
                let find = |within, hint, id, ids: &mut Window, _: &mut Window| {
                    let rows = base.find_in(Lies::Rows(column), within, hint, id, ids);
                    (rows.start, rows)
                };
                self.each(base, ids, find, changes, found);
            }
            Lies::Last => {
                let find = |within, hint, id, ids: &mut Window, _: &mut Window| {
                    let rows = base.find_in(Lies::Last, within, hint, id, ids);
                    (rows.start, rows)
                };
                self.each(base, ids, find, changes, found);
            }
            Lies::Keys => {
                let find = |within, hint, id, ids: &mut Window, starts: &mut Window| {
                    let key = base.find_key(within, hint, id, ids);
                    let rows = match key.is_empty() {
                        true => C::empty(|| base.start_of(key.start)),
                        false => base.read_rows_of_key(key.start, starts),
                    };
                    (key.start, rows)
                };
                self.each(base, ids, find, changes, found);
            }
            Lies::Graphs => {
                let find = |_, hint, id, ids: &mut Window, _: &mut Window| {
                    let graph = base.find_graph(hint, id, ids);
                    let rows = match graph.is_empty() {
                        true => C::empty(|| base.start_of_graph(graph.start)),
                        false => base.rows_of_graph(graph.start),
                    };
                    (graph.start, rows)
                };
                self.each(base, ids, find, changes, found);
            }
        }
    }

    #[inline(always)]
    fn each(
        &mut self,
        base: &Base,
        ids: &[u64],
        find: impl Fn(Range<usize>, usize, Id, &mut Window, &mut Window) -> (usize, Range<usize>),
        changes: &mut impl Changes,
        mut found: impl FnMut(usize, Range<usize>) -> bool,
    ) {
        for (number, &id) in ids.iter().enumerate() {
            // Many of the joined rows may be of another kind altogether.
            if id.wrapping_sub(self.line.id) > self.span {
                let place = if id < self.line.id { self.ends.start } else { self.ends.end };
                if !found(number, changes.around(id, place..place)) {
                    return;
                }
                continue;
            }
            let hint = self.hint(base, id);
            let (place, rows) = find(self.within.clone(), hint, Id::from_bits(id), &mut self.ids, &mut self.starts);
            (self.last, self.place) = (id, place);
            if !found(number, changes.around(id, rows)) {
                return;
            }
        }
    }

    /// The start of the search for an id. In the loop over ids, a call would take as long as the hint.
    #[inline(always)]
    fn hint(&mut self, base: &Base, id: u64) -> usize {
        match &self.guide {
            _ if id.abs_diff(self.last) <= self.near => self.place,
            Some(guide) => guide.guess(id),
            None => self.guess(base, id),
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

/// The effect of an index's changes on rows of its base.
trait Changes {
    /// The rows with `id`, given those of the base, or the empty range at their place.
    fn around(&mut self, id: u64, base: Range<usize>) -> Range<usize>;

    /// No rows of the base, at their place.
    #[inline(always)]
    fn empty(place: impl FnOnce() -> usize) -> Range<usize> {
        let place = place();
        place..place
    }
}

struct Unchanged;

impl Changes for Unchanged {
    #[inline(always)]
    fn around(&mut self, _: u64, base: Range<usize>) -> Range<usize> {
        base
    }

    /// The place does not matter.
    #[inline(always)]
    fn empty(_: impl FnOnce() -> usize) -> Range<usize> {
        0..0
    }
}

/// In a delta, from the end of the last search.
struct InChunks<'a> {
    delta: &'a Delta,
    level: usize,
    within: Range<Spot>,
    spot: Spot,
}

impl Changes for InChunks<'_> {
    #[inline]
    fn around(&mut self, id: u64, base: Range<usize>) -> Range<usize> {
        self.delta.around_id(self.level, Id::from_bits(id), &self.within, base, &mut self.spot)
    }
}

/// In a delta's columns.
struct InColumns<'a> {
    flat: &'a Flat,
    ids: &'a [u64],
    within: Range<usize>,
    /// The last rows of the base between two changes, and how far these move them.
    gap: Range<usize>,
    net: isize,
}

impl Changes for InColumns<'_> {
    #[inline(always)]
    fn around(&mut self, id: u64, base: Range<usize>) -> Range<usize> {
        // The place behind the last row of a gap belongs to the change behind it. This change may be one of a row with
        // the id.
        if self.gap.start <= base.start && base.end < self.gap.end {
            return base.start.wrapping_add_signed(self.net)..base.end.wrapping_add_signed(self.net);
        }
        self.around_changes(id, base)
    }
}

impl InColumns<'_> {
    #[inline(never)]
    fn around_changes(&mut self, id: u64, base: Range<usize>) -> Range<usize> {
        let (gap, entry) = self.flat.gap(base.start);
        if gap.start <= base.start && base.end < gap.end && self.within.start <= entry && entry <= self.within.end {
            (self.gap, self.net) = (gap, self.flat.net(entry));
            return self.around(id, base);
        }
        self.flat.around(self.ids, id, &self.within, base)
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

/// The places of ids, as lines between a few of them. The ranks of one kind are dense, but kinds are far apart, so a
/// single line may be far from all ids.
#[derive(Clone, Debug)]
struct Guide {
    lines: [Line; LINES],
    /// The ids at the starts of the lines.
    ids: [u64; LINES],
}

const LINES: usize = STEP * STEP;

const STEP: usize = 8;

impl Guide {
    /// A guide through the ids at these places; they ascend. Panics if there are none.
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
        // Independent comparisons take less time than the fewest dependent ones.
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
    /// A window of the base.
    window: Window,
    /// If there are changes: the place of the last row.
    near: Near,
}

impl Reader {
    pub(crate) fn new(level: usize) -> Reader {
        Reader { level, window: Window::default(), near: Near::default() }
    }

    /// Like [`Index::get`]. `index` must be the reader's own.
    #[inline]
    pub fn get(&mut self, index: &Index, row: usize) -> Id {
        match index.merged() {
            None => index.base().read(self.level, row, &mut self.window),
            Some(merged) => merged.read(self.level, row, &mut self.near, &mut self.window),
        }
    }

    /// The ids of the first of these rows: of at least one. Panics if there are no rows. `index` must be the reader's
    /// own.
    #[inline]
    pub fn slice(&mut self, index: &Index, rows: Range<usize>) -> &[Id] {
        match index.merged() {
            None => index.base().slice(self.level, rows, &mut self.window),
            Some(merged) => merged.slice(self.level, rows, &mut self.near, &mut self.window),
        }
    }
}
