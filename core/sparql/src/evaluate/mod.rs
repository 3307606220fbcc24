//! Evaluates one expression for one row: the general and slow way. [`condition`](crate::condition) has the fast ones.

mod blocks;
mod call;
mod cast;
mod exists;
mod members;
mod pattern;
mod regexes;
mod scratch;

pub(crate) use pattern::literal_prefix;
pub(crate) use scratch::Scratch;

use crate::algebra::Slot;
use crate::expression::{Compare, Expr, Function};
use crate::terms::Terms;
use crate::value::{self, Number, Value};
use oxrdf::vocab::xsd;
use oxrdf::{LiteralRef, TermRef};
use scratch::TextType;
use std::sync::Arc;
use vicus_flow::{NoMemory, give_up, refusable};
use vicus_language::stack::{deep, is_deep};
use vicus_rdf::{Id, TermKind, TermView};

/// The value of an expression. A computed value becomes a term only when its id is needed.
#[derive(Clone, Debug)]
enum Val {
    Id(Id),
    Boolean(bool),
    Number(Number),
    String(String),
    /// A date and time, a date, or a time.
    Moment(Value),
}

/// GROUP_CONCAT's addition to a text.
pub(crate) enum TextPart {
    Term(Id),
    Text(String),
}

/// How many rows' terms are fetched together: [`fetch`].
pub(crate) const FETCHED: usize = 32;

/// Fetches the keys of a column's terms. The keys lie scattered over a large dictionary; memory serves many requests at
/// once in about the time of one, while an expression that reads term by term would wait for each.
pub(crate) fn fetch(terms: &Terms, column: &[u64]) {
    for id in column.iter().map(|bits| Id::from_bits(*bits)) {
        if id.rank().is_some() && !id.is_unranked() {
            terms.snapshot.dictionary().fetch(id);
        }
    }
}

