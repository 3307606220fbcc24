//! Kinds of boxes by name, with their parameters and documentation.

use crate::build::{Collected, MachineCounts};
use crate::error::Spot;
use crate::paths::{LaterWork, Paths};
use crate::value::{ParameterType, ParameterValue};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use vicus_flow::{BoxError, BoxId, BoxModel, ModelBuilder, OutputId, Schema, library};

/// How many inputs or outputs a kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// So many.
    Exactly(usize),
    /// One for each via, at least one.
    Any,
    /// The first, and the second if a via leaves from it.
    OneOrTwo,
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ports::Exactly(count) => count.fmt(f),
            Ports::Any => f.write_str("any number"),
            Ports::OneOrTwo => f.write_str("1 or 2"),
        }
    }
}

/// A parameter of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// Its name.
    pub name: &'static str,
    /// The type of its values.
    pub kind: ParameterType,
    /// Its value where a text gives none.
    pub default: Option<ParameterValue>,
    /// Whether a text must give one.
    pub is_required: bool,
    /// Its meaning.
    pub doc: &'static str,
}

type Build = dyn Fn(&mut Building<'_>) -> Result<Vec<(OutputId, Schema)>, KindError> + Send + Sync;

/// A kind of boxes: a name, documented parameters, and a function that adds a box of the kind, or several, to a model.
///
/// ```
/// use vicus_flow::library;
/// use vicus_network::{BoxSpec, Kinds, MachineCounts, NetworkText, ParameterType, Ports};
///
/// let add = BoxSpec::new("add", "Adds a number to the first column, which is of I64.")
///     .required("number", ParameterType::Integer, "The number.")
///     .ports(Ports::Exactly(1), Ports::Exactly(1))
///     .builds(|building| {
///         let (number, schema) = (building.integer("number"), building.inputs()[0].schema.clone());
///         let add = library::map("add", &schema, &schema, move |mut envelope| {
///             envelope.i64s_mut(0).iter_mut().for_each(|n| *n += number);
///             Some(envelope)
///         });
///         Ok(vec![(building.add(add).output(0), schema)])
///     })
///     .local();
/// let mut kinds = Kinds::library();
/// kinds.add(add);
/// let text: NetworkText = "box n = numbers(to: 3); box a = local add(number: 1); n -> a -> rows; box rows = collect;"
///     .parse()?;
/// assert!(text.build("adds", &kinds, &MachineCounts::default(), &[]).is_ok());
/// let missing = text.build("adds", &Kinds::library(), &MachineCounts::default(), &[]).unwrap_err();
/// assert!(missing.message.starts_with("`add` is a local kind"));
/// # Ok::<(), vicus_network::NetworkError>(())
/// ```
#[derive(Clone)]
pub struct BoxSpec {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) parameters: Vec<ParameterSpec>,
    pub(crate) inputs: Ports,
    pub(crate) outputs: Ports,
    /// The inputs of which it takes all before it sends.
    pub(crate) waits_for: &'static [usize],
    /// Whether its rows end although its inputs' do not.
    pub(crate) is_end: bool,
    is_local: bool,
    /// See [`BoxSpec::only_once`].
    is_once: bool,
    build: Arc<Build>,
}

impl BoxSpec {
    /// A kind with one input, one output and no parameters. Its function is yet to be given.
    pub fn new(name: &'static str, doc: &'static str) -> BoxSpec {
        let build = move |_: &mut Building<'_>| Err(KindError::new(format!("the kind {name} has no function")));
        BoxSpec {
            name,
            doc,
            parameters: Vec::new(),
            inputs: Ports::Exactly(1),
            outputs: Ports::Exactly(1),
            waits_for: &[],
            is_end: false,
            is_local: false,
            is_once: false,
            build: Arc::new(build),
        }
    }

    /// The numbers of its inputs and outputs. A kind without inputs is a source; one without outputs ends its rows.
    pub fn ports(self, inputs: Ports, outputs: Ports) -> BoxSpec {
        BoxSpec { inputs, outputs, ..self }
    }

