//! Texts, handles and arrays as C has them.

use crate::error::{Failure, Outcome};
use std::ffi::{CStr, c_char};
use std::slice;

/// A required text.
///
/// # Safety
/// Rule "Texts"; it is not used after the call.
pub(crate) unsafe fn required<'a>(text: *const c_char, name: &str) -> Outcome<&'a str> {
    // SAFETY: as asked of the caller.
    unsafe { optional(text) }?
        .ok_or_else(|| Failure::argument(format_args!("`{name}` is null, and a text is expected")))
}

/// A text that may be null.
///
/// # Safety
/// As [`required`].
pub(crate) unsafe fn optional<'a>(text: *const c_char) -> Outcome<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as asked of the caller.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|error| Failure::argument(format_args!("a text is not UTF-8: {error}")))
}

/// The target of a handle.
///
/// # Safety
/// Rule "Handles".
pub(crate) unsafe fn handle<'a, T>(handle: *const T, name: &str) -> Outcome<&'a T> {
    // SAFETY: as asked of the caller.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::argument(format_args!("`{name}` is a null handle")))
}

/// The variant of [`handle`] for targets used by one thread alone.
///
/// # Safety
/// Rule "Handles"; no other thread uses it during the call.
pub(crate) unsafe fn handle_mut<'a, T>(handle: *mut T, name: &str) -> Outcome<&'a mut T> {
    // SAFETY: as asked of the caller.
    unsafe { handle.as_mut() }.ok_or_else(|| Failure::argument(format_args!("`{name}` is a null handle")))
}

/// Frees the target of a handle.
///
/// # Safety
/// Rule "Handles": it came from [`give`], and is not used afterwards.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: as asked of the caller.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// The place of a result.
pub(crate) fn output<T>(out: *mut T, name: &str) -> Outcome<*mut T> {
    if out.is_null() {
        return Err(Failure::argument(format_args!("`{name}` is null, and the result is written there")));
    }
    Ok(out)
}

/// Writes a new handle.
///
/// # Safety
/// Rule "Outputs"; `out` is not null.
pub(crate) unsafe fn give<T>(out: *mut *mut T, value: T) {
    // SAFETY: as asked of the caller.
    unsafe { out.write(Box::into_raw(Box::new(value))) }
}

/// An array.
///
/// # Safety
/// Rule "Arrays".
pub(crate) unsafe fn array<'a, T>(elements: *const T, count: usize, name: &str) -> Outcome<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if elements.is_null() {
        return Err(Failure::argument(format_args!("`{name}` is null, and {count} elements are expected there")));
    }
    // SAFETY: as asked of the caller.
    Ok(unsafe { slice::from_raw_parts(elements, count) })
}

/// An array for results.
///
/// # Safety
/// Rule "Arrays".
pub(crate) unsafe fn array_mut<'a, T>(elements: *mut T, count: usize, name: &str) -> Outcome<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    let start = output(elements, name)?;
    // SAFETY: as asked of the caller.
    Ok(unsafe { slice::from_raw_parts_mut(start, count) })
}

/// Writes as much of a text as there is room for, and a zero byte; returns the bytes of the whole text, without it.
///
/// # Safety
/// `buffer` has `capacity` bytes, or is null if there are none.
pub(crate) unsafe fn print(text: &str, buffer: *mut c_char, capacity: usize) -> usize {
    if !buffer.is_null() && capacity > 0 {
        let mut bytes = text.len().min(capacity - 1);
        // A character is not cut.
        while !text.is_char_boundary(bytes) {
            bytes -= 1;
        }
        // SAFETY: less than the capacity is written, and the zero byte behind it.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), bytes);
            buffer.add(bytes).write(0);
        }
    }
    text.len()
}
