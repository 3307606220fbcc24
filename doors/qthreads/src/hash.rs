//! Hashes, by the finalizer of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
//! 2014, §4).

use crate::exports;
use std::slice;

/// A number in which all bits depend on all bits of the key.
pub(crate) fn mix(key: u64) -> u64 {
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ key >> 31
}

exports! {
    fn qt_hash64(key: u64) -> u64 {
        mix(key.wrapping_add(0x9e37_79b9_7f4a_7c15))
    }

    fn qt_hash_bytes(key: *mut libc::c_void, bytes: usize, state: u64) -> u64 {
        if key.is_null() {
            return mix(state);
        }
        // SAFETY: rule "Interface": the key has this number of bytes.
        let chunks = unsafe { slice::from_raw_parts(key.cast::<u8>(), bytes) }.chunks(8);
        let words = chunks.map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        words.fold(mix(state ^ bytes as u64), |state, word| mix(state.rotate_left(5) ^ word))
    }
}
