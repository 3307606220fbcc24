//! Terms without a rank: those mentioned or computed by a query, and those added to a store since its dictionary was
//! sorted.
//!
//! Their keys lie one after the other in a few large pieces of memory. A query may compute millions of terms, and
//! cancelling it waits until they are freed. So no term has an allocation of its own: adding a term copies its key, and
//! dropping all terms frees a few pieces.

use crate::dictionary::Dictionary;
use crate::ids::{Id, TermKind};
use crate::interrupt::Interrupt;
use crate::term::TermView;
use hashbrown::HashTable;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};
use std::fmt;
use std::sync::Arc;
use vicus_flow::library::{HashKey, table_bytes};
use vicus_flow::{Grow, NoMemory, give_up, refusable};

/// A growing dictionary. An id contains the place of its term.
pub struct Unranked {
    /// The place of the first term here; smaller places belong to the dictionary before this one.
    first: usize,
    /// Keys as [`Encoder`](crate::Encoder) writes them. Invariant: a piece never grows beyond its initial room.
    pieces: Vec<String>,
    /// The terms, by place.
    places: Vec<TermPlace>,
    /// The ranks of the next greater terms of their kinds in the sorted dictionary, if these are known of all terms;
    /// else of the first ones.
    ranks: Vec<u32>,
    /// Places by kind and key. The highest bits of the hash choose the table, so no single table takes long to grow.
    /// Empty before the first term.
    tables: Vec<HashTable<Entry>>,
    /// The number of these bits.
    table_bits: u32,
    secrets: RapidSecrets,
}

/// The kind of a term, and the place of its key.
struct TermPlace {
    kind: TermKind,
    piece: u32,
    start: u32,
    end: u32,
}

/// An entry of a table. It has the hash, so the table can grow without reading the keys.
struct Entry {
    hash: u32,
    place: u32,
}

/// For dictionaries with possibly millions of terms.
const TABLE_BITS: u32 = 6;

/// Up to this number of terms, one table grows in a short time.
const FEW: usize = 1 << 12;

/// The first piece is small, as most queries compute little; each next piece is twice as large, up to this.
const FIRST_PIECE: usize = 1 << 10;
const LARGEST_PIECE: usize = 1 << 20;

impl Unranked {
    /// An empty dictionary. The query's author chooses the computed terms; without knowing the secrets, they can't
    /// choose many terms with the same hash.
    pub fn new(secrets: RapidSecrets) -> Unranked {
        let (pieces, places, ranks, tables) = Default::default();
        Unranked { first: 0, pieces, places, ranks, tables, table_bits: TABLE_BITS, secrets }
    }

    /// An empty dictionary starting at this place.
    pub fn at(first: usize, secrets: RapidSecrets) -> Unranked {
        Unranked { first, ..Unranked::new(secrets) }
    }

    /// Like [`Unranked::at`], for few terms.
    pub fn small(first: usize, secrets: RapidSecrets) -> Unranked {
        Unranked { table_bits: 0, ..Unranked::at(first, secrets) }
    }

    /// The terms of some dictionaries, each behind the one before. There is at least one.
    fn of_all(parts: &[&Unranked], interrupt: &Interrupt<'_>) -> Result<Unranked, NoMemory> {
        let terms: usize = parts.iter().map(|part| part.len()).sum();
        let bytes: usize = parts.iter().flat_map(|part| &part.pieces).map(String::len).sum();
        let mut all = Unranked::at(parts[0].first, parts[0].secrets);
        all.places.grow(terms)?;
        if terms <= FEW {
            all.table_bits = 0;
            all.tables.push(HashTable::new());
            let refused = NoMemory { bytes: (2 * terms * size_of::<Entry>()) as u64 };
            refusable(|| all.tables[0].try_reserve(terms, |entry| spread(entry.hash))).map_err(|_| refused)?;
        }
        if bytes <= LARGEST_PIECE {
            all.begin_piece(bytes)?;
        }
        let places = parts.iter().flat_map(|terms| terms.places.iter().map(move |place| (terms, place)));
        for (terms, place) in interrupt.each(places) {
            all.add(place.kind, terms.key_at(place))?;
        }
        Ok(all)
    }

