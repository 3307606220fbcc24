//! Placed memory by pointer, in the manner of `malloc`, and queues of pointers with a place for each caller.

use crate::error::{DropFn, Failure, Outcome, guard, guard_or, status};
use crate::runtime::{Threads, threads};
use crate::tasks::{Data, Owned, PieceFn, ended};
use crate::text::{array_mut, free, give, handle, optional, output};
use crate::topology::vicus_place;
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vicus::memory::distribution::Listed;
use vicus::memory::queue::{PushError, TryPopError};
use vicus::memory::{self, DistQueue, Distribution, LfQueue, PlaceError, Placed};
use vicus::threads::block_on;
use vicus::{NodeId, Topology};

/// The blocks of `vicus_alloc` not yet freed by `vicus_free`, by address.
static PLACED: Mutex<BTreeMap<usize, Arc<Placed>>> = Mutex::new(BTreeMap::new());

fn placed() -> MutexGuard<'static, BTreeMap<usize, Arc<Placed>>> {
    PLACED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory beginning at an address.
fn known(address: *const c_void) -> Outcome<Arc<Placed>> {
    let found = placed().get(&address.addr()).cloned();
    found.ok_or_else(|| Failure::argument(format_args!("{address:p} is not where memory of vicus_alloc begins")))
}

impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Failure {
        let status = match error {
            PlaceError::Distribution(_) => status::SETTING,
            _ => status::NO_MEMORY,
        };
        Failure::new(status, error)
    }
}

pub(crate) fn layout(bytes: usize, alignment: usize) -> Outcome<Layout> {
    Layout::from_size_align(bytes, alignment).map_err(|_| {
        Failure::argument(format_args!("the alignment {alignment} is no power of two, or {bytes} bytes are too many"))
    })
}

/// Memory is found at pages of this size or of multiples of it.
const PAGE_BYTES: usize = 4096;

/// From an offset on: the node, and the end of the stretch on this node.
fn stretch(placed: &Placed, offset: usize) -> (Option<NodeId>, usize) {
    let node = placed.node_at(offset);
    let mut end = (offset / PAGE_BYTES + 1) * PAGE_BYTES;
    while end < placed.len() && placed.node_at(end) == node {
        end += PAGE_BYTES;
    }
    (node, end.min(placed.len()))
}

/// # Safety
/// Rules "Handles", "Texts" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_alloc(
    runtime: *const Threads,
    bytes: usize,
    alignment: usize,
    distribution: *const c_char,
    memory: *mut *mut c_void,
) -> i32 {
    guard(|| {
        let out = output(memory, "memory")?;
        // SAFETY: rule "Texts".
        let chosen = unsafe { optional(distribution) }?;
        let chosen: Option<Distribution> = match chosen {
            Some(text) => Some(text.parse().map_err(|error| Failure::new(status::SETTING, error))?),
            None => None,
        };
        let layout = layout(bytes.max(1), if alignment == 0 { 1 } else { alignment })?;
        // SAFETY: rule "Handles".
        let threads = unsafe { threads(runtime) }?;
        let given = threads.runtime().alloc(layout, chosen)?;
        let start = given.start();
        placed().insert(start.addr().get(), Arc::new(given));
        // SAFETY: rule "Outputs".
        unsafe { out.write(start.as_ptr().cast()) };
        Ok(())
    })
}

/// `vicus_policy_fn`.
type PolicyFn = unsafe extern "C" fn(*mut c_void, usize, usize, *mut u32) -> i32;

