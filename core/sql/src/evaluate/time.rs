//! Functions of dates and timestamps.

use super::vector::{Vector, map, zip};
use crate::date::{self, DAY};
use crate::expression::{DateField, Function, Interval};
use crate::types::SqlType;
use vicus_flow::BoxError;

pub(super) fn compute(function: &Function, args: &[Vector], kind: &SqlType, rows: usize) -> Result<Vector, BoxError> {
    let days = || args[0].values::<i32>();
    let is_date = *kind == SqlType::Date;
    match function {
        Function::Extract(field) if is_date => map(rows, days(), |days| Ok(Some(extract(*field, i64::from(days), 0)))),
        Function::Extract(field) => map(rows, args[0].values::<i64>(), |micros| {
            let (days, micros) = date::split(micros);
            Ok(Some(extract(*field, days, micros)))
        }),
        Function::Truncate(field) if is_date => {
            map(rows, days(), |days| Ok(Some((truncate(*field, i64::from(days) * DAY) / DAY) as i32)))
        }
        Function::Truncate(field) => map(rows, args[0].values::<i64>(), |micros| Ok(Some(truncate(*field, micros)))),
        Function::AddInterval(interval) if is_date => map(rows, days(), |days| {
            add_to_date(days, *interval).map(Some).ok_or_else(|| out_of_range(date::Date(days)))
        }),
        Function::AddInterval(interval) => map(rows, args[0].values::<i64>(), |micros| {
            add(micros, *interval).map(Some).ok_or_else(|| out_of_range(date::Timestamp(micros)))
        }),
        Function::AddDays => zip(rows, days(), args[1].values::<i64>(), |days, more| {
            let sum = i64::from(days).checked_add(more).and_then(in_range);
            sum.map(Some).ok_or_else(|| out_of_range(date::Date(days)))
        }),
        Function::DaysBetween => {
            zip(rows, days(), args[1].values::<i32>(), |a, b| Ok(Some(i64::from(a) - i64::from(b))))
        }
        other => unreachable!("{other:?} is not of dates"),
    }
}

fn out_of_range(from: impl std::fmt::Display) -> BoxError {
    format!("what is added to {from} leads out of the years -9999 to 9999").into()
}

fn in_range(days: i64) -> Option<i32> {
    let year = date::civil(days.clamp(-10_000_000, 10_000_000)).0;
    i32::try_from(days).ok().filter(|_| (-9999..=9999).contains(&year))
}

fn add_to_date(days: i32, interval: Interval) -> Option<i32> {
    in_range(i64::from(date::add_months(days, interval.months)?).checked_add(interval.days)?)
}

fn add(micros: i64, interval: Interval) -> Option<i64> {
    let (days, of_day) = date::split(micros);
    let days = add_to_date(i32::try_from(days).ok()?, interval)?;
    let sum = (i64::from(days) * DAY).checked_add(of_day)?.checked_add(interval.micros)?;
    in_range(date::split(sum).0).map(|_| sum)
}

/// Monday is 1.
fn iso_weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

fn day_of_year(days: i64) -> i64 {
    let (year, ..) = date::civil(days);
    days - date::days(year, 1, 1).map_or(days, i64::from) + 1
}

/// The week of ISO 8601: that of the week's Thursday.
fn iso_week(days: i64) -> i64 {
    (day_of_year(days - iso_weekday(days) + 4) - 1) / 7 + 1
}

fn extract(field: DateField, days: i64, micros: i64) -> i64 {
    let (year, month, day) = date::civil(days);
    match field {
        DateField::Year => year,
        DateField::Quarter => i64::from(month - 1) / 3 + 1,
        DateField::Month => i64::from(month),
        DateField::Week => iso_week(days),
        DateField::Day => i64::from(day),
        DateField::DayOfWeek => iso_weekday(days) % 7,
        DateField::IsoDayOfWeek => iso_weekday(days),
        DateField::DayOfYear => day_of_year(days),
        DateField::Hour => micros / 3_600_000_000,
        DateField::Minute => micros / 60_000_000 % 60,
        DateField::Second => micros / 1_000_000 % 60,
        DateField::Millisecond => micros / 1000 % 60_000,
        DateField::Microsecond => micros % 60_000_000,
        DateField::Epoch => (days * DAY + micros).div_euclid(1_000_000),
    }
}

/// The beginning of the year, month and so on.
fn truncate(field: DateField, micros: i64) -> i64 {
    let (days, of_day) = date::split(micros);
    let (year, month, _) = date::civil(days);
    let first = |month: u32| date::days(year, month, 1).map_or(micros, |days| i64::from(days) * DAY);
    let down = |unit: i64| days * DAY + of_day / unit * unit;
    match field {
        DateField::Year => first(1),
        DateField::Quarter => first((month - 1) / 3 * 3 + 1),
        DateField::Month => first(month),
        DateField::Week => (days - iso_weekday(days) + 1) * DAY,
        DateField::Day | DateField::DayOfWeek | DateField::IsoDayOfWeek | DateField::DayOfYear => days * DAY,
        DateField::Hour => down(3_600_000_000),
        DateField::Minute => down(60_000_000),
        DateField::Second | DateField::Epoch => down(1_000_000),
        DateField::Millisecond => down(1000),
        DateField::Microsecond => micros,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values by Python's `date.isocalendar`, `isoweekday` and `timetuple().tm_yday`.
    #[test]
    fn weeks_and_days_are_those_of_iso_8601() {
        for (text, week, weekday, day) in [
            ("2021-01-03", 53, 7, 3),
            ("2021-01-04", 1, 1, 4),
            ("2020-12-31", 53, 4, 366),
            ("2019-12-30", 1, 1, 364),
            ("1965-06-15", 24, 2, 166),
        ] {
            let days = i64::from(date::parse_date(text).unwrap());
            assert_eq!((iso_week(days), iso_weekday(days), day_of_year(days)), (week, weekday, day), "{text}");
        }
    }
}
