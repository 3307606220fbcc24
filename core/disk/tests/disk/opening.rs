//! The processes that may open a store, and the effect of opening on its files.

use crate::log::{publish, try_publish};
use crate::model::{KIND, all_of, read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vicus_disk::{DiskError, Recovered, StoreFiles};
use vicus_files::{Directory, Failure, FakeDirectory, FakeDisk, File, FileError, Lock, LockError, Mapping, OpenMode};

fn open(disk: &FakeDisk, pid: u32) -> Result<(StoreFiles, Recovered), DiskError> {
    StoreFiles::open(Arc::new(disk.process(pid)), KIND)
}

#[test]
fn the_second_writer_is_refused_with_the_firsts_id_and_readers_are_not() {
    let disk = FakeDisk::new(1);
    let mut first = StoreFiles::create(Arc::new(disk.process(41)), KIND, 7).unwrap();
    first.log().stage(b"a");
    first.log().flush().unwrap();
    assert_eq!(open(&disk, 42).unwrap_err().to_string(), "fake/LOCK is locked by process 41");
    let error = StoreFiles::create(Arc::new(disk.process(42)), KIND, 8).unwrap_err();
    assert_eq!(error.to_string(), "fake/LOCK is locked by process 41");
    let (names, manifest) = (disk.names(), disk.contents("CURRENT"));
    assert_eq!(read(&disk.process(43)).unwrap(), [b"a"]);
    assert_eq!((disk.names(), disk.contents("CURRENT")), (names, manifest), "reading changes nothing");
    drop(first);
    open(&disk, 42).unwrap();
}

#[test]
fn what_is_no_store_is_said_to_be_none_and_left_alone() {
    let disk = FakeDisk::new(1);
    disk.put("letter.txt", b"Dear all");
    assert_eq!(open(&disk, 1).unwrap_err().to_string(), "fake/ holds no store: there is no file CURRENT in it");
    assert!(matches!(read(&disk.process(1)), Err(DiskError::NoStore(_))));
    assert_eq!(disk.names(), ["letter.txt"]);
    disk.put("CURRENT", b"Dear all");
    assert_eq!(open(&disk, 1).unwrap_err().to_string(), "fake/CURRENT is not a store's manifest");
    disk.put("CURRENT", b"vicus store\nformat 3\nwhatever is new\n");
    let newer = "fake/CURRENT has format 3, from a newer Vicus; this one reads formats up to 2";
    assert_eq!(open(&disk, 1).unwrap_err().to_string(), newer);
    assert_eq!(StoreFiles::create(Arc::new(disk.process(1)), KIND, 7).unwrap_err().to_string(), newer);
    assert_eq!(disk.names(), ["CURRENT", "letter.txt"]);
}

/// A store was once made among files of the user's own. `LOCK` was overwritten with the process's number, and a failed
/// load removed it, with `BEGUN`, `CURRENT.new` and all files with names that began with `vicus-scratch-`.
#[test]
fn no_store_is_made_over_files_of_other_programs() {
    let notes: &[u8] = b"notes of the owner\n";
    let make = |disk: &FakeDisk, begin: bool| match begin {
        true => StoreFiles::begin(Arc::new(disk.process(1)), KIND, 7),
        false => StoreFiles::create(Arc::new(disk.process(1)), KIND, 7),
    };
    for begin in [false, true] {
        for (name, expected) in [
            ("LOCK", "a store's lock"),
            ("BEGUN", "the mark of a store that was begun"),
            ("CURRENT.new", "a store's manifest"),
            ("CURRENT.hidden", "a store's manifest"),
        ] {
            let disk = FakeDisk::new(1);
            disk.put(name, notes);
            let error = make(&disk, begin).unwrap_err().to_string();
            assert_eq!(error, format!("fake/{name} is not {expected}"));
            assert_eq!((disk.names(), disk.contents(name).as_deref()), (vec![name.to_owned()], Some(notes)));
        }
    }
    // A lock of a number without a process, and names foreign to temporary files.
    let disk = FakeDisk::new(1);
    disk.put("LOCK", b"20261123 12:00\n");
    assert_eq!(make(&disk, false).unwrap_err().to_string(), "fake/LOCK is not a store's lock");
    disk.take_away("LOCK");
    let own = ["vicus-scratch-", "vicus-scratch-007", "vicus-scratch-20261123", "vicus-scratch-notes"];
    own.iter().for_each(|name| disk.put(name, notes));
    make(&disk, false).unwrap().remove().unwrap();
    assert_eq!(disk.names(), own);
    // The remains of processes killed, or without power, while they made a store.
    let left: [(&str, &[&[u8]]); 3] = [
        ("LOCK", &[b"", b"4711", b"4711\n", b"4294967295\n", &[0; 5]]),
        ("BEGUN", &[b""]),
        ("CURRENT.new", &[b"", b"vicus", b"vicus store\nformat 1\nst", &[0; 40]]),
    ];
    for (name, contents) in left {
        for content in contents {
            let disk = FakeDisk::new(1);
            disk.put(name, content);
            make(&disk, false).unwrap().remove().unwrap();
            assert!(disk.names().is_empty(), "{name} {content:?}: {disk:?}");
        }
    }
}

#[test]
fn a_store_is_created_once_and_never_over_the_files_of_another() {
    let disk = FakeDisk::new(1);
    let create = || StoreFiles::create(Arc::new(disk.process(1)), KIND, 7);
    let mut store = create().unwrap();
    store.log().stage(b"a");
    store.log().flush().unwrap();
    publish(&mut store, &[b"a"]);
    drop(store);
    assert_eq!(create().unwrap_err().to_string(), "fake/ holds a store already");
    disk.take_away("CURRENT");
    let names = disk.names();
    let error = create().unwrap_err().to_string();
    assert!(error.starts_with("fake/CURRENT is damaged at byte 0: it is missing, though there is base-"), "{error}");
    assert_eq!(disk.names(), names);
}

/// Power goes at each operation of the making of a hidden store, which is then made again.
#[test]
fn a_hidden_store_is_there_with_all_of_its_records_or_not_at_all() {
    let make = |disk: &FakeDisk, pid: u32| -> Result<(), DiskError> {
        let mut store = StoreFiles::create_hidden(Arc::new(disk.process(pid)), KIND, 7)?;
        for record in [b"a", b"b"] {
            store.log().stage(record);
            store.log().flush().map_err(|refused| refused.error)?;
        }
        try_publish(&mut store, &[b"a", b"b"])?;
        store.log().stage(b"c");
        store.log().flush().map_err(|refused| refused.error)?;
        store.set_lineage(|lineage| lineage.follows = true).map_err(|refused| refused.error)?;
        store.reveal()
    };
    let (mut hidden, mut there) = (0, 0);
    for at in 0.. {
        let disk = FakeDisk::new(at);
        disk.fail_after(at, Failure::PowerLoss);
        let made = make(&disk, 1);
        for crash in 0..4 {
            let disk = disk.copy();
            disk.crash(crash ^ at << 8);
            match read(&disk.process(2)) {
                Ok(found) => {
                    assert_eq!(found, [b"a", b"b", b"c"], "operation {at}, crash {crash}");
                    there += 1;
                }
                Err(error) => {
                    assert!(made.is_err(), "operation {at}, crash {crash}: it was revealed");
                    assert!(matches!(error, DiskError::Hidden(_) | DiskError::NoStore(_)), "{error}");
                    hidden += usize::from(matches!(error, DiskError::Hidden(_)));
                    let opened = open(&disk, 3).map(drop).unwrap_err();
                    assert_eq!(opened.to_string(), error.to_string());
                    make(&disk, 4).unwrap();
                }
            }
            let (store, _) = open(&disk, 5).unwrap();
            assert!(store.lineage().follows);
            drop(store);
            assert!(!disk.names().iter().any(|name| name.starts_with("CURRENT.")), "{disk:?}");
        }
        if disk.operations() <= at {
            made.unwrap();
            break;
        }
    }
    assert!(hidden > 40 && there > 4, "{hidden} hidden, {there} there");
}

#[test]
fn a_hidden_store_is_removed_and_one_that_has_lost_its_manifest_is_not() {
    let disk = FakeDisk::new(1);
    let mut store = StoreFiles::create_hidden(Arc::new(disk.process(1)), KIND, 7).unwrap();
    store.log().stage(b"a");
    store.log().flush().unwrap();
    let error = read(&disk.process(2)).unwrap_err().to_string();
    assert!(error.starts_with("fake/ holds a store whose restoring was interrupted"), "{error}");
    store.remove().unwrap();
    assert!(disk.names().is_empty(), "{disk:?}");
    let mut store = StoreFiles::create_hidden(Arc::new(disk.process(1)), KIND, 7).unwrap();
    store.log().stage(b"a");
    store.log().flush().unwrap();
    store.reveal().unwrap();
    drop(store);
    disk.take_away("CURRENT");
    let error = StoreFiles::create_hidden(Arc::new(disk.process(1)), KIND, 8).unwrap_err().to_string();
    assert!(error.starts_with("fake/CURRENT is damaged at byte 0: it is missing, though there is log-"), "{error}");
}

#[test]
fn files_that_belong_to_nothing_are_removed_by_a_writer_and_not_by_a_reader() {
    let disk = FakeDisk::new(1);
    let mut store = StoreFiles::create(Arc::new(disk.process(1)), KIND, 7).unwrap();
    store.log().stage(b"a");
    store.log().flush().unwrap();
    publish(&mut store, &[b"a"]);
    drop(store);
    let own = disk.names();
    let strays =
        ["CURRENT.new", "base-00000009-all.new", "base-00000001-other", "base-00000012-all", "log-00000077.new"];
    let foreign = ["backup.zip", "base-camp", "log-book", "log-1"];
    strays.iter().chain(&foreign).for_each(|name| disk.put(name, b"?"));
    let all = disk.names();
    assert_eq!(read(&disk.process(2)).unwrap(), [b"a"]);
    assert_eq!(disk.names(), all);
    let (mut store, _) = open(&disk, 3).unwrap();
    let mut expected = [&own[..], &foreign.map(str::to_owned)].concat();
    expected.sort();
    assert_eq!(disk.names(), expected);
    // Neither generations nor segments get a number of a stray.
    assert_eq!(store.write_base("all").unwrap().0, "base-00000013-all");
    store.log().rotate();
    store.log().stage(b"b");
    store.log().flush().unwrap();
    assert!(disk.names().contains(&"log-00000078".to_owned()), "{disk:?}");
}

/// A directory with a writer that goes on at one of the operations of a reader.
#[derive(Debug)]
struct Meanwhile {
    inner: FakeDirectory,
    turns: Arc<Turns>,
}

struct Turns {
    left: AtomicU64,
    writer: Box<dyn Fn() + Send + Sync>,
}

impl Meanwhile {
    fn new(inner: FakeDirectory, at: u64, writer: impl Fn() + Send + Sync + 'static) -> Meanwhile {
        Meanwhile { inner, turns: Arc::new(Turns { left: AtomicU64::new(at), writer: Box::new(writer) }) }
    }

    fn turn(&self) -> &FakeDirectory {
        self.turns.next();
        &self.inner
    }
}

impl Turns {
    fn next(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            (self.writer)();
        }
    }

    /// Whether the writer has gone on.
    fn are_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) > u64::MAX / 2
    }
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.left.fmt(f)
    }
}

