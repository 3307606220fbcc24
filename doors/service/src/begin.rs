//! Begins runs: in this process, or with others that share the work. One that has lost such a process begins again.

use crate::cancel::Submitted;
use crate::error::{Error, Stage};
use crate::languages::Surroundings;
use crate::peers::{PeerFailure, PeerRun, Sends};
use crate::session::{Allowance, Call, Prepared, Session, now, reading};
use crate::sink::{RowCount, Sink, Solutions, operator};
use std::sync::Arc;
use vicus::kit::recording::{InputSource, OperatorInfo};
use vicus::{BoxId, Budget, RequestOptions, TemporaryFiles};
use vicus_language::PlanNode;

/// A call to be answered, perhaps more than once: processes that share its work may be lost.
pub(crate) struct PendingCall<'a, S> {
    pub(crate) session: &'a Session,
    pub(crate) allowance: &'a Allowance,
    pub(crate) sink: &'a Arc<S>,
    pub(crate) handed: &'a Arc<RowCount>,
}

/// The thread that a run begins on. A run over several processes begins on a worker.
#[derive(Clone, Copy)]
pub(crate) enum FirstThread {
    /// One of the service's threads.
    Worker,
    /// The calling thread, which works on a query expected to be short.
    CallerIfShort,
}

/// See [`PendingCall::try_begin`].
enum BeginResult {
    Runs(RunBegun),
    /// A process that was to share the work can't be had, and why.
    Lost(PeerFailure),
}

/// A run that has begun.
pub(crate) struct RunBegun {
    pub(crate) submitted: Submitted,
    pub(crate) solutions: Arc<Solutions>,
    pub(crate) beside_boxes: u64,
    pub(crate) over: Option<OverPeers>,
}

/// The parts of a run over several processes.
pub(crate) struct OverPeers {
    pub(crate) run: Arc<dyn PeerRun>,
    /// For each box of the whole model, its box in this process.
    pub(crate) boxes: Arc<[Option<BoxId>]>,
    pub(crate) sends: Sends,
}

