//! Frames of others as tables of SQL: anything with `__arrow_c_stream__`.

use crate::data::Raise as _;
use crate::errors::{Failure, Outcome};
use crate::options::Cancel;
use crate::wait::{Bounds, UserThreads, ident, interruptible, leaving};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array as _, RecordBatch, RecordBatchReader as _};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::c_str;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use vicus_service::{Ask, Error, SqlTable, SqlType};

/// The rows of a frame, read once, as a table that statements may read any number of times.
#[pyclass(frozen, module = "vicus")]
pub(crate) struct Frame(Arc<dyn SqlTable>);

impl Frame {
    pub(crate) fn table(&self) -> Arc<dyn SqlTable> {
        Arc::clone(&self.0)
    }
}

/// The stream in a capsule of `__arrow_c_stream__`, which is empty afterwards.
pub(crate) fn stream(object: &Bound<'_, PyAny>) -> PyResult<FFI_ArrowArrayStream> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule = capsule
        .cast::<PyCapsule>()
        .map_err(|_| PyTypeError::new_err(format!("__arrow_c_stream__ of {} gives no capsule", object.get_type())))?;
    let pointer = capsule.pointer_checked(Some(c_str!("arrow_array_stream")))?;
    #[expect(unsafe_code, reason = "Arrow's PyCapsule interface hands over a pointer")]
    // SAFETY: a capsule of this name has such a structure, which its consumer moves out; it is then left as released.
    Ok(unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr().cast()) })
}

/// Rows of another library, once their columns have been looked at: its arrays are memory that may say anything.
///
/// # Errors
/// A column is none: ends of texts fall, a key is beyond its dictionary, a text is not UTF-8.
pub(crate) fn checked(batch: RecordBatch) -> Result<RecordBatch, String> {
    for (column, field) in batch.columns().iter().zip(batch.schema_ref().fields()) {
        column.to_data().validate_full().map_err(|error| format!("column {}: {error}", field.name()))?;
    }
    Ok(batch)
}

#[pymethods]
impl Frame {
    #[new]
    #[pyo3(signature = (frame, timeout=None, cancel=None))]
    fn new(
        py: Python<'_>,
        frame: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<Frame> {
        let read = || -> Outcome<Frame> {
            let bounds = Bounds::new(cancel, timeout)?;
            let stream = stream(frame)?;
            let inside = Arc::new(UserThreads::default());
            let (nudged, ask) = (Arc::clone(&inside), bounds.ask());
            // Its maker may take long, may have no end, and may run Python: on another thread than that of signals.
            let body = move || {
                let thread = Python::attach(|py| {
                    let thread = ident(py)?;
                    inside.enter(py, thread, None);
                    Ok::<_, PyErr>(thread)
                })?;
                let made = of_stream(stream, &ask);
                Python::attach(|py| inside.leave(py, thread, None));
                made
            };
            leaving(py, &bounds, |py| nudged.interrupt(py), body).map(Frame)
        };
        read().raise(py, None)
    }

    /// The rows of a file of Parquet, CSV, Arrow, or lines of JSON: its format is that of its name's ending. `types`
    /// are SQL's names of the types of columns, by their names.
    #[staticmethod]
    #[pyo3(signature = (path, timeout=None, cancel=None, types=BTreeMap::new()))]
    fn of_file(
        py: Python<'_>,
        path: PathBuf,
        timeout: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
        types: BTreeMap<String, String>,
    ) -> PyResult<Frame> {
        let opened = || -> Outcome<Frame> {
            let bounds = Bounds::new(cancel, timeout)?;
            let of = |(column, name): (String, String)| match SqlType::named(&name) {
                Some(kind) => Ok((column, kind)),
                None => Err(Failure::argument(format_args!(
                    "table_types: {column}: `{name}` is no type of SQL; such are bigint, double, varchar, date, \
                     decimal(9, 2) and bigint[]"
                ))),
            };
            let types = types.into_iter().map(of).collect::<Outcome<BTreeMap<_, _>>>()?;
            interruptible(py, &bounds, || {
                let opened = vicus_tables::open_until(&path, types, &|| bounds.is_over());
                opened.map(Frame).map_err(|error| Failure::new("DataError", error))
            })
        };
        opened().raise(py, None)
    }

    fn __len__(&self) -> usize {
        self.0.rows().unwrap_or_default() as usize
    }
}

fn of_stream(stream: FFI_ArrowArrayStream, ask: &Ask) -> Outcome<Arc<dyn SqlTable>> {
    let wrong = |error: String| Failure::new("DataError", format_args!("the frame: {error}"));
    let reader = RecordBatchStreamReader::try_new(stream).map_err(|error| wrong(error.to_string()))?;
    let schema = reader.schema();
    let mut batches = Vec::new();
    for batch in reader {
        batches.push(batch.map_err(|error| error.to_string()).and_then(checked).map_err(wrong)?);
        if ask(0).is_err() {
            return Err(Error::Cancelled.into());
        }
    }
    vicus_tables::of_batches(&schema, &batches).map_err(wrong)
}