    /// A dictionary with places behind those of another one.
    pub fn behind(other: &Unranked) -> Unranked {
        Unranked::at(other.end(), other.secrets)
    }

    /// The key of the hash function.
    pub fn secrets(&self) -> RapidSecrets {
        self.secrets
    }

    /// How many terms it has.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it has no terms.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The place after the last term.
    pub fn end(&self) -> usize {
        self.first + self.places.len()
    }

    /// Whether this computed term is in here.
    pub fn has(&self, id: Id) -> bool {
        id.rank().is_some_and(|place| (self.first..self.end()).contains(&place))
    }

    /// Takes all terms out; an empty dictionary with the following places stays here.
    pub fn take(&mut self) -> Unranked {
        let empty = Unranked::behind(self);
        std::mem::replace(self, empty)
    }

    /// The ids of its terms, ascending by place.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = Id> + '_ {
        self.places.iter().enumerate().map(|(number, place)| Id::unranked(place.kind, self.first + number))
    }

    /// Its memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let text: usize = self.pieces.iter().map(String::capacity).sum();
        let tables: usize = self.tables.iter().map(|table| table_bytes::<Entry>(table.capacity())).sum();
        let ranks = self.ranks.capacity() * size_of::<u32>();
        text + self.places.capacity() * size_of::<TermPlace>() + ranks + tables
    }

    /// How many bytes a term with this key adds to the dictionary.
    pub fn bytes_of(key: &str) -> usize {
        // Tables are at least 7/16 full.
        key.len() + size_of::<TermPlace>() + 2 * size_of::<Entry>()
    }

    /// The key of a computed term. Panics if the term is not in here.
    pub fn key(&self, id: Id) -> &str {
        self.key_at(&self.places[id.rank().expect("a computed term has a place") - self.first])
    }

    /// A copy of the key. If there is not enough memory for a long key, the box gives up.
    pub fn key_copied(&self, id: Id) -> String {
        copied(self.key(id))
    }

    fn key_at(&self, place: &TermPlace) -> &str {
        &self.pieces[place.piece as usize][place.start as usize..place.end as usize]
    }

    /// The id of the term with this key, if it is in here.
    pub fn find(&self, kind: TermKind, key: &str) -> Option<Id> {
        self.find_hashed(kind, key, self.hash(kind, key))
    }

    pub(crate) fn find_hashed(&self, kind: TermKind, key: &str, hash: u32) -> Option<Id> {
        let is_it = |entry: &Entry| {
            let place = &self.places[entry.place as usize];
            entry.hash == hash && place.kind == kind && self.key_at(place) == key
        };
        let found = self.tables.get(self.table(hash))?.find(spread(hash), is_it)?;
        Some(Id::unranked(kind, self.first + found.place as usize))
    }

    /// Adds a new term. Panics at the 2^32nd term, and if the key has 4 GiB.
    ///
    /// # Errors
    /// There is not enough memory; nothing has changed.
    pub fn add(&mut self, kind: TermKind, key: &str) -> Result<Id, NoMemory> {
        let (hash, number) = (hash_of(&self.secrets, kind, key), self.places.len());
        self.places.grow(1)?;
        let entry = Entry { hash, place: u32::try_from(number).expect("fewer than 2^32 terms") };
        if self.tables.is_empty() {
            self.tables.resize_with(1 << self.table_bits, HashTable::new);
        }
        let number_of_table = self.table(hash);
        let table = &mut self.tables[number_of_table];
        if table.len() == table.capacity() {
            let bytes = (2 * table.len().max(1) * size_of::<Entry>()) as u64;
            refusable(|| table.try_reserve(1, |entry| spread(entry.hash))).map_err(|_| NoMemory { bytes })?;
        }
        let place = self.write(kind, key)?;
        self.places.push(place);
        self.tables[number_of_table].insert_unique(spread(hash), entry, |entry| spread(entry.hash));
        Ok(Id::unranked(kind, self.first + number))
    }

    /// Like [`Unranked::add`], for a term missing in a sorted dictionary: `next` is the result of
    /// [`Dictionary::search`].
    pub(crate) fn add_before(&mut self, kind: TermKind, key: &str, next: Id) -> Result<Id, NoMemory> {
        let are_all_known = self.ranks.len() == self.places.len();
        if are_all_known {
            self.ranks.grow(1)?;
        }
        let id = self.add(kind, key)?;
        if are_all_known {
            self.ranks.push(rank_of(next));
        }
        Ok(id)
    }

    fn hash(&self, kind: TermKind, key: &str) -> u32 {
        hash_of(&self.secrets, kind, key)
    }

    fn table(&self, hash: u32) -> usize {
        (u64::from(hash) >> (u32::BITS - self.table_bits)) as usize
    }

    /// From now on keys are written to a new piece with room for `bytes` bytes.
    fn begin_piece(&mut self, bytes: usize) -> Result<(), NoMemory> {
        let mut piece = String::new();
        refusable(|| piece.try_reserve_exact(bytes)).map_err(|_| NoMemory { bytes: bytes as u64 })?;
        self.pieces.push(piece);
        Ok(())
    }

    fn write(&mut self, kind: TermKind, key: &str) -> Result<TermPlace, NoMemory> {
        let room = |piece: &String| piece.capacity() - piece.len();
        if self.pieces.last().is_none_or(|piece| room(piece) < key.len()) {
            let next = self.pieces.last().map_or(FIRST_PIECE, |piece| (piece.capacity() * 2).min(LARGEST_PIECE));
            self.begin_piece(next.max(key.len()))?;
        }
        let number = u32::try_from(self.pieces.len() - 1).expect("fewer than 2^32 pieces");
        let piece = self.pieces.last_mut().expect("there is one with room");
        let start = piece.len();
        piece.push_str(key);
        let offset = |at: usize| u32::try_from(at).expect("a piece of less than 4 GiB");
        Ok(TermPlace { kind, piece: number, start: offset(start), end: offset(piece.len()) })
    }
}

