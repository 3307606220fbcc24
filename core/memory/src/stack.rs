//! The state shared by a pool's threads: a lock-free stack of numbers, and the rest of a block to cut slots from.
//!
//! Treiber's stack ("Systems Programming: Coping with Parallelism", IBM 1986), of numbers instead of pointers, so the
//! head has room for 32 bits changed by every pop: a thread asleep between its look at the head and its exchange errs
//! only if exactly 2^32 pops, or a multiple, came between. Links are never freed, and are read and written as atomics.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The storage of numbers' links.
pub(crate) trait Links {
    /// The link of a number; `None` if there is none yet.
    fn link(&self, number: u32) -> Option<&AtomicU32>;
}

/// A stack of numbers below 2^32 - 1.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The upper half: how many pops there were. The lower half: 1 + the number on top, or 0.
    head: AtomicU64,
}

fn top(head: u64) -> u32 {
    head as u32
}

impl Stack {
    pub(crate) fn new() -> Stack {
        Stack { head: AtomicU64::new(0) }
    }

    /// Puts a number of the caller's on top.
    pub(crate) fn push(&self, links: &impl Links, number: u32) {
        let link = links.link(number).expect("a number's link is entered before the number is given out");
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            link.store(top(head), Ordering::Relaxed);
            let next = head & !u64::from(u32::MAX) | u64::from(number + 1);
            // Release: the thread that pops it sees the link, and the writes to the number's item.
            match self.head.compare_exchange_weak(head, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => head = other,
            }
        }
    }

    /// Takes the number on top.
    pub(crate) fn pop(&self, links: &impl Links) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let number = top(head).checked_sub(1)?;
            let link = links.link(number).expect("the link was entered before the number was pushed");
            // If another thread has popped it meanwhile, this is another link, and the exchange fails.
            let below = link.load(Ordering::Relaxed);
            let pops = (head >> 32).wrapping_add(1) << 32;
            // Acquire: sees the writes to the number's item before its push.
            match self.head.compare_exchange_weak(head, pops | u64::from(below), Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(number),
                Err(other) => head = other,
            }
        }
    }
}

/// The rest of a block: slots are cut from its front. Blocks come one after the other.
#[derive(Debug)]
pub(crate) struct Cut {
    /// The upper half: 1 + the block's number, or 0; the lower half: the next slot. No value comes twice, since no
    /// block does.
    word: AtomicU64,
}

impl Cut {
    pub(crate) fn new() -> Cut {
        Cut { word: AtomicU64::new(0) }
    }

