//! Networks of boxes with code in C. Rows cross the border by Arrow's C data interface, without a copy if Arrow's
//! layout is ours.

use crate::error::{DropFn, Failure, Outcome, as_state, guard, guard_or, status};
use crate::runtime::{Pending, Threads, budget, threads};
use crate::tasks::{Owned, TaskFn, ended};
use crate::text::{array, free, give, handle, handle_mut, optional, output, required};
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::{Array, RecordBatch, StructArray};
use arrow_schema::{DataType, FieldRef, Fields, Schema as ArrowSchema};
use std::ffi::{c_char, c_void};
use std::num::NonZeroUsize;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use vicus::flow::FromArrowError;
use vicus::{
    Bound, BoxError, BoxId, BoxModel, Envelope, InputId, Model, ModelBuilder, Operator, OutputId, RequestOptions,
    Resume, Schema, TemporaryFiles, Turn,
};

/// `vicus_operator`: the functions of a type of boxes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "the name that the header has")]
pub(crate) struct vicus_operator {
    /// The bytes of the program's structure.
    pub(crate) size: u32,
    /// For later.
    pub(crate) reserved: u32,
    /// Makes the state of a box of one instance; without it, the state is `data`.
    pub(crate) create: Option<CreateFn>,
    /// Runs one invocation.
    pub(crate) act: Option<ActFn>,
    /// Frees the state of a box.
    pub(crate) destroy: Option<DropFn>,
    /// The common data of all its boxes.
    pub(crate) data: *mut c_void,
    /// Frees the data.
    pub(crate) drop: Option<DropFn>,
}

type CreateFn = unsafe extern "C" fn(data: *mut c_void, state: *mut *mut c_void) -> i32;
type ActFn = unsafe extern "C" fn(state: *mut c_void, turn: *mut vicus_turn) -> i32;

/// `vicus_turn`: an invocation, as long as it lasts.
#[allow(non_camel_case_types, reason = "the name that the header has")]
pub(crate) struct vicus_turn {
    turn: *mut Turn<'static>,
    inputs: *const [Schema],
}

/// The results of `vicus_turn_take`, by the numbers of the header.
pub(crate) mod taken {
    pub(crate) const NOTHING: i32 = 0;
    pub(crate) const ROWS: i32 = 1;
    pub(crate) const END: i32 = 2;
}

/// `vicus_network`: a model being put together.
pub(crate) struct Network {
    builder: ModelBuilder,
    boxes: Vec<BoxId>,
}

/// A box of one instance.
struct Foreign {
    act: ActFn,
    /// Its state, or why there is none.
    state: Outcome<Owned>,
    /// None if it starts by itself: its only input then has just the pill that starts it.
    inputs: Arc<[Schema]>,
    /// The data for `create`, as long as there is a state.
    _shared: Arc<Shared>,
}

/// The data of an operator.
struct Shared(Owned);

// SAFETY: rule "Callbacks": it is used by several threads at once.
unsafe impl Sync for Shared {}

impl Operator for Foreign {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let state = self.state.as_ref().map_err(Clone::clone)?;
        if self.inputs.is_empty() {
            turn.take(0);
        }
        let mut acting = vicus_turn { turn: ptr::from_mut(turn).cast(), inputs: Arc::as_ptr(&self.inputs) };
        // SAFETY: rule "Callbacks". The turn is used during the call alone, as the header says.
        Ok(ended(unsafe { (self.act)(state.data.0, &raw mut acting) })?)
    }
}

fn of_arrow(error: FromArrowError) -> Failure {
    match error {
        FromArrowError::NoMemory(error) => Failure::new(status::NO_MEMORY, error),
        error => Failure::new(status::SCHEMA, error),
    }
}

