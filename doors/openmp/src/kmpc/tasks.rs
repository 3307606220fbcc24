//! Tasks.
//!
//! An untied task of clang comes back in parts: at each place of a possible change of thread it queues itself again and
//! returns. Its parts are run one after the other, by the thread that began it.

use super::{Entry, KmpTask, Location};
use crate::exports::exports;
use crate::records::{Code, Record, new_record};
use crate::reductions::{Input, Reductions};
use crate::report;
use crate::taskloop::{self, Numbers, cut, remembered};
use crate::tasks::{self, Clauses, Event};
use crate::thread::{Group, here};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use vicus::kit::team::{begin_child, end_child};
use vicus::tasks::{Access, Mode};

const FINAL: u32 = 2;
const DESTRUCTORS: u32 = 8;
/// The task is over when its program says so, on any thread.
const PROXY: u32 = 0x10;
const PRIORITY: u32 = 0x20;
const DETACHABLE: u32 = 0x40;
/// For a proxy: its entry was called; the program has said the task is over. The second of the two frees it.
const HAS_RUN: u32 = 1 << 28;
const IS_OVER: u32 = 1 << 29;
/// The task has queued its next part.
const AGAIN: u32 = 1 << 31;

/// A `depend` clause's address, with how many bytes it has there.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Depend {
    address: usize,
    bytes: usize,
    flags: u8,
}

/// Data named by an `affinity` clause.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Affinity {
    address: usize,
    bytes: usize,
    flags: u32,
}

/// The library's record of a task.
fn record_of(task: *mut KmpTask) -> *mut Record {
    task.cast::<Record>().wrapping_sub(1)
}

/// clang's record behind the library's one.
fn task_of(record: *mut Record) -> *mut KmpTask {
    record.wrapping_add(1).cast()
}

/// The data of a task's `affinity` clause.
///
/// # Safety
/// Rule "Record": the record is not spawned.
unsafe fn take_affinity(record: *mut Record) -> Vec<Access> {
    // SAFETY: the caller's promise.
    unsafe { (*record).affinity.take() }.map_or_else(Vec::new, |affinity| affinity.0)
}

/// Runs all parts of a task.
///
/// # Safety
/// It is run once.
#[inline]
pub(crate) unsafe fn run(record: *mut Record) {
    // SAFETY: rule "Record": the caller runs it, once. clang's record is behind it. Rule "Interface": the program's
    // function gets it.
    unsafe {
        let task = task_of(record);
        let id = here().id as i32;
        if let Some(entry) = (*task).entry {
            loop {
                entry(id, task);
                if (*record).flags & AGAIN == 0 {
                    break;
                }
                (*record).flags &= !AGAIN;
            }
        }
        if (*record).flags & DESTRUCTORS != 0 {
            destroy(id, task);
        }
    }
}

/// # Safety
/// The task's data are not used any more.
unsafe fn destroy(id: i32, task: *mut KmpTask) {
    // SAFETY: rule "Interface": the program's function for the data of this task.
    unsafe {
        if let Some(destructors) = (*task).destructors {
            destructors(id, task);
        }
    }
}

/// Ends a task's data.
///
/// # Safety
/// It is not used any more.
pub(crate) unsafe fn drop_data(record: *mut Record) {
    // SAFETY: rule "Record": the caller has the record alone, and clang's record is behind it.
    unsafe {
        if (*record).flags & DESTRUCTORS != 0 {
            destroy(here().id as i32, task_of(record));
        }
    }
}

/// A new task, with room for its data and for pointers to shared variables.
///
/// # Safety
/// Rule "Interface": the arguments are clang's, of a task.
unsafe fn new_task(flags: u32, bytes: usize, shared_bytes: usize, entry: Option<Entry>) -> *mut KmpTask {
    let thread = here();
    let behind = bytes.max(size_of::<KmpTask>()).next_multiple_of(16);
    let record = new_record(thread, behind + shared_bytes);
    // SAFETY: rule "Record": the memory is new, and has `behind + shared_bytes` behind the record.
    unsafe {
        let task = record.add(1).cast::<KmpTask>();
        (*record).flags = flags & 0xffff;
        (*record).code = Code::Behind { bytes: behind as u32, shared_bytes: shared_bytes as u32 };
        (*record).task.is_final |= flags & FINAL != 0;
        (*task).shareds = if shared_bytes == 0 { ptr::null_mut() } else { task.cast::<u8>().add(behind) };
        (*task).entry = entry;
        (*task).part = 0;
        task
    }
}

