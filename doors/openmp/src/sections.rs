//! How many bytes a task uses from an address on, if its compiler gives the address alone: gcc's `depend` clauses.
//!
//! Programs name the first elements of their array sections, one behind the other. So a section ends at the next name,
//! or at the end of its block, if the block is known ([`crate::placed`]): placed memory, and the C library's large
//! blocks if `libvicus_malloc.so` reports them. In a first pass over an array the next names are not there yet. Then a
//! section is taken to be as long as the step from the one before, or as the shortest step made by tasks of the same
//! code with the same item of their clause. Such a length is a guess, and dealt by where its first bytes lie: too long
//! a guess reaches over the next sections. Without such a step, the task is taken to use one page: a short guess costs
//! less than a long one, which would give the first task the rest of the array.
//!
//! A name that comes again from the same code has its neighbours. Its length is kept in a table read without a lock:
//! this is the cost of a task from its second pass on. Each length is measured again after some uses, and names that
//! come no more are left out as neighbours: the memory may have other sections by then.

use crate::placed::block_of;
use crate::thread::Thread;
use crate::wait::Guarded;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use vicus::tasks::Access;

/// Whether it matters how many bytes tasks use: to the strategy, to the summary, to the trace, or because some are to
/// move.
pub(crate) fn matter(thread: &Thread) -> bool {
    crate::report::is_on() || crate::report::is_traced() || thread.team().deals() || vicus::kit::awaits_touch()
}

/// The bytes behind accesses of single addresses, in a task that runs this function; and for how many of them a length
/// is known. The others are one page.
pub(crate) fn of(function: usize, accesses: &[Access]) -> (Vec<Access>, usize) {
    let mut sections = Vec::with_capacity(accesses.len());
    let (mut known, mut has_open) = (0, false);
    // All memory is no section.
    for access in accesses.iter().filter(|access| access.bytes == 1) {
        let bytes = kept(access.start);
        has_open |= bytes.is_none();
        known += usize::from(bytes.is_some());
        // Its length is 0 as long as it is open.
        sections.push(Access::new(access.start, bytes.unwrap_or(0), access.mode));
    }
    if has_open {
        known += measure_open(function, &mut sections);
    }
    (sections, known)
}

/// Well-known lengths, by address. They are hints: a thread that reads a pair of words while another writes it may get
/// a wrong one.
struct LengthHint {
    address: AtomicUsize,
    /// The bytes, and in the upper bits how often they are used before they are measured again.
    bytes: AtomicUsize,
}

const KEPT: usize = 1 << 13;
static TABLE: [LengthHint; KEPT] =
    [const { LengthHint { address: AtomicUsize::new(0), bytes: AtomicUsize::new(0) } }; KEPT];
const USES_SHIFT: u32 = 48;
const USES: usize = 16;

fn kept_at(address: usize) -> &'static LengthHint {
    &TABLE[address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - KEPT.trailing_zeros())]
}

fn kept(address: usize) -> Option<usize> {
    let one = kept_at(address);
    if one.address.load(Ordering::Relaxed) != address {
        return None;
    }
    let word = one.bytes.load(Ordering::Relaxed);
    let left = (word >> USES_SHIFT).checked_sub(1)?;
    let bytes = word & ((1 << USES_SHIFT) - 1);
    one.bytes.store((left << USES_SHIFT) | bytes, Ordering::Relaxed);
    Some(bytes)
}

fn keep(address: usize, bytes: usize) {
    if bytes < 1 << USES_SHIFT {
        let one = kept_at(address);
        one.address.store(address, Ordering::Relaxed);
        one.bytes.store((USES << USES_SHIFT) | bytes, Ordering::Relaxed);
    }
}

fn drop_kept(address: usize) {
    let one = kept_at(address);
    if one.address.load(Ordering::Relaxed) == address {
        one.address.store(0, Ordering::Relaxed);
    }
}

/// An address named by tasks.
#[derive(Clone, Copy, Default)]
struct Name {
    /// The items, of a function's clause, that named it last: up to four different ones. 0 is none.
    by: [u16; 4],
    /// The step of [`State::step`] of its last naming.
    step: u32,
    /// Its length if it was known well, or 0.
    bytes: usize,
}

