//! A hint to the processor.

/// Asks for the line of memory at an address, to write to it or to read it soon. A hint: at an invalid address, or
/// without an instruction for it, nothing happens.
///
/// ```
/// let values = [1, 2, 3];
/// vicus_memory::prefetch::<false>(values.as_ptr().cast());
/// ```
#[inline(always)]
pub fn prefetch<const TO_WRITE: bool>(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[expect(unsafe_code, reason = "instructions of the processor")]
    // SAFETY: a prefetch of any address changes nothing a program sees. Processors without `prefetchw` do nothing
    // there. (The compiler's intrinsic for it asks for the line to read it, unless the whole program is compiled for a
    // processor with it.)
    unsafe {
        use std::arch::{
            asm,
            x86_64::{_MM_HINT_T0, _mm_prefetch},
        };
        match TO_WRITE {
            true => asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags)),
            false => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
        }
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = address;
}
