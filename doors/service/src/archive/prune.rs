//! Removes what an archive needs for no state within a span of time.
//!
//! The horizon is written first, then bases go, the records, and at last the files that no base names: a process that
//! ends in the middle leaves objects that the next one removes. Which objects may go is decided in core/store, from
//! their names.

use super::{Archive, ArchiveError, Told, given_up, now, object, of};
use std::collections::BTreeSet;
use std::time::Duration;
use vicus_store::{ArchiveHorizon, ArchiveList, NotUnderstood, base_of_archive, name_of_base_file};

/// A file that no base names goes when it was found first this long ago: another process may still be sending its base.
const UNNAMED_SECONDS: u64 = 24 * 60 * 60;

/// The outcome of removing objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many were removed.
    pub objects: usize,
    /// From this time on, in seconds since 1970, all states can be made again.
    pub since: u64,
}

impl Archive {
    /// Removes the objects that no state needs which was the last one at some time of this span, up to now. All these
    /// states, and the records between them, can be made again as before.
    ///
    /// # Errors
    /// There is no archive, an object is damaged, or the place can't be reached, or refuses. What was removed until
    /// then was not needed either.
    pub fn prune(&self, keep: Duration, told: &mut Told<'_>) -> Result<Pruned, ArchiveError> {
        let now = now();
        self.prune_at(now.saturating_sub(keep.as_secs()), now, told)
    }

    fn prune_at(&self, since: u64, now: u64, told: &mut Told<'_>) -> Result<Pruned, ArchiveError> {
        let number = self.store()?.ok_or(ArchiveError::None)?;
        let names = self.list()?;
        let list = ArchiveList::of(names.iter().map(|name| &name[..]));
        let mut spans = Vec::new();
        for span in list.spans(since) {
            let log = self.log_of(&span.name)?;
            if log.store != number {
                return Err(object(&span.name, NotUnderstood::Damaged));
            }
            spans.push((span, log));
        }
        let mut unneeded = list.unneeded(&spans);
        let horizons: Vec<&String> = names.iter().filter(|name| ArchiveHorizon::time_of(name).is_some()).collect();
        let mut before = ArchiveHorizon::default();
        for name in &horizons {
            let horizon = ArchiveHorizon::decode(&self.needed(name)?).map_err(|why| object(name, why))?;
            before.since = before.since.max(horizon.since);
            before.unnamed.extend(horizon.unnamed);
        }
        // Files are named by the bases that stay, or by those that go now; others may be on their way.
        let (mut named, mut gone) = (BTreeSet::new(), BTreeSet::new());
        for name in names.iter().filter(|name| name.starts_with("bases/")) {
            let files = if unneeded.contains(name) { &mut gone } else { &mut named };
            let offer = self.needed(name).map(|bytes| base_of_archive(&bytes));
            match offer {
                Ok(Ok(offer)) => files.extend(offer.files.iter().map(name_of_base_file)),
                Ok(Err(why)) if !unneeded.contains(name) => return Err(object(name, why)),
                Err(error) if !unneeded.contains(name) => return Err(error),
                _ => {}
            }
        }
        let mut unnamed = Vec::new();
        for name in names.iter().filter(|name| name.starts_with("base/") && !named.contains(*name)) {
            let known = before.unnamed.iter().filter(|(known, _)| known == name).map(|(_, time)| *time).min();
            let found = known.unwrap_or(now);
            if gone.contains(name) || now.saturating_sub(found) >= UNNAMED_SECONDS {
                unneeded.push(name.clone());
            } else {
                unnamed.push((name.clone(), found));
            }
        }
        let since = if unneeded.is_empty() || spans.is_empty() { before.since } else { since.max(before.since) };
        let horizon = ArchiveHorizon { since, unnamed };
        if !unneeded.is_empty() || horizon.unnamed != before.unnamed {
            self.put(&horizon.name(), &horizon.encode())?;
            unneeded.extend(horizons.into_iter().filter(|name| **name != horizon.name()).cloned());
        }
        for name in &unneeded {
            self.objects.remove(name).map_err(|error| of(format!("removing object {name}"), error))?;
            given_up(told(0, 0))?;
        }
        Ok(Pruned { objects: unneeded.len(), since })
    }
}
