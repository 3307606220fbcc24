//! Tasks for invocations of live boxes: their work is known when they begin, their queued tasks when they end.

use super::{Engine, TaskState};
use crate::reenact::{Acting, Flow, Next, Stage};
use crate::{Cost, Program, Reenacted, Reenactment, SimError, Step, TaskRecord, TaskSpec, Work};
use vicus_flow::Activation;
use vicus_flow::FlowError;
use vicus_schedule::{Access, Mode, RequestId};
use vicus_topology::NodeId;
use vicus_trace::JobId;

/// The live requests.
pub(super) struct Live<'a> {
    enacted: &'a Reenactment,
    /// By copy and request.
    stages: Vec<Stage>,
    /// By task.
    tasks: Vec<LiveTask>,
    /// The difference between the request numbers of two copies.
    requests: u64,
    result: Reenacted,
}

/// The state of a task.
enum LiveTask {
    /// The first task, submitting the requests.
    First,
    Queued(usize, Activation),
    Begun(usize, Acting),
    Over,
}

impl<'a> Live<'a> {
    /// Starts the requests, and makes a program beginning with their first tasks.
    pub(super) fn new(enacted: &'a Reenactment) -> (Program, Live<'a>) {
        let requests = 1 + enacted.flows.iter().map(|flow| u64::from(flow.request)).max().unwrap_or(0);
        let mut live =
            Live { enacted, stages: Vec::new(), tasks: vec![LiveTask::First], requests, result: Reenacted::default() };
        let count = (enacted.copies * enacted.flows.len()) as u32;
        let steps = vec![Step::Start, Step::Spawn(1..1 + count)];
        let mut tasks = vec![TaskSpec { pinned: Some(0), steps, ..TaskSpec::default() }];
        for _ in 0..enacted.copies {
            for flow in &enacted.flows {
                let (stage, first) = Stage::new(flow, &enacted.envelopes);
                live.stages.push(stage);
                let first = Next { task: first, heads: Vec::new(), reads: None };
                let task = live.queue(live.stages.len() - 1, first, false);
                tasks.push(TaskSpec { outside: true, ..task });
            }
        }
        let (name, arrays, leaves) = (enacted.name.clone(), enacted.arrays(), enacted.leaves.clone());
        let heap = enacted.layout.heap..arrays.len();
        (Program { name, arrays, heap, leaves, tasks }, live)
    }

    /// The copy of a stage, and its request.
    fn flow(&self, stage: usize) -> (usize, &'a Flow) {
        (stage / self.enacted.flows.len(), &self.enacted.flows[stage % self.enacted.flows.len()])
    }

    fn request(&self, stage: usize) -> RequestId {
        let (copy, flow) = self.flow(stage);
        RequestId::new(u64::from(flow.request) + self.requests * copy as u64)
    }

    /// A task for a box about to be queued. If the box was handed a part of the store, the task belongs near this part,
    /// and otherwise near the envelopes at its inputs.
    fn queue(&mut self, stage: usize, next: Next, is_handed: bool) -> TaskSpec {
        let (copy, _) = self.flow(stage);
        let Next { task, heads, reads } = next;
        let part = reads.filter(|_| is_handed);
        let accesses = match part {
            Some((from, bytes)) => self.enacted.layout.store(from, bytes).collect(),
            None => self.envelopes(copy, heads, Mode::Read).collect(),
        };
        let spec = TaskSpec {
            kind: task.kind,
            of_box: Some(task.index.index() as u32),
            request: self.request(stage),
            accesses,
            goes_home: part.is_some(),
            ..TaskSpec::default()
        };
        self.tasks.push(LiveTask::Queued(stage, task));
        spec
    }

