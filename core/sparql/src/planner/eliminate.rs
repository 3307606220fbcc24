//! Counts and sets of joined rows without making each row: variables not read above are eliminated one after the other.
//!
//! A join of rows to be counted may have far more rows than its operands: a chain of six patterns over a million
//! triples has billions. The operands of a variable matter to the rest only by their other variables; so these operands
//! are joined alone, and each combination of the other variables is kept once, with the number of its rows as a
//! *weight*. The rest is joined with this result, and in the end the products of the weights are summed up. Where
//! duplicates don't matter, there are no weights. The intermediate results of an acyclic join are then never larger
//! than its operands.
//!
//! Dechter, "Bucket elimination", Artificial Intelligence 113, 1999; Abo Khamis, Ngo, Rudra, "FAQ: questions asked
//! frequently", PODS 2016, for sums of products. As an operator: Yan and Larson, "Eager aggregation and lazy
//! aggregation", VLDB 1995.

use super::build::{AtHand, Operands, cost};
use super::estimate::{self, Estimate, Facts};
use super::walk::is_open_walk;
use super::{Goal, Planner};
use crate::algebra::{Aggregate, Fold, Group, Node, Operand, Slot, Slots};
use crate::condition::Kinds;
use crate::expression::{Arithmetic, Expr};
use crate::operators::{self, Physical};
use vicus_rdf::TermKind;

/// A plan with eliminated variables is bounded by the sizes of its operands; the estimate of the other one assumes
/// evenly distributed values, and errs by a factor such as this with each join: Ioannidis and Christodoulakis, "On the
/// propagation of errors in the size of join results", SIGMOD 1991. So the bounded plan is preferred up to this factor
/// of cost.
pub(super) const ERROR_OF_JOIN: f64 = 1.3;

/// Several variables stay, or those of one operand, only if each of their combinations has this number of rows. A
/// single variable bounds the rows of a join by its number of values, however unevenly these are distributed.
const REDUCED: f64 = 1.5;

/// This many variables are eliminated without asking for the estimated saving.
const MANY: usize = 4;

/// Fewer variables are eliminated from a set if this is estimated to save this share of the cost.
const SAVED: f64 = 0.5;

/// The greatest number of operands; the search for the next variable looks at all of them for each variable.
const MOST: usize = 24;

/// How many steps looking at an operand for a variable counts for.
const STEPS: usize = 8;

/// An operand of the join, or a join of several.
struct Factor {
    node: Node,
    slots: Slots,
    estimate: Estimate,
    /// How many rows each row stands for; `None` for one.
    weight: Option<Slot>,
}

/// A join without the eliminated variables.
struct Eliminated {
    nodes: Vec<Node>,
    conditions: Vec<Expr>,
    /// Each row stands for the product of these.
    weights: Vec<Slot>,
    /// The number of joins made for this plan, and the rows estimated to be dropped by them.
    made: usize,
    dropped: f64,
}

/// Operands joined to eliminate variables.
struct Bucket {
    members: Vec<usize>,
    /// The slots read by the rest.
    kept: Slots,
    estimate: Estimate,
}