/// Dependences go by the first byte alone. The number of bytes serves strategies that place tasks by it, and is left
/// out without one.
///
/// # Safety
/// There are `count` and `more` clauses.
unsafe fn accesses(count: i32, depends: *const Depend, more: i32, others: *const Depend) -> (Vec<Access>, Vec<Access>) {
    // SAFETY: the caller's promise.
    let one = |at: *const Depend, index: usize| unsafe { *at.add(index) };
    let all = (0..count.max(0) as usize).map(|index| one(depends, index));
    let all = all.chain((0..more.max(0) as usize).map(|index| one(others, index)));
    let mut ordered = here().accesses();
    let (mut touched, is_placed) = (Vec::new(), crate::sections::matter(here()));
    for Depend { address, bytes, flags } in all {
        let mode = match flags & 0xf {
            1 => Mode::Read,
            4 => Mode::Commutative,
            8 => Mode::Concurrent,
            _ => Mode::ReadWrite,
        };
        if crate::checks::is_on() {
            crate::checks::depends_on(address);
        }
        if flags & 0x80 != 0 || address == 0 {
            ordered.push(Access::new(0, usize::MAX, Mode::ReadWrite));
            continue;
        }
        ordered.push(Access::new(address, 1, mode));
        if bytes > 1 && is_placed {
            touched.push(Access::new(address, bytes, mode));
        }
    }
    (ordered, touched)
}

/// Spawns a task, or queues the next part of the running one.
#[inline]
fn spawn(task: *mut KmpTask) -> i32 {
    let record = record_of(task);
    let thread = here();
    // SAFETY: rule "Interface": the program's pointer is one of `new_task`, given for its first part or from within a
    // part of it. Rule "Record": else the record is handed over.
    unsafe {
        if ptr::eq(thread.task, &raw const (*record).task) {
            (*record).flags |= AGAIN;
            return 0;
        }
        if crate::settings::get().cancels && tasks::is_dropped(thread) {
            tasks::drop_unspawned(record);
            return 0;
        }
        if (*record).flags & PROXY != 0 {
            spawn_proxy(record, Vec::new());
            return 0;
        }
        if (*record).flags & (PRIORITY | DETACHABLE) == 0 && (*record).affinity.is_none() {
            if tasks::runs_at_once(thread) {
                tasks::run_at_once(record);
            } else {
                tasks::queue(record);
            }
            return 0;
        }
        let affinity = take_affinity(record);
        tasks::spawn(record, Clauses { priority: priority(record), affinity, ..Clauses::default() });
    }
    0
}

/// Spawns a task that calls the entry of a proxy. The proxy's record stays until the proxy is over.
///
/// # Safety
/// Rule "Record": the record is not spawned, and is handed over.
#[cold]
unsafe fn spawn_proxy(record: *mut Record, accesses: Vec<Access>) {
    // SAFETY: rule "Record": both records are unspawned, and the caller's one is handed over. The proxy's own stays
    // until `leave_proxy` ends it.
    unsafe {
        (*record).event = Event::new();
        let caller = new_record(here(), 0);
        (*caller).code = Code::Call { function: run_proxy, data: record.cast() };
        (*caller).event = (*record).event;
        tasks::spawn(caller, Clauses { priority: priority(record), accesses, ..Clauses::default() });
    }
}

/// # Safety
/// The record is a proxy's, as [`spawn_proxy`] passes it.
unsafe extern "C-unwind" fn run_proxy(record: *mut u8) {
    let record = record.cast::<Record>();
    // SAFETY: rule "Record": the data are the proxy's record, as `spawn_proxy` has set them. Rule "Interface": the
    // program's function gets its task.
    unsafe {
        let task = task_of(record);
        if let Some(entry) = (*task).entry {
            entry(here().id as i32, task);
        }
        leave_proxy(record, HAS_RUN);
    }
}

