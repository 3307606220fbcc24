//! How groups are planned: which values are computed below them, and their estimate.

use super::{Aggregate, AggregateSpec, FoldSpec};
use crate::algebra::{self, Fold, Group, Node, Slot, Slots};
use crate::condition::Kinds;
use crate::expression::Expr;
use crate::operators::distinct::Distinct;
use crate::operators::extend::Extend;
use crate::operators::{Below, Op, Physical};
use crate::planner::{Estimate, Facts, Goal, Planner, cost};
use rustc_hash::FxHashSet;
use std::sync::Arc;
use vicus_rdf::TermKind;

/// A table with this number of groups is not in the cache.
const MANY_GROUPS: f64 = 65536.0;

impl Aggregate {
    pub(crate) fn plan(planner: &Planner<'_>, group: &Group, needed: &Slots) -> Physical {
        let before = planner.stop.spent().steps;
        let plan = Aggregate::plan_once(planner, group, needed);
        let steps = planner.stop.spent().steps - before;
        planner.counted_apart(group, &plan, steps, needed).unwrap_or(plan)
    }

    fn plan_once(planner: &Planner<'_>, group: &Group, needed: &Slots) -> Physical {
        let mut inside: Slots = group.keys.iter().copied().collect();
        // Rows are counted without a look at their columns.
        let is_read = |fold: &&algebra::Aggregate| !fold.rows || fold.distinct;
        inside.extend(group.folds.iter().filter(is_read).flat_map(|fold| fold.of.iter().copied()));
        // Duplicates don't change a least value, a greatest value or a sample.
        let set = |fold: &algebra::Aggregate| {
            fold.distinct || matches!(fold.fold, Fold::Least | Fold::Greatest | Fold::Sample)
        };
        let set = planner.optimise && group.folds.iter().all(set);
        let inner = if planner.optimise { without_counted(group) } else { None };
        let inner = inner.as_ref().unwrap_or(&group.inner);
        let (inner, summed) = if planner.optimise { without_summed(group, inner) } else { (inner, Vec::new()) };
        inside.extend(summed.iter().flat_map(|(_, expr)| expr.slots()));
        let mut input = planner.plan(inner, &inside, Goal { set, first: false });
        if group.folds.is_empty() && planner.optimise && inside.iter().all(|key| input.column(*key).is_some()) {
            return Extend::project(planner, Distinct::plan(planner, Extend::project(planner, input, &inside)), needed);
        }
        // If all folds are DISTINCT over the same slots, duplicates are dropped before: DISTINCT can be shared by
        // several boxes, and its tables fit the cache.
        let values = |fold: &algebra::Aggregate| fold.of.iter().copied().collect::<Slots>();
        let is_distinct = planner.optimise
            && group.folds.windows(2).all(|pair| values(&pair[0]) == values(&pair[1]))
            && group.folds.iter().all(|fold| fold.distinct);
        if is_distinct && !group.folds.is_empty() {
            input = Distinct::plan(planner, Extend::project(planner, input, &inside));
        }
        let columns = |fold: &algebra::Aggregate| fold.of.iter().filter_map(|s| input.column(*s)).collect();
        let over_columns = |expr: &Expr| {
            expr.replaced(&|slot| input.column(slot).map_or(Expr::Error, |column| Expr::Slot(Slot(column))))
        };
        let value = |slot: &Slot| summed.iter().find(|(of, _)| of == slot).map(|(_, expr)| over_columns(expr));
        let folds = group.folds.iter().map(|fold| FoldSpec {
            fold: fold.fold.clone(),
            of: fold.of.first().and_then(|slot| input.column(*slot)).filter(|_| !fold.rows),
            value: fold.of.first().and_then(value),
            rows: fold.rows,
            distinct: (fold.distinct && !is_distinct).then(|| columns(fold)),
            passes: false,
        });
        // A key that is never bound has no influence, but one key must stay: without keys there would be a group even
        // without rows.
        let bound = |slot: &Slot| input.column(*slot).is_some();
        let mut keys: Vec<Slot> = group.keys.iter().copied().filter(bound).collect();
        if keys.is_empty() {
            keys.extend(group.keys.first());
        }
        let spec =
            AggregateSpec { keys: keys.iter().map(|slot| input.column(*slot)).collect(), folds: folds.collect() };
        let distinct = |slot| input.estimate.facts.get(slot).map_or(1.0, |facts| facts.distinct.max(1.0));
        let rows = keys.iter().map(distinct).product::<f64>().min(input.estimate.rows.max(1.0));
        let unknown = Facts { distinct: rows, kinds: Kinds::ANY, certain: false };
        let key = |slot| (slot, input.estimate.facts.get(&slot).copied().unwrap_or(unknown));
        let folded = group.folds.iter().map(|fold| match fold.fold {
            Fold::Count => (fold.slot, Facts { kinds: Kinds::of(TermKind::Integer), certain: true, ..unknown }),
            _ => (fold.slot, unknown),
        });
        let facts = keys.iter().copied().map(key).chain(folded).collect();
        let each = match (&keys[..], input.sorted) {
            // The group of the row before.
            ([key], Some(sorted)) if *key == sorted => 2.0 * cost::DISTINCT,
            _ if rows > MANY_GROUPS => 3.0 * cost::DISTINCT + cost::SEARCH_FAR,
            _ => 3.0 * cost::DISTINCT,
        };
        let cost = input.cost + input.estimate.rows * each;
        let made = planner.made(Physical {
            columns: keys.iter().copied().chain(group.folds.iter().map(|fold| fold.slot)).collect(),
            cost,
            startup: cost,
            sorted: None,
            estimate: Estimate { rows, facts }.with_rows(rows),
            op: Op::Aggregate(Aggregate { input: Below::new(input), spec: Arc::new(spec) }),
            conditions: Vec::new(),
        });
        Extend::project(planner, made, needed)
    }
}

