//! Moments, days, times of day and durations: W3C XML Schema Definition Language (XSD) 1.1, Part 2: Datatypes, §3.3.6
//! to §3.3.9 and Appendix D.
//!
//! Our limits: a text has no value if its year has more than 11 digits, or its fraction of a second more than 18.

use super::decimal::Decimal;
use std::cmp::Ordering;
use std::fmt;

/// The unit of fractions: parts of a second.
const PARTS: u64 = 10u64.pow(PART_DIGITS);

/// The number of digits kept after the point.
const PART_DIGITS: u32 = 18;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The greatest offset of a time zone, in seconds. A moment without a zone may be in any zone.
const WIDEST_ZONE: i64 = 14 * 60 * 60;

/// A time zone: how many minutes its clocks are ahead of UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Zone(i16);

/// A day of the proleptic Gregorian calendar, with or without a time zone. Year 0 is 1 BCE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Date {
    pub(crate) year: i64,
    pub(crate) month: u8,
    pub(crate) day: u8,
    pub(crate) zone: Option<Zone>,
}

/// A time of day, with or without a time zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Time {
    pub(crate) hour: u8,
    pub(crate) minute: u8,
    second: u8,
    /// The fraction of the second, in units of 1 / [`PARTS`].
    part: u64,
    pub(crate) zone: Option<Zone>,
}

/// A moment. Invariant: its day and its time have the same zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DateTime {
    pub(crate) date: Date,
    pub(crate) time: Time,
}

/// A place on the time line: seconds since 1970, and a fraction in units of 1 / [`PARTS`]. A moment without a zone is
/// taken as UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Instant {
    seconds: i64,
    part: u64,
}

impl Instant {
    fn later(self, seconds: i64) -> Instant {
        Instant { seconds: self.seconds + seconds, ..self }
    }

    /// Whether the order of this moment and one of these, ascending, is unknown: only one of the two has a zone.
    pub(crate) fn may_be_any_of(self, others: &[Instant]) -> bool {
        let first = others.partition_point(|other| other.later(WIDEST_ZONE) < self);
        others.get(first).is_some_and(|other| *other <= self.later(WIDEST_ZONE))
    }
}

/// Parses a text from its beginning.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        (*first == byte).then(|| self.0 = rest)
    }

    /// Exactly two digits.
    fn two(&mut self) -> Option<u8> {
        let (digits, rest) = self.0.split_first_chunk::<2>()?;
        if !digits[0].is_ascii_digit() || !digits[1].is_ascii_digit() {
            return None;
        }
        self.0 = rest;
        Some((digits[0] - b'0') * 10 + digits[1] - b'0')
    }

    /// At least one and at most `most` digits: their value, and how many there are.
    fn digits(&mut self, most: usize) -> Option<(u64, usize)> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 || count > most {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        Some((digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')), count))
    }

    /// The fraction after the seconds' point, in units of 1 / [`PARTS`].
    fn fraction(&mut self) -> Option<u64> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
        let digits = &digits[..count - zeros];
        if count == 0 || digits.len() > 18 {
            return None;
        }
        let value = digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
        Some(value * 10u64.pow(18 - digits.len() as u32))
    }

    fn date(&mut self) -> Option<Date> {
        if let Some((common, rest)) = self.0.split_first_chunk()
            && let Some(date) = common_date(common)
        {
            self.0 = rest;
            return Some(date);
        }
        self.date_of_any_form()
    }

    fn date_of_any_form(&mut self) -> Option<Date> {
        let negative = self.take(b'-').is_some();
        let is_padded = self.0.first() == Some(&b'0');
        let (year, count) = self.digits(11)?;
        if count < 4 || count > 4 && is_padded {
            return None;
        }
        let year = if negative { -(year as i64) } else { year as i64 };
        self.take(b'-')?;
        let month = self.two()?;
        self.take(b'-')?;
        let day = self.two()?;
        let is_good = (1..=12).contains(&month) && day >= 1 && day <= days_of(year, month);
        is_good.then_some(Date { year, month, day, zone: None })
    }

    /// A time of day, and whether it is 24:00:00, which is returned as hour 0.
    fn time(&mut self) -> Option<(Time, bool)> {
        if let Some((common, rest)) = self.0.split_first_chunk()
            && let Some(time) = common_time(common)
        {
            self.0 = rest;
            let part = if self.take(b'.').is_some() { self.fraction()? } else { 0 };
            return Some((Time { part, ..time }, false));
        }
        self.time_of_any_form()
    }

    fn time_of_any_form(&mut self) -> Option<(Time, bool)> {
        let hour = self.two()?;
        self.take(b':')?;
        let minute = self.two()?;
        self.take(b':')?;
        let second = self.two()?;
        let part = if self.take(b'.').is_some() { self.fraction()? } else { 0 };
        let is_end = (hour, minute, second, part) == (24, 0, 0, 0);
        let is_good = is_end || hour < 24 && minute < 60 && second < 60;
        let hour = if is_end { 0 } else { hour };
        is_good.then_some((Time { hour, minute, second, part, zone: None }, is_end))
    }

    /// An optional time zone, and the end of the text.
    fn zone_and_end(&mut self) -> Option<Option<Zone>> {
        let sign = match self.0 {
            [] => return Some(None),
            [b'Z'] => return Some(Some(Zone(0))),
            [b'+', ..] => 1,
            [b'-', ..] => -1,
            _ => return None,
        };
        self.0 = &self.0[1..];
        let hours = self.two()?;
        self.take(b':')?;
        let minutes = self.two()?;
        let is_good = self.0.is_empty() && (hours < 14 && minutes < 60 || hours == 14 && minutes == 0);
        is_good.then(|| Some(Zone(sign * (i16::from(hours) * 60 + i16::from(minutes)))))
    }
}

