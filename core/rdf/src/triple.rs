//! Triple terms (RDF 1.2): their keys, and what these say.
//!
//! A key is the tag of the subject's kind, the subject's key, U+0000, the predicate's IRI, U+0000, the tag of the
//! object's kind, and the object's key; of an inlined object, the last 56 bits of its id as 14 hexadecimal digits. No
//! IRI has U+0000; of a blank node it is only the second character, before a number. So a key is read from its front,
//! without escapes or lengths, lends all its parts, and the byte order of keys is that of subjects, then predicates,
//! then objects. An object may be a triple term itself, up to [`MOST_NESTED`] levels.

use crate::ids::{Id, TermKind};
use crate::term::{Encoded, Encoder, TermView, file_character, file_of};
use oxrdf::{BlankNodeRef, NamedOrBlankNodeRef, TermRef, Triple};
use std::fmt;

/// The greatest number of triple terms within each other, the outermost included.
pub const MOST_NESTED: usize = 64;

const NO_TRIPLE: &str = "the key of a triple term does not have a subject, a predicate and an object";
const TOO_DEEP: &str = "triple terms are within each other more than 64 levels deep";

const SEPARATOR: char = '\0';

/// The hexadecimal digits of an inlined object.
const DIGITS: usize = 14;

/// The bytes that a part of a key may take besides its text: its tag, its file, the digits of an inlined id or of a
/// number.
pub(crate) const ROOM_OF_PART: usize = 32;

/// A triple term, borrowed from its key.
///
/// ```
/// use oxrdf::{NamedNode, Triple};
/// use vicus_rdf::{Encoded, Encoder, TermView};
/// let iri = |name: &str| NamedNode::new_unchecked(format!("http://e/{name}"));
/// let term = oxrdf::Term::from(Triple::new(iri("s"), iri("p"), oxrdf::Literal::from(7)));
/// let mut encoder = Encoder::default();
/// let Encoded::Key(kind, key) = encoder.term(term.as_ref()) else { unreachable!() };
/// let TermView::Triple(triple) = TermView::of_key(kind, key) else { unreachable!() };
/// assert_eq!((triple.subject(), triple.predicate()), (TermView::Iri("http://e/s"), "http://e/p"));
/// assert_eq!(triple.object(), TermView::Integer(7));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TripleView<'a> {
    subject: (TermKind, &'a str),
    predicate: &'a str,
    object: Encoded<'a>,
}

impl<'a> TripleView<'a> {
    /// Panics if it is no key of a triple term.
    pub(crate) fn of_key(key: &'a str) -> TripleView<'a> {
        TripleView::read(key).unwrap_or_else(|| panic!("`{}` is the key of a triple term", key.escape_debug()))
    }

    fn read(key: &'a str) -> Option<TripleView<'a>> {
        let (&tag, _) = key.as_bytes().split_first()?;
        let subject = TermKind::of_tag(tag)?;
        let rest = key.get(1..)?;
        // The second character of a blank node without a label is the separator.
        let from = if subject == TermKind::Blank { rest.char_indices().nth(2)?.0 } else { 0 };
        let end = from + memchr::memchr(SEPARATOR as u8, &rest.as_bytes()[from..])?;
        let (subject_key, rest) = (&rest[..end], &rest[end + 1..]);
        let end = memchr::memchr(SEPARATOR as u8, rest.as_bytes())?;
        let (predicate, rest) = (&rest[..end], &rest[end + 1..]);
        let kind = TermKind::of_tag(*rest.as_bytes().first()?)?;
        let text = rest.get(1..)?;
        let object = match kind.section() {
            Some(_) => Encoded::Key(kind, text),
            None => {
                let payload = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == DIGITS)?;
                Encoded::Inlined(Id::from_bits((kind as u64) << 56 | payload))
            }
        };
        Some(TripleView { subject: (subject, subject_key), predicate, object })
    }

    /// Whether this is the key of a triple term, for keys that may be damaged.
    pub fn is_key(key: &str) -> bool {
        TripleView::flaw(key).is_none()
    }

    /// Why this is no key of a triple term; `None` if it is one.
    pub(crate) fn flaw(key: &str) -> Option<&'static str> {
        let mut next = Some(key);
        for _ in 0..MOST_NESTED {
            let key = next.take()?;
            let Some(triple) = TripleView::read(key) else { return Some(NO_TRIPLE) };
            if !matches!(triple.subject.0, TermKind::Blank | TermKind::Iri) {
                return Some(NO_TRIPLE);
            }
            match triple.object {
                Encoded::Key(TermKind::Triple, inner) => next = Some(inner),
                object if object.flaw().is_some() => return Some(NO_TRIPLE),
                _ => {}
            }
        }
        next.map(|_| TOO_DEEP)
    }

