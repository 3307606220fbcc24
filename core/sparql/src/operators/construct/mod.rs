//! CONSTRUCT: the triples of a template, each once.

mod boxes;

pub(crate) use boxes::{Part, Template, is_triple};

use super::distinct::lower_distinct;
use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::{Column, Node, Slot, Table};
use crate::condition::Kinds;
use crate::explain::Explainer;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use crate::operators::values::Values;
use crate::planner::{Columns, Estimate, Facts, Goal, Planner, cost};
use crate::translate::InTemplate;
use smallvec::smallvec;
use std::sync::Arc;
use vicus_flow::BoxId;
use vicus_rdf::Kind;

#[derive(Debug)]
pub(crate) struct Construct {
    pub(crate) input: Below,
    pub(crate) template: Arc<Template>,
}

impl Construct {
    /// The triples of a template for the solutions of a node.
    pub(crate) fn plan(
        planner: &Planner<'_>,
        node: &Node,
        template: &[[InTemplate; 3]],
        columns: &[Slot; 3],
    ) -> Physical {
        let mut needed = Vec::new();
        for at in template.iter().flatten() {
            needed.extend(if let InTemplate::Slot(slot) = at { Some(*slot) } else { None });
        }
        let needed = needed.into_iter().collect();
        // A set of triples has no duplicates, but each solution has blank nodes of its own.
        let has_blanks = template.iter().flatten().any(|at| matches!(at, InTemplate::Blank(_)));
        let input = planner.plan(node, &needed, Goal { set: planner.optimise && !has_blanks, first: false });
        let template = Arc::new(Construct::template(planner, template, &input));
        if template.plain.is_empty() && template.fresh.is_empty() {
            let none = columns.iter().map(|_| Column::new(Vec::new())).collect();
            return Values::plan(
                planner,
                columns,
                &Table { columns: none, rows: 0 },
                &columns.iter().copied().collect(),
            );
        }
        let (plain, fresh) = (template.plain.len() as f64, template.fresh.len() as f64);
        let rows = input.estimate.rows;
        let price = rows * (plain * (cost::MAKE + cost::DISTINCT) + fresh * cost::MAKE);
        let op = |input| Op::Construct(Construct { input, template });
        plan_triples(planner, input, rows * (plain + fresh), price, columns, op)
    }

    /// The template over the columns of its input. A variable that is never bound makes no triples.
    fn template(planner: &Planner<'_>, template: &[[InTemplate; 3]], input: &Physical) -> Template {
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
        planner.stop.count_steps(template.len() * 3);
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
}

impl PhysicalOperator for Construct {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn let_pass(&mut self, _: &[bool]) -> Each<StableColumns> {
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
        // New blank nodes are numbered by one machine.
        let streams = lowering.gathered(streams, from, Lowering::united);
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
        let distinct = lower_distinct(distinct, 3, is_ordered, pace, false, lowering);
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

/// A plan of `rows` triples, made of the input's rows in `price` nanoseconds.
pub(super) fn plan_triples(
    planner: &Planner<'_>,
    input: Physical,
    rows: f64,
    price: f64,
    columns: &[Slot; 3],
    op: impl FnOnce(Below) -> Op,
) -> Physical {
    let facts = Facts { distinct: rows.max(1.0), kinds: Kinds::ANY, certain: true };
    planner.made(Physical {
        cost: input.cost + price,
        startup: input.startup,
        sorted: None,
        op: op(Below::new(input)),
        columns: Columns::from(columns.to_vec()),
        estimate: Estimate { rows, facts: columns.iter().map(|slot| (*slot, facts)).collect() },
        conditions: Vec::new(),
    })
}
