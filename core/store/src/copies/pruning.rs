//! The objects of an archive that no state within a span of time needs, up to the present.
//!
//! A state is made again from the newest object of its time, and the base and the records that this object's log needs
//! ([`ArchiveList::newest`], [`ArchiveList::restoration`]). Both choose by a greatest number, so objects that are not
//! chosen may go, in any order: all choices stay the same after each of them.
//!
//! Two logs of one epoch are the same up to the end of the shorter one. So it is enough to look at the longest log of
//! each epoch that was the newest at some time of the span, from the shortest one of that epoch on.

use super::archive::{ArchiveList, FORM, Object, Until, sealed, unsealed};
use super::decide::CopyStanding;
use super::message::{Lines, NotUnderstood, begin, text};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use vicus_disk::Epoch;

/// The states of one epoch within a span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSpan {
    /// The object with the last of them. Its content has the log.
    pub name: String,
    /// The last record of the first of them.
    pub first: u64,
    /// All objects that were the newest at some time.
    newest: BTreeSet<String>,
}

impl ArchiveList {
    /// The states from this time on, by their epochs. None if the archive begins later, or if objects that some of them
    /// need may have been removed.
    pub fn spans(&self, since: u64) -> Vec<LogSpan> {
        if self.newest(Until::Time(since)).is_err() {
            return Vec::new();
        }
        let mut by_time: Vec<&Object> = self.objects.iter().collect();
        by_time.sort_by_key(|object| object.time);
        let mut spans: BTreeMap<Epoch, LogSpan> = BTreeMap::new();
        let mut newest: Option<&Object> = None;
        for (at, object) in by_time.iter().enumerate() {
            if newest.is_none_or(|newest| newest.rank() <= object.rank()) {
                newest = Some(*object);
            }
            // The state at the end of this time, if the span has that.
            let is_last_before = by_time.get(at + 1).is_none_or(|next| next.time > object.time.max(since));
            let (true, Some(newest)) = (is_last_before, newest) else { continue };
            let Object { name, last, .. } = newest;
            let new = || LogSpan { name: name.clone(), first: *last, newest: BTreeSet::new() };
            // They come in the order of their numbers.
            let span = spans.entry(newest.epoch).or_insert_with(new);
            span.name.clone_from(name);
            span.newest.insert(name.clone());
        }
        spans.into_values().collect()
    }

    /// The objects with bases and records that none of these states needs: those with bases first, and the oldest ones
    /// first. Each span comes with the log of its object. Without spans all are needed.
    pub fn unneeded(&self, spans: &[(LogSpan, CopyStanding)]) -> Vec<String> {
        let mut needed: BTreeSet<&str> = BTreeSet::new();
        for (span, log) in spans {
            needed.extend(span.newest.iter().map(|name| &name[..]));
            let from = self.base(log, span.first).map_or(0, |base| base.last);
            let is_needed = |last: u64, is_base: bool| last > from || (is_base && last == from);
            let of_log = self.objects.iter().filter_map(|object| Some((object, object.last_of(log)?)));
            let of_log = of_log.filter(|(object, last)| is_needed(*last, object.after.is_none()));
            needed.extend(of_log.map(|(object, _)| &object.name[..]));
        }
        if spans.is_empty() {
            return Vec::new();
        }
        let mut others: Vec<_> = self.objects.iter().filter(|object| !needed.contains(&object.name[..])).collect();
        others.sort_by_key(|object| (object.after.is_some(), object.epoch, object.last));
        others.into_iter().map(|object| object.name.clone()).collect()
    }

    /// Whether objects were removed.
    pub fn is_pruned(&self) -> bool {
        self.since > 0
    }
}

/// The beginning of the names of horizons.
const HORIZON: &str = "since/";

/// The time from which on all states of an archive are there, written before older objects are removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveHorizon {
    /// In seconds since 1970.
    pub since: u64,
    /// The files of bases that no base has named, each with the time of the look that found it first: their base may be
    /// on its way.
    pub unnamed: Vec<(String, u64)>,
}

