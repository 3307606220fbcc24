//! Statuses, and the record of each thread about its last failed call.
//!
//! A failure is a value that travels to its reader: from a call to its thread's record; from a callback's thread, as
//! the payload of a panic without a message, through the runtime to the waiting thread, and into that thread's record.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char, c_void};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::{Arc, Once};
use vicus::FlowError;

/// The statuses of `vicus.h`, by the same names. A test compares the numbers. Those without a use here are
/// [`ErrorKind::code`](vicus_service::ErrorKind::code)'s alone.
pub(crate) mod status {
    pub(crate) const OK: i32 = 0;
    pub(crate) const ARGUMENT: i32 = -1;
    pub(crate) const VERSION: i32 = -2;
    pub(crate) const STATE: i32 = -3;
    pub(crate) const SETTING: i32 = -4;
    pub(crate) const SYSTEM: i32 = -5;
    pub(crate) const NO_MEMORY: i32 = -6;
    pub(crate) const CANCELLED: i32 = -7;
    pub(crate) const CALLBACK: i32 = -8;
    pub(crate) const SCHEMA: i32 = -9;
    pub(crate) const NETWORK: i32 = -10;
    #[cfg(test)]
    pub(crate) const QUERY: i32 = -11;
    pub(crate) const LIMIT: i32 = -12;
    #[cfg(test)]
    pub(crate) const BUSY: i32 = -13;
    pub(crate) const DATA: i32 = -14;
    pub(crate) const CLOSED: i32 = -15;
    pub(crate) const INTERNAL: i32 = -16;
}

/// Why a call has failed. A clone is the same failure.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    status: i32,
    message: CString,
    /// Line and column in the text of a query, from 1; 0 if there are none.
    place: (u32, u32),
    payload: Option<Arc<Payload>>,
}

/// A callback's own data in its failure.
#[derive(Debug)]
struct Payload {
    data: *mut c_void,
    drop: Option<DropFn>,
}

/// Frees the data of a callback.
pub(crate) type DropFn = unsafe extern "C" fn(data: *mut c_void);

// SAFETY: the header says that it may be used and freed on any thread, by one at a time for functions that change it.
unsafe impl Send for Payload {}
// SAFETY: as above.
unsafe impl Sync for Payload {}

impl Drop for Payload {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: rule "Callbacks": the last owner calls it, once.
            unsafe { drop(self.data) }
        }
    }
}

/// The result of a fallible function.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(status: i32, message: impl Display) -> Failure {
        let message = CString::new(message.to_string().replace('\0', "\u{fffd}")).expect("it has no zero byte");
        Failure { status, message, place: (0, 0), payload: None }
    }

    pub(crate) fn argument(message: impl Display) -> Failure {
        Failure::new(status::ARGUMENT, message)
    }

    pub(crate) fn state(message: impl Display) -> Failure {
        Failure::new(status::STATE, message)
    }

    pub(crate) fn with_place(self, line: usize, column: usize) -> Failure {
        let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Failure { place: (number(line), number(column)), ..self }
    }

    /// The failure of a callback's status other than 0: with its thread's record, if the record has the same status.
    pub(crate) fn of_callback(status: i32) -> Failure {
        let known = RECORD.with_borrow(|record| record.clone().filter(|record| record.status == status));
        known.unwrap_or_else(|| Failure::new(status, format_args!("a callback has returned the status {status}")))
    }

    /// The failure inside a panic.
    pub(crate) fn of_panic(panic: Box<dyn Any + Send>) -> Failure {
        let panic = match panic.downcast::<Failure>() {
            Ok(failure) => return *failure,
            Err(panic) => panic,
        };
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Failure::new(status::INTERNAL, text.unwrap_or("a panic without a message"))
    }

    /// Goes to the waiter of the running task.
    pub(crate) fn travel(self) -> ! {
        // Without a call of the panic hook, which would print it.
        resume_unwind(Box::new(self))
    }

    pub(crate) fn message(&self) -> String {
        self.message.to_string_lossy().into_owned()
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message.to_string_lossy())
    }
}

impl std::error::Error for Failure {}

impl From<FlowError> for Failure {
    fn from(error: FlowError) -> Failure {
        let message = error.to_string();
        match error {
            FlowError::Cancelled => Failure::new(status::CANCELLED, message),
            FlowError::Failed { error, .. } => match error.downcast_ref::<Failure>() {
                // The status and the payload of the box's callback, with the box's name.
                Some(own) => Failure { message: Failure::new(0, message).message, ..own.clone() },
                None => Failure::new(status::NETWORK, message),
            },
            FlowError::Panicked { .. } => Failure::new(status::INTERNAL, message),
            _ => Failure::new(status::NETWORK, message),
        }
    }
}

impl From<vicus_service::Error> for Failure {
    fn from(error: vicus_service::Error) -> Failure {
        let failure = Failure::new(error.kind().code(), &error);
        match &error {
            vicus_service::Error::Query(text) if text.place.is_known() => {
                failure.with_place(text.place.line, text.place.column)
            }
            _ => failure,
        }
    }
}

thread_local! {
    /// The failure of this thread's last failed call.
    static RECORD: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Makes a failure the calling thread's last one.
pub(crate) fn record(failure: Failure) -> i32 {
    let status = failure.status;
    // Dropped after the cell is free again: it may have a payload, and the payload's drop calls the program.
    let before = RECORD.replace(Some(failure));
    drop(before);
    status
}

/// The body of each function with a status: a failure goes to the thread's record, and so does a panic, which would
/// otherwise end the process at the border.
#[inline]
pub(crate) fn guard(body: impl FnOnce() -> Outcome) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => status::OK,
        Ok(Err(failure)) => record(failure),
        Err(panic) => record(Failure::of_panic(panic)),
    }
}

