//! Patterns found faster through their graphs than through all rows of named graphs.

use super::build::JoinTask;
use super::{Goal, Planner};
use crate::algebra::{At, Column, Pattern, Slot, Slots, Table};
use crate::boxes::join::JoinKind;
use crate::graphs::Merged;
use crate::operators::Physical;
use crate::operators::distinct::Distinct;
use crate::operators::extend::Extend;
use crate::operators::index_join::IndexJoin;
use crate::operators::scan::Scan;
use crate::operators::union::Union;
use crate::operators::values::Values;
use vicus_rdf::Id;

/// Up to this number of graphs, each is read by a scan of its own, beside others; more graphs are searched one after
/// the other.
const MOST_SCANS: usize = 64;

/// The rows of all named graphs together must exceed the matching rows by this factor.
const FEWER: usize = 4;

impl Planner<'_> {
    /// A pattern read only for the names of its graphs, or found in few graphs among many; `None` for others.
    pub(crate) fn scan_of_graphs(
        &self,
        pattern: &Pattern,
        by: Option<Slot>,
        needed: &Slots,
        goal: Goal,
    ) -> Option<Physical> {
        if !self.optimise {
            return None;
        }
        match (pattern.graph(), &self.terms.merged) {
            (At::Slot(graph), _) if goal.set && is_anything(pattern) && needed.contains(&graph) => {
                let mut others = pattern.ends().into_iter().filter_map(At::slot);
                // Only graphs with triples have names.
                (!others.any(|slot| needed.contains(&slot))).then(|| self.graphs_of(pattern.graph()))
            }
            (At::Merged, Merged::These(all)) => self.scan_each(all, pattern, by, needed),
            _ => None,
        }
    }

    /// Each of these graphs alone, and of their triples each once.
    fn scan_each(&self, graphs: &[Id], pattern: &Pattern, by: Option<Slot>, needed: &Slots) -> Option<Physical> {
        let slots: Slots = pattern.slots().collect();
        let snapshot = &self.terms.snapshot;
        let bound = pattern.ends().map(|at| at.constant());
        let rows = |graph: At| {
            let quad = [bound[0], bound[1], bound[2], graph.constant()];
            let index = snapshot.index(snapshot.best_order(quad.map(|id| id.is_some())));
            let prefix: Vec<Id> = index.order().arrange(quad).into_iter().map_while(|id| id).collect();
            index.count(&prefix)
        };
        let each: usize = graphs.iter().map(|graph| rows(At::Constant(*graph))).sum();
        if slots.is_empty() || graphs.is_empty() || each.saturating_mul(FEWER) >= rows(At::Merged) {
            return None;
        }
        let goal = Goal { set: true, first: false };
        let [subject, predicate, object] = pattern.ends();
        let within = |graph: At| Pattern([subject, predicate, object, graph]);
        let rows = if graphs.len() <= MOST_SCANS {
            let scan = |graph: &Id| Scan::plan(self, &within(At::Constant(*graph)), by, &slots, goal);
            Union::plan(self, graphs.iter().map(scan).collect(), slots.iter().copied().collect::<Vec<Slot>>())
        } else {
            let slot = self.new_slot();
            let names = graphs.iter().map(|graph| graph.bits()).collect();
            let task = JoinTask { kind: JoinKind::Inner, conditions: &[], needed: &slots };
            IndexJoin::plan(self, self.names(slot, names), &within(At::Slot(slot)), task, goal)
        };
        Some(Extend::project(self, Distinct::plan(self, rows), needed))
    }

    /// The names of all graphs, if a slot stands for them; else one row without columns.
    pub(crate) fn graphs_of(&self, graph: At) -> Physical {
        let Some(slot) = graph.slot() else { return Values::plan(self, &[], &Table::unit(), &Slots::new()) };
        self.names(slot, self.terms.snapshot.graphs().map(Id::bits).collect())
    }

    fn names(&self, slot: Slot, names: Vec<u64>) -> Physical {
        self.stop.count_bytes(size_of_val(&*names));
        let table = Table { rows: names.len(), columns: vec![Column::new(names)] };
        Values::plan(self, &[slot], &table, &[slot].into_iter().collect())
    }
}

/// Whether a pattern has four different variables.
fn is_anything(pattern: &Pattern) -> bool {
    pattern.slots().collect::<Slots>().len() == 4
}
