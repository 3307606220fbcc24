//! Copies that can't be followed, bases that change on their way, full disks, and followers that are missing.

use crate::world::{STORE, Values, batch, values};
use oxrdf::{GraphNameRef, Literal, NamedNodeRef, QuadRef};
use std::sync::{Arc, OnceLock, Weak};
use vicus_files::FakeDisk;
use vicus_store::{
    CommitError, Committed, Content, CopyAnswer, CopyStanding, Epoch, Followed, NoWaiting, Pending, Refused, Store,
    StoreError, StoreReader, Waiting, check,
};

const MUCH: usize = 1 << 20;

fn create(disk: &FakeDisk, number: u64) -> Store {
    Store::create(Arc::new(disk.process(1)), number, Arc::new(NoWaiting)).unwrap()
}

fn open(disk: &FakeDisk) -> Store {
    Store::open(Arc::new(disk.process(2)), Arc::new(NoWaiting)).unwrap()
}

fn insert(store: &Store, values: std::ops::Range<u64>) {
    for value in values {
        batch(value).commit(store).unwrap();
    }
}

/// A question and its answer, as bytes.
fn ask(follower: &Store, writer: &Store) -> CopyAnswer {
    let ask = CopyStanding::decode(follower.standing().encode().as_bytes()).unwrap();
    CopyAnswer::decode(&writer.answer(&ask, MUCH, true).unwrap().encode()).unwrap()
}

fn step(follower: &Store, writer: &Store) -> Result<Followed, StoreError> {
    follower.follow_up(&ask(follower, writer))
}

/// All bytes of the offered base, and their adoption.
fn fetch(follower: &Store, writer: &Store) -> Option<Vec<String>> {
    let offer = writer.offer();
    let mut files = Vec::new();
    for entry in &offer.files {
        let mut file = follower.fetch(entry.fingerprint).unwrap();
        let from = writer.open_base(&entry.name).unwrap().expect("it is the present one");
        let mut bytes = vec![0; file.left() as usize];
        from.read_at(file.at(), &mut bytes).unwrap();
        file.write(&bytes).unwrap();
        files.push(follower.fetched(file).unwrap());
    }
    follower.adopt(&offer, files).unwrap()
}

/// Two copies with the same records; the first one writes.
fn pair() -> (FakeDisk, Store, FakeDisk, Store) {
    let disks = [FakeDisk::new(1), FakeDisk::new(2)];
    let [writer, follower] = [&disks[0], &disks[1]].map(|disk| create(disk, STORE));
    follower.follow(5).unwrap();
    insert(&writer, 0..3);
    assert_eq!(step(&follower, &writer).unwrap(), Followed::Appended(3));
    let [one, other] = disks;
    (one, writer, other, follower)
}

fn range(range: std::ops::Range<u64>) -> Values {
    range.collect()
}

#[test]
fn a_follower_has_what_the_writer_has_and_takes_no_changes() {
    let (_, writer, disk, follower) = pair();
    assert_eq!(step(&follower, &writer).unwrap(), Followed::UpToDate);
    assert_eq!(values(&follower.snapshot()), range(0..3));
    assert_eq!(follower.numbered_snapshot().1, 3);
    let refused = batch(9).commit(&follower);
    assert!(matches!(refused, Err(CommitError::Failed(StoreError::Follows))), "{refused:?}");
    assert!(matches!(follower.write().map(drop), Err(StoreError::Follows)));
    drop(follower);
    // It is one still when it is opened again.
    let follower = open(&disk);
    assert!(matches!(batch(9).commit(&follower), Err(CommitError::Failed(StoreError::Follows))));
    assert!(check(&disk.process(3), &mut |_, _| {}).is_ok());
}