/// # Safety
/// The caller has not left it yet.
unsafe fn leave_proxy(record: *mut Record, how: u32) {
    // SAFETY: rule "Record": the record stays until both have left, and the second one frees it. The word is used as an
    // atomic number by both.
    unsafe {
        let flags = AtomicU32::from_ptr(&raw mut (*record).flags);
        // Acquire and release: the freeing side sees all writes of the other one.
        if flags.fetch_or(how, Ordering::AcqRel) & (HAS_RUN | IS_OVER) != 0 {
            (*record).event = ptr::null();
            tasks::drop_record(record);
        }
    }
}

/// A proxy is over.
///
/// # Safety
/// The program says so once.
unsafe fn complete_proxy(task: *mut KmpTask) {
    let record = record_of(task);
    // SAFETY: rule "Interface": the program says it once, of a proxy. Rule "Event": this call fulfils it, so it is
    // there until `fulfil`.
    unsafe {
        let event = (*record).event;
        leave_proxy(record, IS_OVER);
        tasks::fulfil(event);
    }
}

/// An undeferred task waits for these before it begins: the compiler says so by a call of its own, which names no task.
fn keep_for_detached(accesses: Vec<Access>) {
    let detached = &mut here().tasking.detached;
    if !detached.0.is_null() {
        detached.1 = accesses;
    }
}

/// # Safety
/// Rule "Record": the record is not spawned.
unsafe fn priority(record: *mut Record) -> i32 {
    // SAFETY: rule "Record": the caller has the record alone, and clang's record is behind it.
    unsafe { if (*record).flags & PRIORITY != 0 { (*task_of(record)).priority as i32 } else { 0 } }
}

/// The reductions of a group or of those around it, for a variable.
fn copy(mut group: *mut Group, variable: *mut u8) -> *mut u8 {
    let number = here().number;
    // SAFETY: rule "Group": null, or a group that is still open around the running task.
    while let Some(one) = unsafe { group.as_ref() } {
        let reductions = one.kmp.get();
        // SAFETY: null, or the reductions that the group owns until it ends.
        if let Some(reductions) = unsafe { reductions.as_ref() }
            && let Some(copy) = reductions.copy(number, variable)
        {
            return copy;
        }
        group = one.outer;
    }
    crate::settings::fail(&format!("no reduction is known for the variable at {variable:p}"))
}

/// The old compilers' record of a variable.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct OldInput {
    shared: *mut u8,
    bytes: usize,
    init: Option<unsafe extern "C-unwind" fn(*mut u8, *mut u8)>,
    fini: Option<unsafe extern "C-unwind" fn(*mut u8)>,
    combine: Option<unsafe extern "C-unwind" fn(*mut u8, *mut u8)>,
    flags: u32,
}

/// # Safety
/// There are `count` of them.
unsafe fn old_inputs(count: i32, inputs: *const OldInput) -> Vec<Input> {
    let one = |index: usize| {
        // SAFETY: the caller's promise.
        let OldInput { shared, bytes, init, fini, combine, flags } = unsafe { *inputs.add(index) };
        Input { shared, original: shared, bytes, init, fini, combine, flags }
    };
    (0..count.max(0) as usize).map(one).collect()
}

/// # Safety
/// There are `count` of them.
unsafe fn inputs(count: i32, inputs: *const Input) -> Vec<Input> {
    // SAFETY: the caller's promise.
    (0..count.max(0) as usize).map(|index| unsafe { *inputs.add(index) }).collect()
}

/// Reductions of the innermost group.
fn reduce(inputs: &[Input]) -> *mut Group {
    let thread = here();
    let group = thread.task().group;
    // SAFETY: rule "Group": null, or a group that is still open around the running task.
    if let Some(group) = unsafe { group.as_ref() } {
        group.kmp.set(Box::into_raw(Reductions::new(inputs, thread.team().size, true)));
    }
    group
}

/// Opens a group on each thread of a team, all with the same reductions.
fn reduce_together(is_loop: i32, inputs: &[Input]) -> *mut Group {
    let group = tasks::begin_group();
    let thread = here();
    let team = thread.team();
    let place = &team.shared_reductions[usize::from(is_loop != 0)];
    let mut found = place.load(Ordering::Acquire);
    if found.is_null() {
        let mut new = Reductions::new(inputs, team.size, true);
        new.share(team.size, place);
        let new = Box::into_raw(new);
        found = match place.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: this thread made it, and the other thread's one was there before: no other has seen it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
    }
    // SAFETY: the thread is one of the team's users of it, and has not left. Rule "Group": it has just opened the
    // group.
    unsafe {
        (*found).add_own(thread.number, inputs);
        (*group).kmp.set(found);
    }
    group
}

