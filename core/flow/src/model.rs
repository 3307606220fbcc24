//! The model: the boxes and the vias between them. Immutable once built; any number of instances at once.
//!
//! Bobox report 2011/1, §3.1–3.2. Our vias are links, not tasks: an output delivers straight into its receivers'
//! buffers. This saves an invocation per envelope and loses nothing, since a via runs no user code.

mod fragment;
mod part;

use crate::{Bound, BoxError, Operator, Schema, Turn};
pub use fragment::{Fragment, FragmentBuilder};
pub use part::{CrossingEnds, ModelCrossing, ModelLinks, ModelPart};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use vicus_topology::NodeId;

type Factory = dyn Fn() -> std::boxed::Box<dyn Operator> + Send + Sync;

/// A box in a model, by its index. The initialization box is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoxId(pub(crate) usize);

impl BoxId {
    /// Its index in [`Model::boxes`].
    pub fn index(self) -> usize {
        self.0
    }

    /// One of its outputs, counted from 0.
    pub fn output(self, output: usize) -> OutputId {
        OutputId { sender: self, output }
    }

    /// One of its inputs, counted from 0.
    pub fn input(self, input: usize) -> InputId {
        InputId { receiver: self, input }
    }
}

/// An output of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputId {
    sender: BoxId,
    output: usize,
}

impl OutputId {
    /// The box.
    pub fn sender(self) -> BoxId {
        self.sender
    }

    /// The output's number, from 0.
    pub fn index(self) -> usize {
        self.output
    }
}

/// An input of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputId {
    receiver: BoxId,
    input: usize,
}

/// A type of box with its parameters: [`ModelBuilder::add`] places boxes of it into a model.
pub struct BoxModel {
    type_name: Cow<'static, str>,
    inputs: SmallVec<[Option<Schema>; 2]>,
    outputs: SmallVec<[Schema; 1]>,
    factory: Arc<Factory>,
    /// See [`BoxModel::takes_all_of`].
    first: SmallVec<[usize; 1]>,
    /// See [`BoxModel::takes_any_input`].
    takes_any: bool,
    /// Whether a fragment may take its place.
    expands: bool,
    /// See [`BoxModel::going_round`].
    rounds: Option<Arc<[Schema]>>,
    /// See [`BoxModel::at`].
    node: Option<NodeId>,
}

