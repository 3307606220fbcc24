//! `omp_*`, and the `kmp_*` used by programs. Fortran's names end in an underscore, and their arguments are pointers.

use crate::exports::exports;
use crate::settings::{self, Kind, Schedule, processors};
use crate::tasks::{Event, fulfil};
use crate::thread::here;
use std::sync::atomic::{AtomicI32, Ordering};

/// Functions without an argument, for C and Fortran.
macro_rules! getters {
    ($($node:literal: fn $name:ident() $(-> $result:ty)? $body:block)*) => {
        exports! {$(
            $node, "VERSION":
            fn $name() $(-> $result)? $body
        )*}
        $(const _: () = {
            #[unsafe(export_name = concat!("vicus_", stringify!($name), "_"))]
            unsafe extern "C-unwind" fn fortran() $(-> $result)? {
                // SAFETY: these functions have no condition.
                unsafe { $name() }
            }
        };)*
        $(core::arch::global_asm!(
            concat!(".symver vicus_", stringify!($name), "_, ", stringify!($name), "_@@", $node),
            concat!(".symver vicus_", stringify!($name), "_, ", stringify!($name), "_@VERSION"),
        );)*
    };
}

/// Functions of a number, for C and for Fortran's two sizes of it.
macro_rules! setters {
    ($($node:literal: fn $name:ident($value:ident) $(-> $result:ty)? $body:block)*) => {
        exports! {$(
            $node, "VERSION":
            fn $name($value: i32) $(-> $result)? $body
        )*}
        $(const _: () = {
            #[unsafe(export_name = concat!("vicus_", stringify!($name), "_"))]
            unsafe extern "C-unwind" fn fortran(value: *const i32) $(-> $result)? {
                // SAFETY: rule "Interface": Fortran passes the address of a number.
                unsafe { $name(*value) }
            }
            #[unsafe(export_name = concat!("vicus_", stringify!($name), "_8_"))]
            unsafe extern "C-unwind" fn fortran_8(value: *const i64) $(-> $result)? {
                // SAFETY: rule "Interface": Fortran passes the address of a number.
                unsafe { $name((*value).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32) }
            }
        };)*
        $(core::arch::global_asm!(
            concat!(".symver vicus_", stringify!($name), "_, ", stringify!($name), "_@@", $node),
            concat!(".symver vicus_", stringify!($name), "_, ", stringify!($name), "_@VERSION"),
            concat!(".symver vicus_", stringify!($name), "_8_, ", stringify!($name), "_8_@@", $node),
        );)*
    };
}

/// The number of teams of the next league, and the most threads of each; 0: no clause.
static TEAMS: AtomicI32 = AtomicI32::new(0);
static TEAMS_THREADS: AtomicI32 = AtomicI32::new(0);

getters! {
    "OMP_1.0": fn omp_get_num_threads() -> i32 { here().team().size as i32 }
    "OMP_1.0": fn omp_get_max_threads() -> i32 { here().task().icv.threads }
    "OMP_1.0": fn omp_get_thread_num() -> i32 { here().number as i32 }
    "OMP_1.0": fn omp_get_num_procs() -> i32 { processors() as i32 }
    "OMP_1.0": fn omp_in_parallel() -> i32 { i32::from(here().team().nesting.active_level.get() > 0) }
    "OMP_1.0": fn omp_get_dynamic() -> i32 { i32::from(here().task().icv.is_dynamic) }
    "OMP_1.0": fn omp_get_nested() -> i32 {
        i32::from(here().task().icv.max_active_levels > here().team().nesting.active_level.get() as i32 + 1)
    }
    "OMP_2.0": fn omp_get_wtime() -> f64 {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: rule "System": the time is a value of this function.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
    }
    "OMP_2.0": fn omp_get_wtick() -> f64 {
        let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: rule "System": the time is a value of this function.
        unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &raw mut tick) };
        tick.tv_sec as f64 + tick.tv_nsec as f64 * 1e-9
    }
    "OMP_3.0": fn omp_get_thread_limit() -> i32 { here().task().icv.thread_limit }
    "OMP_3.0": fn omp_get_max_active_levels() -> i32 { here().task().icv.max_active_levels }
    "OMP_3.0": fn omp_get_level() -> i32 { here().team().nesting.level.get() as i32 }
    "OMP_3.0": fn omp_get_active_level() -> i32 { here().team().nesting.active_level.get() as i32 }
    "OMP_3.1": fn omp_in_final() -> i32 { i32::from(here().task().is_final) }
    "OMP_4.0": fn omp_get_cancellation() -> i32 { i32::from(settings::get().cancels) }
    "OMP_4.0": fn omp_get_proc_bind() -> i32 { i32::from(here().task().icv.bind) }
    "OMP_4.0": fn omp_get_default_device() -> i32 { here().task().icv.default_device }
    "OMP_4.0": fn omp_get_num_devices() -> i32 { 0 }
    "OMP_4.0": fn omp_get_num_teams() -> i32 { here().league.1 as i32 }
    "OMP_4.0": fn omp_get_team_num() -> i32 { here().league.0 as i32 }
    "OMP_4.0": fn omp_is_initial_device() -> i32 { 1 }
    "OMP_4.5": fn omp_get_max_task_priority() -> i32 { settings::get().most_priority }
    "OMP_4.5": fn omp_get_initial_device() -> i32 { 0 }
    "OMP_5.0.1": fn omp_get_supported_active_levels() -> i32 { i32::MAX }
    "OMP_5.0.2": fn omp_get_device_num() -> i32 { 0 }
    "OMP_5.1": fn omp_get_max_teams() -> i32 {
        match TEAMS.load(Ordering::Relaxed) {
            0 => settings::get().teams,
            teams => teams,
        }
    }
    "OMP_5.1": fn omp_get_teams_thread_limit() -> i32 {
        match TEAMS_THREADS.load(Ordering::Relaxed) {
            0 => settings::get().teams_threads,
            threads => threads,
        }
    }
    "OMP_5.2": fn omp_in_explicit_task() -> i32 { i32::from(here().task().is_explicit) }
}

