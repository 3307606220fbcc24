//! Regions.

use super::Location;
use crate::exports::exports;

use crate::team::{self, Function, Region, Team};
use crate::thread::{Icv, Outer, Task, here};
use std::cell::Cell;
use std::ptr;

/// Calls a region's function with pointers to the thread's numbers, and with `count` words. At least four words can be
/// read.
///
/// # Safety
/// The function takes this number of words behind two addresses of numbers.
#[inline]
pub(crate) unsafe fn invoke(function: *const (), id: i32, number: i32, count: usize, words: *const *mut u8) {
    let (id, number) = (Cell::new(id), Cell::new(number));
    // SAFETY: the caller's promise: the function takes this number of words.
    unsafe { vicus_omp_call(function, id.as_ptr(), number.as_ptr(), count, words) };
}

unsafe extern "C-unwind" {
    fn vicus_omp_call(function: *const (), id: *mut i32, number: *mut i32, count: usize, words: *const *mut u8);
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.vicus_omp_call,\"ax\",@progbits",
    ".hidden vicus_omp_call",
    ".globl vicus_omp_call",
    ".type vicus_omp_call, @function",
    "vicus_omp_call:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov r10, r8",
    // Four words go into registers, the rest onto the stack.
    "sub rcx, 4",
    "jle 3f",
    "lea r11, [rcx * 8 + 15]",
    "and r11, -16",
    "sub rsp, r11",
    "xor r11d, r11d",
    "2:",
    "mov rdx, [r10 + r11 * 8 + 32]",
    "mov [rsp + r11 * 8], rdx",
    "inc r11",
    "cmp r11, rcx",
    "jl 2b",
    "3:",
    "mov rdx, [r10]",
    "mov rcx, [r10 + 8]",
    "mov r8, [r10 + 16]",
    "mov r9, [r10 + 24]",
    "call rax",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size vicus_omp_call, . - vicus_omp_call",
    ".popsection",
);

// "Procedure call standard for the Arm 64-bit architecture", 2024Q3, §6.8.2: eight words go into registers, two of them
// the numbers' addresses.
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".pushsection .text.vicus_omp_call,\"ax\",@progbits",
    ".hidden vicus_omp_call",
    ".globl vicus_omp_call",
    ".type vicus_omp_call, @function",
    ".p2align 2",
    "vicus_omp_call:",
    ".cfi_startproc",
    "stp x29, x30, [sp, #-16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset x29, -16",
    ".cfi_offset x30, -8",
    "mov x29, sp",
    ".cfi_def_cfa_register x29",
    "mov x8, x0",
    "mov x9, x3",
    "mov x10, x4",
    "mov x0, x1",
    "mov x1, x2",
    // Six words go into registers, the rest onto the stack.
    "subs x11, x9, #6",
    "b.le 3f",
    "lsl x12, x11, #3",
    "add x12, x12, #15",
    "and x12, x12, #-16",
    "sub sp, sp, x12",
    "mov x13, #0",
    "2:",
    "add x14, x10, x13, lsl #3",
    "ldr x14, [x14, #48]",
    "str x14, [sp, x13, lsl #3]",
    "add x13, x13, #1",
    "cmp x13, x11",
    "b.lt 2b",
    "3:",
    "ldp x2, x3, [x10]",
    "ldp x4, x5, [x10, #16]",
    // Only the first four can be read whatever their number is.
    "cmp x9, #4",
    "b.le 4f",
    "ldr x6, [x10, #32]",
    "cmp x9, #5",
    "b.le 4f",
    "ldr x7, [x10, #40]",
    "4:",
    "blr x8",
    "mov sp, x29",
    ".cfi_def_cfa sp, 16",
    "ldp x29, x30, [sp], #16",
    ".cfi_def_cfa_offset 0",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "ret",
    ".cfi_endproc",
    ".size vicus_omp_call, . - vicus_omp_call",
    ".popsection",
);