#[derive(Debug)]
struct Read {
    inner: Arc<dyn File>,
    turns: Arc<Turns>,
}

impl File for Read {
    fn len(&self) -> Result<u64, FileError> {
        self.turns.next();
        self.inner.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        self.turns.next();
        self.inner.read_at(offset, into)
    }

    fn map(&self) -> Result<Mapping, FileError> {
        self.inner.map()
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<(), FileError> {
        panic!("a reader writes nothing")
    }

    fn set_len(&self, _: u64) -> Result<(), FileError> {
        panic!("a reader cuts nothing")
    }

    fn sync(&self) -> Result<(), FileError> {
        panic!("a reader syncs nothing")
    }
}

impl Directory for Meanwhile {
    fn path(&self, name: &str) -> String {
        self.inner.path(name)
    }

    fn open(&self, name: &str, access: OpenMode) -> Result<Arc<dyn File>, FileError> {
        let inner = self.turn().open(name, access)?;
        Ok(Arc::new(Read { inner, turns: Arc::clone(&self.turns) }))
    }

    fn map(&self, name: &str) -> Result<Mapping, FileError> {
        self.turn().map(name)
    }

    fn list(&self) -> Result<Vec<String>, FileError> {
        self.turn().list()
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>, FileError> {
        panic!("a reader creates nothing: {name}")
    }

    fn temporary(&self) -> Result<Arc<dyn File>, FileError> {
        panic!("a reader creates nothing")
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        panic!("a reader renames nothing: {from} to {to}")
    }

    fn remove(&self, name: &str) -> Result<(), FileError> {
        panic!("a reader removes nothing: {name}")
    }

    fn sync(&self) -> Result<(), FileError> {
        panic!("a reader syncs nothing")
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Lock>, LockError> {
        panic!("a reader locks nothing: {name}")
    }
}

/// Once a reader read the manifest, then the writer published and removed the log's segments, then the reader listed
/// none, and took this for a log without records.
#[test]
fn a_reader_finds_one_generation_whole_while_a_writer_publishes_another() {
    let (first, second): ([&[u8]; 2], [&[u8]; 3]) = ([b"a", b"b"], [b"a", b"b", b"c"]);
    let mut published = 0;
    for at in 0..40 {
        let disk = FakeDisk::new(at);
        let mut store = StoreFiles::create(Arc::new(disk.process(1)), KIND, 7).unwrap();
        store.log().set_segment_bytes(1);
        for record in first {
            store.log().stage(record);
            store.log().flush().unwrap();
        }
        publish(&mut store, &first[..1]);
        let store = Mutex::new(store);
        let writer = move || {
            let store = &mut *store.lock().unwrap();
            store.log().stage(b"c");
            store.log().flush().unwrap();
            store.log().rotate();
            publish(store, &[b"a", b"b", b"c"]);
        };
        let directory = Meanwhile::new(disk.process(2), at, writer);
        let found = all_of(&Recovered::read(&directory, KIND).unwrap()).unwrap();
        assert!(found == first || found == second, "operation {at}: {found:?}");
        published += u32::from(directory.turns.are_over());
    }
    assert!((4..40).contains(&published), "the reader has fewer operations: {published}");
}

/// A reader measured a segment, then its writer cut off the room behind it; or it read half of a frame, and then the
/// following ones.
#[test]
fn a_reader_finds_a_beginning_of_the_log_while_a_writer_goes_on() {
    let records: Vec<Vec<u8>> = (0..7_u8).map(|number| vec![number; 100]).collect();
    let mut meanwhile = 0;
    for (at, rotates) in (0..40).flat_map(|at| [false, true].map(|rotates| (at, rotates))) {
        let disk = FakeDisk::new(at);
        let mut store = StoreFiles::create(Arc::new(disk.process(1)), KIND, 7).unwrap();
        let commit = |store: &mut StoreFiles, record: &Vec<u8>| {
            store.log().stage(record);
            store.log().flush().unwrap();
        };
        records[..3].iter().for_each(|record| commit(&mut store, record));
        let (store, rest) = (Mutex::new(store), records[3..].to_vec());
        let writer = move || {
            let store = &mut *store.lock().unwrap();
            if rotates {
                store.log().rotate();
            }
            rest.iter().for_each(|record| commit(store, record));
        };
        let directory = Meanwhile::new(disk.process(2), at, writer);
        let found = all_of(&Recovered::read(&directory, KIND).unwrap()).unwrap();
        assert!(found.len() >= 3 && records.starts_with(&found), "operation {at}: {found:?}");
        meanwhile += u32::from(directory.turns.are_over());
    }
    assert!((20..80).contains(&meanwhile), "the reader has fewer operations: {meanwhile}");
}

/// The remains of a process killed between making a temporary file and taking its name away.
#[test]
fn names_of_temporary_files_are_removed_when_a_store_is_opened() {
    let disk = FakeDisk::new(1);
    drop(StoreFiles::create(Arc::new(disk.process(1)), KIND, 7).unwrap());
    disk.put("vicus-scratch-0", b"");
    disk.put("notes", b"of the owner");
    drop(StoreFiles::open(Arc::new(disk.process(1)), KIND).unwrap());
    assert_eq!((disk.contents("vicus-scratch-0"), disk.contents("notes")), (None, Some(b"of the owner".to_vec())));
}