impl fmt::Debug for Unranked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} terms without a rank from place {} on", self.len(), self.first)
    }
}

/// A copy of a key. If there is not enough memory for a long one, the box gives up.
pub(crate) fn copied(key: &str) -> String {
    const LONG: usize = 64 << 10;
    let mut copy = String::new();
    if key.len() >= LONG {
        let bytes = key.len() as u64;
        refusable(|| copy.try_reserve_exact(key.len())).unwrap_or_else(|_| give_up(NoMemory { bytes }));
    }
    copy.push_str(key);
    copy
}

pub(crate) fn hash_of(secrets: &RapidSecrets, kind: TermKind, key: &str) -> u32 {
    let hash = rapidhash_v3_nano_inline::<true, false>(key.as_bytes(), secrets);
    (hash ^ hash >> 32) as u32 ^ kind as u32
}

/// The rank of the next term, found in place of a missing one.
fn rank_of(next: Id) -> u32 {
    u32::try_from(next.rank().unwrap_or(0)).expect("fewer than 2^32 terms")
}

/// The terms added to a store since its dictionary was sorted. A copy shares them; adding to one leaves the others
/// unchanged.
#[derive(Clone)]
pub struct FreshTerms {
    /// Each begins at the end of the one before, and has less than half of its terms: so there are few, and a term is
    /// copied from one to the next as often.
    pieces: Vec<Arc<Piece>>,
    secrets: RapidSecrets,
}

/// Some of the fresh terms.
struct Piece {
    terms: Unranked,
    /// For each term, the rank of the next greater term of its kind in the sorted dictionary.
    ranks: Vec<u32>,
    /// For each datatype of the typed literals among them one of these literals, by the hash of the datatype.
    datatypes: HashTable<Id>,
}

impl Piece {
    fn heap_bytes(&self) -> usize {
        let datatypes = table_bytes::<Id>(self.datatypes.capacity());
        self.terms.heap_bytes() + self.ranks.capacity() * size_of::<u32>() + datatypes
    }

    fn new(mut terms: Unranked, dictionary: &Dictionary, interrupt: &Interrupt<'_>) -> Result<Piece, NoMemory> {
        let (mut ranks, mut datatypes) = (std::mem::take(&mut terms.ranks), HashTable::new());
        ranks.grow(terms.len() - ranks.len())?;
        for (number, id) in interrupt.each(terms.ids()).enumerate() {
            if number >= ranks.len() {
                let next = dictionary.search(id.kind(), terms.key(id));
                ranks.push(rank_of(next.expect_err("a fresh term is not in the dictionary")));
            }
            note_datatype(&terms, &mut datatypes, id)?;
        }
        Ok(Piece { terms, ranks, datatypes })
    }

