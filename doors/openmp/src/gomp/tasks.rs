//! Tasks and waits for them.

use super::loops::outer_reductions;
use crate::exports::exports;
use crate::records::{Code, Record, new_record};
use crate::settings::fail;
use crate::taskloop::{self, Numbers, cut, remembered};
use crate::tasks::{self, Clauses, Event};
use crate::team;
use crate::thread::here;
use std::alloc::{Layout, alloc, dealloc};
use std::mem::MaybeUninit;
use std::ptr;
use vicus::tasks::{Access, Mode};

type RegionFn = unsafe extern "C-unwind" fn(*mut u8);
type CopyFunction = Option<unsafe extern "C-unwind" fn(*mut u8, *mut u8)>;

const FINAL: u32 = 1 << 1;
pub(super) const DEPEND: u32 = 1 << 3;
const PRIORITY: u32 = 1 << 4;
const UP: u32 = 1 << 8;
const GRAINSIZE: u32 = 1 << 9;
const IF: u32 = 1 << 10;
const NOGROUP: u32 = 1 << 11;
const REDUCTION: u32 = 1 << 12;
const DETACH: u32 = 1 << 13;
const STRICT: u32 = 1 << 14;

/// A `depend` clause as gcc passes it. Its addresses are those of the first bytes; there are no lengths.
///
/// # Safety
/// The clause is in gcc's layout.
pub(crate) unsafe fn accesses(depend: *const *mut u8) -> Vec<Access> {
    let mut accesses = here().accesses();
    // SAFETY: the caller's promise.
    unsafe { add_accesses(depend, &mut accesses) };
    accesses
}

/// # Safety
/// The clause is in gcc's layout.
unsafe fn add_accesses(depend: *const *mut u8, accesses: &mut Vec<Access>) {
    // SAFETY: the caller's promise: the first words say how many there are.
    let at = |index: usize| unsafe { *depend.add(index) }.addr();
    let one = |address: usize, mode| {
        if crate::checks::is_on() {
            crate::checks::depends_on(address);
        }
        match address {
            // All memory.
            0 => Access::new(0, usize::MAX, Mode::ReadWrite),
            _ => Access::new(address, 1, mode),
        }
    };
    if at(0) != 0 {
        let (all, out) = (at(0), at(1));
        let access = |index| one(at(2 + index), if index < out { Mode::ReadWrite } else { Mode::Read });
        return accesses.extend((0..all).map(access));
    }
    let (all, out, mutual, read) = (at(1), at(2), at(3), at(4));
    let access = |index: usize| {
        let address = at(5 + index);
        if index < out {
            one(address, Mode::ReadWrite)
        } else if index < out + mutual {
            one(address, Mode::Commutative)
        } else if index < out + mutual + read {
            one(address, Mode::Read)
        } else {
            // A depend object: an address, and its kind of dependence.
            let object = ptr::with_exposed_provenance::<usize>(address);
            // SAFETY: rule "Interface": a depend object of gcc's has two words.
            let (address, kind) = unsafe { (*object, *object.add(1)) };
            let mode = match kind {
                1 => Mode::Read,
                4 => Mode::Commutative,
                5 => Mode::Concurrent,
                _ => Mode::ReadWrite,
            };
            one(address, mode)
        }
    };
    accesses.extend((0..all).map(access));
}

/// A task's data, before the task is made.
#[derive(Clone, Copy)]
pub(super) struct Data {
    at: *mut u8,
    copy: CopyFunction,
    bytes: usize,
    align: usize,
}

impl Data {
    pub(super) fn new(at: *mut u8, copy: CopyFunction, bytes: i64, align: i64) -> Data {
        Data { at, copy, bytes: bytes.max(0) as usize, align: (align.max(1) as usize).next_power_of_two() }
    }

    /// Copies them.
    ///
    /// # Safety
    /// `to` has their size and alignment.
    unsafe fn copy_to(&self, to: *mut u8) {
        // SAFETY: the caller's promise: `to` has the size and the alignment of the data. Rule "Interface": the
        // program's function makes a copy of them.
        unsafe {
            match self.copy {
                Some(copy) => copy(to, self.at),
                None => ptr::copy_nonoverlapping(self.at, to, self.bytes),
            }
        }
    }

