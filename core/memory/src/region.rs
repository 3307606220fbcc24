//! Addresses: one reserved range in equal parts, one for each node, so the node of an address is arithmetic.

use crate::pages::{PageError, PagePlacement, Pages, WhenFull};
use crate::slab::Slab;
use std::ptr::NonNull;
use vicus_topology::NodeId;

/// A part of the address space with a descriptor of each address's requested node.
pub trait Region {
    /// Whether the address is in this region. Constant time.
    fn owns(&self, address: *const u8) -> bool;

    /// The node an address was placed on; `None` if it is not in this region, or was not placed.
    fn node_of(&self, address: *const u8) -> Option<NodeId>;
}

/// Parts of nodes are aligned to this, so no huge page reaches into two of them.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Superblocks are a multiple of this.
const UNIT_SHIFT: u32 = 16;

/// How many superblocks' headers fill a page: a node's part has a multiple of this number of superblocks, so no page
/// has headers of two nodes.
const HEADERS: usize = 4096 / size_of::<Slab>();

/// The ranges of all nodes, cut into superblocks, and the superblocks' headers.
#[derive(Debug)]
pub(crate) struct Ranges {
    base: NonNull<u8>,
    /// The sum for all nodes.
    bytes: usize,
    superblock: usize,
    /// Slightly more than 2^64 / (superblock / 2^16): a multiplication instead of a division.
    reciprocal: u64,
    nodes: usize,
    per_node: usize,
    headers: NonNull<Slab>,
    header_bytes: usize,
}

impl Ranges {
    /// Reserves at least `bytes` of addresses for each of `nodes` nodes, and memory for the headers.
    #[expect(unsafe_code, reason = "places and commits what it has just reserved")]
    pub(crate) fn reserve(
        pages: &dyn Pages,
        nodes: usize,
        bytes: usize,
        superblock: usize,
        when_full: WhenFull,
    ) -> Result<(Ranges, Vec<PageError>), PageError> {
        debug_assert!(superblock >= HUGE_PAGE / 2 && superblock.is_multiple_of(1 << UNIT_SHIFT));
        let unit = superblock.max(HUGE_PAGE);
        let per_node = bytes.div_ceil(superblock).max(unit / superblock).next_multiple_of(HEADERS);
        let all = per_node.checked_mul(nodes).and_then(|slots| slots.checked_mul(superblock)).ok_or(PageError::Full)?;
        let base = pages.reserve(all, HUGE_PAGE)?;
        let header_bytes = per_node * nodes * size_of::<Slab>();
        let headers = match pages.reserve(header_bytes, pages.page_bytes().max(4096)) {
            Ok(headers) => headers,
            Err(error) => {
                // SAFETY: just reserved, with this size and alignment.
                unsafe { pages.release(base, all, HUGE_PAGE) };
                return Err(error);
            }
        };
        let mut ranges = Ranges {
            base,
            bytes: all,
            superblock,
            reciprocal: u64::MAX / (superblock >> UNIT_SHIFT) as u64 + 1,
            nodes,
            per_node,
            headers: headers.cast(),
            header_bytes,
        };
        match ranges.place(pages, when_full) {
            Ok(refused) => Ok((ranges, refused)),
            Err(error) => {
                ranges.release(pages);
                Err(error)
            }
        }
    }

    /// Places each node's part and its headers, and commits the headers. Gives the source's refusals: there, the first
    /// touch decides.
    #[expect(unsafe_code, reason = "places and commits what it has reserved")]
    fn place(&self, pages: &dyn Pages, when_full: WhenFull) -> Result<Vec<PageError>, PageError> {
        let part = self.per_node * self.superblock;
        let header_part = self.per_node * size_of::<Slab>();
        let mut refused = Vec::new();
        for node in 0..self.nodes {
            let id = NodeId::new(node);
            // SAFETY: untouched parts of the two ranges, each committed once.
            unsafe {
                let headers = self.headers.cast::<u8>().add(node * header_part);
                let at = PagePlacement::On(id, when_full);
                refused.extend(pages.place(self.base.add(node * part), part, at).err());
                // Headers are small and always needed: they may lie on other nodes.
                let _ = pages.place(headers, header_part, PagePlacement::On(id, WhenFull::Preferred));
                pages.commit(headers, header_part, id)?;
            }
        }
        Ok(refused)
    }

    /// Gives everything back. The ranges are not used after this call.
    #[expect(unsafe_code, reason = "releases what it has reserved")]
    pub(crate) fn release(&mut self, pages: &dyn Pages) {
        // SAFETY: reserved so in `reserve`; called by the owner's drop.
        unsafe {
            pages.release(self.headers.cast(), self.header_bytes, pages.page_bytes().max(4096));
            pages.release(self.base, self.bytes, HUGE_PAGE);
        }
    }

