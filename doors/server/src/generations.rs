//! Kept values for requests that come again: for one version of the data, and within a limit of bytes.
//!
//! Values lie in two generations: a used one moves to the younger, and when the younger has half of the bytes, it
//! becomes the older, and the rest of the older one is dropped. So the least recently used values go, and no order is
//! kept.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values by key, of one version of the data: all are dropped when it has changed.
pub(crate) struct Generations<K, V> {
    state: Mutex<State<K, V>>,
    most_bytes: u64,
    hits: AtomicU64,
    misses: AtomicU64,
}

struct State<K, V> {
    version: u64,
    young: Generation<K, V>,
    old: Generation<K, V>,
}

struct Generation<K, V> {
    /// The values, each with its bytes.
    values: HashMap<K, (V, u64)>,
    bytes: u64,
}

impl<K, V> Default for Generation<K, V> {
    fn default() -> Self {
        Generation { values: HashMap::new(), bytes: 0 }
    }
}

impl<K, V> State<K, V> {
    fn new(version: u64) -> Self {
        State { version, young: Generation::default(), old: Generation::default() }
    }
}

impl<K: Eq + Hash, V: Clone> Generations<K, V> {
    /// Keeps at most `most_bytes` together.
    pub(crate) fn new(most_bytes: u64) -> Self {
        let (hits, misses) = (AtomicU64::new(0), AtomicU64::new(0));
        Generations { state: Mutex::new(State::new(0)), most_bytes, hits, misses }
    }

    /// The most bytes of all values.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// How many look-ups found a value, and how many did not.
    pub(crate) fn hits_and_misses(&self) -> [u64; 2] {
        [&self.hits, &self.misses].map(|count| count.load(Ordering::Relaxed))
    }

    /// The value for a key at this version of the data.
    pub(crate) fn get(&self, version: u64, key: &K) -> Option<V> {
        let found = self.lock().get(version, key, self.most_bytes / 2);
        if found.is_some() { &self.hits } else { &self.misses }.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps a value of `bytes`, unless the data has changed since. The caller keeps no value large enough to crowd out
    /// the others.
    pub(crate) fn put(&self, version: u64, key: K, value: V, bytes: u64) {
        let mut state = self.lock();
        state.move_to(version);
        if state.version == version {
            state.put(key, value, bytes, self.most_bytes / 2);
        }
    }

    /// Whether it keeps values of an older version of the data.
    pub(crate) fn is_behind(&self, version: u64) -> bool {
        let state = self.lock();
        state.version < version && !(state.young.values.is_empty() && state.old.values.is_empty())
    }

    /// Drops the values of older versions than this one.
    pub(crate) fn move_to(&self, version: u64) {
        let mut state = self.lock();
        let before = (version > state.version).then(|| std::mem::replace(&mut *state, State::new(version)));
        drop(state);
        // Not under the lock: freeing much takes time.
        drop(before);
    }

    /// Drops all.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        *state = State::new(state.version);
    }

    /// How many there are, and their bytes.
    pub(crate) fn held(&self) -> (usize, u64) {
        let State { young, old, .. } = &*self.lock();
        (young.values.len() + old.values.len(), young.bytes + old.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, V: Clone> State<K, V> {
    /// Drops the values of an older version.
    fn move_to(&mut self, version: u64) {
        if version > self.version {
            *self = State::new(version);
        }
    }

    fn get(&mut self, version: u64, key: &K, most_bytes: u64) -> Option<V> {
        self.move_to(version);
        if version != self.version {
            return None;
        }
        if let Some((value, _)) = self.young.values.get(key) {
            return Some(value.clone());
        }
        let (key, (value, bytes)) = self.old.values.remove_entry(key)?;
        self.old.bytes -= bytes;
        self.put(key, value.clone(), bytes, most_bytes);
        Some(value)
    }

    fn put(&mut self, key: K, value: V, bytes: u64, most_bytes: u64) {
        if self.young.bytes + bytes > most_bytes {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.bytes += bytes;
        if let Some((_, before)) = self.young.values.insert(key, (value, bytes)) {
            self.young.bytes -= before;
        }
    }
}
