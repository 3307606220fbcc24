//! The smallest world: one seat, no threads. For tests, examples and repeating a run from a seed.
//!
//! ```
//! use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library, sequential};
//!
//! let schema = Schema::new([("n", Type::U64)]);
//! let mut net = ModelBuilder::new("doubles");
//! let numbers = net.source(library::source("numbers", &schema, || [Envelope::new([vec![1u64, 2, 3].into()])]));
//! let double = net.add(library::map("double", &schema, &schema, |envelope| {
//!     let doubled: Vec<u64> = envelope.column(0).u64s().iter().map(|n| n * 2).collect();
//!     Some(Envelope::new([doubled.into()]))
//! }));
//! let (sent, received) = std::sync::mpsc::channel();
//! let print = net.add(library::sink("print", &schema, move |envelope| Ok(sent.send(envelope)?)));
//! net.connect(numbers.output(0), double.input(0));
//! net.connect(double.output(0), print.input(0));
//! net.end(print.output(0));
//!
//! sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
//! assert_eq!(received.recv().unwrap().column(0).u64s(), [2, 4, 6]);
//! ```

use crate::stepwise::SteppedRequest;
use crate::{Activation, BoxCounts, BoxId, Budget, FlowError, Model, Operator, Overflows, Totals};
use std::sync::Arc;
use vicus_schedule::Kind;
use vicus_topology::NodeId;

/// Runs one request of a model to its end. `operators` replaces operators as in [`crate::Instance::new`]; `choose`
/// picks the next of the queued tasks by its index (0: the one queued last), so tests can try every order. No via holds
/// more than its bound: a network that may wait for itself fails with its cycle.
///
/// # Errors
/// The request's error.
pub fn run(
    model: &Arc<Model>,
    operators: Vec<(BoxId, std::boxed::Box<dyn Operator>)>,
    mut choose: impl FnMut(usize) -> usize,
) -> Result<Totals, FlowError> {
    run_while(model, operators, |tasks| Some(choose(tasks)))
}

/// Like [`run`]; `choose` cancels the request by returning `None`.
///
/// # Errors
/// The request's error, or [`FlowError::Cancelled`].
pub fn run_while(
    model: &Arc<Model>,
    operators: Vec<(BoxId, std::boxed::Box<dyn Operator>)>,
    choose: impl FnMut(usize) -> Option<usize>,
) -> Result<Totals, FlowError> {
    run_counted(model, operators, choose).0
}

/// Like [`run_while`]; also gives each box's counts, also of a failed request ([`crate::Instance::counts`]).
pub fn run_counted(
    model: &Arc<Model>,
    operators: Vec<(BoxId, std::boxed::Box<dyn Operator>)>,
    choose: impl FnMut(usize) -> Option<usize>,
) -> (Result<Totals, FlowError>, Vec<BoxCounts>) {
    let (request, first) = SteppedRequest::start(model, operators);
    request.set_keeps_bounds();
    run_request(request, first, choose)
}

/// Like [`run_counted`], with a bound on the memory that its boxes and vias hold, and perhaps a place beside it. Vias
/// of boxes that wait for each other may hold more than their bounds.
pub fn run_within(
    model: &Arc<Model>,
    operators: Vec<(BoxId, std::boxed::Box<dyn Operator>)>,
    budget: impl Into<Budget>,
    overflows: Option<Arc<dyn Overflows>>,
    choose: impl FnMut(usize) -> Option<usize>,
) -> (Result<Totals, FlowError>, Vec<BoxCounts>) {
    let (request, first) = SteppedRequest::start(model, operators);
    request.set_budget(budget);
    if let Some(overflows) = overflows {
        request.set_overflows(overflows);
    }
    run_request(request, first, choose)
}

/// Runs a request that has been started.
pub(crate) fn run_request(
    mut request: SteppedRequest,
    first: Activation,
    mut choose: impl FnMut(usize) -> Option<usize>,
) -> (Result<Totals, FlowError>, Vec<BoxCounts>) {
    // The youngest last. Deferred tasks go below all others.
    let mut queue = vec![first];
    while !queue.is_empty() {
        let picked = choose(queue.len()).unwrap_or_else(|| {
            request.fail(FlowError::Cancelled);
            0
        }) % queue.len();
        let task = queue.remove(queue.len() - 1 - picked);
        let begun = request.begin(task, NodeId::default());
        for task in request.finish(begun, NodeId::default()) {
            match task.kind {
                Kind::Immediate => queue.push(task),
                Kind::Deferred => queue.insert(0, task),
            }
        }
    }
    request.settle()
}
