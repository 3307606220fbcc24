//! A recorded run, carried out again by the flow protocol itself in virtual time.
//!
//! The boxes are live: models, vias with their bounds, states, refusals and pills are those of core/flow. The effect of
//! a box's code comes from the trace: the work of its rows, its envelopes after a number of taken ones, and its reads
//! from a store (`script.rs`). The plan, the threads and the machine decide anew which of its envelopes a box finds,
//! and so how often it is invoked.
//!
//! A task's kind follows from its box's kept envelopes of the moment, as on threads; a replay's tasks have the recorded
//! kinds. The recorded kinds also identify the types of boxes that look rows up. An envelope's weight is the mean of
//! its output's envelopes.
//!
//! Envelopes lie in blocks of threads' heaps, parts of the store have homes, and boxes' states are memory, as in a
//! replay ([`Replay`](crate::Replay)).
//!
//! A box takes everything there, one envelope of each input. If the trace has seen a type of boxes leave an envelope at
//! an input, such as a join waiting for its table, boxes of this type take in the recorded order. A box with a choice
//! of outputs by their room repeats the recorded choice. No box closes an input and no pill ends the request: it is
//! over when each box has done all its recorded acts. So the work is the recorded work, also if readers had enough
//! early; envelopes they no longer took are dropped.

mod script;
mod stage;

use crate::engine::perform;
use crate::layout::{Layout, StateIn, StatePart};
use crate::recorded::{Envelope, HANDS_OUT, Invocation, Recorded, title};
use crate::replay::state;
use crate::{ArraySpec, Machine, ReplayError, ReplayOptions, SimError, SimOptions, SimOutcome};
use script::{Act, Cost, Script, Via};
pub(crate) use stage::{Acting, Flow, Next, Stage};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use vicus_flow::{Bound, BoxCounts, BoxError, BoxModel, Model, ModelBuilder, Schema, Turn, Type};
use vicus_schedule::Plan;
use vicus_trace::{BoxInfo, InputSource, ModelInfo, Trace};

/// A model of more boxes is a mistake.
const BOXES: usize = 1 << 14;

/// An envelope of more rows is a mistake.
const ROWS: u32 = 1 << 24;

/// The most columns for an envelope's bytes under a via's bound.
const COLUMNS: u64 = 64;

/// Recorded requests, ready to be re-enacted.
pub struct Reenactment {
    /// A name for people.
    pub name: String,
    /// The sum of all invocations' durations in the trace, in nanoseconds, for each copy once.
    pub recorded_ns: f64,
    /// The part of it subtracted as time for memory.
    pub taken_off_ns: f64,
    /// The invocations in the trace, for each copy once.
    pub invocations: u64,
    pub(crate) copies: usize,
    pub(crate) flows: Vec<Flow>,
    pub(crate) envelopes: Arc<Vec<Envelope>>,
    pub(crate) layout: Layout,
    pub(crate) leaves: Vec<String>,
}

impl fmt::Debug for Reenactment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reenactment").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The results of a re-enactment besides times and bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reenacted {
    /// The recorded time of the repeated work, in nanoseconds: [`Reenactment::recorded_ns`], except for rounding.
    pub work_ns: f64,
    /// Invocations of boxes.
    pub invocations: u64,
    /// The invocations with user code.
    pub acts: u64,
    /// By copy and request, its number in the trace, and the counts of each of its boxes.
    pub requests: Vec<(u32, Vec<BoxCounts>)>,
}

