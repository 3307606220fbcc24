//! Pages of the operating system, placed on nodes before they are touched.
//!
//! mbind(2) sets the policy of addresses without pages; the kernel follows it at a page's first touch. The kernel's
//! NUMA balancing also leaves a range with its own policy alone.

use crate::calls::page_bytes;
use crate::pin::mask;
use crate::set::Set;
use std::collections::HashMap;
use std::io;
use std::ptr::NonNull;
use std::sync::OnceLock;
use vicus_memory::{PageError, PagePlacement, Pages, WhenFull};
use vicus_topology::{NodeId, Topology};

/// Modes of mbind, from the kernel's `include/uapi/linux/mempolicy.h`.
const MPOL_DEFAULT: libc::c_int = 0;
const MPOL_PREFERRED: libc::c_int = 1;
const MPOL_BIND: libc::c_int = 2;
const MPOL_INTERLEAVE: libc::c_int = 3;

/// Asks mbind to move this process's existing pages.
const MPOL_MF_MOVE: libc::c_uint = 1 << 1;

/// Words of a mask with room for every node a kernel can be built for: 1,024 of them on x86-64.
const MOST_NODES: usize = 1024 / libc::c_ulong::BITS as usize;

/// Asks get_mempolicy for the policy of an address.
const MPOL_F_ADDR: libc::c_ulong = 2;

/// Whether pages lie on the nodes that they are asked for, and go back to the system. Otherwise the program's own
/// allocator is as good for all blocks.
pub const ARE_PLACED: bool = true;

/// The pages of this machine, for `vicus_memory`.
///
/// The kernel kills a process at the touch of a page in a strict range if the node can't give one. So a commit of a
/// strict range is refused if its node is full, and else its pages are touched at once: the next commit then finds less
/// free memory.
#[derive(Debug)]
pub struct SystemPages {
    /// The kernel's numbers of the topology's nodes.
    numbers: Vec<u32>,
    page_bytes: usize,
    /// The numbers of the nodes with memory open to this process; `None` if the kernel does not tell.
    allowed: Option<Vec<u32>>,
    /// Whether the kernel's turns use all bits of a page's number.
    counts_all_bits: bool,
    /// By the kernel's numbers of nodes, the bytes it keeps free for itself. Read at the first need of a strict range.
    kept: OnceLock<HashMap<u32, u64>>,
    /// See [`SystemPages::telling`].
    gone: fn(std::ops::Range<usize>, usize),
}

impl SystemPages {
    /// For the nodes of this machine.
    pub fn new(topology: &Topology) -> SystemPages {
        let numbers = topology.nodes.iter().map(|node| node.os_index).collect();
        let page_bytes = page_bytes();
        let (allowed, counts_all_bits) = (allowed(), release() >= Some((6, 7)));
        SystemPages { numbers, page_bytes, allowed, counts_all_bits, kept: OnceLock::new(), gone: |_, _| {} }
    }

    /// Calls `gone` with addresses that are decommitted, before their pages go, and with addresses that are placed or
    /// committed; and with the bytes of a page. Not with discarded parts: these are many and small, in memory that
    /// stays in use, and `gone` may split a range at each.
    pub fn telling(self, gone: fn(std::ops::Range<usize>, usize)) -> SystemPages {
        SystemPages { gone, ..self }
    }

    /// Says that other pages come to these addresses, or none.
    fn tell_gone(&self, start: NonNull<u8>, bytes: usize) {
        (self.gone)(start.addr().get()..start.addr().get() + bytes, self.page_bytes);
    }

    fn number(&self, node: NodeId) -> Result<u32, PageError> {
        self.numbers.get(node.index()).copied().ok_or(PageError::NoSuchNode(node))
    }

    fn mask(&self, nodes: &[NodeId]) -> Result<Vec<libc::c_ulong>, PageError> {
        self.numbers_of(nodes).map(mask)
    }

