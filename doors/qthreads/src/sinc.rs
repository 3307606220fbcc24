//! Sinks: counts to wait for, with values put together.

use crate::exports;
use crate::library;
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::Mutex;
use vicus::kit::team;
use vicus::threads::Countdown;

/// The program's structure of three words; the first is the library's.
#[repr(C)]
pub(crate) struct Sinc {
    inner: *mut Inner,
    rest: [u64; 2],
}

type Operation = unsafe extern "C-unwind" fn(*mut libc::c_void, *const libc::c_void);

struct Inner {
    count: Countdown,
    /// `None` without values.
    values: Option<Values>,
}

/// Values of each seat, and of threads from outside, beginning with the initial one.
struct Values {
    bytes: usize,
    /// Between two of them.
    stride: usize,
    operation: Option<Operation>,
    initial: Box<[u8]>,
    /// By seat; the last but one is for threads from outside, and the last one for the result.
    all: Box<[UnsafeCell<u128>]>,
    outside: Mutex<()>,
}

/// A line of the cache, so seats don't share one.
const LINE: usize = 64;

impl Values {
    /// # Safety
    /// Rule "Interface": the initial value is null, or has this number of bytes.
    unsafe fn new(bytes: usize, initial: *const u8, operation: Option<Operation>) -> Values {
        let mut first = vec![0; bytes].into_boxed_slice();
        if !initial.is_null() {
            // SAFETY: the caller's promise: the value has this number of bytes, and so has the copy.
            unsafe { ptr::copy_nonoverlapping(initial, first.as_mut_ptr(), bytes) };
        }
        let seats = library::get().map_or(0, library::Library::seats);
        let stride = bytes.next_multiple_of(LINE);
        let all = (0..(seats + 2) * stride / size_of::<u128>()).map(|_| UnsafeCell::new(0)).collect();
        let values = Values { bytes, stride, operation, initial: first, all, outside: Mutex::new(()) };
        values.reset();
        values
    }

    fn count(&self) -> usize {
        self.all.len() * size_of::<u128>() / self.stride
    }

    fn at(&self, index: usize) -> *mut u8 {
        assert!(index < self.count(), "a seat, or one of two more");
        UnsafeCell::raw_get(self.all.as_ptr()).cast::<u8>().wrapping_add(index * self.stride)
    }

    fn reset(&self) {
        for index in 0..self.count() {
            // SAFETY: both have this number of bytes. The program resets a sink that no thread uses.
            unsafe { ptr::copy_nonoverlapping(self.initial.as_ptr(), self.at(index), self.bytes) };
        }
    }

    /// The part of the calling seat, or the one of threads from outside.
    fn own(&self) -> (*mut u8, bool) {
        let outside = self.count() - 2;
        match team::seat().map(|seat| seat.index()).filter(|&seat| seat < outside) {
            Some(seat) => (self.at(seat), true),
            None => (self.at(outside), false),
        }
    }

