//! SPARQL 1.1, §17 and §18, as they are written: every operator makes a list of maps from variables to terms. Shares no
//! code with the engine.

use oxrdf::vocab::{rdf, xsd};
use oxrdf::{Literal, NamedNode, Term, Triple};
use spargebra::algebra::{Expression, Function, GraphPattern, OrderExpression};
use spargebra::term::{GroundTerm, NamedNodePattern, TermPattern, TriplePattern};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) type Solution = BTreeMap<String, Term>;

/// Lists longer than this are given up: the random query was too much.
const MOST: usize = 4000;

/// All solutions; `None` if there are too many.
pub(crate) fn evaluate(graph: &[Triple], pattern: &GraphPattern) -> Option<Vec<Solution>> {
    let made = match pattern {
        GraphPattern::Bgp { patterns } => {
            let mut solutions = vec![Solution::new()];
            for triple in patterns {
                let mut next = Vec::new();
                for solution in &solutions {
                    next.extend(graph.iter().filter_map(|data| matched(triple, data, solution)));
                }
                solutions = next;
                if solutions.len() > MOST {
                    return None;
                }
            }
            // Blank nodes of the query are not variables of it.
            solutions.iter_mut().for_each(|solution| solution.retain(|name, _| !name.starts_with("_:")));
            solutions
        }
        GraphPattern::Join { left, right } => {
            let (left, right) = (evaluate(graph, left)?, evaluate(graph, right)?);
            let mut made = Vec::new();
            for a in &left {
                made.extend(right.iter().filter_map(|b| merged(a, b)));
                if made.len() > MOST {
                    return None;
                }
            }
            made
        }
        GraphPattern::LeftJoin { left, right, expression } => {
            let (left, right) = (evaluate(graph, left)?, evaluate(graph, right)?);
            let mut made = Vec::new();
            for a in &left {
                let holds = |both: &Solution| expression.as_ref().is_none_or(|e| truth(e, both) == Some(true));
                let pairs: Vec<Solution> = right.iter().filter_map(|b| merged(a, b)).filter(holds).collect();
                if pairs.is_empty() {
                    made.push(a.clone());
                }
                made.extend(pairs);
            }
            made
        }
        GraphPattern::Filter { expr, inner } => {
            let inner = evaluate(graph, inner)?;
            inner.into_iter().filter(|solution| truth(expr, solution) == Some(true)).collect()
        }
        GraphPattern::Union { left, right } => {
            let mut made = evaluate(graph, left)?;
            made.extend(evaluate(graph, right)?);
            made
        }
        GraphPattern::Extend { inner, variable, expression } => {
            let mut made = evaluate(graph, inner)?;
            for solution in &mut made {
                if let Some(value) = value(expression, solution) {
                    solution.insert(variable.as_str().to_owned(), value);
                }
            }
            made
        }
        GraphPattern::Minus { left, right } => {
            let (left, right) = (evaluate(graph, left)?, evaluate(graph, right)?);
            let takes =
                |a: &Solution, b: &Solution| merged(a, b).is_some() && a.keys().any(|name| b.contains_key(name));
            left.into_iter().filter(|a| !right.iter().any(|b| takes(a, b))).collect()
        }
        GraphPattern::Values { variables, bindings } => {
            let row = |row: &Vec<Option<GroundTerm>>| {
                let cells = variables.iter().zip(row).filter_map(|(variable, term)| {
                    let term = match term.clone()? {
                        GroundTerm::NamedNode(node) => Term::from(node),
                        GroundTerm::Literal(literal) => Term::from(literal),
                    };
                    Some((variable.as_str().to_owned(), term))
                });
                cells.collect()
            };
            bindings.iter().map(row).collect()
        }
        // The order is looked at in the engine's rows ([`by_keys`]); it is no total one to sort by.
        GraphPattern::OrderBy { inner, .. } => evaluate(graph, inner)?,
        GraphPattern::Project { inner, variables } => {
            let mut made = evaluate(graph, inner)?;
            let names: BTreeSet<&str> = variables.iter().map(|variable| variable.as_str()).collect();
            made.iter_mut().for_each(|solution| solution.retain(|name, _| names.contains(name.as_str())));
            made
        }
        GraphPattern::Distinct { inner } => {
            let mut seen = Vec::new();
            for solution in evaluate(graph, inner)? {
                if !seen.contains(&solution) {
                    seen.push(solution);
                }
            }
            seen
        }
        GraphPattern::Reduced { inner } => evaluate(graph, inner)?,
        GraphPattern::Slice { inner, start, length } => {
            evaluate(graph, inner)?.into_iter().skip(*start).take(length.unwrap_or(usize::MAX)).collect()
        }
        other => panic!("the generator doesn't make {other}"),
    };
    (made.len() <= MOST).then_some(made)
}

