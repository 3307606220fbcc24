//! SERVICE: a join whose partners an endpoint finds.

mod boxes;

pub(crate) use boxes::{EndpointFrom, ServiceSpec, Variable};

use super::{Below, Each, Kept, Physical, PhysicalOperator, Title, kept_of_probe, pick_of_join};
use crate::boxes::join::JoinSpec;
use crate::explain::Explainer;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use smallvec::smallvec;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) input: Below,
    pub(crate) service: Arc<ServiceSpec>,
    pub(crate) join: Arc<JoinSpec>,
}

impl PhysicalOperator for Service {
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
        let endpoint = match self.service.endpoint {
            EndpointFrom::Column(column) => Some(column),
            EndpointFrom::Iri(_) | EndpointFrom::Unbound => None,
        };
        let given = self.service.variables.iter().filter_map(|variable| variable.input);
        given.chain(endpoint).for_each(|column| inner[column] = true);
        smallvec![inner]
    }

    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let pace = lowering.pace(above);
        let input = lowering.single(&self.input, Pipeline::default());
        let (service, join) = (Arc::clone(&self.service), Arc::clone(&self.join));
        let make = move |terms: &_| boxes::Service::new(terms, &join, &service, pace);
        let draft = Draft::new(lowering.terms, "service", make);
        lowering.over(&[input], &[self.input.columns.len()], plan.columns.len(), draft)
    }

    fn explain(&self, _: &Physical, explainer: &Explainer<'_>) -> Title {
        let endpoint = match &self.service.endpoint {
            EndpointFrom::Iri(iri) => format!("<{iri}>"),
            EndpointFrom::Column(column) => explainer.slot(self.input.columns[*column]),
            EndpointFrom::Unbound => "of no value".to_owned(),
        };
        let silent = if self.service.silent { "silent " } else { "" };
        Title::new("service", format!("{silent}{endpoint}"))
    }
}
