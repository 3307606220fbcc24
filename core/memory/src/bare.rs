//! The free blocks of a slab whose pages went back to the system.
//!
//! Their numbers stand in the first [`DIRECTORY_BYTES`] of one of them, the directory, and those bytes alone keep their
//! pages. A list through all of them would keep a page of each, and so half of the memory of blocks of two pages.

use std::cell::Cell;
use std::ptr::{NonNull, null_mut};

/// The bytes at the beginning of a directory that stay.
pub(crate) const DIRECTORY_BYTES: usize = 4 << 10;

const MOST_NUMBERS: usize = (DIRECTORY_BYTES - 12) / 4;

#[repr(C)]
struct Directory {
    next: *mut Directory,
    count: u32,
    numbers: [u32; MOST_NUMBERS],
}

const _: () = assert!(size_of::<Directory>() == DIRECTORY_BYTES);

/// The blocks of a slab.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    /// The beginning of the first one.
    pub(crate) start: *mut u8,
    /// Bytes of each.
    pub(crate) bytes: usize,
    pub(crate) count: u32,
}

impl Blocks {
    fn at(self, number: u32) -> *mut u8 {
        self.start.wrapping_add(number as usize * self.bytes)
    }

    fn number(self, block: *mut u8) -> u32 {
        ((block.addr() - self.start.addr()) / self.bytes) as u32
    }
}

/// The blocks without pages: a chain of directories.
#[derive(Debug)]
pub(crate) struct Bare {
    first: Cell<*mut Directory>,
}

impl Bare {
    pub(crate) const fn none() -> Bare {
        Bare { first: Cell::new(null_mut()) }
    }

    pub(crate) fn clear(&self) {
        self.first.set(null_mut());
    }

    /// Takes one of them.
    pub(crate) fn take(&self, blocks: Blocks) -> Option<*mut u8> {
        let first = NonNull::new(self.first.get())?;
        #[expect(unsafe_code, reason = "numbers of blocks stand in one of them")]
        // SAFETY: `add` wrote the directory into a free block, which was not used since; only this slab's owner has it.
        let directory = unsafe { &mut *first.as_ptr() };
        let Some(left) = directory.count.checked_sub(1) else {
            self.first.set(directory.next);
            return Some(first.as_ptr().cast());
        };
        directory.count = left;
        Some(blocks.at(directory.numbers[left as usize]))
    }

    /// Adds a free block, which has at least [`DIRECTORY_BYTES`].
    fn add(&self, block: *mut u8, blocks: Blocks) {
        debug_assert!(blocks.bytes >= DIRECTORY_BYTES, "a directory lies within a block");
        #[expect(unsafe_code, reason = "numbers of blocks stand in one of them")]
        // SAFETY: `add` wrote the directory into a free block, which was not used since; only this slab's owner has it.
        let first = unsafe { self.first.get().as_mut() };
        if let Some(directory) = first
            && (directory.count as usize) < MOST_NUMBERS
        {
            directory.numbers[directory.count as usize] = blocks.number(block);
            directory.count += 1;
            return;
        }
        let directory = block.cast::<Directory>();
        #[expect(unsafe_code, reason = "numbers of blocks stand in one of them")]
        // SAFETY: the block is free and has so many bytes; blocks are aligned to a line. `numbers` are read below
        // `count` only.
        unsafe {
            (&raw mut (*directory).next).write(self.first.get());
            (&raw mut (*directory).count).write(0);
        }
        self.first.set(directory);
    }

    /// Calls `see` with the number of each block, and whether it is a directory.
    fn each(&self, blocks: Blocks, mut see: impl FnMut(u32, bool)) {
        let mut next = self.first.get();
        #[expect(unsafe_code, reason = "numbers of blocks stand in one of them")]
        // SAFETY: `add` wrote the directories into free blocks, which were not used since; only this slab's owner has
        // them.
        while let Some(directory) = unsafe { next.as_ref() } {
            see(blocks.number(next.cast()), true);
            directory.numbers[..directory.count as usize].iter().for_each(|&number| see(number, false));
            next = directory.next;
        }
    }

    /// Adds the blocks that `take_free` has, and calls `give_back` with the begin and the end of stretches of pages in
    /// blocks without pages, some of them added now. `page` is a power of two below the bytes of a block.
    ///
    /// `take_free` calls its argument with each free block, and keeps those that it does not take: neighbours are known
    /// among [`AT_ONCE`] blocks.
    pub(crate) fn strip(
        &self,
        blocks: Blocks,
        page: usize,
        take_free: impl Fn(&mut dyn FnMut(*mut u8) -> bool),
        mut give_back: impl FnMut(usize, usize),
    ) {
        for from in (0..blocks.count).step_by(AT_ONCE as usize) {
            let within = |number: u32| number.checked_sub(from).filter(|&number| number < AT_ONCE);
            let mut added = Bits::NONE;
            take_free(&mut |block| {
                let is_taken = within(blocks.number(block)).inspect(|&number| added.set(number)).is_some();
                if is_taken {
                    self.add(block, blocks);
                }
                is_taken
            });
            let (mut bare, mut directories) = (Bits::NONE, Bits::NONE);
            self.each(blocks, |number, is_directory| {
                if let Some(number) = within(number) {
                    if is_directory { &mut directories } else { &mut bare }.set(number);
                }
            });
            let address = |number: u32| blocks.at(from + number).addr();
            let mut stretch = (0, 0);
            for number in (0..AT_ONCE.min(blocks.count - from)).filter(|&number| added.get(number)) {
                let (mut begin, end) = (address(number), address(number + 1));
                let edge = begin / page * page;
                let is_before_bare = number > 0
                    && (bare.get(number - 1)
                        || directories.get(number - 1) && address(number - 1) + DIRECTORY_BYTES <= edge);
                if directories.get(number) {
                    begin = (begin + DIRECTORY_BYTES).next_multiple_of(page);
                } else if is_before_bare {
                    begin = edge;
                } else {
                    begin = begin.next_multiple_of(page);
                }
                let is_behind_bare = number + 1 < AT_ONCE && bare.get(number + 1);
                let end = if is_behind_bare { end.next_multiple_of(page) } else { end / page * page };
                if begin > stretch.1 {
                    give_back_some(stretch.0, stretch.1, &mut give_back);
                    stretch = (begin, end);
                }
                stretch.1 = stretch.1.max(end);
            }
            give_back_some(stretch.0, stretch.1, &mut give_back);
        }
    }
}

fn give_back_some(begin: usize, end: usize, give_back: &mut impl FnMut(usize, usize)) {
    if begin < end {
        give_back(begin, end);
    }
}

/// So many blocks are looked at together: more than a superblock has by default.
const AT_ONCE: u32 = 4096;

struct Bits([u64; AT_ONCE as usize / 64]);

impl Bits {
    const NONE: Bits = Bits([0; AT_ONCE as usize / 64]);

    fn set(&mut self, number: u32) {
        self.0[number as usize / 64] |= 1 << (number % 64);
    }

    fn get(&self, number: u32) -> bool {
        self.0[number as usize / 64] >> (number % 64) & 1 == 1
    }
}
