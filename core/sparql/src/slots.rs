//! Sets of slots and maps by slot, as ascending lists.
//!
//! Planning makes and copies many of them. Nearly all are short, and short lists need no allocation.

use crate::algebra::Slot;
use smallvec::SmallVec;

/// Lists up to this length need no allocation.
const SHORT: usize = 8;

/// A set of slots, ascending.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Slots(SmallVec<[Slot; SHORT]>);

impl Slots {
    pub(crate) fn new() -> Slots {
        Slots::default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Slot> {
        self.0.iter()
    }

    pub(crate) fn contains(&self, slot: &Slot) -> bool {
        self.0.binary_search(slot).is_ok()
    }

    /// Adds a slot; true if it was new.
    pub(crate) fn insert(&mut self, slot: Slot) -> bool {
        let place = self.0.binary_search(&slot);
        if let Err(place) = place {
            self.0.insert(place, slot);
        }
        place.is_err()
    }

    /// Removes a slot; true if it was there.
    pub(crate) fn remove(&mut self, slot: &Slot) -> bool {
        let place = self.0.binary_search(slot);
        if let Ok(place) = place {
            self.0.remove(place);
        }
        place.is_ok()
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Slot) -> bool) {
        self.0.retain(|slot| keep(slot));
    }

    pub(crate) fn intersection<'a>(&'a self, other: &'a Slots) -> impl Iterator<Item = &'a Slot> {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        // The search gallops from the last hit, because the next common slot is usually near.
        let mut rest = &many.0[..];
        few.iter().filter(move |slot| {
            let mut end = 1;
            while end < rest.len() && rest[end] < **slot {
                end *= 2;
            }
            let from = end / 2;
            let place = from + rest[from..rest.len().min(end + 1)].partition_point(|other| other < slot);
            rest = &rest[place..];
            rest.first() == Some(slot)
        })
    }

    pub(crate) fn is_subset(&self, other: &Slots) -> bool {
        self.0.len() <= other.0.len() && self.iter().all(|slot| other.contains(slot))
    }

    pub(crate) fn is_disjoint(&self, other: &Slots) -> bool {
        self.intersection(other).next().is_none()
    }
}

impl Extend<Slot> for Slots {
    fn extend<I: IntoIterator<Item = Slot>>(&mut self, slots: I) {
        let before = self.0.len();
        self.0.extend(slots);
        if self.0[before.saturating_sub(1)..].is_sorted_by(|a, b| a < b) {
            return;
        }
        if (self.0.len() - before) * 16 < before {
            // A few slots are inserted one by one; most of them are there already.
            let few: Vec<Slot> = self.0.drain(before..).collect();
            few.into_iter().for_each(|slot| _ = self.insert(slot));
            return;
        }
        // Usually two ascending runs, which sorting merges.
        self.0.sort();
        self.0.dedup();
    }
}

impl<'a> Extend<&'a Slot> for Slots {
    fn extend<I: IntoIterator<Item = &'a Slot>>(&mut self, slots: I) {
        self.extend(slots.into_iter().copied());
    }
}

impl FromIterator<Slot> for Slots {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Slots {
        let mut made = Slots::new();
        made.extend(slots);
        made
    }
}

impl IntoIterator for Slots {
    type Item = Slot;
    type IntoIter = smallvec::IntoIter<[Slot; SHORT]>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Slots {
    type Item = &'a Slot;
    type IntoIter = std::slice::Iter<'a, Slot>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A map by slot, ascending.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BySlot<V>(SmallVec<[(Slot, V); SHORT]>);

impl<V> Default for BySlot<V> {
    fn default() -> BySlot<V> {
        BySlot(SmallVec::new())
    }
}

impl<V> BySlot<V> {
    fn place(&self, slot: &Slot) -> Result<usize, usize> {
        self.0.binary_search_by_key(slot, |(slot, _)| *slot)
    }

    pub(crate) fn get(&self, slot: &Slot) -> Option<&V> {
        self.place(slot).ok().map(|place| &self.0[place].1)
    }

    pub(crate) fn get_mut(&mut self, slot: &Slot) -> Option<&mut V> {
        self.place(slot).ok().map(|place| &mut self.0[place].1)
    }

    pub(crate) fn contains_key(&self, slot: &Slot) -> bool {
        self.place(slot).is_ok()
    }

    /// Adds a value, or replaces the slot's value.
    pub(crate) fn insert(&mut self, slot: Slot, value: V) {
        match self.place(&slot) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => self.0.insert(place, (slot, value)),
        }
    }

    /// Adds a value, unless the slot has one.
    pub(crate) fn or_insert(&mut self, slot: Slot, value: V) {
        if let Err(place) = self.place(&slot) {
            self.0.insert(place, (slot, value));
        }
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Slot) -> bool) {
        self.0.retain(|(slot, _)| keep(*slot));
    }

