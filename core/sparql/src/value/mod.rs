//! The values of literals: numbers, strings, dates; and when two of them are equal, or one is less.
//!
//! SPARQL 1.1, §17.2–17.4.1. Ids are compared directly where that gives the same result; only otherwise are terms read.

mod decimal;
mod moment;
mod number;

pub(crate) use decimal::Decimal;
pub(crate) use moment::{Date, DateTime, Duration, Instant, Time, Zone};
pub(crate) use number::{Number, Rounding, rounded};

use crate::terms::Terms;
use oxrdf::{BaseDirection, TermRef};
use std::cmp::Ordering;
use std::hash::{BuildHasher as _, Hash};
use vicus_rdf::{Id, Snapshot, TermKind, TermView};

const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

/// The value of a term.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Iri,
    Blank,
    /// Two of them are compared by their parts: [`equal`].
    Triple,
    String(String),
    Lang(String),
    Boolean(bool),
    Number(Number),
    DateTime(DateTime),
    Date(Date),
    Time(Time),
    Duration(Duration),
    /// A literal of a numeric type or `xsd:boolean` whose text is not valid for its datatype.
    IllTyped,
    /// A literal of an unsupported datatype, or of another datatype with an invalid text.
    Other,
}

impl Value {
    pub(crate) fn of_view(view: TermView<'_>) -> Value {
        match view {
            TermView::Blank(_) => Value::Blank,
            TermView::Iri(_) => Value::Iri,
            TermView::String(value) => Value::String(value.to_owned()),
            TermView::LangString { value, .. } | TermView::DirString { value, .. } => Value::Lang(value.to_owned()),
            TermView::Boolean(value) => Value::Boolean(value),
            TermView::Integer(value) => Value::Number(Number::Integer(value)),
            TermView::Typed { value, datatype } => Value::of_typed(value, datatype),
            TermView::Triple(_) => Value::Triple,
        }
    }

    fn of_typed(value: &str, datatype: &str) -> Value {
        let Some(name) = datatype.strip_prefix(XSD) else { return Value::Other };
        let number = match name {
            "decimal" => Decimal::parse(value).map(Number::Decimal),
            "double" => Number::parse_double(value).map(Number::Double),
            "float" => Number::parse_float(value).map(Number::Float),
            "boolean" => {
                return match value {
                    "true" | "1" => Value::Boolean(true),
                    "false" | "0" => Value::Boolean(false),
                    _ => Value::IllTyped,
                };
            }
            "dateTime" => return DateTime::parse(value).map_or(Value::Other, Value::DateTime),
            "date" => return Date::parse(value).map_or(Value::Other, Value::Date),
            "time" => return Time::parse(value).map_or(Value::Other, Value::Time),
            "duration" | "dayTimeDuration" | "yearMonthDuration" => {
                let duration = Duration::parse(value, name != "dayTimeDuration", name != "yearMonthDuration");
                return duration.map_or(Value::Other, Value::Duration);
            }
            _ => match bounds(name) {
                Some((least, greatest)) => Number::parse_integer(value).filter(|number| {
                    let above =
                        |bound: Option<&Number>, order| bound.is_none_or(|bound| number.compare(bound) != Some(order));
                    above(least.as_ref(), Ordering::Less) && above(greatest.as_ref(), Ordering::Greater)
                }),
                None => return Value::Other,
            },
        };
        number.map_or(Value::IllTyped, Value::Number)
    }

    /// §17.2.2: `None` is an error.
    pub(crate) fn truth(&self) -> Option<bool> {
        match self {
            Value::Boolean(value) => Some(*value),
            Value::String(value) | Value::Lang(value) => Some(!value.is_empty()),
            Value::Number(number) => Some(number.truth()),
            Value::IllTyped => Some(false),
            _ => None,
        }
    }

