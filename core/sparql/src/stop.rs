//! When planning has to end early: because the caller stopped it, or because it takes too many steps or bytes.

use crate::error::{QueryError, QueryErrorKind};
use std::cell::Cell;

/// What planning asks while it goes on. A function that says whether to end is one that grants all memory.
///
/// ```
/// use vicus_sparql::Watch;
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
    /// Whether planning is to end without a plan. Asked for each term and each operator of a query.
    fn ends(&self) -> bool;

    /// Planning is about to hold so many bytes all in all, and ends with an error if it may not. Asked rarely: for more than is
    /// needed at once.
    fn grant(&self, _bytes: u64) -> bool {
        true
    }
}

impl<F: Fn() -> bool> Watch for F {
    fn ends(&self) -> bool {
        self()
    }
}

/// Asks the caller's [`Watch`] until it ends planning once, and counts the steps and bytes of planning against a limit.
pub(crate) struct Stop<'a> {
    watch: &'a dyn Watch,
    most: Costs,
    spent: Cell<Costs>,
    /// Bytes that the watch has granted.
    granted: Cell<u64>,
    why: Cell<Option<Why>>,
}

/// What planning costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Costs {
    /// Visits of operators, variables of operators, and pairs of joins; each takes some ten nanoseconds.
    pub(crate) steps: u64,
    /// Bytes held until the plan is finished.
    pub(crate) bytes: u64,
}

impl Costs {
    pub(crate) const NONE: Costs = Costs { steps: 0, bytes: 0 };
    #[cfg(test)]
    pub(crate) const ANY: Costs = Costs { steps: u64::MAX, bytes: u64::MAX };
}

/// Why planning ends early.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Asked,
    Steps,
    Bytes,
}

impl<'a> Stop<'a> {
    #[cfg(test)]
    pub(crate) fn new(watch: &'a dyn Watch) -> Stop<'a> {
        Stop::within(watch, Costs::ANY)
    }

    pub(crate) fn within(watch: &'a dyn Watch, most: Costs) -> Stop<'a> {
        Stop { watch, most, spent: Cell::new(Costs::NONE), granted: Cell::new(0), why: Cell::new(None) }
    }

    /// Asks the caller; true once planning has to end. The rest of the plan may be wrong then, but has to be made quickly.
    pub(crate) fn poll(&self) -> bool {
        if self.why.get().is_none() && self.watch.ends() {
            self.why.set(Some(Why::Asked));
        }
        self.why.get().is_some()
    }

    /// Counts steps. True if planning has to end.
    pub(crate) fn count_steps(&self, steps: usize) -> bool {
        let spent = self.spent.get();
        let steps = spent.steps.saturating_add(steps as u64);
        self.spent.set(Costs { steps, ..spent });
        self.end_if(steps > self.most.steps, Why::Steps)
    }

    /// Counts bytes. True if planning has to end.
    pub(crate) fn count_bytes(&self, bytes: usize) -> bool {
        let spent = self.spent.get();
        let bytes = spent.bytes.saturating_add(bytes as u64);
        self.spent.set(Costs { bytes, ..spent });
        self.end_if(bytes > self.most.bytes || !self.ensure_granted(bytes), Why::Bytes)
    }

    /// Whether so many bytes are granted, after asking for them if need be.
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
            // What was asked for is what the error says.
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

    pub(crate) fn spent(&self) -> Costs {
        self.spent.get()
    }

    /// # Errors
    /// The caller stopped planning, or it takes too many steps or bytes.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        if !self.poll() {
            return Ok(());
        }
        let (message, kind) = match self.why.get().expect("it is stopped") {
            Why::Asked => ("the query was stopped while it was planned".to_owned(), QueryErrorKind::Stopped),
            Why::Steps => {
                let most = self.most.steps;
                let message = format!(
                    "planning the query takes more than {most} steps: it has too many patterns, variables or operators"
                );
                (message, QueryErrorKind::TooManySteps)
            }
            Why::Bytes => {
                let needed = self.spent.get().bytes;
                let most = if needed > self.most.bytes { self.most.bytes } else { self.granted.get() };
                let message = format!("planning the query takes more than {most} bytes of memory");
                (message, QueryErrorKind::TooManyBytes { needed })
            }
        };
        Err(QueryError { message, line: 0, column: 0, kind })
    }
}