/// The columns of a schema of C. The schema stays its owner's.
///
/// # Safety
/// It is one of Arrow's, and was not released.
unsafe fn schema(schema: *const FFI_ArrowSchema, name: &str) -> Outcome<Schema> {
    // SAFETY: as asked of the caller.
    Schema::from_arrow(&unsafe { layout(schema, name) }?).map_err(of_arrow)
}

/// # Safety
/// As [`schema`].
unsafe fn layout(schema: *const FFI_ArrowSchema, name: &str) -> Outcome<ArrowSchema> {
    // SAFETY: as asked of the caller.
    let given = unsafe { handle(schema, name) }?;
    let read = || ArrowSchema::try_from(given).map_err(|error| error.to_string());
    // An unknown format, or one that is no text, is reported in both ways.
    let read = as_state(read).map_err(|failure| failure.message()).and_then(|read| read);
    let wrong = |error| Failure::new(status::SCHEMA, format_args!("`{name}` has no columns that can be read: {error}"));
    read.map_err(wrong)
}

/// # Safety
/// Rules "Texts" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_network_new(name: *const c_char, network: *mut *mut Network) -> i32 {
    guard(|| {
        crate::version::is_right()?;
        let out = output(network, "network")?;
        // SAFETY: rule "Texts".
        let builder = ModelBuilder::new(unsafe { required(name, "name") }?);
        // SAFETY: rule "Outputs".
        unsafe { give(out, Network { builder, boxes: Vec::new() }) };
        Ok(())
    })
}

/// The operator of a structure. Takes the structure's data; the structure may be wrong.
///
/// # Safety
/// Rules "Handles" and "Callbacks".
unsafe fn operator(operator: *const vicus_operator) -> Outcome<(vicus_operator, Arc<Shared>)> {
    // SAFETY: rule "Handles"; the size is the first field of every version.
    let size = *unsafe { handle(operator.cast::<u32>(), "operator") }?;
    if size as usize != size_of::<vicus_operator>() {
        let message = format!("`operator.size` is {size}: begin with VICUS_OPERATOR_INIT, which sets it");
        return Err(Failure::argument(message));
    }
    // SAFETY: the structure is whole, as its size says.
    let given = unsafe { *operator };
    Ok((given, Arc::new(Shared(Owned::new(given.data, given.drop)))))
}

/// # Safety
/// Rules "Handles", "Texts", "Arrays", "Callbacks" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_network_add(
    network: *mut Network,
    name: *const c_char,
    what: *const vicus_operator,
    inputs: *const *const FFI_ArrowSchema,
    input_count: usize,
    outputs: *const *const FFI_ArrowSchema,
    output_count: usize,
    box_number: *mut u32,
) -> i32 {
    guard(|| {
        // SAFETY: rules "Handles" and "Callbacks". First, so that its data is freed if something else is wrong.
        let (given, shared) = unsafe { operator(what) }?;
        let out = output(box_number, "box")?;
        let act = given.act.ok_or_else(|| Failure::argument("`operator.act` is null"))?;
        // SAFETY: rules "Handles", "Texts" and "Arrays".
        let (network, name, inputs, outputs) = unsafe {
            (
                handle_mut(network, "network")?,
                required(name, "name")?.to_owned(),
                array(inputs, input_count, "inputs")?,
                array(outputs, output_count, "outputs")?,
            )
        };
        // SAFETY: rule "Handles".
        let inputs =
            inputs.iter().map(|input| unsafe { schema(*input, "inputs") }).collect::<Outcome<Vec<Schema>>>()?;
        // SAFETY: as above.
        let outputs = outputs.iter().map(|output| unsafe { schema(*output, "outputs") });
        let outputs = outputs.collect::<Outcome<Vec<Schema>>>()?;
        let is_source = inputs.is_empty();
        let taken: Arc<[Schema]> = inputs.iter().cloned().collect();
        let make = move || Foreign {
            act,
            // SAFETY: rule "Callbacks".
            state: unsafe { state(&given, &shared.0) },
            inputs: Arc::clone(&taken),
            _shared: Arc::clone(&shared),
        };
        // The structure's pointers are to its functions and to its data, which `shared` keeps.
        let make = Sendable(make);
        let mut model = BoxModel::new(name, move || make.call());
        model = inputs.iter().fold(model, |model, input| model.input(input));
        model = outputs.iter().fold(model, |model, output| model.output(output));
        let added = if is_source { network.builder.source(model) } else { network.builder.add(model) };
        network.boxes.push(added);
        // SAFETY: rule "Outputs".
        unsafe { out.write((network.boxes.len() - 1) as u32) };
        Ok(())
    })
}

