//! Searches an index for the partners of each row.

mod boxes;
mod plan;

pub(crate) use boxes::{IndexSpec, Source, Want};
pub(crate) use plan::LAST;

use super::{Below, Each, Physical, PhysicalOperator, StableColumns, Title, kept_of_probe, pick_of_join};
use crate::algebra::Pattern;
use crate::boxes::join::JoinSpec;
use crate::explain::Explainer;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use smallvec::smallvec;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct IndexJoin {
    pub(crate) input: Below,
    pub(crate) pattern: Pattern,
    pub(crate) index: Arc<IndexSpec>,
    pub(crate) join: Arc<JoinSpec>,
}

impl PhysicalOperator for IndexJoin {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        pick_of_join(&mut self.join, kept)
    }

    fn let_pass(&mut self, kept: &[bool]) -> Each<StableColumns> {
        let mut inner = kept_of_probe(&self.join, kept, &self.input);
        let checked = self.index.checks.iter().map(|(_, source)| source);
        self.index.prefix.iter().chain(checked).for_each(|source| source.mark(&mut inner));
        smallvec![inner]
    }

    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let (terms, pace) = (Arc::clone(lowering.terms), lowering.pace(above));
        lowering.each(&self.input, above.and(plan.estimate.rows), plan.columns.len(), || {
            let (index, join) = (Arc::clone(&self.index), Arc::clone(&self.join));
            Draft::new(&terms, "index join", move |terms| boxes::IndexJoin::new(terms, &join, &index, pace))
        })
    }

    fn explain(&self, _: &Physical, explainer: &Explainer<'_>) -> Title {
        let want = match self.index.want {
            Want::All => "",
            Want::Groups => ", one for each group",
            Want::Values => ", one for each value",
            Want::First => ", any one",
        };
        let in_order = if is_in_order(&self.index, &self.input) { ", in order" } else { "" };
        let detail = format!("{:?} {}{in_order}{want}", self.index.order, explainer.pattern(&self.pattern));
        Title::of_join(self.join.kind, "index join", detail)
    }
}

/// Whether rows come in the order of the searched index. Then each search continues at the end of the last one, as in a
/// merge join.
pub(crate) fn is_in_order(index: &IndexSpec, input: &Physical) -> bool {
    match (input.sorted, index.prefix.iter().find(|source| matches!(source, Source::Column(_)))) {
        (Some(slot), Some(Source::Column(column))) => input.columns[*column] == slot,
        _ => false,
    }
}
