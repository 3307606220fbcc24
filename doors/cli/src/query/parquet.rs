//! Answers in Parquet.

use super::target::Target;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vicus::{BoxError, Turn};
use vicus_service::{Sink, SolutionBatch, Solutions, Taker};
use vicus_tables::ParquetWriter;

/// Writes rows and triples as a Parquet file: columns of values by their types, terms as texts in N-Triples.
pub(super) struct ParquetSink {
    target: Target,
    writer: Mutex<Option<ParquetWriter<Target>>>,
}

impl ParquetSink {
    pub(super) fn new(target: Target) -> ParquetSink {
        ParquetSink { target, writer: Mutex::new(None) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<ParquetWriter<Target>>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer, which begins its file with the first call.
    fn writer(&self, solutions: &Solutions) -> io::Result<MutexGuard<'_, Option<ParquetWriter<Target>>>> {
        let mut writer = self.lock();
        if writer.is_none() {
            *writer = Some(ParquetWriter::new(self.target.clone(), Arc::new(solutions.to_arrow()))?);
        }
        Ok(writer)
    }
}

impl Sink for ParquetSink {
    type Taker = ParquetTaker;
    type Output = ();

    fn taker(self: &Arc<Self>, _: &Arc<Solutions>) -> ParquetTaker {
        ParquetTaker(Arc::clone(self))
    }

    fn finish(&self, solutions: &Solutions, _: u64) -> io::Result<()> {
        let writer = self.writer(solutions)?.take();
        writer.expect("it was made").finish().map(drop)
    }
}

/// The taker of the answer's one box.
pub(super) struct ParquetTaker(Arc<ParquetSink>);

impl Taker for ParquetTaker {
    fn take(&mut self, batch: &SolutionBatch<'_>, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if batch.rows() == 0 {
            return Ok(());
        }
        let held = turn.blocking(|| -> Result<u64, BoxError> {
            let mut writer = self.0.writer(batch.solutions())?;
            let writer = writer.as_mut().expect("it was made");
            writer.write(&batch.to_arrow(writer.schema())?)?;
            Ok(writer.held_bytes())
        })?;
        turn.book(held)?;
        Ok(())
    }
}
