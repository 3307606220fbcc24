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

// SAFETY: they are used under the lock, by any thread.
unsafe impl Send for Maps {}

fn lock() -> MutexGuard<'static, Maps> {
    MAPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A file, grown to a number of bytes if they are given, and its bytes.
///
/// # Safety
/// Rule "Interface": the name is null, or ends with a zero byte.
unsafe fn file(name: *const libc::c_char, bytes: Option<u64>) -> Option<(std::fs::File, usize)> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let name = std::ffi::OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes());
    let file = OpenOptions::new().read(true).write(true).create(bytes.is_some()).truncate(false).open(name).ok()?;
    if let Some(bytes) = bytes.filter(|&bytes| file.metadata().is_ok_and(|data| data.len() < bytes)) {
        file.set_len(bytes).ok()?;
    }
    let bytes = file.metadata().ok()?.len() as usize;
    Some((file, bytes))
}

/// Maps a file, at this address if it is not null.
fn map(file: &std::fs::File, bytes: usize, address: *mut libc::c_void) -> Option<*mut Map> {
    let fixed = if address.is_null() { 0 } else { libc::MAP_FIXED_NOREPLACE };
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | fixed);
    // SAFETY: rule "System": a new mapping of an open file. At a given address it replaces no other one.
    let base = unsafe { libc::mmap(address, bytes, access, flags, file.as_raw_fd(), 0) };
    (base != libc::MAP_FAILED).then(|| base.cast())
}

