//! Memory by allocators (`omp_alloc`).
//!
//! All memory is that of the C library; an allocator says how it is aligned, how much of it there may be, and what happens beyond that. A
//! header before each block says of which allocator it is.

use crate::exports::exports;
use crate::settings;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where the numbers of predefined allocators end.
const PREDEFINED: usize = 8;

static DEFAULT: AtomicUsize = AtomicUsize::new(0);

/// An allocator of the program's.
struct Allocator {
    align: usize,
    most: usize,
    used: AtomicUsize,
    /// What is done when there is no memory: 11 the default allocator, 12 null, 13 the process ends, 14 another allocator.
    fallback: usize,
    other: usize,
}

#[repr(C)]
pub(crate) struct Trait {
    key: i32,
    value: usize,
}

/// Before each block.
#[repr(C)]
struct Header {
    start: *mut libc::c_void,
    bytes: usize,
    allocator: usize,
    /// With what goes before it.
    all: usize,
}

fn default() -> usize {
    match DEFAULT.load(Ordering::Relaxed) {
        0 => settings::get().allocator,
        allocator => allocator,
    }
}

fn of<'a>(allocator: usize) -> Option<&'a Allocator> {
    (allocator > PREDEFINED).then(|| unsafe { &*ptr::with_exposed_provenance::<Allocator>(allocator) })
}

fn allocate(align: usize, bytes: usize, allocator: usize) -> *mut u8 {
    let allocator = if allocator == 0 { default() } else { allocator };
    let own = of(allocator);
    let align = align.max(own.map_or(16, |own| own.align)).max(16).next_power_of_two();
    if bytes == 0 {
        return ptr::null_mut();
    }
    // What goes before a block counts as well.
    let Some(all) = bytes.checked_add(align + size_of::<Header>()) else { return ptr::null_mut() };
    let has_room = own.is_none_or(|own| {
        let add = |used: usize| used.checked_add(all).filter(|&used| used <= own.most);
        own.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    });
    if has_room {
        let start = unsafe { libc::malloc(all) };
        if !start.is_null() {
            let at = start.cast::<u8>().wrapping_add(size_of::<Header>());
            let at = at.wrapping_add(at.align_offset(align));
            unsafe { at.cast::<Header>().sub(1).write(Header { start, bytes, allocator, all }) };
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

fn allocate_zeros(align: usize, bytes: usize, allocator: usize) -> *mut u8 {
    let at = allocate(align, bytes, allocator);
    if !at.is_null() {
        unsafe { ptr::write_bytes(at, 0, bytes) };
    }
    at
}

fn free(at: *mut u8) {
    if at.is_null() {
        return;
    }
    let Header { start, all, allocator, .. } = unsafe { at.cast::<Header>().sub(1).read() };
    if let Some(own) = of(allocator) {
        own.used.fetch_sub(all, Ordering::Relaxed);
    }
    unsafe { libc::free(start) };
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
        count.checked_mul(bytes).map_or(ptr::null_mut(), |bytes| allocate_zeros(1, bytes, allocator))
    }

    "OMP_5.0.2", "VERSION":
    fn omp_aligned_calloc(align: usize, count: usize, bytes: usize, allocator: usize) -> *mut u8 {
        count.checked_mul(bytes).map_or(ptr::null_mut(), |bytes| allocate_zeros(align, bytes, allocator))
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
        let old = unsafe { at.cast::<Header>().sub(1).read() };
        let allocator = if allocator == 0 { old.allocator } else { allocator };
        let new = allocate(1, bytes, allocator);
        if !new.is_null() {
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
        DEFAULT.store(if allocator == 0 { 1 } else { allocator }, Ordering::Relaxed);
    }

    "OMP_5.0.1", "VERSION":
    fn omp_get_default_allocator() -> usize {
        default()
    }

    "OMP_5.0.1", "VERSION":
    fn omp_init_allocator(_space: usize, count: i32, traits: *const Trait) -> usize {
        let mut new =
            Allocator { align: 16, most: usize::MAX, used: AtomicUsize::new(0), fallback: 11, other: 0 };
        for index in 0..count.max(0) as usize {
            let Trait { key, value } = unsafe { &*traits.add(index) };
            match key {
                2 if value.is_power_of_two() => new.align = *value,
                2 => return 0,
                4 if *value > 0 => new.most = *value,
                5 => new.fallback = *value,
                6 => new.other = *value,
                _ => {}
            }
        }
        Box::into_raw(Box::new(new)).expose_provenance()
    }

    "OMP_5.0.1", "VERSION":
    fn omp_destroy_allocator(allocator: usize) {
        if allocator > PREDEFINED {
            drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Allocator>(allocator)) });
        }
    }

    "VERSION":
    fn __kmpc_init_allocator(_thread: i32, space: usize, count: i32, traits: *const Trait) -> usize {
        unsafe { omp_init_allocator(space, count, traits) }
    }

    "VERSION":
    fn __kmpc_destroy_allocator(_thread: i32, allocator: usize) {
        unsafe { omp_destroy_allocator(allocator) };
    }
}
