//! Other columns: some of the input's, constants, and computed values.

mod boxes;

pub(crate) use boxes::Make;

use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::{Node, Slot, Slots};
use crate::condition::Kinds;
use crate::explain::Explainer;
use crate::expression::Expr;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use crate::planner::{Columns, Facts, Goal, Planner};
use rustc_hash::FxHashSet;
use smallvec::smallvec;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Extend {
    pub(crate) input: Below,
    /// The origin of each column.
    pub(crate) makes: Arc<[Make]>,
}

impl Extend {
    /// Computed values, nested in each other. Independent ones become one operator.
    pub(crate) fn of_node(planner: &Planner<'_>, node: &Node, needed: &Slots, mut goal: Goal) -> Physical {
        let (mut values, mut used): (Vec<(Slot, &Expr)>, FxHashSet<Slot>) = (Vec::new(), FxHashSet::default());
        let mut below = node;
        while let Node::Extend { inner, slot, expr } = below {
            if used.contains(slot) {
                break;
            }
            if needed.contains(slot) {
                values.push((*slot, expr));
                used.extend(expr.slots());
                // Rows equal so far get different values.
                goal.set &= !expr.is_volatile();
            }
            below = inner;
        }
        if values.is_empty() {
            return planner.plan(below, needed, goal);
        }
        // From the innermost to the outermost.
        values.reverse();
        let made: Slots = values.iter().map(|(slot, _)| *slot).collect();
        let mut inside: Slots = needed.iter().copied().filter(|slot| !made.contains(slot)).collect();
        inside.extend(used);
        let input = planner.plan(below, &inside, goal);
        Extend::plan_all(planner, input, &values, needed)
    }

    pub(crate) fn plan(planner: &Planner<'_>, input: Physical, slot: Slot, expr: &Expr, needed: &Slots) -> Physical {
        Extend::plan_all(planner, input, &[(slot, expr)], needed)
    }

    /// Adds columns for expressions. None of these reads another one's slot.
    pub(crate) fn plan_all(
        planner: &Planner<'_>,
        input: Physical,
        values: &[(Slot, &Expr)],
        needed: &Slots,
    ) -> Physical {
        let kept: Vec<usize> =
            (0..input.columns.len()).filter(|&column| needed.contains(&input.columns[column])).collect();
        let mut columns: Vec<Slot> = kept.iter().map(|&column| input.columns[column]).collect();
        let mut makes: Vec<Make> = kept.iter().map(|&column| Make::Column(column)).collect();
        let certain: Slots =
            input.estimate.facts.iter().filter(|(_, facts)| facts.certain).map(|(slot, _)| slot).collect();
        let rows = input.estimate.rows;
        let (mut facts, mut computed) = (Vec::with_capacity(values.len()), 0);
        for &(slot, expr) in values {
            let known = match expr {
                Expr::Constant(id) => Some(Facts { distinct: 1.0, kinds: Kinds::of_id(*id), certain: true }),
                Expr::Slot(other) => input.estimate.facts.get(other).copied(),
                _ => None,
            };
            let make = match expr {
                Expr::Constant(id) => Make::Constant(id.bits()),
                Expr::Error => Make::Constant(0),
                Expr::Slot(other) => input.column(*other).map_or(Make::Constant(0), Make::Column),
                _ => Make::Expr(expr.replaced(&|slot| match input.column(slot) {
                    Some(column) => Expr::Slot(Slot(column)),
                    None => Expr::Error,
                })),
            };
            computed += usize::from(matches!(make, Make::Expr(_)));
            let unknown = Facts { distinct: rows.max(1.0), kinds: expr.kinds(), certain: expr.never_fails(&certain) };
            facts.push((slot, known.unwrap_or(unknown)));
            makes.push(make);
            columns.push(slot);
        }
        let mut made = Extend::arrange(planner, input, makes, columns);
        for (slot, facts) in facts {
            made.estimate.facts.insert(slot, facts);
        }
        made.cost += computed as f64 * rows * 100.0;
        made
    }

    /// Drops all columns not in `needed`.
    pub(crate) fn project(planner: &Planner<'_>, input: Physical, needed: &Slots) -> Physical {
        let kept: Vec<usize> =
            (0..input.columns.len()).filter(|&column| needed.contains(&input.columns[column])).collect();
        if kept.len() == input.columns.len() { input } else { Extend::pick_columns(planner, input, kept) }
    }

    /// Puts out these columns, in this order.
    pub(crate) fn pick_columns(planner: &Planner<'_>, mut input: Physical, kept: Vec<usize>) -> Physical {
        if planner.optimise && input.pick(&kept) {
            return input;
        }
        let columns = kept.iter().map(|&column| input.columns[column]).collect();
        Extend::arrange(planner, input, kept.into_iter().map(Make::Column).collect(), columns)
    }

    /// Other columns. Columns are shared, so this costs next to nothing.
    pub(crate) fn arrange(planner: &Planner<'_>, input: Physical, makes: Vec<Make>, columns: Vec<Slot>) -> Physical {
        let columns = Columns::from(columns);
        let mut estimate = input.estimate.clone().restricted(&columns.iter().copied().collect());
        for slot in columns.iter() {
            estimate
                .facts
                .or_insert(*slot, Facts { distinct: estimate.rows.max(1.0), kinds: Kinds::ANY, certain: false });
        }
        planner.made(Physical {
            cost: input.cost,
            startup: input.startup,
            sorted: input.sorted.filter(|slot| columns.has(*slot)),
            op: Op::Extend(Extend { input: Below::new(input), makes: makes.into() }),
            columns,
            estimate,
            conditions: Vec::new(),
        })
    }
}

impl PhysicalOperator for Extend {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        self.makes = kept.iter().map(|&column| self.makes[column].clone()).collect();
        true
    }

    fn let_pass(&mut self, kept: &[bool]) -> Each<StableColumns> {
        let mut inner = vec![false; self.input.columns.len()];
        let made = self.makes.iter().zip(kept).map(|(make, &kept)| match make {
            Make::Column(column) => {
                inner[*column] |= kept;
                Make::Column(*column)
            }
            Make::Expr(expr) if expr.has_exists() => {
                // EXISTS is given ids.
                expr.slots().into_iter().for_each(|slot| inner[slot.0] = true);
                Make::Expr(expr.clone())
            }
            Make::Expr(expr) if !kept => Make::Passing(expr.clone()),
            other => other.clone(),
        });
        self.makes = made.collect();
        smallvec![inner]
    }

    fn computes(&self) -> bool {
        self.makes.iter().any(|make| matches!(make, Make::Expr(_)))
    }

    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let terms = Arc::clone(lowering.terms);
        lowering.each(&self.input, above, plan.columns.len(), || {
            let makes = Arc::clone(&self.makes);
            Draft::new(&terms, "extend", move |terms| boxes::Extend::new(terms, &makes))
        })
    }

    fn explain(&self, _: &Physical, _: &Explainer<'_>) -> Title {
        Title::new("extend", "")
    }

    fn is_ordered(&self) -> bool {
        self.input.behaviour().is_ordered()
    }
}
