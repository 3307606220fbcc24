//! The objects of the process, the program and its libraries: the OpenMP library they ask for, and the names they
//! define.
//!
//! A program may define a function with a name of the C library, its own `read`: it would be called when this library
//! reads a file. C reserves such names for the library, and programs define them all the same. The loader
//! binds a name to the first object defining it, which is the program. Before `main`, the calls of files and the like
//! in this library are bound to the C library again: their slots in the tables of this object are written. Functions
//! often replaced on purpose (`malloc` and its kin, threads) are left as they are, and so is everything under a
//! sanitizer, because it replaces the names of files, too.

use crate::wait::KeepErrno;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the program, or the first of its libraries that asks for one, is made for clang's library. If the two
/// libraries differ visibly, the program gets the behaviour it is made for.
static IS_FOR_CLANG: AtomicBool = AtomicBool::new(false);

/// Whether the program is one of clang's.
pub(crate) fn is_for_clang() -> bool {
    IS_FOR_CLANG.load(Ordering::Relaxed)
}

/// An object calls a function of clang's library that none of gcc's programs knows. For objects linked with this
/// library by its name.
pub(crate) fn note_clang() {
    if !IS_FOR_CLANG.load(Ordering::Relaxed) && !IS_KNOWN.load(Ordering::Relaxed) {
        IS_FOR_CLANG.store(true, Ordering::Relaxed);
    }
}

/// Whether an object asks for a library by name.
static IS_KNOWN: AtomicBool = AtomicBool::new(false);

/// Whether an object loaded with the program asks for an OpenMP library. In other programs, no variable is reported.
pub(crate) fn is_asked_for() -> bool {
    IS_ASKED_FOR.load(Ordering::Relaxed)
}

static IS_ASKED_FOR: AtomicBool = AtomicBool::new(false);

/// The functions bound again.
const NAMES: [&CStr; 44] = [
    c"access",
    c"close",
    c"closedir",
    c"dirfd",
    c"fclose",
    c"fdopen",
    c"fdopendir",
    c"feof",
    c"fgets",
    c"fopen",
    c"fopen64",
    c"fread",
    c"fstat",
    c"fstat64",
    c"fstatat",
    c"fstatat64",
    c"getcwd",
    c"gethostname",
    c"getline",
    c"getpid",
    c"gettid",
    c"lseek",
    c"lseek64",
    c"mkdir",
    c"open",
    c"open64",
    c"openat",
    c"openat64",
    c"opendir",
    c"pause",
    c"poll",
    c"read",
    c"readdir",
    c"readdir64",
    c"readlink",
    c"readlinkat",
    c"realpath",
    c"rename",
    c"stat",
    c"stat64",
    c"statx",
    c"sysconf",
    c"write",
    c"writev",
];

/// An entry of an object's dynamic table.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// A relocation slot, written by the loader.
#[repr(C)]
struct Slot {
    offset: usize,
    /// The number of the symbol, and in the lower half the kind of the slot.
    symbol_and_kind: u64,
    addend: i64,
}

/// The kinds of slots with a function's address: of data and of calls.
#[cfg(target_arch = "x86_64")]
const KINDS: [u32; 2] = [6, 7];
#[cfg(not(target_arch = "x86_64"))]
const KINDS: [u32; 2] = [1025, 1026];

/// The program, and the objects with calls to bind again.
#[derive(Default)]
struct Objects {
    program: Option<(usize, usize)>,
    own: Vec<Object>,
    /// Whether the first object with a need for an OpenMP library wants clang's.
    is_for_clang: Option<bool>,
    /// Whether one asks for this library by its own name.
    asks_for_this: bool,
}

/// The load address of an object, and its table.
struct Object {
    base: usize,
    dynamic: *const Dynamic,
}

