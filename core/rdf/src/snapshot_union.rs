//! The quads of several snapshots as those of one with all terms ranked: makes changes part of a new base, and adds
//! data to one.
//!
//! ```text
//!  terms of each part ──▶ which are used ──▶ merged by key ──▶ dictionary, and for each part from its ids to new ones
//!  rows of each part, in each order ── new ids ──▶ merged ──▶ index
//! ```
//!
//! New ids of ranked terms ascend as the old ones do, so the rows of an order stay sorted. Only rows with terms without
//! a rank have to be sorted: those are among the changes since a base was built, and few.

use crate::dictionary::{Dictionary, Keys, Sample, Section, SectionBuilder};
use crate::ids::{Id, SECTIONS, TermKind};
use crate::index::{Index, Order};
use crate::packed::{Packed, Packing};
use crate::quads::Quads;
use crate::snapshot::Snapshot;
use crate::storage::Backing;
use crate::term::{NO_SOURCE, TermView, file_character, file_of};
use crate::triple;
use hashbrown::HashMap;
use vicus_flow::library::HashKey;
use vicus_flow::{Grow, NoMemory, refusable};

/// The work pauses after this number of rows or terms.
const BETWEEN_PAUSES: usize = 4096;

impl Snapshot {
    /// All quads of several snapshots, in all orders of the first. The result is the same as of loading the files of
    /// all, one after the other: the blank nodes of one are different from those of the others, and terms without quads
    /// are left out. It lies in `storage`. `pause` is called now and then, so the caller can let others work.
    ///
    /// ```
    /// use vicus_rdf::{Snapshot, Backing};
    /// let a = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"1\" .\n<http://e/a> <http://e/p> \"2\" .")?;
    /// let b = Snapshot::of_ntriples(b"<http://e/b> <http://e/p> \"1\" .\n<http://e/a> <http://e/p> \"2\" .")?;
    /// assert_eq!(Snapshot::united(&[&a, &b], &Backing::Memory, &mut || {}).unwrap().len(), 3);
    /// # Ok::<(), vicus_rdf::SyntaxError>(())
    /// ```
    ///
    /// # Errors
    /// There is not enough memory. If this happens while a key is read, or a page is damaged then, the caller's box
    /// gives up.
    pub fn united(parts: &[&Snapshot], storage: &Backing, pause: &mut dyn FnMut()) -> Result<Snapshot, NoMemory> {
        let [first, ..] = parts else { return Ok(Snapshot::from_parsed(Vec::new())) };
        let used = parts.iter().map(|part| Used::of(part, pause)).collect::<Result<Vec<_>, _>>()?;
        let (dictionary, numbers) = merge_terms(parts, &used, storage, pause)?;
        drop(used);
        let index = |order| merge_rows(order, parts, &numbers, storage, pause);
        let indexes = first.orders().map(index).collect::<Result<Vec<_>, _>>()?;
        Snapshot::new(dictionary, indexes)
    }

    /// About how many bytes of memory [`Snapshot::united`] takes for these parts if the result lies in memory.
    pub fn bytes_to_unite(parts: &[&Snapshot]) -> u64 {
        /// For the rows of four orders, for new numbers and ends of terms.
        const OF_QUAD: u64 = 48;
        let terms = |part: &Snapshot| (part.dictionary().text_len() + part.fresh().heap_bytes()) as u64;
        parts.iter().map(|part| terms(part) + OF_QUAD * part.len() as u64).sum()
    }
}

/// The terms used by a snapshot's quads.
struct Used {
    /// For each kind in the dictionary, a bit for each rank.
    ranks: [Vec<u64>; SECTIONS],
    /// Terms without a rank; in no order.
    fresh: Vec<Id>,
}

