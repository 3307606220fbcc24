//! The part of a model that one of several processes runs.
//!
//! All processes have the same model and the same process for each of its boxes. Each builds the boxes of its own; an
//! output that boxes of another process read gets a box that sends there, and a source in the other process. A part is
//! a model like any other: it ends by the pills of its own ends, so no count goes over processes.

use super::{BoxId, BoxModel, InputId, Link, Model, ModelBuilder, OutputId};
use crate::Schema;
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows of an output that boxes of another process read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCrossing {
    /// Its number in the model, the same in all processes.
    pub number: u32,
    /// The process that sends.
    pub from: usize,
    /// The process that receives.
    pub to: usize,
    /// The output, in the whole model.
    pub output: OutputId,
}

/// The boxes at the ends of crossings.
pub trait CrossingEnds {
    /// Adds a box, or several, that send the rows of a crossing, and end with them ([`ModelBuilder::end`]). Gives the
    /// input that takes the rows.
    fn send(&mut self, net: &mut ModelBuilder, crossing: &ModelCrossing, schema: &Schema) -> InputId;

    /// Adds a source of the rows of a crossing. Gives its output.
    fn receive(&mut self, net: &mut ModelBuilder, crossing: &ModelCrossing, schema: &Schema) -> OutputId;
}

/// The ways from a process to the others of a model.
pub trait ModelLinks: Sync {
    /// A box with one input, for rows that go to another process, and one output without columns that ends with them.
    fn send(&self, crossing: &ModelCrossing, schema: &Schema) -> BoxModel;

    /// A source, yet without inputs, of the rows that come from another process.
    fn receive(&self, crossing: &ModelCrossing, schema: &Schema) -> BoxModel;
}

/// See [`Model::part`].
#[derive(Clone, Debug)]
pub struct ModelPart {
    /// The process's own boxes, and those at the ends of its crossings.
    pub model: Arc<Model>,
    /// For each box of the whole model, its box here if the process has it.
    pub boxes: Vec<Option<BoxId>>,
}

impl Model {
    /// The crossings between processes, of which each box has one; those of the first and the last box don't matter.
    pub fn crossings(&self, processes: &[usize]) -> Vec<ModelCrossing> {
        let last = self.boxes.len() - 1;
        let mut all: BTreeMap<(usize, usize, usize), ()> = BTreeMap::new();
        for (sender, one) in self.boxes.iter().enumerate().skip(1) {
            for (output, (_, links)) in one.outputs.iter().enumerate() {
                let receivers = links.iter().map(|link| link.receiver.0).filter(|&receiver| receiver != last);
                let others = receivers.map(|receiver| processes[receiver]).filter(|&to| to != processes[sender]);
                all.extend(others.map(|to| ((sender, output, to), ())));
            }
        }
        let crossing = |((sender, output, to), number): ((usize, usize, usize), u32)| ModelCrossing {
            number,
            from: processes[sender],
            to,
            output: BoxId(sender).output(output),
        };
        all.into_keys().zip(0..).map(crossing).collect()
    }

