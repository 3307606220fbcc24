//! The memory of this process, and each thread's heap in it.
//!
//! One [`Memory`] serves the whole process, as one address has one owner. The first runtime installs it, since it knows
//! the machine; until then nothing here costs anything. A thread gets its heap with its first block: on its seat's node
//! if its seat keeps it there, else on the node it runs on at the moment.

use crate::defaults::{Defaults, said};
use crate::memory::lookout::{Duty, Lookout};
use crate::memory::migrate;
use crate::sync::Padded;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
#[cfg(not(loom))]
use std::time::Duration;
use std::time::Instant;
use vicus_memory::distribution::Distribution;
use vicus_memory::{Heap, Locks, Memory, MemoryOptions, PageError};
use vicus_os::calls;
use vicus_os::pages::{ARE_PLACED, SystemPages, addresses_left, nodes_online, prefer_node, refused};
use vicus_topology::{NodeId, Topology};

/// The state shared by all threads.
pub(crate) struct Process {
    pub(crate) memory: Arc<Memory>,
    /// Whether an [`crate::Allocator`] and envelopes may take blocks from it.
    pub(crate) serves_all: bool,
    /// The system's numbers of the memory's nodes.
    numbers: Vec<u32>,
    /// By the system's number of a CPU, its nearest node.
    near: Vec<NodeId>,
    began: Instant,
    /// The last told tick.
    told: AtomicU64,
    /// A tick of [`Memory::tick`], in milliseconds: unused memory is given back after [`MemoryOptions::decay_ticks`] of
    /// them.
    tick_ms: u64,
    /// On lines of its own: each free reads it, and working seats write the fields beside it.
    lookout: Padded<Lookout>,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// Default time in milliseconds after which unused memory is given back.
const DECAY_MS: u64 = 10_000;

/// Number of heaps, above any program's number of threads that move data: an additional heap costs a mailbox.
const HEAPS: usize = 1024;

/// This part of a node's memory may wait for reuse, as superblocks, and the same again as mapped blocks. A query's
/// tables are freed at its end and wanted again by the next query, and fresh pages cost more than the work on them.
/// Memory freed while all seats sleep may wait up to four times as much ([`Memory::give_back`]).
const WAITING_PART: u64 = 16;

/// The memory of this process, if a runtime has installed it.
#[inline]
pub(crate) fn process() -> Option<&'static Process> {
    PROCESS.get()
}

/// The memory for a runtime on a machine: the process's, installed by the first runtime. `None`: there are no addresses
/// for it. Features that could not be used go to `warnings`.
pub(crate) fn memory_for(
    topology: &Topology,
    chosen: Option<MemoryOptions>,
    defaults: &Defaults,
    warnings: &mut Vec<String>,
) -> Option<Arc<Memory>> {
    let numbers: Vec<u32> = topology.nodes.iter().map(|node| node.os_index).collect();
    let elsewhere = nodes_online().and_then(|online| numbers.iter().find(|number| !online.contains(number)).copied());
    if let Some(other) = elsewhere {
        warnings.push(format!("memory lies where it is touched first: this machine has no node {other}"));
    }
    // A machine that is only described, or described differently from the machine of the process's memory: its memory
    // is used only through the runtime's own methods.
    let is_another = elsewhere.is_some() || PROCESS.get().is_some_and(|process| process.numbers != numbers);
    let has_memory = PROCESS.get().is_some();
    let wanted = chosen.clone();
    let options = |warnings: &mut Vec<String>| chosen.unwrap_or_else(|| options(topology, defaults, warnings));
    let memory = match is_another {
        true => reserve(topology, options(warnings)),
        false => install(topology, numbers, options, defaults, warnings).map(|process| Arc::clone(&process.memory)),
    };
    if let (Some(wanted), true, Ok(memory)) = (wanted, has_memory && !is_another, &memory) {
        // The reserved size depends on the available addresses.
        let same = MemoryOptions { range_bytes: memory.options().range_bytes, ..wanted };
        if same != *memory.options() {
            warnings.push("the process has its memory already: options for it have no effect".to_owned());
        }
    }
    let memory = memory.map_err(|warning| warnings.push(warning)).ok()?;
    warnings.extend(refused(topology.nodes.len()));
    // With one node there is nothing to place; and a node without memory, or without any for this process, is a normal
    // case.
    if topology.nodes.len() > 1
        && let Some(refusal @ PageError::Refused(_)) = memory.placing_refused()
    {
        warnings.push(format!("memory lies where it is touched first (mbind: {refusal}), which may be far"));
    }
    Some(memory)
}

