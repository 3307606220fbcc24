//! C++'s record of a thread's exceptions moves with the lightweight thread.
//!
//! C++ keeps a stack of caught exceptions, and the number of exceptions under way, for each thread of the system.
//! Lightweight threads that switch inside a `catch` would take each other's exceptions off that stack. So it is swapped
//! when a fibre is entered and left, in the layout of the Itanium C++ ABI (section 2.2.2, `__cxa_eh_globals`): the
//! address of the last caught exception, and a number.
//!
//! C++ is looked for once, when the first fibre is entered: a program in C whose first C++ comes with a library loaded
//! later has to load C++'s library before.

#[cfg_attr(target_os = "linux", path = "exceptions/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "exceptions/other.rs")]
mod library;

use crate::stack::Stack;
use library::find;
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

/// C++'s record for a thread: mostly empty.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caught {
    last: *mut c_void,
    under_way: u32,
}

impl Caught {
    pub(crate) const NOTHING: Caught = Caught { last: ptr::null_mut(), under_way: 0 };
}

/// The place of this record for a thread of the system.
#[derive(Clone, Copy, Default)]
pub struct Exceptions(RecordPlace);

#[derive(Clone, Copy, Default)]
enum RecordPlace {
    /// No stack was entered so far.
    #[default]
    Unknown,
    /// There was no C++ in the program when the first one was.
    Nowhere,
    At(*mut Caught),
}

type GetGlobals = unsafe extern "C" fn() -> *mut Caught;

impl RecordPlace {
    /// For the calling thread.
    #[cold]
    fn here() -> RecordPlace {
        static FOUND: OnceLock<Option<GetGlobals>> = OnceLock::new();
        let Some(get) = FOUND.get_or_init(find) else { return RecordPlace::Nowhere };
        #[expect(unsafe_code, reason = "a function of C++'s library")]
        // SAFETY: the ABI gives it this type. Its answer stays there as long as the thread.
        unsafe {
            RecordPlace::At(get())
        }
    }
}

impl Stack {
    /// Swaps the record of the calling thread with the stack's, which keeps the one beneath; a second call undoes it.
    /// `at`: the calling thread's.
    ///
    /// # Safety
    /// Only the caller uses the stack, and no other thread of the system has used `at`.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub unsafe fn swap_exceptions(&self, at: &mut Exceptions) {
        if let RecordPlace::Unknown = at.0 {
            at.0 = RecordPlace::here();
        }
        let RecordPlace::At(kept) = at.0 else { return };
        // SAFETY: the caller's promise; `kept` is the calling thread's.
        unsafe {
            let own = self.caught.get();
            if *kept != Caught::NOTHING || *own != Caught::NOTHING {
                ptr::swap(kept, own);
            }
        }
    }
}
