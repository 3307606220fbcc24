//! Bytes of another owner, such as a mapped file: checked when they are read for the first time.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vicus_flow::{BoxError, give_up};

/// A part of a file, or of another store of unchanging bytes.
pub trait CheckedBytes: fmt::Debug + Send + Sync {
    /// All its bytes, without a check. Each call returns the same.
    fn bytes(&self) -> &[u8];

    /// Checks this range against the bytes written there.
    ///
    /// # Errors
    /// They are not as they were written. The error names the place.
    fn check(&self, range: Range<usize>) -> Result<(), BoxError>;

    /// The error for bytes from a place on that are unchanged, but make no sense.
    fn senseless(&self, at: usize, what: &str) -> BoxError;
}

/// The owner of a snapshot's bytes, such as mapped files. It may lose them while they are read.
pub trait BytesOwner: fmt::Debug + Send + Sync {
    /// The reason why bytes read until now may be zeros never written. Takes a call of the system for each file.
    fn lost(&self) -> Option<BoxError>;
}

/// How many bytes are checked at once.
const PAGE: usize = 64 << 10;

/// Lent bytes, with notes on the checked ones.
pub(crate) struct LentBytes {
    owner: Arc<dyn CheckedBytes>,
    /// A bit for each checked page. At worst two readers check the same page, and the bytes never change, so no order
    /// of memory is needed.
    right: Box<[AtomicU64]>,
}

impl LentBytes {
    pub(crate) fn new(owner: Arc<dyn CheckedBytes>) -> LentBytes {
        let words = owner.bytes().len().div_ceil(PAGE).div_ceil(64);
        LentBytes { owner, right: std::iter::repeat_with(AtomicU64::default).take(words).collect() }
    }

    pub(crate) fn owner(&self) -> &Arc<dyn CheckedBytes> {
        &self.owner
    }

    /// Makes sure that these bytes are as they were written. Otherwise the caller's box gives up ([`give_up`]).
    #[inline]
    pub(crate) fn ensure(&self, range: Range<usize>) {
        let (first, last) = (range.start / PAGE, range.end.saturating_sub(1) / PAGE);
        if !(last <= first + 1 && self.is_right(first) && self.is_right(last)) {
            self.check(range);
        }
    }

    #[inline]
    fn is_right(&self, page: usize) -> bool {
        self.right.get(page / 64).is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (page % 64)) != 0)
    }

    #[cold]
    fn check(&self, range: Range<usize>) {
        let range = range.start..range.end.min(self.owner.bytes().len());
        for page in if range.is_empty() { 0..0 } else { range.start / PAGE..(range.end - 1) / PAGE + 1 } {
            if !self.is_right(page) {
                self.check_page(page).unwrap_or_else(|error| give_up(error));
                self.right[page / 64].fetch_or(1 << (page % 64), Ordering::Relaxed);
            }
        }
    }

    fn check_page(&self, page: usize) -> Result<(), BoxError> {
        self.owner.check(page * PAGE..((page + 1) * PAGE).min(self.owner.bytes().len()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Bytes of which some differ from the written ones.
    #[derive(Debug)]
    pub(crate) struct Damaged {
        pub(crate) bytes: Vec<u8>,
        pub(crate) from: usize,
    }

    impl CheckedBytes for Damaged {
        fn bytes(&self) -> &[u8] {
            &self.bytes
        }

        fn check(&self, range: Range<usize>) -> Result<(), BoxError> {
            if range.end <= self.from { Ok(()) } else { Err(format!("damaged from byte {} on", self.from).into()) }
        }

        fn senseless(&self, at: usize, what: &str) -> BoxError {
            format!("at byte {at}: {what}").into()
        }
    }

    fn ensured(lent: &LentBytes, range: Range<usize>) -> Result<(), String> {
        vicus_flow::or_given_up(|| lent.ensure(range)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_page_is_checked_when_it_is_read_and_others_are_not() {
        let lent = LentBytes::new(Arc::new(Damaged { bytes: vec![7; 5 * PAGE + 3], from: 3 * PAGE }));
        assert_eq!(ensured(&lent, 0..3 * PAGE), Ok(()));
        assert_eq!(ensured(&lent, 2 * PAGE..2 * PAGE), Ok(()), "nothing is read");
        let damaged = Err(format!("damaged from byte {} on", 3 * PAGE));
        assert_eq!(ensured(&lent, 3 * PAGE - 1..3 * PAGE + 1), damaged);
        assert_eq!(ensured(&lent, 5 * PAGE..5 * PAGE + 3), damaged);
        assert_eq!(ensured(&lent, PAGE..4 * PAGE), damaged);
        assert_eq!(ensured(&lent, PAGE..2 * PAGE), Ok(()));
    }
}
