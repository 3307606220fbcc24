//! When planning has to end early: because the caller stopped it, or because it takes too many steps or bytes.

use crate::error::{SourcePosition, TextError, TextErrorKind};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// A caller's answers to planning while it goes on. A function that says whether to end grants all memory.
///
/// ```
/// use vicus_language::Watch;
///
/// struct Frugal;
/// impl Watch for Frugal {
///     fn ends(&self) -> bool {
///         false
///     }
///     fn grant(&self, bytes: u64) -> bool {
///         bytes <= 1 << 20
///     }
/// }
/// assert!(!Frugal.grant(1 << 30) && (|| false).grant(1 << 30));
/// ```
pub trait Watch {
    /// Whether planning is to end without a plan. Asked every few thousand steps at least.
    fn ends(&self) -> bool;

    /// Planning is about to hold this number of bytes all in all, and ends with an error if it may not. Asked rarely:
    /// for more than is needed at once.
    fn grant(&self, _bytes: u64) -> bool {
        true
    }
}

/// Whether parsing is to end without a result.
pub type Ends = Arc<dyn Fn() -> bool + Send + Sync>;

impl<F: Fn() -> bool> Watch for F {
    fn ends(&self) -> bool {
        self()
    }
}

/// Asks the caller's [`Watch`] until it ends planning once, and counts the steps and bytes of planning against a limit.
///
/// ```
/// use vicus_language::{Costs, Stop, Stopped};
///
/// let stop = Stop::within(&|| false, Costs { steps: 100, bytes: u64::MAX });
/// assert!(stop.step(60).is_ok());
/// assert_eq!(stop.step(60), Err(Stopped::TooManySteps { most: 100 }));
/// assert_eq!(Stop::new(&|| true).check(), Err(Stopped::Asked));
/// ```
pub struct Stop<'a> {
    watch: &'a dyn Watch,
    most: Costs,
    spent: Cell<Costs>,
    /// Bytes granted by the watch.
    granted: Cell<u64>,
    /// Steps when [`Stop::step`] asked the watch last.
    asked_at: Cell<u64>,
    why: Cell<Option<Why>>,
}

/// The cost of planning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Visits of operators, variables of operators, and pairs of joins; each takes some ten nanoseconds.
    pub steps: u64,
    /// Bytes held until the plan is finished.
    pub bytes: u64,
}

impl Costs {
    /// Nothing.
    pub const NONE: Costs = Costs { steps: 0, bytes: 0 };
    /// No limit.
    pub const ANY: Costs = Costs { steps: u64::MAX, bytes: u64::MAX };
}

/// Why planning ends early. Its text is for errors without a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// Its watch said so.
    Asked,
    /// Planning takes more steps than it may.
    TooManySteps {
        /// The most steps it may take.
        most: u64,
    },
    /// Planning takes more memory than it may.
    TooManyBytes {
        /// The most bytes it may hold.
        most: u64,
        /// The least bytes it needs.
        needed: u64,
    },
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stopped::Asked => f.write_str("the query was stopped while it was planned"),
            Stopped::TooManySteps { most } => write!(f, "planning the query takes more than {most} steps"),
            Stopped::TooManyBytes { most, .. } => {
                write!(f, "planning the query takes more than {most} bytes of memory")
            }
        }
    }
}

impl std::error::Error for Stopped {}

impl From<Stopped> for TextError {
    fn from(stopped: Stopped) -> TextError {
        let kind = match stopped {
            Stopped::Asked => TextErrorKind::Stopped,
            Stopped::TooManySteps { .. } => TextErrorKind::TooManySteps,
            Stopped::TooManyBytes { needed, .. } => TextErrorKind::TooManyBytes { needed },
        };
        TextError::new(kind, SourcePosition::default(), stopped.to_string())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Asked,
    Steps,
    Bytes,
}

impl<'a> Stop<'a> {
    /// One without limits.
    pub fn new(watch: &'a dyn Watch) -> Stop<'a> {
        Stop::within(watch, Costs::ANY)
    }

    /// A stop that ends planning at a higher cost than this.
    pub fn within(watch: &'a dyn Watch, most: Costs) -> Stop<'a> {
        let (spent, granted, asked_at) = (Cell::new(Costs::NONE), Cell::new(0), Cell::new(0));
        Stop { watch, most, spent, granted, asked_at, why: Cell::new(None) }
    }

    /// Asks the caller; true once planning has to end. The rest of the plan may be wrong then, but has to be made
    /// quickly.
    pub fn poll(&self) -> bool {
        if self.why.get().is_none() && self.watch.ends() {
            self.why.set(Some(Why::Asked));
        }
        self.why.get().is_some()
    }

    /// Counts steps. True if planning has to end.
    pub fn count_steps(&self, steps: usize) -> bool {
        let spent = self.spent.get();
        let steps = spent.steps.saturating_add(steps as u64);
        self.spent.set(Costs { steps, ..spent });
        self.end_if(steps > self.most.steps, Why::Steps)
    }

    /// Counts bytes. True if planning has to end.
    pub fn count_bytes(&self, bytes: usize) -> bool {
        let spent = self.spent.get();
        let bytes = spent.bytes.saturating_add(bytes as u64);
        self.spent.set(Costs { bytes, ..spent });
        self.end_if(bytes > self.most.bytes || !self.ensure_granted(bytes), Why::Bytes)
    }

    /// Whether `bytes` bytes are granted, after asking for them if need be.
    fn ensure_granted(&self, bytes: u64) -> bool {
        const PORTION: u64 = 1 << 16;
        if bytes <= self.granted.get() || self.why.get().is_some() {
            return true;
        }
        let portion = bytes.checked_next_multiple_of(PORTION).unwrap_or(bytes).min(self.most.bytes);
        let is_granted = self.watch.grant(portion);
        if is_granted {
            self.granted.set(portion);
        } else {
            // The error names the requested amount.
            self.spent.set(Costs { bytes: portion, ..self.spent.get() });
        }
        is_granted
    }

    /// Remembers the first reason to end. True if there is one.
    fn end_if(&self, is_too_much: bool, why: Why) -> bool {
        if is_too_much && self.why.get().is_none() {
            self.why.set(Some(why));
        }
        self.why.get().is_some()
    }

    /// Counts steps, and asks the caller now and then.
    ///
    /// # Errors
    /// Planning has to end.
    pub fn step(&self, steps: usize) -> Result<(), Stopped> {
        /// The number of steps between two questions.
        const PORTION: u64 = 2048;
        let ends = self.count_steps(steps);
        let steps = self.spent.get().steps;
        if ends || steps - self.asked_at.get() >= PORTION {
            self.asked_at.set(steps);
            return self.check();
        }
        Ok(())
    }

    /// The cost of planning so far.
    pub fn spent(&self) -> Costs {
        self.spent.get()
    }

    /// Asks the caller.
    ///
    /// # Errors
    /// The caller stopped planning, or it takes too many steps or bytes.
    pub fn check(&self) -> Result<(), Stopped> {
        if !self.poll() {
            return Ok(());
        }
        Err(match self.why.get().expect("it is stopped") {
            Why::Asked => Stopped::Asked,
            Why::Steps => Stopped::TooManySteps { most: self.most.steps },
            Why::Bytes => {
                let needed = self.spent.get().bytes;
                let most = if needed > self.most.bytes { self.most.bytes } else { self.granted.get() };
                Stopped::TooManyBytes { most, needed }
            }
        })
    }
}

impl fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("most", &self.most).field("spent", &self.spent).finish_non_exhaustive()
    }
}
