//! One expression for one row: the general and slow way. [`condition`](crate::condition) has the quick ones.

use crate::expression::{Arithmetic, Compare, Expr, Function};
use crate::terms::Terms;
use crate::value::{self, Number, Value};
use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNode, Term};
use oxsdatatypes::{Decimal, Double, Float};
use std::cmp::Ordering;
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
#[derive(Debug)]
pub(crate) struct Evaluator<'a> {
    pub(crate) terms: &'a Terms,
    /// Patterns that were constants: compiled once.
    regexes: Regexes,
}

/// The last regular expression that was compiled, by its text and flags.
#[derive(Default, Debug)]
pub(crate) struct Regexes(Option<(String, String, Option<regex::Regex>)>);

impl<'a> Evaluator<'a> {
    pub(crate) fn new(terms: &'a Terms) -> Evaluator<'a> {
        Evaluator { terms, regexes: Regexes::default() }
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

    fn id_of(&self, value: Val) -> Id {
        match value {
            Val::Id(id) => id,
            Val::Boolean(value) => Id::boolean(value),
            Val::String(text) => self.terms.string(&text),
            Val::Number(Number::Integer(value)) => Id::integer(value)
                .unwrap_or_else(|| self.terms.id(&Literal::new_typed_literal(value.to_string(), xsd::INTEGER).into())),
            Val::Number(Number::Decimal(value)) => self.typed(value.to_string(), xsd::DECIMAL.into_owned()),
            Val::Number(Number::Float(value)) => self.typed(Float::from(value).to_string(), xsd::FLOAT.into_owned()),
            Val::Number(Number::Double(value)) => self.typed(Double::from(value).to_string(), xsd::DOUBLE.into_owned()),
        }
    }

    fn typed(&self, value: String, datatype: NamedNode) -> Id {
        self.terms.id(&Term::Literal(Literal::new_typed_literal(value, datatype)))
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
            Expr::Call(function, operands) => self.call(*function, operands, row),
            Expr::Or(_)
            | Expr::And(_)
            | Expr::Not(_)
            | Expr::Compare(..)
            | Expr::SameTerm(..)
            | Expr::In(..)
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

    fn call(&mut self, function: Function, operands: &[Expr], row: &impl Fn(usize) -> u64) -> Option<Val> {
        let mut values = Vec::with_capacity(operands.len());
        for operand in operands {
            values.push(self.eval(operand, row)?);
        }
        let id = self.id_of(values.first()?.clone());
        let boolean = |value| Some(Val::Boolean(value));
        match function {
            Function::Str if id.is_blank() => None,
            Function::Str => self.terms.view(id, |view| {
                let mut text = String::new();
                view.write_lexical(&mut text).expect("a string takes everything");
                Some(Val::String(text))
            }),
            Function::Lang => self.terms.view(id, |view| match view {
                TermView::LangString { language, .. } => Some(Val::String(language.to_owned())),
                TermView::Blank(_) | TermView::Iri(_) => None,
                _ => Some(Val::String(String::new())),
            }),
            Function::Datatype => {
                let datatype = self.terms.view(id, |view| view.datatype().map(str::to_owned))?;
                Some(Val::Id(self.terms.id(&NamedNode::new_unchecked(datatype).into())))
            }
            Function::IsIri => boolean(id.is_iri()),
            Function::IsBlank => boolean(id.is_blank()),
            Function::IsLiteral => boolean(id.is_literal()),
            Function::IsNumeric => boolean(matches!(self.value(&values[0]), Value::Number(_))),
            Function::LangMatches => {
                let (tag, range) = (self.string(&values[0])?.0, self.string(&values[1])?.0);
                boolean(language_matches(&tag.to_ascii_lowercase(), &range.to_ascii_lowercase()))
            }
            Function::Regex => {
                let text = self.string(&values[0])?.0;
                let pattern = self.string(&values[1])?.0;
                let flags = match values.get(2) {
                    Some(flags) => self.string(flags)?.0,
                    None => String::new(),
                };
                self.regexes.get(pattern, flags).map(|regex| Val::Boolean(regex.is_match(&text)))
            }
            Function::StrLen => {
                let text = self.string(&values[0])?.0;
                Some(Val::Number(Number::Integer(text.chars().count() as i64)))
            }
            Function::UCase | Function::LCase => {
                let (text, language) = self.string(&values[0])?;
                let text = if function == Function::UCase { text.to_uppercase() } else { text.to_lowercase() };
                Some(match language {
                    None => Val::String(text),
                    Some(tag) => {
                        Val::Id(self.terms.id(&Literal::new_language_tagged_literal_unchecked(text, tag).into()))
                    }
                })
            }
            Function::Contains | Function::StrStarts | Function::StrEnds => {
                let ((text, language), (part, part_language)) = (self.string(&values[0])?, self.string(&values[1])?);
                // §17.4.3.1.2: a part with a language fits that language only.
                if part_language.is_some() && part_language != language {
                    return None;
                }
                boolean(match function {
                    Function::Contains => text.contains(&part),
                    Function::StrStarts => text.starts_with(&part),
                    _ => text.ends_with(&part),
                })
            }
            Function::Abs | Function::Ceil | Function::Floor | Function::Round => {
                let Value::Number(number) = self.value(&values[0]) else { return None };
                rounded(function, number).map(Val::Number)
            }
        }
    }
}

impl Regexes {
    /// The regular expression; `None` if it is none.
    fn get(&mut self, pattern: String, flags: String) -> Option<&regex::Regex> {
        if !self.0.as_ref().is_some_and(|(last, last_flags, _)| *last == pattern && *last_flags == flags) {
            let known = flags.chars().all(|flag| "smixq".contains(flag));
            let escaped = if flags.contains('q') { regex::escape(&pattern) } else { pattern.clone() };
            let compiled = regex::RegexBuilder::new(&escaped)
                .dot_matches_new_line(flags.contains('s'))
                .multi_line(flags.contains('m'))
                .case_insensitive(flags.contains('i'))
                .ignore_whitespace(flags.contains('x'))
                .build();
            self.0 = Some((pattern, flags, compiled.ok().filter(|_| known)));
        }
        self.0.as_ref()?.2.as_ref()
    }
}

/// RFC 4647, basic filtering; both in lower case.
fn language_matches(tag: &str, range: &str) -> bool {
    match range {
        "*" => !tag.is_empty(),
        _ => tag.strip_prefix(range).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')),
    }
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

fn rounded(function: Function, number: Number) -> Option<Number> {
    Some(match number {
        Number::Integer(value) if function == Function::Abs => Number::Integer(value.checked_abs()?),
        Number::Integer(value) => Number::Integer(value),
        Number::Decimal(value) => Number::Decimal(match function {
            Function::Abs => value.checked_abs()?,
            Function::Ceil => value.checked_ceil()?,
            Function::Floor => value.checked_floor()?,
            _ => value.checked_round()?,
        }),
        Number::Float(value) => Number::Float(round_f64(function, f64::from(value)) as f32),
        Number::Double(value) => Number::Double(round_f64(function, value)),
    })
}

fn round_f64(function: Function, value: f64) -> f64 {
    match function {
        Function::Abs => value.abs(),
        Function::Ceil => value.ceil(),
        Function::Floor => value.floor(),
        // XPath rounds halves up.
        _ => (value + 0.5).floor(),
    }
}
