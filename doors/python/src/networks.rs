//! Networks of boxes: as text, with boxes in Python and frames as sources.
//!
//! A box in Python holds the interpreter only while it runs, and no seat while it waits for it: it runs in a section
//! that may block. Its exception fails its request, and comes back as the cause of the request's own.

use crate::data::Raise as _;
use crate::errors::{Failure, Outcome};
use crate::frames::{Frame, checked, stream};
use crate::threads::Threads;
use crate::wait::SLICE;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader as _};
use arrow_schema::SchemaRef;
use pyo3::ffi::c_str;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use vicus::{BoxError, BoxId, BoxModel, Envelope, FlowError, Operator, Request, RequestOptions, Runtime, Schema, Turn};
use vicus_network::{
    BoxSpec, Building, KindError, Kinds, MachineCounts, Network, NetworkText, ParameterType, Ports, dot, parse_schema,
    schema_text,
};
use vicus_tables::add_kinds;

/// A box in Python: its name, a function that makes one's state, and the columns of its rows.
type PythonBox = (String, Py<PyAny>, Option<String>);

/// Rows that a network has collected, or those of one envelope.
#[pyclass(frozen, module = "vicus")]
pub(crate) struct Batches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

#[pymethods]
impl Batches {
    /// The rows for any reader of Arrow's streams, without a copy.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer that wants other types casts by itself.
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c_str!("arrow_array_stream"))
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }
}

/// The exception of a box, on its way through its request.
#[derive(Debug)]
struct Raised(PyErr);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Raised {}

/// A box in Python, in one run of its network.
struct Stepper {
    /// Made with the first envelope, in Python.
    state: Option<Py<PyAny>>,
    make: Arc<Py<PyAny>>,
    taken: (SchemaRef, Schema),
    sent: Schema,
}

impl Stepper {
    /// Calls the box with an envelope, or for its end; the envelopes that it makes.
    fn step(&mut self, py: Python<'_>, envelope: &Envelope) -> PyResult<Vec<RecordBatch>> {
        if self.state.is_none() {
            self.state = Some(self.make.call0(py)?);
        }
        let state = self.state.as_ref().expect("it was made").bind(py);
        let made = if envelope.is_pill() {
            state.call_method0("end")?
        } else {
            let batches = vec![envelope.to_arrow(&self.taken.1)];
            state.call_method1("push", (Batches { schema: Arc::clone(&self.taken.0), batches },))?
        };
        let mut all = Vec::new();
        for frame in made.try_iter()? {
            let frame = frame?;
            let wrong = |error: String| pyo3::exceptions::PyTypeError::new_err(error);
            let reader = RecordBatchStreamReader::try_new(stream(&frame)?).map_err(|error| wrong(error.to_string()))?;
            let schema = reader.schema();
            let given = Schema::from_arrow(&schema).map_err(|error| wrong(error.to_string()))?;
            if !same_columns(&given, &self.sent) {
                let (given, wanted) = (schema_text(&given), schema_text(&self.sent));
                return Err(wrong(format!("the box sends rows of {given}, and its columns are {wanted}")));
            }
            for batch in reader {
                all.push(batch.map_err(|error| error.to_string()).and_then(checked).map_err(wrong)?);
            }
        }
        Ok(all)
    }
}

/// Whether rows of a schema have another one's columns, however they are stored.
fn same_columns(given: &Schema, wanted: &Schema) -> bool {
    let of = |schema: &Schema| -> Vec<(String, String)> {
        schema.columns().iter().map(|field| (field.name.clone(), field.kind.to_string())).collect()
    };
    of(given) == of(wanted)
}

impl Operator for Stepper {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        let stepped = turn.blocking(|| Python::attach(|py| self.step(py, &envelope)));
        for batch in stepped.map_err(Raised)? {
            let made = Envelope::from_arrow(&batch)?;
            if made.rows() > 0 {
                turn.send(0, made);
            }
        }
        if envelope.is_pill() {
            turn.send_pill(0);
        }
        Ok(())
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            // Its generator may wait on a thread of its own.
            Python::attach(|py| {
                let _ = state.call_method0(py, "close");
            });
        }
    }
}

