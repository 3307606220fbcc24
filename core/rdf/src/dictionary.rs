//! From terms to ids and back: for each kind, one text with all keys in order, and the end of each key.
//!
//! Never changed after loading. A term's rank is its place, so finding the text of an id takes two array accesses, and finding
//! the id of a text a binary search.

use crate::growing::{Growing, Storage};
use crate::ids::{Id, Kind};
use crate::lent::{Pages, is_boundary};
use crate::placed::{Access, PlacedVec, Placement};
use crate::term::{Encoded, Encoder, TermView};
use oxrdf::{Term, TermRef};
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::{Grow, NoMemory, give_up};

/// All terms of a store that are not inlined in their ids, sorted. Size: their texts, and five bytes for each.
///
/// ```
/// use oxrdf::NamedNodeRef;
/// use vicus_rdf::{Snapshot, TermView};
/// let snapshot = Snapshot::of_ntriples(b"<http://e/s> <http://e/p> \"text\" .")?;
/// let id = snapshot.dictionary().id(NamedNodeRef::new_unchecked("http://e/p").into()).unwrap();
/// assert_eq!(snapshot.dictionary().view(id), TermView::Iri("http://e/p"));
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Default, Debug)]
pub struct Dictionary {
    /// One for each of [`Kind::IN_DICTIONARY`].
    sections: [Section; 5],
}

/// The keys of one kind. Invariant: strictly ascending.
#[derive(Default, Debug)]
pub(crate) struct Section {
    /// Invariant: the text and each key in it is valid UTF-8.
    text: PlacedVec<u8>,
    ends: Ends,
}

/// The end of each key, in bytes. Five bytes each, so a text may have a tebibyte.
#[derive(Default, Debug)]
struct Ends(PlacedVec<[u8; 5]>);

impl Ends {
    fn of(end: usize) -> [u8; 5] {
        let bytes = (end as u64).to_le_bytes();
        assert!(bytes[5..] == [0; 3], "the text of a kind has less than a tebibyte");
        [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]]
    }

    fn wide([a, b, c, d, e]: [u8; 5]) -> usize {
        u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]) as usize
    }

    fn get(&self, rank: usize) -> usize {
        Ends::wide(self.0.get(rank))
    }
}

impl Section {
    pub(crate) fn len(&self) -> usize {
        self.ends.0.len()
    }

    fn key(&self, rank: usize) -> &str {
        #[expect(unsafe_code, reason = "checking each key's characters again would take longer than finding it")]
        // SAFETY: the builder got each key as UTF-8. The text of another owner
        // is UTF-8 page by page, and `bytes` made sure that this key begins and ends where a character does.
        unsafe {
            str::from_utf8_unchecked(self.bytes(rank))
        }
    }

    /// Keys that another owner keeps; `None` if there can't be so many.
    pub(crate) fn lent(len: usize, text: Arc<dyn Pages>, ends: Arc<dyn Pages>) -> Option<Section> {
        let fits = ends.bytes().len() == len.checked_mul(size_of::<[u8; 5]>())?;
        fits.then(|| Section { text: PlacedVec::lent(text, true), ends: Ends(PlacedVec::lent(ends, false)) })
    }

    /// The texts of all keys, and the ends of these.
    pub(crate) fn parts(&self) -> (&PlacedVec<u8>, &PlacedVec<[u8; 5]>) {
        (&self.text, &self.ends.0)
    }

    fn bytes(&self, rank: usize) -> &[u8] {
        let start = if rank == 0 { 0 } else { self.ends.get(rank - 1) };
        let end = self.ends.get(rank);
        if let Some(owner) = self.text.owner() {
            let text = owner.bytes();
            if start > end || end > text.len() || !is_boundary(text, start) || !is_boundary(text, end) {
                give_up(owner.senseless(start, "a term does not begin and end where characters do"));
            }
        }
        self.text.part(start..end)
    }

    /// The number of keys that are less than this one.
    fn rank(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.bytes(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Builds a section of keys that come in ascending order, each once.
#[derive(Default, Debug)]
pub(crate) struct SectionBuilder {
    text: Growing,
    /// The bytes of all keys so far.
    end: usize,
    ends: Vec<[u8; 5]>,
}

impl SectionBuilder {
    /// A section whose text goes to this storage as keys come.
    pub(crate) fn new(storage: &Storage) -> SectionBuilder {
        SectionBuilder { text: Growing::new(storage), ..SectionBuilder::default() }
    }

    /// Adds the next key.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn push(&mut self, key: &str) -> Result<(), NoMemory> {
        self.ends.grow(1)?;
        self.text.write(key.as_bytes())?;
        self.end += key.len();
        self.ends.push(Ends::of(self.end));
        Ok(())
    }

    /// The number of keys so far.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds the keys of another builder, all of which are greater, and which are in memory.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn append(&mut self, more: SectionBuilder) -> Result<(), NoMemory> {
        if self.ends.is_empty() {
            *self = more;
            return Ok(());
        }
        self.text.write(more.text.in_memory())?;
        self.ends.grow(more.ends.len())?;
        let start = self.end;
        self.ends.extend(more.ends.into_iter().map(|end| Ends::of(start + Ends::wide(end))));
        self.end += more.end;
        Ok(())
    }

    /// The section, where the builder's storage is.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn finish(mut self) -> Result<Section, NoMemory> {
        self.ends.shrink_to_fit();
        let ends = match self.text.storage() {
            Storage::Memory => self.ends.into(),
            storage => {
                let mut ends = Growing::new(storage);
                ends.write(self.ends.as_flattened())?;
                PlacedVec::lent(ends.into_pages(), false)
            }
        };
        Ok(Section { text: self.text.finish(true), ends: Ends(ends) })
    }
}

