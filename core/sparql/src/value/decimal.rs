//! Exact decimal numbers: an integer over a power of ten, with as many digits as needed.
//!
//! XPath and XQuery Functions and Operators 3.1, §4.2, asks for 18 digits and leaves the rest to the implementation.
//! Ours:
//!
//! * Sums, differences and products are exact.
//! * A quotient is rounded, halves to even, to 18 digits after the point; one below a tenth has more of them, so that
//!   18 significant digits are right.
//! * No number has more than [`MOST_DIGITS`] digits. A longer fraction is rounded, halves to even; a longer whole part
//!   is an overflow, which is an error (FOAR0002, FOCA0006). Without a limit, a product of products could take all
//!   memory.

use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The greatest number of digits, before and after the point together.
pub(crate) const MOST_DIGITS: usize = 4096;

/// The number of correct digits of a quotient.
const QUOTIENT_DIGITS: i64 = 18;

/// Numbers of up to this many digits fit a mantissa of 128 bits.
const SMALL_DIGITS: usize = 38;

/// An exact number. Invariant: it is in its shortest form, without zeros at the end of the fraction, and small if it
/// fits; so equal numbers have equal representations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Decimal {
    /// `mantissa / 10^scale`, with a scale of at most 38.
    Small { mantissa: i128, scale: u8 },
    /// `mantissa / 10^scale` of any size.
    Large(Arc<(BigInt, u32)>),
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Decimal {
        Decimal::Small { mantissa: value.into(), scale: 0 }
    }
}

impl Decimal {
    /// An integer; `None` if it has too many digits.
    pub(crate) fn of_integer(value: BigInt) -> Option<Decimal> {
        Decimal::of(value, 0)
    }

