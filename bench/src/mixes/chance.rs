//! Random numbers from a seed, the same everywhere: splitmix64 (Steele et al., OOPSLA 2014).

use std::fmt::Write as _;

pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ bits >> 31
    }

    /// A number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number from `first` to `last`, both included.
    pub(crate) fn from_to(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// A number below `end`; small ones are much more frequent.
    pub(crate) fn skewed(&mut self, end: u64) -> u64 {
        let unit = self.next() as f64 / u64::MAX as f64;
        ((unit.powi(3) * end as f64) as u64).min(end - 1)
    }

    /// Draws true with this probability, in percent.
    pub(crate) fn percent(&mut self, often: u64) -> bool {
        self.below(100) < often
    }

    /// A text of `first` to `last` words.
    pub(crate) fn words(&mut self, first: u64, last: u64) -> String {
        let mut text = String::new();
        for place in 0..self.from_to(first, last) {
            let word = self.skewed(20_000);
            let _ = write!(text, "{}w{word}", if place == 0 { "" } else { " " });
        }
        text
    }
}

/// Writes N-Triples from short names.
pub(crate) struct Triples {
    prefixes: &'static [(&'static str, &'static str)],
    pub(crate) text: String,
    pub(crate) count: u64,
}

const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

impl Triples {
    pub(crate) fn new(prefixes: &'static [(&'static str, &'static str)]) -> Triples {
        Triples { prefixes, text: String::new(), count: 0 }
    }

    /// Writes a term: `p:name` by the prefixes, a number, `"text"`, or `"text"` followed by a language or a short name
    /// of a type.
    fn put(&mut self, term: &str) {
        if let Some(quoted) = term.strip_prefix('"') {
            let (text, rest) = quoted.rsplit_once('"').expect("a literal has two quotes");
            let _ = write!(self.text, "\"{text}\"");
            match rest.strip_prefix("^^") {
                Some(kind) => {
                    self.text.push_str("^^");
                    self.put(kind);
                }
                None => self.text.push_str(rest),
            }
        } else if term.starts_with(|c: char| c.is_ascii_digit()) {
            let _ = write!(self.text, "\"{term}\"^^<{XSD}integer>");
        } else {
            let (prefix, name) = term.split_once(':').expect("an IRI has a prefix");
            let known = self.prefixes.iter().find(|(known, _)| *known == prefix);
            let _ = write!(self.text, "<{}{name}>", known.expect("the prefix is known").1);
        }
    }

    pub(crate) fn add(&mut self, subject: &str, predicate: &str, object: impl AsRef<str>) {
        for term in [subject, predicate, object.as_ref()] {
            self.put(term);
            self.text.push(' ');
        }
        self.text.push_str(".\n");
        self.count += 1;
    }
}

/// The query with PREFIX declarations for the prefixes that it uses.
pub(crate) fn with_prologue(prefixes: &[(&str, &str)], query: &str) -> String {
    let used = prefixes.iter().filter(|(prefix, _)| query.contains(&format!("{prefix}:")));
    used.map(|(prefix, iri)| format!("PREFIX {prefix}: <{iri}>\n")).collect::<String>() + query
}
