//! Sanitizers are told when a thread goes from stack to stack.
//!
//! Without this, AddressSanitizer believes a thread writes beyond its stack, and loses the frames it keeps elsewhere
//! for accesses after a return; ThreadSanitizer takes the work of several lightweight threads for one thread's. A
//! program built with a sanitizer has its functions, by the names of `sanitizer/common_interface_defs.h` and
//! `sanitizer/tsan_interface.h`; they are looked for when the first stacks are made. Without one, a switch looks at one
//! constant word.

use crate::stack::Stack;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use vicus_os::calls::symbol;

type StartSwitch = unsafe extern "C" fn(*mut *mut c_void, *const c_void, usize);
type FinishSwitch = unsafe extern "C" fn(*mut c_void, *mut *const c_void, *mut usize);
type Unpoison = unsafe extern "C" fn(*const c_void, usize);
type CreateFiber = unsafe extern "C" fn(u32) -> *mut c_void;
type CurrentFiber = unsafe extern "C" fn() -> *mut c_void;
type SwitchFiber = unsafe extern "C" fn(*mut c_void, u32);

struct Asan {
    start: StartSwitch,
    finish: FinishSwitch,
    unpoison: Option<Unpoison>,
}

struct Tsan {
    create: CreateFiber,
    current: CurrentFiber,
    switch: SwitchFiber,
}

/// The sanitizers found in the program.
#[derive(Default)]
struct Sanitizers {
    asan: Option<Asan>,
    tsan: Option<Tsan>,
}

static FOUND: OnceLock<Sanitizers> = OnceLock::new();
static ARE_THERE: AtomicBool = AtomicBool::new(false);

/// Looks for sanitizers, once.
pub(crate) fn find() {
    FOUND.get_or_init(|| {
        let found = Sanitizers { asan: find_asan(), tsan: find_tsan() };
        ARE_THERE.store(found.asan.is_some() || found.tsan.is_some(), Ordering::Release);
        found
    });
}

fn find_asan() -> Option<Asan> {
    let names =
        [c"__sanitizer_start_switch_fiber", c"__sanitizer_finish_switch_fiber", c"__asan_unpoison_memory_region"];
    let [start, finish, unpoison] = names.map(symbol);
    if start.is_null() || finish.is_null() {
        return None;
    }
    #[expect(unsafe_code, reason = "functions by their names")]
    // SAFETY: these names are the sanitizer's alone, and its functions have these types. A null pointer is `None`.
    unsafe {
        Some(Asan {
            start: std::mem::transmute::<*mut c_void, StartSwitch>(start),
            finish: std::mem::transmute::<*mut c_void, FinishSwitch>(finish),
            unpoison: std::mem::transmute::<*mut c_void, Option<Unpoison>>(unpoison),
        })
    }
}

fn find_tsan() -> Option<Tsan> {
    let [create, current, switch] =
        [c"__tsan_create_fiber", c"__tsan_get_current_fiber", c"__tsan_switch_to_fiber"].map(symbol);
    if create.is_null() || current.is_null() || switch.is_null() {
        return None;
    }
    #[expect(unsafe_code, reason = "functions by their names")]
    // SAFETY: as in `find_asan`.
    unsafe {
        Some(Tsan {
            create: std::mem::transmute::<*mut c_void, CreateFiber>(create),
            current: std::mem::transmute::<*mut c_void, CurrentFiber>(current),
            switch: std::mem::transmute::<*mut c_void, SwitchFiber>(switch),
        })
    }
}

/// Whether the program has a sanitizer.
#[inline]
pub(crate) fn are_there() -> bool {
    ARE_THERE.load(Ordering::Relaxed)
}

/// The sanitizers' record of a fibre.
pub(crate) struct FibreRecord {
    /// The frames kept elsewhere: the fibre's, and those of the stack it was entered from, while these don't run.
    own_frames: Cell<*mut c_void>,
    outer_frames: Cell<*mut c_void>,
    /// The stack it was entered from.
    outer: Cell<(*const c_void, usize)>,
    /// ThreadSanitizer's threads.
    own_thread: *mut c_void,
    outer_thread: Cell<*mut c_void>,
}