/// What happened: a follower had got many records at once and had no state between them. A query for one of these
/// made no part there.
#[test]
fn a_follower_has_the_states_between_records_that_came_together() {
    let (_, writer, _, follower) = pair();
    follower.keep_recent();
    let states: Vec<_> = (3..40)
        .map(|value| {
            insert(&writer, value..value + 1);
            writer.numbered_snapshot()
        })
        .collect();
    assert_eq!(step(&follower, &writer).unwrap(), Followed::Appended(37));
    for (state, number) in &states {
        let same = |snapshot: &Arc<vicus_rdf::Snapshot>| snapshot.fingerprint() == state.fingerprint();
        let found = follower.recent_snapshot(*number, same).unwrap_or_else(|| panic!("{number}"));
        assert_eq!(values(&found), range(0..*number));
    }
    assert!(follower.recent_snapshot(41, |_| true).is_none() && follower.recent_snapshot(2, |_| true).is_none());
}

/// What happened: a follower merged when it had nothing to do, at other records than its writer. Terms had other ids
/// there from then on, and it could run no part of the writer's queries.
#[test]
fn a_follower_merges_where_the_copy_that_it_follows_has() {
    for keeps_states in [false, true] {
        let (writer_disk, writer, disk, follower) = pair();
        if keeps_states {
            follower.keep_recent();
        }
        insert(&writer, 3..600);
        assert_eq!(step(&follower, &writer).unwrap(), Followed::Appended(597));
        assert!(writer.is_merge_due_when_idle() && !follower.is_merge_due_when_idle());
        // The follower has more records when it hears of the merge.
        assert!(writer.merge(&mut |_| {}).unwrap());
        insert(&writer, 600..610);
        assert_eq!(step(&follower, &writer).unwrap(), Followed::Appended(10));
        assert_eq!((writer.included(), follower.included(), follower.merged_there()), (600, 0, 600));
        assert!(follower.is_merge_due() && follower.merge(&mut |_| {}).unwrap() && !follower.is_merge_due());
        assert_eq!(follower.included(), 600);
        assert_eq!(follower.snapshot().fingerprint(), writer.snapshot().fingerprint());
        // A merge without later changes is heard of by an empty answer.
        assert!(writer.merge(&mut |_| {}).unwrap());
        assert_eq!(step(&follower, &writer).unwrap(), Followed::UpToDate);
        assert!(follower.is_merge_due() && follower.merge(&mut |_| {}).unwrap());
        insert(&writer, 610..612);
        assert_eq!(step(&follower, &writer).unwrap(), Followed::Appended(2));
        drop((writer, follower));
        let (writer, follower) = (open(&writer_disk), open(&disk));
        assert_eq!((writer.included(), follower.included()), (610, 610));
        assert_eq!(values(&follower.snapshot()), range(0..612));
        assert_eq!(follower.snapshot().fingerprint(), writer.snapshot().fingerprint());
        assert!(check(&disk.process(3), &mut |_, _| {}).is_ok());
    }
}

/// A load is in no record, so a copy with all records before it needs the base.
#[test]
fn data_that_was_loaded_comes_with_a_base_and_what_follows_it_by_records() {
    let (_, writer, _, follower) = pair();
    let mut loader = vicus_rdf::Loader::default();
    loader.ntriples(b"<http://example.org/has> <http://example.org/has> \"70\" .\n").unwrap();
    writer.load(loader.finish(), &mut |_| {}).unwrap();
    insert(&writer, 3..5);
    assert_eq!(step(&follower, &writer).unwrap(), Followed::NeedsBase);
    assert_eq!(fetch(&follower, &writer), Some(Vec::new()));
    assert_eq!(step(&follower, &writer).unwrap(), Followed::Appended(2));
    assert_eq!(values(&follower.snapshot()), values(&writer.snapshot()));
    assert_eq!(follower.standing().last, 6, "three, the load, and two");
}

/// The log is kept for a follower that has asked, also over a restart of the writer.
#[test]
fn a_merge_does_not_take_the_records_that_a_follower_needs() {
    let (disk, writer, _, follower) = pair();
    insert(&writer, 3..5);
    assert!(writer.merge(&mut |_| {}).unwrap());
    insert(&writer, 5..6);
    drop(writer);
    let writer = open(&disk);
    assert_eq!(step(&follower, &writer).unwrap(), Followed::Appended(3));
    assert_eq!(values(&follower.snapshot()), range(0..6));
}