/// A function with a variable number of arguments: puts the ones behind the third into an array, and calls another
/// function with it. All are words: pointers, or numbers passed as such by clang.
#[cfg(target_arch = "x86_64")]
macro_rules! variadic {
    ($($node:literal: $(#[$attribute:meta])* fn $name:ident calls $function:ident;)*) => {$(
        $(#[$attribute])*
        #[unsafe(naked)]
        #[unsafe(export_name = concat!("vicus_", stringify!($name)))]
        pub(crate) unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "movsxd r10, esi",
                "lea r11, [r10 * 8 + 47]",
                "and r11, -16",
                "sub rsp, r11",
                "mov [rsp], rcx",
                "mov [rsp + 8], r8",
                "mov [rsp + 16], r9",
                "mov r11d, 3",
                "2:",
                "cmp r11, r10",
                "jge 3f",
                "mov rax, [rbp + r11 * 8 - 8]",
                "mov [rsp + r11 * 8], rax",
                "inc r11",
                "jmp 2b",
                "3:",
                "mov rcx, rsp",
                "call {function}",
                "leave",
                "ret",
                function = sym $function,
            )
        }
        core::arch::global_asm!(
            concat!(".symver vicus_", stringify!($name), ", ", stringify!($name), "@@", $node),
        );
    )*};
}

/// The variant for AArch64, where five of these arguments come in registers.
#[cfg(target_arch = "aarch64")]
macro_rules! variadic {
    ($($node:literal: $(#[$attribute:meta])* fn $name:ident calls $function:ident;)*) => {$(
        $(#[$attribute])*
        #[unsafe(naked)]
        #[unsafe(export_name = concat!("vicus_", stringify!($name)))]
        pub(crate) unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-16]!",
                "mov x29, sp",
                "sxtw x9, w1",
                // Room for the five words at least.
                "lsl x10, x9, #3",
                "add x10, x10, #63",
                "and x10, x10, #-16",
                "sub sp, sp, x10",
                "stp x3, x4, [sp]",
                "stp x5, x6, [sp, #16]",
                "str x7, [sp, #32]",
                "mov x11, #5",
                "2:",
                "cmp x11, x9",
                "b.ge 3f",
                // The sixth lies behind the two saved registers.
                "add x12, x29, x11, lsl #3",
                "ldur x12, [x12, #-24]",
                "str x12, [sp, x11, lsl #3]",
                "add x11, x11, #1",
                "b 2b",
                "3:",
                "mov x3, sp",
                "bl {function}",
                "mov sp, x29",
                "ldp x29, x30, [sp], #16",
                "ret",
                function = sym $function,
            )
        }
        core::arch::global_asm!(
            concat!(".symver vicus_", stringify!($name), ", ", stringify!($name), "@@", $node),
        );
    )*};
}

variadic! {
    "VERSION":
    /// `void __kmpc_fork_call(ident_t *, kmp_int32 count, kmpc_micro, ...)`
    fn __kmpc_fork_call calls fork;

    "VERSION":
    /// `void __kmpc_fork_teams(ident_t *, kmp_int32 count, kmpc_micro, ...)`
    fn __kmpc_fork_teams calls fork_teams;
}

extern "C-unwind" fn fork(location: Location, count: i32, function: *const (), words: *const *mut u8) {
    if crate::report::is_on() {
        super::note_source(function.addr(), location);
    }
    crate::objects::note_clang();
    let thread = here();
    let wanted = std::mem::take(&mut thread.next.threads);
    let bind = std::mem::take(&mut thread.next.bind);
    let function = Function::Kmpc(function, count as usize, words);
    let size = team::resolve(thread, wanted);
    team::run(Region { function, size, bind, begins: None, group: ptr::null_mut() });
}

extern "C-unwind" fn fork_teams(_location: Location, count: i32, function: *const (), words: *const *mut u8) {
    let (teams, threads) = std::mem::take(&mut here().next.teams);
    let teams = if teams == 0 { crate::api::default_teams() } else { teams };
    crate::teams::run(Function::Kmpc(function, count as usize, words), teams, threads);
}

/// A region of one thread, between its two calls.
pub(crate) struct Serialized {
    _team: Box<Team>,
    outer: Outer,
    _task: Box<Task>,
}

/// The thread begins a region of its own.
pub(crate) fn begin_serialized() {
    let thread = here();
    let outer_team = thread.team();
    let team = Team::initial();
    team.nesting.level.set(outer_team.nesting.level.get() + 1);
    team.nesting.active_level.set(outer_team.nesting.active_level.get());
    team.nesting.outer.set(outer_team);
    team.nesting.outer_number.set(thread.number);
    begin_alone(team, thread.task().icv);
}

