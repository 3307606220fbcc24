//! The hash of rows, one for dealing them and for the tables that are made of what was dealt.

/// Multiplies by an odd number near 2^64 over the golden ratio, and folds the high half in: Knuth, TAOCP 3, §6.4.
#[inline]
pub fn mix(value: u64) -> u64 {
    let product = u128::from(value) * 0x9E37_79B9_7F4A_7C15;
    ((product >> 64) as u64) ^ (product as u64)
}

/// The hash of a row's keys. [`partition`](super::partition()) deals by the highest bits of it, so tables that are made of
/// a part's rows use others.
#[inline]
pub fn hash(keys: impl IntoIterator<Item = u64>) -> u64 {
    keys.into_iter().fold(0, |hash, key| mix(hash ^ key))
}