    /// The number of an address's superblock.
    #[inline(always)]
    pub(crate) fn index(&self, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.base.as_ptr().addr());
        if offset >= self.bytes {
            return None;
        }
        // Exact: the quotient's error is below offset / 2^16 / 2^64 × the divisor, and addresses are below 2^48.
        Some(((u128::from((offset >> UNIT_SHIFT) as u64) * u128::from(self.reciprocal)) >> 64) as usize)
    }

    /// The header of a superblock.
    #[inline(always)]
    pub(crate) fn slab<'a>(&self, index: usize) -> &'a Slab {
        debug_assert!(index < self.per_node * self.nodes);
        #[expect(unsafe_code, reason = "headers are in memory of the page source")]
        // SAFETY: there are that many headers, committed, zero at first, and zero is valid. They live as long as this
        // value, and each user of a header got it from a heap or pool of the same memory. All its fields are cells.
        unsafe {
            self.headers.add(index).as_ref()
        }
    }

    /// The number of a superblock, by its header.
    pub(crate) fn index_of(&self, slab: &Slab) -> usize {
        (std::ptr::from_ref(slab).addr() - self.headers.addr().get()) / size_of::<Slab>()
    }

    /// The beginning of a superblock's memory, with the provenance of the whole range.
    #[inline(always)]
    pub(crate) fn address(&self, index: usize) -> NonNull<u8> {
        debug_assert!(index < self.per_node * self.nodes);
        #[expect(unsafe_code, reason = "an offset within the range")]
        // SAFETY: the range has that many superblocks.
        unsafe {
            self.base.add(index * self.superblock)
        }
    }

    /// A pointer into the ranges, as one that may reach all of them: the pointer freed by a caller may come from a
    /// reference to a part of its block.
    #[inline(always)]
    pub(crate) fn whole(&self, pointer: *mut u8) -> *mut u8 {
        self.base.as_ptr().wrapping_add(pointer.addr().wrapping_sub(self.base.as_ptr().addr()))
    }

    pub(crate) fn node(&self, index: usize) -> NodeId {
        NodeId::new(index / self.per_node)
    }

    /// The number of a superblock among those of its node.
    pub(crate) fn within_node(&self, index: usize) -> usize {
        index % self.per_node
    }

    /// The end of a superblock.
    pub(crate) fn end_of(&self, index: usize) -> usize {
        self.base.addr().get() + (index + 1) * self.superblock
    }

    /// The end of the addresses of this superblock's node.
    pub(crate) fn end_of_node(&self, index: usize) -> usize {
        self.base.addr().get() + (index / self.per_node + 1) * self.per_node * self.superblock
    }

    /// The beginning of the ranges, if it is behind an address and before `end`; else `end`.
    pub(crate) fn next(&self, address: usize, end: usize) -> usize {
        let base = self.base.addr().get();
        if address < base { base.min(end) } else { end }
    }

    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }

    /// How many superblocks a node's part has.
    pub(crate) fn per_node(&self) -> usize {
        self.per_node
    }

    pub(crate) fn superblock(&self) -> usize {
        self.superblock
    }
}

impl Region for Ranges {
    fn owns(&self, address: *const u8) -> bool {
        self.index(address.addr()).is_some()
    }

    fn node_of(&self, address: *const u8) -> Option<NodeId> {
        self.index(address.addr()).map(|index| self.node(index))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::pages::{FakePages, SystemCall};

    #[test]
    fn the_node_of_an_address_is_arithmetic() {
        for superblock in [1 << 20, 3 << 20, (1 << 20) + (5 << 16)] {
            let pages = FakePages::new(3);
            let (mut ranges, refused) = Ranges::reserve(&pages, 3, 40 << 20, superblock, WhenFull::Strict).unwrap();
            assert!(refused.is_empty());
            let base = ranges.base.as_ptr();
            assert_eq!(base.addr() % (2 << 20), 0);
            let part = ranges.per_node * superblock;
            assert_eq!(part % (2 << 20), 0, "no huge page has two nodes");
            let step = if cfg!(miri) { 3_061_007 } else { 61_007 };
            for offset in (0..3 * part).step_by(step).chain([part - 1, part, 2 * part - 1, 2 * part, 3 * part - 1]) {
                let at = base.wrapping_add(offset);
                assert_eq!(ranges.index(at.addr()), Some(offset / superblock));
                assert_eq!(ranges.node_of(at), Some(NodeId::new(offset / part)));
            }
            for outside in [base.wrapping_sub(1), base.wrapping_add(3 * part), std::ptr::null_mut()] {
                assert!(!ranges.owns(outside));
                assert_eq!(ranges.node_of(outside), None);
            }
            let placed = pages
                .take_calls()
                .into_iter()
                .filter(|call| matches!(call, SystemCall::Place(_, bytes, _, WhenFull::Strict) if *bytes == part));
            assert_eq!(placed.count(), 3);
            ranges.release(&pages);
        }
    }
}