/// The memory of this process: the existing one, or one installed now, as the first runtime would with these defaults.
/// `None`: there are no addresses for it. The second part lists the features that could not be used.
///
/// ```
/// use vicus_machine::{Defaults, MachineRuntime, process_memory};
///
/// let (memory, _) = process_memory(&Defaults::default());
/// let memory = memory.expect("there are addresses");
/// let runtime = MachineRuntime::builder().threads(1).start();
/// assert!(std::sync::Arc::ptr_eq(runtime.memory().expect("it was installed before"), &memory));
/// ```
pub fn process_memory(defaults: &Defaults) -> (Option<Arc<Memory>>, Vec<String>) {
    let found = vicus_os::this_machine();
    let mut warnings = found.warnings;
    let memory = memory_for(&found.topology, None, defaults, &mut warnings);
    (memory, warnings)
}

fn install(
    topology: &Topology,
    numbers: Vec<u32>,
    options: impl FnOnce(&mut Vec<String>) -> MemoryOptions,
    defaults: &Defaults,
    warnings: &mut Vec<String>,
) -> Result<&'static Process, String> {
    if let Some(process) = PROCESS.get() {
        return Ok(process);
    }
    // The C library ends the process if it has no memory to note this variable's destructor: it does so before
    // addresses are reserved.
    let _ = HERE.try_with(|_| ());
    let cpus = topology.pus.iter().map(|pu| pu.os_index as usize + 1).max().unwrap_or(0);
    let mut near = vec![NodeId::new(0); cpus];
    topology.pus.iter().for_each(|pu| near[pu.os_index as usize] = pu.node);
    let memory = reserve(topology, options(warnings))?;
    let serves_all = said(&defaults.allocator_places, "", warnings).unwrap_or(ARE_PLACED);
    let decay_ms = said(&defaults.decay_ms, &format!("; it stays at {DECAY_MS}"), warnings).unwrap_or(DECAY_MS);
    let tick_ms = (decay_ms / memory.options().decay_ticks.max(1)).max(1);
    let (began, told, lookout) = (Instant::now(), AtomicU64::new(0), Padded(Lookout::new()));
    let process = Process { memory, serves_all, numbers, near, began, told, tick_ms, lookout };
    let mut is_first = false;
    // Another thread may have been faster; then its memory stays, and this one goes.
    let process = PROCESS.get_or_init(|| {
        is_first = true;
        process
    });
    if is_first {
        survive_forks();
    }
    Ok(process)
}

