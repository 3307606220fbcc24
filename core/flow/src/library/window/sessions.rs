//! Windows between pauses: each group has its own.

use super::keys::Keys;
use super::{Closed, Slots};
use crate::BoxError;
use std::collections::BTreeMap;

pub(super) struct Sessions {
    gap: i128,
    /// By key and start. Invariant: those of a key lie at least a gap apart.
    open: BTreeMap<(u32, i128), Session>,
    /// Their keys and starts by their ends.
    ends: BTreeMap<(i128, u32), i128>,
    /// Slots that were merged into others while an envelope's rows were dealt: from, into.
    merged: Vec<(u32, u32)>,
}

struct Session {
    /// A gap behind the last row.
    end: i128,
    slot: u32,
}

impl Sessions {
    pub(super) fn new(gap: i128) -> Sessions {
        Sessions { gap, open: BTreeMap::new(), ends: BTreeMap::new(), merged: Vec::new() }
    }

    /// The slot for a row; `None` if it is late: it would be a session that is over, and no open one takes it.
    pub(super) fn slot(
        &mut self,
        time: i128,
        key: u32,
        now: Option<i128>,
        keys: &mut Keys,
        slots: &mut Slots,
    ) -> Result<Option<u32>, BoxError> {
        let own_end = time + self.gap;
        let mut found: Vec<i128> = Vec::new();
        for (&(_, start), session) in self.open.range((key, i128::MIN)..(key, own_end)).rev() {
            if session.end <= time {
                break;
            }
            found.push(start);
        }
        let (mut start, mut end, mut slot) = (time, own_end, None);
        if found.is_empty() && now.is_some_and(|now| own_end <= now) {
            return Ok(None);
        }
        for other in found {
            let session = self.open.remove(&(key, other)).expect("it was found");
            self.ends.remove(&(session.end, key));
            (start, end) = (start.min(other), end.max(session.end));
            match slot {
                None => slot = Some(session.slot),
                Some(slot) => {
                    slots.merge(slot, session.slot)?;
                    self.merged.push((session.slot, slot));
                    keys.release(key);
                }
            }
        }
        let slot = match slot {
            Some(slot) => slot,
            None => {
                keys.keep(key);
                slots.begin()?
            }
        };
        self.open.insert((key, start), Session { end, slot });
        self.ends.insert((end, key), start);
        Ok(Some(slot))
    }

    /// All rows of an envelope have slots: those that were dealt to merged ones get the others.
    pub(super) fn settle(&mut self, groups: &mut [u32], slots: &mut Slots) -> Result<(), BoxError> {
        for &(from, into) in &self.merged {
            groups.iter_mut().filter(|group| **group == from).for_each(|group| *group = into);
        }
        for (from, _) in self.merged.drain(..) {
            slots.end(from)?;
        }
        Ok(())
    }

    /// Closes the next session that ends by then.
    pub(super) fn close(&mut self, until: i128) -> Option<Vec<Closed>> {
        let (&(end, key), &start) = self.ends.first_key_value()?;
        if end > until {
            return None;
        }
        self.ends.remove(&(end, key));
        let session = self.open.remove(&(key, start)).expect("its end was known");
        // The closed window uses the key in place of the session.
        Some(vec![Closed { start, end, key, slot: session.slot }])
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.open.len() * 2 * size_of::<((u32, i128), Session)>() + self.ends.len() * 64) as u64
    }
}
