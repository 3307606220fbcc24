//! Tasks as functions of C: run and joined, in scopes, as children, and loops over ranges.

use crate::error::{DropFn, Failure, Outcome, as_state, guard, guard_or, guard_spawn, status};
use crate::runtime::{Threads, within};
use crate::text::{array, handle, output};
use crate::topology::vicus_place;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Mutex, PoisonError};
use vicus::tasks::{self, Access, Mode, Scope, is_in_runtime};

/// `vicus_task_fn`.
pub(crate) type TaskFn = unsafe extern "C" fn(data: *mut c_void) -> i32;

/// `vicus_scope_fn`.
type ScopeFn = unsafe extern "C" fn(scope: *mut vicus_scope, data: *mut c_void) -> i32;

/// `vicus_piece_fn`.
pub(crate) type PieceFn = unsafe extern "C" fn(data: *mut c_void, begin: usize, end: usize) -> i32;

/// `vicus_thread_fn`.
type ThreadFn = unsafe extern "C" fn(data: *mut c_void, thread: u32, threads: u32) -> i32;

/// A scope, visible to C as a pointer alone.
#[allow(non_camel_case_types, reason = "the name that the header has")]
pub(crate) type vicus_scope = Scope<'static>;

/// The data of a callback, on its way between threads.
#[derive(Clone, Copy)]
pub(crate) struct Data(pub(crate) *mut c_void);

// SAFETY: rule "Callbacks": it is used on any thread.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

/// A function of C with its own data.
pub(crate) struct Call {
    function: TaskFn,
    owned: Owned,
}

/// Data with a function of C to free it.
pub(crate) struct Owned {
    pub(crate) data: Data,
    drop: Option<DropFn>,
}

impl Owned {
    pub(crate) fn new(data: *mut c_void, drop: Option<DropFn>) -> Owned {
        Owned { data: Data(data), drop }
    }
}

impl Drop for Owned {
    #[inline]
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: rule "Callbacks".
            unsafe { drop(self.data.0) }
        }
    }
}

impl Call {
    /// Takes the data in any case.
    #[inline]
    pub(crate) fn new(function: Option<TaskFn>, data: *mut c_void, drop: Option<DropFn>) -> Outcome<Call> {
        let owned = Owned::new(data, drop);
        match function {
            Some(function) => Ok(Call { function, owned }),
            None => Err(Failure::argument("`function` is null")),
        }
    }

    /// Calls it, and frees its data. How it has ended.
    pub(crate) fn outcome(self) -> Outcome {
        // SAFETY: rule "Callbacks".
        ended(unsafe { (self.function)(self.owned.data.0) })
    }

    /// Calls it in a task: its failure goes to the task's waiter.
    #[inline]
    fn run(self) {
        // SAFETY: rule "Callbacks".
        let status = unsafe { (self.function)(self.owned.data.0) };
        if status != status::OK {
            fail(status);
        }
    }
}

/// How a callback has ended.
#[inline]
pub(crate) fn ended(status: i32) -> Outcome {
    if status == status::OK { Ok(()) } else { Err(Failure::of_callback(status)) }
}

#[cold]
fn fail(status: i32) -> ! {
    Failure::of_callback(status).travel()
}

fn function<F>(function: Option<F>) -> Outcome<F> {
    function.ok_or_else(|| Failure::argument("`function` is null"))
}

/// The result of a wait, with a travelled panic as its failure.
fn arrived<T>(body: impl FnOnce() -> T) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(body)).map_err(Failure::of_panic)
}

/// `vicus_access`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "the name that the header has")]
pub(crate) struct vicus_access {
    /// The address of its first byte.
    pub(crate) address: *const c_void,
    /// How long a stretch is.
    pub(crate) bytes: usize,
    /// How many stretches there are; 0 and 1 are one.
    pub(crate) rows: usize,
    /// The distance from one stretch to the next, in bytes.
    pub(crate) stride: usize,
    /// The mode of the access, from `access`.
    pub(crate) mode: u32,
    /// Bits of `access`.
    pub(crate) flags: u32,
}

/// The modes and flags of accesses, by the numbers of the header.
pub(crate) mod access {
    pub(crate) const READ: u32 = 1;
    pub(crate) const WRITE: u32 = 2;
    pub(crate) const READ_WRITE: u32 = 3;
    pub(crate) const CONCURRENT: u32 = 4;
    pub(crate) const COMMUTATIVE: u32 = 5;
    pub(crate) const INTENSE: u32 = 1;
    pub(crate) const STREAMS: u32 = 2;
}

