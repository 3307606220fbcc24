//! When planning has to end early: because the caller stopped it, or because it takes too many steps or bytes.

use crate::error::{QueryError, QueryErrorKind};
use std::cell::Cell;

/// Asks the caller's `asked` until that is true once, and counts the steps and bytes of planning against a limit.
pub(crate) struct Stop<'a> {
    asked: &'a dyn Fn() -> bool,
    most: Costs,
    spent: Cell<Costs>,
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
    pub(crate) fn new(asked: &'a dyn Fn() -> bool) -> Stop<'a> {
        Stop::within(asked, Costs::ANY)
    }

    pub(crate) fn within(asked: &'a dyn Fn() -> bool, most: Costs) -> Stop<'a> {
        Stop { asked, most, spent: Cell::new(Costs::NONE), why: Cell::new(None) }
    }

    /// Asks the caller; true once planning has to end. The rest of the plan may be wrong then, but has to be made quickly.
    pub(crate) fn poll(&self) -> bool {
        if self.why.get().is_none() && (self.asked)() {
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
        self.end_if(bytes > self.most.bytes, Why::Bytes)
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
                let most = self.most.bytes;
                let needed = self.spent.get().bytes;
                let message = format!("planning the query takes more than {most} bytes of memory");
                (message, QueryErrorKind::TooManyBytes { needed })
            }
        };
        Err(QueryError { message, line: 0, column: 0, kind })
    }
}
