//! The 64-bit name of a term. Two ids compare as SPARQL's ORDER BY compares their terms.
//!
//! The top byte is a tag for the kind; the other 56 bits say which term of that kind:
//!
//! | tag | kind | payload |
//! |---|---|---|
//! | `0x00` | unbound | 0 |
//! | `0x10` | blank node | rank |
//! | `0x20` | IRI | rank, by code point |
//! | `0x30` | simple string (`xsd:string`) | rank, by code point |
//! | `0x38` | language string | rank, by language, then by code point |
//! | `0x3C` | language string with a base direction | rank, by language, direction, then by code point |
//! | `0x40` | canonical `xsd:boolean` | 0 or 1 |
//! | `0x48` | canonical `xsd:integer` | the value + 2^55 |
//! | `0x4A` to `0x6E` | free: decimals, doubles, dates, once they are inlined | |
//! | `0x70` | any other literal | rank, by datatype, then by code point of the lexical form |
//! | `0x78` | triple term | rank, by subject, predicate, then object, each in the order of ids |
//!
//! Tags are even. The odd tag above a rank's tag is for terms without a rank: *fresh* terms, which came to a store
//! since its dictionary was sorted, and terms that a request *computes* (`CONCAT`, `BNODE`, ...). The payload is a
//! place: the fresh terms of a snapshot have the first places, and a request's computed terms follow them. Places have
//! no meaningful order. No tag reaches `0x80`, so an id is never negative as a signed number.
//!
//! Unbound < blank nodes < IRIs < literals is SPARQL 1.1, §15.1, which leaves the order among different kinds of
//! literals open. Triple terms come behind literals: SPARQL 1.2, §15.1.

use std::fmt;

const PAYLOAD_BITS: u32 = 56;
const PAYLOAD: u64 = (1 << PAYLOAD_BITS) - 1;
const BIAS: i64 = 1 << (PAYLOAD_BITS - 1);
const UNRANKED: u8 = 1;

/// How many kinds have their terms in the dictionary.
pub const SECTIONS: usize = 7;

/// The kind of an [`Id`]'s term. The order of kinds is the order of ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TermKind {
    /// No value.
    Unbound = 0x00,
    /// A blank node.
    Blank = 0x10,
    /// An IRI.
    Iri = 0x20,
    /// A literal of datatype `xsd:string`.
    String = 0x30,
    /// A literal with a language tag.
    LangString = 0x38,
    /// A literal with a language tag and a base direction (RDF 1.2).
    DirString = 0x3C,
    /// `"true"^^xsd:boolean` or `"false"^^xsd:boolean`, in the id itself.
    Boolean = 0x40,
    /// An `xsd:integer` in canonical form, in the id itself.
    Integer = 0x48,
    /// Any other literal, also a non-canonical or very large `xsd:integer`.
    Typed = 0x70,
    /// A triple that is a term (RDF 1.2): only objects are.
    Triple = 0x78,
}

impl TermKind {
    /// The kinds whose terms are in the dictionary, in the order of their ids.
    pub const IN_DICTIONARY: [TermKind; SECTIONS] = [
        TermKind::Blank,
        TermKind::Iri,
        TermKind::String,
        TermKind::LangString,
        TermKind::DirString,
        TermKind::Typed,
        TermKind::Triple,
    ];

    /// The kinds of literals, in the order of their ids.
    pub const LITERALS: [TermKind; 6] = [
        TermKind::String,
        TermKind::LangString,
        TermKind::DirString,
        TermKind::Boolean,
        TermKind::Integer,
        TermKind::Typed,
    ];

    /// All kinds, in the order of their ids.
    pub const ALL: [TermKind; 10] = [
        TermKind::Unbound,
        TermKind::Blank,
        TermKind::Iri,
        TermKind::String,
        TermKind::LangString,
        TermKind::DirString,
        TermKind::Boolean,
        TermKind::Integer,
        TermKind::Typed,
        TermKind::Triple,
    ];

    /// Its place in [`TermKind::IN_DICTIONARY`]; `None` for kinds inlined in the id.
    pub const fn section(self) -> Option<usize> {
        match self {
            TermKind::Blank => Some(0),
            TermKind::Iri => Some(1),
            TermKind::String => Some(2),
            TermKind::LangString => Some(3),
            TermKind::DirString => Some(4),
            TermKind::Typed => Some(5),
            TermKind::Triple => Some(6),
            TermKind::Unbound | TermKind::Boolean | TermKind::Integer => None,
        }
    }