/// A new map.
///
/// # Safety
/// Rule "Interface": the name is null, or ends with a zero byte.
unsafe fn make(bytes: i64, address: *mut libc::c_void, name: *const libc::c_char, item: usize) -> *mut Map {
    let Ok(wanted) = u64::try_from(bytes) else { return ptr::null_mut() };
    if wanted < 4096 {
        return ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    let Some((file, bytes)) = (unsafe { file(name, Some(wanted)) }) else { return ptr::null_mut() };
    let Some(map) = map(&file, bytes, address) else { return ptr::null_mut() };
    let next = size_of::<Map>().next_multiple_of(ALIGN);
    // SAFETY: the mapping is new, and has at least a page.
    unsafe { map.write(Map { magic: MAGIC, address: map.addr(), bytes, item, free: 0, next }) };
    lock().0.push(map);
    map
}

impl Map {
    /// Whether it is the header of a file with this number of bytes, and its offsets are within.
    fn is_whole(&self, bytes: usize) -> bool {
        let is_offset = |offset: usize| offset.is_multiple_of(ALIGN) && offset >= size_of::<Map>();
        self.magic == MAGIC
            && self.bytes == bytes
            && self.next <= bytes
            && is_offset(self.next)
            && (self.free == 0 || (is_offset(self.free) && self.free < self.next))
    }
}

/// The address of a block. The map is used by its address, since a reference to the header would not reach the blocks.
///
/// # Safety
/// The offset is in the map.
unsafe fn at(map: *mut Map, offset: usize) -> *mut Block {
    // SAFETY: the caller's promise.
    unsafe { map.cast::<u8>().add(offset).cast() }
}

/// A block of a map; null if there is none.
///
/// # Safety
/// The map is one of these, and its lock is held.
unsafe fn alloc(map: *mut Map, bytes: usize) -> *mut libc::c_void {
    // SAFETY: the caller's promise. Offsets in the header and in free blocks are those of blocks of the map.
    unsafe {
        let item = (*map).item;
        let (bytes, header) = if item == 0 { (bytes, size_of::<Block>()) } else { (item, 0) };
        let Some(needed) = bytes.max(size_of::<Block>()).checked_add(header + ALIGN) else { return ptr::null_mut() };
        let needed = (needed - ALIGN).next_multiple_of(ALIGN);
        let (mut before, mut free) = (0, (*map).free);
        while free != 0 {
            let block = at(map, free);
            let next = (*block).next;
            if item != 0 || (*block).bytes >= needed {
                match before {
                    0 => (*map).free = next,
                    before => (*at(map, before)).next = next,
                }
                return block.cast::<u8>().add(header).cast();
            }
            (before, free) = (free, next);
        }
        if (*map).bytes - (*map).next < needed {
            return ptr::null_mut();
        }
        let block = at(map, (*map).next);
        (*map).next += needed;
        if header > 0 {
            block.write(Block { bytes: needed, next: 0 });
        }
        block.cast::<u8>().add(header).cast()
    }
}

/// Gives a block back.
///
/// # Safety
/// The map is one of these, and its lock is held. An address in the map is that of a block in use.
unsafe fn free(map: *mut Map, block: *mut libc::c_void) {
    // SAFETY: the caller's promise.
    unsafe {
        let header = if (*map).item == 0 { size_of::<Block>() } else { 0 };
        let offset = block.addr().wrapping_sub(map.addr()).wrapping_sub(header);
        if block.is_null() || offset >= (*map).next {
            return;
        }
        (*at(map, offset)).next = (*map).free;
        (*map).free = offset;
    }
}

/// Calls `f` with a map, under the lock. `None` if it is none.
///
/// # Safety
/// Rule "Interface": null, or an address where a header can be read.
unsafe fn with_map<R>(map: *mut libc::c_void, f: impl FnOnce(*mut Map) -> R) -> Option<R> {
    let _maps = lock();
    let map = map.cast::<Map>();
    // SAFETY: the caller's promise; maps are changed under the lock.
    let is_map = !map.is_null() && unsafe { (*map).magic } == MAGIC;
    is_map.then(|| f(map))
}

fn alloc_from(map: *mut libc::c_void, bytes: usize) -> *mut libc::c_void {
    // SAFETY: rule "Interface": a map of the program's, whose lock is held by `with_map`.
    unsafe { with_map(map, |map| alloc(map, bytes)) }.unwrap_or(ptr::null_mut())
}

fn free_in(map: *mut libc::c_void, block: *mut libc::c_void) {
    // SAFETY: rule "Interface": a map of the program's, whose lock is held by `with_map`, and a block of it.
    unsafe { with_map(map, |map| free(map, block)) };
}

exports! {
    fn qalloc_makestatmap(
        bytes: i64,
        address: *mut libc::c_void,
        name: *const libc::c_char,
        item: usize,
        _streams: usize,
    ) -> *mut Map {
        // SAFETY: rule "Interface": the name is null, or ends with a zero byte.
        unsafe { make(bytes, address, name, item.max(1)) }
    }

    fn qalloc_makedynmap(
        bytes: i64,
        address: *mut libc::c_void,
        name: *const libc::c_char,
        _streams: usize,
    ) -> *mut Map {
        // SAFETY: rule "Interface": the name is null, or ends with a zero byte.
        unsafe { make(bytes, address, name, 0) }
    }

    fn qalloc_loadmap(name: *const libc::c_char) -> *mut Map {
        // SAFETY: rule "Interface": the name is null, or ends with a zero byte.
        let Some((file, bytes)) = (unsafe { file(name, None) }) else { return ptr::null_mut() };
        if bytes < size_of::<Map>() {
            return ptr::null_mut();
        }
        // Read at any address, then mapped at its old one.
        let Some(seen) = map(&file, bytes, ptr::null_mut()) else { return ptr::null_mut() };
        // SAFETY: the mapping is new, and has a header's bytes; any bytes are a header.
        let (is_map, address) = unsafe { ((*seen).is_whole(bytes), (*seen).address) };
        // SAFETY: the mapping made above, used no more.
        unsafe { libc::munmap(seen.cast(), bytes) };
        if !is_map {
            return ptr::null_mut();
        }
        let Some(map) = map(&file, bytes, ptr::with_exposed_provenance_mut(address)) else {
            return ptr::null_mut();
        };
        lock().0.push(map);
        map
    }

    fn qalloc_checkpoint() {
        for &map in &lock().0 {
            // SAFETY: the map is in the list, so it is mapped, with the bytes in its header.
            unsafe { libc::msync(map.cast(), (*map).bytes, libc::MS_SYNC) };
        }
    }

    fn qalloc_cleanup() {
        for map in lock().0.drain(..) {
            // SAFETY: the map was in the list, so it is mapped, with the bytes in its header. Rule "Interface": the
            // program uses none of its blocks any more.
            unsafe {
                let bytes = (*map).bytes;
                libc::msync(map.cast(), bytes, libc::MS_SYNC);
                libc::munmap(map.cast(), bytes);
            }
        }
    }

    fn qalloc_statmalloc(map: *mut libc::c_void) -> *mut libc::c_void {
        alloc_from(map, 0)
    }

    fn qalloc_dynmalloc(map: *mut libc::c_void, bytes: usize) -> *mut libc::c_void {
        alloc_from(map, bytes)
    }

    fn qalloc_malloc(map: *mut libc::c_void, bytes: usize) -> *mut libc::c_void {
        alloc_from(map, bytes)
    }

    fn qalloc_statfree(block: *mut libc::c_void, map: *mut libc::c_void) {
        free_in(map, block);
    }

    fn qalloc_dynfree(block: *mut libc::c_void, map: *mut libc::c_void) {
        free_in(map, block);
    }

    fn qalloc_free(block: *mut libc::c_void, map: *mut libc::c_void) {
        free_in(map, block);
    }
}
