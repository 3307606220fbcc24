//! A group: patterns and other joined operands, and conditions on them.

use super::build::{AtHand, JoinTask, Matching, Operands};
use super::order::{Leaf, MOST, Ordering};
use super::walk::is_open_walk;
use super::{Goal, Planner};
use crate::algebra::{At, Node, Operand, Pattern, Scope, Slot, Slots, Table};
use crate::boxes::join::JoinKind;
use crate::condition::Kinds;
use crate::expression::{Compare, Expr};
use crate::limits::QueryLimits;
use crate::operators::Physical;
use crate::operators::extend::Extend;
use crate::operators::filter::Filter;
use crate::operators::hash_join::{By, HashJoin};
use crate::operators::scan::Scan;
use crate::operators::union::Union;
use crate::operators::values::Values;
use rustc_hash::FxHashMap;
use vicus_language::stack::deep;

/// How many operands are ordered together once a query has ordered very many pairs.
const FEWER: usize = 10;

/// The greatest number of replaced slots of a group.
const MOST_COPIES: usize = 64;

/// Steps counted for the facts of a pattern; below, for an operand of a group.
const PATTERN_STEPS: usize = 32;
const LEAF_STEPS: usize = 64;

/// An operand to order within a group.
enum Member<'n> {
    Pattern(Pattern),
    Node(&'n Node),
    /// Several operands of a large group, and the conditions on these operands only.
    Part {
        members: Vec<Member<'n>>,
        scope: Scope,
        conditions: Vec<Expr>,
    },
}

