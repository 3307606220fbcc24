//! CONSTRUCT and DESCRIBE: the operators on top of a query's solutions to make triples of them.

use super::build::cost;
use super::columns::Columns;
use super::estimate::{Estimate, Facts};
use super::{Goal, Planner};
use crate::algebra::{At, Column, Node, Slot, Table};
use crate::condition::Kinds;
use crate::operators::construct::Construct;
use crate::operators::construct::{Part, Template};
use crate::operators::describe::Describe;
use crate::operators::{Below, Op, Physical};
use crate::translate::InTemplate;
use std::sync::Arc;
use vicus_rdf::{Id, Kind};

/// Expected triples of each described resource.
const OF_EACH: f64 = 8.0;

impl Planner<'_> {
    /// The triples of a template for the solutions of a node.
    pub(super) fn constructed(&self, node: &Node, template: &[[InTemplate; 3]], columns: &[Slot; 3]) -> Physical {
        let mut needed = Vec::new();
        for at in template.iter().flatten() {
            needed.extend(if let InTemplate::Slot(slot) = at { Some(*slot) } else { None });
        }
        let needed = needed.into_iter().collect();
        // A set of triples has no duplicates, but each solution has blank nodes of its own.
        let has_blanks = template.iter().flatten().any(|at| matches!(at, InTemplate::Blank(_)));
        let input = self.plan(node, &needed, Goal { set: self.optimise && !has_blanks, first: false });
        let template = Arc::new(self.template(template, &input));
        if template.plain.is_empty() && template.fresh.is_empty() {
            let none = columns.iter().map(|_| Column::new(Vec::new())).collect();
            return self.values(columns, &Table { columns: none, rows: 0 }, &columns.iter().copied().collect());
        }
        let (plain, fresh) = (template.plain.len() as f64, template.fresh.len() as f64);
        let rows = input.estimate.rows;
        let price = rows * (plain * (cost::MAKE + cost::DISTINCT) + fresh * cost::MAKE);
        let op = |input| Op::Construct(Construct { input, template });
        self.made_triples(input, (rows * (plain + fresh), price), columns, op)
    }

    /// The template over the columns of its input. A variable that is never bound makes no triples.
    fn template(&self, template: &[[InTemplate; 3]], input: &Physical) -> Template {
        let part = |at: &InTemplate| match *at {
            InTemplate::Slot(slot) => input.column(slot).map(Part::Column),
            InTemplate::Constant(id) => Some(Part::Constant(id)),
            InTemplate::Blank(number) => Some(Part::Blank(number)),
        };
        let may_be = |part: Part, kinds: &[Kind]| match part {
            Part::Constant(id) => kinds.contains(&id.kind()),
            Part::Column(_) | Part::Blank(_) => true,
        };
        let (mut plain, mut fresh, mut blanks) = (Vec::new(), Vec::new(), 0);
        let mut seen = rustc_hash::FxHashSet::default();
        self.stop.count_steps(template.len() * 3);
        for triple in template {
            let [Some(subject), Some(predicate), Some(object)] = [part(&triple[0]), part(&triple[1]), part(&triple[2])]
            else {
                continue;
            };
            if !may_be(subject, &[Kind::Iri, Kind::Blank]) || !may_be(predicate, &[Kind::Iri]) {
                continue;
            }
            let triple = [subject, predicate, object];
            if !seen.insert(triple) {
                continue;
            }
            let numbers =
                triple.iter().filter_map(|part| if let Part::Blank(number) = part { Some(*number) } else { None });
            match numbers.max() {
                Some(number) => {
                    blanks = blanks.max(number + 1);
                    fresh.push(triple);
                }
                None => plain.push(triple),
            }
        }
        Template { plain, fresh, blanks }
    }

    /// The descriptions in a graph of the values of these slots and of some resources.
    pub(super) fn described(
        &self,
        node: &Node,
        of: &[Slot],
        (resources, graph): (&[Id], At),
        columns: &[Slot; 3],
    ) -> Physical {
        let needed = of.iter().copied().collect();
        let input = self.plan(node, &needed, Goal { set: self.optimise, first: false });
        let rows = (input.estimate.rows * input.columns.len() as f64 + resources.len() as f64) * OF_EACH;
        let price = rows * (cost::SCAN + cost::MAKE);
        let resources = resources.into();
        self.made_triples(input, (rows, price), columns, |input| Op::Describe(Describe { input, resources, graph }))
    }

    fn made_triples(
        &self,
        input: Physical,
        (rows, price): (f64, f64),
        columns: &[Slot; 3],
        op: impl FnOnce(Below) -> Op,
    ) -> Physical {
        let facts = Facts { distinct: rows.max(1.0), kinds: Kinds::ANY, certain: true };
        self.made(Physical {
            cost: input.cost + price,
            startup: input.startup,
            sorted: None,
            op: op(Below::new(input)),
            columns: Columns::from(columns.to_vec()),
            estimate: Estimate { rows, facts: columns.iter().map(|slot| (*slot, facts)).collect() },
            conditions: Vec::new(),
        })
    }
}
