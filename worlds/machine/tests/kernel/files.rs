//! The system's files: the same rules as the fake's, and the properties of a real system alone.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use vicus_files::{Directory, FileOperation, LockError, OpenMode, conformance};
use vicus_machine::SystemDirectory;

/// A fresh directory, removed at the end of the test.
struct Fresh(PathBuf);

impl Fresh {
    fn new(name: &str) -> Fresh {
        let path = std::env::temp_dir().join(format!("vicus-files-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Fresh(path)
    }

    fn open(&self) -> SystemDirectory {
        SystemDirectory::create(&self.0).expect("the temporary folder can be written")
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_system_does_what_every_directory_does() {
    let fresh = Fresh::new("conformance");
    conformance::check(&fresh.open());
}

/// Everything is in the files themselves, as another program sees them.
#[test]
fn other_programs_see_the_bytes() {
    let fresh = Fresh::new("bytes");
    let directory = fresh.open();
    directory.create("a").unwrap().write_at(3, b"vicus").unwrap();
    directory.rename("a", "b").unwrap();
    assert_eq!(std::fs::read(fresh.0.join("b")).unwrap(), b"\0\0\0vicus");
    std::fs::create_dir(fresh.0.join("folder")).unwrap();
    std::fs::write(fresh.0.join(".hidden"), "").unwrap();
    assert_eq!(directory.list().unwrap(), ["b"], "folders and names that no store has are left out");
}

#[test]
fn a_directory_is_created_once_and_must_be_one() {
    let fresh = Fresh::new("folder");
    let missing = SystemDirectory::open(&fresh.0).unwrap_err();
    assert!(missing.is_missing(), "{missing}");
    fresh.open().create("a").unwrap();
    fresh.open().open("a", OpenMode::Read).expect("creating the directory again empties nothing");
    let error = SystemDirectory::create(&fresh.0.join("a")).unwrap_err();
    assert_eq!(
        (error.operation, error.cause.kind()),
        (FileOperation::Open, std::io::ErrorKind::NotADirectory),
        "{error}"
    );
    let error = SystemDirectory::create(&fresh.0.join("x").join("y")).unwrap_err();
    assert!(error.is_missing() && error.operation == FileOperation::Create, "{error}");
}

/// `/dev/full` is the kernel's own full disk.
#[test]
fn a_full_disk_is_told_from_other_errors() {
    let directory = SystemDirectory::open(Path::new("/dev")).unwrap();
    let full = directory.open("full", OpenMode::Write).unwrap().write_at(0, b"x").unwrap_err();
    assert!(full.is_full(), "{full}");
    assert_eq!(
        full.to_string(),
        format!("can't write /dev/full: {}", std::io::Error::from_raw_os_error(libc_enospc()))
    );
}

fn libc_enospc() -> i32 {
    28
}

#[test]
fn missing_rights_are_named() {
    let fresh = Fresh::new("rights");
    let directory = fresh.open();
    directory.create("a").unwrap();
    std::fs::set_permissions(fresh.0.join("a"), std::fs::Permissions::from_mode(0o000)).unwrap();
    // The super-user may read everything.
    if std::fs::File::open(fresh.0.join("a")).is_ok() {
        return;
    }
    let error = directory.open("a", OpenMode::Read).unwrap_err();
    assert_eq!(error.cause.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains(&directory.path("a")), "{error}");
}

/// The second process is this test program again; it holds the lock until it is killed.
#[test]
fn a_lock_of_another_process_is_refused_with_its_id_and_ends_with_it() {
    const HOLD: &str = "VICUS_TEST_HOLDS_LOCK_OF";
    if let Some(path) = std::env::var_os(HOLD) {
        let directory = SystemDirectory::open(Path::new(&path)).unwrap();
        let _lock = directory.lock("lock").unwrap();
        directory.create("held").unwrap();
        // Until it is killed, or the first process has ended without a kill.
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
        return;
    }
    let fresh = Fresh::new("lock");
    let directory = fresh.open();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "files::a_lock_of_another_process_is_refused_with_its_id_and_ends_with_it"])
        .env(HOLD, &fresh.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while directory.open("held", OpenMode::Read).is_err() {
        assert_eq!(other.try_wait().unwrap(), None, "the other process goes on");
        std::thread::yield_now();
    }
    let refused = directory.lock("lock").unwrap_err();
    assert!(matches!(refused, LockError::Held { by: Some(pid), .. } if pid == other.id()), "{refused:?}");
    // `kill -9`
    other.kill().unwrap();
    other.wait().unwrap();
    let lock = directory.lock("lock").expect("the kernel has dropped the lock");
    assert_eq!(std::fs::read_to_string(fresh.0.join("lock")).unwrap(), format!("{}\n", std::process::id()));
    drop(lock);
}

/// The protection of readers: a replaced or removed base file stays mapped as it was.
#[test]
fn a_mapping_stays_when_its_file_is_replaced() {
    let fresh = Fresh::new("mapping");
    let directory = fresh.open();
    directory.create("base").unwrap().write_at(0, &[1; 100_000]).unwrap();
    let mapping = directory.map("base").unwrap();
    directory.create("base.new").unwrap().write_at(0, &[2; 10]).unwrap();
    directory.rename("base.new", "base").unwrap();
    assert_eq!(directory.map("base").unwrap()[..], [2; 10]);
    assert!(mapping.iter().all(|&byte| byte == 1) && mapping.len() == 100_000);
}

/// What happened: a file shortened while mapped ended the process by a signal.
#[test]
fn bytes_that_a_mapped_file_has_lost_are_zeros_and_are_told() {
    let fresh = Fresh::new("shortened");
    let directory = fresh.open();
    let name = |number: usize| format!("base-{number}");
    for (number, left) in [1 << 20, (1 << 20) - 10, 600_000, 8192, 1, 0].into_iter().enumerate() {
        directory.create(&name(number)).unwrap().write_at(0, &[7; 1 << 20]).unwrap();
        let (mapping, other) = (directory.map(&name(number)).unwrap(), directory.map(&name(number)).unwrap());
        assert_eq!((mapping.lost_from(), mapping[1 << 19]), (None, 7));
        directory.open(&name(number), OpenMode::Write).unwrap().set_len(left).unwrap();
        // On several threads at once, from both ends.
        std::thread::scope(|scope| {
            for reader in 0..4 {
                let mapping = &mapping;
                scope.spawn(move || {
                    for at in 0..1 << 20 {
                        let at = if reader % 2 == 0 { at } else { (1 << 20) - 1 - at };
                        assert_eq!(mapping[at], if (at as u64) < left { 7 } else { 0 }, "{left}: byte {at}");
                    }
                });
            }
        });
        let lost = (left < 1 << 20).then_some(left);
        // A renewed growth of the file changes nothing for mappings that have seen it short.
        assert_eq!((mapping.lost_from(), other.lost_from()), (lost, lost));
        directory.open(&name(number), OpenMode::Write).unwrap().set_len(1 << 20).unwrap();
        assert_eq!((mapping.lost_from(), other.lost_from()), (lost, lost));
        assert_eq!(directory.map(&name(number)).unwrap().lost_from(), None);
    }
    // Zeros were read, and the file is as long as it was when the reader asks.
    let file = directory.create("grown").unwrap();
    file.write_at(0, &[7; 100_000]).unwrap();
    let mapping = directory.map("grown").unwrap();
    file.set_len(4096).unwrap();
    assert_eq!(mapping[50_000], 0);
    file.set_len(100_000).unwrap();
    assert!(mapping.lost_from().is_some_and(|at| (4096..=50_000).contains(&at)), "{:?}", mapping.lost_from());
}

/// What happened: a byte changed in place, in a checked page, remained unnoticed.
#[test]
fn a_mapped_file_that_is_written_to_says_so_and_one_that_is_read_or_renamed_does_not() {
    let fresh = Fresh::new("written");
    let directory = fresh.open();
    let file = directory.create("base.new").unwrap();
    file.write_at(0, &[7; 10_000]).unwrap();
    file.sync().unwrap();
    let mapping = directory.map("base.new").unwrap();
    // A file's times go on in steps of some milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(30));
    directory.rename("base.new", "base").unwrap();
    assert_eq!(std::fs::read(fresh.0.join("base")).unwrap().len(), 10_000);
    std::fs::hard_link(fresh.0.join("base"), fresh.0.join("link")).unwrap();
    assert_eq!((mapping.lost_from(), mapping.was_written()), (None, false));
    directory.open("base", OpenMode::Write).unwrap().write_at(5000, &[8]).unwrap();
    assert_eq!((mapping.lost_from(), mapping.was_written(), mapping[5000]), (None, true, 8));
    let again = directory.map("base").unwrap();
    assert_eq!((again.lost_from(), again.was_written(), mapping.was_written()), (None, false, true));
    directory.remove("base").unwrap();
    assert_eq!((again.lost_from(), again.was_written()), (None, false));
}

/// The table of watched mappings has room for a thousand.
#[test]
fn the_places_of_mappings_that_are_gone_are_used_again() {
    let fresh = Fresh::new("many");
    let directory = fresh.open();
    directory.create("base").unwrap().write_at(0, &[7; 5000]).unwrap();
    directory.create("empty").unwrap();
    for _ in 0..5 {
        let mappings: Vec<_> = (0..300).map(|_| directory.map("base").unwrap()).collect();
        assert!(mappings.iter().all(|mapping| mapping[4999] == 7 && mapping.lost_from().is_none()));
    }
    let empty = directory.map("empty").unwrap();
    assert_eq!((empty.len(), empty.lost_from()), (0, None));
}

/// The lock's file was opened through the link, and the link's target overwritten with the process's id.
#[test]
fn a_lock_that_is_a_symbolic_link_is_refused_and_what_it_leads_to_is_left_alone() {
    let fresh = Fresh::new("link");
    let directory = fresh.open();
    let other = fresh.0.join("other");
    std::fs::write(&other, "not ours").unwrap();
    std::os::unix::fs::symlink(&other, fresh.0.join("lock")).unwrap();
    let refused = directory.lock("lock").expect_err("it is a link");
    assert!(refused.to_string().contains("lock: it is a symbolic link"), "{refused}");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "not ours");
    std::fs::remove_file(fresh.0.join("lock")).unwrap();
    directory.lock("lock").expect("there is no file yet");
}