exports! {
    "VERSION":
    fn __kmpc_omp_task_alloc(
        location: Location, _thread: i32, flags: i32, bytes: usize, shared_bytes: usize, entry: Option<Entry>,
    ) -> *mut KmpTask {
        if crate::report::is_on()
            && let Some(entry) = entry
        {
            super::note_source(entry as usize, location);
        }
        // SAFETY: rule "Interface": clang's numbers of bytes and the task's function.
        unsafe { new_task(flags as u32, bytes, shared_bytes, entry) }
    }

    "VERSION":
    fn __kmpc_omp_target_task_alloc(
        _location: Location, _thread: i32, flags: i32, bytes: usize, shared_bytes: usize, entry: Option<Entry>,
        _device: i64,
    ) -> *mut KmpTask {
        // SAFETY: rule "Interface": clang's numbers of bytes and the task's function.
        unsafe { new_task(flags as u32, bytes, shared_bytes, entry) }
    }

    "VERSION":
    fn __kmpc_omp_task(_location: Location, _thread: i32, task: *mut KmpTask) -> i32 {
        spawn(task)
    }

    "VERSION":
    fn __kmpc_omp_task_parts(_location: Location, _thread: i32, task: *mut KmpTask) -> i32 {
        spawn(task)
    }

    "VERSION":
    fn __kmpc_omp_task_with_deps(
        _location: Location, _thread: i32, task: *mut KmpTask, count: i32, depends: *const Depend, more: i32,
        others: *const Depend,
    ) -> i32 {
        let record = record_of(task);
        // SAFETY: rule "Interface": the program's pointer is one of `new_task`; rule "Record": the record is handed
        // over. There are `count` and `more` clauses.
        unsafe {
            if crate::settings::get().cancels && tasks::is_dropped(here()) {
                tasks::drop_unspawned(record);
                return 0;
            }
            if (*record).flags & PROXY != 0 {
                spawn_proxy(record, accesses(count, depends, more, others).0);
                return 0;
            }
            if tasks::runs_all_as_calls(here()) && (*record).flags & DETACHABLE == 0 {
                tasks::run_at_once(record);
                return 0;
            }
            let (accesses, mut touched) = accesses(count, depends, more, others);
            let mut affinity = take_affinity(record);
            if !touched.is_empty() {
                crate::intense::mark(report::function_of(record), &mut touched);
                affinity.extend(touched);
            }
            tasks::spawn(record, Clauses { priority: priority(record), accesses, affinity, ..Clauses::default() });
        }
        0
    }

    "VERSION":
    fn __kmpc_omp_wait_deps(
        _location: Location, _thread: i32, count: i32, depends: *const Depend, more: i32, others: *const Depend,
    ) {
        // SAFETY: rule "Interface": there are `count` and `more` clauses.
        let (accesses, _) = unsafe { accesses(count, depends, more, others) };
        tasks::wait_for(&accesses);
        keep_for_detached(accesses);
    }

    "VERSION":
    fn __kmpc_omp_taskwait_deps_51(
        _location: Location, _thread: i32, count: i32, depends: *const Depend, more: i32, others: *const Depend,
        is_nowait: i32,
    ) {
        // SAFETY: rule "Interface": there are `count` and `more` clauses.
        let (accesses, _) = unsafe { accesses(count, depends, more, others) };
        if is_nowait != 0 {
            return tasks::spawn_empty(accesses);
        }
        tasks::wait_for(&accesses);
        keep_for_detached(accesses);
    }

    "VERSION":
    fn __kmpc_omp_task_begin_if0(_location: Location, _thread: i32, task: *mut KmpTask) {
        let thread = here();
        tasks::tell(thread);
        let included = if thread.is_seated && !thread.task().is_final { begin_child() } else { None };
        if included.is_some() && report::is_traced() {
            // SAFETY: rule "Record": the task is not over before `__kmpc_omp_task_complete_if0`.
            report::name(unsafe { report::function_of(record_of(task)) });
        }
        let outer = thread.task;
        // SAFETY: rule "Interface": the program's pointer is one of `new_task`, and the task is over when it is given
        // to `__kmpc_omp_task_complete_if0`.
        thread.task = unsafe { &raw mut (*record_of(task)).task };
        thread.tasking.included.push((included, outer));
    }

    "VERSION":
    fn __kmpc_omp_task_complete_if0(_location: Location, _thread: i32, task: *mut KmpTask) {
        let record = record_of(task);
        // SAFETY: rule "Interface": the program's pointer is one of `new_task`, and its first part has run here. Rule
        // "Record": the record is handed over to `complete`.
        unsafe {
            // The compiler has run the first part of it.
            while (*record).flags & AGAIN != 0 {
                (*record).flags &= !AGAIN;
                if let Some(entry) = (*task).entry {
                    entry(here().id as i32, task);
                }
            }
            let thread = here();
            if let Some((included, outer)) = thread.tasking.included.pop() {
                thread.task = outer;
                if let Some(included) = included {
                    end_child(included);
                }
            }
            let detached = &mut here().tasking.detached;
            let is_detached = ptr::eq(detached.0, task);
            let held = is_detached.then(|| std::mem::replace(detached, (ptr::null_mut(), Vec::new())).1);
            let accesses = held.unwrap_or_default();
            tasks::complete(record, accesses);
        }
    }

    "VERSION":
    fn __kmpc_omp_taskwait(_location: Location, _thread: i32) -> i32 {
        tasks::wait();
        0
    }

    "VERSION":
    fn __kmpc_omp_taskyield(_location: Location, _thread: i32, _end: i32) -> i32 {
        tasks::give_way();
        0
    }

    "VERSION":
    fn __kmpc_omp_has_task_team(_thread: i32) -> bool {
        here().is_seated
    }

    "VERSION":
    /// Where a task that waits for a device would leave what it waits for, to be begun again later: nowhere, so its
    /// thread waits there itself.
    fn __kmpc_omp_get_target_async_handle_ptr(_thread: i32) -> *mut *mut u8 {
        ptr::null_mut()
    }

    // As released builds of libomp, whose tasks have no numbers of their own.
    "VERSION":
    fn __kmpc_get_taskid() -> i32 {
        -1
    }

    "VERSION":
    /// 0: there is none.
    fn __kmpc_get_parent_taskid() -> i32 {
        let thread = here();
        if ptr::eq(thread.task, &raw const thread.initial_task) { 0 } else { -1 }
    }

    // A task's order among others is not in records that LLVM's runtime for devices could read: for it, a task follows
    // none and none follows it.
    "VERSION":
    fn __kmpc_task_get_depnode(_task: *mut KmpTask) -> *mut u8 {
        ptr::null_mut()
    }

    "VERSION":
    fn __kmpc_task_get_successors(_task: *mut KmpTask) -> *mut u8 {
        ptr::null_mut()
    }

    "VERSION":
    fn __kmpc_omp_reg_task_with_affinity(
        _location: Location, _thread: i32, task: *mut KmpTask, count: i32, affinity: *const Affinity,
    ) -> i32 {
        // SAFETY: rule "Interface": the program's pointer is one of `new_task`, not yet spawned; there are `count`
        // data.
        unsafe {
            let all = (0..count.max(0) as usize).map(|index| *affinity.add(index));
            let all = all.map(|one| Access::new(one.address, one.bytes.max(1), Mode::ReadWrite));
            let own = &mut (*record_of(task)).affinity.get_or_insert_default().0;
            let is_first = own.is_empty();
            own.extend(all);
            // The clause's order is the program's: its first item decides, for strategies that go by one datum.
            if let Some(first) = own.first_mut().filter(|_| is_first) {
                first.intense = true;
            }
        }
        0
    }

    "VERSION":
    fn __kmpc_task_allow_completion_event(_location: Location, _thread: i32, task: *mut KmpTask) -> *mut u8 {
        let record = record_of(task);
        // SAFETY: rule "Interface": the program's pointer is one of `new_task`, not yet spawned.
        unsafe {
            if (*record).event.is_null() {
                (*record).event = Event::new();
                here().tasking.detached = (task, Vec::new());
            }
            (*record).event.cast_mut().cast()
        }
    }

    "VERSION":
    fn __kmpc_proxy_task_completed(_thread: i32, task: *mut KmpTask) {
        // SAFETY: rule "Interface": the program's pointer is a proxy of `new_task`, and it says so once.
        unsafe { complete_proxy(task) };
    }

    "VERSION":
    fn __kmpc_proxy_task_completed_ooo(task: *mut KmpTask) {
        // SAFETY: rule "Interface": the program's pointer is a proxy of `new_task`, and it says so once.
        unsafe { complete_proxy(task) };
    }

    "VERSION":
    fn __kmpc_taskgroup(_location: Location, _thread: i32) {
        tasks::begin_group();
    }

    "VERSION":
    fn __kmpc_end_taskgroup(_location: Location, _thread: i32) {
        tasks::end_group();
    }

    "VERSION":
    fn __kmpc_task_reduction_init(_thread: i32, count: i32, given: *const OldInput) -> *mut Group {
        // SAFETY: rule "Interface": there are `count` descriptions.
        reduce(&unsafe { old_inputs(count, given) })
    }

    "VERSION":
    fn __kmpc_taskred_init(_thread: i32, count: i32, given: *const Input) -> *mut Group {
        // SAFETY: rule "Interface": there are `count` descriptions.
        reduce(&unsafe { inputs(count, given) })
    }

    "VERSION":
    fn __kmpc_task_reduction_modifier_init(
        _location: Location, _thread: i32, is_loop: i32, count: i32, given: *const OldInput,
    ) -> *mut Group {
        // SAFETY: rule "Interface": there are `count` descriptions.
        reduce_together(is_loop, &unsafe { old_inputs(count, given) })
    }

    "VERSION":
    fn __kmpc_taskred_modifier_init(
        _location: Location, _thread: i32, is_loop: i32, count: i32, given: *const Input,
    ) -> *mut Group {
        // SAFETY: rule "Interface": there are `count` descriptions.
        reduce_together(is_loop, &unsafe { inputs(count, given) })
    }

    "VERSION":
    fn __kmpc_task_reduction_modifier_fini(_location: Location, _thread: i32, _is_loop: i32) {
        tasks::end_group();
    }

    "VERSION":
    fn __kmpc_task_reduction_get_th_data(_thread: i32, group: *mut Group, variable: *mut u8) -> *mut u8 {
        copy(if group.is_null() { here().task().group } else { group }, variable)
    }

    "VERSION":
    fn __kmpc_taskloop(
        _location: Location, _thread: i32, task: *mut KmpTask, if_clause: i32, lower: *mut u64, upper: *mut u64,
        step: i64, nogroup: i32, sched: i32, wanted: u64, duplicate: *const (),
    ) {
        let bounds = Bounds { lower, upper, step };
        let cutting = Cutting { sched, wanted, is_strict: false };
        // SAFETY: rule "Interface": the task has its bounds in its data, and its function for copies has this type.
        unsafe { cut_loop(task, if_clause != 0, bounds, nogroup != 0, cutting, duplicate) };
    }

    "VERSION":
    fn __kmpc_taskloop_5(
        _location: Location, _thread: i32, task: *mut KmpTask, if_clause: i32, lower: *mut u64, upper: *mut u64,
        step: i64, nogroup: i32, sched: i32, wanted: u64, modifier: i32, duplicate: *const (),
    ) {
        let bounds = Bounds { lower, upper, step };
        let cutting = Cutting { sched, wanted, is_strict: modifier != 0 };
        // SAFETY: rule "Interface": the task has its bounds in its data, and its function for copies has this type.
        unsafe { cut_loop(task, if_clause != 0, bounds, nogroup != 0, cutting, duplicate) };
    }
}

