//! Waits for words, as the watch sees them. The tables of words are above it: they say how to judge their waits.

use crate::threads::fibres::Fibre;
use std::backtrace::Backtrace;
use std::sync::OnceLock;
use vicus_machine::layer::RuntimeState;
use vicus_schedule::SeatId;

/// A wait, as others see it.
pub(crate) struct SeenWait<'a> {
    pub(crate) fibre: Option<&'static Fibre>,
    /// The runtime and the seat of code waiting on a thread's own stack.
    pub(crate) seat: Option<(*const RuntimeState, SeatId)>,
    /// The awaited operation, by the name of its function.
    pub(crate) operation: &'static str,
    /// Whether it waits for a full word.
    pub(crate) wants_full: bool,
    pub(crate) address: usize,
    pub(crate) backtrace: Option<&'a Backtrace>,
}

/// The decision about an examined wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Stays,
    /// Its thread is unwound: its runtime ends.
    Ends,
    /// Its thread is unwound: no other would fill or empty the word.
    IsDeadlocked,
}

/// Calls a function with each wait, under a lock.
pub(crate) type Judge = fn(&mut dyn FnMut(SeenWait<'_>) -> Verdict);

static JUDGE: OnceLock<Judge> = OnceLock::new();

/// There are tables of words, whose waits are judged by this.
pub(crate) fn note(judge: Judge) {
    JUDGE.get_or_init(|| judge);
}

/// Calls `f` with each wait for a word, under a lock. Without a table there is none.
pub(crate) fn judge_waits(mut f: impl FnMut(SeenWait<'_>) -> Verdict) {
    if let Some(judge) = JUDGE.get() {
        judge(&mut f);
    }
}
