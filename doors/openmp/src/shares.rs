//! The threads' shares of a returning loop. A thread takes chunks from the begin of its own share, and half of another
//! thread's rest from its end when the own one is empty.

use super::atomics::{AtomicU32, AtomicU64, Ordering};

#[repr(align(64))]
pub(crate) struct Line<T>(pub(crate) T);

/// A thread's share of a returning loop.
#[derive(Default)]
pub(crate) struct Share {
    /// The first chunk, and in the upper half the one behind the last.
    range: AtomicU64,
    /// How many chunks the thread has run, when it has left.
    pub(crate) ran: AtomicU32,
}

impl Share {
    pub(crate) fn set(&self, low: u32, high: u32) {
        self.range.store(Share::word(low, high), Ordering::Relaxed);
    }

    fn word(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    fn range(word: u64) -> (u32, u32) {
        (word as u32, (word >> 32) as u32)
    }

    /// Takes chunks: `cut` splits the range into the part that stays and the part to take. `None` if the range is
    /// empty.
    fn take<R>(&self, cut: impl Fn(u32, u32) -> (u64, R)) -> Option<R> {
        let mut word = self.range.load(Ordering::Relaxed);
        loop {
            let (low, high) = Share::range(word);
            if low >= high {
                return None;
            }
            let (stays, taken) = cut(low, high);
            // Relaxed: the owner of a chunk says nothing of other memory. If a range comes back, none of its chunks has
            // been run.
            match self.range.compare_exchange_weak(word, stays, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(taken),
                Err(now) => word = now,
            }
        }
    }
}

/// The next chunk for a thread: from its own share, else half of another thread's rest, taken from its end.
pub(crate) fn take(shares: &[Line<Share>], number: usize) -> Option<u32> {
    let own = &shares[number].0;
    own.take(|low, high| (Share::word(low + 1, high), low)).or_else(|| {
        let (before, behind) = shares.split_at(number);
        let (low, high) = behind[1..].iter().chain(before).find_map(|other| {
            other.0.take(|low, high| {
                let cut = high - (high - low).div_ceil(2);
                (Share::word(low, cut), (cut, high))
            })
        })?;
        own.set(low + 1, high);
        Some(low)
    })
}
