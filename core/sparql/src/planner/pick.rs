//! Makes an operator put out other columns, in another order, without a box of its own.

use super::{Op, Physical};
use crate::algebra::Table;
use crate::boxes::extend::Make;
use crate::boxes::sort::By;
use crate::boxes::union::To;
use std::sync::Arc;
use vicus_language::stack::deep;

/// Makes an operator put out these of its columns, in this order. False if it can't; then nothing has changed.
pub(super) fn pick(plan: &mut Physical, kept: &[usize]) -> bool {
    // Computing a column twice may give two values.
    let is_repeated = kept.iter().enumerate().any(|(place, column)| kept[..place].contains(column));
    if is_repeated || kept.len() > MOST || !deep(|| pick_in(&mut plan.op, kept, plan.columns.len())) {
        return false;
    }
    plan.columns = kept.iter().map(|&column| plan.columns[column]).collect();
    plan.estimate = std::mem::take(&mut plan.estimate).restricted(&plan.columns.iter().copied().collect());
    plan.sorted = plan.sorted.filter(|slot| plan.columns.has(*slot));
    true
}

/// With more columns than this, looking for repeated ones takes longer than a box does.
const MOST: usize = 64;

fn pick_in(op: &mut Op, kept: &[usize], width: usize) -> bool {
    match op {
        Op::Scan { spec, .. } => {
            let Some(spec) = Arc::get_mut(spec) else { return false };
            // With fewer columns, other rows would be equal.
            if spec.distinct && kept.len() < width {
                return false;
            }
            spec.output = kept.iter().map(|&column| spec.output[column]).collect();
            true
        }
        Op::IndexJoin { join, .. }
        | Op::Intersection { join, .. }
        | Op::HashJoin { join, .. }
        | Op::Walk { join, .. }
        | Op::Service { join, .. } => {
            let Some(join) = Arc::get_mut(join) else { return false };
            join.output = kept.iter().map(|&column| join.output[column]).collect();
            true
        }
        Op::Filter { output, .. } => {
            *output = kept.iter().map(|&column| output[column]).collect();
            true
        }
        Op::Extend { makes, .. } => {
            let picked: Arc<[Make]> = kept.iter().map(|&column| makes[column].clone()).collect();
            *makes = picked;
            true
        }
        Op::Values { table } => {
            let columns = kept.iter().map(|&column| table.columns[column].clone()).collect();
            *table = Arc::new(Table { columns, rows: table.rows });
            true
        }
        Op::Union { maps, .. } => {
            let to = |column: &To| {
                let to = kept.iter().position(|&kept| kept == column.to as usize)?;
                Some(To { to: to as u32, ..*column })
            };
            let picked: Arc<[Vec<To>]> = maps.iter().map(|map| map.iter().filter_map(to).collect()).collect();
            *maps = picked;
            true
        }
        Op::Sort { input, by } | Op::Top { input, by, .. } => {
            let place = |by: &By| Some(By { column: kept.iter().position(|&kept| kept == by.column)?, ..*by });
            let Some(moved) = by.iter().map(place).collect::<Option<Vec<By>>>() else { return false };
            if !pick(input, kept) {
                return false;
            }
            *by = moved.into();
            true
        }
        // DISTINCT compares all columns.
        Op::Distinct { input } => kept.len() == width && pick(input, kept),
        Op::Slice { input, each: None, .. } => pick(input, kept),
        Op::Nodes { .. } | Op::Slice { .. } | Op::Aggregate { .. } | Op::Construct { .. } | Op::Describe { .. } => {
            false
        }
    }
}
