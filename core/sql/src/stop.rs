//! When planning has to end early: because the caller ended it, or because it takes too many steps.

use crate::error::{Place, SqlError, SqlErrorKind};
use std::cell::Cell;

/// What planning asks while it goes on. A function that says whether to end is one.
pub trait Watch {
    /// Whether planning is to end without a plan. Asked every few thousand steps.
    fn ends(&self) -> bool;
}

impl<F: Fn() -> bool> Watch for F {
    fn ends(&self) -> bool {
        self()
    }
}

pub(crate) struct Stop<'a> {
    watch: &'a dyn Watch,
    most: u64,
    steps: Cell<u64>,
    asked: Cell<u64>,
}

/// So many steps pass between two questions.
const PORTION: u64 = 2048;

impl<'a> Stop<'a> {
    pub(crate) fn new(watch: &'a dyn Watch, most: u64) -> Stop<'a> {
        Stop { watch, most, steps: Cell::new(0), asked: Cell::new(0) }
    }

    /// Counts steps of some ten to hundred nanoseconds.
    ///
    /// # Errors
    /// The caller ended planning, or there are too many steps.
    pub(crate) fn step(&self, steps: usize) -> Result<(), SqlError> {
        let steps = self.steps.get().saturating_add(steps as u64);
        self.steps.set(steps);
        if steps > self.most {
            let message = format!("planning the statement takes more than {} steps", self.most);
            return Err(SqlError::new(SqlErrorKind::TooManySteps, Place::default(), message));
        }
        if steps - self.asked.get() >= PORTION {
            self.asked.set(steps);
            return self.ask();
        }
        Ok(())
    }

    /// # Errors
    /// The caller ended planning.
    pub(crate) fn ask(&self) -> Result<(), SqlError> {
        if self.watch.ends() {
            let message = "the statement was stopped while it was planned";
            return Err(SqlError::new(SqlErrorKind::Stopped, Place::default(), message));
        }
        Ok(())
    }
}
