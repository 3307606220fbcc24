//! Boxes whose place a network takes when the first rows have come.

use crate::instance::{BoxCell, Instance};
use crate::operator::ENVELOPE_BYTES;
use crate::{BoxError, Envelope, Fragment, HeldBytes, Operator, Schema, Turn};
use std::collections::VecDeque;
use std::sync::Arc;

/// The decision of an expandable box's code.
#[derive(Clone, Debug)]
#[must_use = "the box does as it is decided"]
pub enum Expansion {
    /// A fragment takes the place of the box. It takes what has come, and all that comes.
    Become(Fragment),
    /// All envelopes of an input go to the output of the same number. For boxes with as many outputs, of the same
    /// columns.
    PassBy,
    /// The code is asked again when more has come. What has come is kept, booked to the request's budget.
    LookOn,
}

/// The envelopes that have come to an expandable box.
pub struct Arrivals<'a> {
    kept: &'a [VecDeque<Envelope>],
    /// The rows of these, by input.
    rows: &'a [usize],
    heads: Vec<Option<&'a Envelope>>,
    /// The box, and its instance.
    at: (&'a Instance, &'a BoxCell),
}

impl Arrivals<'_> {
    /// The envelopes that have come to an input, in order: those that were kept while the code looked on, and one more.
    /// There may be more behind them.
    pub fn envelopes(&self, input: usize) -> impl Iterator<Item = &Envelope> {
        self.kept[input].iter().chain(self.heads[input]).filter(|envelope| !envelope.is_pill())
    }

    /// How many rows these are.
    pub fn rows(&self, input: usize) -> usize {
        self.rows[input] + self.heads[input].map_or(0, Envelope::rows)
    }

    /// Whether these are all that will come.
    pub fn has_ended(&self, input: usize) -> bool {
        self.kept[input].back().into_iter().chain(self.heads[input]).any(Envelope::is_pill)
    }

    /// How many expandable boxes are around this one.
    pub fn depth(&self) -> u64 {
        let (instance, cell) = self.at;
        instance.depth_of(cell)
    }
}

/// A fragment that is to take the place of a box.
pub(crate) struct Growing {
    pub(crate) fragment: Fragment,
    /// The box of the fragment that is put into the cell of the growing one; `None` if the fragment is made beside it.
    pub(crate) host: Option<usize>,
    /// The operators of its boxes.
    pub(crate) operators: Vec<(usize, std::boxed::Box<dyn Operator>)>,
}

/// The operator of an expandable box until it grows.
pub(crate) struct Expandable<D> {
    inputs: Arc<[Schema]>,
    decide: D,
    /// Taken and not passed on yet, by input.
    kept: Vec<VecDeque<Envelope>>,
    /// Their rows, by input, and the bytes of all.
    rows: Vec<usize>,
    bytes: u64,
    /// The stores among them.
    held: HeldBytes,
    /// Set when it passes by.
    forward: Option<Forward>,
}

impl<D: FnMut(&Arrivals<'_>) -> Result<Expansion, BoxError> + Send> Expandable<D> {
    pub(crate) fn new(inputs: Arc<[Schema]>, decide: D) -> Expandable<D> {
        let kept = inputs.iter().map(|_| VecDeque::new()).collect();
        let rows = vec![0; inputs.len()];
        Expandable { inputs, decide, kept, rows, bytes: 0, held: HeldBytes::default(), forward: None }
    }

    /// Keeps the head of an input, if there is one.
    fn keep(&mut self, turn: &mut Turn<'_>, input: usize) {
        if let Some(head) = turn.take(input) {
            let head = head.compact();
            self.rows[input] += head.rows();
            self.bytes += self.held.add(&head) + ENVELOPE_BYTES;
            self.kept[input].push_back(head);
        }
    }

    fn pass_by(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let mut forward = Forward::new(std::mem::take(&mut self.kept));
        turn.book(0)?;
        forward.act(turn)?;
        self.forward = Some(forward);
        Ok(())
    }

    fn fits(&self, turn: &Turn<'_>) -> bool {
        turn.outputs() == self.inputs.len()
            && self.inputs.iter().enumerate().all(|(input, schema)| schema.fits(turn.schema(input)))
    }

    fn check(&self, fragment: &Fragment, turn: &Turn<'_>) -> Result<(), BoxError> {
        let has: Vec<&Schema> = fragment.outputs().collect();
        if (fragment.inputs().len(), has.len()) != (self.inputs.len(), turn.outputs()) {
            return Err(format!(
                "the fragment {} has {} inputs and {} outputs, and the box {} and {}",
                fragment.name(),
                fragment.inputs().len(),
                has.len(),
                self.inputs.len(),
                turn.outputs()
            )
            .into());
        }
        for (input, (own, wanted)) in self.inputs.iter().zip(fragment.inputs()).enumerate() {
            if !own.fits(wanted) {
                return Err(format!("input {input} {own} does not fit the fragment's, {wanted}").into());
            }
        }
        for (output, made) in has.into_iter().enumerate() {
            let own = turn.schema(output);
            if !made.fits(own) {
                return Err(format!("output {output} of the fragment, {made}, does not fit the box's, {own}").into());
            }
        }
        Ok(())
    }
}

