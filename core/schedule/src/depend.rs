//! Which earlier tasks a task has to wait for, by what they read and write.

use crate::Access;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Orders tasks by their data. A task waits for the last one that wrote bytes which it reads or writes, and for those that have
/// read bytes since which it writes. Edges that follow from others may be left out.
///
/// Tasks are numbered by the caller, in the order in which they are added. Numbers may be left out.
///
/// ```
/// use vicus_schedule::{Access, Dependences, Mode};
/// let (mut dependences, mut earlier) = (Dependences::new(), Vec::new());
/// let cell = |mode| [Access::new(0x1000, 8, mode)];
/// for (task, mode) in [Mode::Write, Mode::Read, Mode::Read].into_iter().enumerate() {
///     dependences.add(task, &cell(mode), &mut earlier);
/// }
/// assert_eq!(earlier, [0, 0]); // both readers wait for the writer
/// earlier.clear();
/// dependences.retire(0);
/// dependences.retire(1);
/// dependences.add(3, &cell(Mode::ReadWrite), &mut earlier);
/// assert_eq!(earlier, [2]); // the only one that is not over
/// ```
///
/// A stretch costs a search in a tree with an entry for each piece of memory between two borders. Nothing is allocated if the
/// same pieces recur. A long run stays small if its tasks are retired: then the pieces are those of unfinished tasks, and a
/// bounded number of others.
#[derive(Debug, Default)]
pub struct Dependences {
    memory: AccessMap,
    over: Over,
    /// Beyond this many pieces, those of finished tasks are given up.
    most_pieces: usize,
}

/// How many pieces of finished tasks may stay, so that those of a usual program need not be made again.
const SPARE_PIECES: usize = 1 << 16;

impl Dependences {
    /// No tasks yet.
    pub fn new() -> Dependences {
        Dependences::default()
    }

    /// Appends each earlier task that this one must wait for: ascending, each once, and none that is over.
    ///
    /// Panics if the task's number is not greater than those before.
    pub fn add(&mut self, task: usize, accesses: &[Access], predecessors: &mut Vec<usize>) {
        self.over.begin(task);
        let from = predecessors.len();
        for access in accesses {
            let mut touch = Touch { task, writes: access.mode.writes(), over: &self.over, predecessors, from };
            stretches(access).for_each(|stretch| self.memory.touch(stretch, &mut touch));
        }
        sort_tail(predecessors, from);
        if self.memory.pieces.len() > self.most_pieces.max(SPARE_PIECES) {
            self.memory.pieces.retain(|_, piece| piece.matters(&self.over));
            self.most_pieces = 2 * self.memory.pieces.len();
        }
    }

    /// Notes that a task is over: later tasks don't wait for it. All tasks that it waited for must be over, too.
    pub fn retire(&mut self, task: usize) {
        self.over.insert(task);
    }
}

/// The parts of an access that are not empty, in as few ranges as possible.
fn stretches(access: &Access) -> impl Iterator<Item = Range<usize>> + use<> {
    let dense = access.rows > 1 && access.stride == access.bytes;
    let one = Access { bytes: access.total_bytes(), rows: 1, ..*access };
    if dense { one } else { *access }.stretches().filter(|stretch| !stretch.is_empty())
}

/// Sorts the elements from `from` on, and removes repetitions.
fn sort_tail(list: &mut Vec<usize>, from: usize) {
    list[from..].sort_unstable();
    let mut kept = from;
    for at in from..list.len() {
        if at == from || list[at] != list[kept - 1] {
            list[kept] = list[at];
            kept += 1;
        }
    }
    list.truncate(kept);
}

/// One access of a task that is being added.
struct Touch<'a> {
    task: usize,
    writes: bool,
    over: &'a Over,
    predecessors: &'a mut Vec<usize>,
    /// The index at which this task's predecessors begin.
    from: usize,
}

impl Touch<'_> {
    fn wait_for(&mut self, earlier: usize) {
        let known = earlier == self.task || self.predecessors[self.from..].last() == Some(&earlier);
        if !known && !self.over.contains(earlier) {
            self.predecessors.push(earlier);
        }
    }
}

/// Which tasks touched which bytes.
#[derive(Debug, Default)]
struct AccessMap {
    /// By their beginnings. Invariant: they are not empty and don't overlap.
    pieces: BTreeMap<usize, Piece>,
    /// Kept for its memory: the ranges of one access that no task has touched.
    gaps: Vec<Range<usize>>,
}

impl AccessMap {
    fn touch(&mut self, bytes: Range<usize>, touch: &mut Touch<'_>) {
        // Usually the same blocks recur.
        if let Some(piece) = self.pieces.get_mut(&bytes.start).filter(|piece| piece.end == bytes.end) {
            return piece.touch(touch);
        }
        self.split(bytes.start);
        self.split(bytes.end);
        let mut start = bytes.start;
        for (&at, piece) in self.pieces.range_mut(bytes.clone()) {
            if start < at {
                self.gaps.push(start..at);
            }
            start = piece.end;
            piece.touch(touch);
        }
        if start < bytes.end {
            self.gaps.push(start..bytes.end);
        }
        for gap in self.gaps.drain(..) {
            let mut piece = Piece { end: gap.end, writer: None, readers: Vec::new() };
            piece.touch(touch);
            self.pieces.insert(gap.start, piece);
        }
    }

