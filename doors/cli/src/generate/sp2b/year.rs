//! The documents of a year, and their order.

use super::class::{Class, Document};
use super::numbers::{Chance, Logistic};

const JOURNALS: Logistic = Logistic::new(740.43, 426.28, 0.12, 0.0, 1950.0);
const ARTICLES: Logistic = Logistic::new(58519.12, 876.80, 0.12, 0.0, 1950.0);
const PROCEEDINGS: Logistic = Logistic::new(5502.31, 1250.26, 0.14, 0.0, 1965.0);
const INPROCEEDINGS: Logistic = Logistic::new(337_132.34, 1901.05, 0.15, 0.0, 1965.0);
const INCOLLECTIONS: Logistic = Logistic::new(3577.31, 196.49, 0.091, 0.0, 1980.0);
const BOOKS: Logistic = Logistic::new(52.97, 40739.38, 0.32, 0.0, 1950.0);
/// The first year with theses and web pages.
const THESES_FROM: u32 = 1980;

/// Mean and deviation of a paper's number of authors.
const AUTHORS: (Logistic, Logistic) =
    (Logistic::new(2.05, 17.59, 0.11, 1.05, 1975.0), Logistic::new(1.00, 6.46, 0.10, 0.50, 1975.0));

/// The documents of a year in the order of writing.
pub(super) struct Year {
    number: u32,
    /// Venues, and documents without a venue.
    entries: Vec<Entry>,
    /// The number of authors of each document except venues, in order.
    authors: Vec<u8>,
}

/// A venue with its papers, or a document without a venue.
#[derive(Clone, Copy)]
struct Entry {
    class: Class,
    /// Its number within its class and year, from 1.
    number: u32,
    /// The number of its papers; below, of the papers of the venues before it. 0 if it is not a venue.
    papers: u32,
    papers_before: u32,
}

impl Year {
    pub(super) fn plan(number: u32, chance: &mut Chance) -> Year {
        let (journals, proceedings) = (JOURNALS.count(number), PROCEEDINGS.count(number));
        let theses = |limit: u32, chance: &mut Chance| {
            if number < THESES_FROM { 0 } else { chance.below(limit + 1) as usize }
        };
        let phd = theses(20, chance);
        let masters = theses(10, chance);
        let www = theses(10, chance);
        let mut entries = venues(Class::Proceedings, proceedings, INPROCEEDINGS.count(number), chance);
        entries.extend(venues(Class::Journal, journals, ARTICLES.count(number), chance));
        let alone = [
            (Class::Incollection, INCOLLECTIONS.count(number)),
            (Class::Book, BOOKS.count(number)),
            (Class::PhDThesis, phd),
            (Class::MastersThesis, masters),
            (Class::Www, www),
        ];
        for (class, count) in alone {
            entries
                .extend((1..=count as u32).map(|number| {
                    (progress(number, count, 0.5), Entry { class, number, papers: 0, papers_before: 0 })
                }));
        }
        // Every class goes through the year at its own pace, so a file that ends within a year has a share of each. The
        // sort is stable: entries due at the same time stay in the order above.
        entries.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut year =
            Year { number, entries: entries.into_iter().map(|(_, entry)| entry).collect(), authors: Vec::new() };
        let (mean, deviation) = (AUTHORS.0.at(number), AUTHORS.1.at(number));
        let authors = year.entries.iter().flat_map(Entry::paper_classes).map(|class| {
            if chance.happens(class.authored()) { chance.gauss_at_least_1(mean, deviation).min(255) as u8 } else { 0 }
        });
        year.authors = authors.collect();
        year
    }

    /// The number of documents with authors.
    pub(super) fn papers(&self) -> usize {
        self.authors.iter().filter(|&&authors| authors > 0).count()
    }

    /// The number of authors of all documents together; an author of several counts several times.
    pub(super) fn author_slots(&self) -> usize {
        self.authors.iter().map(|&authors| usize::from(authors)).sum()
    }