    /// The order of two values of the same kind; `None` for an error or a NaN.
    pub(crate) fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Number(a), Value::Number(b)) => a.compare(b),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Boolean(a), Value::Boolean(b)) => Some(a.cmp(b)),
            (Value::DateTime(a), Value::DateTime(b)) => a.compare(*b),
            (Value::Date(a), Value::Date(b)) => a.start().compare(b.start()),
            (Value::Time(a), Value::Time(b)) => a.compare(*b),
            (Value::Duration(a), Value::Duration(b)) => a.compare(*b),
            _ => None,
        }
    }

    /// A moment's place on the time line, and the number of its datatype: even with a zone, odd without. `None` for
    /// other values.
    pub(crate) fn moment(&self) -> Option<(usize, Instant)> {
        let (datatype, zone, instant) = match self {
            Value::DateTime(value) => (0, value.zone(), value.instant()),
            Value::Date(value) => (2, value.zone, value.start().instant()),
            Value::Time(value) => (4, value.zone, value.instant()),
            _ => return None,
        };
        Some((datatype + usize::from(zone.is_none()), instant))
    }

    /// Whether two different terms have equal values; `None` is an error.
    pub(crate) fn equals(&self, other: &Value) -> Option<bool> {
        match (self, other) {
            // For these kinds, different terms have different values.
            (Value::Iri | Value::Blank | Value::Triple | Value::Lang(_), _)
            | (_, Value::Iri | Value::Blank | Value::Triple | Value::Lang(_)) => Some(false),
            // Two texts of an unknown datatype may stand for the same value.
            (Value::Other | Value::IllTyped, _) | (_, Value::Other | Value::IllTyped) => None,
            (Value::Number(a), Value::Number(b)) => Some(a.compare(b) == Some(Ordering::Equal)),
            (Value::DateTime(_), Value::DateTime(_))
            | (Value::Date(_), Value::Date(_))
            | (Value::Time(_), Value::Time(_)) => Some(self.compare(other)? == Ordering::Equal),
            (Value::Duration(a), Value::Duration(b)) => Some(a.equals(*b)),
            (Value::String(_), Value::String(_)) | (Value::Boolean(_), Value::Boolean(_)) => {
                Some(self.compare(other) == Some(Ordering::Equal))
            }
            // These datatypes have no value in common.
            _ => Some(false),
        }
    }
}

/// The least and the greatest value of an integer type; `None` for other types.
fn bounds(name: &str) -> Option<(Option<Number>, Option<Number>)> {
    let between = |least: i64, greatest: i64| (Some(Number::Integer(least)), Some(Number::Integer(greatest)));
    Some(match name {
        "integer" => (None, None),
        "long" => between(i64::MIN, i64::MAX),
        "int" => between(i32::MIN.into(), i32::MAX.into()),
        "short" => between(i16::MIN.into(), i16::MAX.into()),
        "byte" => between(i8::MIN.into(), i8::MAX.into()),
        "nonNegativeInteger" => (Some(Number::Integer(0)), None),
        "positiveInteger" => (Some(Number::Integer(1)), None),
        "nonPositiveInteger" => (None, Some(Number::Integer(0))),
        "negativeInteger" => (None, Some(Number::Integer(-1))),
        "unsignedLong" => (Some(Number::Integer(0)), Number::parse_integer("18446744073709551615")),
        "unsignedInt" => between(0, u32::MAX.into()),
        "unsignedShort" => between(0, u16::MAX.into()),
        "unsignedByte" => between(0, u8::MAX.into()),
        _ => return None,
    })
}

/// `=` of two terms: equal terms or equal values. `None` is an error.
pub(crate) fn equal(terms: &Terms, a: Id, b: Id) -> Option<bool> {
    if a.is_triple() && b.is_triple() {
        return equal_triples(terms, a, b);
    }
    if terms.is_same(a, b) {
        // Every value except NaN equals itself.
        return match a.kind() {
            TermKind::Typed => match terms.view(a, Value::of_view) {
                Value::Number(number) => Some(!number.is_nan()),
                _ => Some(true),
            },
            _ => Some(true),
        };
    }
    if a.kind() != TermKind::Typed && b.kind() != TermKind::Typed {
        return Some(false);
    }
    terms.view(a, Value::of_view).equals(&terms.view(b, Value::of_view))
}

/// `=` of two triple terms: all their parts are equal. SPARQL 1.2, §17.4.1.2.
fn equal_triples(terms: &Terms, a: Id, b: Id) -> Option<bool> {
    let mut all = Some(true);
    for (a, b) in terms.parts(a).into_iter().zip(terms.parts(b)) {
        match equal(terms, a, b) {
            Some(true) => {}
            Some(false) => return Some(false),
            None => all = None,
        }
    }
    all
}