#[test]
fn a_different_store_is_not_followed() {
    let (_, writer, _, follower) = pair();
    let other = create(&FakeDisk::new(3), STORE + 1);
    insert(&other, 0..9);
    assert_eq!(step(&follower, &other).unwrap(), Followed::Refused(Refused::OtherStore));
    assert_eq!(step(&follower, &follower).unwrap(), Followed::Refused(Refused::Itself));
    insert(&writer, 3..4);
    assert_eq!(step(&follower, &writer).unwrap(), Followed::Appended(1), "it goes on");
}

#[test]
fn a_base_that_vanishes_or_changes_on_its_way_is_fetched_again() {
    let (_, writer, disk, _) = pair();
    drop(disk);
    writer.merge(&mut |_| {}).unwrap();
    let disk = FakeDisk::new(7);
    let follower = create(&disk, STORE);
    follower.follow(6).unwrap();
    let offer = writer.offer();
    let entry = &offer.files[0];
    let from = writer.open_base(&entry.name).unwrap().unwrap();
    let mut bytes = vec![0; entry.fingerprint.bytes as usize];
    from.read_at(0, &mut bytes).unwrap();
    // A part of it comes, and the process is killed.
    let mut file = follower.fetch(entry.fingerprint).unwrap();
    file.write(&bytes[..100]).unwrap();
    drop((file, follower));
    disk.kill();
    let follower = open(&disk);
    let mut file = follower.fetch(entry.fingerprint).unwrap();
    assert_eq!(file.at(), 100, "it goes on behind the part");
    bytes[200] ^= 1;
    file.write(&bytes[100..]).unwrap();
    let error = follower.fetched(file).unwrap_err();
    assert!(error.to_string().contains("is damaged at byte"), "{error}");
    assert_eq!(follower.fetch(entry.fingerprint).unwrap().at(), 0, "all of it comes again");
    insert(&writer, 3..5);
    writer.merge(&mut |_| {}).unwrap();
    assert!(writer.open_base(&entry.name).unwrap().is_none(), "another one has taken its place");
    assert_eq!(fetch(&follower, &writer), Some(Vec::new()));
    assert_eq!(values(&follower.snapshot()), range(0..5));
    assert!(!disk.names().iter().any(|name| name.starts_with("fetched-")), "{:?}", disk.names());
}

#[test]
fn a_full_disk_at_the_follower_stops_it_and_not_the_writer() {
    let (_, writer, disk, follower) = pair();
    disk.set_room(Some(0));
    insert(&writer, 3..400);
    let error = step(&follower, &writer).unwrap_err();
    assert!(error.is_full(), "{error}");
    assert_eq!(values(&follower.snapshot()), range(0..3));
    assert_eq!(follower.standing().last, 3);
    insert(&writer, 400..401);
    disk.set_room(None);
    assert_eq!(step(&follower, &writer).unwrap(), Followed::Appended(398));
    assert_eq!(values(&follower.snapshot()), range(0..401));
}

/// An old writer's records that no other copy has: in the log, and merged into a base.
#[test]
fn an_old_writer_keeps_its_own_records_in_files_and_follows() {
    for is_merged in [false, true] {
        let (disk, old, _, new) = pair();
        insert(&old, 10..12);
        if is_merged {
            old.merge(&mut |_| {}).unwrap();
        }
        let epoch = Epoch { number: 1, by: 3 };
        new.promise(epoch).unwrap();
        assert_eq!(new.begin_epoch(epoch).unwrap(), 4);
        insert(&new, 20..23);
        let before = values(&old.snapshot());
        let mut reader = StoreReader::default();
        assert_eq!(values(&reader.read_at(&disk.process(4), None).unwrap().0), before);
        old.follow(8).unwrap();
        let kept = match step(&old, &new).unwrap() {
            Followed::Cut { after: 3, count: 2, kept } => {
                assert!(!is_merged);
                kept
            }
            Followed::NeedsBase => {
                assert!(is_merged, "the base has them");
                fetch(&old, &new).unwrap()
            }
            other => panic!("{other:?}"),
        };
        assert!(before.contains(&11) && !values(&old.snapshot()).contains(&11));
        // A process that has read the files before finds that these records were cut.
        let now = reader.read_at(&disk.process(4), None).unwrap().0;
        assert_eq!(values(&now), values(&old.snapshot()));
        for path in &kept {
            let name = path.rsplit('/').next().unwrap();
            assert!(name.starts_with("aside-") && disk.contents(name).is_some_and(|bytes| !bytes.is_empty()), "{path}");
        }
        assert!(!kept.is_empty());
        assert!(matches!(step(&old, &new).unwrap(), Followed::Appended(_)));
        let expected: Values = range(0..3).into_iter().chain(20..23).collect();
        assert_eq!(values(&old.snapshot()), expected);
        assert_eq!(old.standing().epoch(), epoch);
        drop(old);
        let old = open(&disk);
        assert_eq!((values(&old.snapshot()), old.standing().epoch()), (expected, epoch));
        assert!(check(&disk.process(3), &mut |_, _| {}).unwrap().aside.len() >= kept.len());
    }
}