    /// Parses the lexical form of `xsd:decimal`: digits with at most one point among them, and perhaps a sign.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let (negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let count = whole.len() + fraction.len();
        if count > MOST_DIGITS {
            return None;
        }
        if count <= SMALL_DIGITS {
            let value = whole
                .bytes()
                .chain(fraction.bytes())
                .fold(0, |value: i128, digit| value * 10 + i128::from(digit - b'0'));
            let scale = fraction.len() as u8;
            return Some(Decimal::Small { mantissa: if negative { -value } else { value }, scale });
        }
        let magnitude = BigInt::parse_bytes([whole, fraction].concat().as_bytes(), 10)?;
        Decimal::of(if negative { -magnitude } else { magnitude }, fraction.len() as u32)
    }

    /// The exact value of a double; `None` for NaN and the infinities.
    pub(crate) fn of_f64(value: f64) -> Option<Decimal> {
        if !value.is_finite() {
            return None;
        }
        let bits = value.to_bits();
        let exponent = (bits >> 52 & 0x7FF) as i64;
        let fraction = bits & ((1 << 52) - 1);
        // Subnormal numbers have no implicit leading bit.
        let (mantissa, exponent) =
            if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
        let magnitude = BigInt::from(mantissa);
        let mantissa = if value < 0.0 { -magnitude } else { magnitude };
        if exponent >= 0 {
            return Decimal::of(mantissa << exponent as u64, 0);
        }
        // Each remaining factor of one half becomes five tenths.
        let halves = (-exponent as u64).min(mantissa.trailing_zeros().unwrap_or(0));
        let (mantissa, places) = (mantissa >> halves, (-exponent as u64 - halves) as u32);
        Decimal::of(mantissa * BigInt::from(5).pow(places), places)
    }

    /// The number in its shortest form; `None` if the whole part is too long.
    fn of(value: BigInt, scale: u32) -> Option<Decimal> {
        if scale <= SMALL_DIGITS as u32
            && let Ok(mantissa) = i128::try_from(&value)
        {
            return Some(Decimal::small(mantissa, scale as u8));
        }
        if value.sign() == Sign::NoSign {
            return Some(Decimal::from(0));
        }
        // A lower bound first, because writing out far too long a number would take long.
        let least = (value.bits() - 1) as usize * 30_102 / 100_000;
        if least.saturating_sub(scale as usize) > MOST_DIGITS {
            return None;
        }
        let (mut value, mut scale) = (value, scale);
        let digits = value.magnitude().to_string();
        let before = digits.len().saturating_sub(scale as usize);
        let after = (scale as usize).min(MOST_DIGITS.checked_sub(before)?);
        if after < scale as usize {
            value = divided(&value, &power(scale - after as u32));
            scale = after as u32;
        }
        let digits = value.magnitude().to_string();
        let zeros = (digits.len() - digits.trim_end_matches('0').len()).min(scale as usize) as u32;
        if zeros > 0 {
            value /= power(zeros);
            scale -= zeros;
        }
        if scale <= SMALL_DIGITS as u32
            && let Ok(mantissa) = i128::try_from(&value)
        {
            return Some(Decimal::small(mantissa, scale as u8));
        }
        Some(Decimal::Large(Arc::new((value, scale))))
    }

    fn small(mut mantissa: i128, mut scale: u8) -> Decimal {
        // 64-bit numbers are divided much faster.
        if let Ok(mut short) = i64::try_from(mantissa) {
            while scale > 0 && short % 10 == 0 {
                short /= 10;
                scale -= 1;
            }
            return Decimal::Small { mantissa: short.into(), scale };
        }
        while scale > 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            scale -= 1;
        }
        Decimal::Small { mantissa, scale }
    }

    fn parts(&self) -> (BigInt, u32) {
        match self {
            Decimal::Small { mantissa, scale } => ((*mantissa).into(), u32::from(*scale)),
            Decimal::Large(parts) => (**parts).clone(),
        }
    }

    /// Both mantissas, over the larger of the two scales.
    fn aligned(&self, other: &Decimal) -> (BigInt, BigInt, u32) {
        let ((a, a_scale), (b, b_scale)) = (self.parts(), other.parts());
        let scale = a_scale.max(b_scale);
        (a * power(scale - a_scale), b * power(scale - b_scale), scale)
    }

    /// Like [`Decimal::aligned`], if both fit 128 bits.
    fn aligned_small(&self, other: &Decimal) -> Option<(i128, i128, u8)> {
        let (Decimal::Small { mantissa: a, scale: a_scale }, Decimal::Small { mantissa: b, scale: b_scale }) =
            (self, other)
        else {
            return None;
        };
        let raised = |mantissa: i128, by: u8| match by {
            0 => Some(mantissa),
            _ => mantissa.checked_mul(10i128.checked_pow(by.into())?),
        };
        let scale = *a_scale.max(b_scale);
        Some((raised(*a, scale - a_scale)?, raised(*b, scale - b_scale)?, scale))
    }

    pub(crate) fn add(&self, other: &Decimal) -> Option<Decimal> {
        if let Some((a, b, scale)) = self.aligned_small(other)
            && let Some(sum) = a.checked_add(b)
        {
            return Some(Decimal::small(sum, scale));
        }
        let (a, b, scale) = self.aligned(other);
        Decimal::of(a + b, scale)
    }

    /// Like [`Decimal::add`], in place; false if the sum has too many digits.
    #[inline]
    #[must_use]
    pub(crate) fn add_in_place(&mut self, other: &Decimal) -> bool {
        if let (Decimal::Small { mantissa: sum, scale: 0 }, Decimal::Small { mantissa: more, scale: 0 }) =
            (&mut *self, other)
            && let Some(made) = sum.checked_add(*more)
        {
            *sum = made;
            return true;
        }
        let made = self.add(other);
        let fits = made.is_some();
        *self = made.unwrap_or(Decimal::from(0));
        fits
    }

    pub(crate) fn negated(&self) -> Option<Decimal> {
        match self {
            Decimal::Small { mantissa, scale } if *mantissa != i128::MIN => {
                Some(Decimal::Small { mantissa: -mantissa, scale: *scale })
            }
            _ => {
                let (value, scale) = self.parts();
                Decimal::of(-value, scale)
            }
        }
    }

    pub(crate) fn subtract(&self, other: &Decimal) -> Option<Decimal> {
        self.add(&other.negated()?)
    }

    pub(crate) fn multiply(&self, other: &Decimal) -> Option<Decimal> {
        if let (Decimal::Small { mantissa: a, scale: a_scale }, Decimal::Small { mantissa: b, scale: b_scale }) =
            (self, other)
            && let Some(product) = a.checked_mul(*b)
            && usize::from(a_scale + b_scale) <= SMALL_DIGITS
        {
            return Some(Decimal::small(product, a_scale + b_scale));
        }
        let ((a, a_scale), (b, b_scale)) = (self.parts(), other.parts());
        Decimal::of(a * b, a_scale + b_scale)
    }

    /// `None` for a division by zero.
    pub(crate) fn divide(&self, by: &Decimal) -> Option<Decimal> {
        if by.is_zero() {
            return None;
        }
        if self.is_zero() {
            return Some(Decimal::from(0));
        }
        // The exponent of the quotient's leading digit, or one more than that.
        let exponent = self.exponent() - by.exponent();
        let most = QUOTIENT_DIGITS.max(QUOTIENT_DIGITS - exponent);
        let is_short = |quotient: u128| quotient < 10u128.pow(QUOTIENT_DIGITS as u32);
        for places in [most, most - 1] {
            let is_last = places == QUOTIENT_DIGITS || places < most;
            if let Some(quotient) = self.divided_small(by, places) {
                if is_last || is_short(quotient.unsigned_abs()) {
                    return Some(Decimal::small(quotient, places as u8));
                }
                continue;
            }
            let ((a, a_scale), (b, b_scale)) = (self.parts(), by.parts());
            let quotient = match places + i64::from(b_scale) - i64::from(a_scale) {
                shift @ 0.. => divided(&(a * power(shift as u32)), &b),
                shift => divided(&a, &(b * power(-shift as u32))),
            };
            if is_last || u128::try_from(quotient.magnitude()).is_ok_and(is_short) {
                return Decimal::of(quotient, places as u32);
            }
        }
        unreachable!("the second is the last")
    }

    /// The quotient times `10^places`, rounded, if 128 bits suffice.
    fn divided_small(&self, by: &Decimal, places: i64) -> Option<i128> {
        let (Decimal::Small { mantissa: a, scale: a_scale }, Decimal::Small { mantissa: b, scale: b_scale }) =
            (self, by)
        else {
            return None;
        };
        let shift = u32::try_from(places + i64::from(*b_scale) - i64::from(*a_scale)).ok()?;
        let dividend = a.checked_mul(10i128.checked_pow(shift)?)?;
        if places > SMALL_DIGITS as i64 || *b == i128::MIN || dividend == i128::MIN {
            return None;
        }
        let (quotient, rest) = (dividend / b, dividend % b);
        let twice = rest.unsigned_abs() * 2;
        let is_up = match twice.cmp(&b.unsigned_abs()) {
            Ordering::Greater => true,
            Ordering::Equal => quotient % 2 != 0,
            Ordering::Less => false,
        };
        Some(quotient + if is_up { dividend.signum() * b.signum() } else { 0 })
    }

    /// The exponent of the leading digit.
    fn exponent(&self) -> i64 {
        match self {
            Decimal::Small { mantissa, scale } => {
                i64::from(mantissa.unsigned_abs().checked_ilog10().unwrap_or(0)) - i64::from(*scale)
            }
            Decimal::Large(parts) => parts.0.magnitude().to_string().len() as i64 - 1 - i64::from(parts.1),
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        matches!(self, Decimal::Small { mantissa: 0, .. })
    }

    pub(crate) fn is_negative(&self) -> bool {
        match self {
            Decimal::Small { mantissa, .. } => *mantissa < 0,
            Decimal::Large(parts) => parts.0.sign() == Sign::Minus,
        }
    }

    /// The greatest integer that is not greater.
    pub(crate) fn floor(&self) -> Option<Decimal> {
        if let Decimal::Small { mantissa, scale } = self {
            return Some(Decimal::Small { mantissa: mantissa.div_euclid(10i128.pow((*scale).into())), scale: 0 });
        }
        let (value, scale) = self.parts();
        let unit = power(scale);
        let whole = &value / &unit;
        Decimal::of(if self.is_negative() && &whole * unit != value { whole - 1 } else { whole }, 0)
    }

    /// The least integer that is not less.
    pub(crate) fn ceil(&self) -> Option<Decimal> {
        self.negated()?.floor()?.negated()
    }

    /// The nearest integer; the greater one if two are equally near.
    pub(crate) fn round(&self) -> Option<Decimal> {
        self.add(&Decimal::Small { mantissa: 5, scale: 1 })?.floor()
    }

    /// The number without its fraction.
    pub(crate) fn truncated(&self) -> Option<Decimal> {
        if self.is_negative() { self.ceil() } else { self.floor() }
    }

    /// The integer equal to it; `None` if it has a fraction.
    pub(crate) fn as_integer(&self) -> Option<BigInt> {
        let (value, scale) = self.parts();
        (scale == 0).then_some(value)
    }

    /// This number as an `i64`, if it fits.
    pub(crate) fn as_i64(&self) -> Option<i64> {
        match self {
            Decimal::Small { mantissa, scale: 0 } => (*mantissa).try_into().ok(),
            _ => None,
        }
    }

    /// The nearest double.
    pub(crate) fn to_f64(&self) -> f64 {
        if let Decimal::Small { mantissa, scale } = self
            && mantissa.unsigned_abs() < 1 << 53
            && *scale <= 22
        {
            // Both are exact as doubles, so the quotient is rounded only once.
            return *mantissa as f64 / POWERS[usize::from(*scale)];
        }
        self.scientific().parse().expect("digits and an exponent")
    }

    /// The nearest float.
    pub(crate) fn to_f32(&self) -> f32 {
        self.scientific().parse().expect("digits and an exponent")
    }

    fn scientific(&self) -> String {
        match self {
            Decimal::Small { mantissa, scale } => format!("{mantissa}e-{scale}"),
            Decimal::Large(parts) => format!("{}e-{}", parts.0, parts.1),
        }
    }
}

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

