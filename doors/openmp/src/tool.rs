//! A tool loaded with the program (OMPT): it is found, started, and told that none of its callbacks will be called.
//!
//! OpenMP 5.2, §19.2: before the first region, the library looks for the function `ompt_start_tool` of the program or
//! of a library loaded with it. Its result has two functions, for the tool's beginning and its end. The tool asks for
//! functions of the library by their names, and for callbacks by one of these, which answers here: registered, never
//! called.

use crate::thread::here;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// The result of `ompt_start_tool`.
#[repr(C)]
struct Tool {
    initialize: Option<unsafe extern "C" fn(Lookup, c_int, *mut u64) -> c_int>,
    finalize: Option<unsafe extern "C" fn(*mut u64)>,
    /// The tool's own.
    data: u64,
}

type Start = unsafe extern "C" fn(c_uint, *const c_char) -> *mut Tool;
type Lookup = unsafe extern "C" fn(*const c_char) -> *const c_void;

/// The running tool, until it ends.
static TOOL: AtomicPtr<Tool> = AtomicPtr::new(ptr::null_mut());

/// The version of OpenMP reported to tools: 5.2.
const VERSION: c_uint = 202_111;

/// The first thread has come: a tool begins, if there is one and the user has not forbidden it.
pub(crate) fn begin() {
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    if HAS_BEGUN.swap(true, Ordering::Relaxed) || !crate::settings::get().takes_tools {
        return;
    }
    // SAFETY: rule "System": a function with this name has OMPT's type, and its result, if there is one, lasts until
    // the tool's end.
    unsafe {
        let start = libc::dlsym(libc::RTLD_DEFAULT, c"ompt_start_tool".as_ptr());
        if start.is_null() {
            return;
        }
        let start: Start = std::mem::transmute(start);
        let name = concat!("Vicus ", env!("CARGO_PKG_VERSION"), "\0");
        let tool = start(VERSION, name.as_ptr().cast());
        let Some(initialize) = tool.as_ref().and_then(|tool| tool.initialize) else { return };
        if initialize(lookup, 0, &raw mut (*tool).data) != 0 {
            TOOL.store(tool, Ordering::Release);
        }
    }
}

/// The process ends, or the tool wants no more.
pub(crate) extern "C" fn end() {
    let tool = TOOL.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: OMPT: the tool's structure lasts until its `finalize`, which is called once, since the exchange above
    // gives the address to one caller.
    unsafe {
        if let Some(finalize) = tool.as_ref().and_then(|tool| tool.finalize) {
            finalize(&raw mut (*tool).data);
        }
    }
}

/// A function of the library by its name; null if there is none.
unsafe extern "C" fn lookup(name: *const c_char) -> *const c_void {
    // SAFETY: OMPT: the name ends with a zero byte.
    let name = unsafe { CStr::from_ptr(name) };
    match name.to_bytes() {
        b"ompt_set_callback" => set_callback as *const c_void,
        b"ompt_get_callback" => get_callback as *const c_void,
        b"ompt_get_thread_data" => get_thread_data as *const c_void,
        b"ompt_get_unique_id" => get_unique_id as *const c_void,
        b"ompt_get_num_procs" => get_num_procs as *const c_void,
        b"ompt_get_proc_id" => get_proc_id as *const c_void,
        b"ompt_finalize_tool" => end as *const c_void,
        _ => ptr::null(),
    }
}

/// `ompt_set_never`: the event may happen, and its callback is not called.
const NEVER: c_int = 1;

extern "C" fn set_callback(_event: c_int, _callback: *const c_void) -> c_int {
    NEVER
}

extern "C" fn get_callback(_event: c_int, _callback: *mut *const c_void) -> c_int {
    0
}

/// A word of the thread's for the tool.
extern "C" fn get_thread_data() -> *mut u64 {
    &raw mut here().tool_data
}

extern "C" fn get_unique_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

extern "C" fn get_num_procs() -> c_int {
    crate::settings::processors() as c_int
}

extern "C" fn get_proc_id() -> c_int {
    // SAFETY: rule "System": no argument.
    unsafe { libc::sched_getcpu() }
}
