//! Words and variables with full/empty bits.

mod countdown;
mod deadlock;
mod entries;
pub mod full_empty;
mod lists;
mod sync_var;

pub use countdown::Countdown;
pub use deadlock::Deadlock;
pub use sync_var::SyncVar;

/// Random numbers below a bound, for tests: Marsaglia's xorshift.
#[cfg(all(test, not(loom)))]
fn numbers_by_chance(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}
