//! Bibliographies by the description of SP2Bench, year after year from 1940 on.
//!
//! Schmidt, Hornung, Lausen and Pinkel, "SP2Bench: A SPARQL Performance Benchmark", ICDE 2009, §3: the numbers of
//! documents of each class in a year, of authors' papers, and of citations. We differ: where the paper leaves a choice
//! open, we match the sizes of the queries' results published by the benchmark's authors, and the words are our own.
//!
//! `numbers` has the formulas, `class` the attributes, `year` the documents of a year and their order, `people` authors
//! and editors, `citations` references, `words` names and texts, `syntax` the file formats. This file combines them.

mod citations;
mod class;
mod numbers;
mod people;
mod syntax;
mod words;
mod year;

pub(super) use syntax::Syntax;

use citations::Citations;
use class::{Attribute, Class, Document};
use numbers::Chance;
use people::{People, Person};
use std::io::{self, Write};
use syntax::{Predicate, Writer};
use words::Words;
use year::Year;

/// The first year with data.
const FIRST_YEAR: u32 = 1940;
/// The last year with papers and proceedings by Paul Erdős.
const ERDOES_LAST_YEAR: u32 = 1996;
/// The number of his papers in a year.
const ERDOES_PAPERS: usize = 10;
/// The number of proceedings he edits in a year, if there are as many.
const ERDOES_PROCEEDINGS: usize = 2;

/// Writes documents until there are this many triples, and returns the exact number. `progress` is called now and then
/// with the number so far. Memory: a few bytes for each document and author of two years, not of all.
pub(super) fn write(
    seed: u64,
    triples: u64,
    syntax: Syntax,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> io::Result<u64> {
    let mut library = Library {
        out: Writer::new(syntax, out)?,
        chance: Chance::new(seed),
        words: Words::new(),
        people: People::new(seed),
        citations: Citations::default(),
        erdoes_papers: 0,
        erdoes_proceedings: 0,
        authors: Vec::new(),
    };
    library.header()?;
    'years: for number in FIRST_YEAR.. {
        let year = Year::plan(number, &mut library.chance);
        library.people.begin_year(number, year.papers(), year.author_slots(), &mut library.chance);
        (library.erdoes_papers, library.erdoes_proceedings) =
            if number <= ERDOES_LAST_YEAR { (ERDOES_PAPERS, ERDOES_PROCEEDINGS) } else { (0, 0) };
        for (document, authors) in year.documents() {
            if library.out.triples() >= triples {
                break 'years;
            }
            library.document(document, authors)?;
            progress(library.out.triples());
        }
    }
    library.out.finish()
}

/// The state behind later documents.
struct Library<'a> {
    out: Writer<'a>,
    chance: Chance,
    words: Words,
    people: People,
    citations: Citations,
    /// How many papers Erdős still has to write this year.
    erdoes_papers: usize,
    /// How many proceedings he still has to edit this year.
    erdoes_proceedings: usize,
    /// The authors of the current document; reused to save allocations.
    authors: Vec<Person>,
}

