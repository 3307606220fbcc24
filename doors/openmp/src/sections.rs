//! How many bytes a task uses from an address on, where its compiler says the address alone: gcc's `depend` clauses.
//!
//! The block that the address is in bounds it, if it is one that this library knows: of placed memory ([`crate::placed`]). So does the next
//! address in the block that some task has named: programs name the first elements of their array sections, which lie one behind the
//! other. The first task that names a section of a block is taken to use all of it.

use crate::placed::block_of;
use crate::thread::Thread;
use crate::wait::Guarded;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use vicus::tasks::Access;

/// By the beginning of a block, the addresses in it that tasks have named.
type Named = BTreeMap<usize, BTreeSet<usize>>;

static NAMED: Guarded<Named> = Guarded::new(BTreeMap::new());
/// Whether there is an address in it.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// So many addresses are kept of a block; further ones find their neighbours among these.
const MOST: usize = 1 << 16;

/// Whether it matters how many bytes tasks use: to the strategy, to the summary, or to the trace.
pub(crate) fn matter(thread: &Thread) -> bool {
    crate::report::is_on() || crate::report::is_traced() || thread.team().deals()
}

/// The bytes that accesses of single addresses stand for, where that can be known.
pub(crate) fn of(accesses: &[Access]) -> Vec<Access> {
    let _errno = crate::wait::KeepErrno::new();
    let known = |access: &Access| {
        let address = access.stretches().next()?.start;
        Some((address, block_of(address)?, access.mode))
    };
    let known: Vec<_> = accesses.iter().filter_map(known).collect();
    if known.is_empty() {
        return Vec::new();
    }
    // Under the lock nothing large is allocated or freed: that asks for the lock.
    let mut sections = Vec::with_capacity(known.len());
    NAMED.with(|named| {
        IS_USED.store(true, Ordering::Relaxed);
        // All are named first: the rows of one array section end each other.
        for (address, block, _) in &known {
            let own = named.entry(block.start).or_default();
            if own.len() < MOST {
                own.insert(*address);
            }
        }
        for &(address, ref block, mode) in &known {
            let end = named.get(&block.start).and_then(|own| own.range(address + 1..).next().copied());
            sections.push(Access::new(address, end.unwrap_or(block.end) - address, mode));
        }
    });
    sections
}

/// A block is freed.
pub(crate) fn forget(block: usize) {
    if IS_USED.load(Ordering::Relaxed) {
        let named = NAMED.with(|named| named.remove(&block));
        drop(named);
    }
}

/// In a forked child.
pub(crate) fn begin_anew() {
    NAMED.begin_anew();
}
