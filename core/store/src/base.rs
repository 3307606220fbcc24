//! Base files: a snapshot's sections in one file; written by loading, merging and copying, and read in place.

use crate::error::StoreError;
use crate::following::MergePoint;
use crate::store::{KIND, State, Store, never, replayed};
use crate::transaction::Ask;
use crate::turn::{TicketGuard, lock};
use std::ops::Range;
use std::sync::Arc;
use vicus_disk::{BaseEntry, BaseFile, BaseWriter, Manifest, Section, StoreFiles};
use vicus_files::{Directory, Scratch};
use vicus_flow::BoxError;
use vicus_rdf::checked_bytes::{BytesOwner, CheckedBytes};
use vicus_rdf::sections::Sections;
use vicus_rdf::{Backing, Interrupt, Order, Snapshot};

/// The only base file of a generation.
const NAME: &str = "data";

/// A merge is due when a base has at least this number of changes, and they are at least this part of all quads.
const FEWEST: usize = 4096;
const SHARE: usize = 128;

/// A merge is due when the log has this number of bytes, and they are this part of the base's: a quad inserted and
/// deleted again is no change, but opening reads its records.
const FEWEST_BYTES: u64 = 1 << 20;
const SHARE_OF_BYTES: u64 = 16;

/// A merge is due when the log has this number of records, and as many as this part of the quads: opening applies them,
/// in 1 to 2 us each.
const FEWEST_RECORDS: u64 = 1 << 14;
const SHARE_OF_RECORDS: usize = 512;

/// A merge is due when this share of these numbers was changed and no more changes come.
const WHEN_IDLE: f64 = 1.0 / 16.0;

/// A follower merges by itself at this multiple of these numbers: the copy that it follows may be unable to.
const ALONE: f64 = 4.0;

/// A section of a base file, as core/rdf reads it.
#[derive(Debug)]
struct Mapped(Section);

impl CheckedBytes for Mapped {
    fn bytes(&self) -> &[u8] {
        self.0.unchecked()
    }

    fn check(&self, range: Range<usize>) -> Result<(), BoxError> {
        Ok(self.0.bytes(range).map(drop)?)
    }

    fn senseless(&self, at: usize, what: &str) -> BoxError {
        Box::new(self.0.senseless(at, what))
    }
}

/// The base files of a snapshot.
#[derive(Debug)]
struct Files(Vec<Arc<BaseFile>>);

impl BytesOwner for Files {
    fn lost(&self) -> Option<BoxError> {
        self.0.iter().find_map(|file| file.lost()).map(BoxError::from)
    }
}

/// The data of a store's base files. Reads no more than counts. Later terms are hashed with the store's number, unknown
/// to authors of data.
pub(crate) fn open(bases: &[Arc<BaseFile>], manifest: &Manifest) -> Result<Snapshot, StoreError> {
    if bases.is_empty() {
        return Ok(Snapshot::from_parsed(Vec::new()).hashed_with(manifest.store));
    }
    let find = |name: &str| bases.iter().find_map(|base| base.section(name));
    let lent = Snapshot::lent(&|name| find(name).map(|section| Arc::new(Mapped(section)) as Arc<dyn CheckedBytes>));
    let kept = |snapshot: Snapshot| snapshot.hashed_with(manifest.store).owned_by(Arc::new(Files(bases.to_vec())));
    lent.map(kept).map_err(StoreError::given_up)
}

/// Writes sections to a base file, and lets others work now and then.
struct BaseSections<'a> {
    writer: BaseWriter,
    pause: &'a mut dyn FnMut(u64),
    bytes: u64,
}

impl Sections for BaseSections<'_> {
    fn begin(&mut self, name: &str) -> Result<(), BoxError> {
        Ok(self.writer.begin(name)?)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BoxError> {
        self.writer.write(bytes)?;
        self.bytes += bytes.len() as u64;
        (self.pause)(self.bytes);
        Ok(())
    }
}

/// Writes a snapshot as the base file begun by `begin`. The snapshot must have no changes since its base was built.
fn write(
    snapshot: &Snapshot,
    begin: impl FnOnce() -> Result<(String, BaseWriter), vicus_disk::DiskError>,
    pause: &mut dyn FnMut(u64),
) -> Result<BaseEntry, StoreError> {
    let (name, writer) = begin()?;
    let mut written = BaseSections { writer, pause, bytes: 0 };
    let outcome = snapshot.read_by(|| snapshot.write(&mut written)).and_then(|outcome| outcome);
    outcome.map_err(StoreError::given_up)?;
    Ok(BaseEntry { name, fingerprint: written.writer.finish()? })
}

