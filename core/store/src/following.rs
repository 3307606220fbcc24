//! A store as one of several copies.

use crate::base;
use crate::copies::{Content, CopyAnswer, CopyDecision, CopyStanding, CopyStep, Offer, Refused};
use crate::error::{CommitError, StoreError};
use crate::record::{epoch_of, epoch_record};
use crate::store::{KIND, State, Store, StorePlace, Waiter, never, replayed, snapshot_of};
use crate::sync::Mutex;
use crate::turn::lock;
use std::collections::{BTreeMap, VecDeque};
use std::iter;
use std::sync::Arc;
use vicus_disk::{Epoch, EpochStart, Fetched, Fetching, Fingerprint, LogPlace};
use vicus_files::File;
use vicus_rdf::{Interrupt, Snapshot};

/// The data that readers see.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The number of its last record.
    pub(crate) number: u64,
    /// Those before it, the newest last, each with its number; none unless [`Store::keep_recent`] asks for them.
    pub(crate) recent: Option<VecDeque<(Arc<Snapshot>, u64)>>,
}

/// So many published states are kept, if they are asked for: at a thousand commits a second, those of a quarter of one.
const RECENT: usize = 256;

/// Durable transactions that followers have not acknowledged yet.
#[derive(Debug)]
struct Awaited {
    /// The number of the last one.
    number: u64,
    /// The data with all of them.
    snapshot: Arc<Snapshot>,
    waiters: Vec<(Arc<Waiter>, u64)>,
}

/// A follower, by what it has asked.
#[derive(Clone, Copy, Debug)]
struct Follower {
    /// Its last durable record that is this store's as well.
    acknowledged: u64,
    /// Where the record behind it is in the log.
    place: Option<LogPlace>,
}

/// The part of a store's state that has to do with other copies.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// How many followers have to acknowledge a commit, and for how long its caller waits for them.
    needed: usize,
    patience_ns: u64,
    followers: BTreeMap<u64, Follower>,
    /// The last record of an archive.
    pub(crate) archived: Option<u64>,
    /// In the order of the log.
    awaited: VecDeque<Awaited>,
    /// Why the files may differ from what is known of them, until they are cut or replaced again.
    unsettled: Option<StoreError>,
    /// The base of the copy that is followed has all records up to this one.
    merged_there: u64,
}

/// This many followers are remembered.
const MOST_FOLLOWERS: usize = 1024;

impl Copies {
    /// The last record that enough followers have.
    fn confirmed(&self) -> u64 {
        let mut all: Vec<u64> = self.followers.values().map(|follower| follower.acknowledged).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        match self.needed {
            0 => u64::MAX,
            needed => all.get(needed - 1).copied().unwrap_or(0),
        }
    }

    /// For how much longer the caller of a transaction that is durable since then waits for followers.
    pub(crate) fn patience_ns(&self, since_ns: u64, now_ns: u64) -> u64 {
        self.patience_ns.saturating_sub(now_ns.saturating_sub(since_ns))
    }

    /// For how long the caller of a transaction waits for followers.
    pub(crate) fn longest_patience_ns(&self) -> u64 {
        self.patience_ns
    }

    /// How many followers a commit needs.
    pub(crate) fn needed(&self) -> usize {
        self.needed
    }
}

/// How far a store's next merge goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergePoint {
    /// The store writes: to its last record, when that pays.
    Own,
    /// The copy that it follows has not merged behind the base here, as far as it is known and the records are here.
    Awaited,
    /// The copy that it follows has merged up to this record.
    Followed(u64),
}

/// The callers with an outcome, and data that readers don't see any more: for the time when the state is not locked.
pub(crate) type Told = (Vec<u64>, Vec<Arc<Snapshot>>);

impl State {
    pub(crate) fn standing(&mut self) -> CopyStanding {
        let last = self.files.log().durable();
        let lineage = self.files.lineage().clone();
        let store = self.files.manifest().store;
        let (copy, follows, promised, epochs) = (lineage.copy, lineage.follows, lineage.promised, lineage.epochs);
        CopyStanding { store, copy, follows, promised, epochs, last }
    }

