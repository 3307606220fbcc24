//! Property paths, §18.4: as relations between terms, pair by pair.

use oxrdf::{NamedNode, Term, Triple};
use spargebra::algebra::PropertyPathExpression as Path;

type Pairs = Vec<(Term, Term)>;

fn nodes(graph: &[Triple]) -> Vec<Term> {
    let mut all = Vec::new();
    for triple in graph {
        all.push(Term::from(triple.subject.clone()));
        all.push(triple.object.clone());
    }
    unique(all)
}

fn unique<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    let mut made = Vec::new();
    for one in all {
        if !made.contains(&one) {
            made.push(one);
        }
    }
    made
}

fn steps(graph: &[Triple], passes: impl Fn(&NamedNode) -> bool) -> Pairs {
    let matching = graph.iter().filter(|triple| passes(&triple.predicate));
    matching.map(|triple| (triple.subject.clone().into(), triple.object.clone())).collect()
}

/// All pairs of ends, as often as they come. `from` and `to` are the ends written in the query: a path of length zero
/// has them, whether they are in the graph or not.
pub(super) fn pairs(graph: &[Triple], path: &Path, from: Option<&Term>, to: Option<&Term>) -> Pairs {
    let zero = || -> Pairs {
        let written = from.into_iter().chain(to).cloned();
        unique(nodes(graph).into_iter().chain(written).collect()).into_iter().map(|n| (n.clone(), n)).collect()
    };
    let closed = |inner: &Path| -> Pairs {
        let one = unique(pairs(graph, inner, from, to));
        let mut all = one.clone();
        loop {
            let before = all.len();
            let longer: Pairs = all
                .iter()
                .flat_map(|(a, b)| one.iter().filter(move |(c, _)| b == c).map(move |(_, d)| (a.clone(), d.clone())))
                .collect();
            all.extend(longer);
            all = unique(all);
            if all.len() == before {
                return all;
            }
        }
    };
    match path {
        Path::NamedNode(node) => steps(graph, |predicate| predicate == node),
        Path::NegatedPropertySet(nodes) => steps(graph, |predicate| !nodes.contains(predicate)),
        Path::Reverse(inner) => pairs(graph, inner, to, from).into_iter().map(|(a, b)| (b, a)).collect(),
        Path::Sequence(first, second) => {
            let second = pairs(graph, second, None, to);
            let first = pairs(graph, first, from, None);
            let joined = first.iter().flat_map(|(a, b)| {
                second.iter().filter(move |(c, _)| b == c).map(move |(_, d)| (a.clone(), d.clone()))
            });
            joined.collect()
        }
        Path::Alternative(a, b) => {
            let mut all = pairs(graph, a, from, to);
            all.extend(pairs(graph, b, from, to));
            all
        }
        Path::ZeroOrOne(inner) => {
            let mut all = zero();
            all.extend(pairs(graph, inner, from, to));
            unique(all)
        }
        Path::OneOrMore(inner) => closed(inner),
        Path::ZeroOrMore(inner) => {
            let mut all = zero();
            all.extend(closed(inner));
            unique(all)
        }
    }
}