/// The values of the pairs of digits at these places; `None` if a character is not a digit. A loop without branches, so
/// that parsing a moment takes some nanoseconds.
#[inline]
fn pairs<const N: usize, const PAIRS: usize>(text: &[u8; N], places: [usize; PAIRS]) -> Option<[u8; PAIRS]> {
    let (mut numbers, mut greatest) = ([0; PAIRS], 0);
    for (number, place) in numbers.iter_mut().zip(places) {
        let (tens, ones) = (text[place].wrapping_sub(b'0'), text[place + 1].wrapping_sub(b'0'));
        greatest = greatest.max(tens).max(ones);
        *number = tens.wrapping_mul(10).wrapping_add(ones);
    }
    (greatest <= 9).then_some(numbers)
}

/// Parses the usual form of a day, with a year of four digits: `2006-11-24`. `None` for any other form, valid or not.
#[inline]
fn common_date(text: &[u8; 10]) -> Option<Date> {
    let [century, year, month, day] = pairs(text, [0, 2, 5, 8])?;
    let year = i64::from(century) * 100 + i64::from(year);
    let is_good = (text[4], text[7]) == (b'-', b'-')
        && (1..=12).contains(&month)
        && day >= 1
        && (day <= 28 || day <= days_of(year, month));
    is_good.then_some(Date { year, month, day, zone: None })
}

/// Parses a time of day without a fraction: `14:53:59`. `None` for any other form, valid or not, and for 24:00:00.
#[inline]
fn common_time(text: &[u8; 8]) -> Option<Time> {
    let [hour, minute, second] = pairs(text, [0, 3, 6])?;
    let is_good = (text[2], text[5]) == (b':', b':') && hour < 24 && minute < 60 && second < 60;
    is_good.then_some(Time { hour, minute, second, part: 0, zone: None })
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: u8) -> u8 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970. Years begin in March here, so that the leap day is the last day of its year.
fn days_since_1970(year: i64, month: u8, day: u8) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before_year = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    before_year + (i64::from(month) * 153 + 2) / 5 + i64::from(day) - 1 - 719_468
}

impl Date {
    pub(crate) fn parse(text: &str) -> Option<Date> {
        let mut reader = Reader(text.as_bytes());
        let date = reader.date()?;
        Some(Date { zone: reader.zone_and_end()?, ..date })
    }

    /// The moment at which the day begins.
    pub(crate) fn start(self) -> DateTime {
        DateTime { date: self, time: Time { hour: 0, minute: 0, second: 0, part: 0, zone: self.zone } }
    }

    fn next(self) -> Date {
        match (self.month, self.day) {
            (12, 31) => Date { year: self.year + 1, month: 1, day: 1, ..self },
            (month, day) if day == days_of(self.year, month) => Date { month: month + 1, day: 1, ..self },
            (_, day) => Date { day: day + 1, ..self },
        }
    }

    fn of_days(days: i64) -> Date {
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * month + 2) / 5 + 1) as u8;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        Date { year, month: month as u8, day, zone: None }
    }
}

