//! The files of one store: the permission to write, the present files, and the way a new generation takes the place of
//! the old one.
//!
//! **Publishing** a generation: its base files are written under names ending in `.new`, and synced; then they get
//! their names, the directory is synced, `CURRENT.new` is written and synced, renamed to `CURRENT`, and the directory
//! is synced again. Until the rename, a failure leaves the store unchanged, and the new files are removed. From the
//! rename on, a crash may bring back either manifest: so the files of both stay until a later manifest is surely the
//! current one.
//!
//! **A copy** has its base file before its first manifest: so an interrupted one is no store. The file `BEGUN` is there
//! before it, and distinguishes its files from a store that has lost its manifest: the files of such a store are not
//! touched.
//!
//! **A restored store** has its manifest under the name `CURRENT.hidden` until it has all of its records: then that is
//! renamed to `CURRENT`. An interrupted one is no store either, and all of its files may be removed.
//!
//! **Opening to write** publishes the manifest again before anything is removed: reading it doesn't prove that it would
//! be there after power loss. Then the files of unfinished generations are removed, and segments of the log no base
//! needs. Files with names of kinds not written here are left alone.
//!
//! **Reading** beside a writer takes no lock and changes nothing. The writer may publish meanwhile, and remove files:
//! reading begins again then. A reader may see records on their way to the disk, not yet acknowledged.

use crate::base::{BaseFile, BaseWriter};
use crate::error::{Damage, DiskError};
use crate::fetched::{Fetched, is_fetched};
use crate::log::{BadRecord, FramePlace, Log, Tail, TornTail, name_of, number_of, read_log};
use crate::manifest::{BaseEntry, CURRENT, EpochStart, HIDDEN, Lineage, Manifest, NEXT};
use std::fmt;
use std::sync::Arc;
use vicus_files::scratch::is_scratch;
use vicus_files::{Directory, File, Lock, OpenMode, Scratch};

const LOCK: &str = "LOCK";
const UNFINISHED: &str = ".new";
/// A file present during the making of a store whose first manifest has base files: until this manifest is there, the
/// directory's content is no store, and may be removed.
const BEGUN: &str = "BEGUN";

type MayBeLeft = fn(&[u8]) -> bool;

/// The files overwritten or removed by the making of a store: the name, whether a process that made a store may have
/// left a file that begins like this, and its kind then. After power loss, bytes may be zeros.
const LEFT: [(&str, MayBeLeft, &str); 4] = [
    (
        LOCK,
        |bytes| bytes.len() <= 11 && bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'\n' | 0)),
        "a store's lock",
    ),
    (BEGUN, <[u8]>::is_empty, "the mark of a store that was begun"),
    (NEXT, Manifest::may_begin, "a store's manifest"),
    (HIDDEN, Manifest::may_begin, "a store's manifest"),
];

/// Refuses a directory with other programs' files under names of a store's files.
fn refuse_others(directory: &dyn Directory) -> Result<(), DiskError> {
    let names = directory.list()?;
    for (name, may_be_left, expected) in LEFT.into_iter().filter(|(left, ..)| names.iter().any(|name| name == left)) {
        let file = match directory.open(name, OpenMode::Read) {
            Err(error) if error.is_missing() => continue,
            opened => opened?,
        };
        let mut beginning = vec![0; file.len()?.min(32) as usize];
        match file.read_at(0, &mut beginning) {
            // Another process has just written to it to make a store here: the lock refuses one of the two.
            Err(error) if error.is_short() => continue,
            read => read?,
        }
        if !may_be_left(&beginning) {
            return Err(DiskError::Foreign { file: directory.path(name), expected });
        }
    }
    Ok(())
}

/// The content of a store's files when they were opened.
#[derive(Debug)]
pub struct Recovered {
    /// The list of the files.
    pub manifest: Manifest,
    /// The base files, in the manifest's order.
    pub bases: Vec<Arc<BaseFile>>,
    /// All records not included in the base, in order, up to the first unreadable one.
    pub records: Vec<Vec<u8>>,
    /// The beginning of the unreadable records: they were written, and can't be read.
    pub broken: Option<BadRecord>,
    /// The remains of an unfinished write behind the last record.
    pub torn: Option<TornTail>,
    /// The first wrong byte of the log between two records, where no record is.
    pub spoiled: Option<Damage>,
    /// The places of its log's frames, in order.
    pub frames: Vec<FramePlace>,
}

