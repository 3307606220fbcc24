//! Writes triples as N-Triples or Turtle: the same triples in the same order.

use std::io::{self, Write};

/// A syntax of RDF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::generate) enum Syntax {
    /// One triple on each line.
    NTriples,
    /// With prefixes; consecutive triples with the same subject share it.
    Turtle,
}

const PREFIXES: [(&str, &str); 9] = [
    ("rdf", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"),
    ("rdfs", "http://www.w3.org/2000/01/rdf-schema#"),
    ("xsd", "http://www.w3.org/2001/XMLSchema#"),
    ("foaf", "http://xmlns.com/foaf/0.1/"),
    ("dc", "http://purl.org/dc/elements/1.1/"),
    ("dcterms", "http://purl.org/dc/terms/"),
    ("swrc", "http://swrc.ontoware.org/ontology#"),
    ("bench", "http://localhost/vocabulary/bench/"),
    ("person", "http://localhost/persons/"),
];

/// A property.
#[derive(Clone, Copy)]
pub(super) enum Predicate {
    Abstract,
    Booktitle,
    Cdrom,
    Creator,
    Editor,
    Homepage,
    Isbn,
    Issued,
    Journal,
    /// `rdf:_n`.
    Member(u32),
    Month,
    Name,
    Note,
    Number,
    Pages,
    PartOf,
    Publisher,
    References,
    SeeAlso,
    Series,
    SubClassOf,
    Title,
    Type,
    Volume,
}

impl Predicate {
    /// The prefix and the local name.
    fn name(self) -> (&'static str, &'static str) {
        match self {
            Predicate::Abstract => ("bench", "abstract"),
            Predicate::Booktitle => ("bench", "booktitle"),
            Predicate::Cdrom => ("bench", "cdrom"),
            Predicate::Creator => ("dc", "creator"),
            Predicate::Editor => ("swrc", "editor"),
            Predicate::Homepage => ("foaf", "homepage"),
            Predicate::Isbn => ("swrc", "isbn"),
            Predicate::Issued => ("dcterms", "issued"),
            Predicate::Journal => ("swrc", "journal"),
            Predicate::Member(_) => ("rdf", "_"),
            Predicate::Month => ("swrc", "month"),
            Predicate::Name => ("foaf", "name"),
            Predicate::Note => ("swrc", "note"),
            Predicate::Number => ("swrc", "number"),
            Predicate::Pages => ("swrc", "pages"),
            Predicate::PartOf => ("dcterms", "partOf"),
            Predicate::Publisher => ("dc", "publisher"),
            Predicate::References => ("dcterms", "references"),
            Predicate::SeeAlso => ("rdfs", "seeAlso"),
            Predicate::Series => ("swrc", "series"),
            Predicate::SubClassOf => ("rdfs", "subClassOf"),
            Predicate::Title => ("dc", "title"),
            Predicate::Type => ("rdf", "type"),
            Predicate::Volume => ("swrc", "volume"),
        }
    }
}

/// Writes triples about the subject named last.
pub(super) struct Writer<'a> {
    syntax: Syntax,
    out: &'a mut dyn Write,
    /// Text not yet passed on.
    buffer: String,
    /// The subject in the file's syntax.
    subject: String,
    /// Turtle: the subject of the last triple, with its end not yet written.
    last_subject: String,
    triples: u64,
}

/// How much text is passed on at once.
const BUFFER_BYTES: usize = 256 << 10;