/// A base file within this number of bytes is built in memory, unless [`Store::within`] says otherwise.
pub(crate) const BUILT_IN_MEMORY: u64 = 1 << 30;

/// Snapshots as one: in memory, or in temporary files beyond this number of bytes.
fn united(
    parts: &[&Snapshot],
    memory: u64,
    scratch: impl FnOnce() -> Arc<Scratch>,
    pause: &mut dyn FnMut(u64),
) -> Result<Snapshot, StoreError> {
    let storage = match Snapshot::bytes_to_unite(parts) <= memory {
        true => Backing::Memory,
        false => Backing::Scratch(scratch()),
    };
    let (first, others) = parts.split_first().expect("there is data to unite");
    let united = first.read_by(|| Snapshot::united(parts, &storage, &mut || pause(0))).map_err(StoreError::given_up)?;
    others.iter().try_for_each(|part| part.check_kept()).map_err(StoreError::given_up)?;
    Ok(united?)
}

impl Store {
    /// Loading, merging and copying hold at most about this number of bytes: larger parts lie in temporary files of the
    /// store's directory until they are written. By default a gibibyte.
    pub fn within(mut self, memory: u64) -> Store {
        self.memory = memory;
        self
    }

    /// Temporary storage in the store's directory. Its remains after a crash are removed when the store is opened
    /// again.
    pub fn scratch(&self) -> Arc<Scratch> {
        lock(&self.state).files.scratch()
    }

    fn united(&self, parts: &[&Snapshot], pause: &mut dyn FnMut(u64)) -> Result<Snapshot, StoreError> {
        united(parts, self.memory, || self.scratch(), pause)
    }

    /// Adds the data of a snapshot, such as one built by a loader in memory or in temporary files. It goes to a new
    /// base file, together with the present data, and not through the log. Until this file is published, readers see
    /// the former data, and writers wait. `pause` is called now and then with the number of bytes written so far.
    ///
    /// # Errors
    /// The disk is full, or the system refuses: the store is unchanged. Unless it is in doubt
    /// ([`StoreError::NotPublished`]).
    pub fn load(&self, loaded: Snapshot, pause: &mut dyn FnMut(u64)) -> Result<(), StoreError> {
        self.load_asking(loaded, pause, &never())
    }

    /// Like [`Store::load`]; it waits for its turn until its function returns an error, and then ends with it.
    ///
    /// # Errors
    /// Those of [`Store::load`]; or [`StoreError::Unreadable`] with the function's error.
    pub fn load_asking(&self, loaded: Snapshot, pause: &mut dyn FnMut(u64), ask: &Ask) -> Result<(), StoreError> {
        let _bases = self.base_turn(ask)?;
        let _writing = self.writing_asking(ask)?;
        self.await_all_staged(ask)?;
        let head = {
            let state = lock(&self.state);
            state.check_writes()?;
            state.durable(&self.published)
        };
        let all = match head.is_empty() {
            true => loaded,
            false => self.united(&[&head, &loaded], pause)?,
        };
        let (entry, snapshot) = self.write_base(&all, pause)?;
        drop(all);
        let mut state = lock(&self.state);
        // It may have become a follower meanwhile.
        state.check_writes()?;
        state.publish(None, entry)?;
        state.log_bytes = 0;
        let before = state.rebased(snapshot, &self.published);
        drop(state);
        drop(before);
        Ok(())
    }

    /// Whether enough was changed since the last [`Store::merge`] for another one to pay, even if undone since: each
    /// change makes reading or opening take longer, and a merge takes time for all of the data, divided among many
    /// changes in this way. A follower's is due when the copy that it follows has merged, and without that when there
    /// are several times as many changes.
    pub fn is_merge_due(&self) -> bool {
        self.is_due(1.0)
    }

    /// Whether a merge pays when the machine has nothing else to do.
    pub fn is_merge_due_when_idle(&self) -> bool {
        self.is_due(WHEN_IDLE)
    }

    fn is_due(&self, share: f64) -> bool {
        let point = lock(&self.state).merge_point();
        match point {
            MergePoint::Own => self.has_changes(share),
            MergePoint::Awaited => self.has_changes(ALONE),
            MergePoint::Followed(_) => true,
        }
    }

    /// Whether there is this share of the changes that make a merge due.
    fn has_changes(&self, share: f64) -> bool {
        let snapshot = self.snapshot();
        let (log, records, base) = {
            let mut state = lock(&self.state);
            let durable = state.files.log().durable();
            let manifest = state.files.manifest();
            let base: u64 = manifest.files.iter().map(|entry| entry.fingerprint.bytes).sum();
            (state.log_bytes, durable - manifest.included, base)
        };
        let part = |fewest: u64| (fewest as f64 * share) as u64;
        let fewest = part(FEWEST.max(snapshot.len() / SHARE) as u64);
        // A quad of a named graph is in both.
        snapshot.index(Order::Gspo).change_count() as u64 >= fewest
            // Terms stay when their quads go. A quad has four at most.
            || snapshot.fresh().len() as u64 >= 4 * fewest
            || records >= part(FEWEST_RECORDS.max((snapshot.len() / SHARE_OF_RECORDS) as u64))
            || log >= part(FEWEST_BYTES.max(base / SHARE_OF_BYTES))
    }

