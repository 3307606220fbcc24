//! Stacks of lightweight threads lie on their seat's node, according to the kernel.

#[path = "../../machine/tests/kernel/nodes.rs"]
mod nodes;
#[expect(dead_code, reason = "the tests of worlds/machine compare more")]
#[path = "../../machine/tests/kernel/sysfs.rs"]
mod sysfs;

use nodes::nodes_of;
use std::collections::BTreeSet;
use std::hint::black_box;
use std::io;
use sysfs::{Machine, own_memory};
use vicus_machine::{MachineRuntime, this_machine};
use vicus_memory::PageError;
use vicus_schedule::Setting;
use vicus_threads::{self as threads, Builder};

/// The size of the threads' stacks, and how much of it each touches.
const STACK: usize = 256 << 10;
const TOUCHED: usize = 128 << 10;
const PAGE: usize = 4096;

/// A thread's findings.
struct Seen {
    seat: usize,
    /// The nodes of its touched pages.
    nodes: io::Result<Vec<i32>>,
    /// The kernel's preferred node for further ones, if one is set.
    preferred: Option<u32>,
}

/// The kernel's preferred node for the page at this address (`MPOL_PREFERRED`).
fn preferred_at(address: *const u8) -> Option<u32> {
    const MPOL_PREFERRED: libc::c_int = 1;
    const MPOL_F_ADDR: libc::c_ulong = 2;
    let (mut mode, mut mask) = (0, [0_u64; 16]);
    let bits = size_of_val(&mask) * 8;
    #[expect(unsafe_code, reason = "libc has no wrapper of get_mempolicy")]
    // SAFETY: the kernel writes a number, and as many bits as there are.
    let failed =
        unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, mask.as_mut_ptr(), bits, address, MPOL_F_ADDR) };
    assert_eq!(failed, 0, "{}", io::Error::last_os_error());
    let first = (0..bits as u32).find(|bit| mask[*bit as usize / 64] >> (bit % 64) & 1 == 1);
    first.filter(|_| mode == MPOL_PREFERRED)
}

#[inline(never)]
fn look() -> Seen {
    let mut room = [0_u8; TOUCHED];
    let start: *mut u8 = room.as_mut_ptr();
    let first = start.map_addr(|address| address.next_multiple_of(PAGE));
    let pages: Vec<*mut u8> = (0..TOUCHED / PAGE - 1).map(|page| first.wrapping_add(page * PAGE)).collect();
    room.fill(black_box(1));
    black_box(&mut room);
    let seat = threads::seat().expect("a thread runs on a seat").index();
    // Far below the touched part, and within the stack.
    let below = start.wrapping_sub(STACK / 4);
    Seen { seat, nodes: nodes_of(&pages), preferred: preferred_at(below) }
}

#[test]
fn the_stack_of_a_thread_lies_on_the_node_of_its_seat() {
    let Some(kernel) = Machine::read() else { return left_out("sysfs has no nodes, cores or caches") };
    let may_use = own_memory();
    let machine = this_machine().topology;
    // Under this strategy a thread is run at its spawn's place.
    let strategy: Setting = "shepherd".parse().unwrap();
    let runtime = MachineRuntime::builder().topology(machine.clone()).strategy(strategy).quiet().start();
    let memory = runtime.memory().expect("there are addresses");
    if let Some(refusal @ PageError::Refused(_)) = memory.placing_refused() {
        return left_out(&format!("memory can't be placed: {refusal}"));
    }
    let is_placed = memory.locations().len() > 1;
    let mut seen = BTreeSet::new();
    for node in &machine.nodes {
        let has_memory = kernel.with_memory.contains(&node.os_index) && may_use.contains(&node.os_index);
        // The kernel keeps the last pages of a node for itself.
        let is_large = node.bytes == 0 || node.bytes >= 256 << 20;
        let has_seat = runtime.plan().seats.iter().any(|seat| seat.node == node.id && !seat.spare);
        if !(has_memory && is_large && has_seat) {
            continue;
        }
        // First on fresh stacks, then on used ones.
        for _ in 0..2 {
            let spawn = |_| {
                Builder::new().stack_size(STACK).place(node.id).spawn_on(&runtime, || {
                    let seen = look();
                    // So that several have stacks at once.
                    threads::yield_now();
                    seen
                })
            };
            let all: Vec<_> = (0..32).map(spawn).collect();
            for thread in all {
                let Seen { seat, nodes, preferred } = thread.join().unwrap();
                let nodes = match nodes {
                    Ok(nodes) => nodes,
                    Err(error) => return left_out(&format!("the kernel does not tell where pages are: {error}")),
                };
                assert_eq!(runtime.plan().seats[seat].node, node.id, "the seat of a thread for {:?}", node.id);
                assert_eq!(nodes, vec![node.os_index as i32; TOUCHED / PAGE - 1], "its stack at {:?}", node.id);
                assert_eq!(preferred, is_placed.then_some(node.os_index), "the rest of its stack at {:?}", node.id);
                seen.insert(node.os_index);
            }
        }
    }
    // A container may leave only small nodes, or nodes without a CPU.
    let is_whole = kernel.with_memory.iter().all(|node| may_use.contains(node));
    let has_large = machine.nodes.iter().any(|node| node.bytes >= 256 << 20);
    assert!(!seen.is_empty() || !is_whole || !has_large, "no node was looked at");
}

/// Reports a check left out because this machine's kernel does not tell or allow something; a guest's kernel does.
fn left_out(why: &str) {
    assert!(std::env::var_os("NUMA_VM_TOPOLOGY").is_none(), "this can't be checked in the guest: {why}");
    eprintln!("not checked: {why}");
}
