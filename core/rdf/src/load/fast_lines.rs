//! The fast path for lines of N-Triples and N-Quads of the usual form. A line that it is not sure about is left to
//! oxttl.
//!
//! It must never accept a line that oxttl rejects, nor parse another triple from it: `tests/rdf/plain_lines.rs`
//! compares the two on random and damaged lines. It is sure about: absolute IRIs of ASCII characters without IP
//! literals and within the limit of length, strings without escapes, blank node labels of ASCII letters, digits, `_`
//! and `-`, the commonest forms of language tags, and one triple in the line, or one quad.

use super::terms::Terms;
use crate::ids::TermKind;
use crate::term::Encoder;
use memchr::{memchr, memchr3};
use vicus_flow::NoMemory;

/// The fast path's result for a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plain {
    Triple([u32; 3]),
    /// A triple and its graph's name.
    Quad([u32; 3], u32),
    Empty,
    /// oxttl has to parse the line. Some of its terms may have been interned.
    Unsure,
}

/// The bytes that the entries of a line's three terms may need besides the line's text.
pub(crate) const ROOM_BESIDE_TEXT: usize = 64;

/// Remembers parts of a line that the next one is likely to repeat.
pub(crate) struct PlainLines<'a> {
    encoder: Encoder,
    /// The longest IRI that it is sure about.
    longest_iri: usize,
    /// The subject of the last line, as written, and its number.
    subject: Option<(&'a [u8], u32)>,
    /// The last valid datatype.
    datatype: &'a [u8],
}

impl<'a> PlainLines<'a> {
    pub(crate) fn new(longest_iri: usize) -> PlainLines<'a> {
        PlainLines { encoder: Encoder::default(), longest_iri, subject: None, datatype: &[] }
    }

    /// Forgets the remembered numbers, because they may have been taken back.
    pub(crate) fn forget(&mut self) {
        self.subject = None;
    }

    /// Parses a line, with or without its newline. `quads` says whether a graph's name may stand in it.
    #[inline]
    pub(crate) fn line(
        &mut self,
        line: &'a [u8],
        quads: bool,
        file: u32,
        terms: &mut Terms,
    ) -> Result<Plain, NoMemory> {
        let line = skip_blanks(line);
        if matches!(line, [] | [b'\n'] | [b'\r', b'\n']) {
            return Ok(Plain::Empty);
        }
        // Their keys are no longer than the line, apart from files' numbers, tags and inlined ids.
        terms.make_room(4, line.len() + ROOM_BESIDE_TEXT)?;
        self.encoder.make_room(line.len() + ROOM_BESIDE_TEXT)?;
        Ok(self.statement(line, quads, file, terms).unwrap_or(Plain::Unsure))
    }

    #[inline]
    fn statement(&mut self, line: &'a [u8], quads: bool, file: u32, terms: &mut Terms) -> Option<Plain> {
        let (subject, rest) = self.subject(line, file, terms)?;
        let (predicate, rest) = self.iri(skip_blanks(rest), terms)?;
        let rest = skip_blanks(rest);
        let (object, rest) = match *rest.first()? {
            b'<' => self.iri(rest, terms)?,
            b'"' => self.literal(rest, terms)?,
            _ => self.blank(rest, file, terms)?,
        };
        let (triple, mut rest) = ([subject, predicate, object], skip_blanks(rest));
        let mut made = Plain::Triple(triple);
        if quads && rest.first() != Some(&b'.') {
            let (graph, behind) =
                if rest.first() == Some(&b'<') { self.iri(rest, terms)? } else { self.blank(rest, file, terms)? };
            (made, rest) = (Plain::Quad(triple, graph), skip_blanks(behind));
        }
        let rest = skip_blanks(rest.strip_prefix(b".")?);
        matches!(rest, [] | [b'\n'] | [b'\r', b'\n']).then_some(made)
    }

    fn subject(&mut self, line: &'a [u8], file: u32, terms: &mut Terms) -> Option<(u32, &'a [u8])> {
        if let Some((text, number)) = self.subject
            && let Some(rest) = line.strip_prefix(text)
            // Without white space or `<` after it, the label may be longer.
            && matches!(rest.first(), Some(b' ' | b'\t'))
        {
            return Some((number, rest));
        }
        let (number, rest) =
            if line.first() == Some(&b'<') { self.iri(line, terms)? } else { self.blank(line, file, terms)? };
        self.subject = Some((&line[..line.len() - rest.len()], number));
        Some((number, rest))
    }

    fn iri(&self, text: &'a [u8], terms: &mut Terms) -> Option<(u32, &'a [u8])> {
        let text = text.strip_prefix(b"<")?;
        let end = memchr(b'>', text)?;
        if end > self.longest_iri {
            return None;
        }
        let number = terms.intern_if(TermKind::Iri as u8, &text[..end], is_surely_iri)?;
        Some((number, &text[end + 1..]))
    }

    fn blank(&mut self, text: &'a [u8], file: u32, terms: &mut Terms) -> Option<(u32, &'a [u8])> {
        let text = text.strip_prefix(b"_:")?;
        let length = text.iter().position(|&byte| !is(LABEL, byte)).unwrap_or(text.len());
        let (label, rest) = text.split_at(length);
        // A label may continue with a dot or a character above ASCII: here it must be followed by white space, `<` or
        // the final dot.
        if matches!(label.first(), None | Some(b'-')) {
            return None;
        }
        let label = str::from_utf8(label).expect("ASCII");
        Some((terms.intern(self.encoder.blank(file, label)), rest))
    }

    fn literal(&mut self, text: &'a [u8], terms: &mut Terms) -> Option<(u32, &'a [u8])> {
        let text = text.strip_prefix(b"\"")?;
        let end = memchr3(b'"', b'\\', b'\r', text)?;
        if text[end] != b'"' {
            return None;
        }
        let (value, rest) = (&text[..end], &text[end + 1..]);
        match rest {
            [b'^', b'^', b'<', rest @ ..] => {
                let end = memchr(b'>', rest)?;
                let (datatype, rest) = (&rest[..end], &rest[end + 1..]);
                if datatype == oxrdf::vocab::xsd::STRING.as_str().as_bytes() {
                    return string(value, rest, terms);
                }
                if datatype != self.datatype {
                    let needs_more = [oxrdf::vocab::rdf::LANG_STRING, oxrdf::vocab::rdf::DIR_LANG_STRING];
                    if datatype.len() > self.longest_iri
                        || !is_surely_iri(datatype)
                        || needs_more.iter().any(|iri| iri.as_str().as_bytes() == datatype)
                    {
                        return None;
                    }
                    self.datatype = datatype;
                }
                let datatype = str::from_utf8(datatype).expect("ASCII");
                let literal = self.encoder.typed(str::from_utf8(value).ok()?, datatype);
                Some((terms.intern(literal), rest))
            }
            [b'@', rest @ ..] => {
                let end = rest.iter().position(|&byte| !byte.is_ascii_alphanumeric() && byte != b'-')?;
                let (language, rest) = rest.split_at(end);
                let primary = language.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
                let is_sure = (2..=3).contains(&primary)
                    && match &language[primary..] {
                        [] => true,
                        [b'-', a, b] => a.is_ascii_alphabetic() && b.is_ascii_alphabetic(),
                        _ => false,
                    };
                if !is_sure || rest.first().is_some_and(|&byte| byte >= 0x80) {
                    return None;
                }
                let language = str::from_utf8(language).expect("ASCII");
                let literal = self.encoder.language_string(str::from_utf8(value).ok()?, language);
                Some((terms.intern(literal), rest))
            }
            _ => string(value, rest, terms),
        }
    }
}

