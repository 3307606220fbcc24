//! A group: patterns and other operands that are joined, and the conditions on them.

use super::order::{Leaf, MOST, Ordering};
use super::walk::is_open_walk;
use super::{Goal, Physical, Planner};
use crate::algebra::{At, Node, Pattern, Slot, Slots, Table};
use crate::boxes::hash_table::{By, Keep};
use crate::boxes::join::JoinKind;
use crate::condition::Kinds;
use crate::expression::{Compare, Expr};
use crate::limits::Limits;

impl Planner<'_> {
    pub(crate) fn group(&self, nodes: &[Node], conditions: &[Expr], needed: &Slots, goal: Goal) -> Physical {
        if !self.optimise {
            return self.as_written(nodes, conditions, needed, goal);
        }
        // A rewritten operand may bind less than it did where the condition was written.
        let possible: Slots = nodes.iter().flat_map(|node| node.scope().possible).collect();
        let visible = |slot| if possible.contains(&slot) { Expr::Slot(slot) } else { Expr::Error };
        let conditions: Vec<Expr> = conditions.iter().map(|condition| condition.replaced(&visible)).collect();
        let conditions = &conditions[..];
        if nodes.iter().any(is_open_walk) {
            return self.walked_group(nodes, conditions, needed, goal);
        }
        let plan = self.joined_group(nodes, conditions, needed, goal);
        match distributed(nodes, conditions, &self.terms.limits) {
            Some(branches) => {
                let inputs =
                    branches.iter().map(|(nodes, conditions)| self.group(nodes, conditions, needed, goal)).collect();
                let columns = plan.columns.clone();
                let other = self.union(inputs, columns);
                if other.price(goal) < plan.price(goal) { other } else { plan }
            }
            None => plan,
        }
    }

    /// Joins from left to right through hash tables, and then filters: what the reordered plan is tested against.
    fn as_written(&self, nodes: &[Node], conditions: &[Expr], needed: &Slots, goal: Goal) -> Physical {
        let mut all = needed.clone();
        conditions.iter().for_each(|condition| all.extend(condition.slots()));
        nodes.iter().for_each(|node| all.extend(node.scope().possible));
        let leaf = |node: &Node| match node {
            Node::Pattern(pattern) => self.scan(pattern, None, &all, goal),
            other => self.plan(other, &all, goal),
        };
        let mut leaves = nodes.iter().map(leaf);
        let first = leaves.next().unwrap_or_else(|| self.values(&[], &Table::unit(), needed));
        let join = |left, right| self.hash_join(left, right, JoinKind::Inner, &[], &[], Keep::All, false, &all, goal);
        let joined = leaves.fold(first, join);
        self.filter(joined, conditions, needed)
    }

    fn joined_group(&self, nodes: &[Node], conditions: &[Expr], needed: &Slots, goal: Goal) -> Physical {
        let mut nodes = nodes.to_vec();
        let mut conditions = conditions.to_vec();
        let copies = self.unify(&mut nodes, &mut conditions);
        // Groups of groups, so that many operands are looked at in few levels.
        let most = self.terms.limits.ordered_together.clamp(2, MOST);
        while nodes.len() > most {
            nodes = nodes.chunks(most).map(|part| Node::Join(part.to_vec())).collect();
        }
        let mut inside = needed.clone();
        for (copy, original) in &copies {
            if inside.remove(copy) {
                inside.insert(*original);
            }
        }
        let mut wanted = inside.clone();
        conditions.iter().for_each(|condition| wanted.extend(condition.slots()));
        let scopes: Vec<Slots> = nodes.iter().map(|node| node.scope().possible).collect();
        let leaf = |(place, node): (usize, &Node)| match node {
            Node::Pattern(pattern) => Leaf::Pattern(*pattern, self.of_pattern(pattern)),
            node => {
                let others = scopes.iter().enumerate().filter(|(other, _)| *other != place);
                let mut visible = wanted.clone();
                others.for_each(|(_, scope)| visible.extend(scope));
                Leaf::Plan(self.plan(node, &visible, goal))
            }
        };
        let leaves: Vec<Leaf> = nodes.iter().enumerate().map(leaf).collect();
        // A condition without variables is one on the whole.
        let (constant, conditions) = conditions.into_iter().partition(|condition: &Expr| condition.slots().is_empty());
        let joined = Ordering::new(self, leaves, conditions, goal).plan(&inside);
        let mut made = self.filter(joined, &constant, &inside);
        for (copy, original) in copies {
            if needed.contains(&copy) {
                let keep = made.columns.iter().copied().chain([copy]).collect();
                made = self.extend(made, copy, &Expr::Slot(original), &keep);
            }
        }
        self.project(made, needed)
    }

    /// `?a = ?b` where equal values are equal terms makes them one slot, and so a join. Returns the slots that went,
    /// with those that they are copies of.
    pub(crate) fn unify(&self, nodes: &mut [Node], conditions: &mut Vec<Expr>) -> Vec<(Slot, Slot)> {
        let mut copies: Vec<(Slot, Slot)> = Vec::new();
        let mut place = 0;
        while place < conditions.len() {
            let equality = conditions[place].as_slot_equality().and_then(|(a, b)| {
                let (a_kinds, b_kinds) = (self.pattern_kinds(nodes, a)?, self.pattern_kinds(nodes, b)?);
                let by_id = a_kinds.or(b_kinds).equal_by_id() || matches!(conditions[place], Expr::SameTerm(..));
                let goes = only_in_patterns(nodes, b);
                by_id.then_some(if goes { (a, b) } else { (b, a) }).filter(|(_, gone)| only_in_patterns(nodes, *gone))
            });
            let Some((stays, goes)) = equality else {
                place += 1;
                continue;
            };
            conditions.remove(place);
            for node in nodes.iter_mut() {
                if let Node::Pattern(pattern) = node {
                    let renamed = pattern.0.map(|at| if at == At::Slot(goes) { At::Slot(stays) } else { at });
                    *pattern = Pattern(renamed);
                }
            }
            let rename = |slot| Expr::Slot(if slot == goes { stays } else { slot });
            conditions.iter_mut().for_each(|condition| condition.replace(&rename));
            for (_, original) in copies.iter_mut().filter(|(_, original)| *original == goes) {
                *original = stays;
            }
            copies.push((goes, stays));
        }
        copies
    }

    /// What a slot can be, if a pattern binds it.
    fn pattern_kinds(&self, nodes: &[Node], slot: Slot) -> Option<Kinds> {
        let in_pattern = |node: &Node| match node {
            Node::Pattern(pattern) => self.of_pattern(pattern).facts.get(&slot).map(|facts| facts.kinds),
            _ => None,
        };
        nodes.iter().filter_map(in_pattern).reduce(Kinds::and)
    }

    /// Conditions that are equalities between slots of two tables, as keys to join by; the rest stays.
    pub(crate) fn equalities(
        &self,
        left: &Physical,
        right: &Physical,
        conditions: &[Expr],
    ) -> (Vec<(Slot, Slot, By)>, Vec<Expr>) {
        let mut keys = Vec::new();
        let mut rest = Vec::new();
        for condition in conditions {
            let pair = condition.as_slot_equality().and_then(|(a, b)| {
                let fits = |a, b| {
                    let only_right = left.column(b).is_none() && right.estimate.is_certain(b);
                    left.estimate.is_certain(a) && only_right && left.column(a).is_some() && right.column(b).is_some()
                };
                if fits(a, b) { Some((a, b)) } else { fits(b, a).then_some((b, a)) }
            });
            let Some((a, b)) = pair else {
                rest.push(condition.clone());
                continue;
            };
            let kinds = left.estimate.kinds(a).or(right.estimate.kinds(b));
            if matches!(condition, Expr::SameTerm(..)) || kinds.equal_by_id() {
                keys.push((a, b, By::Id));
            } else {
                keys.push((a, b, By::Value));
                rest.push(condition.clone());
            }
        }
        (keys, rest)
    }
}