/// A closure with captured pointers of C.
struct Sendable<F>(F);

// SAFETY: rule "Callbacks": the targets of the pointers may be used on any thread.
unsafe impl<F> Send for Sendable<F> {}
// SAFETY: as above.
unsafe impl<F> Sync for Sendable<F> {}

impl<F: Fn() -> Foreign> Sendable<F> {
    fn call(&self) -> Foreign {
        (self.0)()
    }
}

/// A new box's state.
///
/// # Safety
/// Rule "Callbacks".
unsafe fn state(operator: &vicus_operator, shared: &Owned) -> Outcome<Owned> {
    let Some(create) = operator.create else {
        return Ok(Owned::new(shared.data.0, operator.destroy));
    };
    let mut made = ptr::null_mut();
    // SAFETY: as asked of the caller.
    ended(unsafe { create(shared.data.0, &raw mut made) })?;
    Ok(Owned::new(made, operator.destroy))
}

impl Network {
    fn find(&self, number: u32) -> Outcome<BoxId> {
        self.boxes.get(number as usize).copied().ok_or_else(|| {
            Failure::argument(format_args!("there is no box {number}, only {} of them, from 0 on", self.boxes.len()))
        })
    }

    fn output(&self, number: u32, port: u32) -> Outcome<OutputId> {
        Ok(self.find(number)?.output(port as usize))
    }

    fn input(&self, number: u32, port: u32) -> Outcome<InputId> {
        Ok(self.find(number)?.input(port as usize))
    }
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_network_connect(
    network: *mut Network,
    from: u32,
    from_output: u32,
    to: u32,
    to_input: u32,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let network = unsafe { handle_mut(network, "network") }?;
        let (from, to) = (network.output(from, from_output)?, network.input(to, to_input)?);
        network.builder.connect(from, to);
        Ok(())
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_network_connect_bounded(
    network: *mut Network,
    from: u32,
    from_output: u32,
    to: u32,
    to_input: u32,
    envelopes: u32,
    bytes: u64,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let network = unsafe { handle_mut(network, "network") }?;
        let (from, to) = (network.output(from, from_output)?, network.input(to, to_input)?);
        if !(1..=65_536).contains(&envelopes) {
            return Err(Failure::argument(format_args!("an input holds 1 to 65536 tables, and not {envelopes}")));
        }
        network.builder.connect(from, to).bound(Bound { envelopes: envelopes as usize, bytes });
        Ok(())
    })
}