impl Used {
    fn of(snapshot: &Snapshot, pause: &mut dyn FnMut()) -> Result<Used, NoMemory> {
        let bits = |kind| Vec::zeroed(snapshot.dictionary().count(kind).div_ceil(64));
        let mut ranks: [Vec<u64>; SECTIONS] = Default::default();
        for (ranks, kind) in ranks.iter_mut().zip(TermKind::IN_DICTIONARY) {
            *ranks = bits(kind)?;
        }
        let mut fresh: HashMap<Id, (), HashKey> = HashMap::default();
        let index = snapshot.index(Order::Gspo);
        let mut last = [Id::UNBOUND; 4];
        for (number, quad) in index.quads(0..index.len()).enumerate() {
            if number % BETWEEN_PAUSES == 0 {
                pause();
            }
            for (id, last) in quad.into_iter().zip(&mut last) {
                // In this order, graphs, subjects and predicates come many times in a row.
                if std::mem::replace(last, id) == id {
                    continue;
                }
                match (id.kind().section(), id.rank()) {
                    (Some(_), _) if id.is_unranked() => {
                        let bytes = (2 * (fresh.len() + 1) * size_of::<Id>()) as u64;
                        refusable(|| fresh.try_reserve(1)).map_err(|_| NoMemory { bytes })?;
                        fresh.insert(id, ());
                    }
                    (Some(section), Some(rank)) => ranks[section][rank / 64] |= 1 << (rank % 64),
                    _ => {}
                }
            }
        }
        Ok(Used { ranks, fresh: fresh.into_keys().collect() })
    }

    /// How many files its blank nodes are from: more than the number of each.
    fn files(&self, snapshot: &Snapshot) -> u32 {
        let dictionary = snapshot.dictionary();
        let mut no_source = [0; 4];
        let no_source = file_character(NO_SOURCE).encode_utf8(&mut no_source);
        let end = dictionary.search(TermKind::Blank, no_source).unwrap_or_else(|next| next).rank().unwrap_or(0);
        let last = end.checked_sub(1).map(|rank| Id::ranked(TermKind::Blank, rank));
        let fresh = self.fresh.iter().copied().filter(|id| id.is_blank());
        let files = fresh.chain(last).filter_map(|id| snapshot.key(id, file));
        let mut greatest = files.max();
        // Those of triple terms need not be terms by themselves.
        let section = TermKind::Triple.section().expect("it has keys");
        let triples = self.ranks(section).map(|rank| Id::ranked(TermKind::Triple, rank));
        for id in triples.chain(self.fresh.iter().copied().filter(|id| id.is_triple())) {
            snapshot.view(id, |view| {
                let TermView::Triple(triple) = view else { unreachable!("its kind says so") };
                triple.each_blank(&mut |blank| {
                    greatest = greatest.max(Some(blank.file).filter(|file| *file < NO_SOURCE))
                });
            });
        }
        greatest.map_or(0, |greatest| greatest + 1)
    }

    /// The ranks of a kind, ascending.
    fn ranks(&self, section: usize) -> impl Iterator<Item = usize> + '_ {
        self.ranks[section].iter().enumerate().flat_map(|(place, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                rest &= rest.wrapping_sub(1);
                (bit < 64).then_some(place * 64 + bit as usize)
            })
        })
    }
}

/// The file of a blank node, by its key.
fn file(key: &str) -> Option<u32> {
    key.chars().next().map(file_of).filter(|&file| file < NO_SOURCE)
}

/// From the ids of a snapshot to those of the united one.
struct Renumbered {
    /// For each kind in the dictionary, the new rank of each used rank.
    ranks: [Packed<1>; SECTIONS],
    fresh: HashMap<Id, Id, HashKey>,
}

impl Renumbered {
    #[inline]
    fn id(&self, id: Id) -> Id {
        match (id.kind().section(), id.rank()) {
            (Some(_), _) if id.is_unranked() => self.fresh[&id],
            (Some(section), Some(rank)) => Id::ranked(id.kind(), self.ranks[section].get(0, rank) as usize),
            _ => id,
        }
    }
}