    /// Whether this store may take changes of its own.
    pub(crate) fn check_writes(&self) -> Result<(), StoreError> {
        let lineage = self.files.lineage();
        match (lineage.follows, lineage.promised <= lineage.epoch()) {
            (true, _) => Err(StoreError::Follows),
            (false, false) => Err(StoreError::Replaced(lineage.promised)),
            (false, true) => Ok(()),
        }
    }

    /// Whether the files are as they are known.
    pub(crate) fn check_settled(&self) -> Result<(), StoreError> {
        self.copies.unsettled.clone().map_or(Ok(()), Err)
    }

    /// How far its next merge goes. A follower merges where the copy that it follows has: then terms have the same ids
    /// in both, and one may run parts of the other's queries.
    pub(crate) fn merge_point(&mut self) -> MergePoint {
        let mergeable = self.files.manifest().included + 1..=self.files.log().durable();
        match self.copies.merged_there {
            _ if !self.files.lineage().follows => MergePoint::Own,
            there if mergeable.contains(&there) => MergePoint::Followed(there),
            _ => MergePoint::Awaited,
        }
    }

    /// Notes records that begin an epoch.
    pub(crate) fn note_epoch(&mut self, record: &[u8], number: u64) {
        if let Some(epoch) = epoch_of(record).filter(|epoch| self.files.lineage().epoch() < *epoch) {
            self.files.begin_epoch(EpochStart { epoch, first: number });
        }
    }

    /// The data with all durable records; readers may see less.
    pub(crate) fn durable(&self, published: &Mutex<Published>) -> Arc<Snapshot> {
        let last = self.copies.awaited.back().map(|awaited| Arc::clone(&awaited.snapshot));
        last.unwrap_or_else(|| Arc::clone(&lock(published).snapshot))
    }

    /// Transactions are durable here: they are published when enough followers have them.
    pub(crate) fn publish_confirmed(
        &mut self,
        snapshot: Arc<Snapshot>,
        waiters: Vec<(Arc<Waiter>, u64)>,
        now_ns: u64,
        published: &Mutex<Published>,
    ) -> Told {
        let number = self.files.log().durable();
        let follows = self.files.lineage().follows;
        let (none, mut waiters): (Vec<_>, Vec<_>) = waiters.into_iter().partition(|(waiter, _)| waiter.needs_none());
        let mut keys: Vec<u64> = none.iter().filter_map(|(waiter, number)| waiter.tell(Ok(*number))).collect();
        let writes = self.check_writes();
        if let Err(error) = &writes {
            // Staged before this copy made its promise, so the copy that is promoted may not have them.
            let not_confirmed = || Err(CommitError::NotConfirmed(error.clone()));
            keys.extend(waiters.drain(..).filter_map(|(waiter, _)| waiter.tell(not_confirmed())));
        }
        // The followed copy acknowledges, and not this one. What this one awaited as a writer is in its log now.
        let awaits = !follows && (self.copies.needed > 0 || !self.copies.awaited.is_empty() || writes.is_err());
        if !awaits {
            self.copies.awaited.clear();
            keys.extend(waiters.iter().filter_map(|(waiter, number)| waiter.tell(Ok(*number))));
            return (keys, vec![replace(published, snapshot, number)]);
        }
        // They wait for a time from now on, so they have to look.
        keys.extend(waiters.iter().filter_map(|(waiter, _)| waiter.note_durable(now_ns)));
        self.staging.stay_away(waiters.len());
        // What nobody waits for any more is confirmed together with what is behind it, so there are hardly more entries
        // than callers that wait. The oldest one stays: readers see it when followers have it, however many come.
        let mut left = Vec::new();
        let mut is_oldest = true;
        self.copies.awaited.retain(|awaited| {
            let stays = std::mem::take(&mut is_oldest) || awaited.waiters.iter().any(|(waiter, _)| !waiter.is_told());
            if !stays {
                left.push(Arc::clone(&awaited.snapshot));
            }
            stays
        });
        self.copies.awaited.push_back(Awaited { number, snapshot, waiters });
        let (told, before) = self.confirm(published, now_ns);
        keys.extend(told);
        left.extend(before);
        (keys, left)
    }

