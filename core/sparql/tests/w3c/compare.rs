//! Whether two answers are the same: as multisets or graphs, up to the names of blank nodes.

use crate::results::{Answer, Row};
use oxrdf::{Literal, Term};
use std::collections::BTreeMap;

pub(crate) fn compare(found: &Answer, expected: &Answer, texts_only: bool) -> Result<(), String> {
    let (found_variables, found, variables, expected, ordered) = match (found, expected) {
        (Answer::Boolean(found), Answer::Boolean(expected)) => {
            return if found == expected { Ok(()) } else { Err(format!("{found} and not {expected}")) };
        }
        (
            Answer::Rows { variables: found_variables, rows: found, .. },
            Answer::Rows { variables, rows: expected, ordered },
        ) => (found_variables, found, variables, expected, *ordered),
        (Answer::Graph(found), Answer::Graph(expected)) => {
            return if found == expected { Ok(()) } else { Err(format!("found\n{found}and not\n{expected}")) };
        }
        _ => return Err("answers of different forms".to_owned()),
    };
    let (mut a, mut b) = (found_variables.clone(), variables.clone());
    a.sort();
    b.sort();
    if a != b {
        return Err(format!("variables {a:?} and not {b:?}"));
    }
    let places: Vec<usize> =
        variables.iter().map(|name| found_variables.iter().position(|other| other == name).expect("as many")).collect();
    let cell = |term: &Option<Term>| match term {
        // CSV writes an unbound variable and an empty string alike.
        None if texts_only => Some(Literal::new_simple_literal("").into()),
        Some(Term::NamedNode(node)) if texts_only => Some(Literal::new_simple_literal(node.as_str()).into()),
        Some(Term::Literal(literal)) if texts_only => Some(Literal::new_simple_literal(literal.value()).into()),
        other => other.clone(),
    };
    let found: Vec<Row> = found.iter().map(|row| places.iter().map(|&place| cell(&row[place])).collect()).collect();
    let expected: Vec<Row> = expected.iter().map(|row| row.iter().map(cell).collect()).collect();
    if found.len() == expected.len() && matches(&found, &expected, ordered) {
        return Ok(());
    }
    Err(format!("{variables:?}: found {} and not {}", lines(&found), lines(&expected)))
}

fn lines(rows: &[Row]) -> String {
    let cell = |term: &Option<Term>| term.as_ref().map_or("-".to_owned(), ToString::to_string);
    let line = |row: &Row| row.iter().map(cell).collect::<Vec<_>>().join(" ");
    format!("[{}]", rows.iter().map(line).collect::<Vec<_>>().join(" | "))
}

/// The pairs of corresponding blank nodes, both ways.
#[derive(Clone, Default)]
struct Names {
    there: BTreeMap<String, String>,
    back: BTreeMap<String, String>,
}

impl Names {
    fn fit(&mut self, a: &Row, b: &Row) -> bool {
        a.iter().zip(b).all(|(a, b)| match (a, b) {
            (None, None) => true,
            (Some(Term::BlankNode(a)), Some(Term::BlankNode(b))) => {
                let (a, b) = (a.as_str().to_owned(), b.as_str().to_owned());
                let there = self.there.entry(a.clone()).or_insert_with(|| b.clone()).clone();
                let back = self.back.entry(b.clone()).or_insert_with(|| a.clone()).clone();
                there == b && back == a
            }
            (Some(Term::Triple(a)), Some(Term::Triple(b))) => {
                let parts = |triple: &oxrdf::Triple| {
                    [triple.subject.clone().into(), triple.predicate.clone().into(), triple.object.clone()]
                        .map(Some)
                        .to_vec()
                };
                self.fit(&parts(a), &parts(b))
            }
            (Some(a), Some(b)) => a == b || same_number(a, b),
            _ => false,
        })
    }
}

/// Computed numbers may be written in several ways.
fn same_number(a: &Term, b: &Term) -> bool {
    let (Term::Literal(a), Term::Literal(b)) = (a, b) else { return false };
    let numeric = ["integer", "decimal", "double", "float"].iter().any(|name| {
        a.datatype().as_str().strip_prefix("http://www.w3.org/2001/XMLSchema#").is_some_and(|rest| rest == *name)
    });
    let number = |text: &str| text.parse::<f64>().ok();
    numeric && a.datatype() == b.datatype() && number(a.value()).is_some() && number(a.value()) == number(b.value())
}

fn matches(found: &[Row], expected: &[Row], ordered: bool) -> bool {
    if ordered {
        let mut names = Names::default();
        return found.iter().zip(expected).all(|(a, b)| names.fit(a, b));
    }
    let mut free = vec![true; expected.len()];
    search(found, expected, &mut free, &Names::default())
}

fn search(found: &[Row], expected: &[Row], free: &mut [bool], names: &Names) -> bool {
    let Some((row, rest)) = found.split_first() else { return true };
    for place in 0..expected.len() {
        let mut extended = names.clone();
        if !free[place] || !extended.fit(row, &expected[place]) {
            continue;
        }
        free[place] = false;
        if search(rest, expected, free, &extended) {
            return true;
        }
        free[place] = true;
        // Without blank nodes one choice is as good as another.
        if row.iter().flatten().all(|term| !term.is_blank_node() && !term.is_triple()) {
            return false;
        }
    }
    false
}
