//! SIGHUP: there is none on Windows, and a server's log is not opened anew.

use vicus_server::AccessLog;

/// Does nothing: no signal asks for it.
pub(crate) fn reopens(_log: AccessLog) -> anyhow::Result<()> {
    Ok(())
}
