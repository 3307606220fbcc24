//! Conditions on one variable as ranges of ids, so that a scan reads only the rows of these ranges.
//!
//! Ids ascend with their terms: strings and IRIs by text, integers by value ([`vicus_rdf::Id`]). So the strings
//! beginning with `"Pa"`, the integers above 198 or the IRIs below a prefix are ranges. A range says whether each of
//! its terms meets the condition, or needs a test still: fresh terms of changes have no place in the order, and a
//! decimal may be greater than an integer, too. Terms outside all ranges don't meet the condition.

use super::estimate::Estimate;
use super::{Goal, Planner};
use crate::algebra::{At, Pattern, Slot, Slots};
use crate::condition::Kinds;
use crate::evaluate::literal_prefix;
use crate::expression::{Compare, Expr, Function};
use crate::operators::Physical;
use crate::operators::filter::Filter;
use crate::operators::scan::Scan;
use crate::operators::union::Union;
use crate::value::Value;
use std::ops::Range;
use vicus_rdf::{Encoder, Id, Order, Position, TermKind, TermView};

/// The greatest number of ranges of a condition. Reading very many small ranges takes longer than reading all.
const MOST: usize = 24;

/// Numbers within this bound are the same in all numeric types, and whole numbers near them are, too.
const EXACT: f64 = 1_000_000.0;

/// Steps counted for finding the rows of a range.
const STEPS: usize = 32;

/// Ids of possible matches of a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Part {
    ids: Range<Id>,
    /// Whether all of them do.
    met: bool,
}

/// Invariant: ascending and disjoint, none empty.
type Parts = Vec<Part>;

/// Rows of an index with possible matches of conditions, in the order of the index.
pub(super) struct Ranged {
    pub(super) slot: Slot,
    pub(super) parts: Vec<RangedRows>,
    /// The number of all these rows; below, of those of the whole pattern.
    pub(super) rows: f64,
    pub(super) all: f64,
    /// The places of the conditions behind these rows.
    pub(super) conditions: Vec<usize>,
    /// The kinds of terms possible for the slot in these rows.
    kinds: Kinds,
}

/// Consecutive rows.
pub(super) struct RangedRows {
    rows: Range<usize>,
    /// Whether all of them meet the conditions.
    met: bool,
}

impl Ranged {
    /// The share of the pattern's rows to read.
    pub(crate) fn share(&self) -> f64 {
        self.rows / self.all.max(1.0)
    }
}

