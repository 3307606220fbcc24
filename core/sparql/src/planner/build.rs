//! Parts of planning several operators: costs, the rows and columns of joins, conditions over columns.

use super::Planner;
use super::columns::Columns;
use super::estimate::{self, Estimate, Facts};
use crate::algebra::{Node, Slot, Slots};
use crate::boxes::join::{JoinKind, JoinSpec, Origin};
use crate::condition::{Condition, Kinds};
use crate::expression::Expr;
use crate::operators::Physical;
use crate::operators::hash_join::{By, Keep};
use vicus_rdf::TermKind;

/// Estimated times, in nanoseconds per row.
pub(crate) mod cost {
    pub(crate) const SCAN: f64 = 2.0;
    /// Searching an index for ascending values, and for values in any order.
    pub(crate) const SEARCH_NEAR: f64 = 10.0;
    pub(crate) const SEARCH_FAR: f64 = 45.0;
    pub(crate) const BUILD: f64 = 25.0;
    pub(crate) const PROBE: f64 = 12.0;
    /// Finding the next value of a list in another list of similar length.
    pub(crate) const MEET: f64 = 8.0;
    /// Dealing a row to one of several boxes by its hash.
    pub(crate) const DEAL: f64 = 8.0;
    /// Making a row of the output.
    pub(crate) const MAKE: f64 = 4.0;
    pub(crate) const CONDITION: f64 = 3.0;
    pub(crate) const SORT: f64 = 80.0;
    pub(crate) const DISTINCT: f64 = 15.0;
    /// Two more boxes, for any number of rows: planning, making, running and dropping the box to build a table and the
    /// box to read for it.
    pub(crate) const TABLE: f64 = 5000.0;
}

/// Steps counted for making an operator; below, for each column of it or of its inputs.
const OPERATOR_STEPS: usize = 128;
const COLUMN_STEPS: usize = 3;
const MANY_COLUMNS: usize = 8192;

/// The operands of a group, and the conditions on their rows.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a> {
    pub(crate) nodes: &'a [Node],
    pub(crate) conditions: &'a [Expr],
}

/// A plan at hand, for comparison with another one.
#[derive(Clone, Copy)]
pub(crate) struct AtHand<'a> {
    pub(crate) plan: &'a Physical,
    /// The steps taken to make it.
    pub(crate) steps: u64,
}

/// The task of a join, for any way to find partners.
#[derive(Clone, Copy)]
pub(crate) struct JoinTask<'a> {
    pub(crate) kind: JoinKind,
    /// Conditions on a pair besides its keys.
    pub(crate) conditions: &'a [Expr],
    /// The slots read above the join.
    pub(crate) needed: &'a Slots,
}

/// The matching pairs of a hash join, besides having the same values in shared slots.
#[derive(Clone, Copy)]
pub(crate) struct Matching<'a> {
    /// Pairs of a probed slot and a built slot with equal values.
    pub(crate) equalities: &'a [(Slot, Slot, By)],
    /// The kept rows among built rows with the same keys.
    pub(crate) keep: Keep,
    /// MINUS: both sides must have a value for at least one key that may be unbound.
    pub(crate) needs_overlap: bool,
}

impl Matching<'_> {
    /// Only shared slots count.
    pub(crate) const SHARED: Matching<'static> = Matching { equalities: &[], keep: Keep::All, needs_overlap: false };
}

/// The slots put out by a join's probe.
#[derive(Clone, Copy)]
pub(crate) struct ProbeOutput<'a> {
    pub(crate) slots: &'a [Slot],
    /// The slots possibly bound on either side.
    pub(crate) merged: &'a Slots,
}

/// Bytes counted for an operator; below, for a column: including the result of lowering.
const OPERATOR_BYTES: usize = 2048;
const COLUMN_BYTES: usize = 256;

