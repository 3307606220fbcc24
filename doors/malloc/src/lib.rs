//! `malloc` and its kin, for programs with `libvicus_omp.so`: blocks from a size on lie over the nodes by
//! `VICUS_DATA_DISTRIBUTION`. All others come from the allocator that the program would have without this library, the
//! next one in the loader's order.
//!
//! It is a separate library, `libvicus_malloc.so`, loaded before `libvicus_omp.so`: a program without a distribution
//! has its own `malloc` and pays nothing. This one places nothing itself; it asks functions of `libvicus_omp.so`, found
//! by name with the first large block. Until `libvicus_omp.so` has read its settings, before `main` and before
//! constructors, and in a process without it, every block is the next allocator's.
//!
//! The address of a block tells its owner: placed blocks lie in one range of addresses, kept up to date by
//! `libvicus_omp.so`. So each call for a small block is a comparison and a jump. Nothing here is per thread, allocates,
//! or takes a lock of its own.
//!
//! It also tells `libvicus_omp.so` of each large block of the next allocator, when it is given out and when it is
//! freed, and of addresses unmapped by the program: then the runtime knows the lengths of blocks named by tasks, and
//! the pages gone. For this, a free of another block asks the next allocator for its bytes, once there has been a large
//! one.

#![cfg(target_os = "linux")]
#![expect(missing_docs, reason = "the functions are those of the C library")]

use libc::{c_int, c_void, size_t};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};

/// The functions of `libvicus_omp.so` for this library.
struct Placer {
    /// A placed block, or null: then it is the next allocator's.
    place: unsafe extern "C" fn(bytes: size_t, align: size_t) -> *mut c_void,
    /// The variant with zeroed bytes.
    place_zeroed: unsafe extern "C" fn(bytes: size_t, align: size_t) -> *mut c_void,
    /// Frees a placed block. Whether it was one.
    free: unsafe extern "C" fn(*mut c_void) -> bool,
    /// How many bytes a placed block has; 0 if it is none.
    bytes: unsafe extern "C" fn(*const c_void) -> size_t,
    /// A large block of the next allocator was given out.
    note: unsafe extern "C" fn(*const c_void, size_t),
    /// A large block is about to be freed, or addresses are unmapped.
    forget: unsafe extern "C" fn(*const c_void, size_t),
}

/// Large blocks of the next allocator have as many bytes as this: glibc maps these by themselves, until it has seen
/// some freed.
const LARGE: usize = 128 << 10;

/// Whether there has been a large or a placed block: then frees are looked at.
static HAS_LARGE: AtomicBool = AtomicBool::new(false);

/// The least size of placed blocks. Until it is known, each block of a page or more asks for it.
static PLACED_FROM: AtomicUsize = AtomicUsize::new(LEAST);
/// The least size of blocks placed or told of.
static FROM: AtomicUsize = AtomicUsize::new(LEAST);
const LEAST: usize = 4096;

/// The range of placed blocks: the first address and the one behind the last. In `libvicus_omp.so`; null as long as
/// nothing was placed.
static RANGE: AtomicPtr<[AtomicUsize; 2]> = AtomicPtr::new(ptr::null_mut());

/// The functions of `libvicus_omp.so`, and the next allocator's, by their places in these lists. Null until they were
/// looked for.
static PLACER: [AtomicPtr<c_void>; 6] = [const { AtomicPtr::new(ptr::null_mut()) }; 6];
static NEXT: [AtomicPtr<c_void>; 10] = [const { AtomicPtr::new(ptr::null_mut()) }; 10];

const MALLOC: usize = 0;
const CALLOC: usize = 1;
const REALLOC: usize = 2;
const FREE: usize = 3;
const ALIGNED_ALLOC: usize = 4;
const POSIX_MEMALIGN: usize = 5;
const MEMALIGN: usize = 6;
const VALLOC: usize = 7;
const PVALLOC: usize = 8;
const USABLE: usize = 9;

const NAMES: [&std::ffi::CStr; 10] = [
    c"malloc",
    c"calloc",
    c"realloc",
    c"free",
    c"aligned_alloc",
    c"posix_memalign",
    c"memalign",
    c"valloc",
    c"pvalloc",
    c"malloc_usable_size",
];

/// The next allocator's function of this kind. A program without one has asked the loader in vain, and cannot go on.
#[inline(always)]
fn next(which: usize) -> *mut c_void {
    let known = NEXT[which].load(Ordering::Relaxed);
    if known.is_null() { find_next(which) } else { known }
}

