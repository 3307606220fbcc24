//! The options of a run besides the plan, and the errors of a run.

use crate::{AllocatorModel, Parameters, ProgramError};
use std::fmt;
use vicus_memory::distribution::DistributionError;

/// The options of a run besides the plan.
#[derive(Clone, Debug, Default)]
pub struct SimOptions {
    /// The free parameters of the model.
    pub parameters: Parameters,
    /// The seed of chance on real machines: the beginning of each seat, and the quicker one of several onlookers.
    pub seed: u64,
    /// Whether memory without a distribution goes round the nodes, page by page in the order of first touches, as under
    /// `numactl --interleave=all`; otherwise it lies with its first toucher.
    pub interleave: bool,
    /// The allocator of heaps' blocks.
    pub allocator: AllocatorModel,
    /// The faults.
    pub faults: Vec<Fault>,
    /// For how many events of each seat a trace has room; `None` records none.
    pub trace: Option<usize>,
    /// Whether each seat's decisions are written down ([`SimOutcome::decisions`](crate::SimOutcome::decisions)).
    pub decisions: bool,
    /// Whether requests have no turns, as on a runtime without them (`RuntimeBuilder::without_turns`).
    pub without_turns: bool,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// From a time on, a seat takes `factor` times as long for everything.
    Slow {
        /// The seat.
        seat: usize,
        /// How much longer: 2 is half as fast.
        factor: f64,
        /// From when on, in nanoseconds of virtual time.
        from_ns: f64,
    },
    /// The first wake of a seat after a time comes later.
    LateWake {
        /// The seat.
        seat: usize,
        /// After when, in nanoseconds of virtual time.
        from_ns: f64,
        /// How much later, in nanoseconds.
        by_ns: f64,
    },
}

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimError {
    /// The program can't be run.
    Program(ProgramError),
    /// An array's distribution doesn't fit the machine.
    Distribution(DistributionError),
    /// A task touched a freed array. Tasks may run in an order other than the program's.
    Freed {
        /// The task.
        task: usize,
        /// The access.
        access: String,
        /// The array.
        array: usize,
    },
    /// Tasks are left without a seat to run them.
    Stuck {
        /// The number of these tasks.
        left: usize,
        /// One of them.
        task: usize,
    },
    /// A re-enacted request didn't end.
    Request {
        /// Its number in the trace.
        request: u32,
        /// The error it stopped with.
        error: String,
    },
    /// The run would take longer than virtual time's limit of 53 days.
    TooLong,
    /// The caller's `watch` returned false.
    Cancelled,
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Program(error) => error.fmt(f),
            SimError::Distribution(error) => error.fmt(f),
            SimError::Freed { task, access, array } => {
                write!(f, "task {task} touches {access} of array {array}, which was freed meanwhile")
            }
            SimError::Stuck { left, task } => {
                write!(f, "{left} tasks are left that no seat runs, one of them task {task}")
            }
            SimError::Request { request, error } => write!(f, "request {request}, re-enacted: {error}"),
            SimError::TooLong => f.write_str("it takes longer than the 53 days that virtual time is counted for"),
            SimError::Cancelled => f.write_str("the simulation was cancelled"),
        }
    }
}

impl std::error::Error for SimError {}
