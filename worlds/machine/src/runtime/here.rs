//! A word of each thread: the worker of its seat, or null.
//!
//! In a shared library the compiler's `thread_local!` is a call of the loader for each look, and a task looks several
//! times. So on x86-64 the word is in the part of a thread's storage present from its start (the initial-exec model),
//! and is read by two instructions.

/// The calling thread's word.
pub(crate) struct Here;

pub(crate) static HERE: Here = Here;

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "reserves a word in the storage of each thread")]
mod word {
    // SAFETY: only this file names it.
    core::arch::global_asm!(
        ".pushsection .tbss.vicus_machine_here,\"awT\",@nobits",
        ".p2align 3",
        ".hidden vicus_machine_here",
        ".globl vicus_machine_here",
        ".type vicus_machine_here, @object",
        ".size vicus_machine_here, 8",
        "vicus_machine_here:",
        ".zero 8",
        ".popsection",
    );
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
impl Here {
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut () {
        let worker;
        #[expect(unsafe_code, reason = "reads a word of the thread's storage")]
        // SAFETY: the linker knows the word's place in this thread's storage; it is 0 at first.
        unsafe {
            core::arch::asm!(
                "mov {word}, qword ptr [rip + vicus_machine_here@GOTTPOFF]",
                "mov {word}, qword ptr fs:[{word}]",
                word = out(reg) worker,
                options(nostack, readonly, preserves_flags),
            );
        }
        worker
    }

    #[inline(always)]
    pub(crate) fn set(&self, worker: *mut ()) {
        #[expect(unsafe_code, reason = "writes a word of the thread's storage")]
        // SAFETY: as in `get`.
        unsafe {
            core::arch::asm!(
                "mov {word}, qword ptr [rip + vicus_machine_here@GOTTPOFF]",
                "mov qword ptr fs:[{word}], {worker}",
                word = out(reg) _,
                worker = in(reg) worker,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
thread_local! {
    static WORD: std::cell::Cell<*mut ()> = const { std::cell::Cell::new(std::ptr::null_mut()) };
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
impl Here {
    // Not inlined: a fibre's frame may be on another thread the next time, and the compiler would keep the word's
    // address.
    #[inline(never)]
    pub(crate) fn get(&self) -> *mut () {
        WORD.get()
    }

    #[inline(never)]
    pub(crate) fn set(&self, worker: *mut ()) {
        WORD.set(worker);
    }
}

impl Here {
    /// Sets the word. Returns the earlier one.
    #[inline]
    pub(crate) fn replace(&self, worker: *mut ()) -> *mut () {
        let before = self.get();
        self.set(worker);
        before
    }
}
