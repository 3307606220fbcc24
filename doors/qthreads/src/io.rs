//! Calls of the system that may block, and values by key.
//!
//! A separate thread makes a call that may block, and the calling lightweight thread waits for it as for a word; so its
//! worker goes on with others.

use crate::codes::{BADARGS, SUCCESS};
use crate::exports;
use crate::fork::{Thread, here};
use crate::loops::Argument;
use std::collections::VecDeque;
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use vicus::team;
use vicus::threads::full_empty;

type Work = Box<dyn FnOnce() + Send>;

/// The work for helpers, and the number of idle ones.
struct Helpers {
    waiting: VecDeque<Work>,
    idle: usize,
}

static HELPERS: Mutex<Helpers> = Mutex::new(Helpers { waiting: VecDeque::new(), idle: 0 });
static CHANGED: Condvar = Condvar::new();

/// How long a helper waits for more.
const LAST: Duration = Duration::from_secs(1);

fn help() {
    let mut helpers = HELPERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    loop {
        if let Some(work) = helpers.waiting.pop_front() {
            drop(helpers);
            work();
            helpers = HELPERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            continue;
        }
        helpers.idle += 1;
        let waited = CHANGED.wait_timeout(helpers, LAST).unwrap_or_else(|poisoned| poisoned.into_inner());
        helpers = waited.0;
        helpers.idle -= 1;
        if waited.1.timed_out() && helpers.waiting.is_empty() {
            return;
        }
    }
}

/// Hands work to a helper; gives it back if there is none to be had.
fn hand_out(work: Work) -> Result<(), Work> {
    let mut helpers = HELPERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    helpers.waiting.push_back(work);
    if helpers.idle >= helpers.waiting.len() {
        CHANGED.notify_one();
        return Ok(());
    }
    let started = std::thread::Builder::new().name("vicus io".to_owned()).spawn(help);
    match started {
        Ok(_) => Ok(()),
        Err(_) => Err(helpers.waiting.pop_back().expect("it was just put there")),
    }
}

fn errno() -> *mut i32 {
    // SAFETY: rule "System": no argument.
    unsafe { libc::__errno_location() }
}

/// A call that a helper makes. The caller does not lend it from its frame: when the library ends, the runtime unwinds
/// the caller, and the helper is still in the call.
struct Call {
    result: AtomicI64,
    error: AtomicI32,
    done: AtomicU64,
}

/// Makes a call elsewhere, if the calling thread has others to run meanwhile.
#[inline(never)]
fn blocking(call: impl Fn() -> i64 + Send + 'static) -> i64 {
    // A forked child has a copy of the helpers' state and no helper.
    if team::seat().is_none() || crate::library::is_forked() {
        return call();
    }
    let made = Arc::new(Call { result: AtomicI64::new(0), error: AtomicI32::new(0), done: AtomicU64::new(0) });
    full_empty::empty(&made.done);
    let theirs = Arc::clone(&made);
    let work = Box::new(move || {
        theirs.result.store(call(), Ordering::Relaxed);
        // SAFETY: the helper's own.
        theirs.error.store(unsafe { *errno() }, Ordering::Relaxed);
        full_empty::fill(&theirs.done);
    });
    if let Err(work) = hand_out(work) {
        work();
    }
    team::wait_outside(|| full_empty::read_ff(&made.done));
    // SAFETY: the calling thread's own.
    unsafe { *errno() = made.error.load(Ordering::Relaxed) };
    made.result.load(Ordering::Relaxed)
}

/// The C library's function of this name; this library's own is found first in its place.
fn system(name: &CStr) -> *mut libc::c_void {
    // SAFETY: rule "System": the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "the C library has {name:?}");
    found
}

type Join = unsafe extern "C-unwind" fn(libc::pthread_t, *mut libc::c_void) -> i32;

/// Joins a thread of the system, like the C library's function of this name. The joined thread may wait for threads of
/// this library, so they go on meanwhile.
fn join(name: &CStr, thread: libc::pthread_t, result: *mut libc::c_void) -> i32 {
    // SAFETY: both functions of the C library that are joined by have this type.
    let join = unsafe { std::mem::transmute::<*mut libc::c_void, Join>(system(name)) };
    // The calling thread's own end would not come on another thread either: the C library reports this error.
    // SAFETY: rule "System": no condition.
    let is_own = unsafe { libc::pthread_equal(thread, libc::pthread_self()) } != 0;
    if is_own || crate::library::is_ending() {
        // SAFETY: rule "Interface": the program's arguments of the same function.
        return unsafe { join(thread, result) };
    }
    let result = Argument(result);
    // SAFETY: rule "Interface": the program's arguments of the same function.
    blocking(move || i64::from(unsafe { join(thread, result.get()) })) as i32
}