/// Removes the topmost computed values that are only summed up or put into one text, and returns them. The aggregate
/// computes them itself, so they never become terms. Making such terms and finding them again took most of the time of
/// `SUM(SECONDS(?at))`.
fn without_summed<'a>(group: &Group, mut inner: &'a Node) -> (&'a Node, Vec<(Slot, &'a Expr)>) {
    let is_summed = |slot: &Slot| {
        let mut folds = group.folds.iter().filter(|fold| fold.of.contains(slot));
        let is_sum =
            |fold: &algebra::Aggregate| matches!(fold.fold, Fold::Sum | Fold::Average | Fold::Concat(_)) && !fold.rows;
        // A value that several aggregates sum up is computed once, below.
        folds.next().is_some_and(is_sum) && folds.next().is_none() && !group.keys.contains(slot)
    };
    let mut summed = Vec::new();
    // DISTINCT values stay below, because their groups are not folded in parts, while several boxes can compute the
    // values.
    while group.folds.iter().all(|fold| !fold.distinct)
        && let Node::Extend { inner: below, slot, expr } = inner
        && !matches!(expr, Expr::Slot(_) | Expr::Constant(_) | Expr::Error)
        && is_summed(slot)
        && expr.is_quick()
        && summed.iter().all(|(_, above): &(Slot, &Expr)| above.uses(*slot) == 0)
    {
        summed.push((*slot, expr));
        inner = below;
    }
    (inner, summed)
}

/// If the topmost computed values are only counted: the same node, which computes only whether there is a value. Then
/// the values need not become terms.
fn without_counted(group: &Group) -> Option<Node> {
    // The slots of counts, and those that other aggregates read.
    let is_count = |fold: &&algebra::Aggregate| fold.fold == Fold::Count && !fold.distinct && !fold.rows;
    let slots =
        |folds: &mut dyn Iterator<Item = &algebra::Aggregate>| folds.flat_map(|fold| fold.of.iter().copied()).collect();
    let counted: Slots = slots(&mut group.folds.iter().filter(is_count));
    let looked_at: Slots = slots(&mut group.folds.iter().filter(|fold| !is_count(fold)));
    let keys: Slots = group.keys.iter().copied().collect();
    let is_counted = |slot: &Slot| counted.contains(slot) && !looked_at.contains(slot) && !keys.contains(slot);
    let is_unranked = |expr: &Expr| !matches!(expr, Expr::Slot(_) | Expr::Constant(_) | Expr::Error);
    // First find out whether there is such a value, as copying the node takes time.
    let (mut at, mut seen, mut any) = (&*group.inner, FxHashSet::default(), false);
    loop {
        at = match at {
            Node::Extend { inner, slot, expr } => {
                any |= is_unranked(expr) && is_counted(slot) && !seen.contains(slot);
                seen.extend(expr.slots());
                inner
            }
            Node::Filter { conditions, inner } => {
                seen.extend(conditions.iter().flat_map(Expr::slots));
                inner
            }
            _ => break,
        }
    }
    if !any {
        return None;
    }
    let mut node = (*group.inner).clone();
    let (mut at, mut seen) = (&mut node, FxHashSet::default());
    loop {
        at = match at {
            Node::Extend { inner, slot, expr } => {
                if is_unranked(expr) && is_counted(slot) && !seen.contains(slot) {
                    *expr = Expr::Has(Box::new(expr.clone()));
                }
                seen.extend(expr.slots());
                inner
            }
            Node::Filter { conditions, inner } => {
                seen.extend(conditions.iter().flat_map(Expr::slots));
                inner
            }
            _ => return Some(node),
        }
    }
}
