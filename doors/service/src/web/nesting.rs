//! Watches an answer in JSON or XML on its way to its parser, which comes from another crate. That parser takes stack
//! for each level of triple terms within each other, and time in the square of the number of variables and of an
//! element's attributes. So all three have a limit, and an answer over a limit ends before the parser gets that part of
//! it. An answer that breaks off is told, too.

use std::io::{self, Read};
use vicus_rdf::triple::MOST_NESTED;

/// The most levels of an answer: four are around a term, each triple term adds two, and a term without parts is one.
const MOST_LEVELS: usize = 4 + 2 * MOST_NESTED + 1;

/// How many variables an answer may name.
const MOST_VARIABLES: usize = 4096;

/// How many attributes an element may have. The format knows four.
const MOST_ATTRIBUTES: usize = 256;

/// An answer within the limits.
pub(super) struct Watched<R> {
    inner: R,
    watch: Watch,
}

impl<R: Read> Watched<R> {
    pub(super) fn json(inner: R) -> Watched<R> {
        Watched { inner, watch: Watch::Json(Json::default()) }
    }

    pub(super) fn xml(inner: R) -> Watched<R> {
        Watched { inner, watch: Watch::Xml(Xml::default()) }
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let looked = buffer[..count].iter().try_for_each(|&byte| match &mut self.watch {
            Watch::Json(json) => json.next(byte),
            Watch::Xml(xml) => xml.next(byte),
        });
        looked.map_err(io::Error::other)?;
        let left = match &self.watch {
            Watch::Json(json) => json.open.len(),
            Watch::Xml(xml) => xml.open,
        };
        // The parser takes what is cut off between two solutions for all of them.
        if count == 0 && !buffer.is_empty() && left > 0 {
            return Err(io::Error::other("it breaks off"));
        }
        Ok(count)
    }
}

/// The place of the last byte in the answer.
enum Watch {
    Json(Json),
    Xml(Xml),
}

/// The error of a term with more levels of triples.
pub(super) fn too_deep() -> String {
    format!("triples are within each other more than {MOST_NESTED} levels deep")
}

fn too_many(what: &str, most: usize) -> String {
    format!("it has more than {most} {what}")
}

#[derive(Default)]
struct Json {
    /// For each open level, whether it is a list.
    open: Vec<bool>,
    in_string: bool,
    is_escaped: bool,
    /// Strings in lists: they are variables and links.
    listed: usize,
}

impl Json {
    fn next(&mut self, byte: u8) -> Result<(), String> {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.in_string => self.is_escaped = true,
            b'"' => {
                self.in_string = !self.in_string;
                self.listed += usize::from(!self.in_string && self.open.last() == Some(&true));
            }
            b'{' | b'[' if !self.in_string => self.open.push(byte == b'['),
            b'}' | b']' if !self.in_string => {
                self.open.pop();
            }
            _ => return Ok(()),
        }
        match () {
            () if self.open.len() > MOST_LEVELS => Err(too_deep()),
            () if self.listed > MOST_VARIABLES => Err(too_many("variables", MOST_VARIABLES)),
            () => Ok(()),
        }
    }
}

#[derive(Default)]
struct Xml {
    /// Open elements.
    open: usize,
    /// Elements opened on the second level: the head is the first.
    parts: usize,
    /// Elements opened in the head: variables and links.
    in_head: usize,
    place: Place,
}

/// The part of XML around the last byte.
#[derive(Clone, Copy, Default)]
enum Place {
    #[default]
    Text,
    /// Behind `<`.
    Opening,
    /// In an opening tag: its open quotation mark, whether the last byte was a slash, and its number of attributes so
    /// far.
    Start(Option<u8>, bool, usize),
    /// In a closing tag.
    End,
    /// Behind `<!`.
    Declaration,
    /// In a comment, behind this number of hyphens.
    Comment(usize),
    /// In a section of characters, behind this number of brackets.
    Characters(usize),
    /// In a processing instruction, or a declaration of another kind.
    Other,
}

impl Xml {
    fn next(&mut self, byte: u8) -> Result<(), String> {
        self.place = match (self.place, byte) {
            (Place::Text, b'<') => Place::Opening,
            (Place::Text, _) => return Ok(()),
            (Place::Opening, b'/') => Place::End,
            (Place::Opening, b'!') => Place::Declaration,
            (Place::Opening, b'?') => Place::Other,
            (Place::Opening, _) => {
                self.open += 1;
                self.parts += usize::from(self.open == 2);
                self.in_head += usize::from(self.open == 3 && self.parts == 1);
                Place::Start(None, false, 0)
            }
            (Place::Start(None, is_empty, _), b'>') => {
                self.open -= usize::from(is_empty);
                Place::Text
            }
            (Place::Start(None, _, count), b'"' | b'\'') => Place::Start(Some(byte), false, count),
            (Place::Start(None, _, count), _) => Place::Start(None, byte == b'/', count + usize::from(byte == b'=')),
            (Place::Start(Some(mark), _, count), _) => Place::Start((byte != mark).then_some(mark), false, count),
            (Place::End, b'>') => {
                self.open = self.open.saturating_sub(1);
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
        match self.place {
            _ if self.open > MOST_LEVELS => Err(too_deep()),
            _ if self.in_head > MOST_VARIABLES => Err(too_many("variables", MOST_VARIABLES)),
            Place::Start(_, _, count) if count > MOST_ATTRIBUTES => {
                Err(too_many("attributes on an element", MOST_ATTRIBUTES))
            }
            _ => Ok(()),
        }
    }
}
