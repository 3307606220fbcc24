//! Tasks that are invocations of live boxes: what they are is known when they begin, whom they let go when they end.

use super::{Engine, TaskState};
use crate::reenact::{Acting, Flow, Next, Stage};
use crate::{Cost, Program, Reenacted, Reenactment, SimError, Step, TaskRecord, TaskSpec, Work};
use vicus_flow::Activation;
use vicus_flow::{FlowError, Place};
use vicus_schedule::{Access, Mode, RequestId};
use vicus_trace::BoxId;

/// The requests on stage.
pub(super) struct Live<'a> {
    enacted: &'a Reenactment,
    /// By copy and request.
    stages: Vec<Stage>,
    /// By task.
    parts: Vec<Part>,
    /// How far apart the copies' requests are numbered.
    requests: u64,
    result: Reenacted,
}

/// What a task is.
enum Part {
    /// The first task, which submits the requests.
    First,
    Queued(usize, Activation),
    Begun(usize, Acting),
    Over,
}

impl<'a> Live<'a> {
    /// Sets the requests up, and a program that begins with their first tasks.
    pub(super) fn new(enacted: &'a Reenactment) -> (Program, Live<'a>) {
        let requests = 1 + enacted.flows.iter().map(|flow| u64::from(flow.request)).max().unwrap_or(0);
        let (stages, parts) = (Vec::new(), vec![Part::First]);
        let mut live = Live { enacted, stages, parts, requests, result: Reenacted::default() };
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

    /// A stage's copy, and its request.
    fn flow(&self, stage: usize) -> (usize, &'a Flow) {
        (stage / self.enacted.flows.len(), &self.enacted.flows[stage % self.enacted.flows.len()])
    }

    fn request(&self, stage: usize) -> RequestId {
        let (copy, flow) = self.flow(stage);
        RequestId(u64::from(flow.request) + self.requests * copy as u64)
    }

    /// A task for a box that is to be queued. If it was handed a part of the store, it is for where that lies, and else for where the
    /// envelopes lie that it will find.
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
        self.parts.push(Part::Queued(stage, task));
        spec
    }

    fn envelopes(&self, copy: usize, envelopes: Vec<usize>, mode: Mode) -> impl Iterator<Item = Access> + use<'a> {
        let layout = &self.enacted.layout;
        envelopes.into_iter().filter_map(move |envelope| layout.envelope(copy, envelope, mode))
    }

    /// A task begins at a place: what it does. Nothing, if its request is over.
    fn begin(&mut self, task: usize, place: Place) -> Option<Work> {
        let part = std::mem::replace(&mut self.parts[task], Part::Over);
        let Part::Queued(stage, queued) = part else {
            self.parts[task] = part;
            return None;
        };
        let acting = self.stages[stage].begin(queued, place);
        let (copy, flow) = self.flow(stage);
        let work = (!acting.was_dropped()).then(|| {
            let done = &acting.done;
            let mut accesses: Vec<Access> = self.envelopes(copy, done.takes.clone(), Mode::Read).collect();
            let makes = done.makes.iter().map(|made| made.envelope).collect();
            accesses.extend(self.envelopes(copy, makes, Mode::Write));
            accesses.extend(done.store.iter().flat_map(|&(from, bytes)| self.enacted.layout.store(from, bytes)));
            let who = BoxId { request: flow.request, index: acting.index as u32 };
            accesses.extend(done.state.iter().filter_map(|part| self.enacted.layout.kept(copy, who, part)));
            let cost = Cost::Nanos((done.cost.recorded - done.cost.memory).max(0.0));
            Work { leaf: flow.scripts[acting.index].leaf as u32, cost, accesses }
        });
        self.result.work_ns += acting.done.cost.recorded;
        self.result.invocations += u64::from(!acting.was_dropped());
        self.result.acts += u64::from(acting.acted());
        self.parts[task] = Part::Begun(stage, acting);
        work
    }

    /// A task's work is done: the tasks that it lets go. `None` if that was asked before.
    fn end(&mut self, task: usize, place: Place, oldest: Option<RequestId>) -> Option<Vec<TaskSpec>> {
        let part = std::mem::replace(&mut self.parts[task], Part::Over);
        let Part::Begun(stage, acting) = part else { return None };
        let (_, flow) = self.flow(stage);
        let (index, hands_out) = (acting.index, self.enacted.hands_out(&flow.scripts[acting.index]));
        let spreads = oldest == Some(self.request(stage));
        let next = self.stages[stage].finish(acting, place, spreads);
        // It may have itself queued again.
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

    /// What it all came to.
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
    fn place(&self, seat: usize) -> Place {
        Place::from(self.seats[seat].node)
    }

    /// A task begins: if it is a live box's, what it does is known from here on.
    pub(super) fn begin_act(&mut self, seat: usize, task: u32) {
        let place = self.place(seat);
        let Some(live) = &mut self.live else { return };
        if let Some(work) = live.begin(task as usize, place) {
            self.program.to_mut().tasks[task as usize].steps = vec![Step::Work(work)];
        }
    }

    /// A task has gone through its steps: a live box's gets further ones for the boxes that it lets go. Says whether it did.
    pub(super) fn end_act(&mut self, seat: usize, task: u32) -> bool {
        let place = self.place(seat);
        let oldest = self.of_boxes.first().copied();
        let Some(next) = self.live.as_mut().and_then(|live| live.end(task as usize, place, oldest)) else {
            return false;
        };
        let first = self.program.tasks.len() as u32;
        let steps = &mut self.program.to_mut().tasks[task as usize].steps;
        if let Some(Step::Work(work)) = steps.first_mut() {
            // It is over, and needs no room any more.
            work.accesses = Vec::new();
        }
        steps.push(Step::Spawn(first..first + next.len() as u32));
        for spec in next {
            self.tasks.push(TaskState::of(&spec));
            self.later.push(Vec::new());
            self.records.push(TaskRecord::default());
            self.requests.entry(spec.request).or_default().left += 1;
            self.left += 1;
            self.program.to_mut().tasks.push(spec);
        }
        true
    }
}
