//! Terms as bytes: the keys of the dictionary, and conversions from and to oxrdf's types.
//!
//! A key is UTF-8, and the byte order of the keys of a [`TermKind`] is the order of the kind's terms:
//!
//! | kind | key |
//! |---|---|
//! | blank node | its file as one character, then the label; or the file, U+0000 and a number, if the file gave no label |
//! | IRI, simple string | the text |
//! | language string | language in lower case, U+0000, text |
//! | language string with a direction | language in lower case, `--ltr` or `--rtl`, U+0000, text |
//! | other literal | datatype, U+0000, lexical form |
//! | triple term | subject, predicate and object, as [`triple`](crate::triple) describes |
//!
//! Language and datatype come first, so the terms of a language or datatype are a range of ids. An *entry* is a tag
//! byte and a key, or the eight bytes of an inlined [`Id`]; the byte order of entries is the order of ids.
//!
//! Blank nodes of different files are different. Outside of the store, nodes of file 0 keep their labels, `x` of file 3
//! is called `f3_x`, and the seventh nameless node of file 3 `g3_6`. A label of file 0 of the same form gets `f0_` in
//! front, so a name always identifies one node. The blank nodes made by a query are the nameless ones of a file unused
//! by loaders; the sixth is called `new_6`. Those made by an update, which stay, are the nameless ones of another such
//! file.

use crate::ids::{Id, TermKind};
use crate::triple::TripleView;
use oxrdf::vocab::xsd;
use oxrdf::{BaseDirection, BlankNode, BlankNodeRef, Literal, LiteralRef, NamedNode, NamedNodeRef, Term, TermRef};
use std::fmt::{self, Write as _};
use std::ops::Range;
use vicus_flow::NoMemory;

/// Separates language or datatype from the text; less than every character of either.
const SEPARATOR: char = '\0';

/// The number of files is limited by their naming characters.
const FILES: u32 = 0x11_0000 - 0x800;

/// From here on, numbers of files are for blank nodes without a source.
pub(crate) const NO_SOURCE: u32 = FILES - 16;

/// The file of blank nodes made by a query; no source has this number.
const FRESH: u32 = FILES - 1;

/// The file of blank nodes made by updates; no source has this number.
const MADE: u32 = FILES - 2;

/// A term, borrowed from a dictionary or an id. The strings are values, without quotes and escapes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TermView<'a> {
    /// A blank node.
    Blank(BlankView<'a>),
    /// An IRI.
    Iri(&'a str),
    /// A literal of datatype `xsd:string`.
    String(&'a str),
    /// A literal with a language tag in lower case.
    LangString {
        /// The text.
        value: &'a str,
        /// The language tag.
        language: &'a str,
    },
    /// A literal with a language tag in lower case and a base direction.
    DirString {
        /// The text.
        value: &'a str,
        /// The language tag.
        language: &'a str,
        /// The direction of the text.
        direction: BaseDirection,
    },
    /// A canonical `xsd:boolean`.
    Boolean(bool),
    /// A canonical `xsd:integer`.
    Integer(i64),
    /// Any other literal.
    Typed {
        /// The lexical form.
        value: &'a str,
        /// The IRI of the datatype.
        datatype: &'a str,
    },
    /// A triple term.
    Triple(TripleView<'a>),
}

/// A blank node: its file, and its label there, or a number if it has none. Displayed as its label outside of the
/// store, without `_:`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlankView<'a> {
    /// The number of the file.
    pub file: u32,
    name: &'a str,
    /// Whether the name is a number given by the loader.
    nameless: bool,
}

impl fmt::Display for BlankView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nameless && self.file == FRESH {
            write!(f, "new_{}", self.name)
        } else if self.nameless {
            write!(f, "g{}_{}", self.file, self.name)
        } else if self.file == 0 && outer_label(self.name).is_none() {
            f.write_str(self.name)
        } else {
            write!(f, "f{}_{}", self.file, self.name)
        }
    }
}

