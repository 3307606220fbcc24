//! The meaning of literals, and the results of casts and functions of numbers and moments: XSD 1.1 and XPath's
//! functions and operators, without the crates shared by engines.

use super::exact::Exact;
use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNode, Term};
use std::cmp::Ordering;

const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

/// A number of one of four types; of two, the later one is taken.
#[derive(Clone, Debug)]
pub(crate) enum Numeric {
    Integer(Exact),
    Decimal(Exact),
    Float(f32),
    Double(f64),
}

/// The meaning of a literal.
#[derive(Clone, Debug)]
pub(crate) enum Meaning {
    Number(Numeric),
    Text(String),
    Lang(String),
    Truth(bool),
    /// The name of its type, seconds since a day long ago in UTC, and whether it has a zone.
    Moment(String, Exact, bool),
    /// A number or truth value with a text outside its type.
    IllTyped,
    Unknown,
    NoLiteral,
}

const RANGES: [(&str, &str, &str); 12] = [
    ("long", "-9223372036854775808", "9223372036854775807"),
    ("int", "-2147483648", "2147483647"),
    ("short", "-32768", "32767"),
    ("byte", "-128", "127"),
    ("unsignedLong", "0", "18446744073709551615"),
    ("unsignedInt", "0", "4294967295"),
    ("unsignedShort", "0", "65535"),
    ("unsignedByte", "0", "255"),
    ("nonNegativeInteger", "0", ""),
    ("positiveInteger", "1", ""),
    ("nonPositiveInteger", "", "0"),
    ("negativeInteger", "", "-1"),
];

pub(crate) fn meaning(term: &Term) -> Meaning {
    let Term::Literal(literal) = term else { return Meaning::NoLiteral };
    let text = literal.value();
    if literal.language().is_some() {
        return Meaning::Lang(text.to_owned());
    }
    let Some(name) = literal.datatype().as_str().strip_prefix(XSD) else { return Meaning::Unknown };
    let made = match name {
        "string" => return Meaning::Text(text.to_owned()),
        "boolean" => truth_of(text).map(Meaning::Truth),
        "integer" => integer_of(text).map(|value| Meaning::Number(Numeric::Integer(value))),
        "decimal" => Exact::parse(text).map(|value| Meaning::Number(Numeric::Decimal(value))),
        "float" => float_text(text).map(|text| Meaning::Number(Numeric::Float(text.parse().expect("a number")))),
        "double" => float_text(text).map(|text| Meaning::Number(Numeric::Double(text.parse().expect("a number")))),
        "dateTime" | "date" | "time" => {
            let made = moment(text, name).map(|(at, zone, _)| Meaning::Moment(name.to_owned(), at, zone.is_some()));
            return made.unwrap_or(Meaning::Unknown);
        }
        _ => match RANGES.iter().find(|(other, ..)| *other == name) {
            None => return Meaning::Unknown,
            Some((_, least, most)) => integer_of(text)
                .filter(|value| Exact::parse(least).is_none_or(|least| value.compare(&least).is_ge()))
                .filter(|value| Exact::parse(most).is_none_or(|most| value.compare(&most).is_le()))
                .map(|value| Meaning::Number(Numeric::Integer(value))),
        },
    };
    made.unwrap_or(Meaning::IllTyped)
}

