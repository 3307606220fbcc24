//! The real world: hwloc, pinning, clock, threads.
