//! The rows of all inputs.

mod boxes;

pub(crate) use boxes::To;

use super::{Below, Each, Kept, Physical, PhysicalOperator, Title};
use crate::explain::Explainer;
use crate::lower::{Lowering, Pipeline, Streams};
use smallvec::SmallVec;
use std::sync::Arc;
use vicus_flow::{BoxModel, OutputId};

#[derive(Debug)]
pub(crate) struct Union {
    pub(crate) inputs: Vec<Below>,
    /// For each input, the targets of its columns.
    pub(crate) maps: Arc<[Vec<To>]>,
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

    fn let_pass(&mut self, kept: &[bool]) -> Each<Kept> {
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
