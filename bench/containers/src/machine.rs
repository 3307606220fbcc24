//! The memory of the containers: this machine's pages, presented as if there were more nodes.

use std::ptr::NonNull;
use std::sync::Arc;
use vicus_machine::SystemPages;
use vicus_memory::{Memory, MemoryOptions, PageError, PagePlacement, Pages, WhenFull};
use vicus_topology::{NodeId, Topology};

/// A page source with more nodes than the machine has: surplus nodes stand for real ones. Ranges are cut and placed as
/// on a larger machine, which is what can be measured here.
struct Wider {
    pages: SystemPages,
    nodes: usize,
}

impl Wider {
    fn real(&self, node: NodeId) -> NodeId {
        NodeId::new(node.index() % self.nodes)
    }
}

#[expect(unsafe_code, reason = "it is a page source")]
// SAFETY: all calls go to a page source.
unsafe impl Pages for Wider {
    fn page_bytes(&self) -> usize {
        self.pages.page_bytes()
    }

    fn reserve(&self, bytes: usize, align: usize) -> Result<NonNull<u8>, PageError> {
        self.pages.reserve(bytes, align)
    }

    unsafe fn place(&self, start: NonNull<u8>, bytes: usize, placement: PagePlacement<'_>) -> Result<(), PageError> {
        let mut nodes = Vec::new();
        let placement = match placement {
            PagePlacement::On(node, when_full) => PagePlacement::On(self.real(node), when_full),
            PagePlacement::Interleaved(over) => {
                nodes.extend(over.iter().map(|&node| self.real(node)));
                nodes.sort();
                nodes.dedup();
                PagePlacement::Interleaved(&nodes)
            }
            PagePlacement::Standard => PagePlacement::Standard,
        };
        // SAFETY: as for the caller.
        unsafe { self.pages.place(start, bytes, placement) }
    }

    fn may_use(&self, node: NodeId) -> bool {
        self.pages.may_use(self.real(node))
    }

    fn turn(&self, address: usize, nodes: usize) -> usize {
        self.pages.turn(address, nodes.min(self.nodes))
    }

    fn has_room(&self, node: NodeId, bytes: usize) -> bool {
        self.pages.has_room(self.real(node), bytes)
    }

    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize, node: NodeId) -> Result<(), PageError> {
        // SAFETY: as for the caller.
        unsafe { self.pages.commit(start, bytes, self.real(node)) }
    }

    unsafe fn decommit(&self, start: NonNull<u8>, bytes: usize, node: NodeId) {
        // SAFETY: as for the caller.
        unsafe { self.pages.decommit(start, bytes, self.real(node)) };
    }

    unsafe fn relocate(
        &self,
        start: NonNull<u8>,
        bytes: usize,
        to: NodeId,
        when_full: WhenFull,
    ) -> Result<(), PageError> {
        // SAFETY: as for the caller.
        unsafe { self.pages.relocate(start, bytes, self.real(to), when_full) }
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize, align: usize) {
        // SAFETY: as for the caller.
        unsafe { self.pages.release(start, bytes, align) };
    }

    unsafe fn advise_huge(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: as for the caller.
        unsafe { self.pages.advise_huge(start, bytes) };
    }

    fn truth(&self, addresses: &[usize]) -> Vec<Option<NodeId>> {
        self.pages.truth(addresses)
    }
}

/// A memory with at least this many locations.
pub(crate) fn memory(locations: usize) -> anyhow::Result<Arc<Memory>> {
    let real = vicus_machine::this_machine().topology;
    let pages = SystemPages::new(&real);
    if real.nodes.len() >= locations {
        return Ok(Memory::new(Arc::new(pages), &real, MemoryOptions::default())?);
    }
    let wider = Topology::parse(&format!("node:{locations} core:1"))?;
    Ok(Memory::new(Arc::new(Wider { pages, nodes: real.nodes.len() }), &wider, MemoryOptions::default())?)
}
