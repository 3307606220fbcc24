//! Memory placed over the nodes in whole pages, by the user or the program: for `libvicus_malloc.so`, for `omp_alloc`
//! by an allocator with traits, and for `omp_malloc`. Also the C library's large blocks, as `libvicus_malloc.so`
//! reports them.
//!
//! The process's memory (`vicus::memory`) is installed with the first placed block, which takes some milliseconds: the
//! machine is looked at. Allocations meanwhile, by this thread for the installation or by others, go to the C library.
//! The code that places a block may allocate, too, and comes back here by `libvicus_malloc.so`; then the C library
//! serves it as well.

use crate::settings::{complain, get};
use crate::wait::Guarded;
use std::alloc::Layout;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use vicus::kit::process_memory;
use vicus::memory::{Distribution, Memory, PlaceError, Placed, distribution};

/// The blocks in use, by their addresses, and freed blocks for later use.
static BLOCKS: Guarded<Blocks> = Guarded::new(Blocks { used: BTreeMap::new(), spare: Vec::new(), spare_bytes: 0 });

/// A block, and its distribution if the environment sets it: then the block may be given out again.
struct Block {
    placed: Placed,
    how: Option<&'static Distribution>,
}

/// The system makes pages slowly: each is zeroed, and asked for by a fault. The C library keeps freed blocks for this
/// reason, and so does this list.
#[derive(Default)]
struct Blocks {
    used: BTreeMap<usize, Block>,
    /// Freed blocks, the latest last.
    spare: Vec<Block>,
    spare_bytes: usize,
}

/// No page is shorter than this: a block longer by fewer bytes has no more pages.
const LEAST_PAGE: usize = 4096;

/// Limits of the freed blocks kept: their number, and their bytes in all.
const MOST_SPARE: usize = 64;
const MOST_SPARE_BYTES: usize = 64 << 20;

impl Blocks {
    /// A freed block of this size and distribution.
    fn again(&mut self, bytes: usize, how: &'static Distribution) -> Option<Block> {
        let fits =
            |block: &Block| block.placed.bytes().len() == bytes && block.how.is_some_and(|own| ptr::eq(own, how));
        let at = self.spare.iter().rposition(fits)?;
        let block = self.spare.remove(at);
        self.spare_bytes -= block.placed.bytes().len();
        Some(block)
    }

    /// Keeps a freed block. Returns the blocks dropped for it.
    fn keep(&mut self, block: Block) -> Vec<Block> {
        if block.how.is_none() || block.placed.bytes().len() > MOST_SPARE_BYTES {
            return vec![block];
        }
        self.spare_bytes += block.placed.bytes().len();
        self.spare.push(block);
        let mut gone = Vec::new();
        while self.spare.len() > MOST_SPARE || self.spare_bytes > MOST_SPARE_BYTES {
            let oldest = self.spare.remove(0);
            self.spare_bytes -= oldest.placed.bytes().len();
            gone.push(oldest);
        }
        gone
    }
}

/// The C library's large blocks in use, as far as `libvicus_malloc.so` reports them: address and number of bytes.
static LARGE: Guarded<BTreeMap<usize, usize>> = Guarded::new(BTreeMap::new());

/// The address range of all blocks, for `libvicus_malloc.so`: the first address, and the one behind the last.
#[unsafe(no_mangle)]
pub(crate) static vicus_omp_placed_range: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Whether the settings are known: before, nothing is placed.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

const UNTRIED: u8 = 0;
const TRYING: u8 = 1;
const TRIED: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNTRIED);
static MEMORY: OnceLock<Option<Arc<Memory>>> = OnceLock::new();

