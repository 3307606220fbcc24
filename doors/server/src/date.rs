//! The `Date` of answers, if the machine's clock has a usable one: it may have any value.

use axum::http::HeaderValue;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment as HTTP has it (RFC 9110, §5.6.7); none before 1970 or behind the year 9999.
pub(crate) fn http_date(at: SystemTime) -> Option<HeaderValue> {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    /// The first second of the year 10000.
    const END: u64 = 253_402_300_800;
    let seconds = at.duration_since(UNIX_EPOCH).ok()?.as_secs();
    if seconds >= END {
        return None;
    }
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Counts from 0000-03-01 on, so that a leap day is the last of its year; 400 years have 146,097 days.
    let days_since_march = days + 719_468;
    let (era, day_of_era) = (days_since_march / 146_097, days_since_march % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    // March is month 0, and January and February belong to the next year.
    let (month, years) = if month < 10 { (month + 2, 0) } else { (month - 10, 1) };
    let year = 400 * era + year_of_era + years;
    let text = format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize],
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// What happened: after the year 9999 the header was a panic on a thread of the network. Expected values are from
    /// `date -u -R -d @SECONDS`.
    #[test]
    fn a_clock_that_says_nonsense_has_no_date() {
        let text = |seconds: u64| {
            let at = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).expect("the system has it");
            http_date(at).map(|date| date.to_str().expect("ASCII").to_owned())
        };
        for (seconds, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(text(seconds).as_deref(), Some(expected), "{seconds}");
        }
        assert_eq!(text(253_402_300_800), None);
        assert_eq!(text(i64::MAX as u64 / 2), None);
        assert_eq!(http_date(UNIX_EPOCH - Duration::from_secs(1)), None);
    }
}