/// # Safety
/// Rule "Handles". `columns` has `columns_len` readable numbers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_network_connect_private(
    network: *mut Network,
    from: u32,
    from_output: u32,
    to: u32,
    to_input: u32,
    columns: *const u32,
    columns_len: usize,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let network = unsafe { handle_mut(network, "network") }?;
        let (from, to) = (network.output(from, from_output)?, network.input(to, to_input)?);
        // SAFETY: the caller's promise.
        let columns = unsafe { array(columns, columns_len, "columns") }?;
        network.builder.connect(from, to).private(columns.iter().map(|&column| column as usize));
        Ok(())
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_network_takes_all(network: *mut Network, number: u32, input: u32) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let network = unsafe { handle_mut(network, "network") }?;
        let input = network.input(number, input)?;
        network.builder.takes_all_of(input);
        Ok(())
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_network_end(network: *mut Network, from: u32, from_output: u32) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let network = unsafe { handle_mut(network, "network") }?;
        let from = network.output(from, from_output)?;
        network.builder.end(from);
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_network_build(network: *mut Network, model: *mut *mut Arc<Model>) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let network = unsafe { handle_mut(network, "network") }?;
        let out = output(model, "model")?;
        // The network is empty afterwards, and its owner frees it.
        let builder = std::mem::replace(&mut network.builder, ModelBuilder::new(""));
        network.boxes.clear();
        let built = builder.build().map_err(|error| Failure::new(status::NETWORK, error))?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, built) };
        Ok(())
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_network_free(network: *mut Network) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(network) });
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_model_free(model: *mut Arc<Model>) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(model) });
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_runtime_submit(
    runtime: *const Threads,
    model: *const Arc<Model>,
    memory_bytes: u64,
    request: *mut *mut Pending,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let model = unsafe { handle(model, "model") }?;
        // SAFETY: rule "Handles".
        let threads = unsafe { threads(runtime) }?;
        let options = vicus_request_options { memory_bytes, ..vicus_request_options::default() };
        // SAFETY: the options name no folder; rule "Outputs".
        unsafe { submit(threads, model, &options, request) }
    })
}

/// # Safety
/// Rules "Handles" and "Outputs". The folder of the options is a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_runtime_submit_with(
    runtime: *const Threads,
    model: *const Arc<Model>,
    options: *const vicus_request_options,
    request: *mut *mut Pending,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let model = unsafe { handle(model, "model") }?;
        // SAFETY: rule "Handles".
        let threads = unsafe { threads(runtime) }?;
        // SAFETY: rule "Handles"; the size is the first field of every version.
        let Some(size) = (unsafe { options.cast::<u32>().as_ref() }) else {
            // SAFETY: the options name no folder; rule "Outputs".
            return unsafe { submit(threads, model, &vicus_request_options::default(), request) };
        };
        if *size as usize != size_of::<vicus_request_options>() {
            let message = format!("`options.size` is {size}: begin with VICUS_REQUEST_OPTIONS_INIT, which sets it");
            return Err(Failure::argument(message));
        }
        // SAFETY: the structure is whole, as its size says; rule "Outputs".
        unsafe { submit(threads, model, &*options, request) }
    })
}

/// `vicus_request_options`.
#[repr(C)]
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name that the header has")]
pub(crate) struct vicus_request_options {
    /// The bytes of the program's structure: it may be older, and shorter.
    pub(crate) size: u32,
    /// How many boxes may live at once; 0 for the usual number.
    pub(crate) most_boxes: u32,
    /// The bytes that its boxes may hold; 0 is no limit.
    pub(crate) memory_bytes: u64,
    /// The folder of temporary files; the system's if it is null.
    pub(crate) temp_folder: *const c_char,
}

impl Default for vicus_request_options {
    fn default() -> vicus_request_options {
        let size = size_of::<vicus_request_options>() as u32;
        vicus_request_options { size, most_boxes: 0, memory_bytes: 0, temp_folder: ptr::null() }
    }
}

/// Begins a run of a model.
///
/// # Safety
/// The folder of the options is a text, or null; rule "Outputs".
unsafe fn submit(
    threads: &Threads,
    model: &Arc<Model>,
    options: &vicus_request_options,
    request: *mut *mut Pending,
) -> Outcome<()> {
    // SAFETY: as asked of the caller.
    let folder = unsafe { optional(options.temp_folder) }?;
    let overflows = match (folder, options.memory_bytes) {
        // Memory without a limit is never used up, and small runs are many.
        (None, 0) => None,
        (folder, _) => {
            let opened = TemporaryFiles::for_network(folder.map(Path::new), &std::env::temp_dir());
            let named = folder.unwrap_or_default();
            opened.map_err(|error| Failure::new(status::SYSTEM, format_args!("temp_folder {named}: {error}")))?
        }
    };
    let most_boxes = NonZeroUsize::new(options.most_boxes as usize);
    let options = RequestOptions { overflows, most_boxes, ..RequestOptions::from(budget(options.memory_bytes)) };
    let begun = threads.runtime().submit_within(model, Vec::new(), options);
    if !request.is_null() {
        // SAFETY: rule "Outputs".
        unsafe { give(request, Pending::Network(begun)) };
    }
    Ok(())
}