impl Reenactment {
    /// Reads its boxes' acts from a trace.
    ///
    /// # Errors
    /// See [`ReplayError`]. The requests must have ended.
    pub fn of(trace: &Trace, options: &ReplayOptions) -> Result<Reenactment, ReplayError> {
        let recorded = Recorded::of(trace, &options.requests)?;
        let events: usize = trace.logs().iter().map(|log| log.events.len()).sum();
        let requests = recorded.requests();
        let of_request = |request: u32| recorded.model(request).map_or(0, |model| model.boxes.len());
        let boxes: usize = requests.iter().map(|&request| of_request(request)).fold(0, usize::saturating_add);
        if let Some(&request) = requests.first().filter(|_| boxes > events) {
            let expected =
                format!("its model and others to have {events} boxes at most, one for each event, not {boxes}");
            return Err(ReplayError::Request { request, expected });
        }
        let invocations = (0..recorded.tasks.len()).filter(|&task| recorded.tasks[task].from_ns.is_some());
        let (mut count, mut cost) = (0, Cost::default());
        for task in invocations {
            count += 1;
            let invocation = &recorded.tasks[task];
            let state = state(&recorded, task, options.state_bytes_per_row);
            cost.add(cost_of(&recorded, invocation, &state, options), 1.0);
        }
        let mut store = 0;
        let flows: Result<Vec<Flow>, ReplayError> =
            requests.iter().map(|&request| flow(&recorded, request, options, &mut store)).collect();
        let copies = options.copies;
        Ok(Reenactment {
            name: title("re-enactment", trace),
            recorded_ns: cost.recorded * copies as f64,
            taken_off_ns: cost.memory * copies as f64,
            invocations: count * copies as u64,
            copies,
            flows: flows?,
            layout: Layout::new(&recorded, copies, &options.store),
            envelopes: Arc::new(recorded.envelopes),
            leaves: recorded.leaves,
        })
    }

    /// Re-enacts it on a machine under a plan. `watch` is called now and then with the number of finished invocations,
    /// and returns whether to go on.
    ///
    /// # Errors
    /// See [`SimError`].
    pub fn simulate(
        &self,
        machine: &Machine,
        plan: &Plan,
        options: &SimOptions,
        watch: &mut dyn FnMut(usize) -> bool,
    ) -> Result<(SimOutcome, Reenacted), SimError> {
        perform(machine, plan, self, options, watch)
    }

    pub(crate) fn arrays(&self) -> Vec<ArraySpec> {
        self.layout.arrays.clone()
    }

    /// By array of a heap, how often its envelope is taken, read as a part of a state, and returned.
    pub(crate) fn readers(&self) -> Vec<u32> {
        let mut readers = vec![0; self.envelopes.len()];
        for flow in &self.flows {
            for via in flow.scripts.iter().flat_map(|script| &script.inputs) {
                let sent = &flow.scripts[via.from.0].outputs[via.from.1];
                let taken = sent.iter().take(via.takes).enumerate();
                let read = taken.filter(|(place, _)| via.kept.binary_search(place).is_err());
                read.for_each(|(_, &envelope)| readers[envelope] += 1);
            }
            for part in flow.scripts.iter().flat_map(|script| &script.acts).flat_map(|act| &act.state) {
                if let StateIn::Envelope(envelope) = part.within {
                    readers[envelope] += 1;
                }
            }
        }
        self.layout.of_envelopes(&readers)
    }

    /// Whether a box hands out parts of a range, with their places, for other boxes to read.
    pub(crate) fn hands_out(&self, script: &Script) -> bool {
        self.leaves[script.leaf] == HANDS_OUT
    }
}

/// The time of an invocation, and its part for memory.
fn cost_of(recorded: &Recorded<'_>, invocation: &Invocation, state: &[StatePart], options: &ReplayOptions) -> Cost {
    let taken = invocation.takes.iter().filter(|taken| !taken.kept).filter_map(|taken| taken.envelope);
    let envelopes = taken.chain(invocation.makes.iter().map(|made| made.envelope));
    let bytes: u64 = envelopes.map(|envelope| recorded.envelopes[envelope].bytes).sum();
    let kept: u64 = state.iter().map(|part| part.range.end - part.range.start).sum();
    let duration = invocation.duration_ns as f64;
    Cost { recorded: duration, memory: ((bytes + kept + invocation.reads) as f64 / options.bytes_per_ns).min(duration) }
}

