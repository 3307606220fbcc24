//! Memory by allocators (`omp_alloc`).
//!
//! An allocator sets the alignment of its memory, its distribution over the nodes, whether it is pinned, the most
//! bytes, and the fallback beyond them. Without a distribution, its memory is the C library's. A header before each
//! block names its allocator.

use crate::exports::exports;
use crate::placed;
use crate::settings;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus::memory::Distribution;

/// The end of the predefined allocators' numbers: OpenMP's are up to 8, LLVM's for devices 100 to 102, gcc's for pinned
/// memory 200 and 201, and LLVM's `kmp_max_mem_alloc` is the greatest of all. Those without a meaning here are as the
/// default one. All others are addresses, and no address is as low.
const PREDEFINED: usize = 1024;

/// Numbers of predefined allocators and memory spaces as data, for programs that declare them so.
macro_rules! numbers {
    ($($name:ident $value:literal;)*) => {$(
        const _: () = {
            #[unsafe(export_name = concat!("vicus_", stringify!($name)))]
            static NUMBER: usize = $value;
        };
        core::arch::global_asm!(concat!(".symver vicus_", stringify!($name), ", ", stringify!($name), "@@VERSION"));
    )*};
}

numbers! {
    omp_null_allocator 0;
    omp_default_mem_alloc 1;
    omp_large_cap_mem_alloc 2;
    omp_const_mem_alloc 3;
    omp_high_bw_mem_alloc 4;
    omp_low_lat_mem_alloc 5;
    omp_cgroup_mem_alloc 6;
    omp_pteam_mem_alloc 7;
    omp_thread_mem_alloc 8;
    kmp_max_mem_alloc 1024;
    omp_default_mem_space 0;
    omp_large_cap_mem_space 1;
    omp_const_mem_space 2;
    omp_high_bw_mem_space 3;
    omp_low_lat_mem_space 4;
}

static DEFAULT: AtomicUsize = AtomicUsize::new(0);

/// An allocator of the program's.
struct Allocator {
    align: usize,
    most: usize,
    used: AtomicUsize,
    /// The fallback without memory: 11 the default allocator, 12 null, 13 the process ends, 14 another allocator.
    fallback: usize,
    other: usize,
    /// How its memory lies over the nodes: 15 as elsewhere, 16 near to the thread, 17 in equal parts, 18 page by page
    /// in turn, [`COARSE`] as a whole on the next node.
    partition: usize,
    /// Whether its memory stays in the machine's, and is never written to a disk instead.
    is_pinned: bool,
}

#[repr(C)]
pub(crate) struct Trait {
    key: i32,
    value: usize,
}

/// The header before each block.
#[repr(C)]
struct Header {
    start: *mut libc::c_void,
    bytes: usize,
    allocator: usize,
    /// The bytes in all, with the header and the padding before it.
    all: usize,
    is_placed: bool,
}

pub(crate) fn default() -> usize {
    match DEFAULT.load(Ordering::Relaxed) {
        0 => settings::get().memory.allocator,
        allocator => allocator,
    }
}

/// A zeroed block for an array; null if its bytes are more than a number can count.
pub(crate) fn allocate_array(align: usize, count: usize, bytes: usize, allocator: usize) -> *mut u8 {
    count.checked_mul(bytes).map_or(ptr::null_mut(), |bytes| allocate_zeros(align, bytes, allocator))
}

pub(crate) fn set_default(allocator: usize) {
    DEFAULT.store(if allocator == 0 { 1 } else { allocator }, Ordering::Relaxed);
}

/// An allocator of the program's; `None` for a predefined one.
fn of<'a>(allocator: usize) -> Option<&'a Allocator> {
    // SAFETY: rule "Interface": a number above the predefined ones is one that `omp_init_allocator` has returned, and
    // the program destroys it after its last use.
    (allocator > PREDEFINED).then(|| unsafe { &*ptr::with_exposed_provenance::<Allocator>(allocator) })
}