impl Time {
    pub(crate) fn parse(text: &str) -> Option<Time> {
        let mut reader = Reader(text.as_bytes());
        let (time, _) = reader.time()?;
        Some(Time { zone: reader.zone_and_end()?, ..time })
    }

    /// The seconds including their fraction.
    pub(crate) fn seconds(self) -> Decimal {
        seconds(i64::from(self.second), self.part)
    }

    /// A moment on the reference day of XPath, on which times are compared: §9.4.12 of its functions and operators.
    fn on_a_day(self) -> DateTime {
        DateTime { date: Date { year: 1972, month: 12, day: 31, zone: self.zone }, time: self }
    }

    pub(crate) fn compare(self, other: Time) -> Option<Ordering> {
        self.on_a_day().compare(other.on_a_day())
    }

    /// A key that equal times share.
    pub(crate) fn instant(self) -> Instant {
        self.on_a_day().instant()
    }
}

fn seconds(whole: i64, part: u64) -> Decimal {
    if part == 0 {
        return whole.into();
    }
    let (mut part, mut scale) = (part, PART_DIGITS);
    while part % 10 == 0 {
        part /= 10;
        scale -= 1;
    }
    Decimal::Small { mantissa: i128::from(whole) * 10i128.pow(scale) + i128::from(part), scale: scale as u8 }
}

impl DateTime {
    pub(crate) fn parse(text: &str) -> Option<DateTime> {
        let mut reader = Reader(text.as_bytes());
        let date = reader.date()?;
        reader.take(b'T')?;
        let (time, is_end) = reader.time()?;
        let zone = reader.zone_and_end()?;
        let date = Date { zone, ..date };
        Some(DateTime { date: if is_end { date.next() } else { date }, time: Time { zone, ..time } })
    }

    /// The moment this many milliseconds after the beginning of 1970, UTC.
    pub(crate) fn of_millis(millis: i64) -> DateTime {
        let (second, milli) = (millis.div_euclid(1000), millis.rem_euclid(1000));
        let (day, second) = (second.div_euclid(DAY_SECONDS), second.rem_euclid(DAY_SECONDS));
        let zone = Some(Zone(0));
        let time = Time {
            hour: (second / 3600) as u8,
            minute: (second / 60 % 60) as u8,
            second: (second % 60) as u8,
            part: milli as u64 * (PARTS / 1000),
            zone,
        };
        DateTime { date: Date { zone, ..Date::of_days(day) }, time }
    }

    pub(crate) fn zone(self) -> Option<Zone> {
        self.date.zone
    }

    pub(crate) fn instant(self) -> Instant {
        let Time { hour, minute, second, part, zone } = self.time;
        let minutes = i64::from(hour) * 60 + i64::from(minute) - zone.map_or(0, |zone| i64::from(zone.0));
        let days = days_since_1970(self.date.year, self.date.month, self.date.day);
        Instant { seconds: days * DAY_SECONDS + minutes * 60 + i64::from(second), part }
    }

    /// XSD 1.1, §D.2.1: if only one of the two has a zone, they are ordered only if every zone gives the same order.
    pub(crate) fn compare(self, other: DateTime) -> Option<Ordering> {
        let (a, b) = (self.instant(), other.instant());
        let between = |zoned: Instant, other: Instant| {
            if zoned < other.later(-WIDEST_ZONE) {
                Some(Ordering::Less)
            } else if zoned > other.later(WIDEST_ZONE) {
                Some(Ordering::Greater)
            } else {
                None
            }
        };
        match (self.zone(), other.zone()) {
            (Some(_), None) => between(a, b),
            (None, Some(_)) => between(b, a).map(Ordering::reverse),
            _ => Some(a.cmp(&b)),
        }
    }
}

/// A number of months and a number of seconds with the same sign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duration {
    negative: bool,
    months: u64,
    seconds: u64,
    part: u64,
}

