//! The CPUs of a thread.

use std::io;

/// Whether threads can be bound to CPUs on this system.
pub const BINDS: bool = true;

/// Lets the calling thread run on these CPUs of the operating system only.
pub fn pin(cpus: impl Iterator<Item = u32>) -> io::Result<()> {
    let mask = mask(cpus);
    let bytes = size_of_val(&mask[..]);
    #[expect(unsafe_code, reason = "libc's wrapper takes masks of one fixed size only")]
    // SAFETY: the kernel reads this number of bytes from a live vector; thread 0 is the calling one.
    let done = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, mask.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The CPUs open to the calling thread, by the operating system's numbers, in order.
pub fn affinity() -> io::Result<Vec<u32>> {
    // The kernel refuses a mask shorter than its own, and does not tell its length.
    let mut words = vec![0_u64; 16];
    loop {
        let bytes = size_of_val(&words[..]);
        #[expect(unsafe_code, reason = "no safe wrapper takes masks of more than 1024 CPUs")]
        // SAFETY: the pointer is to `bytes` writable bytes, an upper bound of the call's writes; u64 has at least the
        // alignment of cpu_set_t, an array of words; 0 is the calling thread.
        let failed = unsafe { libc::sched_getaffinity(0, bytes, words.as_mut_ptr().cast::<libc::cpu_set_t>()) } != 0;
        if !failed {
            let is_set = |&cpu: &usize| words[cpu / 64] >> (cpu % 64) & 1 == 1;
            return Ok((0..words.len() * 64).filter(is_set).map(|cpu| cpu as u32).collect());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || words.len() > 1 << 16 {
            return Err(error);
        }
        words = vec![0; words.len() * 2];
    }
}

/// A bit for each number, in as many words as needed: the kernel's form for any number of CPUs and nodes.
pub fn mask(numbers: impl IntoIterator<Item = u32>) -> Vec<libc::c_ulong> {
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
