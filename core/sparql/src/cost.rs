//! The cost of a query before it runs: memory for parsing and for its plan.

use crate::syntax::{DEFAULT_LONGER, ParseOptions};
use vicus_flow::Model;

/// The greatest number of bytes of parsing for each byte of text, as measured by `tests/memory.rs`. Short lists of
/// objects and operands take the most.
const FOR_EACH: u64 = 640;

/// Further bytes of parsing for any query.
const FOR_ANY: u64 = 16 << 10;

/// A plan's bytes for each box; below, for each column of a box's outputs.
const FOR_EACH_BOX: u64 = 2560;
const FOR_EACH_COLUMN: u64 = 192;

/// An upper estimate of the bytes of parsing a text, including the parsed query, from the text's length. A caller with
/// a memory limit for requests can refuse the text before it is read.
///
/// ```
/// assert!(vicus_sparql::parsing_bytes("ASK { ?s ?p ?o }") < 1 << 15);
/// ```
pub fn parsing_bytes(text: &str) -> u64 {
    parsing_bytes_with(text, &ParseOptions::default())
}

/// Like [`parsing_bytes`], for a text parsed with these options.
///
/// ```
/// use vicus_sparql::{ParseOptions, parsing_bytes, parsing_bytes_with};
/// let options = ParseOptions { longer: 1000, ..ParseOptions::default() };
/// assert!(parsing_bytes_with("ASK { ?s ?p ?o }", &options) > parsing_bytes("ASK { ?s ?p ?o }"));
/// ```
pub fn parsing_bytes_with(text: &str, options: &ParseOptions<'_>) -> u64 {
    let longer = options.longer.saturating_sub(DEFAULT_LONGER) as u64;
    FOR_ANY.saturating_add(FOR_EACH.saturating_add(longer).saturating_mul(text.len() as u64))
}

/// The greatest number of bytes of parsing for each word of an update without patterns.
const FOR_EACH_WORD_OF_DATA: u64 = 400;

/// Bytes of parsing for each byte of an update's text beside the cost of its words, with the copies of names and
/// values.
const FOR_EACH_OF_UPDATE: u64 = 12;

/// How often the written out form of a short name is there at a time.
const COPIES: u64 = 3;

/// Like [`parsing_bytes_with`], for an update. Most of its text is data as a rule, so it is measured by words: each
/// triple has a few, of any length. A pattern's words take as much as a query's bytes. Cost: one pass over the text.
///
/// ```
/// use vicus_sparql::{ParseOptions, parsing_bytes, update_bytes_with};
/// let line = "<http://example.org/article/1234> <http://purl.org/dc/terms/issued> \"1950\" .\n";
/// let text = format!("INSERT DATA {{\n{}}}", line.repeat(1000));
/// assert!(update_bytes_with(&text, &ParseOptions::default()) < parsing_bytes(&text) / 10);
/// ```
pub fn update_bytes_with(text: &str, options: &ParseOptions<'_>) -> u64 {
    let Words { count, names, longest, has_patterns } = Words::of(text);
    let for_each_word = if has_patterns { FOR_EACH } else { FOR_EACH_WORD_OF_DATA };
    let written_out = names.saturating_mul(longest).min((options.longer as u64).saturating_mul(text.len() as u64));
    FOR_ANY
        .saturating_add(for_each_word.saturating_mul(count))
        .saturating_add(FOR_EACH_OF_UPDATE.saturating_mul(text.len() as u64))
        .saturating_add(COPIES.saturating_mul(written_out))
}

/// The content of a text, counted without its grammar: at least as many words as the grammar knows.
#[derive(Default)]
struct Words {
    /// Names, numbers, IRIs, strings and signs, each sign alone.
    count: u64,
    /// Names and IRIs a prefix or a base may make longer; none if the text has neither.
    names: u64,
    /// The bytes of the longest IRI.
    longest: u64,
    /// Whether it may have patterns.
    has_patterns: bool,
}

impl Words {
    fn of(text: &str) -> Words {
        let bytes = text.as_bytes();
        let (mut words, mut at) = (Words::default(), 0);
        let mut has_prefixes = false;
        while let Some(&first) = bytes.get(at) {
            let rest = &bytes[at..];
            let length = match first {
                // The sign of a language belongs to the word behind it.
                b' ' | b'\t' | b'\r' | b'\n' | b'@' => {
                    at += 1;
                    continue;
                }
                b'#' => {
                    at += rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(rest.len());
                    continue;
                }
                b'<' => {
                    match rest.iter().position(|byte| matches!(byte, b'>' | b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'{'))
                    {
                        Some(end) if rest[end] == b'>' => {
                            words.names += 1;
                            words.longest = words.longest.max(end as u64);
                            end + 1
                        }
                        _ => 1,
                    }
                }
                b'"' | b'\'' => string_bytes(rest),
                _ if is_of_name(first) => {
                    // A number may end at the start of a name.
                    let goes_on = |pair: &[u8]| {
                        is_of_name(pair[1]) && !(pair[0].is_ascii_digit() && pair[1].is_ascii_alphabetic())
                    };
                    let end = 1 + rest.windows(2).take_while(|pair| goes_on(pair)).count();
                    words.names += u64::from(rest[..end].contains(&b':'));
                    has_prefixes |= [&b"prefix"[..], b"base"].iter().any(|word| rest[..end].eq_ignore_ascii_case(word));
                    words.has_patterns |= rest[..end].eq_ignore_ascii_case(b"where");
                    end
                }
                _ => 1,
            };
            words.count += 1;
            at += length;
        }
        words.names *= u64::from(has_prefixes);
        words
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-' | b'%') || !byte.is_ascii()
}

/// The bytes of the string starting here, its marks included; one, if it has no end.
fn string_bytes(text: &[u8]) -> usize {
    let mark = text[0];
    let is_long = text.len() >= 3 && text[1] == mark && text[2] == mark;
    let mut at = if is_long { 3 } else { 1 };
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\r' | b'\n' if !is_long => return 1,
            _ if byte == mark && !is_long => return at + 1,
            _ if byte == mark && text[at..].starts_with(&[mark; 3]) => return at + 3,
            _ => at += 1,
        }
    }
    1
}

/// About how many bytes a plan and one running instance of its model take.
pub(crate) fn plan_bytes(model: &Model) -> u64 {
    let boxes = model.boxes().iter();
    boxes
        .map(|one| {
            FOR_EACH_BOX + FOR_EACH_COLUMN * one.outputs().map(|(schema, _)| schema.columns().len() as u64).sum::<u64>()
        })
        .sum()
}