fn string<'a>(value: &[u8], rest: &'a [u8], terms: &mut Terms) -> Option<(u32, &'a [u8])> {
    let number = terms.intern_if(TermKind::String as u8, value, |value| str::from_utf8(value).is_ok())?;
    Some((number, rest))
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    match text {
        // The usual case, without a loop.
        [b' ', second, ..] if !matches!(second, b' ' | b'\t') => &text[1..],
        _ => {
            let length = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
            &text[length..]
        }
    }
}

/// RFC 3987, restricted to ASCII: `scheme:[//host[:digits]]rest`, where the rest has at most one `#`, and each percent
/// sign is followed by two hexadecimal digits.
fn is_surely_iri(iri: &[u8]) -> bool {
    let Some(colon) = iri.iter().position(|&byte| !is(SCHEME, byte)) else { return false };
    if !iri[0].is_ascii_alphabetic() || iri[colon] != b':' {
        return false;
    }
    let mut rest = &iri[colon + 1..];
    if let Some(authority) = rest.strip_prefix(b"//") {
        let host = authority.iter().position(|&byte| !is(HOST, byte)).unwrap_or(authority.len());
        rest = &authority[host..];
        if let Some(port) = rest.strip_prefix(b":") {
            rest = &port[port.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(port.len())..];
        }
        if !matches!(rest.first(), None | Some(b'/' | b'?' | b'#')) {
            return false;
        }
    }
    let mut fragments = 0;
    loop {
        let Some(stop) = rest.iter().position(|&byte| !is(REST, byte)) else { return true };
        rest = match rest[stop..] {
            [b'#', ..] if fragments == 0 => {
                fragments = 1;
                &rest[stop + 1..]
            }
            [b'%', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => &rest[stop + 3..],
            _ => return false,
        };
    }
}

/// Characters of blank node labels, as described above, after the first.
const LABEL: u8 = 1;
/// Characters of IRI schemes.
const SCHEME: u8 = 2;
/// RFC 3986: unreserved and sub-delims.
const HOST: u8 = 4;
/// Those, and the further characters of paths, queries and fragments.
const REST: u8 = 8;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        let c = byte as u8;
        let host = c.is_ascii_alphanumeric()
            || matches!(c, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')')
            || matches!(c, b'*' | b'+' | b',' | b';' | b'=');
        if c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-') {
            classes[byte] |= LABEL;
        }
        if c.is_ascii_alphanumeric() || matches!(c, b'+' | b'-' | b'.') {
            classes[byte] |= SCHEME;
        }
        if host {
            classes[byte] |= HOST;
        }
        if host || matches!(c, b':' | b'@' | b'/' | b'?') {
            classes[byte] |= REST;
        }
        byte += 1;
    }
    classes
};

fn is(class: u8, byte: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iri_is_sure_or_left_to_oxttl() {
        let sure =
            ["http://e/", "http://localhost:8080/a?b#c", "urn:isbn:0-486", "file:///a", "mailto:a@b.c", "a:", "x://"];
        for iri in sure.iter().chain(&["http://e", "http://e?q", "http://e/%C3%A9#/?", "http://e:"]) {
            assert!(is_surely_iri(iri.as_bytes()), "{iri}");
            assert!(oxrdf::NamedNode::new(*iri).is_ok(), "{iri}");
        }
        for iri in
            ["", ":", "relative", "/a", "1a:b", "http://e/ ", "http://e/#a#b", "http://[::1]/", "http://u@e/", "a:%4"]
        {
            assert!(!is_surely_iri(iri.as_bytes()), "{iri}");
        }
    }
}
