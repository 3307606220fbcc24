//! One writer's changes: seen by itself at once, by others when they are durable.

use crate::error::{CommitError, StoreError};
use crate::record::{Editor, Flaw, Record, Writer};
use crate::store::{Store, Waiter, Writing};
use crate::turn::lock;
use oxrdf::{GraphNameRef, QuadRef, TermRef};
use std::fmt;
use std::sync::Arc;
use vicus_flow::{BoxError, NoMemory, or_given_up};
use vicus_rdf::{Changes, Encoded, Encoder, Graphs, Id, Interrupt, OwnMemory, Snapshot, TermKind, Unranked};

/// Is asked at bounded steps of long work, with the bytes that the work holds beside the store's data. An error ends
/// the work.
pub type Ask = Arc<dyn Fn(u64) -> Result<(), BoxError> + Send + Sync>;

/// Changes made together or not at all. Dropped without [`Transaction::commit`], they are not made; nor are they after
/// an error.
///
/// Ids are those of the last [`Transaction::snapshot`], and those given by [`Transaction::id`] since.
pub struct Transaction<'a> {
    store: &'a Store,
    writing: Writing<'a>,
    /// How often staged transactions had been refused when this began.
    refused: u64,
    snapshot: Arc<Snapshot>,
    fresh: Unranked,
    /// The changes of quads since `snapshot`: whether each is there. Of several changes of a quad, the last one holds.
    changes: Vec<([Id; 4], bool)>,
    /// Whether something has failed, so `snapshot` and `record` may have half of it.
    is_broken: bool,
    record: Writer,
    /// The data that the store does not have yet.
    made: OwnMemory,
    encoder: Encoder,
    /// See [`Transaction::ask`].
    pub(crate) ask: Ask,
}

/// The result of a transaction.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The data as this transaction left it.
    pub snapshot: Arc<Snapshot>,
    /// The sequence number of its record in the log; `None` if nothing has changed.
    pub number: Option<u64>,
}

/// How often the bytes of a record are in memory at most until they are written: by themselves, as others share them,
/// in a frame of the log, and in that one as it grows by room for the next.
const IN_FLIGHT: usize = 5;