/// # Safety
/// `info` is the loader's, and `all` a list of [`Objects`] that the caller alone uses.
unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _bytes: usize, all: *mut c_void) -> c_int {
    // SAFETY: rule "System": the loader's description lasts for the call, and `all` is the list of `begin`.
    let (info, all) = unsafe { (&*info, &mut *all.cast::<Objects>()) };
    // SAFETY: rule "System": the description has this number of headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let base = info.dlpi_addr as usize;
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let range = loaded
        .clone()
        .map(|header| base + header.p_vaddr as usize)
        .min()
        .zip(loaded.map(|header| base + (header.p_vaddr + header.p_memsz) as usize).max());
    let dynamic = headers
        .iter()
        .find(|header| header.p_type == libc::PT_DYNAMIC)
        .map(|header| Object { base, dynamic: ptr::with_exposed_provenance(base + header.p_vaddr as usize) });
    if all.is_for_clang.is_none() {
        all.is_for_clang = dynamic.as_ref().and_then(Object::asks_for_clang);
    }
    all.asks_for_this |= dynamic.as_ref().is_some_and(Object::asks_for_this);
    // The program is the first one.
    if all.program.is_none() {
        all.program = Some(range.unwrap_or_default());
        return 0;
    }
    let here = collect as *const () as usize;
    let is_this = range.is_some_and(|(low, high)| (low..high).contains(&here));
    if is_this {
        all.own.extend(dynamic);
    }
    0
}

/// The tag of the names of symbols and libraries.
const STRINGS: i64 = 5;

impl Object {
    /// The values of its table's entries with this tag.
    fn values(&self, tag: i64) -> impl Iterator<Item = usize> {
        // SAFETY: rule "System": the loader has mapped the table, which ends with an entry of tag 0.
        let entries = (0..).map(|at| unsafe { &*self.dynamic.add(at) });
        entries.take_while(|entry| entry.tag != 0).filter(move |entry| entry.tag == tag).map(|entry| entry.value)
    }

    fn address(&self, tag: i64) -> Option<usize> {
        self.values(tag).next()
    }

    /// The first answer of `f` to the names of its needed libraries.
    fn needs<R>(&self, f: impl Fn(&[u8]) -> Option<R>) -> Option<R> {
        const NEEDED: i64 = 1;
        // The kernel's own object is not bound as others are.
        let strings = self.address(STRINGS).filter(|&strings| strings > self.base)?;
        self.values(NEEDED).find_map(|at| {
            // SAFETY: rule "System": the loader has put the address of the strings into the table; each name ends with
            // a zero byte.
            f(unsafe { CStr::from_ptr(ptr::with_exposed_provenance::<c_char>(strings + at)) }.to_bytes())
        })
    }

    /// Whether it asks for clang's library; `None` if it asks for none.
    fn asks_for_clang(&self) -> Option<bool> {
        self.needs(|name| {
            let is_one_of = |all: &[&[u8]]| all.iter().any(|begin| name.starts_with(begin));
            if is_one_of(&[b"libomp.so", b"libiomp5.so"]) {
                return Some(true);
            }
            is_one_of(&[b"libgomp.so"]).then_some(false)
        })
    }

    /// Whether it is linked with this library.
    fn asks_for_this(&self) -> bool {
        self.needs(|name| name.starts_with(b"libvicus_omp.so").then_some(())).is_some()
    }

