//! The kernel's answers about pages, and their lifetime.
//!
//! The kernel moves pages without notice (its NUMA balancing, another process's move_pages), and freed addresses come
//! back with other pages. So an answer counts for a second; and one in a thousand look-ups of a range asks again,
//! however little time has passed. A noticed free ([`forget`]) ends an answer at once.
//!
//! Each page has one word, in a table indexed by the lower bits of its number. A word has the rest of the number, to
//! tell apart two pages sharing it: the later one takes it. Words are read and written without a lock, and the table is
//! part of the program's zeroed memory. So a free inside any allocator may be noted here, and a forked child finds
//! nothing locked.

use std::sync::atomic::{AtomicU64, Ordering};
use vicus_os::calls;
use vicus_topology::NodeId;

/// Number of words in the table: 4 GB of usual pages. Words never used take no memory.
const PAGES: usize = 1 << 20;

/// How often a range is looked up until the kernel is asked again.
const LOOKS: u64 = 1000;

/// A tick of the clock, in milliseconds.
const TICK_MS: u64 = 250;

/// For how many ticks an answer counts: together with the current one, at most a second.
const TICKS: u64 = 4;

/// The parts of a word, from its lowest bits on. A word of 0 says nothing: nodes are counted from 1.
const NODE_BITS: u32 = 12;
const COUNT_BITS: u32 = 10;
const TICK_BITS: u32 = 17;
const COUNT: u32 = NODE_BITS;
const TICK: u32 = COUNT + COUNT_BITS;
const TAG: u32 = TICK + TICK_BITS;

const _: () = assert!(LOOKS < 1 << COUNT_BITS);

static WORDS: [AtomicU64; PAGES] = [const { AtomicU64::new(0) }; PAGES];

/// Number of forgets. An answer to an earlier question is not kept: it may be about pages gone since.
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The word of a page, and its tag.
fn word(page: usize) -> (&'static AtomicU64, u64) {
    let above = page / PAGES;
    // Mixed, so that arrays at a distance of the table's size do not all share their words.
    let at = (page ^ above.wrapping_mul(0x9_e375)) % PAGES;
    (&WORDS[at], above as u64 & mask(64 - TAG))
}

/// The time, in ticks that begin again after some hours.
pub(crate) fn now() -> u64 {
    (calls::coarse_ms() / TICK_MS) & mask(TICK_BITS)
}

/// The node of a page, if an answer of the kernel counts at this time.
pub(crate) fn node(page: usize, now: u64) -> Option<NodeId> {
    let (word, tag) = word(page);
    let word = word.load(Ordering::Relaxed);
    let age = now.wrapping_sub(word >> TICK) & mask(TICK_BITS);
    let counts = word >> TAG == tag && age < TICKS;
    (word & mask(NODE_BITS)).checked_sub(1).filter(|_| counts).map(|node| NodeId::new(node as usize))
}

/// Counts a look-up of a range beginning with this page. Returns whether it must ask the kernel, regardless of kept
/// answers.
pub(crate) fn look(page: usize) -> bool {
    let (word, tag) = word(page);
    let before = word.load(Ordering::Relaxed);
    if before == 0 || before >> TAG != tag {
        return false;
    }
    let is_due = (before >> COUNT) & mask(COUNT_BITS) >= LOOKS - 1;
    if !is_due {
        // If two threads look at once, one count may be lost; but a forget or a new answer in between is never
        // overwritten.
        let _ = word.compare_exchange_weak(before, before + (1 << COUNT), Ordering::Relaxed, Ordering::Relaxed);
    }
    is_due
}

/// To be taken before the kernel is asked, for [`keep`].
pub(crate) fn forgotten() -> u64 {
    FORGOTTEN.load(Ordering::Acquire)
}

/// Keeps an answer from the kernel, asked when [`forgotten`] was this number.
pub(crate) fn keep(page: usize, node: Option<NodeId>, now: u64, before: u64) {
    let (word, tag) = word(page);
    let node = node.map_or(0, |node| node.index() as u64 + 1);
    if node > mask(NODE_BITS) || FORGOTTEN.load(Ordering::Acquire) != before {
        return;
    }
    match node {
        0 if word.load(Ordering::Relaxed) >> TAG == tag => word.store(0, Ordering::Relaxed),
        0 => {}
        _ => word.store((tag << TAG) | (now << TICK) | node, Ordering::Relaxed),
    }
}

/// The pages from one number up to another are others from now on.
pub(crate) fn forget(pages: std::ops::Range<usize>) {
    FORGOTTEN.fetch_add(1, Ordering::AcqRel);
    if pages.len() >= PAGES {
        return WORDS.iter().filter(|word| word.load(Ordering::Relaxed) != 0).for_each(|word| {
            word.store(0, Ordering::Relaxed);
        });
    }
    for page in pages {
        let (word, tag) = word(page);
        let before = word.load(Ordering::Relaxed);
        // A zero word is left alone: a write would take memory for it.
        if before != 0 && before >> TAG == tag {
            word.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Pages for this test alone.
    const FIRST: usize = 0xabcd << 20;

    /// One test at a time: each forgets something, those of moves as well.
    pub(crate) fn in_turn() -> impl Drop {
        static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
        TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn keep_now(page: usize, node: usize, now: u64) {
        keep(page, Some(NodeId::new(node)), now, forgotten());
    }

    #[test]
    fn an_answer_counts_for_a_second() {
        let _turn = in_turn();
        let end = mask(TICK_BITS);
        for began in [0, 1, 7, end - 1, end] {
            keep_now(FIRST, 3, began);
            for age in 0..4 {
                assert_eq!(node(FIRST, (began + age) & end), Some(NodeId::new(3)), "{began} + {age}");
            }
            assert_eq!(node(FIRST, (began + 4) & end), None, "{began}");
        }
    }

    #[test]
    fn one_in_a_thousand_looks_asks_again() {
        let _turn = in_turn();
        let page = FIRST + 1;
        for _ in 0..3 {
            keep_now(page, 4094, 5);
            assert_eq!((1..=1000).find(|_| look(page)), Some(1000));
            assert!(look(page), "until the kernel has been asked");
        }
        assert!(!look(FIRST + 2), "nothing is known of it");
    }

    #[test]
    fn what_is_forgotten_is_unknown() {
        let _turn = in_turn();
        for page in 10..20 {
            keep_now(FIRST + page, 1, 5);
        }
        forget(FIRST + 12..FIRST + 15);
        let known: Vec<bool> = (10..20).map(|page| node(FIRST + page, 5).is_some()).collect();
        assert_eq!(known, [true, true, false, false, false, true, true, true, true, true]);
        // An answer to an earlier question is too late.
        let before = forgotten();
        forget(FIRST + 16..FIRST + 17);
        keep(FIRST + 16, Some(NodeId::new(0)), 5, before);
        assert_eq!(node(FIRST + 16, 5), None);
        // A page without a node any more.
        keep(FIRST + 17, None, 5, forgotten());
        assert_eq!(node(FIRST + 17, 5), None);
        // Another page of the same word is told apart.
        let other = (1..64).map(|far| FIRST + far * PAGES).find(|&page| std::ptr::eq(word(page).0, word(FIRST + 18).0));
        assert!(other.is_none_or(|other| node(other, 5).is_none()));
    }
}