fn allocate(align: usize, bytes: usize, allocator: usize) -> *mut u8 {
    let allocator = if allocator == 0 { default() } else { allocator };
    let own = of(allocator);
    let align = align.max(own.map_or(16, |own| own.align)).max(16).next_power_of_two();
    if bytes == 0 {
        return ptr::null_mut();
    }
    // The bytes before a block count as well.
    let Some(all) = bytes.checked_add(align + size_of::<Header>()) else { return ptr::null_mut() };
    let has_room = own.is_none_or(|own| {
        let add = |used: usize| used.checked_add(all).filter(|&used| used <= own.most);
        own.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    });
    if has_room {
        let (start, is_placed) = take(all, own);
        if !start.is_null() {
            let at = start.cast::<u8>().wrapping_add(size_of::<Header>());
            let at = at.wrapping_add(at.align_offset(align));
            // SAFETY: there are `size_of::<Header>()` bytes before the aligned address, and alignment is at least 16.
            unsafe { at.cast::<Header>().sub(1).write(Header { start, bytes, allocator, all, is_placed }) };
            return at;
        }
        if let Some(own) = own {
            own.used.fetch_sub(all, Ordering::Relaxed);
        }
    }
    match own.map_or(12, |own| own.fallback) {
        11 => allocate(align, bytes, 1),
        13 => settings::fail(&format!("an allocator has no {bytes} bytes")),
        14 => allocate(align, bytes, own.map_or(1, |own| own.other)),
        _ => ptr::null_mut(),
    }
}

/// Smaller blocks do not lie over several nodes.
const LEAST_PLACED: usize = 64 << 10;

/// Memory for an allocator, and whether it is placed. Null if there is none: its place is a wish, pinning is not.
fn take(bytes: usize, own: Option<&Allocator>) -> (*mut libc::c_void, bool) {
    let (partition, is_pinned) = own.map_or((ENVIRONMENT, false), |own| (own.partition, own.is_pinned));
    // Pinned memory has pages of its own: shared pages could not be unpinned again.
    if is_pinned || (partition != ENVIRONMENT && bytes >= LEAST_PLACED) {
        let how = match partition {
            BLOCKED => Distribution::Blocked,
            INTERLEAVED => Distribution::Fine,
            COARSE => Distribution::Coarse,
            NEAREST => placed::near_here(),
            _ => Distribution::Standard,
        };
        let start = placed::place(bytes, 16, &how);
        if is_pinned {
            // SAFETY: rule "System": the block has this number of bytes.
            let is_held = !start.is_null() && unsafe { libc::mlock(start.cast(), bytes) } == 0;
            if !start.is_null() && !is_held {
                placed::free(start);
            }
            return (if is_held { start.cast() } else { ptr::null_mut() }, true);
        }
        if !start.is_null() {
            return (start.cast(), true);
        }
    }
    // SAFETY: rule "System": no condition.
    (unsafe { libc::malloc(bytes) }, false)
}

const ENVIRONMENT: usize = 15;
const NEAREST: usize = 16;
const BLOCKED: usize = 17;
const INTERLEAVED: usize = 18;
/// `VICUS_OMP_ATV_COARSE` of `vicus_omp.h`: OpenMP has no value for it.
const COARSE: usize = 0x7601;

fn allocate_zeros(align: usize, bytes: usize, allocator: usize) -> *mut u8 {
    let at = allocate(align, bytes, allocator);
    if !at.is_null() {
        // SAFETY: the block was made for this number of bytes.
        unsafe { ptr::write_bytes(at, 0, bytes) };
    }
    at
}

fn free(at: *mut u8) {
    if at.is_null() {
        return;
    }
    // SAFETY: rule "Interface": the program's pointer is one of `allocate`, which has written a header before it.
    let Header { start, all, allocator, is_placed, .. } = unsafe { at.cast::<Header>().sub(1).read() };
    if let Some(own) = of(allocator) {
        own.used.fetch_sub(all, Ordering::Relaxed);
    }
    if is_placed {
        // The pages are given back, and so they are pinned no more.
        placed::free(start.cast());
    } else {
        // SAFETY: rule "System": the header is of a block that is not placed, so `take` has got it by `malloc`; it is
        // freed once.
        unsafe { libc::free(start) };
    }
}