/// # Safety
/// The turn is one given to the running callback, and nothing else of it is in use.
unsafe fn of<'a>(turn: *mut vicus_turn) -> Outcome<(&'a mut Turn<'static>, &'a [Schema])> {
    // SAFETY: as asked of the caller; `Foreign::act` has made it of references that outlive the callback.
    unsafe {
        let own = handle(turn.cast_const(), "turn")?;
        Ok((&mut *own.turn, &*own.inputs))
    }
}

/// A checked number of an input or an output.
fn port(number: u32, count: usize, what: &str) -> Outcome<usize> {
    if (number as usize) < count {
        return Ok(number as usize);
    }
    Err(Failure::argument(format_args!("there is no {what} {number}, only {count} of them, from 0 on")))
}

/// # Safety
/// As `of`; rule "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_take(
    turn: *mut vicus_turn,
    input: u32,
    rows: *mut FFI_ArrowArray,
    what: *mut i32,
) -> i32 {
    guard(|| {
        let (out, what) = (output(rows, "rows")?, output(what, "what")?);
        // SAFETY: as asked of the caller.
        let (turn, inputs) = unsafe { of(turn) }?;
        let input = port(input, inputs.len(), "input")?;
        let found = match turn.take(input) {
            None => taken::NOTHING,
            Some(envelope) if envelope.is_pill() => taken::END,
            Some(envelope) => {
                // A copy of truth values may find no memory.
                let table = as_state(|| StructArray::from(envelope.to_arrow(&inputs[input])))?;
                let (given, _) = to_ffi(&table.to_data()).map_err(|error| Failure::new(status::SCHEMA, error))?;
                // SAFETY: rule "Outputs"; the old value is not dropped, because it may be anything.
                unsafe { out.write(given) };
                taken::ROWS
            }
        };
        // SAFETY: rule "Outputs".
        unsafe { what.write(found) };
        Ok(())
    })
}

/// Whether an array has the form of a table with these columns, as far as it is visible without its schema.
fn has_form(array: &FFI_ArrowArray, columns: &Fields) -> Outcome {
    let wrong = |what: String| Err(Failure::new(status::SCHEMA, what));
    if array.null_count_opt().is_some_and(|nulls| nulls > 0) {
        return wrong("rows of a table are not null as a whole".to_owned());
    }
    if array.num_children() != columns.len() {
        return wrong(format!("{} columns are sent, and the output has {}", array.num_children(), columns.len()));
    }
    columns
        .iter()
        .enumerate()
        .try_for_each(|(number, field)| is_of(array.child(number), field.name(), field.data_type()))
}

/// Whether an array has the buffers and children of this type.
fn is_of(array: &FFI_ArrowArray, name: &str, data_type: &DataType) -> Outcome {
    let wrong = |what: String| Err(Failure::new(status::SCHEMA, what));
    let (buffers, parts): (usize, Vec<&FieldRef>) = match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => (3, Vec::new()),
        // And one for each buffer of long values.
        DataType::Utf8View | DataType::BinaryView => (3.max(array.num_buffers()), Vec::new()),
        DataType::List(item) | DataType::LargeList(item) => (2, vec![item]),
        DataType::FixedSizeList(item, _) => (1, vec![item]),
        DataType::Struct(fields) => (1, fields.iter().collect()),
        _ => (2, Vec::new()),
    };
    if array.num_buffers() != buffers {
        return wrong(format!("column {name} has {} buffers, and its type has {buffers}", array.num_buffers()));
    }
    if array.num_children() != parts.len() {
        return wrong(format!("column {name} has {} parts, and its type has {}", array.num_children(), parts.len()));
    }
    for (number, part) in parts.into_iter().enumerate() {
        is_of(array.child(number), &format!("{name}.{}", part.name()), part.data_type())?;
    }
    match (data_type, array.dictionary()) {
        (DataType::Dictionary(_, values), Some(dictionary)) => is_of(dictionary, name, values),
        (DataType::Dictionary(..), None) => wrong(format!("column {name} has no dictionary, and its type has one")),
        (_, Some(_)) => wrong(format!("column {name} has a dictionary, and its type has none")),
        _ => Ok(()),
    }
}