impl ArchiveHorizon {
    /// Its object's name.
    pub fn name(&self) -> String {
        format!("{HORIZON}{:020}", self.since)
    }

    /// The time of a horizon with this name.
    pub fn time_of(name: &str) -> Option<u64> {
        name.strip_prefix(HORIZON)?.parse().ok()
    }

    /// Its object's content.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = begin(FORM);
        writeln!(text, "since {}", self.since).expect("text grows");
        for (name, time) in &self.unnamed {
            writeln!(text, "unnamed {name} {time}").expect("text grows");
        }
        sealed(text.into_bytes())
    }

    /// Reads an object.
    ///
    /// # Errors
    /// It is none, or is damaged.
    pub fn decode(bytes: &[u8]) -> Result<ArchiveHorizon, NotUnderstood> {
        let mut lines = Lines::of(text(unsealed(bytes)?)?, FORM)?;
        let mut read = || {
            let (since, mut unnamed) = (lines.number("since")?, Vec::new());
            while let Some(words) = lines.next("unnamed") {
                let [name, time] = words[..] else { return None };
                unnamed.push((name.to_owned(), time.parse().ok()?));
            }
            Some(ArchiveHorizon { since, unnamed })
        };
        read().ok_or(NotUnderstood::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::super::archive::{ArchivedRecords, Restoration, name_of_base};
    use super::super::message::Offer;
    use super::*;
    use vicus_disk::EpochStart;

    /// Numbers by chance, of xorshift.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }

    fn log(epochs: &[EpochStart], last: u64) -> CopyStanding {
        let epochs = epochs.to_vec();
        CopyStanding { store: 7, copy: 1, follows: false, promised: Epoch::default(), epochs, last }.up_to(last)
    }

    /// An archive by chance: its objects' names with their logs. A new epoch begins at a record by chance, so that
    /// objects of the one before have records that are no part of it.
    fn archive(chance: &mut Chance) -> BTreeMap<String, CopyStanding> {
        let (mut objects, mut epochs) = (BTreeMap::new(), Vec::<EpochStart>::new());
        let (mut last, mut sent, mut time) = (0_u64, 0, 100);
        for _ in 0..chance.below(40) {
            time += chance.below(20);
            match chance.below(8) {
                0 => {
                    let least = epochs.last().map_or(0, |start| start.first);
                    last = last.min(least + chance.below(last.saturating_sub(least) + 1)) + 1;
                    sent = sent.min(last - 1);
                    let number = epochs.len() as u64 + 1;
                    epochs.push(EpochStart { epoch: Epoch { number, by: 5 }, first: last });
                    if epochs.len() > 1 && epochs[epochs.len() - 2].first >= last {
                        epochs.pop();
                    }
                }
                1 if last > 0 => {
                    let included = last - chance.below(last.min(3));
                    let (from, files) = (log(&epochs, last), Vec::new());
                    objects.insert(name_of_base(&Offer { from, included, files }, time), log(&epochs, included));
                }
                2..5 => last += chance.below(5),
                _ if sent < last => {
                    let records = vec![Vec::new(); (last - sent) as usize];
                    let from = log(&epochs, last);
                    let name = ArchivedRecords { from: from.clone(), after: sent, records }.name(time);
                    objects.insert(name, from);
                    sent = last;
                }
                _ => {}
            }
        }
        objects
    }

    fn list<'a>(names: impl IntoIterator<Item = &'a String>) -> ArchiveList {
        ArchiveList::of(names.into_iter().map(|name| &name[..]))
    }

    /// The object that is the newest at a time, and what its state is made from.
    fn state(
        all: &ArchiveList,
        logs: &BTreeMap<String, CopyStanding>,
        time: u64,
    ) -> Option<(String, Option<Restoration>)> {
        let newest = all.newest(Until::Time(time)).ok()?.to_owned();
        let restoration = all.restoration(&logs[&newest], Until::Time(time)).ok();
        Some((newest, restoration))
    }

    #[test]
    fn states_within_the_span_are_made_from_the_same_objects_after_each_removal() {
        let seeds = option_env!("VICUS_SEEDS").map_or(300, |seeds| seeds.parse().expect("a number"));
        let mut removed = 0;
        for seed in 1..=seeds {
            let mut chance = Chance(u64::wrapping_mul(seed, 0x9E37_79B9_7F4A_7C15));
            let logs = archive(&mut chance);
            let mut names: BTreeSet<&String> = logs.keys().collect();
            let all = list(names.iter().copied());
            let since = 100 + chance.below(500);
            let spans: Vec<_> =
                all.spans(since).into_iter().map(|span| (span.clone(), logs[&span.name].clone())).collect();
            let unneeded = all.unneeded(&spans);
            removed += unneeded.len();
            let last = all.newest(Until::Last).ok().map(|name| logs[name].clone());
            // The records of the newest log that were its last one within the span, and those behind them.
            let first = last.as_ref().and_then(|last| spans.iter().find(|(_, log)| log.epoch() == last.epoch()));
            let records: Vec<u64> = first.map_or(Vec::new(), |(span, log)| (span.first..=log.last).collect());
            for gone in unneeded {
                names.remove(&gone);
                let left = list(names.iter().copied());
                for time in since..700 {
                    assert_eq!(state(&all, &logs, time), state(&left, &logs, time), "seed {seed}, {gone}, {time}");
                }
                for &record in &records {
                    let last = last.as_ref().expect("there are records");
                    let made = |list: &ArchiveList| list.restoration(last, Until::Record(record));
                    assert_eq!(made(&all), made(&left), "seed {seed}, {gone}, record {record}");
                }
            }
            let left = list(names.iter().copied());
            assert_eq!(left.unneeded(&spans), Vec::<String>::new(), "seed {seed}: once is enough");
        }
        assert!(removed > seeds as usize / 4, "{removed} objects of {seeds} archives");
    }

    #[test]
    fn a_base_is_the_first_state_behind_what_it_makes_needless() {
        let epochs: &[EpochStart] = &[];
        let base =
            |included, time| name_of_base(&Offer { from: log(epochs, included), included, files: Vec::new() }, time);
        let records = |after, last, time| {
            ArchivedRecords { from: log(epochs, last), after, records: vec![Vec::new(); (last - after) as usize] }
                .name(time)
        };
        let names = [base(1, 10), records(1, 5, 20), base(4, 25), records(5, 8, 30), base(8, 40), records(8, 9, 50)];
        let all = list(&names);
        let spans = all.spans(35);
        // At 35, record 8 was the last one, by records behind the base up to 4.
        assert_eq!(spans.len(), 1);
        assert_eq!((&spans[0].name, spans[0].first), (&names[5], 8));
        let spans = [(spans[0].clone(), log(epochs, 9))];
        assert_eq!(all.unneeded(&spans), [names[0].clone(), names[2].clone(), names[1].clone()]);
        assert_eq!(all.spans(9), [], "it begins later");
        let horizon = ArchiveHorizon { since: 35, unnamed: vec![("base/00000001-64-data".to_owned(), 7)] };
        assert_eq!(ArchiveHorizon::decode(&horizon.encode()), Ok(horizon.clone()));
        let left = [names[3].clone(), names[4].clone(), names[5].clone(), horizon.name()];
        let left = list(&left);
        assert_eq!(left.newest(Until::Time(34)), Err(super::super::NotArchived::Removed { since: 35 }));
        let older = left.restoration(&log(epochs, 9), Until::Record(6));
        assert_eq!(older, Err(super::super::NotArchived::Older { first: 8 }));
    }
}
