//! What a fork needs. A child has one thread and every lock as it was: one that another thread held is held for ever.

use crate::atlas;
use crate::foreign::{BinLock, Doors};
use crate::ledger;
use crate::memory::Memory;
use crate::superblock::Pool;
use crate::sync::MutexGuard;

/// All locks of a memory, held until this is dropped.
pub struct Locks<'a> {
    // Given back from the first field to the last; nobody who holds one of them waits for another one but in the order of
    // `Memory::lock`, from the last to the first.
    _ledger: ledger::Lock<'a>,
    _pools: Vec<MutexGuard<'a, Pool>>,
    _bins: Vec<BinLock<'a>>,
    _numbers: MutexGuard<'a, Vec<u32>>,
    _atlas: Option<MutexGuard<'a, atlas::State>>,
    _making: std::sync::MutexGuard<'a, ()>,
}

impl std::fmt::Debug for Locks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Locks")
    }
}

impl Memory {
    /// Waits for all locks and holds them. Who forks takes them before, and drops the value afterwards in the parent and
    /// in the child: then the child can use this memory as well, though not the other threads' heaps.
    ///
    /// One thing is not covered: a thread that is between the two steps of sending blocks home at the moment of the fork (two
    /// instructions) leaves, in the child, its receiver's mailbox waiting for the second.
    ///
    /// Nothing may be allocated from or freed to this memory meanwhile by the thread that holds them.
    pub fn lock(&self) -> Locks<'_> {
        let (making, atlas) = self.placing.lock();
        let Doors { spare, .. } = &self.doors;
        let numbers = spare.lock().expect("nothing panics behind this lock");
        let bins = self.doors.lock_bins();
        let pools = self.superblocks.lock();
        Locks {
            _ledger: self.ledger.lock(),
            _pools: pools,
            _bins: bins,
            _numbers: numbers,
            _atlas: atlas,
            _making: making,
        }
    }
}