thread_local! {
    /// Whether the thread is at work here.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether large blocks of the C library are to move at their next touch.
static MOVES: AtomicBool = AtomicBool::new(false);

/// The settings are known.
pub(crate) fn begin() {
    // Without the variable, programs of clang may set others until their first call.
    // On one node there is no other to move to.
    let moves =
        vicus::environment::next_touch().is_some() && get().memory.next_touch && crate::places::nodes().len() > 1;
    MOVES.store(moves, Ordering::Relaxed);
    HAS_BEGUN.store(true, Ordering::Release);
}

/// The process's memory; `None` if there is none, or not yet.
fn memory() -> Option<&'static Arc<Memory>> {
    if STATE.load(Ordering::Acquire) == UNTRIED
        && STATE.compare_exchange(UNTRIED, TRYING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    {
        let (memory, warnings) = crate::process::unforked(|| process_memory(&vicus::environment::defaults()));
        if is_wanted() {
            warnings.iter().for_each(|warning| complain(warning));
        }
        let _ = MEMORY.set(memory);
        STATE.store(TRIED, Ordering::Release);
    }
    if STATE.load(Ordering::Acquire) == TRIED { MEMORY.get()?.as_ref() } else { None }
}

/// The distribution for a whole block near to the calling thread.
pub(crate) fn near_here() -> Distribution {
    let memory = if IS_INSIDE.get() { None } else { memory() };
    match (memory, vicus::memory::here()) {
        (Some(memory), Some(node)) => Distribution::On(memory.location_near(node)),
        _ => Distribution::Standard,
    }
}

/// A zeroed block of whole pages with this distribution. Null if none is to be had here.
pub(crate) fn place(bytes: usize, align: usize, how: &Distribution) -> *mut u8 {
    place_by(bytes, align, None, |memory, layout| memory.place(layout, Some(how)))
}

/// A block that `take` gets from the memory.
fn place_by(
    bytes: usize,
    align: usize,
    how: Option<&'static Distribution>,
    take: impl FnOnce(&Arc<Memory>, Layout) -> Result<Placed, PlaceError>,
) -> *mut u8 {
    let _errno = crate::wait::KeepErrno::new();
    if IS_INSIDE.replace(true) {
        return ptr::null_mut();
    }
    let block = place_here(bytes, align, how, take);
    IS_INSIDE.set(false);
    block.unwrap_or(ptr::null_mut())
}

fn place_here(
    bytes: usize,
    align: usize,
    how: Option<&'static Distribution>,
    take: impl FnOnce(&Arc<Memory>, Layout) -> Result<Placed, PlaceError>,
) -> Option<*mut u8> {
    let memory = memory()?;
    let layout = Layout::from_size_align(bytes, align).ok()?;
    let mut placed = match take(memory, layout) {
        Ok(placed) => placed,
        Err(error) => {
            static SAID: AtomicBool = AtomicBool::new(false);
            if !SAID.swap(true, Ordering::Relaxed) {
                complain(&format!("some memory is not placed: {error}"));
            }
            return None;
        }
    };
    if let Some(range) = memory.placed_addresses() {
        vicus_omp_placed_range[0].store(range.start, Ordering::Relaxed);
        vicus_omp_placed_range[1].store(range.end, Ordering::Relaxed);
    }
    static HAS_PLACED: AtomicBool = AtomicBool::new(false);
    if !HAS_PLACED.swap(true, Ordering::Relaxed) {
        begin_malloc();
    }
    let at = placed.bytes_mut().as_mut_ptr();
    BLOCKS.with(|all| all.used.insert(at.addr(), Block { placed, how }));
    if crate::report::is_traced() {
        crate::report::note_array(at.addr(), bytes);
    }
    Some(at)
}

/// Frees a block. Whether it is one of these.
pub(crate) fn free(at: *mut u8) -> bool {
    let _errno = crate::wait::KeepErrno::new();
    // Freeing it may free small blocks of its own, which belong to the C library.
    let outer = IS_INSIDE.replace(true);
    let block = BLOCKS.with(|all| all.used.remove(&at.addr()));
    let was_one = block.is_some();
    if let Some(block) = block {
        crate::sections::forget(at.addr()..at.addr() + block.placed.bytes().len());
        let gone = BLOCKS.with(|all| all.keep(block));
        drop(gone);
    }
    IS_INSIDE.set(outer);
    was_one
}

/// Memory of the C library, not placed, whatever the environment sets for its blocks.
pub(crate) fn unplaced(bytes: usize) -> *mut u8 {
    let outer = IS_INSIDE.replace(true);
    // The compiler assumes `malloc` reads nothing of the program's, and would leave out the flag set around it.
    let malloc: unsafe extern "C" fn(usize) -> *mut libc::c_void = std::hint::black_box(libc::malloc);
    // SAFETY: rule "System": no condition.
    let block = unsafe { malloc(bytes) };
    IS_INSIDE.set(outer);
    block.cast()
}

/// Whether some memory lies as the environment says.
fn is_wanted() -> bool {
    get().memory.distribution.is_some() || !get().memory.distribution_of.is_empty()
}

/// Whether the environment says how memory lies.
pub(crate) fn is_asked_for() -> bool {
    vicus::environment::distribution().is_some()
        || vicus::environment::distributions_of().is_some()
        || vicus::environment::next_touch().is_some()
}

/// The distribution named for blocks of exactly this size.
fn named(bytes: usize) -> Option<&'static Distribution> {
    get().memory.distribution_of.iter().find(|&&(of, _)| of == bytes).map(|(_, how)| how)
}

/// The distribution of a block of the program's `malloc`; `None`: left to the C library.
fn distribution_of(bytes: usize) -> Option<&'static Distribution> {
    named(bytes).or_else(|| get().memory.distribution.as_ref().filter(|_| bytes >= get().memory.placed_from))
}