    pub(crate) fn retain_values(&mut self, mut keep: impl FnMut(&V) -> bool) {
        self.0.retain(|(_, value)| keep(value));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &V)> {
        self.0.iter().map(|(slot, value)| (*slot, value))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut V)> {
        self.0.iter_mut().map(|(slot, value)| (*slot, value))
    }
}

impl<V: Copy> BySlot<V> {
    /// Adds the values of another map; `both` combines them where both have the slot. Takes time linear in both sizes;
    /// inserting one by one would move many values for each.
    pub(crate) fn merge(&mut self, other: &BySlot<V>, mut both: impl FnMut(&mut V, &V)) {
        if other.0.len() <= SHORT {
            for (slot, value) in &other.0 {
                match self.place(slot) {
                    Ok(place) => both(&mut self.0[place].1, value),
                    Err(place) => self.0.insert(place, (*slot, *value)),
                }
            }
            return;
        }
        let mut ours = std::mem::take(&mut self.0).into_iter().peekable();
        self.0.reserve(ours.len() + other.0.len());
        for (slot, value) in &other.0 {
            while let Some(before) = ours.next_if(|(our, _)| our < slot) {
                self.0.push(before);
            }
            match ours.next_if(|(our, _)| our == slot) {
                Some((_, mut old)) => {
                    both(&mut old, value);
                    self.0.push((*slot, old));
                }
                None => self.0.push((*slot, *value)),
            }
        }
        self.0.extend(ours);
    }
}

impl<V> FromIterator<(Slot, V)> for BySlot<V> {
    fn from_iter<I: IntoIterator<Item = (Slot, V)>>(values: I) -> BySlot<V> {
        let mut made = BySlot(values.into_iter().collect());
        made.0.sort_by_key(|(slot, _)| *slot);
        made.0.dedup_by_key(|(slot, _)| *slot);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_list_of_slots_is_a_set_and_a_map() {
        let mut state = 3u64;
        let mut next = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Slot((state >> 33) as usize % end as usize)
        };
        for round in 0..500 {
            let (mut ours, mut theirs) = (Slots::new(), BTreeSet::new());
            let (mut our_map, mut their_map) = (BySlot::default(), BTreeMap::new());
            for step in 0..20 {
                let slot = next(12);
                match step % 4 {
                    0 => assert_eq!(ours.insert(slot), theirs.insert(slot)),
                    1 => assert_eq!(ours.remove(&slot), theirs.remove(&slot)),
                    2 => {
                        let more = [next(12), next(12), slot];
                        ours.extend(&more);
                        theirs.extend(&more);
                    }
                    _ => {
                        our_map.insert(slot, (round, step));
                        their_map.insert(slot, (round, step));
                        our_map.or_insert(Slot(3), (0, 0));
                        their_map.entry(Slot(3)).or_insert((0, 0));
                    }
                }
                assert!(ours.iter().eq(&theirs) && ours.contains(&slot) == theirs.contains(&slot));
                assert_eq!(our_map.get(&slot), their_map.get(&slot));
            }
            assert!(our_map.iter().eq(their_map.iter().map(|(slot, value)| (*slot, value))));
            // Short and long lists.
            for count in [3, 30] {
                let more: BTreeMap<Slot, (u64, u64)> = (0..count).map(|n| (next(40), (round, n))).collect();
                let ours: BySlot<(u64, u64)> = more.iter().map(|(slot, value)| (*slot, *value)).collect();
                our_map.merge(&ours, |old, new| old.1 += 100 * new.1);
                for (slot, value) in more {
                    their_map.entry(slot).and_modify(|old| old.1 += 100 * value.1).or_insert(value);
                }
                assert!(our_map.iter().eq(their_map.iter().map(|(slot, value)| (*slot, value))));
            }
            let other: Slots = (0..4).map(|_| next(12)).collect();
            let their_other: BTreeSet<Slot> = other.iter().copied().collect();
            assert!(ours.intersection(&other).collect::<BTreeSet<_>>() == theirs.intersection(&their_other).collect());
            assert_eq!(other.is_subset(&ours), their_other.is_subset(&theirs));
            assert_eq!(ours.is_disjoint(&other), theirs.is_disjoint(&their_other));
        }
    }
}
