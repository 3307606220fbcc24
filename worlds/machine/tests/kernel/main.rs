//! Compares this crate's findings and actions with the kernel's own answers: sysfs, the tasks in `/proc`, `move_pages`.
//!
//! Holds on every Linux machine, so `cargo test` runs it. `./dev test numa` runs the same program in guests with
//! several nodes (`tools/numa-vm`), with more possible failures. A check is a test in one of these files, and every
//! guest runs it.

mod affinity;
mod containers;
mod dealt;
mod files;
mod foreign;
mod heaps;
mod migrate;
mod nodes;
mod pages;
mod placed;
mod spill;
mod store;
mod sysfs;
mod topology;

/// Reports a check left out because this machine's kernel does not tell or allow something; a guest's kernel does.
fn left_out(why: &str) {
    assert!(std::env::var_os("NUMA_VM_TOPOLOGY").is_none(), "this can't be checked in the guest: {why}");
    eprintln!("not checked: {why}");
}
