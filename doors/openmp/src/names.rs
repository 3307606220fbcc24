//! Other names of functions: those that LLVM's header gives to C programs, Fortran's, and those of old compilers.

use crate::exports::exports;
use crate::settings::Kind;
use crate::thread::here;
use crate::work::{self, LoopStart};

type Fn = unsafe extern "C-unwind" fn(*mut u8);

/// More names for functions that are there.
macro_rules! same {
    ($($other:ident, $name:ident, $node:literal;)*) => {
        $(core::arch::global_asm!(
            concat!(".symver vicus_", stringify!($name), ", ", stringify!($other), "@@", $node),
        );)*
    };
}

same! {
    ompc_capture_affinity, omp_capture_affinity, "VERSION";
    ompc_display_affinity, omp_display_affinity, "VERSION";
    ompc_get_affinity_format, omp_get_affinity_format, "VERSION";
    ompc_set_affinity_format, omp_set_affinity_format, "VERSION";
    ompc_get_ancestor_thread_num, omp_get_ancestor_thread_num, "VERSION";
    ompc_get_team_size, omp_get_team_size, "VERSION";
    ompc_set_dynamic, omp_set_dynamic, "VERSION";
    ompc_set_max_active_levels, omp_set_max_active_levels, "VERSION";
    ompc_set_nested, omp_set_nested, "VERSION";
    ompc_set_num_threads, omp_set_num_threads, "VERSION";
    ompc_set_schedule, omp_set_schedule, "VERSION";
    kmpc_malloc, kmp_malloc, "VERSION";
    kmpc_aligned_malloc, kmp_aligned_malloc, "VERSION";
    kmpc_calloc, kmp_calloc, "VERSION";
    kmpc_realloc, kmp_realloc, "VERSION";
    kmpc_free, kmp_free, "VERSION";
    kmpc_set_blocktime, kmp_set_blocktime, "VERSION";
    kmpc_set_defaults, kmp_set_defaults, "VERSION";
    kmpc_set_disp_num_buffers, kmp_set_disp_num_buffers, "VERSION";
    kmpc_set_library, kmp_set_library, "VERSION";
    kmpc_set_stacksize, kmp_set_stacksize, "VERSION";
    kmpc_set_stacksize_s, kmp_set_stacksize_s, "VERSION";
    omp_get_num_places_, omp_get_num_places, "OMP_4.5";
    omp_get_place_num_, omp_get_place_num, "OMP_4.5";
    omp_get_partition_num_places_, omp_get_partition_num_places, "OMP_4.5";
    omp_get_partition_place_nums_, omp_get_partition_place_nums, "OMP_4.5";
    omp_get_default_allocator_, omp_get_default_allocator, "OMP_5.0.1";
}

exports! {
    "OMP_4.5", "VERSION":
    fn omp_get_place_num_procs_(place: *const i32) -> i32 {
        unsafe { crate::places::omp_get_place_num_procs(*place) }
    }

    "OMP_4.5", "VERSION":
    fn omp_get_place_proc_ids_(place: *const i32, ids: *mut i32) {
        unsafe { crate::places::omp_get_place_proc_ids(*place, ids) };
    }

    "OMP_5.0", "VERSION":
    fn omp_pause_resource_(kind: *const i32, device: *const i32) -> i32 {
        unsafe { crate::api::omp_pause_resource(*kind, *device) }
    }

    "OMP_5.0", "VERSION":
    fn omp_pause_resource_all_(kind: *const i32) -> i32 {
        unsafe { crate::api::omp_pause_resource_all(*kind) }
    }

    "OMP_5.0.1", "VERSION":
    fn omp_set_default_allocator_(allocator: *const usize) {
        unsafe { crate::memory::omp_set_default_allocator(*allocator) };
    }

    "OMP_5.0.1", "VERSION":
    fn omp_destroy_allocator_(allocator: *const usize) {
        unsafe { crate::memory::omp_destroy_allocator(*allocator) };
    }

    "OMP_5.0.1", "VERSION":
    fn omp_init_allocator_(space: *const usize, count: *const i32, traits: *const crate::memory::Trait) -> usize {
        unsafe { crate::memory::omp_init_allocator(*space, *count, traits) }
    }

    "VERSION":
    fn __kmpc_get_default_allocator(_thread: i32) -> usize {
        unsafe { crate::memory::omp_get_default_allocator() }
    }

    "VERSION":
    fn __kmpc_set_default_allocator(_thread: i32, allocator: usize) {
        unsafe { crate::memory::omp_set_default_allocator(allocator) };
    }

    "VERSION":
    fn __kmpc_calloc(_thread: i32, count: usize, bytes: usize, allocator: usize) -> *mut u8 {
        unsafe { crate::memory::omp_calloc(count, bytes, allocator) }
    }

    "VERSION":
    fn __kmpc_realloc(_thread: i32, at: *mut u8, bytes: usize, allocator: usize, old: usize) -> *mut u8 {
        unsafe { crate::memory::omp_realloc(at, bytes, allocator, old) }
    }

    // Teams of a target region that runs on the host: one after the other.
    "GOMP_5.1":
    fn GOMP_teams4(_least: u32, teams: u32, _threads: u32, is_first: bool) -> bool {
        let thread = here();
        if is_first {
            thread.league = (0, teams.max(1));
            return true;
        }
        if thread.league.0 + 1 >= thread.league.1 {
            thread.league = (0, 1);
            return false;
        }
        thread.league.0 += 1;
        true
    }

    "GOMP_4.0", "VERSION":
    fn GOMP_teams(_teams: u32, _threads: u32) {}
}

/// What gcc before 4.9 calls before a region that is a loop: the calling thread has all of it.
fn start_serialized(start: LoopStart) {
    crate::kmpc::fork::begin_serialized();
    work::begin(here(), start);
}

macro_rules! old_loops {
    ($($kind:expr, $name:ident;)*) => {
        exports! {$(
            "GOMP_1.0", "VERSION":
            fn $name(_function: Fn, _data: *mut u8, _threads: u32, first: i64, end: i64, step: i64, chunk: i64) {
                start_serialized(LoopStart::signed($kind, first, end, step, chunk));
            }
        )*}
    };
}

old_loops! {
    Kind::Static, GOMP_parallel_loop_static_start;
    Kind::Dynamic, GOMP_parallel_loop_dynamic_start;
    Kind::Guided, GOMP_parallel_loop_guided_start;
}

exports! {
    "GOMP_1.0", "VERSION":
    fn GOMP_parallel_loop_runtime_start(
        _function: Fn, _data: *mut u8, _threads: u32, first: i64, end: i64, step: i64,
    ) {
        start_serialized(LoopStart::signed(Kind::Static, first, end, step, 0));
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_parallel_sections_start(_function: Fn, _data: *mut u8, _threads: u32, count: u32) {
        start_serialized(LoopStart::signed(Kind::Dynamic, 1, i64::from(count) + 1, 1, 1));
    }
}