impl Recovered {
    /// Reads a store beside a process that may be writing to it. `kind` is that of its base files.
    ///
    /// # Errors
    /// There is no store, it is damaged or newer, or the system refuses. Damage of records is no error
    /// ([`Recovered::broken`]).
    pub fn read(directory: &dyn Directory, kind: [u8; 8]) -> Result<Recovered, DiskError> {
        let mut manifest = manifest_of(directory)?;
        let (mut found, mut broken, mut torn) = (None, None, None);
        loop {
            let followed = Recovered::follow(directory, kind, &manifest);
            // A writer removes files only when another manifest is the current one. So if this one still is, all of its
            // files were there.
            let current = manifest_of(directory)?;
            if current == manifest {
                match followed {
                    // An incompletely written frame of the log, read with later bytes behind it, looks like damage.
                    // Real damage is found again.
                    Err(DiskError::Damaged(damage)) if found.as_ref() != Some(&damage) => found = Some(damage),
                    Ok((recovered, _)) if recovered.broken.is_some() && recovered.broken != broken => {
                        broken = recovered.broken;
                    }
                    // The same for a frame being written. A busy writer writes another one the next time.
                    Ok((recovered, _)) if recovered.torn.is_some() && torn.is_none() => torn = recovered.torn,
                    Ok((recovered, _)) => {
                        let is_same = recovered.torn == torn;
                        return Ok(Recovered { torn: torn.filter(|_| is_same), ..recovered });
                    }
                    Err(error) => return Err(error),
                }
            }
            manifest = current;
        }
    }

    fn follow(directory: &dyn Directory, kind: [u8; 8], manifest: &Manifest) -> Result<(Recovered, Tail), DiskError> {
        let open = |entry: &BaseEntry| BaseFile::open(directory, &entry.name, kind, Some(entry.fingerprint));
        let bases = manifest.files.iter().map(open).collect::<Result<_, _>>()?;
        let mut records = Vec::new();
        let mut show = |_, record: &[u8]| records.push(record.to_vec());
        let mut tail = read_log(directory, manifest, &mut show)?;
        let (frames, broken, torn) = (std::mem::take(&mut tail.frames), tail.broken.take(), tail.torn.take());
        let spoiled = tail.spoiled.take();
        Ok((Recovered { manifest: manifest.clone(), bases, records, broken, torn, spoiled, frames }, tail))
    }

    /// Syncs the log's files: what was read of them lasts, even if its writer was only about to sync it.
    ///
    /// # Errors
    /// A file is not there any more, or the system could not write.
    pub fn sync(&self, directory: &dyn Directory) -> Result<(), DiskError> {
        let mut segments: Vec<u64> = self.frames.iter().map(|frame| frame.segment).collect();
        segments.dedup();
        for segment in segments {
            directory.open(&name_of(segment), OpenMode::Read)?.sync()?;
        }
        Ok(())
    }

    /// The broken place if this record, though read, makes no sense to its reader.
    pub fn senseless(&self, directory: &dyn Directory, number: u64, what: String) -> BadRecord {
        let at = self.frames.partition_point(|frame| frame.first <= number) - 1;
        let FramePlace { segment, offset, .. } = self.frames[at];
        let damage = Damage { file: directory.path(&name_of(segment)), offset, what };
        BadRecord { number, segment, damage }
    }
}

fn manifest_of(directory: &dyn Directory) -> Result<Manifest, DiskError> {
    if let Some(manifest) = Manifest::read(directory)? {
        return Ok(manifest);
    }
    let is_hidden = directory.list()?.iter().any(|name| name == HIDDEN);
    // It may have been revealed meanwhile.
    match Manifest::read(directory)? {
        Some(manifest) => Ok(manifest),
        None if is_hidden => Err(DiskError::Hidden(directory.path(""))),
        None => Err(DiskError::NoStore(directory.path(""))),
    }
}

