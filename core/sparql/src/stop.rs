//! Whether anybody still waits for what takes long, and how much it may take.

use crate::error::{QueryError, QueryErrorKind};
use std::cell::Cell;

/// Asks its owner, until that says yes once; and counts what planning does and holds, until that is more than it may.
pub(crate) struct Stop<'a> {
    asked: &'a dyn Fn() -> bool,
    most: Costs,
    spent: Cell<Costs>,
    why: Cell<Option<Why>>,
}

/// What planning costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Costs {
    /// Things that were looked at: operators, variables of operators, pairs of joins. Some ten nanoseconds each.
    pub(crate) steps: u64,
    /// Bytes that are held until the plan is there.
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

    /// Whether nobody waits any more, or it costs too much: what is still made may be wrong, but has to be made soon.
    pub(crate) fn is_stopped(&self) -> bool {
        if self.why.get().is_none() && (self.asked)() {
            self.why.set(Some(Why::Asked));
        }
        self.why.get().is_some()
    }

    /// Counts so many steps. Whether that were too many.
    pub(crate) fn works(&self, steps: usize) -> bool {
        let spent = self.spent.get();
        let steps = spent.steps.saturating_add(steps as u64);
        self.spent.set(Costs { steps, ..spent });
        self.ends_if(steps > self.most.steps, Why::Steps)
    }

    /// Books so many bytes. Whether that were too many.
    pub(crate) fn holds(&self, bytes: usize) -> bool {
        let spent = self.spent.get();
        let bytes = spent.bytes.saturating_add(bytes as u64);
        self.spent.set(Costs { bytes, ..spent });
        self.ends_if(bytes > self.most.bytes, Why::Bytes)
    }

    /// The first reason stays. Whether there is one.
    fn ends_if(&self, is_too_much: bool, why: Why) -> bool {
        if is_too_much && self.why.get().is_none() {
            self.why.set(Some(why));
        }
        self.why.get().is_some()
    }

    pub(crate) fn spent(&self) -> Costs {
        self.spent.get()
    }

    /// # Errors
    /// Nobody waits any more, or it costs too much.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        if !self.is_stopped() {
            return Ok(());
        }
        let (message, kind) = match self.why.get().expect("it is stopped") {
            Why::Asked => ("it was stopped while it was planned".to_owned(), QueryErrorKind::Stopped),
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
