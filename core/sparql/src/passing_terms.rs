//! Computed terms with the life of the rows that have their ids.
//!
//! Such terms *pass*: no reader of the computing box compares or keeps their ids. The box adds the terms of each
//! invocation to a *segment* of its own, and attaches the segment to the sent envelope. A box making rows of this
//! envelope attaches the segment to its own envelope, so the segment is dropped with the last of these envelopes. An id
//! contains the segment's number and the term's place in it. A run gives each number to one segment only, so a
//! remembered id never means another term. Unlike other ids, two of these may mean the same term.

use hashbrown::HashMap;
use rapidhash::v3::RapidSecrets;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use vicus_flow::library::HashKey;
use vicus_flow::{Attachment, NoMemory};
use vicus_rdf::{Id, TermKind, Unranked};

/// An id has 56 bits: the first marks a passing term, these are the segment's number, and the rest is the place in the
/// segment.
const SEGMENT_BITS: u32 = 29;
const PLACE_BITS: u32 = 26;
const PASSES: usize = 1 << (SEGMENT_BITS + PLACE_BITS);

/// The segment of a passing term; `None` for other terms.
#[inline]
pub(crate) fn segment_of(id: Id) -> Option<u32> {
    if !id.is_unranked() {
        return None;
    }
    let rank = id.rank()?;
    (rank & PASSES != 0).then_some((rank >> PLACE_BITS) as u32 & ((1 << SEGMENT_BITS) - 1))
}

/// Whether the id's term lives only as long as its rows.
#[inline]
pub(crate) fn passes(id: Id) -> bool {
    segment_of(id).is_some()
}

type Shard = RwLock<HashMap<u32, Arc<Unranked>, HashKey>>;

/// The living segments of a run.
pub(crate) struct Segments {
    /// The segments by number, in several tables, so boxes seldom wait for a lock. Made with the first segment, as most
    /// runs have none.
    shards: OnceLock<Box<[Shard; SHARDS]>>,
    key: HashKey,
    next: AtomicU32,
}

/// Fewer new bytes than this are booked at the end of the invocation only.
const MUCH: u64 = 1 << 20;

const SHARDS: usize = 16;

impl Segments {
    pub(crate) fn new(key: HashKey) -> Segments {
        Segments { shards: OnceLock::new(), key, next: AtomicU32::new(0) }
    }

    fn shard(&self, number: u32) -> &Shard {
        let shard = |_| RwLock::new(HashMap::with_hasher(self.key));
        &self.shards.get_or_init(|| Box::new(std::array::from_fn(shard)))[number as usize % SHARDS]
    }

    /// A segment attached to a living envelope. Panics if it is not.
    pub(crate) fn get(&self, number: u32) -> Arc<Unranked> {
        let shard = self.shard(number).read().unwrap_or_else(PoisonError::into_inner);
        let found = shard.get(&number).map(Arc::clone);
        found.expect("a term that passes is looked at while an envelope has it")
    }

    /// How many segments live.
    pub(crate) fn count(&self) -> usize {
        self.shards
            .get()
            .into_iter()
            .flat_map(|shards| shards.iter())
            .map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner).len())
            .sum()
    }

    fn put(&self, number: u32, segment: Unranked) {
        let mut shard = self.shard(number).write().unwrap_or_else(PoisonError::into_inner);
        shard.insert(number, Arc::new(segment));
    }

    fn remove(&self, number: u32) {
        let removed = self.shard(number).write().unwrap_or_else(PoisonError::into_inner).remove(&number);
        // The segment is dropped after the lock is released.
        drop(removed);
    }
}

/// The segments of one box.
pub(crate) struct Passing {
    segments: Arc<Segments>,
    secrets: RapidSecrets,
    open: RwLock<Option<Open>>,
    /// Bytes of the box's living terms.
    alive: Arc<AtomicU64>,
    /// The value of `alive` when the box last booked it.
    seen: AtomicU64,
}

/// The segment of the current invocation.
struct Open {
    number: u32,
    bytes: u64,
    terms: Unranked,
}

