//! The world without tasks: all work is done at once, in the order of submission.

use crate::{Array, Element, KernelWorld, Leaf, Schedule, Task, TaskOrder};
use std::alloc::Layout;
use std::sync::Mutex;
use vicus_memory::distribution::Distribution;
use vicus_schedule::Access;

/// Runs a kernel on the calling thread.
///
/// ```
/// use vicus_kernels::{Kernel, Map, Serial};
/// let result = Map { vectors: 3, bytes: 4096, ..Map::default() }.run(&Serial::default(), || (), || ());
/// assert!(result > 0.0);
/// ```
#[derive(Default)]
pub struct Serial {
    /// The memory of its arrays, by address.
    memory: Mutex<Vec<(usize, Layout)>>,
}

impl KernelWorld for Serial {
    fn threads(&self) -> usize {
        1
    }

    fn array<T: Element>(&self, len: usize, _: &Distribution) -> Array<'_, T> {
        let layout = Layout::array::<T>(len.max(1)).expect("an array fits into the address space");
        #[expect(unsafe_code, reason = "arrays of all types lie in one list")]
        // SAFETY: the layout is not empty.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        assert!(!start.is_null(), "{} bytes of memory for an array", layout.size());
        self.memory.lock().expect("nothing panics under this lock").push((start.expose_provenance(), layout));
        Array::new(start.cast(), len)
    }

    fn work(&self, _: Leaf, _: &[Access], f: impl FnOnce()) {
        f();
    }

    fn join<A: Send, B: Send>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        (a(), b())
    }

    fn tasks<F: FnOnce() + Send>(&self, _: TaskOrder, tasks: impl Iterator<Item = (Task, F)>) {
        tasks.for_each(|(_, f)| f());
    }

    fn each(&self, iterations: usize, _: Schedule, body: impl Fn(usize) + Sync) {
        (0..iterations).for_each(body);
    }
}

impl Drop for Serial {
    fn drop(&mut self) {
        for (start, layout) in self.memory.get_mut().expect("nothing panics under this lock").drain(..) {
            #[expect(unsafe_code, reason = "gives the arrays' memory back")]
            // SAFETY: from `array`, with this layout; arrays don't outlive the world.
            unsafe {
                std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(start), layout);
            }
        }
    }
}