/// The order of two terms by `<`. `None` is an error or a NaN.
pub(crate) fn compare(terms: &Terms, a: Id, b: Id) -> Option<Ordering> {
    if a.kind() == b.kind() && is_ordered(a) && is_ordered(b) {
        return Some(a.cmp(&b));
    }
    if a.kind() == TermKind::String && b.kind() == TermKind::String {
        if terms.snapshot.has(a) && terms.snapshot.has(b) {
            return Some(terms.snapshot.compare(a, b));
        }
        return Some(terms.view(a, |a| terms.view(b, |b| a.as_str().cmp(&b.as_str()))));
    }
    terms.view(a, Value::of_view).compare(&terms.view(b, Value::of_view))
}

/// Whether the ids of this id's kind are ordered as `<` orders their values.
fn is_ordered(id: Id) -> bool {
    !id.is_unranked() && matches!(id.kind(), TermKind::String | TermKind::Integer | TermKind::Boolean)
}

/// A join key: the same number for all terms with equal values. Terms that are never equal may have the same key, too.
pub(crate) fn value_key(terms: &Terms, id: Id) -> u64 {
    match id.kind() {
        TermKind::Integer if terms.numbers == Numbers::Exact => id.bits(),
        TermKind::Integer => number_key(terms, &Number::Integer(id.as_integer().expect("it is inlined"))),
        TermKind::Typed => key_of_value(terms, &terms.view(id, Value::of_view)).unwrap_or_else(|| id.bits()),
        TermKind::Triple => hash(terms, &terms.parts(id).map(|part| value_key(terms, part))),
        _ => id.bits(),
    }
}

/// The join key of a value that several terms may have; `None` for other values.
pub(crate) fn key_of_value(terms: &Terms, value: &Value) -> Option<u64> {
    Some(match value {
        Value::Number(number) => number_key(terms, number),
        Value::Boolean(value) => Id::boolean(*value).bits(),
        // Several texts may stand for the same moment.
        Value::DateTime(value) => hash(terms, &value.instant()),
        Value::Date(value) => hash(terms, &value.start().instant()),
        Value::Time(value) => hash(terms, &value.instant()),
        Value::Duration(value) => hash(terms, &value.key()),
        _ => return None,
    })
}

/// Numbers are compared in the least type for both, so the widest type in the data decides about equality: many
/// integers beyond 2^24 equal the same `xsd:float`. Without such a type, they have different keys.
fn number_key(terms: &Terms, number: &Number) -> u64 {
    // Zero has two signs and one value.
    match terms.numbers {
        Numbers::Floats => u64::from((number.to_f32() + 0.0).to_bits()) | 1 << 63,
        Numbers::Doubles => hash(terms, &(number.to_f64() + 0.0).to_bits()),
        Numbers::Exact => match number.exact() {
            Some(value) => match value.as_i64() {
                Some(whole) => Id::integer(whole).map_or_else(|| hash(terms, &whole), Id::bits),
                None => hash(terms, &value.to_string()),
            },
            // No exact value, or no exact number equals it.
            None => hash(terms, &number.to_f64().to_bits()),
        },
    }
}

/// The types of numbers, besides integers and decimals, that a query may come across.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbers {
    /// None: integers and decimals only.
    Exact,
    Doubles,
    /// Floats and doubles.
    Floats,
}

impl Numbers {
    /// The types in a store, and those that expressions make.
    pub(crate) fn of(snapshot: &Snapshot, made: Numbers) -> Numbers {
        let has = |name: &str| snapshot.has_datatype(&format!("{XSD}{name}"));
        match made {
            Numbers::Floats => made,
            _ if has("float") => Numbers::Floats,
            Numbers::Exact if has("double") => Numbers::Doubles,
            _ => made,
        }
    }

    /// The type of a term.
    pub(crate) fn of_term(term: TermRef<'_>) -> Numbers {
        let TermRef::Literal(literal) = term else { return Numbers::Exact };
        match literal.datatype().as_str().strip_prefix(XSD) {
            Some("float") => Numbers::Floats,
            Some("double") => Numbers::Doubles,
            _ => Numbers::Exact,
        }
    }

    pub(crate) fn and(self, other: Numbers) -> Numbers {
        match (self, other) {
            (Numbers::Floats, _) | (_, Numbers::Floats) => Numbers::Floats,
            (Numbers::Doubles, _) | (_, Numbers::Doubles) => Numbers::Doubles,
            _ => Numbers::Exact,
        }
    }
}

fn hash(terms: &Terms, value: &impl Hash) -> u64 {
    // Keyed; otherwise many moments with the same hash could be chosen.
    terms.key.hash_one(value) | 1 << 63
}

