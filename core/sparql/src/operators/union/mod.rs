//! The rows of all inputs.

mod boxes;

pub(crate) use boxes::To;

use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::{Node, Slot, Slots};
use crate::condition::Kinds;
use crate::explain::Explainer;
use crate::lower::{Lowering, Pipeline, Streams};
use crate::planner::{Columns, Estimate, Facts, Goal, Planner};
use smallvec::SmallVec;
use std::sync::Arc;
use vicus_flow::{BoxModel, OutputId};

#[derive(Debug)]
pub(crate) struct Union {
    pub(crate) inputs: Vec<Below>,
    /// For each input, the targets of its columns.
    pub(crate) maps: Arc<[Vec<To>]>,
}

impl Union {
    /// The union of these nodes; `all` has the slots bound by any of them.
    pub(crate) fn of_nodes(planner: &Planner<'_>, nodes: &[Node], all: &Slots, needed: &Slots, goal: Goal) -> Physical {
        // With very many variables, each branch may have its own.
        let own = |node: &Node| -> Slots { node.scope().possible.intersection(needed).copied().collect() };
        let inputs = nodes.iter().map(|node| planner.plan(node, &own(node), goal)).collect();
        let columns: Columns = all.intersection(needed).copied().collect();
        Union::plan(planner, inputs, columns)
    }

    pub(crate) fn plan(planner: &Planner<'_>, inputs: Vec<Physical>, columns: impl Into<Columns>) -> Physical {
        let columns = columns.into();
        let map = |input: &Physical| {
            let to = |(from, slot): (usize, &Slot)| Some(To { from: from as u32, to: columns.place(*slot)? as u32 });
            input.columns.iter().enumerate().filter_map(to).collect()
        };
        let maps: Vec<Vec<To>> = inputs.iter().map(map).collect();
        let rows = inputs.iter().map(|input| input.estimate.rows).sum();
        let none = Facts { distinct: 0.0, kinds: Kinds::NONE, certain: true };
        let mut all: Vec<(Facts, usize)> = vec![(none, 0); columns.len()];
        for input in &inputs {
            for (slot, facts) in input.estimate.facts.iter() {
                let Some(place) = columns.place(slot) else { continue };
                let (all, holders) = &mut all[place];
                all.distinct += facts.distinct;
                all.kinds = all.kinds.or(facts.kinds);
                all.certain &= facts.certain;
                *holders += 1;
            }
        }
        let is_of_all = |holders: usize| holders == inputs.len();
        let facts = columns
            .iter()
            .zip(all)
            .map(|(slot, (facts, holders))| (*slot, Facts { certain: facts.certain && is_of_all(holders), ..facts }));
        let facts = facts.collect();
        planner.made(Physical {
            cost: inputs.iter().map(|input| input.cost).sum(),
            startup: inputs.iter().map(|input| input.startup).fold(f64::INFINITY, f64::min),
            op: Op::Union(Union { inputs: inputs.into_iter().map(Below::new).collect(), maps: maps.into() }),
            columns,
            estimate: Estimate { rows, facts },
            sorted: None,
            conditions: Vec::new(),
        })
    }
}

impl PhysicalOperator for Union {
    fn inputs(&self) -> Each<&Below> {
        self.inputs.iter().collect()
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        self.inputs.iter_mut().collect()
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        let to = |column: &To| {
            let to = kept.iter().position(|&kept| kept == column.to as usize)?;
            Some(To { to: to as u32, ..*column })
        };
        self.maps = self.maps.iter().map(|map| map.iter().filter_map(to).collect()).collect();
        true
    }

    fn let_pass(&mut self, kept: &[bool]) -> Each<StableColumns> {
        let kept_of = |(input, map): (&Below, &Vec<To>)| {
            let mut inner = vec![false; input.columns.len()];
            map.iter().for_each(|column| inner[column.from as usize] |= kept[column.to as usize]);
            inner
        };
        self.inputs.iter().zip(self.maps.iter()).map(kept_of).collect()
    }

    /// Adds as many boxes as the input with the most streams has.
    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let (width, here) = (plan.columns.len(), above.and(plan.estimate.rows));
        let mut streams: Vec<Streams> = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            streams.push(lowering.add(input, here));
            if lowering.count_links(streams.last().map_or(0, SmallVec::len)) {
                break;
            }
        }
        let degree = streams.iter().map(SmallVec::len).max().unwrap_or(1);
        let mut made = Streams::new();
        for replica in 0..degree {
            let mine: Vec<(usize, OutputId)> = streams
                .iter()
                .enumerate()
                .flat_map(|(operand, streams)| streams.iter().skip(replica).step_by(degree).map(move |&s| (operand, s)))
                .collect();
            let maps: Arc<[Vec<To>]> = match degree {
                1 => Arc::clone(&self.maps),
                _ => mine.iter().map(|(operand, _)| self.maps[*operand].clone()).collect(),
            };
            let widths: Vec<usize> = mine.iter().map(|(operand, _)| self.inputs[*operand].columns.len()).collect();
            let senders: Streams = mine.into_iter().map(|(_, stream)| stream).collect();
            let model = BoxModel::new("union", move || boxes::Union::new(&maps, width));
            made.extend(lowering.over(&senders, &widths, width, model));
        }
        made
    }

    fn explain(&self, _: &Physical, _: &Explainer<'_>) -> Title {
        Title::new("union", "")
    }
}