impl<'a> Writer<'a> {
    pub(super) fn new(syntax: Syntax, out: &'a mut dyn Write) -> io::Result<Writer<'a>> {
        let mut buffer = String::with_capacity(BUFFER_BYTES + 4096);
        if syntax == Syntax::Turtle {
            for (prefix, iri) in PREFIXES {
                buffer.push_str(&format!("@prefix {prefix}: <{iri}> .\n"));
            }
        }
        Ok(Writer { syntax, out, buffer, subject: String::new(), last_subject: String::new(), triples: 0 })
    }

    /// The number of triples so far.
    pub(super) fn triples(&self) -> u64 {
        self.triples
    }

    /// Ends the file; returns its number of triples.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        if self.syntax == Syntax::Turtle && self.triples > 0 {
            self.buffer.push_str(" .\n");
        }
        self.out.write_all(self.buffer.as_bytes())?;
        self.out.flush()?;
        Ok(self.triples)
    }

    /// Sets the subject of the next triples: an IRI.
    pub(super) fn subject(&mut self, write: impl FnOnce(&mut String)) {
        self.subject.clear();
        self.subject.push('<');
        write(&mut self.subject);
        self.subject.push('>');
    }

    /// Sets the subject of the next triples: a blank node.
    pub(super) fn blank_subject(&mut self, write_label: impl FnOnce(&mut String)) {
        self.subject.clear();
        self.subject.push_str("_:");
        write_label(&mut self.subject);
    }

    pub(super) fn text(&mut self, predicate: Predicate, write: impl FnOnce(&mut String)) -> io::Result<()> {
        self.begin(predicate);
        // No generated text needs an escape.
        self.buffer.push('"');
        write(&mut self.buffer);
        self.buffer.push('"');
        self.datatype("xsd:string", "http://www.w3.org/2001/XMLSchema#string");
        self.end()
    }

    pub(super) fn integer(&mut self, predicate: Predicate, number: u32) -> io::Result<()> {
        self.begin(predicate);
        self.buffer.push('"');
        push_number(number, &mut self.buffer);
        self.buffer.push('"');
        self.datatype("xsd:integer", "http://www.w3.org/2001/XMLSchema#integer");
        self.end()
    }

    pub(super) fn iri(&mut self, predicate: Predicate, iri: &str) -> io::Result<()> {
        self.iri_with(predicate, |text| text.push_str(iri))
    }

    pub(super) fn iri_with(&mut self, predicate: Predicate, write: impl FnOnce(&mut String)) -> io::Result<()> {
        self.begin(predicate);
        self.buffer.push('<');
        write(&mut self.buffer);
        self.buffer.push('>');
        self.end()
    }

    pub(super) fn blank(&mut self, predicate: Predicate, write_label: impl FnOnce(&mut String)) -> io::Result<()> {
        self.begin(predicate);
        self.buffer.push_str("_:");
        write_label(&mut self.buffer);
        self.end()
    }

    /// Writes subject and predicate.
    fn begin(&mut self, predicate: Predicate) {
        let (prefix, name) = predicate.name();
        match self.syntax {
            Syntax::NTriples => {
                self.buffer.push_str(&self.subject);
                self.buffer.push_str(" <");
                let namespace =
                    PREFIXES.iter().find(|(other, _)| *other == prefix).expect("every prefix is declared").1;
                self.buffer.push_str(namespace);
            }
            Syntax::Turtle => {
                if self.subject == self.last_subject {
                    self.buffer.push_str(" ;\n    ");
                } else {
                    self.buffer.push_str(if self.triples > 0 { " .\n" } else { "" });
                    self.buffer.push_str(&self.subject);
                    self.buffer.push(' ');
                    self.last_subject.clone_from(&self.subject);
                }
                self.buffer.push_str(prefix);
                self.buffer.push(':');
            }
        }
        self.buffer.push_str(name);
        if let Predicate::Member(position) = predicate {
            push_number(position, &mut self.buffer);
        }
        self.buffer.push_str(if self.syntax == Syntax::NTriples { "> " } else { " " });
    }

    fn datatype(&mut self, short: &str, iri: &str) {
        self.buffer.push_str("^^");
        match self.syntax {
            Syntax::Turtle => self.buffer.push_str(short),
            Syntax::NTriples => {
                self.buffer.push('<');
                self.buffer.push_str(iri);
                self.buffer.push('>');
            }
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.triples += 1;
        if self.syntax == Syntax::NTriples {
            self.buffer.push_str(" .\n");
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.out.write_all(self.buffer.as_bytes())?;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// Appends a number in decimal digits, without formatting, because nearly every triple has one.
pub(super) fn push_number(number: u32, text: &mut String) {
    let (mut digits, mut start, mut left) = ([0_u8; 10], 10, number);
    loop {
        start -= 1;
        digits[start] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    text.extend(digits[start..].iter().map(|&digit| digit as char));
}
