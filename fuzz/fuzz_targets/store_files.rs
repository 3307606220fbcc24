//! Any bytes as each of a store's files: what is read is what was written, or a file is named. Nothing is read beyond a
//! file's end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use vicus_disk::{BaseEntry, Recovered, StoreFiles};
use vicus_files::FakeDisk;

const KIND: [u8; 8] = *b"fuzzing ";

/// A store with a base and a log, and its files.
fn store() -> FakeDisk {
    let disk = FakeDisk::new(1);
    let mut store = StoreFiles::create(Arc::new(disk.process(1)), KIND, 7).expect("nothing fails");
    let (name, mut writer) = store.write_base("all").expect("nothing fails");
    writer.begin("words").expect("nothing fails");
    writer.write_words(&[1, 2, 3]).expect("nothing fails");
    let fingerprint = writer.finish().expect("nothing fails");
    store.publish(0, vec![BaseEntry { name, fingerprint }]).expect("nothing fails");
    for record in [&b"first"[..], b"second"] {
        store.log().stage(record);
        store.log().flush().expect("nothing fails");
    }
    disk.kill();
    disk
}

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (file, offset, bytes) = input;
    let disk = store();
    let names = disk.names();
    let name = &names[usize::from(file) % names.len()];
    let mut contents = disk.contents(name).expect("it is there");
    // The bytes are written over a part of the file, or behind it.
    let at = usize::from(offset) % (contents.len() + 1);
    contents.truncate(contents.len().max(at));
    let end = (at + bytes.len()).min(contents.len());
    contents.splice(at..end, bytes.iter().copied());
    disk.put(name, &contents);
    match Recovered::read(&disk.process(2), KIND) {
        Ok(recovered) => {
            for base in &recovered.bases {
                let words = base.section("words").expect("the fingerprint is right, so it is there");
                if let Ok(words) = words.words(0..3) {
                    assert_eq!(words, [1, 2, 3]);
                }
                assert!(base.verify().is_ok() || name.starts_with("base-"));
            }
            let expected = [b"first".to_vec(), b"second".to_vec()];
            assert!(expected.starts_with(&recovered.records), "{:?}", recovered.records);
        }
        Err(error) => assert!(error.to_string().contains("fake/"), "{error}"),
    }
    // A writer finds the same, and never panics.
    let _ = StoreFiles::open(Arc::new(disk.process(3)), KIND);
});
