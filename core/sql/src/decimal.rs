//! Decimal numbers: an integer of 128 bits, in units of the last digit behind the point.

use crate::types::SqlType;
use std::fmt;

/// The most digits of a decimal.
pub(crate) const DIGITS: u8 = 38;

/// The type of decimals with so many digits, and so many of them behind the point.
pub(crate) fn kind(precision: u64, scale: u64) -> Option<SqlType> {
    let is_one = (1..=u64::from(DIGITS)).contains(&precision) && scale <= precision;
    is_one.then_some(SqlType::Decimal { precision: precision as u8, scale: scale as u8 })
}

/// 10 to the power of `digits`, at most 38.
pub(crate) fn power(digits: u8) -> i128 {
    10i128.pow(u32::from(digits))
}

/// The units, if a decimal of so many digits has them.
pub(crate) fn within(units: i128, precision: u8) -> Option<i128> {
    (units.unsigned_abs() < power(precision).unsigned_abs()).then_some(units)
}

/// The units with another number of digits behind the point; half a unit is rounded away from zero.
pub(crate) fn rescaled(units: i128, from: u8, to: u8) -> Option<i128> {
    match to.checked_sub(from) {
        Some(more) => units.checked_mul(power(more)),
        None => Some(divided(units, power(from - to))),
    }
}

/// A quotient, with half a unit rounded away from zero.
pub(crate) fn divided(units: i128, by: i128) -> i128 {
    let (quotient, rest) = (units / by, units % by);
    let is_up = rest.unsigned_abs() >= by.unsigned_abs() - rest.unsigned_abs();
    if is_up && rest != 0 { quotient + units.signum() * by.signum() } else { quotient }
}

/// Reads a number such as `-12.5` or `1e3` with so many digits behind the point; half a unit is rounded away from zero.
pub(crate) fn parse(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let text = text.trim();
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (is_negative, number) = match number.as_bytes().first()? {
        b'-' => (true, &number[1..]),
        b'+' => (false, &number[1..]),
        _ => (false, number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    // The places of all digits, the first one's before the others: 0 is that of the units of one.
    let first = (whole.len() as i32).checked_sub(1)?.checked_add(exponent)?;
    let mut units: i128 = 0;
    let mut digits = whole.bytes().chain(fraction.bytes()).map(|byte| i128::from(byte - b'0'));
    let mut place = first;
    for digit in digits.by_ref() {
        if place < -i32::from(scale) {
            units += i128::from(digit >= 5);
            break;
        }
        units = units.checked_mul(10)?.checked_add(digit)?;
        place -= 1;
    }
    // The zeros behind the last digit.
    if place >= -i32::from(scale) && units != 0 {
        let zeros = u32::try_from(place + i32::from(scale) + 1).ok()?;
        units = units.checked_mul(10i128.checked_pow(zeros)?)?;
    }
    within(if is_negative { -units } else { units }, precision)
}

/// The nearest decimal of a double.
pub(crate) fn of_double(value: f64, precision: u8, scale: u8) -> Option<i128> {
    let units = (value * libm::pow(10.0, f64::from(scale))).round();
    // Beyond these, a double is no i128.
    (units.is_finite() && units.abs() < 1.7e38).then_some(units as i128).and_then(|units| within(units, precision))
}

pub(crate) fn to_double(units: i128, scale: u8) -> f64 {
    // Both are exact up to 2^53, and 10^22.
    units as f64 / libm::pow(10.0, f64::from(scale))
}

/// The decimal that a double's shortest text is, with its type.
pub(crate) fn of_literal(value: f64) -> Option<(i128, u8, u8)> {
    let text = format!("{value}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let scale = u8::try_from(fraction.len()).ok()?;
    let whole = u8::try_from(whole.trim_start_matches('-').trim_start_matches('0').len()).ok()?;
    let precision = (whole.checked_add(scale)?).max(1);
    (precision <= DIGITS).then_some(())?;
    Some((parse(&text, precision, scale)?, precision, scale))
}

/// Writes a decimal with all digits behind its point.
pub(crate) fn write(f: &mut dyn fmt::Write, units: i128, scale: u8) -> fmt::Result {
    let sign = if units < 0 { "-" } else { "" };
    let (units, scale) = (units.unsigned_abs(), usize::from(scale));
    if scale == 0 {
        return write!(f, "{sign}{units}");
    }
    let one = power(scale as u8).unsigned_abs();
    write!(f, "{sign}{}.{:0scale$}", units / one, units % one)
}

/// A decimal's text: units of its last digit, with so many digits behind the point.
///
/// ```
/// assert_eq!(vicus_sql::decimal_text(-1250, 2), "-12.50");
/// assert_eq!(vicus_sql::decimal_text(7, -2), "700");
/// ```
pub fn decimal_text(units: i128, scale: i8) -> String {
    let mut text = String::new();
    let zeros = usize::from((-scale).max(0) as u8);
    write(&mut text, units, scale.max(0) as u8).expect("a string takes everything");
    if units != 0 {
        text.extend(std::iter::repeat_n('0', zeros));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(units: i128, scale: u8) -> String {
        let mut text = String::new();
        write(&mut text, units, scale).unwrap();
        text
    }

    /// Expected values by Python's `decimal`, with ROUND_HALF_UP.
    #[test]
    fn decimals_are_read_and_written_with_their_digits() {
        for (written, scale, expected) in [
            ("12.345", 2, "12.35"),
            ("-12.345", 2, "-12.35"),
            ("12.344999", 2, "12.34"),
            ("0.005", 2, "0.01"),
            ("-0.004", 2, "0.00"),
            ("1e3", 1, "1000.0"),
            ("1.5e-1", 3, "0.150"),
            (".5", 0, "1"),
            ("7.", 2, "7.00"),
            ("99999999999999999999999999999999999999", 0, "99999999999999999999999999999999999999"),
            ("0.00000000000000000000000000000000000001", 38, "0.00000000000000000000000000000000000001"),
            ("0e50", 2, "0.00"),
        ] {
            let units = parse(written, 38, scale).unwrap_or_else(|| panic!("{written} is a decimal"));
            assert_eq!(text(units, scale), expected, "{written}");
        }
        for wrong in ["", ".", "-", "1.2.3", "1e", "x", "1 2", "100000000000000000000000000000000000000", "1e38", "∞"]
        {
            assert_eq!(parse(wrong, 38, 0), None, "{wrong}");
        }
        assert_eq!(parse("999.995", 5, 2), None, "it is rounded to six digits");
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let expected = [(25, 3), (-25, -3), (24, 2), (-24, -2), (26, 3), (20, 2), (0, 0)];
        expected.iter().for_each(|&(units, rounded)| assert_eq!(divided(units, 10), rounded, "{units}"));
        assert_eq!(rescaled(i128::MAX, 0, 1), None);
        assert_eq!(divided(i128::MIN, 1), i128::MIN);
        assert_eq!(of_literal(0.1), Some((1, 1, 1)));
        assert_eq!(of_literal(1e300), None);
        assert_eq!(of_literal(-20.25), Some((-2025, 4, 2)));
    }
}