/// Evaluates expressions over rows; slots are column numbers.
pub(crate) struct Evaluator<'a> {
    pub(crate) terms: &'a Arc<Terms>,
    scratch: Scratch,
    /// Bytes of the strings held as operands' values while others are computed.
    held: usize,
    /// Asks whether to give up, given the bytes held; called where an expression may take long.
    stopped: Option<&'a dyn Fn(u64) -> bool>,
    /// Whether expressions have enough levels to make recursion ask for more stack.
    is_deep: bool,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(terms: &'a Arc<Terms>) -> Evaluator<'a> {
        Evaluator { terms, scratch: Scratch::default(), held: 0, stopped: None, is_deep: is_deep(terms.levels) }
    }

    /// Makes the evaluator give up a long evaluation when `stopped` is true for the bytes it holds.
    pub(crate) fn until(self, stopped: &'a dyn Fn(u64) -> bool) -> Evaluator<'a> {
        Evaluator { stopped: Some(stopped), ..self }
    }

    /// Takes the memory of an earlier evaluator for the same terms; [`Evaluator::into_scratch`] gives the memory back.
    pub(crate) fn with(self, mut scratch: Scratch) -> Evaluator<'a> {
        scratch.forget_made(self.terms);
        Evaluator { scratch, ..self }
    }

    pub(crate) fn into_scratch(self) -> Scratch {
        self.scratch
    }

    /// Whether a filter keeps the row. An error counts as false.
    pub(crate) fn holds(&mut self, expr: &Expr, row: &impl Fn(usize) -> u64) -> bool {
        self.truth(expr, row) == Some(true)
    }

    /// The id of the value; unbound if the expression fails.
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
        let typed = |of: TextType, text: &str, datatype| {
            self.scratch.id(of, text, || self.terms.id(LiteralRef::new_typed_literal(text, datatype)))
        };
        match value {
            Val::Id(id) => id,
            Val::Boolean(value) => Id::boolean(value),
            Val::String(text) if self.refuses_copies(text.len()) => Id::UNBOUND,
            Val::String(text) => self.scratch.id(TextType::String, &text, || self.terms.string(&text)),
            Val::Number(number) => match &number {
                Number::Integer(value) => {
                    Id::integer(*value).unwrap_or_else(|| typed(TextType::Integer, &number.to_string(), xsd::INTEGER))
                }
                Number::Wide(_) => typed(TextType::Integer, &number.to_string(), xsd::INTEGER),
                Number::Decimal(_) => typed(TextType::Decimal, &number.to_string(), xsd::DECIMAL),
                Number::Float(_) => typed(TextType::Float, &number.to_string(), xsd::FLOAT),
                Number::Double(_) => typed(TextType::Double, &number.to_string(), xsd::DOUBLE),
            },
            Val::Moment(Value::DateTime(value)) => typed(TextType::DateTime, &value.to_string(), xsd::DATE_TIME),
            Val::Moment(Value::Date(value)) => typed(TextType::Date, &value.to_string(), xsd::DATE),
            Val::Moment(Value::Time(value)) => typed(TextType::Time, &value.to_string(), xsd::TIME),
            Val::Moment(other) => unreachable!("{other:?} is no moment"),
        }
    }

    /// Truth value and value call each other, so both ask for more stack.
    fn truth(&mut self, expr: &Expr, row: &impl Fn(usize) -> u64) -> Option<bool> {
        if self.is_deep { deep(|| self.truth_of(expr, row)) } else { self.truth_of(expr, row) }
    }

    fn truth_of(&mut self, expr: &Expr, row: &impl Fn(usize) -> u64) -> Option<bool> {
        match expr {
            // Three-valued logic, §17.2: a true operand of OR and a false one of AND overrule errors.
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
                let (a, b) = self.both(a, b, row)?;
                self.compare(*operator, &a, &b)
            }
            Expr::SameTerm(a, b) => {
                let (a, b) = self.both(a, b, row)?;
                let (a, b) = (self.id_of(a), self.id_of(b));
                Some(self.terms.is_same(a, b))
            }
            Expr::In(needle, all) => {
                let needle = self.eval(needle, row)?;
                let before = self.hold(&needle);
                let members = self.scratch.members(self.terms, all);
                let mut result = members.as_ref().map_or(Some(false), |members| self.is_in(&needle, members));
                let rest = members.as_ref().map_or(all.len(), |members| members.rest.len());
                for place in 0..rest {
                    if result == Some(true) {
                        break;
                    }
                    let candidate = &all[members.as_ref().map_or(place, |members| members.rest[place])];
                    let equal =
                        self.eval(candidate, row).and_then(|value| self.compare(Compare::Equal, &needle, &value));
                    match equal {
                        Some(false) => {}
                        other => result = other,
                    }
                }
                self.held = before;
                result
            }
            Expr::Exists(node, outside) => {
                let values = outside.iter().map(|(slot, expr)| (*slot, self.id(expr, row).bits()));
                let given: Vec<(Slot, u64)> = values.collect();
                Some(exists::exists(self.terms, &mut self.scratch.exists, node, &given, self.stopped))
            }
            _ => match self.eval(expr, row)? {
                Val::Boolean(value) => Some(value),
                value => self.value(&value).truth(),
            },
        }
    }

    fn value(&self, value: &Val) -> Value {
        match value {
            Val::Id(id) => self.scratch.value(self.terms, *id),
            Val::Moment(value) => value.clone(),
            Val::Boolean(value) => Value::Boolean(*value),
            Val::Number(number) => Value::Number(number.clone()),
            Val::String(text) => Value::String(text.clone()),
        }
    }

    fn compare(&self, operator: Compare, a: &Val, b: &Val) -> Option<bool> {
        if let Compare::Equal | Compare::NotEqual = operator {
            let equal = match (a, b) {
                (Val::Id(a), Val::Id(b))
                    if self.terms.is_same(*a, *b) || a.kind() != TermKind::Typed && b.kind() != TermKind::Typed =>
                {
                    value::equal(self.terms, *a, *b)?
                }
                (Val::String(a), Val::String(b)) => a == b,
                (Val::String(text), Val::Id(id)) | (Val::Id(id), Val::String(text)) => match id.kind() {
                    TermKind::String => self.terms.view(*id, |view| view.as_str() == Some(text)),
                    TermKind::Typed => self.value(&Val::Id(*id)).equals(&Value::String(String::new()))?,
                    _ => false,
                },
                // A computed value is of a known datatype, so `=` of terms is `=` of their values.
                _ => self.value(a).equals(&self.value(b))?,
            };
            return Some(equal == (operator == Compare::Equal));
        }
        let order = match (a, b) {
            (Val::Id(a), Val::Id(b)) if a.kind() != TermKind::Typed && b.kind() != TermKind::Typed => {
                value::compare(self.terms, *a, *b)
            }
            _ => self.value(a).compare(&self.value(b)),
        };
        let Some(order) = order else {
            // NaN is a number that is neither less nor greater than any other.
            let number = |value| matches!(self.value(value), Value::Number(_));
            return (number(a) && number(b)).then_some(false);
        };
        Some(operator.is_met_by(order))
    }

    /// Whether a value is in a long list of constants; `None` is an error.
    fn is_in(&self, needle: &Val, members: &members::Members) -> Option<bool> {
        match needle {
            Val::Id(id) => members.has_term(self.terms, *id, || self.scratch.value(self.terms, *id)),
            Val::String(text) => members.has_string(self.terms, text),
            other => members.has_value(self.terms, &self.value(other)),
        }
    }

    /// The value; `None` if the expression fails.
    fn eval(&mut self, expr: &Expr, row: &impl Fn(usize) -> u64) -> Option<Val> {
        if self.is_deep { deep(|| self.value_of(expr, row)) } else { self.value_of(expr, row) }
    }

    fn value_of(&mut self, expr: &Expr, row: &impl Fn(usize) -> u64) -> Option<Val> {
        match expr {
            Expr::Constant(id) => {
                self.scratch.add_constant(self.terms, *id);
                Some(Val::Id(*id))
            }
            Expr::Slot(slot) => match row(slot.0) {
                0 => None,
                bits => Some(Val::Id(Id::from_bits(bits))),
            },
            Expr::Error => None,
            Expr::Has(inner) => self.eval(inner, row).map(|_| Val::Boolean(true)),
            Expr::Arithmetic(operator, a, b) => {
                let (a, b) = (self.number(a, row)?, self.number(b, row)?);
                a.combine(*operator, &b).map(Val::Number)
            }
            Expr::Negate(inner) => self.number(inner, row)?.negated().map(Val::Number),
            Expr::Plus(inner) => self.number(inner, row).map(Val::Number),
            Expr::If(condition, yes, no) => {
                let branch = if self.truth(condition, row)? { yes } else { no };
                self.eval(branch, row)
            }
            Expr::Coalesce(all) => all.iter().find_map(|operand| self.eval(operand, row)),
            Expr::Call(Function::Of(field), operands) => {
                let value = self.eval(&operands[0], row)?;
                self.field(*field, &value)
            }
            Expr::Call(function, operands) => {
                let before = self.held;
                let value = self.called(*function, operands, row);
                self.held = before;
                let value = value?;
                let fits = match &value {
                    Val::String(text) => self.terms.check_length(text.len()),
                    Val::Id(id) => !id.is_unbound(),
                    Val::Boolean(_) | Val::Number(_) | Val::Moment(_) => true,
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

    /// The value of a call of a function, whose operands are held meanwhile.
    fn called(&mut self, function: Function, operands: &[Expr], row: &impl Fn(usize) -> u64) -> Option<Val> {
        if let [operand] = operands {
            let value = self.eval(operand, row)?;
            self.hold(&value);
            return self.call(function, &[value]);
        }
        let mut values = Vec::with_capacity(operands.len());
        for operand in operands {
            let value = self.eval(operand, row)?;
            self.hold(&value);
            values.push(value);
        }
        self.call(function, &values)
    }

    /// Two values, of which the first is held while the second is computed.
    fn both(&mut self, a: &Expr, b: &Expr, row: &impl Fn(usize) -> u64) -> Option<(Val, Val)> {
        let a = self.eval(a, row)?;
        let before = self.hold(&a);
        let b = self.eval(b, row);
        self.held = before;
        Some((a, b?))
    }

    /// Counts a value that is held. Returns how many bytes were held before.
    fn hold(&mut self, value: &Val) -> usize {
        let before = self.held;
        if let Val::String(text) = value {
            self.held += text.len();
        }
        before
    }

    /// The value for GROUP_CONCAT, which needs its text and no term; `None` if the expression fails.
    pub(crate) fn part_of_text(&mut self, expr: &Expr, row: &impl Fn(usize) -> u64) -> Option<TextPart> {
        Some(match self.eval(expr, row)? {
            Val::Id(id) => TextPart::Term(id),
            Val::String(text) => TextPart::Text(text),
            other => TextPart::Text(self.lexical(&other)?),
        })
    }

    /// Books the copies of a text of `bytes` bytes that becomes a term: the text, its key, and the key in the
    /// dictionary. True if they are refused; then the query ends with an error.
    fn refuses_copies(&self, bytes: usize) -> bool {
        const COPIES: usize = 3;
        self.poll(COPIES * bytes)
    }

    /// The id of a computed term with a text of `bytes` bytes; unbound if its memory is refused.
    fn made<'t>(&self, bytes: usize, term: impl Into<TermRef<'t>>) -> Val {
        Val::Id(if self.refuses_copies(bytes) { Id::UNBOUND } else { self.terms.id(term) })
    }

    /// The value as a number, without making it a term; `None` for errors and for other values.
    pub(crate) fn number(&mut self, expr: &Expr, row: &impl Fn(usize) -> u64) -> Option<Number> {
        match self.eval(expr, row)? {
            Val::Number(number) => Some(number),
            Val::Id(id) => self.scratch.number(self.terms, id),
            _ => None,
        }
    }

    /// Asks whether to give up before `bytes` bytes are made, beside the strings held: the request may not hold this
    /// much more, or was cancelled. Few bytes are not asked for.
    fn poll(&self, bytes: usize) -> bool {
        let bytes = bytes.saturating_add(self.held);
        bytes >= LONG && self.stopped.is_some_and(|stopped| stopped(bytes as u64))
    }

    /// The text and the language, if any, of a string literal.
    fn string(&self, value: &Val) -> Option<(String, Option<String>)> {
        let copy = |text: &str, language: Option<&str>| {
            // Twice: the copy, and the result that a function makes of it.
            let is_too_much = self.poll(2 * text.len());
            (!is_too_much).then(|| (copied(text), language.map(str::to_owned)))
        };
        with_string(self.terms, value, copy)?
    }
}

/// Texts of this length are booked, and memory for their results is tried, before a function works on them.
pub(crate) const LONG: usize = 64 << 10;

/// A copy of a text. For a long text, the box gives up if there is no memory for the results of functions on it.
fn copied(text: &str) -> String {
    // The copy itself and a result three times as long: the worst case of UCASE.
    const TIMES: usize = 4;
    if text.len() >= LONG {
        drop(with_room(TIMES * text.len()));
    }
    text.to_owned()
}

/// An empty text with room for this many bytes. If there is not enough memory, the box gives up.
fn with_room(bytes: usize) -> String {
    let mut text = String::new();
    refusable(|| text.try_reserve_exact(bytes)).unwrap_or_else(|_| give_up(NoMemory { bytes: bytes as u64 }));
    text
}

/// Passes the text and the language, if any, of a string literal to `look`; `None` for other values.
fn with_string<R>(terms: &Terms, value: &Val, look: impl FnOnce(&str, Option<&str>) -> R) -> Option<R> {
    match value {
        Val::String(text) => Some(look(text, None)),
        Val::Id(id) => terms.view(*id, |view| match view {
            TermView::String(text) => Some(look(text, None)),
            TermView::LangString { value, language } => Some(look(value, Some(language))),
            // The direction goes with the language, as in the key.
            TermView::DirString { value, language, direction } => {
                Some(look(value, Some(&format!("{language}--{direction}"))))
            }
            _ => None,
        }),
        Val::Boolean(_) | Val::Number(_) | Val::Moment(_) => None,
    }
}
