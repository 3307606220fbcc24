//! GROUP BY and aggregates.

use super::build::{Op, Physical, cost};
use super::estimate::{Estimate, Facts};
use super::{Goal, Planner};
use crate::algebra::{Fold, Group, Slots};
use crate::boxes::aggregate::{AggregateSpec, FoldSpec};
use crate::condition::Kinds;
use std::sync::Arc;
use vicus_rdf::Kind;

impl Planner<'_> {
    pub(crate) fn aggregate(&self, group: &Group, needed: &Slots) -> Physical {
        let mut inside: Slots = group.keys.iter().copied().collect();
        inside.extend(group.folds.iter().flat_map(|fold| fold.of.iter().copied()));
        // Whether a row comes once or twice is all one to a least value.
        let set = |fold: &crate::algebra::Aggregate| {
            fold.distinct || matches!(fold.fold, Fold::Least | Fold::Greatest | Fold::Sample)
        };
        let set = self.optimise && group.folds.iter().all(set);
        let mut input = self.plan(&group.inner, &inside, Goal { set, first: false });
        // Of the same values all, so that duplicates may go before: DISTINCT is shared among boxes, and sized to the cache.
        let values = |fold: &crate::algebra::Aggregate| fold.of.iter().copied().collect::<Slots>();
        let is_distinct = self.optimise
            && group.folds.windows(2).all(|pair| values(&pair[0]) == values(&pair[1]))
            && group.folds.iter().all(|fold| fold.distinct);
        if is_distinct && !group.folds.is_empty() {
            input = self.distinct(self.project(input, &inside));
        }
        let columns = |fold: &crate::algebra::Aggregate| fold.of.iter().filter_map(|s| input.column(*s)).collect();
        let folds = group.folds.iter().map(|fold| FoldSpec {
            fold: fold.fold.clone(),
            of: fold.of.first().and_then(|slot| input.column(*slot)).filter(|_| !fold.rows),
            rows: fold.rows,
            distinct: (fold.distinct && !is_distinct).then(|| columns(fold)),
        });
        let spec =
            AggregateSpec { keys: group.keys.iter().map(|slot| input.column(*slot)).collect(), folds: folds.collect() };
        let distinct = |slot| input.estimate.facts.get(slot).map_or(1.0, |facts| facts.distinct.max(1.0));
        let rows = group.keys.iter().map(distinct).product::<f64>().min(input.estimate.rows.max(1.0));
        let unknown = Facts { distinct: rows, kinds: Kinds::ANY, certain: false };
        let key = |slot| (slot, input.estimate.facts.get(&slot).copied().unwrap_or(unknown));
        let mut facts: std::collections::BTreeMap<_, _> = group.keys.iter().copied().map(key).collect();
        facts.extend(group.folds.iter().map(|fold| match fold.fold {
            Fold::Count => (fold.slot, Facts { kinds: Kinds::of(Kind::Integer), certain: true, ..unknown }),
            _ => (fold.slot, unknown),
        }));
        let cost = input.cost + input.estimate.rows * cost::DISTINCT;
        let made = Physical {
            columns: group.keys.iter().copied().chain(group.folds.iter().map(|fold| fold.slot)).collect(),
            cost,
            startup: cost,
            sorted: None,
            estimate: Estimate { rows, facts }.with_rows(rows),
            op: Op::Aggregate(Box::new(input), Arc::new(spec)),
            conditions: Vec::new(),
        };
        self.project(made, needed)
    }
}