impl Planner<'_> {
    /// The rows of a pattern allowed by its conditions, as far as these read nothing but one of its slots. `None` if
    /// all rows are allowed and some need a test, or if no order of the indexes has them together.
    pub(super) fn ranged(&self, pattern: &Pattern, conditions: &[&Expr]) -> Option<Ranged> {
        if conditions.is_empty() || pattern.graph().slot().is_some() {
            return None;
        }
        let ranges = pattern.slots().filter_map(|slot| {
            let (parts, of) = self.parts_of(slot, conditions)?;
            Some(Ranged { conditions: of, ..self.ranged_rows(pattern, slot, parts)? })
        });
        ranges.reduce(|best, other| if other.rows < best.rows { other } else { best })
    }

    /// The ids allowed by the conditions on a slot, and the places of the conditions used; `None` if these are all ids,
    /// or too many ranges.
    fn parts_of(&self, slot: Slot, conditions: &[&Expr]) -> Option<(Parts, Vec<usize>)> {
        let (mut all, mut places): (Option<Parts>, Vec<usize>) = (None, Vec::new());
        for (place, condition) in conditions.iter().enumerate().filter(|(_, condition)| is_on(condition, slot)) {
            let parts = match self.ids_for(condition) {
                Some(parts) => {
                    places.push(place);
                    parts
                }
                // All ids have to be tested.
                None => everything(),
            };
            all = Some(all.map_or_else(|| parts.clone(), |all| combined(&all, &parts, and)));
        }
        all.filter(|all| !places.is_empty() && all.len() <= MOST).map(|all| (all, places))
    }

    fn ranged_rows(&self, pattern: &Pattern, slot: Slot, parts: Parts) -> Option<Ranged> {
        let snapshot = &self.terms.snapshot;
        let (order, prefix) = self.order_by(pattern, slot)?;
        let index = snapshot.index(order);
        let all = index.count(&prefix);
        let mut kinds = Kinds::NONE;
        let mut ranged: Vec<RangedRows> = Vec::with_capacity(parts.len());
        self.stop.count_steps(STEPS * parts.len());
        for part in parts {
            let rows = index.between(&prefix, part.ids.clone());
            if rows.is_empty() {
                continue;
            }
            kinds = kinds.or(kinds_of(&part.ids));
            match ranged.last_mut() {
                Some(last) if last.met == part.met && last.rows.end == rows.start => last.rows.end = rows.end,
                _ => ranged.push(RangedRows { rows, met: part.met }),
            }
        }
        let rows: usize = ranged.iter().map(|part| part.rows.len()).sum();
        let is_useless = rows == all && ranged.iter().any(|part| !part.met);
        (!is_useless).then(|| Ranged {
            slot,
            parts: ranged,
            rows: rows as f64,
            all: all as f64,
            conditions: Vec::new(),
            kinds,
        })
    }

    /// An order beginning with the constants of a pattern, followed by a slot; and these constants.
    fn order_by(&self, pattern: &Pattern, slot: Slot) -> Option<(Order, Vec<Id>)> {
        let bound = pattern.0.map(|at| at.constant().is_some());
        let mut positions = Position::ALL.into_iter().filter(|&at| pattern.0[at as usize] == At::Slot(slot));
        let (Some(position), None) = (positions.next(), positions.next()) else { return None };
        let order = self.terms.snapshot.best_order_for(bound, Some(position));
        let prefix: Vec<Id> = order.arrange(pattern.0).into_iter().map_while(At::constant).collect();
        let has_all = prefix.len() == bound.iter().filter(|bound| **bound).count();
        (has_all && order.positions().get(prefix.len()) == Some(&position)).then_some((order, prefix))
    }

    /// Reads the rows, and tests those in need of a test.
    pub(super) fn scan_ranges(
        &self,
        pattern: &Pattern,
        ranged: &Ranged,
        conditions: &[Expr],
        needed: &Slots,
        goal: Goal,
    ) -> Physical {
        let (own, others): (Vec<Expr>, Vec<Expr>) =
            conditions.iter().cloned().partition(|condition| is_on(condition, ranged.slot));
        let scan = |part: &RangedRows| {
            let open = if part.met { &others } else { conditions };
            let mut inside = needed.clone();
            inside.extend(open.iter().flat_map(Expr::slots));
            let mut scan = Scan::of_rows(self, pattern, Some(ranged.slot), Some(part.rows.clone()), &inside, goal);
            ranged.restrict(&mut scan.estimate, part.rows.len() as f64);
            scan.conditions.clone_from(&own);
            if goal.first && !part.met {
                scan = Scan::scattered(scan);
            }
            Filter::plan(self, scan, open, needed)
        };
        match &ranged.parts[..] {
            [] => scan(&RangedRows { rows: 0..0, met: true }),
            [part] => scan(part),
            parts => {
                let scans: Vec<Physical> = parts.iter().map(scan).collect();
                let columns = scans[0].columns.clone();
                Union::plan(self, scans, columns)
            }
        }
    }

    /// The ids with a possibly true condition on one slot; `None` if nothing is known.
    fn ids_for(&self, condition: &Expr) -> Option<Parts> {
        match condition {
            Expr::Or(all) => {
                let parts = all.iter().map(|part| self.ids_for(part)).collect::<Option<Vec<Parts>>>()?;
                parts.into_iter().reduce(|a, b| combined(&a, &b, or))
            }
            Expr::And(all) => {
                let parts = all.iter().map(|part| self.ids_for(part).unwrap_or_else(everything));
                parts.reduce(|a, b| combined(&a, &b, and))
            }
            Expr::SameTerm(a, b) => match (&**a, &**b) {
                (Expr::Slot(_), Expr::Constant(id)) | (Expr::Constant(id), Expr::Slot(_)) => Some(self.one(*id)),
                (value, Expr::Constant(id)) | (Expr::Constant(id), value) => self.qualified(value, *id),
                _ => None,
            },
            Expr::In(needle, all) if all.len() <= MOST => {
                let mut parts = Vec::with_capacity(all.len());
                for one in all.iter() {
                    let Expr::Constant(id) = one else { return None };
                    parts.push(self.compared(Compare::Equal, needle, *id)?);
                }
                parts.into_iter().reduce(|a, b| combined(&a, &b, or))
            }
            Expr::Compare(operator, a, b) => {
                let parts = match (&**a, &**b) {
                    (value, Expr::Constant(id)) => self.compared(*operator, value, *id),
                    (Expr::Constant(id), value) => self.compared(operator.flipped(), value, *id),
                    _ => None,
                };
                parts.or_else(|| readable(a)).or_else(|| readable(b))
            }
            Expr::Call(Function::IsIri, operands) => {
                matches!(operands[..], [Expr::Slot(_)]).then(|| of(&[TermKind::Iri]))
            }
            Expr::Call(Function::IsBlank, operands) => {
                matches!(operands[..], [Expr::Slot(_)]).then(|| of(&[TermKind::Blank]))
            }
            Expr::Call(Function::IsLiteral, operands) => {
                matches!(operands[..], [Expr::Slot(_)]).then(|| of(&TermKind::LITERALS))
            }
            Expr::Call(Function::IsTriple, operands) => {
                matches!(operands[..], [Expr::Slot(_)]).then(|| of(&[TermKind::Triple]))
            }
            Expr::Call(Function::IsNumeric, operands) => matches!(operands[..], [Expr::Slot(_)]).then(|| {
                let numbers = xsd_numbers().flat_map(|datatype| self.of_datatype(&datatype, false));
                numbers.fold(self.fresh(TermKind::Typed), |parts, part| joined(parts, vec![part]))
            }),
            Expr::Call(Function::LangMatches, operands) => match &operands[..] {
                [Expr::Call(Function::Lang, of), Expr::Constant(range)]
                    if matches!(of[..], [Expr::Slot(_)]) && !self.string(*range)?.is_empty() =>
                {
                    Some(untested(&[TermKind::LangString, TermKind::DirString]))
                }
                _ => None,
            },
            Expr::Call(Function::StrStarts, operands) => {
                let known = || match &operands[..] {
                    [text, Expr::Constant(start)] => self.texts(text, &Texts::with_prefix(&self.string(*start)?)),
                    _ => None,
                };
                known().or_else(|| readable(condition))
            }
            Expr::Call(Function::Regex, operands) => {
                let (text, pattern) = match &operands[..] {
                    [text, Expr::Constant(pattern)] => (text, pattern),
                    [text, Expr::Constant(pattern), Expr::Constant(flags)] if self.string(*flags)?.is_empty() => {
                        (text, pattern)
                    }
                    _ => return None,
                };
                let prefix = literal_prefix(&self.string(*pattern)?)?;
                let mut parts = self.texts(text, &Texts::with_prefix(&prefix))?;
                parts.iter_mut().for_each(|part| part.met = false);
                Some(parts)
            }
            other => readable(other),
        }
    }

    /// The terms with a constant datatype or language.
    fn qualified(&self, value: &Expr, id: Id) -> Option<Parts> {
        let Expr::Call(function @ (Function::Datatype | Function::Lang), operands) = value else { return None };
        if !matches!(operands[..], [Expr::Slot(_)]) {
            return None;
        }
        if *function == Function::Lang {
            let language = self.string(id)?;
            if language.is_empty() {
                return Some(of(&[TermKind::String, TermKind::Boolean, TermKind::Integer, TermKind::Typed]));
            }
            let keys = Encoder::qualified(&language);
            let ids = self.terms.snapshot.dictionary().range(TermKind::LangString, &keys.start..&keys.end);
            let parts = joined(vec![Part { ids, met: true }], self.fresh(TermKind::LangString));
            return Some(joined(parts, untested(&[TermKind::DirString])));
        }
        let iri =
            self.terms.view(id, |view| if let TermView::Iri(iri) = view { Some(iri.to_owned()) } else { None })?;
        Some(match iri.as_str() {
            STRING => of(&[TermKind::String]),
            LANG_STRING => of(&[TermKind::LangString]),
            DIR_LANG_STRING => of(&[TermKind::DirString]),
            other => joined(self.of_datatype(other, true), self.fresh(TermKind::Typed)),
        })
    }

    /// The literals of a datatype, but for fresh ones; `met` says whether they meet the condition.
    fn of_datatype(&self, iri: &str, met: bool) -> Parts {
        let keys = Encoder::qualified(iri);
        let ids = self.terms.snapshot.dictionary().range(TermKind::Typed, &keys.start..&keys.end);
        let inlined: &[TermKind] = match iri.strip_prefix(XSD) {
            Some("integer") => &[TermKind::Integer],
            Some("boolean") => &[TermKind::Boolean],
            _ => &[],
        };
        joined(of(inlined), vec![Part { ids, met }])
    }

    /// The text of a constant, if it is a simple string.
    fn string(&self, id: Id) -> Option<String> {
        self.terms.view(id, |view| if let TermView::String(text) = view { Some(text.to_owned()) } else { None })
    }

    /// A term alone.
    fn one(&self, id: Id) -> Parts {
        let next = Id::from_bits(id.bits() + 1);
        if self.terms.snapshot.has(id) { vec![Part { ids: id..next, met: true }] } else { Vec::new() }
    }

    /// The terms with a possibly true comparison with a constant.
    fn compared(&self, operator: Compare, value: &Expr, id: Id) -> Option<Parts> {
        if operator == Compare::NotEqual {
            return None;
        }
        if operator == Compare::Equal
            && let Some(parts) = self.qualified(value, id)
        {
            return Some(parts);
        }
        if !matches!(value, Expr::Slot(_)) {
            return self.texts(value, &Texts::compared(operator, &self.string(id)?));
        }
        match id.kind() {
            TermKind::Iri | TermKind::Blank | TermKind::String | TermKind::LangString | TermKind::DirString
                if operator == Compare::Equal =>
            {
                Some(self.one(id))
            }
            TermKind::String => self.texts(value, &Texts::compared(operator, &self.string(id)?)).map(|mut parts| {
                // A string is neither less nor greater than anything else.
                parts.retain(|part| TermKind::String.bounds().contains(&part.ids.start));
                parts
            }),
            TermKind::Integer => {
                Some(joined(within(operator, id..Id::from_bits(id.bits() + 1), TermKind::Integer), typed()))
            }
            TermKind::Boolean => {
                Some(joined(within(operator, id..Id::from_bits(id.bits() + 1), TermKind::Boolean), typed()))
            }
            TermKind::Typed => self.compared_with_typed(operator, id),
            TermKind::Iri
            | TermKind::Blank
            | TermKind::LangString
            | TermKind::DirString
            | TermKind::Triple
            | TermKind::Unbound => None,
        }
    }

    fn compared_with_typed(&self, operator: Compare, id: Id) -> Option<Parts> {
        let snapshot = &self.terms.snapshot;
        match self.terms.view(id, Value::of_view) {
            Value::Number(number) => {
                let value = number.to_f64();
                let mut ids = TermKind::Integer.bounds();
                if value.abs() < EXACT {
                    let whole = |value: f64| Id::integer(value as i64).expect("it is small");
                    if !matches!(operator, Compare::Less | Compare::LessOrEqual) {
                        ids.start = whole(value.floor());
                    }
                    if !matches!(operator, Compare::Greater | Compare::GreaterOrEqual) {
                        ids.end = whole(value.ceil() + 1.0);
                    }
                }
                Some(joined(vec![Part { ids, met: false }], typed()))
            }
            // A moment is compared with those of its own datatype only.
            Value::DateTime(_) | Value::Date(_) | Value::Time(_) => {
                let datatype = self.terms.view(id, |view| match view {
                    TermView::Typed { datatype, .. } => Encoder::qualified(datatype),
                    other => unreachable!("{other} is typed"),
                });
                let ids = snapshot.dictionary().range(TermKind::Typed, &datatype.start..&datatype.end);
                Some(joined(vec![Part { ids, met: false }], self.fresh(TermKind::Typed)))
            }
            // Such a literal equals itself alone, and has no order.
            Value::Other | Value::IllTyped if operator == Compare::Equal => Some(self.one(id)),
            _ => None,
        }
    }

    /// The terms with a text (as `value` takes it) within a range.
    fn texts(&self, value: &Expr, texts: &Texts) -> Option<Parts> {
        // Of a variable, only strings have a text; STR gives one to every IRI and literal.
        let is_any = match value {
            Expr::Slot(_) => false,
            Expr::Call(Function::Str, operands) if matches!(operands[..], [Expr::Slot(_)]) => true,
            _ => return None,
        };
        let by_text: &[TermKind] = if is_any { &[TermKind::Iri, TermKind::String] } else { &[TermKind::String] };
        let mut parts = Vec::new();
        for &kind in by_text {
            let ids = texts.bounds(|text| self.terms.snapshot.dictionary().search(kind, text), kind);
            parts = joined(joined(parts, vec![Part { ids, met: true }]), self.fresh(kind));
        }
        let others: &[TermKind] =
            if is_any { &TermKind::LITERALS[1..] } else { &[TermKind::LangString, TermKind::DirString] };
        let others = of(others).into_iter().map(|part| Part { met: false, ..part }).collect();
        Some(joined(parts, others))
    }

    /// The fresh terms of a kind; all need a test.
    fn fresh(&self, kind: TermKind) -> Parts {
        if self.terms.snapshot.fresh().is_empty() {
            return Vec::new();
        }
        vec![Part { ids: Id::unranked(kind, 0)..kind.bounds().end, met: false }]
    }
}