fn only_in_patterns(nodes: &[Node], slot: Slot) -> bool {
    nodes.iter().all(|node| matches!(node, Node::Pattern(_)) || !node.scope().possible.contains(&slot))
}

/// The group as a union of groups, one for each branch of its first union; `None` if it has no union, or too many.
fn distributed(nodes: &[Node], conditions: &[Expr], limits: &Limits) -> Option<Vec<(Vec<Node>, Vec<Expr>)>> {
    let branches: usize = nodes.iter().map(|node| if let Node::Union(all) = node { all.len() } else { 1 }).product();
    // Each is planned twice, once by itself and once with its branches apart; nested ones would double that each time.
    if nodes.iter().map(unions).sum::<usize>() > limits.unions {
        return None;
    }
    let at = nodes.iter().position(|node| matches!(node, Node::Union(_)))?;
    let Node::Union(all) = &nodes[at] else { unreachable!("found above") };
    if nodes.len() < 2 || branches > limits.branches {
        return None;
    }
    let branch = |branch: &Node| {
        let mut group: Vec<Node> = nodes[..at].iter().chain(&nodes[at + 1..]).cloned().collect();
        let mut conditions = conditions.to_vec();
        match branch {
            Node::Join(inner) => group.extend(inner.iter().cloned()),
            Node::Filter(more, inner) => {
                // The branch's conditions see its own variables only.
                let own = inner.scope();
                let is_inner = more.iter().all(|condition| condition.slots().is_subset(&own.certain));
                match &**inner {
                    Node::Join(inner) if is_inner => {
                        group.extend(inner.iter().cloned());
                        conditions.extend(more.iter().cloned());
                    }
                    _ => group.push(branch.clone()),
                }
            }
            other => group.push(other.clone()),
        }
        let possible: Slots = group.iter().flat_map(|node| node.scope().possible).collect();
        let visible = |slot| if possible.contains(&slot) { Expr::Slot(slot) } else { Expr::Error };
        conditions.iter_mut().for_each(|condition| condition.replace(&visible));
        (group, conditions)
    };
    Some(all.iter().map(branch).collect())
}

/// How many unions there are in a tree.
fn unions(node: &Node) -> usize {
    let here = usize::from(matches!(node, Node::Union(_)));
    here + node.children().into_iter().map(unions).sum::<usize>()
}

/// The only condition, if it compares a slot of the left with one of the right that are ordered as their ids are, as
/// (the right slot, the operator with that slot in front).
pub(crate) fn single_inequality(left: &Physical, right: &Physical, conditions: &[Expr]) -> Option<(Slot, Compare)> {
    let [Expr::Compare(operator, a, b)] = conditions else { return None };
    let (Expr::Slot(a), Expr::Slot(b)) = (&**a, &**b) else { return None };
    if matches!(operator, Compare::Equal | Compare::NotEqual) {
        return None;
    }
    let is_left = |slot: &Slot| left.estimate.is_certain(*slot) && right.column(*slot).is_none();
    let is_right = |slot: &Slot| right.estimate.is_certain(*slot) && left.column(*slot).is_none();
    let (l, r, operator) = if is_left(a) && is_right(b) {
        (a, b, operator.flipped())
    } else if is_left(b) && is_right(a) {
        (b, a, *operator)
    } else {
        return None;
    };
    let kinds = left.estimate.kinds(*l).or(right.estimate.kinds(*r));
    kinds.ordered_by_id().then_some((*r, operator))
}
