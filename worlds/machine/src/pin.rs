//! Where a thread may run.

use std::io;

/// The CPUs on which a thread may run, in the kernel's form.
#[derive(Debug)]
pub(crate) struct Cpus(Vec<libc::c_ulong>);

impl Cpus {
    /// Those of the calling thread; `None` if the kernel does not tell.
    pub(crate) fn of_this_thread() -> Option<Cpus> {
        // For more CPUs than the kernel can have.
        let mut mask = vec![0; 1024];
        #[expect(unsafe_code, reason = "libc's wrapper takes masks of one fixed size only")]
        // SAFETY: the kernel writes at most so many bytes into a live vector; thread 0 is the calling one.
        let written =
            unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask[..]), mask.as_mut_ptr()) };
        mask.truncate(usize::try_from(written).ok()? / size_of::<libc::c_ulong>());
        Some(Cpus(mask))
    }

    /// Lets the calling thread run on them again.
    pub(crate) fn restore(&self) {
        // If it refuses, the thread stays where it is.
        let _ = set(&self.0);
    }
}

/// Lets the calling thread run on these CPUs of the operating system only.
pub(crate) fn pin(cpus: impl Iterator<Item = u32>) -> io::Result<()> {
    set(&mask(cpus))
}

fn set(mask: &[libc::c_ulong]) -> io::Result<()> {
    let bytes = size_of_val(mask);
    #[expect(unsafe_code, reason = "libc's wrapper takes masks of one fixed size only")]
    // SAFETY: the kernel reads so many bytes from a live slice; thread 0 is the calling one.
    let done = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, mask.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A bit for each number, in as many words as needed: the form in which the kernel takes any number of CPUs and nodes.
pub(crate) fn mask(numbers: impl IntoIterator<Item = u32>) -> Vec<libc::c_ulong> {
    let mut mask = Vec::new();
    for number in numbers {
        let (word, bit) = ((number / libc::c_ulong::BITS) as usize, number % libc::c_ulong::BITS);
        if mask.len() <= word {
            mask.resize(word + 1, 0);
        }
        mask[word] |= 1 << bit;
    }
    mask
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_a_bit_for_each_number_however_large() {
        let bytes =
            |mask: Vec<libc::c_ulong>| mask.into_iter().flat_map(libc::c_ulong::to_ne_bytes).collect::<Vec<u8>>();
        assert!(mask([]).is_empty());
        let large = bytes(mask([1023, 64, 3, 0]));
        assert_eq!(large.len(), 128);
        let ones: u32 = large.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(ones, 4);
        if cfg!(target_endian = "little") {
            assert_eq!((large[0], large[8], large[127]), (0b1001, 1, 0b1000_0000));
        }
    }
}
