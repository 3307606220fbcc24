//! The errors of a request.

use crate::BoxError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Why a request has no result. Other requests go on.
#[derive(Clone, Debug)]
pub enum FlowError {
    /// A box returned an error.
    Failed {
        /// The box's name.
        name: String,
        /// The box's error.
        error: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A box panicked.
    Panicked {
        /// The box's name.
        name: String,
        /// The panic's message.
        message: String,
    },
    /// The request was cancelled.
    Cancelled,
    /// Boxes wait for each other in a circle through full vias (Bobox report §3.5), and the request's budget has no
    /// room for a via to hold more.
    Stalled {
        /// The cycle: for each box the one it waits for, and why.
        cycle: Vec<String>,
        /// Why envelopes can't go out of memory, if they were to ([`crate::Overflows`]).
        outside: Option<String>,
    },
    /// Expandable boxes would have had more boxes live at once than the request may
    /// ([`Instance::set_most_boxes`](crate::Instance::set_most_boxes)).
    TooManyBoxes {
        /// How many it may.
        most: usize,
        /// The expandable boxes around the one that would have grown, the outermost first, and that one. Of a long
        /// chain the middle is left out, with the number of boxes in it.
        chain: Vec<String>,
    },
    /// Boxes have seen the end of all their inputs and never sent a poisoned pill.
    Unfinished {
        /// Their names.
        boxes: Vec<String>,
    },
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowError::Failed { name, error } => write!(f, "box {name} failed: {error}"),
            FlowError::Panicked { name, message } => write!(f, "box {name} panicked: {message}"),
            FlowError::Cancelled => f.write_str("the request was cancelled"),
            FlowError::Stalled { cycle, outside } => {
                let cycle = cycle.join("; ");
                write!(f, "the network waits for itself, and there is no memory for a via to hold more: {cycle}")?;
                match outside {
                    Some(why) => write!(f, ". Nor is there room in files: {why}"),
                    None => f.write_str(". Allow the request more memory, or temporary files"),
                }
            }
            FlowError::TooManyBoxes { most, chain } => {
                let chain = chain.join(" / ");
                write!(f, "more than {most} boxes would live at once: {chain}. Allow the request more boxes")
            }
            FlowError::Unfinished { boxes } => {
                write!(f, "no poisoned pill came from {}, though nothing is left to be done", boxes.join(", "))
            }
        }
    }
}

impl std::error::Error for FlowError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FlowError::Failed { error, .. } => Some(&**error),
            _ => None,
        }
    }
}

/// The boxes of a request hold more than it may. The error of the asking box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverBudget {
    /// Bytes the request may hold.
    pub budget: u64,
    /// The boxes that hold memory and how many bytes, the most first.
    pub holders: Vec<(String, u64)>,
}

/// `more than 10.0 MiB is needed: 8.2 MiB for distinct, 1.9 MiB for sort`.
impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} is needed", Bytes(self.budget))?;
        for (place, (name, held)) in self.holders.iter().take(3).enumerate() {
            let before = if place == 0 { ":" } else { "," };
            write!(f, "{before} {} for {name}", Bytes(*held))?;
        }
        Ok(())
    }
}

impl std::error::Error for OverBudget {}

/// Memory could not be had. The error of the asking box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory {
    /// Bytes asked for at once.
    pub bytes: u64,
}

/// `128.0 MiB of memory can't be had`.
impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of memory can't be had", Bytes(self.bytes))
    }
}

impl std::error::Error for NoMemory {}

/// One invocation of a box sent more than it may without asking for room. The error of that box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentTooMuch {
    /// The output of the last envelope.
    pub output: usize,
    /// Bytes one invocation may send ([`crate::ModelBuilder::outbox_bytes`]).
    pub bound: u64,
}

impl fmt::Display for SentTooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SentTooMuch { output, bound } = self;
        write!(
            f,
            "one invocation sent more than {} (at last on output {output}); a loop asks Turn::ask_room before it \
                sends, and \
             goes on in the next invocation (Turn::run_again)",
            Bytes(*bound)
        )
    }
}

impl std::error::Error for SentTooMuch {}

/// An error on its way through code that can't return it.
pub(crate) struct GivenUp(pub(crate) BoxError);

/// Leaves a box's code with an error from a function without an error result, such as one given to a library box: the
/// invocation ends by unwinding, and the request fails with the error and the box's name. Outside of boxes it is a
/// panic, unless the caller asks for the error ([`or_given_up`]).
///
/// ```
/// use vicus_flow::{NoMemory, give_up};
///
/// let unwinds = std::panic::catch_unwind(|| give_up(NoMemory { bytes: 1 << 40 }));
/// assert!(unwinds.is_err());
/// ```
#[cold]
pub fn give_up(error: impl Into<BoxError>) -> ! {
    resume_unwind(Box::new(GivenUp(error.into())))
}

/// Calls a function that may [`give_up`] outside of boxes, and returns its error.
///
/// ```
/// use vicus_flow::{NoMemory, give_up, or_given_up};
///
/// let left = or_given_up(|| -> u32 { give_up(NoMemory { bytes: 1 << 40 }) });
/// assert_eq!(left.unwrap_err().to_string(), "1024.0 GiB of memory can't be had");
/// assert_eq!(or_given_up(|| 7).unwrap(), 7);
/// ```
///
/// # Errors
/// The function gave up.
///
/// # Panics
/// The function panics.
pub fn or_given_up<R>(function: impl FnOnce() -> R) -> Result<R, BoxError> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|panic| match panic.downcast::<GivenUp>() {
        Ok(given_up) => given_up.0,
        Err(panic) => resume_unwind(panic),
    })
}

/// Keeps the first one of several errors. Returns the other one: dropping it may run a user's code, so the caller does
/// that without its locks, by [`drop_quietly`].
///
/// ```
/// let mut first = None;
/// assert_eq!(vicus_flow::keep_first(&mut first, "disk full"), None);
/// assert_eq!(vicus_flow::keep_first(&mut first, "cancelled"), Some("cancelled"));
/// assert_eq!(first, Some("disk full"));
/// ```
#[must_use]
pub fn keep_first<E>(first: &mut Option<E>, error: E) -> Option<E> {
    if first.is_none() { first.replace(error) } else { Some(error) }
}

/// Drops a user's value. A panic of its drop is caught and ignored.
///
/// ```
/// struct Panics;
/// impl Drop for Panics {
///     fn drop(&mut self) {
///         panic!("while it is dropped");
///     }
/// }
/// vicus_flow::drop_quietly(Panics);
/// ```
pub fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(move || drop(value))) {
        // The payload's drop may panic as well.
        std::mem::forget(panic);
    }
}

struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..0x400 => write!(f, "{bytes} bytes"),
            0x400..0x10_0000 => write!(f, "{:.1} KiB", bytes / 1024.0),
            0x10_0000..0x4000_0000 => write!(f, "{:.1} MiB", bytes / 1_048_576.0),
            _ => write!(f, "{:.1} GiB", bytes / 1_073_741_824.0),
        }
    }
}
