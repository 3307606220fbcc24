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
use vicus::kit::team;
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

/// Memory of a program for a call of the system: its address, its bytes, and its use. Null is none.
struct Memory(*mut libc::c_void, usize, Use);

enum Use {
    /// The system reads it.
    Read,
    /// The system reads and writes it, or leaves some as it is.
    Changed,
    /// The system writes as many bytes as its result says.
    Filled,
}

impl Memory {
    fn read<T>(at: *const T, bytes: usize) -> Memory {
        Memory(at.cast_mut().cast(), bytes, Use::Read)
    }

    fn changed<T>(at: *mut T, bytes: usize) -> Memory {
        Memory(at.cast(), bytes, Use::Changed)
    }

    fn filled(at: *mut libc::c_void, bytes: usize) -> Memory {
        Memory(at, bytes, Use::Filled)
    }

    /// A copy; `None` if there is no memory for it.
    ///
    /// # Safety
    /// Rule "Interface": the program's memory for a call, not null.
    unsafe fn copied(&self) -> Option<Copied> {
        let Memory(at, bytes, how) = self;
        let mut copied: Copied = Vec::new();
        copied.try_reserve_exact(bytes.div_ceil(8)).ok()?;
        if !matches!(how, Use::Filled) {
            // SAFETY: the caller's promise; the copy has room for as many bytes.
            unsafe { ptr::copy_nonoverlapping(at.cast::<u8>(), copied.as_mut_ptr().cast(), *bytes) };
        }
        Some(copied)
    }

    /// Gives the program the bytes that the system has written into the copy.
    ///
    /// # Safety
    /// As [`Memory::copied`], whose copy the call has used, with this result.
    unsafe fn take_back(&self, copied: *const libc::c_void, result: i64) {
        let Memory(at, bytes, how) = self;
        let written = match how {
            Use::Read => 0,
            Use::Changed => *bytes,
            Use::Filled => usize::try_from(result).unwrap_or(0).min(*bytes),
        };
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(copied.cast::<u8>(), at.cast(), written) };
    }
}

/// Capacity as needed, and length 0. Words, since the system's structures are aligned like them.
type Copied = Vec<u64>;

/// The most bytes that the system reads or writes in one call.
const MOST_BYTES: usize = 0x7fff_f000;

/// A call that a helper makes. It uses copies of the caller's memory: when the library ends, the runtime unwinds the
/// caller, and the helper is still in the call.
struct Call {
    result: AtomicI64,
    error: AtomicI32,
    done: AtomicU64,
    /// The helper's until `done` is full, and then the caller's; by their addresses.
    _copies: Vec<Copied>,
}

