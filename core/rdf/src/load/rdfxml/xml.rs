//! XML 1.0 (fifth edition) with namespaces, as far as a non-validating processor must understand it. The output is
//! elements, characters, comments and instructions; entities, CDATA sections, line ends and encodings are resolved
//! here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::mem::take;

use std::sync::Arc;

/// The deepest nesting of elements.
pub(super) const MOST_ELEMENTS: usize = 2048;

/// The most entities within each other.
const MOST_ENTITIES: usize = 32;

/// A part of a document.
pub(super) enum Event {
    Start(Start),
    End,
    Text(String),
    Comment(String),
    Instruction(String, String),
    Eof,
}

/// The beginning of an element, with its names resolved.
pub(super) struct Start {
    pub(super) name: Name,
    pub(super) attributes: Vec<(Name, String)>,
}

/// A name: its namespace, which is empty without one, the prefix as written, and the local part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Name {
    pub(super) space: Arc<str>,
    pub(super) prefix: Arc<str>,
    pub(super) local: Box<str>,
}

/// Why a document is not read further.
pub(in crate::load) enum Wrong {
    Text(String),
    Io(io::Error),
    /// Entities stand for more bytes than may be.
    TooLong,
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Wrong {
        Wrong::Io(error)
    }
}

type Result<T> = std::result::Result<T, Wrong>;

pub(super) fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(Wrong::Text(what.into()))
}

pub(super) const XML: &str = "http://www.w3.org/XML/1998/namespace";
const XMLNS: &str = "http://www.w3.org/2000/xmlns/";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Latin1,
    Utf16 { is_big: bool },
}

/// Reads a document.
pub(super) struct Reader<R> {
    source: R,
    encoding: Option<Encoding>,
    /// Bytes that are not decoded yet.
    raw: Vec<u8>,
    /// The bytes of one read.
    piece: Box<[u8]>,
    is_end: bool,
    /// Text with line ends that are line feeds, and how far it was read.
    text: String,
    at: usize,
    after_return: bool,
    /// Line feeds before `text`, and characters behind the last of them.
    lines: u64,
    column: u64,
    /// The names of the elements that are open as they are written, and how many namespaces each declares.
    open: Vec<(Box<str>, usize)>,
    /// The namespaces in scope, the latest last, and what stood in the place of each.
    spaces: BTreeMap<Arc<str>, Arc<str>>,
    shadowed: Vec<(Arc<str>, Option<Arc<str>>)>,
    entities: BTreeMap<Box<str>, Arc<str>>,
    /// An element without content was begun: its end comes next.
    ends: bool,
    has_root: bool,
    has_doctype: bool,
    /// Bytes that entities stand for, since they were last asked for.
    longer: usize,
    most_longer: usize,
}

fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
}

fn is_name_start(character: char) -> bool {
    matches!(character, ':' | '_' | 'A'..='Z' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}'
        | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}' | '\u{200D}'
        | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}'
        | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
}

fn is_name_character(character: char) -> bool {
    is_name_start(character)
        || matches!(character, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}' | '\u{2040}')
}

/// Namespaces in XML, §3: a name without a colon.
pub(super) fn is_nc_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(is_name_start) && characters.all(is_name_character) && !text.contains(':')
}

fn is_character(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// Whether each character with this byte stands in the text as it is. Lead bytes of the last characters of 16 bits are
/// not among them.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b' '..) && byte != 0xEF
}

fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

impl<R: Read> Reader<R> {
    /// Entities may stand for so many bytes.
    pub(super) fn new(source: R) -> Reader<R> {
        let mut spaces: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
        spaces.insert("xml".into(), XML.into());
        Reader {
            source,
            encoding: None,
            raw: Vec::new(),
            piece: vec![0; 8 << 10].into(),
            is_end: false,
            text: String::new(),
            at: 0,
            after_return: false,
            lines: 0,
            column: 0,
            open: Vec::new(),
            spaces,
            shadowed: Vec::new(),
            entities: BTreeMap::new(),
            ends: false,
            has_root: false,
            has_doctype: false,
            longer: 0,
            most_longer: usize::MAX,
        }
    }

    pub(super) fn set_most_longer(&mut self, bytes: usize) {
        self.most_longer = bytes;
    }

