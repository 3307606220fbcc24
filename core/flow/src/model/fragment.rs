//! A fragment: a network with open ends, to take the place of an expandable box.

use super::{BoxModel, InputId, LinkOptions, Model, ModelBuilder, ModelError, OutputId};
use crate::expand::Forward;
use crate::{Arrivals, BoxError, BoxId, Expansion, Schema, Turn};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A checked network with the inputs and outputs of an expandable box. Cheap to clone: boxes that grow alike share one.
#[derive(Clone)]
pub struct Fragment(Arc<Checked>);

/// Invariant: box 0 of the model stands for the inputs, and the last one for the outputs.
struct Checked {
    model: Model,
    inputs: Vec<Schema>,
    /// The box that reads all inputs, in order, and alone: it can be put into the expandable box's cell. Otherwise 0:
    /// a box in that cell forwards envelopes.
    host: usize,
    /// Whether boxes begin by themselves.
    has_sources: bool,
}

impl Fragment {
    /// The type of the expandable box.
    pub fn name(&self) -> &str {
        self.0.model.name()
    }

    pub(crate) fn model(&self) -> &Model {
        &self.0.model
    }

    pub(crate) fn host(&self) -> usize {
        self.0.host
    }

    pub(crate) fn has_sources(&self) -> bool {
        self.0.has_sources
    }

    pub(crate) fn inputs(&self) -> &[Schema] {
        &self.0.inputs
    }

    /// The schemas of its outputs.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &Schema> {
        let boxes = &self.0.model.boxes;
        let ends = &boxes[boxes.len() - 1].inputs;
        ends.iter().map(|(from, _)| &boxes[from.sender.0].outputs[from.output].0)
    }
}

impl fmt::Debug for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.model, f)
    }
}

/// Puts a fragment together, as a [`ModelBuilder`] does a model. It begins with the streams of its inputs
/// ([`FragmentBuilder::input`]); the first [`FragmentBuilder::end`] makes its output 0, the next one its output 1.
///
/// ```
/// use vicus_flow::{FragmentBuilder, Schema, Type, library};
///
/// let schema = Schema::new([("n", Type::U64)]);
/// let mut net = FragmentBuilder::new("twice", [&schema]);
/// for _ in 0..2 {
///     let each = net.add(library::map("each", &schema, &schema, Some));
///     net.connect(net.input(0), each.input(0));
///     net.end(each.output(0));
/// }
/// assert!(net.build().is_ok());
/// ```
pub struct FragmentBuilder {
    net: ModelBuilder,
    inputs: Vec<Schema>,
}

impl FragmentBuilder {
    /// The place of expandable boxes of this type, with these inputs.
    pub fn new<'s>(name: impl Into<String>, inputs: impl IntoIterator<Item = &'s Schema>) -> FragmentBuilder {
        let inputs: Vec<Schema> = inputs.into_iter().cloned().collect();
        let mut net = ModelBuilder::new(name);
        let nothing = || |_: &mut Turn<'_>| -> Result<(), BoxError> { unreachable!("its operator is made by hand") };
        let entry = inputs.iter().fold(BoxModel::new("inputs", nothing), |entry, schema| entry.output(schema));
        net.types.clear();
        net.boxes[0] = (1, entry);
        net.start = BoxId(0).output(inputs.len());
        FragmentBuilder { net, inputs }
    }

    /// The stream of an input, counted from 0.
    pub fn input(&self, input: usize) -> OutputId {
        BoxId(0).output(input)
    }

    /// Like [`ModelBuilder::connect`].
    pub fn connect(&mut self, from: OutputId, to: InputId) -> LinkOptions<'_> {
        self.net.connect(from, to)
    }

    /// Makes this stream the next output of the fragment. Its via goes on to the reader of the expandable box's output,
    /// with the bound that was given there.
    pub fn end(&mut self, from: OutputId) {
        self.net.end(from);
    }

    /// Checks the fragment.
    ///
    /// # Errors
    /// The first mistake found; see [`ModelError`]. The box `inputs` stands for the inputs there, and the box `outputs`
    /// for the outputs.
    pub fn build(self) -> Result<Fragment, ModelError> {
        let FragmentBuilder { mut net, inputs } = self;
        let has_sources = net.links.iter().any(|(from, _)| *from == net.start);
        if has_sources {
            net.boxes[0].1.outputs.push(Schema::none());
        }
        let nothing = || |_: &mut Turn<'_>| -> Result<(), BoxError> { unreachable!("no cell is made for it") };
        let model = net.assemble(BoxModel::new("outputs", nothing))?;
        let host = if has_sources { 0 } else { host(&model) };
        Ok(Fragment(Arc::new(Checked { model, inputs, host, has_sources })))
    }
}

/// The box that alone reads all inputs, in order; 0 if there is none.
fn host(model: &Model) -> usize {
    let entry = &model.boxes[0].outputs;
    let Some(first) = entry.first().and_then(|(_, links)| links.first()) else { return 0 };
    let host = first.receiver.0;
    let is_host = host != model.boxes.len() - 1 && model.boxes[host].inputs.len() == entry.len();
    let reads = |(number, (_, links)): (usize, &(Schema, super::Links))| {
        links.len() == 1 && (links[0].receiver.0, links[0].input) == (host, number) && links[0].private.is_empty()
    };
    if is_host && entry.iter().enumerate().all(reads) { host } else { 0 }
}

