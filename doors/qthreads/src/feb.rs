//! Full/empty bits of words, and of values with their bits.

use crate::codes::{BADARGS, OPFAIL, OVERFLOW, SUCCESS};
use crate::exports;
use std::ptr;
use std::sync::atomic::AtomicU64;
use vicus::threads::{SyncVar, full_empty};

/// Calls `f` with the word at an address; `BADARGS` if there is none.
///
/// # Safety
/// Rule "Words".
#[inline]
unsafe fn with_word(address: *const u64, f: impl FnOnce(&AtomicU64) -> i32) -> i32 {
    // SAFETY: the caller's promise; other addresses are refused.
    match unsafe { full_empty::word_at(address.cast_mut()) } {
        Ok(word) => f(word),
        Err(_) => BADARGS,
    }
}

/// The variant for a syncvar.
///
/// # Safety
/// Rule "Words".
#[inline]
unsafe fn with_syncvar(address: *mut u64, f: impl FnOnce(&SyncVar) -> i32) -> i32 {
    if address.is_null() || !address.is_aligned() {
        return BADARGS;
    }
    // SAFETY: the caller's promise; the address is that of a word.
    f(unsafe { SyncVar::at(address) })
}

/// # Safety
/// Rule "Interface": null, or the value can be written.
#[inline]
unsafe fn store(to: *mut u64, value: u64) -> i32 {
    if !to.is_null() {
        // SAFETY: the caller's promise; aligned or not: it may be a field of a packed structure.
        unsafe { to.write_unaligned(value) };
    }
    SUCCESS
}

/// # Safety
/// The rule of [`store`].
#[inline]
unsafe fn store_if(to: *mut u64, value: Option<u64>) -> i32 {
    match value {
        // SAFETY: the caller's promise.
        Some(value) => unsafe { store(to, value) },
        None => OPFAIL,
    }
}

/// The value at an address; `None` for null.
///
/// # Safety
/// Rule "Interface": the value can be read, aligned or not.
#[inline]
unsafe fn load(from: *const u64) -> Option<u64> {
    // SAFETY: the caller's promise.
    (!from.is_null()).then(|| unsafe { ptr::read_unaligned(from) })
}

/// # Safety
/// The rule of [`load`].
#[inline]
unsafe fn with_value(from: *const u64, f: impl FnOnce(u64) -> i32) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { load(from) }.map_or(BADARGS, f)
}

fn or_fail(is_done: bool) -> i32 {
    if is_done { SUCCESS } else { OPFAIL }
}

/// `OVERFLOW` if the value has more bits than there is room for.
///
/// # Safety
/// Rule "Words".
#[inline]
unsafe fn with_room(address: *mut u64, value: u64, f: impl FnOnce(&SyncVar) -> i32) -> i32 {
    // SAFETY: the caller's promise.
    if value > SyncVar::MOST { OVERFLOW } else { unsafe { with_syncvar(address, f) } }
}

/// Functions on words and syncvars.
macro_rules! on_words {
    ($(fn $name:ident($($argument:ident: $type:ty),*) { $result:expr })*) => {
        exports! {$(
            fn $name($($argument: $type),*) -> i32 {
                // SAFETY: rule "Words" for the address of a word or a syncvar. Rule "Interface" for that of a value:
                // null, or it can be read or written.
                unsafe { $result }
            }
        )*}
    };
}

