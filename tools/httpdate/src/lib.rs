//! Dates as HTTP writes them (RFC 9110, §5.6.7), for any time that a clock can say. hyper makes one for each connection
//! of HTTP/1.1, also if it does not send it.
//!
//! The crate of this name in the registry panics on times before 1970 and behind the year 9999, and hyper's thread with
//! it. This one has the same interface, takes its place in this repository, and writes the nearest date with a year of
//! four digits instead. It shares no code with that one.

use std::error;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const SECONDS_OF_DAY: i64 = 86_400;

/// 0000-01-01 00:00:00.
const FIRST: i64 = day_number(0, 1, 1) * SECONDS_OF_DAY;
/// 9999-12-31 23:59:59.
const LAST: i64 = day_number(10_000, 1, 1) * SECONDS_OF_DAY - 1;

/// A text that is no date of HTTP.
#[derive(Debug)]
pub struct Error(());

impl error::Error for Error {}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("this is no date of HTTP, such as \"Sun, 06 Nov 1994 08:49:37 GMT\"")
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::other(error)
    }
}

/// A date of HTTP: a second of the years 0 to 9999. Times beyond become the first or the last of these seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HttpDate {
    /// Seconds since 1970. Invariant: between [`FIRST`] and [`LAST`].
    seconds: i64,
}

/// Reads a date in any of the three formats of RFC 9110. A year of two digits is one from 1970 to 2069.
///
/// ```
/// let at = httpdate::parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT")?;
/// assert_eq!(httpdate::fmt_http_date(at), "Sun, 06 Nov 1994 08:49:37 GMT");
/// # Ok::<(), httpdate::Error>(())
/// ```
pub fn parse_http_date(text: &str) -> Result<SystemTime, Error> {
    text.parse::<HttpDate>().map(SystemTime::from)
}

/// Writes a date in the preferred format: `Sun, 06 Nov 1994 08:49:37 GMT`.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// assert_eq!(httpdate::fmt_http_date(UNIX_EPOCH), "Thu, 01 Jan 1970 00:00:00 GMT");
/// let late = UNIX_EPOCH + Duration::from_secs(1 << 60);
/// assert_eq!(httpdate::fmt_http_date(late), "Fri, 31 Dec 9999 23:59:59 GMT");
/// ```
pub fn fmt_http_date(at: SystemTime) -> String {
    HttpDate::from(at).to_string()
}

/// The days from 1970-01-01 to that day of the proleptic Gregorian calendar. The year is 0 or later.
const fn day_number(year: i64, month: i64, day: i64) -> i64 {
    // Years begin with March here, so a leap day is the last day of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719,468 days lie between 0000-03-01 and 1970-01-01. Months from March on alternate between 31 and 30 days.
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// The year, month and day of a day number.
fn date_of(days: i64) -> (i64, i64, i64) {
    // A year is 365.2425 days: the estimate is off by one at most.
    let mut year = days * 400 / 146_097 + 1970;
    while day_number(year, 1, 1) > days {
        year -= 1;
    }
    while day_number(year + 1, 1, 1) <= days {
        year += 1;
    }
    let month = (1..=12).rev().find(|&month| day_number(year, month, 1) <= days).unwrap_or(1);
    (year, month, days - day_number(year, month, 1) + 1)
}

/// The place of a day number in [`DAYS`]: 1970-01-01 was a Thursday.
fn week_day(days: i64) -> usize {
    (days + 3).rem_euclid(7) as usize
}

impl From<SystemTime> for HttpDate {
    fn from(at: SystemTime) -> HttpDate {
        let seconds = match at.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            Err(before) => {
                let before = before.duration();
                let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                // A begun second counts from its beginning.
                (-seconds).saturating_sub(i64::from(before.subsec_nanos() > 0))
            }
        };
        HttpDate { seconds: seconds.clamp(FIRST, LAST) }
    }
}