/// Looks for all of them at once, with the first call: the loader frees the text of an earlier error when it is asked
/// again, and comes here to free it.
#[cold]
#[inline(never)]
#[expect(unsafe_code, reason = "asks the loader")]
fn find_next(which: usize) -> *mut c_void {
    for (to, name) in NEXT.iter().zip(NAMES) {
        // SAFETY: the name is a text that ends. Looking for an existing symbol allocates nothing in the C library.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        if found.is_null() {
            let line = b"libvicus_omp: the C library has no allocator that libvicus_malloc.so could stand before\n";
            // SAFETY: the text has this length; ending a process touches no memory of ours.
            unsafe {
                libc::write(2, line.as_ptr().cast(), line.len());
                libc::_exit(1)
            }
        }
        to.store(found, Ordering::Relaxed);
    }
    NEXT[which].load(Ordering::Relaxed)
}

/// Calls the next allocator's function.
macro_rules! call_next {
    ($which:expr, fn($($type:ty),*) $(-> $result:ty)?, $($argument:expr),*) => {{
        let function = next($which);
        #[expect(unsafe_code, reason = "calls the next allocator")]
        // SAFETY: the function of this name has this signature by the C standard and POSIX; the caller's promises to
        // our function hold for it.
        unsafe {
            let function: unsafe extern "C" fn($($type),*) $(-> $result)? = std::mem::transmute(function);
            function($($argument),*)
        }
    }};
}

/// Whether the state of [`placer`] is settled.
static IS_SOUGHT: AtomicU8 = AtomicU8::new(0);

/// The functions to place blocks; `None` if they are not there, or not yet.
#[cold]
#[inline(never)]
#[expect(unsafe_code, reason = "asks the loader for functions of `libvicus_omp.so`, and calls them")]
fn placer() -> Option<Placer> {
    // SAFETY: the names are texts that end. The functions and the range have these types in `libvicus_omp.so`, which is
    // never unloaded.
    unsafe {
        if IS_SOUGHT.load(Ordering::Acquire) == 0 {
            let find = |name: &std::ffi::CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
            let (from, range) = (find(c"vicus_omp_placed_from"), find(c"vicus_omp_placed_range"));
            let names = [
                c"vicus_omp_place",
                c"vicus_omp_place_zeroed",
                c"vicus_omp_free_placed",
                c"vicus_omp_placed_bytes",
                c"vicus_omp_note_block",
                c"vicus_omp_forget_block",
            ];
            let found = names.map(find);
            if from.is_null() || range.is_null() || found.iter().any(|function| function.is_null()) {
                let line =
                    b"libvicus_omp: libvicus_malloc.so places nothing, because libvicus_omp.so is not loaded with it\n";
                if IS_SOUGHT.swap(1, Ordering::AcqRel) == 0 {
                    libc::write(2, line.as_ptr().cast(), line.len());
                }
                PLACED_FROM.store(usize::MAX, Ordering::Relaxed);
                FROM.store(usize::MAX, Ordering::Relaxed);
                return None;
            }
            let from: unsafe extern "C" fn() -> size_t = std::mem::transmute(from);
            let from = from();
            if from == 0 {
                // It has not read its settings yet.
                return None;
            }
            PLACED_FROM.store(from.max(LEAST), Ordering::Relaxed);
            FROM.store(from.clamp(LEAST, LARGE), Ordering::Relaxed);
            PLACER.iter().zip(found).for_each(|(to, function)| to.store(function, Ordering::Relaxed));
            RANGE.store(range.cast(), Ordering::Release);
            IS_SOUGHT.store(2, Ordering::Release);
        }
        if IS_SOUGHT.load(Ordering::Acquire) != 2 {
            return None;
        }
        let [place, place_zeroed, free, bytes, note, forget] =
            PLACER.each_ref().map(|function| function.load(Ordering::Relaxed));
        Some(Placer {
            place: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(size_t, size_t) -> *mut c_void>(place),
            place_zeroed: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(size_t, size_t) -> *mut c_void>(
                place_zeroed,
            ),
            free: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> bool>(free),
            bytes: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_void) -> size_t>(bytes),
            note: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_void, size_t)>(note),
            forget: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_void, size_t)>(forget),
        })
    }
}

/// A placed block, if one of this size is to be.
#[inline(always)]
fn placed(bytes: usize, align: usize) -> Option<NonNull<c_void>> {
    if bytes < FROM.load(Ordering::Relaxed) { None } else { place(bytes, align, false) }
}

#[cold]
#[inline(never)]
#[expect(unsafe_code, reason = "calls a function of `libvicus_omp.so`")]
fn place(bytes: usize, align: usize, is_zeroed: bool) -> Option<NonNull<c_void>> {
    let placer = placer()?;
    if bytes < PLACED_FROM.load(Ordering::Relaxed) || !align.is_power_of_two() {
        return None;
    }
    let place = if is_zeroed { placer.place_zeroed } else { placer.place };
    // SAFETY: it takes any size, and any power of two as alignment.
    NonNull::new(unsafe { place(bytes, align) })
}

