//! Every byte of a small store is changed: reads are right, or give an error that names the file.

use crate::model::{Run, quads};
use std::sync::Arc;
use vicus_files::{Directory, FakeDisk, OpenMode};
use vicus_flow::or_given_up;
use vicus_store::{NoWaiting, Store};

/// A store with a base and a log, and how many bytes each of its files has.
fn store() -> (FakeDisk, Run, Vec<(String, u64)>) {
    let disk = FakeDisk::new(3);
    let mut run = Run::new(&disk, 3);
    run.open();
    run.load();
    run.change();
    run.change();
    run.store = None;
    let directory = disk.process(2);
    let length = |name: &String| directory.open(name, OpenMode::Read).unwrap().len().unwrap();
    let files =
        directory.list().unwrap().into_iter().map(|name| (length(&name), name)).map(|(n, name)| (name, n)).collect();
    (disk, run, files)
}

#[test]
fn a_changed_byte_is_found_and_its_file_named_or_changes_no_answer() {
    let (disk, run, files) = store();
    let mut found = 0;
    for (name, length) in files.iter().filter(|(name, _)| name != "LOCK") {
        // The checksum of its page covers each byte of a base; slow tests do not try each.
        let step = if cfg!(debug_assertions) && *length > 4000 { 7 } else { 1 };
        for at in (0..*length).step_by(step) {
            let disk = disk.copy();
            let mut bytes = disk.contents(name).unwrap();
            bytes[at as usize] ^= 1 << (at % 8);
            disk.put(name, &bytes);
            let directory = disk.process(3);
            let read = vicus_store::read(&directory).map_err(|error| error.to_string());
            let read = read.and_then(|snapshot| or_given_up(|| quads(&snapshot)).map_err(|error| error.to_string()));
            let checked = vicus_store::check(&directory, &mut |_, _| {}).map_err(|error| error.to_string());
            let opened = Store::open(Arc::new(disk.process(4)), Arc::new(NoWaiting));
            let opened = opened.map_err(|error| error.to_string());
            let opened =
                opened.and_then(|store| or_given_up(|| quads(&store.snapshot())).map_err(|error| error.to_string()));
            for outcome in [&read, &opened] {
                match outcome {
                    Ok(read) => assert_eq!(*read, run.acknowledged, "{name}, byte {at}"),
                    Err(error) => {
                        let names =
                            error.contains(name.as_str()) || (name.starts_with("CURRENT") && error.contains("fake/"));
                        assert!(names, "{name}, byte {at}: {error}");
                        found += 1;
                    }
                }
            }
            // What happened: the check passed over bytes between records, which harm none.
            let says_all_is_well = checked.as_ref().is_ok_and(|checked| !checked.to_string().contains("\nnote: "));
            assert!(!says_all_is_well, "{name}, byte {at}: {checked:?}");
            if let Err(error) = &read {
                assert!(checked.is_err(), "{name}, byte {at}: {error}");
            }
            if name.starts_with("base") {
                let error = checked.expect_err("all pages are checked");
                assert!(error.contains(name.as_str()), "{name}, byte {at}: {error}");
            }
        }
    }
    assert!(found > 500, "{found}");
}
