//! SIGHUP: programs that move logs away use it to have a server open its log anew.

use anyhow::{Context, ensure};
use std::sync::OnceLock;
use vicus_server::AccessLog;

static LOG: OnceLock<AccessLog> = OnceLock::new();

extern "C" fn on_hangup(_: libc::c_int) {
    if let Some(log) = LOG.get() {
        log.reopen();
    }
}

/// From here on SIGHUP opens this log anew, and ends nothing. The handler of other signals must be set before: setting
/// it would make this signal end the process.
pub(crate) fn reopens(log: AccessLog) -> anyhow::Result<()> {
    ensure!(LOG.set(log).is_ok(), "a process has one server");
    let handler = on_hangup as extern "C" fn(libc::c_int);
    #[expect(unsafe_code, reason = "no safe crate of ours sets the handler of one signal alone")]
    // SAFETY: sigaction reads a complete structure: zeros are no flags and an empty mask, and the handler has the type
    // expected without SA_SIGINFO. The handler loads an initialised OnceLock and stores into an atomic, as
    // signal-safety(7) permits.
    let set = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGHUP, &action, std::ptr::null_mut())
    };
    if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()).context("SIGHUP can't be handled") }
}