    /// Calls mbind. With `MPOL_MF_MOVE` it moves existing pages.
    ///
    /// # Safety
    /// The addresses are reserved.
    #[expect(unsafe_code, reason = "libc has no wrapper of mbind")]
    unsafe fn bind(
        &self,
        start: NonNull<u8>,
        bytes: usize,
        placement: PagePlacement<'_>,
        flags: libc::c_uint,
    ) -> Result<libc::c_long, PageError> {
        let (mode, mask) = match placement {
            PagePlacement::On(node, WhenFull::Preferred) => (MPOL_PREFERRED, self.mask(&[node])?),
            PagePlacement::On(node, WhenFull::Strict) => (MPOL_BIND, self.mask(&[node])?),
            PagePlacement::Interleaved(nodes) => (MPOL_INTERLEAVE, self.mask(nodes)?),
            PagePlacement::Standard => (MPOL_DEFAULT, Vec::new()),
        };
        // The kernel reads one bit less than the length says. It refuses an address together with an empty mask.
        let bits = mask.len() * libc::c_ulong::BITS as usize + 1;
        // SAFETY: the kernel keeps the contents; the mask has as many bits as the length says, except for the unread
        // last one.
        Ok(unsafe { libc::syscall(libc::SYS_mbind, start.as_ptr(), bytes, mode, mask.as_ptr(), bits, flags) })
    }

    /// Makes sure of the kernel's turns: it skips nodes without memory, and a huge page would be a single turn.
    fn check_turns(&self, start: NonNull<u8>, bytes: usize, nodes: &[NodeId]) -> Result<(), PageError> {
        let asked = self.mask(nodes)?;
        let mut mode = MPOL_DEFAULT;
        let mut mask: Vec<libc::c_ulong> = vec![0; asked.len().max(MOST_NODES)];
        let bits = mask.len() * libc::c_ulong::BITS as usize;
        #[expect(unsafe_code, reason = "libc has no wrapper of get_mempolicy")]
        // SAFETY: the kernel writes one integer and as many bits as the mask has, and looks the address up. Then it
        // gets advice, which changes no contents.
        let done = unsafe {
            let (mode, mask) = (&raw mut mode, mask.as_mut_ptr());
            libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_NOHUGEPAGE);
            libc::syscall(libc::SYS_get_mempolicy, mode, mask, bits, start.as_ptr(), MPOL_F_ADDR)
        };
        if done != 0 {
            return Err(PageError::Refused(last_error()));
        }
        let is_in =
            |number: u32| mask[(number / libc::c_ulong::BITS) as usize] >> (number % libc::c_ulong::BITS) & 1 == 1;
        for &node in nodes {
            if !is_in(self.number(node)?) {
                return Err(PageError::NoSuchNode(node));
            }
        }
        if self.numbers_of(nodes)?.is_sorted() { Ok(()) } else { Err(PageError::Refused(libc::EINVAL)) }
    }

    fn numbers_of(&self, nodes: &[NodeId]) -> Result<Vec<u32>, PageError> {
        nodes.iter().map(|&node| self.number(node)).collect()
    }

    /// Whether a node has this number of unused bytes beyond the kernel's reserve: otherwise the next pages would come
    /// from another node, or not at all. `true` if the kernel does not tell.
    fn has_free(&self, number: u32, bytes: usize) -> bool {
        let read = || {
            let text = std::fs::read_to_string("/proc/zoneinfo");
            text.map(|text| kept(&text, self.page_bytes as u64)).unwrap_or_default()
        };
        let kept = self.kept.get_or_init(read).get(&number).copied().unwrap_or(0);
        free_bytes(number).is_none_or(|free| free.saturating_sub(kept) >= bytes as u64)
    }

    /// Writes to each page of fresh memory.
    ///
    /// # Safety
    /// It was just committed, and only the caller has it.
    #[expect(unsafe_code, reason = "touches pages")]
    unsafe fn touch(&self, start: NonNull<u8>, bytes: usize) {
        for offset in (0..bytes).step_by(self.page_bytes) {
            // SAFETY: within the part just committed by the caller; it is zero and stays so.
            unsafe {
                start.add(offset).write_volatile(0);
            }
        }
    }
}

