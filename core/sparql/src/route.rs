//! Property paths of any length as automata, and the search for their reached nodes.
//!
//! SPARQL 1.1, §9.3 and §18.4: `?`, `*` and `+` find each end once. So only whether an end is reached matters inside of
//! them, and a path is a regular expression over steps: Thompson, "Regular expression search algorithm", CACM 1968. The
//! search visits each pair of a state and a node once, however operators are nested.

mod search;
mod written;

pub(crate) use search::{Progress, Search};

use std::sync::Arc;
use vicus_rdf::Id;

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