impl BoxModel {
    /// A box type. The factory makes the operator of each instance.
    pub fn new<O: Operator + 'static>(
        type_name: impl Into<Cow<'static, str>>,
        factory: impl Fn() -> O + Send + Sync + 'static,
    ) -> BoxModel {
        let factory = Arc::new(move || std::boxed::Box::new(factory()) as std::boxed::Box<dyn Operator>);
        let (inputs, outputs) = (SmallVec::new(), SmallVec::new());
        BoxModel {
            type_name: type_name.into(),
            inputs,
            outputs,
            factory,
            first: SmallVec::new(),
            takes_any: false,
            expands: false,
            rounds: None,
            node: None,
        }
    }

    /// A fragment may take its place.
    pub(crate) fn expanding(mut self) -> BoxModel {
        self.expands = true;
        self
    }

    /// The box has fragments made beside it, one after the other, with these inputs: behind its own outputs it has
    /// one for each of them, and behind its own inputs one for the fragment's only output.
    pub(crate) fn going_round(mut self, inputs: &[Schema]) -> BoxModel {
        self.rounds = Some(inputs.into());
        self
    }

    /// An operator of this type, for a request that brings its own operator.
    pub fn operator(&self) -> std::boxed::Box<dyn Operator> {
        (self.factory)()
    }

    /// Adds an input for envelopes of this schema only.
    pub fn input(mut self, schema: &Schema) -> BoxModel {
        self.inputs.push(Some(schema.clone()));
        self
    }

    /// Adds an input for any envelope.
    pub fn any_input(mut self) -> BoxModel {
        self.inputs.push(None);
        self
    }

    /// Declares that the box takes all of an input, counted from 0, before it takes from others or sends anything. A
    /// via that has to wait for it, because its rows come from the same box by another branch, then holds more than its
    /// bound as soon as it is full, instead of when nothing else of the request can be done.
    ///
    /// ```
    /// use vicus_flow::{BoxError, BoxModel, Schema, Turn, Type};
    ///
    /// let schema = Schema::new([("n", Type::U64)]);
    /// let act = || |turn: &mut Turn<'_>| -> Result<(), BoxError> {
    ///     if turn.take(0).is_some_and(|envelope| envelope.is_pill()) {
    ///         turn.send_pill(0);
    ///     }
    ///     Ok(())
    /// };
    /// let drain = BoxModel::new("drain", act).input(&schema).output(&schema).takes_all_of(0);
    /// # let _ = drain;
    /// ```
    pub fn takes_all_of(mut self, input: usize) -> BoxModel {
        if !self.first.contains(&input) {
            self.first.push(input);
        }
        self
    }

    /// How many inputs it has so far.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Declares that the box takes what comes on any input: no via to it has to wait for another branch, and each keeps
    /// its bound. Without this, an input beside one whose rows come late, behind a box that
    /// [takes all first](BoxModel::takes_all_of), holds more as soon as it is full. A box that sends nothing before it
    /// has taken all of several inputs, in any order, declares both.
    ///
    /// ```
    /// use vicus_flow::{BoxError, BoxModel, Schema, Turn, Type};
    ///
    /// let schema = Schema::new([("n", Type::U64)]);
    /// let act = || |turn: &mut Turn<'_>| -> Result<(), BoxError> {
    ///     for input in 0..2 {
    ///         turn.take(input).into_iter().filter(|one| !one.is_pill()).for_each(|one| turn.send(0, one));
    ///     }
    ///     Ok(())
    /// };
    /// let both = BoxModel::new("both", act).input(&schema).input(&schema).output(&schema).takes_any_input();
    /// assert_eq!(both.inputs(), 2);
    /// ```
    pub fn takes_any_input(mut self) -> BoxModel {
        self.takes_any = true;
        self
    }

    /// The node that runs the box: a world queues it there, whoever sends to it. Seats of other nodes run it only if
    /// they have nothing to do and their strategy takes from that node. For replicas of a box with data of their own
    /// on each node.
    ///
    /// ```
    /// use vicus_flow::{Schema, Type, library};
    /// use vicus_topology::NodeId;
    ///
    /// let schema = Schema::new([("n", Type::U64)]);
    /// let sorts = [0, 1].map(|node| library::hold(&schema).at(NodeId::new(node)));
    /// # let _ = sorts;
    /// ```
    pub fn at(self, node: NodeId) -> BoxModel {
        BoxModel { node: Some(node), ..self }
    }

    /// Adds an output.
    pub fn output(mut self, schema: &Schema) -> BoxModel {
        self.outputs.push(schema.clone());
        self
    }
}

/// One link of a via: from an output to one receiver.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) receiver: BoxId,
    pub(crate) input: usize,
    pub(crate) bound: Bound,
    /// The columns copied for this receiver alone (the report's `priv`, §4.3).
    pub(crate) private: Vec<usize>,
    /// The receiver waits for another branch of the same rows first: see [`BoxModel::takes_all_of`].
    pub(crate) waits_long: bool,
    /// See [`LinkOptions::keep_newest`].
    pub(crate) keeps_newest: bool,
}

/// The receivers of an output, usually one.
pub(crate) type Links = SmallVec<[Link; 1]>;