impl Dictionary {
    pub(crate) fn new(sections: [Section; 5]) -> Dictionary {
        Dictionary { sections }
    }

    pub(crate) fn sections(&self) -> &[Section; 5] {
        &self.sections
    }

    /// Lays its keys over nodes, page by page, if there are many keys and several nodes.
    pub(crate) fn lay(&mut self, over: &Placement) {
        for section in &mut self.sections {
            section.text.lay(over, Access::Anywhere);
            section.ends.0.lay(over, Access::Anywhere);
        }
    }

    /// How many terms it has.
    pub fn len(&self) -> usize {
        self.sections.iter().map(Section::len).sum()
    }

    /// Whether it has no terms.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of terms of a kind; their ranks are below it. Zero for kinds that are inlined.
    pub fn count(&self, kind: Kind) -> usize {
        kind.section().map_or(0, |section| self.sections[section].len())
    }

    /// The key of a term, in the form that [`term`](crate::term) describes. Panics for an id that is not in this dictionary.
    pub fn key(&self, id: Id) -> &str {
        let (Some(section), Some(rank)) = (id.kind().section(), id.rank()) else {
            panic!("{id:?} is not in a dictionary")
        };
        assert!(!id.is_computed(), "{id:?} is in the request's own dictionary");
        self.sections[section].key(rank)
    }

    /// The key as bytes; see [`Dictionary::key`].
    pub fn bytes(&self, id: Id) -> &[u8] {
        self.key(id).as_bytes()
    }

    /// The term with this id, borrowed. Panics for the unbound id, and for one that is not in this dictionary.
    pub fn view(&self, id: Id) -> TermView<'_> {
        TermView::inlined(id).unwrap_or_else(|| TermView::of_key(id.kind(), self.key(id)))
    }

    /// The term with this id as oxrdf's type. Panics for the unbound id, and for one that is not in this dictionary.
    pub fn term(&self, id: Id) -> Term {
        self.view(id).to_term()
    }

    /// The id of a term if the store has it; an inlined term always has one. Takes a binary search.
    pub fn id(&self, term: TermRef<'_>) -> Option<Id> {
        match Encoder::default().term(term) {
            Encoded::Inlined(id) => Some(id),
            Encoded::Key(kind, key) => self.search(kind, key).ok(),
        }
    }

    /// The id of this key; if it is missing, the id of the next greater key, or one past the last: what a comparison with a
    /// constant needs. Panics for inlined kinds.
    pub fn search(&self, kind: Kind, key: &str) -> Result<Id, Id> {
        let section = &self.sections[kind.section().expect("a kind with keys")];
        let rank = section.rank(key.as_bytes());
        let id = Id::ranked(kind, rank);
        if rank < section.len() && section.key(rank) == key { Ok(id) } else { Err(id) }
    }

    /// The ids of all keys of this kind within a range of keys: the terms of one language or one datatype
    /// ([`Encoder::qualified`]), or the strings with a common prefix.
    pub fn range(&self, kind: Kind, keys: Range<&str>) -> Range<Id> {
        let bound = |key| self.search(kind, key).unwrap_or_else(|next| next);
        bound(keys.start)..bound(keys.end)
    }

    /// The memory that it holds, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.text_bytes() + self.ends_bytes()
    }

    /// How many bytes its keys have, wherever they lie.
    pub(crate) fn text_len(&self) -> usize {
        self.sections.iter().map(|section| section.text.len()).sum()
    }

    /// The memory of its keys, in bytes.
    pub(crate) fn text_bytes(&self) -> usize {
        self.sections.iter().map(|section| section.text.heap_bytes()).sum()
    }

    /// The memory of the ends of its keys, in bytes.
    pub(crate) fn ends_bytes(&self) -> usize {
        self.sections.iter().map(|section| section.ends.0.heap_bytes()).sum()
    }

    /// Panics if the keys of a kind don't ascend.
    pub fn assert_valid(&self) {
        for section in &self.sections {
            let sorted = (1..section.len()).all(|rank| section.key(rank - 1) < section.key(rank));
            assert!(sorted, "the keys of a kind ascend");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_files::{FakeDisk, Scratch};

    #[test]
    fn a_section_is_the_same_in_memory_in_pieces_and_in_temporary_files() {
        let keys: Vec<String> = (0..90_000).map(|number| format!("{:05}{}", number, "é".repeat(number % 9))).collect();
        let (mut first, mut second): (SectionBuilder, SectionBuilder) = Default::default();
        let storage = Storage::Scratch(Scratch::new(Arc::new(FakeDisk::new(1).process(1))));
        let mut spilled = SectionBuilder::new(&storage);
        for (number, key) in keys.iter().enumerate() {
            spilled.push(key).unwrap();
            if number < 1000 { &mut first } else { &mut second }.push(key).unwrap();
        }
        first.append(second).unwrap();
        let (built, spilled) = (first.finish().unwrap(), spilled.finish().unwrap());
        assert!(built.text.owner().is_none() && spilled.text.owner().is_some());
        for section in [built, spilled] {
            assert_eq!(section.len(), keys.len());
            assert!(keys.iter().enumerate().all(|(rank, key)| section.key(rank) == key));
        }
    }
}
