//! A new base for a snapshot that was changed: fresh terms get ranks, deleted quads and terms without quads are left out.
//!
//! Nothing is sorted but what is new. The ids of terms keep their order except for those of fresh terms, so the rows of an index
//! stay in order except for those that have a fresh term. These are sorted apart, and two sorted sequences are merged.

use crate::delta::{Change, Row};
use crate::dictionary::{Dictionary, Section};
use crate::ids::{Id, Kind};
use crate::index::{Index, Order};
use crate::snapshot::Snapshot;
use std::iter::Peekable;
use std::sync::Arc;
use vicus_flow::{Grow, NoMemory, Room};

/// The steps of a rebuild: first the dictionary, then each index, in any order or at the same time.
///
/// ```
/// use std::sync::Arc;
/// use vicus_rdf::rebuild::Rebuild;
/// use vicus_rdf::{Changes, Id, Snapshot};
///
/// let before = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> <http://e/c> .")?;
/// let mut changes = Changes::of(&before);
/// let [a, p, b] = ["http://e/a", "http://e/p", "http://e/b"]
///     .map(|iri| changes.id(&before, oxrdf::NamedNodeRef::new_unchecked(iri).into()).expect("memory"));
/// changes.inserts.push([a, p, b, Id::UNBOUND]);
/// let changed = Arc::new(before.with(changes).expect("memory"));
/// let (rebuild, dictionary) = Rebuild::new(&changed).expect("memory");
/// // The new term stands between the others now.
/// let [a, b, p] = [a, b, p].map(|id| rebuild.id(id));
/// assert!(a < b && b < p);
/// let indexes = changed.orders().map(|order| rebuild.index(order).expect("memory")).collect::<Vec<_>>();
/// let rebuilt = Snapshot::new(dictionary, indexes).expect("memory");
/// assert_eq!((rebuilt.len(), rebuilt.fresh().len(), rebuilt.change_count()), (2, 0, 0));
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Debug)]
pub struct Rebuild {
    snapshot: Arc<Snapshot>,
    /// One for each of [`Kind::IN_DICTIONARY`].
    ranks: [Ranks; 5],
    /// The ids of fresh terms, by place; unbound for those without quads.
    fresh: Vec<Id>,
}

impl Rebuild {
    /// Finds the terms that have quads, and makes their dictionary.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(snapshot: &Arc<Snapshot>) -> Result<(Rebuild, Dictionary), NoMemory> {
        let used = Used::of(snapshot)?;
        let mut fresh = Vec::with_room(snapshot.fresh().len())?;
        fresh.resize(snapshot.fresh().len(), Id::UNBOUND);
        let mut places: Vec<Id> = Vec::with_room(used.fresh.len())?;
        places.extend(snapshot.fresh().ids().zip(&used.fresh).filter(|(_, is_used)| **is_used).map(|(id, _)| id));
        places.sort_unstable_by(|a, b| a.kind().cmp(&b.kind()).then_with(|| snapshot.compare(*a, *b)));
        let (mut sections, mut ranks): ([Section; 5], [Ranks; 5]) = Default::default();
        for (number, (kind, ranked)) in Kind::IN_DICTIONARY.into_iter().zip(used.ranked).enumerate() {
            let start = places.partition_point(|id| id.kind() < kind);
            let end = places.partition_point(|id| id.kind() <= kind);
            (sections[number], ranks[number]) = section(snapshot, kind, ranked, &places[start..end], &mut fresh)?;
        }
        let rebuild = Rebuild { snapshot: Arc::clone(snapshot), ranks, fresh };
        Ok((rebuild, Dictionary::new(sections)))
    }

    /// The new id of a term of the snapshot. That of a term without quads means nothing.
    pub fn id(&self, id: Id) -> Id {
        match id.kind().section() {
            None => id,
            Some(_) if id.is_computed() => self.fresh.get(id.place()).copied().unwrap_or_default(),
            Some(section) => Id::ranked(id.kind(), self.ranks[section].new_rank(id.place())),
        }
    }

    /// The rows of an index with new ids, ascending. Panics if the snapshot does not have this order.
    ///
    /// # Errors
    /// There is not enough memory for the rows with fresh terms.
    pub fn rows(&self, order: Order) -> Result<impl Iterator<Item = Row> + '_, NoMemory> {
        let index = self.snapshot.index(order);
        let mut late: Vec<Row> = Vec::new();
        for (row, change, _) in index.changed().iter().flat_map(|changed| changed.rows().changes()) {
            if change == Change::Insert && has_fresh(&row) {
                late.grow(1)?;
                late.push(row.map(|id| self.id(id)));
            }
        }
        late.sort_unstable();
        let mut columns: [Vec<u64>; 4] = Default::default();
        columns.iter_mut().try_for_each(|column| column.grow(ROWS))?;
        let others = Others { rebuild: self, index, next: 0, columns, place: 0 };
        Ok(Merge { a: others.peekable(), b: late.into_iter().peekable() })
    }

    /// An index with new ids. Panics if the snapshot does not have this order.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn index(&self, order: Order) -> Result<Index, NoMemory> {
        Index::new(order, self.rows(order)?)
    }
}

