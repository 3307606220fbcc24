//! Ctrl-C and SIGTERM: cancel the command, and end the process if that takes too long.

use std::sync::{LazyLock, Mutex, Once, PoisonError};
use std::time::Duration;
use vicus_service::{CallLimits, Cancel};

static CANCEL: LazyLock<Cancel> = LazyLock::new(Cancel::new);

/// The exit status of a command ended by Ctrl-C, by the shells' convention.
pub(crate) const STATUS: i32 = 130;

/// The action on a signal.
type Handler = Box<dyn FnMut() + Send>;

/// The system has one handler for a process; it calls this.
static HANDLER: Mutex<Option<Handler>> = Mutex::new(None);

/// From here on a signal runs this handler, instead of the one before.
pub(crate) fn replace(handler: impl FnMut() + Send + 'static) -> Result<(), ctrlc::Error> {
    static SET: Once = Once::new();
    *HANDLER.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(handler));
    let mut set = Ok(());
    SET.call_once(|| {
        set = ctrlc::set_handler(|| {
            if let Some(handler) = &mut *HANDLER.lock().unwrap_or_else(PoisonError::into_inner) {
                handler();
            }
        });
    });
    set
}

/// From here on Ctrl-C cancels all users of [`cancel`]. If the process is still there after a second, or on a second
/// Ctrl-C, it ends at once.
pub(crate) fn listen() {
    // Without a handler, Ctrl-C kills the process, which is acceptable.
    let _ = replace(|| {
        if CANCEL.is_cancelled() {
            std::process::exit(STATUS);
        }
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(1));
            std::process::exit(STATUS);
        });
        CANCEL.cancel();
    });
}

/// The handle that Ctrl-C cancels.
pub(crate) fn cancel() -> &'static Cancel {
    &CANCEL
}

/// Limits with Ctrl-C's cancellation.
pub(crate) fn limits() -> CallLimits {
    CallLimits { cancel: CANCEL.clone(), ..CallLimits::default() }
}

/// The error of an interrupted command.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}