fn python_kind(boxes: Vec<PythonBox>) -> BoxSpec {
    let boxes: Vec<(String, Arc<Py<PyAny>>, Option<String>)> =
        boxes.into_iter().map(|(name, make, columns)| (name, Arc::new(make), columns)).collect();
    BoxSpec::new("python", "Calls a function of the program with each envelope.")
        .ports(Ports::Exactly(1), Ports::Exactly(1))
        .required("of", ParameterType::Text, "The name of the function.")
        .builds(move |building: &mut Building<'_>| {
            let name = building.text("of").to_owned();
            let found = boxes.iter().find(|(other, ..)| *other == name);
            let (_, make, columns) =
                found.ok_or_else(|| KindError::of("of", format!("there is no box `{name}` in Python")))?;
            let taken = building.inputs()[0].schema.clone();
            let sent = match columns {
                Some(columns) => parse_schema(columns).map_err(|error| KindError::of("of", error.to_string()))?,
                None => taken.clone(),
            };
            let (make, of, to) = (Arc::clone(make), (Arc::new(taken.to_arrow()), taken.clone()), sent.clone());
            let factory = move || Stepper { state: None, make: Arc::clone(&make), taken: of.clone(), sent: to.clone() };
            let added = building.add(BoxModel::new(name, factory).input(&taken).output(&sent));
            Ok(vec![(added.output(0), sent)])
        })
        .local()
}

fn frame_kind(frames: Vec<(String, Py<Frame>)>) -> BoxSpec {
    BoxSpec::new("frame", "The rows of a frame of the program.")
        .ports(Ports::Exactly(0), Ports::Exactly(1))
        .required("of", ParameterType::Text, "The name of the frame.")
        .builds(move |building: &mut Building<'_>| {
            let name = building.text("of").to_owned();
            let found = frames.iter().find(|(other, _)| *other == name);
            let (_, frame) = found.ok_or_else(|| KindError::of("of", format!("there is no frame `{name}`")))?;
            let mut tables = vicus_service::Tables::default();
            tables.add("rows", frame.get().table());
            vicus_tables::add_table(building, &tables, "SELECT * FROM rows").map(|added| vec![added])
        })
        .local()
}

/// A network that is built: how it is seen, and how it runs.
struct Built {
    network: Network,
    threads: Threads,
    /// A runtime of the network's own, with its strategy.
    own: Option<Runtime>,
}

fn built(
    text: &str,
    boxes: Vec<PythonBox>,
    frames: Vec<(String, Py<Frame>)>,
    settings: &[(String, String)],
    strategy: Option<&str>,
    threads: Option<usize>,
    records: bool,
) -> Outcome<Built> {
    let mut kinds = Kinds::library();
    add_kinds(&mut kinds);
    kinds.add(python_kind(boxes));
    kinds.add(frame_kind(frames));
    let wrong = |error: vicus_network::NetworkError| Failure::new("NetworkError", error);
    let text: NetworkText = text.parse().map_err(wrong)?;
    let own = match (strategy, records) {
        (None, false) => None,
        (strategy, records) => {
            let mut builder = Runtime::builder();
            if let Some(strategy) = strategy {
                let setting: vicus::Setting = strategy.parse().map_err(Failure::argument)?;
                builder = builder.strategy(setting);
            }
            if let Some(threads) = threads {
                builder = builder.threads(threads);
            }
            if records {
                builder = builder.record(EVENTS);
            }
            Some(builder.try_start().map_err(|error| Failure::new("SystemError", error))?)
        }
    };
    let shared = Threads::new(if own.is_some() { None } else { threads })?;
    let runtime = own.as_deref().unwrap_or_else(|| shared.runtime());
    let nodes = runtime.topology().nodes.len();
    let machine = MachineCounts { threads: runtime.plan().threads(), nodes };
    let network = text.build("network", &kinds, &machine, settings).map_err(wrong)?;
    Ok(Built { network, threads: shared, own })
}

/// So many events of each thread fit into a trace.
const EVENTS: usize = 1 << 18;

/// Collects rows.
struct Collects(Arc<Mutex<Vec<RecordBatch>>>, Schema);

impl Operator for Collects {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        match turn.take(0) {
            Some(pill) if pill.is_pill() => turn.send_pills(),
            Some(envelope) => {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).push(envelope.to_arrow(&self.1));
            }
            None => {}
        }
        Ok(())
    }
}

/// A box's counts: its name, how often it ran, rows in, rows out, and milliseconds.
type Counted = (String, u64, u64, u64, f64);

/// The result of a run: the rows of boxes that collect, and the counts of all boxes.
type Ran = (Vec<(String, Batches)>, Vec<Counted>);