impl Snapshot {
    /// The same data as a snapshot without changes and fresh terms: all steps of [`Rebuild`], one after the other.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn rebuilt(self: &Arc<Snapshot>) -> Result<Snapshot, NoMemory> {
        let (rebuild, dictionary) = Rebuild::new(self)?;
        let indexes = self.orders().map(|order| rebuild.index(order)).collect::<Result<Vec<_>, _>>()?;
        Ok(Snapshot::new(dictionary, indexes)?.with_secrets(self.fresh().secrets()))
    }
}

fn has_fresh(row: &Row) -> bool {
    row.iter().any(|id| id.is_computed())
}

/// Which terms have quads.
struct Used {
    /// For each of [`Kind::IN_DICTIONARY`], a bit for each rank.
    ranked: [Vec<u64>; 5],
    fresh: Vec<bool>,
}

impl Used {
    fn of(snapshot: &Snapshot) -> Result<Used, NoMemory> {
        let mut ranked: [Vec<u64>; 5] = Default::default();
        for (bits, kind) in ranked.iter_mut().zip(Kind::IN_DICTIONARY) {
            *bits = Vec::zeroed(snapshot.dictionary().count(kind).div_ceil(64))?;
        }
        let mut fresh = Vec::with_room(snapshot.fresh().len())?;
        fresh.resize(snapshot.fresh().len(), false);
        let mut used = Used { ranked, fresh };
        for order in [Order::Gspo, Order::Gpso, Order::Gops] {
            let index = snapshot.index(order);
            index.keys(0..index.key_count()).for_each(|id| used.note(id));
        }
        snapshot.graphs().for_each(|id| used.note(id));
        Ok(used)
    }

    fn note(&mut self, id: Id) {
        match id.kind().section() {
            None => {}
            Some(_) if id.is_computed() => self.fresh[id.place()] = true,
            Some(section) => self.ranked[section][id.place() / 64] |= 1 << (id.place() % 64),
        }
    }
}

/// From the ranks of a kind's terms to their new ranks.
#[derive(Default, Debug)]
struct Ranks {
    /// A bit for each rank that is still used.
    used: Vec<u64>,
    /// For each word of `used`, how many terms the new dictionary has before its first rank.
    starts: Vec<u32>,
    /// The ranks before which fresh terms stand, ascending; and for each word of `used`, how many of them are less than its first
    /// rank.
    fresh: Vec<u32>,
    fresh_starts: Vec<u32>,
}

impl Ranks {
    fn new_rank(&self, rank: usize) -> usize {
        let (word, bit) = (rank / 64, rank % 64);
        let below = self.used[word] & ((1 << bit) - 1);
        let start = self.fresh_starts[word] as usize;
        // Mostly none.
        let fresh = self.fresh[start..].iter().take_while(|next| **next as usize <= rank).count();
        self.starts[word] as usize + below.count_ones() as usize + fresh
    }
}

