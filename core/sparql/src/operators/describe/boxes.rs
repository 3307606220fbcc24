//! DESCRIBE: the concise bounded description of each resource: all triples with it as subject, then those of each blank
//! node among the objects, and so on. Stickler, "CBD: Concise Bounded Description", W3C member submission 2005. We
//! differ: we leave out the descriptions of reifications.
//!
//! Each subject is described once, so no triple is sent twice, and a circle of blank nodes ends.

use crate::boxes::{Growth, had, room_for_one, slices};
use crate::graphs::Active;
use crate::terms::Terms;
use hashbrown::HashSet;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_flow::{BoxError, Grow, Operator, Turn, Unfilled};
use vicus_rdf::{Id, Order, Position, TermKind};

pub(crate) struct Describe {
    terms: Arc<Terms>,
    graph: Active,
    /// The subjects described so far or waiting for it.
    seen: HashSet<Id, HashKey>,
    /// The waiting subjects, and the rest of the one at hand.
    waiting: Vec<Id>,
    current: Option<(Id, Range<usize>)>,
    growth: Growth,
    has_ended: bool,
}

impl Describe {
    /// Describes these resources and those in the input's columns.
    pub(crate) fn new(terms: &Arc<Terms>, graph: Active, resources: &[Id], limit: usize) -> Describe {
        let mut describe = Describe {
            terms: Arc::clone(terms),
            graph,
            seen: HashSet::with_hasher(terms.key),
            waiting: Vec::new(),
            current: None,
            growth: Growth::new(limit),
            has_ended: false,
        };
        // The first is on top.
        resources.iter().rev().for_each(|&id| describe.note(id));
        describe
    }

    /// Remembers to describe a resource. Literals have no descriptions, nor have terms unknown to the store.
    fn note(&mut self, id: Id) {
        if !matches!(id.kind(), TermKind::Iri | TermKind::Blank) {
            return;
        }
        let Some(id) = self.terms.stored(id) else { return };
        let seen = &mut self.seen;
        room_for_one(seen.len(), seen.capacity(), size_of::<Id>() + 1, || seen.try_reserve(1).is_ok());
        if seen.insert(id) {
            self.waiting.grow_or_give_up(1);
            self.waiting.push(id);
        }
    }

    /// Appends the next triples, up to the target size.
    fn read(&mut self, turn: &Turn<'_>, columns: &mut [Vec<u64>; 3]) {
        let snapshot = Arc::clone(&self.terms.snapshot);
        let graph = self.graph.clone();
        let index = graph.index(&snapshot, Order::Gspo);
        let behind = [index.order().level(Position::Predicate), index.order().level(Position::Object)];
        while columns[0].len() < self.growth.target && !turn.is_stopped() {
            let next = || Some((self.waiting.pop()?, None));
            let Some((subject, rows)) = self.current.take().map(|(id, rows)| (id, Some(rows))).or_else(next) else {
                return;
            };
            let rows = rows.unwrap_or_else(|| graph.rows(&snapshot, Order::Gspo, [subject; 2], 1).1);
            let end = rows.end.min(rows.start + self.growth.target - columns[0].len());
            let now = rows.start..end;
            if let Some(home) = (!now.is_empty()).then(|| index.home(now.start)).flatten() {
                turn.count_read(home, 16 * now.len() as u64);
            }
            let mut levels: [Vec<u64>; 2] = Default::default();
            for (column, level) in levels.iter_mut().zip(behind) {
                Unfilled::of(column, now.len(), |room| index.fill(level, now.clone(), room));
            }
            if let Active::Merged(_) = &graph {
                for column in &mut levels {
                    let mut row = now.clone();
                    column.retain(|_| row.next().is_some_and(|row| graph.keeps(index, row)));
                }
            }
            let count = levels[0].len();
            for (column, level) in columns[1..].iter_mut().zip(&levels) {
                had(column.grow(count));
                column.extend_from_slice(level);
            }
            had(columns[0].grow(count));
            columns[0].extend(std::iter::repeat_n(subject.bits(), count));
            let objects = levels[1].iter().map(|&bits| Id::from_bits(bits));
            objects.filter(|id| id.kind() == TermKind::Blank).for_each(|id| self.note(id));
            self.current = (end < rows.end).then_some((subject, end..rows.end));
        }
    }

    fn bytes(&self) -> u64 {
        (self.seen.capacity() * (size_of::<Id>() + 1) * 8 / 7 + self.waiting.capacity() * size_of::<Id>()) as u64
    }
}

impl Operator for Describe {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        // Found resources are described before more are taken, so few wait.
        if self.current.is_none() && self.waiting.is_empty() && !self.has_ended {
            match turn.take(0) {
                None => return Ok(()),
                Some(pill) if pill.is_pill() => self.has_ended = true,
                Some(envelope) => {
                    let columns = slices(&envelope);
                    for row in (0..envelope.rows()).rev() {
                        columns.iter().rev().for_each(|column| self.note(Id::from_bits(column[row])));
                    }
                }
            }
        }
        let mut columns: [Vec<u64>; 3] = Default::default();
        self.read(turn, &mut columns);
        turn.book(self.bytes())?;
        if !columns[0].is_empty() {
            let rows = columns[0].len();
            let made = crate::boxes::envelope_of(turn, 3, rows, |builder| {
                for (place, column) in columns.iter().enumerate() {
                    builder.u64s(place).extend_from_slice(column);
                }
            });
            turn.send(0, made);
            self.growth.grow();
        }
        if self.current.is_some() || !self.waiting.is_empty() {
            turn.run_again();
        } else if self.has_ended {
            turn.send_pills();
        } else if turn.head(0).is_some() {
            // An envelope that arrived while this box was busy does not invoke the box again.
            turn.run_again();
        }
        Ok(())
    }
}