#[test]
fn a_writer_that_learns_of_a_newer_one_takes_no_more_changes() {
    let (disk, old, _, new) = pair();
    let epoch = Epoch { number: 1, by: 3 };
    new.promise(epoch).unwrap();
    // A sender without the right to write is refused, and ends nothing.
    assert_eq!(old.answer(&new.standing(), MUCH, false).unwrap().content, Content::Refused(Refused::Behind));
    assert!(old.standing().may_write());
    assert_eq!(ask(&new, &old).content, Content::Refused(Refused::Behind));
    for store in [old, open_again(&disk)] {
        let refused = batch(9).commit(&store);
        assert!(matches!(refused, Err(CommitError::Failed(StoreError::Replaced(_)))), "{refused:?}");
        drop(store);
    }
    // It was promised once, so no other one can be promoted with it, nor with an older one.
    assert!(matches!(new.promise(epoch), Err(StoreError::Replaced(known)) if known == epoch));
    assert!(new.begin_epoch(Epoch { number: 2, by: 0 }).is_err());
    new.begin_epoch(epoch).unwrap();
    insert(&new, 9..10);
}

/// A question tells a writer of a newer one while a change is on its way: no follower is needed, and it is written, but
/// the newer writer may not have it.
#[test]
fn a_change_that_is_written_behind_a_promise_is_not_confirmed() {
    let (_, old, _, new) = pair();
    let change = batch(9).stage(&old).unwrap().unwrap();
    new.promise(Epoch { number: 1, by: 3 }).unwrap();
    assert_eq!(ask(&new, &old).content, Content::Refused(Refused::Behind));
    let told = change.poll(&old).expect("it is written");
    assert!(matches!(told, Err(CommitError::NotConfirmed(StoreError::Replaced(_)))), "{told:?}");
    assert_eq!((values(&old.snapshot()), old.standing().last), (range(0..3), 4));
    // It is the writer again after all, with the record.
    let epoch = Epoch { number: 2, by: 3 };
    assert_eq!(old.promise(epoch).unwrap().last, 4);
    assert_eq!(old.begin_epoch(epoch).unwrap(), 5);
    assert!(values(&old.snapshot()).contains(&9));
}

/// The other threads of a process: they have their change written while one waits.
#[derive(Debug, Default)]
struct Others(OnceLock<(Weak<Store>, Pending)>);

impl Waiting for Others {
    fn wait(&self, _: u64, ready: &mut dyn FnMut() -> bool) {
        if let Some((store, change)) = self.0.get().filter(|_| !ready()) {
            change.poll(&store.upgrade().expect("it is open"));
        }
        assert!(ready(), "nothing else happens");
    }

    fn wait_at_most(&self, key: u64, _: u64, ready: &mut dyn FnMut() -> bool) {
        self.wait(key, ready);
    }

    fn wake(&self, _: u64) {}

    fn now_ns(&self) -> u64 {
        0
    }
}

