//! A kernel that refuses system calls, like containers' filters (seccomp).

/// Lets the kernel refuse these calls to this process and its children. Allocates nothing, so it may run between fork
/// and exec.
pub(crate) fn refuse(calls: &[libc::c_long], error: i32) -> std::io::Result<()> {
    let instruction = |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let give = libc::BPF_RET | libc::BPF_K;
    let mut program = [instruction(give, libc::SECCOMP_RET_ALLOW, 0); 32];
    // The first word of a filter's input is the call's number.
    program[0] = instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
    for (place, &call) in calls.iter().enumerate() {
        program[1 + 2 * place] = instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, 1);
        program[2 + 2 * place] = instruction(give, libc::SECCOMP_RET_ERRNO | error as u32, 0);
    }
    let filter = libc::sock_fprog { len: 2 + 2 * calls.len() as u16, filter: program.as_mut_ptr() };
    #[expect(unsafe_code, reason = "libc has no safe function for it")]
    // SAFETY: the kernel reads `len` instructions of a live array, and checks them.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