    /// The terms of some pieces, each behind the one before. There is at least one.
    fn of_all(pieces: &[Arc<Piece>], interrupt: &Interrupt<'_>) -> Result<Piece, NoMemory> {
        let parts: Vec<&Unranked> = pieces.iter().map(|piece| &piece.terms).collect();
        let (terms, mut datatypes) = (Unranked::of_all(&parts, interrupt)?, HashTable::new());
        let mut ranks = Vec::with_room(terms.len())?;
        pieces.iter().for_each(|piece| ranks.extend_from_slice(&piece.ranks));
        let examples = pieces.iter().flat_map(|piece| &piece.datatypes);
        interrupt.each(examples).try_for_each(|&id| note_datatype(&terms, &mut datatypes, id))?;
        Ok(Piece { terms, ranks, datatypes })
    }

    fn has_datatype(&self, datatype: &str) -> bool {
        let hash = self.terms.hash(TermKind::Typed, datatype);
        self.datatypes.find(spread(hash), |&id| datatype_of(&self.terms, id) == Some(datatype)).is_some()
    }
}

/// Adds a term to the examples of datatypes, if it is the first typed literal with its datatype.
fn note_datatype(terms: &Unranked, examples: &mut HashTable<Id>, id: Id) -> Result<(), NoMemory> {
    let Some(datatype) = datatype_of(terms, id) else { return Ok(()) };
    let hash_of = |datatype: &str| spread(terms.hash(TermKind::Typed, datatype));
    if examples.find(hash_of(datatype), |&other| datatype_of(terms, other) == Some(datatype)).is_some() {
        return Ok(());
    }
    let bytes = (2 * (examples.len() + 1) * size_of::<Id>()) as u64;
    let hash_of_id = |&id: &Id| hash_of(datatype_of(terms, id).expect("examples are typed literals"));
    refusable(|| examples.try_reserve(1, hash_of_id)).map_err(|_| NoMemory { bytes })?;
    examples.insert_unique(hash_of(datatype), id, hash_of_id);
    Ok(())
}

/// The datatype of a typed literal; `None` for other kinds.
fn datatype_of(terms: &Unranked, id: Id) -> Option<&str> {
    if id.kind() == TermKind::Typed { TermView::of_key(TermKind::Typed, terms.key(id)).datatype() } else { None }
}

impl FreshTerms {
    /// None yet. The authors of updates choose the terms; without knowing the secrets, they can't choose many with the
    /// same hash.
    pub fn new(secrets: RapidSecrets) -> FreshTerms {
        FreshTerms { pieces: Vec::new(), secrets }
    }

