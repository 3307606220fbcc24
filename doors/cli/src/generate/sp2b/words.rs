//! Words and names made of syllables.

use super::numbers::Chance;

/// The beginnings of syllables. They contain no vowels, so a word can be divided into syllables in one way only.
const ONSETS: [&str; 16] = ["b", "br", "d", "dr", "f", "g", "gl", "h", "k", "l", "m", "n", "p", "st", "t", "v"];
/// The vowels at the ends of syllables.
const NUCLEI: [&str; 16] = ["a", "e", "i", "o", "u", "ai", "au", "ea", "ee", "ei", "eo", "ia", "io", "oa", "oo", "ou"];
/// The endings of words.
const CODAS: [&str; 8] = ["", "l", "m", "n", "r", "s", "sh", "th"];

/// A vocabulary, the same for every seed, so all files share their words.
pub(super) struct Words {
    text: String,
    /// The end of each word in `text`.
    ends: Vec<u32>,
}

impl Words {
    const COUNT: u32 = 1 << 13;

    pub(super) fn new() -> Words {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for number in 0..Words::COUNT {
            let bits = mix(number);
            for syllable in 0..2 + (bits >> 30) % 2 {
                write_syllable(bits >> (8 * syllable), &mut text);
            }
            text.push_str(CODAS[(bits >> 24) as usize % CODAS.len()]);
            ends.push(text.len() as u32);
        }
        Words { text, ends }
    }

    fn word(&self, number: u32) -> &str {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.text[start as usize..self.ends[number] as usize]
    }

    /// Writes this many words, separated by spaces.
    pub(super) fn write(&self, count: usize, text: &mut String, chance: &mut Chance) {
        for i in 0..count {
            if i > 0 {
                text.push(' ');
            }
            text.push_str(self.word(chance.below(Words::COUNT)));
        }
    }

    /// `http://www.word.tld/word/word.html`.
    pub(super) fn write_url(&self, text: &mut String, chance: &mut Chance) {
        for before in ["http://www.", ".tld/", "/"] {
            text.push_str(before);
            text.push_str(self.word(chance.below(Words::COUNT)));
        }
        text.push_str(".html");
    }
}

/// `0-1280-4931-6`.
pub(super) fn write_isbn(text: &mut String, chance: &mut Chance) {
    let mut digits = |count: u32, text: &mut String| {
        let number = chance.below(10_u32.pow(count));
        (0..count).rev().for_each(|place| text.push((b'0' + (number / 10_u32.pow(place) % 10) as u8) as char));
    };
    text.push_str("0-");
    digits(4, text);
    text.push('-');
    digits(4, text);
    text.push('-');
    digits(1, text);
}

/// Writes the name of a person: two syllables, `between`, two syllables. Different numbers have different names.
pub(super) fn write_name(number: u32, seed: u64, between: char, text: &mut String) {
    // Adding the seed and mixing are both one-to-one, and four syllables represent all 32 bits.
    let bits = mix(number.wrapping_add(mix(seed as u32) ^ (seed >> 32) as u32));
    for (first, second) in [(0, 8), (16, 24)] {
        let start = text.len();
        write_syllable(bits >> first, text);
        write_syllable(bits >> second, text);
        text[start..start + 1].make_ascii_uppercase();
        if first == 0 {
            text.push(between);
        }
    }
}

/// Writes a syllable for the lowest eight bits.
fn write_syllable(bits: u32, text: &mut String) {
    text.push_str(ONSETS[(bits & 15) as usize]);
    text.push_str(NUCLEI[(bits >> 4 & 15) as usize]);
}

/// Spreads neighbouring numbers. One-to-one, because each step can be undone.
fn mix(number: u32) -> u32 {
    let mut x = number;
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_all_different_and_differ_between_seeds() {
        let name = |number, seed| {
            let mut text = String::new();
            write_name(number, seed, ' ', &mut text);
            text
        };
        let names: HashSet<String> = (0..200_000).map(|number| name(number, 1)).collect();
        assert_eq!(names.len(), 200_000);
        assert_ne!(name(1, 1), name(1, 2));
        assert_ne!(name(1, 1), name(1, 1 << 40));
    }

    #[test]
    fn words_are_words() {
        let words = Words::new();
        assert!((0..Words::COUNT).all(|number| (4..=14).contains(&words.word(number).len())));
    }
}
