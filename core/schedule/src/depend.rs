//! The earlier tasks each task has to wait for, by the data read and written.

use crate::{Access, Mode};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Orders tasks by their data. A task waits for the last writer of each byte it touches, and, where it writes, for the
/// byte's readers since then. Edges implied by others may be left out.
///
/// The caller numbers the tasks in the order of their addition. Numbers may be left out.
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
/// A stretch costs a search in a tree with an entry for each piece of memory between two borders. It costs a look into
/// a hash table if all accesses so far were of single bytes, as in programs that know their data by address alone.
/// Nothing is allocated if the same pieces recur, unless several tasks independent of each other are followed by
/// several tasks of another kind. A long run stays small if its tasks are retired: then the pieces are those of
/// unfinished tasks, and a bounded number of others.
#[derive(Debug, Default)]
pub struct Dependences {
    memory: AccessMap,
    over: Over,
    /// Beyond this many pieces, those of finished tasks are given up.
    most_pieces: usize,
}

/// How many pieces of finished tasks may stay, so the pieces of a usual program are not made again.
const SPARE_PIECES: usize = 1 << 16;

/// Likewise for single bytes: making one again costs less than a table larger than the core's caches.
const SPARE_BYTES: usize = 1 << 11;

impl Dependences {
    /// No tasks yet.
    pub fn new() -> Dependences {
        Dependences::default()
    }

    /// Appends each unfinished earlier task this one must wait for, ascending, each once.
    ///
    /// Panics if the task's number is not greater than those before.
    pub fn add(&mut self, task: usize, accesses: &[Access], predecessors: &mut Vec<usize>) {
        let in_order = |mode| if mode == Mode::Commutative { Mode::ReadWrite } else { mode };
        self.add_as(task, accesses.iter().map(|access| (access, in_order(access.mode))), predecessors);
    }

    /// Like [`Dependences::add`], but a task with a commutative access does not wait for earlier tasks with a
    /// commutative access to the same bytes. The caller keeps tasks apart that name the same first byte of such an
    /// access.
    ///
    /// ```
    /// use vicus_schedule::{Access, Dependences, Mode};
    /// let (mut dependences, mut earlier) = (Dependences::new(), Vec::new());
    /// let sum = |mode| [Access::new(0x1000, 8, mode)];
    /// for (task, mode) in [Mode::Write, Mode::Commutative, Mode::Commutative, Mode::Read].into_iter().enumerate() {
    ///     dependences.add_commuting(task, &sum(mode), &mut earlier);
    /// }
    /// assert_eq!(earlier, [0, 0, 1, 2]); // both wait for the writer, and the reader for both
    /// ```
    pub fn add_commuting(&mut self, task: usize, accesses: &[Access], predecessors: &mut Vec<usize>) {
        self.add_as(task, accesses.iter().map(|access| (access, access.mode)), predecessors);
    }

    fn add_as<'a>(
        &mut self,
        task: usize,
        accesses: impl Iterator<Item = (&'a Access, Mode)>,
        predecessors: &mut Vec<usize>,
    ) {
        self.over.begin(task);
        let from = predecessors.len();
        for (access, mode) in accesses {
            let mut touch = Touch { task, mode, over: &self.over, predecessors, from };
            stretches(access).for_each(|stretch| self.memory.touch(stretch, &mut touch));
        }
        sort_tail(predecessors, from);
        let spare = if self.memory.pieces.is_empty() { SPARE_BYTES } else { SPARE_PIECES };
        if self.memory.len() > self.most_pieces.max(spare) {
            self.memory.give_up_finished(&self.over);
            self.most_pieces = 2 * self.memory.len();
        }
    }