    /// Publishes what enough followers have.
    fn confirm(&mut self, published: &Mutex<Published>, now_ns: u64) -> Told {
        let (mut told, mut before) = (Vec::new(), Vec::new());
        if self.check_writes().is_err() {
            // A newer writer may have other records.
            return (told, before);
        }
        let confirmed = self.copies.confirmed();
        let count = self.copies.awaited.partition_point(|awaited| awaited.number <= confirmed);
        for awaited in self.copies.awaited.drain(..count) {
            before.push(replace(published, awaited.snapshot, awaited.number));
            told.extend(awaited.waiters.iter().filter_map(|(waiter, number)| waiter.tell(Ok(*number))));
        }
        if !told.is_empty() {
            self.staging.come_back(told.len(), now_ns);
        }
        (told, before)
    }

    /// Data with other ids takes the place of all durable data. What followers have not acknowledged is published with
    /// the last of it.
    pub(crate) fn rebased(&mut self, snapshot: Arc<Snapshot>, published: &Mutex<Published>) -> Arc<Snapshot> {
        let number = self.files.log().durable();
        if self.copies.awaited.is_empty() {
            return replace(published, snapshot, number);
        }
        let waiters = self.copies.awaited.drain(..).flat_map(|awaited| awaited.waiters).collect();
        self.copies.awaited.push_back(Awaited { number, snapshot: Arc::clone(&snapshot), waiters });
        snapshot
    }

    /// Tells the callers that wait for followers that there is a newer writer.
    fn fence(&mut self) -> Vec<u64> {
        let Err(error) = self.check_writes() else { return Vec::new() };
        let waiters = self.copies.awaited.iter_mut().flat_map(|awaited| awaited.waiters.drain(..));
        let told = waiters.filter_map(|(waiter, _)| waiter.tell(Err(CommitError::NotConfirmed(error.clone()))));
        told.collect()
    }

    fn promise(&mut self, epoch: Epoch) -> Result<Vec<u64>, StoreError> {
        self.resolve()?;
        self.files.set_lineage(|lineage| lineage.promised = epoch)?;
        Ok(self.fence())
    }
}

/// Publishes data. Gives data that may be dropped, which is better done without a lock.
fn replace(published: &Mutex<Published>, snapshot: Arc<Snapshot>, number: u64) -> Arc<Snapshot> {
    let mut published = lock(published);
    let before = std::mem::replace(&mut published.snapshot, snapshot);
    let last = std::mem::replace(&mut published.number, number);
    let Some(recent) = &mut published.recent else { return before };
    recent.push_back((Arc::clone(&before), last));
    if recent.len() > RECENT { recent.pop_front().map_or(before, |(oldest, _)| oldest) } else { before }
}

/// The step that a follower has taken by an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// All records were there already.
    UpToDate,
    /// This number of records was appended.
    Appended(
        /// How many.
        usize,
    ),
    /// The records behind this one were given up.
    Cut {
        /// The last common record.
        after: u64,
        /// How many were behind it.
        count: u64,
        /// The files that have them now.
        kept: Vec<String>,
    },
    /// A base is needed: [`Store::adopt`].
    NeedsBase,
    /// The answering server can't be followed.
    Refused(
        /// Why.
        Refused,
    ),
    /// The answer was to an older question.
    Ignored,
}

impl Store {
    /// How far it is.
    pub fn standing(&self) -> CopyStanding {
        lock(&self.state).standing()
    }

    /// The data that readers see, and the number of its last record.
    pub fn numbered_snapshot(&self) -> (Arc<Snapshot>, u64) {
        let published = lock(&self.published);
        (Arc::clone(&published.snapshot), published.number)
    }

    /// From now on the last states that readers have seen are kept, for [`Store::recent_snapshot`].
    pub fn keep_recent(&self) {
        lock(&self.published).recent.get_or_insert_default();
    }

    /// The data up to a record, if readers see it, or if states from about that time were to be kept. Records that came
    /// together have no states between them: such a state is made anew, of the one before and the log's records. A
    /// merge gives the same data other numbers of terms: `is_it` says which one is wanted.
    pub fn recent_snapshot(
        &self,
        sequence: u64,
        mut is_it: impl FnMut(&Arc<Snapshot>) -> bool,
    ) -> Option<Arc<Snapshot>> {
        // The newest ones before, or at, the record: several if there was a merge.
        let (nearest, found): (u64, Vec<Arc<Snapshot>>) = {
            let published = lock(&self.published);
            let newest = (&published.snapshot, published.number);
            let kept = published.recent.iter().flatten().rev().map(|(snapshot, number)| (snapshot, *number));
            let all = || iter::once(newest).chain(kept.clone()).filter(|(_, number)| *number <= sequence);
            let nearest = all().map(|(_, number)| number).max()?;
            (nearest, all().filter(|(_, number)| *number == nearest).map(|(state, _)| Arc::clone(state)).collect())
        };
        found.into_iter().filter_map(|state| self.made_of_log(state, nearest, sequence)).find(|state| is_it(state))
    }

