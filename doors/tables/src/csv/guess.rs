//! The types of columns, by the texts of their values. As in DuckDB's sniffer, each value rules out the types that do
//! not fit it, and the column's type is the first one left of boolean, bigint, double, date and timestamp. If a number
//! would lose a written sign or leading zeros, as in `+49123` and `0870`, it is a text.

use vicus_sql::SqlType;

/// The types that fit all values so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guess {
    has_value: bool,
    boolean: bool,
    integer: bool,
    double: bool,
    date: bool,
    timestamp: bool,
}

impl Guess {
    pub(crate) fn new() -> Guess {
        Guess { has_value: false, boolean: true, integer: true, double: true, date: true, timestamp: true }
    }

    /// Looks at one non-empty value.
    pub(crate) fn see(&mut self, text: &str) {
        self.has_value = true;
        self.boolean &= text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
        if self.integer || self.double {
            let number = NumberForm::of(text);
            self.integer &= number == NumberForm::Integer;
            self.double &= number != NumberForm::Text;
        }
        if self.date || self.timestamp {
            let is_date = text.len() == 10 && is_shaped(text.as_bytes(), b"0000-00-00");
            self.date &= is_date;
            self.timestamp &= is_date || is_timestamp(text.as_bytes());
        }
    }

    /// The type of the column; text without a value.
    pub(crate) fn kind(self) -> SqlType {
        match self {
            _ if !self.has_value => SqlType::Varchar,
            _ if self.boolean => SqlType::Boolean,
            _ if self.integer => SqlType::BigInt,
            _ if self.double => SqlType::Double,
            _ if self.date => SqlType::Date,
            _ if self.timestamp => SqlType::Timestamp,
            _ => SqlType::Varchar,
        }
    }
}

/// A text's form as a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NumberForm {
    /// Within 64 bits.
    Integer,
    Double,
    Text,
}

impl NumberForm {
    pub(super) fn of(text: &str) -> NumberForm {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
            None => (unsigned, None),
        };
        let (whole, part) = mantissa.split_once('.').map_or((mantissa, None), |(whole, part)| (whole, Some(part)));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let has_digits = !whole.is_empty() || part.is_some_and(|part| !part.is_empty());
        let is_number = has_digits
            && digits(whole)
            && part.is_none_or(digits)
            && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent));
        let has_leading_zeros = whole.len() > 1 && whole.starts_with('0');
        match (is_number && !has_leading_zeros, part, exponent) {
            (false, ..) => NumberForm::Text,
            (true, None, None) if text == "-0" || text.parse::<i64>().is_err() => NumberForm::Double,
            (true, None, None) => NumberForm::Integer,
            (true, ..) => NumberForm::Double,
        }
    }
}

/// Whether a text has a digit at each zero of the shape, and the shape's other characters.
fn is_shaped(text: &[u8], shape: &[u8]) -> bool {
    text.len() >= shape.len()
        && text
            .iter()
            .zip(shape)
            .all(|(byte, shape)| if *shape == b'0' { byte.is_ascii_digit() } else { byte == shape })
}

/// Day and time, with or without a fraction of the second and a time zone.
fn is_timestamp(text: &[u8]) -> bool {
    let is_begun = is_shaped(text, b"0000-00-00 00:00:00") || is_shaped(text, b"0000-00-00T00:00:00");
    is_begun && {
        let rest = &text[19..];
        let digits =
            rest.strip_prefix(b".").map_or(0, |part| 1 + part.iter().take_while(|byte| byte.is_ascii_digit()).count());
        let zone = &rest[digits..];
        digits != 1
            && (zone.is_empty()
                || zone == b"Z"
                || zone.len() == 6 && (is_shaped(zone, b"+00:00") || is_shaped(zone, b"-00:00")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: 0870 was 870, and +4912345 was 4912345.
    #[test]
    fn a_column_is_of_the_first_type_that_all_its_values_are_of() {
        use SqlType::{BigInt, Boolean, Date, Double, Timestamp, Varchar};
        for (values, kind) in [
            (&[][..], Varchar),
            (&["1", "-2", "0", "9223372036854775807"], BigInt),
            (&["1", "9223372036854775808"], Double),
            (&["1", "2.5", "-0.5", "1e5", "1E-5", ".5", "5."], Double),
            (&["-0"], Double),
            (&["870", "0870"], Varchar),
            (&["00"], Varchar),
            (&["01.5"], Varchar),
            (&["4912345", "+4912345"], Varchar),
            (&["1", "x"], Varchar),
            (&["-", "."], Varchar),
            (&["1e"], Varchar),
            (&["1 000"], Varchar),
            (&["true", "False", "TRUE"], Boolean),
            (&["true", "1"], Varchar),
            (&["2024-02-29"], Date),
            (&["2024-02-29", "2024-02-29 12:30:15"], Timestamp),
            (&["2024-02-29T12:30:15.123456Z", "2024-02-29 12:30:15+01:00"], Timestamp),
            (&["2024-2-9"], Varchar),
            (&["2024-02-29 12:30:15 sharp"], Varchar),
        ] {
            let mut guess = Guess::new();
            values.iter().for_each(|value| guess.see(value));
            assert_eq!(guess.kind(), kind, "{values:?}");
        }
    }
}