    /// Notes the end of a task: later tasks don't wait for it. All its predecessors must be over, too.
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

/// One access of a task during its addition.
struct Touch<'a> {
    task: usize,
    mode: Mode,
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

/// The tasks that touched each byte.
#[derive(Debug, Default)]
struct AccessMap {
    /// Single bytes by their addresses. Invariant: there are none if there are pieces.
    bytes: FxHashMap<usize, Piece>,
    /// By their beginnings. Invariant: they are not empty and don't overlap.
    pieces: BTreeMap<usize, Piece>,
    /// Kept for its memory: the ranges of one access not yet touched by a task.
    gaps: Vec<Range<usize>>,
}

impl AccessMap {
    fn len(&self) -> usize {
        self.bytes.len() + self.pieces.len()
    }

    /// Forgets the pieces no later task may have to wait for.
    fn give_up_finished(&mut self, over: &Over) {
        self.pieces.retain(|_, piece| piece.matters(over));
        self.bytes.retain(|_, piece| piece.matters(over));
        // The next look through a table is one through its room, too.
        self.bytes.shrink_to((2 * self.bytes.len()).max(SPARE_BYTES));
    }

    fn touch(&mut self, bytes: Range<usize>, touch: &mut Touch<'_>) {
        if self.pieces.is_empty() && bytes.len() == 1 {
            return self.bytes.entry(bytes.start).or_insert_with(|| Piece::new(bytes.end)).touch(touch);
        }
        // Partly overlapping accesses are found in the tree alone.
        if !self.bytes.is_empty() {
            self.pieces.extend(std::mem::take(&mut self.bytes));
        }
        // Usually the same blocks recur.
        if let Some(piece) = self.pieces.get_mut(&bytes.start).filter(|piece| piece.end == bytes.end) {
            return piece.touch(touch);
        }
        self.split(bytes.start);
        self.split(bytes.end);
        let mut start = bytes.start;
        // Tasks commute if they name the same bytes. Some of these bytes have been named otherwise.
        let is_new = self.pieces.range(bytes.clone()).next().is_none();
        let mode = if touch.mode == Mode::Commutative && !is_new { Mode::ReadWrite } else { touch.mode };
        let touch = &mut Touch { mode, predecessors: &mut *touch.predecessors, ..*touch };
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
            let mut piece = Piece::new(gap.end);
            piece.touch(touch);
            self.pieces.insert(gap.start, piece);
        }
    }

    /// Makes a border here if it is inside of a piece.
    fn split(&mut self, at: usize) {
        if let Some((_, left)) = self.pieces.range_mut(..at).next_back()
            && left.end > at
        {
            // The halves are no longer the bytes named by the piece's tasks.
            if left.mode == Mode::Commutative {
                left.mode = Mode::ReadWrite;
            }
            let right = left.clone();
            left.end = at;
            self.pieces.insert(at, right);
        }
    }
}

/// Bytes touched by the same tasks.
#[derive(Clone, Debug)]
struct Piece {
    end: usize,
    /// The last writers before the tasks of `beside`; all of `beside` wait for them.
    before: Before,
    /// The tasks since then, independent of each other. Invariant: ascending.
    beside: Beside,
    /// The mode of the tasks of `beside`. Invariant: not a write, known by `before` alone, unless a piece with
    /// commutative tasks was split.
    mode: Mode,
}

/// The last writers of a piece: one as a rule, several if they were concurrent or commutative.
#[derive(Clone, Debug)]
enum Before {
    None,
    One(usize),
    Several(Box<[usize]>),
}

/// Tasks independent of each other: mostly few, such as the readers of a neighbour's data.
type Beside = SmallVec<[usize; 6]>;

impl Before {
    fn tasks(&self) -> &[usize] {
        match self {
            Before::None => &[],
            Before::One(task) => std::slice::from_ref(task),
            Before::Several(tasks) => tasks,
        }
    }
}

/// From this many tasks beside each other on, finished ones are dropped before memory is taken for more.
const MANY_BESIDE: usize = 8;

impl Piece {
    /// Bytes up to this address, not yet touched by a task.
    fn new(end: usize) -> Piece {
        Piece { end, before: Before::None, beside: Beside::new(), mode: Mode::Read }
    }

