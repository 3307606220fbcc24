//! Watches RDF/XML on its way to its parser, which is another's, for what makes that parser take far more memory, stack or time than the
//! text has bytes: elements that are nested deeply, and entities that contain each other.

use std::collections::BTreeMap;

/// The deepest nesting of objects and lists in JSON-LD, which is walked by recursion.
pub(super) const MOST_LEVELS: usize = 256;

/// The deepest nesting of elements in RDF/XML. At each element, oxrdfxml looks through all that it stands in for the version of RDF.
pub(super) const MOST_ELEMENTS: usize = 2048;

/// How many attributes an element of RDF/XML may have, and how many namespaces may be declared where it stands. oxrdfxml compares each
/// attribute with all before it, and looks for a namespace among all.
pub(super) const MOST_ATTRIBUTES: usize = 1024;
pub(super) const MOST_NAMESPACES: usize = 1024;

/// The longest declaration of an entity, and the longest name of one that is looked for.
const LONGEST_DECLARATION: usize = 16 << 10;
const LONGEST_NAME: usize = 256;

/// What was seen so far of a text.
#[derive(Default)]
pub(super) struct Guard(Box<Entities>, Elements);

/// The text goes beyond a limit.
#[derive(Debug)]
pub(super) enum Beyond {
    Nested,
    Attributes,
    Namespaces,
    Declaration,
}

/// The elements of XML that are open.
#[derive(Default)]
pub(super) struct Elements {
    open: usize,
    /// The namespaces that each of them declares, and all together.
    declared: Vec<u32>,
    namespaces: usize,
    /// Attributes of the tag at hand, and the name of the one at hand as far as it may be `xmlns`.
    attributes: usize,
    name: usize,
    place: Place,
}

/// In what part of XML the last byte was.
#[derive(Clone, Copy, Default)]
enum Place {
    #[default]
    Text,
    /// Behind `<`.
    Opening,
    /// In a tag that opens an element: the quotation mark that is open in it, and whether the last byte was a slash.
    Start(Option<u8>, bool),
    /// In a tag that closes an element.
    End,
    /// Behind `<!`.
    Declaration,
    /// In a comment, behind so many hyphens.
    Comment(usize),
    /// In a section of characters, behind so many brackets.
    Characters(usize),
    /// In a processing instruction, or a declaration of another kind.
    Other,
}

impl Elements {
    /// How many elements are open behind the next byte.
    fn next(&mut self, byte: u8) -> usize {
        self.place = match (self.place, byte) {
            (Place::Text, b'<') => Place::Opening,
            (Place::Text, _) => Place::Text,
            (Place::Opening, b'/') => Place::End,
            (Place::Opening, b'!') => Place::Declaration,
            (Place::Opening, b'?') => Place::Other,
            (Place::Opening, _) => {
                self.open += 1;
                self.declared.push(0);
                (self.attributes, self.name) = (0, 0);
                Place::Start(None, false)
            }
            (Place::Start(None, is_empty), b'>') => {
                if is_empty {
                    self.close();
                }
                Place::Text
            }
            (Place::Start(None, _), b'"' | b'\'') => Place::Start(Some(byte), false),
            (Place::Start(None, _), _) => {
                self.look_at_name(byte);
                Place::Start(None, byte == b'/')
            }
            (Place::Start(Some(mark), _), _) => Place::Start((byte != mark).then_some(mark), false),
            (Place::End, b'>') => {
                self.close();
                Place::Text
            }
            (Place::Declaration, b'-') => Place::Comment(0),
            (Place::Declaration, b'[') => Place::Characters(0),
            (Place::Comment(2..), b'>') | (Place::Characters(2..), b'>') | (Place::Other, b'>') => Place::Text,
            (Place::Comment(count), b'-') => Place::Comment(count + 1),
            (Place::Comment(_), _) => Place::Comment(0),
            (Place::Characters(count), b']') => Place::Characters(count + 1),
            (Place::Characters(_), _) => Place::Characters(0),
            (Place::Declaration | Place::Other, _) => Place::Other,
            (Place::End, _) => Place::End,
        };
        self.open
    }

    fn close(&mut self) {
        self.open = self.open.saturating_sub(1);
        self.namespaces -= self.declared.pop().unwrap_or(0) as usize;
    }

    /// Counts attributes by their equals signs, and those that declare namespaces.
    fn look_at_name(&mut self, byte: u8) {
        const XMLNS: &[u8] = b"xmlns";
        match byte {
            b'=' => {
                self.attributes += 1;
                if self.name >= XMLNS.len() {
                    self.namespaces += 1;
                    if let Some(declared) = self.declared.last_mut() {
                        *declared += 1;
                    }
                }
                self.name = 0;
            }
            b' ' | b'\t' | b'\n' | b'\r' if self.name < XMLNS.len() => self.name = 0,
            // Behind `xmlns`, the name goes on to the equals sign.
            _ if self.name >= XMLNS.len() => {}
            _ if byte == XMLNS[self.name] => self.name += 1,
            _ => self.name = 0,
        }
    }
}

/// The entities of a document.
#[derive(Default)]
pub(super) struct Entities {
    /// The lengths of their texts, with the entities in them replaced, by name.
    lengths: BTreeMap<Vec<u8>, usize>,
    seen: Seen,
}

