//! The hash of rows: the same one for dealing them and for hash tables over the dealt rows.

use crate::native::by_form;
use crate::types::Form;
use crate::{Column, Envelope, Grow, Native, NoMemory};
use std::hash::{BuildHasher, Hasher};

/// The key of a hash. An author of data or of a query could choose many values with one hash and so turn a hash table
/// into a list, but can't without knowing the key. It is a plain value: a door with untrusted users draws a random
/// seed, and the same seed gives the same hashes.
///
/// A value is multiplied by an odd number, and the high half of the product folded into the low one: Knuth, TAOCP 3,
/// §6.4, and Yi's wyhash. As a [`BuildHasher`], it makes hash maps of ids.
///
/// ```
/// use vicus_flow::library::HashKey;
/// let (key, other) = (HashKey::of_seed(1), HashKey::of_seed(2));
/// assert_ne!(key.mix(7), other.mix(7));
/// assert_eq!(key.hash([7, 8]), HashKey::of_seed(1).hash([7, 8]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey {
    /// Added to a value without carries, so no value is known to be zero.
    mask: u64,
    /// Invariant: odd.
    multiplier: u64,
}

/// The bytes of a hash table with room for so many entries: of eight places, seven are used at most, and each has a
/// byte beside its entry.
///
/// ```
/// let table: std::collections::HashMap<u64, u64> = std::collections::HashMap::with_capacity(1000);
/// assert!(vicus_flow::library::table_bytes::<(u64, u64)>(table.capacity()) >= 1000 * 17);
/// ```
pub fn table_bytes<T>(capacity: usize) -> usize {
    capacity * 8 / 7 * (size_of::<T>() + 1)
}

/// Small numbers spread well with a multiplier that is a fraction of 2^64 far from all simple fractions: then its
/// multiples, the hashes of successive numbers, lie at about equal distances. The continued fraction of such a
/// multiplier has no greater quotient than this.
const GREATEST_QUOTIENT: u64 = 8;

impl Default for HashKey {
    /// The public default key: 2^64 over the golden ratio.
    fn default() -> HashKey {
        HashKey { mask: 0, multiplier: 0x9E37_79B9_7F4A_7C15 }
    }
}

impl HashKey {
    /// A key hard to guess without the seed.
    pub fn of_seed(seed: u64) -> HashKey {
        let mut state = seed;
        // Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014.
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut bits = state;
            bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            bits ^ bits >> 31
        };
        let mask = next();
        let multiplier = std::iter::repeat_with(|| of_quotients(&mut next)).find(|&multiplier| spreads(multiplier));
        HashKey { mask, multiplier: multiplier.expect("about every second does") }
    }

    /// The hash of one value.
    #[inline]
    pub fn mix(self, value: u64) -> u64 {
        let product = u128::from(value ^ self.mask) * u128::from(self.multiplier);
        ((product >> 64) as u64) ^ (product as u64)
    }

    /// The hash of a row's keys. [`partition`](super::partition()) deals by its highest bits, so tables over the rows
    /// of a part use other bits.
    #[inline]
    pub fn hash(self, keys: impl IntoIterator<Item = u64>) -> u64 {
        keys.into_iter().fold(0, |hash, key| self.mix(hash ^ key))
    }

    /// Continues a hash with a string of bytes: eight at a time, and their number.
    fn hash_bytes(self, hash: u64, bytes: &[u8]) -> u64 {
        let word = |hash, part: &[u8]| {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.mix(hash ^ u64::from_le_bytes(word))
        };
        self.mix(bytes.chunks(8).fold(hash, word) ^ bytes.len() as u64)
    }

    /// The hash of a string of bytes.
    pub(crate) fn hash_string(self, bytes: &[u8]) -> u64 {
        self.hash_bytes(0, bytes)
    }

    /// The hash of a row's value.
    fn hash_value(self, column: &Column, row: usize) -> u64 {
        if column.is_null(row) {
            return self.mix(NULL);
        }
        by_form!(column.form(),
        T => self.mix(column.values::<T>()[row].word()),
        match column.form() {
            Form::Decimal => {
                let number = column.decimals()[row] as u128;
                self.hash([number as u64, (number >> 64) as u64])
            }
            Form::List => {
                let items = column.item_range(row);
                let count = items.len() as u64;
                self.hash(items.map(|item| self.hash_value(column.items(), item)).chain([count]))
            }
            Form::Struct => self.hash(column.parts_beside().iter().map(|part| self.hash_value(part, row))),
            _ => self.hash_string(column.string(row)),
        })
    }
}

