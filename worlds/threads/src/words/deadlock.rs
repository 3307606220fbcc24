//! The panic of a wait that no running code could have ended.

use std::fmt;

/// The panic of an unwound lightweight thread: no running code could have ended its wait.
///
/// ```
/// use std::sync::atomic::AtomicU64;
/// use vicus_machine::MachineRuntime;
/// use vicus_threads::{Builder, Deadlock, OnDeadlock, full_empty};
///
/// static WORD: AtomicU64 = AtomicU64::new(0);
/// full_empty::empty(&WORD);
/// let runtime = MachineRuntime::builder().threads(1).deadlock(OnDeadlock::Unwind).start();
/// let waits = Builder::new().spawn_on(&runtime, || full_empty::read_ff(&WORD));
/// let deadlock = *waits.join().unwrap_err().downcast::<Deadlock>().unwrap();
/// assert_eq!(deadlock.operation, "read_ff");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The awaited operation, by the name of the function.
    pub operation: &'static str,
    /// With the word at this address.
    pub address: usize,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a deadlock: {} of the word at {:#x} would have waited for ever", self.operation, self.address)
    }
}

impl std::error::Error for Deadlock {}