/// The attachment of an envelope: dropping it drops the segment.
struct Lease {
    segments: Arc<Segments>,
    number: u32,
    bytes: u64,
    alive: Arc<AtomicU64>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.segments.remove(self.number);
        self.alive.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Passing {
    pub(crate) fn new(segments: &Arc<Segments>, secrets: RapidSecrets) -> Passing {
        Passing {
            segments: Arc::clone(segments),
            secrets,
            open: RwLock::new(None),
            alive: Arc::default(),
            seen: AtomicU64::new(0),
        }
    }

    /// Bytes of the box's living terms.
    pub(crate) fn bytes(&self) -> u64 {
        self.alive.load(Ordering::Relaxed)
    }

    /// Bytes of the current segment.
    pub(crate) fn open_bytes(&self) -> u64 {
        self.open.read().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, |open| open.bytes)
    }

    /// The bytes to book: [`Passing::bytes`] if they have grown or shrunk much since the last booking, else 0. Cheap
    /// enough for each row.
    pub(crate) fn take_unbooked(&self) -> u64 {
        let bytes = self.bytes();
        let seen = self.seen.load(Ordering::Relaxed);
        if bytes >= seen && bytes < seen + MUCH {
            return 0;
        }
        self.seen.store(bytes, Ordering::Relaxed);
        bytes
    }

    /// The id of a term in the current segment, added if missing. Panics at the 2^26th term of a segment, and at the
    /// 2^29th segment of a run.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn id(&self, kind: TermKind, key: &str) -> Result<Id, NoMemory> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let open = open.get_or_insert_with(|| {
            let number = self.segments.next.fetch_add(1, Ordering::Relaxed);
            assert!(number >> SEGMENT_BITS == 0, "a run has fewer than 2^29 segments of computed terms");
            let first = PASSES | (number as usize) << PLACE_BITS;
            Open { number, bytes: 0, terms: Unranked::small(first, self.secrets) }
        });
        if let Some(id) = open.terms.find(kind, key) {
            return Ok(id);
        }
        assert!(open.terms.len() >> PLACE_BITS == 0, "an invocation computes fewer than 2^26 terms");
        let id = open.terms.add(kind, key)?;
        let bytes = Unranked::bytes_of(key) as u64;
        open.bytes += bytes;
        self.alive.fetch_add(bytes, Ordering::Relaxed);
        Ok(id)
    }

    /// A copy of the key of a term in the current segment; `None` for other terms.
    pub(crate) fn key(&self, id: Id) -> Option<String> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().filter(|open| open.terms.has(id)).map(|open| open.terms.key_copied(id))
    }

    /// Ends the current segment; returns the attachment for the envelope with its terms.
    pub(crate) fn seal(&self) -> Option<Attachment> {
        let Open { number, bytes, terms } = self.open.write().unwrap_or_else(PoisonError::into_inner).take()?;
        self.segments.put(number, terms);
        let lease = Lease { segments: Arc::clone(&self.segments), number, bytes, alive: Arc::clone(&self.alive) };
        Some(Attachment::new(Arc::new(lease), bytes))
    }

    /// Drops the current segment: no row has its terms.
    pub(crate) fn discard(&self) {
        if let Some(open) = self.open.write().unwrap_or_else(PoisonError::into_inner).take() {
            self.alive.fetch_sub(open.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_lives_as_long_as_what_it_is_attached_to() {
        let segments = Arc::new(Segments::new(HashKey::of_seed(1)));
        let passing = Passing::new(&segments, RapidSecrets::seed(1));
        let first = passing.id(TermKind::String, "one").unwrap();
        assert_eq!(passing.id(TermKind::String, "one"), Ok(first));
        assert_eq!((passing.key(first).as_deref(), segments.count()), (Some("one"), 0));
        let attached = passing.seal().expect("it has a term");
        assert!(passing.seal().is_none() && passing.key(first).is_none());
        let number = segment_of(first).expect("it passes");
        assert_eq!(segments.get(number).key(first), "one");
        // The same term again is in another segment and has another id.
        let second = passing.id(TermKind::String, "one").unwrap();
        assert!(second != first && passes(second) && !passes(Id::unranked(TermKind::String, 7)));
        passing.discard();
        assert_eq!((passing.bytes(), segments.count()), (attached.bytes(), 1));
        let other = attached.clone();
        drop(attached);
        assert_eq!(segments.count(), 1);
        drop(other);
        assert_eq!((passing.bytes(), segments.count()), (0, 0));
    }
}