fn matched(triple: &TriplePattern, data: &Triple, solution: &Solution) -> Option<Solution> {
    let mut made = solution.clone();
    let mut bind = |name: String, term: Term| match made.get(&name) {
        Some(old) => *old == term,
        None => {
            made.insert(name, term);
            true
        }
    };
    let mut fits = |pattern: &TermPattern, term: Term| match pattern {
        TermPattern::Variable(variable) => bind(variable.as_str().to_owned(), term),
        TermPattern::BlankNode(node) => bind(node.to_string(), term),
        TermPattern::NamedNode(node) => term == Term::from(node.clone()),
        TermPattern::Literal(literal) => term == Term::from(literal.clone()),
    };
    let predicate = match &triple.predicate {
        NamedNodePattern::NamedNode(node) => TermPattern::NamedNode(node.clone()),
        NamedNodePattern::Variable(variable) => TermPattern::Variable(variable.clone()),
    };
    let all = fits(&triple.subject, data.subject.clone().into())
        && fits(&predicate, data.predicate.clone().into())
        && fits(&triple.object, data.object.clone());
    all.then_some(made)
}

/// §18.3: the union of two compatible solutions.
fn merged(a: &Solution, b: &Solution) -> Option<Solution> {
    let compatible = a.iter().all(|(name, term)| b.get(name).is_none_or(|other| other == term));
    compatible.then(|| a.iter().chain(b).map(|(name, term)| (name.clone(), term.clone())).collect())
}

/// What a literal means, as far as the generator's literals go.
#[derive(Clone, PartialEq, Debug)]
enum Meaning {
    Number(f64, u8),
    Text(String),
    Lang,
    Truth(bool),
    Unknown,
    NoLiteral,
}

const NUMBERS: [&str; 3] = ["integer", "decimal", "double"];

fn meaning(term: &Term) -> Meaning {
    let Term::Literal(literal) = term else { return Meaning::NoLiteral };
    let text = literal.value();
    if literal.language().is_some() {
        return Meaning::Lang;
    }
    let datatype = literal.datatype();
    if datatype == xsd::STRING {
        return Meaning::Text(text.to_owned());
    }
    if datatype == xsd::BOOLEAN {
        return match text {
            "true" | "1" => Meaning::Truth(true),
            "false" | "0" => Meaning::Truth(false),
            _ => Meaning::Unknown,
        };
    }
    let name = datatype.as_str().strip_prefix("http://www.w3.org/2001/XMLSchema#").unwrap_or("");
    let Some(rank) = NUMBERS.iter().position(|other| *other == name) else { return Meaning::Unknown };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let good = match rank {
        0 => digits(text),
        1 => text.split('.').all(digits),
        _ => true,
    };
    match text.parse() {
        Ok(number) if good => Meaning::Number(number, rank as u8),
        _ => Meaning::Unknown,
    }
}

fn equal(a: &Term, b: &Term) -> Option<bool> {
    match (meaning(a), meaning(b)) {
        (Meaning::Number(a, _), Meaning::Number(b, _)) => Some(a == b),
        _ if a == b => Some(true),
        (Meaning::NoLiteral | Meaning::Lang, _) | (_, Meaning::NoLiteral | Meaning::Lang) => Some(false),
        (Meaning::Unknown, _) | (_, Meaning::Unknown) => None,
        (a, b) => Some(a == b),
    }
}

fn less(a: &Term, b: &Term) -> Option<Ordering> {
    match (meaning(a), meaning(b)) {
        (Meaning::Number(a, _), Meaning::Number(b, _)) => a.partial_cmp(&b),
        (Meaning::Text(a), Meaning::Text(b)) => Some(a.cmp(&b)),
        (Meaning::Truth(a), Meaning::Truth(b)) => Some(a.cmp(&b)),
        _ => None,
    }
}

