//! The answer of a query as a stream of Arrow for programs in C.

use crate::error::{Failure, record};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use vicus_service::ArrowStream;

/// Reads the batches of a query. A failure is the error of the stream, and the record of the reading thread.
pub(crate) struct Answer(pub(crate) ArrowStream);

impl Iterator for Answer {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        let batch = self.0.next()?;
        Some(batch.map_err(|error| {
            let failure = Failure::from(error);
            let error = ArrowError::ExternalError(Box::new(failure.clone()));
            record(failure);
            error
        }))
    }
}

impl RecordBatchReader for Answer {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}