/// A box of a model.
pub struct ConnectedBox {
    type_name: Cow<'static, str>,
    /// Its number among those of its type, from 1 on.
    number: usize,
    /// Its name with this number, made at its first use.
    numbered: OnceLock<String>,
    pub(crate) factory: Arc<Factory>,
    /// For each input, the sending output and the bound.
    pub(crate) inputs: SmallVec<[(OutputId, Bound); 2]>,
    /// The inputs that keep the newest envelopes.
    pub(crate) newest: Vec<usize>,
    pub(crate) outputs: SmallVec<[(Schema, Links); 1]>,
    /// The inputs of fragments made beside it; see [`BoxModel::going_round`].
    pub(crate) rounds: Option<Arc<[Schema]>>,
    /// Whether a fragment may take its place.
    pub(crate) expands: bool,
    pub(crate) node: Option<NodeId>,
}

impl ConnectedBox {
    /// Its name, unique in the model.
    pub fn name(&self) -> &str {
        match self.number {
            1 => &self.type_name,
            number => self.numbered.get_or_init(|| format!("{}#{number}", self.type_name)),
        }
    }

    /// Its type's name.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// The node that runs it, if its model says so ([`BoxModel::at`]).
    pub fn node(&self) -> Option<NodeId> {
        self.node
    }

    /// The receivers of each output, with the output's schema.
    pub fn outputs(&self) -> impl Iterator<Item = (&Schema, Vec<InputId>)> {
        self.outputs
            .iter()
            .map(|(schema, links)| (schema, links.iter().map(|link| link.receiver.input(link.input)).collect()))
    }

    /// For each input, its sender and the number of the sender's output.
    pub fn sources(&self) -> impl Iterator<Item = (BoxId, usize)> {
        self.inputs.iter().map(|(from, _)| (from.sender, from.output))
    }

    /// The bound of each input: how much it holds.
    pub fn bounds(&self) -> impl Iterator<Item = Bound> {
        self.inputs.iter().map(|(_, bound)| *bound)
    }

    /// The sender of each input.
    pub fn senders(&self) -> impl Iterator<Item = BoxId> {
        self.inputs.iter().map(|(from, _)| from.sender)
    }
}

/// A checked network of boxes and vias.
///
/// Invariant: box 0 is the initialization box and the last one the termination box; every box lies on a path from the
/// one to the other, every input has one sender and every output a receiver, schemas agree, and there is no cycle.
pub struct Model {
    pub(crate) name: String,
    pub(crate) boxes: Vec<ConnectedBox>,
    /// See [`ModelBuilder::outbox_bytes`].
    pub(crate) outbox_bytes: u64,
    /// Whether fragments may take the place of boxes.
    pub(crate) grows: bool,
}

impl Model {
    /// The name the model was built with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its boxes, the initialization box first and the termination box last.
    pub fn boxes(&self) -> &[ConnectedBox] {
        &self.boxes
    }

    /// The box at this place in [`Model::boxes`]. Panics if there are fewer boxes.
    pub fn box_id(&self, index: usize) -> BoxId {
        assert!(index < self.boxes.len(), "the model has {} boxes", self.boxes.len());
        BoxId(index)
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The network, one via a line: `sequence.0 (value: I64) -> increment.0`.
impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "model {}", self.name)?;
        for sender in &self.boxes {
            for (output, (schema, links)) in sender.outputs.iter().enumerate() {
                let to = |link: &Link| format!("{}.{}", self.boxes[link.receiver.0].name(), link.input);
                let receivers = links.iter().map(to).collect::<Vec<_>>().join(", ");
                writeln!(f, "{}.{output} {schema} -> {receivers}", sender.name())?;
            }
        }
        Ok(())
    }
}

