//! Where C++'s record of a thread is found: in the program, or in a library that it has loaded.

use super::GetGlobals;
use std::ffi::{CStr, CString, c_void};
use std::mem;
use vicus_os::calls;

/// The program's own function, if its C++ library is linked into it: such a function is no symbol for look-ups, unless
/// a library refers to it. The reference is weak: it is null in a program without C++.
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

/// The function of the program, or of a library loaded for itself alone.
pub(super) fn find() -> Option<GetGlobals> {
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
        let mut found = calls::symbol(NAME);
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