/// A request's model, and its boxes' scripts. `store` is the beginning of their reads.
fn flow(recorded: &Recorded<'_>, request: u32, options: &ReplayOptions, store: &mut u64) -> Result<Flow, ReplayError> {
    let error = |expected: String| ReplayError::Request { request, expected };
    if recorded.ended.get(&request) != Some(&vicus_trace::RequestOutcome::Done) {
        return Err(error("to have come to its end, done, before the trace ends".to_owned()));
    }
    let model = recorded.model(request).ok_or_else(|| error("a model in the trace's header".to_owned()))?;
    // Boxes of fragments come behind the last box of the model.
    let is_last = |info: &BoxInfo| info.type_name == "termination";
    if !model.boxes.last().is_some_and(is_last) && model.boxes.iter().any(is_last) {
        return Err(ReplayError::Grown { request });
    }
    if !(2..=BOXES).contains(&model.boxes.len()) {
        return Err(error(format!("a model of 2 to {BOXES} boxes, not of {}", model.boxes.len())));
    }
    let outputs = outputs(model).map_err(error)?;
    let mut scripts: Vec<Script> = Vec::new();
    for (index, info) in model.boxes.iter().enumerate() {
        let sent = |output| recorded.sent(request, InputSource { index: index as u32, output }).to_vec();
        let via = |source: &InputSource| Via {
            from: (source.index as usize, source.output.into()),
            takes: 0,
            kept: Vec::new(),
        };
        let inputs = info.inputs.iter().map(via).collect();
        scripts.push(Script { inputs, outputs: (0..outputs[index]).map(sent).collect(), ..Script::default() });
    }
    for (index, sent) in scripts.iter().enumerate() {
        check_sent(recorded, sent).map_err(|expected| error(format!("of box {index} {expected}")))?;
    }
    write(recorded, request, options, &mut scripts)?;
    for act in scripts.iter_mut().flat_map(|script| &mut script.acts) {
        act.store.0 = *store;
        *store += act.store.1;
    }
    let model = build(recorded, model, &scripts).map_err(error)?;
    Ok(Flow { request, model, scripts: Arc::new(scripts) })
}

/// The number of each box's outputs, each of them with a reader.
fn outputs(model: &ModelInfo) -> Result<Vec<u16>, String> {
    let read: BTreeSet<InputSource> = model.boxes.iter().flat_map(|info| &info.inputs).copied().collect();
    let mut outputs = vec![0; model.boxes.len()];
    for InputSource { index, output } in read {
        match outputs.get_mut(index as usize) {
            Some(count) if *count == output && output < u16::MAX => *count += 1,
            _ => return Err(format!("a reader of each output that box {index} has below {output}")),
        }
    }
    Ok(outputs)
}

/// Checks the envelopes sent by a box. An error states the expectation.
fn check_sent(recorded: &Recorded<'_>, script: &Script) -> Result<(), String> {
    for (output, sent) in script.outputs.iter().enumerate() {
        let envelopes = || sent.iter().map(|&envelope| recorded.envelopes[envelope]);
        if let Some(large) = envelopes().find(|envelope| envelope.rows > ROWS) {
            return Err(format!("envelopes of {ROWS} rows at most, not of {}", large.rows));
        }
        if envelopes().rev().skip(1).any(|envelope| envelope.pill) {
            return Err(format!("to send nothing on output {output} after the end of the stream"));
        }
    }
    Ok(())
}

/// Writes the boxes' scripts, invocation by invocation.
fn write(
    recorded: &Recorded<'_>,
    request: u32,
    options: &ReplayOptions,
    scripts: &mut [Script],
) -> Result<(), ReplayError> {
    let mut at = vec![0u64; scripts.len()];
    let mut orders: Vec<Vec<u16>> = vec![Vec::new(); scripts.len()];
    let of_request = |(_, task): &(usize, &Invocation)| task.request == request && task.from_ns.is_some();
    for (task, invocation) in recorded.tasks.iter().enumerate().filter(of_request) {
        let index = invocation.index as usize;
        let script = &mut scripts[index];
        script.leaf = invocation.leaf;
        for taken in &invocation.takes {
            let envelope = taken.envelope.ok_or_else(|| {
                ReplayError::odd(taken.at, "an input that there is, and that an envelope is sent before it is taken")
            })?;
            let via = &mut script.inputs[usize::from(taken.input)];
            via.takes += 1;
            if taken.kept {
                via.kept.push(via.takes - 1);
            }
            orders[index].push(taken.input);
            at[index] += 1 + u64::from(recorded.envelopes[envelope].rows);
        }
        if let Some(made) = invocation.makes.iter().find(|made| usize::from(made.output) >= script.outputs.len()) {
            let expected = format!("box {index} with a reader of its output {}", made.output);
            return Err(ReplayError::Request { request, expected });
        }
        let state = state(recorded, task, options.state_bytes_per_row);
        let cost = cost_of(recorded, invocation, &state, options);
        let keeps = invocation.held.1 + recorded.kept(invocation).last().map_or(0, |kept| kept.end);
        add_act(
            script,
            Act { at: at[index], cost, store: (0, invocation.reads), state, keeps, makes: invocation.makes.clone() },
        );
    }
    for (script, order) in scripts.iter_mut().zip(orders) {
        let chooses = script.inputs.len() > 1 && recorded.leaves_heads[script.leaf];
        script.order = chooses.then_some(order);
        // The box has only invocations without effect.
        if script.acts.len() == 1 && script.acts[0].at == 0 && script.acts[0].makes.is_empty() {
            script.idle = script.acts.pop().expect("it has one").cost;
        }
    }
    Ok(())
}

