//! Sets of the operating system's numbers, of CPUs or of nodes.

/// The largest number in a set: above the numbers of PUs and nodes of any machine.
pub(crate) const MOST_NUMBERS: u32 = 1 << 14;
/// The most numbers of a list's parts together. The kernel names each number once; a list by hand may name some again.
const MOST_LISTED: u32 = 4 * MOST_NUMBERS;

/// A set of numbers, 32 to a word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    /// The place of the first word: 0 if there is none.
    start: usize,
    /// Invariant: neither the first nor the last is zero. So a set of a few neighbours is small, whatever their
    /// numbers.
    words: Vec<u32>,
}

impl Set {
    pub(crate) const EMPTY: Set = Set { start: 0, words: Vec::new() };

    fn trimmed(start: usize, mut words: Vec<u32>) -> Set {
        while words.last() == Some(&0) {
            words.pop();
        }
        let zeros = words.iter().take_while(|&&word| word == 0).count();
        words.drain(..zeros);
        Set { start: if words.is_empty() { 0 } else { start + zeros }, words }
    }

    /// Parses the kernel's masks and hwloc's: words of 32 bits, the highest first, with commas between; an empty word
    /// is 0.
    pub(crate) fn parse(text: &str) -> Result<Set, String> {
        let words = text.split(',').rev().enumerate();
        let mut set = Vec::new();
        for (place, word) in words {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            let is_plain = digits.len() <= 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            if !is_plain {
                return Err(format!("`{}` is no word of a set", shortened(word)));
            }
            let word =
                if digits.is_empty() { 0 } else { u32::from_str_radix(digits, 16).map_err(|e| e.to_string())? };
            if word != 0 && place >= (MOST_NUMBERS / 32) as usize {
                return Err(format!("a set has numbers beyond {MOST_NUMBERS}"));
            }
            set.push(word);
        }
        Ok(Set::trimmed(0, set))
    }

    pub(crate) fn only(number: u32) -> Set {
        Set { start: number as usize / 32, words: vec![1 << (number % 32)] }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many words it has.
    pub(crate) fn words(&self) -> usize {
        self.words.len()
    }

    fn word(&self, place: usize) -> u32 {
        place.checked_sub(self.start).and_then(|at| self.words.get(at)).copied().unwrap_or(0)
    }

    fn places(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        (self.start..).zip(self.words.iter().copied())
    }

    pub(crate) fn is_in(&self, other: &Set) -> bool {
        self.places().all(|(place, own)| own & !other.word(place) == 0)
    }

    pub(crate) fn overlaps(&self, other: &Set) -> bool {
        self.places().any(|(place, own)| own & other.word(place) != 0)
    }

    pub(crate) fn add(&mut self, other: &Set) {
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        self.reach(other.start);
        self.reach(other.start + other.words.len() - 1);
        let at = other.start - self.start;
        self.words[at..].iter_mut().zip(&other.words).for_each(|(own, other)| *own |= other);
    }

    /// Makes room for a word. The caller fills it in.
    fn reach(&mut self, place: usize) {
        if self.words.is_empty() {
            self.start = place;
        } else if place < self.start {
            self.words.splice(0..0, std::iter::repeat_n(0, self.start - place));
            self.start = place;
        }
        let least = place - self.start + 1;
        self.words.resize(self.words.len().max(least), 0);
    }

    pub(crate) fn first(&self) -> u32 {
        self.words.first().map_or(u32::MAX, |word| self.start as u32 * 32 + word.trailing_zeros())
    }

    /// Parses the kernel's lists: `0-3,8`, and with a step as in `0-8:1/2`.
    pub(crate) fn parse_list(text: &str) -> Result<Set, String> {
        let (mut set, mut listed) = (Set::default(), 0);
        for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || format!("`{}` is no number or range from 0 to {}", shortened(part), MOST_NUMBERS - 1);
            let (range, group) = part.split_once(':').unwrap_or((part, "1/1"));
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (used, every) = group.split_once('/').ok_or_else(wrong)?;
            let number = |text: &str| text.parse::<u32>().ok().filter(|&n| n <= MOST_NUMBERS).ok_or_else(wrong);
            let (first, last, used, every) = (number(first)?, number(last)?, number(used)?, number(every)?);
            if first > last || last >= MOST_NUMBERS || every == 0 || used > every {
                return Err(wrong());
            }
            listed += last - first + 1;
            if listed > MOST_LISTED {
                return Err(format!("the list names more than {MOST_LISTED} numbers, most of them again"));
            }
            (first..=last).filter(|n| (n - first) % every < used).for_each(|n| set.insert(n));
        }
        Ok(set)
    }

    pub(crate) fn insert(&mut self, number: u32) {
        self.reach(number as usize / 32);
        self.words[number as usize / 32 - self.start] |= 1 << (number % 32);
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.word(number as usize / 32) >> (number % 32) & 1 == 1
    }

    /// The numbers of both.
    pub(crate) fn within(self, other: &Set) -> Set {
        let words = self.places().map(|(place, word)| word & other.word(place)).collect();
        Set::trimmed(self.start, words)
    }

    /// Its numbers, the lowest first.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.places().flat_map(|(place, word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(place as u32 * 32 + bit)
            })
        })
    }
}

impl FromIterator<u32> for Set {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Set {
        let mut set = Set::default();
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }
}

/// A text for a message: its beginning, if it is long.
pub(crate) fn shortened(text: &str) -> String {
    if text.chars().count() <= 40 { text.to_owned() } else { text.chars().take(40).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_lists_are_read_as_the_kernel_writes_them() {
        // Documentation/core-api/printk-formats.rst, "bitmap and its derivatives"; lib/bitmap.c.
        for (mask, list) in [("ff", "0-7"), ("00000001,80000000", "31-32"), ("0", ""), ("f0f", "0-3,8-11")] {
            assert_eq!(Set::parse(mask).unwrap(), Set::parse_list(list).unwrap(), "{mask}");
        }
        assert_eq!(Set::parse_list("0-7:1/2,9").unwrap().numbers().collect::<Vec<_>>(), [0, 2, 4, 6, 9]);
        for wrong in ["3-1", "a", "0-99999999", "1:2", "1-3:1/0", "-1"] {
            assert!(Set::parse_list(wrong).is_err(), "{wrong}");
        }
        // The same set in any order of its numbers.
        let mut grown = Set::only(700);
        [31, 64, 900].into_iter().for_each(|number| grown.insert(number));
        grown.add(&Set::only(5));
        assert_eq!(grown, [900, 5, 64, 31, 700].into_iter().collect());
        assert!(grown.contains(64) && !grown.contains(65) && !grown.contains(9000) && grown.first() == 5);
        let both = Set::parse("f0f").unwrap().within(&Set::parse("ff").unwrap());
        assert_eq!(both, Set::parse("f").unwrap());
    }
}
