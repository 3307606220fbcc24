//! A world that checks kernels against their declared accesses.

use std::alloc::Layout;
use std::ops::Range;
use std::sync::Mutex;
use vicus_kernels::{Array, Element, KernelWorld, Leaf, Schedule, Serial, Task, TaskOrder};
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Mode};

/// The content of memory closed to a piece of work; as a float it is NaN.
const GARBAGE: u8 = 0xFF;

/// Runs tasks in the order of submission. While a piece of work runs, all memory without a declared read holds garbage;
/// afterwards, only declared memory may have changed. The declaration must lie within that of its task, or in arrays
/// made by the task itself.
#[derive(Default)]
pub(crate) struct Strict {
    serial: Serial,
    /// The memory of all arrays.
    arrays: Mutex<Vec<Range<usize>>>,
    /// The running tasks, the innermost last.
    tasks: Mutex<Vec<Running>>,
}

/// A running task.
struct Running {
    /// Its declared accesses.
    accesses: Vec<Access>,
    /// The arrays it has made.
    own: Vec<Range<usize>>,
}

/// The bytes of an array covered by accesses of these modes.
fn covered(array: &Range<usize>, accesses: &[Access], modes: &[Mode]) -> Vec<bool> {
    let mut covered = vec![false; array.len()];
    for access in accesses.iter().filter(|access| modes.contains(&access.mode)) {
        for at in access.stretches().flatten().filter(|at| array.contains(at)) {
            covered[at - array.start] = true;
        }
    }
    covered
}

const READS: &[Mode] = &[Mode::Read, Mode::ReadWrite];
const WRITES: &[Mode] = &[Mode::Write, Mode::ReadWrite];

fn memory<'a>(array: &Range<usize>) -> &'a mut [u8] {
    #[expect(unsafe_code, reason = "looks at all arrays' memory")]
    // SAFETY: the world's own memory. It runs everything on one thread, and no references exist outside of a piece of
    // work.
    unsafe {
        std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(array.start), array.len())
    }
}

impl Strict {
    /// Checks that the accesses lie within those of the task.
    fn check_task(&self, leaf: Leaf, array: &Range<usize>, accesses: &[Access]) {
        if let Some(task) = self.tasks.lock().unwrap().last().filter(|task| !task.own.contains(array)) {
            for modes in [READS, WRITES] {
                let (said, may) = (covered(array, accesses, modes), covered(array, &task.accesses, modes));
                let within = said.iter().zip(may).all(|(&said, may)| !said || may);
                assert!(within, "{} {accesses:?} is more than the task said: {:?}", leaf.name, task.accesses);
            }
        }
    }
}

impl KernelWorld for Strict {
    fn threads(&self) -> usize {
        2
    }

    fn array<T: Element>(&self, len: usize, distribution: &Distribution) -> Array<'_, T> {
        let array = self.serial.array::<T>(len, distribution);
        let whole = array.reads(0..len);
        assert!(Layout::array::<T>(len).is_ok_and(|layout| layout.size() == whole.bytes));
        let range = whole.start..whole.start + whole.bytes;
        if let Some(task) = self.tasks.lock().unwrap().last_mut() {
            task.own.push(range.clone());
        }
        self.arrays.lock().unwrap().push(range);
        array
    }

    fn work(&self, leaf: Leaf, accesses: &[Access], f: impl FnOnce()) {
        let arrays = self.arrays.lock().unwrap().clone();
        let stretches: usize = accesses.iter().flat_map(Access::stretches).map(|stretch| stretch.len()).sum();
        let inside: usize = arrays
            .iter()
            .flat_map(|array| accesses.iter().flat_map(Access::stretches).map(move |stretch| (array, stretch)))
            .map(|(array, stretch)| stretch.filter(|at| array.contains(at)).count())
            .sum();
        assert_eq!(inside, stretches, "{} {accesses:?} is in no array", leaf.name);
        let before: Vec<Vec<u8>> = arrays
            .iter()
            .map(|array| {
                self.check_task(leaf, array, accesses);
                let before = memory(array).to_vec();
                let reads = covered(array, accesses, READS);
                memory(array).iter_mut().zip(&reads).filter(|(_, read)| !**read).for_each(|(byte, _)| *byte = GARBAGE);
                before
            })
            .collect();
        f();
        for (array, before) in arrays.iter().zip(before) {
            let (reads, writes) = (covered(array, accesses, READS), covered(array, accesses, WRITES));
            for (at, byte) in memory(array).iter_mut().enumerate().filter(|(at, _)| !writes[*at]) {
                let expected = if reads[at] { before[at] } else { GARBAGE };
                assert_eq!(*byte, expected, "{} {accesses:?} writes {:#x}", leaf.name, array.start + at);
                *byte = before[at];
            }
        }
    }

    fn join<A: Send, B: Send>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        self.serial.join(a, b)
    }

    fn tasks<F: FnOnce() + Send>(&self, order: TaskOrder, tasks: impl Iterator<Item = (Task, F)>) {
        let strictly = tasks.map(|(task, f)| {
            let accesses = task.accesses.clone();
            let body = move || {
                self.tasks.lock().unwrap().push(Running { accesses, own: Vec::new() });
                f();
                self.tasks.lock().unwrap().pop();
            };
            (task, body)
        });
        self.serial.tasks(order, strictly);
    }

    fn each(&self, iterations: usize, schedule: Schedule, body: impl Fn(usize) + Sync) {
        self.serial.each(iterations, schedule, body);
    }
}