    /// Its place in [`TermKind::ALL`].
    pub const fn index(self) -> usize {
        match self {
            TermKind::Unbound => 0,
            TermKind::Blank => 1,
            TermKind::Iri => 2,
            TermKind::String => 3,
            TermKind::LangString => 4,
            TermKind::DirString => 5,
            TermKind::Boolean => 6,
            TermKind::Integer => 7,
            TermKind::Typed => 8,
            TermKind::Triple => 9,
        }
    }

    /// The range of ids of this kind, with a rank or without.
    pub const fn bounds(self) -> std::ops::Range<Id> {
        let tag = self as u64;
        Id(tag << PAYLOAD_BITS)..Id((tag + 2) << PAYLOAD_BITS)
    }

    pub(crate) fn of_tag(tag: u8) -> Option<TermKind> {
        // A table: a search among all of them took part of the time of each look at a term.
        const KINDS: [Option<TermKind>; 256] = {
            let (mut kinds, mut at) = ([None; 256], 0);
            while at < TermKind::ALL.len() {
                kinds[TermKind::ALL[at] as usize] = Some(TermKind::ALL[at]);
                at += 1;
            }
            kinds
        };
        KINDS[usize::from(tag)]
    }
}

/// The name of a term: eight bytes, compared as an integer. See the [module](self) for its layout.
///
/// ```
/// use vicus_rdf::{Id, TermKind};
/// let (small, large) = (Id::integer(-3).unwrap(), Id::integer(1940).unwrap());
/// assert!(Id::UNBOUND < small && small < large);
/// assert_eq!((large.kind(), large.as_integer()), (TermKind::Integer, Some(1940)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Id(u64);

impl Id {
    /// No value; below every term.
    pub const UNBOUND: Id = Id(0);

    /// The id of the term with this rank among the terms of its kind. Panics for inlined kinds.
    pub fn ranked(kind: TermKind, rank: usize) -> Id {
        assert!(kind.section().is_some(), "{kind:?} has no ranks");
        Id::of(kind as u8, rank as u64)
    }

    /// The id of the term at this place among the fresh terms and those that a request computed. Such ids have no
    /// order: compare the terms by their texts. Panics for inlined kinds.
    pub fn unranked(kind: TermKind, place: usize) -> Id {
        assert!(kind.section().is_some(), "{kind:?} is in no dictionary");
        Id::of(kind as u8 | UNRANKED, place as u64)
    }

    /// The id of a canonical `xsd:integer`; `None` beyond ±2^55, where the dictionary has to store it.
    pub const fn integer(value: i64) -> Option<Id> {
        if -BIAS <= value && value < BIAS {
            Some(Id((TermKind::Integer as u64) << PAYLOAD_BITS | (value + BIAS) as u64))
        } else {
            None
        }
    }

    /// The id of a canonical `xsd:boolean`.
    pub const fn boolean(value: bool) -> Id {
        Id((TermKind::Boolean as u64) << PAYLOAD_BITS | value as u64)
    }

    fn of(tag: u8, payload: u64) -> Id {
        assert!(payload <= PAYLOAD, "no more than 2^56 terms of a kind");
        Id(u64::from(tag) << PAYLOAD_BITS | payload)
    }

    /// The id as a number, as it stands in columns.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`Id::bits`]. For other numbers, [`Id::kind`] may panic.
    pub const fn from_bits(bits: u64) -> Id {
        Id(bits)
    }

    /// A column of numbers that came from [`Id::bits`] as ids, without a copy.
    #[expect(unsafe_code, reason = "unpacked columns are u64, and should not be copied to be ids")]
    pub(crate) fn slice(bits: &[u64]) -> &[Id] {
        // SAFETY: `Id` is `repr(transparent)` over `u64`, and every bit pattern is valid for both.
        unsafe { std::slice::from_raw_parts(bits.as_ptr().cast(), bits.len()) }
    }

    const fn tag(self) -> u8 {
        (self.0 >> PAYLOAD_BITS) as u8
    }

    /// The kind of the term. Panics for bits that no id has.
    pub fn kind(self) -> TermKind {
        TermKind::of_tag(self.tag() & !UNRANKED).unwrap_or_else(|| panic!("no id has the bits {:#x}", self.0))
    }

    /// Whether it has no value.
    pub const fn is_unbound(self) -> bool {
        self.0 == 0
    }

