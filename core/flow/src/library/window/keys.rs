//! The groups with open windows.

use crate::library::HashKey;
use crate::{Grow, NoMemory};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Keys with numbers. A key without windows is forgotten, and its number used again.
pub(super) struct Keys {
    by: HashKey,
    /// By the hash of a key.
    numbers: BTreeMap<u64, SmallVec<[u32; 1]>>,
    keys: Vec<Key>,
    free: Vec<u32>,
    /// Bytes of all keys.
    key_bytes: usize,
}

struct Key {
    bytes: Box<[u8]>,
    /// By how many panes, sessions and closed windows it is used.
    uses: u32,
    /// How many rows have come; only for windows of rows, which keep it.
    rows: u64,
    /// Whether rows have come in the envelope at hand.
    is_touched: bool,
}

/// The bytes of a key beside its own.
const BESIDE: usize = size_of::<Key>() + 3 * size_of::<(u64, SmallVec<[u32; 1]>)>();

impl Keys {
    pub(super) fn new(by: HashKey) -> Keys {
        Keys { by, numbers: BTreeMap::new(), keys: Vec::new(), free: Vec::new(), key_bytes: 0 }
    }

    /// The number of a key.
    pub(super) fn number(&mut self, key: &[u8]) -> Result<u32, NoMemory> {
        let keys = &self.keys;
        let alike = self.numbers.entry(self.by.hash_string(key)).or_default();
        if let Some(&number) = alike.iter().find(|&&number| *keys[number as usize].bytes == *key) {
            return Ok(number);
        }
        let made = Key { bytes: key.into(), uses: 0, rows: 0, is_touched: false };
        let number = match self.free.pop() {
            Some(number) => {
                self.keys[number as usize] = made;
                number
            }
            None => {
                self.keys.grow(1)?;
                self.keys.push(made);
                u32::try_from(self.keys.len() - 1).map_err(|_| NoMemory { bytes: u64::MAX })?
            }
        };
        alike.push(number);
        self.key_bytes += key.len();
        Ok(number)
    }

    pub(super) fn bytes_of(&self, number: u32) -> &[u8] {
        &self.keys[number as usize].bytes
    }

    /// Notes a use more.
    pub(super) fn keep(&mut self, number: u32) {
        self.keys[number as usize].uses += 1;
    }

    /// Notes a use less.
    pub(super) fn release(&mut self, number: u32) {
        self.keys[number as usize].uses -= 1;
        self.release_if_unused(number);
    }

    /// Forgets a key that has no use, and no rows that count.
    pub(super) fn release_if_unused(&mut self, number: u32) {
        let key = &mut self.keys[number as usize];
        if key.uses == 0 && key.rows == 0 {
            let bytes = std::mem::take(&mut key.bytes);
            self.key_bytes -= bytes.len();
            let hash = self.by.hash_string(&bytes);
            if let Some(alike) = self.numbers.get_mut(&hash) {
                alike.retain(|one| *one != number);
                if alike.is_empty() {
                    self.numbers.remove(&hash);
                }
            }
            self.free.push(number);
        }
    }

    /// The number of a group's next row, and whether it is the first one in the envelope at hand.
    pub(super) fn next_row(&mut self, number: u32) -> (i128, bool) {
        let key = &mut self.keys[number as usize];
        key.rows += 1;
        (i128::from(key.rows - 1), !std::mem::replace(&mut key.is_touched, true))
    }

    /// The envelope is over. Gives how many rows the group has had.
    pub(super) fn untouch(&mut self, number: u32) -> i128 {
        self.keys[number as usize].is_touched = false;
        self.rows(number)
    }

    /// How many rows a group has had.
    pub(super) fn rows(&self, number: u32) -> i128 {
        self.keys[number as usize].rows.into()
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.key_bytes + self.keys.capacity() * BESIDE) as u64
    }
}
