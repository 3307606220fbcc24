//! Threads' heaps: freed memory is used again.
//!
//! Falt et al., "Towards Efficient Locality Aware Parallel Data Stream Processing", §5.1: each thread has blocks of its own, by
//! size, and the block that was freed last is taken next, because a cache may still have it. Here an array of a heap gets its
//! block from the heap of the thread that writes it first, and returns it to that heap when the last task has read it.

use crate::{Program, Step};
use rustc_hash::FxHashMap;
use vicus_schedule::Access;
use vicus_topology::PuId;

const NONE: u32 = u32::MAX;

/// The block of each array. A block is the memory of the array that was the first to use it.
pub(crate) struct Heaps {
    /// By array of a heap, its block, and the number of readers that are still to come. Empty if the program has no array of a
    /// heap.
    arrays: Vec<Lent>,
    /// The first array of a heap.
    first: usize,
    /// By PU and size, the free blocks.
    free: FxHashMap<(PuId, usize), Vec<u32>>,
}

#[derive(Clone)]
struct Lent {
    block: u32,
    readers: u32,
    /// The PU whose heap it belongs to.
    owner: PuId,
}

impl Heaps {
    pub(crate) fn new(program: &Program) -> Heaps {
        let lent = Lent { block: NONE, readers: 0, owner: PuId::new(0) };
        let first = program.heap.start;
        let mut arrays = vec![lent; program.heap.len()];
        if !arrays.is_empty() {
            let steps = program.tasks.iter().flat_map(|task| &task.steps);
            let works = steps.filter_map(|step| if let Step::Work(work) = step { Some(work) } else { None });
            for access in works.flat_map(|work| &work.accesses).filter(|access| !access.mode.writes()) {
                let array = program.array_at(access.start).and_then(|array| array.checked_sub(first));
                if let Some(lent) = array.and_then(|array| arrays.get_mut(array)) {
                    lent.readers += 1;
                }
            }
        }
        Heaps { arrays, first, free: FxHashMap::default() }
    }

    /// Sets how often each array of a heap will be read, in their order, if the program doesn't say it beforehand.
    pub(crate) fn expect(&mut self, readers: &[u32]) {
        self.arrays.iter_mut().zip(readers).for_each(|(lent, &readers)| lent.readers = readers);
    }

    /// Whether an array belongs to a heap.
    pub(crate) fn has(&self, array: usize) -> bool {
        (self.first..self.first + self.arrays.len()).contains(&array)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.arrays.is_empty()
    }

    /// The block of an array. An array that belongs to no heap, or that was not written yet, is its own block.
    pub(crate) fn block(&self, array: usize) -> usize {
        let lent = array.checked_sub(self.first).and_then(|at| self.arrays.get(at));
        lent.filter(|lent| lent.block != NONE).map_or(array, |lent| lent.block as usize)
    }

    /// A PU writes an array of this size: the array gets a block, unless it has one.
    pub(crate) fn take(&mut self, array: usize, bytes: usize, pu: PuId) {
        let Some(lent) = array.checked_sub(self.first).and_then(|at| self.arrays.get_mut(at)) else { return };
        if lent.block == NONE {
            let back = self.free.get_mut(&(pu, bytes)).and_then(Vec::pop);
            (lent.block, lent.owner) = (back.unwrap_or(array as u32), pu);
        }
    }

    /// A task has finished an access to an array of this size. The last reader returns the block.
    pub(crate) fn done(&mut self, array: usize, bytes: usize, access: &Access) {
        let Some(lent) = array.checked_sub(self.first).and_then(|at| self.arrays.get_mut(at)) else { return };
        lent.readers -= u32::from(!access.mode.writes());
        if lent.readers == 0 && lent.block != NONE {
            // It is returned only once, whatever is done with the array afterwards.
            let block = std::mem::replace(&mut lent.block, NONE);
            self.free.entry((lent.owner, bytes)).or_default().push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, Cost, TaskSpec, Work};
    use vicus_memory::distribution::Distribution;
    use vicus_schedule::Mode;

    #[test]
    fn a_block_is_lent_until_the_last_reference_to_its_array_is_gone() {
        let array = |number: usize| ArraySpec { base: number << 20, bytes: 4096, distribution: Distribution::Standard };
        let work = |bytes| {
            let accesses = vec![Access::new(1 << 20, bytes, Mode::Read)];
            Step::Work(Work { leaf: 0, cost: Cost::Nanos(0.0), accesses })
        };
        let task = TaskSpec { steps: vec![work(64), work(0)], ..TaskSpec::default() };
        let program =
            Program { arrays: (1..4).map(array).collect(), heap: 0..3, tasks: vec![task], ..Program::default() };
        let mut heaps = Heaps::new(&program);
        let reads = |bytes| Access::new(1 << 20, bytes, Mode::Read);
        heaps.take(0, 4096, PuId::new(5));
        heaps.done(0, 4096, &reads(64));
        heaps.take(1, 4096, PuId::new(5));
        heaps.done(0, 4096, &reads(0));
        heaps.take(2, 4096, PuId::new(5));
        assert_eq!([heaps.block(1), heaps.block(2)], [1, 0], "array 0 still had it; then it was free");
    }
}
