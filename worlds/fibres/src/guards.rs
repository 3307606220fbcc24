//! Guards below stacks: memory that ends the program when it is touched, or a canary.

use std::ptr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How stacks of an arena are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guards {
    /// By `MADV_GUARD_INSTALL` (Linux 6.13), without a mapping of its own for each.
    Installed,
    /// By pages without access. Each splits its mapping, and a process has a limit of mappings.
    Protected,
    /// By a canary.
    Canaries,
}

/// The kind that is tried first.
pub(crate) const BEST: Guards = Guards::Installed;

const MADV_GUARD_INSTALL: libc::c_int = 102;

/// How many mappings guards have made.
static SPLIT: AtomicUsize = AtomicUsize::new(0);

/// Installs many guards by a few calls, if the kernel takes advice for a list of ranges from the process itself (Linux
/// 6.13). Returns how many, from the first one on, are installed.
pub(crate) fn install_guards(count: usize, guard_bytes: usize, guard_of: impl Fn(usize) -> usize) -> usize {
    /// The kernel's limit for one call.
    const MOST: usize = libc::UIO_MAXIOV as usize;
    if count < 4 {
        return 0;
    }
    #[expect(unsafe_code, reason = "system calls that libc has no functions for")]
    // SAFETY: they take numbers and a list of ranges; the pages are an arena's, and not in use; the file is closed
    // once.
    unsafe {
        let this = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) as libc::c_int;
        if this < 0 {
            return 0;
        }
        let mut installed = 0;
        let mut ranges = Vec::with_capacity(count.min(MOST));
        while installed < count {
            ranges.clear();
            ranges.extend((installed..count.min(installed + MOST)).map(|index| libc::iovec {
                iov_base: ptr::with_exposed_provenance_mut(guard_of(index)),
                iov_len: guard_bytes,
            }));
            let advice = MADV_GUARD_INSTALL;
            let bytes = libc::syscall(libc::SYS_process_madvise, this, ranges.as_ptr(), ranges.len(), advice, 0);
            let done = usize::try_from(bytes).unwrap_or(0) / guard_bytes;
            installed += done;
            if done < ranges.len() {
                break;
            }
        }
        libc::close(this);
        installed
    }
}

/// Sets a guard. Returns the kind of guard set: the wanted one, or a substitute.
pub(crate) fn guard(start: usize, bytes: usize, wanted: Guards) -> Guards {
    let pages = ptr::with_exposed_provenance_mut::<libc::c_void>(start);
    let is_installed = || {
        #[expect(unsafe_code, reason = "a system call that libc has no safe function for")]
        // SAFETY: the pages are an arena's, and not in use.
        let refused = unsafe { libc::madvise(pages, bytes, MADV_GUARD_INSTALL) };
        refused == 0 && refuses_advice()
    };
    let is_protected = || {
        // Two mappings for each, and half of all are for others.
        if SPLIT.fetch_add(2, Ordering::Relaxed) >= most_mappings() / 2 {
            return false;
        }
        #[expect(unsafe_code, reason = "a system call that libc has no safe function for")]
        // SAFETY: as above.
        let refused = unsafe { libc::mprotect(pages, bytes, libc::PROT_NONE) };
        refused == 0
    };
    if wanted == Guards::Installed && is_installed() {
        Guards::Installed
    } else if wanted != Guards::Canaries && is_protected() {
        Guards::Protected
    } else {
        Guards::Canaries
    }
}

/// Whether the kernel refuses advice that it does not know. An emulator of another processor (qemu-user) takes any, and
/// does nothing.
fn refuses_advice() -> bool {
    const OF_NO_KERNEL: libc::c_int = libc::c_int::MAX;
    static REFUSES: LazyLock<bool> = LazyLock::new(|| {
        #[expect(unsafe_code, reason = "a system call that libc has no safe function for")]
        // SAFETY: it is about no page.
        let refused = unsafe { libc::madvise(ptr::null_mut(), 0, OF_NO_KERNEL) };
        refused != 0
    });
    *REFUSES
}

/// How many mappings the system allows a process.
fn most_mappings() -> usize {
    static MOST: LazyLock<usize> = LazyLock::new(|| {
        let told = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        told.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530)
    });
    *MOST
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::PAGE;

    /// The guard of a page in a fresh mapping, and whether the page can be written then.
    fn guarded(wanted: Guards) -> (Guards, bool) {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let mut pipe = [0; 2];
        #[expect(unsafe_code, reason = "system calls")]
        // SAFETY: the kernel chooses the addresses, and tells whether it can read them, without a signal.
        unsafe {
            let page = libc::mmap(ptr::null_mut(), PAGE, access, flags, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            let by = guard(page.expose_provenance(), PAGE, wanted);
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let is_readable = libc::write(pipe[1], page, 1) == 1;
            pipe.iter().for_each(|&end| _ = libc::close(end));
            libc::munmap(page, PAGE);
            (by, is_readable)
        }
    }

    #[test]
    fn what_the_kernel_refuses_is_guarded_by_what_there_is() {
        let (by, is_readable) = guarded(Guards::Installed);
        assert!(by != Guards::Canaries && !is_readable, "{by:?}");
        assert_eq!(guarded(Guards::Protected), (Guards::Protected, false));
        assert_eq!(guarded(Guards::Canaries), (Guards::Canaries, true));
    }

    #[test]
    fn many_guards_are_installed_by_few_calls_or_one_by_one() {
        const COUNT: usize = 3000;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let mut pipe = [0; 2];
        #[expect(unsafe_code, reason = "system calls")]
        // SAFETY: the kernel chooses the addresses, and tells whether it can read them, without a signal.
        unsafe {
            let bytes = 2 * COUNT * PAGE;
            let start = libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            // Each second page.
            let installed = install_guards(COUNT, PAGE, |index| start.expose_provenance() + 2 * index * PAGE);
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            for page in 0..2 * COUNT {
                let is_readable = libc::write(pipe[1], start.byte_add(page * PAGE), 1) == 1;
                assert_eq!(is_readable, page % 2 == 1 || page / 2 >= installed, "page {page} of {installed} guards");
                let mut byte = 0_u8;
                assert!(!is_readable || libc::read(pipe[0], (&raw mut byte).cast(), 1) == 1);
            }
            pipe.iter().for_each(|&end| _ = libc::close(end));
            libc::munmap(start, bytes);
        }
    }
}
