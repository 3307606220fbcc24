//! Systems other than Linux, by the standard library where it has the call: the functions and types of Linux's rooms,
//! with the same names.
//!
//! Nothing is placed: the machine is one node with as many PUs as the process may use, no thread is bound to one, and
//! pages come from the system's allocator. No handler of signals is set, so the overflow of a stack ends the process
//! without a word. The tests of this crate build these rooms on Linux as well, and ask of them what they ask of
//! Linux's own.

pub mod calls;
pub(crate) mod files;
#[cfg(any(windows, test))]
mod loaded;
#[cfg(unix)]
mod mapped;
pub mod pages;
pub mod pin;
pub mod signals;
#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;
#[cfg(test)]
mod tests;

#[cfg(not(any(unix, windows)))]
compile_error!("vicus-os is for Unix and Windows: this system needs its own `worlds/os/src/other/system`");