/// How well the length of a section is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    /// By its neighbours, which were named before it.
    Known,
    /// By steps between other names, or by neighbours that may not be the nearest ones yet.
    Guessed,
    /// No step is known: the rest of a page.
    Unknown,
}

/// An item of the clause of a function's tasks.
#[derive(Clone, Copy)]
struct Item {
    id: u64,
    /// The address it named last.
    last: usize,
    /// The shortest step from one name to the next within a block; 0 if there was none.
    least: usize,
    /// Whether it has named the beginnings of two blocks in a row, and nothing else since.
    is_whole: bool,
}

struct State {
    names: BTreeMap<usize, Name>,
    items: [Item; ITEMS],
    /// How many names have come.
    step: u32,
}

/// How many items are known at a time. Items with colliding hashes forget each other.
const ITEMS: usize = 512;

impl State {
    const fn new() -> State {
        let none = Item { id: 0, last: 0, least: 0, is_whole: false };
        State { names: BTreeMap::new(), items: [none; ITEMS], step: 0 }
    }
}

impl Default for State {
    fn default() -> State {
        State::new()
    }
}

static STATE: Guarded<State> = Guarded::new(State::new());
/// Whether there is a name in it.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// The most names kept.
const MOST: usize = 1 << 16;
/// In unknown blocks, farther names are no neighbours.
const FAR: usize = 1 << 30;
/// Without a known length, a task uses the rest of the address's page.
const PAGE: usize = 4096;

/// Measures the sections of length 0, and returns how many of these are known.
#[cold]
#[inline(never)]
fn measure_open(function: usize, sections: &mut [Access]) -> usize {
    let _errno = crate::wait::KeepErrno::new();
    // The lock of blocks comes first: freeing a block takes both locks in this order.
    let blocks: Vec<Option<Range<usize>>> =
        sections.iter().map(|one| if one.bytes == 0 { block_of(one.start) } else { None }).collect();
    let mut known = 0;
    // Under the lock nothing large is allocated or freed: allocation takes the lock too.
    STATE.with(|state| {
        IS_USED.store(true, Ordering::Relaxed);
        state.make_room();
        let ids: Vec<u64> = (0..sections.len()).map(|item| id_of(function, item)).collect();
        // All are named first: the rows of one array section end each other.
        let before: Vec<Name> = sections.iter().zip(&ids).map(|(one, id)| state.name(one.start, *id)).collect();
        for (at, section) in sections.iter_mut().enumerate().filter(|(_, section)| section.bytes == 0) {
            let (bytes, length) = state.measure(section.start, ids[at], &before[at], blocks[at].as_ref());
            (section.bytes, section.stride) = (bytes, bytes);
            section.guessed = length == Length::Guessed;
            known += usize::from(length != Length::Unknown);
        }
    });
    known
}

fn id_of(function: usize, item: usize) -> u64 {
    let mixed = (function as u64 ^ ((item as u64) << 56)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).max(1)
}

/// An item in a name: never 0.
fn short(id: u64) -> u16 {
    (id >> 48) as u16 | 1
}

impl State {
    /// Leaves out names that came long ago, if there are too many.
    fn make_room(&mut self) {
        if self.names.len() >= MOST {
            let step = self.step;
            self.names.retain(|_, name| step.wrapping_sub(name.step) < MOST as u32 / 2);
        }
    }

    /// Notes a naming of an address. Returns its state before.
    fn name(&mut self, address: usize, id: u64) -> Name {
        self.step = self.step.wrapping_add(1);
        let (step, by) = (self.step, short(id));
        let name = self.names.entry(address).or_default();
        let before = *name;
        name.step = step;
        if !name.by.contains(&by) {
            name.by.rotate_right(1);
            name.by[0] = by;
        }
        if before.by[0] == 0
            && let Some((&left, _)) = self.names.range(..address).next_back()
        {
            // The new name cuts off the end of the name to its left.
            drop_kept(left);
        }
        before
    }

