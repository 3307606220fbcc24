//! Memory placed by others: its nodes by our answer and by the kernel's.

use crate::left_out;
use crate::placed::{kernel_says, placeable};
use crate::sysfs::{Cpus, Machine, own_cpus};
use std::alloc::Layout;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use vicus_machine::{MachineRuntime, footprint, forget, node_of, this_machine};
use vicus_memory::distribution::Distribution;
use vicus_memory::{Footprint, WhenFull};
use vicus_topology::NodeId;

/// Not a whole number of pages.
pub(crate) const BYTES: usize = 1_000_001;

/// Memory from the C library or the kernel, not from Vicus.
pub(crate) struct Foreign {
    start: NonNull<u8>,
    free: fn(NonNull<u8>),
}

#[expect(unsafe_code, reason = "it has a pointer to its memory")]
// SAFETY: the memory is this value's alone.
unsafe impl Send for Foreign {}

impl Deref for Foreign {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: this number of bytes, initialised, and this value's alone.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr(), BYTES)
        }
    }
}

impl DerefMut for Foreign {
    fn deref_mut(&mut self) -> &mut [u8] {
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: as above.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.as_ptr(), BYTES)
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // The next test may get these addresses.
        forget(self);
        (self.free)(self.start);
    }
}

impl Foreign {
    /// From malloc.
    fn allocated() -> Foreign {
        #[expect(unsafe_code, reason = "asks the C library for memory")]
        // SAFETY: zeroed, and freed once, by the function beside it.
        let start = unsafe { libc::calloc(BYTES, 1) };
        #[expect(unsafe_code, reason = "gives the C library its memory back")]
        // SAFETY: as above.
        let free = |start: NonNull<u8>| unsafe { libc::free(start.as_ptr().cast()) };
        Foreign { start: NonNull::new(start.cast()).expect("there is memory"), free }
    }

    /// A mapping with its pages on the node with this number, or on the node of their first touch.
    pub(crate) fn mapped(number: Option<u32>) -> Foreign {
        const MPOL_DEFAULT: libc::c_int = 0;
        const MPOL_BIND: libc::c_int = 2;
        let (mode, on) = number.map_or((MPOL_DEFAULT, u32::MAX), |number| (MPOL_BIND, number));
        let mask: [u64; 16] = std::array::from_fn(|word| u64::from(on / 64 == word as u32) << (on % 64));
        #[expect(unsafe_code, reason = "maps memory and binds it to a node")]
        // SAFETY: the kernel chooses unused addresses; the mask has as many bits as the length says.
        let (start, bound) = unsafe {
            let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let start = libc::mmap(std::ptr::null_mut(), BYTES, access, flags, -1, 0);
            (start, libc::syscall(libc::SYS_mbind, start, BYTES, mode, mask.as_ptr(), 1024, 0))
        };
        assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
        #[expect(unsafe_code, reason = "gives the kernel its memory back")]
        // SAFETY: the whole mapping, once.
        let free = |start: NonNull<u8>| unsafe {
            libc::munmap(start.as_ptr().cast(), BYTES);
        };
        Foreign { start: NonNull::new(start.cast()).expect("not null"), free }
    }

    /// Bytes by node, counted from the kernel's answer for each page of it.
    fn truth(&self, page: usize, nodes: &[u32]) -> Vec<usize> {
        let mut bytes = vec![0; nodes.len()];
        let before = self.start.addr().get().next_multiple_of(page) - self.start.addr().get();
        let (head, rest) = self.split_at(before);
        for piece in [head, rest] {
            for (part, number) in piece.chunks(page).zip(kernel_says(piece, page)) {
                bytes[nodes.iter().position(|&node| node as i32 == number).expect("a node")] += part.len();
            }
        }
        bytes
    }
}

