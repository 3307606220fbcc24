//! What is cited.
//!
//! A document is famous or not from the beginning: it puts as many tickets into an urn as it will be cited, and who
//! cites draws tickets. So incoming citations follow the power law of the paper, and the urn, not the whole library,
//! is what is kept.

use super::class::{Class, Document};
use super::numbers::Chance;

/// Mean and deviation of the number of references of a document that has any.
pub(super) const OUTGOING: (f64, f64) = (16.82, 10.07);
/// How many of them resolve.
const RESOLVED: f64 = 0.65;
/// No document is cited more often.
const MOST_CITED: u32 = 30;
/// How likely a document without references is to be cited at all: so likely that there are about as many tickets as
/// are drawn. (0.7 % of the documents have references, 11 of them resolve, and who is cited is so four times.)
const FAME: f64 = 0.02;
/// How much likelier a document with references is to be cited than another. The benchmark's authors do not tell; it
/// is what query 7 (documents cited only by what is itself cited) depends on.
const CITING_ARE_CITED: f64 = 14.0;
/// The urn holds no more tickets; a new one then takes the place of another.
const URN: usize = 1 << 16;

/// The tickets, and how many bags of references there are.
#[derive(Default)]
pub(super) struct Citations {
    urn: Vec<Document>,
    bags: u32,
}

impl Citations {
    /// The number of a new bag.
    pub(super) fn next_bag(&mut self) -> u32 {
        self.bags += 1;
        self.bags
    }

    /// This many references: different documents, or `None` for one that does not resolve.
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

    /// Lets a new document be cited from now on, if it is to be.
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

/// How often a document is cited that is cited at all: a power law with the exponent 1.6.
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