/// # Safety
/// Rules "Handles", "Callbacks" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_alloc_by(
    runtime: *const Threads,
    bytes: usize,
    alignment: usize,
    policy: Option<PolicyFn>,
    data: *mut c_void,
    memory: *mut *mut c_void,
) -> i32 {
    guard(|| {
        let out = output(memory, "memory")?;
        let policy = policy.ok_or_else(|| Failure::argument("`policy` is null"))?;
        let layout = layout(bytes.max(1), if alignment == 0 { 1 } else { alignment })?;
        // SAFETY: rule "Handles".
        let threads = unsafe { threads(runtime) }?;
        let (data, ended) = (Data(data), AtomicI32::new(status::OK));
        let listed = Listed(|locations, units: &mut [u32]| {
            // SAFETY: rule "Callbacks"; `units` has the length passed with it.
            let status = unsafe { policy(crate::tasks::whole(&data), units.len(), locations, units.as_mut_ptr()) };
            ended.store(status, Ordering::Relaxed);
            if status == status::OK { Ok(()) } else { Err("the policy has failed".to_owned()) }
        });
        let given = threads.runtime().alloc_by(layout, &listed);
        match ended.load(Ordering::Relaxed) {
            status::OK => {}
            status => return Err(Failure::of_callback(status)),
        }
        let given = given?;
        let start = given.start();
        placed().insert(start.addr().get(), Arc::new(given));
        // SAFETY: rule "Outputs".
        unsafe { out.write(start.as_ptr().cast()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_free(memory: *mut c_void) -> i32 {
    guard(|| {
        if memory.is_null() {
            return Ok(());
        }
        let found = placed().remove(&memory.addr());
        // The pages go back when the lock is free.
        found.map(drop).ok_or_else(|| {
            Failure::argument(format_args!("{memory:p} is not where memory of vicus_alloc begins, or was freed"))
        })
    })
}

/// # Safety
/// Rule "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_memory_stretch(
    memory: *const c_void,
    offset: usize,
    node: *mut i32,
    end: *mut usize,
) -> i32 {
    guard(|| {
        let placed = known(memory)?;
        if offset >= placed.len() {
            return Err(Failure::argument(format_args!("there is no byte {offset}, only {} of them", placed.len())));
        }
        let (found, until) = stretch(&placed, offset);
        // SAFETY: rule "Outputs".
        unsafe {
            output(node, "node")?.write(found.map_or(-1, |node| node.index() as i32));
            output(end, "end")?.write(until);
        }
        Ok(())
    })
}

/// # Safety
/// Rule "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_memory_copy(
    memory: *const c_void,
    place: vicus_place,
    copy: *mut *const c_void,
) -> i32 {
    guard(|| {
        let placed = known(memory)?;
        let node = place.get()?.ok_or_else(|| Failure::argument("a node or a core group is expected"))?;
        let bytes = crate::error::as_state(|| placed.copy(node).as_ptr())?;
        // SAFETY: rule "Outputs".
        unsafe { output(copy, "copy")?.write(bytes.cast()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_memory_spread(memory: *mut c_void) -> i32 {
    guard(|| {
        let mut all = placed();
        let found = all.get_mut(&memory.addr());
        let placed = found.ok_or_else(|| Failure::argument(format_args!("{memory:p} is no memory of vicus_alloc")))?;
        let placed = Arc::get_mut(placed).ok_or_else(|| Failure::state("another thread works on that memory"))?;
        placed.spread();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_node_of(address: *const c_void) -> i32 {
    guard_or(-1, || memory::node_of(address.cast()).map_or(-1, |node| node.index() as i32))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_migrate(address: *mut c_void, bytes: usize, node: i32) -> i32 {
    guard(|| {
        // Nodes are known with the process's memory.
        vicus::kit::process_memory(&vicus::environment::defaults());
        let range = address.addr()..address.addr().saturating_add(bytes);
        let moved = match usize::try_from(node) {
            Ok(node) => memory::migrate(range, NodeId::new(node)).map(drop),
            Err(_) if node == to::NEXT_TOUCH => memory::migrate_at_next_touch(range),
            Err(_) => return Err(Failure::argument(format_args!("there is no node {node}"))),
        };
        moved.map_err(|error| {
            let status = match error.kind() {
                ErrorKind::InvalidInput => status::ARGUMENT,
                ErrorKind::OutOfMemory => status::NO_MEMORY,
                _ => status::SYSTEM,
            };
            Failure::new(status, error)
        })
    })
}

/// The target of a move without a node, by the number of the header.
pub(crate) mod to {
    pub(crate) const NEXT_TOUCH: i32 = -1;
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_here() -> i32 {
    guard_or(-1, || memory::here().map_or(-1, |node| node.index() as i32))
}

/// # Safety
/// Rules "Arrays" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_footprint(
    address: *const c_void,
    bytes: usize,
    by_node: *mut usize,
    nodes: usize,
    unknown: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Arrays". Addresses are compared, and no byte is read.
        let (of, out) = unsafe {
            (crate::text::array(address.cast::<u8>(), bytes, "address")?, array_mut(by_node, nodes, "by_node")?)
        };
        let found = memory::footprint(of);
        out.fill(0);
        let mut others = found.unknown;
        for (node, bytes) in found.nodes.into_iter().enumerate() {
            match out.get_mut(node) {
                Some(out) => *out = bytes,
                None => others += bytes,
            }
        }
        if !unknown.is_null() {
            // SAFETY: rule "Outputs".
            unsafe { unknown.write(others) };
        }
        Ok(())
    })
}

/// The pieces of an array's elements, each with the node of its first byte: at most `PIECE_BYTES` each.
fn pieces(placed: &Placed, element: usize, count: usize) -> Vec<(Range<usize>, NodeId)> {
    const PIECE_BYTES: usize = 64 << 10;
    let mut pieces = Vec::new();
    let mut begin = 0;
    while begin < count {
        let offset = begin * element;
        let (node, end) = stretch(placed, offset);
        let end = end.min(offset + PIECE_BYTES);
        // An element belongs to the node of its first byte, also if it ends on another one.
        let end = end.div_ceil(element).clamp(begin + 1, count);
        pieces.push((begin..end, node.unwrap_or_default()));
        begin = end;
    }
    pieces
}

/// # Safety
/// Rules "Handles" and "Callbacks".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_for_each_near(
    runtime: *const Threads,
    memory: *const c_void,
    element_bytes: usize,
    count: usize,
    function: Option<PieceFn>,
    data: *mut c_void,
) -> i32 {
    guard(|| {
        let function = function.ok_or_else(|| Failure::argument("`function` is null"))?;
        let placed = known(memory)?;
        if element_bytes == 0 || element_bytes.checked_mul(count).is_none_or(|bytes| bytes > placed.len()) {
            let message = format!("{count} elements of {element_bytes} bytes are no part of {} bytes", placed.len());
            return Err(Failure::argument(message));
        }
        // SAFETY: rule "Handles".
        let threads = unsafe { threads(runtime) }?;
        let data = Data(data);
        let first: Mutex<Option<Failure>> = Mutex::new(None);
        let failed = || first.lock().unwrap_or_else(PoisonError::into_inner);
        threads.runtime().each_near(pieces(&placed, element_bytes, count), |piece: Range<usize>| {
            if failed().is_some() {
                return;
            }
            let data = &data;
            // SAFETY: rule "Callbacks".
            if let Err(failure) = ended(unsafe { function(data.0, piece.start, piece.end) }) {
                failed().get_or_insert(failure);
            }
        })?;
        first.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    })
}

/// A queue of pointers. If it is freed with elements in it, its maker's function frees them.
pub(crate) struct Queue {
    /// First: its elements are freed before `drop` is forgotten.
    inner: Inner,
    drop: Option<DropFn>,
}

enum Inner {
    /// In the order of the pushes.
    Ordered(LfQueue<Data>),
    /// For consumers near their producers.
    Near(DistQueue<Data>, Topology),
}

impl Queue {
    /// The queue itself, if it has a part at each place of this machine; `name` is the parameter's name.
    pub(crate) fn of_machine(&self, machine: &Topology, name: &str) -> Outcome<&DistQueue<Data>> {
        match &self.inner {
            Inner::Near(queue, own) if own == machine => Ok(queue),
            Inner::Near(..) => Err(Failure::argument(format_args!("`{name}` is a queue for another machine"))),
            Inner::Ordered(_) => {
                Err(Failure::state(format_args!("`{name}` has no places: vicus_queue_new_near makes such a queue")))
            }
        }
    }

    /// The function that frees elements left behind.
    pub(crate) fn drops(&self) -> Option<DropFn> {
        self.drop
    }
}

/// Puts an element at a place; `None` is the caller's place.
pub(crate) fn push(queue: &Queue, place: Option<vicus::Place>, element: Data) -> Outcome {
    match &queue.inner {
        Inner::Ordered(queue) => {
            let pushed = queue.try_push(element);
            pushed.map_err(|_| Failure::new(status::NO_MEMORY, "there is no memory for a queue's next segment"))
        }
        Inner::Near(queue, machine) => {
            let place = place.map_or_else(|| at(vicus_place::default(), machine), Ok)?;
            queue.push(place, element).map_err(|error| match error {
                PushError::Closed(_) => closed(),
                PushError::Exhausted(_, error) => Failure::new(status::NO_MEMORY, error),
            })
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let next = || match &self.inner {
            Inner::Ordered(queue) => queue.pop(),
            Inner::Near(queue, _) => {
                queue.close();
                queue.try_pop(NodeId::default()).ok()
            }
        };
        while let Some(Data(data)) = next() {
            drop(Owned::new(data, self.drop));
        }
    }
}

/// # Safety
/// Rule "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_queue_new(drop: Option<DropFn>, queue: *mut *mut Queue) -> i32 {
    guard(|| {
        crate::version::is_right()?;
        let out = output(queue, "queue")?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, Queue { inner: Inner::Ordered(LfQueue::new()), drop }) };
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_queue_new_near(
    topology: *const Topology,
    drop: Option<DropFn>,
    queue: *mut *mut Queue,
) -> i32 {
    guard(|| {
        let out = output(queue, "queue")?;
        // SAFETY: rule "Handles".
        let machine = unsafe { handle(topology, "topology") }?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, Queue { inner: Inner::Near(DistQueue::new(machine), machine.clone()), drop }) };
        Ok(())
    })
}

/// The caller's place, as given, or from the machine.
pub(crate) fn at(place: vicus_place, machine: &Topology) -> Outcome<vicus::Place> {
    let here = || memory::here().filter(|node| node.index() < machine.nodes.len()).unwrap_or_default();
    Ok(place.on(machine)?.unwrap_or_else(|| here().into()))
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_queue_push(queue: *const Queue, place: vicus_place, element: *mut c_void) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let queue = unsafe { handle(queue, "queue") }?;
        let place = match &queue.inner {
            Inner::Ordered(_) => None,
            Inner::Near(_, machine) => place.on(machine)?,
        };
        push(queue, place, Data(element))
    })
}

fn closed() -> Failure {
    Failure::new(status::CLOSED, "the queue is closed")
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_queue_try_pop(
    queue: *const Queue,
    place: vicus_place,
    element: *mut *mut c_void,
    found: *mut i32,
) -> i32 {
    guard(|| {
        let (element, found) = (output(element, "element")?, output(found, "found")?);
        // SAFETY: rule "Handles".
        let popped = match &unsafe { handle(queue, "queue") }?.inner {
            Inner::Ordered(queue) => queue.pop(),
            Inner::Near(queue, machine) => match queue.try_pop(at(place, machine)?) {
                Ok(element) => Some(element),
                Err(TryPopError::Empty) => None,
                Err(TryPopError::Closed) => return Err(closed()),
            },
        };
        // SAFETY: rule "Outputs".
        unsafe {
            found.write(i32::from(popped.is_some()));
            if let Some(Data(data)) = popped {
                element.write(data);
            }
        }
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_queue_pop(
    queue: *const Queue,
    place: vicus_place,
    element: *mut *mut c_void,
) -> i32 {
    guard(|| {
        let element = output(element, "element")?;
        // SAFETY: rule "Handles".
        let Inner::Near(queue, machine) = &unsafe { handle(queue, "queue") }?.inner else {
            return Err(Failure::state("only a queue of vicus_queue_new_near lets its consumers sleep"));
        };
        let Data(data) = block_on(queue.pop(at(place, machine)?)).map_err(|_| closed())?;
        // SAFETY: rule "Outputs".
        unsafe { element.write(data) };
        Ok(())
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_queue_close(queue: *const Queue) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        match &unsafe { handle(queue, "queue") }?.inner {
            Inner::Ordered(_) => Err(Failure::state("only a queue of vicus_queue_new_near is closed")),
            Inner::Near(queue, _) => {
                queue.close();
                Ok(())
            }
        }
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_queue_free(queue: *mut Queue) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(queue) });
}