    /// A statement has ended: what entities stood for in it is forgotten.
    pub(super) fn forget_longer(&mut self) {
        self.longer = 0;
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// How many line feeds are before the place at hand, and how many characters are between it and the last one.
    pub(super) fn place(&self) -> (u64, u64) {
        let before = &self.text[..self.at];
        let lines = memchr::memchr_iter(b'\n', before.as_bytes()).count() as u64;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u64;
        (self.lines + lines, if lines == 0 { self.column + column } else { column })
    }

    /// Reads more text; false at the end.
    fn more(&mut self) -> Result<bool> {
        if self.at > 1 << 16 {
            (self.lines, self.column) = self.place();
            self.text.drain(..self.at);
            self.at = 0;
        }
        let before = self.text.len();
        while self.text.len() == before {
            if self.is_end {
                return Ok(false);
            }
            let read = match self.source.read(&mut self.piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            self.is_end = read == 0;
            self.raw.extend_from_slice(&self.piece[..read]);
            if self.encoding.is_none() && (self.raw.len() >= 4 || self.is_end) {
                self.detect();
            }
            self.decode()?;
        }
        Ok(true)
    }

    /// XML, appendix F: the encoding by the first bytes. A declaration may name another that agrees with them.
    fn detect(&mut self) {
        let (encoding, skip) = match &self.raw[..] {
            [0xEF, 0xBB, 0xBF, ..] => (Encoding::Utf8, 3),
            [0xFE, 0xFF, ..] => (Encoding::Utf16 { is_big: true }, 2),
            [0xFF, 0xFE, ..] => (Encoding::Utf16 { is_big: false }, 2),
            [0, b'<', ..] => (Encoding::Utf16 { is_big: true }, 0),
            [b'<', 0, ..] => (Encoding::Utf16 { is_big: false }, 0),
            // The declaration is ASCII in all encodings that are read without such a mark.
            _ => (Encoding::Utf8, 0),
        };
        self.encoding = Some(encoding);
        self.raw.drain(..skip);
        let head = &self.raw[..self.raw.len().min(200)];
        if encoding == Encoding::Utf8
            && skip == 0
            && head.starts_with(b"<?xml")
            && let Some(end) = memchr::memchr(b'>', head)
            && let Some(at) = memchr::memmem::find(&head[..end], b"encoding")
        {
            let name = head[at..end].split(|byte| matches!(byte, b'"' | b'\'')).nth(1).unwrap_or_default();
            if name.eq_ignore_ascii_case(b"iso-8859-1") {
                self.encoding = Some(Encoding::Latin1);
            }
        }
    }

    fn decode(&mut self) -> Result<()> {
        let mut decoded = String::new();
        let used = match self.encoding {
            None => return Ok(()),
            Some(Encoding::Utf8) => {
                let mut raw = take(&mut self.raw);
                let text = match str::from_utf8(&raw) {
                    Ok(text) => text,
                    Err(error) if error.error_len().is_none() && !self.is_end => {
                        str::from_utf8(&raw[..error.valid_up_to()]).expect("it is valid up to there")
                    }
                    Err(_) => return wrong("this is no UTF-8"),
                };
                self.append(text)?;
                let used = text.len();
                raw.drain(..used);
                self.raw = raw;
                return Ok(());
            }
            Some(Encoding::Latin1) => {
                decoded.extend(self.raw.iter().map(|&byte| char::from(byte)));
                self.raw.len()
            }
            Some(Encoding::Utf16 { is_big }) => {
                let unit = |pair: &[u8]| match is_big {
                    true => u16::from_be_bytes([pair[0], pair[1]]),
                    false => u16::from_le_bytes([pair[0], pair[1]]),
                };
                let mut units: Vec<u16> = self.raw.chunks_exact(2).map(unit).collect();
                // Half of a pair waits for the other.
                if !self.is_end && units.last().is_some_and(|last| (0xD800..0xDC00).contains(last)) {
                    units.pop();
                }
                for character in char::decode_utf16(units.iter().copied()) {
                    match character {
                        Ok(character) => decoded.push(character),
                        Err(_) => return wrong("this is no UTF-16"),
                    }
                }
                if self.is_end && self.raw.len() % 2 == 1 {
                    return wrong("this is no UTF-16");
                }
                2 * units.len()
            }
        };
        self.raw.drain(..used);
        self.append(&decoded)
    }

    /// Puts characters behind the text. XML, §2.11: line ends become line feeds.
    fn append(&mut self, decoded: &str) -> Result<()> {
        let mut rest = decoded;
        while let Some(first) = rest.chars().next() {
            let is_second = take(&mut self.after_return) && first == '\n';
            let count = rest.bytes().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
            if count > 0 {
                self.text.push_str(&rest[usize::from(is_second)..count]);
                rest = &rest[count..];
                continue;
            }
            match first {
                '\r' => {
                    self.after_return = true;
                    self.text.push('\n');
                }
                other if is_character(other) => self.text.push(other),
                other => return wrong(format!("the character U+{:04X} is none of XML", u32::from(other))),
            }
            rest = &rest[first.len_utf8()..];
        }
        Ok(())
    }

    /// Whether the text goes on so.
    fn goes_on(&mut self, with: &str) -> Result<bool> {
        while self.rest().len() < with.len() {
            if !self.more()? {
                break;
            }
        }
        Ok(self.rest().starts_with(with))
    }

    /// The text up to a mark, which is taken, too.
    fn up_to(&mut self, mark: &str, what: &str) -> Result<String> {
        let mut seen = 0;
        loop {
            if let Some(at) = self.rest()[seen..].find(mark) {
                let found = self.rest()[..seen + at].to_owned();
                self.at += found.len() + mark.len();
                return Ok(found);
            }
            seen = self.rest().len().saturating_sub(mark.len());
            while !self.rest().is_char_boundary(seen) {
                seen -= 1;
            }
            if !self.more()? {
                self.at = self.text.len();
                return wrong(format!("the text ends within {what}"));
            }
        }
    }

    /// The next part.
    pub(super) fn next(&mut self) -> Result<Event> {
        if take(&mut self.ends) {
            self.close();
            return Ok(Event::End);
        }
        loop {
            if self.rest().is_empty() && !self.more()? {
                return match (self.open.last(), self.has_root) {
                    (Some((name, _)), _) => {
                        wrong(format!("the text ends before the end of the element `{}`", short(name)))
                    }
                    (None, true) => Ok(Event::Eof),
                    (None, false) => wrong("there is no element"),
                };
            }
            if self.rest().starts_with('<') {
                if let Some(event) = self.markup()? {
                    return Ok(event);
                }
                continue;
            }
            let end = self.rest().find('<').unwrap_or(self.rest().len());
            // A reference that is cut is completed; so is `]]>`.
            let mut text = self.rest()[..end].to_owned();
            self.at += end;
            while !self.rest().starts_with('<') && (is_cut(&text) || text.ends_with(']')) {
                if self.rest().is_empty() && !self.more()? {
                    break;
                }
                let end = self.rest().find('<').unwrap_or(self.rest().len());
                text.push_str(&self.text[self.at..self.at + end]);
                self.at += end;
            }
            if self.open.is_empty() {
                if is_blank(&text) {
                    continue;
                }
                return wrong("there is text outside of the element");
            }
            if text.contains("]]>") {
                return wrong("`]]>` stands in text");
            }
            let text = self.characters(&text)?;
            return Ok(Event::Text(text));
        }
    }

    fn markup(&mut self) -> Result<Option<Event>> {
        if self.goes_on("<!--")? {
            self.at += 4;
            let comment = self.up_to("--", "a comment")?;
            if !self.goes_on(">")? {
                return wrong("`--` stands in a comment");
            }
            self.at += 1;
            return Ok(Some(Event::Comment(comment)));
        }
        if self.goes_on("<?")? {
            self.at += 2;
            let whole = self.up_to("?>", "an instruction")?;
            let (target, value) = whole.split_once([' ', '\t', '\n']).unwrap_or((&whole, ""));
            if target == "xml" {
                return self.declaration(value).map(|()| None);
            }
            return Ok(Some(Event::Instruction(target.to_owned(), value.trim_start().to_owned())));
        }
        if self.goes_on("<![CDATA[")? {
            self.at += 9;
            let text = self.up_to("]]>", "a CDATA section")?;
            return match self.open.is_empty() {
                true => wrong("there is text outside of the element"),
                false => Ok(Some(Event::Text(text))),
            };
        }
        if self.goes_on("<!DOCTYPE")? {
            if take(&mut self.has_doctype) || self.has_root {
                return wrong("a document type stands where none may");
            }
            self.has_doctype = true;
            self.at += 9;
            return self.doctype().map(|()| None);
        }
        if self.goes_on("</")? {
            self.at += 2;
            let name = self.up_to(">", "a tag")?;
            let name = name.trim_end();
            return match self.open.last() {
                Some((open, _)) if **open == *name => {
                    self.close();
                    Ok(Some(Event::End))
                }
                Some((open, _)) => wrong(format!("the element `{}` ends with `{}`", short(open), short(name))),
                None => wrong(format!("`{}` ends without a beginning", short(name))),
            };
        }
        self.at += 1;
        self.start().map(|start| Some(Event::Start(start)))
    }

    fn close(&mut self) {
        let (_, declared) = self.open.pop().expect("an element is open");
        for _ in 0..declared {
            let (prefix, before) = self.shadowed.pop().expect("it was declared");
            match before {
                Some(before) => self.spaces.insert(prefix, before),
                None => self.spaces.remove(&prefix),
            };
        }
    }

    /// The declaration of XML: its encoding must agree with what is read.
    fn declaration(&mut self, value: &str) -> Result<()> {
        let Some((_, after)) = value.split_once("encoding") else { return Ok(()) };
        let name = after.split(['"', '\'']).nth(1).unwrap_or_default().to_ascii_lowercase();
        let is_fine = match self.encoding {
            Some(Encoding::Utf16 { .. }) => name.starts_with("utf-16") || name.starts_with("iso-10646-ucs-2"),
            Some(Encoding::Latin1) => name == "iso-8859-1",
            _ => matches!(&*name, "utf-8" | "utf8" | "us-ascii" | "ascii"),
        };
        match is_fine {
            true => Ok(()),
            false => wrong(format!("the encoding `{}` is not read: UTF-8 and UTF-16 are", short(&name))),
        }
    }

    /// A name as it is written.
    fn name(&mut self, what: &str) -> Result<String> {
        loop {
            let end = self.rest().find(|character| !is_name_character(character));
            if let Some(end) = end {
                let name = self.rest()[..end].to_owned();
                if !name.starts_with(is_name_start) {
                    return wrong(format!("{what} is expected"));
                }
                self.at += end;
                return Ok(name);
            }
            if !self.more()? {
                return wrong(format!("the text ends where {what} is expected"));
            }
        }
    }

    /// Takes white space; whether there was any.
    fn blanks(&mut self) -> Result<bool> {
        let mut any = false;
        loop {
            let count = self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r']).len();
            any |= count > 0;
            self.at += count;
            if !self.rest().is_empty() || !self.more()? {
                return Ok(any);
            }
        }
    }

    fn start(&mut self) -> Result<Start> {
        if self.has_root && self.open.is_empty() {
            return wrong("there is a second element beside the first");
        }
        let written = self.name("the name of an element")?;
        let (mut attributes, mut known, mut declared) = (Vec::new(), BTreeSet::new(), 0);
        let is_empty = loop {
            let is_apart = self.blanks()?;
            if self.goes_on("/>")? {
                self.at += 2;
                break true;
            }
            if self.goes_on(">")? {
                self.at += 1;
                break false;
            }
            if !is_apart {
                return wrong("white space, `>` or `/>` is expected in a tag");
            }
            let name = self.name("an attribute, `>` or `/>`")?;
            self.blanks()?;
            if !self.goes_on("=")? {
                return wrong(format!("`=` is expected behind the attribute `{}`", short(&name)));
            }
            self.at += 1;
            self.blanks()?;
            let mark = if self.goes_on("\"")? { "\"" } else { "'" };
            if !self.goes_on(mark)? {
                return wrong(format!("the value of the attribute `{}` must stand in quotation marks", short(&name)));
            }
            self.at += 1;
            let value = self.up_to(mark, "the value of an attribute")?;
            let value = self.attribute(&value)?;
            if !known.insert(name.clone()) {
                return wrong(format!("the attribute `{}` is there twice", short(&name)));
            }
            match name.strip_prefix("xmlns") {
                Some("") => declared += self.declare("", &value)?,
                Some(prefix) if prefix.starts_with(':') => declared += self.declare(&prefix[1..], &value)?,
                _ => attributes.push((name, value)),
            }
        };
        if self.open.len() == MOST_ELEMENTS {
            return wrong(format!("elements are nested more than {MOST_ELEMENTS} levels deep"));
        }
        self.has_root = true;
        self.ends = is_empty;
        self.open.push((written.clone().into(), declared));
        let name = self.resolved(&written, true)?;
        let mut resolved = Vec::with_capacity(attributes.len());
        let mut unique = BTreeSet::new();
        for (name, value) in attributes {
            let name = self.resolved(&name, false)?;
            if !name.space.is_empty() && !unique.insert((Arc::clone(&name.space), name.local.clone())) {
                return wrong(format!("the attribute `{}` is there twice", short(&name.local)));
            }
            resolved.push((name, value));
        }
        Ok(Start { name, attributes: resolved })
    }

    fn declare(&mut self, prefix: &str, space: &str) -> Result<usize> {
        let is_fine = match prefix {
            "xml" => space == XML,
            "xmlns" => false,
            _ => space != XML && space != XMLNS && (prefix.is_empty() || !space.is_empty() && is_nc_name(prefix)),
        };
        if !is_fine {
            return wrong(format!("the namespace of the prefix `{}` can't be declared so", short(prefix)));
        }
        let before = self.spaces.insert(prefix.into(), space.into());
        self.shadowed.push((prefix.into(), before));
        Ok(1)
    }

    fn resolved(&self, written: &str, is_element: bool) -> Result<Name> {
        let (prefix, local) = written.split_once(':').unwrap_or(("", written));
        if !is_nc_name(local) || written.contains(':') && !is_nc_name(prefix) {
            return wrong(format!("`{}` is no name", short(written)));
        }
        let found = self.spaces.get_key_value(prefix).filter(|_| is_element || !prefix.is_empty());
        match found {
            Some((prefix, space)) => {
                Ok(Name { space: Arc::clone(space), prefix: Arc::clone(prefix), local: local.into() })
            }
            None if prefix.is_empty() => Ok(Name { space: "".into(), prefix: "".into(), local: local.into() }),
            None => wrong(format!("the prefix `{}` is not declared", short(prefix))),
        }
    }

    /// A document type: entities that it declares are kept, other declarations are passed over. External ones are not
    /// read.
    fn doctype(&mut self) -> Result<()> {
        loop {
            // In front of the declarations.
            self.blanks()?;
            let Some(next) = self.rest().chars().next() else { return wrong("the text ends within the document type") };
            self.at += next.len_utf8();
            match next {
                '>' => return Ok(()),
                '[' => break,
                '"' => drop(self.up_to("\"", "the document type")?),
                '\'' => drop(self.up_to("'", "the document type")?),
                _ => {}
            }
        }
        loop {
            self.blanks()?;
            if self.goes_on("]")? {
                self.at += 1;
                self.blanks()?;
                return match self.goes_on(">")? {
                    true => {
                        self.at += 1;
                        Ok(())
                    }
                    false => wrong("`>` is expected at the end of the document type"),
                };
            }
            if self.goes_on("<!--")? {
                self.at += 4;
                self.up_to("-->", "a comment")?;
            } else if self.goes_on("<?")? {
                self.up_to("?>", "an instruction")?;
            } else if self.goes_on("%")? {
                self.up_to(";", "a reference")?;
            } else if self.goes_on("<!")? {
                self.at += 2;
                let parts = self.declared()?;
                if let [Part::Word(kind), Part::Word(name), Part::Quoted(value)] = &parts[..]
                    && kind == "ENTITY"
                {
                    let value = self.replaced_characters(value)?;
                    // The first one holds.
                    self.entities.entry(name.as_str().into()).or_insert_with(|| value.into());
                }
            } else {
                return wrong("a declaration is expected in the document type");
            }
        }
    }

    /// The words and texts of a declaration.
    fn declared(&mut self) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        loop {
            self.blanks()?;
            let Some(next) = self.rest().chars().next() else { return wrong("the text ends within a declaration") };
            match next {
                '>' => {
                    self.at += 1;
                    return Ok(parts);
                }
                '"' | '\'' => {
                    self.at += 1;
                    let mark = if next == '"' { "\"" } else { "'" };
                    parts.push(Part::Quoted(self.up_to(mark, "a declaration")?));
                }
                other if is_name_start(other) => parts.push(Part::Word(self.name("a word")?)),
                other => {
                    self.at += other.len_utf8();
                    parts.push(Part::Other);
                }
            }
        }
    }

    /// The text of an entity: references to characters are resolved, those to entities when it is used. XML, §4.5.
    fn replaced_characters(&self, value: &str) -> Result<String> {
        let mut replaced = String::new();
        let mut rest = value;
        while let Some(at) = rest.find('&') {
            replaced.push_str(&rest[..at]);
            let (reference, after) = rest[at + 1..].split_once(';').unwrap_or((&rest[at + 1..], ""));
            match reference.strip_prefix('#') {
                Some(number) => replaced.push(character_of(number)?),
                None => replaced.extend(["&", reference, ";"]),
            }
            rest = after;
        }
        replaced.push_str(rest);
        Ok(replaced)
    }

    /// Text with its references replaced.
    fn characters(&mut self, text: &str) -> Result<String> {
        if !text.contains('&') {
            return Ok(text.to_owned());
        }
        let mut replaced = String::with_capacity(text.len());
        self.replace(text, &mut replaced, 0, false)?;
        Ok(replaced)
    }

    /// The value of an attribute: white space becomes blanks, references are replaced. XML, §3.3.3.
    fn attribute(&mut self, value: &str) -> Result<String> {
        let mut replaced = String::with_capacity(value.len());
        self.replace(value, &mut replaced, 0, true)?;
        Ok(replaced)
    }

    fn replace(&mut self, text: &str, into: &mut String, depth: usize, is_attribute: bool) -> Result<()> {
        if depth > MOST_ENTITIES {
            return wrong(format!(
                "entities are within each other more than {MOST_ENTITIES} levels deep, or in a circle"
            ));
        }
        if text.contains('<') {
            return wrong(match is_attribute {
                true => "`<` stands in the value of an attribute",
                false => "an entity with elements in it is not read",
            });
        }
        let mut rest = text;
        while let Some(at) = rest.find('&') {
            push(&rest[..at], into, is_attribute);
            let Some((reference, after)) = rest[at + 1..].split_once(';') else {
                return wrong("`&` stands without a `;`");
            };
            rest = after;
            match reference {
                "amp" => into.push('&'),
                "lt" => into.push('<'),
                "gt" => into.push('>'),
                "quot" => into.push('"'),
                "apos" => into.push('\''),
                _ => match reference.strip_prefix('#') {
                    Some(number) => into.push(character_of(number)?),
                    None => {
                        let Some(value) = self.entities.get(reference).cloned() else {
                            return wrong(format!("the entity `{}` is unknown", short(reference)));
                        };
                        self.longer = self.longer.saturating_add(value.len().max(1));
                        if self.longer > self.most_longer {
                            return Err(Wrong::TooLong);
                        }
                        self.replace(&value, into, depth + 1, is_attribute)?;
                    }
                },
            }
        }
        push(rest, into, is_attribute);
        Ok(())
    }
}

/// Whether a text ends within a reference, none of which is long.
fn is_cut(text: &str) -> bool {
    const LONGEST: usize = 256;
    let last = text.bytes().rev().take(LONGEST).find(|byte| matches!(byte, b'&' | b';'));
    last == Some(b'&')
}

fn push(text: &str, into: &mut String, is_attribute: bool) {
    match is_attribute {
        true => into.extend(
            text.chars().map(|character| if matches!(character, '\n' | '\t' | '\r') { ' ' } else { character }),
        ),
        false => into.push_str(text),
    }
}

/// The character that a number stands for.
fn character_of(number: &str) -> Result<char> {
    let (digits, radix) = match number.strip_prefix('x') {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    let character = u32::from_str_radix(digits, radix).ok().filter(|_| is_number).and_then(char::from_u32);
    match character.filter(|&character| is_character(character)) {
        Some(character) => Ok(character),
        None => wrong(format!("`&#{};` is no character of XML", short(number))),
    }
}

/// A part of a declaration.
enum Part {
    Word(String),
    Quoted(String),
    Other,
}