/// Merges the used terms into one dictionary.
fn merge_terms(
    parts: &[&Snapshot],
    used: &[Used],
    storage: &Backing,
    pause: &mut dyn FnMut(),
) -> Result<(Dictionary, Vec<Renumbered>), NoMemory> {
    let renumbered = || Renumbered { ranks: Default::default(), fresh: HashMap::default() };
    let mut numbers: Vec<Renumbered> = parts.iter().map(|_| renumbered()).collect();
    let mut sections: [Section; SECTIONS] = Default::default();
    // For each part, how many files those before it have.
    let mut next = 0;
    let of_files = |(part, used): (&&Snapshot, &Used)| {
        let before = next;
        next += used.files(part);
        before
    };
    let files: Vec<u32> = parts.iter().zip(used).map(of_files).collect();
    for (section, kind) in TermKind::IN_DICTIONARY.into_iter().enumerate() {
        let mut lists = Vec::new();
        let mut ranks: Vec<Packing<1>> = parts.iter().map(|_| Packing::new(storage)).collect();
        let mut sample = Sample::default();
        let bytes = parts.iter().map(|part| part.plain_bytes(kind)).sum();
        for (number, (part, used)) in parts.iter().zip(used).enumerate() {
            let mut keys = part.dictionary().keys(kind);
            Sample::blocks(keys.len(), bytes).flatten().try_for_each(|rank| sample.add(keys.key(rank).as_bytes()))?;
            let ranked = used.ranks(section).map(move |rank| Id::ranked(kind, rank));
            let before = files[number];
            lists.push(List::new(number, part, kind, before, Box::new(ranked)));
            let mut fresh: Vec<Id> = used.fresh.iter().copied().filter(|id| id.kind() == kind).collect();
            fresh.sort_unstable_by_key(|&id| part.fresh().key(id));
            let mut blocks = Sample::blocks(fresh.len(), bytes).flatten();
            blocks.try_for_each(|place| sample.add(part.fresh().key(fresh[place]).as_bytes()))?;
            lists.push(List::new(number, part, kind, before, Box::new(fresh.into_iter())));
        }
        let mut builder = SectionBuilder::new(sample.train()?, storage);
        let mut key = String::new();
        while let Some(least) = lists.iter().filter(|list| list.has_key()).min_by(|a, b| a.key.cmp(&b.key)) {
            least.key.clone_into(&mut key);
            let rank = builder.len();
            if rank.is_multiple_of(BETWEEN_PAUSES) {
                pause();
            }
            builder.push(&key)?;
            for list in lists.iter_mut().filter(|list| list.has_key() && list.key == key) {
                let numbers = &mut numbers[list.part];
                if list.id.is_unranked() {
                    let bytes = (2 * (numbers.fresh.len() + 1) * size_of::<[Id; 2]>()) as u64;
                    refusable(|| numbers.fresh.try_reserve(1)).map_err(|_| NoMemory { bytes })?;
                    numbers.fresh.insert(list.id, Id::ranked(kind, rank));
                } else if let Some(old) = list.id.rank() {
                    // Those in between are not used.
                    let ranks = &mut ranks[list.part];
                    (ranks.len()..=old).try_for_each(|_| ranks.push([rank as u64]))?;
                }
                list.advance();
            }
        }
        sections[section] = builder.finish()?;
        for (numbers, ranks) in numbers.iter_mut().zip(ranks) {
            numbers.ranks[section] = ranks.finish()?;
        }
    }
    Ok((Dictionary::new(sections), numbers))
}

impl Snapshot {
    /// About how many bytes the keys of a kind have.
    fn plain_bytes(&self, kind: TermKind) -> usize {
        let [mut ranked, mut fresh] = [0; 2];
        let mut keys = self.dictionary().keys(kind);
        let step = keys.len().div_ceil(SOME).max(1);
        (0..keys.len()).step_by(step).for_each(|rank| ranked += step * keys.key(rank).len());
        let step = self.fresh().len().div_ceil(SOME).max(1);
        let some = self.fresh().ids().step_by(step).filter(|id| id.kind() == kind);
        some.for_each(|id| fresh += step * self.fresh().key(id).len());
        ranked + fresh
    }
}

/// The mean length of this number of keys is about that of all.
const SOME: usize = 256;

/// Terms of a part, by their keys.
struct List<'a> {
    part: usize,
    snapshot: &'a Snapshot,
    keys: Keys<'a>,
    /// The number added to the numbers of its files.
    files: u32,
    rest: Box<dyn Iterator<Item = Id> + 'a>,
    /// The next term, and its key; unbound at the end.
    id: Id,
    key: String,
}