impl Planner<'_> {
    /// The group with fewer variables below its counts, planned; `None` if this is not possible or not better.
    pub(crate) fn counted_apart(&self, group: &Group, plan: &Physical, steps: u64, needed: &Slots) -> Option<Physical> {
        if !self.optimise || plan.cost < self.terms.limits.eliminated_from_ns as f64 {
            return None;
        }
        let (nodes, conditions) = as_join(&group.inner)?;
        let certain = &group.inner.scope().certain;
        let is_count = |fold: &Aggregate| {
            fold.fold == Fold::Count
                && !fold.distinct
                && (fold.rows || fold.of.iter().all(|slot| certain.contains(slot)))
        };
        if group.folds.is_empty() || !group.folds.iter().all(is_count) {
            return None;
        }
        let keys: Slots = group.keys.iter().copied().collect();
        let joins = nodes.len().saturating_sub(1);
        let Eliminated { nodes, conditions, weights, .. } = self.eliminated(nodes, conditions, &keys, true)?;
        let inner = Node::Join(nodes).filtered(conditions);
        let (inner, weight) = self.weighed(inner, &weights);
        let sum = |fold: &Aggregate| sum_of(fold.slot, weight);
        let folds = group.folds.iter().map(sum).collect();
        let apart = Group { inner: Operand::new(inner), keys: group.keys.clone(), folds };
        self.if_better(AtHand { plan, steps }, joins, || operators::aggregate::Aggregate::plan(self, &apart, needed))
    }

    /// The join where duplicates don't matter, planned to drop them early; `None` if this is not possible or not
    /// better.
    pub(crate) fn without_duplicates(
        &self,
        operands: Operands<'_>,
        at_hand: AtHand<'_>,
        needed: &Slots,
        goal: Goal,
    ) -> Option<Physical> {
        let (Operands { nodes, conditions }, AtHand { plan, .. }) = (operands, at_hand);
        if !goal.set || goal.first || plan.cost < self.terms.limits.eliminated_from_ns as f64 {
            return None;
        }
        let joins = nodes.len().saturating_sub(1);
        let Eliminated { nodes, conditions, made, dropped, .. } = self.eliminated(nodes, conditions, needed, false)?;
        let always = self.terms.limits.eliminated_from_ns == 0;
        if !always && made < MANY && dropped * cost::SEARCH_FAR < plan.cost * SAVED {
            return None;
        }
        self.if_better(at_hand, joins, || self.group(&nodes, &conditions, needed, goal))
    }

    /// Makes another plan besides the one at hand, with this number of joins, if this may be done once
    /// more; `None` if the other plan is not better.
    fn if_better(&self, at_hand: AtHand<'_>, joins: usize, make: impl FnOnce() -> Physical) -> Option<Physical> {
        let AtHand { plan, steps } = at_hand;
        let other = self.again(plan.cost, steps, make)?;
        let always = self.terms.limits.eliminated_from_ns == 0;
        (always || other.cost < plan.cost * ERROR_OF_JOIN.powi(joins as i32)).then_some(other)
    }

    /// Eliminates variables not in `kept`, the one with the fewest rows next. `None` if there is none.
    fn eliminated(&self, nodes: &[Node], conditions: &[Expr], kept: &Slots, counts: bool) -> Option<Eliminated> {
        let is_strict = |node: &Node| {
            let scope = node.scope();
            scope.possible == scope.certain && !is_open_walk(node) && !node.is_volatile()
        };
        let is_simple = |condition: &Expr| !condition.is_volatile() && !condition.has_exists();
        if !(2..=MOST).contains(&nodes.len()) || !nodes.iter().all(is_strict) || !conditions.iter().all(is_simple) {
            return None;
        }
        let mut factors: Vec<Factor> = nodes.iter().map(|node| self.factor(node)).collect();
        let mut conditions = conditions.to_vec();
        let (mut made, mut dropped) = (0, 0.0);
        while let Some(bucket) = self.next_bucket(&factors, &conditions, kept) {
            made += 1;
            let before = bucket.estimate.rows;
            let mut of_bucket = Vec::new();
            let mut rest = Vec::new();
            for (place, factor) in factors.into_iter().enumerate() {
                if bucket.members.contains(&place) { of_bucket.push(factor) } else { rest.push(factor) }
            }
            let slots: Slots = of_bucket.iter().flat_map(|factor| factor.slots.iter().copied()).collect();
            let (own, others): (Vec<Expr>, Vec<Expr>) = conditions
                .into_iter()
                .partition(|condition| !condition.slots().is_empty() && condition.slots().is_subset(&slots));
            conditions = others;
            rest.push(self.joined_factor(of_bucket, own, bucket, counts));
            dropped += before - rest.last().map_or(before, |factor| factor.estimate.rows);
            factors = rest;
        }
        (made > 0).then(|| Eliminated {
            made,
            dropped,
            conditions,
            weights: factors.iter().filter_map(|factor| factor.weight).collect(),
            nodes: factors.into_iter().map(|factor| factor.node).collect(),
        })
    }

    fn factor(&self, node: &Node) -> Factor {
        let slots = node.scope().possible;
        let estimate = match node {
            Node::Pattern(pattern) => self.of_pattern(pattern),
            other => self.plan(other, &slots, Goal { set: false, first: false }).estimate,
        };
        Factor { node: node.clone(), slots, estimate, weight: None }
    }

    /// The operands to join next: those of the variable with the fewest joined rows.
    fn next_bucket(&self, factors: &[Factor], conditions: &[Expr], kept: &Slots) -> Option<Bucket> {
        let variables: Slots = factors
            .iter()
            .flat_map(|factor| factor.slots.iter().copied())
            .filter(|slot| !kept.contains(slot))
            .collect();
        self.stop.count_steps(STEPS * variables.len() * (factors.len() + conditions.len()));
        let buckets = variables.iter().filter_map(|variable| bucket(*variable, factors, conditions, kept));
        buckets.reduce(|best, other| if other.estimate.rows < best.estimate.rows { other } else { best })
    }

    /// The join of operands, with the slots read by the rest, each combination once.
    fn joined_factor(&self, of_bucket: Vec<Factor>, conditions: Vec<Expr>, bucket: Bucket, counts: bool) -> Factor {
        let weights: Vec<Slot> = of_bucket.iter().filter_map(|factor| factor.weight).collect();
        let mut nodes: Vec<Node> = of_bucket.into_iter().map(|factor| factor.node).collect();
        let joined = if nodes.len() == 1 { nodes.remove(0) } else { Node::Join(nodes) }.filtered(conditions);
        let Bucket { kept, estimate, .. } = bucket;
        let keys: Vec<Slot> = kept.iter().copied().collect();
        let combinations = keys.iter().map(|slot| estimate.distinct(*slot)).product::<f64>();
        let rows = estimate.rows.min(combinations);
        let mut estimate = estimate.restricted(&kept).with_rows(rows);
        if !counts {
            // As DISTINCT it would be left out, because duplicates don't matter above.
            let node = Node::Group(Group { inner: Operand::new(joined), keys, folds: Vec::new() });
            return Factor { node, slots: kept, estimate, weight: None };
        }
        let weight = self.new_slot();
        let (joined, product) = self.weighed(joined, &weights);
        let fold = sum_of(weight, product);
        let node = Node::Group(Group { inner: Operand::new(joined), keys, folds: vec![fold] });
        estimate.facts.insert(weight, Facts { distinct: rows, kinds: Kinds::of(TermKind::Integer), certain: true });
        Factor { node, slots: kept, estimate, weight: Some(weight) }
    }

    /// The node with the product of these slots, and the product's slot; `None` for the product of none.
    fn weighed(&self, node: Node, weights: &[Slot]) -> (Node, Option<Slot>) {
        let product = |all: Expr, weight: &Slot| {
            Expr::Arithmetic(Arithmetic::Multiply, Box::new(all), Box::new(Expr::Slot(*weight)))
        };
        match weights {
            [] => (node, None),
            [weight] => (node, Some(*weight)),
            [first, rest @ ..] => {
                let slot = self.new_slot();
                let product = rest.iter().fold(Expr::Slot(*first), product);
                (Node::Extend { inner: Operand::new(node), slot, expr: product }, Some(slot))
            }
        }
    }
}

