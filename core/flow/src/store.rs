//! The values that columns in [`Storage::Dictionary`](crate::Storage::Dictionary) share.
//!
//! Bobox report 2011/1, §4.2, "indirect storage": a column has a number for each row, and a store has the values. While
//! columns have one store, equal numbers are equal values, and what is known of a value (its hash, its place in the
//! order) is computed once for each value instead of once for each row.

use crate::library::HashKey;
use crate::{Column, Grow, NoMemory};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Values, numbered from 0 on, and what is known of them.
pub(crate) struct Store {
    /// Texts or strings of bytes, without nulls.
    values: Column,
    /// The hash of each value by a key: the first one that asked.
    hashes: OnceLock<(HashKey, Box<[u64]>)>,
    /// The place of each value among all in order; equal values have one place.
    places: OnceLock<Box<[u32]>>,
}

/// The places of more values would take long to find for rows that are few.
const MOST_PLACES: usize = 1 << 16;

impl Store {
    pub(crate) fn new(values: Column) -> Store {
        Store { values, hashes: OnceLock::new(), places: OnceLock::new() }
    }

    pub(crate) fn values(&self) -> &Column {
        &self.values
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// The bytes of memory of the values.
    pub(crate) fn bytes(&self) -> u64 {
        self.values.bytes()
    }

    /// A value; empty for a number without one, which a null may have.
    #[inline]
    pub(crate) fn string(&self, code: u32) -> &[u8] {
        if (code as usize) < self.values.len() { self.values.string(code as usize) } else { &[] }
    }

    /// Whether two stores are one, or have their values in one memory.
    pub(crate) fn is(self: &Arc<Store>, other: &Arc<Store>) -> bool {
        Arc::ptr_eq(self, other) || self.values.is_same(&other.values)
    }

    /// The hash of each value, if they are known by this key, or can be in no more time than those of so many rows
    /// take.
    pub(crate) fn hashes(&self, by: HashKey, rows: usize) -> Result<Option<&[u64]>, NoMemory> {
        if self.hashes.get().is_none() {
            if self.len() > 2 * rows {
                return Ok(None);
            }
            let mut hashes: Vec<u64> = Vec::with_room(self.len())?;
            hashes.extend((0..self.len()).map(|code| by.hash_string(self.values.string(code))));
            // Another box may have been first, with the same key or another one.
            let _ = self.hashes.set((by, hashes.into()));
        }
        Ok(self.hashes.get().filter(|(key, _)| *key == by).map(|(_, hashes)| &hashes[..]))
    }

    fn places(&self) -> Result<&[u32], NoMemory> {
        if let Some(places) = self.places.get() {
            return Ok(places);
        }
        let mut order: Vec<u32> = Vec::with_room(self.len())?;
        order.extend(0..self.len() as u32);
        order.sort_unstable_by(|&a, &b| self.string(a).cmp(self.string(b)));
        let mut places = Vec::<u32>::zeroed(self.len())?;
        let mut place = 0;
        for (at, &code) in order.iter().enumerate() {
            if at > 0 && self.string(order[at - 1]) != self.string(code) {
                place += 1;
            }
            places[code as usize] = place;
        }
        Ok(self.places.get_or_init(|| places.into()))
    }

    /// Orders two values by their places; by their bytes, if there are many, or no memory for these.
    pub(crate) fn order(&self, a: u32, b: u32) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        if self.len() > MOST_PLACES {
            return self.string(a).cmp(self.string(b));
        }
        match self.places() {
            Ok(places) if (a as usize) < places.len() && (b as usize) < places.len() => {
                places[a as usize].cmp(&places[b as usize])
            }
            _ => self.string(a).cmp(self.string(b)),
        }
    }

    /// Whether no two values are equal, so that different numbers are different values. `false` for many values as
    /// well.
    pub(crate) fn is_distinct(&self) -> Result<bool, NoMemory> {
        if self.len() > MOST_PLACES {
            return Ok(false);
        }
        // The last place is one less than the number of different values.
        let last = self.places()?.iter().max();
        Ok(last.is_none_or(|&last| last as usize + 1 == self.len()))
    }
}

/// Numbers of several stores, made those of one. The first store's numbers stay.
#[derive(Default)]
pub(crate) struct Unified {
    /// With the numbers here of its values, [`NONE`] for those that have not been asked for. No numbers for the first
    /// one, whose values have the same numbers here.
    seen: Vec<(Arc<Store>, Vec<u32>)>,
    /// The numbers of all values; empty as long as there is one store alone.
    numbers: BTreeMap<Box<[u8]>, u32>,
    /// The values behind those of the first store, in order.
    further: Vec<Box<[u8]>>,
    /// The first store's values are in `numbers`.
    is_counted: bool,
    /// Bytes of memory of all this, and of the stores, about.
    bytes: usize,
    /// The store of all numbers when there were so many.
    made: Option<(usize, Arc<Store>)>,
}

/// No number yet.
const NONE: u32 = u32::MAX;

/// About what an entry of a map takes beside its bytes.
const ENTRY: usize = 64;

impl Unified {
    /// Numbers of values alone, without a first store.
    pub(crate) fn of_values() -> Unified {
        Unified { is_counted: true, ..Unified::default() }
    }

    /// The place of a store among those that have been seen.
    fn place(&self, store: &Arc<Store>) -> Option<usize> {
        match self.seen.last() {
            Some((last, _)) if Arc::ptr_eq(last, store) => Some(self.seen.len() - 1),
            _ => self.seen.iter().position(|(seen, _)| seen.is(store)),
        }
    }