impl<'n> Member<'n> {
    fn of(node: &'n Node) -> Member<'n> {
        match node {
            Node::Pattern(pattern) => Member::Pattern(*pattern),
            other => Member::Node(other),
        }
    }

    fn scope(&self) -> Scope {
        match self {
            Member::Pattern(pattern) => Node::Pattern(*pattern).scope(),
            Member::Node(node) => node.scope(),
            Member::Part { scope, .. } => scope.clone(),
        }
    }

    fn possible(&self) -> Slots {
        match self {
            Member::Pattern(pattern) => pattern.slots().collect(),
            Member::Node(node) => node.scope().possible,
            Member::Part { scope, .. } => scope.possible.clone(),
        }
    }
}

/// The patterns of a group with a slot, by slot; and the slots of all other operands.
fn holders(members: &[Member<'_>]) -> (FxHashMap<Slot, Vec<usize>>, Slots) {
    let mut in_patterns: FxHashMap<Slot, Vec<usize>> = FxHashMap::default();
    let mut elsewhere = Vec::new();
    for (place, member) in members.iter().enumerate() {
        match member {
            Member::Pattern(pattern) => {
                pattern.slots().for_each(|slot| in_patterns.entry(slot).or_default().push(place));
            }
            other => elsewhere.extend(other.possible()),
        }
    }
    (in_patterns, elsewhere.into_iter().collect())
}

impl Planner<'_> {
    pub(crate) fn group(&self, nodes: &[Node], conditions: &[Expr], needed: &Slots, goal: Goal) -> Physical {
        if !self.optimise {
            return self.as_written(nodes, conditions, needed, goal);
        }
        // After rewriting, an operand may bind fewer slots than at the condition's written place.
        let mut visible_conditions = Vec::new();
        if !conditions.is_empty() {
            let possible: Slots = nodes.iter().flat_map(|node| node.scope().possible).collect();
            self.stop.count_steps(possible.len());
            let visible = |slot| if possible.contains(&slot) { Expr::Slot(slot) } else { Expr::Error };
            visible_conditions.extend(conditions.iter().map(|condition| condition.replaced(&visible)));
        }
        let conditions = &visible_conditions[..];
        if nodes.iter().any(is_open_walk) {
            return self.walked_group(nodes, conditions, needed, goal);
        }
        if let Some((nodes, conditions)) = with_union_apart(nodes, conditions, &self.terms.limits) {
            return self.joined_group(&nodes, &conditions, needed, goal);
        }
        let before = self.stop.spent().steps;
        let mut plan = self.joined_group(nodes, conditions, needed, goal);
        if let Some(branches) = distributed(nodes, conditions, &self.terms.limits) {
            let inputs =
                branches.iter().map(|(nodes, conditions)| self.group(nodes, conditions, needed, goal)).collect();
            let columns = plan.columns.clone();
            let other = Union::plan(self, inputs, columns);
            if other.price(goal) < plan.price(goal) {
                plan = other;
            }
        }
        if plan.cost >= self.terms.limits.tried_from_ns as f64
            && let Some(later) = with_test_last(nodes, conditions)
        {
            let steps = self.stop.spent().steps - before;
            let other = self.again(plan.cost, steps, || self.plan(&later, needed, goal));
            if let Some(other) = other.filter(|other| other.price(goal) < plan.price(goal)) {
                plan = other;
            }
        }
        let steps = self.stop.spent().steps - before;
        let operands = Operands { nodes, conditions };
        if let Some(other) = self.with_disjuncts_apart(operands, AtHand { plan: &plan, steps }, needed, goal) {
            plan = other;
        }
        let steps = self.stop.spent().steps - before;
        if let Some(other) = self.with_keys_inside(operands, AtHand { plan: &plan, steps }, needed, goal) {
            plan = other;
        }
        self.without_duplicates(operands, AtHand { plan: &plan, steps }, needed, goal).unwrap_or(plan)
    }

    /// Joins from left to right with hash tables, and then filters: the reference for tests of reordered plans.
    fn as_written(&self, nodes: &[Node], conditions: &[Expr], needed: &Slots, goal: Goal) -> Physical {
        let mut all = needed.clone();
        all.extend(conditions.iter().flat_map(Expr::slots).chain(nodes.iter().flat_map(|node| node.scope().possible)));
        // The operators are nested, so their columns add up.
        if self.stop.count_steps(16 * nodes.len() * nodes.len()) {
            return Values::plan(self, &[], &Table::unit(), needed);
        }
        let leaf = |node: &Node| match node {
            Node::Pattern(pattern) => Scan::plan(self, pattern, None, &all, goal),
            other => self.plan(other, &all, goal),
        };
        let mut leaves = nodes.iter().map(leaf);
        let first = leaves.next().unwrap_or_else(|| Values::plan(self, &[], &Table::unit(), needed));
        let task = JoinTask { kind: JoinKind::Inner, conditions: &[], needed: &all };
        let join = |left, right| HashJoin::plan(self, left, right, Matching::SHARED, task, goal);
        let joined = leaves.fold(first, join);
        Filter::plan(self, joined, conditions, needed)
    }

    pub(crate) fn joined_group(&self, nodes: &[Node], conditions: &[Expr], needed: &Slots, goal: Goal) -> Physical {
        let mut members: Vec<Member<'_>> = nodes.iter().map(Member::of).collect();
        let mut conditions = conditions.to_vec();
        let copies = self.unify(&mut members, &mut conditions);
        let mut inside = needed.clone();
        for (copy, original) in &copies {
            if inside.remove(copy) {
                inside.insert(*original);
            }
        }
        // A condition without variables applies to the whole group.
        let (constant, conditions): (Vec<Expr>, Vec<Expr>) =
            conditions.into_iter().partition(|condition| condition.slots().is_empty());
        let joined = self.members(members, conditions, &inside, goal);
        let made = Filter::plan(self, joined, &constant, &inside);
        let values: Vec<(Slot, Expr)> = copies
            .into_iter()
            .filter(|(copy, _)| needed.contains(copy))
            .map(|(copy, original)| (copy, Expr::Slot(original)))
            .collect();
        if values.is_empty() {
            return Extend::project(self, made, needed);
        }
        let values: Vec<(Slot, &Expr)> = values.iter().map(|(slot, expr)| (*slot, expr)).collect();
        Extend::plan_all(self, made, &values, needed)
    }

    /// The join of operands, filtered by conditions.
    fn members(&self, mut members: Vec<Member<'_>>, mut conditions: Vec<Expr>, needed: &Slots, goal: Goal) -> Physical {
        if self.stop.count_steps(members.len()) {
            return Values::plan(self, &[], &Table { columns: Vec::new(), rows: 0 }, needed);
        }
        // Groups larger than `most` are nested, which bounds the work of ordering. Part of a very large group has far
        // more join orders than patterns, so parts become smaller once many pairs have been ordered.
        let together = self.terms.limits.ordered_together.clamp(2, MOST);
        let pairs = members.len() * members.len().min(together);
        let most = match self.pairs.get().checked_sub(pairs) {
            Some(left) => {
                self.pairs.set(left);
                together
            }
            None => together.min(FEWER),
        };
        while members.len() > most {
            members = self.parts(members, most, &mut conditions);
        }
        let mut wanted = Slots::new();
        let (mut holders, mut scopes): (FxHashMap<Slot, usize>, Vec<Slots>) = (FxHashMap::default(), Vec::new());
        if members.iter().all(|member| matches!(member, Member::Pattern(_))) {
            // Patterns have few slots, so all of them are kept.
            scopes.resize(members.len(), Slots::new());
        } else {
            wanted = needed.clone();
            wanted.extend(conditions.iter().flat_map(Expr::slots));
            // Slots common to several operands are join keys.
            scopes.extend(members.iter().map(Member::possible));
            scopes.iter().flatten().for_each(|slot| *holders.entry(*slot).or_default() += 1);
        }
        let leaves = members.into_iter().zip(&scopes).map(|(member, scope)| {
            let visible = || scope.iter().copied().filter(|slot| wanted.contains(slot) || holders[slot] > 1).collect();
            match member {
                Member::Pattern(pattern) => Leaf::Pattern(pattern, self.of_pattern(&pattern)),
                Member::Node(node) => Leaf::Plan(self.plan(node, &visible(), goal)),
                Member::Part { members, conditions, .. } => {
                    Leaf::Plan(self.members(members, conditions, &visible(), goal))
                }
            }
        });
        let leaves: Vec<Leaf> = leaves.collect();
        self.stop.count_steps(leaves.len() * LEAF_STEPS + wanted.len() + scopes.iter().map(Slots::len).sum::<usize>());
        Ordering::new(self, leaves, conditions, goal).plan(needed)
    }

    /// Makes groups of `most` operands each; conditions on a single group move into it.
    fn parts<'n>(&self, members: Vec<Member<'n>>, most: usize, conditions: &mut Vec<Expr>) -> Vec<Member<'n>> {
        let mut members = members.into_iter();
        let mut parts: Vec<(Vec<Member<'n>>, Scope, Vec<Expr>)> = Vec::new();
        loop {
            let part: Vec<Member<'n>> = members.by_ref().take(most).collect();
            if part.is_empty() {
                break;
            }
            let scope = Scope::of_join(part.iter().map(Member::scope));
            self.stop.count_steps(scope.possible.len() + part.len());
            parts.push((part, scope, Vec::new()));
        }
        // For each slot, the first part with this slot always bound.
        let mut first: FxHashMap<Slot, usize> = FxHashMap::default();
        for (place, (_, scope, _)) in parts.iter().enumerate() {
            scope.certain.iter().for_each(|slot| _ = first.entry(*slot).or_insert(place));
        }
        for condition in std::mem::take(conditions) {
            let slots = condition.slots();
            let place = slots.iter().filter_map(|slot| first.get(slot)).max();
            match place.filter(|place| slots.is_subset(&parts[**place].1.certain)) {
                Some(&place) => parts[place].2.push(condition),
                None => conditions.push(condition),
            }
        }
        parts.into_iter().map(|(members, scope, conditions)| Member::Part { members, scope, conditions }).collect()
    }