    /// How many there are: the place after the last one.
    pub fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| last.terms.end())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The id of the term with this key, if it is one of these.
    pub fn find(&self, kind: TermKind, key: &str) -> Option<Id> {
        let hash = hash_of(&self.secrets, kind, key);
        // All have the same key of the hash function.
        self.pieces.iter().find_map(|piece| piece.terms.find_hashed(kind, key, hash))
    }

    /// Whether the id belongs to a term in here.
    pub fn has(&self, id: Id) -> bool {
        id.is_unranked() && id.rank().is_some_and(|place| place < self.len())
    }

    /// The key of a term. Panics if it is not in here.
    pub fn key(&self, id: Id) -> &str {
        self.piece(id).terms.key(id)
    }

    /// The rank of the next greater term of its kind in the sorted dictionary: its own place is right before it. Panics
    /// if it is not in here.
    pub fn next_rank(&self, id: Id) -> usize {
        let piece = self.piece(id);
        piece.ranks[id.place() - piece.terms.first] as usize
    }

    fn piece(&self, id: Id) -> &Piece {
        let piece = self.pieces.partition_point(|piece| piece.terms.end() <= id.place());
        self.pieces.get(piece).unwrap_or_else(|| panic!("{id:?} is not among the {} fresh terms", self.len()))
    }

    /// The ids of all, ascending by place.
    pub fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        self.pieces.iter().flat_map(|piece| piece.terms.ids())
    }

    /// Whether a literal with this datatype is among them. Not for datatypes of inlined literals or of simple strings.
    pub fn has_datatype(&self, datatype: &str) -> bool {
        self.pieces.iter().any(|piece| piece.has_datatype(datatype))
    }

    /// The key of the hash function.
    pub fn secrets(&self) -> RapidSecrets {
        self.secrets
    }

    /// A dictionary for terms behind these.
    pub fn behind(&self) -> Unranked {
        Unranked::small(self.len(), self.secrets)
    }

    /// With the terms added [behind](FreshTerms::behind) these, and missing in the sorted dictionary.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn with(
        &self,
        added: Unranked,
        dictionary: &Dictionary,
        interrupt: &Interrupt<'_>,
    ) -> Result<FreshTerms, NoMemory> {
        assert_eq!(added.first, self.len(), "they follow these");
        if added.is_empty() {
            return Ok(self.clone());
        }
        let mut pieces = self.pieces.clone();
        pieces.push(Arc::new(Piece::new(added, dictionary, interrupt)?));
        // The pieces to merge with the last one, at once: so each term is copied once.
        let (mut first, mut count) = (pieces.len() - 1, pieces[pieces.len() - 1].terms.len());
        while first > 0 && pieces[first - 1].terms.len() < 2 * count {
            first -= 1;
            count += pieces[first].terms.len();
        }
        if first < pieces.len() - 1 {
            let all = Arc::new(Piece::of_all(&pieces[first..], interrupt)?);
            pieces.truncate(first);
            pieces.push(all);
        }
        Ok(FreshTerms { pieces, secrets: self.secrets })
    }

    /// Their memory, in bytes; versions share most of it.
    pub fn heap_bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.heap_bytes()).sum()
    }

    /// The part of these bytes that no other version has.
    pub(crate) fn own_bytes(&self) -> usize {
        let own = self.pieces.iter().filter(|piece| Arc::strong_count(piece) == 1);
        own.map(|piece| piece.heap_bytes()).sum()
    }
}

impl fmt::Debug for FreshTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} terms without a rank", self.len())
    }
}