/// # Safety
/// The rules of `of`; `rows` is an array of Arrow, owned by the library afterwards, and `given` its schema, or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_send(
    turn: *mut vicus_turn,
    output: u32,
    rows: *mut FFI_ArrowArray,
    given: *const FFI_ArrowSchema,
) -> i32 {
    guard(|| {
        if rows.is_null() {
            return Err(Failure::argument("`rows` is null"));
        }
        // SAFETY: as asked of the caller: moved out, so that it is released in any case.
        let rows = unsafe { FFI_ArrowArray::from_raw(rows) };
        if rows.is_released() {
            return Err(Failure::argument("`rows` were released already"));
        }
        // SAFETY: as asked of the caller.
        let (turn, _) = unsafe { of(turn) }?;
        let output = port(output, turn.outputs(), "output")?;
        let wanted = turn.schema(output).clone();
        // The rows are laid out as their schema says, which may store texts in another way.
        let mut columns = wanted.to_arrow().fields;
        if !given.is_null() {
            // SAFETY: as asked of the caller.
            let given = unsafe { layout(given, "schema") }?;
            let found = Schema::from_arrow(&given).map_err(of_arrow)?;
            if !found.fits(&wanted) {
                let message = format!("rows of {found} are sent, and the output has {wanted}");
                return Err(Failure::new(status::SCHEMA, message));
            }
            columns = given.fields;
        }
        has_form(&rows, &columns)?;
        let envelope = as_state(|| envelope(rows, &columns))??;
        if !envelope.fits(&wanted) {
            return Err(Failure::new(status::SCHEMA, format_args!("the rows have nulls, and the output has {wanted}")));
        }
        as_state(|| turn.send(output, envelope))
    })
}

/// The rows of an array of C. The envelope keeps its buffers.
fn envelope(rows: FFI_ArrowArray, columns: &Fields) -> Outcome<Envelope> {
    let wrong = |error| Failure::new(status::SCHEMA, error);
    // The envelope counts nulls, and reports those that the schema doesn't allow.
    let nullable = columns.iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let kind = FFI_ArrowSchema::try_from(DataType::Struct(nullable)).map_err(wrong)?;
    // SAFETY: the array has as many columns and buffers as this schema says; their contents are the caller's promise.
    let mut data = unsafe { from_ffi(rows, &kind) }.map_err(wrong)?;
    // Other programs align to less than the numbers' size.
    data.align_buffers();
    // Texts become `str`, and nothing looks at their bytes again.
    for (column, field) in data.child_data().iter().zip(columns) {
        let wrong = |error| Failure::new(status::SCHEMA, format_args!("column {}: {error}", field.name()));
        column.validate_full().map_err(wrong)?;
    }
    data.validate().map_err(wrong)?;
    Envelope::from_arrow(&RecordBatch::from(StructArray::from(data))).map_err(of_arrow)
}