/// Parses `f3_x` as (false, 3, `x`) and `g3_6` as (true, 3, `6`); with `f0_` in front, as the label of file 0 behind
/// it. `None` for a label that stands for itself.
fn outer_label(label: &str) -> Option<(bool, u32, &str)> {
    let core = label.trim_start_matches("f0_");
    if let Some(number) = core.strip_prefix("new_").filter(|number| is_canonical_number(number)) {
        return Some(if core.len() == label.len() { (true, FRESH, number) } else { (false, 0, &label["f0_".len()..]) });
    }
    let nameless = match core.as_bytes().first()? {
        b'f' => false,
        b'g' => true,
        _ => return None,
    };
    let (file, name) = core[1..].split_once('_')?;
    if !is_canonical_number(file) || name.is_empty() || nameless && !is_canonical_number(name) {
        return None;
    }
    let file = file.parse().ok().filter(|&file| file < FILES)?;
    Some(if core.len() == label.len() { (nameless, file, name) } else { (false, 0, &label["f0_".len()..]) })
}

fn is_canonical_number(text: &str) -> bool {
    text == "0" || !text.starts_with('0') && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The character of a file in keys. Panics from 1,112,064 files on.
pub(crate) fn file_character(file: u32) -> char {
    assert!(file < FILES, "fewer than {FILES} files, so that a character names each");
    char::from_u32(if file < 0xD800 { file } else { file + 0x800 }).expect("surrogates are left out")
}

pub(crate) fn file_of(character: char) -> u32 {
    let code = u32::from(character);
    if code < 0xD800 { code } else { code - 0x800 }
}

impl<'a> TermView<'a> {
    /// The term in oxrdf's form, with strings of its own.
    pub fn to_term(self) -> Term {
        match self {
            TermView::Blank(blank) => BlankNode::new_unchecked(blank.to_string()).into(),
            TermView::Iri(iri) => NamedNode::new_unchecked(iri).into(),
            TermView::String(value) => Literal::new_simple_literal(value).into(),
            TermView::LangString { value, language } => {
                Literal::new_language_tagged_literal_unchecked(value, language).into()
            }
            TermView::DirString { value, language, direction } => {
                Literal::new_directional_language_tagged_literal_unchecked(value, language, direction).into()
            }
            TermView::Boolean(value) => Literal::from(value).into(),
            TermView::Integer(value) => Literal::from(value).into(),
            TermView::Typed { value, datatype } => {
                Literal::new_typed_literal(value, NamedNode::new_unchecked(datatype)).into()
            }
            TermView::Triple(triple) => triple.to_triple().into(),
        }
    }

    /// Writes the result of SPARQL's `STR`: an IRI's text or a literal's lexical form; for a blank node, its label; for
    /// a triple term, N-Triples. Allocates nothing itself.
    pub fn write_lexical(self, out: &mut impl fmt::Write) -> fmt::Result {
        match self {
            TermView::Blank(blank) => write!(out, "{blank}"),
            TermView::Boolean(value) => write!(out, "{value}"),
            TermView::Integer(value) => write!(out, "{value}"),
            TermView::Triple(triple) => write!(out, "{triple}"),
            TermView::Iri(value)
            | TermView::String(value)
            | TermView::LangString { value, .. }
            | TermView::DirString { value, .. }
            | TermView::Typed { value, .. } => out.write_str(value),
        }
    }

    /// The term's text, if it is stored: `None` for blank nodes, booleans, integers and triple terms.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            TermView::Iri(value)
            | TermView::String(value)
            | TermView::LangString { value, .. }
            | TermView::DirString { value, .. }
            | TermView::Typed { value, .. } => Some(value),
            TermView::Blank(_) | TermView::Boolean(_) | TermView::Integer(_) | TermView::Triple(_) => None,
        }
    }

    /// The IRI of a literal's datatype; `None` for IRIs, blank nodes and triple terms.
    pub fn datatype(self) -> Option<&'a str> {
        match self {
            TermView::Blank(_) | TermView::Iri(_) | TermView::Triple(_) => None,
            TermView::String(_) => Some(xsd::STRING.as_str()),
            TermView::LangString { .. } => Some(oxrdf::vocab::rdf::LANG_STRING.as_str()),
            TermView::DirString { .. } => Some(oxrdf::vocab::rdf::DIR_LANG_STRING.as_str()),
            TermView::Boolean(_) => Some(xsd::BOOLEAN.as_str()),
            TermView::Integer(_) => Some(xsd::INTEGER.as_str()),
            TermView::Typed { datatype, .. } => Some(datatype),
        }
    }

    /// The term of an inlined id; `None` for kinds in a dictionary, and for unbound.
    pub fn inlined(id: Id) -> Option<TermView<'static>> {
        id.as_integer().map(TermView::Integer).or_else(|| id.as_boolean().map(TermView::Boolean))
    }

    /// The number of a blank node encoded by [`Encoder::fresh`]; `None` for other terms.
    pub fn fresh_number(self) -> Option<u64> {
        match self {
            TermView::Blank(blank) if blank.nameless && blank.file == FRESH => blank.name.parse().ok(),
            _ => None,
        }
    }

    /// The term of a dictionary's key. Panics for kinds without keys.
    pub fn of_key(kind: TermKind, key: &'a str) -> TermView<'a> {
        // Faster than the standard library's search; queries read millions of keys.
        let parts = || {
            let at = memchr::memchr(SEPARATOR as u8, key.as_bytes()).expect("the separator that `encode` wrote");
            (&key[..at], &key[at + 1..])
        };
        match kind {
            TermKind::Blank => {
                let mut rest = key.chars();
                let file = file_of(rest.next().expect("the file that `encode` wrote"));
                let name = rest.as_str();
                let number = name.strip_prefix(SEPARATOR);
                TermView::Blank(BlankView { file, name: number.unwrap_or(name), nameless: number.is_some() })
            }
            TermKind::Iri => TermView::Iri(key),
            TermKind::String => TermView::String(key),
            TermKind::LangString => {
                let (language, value) = parts();
                TermView::LangString { value, language }
            }
            TermKind::DirString => {
                let (tag, value) = parts();
                let (language, direction) = directed(tag).expect("the direction that `encode` wrote");
                TermView::DirString { value, language, direction }
            }
            TermKind::Typed => {
                let (datatype, value) = parts();
                TermView::Typed { value, datatype }
            }
            TermKind::Triple => TermView::Triple(TripleView::of_key(key)),
            TermKind::Unbound | TermKind::Boolean | TermKind::Integer => panic!("{kind:?} has no key"),
        }
    }
}