impl Deref for FragmentBuilder {
    type Target = ModelBuilder;

    fn deref(&self) -> &ModelBuilder {
        &self.net
    }
}

impl DerefMut for FragmentBuilder {
    fn deref_mut(&mut self) -> &mut ModelBuilder {
        &mut self.net
    }
}

impl BoxModel {
    /// An expandable box: a fragment takes its place when its code decides so from what has come ([`Expansion`]). The
    /// factory makes the code of each of them.
    ///
    /// The code is called when the first envelope with rows has come to any input. The box's senders and receivers
    /// notice nothing of the exchange: no envelope is lost, duplicated, or moved before another one. If all inputs end
    /// before there are rows, the box sends its pills without asking.
    ///
    /// Boxes of fragments may expand in their turn. How many boxes a request may have at once is bounded
    /// ([`Instance::set_most_boxes`](crate::Instance::set_most_boxes)). Boxes that have ended free their memory, so a
    /// chain of any length can run if few of its boxes live at once.
    ///
    /// ```
    /// use std::sync::{Arc, OnceLock, mpsc};
    /// use vicus_flow::{
    ///     Arrivals, BoxModel, Envelope, Expansion, Fragment, FragmentBuilder, ModelBuilder, Schema, Type, library,
    ///     sequential,
    /// };
    ///
    /// /// Halves numbers until all are odd: as many boxes as the most even number needs.
    /// fn odd(schema: &Schema) -> BoxModel {
    ///     let (shape, again) = (schema.clone(), schema.clone());
    ///     BoxModel::expandable("odd", [schema], [schema], move || {
    ///         let (shape, again) = (shape.clone(), again.clone());
    ///         move |arrived: &Arrivals<'_>| {
    ///             let is_even = |envelope: &Envelope| envelope.column(0).u64s().iter().any(|n| n % 2 == 0);
    ///             if !arrived.envelopes(0).any(is_even) {
    ///                 return Ok(Expansion::PassBy);
    ///             }
    ///             let mut net = FragmentBuilder::new("odd", [&shape]);
    ///             let halve = net.add(library::map("halve", &shape, &shape, |envelope| {
    ///                 let halve = |n: &u64| if n % 2 == 0 { n / 2 } else { *n };
    ///                 Some(Envelope::new([envelope.column(0).u64s().iter().map(halve).collect::<Vec<_>>().into()]))
    ///             }));
    ///             let rest = net.add(odd(&again));
    ///             net.connect(net.input(0), halve.input(0));
    ///             net.connect(halve.output(0), rest.input(0));
    ///             net.end(rest.output(0));
    ///             Ok(Expansion::Become(net.build()?))
    ///         }
    ///     })
    /// }
    ///
    /// let schema = Schema::new([("n", Type::U64)]);
    /// let mut net = ModelBuilder::new("odd numbers");
    /// let numbers = net.source(library::source("numbers", &schema, || [Envelope::new([vec![3u64, 40, 6].into()])]));
    /// let odd = net.add(odd(&schema));
    /// let (send, receive) = mpsc::channel();
    /// let end = net.add(library::sink("end", &schema, move |rows| Ok(send.send(rows.column(0).u64s().to_vec())?)));
    /// net.connect(numbers.output(0), odd.input(0));
    /// net.connect(odd.output(0), end.input(0));
    /// net.end(end.output(0));
    /// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
    /// assert_eq!(receive.recv().unwrap(), [3, 5, 3]);
    /// ```
    pub fn expandable<'s, D>(
        type_name: impl Into<std::borrow::Cow<'static, str>>,
        inputs: impl IntoIterator<Item = &'s Schema>,
        outputs: impl IntoIterator<Item = &'s Schema>,
        factory: impl Fn() -> D + Send + Sync + 'static,
    ) -> BoxModel
    where
        D: FnMut(&Arrivals<'_>) -> Result<Expansion, BoxError> + Send + 'static,
    {
        let inputs: Arc<[Schema]> = inputs.into_iter().cloned().collect();
        let shapes = Arc::clone(&inputs);
        let operator = move || crate::expand::Expandable::new(Arc::clone(&shapes), factory());
        let model = BoxModel::new(type_name, operator).expanding();
        let model = inputs.iter().fold(model, BoxModel::input);
        outputs.into_iter().fold(model, BoxModel::output)
    }
}

impl ModelBuilder {
    /// Adds an [expandable box](BoxModel::expandable).
    pub fn expandable<'s, D>(
        &mut self,
        type_name: impl Into<std::borrow::Cow<'static, str>>,
        inputs: impl IntoIterator<Item = &'s Schema>,
        outputs: impl IntoIterator<Item = &'s Schema>,
        factory: impl Fn() -> D + Send + Sync + 'static,
    ) -> BoxId
    where
        D: FnMut(&Arrivals<'_>) -> Result<Expansion, BoxError> + Send + 'static,
    {
        self.add(BoxModel::expandable(type_name, inputs, outputs, factory))
    }
}

impl Fragment {
    /// The operator of the box that forwards envelopes to those that read the inputs.
    pub(crate) fn entry(&self, forward: Forward) -> Forward {
        if self.0.has_sources { forward.with_start() } else { forward }
    }
}