fn truth_of(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

fn integer_of(text: &str) -> Option<Exact> {
    Exact::parse(text).filter(|_| !text.contains('.'))
}

/// Rust's form.
fn float_text(text: &str) -> Option<String> {
    match text {
        "INF" | "+INF" => return Some("inf".to_owned()),
        "-INF" => return Some("-inf".to_owned()),
        "NaN" => return Some("nan".to_owned()),
        _ => {}
    }
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    Exact::parse(number)?;
    integer_of(exponent)?;
    Some(text.to_owned())
}

/// The fields of a moment: year, month, day, hour, minute, second, as they are written (a day at its end is the next
/// one).
type Fields = ([i64; 5], Exact);

/// Seconds in UTC, or as if they were; the zone in minutes; the fields.
pub(crate) fn moment(text: &str, name: &str) -> Option<(Exact, Option<i64>, Fields)> {
    let number = |text: &str, digits: usize| {
        (text.len() == digits && text.chars().all(|char| char.is_ascii_digit()))
            .then(|| text.parse::<i64>().expect("digits"))
    };
    let (text, zone) = if let Some(rest) = text.strip_suffix('Z') {
        (rest, Some(0))
    } else if let Some((rest, tail)) = text.split_at_checked(text.len().saturating_sub(6))
        && tail.len() == 6
        && tail.is_ascii()
        && tail.starts_with(['+', '-'])
        && tail[3..].starts_with(':')
    {
        let (hours, minutes) = (number(&tail[1..3], 2)?, number(&tail[4..], 2)?);
        let all = hours * 60 + minutes;
        if minutes > 59 || all > 14 * 60 {
            return None;
        }
        (rest, Some(if tail.starts_with('-') { -all } else { all }))
    } else {
        (text, None)
    };
    let (date, time) = match name {
        "dateTime" => text.split_once('T')?,
        "date" => (text, "00:00:00"),
        _ => ("1972-12-31", text),
    };
    let parts: Vec<&str> = date.trim_start_matches('-').split('-').collect();
    let [year, month, day] = parts[..] else { return None };
    // More than four digits only if needed.
    if year.len() < 4 || year.len() > 4 && year.starts_with('0') {
        return None;
    }
    let year = number(year, year.len())? * if date.starts_with('-') { -1 } else { 1 };
    let (month, day) = (number(month, 2)?, number(day, 2)?);
    if !(1..=12).contains(&month) || day < 1 || day > length(year, month) {
        return None;
    }
    let parts: Vec<&str> = time.split(':').collect();
    let [hour, minute, second] = parts[..] else { return None };
    let (hour, minute) = (number(hour, 2)?, number(minute, 2)?);
    let (whole, fraction) = second.split_once('.').unwrap_or((second, "0"));
    let seconds = number(whole, 2)?;
    if fraction.is_empty() || !fraction.chars().all(|char| char.is_ascii_digit()) {
        return None;
    }
    let exact = Exact::parse(&format!("{whole}.{fraction}"))?;
    let is_end = hour == 24 && minute == 0 && exact.is_zero();
    if !is_end && (hour > 23 || minute > 59 || seconds > 59) {
        return None;
    }
    let (mut year, mut month, mut day) = (year, month, day);
    let hour = if is_end { 0 } else { hour };
    if is_end && name == "dateTime" {
        day += 1;
        if day > length(year, month) {
            (day, month) = (1, month + 1);
        }
        if month > 12 {
            (month, year) = (1, year + 1);
        }
    }
    let mut days = day - 1;
    days += (1..month).map(|month| length(year, month)).sum::<i64>();
    // Since a year before all of the generator's. Four hundred years have 146,097 days.
    let cycles = (year + 12_000) / 400;
    assert!(year > -12_000, "{year}");
    days += cycles * 146_097;
    for past in cycles * 400 - 12_000..year {
        days += (1..=12).map(|month| length(past, month)).sum::<i64>();
    }
    let minutes = (days * 24 + hour) * 60 + minute - zone.unwrap_or(0);
    let at = Exact::of(minutes).times(&Exact::of(60)).plus(&exact);
    Some((at, zone, ([year, month, day, hour, minute], exact)))
}

fn length(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 400 == 0 || year % 4 == 0 && year % 100 != 0 => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

pub(crate) fn equal(a: &Term, b: &Term) -> Option<bool> {
    match (meaning(a), meaning(b)) {
        (Meaning::Number(a), Meaning::Number(b)) => Some(a.compare(&b) == Some(Ordering::Equal)),
        _ if a == b => Some(true),
        (Meaning::NoLiteral | Meaning::Lang(_), _) | (_, Meaning::NoLiteral | Meaning::Lang(_)) => Some(false),
        (Meaning::Unknown | Meaning::IllTyped, _) | (_, Meaning::Unknown | Meaning::IllTyped) => None,
        (Meaning::Text(a), Meaning::Text(b)) => Some(a == b),
        (Meaning::Truth(a), Meaning::Truth(b)) => Some(a == b),
        (Meaning::Moment(a_name, ..), Meaning::Moment(b_name, ..)) if a_name == b_name => Some(less(a, b)?.is_eq()),
        _ => Some(false),
    }
}

pub(crate) fn less(a: &Term, b: &Term) -> Option<Ordering> {
    match (meaning(a), meaning(b)) {
        (Meaning::Number(a), Meaning::Number(b)) => a.compare(&b),
        (Meaning::Text(a), Meaning::Text(b)) => Some(a.cmp(&b)),
        (Meaning::Truth(a), Meaning::Truth(b)) => Some(a.cmp(&b)),
        (Meaning::Moment(a_name, a, a_zone), Meaning::Moment(b_name, b, b_zone)) if a_name == b_name => {
            if a_zone == b_zone {
                return Some(a.compare(&b));
            }
            // In the zones furthest from each other.
            let widest = Exact::of(14 * 3600);
            let (early, late) = (b.plus(&widest.negated()), b.plus(&widest));
            if a.compare(&early).is_lt() {
                Some(Ordering::Less)
            } else if a.compare(&late).is_gt() {
                Some(Ordering::Greater)
            } else {
                None
            }
        }
        _ => None,
    }
}

/// Whether `<` of two numbers is false, and no error, though they have no order: one is NaN.
pub(crate) fn has_nan(a: &Term, b: &Term) -> bool {
    matches!((meaning(a), meaning(b)), (Meaning::Number(a), Meaning::Number(b)) if a.compare(&b).is_none())
}

/// §17.2.2.
pub(crate) fn truth(term: &Term) -> Option<bool> {
    match meaning(term) {
        Meaning::Truth(value) => Some(value),
        Meaning::Number(Numeric::Integer(value) | Numeric::Decimal(value)) => Some(!value.is_zero()),
        Meaning::Number(Numeric::Float(value)) => Some(value != 0.0 && !value.is_nan()),
        Meaning::Number(Numeric::Double(value)) => Some(value != 0.0 && !value.is_nan()),
        Meaning::Text(text) | Meaning::Lang(text) => Some(!text.is_empty()),
        Meaning::IllTyped => Some(false),
        Meaning::Moment(..) | Meaning::Unknown | Meaning::NoLiteral => None,
    }
}

impl Numeric {
    pub(crate) fn of(value: i64) -> Numeric {
        Numeric::Integer(Exact::of(value))
    }

    fn exact(&self) -> Option<&Exact> {
        match self {
            Numeric::Integer(value) | Numeric::Decimal(value) => Some(value),
            Numeric::Float(_) | Numeric::Double(_) => None,
        }
    }

    fn to_f64(&self) -> f64 {
        match self {
            Numeric::Integer(value) | Numeric::Decimal(value) => value.to_f64(),
            Numeric::Float(value) => f64::from(*value),
            Numeric::Double(value) => *value,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Numeric::Integer(_) => 0,
            Numeric::Decimal(_) => 1,
            Numeric::Float(_) => 2,
            Numeric::Double(_) => 3,
        }
    }

    pub(crate) fn compare(&self, other: &Numeric) -> Option<Ordering> {
        match (self.exact(), other.exact()) {
            (Some(a), Some(b)) => Some(a.compare(b)),
            _ if self.rank().max(other.rank()) == 3 => self.to_f64().partial_cmp(&other.to_f64()),
            _ => (self.to_f64() as f32).partial_cmp(&(other.to_f64() as f32)),
        }
    }

    /// One of `+-*/`.
    pub(crate) fn apply(&self, sign: char, other: &Numeric) -> Option<Numeric> {
        if let (Some(a), Some(b)) = (self.exact(), other.exact()) {
            let made = match sign {
                '+' => a.plus(b),
                '-' => a.plus(&b.negated()),
                '*' => a.times(b),
                _ => return a.over(b).map(Numeric::Decimal),
            };
            let is_integer = self.rank().max(other.rank()) == 0;
            return Some(if is_integer { Numeric::Integer(made) } else { Numeric::Decimal(made) });
        }
        let (a, b) = (self.to_f64(), other.to_f64());
        if self.rank().max(other.rank()) == 3 {
            return Some(Numeric::Double(match sign {
                '+' => a + b,
                '-' => a - b,
                '*' => a * b,
                _ => a / b,
            }));
        }
        let (a, b) = (a as f32, b as f32);
        Some(Numeric::Float(match sign {
            '+' => a + b,
            '-' => a - b,
            '*' => a * b,
            _ => a / b,
        }))
    }

    pub(crate) fn negated(&self) -> Numeric {
        match self {
            Numeric::Integer(value) => Numeric::Integer(value.negated()),
            Numeric::Decimal(value) => Numeric::Decimal(value.negated()),
            Numeric::Float(value) => Numeric::Float(-value),
            Numeric::Double(value) => Numeric::Double(-value),
        }
    }

    /// `ABS`, `CEIL`, `FLOOR` or `ROUND`.
    pub(crate) fn rounded(&self, function: &str) -> Numeric {
        let exact = |value: &Exact| match function {
            "ABS" if value.compare(&Exact::of(0)).is_lt() => value.negated(),
            "ABS" => value.clone(),
            "CEIL" => value.negated().floor().negated(),
            "FLOOR" => value.floor(),
            _ => value.plus(&Exact::parse("0.5").expect("digits")).floor(),
        };
        match self {
            Numeric::Integer(value) => Numeric::Integer(exact(value)),
            Numeric::Decimal(value) => Numeric::Decimal(exact(value)),
            _ => {
                let value = self.to_f64();
                // Through the exact value of floats and doubles: then only the sign of zero has to be kept.
                let made = match Exact::of_f64(value) {
                    None if function == "ABS" => value.abs(),
                    None => value,
                    Some(_) if function == "ABS" => value.abs(),
                    Some(whole) => {
                        let made = exact(&whole);
                        if made.is_zero() && value.is_sign_negative() { -0.0 } else { made.to_f64() }
                    }
                };
                if self.rank() == 2 { Numeric::Float(made as f32) } else { Numeric::Double(made) }
            }
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Numeric::Integer(value) | Numeric::Decimal(value) => value.text(),
            Numeric::Float(value) => floating(f64::from(*value), &format!("{value:e}")),
            Numeric::Double(value) => floating(*value, &format!("{value:e}")),
        }
    }

    pub(crate) fn term(&self) -> Term {
        let datatype = [xsd::INTEGER, xsd::DECIMAL, xsd::FLOAT, xsd::DOUBLE][usize::from(self.rank())];
        Literal::new_typed_literal(self.text(), datatype).into()
    }
}

/// XPath's cast to a string, from the shortest digits of the number.
fn floating(value: f64, scientific: &str) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "INF" } else { "-INF" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i64 = exponent.parse().expect("digits");
    if !(-6..6).contains(&exponent) {
        let point = if mantissa.contains('.') { "" } else { ".0" };
        return format!("{mantissa}{point}E{exponent}");
    }
    let ten = Exact::parse(if exponent < 0 { "0.1" } else { "10" }).expect("digits");
    let mut made = Exact::parse(mantissa).expect("digits");
    for _ in 0..exponent.abs() {
        made = made.times(&ten);
    }
    made.text()
}

/// A constructor of a type of XSD's; `None` is an error.
pub(crate) fn cast(name: &str, term: &Term) -> Option<Term> {
    let typed = |text: String| {
        Some(Term::from(Literal::new_typed_literal(text, NamedNode::new_unchecked(format!("{XSD}{name}")))))
    };
    let meant = match (meaning(term), term) {
        (Meaning::Text(text), _) if name != "string" => meaning(&typed(text.trim().to_owned())?),
        (_, Term::NamedNode(node)) if name == "string" => {
            return Some(Literal::new_simple_literal(node.as_str()).into());
        }
        (other, _) => other,
    };
    let from_text = matches!(meaning(term), Meaning::Text(_));
    match (name, meant) {
        (_, Meaning::Lang(_) | Meaning::NoLiteral) => None,
        ("string", Meaning::Number(number)) => Some(Literal::new_simple_literal(number.text()).into()),
        ("string", Meaning::Truth(value)) => Some(Literal::new_simple_literal(value.to_string()).into()),
        ("string", _) => match term {
            Term::Literal(literal) => Some(Literal::new_simple_literal(literal.value()).into()),
            _ => None,
        },
        ("boolean", Meaning::Truth(value)) => typed(value.to_string()),
        ("boolean", Meaning::Number(_)) => typed(truth(term)?.to_string()),
        ("integer" | "decimal" | "float" | "double", Meaning::Truth(value)) => typed(u8::from(value).to_string()),
        ("integer", Meaning::Number(number)) => {
            let exact = number.exact().cloned().or_else(|| Exact::of_f64(number.to_f64()))?;
            Some(Numeric::Integer(exact.truncated()).term())
        }
        ("decimal", Meaning::Number(number)) => {
            // The shortest text read by std as the same number.
            let exact = match number {
                Numeric::Float(value) if value.is_finite() && value.fract() != 0.0 => Exact::parse(&value.to_string())?,
                Numeric::Double(value) if value.is_finite() && value.fract() != 0.0 => {
                    Exact::parse(&value.to_string())?
                }
                number => number.exact().cloned().or_else(|| Exact::of_f64(number.to_f64()))?,
            };
            Some(Numeric::Decimal(exact).term())
        }
        ("double", Meaning::Number(number)) => Some(Numeric::Double(number.to_f64()).term()),
        ("float", Meaning::Number(number)) => {
            let nearest = match &number {
                Numeric::Integer(value) | Numeric::Decimal(value) => value.text().parse().expect("digits"),
                _ => number.to_f64() as f32,
            };
            Some(Numeric::Float(nearest).term())
        }
        ("dateTime" | "date" | "time", Meaning::Moment(from, ..)) => {
            let Term::Literal(literal) = term else { return None };
            let (_, zone, (fields, second)) = moment(literal.value().trim(), if from_text { name } else { &from })?;
            let [year, month, day, hour, minute] = fields;
            let has = |part: &str| from == "dateTime" || from == part;
            if !(has(name) || from == "date" && name == "dateTime") {
                return None;
            }
            let whole = second.floor().text();
            let fraction = second.text().trim_start_matches(&whole).to_owned();
            let zone = match zone {
                None => String::new(),
                Some(0) => "Z".to_owned(),
                Some(zone) => {
                    let sign = if zone < 0 { '-' } else { '+' };
                    format!("{sign}{:02}:{:02}", zone.abs() / 60, zone.abs() % 60)
                }
            };
            let sign = if year < 0 { "-" } else { "" };
            let date = format!("{sign}{:04}-{month:02}-{day:02}", year.abs());
            let time = format!("{hour:02}:{minute:02}:{whole:0>2}{fraction}");
            typed(match name {
                "dateTime" => format!("{date}T{time}{zone}"),
                "date" => format!("{date}{zone}"),
                _ => format!("{time}{zone}"),
            })
        }
        _ => None,
    }
}

/// `YEAR` and its like, of moments and days.
pub(crate) fn part(function: &str, term: &Term) -> Option<Term> {
    let Term::Literal(literal) = term else { return None };
    let Meaning::Moment(name, ..) = meaning(term) else { return None };
    let (_, zone, (fields, second)) = moment(literal.value(), &name)?;
    let place = ["YEAR", "MONTH", "DAY", "HOURS", "MINUTES"].iter().position(|other| *other == function);
    match (name.as_str(), function) {
        ("time", _) | ("date", "HOURS" | "MINUTES" | "SECONDS") => None,
        (_, "SECONDS") => Some(Numeric::Decimal(second).term()),
        (_, "TZ") => Some(
            Literal::new_simple_literal(match zone {
                None => String::new(),
                Some(0) => "Z".to_owned(),
                Some(zone) => {
                    format!("{}{:02}:{:02}", if zone < 0 { '-' } else { '+' }, zone.abs() / 60, zone.abs() % 60)
                }
            })
            .into(),
        ),
        _ => Some(Numeric::of(fields[place?]).term()),
    }
}