impl<'a> Transaction<'a> {
    pub(crate) fn new(store: &'a Store, writing: Writing<'a>, ask: Ask) -> Result<Transaction<'a>, StoreError> {
        lock(&store.state).check_writes()?;
        let (snapshot, refused) = store.head(&ask)?;
        let fresh = snapshot.fresh().behind();
        let changes = Vec::new();
        let (record, encoder) = (Writer::new(store.hash_key), Encoder::default());
        let (is_broken, made) = (false, OwnMemory::default());
        Ok(Transaction { store, writing, refused, snapshot, fresh, changes, is_broken, record, made, encoder, ask })
    }

    /// From now on long work asks this function at bounded steps, and ends with its error: the last time before its
    /// changes are staged for the drive. The transaction is then not made. See [`Store::write_asking`] for a
    /// transaction that asks while it waits to begin.
    pub fn ask(&mut self, ask: Ask) {
        self.ask = ask;
    }

    /// The bytes that its changes so far hold, beside the store's data: those of many changes, for few are not counted.
    pub fn heap_bytes(&self) -> u64 {
        let waiting = self.changes.capacity() * size_of::<([Id; 4], bool)>();
        (waiting + self.made.bytes() + self.record.heap_bytes()) as u64
    }

    /// The data with all changes so far.
    ///
    /// # Errors
    /// There is not enough memory, needed data is damaged, or the store can't keep a change.
    pub fn snapshot(&mut self) -> Result<Arc<Snapshot>, StoreError> {
        // Terms without quads are forgotten with it.
        let fresh = std::mem::replace(&mut self.fresh, self.snapshot.fresh().behind());
        self.sound(|this| this.apply(fresh))?;
        Ok(Arc::clone(&self.snapshot))
    }

    /// Makes the changes since the last snapshot part of it and of the record.
    fn apply(&mut self, fresh: Unranked) -> Result<(), StoreError> {
        if self.changes.is_empty() {
            return Ok(());
        }
        let (ask, changes) = (Arc::clone(&self.ask), std::mem::take(&mut self.changes));
        let split = or_given_up(|| {
            let interrupt = Interrupt::by(&*ask);
            // While they are sorted, half of them are there twice, and then those of each kind.
            let _held = interrupt.holding(2 * changes.capacity() * size_of::<([Id; 4], bool)>() + self.made.bytes());
            let changes = last_of_each(changes, &interrupt);
            let of = |there: bool| {
                let those = interrupt.each(changes.iter()).filter(|(_, is)| *is == there);
                those.map(|(quad, _)| *quad).collect::<Vec<_>>()
            };
            (of(false), of(true))
        });
        let (deletes, inserts) = split.map_err(StoreError::given_up)?;
        self.make(Changes { fresh, inserts, deletes })
    }

    /// Makes changes of the last snapshot part of it and of the record.
    fn make(&mut self, changes: Changes) -> Result<(), StoreError> {
        let ask = Arc::clone(&self.ask);
        let interrupt = Interrupt::by(&*ask);
        let (rows, terms) = (changes.inserts.len() + changes.deletes.len(), changes.fresh.heap_bytes());
        let made = self.snapshot.read_by(|| -> Result<Result<Snapshot, Flaw>, NoMemory> {
            let _made = interrupt.holding(self.made.bytes() + self.record.heap_bytes());
            let quads = interrupt.holding(changes.heap_bytes());
            let changes = changes.tidied(&interrupt);
            let fresh = &changes.fresh;
            let key = |id: Id, look: &mut dyn FnMut(&str)| match fresh.has(id) && id.is_unranked() {
                true => look(fresh.key(id)),
                false => self.snapshot.key(id, look),
            };
            let before = self.record.heap_bytes();
            self.record.step(&changes.deletes, &changes.inserts, key, &interrupt);
            let _record = interrupt.holding(self.record.heap_bytes() - before);
            // From here on the snapshot's work says what it holds.
            drop(quads);
            match self.record.flaw() {
                Some(flaw) => Ok(Err(flaw)),
                None => self.snapshot.with_interrupt(changes, &interrupt).map(Ok),
            }
        });
        let made = made.map_err(StoreError::given_up)?;
        let snapshot = made?.map_err(StoreError::NotKept)?;
        self.go_on_with(snapshot, rows, terms);
        Ok(())
    }

    /// The result of a function, unless something has failed before. If it fails, the transaction is broken.
    fn sound<T>(&mut self, function: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.is_broken {
            return Err(StoreError::Broken);
        }
        let made = function(self);
        self.is_broken = made.is_err();
        made
    }

    /// The id of a term. A new term becomes one of the store's.
    ///
    /// # Errors
    /// Those of [`Transaction::snapshot`].
    pub fn id(&mut self, term: TermRef<'_>) -> Result<Id, StoreError> {
        match self.encoder.term(term) {
            Encoded::Inlined(id) => Ok(id),
            Encoded::Key(kind, key) => {
                let made = id_of(&self.snapshot, &mut self.fresh, kind, key);
                self.is_broken |= made.is_err();
                made
            }
        }
    }

    /// Like [`Transaction::id`], by the key of the term ([`vicus_rdf::term`]).
    ///
    /// # Errors
    /// Those of [`Transaction::snapshot`]; or this is no key of such a term.
    pub fn id_of_key(&mut self, kind: TermKind, key: &str) -> Result<Id, StoreError> {
        self.sound(|this| match Encoded::Key(kind, key).flaw() {
            Some(flaw) => Err(StoreError::NotKept(flaw)),
            None => id_of(&this.snapshot, &mut this.fresh, kind, key),
        })
    }

    /// From now on the quad (subject, predicate, object, graph or [`Id::UNBOUND`]) is there.
    pub fn insert(&mut self, quad: [Id; 4]) {
        self.changes.push((quad, true));
    }

    /// From now on the quad is not there.
    pub fn delete(&mut self, quad: [Id; 4]) {
        self.changes.push((quad, false));
    }

    /// Makes changes prepared with the last snapshot: [`Transaction::snapshot`] was called before, and no other ones
    /// were made since. New terms without quads to insert are not kept.
    ///
    /// # Errors
    /// Those of [`Transaction::snapshot`].
    ///
    /// # Panics
    /// There are other changes since.
    pub fn change(&mut self, changes: Changes) -> Result<(), StoreError> {
        if self.is_broken {
            return Err(StoreError::Broken);
        }
        assert!(self.fresh.is_empty() && self.changes.is_empty(), "changes follow the last snapshot");
        let Changes { mut fresh, inserts, mut deletes } = changes;
        if inserts.is_empty() {
            // A quad with a term unknown to the data is not there.
            deletes.retain(|quad| !quad.iter().any(|&id| id.is_unranked() && fresh.has(id)));
            fresh = self.snapshot.fresh().behind();
        }
        if inserts.is_empty() && deletes.is_empty() {
            return Ok(());
        }
        self.sound(|this| this.make(Changes { fresh, inserts, deletes }))
    }

    /// From now on there are no quads in these graphs. The record has the graphs, and not their quads.
    ///
    /// # Errors
    /// Those of [`Transaction::snapshot`].
    pub fn clear(&mut self, graphs: Graphs) -> Result<(), StoreError> {
        if graphs.rows(&*self.snapshot()?).is_empty() {
            return Ok(());
        }
        self.sound(|this| {
            let (snapshot, ask) = (Arc::clone(&this.snapshot), Arc::clone(&this.ask));
            let interrupt = Interrupt::by(&*ask);
            let _made = interrupt.holding(this.made.bytes() + this.record.heap_bytes());
            let made = snapshot.read_by(|| {
                this.record.clear(graphs, |id, look| snapshot.key(id, look));
                snapshot.cleared_with_interrupt(graphs, &interrupt)
            });
            drop(snapshot);
            this.follow(made.map_err(StoreError::given_up)??)
        })
    }

    /// From now on, the quads now in a graph are in another one, too. A graph is an id of the last snapshot, or
    /// [`Id::UNBOUND`]; `fresh` has the name of the other one, if the snapshot does not. The record has the graphs, and
    /// not their quads.
    ///
    /// # Errors
    /// Those of [`Transaction::snapshot`].
    ///
    /// # Panics
    /// There are other new terms since the last snapshot.
    pub fn copy_graph(&mut self, from: Id, to: Id, fresh: Unranked) -> Result<(), StoreError> {
        assert!(self.fresh.is_empty(), "the new terms of changes follow those of the last snapshot");
        if Graphs::One(from).rows(&*self.snapshot()?).is_empty() {
            return Ok(());
        }
        self.sound(|this| {
            let (snapshot, ask) = (Arc::clone(&this.snapshot), Arc::clone(&this.ask));
            let interrupt = Interrupt::by(&*ask);
            let _made = interrupt.holding(this.made.bytes() + this.record.heap_bytes());
            let made = snapshot.read_by(|| {
                this.record.copy(from, to, |id, look| match fresh.has(id) && id.is_unranked() {
                    true => look(fresh.key(id)),
                    false => snapshot.key(id, look),
                });
                snapshot.with_interrupt(Changes::of_copy(&snapshot, from, to, fresh, &interrupt)?, &interrupt)
            });
            drop(snapshot);
            this.follow(made.map_err(StoreError::given_up)??)
        })
    }

    /// Goes on with the snapshot made by the record.
    fn follow(&mut self, snapshot: Snapshot) -> Result<(), StoreError> {
        if let Some(flaw) = self.record.flaw() {
            return Err(StoreError::NotKept(flaw));
        }
        let rows = snapshot.len().abs_diff(self.snapshot.len());
        self.go_on_with(snapshot, rows, 0);
        Ok(())
    }

    fn go_on_with(&mut self, snapshot: Snapshot, rows: usize, terms: usize) {
        // The snapshot before is gone first: what it shares with the new one is this transaction's as well.
        self.snapshot = Arc::new(snapshot);
        self.made.measure(&self.snapshot, rows, terms);
        self.fresh = self.snapshot.fresh().behind();
    }

    /// Like [`Transaction::insert`], by terms.
    ///
    /// # Errors
    /// Those of [`Transaction::snapshot`].
    pub fn insert_quad(&mut self, quad: QuadRef<'_>) -> Result<(), StoreError> {
        let graph = match quad.graph_name {
            GraphNameRef::DefaultGraph => Id::UNBOUND,
            GraphNameRef::NamedNode(node) => self.id(node.into())?,
            GraphNameRef::BlankNode(node) => self.id(node.into())?,
        };
        let [s, p, o] = [quad.subject.into(), quad.predicate.into(), quad.object];
        let quad = [self.id(s)?, self.id(p)?, self.id(o)?, graph];
        self.insert(quad);
        Ok(())
    }

    /// Like [`Transaction::delete`], by terms.
    ///
    /// # Errors
    /// Those of [`Transaction::snapshot`].
    pub fn delete_quad(&mut self, quad: QuadRef<'_>) -> Result<(), StoreError> {
        let graph = match quad.graph_name {
            GraphNameRef::DefaultGraph => Some(Id::UNBOUND),
            GraphNameRef::NamedNode(node) => self.find(node.into())?,
            GraphNameRef::BlankNode(node) => self.find(node.into())?,
        };
        let [s, p, o] = [quad.subject.into(), quad.predicate.into(), quad.object];
        if let (Some(s), Some(p), Some(o), Some(graph)) = (self.find(s)?, self.find(p)?, self.find(o)?, graph) {
            self.delete([s, p, o, graph]);
        }
        Ok(())
    }

    /// The id of a term if the store has it, or this transaction has made it.
    ///
    /// # Errors
    /// Those of [`Transaction::snapshot`].
    pub fn find(&mut self, term: TermRef<'_>) -> Result<Option<Id>, StoreError> {
        match self.encoder.term(term) {
            Encoded::Inlined(id) => Ok(Some(id)),
            Encoded::Key(kind, key) => {
                let found = self.snapshot.read_part_by(|| self.snapshot.find(kind, key));
                let stored = found.map_err(StoreError::given_up);
                self.is_broken |= stored.is_err();
                Ok(stored?.or_else(|| self.fresh.find(kind, key)))
            }
        }
    }

    /// Makes the changes durable, then visible to readers. Waits for the drive, alone or together with other
    /// transactions.
    ///
    /// # Errors
    /// The changes are not made, because the commit or an earlier change failed; or the commit is
    /// [in doubt](CommitError::in_doubt).
    pub fn commit(mut self) -> Result<Committed, CommitError> {
        let snapshot = self.snapshot()?;
        // Terms may have been looked for in vain in lost bytes, and their quads left out.
        snapshot.check_kept().map_err(StoreError::given_up)?;
        let Transaction { store, writing, record, made, refused, ask, .. } = self;
        if record.is_empty() {
            let last = store.last_unconfirmed(refused)?;
            drop(writing);
            // Nothing has changed because of changes that may be lost: its caller is told when they can't be.
            last.map(|last| store.await_outcome(&last)).transpose()?;
            return Ok(Committed { snapshot, number: None });
        }
        let record = or_given_up(|| {
            let interrupt = Interrupt::by(&*ask);
            let _made = interrupt.holding(made.bytes());
            // It is put together from its parts, and then read into numbers of its terms.
            let _record = interrupt.holding(2 * record.heap_bytes() + record.read_bytes());
            let record = record.finish();
            // The last line of defence: opening the store again reads every acknowledged record. A batch is read before
            // it is applied.
            Record::read_with_interrupt(&record, &interrupt).map(drop).map(|()| record)
        });
        let record = record.map_err(StoreError::given_up)?;
        let record = record.map_err(|what| StoreError::Record { number: 0, what })?;
        // The last time: staged changes can't be taken back.
        ask((made.bytes() + IN_FLIGHT * record.len()) as u64).map_err(StoreError::given_up)?;
        let waiter = store.stage(record, Arc::clone(&snapshot), refused)?;
        // The next writer begins while the drive works.
        drop(writing);
        let number = store.await_outcome(&waiter)?;
        Ok(Committed { snapshot, number: Some(number) })
    }
}