/// Why a network is not a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelError {
    /// An input has no sender.
    InputOpen {
        /// The box and its input.
        input: String,
    },
    /// An input has two senders.
    InputTaken {
        /// The box and its input.
        input: String,
    },
    /// An output has no receiver, so its path does not lead to the termination box.
    OutputOpen {
        /// The box and its output.
        output: String,
    },
    /// A box has no input and would never start, or no output and would never end.
    NotOnAPath {
        /// The box.
        name: String,
    },
    /// A box has no such input or output.
    NoSuchPort {
        /// The box and the port.
        port: String,
    },
    /// The sender's schema is not the receiver's.
    Schema {
        /// The sender's output and its schema.
        from: String,
        /// The receiver's input and its schema.
        to: String,
    },
    /// Envelopes would go round in a cycle.
    Cycle {
        /// The boxes on the cycle.
        boxes: Vec<String>,
    },
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelError::InputOpen { input } => write!(f, "{input} has no sender: connect an output to it"),
            ModelError::InputTaken { input } => write!(f, "{input} has two senders: an input reads one via"),
            ModelError::OutputOpen { output } => {
                write!(f, "{output} has no receiver: every path must lead to the termination box")
            }
            ModelError::NotOnAPath { name } => {
                write!(f, "box {name} is not on a path from the initialization box to the termination box")
            }
            ModelError::NoSuchPort { port } => write!(f, "there is no {port}"),
            ModelError::Schema { from, to } => write!(f, "{from} does not fit {to}"),
            ModelError::Cycle { boxes } => write!(f, "envelopes would go round: {}", boxes.join(" -> ")),
        }
    }
}

impl std::error::Error for ModelError {}

/// Puts a model together. Mistakes are kept and reported by [`ModelBuilder::build`].
///
/// ```
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library};
///
/// let schema = Schema::new([("n", Type::U64)]);
/// let mut net = ModelBuilder::new("three numbers");
/// let numbers = net.source(library::source("numbers", &schema, || [Envelope::new([vec![1u64, 2, 3].into()])]));
/// net.end(numbers.output(0));
/// let model = net.build().unwrap();
/// assert_eq!(model.boxes().len(), 3); // with initialization and termination
/// ```
pub struct ModelBuilder {
    name: String,
    /// Each box with its number among the boxes of its type.
    boxes: Vec<(usize, BoxModel)>,
    /// How many boxes of each type there are.
    types: BTreeMap<Cow<'static, str>, usize>,
    links: Vec<(OutputId, Link)>,
    /// The output that starts boxes.
    start: OutputId,
    /// Outputs to the termination box; that box is made last.
    ends: Vec<OutputId>,
    bound: Bound,
    outbox_bytes: u64,
}

/// How many bytes one invocation may send, unless [`ModelBuilder::outbox_bytes`] says otherwise.
const OUTBOX_BYTES: u64 = 256 << 20;

/// The options of a link just made by [`ModelBuilder::connect`].
pub struct LinkOptions<'a>(&'a mut Link);

impl LinkOptions<'_> {
    /// How much the receiver's input holds before it refuses.
    pub fn bound(self, bound: Bound) -> Self {
        self.0.bound = bound;
        self
    }

    /// The sender is never refused: when the input is full, the oldest envelopes are dropped and counted
    /// ([`OutputCounts::dropped_rows`](crate::OutputCounts::dropped_rows)), but for marks and the pill. With a bound of
    /// one envelope it keeps the newest only. For streams whose old rows nobody needs, such as measured values.
    ///
    /// ```
    /// use vicus_flow::{Bound, Envelope, ModelBuilder, Schema, Type, library, sequential};
    ///
    /// let schema = Schema::new([("n", Type::U64)]);
    /// let mut net = ModelBuilder::new("the last number");
    /// let rows = || (0..100u64).map(|n| Envelope::new([vec![n].into()]));
    /// let numbers = net.source(library::source("numbers", &schema, rows));
    /// let (send, receive) = std::sync::mpsc::channel();
    /// let end = net.add(library::sink("end", &schema, move |rows| Ok(send.send(rows.column(0).u64s()[0])?)));
    /// net.connect(numbers.output(0), end.input(0)).bound(Bound { envelopes: 1, ..Bound::default() }).keep_newest();
    /// net.end(end.output(0));
    /// let model = net.build().unwrap();
    /// // The reader runs when nothing else does.
    /// let (_, counts) = sequential::run_counted(&model, Vec::new(), |_| Some(0));
    /// let seen: Vec<u64> = receive.try_iter().collect();
    /// assert_eq!(seen.last(), Some(&99));
    /// assert_eq!(seen.len() as u64 + counts[1].outputs[0].dropped_rows, 100);
    /// ```
    pub fn keep_newest(self) -> Self {
        self.0.keeps_newest = true;
        self
    }

    /// The link holds more as soon as it is full, booked to the request's budget and then in temporary files, in place
    /// of holding its sender up until all boxes wait. For links on a way that another one meets again where nobody
    /// sees the whole circle, such as over several processes.
    pub fn widen_when_full(self) -> Self {
        self.0.waits_long = true;
        self
    }

    /// The receiver gets its own copies of these columns (Bobox report §4.3), so it can change them in place.
    pub fn private(self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.0.private.extend(columns);
        self
    }
}

