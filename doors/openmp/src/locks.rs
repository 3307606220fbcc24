//! Locks of programs. A simple one has four bytes in gcc's header, so it is a word; a nested one has eight in LLVM's, a
//! pointer.
//!
//! The old versions of these functions have threads as owners of locks instead of tasks. They are these as well: a
//! thread's task is one of its own.

use crate::checks;
use crate::exports::exports;
use crate::thread::{Task, here};
use crate::wait::Lock;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A nested lock.
pub(crate) struct Nested {
    lock: Lock,
    /// The task holding the lock.
    owner: AtomicPtr<Task>,
    count: Cell<i32>,
}

/// The target of the pointer in a program's lock; made here if the program has not asked for it.
fn nested(place: &AtomicPtr<Nested>) -> &Nested {
    let mut found = place.load(Ordering::Acquire);
    if found.is_null() {
        found = make_nested(place);
    }
    // SAFETY: rule "Interface": the program's lock stays until it is destroyed, which no use overlaps. Only the
    // functions of this file write the pointer, with boxes that they have made.
    unsafe { &*found }
}

/// Makes the target of a program's lock, if no other thread is quicker.
#[cold]
fn make_nested(place: &AtomicPtr<Nested>) -> *mut Nested {
    let new = Nested { lock: Lock::new(), owner: AtomicPtr::new(ptr::null_mut()), count: Cell::new(0) };
    let new = Box::into_raw(Box::new(new));
    match place.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        Err(other) => {
            // SAFETY: it was made above, and no other thread has seen it.
            drop(unsafe { Box::from_raw(new) });
            other
        }
    }
}

fn init_nested(place: &AtomicPtr<Nested>) {
    place.store(ptr::null_mut(), Ordering::Release);
    nested(place);
}

fn destroy_nested(place: &AtomicPtr<Nested>) {
    let old = place.swap(ptr::null_mut(), Ordering::AcqRel);
    if !old.is_null() {
        // SAFETY: rule "Interface": no thread uses a lock that is destroyed. `make_nested` has boxed it.
        drop(unsafe { Box::from_raw(old) });
    }
}

/// How often the running task holds it then; 0 if another one does and `waits` is false.
fn take_nested(place: &AtomicPtr<Nested>, waits: bool) -> i32 {
    let one = nested(place);
    let own = here().task;
    if one.owner.load(Ordering::Relaxed) != own {
        if waits {
            one.lock.lock();
        } else if !one.lock.try_lock() {
            return 0;
        }
        one.owner.store(own, Ordering::Relaxed);
        one.count.set(0);
    }
    one.count.set(one.count.get() + 1);
    one.count.get()
}

fn give_nested(place: &AtomicPtr<Nested>) {
    let one = nested(place);
    let owner = one.owner.load(Ordering::Relaxed);
    if owner != here().task {
        crate::checks::nested_is_unset_by_another(ptr::from_ref(place).addr(), owner);
    }
    one.count.set(one.count.get() - 1);
    if one.count.get() <= 0 {
        one.owner.store(ptr::null_mut(), Ordering::Relaxed);
        if one.lock.is_held() {
            one.lock.unlock();
        }
    }
}

#[inline]
fn set(lock: &Lock) {
    lock.lock();
    if checks::is_on() {
        checks::note_set(ptr::from_ref(lock).addr());
    }
}

#[inline]
fn unset(lock: &Lock) {
    if checks::is_on() {
        checks::note_unset(ptr::from_ref(lock).addr());
    }
    lock.unlock();
}

#[inline]
fn test(lock: &Lock) -> bool {
    let is_set = lock.try_lock();
    if is_set && checks::is_on() {
        checks::note_set(ptr::from_ref(lock).addr());
    }
    is_set
}

/// The functions of locks, for C and Fortran, with both of gcc's versions.
macro_rules! locks {
    ($($type:ty: fn $name:ident($lock:ident) $(-> $result:ty)? $body:block)*) => {
        exports! {$(
            "OMP_3.0", "OMP_1.0", "VERSION":
            fn $name($lock: *const $type) $(-> $result)? {
                // SAFETY: rule "Interface": the program's lock is aligned, and these functions alone use it.
                let $lock = unsafe { &*$lock };
                $body
            }
        )*}
        $(const _: () = {
            #[unsafe(export_name = concat!("vicus_", stringify!($name), "_"))]
            unsafe extern "C-unwind" fn fortran(lock: *const $type) $(-> $result)? {
                // SAFETY: rule "Interface": the same condition.
                unsafe { $name(lock) }
            }
        };)*
        $(core::arch::global_asm!(
            concat!(".symver vicus_", stringify!($name), "_, ", stringify!($name), "_@@OMP_3.0"),
            concat!(".symver vicus_", stringify!($name), "_, ", stringify!($name), "_@OMP_1.0"),
            concat!(".symver vicus_", stringify!($name), "_, ", stringify!($name), "_@VERSION"),
        );)*
    };
}

