//! Networks of boxes: as text, with boxes in Python and frames as sources.
//!
//! A box in Python holds the interpreter only while it runs, and no seat while it waits for it: it runs in a section
//! that may block. Its exception fails its request, and comes back as the cause of the request's own.

use crate::attached;
use crate::data::Raise as _;
use crate::errors::{Failure, Outcome};
use crate::frames::{Frame, checked, stream};
use crate::options::{Cancel, Text};
use crate::threads::{OwnThreads, Threads};
use crate::wait::{Bounds, GRACE, UnfinishedWork, UserThreads, ident, leaving};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader as _};
use arrow_schema::SchemaRef;
use pyo3::ffi::c_str;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vicus::flow::{Field, Overflows};
use vicus::trace::Trace;
use vicus::{
    BoxError, BoxId, BoxModel, Envelope, FlowError, Operator, OverBudget, Request, RequestOptions, Runtime, Schema,
    TemporaryFiles, Turn,
};
use vicus_network::{
    BoxSpec, Building, KindError, Kinds, MachineCounts, Network, NetworkText, ParameterType, Ports, dot, parse_schema,
    schema_text, svg,
};
use vicus_nodes::{CountedBox, FRAME, LeadError, LeadOptions, NodesRun, PYTHON, TlsRoots};
use vicus_tables::add_kinds;

/// A box in Python: its name, a function that makes one's state, the columns of its rows, and whether it takes all rows
/// before it sends any.
pub(crate) type PythonBox = (String, Py<PyAny>, Option<String>, bool);

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
    /// MadeTerms with the first envelope, in Python.
    state: Option<Py<PyAny>>,
    make: Arc<Py<PyAny>>,
    taken: (SchemaRef, Schema),
    sent: Schema,
    inside: Arc<UserThreads>,
    /// The state's thread, if it has one.
    own: Option<Py<PyAny>>,
    /// Dropped last: until then a thread may want the interpreter for the box.
    _unfinished: UnfinishedWork,
}

impl Stepper {
    /// Steps, so that Ctrl-C and the end of its time end the box's code.
    fn enter(&mut self, py: Python<'_>, envelope: &Envelope) -> PyResult<Vec<RecordBatch>> {
        let is_first = self.state.is_none();
        if is_first {
            let state = self.make.call0(py)?;
            self.own = state.getattr(py, "thread").ok().filter(|thread| !thread.is_none(py));
            self.state = Some(state);
        }
        let thread = ident(py)?;
        self.inside.enter(py, thread, self.own.as_ref().map(|own| own.clone_ref(py)));
        let made = self.step(py, envelope, is_first);
        self.inside.leave(py, thread, self.own.as_ref());
        made
    }

    /// Calls the box with an envelope, or for its end; the envelopes that it makes.
    fn step(&self, py: Python<'_>, envelope: &Envelope, is_first: bool) -> PyResult<Vec<RecordBatch>> {
        let state = self.state.as_ref().expect("it was made").bind(py);
        if is_first {
            state.call_method0("begin")?;
        }
        let made = if envelope.is_pill() {
            state.call_method0("end")?
        } else {
            let batches = vec![envelope.to_arrow(&self.taken.1)];
            state.call_method1("push", (Batches { schema: Arc::clone(&self.taken.0), batches },))?
        };
        let mut all = Vec::new();
        for frame in made.try_iter()? {
            let frame = frame?;
            // A batch that is passed on needs no way through Arrow's interface.
            if let Ok(passed) = frame.cast::<Batches>()
                && same_columns(&self.taken.1, &self.sent)
                && Arc::ptr_eq(&passed.get().schema, &self.taken.0)
            {
                all.extend(passed.get().batches.iter().cloned());
                continue;
            }
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
    let alike = |(given, wanted): (&Field, &Field)| {
        given.name == wanted.name && (given.kind == wanted.kind || given.kind.to_string() == wanted.kind.to_string())
    };
    given.columns().len() == wanted.columns().len() && given.columns().iter().zip(wanted.columns()).all(alike)
}

impl Operator for Stepper {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        let stepped = turn.blocking(|| attached::attach(|py| self.enter(py, &envelope)));
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
            attached::attach(|py| {
                let _ = state.call_method0(py, "close");
            });
        }
    }
}

/// The function that makes a box's state, the columns of its rows, and whether it takes all rows first.
type MadeInPython = (Arc<Py<PyAny>>, Option<String>, bool);