/// Moves the calling thread to these CPUs.
pub(crate) fn run_on(cpus: &Cpus) {
    let mut mask = [0u64; 16];
    cpus.iter().for_each(|&cpu| mask[cpu as usize / 64] |= 1 << (cpu % 64));
    #[expect(unsafe_code, reason = "libc's wrapper takes a type of its own")]
    // SAFETY: the kernel reads the whole array; thread 0 is the calling one.
    let done = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&mask), mask.as_ptr()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_footprint_of_others_memory_is_what_the_kernel_says() {
    let Some(at) = placeable(WhenFull::Preferred) else { return };
    let Some(kernel) = Machine::read() else { return left_out("sysfs has no nodes, cores or caches") };
    let topology = this_machine().topology;
    let _runtime = MachineRuntime::builder().topology(topology.clone()).threads(1).quiet().start();
    let page = at.memory.pages().page_bytes();
    let nodes: Vec<u32> = topology.nodes.iter().map(|node| node.os_index).collect();
    let check = |foreign: &Foreign, text: &str| -> Vec<usize> {
        let expected = foreign.truth(page, &nodes);
        assert_eq!(footprint(foreign), Footprint { nodes: expected.clone(), unknown: 0 }, "{text}");
        assert_eq!(node_of(foreign.as_ptr()), None, "{text}: it is not of the process's memory");
        expected
    };
    let all_on = |number: u32| -> Vec<usize> { nodes.iter().map(|&at| BYTES * usize::from(at == number)).collect() };
    // They are kept, so that none of them reuses pages touched by another thread.
    let mut all_touched = Vec::new();
    for &number in &at.numbers {
        let number = number as u32;
        let mut mapped = Foreign::mapped(Some(number));
        let untouched = footprint(&mapped);
        let unknown = if nodes.len() > 1 { BYTES } else { 0 };
        assert_eq!(untouched.unknown, unknown, "it is untouched: {untouched:?}");
        mapped.fill(1);
        assert_eq!(check(&mapped, "mapped"), all_on(number));
        // Other memory may get these addresses.
        forget(&mapped);
        drop(mapped);

        let home = kernel.nodes.iter().find(|node| node.number == number).expect("a node of the kernel's");
        let cpus: Cpus = home.cpus.intersection(&own_cpus()).copied().collect();
        if cpus.is_empty() {
            continue;
        }
        // Touched by a thread of this node: fresh pages lie there. What happened: the same was expected of malloc's
        // memory, but another thread, elsewhere, had touched some of its pages and given them back.
        let touched = std::thread::spawn(move || {
            run_on(&cpus);
            [Foreign::mapped(None), Foreign::allocated()].map(|mut foreign| {
                foreign.fill(1);
                foreign
            })
        });
        let touched = touched.join().unwrap();
        assert_eq!(check(&touched[0], "touched first"), all_on(number), "near CPUs of node {number}");
        check(&touched[1], "allocated");
        all_touched.extend(touched);
    }
    all_touched.iter().for_each(|touched| forget(touched));
    // On the stack.
    let stack = [1u64; 8000];
    assert_eq!(footprint(std::hint::black_box(&stack)), at.memory.truth(&stack));
    forget(&stack);
}

/// Memory with the standard distribution, touched by a thread of each node.
#[test]
fn a_footprint_of_standard_memory_is_where_it_was_touched_first() {
    let Some(at) = placeable(WhenFull::Preferred) else { return };
    let Some(kernel) = Machine::read() else { return left_out("sysfs has no nodes, cores or caches") };
    let topology = this_machine().topology;
    let runtime = MachineRuntime::builder().topology(topology.clone()).threads(1).quiet().start();
    let page = at.memory.pages().page_bytes();
    let numbers = topology.nodes.iter().map(|node| node.os_index as i32);
    let numbers: Vec<i32> = numbers.collect();
    for &number in &at.numbers {
        let home = kernel.nodes.iter().find(|node| node.number as i32 == number).expect("a node of the kernel's");
        let cpus: Cpus = home.cpus.intersection(&own_cpus()).copied().collect();
        if cpus.is_empty() {
            continue;
        }
        let mut placed = runtime.alloc(Layout::new::<[u8; BYTES]>(), Distribution::Standard).unwrap();
        let unknown = if numbers.len() > 1 { BYTES } else { 0 };
        assert_eq!(footprint(placed.bytes()).unknown, unknown, "it is untouched");
        let touched = std::thread::spawn(move || {
            run_on(&cpus);
            placed.bytes_mut().fill(1);
            placed
        });
        let placed = touched.join().unwrap();
        let mut expected = vec![0; numbers.len()];
        for (part, number) in placed.bytes().chunks(page).zip(kernel_says(placed.bytes(), page)) {
            expected[numbers.iter().position(|&at| at == number).expect("a node")] += part.len();
        }
        let here = numbers.iter().position(|&at| at == number).expect("a node of ours");
        assert!(expected[here] == BYTES, "near CPUs of node {number}: {expected:?}");
        assert_eq!(footprint(placed.bytes()), Footprint { nodes: expected, unknown: 0 });
        if numbers.len() > 1 {
            assert_eq!(node_of(placed.bytes()[BYTES / 2..].as_ptr()), Some(NodeId::new(here)), "it is kept");
        }
    }
}