/// Adds an invocation. One without taken or sent envelopes becomes part of the one before, or, if it is the first, of
/// the next one.
fn add_act(script: &mut Script, act: Act) {
    let before = script.acts.last().map_or(0, |act| act.at);
    let alone = script.acts.len() == 1 && script.acts[0].at == 0 && script.acts[0].makes.is_empty();
    match script.acts.last_mut() {
        Some(last) if alone || (act.at == before && act.makes.is_empty()) => {
            last.cost.add(act.cost, 1.0);
            last.store.1 += act.store.1;
            last.at = act.at;
            last.state.extend(act.state);
            last.keeps = act.keeps;
            last.makes.extend(act.makes);
        }
        _ => script.acts.push(act),
    }
}

/// A model of these boxes. Their operators come with each instance.
fn build(recorded: &Recorded<'_>, info: &ModelInfo, scripts: &[Script]) -> Result<Arc<Model>, String> {
    let mut net = ModelBuilder::new(&info.name);
    // One invocation may send the envelopes of several recorded ones here.
    net.outbox_bytes(u64::MAX);
    let last = info.boxes.len() - 1;
    let (inner, termination) = (&info.boxes[1..last], &info.boxes[last]);
    let mut ids = vec![net.start().sender()];
    for (info, script) in inner.iter().zip(&scripts[1..last]) {
        let operator =
            || |_: &mut Turn<'_>| -> Result<(), BoxError> { unreachable!("each instance brings its own operators") };
        let model =
            (0..info.inputs.len()).fold(BoxModel::new(info.type_name.clone(), operator), |model, _| model.any_input());
        let schemas = script.outputs.iter().map(|sent| schema(recorded, sent));
        ids.push(net.add(schemas.fold(model, |model, schema| model.output(&schema))));
    }
    if !info.boxes[0].inputs.is_empty() || !scripts[last].outputs.is_empty() {
        return Err("a first box that reads nothing, and a last one without readers".to_owned());
    }
    let output = |source: &InputSource| ids[source.index as usize].output(source.output.into());
    let sent = |source: &InputSource| scripts[source.index as usize].outputs[usize::from(source.output)].len();
    for (at, info) in inner.iter().enumerate() {
        for (input, source) in info.inputs.iter().enumerate() {
            let bound = bound(info.bounds.get(input), sent(source));
            net.connect(output(source), ids[at + 1].input(input)).bound(bound);
        }
    }
    termination.inputs.iter().for_each(|source| net.end(output(source)));
    let most = termination.inputs.iter().map(sent).max().unwrap_or(0);
    net.default_bound(bound(termination.bounds.first(), most));
    net.build().map_err(|error| format!("a network: {error}"))
}

/// The recorded bound of an input. It needs no room for more envelopes than came.
fn bound(recorded: Option<&vicus_trace::ViaBound>, sent: usize) -> Bound {
    let recorded = recorded
        .map_or(Bound::default(), |bound| Bound { envelopes: (bound.envelopes as usize).max(1), bytes: bound.bytes });
    Bound { envelopes: recorded.envelopes.min(sent.max(1)), ..recorded }
}

/// A schema that makes a row of an output's envelopes as large as it was, in words.
fn schema(recorded: &Recorded<'_>, sent: &[usize]) -> Schema {
    let envelopes = || sent.iter().map(|&envelope| recorded.envelopes[envelope]);
    let rows: u64 = envelopes().map(|envelope| u64::from(envelope.rows)).sum();
    let bytes: u64 = envelopes().map(|envelope| envelope.bytes).sum();
    let columns = if rows == 0 { 0 } else { (bytes + 4 * rows) / (8 * rows) };
    Schema::new((0..columns.min(COLUMNS)).map(|column| (column.to_string(), Type::U64)))
}
