//! The change of the data by an operation of an update, as ids.

use super::UpdateError;
use std::sync::Arc;
use vicus_flow::NoMemory;
use vicus_rdf::{Changes, Graphs, Id, Interrupt, Snapshot, Unranked};

/// A step of an operation.
#[derive(Debug)]
pub enum UpdateChange {
    /// All quads of these graphs go.
    Clear(Graphs),
    /// All quads of a graph come to another one, too.
    Copy {
        /// The graph, as [`Graphs::One`] has it.
        from: Id,
        /// The other one.
        to: Id,
        /// Its name, if the snapshot lacks that.
        fresh: Unranked,
    },
    /// Quads go, and others come.
    Quads(Changes),
}

impl UpdateChange {
    /// The snapshot after it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use vicus_rdf::{Interrupt, Snapshot};
    /// use vicus_sparql::{Moment, UpdateStep, parse_update};
    ///
    /// let before = Arc::new(Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"1\" .")?);
    /// let update = parse_update("INSERT DATA { GRAPH <http://e/g> { <http://e/a> <http://e/p> 1, 2 } }")?;
    /// let never = Interrupt::never();
    /// let step = update.operations()[0].step(&before, Moment::default(), &never)?;
    /// let UpdateStep::Change(changes) = step else { unreachable!() };
    /// let after = changes.into_iter().try_fold(before, |snapshot, change| change.apply(&snapshot, &never))?;
    /// assert_eq!((after.len(), after.graphs().len()), (3, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is not enough memory, the data can't be read, or the caller ends it.
    pub fn apply(self, snapshot: &Snapshot, interrupt: &Interrupt<'_>) -> Result<Arc<Snapshot>, UpdateError> {
        UpdateError::or_given_up(|| match self {
            UpdateChange::Clear(graphs) => snapshot.cleared_with_interrupt(graphs, interrupt),
            change => snapshot.with_interrupt(change.quads(snapshot, interrupt)?, interrupt),
        })
        .map(Arc::new)
    }

    /// How many rows of a snapshot it changes, at most.
    pub fn rows(&self, snapshot: &Snapshot) -> usize {
        match self {
            UpdateChange::Clear(graphs) => graphs.rows(snapshot).len(),
            UpdateChange::Copy { from, .. } => Graphs::One(*from).rows(snapshot).len(),
            UpdateChange::Quads(changes) => changes.inserts.len() + changes.deletes.len(),
        }
    }

    /// Its memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match self {
            UpdateChange::Clear(_) => 0,
            UpdateChange::Copy { fresh, .. } => fresh.heap_bytes(),
            UpdateChange::Quads(changes) => changes.heap_bytes(),
        }
    }

    /// This change as quads. Gives up if data is damaged, or the caller ends it.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn quads(self, snapshot: &Snapshot, interrupt: &Interrupt<'_>) -> Result<Changes, NoMemory> {
        Ok(match self {
            UpdateChange::Clear(graphs) => {
                Changes { deletes: graphs.quads(snapshot, interrupt)?, ..Changes::of(snapshot) }
            }
            UpdateChange::Copy { from, to, fresh } => Changes::of_copy(snapshot, from, to, fresh, interrupt)?,
            UpdateChange::Quads(changes) => changes,
        })
    }
}