/// By the kernel's numbers of nodes, the bytes of free memory withheld from processes: in each zone its high watermark,
/// and the reserve for requests bound to lower zones. After the kernel's `calculate_totalreserve_pages`
/// (`mm/page_alloc.c`).
fn kept(zoneinfo: &str, page_bytes: u64) -> HashMap<u32, u64> {
    let mut kept = HashMap::new();
    let (mut node, mut high, mut managed) = (None, 0, 0);
    for line in zoneinfo.lines() {
        let mut words = line.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let (key, mut values) = (words.next(), words.map_while(|word| word.parse::<u64>().ok()));
        match key {
            Some("Node") => node = values.next().and_then(|number| u32::try_from(number).ok()),
            Some("high") if !line.contains(':') => high = values.next().unwrap_or(0),
            Some("managed") => managed = values.next().unwrap_or(0),
            Some("protection") => {
                let reserve = values.max().unwrap_or(0);
                let of_node = node.map(|node| kept.entry(node).or_insert(0));
                of_node.into_iter().for_each(|kept| *kept += (high + reserve).min(managed) * page_bytes);
            }
            _ => {}
        }
    }
    kept
}

/// Checks for room to map this number of bytes: an error if there is none. Nothing is mapped after it.
pub fn ensure_room(bytes: usize) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    #[expect(unsafe_code, reason = "system calls that libc has no safe function for")]
    // SAFETY: the kernel chooses unused addresses, unmapped here before any use.
    unsafe {
        let mapped = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0);
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(mapped, bytes);
    }
    Ok(())
}

/// How many more addresses the process may have; `None` if there is no limit.
pub fn addresses_left() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    #[expect(unsafe_code, reason = "std does not know limits")]
    // SAFETY: the kernel fills the value.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } != 0;
    if failed || limit.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    // In pages: all addresses, the resident ones, and others.
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split(' ').next()?.parse().ok()?;
    Some(limit.rlim_cur.saturating_sub(pages.saturating_mul(page_bytes() as u64)))
}

/// Maps memory for stacks, without huge pages: it costs what is touched of it, and stays until the process ends. `None`
/// if there is none.
pub fn map_stacks(bytes: usize) -> Option<NonNull<u8>> {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    #[expect(unsafe_code, reason = "system calls that libc has no safe function for")]
    // SAFETY: the kernel chooses unused addresses; the advice is about these alone.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return None;
        }
        libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
        NonNull::new(start.cast())
    }
}

/// Gives the pages of a part of memory back to the system; it has new ones, of any content, when it is touched.
///
/// # Safety
/// The part is whole pages of anonymous memory, and nothing reads its content.
#[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
pub unsafe fn give_up(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTNEED);
    }
}

/// Asks for huge pages in a part of memory. A hint: it can't fail.
///
/// # Safety
/// The part is the caller's.
#[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
pub unsafe fn prefer_huge(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise; the advice only changes the time of the first touch.
    unsafe {
        libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
    }
}

/// Addresses that no allocator has, until [`let_go`]; null if there are none.
pub fn hold(bytes: usize) -> *mut u8 {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    #[expect(unsafe_code, reason = "addresses that no allocator has")]
    // SAFETY: a new mapping anywhere.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { std::ptr::null_mut() } else { mapped.cast() }
}

/// Gives held addresses back. Whether the system has taken them.
///
/// # Safety
/// They are those of a call of [`hold`] with this number of bytes, and not used any more.
#[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
pub unsafe fn let_go(start: *mut u8, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(start.cast(), bytes) == 0 }
}

/// This memory's system calls refused by the kernel, one sentence each. `nodes`: the machine's number of nodes.
pub fn refused(nodes: usize) -> Vec<String> {
    let mut refused = Vec::new();
    let mut say =
        |call: &str, what: &str| refused.push(format!("{call} is refused ({}): {what}", io::Error::last_os_error()));
    let mut here = 0u8;
    let page = std::ptr::from_mut(&mut here);
    #[expect(unsafe_code, reason = "system calls that libc has no safe function for")]
    // SAFETY: a page of its own is mapped, advised and unmapped; the others read an address of this frame and write an
    // integer.
    unsafe {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let mapped = libc::mmap(std::ptr::null_mut(), 1, access, flags, -1, 0);
        if mapped != libc::MAP_FAILED {
            if libc::madvise(mapped, 1, libc::MADV_DONTNEED) != 0 {
                say("madvise", "memory that is freed stays with this process");
            }
            libc::munmap(mapped, 1);
        }
        if nodes > 1 {
            if libc::sched_getcpu() < 0 {
                say("getcpu", "threads without a seat get memory of the first node");
            }
            let (mut status, nowhere) = (0 as libc::c_int, std::ptr::null::<libc::c_int>());
            if libc::syscall(libc::SYS_move_pages, 0, 1, &raw const page, nowhere, &raw mut status, 0) != 0 {
                say("move_pages", "the nodes of memory that was not placed are unknown");
            }
        }
    }
    refused
}

