//! A live request: a flow instance with boxes that follow their scripts.

use super::script::{Done, Progress, Script, Via};
use crate::recorded::Envelope;
use std::sync::{Arc, Mutex, MutexGuard};
use vicus_flow::stepwise::{SteppedInvocation, SteppedRequest};
use vicus_flow::{Activation, BoxCounts, BoxError, Column, FlowError, Model, Operator, Turn};
use vicus_topology::NodeId;

/// A recorded request.
pub(crate) struct Flow {
    /// Its number in the trace.
    pub(crate) request: u32,
    pub(crate) model: Arc<Model>,
    /// By box.
    pub(crate) scripts: Arc<Vec<Script>>,
}

/// The data shared by the boxes of a live request. Only one thread is here at a time; the lock is for the compiler,
/// because operators may be sent to other threads.
struct Shared {
    scripts: Arc<Vec<Script>>,
    envelopes: Arc<Vec<Envelope>>,
    boxes: Vec<Progress>,
    /// The effects of the last acting box.
    done: Done,
}

/// The operator of a box.
struct Player {
    shared: Arc<Mutex<Shared>>,
    index: usize,
}

impl Operator for Player {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        lock(&self.shared).act(self.index, turn);
        Ok(())
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().expect("nothing panics under this lock")
}

impl Shared {
    fn act(&mut self, index: usize, turn: &mut Turn<'_>) {
        let scripts = Arc::clone(&self.scripts);
        let script = &scripts[index];
        self.done = Done::default();
        match &script.order {
            None => (0..script.inputs.len()).for_each(|input| self.take(index, input, turn)),
            Some(order) => {
                while let Some(input) = order.get(self.boxes[index].turns).map(|&input| usize::from(input))
                    && turn.head(input).is_some()
                {
                    self.boxes[index].turns += 1;
                    self.take(index, input, turn);
                }
                let taken = &self.boxes[index].taken;
                let over = |&input: &usize| taken[input] >= script.inputs[input].takes;
                let over: Vec<usize> = (0..script.inputs.len()).filter(over).collect();
                over.into_iter().for_each(|input| self.take(index, input, turn));
            }
        }
        self.boxes[index].go_on(script, &mut self.done);
        for made in &self.done.makes {
            let Envelope { rows, pill, .. } = self.envelopes[made.envelope];
            let output = usize::from(made.output);
            let columns = turn.schema(output).columns().len();
            turn.send(output, if pill { vicus_flow::Envelope::pill() } else { envelope(columns, rows) });
        }
        if let Some(bytes) = self.done.keeps {
            turn.book(bytes).expect("a re-enacted request has no budget");
        }
        if self.done.again {
            turn.run_again();
        }
    }

    fn take(&mut self, index: usize, input: usize, turn: &mut Turn<'_>) {
        if let Some(envelope) = turn.take(input) {
            let expected = self.took(index, input);
            debug_assert_eq!(
                envelope.rows(),
                self.envelopes[expected].rows as usize,
                "vias keep the order of envelopes"
            );
        }
    }

    /// A box has taken the next envelope of an input. An envelope not taken in the recorded run is dropped.
    fn took(&mut self, index: usize, input: usize) -> usize {
        let script = &self.scripts[index];
        let Via { from, takes, kept } = &script.inputs[input];
        let taken = &mut self.boxes[index].taken[input];
        let envelope = self.scripts[from.0].outputs[from.1][*taken];
        if *taken < *takes {
            if kept.binary_search(taken).is_err() {
                self.done.takes.push(envelope);
            }
            self.done.units += 1 + u64::from(self.envelopes[envelope].rows);
        }
        *taken += 1;
        envelope
    }

    /// The envelopes at the heads of a box's inputs.
    fn heads(&self, index: usize) -> Vec<usize> {
        let inputs = self.scripts[index].inputs.iter().zip(&self.boxes[index].taken);
        let head = |(via, &taken): (&Via, &usize)| {
            let (sender, output) = via.from;
            (taken < self.boxes[sender].sent[output]).then(|| self.scripts[sender].outputs[output][taken])
        };
        inputs.filter_map(head).collect()
    }
}

