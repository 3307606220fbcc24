//! The duties of every [`Directory`], checked from outside; the fake and the system's are held to the same.

use crate::{Directory, FileOperation, LockError, OpenMode};

/// Checks an empty directory, and leaves it empty but for a lock file.
///
/// # Panics
/// The directory does something else.
pub fn check(directory: &dyn Directory) {
    assert_eq!(directory.list().unwrap(), Vec::<String>::new(), "the directory is empty");
    files_are_created_once(directory);
    bytes_are_read_as_written(directory);
    names_change_in_one_step(directory);
    mappings_outlive_their_names(directory);
    temporary_files_have_no_names(directory);
    rights_are_kept(directory);
    one_value_has_the_lock(directory);
    assert_eq!(directory.list().unwrap(), ["lock"]);
}

fn files_are_created_once(directory: &dyn Directory) {
    directory.create("once").unwrap();
    let again = directory.create("once").expect_err("there is one");
    assert_eq!(again.operation, FileOperation::Create);
    assert_eq!(again.cause.kind(), std::io::ErrorKind::AlreadyExists);
    assert!(again.to_string().contains(&directory.path("once")), "{again}");
    for missing in [
        directory.open("none", OpenMode::Read).err(),
        directory.map("none").err(),
        directory.remove("none").err(),
        directory.rename("none", "other").err(),
    ] {
        let missing = missing.expect("there is no such file");
        assert!(missing.is_missing() && missing.to_string().contains("none"), "{missing}");
    }
    directory.remove("once").unwrap();
    directory.sync().unwrap();
}

fn bytes_are_read_as_written(directory: &dyn Directory) {
    let file = directory.create("bytes").unwrap();
    assert!(file.is_empty().unwrap());
    file.write_at(5, b"vicus").unwrap();
    file.write_at(1000, b"!").unwrap();
    assert_eq!(file.len().unwrap(), 1001);
    let mut read = [7; 12];
    file.read_at(0, &mut read).unwrap();
    assert_eq!(&read, b"\0\0\0\0\0vicus\0\0", "what was skipped is zero");
    let short = file.read_at(995, &mut read).expect_err("it ends before");
    assert!(short.is_short() && short.operation == FileOperation::Read, "{short}");
    assert!(file.read_at(5000, &mut read).expect_err("it ends before").is_short());
    file.read_at(1001, &mut []).unwrap();
    file.set_len(7).unwrap();
    file.set_len(12).unwrap();
    file.read_at(0, &mut read).unwrap();
    assert_eq!(&read, b"\0\0\0\0\0vi\0\0\0\0\0", "what was cut is gone");
    file.sync().unwrap();
    // Another value of the same file sees the same bytes.
    let other = directory.open("bytes", OpenMode::Read).unwrap();
    file.write_at(5, b"VI").unwrap();
    other.read_at(5, &mut read[..2]).unwrap();
    assert_eq!(&read[..2], b"VI");
    directory.remove("bytes").unwrap();
    assert_eq!(other.len().unwrap(), 12, "an open file outlives its name");
}

fn names_change_in_one_step(directory: &dyn Directory) {
    directory.create("b").unwrap().write_at(0, b"old").unwrap();
    directory.create("a").unwrap().write_at(0, b"new").unwrap();
    assert_eq!(directory.list().unwrap(), ["a", "b"]);
    directory.rename("a", "b").unwrap();
    directory.sync().unwrap();
    assert_eq!(directory.list().unwrap(), ["b"]);
    let mut read = [0; 3];
    directory.open("b", OpenMode::Read).unwrap().read_at(0, &mut read).unwrap();
    assert_eq!(&read, b"new");
    directory.remove("b").unwrap();
}

fn mappings_outlive_their_names(directory: &dyn Directory) {
    let file = directory.create("mapped").unwrap();
    assert_eq!(directory.map("mapped").unwrap().len(), 0);
    let bytes: Vec<u8> = (0..10_000_u32).map(|at| (at % 251) as u8).collect();
    file.write_at(0, &bytes).unwrap();
    let mapping = directory.map("mapped").unwrap();
    directory.remove("mapped").unwrap();
    drop(file);
    assert_eq!(mapping[..], bytes[..]);
    assert_eq!(mapping.as_ptr().addr() % 8, 0);
}

fn temporary_files_have_no_names(directory: &dyn Directory) {
    let (a, b) = (directory.temporary().unwrap(), directory.temporary().unwrap());
    assert_eq!(directory.list().unwrap(), Vec::<String>::new());
    a.write_at(0, b"first").unwrap();
    b.write_at(0, b"second").unwrap();
    let mut read = [0; 5];
    a.read_at(0, &mut read).unwrap();
    assert_eq!(&read, b"first", "each is a file of its own");
    let mapping = b.map().unwrap();
    drop(b);
    assert_eq!(mapping[..], *b"second");
    let short = a.read_at(1, &mut read).expect_err("it ends before");
    assert!(short.to_string().starts_with("can't read a temporary file in "), "{short}");
    assert!(short.to_string().contains(&directory.path("")), "{short}");
}

fn rights_are_kept(directory: &dyn Directory) {
    directory.create("read-only").unwrap();
    let file = directory.open("read-only", OpenMode::Read).unwrap();
    let refused = file.write_at(0, b"x").expect_err("it was opened for reading");
    assert_eq!(refused.operation, FileOperation::Write);
    assert!(file.set_len(3).is_err());
    assert_eq!(file.len().unwrap(), 0);
    directory.open("read-only", OpenMode::Write).unwrap().write_at(0, b"x").unwrap();
    assert_eq!(file.len().unwrap(), 1);
    directory.remove("read-only").unwrap();
}

fn one_value_has_the_lock(directory: &dyn Directory) {
    let lock = directory.lock("lock").unwrap();
    let refused = directory.lock("lock").expect_err("it is held");
    let LockError::Held { file, by: Some(pid) } = &refused else { panic!("{refused:?}") };
    assert_eq!(*file, directory.path("lock"));
    assert!(refused.to_string().contains(&format!("process {pid}")), "{refused}");
    lock.check().unwrap();
    drop(lock);
    let lock = directory.lock("lock").expect("the lock has ended");
    lock.check().unwrap();
    // By hand, say: then the lock holds no other process off.
    directory.remove("lock").unwrap();
    let lost = lock.check().expect_err("its file was removed");
    assert_eq!((&lost.file, lost.operation), (&directory.path("lock"), FileOperation::KeepLock));
    let other = directory.lock("lock").expect("there is no such file");
    other.check().unwrap();
    assert!(lock.check().is_err(), "another file has its name");
    drop(lock);
    other.check().unwrap();
}