/// N-Triples.
impl fmt::Display for TermView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TermView::Blank(blank) => write!(f, "_:{blank}"),
            TermView::Iri(iri) => NamedNodeRef::new_unchecked(iri).fmt(f),
            TermView::String(value) => LiteralRef::new_simple_literal(value).fmt(f),
            TermView::LangString { value, language } => {
                LiteralRef::new_language_tagged_literal_unchecked(value, language).fmt(f)
            }
            TermView::DirString { value, language, direction } => {
                LiteralRef::new_directional_language_tagged_literal_unchecked(value, language, direction).fmt(f)
            }
            TermView::Boolean(value) => write!(f, "\"{value}\"^^{}", xsd::BOOLEAN),
            TermView::Integer(value) => write!(f, "\"{value}\"^^{}", xsd::INTEGER),
            TermView::Typed { value, datatype } => {
                LiteralRef::new_typed_literal(value, NamedNodeRef::new_unchecked(datatype)).fmt(f)
            }
            TermView::Triple(triple) => triple.fmt(f),
        }
    }
}

/// The language and the direction of `en--ltr`; `None` if it has no direction.
pub(crate) fn directed(tag: &str) -> Option<(&str, BaseDirection)> {
    if let Some(language) = tag.strip_suffix("--ltr") {
        return Some((language, BaseDirection::Ltr));
    }
    Some((tag.strip_suffix("--rtl")?, BaseDirection::Rtl))
}

