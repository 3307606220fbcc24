//! From terms to ids and back: for each kind, its keys in order, compressed in blocks.
//!
//! Never changed after loading. A term's rank is its place, so finding the key of an id takes two array accesses and
//! reading two pieces of compressed text; finding the id of a key takes a binary search.
//!
//! Reason: SP2Bench's 2.9 million terms at 5 million triples have texts of 22.1 bytes a triple. As codes for symbols
//! alone they take 8.3, and 0.8 for their places; in this form, without the common beginning of the 16 keys of a block,
//! 5.1 and 0.8. Front coding, which stores only a key's difference from the one before, takes 5.0 with symbols and 9.8
//! without, but then reading a key means reading eight others on average.

mod builder;
mod section;
mod symbols;
#[cfg(test)]
mod tests;

pub(crate) use builder::{SectionBuilder, write_symbols};
use section::KeyAppender;
pub use section::Keys;
pub(crate) use section::{BLOCK, Section};
pub(crate) use symbols::{Sample, Training};

use crate::ids::{Id, SECTIONS, TermKind};
use crate::placement::StorePlacement;
use crate::term::{Encoded, Encoder, TermView};
use oxrdf::{Term, TermRef};
use std::ops::Range;
use vicus_topology::NodeId;

/// All terms of a snapshot not inlined in their ids, sorted and compressed. Size: about a quarter of their texts, and a
/// byte and a half for each.
///
/// ```
/// use oxrdf::NamedNodeRef;
/// use vicus_rdf::{Snapshot, TermView};
/// let snapshot = Snapshot::of_ntriples(b"<http://e/s> <http://e/p> \"text\" .")?;
/// let id = snapshot.dictionary().id(NamedNodeRef::new_unchecked("http://e/p").into()).unwrap();
/// snapshot.dictionary().view(id, |view| assert_eq!(view, TermView::Iri("http://e/p")));
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Default, Debug)]
pub struct Dictionary {
    /// One for each of [`TermKind::IN_DICTIONARY`].
    sections: [Section; SECTIONS],
}

impl Dictionary {
    pub(crate) fn new(sections: [Section; SECTIONS]) -> Dictionary {
        Dictionary { sections }
    }

    pub(crate) fn sections(&self) -> &[Section; SECTIONS] {
        &self.sections
    }

    /// Lays its keys over nodes, page by page, if there are many keys and several nodes.
    pub(crate) fn lay(&mut self, over: &StorePlacement) {
        self.sections.iter_mut().for_each(|section| section.lay(over));
    }

    /// How many terms it has.
    pub fn len(&self) -> usize {
        self.sections.iter().map(Section::len).sum()
    }

    /// Whether it has no terms.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of terms of a kind; their ranks are below it. Zero for inlined kinds.
    pub fn count(&self, kind: TermKind) -> usize {
        kind.section().map_or(0, |section| self.sections[section].len())
    }

    /// Passes the key of a term, in the form of [`term`](crate::term), to `look`. Panics for an id unknown to this
    /// dictionary.
    #[inline]
    pub fn key<R>(&self, id: Id, look: impl FnOnce(&str) -> R) -> R {
        let (section, rank) = self.place(id);
        section.key(rank, look)
    }

    fn place(&self, id: Id) -> (&Section, usize) {
        let (Some(section), Some(rank)) = (id.kind().section(), id.rank()) else {
            panic!("{id:?} is not in a dictionary")
        };
        assert!(!id.is_unranked(), "{id:?} is in the request's own dictionary");
        (&self.sections[section], rank)
    }

