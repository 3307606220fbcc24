//! Whether anybody still waits for what takes long.

use crate::error::{QueryError, QueryErrorKind};
use std::cell::Cell;

/// Asks its owner, until that says yes once.
pub(crate) struct Stop<'a> {
    asked: &'a dyn Fn() -> bool,
    is_stopped: Cell<bool>,
}

impl<'a> Stop<'a> {
    pub(crate) fn new(asked: &'a dyn Fn() -> bool) -> Stop<'a> {
        Stop { asked, is_stopped: Cell::new(false) }
    }

    /// Whether nobody waits any more: what is still made may be wrong, but has to be made soon.
    pub(crate) fn is_stopped(&self) -> bool {
        if !self.is_stopped.get() {
            self.is_stopped.set((self.asked)());
        }
        self.is_stopped.get()
    }

    /// # Errors
    /// Nobody waits any more.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        if !self.is_stopped() {
            return Ok(());
        }
        let message = "it was stopped while it was planned".to_owned();
        Err(QueryError { message, line: 0, column: 0, kind: QueryErrorKind::Stopped })
    }
}