    /// Merges all changes into a new base file, while readers go on, and writers but for its last step. A follower
    /// merges those that the copy that it follows has merged, if that is known. Does nothing, and returns `false`, if
    /// there are no changes since the last one. `pause` is called now and then with the number of bytes written so far;
    /// it may [give up](vicus_flow::give_up), and then the store is unchanged.
    ///
    /// # Errors
    /// Those of [`Store::load`]; or `pause` has given up.
    pub fn merge(&self, pause: &mut dyn FnMut(u64)) -> Result<bool, StoreError> {
        self.merge_asking(pause, &never())
    }

    /// Like [`Store::merge`]; it waits for its turns until its function returns an error, and then ends with it.
    ///
    /// # Errors
    /// Those of [`Store::merge`]; or [`StoreError::Unreadable`] with the function's error.
    pub fn merge_asking(&self, pause: &mut dyn FnMut(u64), ask: &Ask) -> Result<bool, StoreError> {
        self.merge_now(pause, self.base_turn(ask)?, ask)
    }

    /// Waits for the turn to write base files.
    fn base_turn(&self, ask: &Ask) -> Result<TicketGuard<'_>, StoreError> {
        self.bases.wait_asking(&*self.waiting, &|| ask(0)).map_err(StoreError::given_up)
    }

    /// Like [`Store::merge`], if one [is due](Store::is_merge_due). Does nothing, and returns `false`, if none is, or
    /// while another caller merges, loads or waits to: many writers may ask for it after each of their commits, and
    /// there is one merge.
    ///
    /// # Errors
    /// Those of [`Store::merge`].
    pub fn merge_if_due(&self, pause: &mut dyn FnMut(u64)) -> Result<bool, StoreError> {
        if !self.is_merge_due() {
            return Ok(false);
        }
        match self.bases.try_now(&*self.waiting) {
            // Another one may have merged since.
            Some(bases) if self.is_merge_due() => self.merge_now(pause, bases, &never()),
            _ => Ok(false),
        }
    }

    fn merge_now(&self, pause: &mut dyn FnMut(u64), bases: TicketGuard<'_>, ask: &Ask) -> Result<bool, StoreError> {
        let point = lock(&self.state).merge_point();
        let earlier = match point {
            MergePoint::Followed(record) => self.snapshot_at(record)?.map(|snapshot| (snapshot, record)),
            MergePoint::Own | MergePoint::Awaited => None,
        };
        let (begun, included, between) = {
            let mut state = lock(&self.state);
            let last = state.files.log().durable();
            if last == state.files.manifest().included {
                return Ok(false);
            }
            state.since = Some(Vec::new());
            // So the files before this can go when the base has their content.
            state.files.log().rotate();
            match earlier {
                Some((snapshot, record)) if record < last => {
                    (snapshot, record, state.files.log().part(record + 1, None))
                }
                Some((snapshot, record)) => (snapshot, record, None),
                None => (state.durable(&self.published), last, None),
            }
        };
        let _collecting = Collecting(self);
        let between = between.map_or(Ok(Vec::new()), |part| part.read(usize::MAX).map(|(records, _)| records))?;
        self.merge_from(&MergeSource { snapshot: begun, included, between }, pause, ask, &bases).map(|()| true)
    }

    fn merge_from(
        &self,
        begun: &MergeSource,
        pause: &mut dyn FnMut(u64),
        ask: &Ask,
        _bases: &TicketGuard<'_>,
    ) -> Result<(), StoreError> {
        let MergeSource { snapshot, included, between } = begun;
        let merged = self.united(&[snapshot], pause)?;
        let (entry, snapshot) = self.write_base(&merged, pause)?;
        drop(merged);
        let numbered = between.iter().zip(included + 1..).map(|(record, number)| (&record[..], number));
        let snapshot = replayed(snapshot, self.hash_key, numbered, &Interrupt::never())
            .inspect_err(|_| lock(&self.state).files.give_up())?;
        let first = included + between.len() as u64 + 1;
        // Later records are applied in two passes: most of them while writers go on, then the few that came during the
        // first pass.
        let mut applied = 0;
        let mut apply = |snapshot: Arc<Snapshot>| {
            let records = lock(&self.state).since.as_ref().map_or(Vec::new(), |since| since[applied..].to_vec());
            let numbers = first + applied as u64..;
            applied += records.len();
            let records = records.iter().map(|record| &**record).zip(numbers);
            replayed(snapshot, self.hash_key, records, &Interrupt::never())
        };
        let caught_up = apply(snapshot).and_then(|snapshot| {
            let writing = self.writing_asking(ask)?;
            self.await_all_staged(ask)?;
            Ok((apply(snapshot)?, writing))
        });
        let (snapshot, _writing) = caught_up.inspect_err(|_| lock(&self.state).files.give_up())?;
        let mut state = lock(&self.state);
        state.publish(Some(*included), entry)?;
        let lengths = state.since.iter().flatten().map(|record| record.len());
        state.log_bytes = lengths.chain(between.iter().map(Vec::len)).map(|length| length as u64).sum();
        let before = state.rebased(snapshot, &self.published);
        drop(state);
        drop(before);
        Ok(())
    }

    /// Writes a snapshot as the next generation's base file, and opens it. The caller has the turn to write base files.
    fn write_base(
        &self,
        snapshot: &Snapshot,
        pause: &mut dyn FnMut(u64),
    ) -> Result<(BaseEntry, Arc<Snapshot>), StoreError> {
        let written = write(snapshot, || lock(&self.state).files.write_base(NAME), pause);
        let opened = written.and_then(|entry| {
            let state = lock(&self.state);
            let snapshot = open(&[state.files.open_finished(&entry)?], state.files.manifest())?;
            Ok((entry, Arc::new(snapshot)))
        });
        opened.inspect_err(|_| lock(&self.state).files.give_up())
    }

    /// Copies the present data to a store of its own in an empty directory, while others go on reading and writing.
    /// `number` differs from every other store's. All copied bytes are checked.
    ///
    /// # Errors
    /// The directory is no empty one, the disk is full, this store is damaged, or the system refuses.
    pub fn backup(
        &self,
        directory: Arc<dyn Directory>,
        number: u64,
        pause: &mut dyn FnMut(u64),
    ) -> Result<(), StoreError> {
        copy(&self.snapshot(), directory, number, self.memory, pause)
    }
}

