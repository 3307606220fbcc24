//! Finds syntax of RDF 1.2 alone in a text of Turtle, TriG, N-Triples or N-Quads, and the depth of nested triples
//! there.
//!
//! oxttl reads the syntax of RDF 1.2 like any other, and does not report its places. It also drops nested triples by
//! recursion. So its text comes by here first. This module knows tokens, not the grammar: oxttl refuses texts with
//! other errors.

use crate::triple::MOST_NESTED;
use memchr::{memchr, memchr2, memchr3};

/// An item found in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TextItem {
    TripleTerm,
    Reified,
    Annotation,
    Reifier,
    Direction,
    Version,
    /// A directive. Its IRI is resolved against the base so far: nothing of RDF 1.2.
    Directive,
    /// An IRI that is twice as long as those before, has ended: nothing of RDF 1.2.
    LongIri,
    /// Triples are within each other more than [`MOST_NESTED`] levels deep; an error in any case.
    TooDeep,
}

impl TextItem {
    /// The error of an item forbidden in RDF 1.1.
    pub(super) fn refusal(self) -> String {
        let what = match self {
            TextItem::TripleTerm => "a triple term, `<<( s p o )>>`,",
            TextItem::Reified => "a reified triple, `<< s p o >>`,",
            TextItem::Annotation => "an annotation, `{| p o |}`,",
            TextItem::Reifier => "a reifier, `~ r`,",
            TextItem::Direction => "a base direction, `@en--ltr`,",
            TextItem::Version => "a VERSION",
            TextItem::Directive | TextItem::LongIri => unreachable!("a directive and a long IRI are no errors"),
            TextItem::TooDeep => return format!("triples are within each other more than {MOST_NESTED} levels deep"),
        };
        format!("{what} is RDF 1.2: give --rdf-12 to read it")
    }
}

/// The place of the last byte.
#[derive(Clone, Copy, Debug)]
enum At {
    /// Between tokens, or behind a character without effect.
    Ground,
    /// Behind a backslash in a name.
    Escaped,
    Less,
    /// Behind `<<`; a triple term has one bracket more.
    LessLess,
    Greater,
    Brace,
    Iri,
    Comment,
    /// In a word, as far as it is a [keyword](KEYWORDS); `None` if it is another one.
    Word(Option<Keyword>),
    /// Behind `@`.
    Sign,
    /// In a word behind `@`; the second says whether the last byte was a hyphen.
    Tag(Option<Keyword>, bool),
    /// Behind this number of quotation marks.
    Quotes(u8, u8),
    Short(u8, bool),
    /// In a long string, behind this number of quotation marks; and whether behind a backslash.
    Long(u8, u8, bool),
}

/// Reads a text in parts.
#[derive(Debug)]
pub(super) struct Edition {
    at: At,
    levels: usize,
    /// The bytes of the IRI being read, and of the longest one so far.
    iri: usize,
    longest_iri: usize,
    /// The bytes of the longest IRI that was found as a [`TextItem::LongIri`].
    found_iri: usize,
    /// The bytes of the token, or of the comment, that is being read.
    token: usize,
}

/// A shorter IRI is not found as a [`TextItem::LongIri`].
const LONG_IRI: usize = 256;

/// The words to look for.
const KEYWORDS: [(&[u8], TextItem); 3] =
    [(b"version", TextItem::Version), (b"base", TextItem::Directive), (b"prefix", TextItem::Directive)];

/// The possible keywords of a word, and the number of its bytes so far.
#[derive(Clone, Copy, Debug)]
struct Keyword {
    which: u8,
    bytes: u8,
}

impl Keyword {
    /// A word beginning with this byte.
    fn begun(byte: u8) -> Option<Keyword> {
        let which = KEYWORDS.iter().position(|(word, _)| word[0] == byte.to_ascii_lowercase())?;
        Some(Keyword { which: which as u8, bytes: 1 })
    }