/// The kind of boxes in Python, of these functions.
pub(crate) fn python_kind(boxes: Vec<PythonBox>, inside: &Arc<UserThreads>) -> BoxSpec {
    let inside = Arc::clone(inside);
    let shared = |(name, make, columns, takes_all): PythonBox| (name, (Arc::new(make), columns, takes_all));
    let boxes: BTreeMap<String, MadeInPython> = boxes.into_iter().map(shared).collect();
    BoxSpec::new(PYTHON, "Calls a function of the program with each envelope.")
        .ports(Ports::Exactly(1), Ports::Exactly(1))
        .required("of", ParameterType::Text, "The name of the function.")
        .builds(move |building: &mut Building<'_>| {
            let name = building.text("of").to_owned();
            let (make, columns, takes_all) =
                boxes.get(&name).ok_or_else(|| KindError::of("of", format!("there is no box `{name}` in Python")))?;
            let taken = building.inputs()[0].schema.clone();
            let sent = match columns {
                Some(columns) => parse_schema(columns).map_err(|error| KindError::of("of", error.to_string()))?,
                None => taken.clone(),
            };
            let (make, of, to) = (Arc::clone(make), (Arc::new(taken.to_arrow()), taken.clone()), sent.clone());
            let inside = Arc::clone(&inside);
            let factory = move || Stepper {
                state: None,
                make: Arc::clone(&make),
                taken: of.clone(),
                sent: to.clone(),
                inside: Arc::clone(&inside),
                own: None,
                _unfinished: UnfinishedWork::begin(),
            };
            let model = BoxModel::new(name, factory).input(&taken).output(&sent);
            let added = building.add(if *takes_all { model.takes_all_of(0) } else { model });
            Ok(vec![(added.output(0), sent)])
        })
        .local()
}

fn frame_kind(frames: Vec<(String, Py<Frame>)>) -> BoxSpec {
    BoxSpec::new(FRAME, "The rows of a frame of the program.")
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
    own: Option<OwnThreads>,
    /// The threads on which its boxes run Python.
    inside: Arc<UserThreads>,
}

/// A network to be built, and the threads that will run it.
struct Parsed {
    text: NetworkText,
    kinds: Kinds,
    threads: Threads,
    own: Option<OwnThreads>,
    inside: Arc<UserThreads>,
}

impl Parsed {
    fn runtime(&self) -> &vicus::kit::machine::MachineRuntime {
        self.own.as_deref().unwrap_or_else(|| self.threads.runtime())
    }
}

/// A network that can't be built, with the place of the mistake.
fn wrong(error: vicus_network::NetworkError) -> Failure {
    let made = |py: Python<'_>| -> PyResult<PyErr> {
        let class = py.import("vicus._errors")?.getattr("NetworkError")?;
        let made = class.call1((error.to_string(),))?;
        if error.place.is_known() {
            made.setattr("line", error.place.line)?;
            made.setattr("column", error.place.column)?;
        }
        Ok(PyErr::from_value(made))
    };
    Python::attach(made).map_or_else(Failure::Python, Failure::Python)
}

fn built(
    text: &str,
    boxes: Vec<PythonBox>,
    frames: Vec<(String, Py<Frame>)>,
    settings: &[(String, String)],
    strategy: Option<&str>,
    threads: Option<usize>,
    records: Records,
) -> Outcome<Built> {
    let parsed = parsed(text, boxes, frames, strategy, threads, records)?;
    let runtime = parsed.runtime();
    let nodes = runtime.topology().nodes.len();
    let machine = MachineCounts { threads: runtime.plan().threads(), nodes };
    let network = parsed.text.build("network", &parsed.kinds, &machine, settings).map_err(wrong)?;
    let Parsed { threads, own, inside, .. } = parsed;
    Ok(Built { network, threads, own, inside })
}

fn parsed(
    text: &str,
    boxes: Vec<PythonBox>,
    frames: Vec<(String, Py<Frame>)>,
    strategy: Option<&str>,
    threads: Option<usize>,
    records: Records,
) -> Outcome<Parsed> {
    // A short network would take longer to list them than to run.
    static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
        let mut kinds = Kinds::library();
        add_kinds(&mut kinds);
        kinds
    });
    let mut kinds = KINDS.clone();
    let inside = Arc::default();
    kinds.add(python_kind(boxes, &inside));
    kinds.add(frame_kind(frames));
    let text: NetworkText = text.parse().map_err(wrong)?;
    let own = match (strategy, records) {
        (None, Records::Nothing) => None,
        (strategy, records) => {
            let mut builder = Runtime::builder();
            if let Some(strategy) = strategy {
                let setting: vicus::Setting = strategy.parse().map_err(Failure::argument)?;
                builder = builder.strategy(setting);
            }
            if let Some(threads) = threads {
                builder = builder.threads(threads);
            }
            builder = match records {
                Records::Nothing => builder,
                Records::All => builder.record(EVENTS),
                Records::Last(time) => builder.record_last_time(time, EVENTS_OF_TIME),
            };
            Some(OwnThreads::new(builder.try_start().map_err(|error| Failure::new("SystemError", error))?))
        }
    };
    let shared = Threads::new(if own.is_some() { None } else { threads })?;
    Ok(Parsed { text, kinds, threads: shared, own, inside })
}