    /// The nearest recent name in a range, from its end or from its beginning.
    fn neighbour(&mut self, range: Range<usize>, from_end: bool) -> Option<(usize, Name)> {
        // A name with a kept length comes here once in `USES` uses, and others each time.
        let longest = (USES as u32 + 4) * self.names.len() as u32 + 256;
        if range.is_empty() {
            return None;
        }
        loop {
            let mut names = self.names.range(range.clone());
            let (&address, &name) = if from_end { names.next_back() } else { names.next() }?;
            if self.step.wrapping_sub(name.step) <= longest {
                return Some((address, name));
            }
            self.names.remove(&address);
            drop_kept(address);
        }
    }

    /// How many bytes a section has, and how well the number is known.
    fn measure(&mut self, at: usize, id: u64, before: &Name, block: Option<&Range<usize>>) -> (usize, Length) {
        let around = block.cloned().unwrap_or(at.saturating_sub(FAR)..at.saturating_add(FAR));
        let right = self.neighbour(at + 1..around.end, false).map(|(right, _)| right - at);
        let left = self.neighbour(around.start..at, true);
        let room = block.map(|block| block.end - at);
        let item = &mut self.items[(id % ITEMS as u64) as usize];
        if item.id != id {
            *item = Item { id, last: 0, least: 0, is_whole: false };
        }
        let last = std::mem::replace(&mut item.last, at);
        let starts = block.is_some_and(|block| block.start == first_of(block, at));
        if last != 0 && last != at {
            if around.contains(&last) {
                let step = last.abs_diff(at);
                item.least = if item.least == 0 { step } else { item.least.min(step) };
                item.is_whole = false;
            } else {
                item.is_whole = starts;
            }
        }
        let distance = left.map(|(left, _)| at - left);
        let is_again = before.by.contains(&short(id));
        if is_again && last != at {
            let bytes = match (room, right, distance) {
                (Some(_), Some(right), _) => Some(right),
                // The memory behind the last section of a block is unused, or belongs to it: the section is as long as
                // the one before.
                (Some(room), None, Some(distance)) => Some(room.min(distance)),
                (Some(room), None, None) => Some(room),
                // A neighbour may be in another array.
                (None, Some(right), Some(distance)) => Some(right.min(distance)),
                (None, one, other) => {
                    let least = Some(item.least).filter(|&least| least > 0);
                    [one.or(other), least].into_iter().flatten().min()
                }
            };
            if let Some(bytes) = bytes {
                keep(at, bytes);
                if let Some(name) = self.names.get_mut(&at) {
                    name.bytes = bytes;
                }
                return (bytes, Length::Known);
            }
        }
        if is_again && before.bytes > 0 && right.is_none_or(|right| before.bytes <= right) {
            // The same address over and over: nothing else was learned of it.
            keep(at, before.bytes);
            return (before.bytes, Length::Known);
        }
        let own_left = left.filter(|(_, name)| name.by.contains(&short(id))).map(|(left, _)| at - left);
        // A step within a block is of this array; others may be shorter.
        let is_step = block.is_some() && last != 0 && left.is_some_and(|(left, _)| left == last);
        let least = Some(item.least).filter(|&least| least > 0 && !is_step);
        let mut guess = [right, own_left, least].into_iter().flatten().min();
        if starts && item.is_whole && right.is_none() {
            guess = room;
        }
        let guess = guess.or(distance.filter(|_| block.is_some()));
        match guess.map(|guess| guess.min(room.unwrap_or(guess))) {
            Some(bytes) => (bytes, Length::Guessed),
            None => ((PAGE - at % PAGE).min(room.unwrap_or(PAGE)), Length::Unknown),
        }
    }
}

/// The first address of a block, if this one is there or behind a header in front of it.
fn first_of(block: &Range<usize>, at: usize) -> usize {
    if at - block.start < 64 { block.start } else { at }
}

/// Forgets the names of freed memory.
pub(crate) fn forget(block: Range<usize>) {
    if IS_USED.load(Ordering::Relaxed) {
        STATE.with(|state| {
            while let Some((&address, _)) = state.names.range(block.clone()).next() {
                state.names.remove(&address);
                drop_kept(address);
            }
        });
    }
}