/// The word hashed for a null; a value may have the same word.
const NULL: u64 = 0x6E75_6C6C_6E75_6C6C;

/// The hashes of an envelope's rows over some columns: for numbers without nulls, [`HashKey::hash`] over their
/// [words](Native::word).
pub(crate) fn hash_rows(
    envelope: &Envelope,
    keys: &[usize],
    by: HashKey,
    hashes: &mut Vec<u64>,
) -> Result<(), NoMemory> {
    let rows = envelope.rows();
    hashes.clear();
    hashes.grow(rows)?;
    let mut is_first = true;
    for &key in keys {
        let column = envelope.column(key);
        hash_column(column, by, is_first, hashes)?;
        is_first = false;
    }
    if is_first {
        hashes.resize(rows, 0);
    }
    Ok(())
}

/// Continues the rows' hashes with a column, or begins them.
fn hash_column(column: &Column, by: HashKey, is_first: bool, hashes: &mut Vec<u64>) -> Result<(), NoMemory> {
    let rows = column.len();
    // Most rows have one key, a number.
    if is_first && column.null_count() == 0 {
        by_form!(column.form(),
            T => {
                hashes.extend(column.values::<T>().iter().map(|&value| by.mix(value.word())));
                return Ok(());
            },
            ());
    }
    if is_first {
        hashes.resize(rows, 0);
    }
    let nulls = column.nulls();
    let is_null = |row| nulls.is_some_and(|nulls| nulls.has(row));
    by_form!(column.form(),
    T => {
        let values = column.values::<T>();
        if nulls.is_none() {
            hashes.iter_mut().zip(values).for_each(|(hash, &value)| *hash = by.mix(*hash ^ value.word()));
        } else {
            for (row, (hash, &value)) in hashes.iter_mut().zip(values).enumerate() {
                *hash = by.mix(*hash ^ if is_null(row) { NULL } else { value.word() });
            }
        }
    },
    {
        // A value's hash is known to its store.
        let known = match column.store() {
            Some(store) => store.hashes(by, rows)?,
            None => None,
        };
        for (row, hash) in hashes.iter_mut().enumerate() {
            let of_code = |known: &[u64]| known.get(column.codes()[row] as usize).copied();
            let own = known.filter(|_| !is_null(row)).and_then(of_code);
            let own = own.unwrap_or_else(|| by.hash_value(column, row));
            *hash = if is_first { own } else { by.mix(*hash ^ own) };
        }
    });
    Ok(())
}

/// A multiplier with its first quotients chosen at random; the later ones come from rounding. Of random multipliers,
/// only one in some hundreds spreads.
fn of_quotients(mut random: impl FnMut() -> u64) -> u64 {
    // The last two convergents p / q of the continued fraction.
    let ([mut p, mut before_p], [mut q, mut before_q], mut bits) = ([0_u64, 1], [1_u64, 0], 0);
    while q >> 32 == 0 {
        // A random number has 21 choices of three bits; the bit above them shows when they are spent.
        if bits < GREATEST_QUOTIENT {
            bits = random() | 1 << 63;
        }
        let quotient = 1 + bits % GREATEST_QUOTIENT;
        bits /= GREATEST_QUOTIENT;
        (p, before_p) = (quotient * p + before_p, p);
        (q, before_q) = (quotient * q + before_q, q);
    }
    ((u128::from(p) << 64) / u128::from(q)) as u64 | 1
}

/// Whether a fraction of 2^64 has a continued fraction of small quotients, as far as tables have fewer than 2^40 slots.
fn spreads(multiplier: u64) -> bool {
    // 2^64 itself does not fit; an odd number other than 1 does not divide it, so 2^64 - 1 gives the same quotient.
    let (mut quotient, mut above, mut below) = (u64::MAX / multiplier, multiplier, u64::MAX % multiplier + 1);
    loop {
        if quotient > GREATEST_QUOTIENT {
            return false;
        }
        if below >> 24 == 0 {
            return true;
        }
        (quotient, above, below) = (above / below, below, above % below);
    }
}

/// Without the numbers, since they are secret.
impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey")
    }
}

impl BuildHasher for HashKey {
    type Hasher = Keyed;

    fn build_hasher(&self) -> Keyed {
        Keyed { key: *self, hash: 0 }
    }
}

/// Hashes numbers with a [`HashKey`]. Functions made for long texts hash those better.
#[derive(Clone, Debug)]
pub struct Keyed {
    key: HashKey,
    hash: u64,
}