impl ModelBuilder {
    /// A network with an initialization box and no other.
    pub fn new(name: impl Into<String>) -> ModelBuilder {
        let start = || {
            |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                turn.send_pill(0);
                Ok(())
            }
        };
        let first = BoxModel::new("initialization", start).output(&Schema::none());
        ModelBuilder {
            name: name.into(),
            boxes: vec![(1, first)],
            types: BTreeMap::from([("initialization".into(), 1)]),
            links: Vec::new(),
            start: BoxId(0).output(0),
            ends: Vec::new(),
            bound: Bound::default(),
            outbox_bytes: OUTBOX_BYTES,
        }
    }

    /// How many bytes one invocation of a box may send, not counting the first envelope on each output; by default 256
    /// MiB. Sent envelopes stay in memory until the receivers take them, so a box that sends more without having asked
    /// for room fails its request: see [`Turn::send`].
    pub fn outbox_bytes(&mut self, bytes: u64) {
        self.outbox_bytes = bytes;
    }

    /// Sets the bound of links made after this call.
    pub fn default_bound(&mut self, bound: Bound) {
        self.bound = bound;
    }

    /// The output of the initialization box: it sends one poisoned pill to each receiver.
    pub fn start(&self) -> OutputId {
        self.start
    }

    /// Adds a box. Its name is its type's, followed by a number from the second box of this type on.
    pub fn add(&mut self, model: BoxModel) -> BoxId {
        let several = match self.types.get_mut(&model.type_name) {
            Some(several) => several,
            None => self.types.entry(model.type_name.clone()).or_default(),
        };
        *several += 1;
        self.boxes.push((*several, model));
        BoxId(self.boxes.len() - 1)
    }

    /// How many boxes there are so far, the initialization box among them.
    pub fn len(&self) -> usize {
        self.boxes.len()
    }

    /// Never: there is an initialization box.
    pub fn is_empty(&self) -> bool {
        self.boxes.is_empty()
    }

    /// Adds a box that starts by itself: its first input is the initialization box's pill.
    pub fn source(&mut self, mut model: BoxModel) -> BoxId {
        model.inputs.insert(0, None);
        model.first.iter_mut().for_each(|input| *input += 1);
        let source = self.add(model);
        self.connect(self.start(), source.input(0));
        source
    }

    /// Connects an output with an input. An output may have several receivers; they share its columns.
    pub fn connect(&mut self, from: OutputId, to: InputId) -> LinkOptions<'_> {
        let (bound, private) = (self.bound, Vec::new());
        let link =
            Link { receiver: to.receiver, input: to.input, bound, private, waits_long: false, keeps_newest: false };
        self.links.push((from, link));
        LinkOptions(&mut self.links.last_mut().expect("it was just put").1)
    }

    /// How many links there are so far.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// Changes a link made before, by its number from 0: for links that another function has made. Gives its output.
    /// Panics if there are fewer.
    pub fn link(&mut self, number: usize) -> (OutputId, LinkOptions<'_>) {
        let (from, link) = &mut self.links[number];
        (*from, LinkOptions(link))
    }

    /// Connects an output with the termination box. The request ends when a pill has come from each such output.
    pub fn end(&mut self, from: OutputId) {
        self.ends.push(from);
    }

    /// Has the node of this number run the boxes added behind so many others ([`ModelBuilder::len`]), as
    /// [`BoxModel::at`] does: for boxes that another function has added.
    ///
    /// ```
    /// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library};
    /// use vicus_topology::NodeId;
    ///
    /// let schema = Schema::new([("n", Type::U64)]);
    /// let mut net = ModelBuilder::new("none");
    /// let before = net.len();
    /// let none = net.source(library::source("none", &schema, || std::iter::empty::<Envelope>()));
    /// net.place_behind(before, 1);
    /// net.end(none.output(0));
    /// assert_eq!(net.build()?.boxes()[none.index()].node(), Some(NodeId::new(1)));
    /// # Ok::<(), vicus_flow::ModelError>(())
    /// ```
    pub fn place_behind(&mut self, boxes: usize, node: usize) {
        let node = NodeId::new(node);
        self.boxes.iter_mut().skip(boxes).for_each(|(_, model)| model.node = Some(node));
    }

    /// Declares that a box added before takes all of an input first, as [`BoxModel::takes_all_of`] does.
    ///
    /// # Panics
    /// There is no such box.
    pub fn takes_all_of(&mut self, input: InputId) {
        let first = &mut self.boxes[input.receiver.0].1.first;
        if !first.contains(&input.input) {
            first.push(input.input);
        }
    }

    /// Checks the network.
    ///
    /// # Errors
    /// The first mistake found; see [`ModelError`].
    pub fn build(self) -> Result<Arc<Model>, ModelError> {
        let all = self.ends.len();
        let last = BoxModel::new("termination", move || Termination { pills: 0, all });
        self.assemble(last).map(Arc::new)
    }

    /// Checks the network, with a last box that has an input for each [end](ModelBuilder::end).
    fn assemble(mut self, mut last: BoxModel) -> Result<Model, ModelError> {
        last.inputs = smallvec![None; self.ends.len()];
        self.boxes.push((1, last));
        let termination = BoxId(self.boxes.len() - 1);
        for (input, from) in std::mem::take(&mut self.ends).into_iter().enumerate() {
            self.connect(from, termination.input(input));
        }

        // The schemas taken by the inputs, needed until all links are checked.
        let mut wanted: Vec<SmallVec<[Option<Schema>; 2]>> = Vec::with_capacity(self.boxes.len());
        let mut boxes: Vec<ConnectedBox> = Vec::with_capacity(self.boxes.len());
        let mut first: Vec<SmallVec<[usize; 1]>> = Vec::with_capacity(self.boxes.len());
        let mut takes_any: Vec<bool> = Vec::with_capacity(self.boxes.len());
        let grows = self.boxes.iter().any(|(_, model)| model.expands || model.rounds.is_some());
        for (number, model) in self.boxes {
            boxes.push(ConnectedBox {
                type_name: model.type_name,
                number,
                numbered: OnceLock::new(),
                factory: model.factory,
                inputs: smallvec![(OPEN, Bound::default()); model.inputs.len()],
                newest: Vec::new(),
                outputs: model.outputs.into_iter().map(|schema| (schema, Links::new())).collect(),
                rounds: model.rounds,
                expands: model.expands,
                node: model.node,
            });
            wanted.push(model.inputs);
            first.push(model.first);
            takes_any.push(model.takes_any);
        }
        for (from, link) in self.links {
            can_join(&boxes, &wanted, from, &link)?;
            let receiver = &mut boxes[link.receiver.0];
            receiver.inputs[link.input] = (from, link.bound);
            receiver.newest.extend(link.keeps_newest.then_some(link.input));
            boxes[from.sender.0].outputs[from.output].1.push(link);
        }
        for (index, one) in boxes.iter().enumerate() {
            if let Some(input) = one.inputs.iter().position(|(from, _)| *from == OPEN) {
                return Err(ModelError::InputOpen { input: format!("input {input} of box {}", one.name()) });
            }
            let on_a_path = index == 0 || !one.inputs.is_empty();
            let leads_on = index == termination.0 || !one.outputs.is_empty();
            if !(on_a_path && leads_on) {
                return Err(ModelError::NotOnAPath { name: one.name().to_owned() });
            }
            if let Some(output) = one.outputs.iter().position(|(_, links)| links.is_empty()) {
                return Err(ModelError::OutputOpen { output: format!("output {output} of box {}", one.name()) });
            }
        }
        for (index, inputs) in first.iter().enumerate() {
            if let Some(input) = inputs.iter().find(|&&input| input >= boxes[index].inputs.len()) {
                return Err(ModelError::NoSuchPort { port: format!("input {input} of box {}", boxes[index].name()) });
            }
        }
        let mut model = Model { name: self.name, boxes, outbox_bytes: self.outbox_bytes, grows };
        model.find_cycle().map_or(Ok(()), |boxes| Err(ModelError::Cycle { boxes }))?;
        // There is no cycle, and each input has a sender and each output a receiver: so every path leads from the first
        // box to the last.
        if first.iter().any(|inputs| !inputs.is_empty()) {
            model.mark_long_waits(&first, &takes_any);
        }
        Ok(model)
    }
}