/// The order of ORDER BY, §15.1, made total: unbound, blank nodes, IRIs, literals, then triple terms by their parts;
/// numbers by value, then one datatype after the other; equal values by their ids.
pub(crate) fn total_order(terms: &Terms, a: Id, b: Id) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let rank = |id: Id| match id.kind() {
        TermKind::Unbound => 0,
        TermKind::Blank => 1,
        TermKind::Iri => 2,
        TermKind::String => 3,
        TermKind::LangString => 4,
        TermKind::DirString => 5,
        TermKind::Boolean => 6,
        TermKind::Integer => 7,
        TermKind::Typed => match terms.view(id, Value::of_view) {
            Value::Boolean(_) => 6,
            // NaN has no place among the numbers.
            Value::Number(number) if !number.is_nan() => 7,
            Value::Number(_) => 8,
            Value::DateTime(_) => 9,
            Value::Date(_) => 10,
            _ => 11,
        },
        TermKind::Triple => 12,
    };
    let text = |id: Id| terms.view(id, |view| view.to_string());
    let snapshot = &terms.snapshot;
    let by_value = || match (rank(a), !snapshot.has(a) || !snapshot.has(b)) {
        (1..=5, false) => snapshot.compare(a, b),
        // Those of the store come first.
        (1, true) => a.cmp(&b),
        (2 | 4 | 5, true) => key_order(terms, a, b),
        (3 | 6, _) => compare(terms, a, b).unwrap_or(Ordering::Equal),
        (7, _) => match (terms.view(a, Value::of_view), terms.view(b, Value::of_view)) {
            (Value::Number(a), Value::Number(b)) => number_order(&a, &b),
            other => unreachable!("{other:?} are two numbers"),
        },
        (9 | 10, _) => date_order(terms, a, b),
        (12, _) => {
            let mut pairs = terms.parts(a).into_iter().zip(terms.parts(b));
            pairs
                .find_map(|(a, b)| Some(total_order(terms, a, b)).filter(|order| order.is_ne()))
                .unwrap_or(Ordering::Equal)
        }
        _ => text(a).cmp(&text(b)),
    };
    rank(a).cmp(&rank(b)).then_with(by_value).then_with(|| a.cmp(&b))
}

/// Orders IRIs by text, and strings with a language by language, direction and then by text. Stored ids have the same
/// order, so stored and computed terms can be compared.
fn key_order(terms: &Terms, a: Id, b: Id) -> Ordering {
    fn key(view: TermView<'_>) -> (&str, bool, &str) {
        match view {
            TermView::LangString { value, language } => (language, false, value),
            TermView::DirString { value, language, direction } => (language, direction == BaseDirection::Rtl, value),
            other => ("", false, other.as_str().expect("an IRI is its text")),
        }
    }
    terms.view(a, |a| terms.view(b, |b| key(a).cmp(&key(b))))
}

/// Orders numbers by value. Numbers that are equal as doubles may differ as decimals, and comparing each pair in its
/// own type would not be transitive. So they are compared as doubles first, then exact numbers among each other, and
/// exact numbers come before the others.
fn number_order(a: &Number, b: &Number) -> Ordering {
    a.to_f64().partial_cmp(&b.to_f64()).unwrap_or(Ordering::Equal).then_with(|| match (a.exact(), b.exact()) {
        (Some(a), Some(b)) => a.cmp(&b),
        (a, b) => a.is_none().cmp(&b.is_none()),
    })
}

/// A moment without a time zone is not always comparable with one that has a zone. Here it is ordered as if it were in
/// UTC.
fn date_order(terms: &Terms, a: Id, b: Id) -> Ordering {
    let instant = |id: Id| match terms.view(id, Value::of_view) {
        Value::DateTime(value) => value.instant(),
        Value::Date(date) => date.start().instant(),
        other => unreachable!("{other:?} is no moment"),
    };
    instant(a).cmp(&instant(b))
}