/// The files of a store open for writing by this process alone.
///
/// ```
/// use std::sync::Arc;
/// use vicus_disk::{Recovered, StoreFiles};
/// use vicus_files::FakeDisk;
///
/// let disk = FakeDisk::new(1);
/// let mut store = StoreFiles::create(Arc::new(disk.process(1)), *b"example ", 4711)?;
/// store.log().stage(b"first");
/// store.log().stage(b"second");
/// assert_eq!(store.log().flush().expect("nothing fails"), 2);
/// disk.crash(1);
///
/// let (_, recovered) = StoreFiles::open(Arc::new(disk.process(2)), *b"example ")?;
/// assert_eq!(recovered.records, [b"first".to_vec(), b"second".to_vec()]);
/// # Ok::<(), vicus_disk::DiskError>(())
/// ```
#[derive(Debug)]
pub struct StoreFiles {
    directory: Arc<dyn Directory>,
    kind: [u8; 8],
    manifest: Manifest,
    /// The next generation to be written. No file of it or a later one is there.
    next_generation: u64,
    log: Log,
    lock: Arc<dyn Lock>,
    /// Its place among copies, with the epochs that records of the log have begun.
    lineage: Lineage,
    /// The name of the manifest: [`CURRENT`], or [`HIDDEN`].
    current: &'static str,
}

/// A store read for writing by this process alone: nothing of it has been changed yet.
#[derive(Debug)]
pub struct Opening {
    directory: Arc<dyn Directory>,
    kind: [u8; 8],
    lock: Arc<dyn Lock>,
    tail: Tail,
    /// The name of the manifest, as in [`StoreFiles`].
    current: &'static str,
    /// The content of its files.
    pub recovered: Recovered,
}

/// The beginning of the name of a file with a part of the log kept aside.
const ASIDE: &str = "aside-";

/// The most bytes of the log that are kept for followers when a base has their content.
const KEPT_BYTES: u64 = 256 << 20;

/// Takes over all but the epochs.
fn change_of(from: &Lineage, to: &mut Lineage) {
    (to.copy, to.follows, to.promised) = (from.copy, from.follows, from.promised);
}

/// How much of a file is copied at once.
const COPIED_AT_ONCE: usize = 1 << 20;

impl Opening {
    /// Locks a store, and reads it.
    ///
    /// # Errors
    /// There is none, it is damaged or newer, another process writes to it, or the system refuses. Damage of records is
    /// no error ([`Recovered::broken`]).
    pub fn begin(directory: Arc<dyn Directory>, kind: [u8; 8]) -> Result<Opening, DiskError> {
        // Before the lock is made in a directory of another program.
        manifest_of(&*directory)?;
        let lock: Arc<dyn Lock> = directory.lock(LOCK)?.into();
        let manifest = manifest_of(&*directory)?;
        let (recovered, tail) = Recovered::follow(&*directory, kind, &manifest)?;
        Ok(Opening { directory, kind, lock, tail, current: CURRENT, recovered })
    }

    /// Goes on with the log behind its last record. The remains of an unfinished write there are kept aside.
    ///
    /// # Errors
    /// A record can't be read, or the system refuses, as a full disk does.
    pub fn resume(mut self) -> Result<(StoreFiles, Recovered), DiskError> {
        if let Some(broken) = self.recovered.broken {
            return Err(Box::new(broken.damage).into());
        }
        if let Some(TornTail { segment, offset, bytes, kept, .. }) = &mut self.recovered.torn {
            *kept = Some(keep_aside(&*self.directory, *segment, *offset, Some(*bytes))?);
            self.directory.sync()?;
        }
        self.go_on()
    }

    /// Cuts the log before the first unreadable record. All from the frame of that record on is copied to other files
    /// before; returns their paths.
    ///
    /// # Errors
    /// The system refuses, as a full disk does: the store is as it was, but there may be such files.
    pub fn cut(mut self, broken: &BadRecord) -> Result<(StoreFiles, Recovered, Vec<String>), DiskError> {
        let names = self.directory.list()?;
        let mut later: Vec<u64> = names
            .iter()
            .filter_map(|name| number_of(name))
            .filter(|(_, is_finished)| *is_finished)
            .map(|(number, _)| number)
            .collect();
        later.retain(|&number| number > broken.segment);
        later.sort_unstable();
        let mut kept = vec![keep_aside(&*self.directory, broken.segment, broken.damage.offset, None)?];
        for number in later {
            kept.push(keep_aside(&*self.directory, number, 0, None)?);
        }
        self.directory.sync()?;
        // The readable records are written again, as the first frame of a segment that goes on from the base.
        let included = self.recovered.manifest.included;
        let last = included.max(broken.number - 1);
        self.recovered.records.truncate((last - included) as usize);
        (self.recovered.broken, self.recovered.torn) = (None, None);
        let mut records = Vec::new();
        for record in &self.recovered.records {
            records.extend_from_slice(&(record.len() as u64).to_le_bytes());
            records.extend_from_slice(record);
        }
        let highest = self.tail.highest.max(self.recovered.manifest.log);
        self.tail = Tail { last, highest, unproven: Some((included + 1, records)), ..Tail::default() };
        self.recovered.manifest.log = highest + 1;
        self.go_on().map(|(files, recovered)| (files, recovered, kept))
    }

