//! A store on the system's files: acknowledged data is there after `kill -9`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use vicus_disk::{BaseEntry, DiskError, Recovered, StoreFiles};
use vicus_files::{Directory, LockError};
use vicus_machine::SystemDirectory;

const KIND: [u8; 8] = *b"numbers ";
/// The folder of the store, for the process to be killed.
const STORE: &str = "VICUS_TEST_WRITES_STORE";

fn directory(path: &Path) -> Arc<dyn Directory> {
    Arc::new(SystemDirectory::create(path).expect("the temporary folder can be written"))
}

/// The count of the store's numbers, which must be 0, 1, 2 and so on.
fn count(recovered: &Recovered) -> u64 {
    let mut numbers = Vec::new();
    for base in &recovered.bases {
        base.verify().expect("no page is damaged");
        let section = base.section("numbers").expect("it was written");
        numbers.extend_from_slice(section.words(0..section.len() / 8).expect("no page is damaged"));
    }
    let number = |record: &Vec<u8>| u64::from_le_bytes(record[..8].try_into().expect("eight bytes"));
    numbers.extend(recovered.records.iter().map(number));
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
    numbers.len() as u64
}

/// Commits one number after another until it is killed, and says so after each; a new generation after each hundred.
fn write_for_ever(path: &Path) {
    let (mut store, recovered) = StoreFiles::open(directory(path), KIND).expect("it is a store");
    store.log().set_segment_bytes(10_000);
    for number in count(&recovered).. {
        store.log().stage(&[number.to_le_bytes(), [7; 8]].concat());
        assert_eq!(store.log().flush().expect("nothing fails"), number + 1);
        println!("durable {}", number + 1);
        if number % 100 == 99 {
            let (name, mut writer) = store.write_base("numbers").expect("nothing fails");
            writer.begin("numbers").expect("nothing fails");
            writer.write_words(&(0..=number).collect::<Vec<_>>()).expect("nothing fails");
            let fingerprint = writer.finish().expect("nothing fails");
            store.log().rotate();
            store.publish(number + 1, vec![BaseEntry { name, fingerprint }]).expect("nothing fails");
        }
    }
}

struct Fresh(PathBuf);

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The process is this test program again. It is killed at any point after this number of commits.
#[test]
fn what_was_acknowledged_is_there_after_kill_9() {
    if let Some(path) = std::env::var_os(STORE) {
        return write_for_ever(Path::new(&path));
    }
    let fresh = Fresh(std::env::temp_dir().join(format!("vicus-store-{}", std::process::id())));
    let _ = std::fs::remove_dir_all(&fresh.0);
    drop(StoreFiles::create(directory(&fresh.0), KIND, 4711).unwrap());
    let mut acknowledged = 0;
    for turn in 0..8 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::what_was_acknowledged_is_there_after_kill_9", "--nocapture"])
            .env(STORE, &fresh.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let until = acknowledged + 60 + turn * 7;
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut note = |line: String| {
            if let Some((_, number)) = line.split_once("durable ") {
                acknowledged = number.parse().expect("a number");
            }
            acknowledged
        };
        while note(lines.next().expect("it goes on until it is killed").unwrap()) < until {}
        // Readers don't mind the writer, nor it them; a second writer is refused.
        let read = count(&Recovered::read(&*directory(&fresh.0), KIND).unwrap());
        assert!(read >= until);
        match StoreFiles::open(directory(&fresh.0), KIND) {
            Err(DiskError::Lock(LockError::Held { by, .. })) => assert_eq!(by, Some(writer.id())),
            other => panic!("{other:?}"),
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        lines.for_each(|line| {
            note(line.unwrap());
        });
        let found = count(&StoreFiles::open(directory(&fresh.0), KIND).expect("the lock has ended").1);
        assert!((acknowledged..=acknowledged + 1).contains(&found), "{acknowledged} acknowledged, {found} found");
        acknowledged = found;
    }
}