/// How many bytes of a node, by the system's number of it, are unused, caches included; `None` if the system does not
/// tell.
pub fn free_bytes(node: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo")).ok()?;
    let line = text.lines().find(|line| line.contains("MemFree:"))?;
    Some(line.split_whitespace().rev().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// The numbers of the online nodes; `None` if the system does not tell.
pub fn nodes_online() -> Option<Vec<u32>> {
    numbers(&std::fs::read_to_string("/sys/devices/system/node/online").ok()?)
}

/// The nodes allowed by the process's cpuset.
fn allowed() -> Option<Vec<u32>> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    numbers(text.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"))?)
}

/// The numbers of a list as the kernel writes it: `0-1,4`.
fn numbers(list: &str) -> Option<Vec<u32>> {
    Some(Set::parse_list(list).ok()?.numbers().collect())
}

/// The kernel's version. Before 6.7 it took turns by the lower 32 bits of a page's number (`offset_il_node` in its
/// `mm/mempolicy.c`), since then by all of them (`interleave_nid`).
fn release() -> Option<(u32, u32)> {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Places untouched pages on the node of this number in the system, as long as the node has room. If the system
/// refuses, they lie on the node of their first touch.
pub fn prefer_node(start: usize, bytes: usize, number: u32) {
    let mask = mask([number]);
    let bits = mask.len() * libc::c_ulong::BITS as usize + 1;
    #[expect(unsafe_code, reason = "libc has no wrapper of mbind")]
    // SAFETY: the kernel changes no contents, and refuses unmapped addresses; the mask is as in `SystemPages::bind`.
    let _ = unsafe { libc::syscall(libc::SYS_mbind, start, bytes, MPOL_PREFERRED, mask.as_ptr(), bits, 0) };
}

/// How many pages the kernel is asked to move at once.
const BATCH: usize = 512;

/// Moves the pages with these numbers to the node of this number in the system. Returns how many lie there then; the
/// others were never touched, or are shared with other processes, or the node is full.
pub fn migrate(pages: std::ops::Range<usize>, page_bytes: usize, number: u32) -> io::Result<usize> {
    let addresses: Vec<usize> = pages.map(|page| page * page_bytes).collect();
    addresses.chunks(BATCH).map(|batch| migrate_batch(batch, number)).sum()
}

fn migrate_batch(addresses: &[usize], number: u32) -> io::Result<usize> {
    let to = [number as libc::c_int; BATCH];
    let mut numbers = [libc::c_int::MIN; BATCH];
    #[expect(unsafe_code, reason = "libc has no wrapper of move_pages")]
    // SAFETY: the three lists have at least as many elements as the count says. The kernel looks the addresses up
    // without following them, and moves contents as they are.
    let left = unsafe {
        let (to, numbers) = (to.as_ptr(), numbers.as_mut_ptr());
        libc::syscall(libc::SYS_move_pages, 0, addresses.len(), addresses.as_ptr(), to, numbers, MPOL_MF_MOVE)
    };
    match left {
        ..0 => Err(io::Error::last_os_error()),
        // It has stopped at an immovable page: the others are moved without this one.
        1.. if addresses.len() > 1 => {
            let (first, second) = addresses.split_at(addresses.len() / 2);
            Ok(migrate_batch(first, number)? + migrate_batch(second, number)?)
        }
        1.. => Ok(0),
        0 => Ok(numbers[..addresses.len()].iter().filter(|&&now| u32::try_from(now) == Ok(number)).count()),
    }
}

/// Why mbind failed just now.
fn refusal(placement: PagePlacement<'_>) -> PageError {
    match placement {
        PagePlacement::On(node, _) if last_error() == libc::EINVAL => PageError::NoSuchNode(node),
        _ => PageError::Refused(last_error()),
    }
}

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[expect(unsafe_code, reason = "the trait promises that the memory is the caller's alone")]
// SAFETY: `reserve` returns a fresh private mapping, cut to the alignment, and only `release` unmaps it; committed
// parts of it are readable, writable and zero until `decommit`.
unsafe impl Pages for SystemPages {
    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn reserve(&self, bytes: usize, align: usize) -> Result<NonNull<u8>, PageError> {
        let align = align.max(self.page_bytes);
        let all = bytes.checked_add(align).ok_or(PageError::Full)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the kernel chooses unused addresses.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(if last_error() == libc::ENOMEM { PageError::Full } else { PageError::Refused(last_error()) });
        }
        let first = mapped.cast::<u8>();
        let before = first.addr().next_multiple_of(align) - first.addr();
        let start = first.wrapping_add(before);
        for (unused, length) in [(first, before), (start.wrapping_add(bytes), all - before - bytes)] {
            if length > 0 {
                // SAFETY: an unused part of the mapping above, in front of or behind the returned one.
                unsafe { libc::munmap(unused.cast(), length) };
            }
        }
        NonNull::new(start).ok_or(PageError::Full)
    }

    unsafe fn place(&self, start: NonNull<u8>, bytes: usize, placement: PagePlacement<'_>) -> Result<(), PageError> {
        // SAFETY: the addresses are reserved, by the caller's promise, and have no pages yet.
        let done = unsafe { self.bind(start, bytes, placement, 0)? };
        match (done, placement) {
            (0, PagePlacement::Interleaved(nodes)) => self.check_turns(start, bytes, nodes)?,
            (0, _) => {}
            _ => return Err(refusal(placement)),
        }
        self.tell_gone(start, bytes);
        Ok(())
    }

    fn may_use(&self, node: NodeId) -> bool {
        self.number(node).is_ok_and(|number| self.allowed.as_ref().is_none_or(|allowed| allowed.contains(&number)))
    }

    fn turn(&self, address: usize, nodes: usize) -> usize {
        let page = address / self.page_bytes;
        if self.counts_all_bits { page % nodes } else { page as u32 as usize % nodes }
    }

    fn has_room(&self, node: NodeId, bytes: usize) -> bool {
        self.may_use(node) && self.number(node).is_ok_and(|number| self.has_free(number, bytes))
    }

    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize, node: NodeId) -> Result<(), PageError> {
        let mut mode: libc::c_int = MPOL_DEFAULT;
        let no_mask = std::ptr::null::<libc::c_ulong>();
        // SAFETY: the kernel writes one integer and no mask, since its length is given as none; it looks the address
        // up.
        let asked =
            unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, no_mask, 0, start.as_ptr(), MPOL_F_ADDR) };
        let is_strict = asked == 0 && mode == MPOL_BIND;
        if is_strict && !self.has_free(self.number(node)?, bytes) {
            return Err(PageError::Full);
        }
        // SAFETY: the part is reserved and unused, by the caller's promise.
        let done = unsafe { libc::mprotect(start.as_ptr().cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) };
        if done != 0 {
            return Err(if last_error() == libc::ENOMEM { PageError::Full } else { PageError::Refused(last_error()) });
        }
        self.tell_gone(start, bytes);
        if is_strict {
            // SAFETY: committed by this call.
            unsafe { self.touch(start, bytes) };
        }
        Ok(())
    }

    unsafe fn decommit(&self, start: NonNull<u8>, bytes: usize, _node: NodeId) {
        self.tell_gone(start, bytes);
        // SAFETY: the part is committed and not used any more, by the caller's promise; its pages go, and its addresses
        // stay.
        unsafe {
            if libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTNEED) != 0 {
                // The trait promises zeros after the next commit, wherever the pages come from.
                start.as_ptr().write_bytes(0, bytes);
            }
            libc::mprotect(start.as_ptr().cast(), bytes, libc::PROT_NONE);
        }
    }

    unsafe fn discard(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the part is committed and holds nothing that is needed, by the caller's promise. If the kernel
        // refuses, it stays as it was.
        unsafe {
            libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTNEED);
        }
    }

    unsafe fn relocate(
        &self,
        start: NonNull<u8>,
        bytes: usize,
        to: NodeId,
        when_full: WhenFull,
    ) -> Result<(), PageError> {
        if when_full == WhenFull::Strict && !self.has_room(to, bytes) {
            return Err(PageError::Full);
        }
        let placement = PagePlacement::On(to, when_full);
        // SAFETY: the addresses are reserved, by the caller's promise.
        let done = unsafe { self.bind(start, bytes, placement, MPOL_MF_MOVE)? };
        if done == 0 { Ok(()) } else { Err(refusal(placement)) }
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize, _align: usize) {
        // SAFETY: a whole unused range of `reserve`, by the caller's promise.
        unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
    }

    unsafe fn advise_huge(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the addresses are reserved, by the caller's promise; advice changes no contents.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
    }

    fn truth(&self, addresses: &[usize]) -> Vec<Option<NodeId>> {
        let pages: Vec<*mut u8> = addresses
            .iter()
            .map(|&address| std::ptr::without_provenance_mut(address & !(self.page_bytes - 1)))
            .collect();
        let mut numbers = vec![i32::MIN; pages.len()];
        let nowhere = std::ptr::null::<i32>();
        // SAFETY: both arrays have as many elements as the count says; without target nodes nothing is moved, and the
        // kernel looks the addresses in the first one up without following them.
        unsafe {
            libc::syscall(libc::SYS_move_pages, 0, pages.len(), pages.as_ptr(), nowhere, numbers.as_mut_ptr(), 0);
        }
        let node = |number: i32| {
            let number = u32::try_from(number).ok()?;
            self.numbers.iter().position(|&known| known == number).map(NodeId::new)
        };
        numbers.into_iter().map(node).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A machine with two nodes, without the unread lines.
    const ZONEINFO: &str = "\
Node 0, zone      DMA
  pages free     2815
        min      7
        low      9
        high     11
        managed  3840
        protection: (0, 2962, 24090)
  pagesets
    cpu: 0
              high:  378
Node 0, zone    DMA32
        high     3660
        managed  772917
        protection: (0, 0, 21071)
Node 0, zone   Normal
        high     25557
        managed  5394266
        protection: (0, 0, 0)
Node 1, zone   Normal
        high     700
        managed  16384
        protection: (0, 0, 0)
Node 1, zone  Movable
        high     32
        managed  0
        protection: (0, 0, 0)
";

    #[test]
    #[expect(unsafe_code, reason = "tests use pages")]
    fn a_discard_of_free_blocks_tells_of_no_lost_memory() {
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        let topology = Topology::parse("node:1 core:1").unwrap();
        let pages = SystemPages::new(&topology).telling(|range, _| {
            TOLD.fetch_add(range.len(), Relaxed);
        });
        let (page, node) = (pages.page_bytes(), NodeId::new(0));
        let start = pages.reserve(8 * page, page).unwrap();
        // SAFETY: reserved above, committed before it is used, and released last.
        unsafe {
            pages.commit(start, 8 * page, node).unwrap();
            assert_eq!(TOLD.swap(0, Relaxed), 8 * page);
            start.write_bytes(7, 8 * page);
            pages.discard(start.add(page), page);
            assert_eq!(TOLD.load(Relaxed), 0);
            assert_eq!([start.add(page - 1), start.add(page), start.add(2 * page)].map(|byte| byte.read()), [7, 0, 7]);
            pages.decommit(start, 8 * page, node);
            assert_eq!(TOLD.load(Relaxed), 8 * page);
            pages.release(start, 8 * page, page);
        }
    }

    #[test]
    fn of_a_nodes_free_memory_the_kernel_keeps_some() {
        // All of the first zone: its reserve is larger than its memory.
        let first = 3840 + (3660 + 21071) + 25557;
        assert_eq!(kept(ZONEINFO, 4096), HashMap::from([(0, first * 4096), (1, 700 * 4096)]));
        assert!(kept("", 4096).is_empty());
    }
}