/// Runs a network.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of the package's method")]
pub(crate) fn run_network(
    py: Python<'_>,
    text: &str,
    boxes: Vec<PythonBox>,
    frames: Vec<(String, Py<Frame>)>,
    settings: Vec<(String, String)>,
    strategy: Option<&str>,
    threads: Option<usize>,
    memory: Option<u64>,
    most_boxes: Option<NonZeroUsize>,
    trace: Option<PathBuf>,
) -> PyResult<Ran> {
    let ran = || -> Outcome<Ran> {
        let file = trace.map(File::create).transpose().map_err(|error| Failure::Python(error.into()))?;
        let built = built(text, boxes, frames, &settings, strategy, threads, file.is_some())?;
        let mut operators: Vec<(BoxId, Box<dyn Operator>)> = Vec::new();
        let mut rows = Vec::new();
        for collected in &built.network.collected {
            let kept = Arc::new(Mutex::new(Vec::new()));
            operators.push((collected.sink, Box::new(Collects(Arc::clone(&kept), collected.schema.clone()))));
            rows.push((collected.name.clone(), kept, Arc::new(collected.schema.to_arrow())));
        }
        let bounds = RequestOptions::from(memory.unwrap_or(u64::MAX));
        let options = RequestOptions { is_timed: true, most_boxes, ..bounds };
        let runtime = built.own.as_deref().unwrap_or_else(|| built.threads.runtime());
        let request = py.detach(|| runtime.submit_within(&built.network.model, operators, options));
        let outcome = wait(py, &request)?;
        let counts = request.counts();
        py.detach(|| drop(request));
        if let (Some(file), Some(runtime)) = (file, built.own) {
            py.detach(|| write_trace(file, runtime))?;
        }
        outcome?;
        let boxes = built.network.names.iter().zip(counts).filter(|(name, _)| !name.is_empty());
        let counted = boxes.map(|(name, counts)| {
            let ms = counts.busy_ns as f64 / 1e6;
            (name.clone(), counts.acts, counts.rows_taken(), counts.rows_sent(), ms)
        });
        let taken =
            |kept: &Mutex<Vec<RecordBatch>>| std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
        let rows = rows.into_iter().map(|(name, kept, schema)| (name, Batches { schema, batches: taken(&kept) }));
        Ok((rows.collect(), counted.collect()))
    };
    ran().raise(py, Some(text))
}

/// Waits for a request, which a handler's exception cancels.
fn wait(py: Python<'_>, request: &Request) -> Outcome<Outcome> {
    let mut raised = None;
    let ended = loop {
        if let Some(ended) = py.detach(|| request.wait_for(SLICE)) {
            break ended;
        }
        if let Err(error) = py.check_signals() {
            py.detach(|| request.cancel());
            raised.get_or_insert(error);
        }
    };
    if let Some(raised) = raised {
        return Err(raised.into());
    }
    Ok(match ended {
        Ok(_) => Ok(()),
        Err(FlowError::Failed { name, error }) => Err(match error.downcast_ref::<Raised>() {
            Some(Raised(error)) => {
                let error = error.clone_ref(py);
                let made = || -> PyResult<PyErr> {
                    let class = py.import("vicus._errors")?.getattr("BoxError")?;
                    let message = format!("box {name} failed: {error}");
                    let made = PyErr::from_value(class.call1((message, name.clone()))?);
                    made.set_cause(py, Some(error.clone_ref(py)));
                    Ok(made)
                };
                made().unwrap_or(error).into()
            }
            None => Failure::new("BoxError", format_args!("box {name} failed: {error}")),
        }),
        Err(FlowError::Cancelled) => Err(Failure::new("Cancelled", "it was cancelled")),
        Err(error) => Err(Failure::new("NetworkError", error)),
    })
}

fn write_trace(file: File, runtime: Runtime) -> Outcome {
    let refused = |error: std::io::Error| Failure::Python(error.into());
    let Some(trace) = runtime.trace() else { return Ok(()) };
    let mut file = BufWriter::new(file);
    trace.write_to(&mut file).map_err(refused)?;
    file.flush().map_err(refused)
}

/// A network as it is built: each box, and as a graph for Graphviz.
#[pyfunction]
pub(crate) fn show_network(
    py: Python<'_>,
    text: &str,
    boxes: Vec<PythonBox>,
    frames: Vec<(String, Py<Frame>)>,
    settings: Vec<(String, String)>,
) -> PyResult<(Vec<String>, String)> {
    let shown = || -> Outcome<(Vec<String>, String)> {
        let built = built(text, boxes, frames, &settings, None, None, false)?;
        let names = built.network.names.iter().filter(|name| !name.is_empty()).cloned().collect();
        Ok((names, dot(&built.network)))
    };
    shown().raise(py, Some(text))
}

/// All kinds of boxes, with their documentation.
#[pyfunction]
pub(crate) fn network_kinds() -> Vec<(String, String)> {
    let mut kinds = Kinds::library();
    add_kinds(&mut kinds);
    kinds.iter().map(|kind| (kind.name().to_owned(), kind.to_string())).collect()
}