    /// Makes a border here if it is inside of a piece.
    fn split(&mut self, at: usize) {
        if let Some((_, left)) = self.pieces.range_mut(..at).next_back()
            && left.end > at
        {
            let right = left.clone();
            left.end = at;
            self.pieces.insert(at, right);
        }
    }
}

/// Bytes that the same tasks touched.
#[derive(Clone, Debug)]
struct Piece {
    end: usize,
    /// The task that wrote them last.
    writer: Option<usize>,
    /// The tasks that have read them since. Invariant: ascending.
    readers: Vec<usize>,
}

/// From this many readers on, those that are over are dropped before memory is taken for more.
const MANY_READERS: usize = 8;

impl Piece {
    fn touch(&mut self, touch: &mut Touch<'_>) {
        if touch.writes {
            // Each reader waits for the writer.
            match (self.readers.as_slice(), self.writer) {
                ([], Some(writer)) => touch.wait_for(writer),
                (readers, _) => readers.iter().for_each(|&reader| touch.wait_for(reader)),
            }
            self.readers.clear();
            self.writer = Some(touch.task);
            return;
        }
        if let Some(writer) = self.writer {
            touch.wait_for(writer);
        }
        if self.readers.last() != Some(&touch.task) {
            if self.readers.len() == self.readers.capacity() && self.readers.len() >= MANY_READERS {
                self.readers.retain(|&reader| !touch.over.contains(reader));
            }
            self.readers.push(touch.task);
        }
    }

    /// Whether a later task may have to wait for one of its tasks.
    fn matters(&self, over: &Over) -> bool {
        self.readers.iter().chain(&self.writer).any(|&task| !over.contains(task))
    }
}

/// The tasks that are over, as one number and a bit for each younger one.
#[derive(Debug, Default)]
struct Over {
    /// All before this one are over. Invariant: a multiple of 64.
    base: usize,
    /// From `base` on, a bit for each task that is over.
    bits: VecDeque<u64>,
    /// One more than the highest number of a task.
    next: usize,
}

impl Over {
    /// Notes that there is a task with this number; the numbers left out before it count as over.
    fn begin(&mut self, task: usize) {
        assert!(task >= self.next, "task {task} is added after task {}", self.next.wrapping_sub(1));
        (self.next..task).for_each(|skipped| self.insert(skipped));
        self.next = task + 1;
    }

    fn insert(&mut self, task: usize) {
        let Some(bit) = task.checked_sub(self.base) else { return };
        while self.bits.len() <= bit / 64 {
            self.bits.push_back(0);
        }
        self.bits[bit / 64] |= 1 << (bit % 64);
        while self.bits.front() == Some(&u64::MAX) {
            self.bits.pop_front();
            self.base += 64;
        }
    }

    fn contains(&self, task: usize) -> bool {
        match task.checked_sub(self.base) {
            None => true,
            Some(bit) => self.bits.get(bit / 64).is_some_and(|bits| bits >> (bit % 64) & 1 == 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

    #[test]
    fn a_long_run_stays_small() {
        let (mut dependences, mut earlier) = (Dependences::new(), Vec::new());
        let table = Access::new(0, 64, Mode::Read);
        for task in 0..4 * SPARE_PIECES {
            // Each task reads one table and writes a place of its own; ten tasks are under way.
            dependences.add(task, &[table, Access::new(64 * (task + 1), 64, Mode::Write)], &mut earlier);
            if let Some(ends) = task.checked_sub(10) {
                dependences.retire(ends);
            }
        }
        assert!(earlier.is_empty());
        assert!(dependences.memory.pieces.len() <= SPARE_PIECES + 1, "{} pieces", dependences.memory.pieces.len());
        assert!(dependences.memory.pieces[&0].readers.len() <= 4 * MANY_READERS);
        assert!(dependences.over.bits.len() <= 2);
        dependences.add(4 * SPARE_PIECES, &[Access::new(0, 1, Mode::Write)], &mut earlier);
        assert_eq!(earlier, (4 * SPARE_PIECES - 10..4 * SPARE_PIECES).collect::<Vec<_>>());
    }

    #[test]
    fn a_task_that_never_ends_stays_known() {
        let mut dependences = Dependences::new();
        dependences.add(0, &[Access::new(8, 8, Mode::Write)], &mut Vec::new());
        for task in 1..3 * SPARE_PIECES {
            dependences.add(task, &[Access::new(16 * task + 16, 8, Mode::Write)], &mut Vec::new());
            dependences.retire(task);
        }
        let mut earlier = Vec::new();
        dependences.add(3 * SPARE_PIECES, &[Access::new(12, 1, Mode::Read)], &mut earlier);
        assert_eq!(earlier, [0]);
    }
}
