//! EXISTS, the general way: evaluates a pattern for one row, and stops at the first solution.
//!
//! SPARQL 1.1, §18.6, leaves open how a solution's values are put into operators that bind variables. Here the value is
//! bound in each triple pattern, path and table with that variable, and expressions see it. So a variable keeps its
//! name, and a MINUS inside of EXISTS sees it. If the result is the same as a join's, the optimiser makes it a join.
//!
//! Operands of a join are solved in the order of their expected numbers of solutions. The order is chosen again for
//! each partial solution: the operand with the fewest triples for the known values comes next. Operands that must not
//! see the known values are solved once. Answers are remembered by the given values.

use super::{Evaluator, Scratch};
use crate::algebra::{At, Group, Node, Path, Pattern, Slot};
use crate::boxes::parted::Table as _;
use crate::expression::Expr;
use crate::graphs::Active;
use crate::operators::aggregate::{AggregateSpec, FoldSpec, Groups, Rows};
use crate::route::{Automaton, Progress, Search};
use crate::terms::Terms;
use crate::value::total_order;
use hashbrown::{HashMap, HashSet};
use std::cell::Cell;
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_language::stack::deep;
use vicus_rdf::{Id, Order};

/// A solution: ids by slot, 0 for an unbound slot.
type Row = Vec<u64>;

/// Takes a solution; returns false if no more are wanted.
type Emit<'e> = &'e mut dyn FnMut(&mut Solver<'_>, &[u64]) -> bool;

/// An evaluator's memory of the tested patterns.
#[derive(Default, Debug)]
pub(crate) struct Memory {
    patterns: Vec<PatternCache>,
}

/// The memory of one pattern.
#[derive(Debug)]
struct PatternCache {
    node: Arc<Node>,
    /// The number of slots of its solutions.
    width: usize,
    /// Whether the same given values may get different answers.
    is_volatile: bool,
    /// The answers, by the given values.
    answers: HashMap<Row, bool, HashKey>,
    /// The memory for patterns within this one.
    nested: Scratch,
}

impl Memory {
    /// Bytes remembered.
    pub(super) fn bytes(&self) -> u64 {
        let of = |asked: &PatternCache| {
            let answer = size_of::<(Row, bool)>() + 1 + asked.answers.keys().next().map_or(0, |key| key.len() * 8 + 16);
            (asked.answers.capacity() * answer) as u64 + asked.nested.bytes()
        };
        self.patterns.iter().map(of).sum()
    }

    fn pattern(&mut self, key: HashKey, node: &Arc<Node>, outside: impl Iterator<Item = Slot>) -> &mut PatternCache {
        let place = self.patterns.iter().position(|asked| Arc::ptr_eq(&asked.node, node));
        let place = place.unwrap_or_else(|| {
            let slots = node.mentioned().into_iter().chain(outside);
            let width = slots.map(|slot| slot.0 + 1).max().unwrap_or(0);
            self.patterns.push(PatternCache {
                node: Arc::clone(node),
                width,
                is_volatile: node.is_volatile(),
                answers: HashMap::with_hasher(key),
                nested: Scratch::default(),
            });
            self.patterns.len() - 1
        });
        &mut self.patterns[place]
    }
}

/// Whether a pattern has a solution that is compatible with the given values; 0 is an unbound value.
pub(super) fn exists(
    terms: &Arc<Terms>,
    memory: &mut Memory,
    node: &Arc<Node>,
    given: &[(Slot, u64)],
    stopped: Option<&dyn Fn(u64) -> bool>,
) -> bool {
    let asked = memory.pattern(terms.key, node, given.iter().map(|(slot, _)| *slot));
    let key: Row = given.iter().map(|(_, bits)| *bits).collect();
    if let Some(answer) = asked.answers.get(&key) {
        return *answer;
    }
    let width = asked.width;
    let mut row = vec![0; width];
    given.iter().for_each(|(slot, bits)| row[slot.0] = *bits);
    let held = Cell::new(0);
    let with_held = |more: u64| stopped.is_some_and(|stopped| stopped(held.get() + more));
    let evaluator = Evaluator::new(terms).until(&with_held).with(std::mem::take(&mut asked.nested));
    let mut solver = Solver { terms, evaluator, given: row, stopped: &with_held, looked_at: 0, held: &held };
    let mut found = false;
    let nothing = vec![0; width];
    solver.solve(node, &nothing, &mut |solver, row| {
        found = merge(&solver.given, row).is_some();
        !found
    });
    let is_answer = !solver.poll() && !asked.is_volatile;
    asked.nested = solver.evaluator.into_scratch();
    if is_answer {
        if asked.answers.len() >= terms.limits.remembered_answers {
            asked.answers.clear();
        }
        asked.answers.insert(key, found);
    }
    found
}

struct Solver<'a> {
    terms: &'a Arc<Terms>,
    evaluator: Evaluator<'a>,
    given: Row,
    /// Asks whether to give up, given the bytes needed beyond those in `held`.
    stopped: &'a dyn Fn(u64) -> bool,
    /// Triples and collected solutions visited so far.
    looked_at: u32,
    /// Bytes of the collected solutions.
    held: &'a Cell<u64>,
}