thread_local! {
    /// The memory's locks, while this thread forks.
    static LOCKS: RefCell<Option<(crate::memory::migrate::Locks, Locks<'static>)>> = const { RefCell::new(None) };
}

/// Lets the child of a fork use the memory: the fork holds the locks, so that they are free in the child.
fn survive_forks() {
    extern "C" fn before() {
        let locks = process().map(|process| (crate::memory::migrate::lock(), process.memory.lock()));
        let _ = LOCKS.try_with(|held| held.replace(locks));
    }
    extern "C" fn after() {
        let _ = LOCKS.try_with(RefCell::take);
    }
    calls::around_forks(before, after);
}

/// The options for a program without its own.
pub(crate) fn options(topology: &Topology, defaults: &Defaults, warnings: &mut Vec<String>) -> MemoryOptions {
    let instead = "; memory without a distribution of its own lies as the machine does it";
    let distribution = said(&defaults.distribution, instead, warnings).unwrap_or(Distribution::Standard);
    let node_bytes = || topology.nodes.iter().map(|node| node.bytes).filter(|&bytes| bytes > 0);
    let (range_bytes, placed_bytes) = addresses(node_bytes(), topology.nodes.len(), addresses_left());
    let options = MemoryOptions { heaps: HEAPS, distribution, range_bytes, placed_bytes, ..MemoryOptions::default() };
    let Some(waiting) = node_bytes().min().map(|bytes| (bytes / WAITING_PART) as usize) else { return options };
    MemoryOptions { superblocks_waiting: waiting / options.superblock_bytes, mapped_waiting_bytes: waiting, ..options }
}

/// Addresses in a node's range per byte of its memory. More than one, because superblocks are not full, and because
/// some requested blocks are never touched.
const ADDRESSES_EACH: u64 = 2;

/// Least number of addresses, unless the process is limited: a small machine may have swapped more.
const LEAST_ADDRESSES: u64 = 16 << 30;

/// The fraction of the process's limited addresses that the ranges of all nodes may take together; placed memory may
/// take the same again. The program has the rest: for its stacks, its files, and its own memory.
const LIMITED_PART: u64 = 8;

/// The addresses of each node's range, and those for placed memory: in proportion to the nodes' memory, since tools and
/// limits count them as if they were memory.
fn addresses(bytes: impl Iterator<Item = u64> + Clone, nodes: usize, left: Option<u64>) -> (usize, usize) {
    let sized = |bytes: u64| bytes.saturating_mul(ADDRESSES_EACH).clamp(LEAST_ADDRESSES, 1 << 40);
    let part = left.map_or(u64::MAX, |left| left / LIMITED_PART);
    let range = sized(bytes.clone().max().unwrap_or(0)).min(part / nodes.max(1) as u64);
    let placed = sized(bytes.sum()).min(part);
    (range as usize, placed as usize)
}

/// With as many addresses as the system gives: a limit on them is no reason to do without.
fn reserve(topology: &Topology, mut options: MemoryOptions) -> Result<Arc<Memory>, String> {
    loop {
        if options.range_bytes < SMALLEST_RANGE && addresses_left().is_some() {
            return Err(format!(
                "no memory is placed on nodes: the limit on addresses (ulimit -v) leaves too few; {} are the least",
                SMALLEST_RANGE as u64 * LIMITED_PART * topology.nodes.len() as u64
            ));
        }
        match Memory::new(
            Arc::new(SystemPages::new(topology).telling(migrate::forget_moved)),
            topology,
            options.clone(),
        ) {
            Ok(memory) => return Ok(memory),
            Err(error) if options.range_bytes <= SMALLEST_RANGE => {
                return Err(format!("no memory is placed on nodes: {error}"));
            }
            Err(_) => options.range_bytes /= 2,
        }
    }
}

/// A range of fewer bytes a node holds too little to be worth it.
const SMALLEST_RANGE: usize = 256 << 20;

impl Process {
    /// The system's number of a node of this memory.
    pub(crate) fn number(&self, node: NodeId) -> Option<u32> {
        self.numbers.get(node.index()).copied()
    }

    /// The node of this memory with this number in the system.
    pub(crate) fn node(&self, number: u32) -> Option<NodeId> {
        self.numbers.iter().position(|&own| own == number).map(NodeId::new)
    }

    /// The node this thread runs on.
    pub(crate) fn node_here(&self) -> NodeId {
        calls::cpu_here().and_then(|cpu| self.near.get(cpu)).copied().unwrap_or(NodeId::new(0))
    }

    /// Tells the memory the time, now and then.
    pub(crate) fn tick(&self) {
        let now = self.began.elapsed().as_millis() as u64 / self.tick_ms;
        if self.told.fetch_max(now, Ordering::Relaxed) < now {
            self.memory.tick(now);
        }
    }
}

/// Asks for untouched pages of the process on a node, as long as the node has room. Does nothing if the process's
/// memory has one node, or if the system refuses: then they lie on the node of their first touch.
pub fn prefer(start: usize, bytes: usize, node: usize) {
    if let Some(process) = process().filter(|process| process.numbers.len() > 1)
        && let Some(&number) = process.numbers.get(node)
    {
        prefer_node(start, bytes, number);
    }
}

/// Whether a thread sits on a seat.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seat {
    None,
    /// On a seat with a thread bound to this node.
    On(NodeId),
    /// On a seat with an unbound thread: the seat's node says nothing about the thread's place.
    Anywhere,
}

/// A thread's heap.
struct Here {
    heap: UnsafeCell<Option<Heap>>,
    seat: Cell<Seat>,
    /// Whether the heap is in use: meanwhile its own memory comes from elsewhere.
    busy: Cell<bool>,
    /// The seat's duty from its beginning until it ends or is woken.
    duty: Cell<Option<Duty>>,
}

thread_local! {
    static HERE: Here = const {
        Here {
            heap: UnsafeCell::new(None),
            seat: Cell::new(Seat::None),
            busy: Cell::new(false),
            duty: Cell::new(None),
        }
    };
}

impl Here {
    #[inline]
    fn with<R>(&self, use_heap: impl FnOnce(&mut Option<Heap>) -> R) -> Option<R> {
        if self.busy.replace(true) {
            return None;
        }
        let idle = Idle(&self.busy);
        #[expect(unsafe_code, reason = "a heap that is used by this thread alone")]
        // SAFETY: the value is this thread's, and `busy` was false: no other reference to it exists.
        let result = use_heap(unsafe { &mut *self.heap.get() });
        drop(idle);
        Some(result)
    }

