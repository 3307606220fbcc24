//! Where C++'s record of a thread is found, on systems other than Linux.

use super::GetGlobals;
use std::ffi::c_void;
use std::mem;
use vicus_os::calls;

/// The function of the program, or of a library open to all.
pub(super) fn find() -> Option<GetGlobals> {
    let found = calls::symbol(c"__cxa_get_globals");
    #[expect(unsafe_code, reason = "a function by its name")]
    // SAFETY: this name is the ABI's, with this type; null is `None`.
    unsafe {
        mem::transmute::<*mut c_void, Option<GetGlobals>>(found)
    }
}