    /// With this byte more.
    fn behind(self, byte: u8) -> Option<Keyword> {
        let next = KEYWORDS[usize::from(self.which)].0.get(usize::from(self.bytes));
        (next == Some(&byte.to_ascii_lowercase())).then_some(Keyword { bytes: self.bytes + 1, ..self })
    }

    /// The item found, with its number of bytes, if all of them have come.
    fn found(self) -> Option<(usize, TextItem)> {
        let (word, found) = KEYWORDS[usize::from(self.which)];
        (word.len() == usize::from(self.bytes)).then_some((word.len(), found))
    }
}

impl Default for Edition {
    fn default() -> Edition {
        Edition { at: At::Ground, levels: 0, iri: 0, longest_iri: 0, found_iri: 0, token: 0 }
    }
}

impl Edition {
    /// The bytes of the longest IRI so far, as it stands in the text.
    pub(super) fn longest_iri(&self) -> usize {
        self.longest_iri
    }

    /// The bytes so far of the token, or of the comment, in which the last part has ended; 0 between tokens.
    pub(super) fn token(&self) -> usize {
        self.token
    }

    /// Reads on up to the first item; returns the place behind it, and the number of bytes since its beginning, perhaps
    /// in an earlier part.
    pub(super) fn find(&mut self, text: &[u8]) -> Option<(usize, usize, TextItem)> {
        let mut place = 0;
        while let Some(&byte) = text.get(place) {
            // Long tokens are passed at once.
            let end = match self.at {
                At::Iri => memchr(b'>', &text[place..]),
                At::Comment => memchr2(b'\n', b'\r', &text[place..]),
                At::Short(quote, false) => memchr3(quote, b'\\', b'\n', &text[place..]),
                At::Long(quote, 0, false) => memchr2(quote, b'\\', &text[place..]),
                _ => Some(0),
            };
            match end {
                Some(0) => {}
                None | Some(_) => {
                    let more = end.unwrap_or(text.len() - place);
                    if matches!(self.at, At::Iri) {
                        self.iri += more;
                        self.longest_iri = self.longest_iri.max(self.iri);
                    }
                    self.token += more;
                    place += more;
                    continue;
                }
            }
            let (next, found) = self.step(byte);
            // An escape of a name is within the name.
            let is_between = matches!(next, At::Ground | At::Greater | At::Brace) && !matches!(self.at, At::Escaped);
            self.token = if is_between { 0 } else { self.token + 1 };
            self.at = next;
            match found {
                // The byte is looked at again.
                Some((0, found)) => return Some((place, 1, found)),
                Some((length, found)) => return Some((place + 1, length, found)),
                None => place += 1,
            }
        }
        None
    }