/// Says once, if a distribution was asked for, that `malloc` does not follow it because the library for it is not
/// loaded.
pub(crate) fn tell_of_unplaced() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !is_wanted() || SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    if !begin_malloc() {
        complain(
            "the distribution of VICUS_DATA_DISTRIBUTION or OMP_DATA_DISTRIBUTION is that of omp_malloc alone: \
             for malloc as well, load libvicus_malloc.so before libvicus_omp.so (LD_PRELOAD)",
        );
    }
}

/// Whether `libvicus_malloc.so` is loaded.
pub(crate) fn has_malloc() -> bool {
    // SAFETY: rule "System": a name with a zero byte at its end.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"vicus_malloc_begin".as_ptr()) }.is_null()
}

/// Has `libvicus_malloc.so` look for placed blocks among freed ones. `false` if it is not loaded.
fn begin_malloc() -> bool {
    // SAFETY: rule "System": a name with a zero byte at its end.
    let begin = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"vicus_malloc_begin".as_ptr()) };
    if !begin.is_null() {
        // SAFETY: rule "System": the name is `libvicus_malloc.so`'s alone, for a function without arguments.
        let begin: extern "C" fn() = unsafe { std::mem::transmute(begin) };
        begin();
    }
    !begin.is_null()
}

/// `VICUS_ERROR_ARGUMENT` and `VICUS_ERROR_SYSTEM` of `vicus.h`.
const MIGRATE_ARGUMENT: i32 = -1;
const MIGRATE_SYSTEM: i32 = -5;

/// A policy of the program's: `vicus_policy_fn` of `vicus_omp.h`.
type PolicyFn = unsafe extern "C-unwind" fn(*mut libc::c_void, usize, usize, *mut u32) -> i32;

crate::exports::exports! {
    "VERSION":
    fn omp_malloc(bytes: usize) -> *mut u8 {
        tell_of_unplaced();
        let how = named(bytes).or(get().memory.distribution.as_ref());
        // SAFETY: rule "System": no condition.
        let Some(how) = how else { return unsafe { libc::malloc(bytes).cast() } };
        let block = place(bytes, 16, how);
        if block.is_null() { unplaced(bytes) } else { block }
    }

    "VERSION":
    fn omp_malloc_specific(bytes: usize, policy: i32) -> *mut u8 {
        let how = match policy {
            0 => return unplaced(bytes),
            1 => Distribution::Fine,
            2 => Distribution::Coarse,
            3 => Distribution::Blocked,
            _ => {
                static SAID: AtomicBool = AtomicBool::new(false);
                if !SAID.swap(true, Ordering::Relaxed) {
                    complain(&format!(
                        "omp_malloc_specific: there is no policy {policy}; its memory lies as that of omp_malloc"
                    ));
                }
                // SAFETY: the function has no condition.
                return unsafe { omp_malloc(bytes) };
            }
        };
        let block = place(bytes, 16, &how);
        if block.is_null() { unplaced(bytes) } else { block }
    }

    "VERSION":
    fn omp_malloc_by(bytes: usize, policy: Option<PolicyFn>, data: *mut libc::c_void) -> *mut u8 {
        let Some(policy) = policy else { return ptr::null_mut() };
        let data = data.expose_provenance();
        let listed = distribution::Listed(move |locations, units: &mut [u32]| {
            let data = ptr::with_exposed_provenance_mut(data);
            // SAFETY: rule "Interface": the program's policy with its data, which it says may be used until the call
            // ends.
            match unsafe { policy(data, units.len(), locations, units.as_mut_ptr()) } {
                0 => Ok(()),
                status => Err(format!("a policy has returned {status}")),
            }
        });
        place_by(bytes, 16, None, |memory, layout| memory.place_by(layout, &listed))
    }

    "VERSION":
    fn vicus_migrate(address: *mut u8, bytes: usize, node: i32) -> i32 {
        let _errno = crate::wait::KeepErrno::new();
        let range = address.addr()..address.addr().saturating_add(bytes);
        // Nodes are known with the process's memory.
        if memory().is_none() {
            return MIGRATE_SYSTEM;
        }
        match (usize::try_from(node), node) {
            (Ok(node), _) => match vicus::memory::migrate(range, vicus::NodeId::new(node)) {
                Ok(_) => 0,
                Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => MIGRATE_ARGUMENT,
                Err(_) => MIGRATE_SYSTEM,
            },
            (_, -1) => vicus::memory::migrate_at_next_touch(range).map_or(MIGRATE_SYSTEM, |()| 0),
            _ => MIGRATE_ARGUMENT,
        }
    }

    "VERSION":
    fn omp_malloc_free(at: *mut u8) {
        if !at.is_null() && !free(at) {
            // SAFETY: rule "Interface": a block that `unplaced` has got by `malloc`.
            unsafe { libc::free(at.cast()) };
        }
    }
}

