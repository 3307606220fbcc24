//! What an operation of an update does to the data, as ids.

use super::UpdateError;
use std::sync::Arc;
use vicus_flow::{Grow, NoMemory};
use vicus_rdf::{Changes, Id, Order, Snapshot};

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

impl Graphs {
    /// The deletion of all their quads.
    ///
    /// # Errors
    /// There is not enough memory, or the data can't be read.
    pub fn deletes(self, snapshot: &Snapshot) -> Result<Changes, UpdateError> {
        UpdateError::or_given_up(|| self.all(snapshot))
    }

    fn all(self, snapshot: &Snapshot) -> Result<Changes, NoMemory> {
        let index = snapshot.index(Order::Gspo);
        let rows = match self {
            Graphs::All => 0..index.len(),
            // The default graph comes first.
            Graphs::Named => index.range(&[Id::UNBOUND]).end..index.len(),
            Graphs::One(graph) => index.range(&[graph]),
        };
        let mut changes = Changes::of(snapshot);
        changes.deletes.grow_exactly(rows.len())?;
        changes.deletes.extend(rows.map(|row| index.quad(row)));
        Ok(changes)
    }
}

impl Change {
    /// The snapshot after it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use vicus_rdf::Snapshot;
    /// use vicus_sparql::{Moment, Step, parse_update};
    ///
    /// let before = Arc::new(Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"1\" .")?);
    /// let update = parse_update("INSERT DATA { GRAPH <http://e/g> { <http://e/a> <http://e/p> 1, 2 } }")?;
    /// let Step::Change(changes) = update.operations()[0].step(&before, Moment::default())? else { unreachable!() };
    /// let after = changes.into_iter().try_fold(before, |snapshot, change| change.apply(&snapshot))?;
    /// assert_eq!((after.len(), after.graphs().len()), (3, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is not enough memory, or the data can't be read.
    pub fn apply(self, snapshot: &Snapshot) -> Result<Arc<Snapshot>, UpdateError> {
        let changes = self.quads(snapshot)?;
        UpdateError::or_given_up(|| snapshot.with(changes)).map(Arc::new)
    }

    /// It as quads.
    ///
    /// # Errors
    /// As [`Graphs::deletes`].
    pub fn quads(self, snapshot: &Snapshot) -> Result<Changes, UpdateError> {
        match self {
            Change::Clear(graphs) => graphs.deletes(snapshot),
            Change::Quads(changes) => Ok(changes),
        }
    }
}
