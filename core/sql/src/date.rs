//! Days and microseconds since 1970 as dates and times of day, in the proleptic Gregorian calendar.

use std::fmt;

pub(crate) const DAY: i64 = 86_400_000_000;

/// The days from 1970-01-01 to the first of March of year 0, from which leap days are counted.
const TO_MARCH_0: i64 = 719_468;

/// Days in 400 years.
const ERA: i64 = 146_097;

/// Dates have years of at most four digits; others are refused.
const LEAST_YEAR: i64 = -9999;
const GREATEST_YEAR: i64 = 9999;

/// Days since 1970-01-01, which print as `2024-02-29`.
pub(crate) struct Date(pub(crate) i32);

/// Microseconds since 1970-01-01, which print as `2024-02-29 12:30:00.5`.
pub(crate) struct Timestamp(pub(crate) i64);

/// A day since 1970-01-01 as text: `2026-11-25`.
///
/// ```
/// assert_eq!(vicus_sql::date_text(0), "1970-01-01");
/// ```
pub fn date_text(days: i32) -> String {
    Date(days).to_string()
}

/// Microseconds since 1970-01-01 as text: `2026-11-25 16:30:00`.
///
/// ```
/// assert_eq!(vicus_sql::timestamp_text(1_500_000), "1970-01-01 00:00:01.5");
/// ```
pub fn timestamp_text(micros: i64) -> String {
    Timestamp(micros).to_string()
}

/// Year, month from 1, and day from 1. Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
pub(crate) fn civil(days: i64) -> (i64, u32, u32) {
    let shifted = days + TO_MARCH_0;
    let (era, of_era) = (shifted.div_euclid(ERA), shifted.rem_euclid(ERA));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u32, day as u32)
}

/// The days since 1970-01-01 of a day that exists; `None` otherwise.
pub(crate) fn days(year: i64, month: u32, day: u32) -> Option<i32> {
    let is_there = (1..=12).contains(&month) && day >= 1 && day <= month_days(year, month);
    (is_there && (LEAST_YEAR..=GREATEST_YEAR).contains(&year)).then(|| {
        let shifted = year - i64::from(month <= 2);
        let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
        let month = i64::from(if month > 2 { month - 3 } else { month + 9 });
        let day_of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        (era * ERA + of_era - TO_MARCH_0) as i32
    })
}

pub(crate) fn month_days(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// So many months later; the last day of the month if it is shorter.
pub(crate) fn add_months(from: i32, months: i64) -> Option<i32> {
    let (year, month, day) = civil(i64::from(from));
    let all = (year * 12 + i64::from(month) - 1).checked_add(months)?;
    let (year, month) = (all.div_euclid(12), all.rem_euclid(12) as u32 + 1);
    days(year, month, day.min(month_days(year, month)))
}

/// The days of a timestamp, and its microseconds of the day.
pub(crate) fn split(micros: i64) -> (i64, i64) {
    (micros.div_euclid(DAY), micros.rem_euclid(DAY))
}

/// The day since 1970-01-01 of a text such as `2026-11-25`; none if it is no day.
///
/// ```
/// assert_eq!(vicus_sql::date_of("1970-01-02"), Some(1));
/// assert_eq!(vicus_sql::date_of("1970-02-30"), None);
/// ```
pub fn date_of(text: &str) -> Option<i32> {
    parse_date(text)
}

/// The microseconds since 1970-01-01 of a text such as `2026-11-25T16:30:00`, perhaps with `Z` behind it; none if it is
/// no such time.
///
/// ```
/// assert_eq!(vicus_sql::timestamp_of("1970-01-01T00:00:01.5"), Some(1_500_000));
/// ```
pub fn timestamp_of(text: &str) -> Option<i64> {
    parse_timestamp(text)
}

/// Reads `2024-02-29`.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let text = text.trim();
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let mut parts = digits.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !(1..=4).contains(&year.len()) {
        return None;
    }
    days(sign * i64::from(number(year)?), number(month)?, number(day)?)
}