impl Ranged {
    /// Scales the estimate of the whole pattern to `rows` of these rows.
    pub(crate) fn restrict(&self, estimate: &mut Estimate, rows: f64) {
        let share = rows / self.all.max(1.0);
        if let Some(facts) = estimate.facts.get_mut(&self.slot) {
            facts.distinct = (facts.distinct * share).max(1.0);
            facts.kinds = facts.kinds.and(self.kinds);
        }
        let all = std::mem::take(estimate);
        *estimate = all.with_rows(rows);
    }
}

/// A range of texts.
struct Texts {
    /// The least text, and whether it is one of them; `None` for all below the greatest one.
    from: Option<(String, bool)>,
    to: Option<(String, bool)>,
}

impl Texts {
    fn compared(operator: Compare, text: &str) -> Texts {
        let at = |is_in: bool| Some((text.to_owned(), is_in));
        match operator {
            Compare::Less => Texts { from: None, to: at(false) },
            Compare::LessOrEqual => Texts { from: None, to: at(true) },
            Compare::Greater => Texts { from: at(false), to: None },
            Compare::GreaterOrEqual => Texts { from: at(true), to: None },
            Compare::Equal | Compare::NotEqual => Texts { from: at(true), to: at(true) },
        }
    }

    /// The texts beginning with this one.
    fn with_prefix(prefix: &str) -> Texts {
        Texts { from: Some((prefix.to_owned(), true)), to: behind(prefix).map(|text| (text, false)) }
    }