    fn go_on(self) -> Result<(StoreFiles, Recovered), DiskError> {
        let Opening { directory, kind, lock, tail, current, recovered } = self;
        let manifest = recovered.manifest.clone();
        let names = directory.list()?;
        let last = names.iter().filter_map(|name| generation_of(name)).fold(manifest.generation, u64::max);
        let log = Log::resume(directory.clone(), lock.clone(), &manifest, tail)?;
        let lineage = manifest.lineage.clone();
        let files = StoreFiles { directory, kind, manifest, next_generation: last + 1, log, lock, lineage, current };
        files.publish_manifest(files.manifest.clone()).map_err(|error| error.error)?;
        files.remove_strays(true);
        Ok((files, recovered))
    }
}

/// Copies a segment of the log, from a place on and up to a number of bytes or its end, to a file of its own, and
/// returns the file's path.
fn keep_aside(directory: &dyn Directory, segment: u64, offset: u64, bytes: Option<u64>) -> Result<String, DiskError> {
    keep_file_aside(directory, &name_of(segment), offset, bytes)
}

/// Copies a file of any kind like that.
fn keep_file_aside(
    directory: &dyn Directory,
    name: &str,
    offset: u64,
    bytes: Option<u64>,
) -> Result<String, DiskError> {
    let from = directory.open(name, OpenMode::Read)?;
    let end = bytes.map_or(from.len()?, |bytes| offset + bytes);
    let names = directory.list()?;
    let first = format!("{ASIDE}{name}-{offset}");
    let others = (2..).map(|number| format!("{first}-{number}"));
    let name = std::iter::once(first.clone()).chain(others).find(|name| !names.contains(name));
    let name = name.expect("there are more numbers than files");
    let to = directory.create(&name)?;
    let mut buffer = vec![0; COPIED_AT_ONCE];
    let mut at = offset;
    while at < end {
        let part = &mut buffer[..(end - at).min(COPIED_AT_ONCE as u64) as usize];
        from.read_at(at, part)?;
        to.write_at(at - offset, part)?;
        at += part.len() as u64;
    }
    to.sync()?;
    Ok(directory.path(&name))
}

/// The paths of files in a store's directory with parts of its log kept aside.
///
/// # Errors
/// The system refuses.
pub fn kept_aside(directory: &dyn Directory) -> Result<Vec<String>, DiskError> {
    let names = directory.list()?;
    Ok(names.iter().filter(|name| name.starts_with(ASIDE)).map(|name| directory.path(name)).collect())
}

/// Why a generation was not published.
#[derive(Clone, Debug)]
pub struct NotPublished {
    /// The failure.
    pub error: DiskError,
    /// Whether it may be the current one all the same when the store is opened again. Nothing is lost either way, and
    /// the process can go on with its present generation.
    pub in_doubt: bool,
}

impl fmt::Display for NotPublished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for NotPublished {}

impl StoreFiles {
    /// Makes an empty directory a store, with base files of this kind (as [`BaseWriter::create`] takes it). `store`
    /// differs from every other store's number.
    ///
    /// # Errors
    /// There is a store, another process is making one, files of other programs have names of a store's files, or the
    /// system refuses.
    pub fn create(directory: Arc<dyn Directory>, kind: [u8; 8], store: u64) -> Result<StoreFiles, DiskError> {
        let files = StoreFiles::prepare(directory, kind, store)?;
        files.publish_manifest(files.manifest.clone()).map_err(|error| error.error)?;
        files.remove_strays(true);
        Ok(files)
    }