/// The events that the threads of a network record.
#[derive(Clone, Copy)]
enum Records {
    Nothing,
    All,
    /// So much time before the end.
    Last(Duration),
}

/// So many events of each thread fit into a trace.
const EVENTS: usize = 1 << 18;

/// So many into one of a span of time, which takes memory as it needs it.
const EVENTS_OF_TIME: usize = 1 << 22;

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

/// A box's counts: its name, how often it ran, rows in, rows out, milliseconds, and its node.
type Counted = (String, u64, u64, u64, f64, usize);

/// The result of a run: the rows of boxes that collect, and the counts of all boxes.
type Ran = (Vec<(String, Batches)>, Vec<Counted>);

/// Runs a network.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of the package's method")]
pub(crate) fn run_network(
    py: Python<'_>,
    text: Text<'_>,
    boxes: Vec<PythonBox>,
    frames: Vec<(String, Py<Frame>)>,
    settings: Vec<(String, String)>,
    strategy: Option<&str>,
    threads: Option<usize>,
    memory: Option<u64>,
    most_boxes: Option<NonZeroUsize>,
    temp_folder: Option<PathBuf>,
    trace: Option<PathBuf>,
    trace_last: Option<f64>,
    timeout: Option<f64>,
    cancel: Option<&Bound<'_, Cancel>>,
) -> PyResult<Ran> {
    let text = text.0;
    let ran = || -> Outcome<Ran> {
        let bounds = Bounds::new(cancel, timeout)?;
        let records = match (&trace, trace_last) {
            (None, None) => Records::Nothing,
            (Some(_), None) => Records::All,
            (Some(_), Some(last)) => Records::Last(trace_span(last)?),
            (None, Some(_)) => return Err(Failure::argument("trace_last is for a trace: name its file by trace=")),
        };
        let file = trace.map(File::create).transpose().map_err(|error| Failure::Python(error.into()))?;
        let built = built(text, boxes, frames, &settings, strategy, threads, records)?;
        let (operators, rows) = collecting(&built.network);
        let limit = RequestOptions::from(memory.unwrap_or(u64::MAX));
        let overflows = overflows(temp_folder.as_deref())?;
        let options = RequestOptions { is_timed: true, most_boxes, overflows, ..limit };
        let runtime = built.own.as_deref().unwrap_or_else(|| built.threads.runtime());
        let request = py.detach(|| runtime.submit_within(&built.network.model, operators, options));
        let outcome = match wait(py, &request, &bounds, &built.inside) {
            WaitEnd::Ended(outcome) => outcome,
            WaitEnd::Left(failure) => {
                // A box in Python is in code that hears nothing, and its threads wait for it.
                let leave = std::thread::Builder::new().name("vicus call".to_owned());
                let left = leave.spawn(move || {
                    let _unfinished = UnfinishedWork::begin();
                    drop((request, built));
                });
                return Err(left.err().map_or(failure, |error| Failure::new("Busy", error)));
            }
        };
        let counts = CountedBox::all(&built.network, &request);
        py.detach(|| drop(request));
        if let (Some(file), Some(runtime)) = (file, built.own) {
            py.detach(|| write_trace(file, runtime.into_trace()))?;
        }
        outcome?;
        Ok((taken(rows), counts.into_iter().map(|one| counted(one, 0)).collect()))
    };
    ran().raise(py, Some(text))
}

/// Where a network keeps what it has no memory for.
fn overflows(folder: Option<&Path>) -> Outcome<Option<Arc<dyn Overflows>>> {
    TemporaryFiles::for_network(folder, &std::env::temp_dir()).map_err(|error| {
        let folder = folder.unwrap_or("".as_ref()).display();
        Failure::argument(format_args!("temp_folder {folder}: {error}"))
    })
}

/// The rows that a box collects: its name, those that have come, and their columns.
type Collected = (String, Arc<Mutex<Vec<RecordBatch>>>, SchemaRef);