    /// An IRI or a blank node.
    pub fn subject(self) -> TermView<'a> {
        TermView::of_key(self.subject.0, self.subject.1)
    }

    /// An IRI.
    pub fn predicate(self) -> &'a str {
        self.predicate
    }

    /// Any term.
    pub fn object(self) -> TermView<'a> {
        match self.object {
            Encoded::Inlined(id) => TermView::inlined(id).expect("it was inlined"),
            Encoded::Key(kind, key) => TermView::of_key(kind, key),
        }
    }

    /// Subject, predicate and object by their kinds and keys.
    pub fn parts(self) -> [Encoded<'a>; 3] {
        [Encoded::Key(self.subject.0, self.subject.1), Encoded::Key(TermKind::Iri, self.predicate), self.object]
    }

    /// How many triple terms are within each other, this one included.
    pub fn levels(self) -> usize {
        let (mut levels, mut inner) = (1, self);
        while let TermView::Triple(next) = inner.object() {
            (levels, inner) = (levels + 1, next);
        }
        levels
    }

    /// Passes each blank node in it to `found`.
    pub fn each_blank(self, found: &mut impl FnMut(crate::term::BlankView<'a>)) {
        let mut next = Some(self);
        while let Some(triple) = next {
            next = None;
            for part in [triple.subject(), triple.object()] {
                match part {
                    TermView::Blank(blank) => found(blank),
                    TermView::Triple(inner) => next = Some(inner),
                    _ => {}
                }
            }
        }
    }

    /// Writes the key of the triple term with other blank nodes: `of` writes the key of the new blank node for one of
    /// this term.
    ///
    /// # Errors
    /// Those of `of`.
    pub fn with_blanks<E>(
        self,
        of: &mut dyn FnMut(&str, &mut String) -> Result<(), E>,
        into: &mut String,
    ) -> Result<(), E> {
        let TripleView { subject, predicate, object } = self;
        push_with_blanks(Encoded::Key(subject.0, subject.1), of, into)?;
        into.push(SEPARATOR);
        into.push_str(predicate);
        into.push(SEPARATOR);
        push_with_blanks(object, of, into)
    }

    pub(crate) fn to_triple(self) -> Triple {
        let subject = match self.subject() {
            TermView::Blank(blank) => oxrdf::BlankNode::new_unchecked(blank.to_string()).into(),
            other => oxrdf::NamedOrBlankNode::from(oxrdf::NamedNode::new_unchecked(
                other.as_str().expect("a subject is an IRI or a blank node"),
            )),
        };
        Triple::new(subject, oxrdf::NamedNode::new_unchecked(self.predicate), self.object().to_term())
    }
}

/// N-Triples, in its canonical form.
impl fmt::Display for TripleView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<<( {} {} {} )>>", self.subject(), TermView::Iri(self.predicate), self.object())
    }
}

fn push_part(part: Encoded<'_>, into: &mut String) {
    match part {
        Encoded::Inlined(id) => push_inlined(id, into),
        Encoded::Key(kind, key) => {
            into.push(char::from(kind as u8));
            into.push_str(key);
        }
    }
}