    /// Like [`StoreFiles::create`], but the directory holds no store before the first [`StoreFiles::publish`]. If that
    /// doesn't come, the written files are removed when the next store is made there.
    ///
    /// # Errors
    /// Those of [`StoreFiles::create`].
    pub fn begin(directory: Arc<dyn Directory>, kind: [u8; 8], store: u64) -> Result<StoreFiles, DiskError> {
        let files = StoreFiles::prepare(directory, kind, store)?;
        if !files.directory.list()?.iter().any(|name| name == BEGUN) {
            files.directory.create(BEGUN)?;
        }
        // Before there is a base file: it would look like part of a store that has lost its manifest.
        files.directory.sync()?;
        Ok(files)
    }

    /// Like [`StoreFiles::create`], but the directory holds no store before it is [revealed](StoreFiles::reveal). If
    /// that doesn't come, the written files are removed when the next store is made there.
    ///
    /// # Errors
    /// Those of [`StoreFiles::create`].
    pub fn create_hidden(directory: Arc<dyn Directory>, kind: [u8; 8], store: u64) -> Result<StoreFiles, DiskError> {
        let mut files = StoreFiles::prepare(directory, kind, store)?;
        files.current = HIDDEN;
        files.publish_manifest(files.manifest.clone()).map_err(|error| error.error)?;
        files.remove_strays(true);
        Ok(files)
    }

    /// From now on the directory holds this store, with all that is durable in it.
    ///
    /// # Errors
    /// The system refuses. The store may be there all the same after a loss of power.
    pub fn reveal(&mut self) -> Result<(), DiskError> {
        if self.current == HIDDEN {
            self.lock.check()?;
            self.directory.rename(HIDDEN, CURRENT)?;
            self.current = CURRENT;
        }
        Ok(self.directory.sync()?)
    }

    /// The files of a store without a manifest.
    fn prepare(directory: Arc<dyn Directory>, kind: [u8; 8], store: u64) -> Result<StoreFiles, DiskError> {
        // Before the lock is made: making it overwrites its file.
        if Manifest::read(&*directory)?.is_none() {
            refuse_others(&*directory)?;
        }
        let lock: Arc<dyn Lock> = directory.lock(LOCK)?.into();
        if Manifest::read(&*directory)?.is_some() {
            return Err(DiskError::IsStore(directory.path("")));
        }
        let names = directory.list()?;
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        for part in names.iter().filter(|name| if has(HIDDEN) { is_part(name) } else { is_log_or_base(name) }) {
            // A begun store has no log yet, and a hidden one may have all parts.
            let is_left = has(HIDDEN) || (has(BEGUN) && number_of(part).is_none());
            if !is_left {
                let what = format!("it is missing, though there is {part}, which belongs to a store");
                return Err(DiskError::damaged(directory.path(CURRENT), 0, what));
            }
            directory.remove(part)?;
        }
        if has(HIDDEN) {
            // While there are others, this file permits their removal.
            directory.sync()?;
            directory.remove(HIDDEN)?;
        }
        let lineage = Lineage::default();
        let manifest =
            Manifest { store, generation: 0, included: 0, log: 1, lineage: lineage.clone(), files: Vec::new() };
        let log = Log::create(directory.clone(), lock.clone(), store);
        Ok(StoreFiles { directory, kind, manifest, next_generation: 1, log, lock, lineage, current: CURRENT })
    }

    /// Opens a store to write to it.
    ///
    /// # Errors
    /// There is none, it is damaged or newer, another process writes to it, or the system refuses, as a full disk does.
    pub fn open(directory: Arc<dyn Directory>, kind: [u8; 8]) -> Result<(StoreFiles, Recovered), DiskError> {
        Opening::begin(directory, kind)?.resume()
    }