locks! {
    Lock: fn omp_init_lock(lock) { lock.init(); }
    Lock: fn omp_destroy_lock(_lock) {}
    Lock: fn omp_set_lock(lock) { set(lock); }
    Lock: fn omp_unset_lock(lock) { unset(lock); }
    Lock: fn omp_test_lock(lock) -> i32 { i32::from(test(lock)) }
    AtomicPtr<Nested>: fn omp_init_nest_lock(lock) { init_nested(lock); }
    AtomicPtr<Nested>: fn omp_destroy_nest_lock(lock) { destroy_nested(lock); }
    AtomicPtr<Nested>: fn omp_set_nest_lock(lock) { take_nested(lock, true); }
    AtomicPtr<Nested>: fn omp_unset_nest_lock(lock) { give_nested(lock); }
    AtomicPtr<Nested>: fn omp_test_nest_lock(lock) -> i32 { take_nested(lock, false) }
}

/// The variants for a lock with other arguments, in front of it or behind it.
macro_rules! other_locks {
    ($($node:literal $(, $more:literal)*:
        fn $name:ident($($before:ident: $first:ty,)* [$lock:ident: $type:ty] $(, $behind:ident: $last:ty)*)
        $(-> $result:ty)? $body:block
    )*) => {
        exports! {$(
            $node $(, $more)*:
            fn $name($($before: $first,)* $lock: *const $type $(, $behind: $last)*) $(-> $result)? {
                // SAFETY: rule "Interface": the program's lock is aligned, and these functions alone use it.
                let $lock = unsafe { &*$lock };
                $body
            }
        )*}
    };
}

other_locks! {
    "OMP_4.5", "VERSION": fn omp_init_lock_with_hint([lock: Lock], _hint: usize) { lock.init(); }
    "OMP_4.5", "VERSION": fn omp_init_nest_lock_with_hint([lock: AtomicPtr<Nested>], _hint: usize) {
        init_nested(lock);
    }

    // clang's lock functions for a program compiled with source places.
    "VERSION": fn __kmpc_init_lock(_location: *const u8, _thread: i32, [lock: Lock]) { lock.init(); }
    "VERSION": fn __kmpc_destroy_lock(_location: *const u8, _thread: i32, [_lock: Lock]) {}
    "VERSION": fn __kmpc_set_lock(_location: *const u8, _thread: i32, [lock: Lock]) { set(lock); }
    "VERSION": fn __kmpc_unset_lock(_location: *const u8, _thread: i32, [lock: Lock]) { unset(lock); }
    "VERSION": fn __kmpc_test_lock(_location: *const u8, _thread: i32, [lock: Lock]) -> i32 { i32::from(test(lock)) }
    "VERSION": fn __kmpc_init_nest_lock(_location: *const u8, _thread: i32, [lock: AtomicPtr<Nested>]) {
        init_nested(lock);
    }
    "VERSION": fn __kmpc_destroy_nest_lock(_location: *const u8, _thread: i32, [lock: AtomicPtr<Nested>]) {
        destroy_nested(lock);
    }
    "VERSION": fn __kmpc_set_nest_lock(_location: *const u8, _thread: i32, [lock: AtomicPtr<Nested>]) {
        take_nested(lock, true);
    }
    "VERSION": fn __kmpc_unset_nest_lock(_location: *const u8, _thread: i32, [lock: AtomicPtr<Nested>]) {
        give_nested(lock);
    }
    "VERSION": fn __kmpc_test_nest_lock(_location: *const u8, _thread: i32, [lock: AtomicPtr<Nested>]) -> i32 {
        take_nested(lock, false)
    }
    "VERSION": fn __kmpc_init_lock_with_hint(_location: *const u8, _thread: i32, [lock: Lock], _hint: usize) {
        lock.init();
    }
    "VERSION": fn __kmpc_init_nest_lock_with_hint(
        _location: *const u8, _thread: i32, [lock: AtomicPtr<Nested>], _hint: usize
    ) {
        init_nested(lock);
    }
    // Fortran passes the address of a hint.
    "VERSION": fn omp_init_lock_with_hint_([lock: Lock], _hint: *const i32) { lock.init(); }
    "VERSION": fn omp_init_nest_lock_with_hint_([lock: AtomicPtr<Nested>], _hint: *const i32) { init_nested(lock); }
}