    fn touch(&mut self, touch: &mut Touch<'_>) {
        if matches!(touch.mode, Mode::Write | Mode::ReadWrite) {
            // Each of those beside each other waits for those before.
            let last = if self.beside.is_empty() { self.before.tasks() } else { &self.beside };
            last.iter().for_each(|&earlier| touch.wait_for(earlier));
            self.beside.clear();
            self.before = Before::One(touch.task);
            return;
        }
        if self.mode != touch.mode {
            // They are waited for instead of those before them, since all of them wait for these.
            if !self.beside.is_empty() {
                self.before = match self.beside[..] {
                    [one] => Before::One(one),
                    _ => Before::Several(self.beside[..].into()),
                };
                self.beside.clear();
            }
            self.mode = touch.mode;
        }
        self.before.tasks().iter().for_each(|&earlier| touch.wait_for(earlier));
        if self.beside.last() != Some(&touch.task) {
            if self.beside.len() == self.beside.capacity() && self.beside.len() >= MANY_BESIDE {
                self.beside.retain(|other| !touch.over.contains(*other));
            }
            self.beside.push(touch.task);
        }
    }

    /// Whether a later task may have to wait for one of its tasks.
    fn matters(&self, over: &Over) -> bool {
        self.beside.iter().chain(self.before.tasks()).any(|&task| !over.contains(task))
    }
}

/// The finished tasks, as one number and a bit for each younger task.
#[derive(Debug, Default)]
struct Over {
    /// All before this one are over. Invariant: a multiple of 64.
    base: usize,
    /// From `base` on, a bit for each finished task.
    bits: VecDeque<u64>,
    /// One more than the highest number of a task.
    next: usize,
}

impl Over {
    /// Notes a task with this number; the numbers left out before it count as over.
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
        assert!(dependences.memory.pieces[&0].beside.len() <= 4 * MANY_BESIDE);
        assert!(dependences.over.bits.len() <= 2);
        dependences.add(4 * SPARE_PIECES, &[Access::new(0, 1, Mode::Write)], &mut earlier);
        assert_eq!(earlier, (4 * SPARE_PIECES - 10..4 * SPARE_PIECES).collect::<Vec<_>>());
    }

    #[test]
    fn a_long_run_of_single_bytes_stays_small() {
        let (mut dependences, mut earlier) = (Dependences::new(), Vec::new());
        for task in 0..100 * SPARE_BYTES {
            dependences.add(task, &[Access::new(task + 1, 1, Mode::Write)], &mut earlier);
            if let Some(ends) = task.checked_sub(10) {
                dependences.retire(ends);
            }
            assert!(dependences.memory.bytes.len() <= SPARE_BYTES + 1);
        }
        assert!(earlier.is_empty() && dependences.memory.pieces.is_empty());
        // Ten are under way: tasks with larger accesses find them.
        dependences.add(100 * SPARE_BYTES, &[Access::new(0, usize::MAX, Mode::ReadWrite)], &mut earlier);
        assert_eq!(earlier, (100 * SPARE_BYTES - 10..100 * SPARE_BYTES).collect::<Vec<_>>());
        assert!(dependences.memory.bytes.is_empty());
        earlier.clear();
        dependences.add(100 * SPARE_BYTES + 1, &[Access::new(7, 1, Mode::Read)], &mut earlier);
        assert_eq!(earlier, [100 * SPARE_BYTES]);
    }

    #[test]
    fn a_task_that_never_ends_stays_known() {
        for bytes in [1, 8] {
            let mut dependences = Dependences::new();
            dependences.add(0, &[Access::new(8, bytes, Mode::Write)], &mut Vec::new());
            for task in 1..3 * SPARE_PIECES {
                dependences.add(task, &[Access::new(16 * task + 16, bytes, Mode::Write)], &mut Vec::new());
                dependences.retire(task);
            }
            let mut earlier = Vec::new();
            dependences.add(3 * SPARE_PIECES, &[Access::new(7 + bytes, 1, Mode::Read)], &mut earlier);
            assert_eq!(earlier, [0]);
        }
    }
}