/// Destructors by key; `None` for deleted ones.
static KEYS: Mutex<Vec<Option<Destructor>>> = Mutex::new(Vec::new());

type Function = unsafe extern "C-unwind" fn(*mut libc::c_void);

#[derive(Clone, Copy)]
struct Destructor(Option<Function>);

/// How often the values of a thread are destroyed, since destructors may set new ones.
const ROUNDS: usize = 4;

/// Destroys the values of an ending thread.
pub(crate) fn drop_values(thread: &Thread) {
    for _ in 0..ROUNDS {
        // SAFETY: rule "Thread": its own values, and no program's code runs here.
        let values = std::mem::take(unsafe { &mut *thread.values.get() });
        if values.is_empty() {
            return;
        }
        for (key, value) in values.into_iter().filter(|(_, value)| !value.is_null()) {
            let keys = KEYS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let destructor = keys.get(key).copied().flatten().and_then(|destructor| destructor.0);
            drop(keys);
            if let Some(destructor) = destructor {
                // SAFETY: rule "Interface": the program's function for values of this key.
                unsafe { destructor(value) };
            }
        }
    }
}

thread_local! {
    /// Values of threads from outside.
    static OUTSIDE: std::cell::RefCell<Vec<(usize, *mut libc::c_void)>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Keys are numbers from 1 on, as pointers.
fn key_of(key: *mut *mut libc::c_void) -> usize {
    key.addr().wrapping_sub(1)
}

fn with_values<R>(f: impl FnOnce(&mut Vec<(usize, *mut libc::c_void)>) -> R) -> R {
    match here() {
        // SAFETY: rule "Thread": its own values, and `f` calls nothing back.
        Some(thread) => f(unsafe { &mut *thread.values.get() }),
        None => OUTSIDE.with(|values| f(&mut values.borrow_mut())),
    }
}

exports! {
    fn pthread_join(thread: libc::pthread_t, result: *mut *mut libc::c_void) -> i32 {
        join(c"pthread_join", thread, result.cast())
    }

    fn thrd_join(thread: libc::pthread_t, result: *mut i32) -> i32 {
        join(c"thrd_join", thread, result.cast())
    }

    fn qt_begin_blocking_action() {
        if let Some(thread) = here() {
            thread.is_blocking.set(true);
            // Its worker is about to block: another thread of the system works for it meanwhile.
            let lent = thread.lent.take().or_else(team::lend);
            thread.lent.set(lent);
        }
    }

    fn qt_end_blocking_action() {
        if let Some(thread) = here() {
            thread.is_blocking.set(false);
            thread.lent.set(None);
        }
    }

    fn qthread_key_create(key: *mut *mut *mut libc::c_void, destructor: Option<Function>) -> i32 {
        if key.is_null() {
            return BADARGS;
        }
        let mut keys = KEYS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        keys.push(Some(Destructor(destructor)));
        // SAFETY: rule "Interface": it can be written.
        unsafe { *key = ptr::without_provenance_mut(keys.len()) };
        SUCCESS
    }

    fn qthread_key_delete(key: *mut *mut libc::c_void) -> i32 {
        let mut keys = KEYS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match keys.get_mut(key_of(key)).filter(|destructor| destructor.is_some()) {
            Some(destructor) => {
                *destructor = None;
                SUCCESS
            }
            None => BADARGS,
        }
    }

    fn qthread_getspecific(key: *mut *mut libc::c_void) -> *mut libc::c_void {
        let key = key_of(key);
        with_values(|values| {
            values.iter().find(|(of, _)| *of == key).map_or(ptr::null_mut(), |(_, value)| *value)
        })
    }

    fn qthread_setspecific(key: *mut *mut libc::c_void, value: *const libc::c_void) -> i32 {
        let (key, value) = (key_of(key), value.cast_mut());
        let keys = KEYS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if keys.get(key).copied().flatten().is_none() {
            return BADARGS;
        }
        drop(keys);
        with_values(|values| match values.iter_mut().find(|(of, _)| *of == key) {
            Some(own) => own.1 = value,
            None => values.push((key, value)),
        });
        SUCCESS
    }

    fn qt_accept(socket: i32, address: *mut libc::sockaddr, length: *mut libc::socklen_t) -> i32 {
        let (address, length) = (Argument(address.cast()), Argument(length.cast()));
        // SAFETY: rule "Interface": the arguments of the system's call, which the program keeps as they are during it.
        blocking(move || i64::from(unsafe { libc::accept(socket, address.get().cast(), length.get().cast()) })) as i32
    }

    fn qt_connect(socket: i32, address: *const libc::sockaddr, length: libc::socklen_t) -> i32 {
        let address = Argument(address.cast_mut().cast());
        // SAFETY: rule "Interface": the arguments of the system's call, which the program keeps as they are during it.
        blocking(move || i64::from(unsafe { libc::connect(socket, address.get().cast(), length) })) as i32
    }

    fn qt_poll(files: *mut libc::pollfd, count: libc::nfds_t, timeout: i32) -> i32 {
        let files = Argument(files.cast());
        // SAFETY: rule "Interface": the arguments of the system's call, which the program keeps as they are during it.
        blocking(move || i64::from(unsafe { libc::poll(files.get().cast(), count, timeout) })) as i32
    }

    fn qt_pread(file: i32, to: *mut libc::c_void, bytes: usize, at: libc::off_t) -> isize {
        let to = Argument(to);
        // SAFETY: rule "Interface": the arguments of the system's call, which the program keeps as they are during it.
        blocking(move || unsafe { libc::pread(file, to.get(), bytes, at) } as i64) as isize
    }

    fn qt_pwrite(file: i32, from: *const libc::c_void, bytes: usize, at: libc::off_t) -> isize {
        let from = Argument(from.cast_mut());
        // SAFETY: rule "Interface": the arguments of the system's call, which the program keeps as they are during it.
        blocking(move || unsafe { libc::pwrite(file, from.get(), bytes, at) } as i64) as isize
    }

    fn qt_read(file: i32, to: *mut libc::c_void, bytes: usize) -> isize {
        let to = Argument(to);
        // SAFETY: rule "Interface": the arguments of the system's call, which the program keeps as they are during it.
        blocking(move || unsafe { libc::read(file, to.get(), bytes) } as i64) as isize
    }

    fn qt_write(file: i32, from: *const libc::c_void, bytes: usize) -> isize {
        let from = Argument(from.cast_mut());
        // SAFETY: rule "Interface": the arguments of the system's call, which the program keeps as they are during it.
        blocking(move || unsafe { libc::write(file, from.get(), bytes) } as i64) as isize
    }

    fn qt_select(
        count: i32,
        read: *mut libc::fd_set,
        write: *mut libc::fd_set,
        errors: *mut libc::fd_set,
        timeout: *mut libc::timeval,
    ) -> i32 {
        let [read, write, errors] = [read, write, errors].map(|set| Argument(set.cast()));
        let timeout = Argument(timeout.cast());
        blocking(move || {
            let (read, write, errors) = (read.get().cast(), write.get().cast(), errors.get().cast());
            // SAFETY: rule "Interface": the arguments of the system's call, which the program keeps as they are during
            // it.
            i64::from(unsafe { libc::select(count, read, write, errors, timeout.get().cast()) })
        }) as i32
    }

    fn qt_system(command: *const libc::c_char) -> i32 {
        let command = Argument(command.cast_mut().cast());
        // SAFETY: rule "Interface": the arguments of the system's call, which the program keeps as they are during it.
        blocking(move || i64::from(unsafe { libc::system(command.get().cast()) })) as i32
    }

    fn qt_wait4(child: libc::pid_t, status: *mut i32, options: i32, usage: *mut libc::rusage) -> libc::pid_t {
        let (status, usage) = (Argument(status.cast()), Argument(usage.cast()));
        // SAFETY: rule "Interface": the arguments of the system's call, which the program keeps as they are during it.
        let call = move || i64::from(unsafe { libc::wait4(child, status.get().cast(), options, usage.get().cast()) });
        blocking(call) as libc::pid_t
    }
}