/// The last change of each quad, ascending by quads.
pub(crate) fn last_of_each(mut changes: Vec<([Id; 4], bool)>, interrupt: &Interrupt<'_>) -> Vec<([Id; 4], bool)> {
    /// This number of changes is sorted without a question.
    const SORTED: usize = 1 << 18;
    // Stable, so those of a quad stay in their order.
    for part in changes.chunks_mut(SORTED) {
        interrupt.steps(part.len());
        part.sort_by_key(|(quad, _)| *quad);
    }
    if changes.len() > SORTED {
        // This finds the sorted parts and merges them, and counts what it compares.
        changes.sort_by(|(one, _), (other, _)| {
            interrupt.step();
            one.cmp(other)
        });
    }
    changes.dedup_by(|later, kept| {
        interrupt.step();
        let is_same = later.0 == kept.0;
        if is_same {
            kept.1 = later.1;
        }
        is_same
    });
    changes
}

/// The id of a term with this key. The term is added to the fresh ones if the snapshot does not have it.
pub(crate) fn id_of(snapshot: &Snapshot, fresh: &mut Unranked, kind: TermKind, key: &str) -> Result<Id, StoreError> {
    Ok(snapshot.read_part_by(|| snapshot.find_or_add(fresh, kind, key)).map_err(StoreError::given_up)??)
}

