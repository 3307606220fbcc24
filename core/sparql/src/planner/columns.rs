//! The columns of an operator, found by slot.

use crate::algebra::Slot;
use std::ops::Deref;
use std::sync::OnceLock;

/// From this many columns on, their places are sorted by slot at the first lookup.
const MANY: usize = 32;

/// The slot of each column of an operator's envelopes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    slots: Vec<Slot>,
    /// If there are many columns: their places, in the order of the slots.
    by_slot: OnceLock<Vec<u32>>,
}

impl Columns {
    /// The place of a slot's column.
    pub(crate) fn place(&self, slot: Slot) -> Option<usize> {
        if self.slots.len() < MANY {
            return self.slots.iter().position(|other| *other == slot);
        }
        let by_slot = self.by_slot.get_or_init(|| {
            let mut places: Vec<u32> = (0..self.slots.len() as u32).collect();
            places.sort_by_key(|&place| self.slots[place as usize]);
            places
        });
        let first = by_slot.partition_point(|&place| self.slots[place as usize] < slot);
        by_slot.get(first).map(|&place| place as usize).filter(|&place| self.slots[place] == slot)
    }

    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.place(slot).is_some()
    }
}

impl Deref for Columns {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.slots
    }
}

impl From<Vec<Slot>> for Columns {
    fn from(slots: Vec<Slot>) -> Columns {
        Columns { slots, by_slot: OnceLock::new() }
    }
}

impl FromIterator<Slot> for Columns {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Columns {
        Columns::from(slots.into_iter().collect::<Vec<Slot>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_column_of_a_slot_is_found_among_few_and_many() {
        for count in [0, 1, 5, MANY - 1, MANY, 100] {
            let slots: Vec<Slot> = (0..count).map(|number| Slot(number * 7 % 50)).collect();
            let columns = Columns::from(slots.clone());
            for slot in (0..60).map(Slot) {
                assert_eq!(columns.place(slot), slots.iter().position(|other| *other == slot), "{count}: {slot:?}");
            }
        }
    }
}