impl<'a> List<'a> {
    fn new(
        part: usize,
        snapshot: &'a Snapshot,
        kind: TermKind,
        files: u32,
        rest: Box<dyn Iterator<Item = Id> + 'a>,
    ) -> List<'a> {
        let keys = snapshot.dictionary().keys(kind);
        let mut list = List { part, snapshot, keys, files, rest, id: Id::UNBOUND, key: String::new() };
        list.advance();
        list
    }

    fn has_key(&self) -> bool {
        !self.id.is_unbound()
    }

    fn advance(&mut self) {
        self.id = self.rest.next().unwrap_or_default();
        let Some(rank) = self.id.rank() else { return };
        let key = if self.id.is_unranked() { self.snapshot.fresh().key(self.id) } else { self.keys.key(rank) };
        self.key.clear();
        match file(key).filter(|_| self.files > 0 && self.id.is_blank()) {
            Some(file) => {
                self.key.push(file_character(file + self.files));
                self.key.push_str(&key[key.chars().next().map_or(0, char::len_utf8)..]);
            }
            None if self.files > 0 && self.id.is_triple() => {
                let of = |file: u32| if file < NO_SOURCE { file + self.files } else { file };
                triple::with_files(key, &of, &mut self.key);
            }
            None => self.key.push_str(key),
        }
    }
}

/// Rows with new ids, ascending.
enum Source<'a> {
    /// The rows of a part, without rows containing terms without a rank.
    Ranked(Quads<'a>, &'a Renumbered),
    /// The rows containing such terms.
    Fresh(std::vec::IntoIter<[Id; 4]>),
}

impl Iterator for Source<'_> {
    type Item = [Id; 4];

    #[inline]
    fn next(&mut self) -> Option<[Id; 4]> {
        match self {
            Source::Fresh(rows) => rows.next(),
            Source::Ranked(rows, numbers) => loop {
                let row = rows.next_row()?;
                if !row.iter().any(|id| id.is_unranked()) {
                    break Some(row.map(|id| numbers.id(id)));
                }
            },
        }
    }
}