/// An envelope of this number of rows without contents. All its columns are the same one.
fn envelope(columns: usize, rows: u32) -> vicus_flow::Envelope {
    let rows = rows as usize;
    let column: Option<Column> = (columns > 0).then(|| vec![0u64; rows].into());
    vicus_flow::Envelope::of_rows(column.into_iter().cycle().take(columns).collect(), rows)
}

/// A live request.
pub(crate) struct Stage {
    shared: Arc<Mutex<Shared>>,
    request: SteppedRequest,
    boxes: usize,
}

/// A box to be queued.
pub(crate) struct Next {
    pub(crate) task: Activation,
    /// The envelopes at its inputs.
    pub(crate) heads: Vec<usize>,
    /// The next stretch of the store it reads.
    pub(crate) reads: Option<(u64, u64)>,
}

/// An invocation under way.
pub(crate) struct Acting {
    pub(crate) index: usize,
    begun: SteppedInvocation,
    pub(crate) done: Done,
}

impl Acting {
    /// Whether it ran user code.
    pub(crate) fn acted(&self) -> bool {
        self.begun.acted()
    }

    /// Whether its request was over before.
    pub(crate) fn was_dropped(&self) -> bool {
        self.begun.was_dropped()
    }
}

impl Stage {
    /// Starts a request. Returns its first task.
    pub(crate) fn new(flow: &Flow, envelopes: &Arc<Vec<Envelope>>) -> (Stage, Activation) {
        let boxes = flow.scripts.len();
        let shared = Shared {
            scripts: Arc::clone(&flow.scripts),
            envelopes: Arc::clone(envelopes),
            boxes: flow.scripts.iter().map(Script::progress).collect(),
            done: Done::default(),
        };
        let shared = Arc::new(Mutex::new(shared));
        let player = |index: usize| Box::new(Player { shared: Arc::clone(&shared), index }) as Box<dyn Operator>;
        // The first and the last box have operators as well: their work was recorded, and the request ends when all
        // have done theirs.
        let players = (0..boxes).map(|index| (flow.model.box_id(index), player(index))).collect();
        let (request, first) = SteppedRequest::start(&flow.model, players);
        (Stage { shared, request, boxes }, first)
    }

    /// Begins an invocation: its takes, sends and costs.
    pub(crate) fn begin(&mut self, task: Activation, node: NodeId) -> Acting {
        let index = task.index.index();
        let begun = self.request.begin(task, node);
        let mut shared = lock(&self.shared);
        let done = if begun.acted() {
            std::mem::take(&mut shared.done)
        } else if begun.was_dropped() {
            Done::default()
        } else {
            let scripts = Arc::clone(&shared.scripts);
            Done { cost: shared.boxes[index].idle(&scripts[index]), ..Done::default() }
        };
        Acting { index, begun, done }
    }

    /// Ends it. Returns the boxes to be queued. `spreads`: no other request runs boxes.
    pub(crate) fn finish(&mut self, acting: Acting, node: NodeId, spreads: bool) -> Vec<Next> {
        self.request.set_spreads(spreads);
        let queued = self.request.finish(acting.begun, node);
        let mut shared = lock(&self.shared);
        for made in &acting.done.makes {
            shared.boxes[acting.index].sent[usize::from(made.output)] += 1;
        }
        queued
            .into_iter()
            .map(|task| {
                let index = task.index.index();
                let reads = shared.boxes[index].reads_next(&shared.scripts[index]);
                Next { heads: shared.heads(index), reads, task }
            })
            .collect()
    }

    /// The counts of each box, or an error if a box has recorded acts left. No task may be left.
    pub(crate) fn settle(self) -> Result<Vec<BoxCounts>, FlowError> {
        let (result, counts) = self.request.settle();
        let shared = lock(&self.shared);
        let all_over = (0..self.boxes).all(|index| shared.boxes[index].is_over(&shared.scripts[index]));
        // No box ends the request, so that the protocol reports a stall or a failure.
        if all_over { Ok(counts) } else { result.map(|_| counts) }
    }
}
