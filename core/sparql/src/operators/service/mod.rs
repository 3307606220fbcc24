//! SERVICE: a join whose partners an endpoint finds.

mod boxes;

pub(crate) use boxes::{EndpointFrom, ServiceSpec, Variable};

use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title, kept_of_probe, pick_of_join};
use crate::algebra::{self, Endpoint, Node, Slot, Slots};
use crate::boxes::join::{JoinKind, JoinSpec};
use crate::condition::Kinds;
use crate::explain::Explainer;
use crate::expression::Expr;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use crate::planner::{Facts, Goal, JoinTask, Planner, ProbeOutput};
use smallvec::smallvec;
use std::sync::Arc;

/// How many solutions an endpoint is expected to have for each row.
const SOLUTIONS: f64 = 2.0;

/// Nanoseconds for a question, and for each solution of its answer.
const QUESTION: f64 = 1e7;
const SOLUTION: f64 = 1e4;

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) input: Below,
    pub(crate) service: Arc<ServiceSpec>,
    pub(crate) join: Arc<JoinSpec>,
}

impl Service {
    /// Rows joined with the solutions of an endpoint.
    pub(crate) fn of_node(
        planner: &Planner<'_>,
        inner: &Node,
        service: &Arc<algebra::Service>,
        needed: &Slots,
        goal: Goal,
    ) -> Physical {
        let mut inside = needed.clone();
        inside.extend(service.mentioned());
        // The rows are asked for in blocks, so the first one comes no sooner than the last one of a block.
        let input = planner.plan(inner, &inside, Goal { first: false, ..goal });
        Service::plan(planner, input, service, JoinTask { kind: JoinKind::Inner, conditions: &[], needed })
    }

    /// Like [`Service::of_node`], for planned rows and any kind of join.
    pub(crate) fn plan(
        planner: &Planner<'_>,
        input: Physical,
        service: &Arc<algebra::Service>,
        task: JoinTask<'_>,
    ) -> Physical {
        let JoinTask { kind, conditions, needed } = task;
        let read: Slots = conditions.iter().flat_map(Expr::slots).collect();
        let slots: Vec<Slot> = service
            .slots()
            .filter(|slot| (needed.contains(slot) || read.contains(slot)) && !input.estimate.is_certain(*slot))
            .collect();
        let merged: Slots = slots.iter().copied().filter(|slot| input.column(*slot).is_some()).collect();
        let rows = input.estimate.rows * SOLUTIONS;
        let mut both = input.estimate.clone().with_rows(rows);
        for slot in &slots {
            both.facts.insert(*slot, Facts { distinct: rows.max(1.0), kinds: Kinds::ANY, certain: false });
        }
        let place = |slot: &Slot| service.variables.iter().position(|(_, other)| other == slot);
        let spec = ServiceSpec {
            endpoint: match &service.endpoint {
                Endpoint::Iri(iri) => EndpointFrom::Iri(Arc::clone(iri)),
                Endpoint::Slot(slot) => input.column(*slot).map_or(EndpointFrom::Unbound, EndpointFrom::Column),
            },
            silent: service.silent,
            prologue: Arc::clone(&service.prologue),
            group: Arc::clone(&service.group),
            variables: service
                .variables
                .iter()
                .map(|(name, slot)| Variable { name: name.clone(), input: input.column(*slot) })
                .collect(),
            output: slots.iter().filter_map(place).collect(),
        };
        let (join, columns) = planner.join_spec(task, &input, ProbeOutput { slots: &slots, merged: &merged }, &both);
        let estimate = planner.joined(kind, &input.estimate, both, conditions, &columns);
        let cost = input.cost + QUESTION + rows * SOLUTION;
        planner.made(Physical {
            cost,
            startup: cost,
            sorted: input.sorted.filter(|slot| columns.has(*slot)),
            op: Op::Service(Service { input: Below::new(input), service: Arc::new(spec), join: Arc::new(join) }),
            columns,
            estimate,
            conditions: conditions.to_vec(),
        })
    }
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

    fn let_pass(&mut self, kept: &[bool]) -> Each<StableColumns> {
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
