//! Kept plans: a query that comes again pays neither parsing nor planning.
//!
//! A plan belongs to one version of the data, with the terms and statistics it was made from, and keeps it alive; so
//! all are dropped when the data has changed. A plan of SQL with the solutions of `SPARQL('…')` is not kept: asked
//! again, they may be others. Plans are bounded together in bytes ([`Generations`]).

use crate::generations::Generations;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use vicus_service::{Prepared, ReadGraphs};

/// The identity of a query, at a version of the data. A text may be long, so its hash is made once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Key(Arc<Parts>);

#[derive(PartialEq, Eq, Debug)]
struct Parts {
    hash: u64,
    language: &'static str,
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
    /// `hashes` must be the same for all compared keys.
    pub(crate) fn new(
        hashes: &RandomState,
        language: &'static str,
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

pub(crate) struct Plans {
    /// The hash function of keys. The map hashes the result once more, as a single word.
    pub(crate) hashes: RandomState,
    pub(crate) kept: Generations<Key, Arc<Prepared>>,
}

impl Plans {
    pub(crate) fn new(most_bytes: u64) -> Plans {
        Plans { hashes: RandomState::new(), kept: Generations::new(most_bytes) }
    }

    /// Keeps a plan, unless it is too large to be kept with others. [`Prepared::bytes`] is much more than the plan's
    /// memory: it includes the memory of parsing, and most of that is free again.
    pub(crate) fn put(&self, version: u64, key: Key, plan: &Arc<Prepared>) {
        let bytes = plan.plan_bytes() + key.bytes();
        if bytes <= self.kept.most_bytes() / 8 {
            self.kept.put(version, key, Arc::clone(plan), bytes);
        }
    }
}
