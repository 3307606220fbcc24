//! Size classes: the block for each request.
//!
//! Falt et al. §5.1: blocks of 8 kB, each class 1.07 times the one before, up to 512 kB, rounded up to the cache line:
//! 63 classes. We round the exact series, so errors don't add up, and cut the last class to the limit. Classes below
//! the first, from one line upwards, are ours: for small blocks on a given node.

use std::fmt;

/// Every class is a multiple of this, and every block is aligned to it: the unit of sharing between caches.
pub const LINE: usize = 64;

/// The most classes, small ones included: one more is the allocator's own.
const MOST_CLASSES: usize = 250;

/// A geometric series of block sizes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series {
    /// The smallest block of the series.
    pub first: usize,
    /// The factor from each size to the next: from 1.01 to 2.
    pub ratio: f64,
    /// The largest block; beyond it, memory is mapped for each request.
    pub limit: usize,
}

impl Default for Series {
    /// The series of Falt et al. §5.1: 8 kB × 1.07^i up to 512 kB.
    fn default() -> Series {
        Series { first: 8 << 10, ratio: 1.07, limit: 512 << 10 }
    }
}

/// Why a [`Series`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SeriesError {
    /// The first size is below a cache line or above the limit.
    First(usize, usize),
    /// The ratio is not between 1.01 and 2.
    Ratio(f64),
    /// There would be this number of classes.
    Classes(usize),
}

impl fmt::Display for SeriesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SeriesError::First(first, limit) => write!(
                f,
                "the first block size is {first} bytes; it must be at least {LINE} and at most the limit, {limit}"
            ),
            SeriesError::Ratio(ratio) => write!(f, "the ratio of block sizes is {ratio}; it must be from 1.01 to 2"),
            SeriesError::Classes(count) => {
                write!(f, "there would be {count} block sizes, and at most {MOST_CLASSES} work: take a larger ratio")
            }
        }
    }
}

impl std::error::Error for SeriesError {}

impl Series {
    /// The sizes, ascending: exact, then rounded up to the cache line, the last one cut to the limit.
    fn sizes(self) -> Result<Vec<usize>, SeriesError> {
        if self.first < LINE || self.first > self.limit || self.limit > isize::MAX as usize / 4 {
            return Err(SeriesError::First(self.first, self.limit));
        }
        if !(1.01..=2.0).contains(&self.ratio) {
            return Err(SeriesError::Ratio(self.ratio));
        }
        let limit = self.limit.next_multiple_of(LINE);
        let mut sizes = vec![self.first.next_multiple_of(LINE)];
        let mut exact = self.first as f64;
        while *sizes.last().expect("the first is there") < limit {
            exact *= self.ratio;
            let size = (exact.ceil() as usize).next_multiple_of(LINE).min(limit);
            // Several terms may round up to one line.
            if size > *sizes.last().expect("the first is there") {
                sizes.push(size);
            }
        }
        Ok(sizes)
    }
}

/// All classes, and a table that finds the smallest fitting one in constant time.
///
/// ```
/// use vicus_memory::{Series, Sizes};
///
/// let sizes = Sizes::new(Series::default(), 8 << 10).unwrap();
/// assert_eq!(sizes.classes() - sizes.small(), 63);
/// let class = sizes.class_of(10_000).unwrap();
/// assert_eq!(sizes.bytes(class), 10_048);
/// assert_eq!(sizes.class_of(512 << 10).map(|class| sizes.bytes(class)), Some(512 << 10));
/// assert_eq!(sizes.class_of((512 << 10) + 1), None);
/// ```
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Block sizes, strictly ascending.
    bytes: Box<[usize]>,
    /// How many of them are small.
    small: usize,
    /// By size in lines, rounded up. All sizes are whole lines, so the class is exact; up to 512 kB the table takes 8
    /// kB.
    by_lines: Box<[u8]>,
}

