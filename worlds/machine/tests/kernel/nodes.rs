//! Where pages are, by the kernel's answer.

use std::io;

/// The node of each page, or a negative error number for an address without a page.
pub(crate) fn nodes_of(pages: &[*mut u8]) -> io::Result<Vec<i32>> {
    let mut nodes = vec![i32::MIN; pages.len()];
    let nowhere = std::ptr::null::<i32>();
    #[expect(unsafe_code, reason = "libc has no wrapper of move_pages")]
    // SAFETY: both arrays have as many elements as the count says; without target nodes nothing is moved, and the
    // kernel looks the addresses in the first one up without following them.
    let done =
        unsafe { libc::syscall(libc::SYS_move_pages, 0, pages.len(), pages.as_ptr(), nowhere, nodes.as_mut_ptr(), 0) };
    if done == 0 { Ok(nodes) } else { Err(io::Error::last_os_error()) }
}