    /// Says that all of these inputs are taken before it sends anything: a stream without end can't be one of them, and
    /// other ways of the same rows to its reader hold more meanwhile ([`BoxModel::takes_all_of`]).
    pub fn waits_for(self, inputs: &'static [usize]) -> BoxSpec {
        BoxSpec { waits_for: inputs, ..self }
    }

    /// Its rows end, even if its inputs never do.
    pub fn ends(self) -> BoxSpec {
        BoxSpec { is_end: true, ..self }
    }

    /// Adds a parameter that a text must give.
    pub fn required(self, name: &'static str, kind: ParameterType, doc: &'static str) -> BoxSpec {
        self.with(ParameterSpec { name, kind, default: None, is_required: true, doc })
    }

    /// Adds a parameter that a text may leave out.
    pub fn optional(self, name: &'static str, kind: ParameterType, doc: &'static str) -> BoxSpec {
        self.with(ParameterSpec { name, kind, default: None, is_required: false, doc })
    }

    /// Adds a parameter with a default.
    pub fn defaults(self, name: &'static str, default: ParameterValue, doc: &'static str) -> BoxSpec {
        let kind = default.kind().expect("a default is a value");
        self.with(ParameterSpec { name, kind, default: Some(default), is_required: false, doc })
    }

    fn with(mut self, parameter: ParameterSpec) -> BoxSpec {
        self.parameters.push(parameter);
        self
    }

    /// The function that adds such a box to a model. It gives the outputs with their columns, in order.
    pub fn builds(
        self,
        build: impl Fn(&mut Building<'_>) -> Result<Vec<(OutputId, Schema)>, KindError> + Send + Sync + 'static,
    ) -> BoxSpec {
        BoxSpec { build: Arc::new(build), ..self }
    }

    /// A kind of one program alone: texts say so, and other programs name it as missing.
    pub fn local(self) -> BoxSpec {
        BoxSpec { is_local: true, ..self }
    }

    /// A kind whose rows can't be had a second time, or whose effects add up: networks with it are not run again when a
    /// machine was lost.
    pub fn only_once(self) -> BoxSpec {
        BoxSpec { is_once: true, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its meaning; the first sentence stands in lists.
    pub fn doc(&self) -> &'static str {
        self.doc
    }

    /// Its parameters.
    pub fn parameters(&self) -> &[ParameterSpec] {
        &self.parameters
    }

    /// How many inputs it has.
    pub fn inputs(&self) -> Ports {
        self.inputs
    }

    /// How many outputs it has.
    pub fn outputs(&self) -> Ports {
        self.outputs
    }

    /// Whether it belongs to one program.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Whether networks with it run once alone.
    pub fn is_once(&self) -> bool {
        self.is_once
    }

    pub(crate) fn build(&self, building: &mut Building<'_>) -> Result<Vec<(OutputId, Schema)>, KindError> {
        (self.build)(building)
    }
}

impl fmt::Debug for BoxSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxSpec")
            .field("name", &self.name)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}

/// Its documentation.
impl fmt::Display for BoxSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n  {}", self.name, self.doc)?;
        writeln!(f, "  inputs: {}, outputs: {}", self.inputs, self.outputs)?;
        for ParameterSpec { name, kind, default, is_required, doc } in &self.parameters {
            let otherwise = match default {
                Some(value) => format!(" = {value}"),
                None if *is_required => String::new(),
                None => ", optional".to_owned(),
            };
            writeln!(f, "  {name}: {kind}{otherwise}\n      {doc}")?;
        }
        Ok(())
    }
}

/// The kinds that texts can name.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    all: BTreeMap<&'static str, BoxSpec>,
    paths: Paths,
}

impl Kinds {
    /// Adds a kind, in place of an earlier one with its name.
    pub fn add(&mut self, kind: BoxSpec) {
        self.all.insert(kind.name, kind);
    }

