//! Property paths of any length as automata, and the search for their reached nodes.
//!
//! SPARQL 1.1, §9.3 and §18.4: `?`, `*` and `+` find each end once. So only whether an end is reached matters inside of
//! them, and a path is a regular expression over steps: Thompson, "Regular expression search algorithm", CACM 1968. The
//! search visits each pair of a state and a node once, however operators are nested.

use crate::boxes::room_for_one;
use crate::graphs::Active;
use hashbrown::HashSet;
use std::sync::Arc;
use vicus_flow::Grow;
use vicus_flow::library::HashKey;
use vicus_rdf::{Id, Order, Snapshot};

/// A path as a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    Step(Id),
    /// A step by any predicate except these.
    Not(Vec<Id>),
    Reverse(Box<Route>),
    Sequence(Box<Route>, Box<Route>),
    Either(Box<Route>, Box<Route>),
    Optional(Box<Route>),
    /// Any number of times.
    Any(Box<Route>),
    /// Once or more.
    Many(Box<Route>),
}

/// The possible beginnings of a path's first step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Begin {
    /// At the subjects of a predicate.
    Subjects(Id),
    /// At the objects of a predicate.
    Objects(Id),
    /// Anywhere.
    Anywhere,
}

impl Route {
    /// Whether it leads from every node to itself without a step.
    pub(crate) fn may_stay(&self) -> bool {
        match self {
            Route::Step(_) | Route::Not(_) => false,
            Route::Optional(_) | Route::Any(_) => true,
            Route::Reverse(inner) | Route::Many(inner) => inner.may_stay(),
            Route::Sequence(a, b) => a.may_stay() && b.may_stay(),
            Route::Either(a, b) => a.may_stay() || b.may_stay(),
        }
    }

    /// Where its first step can begin, each place once. `backward` is the direction from objects to subjects.
    pub(crate) fn begins(&self, backward: bool) -> Vec<Begin> {
        let mut all = Vec::new();
        self.collect_begins(backward, &mut all);
        all.sort_unstable();
        all.dedup();
        all
    }

    fn collect_begins(&self, backward: bool, all: &mut Vec<Begin>) {
        match self {
            Route::Step(id) => all.push(if backward { Begin::Objects(*id) } else { Begin::Subjects(*id) }),
            Route::Not(_) => all.push(Begin::Anywhere),
            Route::Reverse(inner) => inner.collect_begins(!backward, all),
            Route::Sequence(a, b) => {
                let (first, second) = if backward { (b, a) } else { (a, b) };
                first.collect_begins(backward, all);
                if first.may_stay() {
                    second.collect_begins(backward, all);
                }
            }
            Route::Either(a, b) => {
                a.collect_begins(backward, all);
                b.collect_begins(backward, all);
            }
            Route::Optional(inner) | Route::Any(inner) | Route::Many(inner) => inner.collect_begins(backward, all),
        }
    }
}

/// The action of an edge of an automaton.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Move {
    /// Changes the state without a step.
    Stay,
    Forward(Id),
    Backward(Id),
    ForwardNot(Arc<[Id]>),
    BackwardNot(Arc<[Id]>),
}

/// A path in one direction as an automaton. State 0 is the first, state 1 the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Automaton {
    /// For each state, its edges.
    edges: Vec<Vec<(Move, u32)>>,
}

const FIRST: u32 = 0;
const LAST: u32 = 1;

impl Automaton {
    /// For walking from subjects to objects; with `backward`, from objects to subjects.
    pub(crate) fn new(route: &Route, backward: bool) -> Automaton {
        let mut automaton = Automaton { edges: vec![Vec::new(), Vec::new()] };
        automaton.add(route, FIRST, LAST, backward);
        automaton
    }

    fn state(&mut self) -> u32 {
        self.edges.push(Vec::new());
        self.edges.len() as u32 - 1
    }

    fn edge(&mut self, from: u32, by: Move, to: u32) {
        self.edges[from as usize].push((by, to));
    }

    /// Adds a route between two states. No added edge leads back to `from` or onwards from `to`.
    fn add(&mut self, route: &Route, from: u32, to: u32, backward: bool) {
        match route {
            Route::Step(id) => self.edge(from, if backward { Move::Backward(*id) } else { Move::Forward(*id) }, to),
            Route::Not(ids) => {
                let ids: Arc<[Id]> = ids.as_slice().into();
                self.edge(from, if backward { Move::BackwardNot(ids) } else { Move::ForwardNot(ids) }, to);
            }
            Route::Reverse(inner) => self.add(inner, from, to, !backward),
            Route::Sequence(a, b) => {
                let middle = self.state();
                let (first, second) = if backward { (b, a) } else { (a, b) };
                self.add(first, from, middle, backward);
                self.add(second, middle, to, backward);
            }
            Route::Either(a, b) => {
                self.add(a, from, to, backward);
                self.add(b, from, to, backward);
            }
            Route::Optional(inner) => {
                self.add(inner, from, to, backward);
                self.edge(from, Move::Stay, to);
            }
            Route::Any(inner) | Route::Many(inner) => {
                let (before, after) = (self.state(), self.state());
                self.edge(from, Move::Stay, before);
                self.add(inner, before, after, backward);
                self.edge(after, Move::Stay, before);
                self.edge(after, Move::Stay, to);
                if let Route::Any(_) = route {
                    self.edge(before, Move::Stay, to);
                }
            }
        }
    }
}