    /// Makes `?a = ?b` one slot if equal values are equal terms, so it becomes a join. Returns the replaced slots, each
    /// with its replacement.
    fn unify(&self, members: &mut [Member<'_>], conditions: &mut Vec<Expr>) -> Vec<(Slot, Slot)> {
        let mut copies: Vec<(Slot, Slot)> = Vec::new();
        if !conditions.iter().any(|condition| condition.as_slot_equality().is_some()) {
            return copies;
        }
        let (mut in_patterns, elsewhere) = holders(members);
        let mut place = 0;
        while place < conditions.len() && copies.len() < MOST_COPIES {
            let equality = conditions[place].as_slot_equality().and_then(|(a, b)| {
                let kinds = |slot| self.pattern_kinds(members, in_patterns.get(&slot)?, slot);
                let (a_kinds, b_kinds) = (kinds(a)?, kinds(b)?);
                let by_id = a_kinds.or(b_kinds).equal_by_id() || matches!(conditions[place], Expr::SameTerm(..));
                let goes = !elsewhere.contains(&b);
                by_id.then_some(if goes { (a, b) } else { (b, a) }).filter(|(_, gone)| !elsewhere.contains(gone))
            });
            let Some((stays, goes)) = equality else {
                place += 1;
                continue;
            };
            self.stop.count_steps(conditions.len());
            conditions.remove(place);
            let renamed = in_patterns.remove(&goes).unwrap_or_default();
            for &member in &renamed {
                if let Member::Pattern(pattern) = &mut members[member] {
                    *pattern = Pattern(pattern.0.map(|at| if at == At::Slot(goes) { At::Slot(stays) } else { at }));
                }
            }
            in_patterns.entry(stays).or_default().extend(renamed);
            let rename = |slot| Expr::Slot(if slot == goes { stays } else { slot });
            conditions.iter_mut().for_each(|condition| condition.replace(&rename));
            for (_, original) in copies.iter_mut().filter(|(_, original)| *original == goes) {
                *original = stays;
            }
            copies.push((goes, stays));
        }
        copies
    }

    /// The kinds of terms possible for a slot, if one of these patterns binds it.
    fn pattern_kinds(&self, members: &[Member<'_>], patterns: &[usize], slot: Slot) -> Option<Kinds> {
        let in_pattern = |place: &usize| match &members[*place] {
            Member::Pattern(pattern) => {
                self.stop.count_steps(PATTERN_STEPS);
                self.of_pattern(pattern).facts.get(&slot).map(|facts| facts.kinds)
            }
            _ => None,
        };
        patterns.iter().filter_map(in_pattern).reduce(Kinds::and)
    }

    /// Makes equalities of computed values, such as `STR(?a) = STR(?b)`, equalities of columns: if one side reads the
    /// left operand only and the other the right one, the operands compute them. The equality fails for a row without a
    /// value, so such rows of the right operand are dropped, and those of the left one unless the join keeps rows
    /// without a partner.
    pub(crate) fn with_computed_keys(
        &self,
        mut left: Physical,
        mut right: Physical,
        mut conditions: Vec<Expr>,
        kind: JoinKind,
    ) -> (Physical, Physical, Vec<Expr>) {
        let drops_left = matches!(kind, JoinKind::Inner | JoinKind::Semi);
        for condition in &mut conditions {
            let Some((a, b)) = condition.as_equality() else { continue };
            let is_of = |expr: &Expr, plan: &Physical, other: &Physical| {
                expr.slots().iter().all(|slot| plan.column(*slot).is_some() && other.column(*slot).is_none())
            };
            let is_forward = is_of(a, &left, &right) && is_of(b, &right, &left);
            if !(is_forward || is_of(a, &right, &left) && is_of(b, &left, &right)) {
                continue;
            }
            let (of_left, of_right) = if is_forward { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) };
            let a = self.with_value(&mut left, of_left, drops_left);
            let b = self.with_value(&mut right, of_right, true);
            let (a, b) = (Box::new(Expr::Slot(a)), Box::new(Expr::Slot(b)));
            *condition = match condition {
                Expr::SameTerm(..) => Expr::SameTerm(a, b),
                _ => Expr::Compare(Compare::Equal, a, b),
            };
        }
        (left, right, conditions)
    }

    /// The slot of an expression's value. Adds a column for it unless it has one. With `bound`, rows without a value
    /// are dropped.
    fn with_value(&self, plan: &mut Physical, expr: Expr, bound: bool) -> Slot {
        let mut all: Slots = plan.columns.iter().copied().collect();
        let take =
            |plan: &mut Physical| std::mem::replace(plan, Values::plan(self, &[], &Table::unit(), &Slots::new()));
        let slot = match expr {
            Expr::Slot(slot) => slot,
            expr => {
                let slot = self.new_slot();
                all.insert(slot);
                *plan = Extend::plan(self, take(plan), slot, &expr, &all);
                slot
            }
        };
        if bound && !plan.estimate.is_certain(slot) {
            *plan = Filter::plan(self, take(plan), &[Expr::Bound(slot)], &all);
            plan.estimate.facts.get_mut(&slot).expect("it is a column").certain = true;
        }
        slot
    }

    /// Divides conditions into join keys (equalities between slots of both sides) and the rest. An equality of values
    /// is both: a key, and a condition to check it. The right slot of a key is always bound; if the left one is
    /// unbound, the row has no partner.
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
                    let of_left =
                        left.column(a).is_some() && (left.estimate.is_certain(a) || right.column(a).is_none());
                    let of_right = right.column(b).is_some() && right.estimate.is_certain(b);
                    of_left && of_right && left.column(b).is_none()
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

/// If the operands fall into two sets without shared variables, and only one of them has unions: the group with that
/// set as a single operand. An example is a sub-select with one row compared with each of the others. Otherwise the
/// rest would be planned and run again for each branch of the unions.
fn with_union_apart(nodes: &[Node], conditions: &[Expr], limits: &QueryLimits) -> Option<(Vec<Node>, Vec<Expr>)> {
    let is_union = |node: &Node| matches!(node, Node::Union(_));
    // Patterns are cheap to repeat for each branch, and then one union is put out.
    let is_cheap = |node: &Node| matches!(node, Node::Pattern(_) | Node::Values { .. } | Node::Union(_));
    if nodes.len() > MOST || !nodes.iter().any(is_union) || nodes.iter().all(is_cheap) {
        return None;
    }
    let mut scopes: Vec<Option<Slots>> = nodes.iter().map(|node| Some(node.scope().possible)).collect();
    let mut slots: Slots = nodes.iter().filter(|node| is_union(node)).flat_map(|node| node.scope().possible).collect();
    let mut reached: Vec<usize> = Vec::new();
    while let Some(at) = scopes.iter().position(|scope| scope.as_ref().is_some_and(|scope| !scope.is_disjoint(&slots)))
    {
        slots.extend(scopes[at].take().expect("it is there"));
        reached.push(at);
    }
    let (mut together, mut apart) = (Vec::new(), Vec::new());
    for (at, node) in nodes.iter().enumerate() {
        if reached.contains(&at) { together.push(node.clone()) } else { apart.push(node.clone()) }
    }
    if together.len() < 2 || apart.iter().all(is_cheap) {
        return None;
    }
    distributed(&together, &[], limits)?;
    let (own, rest): (Vec<Expr>, Vec<Expr>) = conditions.iter().cloned().partition(|condition| {
        let slots_of = condition.slots();
        !slots_of.is_empty() && slots_of.is_subset(&slots) && !condition.is_volatile()
    });
    let together = Node::Join(together);
    apart.push(if own.is_empty() { together } else { Node::Filter { conditions: own, inner: Operand::new(together) } });
    Some((apart, rest))
}

/// If an operand is an OPTIONAL part, EXISTS or MINUS behind something: the same group with that part behind all
/// operands. It must see the same values there, so its common slots with the other operands must always be bound in
/// front of it already.
fn with_test_last(nodes: &[Node], conditions: &[Expr]) -> Option<Node> {
    fn parts(node: &Node) -> Option<(&Operand, &Operand)> {
        match node {
            Node::LeftJoin { left, right, .. }
            | Node::AntiJoin { left, right, .. }
            | Node::SemiJoin { left, right, .. }
            | Node::MarkJoin { left, right, .. }
            | Node::Minus { left, right, .. } => Some((left, right)),
            _ => None,
        }
    }
    let fits = |place: &usize| {
        let Some((left, right)) = parts(&nodes[*place]) else { return false };
        let others = nodes.iter().enumerate().filter(|(other, _)| other != place);
        let mut read: Slots = right.scope().possible.iter().copied().collect();
        read.extend(nodes[*place].exprs().iter().flat_map(Expr::slots));
        others
            .flat_map(|(_, node)| node.scope().possible)
            .all(|slot| left.scope().certain.contains(&slot) || !read.contains(&slot))
    };
    let place = (0..nodes.len()).filter(|_| nodes.len() > 1).find(fits)?;
    let (left, _) = parts(&nodes[place]).expect("it fits");
    let mut group = match &**left {
        Node::Join(nodes) => nodes.clone(),
        other => vec![other.clone()],
    };
    group.extend(nodes.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, node)| node.clone()));
    let certain = Scope::of_join(group.iter().map(Node::scope)).certain;
    let (own, rest): (Vec<Expr>, Vec<Expr>) = conditions
        .iter()
        .cloned()
        .partition(|condition| !condition.is_volatile() && condition.slots().is_subset(&certain));
    let inner = Operand::new(Node::Join(group).filtered(own));
    let last = match nodes[place].clone() {
        Node::LeftJoin { right, conditions, .. } => Node::LeftJoin { left: inner, right, conditions },
        Node::AntiJoin { right, conditions, .. } => Node::AntiJoin { left: inner, right, conditions },
        Node::SemiJoin { right, conditions, .. } => Node::SemiJoin { left: inner, right, conditions },
        Node::MarkJoin { right, conditions, mark, .. } => Node::MarkJoin { left: inner, right, conditions, mark },
        Node::Minus { right, graph, .. } => Node::Minus { left: inner, right, graph },
        other => unreachable!("{other:?} has no right side"),
    };
    Some(last.filtered(rest))
}

