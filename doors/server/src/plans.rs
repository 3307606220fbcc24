//! Plans that are kept: a query that comes again pays neither parsing nor planning.
//!
//! A plan belongs to one version of the data, whose terms and statistics it was made with, and keeps it alive; so all are dropped when the
//! data has changed. One of SQL with the solutions of `SPARQL('…')` is not kept: asked again, they may be others. Plans are bounded together in bytes; those that were used least recently go first.

use crate::query::Language;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use vicus_service::{Prepared, ReadGraphs};

/// What makes two queries one, at a version of the data. A text may be long, so its hash is made once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Key(Arc<Parts>);

#[derive(PartialEq, Eq, Debug)]
struct Parts {
    hash: u64,
    language: Language,
    text: Arc<str>,
    base: Option<String>,
    graphs: Option<Vec<String>>,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl Key {
    /// `hashes` are those of all keys that are compared.
    pub(crate) fn new(
        hashes: &RandomState,
        language: Language,
        text: &Arc<str>,
        base: Option<&str>,
        graphs: Option<&ReadGraphs>,
    ) -> Key {
        let names = |graphs: &ReadGraphs| {
            let default = graphs.default.iter().map(|graph| graph.as_str().to_owned());
            default.chain([String::new()]).chain(graphs.named.iter().map(|graph| graph.as_str().to_owned())).collect()
        };
        let graphs = graphs.map(names);
        let hash = hashes.hash_one((language, text, base, &graphs));
        Key(Arc::new(Parts { hash, language, text: Arc::clone(text), base: base.map(str::to_owned), graphs }))
    }

    pub(crate) fn hash(&self) -> u64 {
        self.0.hash
    }

    fn bytes(&self) -> u64 {
        let Parts { text, base, graphs, .. } = &*self.0;
        let names: usize = graphs.iter().flatten().map(|name| name.len() + 32).sum();
        (text.len() + base.as_ref().map_or(0, String::len) + names + 200) as u64
    }
}

/// What is held for a plan. [`Prepared::bytes`] is much more: it has what parsing the text may have held, and most of that is free again.
fn held_bytes(key: &Key, plan: &Prepared) -> u64 {
    plan.plan_bytes() + key.bytes()
}

pub(crate) struct Plans {
    /// Of keys. The map hashes what they give once more, which is a word.
    pub(crate) hashes: RandomState,
    state: Mutex<State>,
    most_bytes: u64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
}

#[derive(Default)]
struct State {
    version: u64,
    plans: HashMap<Key, (Arc<Prepared>, u64)>,
    /// By when they were used last.
    uses: BTreeMap<u64, Key>,
    next: u64,
    bytes: u64,
}

impl Plans {
    pub(crate) fn new(most_bytes: u64) -> Plans {
        let (hits, misses) = (AtomicU64::new(0), AtomicU64::new(0));
        Plans { hashes: RandomState::new(), state: Mutex::default(), most_bytes, hits, misses }
    }

    /// The plan for a query at this version of the data.
    pub(crate) fn get(&self, version: u64, key: &Key) -> Option<Arc<Prepared>> {
        let mut state = self.lock();
        let found = state.at(version).and_then(|state| state.used(key));
        if found.is_some() { &self.hits } else { &self.misses }.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps a plan, unless it is too large to be kept with others.
    pub(crate) fn put(&self, version: u64, key: Key, plan: &Arc<Prepared>) {
        let bytes = held_bytes(&key, plan);
        let mut state = self.lock();
        if bytes > self.most_bytes / 8 || version < state.version || state.plans.contains_key(&key) {
            return;
        }
        state.move_to(version);
        while state.bytes + bytes > self.most_bytes {
            let Some((_, oldest)) = state.uses.pop_first() else { return };
            if let Some((plan, _)) = state.plans.remove(&oldest) {
                state.bytes -= held_bytes(&oldest, &plan);
            }
        }
        let number = state.next;
        state.next += 1;
        state.bytes += bytes;
        state.uses.insert(number, key.clone());
        state.plans.insert(key, (Arc::clone(plan), number));
    }

    /// How many there are, and their bytes.
    pub(crate) fn held(&self) -> (usize, u64) {
        let state = self.lock();
        (state.plans.len(), state.bytes)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Drops what belongs to an older version.
    fn move_to(&mut self, version: u64) {
        if version > self.version {
            *self = State { version, next: self.next, ..State::default() };
        }
    }

    /// Itself, if it has plans for this version.
    fn at(&mut self, version: u64) -> Option<&mut State> {
        self.move_to(version);
        (version == self.version).then_some(self)
    }

    fn used(&mut self, key: &Key) -> Option<Arc<Prepared>> {
        let next = self.next;
        let (plan, number) = self.plans.get_mut(key)?;
        let plan = Arc::clone(plan);
        // The newest need not move.
        if *number + 1 != next {
            let key = self.uses.remove(number).expect("each plan has a use");
            *number = next;
            self.uses.insert(next, key);
            self.next += 1;
        }
        Some(plan)
    }
}
