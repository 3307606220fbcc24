//! What this crate finds and does, against what the kernel itself says: sysfs, the tasks in `/proc`, `move_pages`.
//!
//! True on every Linux machine, so `cargo test` holds it here. `./dev test numa` runs the same program in guests with
//! several nodes (`tools/numa-vm`), where there is more to get wrong. A check is a test in one of these files, and every
//! guest runs it.

mod affinity;
mod containers;
mod dealt;
mod foreign;
mod heaps;
mod pages;
mod placed;
mod spill;
mod sysfs;
mod topology;

/// What the kernel of this machine does not tell or allow is left out, and said; a guest has all of it.
fn left_out(why: &str) {
    assert!(std::env::var_os("NUMA_VM_TOPOLOGY").is_none(), "this can't be checked in the guest: {why}");
    eprintln!("not checked: {why}");
}
