//! Other names of functions: the ones of LLVM's header for C programs, Fortran's, and those of old compilers.

use crate::exports::exports;
use crate::settings::Kind;
use crate::thread::here;
use crate::work::{self, LoopStart};

type RegionFn = unsafe extern "C-unwind" fn(*mut u8);

/// More names for existing functions.
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
    omp_get_num_interop_properties_, omp_get_num_interop_properties, "VERSION";
    omp_get_interop_int_, omp_get_interop_int, "VERSION";
    omp_get_interop_ptr_, omp_get_interop_ptr, "VERSION";
    omp_get_interop_str_, omp_get_interop_str, "VERSION";
    omp_get_interop_name_, omp_get_interop_name, "VERSION";
    omp_get_interop_type_desc_, omp_get_interop_type_desc, "VERSION";
    omp_get_interop_rc_desc_, omp_get_interop_rc_desc, "VERSION";
    kmp_get_num_known_threads_, kmp_get_num_known_threads, "VERSION";
    kmp_get_affinity_, kmp_get_affinity, "VERSION";
    kmp_set_affinity_, kmp_set_affinity, "VERSION";
    kmp_create_affinity_mask_, kmp_create_affinity_mask, "VERSION";
    kmp_destroy_affinity_mask_, kmp_destroy_affinity_mask, "VERSION";
    kmp_get_affinity_max_proc_, kmp_get_affinity_max_proc, "VERSION";
    kmpc_set_affinity_mask_proc, kmp_set_affinity_mask_proc, "VERSION";
    kmpc_unset_affinity_mask_proc, kmp_unset_affinity_mask_proc, "VERSION";
    kmpc_get_affinity_mask_proc, kmp_get_affinity_mask_proc, "VERSION";
    kmp_get_blocktime_, kmp_get_blocktime, "VERSION";
    kmp_get_library_, kmp_get_library, "VERSION";
    kmp_get_stacksize_, kmp_get_stacksize, "VERSION";
    kmp_get_stacksize_s_, kmp_get_stacksize_s, "VERSION";
    kmp_set_library_serial_, kmp_set_library_serial, "VERSION";
    kmp_set_library_throughput_, kmp_set_library_throughput, "VERSION";
    kmp_set_library_turnaround_, kmp_set_library_turnaround, "VERSION";
    kmp_set_warnings_off_, kmp_set_warnings_off, "VERSION";
    kmp_set_warnings_on_, kmp_set_warnings_on, "VERSION";
}

/// A place by its number; -1 if there can be none.
fn place_of(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(-1)
}

/// Widens numbers for programs with numbers of 8 bytes.
///
/// # Safety
/// There is room for as many numbers.
unsafe fn widen(narrow: &[i32], to: *mut i64) {
    for (at, &number) in narrow.iter().enumerate() {
        // SAFETY: the caller's promise: there is room for as many numbers.
        unsafe { *to.add(at) = i64::from(number) };
    }
}

/// A text of Fortran, with its length. Its blanks belong to it.
///
/// # Safety
/// The text has this length.
pub(crate) unsafe fn fortran(text: *const u8, bytes: usize) -> String {
    if bytes == 0 {
        return String::new();
    }
    // SAFETY: the caller's promise: the text has this length.
    String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(text, bytes) }).into_owned()
}

/// Functions that Fortran calls with the addresses of numbers instead of the numbers. Arguments behind a semicolon are
/// passed on as they are.
macro_rules! by_address {
    ($($node:literal $(, $more:literal)*:
        fn $name:ident($($number:ident: $type:ty),*; $($argument:ident: $other:ty),*) $(-> $result:ty)?
        = $function:path;
    )*) => {
        exports! {$(
            $node $(, $more)*:
            fn $name($($number: *const $type,)* $($argument: $other,)*) $(-> $result)? {
                // SAFETY: rule "Interface": Fortran passes the address of each number. The rest is the called
                // function's own condition.
                unsafe { $function($(*$number,)* $($argument),*) }
            }
        )*}
    };
}

by_address! {
    "OMP_4.5", "VERSION": fn omp_get_place_num_procs_(place: i32;) -> i32 = crate::places::omp_get_place_num_procs;
    "OMP_4.5", "VERSION": fn omp_get_place_proc_ids_(place: i32; ids: *mut i32)
        = crate::places::omp_get_place_proc_ids;
    "OMP_5.0", "VERSION": fn omp_pause_resource_(kind: i32, device: i32;) -> i32 = crate::api::omp_pause_resource;
    "OMP_5.0", "VERSION": fn omp_pause_resource_all_(kind: i32;) -> i32 = crate::api::omp_pause_resource_all;
    "OMP_5.0.1", "VERSION": fn omp_set_default_allocator_(allocator: usize;)
        = crate::memory::omp_set_default_allocator;
    "OMP_5.0.1", "VERSION": fn omp_destroy_allocator_(allocator: usize;) = crate::memory::omp_destroy_allocator;
    "OMP_5.0.1", "VERSION":
        fn omp_init_allocator_(space: usize, count: i32; traits: *const crate::memory::Trait) -> usize
        = crate::memory::omp_init_allocator;
    "OMP_6.0", "VERSION": fn omp_control_tool_(command: i32, modifier: i32; argument: *mut u8) -> i32
        = crate::api::omp_control_tool;
    "VERSION": fn kmp_set_affinity_mask_proc_(cpu: i32; mask: *mut *mut libc::cpu_set_t) -> i32
        = crate::api::kmp_set_affinity_mask_proc;
    "VERSION": fn kmp_unset_affinity_mask_proc_(cpu: i32; mask: *mut *mut libc::cpu_set_t) -> i32
        = crate::api::kmp_unset_affinity_mask_proc;
    "VERSION": fn kmp_get_affinity_mask_proc_(cpu: i32; mask: *mut *mut libc::cpu_set_t) -> i32
        = crate::api::kmp_get_affinity_mask_proc;
    "VERSION": fn kmp_malloc_(bytes: usize;) -> *mut libc::c_void = crate::api::kmp_malloc;
    "VERSION": fn kmp_aligned_malloc_(bytes: usize, align: usize;) -> *mut libc::c_void
        = crate::api::kmp_aligned_malloc;
    "VERSION": fn kmp_calloc_(count: usize, bytes: usize;) -> *mut libc::c_void = crate::api::kmp_calloc;
    "VERSION": fn kmp_realloc_(memory: *mut libc::c_void, bytes: usize;) -> *mut libc::c_void
        = crate::api::kmp_realloc;
    "VERSION": fn kmp_free_(memory: *mut libc::c_void;) = crate::api::kmp_free;
}

