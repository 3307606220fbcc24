//! Estimates of rows, of distinct values, and of kinds of terms.
//!
//! Counts of patterns are exact. Estimates of joins assume that values are evenly distributed, and that the smaller set
//! of values is contained in the larger: Selinger et al., "Access path selection in a relational database management
//! system", SIGMOD 1979, §4.

use crate::algebra::{At, DEFAULT_GRAPH, Pattern, Slot, Slots};
use crate::condition::Kinds;
use crate::expression::{Compare, Expr};
use crate::graphs::Merged;
use crate::slots::BySlot;
use vicus_rdf::{Snapshot, Statistics, TermKind, statistics};

/// The facts of one column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Facts {
    /// The estimated number of distinct values.
    pub(crate) distinct: f64,
    /// The kinds of terms that may appear. Proven, not estimated.
    pub(crate) kinds: Kinds,
    /// Whether it is always bound. Proven, not estimated.
    pub(crate) certain: bool,
}

/// The facts of a table.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Estimate {
    pub(crate) rows: f64,
    pub(crate) facts: BySlot<Facts>,
}

impl Estimate {
    pub(crate) fn is_certain(&self, slot: Slot) -> bool {
        self.facts.get(&slot).is_some_and(|facts| facts.certain)
    }

    /// The number of distinct values of a slot, at least one.
    pub(crate) fn distinct(&self, slot: Slot) -> f64 {
        self.facts.get(&slot).map_or(1.0, |facts| facts.distinct.max(1.0))
    }

    /// The kinds of terms that a slot may have; any kind if the slot is not a column.
    pub(crate) fn kinds(&self, slot: Slot) -> Kinds {
        self.facts.get(&slot).map_or(Kinds::ANY, |facts| facts.kinds)
    }

    /// With fewer rows: no column has more distinct values than there are rows.
    pub(crate) fn with_rows(mut self, rows: f64) -> Estimate {
        self.rows = rows;
        for facts in self.facts.values_mut() {
            facts.distinct = facts.distinct.min(rows.max(1.0));
        }
        self
    }

    pub(crate) fn restricted(mut self, slots: &Slots) -> Estimate {
        self.facts.retain(|slot| slots.contains(&slot));
        self
    }
}

/// The facts of the triples matching a pattern. `merged` is the meaning of merged graphs.
pub(crate) fn of_pattern(snapshot: &Snapshot, merged: &Merged, pattern: &Pattern) -> Estimate {
    let bound = pattern.0.map(|at| at.constant().is_some());
    let order = snapshot.best_order(bound);
    let index = snapshot.index(order);
    let arranged = order.arrange(pattern.0);
    let ids = arranged.map(|at| at.constant().unwrap_or_default());
    let prefix = &ids[..order.prefix(bound)];
    let mut rows = index.count(prefix) as f64;
    if pattern.graph() == At::Merged {
        rows *= merged.share(snapshot);
    }
    if prefix.len() < bound.iter().filter(|bound| **bound).count() {
        rows *= 0.1;
    }
    let distinct_slots: Slots = pattern.slots().collect();
    if distinct_slots.len() < pattern.slots().count() {
        rows *= 0.1;
    }
    let statistics = statistics_of(snapshot, pattern.graph());
    let predicate = pattern.0[1].constant().and_then(|id| statistics.predicate(id));
    let known = pattern.0[1].constant().is_some();
    let mut facts: BySlot<Facts> = BySlot::default();
    for (place, at) in pattern.0.iter().enumerate() {
        let At::Slot(slot) = at else { continue };
        let column = predicate.map(|predicate| if place == 0 { &predicate.subjects } else { &predicate.objects });
        let all = |kinds: Kinds| if snapshot.fresh().is_empty() { kinds } else { kinds.or_fresh() };
        let (distinct, kinds) = match (place, column) {
            (1, _) => (statistics.predicate_count(), all(Kinds::of(TermKind::Iri))),
            (3, _) => (snapshot.graphs().len(), all(Kinds::of(TermKind::Iri).or(Kinds::of(TermKind::Blank)))),
            (_, Some(column)) => (column.distinct, kinds_of(column)),
            // No triple has this predicate.
            (_, None) if known => (0, Kinds::NONE),
            (0, None) => (statistics.subjects, all(Kinds::of(TermKind::Iri).or(Kinds::of(TermKind::Blank)))),
            _ => (
                statistics.objects,
                statistics.predicates().fold(Kinds::NONE, |all, predicate| all.or(kinds_of(&predicate.objects))),
            ),
        };
        let distinct = (distinct as f64).min(rows.max(1.0));
        let new = Facts { distinct, kinds, certain: true };
        match facts.get_mut(slot) {
            Some(old) => {
                old.distinct = old.distinct.min(new.distinct);
                old.kinds = old.kinds.and(new.kinds);
            }
            None => facts.insert(*slot, new),
        }
    }
    Estimate { rows, facts }
}

/// The counts of a graph or, for a named one, of all named graphs together.
pub(crate) fn statistics_of(snapshot: &Snapshot, graph: At) -> &Statistics {
    if graph == DEFAULT_GRAPH { snapshot.statistics() } else { snapshot.named_statistics() }
}

fn kinds_of(column: &statistics::ColumnStatistics) -> Kinds {
    let kinds = TermKind::ALL.into_iter().filter(|&kind| column.of_kind(kind) > 0);
    let kinds = kinds.fold(Kinds::NONE, |all, kind| all.or(Kinds::of(kind)));
    if column.has_fresh() { kinds.or_fresh() } else { kinds }
}

/// The facts of the inner join of tables.
pub(crate) fn join<'a>(tables: impl Iterator<Item = &'a Estimate>) -> Estimate {
    let mut rows = 1.0;
    let mut facts: BySlot<Facts> = BySlot::default();
    for table in tables {
        rows *= table.rows;
        facts.merge(&table.facts, |old, new| {
            rows /= old.distinct.max(new.distinct).max(1.0);
            // If one side is unbound, the row takes the other side's value.
            old.kinds = match (old.certain, new.certain) {
                (true, true) => old.kinds.and(new.kinds),
                (true, false) => old.kinds,
                (false, true) => new.kinds,
                (false, false) => old.kinds.or(new.kinds),
            };
            old.distinct = old.distinct.min(new.distinct);
            old.certain |= new.certain;
        });
    }
    Estimate { rows: 0.0, facts }.with_rows(rows)
}

/// The share of rows that a condition keeps; `distinct` gives the number of values of a slot.
pub(crate) fn selectivity(condition: &Expr, distinct: &impl Fn(Slot) -> f64) -> f64 {
    let values = |expr: &Expr| match expr {
        Expr::Slot(slot) => distinct(*slot).max(1.0),
        Expr::Constant(_) => 1.0,
        // Several operands may have one value.
        computed => computed.slots().iter().map(|slot| distinct(*slot)).fold(1.0, f64::max).sqrt(),
    };
    match condition {
        Expr::Compare(Compare::Equal, a, b) | Expr::SameTerm(a, b) => 1.0 / values(a).max(values(b)).max(2.0),
        Expr::Compare(Compare::NotEqual, ..) => 0.95,
        Expr::Compare(..) => 0.4,
        Expr::Bound(_) => 0.8,
        Expr::Not(_) => 0.5,
        Expr::Or(all) => all.iter().map(|part| selectivity(part, distinct)).sum::<f64>().min(1.0),
        Expr::In(_, all) => (0.1 * all.len() as f64).min(1.0),
        _ => 0.3,
    }
}
