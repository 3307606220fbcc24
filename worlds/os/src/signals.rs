//! Faults on addresses: `SIGSEGV` and `SIGBUS`. A page that a mapped file has lost is replaced by zeros (`mapped.rs`),
//! and the thread goes on. Guards of stacks are told of by whoever has set them ([`tell_of_guards`]), and the process
//! ends as it would have. All else goes to the handler that was there before.

use crate::mapped::replace_lost;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Once, OnceLock};

/// Tells of a fault on a guard.
static TELLS: OnceLock<fn(usize) -> bool> = OnceLock::new();

/// From now on, `tells` is asked about each address of a fault. It is called in the handler of a signal, so it takes no
/// lock and no memory. If the address is a guard's, it writes a line and returns `true`; the signal's usual end
/// follows. The first caller's function stays.
pub fn tell_of_guards(tells: fn(usize) -> bool) {
    let _ = TELLS.set(tells);
}

/// Installs the handler, once for the process.
pub fn watch() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        for (signal, before) in [(libc::SIGSEGV, &SEGV), (libc::SIGBUS, &BUS)] {
            #[expect(unsafe_code, reason = "system calls that libc has no safe function for")]
            // SAFETY: the handler calls nothing that a handler may not. It runs on the stack for signals that each
            // thread has: see `watch_thread`.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                let mut old = MaybeUninit::<libc::sigaction>::zeroed();
                if libc::sigaction(signal, &raw const action, old.as_mut_ptr()) == 0 {
                    before.store(Box::into_raw(Box::new(old.assume_init())), Ordering::Release);
                }
            }
        }
    });
}

/// Gives the calling thread a stack for signals if it has none: the standard library does so only in programs whose
/// `main` is Rust's.
#[cold]
#[inline(never)]
pub fn watch_thread() {
    thread_local!(static OWN: SignalStack = SignalStack::new());
    OWN.with(|_| ());
}

/// A stack for signals, until its thread ends.
struct SignalStack(*mut libc::c_void);

const SIGNAL_STACK_BYTES: usize = 32 << 10;

impl SignalStack {
    fn new() -> SignalStack {
        #[expect(unsafe_code, reason = "system calls that libc has no safe function for")]
        // SAFETY: the kernel chooses unused addresses, which only the handler uses.
        unsafe {
            let mut now: libc::stack_t = std::mem::zeroed();
            if libc::sigaltstack(ptr::null(), &raw mut now) != 0 || now.ss_flags & libc::SS_DISABLE == 0 {
                return SignalStack(ptr::null_mut());
            }
            let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let base = libc::mmap(ptr::null_mut(), SIGNAL_STACK_BYTES, access, flags, -1, 0);
            if base == libc::MAP_FAILED {
                return SignalStack(ptr::null_mut());
            }
            let own = libc::stack_t { ss_sp: base, ss_flags: 0, ss_size: SIGNAL_STACK_BYTES };
            libc::sigaltstack(&raw const own, ptr::null_mut());
            SignalStack(base)
        }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        if !self.0.is_null() {
            #[expect(unsafe_code, reason = "system calls that libc has no safe function for")]
            // SAFETY: the thread has no stack for signals any more when the memory goes.
            unsafe {
                let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
                libc::sigaltstack(&raw const none, ptr::null_mut());
                libc::munmap(self.0, SIGNAL_STACK_BYTES);
            }
        }
    }
}

/// The handlers from before, by signal.
static SEGV: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
static BUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
type OldHandler = extern "C" fn(libc::c_int);

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    #[expect(unsafe_code, reason = "what the kernel hands to a handler")]
    // SAFETY: the kernel gives a handler with SA_SIGINFO the address that was touched.
    let address = unsafe { (*info).si_addr() }.addr();
    if signal == libc::SIGBUS && replace_lost(address) {
        return;
    }
    if TELLS.get().is_some_and(|tells| tells(address)) {
        set_default(signal);
        // The instruction is tried again when this returns, and ends the process as it would have without this handler.
        return;
    }
    let before = if signal == libc::SIGSEGV { &SEGV } else { &BUS };
    #[expect(unsafe_code, reason = "calls the handler that was there before")]
    // SAFETY: it was written by `watch` and stays; a handler is of the type that its flags say.
    unsafe {
        let Some(old) = before.load(Ordering::Acquire).as_ref() else { return set_default(signal) };
        match old.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => set_default(signal),
            handler if old.sa_flags & libc::SA_SIGINFO != 0 => {
                std::mem::transmute::<usize, Handler>(handler)(signal, info, context);
            }
            handler => std::mem::transmute::<usize, OldHandler>(handler)(signal),
        }
    }
}

fn set_default(signal: libc::c_int) {
    #[expect(unsafe_code, reason = "a system call that libc has no safe function for")]
    // SAFETY: the default action needs nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}
