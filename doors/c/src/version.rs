//! The version of a program's header: another version than the library's is refused before anything starts.

use crate::error::{Failure, Outcome, guard, print_no_told_panics, status};
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU32, Ordering};

/// `VICUS_ABI_VERSION`: raised whenever a function or a structure of the header changes incompatibly.
pub(crate) const ABI: u32 = 2;

/// major * 10000 + minor * 100 + patch, as `VICUS_VERSION`.
pub(crate) const VERSION: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
    + number(env!("CARGO_PKG_VERSION_MINOR")) * 100
    + number(env!("CARGO_PKG_VERSION_PATCH"));

/// A number without a sign, from its digits.
const fn number(digits: &str) -> u32 {
    let (mut value, mut at) = (0, 0);
    while at < digits.len() {
        value = value * 10 + (digits.as_bytes()[at] - b'0') as u32;
        at += 1;
    }
    value
}

const TEXT: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => panic!("a version has no zero byte"),
};

/// The program's report of its header: none yet, the right one, or another one.
static TOLD: AtomicU32 = AtomicU32::new(NOTHING);
const NOTHING: u32 = 0;
const RIGHT: u32 = 1;

/// The first check of every function that starts something.
pub(crate) fn is_right() -> Outcome {
    if TOLD.load(Ordering::Acquire) == RIGHT {
        return Ok(());
    }
    let message =
        "call vicus_init() first, and go on only if it returns VICUS_OK: it compares vicus.h with the library";
    Err(Failure::new(status::VERSION, message))
}

/// Whether a program compiled with this header can use this library: before 1.0, a minor version may change anything.
fn compare(version: u32, abi: u32) -> Outcome {
    let compatible = |version: u32| if VERSION < 10_000 { version / 100 } else { version / 10_000 };
    if abi == ABI && compatible(version) == compatible(VERSION) {
        return Ok(());
    }
    let shown = |version: u32| format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100);
    let message = format!(
        "the program was compiled with vicus.h {} (ABI {abi}), and the library is {} (ABI {ABI}): compile it with the \
            library's header",
        shown(version),
        shown(VERSION)
    );
    Err(Failure::new(status::VERSION, message))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_init_with(version: u32, abi: u32) -> i32 {
    guard(|| {
        compare(version, abi)?;
        print_no_told_panics();
        TOLD.store(RIGHT, Ordering::Release);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_version() -> *const c_char {
    TEXT.as_ptr()
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_version_number() -> u32 {
    VERSION
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_abi_version() -> u32 {
    ABI
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_of_this_minor_version_are_right() {
        assert!(compare(VERSION, ABI).is_ok() && compare(VERSION + 1, ABI).is_ok());
        for (version, abi) in [(VERSION + 100, ABI), (VERSION + 10_000, ABI), (VERSION, ABI + 1)] {
            let message = compare(version, abi).unwrap_err().message();
            assert!(message.contains(env!("CARGO_PKG_VERSION")), "{message}");
            assert!(message.contains(&format!("(ABI {abi})")), "{message}");
        }
    }
}
