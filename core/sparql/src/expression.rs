//! Expressions as trees over slots; in a box, the slots are column numbers.

use crate::algebra::{Node, Slot, Slots};
use crate::condition::Kinds;
use crate::value::Numbers;
use std::cmp::Ordering;
use std::sync::Arc;
use vicus_rdf::{Id, TermKind};

/// A comparison operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Compare {
    /// The operator that gives the same result with its operands exchanged.
    pub(crate) fn flipped(self) -> Compare {
        match self {
            Compare::Less => Compare::Greater,
            Compare::LessOrEqual => Compare::GreaterOrEqual,
            Compare::Greater => Compare::Less,
            Compare::GreaterOrEqual => Compare::LessOrEqual,
            same => same,
        }
    }

    /// Whether operands in this order meet it.
    pub(crate) fn is_met_by(self, order: Ordering) -> bool {
        match self {
            Compare::Equal => order.is_eq(),
            Compare::NotEqual => order.is_ne(),
            Compare::Less => order.is_lt(),
            Compare::LessOrEqual => order.is_le(),
            Compare::Greater => order.is_gt(),
            Compare::GreaterOrEqual => order.is_ge(),
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            Compare::Equal => "=",
            Compare::NotEqual => "!=",
            Compare::Less => "<",
            Compare::LessOrEqual => "<=",
            Compare::Greater => ">",
            Compare::GreaterOrEqual => ">=",
        }
    }
}

/// An arithmetic operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A function of terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Function {
    Str,
    Lang,
    LangMatches,
    Datatype,
    IsIri,
    IsBlank,
    IsLiteral,
    IsNumeric,
    Regex,
    StrLen,
    UCase,
    LCase,
    Contains,
    StrStarts,
    StrEnds,
    Abs,
    Ceil,
    Floor,
    Round,
    Replace,
    SubStr,
    StrBefore,
    StrAfter,
    Concat,
    EncodeForUri,
    Hash(Hash),
    Iri,
    StrDt,
    StrLang,
    StrLangDir,
    LangDir,
    HasLang,
    HasLangDir,
    Triple,
    Subject,
    Predicate,
    Object,
    IsTriple,
    /// Subject, predicate or object of what is a triple term for certain: it never fails.
    Part(u8),
    /// With a label and the number of a row as operands: equal operands give the same node.
    BNode,
    /// A different number each time.
    RowNumber,
    Rand,
    Uuid,
    StrUuid,
    Now,
    Of(DateField),
    Timezone,
    Tz,
    Cast(Cast),
}

impl Function {
    /// Whether two calls with the same operands may give different values.
    fn is_volatile(self) -> bool {
        matches!(self, Function::BNode | Function::RowNumber | Function::Rand | Function::Uuid | Function::StrUuid)
    }
}

/// A hash function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hash {
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

/// A field of a date or time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DateField {
    Year,
    Month,
    Day,
    Hours,
    Minutes,
    Seconds,
}

/// A type with a constructor function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cast {
    String,
    Boolean,
    Integer,
    Decimal,
    Float,
    Double,
    DateTime,
    Date,
    Time,
}

/// An expression. Unbound variables and wrong operands make it fail; a filter takes that for false.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Expr {
    Constant(Id),
    Slot(Slot),
    /// Fails always: a variable that can't be bound here.
    Error,
    Or(Vec<Expr>),
    And(Vec<Expr>),
    Not(Box<Expr>),
    Compare(Compare, Box<Expr>, Box<Expr>),
    SameTerm(Box<Expr>, Box<Expr>),
    /// Lists may be long: copies share them.
    In(Box<Expr>, Arc<Vec<Expr>>),
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    Negate(Box<Expr>),
    Plus(Box<Expr>),
    Bound(Slot),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    Coalesce(Vec<Expr>),
    /// True if the operand has a value, else an error: for COUNT, which never uses the value itself.
    Has(Box<Expr>),
    Call(Function, Vec<Expr>),
    /// Whether a pattern has a solution when these slots have the values of these expressions.
    Exists(Arc<Node>, Vec<(Slot, Expr)>),
}

