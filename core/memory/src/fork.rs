//! Locks for a fork. The child has one thread and a copy of every lock's state: a lock held by another thread stays
//! held for ever.

use crate::atlas;
use crate::foreign::{BinLock, Doors};
use crate::ledger;
use crate::memory::Memory;
use crate::superblock::Pool;
use crate::sync::MutexGuard;

/// All locks of a memory, held until this is dropped.
pub struct Locks<'a> {
    // Dropped from the first field to the last. `Memory::lock` takes them from the last to the first, and every other
    // path with two of them took them in this order.
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
    /// Takes all locks, waiting for each. A process takes them before it forks and drops the value afterwards, in the
    /// parent and in the child: then the child can use this memory as well, but not the other threads' heaps.
    ///
    /// One case is not covered: if a thread is between the two instructions of a send at the moment of the fork, its
    /// receiver's mailbox waits in the child for the second one.
    ///
    /// The thread with the locks must not allocate from or free to this memory meanwhile.
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