/// The body of an infallible function, or of one with a failure among its values.
#[inline]
pub(crate) fn guard_or<T>(instead: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        record(Failure::of_panic(panic));
        instead
    })
}

thread_local! {
    /// Whether a panic of this thread becomes a status and so is not printed.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// From now on, panics that become statuses are not printed. The hook belongs to this library's own copy of Rust's,
/// invisible to the program and its other libraries.
pub(crate) fn print_no_told_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let prints = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |about| {
            let text = about.payload().downcast_ref::<&str>().copied();
            let text = text.or_else(|| about.payload().downcast_ref::<String>().map(String::as_str));
            if !IS_TOLD.get() && !text.is_some_and(|text| text.starts_with(NOT_ITS_THREAD)) {
                prints(about);
            }
        }));
    });
}

/// Runs a closure for a call that may come at the wrong moment or with something unknown. The panic about it becomes a
/// status, and is no error of ours.
pub(crate) fn as_state<T>(body: impl FnOnce() -> T) -> Outcome<T> {
    let before = IS_TOLD.replace(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    IS_TOLD.set(before);
    result.map_err(of_state)
}

fn of_state(panic: Box<dyn Any + Send>) -> Failure {
    let failure = Failure::of_panic(panic);
    match failure.status {
        status::INTERNAL => Failure::state(&failure),
        _ => failure,
    }
}

/// The beginning of the panic of a scope used on a foreign thread.
const NOT_ITS_THREAD: &str = "a scope's tasks are spawned by its own closure";

/// [`guard`] around [`as_state`], for a call with [`NOT_ITS_THREAD`] as its only panic: it writes no variable of the
/// thread, which takes longer than the rest of a spawn.
#[inline]
pub(crate) fn guard_spawn(body: impl FnOnce() -> Outcome) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => status::OK,
        Ok(Err(failure)) => record(failure),
        Err(panic) => record(of_state(panic)),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_error_status() -> i32 {
    guard_or(status::INTERNAL, || {
        RECORD.with_borrow(|record| record.as_ref().map_or(status::OK, |record| record.status))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_error_message() -> *const c_char {
    guard_or(c"".as_ptr(), || {
        RECORD.with_borrow(|record| record.as_ref().map_or(c"".as_ptr(), |record| record.message.as_ptr()))
    })
}

/// # Safety
/// Rule "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_error_place(line: *mut u32, column: *mut u32) -> i32 {
    guard_or(0, || {
        let place = RECORD.with_borrow(|record| record.as_ref().map_or((0, 0), |record| record.place));
        for (out, value) in [(line, place.0), (column, place.1)] {
            if !out.is_null() {
                // SAFETY: rule "Outputs".
                unsafe { out.write(value) }
            }
        }
        i32::from(place.0 > 0)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_error_payload(drop: Option<DropFn>) -> *mut c_void {
    guard_or(ptr::null_mut(), || {
        let of_this_kind =
            |payload: &&Arc<Payload>| payload.drop.map(|drop| drop as usize) == drop.map(|drop| drop as usize);
        RECORD.with_borrow(|record| {
            let payload = record.as_ref().and_then(|record| record.payload.as_ref());
            payload.filter(of_this_kind).map_or(ptr::null_mut(), |payload| payload.data)
        })
    })
}

/// # Safety
/// Rules "Texts" and "Callbacks".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_fail(
    status: i32,
    message: *const c_char,
    payload: *mut c_void,
    drop: Option<DropFn>,
) -> i32 {
    let payload = Arc::new(Payload { data: payload, drop });
    guard(|| {
        // SAFETY: rule "Texts".
        let text = unsafe { crate::text::optional(message) }?.unwrap_or("a callback has failed").to_owned();
        let status = if status == status::OK { status::CALLBACK } else { status };
        Err(Failure { payload: Some(payload), ..Failure::new(status, text) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_travels_as_a_panic_and_stays_itself() {
        let sent = Failure::new(7, "seven\0").with_place(2, 3);
        let caught = catch_unwind(|| sent.travel()).unwrap_err();
        let arrived = Failure::of_panic(caught);
        assert_eq!((arrived.status, &*arrived.message(), arrived.place), (7, "seven\u{fffd}", (2, 3)));
    }

    /// The service has the numbers of the header.
    #[test]
    fn kinds_of_errors_have_the_statuses_of_the_header() {
        use vicus_service::ErrorKind;
        for (kind, status) in [
            (ErrorKind::Query, status::QUERY),
            (ErrorKind::Failed, status::QUERY),
            (ErrorKind::Format, status::QUERY),
            (ErrorKind::PlanLimit, status::LIMIT),
            (ErrorKind::TimeLimit, status::LIMIT),
            (ErrorKind::MemoryLimit, status::LIMIT),
            (ErrorKind::NetworkLimit, status::LIMIT),
            (ErrorKind::RowLimit, status::LIMIT),
            (ErrorKind::Busy, status::BUSY),
            (ErrorKind::NoThread, status::BUSY),
            (ErrorKind::Cancelled, status::CANCELLED),
            (ErrorKind::NoMemory, status::NO_MEMORY),
            (ErrorKind::Sink, status::INTERNAL),
            (ErrorKind::Internal, status::INTERNAL),
            (ErrorKind::Store, status::DATA),
        ] {
            assert_eq!(kind.code(), status, "{kind:?}");
        }
    }

    #[test]
    fn a_panic_at_the_border_is_a_status() {
        assert_eq!(guard(|| panic!("{}", "at the border")), status::INTERNAL);
        assert_eq!(RECORD.take().unwrap().message(), "at the border");
    }
}