    /// The ids of a kind with these texts; `search` gives the id of a text or of the next greater one.
    fn bounds(&self, search: impl Fn(&str) -> Result<Id, Id>, kind: TermKind) -> Range<Id> {
        let place = |text: &str, is_before: bool| match search(text) {
            Ok(id) if !is_before => Id::from_bits(id.bits() + 1),
            Ok(id) | Err(id) => id,
        };
        let start = self.from.as_ref().map_or(Id::ranked(kind, 0), |(text, is_in)| place(text, *is_in));
        let end = self.to.as_ref().map_or(Id::unranked(kind, 0), |(text, is_in)| place(text, !*is_in));
        start..end
    }
}

/// The least text above all texts with a prefix; `None` if there is none.
fn behind(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// Whether a condition reads this slot and no other, and is the same each time.
fn is_on(condition: &Expr, slot: Slot) -> bool {
    let slots = condition.slots();
    slots.len() == 1 && slots.contains(&slot) && !condition.is_volatile() && !condition.has_exists()
}

/// Whether an id meets both of two conditions: `None` if it doesn't, true if it surely does.
fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    Some(a? && b?)
}

/// Like [`and`], for one of two conditions. A condition that is met decides alone.
fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (None, None) => None,
        _ => Some(a == Some(true) || b == Some(true)),
    }
}