/// Memory moved and changed by the kernel behind our backs.
pub(crate) struct Moving<'a> {
    pub(crate) page: usize,
    /// The kernel's numbers of our nodes.
    pub(crate) nodes: Vec<u32>,
    /// Two nodes with memory; the same one twice if there is no other.
    pub(crate) numbers: [u32; 2],
    pub(crate) topology: &'a vicus_topology::Topology,
}

impl Moving<'_> {
    /// How memory lies, by the kernel's answer for each page of it.
    pub(crate) fn truth(&self, of: &Foreign) -> Footprint {
        Footprint { nodes: of.truth(self.page, &self.nodes), unknown: 0 }
    }

    /// Moves every page of the second half to this node.
    fn migrate(&self, of: &[u8], number: u32) {
        let start = (of.as_ptr().addr() + of.len() / 2).next_multiple_of(self.page);
        let pages: Vec<usize> = (start..of.as_ptr().addr() + of.len()).step_by(self.page).collect();
        let to = vec![number as libc::c_int; pages.len()];
        let mut status = vec![0 as libc::c_int; pages.len()];
        const MPOL_MF_MOVE: libc::c_int = 2;
        #[expect(unsafe_code, reason = "libc has no wrapper of move_pages")]
        // SAFETY: the lists have as many elements as the count says, and the pages are this process's.
        let done = unsafe {
            let (count, pages, to, status) = (pages.len(), pages.as_ptr(), to.as_ptr(), status.as_mut_ptr());
            libc::syscall(libc::SYS_move_pages, 0, count, pages, to, status, MPOL_MF_MOVE)
        };
        assert!(done >= 0, "{}", std::io::Error::last_os_error());
    }

    /// Asserts that the truth is known within this number of look-ups.
    fn notices(&self, of: &Foreign, what: &str) {
        let truth = self.truth(of);
        assert!((0..1000).any(|_| footprint(of) == truth), "{what}: {:?} after a thousand looks", footprint(of));
        assert_eq!(footprint(of), truth, "{what}: it stays");
    }

    /// Asserts that the truth is known within a second.
    fn notices_in_time(&self, of: &Foreign, what: &str) {
        std::thread::sleep(std::time::Duration::from_millis(1020));
        assert_eq!(footprint(of), self.truth(of), "{what}");
    }
}

