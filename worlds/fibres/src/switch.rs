//! Switches between stacks: a thread of the system leaves its place on one stack and goes on at a place on another.
//!
//! A place is an address of code, the stack's pointer, and the two registers that inline assembly may not declare as
//! changed; the compiler saves all other registers, since it knows which of them are in use. Both directions are
//! *jumps*. Usual switches between stacks, corosensei's among them, call into one stack and return out of it: calls and
//! returns go in pairs if a coroutine's body switches itself. A lightweight thread waits deep in nested functions: its
//! calls before a switch, and its returns after it, are pairs of their own. Each switch by call and return puts the
//! processor's record of calls out of step with them. This costs a wrong guess for the switch and for each later
//! return. With jumps, a yield in C takes 10.5 ns in place of 28.6, and spawning and joining a thread with a yield 54
//! in place of 89 (an EPYC of 2024; `./dev bench threads`).
//!
//! Stacks grow down on both processors. Rounding and exceptions of floating-point numbers stay as they are: they belong
//! to the thread of the system.

use first::begin;
use std::arch::asm;
use std::cell::UnsafeCell;
use std::ptr;

/// A place to go on at.
#[repr(C)]
struct Place {
    code: *const (),
    stack: usize,
    frame: usize,
    base: usize,
}

impl Place {
    const NOWHERE: Place = Place { code: ptr::null(), stack: 0, frame: 0, base: 0 };
}

/// The bottom function of a stack: it gets the owner of the switch, and the first word handed over on entry.
pub type Runs = extern "C" fn(of: *const (), word: usize) -> !;

/// A stack that a thread enters and leaves. Each switch hands over one word.
pub(crate) struct Switch {
    /// The place of the code on the stack; nowhere if it has not begun.
    inside: UnsafeCell<Place>,
    /// The place of the last code to enter it.
    outside: UnsafeCell<Place>,
}

impl Switch {
    pub(crate) const fn new() -> Switch {
        Switch { inside: UnsafeCell::new(Place::NOWHERE), outside: UnsafeCell::new(Place::NOWHERE) }
    }

    /// Whether something was entered there and not forgotten.
    ///
    /// # Safety
    /// Only the caller uses the switch.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub(crate) unsafe fn has_begun(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { !(*self.inside.get()).code.is_null() }
    }

    /// Makes the next entry begin `runs` at the stack's top. The old content of the stack is left there, and never goes
    /// on.
    ///
    /// # Safety
    /// Only the caller uses the switch, which stays at its address, and no thread runs on the stack. The top is that of
    /// a stack, and a multiple of 16.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub(crate) unsafe fn begin_at(&self, top: usize, runs: Runs, of: *const ()) {
        debug_assert!(top.is_multiple_of(16), "{top:#x}");
        let bottom: *mut [usize; 2] = ptr::with_exposed_provenance_mut(top - size_of::<[usize; 2]>());
        // SAFETY: the caller's promise.
        unsafe {
            bottom.write([of.expose_provenance(), 0]);
            // `begin` takes the function to call from the frame's register, and the place of entry from the base
            // register.
            let (frame, base) = (runs as usize, self.outside.get().expose_provenance());
            *self.inside.get() = Place { code: begin as *const (), stack: bottom.addr(), frame, base };
        }
    }

    /// Forgets the content of the stack.
    ///
    /// # Safety
    /// Only the caller uses the switch, and no thread runs on the stack.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub(crate) unsafe fn forget(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            *self.inside.get() = Place::NOWHERE;
        }
    }

    /// Goes to the stack, until it is left. Returns the word handed over at the leave.
    ///
    /// # Safety
    /// Only the caller uses the switch, no thread runs on the stack, and it has begun. Its content is not tied to
    /// another thread of the system.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub(crate) unsafe fn enter(&self, word: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { jump(self.outside.get(), self.inside.get(), word) }
    }

    /// Goes back to the code that entered the stack, until it is entered again. Returns the word handed over then.
    ///
    /// # Safety
    /// The caller runs on this stack.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub(crate) unsafe fn leave(&self, word: usize) -> usize {
        // SAFETY: the caller's promise: `enter` has written the place outside, and waits there.
        unsafe { jump(self.inside.get(), self.outside.get(), word) }
    }
}