/// The thread goes on as the only one of a team, in a task with these settings, until [`end_serialized`].
pub(crate) fn begin_alone(team: Team, icv: Icv) {
    let thread = here();
    let team = Box::new(team);
    team.nesting.crowd.set(thread.team().nesting.crowd.get());
    let mut task = Box::new(Task { icv, is_final: false, is_explicit: false, group: ptr::null_mut() });
    let outer = thread.set_aside();
    thread.team = &raw const *team;
    thread.number = 0;
    (thread.is_seated, thread.calls_tasks) = (false, false);
    thread.task = &raw mut *task;
    (thread.sharing.loops, thread.sharing.singles, thread.sharing.gathers) = (0, 0, 0);
    thread.serialized.push(Serialized { _team: team, outer, _task: task });
}

/// Ends the innermost region of one thread.
pub(crate) fn end_serialized() {
    crate::tasks::end_outside();
    let thread = here();
    if let Some(Serialized { outer, .. }) = thread.serialized.pop() {
        thread.resume(outer);
    }
}

exports! {
    "VERSION":
    /// Calls the function of the region that the thread is in.
    fn __kmpc_invoke_task_func(_thread: i32) -> i32 {
        here().team().call_again();
        1
    }

    "VERSION":
    fn __kmpc_fork_call_if(
        location: Location, count: i32, function: *const (), condition: i32, words: *mut u8,
    ) {
        let words = [words, ptr::null_mut(), ptr::null_mut(), ptr::null_mut()];
        if condition == 0 {
            here().next.threads = 1;
        }
        fork(location, count, function, words.as_ptr());
    }

    "VERSION":
    fn __kmpc_begin(_location: Location, _flags: i32) {}

    "VERSION":
    fn __kmpc_end(_location: Location) {}

    "VERSION":
    fn __kmpc_global_thread_num(_location: Location) -> i32 {
        here().id as i32
    }

    "VERSION":
    fn __kmpc_bound_thread_num(_location: Location) -> i32 {
        here().number as i32
    }

    "VERSION":
    fn __kmpc_global_num_threads(_location: Location) -> i32 {
        here().team().size as i32
    }

    "VERSION":
    fn __kmpc_bound_num_threads(_location: Location) -> i32 {
        here().team().size as i32
    }

    "VERSION":
    fn __kmpc_in_parallel(_location: Location) -> i32 {
        i32::from(here().team().nesting.active_level.get() > 0)
    }

    "VERSION":
    fn __kmpc_ok_to_fork(_location: Location) -> i32 {
        1
    }

    "VERSION":
    fn __kmpc_push_num_threads(_location: Location, _thread: i32, threads: i32) {
        here().next.threads = threads.max(0) as u32;
    }

    "VERSION":
    fn __kmpc_push_num_threads_strict(
        _location: Location, _thread: i32, threads: i32, _severity: i32, _message: *const u8,
    ) {
        here().next.threads = threads.max(0) as u32;
    }

    "VERSION":
    /// The numbers of the next region and of regions within it; only the first one counts.
    fn __kmpc_push_num_threads_list(_location: Location, _thread: i32, length: u32, threads: *const i32) {
        if length > 0 {
            // SAFETY: rule "Interface": the list has `length` numbers.
            here().next.threads = unsafe { *threads }.max(0) as u32;
        }
    }

    "VERSION":
    fn __kmpc_push_num_threads_list_strict(
        location: Location, thread: i32, length: u32, threads: *const i32, _severity: i32, _message: *const u8,
    ) {
        // SAFETY: rule "Interface": the same condition.
        unsafe { __kmpc_push_num_threads_list(location, thread, length, threads) }
    }

    "VERSION":
    fn __kmpc_push_proc_bind(_location: Location, _thread: i32, bind: i32) {
        here().next.bind = bind.clamp(0, 4) as u8;
    }

    "VERSION":
    fn __kmpc_push_num_teams(_location: Location, _thread: i32, teams: i32, threads: i32) {
        here().next.teams = (teams.max(0) as u32, threads.max(0) as u32);
    }

    "VERSION":
    fn __kmpc_push_num_teams_51(_location: Location, _thread: i32, _least: i32, teams: i32, threads: i32) {
        here().next.teams = (teams.max(0) as u32, threads.max(0) as u32);
    }

    "VERSION":
    fn __kmpc_set_thread_limit(_location: Location, _thread: i32, limit: i32) {
        if limit > 0 {
            here().task().icv.thread_limit = limit;
        }
    }

    "VERSION":
    fn __kmpc_serialized_parallel(_location: Location, _thread: i32) {
        let thread = here();
        thread.next.threads = 0;
        thread.next.bind = 0;
        begin_serialized();
    }

    "VERSION":
    fn __kmpc_end_serialized_parallel(_location: Location, _thread: i32) {
        end_serialized();
    }
}