/// The group as a union of groups, one for each branch of its first union; `None` without unions, or with too many
/// branches.
fn distributed(nodes: &[Node], conditions: &[Expr], limits: &QueryLimits) -> Option<Vec<(Vec<Node>, Vec<Expr>)>> {
    let at = nodes.iter().position(|node| matches!(node, Node::Union(_)))?;
    let Node::Union(all) = &nodes[at] else { unreachable!("found above") };
    let branches = nodes.iter().map(|node| if let Node::Union(all) = node { all.len() } else { 1 });
    if nodes.len() < 2 || branches.fold(1, usize::saturating_mul) > limits.branches {
        return None;
    }
    // The group is planned twice: unchanged, and with its branches apart. Nested unions would double the plans each
    // time.
    let mut left = limits.unions;
    if !nodes.iter().all(|node| has_unions_within(node, &mut left)) {
        return None;
    }
    let branch = |branch: &Node| {
        let mut group: Vec<Node> = nodes[..at].iter().chain(&nodes[at + 1..]).cloned().collect();
        let mut conditions = conditions.to_vec();
        match branch {
            Node::Join(inner) => group.extend(inner.iter().cloned()),
            Node::Filter { conditions: more, inner } => {
                // The branch's conditions see the branch's variables only.
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

/// Whether a tree has at most `left` unions; subtracts them from `left`.
fn has_unions_within(node: &Node, left: &mut usize) -> bool {
    if matches!(node, Node::Union(_)) {
        match left.checked_sub(1) {
            Some(fewer) => *left = fewer,
            None => return false,
        }
    }
    deep(|| node.children().all(|child| has_unions_within(child, left)))
}

/// If the only condition compares a slot of the left with one of the right, and they are ordered like their ids: the
/// right slot, and the operator with that slot as its first operand.
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