    /// The data up to a durable record behind the base. `None` if the log does not have the records before it.
    pub(crate) fn snapshot_at(&self, sequence: u64) -> Result<Option<Arc<Snapshot>>, StoreError> {
        if let Some(found) = self.recent_snapshot(sequence, |_| true) {
            return Ok(Some(found));
        }
        let (base, included) = {
            let state = lock(&self.state);
            let manifest = state.files.manifest().clone();
            let bases = manifest.files.iter().map(|entry| state.files.open_checked_base(&entry.name));
            let bases: Vec<_> = bases.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
            (base::open(&bases, &manifest)?, manifest.included)
        };
        Ok(self.made_of_log(Arc::new(base), included, sequence))
    }

    /// A state and the records behind it. `None` if the log has them no more, or not yet.
    fn made_of_log(&self, state: Arc<Snapshot>, after: u64, last: u64) -> Option<Arc<Snapshot>> {
        if after == last {
            return Some(state);
        }
        let part = lock(&self.state).files.log().part(after + 1, None)?;
        let (records, _) = part.read(usize::MAX).ok()?;
        let wanted = records.get(..usize::try_from(last - after).ok()?)?;
        let numbered = wanted.iter().zip(after + 1..).map(|(record, number)| (&record[..], number));
        replayed(state, self.hash_key, numbered, &Interrupt::never()).ok()
    }

    /// The data that readers see, and its place in the store's history.
    pub fn placed_snapshot(&self) -> (Arc<Snapshot>, StorePlace) {
        let (snapshot, sequence) = self.numbered_snapshot();
        (snapshot, StorePlace { store: self.standing().store, sequence })
    }

    /// From now on, a commit is acknowledged, and visible, when it is durable here and in this number of followers. Its
    /// caller waits for them this long, and is then told that it is [not confirmed](CommitError::NotConfirmed).
    pub fn need_followers(&self, count: usize, patience_ns: u64) {
        let told = {
            let mut state = lock(&self.state);
            (state.copies.needed, state.copies.patience_ns) = (count, patience_ns);
            state.confirm(&self.published, self.waiting.now_ns())
        };
        self.confirmed(told);
    }

    /// A waiter for all changes that are not acknowledged yet: these are the data's that a transaction has begun with,
    /// unless some were refused since. `None` if there are none. The caller has the turn to change data.
    pub(crate) fn last_unconfirmed(&self, refused: u64) -> Result<Option<Arc<Waiter>>, CommitError> {
        let mut state = lock(&self.state);
        if state.staging.refused() != refused {
            return Err(CommitError::BuiltOnRefused);
        }
        if let Some(last) = state.staging.last() {
            return Ok(Some(last));
        }
        if state.copies.awaited.is_empty() {
            return Ok(None);
        }
        state.check_writes()?;
        // Those that wait there may have been told that it took too long.
        let waiter = state.staging.waiter();
        waiter.note_durable(self.waiting.now_ns());
        if let Some(last) = state.copies.awaited.back_mut() {
            last.waiters.push((Arc::clone(&waiter), last.number));
        }
        Ok(Some(waiter))
    }

    fn told(&self, keys: Vec<u64>) {
        keys.into_iter().for_each(|key| self.waiting.wake(key));
    }

    fn confirmed(&self, told: Told) {
        let (keys, before) = told;
        self.told(keys);
        if !before.is_empty() {
            // Memory of these versions alone is freed without a lock.
            drop(before);
            self.tell_watchers();
        }
    }