fn push_with_blanks<E>(
    part: Encoded<'_>,
    of: &mut dyn FnMut(&str, &mut String) -> Result<(), E>,
    into: &mut String,
) -> Result<(), E> {
    match part {
        Encoded::Key(kind @ TermKind::Blank, key) => {
            into.push(char::from(kind as u8));
            of(key, into)
        }
        Encoded::Key(kind @ TermKind::Triple, key) => {
            into.push(char::from(kind as u8));
            TripleView::of_key(key).with_blanks(of, into)
        }
        other => {
            push_part(other, into);
            Ok(())
        }
    }
}

fn push_inlined(id: Id, into: &mut String) {
    use std::fmt::Write as _;
    into.push(char::from(id.kind() as u8));
    write!(into, "{:0DIGITS$x}", id.bits() & ((1 << 56) - 1)).expect("a string takes everything");
}

impl Encoder {
    /// The triple term of these parts; `None` if there is none: a subject is an IRI or a blank node, a predicate an
    /// IRI, an object any term of less than [`MOST_NESTED`] levels.
    pub fn triple(&mut self, [subject, predicate, object]: [Encoded<'_>; 3]) -> Option<Encoded<'_>> {
        let (Encoded::Key(TermKind::Blank | TermKind::Iri, _), Encoded::Key(TermKind::Iri, iri)) = (subject, predicate)
        else {
            return None;
        };
        let has_end = |kind, key: &str| kind == TermKind::Iri && key.contains(SEPARATOR);
        if has_end(TermKind::Iri, iri) || matches!(subject, Encoded::Key(kind, key) if has_end(kind, key)) {
            return None;
        }
        if let Encoded::Key(TermKind::Triple, key) = object
            && TripleView::of_key(key).levels() >= MOST_NESTED
        {
            return None;
        }
        let key = self.cleared();
        push_part(subject, key);
        key.push(SEPARATOR);
        key.push_str(iri);
        key.push(SEPARATOR);
        push_part(object, key);
        Some(Encoded::Key(TermKind::Triple, key))
    }

    /// The triple term of a triple, whose blank nodes `blank` encodes.
    pub(crate) fn triple_with(
        &mut self,
        triple: &Triple,
        blank: &mut dyn FnMut(BlankNodeRef<'_>, &mut String),
    ) -> Encoded<'_> {
        let key = self.cleared();
        push_triple(triple, key, blank);
        Encoded::Key(TermKind::Triple, key)
    }
}

fn push_triple(triple: &Triple, into: &mut String, blank: &mut dyn FnMut(BlankNodeRef<'_>, &mut String)) {
    match triple.subject.as_ref() {
        NamedOrBlankNodeRef::NamedNode(node) => push_part(Encoded::Key(TermKind::Iri, node.as_str()), into),
        NamedOrBlankNodeRef::BlankNode(node) => {
            into.push(char::from(TermKind::Blank as u8));
            blank(node, into);
        }
    }
    into.push(SEPARATOR);
    into.push_str(triple.predicate.as_str());
    into.push(SEPARATOR);
    match triple.object.as_ref() {
        TermRef::NamedNode(node) => push_part(Encoded::Key(TermKind::Iri, node.as_str()), into),
        TermRef::BlankNode(node) => {
            into.push(char::from(TermKind::Blank as u8));
            blank(node, into);
        }
        TermRef::Literal(literal) => push_part(Encoder::default().literal(literal), into),
        TermRef::Triple(inner) => {
            into.push(char::from(TermKind::Triple as u8));
            push_triple(inner, into, blank);
        }
    }
}

/// How many bytes the key of a triple takes at most, without the labels of its blank nodes.
pub(crate) fn bytes_of(triple: &Triple) -> usize {
    let subject = match triple.subject.as_ref() {
        NamedOrBlankNodeRef::NamedNode(node) => node.as_str().len(),
        NamedOrBlankNodeRef::BlankNode(node) => node.as_str().len(),
    };
    let object = match triple.object.as_ref() {
        TermRef::NamedNode(node) => node.as_str().len(),
        TermRef::BlankNode(node) => node.as_str().len(),
        TermRef::Literal(literal) => crate::load::literal_bytes(literal),
        TermRef::Triple(inner) => bytes_of(inner),
    };
    subject + triple.predicate.as_str().len() + object + 3 * ROOM_OF_PART
}

/// How many triples are within each other, this one included, as far as [`MOST_NESTED`] and one more.
///
/// ```
/// use oxrdf::{NamedNode, Triple};
/// let iri = NamedNode::new_unchecked("http://e/x");
/// let inner = Triple::new(iri.clone(), iri.clone(), iri.clone());
/// assert_eq!(vicus_rdf::triple::levels_of(&Triple::new(iri.clone(), iri, inner)), 2);
/// ```
pub fn levels_of(triple: &Triple) -> usize {
    let (mut levels, mut inner) = (1, triple);
    while let oxrdf::Term::Triple(next) = &inner.object
        && levels <= MOST_NESTED
    {
        (levels, inner) = (levels + 1, next);
    }
    levels
}

/// Writes the key of a triple term with blank nodes of other files. The order of keys stays if the order of files does.
pub(crate) fn with_files(key: &str, of: &impl Fn(u32) -> u32, into: &mut String) {
    let moved = TripleView::of_key(key).with_blanks::<std::convert::Infallible>(
        &mut |key, into| {
            let mut rest = key.chars();
            let file = file_of(rest.next().expect("a blank node has a file"));
            into.push(file_character(of(file)));
            into.push_str(rest.as_str());
            Ok(())
        },
        into,
    );
    moved.unwrap_or_else(|never| match never {});
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::{BaseDirection, BlankNode, Literal, NamedNode, NamedOrBlankNode, Term};

    fn parts() -> (Vec<NamedOrBlankNode>, Vec<NamedNode>, Vec<Term>) {
        let iris = ["http://e/", "http://e/a", "http://e/a\u{1}b", "http://e/é"].map(NamedNode::new_unchecked);
        let blanks = ["a", "f1_a", "g0_1", "g0_10", "g1_1", "new_3", "f70000_x"].map(BlankNode::new_unchecked);
        let subjects = blanks.iter().cloned().map(Into::into).chain(iris.iter().cloned().map(Into::into)).collect();
        let mut objects: Vec<Term> = blanks.into_iter().map(Into::into).collect();
        objects.extend(iris.iter().cloned().map(Term::from));
        objects.extend(["", "a", "a\0b", "é"].map(|text| Literal::new_simple_literal(text).into()));
        objects.push(Literal::new_language_tagged_literal_unchecked("x", "en").into());
        for direction in [BaseDirection::Ltr, BaseDirection::Rtl] {
            objects.push(Literal::new_directional_language_tagged_literal_unchecked("x", "en", direction).into());
        }
        objects.extend([-7, 0, 1 << 40].map(|number: i64| Literal::from(number).into()));
        objects.extend([Literal::from(true).into(), Literal::from(1.5).into()]);
        (subjects, iris.to_vec(), objects)
    }

    /// Subjects, predicates and objects of all kinds, and triples within each other.
    fn triples() -> Vec<Triple> {
        let (subjects, predicates, objects) = parts();
        let mut all = Vec::new();
        for subject in &subjects {
            for predicate in &predicates {
                all.extend(
                    objects.iter().map(|object| Triple::new(subject.clone(), predicate.clone(), object.clone())),
                );
            }
        }
        let inner: Vec<Triple> = all.iter().step_by(17).cloned().collect();
        for (number, inner) in inner.into_iter().enumerate() {
            let triple = Triple::new(subjects[number % subjects.len()].clone(), predicates[0].clone(), inner);
            all.push(Triple::new(subjects[0].clone(), predicates[1].clone(), triple.clone()));
            all.push(triple);
        }
        all
    }

    fn key_of(triple: &Triple) -> String {
        match Encoder::default().term(Term::from(triple.clone()).as_ref()) {
            Encoded::Key(TermKind::Triple, key) => key.to_owned(),
            other => panic!("{other:?}"),
        }
    }

    /// Byte order of an entry is the order of ids.
    fn entry(term: TermRef<'_>) -> Vec<u8> {
        match Encoder::default().term(term) {
            Encoded::Inlined(id) => id.bits().to_be_bytes().to_vec(),
            Encoded::Key(kind, key) => [&[kind as u8], key.as_bytes()].concat(),
        }
    }

    #[test]
    fn a_key_says_its_triple_and_sorts_by_its_parts() {
        let mut all: Vec<(String, Triple)> = triples().into_iter().map(|triple| (key_of(&triple), triple)).collect();
        for (key, triple) in &all {
            assert_eq!(TripleView::of_key(key).to_triple(), *triple);
            assert_eq!(TripleView::of_key(key).to_string(), TermView::of_key(TermKind::Triple, key).to_string());
            assert_eq!(TripleView::of_key(key).levels(), levels_of(triple));
            let mut encoder = Encoder::default();
            let made = encoder.triple(TripleView::of_key(key).parts());
            assert_eq!(made, Some(Encoded::Key(TermKind::Triple, key)));
            assert!(key.len() <= bytes_of(triple));
            assert!(TripleView::is_key(key) && !TripleView::is_key(&key[1..]));
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let of_parts = |(_, triple): &(String, Triple)| {
            let subject = entry(Term::from(triple.subject.clone()).as_ref());
            let object = match &triple.object {
                Term::Triple(inner) => [&[TermKind::Triple as u8], key_of(inner).as_bytes()].concat(),
                other => entry(other.as_ref()),
            };
            [subject, entry((&triple.predicate).into()), object]
        };
        assert!(all.is_sorted_by_key(of_parts));
        all.dedup_by(|a, b| a.0 == b.0);
        assert_eq!(
            all.len(),
            triples().into_iter().collect::<hashbrown::HashSet<_, rustc_hash::FxBuildHasher>>().len()
        );
    }

    #[test]
    fn other_files_keep_the_order() {
        let mut keys: Vec<String> = triples().iter().map(key_of).collect();
        keys.sort();
        let moved = |key: &String| {
            let mut moved = String::new();
            with_files(key, &|file| file + 0xD7F0, &mut moved);
            moved
        };
        let mut last = String::new();
        for key in keys.iter().filter(|key| !TripleView::of_key(key).to_string().contains("new_")) {
            let moved = moved(key);
            assert!(last <= moved, "{last:?} {moved:?}");
            let mut files = Vec::new();
            TripleView::of_key(key).each_blank(&mut |blank| files.push(blank.file));
            let mut others = Vec::new();
            TripleView::of_key(&moved).each_blank(&mut |blank| others.push(blank.file));
            assert!(files.iter().map(|file| file + 0xD7F0).eq(others));
            last = moved;
        }
    }

    #[test]
    fn what_is_no_triple_has_no_key() {
        let mut encoder = Encoder::default();
        let [iri, text] = [Encoded::Key(TermKind::Iri, "http://e/a"), Encoded::Key(TermKind::String, "a")];
        let blank = Encoded::Key(TermKind::Blank, "\u{1}a");
        for parts in
            [[text, iri, iri], [Encoded::Inlined(Id::boolean(true)), iri, iri], [iri, blank, iri], [iri, text, iri]]
        {
            assert_eq!(encoder.triple(parts), None);
        }
        let mut key = String::new();
        for level in 1..=MOST_NESTED + 1 {
            let object = if level == 1 { text } else { Encoded::Key(TermKind::Triple, &key) };
            match Encoder::default().triple([blank, iri, object]) {
                Some(Encoded::Key(_, made)) => {
                    assert_eq!(TripleView::of_key(made).levels(), level);
                    key = made.to_owned();
                }
                other => assert_eq!((level, other), (MOST_NESTED + 1, None)),
            }
        }
    }
}