impl Library<'_> {
    fn header(&mut self) -> io::Result<()> {
        for class in Class::ALL {
            self.out.subject(|iri| iri.push_str(class.iri()));
            self.out.iri(Predicate::SubClassOf, "http://xmlns.com/foaf/0.1/Document")?;
        }
        self.declare(Person::ERDOES)?;
        self.out.subject(|iri| iri.push_str(class::UNKNOWN_DOCUMENT));
        self.out.iri(Predicate::Type, "http://xmlns.com/foaf/0.1/Document")
    }

    fn document(&mut self, document: Document, authors: u8) -> io::Result<()> {
        let class = document.class;
        self.out.subject(|iri| document.write_iri(iri));
        self.out.iri(Predicate::Type, class.iri())?;
        for &(attribute, probability) in class.attributes() {
            if self.chance.happens(probability) {
                self.attribute(attribute, &document)?;
            }
        }
        self.creators(&document, authors)?;
        self.editors(&document)?;
        let cites = self.chance.happens(class.cites());
        if cites {
            self.references(&document)?;
        }
        // Added after its own references, so no document cites itself.
        self.citations.add(document, cites, &mut self.chance);
        Ok(())
    }

    fn attribute(&mut self, attribute: Attribute, document: &Document) -> io::Result<()> {
        let (chance, words) = (&mut self.chance, &self.words);
        match attribute {
            Attribute::Abstract => {
                let length = chance.gauss_at_least_1(150.0, 30.0);
                self.out.text(Predicate::Abstract, |text| words.write(length, text, chance))
            }
            Attribute::Booktitle => self.out.text(Predicate::Booktitle, |text| words.write(3, text, chance)),
            Attribute::Cdrom => self.out.text(Predicate::Cdrom, |text| words.write_url(text, chance)),
            Attribute::Ee => self.out.text(Predicate::SeeAlso, |text| words.write_url(text, chance)),
            Attribute::Url => self.out.text(Predicate::Homepage, |text| words.write_url(text, chance)),
            Attribute::Isbn => self.out.text(Predicate::Isbn, |text| words::write_isbn(text, chance)),
            Attribute::Issued => self.out.integer(Predicate::Issued, document.year),
            Attribute::Journal => self.out.iri_with(Predicate::Journal, |iri| document.write_venue_iri(iri)),
            Attribute::Crossref => self.out.iri_with(Predicate::PartOf, |iri| document.write_venue_iri(iri)),
            Attribute::Month => self.out.integer(Predicate::Month, 1 + chance.below(12)),
            Attribute::Note => self.out.text(Predicate::Note, |text| words.write(8, text, chance)),
            Attribute::Number => self.out.integer(Predicate::Number, 1 + chance.below(12)),
            Attribute::Pages => self.out.integer(Predicate::Pages, 1 + chance.below(200)),
            Attribute::Publisher => self.out.text(Predicate::Publisher, |text| words.write(3, text, chance)),
            Attribute::Series => self.out.integer(Predicate::Series, 1 + chance.below(2000)),
            Attribute::Title => self.out.text(Predicate::Title, |text| {
                if !document.write_venue_title(text) {
                    words.write(3, text, chance);
                }
            }),
            // A venue's volume number counts its years.
            Attribute::Volume => self.out.integer(Predicate::Volume, document.year - FIRST_YEAR + 1),
        }
    }

    fn creators(&mut self, document: &Document, count: u8) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let mut authors = std::mem::take(&mut self.authors);
        self.people.authors(document.class, usize::from(count), &mut authors);
        if self.erdoes_papers > 0 {
            self.erdoes_papers -= 1;
            authors.push(Person::ERDOES);
        }
        for &author in &authors {
            self.related(document, Predicate::Creator, author)?;
        }
        self.authors = authors;
        Ok(())
    }

    fn editors(&mut self, document: &Document) -> io::Result<()> {
        let edits = document.class == Class::Proceedings && self.erdoes_proceedings > 0;
        if !edits && !self.chance.happens(document.class.edited()) {
            return Ok(());
        }
        let count = self.chance.gauss_at_least_1(2.15, 1.18);
        let mut editors = std::mem::take(&mut self.authors);
        self.people.editors(count, &mut editors, &mut self.chance);
        if edits {
            self.erdoes_proceedings -= 1;
            editors.push(Person::ERDOES);
        }
        for &editor in &editors {
            self.related(document, Predicate::Editor, editor)?;
        }
        self.authors = editors;
        Ok(())
    }

    /// Relates a document to an author or editor. A person's own triples come before the first mention.
    fn related(&mut self, document: &Document, predicate: Predicate, person: Person) -> io::Result<()> {
        if self.people.introduce(person) {
            self.declare(person)?;
        }
        self.out.subject(|iri| document.write_iri(iri));
        if person == Person::ERDOES {
            return self.out.iri(predicate, Person::ERDOES_IRI);
        }
        let people = &self.people;
        self.out.blank(predicate, |label| people.write_name(person, '_', label))
    }

    fn declare(&mut self, person: Person) -> io::Result<()> {
        let people = &self.people;
        if person == Person::ERDOES {
            self.out.subject(|iri| iri.push_str(Person::ERDOES_IRI));
        } else {
            self.out.blank_subject(|label| people.write_name(person, '_', label));
        }
        self.out.iri(Predicate::Type, "http://xmlns.com/foaf/0.1/Person")?;
        self.out.text(Predicate::Name, |text| people.write_name(person, ' ', text))
    }

    fn references(&mut self, document: &Document) -> io::Result<()> {
        let count = self.chance.gauss_at_least_1(citations::OUTGOING.0, citations::OUTGOING.1);
        let bag = self.citations.next_bag();
        let label = |label: &mut String| {
            label.push_str("references");
            syntax::push_number(bag, label);
        };
        self.out.subject(|iri| document.write_iri(iri));
        self.out.blank(Predicate::References, label)?;
        self.out.blank_subject(label);
        self.out.iri(Predicate::Type, "http://www.w3.org/1999/02/22-rdf-syntax-ns#Bag")?;
        let cited = self.citations.cite(count, &mut self.chance);
        for (position, cited) in (1..).zip(cited) {
            self.out.iri_with(Predicate::Member(position), |iri| match cited {
                Some(document) => document.write_iri(iri),
                None => iri.push_str(class::UNKNOWN_DOCUMENT),
            })?;
        }
        Ok(())
    }
}