/// The id of an inlined literal: an `xsd:integer` or `xsd:boolean` in canonical form. `None` for other literals.
///
/// ```
/// use vicus_rdf::{Id, inline};
/// let integer = "http://www.w3.org/2001/XMLSchema#integer";
/// assert_eq!(inline("-17", integer), Id::integer(-17));
/// assert_eq!(inline("-017", integer), None);
/// ```
pub fn inline(value: &str, datatype: &str) -> Option<Id> {
    if datatype == xsd::INTEGER.as_str() {
        inline_integer(value)
    } else if datatype == xsd::BOOLEAN.as_str() {
        match value {
            "true" => Some(Id::boolean(true)),
            "false" => Some(Id::boolean(false)),
            _ => None,
        }
    } else {
        None
    }
}

fn inline_integer(value: &str) -> Option<Id> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    if !is_canonical_number(digits) || value == "-0" {
        return None;
    }
    value.parse().ok().and_then(Id::integer)
}

/// Encodes terms as entries, in a reused buffer, so no term allocates.
#[derive(Default, Debug)]
pub struct Encoder {
    key: String,
}

/// An encoded term: an inlined id, or a kind and a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoded<'a> {
    /// The id of an inlined term.
    Inlined(Id),
    /// The kind and key of a term for a dictionary.
    Key(TermKind, &'a str),
}

impl Encoded<'_> {
    /// The reason why a store can't keep this term and read it again; `None` if it can. An [`Encoder`]'s terms have no
    /// flaw, but for triple terms of more than [`MOST_NESTED`](crate::triple::MOST_NESTED) levels and texts of 4 GiB.
    ///
    /// ```
    /// use vicus_rdf::{Encoded, Encoder, TermKind};
    /// assert_eq!(Encoder::default().language_string("", "en").flaw(), None);
    /// assert!(Encoded::Key(TermKind::LangString, "no language").flaw().is_some());
    /// ```
    pub fn flaw(self) -> Option<&'static str> {
        let (kind, key) = match self {
            Encoded::Inlined(id) => {
                return TermView::inlined(id).is_none().then_some("an id is not that of a number or a truth value");
            }
            Encoded::Key(kind, key) => (kind, key),
        };
        if u32::try_from(key.len()).is_err() {
            return Some("the text of a term has 4 GiB or more");
        }
        let before_separator = || memchr::memchr(SEPARATOR as u8, key.as_bytes()).map(|at| &key[..at]);
        match kind {
            TermKind::Iri | TermKind::String => None,
            TermKind::Blank => key.is_empty().then_some("the key of a blank node is empty"),
            TermKind::LangString => before_separator().is_none().then_some("the key of a literal has no language"),
            TermKind::Typed => before_separator().is_none().then_some("the key of a literal has no datatype"),
            TermKind::DirString => {
                let has_direction = before_separator().is_some_and(|tag| directed(tag).is_some());
                (!has_direction).then_some("the key of a literal has no direction")
            }
            TermKind::Triple => TripleView::flaw(key),
            TermKind::Unbound | TermKind::Boolean | TermKind::Integer => Some("a term of this kind has no key"),
        }
    }
}

impl Encoder {
    /// Makes room for keys of up to this many bytes, so encoding them allocates nothing.
    #[inline]
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<(), NoMemory> {
        if self.key.capacity() >= bytes {
            return Ok(());
        }
        self.key.clear();
        vicus_flow::refusable(|| self.key.try_reserve(bytes)).map_err(|_| NoMemory { bytes: bytes as u64 })
    }