impl vicus_access {
    fn get(&self) -> Outcome<Access> {
        let mode = match self.mode {
            access::READ => Mode::Read,
            access::WRITE => Mode::Write,
            access::READ_WRITE => Mode::ReadWrite,
            access::CONCURRENT => Mode::Concurrent,
            access::COMMUTATIVE => Mode::Commutative,
            other => {
                return Err(Failure::argument(format_args!("there is no mode of an access with the number {other}")));
            }
        };
        if self.rows > 1 && self.stride < self.bytes {
            return Err(Failure::argument("the stride of an access is smaller than its stretches"));
        }
        if self.flags & !(access::INTENSE | access::STREAMS) != 0 {
            return Err(Failure::argument("an access has a flag that is not known"));
        }
        let mut access = Access::new(self.address.addr(), self.bytes, mode);
        if self.rows > 1 {
            access = access.rows(self.rows, self.stride);
        }
        (access.intense, access.streams) = (self.flags & access::INTENSE != 0, self.flags & access::STREAMS != 0);
        Ok(access)
    }
}

/// `vicus_task_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "the name that the header has")]
pub(crate) struct vicus_task_options {
    /// The bytes of the program's structure: it may be older, and shorter.
    pub(crate) size: u32,
    /// Bits of `task`.
    pub(crate) flags: u32,
    /// Order and place follow from these.
    pub(crate) follows: *const vicus_access,
    /// How many.
    pub(crate) follows_count: usize,
    /// Its place alone follows from these.
    pub(crate) touches: *const vicus_access,
    /// How many.
    pub(crate) touches_count: usize,
    /// The place to run at.
    pub(crate) place: vicus_place,
    /// The largest is taken first.
    pub(crate) priority: i32,
    /// For later.
    pub(crate) reserved: u32,
}

/// The flags of tasks, by the numbers of the header.
pub(crate) mod task {
    pub(crate) const IMMEDIATE: u32 = 1;
    pub(crate) const DEFERRED: u32 = 2;
    pub(crate) const PRIORITY: u32 = 4;
}

/// The checked options of a task.
#[derive(Default)]
struct TaskOptions {
    immediate: bool,
    deferred: bool,
    follows: Vec<Access>,
    touches: Vec<Access>,
    place: Option<vicus::Place>,
    priority: Option<i32>,
}

impl TaskOptions {
    /// # Safety
    /// Rules "Handles" and "Arrays".
    unsafe fn new(options: *const vicus_task_options) -> Outcome<TaskOptions> {
        // SAFETY: rule "Handles"; the size is the first field of every version.
        let Some(size) = (unsafe { options.cast::<u32>().as_ref() }) else { return Ok(TaskOptions::default()) };
        if *size as usize != size_of::<vicus_task_options>() {
            let message = format!("`options.size` is {size}: begin with VICUS_TASK_OPTIONS_INIT, which sets it");
            return Err(Failure::argument(message));
        }
        // SAFETY: the structure is whole, as its size says.
        let options = unsafe { &*options };
        if options.flags & !(task::IMMEDIATE | task::DEFERRED | task::PRIORITY) != 0 {
            return Err(Failure::argument("the options of a task have a flag that is not known"));
        }
        // SAFETY: rule "Arrays".
        let (follows, touches) = unsafe {
            (
                array(options.follows, options.follows_count, "follows")?,
                array(options.touches, options.touches_count, "touches")?,
            )
        };
        let all = |accesses: &[vicus_access]| accesses.iter().map(vicus_access::get).collect::<Outcome<Vec<Access>>>();
        Ok(TaskOptions {
            immediate: options.flags & task::IMMEDIATE != 0,
            deferred: options.flags & task::DEFERRED != 0,
            follows: all(follows)?,
            touches: all(touches)?,
            place: options.place.get()?,
            priority: (options.flags & task::PRIORITY != 0).then_some(options.priority),
        })
    }
}

impl TaskOptions {
    /// The data used first by the task, if some memory is to move to a task that uses it.
    fn awaited(&self) -> Vec<Access> {
        if !vicus::kit::awaits_touch() {
            return Vec::new();
        }
        self.follows.iter().chain(&self.touches).cloned().collect()
    }
}

/// # Safety
/// Rules "Handles" and "Callbacks".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_run(runtime: *const Threads, f: Option<TaskFn>, data: *mut c_void) -> i32 {
    guard(|| {
        let (f, data) = (function(f)?, Data(data));
        // SAFETY: rules "Handles" and "Callbacks".
        unsafe {
            within(runtime, move || {
                let data = data;
                ended(f(data.0))
            })
        }
    })
}