impl<S: Sink> PendingCall<'_, S> {
    /// Plans the text again, for the processes that are left.
    pub(crate) fn again(&self, prepared: &Prepared) -> Result<Arc<Prepared>, Error> {
        let shared = prepared.shared.as_ref().expect("a plan of one process loses none");
        Call { session: self.session.clone(), allowance: self.allowance.clone() }.prepare(&shared.text)
    }

    /// Begins a run: of this plan, or of one without the processes that are lost meanwhile, whose reasons go into
    /// `lost`. `before` is shown the solutions.
    pub(crate) fn begin(
        &self,
        mut prepared: Arc<Prepared>,
        thread: FirstThread,
        before: impl FnOnce(&Arc<Solutions>),
        lost: &mut Vec<String>,
    ) -> Result<(Arc<Prepared>, RunBegun), Error> {
        let before = &mut Some(before);
        loop {
            match self.try_begin(&prepared, thread, before)? {
                BeginResult::Runs(begun) => return Ok((prepared, begun)),
                // A loss without a name may come again.
                BeginResult::Lost(failure) if lost.len() >= MOST_LOST => return Err(failure.into()),
                BeginResult::Lost(failure) => {
                    let is_repeated = lost.len() >= MOST_UNNAMED;
                    asked_without(&prepared, &failure, is_repeated);
                    lost.push(failure.message);
                    prepared = self.again(&prepared)?;
                }
            }
        }
    }

    fn try_begin(
        &self,
        prepared: &Arc<Prepared>,
        thread: FirstThread,
        before: &mut Option<impl FnOnce(&Arc<Solutions>)>,
    ) -> Result<BeginResult, Error> {
        let PendingCall { session, allowance, sink, handed } = *self;
        let beside_boxes = prepared.bytes();
        allowance.hold(beside_boxes, prepared.holders())?;
        allowance.share.set_beside_boxes(beside_boxes);
        let plan = &*prepared.plan;
        let options = &session.options;
        let snapshot = session.dataset.snapshot();
        // Without a bound, nothing is ever spilled.
        let folder = options.temporary.as_ref().filter(|_| allowance.most < u64::MAX);
        let spill = folder.map(|folder| folder.spill(allowance.most - beside_boxes));
        let files = spill.as_ref().map(|spill| TemporaryFiles::beside(Arc::clone(&spill.scratch)));
        let moment = options.moment.unwrap_or_else(now);
        let run = match &prepared.shared {
            Some(shared) => {
                let threads = Call { session: session.clone(), allowance: allowance.clone() }.threads();
                let job = reading(snapshot, "start", || shared.job(session, plan.digest(), threads, moment))?;
                let goes_on = || allowance.ended(Stage::Running).is_none();
                let begun = shared.peers.begin(&shared.team, &job, options.limits.memory, &goes_on);
                allowance.check(Stage::Running)?;
                match begun {
                    Ok(run) => Some(run),
                    Err(failure) if failure.is_loss => return Ok(BeginResult::Lost(failure)),
                    Err(failure) => return Err(failure.into()),
                }
            }
            None => None,
        };
        let mut part = None;
        let (solutions, operators) = reading(snapshot, "start", || {
            let surroundings = Surroundings { moment, web: Arc::clone(&options.web), spill };
            let (mut operators, reader, sinks) = match &run {
                Some(run) => {
                    let begun = plan.begin_part_any(0, run.links(), &surroundings);
                    let (mut mine, reader) = begun.expect("rows come together where they are asked for");
                    let (operators, sinks) = (std::mem::take(&mut mine.operators), mine.sinks.clone());
                    part = Some(mine);
                    (operators, reader, sinks)
                }
                None => {
                    let (operators, reader) = plan.begin_any(&surroundings);
                    (operators, reader, plan.sinks().to_vec())
                }
            };
            let (prepared, snapshot) = (Arc::clone(prepared), Arc::clone(snapshot));
            let solutions = Arc::new(Solutions { reader, prepared, snapshot });
            operators.extend(sinks.iter().map(|id| (*id, operator(sink, &solutions, handed))));
            (solutions, operators)
        })?;
        if let Some(before) = before.take() {
            before(&solutions);
        }
        let budget = Budget::from(allowance.most - beside_boxes).granted_by(Arc::clone(&allowance.share) as _);
        let request_options = RequestOptions {
            is_timed: options.counts,
            overflows: files.map(|files| files as _),
            most_boxes: options.limits.most_boxes,
            ..RequestOptions::from(budget)
        };
        let runtime = session.service.runtime();
        match &part {
            Some(part) => {
                let here = |id: BoxId| part.boxes.get(id.index()).copied().flatten();
                runtime.record_operators(&part.model, || operator_infos(&plan.nodes(), here));
            }
            None => runtime.record_operators(plan.model(), || operator_infos(&plan.nodes(), Some)),
        }
        let request = match (&part, thread) {
            (Some(part), _) => runtime.submit_within(&part.model, operators, request_options),
            (None, FirstThread::CallerIfShort) if plan.is_short() => {
                let ended = || allowance.ended(Stage::Running).is_some();
                runtime.submit_here(plan.model(), operators, request_options, &ended)
            }
            (None, _) => runtime.submit_within(plan.model(), operators, request_options),
        };
        let mut submitted = Submitted::new(request, &allowance.cancel);
        if let Some(until) = allowance.until {
            submitted.end_at(until, session.service.timer()).map_err(|error| Error::NoThread(Arc::new(error)))?;
        }
        let over = run.zip(part).map(|(run, part)| {
            run.watch(&submitted.request);
            OverPeers { run, boxes: part.boxes.into(), sends: part.sends }
        });
        Ok(BeginResult::Runs(RunBegun { submitted, solutions, beside_boxes, over }))
    }
}

/// The operators of a plan as a recording has them. `here` finds a box of the plan among those of this process.
pub(crate) fn operator_infos(nodes: &[PlanNode], here: impl Fn(BoxId) -> Option<BoxId>) -> Vec<OperatorInfo> {
    let output = |from: &vicus::OutputId| {
        let index = here(from.sender())?.index() as u32;
        Some(InputSource { index, output: u16::try_from(from.index()).unwrap_or(u16::MAX) })
    };
    let operator = |node: &PlanNode| OperatorInfo {
        parent: node.parent.map(|parent| parent as u32),
        name: node.name.clone(),
        detail: node.detail.clone(),
        expected_rows: node.rows.max(0.0).round() as u64,
        boxes: node.boxes.iter().filter_map(|id| Some(here(*id)?.index() as u32)).collect(),
        outputs: node.outputs.iter().filter_map(output).collect(),
    };
    nodes.iter().map(operator).collect()
}

/// A query that loses processes more often than this has no answer.
pub(crate) const MOST_LOST: usize = 16;

/// So many losses without a name may be those of a dead process, which its silence names. Behind them, the process that
/// tells of one is left out: it does not reach another one, which this process reaches.
pub(crate) const MOST_UNNAMED: usize = 3;

/// Has later plans do without a process that was lost, or with `is_repeated` without the one that tells of it.
pub(crate) fn asked_without(prepared: &Prepared, failure: &PeerFailure, is_repeated: bool) {
    let peer = failure.peer.as_ref().or(failure.told_by.as_ref().filter(|_| is_repeated));
    if let (Some(shared), Some(peer)) = (&prepared.shared, peer) {
        shared.peers.leave_out(peer, &failure.message);
    }
}