/// §17.2: `None` is an error.
fn truth(expression: &Expression, solution: &Solution) -> Option<bool> {
    let two = |a, b| Some((value(a, solution)?, value(b, solution)?));
    let order = |a, b| two(a, b).and_then(|(a, b)| less(&a, &b));
    match expression {
        Expression::Or(a, b) => match (truth(a, solution), truth(b, solution)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        Expression::And(a, b) => match (truth(a, solution), truth(b, solution)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        Expression::Not(a) => truth(a, solution).map(|value| !value),
        Expression::Bound(variable) => Some(solution.contains_key(variable.as_str())),
        Expression::Equal(a, b) => two(a, b).and_then(|(a, b)| equal(&a, &b)),
        Expression::SameTerm(a, b) => two(a, b).map(|(a, b)| a == b),
        Expression::Less(a, b) => order(a, b).map(Ordering::is_lt),
        Expression::LessOrEqual(a, b) => order(a, b).map(Ordering::is_le),
        Expression::Greater(a, b) => order(a, b).map(Ordering::is_gt),
        Expression::GreaterOrEqual(a, b) => order(a, b).map(Ordering::is_ge),
        Expression::In(a, all) => {
            let needle = value(a, solution)?;
            let answers: Vec<Option<bool>> =
                all.iter().map(|b| value(b, solution).and_then(|b| equal(&needle, &b))).collect();
            if answers.contains(&Some(true)) { Some(true) } else { (!answers.contains(&None)).then_some(false) }
        }
        other => match meaning(&value(other, solution)?) {
            Meaning::Truth(value) => Some(value),
            Meaning::Number(value, _) => Some(value != 0.0),
            Meaning::Text(text) => Some(!text.is_empty()),
            // The generator's language strings are not empty.
            Meaning::Lang => Some(true),
            Meaning::Unknown | Meaning::NoLiteral => None,
        },
    }
}

fn value(expression: &Expression, solution: &Solution) -> Option<Term> {
    let number = |a: &Expression| match meaning(&value(a, solution)?) {
        Meaning::Number(value, rank) => Some((value, rank)),
        _ => None,
    };
    let made = |value: f64, rank: u8| {
        let datatype = [xsd::INTEGER, xsd::DECIMAL, xsd::DOUBLE][usize::from(rank)];
        // Only doubles have a negative zero.
        let value = if rank < 2 { value + 0.0 } else { value };
        Term::from(Literal::new_typed_literal(format!("{value}"), datatype))
    };
    let apply = |a, b, combine: fn(f64, f64) -> f64| {
        let ((a, a_rank), (b, b_rank)) = (number(a)?, number(b)?);
        Some(made(combine(a, b), a_rank.max(b_rank)))
    };
    match expression {
        Expression::NamedNode(node) => Some(node.clone().into()),
        Expression::Literal(literal) => Some(literal.clone().into()),
        Expression::Variable(variable) => solution.get(variable.as_str()).cloned(),
        Expression::Add(a, b) => apply(a, b, |a, b| a + b),
        Expression::Subtract(a, b) => apply(a, b, |a, b| a - b),
        Expression::Multiply(a, b) => apply(a, b, |a, b| a * b),
        Expression::Divide(a, b) => {
            let ((a, a_rank), (b, b_rank)) = (number(a)?, number(b)?);
            let rank = a_rank.max(b_rank).max(1);
            (rank == 2 || b != 0.0).then(|| made(a / b, rank))
        }
        Expression::UnaryMinus(a) => number(a).map(|(value, rank)| made(-value, rank)),
        Expression::UnaryPlus(a) => number(a).map(|(value, rank)| made(value, rank)),
        Expression::If(a, b, c) => value(if truth(a, solution)? { b } else { c }, solution),
        Expression::Coalesce(all) => all.iter().find_map(|a| value(a, solution)),
        Expression::FunctionCall(function, operands) => {
            let terms: Vec<Term> = operands.iter().map(|a| value(a, solution)).collect::<Option<_>>()?;
            call(function, &terms)
        }
        other => truth(other, solution).map(|value| Literal::from(value).into()),
    }
}

fn call(function: &Function, terms: &[Term]) -> Option<Term> {
    let boolean = |value: bool| Some(Term::from(Literal::from(value)));
    let literal = || match &terms[0] {
        Term::Literal(literal) => Some(literal),
        _ => None,
    };
    match function {
        Function::Str => match &terms[0] {
            Term::NamedNode(node) => Some(Literal::new_simple_literal(node.as_str()).into()),
            Term::Literal(literal) => Some(Literal::new_simple_literal(literal.value()).into()),
            Term::BlankNode(_) => None,
        },
        Function::Lang => Some(Literal::new_simple_literal(literal()?.language().unwrap_or("")).into()),
        Function::Datatype => {
            let datatype: NamedNode = literal()?.datatype().into_owned();
            debug_assert!(literal()?.language().is_none() || datatype == rdf::LANG_STRING);
            Some(datatype.into())
        }
        Function::IsIri => boolean(terms[0].is_named_node()),
        Function::IsBlank => boolean(terms[0].is_blank_node()),
        Function::IsLiteral => boolean(terms[0].is_literal()),
        Function::IsNumeric => boolean(matches!(meaning(&terms[0]), Meaning::Number(..))),
        other => panic!("the generator doesn't call {other}"),
    }
}

/// Where §15.1 gives an order; equal otherwise.
pub(crate) fn by_keys(keys: &[OrderExpression], a: &Solution, b: &Solution) -> Ordering {
    for key in keys {
        let (expression, descending) = match key {
            OrderExpression::Asc(expression) => (expression, false),
            OrderExpression::Desc(expression) => (expression, true),
        };
        let (a, b) = (value(expression, a), value(expression, b));
        let rank = |term: &Option<Term>| match term {
            None => 0,
            Some(Term::BlankNode(_)) => 1,
            Some(Term::NamedNode(_)) => 2,
            Some(Term::Literal(_)) => 3,
        };
        let by_value = || match (&a, &b) {
            (Some(Term::NamedNode(a)), Some(Term::NamedNode(b))) => a.as_str().cmp(b.as_str()),
            (Some(a), Some(b)) => less(a, b).unwrap_or(Ordering::Equal),
            _ => Ordering::Equal,
        };
        let order = rank(&a).cmp(&rank(&b)).then_with(by_value);
        let order = if descending { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}