impl Expr {
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Constant(_) | Expr::Slot(_) | Expr::Error | Expr::Bound(_) => Vec::new(),
            Expr::Or(all) | Expr::And(all) | Expr::Coalesce(all) | Expr::Call(_, all) => all.iter().collect(),
            Expr::Not(a) | Expr::Negate(a) | Expr::Plus(a) | Expr::Has(a) => vec![a],
            Expr::Compare(_, a, b) | Expr::SameTerm(a, b) | Expr::Arithmetic(_, a, b) => vec![a, b],
            Expr::In(a, all) => std::iter::once(&**a).chain(all.iter()).collect(),
            Expr::If(a, b, c) => vec![a, b, c],
            Expr::Exists(_, outside) => outside.iter().map(|(_, expr)| expr).collect(),
        }
    }

    pub(crate) fn children_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Expr::Constant(_) | Expr::Slot(_) | Expr::Error | Expr::Bound(_) => Vec::new(),
            Expr::Or(all) | Expr::And(all) | Expr::Coalesce(all) | Expr::Call(_, all) => all.iter_mut().collect(),
            Expr::Not(a) | Expr::Negate(a) | Expr::Plus(a) | Expr::Has(a) => vec![a],
            Expr::Compare(_, a, b) | Expr::SameTerm(a, b) | Expr::Arithmetic(_, a, b) => vec![a, b],
            Expr::In(a, all) => std::iter::once(&mut **a).chain(Arc::make_mut(all)).collect(),
            Expr::If(a, b, c) => vec![a, b, c],
            Expr::Exists(_, outside) => outside.iter_mut().map(|(_, expr)| expr).collect(),
        }
    }

    /// All slots that it reads.
    pub(crate) fn slots(&self) -> Slots {
        let mut slots = Slots::new();
        self.collect_slots(&mut slots);
        slots
    }

    fn collect_slots(&self, slots: &mut Slots) {
        if let Expr::Slot(slot) | Expr::Bound(slot) = self {
            slots.insert(*slot);
        }
        self.children().into_iter().for_each(|child| child.collect_slots(slots));
    }

    /// Replaces each slot by an expression: another slot, a constant, or [`Expr::Error`] if the slot is never bound.
    pub(crate) fn replace(&mut self, by: &impl Fn(Slot) -> Expr) {
        match self {
            Expr::Slot(slot) => *self = by(*slot),
            Expr::Bound(slot) => {
                *self = match by(*slot) {
                    Expr::Slot(slot) => Expr::Bound(slot),
                    Expr::Error => Expr::Constant(Id::boolean(false)),
                    _ => Expr::Constant(Id::boolean(true)),
                }
            }
            _ => self.children_mut().into_iter().for_each(|child| child.replace(by)),
        }
    }

    /// A copy in which each slot is replaced.
    pub(crate) fn replaced(&self, by: &impl Fn(Slot) -> Expr) -> Expr {
        let mut copy = self.clone();
        copy.replace(by);
        copy
    }

    /// How often a slot occurs.
    pub(crate) fn uses(&self, slot: Slot) -> usize {
        let here = usize::from(matches!(self, Expr::Slot(other) | Expr::Bound(other) if *other == slot));
        here + self.children().into_iter().map(|child| child.uses(slot)).sum::<usize>()
    }

    /// Whether BOUND of this slot occurs.
    pub(crate) fn asks_for(&self, slot: Slot) -> bool {
        matches!(self, Expr::Bound(other) if *other == slot)
            || self.children().into_iter().any(|child| child.asks_for(slot))
    }

    /// Whether it has a value whenever these slots have one. False if that is not certain.
    pub(crate) fn never_fails(&self, certain: &Slots) -> bool {
        match self {
            Expr::Constant(_) | Expr::Bound(_) => true,
            Expr::Slot(slot) => certain.contains(slot),
            Expr::Has(inner) => inner.never_fails(certain),
            Expr::SameTerm(..) => self.children().into_iter().all(|child| child.never_fails(certain)),
            Expr::Call(
                Function::IsIri
                | Function::IsBlank
                | Function::IsLiteral
                | Function::IsNumeric
                | Function::IsTriple
                | Function::Part(_)
                | Function::HasLang
                | Function::HasLangDir,
                operands,
            ) => operands.iter().all(|operand| operand.never_fails(certain)),
            _ => false,
        }
    }

    /// Whether two evaluations for the same row may give different values.
    pub(crate) fn is_volatile(&self) -> bool {
        matches!(self, Expr::Call(function, _) if function.is_volatile())
            || matches!(self, Expr::Exists(node, _) if node.is_volatile())
            || self.children().into_iter().any(Expr::is_volatile)
    }

    /// Whether it is not volatile, and takes few steps and little memory for each row.
    pub(crate) fn is_quick(&self) -> bool {
        let itself = match self {
            Expr::Exists(..) => false,
            Expr::Call(function, _) => {
                use Function::{Abs, Cast, Ceil, Datatype, Floor, Of, Round, Str, StrLen};
                matches!(function, Str | Datatype | StrLen | Abs | Ceil | Floor | Round | Of(_) | Cast(_))
            }
            _ => true,
        };
        itself && self.children().into_iter().all(Expr::is_quick)
    }

    /// Which types of numbers it may make.
    pub(crate) fn makes(&self) -> Numbers {
        let here = match self {
            // STRDT may make a literal of any datatype.
            Expr::Call(Function::Cast(Cast::Float) | Function::StrDt, _) => Numbers::Floats,
            Expr::Call(Function::Cast(Cast::Double) | Function::Rand, _) => Numbers::Doubles,
            Expr::Exists(node, _) => node.makes(),
            _ => Numbers::Exact,
        };
        self.children().into_iter().fold(here, |all, child| all.and(child.makes()))
    }

    /// Whether another run may give another value.
    pub(crate) fn chooses(&self) -> bool {
        match self {
            Expr::Call(function, _) if function.is_volatile() || *function == Function::Now => true,
            Expr::Exists(node, _) if node.chooses() => true,
            other => other.children().into_iter().any(Expr::chooses),
        }
    }

    /// Whether it may make terms unknown to both the store and the query.
    pub(crate) fn computes(&self) -> bool {
        matches!(self, Expr::Call(..) | Expr::Arithmetic(..) | Expr::Negate(_))
            || self.children().into_iter().any(Expr::computes)
    }

    /// Whether an EXISTS occurs.
    pub(crate) fn has_exists(&self) -> bool {
        matches!(self, Expr::Exists(..)) || self.children().into_iter().any(Expr::has_exists)
    }

    /// Whether it makes a blank node for a label, and has no row number yet.
    pub(crate) fn has_labelled_blank(&self) -> bool {
        matches!(self, Expr::Call(Function::BNode, operands) if operands.len() == 1)
            || self.children().into_iter().any(Expr::has_labelled_blank)
    }

    /// Gives BNODE calls with a label the slot of the row number as their second operand.
    pub(crate) fn label_blanks(&mut self, row: Slot) {
        if let Expr::Call(Function::BNode, operands) = self
            && operands.len() == 1
        {
            operands.push(Expr::Slot(row));
        }
        self.children_mut().into_iter().for_each(|child| child.label_blanks(row));
    }

    /// The conjuncts, all of which must be true for the whole to be true.
    pub(crate) fn conjuncts(self) -> Vec<Expr> {
        match self {
            Expr::And(all) => all.into_iter().flat_map(Expr::conjuncts).collect(),
            other => vec![other],
        }
    }

    /// The two sides of `a = b` that can be computed apart from each other: both read slots, none of them the same, and
    /// each computation gives the same value every time.
    pub(crate) fn as_equality(&self) -> Option<(&Expr, &Expr)> {
        let (Expr::Compare(Compare::Equal, a, b) | Expr::SameTerm(a, b)) = self else { return None };
        let (left, right) = (a.slots(), b.slots());
        let is_apart = !left.is_empty() && !right.is_empty() && left.intersection(&right).next().is_none();
        let is_simple = |expr: &Expr| !expr.is_volatile() && !expr.has_exists();
        (is_apart && is_simple(a) && is_simple(b)).then_some((a, b))
    }

    /// The kinds of terms that it may make. Its value may be a term of the store or a computed one.
    pub(crate) fn kinds(&self) -> Kinds {
        match self {
            Expr::Constant(id) => Kinds::of_id(*id),
            Expr::Call(function, _) => match function {
                Function::Str
                | Function::Lang
                | Function::LangDir
                | Function::EncodeForUri
                | Function::Hash(_)
                | Function::StrUuid => Kinds::of(TermKind::String).or_computed(),
                Function::UCase
                | Function::LCase
                | Function::SubStr
                | Function::StrBefore
                | Function::StrAfter
                | Function::Replace
                | Function::Concat => Kinds::of(TermKind::String)
                    .or(Kinds::of(TermKind::LangString))
                    .or(Kinds::of(TermKind::DirString))
                    .or_computed(),
                Function::Triple => Kinds::of(TermKind::Triple).or_fresh().or_computed(),
                Function::Predicate | Function::Part(1) => Kinds::of(TermKind::Iri).or_fresh().or_computed(),
                Function::Subject | Function::Part(0) => {
                    Kinds::of(TermKind::Iri).or(Kinds::of(TermKind::Blank)).or_fresh().or_computed()
                }
                _ => Kinds::ANY,
            },
            _ => Kinds::ANY,
        }
    }

    /// The slots of `?a = ?b`, if they differ.
    pub(crate) fn as_slot_equality(&self) -> Option<(Slot, Slot)> {
        match self {
            Expr::Compare(Compare::Equal, a, b) | Expr::SameTerm(a, b) => match (&**a, &**b) {
                (Expr::Slot(a), Expr::Slot(b)) if a != b => Some((*a, *b)),
                _ => None,
            },
            _ => None,
        }
    }
}