impl Duration {
    /// Parses `xsd:duration`, or the type derived from it that has only months or only seconds.
    pub(crate) fn parse(text: &str, has_months: bool, has_seconds: bool) -> Option<Duration> {
        let mut reader = Reader(text.as_bytes());
        let negative = reader.take(b'-').is_some();
        reader.take(b'P')?;
        let mut made = Duration { negative, months: 0, seconds: 0, part: 0 };
        let (mut rank, mut in_time) = (0, false);
        while !reader.0.is_empty() {
            if reader.take(b'T').is_some() {
                if in_time || reader.0.is_empty() {
                    return None;
                }
                in_time = true;
                continue;
            }
            // 18 digits of years fit as months, and 14 digits of hours fit as seconds.
            let (count, _) = reader.digits(14)?;
            let part = if reader.take(b'.').is_some() { Some(reader.fraction()?) } else { None };
            let (unit, rest) = reader.0.split_first()?;
            reader.0 = rest;
            let (own, months, seconds) = match (in_time, unit) {
                (false, b'Y') => (1, 12, 0),
                (false, b'M') => (2, 1, 0),
                (false, b'D') => (3, 0, DAY_SECONDS as u64),
                (true, b'H') => (4, 0, 3600),
                (true, b'M') => (5, 0, 60),
                (true, b'S') => (6, 0, 1),
                _ => return None,
            };
            let is_good =
                own > rank && (own == 6 || part.is_none()) && if months > 0 { has_months } else { has_seconds };
            if !is_good {
                return None;
            }
            rank = own;
            made.months += count * months;
            made.seconds = made.seconds.checked_add(count.checked_mul(seconds)?)?;
            made.part = part.unwrap_or(0);
        }
        (rank > 0 && made.seconds < 1 << 62).then_some(made)
    }

    fn signed(self) -> (i128, i128) {
        let sign = if self.negative { -1 } else { 1 };
        let seconds = i128::from(self.seconds) * i128::from(PARTS) + i128::from(self.part);
        (i128::from(self.months) * sign, seconds * sign)
    }

    pub(crate) fn equals(self, other: Duration) -> bool {
        self.signed() == other.signed()
    }

    /// A key that equal durations share.
    pub(crate) fn key(self) -> (i128, i128) {
        self.signed()
    }

    /// XSD 1.1, §3.3.6.2: a duration is less than another if adding it to each of four moments gives the earlier
    /// result.
    pub(crate) fn compare(self, other: Duration) -> Option<Ordering> {
        let after = |year: i64, month: i64, duration: Duration| {
            let (months, seconds) = duration.signed();
            let months = (year * 12 + month - 1) as i128 + months;
            let (year, month) = (months.div_euclid(12) as i64, months.rem_euclid(12) as u8 + 1);
            let days = days_since_1970(year, month, 1);
            i128::from(days) * i128::from(DAY_SECONDS) * i128::from(PARTS) + seconds
        };
        let mut orders = [(1696, 9), (1697, 2), (1903, 3), (1903, 7)]
            .map(|(year, month)| after(year, month, self).cmp(&after(year, month, other)))
            .into_iter();
        let first = orders.next()?;
        orders.all(|order| order == first).then_some(first)
    }
}

impl Zone {
    /// The zone as a canonical `xsd:dayTimeDuration`.
    pub(crate) fn as_duration(self) -> String {
        let (sign, minutes) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        match (minutes / 60, minutes % 60) {
            (0, 0) => "PT0S".to_owned(),
            (hours, 0) => format!("{sign}PT{hours}H"),
            (0, minutes) => format!("{sign}PT{minutes}M"),
            (hours, minutes) => format!("{sign}PT{hours}H{minutes}M"),
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.0.unsigned_abs();
        match self.0 {
            0 => f.write_str("Z"),
            zone => write!(f, "{}{:02}:{:02}", if zone < 0 { '-' } else { '+' }, minutes / 60, minutes % 60),
        }
    }
}

impl Date {
    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.year < 0 { "-" } else { "" };
        write!(f, "{sign}{:04}-{:02}-{:02}", self.year.unsigned_abs(), self.month, self.day)
    }
}

