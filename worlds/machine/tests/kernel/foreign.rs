//! Memory that others have placed: its nodes by our answer and by the kernel's.

use crate::left_out;
use crate::placed::{kernel_says, placeable};
use crate::sysfs::{Cpus, Machine, own_cpus};
use std::alloc::Layout;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use vicus_machine::{Runtime, footprint, forget, node_of, this_machine};
use vicus_memory::distribution::Distribution;
use vicus_memory::{Footprint, WhenFull};
use vicus_topology::NodeId;

/// Not a whole number of pages.
const BYTES: usize = 1_000_001;

/// Memory from the C library or the kernel, not from Vicus.
struct Foreign {
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
        // SAFETY: so many bytes, initialised, and this value's alone.
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

    /// A mapping whose pages the kernel puts on the node with this number, or where they are first touched.
    fn mapped(number: Option<u32>) -> Foreign {
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
fn run_on(cpus: &Cpus) {
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
    let _runtime = Runtime::builder().topology(topology.clone()).threads(1).quiet().start();
    let page = at.memory.pages().page_bytes();
    let nodes: Vec<u32> = topology.nodes.iter().map(|node| node.os_index).collect();
    let check = |foreign: &Foreign, text: &str| -> Vec<usize> {
        let expected = foreign.truth(page, &nodes);
        assert_eq!(footprint(foreign), Footprint { nodes: expected.clone(), unknown: 0 }, "{text}");
        assert_eq!(node_of(foreign.as_ptr()), None, "{text}: it is not of the process's memory");
        expected
    };
    let all_on = |number: u32| -> Vec<usize> { nodes.iter().map(|&at| BYTES * usize::from(at == number)).collect() };
    // They are kept, so that none of them reuses pages that another thread has touched.
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
        // Touched by a thread of that node: fresh pages lie there. What happened: the same was expected of malloc's memory, of
        // which another thread, elsewhere, had touched some pages and given them back.
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
    let runtime = Runtime::builder().topology(topology.clone()).threads(1).quiet().start();
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

#[test]
fn what_is_known_of_others_memory_is_kept_until_it_is_forgotten() {
    let Some(at) = placeable(WhenFull::Preferred) else { return };
    let _runtime = Runtime::builder().topology(this_machine().topology).threads(1).quiet().start();
    let [first, last] = [at.numbers[0], at.numbers[at.numbers.len() - 1]].map(|number| number as u32);
    let [on_first, on_last] = [0, at.numbers.len() - 1].map(|location| {
        let mut nodes = vec![0; at.memory.nodes()];
        nodes[at.memory.locations()[location].index()] = BYTES;
        Footprint { nodes, unknown: 0 }
    });
    let mut mapped = Foreign::mapped(Some(first));
    mapped.fill(1);
    assert_eq!(footprint(&mapped), on_first);
    // Other pages come to the same addresses without our notice.
    let other = Foreign::mapped(Some(last));
    #[expect(unsafe_code, reason = "moves a mapping")]
    // SAFETY: both mappings are this test's; nothing points to the second one's addresses afterwards.
    let moved = unsafe {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        libc::mremap(other.start.as_ptr().cast(), BYTES, BYTES, flags, mapped.start.as_ptr())
    };
    assert_eq!(moved, mapped.start.as_ptr().cast(), "{}", std::io::Error::last_os_error());
    std::mem::forget(other);
    mapped.fill(2);
    assert_eq!(footprint(&mapped), on_first, "what was learnt stays");
    forget(&mapped);
    assert_eq!(footprint(&mapped), on_last, "and is asked for again");
    forget(&mapped);
}