/// # Safety
/// Rules "Handles" and "Callbacks".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_join(
    runtime: *const Threads,
    a: Option<TaskFn>,
    a_data: *mut c_void,
    b: Option<TaskFn>,
    b_data: *mut c_void,
) -> i32 {
    guard(|| {
        let (a, a_data, b, b_data) = (function(a)?, Data(a_data), function(b)?, Data(b_data));
        let both = move || {
            let (a_data, b_data) = (a_data, b_data);
            // SAFETY: rule "Callbacks".
            let joined =
                tasks::join(move || ended(unsafe { a(whole(&a_data)) }), move || ended(unsafe { b(whole(&b_data)) }));
            joined.0.and(joined.1)
        };
        // SAFETY: rule "Handles".
        unsafe { within(runtime, both) }
    })
}

/// The pointer of data captured as a whole by a closure: the pointer by itself could not be sent.
pub(crate) fn whole(data: &Data) -> *mut c_void {
    data.0
}

/// # Safety
/// Rules "Handles" and "Callbacks".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_scope_run(runtime: *const Threads, f: Option<ScopeFn>, data: *mut c_void) -> i32 {
    guard(|| {
        let (f, data) = (function(f)?, Data(data));
        let all = move || {
            arrived(|| {
                tasks::scope(|scope: &Scope<'static>| {
                    // SAFETY: rule "Callbacks". The pointer is good until the scope has ended, as the header says.
                    ended(unsafe { f(ptr::from_ref(scope).cast_mut(), whole(&data)) })
                })
            })?
        };
        // SAFETY: rule "Handles".
        unsafe { within(runtime, all) }
    })
}

/// # Safety
/// Rules "Handles" and "Callbacks".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_scope_spawn(
    scope: *const vicus_scope,
    function: Option<TaskFn>,
    data: *mut c_void,
    drop: Option<DropFn>,
) -> i32 {
    let call = Call::new(function, data, drop);
    guard_spawn(|| {
        let call = call?;
        // SAFETY: rule "Handles": it is used in its tasks, before it ends.
        let scope = unsafe { handle(scope, "scope") }?;
        scope.spawn(move |_| call.run());
        Ok(())
    })
}