    /// A reader of many keys of a kind, by their ranks. Reading neighbours one after the other is several times as fast
    /// as [`Dictionary::key`]. Panics for inlined kinds.
    ///
    /// ```
    /// use vicus_rdf::{TermKind, Snapshot};
    /// let snapshot = Snapshot::of_ntriples(b"<http://e/s> <http://e/p> \"text\" .")?;
    /// let mut keys = snapshot.dictionary().keys(TermKind::Iri);
    /// assert_eq!((keys.len(), keys.key(0)), (2, "http://e/p"));
    /// assert_eq!(keys.key(1), "http://e/s");
    /// # Ok::<(), vicus_rdf::SyntaxError>(())
    /// ```
    pub fn keys(&self, kind: TermKind) -> Keys<'_> {
        self.sections[kind.section().expect("a kind with keys")].keys()
    }

    /// A reader that puts the texts of many terms one behind the other.
    ///
    /// ```
    /// use oxrdf::NamedNodeRef;
    /// use vicus_rdf::Snapshot;
    /// let data = Snapshot::of_ntriples(b"<http://e/s> <http://e/p> \"text\"@en .")?;
    /// let (mut texts, mut appender) = (Vec::new(), data.dictionary().text_appender());
    /// let id = |iri| data.id(NamedNodeRef::new_unchecked(iri).into()).unwrap();
    /// assert!(appender.append(id("http://e/p"), &mut texts) && appender.append(id("http://e/s"), &mut texts));
    /// assert_eq!(texts, b"http://e/phttp://e/s");
    /// # Ok::<(), vicus_rdf::SyntaxError>(())
    /// ```
    pub fn text_appender(&self) -> TextAppender<'_> {
        TextAppender { sections: self.sections.each_ref().map(Section::appender) }
    }

    /// Reads a few bytes at the key of a term. Memory serves many requests at once in about the time of one, so call
    /// this for all terms before reading the keys of several ones. Panics for an id unknown to this dictionary.
    pub fn fetch(&self, id: Id) {
        let (section, rank) = self.place(id);
        section.fetch(rank);
    }

    /// The node of a term's key, if it is known. Panics for an id unknown to this dictionary.
    pub fn home(&self, id: Id) -> Option<NodeId> {
        let (section, rank) = self.place(id);
        section.home(rank)
    }

    /// Passes the term with this id to `look`. Panics for the unbound id, and for an id unknown to this dictionary.
    #[inline]
    pub fn view<R>(&self, id: Id, look: impl FnOnce(TermView<'_>) -> R) -> R {
        match TermView::inlined(id) {
            Some(view) => look(view),
            None => self.key(id, |key| look(TermView::of_key(id.kind(), key))),
        }
    }

    /// The term with this id as oxrdf's type. Panics for the unbound id, and for an id unknown to this dictionary.
    pub fn term(&self, id: Id) -> Term {
        self.view(id, |view| view.to_term())
    }

    /// The id of a term if the snapshot has it; an inlined term always has one. Takes a binary search.
    pub fn id(&self, term: TermRef<'_>) -> Option<Id> {
        match Encoder::default().term(term) {
            Encoded::Inlined(id) => Some(id),
            Encoded::Key(kind, key) => self.search(kind, key).ok(),
        }
    }

    /// The id of this key; if it is missing, the id of the next greater key, or one past the last, for a comparison
    /// with a constant. Panics for inlined kinds.
    pub fn search(&self, kind: TermKind, key: &str) -> Result<Id, Id> {
        let section = &self.sections[kind.section().expect("a kind with keys")];
        let id = |rank| Id::ranked(kind, rank);
        section.rank(key.as_bytes()).map(id).map_err(id)
    }

    /// Like [`Dictionary::search`], for many ascending keys of one kind: `last` is the result of the search for the key
    /// before, and becomes that of this search. Takes the less time the nearer they are.
    pub(crate) fn search_behind(&self, kind: TermKind, key: &str, last: &mut usize) -> Result<Id, Id> {
        let section = &self.sections[kind.section().expect("a kind with keys")];
        let found = section.rank_from(*last, key.as_bytes());
        *last = found.unwrap_or_else(|next| next);
        let id = |rank| Id::ranked(kind, rank);
        found.map(id).map_err(id)
    }

    /// The ids of all keys of this kind within a range of keys: the terms of one language or one datatype
    /// ([`Encoder::qualified`]), or the strings with a common prefix.
    pub fn range(&self, kind: TermKind, keys: Range<&str>) -> Range<Id> {
        let bound = |key| self.search(kind, key).unwrap_or_else(|next| next);
        bound(keys.start)..bound(keys.end)
    }

    /// Its memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.text_bytes() + self.ends_bytes()
    }

    /// How many bytes its keys take, wherever they lie.
    pub(crate) fn text_len(&self) -> usize {
        self.sections.iter().map(|section| section.parts().0.len()).sum()
    }

    /// The memory of its keys and of their symbols, in bytes.
    pub(crate) fn text_bytes(&self) -> usize {
        self.sections.iter().map(|section| section.text_bytes()).sum()
    }

    /// The memory of the ends of its blocks, in bytes.
    pub(crate) fn ends_bytes(&self) -> usize {
        self.sections.iter().map(|section| section.parts().1.heap_bytes()).sum()
    }

    /// Panics if the keys of a kind don't ascend.
    pub fn assert_valid(&self) {
        for kind in TermKind::IN_DICTIONARY {
            let (mut keys, mut last) = (self.keys(kind), String::new());
            for rank in 0..keys.len() {
                let key = keys.key(rank);
                assert!(rank == 0 || *last < *key, "the keys of a kind ascend");
                key.clone_into(&mut last);
            }
        }
    }
}

/// Appends the texts of terms to one text; see [`Dictionary::text_appender`].
#[derive(Debug)]
pub struct TextAppender<'a> {
    sections: [KeyAppender<'a>; SECTIONS],
}

impl TextAppender<'_> {
    /// Appends an IRI, or the text of a literal without language and datatype; false, and nothing, for other terms and
    /// for those that are in no dictionary. Between two calls, what was appended has to stay in its place, or
    /// [`TextAppender::begin`] to be called. What it appends is UTF-8. Panics for an id unknown to this dictionary.
    #[inline]
    pub fn append(&mut self, id: Id, texts: &mut Vec<u8>) -> bool {
        let (kind, rank) = (id.kind(), id.place());
        let (false, Some(section)) = (id.is_unranked(), kind.section()) else { return false };
        let has_front = match kind {
            TermKind::Iri | TermKind::String => false,
            TermKind::LangString | TermKind::DirString | TermKind::Typed => true,
            _ => return false,
        };
        let (start, reader) = (texts.len(), &mut self.sections[section]);
        reader.append(rank, texts);
        if has_front {
            // A language or a datatype, which the key begins with, has no such byte.
            let front = texts[start..].iter().position(|byte| *byte == 0).map_or(0, |at| at + 1);
            texts.copy_within(start + front.., start);
            texts.truncate(texts.len() - front);
            reader.forget();
        }
        true
    }

    /// The next text is to be appended to another list of texts.
    pub fn begin(&mut self) {
        self.sections.iter_mut().for_each(KeyAppender::forget);
    }
}