fn everything() -> Parts {
    vec![Part { ids: Id::UNBOUND..Id::from_bits(u64::MAX), met: false }]
}

/// All terms of these kinds, in ascending order.
fn of(kinds: &[TermKind]) -> Parts {
    kinds.iter().map(|kind| Part { ids: kind.bounds(), met: true }).collect()
}

/// Like [`of`], but each term needs a test.
fn untested(kinds: &[TermKind]) -> Parts {
    of(kinds).into_iter().map(|part| Part { met: false, ..part }).collect()
}

/// The terms for which a call within an expression doesn't fail. If a condition fails with one of its operands, the
/// other operands can't make it true.
fn readable(expr: &Expr) -> Option<Parts> {
    let Expr::Call(function, operands) = expr else { return None };
    use Function::{
        Contains, EncodeForUri, LCase, LangMatches, Regex, Replace, StrAfter, StrBefore, StrEnds, StrLen, StrStarts,
        SubStr, UCase,
    };
    if !matches!(
        function,
        Contains
            | EncodeForUri
            | LCase
            | LangMatches
            | Regex
            | Replace
            | StrAfter
            | StrBefore
            | StrEnds
            | StrLen
            | StrStarts
            | SubStr
            | UCase
    ) {
        return None;
    }
    match operands.first()? {
        Expr::Slot(_) => Some(untested(&[TermKind::String, TermKind::LangString, TermKind::DirString])),
        inner => readable(inner),
    }
}