/// The block around an address, as far as blocks are known: a placed one, or a large one of the C library's.
pub(crate) fn block_of(address: usize) -> Option<Range<usize>> {
    placed_block_of(address).or_else(|| {
        LARGE.with(|all| {
            let (&start, &bytes) = all.range(..=address).next_back()?;
            Some(start..start + bytes).filter(|block| block.contains(&address))
        })
    })
}

fn placed_block_of(address: usize) -> Option<Range<usize>> {
    let [low, high] = &vicus_omp_placed_range;
    if !(low.load(Ordering::Relaxed)..high.load(Ordering::Relaxed)).contains(&address) {
        return None;
    }
    BLOCKS.with(|all| {
        let (&start, block) = all.used.range(..=address).next_back()?;
        Some(start..start + block.placed.bytes().len()).filter(|block| block.contains(&address))
    })
}

/// Whether an address lies in the range of blocks, and in none of them.
pub(crate) fn is_freed(address: usize) -> bool {
    let [low, high] = &vicus_omp_placed_range;
    (low.load(Ordering::Relaxed)..high.load(Ordering::Relaxed)).contains(&address) && placed_block_of(address).is_none()
}

/// A fork begins or is over in the parent: no other thread is at work on the list of blocks meanwhile.
pub(crate) fn lock_for_fork() {
    BLOCKS.lock.lock();
    LARGE.lock.lock();
}

pub(crate) fn unlock_after_fork() {
    LARGE.lock.unlock();
    BLOCKS.lock.unlock();
}

/// In the child.
pub(crate) fn begin_anew() {
    BLOCKS.lock.init();
    LARGE.lock.init();
    // Another thread may have been looking at the machine.
    if STATE.load(Ordering::Acquire) == TRYING && !IS_INSIDE.get() {
        STATE.store(TRIED, Ordering::Release);
        let _ = MEMORY.set(None);
    }
}

/// The size from which `libvicus_malloc.so` asks for blocks; 0 if it is not known yet.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_omp_placed_from() -> usize {
    if !HAS_BEGUN.load(Ordering::Acquire) {
        return 0;
    }
    let of_sizes = get().memory.distribution_of.iter().map(|&(bytes, _)| bytes).min().unwrap_or(usize::MAX);
    let of_all = if get().memory.distribution.is_some() { get().memory.placed_from } else { usize::MAX };
    of_sizes.min(of_all)
}

/// A block for a function of the C library. Its bytes are zero if `is_zeroed`; otherwise they may be left from a freed
/// block.
fn place_again(bytes: usize, align: usize, is_zeroed: bool) -> *mut u8 {
    let Some(how) = distribution_of(bytes) else { return ptr::null_mut() };
    if !is_zeroed && align <= LEAST_PAGE && !IS_INSIDE.get() {
        let _errno = crate::wait::KeepErrno::new();
        IS_INSIDE.set(true);
        let at = BLOCKS.with(|all| {
            let mut block = all.again(bytes, how)?;
            let at = block.placed.bytes_mut().as_mut_ptr();
            all.used.insert(at.addr(), block);
            Some(at)
        });
        IS_INSIDE.set(false);
        if let Some(at) = at {
            return at;
        }
    }
    place_by(bytes, align, Some(how), |memory, layout| memory.place(layout, Some(how)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_omp_place(bytes: usize, align: usize) -> *mut u8 {
    place_again(bytes, align, false)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_omp_place_zeroed(bytes: usize, align: usize) -> *mut u8 {
    place_again(bytes, align, true)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_omp_free_placed(at: *mut u8) -> bool {
    free(at)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_omp_placed_bytes(at: *const u8) -> usize {
    let at = at.addr();
    placed_block_of(at).filter(|block| block.start == at).map_or(0, |block| block.len())
}

/// The C library has given out a large block.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_omp_note_block(at: *const u8, bytes: usize) {
    let _errno = crate::wait::KeepErrno::new();
    let moves = MOVES.load(Ordering::Relaxed);
    LARGE.with(|all| {
        all.insert(at.addr(), bytes);
        // Under the lock: a thread that forks holds it, so that no other one is at work on the marked ranges. A block
        // too many stays where it is.
        if moves {
            let _ = vicus::memory::migrate_at_next_touch(at.addr()..at.addr().saturating_add(bytes));
        }
    });
}

/// Such a block is about to be freed, or its addresses are about to be unmapped.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_omp_forget_block(at: *const u8, bytes: usize) {
    let _errno = crate::wait::KeepErrno::new();
    let block = at.addr()..at.addr().saturating_add(bytes);
    LARGE.with(|all| all.remove(&block.start));
    crate::sections::forget(block.clone());
    vicus::kit::forget_at(block);
}