#[test]
fn a_promise_counts_the_changes_on_their_way() {
    let others = Arc::new(Others::default());
    let directory = Arc::new(FakeDisk::new(1).process(1));
    let store = Arc::new(Store::create(directory, STORE, Arc::clone(&others) as Arc<dyn Waiting>).unwrap());
    let change = batch(9).stage(&store).unwrap().unwrap();
    others.0.set((Arc::downgrade(&store), change)).unwrap();
    assert_eq!(store.promise(Epoch { number: 1, by: 3 }).unwrap().last, 1);
    let (store, change) = others.0.get().map(|(_, change)| (store, change)).unwrap();
    assert_eq!(change.poll(&store).unwrap().unwrap(), 1, "it was acknowledged before");
}

fn open_again(disk: &FakeDisk) -> Store {
    Store::open(Arc::new(disk.copy().process(9)), Arc::new(NoWaiting)).unwrap()
}

/// Nothing is visible before as many followers have it as are needed; then all that they have is.
#[test]
fn commits_wait_for_followers_and_become_visible_with_their_acknowledgement() {
    let (_, writer, _, follower) = pair();
    writer.need_followers(1, u64::MAX / 2);
    let changes: Vec<_> = (3..6).map(|value| batch(value).stage(&writer).unwrap().unwrap()).collect();
    assert!(changes.iter().all(|change| change.poll(&writer).is_none()));
    assert_eq!((values(&writer.snapshot()), writer.standing().last), (range(0..3), 6));
    assert_eq!(step(&follower, &writer).unwrap(), Followed::Appended(3));
    assert!(changes.iter().all(|change| change.poll(&writer).is_none()), "the writer does not know it yet");
    // A merge changes ids, and publishes nothing.
    assert!(writer.merge(&mut |_| {}).unwrap());
    assert_eq!(values(&writer.snapshot()), range(0..3));
    step(&follower, &writer).unwrap();
    let told: Vec<u64> = changes.iter().map(|change| change.poll(&writer).unwrap().unwrap()).collect();
    assert_eq!((told, values(&writer.snapshot())), (vec![4, 5, 6], range(0..6)));
}

/// The same follower does not count twice.
#[test]
fn one_follower_is_not_two() {
    let (_, writer, disk, follower) = pair();
    writer.need_followers(2, u64::MAX / 2);
    let change = batch(3).stage(&writer).unwrap().unwrap();
    assert!(change.poll(&writer).is_none());
    step(&follower, &writer).unwrap();
    drop(follower);
    let follower = open(&disk);
    for _ in 0..3 {
        step(&follower, &writer).unwrap();
    }
    assert!(change.poll(&writer).is_none());
    let other = create(&FakeDisk::new(9), STORE);
    other.follow(99).unwrap();
    step(&other, &writer).unwrap();
    assert!(change.poll(&writer).is_none());
    step(&other, &writer).unwrap();
    assert_eq!(change.poll(&writer).unwrap().unwrap(), 4);
}

/// A transaction that deletes a value that is not there.
fn change_nothing(store: &Store) -> Result<Committed, CommitError> {
    let iri = NamedNodeRef::new_unchecked("http://example.org/has");
    let mut transaction = store.write()?;
    transaction.delete_quad(QuadRef::new(iri, iri, &Literal::from("none"), GraphNameRef::DefaultGraph))?;
    transaction.commit()
}

/// It may change nothing because of changes that are not confirmed.
#[test]
fn a_transaction_without_changes_waits_for_those_that_it_has_seen() {
    let (_, writer, _, follower) = pair();
    let change = batch(3).stage(&writer).unwrap().unwrap();
    assert_eq!(change_nothing(&writer).unwrap().number, None);
    assert_eq!(values(&writer.snapshot()), range(0..4), "the other change is written");
    assert_eq!(change.poll(&writer).unwrap().unwrap(), 4);
    // Nobody waits for followers.
    writer.need_followers(1, 0);
    for told in [batch(4).commit(&writer), change_nothing(&writer).map(|done| done.number)] {
        assert!(matches!(told, Err(CommitError::NotConfirmed(StoreError::TooFewFollowers(1)))), "{told:?}");
    }
    (0..2).for_each(|_| drop(step(&follower, &writer).unwrap()));
    assert_eq!(change_nothing(&writer).unwrap().number, None, "the follower has it");
}
