//! Rows as quads of a store, in one transaction.
//!
//! The box keeps its quads until all of them have come. Then they are a transaction, or, in a network that may be run
//! again, work for its end: so a network that fails or loses a node leaves the store as it was. A store is a set of
//! quads, and blank nodes keep their labels, so a network that was lost between its last transaction and the answer
//! that tells of it, and is run again, changes nothing.

use super::{places_of, quad};
use crate::store::open_store;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use vicus::{BoxError, BoxModel, Envelope, Operator, OutputId, Schema, Turn, Type};
use vicus_network::{Building, EndWork, KindError, LaterWork};
use vicus_store::{Batch, Store, StoreError};

/// Another attempt of the network in this process may still have the store for so long.
const LOCKED: Duration = Duration::from_secs(5);

/// The bytes that a quad takes beside its texts, in the record and its tables.
const QUAD_BYTES: u64 = 160;

/// Opens the store to write to it. One that is locked is waited for, for a while.
fn opened(path: &Path) -> Result<Store, StoreError> {
    let began = Instant::now();
    loop {
        match open_store(path) {
            Err(error) if error.locked_by().is_some() && began.elapsed() < LOCKED => {
                thread::sleep(Duration::from_millis(20));
            }
            opened => return opened,
        }
    }
}

/// Adds the box to a model.
pub(super) fn write_store(building: &mut Building<'_>) -> Result<Vec<(OutputId, Schema)>, KindError> {
    let schema = building.inputs()[0].schema.clone();
    let places = places_of(&schema)?;
    let (path, shown) = (building.file("store")?, building.text("store").to_owned());
    // An error comes now, and before a request begins.
    let error = |error: StoreError| KindError::of("store", format!("{shown}: {error}"));
    drop(opened(&path).map_err(error)?);
    let later = building.at_end();
    let operator = move || -> Box<dyn Operator> {
        let mut writing = WritingStore {
            path: path.clone(),
            shown: shown.clone(),
            places,
            batch: Batch::new(),
            bytes: 0,
            rows: 0,
            later: later.clone(),
        };
        Box::new(move |turn: &mut Turn<'_>| writing.act(turn))
    };
    let nothing = Schema::new::<&str>([]);
    let end = building.add(BoxModel::new("write_store", operator).input(&schema).output(&nothing));
    building.net().end(end.output(0));
    Ok(Vec::new())
}

struct WritingStore {
    path: PathBuf,
    /// Its name in the text.
    shown: String,
    /// The columns of a statement, of those that the rows have.
    places: [Option<usize>; 6],
    batch: Batch,
    /// About the bytes of the batch.
    bytes: u64,
    rows: u64,
    /// Takes the transaction, if the network may be run again.
    later: Option<LaterWork>,
}

impl WritingStore {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        match turn.take(0) {
            Some(pill) if pill.is_pill() => {
                let (path, shown, batch) = (self.path.clone(), self.shown.clone(), std::mem::take(&mut self.batch));
                let work: EndWork = Box::new(move || commit(&path, batch).map_err(|error| format!("{shown}: {error}")));
                match &self.later {
                    Some(later) => later(work),
                    None => turn.blocking(work)?,
                }
                turn.send_pill(0);
            }
            Some(rows) => self.keep(turn, &rows)?,
            None => {}
        }
        Ok(())
    }

    fn keep(&mut self, turn: &Turn<'_>, rows: &Envelope) -> Result<(), BoxError> {
        let columns = self.places.map(|place| place.map(|place| rows.column(place)));
        for row in 0..rows.rows() {
            self.rows += 1;
            let quad = quad(&columns, row).map_err(|error| format!("row {}: {error}", self.rows))?;
            let texts = columns.iter().flatten().filter(|column| column.kind() == Type::Text && !column.is_null(row));
            self.bytes += QUAD_BYTES + 2 * texts.map(|column| column.text_at(row).len() as u64).sum::<u64>();
            self.batch.insert(quad.as_ref());
        }
        Ok(turn.book(self.bytes)?)
    }
}

/// The transaction.
fn commit(path: &Path, batch: Batch) -> Result<(), String> {
    let store = opened(path).map_err(|error| error.to_string())?;
    batch.commit(&store).map(drop).map_err(|error| error.to_string())
}