    fn step(&mut self, byte: u8) -> (At, Option<(usize, TextItem)>) {
        let next = match (self.at, byte) {
            (At::Escaped, _) => At::Ground,
            (At::Less, b'<') => {
                self.levels += 1;
                if self.levels > MOST_NESTED {
                    return (At::Ground, Some((2, TextItem::TooDeep)));
                }
                At::LessLess
            }
            (At::Less, b'>') => At::Ground,
            (At::Less, _) => {
                self.iri = 1;
                At::Iri
            }
            (At::LessLess, b'(') => return (At::Ground, Some((3, TextItem::TripleTerm))),
            (At::LessLess, _) => {
                let (next, _) = self.ground(byte);
                return (next, Some((3, TextItem::Reified)));
            }
            (At::Greater, b'>') => {
                self.levels = self.levels.saturating_sub(1);
                At::Ground
            }
            (At::Brace, b'|') => return (At::Ground, Some((2, TextItem::Annotation))),
            (At::Iri, b'>') if self.iri >= LONG_IRI.max(2 * self.found_iri) => {
                self.found_iri = self.iri;
                return (At::Ground, Some((1, TextItem::LongIri)));
            }
            (At::Iri, b'>') => At::Ground,
            (At::Iri, _) => At::Iri,
            (At::Comment, b'\n' | b'\r') => At::Ground,
            (At::Comment, _) => At::Comment,
            (At::Word(known), _) if is_of_word(byte) => At::Word(known.and_then(|known| known.behind(byte))),
            (At::Word(Some(known)), _) if let Some((length, found)) = known.found() => {
                let (next, _) = self.ground(byte);
                return (next, Some((length + 1, found)));
            }
            (At::Tag(_, true), b'-') => return (At::Ground, Some((2, TextItem::Direction))),
            (At::Sign, _) if byte.is_ascii_alphanumeric() || byte == b'-' => {
                At::Tag(Keyword::begun(byte), byte == b'-')
            }
            (At::Tag(known, _), _) if byte.is_ascii_alphanumeric() || byte == b'-' => {
                At::Tag(known.and_then(|known| known.behind(byte)), byte == b'-')
            }
            (At::Tag(Some(known), _), _) if let Some((length, found)) = known.found() => {
                let (next, _) = self.ground(byte);
                return (next, Some((length + 2, found)));
            }
            (At::Quotes(quote, 1), _) if byte == quote => At::Quotes(quote, 2),
            (At::Quotes(quote, 1), b'\\') => At::Short(quote, true),
            (At::Quotes(_, 1), b'\n') => At::Ground,
            (At::Quotes(quote, 1), _) => At::Short(quote, false),
            (At::Quotes(quote, _), _) if byte == quote => At::Long(quote, 0, false),
            (At::Short(quote, true), _) => At::Short(quote, false),
            (At::Short(quote, _), b'\\') => At::Short(quote, true),
            (At::Short(quote, _), _) if byte == quote || byte == b'\n' => At::Ground,
            (At::Short(quote, _), _) => At::Short(quote, false),
            (At::Long(quote, _, true), _) => At::Long(quote, 0, false),
            (At::Long(quote, _, _), b'\\') => At::Long(quote, 0, true),
            (At::Long(quote, 2, _), _) if byte == quote => At::Ground,
            (At::Long(quote, marks, _), _) if byte == quote => At::Long(quote, marks + 1, false),
            (At::Long(quote, ..), _) => At::Long(quote, 0, false),
            (At::Ground | At::Greater | At::Brace | At::Word(_) | At::Sign | At::Tag(..) | At::Quotes(..), _) => {
                return self.ground(byte);
            }
        };
        (next, None)
    }

    fn ground(&self, byte: u8) -> (At, Option<(usize, TextItem)>) {
        let next = match byte {
            b'<' => At::Less,
            b'>' => At::Greater,
            b'{' => At::Brace,
            b'#' => At::Comment,
            b'\\' => At::Escaped,
            b'@' => At::Sign,
            b'"' | b'\'' => At::Quotes(byte, 1),
            b'~' => return (At::Ground, Some((1, TextItem::Reifier))),
            _ if is_of_word(byte) => At::Word(Keyword::begun(byte)),
            _ => At::Ground,
        };
        (next, None)
    }
}

