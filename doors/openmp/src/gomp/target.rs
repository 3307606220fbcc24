//! Target regions of programs of gcc. There is no device: they run on the host, on the thread that comes to them, or as
//! a task with `nowait`.

use super::tasks::{DEPEND, Data, accesses, make};
use crate::exports::exports;
use crate::tasks;
use crate::teams;
use crate::thread::here;
use std::{ptr, slice};

type RegionFn = unsafe extern "C-unwind" fn(*mut u8);

const NOWAIT: u32 = 1;

/// The arguments of a region: an address for each mapped thing, and the number of things it has copies of.
struct Call<'a> {
    function: RegionFn,
    threads: i32,
    addresses: &'a [*mut u8],
    bytes: *const usize,
    kinds: *const u16,
}

/// A call in one piece: this header, the addresses, the copies.
#[repr(C)]
struct Laid {
    function: RegionFn,
    threads: i32,
    count: usize,
}

/// The kind of a thing copied for the region. The bits above are the logarithm of its alignment.
const FIRSTPRIVATE: u16 = 12;

impl Call<'_> {
    /// The things copied for the region: index, length, alignment.
    fn copies(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        // SAFETY: rule "Interface": there is a kind, and a number of bytes, for each address.
        let kind = |index: usize| unsafe { *self.kinds.add(index) };
        (0..self.addresses.len())
            .filter(move |&index| kind(index) & 0xff == FIRSTPRIVATE)
            // SAFETY: rule "Interface": there is a kind, and a number of bytes, for each address.
            .map(move |index| (index, unsafe { *self.bytes.add(index) }, 1 << (kind(index) >> 8).min(12)))
    }

    /// How long it is in one piece, and how it is aligned.
    fn layout(&self) -> (usize, usize) {
        let start = size_of::<Laid>() + size_of_val(self.addresses);
        self.copies().fold((start, align_of::<Laid>()), |(all, align), (_, bytes, own)| {
            (all.next_multiple_of(own) + bytes, align.max(own))
        })
    }
}

/// Puts a call into one piece.
unsafe extern "C-unwind" fn lay(to: *mut u8, call: *mut u8) {
    // SAFETY: `with_copy` and `make` call it with the `Call` of `GOMP_target_ext`, and with memory of the call's
    // layout. Rule "Interface": each copied thing has its bytes.
    unsafe {
        let call = &*call.cast::<Call>();
        let count = call.addresses.len();
        to.cast::<Laid>().write(Laid { function: call.function, threads: call.threads, count });
        let addresses = to.cast::<Laid>().add(1).cast::<*mut u8>();
        ptr::copy_nonoverlapping(call.addresses.as_ptr(), addresses, count);
        let mut at = size_of::<Laid>() + size_of_val(call.addresses);
        for (index, bytes, align) in call.copies() {
            at = at.next_multiple_of(align);
            ptr::copy_nonoverlapping(call.addresses[index], to.add(at), bytes);
            *addresses.add(index) = to.add(at);
            at += bytes;
        }
    }
}

/// Runs a call in one piece.
unsafe extern "C-unwind" fn run(laid: *mut u8) {
    // SAFETY: rule "Interface": the piece of memory is one of `lay`, and the program's function gets its addresses.
    unsafe {
        let Laid { function, threads, .. } = *laid.cast::<Laid>();
        let addresses = laid.cast::<Laid>().add(1).cast::<u8>();
        teams::on_host(threads, || function(addresses));
    }
}

/// The `thread_limit` among a region's arguments; 0: none.
///
/// # Safety
/// Null, or a list in gcc's layout, which ends with a 0.
unsafe fn thread_limit(mut arguments: *const usize) -> i32 {
    const OF_A_DEVICE: usize = 0x7f;
    const IS_NEXT: usize = 0x80;
    const WHAT: usize = 0xff00;
    const THREAD_LIMIT: usize = 0x200;
    if arguments.is_null() {
        return 0;
    }
    let mut next = || {
        // SAFETY: the caller's promise: no word is read behind the 0 at the end.
        unsafe {
            let word = *arguments;
            arguments = arguments.add(1);
            word
        }
    };
    loop {
        let word = next();
        if word == 0 {
            return 0;
        }
        let mut value = word as isize >> 16;
        if word & IS_NEXT != 0 {
            value = next() as isize;
        }
        if word & OF_A_DEVICE == 0 && word & WHAT == THREAD_LIMIT {
            return value.clamp(0, i32::MAX as isize) as i32;
        }
    }
}

/// Sets the most threads for a team of a region's league; 0: as many as the region.
fn limit_threads(threads: u32) {
    if threads > 0 {
        here().task().icv.thread_limit = threads.min(i32::MAX as u32) as i32;
    }
}

/// The work of a construct without a region: it comes after its predecessors, and its followers come later.
///
/// # Safety
/// The clause is null, or in gcc's layout.
unsafe fn follow(flags: u32, depend: *const *mut u8) {
    if !depend.is_null() {
        // SAFETY: the caller's promise.
        let accesses = unsafe { accesses(depend) };
        if flags & NOWAIT == 0 { tasks::wait_for(&accesses) } else { tasks::spawn_empty(accesses) }
    }
}