    /// The documents, each with its number of authors.
    pub(super) fn documents(&self) -> impl Iterator<Item = (Document, u8)> {
        let mut authors = self.authors.iter().copied();
        let year = self.number;
        self.entries.iter().flat_map(move |entry| entry.documents(year)).map(move |document| {
            let is_venue = matches!(document.class, Class::Journal | Class::Proceedings);
            let count = if is_venue { 0 } else { authors.next().expect("the plan has a number for every paper") };
            (document, count)
        })
    }
}

impl Entry {
    fn paper_class(&self) -> Option<Class> {
        match self.class {
            Class::Journal => Some(Class::Article),
            Class::Proceedings => Some(Class::Inproceedings),
            _ => None,
        }
    }

    /// The class of each document of this entry with authors.
    fn paper_classes(&self) -> impl Iterator<Item = Class> + use<> {
        let (class, count) = self.paper_class().map_or((self.class, 1), |class| (class, self.papers as usize));
        std::iter::repeat_n(class, count)
    }

    fn documents(&self, year: u32) -> impl Iterator<Item = Document> + use<> {
        let entry = *self;
        let venue = if entry.paper_class().is_some() { entry.number } else { 0 };
        let own_number = if venue > 0 { 0 } else { entry.number };
        let own = Document { class: entry.class, year, venue, number: own_number };
        let papers = entry.paper_class().into_iter().flat_map(move |class| {
            let numbers = entry.papers_before + 1..=entry.papers_before + entry.papers;
            numbers.map(move |number| Document { class, year, venue, number })
        });
        std::iter::once(own).chain(papers)
    }
}

/// The venues of a year, each with its due time in the year. The year's papers are divided among them: Gaussian with a
/// deviation of 20 %, and exactly the year's number.
fn venues(class: Class, count: usize, papers: usize, chance: &mut Chance) -> Vec<(f64, Entry)> {
    let weights: Vec<f64> = (0..count).map(|_| (1.0 + 0.2 * chance.gauss()).max(0.1)).collect();
    let total: f64 = weights.iter().sum();
    let (mut weight, mut papers_before) = (0.0, 0);
    let venue = |(number, own): (u32, f64)| {
        weight += own;
        let until = libm::round(papers as f64 * weight / total) as u32;
        let entry = Entry { class, number, papers: until - papers_before, papers_before };
        papers_before = until;
        (progress(number, count, 0.0), entry)
    };
    (1..).zip(weights).map(venue).collect()
}

/// The passed share of the year when the `number`th of `count` things is due.
fn progress(number: u32, count: usize, within: f64) -> f64 {
    (f64::from(number - 1) + within) / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(year: &Year, class: Class) -> usize {
        year.documents().filter(|(document, _)| document.class == class).count()
    }

    #[test]
    fn a_year_has_as_many_documents_as_the_benchmarks_own_files() {
        // Up to 1960, counted in a file of the benchmark's own generator; 1988 by its formulas, evaluated separately.
        let facts = [
            (1940, 1, 20, 0, 0, 0),
            (1953, 2, 96, 1, 29, 2),
            (1960, 6, 221, 2, 84, 3),
            (1988, 136, 5752, 108, 5495, 37),
        ];
        for (number, journals, articles, proceedings, inproceedings, incollections) in facts {
            let year = Year::plan(number, &mut Chance::new(5));
            assert_eq!(count(&year, Class::Journal), journals, "{number}");
            assert_eq!(count(&year, Class::Article), articles, "{number}");
            assert_eq!(count(&year, Class::Proceedings), proceedings, "{number}");
            assert_eq!(count(&year, Class::Inproceedings), inproceedings, "{number}");
            assert_eq!(count(&year, Class::Incollection), incollections, "{number}");
        }
    }

    #[test]
    fn a_venue_comes_before_its_papers() {
        let year = Year::plan(1975, &mut Chance::new(5));
        let mut venues = Vec::new();
        for (document, _) in year.documents() {
            match document.class {
                Class::Journal => venues.push((Class::Article, document.venue)),
                Class::Proceedings => venues.push((Class::Inproceedings, document.venue)),
                class if document.venue > 0 => assert_eq!(venues.last(), Some(&(class, document.venue))),
                _ => {}
            }
        }
    }
}