/// Changes independent of the present data, as those of INSERT DATA and DELETE DATA: quads that shall be there, and
/// quads that shall not. They are made together or not at all. They hold up no other writer, wait for no turn, and all
/// batches of one sync are applied together, so many small ones are several times as fast as transactions.
#[derive(Debug, Default)]
pub struct Batch {
    editor: Editor,
    encoder: Encoder,
}

impl Batch {
    /// No changes yet.
    pub fn new() -> Batch {
        Batch::default()
    }

    fn set(&mut self, quad: QuadRef<'_>, there: bool) {
        let mut number = |term| self.editor.number(self.encoder.term(term));
        let [s, p, o] = [quad.subject.into(), quad.predicate.into(), quad.object].map(&mut number);
        let graph = match quad.graph_name {
            GraphNameRef::DefaultGraph => 0,
            GraphNameRef::NamedNode(node) => number(node.into()),
            GraphNameRef::BlankNode(node) => number(node.into()),
        };
        self.editor.set([s, p, o, graph], there);
    }

    /// From now on the quad is there.
    pub fn insert(&mut self, quad: QuadRef<'_>) {
        self.set(quad, true);
    }

    /// From now on the quad is not there.
    pub fn delete(&mut self, quad: QuadRef<'_>) {
        self.set(quad, false);
    }

