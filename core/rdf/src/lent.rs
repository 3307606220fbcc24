//! Bytes that something else owns, such as a mapped file: checked when they are read for the first time.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vicus_flow::{BoxError, give_up};

/// A part of a file, or of whatever else keeps bytes that never change.
pub trait Pages: fmt::Debug + Send + Sync {
    /// All its bytes, of which none is known to be right. Each call returns the same.
    fn bytes(&self) -> &[u8];

    /// Checks bytes of this range against what was written there.
    ///
    /// # Errors
    /// They are not as they were written. The error names the place.
    fn check(&self, range: Range<usize>) -> Result<(), BoxError>;

    /// The error that the bytes from a place on are as they were written, but not what they should be.
    fn senseless(&self, at: usize, what: &str) -> BoxError;
}

/// How many bytes are checked at once.
const PAGE: usize = 64 << 10;

/// Lent bytes, and which of them are known to be right.
pub(crate) struct Lent {
    owner: Arc<dyn Pages>,
    /// A bit for each page that was checked. At worst two readers check the same page, and the bytes never change, so no order of
    /// memory is needed.
    right: Box<[AtomicU64]>,
    /// Whether all of it has to be UTF-8.
    is_text: bool,
}

impl Lent {
    pub(crate) fn new(owner: Arc<dyn Pages>, is_text: bool) -> Lent {
        let words = owner.bytes().len().div_ceil(PAGE).div_ceil(64);
        Lent { owner, right: std::iter::repeat_with(AtomicU64::default).take(words).collect(), is_text }
    }

    pub(crate) fn owner(&self) -> &Arc<dyn Pages> {
        &self.owner
    }

    /// Makes sure that these bytes are as they were written. If they are not, the caller's box gives up ([`give_up`]).
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
        let bytes = self.owner.bytes();
        let mut range = page * PAGE..((page + 1) * PAGE).min(bytes.len());
        self.owner.check(range.clone())?;
        if self.is_text {
            // A character belongs to the page on which it begins.
            let next =
                |at: usize| (at..bytes.len().min(at + 4)).find(|&at| is_boundary(bytes, at)).unwrap_or(bytes.len());
            self.owner.check(range.end..(range.end + 4).min(bytes.len()))?;
            range = if page == 0 { 0 } else { next(range.start) }..next(range.end);
            if let Err(error) = str::from_utf8(&bytes[range.clone()]) {
                return Err(self.owner.senseless(range.start + error.valid_up_to(), "a term is not UTF-8"));
            }
        }
        Ok(())
    }
}

/// Whether a character of a text can begin or end at this place.
pub(crate) fn is_boundary(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| byte & 0xC0 != 0x80)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Bytes of which some are not as they were written.
    #[derive(Debug)]
    pub(crate) struct Damaged {
        pub(crate) bytes: Vec<u8>,
        pub(crate) from: usize,
    }

    impl Pages for Damaged {
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

    fn ensured(lent: &Lent, range: Range<usize>) -> Result<(), String> {
        vicus_flow::or_given_up(|| lent.ensure(range)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_page_is_checked_when_it_is_read_and_others_are_not() {
        let lent = Lent::new(Arc::new(Damaged { bytes: vec![7; 5 * PAGE + 3], from: 3 * PAGE }), false);
        assert_eq!(ensured(&lent, 0..3 * PAGE), Ok(()));
        assert_eq!(ensured(&lent, 2 * PAGE..2 * PAGE), Ok(()), "nothing is read");
        let damaged = Err(format!("damaged from byte {} on", 3 * PAGE));
        assert_eq!(ensured(&lent, 3 * PAGE - 1..3 * PAGE + 1), damaged);
        assert_eq!(ensured(&lent, 5 * PAGE..5 * PAGE + 3), damaged);
        assert_eq!(ensured(&lent, PAGE..4 * PAGE), damaged);
        assert_eq!(ensured(&lent, PAGE..2 * PAGE), Ok(()));
    }

    /// Texts with characters of all lengths, which pages cut at all places.
    #[test]
    fn a_text_is_utf_8_page_by_page_as_it_is_as_a_whole() {
        let text: String = ["x", "é", "€", "😀"].into_iter().cycle().take(70_000).collect();
        for shift in 0..10 {
            let text = ["y".repeat(shift), text.clone()].concat().into_bytes();
            let length = text.len();
            let lent = Lent::new(Arc::new(Damaged { bytes: text.clone(), from: usize::MAX }), true);
            assert_eq!(ensured(&lent, 0..length), Ok(()));
            for wrong in [0, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE - 2, length - 1] {
                let mut text = text.clone();
                text[wrong] = 0xFF;
                let expected = str::from_utf8(&text).unwrap_err().valid_up_to();
                let lent = Lent::new(Arc::new(Damaged { bytes: text, from: usize::MAX }), true);
                assert_eq!(ensured(&lent, 0..length), Err(format!("at byte {expected}: a term is not UTF-8")));
            }
        }
    }
}
