//! Archives of stores, whose objects can be made to fail.

use crate::graphs::Chance;
use oxrdf::{GraphName, Literal, NamedNode, Quad};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use vicus_rdf::Order;
use vicus_service::{
    Archive, ArchiveError, Archiving, ArchivingOptions, NotArchived, Objects, ReadAt, RestoredAs, Store, Until,
    check_store, create_store, open_store, read_store,
};

type Numbers = BTreeSet<i64>;

/// Objects in memory. One call in `one_in` fails; of a failed call to make an object, it may be there all the same.
#[derive(Debug, Default)]
struct Memory {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    chance: Mutex<Option<(u64, Chance)>>,
}

impl Memory {
    fn fails(&self) -> bool {
        self.chance.lock().unwrap().as_mut().is_some_and(|(one_in, chance)| chance.below(*one_in as usize) == 0)
    }

    fn names(&self, beginning: &str) -> Vec<String> {
        self.objects.lock().unwrap().keys().filter(|name| name.starts_with(beginning)).cloned().collect()
    }
}

fn broken() -> io::Error {
    io::Error::new(ErrorKind::ConnectionReset, "the connection broke off")
}

impl Objects for Memory {
    fn list(&self) -> io::Result<Vec<String>> {
        if self.fails() { Err(broken()) } else { Ok(self.names("")) }
    }

