//! Each row with the values common to several patterns for it.

mod boxes;

pub(crate) use boxes::{LEVEL, ListSpec};

use super::{Below, Each, Kept, Physical, PhysicalOperator, Title, kept_of_probe, pick_of_join};
use crate::algebra::Pattern;
use crate::boxes::join::JoinSpec;
use crate::explain::Explainer;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use smallvec::smallvec;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Intersection {
    pub(crate) input: Below,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) lists: Arc<[ListSpec]>,
    pub(crate) join: Arc<JoinSpec>,
}

impl PhysicalOperator for Intersection {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        pick_of_join(&mut self.join, kept)
    }

    fn let_pass(&mut self, kept: &[bool]) -> Each<Kept> {
        let mut inner = kept_of_probe(&self.join, kept, &self.input);
        self.lists.iter().flat_map(|list| &list.prefix).for_each(|source| source.mark(&mut inner));
        smallvec![inner]
    }

    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let (terms, pace) = (Arc::clone(lowering.terms), lowering.pace(above));
        lowering.each(&self.input, above.and(plan.estimate.rows), plan.columns.len(), || {
            let (lists, join) = (Arc::clone(&self.lists), Arc::clone(&self.join));
            Draft::new(&terms, "intersection", move |terms| boxes::IntersectionJoin::new(terms, &join, &lists, pace))
        })
    }

    fn explain(&self, _: &Physical, explainer: &Explainer<'_>) -> Title {
        let all: Vec<String> = self.patterns.iter().map(|pattern| explainer.pattern(pattern)).collect();
        Title::of_join(self.join.kind, "intersection", format!("of {}", all.join(" and ")))
    }
}