/// The clauses by which a taskloop is cut: `sched` is 1 for a grainsize, 2 for a number of tasks and 0 for neither, and
/// `wanted` is that number.
struct Cutting {
    sched: i32,
    wanted: u64,
    is_strict: bool,
}

/// The bounds of a taskloop, stored in its task.
struct Bounds {
    lower: *mut u64,
    upper: *mut u64,
    step: i64,
}

/// A function without borrows from its caller, since the caller may return before the call.
fn outliving<F: Fn(&mut Numbers) + 'static>(run: F) -> F {
    run
}

/// The original of copied tasks: it is never run.
struct Pattern(*mut Record);

impl Drop for Pattern {
    fn drop(&mut self) {
        // SAFETY: rule "Record": the pattern is never spawned, and the last of its users drops it.
        unsafe { tasks::drop_record(self.0) };
    }
}

type Duplicate = unsafe extern "C-unwind" fn(*mut KmpTask, *mut KmpTask, i32);

/// Makes the tasks of a taskloop.
///
/// # Safety
/// Rule "Interface": the arguments are clang's, of a taskloop.
unsafe fn cut_loop(
    pattern: *mut KmpTask,
    if_clause: bool,
    bounds: Bounds,
    has_no_group: bool,
    cutting: Cutting,
    duplicate: *const (),
) {
    // SAFETY: rule "Interface": the caller's promise. Rule "Record": the pattern stays until the last task is made, and
    // each task's record is new until it is spawned. The bounds lie within the task's data, at the same offset in each
    // copy.
    unsafe {
        let record = record_of(pattern);
        let Bounds { lower, upper, step } = bounds;
        let Cutting { sched, wanted, is_strict } = cutting;
        let (first, last) = (*lower, *upper);
        // Whether the bounds have a sign is not said: so by their distance. A loop without an iteration ends one before
        // it begins.
        let (distance, each) =
            if step >= 0 { (last.wrapping_sub(first), step) } else { (first.wrapping_sub(last), step) };
        let each = each.unsigned_abs().max(1);
        let is_empty = distance == each.wrapping_neg();
        let count = if is_empty { 0 } else { (distance / each).wrapping_add(1) };
        let is_dropped = crate::settings::get().cancels && tasks::is_dropped(here());
        if !has_no_group {
            tasks::begin_group();
        }
        if !is_dropped && count > 0 {
            let threads = u64::from(here().team().size);
            // Without a clause, some more tasks than threads.
            let wanted = if sched == 0 { 0 } else { wanted };
            let threads = if sched == 0 { threads * 10 } else { threads };
            let cuts = cut(count, wanted, sched == 1, is_strict, threads);
            let (lower_at, upper_at) =
                (lower.addr().wrapping_sub(pattern.addr()), upper.addr().wrapping_sub(pattern.addr()));
            let value = move |iteration: u64| first.wrapping_add(iteration.wrapping_mul(step as u64));
            let function = (*pattern).entry.map_or(0, |entry| entry as usize);
            let places = remembered(function, &[first, last, step as u64], cuts.tasks);
            let new_part = move |number: u64| {
                let (low, high) = cuts.part(count, number);
                let Code::Behind { bytes, shared_bytes } = (*record).code else { unreachable!("clang's is behind") };
                let (bytes, shared_bytes) = (bytes as usize, shared_bytes as usize);
                let task = new_task((*record).flags, bytes, shared_bytes, (*pattern).entry);
                let own_shareds = (*task).shareds;
                ptr::copy_nonoverlapping(pattern.cast::<u8>(), task.cast::<u8>(), bytes + shared_bytes);
                (*task).shareds = own_shareds;
                (*record_of(task)).task.is_final |= (*record).task.is_final;
                let is_last = number + 1 == cuts.tasks;
                *task.byte_add(lower_at).cast::<u64>() = value(low);
                *task.byte_add(upper_at).cast::<u64>() = if is_last { last } else { value(high - 1) };
                if !duplicate.is_null() {
                    let duplicate: Duplicate = std::mem::transmute(duplicate);
                    duplicate(task, pattern, i32::from(is_last));
                }
                task
            };
            // A taskwait waits for the children of its task. If another thread took a part of the range, the rest would
            // become such children.
            if if_clause && !has_no_group && places.is_none() && priority(record) == 0 {
                // The pattern is over with the last task.
                let pattern = Pattern(record);
                let run = move |numbers: &mut Numbers| {
                    let _pattern = &pattern;
                    numbers.for_each(|number| tasks::run_at_once(record_of(new_part(number))));
                };
                taskloop::run(cuts.tasks, outliving(run));
                return tasks::end_group();
            }
            for number in 0..cuts.tasks {
                let task = new_part(number);
                let own = record_of(task);
                let place = places.map(|places| &places[number as usize]);
                if place.is_some() {
                    let is_undeferred = !if_clause;
                    tasks::spawn(own, Clauses { is_undeferred, priority: priority(own), place, ..Clauses::default() });
                } else if if_clause {
                    spawn(task);
                } else {
                    tasks::run_at_once(own);
                }
            }
        }
        tasks::drop_record(record);
        if !has_no_group {
            tasks::end_group();
        }
    }
}