exports! {
    "GOMP_4.5", "VERSION":
    fn GOMP_target_ext(
        device: i32, function: RegionFn, count: usize, addresses: *mut *mut u8, bytes: *const usize, kinds: *const u16,
        flags: u32, depend: *const *mut u8, arguments: *const usize,
    ) {
        crate::device::check(device);
        // SAFETY: rule "Interface": there are `count` addresses.
        let addresses = if count == 0 { &[][..] } else { unsafe { slice::from_raw_parts(addresses, count) } };
        // SAFETY: rule "Interface": null, or a list in gcc's layout.
        let call = Call { function, threads: unsafe { thread_limit(arguments) }, addresses, bytes, kinds };
        let (bytes, align) = call.layout();
        let data = Data::new((&raw const call).cast_mut().cast(), Some(lay), bytes as i64, align as i64);
        let is_task = flags & NOWAIT != 0 && here().is_seated;
        // SAFETY: rule "Interface": a clause in gcc's layout, or null. `run` gets what `lay` has written.
        unsafe {
            if is_task {
                let flags = if depend.is_null() { 0 } else { DEPEND };
                return make(run, data, true, flags, depend, 0, ptr::null_mut());
            }
            if !depend.is_null() {
                tasks::wait_for(&accesses(depend));
            }
            data.with_copy(|laid| run(laid));
        }
    }

    "GOMP_4.0", "VERSION":
    /// gcc 4.9 calls this. Its regions have no copies of their own.
    fn GOMP_target(
        device: i32, function: RegionFn, _unused: *const u8, _count: usize, addresses: *mut *mut u8,
        _bytes: *const usize, _kinds: *const u8,
    ) {
        crate::device::check(device);
        // SAFETY: rule "Interface": the region's function, with its addresses.
        teams::on_host(0, || unsafe { function(addresses.cast()) });
    }

    // The host's memory is the region's memory: nothing is copied.
    "GOMP_4.5", "VERSION":
    fn GOMP_target_data_ext(
        device: i32, _count: usize, _addresses: *mut *mut u8, _bytes: *const usize, _kinds: *const u16,
    ) {
        crate::device::check(device);
    }

    "GOMP_4.0", "VERSION":
    fn GOMP_target_data(
        device: i32, _unused: *const u8, _count: usize, _addresses: *mut *mut u8, _bytes: *const usize,
        _kinds: *const u8,
    ) {
        crate::device::check(device);
    }

    "GOMP_4.0", "VERSION":
    fn GOMP_target_end_data() {}

    "GOMP_4.5", "VERSION":
    fn GOMP_target_update_ext(
        device: i32, _count: usize, _addresses: *mut *mut u8, _bytes: *const usize, _kinds: *const u16, flags: u32,
        depend: *const *mut u8,
    ) {
        crate::device::check(device);
        // SAFETY: rule "Interface": a clause in gcc's layout, or null.
        unsafe { follow(flags, depend) };
    }

    "GOMP_4.0", "VERSION":
    fn GOMP_target_update(
        device: i32, _unused: *const u8, _count: usize, _addresses: *mut *mut u8, _bytes: *const usize,
        _kinds: *const u8,
    ) {
        crate::device::check(device);
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_target_enter_exit_data(
        device: i32, _count: usize, _addresses: *mut *mut u8, _bytes: *const usize, _kinds: *const u16, flags: u32,
        depend: *const *mut u8,
    ) {
        crate::device::check(device);
        // SAFETY: rule "Interface": a clause in gcc's layout, or null.
        unsafe { follow(flags, depend) };
    }

    // A program's code for devices; it never runs.
    "GOMP_4.5":
    fn GOMP_offload_register_ver(_version: u32, _table: *const u8, _target: i32, _data: *const u8) {}

    "GOMP_4.5":
    fn GOMP_offload_unregister_ver(_version: u32, _table: *const u8, _target: i32, _data: *const u8) {}

    "GOMP_4.0.1":
    fn GOMP_offload_register(_table: *const u8, _target: i32, _data: *const u8) {}

    "GOMP_4.0.1":
    fn GOMP_offload_unregister(_table: *const u8, _target: i32, _data: *const u8) {}

    // A league within the region: the region's thread is each of its teams, one after the other.
    "GOMP_5.1":
    fn GOMP_teams4(_least: u32, teams: u32, threads: u32, is_first: bool) -> bool {
        let thread = here();
        if is_first {
            let teams = if teams == 0 { crate::api::default_teams() } else { teams };
            thread.league = (0, teams);
            limit_threads(threads);
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
    fn GOMP_teams(_teams: u32, threads: u32) {
        limit_threads(threads);
    }

    "GOMP_5.1.2":
    fn GOMP_target_map_indirect_ptr(function: *mut u8) -> *mut u8 {
        function
    }
}
