//! CONSTRUCT: triples of a template for each solution. SPARQL 1.1, §16.2.
//!
//! Triples that are not well-formed, because a variable is unbound or has the wrong kind of term, are left out. Triples
//! with a fresh blank node leave on an output of their own: no other solution has their blank nodes, so no operator has
//! to remember them to find duplicates.

use crate::boxes::{Unfinished, attach, envelope_of, slices};
use crate::terms::Terms;
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Grow, Operator, Turn};
use vicus_rdf::{Id, TermKind};

/// The content of a position of a template.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Part {
    /// A column of the input.
    Column(usize),
    Constant(Id),
    /// A blank node, by number; a fresh one for each solution.
    Blank(u32),
}

/// The template of a CONSTRUCT. Invariant: no triple has a constant where its kind of term can't stand, and none occurs
/// twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Template {
    /// The triples without blank nodes; they leave on output 0.
    pub(crate) plain: Vec<[Part; 3]>,
    /// The triples with blank nodes; they leave on the output after that, if there are plain ones.
    pub(crate) fresh: Vec<[Part; 3]>,
    /// How many blank nodes it has.
    pub(crate) blanks: u32,
}

/// The kinds of terms that may stand in a triple.
pub(crate) fn is_triple([subject, predicate, object]: [Id; 3]) -> bool {
    matches!(subject.kind(), TermKind::Iri | TermKind::Blank)
        && predicate.kind() == TermKind::Iri
        && !object.is_unbound()
}

pub(crate) struct Construct {
    terms: Arc<Terms>,
    template: Arc<Template>,
    limit: usize,
    input: Unfinished,
    plain: Vec<[u64; 3]>,
    fresh: Vec<[u64; 3]>,
}

/// Up to this many triples of a solution are compared with each other, more are sorted.
const FEW: usize = 16;

impl Construct {
    /// Sends envelopes of about `limit` triples: a solution's are not cut.
    pub(crate) fn new(terms: &Arc<Terms>, template: &Arc<Template>, limit: usize) -> Construct {
        let (terms, template) = (Arc::clone(terms), Arc::clone(template));
        Construct {
            terms,
            template,
            limit: limit.max(1),
            input: Unfinished::default(),
            plain: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// Makes the triples of rows from `row` on until there are enough; returns the first row that is left.
    fn make(&mut self, columns: &[&[u64]], mut row: usize, rows: usize) -> usize {
        let Template { plain, fresh, blanks } = &*self.template;
        while row < rows && self.plain.len() < self.limit && self.fresh.len() < self.limit {
            let first = if *blanks > 0 { self.terms.fresh_blanks(*blanks) } else { 0 };
            let id = |part: &Part| match *part {
                Part::Column(column) => Id::from_bits(columns[column][row]),
                Part::Constant(id) => id,
                Part::Blank(number) => Terms::fresh_blank(first + u64::from(number)),
            };
            let of = |triple: &[Part; 3]| {
                let ids = [id(&triple[0]), id(&triple[1]), id(&triple[2])];
                is_triple(ids).then(|| ids.map(Id::bits))
            };
            self.plain.grow_or_give_up(plain.len());
            self.plain.extend(plain.iter().filter_map(of));
            self.fresh.grow_or_give_up(fresh.len());
            let before = self.fresh.len();
            self.fresh.extend(fresh.iter().filter_map(of));
            drop_repeated(&mut self.fresh, before);
            row += 1;
        }
        row
    }

    /// Sends triples; those that may have terms that pass keep what these live in.
    fn send(turn: &mut Turn<'_>, output: usize, triples: &mut Vec<[u64; 3]>, from: &Envelope) {
        if triples.is_empty() {
            return;
        }
        let made = envelope_of(turn, 3, triples.len(), |builder| {
            for place in 0..3 {
                builder.u64s(place).extend(triples.iter().map(|triple| triple[place]));
            }
        });
        turn.send(output, attach(made, from.attached()));
        triples.clear();
    }
}

/// Drops repeated triples from this place on. Two triples of a template with the same blank node may become the same
/// triple.
fn drop_repeated(triples: &mut Vec<[u64; 3]>, from: usize) {
    if triples.len() - from > FEW {
        triples[from..].sort_unstable();
    }
    let mut kept = from;
    for place in from..triples.len() {
        let triple = triples[place];
        // Among sorted ones, equal triples follow each other.
        let seen =
            if triples.len() - from > FEW { &triples[kept.max(from + 1) - 1..kept] } else { &triples[from..kept] };
        if !seen.contains(&triple) {
            triples[kept] = triple;
            kept += 1;
        }
    }
    triples.truncate(kept);
}

impl Operator for Construct {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some((envelope, first)) = self.input.take(turn) else { return Ok(()) };
        let end = self.make(&slices(&envelope), first, envelope.rows());
        turn.book(((self.plain.capacity() + self.fresh.capacity()) * size_of::<[u64; 3]>()) as u64)?;
        let has_plain = usize::from(!self.template.plain.is_empty());
        Construct::send(turn, 0, &mut self.plain, &envelope);
        Construct::send(turn, has_plain, &mut self.fresh, &envelope);
        let end = if turn.is_stopped() { envelope.rows() } else { end };
        self.input.keep(turn, envelope, end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn repeated_triples_are_dropped_whether_few_or_many() {
        for count in [0, 1, 5, FEW as u64, FEW as u64 + 1, 100] {
            let made = |count| (0..count).map(|number| [number % 3, 1, number % 5]);
            // What was made for the solution before stays.
            let before = [[7, 7, 7]; 2];
            let mut triples: Vec<[u64; 3]> = before.into_iter().chain(made(count)).collect();
            drop_repeated(&mut triples, 2);
            let kept: BTreeSet<[u64; 3]> = triples.drain(2..).collect();
            assert_eq!(kept, made(count).collect(), "{count}");
            assert_eq!(triples, before);
        }
    }

    #[test]
    fn what_is_kept_has_no_duplicates() {
        for count in [3, FEW, FEW + 1] {
            let mut triples = vec![[1, 2, 3]; count];
            drop_repeated(&mut triples, 0);
            assert_eq!(triples, [[1, 2, 3]], "{count}");
        }
    }
}