    /// The number here of a store's value, if it has one.
    pub(crate) fn find(&mut self, store: &Arc<Store>, code: u32) -> Option<u32> {
        let known = self.place(store).map(|place| self.seen[place].1.get(code as usize).copied().unwrap_or(code));
        known.filter(|&known| known != NONE).or_else(|| self.find_value(store.string(code)))
    }

    /// The number here of a value, if it has one.
    pub(crate) fn find_value(&mut self, value: &[u8]) -> Option<u32> {
        self.count_first();
        self.numbers.get(value).copied()
    }

    /// The number here of a store's value.
    pub(crate) fn code(&mut self, store: &Arc<Store>, code: u32) -> u32 {
        let place = self.place(store).unwrap_or_else(|| {
            let is_first = self.seen.is_empty() && !self.is_counted;
            let codes = if is_first { Vec::new() } else { vec![NONE; store.len()] };
            self.bytes += 4 * codes.len() + store.bytes() as usize;
            self.seen.push((Arc::clone(store), codes));
            self.seen.len() - 1
        });
        let Some(&known) = self.seen[place].1.get(code as usize) else { return code };
        if known != NONE {
            return known;
        }
        let number = self.number(store.string(code));
        self.seen[place].1[code as usize] = number;
        number
    }

    /// Puts the first store's values among the numbered ones.
    fn count_first(&mut self) {
        if std::mem::replace(&mut self.is_counted, true) {
            return;
        }
        if let Some((first, _)) = self.seen.first() {
            for code in 0..first.len() as u32 {
                let value = first.string(code);
                self.bytes += value.len() + ENTRY;
                self.numbers.entry(value.into()).or_insert(code);
            }
        }
    }

    /// The number here of a value.
    pub(crate) fn number(&mut self, value: &[u8]) -> u32 {
        self.count_first();
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        let number = self.len() as u32;
        self.bytes += 2 * (value.len() + ENTRY);
        self.numbers.insert(value.into(), number);
        self.further.push(value.into());
        number
    }

    /// The store whose numbers stayed, if there is one.
    fn first(&self) -> Option<&Arc<Store>> {
        self.seen.first().filter(|(_, codes)| codes.is_empty()).map(|(store, _)| store)
    }

    /// The one store whose numbers stayed, if no value is of another.
    pub(crate) fn only_store(&self) -> Option<&Arc<Store>> {
        self.first().filter(|_| self.seen.len() == 1 && self.further.is_empty())
    }

    /// How many values have a number.
    pub(crate) fn len(&self) -> usize {
        self.first().map_or(0, |store| store.len()) + self.further.len()
    }

    /// A number's value.
    pub(crate) fn string(&self, number: u32) -> &[u8] {
        let first = self.first().map_or(0, |store| store.len());
        match (number as usize).checked_sub(first) {
            Some(further) => self.further.get(further).map_or(&[], |value| value),
            None => self.first().map_or(&[], |store| store.string(number)),
        }
    }

    /// The bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The store of all numbers: the first one if there is no further value.
    pub(crate) fn store(&mut self, kind: &crate::Type) -> Arc<Store> {
        if let Some(first) = self.first().filter(|_| self.further.is_empty()) {
            return Arc::clone(first);
        }
        if let Some((_, made)) = self.made.as_ref().filter(|(count, _)| *count == self.len()) {
            return Arc::clone(made);
        }
        let all = (0..self.len() as u32).map(|number| self.string(number));
        let values = match kind {
            crate::Type::Text => all.map(|text| str::from_utf8(text).expect("texts have come from texts")).collect(),
            _ => Column::of_binaries(all),
        };
        let made = Arc::new(Store::new(values));
        self.made = Some((self.len(), Arc::clone(&made)));
        made
    }
}

impl std::fmt::Debug for Unified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} values of {} stores", self.len(), self.seen.len())
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} values", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Type;

    fn store(values: &[&str]) -> Arc<Store> {
        Arc::new(Store::new(values.iter().collect()))
    }

    #[test]
    fn numbers_of_several_stores_are_those_of_one() {
        let (first, second) = (store(&["b", "a", "b"]), store(&["c", "a", "d"]));
        let mut unified = Unified::default();
        assert_eq!([0, 1, 2].map(|code| unified.code(&first, code)), [0, 1, 2], "the first one's numbers stay");
        assert!(Arc::ptr_eq(&unified.store(&Type::Text), &first));
        assert_eq!([2, 1, 2].map(|code| unified.code(&second, code)), [3, 1, 3]);
        assert_eq!((unified.number(b"b"), unified.number(b"new")), (0, 4));
        let all = unified.store(&Type::Text);
        assert!(all.values().texts().eq(["b", "a", "b", "d", "new"]));
        assert_eq!(
            (unified.find(&second, 2), unified.find(&store(&["new"]), 0), unified.find_value(b"x")),
            (Some(3), Some(4), None)
        );
        let mut values = Unified::of_values();
        assert_eq!((values.code(&first, 2), values.number(b"a"), values.code(&first, 0)), (0, 1, 0), "equal values");
        assert!(values.store(&Type::Binary).values().binaries().eq([b"b", b"a"]));
    }

    #[test]
    fn a_store_knows_the_order_of_its_values() {
        let all = store(&["b", "a", "b", "", "ab"]);
        for a in 0..5 {
            for b in 0..5 {
                assert_eq!(all.order(a, b), all.string(a).cmp(all.string(b)), "{a} and {b}");
            }
        }
        assert_eq!((all.is_distinct(), store(&["b", "a"]).is_distinct()), (Ok(false), Ok(true)));
        assert_eq!(store(&[]).is_distinct(), Ok(true));
    }
}