/// Tells of a block of the next allocator, if it is a large one.
#[inline(always)]
fn noted(block: *mut c_void, bytes: usize) -> *mut c_void {
    if bytes >= FROM.load(Ordering::Relaxed) {
        note(block, bytes);
    }
    block
}

#[cold]
#[inline(never)]
#[expect(unsafe_code, reason = "calls a function of `libvicus_omp.so`")]
fn note(block: *mut c_void, bytes: usize) {
    if block.is_null() || bytes < LARGE {
        return;
    }
    if let Some(placer) = placer() {
        HAS_LARGE.store(true, Ordering::Relaxed);
        // SAFETY: it takes any address and any size.
        unsafe { (placer.note)(block, bytes) };
    }
}

/// Reports that a large block of the next allocator is about to be freed. Returns its bytes; 0 if it is none of these.
#[inline(always)]
fn forgotten(block: *mut c_void) -> usize {
    if block.is_null() || !HAS_LARGE.load(Ordering::Relaxed) {
        return 0;
    }
    let bytes = call_next!(USABLE, fn(*mut c_void) -> size_t, block);
    if bytes < LARGE {
        return 0;
    }
    gone(block, bytes);
    bytes
}

/// Reports that these addresses are about to go.
#[cold]
#[inline(never)]
#[expect(unsafe_code, reason = "calls a function of `libvicus_omp.so`")]
fn gone(start: *const c_void, bytes: usize) {
    if IS_SOUGHT.load(Ordering::Acquire) == 2
        && let Some(placer) = placer()
    {
        // SAFETY: it takes any address and any size.
        unsafe { (placer.forget)(start, bytes) };
    }
}

/// Whether a block may be a placed one, by its address.
#[inline(always)]
fn may_be_placed(block: *const c_void) -> bool {
    let range = RANGE.load(Ordering::Relaxed);
    if range.is_null() {
        return false;
    }
    #[expect(unsafe_code, reason = "reads the range that `libvicus_omp.so` keeps")]
    // SAFETY: two numbers in that library, which is never unloaded.
    let [low, high] = unsafe { &*range };
    // A thread with the address of a placed block has it from a thread that saw the range.
    let (low, high) = (low.load(Ordering::Relaxed), high.load(Ordering::Relaxed));
    low <= block.addr() && block.addr() < high
}

/// How many bytes a placed block has; `None` if it is another allocator's.
#[expect(unsafe_code, reason = "calls a function of `libvicus_omp.so`")]
fn bytes_of(block: *const c_void) -> Option<(Placer, usize)> {
    if !may_be_placed(block) {
        return None;
    }
    let placer = placer()?;
    // SAFETY: it takes any address.
    let bytes = unsafe { (placer.bytes)(block) };
    (bytes > 0).then_some((placer, bytes))
}

#[expect(unsafe_code, reason = "a name of the C library")]
#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: size_t) -> *mut c_void {
    match placed(bytes, 16) {
        Some(block) => block.as_ptr(),
        None => noted(call_next!(MALLOC, fn(size_t) -> *mut c_void, bytes), bytes),
    }
}

#[expect(unsafe_code, reason = "a name of the C library")]
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: size_t, bytes: size_t) -> *mut c_void {
    let from = FROM.load(Ordering::Relaxed);
    let all = count.checked_mul(bytes).filter(|&all| all >= from);
    match all.and_then(|all| place(all, 16, true)) {
        Some(block) => block.as_ptr(),
        None => noted(call_next!(CALLOC, fn(size_t, size_t) -> *mut c_void, count, bytes), count.saturating_mul(bytes)),
    }
}

/// # Safety
/// The block is null, or one of these functions has given it out and it was not freed.
#[expect(unsafe_code, reason = "a name of the C library")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if may_be_placed(block) {
        // SAFETY: the caller's block.
        if placer().is_some_and(|placer| unsafe { (placer.free)(block) }) {
            return;
        }
    }
    forgotten(block);
    call_next!(FREE, fn(*mut c_void), block);
}

/// # Safety
/// The rules of [`free`].
#[expect(unsafe_code, reason = "a name of the C library, which copies from an old block to a new one")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: size_t) -> *mut c_void {
    if block.is_null() {
        return malloc(bytes);
    }
    if let Some((placer, before)) = bytes_of(block) {
        if bytes == 0 {
            // SAFETY: the caller's block.
            unsafe { (placer.free)(block) };
            return ptr::null_mut();
        }
        if bytes <= before && bytes > before / 2 {
            return block;
        }
        let new = malloc(bytes);
        if !new.is_null() {
            // SAFETY: both have at least this number of bytes, and are different blocks; the caller does not use the
            // old one after this.
            unsafe {
                ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast(), bytes.min(before));
                (placer.free)(block);
            }
        }
        return new;
    }
    match placed(bytes, 16) {
        None => {
            let before = forgotten(block);
            let new = call_next!(REALLOC, fn(*mut c_void, size_t) -> *mut c_void, block, bytes);
            if new.is_null() && bytes > 0 && before > 0 {
                // The old one stays.
                note(block, before);
            }
            noted(new, bytes)
        }
        Some(new) => {
            let before = call_next!(USABLE, fn(*mut c_void) -> size_t, block);
            // SAFETY: as above.
            unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), new.as_ptr().cast(), bytes.min(before)) };
            forgotten(block);
            call_next!(FREE, fn(*mut c_void), block);
            new.as_ptr()
        }
    }
}

