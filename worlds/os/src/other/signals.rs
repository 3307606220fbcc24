//! Faults on addresses: they end the process as the system does it, for no handler is set here.

/// Does nothing: no one asks about the address of a fault.
pub fn tell_of_guards(_tells: fn(usize) -> bool) {}

/// Does nothing.
pub fn watch() {}

/// Does nothing: a thread needs no stack for signals.
pub fn watch_thread() {}
