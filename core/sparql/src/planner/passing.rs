//! Decides which computed columns pass. A column passes if no operator above compares its ids, or keeps them longer
//! than their envelopes.
//!
//! Works on the finished plan, because only this one tells the built side of a join and the conditions that compare
//! ids.

use super::{Op, Physical};
use crate::algebra::Fold;
use crate::boxes::aggregate::FoldSpec;
use crate::boxes::construct::Part;
use crate::boxes::extend::Make;
use crate::boxes::index_probe::Source;
use crate::boxes::join::{JoinSpec, Origin};
use crate::boxes::service::EndpointFrom;
use crate::expression::Expr;
use std::sync::Arc;
use vicus_language::stack::deep;

/// For each column, whether each of its terms must have one id, kept until the run's end.
type Kept = Vec<bool>;

/// Lets computed columns pass if possible. The reader of the plan's rows must neither compare nor keep their ids.
pub(super) fn let_pass(plan: &mut Physical) {
    let computes = |op: &Op| match op {
        Op::Extend { makes, .. } => makes.iter().any(is_computed),
        Op::Aggregate { spec, .. } => spec.folds.iter().any(makes_text),
        _ => false,
    };
    if !plan.all().any(|plan| computes(&plan.op)) {
        return;
    }
    let kept = vec![false; plan.columns.len()];
    below(plan, kept);
}

fn makes_text(fold: &FoldSpec) -> bool {
    matches!(fold.fold, Fold::Concat(_))
}

fn is_computed(make: &Make) -> bool {
    matches!(make, Make::Expr(_))
}

fn below(plan: &mut Physical, kept: Kept) {
    deep(|| of_operator(plan, kept));
}

fn of_operator(plan: &mut Physical, kept: Kept) {
    match &mut plan.op {
        Op::Values { .. } | Op::Scan { .. } | Op::Nodes { .. } => {}
        Op::Walk { input, walk, join, .. } => {
            let mut inner = probed(join, &kept, input);
            compare(&mut inner, [Some(&walk.start), walk.target.as_ref()].into_iter().flatten());
            below(input, inner);
        }
        Op::IndexJoin { input, index, join, .. } => {
            let mut inner = probed(join, &kept, input);
            compare(&mut inner, index.prefix.iter().chain(index.checks.iter().map(|(_, source)| source)));
            below(input, inner);
        }
        Op::Intersection { input, lists, join, .. } => {
            let mut inner = probed(join, &kept, input);
            compare(&mut inner, lists.iter().flat_map(|list| &list.prefix));
            below(input, inner);
        }
        Op::Service { input, service, join } => {
            let mut inner = probed(join, &kept, input);
            let endpoint = match service.endpoint {
                EndpointFrom::Column(column) => Some(column),
                EndpointFrom::Iri(_) | EndpointFrom::Unbound => None,
            };
            let given = service.variables.iter().filter_map(|variable| variable.input);
            given.chain(endpoint).for_each(|column| inner[column] = true);
            below(input, inner);
        }
        Op::HashJoin { probe, build, hash, join } => {
            let mut inner = probed(join, &kept, probe);
            hash.keys.iter().for_each(|key| inner[key.probe] = true);
            below(probe, inner);
            all_kept(build);
        }
        Op::Filter { input, condition, output } => {
            let mut inner = vec![false; input.columns.len()];
            output.iter().zip(&kept).for_each(|(&column, kept)| inner[column] |= kept);
            condition.compared().into_iter().for_each(|column| inner[column] = true);
            below(input, inner);
        }
        Op::Extend { input, makes } => {
            let mut inner = vec![false; input.columns.len()];
            let made = makes.iter().zip(&kept).map(|(make, &kept)| match make {
                Make::Column(column) => {
                    inner[*column] |= kept;
                    Make::Column(*column)
                }
                Make::Expr(expr) if expr.has_exists() => {
                    // EXISTS is given ids.
                    expr.slots().into_iter().for_each(|slot| inner[slot.0] = true);
                    Make::Expr(expr.clone())
                }
                Make::Expr(expr) if !kept => Make::Passing(expr.clone()),
                other => other.clone(),
            });
            let made: Arc<[Make]> = made.collect();
            *makes = made;
            below(input, inner);
        }
        Op::Union { inputs, maps } => {
            for (input, map) in inputs.iter_mut().zip(maps.iter()) {
                let mut inner = vec![false; input.columns.len()];
                map.iter().for_each(|column| inner[column.from as usize] |= kept[column.to as usize]);
                below(input, inner);
            }
        }
        Op::Distinct { input } | Op::Sort { input, .. } => all_kept(input),
        Op::Top { input, by, .. } => {
            let mut inner = kept;
            by.iter().for_each(|by| inner[by.column] = true);
            below(input, inner);
        }
        Op::Aggregate { input, spec } => {
            let mut inner = vec![false; input.columns.len()];
            let distinct = spec.folds.iter().filter_map(|fold| fold.distinct.as_ref()).flatten();
            spec.keys.iter().flatten().chain(distinct).for_each(|&column| inner[column] = true);
            let folds = spec.keys.len()..;
            if spec.folds.iter().zip(folds.clone()).any(|(fold, column)| makes_text(fold) && !kept[column]) {
                let made = Arc::make_mut(spec);
                for (fold, column) in made.folds.iter_mut().zip(folds) {
                    fold.passes = makes_text(fold) && !kept[column];
                }
            }
            below(input, inner);
        }
        Op::Slice { input, .. } => below(input, kept),
        Op::Construct { input, template } => {
            // Triples without blank nodes are compared.
            let mut inner = vec![false; input.columns.len()];
            for part in template.plain.iter().flatten() {
                if let Part::Column(column) = part {
                    inner[*column] = true;
                }
            }
            below(input, inner);
        }
        Op::Describe { input, .. } => {
            // The box looks passing terms up in the store, and the others have no description.
            let inner = vec![false; input.columns.len()];
            below(input, inner);
        }
    }
}

fn all_kept(plan: &mut Physical) {
    let kept = vec![true; plan.columns.len()];
    below(plan, kept);
}

/// The columns of the probing side kept or compared by a join, apart from its search keys.
fn probed(spec: &JoinSpec, kept: &[bool], input: &Physical) -> Kept {
    let mut inner = vec![false; input.columns.len()];
    let mut mark = |part: &Origin, kept: bool| {
        if let Origin::Left(column) | Origin::Merged(column, _) = part {
            inner[*column] |= kept;
        }
    };
    spec.output.iter().zip(kept).for_each(|(part, &kept)| mark(part, kept));
    spec.condition.compared().into_iter().for_each(|place| mark(&spec.condition_origins[place], true));
    inner
}

fn compare<'a>(kept: &mut Kept, sources: impl Iterator<Item = &'a Source>) {
    for source in sources {
        if let Source::Column(column) = source {
            kept[*column] = true;
        }
    }
}

impl Expr {
    /// Whether it may make terms unknown to both the store and the query.
    pub(crate) fn computes(&self) -> bool {
        matches!(self, Expr::Call(..) | Expr::Arithmetic(..) | Expr::Negate(_))
            || self.children().into_iter().any(Expr::computes)
    }
}