exports! {
    "OMP_5.0.1", "VERSION":
    fn omp_alloc(bytes: usize, allocator: usize) -> *mut u8 {
        allocate(1, bytes, allocator)
    }

    "OMP_5.0.2", "VERSION":
    fn omp_aligned_alloc(align: usize, bytes: usize, allocator: usize) -> *mut u8 {
        allocate(align, bytes, allocator)
    }

    "OMP_5.0.2", "VERSION":
    fn omp_calloc(count: usize, bytes: usize, allocator: usize) -> *mut u8 {
        allocate_array(1, count, bytes, allocator)
    }

    "OMP_5.0.2", "VERSION":
    fn omp_aligned_calloc(align: usize, count: usize, bytes: usize, allocator: usize) -> *mut u8 {
        allocate_array(align, count, bytes, allocator)
    }

    "OMP_5.0.2", "VERSION":
    fn omp_realloc(at: *mut u8, bytes: usize, allocator: usize, _old_allocator: usize) -> *mut u8 {
        if at.is_null() {
            return allocate(1, bytes, allocator);
        }
        if bytes == 0 {
            free(at);
            return ptr::null_mut();
        }
        // SAFETY: rule "Interface": the program's pointer is one of `allocate`, which has written a header before it.
        let old = unsafe { at.cast::<Header>().sub(1).read() };
        let allocator = if allocator == 0 { old.allocator } else { allocator };
        let new = allocate(1, bytes, allocator);
        if !new.is_null() {
            // SAFETY: both blocks have at least this number of bytes, and the new one is another one.
            unsafe { ptr::copy_nonoverlapping(at, new, old.bytes.min(bytes)) };
            free(at);
        }
        new
    }

    "OMP_5.0.1", "VERSION":
    fn omp_free(at: *mut u8, _allocator: usize) {
        free(at);
    }

    "GOMP_5.0.1", "VERSION":
    fn GOMP_alloc(align: usize, bytes: usize, allocator: usize) -> *mut u8 {
        allocate(align, bytes, allocator)
    }

    "GOMP_5.0.1", "VERSION":
    fn GOMP_free(at: *mut u8, _allocator: usize) {
        free(at);
    }

    "VERSION":
    fn __kmpc_alloc(_thread: i32, bytes: usize, allocator: usize) -> *mut u8 {
        allocate(1, bytes, allocator)
    }

    "VERSION":
    fn __kmpc_aligned_alloc(_thread: i32, align: usize, bytes: usize, allocator: usize) -> *mut u8 {
        allocate(align, bytes, allocator)
    }

    "VERSION":
    fn __kmpc_free(_thread: i32, at: *mut u8, _allocator: usize) {
        free(at);
    }

    "OMP_5.0.1", "VERSION":
    fn omp_set_default_allocator(allocator: usize) {
        set_default(allocator);
    }

    "OMP_5.0.1", "VERSION":
    fn omp_get_default_allocator() -> usize {
        default()
    }

    "OMP_5.0.1", "VERSION":
    fn omp_init_allocator(_space: usize, count: i32, traits: *const Trait) -> usize {
        let mut new =
            Allocator {
                align: 16,
                most: usize::MAX,
                used: AtomicUsize::new(0),
                fallback: 11,
                other: 0,
                partition: ENVIRONMENT,
                is_pinned: false,
            };
        for index in 0..count.max(0) as usize {
            // SAFETY: rule "Interface": there are `count` traits.
            let Trait { key, value } = unsafe { &*traits.add(index) };
            match key {
                2 if value.is_power_of_two() => new.align = *value,
                2 => return 0,
                4 if *value > 0 => new.most = *value,
                5 => new.fallback = *value,
                6 => new.other = *value,
                7 => new.is_pinned = *value == 1,
                8 if (ENVIRONMENT..=INTERLEAVED).contains(value) || *value == COARSE => new.partition = *value,
                _ => {}
            }
        }
        Box::into_raw(Box::new(new)).expose_provenance()
    }

    "OMP_5.0.1", "VERSION":
    fn omp_destroy_allocator(allocator: usize) {
        if allocator > PREDEFINED {
            // SAFETY: rule "Interface": a number above the predefined ones is one that `omp_init_allocator` has
            // returned, destroyed once.
            drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Allocator>(allocator)) });
        }
    }

    "VERSION":
    fn __kmpc_init_allocator(_thread: i32, space: usize, count: i32, traits: *const Trait) -> usize {
        // SAFETY: rule "Interface": the same condition.
        unsafe { omp_init_allocator(space, count, traits) }
    }

    "VERSION":
    fn __kmpc_destroy_allocator(_thread: i32, allocator: usize) {
        // SAFETY: rule "Interface": the same condition.
        unsafe { omp_destroy_allocator(allocator) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A program asked for memory of `kmp_max_mem_alloc`, one of this library's own numbers: it was taken for the
    // address of an allocator.
    #[test]
    fn predefined_allocators_of_compilers_are_as_the_default_one() {
        for allocator in [1, 8, 100, 101, 102, 200, 201, 1024] {
            let block = allocate(1, 64, allocator);
            assert!(!block.is_null(), "a block of allocator {allocator}");
            free(block);
        }
    }
}
