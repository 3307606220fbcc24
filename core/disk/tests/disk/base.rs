//! Base files: reads give the written bytes, and damage is found at its place.

use crate::model::Dice;
use std::sync::Arc;
use vicus_disk::{BaseFile, BaseWriter, DiskError, Fingerprint, PAGE};
use vicus_files::FakeDisk;

const KIND: [u8; 8] = *b"a base  ";

fn write(disk: &FakeDisk, name: &str, sections: &[(&str, &[u8])]) -> Fingerprint {
    let mut writer = BaseWriter::create(&disk.process(1), name, KIND).unwrap();
    for (name, bytes) in sections {
        writer.begin(name).unwrap();
        // In pieces of any size.
        let mut dice = Dice::new(bytes.len() as u64);
        let mut rest = *bytes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(1 + dice.below(200_000) as usize));
            writer.write(now).unwrap();
            rest = later;
        }
    }
    writer.finish().unwrap()
}

fn open(disk: &FakeDisk, name: &str) -> Result<Arc<BaseFile>, DiskError> {
    BaseFile::open(&disk.process(1), name, KIND, None)
}

fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    (0..count).map(|_| dice.below(256) as u8).collect()
}

#[test]
fn sections_are_read_as_they_were_written() {
    let sizes = [0, 1, 63, 64, PAGE - 64, PAGE, PAGE + 1, 5 * PAGE + 17, 16 * PAGE, 33 * PAGE - 1];
    for seed in 0..12 {
        eprintln!("seed {seed}");
        let mut dice = Dice::new(seed);
        let names = ["a", "b", "the longest of all names"];
        let sections = names.map(|name| (name, bytes(seed, sizes[dice.below(sizes.len() as u64) as usize])));
        let sections: Vec<_> = sections.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
        let disk = FakeDisk::new(seed);
        let fingerprint = write(&disk, "base", &sections);
        assert_eq!(fingerprint.bytes, disk.contents("base").unwrap().len() as u64);
        let file = BaseFile::open(&disk.process(1), "base", KIND, Some(fingerprint)).unwrap();
        assert_eq!(file.sections().collect::<Vec<_>>(), names);
        assert!(file.section("c").is_none());
        for (name, bytes) in &sections {
            let section = file.section(name).unwrap();
            assert_eq!((section.len(), section.is_empty()), (bytes.len(), bytes.is_empty()));
            for _ in 0..20 {
                let [one, other] = [(); 2].map(|()| dice.below(bytes.len() as u64 + 1) as usize);
                let range = one.min(other)..one.max(other);
                assert_eq!(section.bytes(range.clone()).unwrap(), &bytes[range]);
            }
            let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            assert_eq!(section.words(0..words.len()).unwrap(), words);
            assert_eq!(section.unchecked(), *bytes);
        }
        file.verify().unwrap();
    }
}

#[test]
fn words_are_little_endian() {
    let disk = FakeDisk::new(1);
    let mut writer = BaseWriter::create(&disk.process(1), "base", KIND).unwrap();
    let words: Vec<u64> = (0..10_000_u64).map(|at| at.wrapping_mul(0x0102_0304_0506_0708)).collect();
    writer.begin("words").unwrap();
    writer.write_words(&words).unwrap();
    writer.finish().unwrap();
    let contents = disk.contents("base").unwrap();
    assert_eq!(contents[64 + 8..64 + 16], [8, 7, 6, 5, 4, 3, 2, 1]);
    let section = open(&disk, "base").unwrap().section("words").unwrap();
    assert_eq!(section.words(0..10_000).unwrap(), words);
    assert_eq!(section.words(9_999..10_000).unwrap(), [words[9_999]]);
}

#[test]
fn a_flipped_page_is_found_before_its_bytes_are_used_and_only_it() {
    let disk = FakeDisk::new(1);
    let written = bytes(1, 4 * PAGE);
    write(&disk, "base", &[("a", &written)]);
    let good = disk.contents("base").unwrap();
    for at in [PAGE + 5, 2 * PAGE, 3 * PAGE - 1] {
        let mut flipped = good.clone();
        flipped[at] ^= 0x10;
        disk.put("base", &flipped);
        let file = open(&disk, "base").expect("no page is read");
        let section = file.section("a").unwrap();
        let page = at / PAGE;
        // The section begins 64 bytes behind the header's page's beginning.
        let before = ..page * PAGE - 64;
        assert_eq!(section.bytes(0..before.end).unwrap(), &written[before]);
        for _ in 0..2 {
            let damage = section.bytes(at - 64..at - 63).unwrap_err();
            assert_eq!((&damage.file[..], damage.offset), ("fake/base", (page * PAGE) as u64));
            assert!(section.bytes(0..section.len()).is_err() && section.words(0..section.len() / 8).is_err());
        }
        assert_eq!(section.bytes((page + 1) * PAGE..4 * PAGE).unwrap(), &written[(page + 1) * PAGE..]);
        let damage = file.verify().unwrap_err();
        assert!(damage.to_string().contains(&format!("fake/base is damaged at byte {}", page * PAGE)), "{damage}");
    }
}