fn taken(rows: Vec<Collected>) -> Vec<(String, Batches)> {
    let all =
        |kept: &Mutex<Vec<RecordBatch>>| std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
    rows.into_iter().map(|(name, kept, schema)| (name, Batches { schema, batches: all(&kept) })).collect()
}

fn counted(CountedBox { name, acts, rows_in, rows_out, busy_ns, .. }: CountedBox, node: usize) -> Counted {
    (name, acts, rows_in, rows_out, busy_ns as f64 / 1e6, node)
}

/// Operators of boxes that a model leaves open.
type OwnOperators = Vec<(BoxId, Box<dyn Operator>)>;

/// The operators that collect the rows of a network, and where they keep them.
fn collecting(network: &Network) -> (OwnOperators, Vec<Collected>) {
    let each = |collected: &vicus_network::Collected| {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let operator: Box<dyn Operator> = Box::new(Collects(Arc::clone(&kept), collected.schema.clone()));
        ((collected.sink, operator), (collected.name.clone(), kept, Arc::new(collected.schema.to_arrow())))
    };
    network.collected.iter().map(each).unzip()
}

/// The rows of a network by the names of their boxes, the counts of boxes, and how often it was run again.
type OverNodes = (Vec<(String, Batches)>, Vec<Counted>, u32);

/// Runs a network over nodes. `attached` has the functions of its boxes in Python, for nodes that run some.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of the package's method")]
pub(crate) fn run_over_nodes(
    py: Python<'_>,
    text: Text<'_>,
    boxes: Vec<PythonBox>,
    frames: Vec<(String, Py<Frame>)>,
    settings: Vec<(String, String)>,
    nodes: Vec<String>,
    spares: Vec<String>,
    token: Option<String>,
    roots: Option<PathBuf>,
    retries: u32,
    silence: f64,
    wait: f64,
    attached: Vec<(String, String)>,
    resolve: Option<Py<PyAny>>,
    threads: Option<usize>,
    memory: Option<u64>,
    temp_folder: Option<PathBuf>,
    timeout: Option<f64>,
    cancel: Option<&Bound<'_, Cancel>>,
) -> PyResult<OverNodes> {
    let text = text.0;
    let ran = || -> Outcome<OverNodes> {
        let bounds = Bounds::new(cancel, timeout)?;
        let parsed = parsed(text, boxes, frames, None, threads, Records::Nothing)?;
        let options = LeadOptions {
            token,
            roots: roots.map(|file| TlsRoots::read(&file)).transpose().map_err(Failure::argument)?,
            memory,
            silence: crate::wait::seconds(silence)?,
            wait: crate::wait::seconds(wait)?,
            is_counted: true,
        };
        if options.silence < Duration::from_millis(10) {
            return Err(Failure::argument("silence is at least 0.01 seconds"));
        }
        let (inside, over) = (Arc::clone(&parsed.inside), bounds.cancel.clone());
        let (limit, overflows) = (RequestOptions::from(memory.unwrap_or(u64::MAX)), overflows(temp_folder.as_deref())?);
        let request = RequestOptions { is_timed: true, overflows, ..limit };
        let body = move || {
            let run = NodesRun {
                text: &parsed.text,
                name: "network",
                kinds: &parsed.kinds,
                set: &settings,
                runtime: parsed.runtime(),
                request,
                nodes: &nodes,
                spares: &spares,
                retries,
                attached: &attached,
                options,
            };
            let mut raised = None;
            let lost = |error: &LeadError| {
                let resolve = resolve.as_ref()?;
                let resolved = Python::attach(|py| resolve.call1(py, (error.to_string(),))?.extract(py));
                resolved.map_err(|error| raised = Some(error)).ok().flatten()
            };
            let ended = run.run(collecting, || !over.is_cancelled(), lost);
            if let Some(raised) = raised {
                return Err(Failure::Python(raised));
            }
            let ran = ended.map_err(of_lead)?;
            let (mut rows, mut own) = (Vec::new(), Vec::new());
            if let Some((network, request, kept)) = ran.part {
                (rows, own) = (taken(kept), CountedBox::all(&network, &request));
            }
            let all = std::iter::once(own).chain(ran.counts).enumerate();
            let counts = all.flat_map(|(node, boxes)| boxes.into_iter().map(move |one| counted(one, node)));
            Ok((rows, counts.collect(), ran.losses))
        };
        leaving(py, &bounds, |py| inside.interrupt(py), body)
    };
    ran().raise(py, Some(text))
}