/// Stands for the sender of an unconnected input.
const OPEN: OutputId = OutputId { sender: BoxId(usize::MAX), output: usize::MAX };

/// Checks that both ends of a link exist, that the input has no sender yet, and that the schemas fit.
fn can_join(
    boxes: &[ConnectedBox],
    wanted: &[SmallVec<[Option<Schema>; 2]>],
    from: OutputId,
    link: &Link,
) -> Result<(), ModelError> {
    let name = |id: BoxId| boxes.get(id.0).map_or("?", ConnectedBox::name);
    let output = || format!("output {} of box {}", from.output, name(from.sender));
    let input = || format!("input {} of box {}", link.input, name(link.receiver));
    let sender = boxes.get(from.sender.0).and_then(|sender| sender.outputs.get(from.output));
    let Some((schema, _)) = sender else { return Err(ModelError::NoSuchPort { port: output() }) };
    match boxes.get(link.receiver.0).and_then(|receiver| receiver.inputs.get(link.input)) {
        None => return Err(ModelError::NoSuchPort { port: input() }),
        Some((OPEN, _)) => {}
        Some(_) => return Err(ModelError::InputTaken { input: input() }),
    }
    if let Some(wanted) = &wanted[link.receiver.0][link.input]
        && !schema.fits(wanted)
    {
        let (from, to) = (format!("{} {schema}", output()), format!("{} {wanted}", input()));
        return Err(ModelError::Schema { from, to });
    }
    if let Some(column) = link.private.iter().find(|&&column| column >= schema.columns().len()) {
        return Err(ModelError::NoSuchPort { port: format!("column {column} of {} {schema}", output()) });
    }
    Ok(())
}