    /// Answers another copy's question: with about this number of bytes of records, or with records that were written
    /// together if those have more. The question says what is durable there, so it may confirm commits here. A question
    /// with a newer epoch ends this store's own changes, if it `may_end` them: its sender could promote copies as well.
    ///
    /// # Errors
    /// The log can't be read, or the system refuses.
    pub fn answer(&self, ask: &CopyStanding, most_bytes: usize, may_end: bool) -> Result<CopyAnswer, StoreError> {
        let mut tries = 0;
        loop {
            let mut state = lock(&self.state);
            let (standing, included) = (state.standing(), state.files.manifest().included);
            let answer = |content| standing.answer(ask, included, content);
            let from = match standing.decide(ask) {
                CopyDecision::Refuse(why) => {
                    let is_newer = ask.store == standing.store && ask.known() > standing.known();
                    let told = if is_newer && may_end { state.promise(ask.known())? } else { Vec::new() };
                    drop(state);
                    self.told(told);
                    return Ok(answer(Content::Refused(why)));
                }
                CopyDecision::Cut(after) => return Ok(answer(Content::Cut(after))),
                CopyDecision::Records(from) => from,
            };
            let place = state.note_follower(ask);
            let told = state.confirm(&self.published, self.waiting.now_ns());
            let part = state.files.log().part(from, place);
            drop(state);
            self.confirmed(told);
            if from > standing.last {
                return Ok(answer(Content::Records(Vec::new())));
            }
            let Some(part) = part else { return Ok(answer(Content::Base)) };
            match part.read(most_bytes) {
                Ok((records, place)) => {
                    if let Some(follower) = lock(&self.state).copies.followers.get_mut(&ask.copy) {
                        follower.place = place;
                    }
                    let content = if records.is_empty() { Content::Base } else { Content::Records(records) };
                    return Ok(answer(content));
                }
                // A merge has removed the file meanwhile.
                Err(vicus_disk::DiskError::File(error)) if error.is_missing() && tries < 3 => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The base that a copy can fetch.
    pub fn offer(&self) -> Offer {
        let mut state = lock(&self.state);
        let (from, manifest) = (state.standing(), state.files.manifest());
        Offer { from, included: manifest.included, files: manifest.files.clone() }
    }

    /// Opens a base file that was offered; `None` if another base has taken its place since.
    ///
    /// # Errors
    /// The system refuses.
    pub fn open_base(&self, name: &str) -> Result<Option<Arc<dyn File>>, StoreError> {
        Ok(lock(&self.state).files.open_base(name)?)
    }

    /// From now on it follows other copies, and takes no changes of its own. It has this identity if it has none yet.
    ///
    /// # Errors
    /// The system refuses.
    pub fn follow(&self, identity: u64) -> Result<(), StoreError> {
        let told = {
            let mut state = lock(&self.state);
            if state.files.lineage().follows {
                return Ok(());
            }
            state.resolve()?;
            state.files.set_lineage(|lineage| {
                lineage.follows = true;
                lineage.copy = if lineage.copy == 0 { identity } else { lineage.copy };
            })?;
            state.copies.followers.clear();
            state.fence()
        };
        self.told(told);
        Ok(())
    }

    /// Refuses all writers of epochs before this one from now on. Returns how far it is: changes on their way are
    /// durable before.
    ///
    /// # Errors
    /// It knows this epoch or a newer one already, or the system refuses.
    ///
    /// # Panics
    /// The epoch's number is greater than [`Epoch::MOST`].
    pub fn promise(&self, epoch: Epoch) -> Result<CopyStanding, StoreError> {
        assert!(epoch.number <= Epoch::MOST, "a greater one can't be read");
        let _writing = self.writing();
        self.await_all_staged(&never())?;
        let (standing, told) = {
            let mut state = lock(&self.state);
            let known = state.standing().known();
            if known >= epoch {
                return Err(StoreError::Replaced(known));
            }
            let told = state.promise(epoch)?;
            (state.standing(), told)
        };
        self.told(told);
        Ok(standing)
    }

    /// Becomes the writer, with an epoch that it has promised. Returns the number of the epoch's first record.
    ///
    /// # Errors
    /// It has promised another one, or the system refuses: then it can be tried again.
    pub fn begin_epoch(&self, epoch: Epoch) -> Result<u64, CommitError> {
        let _writing = self.writing();
        self.await_all_staged(&never()).map_err(CommitError::Failed)?;
        let waiter = {
            let mut state = lock(&self.state);
            let lineage = state.files.lineage();
            if lineage.promised != epoch || lineage.epoch() >= epoch {
                return Err(StoreError::Replaced(lineage.promised).into());
            }
            state.resolve()?;
            // Without the epoch's record, it takes no changes.
            state.files.set_lineage(|lineage| lineage.follows = false).map_err(StoreError::from)?;
            state.copies.followers.clear();
            let snapshot = state.durable(&self.published);
            state.push(vec![epoch_record(epoch)], &snapshot)
        };
        self.await_outcome(&waiter)
    }

    /// Carries out what an answer says.
    ///
    /// # Errors
    /// The disk is full, or the system refuses; or there is not enough memory, or needed data is damaged. The store is
    /// as it was, or takes no records until an answer is followed again.
    pub fn follow_up(&self, answer: &CopyAnswer) -> Result<Followed, StoreError> {
        let standing = self.standing();
        match (standing.take(answer), &answer.content) {
            (CopyStep::Append, Content::Records(records)) => {
                self.note_merge(answer.included);
                self.append(answer, records)
            }
            (CopyStep::Cut(after), _) => self.cut_after(answer, after),
            (CopyStep::UpToDate, _) => {
                self.note_merge(answer.included);
                Ok(Followed::UpToDate)
            }
            (CopyStep::Fetch, _) => Ok(Followed::NeedsBase),
            (CopyStep::Refuse(why), _) => Ok(Followed::Refused(why)),
            _ => Ok(Followed::Ignored),
        }
    }

    /// The copy that is followed has merged up to a record.
    fn note_merge(&self, included: u64) {
        let before = std::mem::replace(&mut lock(&self.state).copies.merged_there, included);
        if before != included {
            self.tell_watchers();
        }
    }

    /// Its base has all records up to this one.
    pub fn included(&self) -> u64 {
        lock(&self.state).files.manifest().included
    }

    /// The last merge, by its record, of the copy that is followed, as far as it is known.
    pub fn merged_there(&self) -> u64 {
        lock(&self.state).copies.merged_there
    }

    fn append(&self, answer: &CopyAnswer, records: &[Vec<u8>]) -> Result<Followed, StoreError> {
        let _writing = self.writing();
        let (head, refused) = self.head(&never())?;
        let numbered = records.iter().zip(answer.to.0 + 1..).map(|(record, number)| (&record[..], number));
        let snapshot = replayed(head, self.hash_key, numbered, &Interrupt::never())?;
        let waiter = {
            let mut state = lock(&self.state);
            // It may have promised a newer epoch meanwhile.
            let is_still = state.standing().take(answer) == CopyStep::Append;
            if !is_still || state.staging.refused() != refused || !state.staging.is_empty() {
                return Ok(Followed::Ignored);
            }
            state.resolve()?;
            state.push(records.to_vec(), &snapshot)
        };
        match self.await_outcome(&waiter) {
            Ok(_) => Ok(Followed::Appended(records.len())),
            Err(CommitError::Failed(error)) => Err(error),
            Err(CommitError::Refused(refusal)) => Err(refusal.error.into()),
            Err(CommitError::BuiltOnRefused | CommitError::NotConfirmed(_)) => Ok(Followed::Ignored),
        }
    }

    fn cut_after(&self, answer: &CopyAnswer, after: u64) -> Result<Followed, StoreError> {
        let _bases = self.bases.wait(&*self.waiting);
        let _writing = self.writing();
        self.await_all_staged(&never())?;
        let mut state = lock(&self.state);
        if state.standing().take(answer) != CopyStep::Cut(after) {
            return Ok(Followed::Ignored);
        }
        if after < state.files.manifest().included {
            return Ok(Followed::NeedsBase);
        }
        let count = answer.to.0 - after;
        let cut = state.files.cut_after(after).map_err(StoreError::from).and_then(|(recovered, kept)| {
            let snapshot = snapshot_of(&**state.files.directory(), &recovered)?;
            Ok((recovered.records.iter().map(|record| record.len() as u64).sum(), snapshot, kept))
        });
        let (log_bytes, snapshot, kept) = cut.inspect_err(|error| state.copies.unsettled = Some(error.clone()))?;
        state.log_bytes = log_bytes;
        state.replaced(snapshot, after, &self.published);
        drop(state);
        self.tell_watchers();
        Ok(Followed::Cut { after, count, kept })
    }

    /// Begins to fetch an offered file, or goes on.
    ///
    /// # Errors
    /// The system refuses.
    pub fn fetch(&self, file: Fingerprint) -> Result<Fetching, StoreError> {
        let directory = Arc::clone(lock(&self.state).files.directory());
        Ok(Fetching::begin(directory, file)?)
    }

    /// Checks a file that has come.
    ///
    /// # Errors
    /// It is not as it was written, and has to come again; or the system refuses.
    pub fn fetched(&self, file: Fetching) -> Result<Fetched, StoreError> {
        Ok(file.finish(KIND)?)
    }

    /// Replaces its data by an offered base that has come. Records that the offering copy does not have are kept in
    /// other files, together with the base before; returns these. `None`: the base is no step forward any more, since a
    /// newer writer is known, say.
    ///
    /// # Errors
    /// The system refuses, as a full disk does.
    pub fn adopt(&self, offer: &Offer, files: Vec<Fetched>) -> Result<Option<Vec<String>>, StoreError> {
        let _bases = self.bases.wait(&*self.waiting);
        let _writing = self.writing();
        self.await_all_staged(&never())?;
        let mut state = lock(&self.state);
        let (own, base) = (state.standing(), offer.standing());
        let has_all = own.common(&base) == own.last;
        let is_newer = offer.from.epoch() >= own.known() && (has_all || own.epoch() < offer.from.epoch());
        // At the beginning there may be a base without records.
        let is_further = !has_all || base.last > own.last || own.last == 0;
        if !own.follows || own.store != base.store || !is_newer || !is_further {
            return Ok(None);
        }
        let adopted = state.files.adopt(files, base.last, base.epochs, !has_all).map_err(|error| {
            state.base_in_doubt |= error.in_doubt;
            StoreError::from(error)
        });
        let (bases, kept) = adopted?;
        state.base_in_doubt = false;
        let opened = base::open(&bases, state.files.manifest());
        let snapshot = opened.inspect_err(|error| state.copies.unsettled = Some(error.clone()))?;
        state.log_bytes = 0;
        state.replaced(Arc::new(snapshot), base.last, &self.published);
        drop(state);
        self.tell_watchers();
        Ok(Some(kept))
    }
}

impl State {
    /// Notes what a follower has. Returns the place of the next record, if it is known.
    fn note_follower(&mut self, ask: &CopyStanding) -> Option<LogPlace> {
        let followers = &mut self.copies.followers;
        if followers.len() >= MOST_FOLLOWERS && !followers.contains_key(&ask.copy) {
            let last = followers.iter().min_by_key(|(_, follower)| follower.acknowledged).map(|(&copy, _)| copy);
            if let Some(last) = last {
                followers.remove(&last);
            }
        }
        let new = Follower { acknowledged: ask.last, place: None };
        let follower = followers.entry(ask.copy).or_insert(new);
        // Questions may come in another order than they were asked.
        follower.acknowledged = follower.acknowledged.max(ask.last);
        let place = follower.place;
        self.keep_log();
        place
    }

    /// Keeps the log for followers and an archive.
    pub(crate) fn keep_log(&mut self) {
        let followers = self.copies.followers.values().map(|follower| follower.acknowledged);
        let least = followers.chain(self.copies.archived).min();
        self.files.log().keep_from(least.map(|least| least + 1));
    }

    /// Stages records that make this data, and returns the waiter of the last one. Nothing else is staged.
    fn push(&mut self, records: Vec<Vec<u8>>, snapshot: &Arc<Snapshot>) -> Arc<Waiter> {
        let mut last = None;
        for record in records {
            let (staged, waiter) = self.staging.begin(record);
            // An epoch's record changes no data, and those of another copy wait there.
            waiter.need_none();
            self.files.log().stage(&staged.record);
            self.staging.push_ready(staged, Arc::clone(snapshot));
            last = Some(waiter);
        }
        // The callers of the others are all this one.
        self.staging.hurry();
        last.expect("there are records")
    }

    /// Other data takes the place of all data.
    fn replaced(&mut self, snapshot: Arc<Snapshot>, number: u64, published: &Mutex<Published>) {
        self.copies.unsettled = None;
        self.copies.awaited.clear();
        self.copies.followers.clear();
        // An archive may have other records than these.
        self.copies.archived = None;
        drop(replace(published, snapshot, number));
    }
}