    /// Calls `f` with a copy of the data, valid for the call.
    ///
    /// # Safety
    /// Rule "Interface": the data are there, and the program's function copies them.
    pub(super) unsafe fn with_copy(&self, f: impl FnOnce(*mut u8)) {
        const SMALL: usize = 256;
        if self.bytes <= SMALL && self.align <= 64 {
            #[repr(align(64))]
            struct Small([MaybeUninit<u8>; SMALL]);
            let mut small = Small([MaybeUninit::uninit(); SMALL]);
            let to = small.0.as_mut_ptr().cast();
            // SAFETY: the array has as many bytes as the data, and their alignment.
            unsafe { self.copy_to(to) };
            return f(to);
        }
        let layout = Layout::from_size_align(self.bytes.max(1), self.align).expect("a task's data have a size");
        // SAFETY: the layout has at least one byte, and the memory is freed by the same one.
        unsafe {
            let to = alloc(layout);
            if to.is_null() {
                fail(&format!("{} bytes for a task's data can't be had", self.bytes));
            }
            self.copy_to(to);
            f(to);
            dealloc(to, layout);
        }
    }
}

/// A task's record with its data.
///
/// # Safety
/// The rule of [`Data::with_copy`].
#[inline]
unsafe fn record(thread: &mut crate::thread::Thread, function: RegionFn, data: Data) -> *mut Record {
    let beyond = data.align.saturating_sub(64);
    let record = new_record(thread, data.bytes + beyond);
    // SAFETY: rule "Record": the record is new, with room behind it for the data and for the next address of their
    // alignment.
    unsafe {
        let behind = record.add(1).cast::<u8>();
        let to = if beyond == 0 { behind } else { behind.map_addr(|address| address.next_multiple_of(data.align)) };
        (*record).code = Code::Call { function, data: to };
        data.copy_to(to);
    }
    record
}