    /// Writes the addresses of functions into the slots of these names.
    fn bind(&self, functions: &[(&CStr, usize)]) {
        const SYMBOLS: i64 = 6;
        // The tags of the slots' descriptions and of their bytes: for data, and for calls.
        const TABLES: [(i64, i64); 2] = [(7, 8), (23, 2)];
        const SYMBOL_BYTES: usize = 24;
        let (Some(strings), Some(symbols)) = (self.address(STRINGS), self.address(SYMBOLS)) else { return };
        for (table, bytes) in TABLES {
            let (Some(table), Some(bytes)) = (self.address(table), self.address(bytes)) else { continue };
            let slots: *const Slot = ptr::with_exposed_provenance(table);
            for at in 0..bytes / size_of::<Slot>() {
                // SAFETY: rule "System": the table has this number of bytes.
                let slot = unsafe { &*slots.add(at) };
                if !KINDS.contains(&(slot.symbol_and_kind as u32)) {
                    continue;
                }
                let symbol = symbols + (slot.symbol_and_kind >> 32) as usize * SYMBOL_BYTES;
                // A symbol begins with the offset of its name.
                // SAFETY: rule "System": a slot's number is that of a symbol in the object's table.
                let name = unsafe { *ptr::with_exposed_provenance::<u32>(symbol) } as usize;
                // SAFETY: rule "System": a symbol's name is in the strings, and ends with a zero byte.
                let name = unsafe { CStr::from_ptr(ptr::with_exposed_provenance::<c_char>(strings + name)) };
                if let Some((_, function)) = functions.iter().find(|(other, _)| *other == name) {
                    // SAFETY: the slot is one of the loader's for this name, and the function is the one of the C
                    // library.
                    unsafe { write(self.base + slot.offset, *function) };
                }
            }
        }
    }
}

/// Writes a word on a page that the loader may have made read-only.
///
/// # Safety
/// `at` is the address of an aligned word that other threads only read.
unsafe fn write(at: usize, value: usize) {
    // SAFETY: the caller's promise: a word that the loader has written, so it lies on one mapped page; other threads'
    // calls read the old or the new word.
    unsafe {
        let bytes = libc::getauxval(libc::AT_PAGESZ) as usize;
        let page = at & !(bytes - 1);
        let both = libc::PROT_READ | libc::PROT_WRITE;
        if libc::mprotect(ptr::with_exposed_provenance_mut(page), bytes, both) == 0 {
            // The page stays writable: whether it was before is not known.
            ptr::with_exposed_provenance_mut::<usize>(at).write(value);
        }
    }
}

/// Looks at the objects, and binds the functions redefined by the program. Nothing is bound in a program without such
/// functions.
pub(crate) fn begin() {
    let _errno = KeepErrno::new();
    let mut all = Objects::default();
    // SAFETY: rule "System": `collect` gets the list of this function, during the call alone.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut all).cast()) };
    if let Some(is_for_clang) = all.is_for_clang {
        IS_FOR_CLANG.store(is_for_clang, Ordering::Relaxed);
        IS_KNOWN.store(true, Ordering::Relaxed);
    }
    IS_ASKED_FOR.store(all.is_for_clang.is_some() || all.asks_for_this, Ordering::Relaxed);
    let Some((low, high)) = all.program else { return };
    // SAFETY: rule "System": the name ends with a zero byte.
    let found = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.addr();
    if [c"__tsan_init", c"__asan_init", c"__msan_init"].into_iter().any(|name| found(name) != 0) {
        return;
    }
    let taken: Vec<&CStr> = NAMES.into_iter().filter(|name| (low..high).contains(&found(name))).collect();
    if taken.is_empty() {
        return;
    }
    // SAFETY: rule "System": the name ends with a zero byte; the library is there already, so none of its code runs.
    let library = unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return;
    }
    let of_library = |name: &CStr| {
        // SAFETY: rule "System": the name ends with a zero byte.
        let address = unsafe { libc::dlsym(library, name.as_ptr()) }.addr();
        // In a program without a library of its own for it: the address that the linker has given the function there.
        let mut place = MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: rule "System": the loader reads no memory at the address, and `place` is read by nobody.
        let is_known = unsafe { libc::dladdr(ptr::with_exposed_provenance(address), place.as_mut_ptr()) } != 0;
        (address != 0 && is_known && !(low..high).contains(&address)).then_some(address)
    };
    let functions: Vec<(&CStr, usize)> = taken.into_iter().filter_map(|name| Some((name, of_library(name)?))).collect();
    all.own.iter().for_each(|object| object.bind(&functions));
}