impl From<HttpDate> for SystemTime {
    fn from(date: HttpDate) -> SystemTime {
        let distance = Duration::from_secs(date.seconds.unsigned_abs());
        let at = if date.seconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
        // Some systems count from 1601.
        at.unwrap_or(UNIX_EPOCH)
    }
}

impl Display for HttpDate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.seconds.div_euclid(SECONDS_OF_DAY), self.seconds.rem_euclid(SECONDS_OF_DAY));
        let (year, month, day) = date_of(days);
        let (name, month) = (&DAYS[week_day(days)][..3], MONTHS[month as usize - 1]);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{name}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }
}

/// The rest of a text to be read.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn skip(&mut self, expected: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    /// A number of this many digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        if number.bytes().all(|byte| byte.is_ascii_digit()) { number.parse().ok() } else { None }
    }

    /// The place of the name that the text begins with.
    fn one_of(&mut self, mut names: impl Iterator<Item = &'a str>) -> Option<usize> {
        names.position(|name| self.skip(name).is_some())
    }

    fn month(&mut self) -> Option<i64> {
        self.one_of(MONTHS.into_iter()).map(|at| at as i64 + 1)
    }

    /// Hours, minutes and seconds, as seconds.
    fn time(&mut self) -> Option<i64> {
        let hour = self.number(2)?;
        self.skip(":")?;
        let minute = self.number(2)?;
        self.skip(":")?;
        let second = self.number(2)?;
        (hour < 24 && minute < 60 && second < 60).then_some((hour * 60 + minute) * 60 + second)
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`: the day of the week, the day, and the second of that day.
fn fixdate(mut text: Rest<'_>) -> Option<(usize, [i64; 3], i64)> {
    let name = text.one_of(DAYS.iter().map(|name| &name[..3]))?;
    text.skip(", ")?;
    let day = text.number(2)?;
    text.skip(" ")?;
    let month = text.month()?;
    text.skip(" ")?;
    let year = text.number(4)?;
    text.skip(" ")?;
    let second = text.time()?;
    (text.0 == " GMT").then_some((name, [year, month, day], second))
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`.
fn rfc850(mut text: Rest<'_>) -> Option<(usize, [i64; 3], i64)> {
    let name = text.one_of(DAYS.into_iter())?;
    text.skip(", ")?;
    let day = text.number(2)?;
    text.skip("-")?;
    let month = text.month()?;
    text.skip("-")?;
    let year = text.number(2)?;
    text.skip(" ")?;
    let second = text.time()?;
    let year = year + if year < 70 { 2000 } else { 1900 };
    (text.0 == " GMT").then_some((name, [year, month, day], second))
}

/// `Sun Nov  6 08:49:37 1994`.
fn asctime(mut text: Rest<'_>) -> Option<(usize, [i64; 3], i64)> {
    let name = text.one_of(DAYS.iter().map(|name| &name[..3]))?;
    text.skip(" ")?;
    let month = text.month()?;
    text.skip(" ")?;
    let day = if text.skip(" ").is_some() { text.number(1)? } else { text.number(2)? };
    text.skip(" ")?;
    let second = text.time()?;
    text.skip(" ")?;
    let year = text.number(4)?;
    text.0.is_empty().then_some((name, [year, month, day], second))
}

impl FromStr for HttpDate {
    type Err = Error;

    fn from_str(text: &str) -> Result<HttpDate, Error> {
        let text = text.trim();
        let read = fixdate(Rest(text)).or_else(|| rfc850(Rest(text))).or_else(|| asctime(Rest(text)));
        let (name, [year, month, day], second) = read.ok_or(Error(()))?;
        let days = day_number(year, month, day);
        // The 31st of a shorter month would be a day of the next one.
        if date_of(days) != (year, month, day) || week_day(days) != name {
            return Err(Error(()));
        }
        Ok(HttpDate { seconds: days * SECONDS_OF_DAY + second })
    }
}