/// Whether a byte may stand in a word or a name behind its first letter.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-' | b'.' | b'%') || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, step: usize) -> Vec<(usize, TextItem)> {
        let (mut edition, mut all, mut before) = (Edition::default(), Vec::new(), 0);
        for part in text.as_bytes().chunks(step) {
            let mut rest = part;
            while let Some((end, length, found)) = edition.find(rest) {
                all.push((before + part.len() - rest.len() + end - length, found));
                rest = &rest[end..];
            }
            before += part.len();
        }
        all
    }

    #[test]
    fn what_only_rdf_12_has_is_found_where_it_begins() {
        use TextItem::{Annotation, Direction, Reified, Reifier, TripleTerm, Version};
        for (text, expected) in [
            ("<a> <b> <<( <c> <d> \"<<(\" )>> .", vec![(8, TripleTerm)]),
            ("<< <a> <b> <c> ~ <r> >> <d> 1 .", vec![(0, Reified), (15, Reifier)]),
            ("<<<a> <b> <c>>> <d> 1 .", vec![(0, Reified)]),
            (":a :b :c ~:r {| :d :e |} .", vec![(9, Reifier), (13, Annotation)]),
            (":a :b 'x'@en--ltr, \"\"\"x\"y\"\"\"@ar-EG--rtl .", vec![(12, Direction), (34, Direction)]),
            ("VERSION \"1.2\"\n@version '1.2' . version '1'", vec![(0, Version), (14, Version), (31, Version)]),
            ("@prefix version: <x#version> . version:a :version :version. # VERSION ~ <<", vec![]),
            (
                "{ :a :b 'it\\'s ~', \"~ \\\\\", '''~''~\\'''' , \"\", '' , :a\\~b, <~>, <> } # {|\n~",
                vec![(73, Reifier)],
            ),
            ("_:version :a-version true.version:b :c <a{|b> .", vec![]),
            ("a:version:version <b> 'x'@en-version-x .", vec![]),
        ] {
            for step in 1..=text.len() {
                let all = all(text, step).into_iter().filter(|(_, found)| *found != TextItem::Directive);
                assert_eq!(all.collect::<Vec<_>>(), expected, "{text} by {step}");
            }
        }
    }

    #[test]
    fn directives_and_the_longest_iri_are_found() {
        let text = "@base <http://e/> . BaSe <a> PREFIX base: <b#prefix> @prefix prefix: <c/> . \
                    base:a base:base 'base'@base-x .";
        for step in 1..=text.len() {
            let places: Vec<usize> = all(text, step).into_iter().map(|(place, _)| place).collect();
            assert_eq!(places, [0, 20, 29, 53], "by {step}");
        }
        for step in [1, 7, 1000] {
            let mut edition = Edition::default();
            let text = format!("<a> <{}> '<{}>' . # <{0}{0}>", "b".repeat(50), "c".repeat(90));
            text.as_bytes().chunks(step).for_each(|part| assert_eq!(edition.find(part), None));
            assert_eq!(edition.longest_iri(), 50, "by {step}");
        }
    }

    #[test]
    fn an_iri_that_is_twice_as_long_as_those_before_is_found_at_its_end() {
        let iris = [300, 500, 599, 600, 1199, 10, 1200].map(|bytes| format!("<{}>", "b".repeat(bytes)));
        let text = iris.join(" ");
        let ends: Vec<usize> =
            iris.iter().scan(0, |end, iri| Some(std::mem::replace(end, *end + iri.len() + 1))).collect();
        for step in [1, 7, 1000, 10_000] {
            let places: Vec<usize> = all(&text, step).into_iter().map(|(place, _)| place).collect();
            let expected = [0, 3, 6].map(|iri: usize| ends[iri] + iris[iri].len() - 1);
            assert_eq!(places, expected, "by {step}");
        }
    }

    #[test]
    fn a_token_has_its_bytes_up_to_its_end() {
        for (text, expected) in [
            ("a:b \"\"\"x\n\\\"y", 8),
            ("a:b 'xy", 3),
            ("a:b 'xy'", 0),
            ("a:b <x\ny", 4),
            ("a:b <<", 2),
            ("a:b # c a:b", 7),
            ("a:b a:\\~b\\-c.d", 10),
            ("a:b,a:c", 3),
            ("<a><b><c>a:b(a:b", 3),
            ("a:b ;\n ", 0),
        ] {
            for step in 1..=text.len() {
                let mut edition = Edition::default();
                text.as_bytes().chunks(step).for_each(|part| while edition.find(part).is_some() {});
                assert_eq!(edition.token(), expected, "{text} by {step}");
            }
        }
    }

    #[test]
    fn triples_within_each_other_are_counted() {
        let nested = |levels| format!("<a> <b> {}<c>{} .", "<<( <a> <b> ".repeat(levels), " )>>".repeat(levels));
        let deep = |text: &str| all(text, 7).iter().any(|(_, found)| *found == TextItem::TooDeep);
        assert!(!deep(&nested(MOST_NESTED).repeat(3)));
        assert!(deep(&nested(MOST_NESTED + 1)));
    }
}