    /// Makes the changes durable, then visible to readers. The number of the record in the log; `None` if there are no
    /// changes.
    ///
    /// # Errors
    /// Those of [`Transaction::commit`].
    pub fn commit(self, store: &Store) -> Result<Option<u64>, CommitError> {
        let Some(record) = self.editor.finish().map_err(StoreError::NotKept)? else { return Ok(None) };
        let waiter = store.hand_in(record)?;
        store.await_outcome(&waiter).map(Some)
    }

    /// Like [`Batch::commit`], for a caller that waits for nothing.
    ///
    /// # Errors
    /// Those of [`Transaction::commit`].
    pub fn stage(self, store: &Store) -> Result<Option<Pending>, CommitError> {
        let Some(record) = self.editor.finish().map_err(StoreError::NotKept)? else { return Ok(None) };
        Ok(Some(Pending(store.hand_in(record)?)))
    }
}

/// Changes on their way. Others of the same store may wait for their caller, so it asks now and then.
#[derive(Debug)]
pub struct Pending(Arc<Waiter>);

impl Pending {
    /// Does the work that is due, on this thread. The number of the record when it is durable and acknowledged; `None`
    /// before.
    pub fn poll(&self, store: &Store) -> Option<Result<u64, CommitError>> {
        store.poll(&self.0)
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("changes", &self.changes.len()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What happened: the sorted parts of many changes were merged without a question.
    #[test]
    fn merging_many_changes_is_counted() {
        const CHANGES: usize = 1 << 20;
        let mixed = |number: usize| (number as i64).wrapping_mul(0x9E37_79B9) & 0xF_FFFF;
        let quad = |number| [(); 4].map(|()| Id::integer(mixed(number)).expect("it is small"));
        let changes: Vec<_> = (0..CHANGES).map(|number| (quad(number), number % 3 == 0)).collect();
        let mut expected = changes.clone();
        expected.sort_by_key(|(quad, _)| *quad);
        let asked = std::cell::Cell::new(0);
        let ask = |_| {
            asked.set(asked.get() + 1);
            Ok(())
        };
        let sorted = last_of_each(changes, &Interrupt::by(&ask));
        // The factor is odd, so all are different.
        assert!(sorted == expected);
        // Four parts, of which two and two are merged first; a question for 16,384 comparisons, and for 16,384 changes
        // behind.
        let (merged, behind) = (CHANGES / (1 << 14), CHANGES / (1 << 14));
        assert!(asked.get() >= 4 + merged + behind, "{} questions", asked.get());
    }
}