    /// The node of this thread's seat, or else of the thread at this moment.
    fn node(&self, process: &Process) -> NodeId {
        match self.seat.get() {
            Seat::On(node) => node,
            Seat::None | Seat::Anywhere => process.node_here(),
        }
    }

    #[cold]
    #[inline(never)]
    fn open(&self, process: &Process) -> Option<Heap> {
        Heap::new(&process.memory, self.node(process)).ok()
    }
}

/// Marks the heap as free again, even after a panic.
struct Idle<'a>(&'a Cell<bool>);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Lets this thread use its heap; `None` while it is in use already, when the thread is about to end, or if there are
/// too many heaps.
#[inline]
pub(crate) fn with_heap<R>(process: &Process, use_heap: impl FnOnce(&mut Heap) -> R) -> Option<R> {
    HERE.try_with(|here| {
        here.with(|heap| {
            if heap.is_none() {
                *heap = here.open(process);
            }
            heap.as_mut().map(use_heap)
        })
    })
    .ok()
    .flatten()
    .flatten()
}

/// Lets this thread use its heap if it has one.
#[inline]
fn with_own(use_heap: impl FnOnce(&mut Heap)) {
    let _ = HERE.try_with(|here| here.with(|heap| heap.as_mut().map(use_heap)));
}

/// Seats this thread. Its heap is on the node with this number; without one, on the node of its first block, and chosen
/// again after a long sleep.
pub(crate) fn sit(process: &Process, number: Option<u32>) {
    let seat = number.and_then(|number| process.node(number)).map_or(Seat::Anywhere, Seat::On);
    let _ = HERE.try_with(|here| {
        here.seat.set(seat);
        // One from before may be of another node.
        here.with(|heap| heap.take_if(|heap| here.node(process) != heap.node()));
    });
}

/// This thread may run elsewhere from now on. Its next block comes from a heap of its new node.
pub fn thread_moved() {
    let Some(process) = process() else { return };
    let _ = HERE.try_with(|here| here.with(|heap| heap.take_if(|heap| here.node(process) != heap.node())));
}

/// The node of this thread's seat, or else of the thread at this moment.
pub(crate) fn node_of_thread(process: &Process) -> NodeId {
    HERE.try_with(|here| here.node(process)).unwrap_or_else(|_| process.node_here())
}

/// A task has finished: others' blocks go home, and own ones come back.
#[inline]
pub fn finish_task() {
    with_own(Heap::finish_task);
}

/// The thread is about to sleep: its reserve of blocks may go to others.
pub(crate) fn trim() {
    // First: what is given up here waits from now on.
    tick();
    with_own(Heap::trim);
    // An unbound thread may wake elsewhere: it takes a heap there then.
    if process().is_some_and(|process| process.memory.nodes() > 1) {
        let _ = HERE.try_with(|here| (here.seat.get() == Seat::Anywhere).then(|| here.with(Option::take)));
    }
}

/// The thread has been idle for long: pages of its heap and of ended ones that have no block in use go back to the
/// system.
pub(crate) fn give_back_pages() {
    while give_back_some_pages() {}
}

/// [`give_back_pages`] for a few superblocks, some milliseconds; returns whether there may be more.
pub(crate) fn give_back_some_pages() -> bool {
    let mut has_more = false;
    with_own(|heap| has_more = heap.give_back_pages());
    // Also what `trim` has left: a heap that was dropped there.
    process().is_some_and(|process| process.memory.give_back_pages()) || has_more
}

/// The seats of a runtime, as memory knows them.
pub(crate) trait Seats: Send + Sync {
    /// Whether their threads are about to end, or have.
    fn is_closing(&self) -> bool;

    /// Wakes one that sleeps, and returns whether there was one.
    fn wake_any(&self) -> bool;
}

/// The runtimes with seats to ask to look after freed memory.
static RUNTIMES: Mutex<Vec<Weak<dyn Seats>>> = Mutex::new(Vec::new());

/// Lets a runtime's seats be asked to look after freed memory.
pub(crate) fn register(seats: Weak<dyn Seats>) {
    let mut runtimes = RUNTIMES.lock().expect("nothing panics under this lock");
    runtimes.retain(|runtime| runtime.strong_count() > 0);
    runtimes.push(seats);
}

/// Something was freed. If this thread has no seat, all seats may sleep for good, and the freed memory would wait for
/// ever.
#[inline]
pub(crate) fn freed(process: &Process) {
    if process.lookout.0.is_told() {
        return;
    }
    let has_no_seat = HERE.try_with(|here| here.seat.get() == Seat::None).unwrap_or(false);
    if has_no_seat {
        freed_outside(process);
    }
}

