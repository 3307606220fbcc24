//! Memory in a file: a header, then blocks. Free blocks are in a list by their offsets, so a map is good at its old
//! address.

use crate::exports;
use std::ffi::CStr;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;
use std::sync::{Mutex, MutexGuard};

/// The header at the beginning of each map.
#[repr(C)]
pub(crate) struct Map {
    magic: u64,
    /// The address of the first mapping.
    address: usize,
    bytes: usize,
    /// The bytes of a block, for maps with blocks of one size; else 0.
    item: usize,
    /// Offsets: of the first free block or 0, and of the part never used.
    free: usize,
    next: usize,
}

/// The header before each block of a map with blocks of any size, and in each free block.
#[repr(C)]
struct Block {
    bytes: usize,
    next: usize,
}

const MAGIC: u64 = u64::from_le_bytes(*b"vicusmap");
const ALIGN: usize = 16;

/// The existing maps: one lock for all.
static MAPS: Mutex<Maps> = Mutex::new(Maps(Vec::new()));

struct Maps(Vec<*mut Map>);

unsafe impl Send for Maps {}

fn lock() -> MutexGuard<'static, Maps> {
    MAPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

unsafe fn file(name: *const libc::c_char, bytes: Option<u64>) -> Option<(std::fs::File, usize)> {
    if name.is_null() {
        return None;
    }
    let name = std::ffi::OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes());
    let file = OpenOptions::new().read(true).write(true).create(bytes.is_some()).truncate(false).open(name).ok()?;
    if let Some(bytes) = bytes.filter(|&bytes| file.metadata().is_ok_and(|data| data.len() < bytes)) {
        file.set_len(bytes).ok()?;
    }
    let bytes = file.metadata().ok()?.len() as usize;
    Some((file, bytes))
}

unsafe fn map(file: &std::fs::File, bytes: usize, address: *mut libc::c_void) -> Option<*mut Map> {
    let fixed = if address.is_null() { 0 } else { libc::MAP_FIXED_NOREPLACE };
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | fixed);
    let base = unsafe { libc::mmap(address, bytes, access, flags, file.as_raw_fd(), 0) };
    (base != libc::MAP_FAILED).then(|| base.cast())
}

unsafe fn make(bytes: i64, address: *mut libc::c_void, name: *const libc::c_char, item: usize) -> *mut Map {
    let Ok(wanted) = u64::try_from(bytes) else { return ptr::null_mut() };
    if wanted < 4096 {
        return ptr::null_mut();
    }
    let Some((file, bytes)) = (unsafe { file(name, Some(wanted)) }) else { return ptr::null_mut() };
    let Some(map) = (unsafe { map(&file, bytes, address) }) else { return ptr::null_mut() };
    let next = size_of::<Map>().next_multiple_of(ALIGN);
    unsafe { map.write(Map { magic: MAGIC, address: map.addr(), bytes, item, free: 0, next }) };
    lock().0.push(map);
    map
}

impl Map {
    unsafe fn at(&mut self, offset: usize) -> *mut Block {
        unsafe { ptr::from_mut(self).cast::<u8>().add(offset).cast() }
    }

    unsafe fn alloc(&mut self, bytes: usize) -> *mut libc::c_void {
        let header = if self.item == 0 { size_of::<Block>() } else { 0 };
        let Some(needed) = bytes.max(size_of::<Block>()).checked_add(header + ALIGN) else { return ptr::null_mut() };
        let needed = (needed - ALIGN).next_multiple_of(ALIGN);
        let (mut before, mut free) = (0, self.free);
        while free != 0 {
            let block = unsafe { self.at(free) };
            let next = unsafe { (*block).next };
            if self.item != 0 || unsafe { (*block).bytes } >= needed {
                match before {
                    0 => self.free = next,
                    before => unsafe { (*self.at(before)).next = next },
                }
                return unsafe { block.cast::<u8>().add(header).cast() };
            }
            (before, free) = (free, next);
        }
        if self.bytes - self.next < needed {
            return ptr::null_mut();
        }
        let block = unsafe { self.at(self.next) };
        self.next += needed;
        if header > 0 {
            unsafe { block.write(Block { bytes: needed, next: 0 }) };
        }
        unsafe { block.cast::<u8>().add(header).cast() }
    }