/// Whether an operand of a join sees the values that are bound by the operands before it.
fn is_open(node: &Node) -> bool {
    match node {
        Node::Pattern(_) | Node::Path(_) | Node::Values { .. } => true,
        Node::Join(nodes) | Node::Union(nodes) => nodes.iter().all(|node| deep(|| is_open(node))),
        _ => false,
    }
}

/// An operand of a join: to be solved for each partial solution, or solved already.
enum Operand<'n> {
    Open(&'n Node),
    Solved(Vec<Row>),
}

/// Both solutions as one, if they are compatible.
fn merge(a: &[u64], b: &[u64]) -> Option<Row> {
    let fits = a.iter().zip(b).all(|(a, b)| *a == 0 || *b == 0 || a == b);
    fits.then(|| a.iter().zip(b).map(|(a, b)| a | b).collect())
}

impl Solver<'_> {
    /// Counts a triple or solution that was looked at, and polls once for many of them. True if the search has to end.
    fn count_look(&mut self) -> bool {
        self.looked_at = self.looked_at.wrapping_add(1);
        self.looked_at.is_multiple_of(1024) && self.poll()
    }

    fn poll(&self) -> bool {
        (self.stopped)(0)
    }

    fn book(&self, bytes: u64) {
        self.held.set(self.held.get() + bytes);
    }

    /// Books the bytes of a solution that is kept for a while. True if the search has to end.
    fn keep(&mut self, row: &[u64]) -> bool {
        self.book((size_of_val(row) + size_of::<Row>()) as u64);
        self.count_look()
    }

    fn satisfies(&mut self, conditions: &[Expr], row: &[u64]) -> bool {
        conditions.iter().all(|condition| {
            let given = &self.given;
            self.evaluator.holds(condition, &|slot| if row[slot] != 0 { row[slot] } else { given[slot] })
        })
    }

    /// The value at a position of a pattern, or the slot if it is unbound.
    fn at(&self, at: At, current: &[u64]) -> Result<Id, Slot> {
        match at {
            At::Constant(id) => Ok(id),
            // No slot: never bound.
            At::Merged => Err(Slot(usize::MAX)),
            At::Slot(slot) => match current[slot.0] | self.given[slot.0] {
                0 => Err(slot),
                // If both have a value, the two are equal.
                bits => Ok(Id::from_bits(bits)),
            },
        }
    }

    /// Emits each solution that is compatible with `current`, merged with it. False if no more are wanted.
    fn solve(&mut self, node: &Node, current: &[u64], emit: Emit<'_>) -> bool {
        // The recursion goes through each operand of a join and through each `emit`, so both ask for more stack.
        deep(|| self.solve_on(node, current, &mut |solver, row| deep(|| emit(solver, row))))
    }

    fn solve_on(&mut self, node: &Node, current: &[u64], emit: Emit<'_>) -> bool {
        match node {
            Node::Pattern(pattern) => self.pattern(pattern, current, emit),
            Node::Path(path) => self.path(path, current, emit),
            Node::Join(nodes) => self.join(nodes, current, emit),
            Node::Union(nodes) => nodes.iter().all(|node| self.solve(node, current, emit)),
            Node::Values { slots, table } => (0..table.rows).all(|place| {
                let mut row = vec![0; current.len()];
                slots.iter().zip(&table.columns).for_each(|(slot, column)| row[slot.0] = column.ids[place]);
                if merge(&self.given, &row).is_none() {
                    return true;
                }
                merge(current, &row).is_none_or(|row| emit(self, &row))
            }),
            // These operators must not see the values known outside.
            _ => self.alone(node, &mut |solver, row| merge(current, row).is_none_or(|row| emit(solver, &row))),
        }
    }

    fn join(&mut self, nodes: &[Node], current: &[u64], emit: Emit<'_>) -> bool {
        let operand = |node| match node {
            node if is_open(node) => Operand::Open(node),
            // The values known outside don't change its solutions, so they are collected once.
            _ => Operand::Solved(self.collect(node)),
        };
        let operands: Vec<Operand<'_>> = nodes.iter().map(operand).collect();
        let mut open: Vec<&Operand<'_>> = operands.iter().collect();
        self.join_open(&mut open, current, emit)
    }

    /// Joins the operand with the fewest expected solutions first, then the others. At the end, all are in `open`
    /// again.
    fn join_open(&mut self, open: &mut Vec<&Operand<'_>>, current: &[u64], emit: Emit<'_>) -> bool {
        let Some(next) = (0..open.len()).min_by_key(|&place| self.solutions(open[place], current)) else {
            return emit(self, current);
        };
        let operand = open.swap_remove(next);
        let wants_more = match operand {
            Operand::Open(node) => self.solve(node, current, &mut |solver, row| solver.join_open(open, row, emit)),
            Operand::Solved(rows) => rows.iter().all(|row| {
                !self.count_look() && merge(current, row).is_none_or(|row| self.join_open(open, &row, emit))
            }),
        };
        open.push(operand);
        wants_more
    }

    /// The expected number of solutions of an operand for the known values.
    fn solutions(&self, operand: &Operand<'_>, current: &[u64]) -> usize {
        let node = match operand {
            Operand::Open(node) => node,
            Operand::Solved(rows) => return rows.len(),
        };
        match node {
            Node::Pattern(pattern) => {
                let ends = pattern.0.map(|at| self.at(at, current));
                let snapshot = &self.terms.snapshot;
                let index = snapshot.index(snapshot.best_order(ends.map(|end| end.is_ok())));
                let prefix: Vec<Id> = index.order().arrange(ends).into_iter().map_while(Result::ok).collect();
                index.count(&prefix)
            }
            Node::Values { table, .. } => table.rows,
            // A path whose ends are both unknown may begin at any node.
            Node::Path(path) => match (self.at(path.subject, current), self.at(path.object, current)) {
                (Ok(_), Ok(_)) => 1,
                (Err(_), Err(_)) => usize::MAX,
                _ => 64,
            },
            Node::Join(nodes) => {
                let solutions = |node| deep(|| self.solutions(&Operand::Open(node), current));
                nodes.iter().map(solutions).min().unwrap_or(1)
            }
            Node::Union(nodes) => {
                let solutions = |node| deep(|| self.solutions(&Operand::Open(node), current));
                nodes.iter().map(solutions).fold(0, usize::saturating_add)
            }
            _ => usize::MAX / 2,
        }
    }

    fn pattern(&mut self, pattern: &Pattern, current: &[u64], emit: Emit<'_>) -> bool {
        let ends = pattern.0.map(|at| self.at(at, current));
        let snapshot = Arc::clone(&self.terms.snapshot);
        let bound = ends.map(|end| end.is_ok());
        let index = snapshot.index(snapshot.best_order(bound));
        let arranged = index.order().arrange(ends);
        let prefix: Vec<Id> = arranged.into_iter().map_while(Result::ok).collect();
        for number in index.range(&prefix) {
            if self.count_look() {
                return false;
            }
            let quad = index.quad(number);
            let merged = (pattern.graph() == At::Merged).then_some(&self.terms.merged);
            if merged.is_some_and(|merged| !merged.has(quad[3]) || merged.repeats(index, number)) {
                continue;
            }
            let mut row = current.to_vec();
            let fits = ends.iter().zip(quad).zip(pattern.0).all(|((end, id), at)| {
                if let At::Slot(slot) = at {
                    // A slot that stands in two positions was free in both.
                    let free = end.is_err() && row[slot.0] == 0;
                    let same = row[slot.0] == id.bits() || end.is_ok_and(|known| known == id);
                    row[slot.0] = id.bits();
                    free || same
                } else {
                    at == At::Merged || *end == Ok(id)
                }
            });
            if fits && !emit(self, &row) {
                return false;
            }
        }
        true
    }

    fn path(&mut self, path: &Path, current: &[u64], emit: Emit<'_>) -> bool {
        let graph = match (path.graph, self.at(path.graph, current)) {
            (_, Ok(graph)) => Active::One(graph),
            (At::Merged, Err(_)) => Active::Merged(self.terms.merged.clone()),
            (_, Err(slot)) => {
                // In each graph by itself.
                let names: Vec<Id> = self.terms.snapshot.graphs().collect();
                return names.into_iter().all(|name| {
                    let mut row = current.to_vec();
                    row[slot.0] = name.bits();
                    self.path(path, &row, emit)
                });
            }
        };
        let (a, b) = (self.at(path.subject, current), self.at(path.object, current));
        let backward = a.is_err() && b.is_ok();
        let automaton = Arc::new(Automaton::new(&path.route, backward));
        let (near, far, target) =
            if backward { (path.object, path.subject, a) } else { (path.subject, path.object, b) };
        let starts = match if backward { b } else { a } {
            Ok(id) if matches!(near, At::Constant(_)) || graph.has_node(&self.terms.snapshot, id) => vec![id],
            // A path of no steps leads from any term to itself, if the pattern names that term (§18.4).
            Ok(id) if far == At::Constant(id) => vec![id],
            Ok(_) => Vec::new(),
            Err(_) => {
                let keys = |order| graph.keys(&self.terms.snapshot, order, 0).map(|(_, id)| id);
                let mut all: Vec<Id> = keys(Order::Gspo).chain(keys(Order::Gops)).collect();
                all.sort_unstable();
                all.dedup();
                all
            }
        };
        let mut search = Search::new(&self.terms.snapshot, &automaton, self.terms.key);
        for start in starts {
            let target = if near == far { Some(start) } else { target.ok() };
            let mut found = Vec::new();
            search.begin(&graph, start, target, &mut found);
            loop {
                let is_done = search.go_on(&mut 1024, usize::MAX, u64::MAX, &mut found) == Progress::Over;
                for end in found.drain(..) {
                    let mut row = current.to_vec();
                    for (at, bits) in [(near, start.bits()), (far, end)] {
                        if let At::Slot(slot) = at {
                            row[slot.0] = bits;
                        }
                    }
                    if !emit(self, &row) {
                        return false;
                    }
                }
                if is_done {
                    break;
                }
                if self.poll() {
                    return false;
                }
            }
        }
        true
    }

    fn collect(&mut self, node: &Node) -> Vec<Row> {
        let mut rows = Vec::new();
        let nothing = vec![0; self.given.len()];
        self.solve(node, &nothing, &mut |solver, row| {
            rows.push(row.to_vec());
            !solver.keep(row)
        });
        rows
    }

    /// Emits the solutions of an operator that sees the given values only.
    fn alone(&mut self, node: &Node, emit: Emit<'_>) -> bool {
        let nothing = vec![0; self.given.len()];
        match node {
            Node::Filter { conditions, inner } => {
                self.solve(inner, &nothing, &mut |solver, row| !solver.satisfies(conditions, row) || emit(solver, row))
            }
            Node::LeftJoin { left, right, conditions } => {
                let partners = self.collect(right);
                self.solve(left, &nothing, &mut |solver, row| {
                    let mut lonely = true;
                    for partner in &partners {
                        if solver.count_look() {
                            return false;
                        }
                        let Some(pair) = merge(row, partner) else { continue };
                        if solver.satisfies(conditions, &pair) {
                            lonely = false;
                            if !emit(solver, &pair) {
                                return false;
                            }
                        }
                    }
                    !lonely || emit(solver, row)
                })
            }
            Node::SemiJoin { left, right, conditions } | Node::AntiJoin { left, right, conditions } => {
                let wanted = matches!(node, Node::SemiJoin { .. });
                let partners = self.collect(right);
                self.solve(left, &nothing, &mut |solver, row| {
                    let found = partners.iter().any(|partner| {
                        solver.count_look()
                            || merge(row, partner).is_some_and(|pair| solver.satisfies(conditions, &pair))
                    });
                    found != wanted || emit(solver, row)
                })
            }
            Node::MarkJoin { left, right, conditions, mark } => {
                let partners = self.collect(right);
                self.solve(left, &nothing, &mut |solver, row| {
                    let found = partners.iter().any(|partner| {
                        solver.count_look()
                            || merge(row, partner).is_some_and(|pair| solver.satisfies(conditions, &pair))
                    });
                    let mut row = row.to_vec();
                    row[mark.0] = Id::boolean(found).bits();
                    emit(solver, &row)
                })
            }
            Node::Minus { left, right, graph } => {
                let partners = self.collect(right);
                self.solve(left, &nothing, &mut |solver, row| {
                    let takes = |partner: &Row| {
                        let shares = |(slot, (a, b)): (usize, (&u64, &u64))| {
                            *a != 0 && *b != 0 && graph.is_none_or(|graph| graph.0 != slot)
                        };
                        merge(row, partner).is_some() && row.iter().zip(partner).enumerate().any(shares)
                    };
                    partners.iter().any(|partner| solver.count_look() || takes(partner)) || emit(solver, row)
                })
            }
            Node::Extend { inner, slot, expr } => self.solve(inner, &nothing, &mut |solver, row| {
                let given = &solver.given;
                let value = |slot: usize| if row[slot] != 0 { row[slot] } else { given[slot] };
                let made = solver.evaluator.id(expr, &value).bits();
                if made != 0 && given[slot.0] != 0 && made != given[slot.0] {
                    return true;
                }
                let mut row = row.to_vec();
                row[slot.0] = made;
                emit(solver, &row)
            }),
            Node::Group(group) => self.group(group, emit),
            Node::Sort { inner, keys } => {
                let mut rows = self.collect(inner);
                rows.sort_by(|a, b| {
                    let orders = keys.iter().map(|key| {
                        let id = |row: &Row| Id::from_bits(row[key.slot.0]);
                        let order = total_order(self.terms, id(a), id(b));
                        if key.descending { order.reverse() } else { order }
                    });
                    orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
                });
                rows.iter().all(|row| emit(self, row))
            }
            Node::Project { inner, slots } => self.solve(inner, &nothing, &mut |solver, row| {
                let mut seen = vec![0; row.len()];
                slots.iter().for_each(|slot| seen[slot.0] = row[slot.0]);
                emit(solver, &seen)
            }),
            Node::Distinct { inner } => {
                let mut seen = HashSet::with_hasher(self.terms.key);
                self.solve(inner, &nothing, &mut |solver, row| {
                    !seen.insert(row.to_vec()) || !solver.keep(row) && emit(solver, row)
                })
            }
            Node::Slice { inner, offset, limit, each: Some(each) } => {
                let (mut value, mut came) = (0, 0);
                self.solve(inner, &nothing, &mut |solver, row| {
                    if row[each.0] != value {
                        (value, came) = (row[each.0], 0);
                    }
                    came += 1;
                    let is_taken = came > *offset && limit.is_none_or(|limit| came - offset <= limit);
                    !is_taken || emit(solver, row)
                })
            }
            Node::Slice { inner, offset, limit, each: None } => {
                let (mut skip, mut left) = (*offset, limit.unwrap_or(usize::MAX));
                let mut wants_more = true;
                self.solve(inner, &nothing, &mut |solver, row| {
                    if skip > 0 {
                        skip -= 1;
                        return true;
                    }
                    if left == 0 {
                        return false;
                    }
                    left -= 1;
                    wants_more = emit(solver, row);
                    wants_more && left > 0
                });
                wants_more
            }
            Node::Service { .. } => unreachable!("the grammar refuses SERVICE within EXISTS"),
            Node::Pattern(_) | Node::Path(_) | Node::Join(_) | Node::Union(_) | Node::Values { .. } => {
                self.solve(node, &nothing, emit)
            }
        }
    }

    fn group(&mut self, group: &Group, emit: Emit<'_>) -> bool {
        let fold = |fold: &crate::algebra::Aggregate| FoldSpec {
            fold: fold.fold.clone(),
            of: fold.of.first().map(|slot| slot.0).filter(|_| !fold.rows),
            value: None,
            rows: fold.rows,
            distinct: fold.distinct.then(|| fold.of.iter().map(|slot| slot.0).collect()),
            passes: false,
        };
        let spec = AggregateSpec {
            keys: group.keys.iter().map(|slot| Some(slot.0)).collect(),
            folds: group.folds.iter().map(fold).collect(),
        };
        let mut groups = Groups::new(self.terms, &Arc::new(spec), Rows::Solutions, self.given.len());
        let nothing = vec![0; self.given.len()];
        let mut before = groups.bytes();
        self.solve(&group.inner, &nothing, &mut |solver, row| {
            groups.add(row, solver.stopped);
            solver.book(groups.bytes() - before);
            before = groups.bytes();
            !solver.count_look()
        });
        let slots: Vec<Slot> = group.keys.iter().copied().chain(group.folds.iter().map(|fold| fold.slot)).collect();
        (0..groups.len()).all(|number| {
            let mut row = nothing.clone();
            slots.iter().zip(groups.kept_row(number, self.stopped)).for_each(|(slot, bits)| row[slot.0] = bits);
            emit(self, &row)
        })
    }
}
