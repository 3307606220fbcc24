//! How a hash join is planned: its keys, and the rows kept in its table.

use super::{By, HashJoin, HashSpec, Keep, Key};
use crate::algebra::{Slot, Slots};
use crate::boxes::join::JoinKind;
use crate::expression::Expr;
use crate::operators::{Below, Op, Physical};
use crate::planner::{Goal, JoinTask, Matching, Planner, ProbeOutput, cost, estimate};
use std::sync::Arc;

impl HashJoin {
    /// Builds one side into a table and probes it with the other.
    pub(crate) fn plan(
        planner: &Planner<'_>,
        probe: Physical,
        build: Physical,
        matching: Matching<'_>,
        task: JoinTask<'_>,
        goal: Goal,
    ) -> Physical {
        let Matching { equalities, keep, needs_overlap } = matching;
        let JoinTask { kind, conditions, needed } = task;
        let mut keys = Vec::new();
        let mut merged = Slots::new();
        for (column, slot) in probe.columns.iter().enumerate() {
            let Some(built) = build.column(*slot) else { continue };
            let strict = probe.estimate.is_certain(*slot) && build.estimate.is_certain(*slot);
            let by = if strict { By::Id } else { By::Loose };
            keys.push(Key { probe: column, build: built, by });
            if !probe.estimate.is_certain(*slot) {
                merged.insert(*slot);
            }
        }
        for (a, b, by) in equalities {
            let probe = probe.column(*a).expect("an equality's left slot is a column of the probe");
            let build = build.column(*b).expect("an equality's right slot is a column of the table");
            keys.push(Key { probe, build, by: *by });
        }
        let mut both = estimate::join([&probe.estimate, &build.estimate].into_iter());
        for (a, b, _) in equalities {
            let distinct = both.distinct(*a).max(both.distinct(*b));
            let rows = both.rows / distinct;
            both = both.with_rows(rows);
        }
        if keep != Keep::All || needs_overlap {
            both = both.clone().with_rows(both.rows.min(probe.estimate.rows));
        }
        let condition_slots: Slots = conditions.iter().flat_map(Expr::slots).collect();
        let new: Vec<Slot> = build
            .columns
            .iter()
            .copied()
            .filter(|slot| probe.column(*slot).is_none() || merged.contains(slot))
            .collect();
        let slots: Vec<Slot> =
            new.iter().copied().filter(|slot| needed.contains(slot) || condition_slots.contains(slot)).collect();
        let kind = match kind {
            JoinKind::Inner if goal.set && !slots.iter().any(|slot| needed.contains(slot)) => JoinKind::Semi,
            other => other,
        };
        let is_exact = keys.iter().all(|key| key.by != By::Value);
        let is_test = matches!(kind, JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_));
        let keep = if is_test && conditions.is_empty() && is_exact { Keep::Any } else { keep };
        let output = slots.iter().map(|slot| build.column(*slot).expect("it is one of its columns")).collect();
        let (join, columns) =
            planner.join_spec(JoinTask { kind, ..task }, &probe, ProbeOutput { slots: &slots, merged: &merged }, &both);
        let hash = HashSpec { keys, keep, output, needs_overlap };
        let estimate = planner.joined(kind, &probe.estimate, both.clone(), conditions, &columns);
        let sorted = probe.sorted.filter(|slot| columns.has(*slot));
        let building = cost::TABLE + build.cost + build.estimate.rows * cost::BUILD;
        planner.made(Physical {
            cost: building + probe.cost + probe.estimate.rows * cost::PROBE + both.rows * cost::MAKE,
            startup: building + probe.startup + cost::PROBE,
            op: Op::HashJoin(HashJoin {
                probe: Below::new(probe),
                build: Below::new(build),
                hash: Arc::new(hash),
                join: Arc::new(join),
            }),
            columns,
            estimate,
            sorted,
            conditions: conditions.to_vec(),
        })
    }
}
