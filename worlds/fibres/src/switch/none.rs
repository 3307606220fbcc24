//! No switches: Windows keeps a record of each thread's stack, and a thread on another one could neither grow it nor
//! unwind it. There are no stacks to enter ([`Pools`](crate::Pools) makes none), so nothing here is called.

/// The bottom function of a stack: it gets the owner of the switch, and the first word handed over on entry.
pub type Runs = extern "C" fn(of: *const (), word: usize) -> !;

/// A stack that no thread enters.
pub(crate) struct Switch(());

const NO_STACKS: &str = "no stack is made on this system";

#[expect(unsafe_code, reason = "the same promises as on other systems")]
impl Switch {
    pub(crate) const fn new() -> Switch {
        Switch(())
    }

    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn has_begun(&self) -> bool {
        false
    }

    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn begin_at(&self, _top: usize, _runs: Runs, _of: *const ()) {
        unreachable!("{NO_STACKS}")
    }

    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn forget(&self) {}

    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn enter(&self, _word: usize) -> usize {
        unreachable!("{NO_STACKS}")
    }

    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn leave(&self, _word: usize) -> usize {
        unreachable!("{NO_STACKS}")
    }
}
