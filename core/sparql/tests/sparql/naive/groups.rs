//! Grouping and aggregates, §18.5.

use super::{Meaning, Numeric, Solution, World, equal, less, meaning, value};
use oxrdf::{Literal, Term};
use spargebra::algebra::{AggregateExpression, AggregateFunction};

/// The solutions with equal keys, one list for each.
pub(super) fn groups(keys: &[String], solutions: Vec<Solution>) -> Vec<(Solution, Vec<Solution>)> {
    let mut all: Vec<(Solution, Vec<Solution>)> = Vec::new();
    if keys.is_empty() {
        return vec![(Solution::new(), solutions)];
    }
    for solution in solutions {
        let key: Solution =
            solution.iter().filter(|(name, _)| keys.contains(name)).map(|(a, b)| (a.clone(), b.clone())).collect();
        match all.iter_mut().find(|(other, _)| *other == key) {
            Some((_, members)) => members.push(solution),
            None => all.push((key, vec![solution])),
        }
    }
    all
}

fn unique<T: PartialEq + Clone>(all: &[T]) -> Vec<T> {
    all.iter().fold(Vec::new(), |mut made, one| {
        if !made.contains(one) {
            made.push(one.clone());
        }
        made
    })
}

/// The value of an aggregate; `None` is an error. If the recommendation allows several values, the query is given up.
pub(super) fn aggregate(world: &World<'_>, aggregate: &AggregateExpression, members: &[Solution]) -> Option<Term> {
    let integer = |count: usize| Some(Term::from(Literal::from(count as i64)));
    let (function, expression, distinct) = match aggregate {
        AggregateExpression::CountSolutions { distinct } => {
            // Blank nodes of the query are not variables of it.
            let mut members = members.to_vec();
            members.iter_mut().for_each(|solution| solution.retain(|name, _| !name.starts_with("_:")));
            return integer(if *distinct { unique(&members).len() } else { members.len() });
        }
        AggregateExpression::FunctionCall { name, expr, distinct } => (name, expr, *distinct),
    };
    let mut values: Vec<Option<Term>> = members.iter().map(|member| value(world, expression, member)).collect();
    if distinct {
        values = unique(&values);
    }
    let good: Vec<Term> = values.iter().flatten().cloned().collect();
    let failed = good.len() < values.len();
    let total = || {
        // With more than two, the order of adding and rounding matters.
        let is_rounded = |term| matches!(meaning(term), Meaning::Number(Numeric::Float(_) | Numeric::Double(_)));
        if good.len() > 2 && good.iter().any(is_rounded) {
            world.give_up();
        }
        good.iter().try_fold(Numeric::of(0), |total, term| match meaning(term) {
            Meaning::Number(number) => total.apply('+', &number),
            _ => None,
        })
    };
    let only = |good: &[Term]| {
        let all = unique(good);
        if all.len() > 1 {
            world.give_up();
        }
        all.into_iter().next()
    };
    match function {
        AggregateFunction::Count => integer(good.len()),
        AggregateFunction::Sample => only(&good),
        _ if failed => None,
        AggregateFunction::Sum => total().map(|total| total.term()),
        AggregateFunction::Avg if good.is_empty() => integer(0),
        AggregateFunction::Avg => Some(total()?.apply('/', &Numeric::of(good.len() as i64))?.term()),
        AggregateFunction::Min | AggregateFunction::Max => {
            let wanted = if *function == AggregateFunction::Min {
                std::cmp::Ordering::Less
            } else {
                std::cmp::Ordering::Greater
            };
            let ends: Vec<Term> = good
                .iter()
                .filter(|a| good.iter().all(|b| a == &b || equal(a, b) == Some(true) || less(a, b) == Some(wanted)))
                .cloned()
                .collect();
            if ends.is_empty() && !good.is_empty() {
                world.give_up();
            }
            only(&ends)
        }
        AggregateFunction::GroupConcat { separator } => {
            let texts: Option<Vec<String>> = good
                .iter()
                .map(|term| match term {
                    Term::NamedNode(node) => Some(node.as_str().to_owned()),
                    Term::Literal(literal) => Some(literal.value().to_owned()),
                    Term::BlankNode(_) | Term::Triple(_) => None,
                })
                .collect();
            let texts = texts?;
            if unique(&texts).len() > 1 {
                world.give_up();
            }
            Some(Literal::new_simple_literal(texts.join(separator.as_deref().unwrap_or(" "))).into())
        }
        AggregateFunction::Custom(name) => panic!("the generator doesn't call {name}"),
    }
}
