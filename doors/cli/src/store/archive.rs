//! `vicus restore`, and archives as `vicus backup` and `vicus serve` name them.

use crate::arguments::RootsArgs;
use crate::current_work::Doing;
use crate::interrupt::{self, Interrupted};
use crate::store::{Bar, Unit, bytes_of, of, show};
use anyhow::{Context, anyhow};
use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vicus_service::{Archive, ArchiveError, NotArchived, RestoredAs, Until};

/// See `vicus restore --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The archive: the folder or the URL of a bucket that `vicus backup` or `vicus serve --archive` was given.
    #[arg(value_name = "PLACE")]
    archive: String,
    /// The folder of the store. It must be missing or empty.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// Makes the store as it was: with all records up to this sequence number, or with all that was in the archive at
    /// this time (2026-11-30, 2026-11-30T12:30:00Z; without a zone it is UTC). By default as it was last.
    #[arg(long, value_name = "SEQUENCE|TIME", value_parser = until)]
    until: Option<Until>,
    /// Makes a copy that goes on by `vicus serve --follow`. By default the store begins a new epoch, as after `vicus
    /// promote`: it takes changes, and copies can follow it.
    #[arg(long)]
    follower: bool,
    #[command(flatten)]
    roots: RootsArgs,
}

fn until(text: &str) -> Result<Until, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Until::Record).map_err(|_| "no record has this number".to_owned());
    }
    let day = || Some(NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0)?.and_utc());
    let without_zone = || NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok().map(|time| time.and_utc());
    let with_zone = || DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc());
    let time = with_zone().or_else(without_zone).or_else(day);
    let seconds = time.map(|time: DateTime<Utc>| time.timestamp());
    let wrong = "expected a sequence number, or a time such as 2026-11-30 or 2026-11-30T12:30:00Z";
    u64::try_from(seconds.ok_or(wrong)?).map(Until::Time).map_err(|_| "there is no archive of this time".to_owned())
}

/// Tells a bar how far it is. Its error after Ctrl-C ends the work.
fn telling(bar: &Bar) -> impl FnMut(u64, u64) -> io::Result<()> {
    |done, total| {
        if interrupt::cancel().is_cancelled() {
            return Err(ErrorKind::Interrupted.into());
        }
        if total > 0 {
            bar.set_of(done, total);
        }
        Ok(())
    }
}

fn failed(archive: &str, error: ArchiveError) -> anyhow::Error {
    match error {
        error if error.is_given_up() => Interrupted.into(),
        ArchiveError::Store(error) => anyhow!(error),
        ArchiveError::NotArchived(NotArchived::Before { first }) => {
            anyhow!("nothing was there at that time: the first object is of {}", shown(first))
                .context(format!("archive {archive}"))
        }
        ArchiveError::NotArchived(NotArchived::Removed { since }) => {
            anyhow!("states of that time were given up by --keep: all are there from {} on", shown(since))
                .context(format!("archive {archive}"))
        }
        error => anyhow!(error).context(format!("archive {archive}")),
    }
}

/// A time in seconds since 1970, for people.
fn shown(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    time.map_or_else(|| seconds.to_string(), |time| time.to_rfc3339())
}

/// A span of time: a number with s, m, h or d.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a span of time such as 30d, 12h, 90m or 45s".to_owned();
    let unit = match text.chars().last() {
        Some('s') => 1_u64,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => return Err(wrong()),
    };
    let number = text[..text.len() - 1].parse::<u64>().map_err(|_| wrong())?;
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(wrong)
}

/// Sends what an archive does not have of a store. Then removes what no state of the last span needs.
pub(crate) fn send(place: &str, store: &Path, keep: Option<Duration>, roots: &RootsArgs) -> anyhow::Result<()> {
    let archive = Archive::new(place, roots.read()?.as_ref()).map_err(|error| failed(place, error))?;
    let bar = Bar::new("sending", bytes_of(store), Unit::Bytes);
    let sent = archive.send_folder(store, &mut telling(&bar));
    let sent = sent.map_err(|error| failed(place, error)).with_context(|| of(store))?;
    show(&format!(
        "{place}: {} bytes and {} records sent; it has all up to record {}\n",
        sent.bytes, sent.records, sent.last
    ))?;
    if let Some(keep) = keep {
        let pruned = archive.prune(keep, &mut telling(&bar)).map_err(|error| failed(place, error))?;
        let since = match pruned.since {
            0 => String::new(),
            since => format!("; it has all states from {} on", shown(since)),
        };
        show(&format!("{place}: {} objects removed{since}\n", pruned.objects))?;
    }
    bar.end();
    Ok(())
}

pub(crate) fn restore(args: Args) -> anyhow::Result<()> {
    interrupt::listen();
    let _doing = Doing::Loading.begin();
    let Args { archive: place, store, until, follower, roots } = args;
    let archive = Archive::new(&place, roots.read()?.as_ref()).map_err(|error| failed(&place, error))?;
    let bar = Bar::new("fetching", 0, Unit::Bytes);
    let restored_as = if follower { RestoredAs::Follower } else { RestoredAs::Writer };
    let restored = archive.restore(&store, until.unwrap_or(Until::Last), restored_as, &mut telling(&bar));
    let restored = restored.map_err(|error| failed(&place, error)).with_context(|| of(&store))?;
    bar.end();
    show(&format!("{}: {} quads, as of record {}\n", store.display(), restored.quads, restored.last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_a_unit() {
        for (text, seconds) in [("45s", 45), ("90m", 5400), ("12h", 43_200), ("30d", 2_592_000), ("0d", 0)] {
            assert_eq!(span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "30", "d", "-1d", "1w", "1.5d", "3 d", "300000000000000000d", "1\u{e9}"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }

    /// Seconds since 1970 as `date -u -d TEXT +%s` prints them.
    #[test]
    fn a_state_is_named_by_a_number_or_a_time() {
        assert_eq!(until("17"), Ok(Until::Record(17)));
        assert_eq!(until("2026-11-30"), Ok(Until::Time(1_795_996_800)));
        assert_eq!(until("2026-11-30T12:30:00Z"), Ok(Until::Time(1_796_041_800)));
        assert_eq!(until("2026-11-30T12:30:00"), Ok(Until::Time(1_796_041_800)));
        assert_eq!(until("2026-11-30T12:30:00+01:00"), Ok(Until::Time(1_796_038_200)));
        for wrong in ["", "yesterday", "2026-13-01", "-4", "99999999999999999999999", "1969-01-01"] {
            assert!(until(wrong).is_err(), "{wrong}");
        }
    }
}
