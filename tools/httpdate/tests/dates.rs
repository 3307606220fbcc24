//! Dates against RFC 9110's examples and the command `date`.

use httpdate::{HttpDate, fmt_http_date, parse_http_date};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn at(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

#[test]
fn the_three_formats_of_the_standard_are_one_moment() {
    // RFC 9110, §5.6.7.
    for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
        assert_eq!(parse_http_date(text).unwrap(), at(784_111_777), "{text}");
    }
    assert_eq!(fmt_http_date(at(784_111_777)), "Sun, 06 Nov 1994 08:49:37 GMT");
}

#[test]
fn the_command_date_says_the_same_of_every_moment() {
    // From 0000-01-01 to 9999-12-31 in odd steps, and days around ends of months and years.
    let mut moments: Vec<i64> = (0..1000).map(|step| -62_167_219_200 + step * 315_569_519).collect();
    for year in [0, 4, 100, 400, 1899, 1900, 1969, 1970, 1972, 1999, 2000, 2038, 2100, 9999] {
        let new_year = (year - 1970) * 31_556_952;
        moments.extend((-3..=70).map(|day| new_year + day * 86_399));
    }
    moments.retain(|&moment| (-62_167_219_200..=253_402_300_799).contains(&moment));
    let lines: String = moments.iter().map(|moment| format!("@{moment}\n")).collect();
    let file = std::env::temp_dir().join(format!("vicus-dates-{}", std::process::id()));
    std::fs::write(&file, lines).unwrap();
    let mut date = Command::new("date");
    date.env("LC_ALL", "C").args(["-u", "+%a, %d %b %Y %H:%M:%S GMT", "-f"]).arg(&file);
    let said = date.output();
    std::fs::remove_file(&file).unwrap();
    let Ok(said) = said.as_ref().map(|said| String::from_utf8_lossy(&said.stdout)) else {
        eprintln!("left out: there is no `date`: {said:?}");
        return;
    };
    if said.is_empty() {
        eprintln!("left out: this `date` reads no file");
        return;
    }
    assert_eq!(said.lines().count(), moments.len());
    for (moment, said) in moments.iter().zip(said.lines()) {
        assert_eq!(fmt_http_date(at(*moment)), said, "{moment}");
        assert_eq!(parse_http_date(said).unwrap(), at(*moment), "{said}");
    }
}

#[test]
fn times_without_a_date_become_the_nearest_one() {
    let after = at(253_402_300_800);
    assert_eq!(fmt_http_date(after), "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_eq!(fmt_http_date(at(-62_167_219_201)), "Sat, 01 Jan 0000 00:00:00 GMT");
    assert_eq!(fmt_http_date(UNIX_EPOCH - Duration::from_nanos(1)), "Wed, 31 Dec 1969 23:59:59 GMT");
    // The first and the last moment that the system has.
    for sign in [-1, 1] {
        let mut moment = UNIX_EPOCH;
        for bit in (0..63).rev() {
            let step = Duration::from_secs(1 << bit);
            let next = if sign < 0 { moment.checked_sub(step) } else { moment.checked_add(step) };
            moment = next.unwrap_or(moment);
        }
        assert_eq!(fmt_http_date(moment).len(), 29);
    }
    assert!(HttpDate::from(after) > HttpDate::from(UNIX_EPOCH));
}

#[test]
fn other_texts_are_refused() {
    for text in [
        "",
        "Sun, 06 Nov 1994 08:49:37",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, +6 Nov 1994 08:49:37 GMT",
        "Fri, 31 Feb 1994 08:49:37 GMT",
        "Thu, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun Nov  6 08:49:37 19945",
        "Sun Nov é6 08:49:37 1994",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
    ] {
        assert!(parse_http_date(text).is_err(), "{text}");
    }
}