/// # Safety
/// As `of`; rule "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_schema(
    turn: *mut vicus_turn,
    input: u32,
    schema: *mut FFI_ArrowSchema,
) -> i32 {
    guard(|| {
        let out = output(schema, "schema")?;
        // SAFETY: as asked of the caller.
        let (_, inputs) = unsafe { of(turn) }?;
        let input = port(input, inputs.len(), "input")?;
        let given =
            FFI_ArrowSchema::try_from(inputs[input].to_arrow()).map_err(|error| Failure::new(status::SCHEMA, error))?;
        // SAFETY: rule "Outputs".
        unsafe { out.write(given) };
        Ok(())
    })
}

/// # Safety
/// As `of`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_end(turn: *mut vicus_turn, output: u32) -> i32 {
    guard(|| {
        // SAFETY: as asked of the caller.
        let (turn, _) = unsafe { of(turn) }?;
        let output = port(output, turn.outputs(), "output")?;
        as_state(|| turn.send_pill(output))
    })
}

/// # Safety
/// As `of`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_end_all(turn: *mut vicus_turn) -> i32 {
    guard(|| {
        // SAFETY: as asked of the caller.
        let (turn, _) = unsafe { of(turn) }?;
        as_state(|| turn.send_pills())
    })
}

/// # Safety
/// As `of`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_close(turn: *mut vicus_turn, input: u32) -> i32 {
    guard(|| {
        // SAFETY: as asked of the caller.
        let (turn, inputs) = unsafe { of(turn) }?;
        turn.close(port(input, inputs.len(), "input")?);
        Ok(())
    })
}

/// # Safety
/// As `of`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_has_room(turn: *mut vicus_turn, output: u32) -> i32 {
    guard_or(0, || {
        // SAFETY: as asked of the caller.
        let Ok((turn, _)) = (unsafe { of(turn) }) else { return 0 };
        i32::from((output as usize) < turn.outputs() && turn.ask_room(output as usize))
    })
}

/// # Safety
/// As `of`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_run_again(turn: *mut vicus_turn) {
    guard_or((), || {
        // SAFETY: as asked of the caller.
        if let Ok((turn, _)) = unsafe { of(turn) } {
            turn.run_again();
        }
    });
}

/// # Safety
/// As `of`; rule "Callbacks".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_blocking(
    turn: *mut vicus_turn,
    function: Option<TaskFn>,
    data: *mut c_void,
) -> i32 {
    guard(|| {
        let function = function.ok_or_else(|| Failure::argument("`function` is null"))?;
        // SAFETY: as asked of the caller.
        let (turn, _) = unsafe { of(turn) }?;
        // SAFETY: rule "Callbacks".
        turn.blocking(|| ended(unsafe { function(data) }))
    })
}

/// # Safety
/// As `of`; rule "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_pause(turn: *mut vicus_turn, paused: *mut *mut Resume) -> i32 {
    guard(|| {
        let out = output(paused, "paused")?;
        // SAFETY: as asked of the caller.
        let (turn, _) = unsafe { of(turn) }?;
        let resume = turn.pause().ok_or_else(|| Failure::state("this box can't be resumed from outside"))?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, resume) };
        Ok(())
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_resume(paused: *mut Resume) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(paused) });
}

/// # Safety
/// As `of`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_is_stopped(turn: *mut vicus_turn) -> i32 {
    guard_or(0, || {
        // SAFETY: as asked of the caller.
        unsafe { of(turn) }.map_or(0, |(turn, _)| i32::from(turn.is_stopped()))
    })
}

/// # Safety
/// As `of`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_book(turn: *mut vicus_turn, bytes: u64) -> i32 {
    guard(|| {
        // SAFETY: as asked of the caller.
        let (turn, _) = unsafe { of(turn) }?;
        turn.book(bytes).map_err(|error| Failure::new(status::LIMIT, error))
    })
}

/// # Safety
/// As `of`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_turn_node(turn: *mut vicus_turn) -> u32 {
    guard_or(0, || {
        // SAFETY: as asked of the caller.
        unsafe { of(turn) }.map_or(0, |(turn, _)| turn.node().index() as u32)
    })
}
