//! Sections: reading gives the pushed keys, and damage is an error.

use super::section::BLOCK;
use super::{Sample, Section, SectionBuilder, Training, write_symbols};
use crate::checked_bytes::CheckedBytes;
use crate::checked_bytes::tests::Damaged;
use crate::sections::tests::InMemory;
use crate::storage::Backing;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use vicus_files::{FakeDisk, Scratch};
use vicus_flow::or_given_up;

fn training(keys: &[String]) -> Training {
    let mut sample = Sample::default();
    let bytes = keys.iter().map(String::len).sum();
    let blocks = Sample::blocks(keys.len(), bytes).flatten();
    blocks.for_each(|number| sample.add(keys[number].as_bytes()).unwrap());
    sample.train().unwrap()
}

fn build(keys: &[String], training: Training) -> Section {
    build_in(&Backing::Memory, keys, training)
}

fn build_in(storage: &Backing, keys: &[String], training: Training) -> Section {
    let mut builder = SectionBuilder::new(training, storage);
    keys.iter().for_each(|key| builder.push(key).unwrap());
    builder.finish().unwrap()
}

/// The content of a file.
fn stored(section: &Section) -> BTreeMap<String, Vec<u8>> {
    let mut file = InMemory::default();
    write_symbols(2, section.symbols(), &mut file).unwrap();
    let (text, ends) = section.parts();
    file.0.insert("string.text".to_owned(), text.part(0..text.len()).to_vec());
    file.0.insert("string.ends".to_owned(), ends.part(0..ends.len()).as_flattened().to_vec());
    file.0
}

fn lent(len: usize, file: &BTreeMap<String, Vec<u8>>) -> Result<Section, vicus_flow::BoxError> {
    let page = |part: &str| -> Arc<dyn CheckedBytes> {
        Arc::new(Damaged { bytes: file[&format!("string.{part}")].clone(), from: usize::MAX })
    };
    Section::lent(len, [page("symbols"), page("text"), page("ends")])
}

/// Reads all keys in each way, and searches for each, and for its neighbours.
fn assert_has(section: &Section, keys: &[String]) {
    assert_eq!(section.len(), keys.len());
    let mut reader = section.keys();
    for (rank, key) in keys.iter().enumerate() {
        section.key(rank, |read| assert_eq!(read, key));
        assert_eq!(reader.key(rank), key);
        assert_eq!(section.rank(key.as_bytes()), Ok(rank));
        section.fetch(rank);
        let beside = [format!("{key}\0"), format!("{key}z"), key.cut(key.len() / 2).to_owned()];
        for other in beside.iter().map(|other| other.as_bytes()) {
            let expected = keys.binary_search_by(|key| key.as_bytes().cmp(other));
            assert_eq!(section.rank(other), expected);
            // From anywhere before, and from the next greater one itself.
            let next = expected.unwrap_or_else(|next| next);
            for from in [0, next / 2, next.saturating_sub(1), next] {
                assert_eq!(section.rank_from(from, other), expected, "from {from}");
            }
        }
        assert_eq!(section.rank_from(rank, key.as_bytes()), Ok(rank));
        assert_eq!(section.rank_from(rank / 3, key.as_bytes()), Ok(rank));
    }
    let (mut appender, mut texts) = (section.appender(), Vec::new());
    let ranks = (0..keys.len()).chain((0..keys.len()).rev()).chain((0..keys.len()).step_by(7));
    for (at, rank) in ranks.enumerate() {
        if at % 50 == 49 {
            texts.clear();
            appender.forget();
        }
        let start = texts.len();
        appender.append(rank, &mut texts);
        assert_eq!(&texts[start..], keys[rank].as_bytes());
    }
    for rank in
        [keys.len() / 2, 0, keys.len().saturating_sub(1), keys.len() / 3].into_iter().filter(|_| !keys.is_empty())
    {
        assert_eq!(reader.key(rank), keys[rank], "out of order");
    }
}

fn check(mut keys: Vec<String>) {
    keys.sort();
    keys.dedup();
    for training in [training(&keys), Training::default()] {
        let built = build(&keys, training.clone());
        assert_has(&built, &keys);
        let file = stored(&built);
        assert_has(&lent(keys.len(), &file).unwrap(), &keys);
        let scratch = Scratch::new(Arc::new(FakeDisk::new(1).process(1)));
        let spilled = build_in(&Backing::Scratch(scratch), &keys, training);
        assert_has(&spilled, &keys);
        assert_eq!(stored(&spilled), file);
    }
}

/// The beginning of a text, cut at the start of a character.
trait Cut {
    fn cut(&self, at: usize) -> &str;
}

impl Cut for str {
    fn cut(&self, at: usize) -> &str {
        let at = (0..=at.min(self.len())).rev().find(|&at| self.is_char_boundary(at)).unwrap_or(0);
        &self[..at]
    }
}