exports! {
    "GOMP_2.0", "VERSION":
    fn GOMP_task(
        function: RegionFn, data: *mut u8, copy: CopyFunction, bytes: i64, align: i64, if_clause: bool, flags: u32,
        depend: *const *mut u8, priority: i32, detach: *mut *mut u8,
    ) {
        let thread = here();
        if tasks::is_called(thread) && copy.is_none() && flags & (DEPEND | PRIORITY | DETACH) == 0 {
            // SAFETY: the calling thread. Rule "Interface": gcc's function of a task, with its data.
            return unsafe { tasks::call(thread, function, data, flags & FINAL != 0) };
        }
        let data = Data::new(data, copy, bytes, align);
        // SAFETY: rule "Interface": gcc's arguments of a task.
        unsafe { make(function, data, if_clause, flags, depend, priority, detach) };
    }

    "GOMP_2.0", "VERSION":
    fn GOMP_taskwait() {
        tasks::wait();
    }

    "GOMP_5.0", "VERSION":
    fn GOMP_taskwait_depend(depend: *const *mut u8) {
        // SAFETY: rule "Interface": a clause in gcc's layout.
        tasks::wait_for(&unsafe { accesses(depend) });
    }

    "GOMP_5.1.1":
    fn GOMP_taskwait_depend_nowait(depend: *const *mut u8) {
        // SAFETY: rule "Interface": a clause in gcc's layout.
        tasks::spawn_empty(unsafe { accesses(depend) });
    }

    "GOMP_3.0", "VERSION":
    fn GOMP_taskyield() {
        tasks::give_way();
    }

    "GOMP_4.0", "VERSION":
    fn GOMP_taskgroup_start() {
        tasks::begin_group();
    }

    "GOMP_4.0", "VERSION":
    fn GOMP_taskgroup_end() {
        tasks::end_group();
    }

    "GOMP_5.0", "VERSION":
    fn GOMP_taskgroup_reduction_register(reductions: *mut usize) {
        register(reductions);
    }

    "GOMP_5.0", "VERSION":
    fn GOMP_taskgroup_reduction_unregister(reductions: *mut usize) {
        // SAFETY: rule "Interface": a chain that the program has registered before, and its tasks are over.
        unsafe { crate::reductions::unregister(reductions) };
    }

    "GOMP_5.0", "VERSION":
    fn GOMP_task_reduction_remap(count: usize, originals: usize, pointers: *mut usize) {
        // SAFETY: rule "Interface": there are `count` pointers, and room for the originals behind them.
        unsafe { crate::reductions::remap(count, originals, pointers) };
    }

    "GOMP_5.0", "VERSION":
    fn GOMP_workshare_task_reduction_unregister(is_cancelled: bool) {
        let thread = here();
        let group = thread.task().group;
        // SAFETY: rule "Group": null, or a group that is still open around the running task.
        let reductions = unsafe { group.as_ref() }.map_or(ptr::null_mut(), |group| group.reductions.get());
        tasks::end_group();
        if !is_cancelled {
            team::barrier();
        }
        if here().number == 0 && !reductions.is_null() {
            // SAFETY: rule "Interface": a chain that the program has registered before, and its tasks are over.
            unsafe { crate::reductions::unregister(reductions) };
        }
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_taskloop(
        function: RegionFn, data: *mut u8, copy: CopyFunction, bytes: i64, align: i64, flags: u32, tasks: u64,
        priority: i32, first: i64, end: i64, step: i64,
    ) {
        let data = Data::new(data, copy, bytes, align);
        let start = crate::work::LoopStart::signed(crate::settings::Kind::Static, first, end, step, 0);
        // SAFETY: rule "Interface": gcc's arguments of a taskloop, whose data begin with the two bounds.
        unsafe { cut_loop(function, data, flags, tasks, priority, start) };
    }

    "GOMP_4.5", "VERSION":
    fn GOMP_taskloop_ull(
        function: RegionFn, data: *mut u8, copy: CopyFunction, bytes: i64, align: i64, flags: u32, tasks: u64,
        priority: i32, first: u64, end: u64, step: u64,
    ) {
        let data = Data::new(data, copy, bytes, align);
        let is_up = flags & UP != 0;
        let start = crate::work::LoopStart::unsigned(crate::settings::Kind::Static, is_up, first, end, step, 0);
        // SAFETY: rule "Interface": gcc's arguments of a taskloop, whose data begin with the two bounds.
        unsafe { cut_loop(function, data, flags, tasks, priority, start) };
    }
}

fn register(reductions: *mut usize) {
    let thread = here();
    let threads = thread.team().size as usize;
    let group = thread.task().group;
    // SAFETY: rule "Group": null, or a group that is still open around the running task.
    if let Some(group) = unsafe { group.as_ref() } {
        let outer = outer_reductions(ptr::from_ref(group).cast_mut());
        // SAFETY: rule "Interface": a chain of gcc's descriptions.
        unsafe { crate::reductions::register(reductions, outer, ptr::null_mut(), threads) };
        group.reductions.set(reductions);
    }
}

/// Makes a task.
///
/// # Safety
/// Rule "Interface": the arguments are gcc's, of a task.
pub(super) unsafe fn make(
    function: RegionFn,
    data: Data,
    if_clause: bool,
    flags: u32,
    depend: *const *mut u8,
    priority: i32,
    detach: *mut *mut u8,
) {
    let thread = here();
    if crate::settings::get().cancels && tasks::is_dropped(thread) {
        return;
    }
    let is_final = flags & FINAL != 0;
    // SAFETY: rule "Interface": the caller's promise; rule "Record": the record is new, and is handed over to the
    // queue.
    unsafe {
        if flags & (DEPEND | PRIORITY | DETACH) == 0 {
            if if_clause && !tasks::runs_at_once(thread) {
                let record = record(thread, function, data);
                (*record).task.is_final |= is_final;
                return tasks::queue(record);
            }
            let is_final = is_final || thread.task().is_final;
            if data.copy.is_none() {
                return tasks::call_at_once(function, data.at, is_final);
            }
            return data.with_copy(|data| tasks::call_at_once(function, data, is_final));
        }
        said(function, data, if_clause, flags, depend, priority, detach);
    }
}

/// Makes a task with clauses.
///
/// # Safety
/// The rule of [`make`].
#[cold]
unsafe fn said(
    function: RegionFn,
    data: Data,
    if_clause: bool,
    flags: u32,
    depend: *const *mut u8,
    priority: i32,
    detach: *mut *mut u8,
) {
    // SAFETY: rule "Interface": the caller's promise: a clause if there is a flag for it, and a place for the event.
    // Rule "Record": the record is new until it is spawned.
    unsafe {
        let needs_accesses = flags & DEPEND != 0 && (flags & DETACH != 0 || !tasks::runs_all_as_calls(here()));
        let accesses = if needs_accesses { accesses(depend) } else { Vec::new() };
        let mut event = ptr::null();
        if flags & DETACH != 0 {
            event = Event::new();
            *detach = event.cast_mut().cast();
            if !data.at.is_null() {
                *data.at.cast::<*mut u8>() = event.cast_mut().cast();
            }
        }
        let priority = if flags & PRIORITY != 0 { priority } else { 0 };
        let mut sections = Vec::new();
        if !accesses.is_empty() && crate::sections::matter(here()) {
            let known;
            (sections, known) = crate::sections::of(function as usize, &accesses);
            crate::intense::mark(function as usize, &mut sections);
            if crate::report::is_on() {
                crate::report::note_bare(function as usize, sections.len() as u64, known as u64);
            }
        }
        let record = record(here(), function, data);
        (*record).task.is_final |= flags & FINAL != 0;
        (*record).event = event;
        let said = Clauses { is_undeferred: !if_clause, priority, accesses, affinity: sections, place: None };
        tasks::spawn(record, said);
    }
}

/// Makes the tasks of a taskloop.
///
/// # Safety
/// Rule "Interface": the arguments are gcc's, of a taskloop.
unsafe fn cut_loop(
    function: RegionFn,
    data: Data,
    flags: u32,
    wanted: u64,
    priority: i32,
    start: crate::work::LoopStart,
) {
    let is_dropped = crate::settings::get().cancels && tasks::is_dropped(here());
    let count = if is_dropped { 0 } else { start.count };
    let has_group = flags & NOGROUP == 0;
    // The program's code behind the loop uses the reductions even without an iteration.
    if count == 0 && flags & REDUCTION == 0 {
        return;
    }
    if has_group {
        tasks::begin_group();
        if flags & REDUCTION != 0 {
            // Behind the bounds.
            // SAFETY: rule "Interface": the data are two bounds and the address of a chain of descriptions.
            register(unsafe { *data.at.cast::<*mut usize>().add(2) });
        }
    }
    if count == 0 {
        if has_group {
            tasks::end_group();
        }
        return;
    }
    let threads = u64::from(here().team().size);
    let cuts = cut(count, wanted, flags & GRAINSIZE != 0, flags & STRICT != 0, threads);
    let places = remembered(function as usize, &[start.first, start.step, count], cuts.tasks);
    let is_final = flags & FINAL != 0;
    let has_own_place = places.is_some() || (flags & PRIORITY != 0 && priority > 0);
    // Without a group, the data may end before the tasks are over.
    if has_group && flags & IF != 0 && !has_own_place {
        // SAFETY: rule "Interface": the copy begins with the two bounds.
        let set = |copy: *mut u8, task: u64| unsafe {
            let (low, high) = cuts.part(count, task);
            let bounds = copy.cast::<u64>();
            (*bounds, *bounds.add(1)) = (start.value(low), start.bound(high));
        };
        // SAFETY: the calling thread. Rule "Interface": gcc's function of a task, with a copy of its data.
        let call = |copy: *mut u8| unsafe {
            let thread = here();
            if tasks::is_called(thread) {
                return tasks::call(thread, function, copy, is_final);
            }
            let is_final = is_final || thread.task().is_final;
            tasks::call_at_once(function, copy, is_final);
        };
        // SAFETY: `with_copy` gives each call a copy of the data, whose original is there until the group has ended.
        let run = |numbers: &mut Numbers| unsafe {
            if data.copy.is_none() {
                // Data without a copy function are only read, but for the bounds.
                data.with_copy(|copy| {
                    for task in numbers {
                        set(copy, task);
                        call(copy);
                    }
                });
            } else {
                for task in numbers {
                    data.with_copy(|copy| {
                        set(copy, task);
                        call(copy);
                    });
                }
            }
        };
        // SAFETY: the closures borrow from this function, which returns after `end_group`. The program's data and
        // functions are for all threads.
        unsafe { taskloop::run(cuts.tasks, run) };
        return tasks::end_group();
    }
    for task in 0..cuts.tasks {
        let (low, high) = cuts.part(count, task);
        let (low, high) = (start.value(low), start.bound(high));
        // SAFETY: rule "Record": the record is new until it is spawned; its data begin with the two bounds.
        unsafe {
            let record = record(here(), function, data);
            if let Code::Call { data, .. } = (*record).code {
                let bounds = data.cast::<u64>();
                *bounds = low;
                *bounds.add(1) = high;
            }
            (*record).task.is_final |= is_final;
            let is_undeferred = flags & IF == 0;
            let place = places.map(|places| &places[task as usize]);
            let thread = here();
            if is_undeferred || priority > 0 || place.is_some() || tasks::runs_at_once(thread) {
                let priority = if flags & PRIORITY != 0 { priority } else { 0 };
                tasks::spawn(record, Clauses { is_undeferred, priority, place, ..Clauses::default() });
            } else {
                tasks::queue(record);
            }
        }
    }
    if has_group {
        tasks::end_group();
    }
}