    /// Encodes a term by its name outside of the store.
    pub fn term<'a>(&'a mut self, term: TermRef<'a>) -> Encoded<'a> {
        match term {
            TermRef::NamedNode(node) => Encoded::Key(TermKind::Iri, node.as_str()),
            TermRef::BlankNode(node) => self.outer_blank(node),
            TermRef::Literal(literal) => self.literal(literal),
            TermRef::Triple(triple) => self.triple_with(triple, &mut |node, into| match outer_label(node.as_str()) {
                Some((false, file, label)) => push_blank(file, label, into),
                Some((true, file, number)) => push_nameless(file, number, into),
                None => push_blank(0, node.as_str(), into),
            }),
        }
    }

    /// The buffer for a key, without the last one.
    pub(crate) fn cleared(&mut self) -> &mut String {
        self.key.clear();
        &mut self.key
    }

    fn outer_blank(&mut self, node: BlankNodeRef<'_>) -> Encoded<'_> {
        match outer_label(node.as_str()) {
            Some((false, file, label)) => self.blank(file, label),
            Some((true, file, number)) => self.nameless(file, number),
            None => self.blank(0, node.as_str()),
        }
    }

    /// Encodes the blank node called `label` by a file. Panics from 1,112,064 files on.
    pub fn blank(&mut self, file: u32, label: &str) -> Encoded<'_> {
        push_blank(file, label, self.cleared());
        Encoded::Key(TermKind::Blank, &self.key)
    }

    /// A blank node without a label in its file, by its number among those. Panics from 1,112,064 files on.
    pub fn nameless(&mut self, file: u32, number: impl fmt::Display) -> Encoded<'_> {
        push_nameless(file, number, self.cleared());
        Encoded::Key(TermKind::Blank, &self.key)
    }

    /// A blank node outside of all files, made by a query, by its number among those.
    ///
    /// ```
    /// use vicus_rdf::{Encoded, Encoder, TermView};
    /// let mut encoder = Encoder::default();
    /// let Encoded::Key(kind, key) = encoder.fresh(6) else { unreachable!() };
    /// let view = TermView::of_key(kind, key);
    /// assert_eq!((view.to_string().as_str(), view.fresh_number()), ("_:new_6", Some(6)));
    /// ```
    pub fn fresh(&mut self, number: u64) -> Encoded<'_> {
        self.nameless(FRESH, number)
    }

    /// A blank node made by an update, by its number: unlike one made by a query, it may be stored.
    ///
    /// ```
    /// use vicus_rdf::{Encoded, Encoder, TermView};
    /// let mut encoder = Encoder::default();
    /// let Encoded::Key(kind, key) = encoder.made(6) else { unreachable!() };
    /// assert_eq!(TermView::of_key(kind, key).fresh_number(), None);
    /// ```
    pub fn made(&mut self, number: u64) -> Encoded<'_> {
        self.nameless(MADE, number)
    }

    /// Any literal.
    pub fn literal<'a>(&'a mut self, literal: LiteralRef<'a>) -> Encoded<'a> {
        match (literal.language(), literal.direction()) {
            (Some(language), None) => self.language_string(literal.value(), language),
            (Some(language), Some(direction)) => self.directed_string(literal.value(), language, direction),
            (None, _) => self.typed(literal.value(), literal.datatype().as_str()),
        }
    }

    /// A literal with a language tag in any case.
    pub fn language_string(&mut self, value: &str, language: &str) -> Encoded<'_> {
        self.key.clear();
        self.key.push_str(language);
        self.key.make_ascii_lowercase();
        self.key.push(SEPARATOR);
        self.key.push_str(value);
        Encoded::Key(TermKind::LangString, &self.key)
    }

    /// A literal with a language tag in any case and a base direction.
    pub fn directed_string(&mut self, value: &str, language: &str, direction: BaseDirection) -> Encoded<'_> {
        self.key.clear();
        self.key.push_str(language);
        self.key.make_ascii_lowercase();
        write!(self.key, "--{direction}{SEPARATOR}{value}").expect("a string takes everything");
        Encoded::Key(TermKind::DirString, &self.key)
    }

    /// A literal with a datatype, be it `xsd:string`.
    pub fn typed<'a>(&'a mut self, value: &'a str, datatype: &str) -> Encoded<'a> {
        if datatype == xsd::STRING.as_str() {
            return Encoded::Key(TermKind::String, value);
        }
        if let Some(id) = inline(value, datatype) {
            return Encoded::Inlined(id);
        }
        self.key.clear();
        self.key.push_str(datatype);
        self.key.push(SEPARATOR);
        self.key.push_str(value);
        Encoded::Key(TermKind::Typed, &self.key)
    }

    /// The range of keys of one language or datatype, for [`Dictionary::range`](crate::Dictionary::range): from its
    /// first possible key up to and without the next one's.
    pub fn qualified(qualifier: &str) -> Range<String> {
        format!("{qualifier}{SEPARATOR}")..format!("{qualifier}\u{1}")
    }
}