impl Model {
    /// The names of the boxes on some cycle.
    fn find_cycle(&self) -> Option<Vec<String>> {
        // The usual case: each box comes after its senders, so there is no cycle.
        if self.boxes.iter().enumerate().all(|(index, one)| one.senders().all(|sender| sender.0 < index)) {
            return None;
        }
        // A box is done when all its senders are. The remaining boxes lie on a cycle, or get their envelopes from one.
        let mut open: Vec<usize> = self.boxes.iter().map(|b| b.inputs.len()).collect();
        let mut ready: Vec<usize> = (0..self.boxes.len()).filter(|&b| open[b] == 0).collect();
        let mut done = vec![false; self.boxes.len()];
        while let Some(index) = ready.pop() {
            done[index] = true;
            for link in self.boxes[index].outputs.iter().flat_map(|(_, links)| links) {
                open[link.receiver.0] -= 1;
                if open[link.receiver.0] == 0 {
                    ready.push(link.receiver.0);
                }
            }
        }
        // Walk back along unfinished senders until a box repeats: the walk has gone round a cycle.
        let mut at = done.iter().position(|done| !done)?;
        let mut walk = Vec::new();
        while !walk.contains(&at) {
            walk.push(at);
            let open_sender = self.boxes[at].senders().find(|sender| !done[sender.0]);
            at = open_sender.expect("a box that is not done has a sender that is not").0;
        }
        let from = walk.iter().position(|&b| b == at).expect("it repeats");
        Some(walk[from..].iter().rev().map(|&b| self.boxes[b].name().to_owned()).collect())
    }
}