setters! {
    "OMP_1.0": fn omp_set_num_threads(threads) { here().task().icv.threads = threads.max(1); }
    "OMP_1.0": fn omp_set_dynamic(is_dynamic) { here().task().icv.is_dynamic = is_dynamic != 0; }
    "OMP_1.0": fn omp_set_nested(is_nested) {
        here().task().icv.max_active_levels = if is_nested != 0 { i32::MAX } else { 1 };
    }
    "OMP_3.0": fn omp_set_max_active_levels(levels) {
        if levels >= 0 {
            here().task().icv.max_active_levels = levels;
        }
    }
    "OMP_3.0": fn omp_get_ancestor_thread_num(level) -> i32 {
        let thread = here();
        thread.team().at_level(level, thread.number).map_or(-1, |(_, number)| number as i32)
    }
    "OMP_3.0": fn omp_get_team_size(level) -> i32 {
        let thread = here();
        thread.team().at_level(level, thread.number).map_or(-1, |(team, _)| team.size as i32)
    }
    "OMP_4.0": fn omp_set_default_device(device) { here().task().icv.default_device = device; }
    "OMP_5.1": fn omp_set_num_teams(teams) { TEAMS.store(teams.max(0), Ordering::Relaxed); }
    "OMP_5.1": fn omp_set_teams_thread_limit(threads) { TEAMS_THREADS.store(threads.max(0), Ordering::Relaxed); }
    "OMP_5.1": fn omp_display_env(is_verbose) { eprint!("{}", settings::get().shown(is_verbose != 0)); }
}

/// The number of teams in a league without a clause.
pub(crate) fn default_teams() -> u32 {
    // SAFETY: the function has no condition.
    (unsafe { omp_get_max_teams() }).max(1) as u32
}

/// The most threads of each of its teams without a clause; 0: as many as elsewhere.
pub(crate) fn default_teams_threads() -> i32 {
    // SAFETY: the function has no condition.
    unsafe { omp_get_teams_thread_limit() }
}

const MONOTONIC: u32 = 1 << 31;

fn set_schedule(kind: u32, chunk: i32) {
    let is_monotonic = kind & MONOTONIC != 0;
    let kind = match kind & !MONOTONIC {
        1 => Kind::Static,
        2 => Kind::Dynamic,
        3 => Kind::Guided,
        4 => Kind::Auto,
        _ => return,
    };
    // A static loop without a chunk has one part for each thread.
    let chunk = chunk.max(i32::from(kind != Kind::Static));
    here().task().icv.schedule = Schedule { kind, is_monotonic, chunk };
}

fn get_schedule() -> (u32, i32) {
    let Schedule { kind, is_monotonic, chunk } = here().task().icv.schedule;
    let number = match kind {
        Kind::Static => 1,
        Kind::Dynamic | Kind::Returning => 2,
        Kind::Guided => 3,
        Kind::Auto => 4,
    };
    (number | if is_monotonic { MONOTONIC } else { 0 }, chunk)
}

/// Ends the threads waiting for the next region; kinds 1 soft and 2 hard are the same here. Returns 0 on success.
fn pause(kind: i32) -> i32 {
    let _errno = crate::wait::KeepErrno::new();
    let is_done = matches!(kind, 1 | 2) && crate::process::release();
    if is_done { 0 } else { -1 }
}