/// The new section of a kind, given the ranks of terms in use and the fresh terms in their order, whose new ids are noted.
fn section(
    snapshot: &Snapshot,
    kind: Kind,
    used: Vec<u64>,
    places: &[Id],
    fresh_ids: &mut [Id],
) -> Result<(Section, Ranks), NoMemory> {
    let (dictionary, fresh) = (snapshot.dictionary(), snapshot.fresh());
    let count = used.iter().map(|word| word.count_ones() as usize).sum::<usize>() + places.len();
    let (mut text, mut lengths): (Vec<u8>, Vec<usize>) = (Vec::new(), Vec::with_room(count)?);
    let mut ranks = Ranks { used, ..Ranks::default() };
    ranks.starts.grow(ranks.used.len())?;
    ranks.fresh_starts.grow(ranks.used.len())?;
    ranks.fresh.grow(places.len())?;
    let mut next = places.iter().map(|id| (*id, fresh.next_rank(*id))).peekable();
    let mut add = |key: &str| {
        text.grow(key.len())?;
        text.extend_from_slice(key.as_bytes());
        lengths.push(key.len());
        Ok(())
    };
    let mut done = 0;
    for rank in 0..dictionary.count(kind) {
        if rank % 64 == 0 {
            ranks.starts.push(done);
            ranks.fresh_starts.push(ranks.fresh.len() as u32);
        }
        while let Some((id, before)) = next.next_if(|(_, before)| *before == rank) {
            add(fresh.key(id))?;
            fresh_ids[id.place()] = Id::ranked(kind, done as usize);
            ranks.fresh.push(before as u32);
            done += 1;
        }
        if ranks.used[rank / 64] >> (rank % 64) & 1 == 1 {
            add(dictionary.key(Id::ranked(kind, rank)))?;
            done += 1;
        }
    }
    for (id, _) in next {
        add(fresh.key(id))?;
        fresh_ids[id.place()] = Id::ranked(kind, done as usize);
        done += 1;
    }
    text.shrink_to_fit();
    Ok((Section::new(text, lengths.into_iter())?, ranks))
}

/// So many rows are read at once.
const ROWS: usize = 1024;

/// The rows of an index without fresh terms, with new ids.
struct Others<'a> {
    rebuild: &'a Rebuild,
    index: &'a Index,
    /// The next row that is not read.
    next: usize,
    /// Rows that are read, and how many of them are given out.
    columns: [Vec<u64>; 4],
    place: usize,
}

impl Iterator for Others<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        loop {
            if self.place == self.columns[0].len() {
                let rows = self.next..self.index.len().min(self.next + ROWS);
                if rows.is_empty() {
                    return None;
                }
                for (level, column) in self.columns.iter_mut().enumerate() {
                    column.clear();
                    Room::of(column, rows.len(), |room| self.index.fill(level, rows.clone(), room));
                }
                (self.next, self.place) = (rows.end, 0);
            }
            let row: Row = [0, 1, 2, 3].map(|level: usize| Id::from_bits(self.columns[level][self.place]));
            self.place += 1;
            if !has_fresh(&row) {
                return Some(row.map(|id| self.rebuild.id(id)));
            }
        }
    }
}

/// Two ascending sequences as one.
struct Merge<A: Iterator<Item = Row>, B: Iterator<Item = Row>> {
    a: Peekable<A>,
    b: Peekable<B>,
}

impl<A: Iterator<Item = Row>, B: Iterator<Item = Row>> Iterator for Merge<A, B> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        match (self.a.peek(), self.b.peek()) {
            (Some(a), Some(b)) if b < a => self.b.next(),
            (Some(_), _) => self.a.next(),
            (None, _) => self.b.next(),
        }
    }
}