pub(crate) fn moving(f: impl FnOnce(&Moving<'_>)) {
    let Some(at) = placeable(WhenFull::Preferred) else { return };
    let topology = this_machine().topology;
    let _runtime = MachineRuntime::builder().topology(topology.clone()).threads(1).quiet().start();
    let numbers = [at.numbers[0], at.numbers[at.numbers.len() - 1]].map(|number| number as u32);
    let nodes = topology.nodes.iter().map(|node| node.os_index).collect();
    f(&Moving { page: at.memory.pages().page_bytes(), nodes, numbers, topology: &topology });
}

/// Puts another mapping in the place of one, without our notice.
fn replace(old: &Foreign, new: Foreign) {
    #[expect(unsafe_code, reason = "moves a mapping")]
    // SAFETY: both mappings are the test's; nothing points to the second one's addresses afterwards.
    let moved = unsafe {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        libc::mremap(new.start.as_ptr().cast(), BYTES, BYTES, flags, old.start.as_ptr())
    };
    assert_eq!(moved, old.start.as_ptr().cast(), "{}", std::io::Error::last_os_error());
    std::mem::forget(new);
}

/// A mapping on a node, with its pages.
fn written(number: u32) -> Foreign {
    let mut mapped = Foreign::mapped(Some(number));
    mapped.fill(1);
    mapped
}

/// What happened: a block was freed and got again at the same address, with pages of another node. Its tasks were dealt
/// to the old node, and the summary reported nothing as far.
#[test]
fn other_memory_at_the_same_addresses_is_noticed() {
    moving(|at| {
        let mapped = written(at.numbers[0]);
        assert_eq!(footprint(&mapped), at.truth(&mapped));
        replace(&mapped, written(at.numbers[1]));
        at.notices(&mapped, "other pages");
        replace(&mapped, written(at.numbers[0]));
        at.notices_in_time(&mapped, "other pages");
        replace(&mapped, written(at.numbers[1]));
        forget(&mapped);
        assert_eq!(footprint(&mapped), at.truth(&mapped), "at once, where the free was noticed");
        forget(&mapped);
        // Nothing is there.
        replace(&mapped, Foreign::mapped(Some(at.numbers[0])));
        let unknown = if at.nodes.len() > 1 { BYTES } else { 0 };
        assert!((0..=1000).any(|_| footprint(&mapped).unknown == unknown));
        forget(&mapped);
    });
}

#[test]
fn pages_that_the_kernel_moves_are_noticed() {
    moving(|at| {
        let mut mapped = Foreign::mapped(None);
        mapped.fill(1);
        for round in 0..4 {
            let before = at.truth(&mapped);
            assert_eq!(footprint(&mapped), before, "round {round}");
            at.migrate(&mapped, at.numbers[round % 2]);
            if round < 2 {
                at.notices(&mapped, "moved pages");
            } else {
                at.notices_in_time(&mapped, "moved pages");
            }
        }
        forget(&mapped);
    });
}

/// Moves of our own memory, left to the first touch, are noticed as well.
#[test]
fn pages_of_standard_memory_that_the_kernel_moves_are_noticed() {
    moving(|at| {
        let runtime = MachineRuntime::builder().topology(at.topology.clone()).threads(1).quiet().start();
        for round in 0..3 {
            let mut placed = runtime.alloc(Layout::new::<[u8; BYTES]>(), Distribution::Standard).unwrap();
            placed.bytes_mut().fill(1);
            let truth = || {
                let mut nodes = vec![0; at.nodes.len()];
                for (part, number) in placed.bytes().chunks(at.page).zip(kernel_says(placed.bytes(), at.page)) {
                    nodes[at.nodes.iter().position(|&node| node as i32 == number).expect("a node")] += part.len();
                }
                Footprint { nodes, unknown: 0 }
            };
            assert_eq!(footprint(placed.bytes()), truth(), "round {round}: what lay here before is over");
            at.migrate(placed.bytes(), at.numbers[round % 2]);
            assert!((0..1000).any(|_| footprint(placed.bytes()) == truth()), "round {round}");
            at.migrate(placed.bytes(), at.numbers[(round + 1) % 2]);
            std::thread::sleep(std::time::Duration::from_millis(1020));
            assert_eq!(footprint(placed.bytes()), truth(), "round {round}");
            if at.nodes.len() > 1 {
                let last = &placed.bytes()[BYTES - 1];
                let node = node_of(last).expect("it is known").index();
                assert_eq!(at.nodes[node], at.numbers[(round + 1) % 2], "round {round}");
            }
        }
    });
}

/// A writing child gets pages of its own.
#[test]
fn pages_that_a_forked_child_copies_are_noticed() {
    let Some(kernel) = Machine::read() else { return left_out("sysfs has no nodes, cores or caches") };
    moving(|at| {
        let mut mapped = Foreign::mapped(None);
        mapped.fill(1);
        at.migrate(&mapped, at.numbers[0]);
        assert_eq!(footprint(&mapped), at.truth(&mapped));
        let home = kernel.nodes.iter().find(|node| node.number == at.numbers[1]).expect("a node of the kernel's");
        let cpus: Cpus = home.cpus.intersection(&own_cpus()).copied().collect();
        if cpus.is_empty() {
            return;
        }
        #[expect(unsafe_code, reason = "forks, and ends the child")]
        // SAFETY: the child only writes its own memory, asks the kernel, and allocates: the C library's allocator
        // survives a fork.
        let status = unsafe {
            let child = libc::fork();
            assert!(child >= 0, "{}", std::io::Error::last_os_error());
            if child == 0 {
                run_on(&cpus);
                mapped.fill(2);
                std::thread::sleep(std::time::Duration::from_millis(1020));
                libc::_exit(i32::from(footprint(&mapped) != at.truth(&mapped)));
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            status
        };
        assert_eq!(status, 0, "in the child");
        assert_eq!(footprint(&mapped), at.truth(&mapped), "in the parent");
        forget(&mapped);
    });
}
