//! The source of a queue's segments.

use crate::heap::Heap;
use crate::memory::{AllocError, Memory};
use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use vicus_topology::Place;

/// Gives memory for segments and takes it back. A queue asks once for many elements and keeps unused segments, so a
/// lock in an implementation is seldom contended.
///
/// # Safety
/// The memory given has the layout, is the caller's alone until it comes back, and lives as long as the source.
#[expect(unsafe_code, reason = "a queue writes where the source says")]
pub unsafe trait SegmentSource: Send + Sync {
    /// Memory of this layout, with arbitrary content.
    ///
    /// # Errors
    /// The source has none left.
    fn take(&self, layout: Layout) -> Result<NonNull<u8>, AllocError>;

    /// Takes memory back.
    ///
    /// # Safety
    /// It came from [`SegmentSource::take`] of this source with this layout, and is not used after this call.
    unsafe fn give(&self, memory: NonNull<u8>, layout: Layout);
}

impl fmt::Debug for dyn SegmentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SegmentSource")
    }
}

/// The program's global allocator: the first touch places the segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSegments;

#[expect(unsafe_code, reason = "allocates")]
// SAFETY: the global allocator makes the same promises.
unsafe impl SegmentSource for SystemSegments {
    fn take(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        assert!(layout.size() > 0, "a segment has a header");
        // SAFETY: the layout is not empty.
        let memory = unsafe { std::alloc::alloc(layout) };
        Ok(NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout)))
    }

    unsafe fn give(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: from `take`, by the caller's promise.
        unsafe { std::alloc::dealloc(memory.as_ptr(), layout) };
    }
}

/// Segments on one node, from a heap of their own.
///
/// ```
/// use std::sync::Arc;
/// use vicus_memory::{FakePages, LfQueue, Memory, NodeSegments, MemoryOptions, QueueOptions};
/// use vicus_topology::{NodeId, Topology};
///
/// let machine = Topology::parse("node:2 core:1").unwrap();
/// let options = MemoryOptions { range_bytes: 32 << 20, superblock_bytes: 1 << 20, ..MemoryOptions::default() };
/// let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
/// let segments = NodeSegments::new(&memory, NodeId::new(1)).unwrap();
/// let queue = LfQueue::with_source(Arc::new(segments), &QueueOptions::default()).unwrap();
/// queue.push("lies on node 1");
/// assert_eq!(memory.counts(NodeId::new(1)).held, 1);
/// assert_eq!(queue.pop(), Some("lies on node 1"));
/// ```
#[derive(Debug)]
pub struct NodeSegments {
    heap: Mutex<Heap>,
}

impl NodeSegments {
    /// A source on the node of a place, or on the nearest with memory. Panics if there is no such place.
    ///
    /// # Errors
    /// There are as many heaps as [`crate::MemoryOptions::heaps`] allows.
    pub fn new(memory: &Arc<Memory>, place: impl Into<Place>) -> Result<NodeSegments, AllocError> {
        Ok(NodeSegments { heap: Mutex::new(Heap::new(memory, memory.node_near(place))?) })
    }

    fn with<R>(&self, f: impl FnOnce(&mut Heap) -> R) -> R {
        f(&mut self.heap.lock().expect("nothing panics behind this lock"))
    }
}

#[expect(unsafe_code, reason = "allocates")]
// SAFETY: the heap makes the same promises, and lives as long as the source.
unsafe impl SegmentSource for NodeSegments {
    fn take(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.with(|heap| heap.alloc(layout))
    }

    unsafe fn give(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: from `take`, by the caller's promise.
        self.with(|heap| unsafe { heap.free(memory, layout) });
    }
}