/// Reads `2024-02-29`, `2024-02-29 12:30`, `2024-02-29T12:30:00.25`, each perhaps with `Z` behind it.
pub(crate) fn parse_timestamp(text: &str) -> Option<i64> {
    let text = text.trim();
    let Some(at) = text.find([' ', 'T']) else { return Some(i64::from(parse_date(text)?) * DAY) };
    let (date, time) = (parse_date(&text[..at])?, &text[at + 1..]);
    Some(i64::from(date) * DAY + parse_time(time.strip_suffix('Z').unwrap_or(time))?)
}

/// One or more digits.
fn number(digits: &str) -> Option<u32> {
    let are_digits = !digits.is_empty() && digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if are_digits { digits.parse().ok() } else { None }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(i64::from(self.0));
        let sign = if year < 0 { "-" } else { "" };
        write!(f, "{sign}{:04}-{month:02}-{day:02}", year.abs())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, micros) = split(self.0);
        let (year, month, day) = civil(days);
        let sign = if year < 0 { "-" } else { "" };
        write!(f, "{sign}{:04}-{month:02}-{day:02} {}", year.abs(), Time(micros))
    }
}

/// Microseconds since midnight, which print as `12:30:00.5`.
pub(crate) struct Time(pub(crate) i64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1_000_000;
        write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        write_fraction(f, self.0 % 1_000_000)
    }
}

fn write_fraction(f: &mut fmt::Formatter<'_>, micros: i64) -> fmt::Result {
    match micros {
        0 => Ok(()),
        fraction => f.write_str(format!(".{fraction:06}").trim_end_matches('0')),
    }
}

/// A span of microseconds, which prints as `36:00:00.5`.
pub(crate) struct Span(pub(crate) i64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.unsigned_abs();
        let seconds = micros / 1_000_000;
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        write_fraction(f, (micros % 1_000_000) as i64)
    }
}

/// Microseconds since midnight as text: `16:30:00`.
///
/// ```
/// assert_eq!(vicus_sql::time_text(3_600_500_000), "01:00:00.5");
/// ```
pub fn time_text(micros: i64) -> String {
    Time(micros).to_string()
}

/// A span of microseconds as text, in hours: `36:00:00`.
///
/// ```
/// assert_eq!(vicus_sql::span_text(-90_000_000), "-00:01:30");
/// ```
pub fn span_text(micros: i64) -> String {
    Span(micros).to_string()
}

/// Reads `12:30`, `12:30:15.25` as microseconds since midnight.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let (hours, micros) = parse_clock(text.trim())?;
    (hours <= 23).then_some(hours * 3_600_000_000 + micros)
}

/// Reads a span such as `36:00:00.5` or `-00:01:30`, perhaps behind a number of days: `2 days 03:00:00`.
pub(crate) fn parse_span(text: &str) -> Option<i64> {
    let text = text.trim();
    let (days, clock) = match text.split_once("day") {
        Some((days, rest)) => (days.trim().parse::<i64>().ok()?, rest.strip_prefix('s').unwrap_or(rest).trim()),
        None => (0, text),
    };
    let micros = match clock.strip_prefix('-') {
        None if clock.is_empty() && text != clock => 0,
        None => parse_hours(clock)?,
        Some(clock) => -parse_hours(clock)?,
    };
    days.checked_mul(DAY)?.checked_add(micros)
}

fn parse_hours(clock: &str) -> Option<i64> {
    let (hours, micros) = parse_clock(clock)?;
    hours.checked_mul(3_600_000_000)?.checked_add(micros)
}

/// The hours of `12:30:15.25`, and the microseconds of that hour. What is finer is cut off.
fn parse_clock(time: &str) -> Option<(i64, i64)> {
    let mut parts = time.splitn(3, ':');
    let (hours, minute, second) = (number(parts.next()?)?, number(parts.next()?)?, parts.next().unwrap_or("0"));
    let (second, fraction) = second.split_once('.').unwrap_or((second, ""));
    let second = number(second)?;
    if minute > 59 || second > 59 || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(6);
    let micros = digits.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    Some((i64::from(hours), (i64::from(minute) * 60 + i64::from(second)) * 1_000_000 + micros))
}