    /// Whether it is a blank node.
    pub const fn is_blank(self) -> bool {
        self.tag() & !UNRANKED == TermKind::Blank as u8
    }

    /// Whether it is an IRI.
    pub const fn is_iri(self) -> bool {
        self.tag() & !UNRANKED == TermKind::Iri as u8
    }

    /// Whether it is a literal of any datatype.
    pub const fn is_literal(self) -> bool {
        self.tag() >= TermKind::String as u8 && self.tag() < TermKind::Triple as u8
    }

    /// Whether it is a triple term.
    pub const fn is_triple(self) -> bool {
        self.tag() & !UNRANKED == TermKind::Triple as u8
    }

    /// Whether it is a literal of datatype `xsd:string`.
    pub const fn is_string(self) -> bool {
        self.tag() & !UNRANKED == TermKind::String as u8
    }

    /// Whether the term has no rank: it is a fresh one of the store ([`Snapshot::has`](crate::Snapshot::has)), or in a
    /// request's dictionary.
    pub const fn is_unranked(self) -> bool {
        self.tag() & UNRANKED != 0
    }

    /// Whether the value is in the id itself, without a dictionary entry.
    pub const fn is_inlined(self) -> bool {
        self.tag() == TermKind::Boolean as u8 || self.tag() == TermKind::Integer as u8
    }

    /// Whether two different ids of this kind always have different values, in the order of the ids: true for unbound,
    /// and for stored blank nodes, IRIs, simple strings, booleans and inlined integers. False for computed terms
    /// (compare their texts), language strings, other typed literals (where 1 = 1.0), and triple terms, which may have
    /// such literals.
    pub fn is_value(self) -> bool {
        !self.is_unranked()
            && !matches!(self.kind(), TermKind::LangString | TermKind::DirString | TermKind::Typed | TermKind::Triple)
    }

    /// The place in the sorted order of its kind; for a fresh or computed term, its place among those; `None` for
    /// unbound and inlined ids.
    pub fn rank(self) -> Option<usize> {
        self.kind().section().map(|_| (self.0 & PAYLOAD) as usize)
    }

    /// The place of a fresh or computed term, read without a look at its kind.
    pub(crate) const fn place(self) -> usize {
        (self.0 & PAYLOAD) as usize
    }

    /// The value of an inlined integer; `None` for other ids, among them integers that are not canonical.
    pub const fn as_integer(self) -> Option<i64> {
        if self.tag() == TermKind::Integer as u8 { Some((self.0 & PAYLOAD) as i64 - BIAS) } else { None }
    }

    /// The value, if it is an inlined boolean.
    pub const fn as_boolean(self) -> Option<bool> {
        if self.tag() == TermKind::Boolean as u8 { Some(self.0 & 1 == 1) } else { None }
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unbound() {
            return f.write_str("unbound");
        }
        if let Some(value) = self.as_integer() {
            return write!(f, "{value}");
        }
        if let Some(value) = self.as_boolean() {
            return write!(f, "{value}");
        }
        match TermKind::of_tag(self.tag() & !UNRANKED) {
            Some(kind) => write!(f, "{kind:?}{}{}", if self.is_unranked() { "?" } else { "#" }, self.0 & PAYLOAD),
            None => write!(f, "Id({:#x})", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_order_and_end_at_two_to_the_fifty_five() {
        let edge = 1_i64 << 55;
        let values = [-edge, -edge + 1, -1, 0, 1, 1940, edge - 1];
        let ids: Vec<Id> = values.iter().map(|&value| Id::integer(value).unwrap()).collect();
        assert!(ids.is_sorted());
        assert!(ids.iter().zip(values).all(|(id, value)| id.as_integer() == Some(value)));
        assert_eq!((Id::integer(edge), Id::integer(-edge - 1), Id::integer(i64::MIN)), (None, None, None));
    }

    #[test]
    fn every_id_lies_within_the_bounds_of_its_kind() {
        for kind in TermKind::IN_DICTIONARY {
            for id in [Id::ranked(kind, 0), Id::ranked(kind, 7), Id::unranked(kind, 7)] {
                assert_eq!(id.kind(), kind);
                assert!(kind.bounds().contains(&id), "{id:?}");
                assert_eq!(Id::from_bits(id.bits()), id);
                assert!(id.bits() < 1 << 63);
            }
        }
        assert!(TermKind::ALL.windows(2).all(|pair| pair[0].bounds().end <= pair[1].bounds().start));
    }
}
