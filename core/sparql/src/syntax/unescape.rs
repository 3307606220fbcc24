//! Replaces escapes by the characters that they stand for.
//!
//! SPARQL 1.1: §19.2 allows `\u00E9` anywhere in a text, §19.7 allows `
//! ` and the like in strings.

use super::{Result, Wrong};
use std::borrow::Cow;

/// A text whose codepoint escapes outside of strings and IRIs are replaced.
pub(super) struct Decoded {
    pub(super) text: String,
    /// For each replaced escape: the end of its character in the new text, and its own end in the old text.
    places: Vec<(usize, usize)>,
}

impl Decoded {
    /// The position in the old text of a position in the new one.
    pub(super) fn written_at(&self, at: usize) -> usize {
        let before = self.places.partition_point(|(new, _)| *new <= at);
        before.checked_sub(1).map_or(at, |last| self.places[last].1 + (at - self.places[last].0))
    }
}

/// Replaces the escapes outside of strings, IRIs and comments; `None` if there are none. In strings and IRIs they are
/// replaced with the token, because an escaped quote does not end a string.
pub(super) fn codepoints(text: &str) -> Option<Decoded> {
    if !text.contains("\\u") && !text.contains("\\U") {
        return None;
    }
    let bytes = text.as_bytes();
    let mut decoded = Decoded { text: String::with_capacity(text.len()), places: Vec::new() };
    let (mut at, mut done) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'#' => at += bytes[at..].iter().position(|byte| b"\n\r".contains(byte)).unwrap_or(bytes.len() - at),
            quote @ (b'"' | b'\'') => {
                let long = bytes[at..].starts_with(&[quote; 3]);
                at += if long { 3 } else { 1 };
                while at < bytes.len() {
                    match bytes[at] {
                        b'\\' => at += 2,
                        byte if byte == quote && (!long || bytes[at..].starts_with(&[quote; 3])) => {
                            at += if long { 3 } else { 1 };
                            break;
                        }
                        b'\n' if !long => break,
                        _ => at += 1,
                    }
                }
            }
            // A less-than sign that is followed by white space before `>` does not begin an IRI.
            b'<' => {
                let end = bytes[at + 1..].iter().position(|&byte| byte <= b' ' || b"<>\"{}|^`".contains(&byte));
                at += match end {
                    Some(end) if bytes[at + 1 + end] == b'>' => end + 2,
                    _ => 1,
                };
            }
            b'\\' => match codepoint(text, at) {
                Some((char, end)) => {
                    decoded.text.push_str(&text[done..at]);
                    decoded.text.push(char);
                    decoded.places.push((decoded.text.len(), end));
                    (at, done) = (end, end);
                }
                None => at += 2,
            },
            _ => at += 1,
        }
    }
    decoded.text.push_str(&text[done..]);
    (!decoded.places.is_empty()).then_some(decoded)
}

/// The character of the escape at a place, and the end of the escape.
fn codepoint(text: &str, at: usize) -> Option<(char, usize)> {
    let digits = match text.as_bytes().get(at + 1)? {
        b'u' => 4,
        b'U' => 8,
        _ => return None,
    };
    let end = at + 2 + digits;
    let code = text.get(at + 2..end).filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some((char::from_u32(u32::from_str_radix(code, 16).ok()?)?, end))
}

/// The text of a string, given what stands between its quotes at this place.
pub(super) fn text(raw: &str, at: usize) -> Result<Cow<'_, str>> {
    decoded(raw, at, |rest| {
        Some(match rest.as_bytes().get(1)? {
            b't' => '\t',
            b'b' => '\u{8}',
            b'n' => '\n',
            b'r' => '\r',
            b'f' => '\u{C}',
            b'\\' => '\\',
            b'"' => '"',
            b'\'' => '\'',
            _ => return None,
        })
    })
}

/// The IRI, given what stands between `<` and `>` at this place.
pub(super) fn iri(raw: &str, at: usize) -> Result<Cow<'_, str>> {
    decoded(raw, at, |_| None)
}

fn decoded(raw: &str, at: usize, short: impl Fn(&str) -> Option<char>) -> Result<Cow<'_, str>> {
    let Some(first) = memchr(raw) else { return Ok(Cow::Borrowed(raw)) };
    let mut made = String::with_capacity(raw.len());
    let (mut done, mut next) = (0, Some(first));
    while let Some(place) = next {
        made.push_str(&raw[done..place]);
        if let Some(char) = short(&raw[place..]) {
            made.push(char);
            done = place + 2;
        } else if let Some((char, end)) = codepoint(raw, place) {
            made.push(char);
            done = end;
        } else {
            let shown: String = raw[place..].chars().take(2).collect();
            return Err(Wrong::new(
                at + place,
                format!("`{}` stands for no character", shown.escape_debug().to_string().replace("\\\\", "\\")),
            ));
        }
        next = memchr(&raw[done..]).map(|place| done + place);
    }
    made.push_str(&raw[done..]);
    Ok(Cow::Owned(made))
}

fn memchr(text: &str) -> Option<usize> {
    text.bytes().position(|byte| byte == b'\\')
}

/// A local name without the backslashes in front of its special characters.
pub(super) fn local(raw: &str) -> Cow<'_, str> {
    if raw.contains('\\') { Cow::Owned(raw.replace('\\', "")) } else { Cow::Borrowed(raw) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_outside_of_quotes_is_its_character() {
        let written = "?\\u00E9 '\\u0022' <http://e/\\u00E9> # \\u00E9\n\\U0001F600 :a\\-b";
        let decoded = codepoints(written).unwrap();
        assert_eq!(decoded.text, "?é '\\u0022' <http://e/\\u00E9> # \\u00E9\n😀 :a\\-b");
        for part in ["'", "<", "\n", ":a"] {
            let (new, old) = (decoded.text.find(part).unwrap(), written.find(part).unwrap());
            assert_eq!(decoded.written_at(new), old, "{part}");
        }
        assert!(codepoints("'\\u0022' <\\u00E9>").is_none());
    }

    #[test]
    fn strings_are_unescaped() {
        assert!(matches!(text("abc", 0), Ok(Cow::Borrowed("abc"))));
        assert_eq!(text("a\\tb\\\\n\\\"\\u00e9", 0).ok().unwrap(), "a\tb\\n\"é");
        for (raw, place) in [("ab\\z", 12), ("\\uD800", 10), ("\\u12", 10)] {
            assert_eq!(text(raw, 10).err().unwrap().at, place, "{raw}");
        }
    }
}