    /// The part of process `own`, if it has any box. `processes` has the process of each box; see
    /// [`Model::crossings`]. A fragment that takes the place of a box is in the box's process.
    ///
    /// ```
    /// use vicus_flow::{CrossingEnds, Envelope, InputId, ModelBuilder, ModelCrossing, OutputId, Schema, Type, library};
    ///
    /// let schema = Schema::new([("n", Type::U64)]);
    /// let mut net = ModelBuilder::new("three numbers");
    /// let numbers = net.source(library::source("numbers", &schema, || [Envelope::new([vec![1u64, 2, 3].into()])]));
    /// let shown = net.add(library::sink("shown", &schema, |_| Ok(())));
    /// net.connect(numbers.output(0), shown.input(0));
    /// net.end(shown.output(0));
    /// let model = net.build().unwrap();
    /// // Boxes: initialization, numbers, shown, termination.
    /// let processes = [0, 1, 0, 0];
    /// assert_eq!(model.crossings(&processes).len(), 1);
    ///
    /// /// Rows that cross go nowhere, and none come.
    /// struct Nowhere;
    /// impl CrossingEnds for Nowhere {
    ///     fn send(&mut self, net: &mut ModelBuilder, _: &ModelCrossing, schema: &Schema) -> InputId {
    ///         let sends = net.add(library::sink("send", schema, |_| Ok(())));
    ///         net.end(sends.output(0));
    ///         sends.input(0)
    ///     }
    ///     fn receive(&mut self, net: &mut ModelBuilder, _: &ModelCrossing, schema: &Schema) -> OutputId {
    ///         net.source(library::source("receive", schema, || [] as [Envelope; 0])).output(0)
    ///     }
    /// }
    /// let part = model.part(&processes, 1, &mut Nowhere).unwrap();
    /// assert_eq!(part.model.boxes()[1].type_name(), "numbers");
    /// assert!(part.boxes[2].is_none());
    /// ```
    pub fn part(&self, processes: &[usize], own: usize, ends: &mut dyn CrossingEnds) -> Option<ModelPart> {
        assert_eq!(processes.len(), self.boxes.len(), "each box has a process");
        let last = self.boxes.len() - 1;
        if !(1..last).any(|place| processes[place] == own) {
            return None;
        }
        let mut net = ModelBuilder::new(self.name.clone());
        net.outbox_bytes(self.outbox_bytes);
        let crossings = self.crossings(processes);
        // Senders stand before receivers, so sources of crossings come first, and boxes that send last.
        let schema = |output: OutputId| &self.boxes[output.sender.0].outputs[output.output].0;
        let mut received = BTreeMap::new();
        for crossing in crossings.iter().filter(|crossing| crossing.to == own) {
            let from = ends.receive(&mut net, crossing, schema(crossing.output));
            received.insert((crossing.output.sender, crossing.output.output), from);
        }
        let mut boxes: Vec<Option<BoxId>> = vec![None; self.boxes.len()];
        for place in (1..last).filter(|&place| processes[place] == own) {
            let one = &self.boxes[place];
            boxes[place] = Some(net.add(BoxModel {
                type_name: one.type_name.clone(),
                // The whole model was checked.
                inputs: smallvec![None; one.inputs.len()],
                outputs: one.outputs.iter().map(|(schema, _)| schema.clone()).collect(),
                factory: Arc::clone(&one.factory),
                first: SmallVec::new(),
                takes_any: false,
                expands: one.expands,
                rounds: one.rounds.clone(),
                node: one.node,
            }));
        }
        for (sender, one) in self.boxes.iter().enumerate() {
            for (output, (_, links)) in one.outputs.iter().enumerate() {
                let from = match (sender, boxes[sender]) {
                    (0, _) => Some(net.start()),
                    (_, Some(here)) => Some(here.output(output)),
                    (_, None) => received.get(&(BoxId(sender), output)).copied(),
                };
                let Some(from) = from else { continue };
                for link in links {
                    if link.receiver.0 == last {
                        if boxes[sender].is_some() {
                            net.end(from);
                        }
                    } else if let Some(receiver) = boxes[link.receiver.0] {
                        let copy = net.connect(from, receiver.input(link.input)).0;
                        *copy = Link { receiver, ..link.clone() };
                    }
                }
            }
        }
        for crossing in crossings.iter().filter(|crossing| crossing.from == own) {
            let sender = boxes[crossing.output.sender.0].expect("a crossing leaves from its sender's process");
            let to = ends.send(&mut net, crossing, schema(crossing.output));
            net.connect(sender.output(crossing.output.output), to);
        }
        let model = net.build().unwrap_or_else(|error| panic!("a part of a model is one: {error}"));
        Some(ModelPart { model, boxes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BoxError, Envelope, Operator, Turn, Type, library, sequential};
    use std::collections::VecDeque;
    use std::sync::{Mutex, PoisonError};

    /// Rows of all crossings, of parts that run one after the other.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<BTreeMap<u32, VecDeque<Envelope>>>>);

    impl Kept {
        fn of<R>(&self, crossing: u32, with: impl FnOnce(&mut VecDeque<Envelope>) -> R) -> R {
            with(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(crossing).or_default())
        }
    }

    struct Gives(Kept, u32);

    impl Operator for Gives {
        fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
            turn.take(0);
            match self.0.of(self.1, VecDeque::pop_front) {
                Some(rows) => {
                    turn.send(0, rows);
                    turn.run_again();
                }
                None => turn.send_pill(0),
            }
            Ok(())
        }
    }

    impl CrossingEnds for Kept {
        fn send(&mut self, net: &mut ModelBuilder, crossing: &ModelCrossing, schema: &Schema) -> InputId {
            let (kept, number) = (self.clone(), crossing.number);
            let keep = move |rows: Envelope| {
                kept.of(number, |all| all.push_back(rows));
                Ok(())
            };
            let sends = net.add(library::sink("send", schema, keep));
            net.end(sends.output(0));
            sends.input(0)
        }

        fn receive(&mut self, net: &mut ModelBuilder, crossing: &ModelCrossing, schema: &Schema) -> OutputId {
            let (kept, number) = (self.clone(), crossing.number);
            net.source(BoxModel::new("receive", move || Gives(kept.clone(), number)).output(schema)).output(0)
        }
    }

    /// A source is spread over boxes of three processes, whose rows meet in the first one.
    #[test]
    fn parts_together_do_what_the_whole_does() {
        let schema = Schema::new([("n", Type::U64)]);
        let build = |sum: Arc<Mutex<Vec<u64>>>| {
            let mut net = ModelBuilder::new("sum");
            let rows = || (0..100u64).map(|n| Envelope::new([vec![n, n + 1000].into()]));
            let numbers = net.source(library::source("numbers", &schema, rows));
            let deal = net.add(library::partition(&schema, &[0], 3, library::HashKey::default()));
            net.connect(numbers.output(0), deal.input(0));
            let union = net.add(library::union(&schema, 3));
            for part in 0..3 {
                let keeps = net.add(library::union(&schema, 1));
                net.connect(deal.output(part), keeps.input(0));
                net.connect(keeps.output(0), union.input(part));
            }
            let keep = move |rows: Envelope| {
                sum.lock().unwrap_or_else(PoisonError::into_inner).extend(rows.column(0).u64s());
                Ok(())
            };
            let shown = net.add(library::sink("shown", &schema, keep));
            net.connect(union.output(0), shown.input(0));
            net.end(shown.output(0));
            net.build().unwrap()
        };
        let found = Arc::new(Mutex::new(Vec::new()));
        let model = build(Arc::clone(&found));
        // initialization, numbers, deal, union, three that keep, shown, termination
        let processes = [0, 1, 1, 0, 0, 1, 2, 0, 0];
        assert_eq!(model.boxes().len(), processes.len());
        let crossings = model.crossings(&processes);
        let ways: Vec<(usize, usize)> = crossings.iter().map(|crossing| (crossing.from, crossing.to)).collect();
        assert_eq!(ways, [(1, 0), (1, 2), (1, 0), (2, 0)], "two of the dealer, one of each box that keeps elsewhere");
        let mut kept = Kept::default();
        assert!(model.part(&processes, 3, &mut kept).is_none());
        for own in [1, 2, 0] {
            let part = model.part(&processes, own, &mut kept).expect("it has boxes");
            sequential::run(&part.model, Vec::new(), |_| 0).unwrap();
        }
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        found.sort_unstable();
        let expected: Vec<u64> = (0..100).chain(1000..1100).collect();
        assert_eq!(found, expected);
    }
}
