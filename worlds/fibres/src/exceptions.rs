//! C++'s record of a thread's exceptions moves with the lightweight thread.
//!
//! C++ keeps a stack of caught exceptions, and the number of exceptions under way, for each thread of the system.
//! Lightweight threads that switch inside a `catch` would take each other's exceptions off that stack. So it is swapped
//! when a fibre is entered and left, in the layout of the Itanium C++ ABI (section 2.2.2, `__cxa_eh_globals`): the
//! address of the last caught exception, and a number.
//!
//! C++ is looked for once, when the first fibre is entered: a program in C whose first C++ comes with a library loaded
//! later has to load C++'s library before.

use crate::stack::Stack;
use std::ffi::{CStr, CString, c_void};
use std::mem;
use std::ptr;
use std::sync::OnceLock;

/// C++'s record for a thread: mostly empty.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caught {
    last: *mut c_void,
    under_way: u32,
}

impl Caught {
    pub(crate) const NOTHING: Caught = Caught { last: ptr::null_mut(), under_way: 0 };
}

/// The place of this record for a thread of the system.
#[derive(Clone, Copy, Default)]
pub struct Exceptions(RecordPlace);

#[derive(Clone, Copy, Default)]
enum RecordPlace {
    /// No stack was entered so far.
    #[default]
    Unknown,
    /// There was no C++ in the program when the first one was.
    Nowhere,
    At(*mut Caught),
}

type GetGlobals = unsafe extern "C" fn() -> *mut Caught;

impl RecordPlace {
    /// For the calling thread.
    #[cold]
    fn here() -> RecordPlace {
        static FOUND: OnceLock<Option<GetGlobals>> = OnceLock::new();
        let Some(get) = FOUND.get_or_init(find) else { return RecordPlace::Nowhere };
        #[expect(unsafe_code, reason = "a function of C++'s library")]
        // SAFETY: the ABI gives it this type. Its answer stays there as long as the thread.
        unsafe {
            RecordPlace::At(get())
        }
    }
}

/// The program's own function, if its C++ library is linked into it: such a function is no symbol for look-ups, unless
/// a library refers to it. The reference is weak: it is null in a program without C++.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a weak reference, which the language does not have; no code is added")]
mod of_program {
    std::arch::global_asm!(
        ".pushsection .data.rel.ro.vicus_get_globals, \"aw\"",
        ".balign 8",
        ".weak __cxa_get_globals",
        ".hidden vicus_get_globals",
        ".globl vicus_get_globals",
        "vicus_get_globals: .8byte __cxa_get_globals",
        ".popsection",
    );

    // SAFETY: a pointer to a function of this type, or null.
    unsafe extern "C" {
        #[link_name = "vicus_get_globals"]
        pub(super) safe static GET_GLOBALS: Option<super::GetGlobals>;
    }
}

#[cfg(not(target_os = "linux"))]
mod of_program {
    pub(super) static GET_GLOBALS: Option<super::GetGlobals> = None;
}

/// The function of the program, or of a library loaded for itself alone.
fn find() -> Option<GetGlobals> {
    const NAME: &CStr = c"__cxa_get_globals";
    if of_program::GET_GLOBALS.is_some() {
        return of_program::GET_GLOBALS;
    }
    // Only among loaded libraries: a request for a missing one makes the loader open files.
    let loaded = loaded_library(&[c"libstdc++.so", c"libc++abi.so"]);
    #[expect(unsafe_code, reason = "looks for a function by its name")]
    // SAFETY: names end with a 0; a library is kept if it is there already, and never let go, so the function stays.
    // This name is the ABI's, with this type; null is `None`.
    unsafe {
        let mut found = libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr());
        if found.is_null()
            && let Some(library) = loaded
        {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if !handle.is_null() {
                found = libc::dlsym(handle, NAME.as_ptr());
            }
        }
        mem::transmute::<*mut c_void, Option<GetGlobals>>(found)
    }
}

/// The path of the first loaded library with a file name beginning with one of these.
fn loaded_library(names: &[&CStr]) -> Option<CString> {
    struct Search<'a> {
        names: &'a [&'a CStr],
        found: Option<CString>,
    }

    #[expect(unsafe_code, reason = "the type of a function that the loader calls")]
    // SAFETY of callers: the pointers are to the loader's record of a library, and to a `Search`.
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> i32 {
        // SAFETY: the caller's promise; a library's path ends with a 0.
        let (search, path) = unsafe { (&mut *search.cast::<Search<'_>>(), (*info).dlpi_name) };
        if path.is_null() {
            return 0;
        }
        // SAFETY: as above.
        let path = unsafe { CStr::from_ptr(path) };
        let file = path.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if search.names.iter().any(|name| file.starts_with(name.to_bytes())) {
            search.found = Some(path.to_owned());
            return 1;
        }
        0
    }

    let mut search = Search { names, found: None };
    #[expect(unsafe_code, reason = "asks the loader")]
    // SAFETY: it calls `look` before it returns, and with this `Search`.
    unsafe {
        libc::dl_iterate_phdr(Some(look), (&raw mut search).cast());
    }
    search.found
}

impl Stack {
    /// Swaps the record of the calling thread with the stack's, which keeps the one beneath; a second call undoes it.
    /// `at`: the calling thread's.
    ///
    /// # Safety
    /// Only the caller uses the stack, and no other thread of the system has used `at`.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub unsafe fn swap_exceptions(&self, at: &mut Exceptions) {
        if let RecordPlace::Unknown = at.0 {
            at.0 = RecordPlace::here();
        }
        let RecordPlace::At(kept) = at.0 else { return };
        // SAFETY: the caller's promise; `kept` is the calling thread's.
        unsafe {
            let own = self.caught.get();
            if *kept != Caught::NOTHING || *own != Caught::NOTHING {
                ptr::swap(kept, own);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_library_is_found_by_the_beginning_of_its_name() {
        let found = loaded_library(&[c"libnone.so", c"libc.so"]).expect("each program has it");
        assert!(found.to_str().unwrap().contains("/libc.so"), "{found:?}");
        assert_eq!(loaded_library(&[c"libc.sox"]), None);
    }
}