/// The search for what one start reaches, some triples at a time.
pub(crate) struct Search {
    snapshot: Arc<Snapshot>,
    automaton: Arc<Automaton>,
    graph: Active,
    target: Option<Id>,
    seen: HashSet<(u32, Id), HashKey>,
    open: Vec<Visit>,
    /// Whether the target was found.
    is_over: bool,
}

/// A reached pair of a state and a node, the current one of its edges, and how many triples of that edge are done.
#[derive(Clone, Copy)]
struct Visit {
    state: u32,
    node: Id,
    edge: usize,
    done: usize,
}

impl Search {
    pub(crate) fn new(snapshot: &Arc<Snapshot>, automaton: &Arc<Automaton>, by: HashKey) -> Search {
        Search {
            snapshot: Arc::clone(snapshot),
            automaton: Arc::clone(automaton),
            graph: Active::One(Id::UNBOUND),
            target: None,
            seen: HashSet::with_hasher(by),
            open: Vec::new(),
            is_over: false,
        }
    }

    /// Begins at a node of a graph. With a target, only the target is reported.
    pub(crate) fn begin(&mut self, graph: &Active, start: Id, target: Option<Id>, found: &mut Vec<u64>) {
        self.graph.clone_from(graph);
        self.seen.clear();
        self.open.clear();
        self.target = target;
        self.is_over = false;
        self.reach(FIRST, start, found);
    }

    /// Bytes of the reached pairs and of those still to be visited.
    pub(crate) fn bytes(&self) -> u64 {
        (self.seen.capacity() * size_of::<(u32, Id)>() + self.open.capacity() * size_of::<Visit>()) as u64
    }

    fn reach(&mut self, state: u32, node: Id, found: &mut Vec<u64>) {
        room_for_one(self.seen.len(), self.seen.capacity(), size_of::<(u32, Id)>(), || {
            self.seen.try_reserve(1).is_ok()
        });
        if !self.seen.insert((state, node)) {
            return;
        }
        if state != LAST {
            self.open.grow_or_give_up(1);
            self.open.push(Visit { state, node, edge: 0, done: 0 });
        } else if self.target.is_none_or(|target| target == node) {
            found.grow_or_give_up(1);
            found.push(node.bits());
            self.is_over = self.target.is_some();
        }
    }

    /// Continues for at most `triples` triples, or until there are `most` ends in `found`; true at the end of the
    /// search.
    pub(crate) fn go_on(&mut self, triples: &mut usize, most: usize, found: &mut Vec<u64>) -> bool {
        let (snapshot, automaton) = (Arc::clone(&self.snapshot), Arc::clone(&self.automaton));
        let graph = self.graph.clone();
        while let Some(&place) = self.open.last() {
            if self.is_over {
                return true;
            }
            if *triples == 0 || found.len() >= most {
                return false;
            }
            let Some((by, to)) = automaton.edges[place.state as usize].get(place.edge) else {
                self.open.pop();
                continue;
            };
            let at = self.open.len() - 1;
            // The nodes behind the rows are on the second level after the keys. For a negated step, the predicates to
            // skip are on the first one.
            let (order, ids, count, but): (_, _, _, &[Id]) = match by {
                Move::Stay => {
                    self.open[at].edge += 1;
                    *triples -= 1;
                    self.reach(*to, place.node, found);
                    continue;
                }
                Move::Forward(predicate) => (Order::Gpso, [*predicate, place.node], 2, &[]),
                Move::Backward(predicate) => (Order::Gpos, [*predicate, place.node], 2, &[]),
                Move::ForwardNot(but) => (Order::Gspo, [place.node; 2], 1, but),
                Move::BackwardNot(but) => (Order::Gops, [place.node; 2], 1, but),
            };
            let (index, rows) = graph.rows(&snapshot, order, ids, count);
            let above = index.key_level();
            let next = rows.start + place.done;
            let end = rows.end.min(next + *triples);
            *triples = triples.saturating_sub((end - next).max(1));
            if end == rows.end {
                self.open[at] = Visit { edge: place.edge + 1, done: 0, ..place };
            } else {
                self.open[at].done = end - rows.start;
            }
            for row in next..end {
                if graph.has(index, row) && (but.is_empty() || !but.contains(&index.get(above + 1, row))) {
                    self.reach(*to, index.get(above + 2, row), found);
                }
            }
        }
        true
    }
}