fn power(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// The quotient, rounded; halves to even.
fn divided(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = dividend / divisor;
    let rest = dividend - &quotient * divisor;
    let twice: BigInt = rest * 2;
    let is_up = match twice.magnitude().cmp(divisor.magnitude()) {
        Ordering::Greater => true,
        Ordering::Equal => quotient.bit(0),
        Ordering::Less => false,
    };
    let is_negative = (dividend.sign() == Sign::Minus) != (divisor.sign() == Sign::Minus);
    match (is_up, is_negative) {
        (false, _) => quotient,
        (true, false) => quotient + 1,
        (true, true) => quotient - 1,
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        if let Some((a, b, _)) = self.aligned_small(other) {
            return a.cmp(&b);
        }
        let (a, b, _) = self.aligned(other);
        a.cmp(&b)
    }
}

/// Written without an exponent, and without a point if it is an integer.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, digits, scale) = match self {
            Decimal::Small { mantissa, scale: 0 } => return mantissa.fmt(f),
            Decimal::Small { mantissa, scale } => {
                (*mantissa < 0, mantissa.unsigned_abs().to_string(), usize::from(*scale))
            }
            Decimal::Large(parts) => (self.is_negative(), parts.0.magnitude().to_string(), parts.1 as usize),
        };
        let sign = if negative { "-" } else { "" };
        match digits.len().checked_sub(scale) {
            None | Some(0) => write!(f, "{sign}0.{digits:0>scale$}"),
            Some(before) if scale == 0 => write!(f, "{sign}{}", &digits[..before]),
            Some(before) => write!(f, "{sign}{}.{}", &digits[..before], &digits[before..]),
        }
    }
}