/// Makes a call elsewhere, if the calling thread has others to run meanwhile. `call` gets the address of the memory to
/// use for each of `memory`.
///
/// # Safety
/// Rule "Interface": the program's memory for this call.
#[inline(never)]
unsafe fn blocking<const N: usize>(
    memory: [Memory; N],
    call: impl FnOnce([*mut libc::c_void; N]) -> i64 + Send + 'static,
) -> i64 {
    let mut addresses = memory.each_ref().map(|memory| Argument(memory.0));
    // A forked child has a copy of the helpers' state and no helper.
    if team::seat().is_none() || crate::library::is_forked() {
        return call(addresses.map(Argument::get));
    }
    let mut copies = Vec::new();
    // The main thread is never unwound, so a helper may use its memory.
    let are_copied = vicus::threads::is_thread();
    if are_copied {
        for (memory, address) in memory.iter().zip(&mut addresses).filter(|(memory, _)| !memory.0.is_null()) {
            // SAFETY: the caller's promise.
            let Some(mut copied) = (unsafe { memory.copied() }) else {
                // SAFETY: the calling thread's own.
                unsafe { *errno() = libc::ENOMEM };
                return -1;
            };
            *address = Argument(copied.as_mut_ptr().cast());
            copies.push(copied);
        }
    }
    let (result, error, done) = (AtomicI64::new(0), AtomicI32::new(0), AtomicU64::new(0));
    let made = Arc::new(Call { result, error, done, _copies: copies });
    full_empty::empty(&made.done);
    let theirs = Arc::clone(&made);
    let work = Box::new(move || {
        theirs.result.store(call(addresses.map(Argument::get)), Ordering::Relaxed);
        // SAFETY: the helper's own.
        theirs.error.store(unsafe { *errno() }, Ordering::Relaxed);
        full_empty::fill(&theirs.done);
    });
    if let Err(work) = hand_out(work) {
        work();
    }
    team::wait_outside(|| full_empty::read_ff(&made.done));
    let result = made.result.load(Ordering::Relaxed);
    for (memory, address) in memory.iter().zip(addresses).filter(|(memory, _)| are_copied && !memory.0.is_null()) {
        // SAFETY: the caller's promise; the helper has made the call, and the copy is still there.
        unsafe { memory.take_back(address.get(), result) };
    }
    // SAFETY: the calling thread's own.
    unsafe { *errno() = made.error.load(Ordering::Relaxed) };
    result
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
fn join(name: &CStr, thread: libc::pthread_t, result: *mut libc::c_void, bytes: usize) -> i32 {
    // SAFETY: both functions of the C library that are joined by have this type.
    let join = unsafe { std::mem::transmute::<*mut libc::c_void, Join>(system(name)) };
    // The calling thread's own end would not come on another thread either: the C library reports this error.
    // SAFETY: rule "System": no condition.
    let is_own = unsafe { libc::pthread_equal(thread, libc::pthread_self()) } != 0;
    if is_own || crate::library::is_ending() {
        // SAFETY: rule "Interface": the program's arguments of the same function.
        return unsafe { join(thread, result) };
    }
    // SAFETY: rule "Interface": the program's arguments of the same function.
    unsafe { blocking([Memory::changed(result, bytes)], move |[result]| i64::from(join(thread, result))) as i32 }
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
        join(c"pthread_join", thread, result.cast(), size_of::<*mut libc::c_void>())
    }

    fn thrd_join(thread: libc::pthread_t, result: *mut i32) -> i32 {
        join(c"thrd_join", thread, result.cast(), size_of::<i32>())
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
        // SAFETY: rule "Interface": the arguments of the system's call.
        unsafe {
            let bytes = if length.is_null() { 0 } else { *length as usize };
            let memory = [Memory::changed(address, bytes), Memory::changed(length, size_of::<libc::socklen_t>())];
            let accept = move |[address, length]: [*mut libc::c_void; 2]| {
                i64::from(libc::accept(socket, address.cast(), length.cast()))
            };
            blocking(memory, accept) as i32
        }
    }

    fn qt_connect(socket: i32, address: *const libc::sockaddr, length: libc::socklen_t) -> i32 {
        // SAFETY: rule "Interface": the arguments of the system's call.
        unsafe {
            let memory = [Memory::read(address, length as usize)];
            blocking(memory, move |[address]| i64::from(libc::connect(socket, address.cast(), length))) as i32
        }
    }

    fn qt_poll(files: *mut libc::pollfd, count: libc::nfds_t, timeout: i32) -> i32 {
        // SAFETY: rule "Interface": the arguments of the system's call.
        unsafe {
            let memory = [Memory::changed(files, (count as usize).saturating_mul(size_of::<libc::pollfd>()))];
            blocking(memory, move |[files]| i64::from(libc::poll(files.cast(), count, timeout))) as i32
        }
    }

    fn qt_pread(file: i32, to: *mut libc::c_void, bytes: usize, at: libc::off_t) -> isize {
        let bytes = bytes.min(MOST_BYTES);
        // SAFETY: rule "Interface": the arguments of the system's call.
        unsafe { blocking([Memory::filled(to, bytes)], move |[to]| libc::pread(file, to, bytes, at) as i64) as isize }
    }

    fn qt_pwrite(file: i32, from: *const libc::c_void, bytes: usize, at: libc::off_t) -> isize {
        let bytes = bytes.min(MOST_BYTES);
        // SAFETY: rule "Interface": the arguments of the system's call.
        unsafe {
            let write = move |[from]: [*mut libc::c_void; 1]| libc::pwrite(file, from, bytes, at) as i64;
            blocking([Memory::read(from, bytes)], write) as isize
        }
    }

    fn qt_read(file: i32, to: *mut libc::c_void, bytes: usize) -> isize {
        let bytes = bytes.min(MOST_BYTES);
        // SAFETY: rule "Interface": the arguments of the system's call.
        unsafe { blocking([Memory::filled(to, bytes)], move |[to]| libc::read(file, to, bytes) as i64) as isize }
    }

    fn qt_write(file: i32, from: *const libc::c_void, bytes: usize) -> isize {
        let bytes = bytes.min(MOST_BYTES);
        // SAFETY: rule "Interface": the arguments of the system's call.
        unsafe { blocking([Memory::read(from, bytes)], move |[from]| libc::write(file, from, bytes) as i64) as isize }
    }

    fn qt_select(
        count: i32,
        read: *mut libc::fd_set,
        write: *mut libc::fd_set,
        errors: *mut libc::fd_set,
        timeout: *mut libc::timeval,
    ) -> i32 {
        // The system uses the sets in words.
        let bytes = usize::try_from(count).unwrap_or(0).div_ceil(64) * 8;
        let [read, write, errors] = [read, write, errors].map(|set| Memory::changed(set, bytes));
        let memory = [read, write, errors, Memory::changed(timeout, size_of::<libc::timeval>())];
        // SAFETY: rule "Interface": the arguments of the system's call.
        unsafe {
            blocking(memory, move |[read, write, errors, timeout]| {
                i64::from(libc::select(count, read.cast(), write.cast(), errors.cast(), timeout.cast()))
            }) as i32
        }
    }

    fn qt_system(command: *const libc::c_char) -> i32 {
        // SAFETY: rule "Interface": null, or a text.
        unsafe {
            let bytes = if command.is_null() { 0 } else { libc::strlen(command) + 1 };
            blocking([Memory::read(command, bytes)], move |[command]| i64::from(libc::system(command.cast()))) as i32
        }
    }

    fn qt_wait4(child: libc::pid_t, status: *mut i32, options: i32, usage: *mut libc::rusage) -> libc::pid_t {
        let memory = [Memory::changed(status, size_of::<i32>()), Memory::changed(usage, size_of::<libc::rusage>())];
        // SAFETY: rule "Interface": the arguments of the system's call.
        unsafe {
            blocking(memory, move |[status, usage]| {
                i64::from(libc::wait4(child, status.cast(), options, usage.cast()))
            }) as libc::pid_t
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU8;
    use std::thread;
    use vicus::kit::machine::MachineRuntime;
    use vicus::threads::Builder;

    fn pipe() -> [i32; 2] {
        let mut ends = [0; 2];
        // SAFETY: rule "System": room for two.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        ends
    }

    fn unread(file: i32) -> i32 {
        let mut bytes = 0;
        // SAFETY: rule "System": room for the number.
        assert_eq!(unsafe { libc::ioctl(file, libc::FIONREAD, &raw mut bytes) }, 0);
        bytes
    }

    // A thread read into its frame, and the runtime ended and unwound it; its helper was still in the call, and later
    // wrote there.
    #[test]
    fn a_helper_does_not_write_into_an_unwound_frame() {
        let [out, into] = pipe();
        let (buffer, begun) = (Arc::new(AtomicU64::new(7)), Arc::new(AtomicU8::new(0)));
        let runtime: MachineRuntime = MachineRuntime::builder().threads(1).start();
        let (theirs, begins) = (Arc::clone(&buffer), Arc::clone(&begun));
        let reads = Builder::new().spawn_on(&runtime, move || {
            begins.store(1, Ordering::SeqCst);
            // SAFETY: rule "Interface": the arguments of `read`.
            unsafe { qt_read(out, theirs.as_ptr().cast(), 8) }
        });
        while begun.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        // Its helper is in the call by then, or takes it up soon.
        thread::sleep(Duration::from_millis(50));
        drop(runtime);
        assert!(reads.join().is_err(), "no byte has come");
        // SAFETY: rule "System": eight bytes.
        assert_eq!(unsafe { libc::write(into, [1_u8; 8].as_ptr().cast(), 8) }, 8);
        while unread(out) > 0 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(50));
        assert_eq!(buffer.load(Ordering::SeqCst), 7);
        // SAFETY: rule "System": files of this test.
        [out, into].into_iter().for_each(|file| _ = unsafe { libc::close(file) });
    }

    // Threads get what the system has written, and no more: a copy is as long as the program's memory.
    #[test]
    fn threads_read_poll_and_select_into_their_own_memory() {
        let [out, into] = pipe();
        let runtime: MachineRuntime = MachineRuntime::builder().threads(1).start();
        let all = move || {
            let (mut bytes, text) = ([7_u8; 8], b"abc");
            let mut files = [libc::pollfd { fd: out, events: libc::POLLIN, revents: 0 }; 2];
            files[1].fd = -1;
            // SAFETY: rule "Interface": the arguments of the system's calls.
            unsafe {
                assert_eq!(qt_poll(files.as_mut_ptr(), 2, 0), 0);
                assert_eq!(qt_write(into, text.as_ptr().cast(), 3), 3);
                assert_eq!(qt_poll(files.as_mut_ptr(), 2, -1), 1);
                assert_eq!((files[0].fd, files[0].revents, files[1].revents), (out, libc::POLLIN, 0));
                let (mut set, mut time) = (std::mem::zeroed(), libc::timeval { tv_sec: 9, tv_usec: 0 });
                libc::FD_SET(out, &raw mut set);
                libc::FD_SET(into, &raw mut set);
                let none = ptr::null_mut();
                assert_eq!(qt_select(out.max(into) + 1, &raw mut set, none, none, &raw mut time), 1);
                assert!(libc::FD_ISSET(out, &raw const set) && !libc::FD_ISSET(into, &raw const set));
                assert!(time.tv_sec <= 9);
                assert_eq!(qt_read(out, bytes.as_mut_ptr().cast(), 8), 3);
                assert_eq!(&bytes, b"abc\x07\x07\x07\x07\x07");
                assert_eq!(qt_read(-1, bytes.as_mut_ptr().cast(), 8), -1);
                assert_eq!((*errno(), &bytes), (libc::EBADF, b"abc\x07\x07\x07\x07\x07"));
            }
        };
        Builder::new().spawn_on(&runtime, all).join().unwrap();
        // SAFETY: rule "System": files of this test.
        [out, into].into_iter().for_each(|file| _ = unsafe { libc::close(file) });
    }
}