#[cold]
fn freed_outside(process: &Process) {
    if let Some(duty) = process.lookout.0.tell() {
        wake_seat_or_give_up(process, duty);
    }
}

/// If the list of runtimes is in use, or no runtime has seats any more, the next free tries again: an allocator must
/// not wait for a lock.
fn wake_seat_or_give_up(process: &Process, duty: Duty) {
    if !wake_seat().unwrap_or(false) {
        process.lookout.0.give_up(duty);
    }
}

/// Wakes a seat of any runtime not about to end. Returns whether there is such a runtime: if none of its seats sleeps,
/// one will look after freed memory before it does. `None` if the list of runtimes is in use.
fn wake_seat() -> Option<bool> {
    let mut has_seats = false;
    for place in 0.. {
        // One at a time: the last reference to one may be the one made here, and it is not dropped under the lock.
        let runtime = match RUNTIMES.try_lock().ok()?.get(place) {
            None => break,
            Some(runtime) => runtime.upgrade(),
        };
        if let Some(runtime) = runtime.filter(|runtime| !runtime.is_closing()) {
            has_seats = true;
            if runtime.wake_any() {
                break;
            }
        }
    }
    Some(has_seats)
}

/// This seat sleeps, and begins to look after freed memory. Returns how long it sleeps before it tells the time: after
/// that, no memory freed before still waits.
#[cfg(not(loom))]
pub(crate) fn look_after() -> Option<Duration> {
    let process = process()?;
    let duty = process.lookout.0.begin();
    let _ = HERE.try_with(|here| here.duty.set(Some(duty)));
    Some(Duration::from_millis((process.memory.options().decay_ticks + 1) * process.tick_ms))
}

/// This seat has told the time, and stops looking after memory. Returns whether some was freed meanwhile: then it has
/// to look after it again.
#[cfg(not(loom))]
pub(crate) fn leave_off() -> bool {
    let duty = HERE.try_with(|here| here.duty.take()).ok().flatten();
    process().zip(duty).is_some_and(|(process, duty)| process.lookout.0.end(duty))
}

/// This seat is awake. Memory it has looked after without telling the time is for another seat, as this one may have a
/// long task.
#[cfg(not(loom))]
pub(crate) fn put_down() {
    let duty = HERE.try_with(|here| here.duty.take()).ok().flatten();
    let Some((process, duty)) = process().zip(duty) else { return };
    if let Some(duty) = process.lookout.0.put_down(duty) {
        wake_seat_or_give_up(process, duty);
    }
}

/// A seat is left for good. Memory freed and not looked after yet is for another seat, maybe of another runtime.
pub(crate) fn leave_seat() {
    let Some(process) = process() else { return };
    if let Some(duty) = process.lookout.0.leave() {
        wake_seat_or_give_up(process, duty);
    }
}

/// Gives back some of the waiting memory beyond its bound; returns whether there is more.
#[cfg(not(loom))]
pub(crate) fn give_back() -> bool {
    process().is_some_and(|process| process.memory.give_back())
}

/// Time has passed: memory that has waited for long goes back to the system.
pub(crate) fn tick() {
    if let Some(process) = process() {
        process.tick();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn gib(bytes: &[u64], left: Option<u64>) -> (u64, u64) {
        let (range, placed) =
            addresses(bytes.iter().map(|bytes| bytes * GIB), bytes.len(), left.map(|left| left * GIB));
        (range as u64 / GIB, placed as u64 / GIB)
    }

    /// What happened: the reserved addresses were 1 TiB for each node, and tools and limits took them for memory in
    /// use.
    #[test]
    fn addresses_are_in_proportion_to_memory() {
        assert_eq!(gib(&[64], None), (128, 128));
        assert_eq!(gib(&[64, 0, 32], None), (128, 192));
        // A small machine, an unknown one, and one larger than the addresses to spare.
        assert_eq!(gib(&[2], None), (16, 16));
        assert_eq!(gib(&[], None), (16, 16));
        assert_eq!(gib(&[4096], None), (1024, 1024));
    }

    #[test]
    fn most_of_the_addresses_that_a_limit_leaves_are_the_programs() {
        assert_eq!(gib(&[64], Some(16)), (2, 2));
        assert_eq!(gib(&[64, 64], Some(16)), (1, 2));
        assert_eq!(gib(&[64], Some(4096)), (128, 128));
    }
}