    /// Kinds that find the files of their parameters so. By default files are as they are named.
    pub fn with_paths(self, paths: Paths) -> Kinds {
        Kinds { paths, ..self }
    }

    /// Kinds that write other files than those that texts name: a function gives each its place, such as one beside it,
    /// until the network has done well. Its error says why the file can't be written so.
    pub fn with_files_to_write(
        self,
        place: impl Fn(PathBuf) -> Result<PathBuf, String> + Send + Sync + 'static,
    ) -> Kinds {
        Kinds { paths: self.paths.writing(place), ..self }
    }

    /// Kinds whose boxes leave work that can't be taken back, such as a store's transaction, to a function: for the end
    /// of a network that may be run again.
    pub fn with_work_at_end(self, later: LaterWork) -> Kinds {
        Kinds { paths: self.paths.ending(later), ..self }
    }

    /// The file of a name in a text, where boxes of these kinds find it.
    ///
    /// # Errors
    /// The name has none; the error says why.
    pub fn file(&self, name: &str) -> Result<PathBuf, String> {
        self.paths.find(name)
    }

    /// How files are found.
    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The kind of this name.
    pub fn get(&self, name: &str) -> Option<&BoxSpec> {
        self.all.get(name)
    }

    /// All kinds by name.
    pub fn iter(&self) -> impl Iterator<Item = &BoxSpec> {
        self.all.values()
    }
}

/// Why a kind can't add a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindError {
    pub(crate) message: String,
    /// The parameter at fault, and the place in its text if not all of it is.
    pub(crate) parameter: Option<(&'static str, Option<usize>)>,
}

impl KindError {
    /// The box's inputs, or something outside of the text, are at fault.
    pub fn new(message: impl Into<String>) -> KindError {
        KindError { message: message.into(), parameter: None }
    }

    /// A parameter's value is at fault.
    pub fn of(parameter: &'static str, message: impl Into<String>) -> KindError {
        KindError { message: message.into(), parameter: Some((parameter, None)) }
    }

    /// A parameter's text is at fault, from this byte on.
    pub fn within(parameter: &'static str, offset: usize, message: impl Into<String>) -> KindError {
        KindError { message: message.into(), parameter: Some((parameter, Some(offset))) }
    }
}

/// The rows of an input: their source and their columns.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The sender's output.
    pub output: OutputId,
    /// Its columns.
    pub schema: Schema,
    /// The sender, by its name in the text.
    pub from: String,
}

/// A box being added to a model.
pub struct Building<'a> {
    pub(crate) net: &'a mut ModelBuilder,
    pub(crate) name: &'a str,
    pub(crate) inputs: Vec<Incoming>,
    pub(crate) outputs: usize,
    pub(crate) arguments: &'a BTreeMap<&'a str, (ParameterValue, Spot)>,
    pub(crate) collected: &'a mut Vec<Collected>,
    pub(crate) machine: &'a MachineCounts,
    pub(crate) paths: &'a Paths,
    pub(crate) is_endless: bool,
    /// The inputs of which the kind takes all before it sends.
    pub(crate) waits_for: &'static [usize],
}

