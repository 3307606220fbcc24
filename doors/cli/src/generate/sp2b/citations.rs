//! References between documents.
//!
//! The number of a document's citations is drawn when it is written: it puts this number of tickets into an urn, and
//! later documents draw tickets. So incoming citations follow the paper's power law, and only the urn has to be kept,
//! not the whole library.

use super::class::{Class, Document};
use super::numbers::Chance;

/// Mean and deviation of the number of references, for documents with references.
pub(super) const OUTGOING: (f64, f64) = (16.82, 10.07);
/// The share of references to documents.
const RESOLVED: f64 = 0.65;
/// The greatest number of citations of a document.
const MOST_CITED: u32 = 30;
/// The probability of any citations for a document without references, chosen to put in about as many tickets as are
/// drawn. (0.7 % of the documents have references, 11 of them resolve, and a cited document is cited four times on
/// average.)
const FAME: f64 = 0.02;
/// How much likelier a document with references is to be cited. The benchmark's authors do not tell; query 7 (documents
/// cited only by cited documents) depends on it.
const CITING_ARE_CITED: f64 = 14.0;
/// The greatest number of tickets; a new ticket then replaces another.
const URN: usize = 1 << 16;

/// The urn, and the number of bags of references.
#[derive(Default)]
pub(super) struct Citations {
    urn: Vec<Document>,
    bags: u32,
}

impl Citations {
    /// The number of a new bag of references.
    pub(super) fn next_bag(&mut self) -> u32 {
        self.bags += 1;
        self.bags
    }

    /// Draws this many references: different documents, or `None` for an unresolved one.
    pub(super) fn cite(&mut self, count: usize, chance: &mut Chance) -> Vec<Option<Document>> {
        let mut cited: Vec<Option<Document>> = Vec::with_capacity(count);
        for _ in 0..count {
            let ticket = (chance.happens(RESOLVED) && !self.urn.is_empty()).then(|| chance.index(self.urn.len()));
            let document = ticket.map(|ticket| self.urn[ticket]).filter(|document| !cited.contains(&Some(*document)));
            if let (Some(ticket), Some(_)) = (ticket, document) {
                self.urn.swap_remove(ticket);
            }
            cited.push(document);
        }
        cited
    }

    /// Draws how often a new document will be cited from now on.
    pub(super) fn add(&mut self, document: Document, cites: bool, chance: &mut Chance) {
        if !matches!(document.class, Class::Article | Class::Inproceedings) {
            return;
        }
        let likelier = if cites { CITING_ARE_CITED } else { 1.0 };
        if !chance.happens(FAME * likelier) {
            return;
        }
        for _ in 0..incoming(chance.uniform()) {
            if self.urn.len() < URN {
                self.urn.push(document);
            } else {
                let ticket = chance.index(URN);
                self.urn[ticket] = document;
            }
        }
    }
}

/// The number of citations of a cited document: a power law with exponent 1.6.
fn incoming(uniform: f64) -> u32 {
    let total: f64 = (1..=MOST_CITED).map(weight).sum();
    let mut left = uniform * total;
    for times in 1..MOST_CITED {
        left -= weight(times);
        if left < 0.0 {
            return times;
        }
    }
    MOST_CITED
}

fn weight(times: u32) -> f64 {
    libm::pow(f64::from(times), -1.6)
}