impl Sizes {
    /// The classes of a series, and small ones below it: up to `small_limit` bytes, a quarter more from one to the
    /// next.
    ///
    /// # Errors
    /// The series is invalid.
    pub fn new(series: Series, small_limit: usize) -> Result<Sizes, SeriesError> {
        let large = series.sizes()?;
        let mut bytes = Vec::new();
        if small_limit.min(large[0]) > LINE {
            bytes = Series { first: LINE, ratio: 1.25, limit: small_limit.min(large[0]) }.sizes()?;
            bytes.retain(|&size| size < large[0]);
        }
        let small = bytes.len();
        bytes.extend(&large);
        if bytes.len() > MOST_CLASSES {
            return Err(SeriesError::Classes(bytes.len()));
        }
        let most_lines = bytes[bytes.len() - 1] / LINE;
        let class = |lines: usize| bytes.partition_point(|&bytes| bytes < lines * LINE) as u8;
        let by_lines = (0..=most_lines).map(class).collect();
        Ok(Sizes { bytes: bytes.into(), small, by_lines })
    }

    /// The smallest class with room for `size` bytes in a block; `None` beyond the limit. One load.
    #[inline(always)]
    pub fn class_of(&self, size: usize) -> Option<usize> {
        self.by_lines.get(size.div_ceil(LINE)).map(|&class| usize::from(class))
    }

    /// The size of a class's blocks.
    pub fn bytes(&self, class: usize) -> usize {
        self.bytes[class]
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.bytes.len()
    }

    /// How many of the classes, the first ones, are below the series.
    pub fn small(&self) -> usize {
        self.small
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn paper() -> Sizes {
        Sizes::new(Series::default(), 8 << 10).unwrap()
    }

    #[test]
    fn sixty_three_classes_cover_8_to_512_kilobytes() {
        let sizes = paper();
        let large: Vec<usize> = (sizes.small()..sizes.classes()).map(|class| sizes.bytes(class)).collect();
        assert_eq!(large.len(), 63);
        // 8192 × 1.07^i for i = 0, 1, 2, 10, 61, computed with 50 digits, each up to the next multiple of 64; the
        // limit.
        assert_eq!([large[0], large[1], large[2]], [8192, 8768, 9408]);
        assert_eq!([large[10], large[61], large[62]], [16_128, 507_968, 524_288]);
        assert!(large.iter().all(|bytes| bytes % 64 == 0));
    }

    #[test]
    fn less_than_7_percent_of_a_block_is_lost() {
        let sizes = paper();
        let step = if cfg!(miri) { 997 } else { 1 };
        for size in (8 << 10..=512 << 10).step_by(step) {
            let block = sizes.bytes(sizes.class_of(size).unwrap());
            assert!((block - size) as f64 / (block as f64) < 0.07, "{size} bytes in a block of {block}");
        }
    }

    #[test]
    fn the_table_finds_the_smallest_class_that_fits() {
        let odd = [
            Series::default(),
            Series { first: 100, ratio: 1.5, limit: 100_000 },
            Series { first: 64, ratio: 1.01, limit: 700 },
            Series { first: 4096, ratio: 2.0, limit: 4096 },
            Series { first: 1000, ratio: 1.3, limit: 1301 },
            Series { first: 65_536, ratio: 1.2, limit: 400_001 },
        ];
        for series in odd {
            let sizes = Sizes::new(series, 8 << 10).unwrap();
            assert!(sizes.bytes.is_sorted_by(|a, b| a < b));
            let step = if cfg!(miri) { 20_011 } else { 1 };
            for size in (0..=series.limit + 100).step_by(step) {
                let naive = sizes.bytes.iter().position(|&bytes| bytes >= size);
                assert_eq!(sizes.class_of(size), naive, "{size} bytes of {series:?}");
            }
        }
    }

    #[test]
    fn a_series_that_is_none_is_refused() {
        let error = |first, ratio, limit| Sizes::new(Series { first, ratio, limit }, 0).unwrap_err();
        assert_eq!(error(63, 1.07, 1000), SeriesError::First(63, 1000));
        assert_eq!(error(1001, 1.07, 1000), SeriesError::First(1001, 1000));
        assert_eq!(error(64, 1.0, 1000), SeriesError::Ratio(1.0));
        assert!(matches!(error(64, f64::NAN, 1000), SeriesError::Ratio(_)));
        assert!(matches!(error(8192, 1.01, 1 << 30), SeriesError::Classes(count) if count > 250));
    }
}