/// The key of the blank node called `label` by a file.
pub(crate) fn push_blank(file: u32, label: &str, into: &mut String) {
    into.push(file_character(file));
    into.push_str(label);
}

/// The key of a blank node without a label.
pub(crate) fn push_nameless(file: u32, number: impl fmt::Display, into: &mut String) {
    write!(into, "{}{SEPARATOR}{number}", file_character(file)).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(term: &Term) -> Term {
        match Encoder::default().term(term.as_ref()) {
            Encoded::Inlined(id) => TermView::inlined(id).unwrap().to_term(),
            Encoded::Key(kind, key) => TermView::of_key(kind, key).to_term(),
        }
    }

    #[test]
    fn labels_that_look_like_ours_come_back_as_they_were() {
        for label in [
            "x",
            "f1_x",
            "f0_x",
            "f0_f1_x",
            "f0_f0_g1_2",
            "f0_",
            "f01_x",
            "f_x",
            "f9999999_x",
            "g3_6",
            "g3_06",
            "g3_x",
            "f1_",
            "g",
            "new_6",
            "new_06",
            "new_",
            "f0_new_6",
            "new6",
        ] {
            let term = Term::from(BlankNode::new_unchecked(label));
            assert_eq!(round(&term), term);
        }
    }

    #[test]
    fn a_label_names_one_node_whatever_its_file() {
        let mut encoder = Encoder::default();
        let mut seen = std::collections::BTreeSet::new();
        let mut name = |encoded: Encoded<'_>| {
            let Encoded::Key(kind, key) = encoded else { unreachable!() };
            assert!(seen.insert(TermView::of_key(kind, key).to_string()), "two nodes have one name");
        };
        for file in [0, 1, 2, 0xD7FF, 0xD800, FILES - 1] {
            for label in ["x", "f1_x", "f0_f1_x", "f0_x", "g1_0", "g0_0", "new_0", "f0_new_0"] {
                name(encoder.blank(file, label));
            }
            name(encoder.nameless(file, 0));
        }
    }

    #[test]
    fn only_canonical_forms_are_inlined() {
        for (value, datatype) in [("-0", xsd::INTEGER), ("+1", xsd::INTEGER), ("00", xsd::INTEGER), ("", xsd::INTEGER)]
            .into_iter()
            .chain([("1", xsd::BOOLEAN), ("0", xsd::BOOLEAN), ("TRUE", xsd::BOOLEAN), ("1", xsd::INT)])
            .chain([("36028797018963968", xsd::INTEGER), (" 1", xsd::INTEGER), ("--1", xsd::INTEGER)])
        {
            assert_eq!(inline(value, datatype.as_str()), None, "{value}");
            let term = Term::from(Literal::new_typed_literal(value, datatype));
            assert_eq!(round(&term), term);
        }
        for value in ["0", "-1", "36028797018963967", "-36028797018963968"] {
            let term = Term::from(Literal::new_typed_literal(value, xsd::INTEGER));
            assert_eq!(inline(value, xsd::INTEGER.as_str()).unwrap().as_integer(), value.parse().ok());
            assert_eq!(round(&term), term);
        }
    }
}
