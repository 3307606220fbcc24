//! Numbers of XSD's types, arithmetic on them, and how they are written.

use super::decimal::{Decimal, MOST_DIGITS};
use crate::expression::Arithmetic;
use num_bigint::BigInt;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A number of any of XSD's types.
#[derive(Clone, Debug)]
pub(crate) enum Number {
    Integer(i64),
    /// An integer beyond 64 bits.
    Wide(Arc<BigInt>),
    Decimal(Decimal),
    Float(f32),
    Double(f64),
}

/// A way to round a number to an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rounding {
    Ceil,
    Floor,
    /// To the nearest integer; to the greater one if two are equally near.
    Round,
}

impl Number {
    /// Parses an integer.
    pub(crate) fn parse_integer(text: &str) -> Option<Number> {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        match text.parse() {
            Ok(value) => Some(Number::Integer(value)),
            Err(_) if digits.trim_start_matches('0').len() > MOST_DIGITS => None,
            Err(_) => BigInt::parse_bytes(text.as_bytes(), 10).map(Number::of_integer),
        }
    }

    pub(crate) fn parse_double(text: &str) -> Option<f64> {
        match text {
            "INF" | "+INF" => Some(f64::INFINITY),
            "-INF" => Some(f64::NEG_INFINITY),
            "NaN" => Some(f64::NAN),
            _ if is_floating(text) => text.parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn parse_float(text: &str) -> Option<f32> {
        match text {
            "INF" | "+INF" => Some(f32::INFINITY),
            "-INF" => Some(f32::NEG_INFINITY),
            "NaN" => Some(f32::NAN),
            _ if is_floating(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn of_integer(value: BigInt) -> Number {
        match i64::try_from(&value) {
            Ok(value) => Number::Integer(value),
            Err(_) => Number::Wide(Arc::new(value)),
        }
    }

    /// The integer equal to a decimal; `None` if the decimal has a fraction.
    fn of_whole(value: &Decimal) -> Option<Number> {
        value.as_i64().map(Number::Integer).or_else(|| value.as_integer().map(Number::of_integer))
    }

    /// The number without its fraction, as an integer; `None` for NaN and the infinities.
    pub(crate) fn truncated(&self) -> Option<Number> {
        match self {
            Number::Integer(_) | Number::Wide(_) => Some(self.clone()),
            Number::Double(value) if value.abs() < (1u64 << 53) as f64 => Some(Number::Integer(*value as i64)),
            _ => Number::of_whole(&self.to_decimal()?.truncated()?),
        }
    }

    /// The value as a decimal: of a float or double with a fraction, the shortest one that is read as the same number,
    /// as people wrote it; all others exactly. `None` for NaN and the infinities.
    pub(crate) fn to_decimal(&self) -> Option<Decimal> {
        match self {
            Number::Float(value) if value.is_finite() && value.fract() != 0.0 => Decimal::parse(&value.to_string()),
            Number::Double(value) if value.is_finite() && value.fract() != 0.0 => Decimal::parse(&value.to_string()),
            Number::Float(value) => Decimal::of_f64(f64::from(*value)),
            Number::Double(value) => Decimal::of_f64(*value),
            _ => self.exact(),
        }
    }

    /// The value as a decimal; `None` for floats and doubles.
    pub(crate) fn exact(&self) -> Option<Decimal> {
        match self {
            Number::Integer(value) => Some((*value).into()),
            Number::Wide(value) => Decimal::of_integer(BigInt::clone(value)),
            Number::Decimal(value) => Some(value.clone()),
            Number::Float(_) | Number::Double(_) => None,
        }
    }

    /// Like [`Number::exact`], but borrows a decimal value.
    fn exact_or_borrowed(&self) -> Option<Cow<'_, Decimal>> {
        match self {
            Number::Decimal(value) => Some(Cow::Borrowed(value)),
            _ => self.exact().map(Cow::Owned),
        }
    }

    pub(crate) fn is_integer(&self) -> bool {
        matches!(self, Number::Integer(_) | Number::Wide(_))
    }

    pub(crate) fn is_nan(&self) -> bool {
        match self {
            Number::Float(value) => value.is_nan(),
            Number::Double(value) => value.is_nan(),
            _ => false,
        }
    }

    /// Whether it counts as true: it is neither zero nor NaN.
    pub(crate) fn truth(&self) -> bool {
        match self {
            Number::Integer(value) => *value != 0,
            Number::Wide(_) => true,
            Number::Decimal(value) => !value.is_zero(),
            Number::Float(value) => *value != 0.0 && !value.is_nan(),
            Number::Double(value) => *value != 0.0 && !value.is_nan(),
        }
    }

    pub(crate) fn to_f64(&self) -> f64 {
        match self {
            Number::Integer(value) => *value as f64,
            Number::Wide(_) => self.exact().expect("it is exact").to_f64(),
            Number::Decimal(value) => value.to_f64(),
            Number::Float(value) => f64::from(*value),
            Number::Double(value) => *value,
        }
    }

    /// The operand of an operation on `xsd:float`. Converted by way of `f64`, so numbers equal in some type are equal
    /// here.
    pub(crate) fn to_f32(&self) -> f32 {
        self.to_f64() as f32
    }

    /// The nearest `xsd:float`, rounded once.
    pub(crate) fn nearest_f32(&self) -> f32 {
        match self {
            Number::Integer(value) => *value as f32,
            Number::Float(value) => *value,
            Number::Double(value) => *value as f32,
            Number::Wide(_) | Number::Decimal(_) => self.exact().expect("it is exact").to_f32(),
        }
    }

    /// Compares both in the least type that contains both. `None` if one is NaN.
    pub(crate) fn compare(&self, other: &Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => Some(a.cmp(b)),
            (Number::Double(_), _) | (_, Number::Double(_)) => self.to_f64().partial_cmp(&other.to_f64()),
            (Number::Float(_), _) | (_, Number::Float(_)) => self.to_f32().partial_cmp(&other.to_f32()),
            _ => Some(self.exact_or_borrowed()?.cmp(&other.exact_or_borrowed()?)),
        }
    }

    /// Applies an operator in the least type that contains both operands; integers are divided as decimals. `None` for
    /// a division by zero, or a result of too many digits.
    pub(crate) fn combine(&self, operator: Arithmetic, other: &Number) -> Option<Number> {
        if let (Number::Integer(a), Number::Integer(b)) = (self, other) {
            let small = match operator {
                Arithmetic::Add => a.checked_add(*b),
                Arithmetic::Subtract => a.checked_sub(*b),
                Arithmetic::Multiply => a.checked_mul(*b),
                Arithmetic::Divide => None,
            };
            if let Some(value) = small {
                return Some(Number::Integer(value));
            }
        }
        match (self, other) {
            (Number::Double(_), _) | (_, Number::Double(_)) => {
                let (a, b) = (self.to_f64(), other.to_f64());
                Some(Number::Double(match operator {
                    Arithmetic::Add => a + b,
                    Arithmetic::Subtract => a - b,
                    Arithmetic::Multiply => a * b,
                    Arithmetic::Divide => a / b,
                }))
            }
            (Number::Float(_), _) | (_, Number::Float(_)) => {
                let (a, b) = (self.to_f32(), other.to_f32());
                Some(Number::Float(match operator {
                    Arithmetic::Add => a + b,
                    Arithmetic::Subtract => a - b,
                    Arithmetic::Multiply => a * b,
                    Arithmetic::Divide => a / b,
                }))
            }
            _ => {
                let (a, b) = (self.exact_or_borrowed()?, other.exact_or_borrowed()?);
                let made = match operator {
                    Arithmetic::Add => a.add(&b),
                    Arithmetic::Subtract => a.subtract(&b),
                    Arithmetic::Multiply => a.multiply(&b),
                    Arithmetic::Divide => a.divide(&b),
                }?;
                if operator != Arithmetic::Divide && self.is_integer() && other.is_integer() {
                    return Number::of_whole(&made);
                }
                Some(Number::Decimal(made))
            }
        }
    }

    /// Adds in place, as `combine` does, because millions of rows are summed up. False if the sum has too many digits;
    /// the number is invalid then.
    #[inline]
    #[must_use]
    pub(crate) fn add(&mut self, other: &Number) -> bool {
        match (&mut *self, other) {
            (Number::Integer(sum), Number::Integer(more)) => {
                if let Some(made) = sum.checked_add(*more) {
                    *sum = made;
                    return true;
                }
            }
            (Number::Decimal(sum), Number::Decimal(more)) => return sum.add_in_place(more),
            _ => {}
        }
        let made = self.combine(Arithmetic::Add, other);
        let fits = made.is_some();
        *self = made.unwrap_or(Number::Integer(0));
        fits
    }

    pub(crate) fn negated(&self) -> Option<Number> {
        match self {
            Number::Float(value) => Some(Number::Float(-value)),
            Number::Double(value) => Some(Number::Double(-value)),
            Number::Decimal(value) => value.negated().map(Number::Decimal),
            _ => Number::Integer(0).combine(Arithmetic::Subtract, self),
        }
    }

    pub(crate) fn abs(&self) -> Option<Number> {
        match self {
            Number::Float(value) => Some(Number::Float(value.abs())),
            Number::Double(value) => Some(Number::Double(value.abs())),
            _ if self.exact()?.is_negative() => self.negated(),
            _ => Some(self.clone()),
        }
    }

    /// Rounded to an integer, in its own type.
    pub(crate) fn rounded(&self, rounding: Rounding) -> Option<Number> {
        Some(match self {
            Number::Integer(_) | Number::Wide(_) => self.clone(),
            Number::Decimal(value) => Number::Decimal(match rounding {
                Rounding::Ceil => value.ceil()?,
                Rounding::Floor => value.floor()?,
                Rounding::Round => value.round()?,
            }),
            // Every float is exact as a double, and rounding it gives a float again.
            Number::Float(value) => Number::Float(rounded(f64::from(*value), rounding) as f32),
            Number::Double(value) => Number::Double(rounded(*value, rounding)),
        })
    }
}

/// Rounds a double. A result of zero keeps the sign.
pub(crate) fn rounded(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Ceil => value.ceil(),
        Rounding::Floor => value.floor(),
        // Not by adding one half: that sum is rounded itself, so 0.49999999999999994 would become 1.
        Rounding::Round if value - value.floor() >= 0.5 => value.ceil(),
        Rounding::Round => value.floor(),
    }
}

/// Whether a text is digits with an optional point and exponent; the standard library's parser accepts more.
fn is_floating(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
}

/// The form of XPath's cast to a string (Functions and Operators 3.1, §19.1.2.1): a float or a double has an exponent
/// only if it is below a millionth, or at least a million.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(value) => value.fmt(f),
            Number::Wide(value) => value.fmt(f),
            Number::Decimal(value) => value.fmt(f),
            Number::Float(value) => write_floating(f, f64::from(*value), value, &format_args!("{value:E}")),
            Number::Double(value) => write_floating(f, *value, value, &format_args!("{value:E}")),
        }
    }
}

fn write_floating(
    f: &mut fmt::Formatter<'_>,
    value: f64,
    plain: &dyn fmt::Display,
    scientific: &dyn fmt::Display,
) -> fmt::Result {
    if value.is_nan() {
        f.write_str("NaN")
    } else if value.is_infinite() {
        f.write_str(if value > 0.0 { "INF" } else { "-INF" })
    } else if value == 0.0 || (1e-6..1e6).contains(&value.abs()) {
        plain.fmt(f)
    } else {
        let text = scientific.to_string();
        let (mantissa, exponent) = text.split_once('E').expect("it was asked for");
        write!(f, "{mantissa}{}E{exponent}", if mantissa.contains('.') { "" } else { ".0" })
    }
}