/// Merges the rows of an order.
fn merge_rows(
    order: Order,
    parts: &[&Snapshot],
    numbers: &[Renumbered],
    storage: &Backing,
    pause: &mut dyn FnMut(),
) -> Result<Index, NoMemory> {
    let mut sources = Vec::new();
    for (part, numbers) in parts.iter().zip(numbers) {
        let Some(index) = part.get_index(order) else {
            // Loading sorts the orders missing in this part anew.
            let mut rows = Vec::with_room(part.len())?;
            let all = part.index(Order::Gspo);
            rows.extend(all.quads(0..all.len()).map(|quad| order.arrange(quad.map(|id| numbers.id(id)))));
            rows.sort_unstable();
            sources.push(Source::Fresh(rows.into_iter()));
            continue;
        };
        sources.push(Source::Ranked(index.quads(0..index.len()), numbers));
        if !numbers.fresh.is_empty() {
            let mut rows = Vec::new();
            let mut all = index.quads(0..index.len());
            while let Some(row) = all.next_row() {
                if row.iter().any(|id| id.is_unranked()) {
                    rows.grow(1)?;
                    rows.push(row.map(|id| numbers.id(id)));
                }
            }
            rows.sort_unstable();
            sources.push(Source::Fresh(rows.into_iter()));
        }
    }
    let mut next: Vec<Option<[Id; 4]>> = sources.iter_mut().map(Iterator::next).collect();
    let mut count = 0_usize;
    let rows = std::iter::from_fn(|| {
        count += 1;
        if count.is_multiple_of(BETWEEN_PAUSES) {
            pause();
        }
        let least = match &next[..] {
            [only] => (*only)?,
            all => all.iter().flatten().copied().min()?,
        };
        for (next, source) in next.iter_mut().zip(&mut sources) {
            if *next == Some(least) {
                *next = source.next();
            }
        }
        Some(least)
    });
    Index::new(order, rows, storage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Loader, Syntax};
    use crate::sections::KINDS;
    use crate::sections::tests::sections;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use vicus_files::{FakeDisk, Scratch};

    /// Quads with terms of all kinds, of which other numbers have some, too.
    fn text(numbers: impl Iterator<Item = u32>) -> String {
        numbers
            .map(|n| {
                let graph = if n % 3 == 0 { format!("<http://e/g{}>", n % 2) } else { String::new() };
                let object = match n % 8 {
                    5 => format!("\"été {n}\"@fr--rtl"),
                    6 => format!("<<( _:t{} <http://e/p{}> \"{}\" )>>", n / 3, n % 11, n % 9),
                    7 => format!("<<( <http://e/{n}> <http://e/p> <<( _:b{n} <http://e/q> _:u{n} )>> )>>"),
                    0 => format!("_:b{n}"),
                    1 => format!("\"été {n}\"@fr"),
                    2 => format!("\"{n}\"^^<http://www.w3.org/2001/XMLSchema#integer>"),
                    3 => format!("\"{n}\"^^<http://e/type{}>", n % 4),
                    _ => format!("\"{}\"", n / 7),
                };
                format!("<http://e/{}> <http://e/p{}> {object} {graph} .\n", n * 7919 % 1000, n % 11)
            })
            .collect()
    }

    fn load(texts: &[&str]) -> Snapshot {
        let mut loader = Loader::default().with_rdf_12(true);
        texts.iter().for_each(|text| loader.file(text.as_bytes(), Syntax::NQuads, None).unwrap());
        loader.finish()
    }

    /// All keys, and all sections as they would be written but those of the keys: of other samples, other symbols are
    /// trained.
    fn parts_of(snapshot: &Snapshot) -> (Vec<String>, BTreeMap<String, Vec<u8>>) {
        let mut all = Vec::new();
        for kind in TermKind::IN_DICTIONARY {
            let mut keys = snapshot.dictionary().keys(kind);
            (0..keys.len()).for_each(|rank| all.push(keys.key(rank).to_owned()));
        }
        let mut sections = sections(snapshot);
        sections.retain(|name, _| !KINDS.iter().any(|kind| name.starts_with(&format!("{kind}."))));
        (all, sections)
    }

    #[test]
    fn united_snapshots_are_what_loading_all_at_once_gives() {
        let ranges = [0..0, 0..700, 300..1100, 5000..5001];
        for a in ranges.clone() {
            for b in ranges.clone() {
                let texts = [&a, &b].map(|range| text(range.clone()));
                let parts = texts.each_ref().map(|text| load(&[text]));
                let mut pauses = 0;
                let united = Snapshot::united(&parts.each_ref(), &Backing::Memory, &mut || pauses += 1).unwrap();
                united.assert_valid();
                // Without blank nodes, a part has no files.
                let expected = texts.iter().map(String::as_str).filter(|text| !text.is_empty());
                let expected = load(&expected.collect::<Vec<_>>());
                assert_eq!(united.len(), expected.len());
                assert!(parts_of(&united) == parts_of(&expected), "{a:?} and {b:?}");
                assert!(pauses > 0 || parts.iter().all(Snapshot::is_empty));
                let scratch = Scratch::new(Arc::new(FakeDisk::new(1).process(1)));
                let spilled = Snapshot::united(&parts.each_ref(), &Backing::Scratch(scratch), &mut || {}).unwrap();
                assert!(sections(&spilled) == sections(&united), "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn orders_that_only_the_first_has_are_made_for_the_others() {
        let mut loader = Loader::default().with_rdf_12(true).with_order(Order::Gosp);
        loader.file(text(0..300).as_bytes(), Syntax::NQuads, None).unwrap();
        let (first, second) = (text(0..300), text(200..600));
        let united = Snapshot::united(&[&loader.finish(), &load(&[&second])], &Backing::Memory, &mut || {}).unwrap();
        united.assert_valid();
        assert_eq!(united.orders().count(), Order::USUAL.len() + 1);
        assert_eq!(united.index(Order::Gosp).len(), load(&[&first, &second]).len());
    }
}
