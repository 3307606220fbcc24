//! Limits of terms, by which readers with default options take every dump.

use crate::ids::TermKind;
use crate::load::{LONGEST_IRI, LONGEST_LINE, too_long_iri};
use crate::term::{Encoded, TermView};
use std::fmt;

/// Limits of a term.
///
/// ```
/// use vicus_rdf::{Encoder, TermLimits, TermRefused};
/// let limits = TermLimits { iri: 20, ..TermLimits::default() };
/// let iri = oxrdf::NamedNode::new_unchecked("http://e/a-long-name-indeed");
/// let mut encoder = Encoder::default();
/// assert_eq!(limits.check(encoder.term(iri.as_ref().into())), Err(TermRefused::LongIri(20)));
/// let typed = oxrdf::Literal::new_typed_literal("x", iri);
/// assert_eq!(limits.check(encoder.term(typed.as_ref().into())), Err(TermRefused::LongIri(20)));
/// assert_eq!(limits.check(encoder.language_string("x", "en")), Ok(()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TermLimits {
    /// Bytes of an IRI, also of one within another term.
    pub iri: usize,
    /// Bytes of a whole term, written in the syntax that needs the most for it.
    pub written: usize,
    /// Whether it may be a triple term, or have a base direction: readers without RDF 1.2 refuse these.
    pub rdf_12: bool,
}

/// Why a term is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TermRefused {
    /// An IRI exceeds [`TermLimits::iri`].
    LongIri(usize),
    /// The whole exceeds [`TermLimits::written`].
    Long(usize),
    /// Only RDF 1.2 has it, and [`TermLimits::rdf_12`] is not set.
    Rdf12,
}

impl fmt::Display for TermRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TermRefused::LongIri(most) => f.write_str(&too_long_iri(*most)),
            TermRefused::Long(most) => {
                write!(f, "a term has more than {most} bytes when it is written to a file, its escapes included")
            }
            TermRefused::Rdf12 => f.write_str("a triple term or a base direction is RDF 1.2: give --rdf-12 to take it"),
        }
    }
}

impl std::error::Error for TermRefused {}

impl Default for TermLimits {
    /// IRIs of 64 KiB, and terms that fit a line of the default length beside the other IRIs of a quad; of RDF 1.2 as
    /// well.
    fn default() -> TermLimits {
        TermLimits { iri: LONGEST_IRI, written: LONGEST_LINE - (4 << 20), rdf_12: true }
    }
}

/// The most bytes that a syntax needs for a byte of a text: `\u0001` in N-Triples and JSON, `&quot;` in XML.
const WORST: usize = 6;

fn written(byte: u8) -> usize {
    match byte {
        b'\n' | b'\t' | b'\\' => 2,
        b'<' | b'>' | b'&' | b'\r' => 5,
        b'"' | b'\'' | 0x7F | ..0x20 => WORST,
        _ => 1,
    }
}

impl TermLimits {
    /// Checks a term. Takes constant time unless it is long.
    ///
    /// # Errors
    /// It is more than permitted.
    #[inline]
    pub fn check(self, term: Encoded<'_>) -> Result<(), TermRefused> {
        match term {
            Encoded::Key(TermKind::Triple | TermKind::DirString, _) if !self.rdf_12 => Err(TermRefused::Rdf12),
            Encoded::Key(kind, key) if key.len() > self.iri.min(self.written / WORST) => {
                self.check_long(key, TermView::of_key(kind, key))
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn check_long(self, key: &str, view: TermView<'_>) -> Result<(), TermRefused> {
        if key.len() > self.written / WORST && key.bytes().map(written).sum::<usize>() > self.written {
            return Err(TermRefused::Long(self.written));
        }
        let mut next = Some(view);
        while let Some(view) = next.take() {
            let iris = match view {
                TermView::Iri(iri) => [iri, ""],
                TermView::Typed { datatype, .. } => [datatype, ""],
                TermView::Triple(triple) => {
                    next = Some(triple.object());
                    [triple.subject().as_str().unwrap_or_default(), triple.predicate()]
                }
                _ => [""; 2],
            };
            if iris.iter().any(|iri| iri.len() > self.iri) {
                return Err(TermRefused::LongIri(self.iri));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::Encoder;

    #[test]
    fn escapes_count_as_they_are_written() {
        let limits = TermLimits { iri: 10, written: 60, rdf_12: false };
        let mut encoder = Encoder::default();
        let mut check = |text: String| limits.check(encoder.term(oxrdf::Literal::from(text).as_ref().into()));
        for (letter, most) in [("a", 60), ("\n", 30), ("\u{1}", 10), ("<", 12), ("ä", 30)] {
            assert_eq!(check(letter.repeat(most)), Ok(()), "{letter:?}");
            assert_eq!(check(letter.repeat(most + 1)), Err(TermRefused::Long(60)), "{letter:?}");
        }
    }

    #[test]
    fn terms_of_rdf_1_2_are_taken_with_it_alone() {
        let iri = oxrdf::NamedNode::new_unchecked("http://e/a");
        let triple = oxrdf::Term::from(oxrdf::Triple::new(iri.clone(), iri.clone(), iri.clone()));
        let mut encoder = Encoder::default();
        for (rdf_12, outcome) in [(true, Ok(())), (false, Err(TermRefused::Rdf12))] {
            let limits = TermLimits { rdf_12, ..TermLimits::default() };
            assert_eq!(limits.check(encoder.term(triple.as_ref())), outcome);
            assert_eq!(limits.check(encoder.term(iri.as_ref().into())), Ok(()));
        }
    }

    #[test]
    fn iris_within_triple_terms_count() {
        let limits = TermLimits { iri: 10, ..TermLimits::default() };
        let iri = |bytes: usize| oxrdf::NamedNode::new_unchecked("a".repeat(bytes));
        let mut encoder = Encoder::default();
        let mut check = |[subject, predicate, object]: [usize; 3], levels: usize| {
            let mut term = oxrdf::Term::from(iri(object));
            for _ in 0..levels {
                term = oxrdf::Triple::new(iri(subject), iri(predicate), term).into();
            }
            limits.check(encoder.term(term.as_ref()))
        };
        for levels in [1, 3] {
            assert_eq!(check([10; 3], levels), Ok(()));
            for place in 0..3 {
                let mut bytes = [10; 3];
                bytes[place] = 11;
                assert_eq!(check(bytes, levels), Err(TermRefused::LongIri(10)), "{place}");
            }
        }
    }
}
