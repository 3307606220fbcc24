//! Texts with colliding hashes if terms are hashed without a key, for tests of all code that hashes terms.

/// Ten thousand texts with the same hash under the earlier hash function (rustc-hash 2.1), chosen from its source:
/// bytes 32 to 39 make a factor zero, so the eight bytes after them have no influence.
pub(crate) fn texts() -> Vec<String> {
    let folded = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let word = |text: &str| u64::from_le_bytes(text.as_bytes().try_into().expect("eight bytes"));
    let (seed, other) = (0x243f_6a88_85a3_08d3, 0xa409_3822_299f_31d0);
    let mut begins = (0..).map(|number| format!("{number:016}"));
    let zero = |begin: &String| folded(seed ^ word(&begin[..8]), other ^ word(&begin[8..])).to_le_bytes();
    let is_text = |begin: &String| zero(begin).iter().all(u8::is_ascii_alphanumeric);
    let begin = begins.find(is_text).expect("one in a hundred thousand is");
    let zero = String::from_utf8(zero(&begin).to_vec()).expect("letters and digits");
    // As CONCAT makes them of two lists of a hundred.
    let pairs = (0..100).flat_map(|first| (0..100).map(move |second| (first, second)));
    pairs.map(|(first, second)| format!("{begin}{begin}{zero}{first:04}{second:04}{begin}")).collect()
}
