//! The interface of clang's programs: `__kmpc_*`, as LLVM's `kmp.h` declares it. `location` is a place in the source;
//! `_thread` is the number given out by [`fork`], which the library does not need.

mod atomics;
#[cfg(target_arch = "x86_64")]
mod extended;
pub(crate) mod fork;
mod loops;
mod nests;
mod sync;
pub(crate) mod tasks;

/// clang's record of a task. The task's private data stand behind it.
#[repr(C)]
pub(crate) struct KmpTask {
    pub(crate) shareds: *mut u8,
    pub(crate) entry: Option<Entry>,
    /// The part to run next, for an untied task.
    pub(crate) part: i32,
    pub(crate) destructors: Option<Entry>,
    pub(crate) priority: usize,
}

pub(crate) type Entry = unsafe extern "C-unwind" fn(i32, *mut KmpTask) -> i32;

/// A place in the source: four numbers, and a text.
pub(crate) type Location = *const u8;

/// Notes a function's place in the source, for the summary.
fn note_source(function: usize, location: Location) {
    if !location.is_null() {
        // SAFETY: rule "Interface": clang's place in the source is four numbers and the address of a text.
        let source = unsafe { *location.add(4 * size_of::<i32>()).cast::<*const libc::c_char>() };
        crate::report::note_source(function, source);
    }
}