impl Planner<'_> {
    /// Counts the steps and bytes of a new operator.
    pub(crate) fn made(&self, plan: Physical) -> Physical {
        let width = plan.columns.len() + plan.inputs().map(|input| input.columns.len()).sum::<usize>();
        // With more columns than this, data is outside of the caches.
        let far = if width > MANY_COLUMNS { 4 } else { 1 };
        self.stop.count_steps(OPERATOR_STEPS + width * COLUMN_STEPS * far);
        self.stop.count_bytes(OPERATOR_BYTES + plan.columns.len() * COLUMN_BYTES);
        plan
    }

    pub(crate) fn compile(&self, conditions: &[Expr], columns: &Columns, estimate: &Estimate) -> Condition {
        let resolved: Vec<Expr> = conditions
            .iter()
            .map(|condition| {
                condition.replaced(&|slot| match columns.place(slot) {
                    Some(column) => Expr::Slot(Slot(column)),
                    None => Expr::Error,
                })
            })
            .collect();
        Condition::new(&resolved, &|column| {
            let facts = estimate.facts.get(&columns[column]);
            facts.map_or((Kinds::ANY, false), |facts| (facts.kinds, facts.certain))
        })
    }

    pub(crate) fn filtered(conditions: &[Expr], estimate: Estimate) -> Estimate {
        let distinct = |slot: Slot| estimate.facts.get(&slot).map_or(1.0, |facts| facts.distinct);
        let kept: f64 = conditions.iter().map(|condition| estimate::selectivity(condition, &distinct)).product();
        let rows = estimate.rows * kept;
        estimate.with_rows(rows)
    }

    /// How a join makes its rows, and its columns. `both` is the estimate of the inner join without conditions.
    pub(crate) fn join_spec(
        &self,
        task: JoinTask<'_>,
        left: &Physical,
        output: ProbeOutput<'_>,
        both: &Estimate,
    ) -> (JoinSpec, Columns) {
        let JoinTask { kind, conditions, needed } = task;
        let ProbeOutput { slots, merged } = output;
        let keeps_right = matches!(kind, JoinKind::Inner | JoinKind::Left);
        let mut columns = Vec::new();
        let mut output = Vec::new();
        let right: Columns = slots.iter().copied().collect();
        let origin = |slot: Slot| match (left.column(slot), right.place(slot)) {
            (Some(column), Some(place)) if merged.contains(&slot) => Some(Origin::Merged(column, place)),
            (Some(column), _) => Some(Origin::Left(column)),
            (None, Some(place)) => Some(Origin::Right(place)),
            (None, None) => None,
        };
        for (column, slot) in left.columns.iter().enumerate().filter(|(_, slot)| needed.contains(slot)) {
            columns.push(*slot);
            let place = right.place(*slot).filter(|_| keeps_right && merged.contains(slot));
            output.push(place.map_or(Origin::Left(column), |place| Origin::Merged(column, place)));
        }
        for slot in slots {
            if needed.contains(slot) && left.column(*slot).is_none() {
                columns.push(*slot);
                output.push(if keeps_right { origin(*slot).expect("it is a new column") } else { Origin::Unbound });
            }
        }
        if let JoinKind::Mark(mark) = kind {
            columns.push(mark);
            output.push(Origin::Marked);
        }
        let condition_slots: Columns = {
            let all: Slots = conditions.iter().flat_map(Expr::slots).collect();
            all.into_iter().filter(|slot| origin(*slot).is_some()).collect()
        };
        let condition = self.compile(conditions, &condition_slots, both);
        let condition_origins = condition_slots.iter().filter_map(|slot| origin(*slot)).collect();
        (JoinSpec { kind, output, condition_origins, condition }, columns.into())
    }

    /// The estimate of a join; `both` is the estimate of the inner join without conditions.
    pub(crate) fn joined(
        &self,
        kind: JoinKind,
        left: &Estimate,
        both: Estimate,
        conditions: &[Expr],
        columns: &[Slot],
    ) -> Estimate {
        let slots: Slots = columns.iter().copied().collect();
        let pairs = Planner::filtered(conditions, both);
        let rows = pairs.rows;
        let mut made = match kind {
            JoinKind::Inner => return pairs.restricted(&slots),
            JoinKind::Left => {
                let mut made = pairs;
                for (slot, facts) in made.facts.iter_mut() {
                    facts.certain = left.is_certain(slot);
                    // A row without partner keeps its own value.
                    if let Some(old) = left.facts.get(&slot) {
                        facts.kinds = facts.kinds.or(old.kinds);
                    }
                }
                made.with_rows(rows.max(left.rows))
            }
            JoinKind::Semi => left.clone().with_rows(left.rows.min(rows)),
            JoinKind::Mark(mark) => {
                let mut made = left.clone();
                made.facts.insert(mark, Facts { distinct: 2.0, kinds: Kinds::of(TermKind::Boolean), certain: true });
                made
            }
            JoinKind::Anti => left.clone().with_rows((left.rows - rows.min(left.rows)).max(left.rows * 0.1)),
        };
        for slot in &slots {
            made.facts.or_insert(*slot, Facts { distinct: 1.0, kinds: Kinds::ANY, certain: false });
        }
        made.restricted(&slots)
    }
}