on_words! {
    fn qthread_feb_status(word: *const u64) {
        with_word(word, |word| i32::from(full_empty::is_full(word)))
    }

    fn qthread_empty(word: *const u64) {
        with_word(word, |word| {
            full_empty::empty(word);
            SUCCESS
        })
    }

    fn qthread_fill(word: *const u64) {
        with_word(word, |word| {
            full_empty::fill(word);
            SUCCESS
        })
    }

    fn qthread_writeEF(to: *mut u64, from: *const u64) {
        with_value(from, |value| qthread_writeEF_const(to, value))
    }

    fn qthread_writeEF_const(to: *mut u64, value: u64) {
        with_word(to, |word| {
            full_empty::write_ef(word, value);
            SUCCESS
        })
    }

    fn qthread_writeEF_nb(to: *mut u64, from: *const u64) {
        with_value(from, |value| qthread_writeEF_const_nb(to, value))
    }

    fn qthread_writeEF_const_nb(to: *mut u64, value: u64) {
        with_word(to, |word| or_fail(full_empty::try_write_ef(word, value)))
    }

    fn qthread_writeF(to: *mut u64, from: *const u64) {
        with_value(from, |value| qthread_writeF_const(to, value))
    }

    fn qthread_writeF_const(to: *mut u64, value: u64) {
        with_word(to, |word| {
            full_empty::write_f(word, value);
            SUCCESS
        })
    }

    fn qthread_writeFF(to: *mut u64, from: *const u64) {
        with_value(from, |value| qthread_writeFF_const(to, value))
    }

    fn qthread_writeFF_const(to: *mut u64, value: u64) {
        with_word(to, |word| {
            full_empty::write_ff(word, value);
            SUCCESS
        })
    }

    fn qthread_purge(word: *mut u64) {
        with_word(word, |word| {
            full_empty::purge(word);
            SUCCESS
        })
    }

    fn qthread_purge_to(word: *mut u64, from: *const u64) {
        with_value(from, |value| qthread_purge_to_const(word, value))
    }

    fn qthread_purge_to_const(word: *mut u64, value: u64) {
        with_word(word, |word| {
            full_empty::purge_to(word, value);
            SUCCESS
        })
    }

    fn qthread_readFF(to: *mut u64, word: *const u64) {
        with_word(word, |word| store(to, full_empty::read_ff(word)))
    }

    fn qthread_readFF_nb(to: *mut u64, word: *const u64) {
        with_word(word, |word| store_if(to, full_empty::try_read_ff(word)))
    }

    fn qthread_readFE(to: *mut u64, word: *const u64) {
        with_word(word, |word| store(to, full_empty::read_fe(word)))
    }

    fn qthread_readFE_nb(to: *mut u64, word: *const u64) {
        with_word(word, |word| store_if(to, full_empty::try_read_fe(word)))
    }

    fn qthread_readXX(to: *mut u64, word: *const u64) {
        with_word(word, |word| store(to, full_empty::read_xx(word)))
    }

    fn qthread_syncvar_status(word: *mut u64) {
        with_syncvar(word, |word| i32::from(word.is_full()))
    }

    fn qthread_syncvar_empty(word: *mut u64) {
        with_syncvar(word, |word| {
            word.make_empty();
            SUCCESS
        })
    }

    fn qthread_syncvar_fill(word: *mut u64) {
        with_syncvar(word, |word| {
            word.fill();
            SUCCESS
        })
    }

    fn qthread_syncvar_writeEF(to: *mut u64, from: *const u64) {
        with_value(from, |value| qthread_syncvar_writeEF_const(to, value))
    }

    fn qthread_syncvar_writeEF_const(to: *mut u64, value: u64) {
        with_room(to, value, |word| {
            word.write_ef(value);
            SUCCESS
        })
    }

    fn qthread_syncvar_writeEF_nb(to: *mut u64, from: *const u64) {
        with_value(from, |value| qthread_syncvar_writeEF_const_nb(to, value))
    }

    fn qthread_syncvar_writeEF_const_nb(to: *mut u64, value: u64) {
        with_room(to, value, |word| or_fail(word.try_write_ef(value)))
    }

    fn qthread_syncvar_writeF(to: *mut u64, from: *const u64) {
        with_value(from, |value| qthread_syncvar_writeF_const(to, value))
    }

    fn qthread_syncvar_writeF_const(to: *mut u64, value: u64) {
        with_room(to, value, |word| {
            word.write_f(value);
            SUCCESS
        })
    }

    fn qthread_syncvar_readFF(to: *mut u64, word: *mut u64) {
        with_syncvar(word, |word| store(to, word.read_ff()))
    }

    fn qthread_syncvar_readFF_nb(to: *mut u64, word: *mut u64) {
        with_syncvar(word, |word| store_if(to, word.try_read_ff()))
    }

    fn qthread_syncvar_readFE(to: *mut u64, word: *mut u64) {
        with_syncvar(word, |word| store(to, word.read_fe()))
    }

    fn qthread_syncvar_readFE_nb(to: *mut u64, word: *mut u64) {
        with_syncvar(word, |word| store_if(to, word.try_read_fe()))
    }
}

exports! {
    fn qthread_syncvar_incrF(word: *mut u64, by: u64) -> u64 {
        let mut value = 0;
        // SAFETY: rule "Words".
        unsafe {
            with_syncvar(word, |word| {
                value = word.incr_f(by);
                SUCCESS
            })
        };
        value
    }
}
