//! SERVICE: chooses the values sent to an endpoint.

use super::build::{JoinTask, ProbeOutput};
use super::estimate::Facts;
use super::{Goal, Planner};
use crate::algebra::{Endpoint, Node, Service, Slot, Slots};
use crate::boxes::join::JoinKind;
use crate::condition::Kinds;
use crate::expression::Expr;
use crate::operators::service::{EndpointFrom, ServiceSpec, Variable};
use crate::operators::{self, Below, Op, Physical};
use std::sync::Arc;

/// How many solutions an endpoint is expected to have for each row.
const SOLUTIONS: f64 = 2.0;

/// Nanoseconds for a question, and for each solution of its answer.
const QUESTION: f64 = 1e7;
const SOLUTION: f64 = 1e4;

impl Planner<'_> {
    /// Rows joined with the solutions of an endpoint.
    pub(super) fn service(&self, inner: &Node, service: &Arc<Service>, needed: &Slots, goal: Goal) -> Physical {
        let mut inside = needed.clone();
        inside.extend(service.mentioned());
        // The rows are asked for in blocks, so the first one comes no sooner than the last one of a block.
        let input = self.plan(inner, &inside, Goal { first: false, ..goal });
        self.ask(input, service, JoinTask { kind: JoinKind::Inner, conditions: &[], needed })
    }

    /// Like [`Planner::service`], for planned rows and any kind of join.
    pub(super) fn ask(&self, input: Physical, service: &Arc<Service>, task: JoinTask<'_>) -> Physical {
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
        let (join, columns) = self.join_spec(task, &input, ProbeOutput { slots: &slots, merged: &merged }, &both);
        let estimate = self.joined(kind, &input.estimate, both, conditions, &columns);
        let cost = input.cost + QUESTION + rows * SOLUTION;
        self.made(Physical {
            cost,
            startup: cost,
            sorted: input.sorted.filter(|slot| columns.has(*slot)),
            op: Op::Service(operators::service::Service {
                input: Below::new(input),
                service: Arc::new(spec),
                join: Arc::new(join),
            }),
            columns,
            estimate,
            conditions: conditions.to_vec(),
        })
    }
}