impl FibreRecord {
    fn new(tsan: Option<&Tsan>) -> FibreRecord {
        #[expect(unsafe_code, reason = "a function of the sanitizer")]
        // SAFETY: no condition.
        let own_thread = tsan.map_or(ptr::null_mut(), |tsan| unsafe { (tsan.create)(0) });
        FibreRecord {
            own_frames: Cell::new(ptr::null_mut()),
            outer_frames: Cell::new(ptr::null_mut()),
            outer: Cell::new((ptr::null(), 0)),
            own_thread,
            outer_thread: Cell::new(ptr::null_mut()),
        }
    }
}

impl Stack {
    fn known(&self, found: &Sanitizers) -> &FibreRecord {
        if self.known.get().is_null() {
            // As the stack, it stays.
            self.known.set(Box::into_raw(Box::new(FibreRecord::new(found.tsan.as_ref()))));
        }
        #[expect(unsafe_code, reason = "follows a pointer to what is never freed")]
        // SAFETY: it was made above, and only the stack's one user is here.
        unsafe {
            &*self.known.get()
        }
    }

    fn bounds(&self) -> (*const c_void, usize) {
        (ptr::with_exposed_provenance(self.slot.bottom), self.slot.class.bytes())
    }
}

/// The calling thread is about to switch to the fibre.
#[cold]
pub(crate) fn tell_entering(stack: &Stack) {
    let Some(found) = FOUND.get() else { return };
    let (known, (bottom, bytes)) = (stack.known(found), stack.bounds());
    #[expect(unsafe_code, reason = "functions of the sanitizers")]
    // SAFETY: the next step of this thread is the switch to the other stack.
    unsafe {
        if let Some(asan) = &found.asan {
            (asan.start)(known.outer_frames.as_ptr(), bottom, bytes);
        }
        if let Some(tsan) = &found.tsan {
            known.outer_thread.set((tsan.current)());
            (tsan.switch)(known.own_thread, 0);
        }
    }
}

/// The calling thread has switched to the fibre.
#[cold]
pub(crate) fn tell_entered(stack: &Stack) {
    let Some(found) = FOUND.get() else { return };
    let known = stack.known(found);
    if let Some(asan) = &found.asan {
        let (mut bottom, mut bytes) = (ptr::null(), 0);
        #[expect(unsafe_code, reason = "a function of the sanitizer")]
        // SAFETY: `tell_entering` began the switch; the frames are null, or the ones given to `tell_leaving`.
        unsafe {
            (asan.finish)(known.own_frames.get(), &raw mut bottom, &raw mut bytes);
        }
        known.outer.set((bottom, bytes));
    }
}

/// The fibre is about to switch back.
#[cold]
pub(crate) fn tell_leaving(stack: &Stack) {
    let Some(found) = FOUND.get() else { return };
    let (known, (bottom, bytes)) = (stack.known(found), stack.known(found).outer.get());
    #[expect(unsafe_code, reason = "functions of the sanitizers")]
    // SAFETY: the next step of this thread is the switch back to the earlier stack.
    unsafe {
        if let Some(asan) = &found.asan {
            (asan.start)(known.own_frames.as_ptr(), bottom, bytes);
        }
        if let Some(tsan) = &found.tsan {
            (tsan.switch)(known.outer_thread.get(), 0);
        }
    }
}

/// The calling thread has switched back from the fibre.
#[cold]
pub(crate) fn tell_left(stack: &Stack) {
    let Some(found) = FOUND.get() else { return };
    if let Some(asan) = &found.asan {
        #[expect(unsafe_code, reason = "a function of the sanitizer")]
        // SAFETY: `tell_leaving` began the switch; the frames are the ones given to `tell_entering`.
        unsafe {
            (asan.finish)(stack.known(found).outer_frames.get(), ptr::null_mut(), ptr::null_mut());
        }
    }
}

/// The content of the fibre's stack is gone.
#[cold]
pub(crate) fn tell_forgotten(stack: &Stack) {
    if let Some(unpoison) = FOUND.get().and_then(|found| found.asan.as_ref()?.unpoison) {
        let (bottom, bytes) = stack.bounds();
        #[expect(unsafe_code, reason = "a function of the sanitizer")]
        // SAFETY: the memory is an unused stack.
        unsafe {
            unpoison(bottom, bytes);
        }
    }
}
