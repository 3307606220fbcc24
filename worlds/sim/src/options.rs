//! The options of a run besides the plan, and the errors of a run.

use crate::{Allocator, Parameters, ProgramError};
use std::fmt;
use vicus_memory::distribution::DistributionError;

/// The options of a run besides the plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The free parameters of the model.
    pub parameters: Parameters,
    /// What real machines leave to chance: when each seat begins, and which of several onlookers is quicker.
    pub seed: u64,
    /// Whether memory that no distribution places goes round the nodes, page by page in the order in which pages are touched
    /// first, as `numactl --interleave=all` has it; otherwise it lies where it is touched.
    pub interleave: bool,
    /// Where the blocks of heaps come from.
    pub allocator: Allocator,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// For how many events of each seat a trace has room; `None` records none.
    pub trace: Option<usize>,
    /// Whether what each seat decides is written down ([`Outcome::decisions`](crate::Outcome::decisions)).
    pub decisions: bool,
    /// Whether requests have no turns, as on a runtime that has none (`RuntimeBuilder::without_turns`).
    pub without_turns: bool,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// From a time on, a seat takes so many times as long for everything.
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
    /// A task touched an array that was freed. Tasks may run in another order than that of the program.
    Freed {
        /// The task.
        task: usize,
        /// The access.
        access: String,
        /// The array.
        array: usize,
    },
    /// Tasks are left that no seat will run.
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
        /// The error with which it stopped.
        error: String,
    },
    /// It would take longer than the 53 days that virtual time can hold.
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