impl Time {
    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}:{:02}", self.hour, self.minute, self.second)?;
        if self.part > 0 {
            let digits = format!("{:018}", self.part);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

fn write_zone(zone: Option<Zone>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    zone.map_or(Ok(()), |zone| write!(f, "{zone}"))
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)?;
        write_zone(self.zone, f)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)?;
        write_zone(self.zone, f)
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.date.write(f)?;
        f.write_str("T")?;
        self.time.write(f)?;
        write_zone(self.zone(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Like [`DateTime::parse`] and its like, using only the parser of any form.
    fn parsed_slowly(text: &str) -> (Option<DateTime>, Option<Date>, Option<Time>) {
        let moment = || {
            let mut reader = Reader(text.as_bytes());
            let date = reader.date_of_any_form()?;
            reader.take(b'T')?;
            let (time, is_end) = reader.time_of_any_form()?;
            let zone = reader.zone_and_end()?;
            let date = Date { zone, ..date };
            Some(DateTime { date: if is_end { date.next() } else { date }, time: Time { zone, ..time } })
        };
        let day = || {
            let mut reader = Reader(text.as_bytes());
            let date = reader.date_of_any_form()?;
            Some(Date { zone: reader.zone_and_end()?, ..date })
        };
        let time = || {
            let mut reader = Reader(text.as_bytes());
            let (time, _) = reader.time_of_any_form()?;
            Some(Time { zone: reader.zone_and_end()?, ..time })
        };
        (moment(), day(), time())
    }

    fn parsed(text: &str) -> (Option<DateTime>, Option<Date>, Option<Time>) {
        (DateTime::parse(text), Date::parse(text), Time::parse(text))
    }

    fn chance(state: &mut u64, below: usize) -> usize {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize % below
    }

    /// The parser of the usual form agrees with the parser of any form: for valid texts, and for texts with a byte
    /// changed, added or left out.
    #[test]
    fn the_common_form_means_what_the_reader_of_any_form_says() {
        let good = [
            "2006-11-11T14:53:59",
            "2006-11-11T14:53:59Z",
            "2004-02-29T00:00:00.125-05:00",
            "1900-02-28T23:59:59.999999999999999999+14:00",
            "1999-12-31T24:00:00",
            "1999-12-31T24:00:00.000Z",
            "-0044-03-15T10:00:00",
            "12006-01-01T00:00:00",
            "0000-01-01T00:00:00",
            "2006-11-11",
            "2006-11-11+05:30",
            "14:53:59",
            "24:00:00",
            "14:53:59.5Z",
        ];
        let bytes = b"0123456789-+:.TZt /;\xff";
        let mut state = 2026;
        let (mut moments, mut none) = (0, 0);
        for text in good {
            assert_ne!(parsed(text), (None, None, None), "{text}");
            assert_eq!(parsed(text), parsed_slowly(text), "{text}");
            for _ in 0..20_000 {
                let mut changed = text.as_bytes().to_vec();
                for _ in 0..=chance(&mut state, 2) {
                    let at = chance(&mut state, changed.len());
                    let byte = bytes[chance(&mut state, bytes.len())];
                    match chance(&mut state, 6) {
                        0 => changed.insert(at, byte),
                        1 => drop(changed.remove(at)),
                        _ => changed[at] = byte,
                    }
                }
                let Ok(changed) = String::from_utf8(changed) else { continue };
                let made = parsed(&changed);
                assert_eq!(made, parsed_slowly(&changed), "{changed:?}");
                *(if made == (None, None, None) { &mut none } else { &mut moments }) += 1;
            }
        }
        assert!(moments > 20_000 && none > 20_000, "{moments} have a meaning and {none} have not");
    }

    /// XSD 1.1, Part 2, §3.3.7 to §3.3.9: all two-digit numbers in each field, against the calendar's rules in that
    /// text.
    #[test]
    fn fields_have_the_bounds_of_the_recommendation() {
        for number in 0..100u32 {
            let time = |text: String| Time::parse(&text).is_some();
            assert_eq!(time(format!("{number:02}:30:00")), number < 24, "hour {number}");
            assert_eq!(time(format!("{number:02}:00:00")), number <= 24, "hour {number}");
            assert_eq!(time(format!("12:{number:02}:00")), number < 60, "minute {number}");
            assert_eq!(time(format!("12:00:{number:02}")), number < 60, "second {number}");
            for year in [1600, 1700, 1900, 1999, 2000, 2004, 2023, 2100, 9999] {
                let leaps = [1600, 2000, 2004].contains(&year);
                for month in 0..100 {
                    let days = match month {
                        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
                        4 | 6 | 9 | 11 => 30,
                        2 if leaps => 29,
                        2 => 28,
                        _ => 0,
                    };
                    let text = format!("{year}-{month:02}-{number:02}");
                    let date = Date::parse(&text).map(|date| (date.year, u32::from(date.month), u32::from(date.day)));
                    let expected = ((1..=days).contains(&number)).then_some((year, month, number));
                    assert_eq!(date, expected, "{text}");
                }
            }
        }
    }
}