/// Writes down the caller's place, and goes on at another place, handing over a word. Returns the word handed over on
/// the way back.
///
/// # Safety
/// Only the caller uses the two places; code waits at the second one in this function, or begins there.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(unsafe_code, reason = "the language has no switches between stacks")]
unsafe fn jump(from: *mut Place, to: *const Place, word: usize) -> usize {
    let handed;
    // SAFETY: the caller's promise. The compiler saves its registers, except `rsp`, `rbp` and `rbx`; nothing is pushed,
    // so memory below the stack's pointer stays as it is.
    unsafe {
        asm!(
            "lea rax, [rip + 2f]",
            "mov [rdi], rax",
            "mov [rdi + 8], rsp",
            "mov [rdi + 16], rbp",
            "mov [rdi + 24], rbx",
            "mov rsp, [rsi + 8]",
            "mov rbp, [rsi + 16]",
            "mov rbx, [rsi + 24]",
            "jmp [rsi]",
            "2:",
            inlateout("rdi") from => _,
            inlateout("rsi") to => _,
            inlateout("rdx") word => handed,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
    handed
}

/// Like the one for x86-64.
///
/// # Safety
/// As there.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[expect(unsafe_code, reason = "the language has no switches between stacks")]
unsafe fn jump(from: *mut Place, to: *const Place, word: usize) -> usize {
    let handed;
    // SAFETY: the caller's promise. The compiler saves its registers, except `sp`, `x29` and `x19`; nothing is pushed.
    unsafe {
        asm!(
            "adr x3, 2f",
            "mov x4, sp",
            "stp x3, x4, [x0]",
            "stp x29, x19, [x0, #16]",
            "ldp x3, x4, [x1]",
            "ldp x29, x19, [x1, #16]",
            "mov sp, x4",
            "br x3",
            "2:",
            inlateout("x0") from => _,
            inlateout("x1") to => _,
            inlateout("x2") word => handed,
            lateout("x20") _, lateout("x21") _, lateout("x22") _, lateout("x23") _, lateout("x24") _,
            lateout("x25") _, lateout("x26") _, lateout("x27") _, lateout("x28") _,
            lateout("v8") _, lateout("v9") _, lateout("v10") _, lateout("v11") _,
            lateout("v12") _, lateout("v13") _, lateout("v14") _, lateout("v15") _,
            clobber_abi("C"),
        );
    }
    handed
}

/// The first place on a stack. By itself, as a naked function can't say why its code is unsafe.
#[expect(unsafe_code, reason = "code without a frame of its own")]
mod first {
    use std::arch::naked_asm;

    /// Calls the function that [`Switch::begin_at`](super::Switch::begin_at) has put into the register of the frame,
    /// with the values on the stack. Keeps the place of entry in another register: debuggers and backtraces read there
    /// how the code beneath goes on.
    #[cfg(target_arch = "x86_64")]
    #[unsafe(naked)]
    // SAFETY of callers: they jump here, at a stack's top.
    pub(super) unsafe extern "C" fn begin() -> ! {
        naked_asm!(
            ".cfi_startproc",
            // As frames of signals' handlers, it may have its caller on another stack, at any address. gdb takes a
            // lower one for a fault otherwise, and stops there.
            ".cfi_signal_frame",
            // The stack's pointer beneath is the second word of the place in `rbx` (its register 3); code, `rbp` and
            // `rbx` are the first, third and fourth ones.
            ".cfi_escape 0x0f, 3, 0x73, 8, 0x06",
            ".cfi_escape 0x10, 16, 2, 0x73, 0",
            ".cfi_escape 0x10, 6, 2, 0x73, 16",
            ".cfi_escape 0x10, 3, 2, 0x73, 24",
            "mov rax, rbp",
            "mov rdi, [rsp]",
            "mov rsi, rdx",
            "xor ebp, ebp",
            "call rax",
            "ud2",
            ".cfi_endproc",
        )
    }

    /// Like the one for x86-64, with `x19` (its register 19).
    #[cfg(target_arch = "aarch64")]
    #[unsafe(naked)]
    // SAFETY of callers: they jump here, at a stack's top.
    pub(super) unsafe extern "C" fn begin() -> ! {
        naked_asm!(
            ".cfi_startproc",
            ".cfi_signal_frame",
            ".cfi_escape 0x0f, 3, 0x83, 8, 0x06",
            ".cfi_escape 0x10, 30, 2, 0x83, 0",
            ".cfi_escape 0x10, 29, 2, 0x83, 16",
            ".cfi_escape 0x10, 19, 2, 0x83, 24",
            "mov x3, x29",
            "ldr x0, [sp]",
            "mov x1, x2",
            "mov x29, xzr",
            "blr x3",
            "brk #1",
            ".cfi_endproc",
        )
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "lightweight threads switch between stacks by code for x86-64 and AArch64: this processor needs its own `jump` and \
        `begin`"
);

#[cfg(test)]
mod tests {
    use super::*;
    use std::backtrace::Backtrace;
    use std::cell::Cell;
    use std::hint::black_box;

    /// Memory for a stack, with its switch.
    struct Stack {
        memory: Box<[u128]>,
        switch: Switch,
        /// The value found by the code on it.
        found: Cell<usize>,
    }

    impl Stack {
        fn new(runs: Runs) -> Box<Stack> {
            let stack = Stack { memory: vec![0; 1 << 14].into(), switch: Switch::new(), found: Cell::new(0) };
            let stack = Box::new(stack);
            stack.begin(runs);
            stack
        }

        fn begin(&self, runs: Runs) {
            let top = self.memory.as_ptr_range().end.expose_provenance();
            #[expect(unsafe_code, reason = "what is tested")]
            // SAFETY: the memory is used for nothing else, and is aligned as its words are.
            unsafe {
                self.switch.begin_at(top, runs, ptr::from_ref(self).cast());
            }
        }

        fn enter(&self, word: usize) -> usize {
            #[expect(unsafe_code, reason = "what is tested")]
            // SAFETY: it has begun, and each test enters its stacks from one thread.
            unsafe {
                self.switch.enter(word)
            }
        }

        fn leave(&self, word: usize) -> usize {
            #[expect(unsafe_code, reason = "what is tested")]
            // SAFETY: called on the stack.
            unsafe {
                self.switch.leave(word)
            }
        }

        fn of<'a>(pointer: *const ()) -> &'a Stack {
            #[expect(unsafe_code, reason = "what is tested")]
            // SAFETY: the pointer is `begin`'s; the stack is there while a test uses it.
            unsafe {
                &*pointer.cast::<Stack>()
            }
        }
    }

    extern "C" fn adds_one(of: *const (), mut word: usize) -> ! {
        loop {
            word = Stack::of(of).leave(word + 1);
        }
    }

    #[test]
    fn words_go_in_and_come_back_from_several_stacks_in_turns() {
        let stacks = [(); 3].map(|()| Stack::new(adds_one));
        for word in 0..1000 {
            for stack in &stacks {
                assert_eq!(stack.enter(word), word + 1);
            }
        }
    }

    /// Each of these is in a register of its own, or on the stack, while `between` is called.
    #[inline(never)]
    fn keeps(seed: usize, between: impl FnOnce()) -> (usize, f64) {
        let whole: [usize; 16] = std::array::from_fn(|n| black_box(seed + n));
        let parts: [f64; 16] = std::array::from_fn(|n| black_box((seed + n) as f64 / 2.0));
        between();
        let weighted = whole.iter().enumerate().map(|(n, value)| value * (n + 1)).sum();
        (weighted, parts.iter().enumerate().map(|(n, value)| value * (n + 1) as f64).sum())
    }

    extern "C" fn keeps_there(of: *const (), seed: usize) -> ! {
        let stack = Stack::of(of);
        loop {
            let kept = keeps(seed, || _ = stack.leave(0));
            stack.found.set(usize::from(kept == keeps(seed, || ())));
            stack.leave(0);
        }
    }

    #[test]
    fn values_on_both_sides_are_as_they_were() {
        let stacks = [1, 1 << 20, 1 << 40].map(|seed| (seed, Stack::new(keeps_there)));
        for _ in 0..100 {
            let expected = keeps(7, || ());
            // To the middle of each, and then to the end of each.
            let kept = keeps(7, || stacks.iter().chain(&stacks).for_each(|(seed, stack)| _ = stack.enter(*seed)));
            assert_eq!(kept, expected);
            assert!(stacks.iter().all(|(_, stack)| stack.found.replace(0) == 1));
        }
    }

    extern "C" fn looks_around(of: *const (), _: usize) -> ! {
        #[repr(align(16))]
        struct Aligned(u8);
        let stack = Stack::of(of);
        let aligned = Aligned(0);
        let address = ptr::from_ref(black_box(&aligned)).addr();
        let is_here = stack.memory.as_ptr_range().contains(&ptr::without_provenance(address));
        let trace = Backtrace::force_capture().to_string();
        let frames = ["looks_around", "beneath_it"].map(|name| trace.find(name));
        let is_traced = frames.is_sorted() && frames[0].is_some();
        stack.found.set(usize::from(is_here && address.is_multiple_of(16)) << 1 | usize::from(is_traced));
        stack.leave(usize::from(aligned.0));
        unreachable!("it is not entered again")
    }

    /// A function visible in backtraces.
    #[inline(never)]
    fn beneath_it(stack: &Stack) -> usize {
        black_box(stack.enter(0))
    }

    #[test]
    fn stacks_are_aligned_and_backtraces_go_on_beneath_them() {
        let stack = Stack::new(looks_around);
        beneath_it(&stack);
        assert_eq!(stack.found.get(), 0b11);
    }

    #[test]
    fn a_stack_that_is_forgotten_begins_anew() {
        let stack = Stack::new(keeps_there);
        stack.enter(3);
        #[expect(unsafe_code, reason = "what is tested")]
        // SAFETY: no thread runs on the stack.
        unsafe {
            assert!(stack.switch.has_begun());
            stack.switch.forget();
            assert!(!stack.switch.has_begun());
        }
        stack.begin(adds_one);
        assert_eq!(stack.enter(41), 42);
    }
}