/// The operands of a variable; `None` if it can't be eliminated, or nothing would be won.
fn bucket(variable: Slot, factors: &[Factor], conditions: &[Expr], kept: &Slots) -> Option<Bucket> {
    let members: Vec<usize> = (0..factors.len()).filter(|&place| factors[place].slots.contains(&variable)).collect();
    if members.len() == factors.len() {
        return None;
    }
    let slots: Slots = members.iter().flat_map(|&place| factors[place].slots.iter().copied()).collect();
    let is_own = |condition: &Expr| condition.slots().is_subset(&slots);
    let others = (0..factors.len()).filter(|place| !members.contains(place));
    let mut read: Slots = others.flat_map(|place| factors[place].slots.iter().copied()).collect();
    read.extend(conditions.iter().filter(|condition| !is_own(condition)).flat_map(Expr::slots));
    if read.contains(&variable) {
        return None;
    }
    let rest: Slots = slots.iter().copied().filter(|slot| read.contains(slot) || kept.contains(slot)).collect();
    // An operand without links to the rest stays: a sum over no rows is a row.
    if rest.is_empty() {
        return None;
    }
    let estimate = estimate::join(members.iter().map(|&place| &factors[place].estimate));
    let combinations = rest.iter().map(|slot| estimate.distinct(*slot)).product::<f64>();
    if (members.len() == 1 || rest.len() > 1) && estimate.rows < combinations * REDUCED {
        return None;
    }
    Some(Bucket { members, kept: rest, estimate })
}

/// The sum of weights, or the number of rows.
fn sum_of(slot: Slot, weight: Option<Slot>) -> Aggregate {
    match weight {
        Some(weight) => Aggregate { slot, fold: Fold::Sum, of: vec![weight], rows: false, distinct: false },
        None => Aggregate { slot, fold: Fold::Count, of: Vec::new(), rows: true, distinct: false },
    }
}

/// The operands and conditions of a join.
fn as_join(node: &Node) -> Option<(&[Node], &[Expr])> {
    match node {
        Node::Join(nodes) => Some((nodes, &[])),
        Node::Filter { conditions, inner } => match &**inner {
            Node::Join(nodes) => Some((nodes, conditions)),
            _ => None,
        },
        _ => None,
    }
}