#[test]
fn keys_of_all_lengths_and_bytes_come_back() {
    let all: String = (0..0x11_0000).step_by(37).filter_map(char::from_u32).collect();
    let mut keys: Vec<String> = (0..200).map(|number| all.cut(number * 3).to_owned()).collect();
    keys.extend((0..128_u8).map(|byte| char::from(byte).to_string().repeat(1 + usize::from(byte) % 9)));
    keys.extend(
        (0..60).map(|number| format!("http://example.org/of/a/long/name/{number}/{}", "x".repeat(number * 40))),
    );
    keys.extend((0..500).map(|number| format!("fr\0été {number} à la plage")));
    keys.extend((0..40).map(|number| format!("{}{number}", "\0".repeat(number))));
    keys.push("y".repeat(70_000));
    keys.push(format!("y{}", "z".repeat(700_000)));
    check(keys);
}

#[test]
fn sections_of_any_number_of_keys_are_searched() {
    for count in [0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 5 * BLOCK + 3] {
        check((0..count).map(|number| format!("key {}", number * 7919 % 1000)).collect());
    }
}

#[test]
fn any_keys_come_back() {
    let part = prop_oneof!["[a-c]{0,6}", "\\PC{0,12}", "http://e/[0-9]{1,4}", Just("\0".to_owned()), any::<String>()];
    let key = prop::collection::vec(part, 0..4).prop_map(|parts| parts.concat());
    let mut runner = proptest::test_runner::TestRunner::default();
    runner
        .run(&prop::collection::vec(key, 0..300), |keys| {
            check(keys);
            Ok(())
        })
        .unwrap();
}

#[test]
fn builders_of_whole_blocks_join_to_what_one_builder_makes() {
    let keys: Vec<String> = (0..3000).map(|number| format!("{number:05} and {}", number % 7)).collect();
    let training = training(&keys);
    let whole = build(&keys, training.clone());
    for cut in [0, BLOCK, 64 * BLOCK] {
        let builders = [&keys[..cut], &keys[cut..cut + BLOCK], &keys[cut + BLOCK..]].map(|keys| {
            let mut builder = SectionBuilder::new(training.clone(), &Backing::Memory);
            keys.iter().for_each(|key| builder.push(key).unwrap());
            builder
        });
        let joined = SectionBuilder::join(builders.into()).unwrap().finish().unwrap();
        assert_has(&joined, &keys);
        let all = |section: &Section| section.parts().0.part(0..section.parts().0.len()).to_vec();
        assert_eq!(all(&joined), all(&whole));
    }
}

#[test]
fn what_keys_have_in_common_is_stored_once() {
    let keys: Vec<String> = (0..50_000)
        .map(|number| format!("http://example.org/publications/articles/Journal1/1940/Article{number:05}"))
        .collect();
    let section = build(&keys, training(&keys));
    let bytes = section.parts().0.len() + section.parts().1.len() * 5;
    assert!(bytes < 6 * keys.len(), "{bytes} bytes for {} keys", keys.len());
}

/// An unchanged page can still hold no dictionary: no bytes may lead to reading out of bounds, or to a text that is not
/// UTF-8.
#[test]
fn senseless_bytes_are_errors_or_other_texts() {
    let mut keys: Vec<String> = (0..700).map(|number| format!("{} é {}", number % 26, number * 31)).collect();
    keys.sort();
    keys.push(format!("z{}", "long ".repeat(400)));
    let right = stored(&build(&keys, training(&keys)));
    let mut chance = 88_172_645_463_325_252_u64;
    let mut next = move || {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        chance as usize
    };
    let (mut errors, mut others) = (0, 0);
    for round in 0..3000 {
        let mut wrong = right.clone();
        let name = ["string.text", "string.ends", "string.symbols"][round % 3];
        let bytes = wrong.get_mut(name).unwrap();
        for _ in 0..1 + next() % 4 {
            let at = next() % bytes.len();
            bytes[at] = [0, 1, 2, 8, 255, next() as u8][next() % 6];
        }
        if next() % 20 == 0 {
            bytes.truncate(next() % bytes.len());
        }
        let Ok(section) = lent(keys.len(), &wrong) else {
            errors += 1;
            continue;
        };
        let mut reader = section.keys();
        for _ in 0..20 {
            let rank = next() % keys.len();
            let one = or_given_up(|| section.key(rank, str::to_owned));
            let many = or_given_up(|| reader.key(rank).to_owned());
            assert_eq!(one.as_ref().ok(), many.as_ref().ok());
            let found = or_given_up(|| section.rank(keys[rank].as_bytes()));
            or_given_up(|| section.fetch(rank)).ok();
            if one.is_err() || found.is_err() { errors += 1 } else { others += 1 }
        }
    }
    assert!(errors > 500 && others > 500, "{errors} errors, {others} texts");
    let mut none = right.clone();
    none.get_mut("string.symbols").unwrap()[0] = 9;
    let error = lent(keys.len(), &none).unwrap_err().to_string();
    assert_eq!(error, "at byte 0: it is not a table of symbols");
}
