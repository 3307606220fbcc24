//! The smallest world: one seat, no threads. For tests, examples and reproducing a run from a seed.
//!
//! ```
//! use vicus_flow::{BoxModel, Envelope, ModelBuilder, Schema, Turn, Type, library, sequential};
//!
//! let schema = Schema::new([("n", Type::U64)]);
//! let mut net = ModelBuilder::new("doubles");
//! let numbers = net.source(BoxModel::new("numbers", || |turn: &mut Turn<'_>| {
//!     turn.take(0);
//!     turn.send(0, Envelope::new([vec![1u64, 2, 3].into()]));
//!     turn.send_pill(0);
//!     Ok(())
//! }).output(&schema));
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

use crate::{BoxCounts, BoxId, Desk, FlowError, Instance, Model, Operator, Totals, World, begin};
use std::sync::Arc;
use vicus_schedule::{Kind, RequestId, TaskRef};

struct Alone;

impl World for Alone {
    fn blocking(&self, section: &mut dyn FnMut()) {
        section();
    }
}

#[expect(unsafe_code, reason = "the header asks for a function that tasks are run with; this world calls begin itself")]
// SAFETY of callers: none has to be kept; it only panics.
unsafe fn not_called(_: TaskRef, _: *mut ()) {
    unreachable!("this world runs boxes itself");
}

/// Runs one request of a model to its end. `operators` replaces operators as in [`Instance::new`]; `choose` picks the
/// next of so many queued tasks by its index (0: the one queued last), so that tests can try every order.
///
/// # Errors
/// What made the request fail.
pub fn run(
    model: &Arc<Model>,
    operators: Vec<(BoxId, std::boxed::Box<dyn Operator>)>,
    mut choose: impl FnMut(usize) -> usize,
) -> Result<Totals, FlowError> {
    run_while(model, operators, |tasks| Some(choose(tasks)))
}

/// As [`run`]; `choose` cancels the request by choosing none.
///
/// # Errors
/// What made the request fail, or [`FlowError::Cancelled`].
pub fn run_while(
    model: &Arc<Model>,
    operators: Vec<(BoxId, std::boxed::Box<dyn Operator>)>,
    choose: impl FnMut(usize) -> Option<usize>,
) -> Result<Totals, FlowError> {
    run_counted(model, operators, choose).0
}

/// As [`run_while`]; also gives what each box did, however it ended ([`Instance::counts`]).
pub fn run_counted(
    model: &Arc<Model>,
    operators: Vec<(BoxId, std::boxed::Box<dyn Operator>)>,
    mut choose: impl FnMut(usize) -> Option<usize>,
) -> (Result<Totals, FlowError>, Vec<BoxCounts>) {
    let instance = Instance::new(model, RequestId(0), 1, not_called, operators);
    let mut desk = Desk::default();
    // Youngest last. Deferred tasks go below all others.
    let mut queue = vec![instance.start().task];
    instance.count_queued(Some(0), 1);
    while !queue.is_empty() {
        let picked = choose(queue.len()).unwrap_or_else(|| {
            instance.fail(FlowError::Cancelled);
            0
        }) % queue.len();
        let task = queue.remove(queue.len() - 1 - picked);
        if !instance.is_stopped() {
            #[expect(unsafe_code, reason = "runs a task")]
            // SAFETY: the task is this instance's, was put into the queue by its activation, and was just taken out.
            let mut running = unsafe { begin(task, &mut desk) };
            if running.is_due() {
                instance.count_act(0);
                running.act(&Alone, &mut desk);
            }
            running.send(&mut desk);
            running.finish(&mut desk);
            instance.count_queued(Some(0), desk.activations.len() as u64);
            for activation in desk.activations.drain(..) {
                match activation.kind {
                    Kind::Immediate => queue.push(activation.task),
                    Kind::Deferred => queue.insert(0, activation.task),
                }
            }
        }
        instance.count_finished(Some(0), 1);
    }
    (instance.settle().expect("nobody else settles it"), instance.counts())
}