/// Where in XML the last byte was.
#[derive(Default)]
enum Seen {
    #[default]
    Text,
    /// So many bytes of `<!ENTITY`.
    Opening(usize),
    /// A declaration behind that, and the quotation mark that is open in it.
    Declaration(Vec<u8>, Option<u8>),
    /// A reference behind its `&`.
    Reference(Vec<u8>),
}

const OPENING: &[u8] = b"<!ENTITY";

impl Guard {
    /// Looks at the next bytes; returns by how many bytes their entities make them longer.
    pub(super) fn look(&mut self, bytes: &[u8]) -> Result<usize, Beyond> {
        let Guard(entities, elements) = self;
        let mut longer = 0;
        for &byte in bytes {
            longer += entities.next(byte)?;
            if elements.next(byte) > MOST_ELEMENTS {
                return Err(Beyond::Nested);
            }
            if elements.attributes > MOST_ATTRIBUTES {
                return Err(Beyond::Attributes);
            }
            if elements.namespaces > MOST_NAMESPACES {
                return Err(Beyond::Namespaces);
            }
        }
        Ok(longer)
    }
}

impl Entities {
    fn next(&mut self, byte: u8) -> Result<usize, Beyond> {
        let mut longer = 0;
        self.seen = match (std::mem::take(&mut self.seen), byte) {
            (Seen::Text, b'<') => Seen::Opening(1),
            (Seen::Text, b'&') => Seen::Reference(Vec::new()),
            (Seen::Text, _) => Seen::Text,
            (Seen::Opening(count), _) if byte == OPENING[count] => match count + 1 {
                count if count == OPENING.len() => Seen::Declaration(Vec::new(), None),
                count => Seen::Opening(count),
            },
            (Seen::Opening(_), b'<') => Seen::Opening(1),
            (Seen::Opening(_), b'&') => Seen::Reference(Vec::new()),
            (Seen::Opening(_), _) => Seen::Text,
            (Seen::Declaration(text, None), b'>') => {
                longer = self.declare(&text);
                Seen::Text
            }
            (Seen::Declaration(text, _), _) if text.len() >= LONGEST_DECLARATION => return Err(Beyond::Declaration),
            (Seen::Declaration(mut text, quoted), _) => {
                text.push(byte);
                let quoted = match (quoted, byte) {
                    (None, b'"' | b'\'') => Some(byte),
                    (Some(mark), _) if mark == byte => None,
                    (quoted, _) => quoted,
                };
                Seen::Declaration(text, quoted)
            }
            (Seen::Reference(name), b';') => {
                longer = self.lengths.get(&name).copied().unwrap_or(0);
                Seen::Text
            }
            (Seen::Reference(_), b'<') => Seen::Opening(1),
            (Seen::Reference(_), b'&') => Seen::Reference(Vec::new()),
            (Seen::Reference(name), _) if name.len() >= LONGEST_NAME => Seen::Text,
            (Seen::Reference(mut name), _) => {
                name.push(byte);
                Seen::Reference(name)
            }
        };
        Ok(longer)
    }

    /// Remembers how long an entity is. Its text is kept by the parser.
    fn declare(&mut self, text: &[u8]) -> usize {
        let text = text.trim_ascii();
        let text = text.strip_prefix(b"%").unwrap_or(text).trim_ascii_start();
        let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
        let (name, value) = text.split_at(end);
        let mut length = value.len();
        for reference in value.split(|&byte| byte == b'&').skip(1) {
            let name = reference.split(|&byte| byte == b';').next().unwrap_or_default();
            length = length.saturating_add(self.lengths.get(name).copied().unwrap_or(0));
        }
        let known = self.lengths.entry(name.to_vec()).or_default();
        *known = length.max(*known);
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_as_long_as_what_they_stand_for() {
        let text = b"<!DOCTYPE r [ <!ENTITY a \"12345\"><!ENTITY b '&a;&a;>'>\n]><r x='&b;'>&a;&amp;&c;</r>";
        for step in [1, 7, text.len()] {
            let mut guard = Guard::default();
            let longer: usize = text.chunks(step).map(|bytes| guard.look(bytes).unwrap()).sum();
            // The lengths with quotation marks and a space.
            let (a, b) = (8, 10 + 2 * 8);
            assert_eq!(longer, a + b + b + a, "{step}");
        }
    }

    #[test]
    fn elements_are_counted_where_they_are_elements() {
        let text = "<?xml version='1.0'?><!-- <a> -- <b> --><a x='<>/' y=\"/\"><b/><c z='1' /><![CDATA[<d><e>]]]><f>text</f\n></a><g>";
        let open: usize = [1, 7, text.len()]
            .into_iter()
            .map(|step| {
                let mut elements = Elements::default();
                let deepest = text.as_bytes().chunks(step).flatten().map(|&byte| elements.next(byte)).max();
                assert_eq!(deepest, Some(2), "{step}");
                elements.open
            })
            .sum();
        assert_eq!(open, 3, "one at each end");
        let mut guard = Guard::default();
        assert!(guard.look("<a>".repeat(MOST_ELEMENTS).as_bytes()).is_ok());
        assert!(matches!(guard.look(b"<a>"), Err(Beyond::Nested)));
    }
}