impl Model {
    /// Marks the links whose receiver waits for another branch of the same rows: boxes take all of these inputs first.
    fn mark_long_waits(&mut self, first: &[SmallVec<[usize; 1]>], takes_any: &[bool]) {
        let late = self.late_boxes(first);
        let is_late = |input: &(OutputId, Bound)| late[input.0.sender.0];
        let mut marked = Vec::new();
        let several = self.boxes.iter().enumerate().filter(|(index, one)| one.inputs.len() > 1 && !takes_any[*index]);
        for (index, one) in several {
            let waits_for = |input: usize| first[index].contains(&input) || is_late(&one.inputs[input]);
            let (awaited, waiting): (Vec<usize>, Vec<usize>) =
                (0..one.inputs.len()).partition(|&input| waits_for(input));
            if awaited.is_empty() || waiting.is_empty() {
                continue;
            }
            let sources = self.boxes_before(awaited.iter().map(|&input| one.inputs[input].0.sender.0));
            let meets = |&input: &usize| {
                let before = self.boxes_before([one.inputs[input].0.sender.0].into_iter());
                before.iter().zip(&sources).any(|(a, b)| *a && *b)
            };
            marked.extend(waiting.into_iter().filter(meets).map(|input| (one.inputs[input].0, index, input)));
        }
        for (from, receiver, input) in marked {
            let links = &mut self.boxes[from.sender.0].outputs[from.output].1;
            let link = links.iter_mut().find(|link| (link.receiver.0, link.input) == (receiver, input));
            link.expect("an input has a link").waits_long = true;
        }
    }

    /// The boxes that send nothing before a whole stream has come, to them or to all before them.
    fn late_boxes(&self, first: &[SmallVec<[usize; 1]>]) -> Vec<bool> {
        let mut late: Vec<bool> = first.iter().map(|inputs| !inputs.is_empty()).collect();
        let mut open: Vec<usize> = (0..late.len()).filter(|&index| late[index]).collect();
        while let Some(index) = open.pop() {
            for link in self.boxes[index].outputs.iter().flat_map(|(_, links)| links) {
                let receiver = link.receiver.0;
                let all_late = || self.boxes[receiver].senders().all(|sender| late[sender.0]);
                if !late[receiver] && all_late() {
                    late[receiver] = true;
                    open.push(receiver);
                }
            }
        }
        late
    }

    /// These boxes and all on the way to them, but for the initialization box.
    fn boxes_before(&self, of: impl Iterator<Item = usize>) -> Vec<bool> {
        let mut before = vec![false; self.boxes.len()];
        let mut open: Vec<usize> = of.collect();
        while let Some(index) = open.pop() {
            if index > 0 && !std::mem::replace(&mut before[index], true) {
                open.extend(self.boxes[index].senders().map(|sender| sender.0));
            }
        }
        before
    }
}

/// Ends the request when a pill has come on every input (Bobox report §4.1). Other envelopes are taken and dropped.
struct Termination {
    pills: usize,
    all: usize,
}

impl Operator for Termination {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        for input in 0..turn.inputs() {
            self.pills += usize::from(turn.take(input).is_some_and(|envelope| envelope.is_pill()));
        }
        if self.pills == self.all {
            turn.end_request();
        }
        Ok(())
    }
}