impl Hasher for Keyed {
    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        self.hash = self.key.hash_bytes(self.hash, bytes);
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.hash = self.key.mix(self.hash ^ value);
    }

    #[inline]
    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The comparisons for finding each of these once in a table of as many chains, at either end of the hash.
    fn comparisons(key: HashKey, values: &[u64]) -> [u64; 2] {
        let bits = values.len().next_power_of_two().trailing_zeros();
        let mut chains = [vec![0u64; 1 << bits], vec![0u64; 1 << bits]];
        for &value in values {
            let hash = key.mix(value);
            chains[0][(hash >> (64 - bits)) as usize] += 1;
            chains[1][(hash & ((1 << bits) - 1)) as usize] += 1;
        }
        chains.map(|chains| chains.iter().map(|length| length * (length + 1) / 2).sum())
    }

    /// An id of a small integer, as vicus-rdf has it.
    fn integer(value: u64) -> u64 {
        7 << 56 | value
    }

    /// All rows were once hashed with one number from the source. A search for integers with the same highest bits of
    /// the product found a thousand in a moment, and a join or GROUP BY over them compared each with each.
    #[test]
    fn values_chosen_to_collide_do_not_with_a_key() {
        let known = HashKey::default();
        let crafted: Vec<u64> = (0..).map(integer).filter(|&value| known.mix(value) >> 54 == 5).take(1 << 10).collect();
        let all = 1 << 10;
        assert_eq!(comparisons(known, &crafted)[0], all * (all + 1) / 2);
        for seed in 0..100 {
            let [high, low] = comparisons(HashKey::of_seed(seed), &crafted);
            assert!(high.max(low) < 4 * all, "seed {seed}: {high} and {low} comparisons for {all} values");
        }
    }

    /// Several boxes deal and look up tables, and each of them hashes rows for itself.
    #[test]
    fn rows_are_hashed_as_their_words_are_wherever_they_lie() {
        let by = HashKey::of_seed(3);
        let texts: crate::Column = vec![Some("near"), None, Some("far away"), Some("near"), Some("")].into();
        let numbers = vec![7i64, -1, 0, 7, 7];
        let rows = Envelope::new([numbers.clone().into(), vec![1u8; 5].into(), texts]);
        let mut hashes = Vec::new();
        hash_rows(&rows, &[0, 1], by, &mut hashes).unwrap();
        assert!(hashes.iter().zip(&numbers).all(|(&hash, &number)| hash == by.hash([number as u64, 1])));
        hash_rows(&rows, &[2, 0], by, &mut hashes).unwrap();
        let near = by.hash([u64::from_le_bytes(*b"near\0\0\0\0"), 4, 7]);
        assert_eq!([hashes[0], hashes[3]], [near; 2], "a text's bytes, eight at a time, and their number");
        assert_eq!(hashes[2], by.hash([u64::from_le_bytes(*b"far away"), 8, 0]));
        assert_eq!([hashes[1], hashes[4]], [by.hash([NULL, u64::MAX]), by.hash([0, 7])]);
        let before = hashes.split_off(1);
        hash_rows(&rows.slice(1..5), &[2, 0], by, &mut hashes).unwrap();
        assert_eq!(hashes, before);
        hash_rows(&rows, &[], by, &mut hashes).unwrap();
        assert_eq!(hashes, [0; 5]);
    }

    #[test]
    fn small_numbers_are_spread_with_any_key() {
        type Pattern = (&'static str, fn(u64) -> u64);
        let patterns: [Pattern; 5] = [
            ("integers", integer),
            ("every seventh", |n| integer(7 * n)),
            ("thousands", |n| integer(1000 * n)),
            ("powers", |n| integer(n << 20)),
            ("ranks of texts", |n| 3 << 56 | n),
        ];
        for (name, pattern) in patterns {
            for count in [100, 1 << 10, 3000, 1 << 14, 1 << 16] {
                let values: Vec<u64> = (0..count).map(pattern).collect();
                let of_seed = |seed| comparisons(HashKey::of_seed(seed), &values).into_iter().sum::<u64>();
                // At both ends together. A random function takes three times as many as there are values.
                let mean = (0..50).map(of_seed).sum::<u64>() / 50;
                assert!(mean < 4 * count, "{name}: {mean} comparisons for {count} values");
                if name == "integers" || name == "ranks of texts" {
                    (0..50).for_each(|seed| assert!(of_seed(seed) < 7 * count, "{name}, seed {seed}, {count} values"));
                }
            }
        }
    }
}
