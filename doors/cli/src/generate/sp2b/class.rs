//! The nine classes of documents, their names, and the frequencies of their attributes.

use super::syntax::push_number;

/// The target of an unresolved reference.
pub(super) const UNKNOWN_DOCUMENT: &str = "http://localhost/misc/UnknownDocument";

/// A class of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    Journal,
    Proceedings,
    Inproceedings,
    Article,
    Www,
    MastersThesis,
    PhDThesis,
    Incollection,
    Book,
}

/// A property of a document with a value of its own, unlike authors, editors and references.
#[derive(Clone, Copy)]
pub(super) enum Attribute {
    Abstract,
    Booktitle,
    Cdrom,
    Crossref,
    Ee,
    Isbn,
    Issued,
    Journal,
    Month,
    Note,
    Number,
    Pages,
    Publisher,
    Series,
    Title,
    Url,
    Volume,
}

impl Class {
    /// In the order of the header.
    pub(super) const ALL: [Class; 9] = [
        Class::Journal,
        Class::Proceedings,
        Class::Inproceedings,
        Class::Article,
        Class::Www,
        Class::MastersThesis,
        Class::PhDThesis,
        Class::Incollection,
        Class::Book,
    ];

    pub(super) fn iri(self) -> &'static str {
        match self {
            Class::Journal => "http://localhost/vocabulary/bench/Journal",
            Class::Proceedings => "http://localhost/vocabulary/bench/Proceedings",
            Class::Inproceedings => "http://localhost/vocabulary/bench/Inproceedings",
            Class::Article => "http://localhost/vocabulary/bench/Article",
            Class::Www => "http://localhost/vocabulary/bench/Www",
            Class::MastersThesis => "http://localhost/vocabulary/bench/MastersThesis",
            Class::PhDThesis => "http://localhost/vocabulary/bench/PhDThesis",
            Class::Incollection => "http://localhost/vocabulary/bench/Incollection",
            Class::Book => "http://localhost/vocabulary/bench/Book",
        }
    }

    /// Its attributes in the order of writing, each with its share of documents, as counted in the benchmark's own
    /// files. Articles have no year; their journal has one.
    pub(super) fn attributes(self) -> &'static [(Attribute, f64)] {
        use Attribute::{
            Abstract, Booktitle, Cdrom, Crossref, Ee, Isbn, Issued, Journal, Month, Note, Number, Pages, Publisher,
            Series, Title, Url, Volume,
        };
        match self {
            Class::Journal => &[(Number, 0.92), (Title, 1.0), (Volume, 0.997), (Issued, 1.0)],
            Class::Article => &[
                (Abstract, 0.0102),
                (Booktitle, 0.0006),
                (Cdrom, 0.0112),
                (Ee, 0.6820),
                (Month, 0.0062),
                (Note, 0.0297),
                (Pages, 0.9275),
                (Publisher, 0.0005),
                (Title, 1.0),
                (Url, 0.9987),
                (Journal, 1.0),
            ],
            Class::Proceedings => &[
                (Booktitle, 0.94),
                (Ee, 0.0055),
                (Isbn, 0.86),
                (Publisher, 0.972),
                (Series, 0.593),
                (Number, 0.001),
                (Title, 1.0),
                (Url, 0.981),
                (Volume, 0.575),
                (Issued, 1.0),
            ],
            Class::Inproceedings => &[
                (Abstract, 0.0098),
                (Booktitle, 1.0),
                (Cdrom, 0.0161),
                (Ee, 0.6530),
                (Number, 0.0001),
                (Pages, 0.9495),
                (Title, 1.0),
                (Url, 1.0),
                (Issued, 1.0),
                (Crossref, 0.7980),
            ],
            Class::Incollection => &[
                (Booktitle, 1.0),
                (Cdrom, 0.018),
                (Ee, 0.365),
                (Pages, 0.71),
                (Publisher, 0.022),
                (Isbn, 0.002),
                (Title, 1.0),
                (Url, 0.998),
                (Issued, 1.0),
            ],
            Class::Book => &[
                (Booktitle, 0.03),
                (Ee, 0.008),
                (Isbn, 0.91),
                (Publisher, 1.0),
                (Series, 0.494),
                (Title, 1.0),
                (Url, 0.169),
                (Volume, 0.506),
                (Issued, 1.0),
            ],
            Class::PhDThesis => &[
                (Ee, 0.18),
                (Isbn, 0.03),
                (Publisher, 1.0),
                (Series, 0.04),
                (Month, 0.02),
                (Title, 1.0),
                (Url, 0.03),
                (Number, 0.02),
                (Volume, 0.02),
                (Issued, 1.0),
            ],
            Class::MastersThesis => &[(Publisher, 1.0), (Title, 1.0), (Url, 0.385), (Issued, 1.0)],
            Class::Www => &[(Title, 1.0), (Url, 1.0)],
        }
    }

    /// The share of documents with authors.
    pub(super) fn authored(self) -> f64 {
        match self {
            Class::Journal | Class::Proceedings => 0.0,
            Class::Article => 0.9895,
            Class::Inproceedings => 0.9970,
            Class::Incollection => 0.8385,
            Class::Book => 0.9157,
            Class::PhDThesis | Class::MastersThesis => 1.0,
            Class::Www => 0.9973,
        }
    }

    /// The share of documents with editors.
    pub(super) fn edited(self) -> f64 {
        match self {
            Class::Journal => 0.709,
            Class::Proceedings => 0.80,
            Class::Book => 0.11,
            _ => 0.0,
        }
    }

    /// The share of documents with references.
    pub(super) fn cites(self) -> f64 {
        match self {
            Class::Article => 0.0048,
            Class::Inproceedings => 0.0104,
            Class::Incollection => 0.0022,
            _ => 0.0,
        }
    }
}