/// # Safety
/// Rules "Handles", "Callbacks" and "Arrays".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_scope_spawn_with(
    scope: *const vicus_scope,
    function: Option<TaskFn>,
    data: *mut c_void,
    drop: Option<DropFn>,
    options: *const vicus_task_options,
) -> i32 {
    let call = Call::new(function, data, drop);
    guard(|| {
        let call = call?;
        // SAFETY: rule "Handles": it is used in its tasks, before it ends.
        let scope = unsafe { handle(scope, "scope") }?;
        // SAFETY: rules "Handles" and "Arrays".
        let said = unsafe { TaskOptions::new(options) }?;
        let mut task = scope.task();
        if !said.follows.is_empty() {
            task = task.follows(&said.follows);
        }
        if !said.touches.is_empty() {
            task = task.touches(&said.touches);
        }
        // A task of a scope without options set is immediate, as without options.
        let says_nothing = said.follows.is_empty() && said.touches.is_empty() && said.place.is_none();
        if said.immediate || (says_nothing && !said.deferred && said.priority.is_none()) {
            task = task.immediate();
        }
        if let Some(place) = said.place {
            task = task.at(place);
        }
        if let Some(priority) = said.priority {
            task = task.priority(priority);
        }
        let awaited = said.awaited();
        as_state(|| {
            task.spawn(move |()| {
                vicus::kit::touch(&awaited);
                call.run();
            });
        })
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_scope_cancel(scope: *const vicus_scope) {
    guard_or((), || {
        // SAFETY: rule "Handles".
        if let Some(scope) = unsafe { scope.as_ref() } {
            scope.cancel();
        }
    });
}

/// Checks that the calling thread runs a task or a box; the calls below need one.
fn in_task(what: &str) -> Outcome {
    if is_in_runtime() {
        return Ok(());
    }
    Err(Failure::state(format_args!("{what} is called in a task or a box; vicus_run begins one")))
}

/// # Safety
/// Rules "Callbacks" and "Arrays".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_spawn(
    function: Option<TaskFn>,
    data: *mut c_void,
    drop: Option<DropFn>,
    options: *const vicus_task_options,
) -> i32 {
    let call = Call::new(function, data, drop);
    guard(|| {
        let call = call?;
        in_task("vicus_spawn")?;
        if options.is_null() {
            vicus::kit::spawn_child(move || call.run());
            return Ok(());
        }
        // SAFETY: rules "Handles" and "Arrays".
        let said = unsafe { TaskOptions::new(options) }?;
        let mut child = tasks::child();
        if !said.follows.is_empty() {
            child = child.follows(&said.follows);
        }
        if !said.touches.is_empty() {
            child = child.touches(&said.touches);
        }
        if said.deferred {
            child = child.deferred();
        }
        if let Some(place) = said.place {
            child = child.at(place);
        }
        if let Some(priority) = said.priority {
            child = child.priority(priority);
        }
        let awaited = said.awaited();
        as_state(|| {
            child.spawn(move || {
                vicus::kit::touch(&awaited);
                call.run();
            });
        })
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_wait() -> i32 {
    guard(|| {
        in_task("vicus_wait")?;
        as_state(tasks::wait_for_children)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_group_open() -> i32 {
    guard(|| {
        in_task("vicus_group_open")?;
        as_state(vicus::kit::open_group)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_group_close() -> i32 {
    guard(|| {
        in_task("vicus_group_close")?;
        as_state(vicus::kit::close_group)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_group_cancel() -> i32 {
    guard(|| {
        in_task("vicus_group_cancel")?;
        as_state(vicus::kit::cancel_group)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_is_cancelled() -> i32 {
    guard_or(0, || i32::from(tasks::is_cancelled()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn vicus_is_in_task() -> i32 {
    guard_or(0, || i32::from(is_in_runtime()))
}

/// # Safety
/// Rules "Handles" and "Callbacks".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_for_each(
    runtime: *const Threads,
    begin: usize,
    end: usize,
    f: Option<PieceFn>,
    data: *mut c_void,
) -> i32 {
    guard(|| {
        let (f, data) = (function(f)?, Data(data));
        let all = move || {
            arrived(|| {
                tasks::for_each_piece(begin..end, |piece| {
                    // SAFETY: rule "Callbacks".
                    let status = unsafe { f(whole(&data), piece.start, piece.end) };
                    if status != status::OK {
                        fail(status);
                    }
                });
            })
        };
        // SAFETY: rule "Handles".
        unsafe { within(runtime, all) }
    })
}

/// `vicus_map_fn`.
type MapFn = unsafe extern "C" fn(data: *mut c_void, begin: usize, end: usize, value: *mut c_void) -> i32;

/// `vicus_combine_fn`.
type CombineFn = unsafe extern "C" fn(data: *mut c_void, value: *mut c_void, next: *const c_void) -> i32;

/// # Safety
/// Rules "Handles" and "Callbacks"; `value` has `bytes` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_reduce(
    runtime: *const Threads,
    begin: usize,
    end: usize,
    map: Option<MapFn>,
    combine: Option<CombineFn>,
    data: *mut c_void,
    value: *mut c_void,
    bytes: usize,
) -> i32 {
    guard(|| {
        let (map, combine, data) = (function(map)?, function(combine)?, Data(data));
        let value = Data(output(value, "value")?);
        // Words with the alignment of C's strictest type.
        let words = bytes.div_ceil(size_of::<u128>());
        let mut first = vec![0u128; words];
        // SAFETY: the caller's value has `bytes` bytes, and so has the copy.
        unsafe { first.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(value.0.cast(), bytes) };
        let values: Mutex<Vec<(usize, Vec<u128>)>> = Mutex::default();
        let all = || {
            arrived(|| {
                tasks::for_each_piece(begin..end, |piece| {
                    let mut own = first.clone();
                    // SAFETY: rule "Callbacks"; the value has the size and the alignment promised by the header.
                    let status = unsafe { map(whole(&data), piece.start, piece.end, own.as_mut_ptr().cast()) };
                    if status != status::OK {
                        fail(status);
                    }
                    values.lock().unwrap_or_else(PoisonError::into_inner).push((piece.start, own));
                });
            })
        };
        // SAFETY: rule "Handles".
        unsafe { within(runtime, all) }?;
        let mut values = values.into_inner().unwrap_or_else(PoisonError::into_inner);
        values.sort_unstable_by_key(|(start, _)| *start);
        for (_, next) in values {
            // SAFETY: rule "Callbacks"; both have `bytes` bytes.
            ended(unsafe { combine(whole(&data), value.0, next.as_ptr().cast()) })?;
        }
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Callbacks".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_on_each_thread(
    runtime: *const Threads,
    f: Option<ThreadFn>,
    data: *mut c_void,
) -> i32 {
    guard(|| {
        let (f, data) = (function(f)?, Data(data));
        // SAFETY: rule "Handles".
        let threads = unsafe { crate::runtime::threads(runtime) }?;
        arrived(|| {
            threads.runtime().on_each_thread(|thread, threads| {
                // SAFETY: rule "Callbacks".
                let status = unsafe { f(whole(&data), thread as u32, threads as u32) };
                if status != status::OK {
                    fail(status);
                }
            });
        })
    })
}