/// # Safety
/// The rules of [`free`].
#[expect(unsafe_code, reason = "a name of the C library")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: size_t, bytes: size_t) -> *mut c_void {
    match count.checked_mul(bytes) {
        // SAFETY: the caller's block.
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => {
            // SAFETY: the calling thread's own.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            ptr::null_mut()
        }
    }
}

#[expect(unsafe_code, reason = "a name of the C library")]
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: size_t, bytes: size_t) -> *mut c_void {
    match placed(bytes, align) {
        Some(block) => block.as_ptr(),
        None => noted(call_next!(ALIGNED_ALLOC, fn(size_t, size_t) -> *mut c_void, align, bytes), bytes),
    }
}

/// # Safety
/// The address of the block can be written to `to`.
#[expect(unsafe_code, reason = "a name of the C library, which writes an address")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, align: size_t, bytes: size_t) -> c_int {
    let block = if align.is_multiple_of(size_of::<usize>()) { placed(bytes, align) } else { None };
    match block {
        Some(block) => {
            // SAFETY: says the caller.
            unsafe { to.write(block.as_ptr()) };
            0
        }
        None => {
            let status = call_next!(POSIX_MEMALIGN, fn(*mut *mut c_void, size_t, size_t) -> c_int, to, align, bytes);
            if status == 0 && bytes >= FROM.load(Ordering::Relaxed) {
                // SAFETY: says the caller; the next allocator has written it.
                note(unsafe { *to }, bytes);
            }
            status
        }
    }
}

#[expect(unsafe_code, reason = "a name of the C library")]
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: size_t, bytes: size_t) -> *mut c_void {
    match placed(bytes, align) {
        Some(block) => block.as_ptr(),
        None => noted(call_next!(MEMALIGN, fn(size_t, size_t) -> *mut c_void, align, bytes), bytes),
    }
}

#[expect(unsafe_code, reason = "a name of the C library")]
#[unsafe(no_mangle)]
pub extern "C" fn valloc(bytes: size_t) -> *mut c_void {
    // All placed blocks begin with a page.
    match placed(bytes, 16) {
        Some(block) => block.as_ptr(),
        None => noted(call_next!(VALLOC, fn(size_t) -> *mut c_void, bytes), bytes),
    }
}

#[expect(unsafe_code, reason = "a name of the C library")]
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(bytes: size_t) -> *mut c_void {
    match placed(bytes, 16) {
        Some(block) => block.as_ptr(),
        None => noted(call_next!(PVALLOC, fn(size_t) -> *mut c_void, bytes), bytes),
    }
}

/// # Safety
/// The rules of [`free`].
#[expect(unsafe_code, reason = "a name of the C library")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> size_t {
    match bytes_of(block) {
        Some((_, bytes)) => bytes,
        None => call_next!(USABLE, fn(*mut c_void) -> size_t, block),
    }
}

/// # Safety
/// The rules of the system call: the program uses these addresses no more.
#[expect(unsafe_code, reason = "a name of the C library, which unmaps memory")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(start: *mut c_void, bytes: size_t) -> c_int {
    gone(start, bytes);
    // SAFETY: the caller's promise. By the number of the call: the loader unmaps memory before its own functions can be
    // found.
    unsafe { libc::syscall(libc::SYS_munmap, start, bytes) as c_int }
}

/// The fifth argument is read with one of the flags only, as by the C library.
///
/// # Safety
/// As the system call: the program uses the old addresses no more.
#[expect(unsafe_code, reason = "a name of the C library, which moves mappings")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    start: *mut c_void,
    before: size_t,
    bytes: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    gone(start, before);
    if flags & libc::MREMAP_FIXED != 0 {
        gone(to, bytes);
    }
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_mremap, start, before, bytes, flags, to) as *mut c_void }
}

/// `libvicus_omp.so` finds this library by this name, and has it look for placed blocks from now on.
#[expect(unsafe_code, reason = "a name that is looked for")]
#[unsafe(no_mangle)]
pub extern "C" fn vicus_malloc_begin() {
    placer();
}