impl Building<'_> {
    /// The box's name in the text.
    pub fn name(&self) -> &str {
        self.name
    }

    /// Its inputs, in order.
    pub fn inputs(&self) -> &[Incoming] {
        &self.inputs
    }

    /// How many outputs vias leave from.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The machine that the network is built for.
    pub fn machine(&self) -> &MachineCounts {
        self.machine
    }

    /// The value of a parameter, given or by default.
    pub fn value(&self, parameter: &str) -> Option<&ParameterValue> {
        self.arguments.get(parameter).map(|(value, _)| value)
    }

    fn of_type<'v, T>(&'v self, parameter: &str, of: impl Fn(&'v ParameterValue) -> Option<T>) -> T {
        let value =
            self.value(parameter).unwrap_or_else(|| panic!("the kind has a parameter {parameter} with a value"));
        of(value).unwrap_or_else(|| panic!("the parameter {parameter} is of another type"))
    }

    /// The value of an integer. Panics, as the next ones do, if the kind has no such parameter, or if it is optional
    /// and has none.
    pub fn integer(&self, parameter: &str) -> i64 {
        self.of_type(parameter, |value| if let ParameterValue::Integer(value) = value { Some(*value) } else { None })
    }

    /// The value of a number.
    pub fn number(&self, parameter: &str) -> f64 {
        self.of_type(parameter, |value| if let ParameterValue::Number(value) = value { Some(*value) } else { None })
    }

    /// The value of a truth value.
    pub fn boolean(&self, parameter: &str) -> bool {
        self.of_type(parameter, |value| if let ParameterValue::Boolean(value) = value { Some(*value) } else { None })
    }

    /// The value of a text.
    pub fn text(&self, parameter: &str) -> &str {
        self.of_type(
            parameter,
            |value| if let ParameterValue::Text(value) = value { Some(value.as_str()) } else { None },
        )
    }

    /// The file that a text names, where [`Kinds::with_paths`] finds it.
    ///
    /// # Errors
    /// The name has none there.
    pub fn file(&self, parameter: &'static str) -> Result<PathBuf, KindError> {
        self.file_named(parameter, self.text(parameter))
    }

    /// The file of a name that is a part of a text, such as `path` of `unix:path`.
    ///
    /// # Errors
    /// The name has none there.
    pub fn file_named(&self, parameter: &'static str, name: &str) -> Result<PathBuf, KindError> {
        self.paths.find(name).map_err(|error| KindError::of(parameter, error))
    }

    /// The file to be written for a text that names one: itself, or another one, if the network may be run again
    /// ([`Kinds::with_files_to_write`]).
    ///
    /// # Errors
    /// The name has none there, or what is written can't be taken back.
    pub fn file_to_write(&self, parameter: &'static str) -> Result<PathBuf, KindError> {
        let file = self.file(parameter)?;
        self.paths.place(file).map_err(|why| KindError::of(parameter, why))
    }

    /// Takes work for the end of the network, if that may be run again ([`Kinds::with_work_at_end`]): its box has done
    /// its part when it has left that. Without it, the box does the work itself.
    pub fn at_end(&self) -> Option<LaterWork> {
        self.paths.at_end()
    }

    /// The model, for kinds of several boxes.
    pub fn net(&mut self) -> &mut ModelBuilder {
        self.net
    }

    /// Adds a box with all the inputs, in order. It takes all of those first that the kind
    /// [waits for](BoxSpec::waits_for).
    pub fn add(&mut self, model: BoxModel) -> BoxId {
        let added = self.net.add(self.waits_for.iter().fold(model, |model, &input| model.takes_all_of(input)));
        for (input, incoming) in self.inputs.iter().enumerate() {
            self.net.connect(incoming.output, added.input(input));
        }
        added
    }

    /// Says that its rows never end by themselves.
    pub fn never_ends(&mut self) {
        self.is_endless = true;
    }

    /// Adds a source.
    pub fn source(&mut self, model: BoxModel) -> BoxId {
        self.net.source(model)
    }

    /// Adds the end of the first input's rows: a function takes each envelope.
    pub fn sink(
        &mut self,
        type_name: &'static str,
        take: impl FnMut(vicus_flow::Envelope) -> Result<(), BoxError> + Clone + Send + Sync + 'static,
    ) -> BoxId {
        let schema = self.inputs[0].schema.clone();
        let added = self.add(library::sink(type_name, &schema, take));
        self.net.end(added.output(0));
        added
    }

    /// Adds the end of the first input's rows, which the caller of the network takes.
    pub fn collect(&mut self) -> BoxId {
        let (name, schema) = (self.name.to_owned(), self.inputs[0].schema.clone());
        let sink = self.sink("collect", |_| Ok(()));
        self.collected.push(Collected { name, sink, schema });
        sink
    }
}