/// The error of a network over nodes.
fn of_lead(error: LeadError) -> Failure {
    match error {
        LeadError::Text(error) => wrong(error),
        LeadError::Own(error) => failure(error),
        LeadError::Once { .. } => Failure::argument(error),
        other if other.is_loss() => Failure::new("NodeLost", other),
        LeadError::Node { .. } => Failure::new("NodeLost", error),
        other => Failure::new("NetworkError", other),
    }
}

/// The error of a request.
fn failure(error: FlowError) -> Failure {
    match error {
        FlowError::Failed { name, error } => match error.downcast_ref::<Raised>() {
            Some(Raised(error)) => Python::attach(|py| {
                let error = error.clone_ref(py);
                let made = || -> PyResult<PyErr> {
                    let class = py.import("vicus._errors")?.getattr("BoxError")?;
                    let message = format!("box {name} failed: {error}");
                    let made = PyErr::from_value(class.call1((message, name.clone()))?);
                    made.set_cause(py, Some(error.clone_ref(py)));
                    Ok(made)
                };
                made().unwrap_or(error).into()
            }),
            // The budget of the request, not the box, is at fault.
            None if error.is::<OverBudget>() => Failure::new("MemoryLimit", format_args!("box {name}: {error}")),
            None => Failure::new("BoxError", format_args!("box {name} failed: {error}")),
        },
        // Its boxes go on with more memory.
        error @ FlowError::Stalled { .. } => Failure::new("MemoryLimit", error),
        FlowError::Cancelled => Failure::new("Cancelled", "it was cancelled"),
        error => Failure::new("NetworkError", error),
    }
}

/// How a wait for a request ended.
enum WaitEnd {
    /// With the request.
    Ended(Outcome),
    /// Before it: a box goes on all the same.
    Left(Failure),
}

/// Waits for a request, which a handler's exception, the caller's handle and its time cancel.
fn wait(py: Python<'_>, request: &Request, bounds: &Bounds, inside: &UserThreads) -> WaitEnd {
    let (mut raised, mut left_at) = (None, None);
    let ended = loop {
        if let Some(ended) = py.detach(|| request.wait_for(bounds.slice())) {
            break Some(ended);
        }
        if let Err(error) = py.check_signals() {
            bounds.cancel.cancel();
            raised.get_or_insert(error);
        }
        bounds.end_if_late();
        if bounds.is_over() {
            py.detach(|| request.cancel());
            inside.interrupt(py);
            if Instant::now() >= *left_at.get_or_insert_with(|| Instant::now() + GRACE) {
                break None;
            }
        }
    };
    let cancelled = || bounds.told(Failure::new("Cancelled", "it was cancelled"));
    let Some(ended) = ended else {
        return WaitEnd::Left(raised.map_or_else(cancelled, Failure::Python));
    };
    if let Some(raised) = raised {
        return WaitEnd::Ended(Err(raised.into()));
    }
    WaitEnd::Ended(match ended {
        Ok(_) => Ok(()),
        Err(_) if bounds.is_over() => Err(cancelled()),
        Err(error) => Err(failure(error)),
    })
}

/// The seconds that a trace is to keep.
fn trace_span(last: f64) -> Outcome<Duration> {
    let span = Duration::try_from_secs_f64(last).ok().filter(|span| !span.is_zero());
    span.ok_or_else(|| Failure::argument(format_args!("trace_last is a number of seconds above 0, and {last} is none")))
}

/// Writes what threads have recorded, if they have.
pub(crate) fn write_trace(file: File, trace: Option<Trace>) -> Outcome {
    let refused = |error: std::io::Error| Failure::Python(error.into());
    let Some(trace) = trace else { return Ok(()) };
    let mut file = BufWriter::new(file);
    trace.write_to(&mut file).map_err(refused)?;
    file.flush().map_err(refused)
}

/// A network as it is built: each box, as a graph for Graphviz, and as a picture.
#[pyfunction]
pub(crate) fn show_network(
    py: Python<'_>,
    text: Text<'_>,
    boxes: Vec<PythonBox>,
    frames: Vec<(String, Py<Frame>)>,
    settings: Vec<(String, String)>,
) -> PyResult<(Vec<String>, String, String)> {
    let text = text.0;
    let shown = || -> Outcome<(Vec<String>, String, String)> {
        let built = built(text, boxes, frames, &settings, None, None, Records::Nothing)?;
        let names = built.network.names.iter().filter(|name| !name.is_empty()).cloned().collect();
        Ok((names, dot(&built.network), svg(&built.network)))
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