/// Spreads 32 bits to 64, because a table uses the lowest and the highest bits of 64.
fn spread(hash: u32) -> u64 {
    HashKey::default().mix(hash.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::crafted;
    use hashbrown::HashSet;

    #[test]
    fn a_key_is_found_by_its_kind_and_text_and_by_its_id() {
        let mut computed = Unranked::new(RapidSecrets::seed(0));
        let keys: Vec<String> = (0..5000).map(|number| format!("{number}{}", "é".repeat(number % 700))).collect();
        let ids: Vec<Id> = keys.iter().map(|key| computed.add(TermKind::String, key).unwrap()).collect();
        let iri = computed.add(TermKind::Iri, &keys[7]).unwrap();
        for (key, id) in keys.iter().zip(&ids) {
            assert_eq!((computed.find(TermKind::String, key), computed.key(*id)), (Some(*id), key.as_str()));
        }
        assert_eq!((computed.find(TermKind::Iri, &keys[7]), computed.key(iri)), (Some(iri), keys[7].as_str()));
        assert_eq!((computed.find(TermKind::Iri, &keys[8]), computed.find(TermKind::String, "none")), (None, None));
        assert_eq!(computed.end(), keys.len() + 1);
        let mut more = Unranked::behind(&computed);
        let next = more.add(TermKind::String, "none").unwrap();
        assert_eq!((more.key(next), more.has(next), computed.has(next), more.has(iri)), ("none", true, false, false));
    }

    /// One by one and in batches; each version stays as it was.
    #[test]
    fn fresh_terms_are_found_in_each_version_that_has_them() {
        let mut versions = vec![FreshTerms::new(RapidSecrets::seed(1))];
        let mut ids = Vec::new();
        for batch in [1, 1, 1, 700, 1, 2, 40, 1, 1, 1, 1, 3000, 1] {
            let mut added = versions[versions.len() - 1].behind();
            for _ in 0..batch {
                ids.push(added.add(TermKind::Iri, &format!("http://e/{}", ids.len())).unwrap());
            }
            versions
                .push(versions[versions.len() - 1].with(added, &Dictionary::default(), &Interrupt::never()).unwrap());
        }
        for version in &versions {
            for (number, &id) in ids.iter().enumerate() {
                let key = format!("http://e/{number}");
                let is_there = number < version.len();
                assert_eq!((version.has(id), version.find(TermKind::Iri, &key)), (is_there, is_there.then_some(id)));
                assert!(!is_there || version.key(id) == key);
            }
            assert_eq!(version.find(TermKind::String, "http://e/0"), None);
            assert!(version.pieces.len() <= 13, "few pieces");
        }
        assert_eq!(versions[13].len(), ids.len());
    }

    /// What happened: the terms of a store became one piece without a question.
    #[test]
    fn terms_that_become_one_piece_are_counted() {
        let asked = std::cell::Cell::new(0);
        let ask = |_| {
            asked.set(asked.get() + 1);
            Ok(())
        };
        let mut fresh = FreshTerms::new(RapidSecrets::seed(3));
        for (batch, questions) in [(0, 6), (1, 6 + 12)] {
            let mut added = fresh.behind();
            for number in 0..100_000 {
                added.add(TermKind::Iri, &format!("http://e/{batch}/{number}")).unwrap();
            }
            asked.set(0);
            fresh = fresh.with(added, &Dictionary::default(), &Interrupt::by(&ask)).unwrap();
            // One for 16,384 terms: those that are added, and all that are copied.
            assert!(asked.get() >= questions, "{} questions", asked.get());
        }
        assert_eq!(fresh.pieces.len(), 1);
    }

    #[test]
    fn a_datatype_is_known_from_the_first_term_with_it_on() {
        let types: Vec<String> = (0..300).map(|number| format!("http://t/{}", number % 100)).collect();
        let mut fresh = FreshTerms::new(RapidSecrets::seed(2));
        for (number, datatype) in types.iter().enumerate() {
            assert_eq!(fresh.has_datatype(datatype), number >= 100, "{datatype}");
            let mut added = fresh.behind();
            added.add(TermKind::Typed, &format!("{datatype}\0{number}")).unwrap();
            added.add(TermKind::String, &format!("http://none\0{number}")).unwrap();
            fresh = fresh.with(added, &Dictionary::default(), &Interrupt::never()).unwrap();
            assert!(fresh.has_datatype(datatype) && !fresh.has_datatype("http://none") && !fresh.has_datatype(""));
        }
    }

    #[test]
    fn many_terms_lie_in_few_pieces_of_memory() {
        let mut computed = Unranked::new(RapidSecrets::seed(0));
        let key = "x".repeat(90);
        for number in 0..100_000 {
            computed.add(TermKind::String, &format!("{number}{key}")).unwrap();
        }
        // 9.5 MB need ten pieces of 1 MiB, after ten smaller ones.
        assert!(computed.pieces.len() <= 20, "{} pieces", computed.pieces.len());
        assert!(computed.pieces.iter().all(|piece| piece.capacity() <= LARGEST_PIECE));
        // A key larger than a piece gets a piece of its own.
        let long = computed.add(TermKind::String, &"y".repeat(3 << 20)).unwrap();
        assert_eq!(computed.key(long).len(), 3 << 20);
    }

    /// Unranked terms were hashed without a key: 10,000 of one hash, CONCAT of two lists of 100, took 3 s where others
    /// take 0.04.
    #[test]
    fn terms_chosen_to_collide_do_not() {
        use std::hash::BuildHasher;
        let crafted = crafted::texts();
        let known = |text: &String| rustc_hash::FxBuildHasher.hash_one((TermKind::String, text.as_str()));
        assert!(crafted.iter().all(|text| known(text) == known(&crafted[0])), "they were chosen for it");
        for seed in 0..20 {
            let computed = Unranked::new(RapidSecrets::seed(seed));
            let hashes: HashSet<u32, rustc_hash::FxBuildHasher> =
                crafted.iter().map(|text| computed.hash(TermKind::String, text)).collect();
            // Among so many random texts, 0.01 pairs are expected to share a hash.
            assert!(hashes.len() >= crafted.len() - 2, "seed {seed}: {} hashes", hashes.len());
        }
    }
}