    /// Removes all of the store's files: the manifest first, so the remains after a failure are no store.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove(self) -> Result<(), DiskError> {
        self.lock.check()?;
        let names = self.directory.list()?;
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        // A begun store is no store yet.
        if has(CURRENT) {
            self.directory.remove(CURRENT)?;
            self.directory.sync()?;
        }
        for name in names.iter().filter(|name| *name == NEXT || is_part(name)) {
            self.directory.remove(name)?;
        }
        for mark in [BEGUN, HIDDEN].into_iter().filter(|mark| has(mark)) {
            // While there are others, this file permits their removal.
            self.directory.sync()?;
            self.directory.remove(mark)?;
        }
        Ok(self.directory.remove(LOCK)?)
    }

    /// The list of the store's files.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The log.
    pub fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Temporary storage in the directory. Its remains after a crash are removed when the store is opened again.
    pub fn scratch(&self) -> Arc<Scratch> {
        Scratch::new(Arc::clone(&self.directory))
    }

    /// The name of a base file of the next generation, and a writer for it. [`StoreFiles::publish`] takes the name.
    ///
    /// # Errors
    /// The system refuses. Then, or if the writer fails, the whole generation is to be given up:
    /// [`StoreFiles::give_up`].
    pub fn write_base(&self, name: &str) -> Result<(String, BaseWriter), DiskError> {
        self.lock.check()?;
        let name = format!("base-{:08}-{name}", self.next_generation);
        let writer = BaseWriter::create(&*self.directory, &format!("{name}{UNFINISHED}"), self.kind)?;
        Ok((name, writer))
    }

    /// Opens a finished base file before its publication. It stays readable when it is published.
    ///
    /// # Errors
    /// Those of [`BaseFile::open`].
    pub fn open_finished(&self, entry: &BaseEntry) -> Result<Arc<BaseFile>, DiskError> {
        let unfinished = format!("{}{UNFINISHED}", entry.name);
        BaseFile::open_before_rename(&*self.directory, &unfinished, &entry.name, self.kind, Some(entry.fingerprint))
    }

    /// Makes these base files the store's; they include the log up to a durable record. They were finished by writers
    /// of [`StoreFiles::write_base`], or are among the current ones. Afterwards, files no longer needed by the store
    /// are removed.
    ///
    /// # Errors
    /// The system refuses. Unless it is in doubt, the new files are removed. In both cases new ones have to be written.
    pub fn publish(&mut self, included: u64, files: Vec<BaseEntry>) -> Result<(), NotPublished> {
        assert!(
            (self.manifest.included..=self.log.durable()).contains(&included),
            "a base includes what the one before it did, and nothing that may be lost"
        );
        self.publish_next(included, files)
    }

    /// Like [`StoreFiles::publish`], for base files with all durable records and with data that is in no record. This
    /// takes a sequence number of its own: a copy that lacks it needs these files.
    ///
    /// # Errors
    /// Those of [`StoreFiles::publish`].
    pub fn publish_loaded(&mut self, files: Vec<BaseEntry>) -> Result<(), NotPublished> {
        self.log.rotate();
        self.publish_next(self.log.durable() + 1, files)?;
        self.log.skip();
        Ok(())
    }

    fn publish_next(&mut self, included: u64, files: Vec<BaseEntry>) -> Result<(), NotPublished> {
        let generation = self.next_generation;
        self.next_generation += 1;
        let log = self.first_kept(included);
        let mut lineage = self.lineage.clone();
        lineage.epochs.retain(|start| start.first <= included);
        let manifest = Manifest { store: self.manifest.store, generation, included, log, lineage, files };
        let outcome = self.name_files(&manifest).map_err(|error| NotPublished { error, in_doubt: false });
        let outcome = outcome.and_then(|()| self.publish_manifest(manifest.clone()));
        match &outcome {
            Ok(()) => {
                self.log.forget_before(manifest.log);
                self.manifest = manifest;
                self.remove_strays(false);
            }
            Err(error) if !error.in_doubt => self.remove_generation(generation),
            Err(_) => {}
        }
        outcome
    }

    /// The number of the first segment of the log that is needed, or kept for followers within [`KEPT_BYTES`].
    fn first_kept(&self, included: u64) -> u64 {
        let (needed, kept) = (self.log.first_needed(included), self.log.first_kept(included));
        let mut bytes = 0;
        let bytes_of = |number| self.directory.open(&name_of(number), OpenMode::Read).and_then(|file| file.len());
        let older = self.log.segments().rev().filter(|number| (kept..needed).contains(number));
        let within = older.take_while(|&number| {
            bytes += bytes_of(number).unwrap_or(KEPT_BYTES);
            bytes <= KEPT_BYTES
        });
        within.last().unwrap_or(needed)
    }

    /// Its place among copies, with the epochs of all records so far.
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// A record of the log has begun an epoch.
    pub fn begin_epoch(&mut self, start: EpochStart) {
        assert!(self.lineage.epoch() < start.epoch, "epochs ascend");
        self.lineage.epochs.push(start);
    }

    /// Changes its place among copies, durably. The epochs stay as they are.
    ///
    /// # Errors
    /// The system refuses. The change may be found when the store is opened again.
    pub fn set_lineage(&mut self, change: impl FnOnce(&mut Lineage)) -> Result<(), NotPublished> {
        let (mut manifest, mut lineage) = (self.manifest.clone(), self.lineage.clone());
        change(&mut manifest.lineage);
        change_of(&manifest.lineage, &mut lineage);
        self.publish_manifest(manifest.clone())?;
        (self.manifest, self.lineage) = (manifest, lineage);
        Ok(())
    }

    /// Takes back what the log has behind a record, since the store's writer has other records there. They are copied
    /// to other files before; returns these. No flight is on its way. After an error it has to be called again before
    /// anything else is written.
    ///
    /// # Errors
    /// The system refuses, as a full disk does.
    ///
    /// # Panics
    /// A base file includes later records.
    pub fn cut_after(&mut self, number: u64) -> Result<(Recovered, Vec<String>), DiskError> {
        assert!(self.manifest.included <= number, "a base file is not cut");
        let (recovered, tail) = Recovered::follow(&*self.directory, self.kind, &self.manifest)?;
        let (directory, kind, lock) = (Arc::clone(&self.directory), self.kind, Arc::clone(&self.lock));
        let opening = Opening { directory, kind, lock, tail, current: self.current, recovered };
        if opening.tail.last <= number {
            // A call before this one was not told how far it had come.
            let kept = kept_aside(&*self.directory)?;
            let (files, recovered) = opening.go_on()?;
            self.cut_to(files, number);
            return Ok((recovered, kept));
        }
        let broken = opening.recovered.senseless(&*self.directory, number + 1, "another writer went on".to_owned());
        let (files, recovered, kept) = opening.cut(&broken)?;
        self.cut_to(files, number);
        Ok((recovered, kept))
    }

    fn cut_to(&mut self, files: StoreFiles, number: u64) {
        let epochs = std::mem::take(&mut self.lineage.epochs);
        *self = files;
        self.lineage.epochs = epochs.into_iter().filter(|start| start.first <= number).collect();
    }

    /// Replaces the base files, and all records, by base files that came from another copy, with all records up to
    /// `included` and these epochs in them. With `keeps`, the files before are copied to other ones first; returns
    /// these. No flight is on its way.
    ///
    /// # Errors
    /// The system refuses. Unless it is in doubt, the files have to be fetched again.
    pub fn adopt(
        &mut self,
        fetched: Vec<Fetched>,
        included: u64,
        epochs: Vec<EpochStart>,
        keeps: bool,
    ) -> Result<(Vec<Arc<BaseFile>>, Vec<String>), NotPublished> {
        let generation = self.next_generation;
        self.next_generation += 1;
        let refused = |error: DiskError| NotPublished { error, in_doubt: false };
        let mut kept = Vec::new();
        if keeps {
            let segments = self.log.segments().map(name_of).collect::<Vec<_>>();
            let bases = self.manifest.files.iter().map(|entry| entry.name.clone());
            for name in segments.into_iter().chain(bases) {
                kept.push(keep_file_aside(&*self.directory, &name, 0, None).map_err(refused)?);
            }
        }
        let (mut files, mut bases) = (Vec::new(), Vec::new());
        let named = (|| -> Result<(), DiskError> {
            self.lock.check()?;
            for (number, Fetched { name, fingerprint }) in fetched.into_iter().enumerate() {
                let next = format!("base-{generation:08}-{number}");
                let unfinished = format!("{next}{UNFINISHED}");
                self.directory.rename(&name, &unfinished)?;
                let open = BaseFile::open_before_rename;
                bases.push(open(&*self.directory, &unfinished, &next, self.kind, Some(fingerprint))?);
                files.push(BaseEntry { name: next, fingerprint });
            }
            Ok(())
        })();
        let log = self.log.behind(included);
        let lineage = Lineage { epochs, ..self.lineage.clone() };
        let first_log = log.first_needed(included);
        let store = self.manifest.store;
        let manifest = Manifest { store, generation, included, log: first_log, lineage: lineage.clone(), files };
        let outcome = named.and_then(|()| self.name_files(&manifest)).map_err(refused);
        match outcome.and_then(|()| self.publish_manifest(manifest.clone())) {
            Ok(()) => {
                (self.manifest, self.log, self.lineage) = (manifest, log, lineage);
                self.remove_strays(false);
                Ok((bases, kept))
            }
            Err(error) => {
                if !error.in_doubt {
                    self.remove_generation(generation);
                }
                Err(error)
            }
        }
    }

    /// Opens a current base file, to send its bytes with their checksums checked; `None` if there is none of this name.
    ///
    /// # Errors
    /// It is damaged in its description of its content, or the system refuses.
    pub fn open_checked_base(&self, name: &str) -> Result<Option<Arc<BaseFile>>, DiskError> {
        let entry = self.manifest.files.iter().find(|entry| entry.name == name);
        let open = |entry: &BaseEntry| BaseFile::open(&*self.directory, name, self.kind, Some(entry.fingerprint));
        entry.map(open).transpose()
    }

    /// Opens a current base file, to send its bytes; `None` if there is none of this name.
    ///
    /// # Errors
    /// The system refuses.
    pub fn open_base(&self, name: &str) -> Result<Option<Arc<dyn File>>, DiskError> {
        let is_current = self.manifest.files.iter().any(|entry| entry.name == name);
        Ok(if is_current { Some(self.directory.open(name, OpenMode::Read)?) } else { None })
    }

    /// The directory.
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    /// Removes the base files written for the next generation, since one of them could not be. Their room on a full
    /// disk is free again.
    pub fn give_up(&mut self) {
        self.remove_generation(self.next_generation);
        self.next_generation += 1;
    }

    /// Removes all base files of a generation not used by the store. Files that can't be removed now are found again
    /// when the store is opened.
    fn remove_generation(&self, generation: u64) {
        if self.lock.check().is_err() {
            // They may be another process's.
            return;
        }
        for name in self.directory.list().unwrap_or_default() {
            if generation_of(&name) == Some(generation) {
                let _ = self.directory.remove(&name);
            }
        }
    }

    /// Gives the new files their names, durably.
    fn name_files(&self, manifest: &Manifest) -> Result<(), DiskError> {
        for BaseEntry { name, .. } in &manifest.files {
            match generation_of(name) == Some(manifest.generation) {
                true => self.directory.rename(&format!("{name}{UNFINISHED}"), name)?,
                false => assert!(self.manifest.files.iter().any(|entry| entry.name == *name), "{name} is no base file"),
            }
        }
        Ok(self.directory.sync()?)
    }

    fn publish_manifest(&self, manifest: Manifest) -> Result<(), NotPublished> {
        let refused = |error| NotPublished { error, in_doubt: false };
        let in_doubt = |error: vicus_files::FileError| NotPublished { error: error.into(), in_doubt: true };
        let check = || self.lock.check().map_err(|error| refused(error.into()));
        check()?;
        manifest.write_next(&*self.directory).map_err(refused)?;
        check()?;
        self.directory.rename(NEXT, self.current).map_err(in_doubt)?;
        self.directory.sync().map_err(in_doubt)
    }

    /// Removes files of the kinds written here that aren't the store's. Base files of the next generation are being
    /// written, unless the store has just been opened.
    fn remove_strays(&self, opened: bool) {
        if self.lock.check().is_err() {
            // They may be another process's.
            return;
        }
        // A file that can't be removed now is found again when the store is opened.
        for name in self.directory.list().unwrap_or_default() {
            let is_needed = match (number_of(&name), generation_of(&name)) {
                (Some((segment, _)), _) => self.log.needs(segment),
                (None, Some(generation)) => {
                    let current = self.manifest.files.iter().any(|entry| entry.name == name);
                    current || (!opened && generation >= self.next_generation)
                }
                (None, None) => {
                    let is_mark = name == BEGUN || (name == HIDDEN && self.current != HIDDEN);
                    name != NEXT && !is_mark && !is_scratch(&name)
                }
            };
            if !is_needed {
                let _ = self.directory.remove(&name);
            }
        }
    }
}

/// Whether a file of this name is a segment of a log, or a base file, finished or not.
fn is_log_or_base(name: &str) -> bool {
    number_of(name).is_some() || generation_of(name).is_some()
}

/// Whether it is one of these, or on its way.
fn is_part(name: &str) -> bool {
    is_log_or_base(name) || is_fetched(name)
}

/// The generation of a base file, finished or not, by its name.
fn generation_of(name: &str) -> Option<u64> {
    let (generation, name) = name.strip_prefix("base-")?.split_once('-')?;
    let digits = generation.len() >= 8 && generation.bytes().all(|byte| byte.is_ascii_digit());
    generation.parse().ok().filter(|_| digits && !name.is_empty())
}