/// The order of MIN and MAX: ORDER BY's, except for strings with a language. These are ordered by text first.
pub(crate) fn extreme_order(terms: &Terms, a: Id, b: Id) -> Ordering {
    if a.kind() == TermKind::LangString && b.kind() == TermKind::LangString {
        fn key(view: TermView<'_>) -> (&str, &str) {
            match view {
                TermView::LangString { value, language } => (value, language),
                other => unreachable!("{other} has a language"),
            }
        }
        return terms.view(a, |a| terms.view(b, |b| key(a).cmp(&key(b))));
    }
    total_order(terms, a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::vocab::xsd;
    use oxrdf::{Literal, NamedNode, Term};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    #[test]
    fn numbers_that_are_equal_in_one_type_and_not_in_another_have_one_order() {
        let terms = Terms::new(&Arc::new(Snapshot::of_ntriples(b"").unwrap()));
        let id = |value: &str, datatype: &str| {
            terms.id(&Literal::new_typed_literal(value, NamedNode::new_unchecked(format!("{XSD}{datatype}"))))
        };
        let ids = [
            id("9007199254740992.5", "decimal"),
            id("9007199254740992", "double"),
            id("9007199254740992", "long"),
            id("9007199254740993", "integer"),
            id("9007199254740992", "integer"),
            id("-1", "integer"),
            id("NaN", "double"),
            id("9.0e15", "float"),
        ];
        for a in ids {
            for b in ids {
                assert_eq!(total_order(&terms, a, b), total_order(&terms, b, a).reverse(), "{a:?} {b:?}");
                for c in ids {
                    let goes_round = total_order(&terms, a, b).is_lt()
                        && total_order(&terms, b, c).is_lt()
                        && !total_order(&terms, a, c).is_lt();
                    assert!(!goes_round, "{a:?} < {b:?} < {c:?}");
                }
            }
        }
    }

    #[test]
    fn computed_terms_stand_among_those_of_the_store_by_their_text() {
        // `>` and `"`, which end a written term, come after `/` and `!`.
        let texts = ["http://a", "http://a/b", "http://a/b0", "http://a0"];
        let tagged = |text: &str, tag: &str| Literal::new_language_tagged_literal(text, tag).unwrap();
        let mut all: Vec<Term> = texts.map(|text| NamedNode::new_unchecked(text).into()).to_vec();
        all.extend(
            [("z!", "de"), ("y", "en"), ("z", "en"), ("z!", "en"), ("a", "fr")].map(|(a, b)| tagged(a, b).into()),
        );
        for stored in 0..1u32 << all.len() {
            let stored: String = all
                .iter()
                .enumerate()
                .filter(|(place, _)| stored >> place & 1 == 1)
                .map(|(_, term)| format!("<http://s> <http://p> {term} .\n"))
                .collect();
            let terms = Terms::new(&Arc::new(Snapshot::of_ntriples(stored.as_bytes()).unwrap()));
            let ids: Vec<Id> = all.iter().rev().map(|term| terms.id(term)).collect();
            assert!(ids.windows(2).all(|pair| total_order(&terms, pair[0], pair[1]).is_gt()), "{stored}");
        }
    }

    /// What happened: all large integers had the key of the nearest `xsd:float`, so a join of 4,000 of them by value
    /// compared all pairs.
    #[test]
    fn large_integers_have_keys_of_their_own_where_no_float_is_equal_to_several() {
        let base = 1_600_000_000_000_000_000i64;
        let keys = |stored: &str| {
            let snapshot = Arc::new(Snapshot::of_ntriples(stored.as_bytes()).unwrap());
            let terms = Terms::new(&snapshot).settled(Numbers::of(&snapshot, Numbers::Exact));
            let id = |value: i64| terms.id(&Literal::new_typed_literal(value.to_string(), xsd::INTEGER));
            (0..4000).map(|n| value_key(&terms, id(base + n))).collect::<BTreeSet<u64>>().len()
        };
        assert_eq!(keys(""), 4000);
        // Doubles are 256 apart here.
        assert!(
            (4000 / 256..=4000 / 256 + 2)
                .contains(&keys("<a:s> <a:p> \"1\"^^<http://www.w3.org/2001/XMLSchema#double> ."))
        );
        assert_eq!(keys("<a:s> <a:p> \"1\"^^<http://www.w3.org/2001/XMLSchema#float> ."), 1);
    }

    /// Compares keys with `=` for all pairs of numbers near each limit of precision, in each type.
    #[test]
    fn equal_numbers_have_one_key_whatever_their_types() {
        let mut texts: Vec<String> = ["0", "-0", "0.1", "0.25", "1", "1.50", "1.5", "00", "1e30", "-7.0", "16777216.5"]
            .map(str::to_owned)
            .into();
        for power in [23, 24, 25, 52, 53, 54, 59, 60, 62, 63, 64, 70] {
            for near in [-2i128, -1, 0, 1, 2, 3] {
                texts.push(((1i128 << power) + near).to_string());
                texts.push(format!("{}.0", (1i128 << power) + near));
                texts.push((-(1i128 << power) + near).to_string());
            }
        }
        // 1 + 2^-24 + 2^-60 is rounded differently if it is rounded to a double first.
        texts.push("1.000000059604644775390625000867361737988403547205962240695953369140625".to_owned());
        texts.push("1.000000059604644775390625".to_owned());
        let types = [
            (Numbers::Exact, &["integer", "decimal", "long"][..]),
            (Numbers::Doubles, &["integer", "decimal", "double"][..]),
            (Numbers::Floats, &["integer", "decimal", "double", "float"][..]),
        ];
        for (numbers, types) in types {
            let terms = Terms::new(&Arc::new(Snapshot::of_ntriples(b"").unwrap())).settled(numbers);
            let id = |value: &String, datatype: &&str| {
                terms.id(&Literal::new_typed_literal(value, NamedNode::new_unchecked(format!("{XSD}{datatype}"))))
            };
            let ids: Vec<Id> =
                types.iter().flat_map(|datatype| texts.iter().map(move |text| id(text, datatype))).collect();
            let mut equal_pairs = 0;
            for &a in &ids {
                for &b in ids.iter().filter(|b| **b != a) {
                    if equal(&terms, a, b) == Some(true) {
                        let text = |id| terms.view(id, |view| view.to_string());
                        assert_eq!(value_key(&terms, a), value_key(&terms, b), "{numbers:?}: {} {}", text(a), text(b));
                        equal_pairs += 1;
                    }
                }
            }
            assert!(equal_pairs > 200, "{numbers:?}: {equal_pairs}");
        }
    }

    #[test]
    fn equal_values_have_one_key() {
        let terms = Terms::new(&Arc::new(Snapshot::of_ntriples(b"").unwrap()));
        let id = |value: &str, datatype: &str| {
            terms.id(&Literal::new_typed_literal(value, NamedNode::new_unchecked(format!("{XSD}{datatype}"))))
        };
        let ids = [
            id("1", "integer"),
            id("01", "integer"),
            id("1.0", "decimal"),
            id("1e0", "double"),
            id("1", "float"),
            id("0.1", "decimal"),
            id("0.1", "double"),
            id("0.1", "float"),
            id("-0.0", "double"),
            id("0", "integer"),
            id("1", "boolean"),
            id("true", "boolean"),
            id("1", "string"),
            id("2020-01-01T00:00:00Z", "dateTime"),
            id("2020-01-01T01:00:00+01:00", "dateTime"),
            id("2020-01-01T00:00:00.0", "dateTime"),
            id("2020-01-01T00:00:00", "dateTime"),
            id("2020-01-01Z", "date"),
            id("2020-01-01+00:00", "date"),
            id("10:00:00Z", "time"),
            id("11:00:00.00+01:00", "time"),
            id("P1Y", "duration"),
            id("P12M", "yearMonthDuration"),
            id("PT0S", "dayTimeDuration"),
            id("P0M", "yearMonthDuration"),
        ];
        let mut equal_pairs = 0;
        for a in ids {
            for b in ids.into_iter().filter(|b| *b != a && equal(&terms, a, *b) == Some(true)) {
                assert_eq!(value_key(&terms, a), value_key(&terms, b), "{a:?} {b:?}");
                equal_pairs += 1;
            }
        }
        assert!(equal_pairs > 30);
    }

    #[test]
    fn other_moments_have_other_keys() {
        let terms = Terms::new(&Arc::new(Snapshot::of_ntriples(b"").unwrap()));
        let keys = (0..60).flat_map(|n| {
            let texts = [
                (format!("2020-01-01T00:00:{n:02}Z"), "dateTime"),
                (format!("{}-01-01", 2100 + n), "date"),
                (format!("10:{n:02}:00"), "time"),
                (format!("P{}D", n + 1), "dayTimeDuration"),
            ];
            texts.map(|(value, datatype)| {
                let datatype = NamedNode::new_unchecked(format!("{XSD}{datatype}"));
                value_key(&terms, terms.id(&Literal::new_typed_literal(value, datatype)))
            })
        });
        let keys: std::collections::BTreeSet<u64> = keys.collect();
        assert_eq!(keys.len(), 4 * 60);
    }
}