#[test]
fn verify_also_finds_what_changed_after_it_was_read() {
    // A mapping of the fake is a copy, so the file is opened again; pages a reader found right before do not count for
    // this.
    let disk = FakeDisk::new(1);
    write(&disk, "base", &[("a", &[1; 100])]);
    let file = open(&disk, "base").unwrap();
    file.section("a").unwrap().bytes(0..100).unwrap();
    file.verify().unwrap();
    let mut flipped = disk.contents("base").unwrap();
    flipped[100] ^= 1;
    disk.put("base", &flipped);
    assert_eq!(open(&disk, "base").unwrap().verify().unwrap_err().offset, 0);
}

#[test]
fn every_flip_and_every_cut_is_found() {
    let disk = FakeDisk::new(1);
    let written = [bytes(1, 300), bytes(2, 77)];
    let fingerprint = write(&disk, "base", &[("a", &written[0]), ("b", &written[1])]);
    let good = disk.contents("base").unwrap();
    let attempt = |bytes: &[u8]| -> Result<(), DiskError> {
        disk.put("base", bytes);
        let file = BaseFile::open(&disk.process(1), "base", KIND, Some(fingerprint))?;
        for (name, written) in ["a", "b"].iter().zip(&written) {
            assert_eq!(file.section(name).expect("it is there").bytes(0..written.len())?, written);
        }
        file.verify()?;
        Ok(())
    };
    attempt(&good).unwrap();
    for at in 0..good.len() {
        for mask in [1, 0x80, 0xff] {
            let mut flipped = good.clone();
            flipped[at] ^= mask;
            let error = attempt(&flipped).expect_err("a flip is found");
            assert!(error.to_string().contains("fake/base"), "{error}");
        }
        assert!(attempt(&good[..at]).expect_err("a cut is found").to_string().contains("fake/base"));
    }
    attempt(&[&good[..], b"more"].concat()).expect_err("what was added is found");
}

#[test]
fn other_files_are_refused_by_name() {
    let disk = FakeDisk::new(1);
    let first = write(&disk, "base", &[("a", b"first")]);
    let error = BaseFile::open(&disk.process(1), "base", *b"another ", Some(first)).unwrap_err();
    assert_eq!(error.to_string(), "fake/base is not a base file of this kind");
    write(&disk, "other", &[("a", b"other")]);
    let error = BaseFile::open(&disk.process(1), "other", KIND, Some(first)).unwrap_err();
    assert!(error.to_string().contains("another file than the manifest names"), "{error}");
    disk.put("text", "A text that is long enough for a header, and is none.".repeat(3).as_bytes());
    assert_eq!(open(&disk, "text").unwrap_err().to_string(), "fake/text is not a base file of Vicus");
    let mut newer = disk.contents("base").unwrap();
    newer[8] = 2;
    disk.put("newer", &newer);
    let newer = open(&disk, "newer").unwrap_err().to_string();
    assert_eq!(newer, "fake/newer has format 2, from a newer Vicus; this one reads formats up to 1");
    assert!(matches!(open(&disk, "none").unwrap_err(), DiskError::File(error) if error.is_missing()));
}

#[test]
fn what_is_read_to_be_sent_is_checked_wherever_it_lies() {
    let content = bytes(3, 5 * PAGE + 100);
    let disk = FakeDisk::new(1);
    let fingerprint = write(&disk, "base", &[("all", &content)]);
    let whole = disk.contents("base").unwrap();
    let sent = |disk: &FakeDisk, piece: usize| -> Result<Vec<u8>, String> {
        let file =
            BaseFile::open(&disk.process(1), "base", KIND, Some(fingerprint)).map_err(|error| error.to_string())?;
        let mut sent = vec![0; fingerprint.bytes as usize];
        for (number, part) in sent.chunks_mut(piece).enumerate() {
            file.read_checked((number * piece) as u64, part).map_err(|damage| damage.to_string())?;
        }
        Ok(sent)
    };
    for piece in [1000, PAGE, 3 * PAGE, whole.len()] {
        assert_eq!(sent(&disk, piece).unwrap(), whole);
        for at in (0..whole.len()).step_by(9973).chain([0, PAGE, whole.len() - 1, whole.len() - 100]) {
            let disk = disk.copy();
            let mut changed = whole.clone();
            changed[at] ^= 4;
            disk.put("base", &changed);
            let error = sent(&disk, piece).unwrap_err();
            let is_named = error.starts_with("fake/base is damaged at byte") || error.contains("is not a base file");
            assert!(is_named, "byte {at}, by {piece}: {error}");
        }
    }
}
