//! Sinks: counts to wait for, with values put together.

use crate::exports;
use crate::library;
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::Mutex;
use vicus::team;
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
    all: UnsafeCell<Vec<u128>>,
    outside: Mutex<()>,
}

/// A line of the cache, so seats don't share one.
const LINE: usize = 64;

impl Values {
    unsafe fn new(bytes: usize, initial: *const u8, operation: Option<Operation>) -> Values {
        let mut first = vec![0; bytes].into_boxed_slice();
        if !initial.is_null() {
            unsafe { ptr::copy_nonoverlapping(initial, first.as_mut_ptr(), bytes) };
        }
        let seats = library::get().map_or(0, library::Library::seats);
        let stride = bytes.next_multiple_of(LINE);
        let all = UnsafeCell::new(vec![0; (seats + 2) * stride / size_of::<u128>()]);
        let values = Values { bytes, stride, operation, initial: first, all, outside: Mutex::new(()) };
        values.reset();
        values
    }

    fn count(&self) -> usize {
        unsafe { (*self.all.get()).len() * size_of::<u128>() / self.stride }
    }

    fn at(&self, index: usize) -> *mut u8 {
        unsafe { (*self.all.get()).as_mut_ptr().cast::<u8>().add(index * self.stride) }
    }

    fn reset(&self) {
        for index in 0..self.count() {
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

    unsafe fn add(&self, value: *const libc::c_void) {
        let Some(operation) = self.operation else { return };
        let (own, is_own) = self.own();
        let _lock = (!is_own).then(|| self.outside.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        unsafe { operation(own.cast(), value) };
    }

    /// Puts all parts together.
    fn sum(&self) {
        let result = self.at(self.count() - 1);
        unsafe { ptr::copy_nonoverlapping(self.initial.as_ptr(), result, self.bytes) };
        if let Some(operation) = self.operation {
            (0..self.count() - 1).for_each(|index| unsafe { operation(result.cast(), self.at(index).cast()) });
        }
    }
}

unsafe fn inner<'a>(sinc: *const Sinc) -> Option<&'a Inner> {
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
        let values = (bytes > 0).then(|| unsafe { Values::new(bytes, initial.cast(), operation) });
        let inner = Box::new(Inner { count: Countdown::new(expect as u64), values });
        unsafe { sinc.write(Sinc { inner: Box::into_raw(inner), rest: [0; 2] }) };
    }

    fn qt_sinc_create(
        bytes: usize,
        initial: *const libc::c_void,
        operation: Option<Operation>,
        expect: usize,
    ) -> *mut Sinc {
        let sinc = unsafe { libc::malloc(size_of::<Sinc>()) }.cast();
        unsafe { qt_sinc_init(sinc, bytes, initial, operation, expect) };
        sinc
    }

    fn qt_sinc_reset(sinc: *mut Sinc, expect: usize) {
        let Some(inner) = (unsafe { inner(sinc) }) else { return };
        if let Some(values) = &inner.values {
            values.reset();
        }
        inner.count.reset(expect as u64);
    }

    fn qt_sinc_fini(sinc: *mut Sinc) {
        let Some(sinc) = (unsafe { sinc.as_mut() }) else { return };
        if !sinc.inner.is_null() {
            drop(unsafe { Box::from_raw(sinc.inner) });
            sinc.inner = ptr::null_mut();
        }
    }

    fn qt_sinc_destroy(sinc: *mut Sinc) {
        unsafe {
            qt_sinc_fini(sinc);
            libc::free(sinc.cast());
        }
    }

    fn qt_sinc_expect(sinc: *mut Sinc, count: usize) {
        if let Some(inner) = unsafe { inner(sinc) } {
            inner.count.expect(count as u64);
        }
    }

    fn qt_sinc_tmpdata(sinc: *mut Sinc) -> *mut libc::c_void {
        let values = unsafe { inner(sinc) }.and_then(|inner| inner.values.as_ref());
        values.map_or(ptr::null_mut(), |values| values.own().0.cast())
    }

    fn qt_sinc_submit(sinc: *mut Sinc, value: *const libc::c_void) {
        let Some(inner) = (unsafe { inner(sinc) }) else { return };
        if let Some(values) = inner.values.as_ref().filter(|_| !value.is_null()) {
            unsafe { values.add(value) };
        }
        inner.count.submit_with(|| {
            if let Some(values) = &inner.values {
                values.sum();
            }
        });
    }

    fn qt_sinc_wait(sinc: *mut Sinc, target: *mut libc::c_void) {
        let Some(inner) = (unsafe { inner(sinc) }) else { return };
        inner.count.wait();
        if let Some(values) = inner.values.as_ref().filter(|_| !target.is_null()) {
            unsafe { ptr::copy_nonoverlapping(values.at(values.count() - 1), target.cast(), values.bytes) };
        }
    }
}
