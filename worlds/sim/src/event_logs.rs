//! The events of each seat, for a trace.
//!
//! One clock for all seats: the simulator carries out one event after the other, so causes come before effects.

use crate::fluid::Time;
use crate::{Machine, Program};
use vicus_schedule::{DealResult, Kind, Plan};
use vicus_trace::{BoxInfo, EventLog, Header, JobId, ModelInfo, RequestOutcome, SeatInfo, TaskKind, Trace, What};

/// Tasks beyond this have no names in a trace: its header would be longer than its events.
const NAMED: usize = 1 << 16;

pub(crate) struct Diary(Option<Vec<EventLog>>, u64);

impl Diary {
    /// With room for this number of events of each seat; `None` records nothing.
    pub(crate) fn new(room: Option<usize>, seats: usize) -> Diary {
        Diary(room.map(|room| (0..seats).map(|_| EventLog::new(room)).collect()), 0)
    }

    pub(crate) fn record(&mut self, seat: usize, now: Time, what: impl FnOnce() -> What) {
        if let Some(logs) = &mut self.0 {
            logs[seat].observe(self.1);
            self.1 = logs[seat].record(now / 1000, what());
        }
    }

    pub(crate) fn trace(self, machine: &Machine, plan: &Plan, program: &Program) -> Option<Trace> {
        let logs = self.0?;
        let seats = plan.seats.iter().map(|seat| {
            let pu = &machine.topology.pus[seat.pu.index()];
            SeatInfo { pu: pu.id, group: pu.group, node: pu.node, is_callers: false, process: 0 }
        });
        let mut requests: Vec<u32> = program.tasks.iter().map(|task| task.request.number() as u32).collect();
        requests.sort_unstable();
        requests.dedup();
        let boxes = program.tasks.iter().take(NAMED).enumerate().map(|(number, task)| {
            let works = task.steps.iter().find_map(|step| match step {
                crate::Step::Work(work) => Some(program.leaves[work.leaf as usize].clone()),
                _ => None,
            });
            let type_name = works.unwrap_or_else(|| "(no work)".to_owned());
            BoxInfo { name: format!("task{number}"), type_name, ..BoxInfo::default() }
        });
        let model = ModelInfo { name: program.name.clone(), requests, boxes: boxes.collect() };
        let header = Header {
            strategy: plan.strategy.clone(),
            plan: plan.to_string(),
            machine: machine.name.clone(),
            clock: "virtual ns".to_owned(),
            started: "simulated".to_owned(),
            command: String::new(),
            version: concat!("Vicus ", env!("CARGO_PKG_VERSION")).to_owned(),
            seats: seats.collect(),
            models: vec![model],
            functions: Vec::new(),
            arrays: Vec::new(),
            rolls: false,
            last_ns: 0,
            processes: Vec::new(),
            machines: vec![machine.topology.clone()],
            earlier: Vec::new(),
            operators: Vec::new(),
            array_bytes: Vec::new(),
        };
        Some(Trace::new(header, logs.into_iter().map(EventLog::finish).collect()))
    }
}

/// The name of a task in a trace.
pub(crate) fn who(program: &Program, task: u32) -> JobId {
    JobId { request: program.tasks[task as usize].request.number() as u32, index: task }
}

pub(crate) fn enqueued(program: &Program, task: u32, kind: Kind, by: Option<u32>) -> What {
    let kind = match kind {
        Kind::Immediate => TaskKind::Immediate,
        Kind::Deferred => TaskKind::Deferred,
    };
    What::Enqueued { who: who(program, task), kind, by: by.unwrap_or(JobId::NONE) }
}

/// The reason for a dealt task's queue, if the plan deals it.
pub(crate) fn dealt(program: &Program, task: u32, dealt: &DealResult) -> Option<What> {
    let why = dealt.why?;
    let queue = dealt.queue.map_or(JobId::NONE, |queue| queue.index() as u32);
    Some(What::Dealt { who: who(program, task), why, share: dealt.share.into(), queue })
}

pub(crate) fn ended(request: u32) -> What {
    What::RequestEnded { request, outcome: RequestOutcome::Done }
}
