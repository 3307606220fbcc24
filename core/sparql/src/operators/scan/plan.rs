//! How a scan is planned: the index to read, and its rows.

use super::{Scan, ScanSpec};
use crate::algebra::{At, Pattern, Slot, Slots};
use crate::graphs::Merged;
use crate::operators::{Op, Physical};
use crate::planner::{Goal, Planner, cost};
use std::ops::Range;
use std::sync::Arc;
use vicus_rdf::{Id, Order, Position};

use crate::operators::index_join::LAST;

impl Scan {
    /// Reads a pattern from an index beginning with its constants and, among several such, with `by` next.
    pub(crate) fn plan(
        planner: &Planner<'_>,
        pattern: &Pattern,
        by: Option<Slot>,
        needed: &Slots,
        goal: Goal,
    ) -> Physical {
        let of_graphs = planner.scan_of_graphs(pattern, by, needed, goal);
        of_graphs.unwrap_or_else(|| Scan::of_rows(planner, pattern, by, None, needed, goal))
    }

    /// Like [`Scan::plan`], but of these rows of the order by `by` only.
    pub(crate) fn of_rows(
        planner: &Planner<'_>,
        pattern: &Pattern,
        by: Option<Slot>,
        rows: Option<Range<usize>>,
        needed: &Slots,
        goal: Goal,
    ) -> Physical {
        let snapshot = &planner.terms.snapshot;
        let bound = pattern.0.map(|at| at.constant().is_some());
        let place = |slot| pattern.0.iter().position(|at| *at == At::Slot(slot));
        let by = by.and_then(place).map(|place| Position::ALL[place]);
        // Named graphs one after the other are rows of an order by graph.
        let each_graph = by == Some(Position::Graph) && bound == [false; 4];
        let order = if each_graph { Order::Gspo } else { snapshot.best_order_for(bound, by) };
        let arranged = order.arrange(pattern.0);
        let prefix = order.prefix(bound);
        let ids: Vec<Id> = arranged[..prefix].iter().filter_map(|at| at.constant()).collect();
        let merged = (pattern.graph() == At::Merged).then(|| planner.terms.merged.clone());
        let mut columns = Vec::new();
        let (mut output, mut constants, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        for (level, at) in arranged.iter().enumerate().skip(prefix) {
            match at {
                At::Constant(id) => constants.push((level, *id)),
                At::Merged => (),
                At::Slot(slot) => {
                    if let Some(first) = arranged[..level].iter().position(|other| other == at) {
                        repeated.push((first, level));
                    } else if needed.contains(slot) {
                        output.push(level);
                        columns.push(*slot);
                    }
                }
            }
        }
        let is_simple = constants.is_empty() && repeated.is_empty() && !matches!(merged, Some(Merged::These(_)));
        // Rows come sorted. If the levels in front of the deepest one are all put out or constant, equal rows follow
        // each other.
        let is_sorted = |level: usize| level < LAST && output.len() == level + 1 - prefix;
        let distinct = goal.set && is_simple && output.last().copied().is_some_and(is_sorted);
        let sorted = match arranged.get(prefix) {
            Some(At::Slot(slot)) if output.contains(&prefix) => Some(*slot),
            _ => None,
        };
        let index = snapshot.index(order);
        let all = || if each_graph { index.count(&[Id::UNBOUND])..index.len() } else { index.range(&ids) };
        let rows = rows.unwrap_or_else(all);
        let spec =
            ScanSpec { order, rows: rows.clone(), output, constants, repeated, merged, scattered: false, distinct };
        let mut estimate = planner.of_pattern(pattern).restricted(&columns.iter().copied().collect());
        if distinct {
            let distinct = estimate.facts.values().map(|facts| facts.distinct).product::<f64>();
            let rows = estimate.rows.min(distinct);
            estimate = estimate.with_rows(rows);
        }
        planner.made(Physical {
            op: Op::Scan(Scan { pattern: *pattern, spec: Arc::new(spec) }),
            columns: columns.into(),
            cost: rows.len() as f64 * cost::SCAN,
            startup: 0.0,
            estimate,
            sorted,
            conditions: Vec::new(),
        })
    }

    /// The scan, if a plan is one.
    pub(crate) fn of(plan: &Physical) -> Option<&Scan> {
        if let Op::Scan(scan) = &plan.op { Some(scan) } else { None }
    }

    /// A scan for a test until a few rows have been found: it reads them in scattered order. Other plans stay
    /// unchanged.
    pub(crate) fn scattered(mut plan: Physical) -> Physical {
        if let Op::Scan(scan) = &mut plan.op {
            Arc::make_mut(&mut scan.spec).scattered = true;
            plan.sorted = None;
        }
        plan
    }
}