/// Identifies a document, for its IRI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) class: Class,
    pub(super) year: u32,
    /// The number of the venue in its year, from 1: its own number, or the number of the venue it appears in. 0 for a
    /// document without a venue.
    pub(super) venue: u32,
    /// Its number among the documents of its class and year, from 1. 0 for a venue.
    pub(super) number: u32,
}

impl Document {
    pub(super) fn write_iri(&self, iri: &mut String) {
        let (folder, name) = match self.class {
            Class::Journal | Class::Proceedings => return self.write_venue_iri(iri),
            Class::Article => ("articles/Journal", "Article"),
            Class::Inproceedings => ("inprocs/Proceeding", "Inproceeding"),
            Class::Incollection => ("incolls", "Incollection"),
            Class::Book => ("books", "Book"),
            Class::PhDThesis => ("phds", "PhDThesis"),
            Class::MastersThesis => ("masters", "MastersThesis"),
            Class::Www => ("wwws", "Www"),
        };
        iri.push_str("http://localhost/publications/");
        iri.push_str(folder);
        if self.venue > 0 {
            push_number(self.venue, iri);
        }
        iri.push('/');
        push_number(self.year, iri);
        iri.push('/');
        iri.push_str(name);
        push_number(self.number, iri);
    }

    /// Writes the IRI of its journal or proceedings, or its own if it is one.
    pub(super) fn write_venue_iri(&self, iri: &mut String) {
        let journal = matches!(self.class, Class::Journal | Class::Article);
        iri.push_str("http://localhost/publications/");
        iri.push_str(if journal { "journals/Journal" } else { "procs/Proceeding" });
        push_number(self.venue, iri);
        iri.push('/');
        push_number(self.year, iri);
    }

    /// Writes `Journal 1 (1940)`; returns false and writes nothing if it is not a venue.
    pub(super) fn write_venue_title(&self, text: &mut String) -> bool {
        let name = match self.class {
            Class::Journal => "Journal ",
            Class::Proceedings => "Proceeding ",
            _ => return false,
        };
        text.push_str(name);
        push_number(self.venue, text);
        text.push_str(" (");
        push_number(self.year, text);
        text.push(')');
        true
    }
}
