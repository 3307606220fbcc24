//! The `Date` of answers, if the machine's clock has a usable one: it may have any value.

use axum::http::HeaderValue;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment as HTTP has it (RFC 9110, §5.6.7); none before 1970 or behind the year 9999.
pub(crate) fn http_date(at: SystemTime) -> Option<HeaderValue> {
    /// The first second of the year 10000.
    const END: u64 = 253_402_300_800;
    let seconds = at.duration_since(UNIX_EPOCH).ok()?.as_secs();
    if seconds >= END {
        return None;
    }
    HeaderValue::from_str(&httpdate::fmt_http_date(at)).ok()
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