/// Reads a moment such as `2024-02-29 12:30:00+01:00` as microseconds since 1970 in UTC; without an offset it is in
/// UTC.
pub(crate) fn parse_moment(text: &str) -> Option<i64> {
    let text = text.trim();
    let Some(at) = text.find([' ', 'T']) else { return parse_timestamp(text) };
    let time = &text[at + 1..];
    let Some(sign) = time.find(['+', '-']) else { return parse_timestamp(text) };
    let (local, offset) = (&text[..at + 1 + sign], &time[sign + 1..]);
    let (hours, minutes) = match offset.split_once(':') {
        Some((hours, minutes)) => (number(hours)?, number(minutes)?),
        None if offset.len() == 4 && offset.is_ascii() => (number(&offset[..2])?, number(&offset[2..])?),
        None => (number(offset)?, 0),
    };
    if hours > 18 || minutes > 59 {
        return None;
    }
    let offset = i64::from(hours * 60 + minutes) * 60_000_000;
    parse_timestamp(local)?.checked_sub(if time.as_bytes()[sign] == b'-' { -offset } else { offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values by Python's `datetime`.
    #[test]
    fn days_are_those_of_the_calendar() {
        let known = [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11016),
            ("1900-03-01", -25508),
            ("2024-12-31", 20088),
            ("0001-01-01", -719162),
            ("9999-12-31", 2932896),
        ];
        for (text, days) in known {
            assert_eq!(parse_date(text), Some(days), "{text}");
            assert_eq!(Date(days).to_string(), text);
        }
        for wrong in ["1900-02-29", "2024-13-01", "2024-00-10", "2024-04-31", "24", "2024-1", "2024-01-01-01", "x"] {
            assert_eq!(parse_date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_and_spans_are_read_as_they_are_written() {
        for (text, micros) in [("00:00:00", 0), ("12:30:00.5", 45_000_500_000), ("23:59:59.999999", DAY - 1)] {
            assert_eq!(parse_time(text), Some(micros), "{text}");
            assert_eq!(Time(micros).to_string(), text);
        }
        for (text, micros) in [("36:00:00", 129_600_000_000), ("-00:01:30.25", -90_250_000), ("00:00:00", 0)] {
            assert_eq!(parse_span(text), Some(micros), "{text}");
            assert_eq!(Span(micros).to_string(), text);
        }
        assert_eq!(parse_span("2 days 01:00:00"), Some(49 * 3_600_000_000));
        assert_eq!(parse_span("1 day"), Some(DAY));
        for wrong in ["24:00:00", "12", "12:60", "1:2:3:4", ""] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
        assert_eq!(parse_span(""), None);
        // By Python's `datetime.fromisoformat`.
        for (text, micros) in [
            ("2024-02-29 12:30:00+01:00", 1_709_206_200_000_000),
            ("2024-02-29T12:30:00Z", 1_709_209_800_000_000),
            ("2024-02-29 12:30:00-0530", 1_709_229_600_000_000),
            ("2024-02-29 12:30:00+00", 1_709_209_800_000_000),
        ] {
            assert_eq!(parse_moment(text), Some(micros), "{text}");
        }
    }

    #[test]
    fn timestamps_are_read_as_they_are_written() {
        for (text, micros) in [
            ("1970-01-01 00:00:00", 0),
            ("2024-02-29 12:30:00.5", 1_709_209_800_500_000),
            ("1969-12-31 23:59:59.999999", -1),
        ] {
            assert_eq!(parse_timestamp(text), Some(micros), "{text}");
            assert_eq!(Timestamp(micros).to_string(), text);
        }
        assert_eq!(parse_timestamp("2024-02-29T12:30Z"), Some(1_709_209_800_000_000));
        assert_eq!(parse_timestamp("2024-02-29 24:00:00"), None);
        assert_eq!(add_months(parse_date("2024-01-31").unwrap(), 1), parse_date("2024-02-29"));
        assert_eq!(add_months(parse_date("2024-03-31").unwrap(), -13), parse_date("2023-02-28"));
    }
}