    /// # Safety
    /// Rule "Interface": the program's value for its function.
    unsafe fn add(&self, value: *const libc::c_void) {
        let Some(operation) = self.operation else { return };
        let (own, is_own) = self.own();
        let _lock = (!is_own).then(|| self.outside.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        // SAFETY: the caller's promise; rule "Seat": the part is the calling seat's own, or the lock is held.
        unsafe { operation(own.cast(), value) };
    }

    /// Puts all parts together.
    fn sum(&self) {
        let result = self.at(self.count() - 1);
        // SAFETY: both have this number of bytes. The last submitter sums up, when all others are counted.
        unsafe { ptr::copy_nonoverlapping(self.initial.as_ptr(), result, self.bytes) };
        if let Some(operation) = self.operation {
            // SAFETY: rule "Interface": the program's function, with two of its values.
            (0..self.count() - 1).for_each(|index| unsafe { operation(result.cast(), self.at(index).cast()) });
        }
    }
}

/// The library's part of a sink; `None` if it has none.
///
/// # Safety
/// Rule "Interface": null, or a sink that was initialized and is not ended meanwhile.
unsafe fn inner<'a>(sinc: *const Sinc) -> Option<&'a Inner> {
    // SAFETY: the caller's promise; `qt_sinc_init` has made the inner part.
    unsafe { sinc.as_ref()?.inner.as_ref() }
}

exports! {
    fn qt_sinc_init(
        sinc: *mut Sinc,
        bytes: usize,
        initial: *const libc::c_void,
        operation: Option<Operation>,
        expect: usize,
    ) {
        if sinc.is_null() {
            return;
        }
        // SAFETY: rule "Interface": the initial value is null, or has this number of bytes.
        let values = (bytes > 0).then(|| unsafe { Values::new(bytes, initial.cast(), operation) });
        let inner = Box::new(Inner { count: Countdown::new(expect as u64), values });
        // SAFETY: rule "Interface": the program's structure can be written.
        unsafe { sinc.write(Sinc { inner: Box::into_raw(inner), rest: [0; 2] }) };
    }

    fn qt_sinc_create(
        bytes: usize,
        initial: *const libc::c_void,
        operation: Option<Operation>,
        expect: usize,
    ) -> *mut Sinc {
        // SAFETY: rule "System": no condition.
        let sinc = unsafe { libc::malloc(size_of::<Sinc>()) }.cast();
        // SAFETY: the memory above, or null; the rest is the same condition.
        unsafe { qt_sinc_init(sinc, bytes, initial, operation, expect) };
        sinc
    }

    fn qt_sinc_reset(sinc: *mut Sinc, expect: usize) {
        // SAFETY: rule "Interface": null, or a sink that was initialized and is not ended meanwhile.
        let Some(inner) = (unsafe { inner(sinc) }) else { return };
        if let Some(values) = &inner.values {
            values.reset();
        }
        inner.count.reset(expect as u64);
    }

    fn qt_sinc_fini(sinc: *mut Sinc) {
        // SAFETY: rule "Interface": null, or the program's structure, which no other thread uses.
        let Some(sinc) = (unsafe { sinc.as_mut() }) else { return };
        if !sinc.inner.is_null() {
            // SAFETY: `qt_sinc_init` has made it, and it is forgotten here.
            drop(unsafe { Box::from_raw(sinc.inner) });
            sinc.inner = ptr::null_mut();
        }
    }

    fn qt_sinc_destroy(sinc: *mut Sinc) {
        // SAFETY: rule "Interface": `qt_sinc_create` has got it by `malloc`, or it is null.
        unsafe {
            qt_sinc_fini(sinc);
            libc::free(sinc.cast());
        }
    }

    fn qt_sinc_expect(sinc: *mut Sinc, count: usize) {
        // SAFETY: rule "Interface": null, or a sink that was initialized and is not ended meanwhile.
        if let Some(inner) = unsafe { inner(sinc) } {
            inner.count.expect(count as u64);
        }
    }

    fn qt_sinc_tmpdata(sinc: *mut Sinc) -> *mut libc::c_void {
        // SAFETY: rule "Interface": null, or a sink that was initialized and is not ended meanwhile.
        let values = unsafe { inner(sinc) }.and_then(|inner| inner.values.as_ref());
        values.map_or(ptr::null_mut(), |values| values.own().0.cast())
    }

    fn qt_sinc_submit(sinc: *mut Sinc, value: *const libc::c_void) {
        // SAFETY: rule "Interface": null, or a sink that was initialized and is not ended meanwhile.
        let Some(inner) = (unsafe { inner(sinc) }) else { return };
        if let Some(values) = inner.values.as_ref().filter(|_| !value.is_null()) {
            // SAFETY: rule "Interface": the program's value for its function.
            unsafe { values.add(value) };
        }
        inner.count.submit_with(|| {
            if let Some(values) = &inner.values {
                values.sum();
            }
        });
    }

    fn qt_sinc_wait(sinc: *mut Sinc, target: *mut libc::c_void) {
        // SAFETY: rule "Interface": null, or a sink that was initialized and is not ended meanwhile.
        let Some(inner) = (unsafe { inner(sinc) }) else { return };
        inner.count.wait();
        if let Some(values) = inner.values.as_ref().filter(|_| !target.is_null()) {
            // SAFETY: rule "Interface": the target has room for a value. The result is whole when the wait is over.
            unsafe { ptr::copy_nonoverlapping(values.at(values.count() - 1), target.cast(), values.bytes) };
        }
    }
}