exports! {
    "OMP_4.5":
    fn omp_get_place_num_procs_8_(place: *const i64) -> i32 {
        // SAFETY: rule "Interface": Fortran passes the address of a number.
        unsafe { crate::places::omp_get_place_num_procs(place_of(*place)) }
    }

    "OMP_4.5":
    fn omp_get_place_proc_ids_8_(place: *const i64, ids: *mut i64) {
        // SAFETY: rule "Interface": the address of a number, and a list as long as the place. So is the shorter one.
        unsafe {
            let place = place_of(*place);
            let mut narrow = vec![0; crate::places::omp_get_place_num_procs(place) as usize];
            crate::places::omp_get_place_proc_ids(place, narrow.as_mut_ptr());
            widen(&narrow, ids);
        }
    }

    "OMP_4.5":
    fn omp_get_partition_place_nums_8_(numbers: *mut i64) {
        // SAFETY: rule "Interface": a list as long as the partition. So is the shorter one.
        unsafe {
            let mut narrow = vec![0; crate::places::omp_get_partition_num_places() as usize];
            crate::places::omp_get_partition_place_nums(narrow.as_mut_ptr());
            widen(&narrow, numbers);
        }
    }

    "OMP_5.0.1":
    fn omp_init_allocator_8_(space: *const usize, count: *const i64, traits: *const crate::memory::Trait) -> usize {
        // SAFETY: rule "Interface": Fortran passes the addresses of numbers, and there are `count` traits.
        unsafe { crate::memory::omp_init_allocator(*space, (*count).clamp(0, i64::from(i32::MAX)) as i32, traits) }
    }

    "OMP_6.0":
    fn omp_control_tool_8_(command: *const i64, modifier: *const i64, argument: *mut u8) -> i32 {
        // SAFETY: rule "Interface": Fortran passes the addresses of numbers.
        unsafe { crate::api::omp_control_tool(*command as i32, *modifier as i32, argument) }
    }

    "VERSION":
    fn kmp_set_stacksize_(_bytes: *const i32) {}

    "VERSION":
    fn kmp_set_stacksize_s_(_bytes: *const usize) {}

    "VERSION":
    fn kmp_set_blocktime_(_milliseconds: *const i32) {}

    "VERSION":
    fn kmp_set_library_(_kind: *const i32) {}

    "VERSION":
    fn kmp_set_disp_num_buffers_(_count: *const i32) {}

    "VERSION":
    fn kmp_set_defaults_(text: *const u8, bytes: usize) {
        // SAFETY: rule "Interface": the text has this length.
        crate::settings::set(&unsafe { fortran(text, bytes) });
    }

    "VERSION":
    fn __kmpc_pop_num_threads(_location: *const u8, _thread: i32) {}

    "VERSION":
    fn __kmpc_get_default_allocator(_thread: i32) -> usize {
        crate::memory::default()
    }

    "VERSION":
    fn __kmpc_set_default_allocator(_thread: i32, allocator: usize) {
        crate::memory::set_default(allocator);
    }

    "VERSION":
    fn __kmpc_calloc(_thread: i32, count: usize, bytes: usize, allocator: usize) -> *mut u8 {
        crate::memory::allocate_array(1, count, bytes, allocator)
    }

    "VERSION":
    fn __kmpc_realloc(_thread: i32, at: *mut u8, bytes: usize, allocator: usize, old: usize) -> *mut u8 {
        // SAFETY: rule "Interface": the same condition.
        unsafe { crate::memory::omp_realloc(at, bytes, allocator, old) }
    }
}

/// gcc before 4.9 calls this before a region that is a loop: the calling thread has all of it.
fn start_serialized(start: LoopStart) {
    crate::kmpc::fork::begin_serialized();
    work::begin(here(), start);
}

macro_rules! old_loops {
    ($($kind:expr, $name:ident;)*) => {
        exports! {$(
            "GOMP_1.0", "VERSION":
            fn $name(_function: RegionFn, _data: *mut u8, _threads: u32, first: i64, end: i64, step: i64, chunk: i64) {
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
        _function: RegionFn, _data: *mut u8, _threads: u32, first: i64, end: i64, step: i64,
    ) {
        start_serialized(LoopStart::signed(Kind::Static, first, end, step, 0));
    }

    "GOMP_1.0", "VERSION":
    fn GOMP_parallel_sections_start(_function: RegionFn, _data: *mut u8, _threads: u32, count: u32) {
        start_serialized(LoopStart::signed(Kind::Dynamic, 1, i64::from(count) + 1, 1, 1));
    }
}