/// Writes a snapshot as a store of its own in an empty directory. The directory holds no store until it holds all of
/// it. The remains of a failed copy there are removed. `number` differs from every other store's; about `memory` bytes
/// are held at most, as with [`Store::within`]; `pause` is called now and then with the number of bytes written so far.
///
/// # Errors
/// Those of [`Store::backup`].
pub fn copy(
    snapshot: &Snapshot,
    directory: Arc<dyn Directory>,
    number: u64,
    memory: u64,
    pause: &mut dyn FnMut(u64),
) -> Result<(), StoreError> {
    let mut files = StoreFiles::begin(directory, KIND, number)?;
    // Changes since the snapshot's base was built become part of the new base.
    let merged = united(&[snapshot], memory, || files.scratch(), pause);
    let written = merged.and_then(|merged| write(&merged, || files.write_base(NAME), pause));
    match written {
        Ok(entry) => Ok(files.publish(0, vec![entry])?),
        Err(error) => {
            // Remaining files are no store, and another copy takes their place.
            let _ = files.remove();
            Err(error)
        }
    }
}

/// The data that a merge is made of.
struct MergeSource {
    snapshot: Arc<Snapshot>,
    /// Their last record.
    included: u64,
    /// The records behind it that were durable when the merge began.
    between: Vec<Vec<u8>>,
}

/// While records are kept for a merge: a merge that has ended, even by a panic, needs none.
struct Collecting<'a>(&'a Store);

impl Drop for Collecting<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).since = None;
    }
}

impl State {
    /// Makes a base file the store's: one with the log up to a record, or with all of it and loaded data.
    fn publish(&mut self, included: Option<u64>, entry: BaseEntry) -> Result<(), StoreError> {
        let published = match included {
            Some(included) => self.files.publish(included, vec![entry]),
            None => self.files.publish_loaded(vec![entry]),
        };
        self.base_in_doubt = match &published {
            Ok(()) => false,
            Err(error) => error.in_doubt || self.base_in_doubt,
        };
        Ok(published?)
    }

    /// After a base was published in doubt, makes sure that it is not the store's, before changes built on the base
    /// before it are made durable.
    pub(crate) fn resolve(&mut self) -> Result<(), StoreError> {
        self.check_settled()?;
        if self.base_in_doubt {
            let manifest = self.files.manifest().clone();
            self.files.publish(manifest.included, manifest.files)?;
            self.base_in_doubt = false;
        }
        Ok(())
    }
}