/// The datatypes of numbers.
fn xsd_numbers() -> impl Iterator<Item = String> {
    let names = [
        "byte",
        "decimal",
        "double",
        "float",
        "int",
        "integer",
        "long",
        "negativeInteger",
        "nonNegativeInteger",
        "nonPositiveInteger",
        "positiveInteger",
        "short",
        "unsignedByte",
        "unsignedInt",
        "unsignedLong",
        "unsignedShort",
    ];
    names.into_iter().map(|name| format!("{XSD}{name}"))
}

const XSD: &str = "http://www.w3.org/2001/XMLSchema#";
const STRING: &str = "http://www.w3.org/2001/XMLSchema#string";
const LANG_STRING: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString";
const DIR_LANG_STRING: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#dirLangString";

/// Literals without an order of values, or outside the order of other numbers.
fn typed() -> Parts {
    vec![Part { ids: TermKind::Typed.bounds(), met: false }]
}

/// The ids of a kind with this relation to an id in a range.
fn within(operator: Compare, with: Range<Id>, kind: TermKind) -> Parts {
    let Range { start, end } = kind.bounds();
    let ids = match operator {
        Compare::Less => start..with.start,
        Compare::LessOrEqual => start..with.end,
        Compare::Greater => with.end..end,
        Compare::GreaterOrEqual => with.start..end,
        Compare::Equal | Compare::NotEqual => with,
    };
    vec![Part { ids, met: true }]
}

fn kinds_of(ids: &Range<Id>) -> Kinds {
    TermKind::ALL.into_iter().fold(Kinds::NONE, |all, kind| {
        let bounds = kind.bounds();
        if bounds.end <= ids.start || ids.end <= bounds.start {
            return all;
        }
        let has_fresh = kind.section().is_some() && ids.end > Id::unranked(kind, 0);
        let all = all.or(Kinds::of(kind));
        if has_fresh { all.or_fresh() } else { all }
    })
}

/// The union of two disjoint sets.
fn joined(a: Parts, b: Parts) -> Parts {
    let mut parts = a;
    parts.extend(b);
    parts.retain(|part| part.ids.start < part.ids.end);
    parts.sort_by_key(|part| part.ids.start);
    parts
}

/// The ids that meet two conditions combined by `combine`.
fn combined(a: &Parts, b: &Parts, combine: fn(Option<bool>, Option<bool>) -> Option<bool>) -> Parts {
    let mut bounds: Vec<Id> = a.iter().chain(b).flat_map(|part| [part.ids.start, part.ids.end]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let at = |parts: &Parts, id: Id| {
        let place = parts.partition_point(|part| part.ids.end <= id);
        parts.get(place).filter(|part| part.ids.start <= id).map(|part| part.met)
    };
    let mut made: Parts = Vec::new();
    for pair in bounds.windows(2) {
        let Some(met) = combine(at(a, pair[0]), at(b, pair[0])) else { continue };
        match made.last_mut() {
            Some(last) if last.ids.end == pair[0] && last.met == met => last.ids.end = pair[1],
            _ => made.push(Part { ids: pair[0]..pair[1], met }),
        }
    }
    made
}
