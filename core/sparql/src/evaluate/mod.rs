//! One expression for one row: the general and slow way. [`condition`](crate::condition) has the quick ones.

mod call;
mod cast;
mod exists;

use crate::algebra::Slot;
use crate::expression::{Arithmetic, Compare, Expr};
use crate::terms::Terms;
use crate::value::{self, Number, Value};
use call::Regexes;
pub(crate) use exists::Memory;
use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNode};
use oxsdatatypes::{Decimal, Double, Float};
use std::cmp::Ordering;
use std::sync::Arc;
use vicus_rdf::{Id, TermView};

/// What an expression came to. Computed values become terms only when somebody asks for their ids.
#[derive(Clone, Debug)]
enum Val {
    Id(Id),
    Boolean(bool),
    Number(Number),
    String(String),
}

/// Evaluates expressions over rows whose slots are the numbers of columns.
pub(crate) struct Evaluator<'a> {
    pub(crate) terms: &'a Arc<Terms>,
    /// Patterns that were constants: compiled once.
    regexes: Regexes,
    /// Answers of EXISTS.
    memory: Memory,
    /// Whether to give up, with so many bytes at hand; asked where an expression may take long.
    stopped: Option<&'a dyn Fn(u64) -> bool>,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(terms: &'a Arc<Terms>) -> Evaluator<'a> {
        Evaluator { terms, regexes: Regexes::default(), memory: Memory::default(), stopped: None }
    }

    /// The same, giving up where an expression takes long and `stopped` says so of the bytes that it holds.
    pub(crate) fn until(self, stopped: &'a dyn Fn(u64) -> bool) -> Evaluator<'a> {
        Evaluator { stopped: Some(stopped), ..self }
    }

    /// The same, with what another one found out of patterns.
    pub(crate) fn with(self, memory: Memory) -> Evaluator<'a> {
        Evaluator { memory, ..self }
    }

    /// What it found out of patterns.
    pub(crate) fn into_memory(self) -> Memory {
        self.memory
    }

    /// Whether a filter keeps the row: errors don't.
    pub(crate) fn is_true(&mut self, expr: &Expr, row: &impl Fn(usize) -> u64) -> bool {
        self.truth(expr, row) == Some(true)
    }

    /// The id of the value; unbound for an error.
    pub(crate) fn id(&mut self, expr: &Expr, row: &impl Fn(usize) -> u64) -> Id {
        match self.eval(expr, row) {
            Some(value) => self.id_of(value),
            None => Id::UNBOUND,
        }
    }

    /// The id of a number.
    pub(crate) fn number_id(&self, number: Number) -> Id {
        self.id_of(Val::Number(number))
    }

    fn id_of(&self, value: Val) -> Id {
        match value {
            Val::Id(id) => id,
            Val::Boolean(value) => Id::boolean(value),
            Val::String(text) => self.terms.string(&text),
            Val::Number(Number::Integer(value)) => Id::integer(value)
                .unwrap_or_else(|| self.terms.id(&Literal::new_typed_literal(value.to_string(), xsd::INTEGER))),
            Val::Number(Number::Decimal(value)) => self.typed(value.to_string(), xsd::DECIMAL.into_owned()),
            Val::Number(Number::Float(value)) => self.typed(Float::from(value).to_string(), xsd::FLOAT.into_owned()),
            Val::Number(Number::Double(value)) => self.typed(Double::from(value).to_string(), xsd::DOUBLE.into_owned()),
        }
    }

    fn typed(&self, value: String, datatype: NamedNode) -> Id {
        self.terms.id(&Literal::new_typed_literal(value, datatype))
    }

    fn truth(&mut self, expr: &Expr, row: &impl Fn(usize) -> u64) -> Option<bool> {
        match expr {
            // Three-valued logic, §17.2: an error is overruled by a true operand of OR and a false one of AND.
            Expr::Or(all) => {
                let mut result = Some(false);
                for operand in all {
                    match self.truth(operand, row) {
                        Some(true) => return Some(true),
                        Some(false) => {}
                        None => result = None,
                    }
                }
                result
            }
            Expr::And(all) => {
                let mut result = Some(true);
                for operand in all {
                    match self.truth(operand, row) {
                        Some(false) => return Some(false),
                        Some(true) => {}
                        None => result = None,
                    }
                }
                result
            }
            Expr::Not(inner) => self.truth(inner, row).map(|value| !value),
            Expr::Bound(slot) => Some(row(slot.0) != 0),
            Expr::Compare(operator, a, b) => {
                let (a, b) = (self.eval(a, row)?, self.eval(b, row)?);
                self.compare(*operator, &a, &b)
            }
            Expr::SameTerm(a, b) => {
                let (a, b) = (self.eval(a, row)?, self.eval(b, row)?);
                Some(self.id_of(a) == self.id_of(b))
            }
            Expr::In(needle, all) => {
                let needle = self.eval(needle, row)?;
                let mut result = Some(false);
                for candidate in all {
                    let equal =
                        self.eval(candidate, row).and_then(|value| self.compare(Compare::Equal, &needle, &value));
                    match equal {
                        Some(true) => return Some(true),
                        Some(false) => {}
                        None => result = None,
                    }
                }
                result
            }
            Expr::Exists(node, outside) => {
                let values = outside.iter().map(|(slot, expr)| (*slot, self.id(expr, row).bits()));
                let given: Vec<(Slot, u64)> = values.collect();
                Some(exists::exists(self.terms, &mut self.memory, node, &given, self.stopped))
            }
            _ => match self.eval(expr, row)? {
                Val::Boolean(value) => Some(value),
                value => self.value(&value).truth(),
            },
        }
    }

    fn value(&self, value: &Val) -> Value {
        match value {
            Val::Id(id) => self.terms.view(*id, Value::of_view),
            Val::Boolean(value) => Value::Boolean(*value),
            Val::Number(number) => Value::Number(*number),
            Val::String(text) => Value::String(text.clone()),
        }
    }

    fn compare(&self, operator: Compare, a: &Val, b: &Val) -> Option<bool> {
        if let Compare::Equal | Compare::NotEqual = operator {
            let equal = match (a, b) {
                (Val::Id(a), Val::Id(b)) => value::equal(self.terms, *a, *b)?,
                _ => match self.value(a).compare(&self.value(b)) {
                    Some(order) => order == Ordering::Equal,
                    // Of different kinds, or not comparable: the terms decide.
                    None => value::equal(self.terms, self.id_of(a.clone()), self.id_of(b.clone()))?,
                },
            };
            return Some(equal == (operator == Compare::Equal));
        }
        let order = match (a, b) {
            (Val::Id(a), Val::Id(b)) => value::compare(self.terms, *a, *b),
            _ => self.value(a).compare(&self.value(b)),
        };
        let Some(order) = order else {
            // NaN is a number, and less or greater than none.
            let number = |value| matches!(self.value(value), Value::Number(_));
            return (number(a) && number(b)).then_some(false);
        };
        Some(match operator {
            Compare::Less => order == Ordering::Less,
            Compare::LessOrEqual => order != Ordering::Greater,
            Compare::Greater => order == Ordering::Greater,
            Compare::GreaterOrEqual => order != Ordering::Less,
            Compare::Equal | Compare::NotEqual => unreachable!("answered above"),
        })
    }

    /// The value; `None` is an error.
    fn eval(&mut self, expr: &Expr, row: &impl Fn(usize) -> u64) -> Option<Val> {
        match expr {
            Expr::Constant(id) => Some(Val::Id(*id)),
            Expr::Slot(slot) => match row(slot.0) {
                0 => None,
                bits => Some(Val::Id(Id::from_bits(bits))),
            },
            Expr::Error => None,
            Expr::Has(inner) => self.eval(inner, row).map(|_| Val::Boolean(true)),
            Expr::Arithmetic(operator, a, b) => {
                let (a, b) = (self.number(a, row)?, self.number(b, row)?);
                arithmetic(*operator, a, b).map(Val::Number)
            }
            Expr::Negate(inner) => match self.number(inner, row)? {
                Number::Integer(value) => Some(Val::Number(Number::Integer(value.checked_neg()?))),
                Number::Decimal(value) => Some(Val::Number(Number::Decimal(value.checked_neg()?))),
                Number::Float(value) => Some(Val::Number(Number::Float(-value))),
                Number::Double(value) => Some(Val::Number(Number::Double(-value))),
            },
            Expr::Plus(inner) => self.number(inner, row).map(Val::Number),
            Expr::If(condition, yes, no) => {
                let branch = if self.truth(condition, row)? { yes } else { no };
                self.eval(branch, row)
            }
            Expr::Coalesce(all) => all.iter().find_map(|operand| self.eval(operand, row)),
            Expr::Call(function, operands) => {
                let mut values = Vec::with_capacity(operands.len());
                for operand in operands {
                    values.push(self.eval(operand, row)?);
                }
                let value = self.call(*function, &values)?;
                let fits = match &value {
                    Val::String(text) => self.terms.fits(text.len()),
                    Val::Id(id) => !id.is_unbound(),
                    Val::Boolean(_) | Val::Number(_) => true,
                };
                fits.then_some(value)
            }
            Expr::Or(_)
            | Expr::And(_)
            | Expr::Not(_)
            | Expr::Compare(..)
            | Expr::SameTerm(..)
            | Expr::In(..)
            | Expr::Exists(..)
            | Expr::Bound(_) => self.truth(expr, row).map(Val::Boolean),
        }
    }

    fn number(&mut self, expr: &Expr, row: &impl Fn(usize) -> u64) -> Option<Number> {
        let value = self.eval(expr, row)?;
        match self.value(&value) {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The text and, if it has one, the language of a string literal.
    fn string(&self, value: &Val) -> Option<(String, Option<String>)> {
        match value {
            Val::String(text) => Some((text.clone(), None)),
            Val::Id(id) => self.terms.view(*id, |view| match view {
                TermView::String(text) => Some((text.to_owned(), None)),
                TermView::LangString { value, language } => Some((value.to_owned(), Some(language.to_owned()))),
                _ => None,
            }),
            Val::Boolean(_) | Val::Number(_) => None,
        }
    }
}

/// `+` of two numbers; `None` is an error.
pub(crate) fn add(a: Number, b: Number) -> Option<Number> {
    arithmetic(Arithmetic::Add, a, b)
}

/// `/` of two numbers; `None` is an error.
pub(crate) fn divide(a: Number, b: Number) -> Option<Number> {
    arithmetic(Arithmetic::Divide, a, b)
}

fn arithmetic(operator: Arithmetic, a: Number, b: Number) -> Option<Number> {
    match operator {
        Arithmetic::Add => {
            a.combine(b, |a, b| a.checked_add(b).map(Number::Integer), Decimal::checked_add, |a, b| a + b, |a, b| a + b)
        }
        Arithmetic::Subtract => {
            a.combine(b, |a, b| a.checked_sub(b).map(Number::Integer), Decimal::checked_sub, |a, b| a - b, |a, b| a - b)
        }
        Arithmetic::Multiply => {
            a.combine(b, |a, b| a.checked_mul(b).map(Number::Integer), Decimal::checked_mul, |a, b| a * b, |a, b| a * b)
        }
        Arithmetic::Divide => a.combine(
            b,
            |a, b| Decimal::from(a).checked_div(Decimal::from(b)).map(Number::Decimal),
            Decimal::checked_div,
            |a, b| a / b,
            |a, b| a / b,
        ),
    }
}