impl<D: FnMut(&Arrivals<'_>) -> Result<Expansion, BoxError> + Send> Operator for Expandable<D> {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if let Some(forward) = &mut self.forward {
            return forward.act(turn);
        }
        let inputs = self.inputs.len();
        // An envelope without rows decides nothing, and may not stand in the way of those with rows.
        for input in 0..inputs {
            if turn.head(input).is_some_and(|head| !head.is_pill() && head.rows() == 0) {
                self.keep(turn, input);
            }
        }
        let heads = (0..inputs).map(|input| turn.head(input)).collect();
        let arrived = Arrivals { kept: &self.kept, rows: &self.rows, heads, at: (turn.instance, turn.cell) };
        let has_ended = (0..inputs).all(|input| arrived.has_ended(input));
        if (0..inputs).all(|input| arrived.rows(input) == 0) {
            if has_ended && self.fits(turn) {
                return self.pass_by(turn);
            }
            if has_ended {
                (0..inputs).for_each(|input| drop(turn.take(input)));
                turn.send_pills();
            }
            return Ok(());
        }
        match (self.decide)(&arrived)? {
            Expansion::PassBy => {
                if !self.fits(turn) {
                    return Err("only a box with the same columns at both ends may be passed by".into());
                }
                self.pass_by(turn)
            }
            Expansion::LookOn => {
                if has_ended {
                    return Err("a box that has seen the end of all inputs can't look on".into());
                }
                for input in 0..inputs {
                    self.keep(turn, input);
                }
                Ok(turn.book(self.bytes)?)
            }
            Expansion::Become(fragment) => {
                self.check(&fragment, turn)?;
                let kept = std::mem::take(&mut self.kept);
                turn.book(0)?;
                turn.expand(fragment, kept);
                Ok(())
            }
        }
    }
}

/// Passes on the envelopes of each input to the output of the same number.
pub(crate) struct Forward {
    /// By input, what goes before all that comes.
    kept: Vec<VecDeque<Envelope>>,
    /// Whether the last output, without an input, gets a pill.
    starts: bool,
}

impl Forward {
    pub(crate) fn new(kept: Vec<VecDeque<Envelope>>) -> Forward {
        Forward { kept, starts: false }
    }

    pub(crate) fn with_start(self) -> Forward {
        Forward { starts: true, ..self }
    }
}

impl Operator for Forward {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if std::mem::take(&mut self.starts) {
            turn.send_pill(turn.outputs() - 1);
        }
        let mut is_left = false;
        for input in 0..turn.inputs() {
            if turn.is_closed(input) {
                // Nobody reads it: its sender may stop.
                self.kept.get_mut(input).into_iter().for_each(VecDeque::clear);
                turn.close(input);
                continue;
            }
            if let Some(kept) = self.kept.get_mut(input) {
                while !kept.is_empty() && turn.ask_room(input) {
                    turn.send(input, kept.pop_front().expect("it is there"));
                }
                if !kept.is_empty() {
                    is_left = true;
                    continue;
                }
            }
            if let Some(envelope) = turn.take(input) {
                turn.send(input, envelope);
            }
        }
        if is_left {
            turn.run_again();
        }
        Ok(())
    }
}

impl Turn<'_> {
    /// Lets a fragment take the place of this box, which has sent nothing, when the invocation is over. The fragment
    /// takes first what was kept.
    pub(crate) fn expand(&mut self, fragment: Fragment, kept: Vec<VecDeque<Envelope>>) {
        let has_kept = kept.iter().any(|kept| !kept.is_empty());
        let host = if has_kept { 0 } else { fragment.host() };
        let boxes = &fragment.model().boxes;
        let mut operators = Vec::with_capacity(boxes.len());
        if host == 0 {
            operators
                .push((0, std::boxed::Box::new(fragment.entry(Forward::new(kept))) as std::boxed::Box<dyn Operator>));
        }
        operators.extend((1..boxes.len() - 1).map(|index| (index, (boxes[index].factory)())));
        // The head is still there; what was kept and what starts by itself goes on without one.
        self.body.now.consumed = true;
        self.body.run_again |= has_kept || fragment.has_sources();
        self.body.now.growing = Some(std::boxed::Box::new(Growing { fragment, host: Some(host), operators }));
    }

    /// Whether the last fragment beside this box is done with, so that another one may be made.
    pub(crate) fn may_go_round(&self, own_outputs: usize) -> bool {
        let back = self.cell.inputs.len() - 1;
        let mut receivers = self.body.outputs[own_outputs..].iter().flat_map(|output| &output.receivers);
        self.cell.inputs[back].sender().is_none() && receivers.all(|receiver| receiver.let_go)
    }

    /// The fragment beside this box has sent all: what waits for it is dropped but the pills.
    pub(crate) fn end_round(&mut self, own_outputs: usize) {
        for output in &mut self.body.outputs[own_outputs..] {
            let is_pill_sent = output.pill_sent;
            for receiver in output.receivers.iter_mut().filter(|receiver| receiver.waits()) {
                drop(receiver.clear());
                if is_pill_sent {
                    receiver.keep(Envelope::pill());
                }
            }
        }
        (own_outputs..self.outputs()).for_each(|output| self.send_pill_once(output));
    }

    /// Gives up the boxes of the fragment beside this box that take no pill, since they read no more.
    pub(crate) fn give_up_round(&mut self, own_outputs: usize) {
        let outputs = &mut self.body.outputs[own_outputs..];
        for receiver in outputs.iter_mut().flat_map(|output| &mut output.receivers).filter(|receiver| !receiver.let_go)
        {
            drop(receiver.clear());
            receiver.closed = true;
            self.body.ends = true;
        }
    }

    /// Has a fragment made beside this box when the invocation is over ([`BoxModel::going_round`]).
    ///
    /// [`BoxModel::going_round`]: crate::BoxModel::going_round
    pub(crate) fn go_round(&mut self, fragment: Fragment) {
        let boxes = &fragment.model().boxes;
        let operators = (1..boxes.len() - 1).map(|index| (index, (boxes[index].factory)())).collect();
        self.body.now.growing = Some(std::boxed::Box::new(Growing { fragment, host: None, operators }));
    }
}
