//! Windows of one width at equal distances. Each is put together from panes, which several windows share: a row is
//! folded once.

use super::keys::Keys;
use super::{Closed, Slots, divisor};
use crate::BoxError;
use std::collections::BTreeMap;

pub(super) struct Panes {
    width: i128,
    slide: i128,
    /// The width of a pane: it divides both.
    pane: i128,
    /// Whether each key has its own windows, of its rows.
    is_per_key: bool,
    /// The slots by the number of the pane and the key; with windows for each key, by the key first.
    slots: BTreeMap<(i128, i128), u32>,
    /// The first window that has not been closed; for windows of rows, of each key.
    next: BTreeMap<u32, i128>,
}

/// In place of a key, for windows that all keys share.
const ALL: u32 = u32::MAX;

impl Panes {
    pub(super) fn new(width: i128, slide: i128, is_per_key: bool) -> Panes {
        let pane = divisor(width, slide);
        Panes { width, slide, pane, is_per_key, slots: BTreeMap::new(), next: BTreeMap::new() }
    }

    /// The end of the last window with this time.
    pub(super) fn last_end(&self, time: i128) -> i128 {
        time.div_euclid(self.slide) * self.slide + self.width
    }

    /// The slot for a row: of its time, or of its number among those of its key.
    pub(super) fn slot(&mut self, time: i128, key: u32, keys: &mut Keys, slots: &mut Slots) -> Result<u32, BoxError> {
        let pane = time.div_euclid(self.pane);
        let place = if self.is_per_key { (key.into(), pane) } else { (pane, key.into()) };
        if let Some(&slot) = self.slots.get(&place) {
            return Ok(slot);
        }
        let slot = slots.begin()?;
        keys.keep(key);
        self.slots.insert(place, slot);
        Ok(slot)
    }

    /// Closes the next window that ends by then: of a key, whose rows are numbered, or of all. `room` is asked for the
    /// bytes that this takes meanwhile.
    pub(super) fn close(
        &mut self,
        until: i128,
        key: Option<u32>,
        keys: &mut Keys,
        slots: &mut Slots,
        room: &dyn Fn(u64) -> Result<(), BoxError>,
    ) -> Result<Option<Vec<Closed>>, BoxError> {
        // Rows are counted from 0.
        let next = self.next.get(&key.unwrap_or(ALL)).copied().or(key.map(|_| 0));
        let closed = match self.first(key) {
            None => None,
            Some(pane) => {
                // The first window with the first pane.
                let first = (pane * self.pane - self.width).div_euclid(self.slide) + 1;
                let window = next.map_or(first, |next| first.max(next));
                let end = window.saturating_mul(self.slide).saturating_add(self.width);
                if end <= until { Some(self.take(window, key, i128::MAX, keys, slots, room)?) } else { None }
            }
        };
        if closed.is_none() && key.is_none() && until < i128::MAX {
            // Windows without rows are over as well: a late row does not open them again.
            let over = until.saturating_sub(self.width).div_euclid(self.slide) + 1;
            let next = self.next.entry(ALL).or_insert(over);
            *next = (*next).max(over);
        }
        Ok(closed)
    }

    /// Closes the next window of rows that did not become full.
    pub(super) fn close_rest(
        &mut self,
        keys: &mut Keys,
        slots: &mut Slots,
        room: &dyn Fn(u64) -> Result<(), BoxError>,
    ) -> Result<Option<Vec<Closed>>, BoxError> {
        let Some((&(key, pane), _)) = self.slots.first_key_value() else { return Ok(None) };
        let key = key as u32;
        let first = (pane * self.pane - self.width).div_euclid(self.slide) + 1;
        let window = first.max(self.next.get(&key).copied().unwrap_or(0)).max(0);
        self.take(window, Some(key), keys.rows(key), keys, slots, room).map(Some)
    }

    /// The first pane.
    fn first(&self, key: Option<u32>) -> Option<i128> {
        match key {
            None => self.slots.first_key_value().map(|(&(pane, _), _)| pane),
            Some(key) => {
                let key = i128::from(key);
                self.slots.range((key, i128::MIN)..=(key, i128::MAX)).next().map(|(&(_, pane), _)| pane)
            }
        }
    }

    /// Takes a window's rows: those of panes that later windows need are copied.
    fn take(
        &mut self,
        window: i128,
        key: Option<u32>,
        most: i128,
        keys: &mut Keys,
        slots: &mut Slots,
        room: &dyn Fn(u64) -> Result<(), BoxError>,
    ) -> Result<Vec<Closed>, BoxError> {
        let (start, end) = (window * self.slide, window * self.slide + self.width);
        // Panes before this one are in no later window.
        let kept = (start + self.slide).div_euclid(self.pane);
        let (from, to) = (start.div_euclid(self.pane), end.div_euclid(self.pane));
        let places = match key {
            None => (from, 0)..(to, 0),
            Some(key) => (i128::from(key), from)..(i128::from(key), to),
        };
        // The panes, and the windows by their keys, twice.
        const EACH: usize = size_of::<((i128, i128), u32)>() + size_of::<Closed>() + 4 * size_of::<(u32, u32)>();
        room((self.slots.range(places.clone()).count() * EACH) as u64)?;
        let panes: Vec<((i128, i128), u32)> = self.slots.range(places).map(|(place, slot)| (*place, *slot)).collect();
        let mut made: BTreeMap<u32, u32> = BTreeMap::new();
        for (place, slot) in panes {
            let (pane, number) = match key {
                None => (place.0, place.1 as u32),
                Some(key) => (place.1, key),
            };
            let is_last = pane < kept;
            let into = match made.get(&number) {
                Some(&into) => {
                    slots.merge(into, slot)?;
                    into
                }
                // A pane that is over becomes the window.
                None if is_last => slot,
                None => {
                    let into = slots.begin()?;
                    slots.merge(into, slot)?;
                    into
                }
            };
            if made.insert(number, into).is_none() {
                keys.keep(number);
            }
            if is_last {
                self.slots.remove(&place);
                if into != slot {
                    slots.end(slot)?;
                }
                keys.release(number);
            }
        }
        self.next.insert(key.unwrap_or(ALL), window + 1);
        let closed = |(key, slot)| Closed { start, end: end.min(most), key, slot };
        Ok(made.into_iter().map(closed).collect())
    }

    pub(super) fn bytes(&self) -> u64 {
        ((self.slots.len() * 2 * size_of::<((i128, i128), u32)>()) + self.next.len() * 64) as u64
    }
}
