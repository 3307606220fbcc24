//! What an operation of an update does to the data, as ids.

use std::fmt;
use vicus_rdf::{Id, Unranked};

/// A step of an operation.
#[derive(Debug)]
pub enum Change {
    /// All quads of these graphs go.
    Clear(Graphs),
    /// Quads go, and others come.
    Quads(Changes),
}

/// Some graphs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Graphs {
    /// Every graph.
    All,
    /// Every graph with a name.
    Named,
    /// The graph with this name, or the default graph ([`Id::UNBOUND`]).
    One(Id),
}

/// Quads that go and quads that come: subject, predicate, object, and the graph's name, [`Id::UNBOUND`] for the default graph.
///
/// Invariant: both lists are sorted, none has a quad twice, and no quad is in both.
pub struct Changes {
    /// Terms that the snapshot lacks, behind its [fresh ones](vicus_rdf::Snapshot::fresh).
    pub fresh: Unranked,
    /// Quads that go; some may not be there.
    pub deletes: Vec<[Id; 4]>,
    /// Quads that come; some may be there already.
    pub inserts: Vec<[Id; 4]>,
}

impl Changes {
    /// Deletes happen before inserts, so a quad that is in both lists stays.
    pub(super) fn new(fresh: Unranked, mut deletes: Vec<[Id; 4]>, mut inserts: Vec<[Id; 4]>) -> Changes {
        for quads in [&mut deletes, &mut inserts] {
            quads.sort_unstable();
            quads.dedup();
        }
        if !inserts.is_empty() {
            let mut rest = &inserts[..];
            deletes.retain(|quad| {
                while rest.first().is_some_and(|first| first < quad) {
                    rest = &rest[1..];
                }
                rest.first() != Some(quad)
            });
        }
        Changes { fresh, deletes, inserts }
    }

    /// Whether nothing goes and nothing comes.
    pub fn is_empty(&self) -> bool {
        self.deletes.is_empty() && self.inserts.is_empty()
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Changes { fresh, deletes, inserts } = self;
        write!(f, "{} deletes, {} inserts, {} new terms", deletes.len(), inserts.len(), fresh.len())
    }
}