/// In a forked child.
pub(crate) fn begin_anew() {
    STATE.begin_anew();
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus::tasks::Mode;

    const EACH: usize = 4 << 20;

    /// One test at a time, each without names, and with addresses of its own.
    fn in_turn() -> impl Drop {
        static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        STATE.with(|state| *state = State::new());
        turn
    }

    /// An address without a block, far from all other numbers' addresses.
    fn array(number: usize) -> usize {
        (0x1000 + number) << 34
    }

    /// The lengths of a task's addresses.
    fn lengths(function: usize, addresses: &[usize]) -> Vec<usize> {
        let accesses: Vec<Access> = addresses.iter().map(|&at| Access::new(at, 1, Mode::ReadWrite)).collect();
        of(function, &accesses).0.iter().map(|access| access.bytes).collect()
    }

    /// Tells of a block as `libvicus_malloc.so` does.
    struct Block(usize, usize);

    impl Block {
        fn new(number: usize, bytes: usize) -> Block {
            let at = array(number);
            crate::placed::vicus_omp_note_block(std::ptr::without_provenance(at), bytes);
            Block(at, bytes)
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            crate::placed::vicus_omp_forget_block(std::ptr::without_provenance(self.0), self.1);
        }
    }

    /// Parts of an array whose memory threads have touched, one of each thread in turn: the first steps reach over all
    /// parts of a thread, and a length by them over parts of other threads.
    #[test]
    fn lengths_of_a_first_pass_are_guesses() {
        let _turn = in_turn();
        for block in [Some(Block::new(15, 32 * EACH)), None] {
            let at = block.as_ref().map_or(array(16), |block| block.0);
            let mut too_long = 0;
            for pass in 0..3 {
                for step in 0..32 {
                    let access = Access::new(at + (step % 8 * 4 + step / 8) * EACH, 1, Mode::ReadWrite);
                    let length = of(151, &[access]).0[0];
                    assert_eq!(length.guessed, pass == 0 && length.bytes > PAGE, "{step}: {} bytes", length.bytes);
                    assert!(length.guessed || length.bytes <= EACH, "{step}: {} bytes", length.bytes);
                    too_long += usize::from(length.bytes > EACH);
                }
            }
            assert!(too_long > 0, "no guess was wrong");
        }
    }

    /// How many of 32 sections get their length, in each of three passes in this order.
    fn passes(function: usize, at: usize, order: impl Fn(usize) -> usize) -> [usize; 3] {
        [0; 3].map(|_| (0..32).filter(|&step| lengths(function, &[at + order(step) * EACH]) == [EACH]).count())
    }

    #[test]
    fn sections_of_a_block_are_known_in_the_first_pass() {
        let _turn = in_turn();
        let block = Block::new(1, 32 * EACH);
        assert_eq!(passes(11, block.0, |step| step), [31, 32, 32]);
        // Other tasks; the names are there already.
        assert_eq!(passes(12, block.0, |step| step), [32; 3]);
        drop(block);
        let block = Block::new(1, 32 * EACH);
        assert_eq!(passes(13, block.0, |step| 31 - step), [31, 32, 32], "backwards");
        drop(block);
        // In any order the second pass is right, and the first one soon.
        let block = Block::new(1, 32 * EACH);
        let [first, second, third] = passes(14, block.0, |step| step * 13 % 32);
        assert!(first >= 16 && [second, third] == [32, 32], "{first}, {second}, {third}");
    }

    #[test]
    fn without_blocks_steps_tell() {
        let _turn = in_turn();
        assert_eq!(passes(21, array(2), |step| step), [31, 32, 32]);
        // The last section of one array and the first one of another are no neighbours.
        assert_eq!(passes(21, array(2) + 64 * EACH, |step| step), [32; 3]);
        assert_eq!(passes(21, array(2), |step| step), [32; 3]);
        assert_eq!(passes(22, array(3), |step| 31 - step), [31, 32, 32]);
    }

    /// Each section is a block of its own, as in matrices made of blocks.
    #[test]
    fn whole_blocks_are_known_after_the_first_one() {
        let _turn = in_turn();
        let blocks: Vec<Block> = (0..8).map(|number| Block::new(40 + number, EACH)).collect();
        for pass in 0..3 {
            for (at, block) in blocks.iter().enumerate() {
                let expected = if pass == 0 && at == 0 { PAGE } else { EACH };
                assert_eq!(lengths(41, &[block.0]), [expected], "pass {pass}, block {at}");
            }
        }
    }

    #[test]
    fn the_first_task_does_not_get_the_rest_of_the_block() {
        let _turn = in_turn();
        let block = Block::new(5, 32 * EACH);
        for _ in 0..100 {
            assert_eq!(lengths(51, &[block.0]), [PAGE], "the same one again says nothing");
        }
        // Neighbours in one construct end each other.
        let three = [0, 1, 2].map(|at| block.0 + at * EACH);
        assert_eq!(lengths(52, &three), [EACH, EACH, EACH]);
        assert_eq!(lengths(51, &[block.0]), [EACH]);
    }

    #[test]
    fn two_kinds_of_tasks_in_turn_have_their_lengths() {
        let _turn = in_turn();
        for block in [Some(Block::new(6, 32 * EACH)), None] {
            let at = block.as_ref().map_or(array(7), |block| block.0);
            let round = |function: usize| {
                (0..32).filter(move |section| {
                    [0, 1].map(|kind| lengths(function + kind, &[at + section * EACH])) == [[EACH]; 2]
                })
            };
            assert!(round(61).count() >= 31);
            assert_eq!((round(61).count(), round(61).count()), (32, 32));
        }
    }

    /// Two arrays with sections of different lengths, used by the same code.
    #[test]
    fn arrays_have_their_own_lengths() {
        let _turn = in_turn();
        let blocks = [(8, EACH), (9, EACH / 4)].map(|(number, each)| (Block::new(number, 16 * each), each));
        for (pass, least) in [(0, 29), (1, 32), (2, 32)] {
            let all =
                (0..16).flat_map(|section| blocks.each_ref().map(|(block, each)| (block.0 + section * each, *each)));
            let right = all.filter(|(at, each)| lengths(81, &[*at]) == [*each]).count();
            assert!(right >= least, "pass {pass}: {right}");
        }
    }

    /// Freed or reused memory has other sections.
    #[test]
    fn other_sections_of_the_same_memory_are_measured_again() {
        let _turn = in_turn();
        let block = Block::new(10, 32 * EACH);
        assert_eq!(passes(101, block.0, |step| step), [31, 32, 32]);
        let at = block.0;
        drop(block);
        let _block = Block::new(10, 32 * EACH);
        let large =
            |function: usize| (0..8).filter(move |section| lengths(function, &[at + section * 4 * EACH]) == [4 * EACH]);
        assert!(large(102).count() >= 7);
        assert_eq!(large(102).count(), 8);
        // Within larger ones: the names between are noticed at once.
        assert_eq!(passes(103, at, |step| step)[1..], [32, 32]);
        assert_eq!(lengths(102, &[at]), [EACH]);
        // And left out when they come no more.
        for _ in 0..2500 {
            large(102).count();
        }
        assert_eq!(large(102).count(), 8);
    }

    #[test]
    fn there_are_never_too_many_names() {
        let _turn = in_turn();
        for at in 0..3 * MOST {
            lengths(111, &[array(11) + at * 64]);
        }
        assert!(STATE.with(|state| state.names.len()) <= MOST);
        forget(array(11)..array(12));
    }

    #[test]
    fn a_name_costs_little() {
        let _turn = in_turn();
        let accesses: Vec<Access> = (0..32).map(|at| Access::new(array(13) + at * EACH, 1, Mode::Read)).collect();
        let time = |rounds: u32| {
            let began = std::time::Instant::now();
            for _ in 0..rounds {
                for access in &accesses {
                    std::hint::black_box(of(131, std::slice::from_ref(access)));
                }
            }
            began.elapsed() / (32 * rounds)
        };
        let (first, later) = (time(1), time(1000));
        println!("{first:?} in a first pass, {later:?} in later ones");
        // Far above the usual time: other tests run beside this one.
        assert!(later.as_nanos() < 5000, "{later:?}");
    }
}
