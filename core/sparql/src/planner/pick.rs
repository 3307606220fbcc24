//! Which columns an operator puts out, and in which order: said to those that make columns anyway, so that no box of its own has to.

use super::{Op, Physical};
use crate::algebra::Table;
use crate::boxes::extend::Make;
use crate::boxes::sort::By;
use crate::boxes::union::To;
use crate::stack::deep;
use std::sync::Arc;

/// Has an operator put out these of its columns, in this order. Whether it can: if not, nothing has changed.
pub(super) fn pick(plan: &mut Physical, kept: &[usize]) -> bool {
    // What is computed twice may be two values.
    let is_repeated = kept.iter().enumerate().any(|(place, column)| kept[..place].contains(column));
    if is_repeated || kept.len() > MOST || !deep(|| pick_in(&mut plan.op, kept, plan.columns.len())) {
        return false;
    }
    plan.columns = kept.iter().map(|&column| plan.columns[column]).collect();
    plan.estimate = std::mem::take(&mut plan.estimate).restricted(&plan.columns.iter().copied().collect());
    plan.sorted = plan.sorted.filter(|slot| plan.columns.has(*slot));
    true
}

/// Beyond so many columns it takes longer to look which of them are repeated than a box does.
const MOST: usize = 64;

fn pick_in(op: &mut Op, kept: &[usize], width: usize) -> bool {
    match op {
        Op::Scan(_, spec) => {
            let Some(spec) = Arc::get_mut(spec) else { return false };
            // Which rows are put out once depends on the columns.
            if spec.distinct.is_some() && kept.len() < width {
                return false;
            }
            spec.output = kept.iter().map(|&column| spec.output[column]).collect();
            true
        }
        Op::IndexJoin(.., spec) | Op::HashJoin(.., spec) | Op::Walk(.., spec) => {
            let Some(spec) = Arc::get_mut(spec) else { return false };
            spec.output = kept.iter().map(|&column| spec.output[column]).collect();
            true
        }
        Op::Filter(_, _, output) => {
            *output = kept.iter().map(|&column| output[column]).collect();
            true
        }
        Op::Extend(_, makes) => {
            let picked: Arc<[Make]> = kept.iter().map(|&column| makes[column].clone()).collect();
            *makes = picked;
            true
        }
        Op::Values(table) => {
            let columns = kept.iter().map(|&column| table.columns[column].clone()).collect();
            *table = Arc::new(Table { columns, rows: table.rows });
            true
        }
        Op::Union(_, maps) => {
            let to = |column: &To| {
                let to = kept.iter().position(|&kept| kept == column.to as usize)?;
                Some(To { to: to as u32, ..*column })
            };
            let picked: Arc<[Vec<To>]> = maps.iter().map(|map| map.iter().filter_map(to).collect()).collect();
            *maps = picked;
            true
        }
        Op::Sort(input, by) | Op::Top(input, by, _) => {
            let place = |by: &By| Some(By { column: kept.iter().position(|&kept| kept == by.column)?, ..*by });
            let Some(moved) = by.iter().map(place).collect::<Option<Vec<By>>>() else { return false };
            if !pick(input, kept) {
                return false;
            }
            *by = moved.into();
            true
        }
        // Rows are equal or not in all their columns.
        Op::Distinct(input) => kept.len() == width && pick(input, kept),
        Op::Slice(input, ..) => pick(input, kept),
        Op::Nodes | Op::Aggregate(..) => false,
    }
}