/// Calls `f` for a processor in a set; -1: there is no such processor.
fn in_mask(cpu: i32, mask: *mut *mut libc::cpu_set_t, f: impl FnOnce(usize, &mut libc::cpu_set_t) -> i32) -> i32 {
    // SAFETY: the function has no condition.
    let count = unsafe { kmp_get_affinity_max_proc() };
    match usize::try_from(cpu) {
        Ok(number) if cpu < count && number < libc::CPU_SETSIZE as usize => {
            // SAFETY: rule "Interface": the place of a set made by `kmp_create_affinity_mask`, which no other thread
            // uses meanwhile; null if there was no memory for it.
            unsafe { (*mask).as_mut() }.map_or(-1, |mask| f(number, mask))
        }
        _ => -1,
    }
}

exports! {
    "OMP_3.0", "VERSION":
    fn omp_set_schedule(kind: u32, chunk: i32) {
        set_schedule(kind, chunk);
    }

    "OMP_3.0", "VERSION":
    fn omp_set_schedule_(kind: *const u32, chunk: *const i32) {
        // SAFETY: rule "Interface": Fortran passes the addresses of both.
        unsafe { set_schedule(*kind, *chunk) };
    }

    "OMP_3.0", "VERSION":
    fn omp_set_schedule_8_(kind: *const u32, chunk: *const i64) {
        // SAFETY: rule "Interface": Fortran passes the addresses of both.
        unsafe { set_schedule(*kind, (*chunk).clamp(0, i64::from(i32::MAX)) as i32) };
    }

    "OMP_3.0", "VERSION":
    fn omp_get_schedule(kind: *mut u32, chunk: *mut i32) {
        // SAFETY: rule "Interface": both can be written.
        unsafe { (*kind, *chunk) = get_schedule() };
    }

    "OMP_3.0", "VERSION":
    fn omp_get_schedule_(kind: *mut u32, chunk: *mut i32) {
        // SAFETY: rule "Interface": both can be written.
        unsafe { (*kind, *chunk) = get_schedule() };
    }

    "OMP_3.0":
    fn omp_get_schedule_8_(kind: *mut u32, chunk: *mut i64) {
        let (as_number, least) = get_schedule();
        // SAFETY: rule "Interface": both can be written.
        unsafe { (*kind, *chunk) = (as_number, i64::from(least)) };
    }

    "OMP_5.0.1", "VERSION":
    fn omp_fulfill_event(event: *const Event) {
        if !event.is_null() {
            // SAFETY: rule "Interface": an event of a `detach` clause, fulfilled once.
            unsafe { fulfil(event) };
        }
    }

    "OMP_5.0.1", "VERSION":
    // `omp_lib` passes the handle itself.
    fn omp_fulfill_event_(event: *const Event) {
        // SAFETY: rule "Interface": the same condition.
        unsafe { omp_fulfill_event(event) };
    }

    "OMP_5.0", "VERSION":
    fn omp_pause_resource(kind: i32, device: i32) -> i32 {
        // The host is the only device, and its number is the number of devices; -1 names it, too.
        if (-1..=0).contains(&device) { pause(kind) } else { -1 }
    }

    "OMP_5.0", "VERSION":
    fn omp_pause_resource_all(kind: i32) -> i32 {
        pause(kind)
    }

    "VERSION":
    fn __kmpc_pause_resource(kind: i32) -> i32 {
        pause(kind)
    }

    "OMP_6.0":
    fn omp_control_tool(_command: i32, _modifier: i32, _argument: *mut u8) -> i32 {
        // No tool is there.
        -2
    }

    "VERSION":
    fn kmp_set_defaults(text: *const libc::c_char) {
        if !text.is_null() {
            // SAFETY: rule "Interface": the text ends with a zero byte.
            settings::set(&unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy());
        }
    }

    "VERSION":
    fn kmp_set_blocktime(_milliseconds: i32) {}

    "VERSION":
    fn kmp_get_blocktime() -> i32 {
        match settings::get().waiting.is_active {
            Some(true) => i32::MAX,
            Some(false) => 0,
            None => 200,
        }
    }

    "VERSION":
    fn kmp_set_stacksize(_bytes: i32) {}

    "VERSION":
    fn kmp_set_stacksize_s(_bytes: usize) {}

    "VERSION":
    fn kmp_get_stacksize() -> i32 {
        settings::get().stack_bytes.unwrap_or(8 << 20).min(i32::MAX as usize) as i32
    }

    "VERSION":
    fn kmp_get_stacksize_s() -> usize {
        settings::get().stack_bytes.unwrap_or(8 << 20)
    }

    "VERSION":
    fn kmp_set_library(_kind: i32) {}

    "VERSION":
    fn kmp_get_library() -> i32 {
        2
    }

    "VERSION":
    fn kmp_set_library_serial() {}

    "VERSION":
    fn kmp_set_library_turnaround() {}

    "VERSION":
    fn kmp_set_library_throughput() {}

    "VERSION":
    fn kmp_set_disp_num_buffers(_count: i32) {}

    "VERSION":
    fn kmp_set_warnings_on() {}

    "VERSION":
    fn kmp_set_warnings_off() {}

    // A set of processors, made by the library for the program.
    "VERSION":
    fn kmp_create_affinity_mask(mask: *mut *mut libc::cpu_set_t) {
        // SAFETY: rule "Interface": the place can be written.
        unsafe { *mask = libc::calloc(1, size_of::<libc::cpu_set_t>()).cast() };
    }

    "VERSION":
    fn kmp_destroy_affinity_mask(mask: *mut *mut libc::cpu_set_t) {
        // SAFETY: rule "Interface": the place of a set made by `kmp_create_affinity_mask`, used no more.
        unsafe {
            libc::free((*mask).cast());
            *mask = std::ptr::null_mut();
        }
    }

    "VERSION":
    fn kmp_set_affinity(mask: *mut *mut libc::cpu_set_t) -> i32 {
        // SAFETY: rule "Interface": the place of a set made by `kmp_create_affinity_mask`. The system refuses a null
        // set.
        unsafe { i32::from(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), *mask) != 0) }
    }

    "VERSION":
    fn kmp_get_affinity(mask: *mut *mut libc::cpu_set_t) -> i32 {
        // SAFETY: rule "Interface": the place of a set made by `kmp_create_affinity_mask`. The system refuses a null
        // set.
        unsafe { i32::from(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), *mask) != 0) }
    }

    "VERSION":
    /// The thread may run where the process could at first.
    fn kmp_set_thread_affinity_mask_initial() {
        crate::places::set_affinity(&crate::places::set_of(crate::places::allowed()));
    }

    "VERSION":
    fn kmp_get_num_known_threads() -> i32 {
        crate::thread::known()
    }

    "VERSION":
    fn kmp_get_affinity_max_proc() -> i32 {
        // SAFETY: rule "System": a name that the system knows.
        unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) as i32 }
    }

    "VERSION":
    fn kmp_set_affinity_mask_proc(cpu: i32, mask: *mut *mut libc::cpu_set_t) -> i32 {
        in_mask(cpu, mask, |cpu, mask| {
            // SAFETY: `in_mask` gives the number of a processor within the set.
            unsafe { libc::CPU_SET(cpu, mask) };
            0
        })
    }

    "VERSION":
    fn kmp_unset_affinity_mask_proc(cpu: i32, mask: *mut *mut libc::cpu_set_t) -> i32 {
        in_mask(cpu, mask, |cpu, mask| {
            // SAFETY: `in_mask` gives the number of a processor within the set.
            unsafe { libc::CPU_CLR(cpu, mask) };
            0
        })
    }

    "VERSION":
    fn kmp_get_affinity_mask_proc(cpu: i32, mask: *mut *mut libc::cpu_set_t) -> i32 {
        // SAFETY: `in_mask` gives the number of a processor within the set.
        in_mask(cpu, mask, |cpu, mask| i32::from(unsafe { libc::CPU_ISSET(cpu, mask) }))
    }

    "VERSION":
    fn kmp_malloc(bytes: usize) -> *mut libc::c_void {
        // SAFETY: rule "System": no condition.
        unsafe { libc::malloc(bytes) }
    }

    "VERSION":
    fn kmp_aligned_malloc(bytes: usize, align: usize) -> *mut libc::c_void {
        if !align.is_power_of_two() {
            return std::ptr::null_mut();
        }
        let align = align.max(16);
        // SAFETY: rule "System": the alignment is a power of two, and the bytes are a multiple of it.
        unsafe { libc::aligned_alloc(align, bytes.next_multiple_of(align)) }
    }

    "VERSION":
    fn kmp_calloc(count: usize, bytes: usize) -> *mut libc::c_void {
        // SAFETY: rule "System": no condition.
        unsafe { libc::calloc(count, bytes) }
    }

    "VERSION":
    fn kmp_realloc(memory: *mut libc::c_void, bytes: usize) -> *mut libc::c_void {
        // SAFETY: rule "Interface": a block of one of these functions, or null.
        unsafe { libc::realloc(memory, bytes) }
    }

    "VERSION":
    fn kmp_free(memory: *mut libc::c_void) {
        // SAFETY: rule "Interface": a block of one of these functions, or null.
        unsafe { libc::free(memory) };
    }
}