    fn get(&self, name: &str, range: Option<(u64, u64)>) -> io::Result<Option<Vec<u8>>> {
        if self.fails() {
            return Err(broken());
        }
        let objects = self.objects.lock().unwrap();
        let Some(bytes) = objects.get(name) else { return Ok(None) };
        let (from, to) = range.unwrap_or((0, bytes.len() as u64));
        let part = bytes.get(from as usize..to as usize);
        part.map(|part| Some(part.to_vec())).ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    fn put(&self, name: &str, bytes: u64, read: &mut ReadAt<'_>) -> io::Result<()> {
        let fails = self.fails();
        if fails && self.fails() {
            return Err(broken());
        }
        let mut content = vec![0; bytes as usize];
        for (at, piece) in content.chunks_mut(1000).enumerate() {
            read(at as u64 * 1000, piece)?;
        }
        self.objects.lock().unwrap().insert(name.to_owned(), content);
        if fails { Err(broken()) } else { Ok(()) }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let fails = self.fails();
        if !fails || !self.fails() {
            self.objects.lock().unwrap().remove(name);
        }
        if fails { Err(broken()) } else { Ok(()) }
    }
}

struct Folders(PathBuf, usize);

impl Folders {
    fn new(name: &str) -> Folders {
        let path = std::env::temp_dir().join(format!("vicus-archives-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Folders(path, 0)
    }

    fn next(&mut self) -> PathBuf {
        self.1 += 1;
        self.0.join(self.1.to_string())
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn quad(number: i64) -> Quad {
    let node = NamedNode::new_unchecked("http://e/s");
    Quad::new(node.clone(), node, Literal::from(number), GraphName::DefaultGraph)
}

/// Inserts a number, and removes another one.
fn change(store: &Store, insert: i64, remove: Option<i64>) {
    let mut transaction = store.write().unwrap();
    transaction.insert_quad(quad(insert).as_ref()).unwrap();
    if let Some(remove) = remove {
        transaction.delete_quad(quad(remove).as_ref()).unwrap();
    }
    transaction.commit().unwrap();
}

fn numbers(store: &Store) -> Numbers {
    let snapshot = store.snapshot();
    let index = snapshot.index(Order::Gspo);
    (0..index.len()).map(|row| index.quad(row)[2].as_integer().expect("an integer")).collect()
}

fn send(archive: &Archive, store: &Store) -> Result<u64, ArchiveError> {
    archive.send(store, &mut |_, _| Ok(())).map(|sent| sent.last)
}

fn restored(archive: &Archive, folders: &mut Folders, until: Until, role: RestoredAs) -> Result<Store, ArchiveError> {
    let path = folders.next();
    archive.restore(&path, until, role, &mut |_, _| Ok(()))?;
    check_store(&path, &mut |_, _| {}).unwrap();
    Ok(open_store(&path).unwrap())
}

/// Changes, merges and restarts of a store, whose objects are sent now and then, while calls fail. In between the store
/// is lost, and is made again from its archive as it was at some record. In the end it is made again as it was at each.
#[test]
fn every_archived_state_of_a_store_is_made_again() {
    for seed in 0..5 {
        println!("seed {seed}");
        let mut chance = Chance(seed);
        let mut folders = Folders::new(&format!("random-{seed}"));
        let memory = Arc::new(Memory::default());
        let archive = Archive::of("memory", Arc::clone(&memory) as Arc<dyn Objects>);
        let mut path = folders.next();
        let mut store = create_store(&path).unwrap();
        // The store's numbers with each record, those records that are surely in the archive, the last sent one, and
        // whether records since then may be in a base alone.
        let (mut states, mut surely) = (BTreeMap::from([(0, Numbers::new())]), BTreeSet::new());
        let (mut sent, mut is_merged, mut next) = (0, false, 0);
        for _ in 0..60 {
            match chance.below(20) {
                0..10 => {
                    let now = numbers(&store);
                    let remove = now.iter().nth(chance.below(now.len() + 2)).copied();
                    change(&store, next, remove);
                    next += 1;
                    states.insert(store.standing().last, numbers(&store));
                }
                10..12 => is_merged |= store.merge(&mut |_| {}).unwrap(),
                12 => {
                    drop(store);
                    store = open_store(&path).unwrap();
                }
                13..19 => {
                    *memory.chance.lock().unwrap() = Some((4, Chance(chance.below(1 << 30) as u64)));
                    let done = send(&archive, &store);
                    *memory.chance.lock().unwrap() = None;
                    match done {
                        Ok(last) => {
                            assert_eq!(last, store.standing().last);
                            surely.extend(if is_merged { last..=last } else { sent + 1..=last });
                            surely.insert(last);
                            (sent, is_merged) = (last, false);
                        }
                        Err(ArchiveError::Objects { error, .. }) => {
                            assert_eq!(error.kind(), ErrorKind::ConnectionReset)
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                _ => {
                    let Some(&back) = surely.iter().nth(chance.below(surely.len() + 1)) else { continue };
                    store = restored(&archive, &mut folders, Until::Record(back), RestoredAs::Writer).unwrap();
                    path = folders.0.join(folders.1.to_string());
                    assert_eq!(numbers(&store), states[&back], "record {back}");
                    states.retain(|record, _| *record <= back);
                    surely.retain(|record| *record <= back);
                    // The record that begins the epoch changes nothing.
                    states.insert(store.standing().last, numbers(&store));
                    (sent, is_merged) = (back, false);
                }
            }
        }
        let last = send(&archive, &store).unwrap();
        surely.insert(last);
        for (&record, expected) in &states {
            match restored(&archive, &mut folders, Until::Record(record), RestoredAs::Follower) {
                Ok(store) => assert_eq!(numbers(&store), *expected, "record {record} of {last}"),
                Err(ArchiveError::NotArchived(NotArchived::Gap { .. } | NotArchived::Older { .. })) => {
                    assert!(!surely.contains(&record), "record {record} of {last} is gone");
                }
                Err(error) => panic!("record {record}: {error}"),
            }
        }
        let newest = restored(&archive, &mut folders, Until::Last, RestoredAs::Writer).unwrap();
        assert_eq!(numbers(&newest), numbers(&store));
        change(&newest, -1, None);
    }
}

#[test]
fn what_is_sent_once_is_not_sent_again() {
    let mut folders = Folders::new("once");
    let store = create_store(&folders.next()).unwrap();
    let place = folders.next();
    let archive = Archive::new(place.to_str().unwrap(), None).unwrap();
    for number in 0..100 {
        change(&store, number, None);
    }
    store.merge(&mut |_| {}).unwrap();
    let first = archive.send(&store, &mut |_, _| Ok(())).unwrap();
    assert!((first.last, first.records) == (100, 0) && first.bytes > 1000, "{first:?}");
    change(&store, 100, None);
    let second = archive.send(&store, &mut |_, _| Ok(())).unwrap();
    assert!((second.last, second.records) == (101, 1) && second.bytes < 1000, "{second:?}");
    let third = archive.send(&store, &mut |_, _| Ok(())).unwrap();
    assert_eq!((third.last, third.records, third.bytes), (101, 0, 0));
    let again = restored(&archive, &mut folders, Until::Last, RestoredAs::Follower).unwrap();
    assert_eq!(numbers(&again), numbers(&store));
    assert!(again.write().is_err(), "a follower takes no changes");
}

#[test]
fn damaged_and_missing_objects_are_named_and_leave_no_folder() {
    let mut folders = Folders::new("damaged");
    let store = create_store(&folders.next()).unwrap();
    let memory = Arc::new(Memory::default());
    let archive = Archive::of("memory", Arc::clone(&memory) as Arc<dyn Objects>);
    let path = folders.next();
    let restore = || archive.restore(&path, Until::Last, RestoredAs::Writer, &mut |_, _| Ok(()));
    assert!(matches!(restore(), Err(ArchiveError::None)));
    change(&store, 1, None);
    store.merge(&mut |_| {}).unwrap();
    change(&store, 2, None);
    send(&archive, &store).unwrap();
    let names = memory.names("");
    // A head, a base with its file or files, and records.
    assert!(names.len() >= 4, "{names:?}");
    for name in &names {
        let whole = memory.objects.lock().unwrap()[name].clone();
        for at in [0, whole.len() / 2, whole.len() - 1] {
            memory.objects.lock().unwrap().get_mut(name).unwrap()[at] ^= 0x10;
            let error = restore().map(drop).unwrap_err().to_string();
            assert!(error.contains(name) || error.contains("damaged") || error.contains("fetched-"), "{name}: {error}");
            assert!(!path.exists(), "{name}: {error}");
            memory.objects.lock().unwrap().insert(name.clone(), whole.clone());
        }
        memory.objects.lock().unwrap().remove(name);
        match restore() {
            // Without its last object, an archive is as it was before that was sent.
            Ok(restored) => {
                assert!(name.starts_with("records/") && restored.last == 1, "{name}: {restored:?}");
                std::fs::remove_dir_all(&path).unwrap();
            }
            Err(_) => assert!(!path.exists(), "{name}"),
        }
        memory.objects.lock().unwrap().insert(name.clone(), whole);
    }
    assert_eq!(restore().unwrap().quads, 2);
    let error = restore().unwrap_err().to_string();
    assert!(error.contains("holds a store already"), "{error}");
    let other = create_store(&folders.next()).unwrap();
    assert!(matches!(send(&archive, &other), Err(ArchiveError::OtherStore)));
    let beyond = archive.restore(&folders.next(), Until::Record(9), RestoredAs::Writer, &mut |_, _| Ok(()));
    assert!(matches!(beyond, Err(ArchiveError::NotArchived(NotArchived::Beyond { last: 2 }))), "{beyond:?}");
    let given_up = archive
        .restore(&folders.next(), Until::Last, RestoredAs::Writer, &mut |_, _| Err(ErrorKind::Interrupted.into()));
    assert!(given_up.unwrap_err().is_given_up());
    assert!(Archive::new("ftp://host/folder", None).is_err());
}

#[test]
fn a_store_that_is_archived_on_a_thread_has_all_there_when_that_ends() {
    let mut folders = Folders::new("thread");
    let store = Arc::new(create_store(&folders.next()).unwrap());
    let memory = Arc::new(Memory::default());
    let archive = Archive::of("memory", Arc::clone(&memory) as Arc<dyn Objects>);
    let said = Arc::new(Mutex::new(Vec::new()));
    let tell = {
        let said = Arc::clone(&said);
        Arc::new(move |message: &str| said.lock().unwrap().push(message.to_owned()))
    };
    *memory.chance.lock().unwrap() = Some((1, Chance(1)));
    let options = ArchivingOptions { every: Duration::from_millis(10), keep: None, tell };
    let archiving = Archiving::new(archive.clone(), &store, options);
    archiving.begin().unwrap();
    change(&store, 1, None);
    let wait = |is_there: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !is_there() {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?} {:?}", archiving.behind(), said.lock().unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait(&|| archiving.behind().problem.is_some());
    assert_eq!(archiving.behind().records, 1);
    *memory.chance.lock().unwrap() = None;
    wait(&|| archiving.behind().records == 0);
    let said = said.lock().unwrap().clone();
    assert!(said[0].contains("memory takes nothing") && said[0].contains("broke off"), "{said:?}");
    assert_eq!(said.last().unwrap(), "archives to memory");
    change(&store, 2, None);
    assert!(archiving.end(Duration::from_secs(60)));
    let again = restored(&archive, &mut folders, Until::Last, RestoredAs::Writer).unwrap();
    assert_eq!(numbers(&again), Numbers::from([1, 2]));
}

/// The archive has two writers' epochs. A store that is restored as it was in the first one begins a third, and what it
/// writes is restored the next time.
#[test]
fn a_store_restored_to_a_time_is_the_newest_one() {
    let mut folders = Folders::new("time");
    let memory = Arc::new(Memory::default());
    let archive = Archive::of("memory", Arc::clone(&memory) as Arc<dyn Objects>);
    let first = create_store(&folders.next()).unwrap();
    change(&first, 1, None);
    send(&archive, &first).unwrap();
    // As if these objects were from the beginning of 1970.
    let old: Vec<(String, Vec<u8>)> = std::mem::take(&mut *memory.objects.lock().unwrap()).into_iter().collect();
    let renamed = old.into_iter().map(|(name, bytes)| match name.rsplit_once('-') {
        Some((before, _)) if !name.starts_with("base/") => (format!("{before}-{:020}", 10), bytes),
        _ => (name, bytes),
    });
    *memory.objects.lock().unwrap() = renamed.collect();
    let second = restored(&archive, &mut folders, Until::Last, RestoredAs::Writer).unwrap();
    change(&second, 2, None);
    send(&archive, &second).unwrap();
    assert_eq!(second.standing().epoch().number, 1);
    let third = restored(&archive, &mut folders, Until::Time(10), RestoredAs::Writer).unwrap();
    assert_eq!((numbers(&third), third.standing().epoch().number), (Numbers::from([1]), 2));
    change(&third, 3, None);
    send(&archive, &third).unwrap();
    let newest = restored(&archive, &mut folders, Until::Last, RestoredAs::Follower).unwrap();
    assert_eq!(numbers(&newest), Numbers::from([1, 3]));
    // The other two are older writers now.
    for store in [&first, &second] {
        assert!(matches!(send(&archive, store), Err(ArchiveError::NewerWriter(_))));
    }
}

/// A folder is put back from a picture of its disk, and goes on with other records of the same numbers.
#[test]
fn other_records_of_the_same_numbers_are_refused() {
    let mut folders = Folders::new("put-back");
    let memory = Arc::new(Memory::default());
    let archive = Archive::of("memory", Arc::clone(&memory) as Arc<dyn Objects>);
    let path = folders.next();
    let store = create_store(&path).unwrap();
    change(&store, 1, None);
    drop(store);
    let picture = folders.next();
    std::fs::create_dir(&picture).unwrap();
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), picture.join(entry.file_name())).unwrap();
    }
    let store = open_store(&path).unwrap();
    change(&store, 2, None);
    change(&store, 3, None);
    assert_eq!(archive.send_folder(&path, &mut |_, _| Ok(())).unwrap().last, 3);
    let store = open_store(&picture).unwrap();
    for number in [20, 30, 40] {
        change(&store, number, None);
        let refused = send(&archive, &store);
        assert!(matches!(refused, Err(ArchiveError::OtherRecord(_))), "{refused:?}");
    }
}

/// The files of a folder are taken to another one at each step of a restoration, as if the process had been killed
/// there.
#[test]
fn a_restoration_that_is_killed_leaves_no_store_and_is_begun_anew() {
    let mut folders = Folders::new("killed");
    let memory = Arc::new(Memory::default());
    let archive = Archive::of("memory", Arc::clone(&memory) as Arc<dyn Objects>);
    let store = create_store(&folders.next()).unwrap();
    (0..50).for_each(|number| change(&store, number, None));
    store.merge(&mut |_| {}).unwrap();
    for number in 50..53 {
        change(&store, number, None);
        send(&archive, &store).unwrap();
    }
    let (path, root) = (folders.next(), folders.0.clone());
    let mut killed = Vec::new();
    let mut kill = || {
        let copy = root.join(format!("killed-{}", killed.len()));
        std::fs::create_dir(&copy).unwrap();
        for entry in std::fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        killed.push(copy);
    };
    archive
        .restore(&path, Until::Last, RestoredAs::Writer, &mut |_, _| {
            kill();
            Ok(())
        })
        .unwrap();
    assert!(killed.len() >= 4, "a base and three objects with records: {}", killed.len());
    for folder in killed {
        for error in [open_store(&folder).map(drop), read_store(&folder).map(drop)] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("restoring was interrupted: restore it again"), "{error}");
        }
        archive.restore(&folder, Until::Last, RestoredAs::Writer, &mut |_, _| Ok(())).unwrap();
        check_store(&folder, &mut |_, _| {}).unwrap();
        assert_eq!(numbers(&open_store(&folder).unwrap()), (0..53).collect());
    }
}

/// Gives the objects that have no such time yet the time of the present moment of a test.
fn stamp(memory: &Memory, known: &mut BTreeSet<String>, time: u64) {
    let mut objects = memory.objects.lock().unwrap();
    for (name, bytes) in std::mem::take(&mut *objects) {
        let name = match name.rsplit_once('-') {
            Some((before, _)) if !name.starts_with("base/") && !known.contains(&name) => format!("{before}-{time:020}"),
            _ => name,
        };
        known.insert(name.clone());
        objects.insert(name, bytes);
    }
}

/// Objects are removed now and then, by calls of which some fail, while the store is changed, merged, sent, lost and
/// restored. A day passes between two changes.
#[test]
fn each_state_of_the_kept_span_is_made_again_after_objects_were_removed() {
    const DAY: u64 = 86_400;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let mut all_removed = 0;
    for seed in 0..4 {
        println!("seed {seed}");
        let mut chance = Chance(seed);
        let mut folders = Folders::new(&format!("pruned-{seed}"));
        let memory = Arc::new(Memory::default());
        let archive = Archive::of("memory", Arc::clone(&memory) as Arc<dyn Objects>);
        let mut store = create_store(&folders.next()).unwrap();
        let (mut known, mut states) = (BTreeSet::new(), BTreeMap::new());
        // The days before the present one, so that the span of some days ends now.
        for day in (0..40).rev() {
            let time = now - day * DAY - DAY / 2;
            change(&store, day as i64, numbers(&store).first().copied().filter(|_| day % 3 == 0));
            if chance.below(6) == 0 {
                store.merge(&mut |_| {}).unwrap();
            }
            send(&archive, &store).unwrap();
            stamp(&memory, &mut known, time);
            states.insert(time, (store.standing().last, numbers(&store)));
            if chance.below(8) == 0 {
                // The store is lost, and goes on from a state before. The later ones are still there by their times.
                let back = states.range(..=time).nth_back(chance.below(2)).map(|(time, _)| *time);
                let until = Until::Time(back.unwrap_or(time).max(now - (day + 2) * DAY));
                drop(store);
                store = restored(&archive, &mut folders, until, RestoredAs::Writer).unwrap();
            }
            if chance.below(5) == 0 {
                let kept = 3 + chance.below(6) as u64;
                // Days after this one are not there yet.
                let keep = Duration::from_secs((day + kept) * DAY);
                let mut prune = || {
                    *memory.chance.lock().unwrap() = Some((12, Chance(chance.below(1 << 30) as u64)));
                    let pruned = archive.prune(keep, &mut |_, _| Ok(()));
                    *memory.chance.lock().unwrap() = None;
                    pruned
                };
                let before = memory.names("").len();
                loop {
                    match prune() {
                        Ok(_) => break,
                        Err(ArchiveError::Objects { error, .. }) => {
                            assert_eq!(error.kind(), ErrorKind::ConnectionReset)
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                all_removed += before.saturating_sub(memory.names("").len());
                states.retain(|time, _| *time >= now - (day + kept) * DAY);
            }
        }
        for (time, (_, expected)) in &states {
            let made = restored(&archive, &mut folders, Until::Time(*time), RestoredAs::Follower).unwrap();
            assert_eq!(numbers(&made), *expected, "{} days ago", (now - time) / DAY);
        }
        assert!(memory.names("bases/").len() < 12, "{:?}", memory.names(""));
    }
    assert!(all_removed > 20, "{all_removed} objects were removed");
}

#[test]
fn a_base_file_that_is_damaged_is_not_archived() {
    let mut folders = Folders::new("damaged-base");
    let path = folders.next();
    let store = create_store(&path).unwrap();
    let mut transaction = store.write().unwrap();
    (0..20_000).for_each(|number| transaction.insert_quad(quad(number).as_ref()).map(drop).unwrap());
    transaction.commit().unwrap();
    store.merge(&mut |_| {}).unwrap();
    drop(store);
    let base = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let base = base.into_iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with("base-")).unwrap();
    let whole = std::fs::read(&base).unwrap();
    for at in [whole.len() / 3, whole.len() / 2] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        // Another file of that name: a mapped one is not written to.
        std::fs::remove_file(&base).unwrap();
        std::fs::write(&base, &changed).unwrap();
        let place = folders.next();
        let archive = Archive::new(place.to_str().unwrap(), None).unwrap();
        let error = archive.send_folder(&path, &mut |_, _| Ok(())).unwrap_err().to_string();
        assert!(error.contains("is damaged at byte") && error.contains("base-"), "{error}");
        // The file is not there, and no base names it.
        for folder in ["base", "bases"] {
            let there = std::fs::read_dir(place.join(folder)).map_or(0, Iterator::count);
            assert_eq!(there, 0, "{folder}");
        }
    }
}