    unsafe fn free(&mut self, block: *mut libc::c_void) {
        let header = if self.item == 0 { size_of::<Block>() } else { 0 };
        let offset = block.addr().wrapping_sub(ptr::from_mut(self).addr()).wrapping_sub(header);
        if block.is_null() || offset >= self.next {
            return;
        }
        let free = self.free;
        let block = unsafe { self.at(offset) };
        unsafe { (*block).next = free };
        self.free = offset;
    }
}

/// Calls `f` with a map, under the lock.
unsafe fn with_map<R>(map: *mut libc::c_void, f: impl FnOnce(&mut Map) -> R) -> Option<R> {
    let _maps = lock();
    unsafe { map.cast::<Map>().as_mut() }.filter(|map| map.magic == MAGIC).map(f)
}

unsafe fn alloc_from(map: *mut libc::c_void, bytes: Option<usize>) -> *mut libc::c_void {
    let block = unsafe { with_map(map, |map| map.alloc(if map.item > 0 { map.item } else { bytes.unwrap_or(0) })) };
    block.unwrap_or(ptr::null_mut())
}

exports! {
    fn qalloc_makestatmap(
        bytes: i64,
        address: *mut libc::c_void,
        name: *const libc::c_char,
        item: usize,
        _streams: usize,
    ) -> *mut Map {
        unsafe { make(bytes, address, name, item.max(1)) }
    }

    fn qalloc_makedynmap(
        bytes: i64,
        address: *mut libc::c_void,
        name: *const libc::c_char,
        _streams: usize,
    ) -> *mut Map {
        unsafe { make(bytes, address, name, 0) }
    }

    fn qalloc_loadmap(name: *const libc::c_char) -> *mut Map {
        let Some((file, bytes)) = (unsafe { file(name, None) }) else { return ptr::null_mut() };
        if bytes < size_of::<Map>() {
            return ptr::null_mut();
        }
        // Read at any address, then mapped at its old one.
        let Some(seen) = (unsafe { map(&file, bytes, ptr::null_mut()) }) else { return ptr::null_mut() };
        let (is_map, address) = unsafe { ((*seen).magic == MAGIC && (*seen).bytes == bytes, (*seen).address) };
        unsafe { libc::munmap(seen.cast(), bytes) };
        if !is_map {
            return ptr::null_mut();
        }
        let Some(map) = (unsafe { map(&file, bytes, ptr::with_exposed_provenance_mut(address)) }) else {
            return ptr::null_mut();
        };
        lock().0.push(map);
        map
    }

    fn qalloc_checkpoint() {
        for &map in &lock().0 {
            unsafe { libc::msync(map.cast(), (*map).bytes, libc::MS_SYNC) };
        }
    }

    fn qalloc_cleanup() {
        for map in lock().0.drain(..) {
            unsafe {
                let bytes = (*map).bytes;
                libc::msync(map.cast(), bytes, libc::MS_SYNC);
                libc::munmap(map.cast(), bytes);
            }
        }
    }

    fn qalloc_statmalloc(map: *mut libc::c_void) -> *mut libc::c_void {
        unsafe { alloc_from(map, None) }
    }

    fn qalloc_dynmalloc(map: *mut libc::c_void, bytes: usize) -> *mut libc::c_void {
        unsafe { alloc_from(map, Some(bytes)) }
    }

    fn qalloc_malloc(map: *mut libc::c_void, bytes: usize) -> *mut libc::c_void {
        unsafe { alloc_from(map, Some(bytes)) }
    }

    fn qalloc_statfree(block: *mut libc::c_void, map: *mut libc::c_void) {
        unsafe { with_map(map, |map| map.free(block)) };
    }

    fn qalloc_dynfree(block: *mut libc::c_void, map: *mut libc::c_void) {
        unsafe { with_map(map, |map| map.free(block)) };
    }

    fn qalloc_free(block: *mut libc::c_void, map: *mut libc::c_void) {
        unsafe { with_map(map, |map| map.free(block)) };
    }
}
