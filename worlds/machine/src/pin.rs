//! Where a thread may run.

use std::io;

/// Lets the calling thread run on these CPUs of the operating system only.
pub(crate) fn pin(cpus: impl Iterator<Item = u32>) -> io::Result<()> {
    // The kernel takes a mask of any length; words of 64 bits.
    let mut mask: Vec<u64> = Vec::new();
    for cpu in cpus {
        let (word, bit) = (cpu as usize / 64, cpu % 64);
        if mask.len() <= word {
            mask.resize(word + 1, 0);
        }
        mask[word] |= 1 << bit;
    }
    #[expect(unsafe_code, reason = "libc's wrapper takes masks of one fixed size only")]
    // SAFETY: the kernel reads `mask.len() * 8` bytes from a live vector; thread 0 is the calling one.
    let done = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, mask.len() * 8, mask.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