    fn envelopes(&self, copy: usize, envelopes: Vec<usize>, mode: Mode) -> impl Iterator<Item = Access> + use<'a> {
        let layout = &self.enacted.layout;
        envelopes.into_iter().filter_map(move |envelope| layout.envelope(copy, envelope, mode))
    }

    /// A task begins on a node. Returns its work; `None` if its request is over.
    fn begin(&mut self, task: usize, node: NodeId) -> Option<Work> {
        let state = std::mem::replace(&mut self.tasks[task], LiveTask::Over);
        let LiveTask::Queued(stage, queued) = state else {
            self.tasks[task] = state;
            return None;
        };
        let acting = self.stages[stage].begin(queued, node);
        let (copy, flow) = self.flow(stage);
        let work = (!acting.was_dropped()).then(|| {
            let done = &acting.done;
            let mut accesses: Vec<Access> = self.envelopes(copy, done.takes.clone(), Mode::Read).collect();
            let makes = done.makes.iter().map(|made| made.envelope).collect();
            accesses.extend(self.envelopes(copy, makes, Mode::Write));
            accesses.extend(done.store.iter().flat_map(|&(from, bytes)| self.enacted.layout.store(from, bytes)));
            let who = JobId { request: flow.request, index: acting.index as u32 };
            accesses.extend(done.state.iter().filter_map(|part| self.enacted.layout.kept(copy, who, part)));
            let cost = Cost::Nanos((done.cost.recorded - done.cost.memory).max(0.0));
            Work { leaf: flow.scripts[acting.index].leaf as u32, cost, accesses }
        });
        self.result.work_ns += acting.done.cost.recorded;
        self.result.invocations += u64::from(!acting.was_dropped());
        self.result.acts += u64::from(acting.acted());
        self.tasks[task] = LiveTask::Begun(stage, acting);
        work
    }

    /// A task's work is done. Returns the tasks it queues; `None` if it was done before. `alone`: the only request of
    /// boxes.
    fn end(&mut self, task: usize, node: NodeId, alone: Option<RequestId>) -> Option<Vec<TaskSpec>> {
        let state = std::mem::replace(&mut self.tasks[task], LiveTask::Over);
        let LiveTask::Begun(stage, acting) = state else { return None };
        let (_, flow) = self.flow(stage);
        let (index, hands_out) = (acting.index, self.enacted.hands_out(&flow.scripts[acting.index]));
        let spreads = alone == Some(self.request(stage));
        let next = self.stages[stage].finish(acting, node, spreads);
        // The box may have queued itself again.
        let is_handed = |next: &Next| hands_out && next.task.index.index() != index;
        Some(
            next.into_iter()
                .map(|next| {
                    let handed = is_handed(&next);
                    self.queue(stage, next, handed)
                })
                .collect(),
        )
    }

    /// The results of all requests.
    pub(super) fn settle(mut self) -> Result<Reenacted, SimError> {
        for (at, stage) in std::mem::take(&mut self.stages).into_iter().enumerate() {
            let (_, flow) = self.flow(at);
            let error = |error: FlowError| SimError::Request { request: flow.request, error: error.to_string() };
            self.result.requests.push((flow.request, stage.settle().map_err(error)?));
        }
        Ok(self.result)
    }
}

impl Engine<'_> {
    fn node(&self, seat: usize) -> NodeId {
        self.seats[seat].node
    }

    /// A task begins. The work of a live box's task is known from now on.
    pub(super) fn begin_act(&mut self, seat: usize, task: u32) {
        let node = self.node(seat);
        let Some(live) = &mut self.live else { return };
        if let Some(work) = live.begin(task as usize, node) {
            self.program.to_mut().tasks[task as usize].steps = vec![Step::Work(work)];
        }
    }

    /// A task has done its steps. A live box's task gets further steps for its queued boxes. Returns whether it did.
    pub(super) fn end_act(&mut self, seat: usize, task: u32) -> bool {
        let (node, alone) = (self.node(seat), self.alone());
        let Some(next) = self.live.as_mut().and_then(|live| live.end(task as usize, node, alone)) else {
            return false;
        };
        let first = self.program.tasks.len() as u32;
        let steps = &mut self.program.to_mut().tasks[task as usize].steps;
        if let Some(Step::Work(work)) = steps.first_mut() {
            // It is over, and its accesses are no longer needed.
            work.accesses = Vec::new();
        }
        steps.push(Step::Spawn(first..first + next.len() as u32));
        for spec in next {
            self.graph.tasks.push(TaskState::of(&spec));
            self.graph.later.push(Vec::new());
            self.results.records.push(TaskRecord::default());
            self.requests.by_id.entry(spec.request).or_default().left += 1;
            self.graph.left += 1;
            self.program.to_mut().tasks.push(spec);
        }
        true
    }
}
