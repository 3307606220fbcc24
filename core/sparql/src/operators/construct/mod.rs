//! CONSTRUCT: the triples of a template, each once.

mod boxes;

pub(crate) use boxes::{Part, Template, is_triple};

use super::distinct::lower_distinct;
use super::{Below, Each, Kept, Physical, PhysicalOperator, Title};
use crate::explain::Explainer;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use smallvec::smallvec;
use std::sync::Arc;
use vicus_flow::BoxId;

#[derive(Debug)]
pub(crate) struct Construct {
    pub(crate) input: Below,
    pub(crate) template: Arc<Template>,
}

impl PhysicalOperator for Construct {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn let_pass(&mut self, _: &[bool]) -> Each<Kept> {
        // Triples without blank nodes are compared.
        let mut inner = vec![false; self.input.columns.len()];
        for part in self.template.plain.iter().flatten() {
            if let Part::Column(column) = part {
                inner[*column] = true;
            }
        }
        smallvec![inner]
    }

    /// Makes triples in each stream. Triples without blank nodes are dealt, so equal ones meet; the others, on outputs
    /// of their own, differ already. Both go to one union for each stream. The union takes from either, so neither can
    /// block the other.
    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let streams = lowering.add(&self.input, above.and(plan.estimate.rows));
        let (terms, limit, from) = (Arc::clone(lowering.terms), lowering.limit, self.input.columns.len());
        let Template { plain, fresh, .. } = &*self.template;
        let outputs = usize::from(!plain.is_empty()) + usize::from(!fresh.is_empty());
        let triples = lowering.schema(3);
        let made: Vec<BoxId> = streams
            .into_iter()
            .map(|stream| {
                let template = Arc::clone(&self.template);
                let draft =
                    Draft::new(&terms, "construct", move |terms| boxes::Construct::new(terms, &template, limit));
                let draft = (0..outputs).fold(draft.input(&lowering.schema(from)), |draft, _| draft.output(&triples));
                let made = lowering.place(draft);
                lowering.net.connect(stream, made.input(0));
                made
            })
            .collect();
        if plain.is_empty() {
            return made.iter().map(|made| made.output(0)).collect();
        }
        let (is_ordered, pace) = (self.input.behaviour().is_ordered(), lowering.pace(above));
        let distinct = made.iter().map(|made| made.output(0)).collect();
        let distinct = lower_distinct(distinct, 3, is_ordered, pace, lowering);
        if fresh.is_empty() {
            return distinct;
        }
        let pairs = distinct.into_iter().zip(made);
        pairs.map(|(plain, made)| lowering.united(smallvec![plain, made.output(1)], 3)).collect()
    }

    /// The first triples of the template.
    fn explain(&self, _: &Physical, explainer: &Explainer<'_>) -> Title {
        const SHOWN: usize = 4;
        let part = |part: &Part| match *part {
            Part::Column(column) => explainer.slot(self.input.columns[column]),
            Part::Constant(id) => explainer.id(id),
            Part::Blank(number) => format!("_:{number}"),
        };
        let triple = |triple: &[Part; 3]| triple.iter().map(part).collect::<Vec<_>>().join(" ");
        let Template { plain, fresh, .. } = &*self.template;
        let shown: Vec<String> = plain.iter().chain(fresh).take(SHOWN).map(triple).collect();
        let more = plain.len() + fresh.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Title::new("construct", format!("{}{more}", shown.join(" . ")))
    }
}