    /// Takes up to `most` slots of the block with `slots` of them: the block's number, the first slot, how many.
    pub(crate) fn take(&self, most: u32, slots: u32) -> Option<(u32, u32, u32)> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let (block, next) = ((word >> 32) as u32, word as u32);
            let count = most.min(slots - next.min(slots));
            if block == 0 || count == 0 {
                return None;
            }
            // Acquire: the block is ready for use.
            let taken = word + u64::from(count);
            match self.word.compare_exchange_weak(word, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some((block - 1, next, count)),
                Err(other) => word = other,
            }
        }
    }

    /// Sets the next block, with `gone` slots taken already. The caller holds a lock, and the block before is used up.
    pub(crate) fn renew(&self, block: u32, gone: u32) {
        self.word.store(u64::from(block + 1) << 32 | u64::from(gone), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl Links for Vec<AtomicU32> {
        fn link(&self, number: u32) -> Option<&AtomicU32> {
            self.get(number as usize)
        }
    }

    #[test]
    fn the_last_one_pushed_is_the_first_one_popped() {
        let links: Vec<AtomicU32> = (0..8).map(|_| AtomicU32::new(0)).collect();
        let stack = Stack::new();
        assert_eq!(stack.pop(&links), None);
        [3, 1, 4].into_iter().for_each(|number| stack.push(&links, number));
        assert_eq!(stack.pop(&links), Some(4));
        [5, 4].into_iter().for_each(|number| stack.push(&links, number));
        assert_eq!([4, 5, 1, 3].map(Some), std::array::from_fn(|_| stack.pop(&links)));
        assert_eq!(stack.pop(&links), None);
    }

    #[test]
    fn every_slot_of_a_block_is_cut_once() {
        let cut = Cut::new();
        assert_eq!(cut.take(4, 10), None, "no block yet");
        cut.renew(0, 3);
        assert_eq!([cut.take(4, 10), cut.take(4, 10), cut.take(4, 10)], [Some((0, 3, 4)), Some((0, 7, 3)), None]);
        cut.renew(1, 10);
        assert_eq!(cut.take(1, 10), None, "all of it was gone already");
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// Items, each with a link and a cell watched by loom: only the holder of the number may write to it.
    struct Items {
        links: [AtomicU32; 4],
        held: [UnsafeCell<u32>; 4],
        stack: Stack,
        cut: Cut,
    }

    impl Links for Items {
        fn link(&self, number: u32) -> Option<&AtomicU32> {
            self.links.get(number as usize)
        }
    }

    impl Items {
        fn new() -> Arc<Items> {
            Arc::new(Items {
                links: std::array::from_fn(|_| AtomicU32::new(0)),
                held: std::array::from_fn(|_| UnsafeCell::new(0)),
                stack: Stack::new(),
                cut: Cut::new(),
            })
        }

        fn hold(&self, number: u32) {
            #[expect(unsafe_code, reason = "loom tells if another thread has it")]
            // SAFETY: the model checks it.
            self.held[number as usize].with_mut(|held| unsafe { *held += 1 });
        }

        fn push(&self, number: u32) {
            self.hold(number);
            self.stack.push(self, number);
        }

        fn pop(&self) -> Option<u32> {
            let popped = self.stack.pop(self);
            popped.iter().for_each(|&number| self.hold(number));
            popped
        }
    }

    fn check(model: impl Fn() + Send + Sync + 'static) {
        // Bounded: all interleavings would take minutes.
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    /// One thread pops while the other pops two and puts the upper one back: the head has the same number again, and
    /// another one below. Finds these mutants: the count of pops left as it is; a push with a relaxed exchange; a pop
    /// with a relaxed look and exchange.
    #[test]
    fn loom_an_item_that_comes_back_to_the_top_is_not_mistaken() {
        check(|| {
            let items = Items::new();
            [2, 1, 0].into_iter().for_each(|number| items.push(number));
            let other = {
                let items = items.clone();
                loom::thread::spawn(move || {
                    let (first, second) = (items.pop(), items.pop());
                    first.into_iter().for_each(|number| items.push(number));
                    second
                })
            };
            let mut all = Vec::from_iter(items.pop());
            all.extend(other.join().unwrap());
            all.extend(std::iter::from_fn(|| items.pop()));
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2]);
        });
    }

    /// Finds this mutant: a number linked to another head than the exchanged one.
    #[test]
    fn loom_what_is_pushed_at_once_is_all_there() {
        check(|| {
            let items = Items::new();
            items.push(0);
            let other = {
                let items = items.clone();
                loom::thread::spawn(move || {
                    items.push(1);
                    items.pop()
                })
            };
            items.push(2);
            let mut all = Vec::from_iter(items.pop());
            items.push(3);
            all.extend(other.join().unwrap());
            all.extend(std::iter::from_fn(|| items.pop()));
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3]);
        });
    }

    /// Two threads cut a block, and one sets the next. Finds these mutants: a cut by load and store; a block set with a
    /// relaxed store.
    #[test]
    fn loom_a_slot_is_cut_once() {
        check(|| {
            let items = Items::new();
            items.cut.renew(0, 0);
            let take = |items: &Items| items.cut.take(1, 2).map(|(block, slot, _)| block * 2 + slot);
            let other = {
                let items = items.clone();
                loom::thread::spawn(move || {
                    let cut: Vec<u32> = std::iter::from_fn(|| take(&items)).take(2).collect();
                    cut.iter().for_each(|&number| items.hold(number));
                    cut
                })
            };
            let mut all: Vec<u32> = std::iter::from_fn(|| take(&items)).take(2).collect();
            all.iter().for_each(|&number| items.hold(number));
            // The content of a block is written before the block is set.
            items.hold(2);
            if items.cut.take(1, 2).is_none() {
                items.cut.renew(1, 0);
            }
            all.extend(other.join().unwrap());
            all.extend(std::iter::from_fn(|| take(&items)));
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3]);
        });
    }
}
